//! What an overview shows beside its lists: the last runs of many schedules, names by id, and jobs by id.

use crate::prelude::*;
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::job::Whereabouts;
use punctual_core::readings::RECENT_LOOK;
use punctual_core::run::{ErrorCode, Outcome, Trigger};
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::FinishedRun;

impl World {
    /// The last runs of some schedules, as pairs of schedule and job.
    async fn recent(&self, schedules: &[ScheduleId], limit: usize) -> Vec<(ScheduleId, JobId)> {
        let runs = self.store().recent_runs(schedules, limit).await.expect("recent runs can be read");
        runs.iter().map(|run| (run.schedule_id, run.job_id)).collect()
    }
}

pub async fn d12_the_last_runs_of_many_schedules_are_read_at_once(world: &mut World) {
    let lease = world.node("n").await;
    let definition = |name| ScheduleDefinition { retry: no_retry(), ..hourly(name) };
    let (a, b) = (world.create(definition("a")).await.id, world.create(definition("b")).await.id);
    let idle = world.create(definition("idle")).await.id;
    let mut made = Vec::new();
    for schedule in [a, b, a, a] {
        made.push(world.store().trigger_schedule(schedule, ByHand::default()).await.unwrap());
        world.pass(secs(1));
    }
    assert_eq!(world.claim(lease, ALL).await.len(), 4);
    let long = format!("no such host {}\nand more of it", "x".repeat(300));
    world.finish(lease, FinishedRun::failed(made[2], ErrorCode::Timeout, long.clone())).await;
    world.complete(lease, made[0]).await;
    world.complete(lease, made[1]).await;
    assert_eq!(world.recent(&[b, idle, a], 5).await, [(b, made[1]), (a, made[2]), (a, made[0])], "one runs still");
    world.complete(lease, made[3]).await;
    assert_eq!(world.recent(&[a], 2).await, [(a, made[3]), (a, made[2])], "the latest ones");
    assert_eq!(world.recent(&[], 5).await, []);
    assert_eq!(world.recent(&[nobody().into()], 5).await, []);
    let run = world.store().recent_runs(&[a], 2).await.unwrap().remove(1);
    let stored = world.closed_run(made[2]).await;
    assert_eq!((run.outcome, run.error_code, run.trigger), (Outcome::Failed, Some(ErrorCode::Timeout), Trigger::Manual));
    assert_eq!((run.started_at, run.finished_at, run.slot_at), (stored.started_at, stored.finished_at, None));
    assert_eq!(run.error, Some(long.chars().take(200).collect()));
}

pub async fn d12_a_long_line_of_waiting_jobs_is_looked_through_up_to_a_bound(world: &mut World) {
    let lease = world.node("n").await;
    let schedule = world.create(hourly("busy")).await.id;
    let ended = world.store().trigger_schedule(schedule, ByHand::default()).await.unwrap();
    assert_eq!(world.claim_one(lease).await, ended);
    world.complete(lease, ended).await;
    for _ in 1..RECENT_LOOK {
        world.store().trigger_schedule(schedule, ByHand::default()).await.unwrap();
    }
    assert_eq!(world.recent(&[schedule], 1).await, [(schedule, ended)]);
    world.store().trigger_schedule(schedule, ByHand::default()).await.unwrap();
    assert_eq!(world.recent(&[schedule], 1).await, []);
}

pub async fn d03_the_name_of_a_deleted_schedule_is_still_known(world: &mut World) {
    let kept = world.create(hourly("kept")).await.id;
    let gone = world.create(hourly("gone")).await.id;
    world.store().delete_schedule(gone).await.unwrap();
    let again = world.create(hourly("gone")).await.id;
    let names = world.store().schedule_names(&[gone, nobody().into(), kept, again]).await.unwrap();
    let expected = [(kept, "kept"), (gone, "gone"), (again, "gone")];
    assert_eq!(names, expected.map(|(id, name)| (id, name.to_owned())).into());
    assert_eq!(world.store().schedule_names(&[]).await, Ok([].into()));
}

pub async fn b10_some_jobs_are_read_at_once_wherever_they_are(world: &mut World) {
    let lease = world.node("n").await;
    let ids = world.enqueue_all(vec![job(); 3]).await;
    assert_eq!(world.claim(lease, 2).await, ids[..2]);
    world.complete(lease, ids[0]).await;
    let asked = [ids[2], nobody().into(), ids[0], ids[1]];
    let views = world.store().jobs_by_id(&asked).await.unwrap();
    assert_eq!(views.iter().map(|view| view.job.id).collect::<Vec<_>>(), [ids[2], ids[0], ids[1]], "in that order");
    assert!(matches!(views[0].whereabouts, Whereabouts::Queued { .. }));
    assert!(matches!(views[1].whereabouts, Whereabouts::Closed(_)));
    assert!(matches!(views[2].whereabouts, Whereabouts::Running(_)));
    assert_eq!(views[1], world.job(ids[0]).await);
    assert_eq!(world.store().jobs_by_id(&[]).await, Ok(vec![]));
}
