//! What the firing tests share: a schedule to decide, a store in three lines, and decisions written as text.

mod bounded;
mod downtime;
mod dst;
mod overlap;
mod plans;
mod policies;
mod property;
mod steered;

use super::*;
use crate::name::Name;
use crate::schedule::{ScheduleDefinition, ScheduleResults, ScheduleState};
use crate::target::Target;
use crate::timing::TimingSpec;
use proptest::test_runner::Config as ProptestConfig;
use std::cell::Cell;
use std::fmt::Write;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts one question put to the line of slots: the unit in which work is bounded.
pub(super) fn step() {
    STEPS.set(STEPS.get() + 1);
}

/// How many questions a piece of work asked.
fn steps_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = STEPS.get();
    let done = work();
    (done, STEPS.get() - before)
}

/// So many random cases, or as many as `PROPTEST_CASES` asks for. A failing one is printed, and belongs into a table.
fn config(cases: u32) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() { config } else { ProptestConfig { cases, ..config } }
}

/// An instant of 1 March 2026, or a whole one.
fn at(text: &str) -> Timestamp {
    let whole = if text.contains('T') { text.to_owned() } else { format!("2026-03-01T{text}Z") };
    whole.parse().unwrap()
}

fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn mins(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

/// A schedule made at midnight, with its first slot planned.
fn schedule(timing: TimingSpec, change: impl FnOnce(&mut ScheduleDefinition)) -> Schedule {
    schedule_made_at(at("00:00:00"), timing, change)
}

fn schedule_made_at(
    created_at: Timestamp, timing: TimingSpec, change: impl FnOnce(&mut ScheduleDefinition),
) -> Schedule {
    let mut definition = ScheduleDefinition::new(Name::new("s").unwrap(), timing, Target::command(["true"]));
    change(&mut definition);
    let mut schedule = Schedule {
        id: ScheduleId(uuid::Uuid::from_u128(0x0198_5f3a_9c1e_7000_8000_0000_dead_beef)),
        version: 1,
        created_at,
        updated_at: created_at,
        anchor_at: created_at,
        seed: "s".into(),
        definition,
        state: ScheduleState { enabled: true, ..ScheduleState::default() },
        results: ScheduleResults::default(),
    };
    let next = schedule.plan_next(created_at);
    store_plan(&mut schedule, &next);
    schedule
}

/// Every minute, with a policy.
fn minutely(missed: Missed) -> Schedule {
    schedule(TimingSpec::cron("* * * * *", "UTC"), |definition| definition.missed = missed)
}

fn store_plan(schedule: &mut Schedule, next: &Next) {
    let slot = match next {
        Next::Slot(slot) => Some(*slot),
        Next::Exhausted | Next::Problem(_) => None,
    };
    schedule.state.next_slot_at = slot.map(|slot| slot.slot_at);
    schedule.state.next_run_at = slot.map(|slot| slot.run_at);
}

/// Forces a plan, as an administrator with SQL could.
fn force_plan(schedule: &mut Schedule, slot_at: &str, run_at: &str) {
    schedule.state.next_slot_at = Some(at(slot_at));
    schedule.state.next_run_at = Some(at(run_at));
}

/// Writes a decision down, as a store does.
fn store_firing(schedule: &mut Schedule, firing: &Firing) {
    let decided = firing.decided_through();
    schedule.state.last_slot_at = schedule.state.last_slot_at.max(decided);
    schedule.state.fired_through = schedule.state.fired_through.max(decided);
    store_plan(schedule, &firing.next);
}

/// Decides and writes down.
fn fire_and_store(schedule: &mut Schedule, now: Timestamp, facts: &Facts) -> Firing {
    let firing = schedule.fire(now, facts);
    store_firing(schedule, &firing);
    firing
}

/// A decision as text: `missed 00:01:00..00:04:00 x4 superseded; fired 00:05:00 catchup; next 00:06:00`.
fn said(firing: &Firing) -> String {
    let mut text = String::new();
    for slot in &firing.slots {
        write!(text, "{} {}", slot.decision, time(slot.slot_at)).unwrap();
        if slot.count != 1 || slot.through != slot.slot_at {
            write!(text, "..{} x{}", time(slot.through), slot.count).unwrap();
        }
        write!(text, " {}; ", slot.reason).unwrap();
    }
    match &firing.next {
        Next::Slot(next) if next.run_at == next.slot_at => write!(text, "next {}", time(next.slot_at)),
        Next::Slot(next) => write!(text, "next {} due {}", time(next.slot_at), time(next.run_at)),
        Next::Exhausted => write!(text, "exhausted"),
        Next::Problem(_) => write!(text, "problem"),
    }
    .unwrap();
    text
}

/// The time of day on 1 March 2026, else the whole instant.
fn time(at: Timestamp) -> String {
    let text = at.to_string();
    text.strip_prefix("2026-03-01T").and_then(|text| text.strip_suffix('Z')).map_or(text.clone(), str::to_owned)
}

fn fired(schedule: &Schedule, now: &str) -> String {
    said(&schedule.fire(at(now), &Facts::default()))
}

fn fired_with(schedule: &Schedule, now: &str, facts: &Facts) -> String {
    said(&schedule.fire(at(now), facts))
}
