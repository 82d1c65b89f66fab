//! What limits cost: the same jobs on two stores of the same kind, one of them with every kind of limit in use.
//!
//! The two take turns batch by batch, so that whatever else the machine does meets both alike. The limits are wide
//! enough to keep nothing back: what is measured is the counting, not the waiting.

use crate::figures::{Figure, Report, ratio_bars};
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
        let open = |name: &str| SqliteStore::open(&folder.path().join(name), SqliteOptions::default());
        let (free, limited) = (open("free.db")?, open("limited.db")?);
        survey.sqlite(&limited).await?;
        let on_sqlite = compare(Arc::new(free), Arc::new(limited)).await?;
        let (free, limited) = (Database::empty_on(&server).await, Database::empty_on(&server).await);
        let connect = async |database: &Database| -> Outcome<Arc<dyn Store>> {
            let store = PostgresStore::connect(&database.url(), PostgresOptions::default()).await?;
            Ok(Arc::new(store) as Arc<dyn Store>)
        };
        survey.postgres(&server, &limited.connect().await).await?;
        let on_postgres = compare(connect(&free).await?, connect(&limited).await?).await?;
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

async fn compare(free: Arc<dyn Store>, limited: Arc<dyn Store>) -> Outcome<Report> {
    limit_everything(&limited).await?;
    let mut report = Report::new(["no limits", "limits"]);
    let mut sides = [(true, Side::open(free).await?), (false, Side::open(limited).await?)];
    for _ in 0..TURNS {
        sides.reverse();
        for (is_reference, side) in &mut sides {
            for (figure, rate) in side.turn().await? {
                let rate = Some(rate);
                report.add(figure, if *is_reference { (None, rate) } else { (rate, None) });
            }
        }
    }
    Ok(report)
}

struct Side {
    store: Arc<dyn Store>,
    nodes: Vec<Lease>,
}

impl Side {
    async fn open(store: Arc<dyn Store>) -> Outcome<Self> {
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            nodes.push(load::node(&store).await?);
        }
        Ok(Self { store, nodes })
    }

    async fn turn(&mut self) -> Outcome<Vec<(Figure, f64)>> {
        let jobs = BATCH + NODES * FEW * 2;
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

async fn work(store: &Arc<dyn Store>, node: Lease, jobs: usize) -> Outcome<()> {
    let claimed = load::claim(store, node, jobs).await?;
    if claimed.len() != jobs {
        return Err(format!("{} of {jobs} jobs were handed out", claimed.len()).into());
    }
    load::finish(store, node, &claimed).await
}
