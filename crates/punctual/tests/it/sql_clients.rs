//! Jobs from Python, Node and `psql`, in a transaction of theirs: never there if it is rolled back, and with its commit
//! an idle worker is woken.

use crate::sql_world::SqlWorld;
use punctual::{Context, Punctual, TaskError};
use punctual_testkit::clients;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Longer than anything waits here: what the worker does it was told to do.
const NEVER: Duration = Duration::from_secs(3600);

const PYTHON: &str = r#"
import os, sys
import psycopg
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    connection.execute("INSERT INTO jobs.orders VALUES (%s)", ("HOW by psycopg",))
    row = connection.execute(
        "SELECT punctual.add_job(%s, %s::json, job_key => %s)",
        ("say", '{"words": "HOW by psycopg"}', "HOW psycopg")).fetchone()
    print(row[0])
    connection.ENDS()
"#;

const NODE: &str = r#"
const { Client } = require("pg");
(async () => {
  const client = new Client({ connectionString: process.env.DATABASE_URL });
  await client.connect();
  await client.query("BEGIN");
  await client.query("INSERT INTO jobs.orders VALUES ($1)", ["HOW by pg"]);
  const { rows } = await client.query(
    "SELECT punctual.add_job($1, $2::json, job_key => $3) AS id", ["say", JSON.stringify({ words: "HOW by pg" }), "HOW pg"]);
  console.log(rows[0].id);
  await client.query("ENDS");
  await client.end();
})().catch((error) => { console.error(error); process.exit(1); });
"#;

const PSQL: &str = r#"
BEGIN;
INSERT INTO jobs.orders VALUES ('HOW by psql');
SELECT punctual.add_job('say', '{"words": "HOW by psql"}', job_key => 'HOW psql');
ENDS;
"#;

/// What is there of jobs, wherever it is kept.
const TRACES: &str = "
    SELECT (SELECT count(*) FROM {jobs}) + (SELECT count(*) FROM {queue}) + (SELECT count(*) FROM {delayed})
         + (SELECT count(*) FROM {runs}) + (SELECT count(*) FROM {job_keys}) + (SELECT count(*) FROM {outbox})";

/// A worker that never looks by itself, and not when its heart beats either.
struct Idle {
    said: mpsc::UnboundedReceiver<String>,
    stop: oneshot::Sender<()>,
    run: tokio::task::JoinHandle<punctual::Result<()>>,
}

impl Idle {
    async fn start(url: &str) -> Self {
        let worker = Punctual::builder(url).poll(NEVER).lease(3 * NEVER, NEVER).open().await.unwrap();
        let (tell, mut said) = mpsc::unbounded_channel();
        worker.task("say", move |_: Context, input: serde_json::Value| {
            tell.send(input["words"].as_str().unwrap_or_default().to_owned()).unwrap();
            async { Ok::<_, TaskError>(()) }
        });
        let (stop, stopped) = oneshot::channel();
        let node = worker.clone();
        let run = tokio::spawn(async move { node.run_until(async { drop(stopped.await) }).await });
        // It runs something first, and goes to sleep afterwards.
        worker.enqueue("say", &serde_json::json!({ "words": "first" })).send_and_wait::<()>().await.unwrap();
        assert_eq!(said.recv().await.unwrap(), "first");
        Self { said, stop, run }
    }
}

type Client = fn(&str, &str) -> clients::Answer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_jobs_of_any_language_come_with_their_transaction_and_wake_a_worker() {
    let world = SqlWorld::new().await;
    world.done("ada", "CREATE TABLE jobs.orders (what text)");
    let url = world.url_of("ada");
    let all: [(&str, Client, &str, [&str; 2]); 3] = [
        // First the quickest, so that the worker has slept for long when it comes.
        ("psql", clients::psql, PSQL, ["ROLLBACK", "COMMIT"]),
        ("psycopg", clients::python, PYTHON, ["rollback", "commit"]),
        ("pg", clients::node, NODE, ["ROLLBACK", "COMMIT"]),
    ];
    let mut idle = Idle::start(&world.url).await;
    let before = world.number(TRACES).await;
    for (name, run, script, [rollback, _]) in all {
        let id = run(&url, &script.replace("HOW", "lost").replace("ENDS", rollback)).unwrap();
        assert_eq!(id.len(), 36, "{name} had a job's id: {id}");
    }
    assert_eq!(world.number(TRACES).await, before, "nothing is left of what was rolled back");
    assert_eq!(world.done("ada", "SELECT count(*) FROM jobs.orders"), "0");
    for (name, run, script, [_, commit]) in all {
        let id = run(&url, &script.replace("HOW", "kept").replace("ENDS", commit)).unwrap();
        assert_eq!(idle.said.recv().await.unwrap(), format!("kept by {name}"), "nothing else was ever run");
        let state = format!("SELECT state FROM punctual.jobs_overview WHERE id = '{id}'");
        world.until_shown("ada", &state, "completed").await;
    }
    assert_eq!(world.done("ada", "SELECT count(*) FROM jobs.orders"), "3");
    idle.stop.send(()).unwrap();
    idle.run.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_a_schedule_of_any_language_comes_with_its_transaction() {
    let world = SqlWorld::new().await;
    let url = world.url_of("ada");
    let insert =
        "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('NAME', 'jobs.f', '@daily')";
    let python = format!(
        "import os, psycopg\nwith psycopg.connect(os.environ['DATABASE_URL']) as c:\n    c.execute(\"\"\"{insert} RETURNING id\"\"\")\n    c.ENDS()"
    );
    let node = format!(
        "const {{ Client }} = require('pg'); const c = new Client({{ connectionString: process.env.DATABASE_URL }});
         (async () => {{ await c.connect(); await c.query('BEGIN'); await c.query(`{insert} RETURNING id`);
         await c.query('ENDS'); await c.end(); }})().catch((error) => {{ console.error(error); process.exit(1); }});"
    );
    clients::python(&url, &python.replace("NAME", "lost").replace("ENDS", "rollback")).unwrap();
    clients::node(&url, &node.replace("NAME", "lost too").replace("ENDS", "ROLLBACK")).unwrap();
    assert_eq!(world.done("ada", "SELECT count(*) FROM punctual.scheduled_jobs"), "0");
    clients::python(&url, &python.replace("NAME", "of python").replace("ENDS", "commit")).unwrap();
    clients::node(&url, &node.replace("NAME", "of node").replace("ENDS", "COMMIT")).unwrap();
    assert_eq!(world.done("ada", "SELECT name FROM punctual.scheduled_jobs ORDER BY name"), "of node\nof python");
}
