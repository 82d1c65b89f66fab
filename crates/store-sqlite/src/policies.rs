//! Calendars, pauses that end or begin by themselves, and the cap on fires.

use crate::SqliteStore;
use crate::error::{is_unique_violation, store_error};
use crate::rows::{self, Columns, Unreadable, document};
use crate::sql;
use crate::tx::{Tx, value};
use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::calendar::{Calendar, CalendarRules, StoredCalendar};
use punctual_core::cap::FireCap;
use punctual_core::id::ScheduleId;
use punctual_core::invalid::Invalid;
use punctual_core::name::{self, Name};
use punctual_core::policies::{Policies, check_pause};
use punctual_core::schedule::{Pause, Schedule};
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::{Connection, Row, params};
use std::sync::Arc;

const CALENDAR: &str =
    "SELECT name, description, rules, version, created_at, updated_at FROM punctual_calendars WHERE name = ?1";

/// How many of those who use a calendar are named.
const USERS_NAMED: i64 = 10;

#[async_trait]
impl Policies for SqliteStore {
    async fn create_calendar(
        &self, name: Name, description: String, rules: CalendarRules,
    ) -> StoreResult<StoredCalendar> {
        check_rules(&description, &rules)?;
        self.write(move |tx| tx.create_calendar(&name, &description, &rules.storable())).await
    }

    async fn update_calendar_if_version(
        &self, name: &str, version: i64, description: String, rules: CalendarRules,
    ) -> StoreResult<StoredCalendar> {
        check_rules(&description, &rules)?;
        let name = name.to_owned();
        self.write(move |tx| tx.update_calendar(&name, version, &description, &rules.storable())).await
    }

    async fn delete_calendar(&self, name: &str) -> StoreResult<()> {
        let name = name.to_owned();
        self.write(move |tx| tx.delete_calendar(&name)).await
    }

    async fn calendar(&self, name: &str) -> StoreResult<Option<StoredCalendar>> {
        let name = name.to_owned();
        self.read(move |connection| Ok(rows::collect(connection, CALENDAR, params![name], calendar)?.pop())).await
    }

    async fn calendars(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<StoredCalendar>> {
        let (after, limit) = (after.unwrap_or_default().to_owned(), i64::try_from(limit).unwrap_or(i64::MAX));
        self.read(move |connection| rows::collect(connection, sql::calendars_page, params![after, limit], calendar))
            .await
    }

    async fn pause_schedule_until(
        &self, id: ScheduleId, until: Timestamp, by: Option<String>, note: Option<String>,
    ) -> StoreResult<Schedule> {
        check_pause(by.as_deref(), note.as_deref())?;
        self.write_plans(move |tx| tx.pause_schedule_until(id, until, by.as_deref(), note.as_deref())).await
    }

    async fn skip_next(&self, id: ScheduleId, by: Option<String>) -> StoreResult<Schedule> {
        check_pause(by.as_deref(), None)?;
        self.write_plans(move |tx| tx.skip_next(id, by.as_deref())).await
    }

    async fn fire_cap(&self) -> StoreResult<Option<u32>> {
        self.read(move |connection| Ok(read_cap(connection)?.map(|cap| cap.per_second))).await
    }

    async fn set_fire_cap(&self, per_second: Option<u32>) -> StoreResult<Option<u32>> {
        let cap = per_second.map(FireCap::new).transpose()?;
        self.write_plans(move |tx| tx.set_fire_cap(cap)).await
    }

    async fn slots_kept_since(&self) -> StoreResult<Timestamp> {
        self.read(slots_kept_since).await
    }
}

fn check_rules(description: &str, rules: &CalendarRules) -> Result<(), Invalid> {
    name::check_text("description", description)?;
    rules.validate()
}

fn calendar(row: &Row<'_>) -> Result<StoredCalendar, Unreadable> {
    let mut c = Columns::of(row);
    Ok(StoredCalendar {
        name: Name::new(c.next::<String>()?)?,
        description: c.next()?,
        rules: c.document("rules")?,
        version: c.next()?,
        created_at: c.time()?,
        updated_at: c.time()?,
    })
}

/// Since when the slot ledger is kept.
pub(crate) fn slots_kept_since(connection: &Connection) -> StoreResult<Timestamp> {
    let mark = "SELECT before FROM punctual_retention WHERE ledger = 'slots'";
    let forgotten: Option<i64> = rows::collect(connection, mark, [], value)?.pop();
    Ok(Timestamp::from_microsecond(forgotten.unwrap_or(0)).unwrap_or(Timestamp::MIN))
}

/// The calendar that a schedule names, if it is there and can be understood.
pub(crate) fn calendar_of(connection: &Connection, schedule: &Schedule) -> StoreResult<Option<Arc<Calendar>>> {
    let Some(name) = &schedule.definition.calendar else { return Ok(None) };
    let rules = "SELECT rules FROM punctual_calendars WHERE name = ?1";
    let found: Option<String> = rows::collect(connection, rules, params![name], value)?.pop();
    let rules = found.and_then(|text| serde_json::from_str::<CalendarRules>(&text).ok());
    Ok(rules.and_then(|rules| Calendar::new(name.clone(), rules).ok()).map(Arc::new))
}

fn read_cap(connection: &Connection) -> StoreResult<Option<FireCap>> {
    let find = "SELECT state FROM punctual_fire_cap WHERE id = 1";
    let found: Option<String> = rows::collect(connection, find, [], value)?.pop();
    found.map(|text| cap_of(&text)).transpose()
}

pub(crate) fn cap_of(text: &str) -> StoreResult<FireCap> {
    serde_json::from_str(text).map_err(|error| rows::unreadable(Invalid::new("fire_cap", error.to_string())))
}

fn not_found(name: &str) -> StoreError {
    StoreError::NotFound { what: "calendar", key: name.to_owned() }
}

impl Tx<'_> {
    pub(crate) fn create_calendar(
        &mut self, name: &Name, description: &str, rules: &CalendarRules,
    ) -> StoreResult<StoredCalendar> {
        let insert = "INSERT INTO punctual_calendars (name, description, rules, created_at, updated_at)
                      VALUES (?1, ?2, ?3, ?4, ?4)";
        let params = params![name.as_str(), description, document("rules", rules)?, self.now_us()];
        match self.try_execute(insert, params)? {
            Ok(_) => self.stored_calendar(name.as_str()),
            Err(error) if is_unique_violation(&error) => {
                Err(StoreError::NameTaken { what: "calendar", name: name.to_string() })
            }
            Err(error) => Err(store_error(error)),
        }
    }

    pub(crate) fn stored_calendar(&self, name: &str) -> StoreResult<StoredCalendar> {
        self.one(CALENDAR, params![name], calendar)?.ok_or_else(|| not_found(name))
    }

    pub(crate) fn update_calendar(
        &mut self, name: &str, version: i64, description: &str, rules: &CalendarRules,
    ) -> StoreResult<StoredCalendar> {
        let old = self.stored_calendar(name)?;
        if old.version != version {
            return Err(StoreError::VersionConflict { expected: version, found: old.version });
        }
        let update = "UPDATE punctual_calendars
                      SET description = ?2, rules = ?3, updated_at = ?4, version = version + 1 WHERE name = ?1";
        self.execute(update, params![name, description, document("rules", rules)?, self.now_us()])?;
        self.stored_calendar(name)
    }

    pub(crate) fn delete_calendar(&mut self, name: &str) -> StoreResult<()> {
        self.stored_calendar(name)?;
        let users =
            "SELECT name FROM punctual_schedules WHERE calendar = ?1 AND deleted_at IS NULL ORDER BY name LIMIT ?2";
        let by: Vec<String> = self.all(users, params![name, USERS_NAMED], value)?;
        if !by.is_empty() {
            return Err(StoreError::InUse { what: "calendar", name: name.to_owned(), by });
        }
        self.execute("DELETE FROM punctual_calendars WHERE name = ?1", params![name])?;
        Ok(())
    }

    /// The calendar that a schedule names, read once for all of them.
    pub(crate) fn calendar_of(&self, schedule: &Schedule) -> StoreResult<Option<Arc<Calendar>>> {
        let Some(name) = &schedule.definition.calendar else { return Ok(None) };
        if let Some(known) = self.calendars.borrow().get(name) {
            return Ok(known.clone());
        }
        let found = calendar_of(self.connection(), schedule)?;
        self.calendars.borrow_mut().insert(name.clone(), found.clone());
        Ok(found)
    }

    /// Refuses a name that no calendar has.
    pub(crate) fn check_calendar(&self, name: &str) -> StoreResult<()> {
        self.stored_calendar(name).map(drop)
    }

    fn pause_schedule_until(
        &mut self, id: ScheduleId, until: Timestamp, by: Option<&str>, note: Option<&str>,
    ) -> StoreResult<Schedule> {
        let until = Timestamp::from_microsecond(until.as_microsecond()).unwrap_or(until);
        let schedule = self.schedule(id)?;
        Pause::check_until(until, self.now)?;
        if schedule.state.enabled {
            let pause =
                Pause { at: self.now, by: by.map(str::to_owned), note: note.map(str::to_owned), until: Some(until) };
            self.pause(id, &pause)?;
        } else {
            let change = "UPDATE punctual_schedule_state SET paused_until = ?2, pause_note = coalesce(?3, pause_note)
                          WHERE schedule_id = ?1";
            self.execute(change, params![id.as_bytes(), until.as_microsecond(), note])?;
        }
        self.schedule(id)
    }

    /// Pauses a schedule, unless it is paused already.
    pub(crate) fn pause(&self, id: ScheduleId, pause: &Pause) -> StoreResult<()> {
        self.execute(
            "UPDATE punctual_schedule_state
             SET enabled = 0, next_run_at = NULL, paused_at = ?2, paused_by = ?3, pause_note = ?4, paused_until = ?5
             WHERE schedule_id = ?1 AND enabled = 1",
            params![
                id.as_bytes(),
                pause.at.as_microsecond(),
                pause.by,
                pause.note,
                pause.until.map(Timestamp::as_microsecond)
            ],
        )?;
        Ok(())
    }

    /// Ends a pause; the failures that are there now are forgiven.
    pub(crate) fn unpause(&self, schedule: &Schedule) -> StoreResult<()> {
        self.execute(
            "UPDATE punctual_schedule_state
             SET enabled = 1, paused_at = NULL, paused_by = NULL, pause_note = NULL, paused_until = NULL,
                 forgiven_at = ?2, forgiven_failures = ?3
             WHERE schedule_id = ?1",
            params![schedule.id.as_bytes(), self.now_us(), schedule.results.consecutive_failures],
        )?;
        Ok(())
    }

    fn set_fire_cap(&mut self, cap: Option<FireCap>) -> StoreResult<Option<u32>> {
        let before = read_cap(self.connection())?;
        match (before, cap) {
            (None, None) => Ok(None),
            (Some(_), None) => {
                self.execute("DELETE FROM punctual_fire_cap", [])?;
                Ok(None)
            }
            // What has fired in this second counts under another cap, too.
            (before, Some(cap)) => {
                let recent = before.map(|before| before.recent).unwrap_or_default();
                let cap = FireCap { recent, ..cap };
                self.write_cap(&cap)?;
                Ok(Some(cap.per_second))
            }
        }
    }

    pub(crate) fn cap(&self) -> StoreResult<Option<FireCap>> {
        read_cap(self.connection())
    }

    pub(crate) fn write_cap(&self, cap: &FireCap) -> StoreResult<()> {
        let write = "INSERT INTO punctual_fire_cap (id, state) VALUES (1, ?1)
                     ON CONFLICT (id) DO UPDATE SET state = excluded.state";
        self.execute(write, params![document("fire_cap", cap)?])?;
        Ok(())
    }
}
