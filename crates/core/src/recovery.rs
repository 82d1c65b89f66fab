//! The recovery matrix: what to do about a job, given only where its rows are (C09, C10).
//!
//! It is a total function: every combination of rows has an answer, also those that the layout makes impossible,
//! because a restored backup or a hand-edited table may hold them.

use crate::run::ErrorCode;

/// What was found of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Whether it is claimed, and whether the claim still counts.
    pub claim: Claim,
    /// Whether it waits in `delayed` or `queue`.
    pub waits: bool,
    /// Whether a closed run exists, and what should follow it.
    pub run: ClosedRun,
}

/// A job's row in `running`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// There is none.
    None,
    /// Its node still renews its lease.
    Live,
    /// Its node is gone.
    Lost,
}

/// A job's row in `runs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedRun {
    /// There is none.
    None,
    /// It ended, and nothing has to follow.
    Settled,
    /// It failed, its policy wants a retry, and there is none (C10).
    RetryMissing,
}

/// What is to be done, all of it in one transaction. Doing it twice does nothing the second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repair {
    /// Take the row out of `running`.
    pub drop_claim: bool,
    /// Take the row out of `delayed` and `queue`.
    pub drop_waiting: bool,
    /// Write a failed run with this code; the retry policy then decides, and the failure is announced.
    pub close_as: Option<ErrorCode>,
    /// Make the retry that is missing.
    pub create_retry: bool,
}

/// Judges one job.
///
/// ```
/// use punctual_core::recovery::{judge, Claim, ClosedRun, Found};
/// use punctual_core::run::ErrorCode;
/// let orphan = Found { claim: Claim::Lost, waits: false, run: ClosedRun::None };
/// assert_eq!(judge(orphan).close_as, Some(ErrorCode::NodeLost));
/// ```
pub fn judge(found: Found) -> Repair {
    match (found.run, found.claim) {
        // The run ended: whatever else stands there is left over, and the job is closed.
        (ClosedRun::Settled | ClosedRun::RetryMissing, claim) => Repair {
            drop_claim: claim != Claim::None,
            drop_waiting: found.waits,
            close_as: None,
            create_retry: found.run == ClosedRun::RetryMissing,
        },
        // Its node is gone: the run failed. A second row that waits must not run it again.
        (ClosedRun::None, Claim::Lost) => Repair {
            drop_claim: true,
            drop_waiting: found.waits,
            close_as: Some(ErrorCode::NodeLost),
            create_retry: false,
        },
        (ClosedRun::None, Claim::Live) => Repair { drop_waiting: found.waits, ..Repair::default() },
        (ClosedRun::None, Claim::None) if found.waits => Repair::default(),
        // It is nowhere: no record of a run was ever written, so one is written now.
        (ClosedRun::None, Claim::None) => Repair { close_as: Some(ErrorCode::NodeLost), ..Repair::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_case() -> impl Iterator<Item = Found> {
        let claims = [Claim::None, Claim::Live, Claim::Lost];
        let runs = [ClosedRun::None, ClosedRun::Settled, ClosedRun::RetryMissing];
        claims.into_iter().flat_map(move |claim| {
            runs.into_iter().flat_map(move |run| [false, true].map(move |waits| Found { claim, waits, run }))
        })
    }

    /// What is found after the repair, the retry policy apart.
    fn after(found: Found, repair: Repair) -> Found {
        Found {
            claim: if repair.drop_claim { Claim::None } else { found.claim },
            waits: found.waits && !repair.drop_waiting,
            run: match found.run {
                ClosedRun::None if repair.close_as.is_some() => ClosedRun::Settled,
                ClosedRun::RetryMissing if repair.create_retry => ClosedRun::Settled,
                run => run,
            },
        }
    }

    #[test]
    fn c09_every_case_ends_in_exactly_one_place_and_a_second_judgement_does_nothing() {
        assert_eq!(every_case().count(), 18);
        for found in every_case() {
            let repaired = after(found, judge(found));
            let places = u8::from(repaired.claim != Claim::None)
                + u8::from(repaired.waits)
                + u8::from(repaired.run != ClosedRun::None);
            assert_eq!(places, 1, "{found:?}");
            assert_eq!(judge(repaired), Repair::default(), "{found:?}");
        }
    }

    #[test]
    fn c09_a_finished_run_is_never_overwritten() {
        for found in every_case().filter(|f| f.run != ClosedRun::None) {
            assert_eq!(judge(found).close_as, None, "{found:?}");
        }
    }

    #[test]
    fn c09_a_live_claim_is_left_alone() {
        for found in every_case().filter(|f| f.claim == Claim::Live && f.run == ClosedRun::None) {
            assert!(!judge(found).drop_claim, "{found:?}");
        }
    }

    #[test]
    fn c10_a_missing_retry_is_made_once() {
        for found in every_case() {
            assert_eq!(judge(found).create_retry, found.run == ClosedRun::RetryMissing, "{found:?}");
        }
    }
}
