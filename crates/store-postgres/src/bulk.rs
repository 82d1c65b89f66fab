//! Bulk operations: how many jobs they find, their beginning, their steps and their end.

use crate::PostgresStore;
use crate::error::Work;
use crate::jobs::{Closing, read_views, serial_keys};
use crate::making::Making;
use crate::params::params;
use crate::readings::{job_page_params, scan_params, statements};
use crate::rows::{self, Columns, Unreadable, document};
use crate::session::Session;
use crate::tx::Tx;
use punctual_core::access::retry_by_hand;
use punctual_core::bulk::{Bulk, BulkAction, BulkCursor, BulkStep, BulkStretch, FilterDocument, NewBulk, STEP_MAX};
use punctual_core::id::{BulkId, JobId};
use punctual_core::job::{Job, JobView, NewJob, Origin};
use punctual_core::readings::{Page, SCAN_MAX};
use punctual_core::run::ErrorCode;
use punctual_core::store::{Store, StoreError, StoreResult};
use std::collections::HashSet;
use tokio_postgres::Row;
use uuid::Uuid;

const COLUMNS: &str =
    "SELECT id, created_at, action, filter::text, priority, asked_by, cursor_state, cursor_after, done,
    passed, ended_at, cancelled FROM punctual_internal.bulk_operations";

/// How many jobs are counted at once.
const COUNTED: usize = 1_000;

impl PostgresStore {
    pub(crate) async fn count_bulk_jobs(&self, asked: &NewBulk) -> StoreResult<u64> {
        asked.validate()?;
        let now = self.now().await?;
        let session = self.shared.session().await?;
        let (mut cursor, mut found) = (BulkCursor::default(), 0);
        while let Some(stretch) = asked.stretch(cursor, now) {
            let page = jobs_of(&session, &stretch, COUNTED).await?;
            let ids: Vec<Uuid> = page.items.iter().map(|view| view.job.id.0).collect();
            found += ids.len() as u64;
            if asked.action == BulkAction::Retry {
                let retried = "SELECT count(*) FROM punctual_internal.retries WHERE retry_of = ANY ($1)";
                let retried = self.shared.read(retried, params![ids], |row| Columns::of(row).count()).await?;
                found -= retried.into_iter().sum::<u64>();
            }
            cursor = NewBulk::behind(cursor, page.next);
        }
        Ok(found)
    }

    pub(crate) async fn read_bulk(&self, id: BulkId) -> StoreResult<Option<Bulk>> {
        Ok(self.shared.read(&format!("{COLUMNS} WHERE id = $1"), params![id.0], bulk).await?.pop())
    }

    pub(crate) async fn read_bulks(
        &self, owner: Option<&str>, before: Option<BulkId>, limit: usize,
    ) -> StoreResult<Vec<Bulk>> {
        let (before, limit) = (before.map_or(Uuid::max(), |id| id.0), crate::params::limit(limit));
        let Some(owner) = owner else {
            let find = format!("{COLUMNS} WHERE id < $1 ORDER BY id DESC LIMIT $2");
            return Ok(self.shared.read(&find, params![before, limit], bulk).await?);
        };
        let find = format!("{COLUMNS} WHERE owner = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
        Ok(self.shared.read(&find, params![owner, before, limit], bulk).await?)
    }
}

fn bulk(row: &Row) -> Result<Bulk, Unreadable> {
    let mut c = Columns::of(row);
    let (id, created_at, action) = (c.id()?, c.time()?, c.word()?);
    let filter: FilterDocument = c.document("filter")?;
    let asked = NewBulk { action, filter: filter.into(), priority: c.next()?, by: c.next()? };
    let state = u32::try_from(c.next::<i64>()?).unwrap_or(u32::MAX);
    Ok(Bulk {
        id,
        created_at,
        asked,
        cursor: BulkCursor { state, after: c.id()? },
        done: c.count()?,
        passed: c.count()?,
        ended_at: c.optional_time()?,
        cancelled: c.next()?,
    })
}

/// The same statement from the earliest job on: its first bound is the lower one then, and the other the upper.
fn rising(sql: &str) -> String {
    sql.replace("DESC", "ASC").replace("id < $1", "id > $1").replace("s.id >= $10", "s.id < $10")
}

/// The first jobs of a stretch, in the order of their ids, and where looking stopped if there are more.
async fn jobs_of(session: &Session, stretch: &BulkStretch, limit: usize) -> Work<Page<JobView, JobId>> {
    let BulkStretch { filter, after, before } = stretch;
    let (page, scan) = statements(filter.source());
    let params = job_page_params(filter, *after, *before, limit);
    let views = read_views(session, &rising(page), params).await?;
    let stopped_at = if views.len() > limit || !filter.may_stop_short(limit) {
        None
    } else {
        let last = session.rows(&rising(scan), &scan_params(filter, *after, 1, SCAN_MAX - 1)).await?;
        rows::collect(&last, |row| Columns::of(row).id())?.pop().filter(|last| last < before)
    };
    Ok(Page::of(views, limit, |view| view.job.id, stopped_at))
}

fn not_found(id: BulkId) -> StoreError {
    StoreError::NotFound { what: "bulk operation", key: id.to_string() }
}

impl Tx<'_> {
    pub(crate) async fn create_bulk(&mut self, asked: &NewBulk) -> Work<Bulk> {
        let id = BulkId::at(self.now, self.id_bits());
        let insert =
            "INSERT INTO punctual_internal.bulk_operations (id, created_at, action, filter, owner, priority, asked_by,
                        cursor_after, stepped_at) VALUES ($1, $2, $3, $4::text::json, $5, $6, $7, $8, $2)";
        let params = params![
            id.0,
            self.at(),
            asked.action.as_str(),
            document("filter", &asked.filter_document())?,
            asked.filter.owner.as_deref(),
            asked.priority,
            asked.by.as_deref(),
            BulkCursor::default().after.0,
        ];
        self.execute(insert, params).await?;
        self.one_bulk(id).await
    }

    async fn one_bulk(&self, id: BulkId) -> Work<Bulk> {
        let found = self.one(&format!("{COLUMNS} WHERE id = $1"), params![id.0], bulk).await?;
        found.ok_or_else(|| not_found(id).into())
    }

    pub(crate) async fn cancel_bulk(&mut self, id: BulkId) -> Work<Bulk> {
        let end = "UPDATE punctual_internal.bulk_operations SET ended_at = $2, cancelled = true
                   WHERE id = $1 AND ended_at IS NULL";
        self.execute(end, params![id.0, self.at()]).await?;
        self.one_bulk(id).await
    }

    pub(crate) async fn advance_bulks(&mut self) -> Work<BulkStep> {
        // One that another node is about is left to it. SQLite has one writer and needs no lock.
        let find = "SELECT id FROM punctual_internal.bulk_operations WHERE ended_at IS NULL
                    ORDER BY stepped_at, id LIMIT 1 FOR UPDATE SKIP LOCKED";
        let Some(id) = self.one(find, params![], |row| Columns::of(row).id()).await? else {
            return Ok(BulkStep::default());
        };
        let bulk = self.one_bulk(id).await?;
        let mut step = BulkStep { more: true, ..BulkStep::default() };
        let mut cursor = bulk.cursor;
        if let Some(stretch) = bulk.asked.stretch(cursor, bulk.created_at) {
            let page = jobs_of(self.session()?, &stretch, STEP_MAX).await?;
            step.done = self.change_all(&bulk.asked, &page.items).await?;
            step.passed = (page.items.len() as u64).saturating_sub(step.done);
            cursor = NewBulk::behind(cursor, page.next);
        }
        step.ended = usize::from(bulk.asked.stretch(cursor, bulk.created_at).is_none());
        self.move_bulk_on(&bulk, cursor, step).await?;
        Ok(step)
    }

    async fn move_bulk_on(&self, bulk: &Bulk, cursor: BulkCursor, step: BulkStep) -> Work<()> {
        let move_on = "UPDATE punctual_internal.bulk_operations SET cursor_state = $2, cursor_after = $3,
                         done = done + $4, passed = passed + $5, stepped_at = $6, ended_at = $7 WHERE id = $1";
        let params = params![
            bulk.id.0,
            i64::from(cursor.state),
            cursor.after.0,
            i64::try_from(step.done).unwrap_or(i64::MAX),
            i64::try_from(step.passed).unwrap_or(i64::MAX),
            self.at(),
            (step.ended > 0).then(|| self.at()),
        ];
        self.execute(move_on, params).await?;
        Ok(())
    }

    /// Changes a step's jobs together, their serial keys locked first; says how many could be changed.
    async fn change_all(&self, asked: &NewBulk, views: &[JobView]) -> Work<u64> {
        if views.is_empty() {
            return Ok(0);
        }
        let keys = serial_keys(views.iter().map(|view| &view.job.spec));
        self.lock_serial_keys(&keys).await?;
        let changed = match asked.action {
            BulkAction::Cancel => self.cancel_all(views).await?,
            BulkAction::Retry => self.retry_all(views, asked.by.as_deref()).await?,
            BulkAction::Reprioritise => {
                // Each keeps its position, and so its order among those that get the same priority.
                let set = "UPDATE punctual_internal.queue SET priority = $2 WHERE job_id = ANY ($1)";
                self.execute(set, params![ids_of(views), asked.priority.unwrap_or_default()]).await?
            }
        };
        self.settle_serial_keys(&keys).await?;
        Ok(changed)
    }

    async fn cancel_all(&self, views: &[JobView]) -> Work<u64> {
        let take = "WITH d AS (DELETE FROM punctual_internal.delayed WHERE job_id = ANY ($1) RETURNING job_id),
                         q AS (DELETE FROM punctual_internal.queue WHERE job_id = ANY ($1) RETURNING job_id)
                    SELECT job_id FROM d UNION ALL SELECT job_id FROM q";
        let taken: HashSet<JobId> =
            self.all(take, params![ids_of(views)], |row| Columns::of(row).id()).await?.into_iter().collect();
        let (waiting, others): (Vec<&JobView>, Vec<&JobView>) =
            views.iter().partition(|view| taken.contains(&view.job.id));
        let closings: Vec<Closing<'_>> = waiting
            .iter()
            .map(|view| Closing::unstarted(view.job.id, view.job.schedule_id, ErrorCode::Cancelled))
            .collect();
        self.close(&closings).await?;
        let closed: Vec<JobId> = waiting.iter().map(|view| view.job.id).collect();
        self.tell_flows_of_cancelled(&closed).await?;
        let others: Vec<JobId> = others.iter().map(|view| view.job.id).collect();
        Ok(taken.len() as u64 + self.request_cancel(&others, ErrorCode::Cancelled).await?)
    }

    /// Tries jobs again: their places among the retries are taken first, so that nobody else does the same.
    async fn retry_all(&self, views: &[JobView], by: Option<&str>) -> Work<u64> {
        let jobs: Vec<Job> = views.iter().map(|view| view.job.clone()).collect();
        let deleted = self.deleted_schedules(&jobs).await?;
        // A step is not tried again by itself: its flow would not hear of it.
        let steps = self.links_of(&jobs.iter().map(|job| job.id).collect::<Vec<_>>()).await?;
        let able = views.iter().filter(|view| view.job.schedule_id.is_none_or(|id| !deleted.contains(&id)));
        let able = able.filter(|view| !steps.contains_key(&view.job.id));
        let planned: Vec<(NewJob, Origin)> = able
            .filter_map(|view| view.run().and_then(|run| retry_by_hand(&view.job, run, by.map(str::to_owned)).ok()))
            .collect();
        let making: Vec<Making<'_>> =
            planned.iter().map(|(spec, origin)| Making { bits: self.id_bits(), spec, origin }).collect();
        let (of, made): (Vec<Uuid>, Vec<Uuid>) = making
            .iter()
            .filter_map(|job| Some((job.origin.chain.as_ref()?.retry_of.0, JobId::at(self.now, job.bits).0)))
            .unzip();
        let take = "INSERT INTO punctual_internal.retries (retry_of, job_id)
                    SELECT * FROM unnest($1::uuid[], $2::uuid[]) ON CONFLICT (retry_of) DO NOTHING RETURNING job_id";
        let taken: HashSet<Uuid> =
            self.all(take, params![of, made], |row| Columns::of(row).next()).await?.into_iter().collect();
        let making: Vec<Making<'_>> =
            making.into_iter().filter(|job| taken.contains(&JobId::at(self.now, job.bits).0)).collect();
        Ok(self.make_jobs(&making, true).await?.len() as u64)
    }
}

fn ids_of(views: &[JobView]) -> Vec<Uuid> {
    views.iter().map(|view| view.job.id.0).collect()
}
