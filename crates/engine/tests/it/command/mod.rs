//! Commands, from the job in a real store to real processes and back.

mod basics;
mod poison;
mod records;

use crate::node::{RunningNode, World};
use jiff::SignedDuration;
use punctual_core::id::JobId;
use punctual_core::job::{NewJob, Run, Timeout};
use punctual_core::json::Json;
use punctual_core::records::{LogLine, LogStream, RunRecords};
use punctual_core::retry::RetryPolicy;
use punctual_core::store::Store;
use punctual_core::target::{Command, Target};
use punctual_engine::targets::command::{CommandExecutor, CommandOptions};
use punctual_engine::work::Executors;
use std::fs;
use std::sync::Arc;

/// A node that runs commands, each in a folder below one that can be counted.
struct Commands {
    world: World,
    node: RunningNode,
    scratch: tempfile::TempDir,
}

impl Commands {
    fn new() -> Self {
        let world = World::new();
        let (executors, scratch) = executors();
        let node = world.start(executors);
        Self { world, node, scratch }
    }

    async fn enqueue(&self, job: NewJob) -> JobId {
        self.world.store.enqueue_jobs(vec![job]).await.unwrap()[0]
    }

    async fn end(&self, id: JobId) -> Run {
        self.world.until_ended(id).await.run().cloned().unwrap()
    }

    async fn run(&self, job: NewJob) -> (JobId, Run) {
        let id = self.enqueue(job).await;
        (id, self.end(id).await)
    }

    async fn log(&self, id: JobId) -> Vec<LogLine> {
        self.world.store.run_log(id, 0, usize::MAX).await.unwrap()
    }

    /// What was said on one stream.
    async fn said(&self, id: JobId, stream: LogStream) -> Vec<String> {
        self.log(id).await.into_iter().filter(|line| line.stream == stream).map(|line| line.text).collect()
    }

    /// Waits until a running job has said a line.
    async fn until_said(&self, id: JobId, text: &str) {
        while !self.log(id).await.iter().any(|line| line.text == text) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// Leaves, and asserts that no process, no folder and no descriptor is left.
    async fn leave_nothing(self) {
        let left: Vec<_> = fs::read_dir(self.scratch.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert!(left.is_empty(), "folders are left: {left:?}");
        self.node.leave().await;
        assert_eq!(children(), Vec::<String>::new(), "processes are left");
    }
}

fn executors() -> (Executors, tempfile::TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    let options = CommandOptions { scratch: scratch.path().to_owned(), ..CommandOptions::default() };
    (Executors::default().with("command", Arc::new(CommandExecutor::new(options))), scratch)
}

/// A job that is tried once.
fn job(command: Command) -> NewJob {
    NewJob {
        retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() },
        timeout: Timeout::After(SignedDuration::from_mins(5)),
        ..NewJob::new(Target::from(command))
    }
}

fn argv<const N: usize>(words: [&str; N]) -> Command {
    Command { argv: words.map(str::to_owned).to_vec(), ..Command::default() }
}

/// A script for the shell.
fn script(text: &str) -> Command {
    Command { shell: true, ..argv([text]) }
}

fn after_ms(job: NewJob, limit: i64) -> NewJob {
    NewJob { timeout: Timeout::After(SignedDuration::from_millis(limit)), ..job }
}

fn with_input(job: NewJob, input: &str) -> NewJob {
    NewJob { input: Json::parse("input", input).unwrap(), ..job }
}

/// A number of the run's usage.
fn used(run: &Run, what: &str) -> i64 {
    let usage: serde_json::Value = run.usage.as_ref().unwrap().to().unwrap();
    usage[what].as_i64().unwrap()
}

/// Children of this process, the ended ones that nobody took in included.
fn children() -> Vec<String> {
    let me = std::process::id().to_string();
    let stats = processes().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok());
    let ours = stats.filter(|stat| {
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        rest.split(' ').nth(1) == Some(&me)
    });
    ours.collect()
}

/// Processes whose command line holds a text.
fn with_argument(text: &str) -> Vec<u32> {
    let holds = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| contains(&line, text.as_bytes()));
    processes().filter(holds).collect()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A time to sleep that no other process sleeps.
fn unlike_any_other() -> String {
    format!("{}.{:06}", 90_000 + std::process::id() % 1000, uuid::Uuid::new_v4().as_u128() % 1_000_000)
}
