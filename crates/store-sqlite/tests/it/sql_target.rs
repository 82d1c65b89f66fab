//! Statement files as jobs: what they return, what they may not reach, and how they are stopped.

use jiff::SignedDuration;
use punctual_core::execute::{Executor, StopReason};
use punctual_core::job::{NewJob, Timeout};
use punctual_core::json::Json;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::FinishedRun;
use punctual_core::target::{Sql, Target};
use punctual_store_sqlite::sql_target::{StatementConnection, StatementExecutor};
use punctual_testkit::by_hand::ByHand;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A database, a folder of statements, and something beside both that nobody may reach.
struct Files {
    folder: tempfile::TempDir,
    connection: Connection,
    executor: Arc<StatementExecutor>,
}

impl Files {
    fn new() -> Self {
        Self::with_lock_timeout(Duration::from_secs(30))
    }

    fn with_lock_timeout(lock_timeout: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (database, statements) = (folder.path().join("shop.db"), folder.path().join("statements"));
        std::fs::create_dir_all(statements.join("deeper")).unwrap();
        std::fs::write(folder.path().join("outside.sql"), "SELECT 'outside'").unwrap();
        let connection = Connection::open(&database).unwrap();
        connection.execute_batch("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT UNIQUE)").unwrap();
        let options = StatementConnection { lock_timeout, ..StatementConnection::new(database, statements) };
        Self { folder, connection, executor: Arc::new(StatementExecutor::new(options)) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("statements").join(name)
    }

    async fn run(&self, text: &str) -> FinishedRun {
        self.run_with(text, "{}").await
    }

    async fn run_with(&self, text: &str, input: &str) -> FinishedRun {
        std::fs::write(self.path("s.sql"), text).unwrap();
        self.executor.run(ByHand::default().context(job("s.sql", input))).await
    }

    async fn file(&self, name: &str) -> FinishedRun {
        self.executor.run(ByHand::default().context(job(name, "{}"))).await
    }

    fn items(&self) -> i64 {
        self.connection.query_row("SELECT count(*) FROM items", [], |row| row.get(0)).unwrap()
    }
}

fn job(statement: &str, input: &str) -> NewJob {
    NewJob {
        input: Json::parse("input", input).unwrap(),
        timeout: Timeout::After(SignedDuration::from_mins(1)),
        ..NewJob::new(Target::Sql(Sql::statement("shop", statement)))
    }
}

fn output(end: &FinishedRun) -> serde_json::Value {
    assert_eq!(end.outcome, Outcome::Completed, "{end:?}");
    end.output.as_ref().unwrap().to().unwrap()
}

fn failed_with(end: &FinishedRun, code: ErrorCode, says: &str) {
    assert_eq!((end.outcome, end.error_code), (Outcome::Failed, Some(code)), "{end:?}");
    assert!(end.error.as_deref().unwrap().contains(says), "{end:?}");
}

/// Counts for ever.
const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

#[tokio::test]
async fn b02_statements_get_the_input_and_return_rows() {
    let files = Files::new();
    let insert = "INSERT INTO items (name) SELECT value FROM json_each(:input, '$.names');
                  SELECT id, name, :input ->> '$.note' AS note, 1.5 AS real, NULL AS none, x'00ff' AS bytes FROM items;
                  -- and nothing more";
    let end = files.run_with(insert, r#"{"names":["ä","b"],"note":"'; DROP TABLE items"}"#).await;
    let row = |id: i64, name: &str| serde_json::json!({ "id": id, "name": name, "note": "'; DROP TABLE items", "real": 1.5, "none": null, "bytes": "00ff" });
    assert_eq!(output(&end), serde_json::json!({ "rows": [row(1, "ä"), row(2, "b")], "changes": 2 }));
    assert_eq!(
        output(&files.run("DELETE FROM items WHERE id = 1").await),
        serde_json::json!({ "rows": [], "changes": 1 })
    );
    assert_eq!(output(&files.run("VACUUM").await)["changes"], 0);
    let returning = files.run("INSERT INTO items (name) VALUES ('c') RETURNING name").await;
    assert_eq!(output(&returning)["rows"], serde_json::json!([{ "name": "c" }]));
    assert_eq!(output(&files.run(" ; ").await)["rows"], serde_json::json!([]));
    assert_eq!(files.items(), 2);
}

#[tokio::test]
async fn b02_rows_are_capped_with_the_cut_stated() {
    let files = Files::new();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) SELECT i FROM n";
    let kept = output(&files.run(many).await);
    assert_eq!((kept["rows"].as_array().unwrap().len(), &kept["rows_cut"]), (1_000, &true.into()));
    let long = files.run("SELECT hex(zeroblob(200000)) AS long").await;
    assert_eq!((output(&long)["rows"].as_array().unwrap().len(), &output(&long)["rows_cut"]), (0, &true.into()));
    assert_eq!(
        output(&files.run(&format!("SELECT * FROM ({ENDLESS} LIMIT 0)")).await)["rows_cut"],
        serde_json::Value::Null
    );
}

#[tokio::test]
async fn b02_several_statements_are_one_change() {
    let files = Files::new();
    let end = files.run("INSERT INTO items (name) VALUES ('a'); INSERT INTO items (name) VALUES ('a')").await;
    failed_with(&end, ErrorCode::TargetError, "UNIQUE");
    assert_eq!(files.items(), 0);
    let made = files.run("CREATE TABLE more (n); INSERT INTO more VALUES (1); SELECT n FROM more").await;
    assert_eq!(output(&made)["rows"], serde_json::json!([{ "n": 1 }]));
    for (text, code, says) in [
        ("SELEC 1", ErrorCode::TargetError, "syntax error"),
        ("SELECT * FROM nowhere", ErrorCode::TargetError, "no such table"),
        ("SELECT ?1", ErrorCode::TargetRejected, ":input"),
        ("SELECT :other", ErrorCode::TargetRejected, ":input"),
    ] {
        failed_with(&files.run(text).await, code, says);
    }
}

#[tokio::test]
async fn b12_nothing_outside_of_the_folder_and_the_database_is_reached() {
    let files = Files::new();
    std::fs::write(files.path("deeper/fine.sql"), "SELECT 1 AS one").unwrap();
    std::fs::write(files.path("no_ending"), "SELECT 1").unwrap();
    std::fs::create_dir(files.path("folder.sql")).unwrap();
    std::os::unix::fs::symlink(files.folder.path().join("outside.sql"), files.path("link.sql")).unwrap();
    std::os::unix::fs::symlink("/", files.path("root")).unwrap();
    assert_eq!(output(&files.file("deeper/fine.sql").await)["rows"], serde_json::json!([{ "one": 1 }]));
    let outside = files.folder.path().join("outside.sql").display().to_string();
    for name in [
        "../outside.sql",
        "deeper/../../outside.sql",
        &outside,
        "link.sql",
        "no_ending",
        "folder.sql",
        "./s.sql",
        "..\\o.sql",
    ] {
        let end = files.file(name).await;
        assert_eq!(end.error_code, Some(ErrorCode::TargetRejected), "{name}: {end:?}");
    }
    let through_link = format!("root{outside}");
    failed_with(&files.file(&through_link).await, ErrorCode::TargetRejected, "leads out");
    failed_with(&files.file("missing.sql").await, ErrorCode::TargetError, "cannot be read");
    let other = files.folder.path().join("other.db");
    for text in [
        format!("ATTACH '{}' AS other", other.display()),
        format!("ATTACH '{}' || '' AS other", other.display()),
        format!("VACUUM INTO '{}'", other.display()),
    ] {
        failed_with(&files.run(&text).await, ErrorCode::TargetRejected, "attach");
    }
    assert!(!other.exists());
}

#[tokio::test]
async fn b12_a_stopped_statement_ends_and_changes_nothing() {
    let files = Files::new();
    let endless = format!("INSERT INTO items (name) VALUES ('a'); {ENDLESS}");
    std::fs::write(files.path("endless.sql"), &endless).unwrap();
    for (reason, outcome) in [(StopReason::Cancelled, Outcome::Cancelled), (StopReason::Timeout, Outcome::Failed)] {
        let by_hand = ByHand::default();
        let (context, executor) = (by_hand.context(job("endless.sql", "{}")), Arc::clone(&files.executor));
        let run = tokio::spawn(async move { executor.run(context).await });
        until_locked(&files.connection).await;
        by_hand.tell(reason);
        assert_eq!(run.await.unwrap().outcome, outcome);
        assert_eq!(files.items(), 0);
    }
    // Who is dropped without a word lets go of the file as well.
    let (context, executor) = (ByHand::default().context(job("endless.sql", "{}")), Arc::clone(&files.executor));
    let run = tokio::spawn(async move { executor.run(context).await });
    until_locked(&files.connection).await;
    run.abort();
    run.await.unwrap_err();
    files.connection.busy_timeout(Duration::from_secs(60)).unwrap();
    files.connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").unwrap();
    assert_eq!(files.items(), 0);
}

/// Waits until somebody else writes to the database.
async fn until_locked(connection: &Connection) {
    connection.busy_timeout(Duration::ZERO).unwrap();
    while connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn b12_a_statement_waits_for_a_lock_no_longer_than_it_may() {
    let files = Files::with_lock_timeout(Duration::from_millis(100));
    files.connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    failed_with(&files.run("DELETE FROM items").await, ErrorCode::Timeout, "for the database's lock");
    failed_with(&files.run("DELETE FROM items; SELECT 1").await, ErrorCode::Timeout, "for the database's lock");
    files.connection.execute_batch("ROLLBACK").unwrap();
    assert_eq!(files.run("DELETE FROM items").await.outcome, Outcome::Completed);
    let patient = Files::new();
    patient.connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::fs::write(patient.path("s.sql"), "DELETE FROM items").unwrap();
    let by_hand = ByHand::default();
    by_hand.tell(StopReason::Cancelled);
    let end = patient.executor.run(by_hand.context(job("s.sql", "{}"))).await;
    assert_eq!(end.outcome, Outcome::Cancelled, "a statement that waits can be cancelled");
}

#[tokio::test]
async fn b12_a_database_is_never_made() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.sql"), "SELECT 1").unwrap();
    let missing = folder.path().join("missing.db");
    let executor = StatementExecutor::new(StatementConnection::new(&missing, folder.path()));
    let end = executor.run(ByHand::default().context(job("a.sql", "{}"))).await;
    failed_with(&end, ErrorCode::TargetError, "no such SQLite file");
    assert!(!missing.exists());
    let function = NewJob::new(Target::Sql(Sql::function("shop", "f")));
    failed_with(
        &executor.run(ByHand::default().context(function)).await,
        ErrorCode::TargetRejected,
        "name a statement",
    );
}
