//! Schedules: when and what, with the policies that decide each slot.

use crate::duration;
use crate::id::{GrantId, JobId, ScheduleId, TemplateId};
use crate::invalid::Invalid;
use crate::job::{NewJob, Timeout};
use crate::json::Json;
use crate::name::{self, Name};
use crate::retry::{RetryPolicy, SerialOnFailure};
use crate::run::{Outcome, Trigger};
use crate::target::Target;
use crate::timing::TimingSpec;
use crate::words::words;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

words! {
    /// What a slot does when a run of its schedule is still alive (A21). Retries count as alive.
    pub enum Overlap as "overlap policy" {
        /// Both run.
        Allow = "allow",
        /// The slot is skipped.
        Forbid = "forbid",
        /// The one alive is cancelled, and the new one follows it.
        Replace = "replace",
        /// At most one waits until the one alive is done.
        QueueOne = "queue_one",
    }
}

words! {
    /// Where a schedule was declared, and so who may remove it.
    pub enum Source as "source" {
        /// By the HTTP API or the command line.
        Api = "api",
        /// In a program that embeds Punctual.
        Code = "code",
        /// In a file that was applied.
        File = "file",
        /// By an INSERT.
        Sql = "sql",
    }
}

words! {
    /// Who fires a schedule (D07).
    pub enum FiredFrom as "place to fire from" {
        /// Any node, from the plan in the store.
        Store = "store",
        /// The processes that declare it, from their memory; the ledger is the same.
        Memory = "memory",
    }
}

/// What happens to slots that passed while nobody could fire them.
///
/// A due slot is missed when it is later than the window or when a later slot is due as well. The on-time slot
/// fires under every policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "snake_case", deny_unknown_fields)]
pub enum Missed {
    /// Fire only what is on time.
    Skip {
        /// How late still counts as on time.
        #[serde(with = "duration::text", default = "on_time_window")]
        window: SignedDuration,
    },
    /// Fire the latest due slot, once, and record the earlier ones as one range.
    Once {
        /// How late the latest may be; no limit when absent.
        #[serde(with = "duration::optional_text", default, skip_serializing_if = "Option::is_none")]
        window: Option<SignedDuration>,
    },
    /// Fire each, up to a limit; the latest ones win.
    All {
        /// The most that are made up for.
        #[serde(default = "all_limit")]
        limit: u32,
        /// How late each may be; no limit when absent.
        #[serde(with = "duration::optional_text", default, skip_serializing_if = "Option::is_none")]
        window: Option<SignedDuration>,
    },
}

/// How late a slot may be and still be called on time.
pub const ON_TIME_WINDOW: SignedDuration = SignedDuration::from_secs(60);

fn on_time_window() -> SignedDuration {
    ON_TIME_WINDOW
}

fn all_limit() -> u32 {
    100
}

impl Default for Missed {
    fn default() -> Self {
        Self::Once { window: None }
    }
}

impl Missed {
    /// `skip` with its usual window.
    pub const SKIP: Self = Self::Skip { window: ON_TIME_WINDOW };
    /// `once` without a window.
    pub const ONCE: Self = Self::Once { window: None };

    /// `all` without a window.
    pub fn all(limit: u32) -> Self {
        Self::All { limit, window: None }
    }

    /// How late a slot may be, if there is a bound.
    pub fn window(self) -> Option<SignedDuration> {
        match self {
            Self::Skip { window } => Some(window),
            Self::Once { window } | Self::All { window, .. } => window,
        }
    }
}

/// Run only if another schedule succeeded recently (D11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dependency {
    /// The other schedule.
    pub schedule_id: ScheduleId,
    /// How long before the slot its success may lie.
    #[serde(with = "duration::text")]
    pub within: SignedDuration,
}

/// What a user says about a schedule: the definition, without identity and without state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleDefinition {
    /// Unique among the schedules that are not deleted.
    pub name: Name,
    /// For people.
    pub description: String,
    /// For people and filters.
    pub labels: BTreeMap<String, String>,
    /// When it is due.
    pub timing: TimingSpec,
    /// No slot lies before this.
    pub starts_at: Option<Timestamp>,
    /// No slot lies after this.
    pub ends_at: Option<Timestamp>,
    /// A named calendar whose days and times are skipped.
    pub calendar: Option<String>,
    /// What its jobs do.
    pub target: Target,
    /// What its jobs are given.
    pub input: Json,
    /// The template it was made from.
    pub template_id: Option<TemplateId>,
    /// The queue its jobs go to.
    pub queue: String,
    /// The priority of its jobs; larger goes first.
    pub priority: i32,
    /// Resource tags of its jobs, which limits count.
    pub tags: Vec<String>,
    /// Whether its jobs run one at a time, in order, across all nodes (A06).
    pub serial: bool,
    /// How its jobs are tried again.
    pub retry: RetryPolicy,
    /// How long a job may run.
    pub timeout: Timeout,
    /// What happens to missed slots.
    pub missed: Missed,
    /// What happens while a run is alive.
    pub overlap: Overlap,
    /// How many runs may be alive at once.
    pub max_concurrent_runs: Option<u32>,
    /// Whether its slots fire at once although the cap on fires is reached, and do not count towards it (D10).
    pub burst_allowed: bool,
    /// After how many failed runs in a row, retries included, it pauses by itself.
    pub pause_after_failures: Option<u32>,
    /// Each slot is due up to this much later, by a value fixed for the slot.
    pub jitter: SignedDuration,
    /// Another schedule that must have succeeded.
    pub depends_on: Option<Dependency>,
    /// The grant its jobs run under.
    pub grant_id: Option<GrantId>,
    /// Whose it is.
    pub owner: Option<String>,
    /// Where it was declared.
    pub source: Source,
}

#[expect(clippy::derivable_impls, reason = "words! declares the enum, and takes no attribute on a variant")]
impl Default for FiredFrom {
    fn default() -> Self {
        Self::Store
    }
}

impl ScheduleDefinition {
    /// A definition with the usual policies.
    pub fn new(name: Name, timing: TimingSpec, target: Target) -> Self {
        Self {
            retry: target.usual_retry(),
            timeout: target.usual_timeout(),
            name,
            description: String::new(),
            labels: BTreeMap::new(),
            timing,
            starts_at: None,
            ends_at: None,
            calendar: None,
            target,
            input: Json::empty_object(),
            template_id: None,
            queue: "default".to_owned(),
            priority: 0,
            serial: false,
            missed: Missed::default(),
            overlap: Overlap::Allow,
            max_concurrent_runs: None,
            tags: Vec::new(),
            burst_allowed: false,
            pause_after_failures: None,
            jitter: SignedDuration::ZERO,
            depends_on: None,
            grant_id: None,
            owner: None,
            source: Source::Api,
        }
    }

    /// Refuses what could never work, before anything is stored.
    pub fn validate(&self) -> Result<(), Invalid> {
        let seed = self.name.as_str();
        self.timing.compile(Timestamp::UNIX_EPOCH, seed)?;
        self.target.validate()?;
        self.input.check("input")?;
        self.retry.validate()?;
        self.timeout.validate()?;
        name::check(&self.queue).map_err(|e| Invalid { field: "queue".into(), ..e })?;
        self.validate_texts()?;
        self.validate_policies()
    }

    fn validate_texts(&self) -> Result<(), Invalid> {
        name::check_text("description", &self.description)?;
        name::check_text("owner", self.owner.as_deref().unwrap_or_default())?;
        if self.labels.len() > 64 {
            return Err(Invalid::new("labels", "are more than 64").remedy("use fewer labels"));
        }
        for (key, value) in &self.labels {
            name::check(key).map_err(|e| Invalid { field: "labels".into(), ..e })?;
            if !value.is_empty() {
                name::check(value).map_err(|e| Invalid { field: format!("labels.{key}"), ..e })?;
            }
        }
        Ok(())
    }

    fn validate_policies(&self) -> Result<(), Invalid> {
        if let (Some(from), Some(to)) = (self.starts_at, self.ends_at)
            && to <= from
        {
            return Err(Invalid::new("ends_at", "is not after starts_at").remedy("set it later"));
        }
        if self.jitter.is_negative() || self.jitter > SignedDuration::from_hours(24) {
            return Err(Invalid::new("jitter", "is not between 0 and 24h").remedy("use at most 24h"));
        }
        if self.max_concurrent_runs == Some(0) {
            return Err(Invalid::new("max_concurrent_runs", "is 0, so that nothing would ever run")
                .remedy("use 1 or more, or pause the schedule"));
        }
        crate::job::check_tags(&self.tags)?;
        if self.pause_after_failures == Some(0) {
            return Err(Invalid::new("pause_after_failures", "is 0, so that it would always be paused")
                .remedy("use 1 or more, or leave it out to go on whatever happens"));
        }
        self.missed.window().map_or(Ok(()), |window| duration::check("missed.window", window))?;
        self.depends_on.map_or(Ok(()), |other| duration::check("depends_on.within", other.within))?;
        if !self.serial && self.retry.serial_on_failure == SerialOnFailure::Hold {
            let problem = "has no meaning unless the schedule is serial";
            return Err(Invalid::new("retry.serial_on_failure", problem).remedy("set serial to true"));
        }
        match self.missed {
            Missed::All { limit, .. } if !(1..=100_000).contains(&limit) => {
                Err(Invalid::new("missed.limit", "is not between 1 and 100,000")
                    .remedy("use `once` or `skip` for none"))
            }
            _ => Ok(()),
        }
    }
}

/// A schedule as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Its identity.
    pub id: ScheduleId,
    /// Rises with every edit.
    pub version: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last edited.
    pub updated_at: Timestamp,
    /// What the multiples of `every` count from.
    pub anchor_at: Timestamp,
    /// What fixes the values of spread cron fields: its name when it was made.
    pub seed: String,
    /// What the user said.
    pub definition: ScheduleDefinition,
    /// Where it stands.
    pub state: ScheduleState,
    /// How its runs ended.
    pub results: ScheduleResults,
}

/// Where a schedule stands: written by fire, pause, resume, reschedule and edit, never by finish.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScheduleState {
    /// Whether it is running (true) or paused (false).
    pub enabled: bool,
    /// The identity of the next slot.
    pub next_slot_at: Option<Timestamp>,
    /// When that slot is due: the slot plus its jitter.
    pub next_run_at: Option<Timestamp>,
    /// The latest slot that was decided, whatever the decision.
    pub last_slot_at: Option<Timestamp>,
    /// When a job was last made for it.
    pub last_enqueued_at: Option<Timestamp>,
    /// The job that was last made for it.
    pub last_job_id: Option<JobId>,
    /// No slot at or before this fires again; it never goes back, and it outlives the ledger's rows.
    pub fired_through: Option<Timestamp>,
    /// Since when it has no further slots.
    pub exhausted_at: Option<Timestamp>,
    /// Why it cannot be fired, in words (E02, E06).
    pub problem: Option<String>,
    /// Since when no live node offers its target; its slots wait meanwhile (E06).
    pub no_executor_since: Option<Timestamp>,
    /// Since when it is paused, by whom and why.
    pub pause: Option<Pause>,
    /// Who fires it; what is fired from memory is never due in the store.
    pub fired_from: FiredFrom,
    /// The failures that were there when it last went on after a pause, and when that was.
    pub forgiven: Option<Forgiven>,
}

/// Failures in a row that do not count towards the next pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forgiven {
    /// Since when.
    pub at: Timestamp,
    /// How many.
    pub failures: u32,
}

impl ScheduleState {
    /// Whether the store itself fires it.
    pub fn is_fired_by_store(&self) -> bool {
        self.enabled && self.fired_from == FiredFrom::Store
    }
}

/// A pause: since when, who, why, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Since when.
    pub at: Timestamp,
    /// Who paused it.
    pub by: Option<String>,
    /// Why.
    pub note: Option<String>,
    /// When it goes on by itself; not at all when absent.
    pub until: Option<Timestamp>,
}

/// How a schedule's runs ended: written by finish alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScheduleResults {
    /// When its last run ended.
    pub last_run_at: Option<Timestamp>,
    /// How it ended.
    pub last_outcome: Option<Outcome>,
    /// When a run last completed.
    pub last_success_at: Option<Timestamp>,
    /// Failures since then.
    pub consecutive_failures: u32,
}

/// How somebody wants a schedule to run once, beside its plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ByHand {
    /// What it is given instead of its own input.
    pub input: Option<Json>,
    /// Who asks.
    pub by: Option<String>,
    /// W3C trace context of whoever asks.
    pub trace_context: Option<String>,
}

impl ByHand {
    /// Refuses what the stores could not keep.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.input.iter().try_for_each(|input| input.check("input"))?;
        name::check_text("by", self.by.as_deref().unwrap_or_default())?;
        name::check_text("trace_context", self.trace_context.as_deref().unwrap_or_default())
    }

    /// The job that is made.
    pub fn job(&self, schedule: &Schedule) -> NewJob {
        let usual = NewJob::of_schedule(schedule, Trigger::Manual, self.by.clone(), schedule.definition.serial);
        NewJob { input: self.input.clone().unwrap_or(usual.input), trace_context: self.trace_context.clone(), ..usual }
    }
}
