//! Backfills: what they would do, their beginning, their steps and their end.

use crate::SqliteStore;
use crate::policies::{calendar_of, slots_kept_since};
use crate::rows::{self, Columns, Unreadable};
use crate::sql;
use crate::tx::Tx;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use punctual_core::backfill::{Advanced, Backfill, BackfillPreview, Backfills, NewBackfill, STEP_MAX, Step};
use punctual_core::id::{BackfillId, JobId, ScheduleId};
use punctual_core::schedule::Schedule;
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::{Connection, Row, params};
use std::collections::BTreeSet;

const COLUMNS: &str = "SELECT id, created_at, schedule_id, from_at, until_at, priority, per_minute, asked_by, next_at,
    made, passed, ended_at, cancelled FROM punctual_backfills";

#[async_trait]
impl Backfills for SqliteStore {
    async fn preview_backfill(&self, asked: &NewBackfill) -> StoreResult<BackfillPreview> {
        let (now, asked) = (self.clock.now(), asked.clone());
        self.read(move |connection| preview(connection, &asked, now)).await
    }

    async fn create_backfill(&self, asked: NewBackfill) -> StoreResult<Backfill> {
        self.write_plans(move |tx| tx.create_backfill(&asked)).await
    }

    async fn backfill(&self, id: BackfillId) -> StoreResult<Option<Backfill>> {
        self.read(move |connection| {
            let find = format!("{COLUMNS} WHERE id = ?1");
            Ok(rows::collect(connection, &find, params![id.as_bytes()], backfill)?.pop())
        })
        .await
    }

    async fn backfills(
        &self, schedule: Option<ScheduleId>, before: Option<BackfillId>, limit: usize,
    ) -> StoreResult<Vec<Backfill>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let before = before.map_or([0xff; 16], |id| *id.as_bytes());
        self.read(move |connection| {
            let Some(schedule) = schedule else {
                let find = format!("{COLUMNS} WHERE id < ?1 ORDER BY id DESC LIMIT ?2");
                return rows::collect(connection, &find, params![before, limit], backfill);
            };
            let find = format!("{COLUMNS} WHERE schedule_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3");
            rows::collect(connection, &find, params![schedule.as_bytes(), before, limit], backfill)
        })
        .await
    }

    async fn cancel_backfill(&self, id: BackfillId) -> StoreResult<Backfill> {
        self.write(move |tx| {
            tx.end_backfill(id, true)?;
            tx.one_backfill(id)
        })
        .await
    }

    async fn backfilled(&self, schedule: ScheduleId, slot_at: Timestamp) -> StoreResult<Vec<JobId>> {
        self.read(move |connection| {
            let find =
                "SELECT job_id FROM punctual_backfill_slots WHERE schedule_id = ?1 AND slot_at = ?2 ORDER BY job_id";
            let params = params![schedule.as_bytes(), slot_at.as_microsecond()];
            rows::collect(connection, find, params, |row| Columns::of(row).id())
        })
        .await
    }

    async fn advance_backfills(&self) -> StoreResult<Advanced> {
        let done = self.write(move |tx| tx.advance_backfills(STEP_MAX)).await?;
        if !done.jobs.is_empty() {
            self.ring();
        }
        Ok(done)
    }
}

fn backfill(row: &Row<'_>) -> Result<Backfill, Unreadable> {
    let mut c = Columns::of(row);
    let (id, created_at) = (c.id()?, c.time()?);
    let asked = NewBackfill {
        schedule_id: c.id()?,
        from: c.time()?,
        until: c.time()?,
        priority: c.next()?,
        per_minute: c.next()?,
        by: c.next()?,
    };
    Ok(Backfill {
        id,
        created_at,
        asked,
        next_at: c.time()?,
        made: u64::try_from(c.next::<i64>()?).unwrap_or(0),
        passed: u64::try_from(c.next::<i64>()?).unwrap_or(0),
        ended_at: c.optional_time()?,
        cancelled: c.next()?,
    })
}

fn schedule_of(connection: &Connection, id: ScheduleId) -> StoreResult<Schedule> {
    let found = rows::collect(connection, sql::schedule_by_id, params![id.as_bytes()], rows::schedule)?.pop();
    found.ok_or_else(|| StoreError::NotFound { what: "schedule", key: id.to_string() })
}

fn check(connection: &Connection, asked: &NewBackfill, now: Timestamp) -> StoreResult<(Schedule, BackfillPreview)> {
    asked.validate(now)?;
    let schedule = schedule_of(connection, asked.schedule_id)?;
    asked.check_kept(slots_kept_since(connection)?)?;
    let preview = BackfillPreview::of(schedule.backfill_count(asked, now)?)?;
    Ok((schedule, preview))
}

fn preview(connection: &Connection, asked: &NewBackfill, now: Timestamp) -> StoreResult<BackfillPreview> {
    let (schedule, mut preview) = check(connection, asked, now)?;
    let mut from = asked.from;
    loop {
        let step = schedule.backfill_step(asked, from, now, STEP_MAX)?;
        preview.count(&step, &filled(connection, &schedule, &step)?);
        if step.is_last {
            return Ok(preview);
        }
        from = step.next_at;
    }
}

/// Which slots of a step have run, are running, or are closed by the calendar.
fn filled(connection: &Connection, schedule: &Schedule, step: &Step) -> StoreResult<BTreeSet<Timestamp>> {
    let (Some(first), Some(last)) = (step.slots.first(), step.slots.last()) else { return Ok(BTreeSet::new()) };
    let params = params![schedule.id.as_bytes(), first.as_microsecond(), last.as_microsecond()];
    let filled = rows::collect(connection, sql::filled_slots, params, |row| Columns::of(row).time())?;
    let calendar = calendar_of(connection, schedule)?;
    Ok(filled.into_iter().chain(step.closed(calendar.as_deref())).collect())
}

impl Tx<'_> {
    fn create_backfill(&mut self, asked: &NewBackfill) -> StoreResult<Backfill> {
        check(self.connection(), asked, self.now)?;
        let bits = self.id_bits();
        let id = BackfillId::at(self.now, bits);
        let insert =
            "INSERT INTO punctual_backfills (id, created_at, schedule_id, from_at, until_at, priority, per_minute,
                        asked_by, next_at, again_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?4, ?2)";
        let params = params![
            id.as_bytes(),
            self.now_us(),
            asked.schedule_id.as_bytes(),
            asked.from.as_microsecond(),
            asked.until.as_microsecond(),
            asked.priority,
            asked.per_minute,
            asked.by,
        ];
        self.execute(insert, params)?;
        self.one_backfill(id)
    }

    fn one_backfill(&self, id: BackfillId) -> StoreResult<Backfill> {
        let found = self.one(&format!("{COLUMNS} WHERE id = ?1"), params![id.as_bytes()], backfill)?;
        found.ok_or_else(|| StoreError::NotFound { what: "backfill", key: id.to_string() })
    }

    fn end_backfill(&self, id: BackfillId, cancelled: bool) -> StoreResult<()> {
        let end = "UPDATE punctual_backfills SET ended_at = ?2, cancelled = ?3 WHERE id = ?1 AND ended_at IS NULL";
        self.execute(end, params![id.as_bytes(), self.now_us(), cancelled])?;
        Ok(())
    }

    fn advance_backfills(&mut self, step_max: usize) -> StoreResult<Advanced> {
        let find = "SELECT id, again_at FROM punctual_backfills WHERE ended_at IS NULL ORDER BY again_at, id LIMIT 1";
        let next = self.one(find, [], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.time()?))
        })?;
        let Some((id, again_at)) = next else { return Ok(Advanced::default()) };
        if again_at > self.now {
            return Ok(Advanced { again_in: Some(again_at.duration_since(self.now)), ..Advanced::default() });
        }
        let at_once = Advanced { again_in: Some(SignedDuration::ZERO), ..Advanced::default() };
        let backfill = self.one_backfill(id)?;
        let Some((schedule, step)) = self.step_of(&backfill, step_max)? else {
            self.end_backfill(id, true)?;
            return Ok(Advanced { ended: 1, ..at_once });
        };
        let allowed = match backfill.allowed(self.now) {
            Ok(allowed) => allowed,
            Err(wait) => {
                let again = self.now.saturating_add(wait).unwrap_or(Timestamp::MAX).as_microsecond();
                let put_off = "UPDATE punctual_backfills SET again_at = ?2 WHERE id = ?1";
                self.execute(put_off, params![id.as_bytes(), again])?;
                return Ok(at_once);
            }
        };
        let filled = filled(self.connection(), &schedule, &step)?;
        let (run, passed, stopped_at) = backfill.choose(&step, &filled, allowed);
        let jobs = self.make_backfill_jobs(&backfill, &schedule, &run)?;
        let is_over = step.is_last && stopped_at.is_none();
        let move_on =
            "UPDATE punctual_backfills SET next_at = ?2, made = made + ?3, passed = passed + ?4, again_at = ?5,
                         ended_at = ?6 WHERE id = ?1";
        let params = params![
            id.as_bytes(),
            stopped_at.unwrap_or(step.next_at).as_microsecond(),
            i64::try_from(jobs.len()).unwrap_or(i64::MAX),
            i64::try_from(passed).unwrap_or(i64::MAX),
            self.now_us(),
            is_over.then(|| self.now_us()),
        ];
        self.execute(move_on, params)?;
        Ok(Advanced { jobs, ended: usize::from(is_over), ..at_once })
    }

    /// The schedule of a backfill and its next slots; nothing when the schedule is gone or not understood any more.
    fn step_of(&self, backfill: &Backfill, step_max: usize) -> StoreResult<Option<(Schedule, Step)>> {
        let schedule = match self.schedule(backfill.asked.schedule_id) {
            Ok(schedule) => schedule,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let step = schedule.backfill_step(&backfill.asked, backfill.next_at, self.now, step_max).ok();
        Ok(step.map(|step| (schedule, step)))
    }

    fn make_backfill_jobs(
        &mut self, backfill: &Backfill, schedule: &Schedule, slots: &[Timestamp],
    ) -> StoreResult<Vec<JobId>> {
        let mut jobs = Vec::with_capacity(slots.len());
        for slot_at in slots {
            let (spec, origin) = schedule.backfill_job(&backfill.asked, *slot_at);
            let job = self.insert_and_place(&spec, &origin)?;
            let note = "INSERT INTO punctual_backfill_slots (schedule_id, slot_at, job_id, backfill_id)
                        VALUES (?1, ?2, ?3, ?4)";
            let params =
                params![schedule.id.as_bytes(), slot_at.as_microsecond(), job.as_bytes(), backfill.id.as_bytes()];
            self.execute(note, params)?;
            jobs.push(job);
        }
        Ok(jobs)
    }
}
