//! Real worker processes: started, listened to, stopped, killed.

use crate::world::World;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What a worker says on its standard error with `PUNCTUAL_LOG=trace`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A step of its work begins.
    Begins(String),
    /// A step has ended.
    Ended(String),
    /// It looked for lost nodes, and found so many.
    Looked { lost: usize },
    /// So many of its reports came too late.
    Refused(usize),
    /// Anything else.
    Other(String),
    /// Its standard error is closed: it has died, and said nothing after this.
    Gone,
}

impl Said {
    fn understand(line: String) -> Self {
        let number =
            |name: &str| -> Option<usize> { line.split_once(&format!(" {name}="))?.1.split(' ').next()?.parse().ok() };
        let phase = line.split_once("phase=\"").and_then(|(_, rest)| rest.strip_suffix('"')).map(str::to_owned);
        match phase {
            Some(phase) if line.contains(" begins ") => Self::Begins(phase),
            Some(phase) if line.contains(" ended ") => Self::Ended(phase),
            _ if line.contains("looked for lost nodes") => Self::Looked { lost: number("lost").unwrap_or(0) },
            _ if line.contains("came too late") => Self::Refused(number("refused").unwrap_or(0)),
            _ => Self::Other(line),
        }
    }
}

/// How a worker is started.
#[derive(Debug, Clone)]
pub struct Setup {
    pub lease: &'static str,
    pub heartbeat: &'static str,
    pub concurrency: usize,
    pub log: &'static str,
    /// More for its environment, such as another clock.
    pub env: Vec<(String, String)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { lease: "2s", heartbeat: "200ms", concurrency: 4, log: "trace", env: Vec::new() }
    }
}

/// Where all workers of a test are heard.
pub struct Ear {
    tell: UnboundedSender<(u32, Said)>,
    heard: UnboundedReceiver<(u32, Said)>,
}

impl Ear {
    pub fn new() -> Self {
        let (tell, heard) = unbounded_channel();
        Self { tell, heard }
    }

    /// The next thing that a worker, known by its process id, says.
    pub async fn next(&mut self) -> (u32, Said) {
        self.heard.recv().await.expect("this end is open")
    }

    /// What was said already, if there is anything.
    pub fn pending(&mut self) -> Option<(u32, Said)> {
        self.heard.try_recv().ok()
    }
}

/// A worker process; killed when it is dropped, so that a failing test leaves nothing behind.
pub struct Worker {
    child: Child,
    last_words: Arc<Mutex<Vec<String>>>,
}

impl Worker {
    /// Starts one and waits until it says that it is ready.
    pub fn start(world: &World, ear: &Ear) -> Self {
        Self::start_as(&world.url, &Setup::default(), ear)
    }

    /// What is said about it beside the usual, as variables of its environment.
    pub fn start_with(world: &World, ear: &Ear, env: &[(&str, &str)]) -> Self {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self::start_as(&world.url, &Setup { env, ..Setup::default() }, ear)
    }

    pub fn start_as(url: &str, setup: &Setup, ear: &Ear) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args(["worker", "--database", url, "--lease", setup.lease, "--heartbeat", setup.heartbeat])
            .args(["--concurrency", &setup.concurrency.to_string()])
            .env("PUNCTUAL_LOG", setup.log)
            .envs(setup.env.clone())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let last_words = Arc::new(Mutex::new(Vec::new()));
        let (pid, stderr) = (child.id(), BufReader::new(child.stderr.take().unwrap()));
        let (tell, kept) = (ear.tell.clone(), Arc::clone(&last_words));
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let said = Said::understand(line.clone());
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.is_empty() || matches!(said, Said::Other(_)) {
                    kept.push(line);
                }
                drop(kept);
                let _nobody_listens = tell.send((pid, said));
            }
            let _nobody_listens = tell.send((pid, Said::Gone));
        });
        let worker = Self { child, last_words };
        worker.wait_until_ready()
    }

    fn wait_until_ready(mut self) -> Self {
        let mut line = String::new();
        let mut stdout = BufReader::new(self.child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with("ready"), "{line:?}, and before: {:?}", self.said());
        // What it says later is read as well, so that it never waits for a reader.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        self
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What its own clock showed when it said something first.
    pub fn clock_showed(&self) -> Timestamp {
        let line = loop {
            match self.said().into_iter().next() {
                Some(line) => break line,
                None => std::thread::yield_now(),
            }
        };
        line.split(' ').next().and_then(|time| time.parse().ok()).expect("a line begins with its time")
    }

    /// What it said besides its steps.
    pub fn said(&self) -> Vec<String> {
        self.last_words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// `kill -STOP`; every thread of it stands still afterwards.
    pub fn stop(&self) {
        stop_process(self.pid());
    }

    /// Sends it a signal, such as `-TERM`.
    pub fn signal(&self, signal: &str) {
        signal_process(self.pid(), signal);
    }
}

pub fn signal_process(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// `kill -STOP`, and waits until every thread stands still: the signal is taken by one of them, and the others go on
/// until that one has run.
pub fn stop_process(pid: u32) {
    signal_process(pid, "-STOP");
    let threads = format!("/proc/{pid}/task");
    while !std::fs::read_dir(&threads).unwrap().all(|thread| stands_still(&thread.unwrap().path())) {
        std::thread::yield_now();
    }
}

/// Whether a thread is stopped, or gone.
fn stands_still(thread: &std::path::Path) -> bool {
    let Ok(stat) = std::fs::read_to_string(thread.join("stat")) else { return true };
    // Its name stands in parentheses and may hold anything; its state is the letter behind them.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

/// Which steps each worker is in the middle of, as far as it has said.
#[derive(Debug, Default)]
pub struct Steps(BTreeMap<(u32, String), usize>);

impl Steps {
    pub fn note(&mut self, pid: u32, said: &Said) {
        match said {
            Said::Begins(phase) => *self.0.entry((pid, phase.clone())).or_default() += 1,
            Said::Ended(phase) => {
                if let Some(open) = self.0.get_mut(&(pid, phase.clone())) {
                    *open -= 1;
                }
            }
            _ => {}
        }
    }

    /// Whether a worker is in the middle of a step.
    pub fn is_in(&self, pid: u32, phase: &str) -> bool {
        self.0.get(&(pid, phase.to_owned())).is_some_and(|open| *open > 0)
    }
}
