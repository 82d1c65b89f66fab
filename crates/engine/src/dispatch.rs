//! The desk of a node: claims jobs up to its room, starts them, and reports how they ended.
//!
//! Reports and claims go to the store together. While they are on their way more jobs come to their end, so that
//! under load reports are grouped by themselves, and on an idle node each is sent at once.

use crate::clock::Uptime;
use crate::lease::HeldLease;
use crate::measure::{Stopwatch, tell_claim};
use crate::notify::NewsBell;
use crate::phase::Phase;
use crate::scribe::Scribe;
use crate::stop::StopHandle;
use crate::traced::{TracedRun, log_span};
use crate::work::{Executors, run_job};
use punctual_core::closing::Again;
use punctual_core::execute::{StopReason, stopped};
use punctual_core::id::{ClaimId, JobId};
use punctual_core::limits::Claimed;
use punctual_core::meter::{RunEnd, StoreVerb};
use punctual_core::store::{
    ClaimRequest, ClaimedJob, FinishResult, FinishedRun, Heartbeat, Store, StoreError, StoreResult,
};
use punctual_core::trace::{NoTracer, Tracer};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tracing::Instrument;

/// How much a node takes on.
#[derive(Debug, Clone)]
pub struct DeskOptions {
    /// Jobs that run at once.
    pub room: usize,
    /// Jobs that are claimed ahead, so that a free place is filled without asking the store.
    pub prefetch: usize,
    /// Only these queues; all when empty.
    pub queues: Vec<String>,
    /// How long a run may take to end after it is told to stop.
    pub grace: Duration,
}

/// What one exchange with the store did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exchange {
    /// Jobs that were claimed.
    pub claimed: usize,
    /// Runs that were closed.
    pub closed: usize,
    /// Runs that had been given to somebody else: nothing was overwritten.
    pub refused: usize,
    /// When the next job that a rate keeps back may start.
    pub more_in: Option<Duration>,
}

/// The runs of a node, shared with whoever may have to stop them.
#[derive(Debug, Clone, Default)]
pub struct RunningSet(Arc<Mutex<BTreeMap<JobId, RunningJob>>>);

/// One run of this node.
#[derive(Debug, Clone)]
struct RunningJob {
    stop: StopHandle,
    /// When the answer to its claim had come, on the node's own clock.
    since: Duration,
    /// When it began, on the same.
    began_at: Duration,
    /// The kind of its target.
    kind: &'static str,
}

/// A job that was claimed ahead.
struct WaitingJob {
    claimed: ClaimedJob,
    /// When the answer to its claim had come, on the node's own clock.
    since: Duration,
}

impl WaitingJob {
    fn id(&self) -> JobId {
        self.claimed.job.id
    }
}

impl RunningSet {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<JobId, RunningJob>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells one run to stop, if it is here.
    pub fn stop(&self, id: JobId, reason: StopReason) {
        if let Some(run) = self.lock().get(&id) {
            run.stop.stop(reason);
        }
    }

    /// Tells all runs to stop.
    pub fn stop_all(&self, reason: StopReason) {
        self.lock().values().for_each(|run| run.stop.stop(reason));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The desk of one node under one lease.
pub struct Desk {
    store: Arc<dyn Store>,
    lease: HeldLease,
    executors: Executors,
    options: DeskOptions,
    uptime: Uptime,
    running: RunningSet,
    scribe: Arc<Scribe>,
    stopwatch: Stopwatch,
    news: NewsBell,
    tracer: Arc<dyn Tracer>,
    tasks: JoinSet<FinishedRun>,
    /// Claimed and not started.
    waiting: VecDeque<WaitingJob>,
    /// Ended and not reported.
    ended: Vec<FinishedRun>,
    /// Jobs that the store says are ours and that we do not know, as of the last heartbeat.
    strays: BTreeSet<JobId>,
    /// What left the desk, and when: a heartbeat that was sent before may still name it.
    left: Vec<(JobId, Duration)>,
}

impl Desk {
    /// An empty desk.
    pub fn new(
        store: Arc<dyn Store>, lease: HeldLease, executors: Executors, options: DeskOptions, uptime: Uptime,
        running: RunningSet,
    ) -> Self {
        Self {
            scribe: Arc::new(Scribe::start(Arc::clone(&store), lease.lease)),
            store,
            lease,
            executors,
            options,
            uptime,
            running,
            stopwatch: Stopwatch::unread(),
            news: NewsBell::default(),
            tracer: Arc::new(NoTracer),
            tasks: JoinSet::new(),
            waiting: VecDeque::new(),
            ended: Vec::new(),
            strays: BTreeSet::new(),
            left: Vec::new(),
        }
    }

    /// Tells what it does to whoever counts.
    pub(crate) fn measured(self, stopwatch: Stopwatch) -> Self {
        Self { stopwatch, ..self }
    }

    /// Rings when runs have ended: there may be news about them.
    pub(crate) fn telling(self, news: NewsBell) -> Self {
        Self { news, ..self }
    }

    /// Hands the spans of its runs to whoever keeps them.
    pub(crate) fn traced(self, tracer: Arc<dyn Tracer>) -> Self {
        Self { tracer, ..self }
    }

    /// How many more jobs it would take.
    pub fn free(&self) -> usize {
        let taken = self.running.len() + self.waiting.len();
        (self.options.room + self.options.prefetch).saturating_sub(taken)
    }

    /// Whether everything that was claimed has been reported.
    pub fn is_clear(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty() && self.ended.is_empty()
    }

    /// How many runs are going on.
    pub fn runs(&self) -> usize {
        self.running.len()
    }

    /// Which runs are going on.
    pub fn running_jobs(&self) -> Vec<JobId> {
        self.running.lock().keys().copied().collect()
    }

    /// Tells all runs to stop.
    pub fn stop_all(&self, reason: StopReason) {
        self.running.stop_all(reason);
    }

    /// Waits until a run has ended; for ever when there is none.
    pub async fn next_end(&mut self) {
        match self.tasks.join_next().await {
            Some(end) => self.note_end(end),
            None => std::future::pending().await,
        }
        while let Some(end) = self.tasks.try_join_next() {
            self.note_end(end);
        }
    }

    fn note_end(&mut self, end: Result<FinishedRun, tokio::task::JoinError>) {
        match end {
            Ok(end) => {
                let run = self.running.lock().remove(&end.job_id);
                if let Some(run) = run {
                    self.count_end(&run, &end);
                    self.tell_work();
                }
                self.ended.push(end);
            }
            // Runs are not aborted one by one, and panics are caught inside; the lease's end cleans up what is left.
            Err(error) => tracing::error!("a run's task was lost: {error}"),
        }
    }

    fn tell_work(&self) {
        self.stopwatch.meter.at_work(self.running.len(), self.options.room);
    }

    fn count_end(&self, run: &RunningJob, end: &FinishedRun) {
        // A flow that goes on with its steps has not ended, and its own end comes without a node.
        if end.again == Again::BySteps {
            return;
        }
        let took = self.uptime.now().saturating_sub(run.began_at);
        let (outcome, error_code) = (end.outcome, end.error_code);
        self.stopwatch.meter.run_ended(RunEnd { kind: run.kind, outcome, error_code, took });
    }

    /// Reports what has ended and claims what there is room for, both at once. Nothing is lost when the store
    /// cannot be reached: the reports stay here, and a claim whose answer was lost is found by the heartbeat. Nothing is
    /// started when the lease does not hold any more.
    pub async fn exchange(&mut self, claim: bool) -> StoreResult<Exchange> {
        let reports = std::mem::take(&mut self.ended);
        let limit = if claim { self.free() } else { 0 };
        let (reported, claimed) = tokio::join!(self.report(&reports), self.claim(limit));
        let mut done = Exchange::default();
        // What was claimed is ours, whatever became of the reports.
        let claimed = claimed.map(|claimed| {
            done.claimed = claimed.len();
            done.more_in = claimed.more_in.map(jiff::SignedDuration::unsigned_abs);
            let since = self.uptime.now();
            self.waiting.extend(claimed.into_iter().map(|claimed| WaitingJob { claimed, since }));
        });
        // The answers may have been long on their way: what others may have taken over by now must not be started. And
        // who claims nothing is about to leave: what waits is on its way back.
        let held = self.lease.holds(self.uptime.now());
        if claim && held {
            self.start_waiting();
        }
        match reported {
            Ok(results) => {
                let done_with =
                    |result: &&FinishResult| matches!(result, FinishResult::Closed { .. } | FinishResult::GoesOn);
                done.closed = results.iter().filter(done_with).count();
                // Lost, or ended already: either way the record stands, and there is nothing more to report.
                done.refused = results.len() - done.closed;
                let now = self.uptime.now();
                self.left.extend(reports.iter().map(|report| (report.job_id, now)));
            }
            Err(error) => {
                self.ended.extend(reports);
                return Err(error);
            }
        }
        if !held {
            return Err(StoreError::LostLease);
        }
        claimed.map(|()| done)
    }

    async fn report(&self, reports: &[FinishedRun]) -> StoreResult<Vec<FinishResult>> {
        if reports.is_empty() {
            return Ok(Vec::new());
        }
        let _phase = Phase::enter("finish");
        let finish = self.store.finish_runs_if_leased(self.lease.lease, reports.to_vec());
        let results = match self.stopwatch.time(StoreVerb::Finish, finish).await {
            // One report that cannot be stored must not hold up the others.
            Err(StoreError::Internal(_) | StoreError::Invalid(_)) => self.report_one_by_one(reports).await?,
            results => results?,
        };
        let refused = results.iter().filter(|result| matches!(result, FinishResult::LostLease)).count();
        self.stopwatch.meter.runs_reported(results.len(), refused);
        self.news.ring();
        if refused > 0 {
            tracing::warn!(refused, "reports came too late and were refused; the record stays as it is");
        }
        Ok(results)
    }

    async fn report_one_by_one(&self, reports: &[FinishedRun]) -> StoreResult<Vec<FinishResult>> {
        let mut results = Vec::with_capacity(reports.len());
        for report in reports {
            match self.store.finish_runs_if_leased(self.lease.lease, vec![report.clone()]).await {
                Ok(result) => results.extend(result),
                Err(error @ (StoreError::Internal(_) | StoreError::Invalid(_))) => {
                    let words = format!("its end could not be stored: {error}");
                    let plain = FinishedRun::failed(report.job_id, punctual_core::run::ErrorCode::Internal, words);
                    results.extend(self.store.finish_runs_if_leased(self.lease.lease, vec![plain]).await?);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(results)
    }

    async fn claim(&self, limit: usize) -> StoreResult<Claimed> {
        if limit == 0 {
            return Ok(Claimed::default());
        }
        let request = ClaimRequest {
            lease: self.lease.lease,
            claim_id: ClaimId(uuid::Uuid::new_v4()),
            queues: self.options.queues.clone(),
            job_types: self.executors.job_types(),
            limit,
        };
        let _phase = Phase::enter("claim");
        let claimed = self.stopwatch.time(StoreVerb::Claim, self.store.claim_jobs_if_leased(request)).await?;
        tell_claim(&*self.stopwatch.meter, &claimed);
        Ok(claimed)
    }

    /// Starts what was claimed, as far as there is room.
    fn start_waiting(&mut self) {
        while self.running.len() < self.options.room
            && let Some(WaitingJob { claimed, since }) = self.waiting.pop_front()
        {
            let (stop, id, kind) = (StopHandle::default(), claimed.job.id, claimed.job.spec.target.kind());
            let began_at = self.uptime.now();
            self.running.lock().insert(id, RunningJob { stop: stop.clone(), since, began_at, kind });
            let (executors, grace, scribe) = (self.executors.clone(), self.options.grace, Arc::clone(&self.scribe));
            let log_span = log_span(&claimed);
            let waited = began_at.saturating_sub(since);
            let traced = TracedRun::begin(Arc::clone(&self.tracer), &claimed, waited, self.uptime);
            let run = async move {
                let end = run_job(&executors, claimed, stop, grace, &scribe).await;
                traced.end(&end);
                end
            };
            self.tasks.spawn(run.instrument(log_span));
        }
        self.tell_work();
    }

    /// Acts on a heartbeat's answer: stops what is to be stopped, and says which jobs the store believes to be ours
    /// although we know nothing of them, twice in a row: the answer to their claim was lost.
    ///
    /// An answer is a look into the past: what was claimed after the beat was sent cannot be in it.
    pub fn hear(&mut self, beat: &Heartbeat, sent_at: Duration) -> Vec<JobId> {
        for id in &beat.cancel_requested {
            self.running.stop(*id, StopReason::Cancelled);
        }
        self.sort_out_waiting(beat, sent_at);
        self.left.retain(|(_, at)| *at >= sent_at);
        let known = self.known();
        // What the store does not count as ours any more was taken away; it must end without a trace.
        for (id, run) in self.running.lock().iter() {
            if run.since < sent_at && !beat.running.contains(id) {
                run.stop.stop(StopReason::Fenced);
            }
        }
        let unknown: BTreeSet<_> = beat.running.iter().filter(|id| !known.contains(id)).copied().collect();
        let strays = unknown.intersection(&self.strays).copied();
        // What was cancelled cannot be given back: nobody wants it any more.
        let (cancelled, strays): (Vec<_>, Vec<_>) = strays.partition(|id| beat.cancel_requested.contains(id));
        self.ended.extend(cancelled.into_iter().map(|id| stopped(id, StopReason::Cancelled)));
        self.strays = unknown;
        strays
    }

    /// What was cancelled before it started is at its end, and what was taken away is forgotten.
    fn sort_out_waiting(&mut self, beat: &Heartbeat, sent_at: Duration) {
        let ended = &mut self.ended;
        self.waiting.retain(|waiting| {
            let cancelled = beat.cancel_requested.contains(&waiting.id());
            if cancelled {
                ended.push(stopped(waiting.id(), StopReason::Cancelled));
            }
            !cancelled && (waiting.since >= sent_at || beat.running.contains(&waiting.id()))
        });
    }

    fn known(&self) -> BTreeSet<JobId> {
        let waiting = self.waiting.iter().map(WaitingJob::id);
        let ended = self.ended.iter().map(|end| end.job_id);
        let left = self.left.iter().map(|(id, _)| *id);
        self.running.lock().keys().copied().chain(waiting).chain(ended).chain(left).collect()
    }

    /// Gives jobs back that never started; says how many went back.
    pub async fn give_back(&self, jobs: Vec<JobId>) -> StoreResult<usize> {
        Ok(self.take_back(jobs).await?.len())
    }

    async fn take_back(&self, jobs: Vec<JobId>) -> StoreResult<Vec<JobId>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        self.store.give_back_if_leased(self.lease.lease, jobs).await
    }

    /// Gives back everything that was claimed ahead. What does not go back stays: the next heartbeat tells why.
    pub async fn give_back_waiting(&mut self) -> StoreResult<usize> {
        let given = self.take_back(self.waiting.iter().map(WaitingJob::id).collect()).await?;
        self.waiting.retain(|waiting| !given.contains(&waiting.id()));
        Ok(given.len())
    }

    /// Stops everything at once and forgets it: the lease is lost, and others decide what becomes of the runs.
    pub async fn drop_everything(&mut self) {
        self.running.stop_all(StopReason::Fenced);
        self.tasks.shutdown().await;
        self.running.lock().clear();
        self.waiting.clear();
        self.ended.clear();
        self.tell_work();
    }
}
