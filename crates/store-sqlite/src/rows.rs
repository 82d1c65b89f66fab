//! Rows to values and back: ids as 16 bytes, times as microseconds, words as text.

use crate::error::store_error;
use jiff::{SignedDuration, Timestamp};
use punctual_core::cron::Dst;
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::invalid::Invalid;
use punctual_core::job::{Job, NewJob, Run, RunningRun, Timeout, Whereabouts};
use punctual_core::job_key::{JobKey, JobKeyMode};
use punctual_core::json::Json;
use punctual_core::name::Name;
use punctual_core::order::Place;
use punctual_core::retry::RetryPolicy;
use punctual_core::schedule::{
    Dependency, Forgiven, Pause, Schedule, ScheduleDefinition, ScheduleResults, ScheduleState,
};
use punctual_core::store::{StoreError, StoreResult};
use punctual_core::target::TargetReader;
use punctual_core::timing::TimingSpec;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Params, Row};
use serde::de::DeserializeOwned;
use std::str::FromStr;
use uuid::Uuid;

/// A row that was written by hand or by a fault and cannot be understood: what is wrong, in words.
pub(crate) type Unreadable = Invalid;

/// Reads the columns of a row one after the other, in the order of the statement.
pub(crate) struct Columns<'a> {
    row: &'a Row<'a>,
    at: usize,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(row: &'a Row<'a>) -> Self {
        Self { row, at: 0 }
    }

    pub(crate) fn next<T: FromSql>(&mut self) -> Result<T, Unreadable> {
        let at = self.at;
        self.at += 1;
        self.row.get(at).map_err(|error| {
            let name = self.row.as_ref().column_name(at).unwrap_or("column").to_owned();
            Invalid::new(name, format!("cannot be read: {error}"))
        })
    }

    /// A text that need not be kept.
    fn text(&mut self) -> Result<&'a str, Unreadable> {
        let at = self.at;
        self.at += 1;
        let value = self.row.get_ref(at).map_err(|error| error.to_string());
        value.and_then(|value| value.as_str().map_err(|error| error.to_string())).map_err(|error| {
            let name = self.row.as_ref().column_name(at).unwrap_or("column").to_owned();
            Invalid::new(name, format!("cannot be read: {error}"))
        })
    }

    /// A number that is never negative.
    pub(crate) fn count(&mut self) -> Result<u64, Unreadable> {
        let number: i64 = self.next()?;
        u64::try_from(number).map_err(|_| Invalid::new("count", "is negative"))
    }

    pub(crate) fn skip(&mut self, columns: usize) {
        self.at += columns;
    }

    pub(crate) fn id<T: From<Uuid>>(&mut self) -> Result<T, Unreadable> {
        Ok(Uuid::from_bytes(self.next()?).into())
    }

    pub(crate) fn optional_id<T: From<Uuid>>(&mut self) -> Result<Option<T>, Unreadable> {
        Ok(self.next::<Option<[u8; 16]>>()?.map(|bytes| Uuid::from_bytes(bytes).into()))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, Unreadable> {
        let micros: i64 = self.next()?;
        Timestamp::from_microsecond(micros).map_err(|e| Invalid::new("time", e.to_string()))
    }

    /// A time that may be absent; one that no calendar has counts as absent, and is planned anew.
    pub(crate) fn optional_time(&mut self) -> Result<Option<Timestamp>, Unreadable> {
        Ok(self.next::<Option<i64>>()?.and_then(|micros| Timestamp::from_microsecond(micros).ok()))
    }

    pub(crate) fn word<T: FromStr<Err: std::fmt::Display>>(&mut self) -> Result<T, Unreadable> {
        self.text()?.parse().map_err(|e: T::Err| Invalid::new("word", e.to_string()))
    }

    pub(crate) fn optional_word<T: FromStr<Err: std::fmt::Display>>(&mut self) -> Result<Option<T>, Unreadable> {
        let word: Option<String> = self.next()?;
        word.map(|w| w.parse().map_err(|e: T::Err| Invalid::new("word", e.to_string()))).transpose()
    }

    pub(crate) fn document<T: DeserializeOwned>(&mut self, field: &str) -> Result<T, Unreadable> {
        serde_json::from_str(self.text()?).map_err(|e| Invalid::new(field, e.to_string()))
    }

    pub(crate) fn json(&mut self) -> Result<Json, Unreadable> {
        Json::from_stored(self.next()?)
    }

    pub(crate) fn optional_json(&mut self) -> Result<Option<Json>, Unreadable> {
        self.next::<Option<String>>()?.map(Json::from_stored).transpose()
    }
}

/// Reads one value per row of a query.
pub(crate) fn collect<T>(
    connection: &Connection, sql: &str, params: impl Params, mut decode: impl FnMut(&Row<'_>) -> Result<T, Unreadable>,
) -> StoreResult<Vec<T>> {
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params).map_err(store_error)?;
    let mut values = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        values.push(decode(row).map_err(unreadable)?);
    }
    Ok(values)
}

/// A row that only this store writes cannot be read: a fault, not a refusal of the caller's input.
#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
pub(crate) fn unreadable(problem: Unreadable) -> StoreError {
    StoreError::Internal(format!("unreadable row: {problem}"))
}

/// The id of a schedule's row, which is readable whatever else is not.
pub(crate) fn schedule_id(row: &Row<'_>) -> Result<ScheduleId, Unreadable> {
    Columns::of(row).id()
}

/// A row of `punctual_schedule_rows`.
pub(crate) fn schedule(row: &Row<'_>) -> Result<Schedule, Unreadable> {
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
        description: c.next()?,
        labels: c.document("labels")?,
        timing: timing(c)?,
        starts_at: c.optional_time()?,
        ends_at: c.optional_time()?,
        calendar: c.next()?,
        target: c.document("target")?,
        input: c.json()?,
        template_id: c.optional_id()?,
        queue: c.next()?,
        priority: c.next()?,
        serial: c.next()?,
        retry: c.document("retry")?,
        timeout: Timeout::from_micros(c.next()?),
        missed: c.document("missed")?,
        overlap: c.word()?,
        max_concurrent_runs: c.next()?,
        jitter: SignedDuration::from_micros(c.next()?),
        depends_on: dependency(c)?,
        grant_id: c.optional_id()?,
        owner: c.next()?,
        source: c.word()?,
        burst_allowed: c.next()?,
        pause_after_failures: c.next()?,
        tags: tags(c)?,
    })
}

fn timing(c: &mut Columns<'_>) -> Result<TimingSpec, Unreadable> {
    let cron: Option<String> = c.next()?;
    let every: Option<i64> = c.next()?;
    let at = c.optional_time()?;
    let timezone: String = c.next()?;
    let dst = Dst { gap: c.word()?, overlap: c.word()? };
    match (cron, every, at) {
        (Some(expression), None, None) => Ok(TimingSpec::Cron { expression, timezone, dst }),
        (None, Some(micros), None) => Ok(TimingSpec::Every { period: SignedDuration::from_micros(micros) }),
        (None, None, Some(at)) => Ok(TimingSpec::At { at }),
        _ => Err(Invalid::new("cron", "exactly one of cron, every and at must be given")),
    }
}

fn dependency(c: &mut Columns<'_>) -> Result<Option<Dependency>, Unreadable> {
    let schedule_id: Option<ScheduleId> = c.optional_id()?;
    let within: Option<i64> = c.next()?;
    let pair = schedule_id.zip(within);
    Ok(pair.map(|(schedule_id, micros)| Dependency { schedule_id, within: SignedDuration::from_micros(micros) }))
}

fn state(c: &mut Columns<'_>) -> Result<ScheduleState, Unreadable> {
    Ok(ScheduleState {
        enabled: c.next()?,
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
        fired_from: c.word()?,
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
    let failures: Option<u32> = c.next()?;
    Ok(at.zip(failures).map(|(at, failures)| Forgiven { at, failures }))
}

fn results(c: &mut Columns<'_>) -> Result<ScheduleResults, Unreadable> {
    Ok(ScheduleResults {
        last_run_at: c.optional_time()?,
        last_outcome: c.optional_word()?,
        last_success_at: c.optional_time()?,
        consecutive_failures: c.next::<Option<u32>>()?.unwrap_or(0),
    })
}

/// A row of `punctual_job_rows`.
pub(crate) fn job(row: &Row<'_>) -> Result<Job, Unreadable> {
    job_of(&mut Columns::of(row), &mut TargetReader::default())
}

/// One of many, whose targets are often the same.
pub(crate) fn job_by(row: &Row<'_>, targets: &mut TargetReader) -> Result<Job, Unreadable> {
    job_of(&mut Columns::of(row), targets)
}

fn job_of(c: &mut Columns<'_>, targets: &mut TargetReader) -> Result<Job, Unreadable> {
    let (id, created_at) = (c.id()?, c.time()?);
    let spec = job_spec(c, targets)?;
    Ok(Job {
        id,
        created_at,
        spec,
        schedule_id: c.optional_id()?,
        slot_at: c.optional_time()?,
        retry_of: c.optional_id()?,
        root_job_id: c.optional_id()?.unwrap_or(id),
        chain_began_at: c.optional_time()?.unwrap_or(created_at),
        attempt: c.next()?,
        failures: c.next()?,
        interruptions: c.next()?,
    })
}

fn job_spec(c: &mut Columns<'_>, targets: &mut TargetReader) -> Result<NewJob, Unreadable> {
    Ok(NewJob {
        target: targets.read(c.text()?)?,
        input: c.json()?,
        queue: c.next()?,
        priority: c.next()?,
        run_at: c.optional_time()?,
        serial_key: c.next()?,
        job_key: job_key(c)?,
        unique: None,
        tags: tags(c)?,
        retry: retry(c)?,
        timeout: Timeout::from_micros(c.next()?),
        template_id: c.optional_id()?,
        grant_id: c.optional_id()?,
        trigger: c.word()?,
        trigger_detail: c.next()?,
        trace_context: c.next()?,
        owner: c.next()?,
    })
}

fn job_key(c: &mut Columns<'_>) -> Result<Option<JobKey>, Unreadable> {
    let key: Option<String> = c.next()?;
    let mode = c.optional_word()?;
    Ok(key.map(|key| JobKey { key, mode: mode.unwrap_or(JobKeyMode::Replace) }))
}

fn tags(c: &mut Columns<'_>) -> Result<Vec<String>, Unreadable> {
    match c.next::<Option<String>>()? {
        None => Ok(Vec::new()),
        Some(text) => serde_json::from_str(&text).map_err(|e| Invalid::new("tags", e.to_string())),
    }
}

fn retry(c: &mut Columns<'_>) -> Result<RetryPolicy, Unreadable> {
    match c.text()? {
        // Most jobs have the usual policy, which is written as nothing.
        "{}" => Ok(RetryPolicy::default()),
        text => serde_json::from_str(text).map_err(|e| Invalid::new("retry", e.to_string())),
    }
}

/// How an id that may be absent is written.
pub(crate) fn bytes<T: AsRef<[u8; 16]>>(id: Option<&T>) -> Option<&[u8; 16]> {
    id.map(AsRef::as_ref)
}

/// How a retry policy is written: the usual one as nothing.
pub(crate) fn retry_text(retry: &RetryPolicy) -> StoreResult<String> {
    if *retry == RetryPolicy::default() { Ok("{}".to_owned()) } else { document("retry", retry) }
}

/// How a document is written.
pub(crate) fn document<T: serde::Serialize>(field: &str, value: &T) -> StoreResult<String> {
    serde_json::to_string(value).map_err(|e| StoreError::Internal(format!("{field} cannot be written: {e}")))
}

/// The answer of `job_places`: where the job is, if it is anywhere.
pub(crate) fn whereabouts(row: &Row<'_>, job_id: JobId) -> Result<Option<Whereabouts>, Unreadable> {
    let mut c = Columns::of(row);
    if c.next::<Option<[u8; 16]>>()?.is_some() {
        return Ok(Some(Whereabouts::Delayed { run_at: c.optional_time()? }));
    }
    c.skip(1);
    if c.next::<Option<[u8; 16]>>()?.is_some() {
        let place = Place { priority: c.next()?, position: c.next()?, created_at: c.time()?, job_id };
        return Ok(Some(Whereabouts::Queued { place, queued_at: c.time()?, ready: c.next()? }));
    }
    c.skip(5);
    if c.next::<Option<[u8; 16]>>()?.is_some() {
        return Ok(Some(Whereabouts::Running(RunningRun {
            node_id: c.optional_id()?,
            lease_id: c.optional_id()?,
            started_at: c.time()?,
            cancel_requested_at: c.optional_time()?,
        })));
    }
    c.skip(4);
    if c.next::<Option<[u8; 16]>>()?.is_none() {
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
