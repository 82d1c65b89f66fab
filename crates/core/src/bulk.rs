//! Bulk operations: cancelling, retrying or reprioritising every job that a filter finds, step by step.
//!
//! The store keeps how far an operation has come and moves on in the transaction that changes the jobs, so that a crash
//! neither leaves one out nor changes one twice. Jobs are taken in the order of their ids, and only those that were
//! there when the operation was asked for.

use crate::id::{BulkId, JobId, ScheduleId};
use crate::invalid::Invalid;
use crate::job::JobState;
use crate::name;
use crate::readings::{JobFilter, JobsIn};
use crate::run::ErrorCode;
use crate::words::words;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The most jobs that are changed in one transaction.
pub const STEP_MAX: usize = 200;

words! {
    /// What is done to each job.
    pub enum BulkAction as "bulk action" {
        /// What waits never runs, what runs is told to stop.
        Cancel = "cancel",
        /// What has ended without success is tried again.
        Retry = "retry",
        /// What is queued gets another priority, and keeps its position.
        Reprioritise = "reprioritise",
    }
}

impl BulkAction {
    /// The states it can change, in the order in which they are looked through: that of a job's life, so that a job
    /// that moves on meanwhile is met later.
    pub const fn states(self) -> &'static [JobState] {
        match self {
            Self::Cancel => &[JobState::Waiting, JobState::Scheduled, JobState::Queued, JobState::Running],
            Self::Retry => &[JobState::Failed, JobState::Skipped, JobState::Cancelled],
            Self::Reprioritise => &[JobState::Queued],
        }
    }

    /// The states that are meant when none is named. A job that somebody cancelled, or that decided not to run, is not
    /// tried again unless that is said.
    const fn usual_states(self) -> &'static [JobState] {
        match self {
            Self::Retry => &[JobState::Failed],
            Self::Cancel | Self::Reprioritise => self.states(),
        }
    }
}

/// A bulk operation that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBulk {
    /// What is done.
    pub action: BulkAction,
    /// To which jobs.
    pub filter: JobFilter,
    /// The new priority, for [`BulkAction::Reprioritise`].
    pub priority: Option<i32>,
    /// Who asks.
    pub by: Option<String>,
}

impl NewBulk {
    /// Refuses what could never do anything, and what no database could be asked for.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.states()?;
        match (self.action, self.priority) {
            (BulkAction::Reprioritise, None) => {
                return Err(Invalid::new("priority", "is missing").remedy("say which priority the jobs get"));
            }
            (BulkAction::Cancel | BulkAction::Retry, Some(_)) => {
                return Err(
                    Invalid::new("priority", format!("has no meaning for {}", self.action)).remedy("leave it out")
                );
            }
            _ => {}
        }
        if self.filter.error_code.is_some() && self.action != BulkAction::Retry {
            return Err(Invalid::new("error_code", "is had by jobs that have ended, and these cannot be changed so")
                .remedy("leave it out, or retry them"));
        }
        let JobFilter { queue, job_type, tag, owner, .. } = &self.filter;
        let texts = [("queue", queue), ("job_type", job_type), ("tag", tag), ("owner", owner), ("by", &self.by)];
        texts.into_iter().try_for_each(|(field, text)| name::check_text(field, text.as_deref().unwrap_or_default()))
    }

    /// The states that are looked through, one after the other.
    fn states(&self) -> Result<&[JobState], Invalid> {
        let able = self.action.states();
        let refused = |state: &str| {
            let words: Vec<&str> = able.iter().map(|state| state.as_str()).collect();
            Invalid::new("state", format!("a job that is {state} cannot be changed by {}", self.action))
                .remedy(format!("use one of: {}", words.join(", ")))
        };
        match self.filter.place {
            JobsIn::Anywhere => Ok(self.action.usual_states()),
            JobsIn::Ended => Err(refused("ended")),
            JobsIn::State(state) => {
                let at = able.iter().position(|able| *able == state).ok_or_else(|| refused(state.as_str()))?;
                Ok(&able[at..=at])
            }
        }
    }

    /// How its filter is stored.
    pub fn filter_document(&self) -> FilterDocument {
        let JobFilter { place, queue, job_type, schedule_id, error_code, tag, owner, since, until } =
            self.filter.clone();
        let state = match place {
            JobsIn::State(state) => Some(state),
            JobsIn::Anywhere | JobsIn::Ended => None,
        };
        FilterDocument { state, queue, job_type, schedule_id, error_code, tag, owner, since, until }
    }
}

/// A filter as it is written: under the names by which lists are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FilterDocument {
    /// In this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// Of this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Of this job type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_type: Option<String>,
    /// Made by this schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_id: Option<ScheduleId>,
    /// Whose run did not complete for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// With this tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Whose they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Made at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Made before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl FilterDocument {
    /// Whether it lets every job through.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<FilterDocument> for JobFilter {
    fn from(document: FilterDocument) -> Self {
        let FilterDocument { state, queue, job_type, schedule_id, error_code, tag, owner, since, until } = document;
        let place = state.map_or(JobsIn::Anywhere, JobsIn::State);
        Self { place, queue, job_type, schedule_id, error_code, tag, owner, since, until }
    }
}

/// How far an operation has come: in which of its states, and behind which job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkCursor {
    /// The place of the state among those that are looked through.
    pub state: u32,
    /// Jobs up to this one have been looked at in that state.
    pub after: JobId,
}

impl Default for BulkCursor {
    fn default() -> Self {
        Self { state: 0, after: JobId::from_bytes([0; 16]) }
    }
}

/// A bulk operation and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bulk {
    /// Its identity, which is in order of time.
    pub id: BulkId,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// What was asked for.
    pub asked: NewBulk,
    /// How far it is.
    pub cursor: BulkCursor,
    /// How many jobs it has changed.
    pub done: u64,
    /// How many it found and left alone, because they had moved on by then.
    pub passed: u64,
    /// When it came to its end, or was cancelled.
    pub ended_at: Option<Timestamp>,
    /// Whether somebody cancelled it.
    pub cancelled: bool,
}

/// A part of the jobs that an operation is about: those in one state, behind one id and before another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkStretch {
    /// What leads to the jobs, and what they must be.
    pub filter: JobFilter,
    /// Behind this one.
    pub after: JobId,
    /// Before this one.
    pub before: JobId,
}

impl NewBulk {
    /// What is looked through next, for an operation that was asked for at an instant; `None` at its end.
    pub fn stretch(&self, cursor: BulkCursor, created_at: Timestamp) -> Option<BulkStretch> {
        let states = self.states().ok()?;
        let state = *states.get(usize::try_from(cursor.state).ok()?)?;
        let filter = JobFilter { place: JobsIn::State(state), ..self.filter.clone() };
        let (lowest, before) = filter.id_range(Some(JobId::behind(created_at)));
        Some(BulkStretch { filter, after: cursor.after.max(lowest), before })
    }

    /// Where it goes on behind a stretch; `next` is the job at which looking stopped, if it did.
    pub fn behind(cursor: BulkCursor, next: Option<JobId>) -> BulkCursor {
        match next {
            Some(after) => BulkCursor { after, ..cursor },
            None => BulkCursor { state: cursor.state + 1, ..BulkCursor::default() },
        }
    }
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BulkStep {
    /// How many jobs it changed.
    pub done: u64,
    /// How many it left alone.
    pub passed: u64,
    /// How many operations came to their end.
    pub ended: usize,
    /// Whether there is more to do.
    pub more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(action: BulkAction, place: JobsIn) -> NewBulk {
        let priority = (action == BulkAction::Reprioritise).then_some(5);
        NewBulk { action, filter: JobFilter { place, ..JobFilter::default() }, priority, by: None }
    }

    #[test]
    fn c18_an_action_takes_only_states_that_it_can_change() {
        for action in BulkAction::ALL {
            assert_eq!(asked(*action, JobsIn::Anywhere).validate(), Ok(()));
            assert_eq!(asked(*action, JobsIn::Ended).validate().unwrap_err().field, "state");
            for state in JobState::ALL {
                let answer = asked(*action, JobsIn::State(*state)).validate();
                assert_eq!(answer.is_ok(), action.states().contains(state), "{action} {state}: {answer:?}");
            }
        }
        let nothing = NewBulk { priority: None, ..asked(BulkAction::Reprioritise, JobsIn::Anywhere) };
        assert_eq!(nothing.validate().unwrap_err().field, "priority");
        let of_error = |action| {
            let filter = JobFilter { error_code: Some(ErrorCode::Timeout), ..JobFilter::default() };
            NewBulk { filter, ..asked(action, JobsIn::Anywhere) }
        };
        assert_eq!(of_error(BulkAction::Retry).validate(), Ok(()));
        assert_eq!(of_error(BulkAction::Cancel).validate().unwrap_err().field, "error_code");
        let needless = NewBulk { priority: Some(1), ..asked(BulkAction::Cancel, JobsIn::Anywhere) };
        assert_eq!(needless.validate().unwrap_err().field, "priority");
    }

    #[test]
    fn c18_every_state_is_looked_through_once_and_only_what_was_there() {
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        let cancel = asked(BulkAction::Cancel, JobsIn::Anywhere);
        let mut cursor = BulkCursor::default();
        let mut seen = Vec::new();
        while let Some(stretch) = cancel.stretch(cursor, at) {
            assert!(JobId::at(at, [7; 8]) < stretch.before);
            assert!(JobId::at(at + jiff::SignedDuration::from_millis(1), [7; 8]) > stretch.before);
            seen.push(stretch.filter.place);
            cursor = NewBulk::behind(cursor, None);
        }
        assert_eq!(seen, BulkAction::Cancel.states().iter().copied().map(JobsIn::State).collect::<Vec<_>>());
        let half = NewBulk::behind(BulkCursor::default(), Some(JobId::at(at, [1; 8])));
        assert_eq!(cancel.stretch(half, at).unwrap().after, JobId::at(at, [1; 8]));
        let retry = asked(BulkAction::Retry, JobsIn::Anywhere);
        assert!(retry.stretch(BulkCursor { state: 1, ..BulkCursor::default() }, at).is_none(), "failed ones only");
    }

    #[test]
    fn c18_a_filter_is_read_back_as_it_was_written() {
        let bulk = NewBulk {
            filter: JobFilter {
                queue: Some("q".into()),
                error_code: Some(ErrorCode::NodeLost),
                since: Timestamp::from_second(7).ok(),
                ..asked(BulkAction::Cancel, JobsIn::State(JobState::Queued)).filter
            },
            ..asked(BulkAction::Cancel, JobsIn::Anywhere)
        };
        let text = serde_json::to_string(&bulk.filter_document()).unwrap();
        let read: FilterDocument = serde_json::from_str(&text).unwrap();
        assert_eq!(JobFilter::from(read.clone()), bulk.filter);
        assert!(!read.is_empty() && FilterDocument::default().is_empty());
    }
}
