//! Firing: due schedules decided by the pure rule, and everything it decided written together.

use crate::policies::cap_of;
use crate::rows::{self, Columns, Unreadable, bytes};
use crate::sql;
use crate::tx::{Tx, value};
use jiff::{SignedDuration, Timestamp};
use punctual_core::cap::CappedPass;
use punctual_core::firing::{DecidedSlot, Facts, Firing, Next, SlotJob};
use punctual_core::id::{JobId, NodeId, ScheduleId};
use punctual_core::job::{NewJob, Origin};
use punctual_core::ledger::DecidedRange;
use punctual_core::replan::Judged;
use punctual_core::run::ErrorCode;
use punctual_core::schedule::{Overlap, Schedule};
use punctual_core::slot::{NotRun, SlotRow};
use punctual_core::store::{Fired, Reconciled, StoreError, StoreResult};
use punctual_core::upkeep::News;
use rusqlite::{Connection, Row, params};
use std::collections::HashSet;

/// How one due schedule is fired.
type FireRow<T> = fn(&mut T, &ScheduleRow, Option<NodeId>, &mut Fired) -> StoreResult<()>;

/// A schedule's row: its id, and what it says unless it cannot be understood.
pub(crate) type ScheduleRow = (ScheduleId, Result<Schedule, Unreadable>);

impl Tx<'_> {
    pub(crate) fn fire_due(&mut self, node: Option<NodeId>, limit: usize) -> StoreResult<Fired> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let cap = self.cap()?;
        self.capped = CappedPass::new(cap.clone());
        let fired = self.fire_found(node, limit)?;
        let after = std::mem::take(&mut self.capped).ended();
        after.filter(|after| cap.as_ref() != Some(after)).map_or(Ok(()), |after| self.write_cap(&after))?;
        Ok(fired)
    }

    fn fire_found(&mut self, node: Option<NodeId>, limit: i64) -> StoreResult<Fired> {
        let mut due = self.all(sql::due_schedules, params![self.now_us(), limit], schedule_row)?;
        if self.capped.is_capped() {
            // They do not stand behind those that have to wait.
            let burst = self.all(sql::burst_schedules, params![self.now_us(), limit], schedule_row)?;
            let known: HashSet<ScheduleId> = due.iter().map(|(id, _)| *id).collect();
            due.extend(burst.into_iter().filter(|(id, _)| !known.contains(id)));
        }
        due.extend(self.all(sql::unplanned_schedules, params![limit], schedule_row)?);
        due.extend(self.all(sql::resumable_schedules, params![self.now_us(), limit], schedule_row)?);
        if due.is_empty() {
            return Ok(Fired::default());
        }
        // All together first. When one of them fails, each is done by itself, so that it fails alone.
        match self.attempt(|tx| tx.fire_all(&due, node, Self::fire_row))? {
            Ok(fired) => Ok(fired),
            Err(StoreError::Internal(_)) => self.fire_all(&due, node, Self::fire_row_apart),
            Err(error) => Err(error),
        }
    }

    fn fire_all(&mut self, due: &[ScheduleRow], node: Option<NodeId>, fire: FireRow<Self>) -> StoreResult<Fired> {
        self.reserve_positions(due.len())?;
        let mut fired = Fired { schedules: due.len(), ..Fired::default() };
        for row in due {
            fire(self, row, node, &mut fired)?;
        }
        Ok(fired)
    }

    /// Fires one schedule whose failure must not undo the others: the failure becomes its problem (E02).
    fn fire_row_apart(&mut self, row: &ScheduleRow, node: Option<NodeId>, fired: &mut Fired) -> StoreResult<()> {
        let mut own = Fired::default();
        match self.attempt(|tx| tx.fire_row(row, node, &mut own))? {
            Ok(()) => {
                fired.jobs.extend(own.jobs);
                fired.slots_not_run += own.slots_not_run;
                fired.not_run.add_all(&own.not_run);
                fired.replanned += own.replanned;
                fired.problems += own.problems;
                fired.steered += own.steered;
                Ok(())
            }
            Err(StoreError::Internal(problem)) => self.set_problem(row.0, &problem, fired),
            Err(error) => Err(error),
        }
    }

    /// Fires one schedule. What cannot be understood about it becomes its problem and nobody else's (E02).
    fn fire_row(&mut self, row: &ScheduleRow, node: Option<NodeId>, fired: &mut Fired) -> StoreResult<()> {
        let (id, schedule) = row;
        let written = match schedule {
            Ok(schedule) => self.fire_schedule(schedule, node)?,
            Err(problem) => return self.set_problem(*id, &problem.to_string(), fired),
        };
        if let Some(problem) = written.problem {
            return self.set_problem(*id, &problem, fired);
        }
        fired.steered += usize::from(written.steered);
        fired.replanned += usize::from(written.is_replanned());
        fired.slots_not_run += written.slots_not_run;
        fired.not_run.add_all(&written.not_run);
        fired.jobs.extend(written.jobs);
        Ok(())
    }

    fn fire_schedule(&mut self, schedule: &Schedule, node: Option<NodeId>) -> StoreResult<Written> {
        let mut facts = self.facts(schedule)?;
        if !self.capped.admits(schedule, self.now, &mut facts) {
            return Ok(Written { waits: true, ..Written::default() });
        }
        match schedule.judge(self.now, &facts) {
            Judged::Fires(firing) => {
                let written = self.write_firing(schedule, &firing, node)?;
                self.capped.fired(schedule, self.now, written.jobs.len(), &firing.next);
                Ok(written)
            }
            Judged::Stops(firing, pause) => {
                self.pause(schedule.id, &pause)?;
                self.write_steered(schedule, &firing, node, false)
            }
            Judged::GoesOn(firing) => {
                self.unpause(schedule)?;
                self.write_steered(schedule, &firing, node, true)
            }
        }
    }

    /// Writes what becomes of a schedule that stops or goes on by itself.
    fn write_steered(
        &mut self, schedule: &Schedule, firing: &Firing, node: Option<NodeId>, enabled: bool,
    ) -> StoreResult<Written> {
        let mut steered = schedule.clone();
        steered.state.enabled = enabled;
        let written = self.write_firing(&steered, firing, node)?;
        Ok(Written { steered: true, ..written })
    }

    /// What the rule must know; only what this schedule's policies look at is asked for.
    pub(crate) fn facts(&self, schedule: &Schedule) -> StoreResult<Facts> {
        let definition = &schedule.definition;
        let mut facts = Facts::default();
        if definition.overlap != Overlap::Allow || definition.max_concurrent_runs.is_some() {
            for (_, runs) in self.live_jobs(schedule.id)? {
                if runs { facts.running += 1 } else { facts.waiting += 1 }
            }
        }
        if let Some(dependency) = definition.depends_on {
            let find = "SELECT last_success_at FROM punctual_schedule_results WHERE schedule_id = ?1";
            let found =
                self.one(find, params![dependency.schedule_id.as_bytes()], |row| Columns::of(row).optional_time())?;
            facts.dependency_succeeded_at = found.flatten();
        }
        if definition.pause_after_failures.is_some() {
            facts.failures_in_row = schedule.failures_in_row(&schedule.results);
        }
        if let Some(range) = schedule.due_beside_ledger(self.now) {
            facts.decided = self.decided_in_range(schedule, range)?;
        }
        facts.calendar = self.calendar_of(schedule)?;
        Ok(facts)
    }

    /// The jobs of a schedule that are alive, and whether each runs.
    pub(crate) fn live_jobs(&self, id: ScheduleId) -> StoreResult<Vec<(JobId, bool)>> {
        self.all(sql::live_of_schedule, params![id.as_bytes()], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.next()?))
        })
    }

    /// Writes ledger rows, jobs and the new plan.
    pub(crate) fn write_firing(
        &mut self, schedule: &Schedule, firing: &Firing, node: Option<NodeId>,
    ) -> StoreResult<Written> {
        let mut written = self.write_slots(schedule, firing, node, sql::insert_slot)?;
        let (slot_at, run_at, exhausted_at) = match &firing.next {
            Next::Slot(next) => (Some(next.slot_at), Some(next.run_at), None),
            Next::Exhausted => (None, None, Some(self.now)),
            Next::Problem(problem) => {
                written.problem = Some(problem.clone());
                return Ok(written);
            }
        };
        // Paused, or fired from memory: the slot is kept for the ledger, and nothing is due.
        let run_at = run_at.filter(|_| schedule.state.is_fired_by_store());
        self.execute(
            sql::set_plan,
            params![
                schedule.id.as_bytes(),
                micros(slot_at),
                micros(run_at),
                micros(exhausted_at),
                None::<String>,
                micros(firing.decided_through()),
                micros(firing.passed(self.now)),
                written.jobs.last().map(|id| *id.as_bytes()),
                written.jobs.last().map(|_| self.now_us()),
            ],
        )?;
        Ok(written)
    }

    /// Writes ledger rows and jobs. A range leaves out what the ledger holds and its plan does not know.
    pub(crate) fn write_slots(
        &mut self, schedule: &Schedule, firing: &Firing, node: Option<NodeId>, insert: &str,
    ) -> StoreResult<Written> {
        let mut written = Written::default();
        for slot in &firing.slots {
            if slot.count == 1 {
                self.write_slot(schedule, slot, node, insert, &mut written)?;
                continue;
            }
            let decided = self.decided_in_range(schedule, (slot.slot_at, slot.through))?;
            for piece in schedule.without_decided(slot, &decided) {
                self.write_slot(schedule, &piece, node, insert, &mut written)?;
            }
        }
        Ok(written)
    }

    fn decided_in_range(&self, schedule: &Schedule, range: DecidedRange) -> StoreResult<Vec<DecidedRange>> {
        let (from, through) = range;
        let params = params![
            schedule.id.as_bytes(),
            from.as_microsecond(),
            through.as_microsecond(),
            schedule.known_up_to(from).as_microsecond(),
        ];
        self.all(sql::decided_in_range, params, |row| {
            let mut c = Columns::of(row);
            Ok((c.time()?, c.time()?))
        })
    }

    fn write_slot(
        &mut self, schedule: &Schedule, slot: &DecidedSlot, node: Option<NodeId>, insert: &str, written: &mut Written,
    ) -> StoreResult<()> {
        let job_id = slot.job.map(|_| self.job_id());
        let inserted = self.execute(
            insert,
            params![
                schedule.id.as_bytes(),
                slot.slot_at.as_microsecond(),
                slot.through.as_microsecond(),
                i64::try_from(slot.count).unwrap_or(i64::MAX),
                slot.decision.as_str(),
                slot.reason.as_str(),
                bytes(job_id.as_ref()),
                self.now_us(),
                bytes(node.as_ref()),
                slot.late_ms,
                schedule.version,
                slot.note,
            ],
        )?;
        // No row: the slot was decided before. Whoever decided it made its job, or decided that there is none.
        if inserted == 0 {
            return Ok(());
        }
        if let (Some(job), Some(job_id)) = (slot.job, job_id) {
            self.make_slot_job(schedule, slot.slot_at, job, job_id)?;
            written.jobs.push(job_id);
        } else {
            News::of_slot(schedule.id, slot).map_or(Ok(()), |news| self.tell(&news))?;
            written.count_not_run(slot);
        }
        Ok(())
    }

    fn make_slot_job(
        &mut self, schedule: &Schedule, slot_at: Timestamp, job: SlotJob, job_id: JobId,
    ) -> StoreResult<()> {
        if job.replaces_live {
            self.replace_live_jobs(schedule.id)?;
        }
        let detail = Some(schedule.definition.timing.text());
        let spec = NewJob::of_schedule(schedule, job.trigger, detail, job.serial);
        let origin = Origin { schedule_id: Some(schedule.id), slot_at: Some(slot_at), chain: None };
        let placeless = self.insert_job(job_id, &spec, &origin)?;
        self.queue_at_the_back(&placeless)
    }

    /// Cancels what is alive of a schedule for a job that takes its place.
    fn replace_live_jobs(&mut self, id: ScheduleId) -> StoreResult<()> {
        for (job_id, runs) in self.live_jobs(id)? {
            if runs {
                self.request_cancel(job_id, ErrorCode::Replaced)?;
                self.stop_flow(job_id, ErrorCode::Replaced)?;
            } else if self.take_waiting(job_id)? {
                self.close_unstarted(job_id, Some(id), ErrorCode::Replaced)?;
            }
        }
        Ok(())
    }

    fn set_problem(&mut self, id: ScheduleId, problem: &str, fired: &mut Fired) -> StoreResult<()> {
        fired.problems += 1;
        self.execute(
            "UPDATE punctual_schedule_state SET problem = ?2, next_slot_at = NULL, next_run_at = NULL
             WHERE schedule_id = ?1",
            params![id.as_bytes(), problem],
        )?;
        Ok(())
    }

    pub(crate) fn reconcile(&mut self, after: Option<ScheduleId>, limit: usize) -> StoreResult<Reconciled> {
        let after = after.map_or([0; 16], |id| *id.as_bytes());
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let page = self.all(sql::reconcile_page, params![after, most], schedule_row)?;
        let next = page.last().filter(|_| page.len() == limit).map(|(id, _)| *id);
        let mut done = Reconciled { looked_at: page.len(), next, ..Reconciled::default() };
        for (id, schedule) in page {
            // What cannot be understood keeps its problem until somebody edits it.
            let Ok(schedule) = schedule else { continue };
            if !schedule.plan_is_possible(self.now) {
                let firing = Firing { slots: Vec::new(), next: schedule.plan_next(self.now) };
                done.replanned += usize::from(self.write_firing(&schedule, &firing, None)?.problem.is_none());
            }
            if let Some(problem) = schedule.stuck_ahead(self.now) {
                let tell = "UPDATE punctual_schedule_state SET problem = ?2 WHERE schedule_id = ?1";
                self.execute(tell, params![id.as_bytes(), problem])?;
                done.stuck_ahead += 1;
            }
        }
        Ok(done)
    }
}

/// What one firing wrote.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) jobs: Vec<JobId>,
    pub(crate) slots_not_run: u64,
    pub(crate) not_run: NotRun,
    pub(crate) problem: Option<String>,
    /// Whether the schedule stopped or went on by itself.
    pub(crate) steered: bool,
    /// Whether the cap on fires makes it wait.
    pub(crate) waits: bool,
}

impl Written {
    fn count_not_run(&mut self, slot: &DecidedSlot) {
        self.slots_not_run += slot.count;
        self.not_run.add(slot.reason, slot.count);
    }

    /// Whether nothing was decided but the plan.
    fn is_replanned(&self) -> bool {
        self.jobs.is_empty() && self.slots_not_run == 0 && !self.steered && !self.waits
    }
}

pub(crate) fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_microsecond)
}

pub(crate) fn schedule_row(row: &Row<'_>) -> Result<ScheduleRow, Unreadable> {
    Ok((rows::schedule_id(row)?, rows::schedule(row)))
}

/// How long until anything is due.
pub(crate) fn read_next_due(connection: &Connection, now: Timestamp) -> StoreResult<Option<SignedDuration>> {
    let found = rows::collect(connection, sql::next_due, [], |row| {
        let mut c = Columns::of(row);
        Ok((c.next::<Option<i64>>()?, c.next::<Option<String>>()?))
    })?;
    let (due, cap) = found.into_iter().next().unwrap_or_default();
    let wait = |due: i64| SignedDuration::from_micros(due.saturating_sub(now.as_microsecond()).max(0));
    let due = due.map(wait);
    let (Some(cap), Some(SignedDuration::ZERO)) = (cap, due) else { return Ok(due) };
    // Something is due; it may be what has to wait for the cap.
    let free = cap_of(&cap)?.free_in(now);
    let others: Option<Option<i64>> = rows::collect(connection, sql::next_due_capped, [], value)?.pop();
    Ok(Some(others.flatten().map(wait).map_or(free, |other| other.min(free))))
}

/// A page of the ledger.
pub(crate) fn read_slots(
    connection: &Connection, id: ScheduleId, before: Option<Timestamp>, limit: usize,
) -> StoreResult<Vec<SlotRow>> {
    let before = before.map_or(i64::MAX, Timestamp::as_microsecond);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    rows::collect(connection, sql::slots_page, params![id.as_bytes(), before, limit], |row| slot_row(row, id))
}

/// A row of the ledger.
pub(crate) fn slot_row(row: &Row<'_>, id: ScheduleId) -> Result<SlotRow, Unreadable> {
    let mut c = Columns::of(row);
    Ok(SlotRow {
        schedule_id: id,
        slot_at: c.time()?,
        through: c.time()?,
        count: c.count()?,
        decision: c.word()?,
        reason: c.word()?,
        job_id: c.optional_id()?,
        decided_at: c.time()?,
        node: c.optional_id()?,
        late_ms: c.next()?,
        schedule_version: c.next()?,
        note: c.next()?,
    })
}
