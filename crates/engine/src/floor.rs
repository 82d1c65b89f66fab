//! Where a node's jobs run: those that wait for a place, those that are at it, and those that have ended.
//!
//! A place that becomes free is taken by whoever had it: the next job runs on the same task, without anybody being asked.
//! All that is known of the jobs is behind one lock, so that none is ever in two places, or in none.

use crate::clock::Uptime;
use crate::ends::Ends;
use crate::lease::HeldLease;
use crate::measure::Stopwatch;
use crate::scribe::Scribe;
use crate::stop::StopHandle;
use crate::stuck::{Place, Watched};
use crate::traced::{TracedRun, log_span};
use crate::work::{Executors, run_job};
use punctual_core::closing::Again;
use punctual_core::execute::{StopReason, stopped};
use punctual_core::id::JobId;
use punctual_core::meter::RunEnd;
use punctual_core::store::{ClaimedJob, FinishedRun};
use punctual_core::trace::Tracer;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tracing::Instrument;

/// The runs of a node, shared with whoever may have to stop them.
#[derive(Debug, Clone, Default)]
pub struct RunningSet(Arc<Board>);

#[derive(Debug, Default)]
struct Board {
    jobs: Mutex<Jobs>,
    /// A run has ended.
    ended: Notify,
}

/// What is known of the jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// Claimed and not started.
    waiting: VecDeque<WaitingJob>,
    running: BTreeMap<JobId, RunningJob>,
    /// Ended and not reported.
    pub(crate) ended: Ends,
    /// How many have ended so far.
    pub(crate) ends: u64,
    /// Whoever waits for ends is told when there are so many.
    tell_at: u64,
    /// Whether those that wait may be started.
    open: bool,
    /// The lease is over, whatever the clock says: nothing is started under it any more.
    fenced: bool,
}

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
    /// Where it runs, and what was seen of it from outside.
    watched: Watched,
}

/// A job that was claimed ahead.
#[derive(Debug)]
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

/// A job that has a place.
struct Started {
    claimed: ClaimedJob,
    stop: StopHandle,
    /// How long it was here before.
    waited: Duration,
}

impl RunningSet {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells one run to stop, if it is here.
    pub fn stop(&self, id: JobId, reason: StopReason) {
        if let Some(run) = self.lock().running.get(&id) {
            run.stop.stop(reason);
        }
    }

    /// Tells all runs to stop. When they are fenced, those that wait are not started in their places, either.
    pub fn stop_all(&self, reason: StopReason) {
        let mut jobs = self.lock();
        jobs.fenced |= reason == StopReason::Fenced;
        jobs.running.values().for_each(|run| run.stop.stop(reason));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().running.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One more has ended: whoever waits is told if that is enough. Says whether he was.
    fn tell_end(&self, mut jobs: MutexGuard<'_, Jobs>) -> bool {
        jobs.ends += 1;
        let are_enough = jobs.are_enough();
        drop(jobs);
        if are_enough {
            self.0.ended.notify_one();
        }
        are_enough
    }

    /// Waits until more runs have ended than somebody knows of, and says how many: as many as are enough, or all that
    /// are here. Whoever waits for many is not woken by each.
    pub(crate) async fn ends_after(&self, known: u64, enough: u64) -> u64 {
        loop {
            let told = self.lock().tell_at(enough).filter(|ends| *ends > known);
            if let Some(ends) = told {
                return ends;
            }
            self.0.ended.notified().await;
        }
    }
}

impl Jobs {
    /// Jobs that have come with a claim.
    pub(crate) fn take_in(&mut self, claimed: Vec<ClaimedJob>, since: Duration) {
        self.waiting.extend(claimed.into_iter().map(|claimed| WaitingJob { claimed, since }));
    }

    /// Somebody waits for so many ends; says how many there are if that is enough.
    fn tell_at(&mut self, enough: u64) -> Option<u64> {
        self.tell_at = enough;
        self.are_enough().then_some(self.ends)
    }

    /// Whether as many have ended as somebody waits for, or all that were here.
    fn are_enough(&self) -> bool {
        self.ends >= self.tell_at || self.taken() == 0
    }

    /// How many are here that have not ended.
    pub(crate) fn taken(&self) -> usize {
        self.running.len() + self.waiting.len()
    }

    /// The same with what has ended and cannot go into the next report of so many: where reports are slower than claims,
    /// they must not pile up.
    pub(crate) fn taken_with_reports(&self, next: usize) -> usize {
        self.taken() + self.ended.len() - self.ended.reportable(next)
    }

    /// Takes the reports of so many runs at most, and of fewer where they are large, those first that ended first; says
    /// how many had ended by then.
    pub(crate) fn take_reports(&mut self, most: usize) -> (Vec<FinishedRun>, u64) {
        let reports = self.ended.take(most);
        // What was cancelled before it began has a report, and no end.
        let until = self.ends.saturating_sub(u64::try_from(self.ended.len()).unwrap_or(u64::MAX));
        (reports, until)
    }

    /// Reports that could not be made are the first of the next ones.
    pub(crate) fn put_back(&mut self, reports: Vec<FinishedRun>) {
        self.ended.put_back(reports);
    }

    /// Whether everything has been reported.
    pub(crate) fn is_clear(&self) -> bool {
        self.taken() == 0 && self.ended.is_empty()
    }

    pub(crate) fn waiting(&self) -> Vec<JobId> {
        self.waiting.iter().map(WaitingJob::id).collect()
    }

    /// All that are here.
    pub(crate) fn known(&self) -> BTreeSet<JobId> {
        let waiting = self.waiting.iter().map(WaitingJob::id);
        self.running.keys().copied().chain(waiting).chain(self.ended.ids()).collect()
    }

    /// Nothing that waits is started any more.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    /// Forgets some that wait.
    pub(crate) fn forget_waiting(&mut self, gone: &BTreeSet<JobId>) {
        self.waiting.retain(|waiting| !gone.contains(&waiting.id()));
    }

    /// Takes away those that wait, but for the first few, if the first has waited so long.
    pub(crate) fn take_surplus(&mut self, keep: usize, now: Duration, patience: Duration) -> Vec<JobId> {
        let is_late = |waiting: &WaitingJob| now.saturating_sub(waiting.since) >= patience;
        if self.waiting.len() <= keep || !self.waiting.front().is_some_and(is_late) {
            return Vec::new();
        }
        self.waiting.drain(keep..).map(|waiting| waiting.id()).collect()
    }

    /// What was cancelled before it started is at its end, and what was taken away is forgotten.
    pub(crate) fn sort_out_waiting(&mut self, ours: &BTreeSet<JobId>, cancelled: &BTreeSet<JobId>, sent_at: Duration) {
        let ended = &mut self.ended;
        self.waiting.retain(|waiting| {
            let is_cancelled = cancelled.contains(&waiting.id());
            if is_cancelled {
                ended.push(stopped(waiting.id(), StopReason::Cancelled));
            }
            !is_cancelled && (waiting.since >= sent_at || ours.contains(&waiting.id()))
        });
    }

    /// What the store does not count as ours any more was taken away; it must end without a trace.
    pub(crate) fn fence_lost(&self, ours: &BTreeSet<JobId>, sent_at: Duration) {
        for (id, run) in &self.running {
            if run.since < sent_at && !ours.contains(id) {
                run.stop.stop(StopReason::Fenced);
            }
        }
    }

    pub(crate) fn forget_all(&mut self) {
        self.running.clear();
        self.waiting.clear();
        self.ended.clear();
    }

    /// Gives the first that waits a place, if one is free.
    fn start_next(&mut self, place: &Arc<Place>, room: usize, now: Duration) -> Option<Started> {
        if !self.open || self.fenced || self.running.len() >= room {
            return None;
        }
        let WaitingJob { claimed, since } = self.waiting.pop_front()?;
        let (stop, kind) = (StopHandle::default(), claimed.job.spec.target.kind());
        let watched = Watched::new(Arc::clone(place), claimed.job.spec.timeout, now);
        self.running.insert(claimed.job.id, RunningJob { stop: stop.clone(), since, began_at: now, kind, watched });
        Some(Started { claimed, stop, waited: now.saturating_sub(since) })
    }

    /// Takes away the run of a place that has come to its end, unless it was given up meanwhile: the job may be running
    /// at another place by now.
    fn take_ended(&mut self, place: &Arc<Place>, id: JobId) -> Option<RunningJob> {
        match self.running.entry(id) {
            Entry::Occupied(run) if run.get().watched.is_at(place) => Some(run.remove()),
            _ => None,
        }
    }

    /// Takes away the next run that blocks its thread although it was told to stop, and says why it was.
    fn take_stuck(&mut self, now: Duration, grace: Duration) -> Option<(JobId, RunningJob, StopReason)> {
        let stuck = |(id, run): (&JobId, &mut RunningJob)| Some((*id, run.watched.is_lost(&run.stop, now, grace)?));
        let (id, reason) = self.running.iter_mut().find_map(stuck)?;
        Some((id, self.running.remove(&id)?, reason))
    }
}

/// What runs need that take place here.
pub(crate) struct Floor {
    pub(crate) jobs: RunningSet,
    pub(crate) room: usize,
    pub(crate) grace: Duration,
    pub(crate) lease: HeldLease,
    pub(crate) executors: Executors,
    pub(crate) scribe: Scribe,
    pub(crate) uptime: Uptime,
    pub(crate) stopwatch: Stopwatch,
    pub(crate) tracer: Arc<dyn Tracer>,
    /// Jobs were given places: somebody has to look after them.
    pub(crate) begun: Notify,
}

impl Floor {
    /// Lets those that wait take the free places; what is returned is one task for each place that was not in use.
    pub(crate) fn open_places(self: &Arc<Self>) -> Vec<impl Future<Output = ()> + Send + use<>> {
        self.jobs.lock().open = true;
        let mut places = Vec::new();
        loop {
            let place = Arc::<Place>::default();
            let Some(first) = self.start_next(&place) else { break };
            places.push(Arc::clone(self).use_place(place, first));
        }
        if !places.is_empty() {
            self.tell_work();
            self.begun.notify_one();
        }
        places
    }

    fn start_next(&self, place: &Arc<Place>) -> Option<Started> {
        // Looked at under the lock by which all are fenced, so that nothing is started behind somebody's back.
        let mut jobs = self.jobs.lock();
        let now = self.uptime.now();
        // The answers may have been long on their way: what others may have taken over by now must not be started.
        if !self.lease.holds(now) {
            return None;
        }
        jobs.start_next(place, self.room, now)
    }

    /// One job after the other, as long as some are waiting.
    async fn use_place(self: Arc<Self>, place: Arc<Place>, first: Started) {
        let work = async {
            let mut next = Some(first);
            while let Some(started) = next {
                let end = self.run(started).await;
                if self.note_end(&place, end) {
                    // Whoever was told is the next on this thread, and the next job may keep it for long.
                    tokio::task::yield_now().await;
                }
                next = self.start_next(&place);
                tokio::task::consume_budget().await;
            }
        };
        place.let_in(work).await;
    }

    async fn run(&self, Started { claimed, stop, waited }: Started) -> FinishedRun {
        let log_span = log_span(&claimed);
        let traced = TracedRun::begin(Arc::clone(&self.tracer), &claimed, waited, self.uptime);
        let run = run_job(&self.executors, claimed, stop, self.grace, &self.scribe);
        let end = run.instrument(log_span).await;
        traced.end(&end);
        end
    }

    /// Notes how the run of a place ended; says whether somebody was told.
    fn note_end(&self, place: &Arc<Place>, end: FinishedRun) -> bool {
        let mut jobs = self.jobs.lock();
        let Some(run) = jobs.take_ended(place, end.job_id) else { return false };
        self.record_end(jobs, &run, end)
    }

    fn record_end(&self, mut jobs: MutexGuard<'_, Jobs>, run: &RunningJob, end: FinishedRun) -> bool {
        self.count_end(run, &end);
        jobs.ended.push(end);
        let running = jobs.running.len();
        let is_told = self.jobs.tell_end(jobs);
        self.stopwatch.meter.at_work(running, self.room);
        is_told
    }

    /// Gives up the runs that block their threads although they were told to stop; says how many are left.
    pub(crate) fn give_up_stuck(&self) -> usize {
        loop {
            let mut jobs = self.jobs.lock();
            let Some((id, run, reason)) = jobs.take_stuck(self.uptime.now(), self.grace) else {
                return jobs.running.len();
            };
            self.record_end(jobs, &run, stopped(id, reason));
            tracing::warn!(job_id = %id, ?reason, "a run that blocks its thread was given up; the thread is lost meanwhile");
        }
    }

    pub(crate) fn tell_work(&self) {
        self.stopwatch.meter.at_work(self.jobs.len(), self.room);
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
}

#[cfg(test)]
mod tests {
    use super::{RunningJob, RunningSet};
    use crate::stop::StopHandle;
    use crate::stuck::Watched;
    use punctual_core::id::JobId;
    use punctual_core::job::Timeout;
    use punctual_core::store::FinishedRun;
    use std::sync::Arc;
    use std::time::Duration;
    use uuid::Uuid;

    fn end_one(set: &RunningSet) {
        let mut jobs = set.lock();
        jobs.running.pop_last();
        set.tell_end(jobs);
    }

    /// Whether somebody would be woken.
    async fn rings(set: &RunningSet) -> bool {
        tokio::time::timeout(Duration::ZERO, set.0.ended.notified()).await.is_ok()
    }

    fn at_work(count: u128) -> RunningSet {
        let set = RunningSet::default();
        for n in 0..count {
            let (stop, time) = (StopHandle::default(), Duration::ZERO);
            let watched = Watched::new(Arc::default(), Timeout::Never, time);
            let run = RunningJob { stop, since: time, began_at: time, kind: "task", watched };
            set.lock().running.insert(JobId(Uuid::from_u128(n)), run);
        }
        set
    }

    async fn is_told(set: &RunningSet, known: u64, enough: u64) -> Option<u64> {
        tokio::time::timeout(Duration::ZERO, set.ends_after(known, enough)).await.ok()
    }

    #[tokio::test]
    async fn whoever_waits_for_many_ends_is_told_when_there_are_so_many_or_no_more_can_come() {
        let set = at_work(6);
        assert_eq!(is_told(&set, 0, 0).await, None, "nothing has ended");
        end_one(&set);
        end_one(&set);
        assert_eq!((is_told(&set, 0, 3).await, is_told(&set, 0, 0).await), (None, Some(2)));
        end_one(&set);
        assert_eq!((is_told(&set, 2, 3).await, is_told(&set, 3, 3).await), (Some(3), None), "known already");
        assert_eq!(is_told(&set, 3, u64::MAX).await, None);
        (0..3).for_each(|_| end_one(&set));
        assert_eq!(is_told(&set, 3, u64::MAX).await, Some(6), "all have ended");
        assert_eq!(is_told(&set, 6, u64::MAX).await, None, "and that is known");
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_by_the_end_that_is_enough_and_by_none_before() {
        let set = at_work(9);
        assert_eq!(is_told(&set, 0, 4).await, None);
        for _ in 0..3 {
            end_one(&set);
            assert!(!rings(&set).await);
        }
        end_one(&set);
        assert!(rings(&set).await);
    }

    #[tokio::test]
    async fn reports_are_taken_in_the_order_of_their_ends_and_whoever_took_some_hears_of_the_others_at_once() {
        let set = at_work(5);
        for n in [3, 1, 2] {
            set.lock().ended.push(FinishedRun::completed(JobId(Uuid::from_u128(n))));
            end_one(&set);
        }
        let all: Vec<JobId> = set.lock().ended.ids().collect();
        let (first, until) = set.lock().take_reports(2);
        assert_eq!((first.iter().map(|end| end.job_id).collect::<Vec<_>>(), until), (all[..2].to_vec(), 2));
        assert_eq!(is_told(&set, until, 0).await, Some(3));
        let (rest, until) = set.lock().take_reports(usize::MAX);
        assert_eq!((rest.len(), rest[0].job_id, until), (1, all[2], 3));
        assert_eq!((is_told(&set, until, 0).await, set.lock().take_reports(2).0.len()), (None, 0));
    }

    #[test]
    fn reports_that_could_not_be_made_are_the_first_of_the_next_ones_even_if_nothing_has_ended() {
        let set = RunningSet::default();
        let ids: Vec<JobId> = (0..4).map(|n| JobId(Uuid::from_u128(n))).collect();
        set.lock().ended.extend(ids.iter().copied().map(FinishedRun::completed));
        for (next, taken) in [(4, 0), (1, 3)] {
            assert_eq!(set.lock().taken_with_reports(next), taken);
        }
        let (first, until) = set.lock().take_reports(1);
        assert_eq!(until, 0, "what was cancelled before it began has not ended here");
        set.lock().put_back(first);
        let (all, _) = set.lock().take_reports(usize::MAX);
        assert_eq!(all.iter().map(|end| end.job_id).collect::<Vec<_>>(), ids);
    }
}
