//! Schedules as the API shows them, and as it takes them.

use super::grants::NewGrantBody;
use super::templates::Given;
use super::words::{
    ErrorCodeWord, MissedDocument, OutcomeWord, OverlapWord, RetryDocument, SourceWord, TargetDocument, TriggerWord,
};
use jiff::{SignedDuration, Timestamp};
use punctual_core::cron::{Dst, DstGap, DstOverlap, Recurrence, describe};
use punctual_core::duration::{format_duration, optional_text, parse_duration};
use punctual_core::id::{GrantId, ScheduleId};
use punctual_core::invalid::Invalid;
use punctual_core::job::{NewJob, Timeout};
use punctual_core::json::Json;
use punctual_core::manifest::Managed;
use punctual_core::name::Name;
use punctual_core::readings::RecentRun;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::{ErrorCode, Outcome, Trigger};
use punctual_core::schedule::{Dependency, Missed, Overlap, Pause, Schedule, ScheduleDefinition, Source};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use uuid::Uuid;

/// A schedule that is to be made: one of `cron`, `every` and `at` says when.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSchedule, example = json!({
    "name": "nightly", "cron": "0 2 * * *", "timezone": "Europe/Berlin",
    "target": { "kind": "command", "argv": ["backup.sh", "--all"] },
    "missed": "once", "timeout": "30m", "labels": { "team": "billing" } }))]
pub(crate) struct NewScheduleBody {
    /// Unique; a UUID is none.
    #[schema(min_length = 1, max_length = 200)]
    pub(crate) name: String,
    #[serde(default)]
    description: String,
    /// For people and filters.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// A cron expression, read in `timezone`.
    cron: Option<String>,
    /// The name of a cron preset instead; the schedule keeps its expression.
    pub(crate) preset: Option<String>,
    /// Elapsed time, such as `90s`.
    #[schema(value_type = Option<String>)]
    #[serde(with = "optional_text", default)]
    every: Option<SignedDuration>,
    /// A single instant.
    at: Option<Timestamp>,
    /// An IANA name; `UTC` unless said otherwise.
    timezone: Option<String>,
    /// What happens to a local time that a clock change leaves out: `next` or `skip`.
    #[schema(pattern = "^(next|skip)$")]
    dst_gap: Option<String>,
    /// Which of a local time that comes twice: `first`, `second` or `both`.
    #[schema(pattern = "^(first|second|both)$")]
    dst_overlap: Option<String>,
    starts_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
    /// A named calendar whose days and times are skipped.
    calendar: Option<String>,
    /// The name of a template to begin with.
    pub(crate) template: Option<String>,
    /// What is filled in for the template's parameters, by name: any JSON of their types.
    #[schema(value_type = Option<BTreeMap<String, serde_json::Value>>)]
    pub(crate) parameters: Option<Given>,
    /// What its jobs do; needed unless a template says so.
    #[schema(value_type = Option<TargetDocument>)]
    target: Option<Target>,
    /// What its jobs are given: any JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(default, deserialize_with = "super::job_shapes::given")]
    pub(crate) input: Option<Json>,
    /// `default` unless said otherwise.
    queue: Option<String>,
    /// Larger goes first; 0 unless said otherwise.
    priority: Option<i32>,
    /// Resource tags of its jobs, which limits count.
    tags: Option<Vec<String>>,
    /// Whether its jobs run one at a time, in order.
    #[serde(default)]
    serial: bool,
    #[schema(value_type = Option<RetryDocument>)]
    retry: Option<RetryPolicy>,
    /// How long a job may run, such as `30s`, or `none`.
    #[schema(value_type = Option<String>)]
    timeout: Option<Timeout>,
    #[schema(value_type = Option<MissedDocument>)]
    #[serde(default, deserialize_with = "missed")]
    missed: Missed,
    #[schema(value_type = Option<OverlapWord>)]
    overlap: Option<Overlap>,
    max_concurrent_runs: Option<u32>,
    /// Whether its slots fire at once although the installation's cap on fires is reached.
    #[serde(default)]
    burst_allowed: bool,
    /// After how many failed runs in a row, retries included, it pauses by itself.
    #[schema(minimum = 1)]
    pause_after_failures: Option<u32>,
    /// Each slot is due up to this much later, such as `30s`.
    #[schema(value_type = Option<String>)]
    #[serde(with = "optional_text", default)]
    jitter: Option<SignedDuration>,
    /// Another schedule that must have succeeded.
    depends_on: Option<DependencyBody>,
    /// An existing grant that its jobs run under.
    #[schema(value_type = Option<Uuid>)]
    grant_id: Option<GrantId>,
    /// Whether it fires at once, or is made paused.
    pub(crate) enabled: Option<bool>,
    /// A grant that is made together with the schedule, both or neither.
    pub(crate) grant: Option<NewGrantBody>,
}

/// A schedule that must have succeeded, and how long ago at most.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Dependency)]
pub(crate) struct DependencyBody {
    schedule_id: Uuid,
    /// A duration such as `1h`.
    within: String,
}

/// A policy by its name alone, or with its settings.
fn missed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Missed, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Word(String),
        Whole(serde_json::Value),
    }
    let whole = match Given::deserialize(deserializer)? {
        Given::Whole(serde_json::Value::Null) => return Ok(Missed::default()),
        Given::Word(policy) => serde_json::json!({ "policy": policy }),
        Given::Whole(whole) => whole,
    };
    serde_json::from_value(whole).map_err(serde::de::Error::custom)
}

/// What a schedule begins with: the expression of the preset and the job of the template that it names.
#[derive(Debug, Default)]
pub(crate) struct Begin {
    pub(crate) cron: Option<String>,
    pub(crate) job: Option<NewJob>,
}

impl NewScheduleBody {
    /// The definition; `source` and `owner` are not the asker's to choose.
    pub(crate) fn into_definition(
        self, begin: Begin, owner: Option<String>, source: Source,
    ) -> Result<ScheduleDefinition, Invalid> {
        let timing = self.timing(begin.cron.as_ref())?;
        let missing = || Invalid::new("target", "is missing").remedy("say what its jobs do, or name a template");
        let job = begin.job;
        let target = self.target.or_else(|| job.as_ref().map(|job| job.target.clone())).ok_or_else(missing)?;
        let job = job.unwrap_or_else(|| NewJob::new(target.clone()));
        let depends_on = self.depends_on.map(DependencyBody::into_dependency).transpose()?;
        let usual = ScheduleDefinition::new(Name::new(self.name)?, timing, target);
        let definition = ScheduleDefinition {
            description: self.description,
            labels: self.labels,
            starts_at: self.starts_at,
            ends_at: self.ends_at,
            calendar: self.calendar,
            input: self.input.unwrap_or(job.input),
            template_id: job.template_id,
            queue: self.queue.unwrap_or(job.queue),
            priority: self.priority.unwrap_or(job.priority),
            tags: self.tags.unwrap_or(job.tags),
            serial: self.serial,
            retry: self.retry.unwrap_or(job.retry),
            timeout: self.timeout.unwrap_or(job.timeout),
            missed: self.missed,
            overlap: self.overlap.unwrap_or(usual.overlap),
            max_concurrent_runs: self.max_concurrent_runs,
            burst_allowed: self.burst_allowed,
            pause_after_failures: self.pause_after_failures,
            jitter: self.jitter.unwrap_or(usual.jitter),
            depends_on,
            grant_id: self.grant_id.or(job.grant_id),
            owner,
            source,
            ..usual
        };
        definition.validate()?;
        Ok(definition)
    }

    fn timing(&self, preset: Option<&String>) -> Result<TimingSpec, Invalid> {
        let dst = self.dst()?;
        let zone = self.timezone.clone().unwrap_or_else(|| "UTC".to_owned());
        if preset.is_some() && self.cron.is_some() {
            return Err(Invalid::new("preset", "is given beside cron").remedy("give one of the two"));
        }
        match (self.cron.as_ref().or(preset), self.every, self.at) {
            (Some(expression), None, None) => {
                Ok(TimingSpec::Cron { expression: expression.clone(), timezone: zone, dst })
            }
            (None, Some(period), None) => Ok(TimingSpec::Every { period }),
            (None, None, Some(at)) => Ok(TimingSpec::At { at: super::job_shapes::whole_micros(at) }),
            _ => {
                Err(Invalid::new("cron", "exactly one of cron, every and at must be given").remedy("give one of them"))
            }
        }
    }

    fn dst(&self) -> Result<Dst, Invalid> {
        let usual = Dst::default();
        let refused = |field: &str, error: &dyn std::fmt::Display| Invalid::new(field, error.to_string());
        let gap = self
            .dst_gap
            .as_deref()
            .map_or(Ok(usual.gap), |word| word.parse::<DstGap>().map_err(|error| refused("dst_gap", &error)))?;
        let overlap = self.dst_overlap.as_deref().map_or(Ok(usual.overlap), |word| {
            word.parse::<DstOverlap>().map_err(|error| refused("dst_overlap", &error))
        })?;
        Ok(Dst { gap, overlap })
    }
}

impl DependencyBody {
    fn into_dependency(self) -> Result<Dependency, Invalid> {
        let within = parse_duration(&self.within).map_err(|e| Invalid::new("depends_on.within", e.to_string()))?;
        Ok(Dependency { schedule_id: ScheduleId(self.schedule_id), within })
    }
}

/// What a schedule says of itself, in the words in which it is taken: what PATCH begins with.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Definition {
    name: String,
    description: String,
    labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dst_gap: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dst_overlap: Option<&'static str>,
    starts_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
    calendar: Option<String>,
    #[schema(value_type = TargetDocument)]
    target: Target,
    /// Any JSON.
    #[schema(value_type = serde_json::Value)]
    input: Json,
    queue: String,
    priority: i32,
    tags: Vec<String>,
    serial: bool,
    #[schema(value_type = RetryDocument)]
    retry: RetryPolicy,
    #[schema(value_type = String)]
    timeout: Timeout,
    #[schema(value_type = MissedDocument)]
    missed: Missed,
    #[schema(value_type = OverlapWord)]
    overlap: Overlap,
    max_concurrent_runs: Option<u32>,
    burst_allowed: bool,
    pause_after_failures: Option<u32>,
    jitter: Option<String>,
    depends_on: Option<DependencyBody>,
    grant_id: Option<Uuid>,
}

impl From<&ScheduleDefinition> for Definition {
    fn from(d: &ScheduleDefinition) -> Self {
        let d = d.clone();
        let (mut cron, mut every, mut at, mut timezone, mut dst) = (None, None, None, None, None);
        match d.timing {
            TimingSpec::Cron { expression, timezone: zone, dst: rules } => {
                (cron, timezone, dst) = (Some(expression), Some(zone), Some(rules));
            }
            TimingSpec::Every { period } => every = Some(format_duration(period)),
            TimingSpec::At { at: instant } => at = Some(instant),
        }
        Self {
            name: d.name.to_string(),
            description: d.description,
            labels: d.labels,
            cron,
            every,
            at,
            timezone,
            dst_gap: dst.map(|dst| dst.gap.as_str()),
            dst_overlap: dst.map(|dst| dst.overlap.as_str()),
            starts_at: d.starts_at,
            ends_at: d.ends_at,
            calendar: d.calendar,
            target: d.target,
            input: d.input,
            queue: d.queue,
            priority: d.priority,
            tags: d.tags.clone(),
            serial: d.serial,
            retry: d.retry,
            timeout: d.timeout,
            missed: d.missed,
            overlap: d.overlap,
            max_concurrent_runs: d.max_concurrent_runs,
            burst_allowed: d.burst_allowed,
            pause_after_failures: d.pause_after_failures,
            jitter: (!d.jitter.is_zero()).then(|| format_duration(d.jitter)),
            depends_on: d.depends_on.map(|other| DependencyBody {
                schedule_id: other.schedule_id.0,
                within: format_duration(other.within),
            }),
            grant_id: d.grant_id.map(|id| id.0),
        }
    }
}

/// A schedule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Schedule)]
pub(crate) struct ScheduleBody {
    id: Uuid,
    #[serde(flatten)]
    definition: Definition,
    /// What the expression means, for people.
    in_words: String,
    enabled: bool,
    /// When the next slot is due, jitter included.
    next_run_at: Option<Timestamp>,
    /// The next slot itself.
    next_slot_at: Option<Timestamp>,
    last_slot_at: Option<Timestamp>,
    last_enqueued_at: Option<Timestamp>,
    last_job_id: Option<Uuid>,
    /// When its last run ended.
    last_run_at: Option<Timestamp>,
    #[schema(value_type = Option<OutcomeWord>)]
    last_outcome: Option<Outcome>,
    last_success_at: Option<Timestamp>,
    consecutive_failures: u32,
    /// Since when it has no further slots.
    exhausted_at: Option<Timestamp>,
    /// Why it cannot be fired.
    problem: Option<String>,
    paused: Option<PauseBody>,
    owner: Option<String>,
    #[schema(value_type = SourceWord)]
    source: Source,
    /// Rises with every edit; also the `ETag`.
    version: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// With `recent` in the query: its last runs that have ended, the one made latest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    recent: Option<Vec<RecentRunBody>>,
    /// Told of a single schedule: the manifest that has it. What is changed by hand meanwhile is shown as drift by the next
    /// plan, and the next apply sets it right.
    #[serde(skip_serializing_if = "Option::is_none")]
    managed_by: Option<ManagedByBody>,
}

/// The manifest that has a thing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ManagedBy)]
pub(crate) struct ManagedByBody {
    owner: String,
    /// When it was last applied with a change of this.
    applied_at: Timestamp,
}

impl ScheduleBody {
    /// The same, with its last runs.
    pub(crate) fn with_recent(self, runs: Vec<RecentRun>) -> Self {
        Self { recent: Some(runs.into_iter().map(Into::into).collect()), ..self }
    }

    /// The same, with the manifest that has it.
    pub(crate) fn managed_by(self, managed: Option<Managed>) -> Self {
        let managed_by = managed.map(|Managed { owner, applied_at, .. }| ManagedByBody { owner, applied_at });
        Self { managed_by, ..self }
    }
}

/// One of the last runs of a schedule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RecentRun)]
pub(crate) struct RecentRunBody {
    job_id: Uuid,
    #[schema(value_type = OutcomeWord)]
    outcome: Outcome,
    #[schema(value_type = Option<ErrorCodeWord>)]
    error_code: Option<ErrorCode>,
    /// The first line, at most 200 characters.
    error: Option<String>,
    started_at: Option<Timestamp>,
    finished_at: Timestamp,
    slot_at: Option<Timestamp>,
    /// What made it.
    #[schema(value_type = TriggerWord)]
    triggered_by: Trigger,
}

impl From<RecentRun> for RecentRunBody {
    fn from(run: RecentRun) -> Self {
        Self {
            job_id: run.job_id.0,
            outcome: run.outcome,
            error_code: run.error_code,
            error: run.error,
            started_at: run.started_at,
            finished_at: run.finished_at,
            slot_at: run.slot_at,
            triggered_by: run.trigger,
        }
    }
}

/// A pause.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Pause)]
pub(crate) struct PauseBody {
    at: Timestamp,
    by: Option<String>,
    note: Option<String>,
    /// When it goes on by itself.
    until: Option<Timestamp>,
}

impl From<&Schedule> for ScheduleBody {
    fn from(schedule: &Schedule) -> Self {
        let (state, results) = (&schedule.state, &schedule.results);
        let pause = state.pause.clone();
        Self {
            id: schedule.id.0,
            definition: (&schedule.definition).into(),
            in_words: in_words(&schedule.definition.timing, &schedule.seed),
            enabled: state.enabled,
            next_run_at: state.next_run_at,
            next_slot_at: state.next_slot_at,
            last_slot_at: state.last_slot_at,
            last_enqueued_at: state.last_enqueued_at,
            last_job_id: state.last_job_id.map(|id| id.0),
            last_run_at: results.last_run_at,
            last_outcome: results.last_outcome,
            last_success_at: results.last_success_at,
            consecutive_failures: results.consecutive_failures,
            exhausted_at: state.exhausted_at,
            problem: state.problem.clone(),
            paused: pause.map(|Pause { at, by, note, until }| PauseBody { at, by, note, until }),
            owner: schedule.definition.owner.clone(),
            source: schedule.definition.source,
            version: schedule.version,
            created_at: schedule.created_at,
            updated_at: schedule.updated_at,
            recent: None,
            managed_by: None,
        }
    }
}

/// When a schedule is due, for people.
pub(crate) fn in_words(timing: &TimingSpec, seed: &str) -> String {
    match timing {
        TimingSpec::Cron { expression, timezone, .. } => match Recurrence::parse(expression, Some(seed)) {
            Ok(Recurrence::Cron(cron)) => describe(&cron, timezone),
            Ok(Recurrence::Every(period)) => format!("Every {}", format_duration(period)),
            Err(error) => format!("Not understood: {error}"),
        },
        TimingSpec::Every { period } => format!("Every {}", format_duration(*period)),
        TimingSpec::At { at } => format!("Once, at {at}"),
    }
}
