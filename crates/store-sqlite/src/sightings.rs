//! Looking for what takes too long, beside the writer.

use crate::notify::most;
use crate::rows::{self, Columns, Unreadable};
use crate::sql;
use crate::{offers, readings};
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::ScheduleId;
use punctual_core::notify::event::Sighting;
use punctual_core::notify::look::{SIGHTINGS_MAX, Sightings};
use punctual_core::notify::port::{Findings, Look, OverdueSchedule};
use punctual_core::notify::rule::Trigger;
use punctual_core::store::StoreResult;
use rusqlite::{Connection, Params, Row, params};

/// Longer than anything lasts: what no rule asks for is not found.
const NEVER: i64 = i64::MAX;

fn sighting(row: &Row<'_>) -> Result<Sighting, Unreadable> {
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

fn seen(connection: &Connection, sql: &str, params: impl Params) -> StoreResult<Vec<Sighting>> {
    rows::collect(connection, sql, params, sighting)
}

pub(crate) fn look(connection: &Connection, look: &Look, now: Timestamp) -> StoreResult<Findings> {
    let limit = most(SIGHTINGS_MAX);
    let before = |trigger| look.begun_before(trigger, now).map(Timestamp::as_microsecond);
    let mut found = Sightings {
        overdue: seen(connection, sql::sight_overdue, params![look.due_before(now).as_microsecond(), limit])?,
        ..Sightings::default()
    };
    if let Some(before) = before(Trigger::LateStart) {
        found.waiting = seen(connection, sql::sight_waiting, params![before, limit])?;
    }
    let least = |trigger| look.least(trigger).map_or(NEVER, micros);
    let (long, late) = (least(Trigger::LongRun), least(Trigger::LateStart));
    if long.min(late) < NEVER {
        let begun = before(Trigger::LongRun).unwrap_or(i64::MIN);
        found.runs = seen(connection, sql::sight_running, params![begun, late, limit])?;
        let since = look.since.as_microsecond();
        found.runs.extend(seen(connection, sql::sight_ended, params![long, late, limit, since])?);
    }
    if let Some(before) = before(Trigger::NoExecutor) {
        found.marked = seen(connection, sql::sight_marked, params![before, limit])?;
        found.lanes = seen(connection, sql::sight_lanes, params![before, limit])?;
        found.offered = offers::offered(connection)?;
    }
    if look.least(Trigger::QueueTooOld).is_some() {
        let key = vec![String::new().into(), limit.into()];
        let queues = readings::read_queues(connection, sql::queues_page, key, now.as_microsecond())?.into_iter();
        let oldest = queues.filter_map(|queue| Some((queue.name, queue.oldest_queued_at?)));
        found.queues = oldest.map(|(name, since)| Sighting::of_queue(name, since)).collect();
    }
    Ok(look.findings(&found, now))
}

fn micros(lasted: SignedDuration) -> i64 {
    i64::try_from(lasted.as_micros()).unwrap_or(NEVER)
}

pub(crate) fn overdue(connection: &Connection, due: Timestamp, limit: usize) -> StoreResult<Vec<OverdueSchedule>> {
    let found = seen(connection, sql::sight_overdue, params![due.as_microsecond(), most(limit)])?;
    let found = found.into_iter().filter_map(|it| it.schedule.zip(it.since));
    Ok(found.map(|((id, name, _), due_at)| OverdueSchedule { id, name, due_at }).collect())
}
