//! The store as a simulated node sees it: every verb is a letter, and the simulation is the post.

mod outside;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{JobId, NodeId, ReservationId, ScheduleId};
use punctual_core::job::{Artifact, JobView, NewJob};
use punctual_core::json::Json;
use punctual_core::limits::Claimed;
use punctual_core::name::Name;
use punctual_core::offers::OffersSettled;
use punctual_core::order::{Move, Place};
use punctual_core::schedule::{ByHand, Schedule, ScheduleDefinition};
use punctual_core::slot::SlotRow;
use punctual_core::store::{
    Cancelled, Changes, ClaimRequest, FinishResult, FinishedRun, Fired, Heartbeat, Lease, LostNode, NewNode, NodePulse,
    Pruned, QueuedJob, Reconciled, Recovered, Reservation, Retention, ScheduleKey, Store, StoreError, StoreResult,
    Template,
};
use punctual_core::template::Parameter;
use punctual_core::upkeep::FiredFromMemory;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A verb on its way to the store.
pub struct Letter {
    /// Which verb.
    pub verb: &'static str,
    /// When it was sent, by the node's clock.
    pub sent_at: Instant,
    /// Does it. Whoever drops this, or what it hands back, loses the answer: the node hears that the store is out of
    /// reach, whether the verb was done or not.
    pub act: Deed,
}

/// Does a verb at a store; says what was asked and answered, and hands back the answer's way to the node.
pub type Deed = Box<dyn FnOnce(Arc<dyn Store>) -> Doing + Send>;

/// A verb that is being done.
pub type Doing = Pin<Box<dyn Future<Output = (Said, Answer)> + Send>>;

/// The way of an answer to its node.
pub type Answer = Box<dyn FnOnce() + Send>;

/// What was asked of the store and what it answered, for whoever has to judge it.
#[derive(Debug, Clone)]
pub enum Said {
    /// A node came in.
    Register(StoreResult<Lease>),
    /// A node beat.
    Beat(Lease, StoreResult<Heartbeat>),
    /// A node asked for work.
    Claim(ClaimRequest, StoreResult<Claimed>),
    /// A node gave jobs back.
    GiveBack(Lease, Vec<JobId>, StoreResult<Vec<JobId>>),
    /// A node reported ends.
    Finish(Lease, Vec<FinishedRun>, StoreResult<Vec<FinishResult>>),
    /// A node left.
    Leave(Lease, StoreResult<()>),
    /// A node declared others lost.
    Recover(Vec<LostNode>, StoreResult<Recovered>),
    /// A node asked when something is due.
    NextDue(StoreResult<Option<SignedDuration>>),
    /// A node fired.
    Fire(StoreResult<Fired>),
    /// A node promoted delayed jobs.
    Promote(StoreResult<usize>),
    /// A node looked through the plans.
    Reconcile(StoreResult<Reconciled>),
    /// A node compared what schedules need with what nodes offer.
    Offers(StoreResult<OffersSettled>),
    /// A node forgot old history.
    Prune(Retention, StoreResult<Pruned>),
    /// A node looked at the schedules, to remember them.
    Remember(StoreResult<Vec<Schedule>>),
    /// A node fired what it remembers.
    FireRemembered(Vec<Schedule>, StoreResult<FiredFromMemory>),
    /// Something that changes nothing, or that no node does by itself.
    Other,
}

impl Said {
    /// Whether something was refused that may need the table of plans.
    pub fn was_refused(&self) -> bool {
        match self {
            Self::Fire(result) => result.is_err(),
            Self::NextDue(result) => result.is_err(),
            Self::Offers(result) => result.is_err(),
            Self::Prune(_, result) => result.is_err(),
            Self::Reconcile(result) => result.is_err(),
            Self::Remember(result) => result.is_err(),
            _ => false,
        }
    }

    /// Whether there may be something to do for others now.
    pub fn makes_work(&self) -> bool {
        match self {
            Self::Finish(_, _, Ok(_)) | Self::GiveBack(_, _, Ok(_)) => true,
            Self::Recover(_, Ok(recovered)) => !recovered.closed.is_empty(),
            Self::Fire(Ok(fired)) => !fired.jobs.is_empty(),
            Self::FireRemembered(_, Ok(done)) => !done.fired.jobs.is_empty(),
            Self::Promote(Ok(count)) => *count > 0,
            _ => false,
        }
    }
}

/// Where the letters of one node wait to be fetched.
#[derive(Debug, Default)]
pub struct Letterbox(Mutex<Waiting>);

/// Letters, and who waits for one.
#[derive(Default)]
struct Waiting {
    letters: Vec<Letter>,
    waker: Option<Waker>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.letters.iter().map(|letter| letter.verb)).finish()
    }
}

impl Letterbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when there is a letter.
    pub async fn filled(&self) {
        std::future::poll_fn(|cx| {
            let mut waiting = self.lock();
            if waiting.letters.is_empty() {
                waiting.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Fetches all letters.
    pub fn take(&self) -> Vec<Letter> {
        std::mem::take(&mut self.lock().letters)
    }

    fn put(&self, verb: &'static str, act: Deed) {
        let mut waiting = self.lock();
        waiting.letters.push(Letter { verb, sent_at: Instant::now(), act });
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
    }
}

/// The store of one node.
pub struct ProxyStore {
    /// Where its letters go.
    pub letters: Arc<Letterbox>,
    /// Rings when the simulation wants to wake the node.
    pub bell: Arc<Bell>,
}

impl ProxyStore {
    async fn send<T, A>(&self, verb: &'static str, act: A) -> StoreResult<T>
    where
        T: Send + 'static,
        A: FnOnce(Arc<dyn Store>, oneshot::Sender<StoreResult<T>>) -> Doing + Send + 'static,
    {
        let (tell, answer) = oneshot::channel();
        self.letters.put(verb, Box::new(move |store| act(store, tell)));
        answer.await.unwrap_or_else(|_| Err(StoreError::Unavailable("no answer came".to_owned())))
    }

    /// The same for a verb that nobody has to judge.
    async fn ask<T, A, W>(&self, verb: &'static str, act: A) -> StoreResult<T>
    where
        T: Send + 'static,
        A: FnOnce(Arc<dyn Store>) -> W + Send + 'static,
        W: Future<Output = StoreResult<T>> + Send + 'static,
    {
        let doing = |store, tell| -> Doing {
            let work = act(store);
            Box::pin(async move { (Said::Other, answer(tell, work.await)) })
        };
        self.send(verb, doing).await
    }
}

/// Wakes whoever waits on a node, always in the same order.
#[derive(Debug, Default)]
pub struct Bell(Mutex<Rung>);

#[derive(Debug, Default)]
struct Rung {
    times: u64,
    listeners: usize,
    waiting: BTreeMap<usize, Waker>,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, Rung> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings.
    pub fn ring(&self) {
        let mut rung = self.lock();
        rung.times += 1;
        std::mem::take(&mut rung.waiting).into_values().for_each(Waker::wake);
    }

    fn listener(self: &Arc<Self>) -> Listener {
        let mut rung = self.lock();
        rung.listeners += 1;
        Listener { bell: Arc::clone(self), number: rung.listeners, heard: rung.times }
    }
}

/// One who waits for a bell.
struct Listener {
    bell: Arc<Bell>,
    number: usize,
    heard: u64,
}

#[async_trait]
impl Changes for Listener {
    async fn next(&mut self) {
        std::future::poll_fn(|cx| {
            let mut rung = self.bell.lock();
            if rung.times > self.heard {
                self.heard = rung.times;
                return Poll::Ready(());
            }
            rung.waiting.insert(self.number, cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

fn answer<T: Send + 'static>(tell: oneshot::Sender<StoreResult<T>>, result: StoreResult<T>) -> Answer {
    // A node that has died meanwhile hears nothing.
    Box::new(move || drop(tell.send(result)))
}

/// Makes the store of owned arguments; what was said is told by the expression at a verb's end, in which `result` is the
/// answer.
macro_rules! proxy_store {
    ($(async fn $verb:ident(&self $(, $arg:ident: $type:ty)*) -> $answer:ty => |$result:ident| $said:expr;)+) => {
        #[async_trait]
        impl Store for ProxyStore {
            fn changes(&self) -> Box<dyn Changes> {
                Box::new(self.bell.listener())
            }

            async fn schedule(&self, key: &ScheduleKey) -> StoreResult<Option<Schedule>> {
                let key = key.clone();
                self.ask("schedule", move |store| async move { store.schedule(&key).await }).await
            }

            async fn schedules(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Schedule>> {
                let after = after.map(str::to_owned);
                self.ask("schedules", move |store| async move { store.schedules(after.as_deref(), limit).await }).await
            }

            async fn queued_jobs(&self, queue: &str, after: Option<Place>, limit: usize) -> StoreResult<Vec<QueuedJob>> {
                let queue = queue.to_owned();
                self.ask("queued_jobs", move |store| async move { store.queued_jobs(&queue, after, limit).await }).await
            }

            async fn set_queue_paused(&self, queue: &str, paused: bool) -> StoreResult<()> {
                let queue = queue.to_owned();
                self.ask("set_queue_paused", move |store| async move { store.set_queue_paused(&queue, paused).await }).await
            }

            async fn reserve_queue(&self, queue: &str, holder: &str, length: SignedDuration) -> StoreResult<Reservation> {
                let (queue, holder) = (queue.to_owned(), holder.to_owned());
                let reserve = move |store: Arc<dyn Store>| async move { store.reserve_queue(&queue, &holder, length).await };
                self.ask("reserve_queue", reserve).await
            }

            async fn reservation(&self, queue: &str) -> StoreResult<Option<Reservation>> {
                let queue = queue.to_owned();
                self.ask("reservation", move |store| async move { store.reservation(&queue).await }).await
            }

            async fn template(&self, name: &str) -> StoreResult<Option<Template>> {
                let name = name.to_owned();
                self.ask("template", move |store| async move { store.template(&name).await }).await
            }

            $( async fn $verb(&self $(, $arg: $type)*) -> StoreResult<$answer> {
                self.send(stringify!($verb), move |store, tell| Box::pin(async move {
                    let $result = store.$verb($($arg.clone()),*).await;
                    ($said, answer(tell, $result))
                })).await
            } )+
        }
    };
}

proxy_store! {
    async fn now(&self) -> Timestamp => |result| Said::Other;
    async fn create_schedule(&self, definition: ScheduleDefinition) -> Schedule => |result| Said::Other;
    async fn update_schedule_if_version(
        &self, id: ScheduleId, version: i64, definition: ScheduleDefinition
    ) -> Schedule => |result| Said::Other;
    async fn pause_schedule(&self, id: ScheduleId, by: Option<String>, note: Option<String>) -> Schedule
        => |result| Said::Other;
    async fn resume_schedule(&self, id: ScheduleId) -> Schedule => |result| Said::Other;
    async fn reschedule(&self, id: ScheduleId, at: Timestamp) -> Schedule => |result| Said::Other;
    async fn trigger_schedule(&self, id: ScheduleId, by_hand: ByHand) -> JobId
        => |result| Said::Other;
    async fn delete_schedule(&self, id: ScheduleId) -> () => |result| Said::Other;
    async fn slots(&self, id: ScheduleId, before: Option<Timestamp>, limit: usize) -> Vec<SlotRow>
        => |result| Said::Other;
    async fn next_due_in(&self) -> Option<SignedDuration> => |result| Said::NextDue(result.clone());
    async fn fire_due(&self, node: Option<NodeId>, limit: usize) -> Fired => |result| Said::Fire(result.clone());
    async fn reconcile_schedules(&self, after: Option<ScheduleId>, limit: usize) -> Reconciled
        => |result| Said::Reconcile(result.clone());
    async fn enqueue_jobs(&self, jobs: Vec<NewJob>) -> Vec<JobId> => |result| Said::Other;
    async fn promote_due_jobs(&self, limit: usize) -> usize => |result| Said::Promote(result.clone());
    async fn move_job_if_queued(&self, id: JobId, to: Move) -> Place => |result| Said::Other;
    async fn edit_job_if_queued(&self, id: JobId, input: Json) -> JobId => |result| Said::Other;
    async fn cancel_job(&self, id: JobId) -> Cancelled => |result| Said::Other;
    async fn job(&self, id: JobId) -> Option<JobView> => |result| Said::Other;
    async fn schedule_jobs(&self, id: ScheduleId, before: Option<JobId>, limit: usize) -> Vec<JobView>
        => |result| Said::Other;
    async fn register_node(&self, node: NewNode) -> Lease => |result| Said::Register(result.clone());
    async fn heartbeat_if_leased(&self, lease: Lease) -> Heartbeat => |result| Said::Beat(lease, result.clone());
    async fn node_pulses(&self) -> Vec<NodePulse> => |result| Said::Other;
    async fn claim_jobs_if_leased(&self, request: ClaimRequest) -> Claimed
        => |result| Said::Claim(request, result.clone());
    async fn give_back_if_leased(&self, lease: Lease, jobs: Vec<JobId>) -> Vec<JobId>
        => |result| Said::GiveBack(lease, jobs, result.clone());
    async fn finish_runs_if_leased(&self, lease: Lease, runs: Vec<FinishedRun>) -> Vec<FinishResult>
        => |result| Said::Finish(lease, runs, result.clone());
    async fn add_artifacts_if_leased(&self, lease: Lease, job: JobId, artifacts: Vec<Artifact>) -> ()
        => |result| Said::Other;
    async fn artifacts(&self, job: JobId) -> Vec<Artifact> => |result| Said::Other;
    async fn leave_if_leased(&self, lease: Lease) -> () => |result| Said::Leave(lease, result.clone());
    async fn recover_lost_nodes(&self, lost: Vec<LostNode>) -> Recovered
        => |result| Said::Recover(lost, result.clone());
    async fn release_reservation(&self, id: ReservationId) -> () => |result| Said::Other;
    async fn create_template(&self, name: Name, job: NewJob, parameters: Vec<Parameter>) -> Template => |result| Said::Other;
    async fn prune_history(&self, retention: Retention) -> Pruned
        => |result| Said::Prune(retention, result.clone());
}
