//! Schedules by hand: create, edit, pause, resume, reschedule, skip, trigger, delete, and reading them.

use crate::error::{is_unique_violation, store_error};
use crate::rows::{self, bytes, document, retry_text};
use crate::sql;
use crate::tx::{Tx, value};
use jiff::{SignedDuration, Timestamp};
use punctual_core::firing::Firing;
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::invalid::Invalid;
use punctual_core::job::Origin;
use punctual_core::replan::{anchor, refuse_without_slots, same_times};
use punctual_core::run::ErrorCode;
use punctual_core::schedule::{ByHand, Pause, Schedule, ScheduleDefinition, ScheduleResults, ScheduleState};
use punctual_core::store::{ScheduleKey, StoreError, StoreResult};
use punctual_core::timing::TimingSpec;
use rusqlite::{Connection, params};

impl Tx<'_> {
    pub(crate) fn create_schedule(&mut self, definition: ScheduleDefinition) -> StoreResult<Schedule> {
        self.check_definition(&definition)?;
        let bits = self.id_bits();
        let schedule = Schedule {
            id: ScheduleId::at(self.now, bits),
            version: 1,
            created_at: self.now,
            updated_at: self.now,
            anchor_at: anchor(&definition, self.now),
            seed: definition.name.to_string(),
            definition,
            state: ScheduleState { enabled: true, ..ScheduleState::default() },
            results: ScheduleResults::default(),
        };
        let next = schedule.plan_next(self.now);
        refuse_without_slots(&next, &schedule.definition)?;
        self.write_definition(&schedule)?;
        self.execute("INSERT INTO punctual_schedule_state (schedule_id) VALUES (?1)", params![schedule.id.as_bytes()])?;
        self.write_firing(&schedule, &Firing { slots: Vec::new(), next }, None)?;
        self.schedule(schedule.id)
    }

    /// What only the store can know about a definition.
    fn check_definition(&self, definition: &ScheduleDefinition) -> StoreResult<()> {
        definition.validate()?;
        if let Some(calendar) = &definition.calendar {
            self.check_calendar(calendar)?;
        }
        if let Some(dependency) = definition.depends_on {
            self.schedule(dependency.schedule_id)?;
        }
        Ok(())
    }

    pub(crate) fn schedule(&self, id: ScheduleId) -> StoreResult<Schedule> {
        let found = self.one(sql::schedule_by_id, params![id.as_bytes()], rows::schedule)?;
        found.ok_or_else(|| StoreError::NotFound { what: "schedule", key: id.to_string() })
    }

    pub(crate) fn update_schedule(
        &mut self, id: ScheduleId, version: i64, definition: ScheduleDefinition,
    ) -> StoreResult<Schedule> {
        let old = self.schedule(id)?;
        if old.version != version {
            return Err(StoreError::VersionConflict { expected: version, found: old.version });
        }
        self.check_definition(&definition)?;
        let keeps_phase = same_times(&old.definition, &definition);
        let edited = Schedule {
            version: version + 1,
            updated_at: self.now,
            anchor_at: if keeps_phase { old.anchor_at } else { anchor(&definition, self.now) },
            definition,
            ..old.clone()
        };
        let firing = old.edited(&edited, self.now);
        if matches!(edited.definition.timing, TimingSpec::At { .. }) {
            refuse_without_slots(&firing.next, &edited.definition)?;
        }
        self.execute(sql::keep_version, params![id.as_bytes(), self.now_us()])?;
        self.write_definition(&edited)?;
        // The ledger names the version that was in force when the slot was planned: the old one.
        self.write_firing(&old, &firing, None)?;
        self.schedule(id)
    }

    /// Inserts or replaces the wide row.
    fn write_definition(&mut self, schedule: &Schedule) -> StoreResult<()> {
        let d = &schedule.definition;
        let micros = |at: Option<Timestamp>| at.map(Timestamp::as_microsecond);
        let timing = TimingColumns::of(&d.timing);
        let params = params![
            schedule.id.as_bytes(),
            d.name.as_str(),
            d.description,
            document("labels", &d.labels)?,
            timing.cron,
            timing.every_us,
            timing.at,
            timing.timezone,
            timing.dst_gap,
            timing.dst_overlap,
            micros(d.starts_at),
            micros(d.ends_at),
            d.calendar,
            document("target", &d.target)?,
            d.input.as_str(),
            bytes(d.template_id.as_ref()),
            d.queue,
            d.priority,
            d.serial,
            retry_text(&d.retry)?,
            d.timeout.as_micros(),
            document("missed", &d.missed)?,
            d.overlap.as_str(),
            d.max_concurrent_runs,
            whole_micros(d.jitter),
            d.depends_on.as_ref().map(|other| other.schedule_id.as_bytes()),
            d.depends_on.map(|other| whole_micros(other.within)),
            bytes(d.grant_id.as_ref()),
            d.owner,
            d.source.as_str(),
            schedule.version,
            schedule.seed,
            schedule.anchor_at.as_microsecond(),
            schedule.created_at.as_microsecond(),
            schedule.updated_at.as_microsecond(),
            d.burst_allowed,
            d.pause_after_failures,
            (!d.tags.is_empty()).then(|| document("tags", &d.tags)).transpose()?,
        ];
        match self.try_execute(sql::insert_schedule, params)? {
            Ok(_) => Ok(()),
            Err(error) if is_unique_violation(&error) => {
                Err(StoreError::NameTaken { what: "schedule", name: d.name.to_string() })
            }
            Err(error) => Err(store_error(error)),
        }
    }

    pub(crate) fn pause_schedule(
        &mut self, id: ScheduleId, by: Option<&str>, note: Option<&str>,
    ) -> StoreResult<Schedule> {
        self.schedule(id)?;
        let (by, note) = (by.map(str::to_owned), note.map(str::to_owned));
        self.pause(id, &Pause { at: self.now, by, note, until: None })?;
        self.schedule(id)
    }

    pub(crate) fn resume_schedule(&mut self, id: ScheduleId) -> StoreResult<Schedule> {
        let mut paused = self.schedule(id)?;
        if paused.state.enabled {
            return Ok(paused);
        }
        let firing = paused.resumed(self.now);
        self.unpause(&paused)?;
        paused.state.enabled = true;
        self.write_firing(&paused, &firing, None)?;
        self.schedule(id)
    }

    pub(crate) fn reschedule(&mut self, id: ScheduleId, at: Timestamp) -> StoreResult<Schedule> {
        let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
        let schedule = self.schedule(id)?;
        let firing = schedule.rescheduled(at, self.now)?;
        if self.is_decided(&schedule, at)? {
            return Err(Invalid::new("at", "is a slot that has been decided already")
                .remedy("choose another second, or trigger the schedule")
                .into());
        }
        self.write_firing(&schedule, &firing, None)?;
        self.schedule(id)
    }

    pub(crate) fn skip_next(&mut self, id: ScheduleId, by: Option<&str>) -> StoreResult<Schedule> {
        let schedule = self.schedule(id)?;
        let firing = schedule.skipping_next(by, self.now)?;
        self.write_firing(&schedule, &firing, None)?;
        self.schedule(id)
    }

    /// Whether the ledger has a row for an instant: the slot itself, or a range that it is one of.
    fn is_decided(&self, schedule: &Schedule, at: Timestamp) -> StoreResult<bool> {
        let params = params![schedule.id.as_bytes(), at.as_microsecond(), schedule.has_slot_at(at)];
        Ok(self.one(sql::covering_slot, params, value::<i64>)?.is_some())
    }

    pub(crate) fn trigger_schedule(&mut self, id: ScheduleId, by_hand: &ByHand) -> StoreResult<JobId> {
        let schedule = self.schedule(id)?;
        self.insert_and_place(&by_hand.job(&schedule), &Origin { schedule_id: Some(id), ..Origin::default() })
    }

    pub(crate) fn delete_schedule(&mut self, id: ScheduleId) -> StoreResult<()> {
        self.schedule(id)?;
        let delete = "UPDATE punctual_schedules SET deleted_at = ?2 WHERE id = ?1";
        self.execute(delete, params![id.as_bytes(), self.now_us()])?;
        self.execute(
            "UPDATE punctual_schedule_state SET enabled = 0, next_slot_at = NULL, next_run_at = NULL, paused_until = NULL
             WHERE schedule_id = ?1",
            params![id.as_bytes()],
        )?;
        for (job_id, runs) in self.live_jobs(id)? {
            if !runs && self.take_waiting(job_id)? {
                self.close_unstarted(job_id, Some(id), ErrorCode::Cancelled)?;
            }
        }
        Ok(())
    }
}

fn whole_micros(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// How a timing is spread over its columns.
struct TimingColumns<'a> {
    cron: Option<&'a str>,
    every_us: Option<i64>,
    at: Option<i64>,
    timezone: &'a str,
    dst_gap: &'static str,
    dst_overlap: &'static str,
}

impl<'a> TimingColumns<'a> {
    fn of(timing: &'a TimingSpec) -> Self {
        let nothing =
            Self { cron: None, every_us: None, at: None, timezone: "UTC", dst_gap: "next", dst_overlap: "first" };
        match timing {
            TimingSpec::Cron { expression, timezone, dst } => Self {
                cron: Some(expression),
                timezone,
                dst_gap: dst.gap.as_str(),
                dst_overlap: dst.overlap.as_str(),
                ..nothing
            },
            TimingSpec::Every { period } => Self { every_us: Some(whole_micros(*period)), ..nothing },
            TimingSpec::At { at } => Self { at: Some(at.as_microsecond()), ..nothing },
        }
    }
}

/// One schedule by its id or name.
pub(crate) fn read_schedule(connection: &Connection, key: &ScheduleKey) -> StoreResult<Option<Schedule>> {
    let mut found = match key {
        ScheduleKey::Id(id) => rows::collect(connection, sql::schedule_by_id, params![id.as_bytes()], rows::schedule)?,
        ScheduleKey::Name(name) => rows::collect(connection, sql::schedule_by_name, params![name], rows::schedule)?,
    };
    Ok(found.pop())
}

/// A page of schedules.
pub(crate) fn read_schedules(connection: &Connection, after: Option<&str>, limit: usize) -> StoreResult<Vec<Schedule>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    rows::collect(connection, sql::schedules_page, params![after.unwrap_or(""), limit], rows::schedule)
}
