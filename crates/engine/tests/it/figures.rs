//! What a node tells whoever counts or keeps spans, when all is well and when it is not.

use crate::faulty::FaultyStore;
use crate::node::{RunningNode, World, gated, quick};
use punctual_core::meter::{Meter, RunEnd, StoreVerb};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::Store;
use punctual_core::trace::{Span, SpanId, TraceContext, Tracer};
use punctual_engine::node::{NodeEvent, NodeOptions};
use punctual_engine::targets::command::{CommandExecutor, CommandOptions};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Counts, and keeps everything.
#[derive(Debug, Default)]
struct Counted {
    beats_failed: AtomicUsize,
    leases_lost: AtomicUsize,
    nodes_recovered: AtomicUsize,
    runs_recovered: AtomicUsize,
    unanswered: AtomicUsize,
    ends: Mutex<Vec<RunEnd>>,
    spans: Mutex<Vec<Span>>,
}

impl Meter for Counted {
    fn lease_renewed(&self, renewed: bool) {
        self.beats_failed.fetch_add(usize::from(!renewed), Ordering::SeqCst);
    }

    fn lease_lost(&self) {
        self.leases_lost.fetch_add(1, Ordering::SeqCst);
    }

    fn recovered(&self, nodes: usize, runs: usize) {
        self.nodes_recovered.fetch_add(nodes, Ordering::SeqCst);
        self.runs_recovered.fetch_add(runs, Ordering::SeqCst);
    }

    fn store_answered(&self, verb: StoreVerb, _: Duration, could: bool) {
        self.unanswered.fetch_add(usize::from(verb == StoreVerb::Claim && !could), Ordering::SeqCst);
    }

    fn run_ended(&self, end: RunEnd) {
        self.ends.lock().unwrap().push(end);
    }
}

impl Tracer for Counted {
    fn is_on(&self) -> bool {
        true
    }

    fn ended(&self, span: Span) {
        self.spans.lock().unwrap().push(span);
    }
}

fn counting() -> (Arc<Counted>, NodeOptions) {
    let counted = Arc::new(Counted::default());
    let options = NodeOptions { meter: counted.clone(), tracer: counted.clone(), ..quick() };
    (counted, options)
}

#[tokio::test]
async fn d12_a_lost_lease_is_counted_by_who_lost_it_and_by_who_took_over() {
    let world = World::new();
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let job = world.enqueue("gated").await;
    let cut_off = FaultyStore::new(Arc::clone(&world.store));
    let ((lost, first), (taker, second)) = (counting(), counting());
    let mut first = RunningNode::start(Arc::clone(&cut_off) as Arc<dyn Store>, gated(&started, &gate), first);
    started.acquire().await.unwrap().forget();
    assert_eq!(first.event().await, NodeEvent::Ready);
    assert_eq!((lost.leases_lost.load(Ordering::SeqCst), lost.beats_failed.load(Ordering::SeqCst)), (0, 0));
    cut_off.cut_off(true);
    assert_eq!(first.event().await, NodeEvent::Fenced);
    assert_eq!(lost.leases_lost.load(Ordering::SeqCst), 1);
    assert!(lost.beats_failed.load(Ordering::SeqCst) >= 1 && lost.unanswered.load(Ordering::SeqCst) >= 1);
    let second = RunningNode::start(Arc::clone(&world.store) as Arc<dyn Store>, gated(&started, &gate), second);
    gate.add_permits(100);
    world.until_ended(job).await;
    let retry = world.retry_of(job);
    world.until_ended(retry).await;
    cut_off.cut_off(false);
    assert_eq!(first.event().await, NodeEvent::Ready);
    first.leave().await;
    second.leave().await;
    assert_eq!(taker.nodes_recovered.load(Ordering::SeqCst), 1);
    assert_eq!(taker.runs_recovered.load(Ordering::SeqCst), 1);
    // One of the two ran the retry.
    let ends: Vec<RunEnd> = [&lost, &taker].iter().flat_map(|it| it.ends.lock().unwrap().clone()).collect();
    let completed = |end: &&RunEnd| (end.kind, end.outcome, end.error_code) == ("task", Outcome::Completed, None);
    assert_eq!(ends.iter().filter(completed).count(), 1, "{ends:?}");
    let spans: Vec<Span> = [&lost, &taker].iter().flat_map(|it| it.spans.lock().unwrap().clone()).collect();
    let span = spans.iter().find(|span| span.error.is_none()).unwrap();
    let view = world.until_ended(retry).await;
    assert_eq!(span.context, TraceContext::of_run(&view.job));
    assert_eq!(span.follows, Some(SpanId::of_run(job)));
}

#[tokio::test]
async fn d12_a_run_that_fails_is_told_with_its_code_and_its_words() {
    let world = World::new();
    let job = world.enqueue("unknown to its executor").await;
    let (counted, options) = counting();
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    // It offers the type, and hands the job to an executor of another: the job fails at once.
    let executors = gated(&started, &gate)
        .with("task:unknown to its executor", Arc::new(CommandExecutor::new(CommandOptions::default())));
    let node = RunningNode::start(Arc::clone(&world.store) as Arc<dyn Store>, executors, options);
    let run = world.until_ended(job).await.run().cloned().unwrap();
    node.leave().await;
    assert_eq!((run.outcome, run.error_code), (Outcome::Failed, Some(ErrorCode::Internal)));
    let end = counted.ends.lock().unwrap()[0];
    assert_eq!((end.kind, end.outcome, end.error_code), ("task", Outcome::Failed, Some(ErrorCode::Internal)));
    let spans = counted.spans.lock().unwrap();
    let first = spans.iter().find(|span| span.context.span_id == SpanId::of_run(job)).unwrap();
    assert_eq!(first.error, run.error);
    assert!(first.ended_at >= first.began_at && first.parent.is_none());
}
