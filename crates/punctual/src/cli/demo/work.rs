//! A small worker for the demo: claims jobs, runs their commands, reports how they ended.
//!
//! It stands in for the engine's dispatch and work loops and goes when they come: no heartbeat, no cancellation, no
//! logs. The claims, the commands and the results are real.

use std::collections::BTreeSet;
use std::process::{Output, Stdio};
use std::time::Duration;

use punctual_core::id::{ClaimId, JobId};
use punctual_core::job::{Job, Timeout};
use punctual_core::json::Json;
use punctual_core::run::ErrorCode;
use punctual_core::store::{ClaimRequest, FinishedRun, Lease, NewNode, Store, StoreResult};
use punctual_core::target::{Command, Target};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// How many commands run at once.
const ROOM: usize = 8;

/// A wake-up that got lost costs no more than this.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long running commands may go on when the demo stops.
const GRACE: Duration = Duration::from_secs(2);

/// The most of a command's output that is kept.
const OUTPUT_MAX_BYTES: usize = 4096;

/// Comes to work, runs jobs until `ended`, and leaves nothing running behind. `work_made` says that there may be
/// jobs to claim; `plans_changed` is told when a retry waits for its time.
pub(super) async fn run_until(
    store: &dyn Store, work_made: &Notify, plans_changed: &Notify, ended: impl Future<Output = ()>,
) -> StoreResult<()> {
    let node = NewNode { name: "demo".to_owned(), offers: vec!["command".to_owned()] };
    let lease = store.register_node(node).await?;
    let mut worker = Worker { store, lease, commands: JoinSet::new(), ours: BTreeSet::new() };
    let mut ended = std::pin::pin!(ended);
    loop {
        worker.claim().await?;
        tokio::select! {
            biased;
            () = &mut ended => break,
            Some(done) = worker.commands.join_next() => {
                worker.finish(done.ok()).await?;
                plans_changed.notify_one();
            }
            () = work_made.notified() => {}
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
    }
    worker.leave().await
}

struct Worker<'a> {
    store: &'a dyn Store,
    lease: Lease,
    commands: JoinSet<FinishedRun>,
    /// What is claimed and not finished.
    ours: BTreeSet<JobId>,
}

impl Worker<'_> {
    /// Takes as many jobs as there is room for, and starts them.
    async fn claim(&mut self) -> StoreResult<()> {
        let limit = ROOM.saturating_sub(self.commands.len());
        if limit == 0 {
            return Ok(());
        }
        let request = ClaimRequest {
            lease: self.lease,
            claim_id: ClaimId(uuid::Uuid::new_v4()),
            queues: Vec::new(),
            job_types: vec!["command".to_owned()],
            limit,
        };
        for claimed in self.store.claim_jobs_if_leased(request).await? {
            self.ours.insert(claimed.job.id);
            self.commands.spawn(run(claimed.job));
        }
        Ok(())
    }

    /// Reports one end, and those that came meanwhile with it.
    async fn finish(&mut self, first: Option<FinishedRun>) -> StoreResult<()> {
        let mut done: Vec<_> = first.into_iter().collect();
        while let Some(next) = self.commands.try_join_next() {
            done.extend(next);
        }
        for run in &done {
            self.ours.remove(&run.job_id);
        }
        self.store.finish_runs_if_leased(self.lease, done).await?;
        Ok(())
    }

    /// Lets what runs come to its end, for a while, and stops the rest.
    async fn leave(mut self) -> StoreResult<()> {
        let grace = tokio::time::sleep(GRACE);
        let mut grace = std::pin::pin!(grace);
        loop {
            tokio::select! {
                done = self.commands.join_next() => match done {
                    Some(done) => self.finish(done.ok()).await?,
                    None => break,
                },
                () = &mut grace => break,
            }
        }
        self.commands.shutdown().await;
        let stopped = |id: &JobId| FinishedRun::failed(*id, ErrorCode::Interrupted, "the demo was stopped");
        let stopped: Vec<_> = self.ours.iter().map(stopped).collect();
        self.store.finish_runs_if_leased(self.lease, stopped).await?;
        self.store.leave_if_leased(self.lease).await
    }
}

/// Runs one job to its end.
async fn run(job: Job) -> FinishedRun {
    let Target::Command(command) = &job.spec.target else {
        return FinishedRun::failed(job.id, ErrorCode::NoExecutor, "the demo runs commands only");
    };
    let limit = match job.spec.timeout {
        Timeout::After(limit) => Duration::try_from(limit).unwrap_or(Duration::MAX),
        Timeout::Never => Duration::MAX,
    };
    match tokio::time::timeout(limit, prepare(&job, command).output()).await {
        Ok(Ok(output)) => judge(job.id, &output),
        Ok(Err(error)) => {
            let program = command.argv.first().map_or("", String::as_str);
            FinishedRun::failed(job.id, ErrorCode::TargetError, format!("cannot start `{program}`: {error}"))
        }
        Err(_) => FinishedRun::failed(job.id, ErrorCode::Timeout, "it ran longer than its timeout"),
    }
}

fn prepare(job: &Job, command: &Command) -> tokio::process::Command {
    let mut process = tokio::process::Command::new(command.argv.first().map_or("", String::as_str));
    process.args(command.argv.iter().skip(1));
    process.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    process.envs(&command.env).env("PUNCTUAL_JOB_ID", job.id.to_string());
    process.env("PUNCTUAL_ATTEMPT", job.attempt.to_string());
    if let Some(cwd) = &command.cwd {
        process.current_dir(cwd);
    }
    // A group of its own: Ctrl-C in the terminal is for the demo, which then decides about its commands.
    #[cfg(unix)]
    process.process_group(0);
    process.stdin(Stdio::null()).kill_on_drop(true);
    process
}

fn judge(id: JobId, output: &Output) -> FinishedRun {
    let exit_code = output.status.code();
    if output.status.success() {
        return FinishedRun { exit_code, output: kept(&output.stdout), ..FinishedRun::completed(id) };
    }
    let words = exit_code.map_or_else(|| output.status.to_string(), |code| format!("exit code {code}"));
    FinishedRun { exit_code, ..FinishedRun::failed(id, ErrorCode::TargetError, words) }
}

/// The beginning of what a command said, as JSON text.
fn kept(stdout: &[u8]) -> Option<Json> {
    let text = String::from_utf8_lossy(&stdout[..stdout.len().min(OUTPUT_MAX_BYTES)]);
    let text = text.trim_end().replace('\0', "\u{fffd}");
    if text.is_empty() { None } else { Json::from_value("output", &text).ok() }
}
