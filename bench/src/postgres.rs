//! The PostgreSQL store against hand-written SQL on the same tables, on a durable throw-away server, in the same run.
//!
//! The two take turns batch by batch, so that whatever else the machine does meets both alike. What the store adds to
//! the reference is the rules, the types and the answers.

use crate::cpu::Cpu;
use crate::figures::{Figure, Report, ratio_bars};
use crate::load::{self, BATCH, Outcome, each, per_second};
use crate::report::{self, Goal, Mark, Sheet, Survey};
use async_trait::async_trait;
use punctual_core::job::NewJob;
use punctual_core::store::{Lease, Store};
use punctual_measure::raw::postgres::Raw;
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use std::sync::Arc;
use std::time::Instant;
use tokio_postgres::Client;

/// Batches of each kind on each side.
const TURNS: usize = 150;
/// Due schedules.
const SCHEDULES: usize = 60 * BATCH;
/// Jobs enqueued one by one in a turn.
const SINGLES: usize = 16;
/// The same by many callers.
const SINGLES_OF_MANY: usize = 64;
/// Connections of the store's pool, and of the reference when it has many callers.
const CONNECTIONS: usize = 8;
/// All jobs of a side: every one must have ended, once, or no figure counts.
const TOTAL: usize = TURNS * (BATCH + SINGLES + SINGLES_OF_MANY) + SCHEDULES;

/// Measures the section `postgres`.
pub fn run() -> Outcome<()> {
    let mut survey = Survey::begin()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let server = PrivateServer::start(true);
    runtime.block_on(async {
        let mut match_up = Match::open(&server).await?;
        survey.postgres(&server, &match_up.client).await?;
        match_up.play().await?;
        match_up.check_all_accounted_for().await?;
        report::keep(sheet(&match_up.report), survey)
    })
}

fn sheet(report: &Report) -> Sheet {
    let mut sheet = Sheet::new("postgres", "The store against raw SQL", "postgres");
    sheet.say(format!(
        "The PostgreSQL store against hand-written SQL on the same tables and indexes, {TURNS} batches of each kind in \
         alternating order. The processor time counts what server and program used together."
    ));
    let answers = [
        (Goal::EnqueueOneCallerAgainstRaw, "", Figure::EnqueueSingle),
        (Goal::EnqueueBatchedAgainstRaw, "batches of 500", Figure::EnqueueBatched),
        (Goal::SlotsAgainstRaw, "batches of 500", Figure::Fire),
        (Goal::WalAgainstRaw, "enqueue", Figure::WalOfEnqueue),
        (Goal::WalAgainstRaw, "claim + finish", Figure::WalOfClaimAndFinish),
        (Goal::WalAgainstRaw, "fire", Figure::WalOfFire),
    ];
    for (goal, of, figure) in answers {
        sheet.answer(goal, of, report.ratio(figure));
    }
    let mut table = report.table("");
    "The 64 callers of the store share transactions, which those of the reference, on eight connections, do not."
        .clone_into(&mut table.note);
    sheet.tables.push(table);
    sheet.plots = vec![
        ratio_bars(
            "Speed of the PostgreSQL store, as a multiple of raw SQL",
            vec![("", report.bars(false))],
            vec![Mark::new(0.8, "goal: at least 0.8"), Mark::new(1.0, "raw SQL")],
        ),
        ratio_bars(
            "What it costs, as a multiple of raw SQL",
            vec![("", report.bars(true))],
            vec![Mark::new(1.0, "raw SQL"), Mark::new(1.15, "goal for WAL: at most 1.15")],
        ),
    ];
    sheet
}

/// One who plays: the store, or the reference.
#[async_trait(?Send)]
trait Side {
    /// Makes up what is to be enqueued, which is the caller's work.
    fn get_ready(&mut self, _jobs: usize) {}
    async fn enqueue(&mut self, jobs: usize) -> Outcome<()>;
    async fn enqueue_by_many(&mut self, jobs: usize) -> Outcome<()>;
    /// At most a batch; says how many.
    async fn claim_and_finish(&mut self) -> Outcome<usize>;
    async fn make_due_schedules(&mut self) -> Outcome<()>;
    /// At most a batch; says how many.
    async fn fire(&mut self) -> Outcome<usize>;
}

struct Ours {
    store: Arc<dyn Store>,
    node: Lease,
    client: Client,
    ready: Vec<NewJob>,
}

#[async_trait(?Send)]
impl Side for Ours {
    fn get_ready(&mut self, jobs: usize) {
        self.ready = (0..jobs).map(|_| load::job()).collect();
    }

    async fn enqueue(&mut self, jobs: usize) -> Outcome<()> {
        let rest = self.ready.len().saturating_sub(jobs);
        self.store.enqueue_jobs(self.ready.split_off(rest)).await?;
        Ok(())
    }

    async fn enqueue_by_many(&mut self, jobs: usize) -> Outcome<()> {
        load::enqueue_by_many(&self.store, jobs).await
    }

    async fn claim_and_finish(&mut self) -> Outcome<usize> {
        let claimed = load::claim(&self.store, self.node, BATCH).await?;
        load::finish(&self.store, self.node, &claimed).await?;
        Ok(claimed.len())
    }

    async fn make_due_schedules(&mut self) -> Outcome<()> {
        load::make_schedules(&self.store, "s", SCHEDULES).await?;
        let back = "UPDATE punctual_internal.schedules SET created_at = created_at - interval '1 hour'";
        self.client.execute(back, &[]).await?;
        let back = "UPDATE punctual_internal.schedule_state SET next_slot_at = next_slot_at - interval '1 hour',
                    next_run_at = next_run_at - interval '1 hour'";
        self.client.execute(back, &[]).await?;
        Ok(())
    }

    async fn fire(&mut self) -> Outcome<usize> {
        Ok(self.store.fire_due(None, BATCH).await?.jobs.len())
    }
}

struct Reference {
    one: Raw,
    many: Vec<Raw>,
}

#[async_trait(?Send)]
impl Side for Reference {
    async fn enqueue(&mut self, jobs: usize) -> Outcome<()> {
        self.one.enqueue(jobs).await
    }

    async fn enqueue_by_many(&mut self, jobs: usize) -> Outcome<()> {
        let tasks: Vec<_> = std::mem::take(&mut self.many)
            .into_iter()
            .map(|mut caller| {
                tokio::spawn(async move {
                    for _ in 0..jobs / CONNECTIONS {
                        caller.enqueue(1).await.map_err(|error| error.to_string())?;
                    }
                    Ok::<_, String>(caller)
                })
            })
            .collect();
        for task in tasks {
            self.many.push(task.await??);
        }
        Ok(())
    }

    async fn claim_and_finish(&mut self) -> Outcome<usize> {
        self.one.claim_and_finish(BATCH).await
    }

    async fn make_due_schedules(&mut self) -> Outcome<()> {
        self.one.make_due_schedules(SCHEDULES).await
    }

    async fn fire(&mut self) -> Outcome<usize> {
        self.one.fire(BATCH).await
    }
}

struct Match {
    /// The reference first.
    sides: [Box<dyn Side>; 2],
    databases: [Database; 2],
    /// A connection that only looks.
    client: Client,
    cpu: Cpu,
    report: Report,
}

/// What takes turns.
#[derive(Clone, Copy)]
enum Turn {
    Enqueue,
    EnqueueSingle,
    EnqueueByMany,
    ClaimAndFinish,
    Fire,
}

impl Turn {
    /// Speed, processor time, and what is logged.
    fn figures(self) -> (Figure, Figure, Option<Figure>) {
        match self {
            Self::Enqueue => (Figure::EnqueueBatched, Figure::CpuOfEnqueue, Some(Figure::WalOfEnqueue)),
            Self::EnqueueSingle => (Figure::EnqueueSingle, Figure::CpuOfSingle, None),
            Self::EnqueueByMany => (Figure::EnqueueManyCallers, Figure::CpuOfMany, None),
            Self::ClaimAndFinish => {
                (Figure::ClaimAndFinish, Figure::CpuOfClaimAndFinish, Some(Figure::WalOfClaimAndFinish))
            }
            Self::Fire => (Figure::Fire, Figure::CpuOfFire, Some(Figure::WalOfFire)),
        }
    }

    async fn of(self, side: &mut dyn Side) -> Outcome<usize> {
        match self {
            Self::Enqueue => side.enqueue(BATCH).await.map(|()| BATCH),
            Self::EnqueueSingle => {
                for _ in 0..SINGLES {
                    side.enqueue(1).await?;
                }
                Ok(SINGLES)
            }
            Self::EnqueueByMany => side.enqueue_by_many(SINGLES_OF_MANY).await.map(|()| SINGLES_OF_MANY),
            Self::ClaimAndFinish => side.claim_and_finish().await,
            Self::Fire => side.fire().await,
        }
    }
}

impl Match {
    async fn open(server: &PrivateServer) -> Outcome<Self> {
        let databases = [Database::empty_on(server).await, Database::empty_on(server).await];
        // The store makes the tables of both.
        let connect = |database: &Database| {
            let url = database.url();
            async move { PostgresStore::connect(&url, PostgresOptions::default()).await }
        };
        connect(&databases[0]).await?;
        let store: Arc<dyn Store> = Arc::new(connect(&databases[1]).await?);
        let one = Raw::open(databases[0].connect().await).await?;
        let mut many = Vec::new();
        for _ in 0..CONNECTIONS {
            many.push(one.beside(databases[0].connect().await).await?);
        }
        let node = load::node(&store).await?;
        let ours = Ours { store, node, client: databases[1].connect().await, ready: Vec::new() };
        let client = databases[0].connect().await;
        let cpu = Cpu::of(server)?;
        let report = Report::new(["raw", "store"]);
        Ok(Self { sides: [Box::new(Reference { one, many }), Box::new(ours)], databases, client, cpu, report })
    }

    async fn play(&mut self) -> Outcome<()> {
        // Plans are made, and kept, in the first few.
        self.turns(Turn::Enqueue, TURNS).await?;
        self.turns(Turn::EnqueueSingle, TURNS).await?;
        self.turns(Turn::EnqueueByMany, TURNS).await?;
        self.turns(Turn::ClaimAndFinish, TURNS).await?;
        self.drain().await?;
        for side in &mut self.sides {
            side.make_due_schedules().await?;
        }
        self.turns(Turn::Fire, SCHEDULES / BATCH).await?;
        self.drain().await
    }

    async fn drain(&mut self) -> Outcome<()> {
        for side in &mut self.sides {
            while side.claim_and_finish().await? > 0 {}
        }
        Ok(())
    }

    async fn turns(&mut self, turn: Turn, turns: usize) -> Outcome<()> {
        let (speed, cpu, logged) = turn.figures();
        for number in 0..turns {
            for side in if number % 2 == 0 { [0, 1] } else { [1, 0] } {
                self.sides[side].get_ready(BATCH);
                let (wal, used) = (self.wal().await?, self.cpu.before());
                let started = Instant::now();
                let count = turn.of(&mut *self.sides[side]).await?;
                let rate = per_second(count, started);
                let used = (self.cpu.after() - used) / each(count);
                let bytes = (self.wal().await? - wal) / each(count);
                let on = |value: f64| if side == 0 { (None, Some(value)) } else { (Some(value), None) };
                self.report.add(speed, on(rate));
                self.report.add(cpu, on(used));
                if let Some(figure) = logged {
                    self.report.add(figure, on(bytes));
                }
            }
        }
        Ok(())
    }

    /// How many bytes of log there are.
    async fn wal(&self) -> Outcome<f64> {
        let row = self.client.query_one("SELECT (pg_current_wal_insert_lsn() - '0/0')::float8", &[]).await?;
        Ok(row.get(0))
    }

    async fn check_all_accounted_for(&self) -> Outcome<()> {
        let sql = "SELECT (SELECT count(*) FROM punctual_internal.jobs), (SELECT count(*) FROM punctual_internal.runs),
                   (SELECT count(*) FROM punctual_internal.queue) + (SELECT count(*) FROM punctual_internal.running)";
        for database in &self.databases {
            let row = database.connect().await.query_one(sql, &[]).await?;
            let (jobs, runs, open): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
            let expected = i64::try_from(TOTAL)?;
            if (jobs, runs, open) != (expected, expected, 0) {
                return Err(format!("jobs {jobs}, runs {runs}, open {open}; expected {expected}").into());
            }
        }
        Ok(())
    }
}
