//! What a command job costs beyond starting its process: guard, log, folder and record, against `posix_spawn`.

use crate::figures::{median, middle_half};
use crate::load::Outcome;
use crate::report::{self, Bar, Bars, Cell, Group, Plot, Sheet, Survey, Table, Tone, spelled};
use punctual_core::job::{JobState, NewJob};
use punctual_core::store::Store;
use punctual_core::target::Target;
use punctual_engine::dispatch::DeskOptions;
use punctual_engine::node::{self, NodeOptions, Signals};
use punctual_engine::targets::command::CommandExecutor;
use punctual_engine::work::Executors;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const JOBS: u16 = 1000;
const ROUNDS: usize = 3;

/// Measures the section `command`: `true` a thousand times, each way, several times in turn.
pub fn run() -> Outcome<()> {
    let mut survey = Survey::begin()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut bare, mut jobs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(spawn_all()?.as_secs_f64());
        jobs.push(runtime.block_on(run_all(&mut survey))?.as_secs_f64());
    }
    report::keep(sheet(&bare, &jobs), survey)
}

/// Seconds for all of them, of each round.
fn sheet(bare: &[f64], jobs: &[f64]) -> Sheet {
    let count = f64::from(JOBS);
    let each = |seconds: &[f64]| seconds.iter().map(|seconds| seconds * 1e6 / count).collect::<Vec<f64>>();
    let (bare, jobs) = (each(bare), each(jobs));
    let mut sheet = Sheet::new("command", "Commands", "command");
    sheet.say(format!(
        "`true`, {JOBS} times, one after the other, {ROUNDS} times in turns: by `posix_spawn` and as jobs of a node with \
         room for one, on a durable SQLite store."
    ));
    let mut table = Table::new("", ["what", "each"]);
    let (of_bare, of_jobs) = (median(&bare), median(&jobs));
    for (what, time) in
        [("`posix_spawn` and wait", of_bare), ("as a command job", of_jobs), ("overhead", of_jobs - of_bare)]
    {
        table.row([Cell::words(what), Cell::with_unit(time, 0, "µs")]);
    }
    table.note = format!(
        "That is {} times the bare process, or {} jobs a minute.",
        spelled(of_jobs / of_bare, 1),
        spelled(60e6 / of_jobs, 0)
    );
    sheet.tables.push(table);
    let bar = |label, tone, times: &[f64]| Bar::new(label, tone, median(times), Some(middle_half(times)));
    let both = vec![bar("posix_spawn and wait", Tone::Raw, &bare), bar("as a command job", Tone::Ours, &jobs)];
    sheet.plots.push(Plot::Bars(Bars {
        title: "One run of true".to_owned(),
        unit: "µs".to_owned(),
        groups: vec![Group { name: String::new(), bars: both }],
        ..Bars::default()
    }));
    sheet
}

/// The raw limit: the standard library starts a process without a closure by `posix_spawn`.
fn spawn_all() -> Outcome<Duration> {
    let begin = Instant::now();
    for _ in 0..JOBS {
        let mut child =
            Command::new("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        if !child.wait()?.success() {
            return Err("`true` failed".into());
        }
    }
    Ok(begin.elapsed())
}

/// The same as jobs of a node with room for one, on a durable store.
async fn run_all(survey: &mut Survey) -> Outcome<Duration> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(&folder.path().join("bench.db"), SqliteOptions::default())?);
    survey.sqlite(&store).await?;
    let made = store.enqueue_jobs(vec![NewJob::new(Target::command(["true"])); usize::from(JOBS)]).await?;
    let executors = Executors::default().with("command", Arc::new(CommandExecutor::default()));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let signals = Signals { gently: Box::pin(async { drop(stopped.await) }), now: Box::pin(std::future::pending()) };
    let usual = NodeOptions::default();
    let options = NodeOptions { desk: DeskOptions { room: 1, ..usual.desk.clone() }, ..usual };
    let begin = Instant::now();
    let node = tokio::spawn(node::run_until(Arc::clone(&store) as Arc<dyn Store>, executors, options, signals, |_| {}));
    let last = made.last().copied().ok_or("no job was made")?;
    let mut changes = store.changes();
    while store.job(last).await?.is_some_and(|view| !view.state().is_terminal()) {
        changes.next().await;
    }
    let took = begin.elapsed();
    drop(stop);
    node.await??;
    for id in made {
        if store.job(id).await?.is_none_or(|view| view.state() != JobState::Completed) {
            return Err("a job did not complete".into());
        }
    }
    Ok(took)
}
