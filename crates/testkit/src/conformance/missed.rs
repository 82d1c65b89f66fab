//! What happens to slots that passed, under each policy, and the on-time slot under all of them.

use crate::prelude::*;
use jiff::SignedDuration;
use punctual_core::run::Trigger;
use punctual_core::schedule::{Missed, ScheduleDefinition};
use punctual_core::slot::{Decision, Reason};

fn with(missed: Missed) -> ScheduleDefinition {
    ScheduleDefinition { missed, ..cron("missed", "*/10 * * * *") }
}

pub async fn a07_the_on_time_slot_fires_under_every_policy(world: &mut World) {
    for (n, missed) in [Missed::SKIP, Missed::ONCE, Missed::all(10)].into_iter().enumerate() {
        let name = format!("policy {n}");
        world.create(ScheduleDefinition { missed, ..cron(&name, "*/10 * * * *") }).await;
    }
    for at in ["00:10:00", "00:20:01", "00:31:00"] {
        world.set_time(at);
        let fired = world.fire().await;
        assert_eq!((fired.jobs.len(), fired.slots_not_run), (3, 0), "{at}");
        for job in fired.jobs {
            assert_eq!(world.job(job).await.job.spec.trigger, Trigger::Schedule, "{at}");
        }
    }
}

pub async fn d12_slots_that_do_not_run_are_counted_by_their_reason(world: &mut World) {
    world.create(with(Missed::SKIP)).await;
    world.create(ScheduleDefinition { missed: Missed::ONCE, ..cron("once", "*/10 * * * *") }).await;
    world.create(ScheduleDefinition { missed: Missed::all(2), ..cron("two", "*/10 * * * *") }).await;
    world.set_time("00:45:00");
    let fired = world.fire().await;
    let reasons = [(Reason::TooLate, 4), (Reason::Superseded, 3), (Reason::OverLimit, 2)];
    assert_eq!((fired.jobs.len(), fired.slots_not_run), (3, 9));
    assert_eq!(fired.not_run, reasons.into_iter().collect());
}

pub async fn a07_skip_plans_only_the_next_future_slot(world: &mut World) {
    let schedule = world.create(with(Missed::SKIP)).await;
    world.set_time("00:35:00");
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.slots_not_run, fired.schedules), (0, 3, 1));
    let expected = [range("00:10:00", "00:30:00", 3, Decision::Missed, Reason::TooLate)];
    assert_eq!(world.ledger(schedule.id).await, expected);
    let state = world.schedule(schedule.id).await.state;
    assert_eq!(state.next_slot_at, Some(clock_time("00:40:00")));
    assert_eq!((state.last_slot_at, state.last_job_id), (Some(clock_time("00:30:00")), None));
    assert_eq!(state.last_enqueued_at, None);
    world.set_time("00:40:00");
    let job = world.fire_one().await;
    assert_eq!(world.job(job).await.job.spec.trigger, Trigger::Schedule);
}

pub async fn a07_skip_fires_the_latest_slot_when_that_one_is_on_time(world: &mut World) {
    let schedule = world.create(with(Missed::SKIP)).await;
    world.set_time("00:30:20");
    world.fire_one().await;
    let expected = [
        range("00:10:00", "00:20:00", 2, Decision::Missed, Reason::Superseded),
        slot("00:30:00", Decision::Fired, Reason::OnTime),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
}

pub async fn a07_the_window_of_skip_ends_after_sixty_seconds(world: &mut World) {
    let schedule = world.create(with(Missed::SKIP)).await;
    world.set_time("00:11:00");
    world.fire_one().await;
    world.clock.set(clock_time("00:21:00") + SignedDuration::from_micros(1));
    assert_eq!(world.fire().await.jobs, []);
    let expected =
        [slot("00:10:00", Decision::Fired, Reason::OnTime), slot("00:20:00", Decision::Missed, Reason::TooLate)];
    assert_eq!(world.ledger(schedule.id).await, expected);
}

pub async fn a07_a_window_can_be_chosen(world: &mut World) {
    let schedule = world.create(with(Missed::Skip { window: mins(5) })).await;
    world.set_time("00:15:00");
    let job = world.fire_one().await;
    assert_eq!(world.job(job).await.job.spec.trigger, Trigger::Schedule, "what its own window lets through is on time");
    world.set_time("00:25:01");
    assert_eq!(world.fire().await.jobs, []);
    assert_eq!(world.schedule(schedule.id).await.state.next_slot_at, Some(clock_time("00:30:00")));
}

pub async fn e03_once_makes_one_run_of_however_many_were_missed(world: &mut World) {
    let schedule = world.create(with(Missed::ONCE)).await;
    world.set_time("05:05:00");
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.slots_not_run), (1, 29));
    let job = world.job(fired.jobs[0]).await.job;
    assert_eq!((job.slot_at, job.spec.trigger), (Some(clock_time("05:00:00")), Trigger::Catchup));
    let expected = [
        range("00:10:00", "04:50:00", 29, Decision::Missed, Reason::Superseded),
        slot("05:00:00", Decision::Fired, Reason::Catchup),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
    assert_eq!(world.schedule(schedule.id).await.state.next_slot_at, Some(clock_time("05:10:00")));
    assert_eq!(world.fire().await.jobs, []);
}

pub async fn e03_a_year_of_missed_minutes_costs_one_row(world: &mut World) {
    let schedule = world.create(minutely("long asleep")).await;
    world.clock.set(instant("2027-03-01T00:00:30Z"));
    world.fire_one().await;
    let rows = world.slot_rows(schedule.id).await;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].slot_at, instant("2027-03-01T00:00:00Z"));
    assert_eq!((rows[1].slot_at, rows[1].through), (clock_time("00:01:00"), instant("2027-02-28T23:59:00Z")));
    assert_eq!(rows[1].count, 365 * 24 * 60 - 1);
}

pub async fn e03_once_with_a_window_does_not_run_what_is_older(world: &mut World) {
    let schedule = world.create(with(Missed::Once { window: Some(mins(5)) })).await;
    world.set_time("00:26:00");
    assert_eq!(world.fire().await.jobs, []);
    let expected = [range("00:10:00", "00:20:00", 2, Decision::Missed, Reason::TooLate)];
    assert_eq!(world.ledger(schedule.id).await, expected);
    world.set_time("00:34:00");
    world.fire_one().await;
}

pub async fn e03_every_keeps_its_phase_over_missed_slots(world: &mut World) {
    let schedule = world.create(every("phase", 90)).await;
    world.clock.set(clock_time("00:00:00") + secs(200));
    let job = world.fire_one().await;
    assert_eq!(world.job(job).await.job.slot_at, Some(clock_time("00:03:00")));
    let expected =
        [slot("00:01:30", Decision::Missed, Reason::Superseded), slot("00:03:00", Decision::Fired, Reason::Catchup)];
    assert_eq!(world.ledger(schedule.id).await, expected);
    assert_eq!(world.schedule(schedule.id).await.state.next_slot_at, Some(clock_time("00:04:30")));
}

pub async fn b04_all_makes_up_for_each_slot_in_order(world: &mut World) {
    let schedule = world.create(with(Missed::all(100))).await;
    world.set_time("00:35:00");
    let fired = world.fire().await;
    let mut slots = Vec::new();
    for id in &fired.jobs {
        let job = world.job(*id).await.job;
        slots.push((job.slot_at, job.spec.trigger));
    }
    let late = |at: &str| (Some(clock_time(at)), Trigger::Catchup);
    assert_eq!(slots, [late("00:10:00"), late("00:20:00"), late("00:30:00")]);
    assert_eq!(world.queue("default").await, fired.jobs, "they run in the order of their slots");
    let state = world.schedule(schedule.id).await.state;
    assert_eq!(state.last_job_id, fired.jobs.last().copied());
    assert_eq!(state.next_slot_at, Some(clock_time("00:40:00")));
}

pub async fn b04_all_makes_up_for_the_latest_ones_up_to_its_limit(world: &mut World) {
    let schedule = world.create(with(Missed::all(2))).await;
    world.set_time("00:55:00");
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.slots_not_run), (2, 3));
    let expected = [
        range("00:10:00", "00:30:00", 3, Decision::Missed, Reason::OverLimit),
        slot("00:40:00", Decision::Fired, Reason::Catchup),
        slot("00:50:00", Decision::Fired, Reason::Catchup),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
}

pub async fn b04_all_with_a_window_leaves_out_what_is_older(world: &mut World) {
    let schedule = world.create(with(Missed::All { limit: 100, window: Some(mins(20)) })).await;
    world.set_time("00:55:00");
    assert_eq!(world.fire().await.jobs.len(), 2);
    let expected = [
        range("00:10:00", "00:30:00", 3, Decision::Missed, Reason::TooLate),
        slot("00:40:00", Decision::Fired, Reason::Catchup),
        slot("00:50:00", Decision::Fired, Reason::Catchup),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
}

pub async fn b04_much_to_make_up_for_is_spread_over_passes_and_none_is_lost(world: &mut World) {
    let definition = ScheduleDefinition { missed: Missed::all(1000), ..minutely("busy") };
    let schedule = world.create(definition).await;
    let other = world.create(ScheduleDefinition { missed: Missed::ONCE, ..minutely("other") }).await;
    world.clock.set(clock_time("00:00:00") + mins(600));
    let mut passes = 0;
    while world.store().next_due_in().await == Ok(Some(SignedDuration::ZERO)) {
        world.fire().await;
        passes += 1;
        assert!(passes < 600, "each pass gets on");
        assert!(world.schedule(other.id).await.state.last_job_id.is_some(), "the busy one does not hold up the other");
    }
    let rows = world.slot_rows(schedule.id).await;
    assert_eq!(rows.len(), 600);
    assert!(rows.iter().all(|row| row.decision == Decision::Fired && row.count == 1));
    assert!(passes > 1);
}

/// What a process may need beside what it needed before, in kilobytes.
const MEMORY_KB: i64 = 64 << 10;

pub async fn a05_a_year_of_every_second_is_decided_in_bounded_memory_and_work(world: &mut World) {
    let policies = [Missed::SKIP, Missed::ONCE, Missed::all(100), Missed::all(1_000)];
    let mut schedules = Vec::new();
    for (number, missed) in policies.into_iter().enumerate() {
        let definition = ScheduleDefinition { missed, ..every(&format!("each second {number}"), 1) };
        schedules.push(world.create(definition).await);
    }
    world.fire().await;
    let before = memory_kb("VmRSS:");
    world.clock.set(instant("2027-03-01T00:00:00Z"));
    let mut passes = 0;
    while world.store().next_due_in().await == Ok(Some(SignedDuration::ZERO)) {
        world.fire().await;
        passes += 1;
    }
    assert_eq!(passes, 4, "a thousand jobs are made, 256 in a pass");
    let grown = memory_kb("VmHWM:") - before;
    assert!(grown < MEMORY_KB, "{grown} kB");
    for (schedule, (rows, fired)) in schedules.iter().zip([(2, 1), (2, 1), (101, 100), (1_001, 1_000)]) {
        let ledger = world.slot_rows(schedule.id).await;
        let decided: u64 = ledger.iter().map(|row| row.count).sum();
        let jobs = ledger.iter().filter(|row| row.decision == Decision::Fired).count();
        assert_eq!((ledger.len(), jobs, decided), (rows, fired, 365 * 86_400));
    }
}

/// How much memory this process has, or had at most.
fn memory_kb(which: &str) -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the process is known to its system");
    let line = status.lines().find_map(|line| line.strip_prefix(which)).expect("its memory is told");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("its memory is a number")
}
