//! How the fires of a schedule move: those ahead as it is, and those ahead as it will be, by the rules of firing itself.

use super::shapes::{FireMove, MovedFire, MovedFires};
use crate::api::cron::warnings;
use crate::api::plans::{UpcomingSlot, slots_ahead};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use punctual_core::calendar::Calendar;
use punctual_core::cron::{CronClock, Recurrence, zone};
use punctual_core::firing::{Next, Slots};
use punctual_core::id::ScheduleId;
use punctual_core::replan::{anchor, same_times};
use punctual_core::schedule::{Pause, Schedule, ScheduleDefinition, ScheduleResults, ScheduleState};
use punctual_core::timing::TimingSpec;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// How far ahead fires are looked at.
pub(crate) const HORIZON: SignedDuration = SignedDuration::from_hours(90 * 24);

/// How many slots of a schedule are looked at one by one: one an hour, and some more.
const LOOKED_AT_MAX: u64 = 3_000;

/// A schedule at one side of a change, with the calendar that holds there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) schedule: &'a Schedule,
    pub(crate) calendar: Option<&'a Calendar>,
}

/// When and how far fires are looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) now: Timestamp,
    /// How many of each side.
    pub(crate) fires: usize,
}

impl Look {
    pub(crate) fn until(self) -> Timestamp {
        self.now.saturating_add(HORIZON).unwrap_or(Timestamp::MAX)
    }
}

/// A schedule that is not made yet, as it will be.
pub(crate) fn made(definition: &ScheduleDefinition, paused: bool, now: Timestamp) -> Schedule {
    let mut schedule = Schedule {
        id: ScheduleId(Uuid::nil()),
        version: 1,
        created_at: now,
        updated_at: now,
        anchor_at: anchor(definition, now),
        seed: definition.name.to_string(),
        definition: definition.clone(),
        state: ScheduleState { enabled: true, ..ScheduleState::default() },
        results: ScheduleResults::default(),
    };
    let next = schedule.plan_next(now);
    place(&mut schedule, &next);
    if paused {
        pause(&mut schedule, now);
    }
    schedule
}

/// A schedule as an edit leaves it, by the rules by which the store edits.
pub(crate) fn edited(
    old: &Schedule, definition: &ScheduleDefinition, paused: Option<bool>, now: Timestamp,
) -> Schedule {
    let keeps_phase = same_times(&old.definition, definition);
    let mut schedule = Schedule {
        anchor_at: if keeps_phase { old.anchor_at } else { anchor(definition, now) },
        definition: definition.clone(),
        ..old.clone()
    };
    let firing = old.edited(&schedule, now);
    place(&mut schedule, &firing.next);
    match paused {
        Some(true) if schedule.state.enabled => pause(&mut schedule, now),
        Some(false) if !schedule.state.enabled => {
            let firing = schedule.resumed(now);
            schedule.state.enabled = true;
            schedule.state.pause = None;
            place(&mut schedule, &firing.next);
        }
        _ => {}
    }
    schedule
}

fn place(schedule: &mut Schedule, next: &Next) {
    let slot = match next {
        Next::Slot(slot) => Some(*slot),
        Next::Exhausted | Next::Problem(_) => None,
    };
    schedule.state.next_slot_at = slot.map(|slot| slot.slot_at);
    schedule.state.next_run_at = slot.map(|slot| slot.run_at).filter(|_| schedule.state.enabled);
}

fn pause(schedule: &mut Schedule, now: Timestamp) {
    schedule.state.enabled = false;
    schedule.state.next_run_at = None;
    schedule.state.pause = Some(Pause { at: now, by: None, note: None, until: None });
}

/// A schedule with the time at which its next slot is due: the engine keeps none while no node can run it.
fn with_due(schedule: &Schedule) -> Schedule {
    let mut schedule = schedule.clone();
    let state = &schedule.state;
    if state.enabled && state.next_run_at.is_none() {
        let due = state.next_slot_at.and_then(|slot| schedule.slots().ok().map(|line| line.due_at(slot)));
        schedule.state.next_run_at = due;
    }
    schedule
}

/// How the fires move from one side to the other; a side that is absent fires nothing.
pub(crate) fn moved(before: Option<Side<'_>>, after: Option<Side<'_>>, look: Look) -> MovedFires {
    let (old, new) = (before.map(|side| Ahead::of(side, look)), after.map(|side| Ahead::of(side, look)));
    let listed = |side: &Option<Ahead<'_>>| side.iter().flat_map(|side| side.slots.keys().copied()).collect::<Vec<_>>();
    let all: BTreeSet<Timestamp> = listed(&old).into_iter().chain(listed(&new)).collect();
    let clock = after.or(before).map(|side| side.schedule.zone());
    let clock = clock.unwrap_or(TimeZone::UTC);
    let mut list = Vec::new();
    for slot_at in all {
        let at = |side: &Option<Ahead<'_>>| side.as_ref().and_then(|side| side.at(slot_at));
        let fire = |moved: FireMove, due: Due| MovedFire {
            moved,
            slot_at,
            local: on_wall_clock(&clock, slot_at),
            run_at: due.run_at,
            skipped: due.skipped,
        };
        match (at(&old), at(&new)) {
            (Some(old), Some(new)) if old == new => list.push(fire(FireMove::Same, new)),
            (old, new) => {
                list.extend(old.map(|old| fire(FireMove::Gone, old)));
                list.extend(new.map(|new| fire(FireMove::New, new)));
            }
        }
    }
    let has_moved = list.iter().any(|fire| fire.moved != FireMove::Same);
    let (before, after) = (old.as_ref().map_or(0, Ahead::count), new.as_ref().map_or(0, Ahead::count));
    if !has_moved {
        list.clear();
    }
    let has_moved = has_moved || before != after;
    let timezone = clock.iana_name().unwrap_or("UTC").to_owned();
    MovedFires { moved: has_moved, timezone, list, before, after }
}

/// An instant on a wall clock, with the clock's distance from UTC.
fn on_wall_clock(zone: &TimeZone, at: Timestamp) -> String {
    at.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// When a slot is due and whether it is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Due {
    run_at: Option<Timestamp>,
    skipped: Option<String>,
}

/// What lies ahead of one side.
struct Ahead<'a> {
    side: Side<'a>,
    slots: BTreeMap<Timestamp, Due>,
    line: Option<Slots<'a>>,
    look: Look,
    /// Whether there are more than were listed.
    more: bool,
}

impl<'a> Ahead<'a> {
    fn of(side: Side<'a>, look: Look) -> Self {
        let until = look.until();
        let listed = slots_ahead(&with_due(side.schedule), side.calendar, look.fires + 1);
        let mut listed: Vec<UpcomingSlot> = listed.into_iter().take_while(|slot| slot.slot_at <= until).collect();
        let more = listed.len() > look.fires;
        listed.truncate(look.fires);
        let is_made = side.schedule.id != ScheduleId(Uuid::nil());
        // The jitter of a slot follows from the schedule's id, which is not known before it is made.
        let known = is_made || side.schedule.definition.jitter.is_zero();
        let due = |slot: UpcomingSlot| {
            (slot.slot_at, Due { run_at: Some(slot.run_at).filter(|_| known), skipped: slot.skipped })
        };
        let slots = listed.into_iter().map(due).collect();
        Self { side, slots, line: side.schedule.slots().ok(), look, more }
    }

    /// The slot at an instant, also where the list does not reach.
    fn at(&self, slot_at: Timestamp) -> Option<Due> {
        let last = self.slots.keys().next_back();
        if let Some(due) = self.slots.get(&slot_at) {
            return Some(due.clone());
        }
        if !self.more || last.is_none_or(|last| slot_at <= *last) {
            return None;
        }
        let line = self.line.as_ref()?;
        let run_at = (line.latest_at_or_before(slot_at)? == slot_at).then(|| line.due_at(slot_at))?;
        let known = self.slots.values().all(|due| due.run_at.is_some());
        let skipped = self.side.calendar.and_then(|calendar| calendar.why_excluded(slot_at));
        Some(Due { run_at: Some(run_at).filter(|_| known), skipped })
    }

    /// How many slots lie ahead, without those that the calendar closes unless they are too many to look at each.
    fn count(&self) -> u64 {
        let (Some(line), Some(first)) = (&self.line, self.slots.keys().next()) else { return 0 };
        let all = 1 + line.count_between(*first, self.look.until());
        let Some(calendar) = self.side.calendar.filter(|_| all <= LOOKED_AT_MAX) else { return all };
        let each = std::iter::successors(Some(*first), |slot| line.next_after(*slot));
        let ahead = each.take_while(|slot| *slot <= self.look.until());
        u64::try_from(ahead.filter(|slot| !calendar.excludes(*slot)).count()).unwrap_or(all)
    }
}

/// What to mind about when a schedule will fire.
pub(crate) fn notes(schedule: &Schedule, now: Timestamp) -> Vec<String> {
    let TimingSpec::Cron { expression, timezone, dst } = &schedule.definition.timing else { return Vec::new() };
    match (Recurrence::parse(expression, Some(&schedule.seed)), zone(timezone)) {
        (Ok(Recurrence::Cron(cron)), Ok(zone)) => warnings(&CronClock::new(cron, zone, *dst), now),
        _ => Vec::new(),
    }
}
