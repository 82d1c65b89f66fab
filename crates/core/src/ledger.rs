//! A schedule beside a ledger that knows more than its plan: what was fired from memory, and where that leaves it.

use crate::firing::{DecidedSlot, Facts, Firing, Next, Slots};
use crate::replan::Judged;
use crate::schedule::{Missed, Overlap, Pause, Schedule};
use crate::upkeep::Plans;
use jiff::{SignedDuration, Timestamp};

/// How far ahead of the clock a decided slot may lie before somebody must be told.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(1);

/// A row of the ledger: its slot, and the last one of its range.
pub type DecidedRange = (Timestamp, Timestamp);

impl Schedule {
    /// The schedule as it stands after a decision, for whoever keeps it in memory.
    #[must_use]
    pub fn moved_on(&self, firing: &Firing, now: Timestamp) -> Self {
        let mut moved = self.clone();
        let state = &mut moved.state;
        (state.next_slot_at, state.next_run_at) = match &firing.next {
            Next::Slot(next) => (Some(next.slot_at), Some(next.run_at)),
            Next::Exhausted | Next::Problem(_) => (None, None),
        };
        match &firing.next {
            Next::Slot(_) => {}
            Next::Exhausted => state.exhausted_at = Some(now),
            Next::Problem(problem) => state.problem = Some(problem.clone()),
        }
        state.last_slot_at = state.last_slot_at.max(firing.decided_through());
        state.fired_through = state.fired_through.max(firing.passed(now));
        moved
    }

    /// What becomes of a schedule that is fired from memory; it stops by itself only where its plan can be written.
    pub fn judge_remembered(&self, now: Timestamp, facts: &Facts, plans: Plans) -> (Firing, Option<Pause>) {
        match (plans, self.judge(now, facts)) {
            (Plans::Move, Judged::Stops(firing, pause)) => (firing, Some(pause)),
            (_, Judged::Fires(firing)) => (firing, None),
            (_, Judged::Stops(..) | Judged::GoesOn(_)) => (self.fire(now, facts), None),
        }
    }

    /// The schedule as whoever keeps it in memory sees it when it has stopped.
    #[must_use]
    pub fn paused_if(mut self, pause: Option<&Pause>) -> Self {
        if let Some(pause) = pause {
            (self.state.enabled, self.state.next_run_at) = (false, None);
            self.state.pause = Some(pause.clone());
        }
        self
    }

    /// The schedule with a plan to fire by, for whoever fires it from memory. In the store such a plan has a slot and
    /// no time at which it is due.
    #[must_use]
    pub fn planned_in_memory(&self, now: Timestamp) -> Self {
        let next = self.next_in_memory(now);
        self.moved_on(&Firing { slots: Vec::new(), next }, now)
    }

    /// Where firing goes on, from memory or in the store, after the other one did it.
    pub fn next_in_memory(&self, now: Timestamp) -> Next {
        if self.state.next_slot_at.is_some() { self.plan_kept() } else { self.plan_next(now) }
    }

    /// A range without the slots that the ledger holds already: what is left of it, in order of time.
    ///
    /// The plan knows every slot that was decided with it. Those that were fired from memory it does not know, and
    /// each slot has one record.
    pub fn without_decided(&self, range: &DecidedSlot, decided: &[DecidedRange]) -> Vec<DecidedSlot> {
        let Ok(slots) = self.slots() else { return vec![range.clone()] };
        let floor = self.known_up_to(range.slot_at);
        let mut pieces = Vec::new();
        let mut begin = Some(range.slot_at);
        for (from, through) in decided {
            let before = from.saturating_sub(SignedDuration::from_micros(1)).unwrap_or(*from);
            pieces.extend(piece(&slots, range, begin, before, floor));
            begin = slots.next_after(floor.max(*through)).filter(|next| *next <= range.through);
        }
        pieces.extend(piece(&slots, range, begin, range.through, floor));
        pieces
    }

    /// The latest slot from some slot on of which the plan knows that it was decided; a range leaves those out by itself.
    pub fn known_up_to(&self, slot_at: Timestamp) -> Timestamp {
        self.state.last_slot_at.map_or(slot_at, |last| last.max(slot_at))
    }

    /// Where the ledger must be looked at before this schedule is fired: when several slots are to fire in one pass, and
    /// the job of one keeps the next from firing. If somebody else has decided the one meanwhile, no job is made of it
    /// here, and nothing keeps the next.
    pub fn due_beside_ledger(&self, now: Timestamp) -> Option<DecidedRange> {
        let definition = &self.definition;
        let several = matches!(definition.missed, Missed::All { .. });
        let counts = match definition.overlap {
            Overlap::Forbid | Overlap::QueueOne => true,
            Overlap::Allow => definition.max_concurrent_runs.is_some(),
            Overlap::Replace => false,
        };
        let first = self.trusted_next().filter(|next| several && counts && next.run_at <= now)?.slot_at;
        let second = self.slots().ok()?.next_after(self.known_up_to(first))?;
        (second <= now).then_some((first, now))
    }

    /// What is wrong with a schedule that was fired under a clock far ahead of the present one: nothing fires up to
    /// its last decided slot, because no slot fires twice.
    pub fn stuck_ahead(&self, now: Timestamp) -> Option<String> {
        let through = self.state.fired_through?;
        let stuck = through.duration_since(now) > AHEAD_MAX;
        stuck.then(|| {
            format!(
                "its slots are decided up to {through}, which is far ahead of the store's clock; nothing fires until \
                 then, so check that clock, or delete the schedule and make it again"
            )
        })
    }
}

/// A part of a range, from one of its slots up to an instant.
fn piece(
    slots: &Slots<'_>, range: &DecidedSlot, begin: Option<Timestamp>, until: Timestamp, floor: Timestamp,
) -> Option<DecidedSlot> {
    let slot_at = begin.filter(|begin| *begin <= until)?;
    let floor = floor.max(slot_at);
    let through = slots.latest_at_or_before(until).filter(|slot| *slot > floor).unwrap_or(slot_at);
    Some(DecidedSlot { slot_at, through, count: 1 + slots.count_between(floor, through), ..range.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ScheduleId;
    use crate::name::Name;
    use crate::schedule::{Missed, ScheduleDefinition, ScheduleResults, ScheduleState};
    use crate::slot::Decision;
    use crate::target::Target;
    use crate::timing::TimingSpec;

    fn at(text: &str) -> Timestamp {
        format!("2026-03-01T{text}Z").parse().unwrap()
    }

    fn minutely() -> Schedule {
        let timing = TimingSpec::cron("* * * * *", "UTC");
        let definition = ScheduleDefinition::new(Name::new("m").unwrap(), timing, Target::command(["true"]));
        Schedule {
            id: ScheduleId(uuid::Uuid::from_u128(1)),
            version: 1,
            created_at: at("00:00:00"),
            updated_at: at("00:00:00"),
            anchor_at: at("00:00:00"),
            seed: "m".into(),
            definition: ScheduleDefinition { missed: Missed::ONCE, ..definition },
            state: ScheduleState {
                enabled: true,
                next_slot_at: Some(at("10:01:00")),
                next_run_at: Some(at("10:01:00")),
                last_slot_at: Some(at("10:00:00")),
                fired_through: Some(at("10:00:00")),
                ..ScheduleState::default()
            },
            results: ScheduleResults::default(),
        }
    }

    /// What is left of the slots 10:01 to 10:09, as first, last and count.
    fn left(decided: &[(&str, &str)]) -> Vec<(Timestamp, Timestamp, u64)> {
        let firing = minutely().fire(at("10:10:00"), &Facts::default());
        let range = firing.slots.iter().find(|slot| slot.decision == Decision::Missed).unwrap();
        assert_eq!((range.slot_at, range.through, range.count), (at("10:01:00"), at("10:09:00"), 9));
        let decided: Vec<_> = decided.iter().map(|(from, through)| (at(from), at(through))).collect();
        let pieces = minutely().without_decided(range, &decided);
        pieces.iter().map(|piece| (piece.slot_at, piece.through, piece.count)).collect()
    }

    #[test]
    fn d08_a_range_leaves_out_what_was_fired_from_memory() {
        assert_eq!(left(&[]), [(at("10:01:00"), at("10:09:00"), 9)]);
        assert_eq!(left(&[("10:01:00", "10:01:00")]), [(at("10:02:00"), at("10:09:00"), 8)]);
        assert_eq!(left(&[("10:09:00", "10:09:00")]), [(at("10:01:00"), at("10:08:00"), 8)]);
        let (first, second) = ((at("10:01:00"), at("10:03:00"), 3), (at("10:07:00"), at("10:09:00"), 3));
        assert_eq!(left(&[("10:04:00", "10:05:00"), ("10:06:00", "10:06:00")]), [first, second]);
        assert_eq!(left(&[("10:01:00", "10:09:00")]), []);
    }

    #[test]
    fn d08_a_schedule_in_memory_moves_on_like_its_plan() {
        let now = at("10:05:00");
        let firing = minutely().fire(now, &Facts::default());
        let moved = minutely().moved_on(&firing, now);
        assert_eq!(moved.state.next_slot_at, Some(at("10:06:00")));
        assert_eq!((moved.state.last_slot_at, moved.state.fired_through), (Some(now), Some(now)));
        let idle = moved.fire(at("10:05:59"), &Facts::default());
        assert_eq!(idle.slots, [], "nothing is decided twice");
    }

    #[test]
    fn d14_a_clock_that_was_years_ahead_is_told_and_one_that_was_minutes_ahead_is_not() {
        let schedule = minutely();
        assert_eq!(schedule.stuck_ahead(at("09:30:00")), None);
        let years_before = "2020-01-01T00:00:00Z".parse().unwrap();
        assert!(schedule.stuck_ahead(years_before).unwrap().contains("2026-03-01T10:00:00Z"));
    }
}
