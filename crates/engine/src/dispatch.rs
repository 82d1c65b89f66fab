//! The desk of a node: claims jobs up to its room, starts them, and reports how they ended.
//!
//! Reports and claims go to the store together. While they are on their way more jobs come to their end and those that
//! were claimed ahead take their places, so that under load reports are grouped by themselves, and on an idle node each
//! is sent at once. The faster jobs end, the more are claimed ahead; what then has to wait goes back.

use crate::clock::Uptime;
use crate::floor::Floor;
pub use crate::floor::RunningSet;
use crate::lease::HeldLease;
use crate::measure::Stopwatch;
use crate::messenger::Messenger;
use crate::notify::NewsBell;
pub use crate::pace::BATCH;
use crate::pace::Pace;
use crate::scribe::Scribe;
use crate::stuck::patrol;
use crate::talk::{Talk, next_of};
use crate::work::Executors;
use punctual_core::execute::{StopReason, stopped};
use punctual_core::id::JobId;
use punctual_core::limits::Claimed;
use punctual_core::store::{FinishResult, Heartbeat, Store, StoreError, StoreResult};
use punctual_core::trace::{NoTracer, Tracer};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a job that was claimed ahead may wait for a place before it goes back, unless it is one of the few that
/// every node claims ahead.
const PATIENCE: Duration = Duration::from_millis(250);

/// The most jobs that go back in one transaction.
const GIVEN_BACK: usize = 1000;

/// How long a desk that drops everything waits for its places: one that blocks its thread must not keep it.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// How much a node takes on.
#[derive(Debug, Clone)]
pub struct DeskOptions {
    /// Jobs that run at once.
    pub room: usize,
    /// Jobs that are claimed ahead, so that a free place is filled without asking the store; many more while they end
    /// fast. None are claimed ahead when this is 0.
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

impl Exchange {
    pub(crate) fn count(&mut self, results: &[FinishResult]) {
        let done_with = |result: &&FinishResult| matches!(result, FinishResult::Closed { .. } | FinishResult::GoesOn);
        let closed = results.iter().filter(done_with).count();
        self.closed += closed;
        // Lost, or ended already: either way the record stands, and there is nothing more to report.
        self.refused += results.len() - closed;
    }
}

/// The desk of one node under one lease.
pub struct Desk {
    store: Arc<dyn Store>,
    options: DeskOptions,
    news: NewsBell,
    floor: Arc<Floor>,
    /// One task for each place in use.
    places: JoinSet<()>,
    /// The one that looks after them from outside.
    patrol: JoinSet<()>,
    /// How many runs had ended when their reports were taken: whoever waits for an end hears of those behind them.
    seen_ends: u64,
    /// How many are worth claiming ahead.
    pace: Pace,
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
        let floor = Floor {
            jobs: running,
            room: options.room,
            grace: options.grace,
            scribe: Scribe::start(Arc::clone(&store), lease.lease),
            lease,
            executors,
            uptime,
            stopwatch: Stopwatch::unread(),
            tracer: Arc::new(NoTracer),
            begun: Notify::new(),
        };
        let pace = Pace::new(options.prefetch, floor.jobs.lock().ends, uptime.now());
        Self {
            store,
            pace,
            options,
            news: NewsBell::default(),
            floor: Arc::new(floor),
            places: JoinSet::new(),
            patrol: JoinSet::new(),
            seen_ends: 0,
            strays: BTreeSet::new(),
            left: Vec::new(),
        }
    }

    /// Tells what it does to whoever counts.
    pub(crate) fn measured(mut self, stopwatch: Stopwatch) -> Self {
        self.set_up(|floor| floor.stopwatch = stopwatch);
        self
    }

    /// Rings when runs have ended: there may be news about them.
    pub(crate) fn telling(self, news: NewsBell) -> Self {
        Self { news, ..self }
    }

    /// Hands the spans of its runs to whoever keeps them.
    pub(crate) fn traced(mut self, tracer: Arc<dyn Tracer>) -> Self {
        self.set_up(|floor| floor.tracer = tracer);
        self
    }

    /// Before anything runs, nobody else has the floor.
    fn set_up(&mut self, change: impl FnOnce(&mut Floor)) {
        if let Some(floor) = Arc::get_mut(&mut self.floor) {
            change(floor);
        }
    }

    /// How many more jobs it would take.
    pub fn free(&self) -> usize {
        let taken = self.floor.jobs.lock().taken_with_reports(BATCH);
        (self.options.room + self.pace.ahead()).saturating_sub(taken)
    }

    /// Whether everything that was claimed has been reported.
    pub fn is_clear(&self) -> bool {
        self.floor.jobs.lock().is_clear()
    }

    /// How many runs are going on.
    pub fn runs(&self) -> usize {
        self.floor.jobs.len()
    }

    /// Which jobs are here: those that wait, run, or have ended and are not reported.
    pub fn jobs(&self) -> BTreeSet<JobId> {
        self.floor.jobs.lock().known()
    }

    /// Tells all runs to stop.
    pub fn stop_all(&self, reason: StopReason) {
        self.floor.jobs.stop_all(reason);
    }

    /// Waits until a run has ended; for ever when there is none.
    pub async fn next_end(&mut self) {
        self.seen_ends = self.floor.jobs.ends_after(self.seen_ends, 0).await;
        self.sweep_places();
    }

    /// Forgets the tasks of places that nobody uses any more.
    fn sweep_places(&mut self) {
        while let Some(place) = self.places.try_join_next() {
            // Those that were told to end have nothing to say, and panics are caught inside.
            if let Err(error) = place
                && error.is_panic()
            {
                // The lease's end cleans up what is left.
                tracing::error!("a run's task was lost: {error}");
            }
        }
    }

    /// Reports what has ended and claims what there is room for, both at once, and again and again while jobs end fast.
    /// Nothing is lost when the store cannot be reached: the reports stay here, and a claim whose answer was lost is found
    /// by the heartbeat. Nothing is started when the lease does not hold any more.
    pub async fn exchange(&mut self, claim: bool) -> StoreResult<Exchange> {
        if claim {
            self.give_back_surplus().await?;
            self.open_places();
        } else {
            // Who claims nothing is about to leave: what waits is on its way back.
            self.floor.jobs.lock().close();
        }
        let mut talk = Talk::new(self.messenger(), claim, self.now());
        let mut heard = 0;
        loop {
            self.say_more(&mut talk);
            heard = self.seen_ends.max(heard);
            if talk.is_over() {
                break;
            }
            let enough = self.enough_ends(&talk);
            tokio::select! {
                biased;
                // What was claimed is ours, whatever becomes of the reports.
                (limit, answer) = next_of(&mut talk.claiming) => {
                    let answer = answer.map(|jobs| self.take_in(jobs));
                    talk.hear_claim(limit, answer);
                }
                (mut reports, (results, error)) = next_of(&mut talk.reporting) => {
                    let again = reports.split_off(results.len());
                    let now = self.now();
                    self.left.extend(reports.iter().map(|report| (report.job_id, now)));
                    talk.done.count(&results);
                    if let Some(error) = error {
                        self.floor.jobs.lock().put_back(again);
                        // Those that were behind them wait for the next try as well.
                        self.seen_ends = talk.ends_by_report;
                        talk.not_reported = Some(error);
                    }
                }
                // What is not reported in this exchange is heard of again after it.
                ends = self.floor.jobs.ends_after(heard, enough) => {
                    heard = ends;
                    self.sweep_places();
                }
            }
        }
        if let Some(error) = talk.not_reported {
            return Err(error);
        }
        if !self.floor.lease.holds(self.now()) {
            return Err(StoreError::LostLease);
        }
        talk.not_claimed.map_or(Ok(talk.done), Err)
    }

    /// Sends what is worth sending: everything at the beginning, and from then on as long as jobs end fast.
    fn say_more(&mut self, talk: &mut Talk) {
        let (now, goes_on) = (self.now(), self.goes_on(talk));
        let many = self.pace.batch();
        let mut jobs = self.floor.jobs.lock();
        // Whoever is about to leave says everything, in as many reports as that takes.
        let leaves = !talk.claims && talk.not_reported.is_none();
        let report = talk.begins || leaves || (goes_on && (jobs.ended.len() >= many || jobs.taken() == 0));
        let (mut reports, ends) = (Vec::new(), jobs.ends);
        if report && talk.may_report() {
            talk.ends_by_report = jobs.ends;
            (reports, self.seen_ends) = jobs.take_reports(if goes_on && talk.claims { BATCH } else { usize::MAX });
        }
        drop(jobs);
        if talk.begins || !reports.is_empty() {
            self.pace.saw(ends, now);
        }
        if !reports.is_empty() {
            talk.report(reports);
        }
        let batch = self.batch();
        let mut claim = talk.begins;
        loop {
            let free = self.free().saturating_sub(talk.asked_for);
            claim |= goes_on && talk.there_is_more && free >= many.min(batch);
            if !claim || !talk.may_claim() || free == 0 {
                break;
            }
            talk.claim(free.min(batch));
            claim = false;
        }
        talk.begins = false;
    }

    /// Whether an exchange says more than what it began with: only while jobs end fast.
    fn goes_on(&self, talk: &Talk) -> bool {
        self.pace.ahead() > self.options.prefetch && talk.has_time(self.now())
    }

    /// After how many ends there is something more to say; until then only answers are waited for, and nobody is woken
    /// for an end that changes nothing.
    fn enough_ends(&self, talk: &Talk) -> u64 {
        if !self.goes_on(talk) {
            return u64::MAX;
        }
        let many = self.pace.batch();
        let (ends, ended) = {
            let jobs = self.floor.jobs.lock();
            (jobs.ends, jobs.ended.len())
        };
        let to_report = talk.may_report().then(|| many.saturating_sub(ended));
        let free = self.free().saturating_sub(talk.asked_for);
        let to_claim = (talk.there_is_more && talk.may_claim()).then(|| many.min(self.batch()).saturating_sub(free));
        let more = to_report.into_iter().chain(to_claim).min().and_then(|more| u64::try_from(more).ok());
        more.map_or(u64::MAX, |more| ends.saturating_add(more))
    }

    fn batch(&self) -> usize {
        BATCH.max(self.options.room)
    }

    fn now(&self) -> Duration {
        self.floor.uptime.now()
    }

    fn messenger(&self) -> Messenger {
        Messenger {
            store: Arc::clone(&self.store),
            lease: self.floor.lease.lease,
            queues: self.options.queues.clone(),
            job_types: self.floor.executors.job_types(),
            stopwatch: self.floor.stopwatch.clone(),
            news: self.news.clone(),
        }
    }

    /// What was claimed takes the free places; says how many there are, and when more may come.
    fn take_in(&mut self, claimed: Claimed) -> (usize, Option<Duration>) {
        let (count, more_in) = (claimed.len(), claimed.more_in.map(jiff::SignedDuration::unsigned_abs));
        self.pace.came(count, claimed.iter().map(|claimed| claimed.job.spec.input.as_str().len()).sum());
        self.floor.jobs.lock().take_in(claimed.jobs, self.now());
        self.open_places();
        (count, more_in)
    }

    fn open_places(&mut self) {
        // Where there is one thread for everything, nobody could look after one that blocks it.
        if self.patrol.is_empty() && Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread {
            self.patrol.spawn(patrol(Arc::clone(&self.floor)));
        }
        self.floor.open_places().into_iter().for_each(|place| drop(self.places.spawn(place)));
    }

    /// What was claimed ahead because jobs ended fast must not wait here for one that takes long, while other nodes may
    /// have nothing to do. Whatever becomes of the call, they are not started here: if the answer is lost, or one of
    /// them cannot go back, the heartbeat tells of it.
    async fn give_back_surplus(&mut self) -> StoreResult<()> {
        let surplus = self.floor.jobs.lock().take_surplus(self.options.prefetch, self.now(), PATIENCE);
        if !surplus.is_empty() {
            self.pace.slow_down();
            tracing::debug!(jobs = surplus.len(), "giving back jobs that were claimed ahead and would have to wait");
            self.give_back(surplus).await?;
        }
        Ok(())
    }

    /// Acts on a heartbeat's answer: stops what is to be stopped, and says which jobs the store believes to be ours
    /// although we know nothing of them, twice in a row: the answer to their claim was lost.
    ///
    /// An answer is a look into the past: what was claimed after the beat was sent cannot be in it.
    pub fn hear(&mut self, beat: &Heartbeat, sent_at: Duration) -> Vec<JobId> {
        // There may be thousands: looked through one for one they would take long, and meanwhile no run comes to its end.
        let ours: BTreeSet<JobId> = beat.running.iter().copied().collect();
        let cancelled: BTreeSet<JobId> = beat.cancel_requested.iter().copied().collect();
        for id in &cancelled {
            self.floor.jobs.stop(*id, StopReason::Cancelled);
        }
        self.left.retain(|(_, at)| *at >= sent_at);
        let mut jobs = self.floor.jobs.lock();
        jobs.sort_out_waiting(&ours, &cancelled, sent_at);
        jobs.fence_lost(&ours, sent_at);
        let mut unknown: BTreeSet<_> = ours.difference(&jobs.known()).copied().collect();
        for (id, _) in &self.left {
            unknown.remove(id);
        }
        let strays = unknown.intersection(&self.strays).copied();
        // What was cancelled cannot be given back: nobody wants it any more.
        let (unwanted, strays): (Vec<_>, Vec<_>) = strays.partition(|id| cancelled.contains(id));
        jobs.ended.extend(unwanted.into_iter().map(|id| stopped(id, StopReason::Cancelled)));
        self.strays = unknown;
        strays
    }

    /// Gives jobs back that never started; says how many went back.
    ///
    /// Some at a time: there may be thousands, and others have something to write as well. What has gone is forgotten at
    /// once, whatever becomes of the rest.
    pub async fn give_back(&self, jobs: Vec<JobId>) -> StoreResult<usize> {
        let mut count = 0;
        for some in jobs.chunks(GIVEN_BACK) {
            let given = self.store.give_back_if_leased(self.floor.lease.lease, some.to_vec()).await?;
            count += given.len();
            self.floor.jobs.lock().forget_waiting(&given.into_iter().collect());
        }
        Ok(count)
    }

    /// Gives back everything that was claimed ahead, and starts nothing of it. What does not go back stays: the next
    /// heartbeat tells why.
    pub async fn give_back_waiting(&mut self) -> StoreResult<usize> {
        let waiting = {
            let mut jobs = self.floor.jobs.lock();
            jobs.close();
            jobs.waiting()
        };
        self.give_back(waiting).await
    }

    /// Stops everything at once and forgets it: the lease is lost, and others decide what becomes of the runs.
    pub async fn drop_everything(&mut self) {
        self.floor.jobs.lock().close();
        self.floor.jobs.stop_all(StopReason::Fenced);
        let _stuck = timeout(LAST_WAIT, self.places.shutdown()).await;
        self.floor.jobs.lock().forget_all();
        self.floor.tell_work();
    }
}
