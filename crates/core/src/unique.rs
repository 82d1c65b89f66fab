//! Unique jobs: made once in a period, whoever asks for them and however often.
//!
//! A job key looks at what waits or runs; uniqueness looks at a period of time, also behind a job that has ended.

use crate::duration;
use crate::id::JobId;
use crate::invalid::Invalid;
use crate::job::{JobState, NewJob};
use crate::name;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// The states in which an earlier job stands for a new one, unless others are named: everything but an end without
/// success, after which somebody who asks again wants it done.
pub const USUAL_STATES: [JobState; 5] =
    [JobState::Waiting, JobState::Scheduled, JobState::Queued, JobState::Running, JobState::Completed];

/// What makes two jobs the same, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unique {
    /// Jobs with the same key are the same. Without one, those with the same target, input, queue and owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// For how long, from the making of the first.
    #[serde(with = "duration::text")]
    pub period: SignedDuration,
    /// Only while the first, or the last of its retries, is in one of these states; see [`USUAL_STATES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<Vec<JobState>>,
}

impl Unique {
    /// Once in a period, by target, input, queue and owner.
    pub fn for_period(period: SignedDuration) -> Self {
        Self { key: None, period, states: None }
    }

    /// Once in a period, by a key.
    pub fn by_key(key: impl Into<String>, period: SignedDuration) -> Self {
        Self { key: Some(key.into()), ..Self::for_period(period) }
    }

    /// Refuses what the stores could not keep, and what would never count.
    pub fn validate(&self) -> Result<(), Invalid> {
        if let Some(key) = &self.key {
            name::check(key).map_err(|e| Invalid { field: "unique.key".into(), ..e })?;
        }
        duration::check("unique.period", self.period)?;
        if self.states.as_ref().is_some_and(Vec::is_empty) {
            return Err(Invalid::new("unique.states", "is empty, so that no job would ever count")
                .remedy("leave it out for the usual ones"));
        }
        Ok(())
    }

    /// The key under which a job is found again.
    pub fn key_of(&self, job: &NewJob) -> String {
        if let Some(key) = &self.key {
            return key.clone();
        }
        let target = serde_json::to_string(&job.target).unwrap_or_default();
        let mut hash = Sha256::new();
        for part in [target.as_str(), job.input.as_str(), &job.queue, job.owner.as_deref().unwrap_or_default()] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        hash.finalize().iter().fold("sha256:".to_owned(), |mut text, byte| {
            let _infallible = write!(text, "{byte:02x}");
            text
        })
    }

    /// The states that count.
    pub fn states(&self) -> &[JobState] {
        self.states.as_deref().unwrap_or(&USUAL_STATES)
    }

    /// Until when a job that is made now takes the key.
    pub fn until(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(self.period).unwrap_or(Timestamp::MAX)
    }

    /// Whether the job that took the key stands for a new one. PostgreSQL repeats this rule in its function
    /// `enqueue_once`; the conformance suite compares the two.
    pub fn is_taken(&self, until: Timestamp, now: Timestamp, state: JobState) -> bool {
        now < until && self.states().contains(&state)
    }
}

/// A job that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    /// The job that was made, or the one that stands for it.
    pub id: JobId,
    /// Whether it was made now; false when an earlier one stands for it.
    pub is_new: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::target::Target;

    fn hour() -> Unique {
        Unique::for_period(SignedDuration::from_hours(1))
    }

    #[test]
    fn c18_a_key_is_taken_for_its_period_and_in_its_states() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let until = hour().until(at(0));
        assert_eq!(until, at(3600));
        for state in JobState::ALL {
            assert_eq!(hour().is_taken(until, at(3599), *state), USUAL_STATES.contains(state), "{state}");
            assert!(!hour().is_taken(until, at(3600), *state), "the period is over");
        }
        let until_it_ends = Unique { states: Some(vec![JobState::Queued]), ..hour() };
        assert!(until_it_ends.is_taken(until, at(1), JobState::Queued));
        assert!(!until_it_ends.is_taken(until, at(1), JobState::Completed));
    }

    #[test]
    fn c18_without_a_key_jobs_are_the_same_by_what_they_do() {
        let job = NewJob::new(Target::task("mail"));
        let key = |job: &NewJob| hour().key_of(job);
        assert_eq!(key(&job), key(&NewJob { priority: 7, ..job.clone() }));
        let others = [
            NewJob { input: Json::parse("input", "1").unwrap(), ..job.clone() },
            NewJob { queue: "q".into(), ..job.clone() },
            NewJob { owner: Some("ada".into()), ..job.clone() },
            NewJob::new(Target::task("post")),
        ];
        for other in others {
            assert_ne!(key(&job), key(&other), "{other:?}");
        }
        assert_eq!(Unique::by_key("k", SignedDuration::from_secs(1)).key_of(&job), "k");
    }

    #[test]
    fn c18_uniqueness_that_makes_no_sense_is_refused() {
        assert_eq!(hour().validate(), Ok(()));
        let fields = [
            (Unique { period: SignedDuration::ZERO, ..hour() }, "unique.period"),
            (Unique { key: Some(String::new()), ..hour() }, "unique.key"),
            (Unique { states: Some(vec![]), ..hour() }, "unique.states"),
        ];
        for (unique, field) in fields {
            assert_eq!(unique.validate().unwrap_err().field, field);
        }
    }
}
