//! What became of the jobs of a run, counted in the tables by a connection of its own.

use crate::Outcome;
use punctual_store_postgres::connect_client;
use serde_json::{Value, json};

/// What the tables hold.
pub(super) struct Account {
    pub(super) jobs: i64,
    pub(super) runs: i64,
    /// In the queue, or running, or on their way to the queue.
    pub(super) left: i64,
}

const TABLES: [&str; 5] = ["jobs", "runs", "queue", "running", "delayed"];

/// Counts what is there.
pub(super) async fn count(url: &str) -> Outcome<Account> {
    let mut counts = Vec::new();
    let client = if url.starts_with("sqlite:") { None } else { Some(connect_client(url).await?.0) };
    for table in TABLES {
        counts.push(if let Some(client) = &client {
            client.query_one(&format!("SELECT count(*) FROM punctual_internal.{table}"), &[]).await?.get(0)
        } else {
            let file = rusqlite::Connection::open(url.trim_start_matches("sqlite:"))?;
            file.query_row(&format!("SELECT count(*) FROM punctual_{table}"), [], |row| row.get(0))?
        });
    }
    let [jobs, runs, queued, running, delayed] = counts[..] else {
        return Err("five tables were to be counted".into());
    };
    Ok(Account { jobs, runs, left: queued + running + delayed })
}

impl Account {
    /// The answer that the harness compares with what it asked for. A run is recorded for each job that was handled, and
    /// a job that is run twice has two.
    pub(super) fn drained(&self, handled: usize, seconds: f64) -> Value {
        json!({ "event": "done", "handled": handled, "distinct": self.runs, "left": self.left, "kept": self.runs,
                "seconds": seconds })
    }

    /// The answer when nobody worked.
    pub(super) fn enqueued(&self, before: i64, enqueued: usize, seconds: f64) -> Value {
        json!({ "event": "done", "enqueued": enqueued, "stored": self.jobs - before, "seconds": seconds })
    }
}
