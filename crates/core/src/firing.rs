//! The decision about a due schedule: which slots fire, which do not and why, and when the next one is due.
//!
//! Everything here is a pure function of the schedule, the store's time and a few facts, so that both stores and
//! the simulator decide alike, and so that a year of missed slots costs no more than a minute of them.

use crate::calendar::Calendar;
use crate::id::ScheduleId;
use crate::invalid::Invalid;
use crate::ledger::DecidedRange;
use crate::run::Trigger;
use crate::schedule::{Missed, ON_TIME_WINDOW, Overlap, Schedule};
use crate::slot::{Decision, Reason};
use crate::timing::Timing;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

/// The most slots that one pass fires for one schedule; what is left is due at once in the next pass, so that one
/// schedule with much to catch up on never holds up the others.
pub const SLOTS_PER_PASS: usize = 256;

/// What the decision must know beside the schedule itself.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Jobs of this schedule that a node is running.
    pub running: u32,
    /// Jobs of this schedule that wait: delayed or queued, retries included.
    pub waiting: u32,
    /// When the schedule it depends on last succeeded.
    pub dependency_succeeded_at: Option<Timestamp>,
    /// The calendar it names.
    pub calendar: Option<Arc<Calendar>>,
    /// How many of its runs failed in a row, as far as they count towards a pause.
    pub failures_in_row: u32,
    /// How many slots the cap on fires leaves room for.
    pub room: Option<usize>,
    /// Since when that cap has held slots back: what became due since is late by no fault of its own.
    pub held_since: Option<Timestamp>,
    /// What the ledger holds where [`Schedule::due_beside_ledger`] says that it must be looked at.
    pub decided: Vec<DecidedRange>,
}

/// What is to be written, in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firing {
    /// The ledger rows, in order of time.
    pub slots: Vec<DecidedSlot>,
    /// Where the schedule stands afterwards.
    pub next: Next,
}

/// One ledger row to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedSlot {
    /// The slot, or the first of a range.
    pub slot_at: Timestamp,
    /// The last of the range.
    pub through: Timestamp,
    /// How many slots it stands for.
    pub count: u64,
    /// What was decided.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// How long after it was due.
    pub late_ms: i64,
    /// The job to make, when it fired.
    pub job: Option<SlotJob>,
    /// The reason in more words, where there is more to say.
    pub note: Option<String>,
}

/// What is special about a slot's job; the rest is the schedule's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotJob {
    /// `schedule` or `catchup`.
    pub trigger: Trigger,
    /// Whether it must wait for earlier jobs of the schedule.
    pub serial: bool,
    /// Whether what is alive of this schedule is cancelled for it.
    pub replaces_live: bool,
}

/// Where the schedule stands after the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The next slot and when it is due.
    Slot(NextSlot),
    /// No further slots.
    Exhausted,
    /// It cannot be understood; the words say why, and nothing fires until it is edited (E02).
    Problem(String),
}

/// A slot that lies ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextSlot {
    /// Its identity.
    pub slot_at: Timestamp,
    /// When it is due.
    pub run_at: Timestamp,
}

/// The slots of one schedule, bounds and jitter included.
#[derive(Debug)]
pub struct Slots<'a> {
    schedule: &'a Schedule,
    timing: Timing,
}

impl Schedule {
    /// Understands when this schedule is due.
    pub fn slots(&self) -> Result<Slots<'_>, Invalid> {
        let timing = self.definition.timing.compile(self.anchor_at, &self.seed)?;
        Ok(Slots { schedule: self, timing })
    }

    /// The next slot counted from an instant: the first after both it and the last decided slot.
    pub fn plan_next(&self, now: Timestamp) -> Next {
        match self.slots() {
            Ok(slots) => slots.next_from(slots.planned_behind(now)),
            Err(problem) => Next::Problem(problem.to_string()),
        }
    }

    /// Decides a schedule that the store found due.
    pub fn fire(&self, now: Timestamp, facts: &Facts) -> Firing {
        let slots = match self.slots() {
            Ok(slots) => slots,
            Err(problem) => return Firing::unfired(Next::Problem(problem.to_string())),
        };
        if let (Some(name), None) = (&self.definition.calendar, &facts.calendar) {
            return Firing::unfired(Next::Problem(calendar_gone(name)));
        }
        match self.trusted_next() {
            // E01: nothing was planned, so nothing is due; plan from now.
            None => Firing::unfired(slots.next_from(slots.planned_behind(now))),
            Some(next) if next.run_at > now => Firing::unfired(Next::Slot(next)),
            Some(next) => slots.decide(next, now, facts),
        }
    }

    /// The stored plan, unless it is null or impossible: older than the schedule, due before its own slot or longer
    /// after it than any jitter, or decided already. A row that was changed by hand, restored from a backup or
    /// written under a wrong clock is planned anew, never fired.
    pub(crate) fn trusted_next(&self) -> Option<NextSlot> {
        let (slot_at, run_at) = (self.state.next_slot_at?, self.state.next_run_at?);
        let decided = self.state.fired_through.is_some_and(|through| slot_at <= through);
        let jitter = run_at.duration_since(slot_at);
        let possible = slot_at >= self.created_at && !jitter.is_negative() && jitter <= self.definition.jitter;
        (possible && !decided).then_some(NextSlot { slot_at, run_at })
    }

    /// Whether the stored plan is what this function would trust; the reconciler asks it (A08).
    pub fn plan_is_sound(&self) -> bool {
        self.trusted_next().is_some()
    }
}

impl Facts {
    fn alive(&self) -> u32 {
        self.running.saturating_add(self.waiting)
    }

    fn is_decided(&self, slot_at: Timestamp) -> bool {
        self.decided.iter().any(|(from, through)| (*from..=*through).contains(&slot_at))
    }
}

impl Firing {
    fn unfired(next: Next) -> Self {
        Self { slots: Vec::new(), next }
    }

    /// The latest slot this decision covers.
    pub fn decided_through(&self) -> Option<Timestamp> {
        self.slots.iter().map(|slot| slot.through).max()
    }

    /// The latest of its slots whose time has passed: so far nothing fires again.
    pub fn passed(&self, now: Timestamp) -> Option<Timestamp> {
        self.slots.iter().map(|slot| slot.through).filter(|through| *through <= now).max()
    }
}

impl Slots<'_> {
    /// When it is due, without the schedule's bounds.
    pub(crate) fn timing(&self) -> &Timing {
        &self.timing
    }

    /// The first slot after an instant, within the schedule's bounds.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        #[cfg(test)]
        tests::step();
        let definition = &self.schedule.definition;
        // A slot exactly at `starts_at` counts, so the search begins just before it.
        let floor = definition.starts_at.map_or(after, |from| after.max(just_before(from)));
        let next = self.timing.next_after(floor)?;
        definition.ends_at.is_none_or(|to| next <= to).then_some(next)
    }

    /// The last slot at or before an instant, within the schedule's bounds.
    pub fn latest_at_or_before(&self, at: Timestamp) -> Option<Timestamp> {
        #[cfg(test)]
        tests::step();
        let definition = &self.schedule.definition;
        let ceiling = definition.ends_at.map_or(at, |to| at.min(to));
        let latest = self.timing.latest_at_or_before(ceiling)?;
        definition.starts_at.is_none_or(|from| latest >= from).then_some(latest)
    }

    /// How many slots lie after one instant and at or before another.
    pub fn count_between(&self, after: Timestamp, until: Timestamp) -> u64 {
        #[cfg(test)]
        tests::step();
        let definition = &self.schedule.definition;
        let after = definition.starts_at.map_or(after, |from| after.max(just_before(from)));
        let until = definition.ends_at.map_or(until, |to| until.min(to));
        self.timing.count_between(after, until)
    }

    /// When a slot is due: the slot plus a jitter that is fixed for it and smaller than the gap to the next slot.
    pub fn due_at(&self, slot_at: Timestamp) -> Timestamp {
        #[cfg(test)]
        tests::step();
        let longest = self.schedule.definition.jitter;
        if longest <= SignedDuration::ZERO {
            return slot_at;
        }
        let gap = self.timing.next_after(slot_at).map_or(longest, |next| next.duration_since(slot_at));
        let room = u64::try_from(longest.min(gap).as_micros()).unwrap_or(0).max(1);
        let offset = i64::try_from(spread_hash(self.schedule.id, slot_at) % room).unwrap_or(0);
        slot_at.saturating_add(SignedDuration::from_micros(offset)).unwrap_or(slot_at)
    }

    /// The next slot after an instant, with its due time.
    pub fn next_from(&self, after: Timestamp) -> Next {
        match self.next_after(after) {
            Some(slot_at) => Next::Slot(NextSlot { slot_at, run_at: self.due_at(slot_at) }),
            None => Next::Exhausted,
        }
    }

    /// What a plan made at an instant lies behind: that instant, and every decided slot. The schedule's own beginning
    /// is among them, because a clock that has gone back since must not plan what would never be trusted.
    fn planned_behind(&self, now: Timestamp) -> Timestamp {
        self.decided_behind(now.max(self.schedule.created_at))
    }

    /// The later of an instant and the last decided slot.
    pub(crate) fn decided_behind(&self, at: Timestamp) -> Timestamp {
        let state = &self.schedule.state;
        [state.last_slot_at, state.fired_through].into_iter().flatten().fold(at, Timestamp::max)
    }

    /// Decides all that is due, the missed policy first, then each slot that may still run.
    fn decide(&self, first: NextSlot, now: Timestamp, facts: &Facts) -> Firing {
        let whole = self.due_line(first, now);
        let (due, closed) = self.without_closed_end(&whole, now, facts);
        let (passed, chosen) = self.split_by_policy(&due, now, facts);
        let stands_for_others = passed.is_some() && matches!(self.schedule.definition.missed, Missed::Once { .. });
        let mut slots: Vec<DecidedSlot> = passed.into_iter().collect();
        let mut facts = facts.clone();
        for slot in chosen.slots {
            let on_time = !stands_for_others && slot.slot_at == due.last && self.is_on_time(slot, now);
            slots.push(self.decide_one(slot, now, on_time, &mut facts));
        }
        slots.extend(closed);
        let next = match chosen.left_for_next_pass {
            Some(slot_at) => Next::Slot(NextSlot { slot_at, run_at: self.due_at(slot_at) }),
            // Counted from the last due slot, not from now: a slot that has come but is held back by its jitter is
            // still ahead, and would be lost.
            None => self.next_from(self.decided_behind(whole.last)),
        };
        Firing { slots, next }
    }

    /// Whether a slot that fires now does so on time. What `skip` lets through is, by its own window.
    fn is_on_time(&self, slot: NextSlot, now: Timestamp) -> bool {
        let window = match self.schedule.definition.missed {
            Missed::Skip { window } => window,
            Missed::Once { .. } | Missed::All { .. } => ON_TIME_WINDOW,
        };
        now.duration_since(slot.run_at) <= window
    }

    /// The due slots without listing them: the stored one, and those of the definition that are due after it.
    fn due_line(&self, first: NextSlot, now: Timestamp) -> DueLine {
        // A rescheduled slot need not be one of the definition's; slots decided ahead of it stay decided.
        let floor = self.schedule.state.last_slot_at.map_or(first.slot_at, |last| last.max(first.slot_at));
        let mut last = self.latest_at_or_before(now).filter(|slot| *slot > floor);
        // The latest slot may still be held back by its jitter; the one before it cannot be, jitter being shorter
        // than the gap.
        if let Some(slot) = last.filter(|slot| self.due_at(*slot) > now) {
            last = self.latest_at_or_before(just_before(slot)).filter(|slot| *slot > floor);
        }
        DueLine { first, floor, last: last.unwrap_or(first.slot_at) }
    }

    /// For `once`, takes the latest slots off when the calendar excludes them, as one range: a slot that may not run
    /// cannot stand for the earlier ones. When all are excluded, the latest is left to be decided like any other.
    fn without_closed_end(&self, due: &DueLine, now: Timestamp, facts: &Facts) -> (DueLine, Option<DecidedSlot>) {
        let calendar =
            facts.calendar.as_ref().filter(|_| matches!(self.schedule.definition.missed, Missed::Once { .. }));
        let closed_since = |slot_at| calendar.and_then(|calendar| calendar.excluded_since(slot_at));
        let mut open = Some(due.last);
        while let Some((slot_at, since)) = open.and_then(|slot_at| Some((slot_at, closed_since(slot_at)?))) {
            open = self.before(due, since.min(slot_at));
        }
        let Some(last) = open.filter(|open| *open < due.last) else { return (*due, None) };
        let Some(slot_at) = self.at_or_after(due, just_after(last)) else { return (*due, None) };
        let closed = DecidedSlot {
            slot_at,
            through: due.last,
            count: self.count_due(due, due.last) - self.count_due(due, last),
            decision: Decision::Skipped,
            reason: Reason::Calendar,
            late_ms: late_ms(self.due_of(due, slot_at), now),
            job: None,
            note: calendar.and_then(|calendar| closed_note(calendar, slot_at, due.last)),
        };
        (DueLine { last, ..*due }, Some(closed))
    }

    /// Splits what is due into the range that has passed and the slots that may run.
    fn split_by_policy(&self, due: &DueLine, now: Timestamp, facts: &Facts) -> (Option<DecidedSlot>, Chosen) {
        let missed = self.schedule.definition.missed;
        let oldest = missed.window().map(|window| now.saturating_sub(window).unwrap_or(Timestamp::MIN));
        let oldest = oldest.map(|oldest| facts.held_since.map_or(oldest, |since| since.min(oldest)));
        let in_window = |slot_at: Timestamp| oldest.is_none_or(|oldest| self.due_of(due, slot_at) >= oldest);
        if !in_window(due.last) {
            return (Some(self.passed(due, due.last, Reason::TooLate, now)), Chosen::default());
        }
        let begin = match missed {
            Missed::Skip { .. } | Missed::Once { .. } => due.last,
            Missed::All { limit, .. } => self.first_chosen(due, u64::from(limit), &in_window),
        };
        let passed = self.before(due, begin).map(|last| {
            let reason = match missed {
                Missed::Skip { .. } | Missed::Once { .. } => Reason::Superseded,
                // Whichever of the two ends the range is true of all that is in it.
                Missed::All { .. } if in_window(last) => Reason::OverLimit,
                Missed::All { .. } => Reason::TooLate,
            };
            self.passed(due, last, reason, now)
        });
        (passed, self.take_from(due, begin, facts.room.unwrap_or(SLOTS_PER_PASS).clamp(1, SLOTS_PER_PASS)))
    }

    /// The first slot that may run: within the window, and among the latest `limit`.
    fn first_chosen(&self, due: &DueLine, limit: u64, in_window: &impl Fn(Timestamp) -> bool) -> Timestamp {
        let total = self.count_due(due, due.last);
        let fits = |slot_at: Timestamp| {
            let before = self.before(due, slot_at).map_or(0, |last| self.count_due(due, last));
            in_window(slot_at) && total - before <= limit
        };
        if fits(due.first.slot_at) {
            return due.first.slot_at;
        }
        // Both conditions are false up to some instant and true from there on, so it is found by halving.
        let (mut low, mut high) = (due.first.slot_at, due.last);
        while high.duration_since(low) > SignedDuration::from_nanos(1) {
            let middle = low.saturating_add(high.duration_since(low) / 2).unwrap_or(high);
            match self.at_or_after(due, middle) {
                Some(slot_at) if fits(slot_at) => high = middle,
                _ => low = middle,
            }
        }
        self.at_or_after(due, high).unwrap_or(due.last)
    }

    fn take_from(&self, due: &DueLine, begin: Timestamp, most: usize) -> Chosen {
        let mut chosen = Chosen::default();
        let mut slot = Some(begin);
        while let Some(slot_at) = slot.filter(|slot| *slot <= due.last) {
            if chosen.slots.len() == most {
                chosen.left_for_next_pass = Some(slot_at);
                break;
            }
            chosen.slots.push(NextSlot { slot_at, run_at: self.due_of(due, slot_at) });
            slot = self.next_after(slot_at.max(due.floor));
        }
        chosen
    }

    /// The first due slots, up to one of them, as one range.
    fn passed(&self, due: &DueLine, last: Timestamp, reason: Reason, now: Timestamp) -> DecidedSlot {
        DecidedSlot {
            slot_at: due.first.slot_at,
            through: last,
            count: self.count_due(due, last),
            decision: Decision::Missed,
            reason,
            late_ms: late_ms(due.first.run_at, now),
            job: None,
            note: None,
        }
    }

    /// Sets all that is due aside as one range, because the schedule stops here.
    pub(crate) fn stopped(&self, first: NextSlot, now: Timestamp, note: &str) -> Firing {
        let due = self.due_line(first, now);
        let passed = self.passed(&due, due.last, Reason::Paused, now);
        let row = DecidedSlot { decision: Decision::Skipped, note: Some(note.to_owned()), ..passed };
        Firing { slots: vec![row], next: self.next_from(self.decided_behind(due.last)) }
    }

    /// Decides one slot that the missed policy lets through.
    fn decide_one(&self, slot: NextSlot, now: Timestamp, on_time: bool, facts: &mut Facts) -> DecidedSlot {
        let (decision, reason) = match self.refusal(slot.slot_at, facts) {
            Some(reason) => (Decision::Skipped, reason),
            None if on_time => (Decision::Fired, Reason::OnTime),
            None => (Decision::Fired, Reason::Catchup),
        };
        let calendar = facts.calendar.as_ref().filter(|_| reason == Reason::Calendar);
        let note = calendar.and_then(|calendar| calendar.why_excluded(slot.slot_at));
        let job = (decision == Decision::Fired).then(|| self.job_for(on_time, facts));
        // One that the ledger holds gets no second job, so that nothing of it stands in the way of the next slot.
        if job.is_some() && !facts.is_decided(slot.slot_at) {
            facts.waiting = facts.waiting.saturating_add(1);
        }
        DecidedSlot {
            slot_at: slot.slot_at,
            through: slot.slot_at,
            count: 1,
            decision,
            reason,
            late_ms: late_ms(slot.run_at, now),
            job,
            note,
        }
    }

    /// Why a slot may not fire, if it may not.
    fn refusal(&self, slot_at: Timestamp, facts: &Facts) -> Option<Reason> {
        let definition = &self.schedule.definition;
        if facts.calendar.as_ref().is_some_and(|calendar| calendar.excludes(slot_at)) {
            return Some(Reason::Calendar);
        }
        if let Some(dependency) = definition.depends_on {
            let oldest = slot_at.saturating_sub(dependency.within).unwrap_or(Timestamp::MIN);
            if facts.dependency_succeeded_at.is_none_or(|at| at < oldest) {
                return Some(Reason::Dependency);
            }
        }
        let alive = facts.alive();
        let overlaps = match definition.overlap {
            Overlap::Allow | Overlap::Replace => false,
            Overlap::Forbid => alive > 0,
            Overlap::QueueOne => facts.waiting > 0,
        };
        if overlaps {
            return Some(Reason::Overlap);
        }
        // A replaced run makes room for the new one.
        let counts = definition.overlap != Overlap::Replace;
        definition.max_concurrent_runs.filter(|max| counts && alive >= *max).map(|_| Reason::MaxConcurrentRuns)
    }

    fn job_for(&self, on_time: bool, facts: &Facts) -> SlotJob {
        let definition = &self.schedule.definition;
        SlotJob {
            trigger: if on_time { Trigger::Schedule } else { Trigger::Catchup },
            // The new one must not overlap the one it waits for or replaces.
            serial: definition.serial || matches!(definition.overlap, Overlap::Replace | Overlap::QueueOne),
            replaces_live: definition.overlap == Overlap::Replace && facts.alive() > 0,
        }
    }

    /// When a slot of the due line is due; the first one's time is the stored one.
    fn due_of(&self, due: &DueLine, slot_at: Timestamp) -> Timestamp {
        if slot_at == due.first.slot_at { due.first.run_at } else { self.due_at(slot_at) }
    }

    /// How many due slots there are up to an instant.
    fn count_due(&self, due: &DueLine, until: Timestamp) -> u64 {
        u64::from(until >= due.first.slot_at) + self.count_between(due.floor, until)
    }

    /// The last due slot before another one.
    fn before(&self, due: &DueLine, slot_at: Timestamp) -> Option<Timestamp> {
        if slot_at <= due.first.slot_at {
            return None;
        }
        let earlier = self.latest_at_or_before(just_before(slot_at)).filter(|slot| *slot > due.floor);
        Some(earlier.unwrap_or(due.first.slot_at))
    }

    /// The first due slot at or after an instant.
    fn at_or_after(&self, due: &DueLine, at: Timestamp) -> Option<Timestamp> {
        if at <= due.first.slot_at {
            return Some(due.first.slot_at);
        }
        self.next_after(just_before(at).max(due.floor)).filter(|slot| *slot <= due.last)
    }
}

/// The due slots: `first`, then every slot of the definition after `floor` up to `last`.
#[derive(Clone, Copy)]
struct DueLine {
    first: NextSlot,
    floor: Timestamp,
    last: Timestamp,
}

/// The slots that may run in this pass, and the first one that has to wait for the next pass.
#[derive(Default)]
struct Chosen {
    slots: Vec<NextSlot>,
    left_for_next_pass: Option<Timestamp>,
}

/// What is wrong with a schedule whose calendar is not there any more.
pub fn calendar_gone(name: &str) -> String {
    format!("its calendar `{name}` is gone or cannot be read; make it again, or edit the schedule")
}

/// Why a range of slots is closed: by one entry of the calendar, or by several.
fn closed_note(calendar: &Calendar, first: Timestamp, last: Timestamp) -> Option<String> {
    let why = calendar.why_excluded(first)?;
    let same = calendar.why_excluded(last).as_ref() == Some(&why);
    Some(if same { why } else { format!("{why}, and others after it") })
}

fn just_before(at: Timestamp) -> Timestamp {
    at.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
}

fn just_after(at: Timestamp) -> Timestamp {
    at.saturating_add(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MAX)
}

fn late_ms(due_at: Timestamp, now: Timestamp) -> i64 {
    i64::try_from(now.duration_since(due_at).as_millis()).unwrap_or(i64::MAX)
}

/// A number fixed by schedule and slot (splitmix64), so that every node computes the same jitter.
fn spread_hash(schedule_id: ScheduleId, slot_at: Timestamp) -> u64 {
    let (high, low) = schedule_id.0.as_u64_pair();
    let mut state = high ^ low.rotate_left(32) ^ u64::from_ne_bytes(slot_at.as_microsecond().to_ne_bytes());
    state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests;
