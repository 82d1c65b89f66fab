//! What the contestants written in Rust share: the protocol, and the scenarios over what each peer can do.

mod scenarios;
mod starter;
mod tally;

use serde::Deserialize;
use serde_json::{Value, json};
use starter::Starter;
use std::error::Error;
use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

/// The most jobs that are produced and not handled, if nobody says anything else.
pub const WINDOW: i64 = 20_000;

/// What may fail.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// To be called at the start of each job, with its number.
pub type Handle = Arc<dyn Fn(i64) + Send + Sync>;

/// What a peer can do, on a database that it has migrated.
pub trait Peer: Send + Sync + 'static {
    /// Enqueues one job that does nothing.
    fn enqueue_one(&self, number: i64) -> impl Future<Output = Outcome<()>> + Send;
    /// Enqueues many by the fastest way that is documented.
    fn enqueue_many(&self, numbers: Range<i64>) -> impl Future<Output = Outcome<()>> + Send;
    /// Starts the worker, which goes on until the process ends.
    fn work(&self, handle: Handle) -> impl Future<Output = Outcome<()>> + Send;
    /// How many jobs the peer's own tables say are not finished.
    fn left(&self) -> impl Future<Output = Outcome<u64>> + Send;
    /// The same by a count that is exact, where the one that can be asked again and again trusts something else.
    fn left_exactly(&self) -> impl Future<Output = Outcome<u64>> + Send {
        self.left()
    }
    /// How many finished jobs they have a record of.
    fn kept(&self) -> impl Future<Output = Outcome<u64>> + Send;
    /// How many jobs may be produced and not handled where the request says nothing.
    fn window(&self) -> i64 {
        WINDOW
    }
    /// What a commit is worth, as the database says on a connection of the peer's: `synchronous_commit` of PostgreSQL,
    /// `journal_mode` and `synchronous` of SQLite.
    fn durability(&self) -> impl Future<Output = Outcome<Value>> + Send;
    /// Starts the worker with so many schedules that are due at the slot, for peers that have schedules.
    fn work_on_schedules(
        &self, _schedules: i64, _slot: SystemTime, _handle: Handle,
    ) -> impl Future<Output = Outcome<()>> + Send {
        async { Err("this peer has no schedules".into()) }
    }
}

/// What the one argument says.
#[derive(Debug, Clone, Deserialize)]
pub struct Request {
    /// Which scenario to play.
    pub scenario: String,
    /// Where the empty database is.
    #[serde(default)]
    pub url: String,
    /// `default` or `best`.
    #[serde(default)]
    pub settings: String,
    about: Option<String>,
    jobs: Option<i64>,
    mode: Option<String>,
    callers: Option<i64>,
    batch: Option<i64>,
    probes: Option<i64>,
    background_per_second: Option<i64>,
    seconds: Option<u64>,
    window: Option<i64>,
    schedules: Option<i64>,
}

impl Request {
    /// Whether the peer's best documented settings are asked for.
    pub fn best(&self) -> bool {
        self.settings == "best"
    }

    /// Whether it is about how soon a job starts, or about how many can be handled by what makes them start soon. Slots are
    /// not: of many jobs that are due at once, the last one starts soonest by what handles many.
    pub fn is_about_latency(&self) -> bool {
        self.scenario == "latency" || self.about.as_deref() == Some("latency")
    }

    /// How many enqueue at once.
    pub fn callers(&self) -> u32 {
        self.callers.and_then(|callers| callers.try_into().ok()).unwrap_or(1)
    }
}

/// Plays the scenario that the one argument asks for, with the peer that `open` makes on the database.
pub fn main<P: Peer>(about: Value, open: impl AsyncFnOnce(Request) -> Outcome<P>) -> ExitCode {
    let played = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(play(&about, open)));
    match played {
        // The worker is still running, and need not be stopped in good order.
        Ok(()) => std::process::exit(0),
        Err(error) => {
            say(&json!({"event": "failed", "why": error.to_string()}));
            std::process::exit(1)
        }
    }
}

async fn play<P: Peer>(about: &Value, open: impl AsyncFnOnce(Request) -> Outcome<P>) -> Outcome<()> {
    let request = request()?;
    if request.scenario == "about" {
        say(about);
        return Ok(());
    }
    let has = about["scenarios"].as_array().is_some_and(|all| all.contains(&json!(request.scenario)));
    if !has {
        return Err(format!("no scenario {:?}: there are {}", request.scenario, about["scenarios"]).into());
    }
    if !["default", "best"].contains(&request.settings.as_str()) {
        return Err(format!("settings are \"default\" or \"best\", not {:?}", request.settings).into());
    }
    let mut starter = Starter::listen();
    let peer = Arc::new(open(request.clone()).await?);
    let done = scenarios::play(&peer, &request, &mut starter).await?;
    starter.done(done).await
}

/// Runs a worker beside everything else. Its end is the contestant's, because nobody would handle the rest.
pub fn keep_running<E: std::fmt::Display>(worker: impl Future<Output = Result<(), E>> + Send + 'static) {
    tokio::spawn(async move {
        let why = match worker.await {
            Ok(()) => "the worker has ended".to_owned(),
            Err(error) => format!("the worker has ended: {error}"),
        };
        say(&json!({"event": "failed", "why": why}));
        std::process::exit(1)
    });
}

/// The version of a crate that this is built with.
pub fn version_of(name: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let entry = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).map_or("", |(_, rest)| rest);
    entry.split('"').next().unwrap_or_default()
}

fn request() -> Outcome<Request> {
    let usage = "give one argument: the request, a JSON object (see bench/peers/README.md)";
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [request] = &arguments[..] else { return Err(usage.into()) };
    serde_json::from_str(request).map_err(|error| format!("the request cannot be read: {error}; {usage}").into())
}

fn say(line: &Value) {
    // Nobody is left to be told when stdout is closed.
    let _ = writeln!(std::io::stdout(), "{line}");
}
