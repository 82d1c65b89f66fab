//! Making jobs: a whole batch in one statement, with what its jobs have in common sent once.

use crate::error::{Failure, Work};
use crate::params::{Params, params, time};
use crate::rows::{self, document, retry_text};
use crate::session::Answer;
use crate::sql;
use crate::tx::Tx;
use jiff::Timestamp;
use punctual_core::id::JobId;
use punctual_core::job::{NewJob, Origin};
use std::time::SystemTime;
use tokio_postgres::Row;

/// How many kinds are looked through for one that fits. A batch with more of them sends some twice, which is no harm.
const KINDS_COMPARED: usize = 8;

/// A job that is to be made.
#[derive(Debug)]
pub(crate) struct Making<'a> {
    /// The half of its id that is not the time.
    pub(crate) bits: [u8; 8],
    pub(crate) spec: &'a NewJob,
    pub(crate) origin: &'a Origin,
}

impl Tx<'_> {
    /// Makes jobs, all or none, and puts each where it belongs. The caller has locked their serial keys, and settles
    /// them.
    pub(crate) async fn make_jobs(&self, jobs: &[Making<'_>], place: bool) -> Work<Vec<JobId>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let now = Some(self.at());
        let (statement, params) = making(jobs, now, place)?;
        if let Some(made) = ids(jobs, &self.rows(statement, params).await?)? {
            return Ok(made);
        }
        self.execute(sql::make_lanes, make_lanes_params(jobs, now)).await?;
        let (statement, params) = making(jobs, now, place)?;
        ids(jobs, &self.rows(statement, params).await?)?.ok_or_else(|| Failure::internal("a lane was not stored"))
    }
}

/// The ids of jobs that were made, from the instant that `make_jobs` answers with; it answers with nothing when a lane
/// has to be made first.
pub(crate) fn ids(jobs: &[Making<'_>], answer: &[Row]) -> Work<Option<Vec<JobId>>> {
    let made_at: Option<Timestamp> = rows::collect(answer, |row| rows::Columns::of(row).time())?.pop();
    Ok(made_at.map(|at| jobs.iter().map(|job| JobId::at(at, job.bits)).collect()))
}

/// Whether a batch was made.
pub(crate) fn is_made(answer: Option<&Answer>) -> bool {
    answer.is_some_and(|answer| answer.len() == 1)
}

/// What many jobs of a batch have in common, and is therefore sent once.
#[derive(Debug, PartialEq)]
struct Kind<'a> {
    job_type: String,
    spec: &'a NewJob,
}

impl<'a> Kind<'a> {
    /// What is common to jobs that are of one kind, behind what is each one's own.
    fn common_params(&self, own: Params<'a>) -> Work<Params<'a>> {
        let spec = self.spec;
        let common = own
            .with(spec.queue.as_str())
            .with(self.job_type.clone())
            .with(spec.priority)
            .with(self.tags()?)
            .with(retry_text(&spec.retry)?)
            .with(spec.timeout.as_micros())
            .with(spec.template_id.map(|id| id.0))
            .with(spec.grant_id.map(|id| id.0))
            .with(spec.trigger.as_str())
            .with(spec.trigger_detail.as_deref())
            .with(spec.owner.as_deref());
        Ok(common)
    }

    fn tags(&self) -> Work<Option<String>> {
        let tags = &self.spec.tags;
        (!tags.is_empty()).then(|| document("tags", tags)).transpose()
    }

    fn is_of(&self, job_type: &str, spec: &NewJob) -> bool {
        let own = self.spec;
        self.job_type == job_type
            && own.queue == spec.queue
            && own.priority == spec.priority
            && own.retry == spec.retry
            && own.timeout == spec.timeout
            && own.template_id == spec.template_id
            && own.grant_id == spec.grant_id
            && own.trigger == spec.trigger
            && own.trigger_detail == spec.trigger_detail
            && own.tags == spec.tags
            && own.owner == spec.owner
    }
}

/// The kinds of a batch, and which of them each job is of, counted from one. Of the first one when nothing is said.
fn kinds<'a>(jobs: &[Making<'a>]) -> (Vec<Kind<'a>>, Vec<Option<i32>>) {
    let mut kinds: Vec<Kind<'a>> = Vec::new();
    let number = |job: &Making<'a>| {
        let job_type = job.spec.target.job_type();
        let lately = kinds.len().saturating_sub(KINDS_COMPARED);
        let known = kinds[lately..].iter().rposition(|kind| kind.is_of(&job_type, job.spec)).map(|at| lately + at);
        let at = known.unwrap_or_else(|| {
            kinds.push(Kind { job_type, spec: job.spec });
            kinds.len() - 1
        });
        (at > 0).then(|| i32::try_from(at + 1).unwrap_or(i32::MAX))
    };
    let numbers = trimmed(jobs.iter().map(number));
    (kinds, numbers)
}

/// A list without the nothings at its end: a list that is too short is as good as one filled up with them, and most
/// lists of most batches are empty then.
pub(crate) fn trimmed<T>(values: impl Iterator<Item = Option<T>>) -> Vec<Option<T>> {
    let mut values: Vec<Option<T>> = values.collect();
    let length = values.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    values.truncate(length);
    values
}

/// The statement that makes these jobs, and what goes into it: the shorter one if it will do.
pub(crate) fn making<'a>(
    jobs: &[Making<'a>], now: Option<SystemTime>, place: bool,
) -> Work<(&'static str, Params<'a>)> {
    let (kinds, kind_of) = kinds(jobs);
    let is_plain = |job: &Making<'_>| {
        let (spec, origin) = (job.spec, job.origin);
        let is_first = origin.schedule_id.is_none() && origin.slot_at.is_none() && origin.chain.is_none();
        is_first && spec.run_at.is_none() && spec.job_key.is_none()
    };
    match (kinds.as_slice(), jobs) {
        ([kind], [job]) if place && is_plain(job) => Ok((sql::make_job, alone_params(job, kind, now)?)),
        ([kind], _) if place && jobs.iter().all(is_plain) => Ok((sql::make_jobs_alike, alike_params(jobs, kind, now)?)),
        _ => Ok((sql::make_jobs, any_params(jobs, &kinds, kind_of, now, place)?)),
    }
}

fn alone_params<'a>(job: &Making<'a>, kind: &Kind<'a>, now: Option<SystemTime>) -> Work<Params<'a>> {
    let spec = job.spec;
    let own = params![
        now,
        tail(job.bits),
        document("target", &spec.target)?,
        spec.input.as_str(),
        spec.serial_key.as_deref(),
        spec.trace_context.as_deref(),
    ];
    kind.common_params(own)
}

fn alike_params<'a>(jobs: &[Making<'a>], kind: &Kind<'a>, now: Option<SystemTime>) -> Work<Params<'a>> {
    let common = &kind.spec.target;
    let other =
        |job: &Making<'a>| (job.spec.target != *common).then(|| document("target", &job.spec.target)).transpose();
    let own = params![
        now,
        jobs.iter().map(|job| tail(job.bits)).collect::<Vec<_>>(),
        trimmed(jobs.iter().map(other).collect::<Work<Vec<_>>>()?.into_iter()),
        jobs.iter().map(|job| job.spec.input.as_str()).collect::<Vec<_>>(),
        trimmed(jobs.iter().map(|job| job.spec.serial_key.as_deref())),
        trimmed(jobs.iter().map(|job| job.spec.trace_context.as_deref())),
    ];
    Ok(kind.common_params(own)?.with(document("target", common)?))
}

fn any_params<'a>(
    jobs: &[Making<'a>], kinds: &[Kind<'a>], kind_of: Vec<Option<i32>>, now: Option<SystemTime>, place: bool,
) -> Work<Params<'a>> {
    let chains = || jobs.iter().map(|job| job.origin.chain.as_ref());
    let small = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    Ok(params![
        now,
        place,
        jobs.iter().map(|job| tail(job.bits)).collect::<Vec<_>>(),
        kind_of,
        jobs.iter().map(|job| document("target", &job.spec.target)).collect::<Work<Vec<_>>>()?,
        jobs.iter().map(|job| job.spec.input.as_str()).collect::<Vec<_>>(),
        trimmed(jobs.iter().map(|job| job.origin.schedule_id.map(|id| id.0))),
        trimmed(jobs.iter().map(|job| job.origin.slot_at.map(time))),
        trimmed(jobs.iter().map(|job| job.spec.run_at.map(time))),
        trimmed(jobs.iter().map(|job| job.spec.serial_key.as_deref())),
        trimmed(jobs.iter().map(|job| job.spec.trace_context.as_deref())),
        trimmed(chains().map(|chain| chain.map(|link| link.retry_of.0))),
        trimmed(chains().map(|chain| chain.map(|link| link.root_job_id.0))),
        trimmed(chains().map(|chain| chain.map(|link| time(link.began_at)))),
        trimmed(chains().map(|chain| chain.map(|link| small(link.attempt)))),
        trimmed(chains().map(|chain| chain.map(|link| small(link.failures)))),
        trimmed(chains().map(|chain| chain.map(|link| small(link.interruptions)))),
        kinds.iter().map(|kind| kind.spec.queue.as_str()).collect::<Vec<_>>(),
        kinds.iter().map(|kind| kind.job_type.clone()).collect::<Vec<_>>(),
        kinds.iter().map(|kind| kind.spec.priority).collect::<Vec<_>>(),
        kinds.iter().map(|kind| retry_text(&kind.spec.retry)).collect::<Work<Vec<_>>>()?,
        kinds.iter().map(|kind| kind.spec.timeout.as_micros()).collect::<Vec<_>>(),
        kinds.iter().map(|kind| kind.spec.template_id.map(|id| id.0)).collect::<Vec<_>>(),
        kinds.iter().map(|kind| kind.spec.grant_id.map(|id| id.0)).collect::<Vec<_>>(),
        kinds.iter().map(|kind| kind.spec.trigger.as_str()).collect::<Vec<_>>(),
        kinds.iter().map(|kind| kind.spec.trigger_detail.as_deref()).collect::<Vec<_>>(),
        kinds.iter().map(Kind::tags).collect::<Work<Vec<_>>>()?,
        trimmed(jobs.iter().map(|job| job.spec.job_key.as_ref().map(|key| key.key.as_str()))),
        trimmed(jobs.iter().map(|job| job.spec.job_key.as_ref().map(|key| key.mode.as_str()))),
        kinds.iter().map(|kind| kind.spec.owner.as_deref()).collect::<Vec<_>>(),
    ])
}

pub(crate) fn make_lanes_params<'a>(jobs: &[Making<'a>], now: Option<SystemTime>) -> Params<'a> {
    params![
        now,
        jobs.iter().map(|job| job.spec.queue.as_str()).collect::<Vec<_>>(),
        jobs.iter().map(|job| job.spec.target.job_type()).collect::<Vec<_>>(),
    ]
}

/// The second half of an id, as the database puts it behind the half that is the time.
fn tail(bits: [u8; 8]) -> String {
    let id = JobId::at(Timestamp::UNIX_EPOCH, bits);
    let (_, half) = id.0.as_u64_pair();
    format!("{half:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::target::Target;

    #[test]
    fn c03_what_jobs_have_in_common_is_sent_once() {
        let origin = Origin::default();
        let plain = NewJob::new(Target::task("a"));
        let other = NewJob { priority: 7, ..plain.clone() };
        let elsewhere = NewJob { queue: "q".into(), ..plain.clone() };
        let made: Vec<Making<'_>> = [&plain, &plain, &other, &plain, &elsewhere, &other, &plain]
            .into_iter()
            .map(|spec| Making { bits: [0; 8], spec, origin: &origin })
            .collect();
        let (found, numbers) = kinds(&made);
        assert_eq!(found.len(), 3);
        assert_eq!(numbers, [None, None, Some(2), None, Some(3), Some(2)], "the nothings at the end are left out");
    }

    #[test]
    fn c03_more_kinds_than_are_compared_are_still_each_jobs_own() {
        let origin = Origin::default();
        let specs: Vec<NewJob> =
            (0..30).map(|n| NewJob { priority: n % 15, ..NewJob::new(Target::task("a")) }).collect();
        let made: Vec<Making<'_>> = specs.iter().map(|spec| Making { bits: [0; 8], spec, origin: &origin }).collect();
        let (found, numbers) = kinds(&made);
        for (job, number) in made.iter().zip(&numbers) {
            let kind = &found[number.map_or(0, |number| usize::try_from(number - 1).unwrap())];
            assert_eq!(kind.spec.priority, job.spec.priority);
        }
    }
}
