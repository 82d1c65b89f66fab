//! Rows that no store would write: nulls, nonsense and broken definitions, repaired without firing anything.

use crate::prelude::*;
use jiff::Timestamp;
use punctual_core::schedule::{Schedule, ScheduleDefinition};
use punctual_core::store::Reconciled;

/// Fires and reconciles until nothing moves any more, as the engine does at its start.
async fn settle(world: &World) -> usize {
    let mut made = 0;
    for _ in 0..3 {
        made += world.fire().await.jobs.len();
        world.store().reconcile_schedules(None, ALL).await.expect("reconciling succeeds");
    }
    made
}

async fn plan(world: &World, schedule: &Schedule) -> (Option<Timestamp>, Option<Timestamp>) {
    let state = world.schedule(schedule.id).await.state;
    (state.next_slot_at, state.next_run_at)
}

async fn assert_repaired(world: &World, schedule: &Schedule, what: &str) {
    assert_eq!(settle(world).await, 0, "{what}: nothing fires by being repaired");
    let next = Some(clock_time("00:02:00"));
    assert_eq!(plan(world, schedule).await, (next, next), "{what}");
    assert_eq!(world.schedule(schedule.id).await.state.problem, None, "{what}");
}

pub async fn e01_a_null_plan_is_made_from_now_and_does_not_fire(world: &mut World) {
    let schedule = world.create(minutely("null")).await;
    world.set_time("00:01:30");
    world.set_state_by_hand(schedule.id, "next_slot_at = NULL, next_run_at = NULL").await;
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.replanned), (0, 1));
    let next = Some(clock_time("00:02:00"));
    assert_eq!(plan(world, &schedule).await, (next, next));
    assert!(world.ledger(schedule.id).await.is_empty());
    world.set_time("00:02:00");
    world.fire_one().await;
}

pub async fn e01_one_null_of_two_is_repaired_too(world: &mut World) {
    let schedule = world.create(minutely("half null")).await;
    world.set_time("00:01:30");
    for assignment in ["next_run_at = NULL", "next_slot_at = NULL"] {
        world.set_state_by_hand(schedule.id, assignment).await;
        assert_repaired(world, &schedule, assignment).await;
    }
}

pub async fn a08_an_impossible_plan_is_repaired_and_does_not_fire(world: &mut World) {
    let schedule = world.create(minutely("nonsense")).await;
    world.set_time("00:01:30");
    for nonsense in
        ["1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "2026-02-28T23:59:00Z"].map(instant)
    {
        let at = world.raw.time_literal(nonsense);
        world.set_state_by_hand(schedule.id, &format!("next_slot_at = {at}, next_run_at = {at}")).await;
        assert_repaired(world, &schedule, &format!("both at {nonsense}")).await;
        world.set_state_by_hand(schedule.id, &format!("next_run_at = {at}")).await;
        assert_repaired(world, &schedule, &format!("due at {nonsense}")).await;
    }
}

pub async fn a08_a_plan_in_the_far_future_is_found_by_the_reconciler(world: &mut World) {
    let schedule = world.create(minutely("asleep")).await;
    world.set_time("00:01:30");
    for nonsense in ["2999-01-01T00:00:00Z", "9999-01-01T00:00:00Z"].map(instant) {
        let at = world.raw.time_literal(nonsense);
        world.set_state_by_hand(schedule.id, &format!("next_slot_at = {at}, next_run_at = {at}")).await;
        assert_repaired(world, &schedule, &format!("both at {nonsense}")).await;
        world.set_state_by_hand(schedule.id, &format!("next_run_at = {at}")).await;
        assert_repaired(world, &schedule, &format!("due at {nonsense}")).await;
    }
}

pub async fn a08_the_reconciler_finds_nothing_in_normal_running(world: &mut World) {
    for n in 0..5 {
        world.create(every(&format!("schedule {n}"), 30 + n)).await;
    }
    let jittered = world.create(ScheduleDefinition { jitter: secs(50), ..minutely("jittered") }).await;
    let paused = world.create(minutely("paused")).await;
    world.store().pause_schedule(paused.id, None, None).await.expect("it is paused");
    let moved = world.create(hourly("moved")).await;
    world.store().reschedule(moved.id, clock_time("05:30:00")).await.expect("it is moved");
    let earlier = world.create(hourly("moved earlier")).await;
    world.store().reschedule(earlier.id, clock_time("00:20:00")).await.expect("it is moved");
    for step in [0, 31, 60, 45, 600] {
        world.pass(secs(step));
        world.fire().await;
        let before = world.snapshot(&[]).await;
        let found = world.store().reconcile_schedules(None, ALL).await.expect("reconciling succeeds");
        assert_eq!(found.replanned, 0, "after {step} s");
        assert_eq!(world.snapshot(&[]).await, before);
    }
    assert!(world.schedule(jittered.id).await.state.next_slot_at.is_some());
    assert_eq!(world.schedule(moved.id).await.state.next_slot_at, Some(clock_time("05:30:00")));
}

pub async fn a08_the_reconciler_pages_through_all_schedules(world: &mut World) {
    let mut broken = Vec::new();
    for n in 0..7 {
        let schedule = world.create(minutely(&format!("schedule {n}"))).await;
        world.set_state_by_hand(schedule.id, "next_slot_at = NULL, next_run_at = NULL").await;
        broken.push(schedule.id);
    }
    let (mut after, mut replanned, mut pages) = (None, 0, 0);
    loop {
        let page: Reconciled = world.store().reconcile_schedules(after, 3).await.expect("reconciling succeeds");
        replanned += page.replanned;
        pages += 1;
        assert!(page.looked_at <= 3 && pages < 10, "{page:?}");
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(replanned, 7);
    for id in broken {
        assert_eq!(world.schedule(id).await.state.next_slot_at, Some(clock_time("00:01:00")));
    }
}

pub async fn d14_a_schedule_fired_under_a_clock_years_ahead_is_told(world: &mut World) {
    let schedule = world.create(hourly("ahead")).await;
    let sound = world.create(hourly("sound")).await;
    world.store().pause_schedule(sound.id, None, None).await.expect("it is paused");
    world.clock.set(instant("2031-03-01T00:00:00Z"));
    world.fire_one().await;
    world.set_time("00:30:00");
    world.store().resume_schedule(sound.id).await.expect("it goes on");
    let found = world.store().reconcile_schedules(None, ALL).await.expect("reconciling succeeds");
    assert_eq!((found.looked_at, found.replanned, found.stuck_ahead), (2, 0, 1));
    let problem = world.schedule(schedule.id).await.state.problem.expect("it is told");
    assert!(problem.contains("2031-03-01T00:00:00Z"), "{problem}");
    assert_eq!(world.schedule(sound.id).await.state.problem, None);
    let before = world.snapshot(&[]).await;
    let again = world.store().reconcile_schedules(None, ALL).await.expect("reconciling succeeds");
    assert_eq!((again.replanned, again.stuck_ahead), (0, 1));
    assert_eq!(world.snapshot(&[]).await, before);
    world.clock.set(instant("2031-03-01T01:00:00Z"));
    world.fire().await;
    assert_eq!(world.schedule(schedule.id).await.state.problem, None, "its time has come");
}

pub async fn e01_an_exhausted_schedule_is_not_planned_anew(world: &mut World) {
    let bounded = ScheduleDefinition { ends_at: Some(clock_time("00:01:00")), ..minutely("bounded") };
    let schedule = world.create(bounded).await;
    world.set_time("00:01:00");
    world.fire_one().await;
    world.set_time("00:05:00");
    let fired = world.fire().await;
    assert_eq!((fired.schedules, fired.replanned), (0, 0), "exhausted is not the same as null");
    let found = world.store().reconcile_schedules(None, ALL).await.expect("reconciling succeeds");
    assert_eq!(found.replanned, 0);
    assert_eq!(plan(world, &schedule).await, (None, None));
}

async fn break_definition(world: &World, schedule: &Schedule, assignment: &str) {
    let id = world.raw.uuid_literal(schedule.id.0);
    let changed = world.tamper(&format!("UPDATE {{schedules}} SET {assignment} WHERE id = {id}")).await;
    assert_eq!(changed, Ok(1));
}

pub async fn e02_an_invalid_cron_in_the_table_is_told_and_holds_up_nobody(world: &mut World) {
    let before = world.create(minutely("a before")).await;
    let broken = world.create(minutely("b broken")).await;
    let after = world.create(minutely("c after")).await;
    break_definition(world, &broken, "cron = 'every now and then'").await;
    world.set_time("00:01:00");
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.problems), (2, 1));
    let state = world.schedule(broken.id).await.state;
    assert!(state.problem.as_deref().is_some_and(|text| text.contains("cron")), "{:?}", state.problem);
    assert!(world.ledger(broken.id).await.is_empty());
    world.set_time("00:02:00");
    assert_eq!(world.fire().await.jobs.len(), 2, "the others go on");
    for id in [before.id, after.id] {
        assert_eq!(world.ledger(id).await.len(), 2);
    }
    let still = world.store().schedules(None, ALL).await.expect("the list can still be read");
    assert_eq!(still.len(), 3);
}

pub async fn e02_an_unknown_zone_in_the_table_is_told(world: &mut World) {
    let broken = world.create(minutely("broken")).await;
    break_definition(world, &broken, "timezone = 'Mars/Olympus'").await;
    world.set_time("00:01:00");
    assert_eq!(world.fire().await.problems, 1);
    let problem = world.schedule(broken.id).await.state.problem.expect("it is told");
    assert!(problem.contains("Mars/Olympus"), "{problem}");
}

pub async fn e02_a_problem_is_told_once_and_fires_nothing_until_it_is_edited(world: &mut World) {
    let broken = world.create(minutely("broken")).await;
    break_definition(world, &broken, "cron = '61 * * * *'").await;
    world.set_time("00:01:00");
    assert_eq!(world.fire().await.problems, 1);
    assert_eq!(world.fire().await.schedules, 0, "it is not looked at in every pass");
    assert_eq!(world.store().next_due_in().await, Ok(None), "it does not keep the engine awake");
    world.store().reconcile_schedules(None, ALL).await.expect("reconciling succeeds");
    assert!(world.schedule(broken.id).await.state.problem.is_some());
    world.set_time("00:03:30");
    let mended = world.store().update_schedule_if_version(broken.id, 1, minutely("broken")).await.expect("an edit");
    assert_eq!((mended.state.problem, mended.state.next_slot_at), (None, Some(clock_time("00:04:00"))));
    world.set_time("00:04:00");
    world.fire_one().await;
}

pub async fn e02_a_definition_that_cannot_be_read_holds_up_nobody(world: &mut World) {
    let broken = world.create(minutely("a broken")).await;
    world.create(minutely("b sound")).await;
    break_definition(world, &broken, "missed = '{\"policy\":\"sometimes\"}'").await;
    world.set_time("00:01:00");
    let fired = world.store().fire_due(None, ALL).await.expect("one bad row fails no batch");
    assert_eq!((fired.jobs.len(), fired.problems), (1, 1));
    world.set_time("00:02:00");
    assert_eq!(world.fire().await.jobs.len(), 1);
}
