//! What is true of the file: durable settings, shared commits, two processes, migrations, strangers' files.

use punctual_core::job::{JobState, NewJob};
use punctual_core::store::{Store, StoreError};
use punctual_core::target::Target;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::Connection;
use std::path::Path;

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteOptions::default()).unwrap()
}

fn job() -> NewJob {
    NewJob::new(Target::command(["true"]))
}

#[tokio::test]
async fn c01_the_file_is_in_wal_mode_and_every_commit_reaches_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let durability = open(&folder.path().join("a.db")).durability().await.unwrap();
    assert_eq!(durability.journal_mode, "wal");
    assert_eq!(durability.synchronous, 2, "2 is FULL; less loses acknowledged work in a power cut");
    assert!(durability.foreign_keys);
}

#[tokio::test]
async fn c01_many_waiting_writes_share_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = open(&path);
    let before = store.commits();
    let calls: Vec<_> = (0..500)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.enqueue_jobs(vec![job()]).await })
        })
        .collect();
    let mut ids = Vec::new();
    for call in calls {
        ids.extend(call.await.unwrap().unwrap());
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 500);
    let commits = store.commits() - before;
    assert!(commits < 250, "500 writes took {commits} commits");
}

#[tokio::test]
async fn c12_a_call_that_fails_in_a_group_undoes_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("a.db"));
    let name = punctual_core::name::Name::new("twice").unwrap();
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let (store, name) = (store.clone(), name.clone());
            tokio::spawn(async move {
                (store.create_template(name, job(), vec![]).await, store.enqueue_jobs(vec![job()]).await)
            })
        })
        .collect();
    let (mut made, mut enqueued) = (0, 0);
    for call in calls {
        let (template, jobs) = call.await.unwrap();
        match template {
            Ok(_) => made += 1,
            Err(error) => assert!(matches!(error, StoreError::NameTaken { .. }), "{error}"),
        }
        enqueued += jobs.unwrap().len();
    }
    assert_eq!((made, enqueued), (1, 20));
}

#[tokio::test]
async fn c12_nothing_is_acknowledged_before_its_commit() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("a.db"));
    let kept = store.enqueue_jobs(vec![job()]).await.unwrap();
    store.refuse_commits(true);
    store.enqueue_jobs(vec![job()]).await.unwrap_err();
    store.cancel_job(kept[0]).await.unwrap_err();
    store.refuse_commits(false);
    assert_eq!(store.queued_jobs("default", None, 10).await.unwrap().len(), 1);
    assert_eq!(store.job(kept[0]).await.unwrap().unwrap().state(), JobState::Queued);
}

#[tokio::test]
async fn c01_two_stores_on_one_file_see_each_other_and_never_collide() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let (one, other) = (open(&path), open(&path));
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let store = if n % 2 == 0 { one.clone() } else { other.clone() };
            tokio::spawn(async move { store.enqueue_jobs(vec![job()]).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(one.queued_jobs("default", None, 1000).await.unwrap().len(), 200);
    assert_eq!(other.queued_jobs("default", None, 1000).await.unwrap().len(), 200);
}

/// Many times, because of those who come at once only some find the file busy while it is made.
#[test]
fn c01_opening_twice_at_once_migrates_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..12 {
        let path = folder.path().join(format!("{round}.db"));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| SqliteStore::open(&path, SqliteOptions::default()).map(|_| ()).unwrap());
            }
        });
        let applied: i64 = Connection::open(&path)
            .unwrap()
            .query_row("SELECT count(*) FROM punctual_migrations", [], |row| row.get(0))
            .unwrap();
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap().count();
        assert_eq!(usize::try_from(applied), Ok(files), "each is applied once");
    }
}

#[test]
fn c01_a_newer_breaking_schema_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    drop(open(&path));
    let connection = Connection::open(&path).unwrap();
    let newer = "INSERT INTO punctual_migrations VALUES (9001, 'from_the_future', ?1, 0)";
    connection.execute(newer, [false]).unwrap();
    drop(open(&path));
    connection.execute("UPDATE punctual_migrations SET breaking = 1 WHERE number = 9001", []).unwrap();
    let refused = SqliteStore::open(&path, SqliteOptions::default()).unwrap_err();
    assert!(matches!(&refused, StoreError::SchemaTooNew { found: 9001, .. }), "{refused}");
    assert!(refused.to_string().contains("from_the_future"));
}

#[test]
fn c01_a_file_that_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letter.txt");
    let letter = "Dear reader, this is not a database at all, but it is long enough to look like a file.".repeat(20);
    std::fs::write(&path, &letter).unwrap();
    let refused = SqliteStore::open(&path, SqliteOptions::default()).unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), letter);
}

/// The file is often the application's own: its tables must not collide with ours.
#[tokio::test]
async fn a24_an_application_keeps_its_own_jobs_table_in_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("CREATE TABLE jobs (title TEXT); INSERT INTO jobs VALUES ('baker')").unwrap();
    let store = open(&path);
    store.enqueue_jobs(vec![job()]).await.unwrap();
    let title: String = connection.query_row("SELECT title FROM jobs", [], |row| row.get(0)).unwrap();
    assert_eq!(title, "baker");
}

#[tokio::test]
async fn c01_a_store_that_is_gone_has_left_one_clean_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = open(&path);
    store.enqueue_jobs(vec![job()]).await.unwrap();
    drop(store);
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["a.db"], "the log is merged into the file when the last connection is closed");
}
