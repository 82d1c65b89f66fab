//! Backfill: running the past slots of a schedule that have no success, each at most once, slowly and with consent (A22).
//!
//! The store keeps how far a backfill has come and moves on in the transaction that makes the jobs, so that a crash
//! neither loses a slot nor runs one twice. Which slots are gaps is decided when their turn comes.

use crate::calendar::Calendar;
use crate::id::{BackfillId, JobId, ScheduleId};
use crate::invalid::Invalid;
use crate::job::{NewJob, Origin};
use crate::run::Trigger;
use crate::schedule::Schedule;
use crate::store::StoreResult;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// The most slots of one backfill: what somebody can have looked at before he agreed.
pub const SLOTS_MAX: u64 = 100_000;

/// How many of the slots that would run are told.
const FIRST: usize = 20;

/// The most slots that are looked at in one transaction.
pub const STEP_MAX: usize = 200;

/// How far below the schedule's own priority the jobs of a backfill go, unless somebody says otherwise: what is due now
/// goes first.
const PRIORITY_BELOW: i32 = 100;

/// A backfill that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBackfill {
    /// Of which schedule.
    pub schedule_id: ScheduleId,
    /// From this instant on.
    pub from: Timestamp,
    /// Up to this instant, which is not one of them.
    pub until: Timestamp,
    /// The priority of its jobs; below the schedule's own when absent.
    pub priority: Option<i32>,
    /// The most jobs that it makes in a minute; as fast as it goes when absent.
    pub per_minute: Option<u32>,
    /// Who asks.
    pub by: Option<String>,
}

impl NewBackfill {
    /// Refuses what makes no sense, seen from the present.
    pub fn validate(&self, now: Timestamp) -> Result<(), Invalid> {
        if self.from >= self.until {
            return Err(Invalid::new("until", "is not behind `from`").remedy("give a range with from before until"));
        }
        if self.until > now {
            let remedy = "end it in the past; what lies ahead fires by itself";
            return Err(Invalid::new("until", format!("{} lies ahead", self.until)).remedy(remedy));
        }
        if self.per_minute == Some(0) {
            return Err(Invalid::new("per_minute", "must be 1 or more").remedy("leave it out to go as fast as it goes"));
        }
        Ok(())
    }

    /// Refuses a range of which the ledger has forgotten a part: what ran there is not known any more.
    pub fn check_kept(&self, forgotten_before: Timestamp) -> Result<(), Invalid> {
        if self.from >= forgotten_before {
            return Ok(());
        }
        Err(Invalid::new("from", format!("what ran before {forgotten_before} is forgotten, and might run twice"))
            .remedy(format!("begin at {forgotten_before} or later, or keep history longer with --keep-runs")))
    }
}

/// A backfill and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backfill {
    /// Its identity, which is in order of time.
    pub id: BackfillId,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// What was asked for.
    pub asked: NewBackfill,
    /// Everything before this instant is done.
    pub next_at: Timestamp,
    /// How many jobs it made.
    pub made: u64,
    /// How many slots it left alone, because they had run, are running, or are closed by the calendar.
    pub passed: u64,
    /// When it came to its end, or was cancelled.
    pub ended_at: Option<Timestamp>,
    /// Whether somebody cancelled it.
    pub cancelled: bool,
}

/// What a backfill would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackfillPreview {
    /// How many slots lie in the range.
    pub slots: u64,
    /// How many of them would run.
    pub gaps: u64,
    /// The first of those that would run.
    pub first: Vec<Timestamp>,
}

impl BackfillPreview {
    /// A preview of so many slots, unless they are more than one backfill may have.
    pub fn of(slots: u64) -> Result<Self, Invalid> {
        if slots <= SLOTS_MAX {
            return Ok(Self { slots, ..Self::default() });
        }
        let told = format!("the range has {slots} slots, and {SLOTS_MAX} are the most");
        Err(Invalid::new("until", told).remedy("choose a shorter range"))
    }

    /// Counts what would run of a step.
    pub fn count(&mut self, step: &Step, filled: &BTreeSet<Timestamp>) {
        let gaps: Vec<Timestamp> = step.slots.iter().copied().filter(|slot| !filled.contains(slot)).collect();
        self.gaps += gaps.len() as u64;
        let room = FIRST.saturating_sub(self.first.len());
        self.first.extend(gaps.into_iter().take(room));
    }
}

/// What one step made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Advanced {
    /// The jobs that it made.
    pub jobs: Vec<JobId>,
    /// How many backfills came to their end.
    pub ended: usize,
    /// When there is something to do again: now, in a while because of a throttle, or not at all.
    pub again_in: Option<SignedDuration>,
}

/// A part of a backfill's range that is done in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The slots of the part, in order.
    pub slots: Vec<Timestamp>,
    /// Where the next part begins.
    pub next_at: Timestamp,
    /// Whether this is the last one.
    pub is_last: bool,
}

impl Step {
    /// Those of its slots at which a calendar lets nothing run; a backfill leaves them alone.
    pub fn closed<'a>(&'a self, calendar: Option<&'a Calendar>) -> impl Iterator<Item = Timestamp> + 'a {
        let closed = move |slot: &Timestamp| calendar.is_some_and(|calendar| calendar.excludes(*slot));
        self.slots.iter().copied().filter(closed)
    }
}

impl Schedule {
    /// The next slots of a range, at most so many. Only slots that firing is done with: whatever comes behind them
    /// fires by itself.
    pub fn backfill_step(
        &self, asked: &NewBackfill, from: Timestamp, now: Timestamp, limit: usize,
    ) -> Result<Step, Invalid> {
        let slots = self.slots()?;
        let end = self.backfill_end(asked, now);
        let before = from.saturating_sub(SignedDuration::from_micros(1)).unwrap_or(from);
        let ahead = std::iter::successors(slots.next_after(before), |slot| slots.next_after(*slot));
        let mut found: Vec<Timestamp> = ahead.take_while(|slot| *slot < end).take(limit + 1).collect();
        match found.get(limit).copied() {
            Some(next_at) => {
                found.truncate(limit);
                Ok(Step { slots: found, next_at, is_last: false })
            }
            None => Ok(Step { slots: found, next_at: end.max(from), is_last: true }),
        }
    }

    /// How many slots a range has.
    pub fn backfill_count(&self, asked: &NewBackfill, now: Timestamp) -> Result<u64, Invalid> {
        let slots = self.slots()?;
        let just_before = |at: Timestamp| at.saturating_sub(SignedDuration::from_micros(1)).unwrap_or(at);
        let (after, until) = (just_before(asked.from), just_before(self.backfill_end(asked, now)));
        Ok(if until <= after { 0 } else { slots.count_between(after, until) })
    }

    fn backfill_end(&self, asked: &NewBackfill, now: Timestamp) -> Timestamp {
        let undecided = self.state.next_slot_at.unwrap_or(Timestamp::MAX);
        asked.until.min(undecided).min(now)
    }

    /// The job for one slot of a backfill.
    pub fn backfill_job(&self, asked: &NewBackfill, slot_at: Timestamp) -> (NewJob, Origin) {
        let detail = Some(self.definition.timing.text());
        let mut spec = NewJob::of_schedule(self, Trigger::Backfill, detail, self.definition.serial);
        spec.priority = asked.priority.unwrap_or_else(|| self.definition.priority.saturating_sub(PRIORITY_BELOW));
        (spec, Origin { schedule_id: Some(self.id), slot_at: Some(slot_at), chain: None })
    }
}

impl Backfill {
    /// How many jobs its throttle allows now, and how long to wait when that is none.
    pub fn allowed(&self, now: Timestamp) -> Result<usize, SignedDuration> {
        let Some(per_minute) = self.asked.per_minute else { return Ok(STEP_MAX) };
        let per_minute = u64::from(per_minute);
        let elapsed = u64::try_from(now.duration_since(self.created_at).as_micros()).unwrap_or(0);
        // The first one at once.
        let so_far = 1 + u64::try_from(u128::from(elapsed) * u128::from(per_minute) / 60_000_000).unwrap_or(u64::MAX);
        match usize::try_from(so_far.saturating_sub(self.made)) {
            Ok(0) => {
                let due = u128::from(self.made) * 60_000_000 / u128::from(per_minute) + 1;
                let wait = u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(elapsed);
                Err(SignedDuration::from_micros(i64::try_from(wait).unwrap_or(i64::MAX).max(1)))
            }
            Ok(free) => Ok(free.min(STEP_MAX)),
            Err(_) => Ok(STEP_MAX),
        }
    }

    /// What is left to run of some slots: those that are not filled, as far as the throttle allows. Answers with the
    /// slots that run and how many were passed over, up to the slot at which the throttle stops, if it does.
    pub fn choose(
        &self, step: &Step, filled: &BTreeSet<Timestamp>, allowed: usize,
    ) -> (Vec<Timestamp>, u64, Option<Timestamp>) {
        let (mut run, mut passed) = (Vec::new(), 0);
        for slot in &step.slots {
            if filled.contains(slot) {
                passed += 1;
            } else if run.len() == allowed {
                return (run, passed, Some(*slot));
            } else {
                run.push(*slot);
            }
        }
        (run, passed, None)
    }
}

/// The part of the store that makes up for the past.
#[async_trait]
pub trait Backfills: Send + Sync {
    /// What a backfill would do; nothing is written.
    async fn preview_backfill(&self, asked: &NewBackfill) -> StoreResult<BackfillPreview>;

    /// Begins a backfill. It goes on by [`advance_backfills`](Self::advance_backfills), whoever calls that.
    async fn create_backfill(&self, asked: NewBackfill) -> StoreResult<Backfill>;

    /// One backfill.
    async fn backfill(&self, id: BackfillId) -> StoreResult<Option<Backfill>>;

    /// Backfills, latest first, of one schedule or of all.
    async fn backfills(
        &self, schedule: Option<ScheduleId>, before: Option<BackfillId>, limit: usize,
    ) -> StoreResult<Vec<Backfill>>;

    /// Stops a backfill; what it has made goes on. One that has ended stays as it is.
    async fn cancel_backfill(&self, id: BackfillId) -> StoreResult<Backfill>;

    /// The jobs that backfills made for a slot.
    async fn backfilled(&self, schedule: ScheduleId, slot_at: Timestamp) -> StoreResult<Vec<JobId>>;

    /// Takes the next step of the backfill that has waited longest.
    async fn advance_backfills(&self) -> StoreResult<Advanced>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-03-01T{text}Z").parse().unwrap()
    }

    fn asked(per_minute: Option<u32>) -> NewBackfill {
        NewBackfill {
            schedule_id: ScheduleId(uuid::Uuid::from_u128(1)),
            from: at("00:00:00"),
            until: at("10:00:00"),
            priority: None,
            per_minute,
            by: None,
        }
    }

    fn backfill(per_minute: Option<u32>, made: u64) -> Backfill {
        Backfill {
            id: BackfillId(uuid::Uuid::from_u128(2)),
            created_at: at("12:00:00"),
            asked: asked(per_minute),
            next_at: at("00:00:00"),
            made,
            passed: 0,
            ended_at: None,
            cancelled: false,
        }
    }

    #[test]
    fn a22_a_range_must_lie_in_the_past_and_in_what_is_known() {
        let now = at("12:00:00");
        assert_eq!(asked(None).validate(now), Ok(()));
        let backwards = NewBackfill { until: at("00:00:00"), ..asked(None) };
        assert_eq!(backwards.validate(now).unwrap_err().field, "until");
        let ahead = NewBackfill { until: at("13:00:00"), ..asked(None) };
        assert_eq!(ahead.validate(now).unwrap_err().field, "until");
        assert_eq!(asked(Some(0)).validate(now).unwrap_err().field, "per_minute");
        assert_eq!(asked(None).check_kept(at("00:00:00")), Ok(()));
        assert_eq!(asked(None).check_kept(at("00:00:01")).unwrap_err().field, "from");
    }

    #[test]
    fn a22_a_throttle_allows_so_many_in_a_minute_and_says_how_long_to_wait() {
        assert_eq!(backfill(None, 1_000_000).allowed(at("12:00:00")), Ok(STEP_MAX));
        assert_eq!(backfill(Some(6), 0).allowed(at("12:00:00")), Ok(1));
        assert_eq!(backfill(Some(6), 0).allowed(at("12:00:10")), Ok(2));
        assert_eq!(backfill(Some(6), 2).allowed(at("12:01:00")), Ok(5));
        let wait = backfill(Some(6), 1).allowed(at("12:00:00")).unwrap_err();
        assert!(wait > SignedDuration::from_secs(10) && wait < SignedDuration::from_secs(11), "{wait:?}");
        // After the wait there is one.
        let later = at("12:00:00").checked_add(wait).unwrap();
        assert_eq!(backfill(Some(6), 1).allowed(later), Ok(1));
    }

    #[test]
    fn a22_what_has_run_is_passed_over_and_a_throttle_stops_at_the_next_gap() {
        let slots: Vec<Timestamp> = (0..5).map(|hour| at(&format!("0{hour}:00:00"))).collect();
        let step = Step { slots: slots.clone(), next_at: at("05:00:00"), is_last: true };
        let filled = BTreeSet::from([slots[1]]);
        let all = backfill(None, 0).choose(&step, &filled, 10);
        assert_eq!(all, (vec![slots[0], slots[2], slots[3], slots[4]], 1, None));
        let two = backfill(None, 0).choose(&step, &filled, 2);
        assert_eq!(two, (vec![slots[0], slots[2]], 1, Some(slots[3])));
    }
}
