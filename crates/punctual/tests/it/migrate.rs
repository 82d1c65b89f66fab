//! `punctual migrate`: what it says, and a whole worker under the role of workers that it makes.

use crate::process::{Ear, Setup, Worker};
use crate::serve::punctual;
use crate::world::World;
use punctual_core::job::{JobState, NewJob};
use punctual_core::run::Outcome;
use punctual_core::target::Target;
use punctual_testkit::postgres::Database;
use std::time::Duration;

fn migrate(args: &[&str]) -> (Option<i32>, String) {
    let output = punctual(&[&["migrate"], args].concat()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a25_a_worker_works_under_its_role() {
    let world = World::on_postgres().await;
    let (code, said) = migrate(&["--roles", "--database", &world.url]);
    assert!(code == Some(0) && said.contains("nothing to do") && said.contains("\nthe roles are made on "), "{said}");
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
    let (code, said) = migrate(&["--roles", "--database", &url]);
    assert!(code == Some(1) && said.contains("punctual migrate --roles --print"), "{said}");
    assert!(!said.contains("known"), "no password is repeated: {said}");
    drop(worker);
    let _connections_may_linger = client.batch_execute(&format!("DROP ROLE {login}")).await;
}

#[test]
fn a25_the_roles_can_be_read_before_they_are_made() {
    let (code, sql) = migrate(&["--roles", "--print"]);
    assert_eq!(code, Some(0));
    assert!(sql.starts_with("BEGIN;") && sql.contains("punctual_execution") && sql.trim_end().ends_with("COMMIT;"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    let (code, said) = migrate(&["--roles", "--database", &format!("sqlite:{}", file.display())]);
    assert!(code == Some(2) && said.contains("only PostgreSQL has roles"), "{said}");
    assert!(!file.exists(), "what is refused leaves nothing behind");
    let (code, said) = migrate(&["--print"]);
    assert!(code == Some(2) && said.contains("--roles"), "{said}");
}

/// The migrations of a store, as their files are called.
fn steps(store: &str) -> Vec<String> {
    let folder = format!("{}/../store-{store}/migrations", env!("CARGO_MANIFEST_DIR"));
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.map(|name| name.trim_end_matches(".sql").replacen('_', " ", 1)).collect();
    names.sort();
    names
}

/// A new database: first for people, then for programs.
fn says_what_it_applied(store: &str, url: &str) {
    let (code, said) = migrate(&["--database", url]);
    assert_eq!(code, Some(0), "{said}");
    let applied: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("applied ")).collect();
    assert_eq!(applied, steps(store));
    let (code, said) = migrate(&["--database", url]);
    assert!(code == Some(0) && said.starts_with("nothing to do: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let (code, said) = migrate(&["--database", url, "--json"]);
    let done: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &done["applied"], &done["roles"]), (Some(0), &serde_json::json!([]), &serde_json::json!(false)));
}

#[test]
fn c01_migrate_says_what_it_applied_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    says_what_it_applied("sqlite", &format!("sqlite:{}", path("app.db")));
    // Without a database the folder's own store is meant, as everywhere.
    let (code, said) = migrate(&["--data", &path("data"), "--json"]);
    let done: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &done["applied"][0]), (Some(0), &serde_json::json!({ "number": 1, "name": "ground" })));
    assert!(folder.path().join("data/punctual.db").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c01_migrate_says_what_it_applied_to_a_database() {
    let database = Database::empty().await;
    says_what_it_applied("postgres", &database.url());
}
