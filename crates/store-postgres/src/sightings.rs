//! Looking for what takes too long.

use crate::error::Work;
use crate::params::{Params, limit as most, params, time};
use crate::rows::{Columns, Unreadable};
use crate::tx::{Tx, in_transaction};
use crate::{Handle, readings, sql};
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::ScheduleId;
use punctual_core::notify::event::Sighting;
use punctual_core::notify::look::{SIGHTINGS_MAX, Sightings};
use punctual_core::notify::port::{Findings, Look, OverdueSchedule};
use punctual_core::notify::rule::Trigger;
use punctual_core::store::StoreResult;
use tokio_postgres::Row;

fn sighting(row: &Row) -> Result<Sighting, Unreadable> {
    let mut c = Columns::of(row);
    let (id, name, labels) = (c.optional_id::<ScheduleId>()?, c.next::<Option<String>>()?, c.next::<Option<String>>()?);
    // Labels that cannot be read are none: they must not hide what is wrong.
    let labels = labels.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok(Sighting {
        schedule: id.zip(name).map(|(id, name)| (id, name, labels)),
        queue: c.next()?,
        job_type: c.next()?,
        job_id: c.optional_id()?,
        slot_at: c.optional_time()?,
        since: c.optional_time()?,
        until: c.optional_time()?,
    })
}

pub(crate) async fn look(shared: &Handle, look: &Look) -> StoreResult<Findings> {
    let (mut found, now) = in_transaction!(shared, |tx| tx.sightings(look))?;
    if look.least(Trigger::QueueTooOld).is_some() {
        let queues = readings::read_queues(shared, "", None, SIGHTINGS_MAX).await?.into_iter();
        let oldest = queues.filter_map(|queue| Some((queue.name, queue.oldest_queued_at?)));
        found.queues = oldest.map(|(name, since)| Sighting::of_queue(name, since)).collect();
    }
    Ok(look.findings(&found, now))
}

pub(crate) async fn overdue(shared: &Handle, by: SignedDuration, limit: usize) -> StoreResult<Vec<OverdueSchedule>> {
    let found = in_transaction!(shared, |tx| tx.overdue(by, limit))?;
    let found = found.into_iter().filter_map(|it| it.schedule.zip(it.since));
    Ok(found.map(|((id, name, _), due_at)| OverdueSchedule { id, name, due_at }).collect())
}

impl Tx<'_> {
    async fn seen(&self, sql: &str, params: Params<'_>) -> Work<Vec<Sighting>> {
        self.all(sql, params, sighting).await
    }

    async fn overdue(&self, by: SignedDuration, limit: usize) -> Work<Vec<Sighting>> {
        let due = self.now.saturating_sub(by).unwrap_or(Timestamp::MIN);
        self.seen(sql::sight_overdue, params![time(due), most(limit)]).await
    }

    async fn sightings(&self, look: &Look) -> Work<(Sightings, Timestamp)> {
        let (limit, now) = (most(SIGHTINGS_MAX), self.now);
        let before = |trigger| look.begun_before(trigger, now).map(time);
        let due = params![time(look.due_before(now)), limit];
        let mut found = Sightings { overdue: self.seen(sql::sight_overdue, due).await?, ..Sightings::default() };
        if let Some(before) = before(Trigger::LateStart) {
            found.waiting = self.seen(sql::sight_waiting, params![before, limit]).await?;
        }
        let least = |trigger| look.least(trigger).map(|it| i64::try_from(it.as_micros()).unwrap_or(i64::MAX / 2));
        let (long, late) = (least(Trigger::LongRun), least(Trigger::LateStart));
        if long.is_some() || late.is_some() {
            let begun = before(Trigger::LongRun).unwrap_or(time(Timestamp::MIN));
            found.runs = self.seen(sql::sight_running, params![begun, late, limit]).await?;
            let ended = params![long, late, limit, time(look.since)];
            found.runs.extend(self.seen(sql::sight_ended, ended).await?);
        }
        if let Some(before) = before(Trigger::NoExecutor) {
            found.marked = self.seen(sql::sight_marked, params![before, limit]).await?;
            found.lanes = self.seen(sql::sight_lanes, params![before, limit]).await?;
            found.offered = self.offered().await?;
        }
        Ok((found, now))
    }
}
