//! Calendars, pauses that end or begin by themselves, and the cap on fires.

use crate::PostgresStore;
use crate::error::{Failure, Work};
use crate::params::{params, time};
use crate::rows::{self, Columns, Unreadable, document, value};
use crate::sql;
use crate::tx::{Tx, in_transaction};
use crate::wake::Wake;
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
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tokio_postgres::Row;

const CALENDAR: &str = "SELECT name, description, rules::text, version, created_at, updated_at
    FROM punctual_internal.calendars WHERE name = $1";

/// Since when the slot ledger is kept.
pub(crate) const SLOTS_KEPT_SINCE: &str = "SELECT before FROM punctual_internal.retention WHERE ledger = 'slots'";

/// Locked by whoever fires, so that the cap holds across all nodes; nobody waits where there is none.
pub(crate) const CAP: &str = "SELECT state::text FROM punctual_internal.fire_cap WHERE id = 1 FOR UPDATE";

/// How many of those who use a calendar are named.
const USERS_NAMED: i64 = 10;

#[async_trait]
impl Policies for PostgresStore {
    async fn create_calendar(
        &self, name: Name, description: String, rules: CalendarRules,
    ) -> StoreResult<StoredCalendar> {
        check_rules(&description, &rules)?;
        let rules = rules.storable();
        in_transaction!(&self.shared, |tx| tx.create_calendar(&name, &description, &rules))
    }

    async fn update_calendar_if_version(
        &self, name: &str, version: i64, description: String, rules: CalendarRules,
    ) -> StoreResult<StoredCalendar> {
        check_rules(&description, &rules)?;
        let rules = rules.storable();
        in_transaction!(&self.shared, |tx| tx.update_calendar(name, version, &description, &rules))
    }

    async fn delete_calendar(&self, name: &str) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.delete_calendar(name))
    }

    async fn calendar(&self, name: &str) -> StoreResult<Option<StoredCalendar>> {
        Ok(self.shared.read(CALENDAR, params![name], calendar).await?.pop())
    }

    async fn calendars(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<StoredCalendar>> {
        let params = params![after.unwrap_or(""), crate::params::limit(limit)];
        Ok(self.shared.read(sql::calendars_page, params, calendar).await?)
    }

    async fn pause_schedule_until(
        &self, id: ScheduleId, until: Timestamp, by: Option<String>, note: Option<String>,
    ) -> StoreResult<Schedule> {
        check_pause(by.as_deref(), note.as_deref())?;
        in_transaction!(&self.shared, |schedule| Some(Wake::of(schedule)), |tx| tx.pause_schedule_until(
            id,
            until,
            by.as_deref(),
            note.as_deref()
        ))
    }

    async fn skip_next(&self, id: ScheduleId, by: Option<String>) -> StoreResult<Schedule> {
        check_pause(by.as_deref(), None)?;
        in_transaction!(&self.shared, |schedule| Some(Wake::of(schedule)), |tx| tx.skip_next(id, by.as_deref()))
    }

    async fn fire_cap(&self) -> StoreResult<Option<u32>> {
        let find = "SELECT state::text FROM punctual_internal.fire_cap WHERE id = 1";
        let found: Option<String> = self.shared.read(find, params![], value).await?.pop();
        Ok(found.map(|text| cap_of(&text)).transpose()?.map(|cap| cap.per_second))
    }

    async fn set_fire_cap(&self, per_second: Option<u32>) -> StoreResult<Option<u32>> {
        let cap = per_second.map(FireCap::new).transpose()?;
        in_transaction!(&self.shared, Plans | tx | tx.set_fire_cap(cap.clone()))
    }

    async fn slots_kept_since(&self) -> StoreResult<Timestamp> {
        let found = self.shared.read(SLOTS_KEPT_SINCE, params![], |row| Columns::of(row).time()).await?.pop();
        Ok(found.unwrap_or(Timestamp::UNIX_EPOCH))
    }
}

fn check_rules(description: &str, rules: &CalendarRules) -> Result<(), Invalid> {
    name::check_text("description", description)?;
    rules.validate()
}

fn calendar(row: &Row) -> Result<StoredCalendar, Unreadable> {
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

pub(crate) fn cap_of(text: &str) -> Result<FireCap, StoreError> {
    serde_json::from_str(text).map_err(|error| rows::unreadable(Invalid::new("fire_cap", error.to_string())))
}

fn not_found(name: &str) -> Failure {
    StoreError::NotFound { what: "calendar", key: name.to_owned() }.into()
}

impl Tx<'_> {
    pub(crate) async fn create_calendar(
        &mut self, name: &Name, description: &str, rules: &CalendarRules,
    ) -> Work<StoredCalendar> {
        let insert = "INSERT INTO punctual_internal.calendars (name, description, rules, created_at, updated_at)
                      VALUES ($1, $2, $3::text::json, $4, $4)";
        match self.execute(insert, params![name.as_str(), description, document("rules", rules)?, self.at()]).await {
            Ok(_) => self.stored_calendar(name.as_str()).await,
            Err(failure) if failure.is_unique_violation() => {
                Err(StoreError::NameTaken { what: "calendar", name: name.to_string() }.into())
            }
            Err(failure) => Err(failure),
        }
    }

    async fn stored_calendar(&self, name: &str) -> Work<StoredCalendar> {
        self.one(CALENDAR, params![name], calendar).await?.ok_or_else(|| not_found(name))
    }

    /// Nobody else changes or ends the calendar, and no schedule begins to use it, before this is over.
    pub(crate) async fn locked_calendar(&self, name: &str) -> Work<StoredCalendar> {
        let lock = "SELECT 1 FROM punctual_internal.calendars WHERE name = $1 FOR UPDATE";
        self.rows(lock, params![name]).await?;
        self.stored_calendar(name).await
    }

    pub(crate) async fn update_calendar(
        &mut self, name: &str, version: i64, description: &str, rules: &CalendarRules,
    ) -> Work<StoredCalendar> {
        let old = self.locked_calendar(name).await?;
        if old.version != version {
            return Err(StoreError::VersionConflict { expected: version, found: old.version }.into());
        }
        let update =
            "UPDATE punctual_internal.calendars
                      SET description = $2, rules = $3::text::json, updated_at = $4, version = version + 1 WHERE name = $1";
        self.execute(update, params![name, description, document("rules", rules)?, self.at()]).await?;
        self.stored_calendar(name).await
    }

    pub(crate) async fn delete_calendar(&mut self, name: &str) -> Work<()> {
        self.locked_calendar(name).await?;
        let users = "SELECT name FROM punctual_internal.schedules WHERE calendar = $1 AND deleted_at IS NULL
                     ORDER BY name LIMIT $2";
        let by: Vec<String> = self.all(users, params![name, USERS_NAMED], value).await?;
        if !by.is_empty() {
            return Err(StoreError::InUse { what: "calendar", name: name.to_owned(), by }.into());
        }
        self.execute("DELETE FROM punctual_internal.calendars WHERE name = $1", params![name]).await?;
        Ok(())
    }

    /// Refuses a name that no calendar has; one that is there stays until the schedule is stored.
    pub(crate) async fn check_calendar(&self, name: &str) -> Work<()> {
        let keep = "SELECT 1 FROM punctual_internal.calendars WHERE name = $1 FOR KEY SHARE";
        let found = self.rows(keep, params![name]).await?;
        if found.is_empty() { Err(not_found(name)) } else { Ok(()) }
    }

    /// The calendars that some schedules name, as far as they are there and can be understood.
    pub(crate) async fn calendars_of(&self, schedules: &[Schedule]) -> Work<HashMap<String, Arc<Calendar>>> {
        let names: BTreeSet<String> = schedules.iter().filter_map(|it| it.definition.calendar.clone()).collect();
        if names.is_empty() {
            return Ok(HashMap::new());
        }
        let find = "SELECT name, rules::text FROM punctual_internal.calendars WHERE name = ANY ($1)";
        let names: Vec<String> = names.into_iter().collect();
        let found: Vec<(String, String)> = self
            .all(find, params![names], |row| {
                let mut c = Columns::of(row);
                Ok((c.next()?, c.next()?))
            })
            .await?;
        let understood = found.into_iter().filter_map(|(name, rules)| {
            let rules = serde_json::from_str(&rules).ok()?;
            Some((name.clone(), Arc::new(Calendar::new(name, rules).ok()?)))
        });
        Ok(understood.collect())
    }

    async fn pause_schedule_until(
        &mut self, id: ScheduleId, until: Timestamp, by: Option<&str>, note: Option<&str>,
    ) -> Work<Schedule> {
        let until = Timestamp::from_microsecond(until.as_microsecond()).unwrap_or(until);
        let Some(schedule) = self.locked_schedule(id).await? else { return self.schedule(id).await };
        Pause::check_until(until, self.now)?;
        if schedule.state.enabled {
            let (by, note) = (by.map(str::to_owned), note.map(str::to_owned));
            self.pause(id, &Pause { at: self.now, by, note, until: Some(until) }).await?;
        } else {
            let change = "UPDATE punctual_internal.schedule_state
                          SET paused_until = $2, pause_note = coalesce($3, pause_note) WHERE schedule_id = $1";
            self.execute(change, params![id.0, time(until), note]).await?;
        }
        self.schedule(id).await
    }

    /// Pauses a schedule, unless it is paused already.
    pub(crate) async fn pause(&self, id: ScheduleId, pause: &Pause) -> Work<()> {
        let set = "UPDATE punctual_internal.schedule_state
                   SET enabled = false, next_run_at = NULL, paused_at = $2, paused_by = $3, pause_note = $4,
                       paused_until = $5
                   WHERE schedule_id = $1 AND enabled";
        let (by, note) = (pause.by.as_deref(), pause.note.as_deref());
        self.execute(set, params![id.0, time(pause.at), by, note, pause.until.map(time)]).await?;
        Ok(())
    }

    /// Ends a pause; the failures that are there now are forgiven.
    pub(crate) async fn unpause(&self, schedule: &Schedule) -> Work<()> {
        let set = "UPDATE punctual_internal.schedule_state
                   SET enabled = true, paused_at = NULL, paused_by = NULL, pause_note = NULL, paused_until = NULL,
                       forgiven_at = $2, forgiven_failures = $3
                   WHERE schedule_id = $1";
        let failures = i64::from(schedule.results.consecutive_failures);
        self.execute(set, params![schedule.id.0, self.at(), failures]).await?;
        Ok(())
    }

    async fn set_fire_cap(&mut self, cap: Option<FireCap>) -> Work<Option<u32>> {
        let before: Option<String> = self.one(CAP, params![], value).await?;
        let Some(cap) = cap else {
            self.execute("DELETE FROM punctual_internal.fire_cap", params![]).await?;
            return Ok(None);
        };
        // What has fired in this second counts under another cap, too.
        let before = before.map(|text| cap_of(&text)).transpose()?;
        let recent = before.map(|before| before.recent).unwrap_or_default();
        let cap = FireCap { recent, ..cap };
        let write = "INSERT INTO punctual_internal.fire_cap (id, state) VALUES (1, $1::text::json)
                     ON CONFLICT (id) DO UPDATE SET state = excluded.state";
        self.execute(write, params![document("fire_cap", &cap)?]).await?;
        Ok(Some(cap.per_second))
    }

    /// Writes what a pass leaves of the cap; one that was lifted meanwhile stays lifted.
    pub(crate) async fn write_cap(&self, cap: &FireCap) -> Work<()> {
        let write = "UPDATE punctual_internal.fire_cap SET state = $1::text::json WHERE id = 1";
        self.execute(write, params![document("fire_cap", cap)?]).await?;
        Ok(())
    }
}
