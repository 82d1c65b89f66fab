//! The SQLite store against hand-written SQL on the same tables, with the same durability, in the same run.
//!
//! The reference does the same row moves with as little else as possible: one prepared statement for each move, one
//! transaction for each batch. What the store adds is the rules, the types, the threads and the answers.

use crate::figures::{Figure, Report, ratio_bars};
use crate::load::{self, BATCH, JOBS, SCHEDULES, SINGLES, TOTAL, per_second};
use crate::report::{self, Mark, Sheet, Survey};
use punctual_core::store::Store;
use punctual_measure::raw::sqlite::Raw;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 3;

/// Measures the section `sqlite`.
pub fn run() -> load::Outcome<()> {
    let mut survey = Survey::begin()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::new(["raw", "store"]);
    for round in 0..ROUNDS {
        // The order alternates, so that a disk that slows down or a cache that warms up favours nobody.
        let mut sides = [Side::Raw, Side::Store];
        if round % 2 == 1 {
            sides.reverse();
        }
        for side in sides {
            let folder = tempfile::tempdir()?;
            let path = folder.path().join("bench.db");
            let store = SqliteStore::open(&path, SqliteOptions::default())?;
            runtime.block_on(survey.sqlite(&store))?;
            match side {
                Side::Raw => raw_side(&path, &mut report)?,
                Side::Store => {
                    let age = || async { age_schedules(&Connection::open(&path)?) };
                    runtime.block_on(load::store_side(
                        &(Arc::new(store.clone()) as Arc<dyn Store>),
                        age,
                        &mut report,
                    ))?;
                }
            }
            check_all_accounted_for(&path)?;
        }
    }
    report::keep(sheet(&report), survey)
}

fn sheet(report: &Report) -> Sheet {
    let mut sheet = Sheet::new("sqlite", "The SQLite store against raw SQL", "sqlite");
    sheet.say(format!(
        "The SQLite store against hand-written SQL by rusqlite on the same tables, {ROUNDS} rounds in alternating order, \
         each on a file of its own."
    ));
    let mut table = report.table("");
    "The 64 callers of the store share transactions; the reference has one writer, which cannot."
        .clone_into(&mut table.note);
    sheet.tables.push(table);
    sheet.plots.push(ratio_bars(
        "Speed of the SQLite store, as a multiple of raw SQL",
        vec![("", report.bars(false))],
        vec![Mark::new(0.5, "goal: at least 0.5"), Mark::new(1.0, "raw SQL")],
    ));
    sheet
}

#[derive(Clone, Copy)]
enum Side {
    Raw,
    Store,
}

/// No figure counts unless every job of the run has ended, once.
fn check_all_accounted_for(path: &Path) -> load::Outcome<()> {
    let connection = Connection::open(path)?;
    let count =
        |table: &str| connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0));
    let (jobs, runs) = (count("punctual_jobs")?, count("punctual_runs")?);
    let (queued, running) = (count("punctual_queue")?, count("punctual_running")?);
    let expected = i64::try_from(TOTAL)?;
    if (jobs, runs, queued, running) != (expected, expected, 0, 0) {
        return Err(format!("jobs {jobs}, runs {runs}, queued {queued}, running {running}; expected {expected}").into());
    }
    Ok(())
}

/// Moves every schedule back by an hour, so that its next slot is due.
fn age_schedules(connection: &Connection) -> load::Outcome<()> {
    let back = 3_600_000_000_i64;
    connection
        .execute("UPDATE punctual_schedules SET created_at = created_at - ?1, anchor_at = anchor_at - ?1", [back])?;
    connection.execute(
        "UPDATE punctual_schedule_state SET next_slot_at = next_slot_at - ?1, next_run_at = next_run_at - ?1",
        [back],
    )?;
    Ok(())
}

/// The reference: the same moves, by hand.
fn raw_side(path: &Path, report: &mut Report) -> load::Outcome<()> {
    let mut raw = Raw::open(path)?;
    let started = Instant::now();
    for _ in 0..JOBS / BATCH {
        raw.enqueue(BATCH)?;
    }
    report.add(Figure::EnqueueBatched, (None, Some(per_second(JOBS, started))));
    let started = Instant::now();
    for _ in 0..SINGLES {
        raw.enqueue(1)?;
    }
    let single = per_second(SINGLES, started);
    report.add(Figure::EnqueueSingle, (None, Some(single)));
    // One writer cannot do better with many callers, unless their writes share a commit.
    report.add(Figure::EnqueueManyCallers, (None, Some(single)));
    raw.enqueue(SINGLES)?;
    let started = Instant::now();
    while raw.claim_and_finish(BATCH)? > 0 {}
    report.add(Figure::ClaimAndFinish, (None, Some(per_second(JOBS + 2 * SINGLES, started))));
    raw.make_due_schedules(SCHEDULES)?;
    let started = Instant::now();
    while raw.fire(BATCH)? > 0 {}
    report.add(Figure::Fire, (None, Some(per_second(SCHEDULES, started))));
    while raw.claim_and_finish(BATCH)? > 0 {}
    Ok(())
}
