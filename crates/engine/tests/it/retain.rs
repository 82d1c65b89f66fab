//! Retention: what a pass forgets, what it keeps, and in how many steps.

use super::World;
use jiff::SignedDuration;
use punctual_core::id::{ClaimId, JobId};
use punctual_core::job::NewJob;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::ErrorCode;
use punctual_core::schedule::Missed;
use punctual_core::store::{ClaimRequest, FinishedRun, Lease, NewNode, Store};
use punctual_core::target::Target;
use punctual_engine::retain::{Keep, RetainPass, retain_once};

const DAY: SignedDuration = SignedDuration::from_hours(24);

impl World {
    async fn lease(&self) -> Lease {
        self.store.register_node(NewNode { name: "n".into(), offers: vec!["task:work".into()] }).await.unwrap()
    }

    /// Runs everything that is queued to its end.
    async fn work_off(&self, lease: Lease, failing: &[JobId]) {
        let request = ClaimRequest {
            lease,
            claim_id: ClaimId(uuid::Uuid::from_u128(1)),
            queues: Vec::new(),
            job_types: vec!["task:work".into(), "command".into()],
            limit: 10_000,
        };
        let claimed = self.store.claim_jobs_if_leased(request).await.unwrap();
        let ends = claimed.iter().map(|claimed| {
            if failing.contains(&claimed.job.id) {
                FinishedRun::failed(claimed.job.id, ErrorCode::TargetError, "it broke")
            } else {
                FinishedRun::completed(claimed.job.id)
            }
        });
        self.store.finish_runs_if_leased(lease, ends.collect()).await.unwrap();
    }
}

fn once() -> NewJob {
    NewJob { retry: RetryPolicy::none(), ..NewJob::new(Target::task("work")) }
}

#[tokio::test]
async fn c13_a_pass_forgets_by_age_outcome_and_count_in_small_steps() {
    let world = World::new();
    let lease = world.lease().await;
    let schedule = world.minutely("often", Missed::ONCE).await;
    let made = world.store.enqueue_jobs(vec![once(); 1200]).await.unwrap();
    world.work_off(lease, &made[..100]).await;
    for _ in 0..30 {
        world.clock.pass(SignedDuration::from_mins(1));
        world.store.fire_due(None, 10).await.unwrap();
        world.work_off(lease, &[]).await;
    }
    world.store.pause_schedule(schedule.id, None, None).await.unwrap();
    assert_eq!(
        retain_once(&world.store, &Keep::default()).await.unwrap(),
        RetainPass { steps: 1, ..RetainPass::default() }
    );
    world.clock.pass(DAY * 31);
    let pass = retain_once(&world.store, &Keep::default()).await.unwrap();
    assert_eq!((pass.jobs, pass.slots), (1100 + 10, 0), "the failed ones and the last twenty of the schedule stay");
    assert!(pass.steps >= 3, "{pass:?}");
    assert_eq!(retain_once(&world.store, &Keep::default()).await.unwrap().jobs, 0);
    world.clock.pass(DAY * 60);
    let pass = retain_once(&world.store, &Keep::default()).await.unwrap();
    assert_eq!((pass.jobs, pass.slots, pass.notices), (100, 30, 100));
    assert_eq!(world.store.schedule_jobs(schedule.id, None, 100).await.unwrap().len(), 20);
    let resumed = world.store.resume_schedule(schedule.id).await.unwrap();
    assert!(resumed.state.next_slot_at > Some(world.store.now().await.unwrap()), "nothing fires again");
}

#[tokio::test]
async fn c13_for_ever_is_for_ever() {
    let world = World::new();
    let lease = world.lease().await;
    world.store.enqueue_jobs(vec![once(); 3]).await.unwrap();
    world.work_off(lease, &[]).await;
    world.clock.pass(DAY * 3650);
    let forever = Keep { runs: None, ..Keep::default() };
    assert_eq!(retain_once(&world.store, &forever).await.unwrap().jobs, 0);
    let none = Keep { runs: Some(SignedDuration::ZERO), failed: Some(SignedDuration::ZERO), last: 0 };
    assert_eq!(retain_once(&world.store, &none).await.unwrap().jobs, 3);
}
