//! Punctual and hand-written SQL as contestants, who speak the same protocol as those of the peers.
//!
//! One argument says what to do; what comes of it is said by lines of JSON. `bench/peers/README.md` has the protocol.

mod account;
mod bare;
mod ours;
mod raw;
mod raw_sqlite;

use crate::Outcome;
use crate::node::Counted;
use serde::Deserialize;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Jobs that are enqueued in one call where a scenario says nothing else.
const BATCH: usize = 1000;
/// Jobs before what counts, so that plans are made.
const WARM_UP: usize = 50;
/// Probes before what counts, as the peers have them.
const FIRST_PROBES: usize = 3;
/// The most jobs that are produced and not yet handled.
const WINDOW: usize = 20_000;

/// What a contestant is asked to do.
#[derive(Debug, Deserialize)]
struct Request {
    /// `punctual`, `raw`, `raw-large` or `bare`.
    who: String,
    scenario: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    settings: Settings,
    #[serde(default)]
    jobs: usize,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    callers: Option<usize>,
    #[serde(default)]
    batch: Option<usize>,
    #[serde(default)]
    probes: usize,
    #[serde(default)]
    background_per_second: usize,
    /// Whether somebody else enqueues the probes, so that the worker hears of them through the database.
    #[serde(default)]
    apart: bool,
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    window: Option<usize>,
    /// At which pace jobs are produced; as fast as the window allows when nothing is said.
    #[serde(default)]
    per_second: Option<f64>,
    #[serde(default)]
    schedules: usize,
    /// What is said on stdin meanwhile.
    #[serde(skip, default = "listen")]
    heard: watch::Receiver<Heard>,
}

/// What whoever asked has said last.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Heard {
    Nothing,
    Line(String),
    /// He has gone away, or wants nothing more.
    Gone,
}

/// Listens on stdin from now on.
fn listen() -> watch::Receiver<Heard> {
    let (tell, heard) = watch::channel(Heard::Nothing);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            tell.send_replace(Heard::Line(line));
        }
        tell.send_replace(Heard::Gone);
    });
    heard
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Settings {
    #[default]
    Default,
    Best,
}

impl Request {
    fn batch(&self) -> usize {
        self.batch.unwrap_or(BATCH)
    }

    /// How many callers enqueue one job each at a time; none when they enqueue in batches.
    fn single_callers(&self) -> Option<usize> {
        (self.mode.as_deref() == Some("single")).then(|| self.callers.unwrap_or(1))
    }

    fn window(&self) -> usize {
        self.window.unwrap_or(WINDOW)
    }

    /// Whether a producer makes the next batch: the window has room for it, and the pace is not ahead of time.
    fn may_produce(&self, counted: &Counted, elapsed: Duration) -> bool {
        let (made, done) = (counted.made(0), counted.now());
        #[expect(clippy::cast_precision_loss, reason = "so many jobs are not made in a minute")]
        let in_time = self.per_second.is_none_or(|pace| (made as f64) < pace * elapsed.as_secs_f64());
        in_time && made - done + self.batch() <= self.window()
    }

    fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite:")
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Says that everything is set up, and waits until it is to begin.
    async fn ready(&self, mut about: Value) -> Outcome<()> {
        about["event"] = "ready".into();
        say(&about);
        let mut heard = self.heard.clone();
        match &*heard.wait_for(|heard| *heard != Heard::Nothing).await? {
            Heard::Line(line) if line == "go" => Ok(()),
            other => Err(format!("`go` was to come, and {other:?} came").into()),
        }
    }

    /// Waits until nobody listens any more.
    async fn is_left_alone(&self) {
        // Whoever listens on stdin tells it before he goes.
        let mut heard = self.heard.clone();
        let _gone = heard.wait_for(|heard| *heard == Heard::Gone).await;
    }
}

/// Does what the argument says.
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&json!({ "event": "failed", "why": error.to_string() }));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    let text = std::env::args().nth(1).ok_or("a request is needed: a JSON object, as bench/peers/README.md says")?;
    let request: Request = serde_json::from_str(&text)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let done = tokio::select! {
            done = play(&request) => done?,
            () = request.is_left_alone(), if request.scenario != "about" => {
                return Err("whoever asked has gone away, and nobody wants to know any more".into());
            }
        };
        say(&done);
        // Whoever listens looks at this process before it lets it go.
        request.is_left_alone().await;
        Ok(())
    })
}

async fn play(request: &Request) -> Outcome<Value> {
    match request.who.as_str() {
        "punctual" => ours::run(request).await,
        "raw" if request.is_sqlite() => raw_sqlite::run(request).await,
        "raw" => raw::run(request).await,
        "raw-large" => raw::run_in_large_batches(request).await,
        "bare" => bare::run(request).await,
        other => Err(format!("nobody is called `{other}`").into()),
    }
}

#[expect(clippy::print_stdout, reason = "the protocol is spoken there")]
fn say(line: &Value) {
    println!("{line}");
}

/// A file that may lose what it has promised does not count, by what the very connection says that is measured.
fn check_durable(journal_mode: &str, synchronous: i64) -> Outcome<()> {
    if (journal_mode, synchronous) == ("wal", 2) {
        return Ok(());
    }
    Err(format!("not durable: journal_mode is {journal_mode} and synchronous {synchronous}, not wal and 2").into())
}

/// So many jobs as sizes of batches.
fn batches(jobs: usize, batch: usize) -> impl Iterator<Item = usize> {
    (0..jobs).step_by(batch.max(1)).map(move |done| batch.min(jobs - done))
}

/// How many jobs are produced and not handled, once a second.
async fn watch_depth(counted: Arc<Counted>, time: Duration) -> Vec<usize> {
    let (mut depths, mut ticks) = (Vec::new(), tokio::time::interval(Duration::from_secs(1)));
    ticks.tick().await;
    let began = Instant::now();
    while began.elapsed() < time {
        ticks.tick().await;
        depths.push(counted.made(0).saturating_sub(counted.now()));
    }
    depths
}

/// Jobs that are due at a steady pace, in small batches.
struct Pace {
    per_second: usize,
    began: Instant,
    ticks: tokio::time::Interval,
    made: usize,
}

impl Pace {
    fn of(per_second: usize) -> Self {
        Self { per_second, began: Instant::now(), ticks: tokio::time::interval(Duration::from_millis(10)), made: 0 }
    }

    /// Waits until some are due; says how many.
    async fn next(&mut self) -> Outcome<usize> {
        loop {
            self.ticks.tick().await;
            let due = usize::try_from(self.began.elapsed().as_micros())? * self.per_second / 1_000_000;
            let some = due - self.made;
            if some > 0 {
                self.made = due;
                return Ok(some);
            }
        }
    }
}

/// From one probe to the next.
fn pause(probe: usize) -> Duration {
    Duration::from_millis(30 + u64::try_from(53 * probe % 140).unwrap_or_default())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
