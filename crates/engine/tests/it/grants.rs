//! The worker's look at the grant: the matrix of what may be wrong with one, and that no target is called then.

use crate::World;
use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::execute::{Executor, RunContext};
use punctual_core::grant::{Grants, NewGrant};
use punctual_core::id::{GrantId, JobId};
use punctual_core::job::NewJob;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::{FinishedRun, NewNode, Store};
use punctual_core::target::{Graph, Target};
use punctual_engine::clock::Uptime;
use punctual_engine::dispatch::{Desk, DeskOptions, RunningSet};
use punctual_engine::lease::HeldLease;
use punctual_engine::work::Executors;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Counts how often it is called.
#[derive(Default)]
struct Counting(AtomicUsize);

#[async_trait]
impl Executor for Counting {
    async fn run(&self, run: RunContext) -> FinishedRun {
        self.0.fetch_add(1, Ordering::SeqCst);
        run.completed(None)
    }
}

struct Office {
    world: World,
    desk: Desk,
    calls: Arc<Counting>,
}

impl Office {
    async fn open() -> Self {
        let (world, calls) = (World::new(), Arc::new(Counting::default()));
        let executors = Executors::default().with("graph", calls.clone()).with("task:step", calls.clone());
        let store: Arc<dyn Store> = Arc::new(world.store.clone());
        let node = NewNode { name: "desk".to_owned(), offers: executors.job_types() };
        let lease = store.register_node(node).await.unwrap();
        let uptime = Uptime::start();
        let lease = HeldLease::new(lease, Duration::from_secs(3600), Duration::ZERO);
        let options = DeskOptions { room: 4, prefetch: 0, queues: Vec::new(), grace: Duration::ZERO };
        let desk = Desk::new(store, lease, executors, options, uptime, RunningSet::default());
        Self { world, desk, calls }
    }

    async fn grant(&self, grant: NewGrant) -> GrantId {
        self.world.store.create_grant(grant).await.unwrap().id
    }

    /// Runs one job to its end.
    async fn work(&mut self, job: NewJob) -> (Outcome, Option<ErrorCode>) {
        let id = self.world.store.enqueue_jobs(vec![job]).await.unwrap()[0];
        self.desk.exchange(true).await.unwrap();
        self.finish(id).await
    }

    async fn finish(&mut self, id: JobId) -> (Outcome, Option<ErrorCode>) {
        self.desk.next_end().await;
        self.desk.exchange(false).await.unwrap();
        let run = self.world.store.run(id).await.unwrap().unwrap();
        (run.outcome, run.error_code)
    }

    fn calls(&self) -> usize {
        self.calls.0.load(Ordering::SeqCst)
    }
}

fn for_ada(scope: &str) -> NewGrant {
    NewGrant {
        owner: "ada".into(),
        billing_account: "acme".into(),
        scopes: vec![scope.parse().unwrap()],
        expires_at: None,
        max_runs: None,
        rate: None,
    }
}

fn job(target: Target, grant_id: Option<GrantId>) -> NewJob {
    NewJob { grant_id, owner: Some("ada".into()), ..NewJob::new(target) }
}

fn graph(grant_id: Option<GrantId>) -> NewJob {
    job(Target::Graph(Graph { id: "flow:etl".into() }), grant_id)
}

#[tokio::test]
async fn a09_the_worker_checks_the_grant_before_it_calls() {
    let mut office = Office::open().await;
    let good = office.grant(for_ada("graph:execute:flow:etl")).await;
    let wildcard = office.grant(for_ada("graph:execute:*")).await;
    let narrow = office.grant(for_ada("graph:execute:flow:other")).await;
    let of_eve = office.grant(NewGrant { owner: "eve".into(), ..for_ada("graph:execute:*") }).await;
    let now = office.world.store.now().await.unwrap();
    let brief = NewGrant { expires_at: Some(now + SignedDuration::from_secs(1)), ..for_ada("graph:execute:*") };
    let brief = office.grant(brief).await;
    let revoked = office.grant(for_ada("graph:execute:*")).await;
    office.world.store.revoke_grant(revoked).await.unwrap();
    office.world.clock.pass(SignedDuration::from_secs(2));
    let nobodys = NewJob { owner: None, ..graph(Some(good)) };
    for (job, code) in [
        (graph(None), ErrorCode::GrantMissing),
        (graph(Some(GrantId(uuid::Uuid::from_u128(7)))), ErrorCode::GrantMissing),
        (graph(Some(of_eve)), ErrorCode::GrantMissing),
        (nobodys, ErrorCode::GrantMissing),
        (graph(Some(revoked)), ErrorCode::GrantRevoked),
        (graph(Some(brief)), ErrorCode::GrantExpired),
        (graph(Some(narrow)), ErrorCode::ScopeDenied),
    ] {
        assert_eq!(office.work(job).await, (Outcome::Failed, Some(code)));
    }
    assert_eq!(office.calls(), 0, "nothing was called");
    assert_eq!(office.work(graph(Some(good))).await, (Outcome::Completed, None));
    assert_eq!(office.work(graph(Some(wildcard))).await, (Outcome::Completed, None));
    assert_eq!(office.calls(), 2);
}

#[tokio::test]
async fn a09_what_a_graph_has_started_runs_under_its_grant_without_a_scope() {
    let mut office = Office::open().await;
    let good = office.grant(for_ada("graph:execute:flow:etl")).await;
    let step = |grant| job(Target::task("step"), grant);
    assert_eq!(office.work(step(Some(good))).await, (Outcome::Completed, None));
    office.world.store.revoke_grant(good).await.unwrap();
    assert_eq!(office.work(step(Some(good))).await, (Outcome::Failed, Some(ErrorCode::GrantRevoked)));
    assert_eq!(office.work(step(None)).await, (Outcome::Completed, None), "what needs no grant is not asked for one");
    assert_eq!(office.calls(), 2);
}
