//! Schedules by hand: create, edit, pause, resume, reschedule, skip, trigger, delete, and reading them.

use crate::asked::{ASKED, Asked};
use crate::error::{Failure, Work};
use crate::jobs::Closing;
use crate::params::{params, time};
use crate::rows::{self, document, retry_text, value};
use crate::session::{Answer, Session, Step};
use crate::sql;
use crate::tx::Tx;
use jiff::{SignedDuration, Timestamp};
use punctual_core::firing::Firing;
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::invalid::Invalid;
use punctual_core::job::Origin;
use punctual_core::replan::{anchor, refuse_without_slots, same_times};
use punctual_core::run::ErrorCode;
use punctual_core::schedule::{ByHand, Pause, Schedule, ScheduleDefinition, ScheduleResults, ScheduleState};
use punctual_core::store::{ScheduleKey, StoreError};
use punctual_core::timing::TimingSpec;
use std::collections::BTreeSet;
use std::time::SystemTime;

impl Tx<'_> {
    pub(crate) async fn create_schedule(&mut self, definition: &ScheduleDefinition) -> Work<Schedule> {
        self.check_definition(definition).await?;
        let schedule = Schedule {
            id: ScheduleId::at(self.now, self.id_bits()),
            version: 1,
            created_at: self.now,
            updated_at: self.now,
            anchor_at: anchor(definition, self.now),
            seed: definition.name.to_string(),
            definition: definition.clone(),
            state: ScheduleState { enabled: true, ..ScheduleState::default() },
            results: ScheduleResults::default(),
        };
        let next = schedule.plan_next(self.now);
        refuse_without_slots(&next, definition)?;
        self.write_definition(&schedule).await?;
        let state = "INSERT INTO punctual_internal.schedule_state (schedule_id) VALUES ($1)";
        self.execute(state, params![schedule.id.0]).await?;
        self.write_firing(&schedule, &Firing { slots: Vec::new(), next }, None, 1).await?;
        self.schedule(schedule.id).await
    }

    /// What only the store can know about a definition.
    async fn check_definition(&self, definition: &ScheduleDefinition) -> Work<()> {
        definition.validate()?;
        if let Some(calendar) = &definition.calendar {
            self.check_calendar(calendar).await?;
        }
        if let Some(dependency) = definition.depends_on {
            self.schedule(dependency.schedule_id).await?;
        }
        Ok(())
    }

    pub(crate) async fn schedule(&self, id: ScheduleId) -> Work<Schedule> {
        let found = self.one(sql::schedule_by_id, params![id.0], rows::schedule).await?;
        found.ok_or_else(|| not_found(id))
    }

    /// A schedule of which a job is to be made: nobody deletes it before the job is there to be cancelled.
    pub(crate) async fn schedule_to_use(&self, id: ScheduleId) -> Work<Schedule> {
        self.rows("SELECT 1 FROM punctual_internal.schedules WHERE id = $1 FOR KEY SHARE", params![id.0]).await?;
        self.schedule(id).await
    }

    /// A schedule with its row and its state locked, read after both locks were there. What SQL has asked of it is carried
    /// out first, so that everything is done in the order in which it was asked.
    pub(crate) async fn locked_schedule(&self, id: ScheduleId) -> Work<Option<Schedule>> {
        self.locked(id, "SELECT 1 FROM punctual_internal.schedules WHERE id = $1 FOR NO KEY UPDATE").await
    }

    /// The same for somebody who ends the schedule: those who are making jobs of it are waited for.
    async fn locked_to_end(&self, id: ScheduleId) -> Work<Schedule> {
        let found = self.locked(id, "SELECT 1 FROM punctual_internal.schedules WHERE id = $1 FOR UPDATE").await?;
        found.ok_or_else(|| not_found(id))
    }

    async fn locked(&self, id: ScheduleId, lock: &str) -> Work<Option<Schedule>> {
        let state = "SELECT 1 FROM punctual_internal.schedule_state WHERE schedule_id = $1 FOR UPDATE";
        let steps = [
            Step::Rows(lock, params![id.0]),
            Step::Rows(state, params![id.0]),
            Step::Rows(ASKED, params![id.0]),
            Step::Rows(sql::schedule_by_id, params![id.0]),
        ];
        let mut answers = self.pipeline(&steps).await?;
        let mut last = || answers.pop().map(Answer::rows).unwrap_or_default();
        let (found, asked) = (last(), rows::collect(&last(), Asked::of)?);
        let schedule = rows::collect(&found, rows::schedule)?.pop();
        if schedule.is_none() || asked.is_empty() {
            return Ok(schedule);
        }
        // Seldom, and large: off the stack of everybody who locks a schedule.
        Box::pin(self.carry_out(id, &asked)).await?;
        Ok(Some(self.schedule(id).await?))
    }

    pub(crate) async fn update_schedule(
        &mut self, id: ScheduleId, version: i64, definition: &ScheduleDefinition,
    ) -> Work<Schedule> {
        let old = self.locked_schedule(id).await?.ok_or_else(|| not_found(id))?;
        if old.version != version {
            return Err(StoreError::VersionConflict { expected: version, found: old.version }.into());
        }
        self.check_definition(definition).await?;
        let keeps_phase = same_times(&old.definition, definition);
        let edited = Schedule {
            version: version + 1,
            updated_at: self.now,
            anchor_at: if keeps_phase { old.anchor_at } else { anchor(definition, self.now) },
            definition: definition.clone(),
            ..old.clone()
        };
        let firing = old.edited(&edited, self.now);
        if matches!(edited.definition.timing, TimingSpec::At { .. }) {
            refuse_without_slots(&firing.next, &edited.definition)?;
        }
        self.execute(sql::keep_version, params![id.0, self.at()]).await?;
        self.write_definition(&edited).await?;
        // The ledger names the version that was in force when the slot was planned: the old one.
        self.write_firing(&old, &firing, None, edited.version).await?;
        self.schedule(id).await
    }

    /// Inserts or replaces the wide row.
    async fn write_definition(&self, schedule: &Schedule) -> Work<()> {
        let d = &schedule.definition;
        let timing = TimingColumns::of(&d.timing);
        let params = params![
            schedule.id.0,
            d.name.as_str(),
            d.description.as_str(),
            document("labels", &d.labels)?,
            timing.cron,
            timing.every_us,
            timing.at,
            timing.timezone,
            timing.dst_gap,
            timing.dst_overlap,
            d.starts_at.map(time),
            d.ends_at.map(time),
            d.calendar.as_deref(),
            document("target", &d.target)?,
            d.input.as_str(),
            d.template_id.map(|id| id.0),
            d.queue.as_str(),
            d.priority,
            d.serial,
            retry_text(&d.retry)?,
            d.timeout.as_micros(),
            document("missed", &d.missed)?,
            d.overlap.as_str(),
            d.max_concurrent_runs.map(i64::from),
            whole_micros(d.jitter),
            d.depends_on.map(|other| other.schedule_id.0),
            d.depends_on.map(|other| whole_micros(other.within)),
            d.grant_id.map(|id| id.0),
            d.owner.as_deref(),
            d.source.as_str(),
            schedule.version,
            schedule.seed.as_str(),
            time(schedule.anchor_at),
            time(schedule.created_at),
            time(schedule.updated_at),
            d.burst_allowed,
            d.pause_after_failures.map(i64::from),
            (!d.tags.is_empty()).then(|| document("tags", &d.tags)).transpose()?,
        ];
        match self.execute(sql::insert_schedule, params).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_unique_violation() => {
                Err(StoreError::NameTaken { what: "schedule", name: d.name.to_string() }.into())
            }
            Err(failure) => Err(failure),
        }
    }

    pub(crate) async fn pause_schedule(
        &mut self, id: ScheduleId, by: Option<&str>, note: Option<&str>,
    ) -> Work<Schedule> {
        self.locked_schedule(id).await?.ok_or_else(|| not_found(id))?;
        let (by, note) = (by.map(str::to_owned), note.map(str::to_owned));
        self.pause(id, &Pause { at: self.now, by, note, until: None }).await?;
        self.schedule(id).await
    }

    pub(crate) async fn resume_schedule(&mut self, id: ScheduleId) -> Work<Schedule> {
        let mut paused = self.locked_schedule(id).await?.ok_or_else(|| not_found(id))?;
        if paused.state.enabled {
            return Ok(paused);
        }
        let firing = paused.resumed(self.now);
        self.unpause(&paused).await?;
        paused.state.enabled = true;
        self.write_firing(&paused, &firing, None, paused.version).await?;
        self.schedule(id).await
    }

    pub(crate) async fn reschedule(&mut self, id: ScheduleId, at: Timestamp) -> Work<Schedule> {
        let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
        let schedule = self.locked_schedule(id).await?.ok_or_else(|| not_found(id))?;
        let firing = schedule.rescheduled(at, self.now)?;
        let params = params![id.0, time(at), schedule.has_slot_at(at)];
        if self.one(sql::covering_slot, params, value::<i32>).await?.is_some() {
            return Err(Invalid::new("at", "is a slot that has been decided already")
                .remedy("choose another second, or trigger the schedule")
                .into());
        }
        self.write_firing(&schedule, &firing, None, schedule.version).await?;
        self.schedule(id).await
    }

    pub(crate) async fn skip_next(&mut self, id: ScheduleId, by: Option<&str>) -> Work<Schedule> {
        let schedule = self.locked_schedule(id).await?.ok_or_else(|| not_found(id))?;
        let firing = schedule.skipping_next(by, self.now)?;
        self.write_firing(&schedule, &firing, None, schedule.version).await?;
        self.schedule(id).await
    }

    pub(crate) async fn trigger_schedule(&mut self, id: ScheduleId, by_hand: &ByHand) -> Work<JobId> {
        let schedule = self.schedule_to_use(id).await?;
        self.make_one(&by_hand.job(&schedule), &Origin { schedule_id: Some(id), ..Origin::default() }).await
    }

    pub(crate) async fn delete_schedule(&mut self, id: ScheduleId) -> Work<()> {
        self.locked_to_end(id).await?;
        let delete = "UPDATE punctual_internal.schedules SET deleted_at = $2 WHERE id = $1";
        self.execute(delete, params![id.0, self.at()]).await?;
        let stop =
            "UPDATE punctual_internal.schedule_state
                    SET enabled = false, next_slot_at = NULL, next_run_at = NULL, paused_until = NULL WHERE schedule_id = $1";
        self.execute(stop, params![id.0]).await?;
        let keys: BTreeSet<String> = [id.to_string()].into();
        self.lock_serial_keys(&keys).await?;
        for (_, job_id, runs) in self.live_jobs(&[id]).await? {
            if !runs && self.take_waiting(job_id).await? {
                self.close(&[Closing::unstarted(job_id, Some(id), ErrorCode::Cancelled)]).await?;
            }
        }
        self.settle_serial_keys(&keys).await
    }
}

fn not_found(id: ScheduleId) -> Failure {
    StoreError::NotFound { what: "schedule", key: id.to_string() }.into()
}

fn whole_micros(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// How a timing is spread over its columns.
struct TimingColumns<'a> {
    cron: Option<&'a str>,
    every_us: Option<i64>,
    at: Option<SystemTime>,
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
            TimingSpec::At { at } => Self { at: Some(time(*at)), ..nothing },
        }
    }
}

/// One schedule by its id or name.
pub(crate) async fn read_schedule(session: &Session, key: &ScheduleKey) -> Work<Option<Schedule>> {
    let rows = match key {
        ScheduleKey::Id(id) => session.rows(sql::schedule_by_id, &params![id.0]).await?,
        ScheduleKey::Name(name) => session.rows(sql::schedule_by_name, &params![name.as_str()]).await?,
    };
    Ok(rows::collect(&rows, rows::schedule)?.pop())
}

/// A page of schedules.
pub(crate) async fn read_schedules(session: &Session, after: Option<&str>, limit: usize) -> Work<Vec<Schedule>> {
    let params = params![after.unwrap_or(""), crate::params::limit(limit)];
    let rows = session.rows(sql::schedules_page, &params).await?;
    Ok(rows::collect(&rows, rows::schedule)?)
}
