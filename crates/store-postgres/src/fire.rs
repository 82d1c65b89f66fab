//! Firing: due schedules decided by the pure rule, and everything it decided written together.

use crate::Shared;
use crate::error::Work;
use crate::firing::{Decided, SlotSpec, Written};
use crate::making::{Making, make_lanes_params};
use crate::params::{params, time};
use crate::policies::{CAP, cap_of};
use crate::rows::{self, Columns, Unreadable, value};
use crate::session::{Session, Step};
use crate::sql;
use crate::tx::{Patience, Tx};
use jiff::{SignedDuration, Timestamp};
use punctual_core::cap::{CappedPass, FireCap};
use punctual_core::closing::storable_text;
use punctual_core::firing::{Facts, Firing, Next};
use punctual_core::id::{JobId, NodeId, ScheduleId};
use punctual_core::replan::Judged;
use punctual_core::schedule::{Overlap, Schedule, ScheduleResults};
use punctual_core::slot::SlotRow;
use punctual_core::store::{Fired, Reconciled, StoreError, StoreResult};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio_postgres::Row;
use uuid::Uuid;

/// A schedule's row: its id, and what it says unless it cannot be understood.
pub(crate) type ScheduleRow = (ScheduleId, Result<Schedule, Unreadable>);

/// What a pass has locked.
pub(crate) struct Taken {
    due: Vec<ScheduleRow>,
    /// Those of which SQL has asked something.
    asked: Vec<ScheduleRow>,
    cap: Option<FireCap>,
}

/// How long firing waits for a table that somebody has locked as a whole. A node that waits for ever does not notice
/// that it cannot fire, and would take one connection after the other.
const LOCKS: &str = "SET LOCAL lock_timeout = '2s'";

/// How many batches one store fires at once. More of them decide no more slots in the same time: they hold each other up,
/// and take the connections of those who want something else.
pub(crate) const AT_ONCE: usize = 2;

/// Decides what is due, in four round trips for a whole batch: begin, lock, write, commit.
pub(crate) async fn fire_due(shared: &Shared, node: Option<NodeId>, limit: usize) -> StoreResult<Fired> {
    let _turn =
        shared.firing.acquire().await.map_err(|_| StoreError::Internal("nobody may fire any more".to_owned()))?;
    let mut patience = Patience::default();
    loop {
        match try_fire(shared, node, limit).await {
            Err(failure) if patience.allows(&failure).await => {}
            Ok(fired) => {
                if !fired.jobs.is_empty() {
                    shared.ring();
                }
                return Ok(fired);
            }
            Err(failure) => return Err(failure.into()),
        }
    }
}

async fn try_fire(shared: &Shared, node: Option<NodeId>, limit: usize) -> Work<Fired> {
    let limit = crate::params::limit(limit);
    let mut tx = begin_impatiently(shared).await?;
    let fired = match tx.take_due(shared, limit).await {
        Ok(taken) => tx.fire_capped(taken, node).await,
        Err(failure) => Err(failure),
    };
    tx.end(fired).await
}

/// Begins a transaction that does not wait long for a table. A round trip of its own, because a statement waits for
/// its tables already when it is prepared.
pub(crate) async fn begin_impatiently(shared: &Shared) -> Work<Tx<'_>> {
    Ok(Tx::begin_with(shared, vec![Step::Word(LOCKS)]).await?.0)
}

/// The same on a connection that is there already.
pub(crate) async fn begin_impatiently_on(shared: &Shared, session: Session) -> Work<Tx<'_>> {
    let tx = Tx::begin_on(shared, session).await?;
    tx.word(LOCKS).await?;
    Ok(tx)
}

impl Tx<'_> {
    /// Locks the cap on fires, what is due, what has no plan, what has been paused for long enough, and what SQL has
    /// asked something of.
    pub(crate) async fn take_due(&self, shared: &Shared, limit: i64) -> Work<Taken> {
        // In one round trip: each sends when it is first polled.
        let (cap, due, unplanned, resumable, asked) = tokio::join!(
            self.one(CAP, params![], value::<String>),
            self.read(sql::due_schedules, params![shared.turned(), limit], schedule_row),
            self.read(sql::unplanned_schedules, params![limit], schedule_row),
            self.read(sql::resumable_schedules, params![shared.turned(), limit], schedule_row),
            self.read(sql::asked_schedules, params![limit], schedule_row),
        );
        let cap = cap?.map(|text| cap_of(&text)).transpose()?;
        let mut due = due?;
        if cap.is_some() {
            // They do not stand behind those that have to wait.
            due.extend(self.read(sql::burst_schedules, params![shared.turned(), limit], schedule_row).await?);
        }
        let found = due.into_iter().chain(unplanned?).chain(resumable?).collect::<Result<Vec<_>, _>>();
        let mut found = found.map_err(rows::unreadable)?;
        if cap.is_some() {
            let mut known = HashSet::new();
            found.retain(|(id, _)| known.insert(*id));
        }
        let asked = asked?.into_iter().collect::<Result<_, _>>().map_err(rows::unreadable)?;
        Ok(Taken { due: found, asked, cap })
    }

    async fn fire_capped(&self, taken: Taken, node: Option<NodeId>) -> Work<Fired> {
        let cap = taken.cap.clone();
        let mut capped = CappedPass::new(cap.clone());
        let fired = self.fire_rows(taken, &mut capped, node).await?;
        if let Some(after) = capped.ended().filter(|after| cap.as_ref() != Some(after)) {
            self.write_cap(&after).await?;
        }
        Ok(fired)
    }

    async fn fire_rows(&self, taken: Taken, capped: &mut CappedPass, node: Option<NodeId>) -> Work<Fired> {
        let Taken { due, asked, .. } = taken;
        let mut fired = Fired { schedules: due.len() + asked.len(), ..Fired::default() };
        let (mut plain, mut one_by_one) = (Vec::new(), Vec::new());
        for (id, schedule) in asked {
            match schedule {
                Ok(_) => Box::pin(self.fire_alone(id, true, capped, node, &mut fired)).await?,
                Err(problem) => self.set_problem(id, &problem.to_string(), &mut fired).await?,
            }
        }
        let mut schedules = Vec::with_capacity(due.len());
        for (id, schedule) in due {
            match schedule {
                Ok(schedule) => schedules.push(schedule),
                Err(problem) => self.set_problem(id, &problem.to_string(), &mut fired).await?,
            }
        }
        let mut facts = self.facts(&schedules).await?;
        let before = capped.clone();
        for schedule in schedules {
            let mut facts = facts.remove(&schedule.id).unwrap_or_default();
            if !capped.admits(&schedule, self.now, &mut facts) {
                continue;
            }
            match schedule.judge(self.now, &facts) {
                Judged::Fires(Firing { next: Next::Problem(problem), .. }) => {
                    self.set_problem(schedule.id, &problem, &mut fired).await?;
                }
                Judged::Fires(firing) if !replaces_live(&firing) => {
                    let decided = Decided::new(self, schedule, firing);
                    capped.fired(&decided.schedule, self.now, decided.jobs.len(), &decided.firing.next);
                    plain.push(decided);
                }
                _ => one_by_one.push(schedule.id),
            }
        }
        if !self.fire_batch(&plain, node, &mut fired).await? {
            // Nothing of it was written, so that nothing of it counts.
            *capped = before;
            one_by_one.extend(plain.iter().map(|decided| decided.schedule.id));
        }
        for id in one_by_one {
            self.fire_alone(id, false, capped, node, &mut fired).await?;
        }
        Ok(fired)
    }

    /// Writes a whole batch at once; false when something stood in the way, and then nothing of it is written.
    async fn fire_batch(&self, batch: &[Decided], node: Option<NodeId>, fired: &mut Fired) -> Work<bool> {
        // The second time with the lanes that the first time found missing.
        for _ in 0..2 {
            if batch.is_empty() {
                return Ok(true);
            }
            match self.write_batch(batch, node).await {
                Ok(true) => {
                    for decided in batch {
                        count(fired, decided.written());
                    }
                    return Ok(true);
                }
                Ok(false) => self.word("ROLLBACK TO batch").await?,
                Err(failure) if failure.is_of_the_data() => {
                    self.word("ROLLBACK TO batch").await?;
                    return Ok(false);
                }
                Err(failure) => return Err(failure),
            }
            let specs: Vec<SlotSpec> = batch.iter().flat_map(Decided::specs).collect();
            let jobs: Vec<Making<'_>> = specs.iter().map(SlotSpec::making).collect();
            self.execute(sql::make_lanes, make_lanes_params(&jobs, Some(self.at()))).await?;
        }
        Ok(false)
    }

    /// Fires one schedule by itself. What is wrong with it becomes its problem and nobody else's (E02). One of which
    /// something was asked was steered, and not mended.
    async fn fire_alone(
        &self, id: ScheduleId, asked: bool, capped: &mut CappedPass, node: Option<NodeId>, fired: &mut Fired,
    ) -> Work<()> {
        self.word("SAVEPOINT alone").await?;
        let problem = match self.decide_and_write(id, capped, node).await {
            Ok(Written { problem: Some(problem), .. }) => problem,
            Ok(written) => {
                count(fired, Written { steered: written.steered || asked, ..written });
                return Ok(());
            }
            Err(failure) if failure.is_of_the_data() => StoreError::from(failure).to_string(),
            Err(failure) => return Err(failure),
        };
        self.word("ROLLBACK TO alone").await?;
        self.set_problem(id, &problem, fired).await
    }

    /// Reads a locked schedule afresh, decides it, and writes what was decided.
    async fn decide_and_write(&self, id: ScheduleId, capped: &mut CappedPass, node: Option<NodeId>) -> Work<Written> {
        let Some(mut schedule) = self.locked_schedule(id).await? else { return Ok(Written::default()) };
        let mut facts = self.facts(std::slice::from_ref(&schedule)).await?.remove(&id).unwrap_or_default();
        if !capped.admits(&schedule, self.now, &mut facts) {
            return Ok(Written { waits: true, ..Written::default() });
        }
        let firing = match schedule.judge(self.now, &facts) {
            Judged::Fires(firing) => {
                let written = self.write_firing(&schedule, &firing, node, schedule.version).await?;
                capped.fired(&schedule, self.now, written.jobs.len(), &firing.next);
                return Ok(written);
            }
            Judged::Stops(firing, pause) => {
                self.pause(id, &pause).await?;
                schedule.state.enabled = false;
                firing
            }
            Judged::GoesOn(firing) => {
                self.unpause(&schedule).await?;
                schedule.state.enabled = true;
                firing
            }
        };
        let written = self.write_firing(&schedule, &firing, node, schedule.version).await?;
        Ok(Written { steered: true, ..written })
    }

    /// What the rule must know of each schedule; only what its policies look at is asked for.
    pub(crate) async fn facts(&self, schedules: &[Schedule]) -> Work<HashMap<ScheduleId, Facts>> {
        let mut facts: HashMap<ScheduleId, Facts> = HashMap::new();
        let counted = schedules.iter().filter(|schedule| {
            schedule.definition.overlap != Overlap::Allow || schedule.definition.max_concurrent_runs.is_some()
        });
        let counted: Vec<ScheduleId> = counted.map(|schedule| schedule.id).collect();
        for (schedule_id, _, runs) in self.live_jobs(&counted).await? {
            let facts = facts.entry(schedule_id).or_default();
            if runs { facts.running += 1 } else { facts.waiting += 1 }
        }
        let dependent = schedules.iter().filter_map(|schedule| Some((schedule.id, schedule.definition.depends_on?)));
        let dependent: Vec<(ScheduleId, ScheduleId)> = dependent.map(|(id, on)| (id, on.schedule_id)).collect();
        let succeeded = self.last_successes(dependent.iter().map(|(_, on)| on.0).collect()).await?;
        for (id, on) in dependent {
            facts.entry(id).or_default().dependency_succeeded_at = succeeded.get(&on).copied();
        }
        for (id, failures) in self.failures_in_row(schedules).await? {
            facts.entry(id).or_default().failures_in_row = failures;
        }
        // One by one: few have several slots to fire at once, and look at their jobs.
        for schedule in schedules {
            if let Some(range) = schedule.due_beside_ledger(self.now) {
                facts.entry(schedule.id).or_default().decided = self.decided_in_range(schedule, range).await?;
            }
        }
        let calendars = self.calendars_of(schedules).await?;
        for schedule in schedules {
            let named = schedule.definition.calendar.as_ref().and_then(|name| calendars.get(name));
            if let Some(calendar) = named {
                facts.entry(schedule.id).or_default().calendar = Some(Arc::clone(calendar));
            }
        }
        Ok(facts)
    }

    /// How often those failed in a row that pause after failures.
    async fn failures_in_row(&self, schedules: &[Schedule]) -> Work<Vec<(ScheduleId, u32)>> {
        let stops = |it: &&Schedule| it.definition.pause_after_failures.is_some();
        let those: HashMap<ScheduleId, &Schedule> = schedules.iter().filter(stops).map(|it| (it.id, it)).collect();
        if those.is_empty() {
            return Ok(Vec::new());
        }
        let find = "SELECT schedule_id, last_success_at, consecutive_failures FROM punctual_internal.schedule_results
                    WHERE schedule_id = ANY ($1)";
        let ids: Vec<Uuid> = those.keys().map(|id| id.0).collect();
        let found = self.all(find, params![ids], |row| {
            let mut c = Columns::of(row);
            let (id, last_success_at) = (c.id::<ScheduleId>()?, c.optional_time()?);
            let consecutive_failures = u32::try_from(c.next::<i64>()?).unwrap_or(u32::MAX);
            Ok((id, ScheduleResults { last_success_at, consecutive_failures, ..ScheduleResults::default() }))
        });
        let counted = found.await?.into_iter();
        Ok(counted.filter_map(|(id, results)| Some((id, those.get(&id)?.failures_in_row(&results)))).collect())
    }

    async fn last_successes(&self, ids: Vec<Uuid>) -> Work<HashMap<ScheduleId, Timestamp>> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let find = "SELECT schedule_id, last_success_at FROM punctual_internal.schedule_results
                    WHERE schedule_id = ANY ($1) AND last_success_at IS NOT NULL";
        let found = self.all(find, params![ids], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.time()?))
        });
        Ok(found.await?.into_iter().collect())
    }

    /// The jobs of schedules that are alive, and whether each runs.
    pub(crate) async fn live_jobs(&self, schedules: &[ScheduleId]) -> Work<Vec<(ScheduleId, JobId, bool)>> {
        if schedules.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = schedules.iter().map(|id| id.0).collect();
        self.all(sql::live_jobs, params![ids], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.id()?, c.next()?))
        })
        .await
    }

    async fn set_problem(&self, id: ScheduleId, problem: &str, fired: &mut Fired) -> Work<()> {
        fired.problems += 1;
        self.write_problem(id, problem).await
    }

    /// Writes down why a schedule cannot be fired. It stands still until it is edited, so that what else was asked of
    /// it has no meaning any more.
    pub(crate) async fn write_problem(&self, id: ScheduleId, problem: &str) -> Work<()> {
        let set = "UPDATE punctual_internal.schedule_state
                   SET problem = $2, next_slot_at = NULL, next_run_at = NULL, asked_since = NULL WHERE schedule_id = $1";
        self.execute(set, params![id.0, storable_text(problem)]).await?;
        self.forget_asked(id).await
    }

    pub(crate) async fn reconcile(&mut self, after: Option<ScheduleId>, limit: usize) -> Work<Reconciled> {
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let params = params![after, crate::params::limit(limit)];
        let page = self.all(sql::reconcile_page, params, schedule_row).await?;
        let next = page.last().filter(|_| page.len() == limit).map(|(id, _)| *id);
        let mut done = Reconciled { looked_at: page.len(), next, ..Reconciled::default() };
        for (id, schedule) in page {
            // What cannot be understood keeps its problem until somebody edits it.
            let Ok(schedule) = schedule else { continue };
            if !schedule.plan_is_possible(self.now) && self.replan(id).await? {
                done.replanned += 1;
            }
            if let Some(problem) = schedule.stuck_ahead(self.now) {
                let tell = "UPDATE punctual_internal.schedule_state SET problem = $2 WHERE schedule_id = $1";
                self.execute(tell, params![id.0, problem]).await?;
                done.stuck_ahead += 1;
            }
        }
        Ok(done)
    }

    pub(crate) async fn next_due(&self, shared: &Shared) -> Work<Option<SignedDuration>> {
        let found = self.one(sql::next_due, params![shared.turned()], |row| {
            let mut c = Columns::of(row);
            Ok((c.next::<Option<i64>>()?, c.next::<Option<String>>()?, c.time()?))
        });
        let Some((micros, cap, now)) = found.await? else { return Ok(None) };
        let wait = |micros: i64| SignedDuration::from_micros(micros.max(0));
        let due = micros.map(wait);
        let (Some(cap), Some(SignedDuration::ZERO)) = (cap, due) else { return Ok(due) };
        // Something is due; it may be what has to wait for the cap.
        let free = cap_of(&cap)?.free_in(now);
        let others: Option<Option<i64>> = self.one(sql::next_due_capped, params![shared.turned()], value).await?;
        Ok(Some(others.flatten().map(wait).map_or(free, |other| other.min(free))))
    }

    /// Plans a schedule anew, unless somebody else has just done so.
    async fn replan(&self, id: ScheduleId) -> Work<bool> {
        let Some(schedule) = self.locked_schedule(id).await? else { return Ok(false) };
        if !schedule.state.enabled || schedule.state.exhausted_at.is_some() || schedule.plan_is_possible(self.now) {
            return Ok(false);
        }
        let firing = Firing { slots: Vec::new(), next: schedule.plan_next(self.now) };
        Ok(self.write_firing(&schedule, &firing, None, schedule.version).await?.problem.is_none())
    }
}

fn count(fired: &mut Fired, written: Written) {
    fired.steered += usize::from(written.steered);
    let decided = !written.jobs.is_empty() || written.slots_not_run > 0 || written.steered || written.waits;
    fired.replanned += usize::from(!decided);
    fired.slots_not_run += written.slots_not_run;
    fired.not_run.add_all(&written.not_run);
    fired.jobs.extend(written.jobs);
}

pub(crate) fn schedule_row(row: &Row) -> Result<ScheduleRow, Unreadable> {
    Ok((rows::schedule_id(row)?, rows::schedule(row)))
}

/// How long until anything is due.
pub(crate) async fn read_next_due(shared: &Shared) -> Work<Option<SignedDuration>> {
    let mut tx = begin_impatiently(shared).await?;
    let found = tx.next_due(shared).await;
    tx.end(found).await
}

/// Whether a run that is alive is cancelled for one of its slots.
fn replaces_live(firing: &Firing) -> bool {
    firing.slots.iter().any(|slot| slot.job.is_some_and(|job| job.replaces_live))
}

/// A page of the ledger.
pub(crate) async fn read_slots(
    session: &Session, id: ScheduleId, before: Option<Timestamp>, limit: usize,
) -> Work<Vec<SlotRow>> {
    let before = before.unwrap_or(Timestamp::MAX);
    let params = params![id.0, time(before), crate::params::limit(limit)];
    let rows = session.rows(sql::slots_page, &params).await?;
    Ok(rows::collect(&rows, |row| slot_row(row, id))?)
}

/// A row of the ledger.
pub(crate) fn slot_row(row: &Row, id: ScheduleId) -> Result<SlotRow, Unreadable> {
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
