//! Rows to values and back: ids as `uuid`, times as `timestamptz`, words and documents as text.

use crate::error::{Failure, with_causes};
use crate::record::Record;
use jiff::{SignedDuration, Timestamp};
use punctual_core::cron::{Dst, DstGap, DstOverlap};
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::invalid::Invalid;
use punctual_core::job::{Job, NewJob, Run, RunningRun, Timeout, Whereabouts};
use punctual_core::job_key::{JobKey, JobKeyMode};
use punctual_core::json::Json;
use punctual_core::name::Name;
use punctual_core::order::Place;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::Trigger;
use punctual_core::schedule::{
    Dependency, FiredFrom, Forgiven, Overlap, Pause, Schedule, ScheduleDefinition, ScheduleResults, ScheduleState,
    Source,
};
use punctual_core::store::StoreError;
use punctual_core::target::TargetReader;
use punctual_core::timing::TimingSpec;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::str::FromStr;
use std::time::SystemTime;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

/// How many columns `job_columns` and `rare_job_columns` have together.
pub(crate) const JOB_COLUMNS: usize = 27;

/// A row that was written by hand or by a fault and cannot be understood: what is wrong, in words.
pub(crate) type Unreadable = Invalid;

/// Reads the columns of a row one after the other, in the order of the statement.
pub(crate) struct Columns<'a> {
    found_in: FoundIn<'a>,
    at: usize,
}

enum FoundIn<'a> {
    Row(&'a Row),
    Record(Record<'a>),
}

impl<'a> Columns<'a> {
    pub(crate) fn of(row: &'a Row) -> Self {
        Self { found_in: FoundIn::Row(row), at: 0 }
    }

    pub(crate) fn next<T: FromSql<'a>>(&mut self) -> Result<T, Unreadable> {
        let at = self.at;
        self.at += 1;
        match &self.found_in {
            FoundIn::Row(row) => row.try_get(at).map_err(|error| {
                let name = row.columns().get(at).map_or("column", tokio_postgres::Column::name);
                Invalid::new(name, format!("cannot be read: {}", with_causes(&error)))
            }),
            FoundIn::Record(record) => record
                .get(at)
                .map_err(|error| Invalid::new("record", format!("its column {at} cannot be read: {error}"))),
        }
    }

    /// The columns of a record within a row, if there is one.
    pub(crate) fn record(&mut self) -> Result<Option<Columns<'a>>, Unreadable> {
        let record: Option<Record<'a>> = self.next()?;
        Ok(record.map(|record| Columns { found_in: FoundIn::Record(record), at: 0 }))
    }

    /// A number that is never negative.
    pub(crate) fn count(&mut self) -> Result<u64, Unreadable> {
        let number: i64 = self.next()?;
        u64::try_from(number).map_err(|_| Invalid::new("count", "is negative"))
    }

    pub(crate) fn skip(&mut self, columns: usize) {
        self.at += columns;
    }

    /// A number that fits the small unsigned ones of the program.
    pub(crate) fn small<N: TryFrom<i32>>(&mut self) -> Result<N, Unreadable> {
        N::try_from(self.next::<i32>()?).map_err(|_| Invalid::new("number", "is out of range"))
    }

    fn small_or<N: TryFrom<i32>>(&mut self, usual: i32) -> Result<N, Unreadable> {
        N::try_from(self.or(usual)?).map_err(|_| Invalid::new("number", "is out of range"))
    }

    pub(crate) fn id<T: From<Uuid>>(&mut self) -> Result<T, Unreadable> {
        Ok(self.next::<Uuid>()?.into())
    }

    pub(crate) fn optional_id<T: From<Uuid>>(&mut self) -> Result<Option<T>, Unreadable> {
        Ok(self.next::<Option<Uuid>>()?.map(Into::into))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, Unreadable> {
        let at: SystemTime = self.next()?;
        Timestamp::try_from(at).map_err(|e| Invalid::new("time", e.to_string()))
    }

    /// A time that may be absent; one that no calendar has counts as absent, and is planned anew.
    pub(crate) fn optional_time(&mut self) -> Result<Option<Timestamp>, Unreadable> {
        Ok(self.next::<Option<SystemTime>>()?.and_then(|at| Timestamp::try_from(at).ok()))
    }

    pub(crate) fn word<T: FromStr<Err: std::fmt::Display>>(&mut self) -> Result<T, Unreadable> {
        let word: &str = self.next()?;
        word.parse().map_err(|e: T::Err| Invalid::new("word", e.to_string()))
    }

    pub(crate) fn optional_word<T: FromStr<Err: std::fmt::Display>>(&mut self) -> Result<Option<T>, Unreadable> {
        let word: Option<&str> = self.next()?;
        word.map(|w| w.parse().map_err(|e: T::Err| Invalid::new("word", e.to_string()))).transpose()
    }

    /// What is not sent where it is as usual.
    fn or<T: FromSql<'a>>(&mut self, usual: T) -> Result<T, Unreadable> {
        Ok(self.next::<Option<T>>()?.unwrap_or(usual))
    }

    fn word_or<T: FromStr<Err: std::fmt::Display>>(&mut self, usual: T) -> Result<T, Unreadable> {
        Ok(self.optional_word()?.unwrap_or(usual))
    }

    fn document_or_usual<T: DeserializeOwned + Default>(&mut self, field: &str) -> Result<T, Unreadable> {
        let text: Option<&str> = self.next()?;
        text.map_or_else(|| Ok(T::default()), |text| read_document(field, text))
    }

    pub(crate) fn document<T: DeserializeOwned>(&mut self, field: &str) -> Result<T, Unreadable> {
        read_document(field, self.next()?)
    }

    pub(crate) fn json(&mut self) -> Result<Json, Unreadable> {
        Json::from_stored(self.next()?)
    }

    pub(crate) fn optional_json(&mut self) -> Result<Option<Json>, Unreadable> {
        self.next::<Option<String>>()?.map(Json::from_stored).transpose()
    }
}

fn read_document<T: DeserializeOwned>(field: &str, text: &str) -> Result<T, Unreadable> {
    serde_json::from_str(text).map_err(|e| Invalid::new(field, e.to_string()))
}

/// Reads one value per row of an answer.
pub(crate) fn collect<T>(
    rows: &[Row], decode: impl FnMut(&Row) -> Result<T, Unreadable>,
) -> Result<Vec<T>, StoreError> {
    rows.iter().map(decode).collect::<Result<_, _>>().map_err(unreadable)
}

/// One value of a one-column query.
pub(crate) fn value<T: for<'a> FromSql<'a>>(row: &Row) -> Result<T, Unreadable> {
    Columns::of(row).next()
}

/// The instant that `SELECT now()` answered with.
pub(crate) fn now_of(rows: &[Row]) -> Result<Timestamp, Unreadable> {
    rows.first().map_or_else(|| Err(Invalid::new("now", "was not answered")), |row| Columns::of(row).time())
}

/// A row that only this store writes cannot be read: a fault, not a refusal of the caller's input.
#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
pub(crate) fn unreadable(problem: Unreadable) -> StoreError {
    StoreError::Internal(format!("unreadable row: {problem}"))
}

/// The id of a schedule's row, which is readable whatever else is not.
pub(crate) fn schedule_id(row: &Row) -> Result<ScheduleId, Unreadable> {
    Columns::of(row).id()
}

/// A row that begins with `schedule_columns`.
pub(crate) fn schedule(row: &Row) -> Result<Schedule, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Schedule {
        id: c.id()?,
        version: c.next()?,
        created_at: c.time()?,
        updated_at: c.time()?,
        anchor_at: c.time()?,
        seed: c.next()?,
        definition: definition(&mut c)?,
        state: state(&mut c)?,
        results: results(&mut c)?,
    })
}

fn definition(c: &mut Columns<'_>) -> Result<ScheduleDefinition, Unreadable> {
    Ok(ScheduleDefinition {
        name: Name::new(c.next::<String>()?)?,
        description: c.or(String::new())?,
        labels: c.document_or_usual("labels")?,
        timing: timing(c)?,
        starts_at: c.optional_time()?,
        ends_at: c.optional_time()?,
        calendar: c.next()?,
        target: c.document("target")?,
        input: c.json()?,
        template_id: c.optional_id()?,
        queue: c.next()?,
        priority: c.next()?,
        serial: c.or(false)?,
        retry: retry(c)?,
        timeout: Timeout::from_micros(c.next()?),
        missed: c.document_or_usual("missed")?,
        overlap: c.word_or(Overlap::Allow)?,
        max_concurrent_runs: small_count(c, "max_concurrent_runs")?,
        jitter: SignedDuration::from_micros(c.or(0)?),
        depends_on: dependency(c)?,
        grant_id: c.optional_id()?,
        owner: c.next()?,
        source: c.word_or(Source::Api)?,
        burst_allowed: c.or(false)?,
        pause_after_failures: small_count(c, "pause_after_failures")?,
        tags: tags(c)?,
    })
}

fn timing(c: &mut Columns<'_>) -> Result<TimingSpec, Unreadable> {
    let cron: Option<String> = c.next()?;
    let every: Option<i64> = c.next()?;
    let at = c.optional_time()?;
    let timezone: String = c.next()?;
    let dst = Dst { gap: c.word_or(DstGap::Next)?, overlap: c.word_or(DstOverlap::First)? };
    match (cron, every, at) {
        (Some(expression), None, None) => Ok(TimingSpec::Cron { expression, timezone, dst }),
        (None, Some(micros), None) => Ok(TimingSpec::Every { period: SignedDuration::from_micros(micros) }),
        (None, None, Some(at)) => Ok(TimingSpec::At { at }),
        _ => Err(Invalid::new("cron", "exactly one of cron, every and at must be given")),
    }
}

fn small_count(c: &mut Columns<'_>, field: &str) -> Result<Option<u32>, Unreadable> {
    let count: Option<i64> = c.next()?;
    count.map(|count| u32::try_from(count).map_err(|_| Invalid::new(field, "is out of range"))).transpose()
}

fn dependency(c: &mut Columns<'_>) -> Result<Option<Dependency>, Unreadable> {
    let schedule_id: Option<ScheduleId> = c.optional_id()?;
    let within: Option<i64> = c.next()?;
    let pair = schedule_id.zip(within);
    Ok(pair.map(|(schedule_id, micros)| Dependency { schedule_id, within: SignedDuration::from_micros(micros) }))
}

fn state(c: &mut Columns<'_>) -> Result<ScheduleState, Unreadable> {
    Ok(ScheduleState {
        enabled: c.or(true)?,
        next_slot_at: c.optional_time()?,
        next_run_at: c.optional_time()?,
        last_slot_at: c.optional_time()?,
        last_enqueued_at: c.optional_time()?,
        last_job_id: c.optional_id()?,
        fired_through: c.optional_time()?,
        exhausted_at: c.optional_time()?,
        problem: c.next()?,
        no_executor_since: c.optional_time()?,
        pause: pause(c)?,
        fired_from: c.word_or(FiredFrom::Store)?,
        forgiven: forgiven(c)?,
    })
}

fn pause(c: &mut Columns<'_>) -> Result<Option<Pause>, Unreadable> {
    let at = c.optional_time()?;
    let (by, note, until) = (c.next()?, c.next()?, c.optional_time()?);
    Ok(at.map(|at| Pause { at, by, note, until }))
}

fn forgiven(c: &mut Columns<'_>) -> Result<Option<Forgiven>, Unreadable> {
    let at = c.optional_time()?;
    let failures = small_count(c, "forgiven_failures")?;
    Ok(at.zip(failures).map(|(at, failures)| Forgiven { at, failures }))
}

fn results(c: &mut Columns<'_>) -> Result<ScheduleResults, Unreadable> {
    Ok(ScheduleResults {
        last_run_at: c.optional_time()?,
        last_outcome: c.optional_word()?,
        last_success_at: c.optional_time()?,
        consecutive_failures: u32::try_from(c.next::<Option<i64>>()?.unwrap_or(0)).unwrap_or(u32::MAX),
    })
}

/// A row that begins with `job_columns` and `rare_job_columns`.
pub(crate) fn job(row: &Row) -> Result<Job, Unreadable> {
    let mut c = Columns::of(row);
    let job = common_job(&mut c, &mut TargetReader::default(), Columns::next)?;
    with_rare_columns(job, &mut c)
}

/// What is the same for many jobs of a batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    targets: TargetReader,
    /// The queues of the lanes.
    pub(crate) queues: HashMap<i64, String>,
}

/// One of many, with the number of its lane in the place of its queue, and with a record of its rare columns.
pub(crate) fn job_of_lane(c: &mut Columns<'_>, batch: &mut Batch) -> Result<Job, Unreadable> {
    let queues = &batch.queues;
    let job = common_job(c, &mut batch.targets, |c| {
        let lane: i64 = c.next()?;
        queues.get(&lane).cloned().ok_or_else(|| Invalid::new("lane_id", format!("nobody knows the lane {lane}")))
    })?;
    match c.record()? {
        Some(mut rare) => with_rare_columns(job, &mut rare),
        None => Ok(job),
    }
}

/// A job without anything that few have.
fn common_job<'a>(
    c: &mut Columns<'a>, targets: &mut TargetReader, queue: impl FnOnce(&mut Columns<'a>) -> Result<String, Unreadable>,
) -> Result<Job, Unreadable> {
    let (id, created_at) = (c.id()?, c.time()?);
    let spec = NewJob {
        target: targets.read(c.next()?)?,
        input: c.json()?,
        queue: queue(c)?,
        priority: c.or(0)?,
        run_at: None,
        serial_key: None,
        job_key: None,
        unique: None,
        tags: Vec::new(),
        retry: retry(c)?,
        timeout: Timeout::from_micros(c.next()?),
        template_id: None,
        grant_id: None,
        trigger: c.word_or(Trigger::Api)?,
        trigger_detail: c.next()?,
        trace_context: None,
        owner: None,
    };
    Ok(Job {
        id,
        created_at,
        spec,
        schedule_id: c.optional_id()?,
        slot_at: c.optional_time()?,
        retry_of: None,
        root_job_id: id,
        chain_began_at: created_at,
        attempt: 1,
        failures: 0,
        interruptions: 0,
    })
}

fn with_rare_columns(job: Job, c: &mut Columns<'_>) -> Result<Job, Unreadable> {
    let spec = NewJob {
        run_at: c.optional_time()?,
        serial_key: c.next()?,
        job_key: job_key(c)?,
        tags: tags(c)?,
        template_id: c.optional_id()?,
        grant_id: c.optional_id()?,
        trace_context: c.next()?,
        owner: c.next()?,
        ..job.spec
    };
    Ok(Job {
        retry_of: c.optional_id()?,
        root_job_id: c.optional_id()?.unwrap_or(job.id),
        chain_began_at: c.optional_time()?.unwrap_or(job.created_at),
        attempt: c.small_or(1)?,
        failures: c.small_or(0)?,
        interruptions: c.small_or(0)?,
        spec,
        ..job
    })
}

fn job_key(c: &mut Columns<'_>) -> Result<Option<JobKey>, Unreadable> {
    let key: Option<String> = c.next()?;
    let mode = c.optional_word()?;
    Ok(key.map(|key| JobKey { key, mode: mode.unwrap_or(JobKeyMode::Replace) }))
}

fn tags(c: &mut Columns<'_>) -> Result<Vec<String>, Unreadable> {
    match c.next::<Option<&str>>()? {
        None => Ok(Vec::new()),
        Some(text) => read_document("tags", text),
    }
}

fn retry(c: &mut Columns<'_>) -> Result<RetryPolicy, Unreadable> {
    match c.next::<Option<&str>>()? {
        // Most jobs have the usual policy, which is written as nothing.
        None => Ok(RetryPolicy::default()),
        Some(text) => read_document("retry", text),
    }
}

/// How a retry policy is written: the usual one as nothing.
pub(crate) fn retry_text(retry: &RetryPolicy) -> Result<String, Failure> {
    if *retry == RetryPolicy::default() { Ok("{}".to_owned()) } else { document("retry", retry) }
}

/// How a document is written.
pub(crate) fn document<T: serde::Serialize>(field: &str, value: &T) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|e| Failure::internal(format!("{field} cannot be written: {e}")))
}

/// What `place_columns` says: where the job is, if it is anywhere.
pub(crate) fn whereabouts(row: &Row, job_id: JobId) -> Result<Option<Whereabouts>, Unreadable> {
    let mut c = Columns::of(row);
    c.skip(JOB_COLUMNS);
    if c.next::<Option<Uuid>>()?.is_some() {
        return Ok(Some(Whereabouts::Delayed { run_at: c.optional_time()? }));
    }
    c.skip(1);
    if c.next::<Option<Uuid>>()?.is_some() {
        let place = Place { priority: c.next()?, position: c.next()?, created_at: c.time()?, job_id };
        return Ok(Some(Whereabouts::Queued { place, queued_at: c.time()?, ready: c.next()? }));
    }
    c.skip(5);
    if c.next::<Option<Uuid>>()?.is_some() {
        return Ok(Some(Whereabouts::Running(RunningRun {
            node_id: c.optional_id()?,
            lease_id: c.optional_id()?,
            started_at: c.time()?,
            cancel_requested_at: c.optional_time()?,
        })));
    }
    c.skip(4);
    if c.next::<Option<Uuid>>()?.is_none() {
        return Ok(None);
    }
    Ok(Some(Whereabouts::Closed(Run {
        node_id: c.optional_id()?,
        started_at: c.optional_time()?,
        finished_at: c.time()?,
        outcome: c.word()?,
        error_code: c.optional_word()?,
        error: c.next()?,
        exit_code: c.next()?,
        output: c.optional_json()?,
        log_ref: c.next()?,
        is_final: c.next()?,
        usage: c.optional_json()?,
    })))
}
