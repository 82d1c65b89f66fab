//! What an overview shows beside its lists: the last runs of many schedules, names and jobs by id, figures over time.

use crate::prelude::*;
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::job::{NewJob, Whereabouts};
use punctual_core::readings::RECENT_LOOK;
use punctual_core::run::{ErrorCode, Outcome, Trigger};
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::series::SeriesBucket;
use punctual_core::statistics::Spread;
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
    assert_eq!(
        (run.outcome, run.error_code, run.trigger),
        (Outcome::Failed, Some(ErrorCode::Timeout), Trigger::Manual)
    );
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

pub async fn d12_runs_are_counted_and_ranked_in_the_bucket_in_which_they_ended(world: &mut World) {
    let lease = world.node("n").await;
    let jobs = vec![NewJob { retry: no_retry(), ..job() }; 3];
    let ids = world.enqueue_all(jobs).await;
    let later = world.enqueue(NewJob { run_at: Some(clock_time("00:00:30")), ..job() }).await;
    world.set_time("00:00:10");
    assert_eq!(world.claim(lease, 2).await, ids[..2]);
    world.set_time("00:00:59");
    world.complete(lease, ids[0]).await;
    world.store().cancel_job(ids[2]).await.unwrap();
    world.set_time("00:01:00");
    world.fail(lease, ids[1]).await;
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1));
    assert_eq!(world.claim_one(lease).await, later);
    world.set_time("00:03:07");
    world.complete(lease, later).await;
    let series = |from: &str, until: &str| {
        let (store, from, until) = (world.store(), clock_time(from), clock_time(until));
        async move { store.run_series(from, until, mins(1)).await.expect("a series can be read") }
    };
    let alone = |length| Some(Spread { p50: length, p95: length, max: length, count: 1 });
    let bucket = |at: &str, ended: &[Outcome], waited, took| SeriesBucket {
        at: clock_time(at),
        ended: ended.iter().map(|outcome| (*outcome, 1)).collect(),
        queue_time: alone(waited),
        duration: alone(took),
    };
    let expected = [
        bucket("00:00:00", &[Outcome::Completed, Outcome::Cancelled], secs(10), secs(49)),
        bucket("00:01:00", &[Outcome::Failed], secs(10), secs(50)),
        bucket("00:03:00", &[Outcome::Completed], secs(30), secs(127)),
    ];
    assert_eq!(series("00:00:00", "00:04:00").await, expected, "a job waits from its run_at on");
    assert_eq!(series("00:01:00", "00:03:07").await, expected[1..2], "the beginning belongs to it, the end does not");
    assert_eq!(series("00:05:00", "00:09:00").await, []);
}

pub async fn d12_the_ranks_of_many_runs_are_those_of_a_plain_sort(world: &mut World) {
    let lease = world.node("n").await;
    let mut took = Vec::new();
    let mut waited = Vec::new();
    // Forty is a number of runs of which every percentile falls on a rank; the next ones lie between two.
    for many in [40, 1, 2] {
        for run in 0..many {
            let id = world.enqueue(job()).await;
            let (before, length) = (secs((run * 7) % 11), secs((run * 13) % 17));
            world.pass(before);
            assert_eq!(world.claim_one(lease).await, id);
            world.pass(length);
            world.complete(lease, id).await;
            waited.push(before);
            took.push(length);
        }
        let all = world.store().run_series(clock_time("00:00:00"), clock_time("10:00:00"), mins(600)).await.unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].ended, [(Outcome::Completed, took.len() as u64)].into());
        assert_eq!(all[0].queue_time, Spread::of(waited.clone()), "of {}", took.len());
        assert_eq!(all[0].duration, Spread::of(took.clone()), "of {}", took.len());
    }
}

pub async fn d03_the_ledger_is_read_within_a_time_with_ranges_that_reach_into_it(world: &mut World) {
    let schedule = world.create(minutely("s")).await.id;
    for minute in ["00:01:00", "00:02:00"] {
        world.set_time(minute);
        world.fire_one().await;
    }
    world.store().pause_schedule(schedule, None, None).await.unwrap();
    world.set_time("00:05:30");
    world.store().resume_schedule(schedule).await.unwrap();
    world.set_time("00:06:00");
    world.fire_one().await;
    let whole = world.slot_rows(schedule).await;
    let begins: Vec<_> = whole.iter().map(|row| (row.slot_at, row.count)).collect();
    let at = clock_time;
    assert_eq!(
        begins,
        [(at("00:06:00"), 1), (at("00:03:00"), 3), (at("00:02:00"), 1), (at("00:01:00"), 1)],
        "the pause is one range"
    );
    for (from, until, expected) in [
        ("00:00:00", "00:10:00", &whole[..]),
        ("00:02:00", "00:06:00", &whole[1..3]),
        ("00:03:00", "00:03:01", &whole[1..2]),
        ("00:04:30", "00:06:01", &whole[..2]),
        ("00:05:00", "00:05:30", &whole[1..2]),
        ("00:05:01", "00:06:00", &whole[..0]),
        ("00:07:00", "00:08:00", &whole[..0]),
    ] {
        let found = world.store().slots_between(schedule, at(from), at(until), ALL).await.unwrap();
        assert_eq!(found, expected, "{from} to {until}");
    }
    let latest = world.store().slots_between(schedule, at("00:00:00"), at("00:10:00"), 2).await.unwrap();
    assert_eq!(latest, whole[..2]);
    let rest = world.store().slots_between(schedule, at("00:04:00"), at("00:03:30"), ALL).await.unwrap();
    assert_eq!(rest, whole[1..2], "behind a cursor, before the time itself");
}

pub async fn d03_a_slot_ended_as_the_last_job_of_its_chain_did(world: &mut World) {
    let definition = ScheduleDefinition { retry: retry(2, SHORTEST_WAIT), ..minutely("s") };
    let schedule = world.create(definition).await.id;
    let lease = world.node("n").await;
    let mut fired = Vec::new();
    for minute in ["00:01:00", "00:02:00", "00:03:00", "00:04:00"] {
        world.set_time(minute);
        fired.push(world.fire_one().await);
        assert_eq!(world.claim(lease, 1).await, fired[fired.len() - 1..]);
    }
    world.complete(lease, fired[0]).await;
    let second = world.fail_and_requeue(lease, fired[1]).await;
    assert_eq!(world.claim_one(lease).await, second);
    world.complete(lease, second).await;
    let third = world.fail_and_requeue(lease, fired[2]).await;
    assert_eq!(world.claim_one(lease).await, third);
    let ends = |from: &str, until: &str, limit| {
        let (store, from, until) = (world.store(), clock_time(from), clock_time(until));
        async move { store.slot_ends(schedule, from, until, limit).await.expect("ends can be read") }
    };
    let completed = |minute: &str| (clock_time(minute), Outcome::Completed);
    let all = ends("00:00:00", "01:00:00", ALL).await;
    assert_eq!(all, [completed("00:01:00"), completed("00:02:00")].into(), "two have not ended");
    assert_eq!(world.fail(lease, third).await, None);
    let all = ends("00:00:00", "01:00:00", ALL).await;
    assert_eq!(all.get(&clock_time("00:03:00")), Some(&Outcome::Failed), "it failed at last");
    assert_eq!(ends("00:02:00", "00:03:00", ALL).await, [completed("00:02:00")].into());
    assert_eq!(ends("00:00:00", "01:00:00", 2).await.into_keys().collect::<Vec<_>>(), [clock_time("00:03:00")]);
    // Somebody tries once more by hand, and it goes well.
    let by_hand = world.store().retry_job_if_ended(third, None).await.unwrap();
    assert_eq!(ends("00:03:00", "00:04:00", ALL).await, [].into(), "it goes on");
    assert_eq!(world.claim_one(lease).await, by_hand);
    world.complete(lease, by_hand).await;
    assert_eq!(ends("00:03:00", "00:04:00", ALL).await, [completed("00:03:00")].into());
}
