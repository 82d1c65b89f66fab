//! Backfills: what they would do, their beginning, their steps and their end.

use crate::PostgresStore;
use crate::error::Work;
use crate::jobs::serial_keys;
use crate::making::Making;
use crate::params::{params, time};
use crate::policies::SLOTS_KEPT_SINCE;
use crate::rows::{Columns, Unreadable};
use crate::sql;
use crate::tx::{Tx, in_transaction};
use crate::wake::Wake;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use punctual_core::backfill::{Advanced, Backfill, BackfillPreview, Backfills, NewBackfill, STEP_MAX, Step};
use punctual_core::id::{BackfillId, JobId, ScheduleId};
use punctual_core::schedule::Schedule;
use punctual_core::store::{StoreError, StoreResult};
use std::collections::BTreeSet;
use tokio_postgres::Row;
use uuid::Uuid;

const COLUMNS: &str = "SELECT id, created_at, schedule_id, from_at, until_at, priority, per_minute, asked_by, next_at,
    made, passed, ended_at, cancelled FROM punctual_internal.backfills";

#[async_trait]
impl Backfills for PostgresStore {
    async fn preview_backfill(&self, asked: &NewBackfill) -> StoreResult<BackfillPreview> {
        in_transaction!(&self.shared, |tx| tx.preview_backfill(asked))
    }

    async fn create_backfill(&self, asked: NewBackfill) -> StoreResult<Backfill> {
        in_transaction!(&self.shared, Plans | tx | tx.create_backfill(&asked))
    }

    async fn backfill(&self, id: BackfillId) -> StoreResult<Option<Backfill>> {
        Ok(self.shared.read(&format!("{COLUMNS} WHERE id = $1"), params![id.0], backfill).await?.pop())
    }

    async fn backfills(
        &self, schedule: Option<ScheduleId>, before: Option<BackfillId>, limit: usize,
    ) -> StoreResult<Vec<Backfill>> {
        let (before, limit) = (before.map_or(Uuid::max(), |id| id.0), crate::params::limit(limit));
        let Some(schedule) = schedule else {
            let find = format!("{COLUMNS} WHERE id < $1 ORDER BY id DESC LIMIT $2");
            return Ok(self.shared.read(&find, params![before, limit], backfill).await?);
        };
        let find = format!("{COLUMNS} WHERE schedule_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
        Ok(self.shared.read(&find, params![schedule.0, before, limit], backfill).await?)
    }

    async fn cancel_backfill(&self, id: BackfillId) -> StoreResult<Backfill> {
        in_transaction!(&self.shared, |tx| tx.cancel_backfill(id))
    }

    async fn backfilled(&self, schedule: ScheduleId, slot_at: Timestamp) -> StoreResult<Vec<JobId>> {
        let find = "SELECT job_id FROM punctual_internal.backfill_slots WHERE schedule_id = $1 AND slot_at = $2
                    ORDER BY job_id";
        Ok(self.shared.read(find, params![schedule.0, time(slot_at)], |row| Columns::of(row).id()).await?)
    }

    async fn advance_backfills(&self) -> StoreResult<Advanced> {
        in_transaction!(&self.shared, |done| (!done.jobs.is_empty()).then_some(Wake::Told), |tx| tx.advance_backfills())
    }
}

fn backfill(row: &Row) -> Result<Backfill, Unreadable> {
    let mut c = Columns::of(row);
    let (id, created_at) = (c.id()?, c.time()?);
    let asked = NewBackfill {
        schedule_id: c.id()?,
        from: c.time()?,
        until: c.time()?,
        priority: c.next()?,
        per_minute: c.next::<Option<i64>>()?.map(|number| u32::try_from(number).unwrap_or(u32::MAX)),
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

fn not_found(id: BackfillId) -> StoreError {
    StoreError::NotFound { what: "backfill", key: id.to_string() }
}

impl Tx<'_> {
    async fn find_backfill(&mut self, id: BackfillId) -> Work<Option<Backfill>> {
        self.one(&format!("{COLUMNS} WHERE id = $1"), params![id.0], backfill).await
    }

    async fn check_backfill(&self, asked: &NewBackfill) -> Work<(Schedule, BackfillPreview)> {
        asked.validate(self.now).map_err(StoreError::from)?;
        let schedule = self.schedule(asked.schedule_id).await?;
        let forgotten = self.one(SLOTS_KEPT_SINCE, params![], |row| Columns::of(row).time()).await?;
        asked.check_kept(forgotten.unwrap_or(Timestamp::UNIX_EPOCH)).map_err(StoreError::from)?;
        let count = schedule.backfill_count(asked, self.now).map_err(StoreError::from)?;
        Ok((schedule, BackfillPreview::of(count).map_err(StoreError::from)?))
    }

    async fn preview_backfill(&mut self, asked: &NewBackfill) -> Work<BackfillPreview> {
        let (schedule, mut preview) = self.check_backfill(asked).await?;
        let mut from = asked.from;
        loop {
            let step = schedule.backfill_step(asked, from, self.now, STEP_MAX).map_err(StoreError::from)?;
            preview.count(&step, &self.filled(&schedule, &step).await?);
            if step.is_last {
                return Ok(preview);
            }
            from = step.next_at;
        }
    }

    /// Which slots of a step have run, are running, or are closed by the calendar.
    async fn filled(&self, schedule: &Schedule, step: &Step) -> Work<BTreeSet<Timestamp>> {
        let (Some(first), Some(last)) = (step.slots.first(), step.slots.last()) else { return Ok(BTreeSet::new()) };
        let params = params![schedule.id.0, time(*first), time(*last)];
        let filled = self.all(sql::filled_slots, params, |row| Columns::of(row).time()).await?;
        let calendar = self.calendars_of(std::slice::from_ref(schedule)).await?.into_values().next();
        Ok(filled.into_iter().chain(step.closed(calendar.as_deref())).collect())
    }

    async fn create_backfill(&mut self, asked: &NewBackfill) -> Work<Backfill> {
        self.check_backfill(asked).await?;
        let id = BackfillId::at(self.now, self.id_bits());
        let insert =
            "INSERT INTO punctual_internal.backfills (id, created_at, schedule_id, from_at, until_at, priority,
                        per_minute, asked_by, next_at, again_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $4, $2)";
        let params = params![
            id.0,
            self.at(),
            asked.schedule_id.0,
            time(asked.from),
            time(asked.until),
            asked.priority,
            asked.per_minute.map(i64::from),
            asked.by.as_deref(),
        ];
        self.execute(insert, params).await?;
        self.find_backfill(id).await?.ok_or_else(|| not_found(id).into())
    }

    async fn end_backfill(&self, id: BackfillId, cancelled: bool) -> Work<()> {
        let end = "UPDATE punctual_internal.backfills SET ended_at = $2, cancelled = $3
                   WHERE id = $1 AND ended_at IS NULL";
        self.execute(end, params![id.0, self.at(), cancelled]).await?;
        Ok(())
    }

    async fn cancel_backfill(&mut self, id: BackfillId) -> Work<Backfill> {
        self.end_backfill(id, true).await?;
        self.find_backfill(id).await?.ok_or_else(|| not_found(id).into())
    }

    async fn advance_backfills(&mut self) -> Work<Advanced> {
        // One that another node is about is left to it. SQLite has one writer and needs no lock.
        let find = "SELECT id, again_at FROM punctual_internal.backfills WHERE ended_at IS NULL
                    ORDER BY again_at, id LIMIT 1 FOR UPDATE SKIP LOCKED";
        let next = self.one(find, params![], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.time()?))
        });
        let Some((id, again_at)): Option<(BackfillId, Timestamp)> = next.await? else { return Ok(Advanced::default()) };
        if again_at > self.now {
            return Ok(Advanced { again_in: Some(again_at.duration_since(self.now)), ..Advanced::default() });
        }
        let at_once = Advanced { again_in: Some(SignedDuration::ZERO), ..Advanced::default() };
        let backfill = self.find_backfill(id).await?.ok_or_else(|| not_found(id))?;
        let Some((schedule, step)) = self.step_of(&backfill).await? else {
            self.end_backfill(id, true).await?;
            return Ok(Advanced { ended: 1, ..at_once });
        };
        let allowed = match backfill.allowed(self.now) {
            Ok(allowed) => allowed,
            Err(wait) => {
                let again = self.now.saturating_add(wait).unwrap_or(Timestamp::MAX);
                let put_off = "UPDATE punctual_internal.backfills SET again_at = $2 WHERE id = $1";
                self.execute(put_off, params![id.0, time(again)]).await?;
                return Ok(at_once);
            }
        };
        let filled = self.filled(&schedule, &step).await?;
        let (run, passed, stopped_at) = backfill.choose(&step, &filled, allowed);
        let jobs = self.make_backfill_jobs(&backfill, &schedule, &run).await?;
        let is_over = step.is_last && stopped_at.is_none();
        let move_on = "UPDATE punctual_internal.backfills SET next_at = $2, made = made + $3, passed = passed + $4,
                         again_at = $5, ended_at = $6 WHERE id = $1";
        let params = params![
            id.0,
            time(stopped_at.unwrap_or(step.next_at)),
            i64::try_from(jobs.len()).unwrap_or(i64::MAX),
            i64::try_from(passed).unwrap_or(i64::MAX),
            self.at(),
            is_over.then(|| self.at()),
        ];
        self.execute(move_on, params).await?;
        Ok(Advanced { jobs, ended: usize::from(is_over), ..at_once })
    }

    /// The schedule of a backfill and its next slots; nothing when the schedule is gone or not understood any more. It
    /// stays locked, so that two backfills of one schedule do not see the same gap.
    async fn step_of(&self, backfill: &Backfill) -> Work<Option<(Schedule, Step)>> {
        let Some(schedule) = self.locked_schedule(backfill.asked.schedule_id).await? else { return Ok(None) };
        let step = schedule.backfill_step(&backfill.asked, backfill.next_at, self.now, STEP_MAX).ok();
        Ok(step.map(|step| (schedule, step)))
    }

    async fn make_backfill_jobs(
        &self, backfill: &Backfill, schedule: &Schedule, slots: &[Timestamp],
    ) -> Work<Vec<JobId>> {
        let planned: Vec<_> = slots.iter().map(|slot_at| schedule.backfill_job(&backfill.asked, *slot_at)).collect();
        let making = planned.iter().map(|(spec, origin)| Making { bits: self.id_bits(), spec, origin });
        let making: Vec<Making<'_>> = making.collect();
        let keys = serial_keys(planned.iter().map(|(spec, _)| spec));
        self.lock_serial_keys(&keys).await?;
        let jobs = self.make_jobs(&making, true).await?;
        self.settle_serial_keys(&keys).await?;
        let note = "INSERT INTO punctual_internal.backfill_slots (schedule_id, slot_at, job_id, backfill_id)
                    SELECT $1, s.slot_at, s.job_id, $2 FROM unnest($3::timestamptz[], $4::uuid[]) AS s (slot_at, job_id)";
        let (slots, ids): (Vec<_>, Vec<Uuid>) = slots.iter().zip(&jobs).map(|(slot, job)| (time(*slot), job.0)).unzip();
        self.execute(note, params![schedule.id.0, backfill.id.0, slots, ids]).await?;
        Ok(jobs)
    }
}
