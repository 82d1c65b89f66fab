//! The present: nodes that act out the scripts in real time, and a steady trickle of work for them.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use punctual_core::execute::StopReason;
use punctual_core::job::NewJob;
use punctual_core::store::{Store, StoreResult};
use punctual_engine::dispatch::DeskOptions;
use punctual_engine::flow::{FLOW, FlowExecutor};
use punctual_engine::node::{self, NodeOptions};
use punctual_engine::targets::command::CommandExecutor;
use punctual_engine::targets::task::{Context, Handler, TaskError};
use punctual_engine::work::Executors;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::cast::{TASKS, offer};
use super::dice::Dice;
use super::script::{Ending, World};
use super::traffic::{FIRST_OF_PRESENT, Visit};

/// The nodes of the present.
pub(super) const NODES: [&str; 2] = ["web-1", "web-2"];

/// How long running jobs may go on when the demo stops.
const GRACE: Duration = Duration::from_millis(500);

/// From one moment at which somebody may visit to the next.
const BEAT: Duration = Duration::from_millis(250);

/// After so many moments, an hour, visits become rare: a demo that is forgotten must not fill a disk.
const LIVELY_BEATS: u64 = 4 * 60 * 60;

/// Runs one node until the flag goes up.
pub(super) async fn work(
    name: &str, store: Arc<dyn Store>, world: Arc<World>, mut ended: watch::Receiver<bool>,
) -> StoreResult<()> {
    let usual = NodeOptions::default();
    let options = NodeOptions {
        name: name.to_owned(),
        desk: DeskOptions { room: 12, grace: GRACE, ..usual.desk },
        shutdown_grace: GRACE,
        ..usual
    };
    let gently = Box::pin(async move { drop(ended.wait_for(|ended| *ended).await) });
    let signals = node::Signals { gently, now: Box::pin(std::future::pending()) };
    node::run_until(store, executors(&world), options, signals, |_| {}).await
}

/// Commands are run for real; tasks act out their scripts.
fn executors(world: &Arc<World>) -> Executors {
    let commands =
        Executors::default().with("command", Arc::new(CommandExecutor::default())).with(FLOW, Arc::new(FlowExecutor));
    TASKS.iter().fold(commands, |executors, task| {
        let world = Arc::clone(world);
        let act = move |context: Context, _: Value| act(Arc::clone(&world), context);
        executors.with(offer(task), Arc::new(Handler::new(act)))
    })
}

/// Says what the script says, when it says it, and ends as it ends.
async fn act(world: Arc<World>, context: Context) -> Result<Value, TaskError> {
    let script = world.script(&context.job, context.started_at);
    let began = Instant::now();
    let not_before = |after: SignedDuration| began + Duration::try_from(after).unwrap_or_default();
    for (number, (after, stream, line)) in script.told().enumerate() {
        wait(&context, not_before(after)).await?;
        context.reports.log(stream, line);
        if let Some(progress) = script.progress(number + 1) {
            context.reports.progress(progress);
        }
    }
    wait(&context, not_before(script.takes)).await?;
    if let Some((name, contents)) = script.artifact {
        context.artifact(name, contents.into_bytes()).await?;
    }
    match script.ending {
        Ending::Done(output) => Ok(output),
        Ending::Failed(error) => Err(TaskError::Retryable(error)),
        Ending::Hopeless(error) => Err(TaskError::Fatal(error)),
        Ending::Exit(code) => Err(TaskError::Fatal(format!("exit code {code}"))),
    }
}

/// Waits for a moment of the script, unless the run is to stop before.
async fn wait(context: &Context, until: Instant) -> Result<(), TaskError> {
    tokio::select! {
        () = tokio::time::sleep_until(until) => Ok(()),
        reason = context.stopped() => Err(TaskError::Retryable(words(reason).to_owned())),
    }
}

fn words(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Cancelled => "cancelled",
        StopReason::Timeout => "out of time",
        StopReason::Shutdown | StopReason::Fenced => "the node stops",
    }
}

/// Lets people visit until it is dropped: five to ten jobs in a second, and now and then something that takes longer.
pub(super) async fn visits(store: &dyn Store, world: &World) -> StoreResult<()> {
    let mut visit = Visit { dice: Dice::new(world.seed, "present", 0), n: FIRST_OF_PRESENT };
    let mut beats = tokio::time::interval(BEAT);
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for beat in 0_u64.. {
        beats.tick().await;
        let jobs = jobs_of(beat, &mut visit)?;
        if !jobs.is_empty() {
            store.enqueue_jobs(jobs).await?;
        }
    }
    Ok(())
}

fn jobs_of(beat: u64, visit: &mut Visit) -> StoreResult<Vec<NewJob>> {
    let visitors = if beat < LIVELY_BEATS { 1 + visit.dice.below(2) } else { u64::from(beat.is_multiple_of(8)) };
    let mut jobs = Vec::new();
    for _ in 0..visitors {
        jobs.extend(visit.small_jobs()?);
    }
    if beat % 60 == 3 {
        jobs.push(visit.film()?);
    }
    if beat % 80 == 6 {
        jobs.push(visit.invoice()?);
    }
    if beat % 120 == 9 {
        jobs.push(visit.report()?);
    }
    Ok(jobs)
}
