//! What people may be told of: events that happened once, and findings that hold as long as they are found.

use super::rule::{Scope, Trigger};
use crate::id::{JobId, ScheduleId};
use crate::run::ErrorCode;
use crate::upkeep::{News, Notice, NoticeKind};
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

/// What a notice's schedule says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleFacts {
    /// What it is called.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Where its jobs wait.
    pub queue: String,
}

/// What may stand beside a notice.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Payload {
    error_code: Option<ErrorCode>,
    error: Option<String>,
    queue: Option<String>,
    job_type: Option<String>,
    name: Option<String>,
    count: Option<u64>,
    slot_at: Option<Timestamp>,
    through: Option<Timestamp>,
    by_ms: Option<i64>,
}

impl Event {
    /// What a notice tells. A schedule that is gone is known by its id alone.
    pub fn of_notice(notice: &Notice, schedule: Option<&ScheduleFacts>) -> Self {
        let Notice { created_at, news, .. } = notice;
        // What cannot be read says nothing beside what the ids say.
        let payload: Payload = news.payload.to().unwrap_or_default();
        let happening = match news.kind {
            NoticeKind::RunFailed => Happening::Failed,
            NoticeKind::Recovered => Happening::Recovered,
            NoticeKind::NodeLost => Happening::NodeLost,
            NoticeKind::SlotsMissed => Happening::SlotsMissed { count: payload.count.unwrap_or(1) },
            NoticeKind::ClockJumped => Happening::ClockJumped,
        };
        let detail = match happening {
            Happening::SlotsMissed { .. } => payload
                .slot_at
                .zip(payload.through)
                .map(|(from, through)| if from == through { from.to_string() } else { format!("{from} to {through}") }),
            Happening::ClockJumped => payload.by_ms.map(|by| {
                let way = if by < 0 { "back" } else { "ahead" };
                let by = crate::duration::format_duration(SignedDuration::from_millis(by.saturating_abs()));
                format!("{by} {way}")
            }),
            _ => None,
        };
        let place = Place {
            schedule: schedule.map(|facts| facts.name.clone()),
            labels: schedule.map(|facts| facts.labels.clone()).unwrap_or_default(),
            queue: payload.queue.clone().or(schedule.map(|facts| facts.queue.clone())),
        };
        Self {
            happening,
            at: *created_at,
            subject: subject_of(news, &payload, schedule),
            place,
            job_id: news.job_id,
            error_code: payload.error_code,
            error: payload.error,
            detail,
        }
    }
}

fn subject_of(news: &News, payload: &Payload, schedule: Option<&ScheduleFacts>) -> Subject {
    let of = |kind, key: String, name: String| Subject { kind, key, name };
    if let Some(id) = news.schedule_id {
        let name = schedule.map_or_else(|| id.to_string(), |facts| facts.name.clone());
        return of(SubjectKind::Schedule, id.to_string(), name);
    }
    match (news.kind, news.node_id) {
        (NoticeKind::NodeLost, Some(id)) => {
            let name = payload.name.clone().unwrap_or_else(|| id.to_string());
            of(SubjectKind::Node, id.to_string(), name)
        }
        (NoticeKind::ClockJumped, _) => of(SubjectKind::Database, String::new(), "database".to_owned()),
        _ => {
            let queue = payload.queue.as_deref().unwrap_or_default();
            jobs_of(queue, payload.job_type.as_deref().unwrap_or_default())
        }
    }
}

/// The jobs of a queue and a job type that no schedule made.
fn jobs_of(queue: &str, job_type: &str) -> Subject {
    let key = format!("{queue}/{job_type}");
    Subject { kind: SubjectKind::Jobs, name: format!("{job_type} jobs in {queue}"), key }
}

/// What a store sees of something that takes long: the columns of a look, whatever was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sighting {
    /// The schedule, and what it says of itself.
    pub schedule: Option<(ScheduleId, String, BTreeMap<String, String>)>,
    /// The queue.
    pub queue: Option<String>,
    /// The job type, for jobs without a schedule.
    pub job_type: Option<String>,
    /// The job.
    pub job_id: Option<JobId>,
    /// When it was to be.
    pub slot_at: Option<Timestamp>,
    /// When it began, or began to wait.
    pub since: Option<Timestamp>,
    /// When it was over, if it is.
    pub until: Option<Timestamp>,
}

impl Sighting {
    /// A queue, and since when its oldest job waits.
    pub fn of_queue(name: String, since: Timestamp) -> Self {
        Self { queue: Some(name), since: Some(since), ..Self::default() }
    }

    /// What it comes to for one kind of rule.
    pub fn finding(&self, trigger: Trigger, lasted: SignedDuration) -> Finding {
        let subject = match (trigger, &self.schedule, &self.queue) {
            (Trigger::QueueTooOld, _, Some(queue)) => {
                Subject { kind: SubjectKind::Queue, key: queue.clone(), name: queue.clone() }
            }
            (_, Some((id, name, _)), _) => {
                Subject { kind: SubjectKind::Schedule, key: id.to_string(), name: name.clone() }
            }
            (_, None, queue) => {
                jobs_of(queue.as_deref().unwrap_or_default(), self.job_type.as_deref().unwrap_or_default())
            }
        };
        let place = Place {
            schedule: self.schedule.as_ref().map(|(_, name, _)| name.clone()),
            labels: self.schedule.as_ref().map(|(_, _, labels)| labels.clone()).unwrap_or_default(),
            queue: self.queue.clone(),
        };
        Finding { trigger, subject, place, lasted, job_id: self.job_id }
    }

    /// How long after its slot it began, or has not begun until now.
    pub fn late(&self, now: Timestamp) -> Option<SignedDuration> {
        Some(self.since.unwrap_or(now).duration_since(self.slot_at?))
    }

    /// How long it takes, or took.
    pub fn long(&self, now: Timestamp) -> Option<SignedDuration> {
        Some(self.until.unwrap_or(now).duration_since(self.since?))
    }
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
