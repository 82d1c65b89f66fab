//! Bulk operations: how many jobs they find, their beginning, their steps and their end.

use crate::SqliteStore;
use crate::readings::{page_params, statements};
use crate::rows::{self, Columns, Unreadable, document};
use crate::tx::{Tx, value};
use punctual_core::bulk::{Bulk, BulkAction, BulkCursor, BulkStep, BulkStretch, FilterDocument, NewBulk};
use punctual_core::id::{BulkId, JobId};
use punctual_core::readings::{Page, SCAN_MAX};
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

const COLUMNS: &str =
    "SELECT id, created_at, action, filter, priority, asked_by, cursor_state, cursor_after, done, passed,
    ended_at, cancelled FROM punctual_bulk_operations";

impl SqliteStore {
    pub(crate) async fn count_bulk_jobs(&self, asked: &NewBulk) -> StoreResult<u64> {
        asked.validate()?;
        let (now, asked) = (self.clock.now(), asked.clone());
        self.read(move |connection| count(connection, &asked, now)).await
    }

    pub(crate) async fn read_bulk(&self, id: BulkId) -> StoreResult<Option<Bulk>> {
        self.read(move |connection| {
            let find = format!("{COLUMNS} WHERE id = ?1");
            Ok(rows::collect(connection, &find, params![id.as_bytes()], bulk)?.pop())
        })
        .await
    }

    pub(crate) async fn read_bulks(
        &self, owner: Option<&str>, before: Option<BulkId>, limit: usize,
    ) -> StoreResult<Vec<Bulk>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let before = before.map_or([0xff; 16], |id| *id.as_bytes());
        let owner = owner.map(str::to_owned);
        self.read(move |connection| {
            let Some(owner) = owner else {
                let find = format!("{COLUMNS} WHERE id < ?1 ORDER BY id DESC LIMIT ?2");
                return rows::collect(connection, &find, params![before, limit], bulk);
            };
            let find = format!("{COLUMNS} WHERE owner = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3");
            rows::collect(connection, &find, params![owner, before, limit], bulk)
        })
        .await
    }
}

fn bulk(row: &Row<'_>) -> Result<Bulk, Unreadable> {
    let mut c = Columns::of(row);
    let (id, created_at, action) = (c.id()?, c.time()?, c.word()?);
    let filter: FilterDocument = c.document("filter")?;
    let asked = NewBulk { action, filter: filter.into(), priority: c.next()?, by: c.next()? };
    Ok(Bulk {
        id,
        created_at,
        asked,
        cursor: BulkCursor { state: c.next()?, after: c.id()? },
        done: c.count()?,
        passed: c.count()?,
        ended_at: c.optional_time()?,
        cancelled: c.next()?,
    })
}

/// The first jobs of a stretch, in the order of their ids, and where looking stopped if there are more.
fn jobs_of(connection: &Connection, stretch: &BulkStretch, limit: usize) -> StoreResult<Page<JobId, JobId>> {
    let (page, scan) = statements(stretch.filter.source());
    let range = (stretch.after, stretch.before);
    let read = |sql: &str, params: Vec<Value>| -> StoreResult<Vec<JobId>> {
        rows::collect(connection, &rising(sql), params_from_iter(params), |row| Columns::of(row).id())
    };
    let found = read(page, page_params(&stretch.filter, range, stretch.filter.look_at(limit), limit))?;
    let stopped_at = if found.len() > limit || !stretch.filter.may_stop_short(limit) {
        None
    } else {
        let mut last = page_params(&stretch.filter, range, 1, limit);
        last[3] = i64::try_from(SCAN_MAX - 1).unwrap_or(i64::MAX).into();
        last.truncate(if scan.contains("?5") { 5 } else { 4 });
        read(scan, last)?.pop()
    };
    Ok(Page::of(found, limit, |id| *id, stopped_at))
}

/// The same statement from the earliest job on; behind the lower bound, which was looked at before.
fn rising(sql: &str) -> String {
    sql.replace("DESC", "ASC").replace(">= ?2", "> ?2")
}

fn count(connection: &Connection, asked: &NewBulk, now: jiff::Timestamp) -> StoreResult<u64> {
    let (mut cursor, mut found) = (BulkCursor::default(), 0);
    while let Some(stretch) = asked.stretch(cursor, now) {
        let page = jobs_of(connection, &stretch, SCAN_MAX)?;
        for id in &page.items {
            found += u64::from(asked.action != BulkAction::Retry || !is_retried(connection, *id)?);
        }
        cursor = NewBulk::behind(cursor, page.next);
    }
    Ok(found)
}

fn is_retried(connection: &Connection, id: JobId) -> StoreResult<bool> {
    let find = "SELECT 1 FROM punctual_retries WHERE retry_of = ?1";
    crate::readings::exists(connection, find, params![id.as_bytes()])
}

impl Tx<'_> {
    pub(crate) fn create_bulk(&mut self, asked: &NewBulk) -> StoreResult<Bulk> {
        let bits = self.id_bits();
        let id = BulkId::at(self.now, bits);
        let insert = "INSERT INTO punctual_bulk_operations (id, created_at, action, filter, owner, priority, asked_by,
                        cursor_after, stepped_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?2)";
        let begin = BulkCursor::default().after;
        let params = params![
            id.as_bytes(),
            self.now_us(),
            asked.action.as_str(),
            document("filter", &asked.filter_document())?,
            asked.filter.owner,
            asked.priority,
            asked.by,
            begin.as_bytes(),
        ];
        self.execute(insert, params)?;
        self.one_bulk(id)
    }

    fn one_bulk(&self, id: BulkId) -> StoreResult<Bulk> {
        let found = self.one(&format!("{COLUMNS} WHERE id = ?1"), params![id.as_bytes()], bulk)?;
        found.ok_or_else(|| StoreError::NotFound { what: "bulk operation", key: id.to_string() })
    }

    pub(crate) fn cancel_bulk(&mut self, id: BulkId) -> StoreResult<Bulk> {
        let end = "UPDATE punctual_bulk_operations SET ended_at = ?2, cancelled = 1 WHERE id = ?1 AND ended_at IS NULL";
        self.execute(end, params![id.as_bytes(), self.now_us()])?;
        self.one_bulk(id)
    }

    pub(crate) fn advance_bulks(&mut self, step_max: usize) -> StoreResult<BulkStep> {
        let find = "SELECT id FROM punctual_bulk_operations WHERE ended_at IS NULL ORDER BY stepped_at, id LIMIT 1";
        let Some(id) = self.one(find, [], value::<[u8; 16]>)? else { return Ok(BulkStep::default()) };
        let bulk = self.one_bulk(BulkId::from_bytes(id))?;
        let mut step = BulkStep { more: true, ..BulkStep::default() };
        let mut cursor = bulk.cursor;
        if let Some(stretch) = bulk.asked.stretch(cursor, bulk.created_at) {
            let page = jobs_of(self.connection(), &stretch, step_max)?;
            for job in page.items {
                if self.change_one(&bulk.asked, job)? { step.done += 1 } else { step.passed += 1 }
            }
            cursor = NewBulk::behind(cursor, page.next);
        }
        let is_over = bulk.asked.stretch(cursor, bulk.created_at).is_none();
        step.ended = usize::from(is_over);
        self.move_bulk_on(&bulk, cursor, step)?;
        Ok(step)
    }

    fn move_bulk_on(&self, bulk: &Bulk, cursor: BulkCursor, step: BulkStep) -> StoreResult<()> {
        let move_on = "UPDATE punctual_bulk_operations SET cursor_state = ?2, cursor_after = ?3, done = done + ?4,
                         passed = passed + ?5, stepped_at = ?6, ended_at = ?7 WHERE id = ?1";
        let params = params![
            bulk.id.as_bytes(),
            cursor.state,
            cursor.after.as_bytes(),
            i64::try_from(step.done).unwrap_or(i64::MAX),
            i64::try_from(step.passed).unwrap_or(i64::MAX),
            self.now_us(),
            (step.ended > 0).then(|| self.now_us()),
        ];
        self.execute(move_on, params)?;
        Ok(())
    }

    /// Changes one job; false when it is not in a state any more in which that can be done.
    fn change_one(&mut self, asked: &NewBulk, id: JobId) -> StoreResult<bool> {
        let changed = self.attempt(|tx| match asked.action {
            BulkAction::Cancel => tx.cancel_job(id).map(|_| true),
            BulkAction::Retry => tx.retry_job(id, asked.by.clone()).map(|_| true),
            BulkAction::Reprioritise => tx.set_priority(id, asked.priority.unwrap_or_default()),
        })?;
        match changed {
            Err(StoreError::WrongState { .. } | StoreError::NotFound { .. }) => Ok(false),
            changed => changed,
        }
    }

    /// Gives a queued job another priority; its position, and so its order among those that get the same, stays.
    fn set_priority(&mut self, id: JobId, priority: i32) -> StoreResult<bool> {
        let set = "UPDATE punctual_queue SET priority = ?2 WHERE job_id = ?1 RETURNING serial_key";
        let Some(key) = self.one(set, params![id.as_bytes(), priority], value::<Option<String>>)? else {
            return Ok(false);
        };
        self.settle_serial_key(key.as_deref())?;
        Ok(true)
    }
}
