//! The seven days before the demo: the store's own verbs and the engine's own passes, on a clock that is turned.
//!
//! Nothing is written by hand. Nodes come, fire what is due, claim, tell, finish and are lost, each at its time; only
//! the work itself is not done, because its script says what comes of it.

mod story;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{ClaimId, JobId};
use punctual_core::job::NewJob;
use punctual_core::records::{LogChunk, LogLine};
use punctual_core::schedule::{Schedule, ScheduleDefinition};
use punctual_core::store::{
    ClaimRequest, ClaimedJob, Clock, FinishResult, FinishedRun, Lease, LostNode, NewNode, Store, StoreResult,
};
use punctual_core::virtual_clock::VirtualClock;
use punctual_engine::fire::fire_once;
use punctual_engine::offers::settle_offers_once;
use uuid::Uuid;

use self::story::Turn;
use super::cast::{self, ORPHAN, offer, offers};
use super::script::{Script, World};
use super::traffic;

/// How many jobs a node of the past runs at once.
const ROOM: usize = 6;

/// How many schedules one pass decides together.
const PAGE: usize = 100;

/// How long it takes until somebody notices that a node is gone.
const NOTICED_AFTER: SignedDuration = SignedDuration::from_secs(15);

/// The past while it is written.
pub(super) struct Past<'s> {
    store: &'s dyn Store,
    clock: &'s VirtualClock,
    world: &'s World,
    nodes: Vec<Node>,
    /// The schedules by name, as they were made.
    schedules: BTreeMap<String, Schedule>,
    /// What happens, in order of time; the number keeps apart what happens at once.
    agenda: BTreeMap<(Timestamp, u64), Happening>,
    planned: u64,
    /// When something is due next.
    due: Option<Timestamp>,
    /// Whether work was left because every node had its hands full.
    left_over: bool,
    /// Nodes that are gone, and that nobody has given up yet.
    lost: Vec<LostNode>,
    /// How many runs have ended.
    runs: u64,
}

/// A node of the past.
struct Node {
    name: &'static str,
    offers: Vec<String>,
    /// Its right to work, while it is there.
    lease: Option<Lease>,
    running: BTreeSet<JobId>,
}

enum Happening {
    Visit(Vec<NewJob>),
    End(Box<RunEnd>),
    Turn(Turn),
}

/// A run that comes to its end.
struct RunEnd {
    lease: Lease,
    job: JobId,
    /// Whether another job may have waited for it.
    serial: bool,
    started_at: Timestamp,
    script: Script,
    /// How it ends, if not by its script.
    stopped: Option<FinishedRun>,
}

impl<'s> Past<'s> {
    pub(super) fn new(store: &'s dyn Store, clock: &'s VirtualClock, world: &'s World) -> Past<'s> {
        let node = |name, offers| Node { name, offers, lease: None, running: BTreeSet::new() };
        Past {
            store,
            clock,
            world,
            nodes: vec![node("web-1", offers()), node("web-2", offers()), node("warehouse-1", vec![offer(ORPHAN)])],
            schedules: BTreeMap::new(),
            agenda: BTreeMap::new(),
            planned: 0,
            due: None,
            left_over: false,
            lost: Vec::new(),
            runs: 0,
        }
    }

    /// Writes everything, and leaves the store as nodes do that were shut down a moment ago; says how many runs ended.
    pub(super) async fn write(mut self) -> StoreResult<u64> {
        self.begin().await?;
        while let Some(at) = self.next_instant().filter(|at| *at < self.world.present) {
            self.clock.set(at.max(self.clock.now()));
            let new_work = self.step(at).await?;
            self.claim(new_work).await?;
        }
        self.clock.set(self.world.present);
        for number in 0..self.nodes.len() {
            self.leave(number).await?;
        }
        Ok(self.runs)
    }

    async fn begin(&mut self) -> StoreResult<()> {
        self.clock.set(self.world.origin);
        for number in 0..self.nodes.len() {
            self.start_node(number).await?;
        }
        for definition in cast::schedules()? {
            self.create(definition).await?;
        }
        if let Some(sync) = self.schedules.get(cast::FAILING) {
            let definition = cast::invoice_pdf(sync.id)?;
            self.create(definition).await?;
        }
        settle_offers_once(self.store).await?;
        for (at, jobs) in traffic::of_the_past(self.world)? {
            self.plan(at, Happening::Visit(jobs));
        }
        for (at, turn) in story::turns(self.world) {
            self.plan(at, Happening::Turn(turn));
        }
        self.look_for_due().await
    }

    async fn create(&mut self, definition: ScheduleDefinition) -> StoreResult<()> {
        let name = definition.name.as_str().to_owned();
        let schedule = self.store.create_schedule(definition).await?;
        self.schedules.insert(name, schedule);
        Ok(())
    }

    fn plan(&mut self, at: Timestamp, happening: Happening) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), happening);
    }

    /// When something happens next. What is due waits until there is a node, and is noticed a moment late.
    fn next_instant(&self) -> Option<Timestamp> {
        let happens = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let fires = self.due.filter(|_| self.nodes.iter().any(|node| node.lease.is_some()));
        let fires = fires.map(|due| due.max(self.clock.now()) + self.world.dice("late", due).between_ms(1, 35));
        happens.into_iter().chain(fires).min()
    }

    /// Lets happen what is next; says how many jobs there may be to claim.
    async fn step(&mut self, at: Timestamp) -> StoreResult<usize> {
        let happens = self.agenda.first_entry().filter(|entry| entry.key().0 <= at);
        match happens.map(std::collections::btree_map::OccupiedEntry::remove) {
            None => self.fire().await,
            Some(Happening::Visit(jobs)) => self.visit(jobs).await,
            Some(Happening::End(end)) => self.finish(*end).await,
            Some(Happening::Turn(turn)) => self.take_turn(turn).await,
        }
    }

    async fn fire(&mut self) -> StoreResult<usize> {
        let node = self.nodes.iter().find_map(|node| node.lease).map(|lease| lease.node_id);
        let pass = fire_once(self.store, node, PAGE).await?;
        self.look_for_due().await?;
        Ok(pass.jobs + pass.promoted)
    }

    async fn look_for_due(&mut self) -> StoreResult<()> {
        let wait = self.store.next_due_in().await?;
        self.due = wait.map(|wait| self.clock.now().saturating_add(wait).unwrap_or(Timestamp::MAX));
        Ok(())
    }

    async fn visit(&mut self, jobs: Vec<NewJob>) -> StoreResult<usize> {
        // Nobody visits a shop without power.
        if self.nodes.iter().all(|node| node.lease.is_none()) {
            return Ok(0);
        }
        Ok(self.store.enqueue_jobs(jobs).await?.len())
    }

    /// Hands out so many jobs, a moment later; whoever has least to do is asked first.
    async fn claim(&mut self, mut wanted: usize) -> StoreResult<()> {
        if wanted == 0 {
            return Ok(());
        }
        let now = self.clock.now();
        self.clock.set(now + self.world.dice("claim", now).between_ms(1, 12));
        let mut order: Vec<_> = (0..self.nodes.len()).collect();
        order.sort_by_key(|number| self.nodes.get(*number).map(|node| node.running.len()));
        for number in order {
            if wanted > 0 {
                wanted = wanted.saturating_sub(self.claim_for(number).await?);
            }
        }
        self.left_over = wanted > 0 && self.nodes.iter().any(|node| node.running.len() >= ROOM);
        Ok(())
    }

    async fn claim_for(&mut self, number: usize) -> StoreResult<usize> {
        let Some(node) = self.nodes.get(number) else { return Ok(0) };
        let limit = ROOM.saturating_sub(node.running.len());
        let Some(lease) = node.lease.filter(|_| limit > 0) else { return Ok(0) };
        let request = ClaimRequest {
            lease,
            claim_id: ClaimId(Uuid::new_v4()),
            queues: Vec::new(),
            job_types: node.offers.clone(),
            limit,
        };
        let claimed = self.store.claim_jobs_if_leased(request).await?;
        let count = claimed.len();
        for job in claimed {
            self.start_run(number, lease, job);
        }
        Ok(count)
    }

    fn start_run(&mut self, number: usize, lease: Lease, claimed: ClaimedJob) {
        let ClaimedJob { job, started_at } = claimed;
        let script = self.world.script(&job, started_at);
        let ends_at = started_at + script.takes;
        let serial = job.spec.serial_key.is_some();
        let end = RunEnd { lease, job: job.id, serial, started_at, script, stopped: None };
        self.plan(ends_at, Happening::End(Box::new(end)));
        if let Some(node) = self.nodes.get_mut(number) {
            node.running.insert(job.id);
        }
    }

    /// Reports the end of a run, and before it what the run told; both share a commit.
    async fn finish(&mut self, end: RunEnd) -> StoreResult<usize> {
        // Whoever was lost meanwhile reports nothing.
        let Some(node) = self.nodes.iter_mut().find(|node| node.lease == Some(end.lease)) else { return Ok(0) };
        node.running.remove(&end.job);
        if let (Some((name, text)), None) = (&end.script.artifact, &end.stopped) {
            let contents = text.clone().into_bytes();
            self.store.keep_artifact_if_leased(end.lease, end.job, name, contents).await?;
        }
        let chunk = end.log(self.clock.now());
        let report = end.stopped.clone().unwrap_or_else(|| end.script.end(end.job));
        let (told, finished) = tokio::join!(
            self.store.append_log_if_leased(end.lease, vec![chunk]),
            self.store.finish_runs_if_leased(end.lease, vec![report])
        );
        told?;
        self.runs += 1;
        if matches!(finished?.as_slice(), [FinishResult::Closed { retry: Some(_) }]) {
            self.look_for_due().await?;
        }
        Ok(usize::from(end.serial || self.left_over))
    }

    async fn start_node(&mut self, number: usize) -> StoreResult<()> {
        let Some(node) = self.nodes.get_mut(number) else { return Ok(()) };
        let new = NewNode { name: node.name.to_owned(), offers: node.offers.clone() };
        node.lease = Some(self.store.register_node(new).await?);
        Ok(())
    }

    /// A node is gone without a word. Others notice that its counter stands still.
    async fn lose_node(&mut self, number: usize) -> StoreResult<()> {
        let pulses = self.store.node_pulses().await?;
        let Some(node) = self.nodes.get_mut(number) else { return Ok(()) };
        let Some(lease) = node.lease.take() else { return Ok(()) };
        node.running.clear();
        let pulse = pulses.into_iter().find(|pulse| pulse.lease_id == lease.lease_id);
        self.lost.extend(pulse.map(|pulse| LostNode { lease, counter: pulse.counter }));
        Ok(())
    }

    /// Judges what lost nodes left behind; says how many jobs are tried again.
    async fn recover(&mut self) -> StoreResult<usize> {
        let recovered = self.store.recover_lost_nodes(std::mem::take(&mut self.lost)).await?;
        self.look_for_due().await?;
        Ok(recovered.retries.len())
    }

    /// A node goes in good order: what it has claimed is given back to its place.
    async fn leave(&mut self, number: usize) -> StoreResult<()> {
        let Some(node) = self.nodes.get_mut(number) else { return Ok(()) };
        let Some(lease) = node.lease.take() else { return Ok(()) };
        let running: Vec<_> = std::mem::take(&mut node.running).into_iter().collect();
        if !running.is_empty() {
            self.store.give_back_if_leased(lease, running).await?;
        }
        self.store.leave_if_leased(lease).await
    }
}

impl RunEnd {
    /// What the run said until now.
    fn log(&self, now: Timestamp) -> LogChunk {
        let told = self.script.told().map(|(after, stream, text)| (self.started_at + after, stream, text.to_owned()));
        let told = told.take_while(|(at, _, _)| *at <= now).zip(1..);
        let lines: Vec<_> = told.map(|((at, stream, text), sequence)| LogLine { sequence, at, stream, text }).collect();
        let progress = self.script.progress(lines.len());
        LogChunk { job_id: self.job, lines, progress }
    }

    /// The same run, stopped before its time.
    fn stopped(self, report: FinishedRun) -> RunEnd {
        RunEnd { stopped: Some(report), ..self }
    }
}
