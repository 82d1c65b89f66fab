//! What people may be told of: events that happened once, and findings that hold as long as they are found.

use super::rule::{Scope, Trigger};
use crate::id::JobId;
use crate::run::ErrorCode;
use crate::words::words;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

words! {
    /// What can be in trouble.
    pub enum SubjectKind as "kind of subject" {
        /// A schedule.
        Schedule = "schedule",
        /// The jobs of a queue and a job type that no schedule made.
        Jobs = "jobs",
        /// A queue.
        Queue = "queue",
        /// A node.
        Node = "node",
        /// The database.
        Database = "database",
    }
}

/// What is in trouble.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// What it is.
    pub kind: SubjectKind,
    /// What it is known by: a schedule's or a node's id, a queue's name.
    pub key: String,
    /// What people call it.
    pub name: String,
}

impl Subject {
    /// Two subjects of different kinds have different marks.
    pub(crate) fn mark(&self) -> String {
        format!("{}:{}", self.kind, self.key)
    }
}

/// Where something happened, as far as a rule's scope asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The schedule's name.
    pub schedule: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The queue.
    pub queue: Option<String>,
}

impl Place {
    /// Whether a rule with this scope looks here. What is nowhere in particular concerns rules for all alone.
    pub fn is_in(&self, scope: &Scope) -> bool {
        let schedule = scope.schedule.as_ref().is_none_or(|name| self.schedule.as_deref() == Some(name.as_str()));
        let queue = scope.queue.as_ref().is_none_or(|name| self.queue.as_ref() == Some(name));
        let label = scope.label.as_ref().is_none_or(|label| {
            let (key, value) = label.split_once('=').map_or((label.as_str(), None), |(key, value)| (key, Some(value)));
            self.labels.get(key).is_some_and(|has| value.is_none_or(|value| has == value))
        });
        schedule && queue && label
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// A job failed, and nothing follows.
    Failed,
    /// A schedule succeeded after a failure that was told.
    Recovered,
    /// Slots passed without a run.
    SlotsMissed {
        /// So many.
        count: u64,
    },
    /// A node was given up.
    NodeLost,
    /// The database's clock jumped.
    ClockJumped,
}

impl Happening {
    /// The rules that it concerns.
    pub fn concerns(self, trigger: Trigger) -> bool {
        match self {
            Self::Failed => matches!(trigger, Trigger::Failure | Trigger::FailuresInARow),
            Self::Recovered => matches!(trigger, Trigger::Failure | Trigger::FailuresInARow | Trigger::Recovery),
            Self::SlotsMissed { .. } => trigger == Trigger::MissedSlots,
            Self::NodeLost => trigger == Trigger::NodeLost,
            Self::ClockJumped => trigger == Trigger::ClockJumped,
        }
    }
}

/// Something that happened once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub happening: Happening,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// To whom.
    pub subject: Subject,
    /// Where.
    pub place: Place,
    /// The job.
    pub job_id: Option<JobId>,
    /// Why it failed.
    pub error_code: Option<ErrorCode>,
    /// In words.
    pub error: Option<String>,
    /// A line beside that.
    pub detail: Option<String>,
}

/// Something that holds as long as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which rules it concerns.
    pub trigger: Trigger,
    /// Who is in trouble.
    pub subject: Subject,
    /// Where.
    pub place: Place,
    /// How long it has lasted: rules that allow more are not concerned.
    pub lasted: SignedDuration,
    /// The job.
    pub job_id: Option<JobId>,
}

/// The cause of a failure: its code and the first line of its text, without what differs from one time to the next
/// (numbers, ids, what is quoted), so that failures of one cause are found to have one.
///
/// ```
/// use punctual_core::notify::event::cause;
/// use punctual_core::run::ErrorCode;
/// let one = cause(ErrorCode::TargetError, "order 17: cannot reach 10.0.0.3:5432 (0x7f3a)");
/// assert_eq!(one, cause(ErrorCode::TargetError, "order 18: cannot reach 10.0.0.4:5432 (0x81bc)\nat line 3"));
/// assert_ne!(one, cause(ErrorCode::Timeout, "order 17: cannot reach 10.0.0.3:5432 (0x7f3a)"));
/// ```
pub fn cause(code: ErrorCode, error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace().take(40) {
        let varies = word.chars().any(|letter| letter.is_ascii_digit());
        let word = if varies { "#".to_owned() } else { word.chars().take(40).collect() };
        if !(word == "#" && words.last().is_some_and(|last| last == "#")) {
            words.push(word);
        }
    }
    let text: String = words.join(" ").chars().take(160).collect();
    format!("{code}: {text}")
}
