//! Steering schedules by hand: pause, resume, trigger, reschedule, skip, and the times that can be asked for.

use crate::prelude::*;
use jiff::SignedDuration;
use punctual_core::job::JobState;
use punctual_core::run::{Outcome, Trigger};
use punctual_core::schedule::{Missed, Pause, ScheduleDefinition, ScheduleResults};
use punctual_core::slot::{Decision, Reason};
use punctual_core::store::ScheduleKey;

pub async fn d03_a_paused_schedule_does_not_fire(world: &mut World) {
    let schedule = world.create(minutely("paused")).await;
    world.set_time("00:00:30");
    let (by, note) = (Some("ada".to_owned()), Some("maintenance".to_owned()));
    let paused = world.store().pause_schedule(schedule.id, by.clone(), note.clone()).await.expect("it is paused");
    assert!(!paused.state.enabled);
    assert_eq!(paused.state.pause, Some(Pause { at: clock_time("00:00:30"), by, note, until: None }));
    assert_eq!(world.schedule(schedule.id).await, paused);
    world.set_time("00:05:00");
    assert_eq!(world.fire().await.jobs, []);
    assert_eq!(world.store().next_due_in().await, Ok(None), "a paused schedule is never due");
}

pub async fn d03_pausing_twice_changes_nothing(world: &mut World) {
    let schedule = world.create(minutely("paused")).await;
    let first = world.store().pause_schedule(schedule.id, Some("ada".to_owned()), None).await.expect("it is paused");
    world.pass(secs(5));
    let second = world.store().pause_schedule(schedule.id, Some("bob".to_owned()), None).await.expect("it is paused");
    assert_eq!(second, first);
    assert_eq!(world.schedule(schedule.id).await, first);
}

pub async fn d03_resuming_fires_nothing_and_records_one_range(world: &mut World) {
    let schedule = world.create(minutely("paused")).await;
    world.set_time("00:01:00");
    world.fire_one().await;
    world.store().pause_schedule(schedule.id, None, None).await.expect("it is paused");
    world.set_time("00:05:30");
    let resumed = world.store().resume_schedule(schedule.id).await.expect("it goes on");
    assert!(resumed.state.enabled);
    assert_eq!(resumed.state.pause, None);
    assert_eq!(resumed.state.next_slot_at, Some(clock_time("00:06:00")));
    assert_eq!(world.fire().await.jobs, []);
    let expected = [
        slot("00:01:00", Decision::Fired, Reason::OnTime),
        range("00:02:00", "00:05:00", 4, Decision::Skipped, Reason::Paused),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
    world.set_time("00:06:00");
    world.fire_one().await;
}

pub async fn d03_resuming_before_a_slot_passed_records_nothing(world: &mut World) {
    let schedule = world.create(hourly("paused")).await;
    world.store().pause_schedule(schedule.id, None, None).await.expect("it is paused");
    world.set_time("00:59:59");
    let resumed = world.store().resume_schedule(schedule.id).await.expect("it goes on");
    assert_eq!(resumed.state.next_slot_at, Some(clock_time("01:00:00")));
    assert!(world.ledger(schedule.id).await.is_empty());
    let again = world.store().resume_schedule(schedule.id).await.expect("it goes on");
    assert_eq!(again, resumed, "resuming twice changes nothing");
}

pub async fn d03_a_pause_outlives_the_process(world: &mut World) {
    let schedule = world.create(minutely("paused")).await;
    let paused = world.store().pause_schedule(schedule.id, None, None).await.expect("it is paused");
    world.reopen().await;
    assert_eq!(world.schedule(schedule.id).await, paused);
    world.set_time("00:02:00");
    assert_eq!(world.fire().await.jobs, []);
}

pub async fn d03_an_edit_of_a_paused_schedule_leaves_it_paused(world: &mut World) {
    let schedule = world.create(minutely("paused")).await;
    world.store().pause_schedule(schedule.id, None, None).await.expect("it is paused");
    let edited = world.store().update_schedule_if_version(schedule.id, 1, hourly("paused")).await.expect("an edit");
    assert!(!edited.state.enabled);
    world.set_time("01:00:00");
    assert_eq!(world.fire().await.jobs, []);
}

pub async fn d03_an_edit_while_paused_loses_no_slot(world: &mut World) {
    let schedule = world.create(minutely("paused")).await;
    world.store().pause_schedule(schedule.id, None, None).await.expect("it is paused");
    world.set_time("00:03:30");
    let described = ScheduleDefinition { description: "told".to_owned(), ..minutely("paused") };
    world.store().update_schedule_if_version(schedule.id, 1, described).await.expect("an edit");
    world.set_time("00:05:30");
    let resumed = world.store().resume_schedule(schedule.id).await.expect("it goes on");
    assert_eq!(resumed.state.next_slot_at, Some(clock_time("00:06:00")));
    let counted: u64 = world.ledger(schedule.id).await.iter().map(|row| row.2).sum();
    assert_eq!(counted, 5, "every slot that passed leaves a record: {:?}", world.ledger(schedule.id).await);
}

pub async fn d03_trigger_makes_a_job_and_moves_nothing(world: &mut World) {
    let definition = ScheduleDefinition { input: json(r#"{"from":"schedule"}"#), priority: 4, ..hourly("triggered") };
    let schedule = world.create(definition).await;
    world.set_time("00:20:00");
    let trace_context = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned());
    let by_hand = ByHand { by: Some("ada".to_owned()), trace_context: trace_context.clone(), ..ByHand::default() };
    let id = world.store().trigger_schedule(schedule.id, by_hand).await.expect("it is triggered");
    let made = world.job(id).await;
    assert_eq!(made.state(), JobState::Queued);
    assert_eq!((made.job.spec.trigger, made.job.schedule_id), (Trigger::Manual, Some(schedule.id)));
    assert_eq!((made.job.slot_at, made.job.spec.priority), (None, 4));
    assert_eq!(made.job.spec.trace_context, trace_context);
    assert_eq!(made.job.spec.input.as_str(), r#"{"from":"schedule"}"#);
    let after = world.schedule(schedule.id).await.state;
    assert_eq!(after.next_slot_at, schedule.state.next_slot_at);
    assert_eq!(after.next_run_at, schedule.state.next_run_at);
    assert_eq!((after.last_slot_at, after.fired_through), (schedule.state.last_slot_at, schedule.state.fired_through));
    assert!(world.ledger(schedule.id).await.is_empty(), "trigger writes no slot");
    let other = world
        .store()
        .trigger_schedule(schedule.id, ByHand { input: Some(json("[1]")), ..ByHand::default() })
        .await
        .expect("it is triggered");
    assert_eq!(world.job(other).await.job.spec.input.as_str(), "[1]");
    world.set_time("01:00:00");
    assert_eq!(world.fire().await.jobs.len(), 1, "the slot fires beside it");
}

pub async fn d03_reschedule_to_a_later_time_records_what_it_jumps_over(world: &mut World) {
    let schedule = world.create(minutely("moved")).await;
    let moved = world.store().reschedule(schedule.id, clock_time("00:03:30")).await.expect("it is moved");
    assert_eq!(moved.state.next_slot_at, Some(clock_time("00:03:30")));
    assert_eq!(moved.state.next_run_at, Some(clock_time("00:03:30")));
    let jumped = range("00:01:00", "00:03:00", 3, Decision::Skipped, Reason::Rescheduled);
    assert_eq!(world.ledger(schedule.id).await, std::slice::from_ref(&jumped));
    world.set_time("00:03:29");
    assert_eq!(world.fire().await.jobs, []);
    world.set_time("00:03:30");
    let job = world.fire_one().await;
    assert_eq!(world.job(job).await.job.slot_at, Some(clock_time("00:03:30")));
    assert_eq!(world.schedule(schedule.id).await.state.next_slot_at, Some(clock_time("00:04:00")));
    let expected = [jumped, slot("00:03:30", Decision::Fired, Reason::OnTime)];
    assert_eq!(world.ledger(schedule.id).await, expected);
}

pub async fn d03_reschedule_to_an_earlier_time_fires_once_instead_of_the_old_slot(world: &mut World) {
    let schedule = world.create(hourly("moved")).await;
    let moved = world.store().reschedule(schedule.id, clock_time("00:10:00")).await.expect("it is moved");
    assert_eq!(moved.state.next_run_at, Some(clock_time("00:10:00")));
    world.set_time("00:10:00");
    let job = world.fire_one().await;
    assert_eq!(world.job(job).await.job.slot_at, Some(clock_time("00:10:00")));
    assert_eq!(world.schedule(schedule.id).await.state.next_slot_at, Some(clock_time("02:00:00")));
    let expected =
        [slot("00:10:00", Decision::Fired, Reason::OnTime), slot("01:00:00", Decision::Skipped, Reason::Rescheduled)];
    assert_eq!(world.ledger(schedule.id).await, expected);
    world.set_time("01:00:00");
    assert_eq!(world.fire().await.jobs, [], "the old slot was decided");
    world.set_time("02:00:00");
    world.fire_one().await;
}

pub async fn d03_reschedule_into_the_past_or_of_a_paused_schedule_is_refused(world: &mut World) {
    let schedule = world.create(minutely("moved")).await;
    world.set_time("00:01:00");
    world.fire_one().await;
    let before = world.snapshot(&[]).await;
    for passed in ["00:00:30", "00:01:00"] {
        refusal(world.store().reschedule(schedule.id, clock_time(passed)).await);
    }
    world.set_time("00:00:50");
    refusal(world.store().reschedule(schedule.id, clock_time("00:01:00")).await);
    assert_eq!(world.snapshot(&[]).await, before, "a decided slot is not decided again, whatever the clock says");
    world.set_time("00:01:10");
    let paused = world.store().pause_schedule(schedule.id, None, None).await.expect("it is paused");
    refusal(world.store().reschedule(schedule.id, clock_time("00:30:00")).await);
    assert_eq!(world.schedule(schedule.id).await, paused);
}

pub async fn d03_reschedule_to_a_slot_that_was_given_up_is_refused(world: &mut World) {
    let schedule = world.create(hourly("moved")).await;
    let moved = world.store().reschedule(schedule.id, clock_time("00:10:00")).await.expect("it is moved");
    refusal(world.store().reschedule(schedule.id, clock_time("01:00:00")).await);
    assert_eq!(world.schedule(schedule.id).await, moved, "the slot at 01:00 was decided, so it cannot be the next one");
}

pub async fn d03_reschedule_into_a_range_that_was_given_up_is_refused_for_its_slots_only(world: &mut World) {
    let schedule = world.create(hourly("moved")).await;
    world.store().reschedule(schedule.id, clock_time("04:30:00")).await.expect("it is moved");
    let given_up = range("01:00:00", "04:00:00", 4, Decision::Skipped, Reason::Rescheduled);
    assert_eq!(world.ledger(schedule.id).await, std::slice::from_ref(&given_up));
    for decided in ["01:00:00", "03:00:00", "04:00:00"] {
        refusal(world.store().reschedule(schedule.id, clock_time(decided)).await);
    }
    world.store().reschedule(schedule.id, clock_time("02:30:00")).await.expect("no slot of the range");
    world.set_time("02:30:00");
    world.fire_one().await;
    let moved = slot("04:30:00", Decision::Skipped, Reason::Rescheduled);
    assert_eq!(
        world.ledger(schedule.id).await,
        [given_up, slot("02:30:00", Decision::Fired, Reason::OnTime), moved],
        "one record for each slot"
    );
}

pub async fn d03_reschedule_to_before_the_schedule_itself_is_refused(world: &mut World) {
    world.set_time("00:10:00");
    let schedule = world.create(hourly("young")).await;
    world.set_time("00:05:00");
    refusal(world.store().reschedule(schedule.id, clock_time("00:07:00")).await);
    assert_eq!(world.schedule(schedule.id).await, schedule, "what would never fire is not accepted");
    world.store().reschedule(schedule.id, clock_time("00:12:00")).await.expect("it is moved");
    world.set_time("00:12:00");
    world.fire_one().await;
}

pub async fn d03_a_slot_can_be_rescheduled_again(world: &mut World) {
    let schedule = world.create(hourly("moved")).await;
    for at in ["00:30:00", "00:20:00", "00:25:00"] {
        let moved = world.store().reschedule(schedule.id, clock_time(at)).await.expect("it is moved");
        assert_eq!(moved.state.next_run_at, Some(clock_time(at)));
    }
    world.set_time("00:25:00");
    let job = world.fire_one().await;
    assert_eq!(world.job(job).await.job.slot_at, Some(clock_time("00:25:00")));
    let given_up = |at| slot(at, Decision::Skipped, Reason::Rescheduled);
    let expected = [
        given_up("00:20:00"),
        slot("00:25:00", Decision::Fired, Reason::OnTime),
        given_up("00:30:00"),
        given_up("01:00:00"),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
    world.set_time("01:30:00");
    assert_eq!(world.fire().await.jobs, []);
    assert_eq!(world.schedule(schedule.id).await.state.next_slot_at, Some(clock_time("02:00:00")));
}

pub async fn d03_skipping_the_next_slot_sets_aside_that_one_alone(world: &mut World) {
    let schedule = world.create(ScheduleDefinition { jitter: mins(20), ..hourly("skipped") }).await;
    let due = |slot_at: &str| schedule.slots().expect("it is understood").due_at(clock_time(slot_at));
    let skipped = world.store().skip_next(schedule.id, Some("ada".to_owned())).await.expect("it is skipped");
    assert_eq!(skipped.state.next_slot_at, Some(clock_time("02:00:00")));
    assert_eq!(skipped.state.next_run_at, Some(due("02:00:00")), "the next one keeps its own jitter");
    assert_eq!(world.schedule(schedule.id).await, skipped);
    let rows = world.slot_rows(schedule.id).await;
    assert_eq!((rows.len(), rows[0].note.as_deref(), rows[0].job_id), (1, Some("skipped by ada"), None));
    let given_up = slot("01:00:00", Decision::Skipped, Reason::Rescheduled);
    assert_eq!(world.ledger(schedule.id).await, std::slice::from_ref(&given_up));
    world.set_time("01:30:00");
    assert_eq!(world.fire().await.jobs, [], "what was skipped does not fire");
    world.pass(due("02:00:00").duration_since(clock_time("01:30:00")));
    let job = world.fire_one().await;
    assert_eq!(world.job(job).await.job.slot_at, Some(clock_time("02:00:00")));
    assert_eq!(world.ledger(schedule.id).await, [given_up, slot("02:00:00", Decision::Fired, Reason::OnTime)]);
}

pub async fn d03_each_skip_leaves_one_more_out_also_one_that_is_due(world: &mut World) {
    let schedule = world.create(ScheduleDefinition { missed: Missed::all(10), ..minutely("skipped") }).await;
    for next in ["00:02:00", "00:03:00"] {
        let skipped = world.store().skip_next(schedule.id, None).await.expect("it is skipped");
        assert_eq!(skipped.state.next_run_at, Some(clock_time(next)));
    }
    world.set_time("00:04:00");
    let skipped = world.store().skip_next(schedule.id, None).await.expect("it is skipped");
    assert_eq!(skipped.state.next_run_at, Some(clock_time("00:04:00")), "the one behind it is due as well");
    world.fire_one().await;
    let given_up = |at| slot(at, Decision::Skipped, Reason::Rescheduled);
    let expected = [
        given_up("00:01:00"),
        given_up("00:02:00"),
        given_up("00:03:00"),
        slot("00:04:00", Decision::Fired, Reason::OnTime),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
    let reconciled = world.store().reconcile_schedules(None, ALL).await.expect("plans can be looked through");
    assert_eq!(reconciled.replanned, 0, "a skip leaves a plan that nobody has to repair");
}

pub async fn d03_skipping_without_a_next_slot_is_refused(world: &mut World) {
    let ends = ScheduleDefinition { ends_at: Some(clock_time("01:30:00")), ..hourly("ends") };
    let ends = world.create(ends).await;
    let last = world.store().skip_next(ends.id, None).await.expect("the last one can be skipped");
    assert_eq!((last.state.next_slot_at, last.state.exhausted_at), (None, Some(clock_time("00:00:00"))));
    refusal(world.store().skip_next(ends.id, None).await);
    let paused = world.create(hourly("paused")).await;
    let paused = world.store().pause_schedule(paused.id, None, None).await.expect("it is paused");
    refusal(world.store().skip_next(paused.id, None).await);
    assert_eq!(world.schedule(paused.id).await, paused);
    refusal(world.store().skip_next(ends.id, Some("a\0b".to_owned())).await);
    assert_not_found(world.store().skip_next(punctual_core::id::ScheduleId(nobody()), None).await, "schedule");
    assert_eq!(world.ledger(ends.id).await.len(), 1);
    assert!(world.ledger(paused.id).await.is_empty());
}

pub async fn d04_next_and_last_times_can_be_asked_for(world: &mut World) {
    let schedule = world.create(minutely("asked")).await;
    let lease = world.node("a").await;
    world.set_time("00:01:10");
    let job = world.fire_one().await;
    let fired = world.schedule(schedule.id).await;
    assert_eq!(fired.state.next_run_at, Some(clock_time("00:02:00")));
    assert_eq!(fired.state.last_slot_at, Some(clock_time("00:01:00")));
    assert_eq!(fired.state.last_enqueued_at, Some(clock_time("00:01:10")));
    assert_eq!(fired.results, ScheduleResults::default(), "firing is not running");
    world.claim_one(lease).await;
    world.set_time("00:01:40");
    world.complete(lease, job).await;
    let finished = world.schedule(schedule.id).await;
    assert_eq!(finished.state, fired.state, "finishing does not touch the plan");
    let expected = ScheduleResults {
        last_run_at: Some(clock_time("00:01:40")),
        last_outcome: Some(Outcome::Completed),
        last_success_at: Some(clock_time("00:01:40")),
        consecutive_failures: 0,
    };
    assert_eq!(finished.results, expected);
}

pub async fn d04_failures_in_a_row_are_counted_until_a_success(world: &mut World) {
    let definition = ScheduleDefinition { retry: no_retry(), ..minutely("counted") };
    let schedule = world.create(definition).await;
    let lease = world.node("a").await;
    let mut results = Vec::new();
    for fails in [false, true, true, false, true] {
        world.pass(mins(1));
        let job = world.fire_one().await;
        assert_eq!(world.claim_one(lease).await, job);
        if fails {
            assert_eq!(world.fail(lease, job).await, None);
        } else {
            world.complete(lease, job).await;
        }
        results.push(world.schedule(schedule.id).await.results);
    }
    assert_eq!(results.iter().map(|r| r.consecutive_failures).collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
    let last = results.last().expect("five runs");
    assert_eq!(last.last_success_at, Some(clock_time("00:04:00")));
    assert_eq!((last.last_run_at, last.last_outcome), (Some(clock_time("00:05:00")), Some(Outcome::Failed)));
}

pub async fn d02_how_long_until_anything_is_due_is_a_duration_by_the_stores_clock(world: &mut World) {
    assert_eq!(world.store().next_due_in().await, Ok(None), "nothing is planned");
    assert_eq!(world.store().now().await, Ok(clock_time("00:00:00")));
    world.create(hourly("far")).await;
    assert_eq!(world.store().next_due_in().await, Ok(Some(mins(60))));
    world.create(minutely("near")).await;
    world.pass(SignedDuration::from_micros(1_000_001));
    assert_eq!(world.store().next_due_in().await, Ok(Some(SignedDuration::from_micros(58_999_999))));
    let delayed = punctual_core::job::NewJob { run_at: Some(clock_time("00:00:02")), ..job() };
    world.enqueue(delayed).await;
    assert_eq!(world.store().next_due_in().await, Ok(Some(SignedDuration::from_micros(999_999))));
    world.set_time("00:00:02");
    assert_eq!(world.store().next_due_in().await, Ok(Some(SignedDuration::ZERO)));
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1));
    world.set_time("00:05:00");
    assert_eq!(world.store().next_due_in().await, Ok(Some(SignedDuration::ZERO)), "overdue is due now");
}

pub async fn d02_only_the_stores_clock_decides_what_is_due(world: &mut World) {
    // The host's clock is years away from the store's; had anybody asked it, the slot would be due or never be.
    let schedule = world.create(hourly("by the store's clock")).await;
    assert_eq!(schedule.created_at, clock_time("00:00:00"));
    assert_eq!(world.fire().await.jobs, []);
    world.set_time("00:59:59");
    assert_eq!(world.fire().await.jobs, []);
    world.set_time("01:00:00");
    let job = world.fire_one().await;
    let view = world.job(job).await;
    assert_eq!(view.job.created_at, clock_time("01:00:00"));
    let rows = world.slot_rows(schedule.id).await;
    assert_eq!((rows[0].decided_at, rows[0].late_ms), (clock_time("01:00:00"), 0));
    let lease = world.node("a").await;
    world.set_time("01:00:01");
    world.claim_one(lease).await;
    world.set_time("01:00:02");
    world.complete(lease, job).await;
    let run = world.closed_run(job).await;
    assert_eq!((run.started_at, run.finished_at), (Some(clock_time("01:00:01")), clock_time("01:00:02")));
}

pub async fn d04_a_schedule_that_is_unknown_is_none(world: &mut World) {
    assert_eq!(world.store().schedule(&ScheduleKey::from("nobody")).await, Ok(None));
    let id = punctual_core::id::ScheduleId(nobody());
    assert_eq!(world.store().schedule(&ScheduleKey::Id(id)).await, Ok(None));
    assert_eq!(world.store().slots(id, None, ALL).await, Ok(Vec::new()));
    assert_eq!(world.store().schedule_jobs(id, None, ALL).await, Ok(Vec::new()));
}
