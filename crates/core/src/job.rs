//! Jobs: one unit of work, executed at most once, immutable once dispatched.

use crate::duration;
use crate::id::{GrantId, JobId, LeaseId, NodeId, ScheduleId, TemplateId};
use crate::invalid::Invalid;
use crate::job_key::JobKey;
use crate::json::Json;
use crate::name;
use crate::order::Place;
use crate::retry::{RetryPolicy, SerialOnFailure};
use crate::run::{ErrorCode, Outcome, Trigger};
use crate::schedule::Schedule;
use crate::target::Target;
use crate::unique::Unique;
use crate::words::words;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

words! {
    /// Where a job is. It is not a column: the state is the table in which the job's row stands.
    pub enum JobState as "job state" {
        /// Waits for a predecessor.
        Waiting = "waiting",
        /// Waits for its `run_at`.
        Scheduled = "scheduled",
        /// In its queue.
        Queued = "queued",
        /// Claimed by a node.
        Running = "running",
        /// Its run completed.
        Completed = "completed",
        /// Its run failed.
        Failed = "failed",
        /// It was decided not to run it.
        Skipped = "skipped",
        /// It was stopped.
        Cancelled = "cancelled",
    }
}

impl JobState {
    /// Whether a run row closes the job for good.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Skipped | Self::Cancelled)
    }
}

impl From<Outcome> for JobState {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Completed => Self::Completed,
            Outcome::Failed => Self::Failed,
            Outcome::Skipped => Self::Skipped,
            Outcome::Cancelled => Self::Cancelled,
        }
    }
}

/// How long a job may run: a time, or `none` said in so many words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Timeout {
    /// It is stopped after this long.
    After(SignedDuration),
    /// It may run for ever.
    Never,
}

impl Default for Timeout {
    fn default() -> Self {
        Self::After(SignedDuration::from_hours(1))
    }
}

impl Timeout {
    /// Refuses what would stop every job at once.
    pub fn validate(self) -> Result<(), Invalid> {
        match self {
            Self::After(limit) => duration::check("timeout", limit),
            Self::Never => Ok(()),
        }
    }

    /// When what began at an instant has run for too long; `None` means never.
    pub fn deadline(self, started_at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::After(limit) => Some(started_at.saturating_add(limit).unwrap_or(Timestamp::MAX)),
            Self::Never => None,
        }
    }

    /// As microseconds, for the stores; `None` means never.
    pub fn as_micros(self) -> Option<i64> {
        match self {
            Self::After(limit) => Some(i64::try_from(limit.as_micros()).unwrap_or(i64::MAX)),
            Self::Never => None,
        }
    }

    /// Back from the stores.
    pub fn from_micros(micros: Option<i64>) -> Self {
        micros.map_or(Self::Never, |m| Self::After(SignedDuration::from_micros(m)))
    }
}

impl TryFrom<String> for Timeout {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        if text == "none" {
            return Ok(Self::Never);
        }
        let limit = duration::parse_duration(&text).map_err(|e| Invalid::new("timeout", e.to_string()))?;
        Ok(Self::After(limit))
    }
}

impl From<Timeout> for String {
    fn from(timeout: Timeout) -> String {
        match timeout {
            Timeout::After(limit) => duration::format_duration(limit),
            Timeout::Never => "none".to_owned(),
        }
    }
}

/// What is asked for when a job is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// What it does.
    pub target: Target,
    /// What it is given.
    pub input: Json,
    /// Its queue; made by its first use.
    pub queue: String,
    /// Larger goes first.
    pub priority: i32,
    /// Not before this.
    pub run_at: Option<Timestamp>,
    /// Jobs with the same key run one at a time, in order, across all nodes.
    pub serial_key: Option<String>,
    /// Only one job with the same key waits at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_key: Option<JobKey>,
    /// Once in a period. This is about its making alone: a stored job does not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// Resource tags that limits count.
    pub tags: Vec<String>,
    /// How it is tried again.
    pub retry: RetryPolicy,
    /// How long it may run.
    pub timeout: Timeout,
    /// The template it was made from.
    pub template_id: Option<TemplateId>,
    /// The grant it runs under.
    pub grant_id: Option<GrantId>,
    /// What made it.
    pub trigger: Trigger,
    /// The words beside the trigger.
    pub trigger_detail: Option<String>,
    /// W3C trace context of whoever asked for it.
    pub trace_context: Option<String>,
    /// Whose it is; `None` for what the engine or a program made without saying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Refuses tags that limits could not count.
pub(crate) fn check_tags(tags: &[String]) -> Result<(), Invalid> {
    if tags.len() > 32 {
        return Err(Invalid::new("tags", "are more than 32").remedy("use fewer tags"));
    }
    tags.iter().try_for_each(|tag| name::check(tag).map_err(|e| Invalid { field: "tags".into(), ..e }))
}

impl NewJob {
    /// A job with the usual policies.
    pub fn new(target: Target) -> Self {
        Self {
            retry: target.usual_retry(),
            timeout: target.usual_timeout(),
            target,
            input: Json::empty_object(),
            queue: "default".to_owned(),
            priority: 0,
            run_at: None,
            serial_key: None,
            job_key: None,
            unique: None,
            tags: Vec::new(),
            template_id: None,
            grant_id: None,
            trigger: Trigger::Api,
            trigger_detail: None,
            trace_context: None,
            owner: None,
        }
    }

    /// A job of a schedule: its definition, and what is special about this one.
    pub fn of_schedule(schedule: &Schedule, trigger: Trigger, detail: Option<String>, serial: bool) -> Self {
        let definition = &schedule.definition;
        Self {
            target: definition.target.clone(),
            input: definition.input.clone(),
            queue: definition.queue.clone(),
            priority: definition.priority,
            run_at: None,
            serial_key: serial.then(|| schedule.id.to_string()),
            job_key: None,
            unique: None,
            tags: definition.tags.clone(),
            retry: definition.retry.clone(),
            timeout: definition.timeout,
            template_id: definition.template_id,
            grant_id: definition.grant_id,
            trigger,
            trigger_detail: detail,
            trace_context: None,
            owner: definition.owner.clone(),
        }
    }

    /// Refuses what could never run, before anything is stored.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.target.validate()?;
        self.input.check("input")?;
        self.retry.validate()?;
        self.timeout.validate()?;
        let named = |field: &str, text: &str| name::check(text).map_err(|e| Invalid { field: field.into(), ..e });
        named("queue", &self.queue)?;
        if let Some(key) = &self.serial_key {
            named("serial_key", key)?;
        }
        if let Some(key) = &self.job_key {
            named("job_key", &key.key)?;
        }
        if self.serial_key.is_none() && self.retry.serial_on_failure == SerialOnFailure::Hold {
            let problem = "has no meaning without serial_key";
            return Err(Invalid::new("retry.serial_on_failure", problem).remedy("give the job a serial_key"));
        }
        if let Some(unique) = &self.unique {
            unique.validate()?;
            if self.job_key.is_some() {
                return Err(Invalid::new("unique", "is given beside job_key").remedy("give one of the two"));
            }
        }
        name::check_text("trigger_detail", self.trigger_detail.as_deref().unwrap_or_default())?;
        name::check_text("trace_context", self.trace_context.as_deref().unwrap_or_default())?;
        name::check_text("owner", self.owner.as_deref().unwrap_or_default())?;
        check_tags(&self.tags)
    }
}

/// A job as it stands in the store: inserted once, never changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its identity, and its run's.
    pub id: JobId,
    /// When it was made, by the store's clock.
    pub created_at: Timestamp,
    /// What was asked for.
    pub spec: NewJob,
    /// The schedule it was made by.
    pub schedule_id: Option<ScheduleId>,
    /// The slot it was made for.
    pub slot_at: Option<Timestamp>,
    /// The failed job it follows.
    pub retry_of: Option<JobId>,
    /// The first job of its chain; itself when it is the first.
    pub root_job_id: JobId,
    /// When the first job of its chain was made.
    pub chain_began_at: Timestamp,
    /// The length of its chain.
    pub attempt: u32,
    /// Failures before it in its chain.
    pub failures: u32,
    /// Interruptions before it in its chain.
    pub interruptions: u32,
}

/// What a new job is beside what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The schedule it is made by.
    pub schedule_id: Option<ScheduleId>,
    /// The slot it is made for.
    pub slot_at: Option<Timestamp>,
    /// Its place in a chain of retries.
    pub chain: Option<ChainLink>,
}

/// A job's place in its chain of retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainLink {
    /// The failed job it follows.
    pub retry_of: JobId,
    /// The first job of the chain.
    pub root_job_id: JobId,
    /// When that one was made.
    pub began_at: Timestamp,
    /// The length of the chain.
    pub attempt: u32,
    /// Failures before it.
    pub failures: u32,
    /// Interruptions before it.
    pub interruptions: u32,
}

impl Job {
    /// Where it comes from, for a job that takes its place.
    pub fn origin(&self) -> Origin {
        let chain = self.retry_of.map(|retry_of| ChainLink {
            retry_of,
            root_job_id: self.root_job_id,
            began_at: self.chain_began_at,
            attempt: self.attempt,
            failures: self.failures,
            interruptions: self.interruptions,
        });
        Origin { schedule_id: self.schedule_id, slot_at: self.slot_at, chain }
    }
}

/// A job with everything that is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    /// The definition.
    pub job: Job,
    /// Where it is.
    pub whereabouts: Whereabouts,
}

impl JobView {
    /// The state, which follows from where the job is.
    pub fn state(&self) -> JobState {
        self.whereabouts.state()
    }

    /// The closed run, if there is one.
    pub fn run(&self) -> Option<&Run> {
        match &self.whereabouts {
            Whereabouts::Closed(run) => Some(run),
            _ => None,
        }
    }
}

/// Where a job is: exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// In `delayed`.
    Delayed {
        /// When it is promoted; `None` while it waits for a predecessor.
        run_at: Option<Timestamp>,
    },
    /// In `queue`.
    Queued {
        /// Its place in the order.
        place: Place,
        /// When it came into the queue.
        queued_at: Timestamp,
        /// Whether it may be claimed: false while another job holds its serial key.
        ready: bool,
    },
    /// In `running`.
    Running(RunningRun),
    /// In `runs`.
    Closed(Run),
}

impl Whereabouts {
    /// What a job is there.
    pub fn state(&self) -> JobState {
        match self {
            Self::Delayed { run_at: None } => JobState::Waiting,
            Self::Delayed { run_at: Some(_) } => JobState::Scheduled,
            Self::Queued { .. } => JobState::Queued,
            Self::Running(_) => JobState::Running,
            Self::Closed(run) => run.outcome.into(),
        }
    }
}

/// A run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningRun {
    /// Who runs it; nobody runs a flow, whose steps are jobs of their own.
    pub node_id: Option<NodeId>,
    /// By which right.
    pub lease_id: Option<LeaseId>,
    /// Since when.
    pub started_at: Timestamp,
    /// Since when somebody wants it to stop.
    pub cancel_requested_at: Option<Timestamp>,
}

/// A run that has ended: immutable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Who ran it; `None` when it was closed before it started.
    pub node_id: Option<NodeId>,
    /// When it started; `None` when it never did.
    pub started_at: Option<Timestamp>,
    /// When it ended, by the store's clock.
    pub finished_at: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it did not complete.
    pub error_code: Option<ErrorCode>,
    /// The same in words.
    pub error: Option<String>,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// What it returned.
    pub output: Option<Json>,
    /// Where its log is.
    pub log_ref: Option<String>,
    /// Whether the chain ends here: no retry follows (C18).
    pub is_final: bool,
    /// What it used up, as its target counts it.
    pub usage: Option<Json>,
}

impl Artifact {
    /// Refuses what the stores could not keep.
    pub fn validate(&self) -> Result<(), Invalid> {
        name::check_text("artifact.name", &self.name)?;
        name::check_text("artifact.location", &self.location)?;
        name::check_text("artifact.sha256", &self.sha256)
    }
}

/// Something a run produced; the list only grows (C13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Its name within the run.
    pub name: String,
    /// Where it is.
    pub location: String,
    /// How many bytes it has.
    pub size_bytes: u64,
    /// Its SHA-256, in hex.
    pub sha256: String,
}
