//! Whole nodes on a real store: work, stop, cancel, time out, panic, lose answers, lose the lease.

use crate::faulty::{Fault, FaultyStore};
use punctual_core::id::JobId;
use punctual_core::job::{JobState, JobView, NewJob, Timeout};
use punctual_core::json::Json;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::{Cancelled, Store};
use punctual_core::target::Target;
use punctual_engine::dispatch::DeskOptions;
use punctual_engine::node::{self, NodeEvent, NodeOptions, Signals};
use punctual_engine::targets::task::{Context, Handler, TaskError};
use punctual_engine::work::Executors;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

/// A store in a folder of its own.
pub(crate) struct World {
    pub(crate) store: Arc<SqliteStore>,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("a.db"), SqliteOptions::default()).unwrap();
        Self { store: Arc::new(store), _folder: folder }
    }

    pub(crate) async fn enqueue(&self, task: &str) -> JobId {
        self.store.enqueue_jobs(vec![NewJob::new(Target::task(task))]).await.unwrap()[0]
    }

    /// Waits until a job is as wanted; looks whenever the store has changed.
    pub(crate) async fn until(&self, id: JobId, wanted: impl Fn(&JobView) -> bool) -> JobView {
        let mut changes = self.store.changes();
        loop {
            let view = self.store.job(id).await.unwrap().unwrap();
            if wanted(&view) {
                return view;
            }
            tokio::select! {
                () = changes.next() => {}
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
    }

    pub(crate) async fn until_ended(&self, id: JobId) -> JobView {
        self.until(id, |view| view.state().is_terminal()).await
    }

    /// The retry of a failed job, wherever it is by now.
    pub(crate) fn retry_of(&self, job: JobId) -> JobId {
        let connection = rusqlite::Connection::open(self.store.path()).unwrap();
        let find = "SELECT job_id FROM punctual_retries WHERE retry_of = ?1";
        JobId::from_bytes(connection.query_row(find, [job.as_bytes()], |row| row.get(0)).unwrap())
    }

    pub(crate) fn start(&self, executors: Executors) -> RunningNode {
        RunningNode::start(Arc::clone(&self.store) as Arc<dyn Store>, executors, patient())
    }
}

/// A node that holds its lease on a busy machine, too.
fn patient() -> NodeOptions {
    NodeOptions { lease: Duration::from_secs(30), ..quick() }
}

/// A node that notices everything within a second.
pub(crate) fn quick() -> NodeOptions {
    NodeOptions {
        desk: DeskOptions { room: 4, prefetch: 2, queues: Vec::new(), grace: Duration::from_millis(200) },
        heartbeat: Duration::from_millis(50),
        lease: Duration::from_millis(1500),
        poll: Duration::from_millis(50),
        ..NodeOptions::default()
    }
}

pub(crate) struct RunningNode {
    stop: oneshot::Sender<()>,
    stop_now: oneshot::Sender<()>,
    events: mpsc::UnboundedReceiver<NodeEvent>,
    task: JoinHandle<()>,
}

impl RunningNode {
    pub(crate) fn start(store: Arc<dyn Store>, executors: Executors, options: NodeOptions) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (stop_now, stopped_now) = oneshot::channel::<()>();
        let (say, events) = mpsc::unbounded_channel();
        let signals = Signals {
            gently: Box::pin(async { drop(stopped.await) }),
            now: Box::pin(async {
                if stopped_now.await.is_err() {
                    std::future::pending::<()>().await;
                }
            }),
        };
        let task = tokio::spawn(async move {
            let on_event = move |event| drop(say.send(event));
            node::run_until(store, executors, options, signals, on_event).await.unwrap();
        });
        Self { stop, stop_now, events, task }
    }

    pub(crate) async fn event(&mut self) -> NodeEvent {
        self.events.recv().await.unwrap()
    }

    /// Leaves, and has nothing else to say than this.
    pub(crate) async fn leave_saying(mut self, last: &[NodeEvent]) {
        drop(std::mem::replace(&mut self.stop, oneshot::channel().0));
        self.task.await.unwrap();
        let mut said = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            said.push(event);
        }
        assert_eq!(said, last);
    }

    pub(crate) async fn leave(self) {
        drop(self.stop);
        self.task.await.unwrap();
    }

    /// Leaves without waiting for what runs to come to its end by itself.
    pub(crate) async fn leave_at_once(self) {
        self.stop_now.send(()).unwrap();
        drop(self.stop);
        self.task.await.unwrap();
    }
}

fn task(
    name: &str, work: impl Fn() -> Result<(), TaskError> + Send + Sync + 'static,
) -> (String, Arc<dyn punctual_core::execute::Executor>) {
    let work = Arc::new(work);
    let handler = Handler::new(move |_: Context, _: Json| {
        let work = Arc::clone(&work);
        async move { work() }
    });
    (format!("task:{name}"), Arc::new(handler))
}

/// A task that says when it has started and ends when it is let go.
pub(crate) fn gated(started: &Arc<Semaphore>, gate: &Arc<Semaphore>) -> Executors {
    let (started, gate) = (Arc::clone(started), Arc::clone(gate));
    let handler = Handler::new(move |_: Context, _: Json| {
        let (started, gate) = (Arc::clone(&started), Arc::clone(&gate));
        async move {
            started.add_permits(1);
            gate.acquire().await.unwrap().forget();
            Ok::<_, TaskError>(())
        }
    });
    Executors::default().with("task:gated", Arc::new(handler))
}

#[tokio::test]
async fn c07_jobs_are_run_and_reported() {
    let world = World::new();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let (name, work) = task("count", move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    let jobs = world.store.enqueue_jobs((0..100).map(|_| NewJob::new(Target::task("count"))).collect()).await.unwrap();
    let node = world.start(Executors::default().with(name, work));
    for id in jobs {
        assert_eq!(world.until_ended(id).await.state(), JobState::Completed);
    }
    node.leave().await;
    assert_eq!(count.load(Ordering::SeqCst), 100);
    assert!(world.store.node_pulses().await.unwrap().is_empty(), "a node that left has no lease");
}

#[tokio::test]
async fn c04_a_fatal_error_is_final_and_a_panic_is_a_failed_run() {
    let world = World::new();
    let (fatal_name, fatal) = task("fatal", || Err(TaskError::Fatal("no such customer".into())));
    let (panic_name, panics) = task("panics", || panic!("oh no"));
    let node = world.start(Executors::default().with(fatal_name, fatal).with(panic_name, panics));
    let (fatal, panics) = (world.enqueue("fatal").await, world.enqueue("panics").await);
    let run = world.until_ended(fatal).await.run().cloned().unwrap();
    assert!(run.is_final);
    assert_eq!(run.error.as_deref(), Some("no such customer"));
    let run = world.until_ended(panics).await.run().cloned().unwrap();
    assert_eq!((run.outcome, run.error_code, run.is_final), (Outcome::Failed, Some(ErrorCode::TargetError), false));
    assert!(run.error.unwrap().contains("oh no"));
    node.leave().await;
}

#[tokio::test]
async fn c08_a_shutdown_lets_running_jobs_finish_and_gives_back_what_never_started() {
    let world = World::new();
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    // Room for four, and two more are claimed ahead.
    let jobs = world.store.enqueue_jobs((0..8).map(|_| NewJob::new(Target::task("gated"))).collect()).await.unwrap();
    let mut node = world.start(gated(&started, &gate));
    started.acquire_many(4).await.unwrap().forget();
    assert_eq!(node.event().await, NodeEvent::Ready);
    drop(std::mem::replace(&mut node.stop, oneshot::channel().0));
    assert_eq!(node.event().await, NodeEvent::Draining { running: 4 });
    gate.add_permits(8);
    assert_eq!(node.event().await, NodeEvent::Left);
    node.task.await.unwrap();
    let mut states = Vec::new();
    for id in &jobs {
        states.push(world.store.job(*id).await.unwrap().unwrap().state());
    }
    assert_eq!(states[..4], [JobState::Completed; 4]);
    assert_eq!(states[4..], [JobState::Queued; 4]);
    let order: Vec<_> = world.store.queued_jobs("default", None, 10).await.unwrap();
    assert_eq!(order.iter().map(|job| job.place.job_id).collect::<Vec<_>>(), jobs[4..]);
}

#[tokio::test]
async fn c08_a_second_signal_stops_running_jobs_as_interrupted() {
    let world = World::new();
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let job = world.enqueue("gated").await;
    let mut node = world.start(gated(&started, &gate));
    started.acquire().await.unwrap().forget();
    assert_eq!(node.event().await, NodeEvent::Ready);
    drop(std::mem::replace(&mut node.stop, oneshot::channel().0));
    assert_eq!(node.event().await, NodeEvent::Draining { running: 1 });
    node.stop_now.send(()).unwrap();
    node.task.await.unwrap();
    let run = world.store.run(job).await.unwrap().unwrap();
    assert_eq!((run.error_code, run.is_final), (Some(ErrorCode::Interrupted), false));
}

#[tokio::test]
async fn c04_a_job_that_runs_too_long_is_stopped_and_recorded_as_timeout() {
    let world = World::new();
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let limited = NewJob {
        timeout: Timeout::After(jiff::SignedDuration::from_millis(100)),
        ..NewJob::new(Target::task("gated"))
    };
    let job = world.store.enqueue_jobs(vec![limited]).await.unwrap()[0];
    let node = world.start(gated(&started, &gate));
    let run = world.until_ended(job).await.run().cloned().unwrap();
    assert_eq!(run.error_code, Some(ErrorCode::Timeout));
    gate.add_permits(100);
    node.leave().await;
}

#[tokio::test]
async fn c07_a_running_job_is_cancelled_from_another_node() {
    let world = World::new();
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let job = world.enqueue("gated").await;
    let node = world.start(gated(&started, &gate));
    started.acquire().await.unwrap().forget();
    assert_eq!(world.store.cancel_job(job).await.unwrap(), Cancelled::Requested);
    let run = world.until_ended(job).await.run().cloned().unwrap();
    assert_eq!((run.outcome, run.error_code), (Outcome::Cancelled, Some(ErrorCode::Cancelled)));
    node.leave().await;
}

#[tokio::test]
async fn e06_a_job_that_no_node_offers_stays_queued() {
    let world = World::new();
    let (name, work) = task("known", || Ok(()));
    let node = world.start(Executors::default().with(name, work));
    let (unknown, known) = (world.enqueue("unknown").await, world.enqueue("known").await);
    assert_eq!(world.until_ended(known).await.state(), JobState::Completed);
    assert_eq!(world.store.job(unknown).await.unwrap().unwrap().state(), JobState::Queued);
    node.leave().await;
}

/// A node without work lets its store get ready, and after a while again: its connections may be others by then.
#[tokio::test]
async fn e07_an_idle_node_lets_its_store_get_ready_now_and_then() {
    let world = World::new();
    let (name, work) = task("count", || Ok(()));
    let store = FaultyStore::new(Arc::clone(&world.store));
    let node = RunningNode::start(Arc::clone(&store) as Arc<dyn Store>, Executors::default().with(name, work), quick());
    let reaches = async |count: &AtomicUsize, wanted: usize| {
        while count.load(Ordering::SeqCst) < wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    reaches(&store.warmed, 1).await;
    let job = world.enqueue("count").await;
    world.until_ended(job).await;
    reaches(&store.warmed, 2).await;
    // Not at every look: that many come within a moment.
    let (looks, warmed) = (store.looks.load(Ordering::SeqCst), store.warmed.load(Ordering::SeqCst));
    assert!(looks > 3 * warmed, "{looks} looks, and {warmed} times ready");
    node.leave().await;
}

/// The claim is made, its answer is lost, the node lives: the jobs must not stay running for ever.
#[tokio::test]
async fn c09_a_claim_whose_answer_was_lost_is_given_back_and_run() {
    let world = World::new();
    let (name, work) = task("count", || Ok(()));
    let job = world.enqueue("count").await;
    let faulty = FaultyStore::new(Arc::clone(&world.store));
    faulty.arm(Fault::LoseClaimAnswer);
    let node =
        RunningNode::start(Arc::clone(&faulty) as Arc<dyn Store>, Executors::default().with(name, work), quick());
    let view = world.until_ended(job).await;
    assert_eq!(view.state(), JobState::Completed);
    assert_eq!(view.job.attempt, 1, "a job that never started is not charged");
    assert_eq!(faulty.times(Fault::LoseClaimAnswer), 1);
    node.leave().await;
}

/// The end is stored, its answer is lost: reporting again is refused, and the record stays as it was.
#[tokio::test]
async fn c09_an_end_whose_answer_was_lost_is_recorded_once() {
    let world = World::new();
    let (name, work) = task("count", || Ok(()));
    let faulty = FaultyStore::new(Arc::clone(&world.store));
    faulty.arm(Fault::LoseFinishAnswer);
    let node =
        RunningNode::start(Arc::clone(&faulty) as Arc<dyn Store>, Executors::default().with(name, work), quick());
    let first = world.enqueue("count").await;
    assert_eq!(world.until_ended(first).await.state(), JobState::Completed);
    let second = world.enqueue("count").await;
    assert_eq!(world.until_ended(second).await.state(), JobState::Completed);
    assert_eq!(faulty.times(Fault::LoseFinishAnswer), 1);
    node.leave().await;
}

/// A node that cannot renew stops its work before others may take it over, and comes back under a new lease.
#[tokio::test]
async fn c09_a_node_that_cannot_renew_stops_its_work_and_another_one_finishes_it() {
    let world = World::new();
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let job = world.enqueue("gated").await;
    let cut_off = FaultyStore::new(Arc::clone(&world.store));
    let mut first = RunningNode::start(Arc::clone(&cut_off) as Arc<dyn Store>, gated(&started, &gate), quick());
    started.acquire().await.unwrap().forget();
    assert_eq!(first.event().await, NodeEvent::Ready);
    cut_off.cut_off(true);
    assert_eq!(first.event().await, NodeEvent::Fenced);
    let still_running = world.store.job(job).await.unwrap().unwrap().state();
    assert_eq!(still_running, JobState::Running, "it stops before anybody has taken over");
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    let second = RunningNode::start(store, gated(&started, &gate), quick());
    gate.add_permits(100);
    let run = world.until_ended(job).await.run().cloned().unwrap();
    assert_eq!((run.error_code, run.is_final), (Some(ErrorCode::NodeLost), false));
    assert_eq!(world.until_ended(world.retry_of(job)).await.state(), JobState::Completed);
    cut_off.cut_off(false);
    assert_eq!(first.event().await, NodeEvent::Ready);
    first.leave().await;
    second.leave().await;
}

/// A node that is told to leave and cannot renew its lease then has left; it does not come back.
#[tokio::test]
async fn c08_a_node_that_loses_its_lease_while_it_leaves_has_left() {
    let world = World::new();
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    world.enqueue("gated").await;
    let cut_off = FaultyStore::new(Arc::clone(&world.store));
    let mut node = RunningNode::start(Arc::clone(&cut_off) as Arc<dyn Store>, gated(&started, &gate), quick());
    started.acquire().await.unwrap().forget();
    assert_eq!(node.event().await, NodeEvent::Ready);
    drop(std::mem::replace(&mut node.stop, oneshot::channel().0));
    assert_eq!(node.event().await, NodeEvent::Draining { running: 1 });
    cut_off.cut_off(true);
    assert_eq!(node.event().await, NodeEvent::Fenced);
    assert_eq!(node.event().await, NodeEvent::Left);
    node.task.await.unwrap();
}
