//! Writing what was decided: ledger rows, jobs and the new plan, for a batch at once or for one schedule.

use crate::error::{Failure, Work};
use crate::jobs::{Closing, serial_keys, settling};
use crate::making::{self, Making, trimmed};
use crate::outbox::notice_params;
use crate::params::{Params, params, time};
use crate::rows::Columns;
use crate::session::{Answer, Step};
use crate::sql;
use crate::tx::Tx;
use jiff::Timestamp;
use punctual_core::firing::{DecidedSlot, Firing, Next, SlotJob};
use punctual_core::id::{JobId, NodeId, ScheduleId};
use punctual_core::job::{NewJob, Origin};
use punctual_core::ledger::DecidedRange;
use punctual_core::run::ErrorCode;
use punctual_core::schedule::Schedule;
use punctual_core::slot::{Decision, NotRun, Reason};
use punctual_core::store::StoreError;
use punctual_core::upkeep::{News, Notice};
use std::collections::BTreeSet;

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

/// A schedule that was decided, with the jobs that are to be made for it.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) schedule: Schedule,
    pub(crate) firing: Firing,
    /// One for each slot that fires, in order.
    pub(crate) jobs: Vec<SlotMaking>,
}

/// A job that is to be made for a slot.
#[derive(Debug)]
pub(crate) struct SlotMaking {
    pub(crate) id: JobId,
    bits: [u8; 8],
    pub(crate) slot_at: Timestamp,
    pub(crate) job: SlotJob,
}

impl SlotMaking {
    fn new(tx: &Tx<'_>, slot_at: Timestamp, job: SlotJob) -> Self {
        let bits = tx.id_bits();
        Self { id: JobId::at(tx.now, bits), bits, slot_at, job }
    }

    /// The job in full.
    fn written_out(&self, schedule: &Schedule) -> SlotSpec {
        let detail = Some(schedule.definition.timing.text());
        SlotSpec {
            bits: self.bits,
            spec: NewJob::of_schedule(schedule, self.job.trigger, detail, self.job.serial),
            origin: Origin { schedule_id: Some(schedule.id), slot_at: Some(self.slot_at), chain: None },
        }
    }
}

/// The same with all that its schedule says.
#[derive(Debug)]
pub(crate) struct SlotSpec {
    bits: [u8; 8],
    spec: NewJob,
    origin: Origin,
}

impl SlotSpec {
    pub(crate) fn making(&self) -> Making<'_> {
        Making { bits: self.bits, spec: &self.spec, origin: &self.origin }
    }
}

impl Decided {
    pub(crate) fn new(tx: &Tx<'_>, schedule: Schedule, firing: Firing) -> Self {
        let fires = firing.slots.iter().filter_map(|slot| Some((slot.slot_at, slot.job?)));
        let jobs = fires.map(|(slot_at, job)| SlotMaking::new(tx, slot_at, job)).collect();
        Self { schedule, firing, jobs }
    }

    /// Its jobs in full.
    pub(crate) fn specs(&self) -> impl Iterator<Item = SlotSpec> {
        self.jobs.iter().map(|job| job.written_out(&self.schedule))
    }

    /// What it comes to when all of it is written.
    pub(crate) fn written(&self) -> Written {
        let not_run = self.firing.slots.iter().filter(|slot| slot.job.is_none());
        let not_run: NotRun = not_run.map(|slot| (slot.reason, slot.count)).collect();
        Written {
            jobs: self.jobs.iter().map(|job| job.id).collect(),
            slots_not_run: not_run.iter().map(|(_, slots)| slots).sum(),
            not_run,
            ..Written::default()
        }
    }

    /// Each slot with the job that is made for it.
    fn slots(&self) -> impl Iterator<Item = (&DecidedSlot, Option<JobId>)> {
        let mut jobs = self.jobs.iter();
        self.firing.slots.iter().map(move |slot| (slot, slot.job.and_then(|_| jobs.next().map(|job| job.id))))
    }
}

impl Tx<'_> {
    /// Writes a batch in one round trip, behind a savepoint named `batch`. False when a slot had been decided before, a
    /// lane is missing or a schedule was edited meanwhile: then the caller goes back to the savepoint.
    pub(crate) async fn write_batch(&self, batch: &[Decided], node: Option<NodeId>) -> Work<bool> {
        if let Some(singles) = self.singles(batch) {
            return self.write_singles(&singles, node).await;
        }
        let specs: Vec<SlotSpec> = batch.iter().flat_map(Decided::specs).collect();
        let jobs: Vec<Making<'_>> = specs.iter().map(SlotSpec::making).collect();
        let slots: Vec<SlotParam<'_>> = batch
            .iter()
            .flat_map(|decided| decided.slots().map(|(slot, job)| SlotParam { schedule: &decided.schedule, slot, job }))
            .collect();
        let plans: Vec<Plan> = batch
            .iter()
            .map(|decided| self.plan(&decided.schedule, &decided.firing, decided.jobs.last().map(|job| job.id)))
            .collect::<Result<_, String>>()
            .map_err(Failure::internal)?;
        let keys = serial_keys(jobs.iter().map(|job| job.spec));
        self.lock_serial_keys(&keys).await?;
        let missed = batch.iter().flat_map(|decided| decided.slots().map(|(slot, _)| (decided.schedule.id, slot)));
        let missed = missed.filter_map(|(id, slot)| News::of_slot(id, slot));
        let missed: Vec<Notice> = missed.map(|news| self.notice(news)).collect();
        let mut steps = vec![Step::Word("SAVEPOINT batch")];
        let (mut slots_at, mut jobs_at) = (None, None);
        if !slots.is_empty() {
            slots_at = Some(steps.len());
            steps.push(Step::Rows(insertion(&slots), self.slot_params(&slots, node)));
        }
        if !jobs.is_empty() {
            jobs_at = Some(steps.len());
            let (statement, params) = making::making(&jobs, Some(self.at()), true)?;
            steps.push(Step::Rows(statement, params));
        }
        let plans_at = steps.len();
        steps.push(Step::Count(sql::set_plan, plan_params(&plans, self)));
        if !missed.is_empty() {
            steps.push(Step::Count(sql::insert_notices, notice_params(&missed, self.at())));
        }
        if !keys.is_empty() {
            steps.extend(settling(&keys));
        }
        let answers = self.pipeline(&steps).await?;
        let rows = |at: Option<usize>| at.map_or(0, |at| answers.get(at).map_or(0, Answer::len));
        let planned = answers.get(plans_at).map_or(0, Answer::len);
        let made = jobs_at.is_none_or(|at| making::is_made(answers.get(at)));
        Ok(rows(slots_at) == slots.len() && made && planned == plans.len())
    }

    /// Writes what was decided about one schedule, slot by slot. The caller holds its lock. `version` is the one that
    /// is stored now; the ledger names the schedule's own, by which the slot was planned.
    pub(crate) async fn write_firing(
        &self, schedule: &Schedule, firing: &Firing, node: Option<NodeId>, version: i64,
    ) -> Work<Written> {
        let mut written = self.write_slots(schedule, firing, node, sql::insert_slots).await?;
        let plan = match self.plan(schedule, firing, written.jobs.last().copied()) {
            Ok(plan) => Plan { version, ..plan },
            Err(problem) => {
                written.problem = Some(problem);
                return Ok(written);
            }
        };
        let planned = self.execute(sql::set_plan, plan_params(&[plan], self)).await?;
        if planned == 0 {
            return Err(StoreError::Internal("the schedule changed under its lock".to_owned()).into());
        }
        Ok(written)
    }

    /// Writes ledger rows and jobs, one by one. A range leaves out what the ledger holds and its plan does not know.
    pub(crate) async fn write_slots(
        &self, schedule: &Schedule, firing: &Firing, node: Option<NodeId>, insert: &str,
    ) -> Work<Written> {
        let mut written = Written::default();
        for slot in &firing.slots {
            if slot.count == 1 {
                self.write_slot(schedule, slot, node, insert, &mut written).await?;
                continue;
            }
            let decided = self.decided_in_range(schedule, (slot.slot_at, slot.through)).await?;
            for piece in schedule.without_decided(slot, &decided) {
                self.write_slot(schedule, &piece, node, insert, &mut written).await?;
            }
        }
        Ok(written)
    }

    pub(crate) async fn decided_in_range(
        &self, schedule: &Schedule, (from, through): DecidedRange,
    ) -> Work<Vec<DecidedRange>> {
        let params = params![schedule.id.0, time(from), time(through), time(schedule.known_up_to(from))];
        self.all(sql::decided_in_range, params, |row| {
            let mut c = Columns::of(row);
            Ok((c.time()?, c.time()?))
        })
        .await
    }

    async fn write_slot(
        &self, schedule: &Schedule, slot: &DecidedSlot, node: Option<NodeId>, insert: &str, written: &mut Written,
    ) -> Work<()> {
        let making = slot.job.map(|job| SlotMaking::new(self, slot.slot_at, job));
        let param = SlotParam { schedule, slot, job: making.as_ref().map(|making| making.id) };
        // No row: the slot was decided before. Whoever decided it made its job, or decided that there is none.
        if self.rows(insert, self.slot_params(&[param], node)).await?.is_empty() {
            return Ok(());
        }
        let Some(making) = making else {
            if let Some(news) = News::of_slot(schedule.id, slot) {
                self.tell(news).await?;
            }
            written.slots_not_run += slot.count;
            written.not_run.add(slot.reason, slot.count);
            return Ok(());
        };
        let job = making.job;
        // The key of all jobs of the schedule that have one, those that are replaced included.
        let keys: BTreeSet<String> = [schedule.id.to_string()].into();
        if job.serial || job.replaces_live {
            self.lock_serial_keys(&keys).await?;
        }
        if job.replaces_live {
            self.replace_live_jobs(schedule.id).await?;
        }
        self.make_jobs(&[making.written_out(schedule).making()], true).await?;
        if job.serial || job.replaces_live {
            self.settle_serial_keys(&keys).await?;
        }
        written.jobs.push(making.id);
        Ok(())
    }

    /// Cancels what is alive of a schedule for a job that takes its place.
    async fn replace_live_jobs(&self, id: ScheduleId) -> Work<()> {
        for (_, job_id, _) in self.live_jobs(&[id]).await? {
            if self.take_waiting(job_id).await? {
                self.close(&[Closing::unstarted(job_id, Some(id), ErrorCode::Replaced)]).await?;
            } else {
                self.request_cancel(&[job_id], ErrorCode::Replaced).await?;
                self.stop_flow(job_id, ErrorCode::Replaced).await?;
            }
        }
        Ok(())
    }

    fn plan(&self, schedule: &Schedule, firing: &Firing, last_job: Option<JobId>) -> Result<Plan, String> {
        let (slot_at, run_at, exhausted_at) = match &firing.next {
            Next::Slot(next) => (Some(next.slot_at), Some(next.run_at), None),
            Next::Exhausted => (None, None, Some(self.now)),
            Next::Problem(problem) => return Err(problem.clone()),
        };
        Ok(Plan {
            schedule_id: schedule.id,
            version: schedule.version,
            slot_at,
            // Paused, or fired from memory: the slot is kept for the ledger, and nothing is due.
            run_at: run_at.filter(|_| schedule.state.is_fired_by_store()),
            exhausted_at,
            decided_through: firing.decided_through(),
            passed: firing.passed(self.now),
            last_job,
        })
    }

    fn slot_params<'a>(&self, slots: &[SlotParam<'_>], node: Option<NodeId>) -> Params<'a> {
        params![
            self.at(),
            node.map(|id| id.0),
            slots.iter().map(|it| it.schedule.id.0).collect::<Vec<_>>(),
            slots.iter().map(|it| time(it.slot.slot_at)).collect::<Vec<_>>(),
            trimmed(slots.iter().map(|it| (it.slot.through != it.slot.slot_at).then(|| time(it.slot.through)))),
            trimmed(
                slots.iter().map(|it| (it.slot.count != 1).then(|| i64::try_from(it.slot.count).unwrap_or(i64::MAX)))
            ),
            trimmed(slots.iter().map(|it| (it.slot.decision != Decision::Fired).then(|| it.slot.decision.as_str()))),
            trimmed(slots.iter().map(|it| (it.slot.reason != Reason::OnTime).then(|| it.slot.reason.as_str()))),
            slots.iter().map(|it| it.job.map(|id| id.0)).collect::<Vec<_>>(),
            slots.iter().map(|it| it.slot.late_ms).collect::<Vec<_>>(),
            slots.iter().map(|it| it.schedule.version).collect::<Vec<_>>(),
            trimmed(slots.iter().map(|it| it.slot.note.clone())),
        ]
    }
}

/// The statement that writes these slots. What is above the watermark by the locked row need not be looked up again, and
/// single slots meet no others but by the primary key.
fn insertion(slots: &[SlotParam<'_>]) -> &'static str {
    let is_new = |it: &SlotParam<'_>| {
        it.slot.count == 1 && it.schedule.state.fired_through.is_none_or(|through| it.slot.slot_at > through)
    };
    if slots.iter().all(is_new) { sql::insert_slots_alone } else { sql::insert_slots }
}

/// One ledger row.
struct SlotParam<'a> {
    schedule: &'a Schedule,
    slot: &'a DecidedSlot,
    job: Option<JobId>,
}

/// Where one schedule stands afterwards.
#[derive(Debug)]
struct Plan {
    schedule_id: ScheduleId,
    version: i64,
    slot_at: Option<Timestamp>,
    run_at: Option<Timestamp>,
    exhausted_at: Option<Timestamp>,
    decided_through: Option<Timestamp>,
    passed: Option<Timestamp>,
    last_job: Option<JobId>,
}

fn plan_params<'a>(plans: &[Plan], tx: &Tx<'_>) -> Params<'a> {
    let times = |of: fn(&Plan) -> Option<Timestamp>| plans.iter().map(|plan| of(plan).map(time)).collect::<Vec<_>>();
    params![
        tx.at(),
        plans.iter().map(|plan| plan.schedule_id.0).collect::<Vec<_>>(),
        plans.iter().map(|plan| plan.version).collect::<Vec<_>>(),
        times(|plan| plan.slot_at),
        times(|plan| plan.run_at),
        trimmed(plans.iter().map(|plan| plan.exhausted_at.map(time))),
        times(|plan| plan.decided_through),
        times(|plan| plan.passed),
        plans.iter().map(|plan| plan.last_job.map(|id| id.0)).collect::<Vec<_>>(),
    ]
}
