//! Ends: closing runs by the lease's holder, with their retries and what they mean for their schedules.

use crate::Shared;
use crate::close::{MANY, begin_closing, close_alike, close_completed_on};
use crate::error::Work;
use crate::flow_steps::{Begun, Link, Told};
use crate::jobs::{Closing, closing_params, serial_keys, settling};
use crate::making::Making;
use crate::outbox::notice_params;
use crate::params::params;
use crate::rows::{self, Columns, Unreadable};
use crate::serial;
use crate::session::{Answer, Session, Step};
use crate::sql;
use crate::tx::{Patience, Tx};
use crate::wake::Wake;
use jiff::Timestamp;
use punctual_core::closing::{Again, EndFacts, KeyAfter, Retry, is_of_interest, is_plain, judge_end, key_after};
use punctual_core::id::{JobId, NodeId, NoticeId, ScheduleId};
use punctual_core::job::{Artifact, Job};
use punctual_core::json::Json;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::{FinishResult, FinishedRun, Lease, StoreResult};
use punctual_core::upkeep::{News, Notice};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::SystemTime;
use tokio_postgres::Row;
use uuid::Uuid;

/// Closes a batch of runs. Flows that are handed over are no ends, and are seen to one by one.
pub(crate) async fn finish_runs(shared: &Shared, lease: Lease, runs: &[FinishedRun]) -> StoreResult<Vec<FinishResult>> {
    if !runs.iter().any(|run| run.again == Again::BySteps) {
        return finish_all(shared, lease, runs).await;
    }
    let (flows, others): (Vec<FinishedRun>, Vec<FinishedRun>) =
        runs.iter().cloned().partition(|run| run.again == Again::BySteps);
    let mut begun = Vec::new();
    for flow in &flows {
        begun.push(hand_over(shared, lease, flow.job_id).await?);
    }
    let (mut begun, mut closed) = (begun.into_iter(), finish_all(shared, lease, &others).await?.into_iter());
    let result = |run: &FinishedRun| if run.again == Again::BySteps { begun.next() } else { closed.next() };
    Ok(runs.iter().map(result).map(|result| result.unwrap_or(FinishResult::LostLease)).collect())
}

async fn hand_over(shared: &Shared, lease: Lease, id: JobId) -> StoreResult<FinishResult> {
    let mut patience = Patience::default();
    let begun = loop {
        let mut tx = Tx::begin(shared).await?;
        let worked = tx.begin_flow(lease, id).await;
        match tx.end_and_tell(worked, Some(Wake::Plans)).await {
            Err(failure) if patience.allows(&failure).await => {}
            ended => break ended?,
        }
    };
    shared.ring();
    shared.ring_plans();
    match begun {
        Begun::GoesOn => Ok(FinishResult::GoesOn),
        Begun::LostLease => Ok(FinishResult::LostLease),
        Begun::Refused(why) => {
            let refused = [FinishedRun::failed(id, ErrorCode::TargetRejected, why)];
            Ok(finish_all(shared, lease, &refused).await?.pop().unwrap_or(FinishResult::LostLease))
        }
    }
}

/// Closes a batch of runs, all or none; a conflict with somebody else is tried again.
async fn finish_all(shared: &Shared, lease: Lease, runs: &[FinishedRun]) -> StoreResult<Vec<FinishResult>> {
    let mut patience = Patience::default();
    let mut suspicious = false;
    loop {
        match try_finish(shared, lease, runs, suspicious).await {
            // One of them has a run already, as a restored backup may hold it. Nobody pays for that look otherwise.
            Err(failure) if failure.is_unique_violation() && !suspicious => suspicious = true,
            Err(failure) if patience.allows(&failure).await => {}
            finished => return Ok(finished?),
        }
    }
}

/// Closes what can be closed without a look; the others are judged. Everything together, or nothing.
async fn try_finish(shared: &Shared, lease: Lease, runs: &[FinishedRun], suspicious: bool) -> Work<Vec<FinishResult>> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    if suspicious || !runs.iter().all(is_plain) {
        return try_judge(shared, lease, runs, suspicious).await;
    }
    if close_alike(shared, lease, runs).await? {
        shared.ended.send_replace(());
        return Ok(vec![FinishResult::Closed { retry: None }; runs.len()]);
    }
    if runs.len() >= MANY {
        return try_close_many(shared, lease, runs).await;
    }
    let session = shared.session().await?;
    let closed = close_completed_on(shared, &session, lease, runs).await?;
    drop(session);
    if !closed.contains(&true) {
        return try_judge(shared, lease, runs, false).await;
    }
    shared.ended.send_replace(());
    shared.ring_if_limited();
    let result = |closed| if closed { FinishResult::Closed { retry: None } } else { FinishResult::LostLease };
    Ok(closed.into_iter().map(result).collect())
}

/// Two round trips: what is plain is closed, and the COMMIT. What was not plain is judged in between.
async fn try_close_many(shared: &Shared, lease: Lease, runs: &[FinishedRun]) -> Work<Vec<FinishResult>> {
    let (mut tx, closed) = begin_closing(shared, lease, runs).await?;
    if !closed.contains(&false) {
        tx.pipeline_and_commit(Vec::new()).await?;
        shared.ended.send_replace(());
        shared.ring_if_limited();
        return Ok(vec![FinishResult::Closed { retry: None }; runs.len()]);
    }
    let open = runs.iter().zip(&closed).filter(|(_, closed)| !**closed);
    let rest: Vec<FinishedRun> = open.map(|(run, _)| run.clone()).collect();
    let ids: Vec<Uuid> = rest.iter().map(|run| run.job_id.0).collect();
    let taken = match tx.pipeline(&taking(ids, lease)).await {
        Ok(mut answers) => answers.pop().map(Answer::rows).unwrap_or_default(),
        Err(failure) => return tx.end(Err(failure)).await,
    };
    let mut judged = judge_and_commit(shared, tx, lease, &rest, &taken, false).await?.into_iter();
    let result = |closed: bool| {
        let closed = closed.then_some(FinishResult::Closed { retry: None });
        closed.or_else(|| judged.next()).unwrap_or(FinishResult::LostLease)
    };
    Ok(closed.into_iter().map(result).collect())
}

/// Two round trips: out of `running`, and everything that follows with the COMMIT.
async fn try_judge(shared: &Shared, lease: Lease, runs: &[FinishedRun], suspicious: bool) -> Work<Vec<FinishResult>> {
    let ids: Vec<Uuid> = runs.iter().map(|run| run.job_id.0).collect();
    let (tx, mut answers) = Tx::begin_with(shared, taking(ids, lease)).await?;
    let taken = answers.pop().map(Answer::rows).unwrap_or_default();
    judge_and_commit(shared, tx, lease, runs, &taken, suspicious).await
}

async fn judge_and_commit(
    shared: &Shared, mut tx: Tx<'_>, lease: Lease, runs: &[FinishedRun], taken: &[Row], suspicious: bool,
) -> Work<Vec<FinishResult>> {
    let judged = match rows::collect(taken, taken_run) {
        Ok(taken) => tx.judge_ends(Some(lease.node_id), runs, taken.into_iter().collect(), suspicious).await,
        Err(error) => Err(error.into()),
    };
    let mut ends = match judged {
        Ok(ends) => ends,
        Err(failure) => return tx.end(Err(failure)).await,
    };
    let told = std::mem::take(&mut ends.told);
    ends.stepped = !told.is_empty();
    if let Err(failure) = tx.tell_flows(told).await {
        return tx.end(Err(failure)).await;
    }
    let mut steps = ends.steps(tx.at());
    let wakes = ends.wakes();
    steps.extend(wakes.then_some(Wake::Work).and_then(Wake::step));
    tx.pipeline_and_commit(steps).await?;
    shared.ended.send_replace(());
    if wakes {
        shared.ring();
        shared.ring_plans();
    }
    Ok(ends.results)
}

/// The statements that take jobs out of `running`, their serial keys locked first.
pub(crate) fn taking(ids: Vec<Uuid>, lease: Lease) -> Vec<Step<'static>> {
    vec![
        Step::Rows(sql::lock_serial_keys_of_running, params![ids.clone()]),
        Step::Rows(sql::take_running, params![ids, lease.node_id.0, lease.lease_id.0]),
    ]
}

/// What was taken out of `running`.
#[derive(Debug)]
pub(crate) struct TakenRun {
    started_at: Timestamp,
    serial_key: Option<String>,
    schedule_id: Option<ScheduleId>,
    cancel_code: Option<ErrorCode>,
    cancel_requested: bool,
    /// Whether others may wait for its place.
    limited: bool,
    /// The step that it was made for.
    link: Option<Link>,
}

pub(crate) fn taken_run(row: &Row) -> Result<(JobId, TakenRun), Unreadable> {
    let mut c = Columns::of(row);
    let id = c.id()?;
    let taken = TakenRun {
        started_at: c.time()?,
        serial_key: c.next()?,
        schedule_id: c.optional_id()?,
        cancel_code: c.optional_word()?,
        cancel_requested: c.optional_time()?.is_some(),
        limited: c.next()?,
        link: Link::read(&mut c)?,
    };
    Ok((id, taken))
}

/// What a batch of ends comes to.
#[derive(Debug, Default)]
pub(crate) struct Ends<'a> {
    pub(crate) results: Vec<FinishResult>,
    closings: Vec<Closing<'a>>,
    tallies: BTreeMap<ScheduleId, Tally>,
    notices: Vec<Notice>,
    keys: BTreeSet<String>,
    /// Keys that are held from now on, and by which job.
    held: Vec<(String, JobId)>,
    /// Keys of jobs that came to a good end.
    freed: Vec<String>,
    /// Whether one had a place that a limit counts.
    limited: bool,
    /// Whether a flow went on.
    stepped: bool,
    /// What flows are to be told.
    pub(crate) told: Vec<Told>,
}

/// What a batch means for one schedule, summed up in the order of the reports.
#[derive(Debug)]
struct Tally {
    last: Outcome,
    succeeded: bool,
    failures: i64,
    /// Whether a failure is told that came after the last success.
    failing: bool,
    /// Whether one is told that came before it.
    hurt: bool,
    /// The notice that is written if the success ends a failure, and the job that succeeded.
    notice: NoticeId,
    job: JobId,
}

impl Ends<'_> {
    /// What is left to be written.
    pub(crate) fn steps(&self, now: SystemTime) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        if !self.closings.is_empty() {
            steps.push(Step::Count(sql::close_runs, closing_params(&self.closings, now)));
        }
        if !self.tallies.is_empty() {
            let params = params![
                now,
                self.tallies.keys().map(|id| id.0).collect::<Vec<_>>(),
                self.tallies.values().map(|tally| tally.last.as_str()).collect::<Vec<_>>(),
                self.tallies.values().map(|tally| tally.succeeded).collect::<Vec<_>>(),
                self.tallies.values().map(|tally| tally.failures).collect::<Vec<_>>(),
                self.tallies.values().map(|tally| tally.failing).collect::<Vec<_>>(),
                self.tallies.values().map(|tally| tally.hurt).collect::<Vec<_>>(),
                self.tallies.values().map(|tally| tally.notice.0).collect::<Vec<_>>(),
                self.tallies.values().map(|tally| tally.job.0).collect::<Vec<_>>(),
            ];
            steps.push(Step::Count(sql::record_results, params));
        }
        if !self.notices.is_empty() {
            steps.push(Step::Count(sql::insert_notices, notice_params(&self.notices, now)));
        }
        if !self.freed.is_empty() {
            steps.push(Step::Count(serial::FREE, params![self.freed.clone()]));
        }
        if !self.held.is_empty() {
            let (keys, jobs): (Vec<&str>, Vec<Uuid>) = self.held.iter().map(|(key, job)| (key.as_str(), job.0)).unzip();
            steps.push(Step::Count(serial::HOLD, params![keys, jobs, now]));
        }
        if !self.keys.is_empty() {
            steps.extend(settling(&self.keys));
        }
        steps
    }

    /// Whether there may be something new to do: a retry, the next job of a key, or one that a limit kept back.
    fn wakes(&self) -> bool {
        self.limited
            || self.stepped
            || !self.keys.is_empty()
            || self.results.iter().any(|it| matches!(it, FinishResult::Closed { retry: Some(_) }))
    }

    fn note_key(&mut self, key: Option<String>, job: JobId, after: KeyAfter) {
        match (key, after) {
            (Some(key), KeyAfter::Held) => self.held.push((key, job)),
            (Some(key), KeyAfter::Free) => self.freed.push(key),
            (_, KeyAfter::Same) | (None, _) => {}
        }
    }

    fn count(&mut self, schedule: ScheduleId, job: JobId, outcome: Outcome, told: bool, notice: NoticeId) {
        let tally = self.tallies.entry(schedule).or_insert(Tally {
            last: outcome,
            succeeded: false,
            failures: 0,
            failing: false,
            hurt: false,
            notice,
            job,
        });
        tally.last = outcome;
        match outcome {
            Outcome::Completed => {
                (tally.hurt, tally.failing) = (tally.hurt || tally.failing, false);
                (tally.succeeded, tally.failures, tally.job) = (true, 0, job);
            }
            Outcome::Failed => {
                tally.failures += 1;
                tally.failing |= told;
            }
            Outcome::Skipped | Outcome::Cancelled => {}
        }
    }
}

impl Tx<'_> {
    /// Judges each end by itself, and makes the retries. What was not taken has lost its lease; what was reported
    /// twice counts once.
    pub(crate) async fn judge_ends<'a>(
        &self, node_id: Option<NodeId>, runs: &'a [FinishedRun], mut taken: HashMap<JobId, TakenRun>, suspicious: bool,
    ) -> Work<Ends<'a>> {
        let ended = if suspicious { self.ended_already(runs).await? } else { HashSet::new() };
        let jobs = self.jobs_of_failures(runs, &taken).await?;
        let mut ends = Ends::default();
        let mut wanted = Vec::new();
        for run in runs {
            let Some(taken) = taken.remove(&run.job_id) else {
                ends.results.push(FinishResult::LostLease);
                continue;
            };
            ends.keys.extend(taken.serial_key.clone());
            ends.limited |= taken.limited;
            if ended.contains(&run.job_id) {
                ends.results.push(FinishResult::AlreadyClosed);
                continue;
            }
            let chance = u64::from_be_bytes(self.id_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let job = jobs.get(&run.job_id);
            let end = judge_end(run, EndFacts { job, cancel_code: taken.cancel_code, now: self.now, chance });
            let news = job.and_then(|job| News::of_end(job, &end));
            ends.note_key(taken.serial_key, run.job_id, key_after(job, &end));
            ends.closings.push(Closing {
                job_id: run.job_id,
                schedule_id: taken.schedule_id,
                node_id,
                started_at: Some(taken.started_at),
                outcome: end.outcome,
                error_code: end.error_code,
                error: end.error.clone(),
                exit_code: run.exit_code,
                output: run.output.as_ref().map(Json::as_str),
                log_ref: run.log_ref.as_deref(),
                usage: run.usage.as_ref().map(Json::as_str),
                is_final: end.retry.is_none(),
            });
            if let Some(schedule) = taken.schedule_id {
                ends.count(schedule, run.job_id, end.outcome, news.is_some(), self.notice_id());
            }
            ends.notices.extend(news.map(|news| self.notice(news)));
            if let (Some(link), None) = (taken.link, &end.retry) {
                ends.told.push(Told {
                    job: run.job_id,
                    link,
                    outcome: end.outcome,
                    error_code: end.error_code,
                    error: end.error,
                    output: run.output.clone(),
                });
            }
            wanted.extend(end.retry.map(|retry| (ends.results.len(), retry)));
            ends.results.push(FinishResult::Closed { retry: None });
        }
        self.make_retries(wanted, &mut ends).await?;
        Ok(ends)
    }

    /// Which of the runs have ended already, although their claims stand.
    async fn ended_already(&self, runs: &[FinishedRun]) -> Work<HashSet<JobId>> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.job_id.0).collect();
        let find = "SELECT job_id FROM punctual_internal.runs WHERE job_id = ANY ($1)";
        let found: Vec<JobId> = self.all(find, params![ids], |row| Columns::of(row).id()).await?;
        Ok(found.into_iter().collect())
    }

    /// The jobs of those runs after which something may follow, or whose end is told. Nobody wants that of what was
    /// cancelled or deleted.
    async fn jobs_of_failures(
        &self, runs: &[FinishedRun], taken: &HashMap<JobId, TakenRun>,
    ) -> Work<HashMap<JobId, Job>> {
        let ids: Vec<Uuid> = runs
            .iter()
            .filter(|run| is_of_interest(run) && taken.get(&run.job_id).is_some_and(|taken| !taken.cancel_requested))
            .map(|run| run.job_id.0)
            .collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let jobs: Vec<Job> = self.all(sql::jobs_by_id, params![ids], rows::job).await?;
        let deleted = self.deleted_schedules(&jobs).await?;
        let wanted = jobs.into_iter().filter(|job| job.schedule_id.is_none_or(|id| !deleted.contains(&id)));
        Ok(wanted.map(|job| (job.id, job)).collect())
    }

    /// Which of the jobs' schedules are deleted. Nobody deletes the others before this transaction is done: whoever
    /// does must see the retries.
    pub(crate) async fn deleted_schedules(&self, jobs: &[Job]) -> Work<HashSet<ScheduleId>> {
        let ids: BTreeSet<ScheduleId> = jobs.iter().filter_map(|job| job.schedule_id).collect();
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let find = "SELECT id, deleted_at IS NOT NULL FROM punctual_internal.schedules WHERE id = ANY ($1)
                    ORDER BY id FOR KEY SHARE";
        let found: Vec<(ScheduleId, bool)> = self
            .all(find, params![ids.iter().map(|id| id.0).collect::<Vec<_>>()], |row| {
                let mut c = Columns::of(row);
                Ok((c.id()?, c.next()?))
            })
            .await?;
        Ok(found.into_iter().filter(|(_, deleted)| *deleted).map(|(id, _)| id).collect())
    }

    /// Makes the one retry of each failed job, and enters it into the answers.
    async fn make_retries(&self, wanted: Vec<(usize, Retry)>, ends: &mut Ends<'_>) -> Work<()> {
        if wanted.is_empty() {
            return Ok(());
        }
        let making: Vec<Making<'_>> = wanted
            .iter()
            .map(|(_, retry)| Making { bits: self.id_bits(), spec: &retry.spec, origin: &retry.origin })
            .collect();
        // The keys are those of the jobs that failed, and locked already.
        ends.keys.extend(serial_keys(wanted.iter().map(|(_, retry)| &retry.spec)));
        let made = self.make_jobs(&making, true).await?;
        let insert =
            "INSERT INTO punctual_internal.retries (retry_of, job_id) SELECT * FROM unnest($1::uuid[], $2::uuid[])";
        let of: Vec<Uuid> = wanted.iter().map(|(_, retry)| retry.retry_of.0).collect();
        self.execute(insert, params![of, made.iter().map(|id| id.0).collect::<Vec<_>>()]).await?;
        let passed: Vec<(JobId, JobId)> =
            wanted.iter().zip(&made).map(|((_, retry), id)| (retry.retry_of, *id)).collect();
        self.pass_steps_on(&passed).await?;
        for ((at, _), id) in wanted.iter().zip(made) {
            ends.results[*at] = FinishResult::Closed { retry: Some(id) };
        }
        Ok(())
    }

    pub(crate) async fn add_artifacts(&mut self, lease: Lease, job: JobId, artifacts: &[Artifact]) -> Work<()> {
        // Locked, so that two reports of one run number their artifacts one after the other.
        self.hold_run(lease, job).await?;
        let insert = "INSERT INTO punctual_internal.artifacts (job_id, number, name, location, size_bytes, sha256)
                      SELECT $1, w.n + coalesce((SELECT max(number) FROM punctual_internal.artifacts WHERE job_id = $1), 0),
                             w.name, w.location, w.size_bytes, w.sha256
                      FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[]) WITH ORDINALITY
                        AS w (name, location, size_bytes, sha256, n)";
        let params = params![
            job.0,
            artifacts.iter().map(|artifact| artifact.name.as_str()).collect::<Vec<_>>(),
            artifacts.iter().map(|artifact| artifact.location.as_str()).collect::<Vec<_>>(),
            artifacts.iter().map(|artifact| i64::try_from(artifact.size_bytes).unwrap_or(i64::MAX)).collect::<Vec<_>>(),
            artifacts.iter().map(|artifact| artifact.sha256.as_str()).collect::<Vec<_>>(),
        ];
        self.execute(insert, params).await?;
        Ok(())
    }
}

/// The artifacts of a run.
pub(crate) async fn read_artifacts(session: &Session, job: JobId) -> Work<Vec<Artifact>> {
    let sql = "SELECT name, location, size_bytes, sha256 FROM punctual_internal.artifacts WHERE job_id = $1
               ORDER BY number";
    let rows = session.rows(sql, &params![job.0]).await?;
    Ok(rows::collect(&rows, |row| {
        let mut c = Columns::of(row);
        Ok(Artifact { name: c.next()?, location: c.next()?, size_bytes: c.count()?, sha256: c.next()? })
    })?)
}
