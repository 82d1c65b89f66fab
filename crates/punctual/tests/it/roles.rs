//! A whole worker under the role of workers, made by the command line.

use crate::process::{Ear, Setup, Worker};
use crate::serve::punctual;
use crate::world::World;
use punctual_core::job::{JobState, NewJob};
use punctual_core::run::Outcome;
use punctual_core::target::Target;
use std::time::Duration;

fn roles(args: &[&str]) -> (Option<i32>, String) {
    let output = punctual(&[&["roles"], args].concat()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a25_a_worker_works_under_its_role() {
    let world = World::on_postgres().await;
    let (code, said) = roles(&["apply", "--database", &world.url]);
    assert!(code == Some(0) && said.starts_with("the roles are made on "), "{said}");
    let database = world.database();
    let login = format!("{}_works", database.name());
    let client = database.connect().await;
    let make = format!("CREATE ROLE {login} LOGIN PASSWORD 'known' IN ROLE punctual_worker");
    client.batch_execute(&make).await.unwrap();
    let url = format!("postgres://{login}:known@{}/{}", database.server(), database.name());

    world.schedule_every_second(1).await;
    let job = world.store.enqueue_jobs(vec![NewJob::new(Target::command(["true"]))]).await.unwrap()[0];
    let ear = Ear::new();
    let worker = Worker::start_as(&url, &Setup { log: "warn", ..Setup::default() }, &ear);
    while world.store.job(job).await.unwrap().unwrap().state() != JobState::Completed {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.store.run(job).await.unwrap().unwrap().outcome, Outcome::Completed);
    world.until("SELECT count(*) FROM {slots}", |fired| fired > 1).await;
    assert_eq!(worker.said(), Vec::<String>::new(), "it is refused nothing that it wants");

    // A login of a worker is nobody who makes roles.
    let (code, said) = roles(&["apply", "--database", &url]);
    assert!(code == Some(1) && said.contains("punctual roles print"), "{said}");
    assert!(!said.contains("known"), "no password is repeated: {said}");
    drop(worker);
    let _connections_may_linger = client.batch_execute(&format!("DROP ROLE {login}")).await;
}

#[test]
fn a25_the_roles_can_be_read_before_they_are_made() {
    let (code, sql) = roles(&["print"]);
    assert_eq!(code, Some(0));
    assert!(sql.starts_with("BEGIN;") && sql.contains("punctual_execution") && sql.trim_end().ends_with("COMMIT;"));
    let (code, said) = roles(&["apply", "--database", "sqlite:app.db"]);
    assert!(code == Some(2) && said.contains("only PostgreSQL has roles"), "{said}");
}
