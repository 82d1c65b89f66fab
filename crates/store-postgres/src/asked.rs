//! What was asked of schedules by SQL: carried out by the rules of the API, as of the time when it was asked.

use crate::error::{Failure, Work};
use crate::params::{params, time};
use crate::rows::{self, Columns, Unreadable};
use crate::sql;
use crate::tx::Tx;
use jiff::Timestamp;
use punctual_core::firing::Firing;
use punctual_core::id::ScheduleId;
use punctual_core::replan::{anchor, same_times};
use punctual_core::schedule::Schedule;
use punctual_core::store::StoreError;
use tokio_postgres::Row;

/// What is asked of one schedule, in the order in which it was asked.
pub(crate) const ASKED: &str = "SELECT what, asked_at, asked_by, from_version, at
    FROM punctual_internal.schedule_requests WHERE schedule_id = $1 ORDER BY id";

/// Something that SQL asked of a schedule.
#[derive(Debug)]
pub(crate) struct Asked {
    /// When: it is carried out as if it had been then.
    at: Timestamp,
    by: String,
    what: What,
}

#[derive(Debug)]
enum What {
    /// It was registered, and needs a first plan.
    Make,
    /// It was edited, and this is the version it had before.
    Edit(i64),
    /// Its pause is over.
    Resume,
    /// Its next fire is moved.
    Reschedule(Timestamp),
    /// Its next slot is left out.
    SkipNext,
}

impl Asked {
    pub(crate) fn of(row: &Row) -> Result<Self, Unreadable> {
        let mut c = Columns::of(row);
        let (word, at, by): (String, _, _) = (c.next()?, c.time()?, c.next()?);
        let (from, to): (Option<i64>, _) = (c.next()?, c.optional_time()?);
        let what = match (word.as_str(), from, to) {
            ("make", ..) => What::Make,
            ("edit", Some(from), _) => What::Edit(from),
            ("resume", ..) => What::Resume,
            ("reschedule", _, Some(to)) => What::Reschedule(to),
            ("skip_next", ..) => What::SkipNext,
            _ => return Err(Unreadable::new("what", format!("`{word}` cannot be asked of a schedule"))),
        };
        Ok(Self { at, by, what })
    }
}

/// A plan, and the schedule by whose definition it was made.
struct Carried {
    by_definition: Schedule,
    firing: Firing,
}

impl Tx<'_> {
    /// Carries out what was asked of a schedule whose rows are locked.
    pub(crate) async fn carry_out(&self, id: ScheduleId, asked: &[Asked]) -> Work<()> {
        for one in asked {
            let schedule = self.schedule(id).await?;
            let version = schedule.version;
            let Carried { by_definition, firing } = self.carried(schedule, one).await?;
            if let Some(problem) = self.write_firing(&by_definition, &firing, None, version).await?.problem {
                return self.write_problem(id, &problem).await;
            }
        }
        let done = "UPDATE punctual_internal.schedule_state SET asked_since = NULL WHERE schedule_id = $1";
        self.execute(done, params![id.0]).await?;
        self.forget_asked(id).await
    }

    /// Nothing is asked of a schedule any more.
    pub(crate) async fn forget_asked(&self, id: ScheduleId) -> Work<()> {
        let forget = "DELETE FROM punctual_internal.schedule_requests WHERE schedule_id = $1";
        self.execute(forget, params![id.0]).await?;
        Ok(())
    }

    async fn carried(&self, mut schedule: Schedule, asked: &Asked) -> Work<Carried> {
        let moved = match &asked.what {
            What::Make => return self.planned_anew(schedule, asked.at).await,
            What::Edit(from) => return self.edited_by_sql(schedule, *from, asked.at).await,
            What::Resume => {
                let firing = schedule.resumed(asked.at);
                self.unpause(&schedule).await?;
                schedule.state.enabled = true;
                return Ok(Carried { by_definition: schedule, firing });
            }
            // It was not paused when this was asked, whatever came after.
            What::Reschedule(to) => enabled(&schedule).rescheduled(*to, asked.at),
            What::SkipNext => enabled(&schedule).skipping_next(Some(&asked.by), asked.at),
        };
        // Nobody is left to be told why not; the plan stays as it was.
        let firing = moved.unwrap_or_else(|problem| {
            tracing::warn!(schedule = %schedule.definition.name, "what SQL asked for cannot be done: {problem}");
            Firing { slots: Vec::new(), next: schedule.plan_kept() }
        });
        Ok(Carried { by_definition: schedule, firing })
    }

    async fn planned_anew(&self, mut schedule: Schedule, at: Timestamp) -> Work<Carried> {
        schedule.anchor_at = anchor(&schedule.definition, at);
        self.write_anchor(&schedule).await?;
        let firing = Firing { slots: Vec::new(), next: schedule.plan_next(at) };
        Ok(Carried { by_definition: schedule, firing })
    }

    async fn edited_by_sql(&self, current: Schedule, from: i64, at: Timestamp) -> Work<Carried> {
        let edited = if from + 1 == current.version {
            Some(current.clone())
        } else {
            self.version_of(current.id, from + 1).await?
        };
        // What nobody can read has no slots that could be set aside.
        let (Some(old), Some(mut edited)) = (self.version_of(current.id, from).await?, edited) else {
            return self.planned_anew(current, at).await;
        };
        let keeps_phase = same_times(&old.definition, &edited.definition);
        edited.anchor_at = if keeps_phase { old.anchor_at } else { anchor(&edited.definition, at) };
        self.write_anchor(&edited).await?;
        let firing = old.edited(&edited, at);
        Ok(Carried { by_definition: old, firing })
    }

    /// A schedule by an earlier definition, unless that cannot be understood.
    async fn version_of(&self, id: ScheduleId, version: i64) -> Work<Option<Schedule>> {
        match self.one(sql::schedule_version, params![id.0, version], rows::schedule).await {
            Ok(found) => Ok(found.map(|schedule| Schedule { version, ..schedule })),
            Err(Failure::Told(StoreError::Internal(_))) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn write_anchor(&self, schedule: &Schedule) -> Work<()> {
        let write = "UPDATE punctual_internal.schedules SET anchor_at = $2 WHERE id = $1 AND anchor_at <> $2";
        self.execute(write, params![schedule.id.0, time(schedule.anchor_at)]).await?;
        Ok(())
    }
}

fn enabled(schedule: &Schedule) -> Schedule {
    let mut enabled = schedule.clone();
    enabled.state.enabled = true;
    enabled
}
