//! Hand-written SQL on a file: one connection, because a file has one writer.

use super::{Request, account, batches, check_durable};
use crate::Outcome;
use crate::raw::sqlite::Raw;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

pub(super) async fn run(request: &Request) -> Outcome<Value> {
    // The store makes the tables.
    drop(SqliteStore::from_url(&request.url, SqliteOptions::default())?);
    let mut raw = Raw::open(Path::new(request.url.trim_start_matches("sqlite:")))?;
    let (journal_mode, synchronous) = raw.durability()?;
    check_durable(&journal_mode, synchronous)?;
    match request.scenario.as_str() {
        "drain" => drain(request, &mut raw).await,
        other => Err(format!("there is no scenario `{other}` on a file").into()),
    }
}

async fn drain(request: &Request, raw: &mut Raw) -> Outcome<Value> {
    let began = Instant::now();
    for some in batches(request.jobs, request.batch()) {
        raw.enqueue(some)?;
    }
    request.ready(json!({ "enqueued": request.jobs, "enqueue_seconds": began.elapsed().as_secs_f64() })).await?;
    let began = Instant::now();
    let handled = raw.drain(request.batch())?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(account::count(&request.url).await?.drained(handled, seconds))
}
