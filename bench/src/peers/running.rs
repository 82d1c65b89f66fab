//! One contestant at work: a process that speaks JSON lines, with a limit on how long each answer may take.

use crate::load::Outcome;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// How much of what a contestant says on stderr is kept for when it fails.
const TAIL: usize = 4_000;
/// How long it may take to end when it is done.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// A contestant that was started. It is killed when this is dropped.
pub struct Running {
    name: String,
    child: Child,
    /// Its process group, in which its children are, too.
    group: Option<u32>,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    tail: Arc<Mutex<Vec<u8>>>,
    /// Done when stderr is closed.
    listener: tokio::task::JoinHandle<()>,
    patience: Duration,
    started: Instant,
    ready_after: Option<Duration>,
    peak_memory_kb: Option<u64>,
}

impl Running {
    pub(super) fn start(name: &str, command: &[OsString], request: &Value, patience: Duration) -> Outcome<Self> {
        let (program, arguments) = command.split_first().ok_or("a contestant has no program")?;
        let started = Instant::now();
        let mut child = Command::new(program)
            .args(arguments)
            .arg(request.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{name}: cannot start {}: {error}", program.display()))?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(format!("{name}: started without pipes").into());
        };
        let tail = Arc::new(Mutex::new(Vec::new()));
        Ok(Self {
            name: name.to_owned(),
            group: child.id(),
            stdin: child.stdin.take(),
            lines: BufReader::new(stdout).lines(),
            listener: tokio::spawn(keep_tail(stderr, Arc::clone(&tail))),
            child,
            tail,
            patience,
            started,
            ready_after: None,
            peak_memory_kb: None,
        })
    }

    /// Waits until it is ready for the word.
    pub async fn ready(&mut self) -> Outcome<Value> {
        let ready = self.event("ready").await?;
        self.ready_after = Some(self.started.elapsed());
        Ok(ready)
    }

    /// Gives the word.
    pub async fn go(&mut self) -> Outcome<()> {
        let stdin = self.stdin.as_mut().ok_or("the contestant was told to end already")?;
        let told = stdin.write_all(b"go\n").await;
        match told {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failed(&format!("cannot be told to go: {error}")).await),
        }
    }

    /// Waits for what came of it, and until the process has ended.
    pub async fn done(&mut self) -> Outcome<Value> {
        let done = self.event("done").await?;
        // It stays for this until stdin is closed.
        self.peak_memory_kb = self.group.and_then(peak_memory_kb);
        self.end().await?;
        Ok(done)
    }

    /// From its start until it was ready: its own start, the migration, and what the scenario enqueues before.
    pub fn ready_after(&self) -> Option<Duration> {
        self.ready_after
    }

    /// The most memory that each of its processes had, in sum.
    pub fn peak_memory_kb(&self) -> Option<u64> {
        self.peak_memory_kb
    }

    /// The answer of a contestant that is asked for nothing else.
    pub async fn only_line(&mut self) -> Outcome<Value> {
        let line = self.line("its description").await?;
        self.end().await?;
        Ok(line)
    }

    async fn event(&mut self, wanted: &str) -> Outcome<Value> {
        let line = self.line(wanted).await?;
        if line["event"] == json!(wanted) {
            return Ok(line);
        }
        if line["event"] == json!("failed") {
            let why = line["why"].as_str().unwrap_or("it does not say why").to_owned();
            return Err(self.failed(&why).await);
        }
        Err(self.failed(&format!("said {line} where {wanted:?} was expected")).await)
    }

    async fn line(&mut self, wanted: &str) -> Outcome<Value> {
        let line = match timeout(self.patience, self.lines.next_line()).await {
            Err(_) => {
                self.kill();
                let why = format!("has not said {wanted:?} after {} s; stopped it", self.patience.as_secs_f64());
                return Err(self.failed(&why).await);
            }
            Ok(Ok(Some(line))) => line,
            Ok(Ok(None)) => return Err(self.failed(&format!("ended before it said {wanted:?}")).await),
            Ok(Err(error)) => return Err(self.failed(&format!("cannot be heard: {error}")).await),
        };
        match serde_json::from_str(&line) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failed(&format!("said {line:?}, which is not JSON: {error}")).await),
        }
    }

    /// Closes stdin, upon which it ends.
    async fn end(&mut self) -> Outcome<()> {
        self.stdin = None;
        match timeout(END_PATIENCE, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(self.failed(&format!("did its work, but ended with {status}")).await),
            Ok(Err(error)) => Err(self.failed(&format!("cannot be waited for: {error}")).await),
            Err(_) => {
                self.kill();
                Err(self.failed(&format!("did not end {} s after stdin was closed", END_PATIENCE.as_secs())).await)
            }
        }
    }

    /// The error with the end of what was said on stderr.
    async fn failed(&mut self, why: &str) -> Box<dyn std::error::Error + Send + Sync> {
        self.stdin = None;
        // All of stderr, if the process has ended or is about to.
        let _ = timeout(Duration::from_secs(1), &mut self.listener).await;
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = String::from_utf8_lossy(&tail);
        let tail = tail.trim();
        let tail = if tail.is_empty() { "nothing" } else { tail };
        format!("{}: {why}; on stderr it said: {tail}", self.name).into()
    }

    /// Ends it with its children.
    fn kill(&mut self) {
        let Some(group) = self.group.take() else { return };
        if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        let mut kill = std::process::Command::new("kill");
        let _ = kill.args(["-KILL", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn keep_tail(mut stderr: ChildStderr, tail: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&buffer[..read]);
        let surplus = tail.len().saturating_sub(TAIL);
        tail.drain(..surplus);
    }
}

/// Of all processes of a group.
fn peak_memory_kb(group: u32) -> Option<u64> {
    let processes = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let peaks = processes.filter(|process| {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        // Behind the name, which may hold anything: the state, the parent, the group.
        let word = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(2));
        word.is_some_and(|word| word.parse() == Ok(group))
    });
    let peaks = peaks.filter_map(|process| {
        let status = fs::read_to_string(process.join("status")).ok()?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        peak.split_whitespace().next()?.parse::<u64>().ok()
    });
    peaks.reduce(|sum, peak| sum + peak)
}

#[cfg(test)]
mod tests;
