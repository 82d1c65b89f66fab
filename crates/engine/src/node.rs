//! One node: its lease, its desk, and the loops beside them, from the first heartbeat to a clean leave.

use crate::backfill;
use crate::bulk;
use crate::clock::Uptime;
use crate::declare::declare_once;
use crate::dispatch::{Desk, DeskOptions, RunningSet};
use crate::fire::{self, FireOptions, FirePass, FireWatch};
use crate::flow;
use crate::frozen::{self, Frozen};
use crate::lease::HeldLease;
use crate::measure::{Stopwatch, tell_pass};
use crate::memory::{Fallback, MemoryOptions};
use crate::notify::{self, NewsBell, NotifyOptions, Telling};
use crate::offers;
use crate::reconcile;
use crate::recover::{Observer, recover_once};
use crate::retain::{self, Keep};
use crate::work::Executors;
use punctual_core::execute::StopReason;
use punctual_core::id::ScheduleId;
use punctual_core::meter::{Meter, NoMeter, StoreVerb};
use punctual_core::store::{Heartbeat, NewNode, Store, StoreError, StoreResult};
use punctual_core::trace::{NoTracer, Tracer};
use punctual_core::upkeep::Declarations;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// How long a node waits before it asks an unreachable store again.
const SETBACK: Duration = Duration::from_millis(250);

/// When an idle node looks again: soon at first, because work often comes in bursts, then rarely.
const LOOKS: [Duration; 3] = [Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(100)];

/// How long a store that got ready is taken for ready; its connections may be others by then.
const READY_FOR: Duration = Duration::from_secs(5);

/// How a node behaves.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// For people: the host's name, for example.
    pub name: String,
    /// What it takes on.
    pub desk: DeskOptions,
    /// From one heartbeat to the next.
    pub heartbeat: Duration,
    /// How long a node may be silent before others take over.
    pub lease: Duration,
    /// The longest sleep of the firing loop, and the pause between two looks for lost nodes.
    pub sweep: Duration,
    /// How often all plans are looked through.
    pub reconcile: Duration,
    /// How often an idle node looks for work that it was not told of.
    pub poll: Duration,
    /// How long running jobs may go on after the shutdown has come (C08).
    pub shutdown_grace: Duration,
    /// What is kept of the history, and how often the rest is forgotten.
    pub keep: Keep,
    /// From one look through the history to the next.
    pub retain: Duration,
    /// What is remembered of the schedules, in case their table cannot be used.
    pub memory: MemoryOptions,
    /// The schedules that the program declares.
    pub declarations: Declarations,
    /// Who counts what the node does.
    pub meter: Arc<dyn Meter>,
    /// How people are told; a node without this leaves it to others.
    pub notify: Option<NotifyOptions>,
    /// Who keeps the spans of its runs.
    pub tracer: Arc<dyn Tracer>,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            name: "node".to_owned(),
            desk: DeskOptions { room: 8, prefetch: 4, queues: Vec::new(), grace: Duration::from_secs(10) },
            heartbeat: Duration::from_secs(1),
            lease: Duration::from_secs(15),
            sweep: Duration::from_secs(30),
            reconcile: Duration::from_secs(300),
            poll: Duration::from_millis(500),
            shutdown_grace: Duration::from_secs(30),
            keep: Keep::default(),
            retain: Duration::from_secs(600),
            memory: MemoryOptions::default(),
            declarations: Declarations::default(),
            notify: None,
            meter: Arc::new(NoMeter),
            tracer: Arc::new(NoTracer),
        }
    }
}

/// What a node tells while it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// It has a lease and takes work.
    Ready,
    /// The shutdown has come; so many jobs are still running.
    Draining {
        /// Running jobs it waits for.
        running: usize,
    },
    /// Where it fires schedules from has changed: their table cannot be used, or is back (D08).
    Fallback(Fallback),
    /// It could not renew its lease in time, or lost it; everything was stopped, and it comes back under a new one.
    Fenced,
    /// It has left.
    Left,
}

/// A future that says that it is time to stop.
pub type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// When to stop: `gently` lets running jobs finish within the grace, `now` stops them at once.
pub struct Signals {
    /// The first signal.
    pub gently: Shutdown,
    /// The second one.
    pub now: Shutdown,
}

/// Works until the shutdown: fires, claims, runs, reports, recovers. A lease that is lost is replaced by a new one.
pub async fn run_until(
    store: Arc<dyn Store>, executors: Executors, options: NodeOptions, mut signals: Signals,
    mut on_event: impl FnMut(NodeEvent) + Send,
) -> StoreResult<()> {
    let uptime = Uptime::start();
    loop {
        let lease = tokio::select! {
            biased;
            () = &mut signals.gently => {
                on_event(NodeEvent::Left);
                return Ok(());
            }
            registered = register(&*store, &executors, &options, uptime) => registered?,
        };
        let declared = declare(&*store, &options).await?;
        let mut life = Life::start(Arc::clone(&store), lease, &executors, &options, declared, uptime);
        on_event(NodeEvent::Ready);
        let end = life.work(&mut signals, &mut on_event).await;
        life.loops.shutdown().await;
        match end {
            End::Left => {
                on_event(NodeEvent::Left);
                return Ok(());
            }
            End::Fenced => {
                options.meter.lease_lost();
                on_event(NodeEvent::Fenced);
                // It was on its way out, and there is nothing left to wait for.
                if life.is_draining() {
                    on_event(NodeEvent::Left);
                    return Ok(());
                }
            }
        }
    }
}

/// Takes a lease, and waits for a store that is out of reach.
async fn register(
    store: &dyn Store, executors: &Executors, options: &NodeOptions, uptime: Uptime,
) -> StoreResult<HeldLease> {
    let mut frozen = Frozen::default();
    loop {
        let asked_at = uptime.now();
        let node = NewNode { name: options.name.clone(), offers: executors.job_types() };
        match store.register_node(node).await {
            Err(error @ (StoreError::Unavailable(_) | StoreError::Full(_))) => {
                tracing::warn!("failed to come to work: {error}");
                sleep(SETBACK).await;
            }
            Err(error) if frozen.is_why("this node", &error) => sleep(frozen::LOOK).await,
            result => return Ok(HeldLease::new(result?, options.lease, asked_at)),
        }
    }
}

/// Declares the program's schedules, and waits for a store that is out of reach.
async fn declare(store: &dyn Store, options: &NodeOptions) -> StoreResult<Vec<ScheduleId>> {
    let mut frozen = Frozen::default();
    loop {
        match declare_once(store, &options.declarations).await {
            Err(error @ (StoreError::Unavailable(_) | StoreError::Full(_))) => {
                tracing::warn!("failed to declare schedules: {error}");
                sleep(SETBACK).await;
            }
            Err(error) if frozen.is_why("declaring schedules", &error) => sleep(frozen::LOOK).await,
            result => return result,
        }
    }
}

/// A node under one lease.
struct Life {
    desk: Desk,
    loops: tokio::task::JoinSet<()>,
    beats: mpsc::Receiver<Beat>,
    fallbacks: mpsc::UnboundedReceiver<Fallback>,
    changes: Box<dyn punctual_core::store::Changes>,
    options: NodeOptions,
    draining: watch::Sender<bool>,
    lease: HeldLease,
    uptime: Uptime,
    store: Arc<dyn Store>,
    /// Rings when there is nothing to do.
    idle: Arc<Notify>,
}

/// What the heartbeat's task has to tell.
enum Beat {
    Answer { beat: Heartbeat, sent_at: Duration },
    Lost,
}

enum End {
    Left,
    Fenced,
}

impl Life {
    fn start(
        store: Arc<dyn Store>, lease: HeldLease, executors: &Executors, options: &NodeOptions,
        declared: Vec<ScheduleId>, uptime: Uptime,
    ) -> Self {
        let running = RunningSet::default();
        let (tell, beats) = mpsc::channel(4);
        let (say, fallbacks) = mpsc::unbounded_channel();
        let draining = watch::Sender::new(false);
        let mut loops = tokio::task::JoinSet::new();
        let stopwatch = Stopwatch::new(Arc::clone(&options.meter), uptime);
        let beating = Beating { lease: lease.clone(), every: options.heartbeat, uptime, stopwatch: stopwatch.clone() };
        loops.spawn(keep_lease(Arc::clone(&store), beating, running.clone(), tell));
        let firing = FireOptions {
            node: Some(lease.lease.node_id),
            sweep: options.sweep,
            memory: options.memory.clone(),
            declared,
            meter: Arc::clone(&options.meter),
            ..FireOptions::default()
        };
        let news = NewsBell::default();
        let watch = Firings { say, meter: Arc::clone(&options.meter), news: news.clone() };
        loops.spawn(fire_on_time(Arc::clone(&store), firing, uptime, watch, draining.subscribe()));
        let (history, keep, every) = (Arc::clone(&store), options.keep, options.retain);
        loops.spawn(async move { retain::run(&*history, keep, every).await });
        let (past, every) = (Arc::clone(&store), options.sweep);
        loops.spawn(async move { backfill::run(&*past, every).await });
        let (many, every) = (Arc::clone(&store), options.sweep);
        loops.spawn(async move { bulk::run(&*many, every).await });
        let (flows, every) = (Arc::clone(&store), options.sweep);
        loops.spawn(async move { flow::run(&*flows, every).await });
        let (plans, every) = (Arc::clone(&store), options.reconcile);
        loops.spawn(async move { reconcile::run(&*plans, every).await });
        let (needs, every) = (Arc::clone(&store), options.sweep);
        loops.spawn(async move { offers::run(&*needs, every).await });
        loops.spawn(watch_others(Arc::clone(&store), options.clone(), uptime, stopwatch.clone(), news.clone()));
        if let Some(notify) = &options.notify {
            let telling = Telling {
                store: Arc::clone(&store),
                lease: lease.clone(),
                meter: Arc::clone(&options.meter),
                uptime,
                sweep: options.sweep,
                news: news.clone(),
            };
            notify::start(&mut loops, &telling, notify);
        }
        let desk =
            Desk::new(Arc::clone(&store), lease.clone(), executors.clone(), options.desk.clone(), uptime, running);
        let desk = desk.measured(stopwatch).telling(news).traced(Arc::clone(&options.tracer));
        let idle = Arc::new(Notify::new());
        loops.spawn(get_ready(Arc::clone(&store), Arc::clone(&idle)));
        let (changes, options) = (store.changes(), options.clone());
        Self { desk, loops, beats, fallbacks, changes, options, draining, lease, uptime, store, idle }
    }

    /// Takes and runs jobs until the shutdown, or until the lease is lost.
    async fn work(&mut self, signals: &mut Signals, on_event: &mut (impl FnMut(NodeEvent) + Send)) -> End {
        let (mut looks, mut in_vain) = (0, 0);
        let mut pause = Duration::ZERO;
        let mut frozen = Frozen::default();
        loop {
            tokio::select! {
                biased;
                () = &mut signals.gently => return self.drain(signals, on_event).await,
                beat = self.beats.recv() => if self.hear(beat).await.is_err() {
                    return self.fenced().await;
                },
                Some(fallback) = self.fallbacks.recv() => on_event(NodeEvent::Fallback(fallback)),
                () = self.desk.next_end() => looks = 0,
                () = self.changes.next() => looks = 0,
                () = sleep(pause) => looks += 1,
            }
            match self.desk.exchange(true).await {
                Ok(done) if done.claimed > 0 => {
                    frozen.is_over("claiming");
                    (looks, in_vain, pause) = (0, 0, LOOKS[0]);
                }
                Ok(done) => {
                    in_vain += 1;
                    if in_vain > LOOKS.len() {
                        self.idle.notify_one();
                    }
                    let look = LOOKS.get(looks).copied().unwrap_or(self.options.poll);
                    pause = done.more_in.map_or(look, |more_in| look.min(more_in));
                }
                Err(error) if HeldLease::is_over(&error) => return self.fenced().await,
                // What runs goes on, and is reported when it ends.
                Err(error) if frozen.is_why("claiming", &error) => pause = frozen::LOOK,
                Err(error) => {
                    tracing::warn!("failed to exchange work with the store: {error}");
                    pause = SETBACK;
                }
            }
        }
    }

    async fn hear(&mut self, beat: Option<Beat>) -> Result<(), End> {
        match beat {
            Some(Beat::Answer { beat, sent_at }) => {
                let strays = self.desk.hear(&beat, sent_at);
                if !strays.is_empty() {
                    tracing::warn!(jobs = strays.len(), "giving back jobs whose claim was never answered");
                    if let Err(error) = self.desk.give_back(strays).await {
                        tracing::warn!("failed to give jobs back: {error}");
                    }
                }
                Ok(())
            }
            Some(Beat::Lost) | None => Err(End::Fenced),
        }
    }

    fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    async fn fenced(&mut self) -> End {
        tracing::error!("the lease is lost: stopping everything");
        self.desk.drop_everything().await;
        End::Fenced
    }

    /// Takes nothing new, lets what runs come to its end within the grace, and leaves.
    async fn drain(&mut self, signals: &mut Signals, on_event: &mut (impl FnMut(NodeEvent) + Send)) -> End {
        self.draining.send_replace(true);
        on_event(NodeEvent::Draining { running: self.desk.runs() });
        let mut deadline = self.uptime.now() + self.options.shutdown_grace;
        let mut told = false;
        loop {
            if let Err(error) = self.settle().await {
                if HeldLease::is_over(&error) {
                    return self.fenced().await;
                }
                tracing::warn!("failed to report before leaving: {error}");
            } else if self.desk.is_clear() {
                break;
            }
            if told && self.uptime.now() >= deadline {
                break;
            }
            tokio::select! {
                biased;
                () = &mut signals.now, if !told => deadline = self.uptime.now(),
                beat = self.beats.recv() => if self.hear(beat).await.is_err() {
                    return self.fenced().await;
                },
                () = self.desk.next_end() => {}
                () = sleep(deadline.saturating_sub(self.uptime.now()).min(SETBACK)) => {}
            }
            if !told && self.uptime.now() >= deadline {
                told = true;
                self.desk.stop_all(StopReason::Shutdown);
                deadline = self.uptime.now() + self.options.desk.grace + SETBACK;
            }
        }
        if let Err(error) = self.store.leave_if_leased(self.lease.lease).await {
            tracing::warn!("failed to leave; others will notice within a lease: {error}");
        }
        End::Left
    }

    /// Gives back what has not started and reports what has ended.
    async fn settle(&mut self) -> StoreResult<()> {
        self.desk.give_back_waiting().await?;
        self.desk.exchange(false).await?;
        Ok(())
    }
}

/// Lets the store get ready while there is nothing to do: whoever has to work at once gets ready by working.
async fn get_ready(store: Arc<dyn Store>, idle: Arc<Notify>) {
    loop {
        idle.notified().await;
        if let Err(error) = store.warm_up().await {
            tracing::debug!("failed to get ready ahead of time: {error}");
        }
        sleep(READY_FOR).await;
        // What rang meanwhile says nothing about now.
        let _stale = timeout(Duration::ZERO, idle.notified()).await;
    }
}

/// What renews a lease, and how often.
struct Beating {
    lease: HeldLease,
    every: Duration,
    uptime: Uptime,
    stopwatch: Stopwatch,
}

/// Renews the lease on a task of its own, so that no amount of work delays it. When it cannot be renewed in time,
/// everything is stopped from here, whatever the desk is waiting for.
async fn keep_lease(store: Arc<dyn Store>, beating: Beating, running: RunningSet, tell: mpsc::Sender<Beat>) {
    let Beating { lease, every, uptime, stopwatch } = beating;
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next_beat = async {
            ticks.tick().await;
            let sent_at = uptime.now();
            let beat = stopwatch.time(StoreVerb::Heartbeat, lease.renew(&*store, sent_at)).await;
            beat.map(|beat| (beat, sent_at))
        };
        let beat = tokio::select! {
            biased;
            beat = next_beat => beat,
            () = until_over(&lease, uptime) => Err(StoreError::LostLease),
        };
        stopwatch.meter.lease_renewed(beat.is_ok());
        let over = match beat {
            // A desk that is busy hears the next one; the renewal must not wait for it.
            Ok((beat, sent_at)) => {
                matches!(tell.try_send(Beat::Answer { beat, sent_at }), Err(TrySendError::Closed(_)))
            }
            Err(error) if HeldLease::is_over(&error) => true,
            // Nothing is written any more, and so no end of a run could be: another store may go on with them.
            Err(error @ StoreError::Frozen { .. }) => {
                tracing::warn!("{error}");
                true
            }
            Err(error) => {
                tracing::warn!("failed to renew the lease: {error}");
                !lease.holds(uptime.now())
            }
        };
        if over {
            running.stop_all(StopReason::Fenced);
            // The desk may be gone already; then there is nobody to tell.
            let _gone = tell.send(Beat::Lost).await;
            return;
        }
    }
}

/// Ends when a lease does not hold any more, for a renewal that hangs and for the time between two that failed.
async fn until_over(lease: &HeldLease, uptime: Uptime) {
    while lease.holds(uptime.now()) {
        sleep(lease.left(uptime.now())).await;
    }
}

/// Counts what the firing loop does, and hands on where it fires from; its jobs are found by the desk without its help.
struct Firings {
    say: mpsc::UnboundedSender<Fallback>,
    meter: Arc<dyn Meter>,
    news: NewsBell,
}

impl FireWatch for Firings {
    fn on_pass(&mut self, pass: &FirePass) {
        tell_pass(&*self.meter, pass);
        if pass.slots_not_run > 0 {
            self.news.ring();
        }
    }

    fn on_fallback(&mut self, fallback: Fallback) {
        // The node may be on its way out; then there is nobody to tell.
        let _gone = self.say.send(fallback);
    }
}

async fn fire_on_time(
    store: Arc<dyn Store>, options: FireOptions, uptime: Uptime, mut watch: Firings,
    mut draining: watch::Receiver<bool>,
) {
    let ended = async move {
        let _gone = draining.wait_for(|draining| *draining).await;
    };
    fire::run_until(&*store, &options, uptime, &mut watch, ended).await;
}

/// Looks for lost nodes several times in a lease, so that one is noticed soon after its time.
async fn watch_others(
    store: Arc<dyn Store>, options: NodeOptions, uptime: Uptime, stopwatch: Stopwatch, news: NewsBell,
) {
    let mut observer = Observer::new(options.lease);
    let mut ticks = interval((options.lease / 5).clamp(Duration::from_millis(50), options.sweep));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let pass = recover_once(&*store, &mut observer, uptime);
        match stopwatch.time(StoreVerb::Recover, pass).await {
            Ok(recovered) => {
                stopwatch.meter.recovered(recovered.nodes, recovered.closed.len());
                if recovered.nodes > 0 {
                    news.ring();
                }
            }
            Err(error) => tracing::warn!("failed to look for lost nodes: {error}"),
        }
    }
}
