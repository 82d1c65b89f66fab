//! Which schedules somebody could run: the rule about targets that no live node offers (E06), and the verb for it.
//!
//! A schedule whose target nobody offers is marked, and while it is marked nothing of it is fired: its slots wait. When
//! a node offers the target again, the mark goes, and the missed policy decides about the slots that waited, as it does
//! after any other downtime. Jobs that were made before the mark wait in their queue, but not for ever.

use crate::firing::{Next, NextSlot};
use crate::id::JobId;
use crate::schedule::{Missed, Schedule};
use crate::store::StoreResult;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// How long a job of a marked schedule waits for a node when its missed policy sets no window.
pub const PATIENCE: SignedDuration = SignedDuration::from_hours(24);

/// What becomes of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Leave,
    /// Nobody offers its target: it is marked, with these words.
    Mark(String),
    /// Somebody offers its target again: this is its plan.
    Clear(Next),
}

impl Schedule {
    /// Judges a schedule by the job types that live nodes offer.
    pub fn judge_offers(&self, offered: &BTreeSet<String>) -> Verdict {
        let job_type = self.definition.target.job_type();
        match (offered.contains(&job_type), self.state.no_executor_since) {
            (true, Some(_)) => Verdict::Clear(self.plan_kept()),
            (false, None) if self.state.is_fired_by_store() && self.state.next_slot_at.is_some() => {
                Verdict::Mark(format!("no executor: no live node offers `{job_type}`; start one that does"))
            }
            _ => Verdict::Leave,
        }
    }

    /// The plan of the slot that was kept while nothing could be due, by a pause or by a mark.
    pub fn plan_kept(&self) -> Next {
        let slots = match self.slots() {
            Ok(slots) => slots,
            Err(problem) => return Next::Problem(problem.to_string()),
        };
        let Some(slot_at) = self.state.next_slot_at else { return Next::Exhausted };
        // A slot that somebody chose by hand has no jitter of its own.
        let own = slots.latest_at_or_before(slot_at) == Some(slot_at);
        let run_at = if own { slots.due_at(slot_at) } else { slot_at };
        Next::Slot(NextSlot { slot_at, run_at })
    }
}

/// Whether a job of a marked schedule has waited long enough for a node that could run it: for as long as its missed
/// policy would still have it run, or for a day.
pub fn gives_up(missed: Missed, marked_at: Timestamp, made_at: Timestamp, now: Timestamp) -> bool {
    let since = marked_at.max(made_at);
    now.duration_since(since) > missed.window().unwrap_or(PATIENCE)
}

/// The words with which such a job ends.
pub fn given_up_error(job_type: &str) -> String {
    format!("no live node has offered `{job_type}` for as long as the schedule's missed policy lets a run wait")
}

/// What one call of `settle_offers` did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OffersSettled {
    /// Schedules whose target nobody offers any more.
    pub marked: usize,
    /// Schedules whose target somebody offers again.
    pub cleared: usize,
    /// Jobs that waited too long for a node, and were closed as failed (`no_executor`).
    pub given_up: Vec<JobId>,
}

impl OffersSettled {
    /// Whether anything was changed.
    pub fn changed_anything(&self) -> bool {
        self.marked + self.cleared + self.given_up.len() > 0
    }
}

/// The part of the store that compares what schedules need with what live nodes offer.
#[async_trait]
pub trait Offers: Send + Sync {
    /// Marks schedules whose target no live node offers, clears the mark of those whose target is offered again, and
    /// ends the jobs of marked ones that have waited too long; at most `limit` of each.
    async fn settle_offers(&self, limit: usize) -> StoreResult<OffersSettled>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn e06_a_job_waits_for_a_node_as_long_as_its_missed_policy_lets_it_or_a_day() {
        let day = PATIENCE.as_secs();
        assert!(!gives_up(Missed::SKIP, at(100), at(0), at(160)));
        assert!(gives_up(Missed::SKIP, at(100), at(0), at(161)));
        assert!(!gives_up(Missed::SKIP, at(100), at(150), at(210)), "it was made after the mark");
        assert!(!gives_up(Missed::ONCE, at(0), at(0), at(day)));
        assert!(gives_up(Missed::all(5), at(0), at(0), at(day + 1)));
    }
}
