//! What limits cost: the same jobs on two stores of the same kind, one of them with every kind of limit in use.
//!
//! The two take turns batch by batch, so that whatever else the machine does meets both alike. The limits are wide
//! enough to keep nothing back: what is measured is the counting, not the waiting.

use crate::figures::{Figure, Report, ratio_bars};
use crate::fill::{Filler, Held};
use crate::load::{self, BATCH, Outcome, per_second};
use crate::report::{self, Goal, Mark, Sheet, Survey};
use jiff::SignedDuration;
use punctual_core::job::NewJob;
use punctual_core::limits::{LIMIT_MAX, Limit, LimitSubject, Rate};
use punctual_core::store::{Lease, Store};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use std::sync::Arc;
use std::time::Instant;

/// Turns of each side.
const TURNS: usize = 60;
/// Jobs that a node takes at once when it is not busy.
const FEW: usize = 10;
/// Jobs of a turn: a batch, a few at a time, and a few by each of several nodes at once.
const JOBS_OF_A_TURN: usize = BATCH + NODES * FEW * 2;
/// Limits that are full.
const FULL: usize = 100;
/// Nodes that claim at the same time.
const NODES: usize = 4;

/// Measures the section `limits`.
pub fn run() -> Outcome<()> {
    let mut survey = Survey::begin()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let server = PrivateServer::start(true);
    runtime.block_on(async {
        let files = ["free.db", "limited.db"].map(|name| folder.path().join(name));
        let mut stores = Vec::new();
        for file in &files {
            let store = SqliteStore::open(file, SqliteOptions::default())?;
            survey.sqlite(&store).await?;
            stores.push((Arc::new(store) as Arc<dyn Store>, Filler::of_sqlite(file)?));
        }
        let on_sqlite = compare(stores).await?;
        let mut stores = Vec::new();
        let databases = [Database::empty_on(&server).await, Database::empty_on(&server).await];
        for database in &databases {
            survey.postgres(&server, &database.connect().await).await?;
            let store = PostgresStore::connect(&database.url(), PostgresOptions::default()).await?;
            stores.push((Arc::new(store) as Arc<dyn Store>, Filler::of_postgres(database).await));
        }
        let on_postgres = compare(stores).await?;
        report::keep(sheet(&on_sqlite, &on_postgres), survey)
    })
}

fn sheet(on_sqlite: &Report, on_postgres: &Report) -> Sheet {
    let mut sheet = Sheet::new("limits", "Limits", "limits");
    sheet.say(format!(
        "The same jobs with two tags, on a store without limits and on one with {} of them, {TURNS} batches each in \
         alternating order. Five count every job, each by all three bounds; {FULL} are full, each with a job that waits \
         before all others.",
        FULL + 5
    ));
    for (store, report) in [("SQLite", on_sqlite), ("PostgreSQL", on_postgres)] {
        sheet.answer(Goal::LimitedClaims, store, report.ratio(Figure::ClaimAndFinish));
        sheet.tables.push(report.table(&format!("{store}:")));
    }
    if let Some(table) = sheet.tables.last_mut() {
        "A claim of ten on PostgreSQL costs some milliseconds more, whatever it takes: the rows of the limits are locked \
         and written. Nodes under the same limit claim one after the other, which is what makes a limit exact, and the \
         last line shows it."
            .clone_into(&mut table.note);
    }
    sheet.plots.push(ratio_bars(
        &format!("Speed with {} limits, as a multiple of the speed without", FULL + 5),
        vec![("SQLite", on_sqlite.bars(false)), ("PostgreSQL", on_postgres.bars(false))],
        vec![Mark::new(0.5, "goal: at least 0.5"), Mark::new(1.0, "no limits")],
    ));
    sheet
}

/// A job that falls under six limits.
fn job() -> NewJob {
    NewJob { tags: vec!["cpu".to_owned(), "disk".to_owned()], ..load::job() }
}

async fn limit_everything(store: &Arc<dyn Store>) -> Outcome<()> {
    let rate = Rate { jobs: LIMIT_MAX, per: SignedDuration::from_secs(1), burst: LIMIT_MAX };
    for subject in ["all", "queue:default", "type:task:noop", "tag:cpu", "tag:disk"] {
        let subject: LimitSubject = subject.parse()?;
        let bounds = (Some(LIMIT_MAX), Some(LIMIT_MAX), Some(rate));
        store.set_limit(Limit { subject, concurrency: bounds.0, node_concurrency: bounds.1, rate: bounds.2 }).await?;
    }
    // And some that are full, with jobs that wait before all others.
    for n in 0..FULL {
        let tag = format!("full{n}");
        store.enqueue_jobs(vec![NewJob { tags: vec![tag.clone()], priority: 1, ..load::job() }]).await?;
        store.set_limit(Limit { concurrency: Some(0), ..Limit::on(LimitSubject::Tag(tag)) }).await?;
    }
    Ok(())
}

/// The first store is free, the other one is limited.
async fn compare(stores: Vec<(Arc<dyn Store>, Filler)>) -> Outcome<Report> {
    let mut report = Report::new(["no limits", "limits"]);
    let mut sides = Vec::new();
    for (at, (store, looks)) in stores.into_iter().enumerate() {
        if at > 0 {
            limit_everything(&store).await?;
        }
        sides.push(Side::open(store, looks, at > 0).await?);
    }
    for _ in 0..TURNS {
        sides.reverse();
        for side in &mut sides {
            for (figure, rate) in side.turn().await? {
                let rate = Some(rate);
                report.add(figure, if side.is_limited { (rate, None) } else { (None, rate) });
            }
        }
    }
    for side in &sides {
        side.check_all_accounted_for().await?;
    }
    Ok(report)
}

struct Side {
    store: Arc<dyn Store>,
    nodes: Vec<Lease>,
    /// Counts what the tables hold.
    looks: Filler,
    is_limited: bool,
}

impl Side {
    async fn open(store: Arc<dyn Store>, looks: Filler, is_limited: bool) -> Outcome<Self> {
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            nodes.push(load::node(&store).await?);
        }
        Ok(Self { store, nodes, looks, is_limited })
    }

    async fn turn(&mut self) -> Outcome<Vec<(Figure, f64)>> {
        let jobs = JOBS_OF_A_TURN;
        let started = Instant::now();
        self.store.enqueue_jobs((0..jobs).map(|_| job()).collect()).await?;
        let enqueued = per_second(jobs, started);
        let started = Instant::now();
        work(&self.store, self.nodes[0], BATCH).await?;
        let large = per_second(BATCH, started);
        let started = Instant::now();
        for _ in 0..NODES {
            work(&self.store, self.nodes[0], FEW).await?;
        }
        let small = per_second(NODES * FEW, started);
        let started = Instant::now();
        let tasks = self.nodes.iter().map(|node| {
            let (store, node) = (Arc::clone(&self.store), *node);
            tokio::spawn(async move { work(&store, node, FEW).await.map_err(|error| error.to_string()) })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await??;
        }
        let together = per_second(NODES * FEW, started);
        Ok(vec![
            (Figure::EnqueueBatched, enqueued),
            (Figure::ClaimAndFinish, large),
            (Figure::ClaimAndFinishFew, small),
            (Figure::ClaimAndFinishTogether, together),
        ])
    }
}

impl Side {
    /// No ratio counts unless every job has ended, once, and those that a full limit keeps back still wait.
    async fn check_all_accounted_for(&self) -> Outcome<()> {
        let runs = i64::try_from(TURNS * JOBS_OF_A_TURN)?;
        let queued = if self.is_limited { i64::try_from(FULL)? } else { 0 };
        let expected = Held { jobs: runs + queued, runs, queued, running: 0 };
        let found = self.looks.held().await?;
        if found == expected { Ok(()) } else { Err(format!("{found:?} was found, {expected:?} expected").into()) }
    }
}

async fn work(store: &Arc<dyn Store>, node: Lease, jobs: usize) -> Outcome<()> {
    let claimed = load::claim(store, node, jobs).await?;
    if claimed.len() != jobs {
        return Err(format!("{} of {jobs} jobs were handed out", claimed.len()).into());
    }
    load::finish(store, node, &claimed).await
}
