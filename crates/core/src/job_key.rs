//! Job keys: a name under which at most one job waits, so that a second call replaces the first or gives way to it.

use crate::invalid::Invalid;
use crate::job::NewJob;
use crate::words::words;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

words! {
    /// What happens when a job with the same key is there already.
    pub enum JobKeyMode as "job key mode" {
        /// One that waits is replaced: the latest call wins. Called again and again, it runs once, after the last call
        /// (debounce). One that runs is left alone, and the new job follows it or runs beside it.
        Replace = "replace",
        /// The same, but at the time for which the one that waits was planned (throttle).
        PreserveRunAt = "preserve_run_at",
        /// The one that is there, waiting or running, stays as it is, and nothing is made. Unsafe, because a job that
        /// runs may have read its data before the new call was made.
        UnsafeDedupe = "unsafe_dedupe",
    }
}

/// A job's key, and what it does to a job that has the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobKey {
    /// The key.
    pub key: String,
    /// What happens to a job that is there already.
    pub mode: JobKeyMode,
}

impl JobKey {
    /// A key in the usual mode: the latest call wins.
    pub fn new(key: impl Into<String>) -> Self {
        Self { key: key.into(), mode: JobKeyMode::Replace }
    }
}

/// The last job of a key's chain, as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHolder {
    /// Nobody, or somebody who has ended.
    Nobody,
    /// A job that has not started.
    Waiting {
        /// When it was to start; `None` when that time has come.
        run_at: Option<Timestamp>,
    },
    /// A job that runs.
    Running,
}

/// What becomes of a new job with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDecision {
    /// It is made.
    Make,
    /// It is made, and the one that waits is closed as `replaced`.
    Replace {
        /// When the new one is to start.
        run_at: Option<Timestamp>,
    },
    /// Nothing is made: the one that is there is the answer.
    Keep,
}

/// Decides about a new job with a key. PostgreSQL repeats this rule in its function `enqueue`, for callers of any
/// language; the conformance suite compares the two.
pub fn decide(mode: JobKeyMode, run_at: Option<Timestamp>, holder: KeyHolder) -> KeyDecision {
    match (mode, holder) {
        (_, KeyHolder::Nobody) | (JobKeyMode::Replace | JobKeyMode::PreserveRunAt, KeyHolder::Running) => {
            KeyDecision::Make
        }
        (JobKeyMode::UnsafeDedupe, _) => KeyDecision::Keep,
        (JobKeyMode::Replace, KeyHolder::Waiting { .. }) => KeyDecision::Replace { run_at },
        (JobKeyMode::PreserveRunAt, KeyHolder::Waiting { run_at }) => KeyDecision::Replace { run_at },
    }
}

/// Refuses a batch of which one could never run, or that uses a key twice.
pub fn check_batch(jobs: &[NewJob]) -> Result<(), Invalid> {
    jobs.iter().try_for_each(NewJob::validate)?;
    refuse_twice(jobs)
}

/// Refuses a batch that uses a key twice: one of the two would replace the other before anybody saw it.
pub fn refuse_twice(jobs: &[NewJob]) -> Result<(), Invalid> {
    let mut seen = BTreeSet::new();
    match jobs.iter().filter_map(|job| job.job_key.as_ref()).find(|key| !seen.insert(key.key.as_str())) {
        None => Ok(()),
        Some(twice) => Err(Invalid::new("job_key", format!("`{}` stands in this batch twice", twice.key))
            .remedy("send one job for each key")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c05_a_key_decides_by_its_mode_and_by_who_holds_it() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let waiting = KeyHolder::Waiting { run_at: at(5) };
        for (mode, holder, decision) in [
            (JobKeyMode::Replace, KeyHolder::Nobody, KeyDecision::Make),
            (JobKeyMode::Replace, waiting, KeyDecision::Replace { run_at: at(9) }),
            (JobKeyMode::Replace, KeyHolder::Running, KeyDecision::Make),
            (JobKeyMode::PreserveRunAt, waiting, KeyDecision::Replace { run_at: at(5) }),
            (JobKeyMode::PreserveRunAt, KeyHolder::Running, KeyDecision::Make),
            (JobKeyMode::UnsafeDedupe, KeyHolder::Nobody, KeyDecision::Make),
            (JobKeyMode::UnsafeDedupe, waiting, KeyDecision::Keep),
            (JobKeyMode::UnsafeDedupe, KeyHolder::Running, KeyDecision::Keep),
        ] {
            assert_eq!(decide(mode, at(9), holder), decision, "{mode} {holder:?}");
        }
    }
}
