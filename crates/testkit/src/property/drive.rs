//! Takes each step in the store and in the model, and compares what the two answer.

use super::ops::{Direction, Draft, DraftJob, Ending, Op, QUEUES};
use crate::harness::World;
use crate::model::{self, Beat, Definition, MissedRule, Model, OverlapRule, Spec, Spread, Whereabouts};
use crate::prelude::*;
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{JobId, ReservationId, ScheduleId};
use punctual_core::job::NewJob;
use punctual_core::order::Move;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::{Dependency, Missed, Overlap, Schedule, ScheduleDefinition};
use punctual_core::store::{
    Cancelled, Clock, FinishResult, FinishedRun, Fired, Lease, LostNode, NewNode, Recovered, StoreResult,
};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A store and a model side by side; ids are told apart by the order of creation.
pub(crate) struct Drive {
    pub(crate) world: World,
    pub(crate) model: Model,
    pub(crate) schedules: Vec<ScheduleId>,
    pub(crate) jobs: Vec<JobId>,
    pub(crate) leases: Vec<Lease>,
    pub(crate) fired_through: BTreeMap<usize, Timestamp>,
    /// How many notices were forgotten.
    pub(crate) notices_gone: usize,
    /// Notices since this instant are all there.
    pub(crate) notices_kept_from: i64,
    /// Whether the table of plans is out of reach.
    pub(crate) plans_hidden: bool,
    holds: BTreeMap<usize, ReservationId>,
    pub(super) refusing: bool,
}

/// Whether the two agree, and if not, in what.
pub(crate) type Agreement = Result<(), String>;

/// Says what differs, if anything does.
#[expect(clippy::needless_pass_by_value, reason = "callers make both sides on the spot")]
pub(crate) fn agree<T: PartialEq + Debug>(what: &str, store: T, model: T) -> Agreement {
    if store == model { Ok(()) } else { Err(format!("{what}\n  store: {store:?}\n  model: {model:?}")) }
}

/// Microseconds as an instant.
pub(crate) fn at(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).expect("the model stays within time")
}

pub(super) fn picked<T: Copy>(from: &[T], pick: usize) -> Option<T> {
    (!from.is_empty()).then(|| from[pick % from.len()])
}

impl Drive {
    pub(crate) fn new(world: World) -> Self {
        let model = Model { now: world.clock.now().as_microsecond(), ..Model::default() };
        Self {
            world,
            model,
            schedules: Vec::new(),
            jobs: Vec::new(),
            leases: Vec::new(),
            fired_through: BTreeMap::new(),
            notices_gone: 0,
            notices_kept_from: i64::MIN,
            plans_hidden: false,
            holds: BTreeMap::new(),
            refusing: false,
        }
    }

    /// Takes one step on both sides.
    pub(crate) async fn step(&mut self, op: &Op) -> Agreement {
        match op {
            Op::Refused(inner) => {
                self.refusing = true;
                self.world.faults.refuse_commits(true).await;
                let agreement = Box::pin(self.step(inner)).await;
                self.world.faults.refuse_commits(false).await;
                self.refusing = false;
                agreement
            }
            Op::Create(draft) => self.create(draft).await,
            Op::Update(pick, draft) => self.update(*pick, draft, false).await,
            Op::Retouch(pick, draft) => self.update(*pick, draft, true).await,
            Op::Pause(pick) => self.pause(*pick).await,
            Op::PauseUntil(pick, seconds) => self.pause_until(*pick, *seconds).await,
            Op::Resume(pick) => self.resume(*pick).await,
            Op::Reschedule(pick, seconds) => self.reschedule(*pick, *seconds).await,
            Op::SkipNext(pick) => self.skip_next(*pick).await,
            Op::Trigger(pick) => self.trigger(*pick).await,
            Op::Delete(pick) => self.delete(*pick).await,
            Op::Fire => self.fire().await,
            Op::Pass(micros) => {
                self.model.now = self.world.pass(SignedDuration::from_micros(*micros)).as_microsecond();
                Ok(())
            }
            Op::Reopen => {
                self.world.reopen().await;
                Ok(())
            }
            Op::Reconcile => self.reconcile().await,
            Op::Prune(seconds) => self.prune(*seconds).await,
            other => self.queue_step(other).await,
        }
    }

    async fn queue_step(&mut self, op: &Op) -> Agreement {
        match op {
            Op::Enqueue(drafts) => self.enqueue(drafts).await,
            Op::Promote => self.promote().await,
            Op::Move(job, other, to) => self.move_job(*job, *other, *to).await,
            Op::Edit(job, input) => self.edit(*job, *input).await,
            Op::Cancel(job) => self.cancel(*job).await,
            Op::Register => self.register().await,
            Op::Beat(node) => self.beat(*node).await,
            Op::Claim(node, queue, limit) => self.claim(*node, *queue, *limit).await,
            Op::Finish(job, ending) => self.finish(*job, *ending).await,
            Op::FinishFalsely(job, node) => self.finish_falsely(*job, *node).await,
            Op::GiveBack(job) => self.give_back(*job).await,
            Op::Recover(node) => self.recover(*node).await,
            Op::Reserve(queue, seconds) => self.reserve(*queue, *seconds).await,
            Op::Release(queue) => self.release(*queue).await,
            Op::SetPaused(queue, on) => self.set_paused(*queue, *on).await,
            other => Err(format!("{other:?} is no step of a queue")),
        }
    }

    /// The store's answer, or nothing when it was refused because commits are. An answer that is given although the
    /// commit was refused counts: the state will then show whether it was true.
    pub(super) fn heard<T: Debug>(&self, result: StoreResult<T>) -> Result<Option<T>, String> {
        match result {
            Ok(answer) => Ok(Some(answer)),
            Err(_) if self.refusing => Ok(None),
            Err(error) => Err(format!("the store refused: {error}")),
        }
    }

    // --- schedules ---------------------------------------------------------------------------------------------------

    pub(super) fn living(&self) -> Vec<usize> {
        (0..self.schedules.len()).filter(|index| !self.model.schedules[*index].deleted).collect()
    }

    /// A draft with its instants and its dependency made real.
    fn definition(&self, draft: &Draft) -> Definition {
        let mut definition = draft.definition.clone();
        if let Beat::At(offset) = definition.beat {
            definition.beat = Beat::At(self.model.now + offset);
        }
        definition.ends_at = definition.ends_at.map(|offset| self.model.now + offset);
        definition.depends_on =
            definition.depends_on.and_then(|(pick, within)| Some((picked(&self.living(), pick)?, within)));
        definition
    }

    async fn create(&mut self, draft: &Draft) -> Agreement {
        let definition = self.definition(draft);
        let name = format!("schedule {}", self.schedules.len());
        let result = self.world.store().create_schedule(self.stored(&name, &definition)).await;
        let mut planned = self.model.clone();
        let spread = spread_of(result.as_ref().ok());
        match (result, planned.create_schedule(definition, spread)) {
            (Ok(schedule), true) => {
                self.schedules.push(schedule.id);
                self.model = planned;
                Ok(())
            }
            (Err(_), true) if self.refusing => Ok(()),
            (Err(_), false) => Ok(()),
            (result, planned) => Err(format!("create: the model says {planned}, the store {result:?}")),
        }
    }

    async fn update(&mut self, pick: usize, draft: &Draft, keep_times: bool) -> Agreement {
        let Some(index) = picked(&self.living(), pick) else { return Ok(()) };
        let mut definition = self.definition(draft);
        let old = &self.model.schedules[index];
        if keep_times {
            definition.beat = old.definition.beat;
            definition.ends_at = old.definition.ends_at;
            definition.jitter = old.definition.jitter;
        }
        // A serial key orders one queue.
        definition.job.queue.clone_from(&old.definition.job.queue);
        let (id, version) = (self.schedules[index], old.version);
        let stored = self.stored(&format!("schedule {index}"), &definition);
        let result = self.world.store().update_schedule_if_version(id, version, stored).await;
        let mut edited = self.model.clone();
        let spread = spread_of(result.as_ref().ok());
        match (result, edited.update_schedule(index, definition, spread)) {
            (Ok(_), true) => {
                self.model = edited;
                Ok(())
            }
            (Err(_), true) if self.refusing => Ok(()),
            (Err(_), false) => Ok(()),
            (result, edited) => Err(format!("update: the model says {edited}, the store {result:?}")),
        }
    }

    fn stored(&self, name: &str, definition: &Definition) -> ScheduleDefinition {
        let timing = match definition.beat {
            Beat::Every(seconds) => TimingSpec::Every { period: secs(seconds) },
            Beat::Minutes(60) => TimingSpec::cron("0 * * * *", "UTC"),
            Beat::Minutes(minutes) => TimingSpec::cron(format!("*/{minutes} * * * *"), "UTC"),
            Beat::Local(times) => TimingSpec::cron(times.expression, times.zone),
            Beat::At(micros) => TimingSpec::At { at: at(micros) },
        };
        let missed = match definition.missed {
            MissedRule::Skip(window) => Missed::Skip { window: secs(window) },
            MissedRule::Once(window) => Missed::Once { window: window.map(secs) },
            MissedRule::All(limit, window) => {
                Missed::All { limit: u32::try_from(limit).expect("small"), window: window.map(secs) }
            }
        };
        let overlap = match definition.overlap {
            OverlapRule::Allow => Overlap::Allow,
            OverlapRule::Forbid => Overlap::Forbid,
            OverlapRule::Replace => Overlap::Replace,
            OverlapRule::QueueOne => Overlap::QueueOne,
        };
        let job = stored_job(&definition.job, None);
        ScheduleDefinition {
            ends_at: definition.ends_at.map(at),
            jitter: secs(definition.jitter),
            input: job.input,
            queue: job.queue,
            priority: job.priority,
            serial: definition.serial,
            retry: job.retry,
            missed,
            overlap,
            pause_after_failures: definition.stops_after,
            max_concurrent_runs: definition.max_alive.map(|max| u32::try_from(max).expect("small")),
            depends_on: definition
                .depends_on
                .map(|(other, within)| Dependency { schedule_id: self.schedules[other], within: secs(within) }),
            ..ScheduleDefinition::new(named(name), timing, Target::task("work"))
        }
    }

    async fn fire(&mut self) -> Agreement {
        let result = self.world.store().fire_due(None, ALL).await;
        match self.heard(result)? {
            Some(fired) => self.compare_fired(fired).await,
            None => Ok(()),
        }
    }

    /// Decides in the model what the store has decided, and compares.
    pub(crate) async fn compare_fired(&mut self, fired: Fired) -> Agreement {
        // Between schedules that are due together the store chooses who goes first.
        let mut made_by = Vec::new();
        for id in &fired.jobs {
            let job = self.world.job(*id).await.job;
            let index = self.schedules.iter().position(|schedule| Some(*schedule) == job.schedule_id);
            made_by.push((index.ok_or("a job of no schedule was fired")?, job.slot_at));
        }
        let mut due = self.model.due_schedules();
        agree("how many schedules were due", fired.schedules, due.len())?;
        due.sort_by_key(|index| made_by.iter().position(|(by, _)| by == index));
        let (mut expected, mut not_run, mut behind, mut brought_up) = (Vec::new(), 0, Vec::new(), 0);
        let mut steered = 0;
        for index in due {
            let (jobs, others) = if self.model.schedules[index].behind {
                behind.push(index);
                self.adopt_rows(index).await?
            } else if let Some(others) = self.model.steer(index) {
                (steered, not_run) = (steered + 1, not_run + others);
                continue;
            } else {
                self.model.fire(index, &self.schedules[index].to_string())
            };
            // Whatever was due had been fired without the plan: all that is left to do is a new one.
            brought_up += usize::from(jobs.is_empty() && others == 0);
            not_run += others;
            expected.extend(jobs.into_iter().map(|job| (index, self.model.jobs[job].slot.map(at))));
        }
        agree("the slots that fired, in order", made_by, expected)?;
        agree("the slots that did not", fired.slots_not_run, not_run)?;
        agree("plans made anew", fired.replanned, brought_up)?;
        agree("schedules that stopped or went on", fired.steered, steered)?;
        self.jobs.extend(fired.jobs);
        self.adopt_plans(&behind).await
    }

    async fn reconcile(&mut self) -> Agreement {
        let found = self.world.store().reconcile_schedules(None, ALL).await.map_err(|error| error.to_string())?;
        agree("impossible plans", found.replanned, self.model.reconcile())
    }

    // --- queues ------------------------------------------------------------------------------------------------------

    fn where_it_is(&self, wanted: impl Fn(&Whereabouts) -> bool) -> Vec<usize> {
        (0..self.model.jobs.len()).filter(|index| wanted(&self.model.jobs[*index].place)).collect()
    }

    async fn enqueue(&mut self, drafts: &[DraftJob]) -> Agreement {
        let run_at = |draft: &DraftJob| draft.delay.map(|seconds| self.model.now + seconds * model::SECOND);
        let times: Vec<_> = drafts.iter().map(run_at).collect();
        let jobs = drafts.iter().zip(&times).map(|(draft, run_at)| stored_job(&draft.spec, *run_at)).collect();
        let result = self.world.store().enqueue_jobs(jobs).await;
        if let Some(ids) = self.heard(result)? {
            agree("ids for jobs", ids.len(), drafts.len())?;
            for (draft, run_at) in drafts.iter().zip(times) {
                self.model.make_job(draft.spec.clone(), None, None, run_at);
            }
            self.jobs.extend(ids);
        }
        Ok(())
    }

    async fn promote(&mut self) -> Agreement {
        let result = self.world.store().promote_due_jobs(ALL).await;
        match self.heard(result)? {
            Some(count) => agree("promoted", count, self.model.promote()),
            None => Ok(()),
        }
    }

    async fn move_job(&mut self, pick: usize, other: usize, to: Direction) -> Agreement {
        let Some(job) = picked(&self.where_it_is(|place| *place == Whereabouts::Queued), pick) else { return Ok(()) };
        let mut neighbours = self.model.queued(&self.model.jobs[job].spec.queue);
        neighbours.retain(|neighbour| *neighbour != job);
        let (stored, neighbour) = match (to, picked(&neighbours, other)) {
            (Direction::Front, _) => (Move::ToFront, 0),
            (Direction::Back, _) => (Move::ToBack, 0),
            (Direction::Priority(priority), _) => (Move::ToPriority(priority), 0),
            (Direction::Before, Some(neighbour)) => (Move::Before(self.jobs[neighbour]), neighbour),
            (Direction::After, Some(neighbour)) => (Move::After(self.jobs[neighbour]), neighbour),
            (Direction::Before | Direction::After, None) => return Ok(()),
        };
        let result = self.world.store().move_job_if_queued(self.jobs[job], stored).await;
        if self.heard(result)?.is_some() {
            match to {
                Direction::Front => self.model.move_to_front(job),
                Direction::Back => self.model.move_to_back_of(job, self.model.jobs[job].priority),
                Direction::Priority(priority) => self.model.move_to_back_of(job, priority),
                Direction::Before => self.model.move_beside(job, neighbour, false),
                Direction::After => self.model.move_beside(job, neighbour, true),
            }
        }
        Ok(())
    }

    async fn edit(&mut self, pick: usize, input: u32) -> Agreement {
        let Some(job) = picked(&self.where_it_is(|place| *place == Whereabouts::Queued), pick) else { return Ok(()) };
        let result = self.world.store().edit_job_if_queued(self.jobs[job], json(&input.to_string())).await;
        if let Some(id) = self.heard(result)? {
            self.model.edit(job, input);
            self.jobs.push(id);
        }
        Ok(())
    }

    async fn cancel(&mut self, pick: usize) -> Agreement {
        let alive = self.where_it_is(|place| !matches!(place, Whereabouts::Closed(_)));
        let Some(job) = picked(&alive, pick) else { return Ok(()) };
        let result = self.world.store().cancel_job(self.jobs[job]).await;
        let Some(answer) = self.heard(result)? else { return Ok(()) };
        if matches!(self.model.jobs[job].place, Whereabouts::Running(_)) {
            self.model.request_cancel(job, ErrorCode::Cancelled);
            agree("cancel", answer, Cancelled::Requested)
        } else {
            self.model.close_unstarted(job, ErrorCode::Cancelled);
            agree("cancel", answer, Cancelled::BeforeStart)
        }
    }

    async fn reserve(&mut self, queue: usize, seconds: i64) -> Agreement {
        let result = self.world.store().reserve_queue(QUEUES[queue], "somebody", secs(seconds)).await;
        let now = self.model.now;
        let line = self.model.line(QUEUES[queue]);
        let free = line.held_until.is_none_or(|until| until <= now);
        match result {
            Ok(hold) if free => {
                line.held_until = Some(now + seconds * model::SECOND);
                self.holds.insert(queue, hold.id);
                Ok(())
            }
            Err(_) if !free || self.refusing => Ok(()),
            result => Err(format!("reserve: free is {free}, the store says {result:?}")),
        }
    }

    async fn release(&mut self, queue: usize) -> Agreement {
        let Some(hold) = self.holds.get(&queue).copied() else { return Ok(()) };
        let result = self.world.store().release_reservation(hold).await;
        if self.heard(result)?.is_some() {
            self.model.line(QUEUES[queue]).held_until = None;
        }
        Ok(())
    }

    async fn set_paused(&mut self, queue: usize, on: bool) -> Agreement {
        let result = self.world.store().set_queue_paused(QUEUES[queue], on).await;
        if self.heard(result)?.is_some() {
            self.model.line(QUEUES[queue]).paused = on;
        }
        Ok(())
    }

    // --- nodes and runs ----------------------------------------------------------------------------------------------

    fn leased(&self) -> Vec<usize> {
        (0..self.leases.len()).filter(|index| self.model.nodes[*index].leased).collect()
    }

    async fn register(&mut self) -> Agreement {
        let node = NewNode { name: "node".to_owned(), offers: vec![WORK.to_owned()] };
        let result = self.world.store().register_node(node).await;
        if let Some(lease) = self.heard(result)? {
            let counter = self.world.counter(lease).await.ok_or("a new node is watched")?;
            self.leases.push(lease);
            self.model.nodes.push(model::Node { leased: true, counter });
        }
        Ok(())
    }

    async fn beat(&mut self, pick: usize) -> Agreement {
        let Some(node) = picked(&self.leased(), pick) else { return Ok(()) };
        let result = self.world.store().heartbeat_if_leased(self.leases[node]).await;
        let Some(beat) = self.heard(result)? else { return Ok(()) };
        self.model.nodes[node].counter += 1;
        agree("the counter", beat.counter, self.model.nodes[node].counter)?;
        let of_node = |place: &Whereabouts, cancelled: bool| matches!(place, Whereabouts::Running(run) if run.node == node && (run.cancel.is_some() || !cancelled));
        let ids = |jobs: Vec<usize>| sorted(jobs.into_iter().map(|job| self.jobs[job]).collect());
        agree("what runs", sorted(beat.running), ids(self.where_it_is(|place| of_node(place, false))))?;
        agree("what is to stop", sorted(beat.cancel_requested), ids(self.where_it_is(|place| of_node(place, true))))
    }

    async fn claim(&mut self, pick: usize, queue: usize, limit: usize) -> Agreement {
        let Some(node) = picked(&self.leased(), pick) else { return Ok(()) };
        let mut request = claim_request(self.leases[node], limit);
        request.queues = vec![QUEUES[queue].to_owned()];
        let result = self.world.store().claim_jobs_if_leased(request).await;
        let Some(claimed) = self.heard(result)? else { return Ok(()) };
        let expected: Vec<JobId> =
            self.model.claim(node, QUEUES[queue], limit).into_iter().map(|job| self.jobs[job]).collect();
        agree("what is handed out", claimed.into_iter().map(|claimed| claimed.job.id).collect(), expected)
    }

    fn running(&self, pick: usize) -> Option<(usize, usize)> {
        let job = picked(&self.where_it_is(|place| matches!(place, Whereabouts::Running(_))), pick)?;
        match &self.model.jobs[job].place {
            Whereabouts::Running(running) => Some((job, running.node)),
            _ => None,
        }
    }

    async fn finish(&mut self, pick: usize, ending: Ending) -> Agreement {
        let Some((job, node)) = self.running(pick) else { return Ok(()) };
        let id = self.jobs[job];
        let (report, ending) = match ending {
            Ending::Completed => (FinishedRun::completed(id), model::Ending::Completed),
            Ending::Failed(code) => (FinishedRun::failed(id, code, "it broke"), model::Ending::Failed(code)),
            Ending::Cancelled => {
                let report = FinishedRun { outcome: Outcome::Cancelled, ..FinishedRun::completed(id) };
                (report, model::Ending::Cancelled)
            }
        };
        let result = self.world.store().finish_runs_if_leased(self.leases[node], vec![report]).await;
        let Some(answer) = self.heard(result)? else { return Ok(()) };
        let expected = self.model.finish(job, ending);
        match (answer.as_slice(), expected) {
            ([FinishResult::Closed { retry: Some(id) }], Some(_)) => {
                self.jobs.push(*id);
                Ok(())
            }
            ([FinishResult::Closed { retry: None }], None) => Ok(()),
            (answer, expected) => Err(format!("finish: the model's retry is {expected:?}, the store says {answer:?}")),
        }
    }

    async fn finish_falsely(&mut self, pick: usize, node: usize) -> Agreement {
        let everyone: Vec<usize> = (0..self.leases.len()).collect();
        let (Some((job, holder)), Some(liar)) = (self.running(pick), picked(&everyone, node)) else { return Ok(()) };
        if liar == holder {
            return Ok(());
        }
        let report = vec![FinishedRun::completed(self.jobs[job])];
        match self.world.store().finish_runs_if_leased(self.leases[liar], report).await {
            Ok(answer) => agree("a false end", answer, vec![FinishResult::LostLease]),
            Err(_) => Ok(()),
        }
    }

    async fn give_back(&mut self, pick: usize) -> Agreement {
        let Some((job, node)) = self.running(pick) else { return Ok(()) };
        let Whereabouts::Running(running) = &self.model.jobs[job].place else { return Ok(()) };
        let moves = self.model.lines.get(&self.model.jobs[job].spec.queue).map(|line| line.moves);
        // Where its place is after others were moved around it, nobody says.
        if running.cancel.is_some() || moves != Some(running.moves_seen) {
            return Ok(());
        }
        let result = self.world.store().give_back_if_leased(self.leases[node], vec![self.jobs[job]]).await;
        let Some(given) = self.heard(result)? else { return Ok(()) };
        self.model.give_back(job);
        agree("what went back", given, vec![self.jobs[job]])
    }

    async fn recover(&mut self, pick: usize) -> Agreement {
        let Some(node) = picked(&self.leased(), pick) else { return Ok(()) };
        let lost = vec![LostNode { lease: self.leases[node], counter: self.model.nodes[node].counter }];
        let result = self.world.store().recover_lost_nodes(lost).await;
        let Some(recovered) = self.heard(result)? else { return Ok(()) };
        self.compare_recovered(&[node], recovered)
    }

    /// Closes in the model what lost nodes left, and compares.
    pub(crate) fn compare_recovered(&mut self, lost: &[usize], recovered: Recovered) -> Agreement {
        // The store may close them in any order; the retries are queued in that order.
        let order: Vec<usize> =
            recovered.closed.iter().filter_map(|id| self.jobs.iter().position(|job| job == id)).collect();
        let (closed, retries) = self.model.recover(lost, &order);
        agree("what was closed", recovered.closed, closed.into_iter().map(|job| self.jobs[job]).collect())?;
        agree("how many retries", recovered.retries.len(), retries.len())?;
        self.jobs.extend(recovered.retries);
        Ok(())
    }
}

fn sorted(mut ids: Vec<JobId>) -> Vec<JobId> {
    ids.sort_unstable();
    ids
}

/// How a stored schedule holds its slots back: any way is right that the model finds within bounds.
fn spread_of(schedule: Option<&Schedule>) -> Spread {
    let Some(schedule) = schedule.filter(|schedule| schedule.definition.jitter.is_positive()).cloned() else {
        return Spread::default();
    };
    Spread(Some(std::sync::Arc::new(move |slot| {
        schedule.slots().expect("it was understood before").due_at(at(slot)).as_microsecond()
    })))
}

/// A job as the store is asked for it.
fn stored_job(spec: &Spec, run_at: Option<i64>) -> NewJob {
    let mut policy = retry(spec.max_attempts, SignedDuration::from_micros(spec.wait));
    policy.max_interruptions = spec.max_interruptions;
    NewJob {
        queue: spec.queue.clone(),
        priority: spec.priority,
        serial_key: spec.key.clone(),
        input: json(&spec.input.to_string()),
        retry: policy,
        run_at: run_at.map(at),
        ..job()
    }
}
