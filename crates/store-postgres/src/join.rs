//! Enqueueing inside a transaction of the caller's own, with any driver: a statement, and the document it takes.

use jiff::Timestamp;
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob};
use punctual_core::job_key;
use punctual_core::json::Json;
use punctual_core::store::{StoreError, StoreResult};
use punctual_core::unique::Unique;
use serde::Serialize;
use uuid::Uuid;

/// Makes the jobs of a document inside the transaction it is sent in, and tells idle nodes at its commit. Takes a text
/// (see [`document`]) and answers with one row for each job, whose only column is the job's id as text.
pub const ENQUEUE: &str = "SELECT job_id::text FROM punctual_internal.enqueue_once($1::text::json)";

/// The first instant that is written to the database as text without the words of another calendar.
const FIRST_YEAR: &str = "0001-01-01T00:00:00Z";

/// The document that [`ENQUEUE`] takes; jobs that are not valid are refused.
pub fn document(jobs: &[NewJob]) -> StoreResult<String> {
    job_key::check_batch(jobs)?;
    let jobs: Vec<JobDocument<'_>> = jobs.iter().map(JobDocument::of).collect();
    serde_json::to_string(&jobs).map_err(|e| StoreError::Internal(format!("the jobs cannot be written: {e}")))
}

/// The ids that [`ENQUEUE`] answered with.
pub fn ids(answer: impl IntoIterator<Item = String>) -> StoreResult<Vec<JobId>> {
    let unreadable = |text: &str| StoreError::Internal(format!("`{text}` is not an id"));
    answer.into_iter().map(|text| text.parse().map_err(|_| unreadable(&text))).collect()
}

/// What an error of the driver means, when it is the one this store uses itself.
pub fn driver_error(error: &tokio_postgres::Error) -> StoreError {
    crate::error::store_error(error)
}

/// A job as the function reads it.
#[derive(Serialize)]
struct JobDocument<'a> {
    target: &'a punctual_core::target::Target,
    input: &'a Json,
    queue: &'a str,
    priority: i32,
    run_at: Option<String>,
    serial_key: Option<&'a str>,
    job_key: Option<&'a str>,
    job_key_mode: Option<&'static str>,
    tags: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'a punctual_core::retry::RetryPolicy>,
    timeout_us: Option<i64>,
    template_id: Option<Uuid>,
    grant_id: Option<Uuid>,
    trigger: &'static str,
    trigger_detail: Option<&'a str>,
    trace_context: Option<&'a str>,
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_us: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_states: Option<&'a [JobState]>,
}

impl<'a> JobDocument<'a> {
    fn of(job: &'a NewJob) -> Self {
        let (key, unique) = (job.job_key.as_ref(), job.unique.as_ref());
        Self {
            target: &job.target,
            input: &job.input,
            queue: &job.queue,
            priority: job.priority,
            run_at: job.run_at.map(time_text),
            serial_key: job.serial_key.as_deref(),
            job_key: key.map(|key| key.key.as_str()),
            job_key_mode: key.map(|key| key.mode.as_str()),
            tags: (!job.tags.is_empty()).then_some(job.tags.as_slice()),
            // The usual policy is written as nothing.
            retry: (job.retry != punctual_core::retry::RetryPolicy::default()).then_some(&job.retry),
            timeout_us: job.timeout.as_micros(),
            template_id: job.template_id.map(|id| id.0),
            grant_id: job.grant_id.map(|id| id.0),
            trigger: job.trigger.as_str(),
            trigger_detail: job.trigger_detail.as_deref(),
            trace_context: job.trace_context.as_deref(),
            owner: job.owner.as_deref(),
            unique_key: unique.map(|unique| unique.key_of(job)),
            unique_us: unique.map(|unique| i64::try_from(unique.period.as_micros()).unwrap_or(i64::MAX)),
            unique_states: unique.map(Unique::states),
        }
    }
}

/// An instant in whole microseconds; what lies before the first year has come in any case.
fn time_text(at: Timestamp) -> String {
    let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
    if at < Timestamp::from_second(-62_135_596_800).unwrap_or(at) { FIRST_YEAR.to_owned() } else { at.to_string() }
}
