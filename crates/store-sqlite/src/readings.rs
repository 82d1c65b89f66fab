//! What is read from outside: lists in keyset pages, and figures that never count a big table.

use crate::fire::slot_row;
use crate::holds::{read_reservation, reservation};
use crate::jobs::read_view;
use crate::rows::{self, Columns, Unreadable};
use crate::tx::value;
use crate::{SqliteStore, holds, sql};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{JobId, NodeId, ReservationId, ScheduleId};
use punctual_core::job::JobView;
use punctual_core::readings::{
    COUNT_MAX, Count, Ended, JobFilter, JobSource, NodeRow, Page, QueueRow, RECENT_LOOK, Readings, RecentRun, SCAN_MAX,
    ScheduleFilter, Stats,
};
use punctual_core::run::Outcome;
use punctual_core::schedule::Schedule;
use punctual_core::series::{SeriesBucket, SeriesSample, buckets_of};
use punctual_core::slot::SlotRow;
use punctual_core::statistics::{RunSample, SAMPLES_MAX, ScheduleSamples, SlotTally};
use punctual_core::store::{Reservation, StoreResult, Template};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use std::collections::{BTreeMap, HashMap};

#[async_trait]
impl Readings for SqliteStore {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    async fn jobs_by(
        &self, filter: &JobFilter, before: Option<JobId>, limit: usize,
    ) -> StoreResult<Page<JobView, JobId>> {
        let filter = filter.clone();
        self.read(move |connection| read_jobs(connection, &filter, before, limit)).await
    }

    async fn jobs_after(&self, after: JobId, limit: usize) -> StoreResult<Vec<JobView>> {
        self.read(move |connection| read_views(connection, sql::jobs_after, vec![blob(after), whole(limit)])).await
    }

    async fn ended_after(&self, after: Ended, limit: usize) -> StoreResult<Vec<JobView>> {
        let params = vec![after.finished_at.as_microsecond().into(), blob(after.job_id), whole(limit)];
        self.read(move |connection| read_views(connection, sql::ended_after, params)).await
    }

    async fn schedules_by(
        &self, filter: &ScheduleFilter, after: Option<&str>, limit: usize,
    ) -> StoreResult<Page<Schedule, String>> {
        filter.validate()?;
        let (filter, after) = (filter.clone(), after.unwrap_or_default().to_owned());
        self.read(move |connection| read_schedules(connection, &filter, &after, limit)).await
    }

    async fn next_schedules(&self, owner: Option<&str>, limit: usize) -> StoreResult<Vec<Schedule>> {
        let owner = owner.map(str::to_owned);
        self.read(move |connection| {
            let params = params![whole(SCAN_MAX), owner, whole(limit)];
            rows::collect(connection, sql::next_schedules, params, rows::schedule)
        })
        .await
    }

    async fn recent_runs(&self, schedules: &[ScheduleId], limit: usize) -> StoreResult<Vec<RecentRun>> {
        let schedules = hex_list(schedules.iter().map(ScheduleId::as_bytes));
        self.read(move |connection| {
            let params = params![schedules, whole(limit), whole(RECENT_LOOK)];
            rows::collect(connection, sql::recent_runs, params, recent_run)
        })
        .await
    }

    async fn schedule_names(&self, ids: &[ScheduleId]) -> StoreResult<BTreeMap<ScheduleId, String>> {
        let ids = hex_list(ids.iter().map(ScheduleId::as_bytes));
        self.read(move |connection| {
            let names = rows::collect(connection, sql::schedule_names, params![ids], |row| {
                let mut c = Columns::of(row);
                Ok((c.id()?, c.next()?))
            })?;
            Ok(names.into_iter().collect())
        })
        .await
    }

    async fn jobs_by_id(&self, ids: &[JobId]) -> StoreResult<Vec<JobView>> {
        let ids = ids.to_vec();
        self.read(move |connection| ids.into_iter().filter_map(|id| read_view(connection, id).transpose()).collect())
            .await
    }

    async fn queues(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<QueueRow>> {
        let (after, now_us) = (after.unwrap_or_default().to_owned(), self.clock.now().as_microsecond());
        self.read(move |connection| read_queues(connection, sql::queues_page, vec![after.into(), whole(limit)], now_us))
            .await
    }

    async fn queue(&self, name: &str) -> StoreResult<Option<QueueRow>> {
        let (name, now_us) = (name.to_owned(), self.clock.now().as_microsecond());
        self.read(move |connection| {
            let one = "SELECT name, paused, created_at FROM punctual_queues WHERE name = ?1";
            Ok(read_queues(connection, one, vec![name.into()], now_us)?.pop())
        })
        .await
    }

    async fn reservation_by_id(&self, id: ReservationId) -> StoreResult<Option<Reservation>> {
        let now_us = self.clock.now().as_microsecond();
        self.read(move |connection| {
            let find = "SELECT id, queue, holder, reserved_at, expires_at FROM punctual_reservations
                        WHERE id = ?1 AND ended_at IS NULL AND expires_at > ?2";
            Ok(rows::collect(connection, find, params![id.as_bytes(), now_us], reservation)?.pop())
        })
        .await
    }

    async fn nodes(&self, alive: bool, before: Option<NodeId>, limit: usize) -> StoreResult<Vec<NodeRow>> {
        let before = before.map_or([0xff; 16], |id| *id.as_bytes());
        self.read(move |connection| {
            let page = if alive { sql::nodes_page_alive } else { sql::nodes_page };
            rows::collect(connection, page, params![before, whole(limit), counted()], node)
        })
        .await
    }

    async fn templates(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Template>> {
        let after = after.unwrap_or_default().to_owned();
        self.read(move |connection| {
            rows::collect(connection, sql::templates_page, params![after, whole(limit)], holds::template)
        })
        .await
    }

    async fn schedule_samples(&self, id: ScheduleId, since: Timestamp) -> StoreResult<ScheduleSamples> {
        self.read(move |connection| {
            let (most, first) = (whole(SAMPLES_MAX + 1), JobId::first_of(since));
            let made = params![id.as_bytes(), first.as_bytes(), most];
            let runs = rows::collect(connection, sql::run_samples, made, run_sample)?;
            let tallies = params![id.as_bytes(), since.as_microsecond(), most];
            let tallies = rows::collect(connection, sql::slot_tallies, tallies, slot_tally)?;
            Ok(ScheduleSamples::of(runs, tallies))
        })
        .await
    }

    async fn slots_between(
        &self, id: ScheduleId, from: Timestamp, until: Timestamp, limit: usize,
    ) -> StoreResult<Vec<SlotRow>> {
        self.read(move |connection| {
            let within = params![id.as_bytes(), until.as_microsecond(), from.as_microsecond(), whole(limit)];
            let slots = rows::collect(connection, sql::slots_page_between, within, |row| slot_row(row, id))?;
            Ok(SlotRow::latest(slots, limit))
        })
        .await
    }

    async fn slot_ends(
        &self, id: ScheduleId, from: Timestamp, until: Timestamp, limit: usize,
    ) -> StoreResult<BTreeMap<Timestamp, Outcome>> {
        self.read(move |connection| {
            let within = params![id.as_bytes(), until.as_microsecond(), from.as_microsecond(), whole(limit)];
            let ends = rows::collect(connection, sql::slot_ends, within, |row| {
                let mut c = Columns::of(row);
                Ok((c.time()?, c.word()?))
            })?;
            Ok(ends.into_iter().collect())
        })
        .await
    }

    async fn run_series(
        &self, from: Timestamp, until: Timestamp, step: SignedDuration,
    ) -> StoreResult<Vec<SeriesBucket>> {
        self.read(move |connection| {
            let within = params![from.as_microsecond(), until.as_microsecond()];
            Ok(buckets_of(rows::collect(connection, sql::run_series, within, series_sample)?, from, step))
        })
        .await
    }

    async fn stats(&self, ended_since: Timestamp) -> StoreResult<Stats> {
        self.read(move |connection| read_stats(connection, ended_since)).await
    }
}

/// A count is stopped one after the bound, so that "more" can be told from "exactly".
fn counted() -> i64 {
    i64::try_from(COUNT_MAX + 1).unwrap_or(i64::MAX)
}

fn whole(limit: usize) -> Value {
    i64::try_from(limit).unwrap_or(i64::MAX).into()
}

fn blob(id: JobId) -> Value {
    id.as_bytes().to_vec().into()
}

fn text(text: Option<&String>) -> Value {
    text.map_or(Value::Null, |text| text.clone().into())
}

/// Ids as a JSON list of their hexadecimal digits: a list is one parameter, and JSON has no bytes.
fn hex_list<'a>(ids: impl Iterator<Item = &'a [u8; 16]>) -> String {
    let quoted: Vec<String> = ids.map(|id| format!("\"{:032x}\"", u128::from_be_bytes(*id))).collect();
    format!("[{}]", quoted.join(","))
}

/// Jobs whose ids a statement finds, each with where it is.
fn read_views(connection: &Connection, sql: &str, params: Vec<Value>) -> StoreResult<Vec<JobView>> {
    let ids: Vec<JobId> = rows::collect(connection, sql, params_from_iter(params), |row| Columns::of(row).id())?;
    ids.into_iter().filter_map(|id| read_view(connection, id).transpose()).collect()
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

/// What goes into a page of jobs: a range of ids, how many of them are looked at, and how many are wanted. The first
/// four or five are what goes into its scan.
pub(crate) fn page_params(
    filter: &JobFilter, (lowest, highest): (JobId, JobId), look_at: usize, limit: usize,
) -> Vec<Value> {
    let word = || filter.place.word().map_or(Value::Null, |word| word.to_owned().into());
    let error_code = || filter.error_code.map_or(Value::Null, |code| code.as_str().to_owned().into());
    let key = match filter.source() {
        JobSource::Schedule => filter.schedule_id.map_or(Value::Null, |id| id.as_bytes().to_vec().into()),
        JobSource::Owner => text(filter.owner.as_ref()),
        JobSource::RunsNotCompleted => word(),
        JobSource::RunsOfError => error_code(),
        _ => Value::Null,
    };
    vec![
        blob(highest),
        blob(lowest),
        whole(look_at),
        0.into(),
        key,
        text(filter.queue.as_ref()),
        text(filter.job_type.as_ref()),
        text(filter.owner.as_ref()),
        text(filter.tag.as_ref()),
        word(),
        whole(limit.saturating_add(1)),
        error_code(),
    ]
}

fn read_jobs(
    connection: &Connection, filter: &JobFilter, before: Option<JobId>, limit: usize,
) -> StoreResult<Page<JobView, JobId>> {
    let (page, scan) = statements(filter.source());
    let range = filter.id_range(before);
    let views = read_views(connection, page, page_params(filter, range, filter.look_at(limit), limit))?;
    let stopped_at = if views.len() > limit || !filter.may_stop_short(limit) {
        None
    } else {
        let mut last = page_params(filter, range, 1, limit);
        last[3] = whole(SCAN_MAX - 1);
        last.truncate(if scan.contains("?5") { 5 } else { 4 });
        rows::collect(connection, scan, params_from_iter(last), |row| Columns::of(row).id())?.pop()
    };
    Ok(Page::of(views, limit, |view| view.job.id, stopped_at))
}

fn read_schedules(
    connection: &Connection, filter: &ScheduleFilter, after: &str, limit: usize,
) -> StoreResult<Page<Schedule, String>> {
    let (page, scan) = match filter.owner {
        None => (sql::schedules_filtered, sql::scan_schedules),
        Some(_) => (sql::schedules_filtered_of_owner, sql::scan_schedules_of_owner),
    };
    let label = filter.label.as_ref();
    let params = params![
        after,
        whole(SCAN_MAX),
        0,
        filter.owner,
        filter.enabled,
        filter.text,
        filter.failing,
        filter.queue,
        label.map(|(key, _)| key),
        label.and_then(|(_, value)| value.as_ref()),
        whole(limit.saturating_add(1)),
    ];
    let found: Vec<Schedule> = rows::collect(connection, page, params, rows::schedule)?;
    let stopped_at = if found.len() > limit || !filter.checks_rows() {
        None
    } else {
        let last = params![after, 1, whole(SCAN_MAX - 1), filter.owner];
        rows::collect(connection, scan, last, |row| {
            let mut c = Columns::of(row);
            c.skip(1);
            c.next()
        })?
        .pop()
    };
    Ok(Page::of(found, limit, |schedule| schedule.definition.name.to_string(), stopped_at))
}

pub(crate) fn read_queues(
    connection: &Connection, page: &str, key: Vec<Value>, now_us: i64,
) -> StoreResult<Vec<QueueRow>> {
    let mut running: HashMap<String, u64> = HashMap::new();
    for (queue, count) in rows::collect(connection, sql::running_figures, params![counted()], |row| {
        let mut c = Columns::of(row);
        Ok((c.next::<String>()?, c.count()?))
    })? {
        running.insert(queue, count);
    }
    let more = running.values().sum::<u64>() > COUNT_MAX;
    let queues: Vec<(String, bool, Timestamp)> = rows::collect(connection, page, params_from_iter(key), |row| {
        let mut c = Columns::of(row);
        Ok((c.next()?, c.next()?, c.time()?))
    })?;
    let read = queues.into_iter().map(|(name, paused, created_at)| {
        let figures = rows::collect(connection, sql::queue_figures, params![name, counted()], |row| {
            let mut c = Columns::of(row);
            Ok((c.count()?, c.optional_time()?))
        })?;
        let (depth, oldest_queued_at) = figures.into_iter().next().unwrap_or_default();
        let limit = "SELECT concurrency FROM punctual_limits WHERE scope = 'queue' AND name = ?1";
        let concurrency = rows::collect(connection, limit, params![name], value)?.pop().flatten();
        Ok(QueueRow {
            concurrency,
            depth: Count::of(depth),
            oldest_queued_at,
            running: Count { value: running.get(&name).copied().unwrap_or(0).min(COUNT_MAX), more },
            reservation: read_reservation(connection, &name, now_us)?,
            name,
            paused,
            created_at,
        })
    });
    read.collect()
}

fn run_sample(row: &rusqlite::Row<'_>) -> Result<RunSample, Unreadable> {
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

fn series_sample(row: &rusqlite::Row<'_>) -> Result<SeriesSample, Unreadable> {
    let mut c = Columns::of(row);
    let (finished_at, outcome) = (c.time()?, c.word()?);
    let (waited, took): (Option<i64>, Option<i64>) = (c.next()?, c.next()?);
    let lengths =
        waited.zip(took).map(|(waited, took)| (SignedDuration::from_micros(waited), SignedDuration::from_micros(took)));
    Ok(SeriesSample { finished_at, outcome, lengths })
}

fn recent_run(row: &rusqlite::Row<'_>) -> Result<RecentRun, Unreadable> {
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
fn slot_tally(row: &rusqlite::Row<'_>) -> Result<(u64, SlotTally), Unreadable> {
    let mut c = Columns::of(row);
    let (decision, reason, rows) = (c.word()?, c.word()?, c.count()?);
    Ok((rows, SlotTally { decision, reason, slots: c.count()? }))
}

fn node(row: &rusqlite::Row<'_>) -> Result<NodeRow, Unreadable> {
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

fn read_stats(connection: &Connection, ended_since: Timestamp) -> StoreResult<Stats> {
    let figures = rows::collect(connection, sql::stats, params![counted()], |row| {
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
    })?;
    let mut stats = figures.into_iter().next().unwrap_or_default();
    let ended = params![ended_since.as_microsecond(), counted()];
    for (outcome, count) in rows::collect(connection, sql::ended_figures, ended, |row| {
        let mut c = Columns::of(row);
        Ok((c.word()?, c.count()?))
    })? {
        stats.ended.insert(outcome, count);
    }
    stats.more_ended = stats.ended.values().sum::<u64>() > COUNT_MAX;
    Ok(stats)
}

/// Whether anything stands under a key.
pub(crate) fn exists(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> StoreResult<bool> {
    Ok(!rows::collect(connection, sql, params, value::<i64>)?.is_empty())
}
