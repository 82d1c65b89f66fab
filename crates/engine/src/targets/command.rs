//! Programs: argv without a shell, a cleared environment, a session of their own, and nothing left behind.

mod artifacts;
mod child;
mod ending;
mod guard;
mod launch;
mod output;
mod user;

use self::child::{Child, Ending, Started};
use self::launch::Prepared;
use async_trait::async_trait;
use punctual_core::execute::{Executor, RunContext, StopReason};
use punctual_core::invalid::Invalid;
use punctual_core::records::LogStream;
use punctual_core::run::ErrorCode;
use punctual_core::store::FinishedRun;
use punctual_core::target::{Command, Target};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How much longer than the grace a command may take: to be killed, and to have its files kept.
const LAST_MOMENT: Duration = Duration::from_secs(10);

/// What commands get of the node's own world.
#[derive(Debug, Clone)]
pub struct CommandOptions {
    /// Variables of the node that commands see; all others are theirs to name.
    pub pass_env: Vec<String>,
    /// Where the empty folders are made that commands run in.
    pub scratch: PathBuf,
    /// How long the node may be silent before its commands are ended: a node that was stopped, or that cannot keep up,
    /// may have lost its jobs to another one. Shorter than its lease.
    pub silence: Duration,
}

impl Default for CommandOptions {
    fn default() -> Self {
        let passed = ["PATH", "HOME", "LANG", "LC_ALL", "TZ"];
        Self {
            pass_env: passed.map(str::to_owned).to_vec(),
            scratch: std::env::temp_dir(),
            silence: Duration::from_secs(10),
        }
    }
}

/// Runs commands.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use punctual_core::{job::{JobState, NewJob}, store::Store, target::Target};
/// use punctual_engine::{node, targets::command::CommandExecutor, work::Executors};
/// use punctual_store_sqlite::{SqliteOptions, SqliteStore};
/// use std::sync::Arc;
///
/// let folder = tempfile::tempdir().unwrap();
/// let store = Arc::new(SqliteStore::open(&folder.path().join("app.db"), SqliteOptions::default())?);
/// let job = store.enqueue_jobs(vec![NewJob::new(Target::command(["echo", "hello"]))]).await?[0];
///
/// let commands = Executors::default().with("command", Arc::new(CommandExecutor::default()));
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let signals = node::Signals {
///     gently: Box::pin(async { drop(stopped.await) }),
///     now: Box::pin(std::future::pending()),
/// };
/// let node = tokio::spawn(node::run_until(store.clone(), commands, Default::default(), signals, |_| {}));
/// let mut changes = store.changes();
/// while store.job(job).await?.unwrap().state() != JobState::Completed {
///     changes.next().await;
/// }
/// drop(stop);
/// node.await.unwrap()?;
///
/// use punctual_core::records::RunRecords;
/// assert_eq!(store.run_log(job, 0, 10).await?[0].text, "hello");
/// # Ok::<(), punctual_core::store::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Default)]
pub struct CommandExecutor {
    options: CommandOptions,
}

impl CommandExecutor {
    /// One that gives its commands something else of the node's world.
    pub fn new(options: CommandOptions) -> Self {
        Self { options }
    }

    async fn execute(&self, run: &RunContext, command: &Command) -> Result<FinishedRun, NotRun> {
        let plan = launch::Plan::of(run, command, &self.options)?;
        // A fork takes its time in a large program, and so may a user database or a slow disk.
        let prepared = tokio::task::spawn_blocking(move || plan.start()).await;
        let Prepared { started, scratch, artifacts } =
            prepared.map_err(|error| NotRun::Internal(error.to_string()))??;
        let (child, ending, said) = watch_over(started, run, self.options.silence / 4).await?;
        if let Some(folder) = artifacts
            && run.stop.reason() != Some(StopReason::Fenced)
        {
            artifacts::keep(run, folder).await;
        }
        if let Some(scratch) = scratch {
            let _joined = tokio::task::spawn_blocking(move || scratch.remove()).await;
        }
        child.release().await;
        Ok(ending::judge(run, command, ending, &said))
    }
}

#[async_trait]
impl Executor for CommandExecutor {
    async fn run(&self, run: RunContext) -> FinishedRun {
        let Target::Command(command) = &run.job.spec.target else {
            return run.failed(ErrorCode::Internal, "a job of another kind was handed to the command executor");
        };
        match self.execute(&run, command).await {
            Ok(end) => end,
            Err(NotRun::Refused(why)) => run.failed(ErrorCode::TargetRejected, why.to_string()),
            Err(NotRun::Failed(why)) => run.failed(ErrorCode::TargetError, why),
            Err(NotRun::Internal(why)) => run.failed(ErrorCode::Internal, why),
        }
    }

    fn last_moment(&self) -> Duration {
        LAST_MOMENT
    }
}

/// Why a command was not even started.
#[derive(Debug)]
enum NotRun {
    /// It must not be, and will not be the next time.
    Refused(Invalid),
    /// Something that it needs is missing.
    Failed(String),
    /// Punctual could not do its part.
    Internal(String),
}

impl From<Invalid> for NotRun {
    fn from(refused: Invalid) -> Self {
        Self::Refused(refused)
    }
}

/// Takes in what the command says, and waits for its end or brings it about. Nothing of it is left then.
async fn watch_over(started: Started, run: &RunContext, pulse: Duration) -> Result<(Child, Ending, Vec<u8>), NotRun> {
    let mut child = started.watch().map_err(|error| NotRun::Internal(format!("cannot watch the command: {error}")))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (over, is_over) = watch::channel(false);
    let watching = async {
        let ending = until_ended(&mut child, run, pulse).await;
        over.send_replace(true);
        ending
    };
    let (ending, said, _) = tokio::join!(
        watching,
        output::capture(stdout, run, LogStream::Stdout, is_over.clone()),
        output::capture(stderr, run, LogStream::Stderr, is_over)
    );
    Ok((child, ending, said))
}

/// Waits for the end. Told to stop, a command is asked to end, and after the grace it is ended.
async fn until_ended(child: &mut Child, run: &RunContext, pulse: Duration) -> Ending {
    let reason = tokio::select! {
        ending = end_of(child, pulse) => return ending,
        reason = run.stop.requested() => reason,
    };
    if reason != StopReason::Fenced {
        run.log(LogStream::System, "told to stop: SIGTERM is sent");
        child.terminate().await;
        if let Ok(ending) = timeout(run.grace, end_of(child, pulse)).await {
            return ending;
        }
        run.log(LogStream::System, "it did not stop within the grace: SIGKILL is sent");
    }
    child.kill().await;
    child.end().await
}

/// Waits for the end, and lets the guard know from time to time that somebody does.
async fn end_of(child: &mut Child, pulse: Duration) -> Ending {
    loop {
        if let Ok(ending) = timeout(pulse, child.end()).await {
            return ending;
        }
        child.reassure().await;
    }
}
