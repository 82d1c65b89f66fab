//! Backfills: which slots they run, that each runs once, and how they end.

use crate::prelude::*;
use jiff::{SignedDuration, Timestamp};
use punctual_core::backfill::{Advanced, Backfill, NewBackfill, SLOTS_MAX};
use punctual_core::id::{BackfillId, JobId, ScheduleId};
use punctual_core::job::JobState;
use punctual_core::run::Trigger;
use punctual_core::schedule::{Overlap, Schedule, ScheduleDefinition};
use punctual_core::store::{Lease, Retention, Store};
use std::collections::BTreeSet;

fn asked(schedule: &Schedule, from: &str, until: &str) -> NewBackfill {
    NewBackfill {
        schedule_id: schedule.id,
        from: clock_time(from),
        until: clock_time(until),
        priority: None,
        per_minute: None,
        by: Some("ada".to_owned()),
    }
}

/// Takes steps until there is nothing to do now; answers with the slots for which jobs were made.
async fn advance_all(world: &World) -> Vec<Timestamp> {
    let mut slots = Vec::new();
    loop {
        let Advanced { jobs, again_in, .. } = world.store().advance_backfills().await.expect("a step");
        for id in jobs {
            let job = world.job(id).await.job;
            assert_eq!(job.spec.trigger, Trigger::Backfill);
            slots.push(job.slot_at.expect("a slot"));
        }
        if again_in != Some(SignedDuration::ZERO) {
            return slots;
        }
    }
}

async fn ended(world: &World, id: BackfillId) -> Backfill {
    let found = world.store().backfill(id).await.expect("an answer").expect("a backfill");
    assert!(found.ended_at.is_some());
    found
}

async fn run(world: &World, lease: Lease, id: JobId, succeeds: bool) {
    assert_eq!(world.claim_one(lease).await, id);
    if succeeds {
        world.complete(lease, id).await;
    } else {
        world.fail(lease, id).await;
    }
}

/// A schedule of which five slots have passed: one succeeded, one failed for good, one was skipped, one runs, and one
/// waits.
async fn mixed(world: &World) -> Schedule {
    let definition = ScheduleDefinition { retry: no_retry(), overlap: Overlap::Forbid, ..minutely("mixed") };
    let schedule = world.create(definition).await;
    let lease = world.node("n").await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    run(world, lease, first, true).await;
    world.set_time("00:02:00");
    let second = world.fire_one().await;
    run(world, lease, second, false).await;
    world.set_time("00:03:00");
    let third = world.fire_one().await;
    assert_eq!(world.claim_one(lease).await, third);
    world.set_time("00:04:00");
    assert_eq!(world.fire().await.slots_not_run, 1, "one is alive");
    world.complete(lease, third).await;
    world.set_time("00:05:00");
    world.fire_one().await;
    schedule
}

pub async fn a22_a_preview_counts_slots_and_gaps_and_writes_nothing(world: &mut World) {
    let schedule = mixed(world).await;
    let range = asked(&schedule, "00:00:00", "00:05:00");
    let preview = world.store().preview_backfill(&range).await.expect("a preview");
    assert_eq!((preview.slots, preview.gaps), (5, 3), "00:00 was before it, 00:02 failed, 00:04 was skipped");
    assert_eq!(preview.first, [clock_time("00:00:00"), clock_time("00:02:00"), clock_time("00:04:00")]);
    assert_eq!(world.store().backfills(None, None, 10).await, Ok(vec![]));
    assert_eq!(advance_all(world).await, []);
}

pub async fn a22_only_slots_without_a_success_run_and_each_of_them_once(world: &mut World) {
    let schedule = mixed(world).await;
    let range = asked(&schedule, "00:00:00", "00:05:00");
    let made = world.store().create_backfill(range.clone()).await.expect("it begins");
    assert_eq!((made.next_at, made.made, made.ended_at), (clock_time("00:00:00"), 0, None));
    assert_eq!(made.asked, range);
    let gaps = [clock_time("00:00:00"), clock_time("00:02:00"), clock_time("00:04:00")];
    assert_eq!(advance_all(world).await, gaps);
    let over = ended(world, made.id).await;
    assert_eq!((over.made, over.passed, over.cancelled), (3, 2, false));
    for slot in gaps {
        assert_eq!(world.store().backfilled(schedule.id, slot).await.expect("an answer").len(), 1);
    }
    // What it made is alive, so that a second one finds nothing to do.
    let again = world.store().create_backfill(range).await.expect("it begins");
    assert_eq!(advance_all(world).await, []);
    assert_eq!(ended(world, again.id).await.passed, 5);
    let listed = world.store().backfills(Some(schedule.id), None, 10).await.expect("a list");
    assert_eq!(listed.iter().map(|it| it.id).collect::<Vec<_>>(), [again.id, made.id]);
    assert_eq!(world.store().backfills(None, Some(again.id), 10).await.expect("a list").len(), 1);
    assert_eq!(world.store().backfills(Some(ScheduleId(nobody())), None, 10).await, Ok(vec![]));
}

pub async fn a22_a_slot_that_failed_in_the_backfill_too_is_a_gap_again(world: &mut World) {
    let definition = ScheduleDefinition { retry: no_retry(), ..hourly("gap") };
    let schedule = world.create(definition).await;
    world.set_time("00:30:00");
    let range = asked(&schedule, "00:00:00", "00:10:00");
    world.store().create_backfill(range.clone()).await.expect("it begins");
    assert_eq!(advance_all(world).await.len(), 1);
    let lease = world.node("n").await;
    let failed = world.claim_one(lease).await;
    world.fail(lease, failed).await;
    assert_eq!(world.store().preview_backfill(&range).await.expect("a preview").gaps, 1);
    let retried = world.store().retry_job_if_ended(failed, None).await.expect("a retry by hand");
    assert_eq!(world.store().preview_backfill(&range).await.expect("a preview").gaps, 0, "it may still succeed");
    run(world, lease, retried, true).await;
    assert_eq!(world.store().preview_backfill(&range).await.expect("a preview").gaps, 0, "it has");
}

pub async fn a22_a_backfill_goes_on_where_it_was_after_a_restart(world: &mut World) {
    let schedule = world.create(minutely("long")).await;
    let range = NewBackfill { from: instant("2026-02-28T00:00:00Z"), ..asked(&schedule, "00:00:00", "00:00:00") };
    world.set_time("00:00:30");
    let made = world.store().create_backfill(range).await.expect("it begins");
    let first = world.store().advance_backfills().await.expect("a step").jobs;
    assert!(!first.is_empty());
    world.reopen().await;
    let rest = advance_all(world).await;
    let over = ended(world, made.id).await;
    assert_eq!(over.made, 24 * 60);
    assert_eq!(first.len() + rest.len(), 24 * 60);
    let mut slots: BTreeSet<Timestamp> = rest.into_iter().collect();
    for id in first {
        slots.insert(world.job(id).await.job.slot_at.expect("a slot"));
    }
    assert_eq!(slots.len(), 24 * 60, "each slot once");
}

pub async fn a22_two_who_go_on_at_once_make_each_slot_once(world: &mut World) {
    let schedule = world.create(minutely("shared")).await;
    world.set_time("00:00:30");
    let range = NewBackfill { from: instant("2026-02-28T12:00:00Z"), ..asked(&schedule, "00:00:00", "00:00:00") };
    world.store().create_backfill(range.clone()).await.expect("it begins");
    world.store().create_backfill(range).await.expect("it begins");
    let (one, other) = (world.store(), world.second_store().await);
    let work = async |store: &dyn Store| {
        let mut jobs = Vec::new();
        loop {
            let done = store.advance_backfills().await.expect("a step");
            jobs.extend(done.jobs);
            let open = store.backfills(None, None, 10).await.expect("a list");
            if open.iter().all(|it| it.ended_at.is_some()) {
                return jobs;
            }
        }
    };
    let (mine, theirs) = tokio::join!(work(&*one), work(&*other));
    let mut slots = BTreeSet::new();
    for id in mine.iter().chain(&theirs) {
        assert!(slots.insert(world.job(*id).await.job.slot_at), "a slot was run twice");
    }
    assert_eq!(slots.len(), 12 * 60);
}

pub async fn a22_a_throttled_backfill_goes_on_with_the_clock(world: &mut World) {
    let schedule = world.create(minutely("slow")).await;
    world.set_time("00:00:30");
    let range = NewBackfill { per_minute: Some(6), ..asked(&schedule, "00:00:00", "00:00:30") };
    let range = NewBackfill { from: instant("2026-02-28T23:57:00Z"), ..range };
    let made = world.store().create_backfill(range).await.expect("it begins");
    assert_eq!(advance_all(world).await.len(), 1, "the first at once");
    let wait = world.store().advance_backfills().await.expect("a step").again_in.expect("there is more");
    assert!(wait > secs(9) && wait < secs(11), "{wait:?}");
    world.pass(secs(11));
    assert_eq!(advance_all(world).await.len(), 1);
    world.pass(mins(10));
    assert_eq!(advance_all(world).await.len(), 2);
    assert_eq!(ended(world, made.id).await.made, 4);
}

pub async fn a22_a_cancelled_backfill_stops_and_what_it_made_goes_on(world: &mut World) {
    let schedule = world.create(minutely("stopped")).await;
    world.set_time("00:00:30");
    let range = NewBackfill { per_minute: Some(1), ..asked(&schedule, "00:00:00", "00:00:30") };
    let range = NewBackfill { from: instant("2026-02-28T23:00:00Z"), ..range };
    let made = world.store().create_backfill(range).await.expect("it begins");
    assert_eq!(advance_all(world).await.len(), 1);
    let stopped = world.store().cancel_backfill(made.id).await.expect("it stops");
    assert_eq!((stopped.cancelled, stopped.made), (true, 1));
    world.pass(mins(30));
    assert_eq!(advance_all(world).await, []);
    let again = world.store().cancel_backfill(made.id).await.expect("nothing changes");
    assert_eq!(again, stopped);
    assert_eq!(world.store().next_due_in().await.map(|it| it.is_some()), Ok(true));
    assert_not_found(world.store().cancel_backfill(BackfillId(nobody())).await, "backfill");
    assert_eq!(world.store().backfill(BackfillId(nobody())).await, Ok(None));
}

pub async fn a22_deleting_the_schedule_ends_its_backfill(world: &mut World) {
    let schedule = world.create(minutely("gone")).await;
    world.set_time("00:00:30");
    let range = NewBackfill { from: instant("2026-02-28T23:00:00Z"), ..asked(&schedule, "00:00:00", "00:00:30") };
    let made = world.store().create_backfill(range.clone()).await.expect("it begins");
    world.store().delete_schedule(schedule.id).await.expect("it goes");
    assert_eq!(advance_all(world).await, []);
    assert!(ended(world, made.id).await.cancelled);
    assert_not_found(world.store().create_backfill(range).await, "schedule");
}

pub async fn a22_a_range_that_lies_ahead_is_forgotten_or_too_long_is_refused(world: &mut World) {
    let schedule = world.create(cron("seconds", "* * * * * *")).await;
    world.set_time("00:30:00");
    let range = |from: &str, until: &str| asked(&schedule, from, until);
    let store = world.store();
    assert_eq!(refusal(store.preview_backfill(&range("00:10:00", "00:05:00")).await).field, "until");
    assert_eq!(refusal(store.create_backfill(range("00:10:00", "00:30:01")).await).field, "until");
    let long = NewBackfill { from: instant("2025-01-01T00:00:00Z"), ..range("00:00:00", "00:10:00") };
    let refused = refusal(store.create_backfill(long).await);
    assert!(refused.problem.contains(&SLOTS_MAX.to_string()), "{refused}");
    let retention = Retention::before(clock_time("00:06:00"), ALL);
    store.prune_history(retention).await.expect("it forgets");
    let refused = refusal(store.create_backfill(range("00:05:00", "00:10:00")).await);
    assert_eq!(refused.field, "from");
    assert!(store.create_backfill(range("00:06:00", "00:10:00")).await.is_ok());
}

pub async fn a22_a_backfill_stands_behind_present_work_and_keeps_no_slot_from_firing(world: &mut World) {
    let definition = ScheduleDefinition { overlap: Overlap::Forbid, priority: 5, ..minutely("present") };
    let schedule = world.create(definition).await;
    world.set_time("00:00:30");
    let range = NewBackfill { from: instant("2026-02-28T23:58:00Z"), ..asked(&schedule, "00:00:00", "00:00:30") };
    world.store().create_backfill(range).await.expect("it begins");
    assert_eq!(advance_all(world).await.len(), 3);
    world.set_time("00:01:00");
    let present = world.fire_one().await;
    let lease = world.node("n").await;
    assert_eq!(world.claim_one(lease).await, present, "what is due now goes first");
    let past = world.claim_one(lease).await;
    assert_eq!(world.job(past).await.job.spec.priority, 5 - 100);
    let retried = world.fail(lease, past).await.expect("a retry");
    assert_eq!(world.state(retried).await, JobState::Scheduled);
    world.complete(lease, present).await;
    world.set_time("00:02:00");
    world.fire_one().await;
}

pub async fn a22_a_paused_schedule_is_filled_up_to_its_pause(world: &mut World) {
    let schedule = world.create(minutely("paused")).await;
    world.set_time("00:02:30");
    world.store().pause_schedule(schedule.id, None, None).await.expect("it is paused");
    world.set_time("00:05:30");
    let before = NewBackfill { from: instant("2026-02-28T23:59:00Z"), ..asked(&schedule, "00:00:00", "00:05:00") };
    // What passes during a pause is decided when it ends.
    let preview = world.store().preview_backfill(&before).await.expect("a preview");
    assert_eq!(preview.first.last(), Some(&clock_time("00:00:00")));
    world.store().resume_schedule(schedule.id).await.expect("it goes on");
    let preview = world.store().preview_backfill(&before).await.expect("a preview");
    assert_eq!(preview.first.last(), Some(&clock_time("00:04:00")));
}
