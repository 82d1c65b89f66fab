//! What pause, resume, reschedule, skip and edit make of a schedule's plan: pure, like firing, and never a fire.

use crate::cron::Recurrence;
use crate::firing::{DecidedSlot, Facts, Firing, Next, NextSlot, Slots};
use crate::invalid::Invalid;
use crate::schedule::{Pause, Schedule, ScheduleDefinition, ScheduleResults};
use crate::slot::{Decision, Reason};
use crate::timing::TimingSpec;
use jiff::{SignedDuration, Timestamp};

/// What whoever fires does about a schedule that the store found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// Its slots are decided.
    Fires(Firing),
    /// Too many of its runs failed in a row: what is due is set aside, and it is paused.
    Stops(Firing, Pause),
    /// Its pause is over.
    GoesOn(Firing),
}

impl Schedule {
    /// Judges a schedule that is due, or whose pause is over. Nothing fires by the end of a pause itself: what is due
    /// then is found due at once.
    pub fn judge(&self, now: Timestamp, facts: &Facts) -> Judged {
        if !self.state.enabled {
            return match self.pause_ended(now) {
                Some(until) => Judged::GoesOn(self.resumed_behind(just_before(until), now)),
                None => Judged::Fires(Firing { slots: Vec::new(), next: self.plan_kept() }),
            };
        }
        match self.stops(now, facts) {
            Some((firing, pause)) => Judged::Stops(firing, pause),
            None => Judged::Fires(self.fire(now, facts)),
        }
    }

    /// When its pause was to end, if that time has come.
    fn pause_ended(&self, now: Timestamp) -> Option<Timestamp> {
        self.state.pause.as_ref()?.until.filter(|until| *until <= now)
    }

    fn stops(&self, now: Timestamp, facts: &Facts) -> Option<(Firing, Pause)> {
        let most = self.definition.pause_after_failures.filter(|most| facts.failures_in_row >= *most)?;
        let slots = self.slots().ok()?;
        let first = self.trusted_next().filter(|next| next.run_at <= now)?;
        let failures = facts.failures_in_row;
        let told = if failures == 1 { "a run failed".to_owned() } else { format!("{failures} runs failed in a row") };
        let note = format!("paused by itself: {told}, and pause_after_failures is {most}");
        let firing = slots.stopped(first, now, &note);
        Some((firing, Pause { at: now, by: None, note: Some(note), until: None }))
    }

    /// How many runs failed in a row, without those that were there when it last went on after a pause.
    pub fn failures_in_row(&self, results: &ScheduleResults) -> u32 {
        let since_success = |at: Timestamp| results.last_success_at.is_none_or(|success| success < at);
        let forgiven = self.state.forgiven.filter(|forgiven| since_success(forgiven.at));
        results.consecutive_failures.saturating_sub(forgiven.map_or(0, |forgiven| forgiven.failures))
    }

    /// Goes on from now: what passed while the schedule was paused becomes one range, and nothing fires.
    pub fn resumed(&self, now: Timestamp) -> Firing {
        self.resumed_behind(now, now)
    }

    /// Goes on behind an instant: what passed up to it becomes one range.
    fn resumed_behind(&self, behind: Timestamp, now: Timestamp) -> Firing {
        let Ok(slots) = self.slots() else {
            return Firing { slots: Vec::new(), next: self.plan_next(behind) };
        };
        match self.state.next_slot_at {
            Some(slot_at) if slot_at > behind => Firing { slots: Vec::new(), next: self.plan_kept() },
            Some(first) => {
                let passed = self.set_aside(&slots, first, behind, Reason::Paused, now);
                Firing { slots: vec![passed], next: self.plan_next(behind) }
            }
            None => Firing { slots: Vec::new(), next: self.plan_next(behind) },
        }
    }

    /// Moves the next fire: the slots it jumps over are set aside, and the new time is the slot.
    pub fn rescheduled(&self, at: Timestamp, now: Timestamp) -> Result<Firing, Invalid> {
        if !self.state.enabled {
            return Err(Invalid::new("at", "the schedule is paused").remedy("resume it first"));
        }
        // A clock that has gone back may show a time before the schedule itself; such a plan would never be trusted.
        let too_early = at <= now || at < self.created_at;
        if too_early || self.state.fired_through.is_some_and(|through| at <= through) {
            return Err(Invalid::new("at", "is not after now and after the last decided slot")
                .remedy("choose a later time, or trigger the schedule to run it now"));
        }
        let slots = self.slots()?;
        let jumped = self
            .state
            .next_slot_at
            .filter(|first| *first != at)
            .map(|first| self.set_aside(&slots, first, just_before(at), Reason::Rescheduled, now));
        let next = Next::Slot(NextSlot { slot_at: at, run_at: at });
        Ok(Firing { slots: jumped.into_iter().collect(), next })
    }

    /// Sets the next slot aside, that one and no other, and plans the one behind it. One that is overdue is skipped all
    /// the same; what has become due behind it is then found due at once.
    pub fn skipping_next(&self, by: Option<&str>, now: Timestamp) -> Result<Firing, Invalid> {
        if !self.state.enabled {
            return Err(Invalid::new("schedule", "is paused, and skips everything").remedy("resume it first"));
        }
        let slots = self.slots()?;
        let Some(first) = self.state.next_slot_at else {
            return Err(Invalid::new("schedule", "has no next slot")
                .remedy("edit it so that it has one; `problem` and `exhausted_at` say why there is none"));
        };
        let note = by.map_or_else(|| "skipped by hand".to_owned(), |by| format!("skipped by {by}"));
        let row = self.set_aside(&slots, first, first, Reason::Rescheduled, now);
        let next = slots.next_from(slots.decided_behind(first));
        Ok(Firing { slots: vec![DecidedSlot { note: Some(note), ..row }], next })
    }

    /// Whether an instant is a slot by the definition; only then can a range of the ledger stand for it.
    pub fn has_slot_at(&self, at: Timestamp) -> bool {
        self.slots().is_ok_and(|slots| slots.latest_at_or_before(at) == Some(at))
    }

    /// The plan under a new definition. `self` is the schedule as it was; `edited` is what it becomes.
    ///
    /// An edit that leaves the times alone keeps its place. One that changes them is planned from now, and what was
    /// due already under the old times is set aside, so that an edit never fires anything by itself.
    pub fn edited(&self, edited: &Schedule, now: Timestamp) -> Firing {
        let waits = self.state.no_executor_since.is_some();
        let sound = self.state.problem.is_none() || waits;
        if sound && same_times(&self.definition, &edited.definition) {
            let next = match (self.state.next_slot_at, self.state.next_run_at) {
                (Some(slot_at), Some(run_at)) => Next::Slot(NextSlot { slot_at, run_at }),
                // Paused or fired from memory: the slot is kept, so that it is known since when slots have passed.
                (Some(slot_at), None) if !self.state.is_fired_by_store() => {
                    Next::Slot(NextSlot { slot_at, run_at: slot_at })
                }
                (Some(_), None) if waits => self.plan_kept(),
                _ => edited.plan_next(now),
            };
            return Firing { slots: Vec::new(), next };
        }
        let reason = if self.state.enabled { Reason::Edited } else { Reason::Paused };
        let overdue = self.state.next_slot_at.filter(|first| *first <= now);
        let set_aside = match (overdue, self.slots()) {
            (Some(first), Ok(slots)) => Some(self.set_aside(&slots, first, now, reason, now)),
            _ => None,
        };
        Firing { slots: set_aside.into_iter().collect(), next: edited.plan_next(now) }
    }

    /// Whether the stored plan is possible: the reconciler asks, and plans anew what is not (A08).
    ///
    /// A plan later than the definition's own next slot is a row that was tampered with: rescheduling also records
    /// the slots it jumps over, which moves the definition's next slot behind them.
    pub fn plan_is_possible(&self, now: Timestamp) -> bool {
        match (self.state.next_slot_at, self.plan_next(now)) {
            // Its slot waits until somebody could run it (E06); nothing is due meanwhile.
            (Some(_), _) if self.state.no_executor_since.is_some() => true,
            _ if !self.plan_is_sound() => false,
            (Some(slot_at), Next::Slot(own)) => slot_at <= own.slot_at,
            (Some(_), Next::Exhausted) => true,
            (None, _) | (_, Next::Problem(_)) => false,
        }
    }

    /// One ledger row for a slot that was planned and the definition's slots after it, up to an instant.
    fn set_aside(
        &self, slots: &Slots<'_>, first: Timestamp, until: Timestamp, reason: Reason, now: Timestamp,
    ) -> DecidedSlot {
        let floor = self.state.last_slot_at.map_or(first, |last| last.max(first));
        let last = slots.latest_at_or_before(until).filter(|slot| *slot > floor).unwrap_or(first);
        let late = now.duration_since(first).as_millis().max(0);
        DecidedSlot {
            slot_at: first,
            through: last,
            count: 1 + slots.count_between(floor, last),
            decision: Decision::Skipped,
            reason,
            late_ms: i64::try_from(late).unwrap_or(i64::MAX),
            job: None,
            note: self.state.pause.as_ref().filter(|_| reason == Reason::Paused).map(Pause::in_words),
        }
    }
}

impl Pause {
    /// Who paused until when, and why, for the ledger.
    pub fn in_words(&self) -> String {
        let by = self.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let until = self.until.map(|until| format!(" until {until}")).unwrap_or_default();
        let note = self.note.as_ref().filter(|note| !note.is_empty());
        let note = note.map(|note| format!(": {note}")).unwrap_or_default();
        format!("paused{by} at {}{until}{note}", self.at)
    }
}

/// The last instant that the stores tell from another one.
fn just_before(at: Timestamp) -> Timestamp {
    at.saturating_sub(SignedDuration::from_micros(1)).unwrap_or(at)
}

/// What the multiples of an `every` count from: so that `starts_at` is a slot itself, or the whole second in which
/// the schedule was made.
pub fn anchor(definition: &ScheduleDefinition, now: Timestamp) -> Timestamp {
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    match (period(&definition.timing), definition.starts_at) {
        (Some(period), Some(from)) => from.saturating_sub(period).unwrap_or(whole),
        (None, Some(from)) => from,
        (_, None) => whole,
    }
}

/// The period of an `every`, also when it is written as `@every`.
fn period(timing: &TimingSpec) -> Option<SignedDuration> {
    match timing {
        TimingSpec::Every { period } => Some(*period),
        TimingSpec::Cron { expression, .. } => match Recurrence::parse(expression, None) {
            Ok(Recurrence::Every(period)) => Some(period),
            _ => None,
        },
        TimingSpec::At { .. } => None,
    }
}

/// Refuses a plan without a slot ahead: a schedule that could never fire is a mistake that is better told now.
pub fn refuse_without_slots(next: &Next, definition: &ScheduleDefinition) -> Result<(), Invalid> {
    let field = match definition.timing {
        TimingSpec::At { .. } => "at",
        _ => "ends_at",
    };
    match next {
        Next::Slot(_) => Ok(()),
        Next::Exhausted => Err(Invalid::new(field, "leaves no slot after now").remedy("choose a time that lies ahead")),
        Next::Problem(problem) => Err(Invalid::new("cron", problem.clone())),
    }
}

/// Whether two definitions have the same slots, due at the same times.
pub fn same_times(one: &ScheduleDefinition, other: &ScheduleDefinition) -> bool {
    one.timing == other.timing
        && one.starts_at == other.starts_at
        && one.ends_at == other.ends_at
        && one.jitter == other.jitter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ScheduleId;
    use crate::name::Name;
    use crate::schedule::{ScheduleResults, ScheduleState};
    use crate::target::Target;

    fn at(text: &str) -> Timestamp {
        format!("2026-03-01T{text}Z").parse().unwrap()
    }

    /// Hourly, made at midnight, next due at 10:00.
    fn hourly() -> Schedule {
        let timing = TimingSpec::cron("0 * * * *", "UTC");
        let definition = ScheduleDefinition::new(Name::new("hourly").unwrap(), timing, Target::command(["true"]));
        Schedule {
            id: ScheduleId(uuid::Uuid::from_u128(1)),
            version: 1,
            created_at: at("00:00:00"),
            updated_at: at("00:00:00"),
            anchor_at: at("00:00:00"),
            seed: "hourly".into(),
            definition,
            state: ScheduleState {
                enabled: true,
                next_slot_at: Some(at("10:00:00")),
                next_run_at: Some(at("10:00:00")),
                last_slot_at: Some(at("09:00:00")),
                fired_through: Some(at("09:00:00")),
                ..ScheduleState::default()
            },
            results: ScheduleResults::default(),
        }
    }

    fn slot(text: &str) -> Next {
        Next::Slot(NextSlot { slot_at: at(text), run_at: at(text) })
    }

    #[test]
    fn d03_resume_makes_one_range_of_what_passed_and_fires_nothing() {
        let firing = hourly().resumed(at("12:30:00"));
        assert_eq!(firing.next, slot("13:00:00"));
        let [passed] = firing.slots.as_slice() else { panic!("{firing:?}") };
        assert_eq!((passed.slot_at, passed.through, passed.count), (at("10:00:00"), at("12:00:00"), 3));
        assert_eq!((passed.decision, passed.reason), (Decision::Skipped, Reason::Paused));
    }

    #[test]
    fn d03_resume_before_the_next_slot_writes_nothing() {
        let firing = hourly().resumed(at("09:30:00"));
        assert_eq!(firing, Firing { slots: vec![], next: slot("10:00:00") });
    }

    #[test]
    fn d03_reschedule_later_sets_aside_what_it_jumps_over() {
        let firing = hourly().rescheduled(at("12:30:00"), at("09:30:00")).unwrap();
        assert_eq!(firing.next, slot("12:30:00"));
        assert_eq!((firing.slots[0].slot_at, firing.slots[0].count), (at("10:00:00"), 3));
        assert_eq!(firing.slots[0].reason, Reason::Rescheduled);
    }

    #[test]
    fn d03_reschedule_earlier_sets_aside_the_one_slot_it_moves() {
        let firing = hourly().rescheduled(at("09:40:00"), at("09:30:00")).unwrap();
        assert_eq!((firing.slots[0].slot_at, firing.slots[0].count), (at("10:00:00"), 1));
        assert!(hourly().rescheduled(at("09:30:00"), at("09:30:00")).is_err());
    }

    #[test]
    fn d03_skip_sets_aside_the_next_slot_alone_and_keeps_the_jitter_of_the_one_behind_it() {
        let jitter = SignedDuration::from_mins(20);
        let mut jittered = hourly();
        jittered.definition.jitter = jitter;
        for (by, note) in [(Some("ada"), "skipped by ada"), (None, "skipped by hand")] {
            let firing = jittered.skipping_next(by, at("09:30:00")).unwrap();
            let [row] = firing.slots.as_slice() else { panic!("{firing:?}") };
            assert_eq!((row.slot_at, row.through, row.count), (at("10:00:00"), at("10:00:00"), 1));
            assert_eq!((row.decision, row.reason, row.late_ms), (Decision::Skipped, Reason::Rescheduled, 0));
            assert_eq!((row.note.as_deref(), &row.job), (Some(note), &None));
            let due = jittered.slots().unwrap().due_at(at("11:00:00"));
            assert!(due > at("11:00:00") && due < at("11:00:00") + jitter, "{due}");
            assert_eq!(firing.next, Next::Slot(NextSlot { slot_at: at("11:00:00"), run_at: due }));
        }
    }

    #[test]
    fn d03_skip_of_an_overdue_slot_leaves_those_behind_it_due() {
        let firing = hourly().skipping_next(None, at("12:30:00")).unwrap();
        assert_eq!((firing.slots.len(), firing.slots[0].count), (1, 1));
        assert_eq!(firing.next, slot("11:00:00"));
    }

    #[test]
    fn d03_skip_of_a_slot_that_was_moved_goes_behind_all_that_is_decided() {
        let mut moved = hourly();
        // What a reschedule from 10:00 to 09:40 leaves.
        moved.state.next_slot_at = Some(at("09:40:00"));
        moved.state.next_run_at = Some(at("09:40:00"));
        moved.state.last_slot_at = Some(at("10:00:00"));
        let firing = moved.skipping_next(None, at("09:30:00")).unwrap();
        assert_eq!((firing.slots[0].slot_at, firing.slots[0].count), (at("09:40:00"), 1));
        assert_eq!(firing.next, slot("11:00:00"));
    }

    #[test]
    fn d03_skip_is_refused_when_paused_and_when_nothing_lies_ahead_and_ends_what_had_one_slot_left() {
        let mut ends = hourly();
        ends.definition.ends_at = Some(at("10:30:00"));
        assert_eq!(ends.skipping_next(None, at("09:30:00")).unwrap().next, Next::Exhausted);
        ends.state.next_slot_at = None;
        assert!(ends.skipping_next(None, at("09:30:00")).unwrap_err().to_string().contains("no next slot"));
        let mut paused = hourly();
        paused.state.enabled = false;
        assert!(paused.skipping_next(None, at("09:30:00")).unwrap_err().to_string().contains("resume it first"));
    }

    #[test]
    fn d03_an_edit_of_the_times_plans_from_now_and_sets_aside_what_was_overdue() {
        let mut edited = hourly();
        edited.definition.timing = TimingSpec::cron("30 * * * *", "UTC");
        let firing = hourly().edited(&edited, at("10:10:00"));
        assert_eq!(firing.next, slot("10:30:00"));
        assert_eq!((firing.slots[0].slot_at, firing.slots[0].reason), (at("10:00:00"), Reason::Edited));
    }

    #[test]
    fn d03_an_edit_of_anything_else_keeps_its_place() {
        let mut edited = hourly();
        edited.definition.description = "every hour".into();
        let firing = hourly().edited(&edited, at("10:10:00"));
        assert_eq!(firing, Firing { slots: vec![], next: slot("10:00:00") });
    }

    #[test]
    fn a08_a_plan_later_than_the_next_slot_is_impossible_unless_it_was_rescheduled() {
        let now = at("09:30:00");
        assert!(hourly().plan_is_possible(now));
        let mut forced = hourly();
        forced.state.next_slot_at = Some(at("17:00:00"));
        forced.state.next_run_at = Some(at("17:00:00"));
        assert!(!forced.plan_is_possible(now));
        forced.state.last_slot_at = Some(at("16:00:00"));
        assert!(forced.plan_is_possible(now));
        forced.state.next_run_at = None;
        assert!(!forced.plan_is_possible(now));
    }
}
