//! Jobs in a transaction of the program's own: there with its commit, never there without it, and a worker is woken.

use crate::world::World;
use punctual::{Context, Error, JobHandle, JobState, Punctual, TaskError};
use punctual_testkit::postgres::Database;
use sqlx::Connection as _;
use std::time::Duration;
use tokio::sync::oneshot;

/// A worker that never looks by itself: what it finds, it was told of.
async fn idle_worker(url: &str) -> (Punctual, oneshot::Sender<()>, tokio::task::JoinHandle<punctual::Result<()>>) {
    let worker = Punctual::builder(url).poll(Duration::from_secs(3600)).open().await.unwrap();
    worker.task("echo", |_: Context, words: String| async move { Ok::<_, TaskError>(words) });
    let (stop, stopped) = oneshot::channel();
    let node = worker.clone();
    let run = tokio::spawn(async move { node.run_until(async { drop(stopped.await) }).await });
    // It runs something first, and goes to sleep afterwards.
    assert_eq!(worker.enqueue("echo", "first").send_and_wait::<String>().await.unwrap(), "first");
    (worker, stop, run)
}

async fn assert_never_there(punctual: &Punctual, jobs: &[JobHandle]) {
    for job in jobs {
        assert!(matches!(punctual.job(job.id()).await, Err(Error::NoSuchJob(_))));
    }
}

async fn assert_runs(jobs: Vec<JobHandle>, words: &[&str]) {
    assert_eq!(jobs.len(), words.len());
    for (job, words) in jobs.iter().zip(words) {
        assert_eq!(job.wait::<String>().await.unwrap(), *words);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_rusqlite_commits_the_job_with_the_row_or_neither() {
    let world = World::on_sqlite().await;
    let (punctual, stop, run) = idle_worker(&world.url).await;
    let path = world.url.strip_prefix("sqlite:").unwrap().to_owned();
    let mut connection = rusqlite::Connection::open(&path).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    connection.execute_batch("CREATE TABLE users (name TEXT UNIQUE)").unwrap();

    let mut tx = connection.transaction().unwrap();
    tx.execute("INSERT INTO users VALUES ('ada')", []).unwrap();
    let one = punctual.enqueue("echo", "lost").send_in(&mut tx).unwrap();
    let more = punctual.enqueue_many("echo", ["lost", "too"]).send_in(&mut tx).unwrap();
    drop(tx);
    assert_never_there(&punctual, &[vec![one], more].concat()).await;

    let mut tx = connection.transaction().unwrap();
    tx.execute("INSERT INTO users VALUES ('ada')", []).unwrap();
    assert!(matches!(punctual.enqueue("echo", "x").queue("").send_in(&mut tx), Err(Error::Invalid(_))));
    let one = punctual.enqueue("echo", "kept").job_key("k").send_in(&mut tx).unwrap();
    let more = punctual.enqueue_many("echo", ["and", "more"]).send_in(&mut tx).unwrap();
    assert!(matches!(punctual.job(one.id()).await, Err(Error::NoSuchJob(_))), "not before the commit");
    tx.commit().unwrap();
    assert_runs([vec![one], more].concat(), &["kept", "and", "more"]).await;

    stop.send(()).unwrap();
    run.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_rusqlite_on_another_file_or_another_store_is_refused() {
    let (world, other) = (World::on_sqlite().await, World::on_sqlite().await);
    let punctual = Punctual::open(&world.url).await.unwrap();
    for path in [other.url.strip_prefix("sqlite:").unwrap(), ":memory:"] {
        let mut connection = rusqlite::Connection::open(path).unwrap();
        let mut tx = connection.transaction().unwrap();
        match punctual.enqueue("echo", "x").send_in(&mut tx) {
            Err(Error::Invalid(why)) => assert_eq!(why.field, "transaction"),
            other => panic!("expected a refusal, got {other:?}"),
        }
    }
    let on_postgres = World::on_postgres().await;
    let elsewhere = Punctual::open(&on_postgres.url).await.unwrap();
    let mut connection = rusqlite::Connection::open(world.url.strip_prefix("sqlite:").unwrap()).unwrap();
    let mut tx = connection.transaction().unwrap();
    assert!(matches!(elsewhere.enqueue("echo", "x").send_in(&mut tx), Err(Error::OtherDatabase { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_tokio_postgres_commits_the_job_with_the_row_or_neither() {
    let database = Database::empty().await;
    let (punctual, stop, run) = idle_worker(&database.url()).await;
    let mut client = database.connect().await;
    client.batch_execute("CREATE TABLE users (name text UNIQUE)").await.unwrap();

    let mut tx = client.transaction().await.unwrap();
    tx.batch_execute("INSERT INTO users VALUES ('ada')").await.unwrap();
    let one = punctual.enqueue("echo", "lost").send_in(&mut tx).await.unwrap();
    let more = punctual.enqueue_many("echo", ["lost", "too"]).send_in(&mut tx).await.unwrap();
    drop(tx);
    client.batch_execute("SELECT 1").await.unwrap();
    assert_never_there(&punctual, &[vec![one], more].concat()).await;

    let mut tx = client.transaction().await.unwrap();
    tx.batch_execute("INSERT INTO users VALUES ('ada')").await.unwrap();
    assert!(matches!(punctual.enqueue("echo", "x").queue("").send_in(&mut tx).await, Err(Error::Invalid(_))));
    let one = punctual.enqueue("echo", "kept").job_key("k").send_in(&mut tx).await.unwrap();
    let more = punctual.enqueue_many("echo", ["and", "more"]).send_in(&mut tx).await.unwrap();
    assert!(matches!(punctual.job(one.id()).await, Err(Error::NoSuchJob(_))), "not before the commit");
    tx.commit().await.unwrap();
    assert_runs([vec![one], more].concat(), &["kept", "and", "more"]).await;

    stop.send(()).unwrap();
    run.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_sqlx_commits_the_job_with_the_row_or_neither() {
    let database = Database::empty().await;
    let (punctual, stop, run) = idle_worker(&database.url()).await;
    let mut connection = sqlx::PgConnection::connect(&database.url()).await.unwrap();
    let sql = |text: &'static str| sqlx::query(text);
    sql("CREATE TABLE users (name text UNIQUE)").execute(&mut connection).await.unwrap();

    let mut tx = connection.begin().await.unwrap();
    sql("INSERT INTO users VALUES ('ada')").execute(&mut *tx).await.unwrap();
    let one = punctual.enqueue("echo", "lost").send_in(&mut tx).await.unwrap();
    let more = punctual.enqueue_many("echo", ["lost", "too"]).send_in(&mut *tx).await.unwrap();
    drop(tx);
    sql("SELECT 1").execute(&mut connection).await.unwrap();
    assert_never_there(&punctual, &[vec![one], more].concat()).await;

    let mut tx = connection.begin().await.unwrap();
    sql("INSERT INTO users VALUES ('ada')").execute(&mut *tx).await.unwrap();
    let one = punctual.enqueue("echo", "kept").job_key("k").send_in(&mut tx).await.unwrap();
    let more = punctual.enqueue_many("echo", ["and", "more"]).send_in(&mut *tx).await.unwrap();
    assert!(matches!(punctual.job(one.id()).await, Err(Error::NoSuchJob(_))), "not before the commit");
    tx.commit().await.unwrap();
    assert_runs([vec![one], more].concat(), &["kept", "and", "more"]).await;

    let on_sqlite = World::on_sqlite().await;
    let elsewhere = Punctual::open(&on_sqlite.url).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    assert!(matches!(elsewhere.enqueue("echo", "x").send_in(&mut tx).await, Err(Error::OtherDatabase { .. })));
    let error = punctual.enqueue("echo", "x").send_in(&mut tx).await.map(|_| ());
    assert!(error.is_ok(), "a refusal leaves the transaction as it was: {error:?}");
    drop(tx);

    stop.send(()).unwrap();
    run.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c16_what_another_process_writes_to_the_file_wakes_an_idle_worker() {
    let world = World::on_sqlite().await;
    let (_worker, stop, run) = idle_worker(&world.url).await;
    // A second store on the file stands for a second process: they share no memory.
    let other = Punctual::open(&world.url).await.unwrap();
    let job = other.enqueue("echo", "from afar").send().await.unwrap();
    assert_eq!(job.wait::<String>().await.unwrap(), "from afar");
    assert_eq!(job.view().await.unwrap().state(), JobState::Completed);
    stop.send(()).unwrap();
    run.await.unwrap().unwrap();
}
