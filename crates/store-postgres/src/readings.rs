//! What is read from outside: lists in keyset pages, and figures that never count a big table.

use crate::error::Work;
use crate::fire::slot_row;
use crate::holds::{reservation, reservation_columns};
use crate::jobs::read_views;
use crate::params::{Params, limit as whole, params, time};
use crate::rows::{self, Columns, Unreadable};
use crate::session::Session;
use crate::{PostgresStore, Shared, holds, sql};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{JobId, NodeId, ReservationId, ScheduleId};
use punctual_core::job::JobView;
use punctual_core::readings::{
    COUNT_MAX, Count, Ended, JobFilter, JobSource, NodeRow, Page, PoolFigures, QueueRow, RECENT_LOOK, Readings,
    RecentRun, SCAN_MAX, ScheduleFilter, Stats,
};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::Schedule;
use punctual_core::series::SeriesBucket;
use punctual_core::slot::SlotRow;
use punctual_core::statistics::{RunSample, SAMPLES_MAX, ScheduleSamples, SlotTally, Spread};
use punctual_core::store::{Reservation, StoreResult, Template};
use std::collections::{BTreeMap, HashMap};
use tokio_postgres::Row;
use uuid::Uuid;

#[async_trait]
impl Readings for PostgresStore {
    fn kind(&self) -> &'static str {
        "postgres"
    }

    fn pool_figures(&self) -> Option<PoolFigures> {
        Some(self.shared.pool.figures())
    }

    async fn jobs_by(
        &self, filter: &JobFilter, before: Option<JobId>, limit: usize,
    ) -> StoreResult<Page<JobView, JobId>> {
        Ok(read_jobs(&self.shared.session().await?, filter, before, limit).await?)
    }

    async fn jobs_after(&self, after: JobId, limit: usize) -> StoreResult<Vec<JobView>> {
        Ok(read_views(&self.shared.session().await?, sql::jobs_after, params![after.0, whole(limit)]).await?)
    }

    async fn ended_after(&self, after: Ended, limit: usize) -> StoreResult<Vec<JobView>> {
        let params = params![time(after.finished_at), after.job_id.0, whole(limit)];
        Ok(read_views(&self.shared.session().await?, sql::ended_after, params).await?)
    }

    async fn schedules_by(
        &self, filter: &ScheduleFilter, after: Option<&str>, limit: usize,
    ) -> StoreResult<Page<Schedule, String>> {
        filter.validate()?;
        Ok(read_schedules(&self.shared.session().await?, filter, after.unwrap_or_default(), limit).await?)
    }

    async fn next_schedules(&self, owner: Option<&str>, limit: usize) -> StoreResult<Vec<Schedule>> {
        let params = params![whole(SCAN_MAX), owner, whole(limit)];
        Ok(self.shared.read(sql::next_schedules, params, rows::schedule).await?)
    }

    async fn recent_runs(&self, schedules: &[ScheduleId], limit: usize) -> StoreResult<Vec<RecentRun>> {
        let ids: Vec<Uuid> = schedules.iter().map(|id| id.0).collect();
        let params = params![ids, whole(limit), whole(RECENT_LOOK)];
        Ok(self.shared.read(sql::recent_runs, params, recent_run).await?)
    }

    async fn schedule_names(&self, ids: &[ScheduleId]) -> StoreResult<BTreeMap<ScheduleId, String>> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let names = self.shared.read(sql::schedule_names, params![ids], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.next()?))
        });
        Ok(names.await?.into_iter().collect())
    }

    async fn jobs_by_id(&self, ids: &[JobId]) -> StoreResult<Vec<JobView>> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        Ok(read_views(&self.shared.session().await?, sql::jobs_with_places, params![ids]).await?)
    }

    async fn queues(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<QueueRow>> {
        Ok(read_queues(&self.shared, after.unwrap_or_default(), None, limit).await?)
    }

    async fn queue(&self, name: &str) -> StoreResult<Option<QueueRow>> {
        Ok(read_queues(&self.shared, "", Some(name), 1).await?.pop())
    }

    async fn reservation_by_id(&self, id: ReservationId) -> StoreResult<Option<Reservation>> {
        let find = "SELECT id, queue, holder, reserved_at, expires_at FROM punctual_internal.reservations
                    WHERE id = $1 AND ended_at IS NULL AND expires_at > coalesce($2, now())";
        Ok(self.shared.read(find, params![id.0, self.shared.turned()], reservation).await?.pop())
    }

    async fn nodes(&self, alive: bool, before: Option<NodeId>, limit: usize) -> StoreResult<Vec<NodeRow>> {
        let before = before.map_or(Uuid::max(), |id| id.0);
        let page = if alive { sql::nodes_page_alive } else { sql::nodes_page };
        Ok(self.shared.read(page, params![before, whole(limit)], node).await?)
    }

    async fn templates(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Template>> {
        let params = params![after.unwrap_or_default(), whole(limit)];
        Ok(self.shared.read(sql::templates_page, params, holds::template).await?)
    }

    async fn schedule_samples(&self, id: ScheduleId, since: Timestamp) -> StoreResult<ScheduleSamples> {
        let most = whole(SAMPLES_MAX + 1);
        let made = params![id.0, JobId::first_of(since).0, most];
        let runs = self.shared.read(sql::run_samples, made, run_sample).await?;
        let tallies = self.shared.read(sql::slot_tallies, params![id.0, time(since), most], slot_tally).await?;
        Ok(ScheduleSamples::of(runs, tallies))
    }

    async fn slots_between(
        &self, id: ScheduleId, from: Timestamp, until: Timestamp, limit: usize,
    ) -> StoreResult<Vec<SlotRow>> {
        let within = params![id.0, time(until), time(from), whole(limit)];
        let slots = self.shared.read(sql::slots_page_between, within, |row| slot_row(row, id)).await?;
        Ok(SlotRow::latest(slots, limit))
    }

    async fn slot_ends(
        &self, id: ScheduleId, from: Timestamp, until: Timestamp, limit: usize,
    ) -> StoreResult<BTreeMap<Timestamp, Outcome>> {
        let within = params![id.0, time(until), time(from), whole(limit)];
        let ends = self.shared.read(sql::slot_ends, within, |row| {
            let mut c = Columns::of(row);
            Ok((c.time()?, c.word()?))
        });
        Ok(ends.await?.into_iter().collect())
    }

    async fn run_series(
        &self, from: Timestamp, until: Timestamp, step: SignedDuration,
    ) -> StoreResult<Vec<SeriesBucket>> {
        let step_us = i64::try_from(step.as_micros()).unwrap_or(i64::MAX).max(1);
        let bucket = |row: &Row| series_bucket(row, from, step_us);
        Ok(self.shared.read(sql::run_series, params![time(from), time(until), step_us], bucket).await?)
    }

    async fn stats(&self, ended_since: Timestamp) -> StoreResult<Stats> {
        let mut stats = self.shared.read(sql::stats, params![], figures).await?.pop().unwrap_or_default();
        let ended = params![time(ended_since), counted()];
        for (outcome, count) in self.shared.read(sql::ended_figures, ended, word_and_count).await? {
            stats.ended.insert(outcome, count);
        }
        stats.more_ended = stats.ended.values().sum::<u64>() > COUNT_MAX;
        Ok(stats)
    }
}

impl Shared {
    /// The rows of one query, read.
    pub(crate) async fn read<T>(
        &self, sql: &str, params: Params<'_>, decode: impl FnMut(&Row) -> Result<T, Unreadable>,
    ) -> Work<Vec<T>> {
        let session = self.session().await?;
        Ok(rows::collect(&session.rows(sql, &params).await?, decode)?)
    }
}

/// A count is stopped one after the bound, so that "more" can be told from "exactly".
fn counted() -> i64 {
    i64::try_from(COUNT_MAX + 1).unwrap_or(i64::MAX)
}

/// The page and the scan of each source.
pub(crate) fn statements(source: JobSource) -> (&'static str, &'static str) {
    match source {
        JobSource::All => (sql::jobs_page, sql::scan_jobs),
        JobSource::Schedule => (sql::jobs_page_of_schedule, sql::scan_jobs_of_schedule),
        JobSource::Owner => (sql::jobs_page_of_owner, sql::scan_jobs_of_owner),
        JobSource::Delayed => (sql::jobs_page_delayed, sql::scan_delayed),
        JobSource::Queue => (sql::jobs_page_queue, sql::scan_queue),
        JobSource::Running => (sql::jobs_page_running, sql::scan_running),
        JobSource::Runs => (sql::jobs_page_runs, sql::scan_runs),
        JobSource::RunsNotCompleted => (sql::jobs_page_runs_not_completed, sql::scan_runs_not_completed),
        JobSource::RunsOfError => (sql::jobs_page_runs_of_error, sql::scan_runs_of_error),
    }
}

/// Where a scan begins, how many it looks at, how many it passes over, and what leads to it.
pub(crate) fn scan_params(filter: &JobFilter, before: JobId, look_at: usize, pass_over: usize) -> Params<'_> {
    let params = params![before.0, whole(pass_over), whole(look_at)];
    match filter.source() {
        JobSource::Schedule => params.with(filter.schedule_id.map(|id| id.0)),
        JobSource::Owner => params.with(filter.owner.as_deref()),
        JobSource::RunsNotCompleted => params.with(filter.place.word()),
        JobSource::RunsOfError => params.with(filter.error_code.map(ErrorCode::as_str)),
        _ => params,
    }
}

/// What goes into a page of jobs: where its scan begins, and the bound at which it ends.
pub(crate) fn job_page_params(filter: &JobFilter, begin: JobId, end: JobId, limit: usize) -> Params<'_> {
    let mut params = scan_params(filter, begin, filter.look_at(limit), 0);
    if !statements(filter.source()).1.contains("$4") {
        params = params.with(None::<&str>);
    }
    params
        .with(filter.queue.as_deref())
        .with(filter.job_type.as_deref())
        .with(filter.owner.as_deref())
        .with(filter.tag.as_deref())
        .with(filter.place.word())
        .with(end.0)
        .with(whole(limit.saturating_add(1)))
        .with(filter.error_code.map(ErrorCode::as_str))
}

async fn read_jobs(
    session: &Session, filter: &JobFilter, before: Option<JobId>, limit: usize,
) -> Work<Page<JobView, JobId>> {
    let (page, scan) = statements(filter.source());
    let (lowest, before) = filter.id_range(before);
    let views = read_views(session, page, job_page_params(filter, before, lowest, limit)).await?;
    let stopped_at = if views.len() > limit || !filter.may_stop_short(limit) {
        None
    } else {
        let last = session.rows(scan, &scan_params(filter, before, 1, SCAN_MAX - 1)).await?;
        rows::collect(&last, |row| Columns::of(row).id())?.pop().filter(|last| *last >= lowest)
    };
    Ok(Page::of(views, limit, |view| view.job.id, stopped_at))
}

async fn read_schedules(
    session: &Session, filter: &ScheduleFilter, after: &str, limit: usize,
) -> Work<Page<Schedule, String>> {
    let (page, scan) = match filter.owner {
        None => (sql::schedules_filtered, sql::scan_schedules),
        Some(_) => (sql::schedules_filtered_of_owner, sql::scan_schedules_of_owner),
    };
    let label = filter.label.as_ref();
    let params = params![
        after,
        whole(SCAN_MAX),
        0i64,
        filter.owner.as_deref(),
        filter.enabled,
        filter.text.as_deref(),
        filter.failing,
        filter.queue.as_deref(),
        label.map(|(key, _)| key.as_str()),
        label.and_then(|(_, value)| value.as_deref()),
        whole(limit.saturating_add(1)),
    ];
    let found = rows::collect(&session.rows(page, &params).await?, rows::schedule)?;
    let stopped_at = if found.len() > limit || !filter.checks_rows() {
        None
    } else {
        let last = params![after, 1i64, whole(SCAN_MAX - 1), filter.owner.as_deref()];
        let last = session.rows(scan, &last).await?;
        rows::collect(&last, |row| {
            let mut c = Columns::of(row);
            c.skip(1);
            c.next::<String>()
        })?
        .pop()
    };
    Ok(Page::of(found, limit, |schedule| schedule.definition.name.to_string(), stopped_at))
}

pub(crate) async fn read_queues(shared: &Shared, after: &str, only: Option<&str>, limit: usize) -> Work<Vec<QueueRow>> {
    let running = shared.read(sql::running_figures, params![counted()], |row| {
        let mut c = Columns::of(row);
        Ok((c.next::<String>()?, c.count()?))
    });
    let running: HashMap<String, u64> = running.await?.into_iter().collect();
    let more = running.values().sum::<u64>() > COUNT_MAX;
    let params = params![after, only, whole(limit), counted(), shared.turned()];
    let queues = shared.read(sql::queues_page, params, |row| {
        let mut c = Columns::of(row);
        let (name, paused, created_at): (String, _, _) = (c.next()?, c.next()?, c.time()?);
        let concurrency: Option<i64> = c.next()?;
        Ok(QueueRow {
            running: Count { value: running.get(&name).copied().unwrap_or(0).min(COUNT_MAX), more },
            name,
            paused,
            created_at,
            concurrency: concurrency.and_then(|jobs| u32::try_from(jobs).ok()),
            depth: Count::of(c.count()?),
            oldest_queued_at: c.optional_time()?,
            reservation: match row.try_get::<_, Option<Uuid>>("id") {
                Ok(Some(_)) => Some(reservation_columns(&mut c)?),
                _ => None,
            },
        })
    });
    queues.await
}

fn run_sample(row: &Row) -> Result<RunSample, Unreadable> {
    let mut c = Columns::of(row);
    Ok(RunSample {
        job_id: c.id()?,
        slot_at: c.optional_time()?,
        trigger: c.word()?,
        created_at: c.time()?,
        started_at: c.optional_time()?,
        finished_at: c.time()?,
        outcome: c.word()?,
        is_final: c.next()?,
        node_id: c.optional_id()?,
    })
}

fn series_bucket(row: &Row, from: Timestamp, step_us: i64) -> Result<SeriesBucket, Unreadable> {
    let mut c = Columns::of(row);
    let micros = from.as_microsecond() + c.next::<i64>()? * step_us;
    let mut ended = BTreeMap::new();
    for outcome in Outcome::ALL {
        ended.insert(*outcome, c.count()?);
    }
    ended.retain(|_, count| *count > 0);
    let count = usize::try_from(c.count()?).unwrap_or(usize::MAX);
    let (queue_time, duration) = (spread(&mut c, count)?, spread(&mut c, count)?);
    let at = Timestamp::from_microsecond(micros).map_err(|e| Unreadable::new("place", e.to_string()))?;
    Ok(SeriesBucket { at, ended, queue_time, duration })
}

/// The ranks of some lengths; null when there were none.
fn spread(c: &mut Columns<'_>, count: usize) -> Result<Option<Spread>, Unreadable> {
    let mut length = || Ok(c.next::<Option<i64>>()?.map(SignedDuration::from_micros));
    let (p50, p95, max) = (length()?, length()?, length()?);
    Ok(p50.zip(p95).zip(max).map(|((p50, p95), max)| Spread { p50, p95, max, count }))
}

fn recent_run(row: &Row) -> Result<RecentRun, Unreadable> {
    let mut c = Columns::of(row);
    Ok(RecentRun {
        schedule_id: c.id()?,
        job_id: c.id()?,
        slot_at: c.optional_time()?,
        trigger: c.word()?,
        started_at: c.optional_time()?,
        finished_at: c.time()?,
        outcome: c.word()?,
        error_code: c.optional_word()?,
        error: c.next::<Option<String>>()?.map(|error| RecentRun::first_line(&error)),
    })
}

/// A tally, and how many rows it is of.
fn slot_tally(row: &Row) -> Result<(u64, SlotTally), Unreadable> {
    let mut c = Columns::of(row);
    let (decision, reason, rows) = (c.word()?, c.word()?, c.count()?);
    Ok((rows, SlotTally { decision, reason, slots: c.count()? }))
}

fn node(row: &Row) -> Result<NodeRow, Unreadable> {
    let mut c = Columns::of(row);
    Ok(NodeRow {
        id: c.id()?,
        name: c.next()?,
        offers: c.document("offers")?,
        started_at: c.time()?,
        left_at: c.optional_time()?,
        lost_at: c.optional_time()?,
        heartbeats: c.next()?,
        running: Count::of(c.count()?),
    })
}

fn figures(row: &Row) -> Result<Stats, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Stats {
        waiting: Count::of(c.count()?),
        scheduled: Count::of(c.count()?),
        queued: Count::of(c.count()?),
        running: Count::of(c.count()?),
        nodes: c.count()?,
        notices: Count::of(c.count()?),
        schedules: Count::of(c.count()?),
        paused: c.count()?,
        failing: c.count()?,
        with_problem: c.count()?,
        ..Stats::default()
    })
}

fn word_and_count(row: &Row) -> Result<(Outcome, u64), Unreadable> {
    let mut c = Columns::of(row);
    Ok((c.word()?, c.count()?))
}
