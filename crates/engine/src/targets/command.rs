//! Programs: argv without a shell, a cleared environment, a process group of their own.

use async_trait::async_trait;
use punctual_core::execute::{Executor, RunContext, StopReason};
use punctual_core::json::Json;
use punctual_core::run::ErrorCode;
use punctual_core::secret::Value;
use punctual_core::store::FinishedRun;
use punctual_core::target::{Command, Target};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Child;
use tokio::time::timeout;

/// The most of a command's output that is kept with the run.
const OUTPUT_MAX_BYTES: u64 = 64 * 1024;

/// How long after a command's end its output is waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs commands.
#[derive(Debug, Default)]
pub struct CommandExecutor;

#[async_trait]
impl Executor for CommandExecutor {
    async fn run(&self, run: RunContext) -> FinishedRun {
        let Target::Command(command) = &run.job.spec.target else {
            return run.failed(ErrorCode::Internal, "a job of another kind was handed to the command executor");
        };
        let program = command.argv.first().map_or("", String::as_str);
        match prepare(&run, command).spawn() {
            Ok(child) => watch(child, &run).await,
            Err(error) => run.failed(ErrorCode::TargetError, format!("cannot start `{program}`: {error}")),
        }
    }
}

fn prepare(run: &RunContext, command: &Command) -> tokio::process::Command {
    let mut process = tokio::process::Command::new(command.argv.first().map_or("", String::as_str));
    process.args(command.argv.iter().skip(1));
    process.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    process.envs(command.env.iter().filter_map(|(name, value)| match value {
        Value::Plain(text) => Some((name, text)),
        Value::Secret(_) => None,
    }));
    let id = run.job.id.to_string();
    process.env("PUNCTUAL_JOB_ID", &id).env("PUNCTUAL_RUN_ID", &id);
    process.env("PUNCTUAL_ATTEMPT", run.job.attempt.to_string());
    process.envs(run.job.slot_at.map(|slot_at| ("PUNCTUAL_SLOT", slot_at.to_string())));
    process.envs(run.job.spec.trace_context.as_ref().map(|trace| ("TRACEPARENT", trace)));
    if let Some(cwd) = &command.cwd {
        process.current_dir(cwd);
    }
    // A group of its own, so that a signal reaches its children too, and the terminal's Ctrl-C does not.
    #[cfg(unix)]
    process.process_group(0);
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    process
}

/// Waits for the end, or brings it about: first politely, then, when the run is fenced or dropped, by force.
async fn watch(mut child: Child, run: &RunContext) -> FinishedRun {
    let stdout = child.stdout.take();
    let reading = tokio::spawn(async move {
        let mut kept = Vec::new();
        if let Some(mut stdout) = stdout {
            // A program that says more than is kept must not be blocked by a full pipe.
            let _cut = (&mut stdout).take(OUTPUT_MAX_BYTES).read_to_end(&mut kept).await;
            let _rest = tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await;
        }
        kept
    });
    let status = tokio::select! {
        status = child.wait() => status,
        reason = run.stop.requested() => {
            signal_group(&child, reason);
            child.wait().await
        }
    };
    match status {
        Ok(status) => {
            // A grandchild may keep the pipe open; what it says after the end is not part of the run.
            let stdout = timeout(LAST_WORDS, reading).await.ok().and_then(Result::ok);
            judge(run, status, stdout.as_deref())
        }
        Err(error) => run.failed(ErrorCode::Internal, format!("cannot wait for the command: {error}")),
    }
}

/// Tells the whole group: by force when nothing may go on, politely otherwise.
fn signal_group(child: &Child, reason: StopReason) {
    let signal = if reason == StopReason::Fenced { "-KILL" } else { "-TERM" };
    if let Some(pid) = child.id() {
        let told = std::process::Command::new("kill").args([signal, "--", &format!("-{pid}")]).status();
        if let Err(error) = told {
            tracing::warn!("failed to signal a command: {error}");
        }
    }
}

fn judge(run: &RunContext, status: ExitStatus, stdout: Option<&[u8]>) -> FinishedRun {
    let exit_code = status.code();
    if status.success() {
        return FinishedRun { exit_code, ..run.completed(stdout.and_then(kept)) };
    }
    let words = exit_code.map_or_else(|| status.to_string(), |code| format!("exit code {code}"));
    FinishedRun { exit_code, ..run.failed(ErrorCode::TargetError, words) }
}

/// What a command said, as JSON text.
fn kept(stdout: &[u8]) -> Option<Json> {
    let text = String::from_utf8_lossy(stdout);
    let text = text.trim_end().replace('\0', "\u{fffd}");
    if text.is_empty() { None } else { Json::from_value("output", &text).ok() }
}
