//! Jobs as the API shows them, and as it takes them.

use super::templates::Given;
use super::words::{
    ErrorCodeWord, JobKeyModeWord, LogStreamWord, OutcomeWord, RetryDocument, StateWord, TargetDocument, TriggerWord,
    UniqueDocument,
};
use crate::auth::Caller;
use jiff::Timestamp;
use punctual_core::flow::FlowLink;
use punctual_core::id::{GrantId, JobId, ScheduleId};
use punctual_core::invalid::Invalid;
use punctual_core::job::{Artifact, Job, JobState, JobView, NewJob, Origin, Timeout, Whereabouts};
use punctual_core::job_key::{JobKey, JobKeyMode};
use punctual_core::json::Json;
use punctual_core::records::{LogLine, LogStream};
use punctual_core::retry::RetryPolicy;
use punctual_core::run::{ErrorCode, Outcome, Trigger};
use punctual_core::target::Target;
use punctual_core::unique::Unique;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use uuid::Uuid;

/// A job that is to be made. What is left out comes from the template, or is as usual.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewJob, example = json!({
    "target": { "kind": "command", "argv": ["true"] }, "input": {}, "queue": "default", "timeout": "30s",
    "retry": { "max_attempts": 3, "backoff": "exponential", "base": "1s", "max": "10m" } }))]
pub(crate) struct NewJobBody {
    /// The name of a template to begin with.
    pub(crate) template: Option<String>,
    /// What is filled in for the template's parameters, by name: any JSON of their types.
    #[schema(value_type = Option<BTreeMap<String, serde_json::Value>>)]
    pub(crate) parameters: Option<Given>,
    /// What it does; needed unless a template says so.
    #[schema(value_type = Option<TargetDocument>)]
    target: Option<Target>,
    /// What it is given: any JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(default, deserialize_with = "given")]
    pub(crate) input: Option<Json>,
    /// Its queue, made by its first use; `default` unless said otherwise.
    queue: Option<String>,
    /// Larger goes first.
    priority: Option<i32>,
    /// Not before this time.
    run_at: Option<Timestamp>,
    /// Only one job with the same key waits at a time; keys of two owners never meet.
    job_key: Option<String>,
    /// What happens to a job that has the key already; `replace` unless said otherwise.
    #[schema(value_type = Option<JobKeyModeWord>)]
    job_key_mode: Option<JobKeyMode>,
    /// Once in a period: an earlier job that is the same is the answer then, with `existing`.
    #[schema(value_type = Option<UniqueDocument>)]
    unique: Option<Unique>,
    /// Jobs with the same key run one at a time, in order.
    serial_key: Option<String>,
    /// Resource tags.
    tags: Option<Vec<String>>,
    /// How it is tried again.
    #[schema(value_type = Option<RetryDocument>)]
    retry: Option<RetryPolicy>,
    /// How long it may run, such as `30s`, or `none`.
    #[schema(value_type = Option<String>)]
    timeout: Option<Timeout>,
    /// The grant it runs under.
    #[schema(value_type = Option<Uuid>)]
    grant_id: Option<GrantId>,
    /// W3C trace context of whoever asks.
    trace_context: Option<String>,
}

/// `null` is a document like any other, and not the same as nothing.
pub(crate) fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

impl NewJobBody {
    /// What is to be stored; `template` is the one that was named.
    pub(crate) fn into_spec(self, template: Option<NewJob>, caller: &Caller) -> Result<NewJob, Invalid> {
        let job_key = self.key_of(caller)?;
        let missing = || Invalid::new("target", "is missing").remedy("say what the job does, or name a template");
        let target = self.target.or_else(|| template.as_ref().map(|job| job.target.clone())).ok_or_else(missing)?;
        let usual = template.unwrap_or_else(|| NewJob::new(target.clone()));
        let spec = NewJob {
            target,
            input: self.input.unwrap_or(usual.input),
            queue: self.queue.unwrap_or(usual.queue),
            priority: self.priority.unwrap_or(usual.priority),
            run_at: self.run_at.map(whole_micros).or(usual.run_at),
            serial_key: self.serial_key.or(usual.serial_key),
            job_key,
            unique: self.unique.or(usual.unique).map(|unique| own_unique(unique, caller)),
            tags: self.tags.unwrap_or(usual.tags),
            retry: self.retry.unwrap_or(usual.retry),
            timeout: self.timeout.unwrap_or(usual.timeout),
            template_id: usual.template_id,
            grant_id: self.grant_id.or(usual.grant_id),
            trigger: Trigger::Api,
            trigger_detail: None,
            trace_context: self.trace_context,
            owner: Some(caller.owner.clone()),
        };
        spec.validate()?;
        Ok(spec)
    }
}

impl NewJobBody {
    /// The key as it is stored: with its owner, so that nobody replaces the job of another. An admin's is taken as it
    /// is, as the programs that embed Punctual write theirs.
    fn key_of(&self, caller: &Caller) -> Result<Option<JobKey>, Invalid> {
        let mode = self.job_key_mode.unwrap_or(JobKeyMode::Replace);
        match (&self.job_key, self.job_key_mode) {
            (None, Some(_)) => Err(Invalid::new("job_key_mode", "is given without job_key").remedy("give both")),
            (None, None) => Ok(None),
            (Some(key), _) => Ok(Some(JobKey {
                key: caller.scope().map_or_else(|| key.clone(), |owner| format!("{owner}:{key}")),
                mode,
            })),
        }
    }
}

/// Unique keys of two owners never meet, as it is with job keys.
fn own_unique(unique: Unique, caller: &Caller) -> Unique {
    match (unique.key.as_ref(), caller.scope()) {
        (Some(key), Some(owner)) => Unique { key: Some(format!("{owner}:{key}")), ..unique },
        _ => unique,
    }
}

/// What both stores keep of an instant.
pub(crate) fn whole_micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// The names of schedules by their ids.
pub(crate) type ScheduleNames = BTreeMap<ScheduleId, String>;

/// A job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct JobBody {
    #[schema(value_type = Uuid)]
    id: JobId,
    #[schema(value_type = StateWord)]
    state: JobState,
    created_at: Timestamp,
    #[schema(value_type = TargetDocument)]
    target: Target,
    /// Any JSON.
    #[schema(value_type = serde_json::Value)]
    input: Json,
    queue: String,
    priority: i32,
    run_at: Option<Timestamp>,
    serial_key: Option<String>,
    job_key: Option<String>,
    tags: Vec<String>,
    #[schema(value_type = RetryDocument)]
    retry: RetryPolicy,
    #[schema(value_type = String)]
    timeout: Timeout,
    template_id: Option<Uuid>,
    grant_id: Option<Uuid>,
    /// What made it.
    #[schema(value_type = TriggerWord)]
    triggered_by: Trigger,
    /// The words beside that, such as the cron expression.
    trigger_detail: Option<String>,
    trace_context: Option<String>,
    owner: Option<String>,
    schedule_id: Option<Uuid>,
    /// The name of that schedule, also when it was deleted since.
    schedule_name: Option<String>,
    slot_at: Option<Timestamp>,
    attempt: u32,
    retry_of: Option<Uuid>,
    root_job_id: Uuid,
    /// Since when it is in its queue.
    queued_at: Option<Timestamp>,
    /// Whether it may be claimed; false while another job holds its serial key.
    ready: Option<bool>,
    /// Told of a single job: why it may not be claimed yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    /// Told of a single job: the flow that it is a step of.
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<FlowLinkBody>,
    /// Told by whoever makes a unique job: whether it was there already.
    #[serde(skip_serializing_if = "Option::is_none")]
    existing: Option<bool>,
    run: Option<RunBody>,
}

/// The flow that a job is a step of.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowLink)]
pub(crate) struct FlowLinkBody {
    /// The flow's own job.
    job_id: Uuid,
    step: String,
    /// Which item of the step, from zero.
    item: Option<u32>,
}

impl From<FlowLink> for FlowLinkBody {
    fn from(link: FlowLink) -> Self {
        Self { job_id: link.flow_id.0, step: link.step, item: link.item }
    }
}

/// The execution of a job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Run)]
pub(crate) struct RunBody {
    /// The job's id.
    id: Uuid,
    node_id: Option<Uuid>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    /// Null while it runs.
    #[schema(value_type = Option<OutcomeWord>)]
    outcome: Option<Outcome>,
    #[schema(value_type = Option<ErrorCodeWord>)]
    error_code: Option<ErrorCode>,
    error: Option<String>,
    exit_code: Option<i32>,
    /// Any JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Json>,
    log_ref: Option<String>,
    /// What it used up, as its target counts it.
    #[schema(value_type = Option<serde_json::Value>)]
    usage: Option<Json>,
    /// Whether no retry follows by itself.
    is_final: Option<bool>,
    /// Since when somebody wants it to stop.
    cancel_requested_at: Option<Timestamp>,
}

impl JobBody {
    /// A job, wherever it is; `names` holds the name of its schedule, if it has one.
    pub(crate) fn of_view(view: JobView, names: &ScheduleNames) -> Self {
        let state = view.state();
        let run = RunBody::of(&view);
        let (queued_at, ready) = match view.whereabouts {
            Whereabouts::Queued { queued_at, ready, .. } => (Some(queued_at), Some(ready)),
            _ => (None, None),
        };
        let schedule_name = view.job.schedule_id.and_then(|id| names.get(&id).cloned());
        Self { schedule_name, queued_at, ready, run, ..Self::of(view.job, state) }
    }

    /// A job that was just made: everything about it follows from what was asked for and from its id.
    pub(crate) fn made(id: JobId, spec: &NewJob, origin: &Origin) -> Self {
        let created_at = id.made_at();
        let chain = origin.chain.as_ref();
        let delayed = spec.run_at.is_some_and(|at| at > created_at);
        let job = Job {
            id,
            created_at,
            spec: spec.clone(),
            schedule_id: origin.schedule_id,
            slot_at: origin.slot_at,
            retry_of: chain.map(|link| link.retry_of),
            root_job_id: chain.map_or(id, |link| link.root_job_id),
            chain_began_at: chain.map_or(created_at, |link| link.began_at),
            attempt: chain.map_or(1, |link| link.attempt),
            failures: chain.map_or(0, |link| link.failures),
            interruptions: chain.map_or(0, |link| link.interruptions),
        };
        let state = if delayed { JobState::Scheduled } else { JobState::Queued };
        Self { queued_at: (!delayed).then_some(created_at), ..Self::of(job, state) }
    }

    /// The same, with what it waits for.
    pub(crate) fn waiting_for(self, why: Option<String>) -> Self {
        Self { waits_for: why, ..self }
    }

    /// The same, with the flow that it is a step of.
    pub(crate) fn in_flow(self, link: Option<FlowLink>) -> Self {
        Self { flow: link.map(Into::into), ..self }
    }

    /// The same, with whether it was there already.
    pub(crate) fn found(self, existing: bool) -> Self {
        Self { existing: Some(existing), ..self }
    }

    /// The same, with the name of its schedule.
    pub(crate) fn named(self, schedule_name: Option<String>) -> Self {
        Self { schedule_name, ..self }
    }

    fn of(job: Job, state: JobState) -> Self {
        let spec = job.spec;
        Self {
            id: job.id,
            state,
            created_at: job.created_at,
            target: spec.target,
            input: spec.input,
            queue: spec.queue,
            priority: spec.priority,
            run_at: spec.run_at,
            serial_key: spec.serial_key,
            job_key: spec.job_key.map(|key| key.key),
            tags: spec.tags,
            retry: spec.retry,
            timeout: spec.timeout,
            template_id: spec.template_id.map(|id| id.0),
            grant_id: spec.grant_id.map(|id| id.0),
            triggered_by: spec.trigger,
            trigger_detail: spec.trigger_detail,
            trace_context: spec.trace_context,
            owner: spec.owner,
            schedule_id: job.schedule_id.map(|id| id.0),
            schedule_name: None,
            slot_at: job.slot_at,
            attempt: job.attempt,
            retry_of: job.retry_of.map(|id| id.0),
            root_job_id: job.root_job_id.0,
            queued_at: None,
            ready: None,
            waits_for: None,
            flow: None,
            existing: None,
            run: None,
        }
    }
}

impl RunBody {
    /// The run of a job that has begun or ended.
    pub(crate) fn of(view: &JobView) -> Option<Self> {
        let nothing = Self {
            id: view.job.id.0,
            node_id: None,
            started_at: None,
            finished_at: None,
            outcome: None,
            error_code: None,
            error: None,
            exit_code: None,
            output: None,
            log_ref: None,
            usage: None,
            is_final: None,
            cancel_requested_at: None,
        };
        match &view.whereabouts {
            Whereabouts::Running(running) => Some(Self {
                node_id: running.node_id.map(|id| id.0),
                started_at: Some(running.started_at),
                cancel_requested_at: running.cancel_requested_at,
                ..nothing
            }),
            Whereabouts::Closed(run) => Some(Self {
                node_id: run.node_id.map(|id| id.0),
                started_at: run.started_at,
                finished_at: Some(run.finished_at),
                outcome: Some(run.outcome),
                error_code: run.error_code,
                error: run.error.clone(),
                exit_code: run.exit_code,
                output: run.output.clone(),
                log_ref: run.log_ref.clone(),
                usage: run.usage.clone(),
                is_final: Some(run.is_final),
                ..nothing
            }),
            Whereabouts::Delayed { .. } | Whereabouts::Queued { .. } => None,
        }
    }
}

/// Something a run produced.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Artifact)]
pub(crate) struct ArtifactBody {
    name: String,
    location: String,
    size_bytes: u64,
    sha256: String,
}

impl From<Artifact> for ArtifactBody {
    fn from(artifact: Artifact) -> Self {
        let Artifact { name, location, size_bytes, sha256 } = artifact;
        Self { name, location, size_bytes, sha256 }
    }
}

/// A line of a run's log.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LogLine)]
pub(crate) struct LogLineBody {
    /// Its number; ask for those behind it to follow a run.
    sequence: u64,
    at: Timestamp,
    #[schema(value_type = LogStreamWord)]
    stream: LogStream,
    text: String,
}

impl From<LogLine> for LogLineBody {
    fn from(line: LogLine) -> Self {
        let LogLine { sequence, at, stream, text } = line;
        Self { sequence, at, stream, text }
    }
}
