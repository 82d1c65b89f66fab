//! What a node costs that has nothing to do: its share of a core and its memory, with many schedules stored.

use crate::load::{Outcome, each};
use crate::report::{self, Cell, Goal, Sheet, Survey, Table};
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::Store;
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use punctual_engine::node::{self, NodeOptions, Signals};
use punctual_engine::targets::command::CommandExecutor;
use punctual_engine::work::Executors;
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use std::io::BufRead;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How long the node is watched, after as long to settle.
const WATCHED: Duration = Duration::from_secs(30);

/// Linux counts a process's time in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// Measures the section `idle`.
pub fn run(schedules: usize) -> Outcome<()> {
    let mut survey = Survey::begin()?;
    let mut sheet = Sheet::new("idle", "Idle", &format!("idle {schedules}"));
    sheet.say(format!(
        "A node that has nothing to do, watched for {} s after as long to settle, with {} schedules stored.",
        WATCHED.as_secs(),
        report::spelled(each(schedules), 0)
    ));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("idle.db");
        let store = Arc::new(SqliteStore::open(&file, SqliteOptions::default())?);
        fill(&store, schedules).await?;
        survey.sqlite(&store).await?;
        drop(store);
        let on_sqlite = watch(&format!("sqlite:{}", file.display())).await?;
        let server = PrivateServer::start(true);
        let database = Database::empty_on(&server).await;
        let store = Arc::new(PostgresStore::connect(&database.url(), PostgresOptions::default()).await?);
        fill(&store, schedules).await?;
        survey.postgres(&server, &database.connect().await).await?;
        drop(store);
        let on_postgres = watch(&database.url()).await?;
        let mut table = Table::new("", ["store", "of a core", "memory"]);
        for (store, (percent, megabytes)) in [("SQLite", on_sqlite), ("PostgreSQL", on_postgres)] {
            let cells = [Cell::with_unit(percent, 2, "%"), Cell::with_unit(megabytes, 1, "MB")];
            table.row(std::iter::once(Cell::words(store)).chain(cells));
            sheet.answer(Goal::IdleCore, store, percent);
            sheet.answer(Goal::IdleMemory, store, megabytes);
        }
        sheet.tables.push(table);
        report::keep(sheet, survey)
    })
}

/// Schedules as users make them, due some time tomorrow at the earliest.
async fn fill<S: Store + 'static>(store: &Arc<S>, schedules: usize) -> Outcome<()> {
    const CALLERS: usize = 64;
    let at = store.now().await? + jiff::SignedDuration::from_hours(24);
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                for n in (caller..schedules).step_by(CALLERS) {
                    let name = Name::new(format!("idle {n}"))?;
                    let definition = ScheduleDefinition::new(name, TimingSpec::At { at }, Target::command(["true"]));
                    store.create_schedule(definition).await?;
                }
                Ok::<_, punctual_core::store::StoreError>(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok(())
}

/// A process of its own, so that nothing but the node is counted: percent of a core, and megabytes.
async fn watch(url: &str) -> Outcome<(f64, f64)> {
    let child = Node::start(url)?;
    tokio::time::sleep(WATCHED).await;
    let before = cpu_ticks(child.0.id())?;
    tokio::time::sleep(WATCHED).await;
    let share = (cpu_ticks(child.0.id())? - before) / TICKS_PER_SECOND / WATCHED.as_secs_f64();
    Ok((share * 100.0, resident_megabytes(child.0.id())?))
}

/// A node in a process of its own, which ends with this.
pub struct Node(Child);

impl Node {
    /// Starts one and waits until it has come to work.
    pub fn start(url: &str) -> Outcome<Self> {
        let mut child =
            Self(Command::new(std::env::current_exe()?).args(["idle-node", url]).stdout(Stdio::piped()).spawn()?);
        let stdout = child.0.stdout.take().ok_or("the node has no output")?;
        let mut line = String::new();
        std::io::BufReader::new(stdout).read_line(&mut line)?;
        if line.trim() == "ready" { Ok(child) } else { Err(format!("the node did not come to work: {line}").into()) }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}

/// User and system time of a process.
fn cpu_ticks(pid: u32) -> Outcome<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the program's name, which may hold anything, and its bracket.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|field| field.parse::<f64>().ok()).ok_or("no such field");
    Ok(ticks(11)? + ticks(12)?)
}

fn resident_megabytes(pid: u32) -> Outcome<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes / 1024.0)
}

/// The node that is watched: the usual options, until it is killed.
pub fn node(url: &str) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let store: Arc<dyn Store> = if url.starts_with("sqlite:") {
            Arc::new(SqliteStore::from_url(url, SqliteOptions::default())?)
        } else {
            let options = PostgresOptions::default();
            Arc::new(PostgresStore::connect(url, options).await?)
        };
        let executors = Executors::default().with("command", Arc::new(CommandExecutor::default()));
        let never = || Box::pin(std::future::pending::<()>());
        let signals = Signals { gently: never(), now: never() };
        node::run_until(store, executors, NodeOptions::default(), signals, |_| println!("ready")).await?;
        Ok(())
    })
}
