//! Schedules that a program declares in its code.

use crate::enqueue::signed;
use crate::{Missed, Overlap, Punctual, Result, RetryPolicy, Schedule, Target, Timestamp};
use jiff::SignedDuration;
use punctual_core::cron::Dst;
use punctual_core::invalid::Invalid;
use punctual_core::job::Timeout;
use punctual_core::json::Json;
use punctual_core::name::Name;
use punctual_core::schedule::{Dependency, FiredFrom, ScheduleDefinition};
use punctual_core::store::StoreError;
use punctual_core::timing::TimingSpec;
use punctual_core::upkeep::Declaration;
use serde::Serialize;
use std::time::Duration;

/// What happens to schedules that this program declared before and does not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// They stay.
    Keep,
    /// They are removed.
    Remove,
}

/// A schedule that is not saved yet; begun by [`Punctual::schedule`].
///
/// Say when with one of [`cron`](Self::cron), [`every`](Self::every) and [`at`](Self::at), and what with
/// [`task`](Self::task) or [`target`](Self::target). The rest has usual values.
///
/// ```
/// # punctual::testing::block_on(async {
/// use punctual::{Context, Missed, Overlap, testing::TestPunctual};
/// use std::time::Duration;
///
/// let test = TestPunctual::new().await?;
/// test.task("report", |_: Context, team: String| async move { Ok(format!("report for {team}")) });
/// let schedule = test
///     .schedule("nightly")
///     .cron("0 2 * * *")?
///     .timezone("Europe/Berlin")?
///     .task("report")
///     .input("billing")?
///     .missed(Missed::SKIP)
///     .overlap(Overlap::Forbid)
///     .timeout(Duration::from_secs(600))
///     .save()
///     .await?;
/// assert_eq!(schedule.state.next_run_at.unwrap().to_string(), "2026-03-01T01:00:00Z");
/// # Ok::<(), punctual::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
#[must_use = "a schedule is there when it is saved"]
pub struct ScheduleBuilder {
    punctual: Punctual,
    name: String,
    timing: Option<TimingSpec>,
    timezone: String,
    dst: Dst,
    target: Option<Target>,
    /// Everything else, under a name that is not used.
    rest: Rest,
}

/// The fields of a definition that have usual values.
#[derive(Debug, Clone, Default)]
struct Rest {
    description: String,
    labels: std::collections::BTreeMap<String, String>,
    starts_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
    input: Json,
    queue: Option<String>,
    priority: i32,
    tags: Vec<String>,
    serial: bool,
    retry: RetryPolicy,
    timeout: Timeout,
    missed: Missed,
    overlap: Option<Overlap>,
    max_concurrent_runs: Option<u32>,
    burst_allowed: bool,
    pause_after_failures: Option<u32>,
    calendar: Option<String>,
    jitter: SignedDuration,
    depends_on: Option<Dependency>,
}

impl ScheduleBuilder {
    pub(crate) fn new(punctual: Punctual, name: &str) -> Self {
        Self {
            punctual,
            name: name.to_owned(),
            timing: None,
            timezone: "UTC".to_owned(),
            dst: Dst::default(),
            target: None,
            rest: Rest::default(),
        }
    }

    /// When: a cron expression of five or six fields, `@hourly` and its like, or `@every 90s`. Refused at once when it
    /// cannot be understood.
    pub fn cron(mut self, expression: &str) -> Result<Self> {
        let timing = TimingSpec::cron(expression, "UTC");
        timing.compile(Timestamp::UNIX_EPOCH, &self.name)?;
        self.timing = Some(timing);
        Ok(self)
    }

    /// When: every so often, from the time it is first saved; a second or more.
    pub fn every(mut self, period: Duration) -> Self {
        self.timing = Some(TimingSpec::Every { period: signed(period) });
        self
    }

    /// When: once, at this time.
    pub fn at(mut self, at: Timestamp) -> Self {
        self.timing = Some(TimingSpec::At { at });
        self
    }

    /// The time zone in which the cron expression is read, by its IANA name; UTC unless it is said.
    pub fn timezone(mut self, zone: &str) -> Result<Self> {
        punctual_core::cron::zone(zone).map_err(|error| Invalid::new("timezone", error.to_string()))?;
        zone.clone_into(&mut self.timezone);
        Ok(self)
    }

    /// What happens to slots in the missing and in the doubled hour of a clock change.
    pub fn clock_changes(mut self, dst: Dst) -> Self {
        self.dst = dst;
        self
    }

    /// What: a task of this program, or of another one on the same store.
    pub fn task(self, name: &str) -> Self {
        self.target(Target::task(name))
    }

    /// What: a target of any kind.
    pub fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// What its jobs are given.
    pub fn input<I: Serialize + ?Sized>(mut self, input: &I) -> Result<Self> {
        self.rest.input = Json::from_value("input", input)?;
        Ok(self)
    }

    /// What it is for, for people.
    pub fn description(mut self, words: impl Into<String>) -> Self {
        self.rest.description = words.into();
        self
    }

    /// A label, for people and filters.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.rest.labels.insert(key.into(), value.into());
        self
    }

    /// No slot lies before this.
    pub fn starts_at(mut self, at: Timestamp) -> Self {
        self.rest.starts_at = Some(at);
        self
    }

    /// No slot lies after this.
    pub fn ends_at(mut self, at: Timestamp) -> Self {
        self.rest.ends_at = Some(at);
        self
    }

    /// The queue of its jobs; `default` unless it is said.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.rest.queue = Some(queue.into());
        self
    }

    /// The tags of its jobs, which limits count.
    pub fn tags<S: Into<String>>(mut self, tags: impl IntoIterator<Item = S>) -> Self {
        self.rest.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// The priority of its jobs: larger goes first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.rest.priority = priority;
        self
    }

    /// Its jobs run one at a time, in order, across all nodes.
    pub fn serial(mut self) -> Self {
        self.rest.serial = true;
        self
    }

    /// How its jobs are tried again; three attempts with growing waits unless it is said.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.rest.retry = policy;
        self
    }

    /// How long a job may run; an hour unless it is said.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.rest.timeout = Timeout::After(signed(limit));
        self
    }

    /// Lets its jobs run for ever.
    pub fn no_timeout(mut self) -> Self {
        self.rest.timeout = Timeout::Never;
        self
    }

    /// Its slots fire at once although the installation's cap on fires is reached.
    pub fn burst_allowed(mut self) -> Self {
        self.rest.burst_allowed = true;
        self
    }

    /// Pauses by itself after so many failed runs in a row, retries included.
    pub fn pause_after_failures(mut self, failures: u32) -> Self {
        self.rest.pause_after_failures = Some(failures);
        self
    }

    /// Skips the days and times that a stored calendar closes.
    pub fn calendar(mut self, name: impl Into<String>) -> Self {
        self.rest.calendar = Some(name.into());
        self
    }

    /// What happens to slots that passed while nobody could fire them; the latest runs once unless it is said.
    pub fn missed(mut self, policy: Missed) -> Self {
        self.rest.missed = policy;
        self
    }

    /// What a slot does while a run is still alive; both run unless it is said.
    pub fn overlap(mut self, policy: Overlap) -> Self {
        self.rest.overlap = Some(policy);
        self
    }

    /// How many runs may be alive at once.
    pub fn max_concurrent_runs(mut self, runs: u32) -> Self {
        self.rest.max_concurrent_runs = Some(runs);
        self
    }

    /// Each slot is due up to this much later, by a value fixed for the slot.
    pub fn jitter(mut self, longest: Duration) -> Self {
        self.rest.jitter = signed(longest);
        self
    }

    /// Runs only if another schedule succeeded within this time before the slot.
    pub fn depends_on(mut self, other: &Schedule, within: Duration) -> Self {
        self.rest.depends_on = Some(Dependency { schedule_id: other.id, within: signed(within) });
        self
    }

    /// Writes the schedule to the store: new, changed if its definition is another one, or left as it is. Saving at
    /// every start of the program is how it is meant; a paused schedule stays paused, and no slot fires by it.
    ///
    /// Refused: the name of a schedule that was not declared in code, or under another owner (see
    /// [`Builder::owner`](crate::Builder::owner)), because that one belongs to somebody else.
    pub async fn save(self) -> Result<Schedule> {
        let punctual = self.punctual.clone();
        let saved = punctual.declare([self], Others::Keep).await?.pop();
        Ok(saved.ok_or_else(|| StoreError::Internal("the store declared no schedule".to_owned()))?)
    }

    pub(crate) fn declaration(self) -> Result<Declaration> {
        Ok(Declaration { definition: self.definition()?, fired_from: FiredFrom::Store })
    }

    fn definition(self) -> Result<ScheduleDefinition> {
        let timing = match self.timing {
            Some(TimingSpec::Cron { expression, .. }) => {
                TimingSpec::Cron { expression, timezone: self.timezone, dst: self.dst }
            }
            Some(timing) => timing,
            None => return Err(Invalid::new("cron", "is not said").remedy("say when: cron, every or at").into()),
        };
        let target =
            self.target.ok_or_else(|| Invalid::new("target", "is not said").remedy("say what: task or target"))?;
        let rest = self.rest;
        let usual = ScheduleDefinition::new(Name::new(self.name)?, timing, target);
        Ok(ScheduleDefinition {
            description: rest.description,
            labels: rest.labels,
            starts_at: rest.starts_at,
            ends_at: rest.ends_at,
            input: rest.input,
            queue: rest.queue.unwrap_or(usual.queue),
            priority: rest.priority,
            tags: rest.tags,
            serial: rest.serial,
            retry: rest.retry,
            timeout: rest.timeout,
            missed: rest.missed,
            overlap: rest.overlap.unwrap_or(usual.overlap),
            max_concurrent_runs: rest.max_concurrent_runs,
            burst_allowed: rest.burst_allowed,
            pause_after_failures: rest.pause_after_failures,
            calendar: rest.calendar,
            jitter: rest.jitter,
            depends_on: rest.depends_on,
            ..usual
        })
    }
}
