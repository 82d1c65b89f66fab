//! One simulated node: the shipped node on a runtime of its own, whose clock the simulation turns.

use super::proxy::{Bell, Letter, Letterbox, ProxyStore};
use super::scenario::{Ms, Scenario, Setup};
use super::work::{Seen, Witness, Worker};
use crate::steps::WORK;
use punctual_core::store::Store;
use punctual_engine::dispatch::DeskOptions;
use punctual_engine::memory::MemoryOptions;
use punctual_engine::node::{self, NodeEvent, NodeOptions, Signals};
use punctual_engine::work::Executors;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// A node that is alive.
pub struct Body {
    runtime: Runtime,
    task: JoinHandle<()>,
    letters: Arc<Letterbox>,
    witness: Witness,
    events: Receiver<NodeEvent>,
    gently: watch::Sender<bool>,
    hurry: watch::Sender<bool>,
    bell: Arc<Bell>,
    drift: i64,
    /// What its clock showed when it was started.
    birth: Instant,
    /// When its clock would have been started, had it never stood still.
    began: Ms,
    /// How far it has come.
    pub now: Ms,
    /// Until when it stands still.
    pub frozen_until: Option<(Ms, bool)>,
    /// When it last went on after it had stood still, by its own clock.
    pub woke_at: Option<Instant>,
    /// Whether its clock stood still since it was last sure of its lease.
    pub slept: bool,
    /// When the last renewal that it heard of was sent.
    pub renewed_at: Option<Instant>,
    /// When it last looked at the schedules.
    pub remembered_at: Option<Instant>,
    /// Whether it was told to leave.
    pub leaving: bool,
}

impl Body {
    /// Starts a node.
    pub fn start(scenario: &Scenario, setup: &Setup, now: Ms) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime can be made");
        let (letters, witness) = (Arc::new(Letterbox::default()), Witness::default());
        let ((gently, told), (hurry, told_again)) = (watch::channel(false), watch::channel(false));
        let bell = Arc::new(Bell::default());
        let (say, events) = channel();
        let store: Arc<dyn Store> = Arc::new(ProxyStore { letters: Arc::clone(&letters), bell: Arc::clone(&bell) });
        let worker = Worker { seed: scenario.seed, witness: witness.clone() };
        let executors = Executors::default().with(WORK, Arc::new(worker));
        let signals = Signals { gently: Box::pin(until_told(told)), now: Box::pin(until_told(told_again)) };
        let options = options(scenario, setup);
        let task = runtime.spawn(async move {
            // Whoever listens is gone only when the simulation is over.
            let on_event = move |event| drop(say.send(event));
            node::run_until(store, executors, options, signals, on_event).await.expect("a node goes on by itself");
        });
        let birth = runtime.block_on(async { Instant::now() });
        Self {
            runtime,
            task,
            letters,
            witness,
            events,
            gently,
            hurry,
            bell,
            drift: setup.drift,
            birth,
            began: now,
            now,
            frozen_until: None,
            woke_at: None,
            slept: false,
            renewed_at: None,
            remembered_at: None,
            leaving: false,
        }
    }

    /// Lets it go on until an instant, or until it sends something.
    pub fn run_until(&mut self, to: Ms) -> Vec<Letter> {
        let goal = self.clock_at(to);
        let letters = Arc::clone(&self.letters);
        let shown = self.runtime.block_on(async move {
            tokio::select! {
                biased;
                () = letters.filled() => {}
                () = sleep_until(goal) => {}
            }
            Instant::now()
        });
        let letters = self.letters.take();
        self.now = if letters.is_empty() { to } else { self.time_at(shown).clamp(self.now, to) };
        letters
    }

    /// Goes on after it stood still.
    pub fn thaw(&mut self, at: Ms) {
        let Some((_, clock_runs)) = self.frozen_until.take() else { return };
        let stood = u64::try_from(at - self.now).unwrap_or(0);
        if clock_runs {
            let ahead = self.clock_at(at).duration_since(self.clock_at(self.now));
            self.runtime.block_on(tokio::time::advance(ahead));
        } else {
            self.began += i64::try_from(stood).expect("it stood still for less than an age");
            self.slept = true;
        }
        self.now = at;
        self.woke_at = Some(self.runtime.block_on(async { Instant::now() }));
    }

    /// What its clock shows at an instant of the simulation.
    pub fn clock_at(&self, at: Ms) -> Instant {
        let passed = (at - self.began) * (1_000_000 + self.drift) / 1_000_000;
        self.birth + Duration::from_millis(passed.max(0).unsigned_abs())
    }

    /// When its clock showed something.
    pub fn time_at(&self, shown: Instant) -> Ms {
        let passed = i64::try_from(shown.duration_since(self.birth).as_millis()).expect("it lives less than an age");
        self.began + passed * 1_000_000 / (1_000_000 + self.drift)
    }

    /// Tells it to leave.
    pub fn tell_to_leave(&mut self, hurry: bool) {
        self.leaving = true;
        self.gently.send_replace(true);
        if hurry {
            self.hurry.send_replace(true);
        }
    }

    /// Wakes it: there may be something to do.
    pub fn wake(&self) {
        self.bell.ring();
    }

    /// Whether there is nothing left of it.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// What it told since the last time.
    pub fn events(&self) -> Vec<NodeEvent> {
        self.events.try_iter().collect()
    }

    /// What its jobs were seen doing since the last time.
    pub fn sightings(&self) -> Vec<Seen> {
        self.witness.take()
    }
}

async fn until_told(mut told: watch::Receiver<bool>) {
    if told.wait_for(|told| *told).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The shipped defaults, slower by as much as the lease is longer, so that a day costs no more than it must.
fn options(scenario: &Scenario, setup: &Setup) -> NodeOptions {
    NodeOptions {
        name: "simulated".to_owned(),
        desk: DeskOptions {
            room: setup.room,
            prefetch: setup.prefetch,
            queues: Vec::new(),
            grace: Duration::from_secs(60),
        },
        heartbeat: scenario.heartbeat,
        lease: scenario.lease,
        sweep: SWEEP,
        reconcile: Duration::from_secs(3 * 3600),
        poll: Duration::from_secs(1200),
        shutdown_grace: Duration::from_secs(900),
        keep: scenario.keep,
        retain: RETAIN,
        memory: MemoryOptions {
            horizon: HORIZON,
            refresh: SWEEP,
            patience: Duration::from_secs(3),
            probe: PROBE,
            ..MemoryOptions::default()
        },
        ..NodeOptions::default()
    }
}

/// From one look through the history to the next.
pub const RETAIN: Duration = Duration::from_secs(2 * 3600);

/// How long what a node remembers is good for.
pub const HORIZON: Duration = Duration::from_secs(2 * 3600);

/// How often a node tries the table of plans that is out of reach.
pub const PROBE: Duration = Duration::from_secs(10);

/// The longest sleep of a simulated node's firing loop.
pub const SWEEP: Duration = Duration::from_secs(1800);
