//! What happens, read back from the store: events in order, how each schedule stands, and the closing summary.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use punctual_core::cron::dst_notes;
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::job::{Job, JobView, Run};
use punctual_core::readings::{Ended, QueueRow};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::Schedule;
use punctual_core::slot::{Decision, Reason, SlotRow};
use punctual_core::store::{Store, StoreResult};
use punctual_core::timing::Timing;
use serde::Serialize;

/// Far more than happens between two looks.
const PAGE: usize = 500;

/// A commit is seen a little after the time it bears; what is younger than this is told with the next look, so that
/// events stand in order.
const SETTLING: SignedDuration = SignedDuration::from_millis(60);

/// What is due for longer than this is overdue.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// Something that happened, as the store tells it.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// A slot, or a range of them, was decided.
    Slot {
        schedule: String,
        slot_at: Timestamp,
        decision: Decision,
        reason: Reason,
        count: u64,
        decided_at: Timestamp,
        late_ms: i64,
        job_id: Option<JobId>,
    },
    /// A failed job is tried again.
    Retry { name: String, created_at: Timestamp, job_id: JobId, retry_of: JobId, attempt: u32 },
    /// A run ended.
    Run {
        /// The schedule, or the kind of work where there is none.
        name: String,
        schedule: Option<String>,
        queue: String,
        finished_at: Timestamp,
        job_id: JobId,
        attempt: u32,
        outcome: Outcome,
        error_code: Option<ErrorCode>,
        error: Option<String>,
        exit_code: Option<i32>,
        started_at: Option<Timestamp>,
        ran_ms: Option<i64>,
        retried: bool,
    },
}

impl Event {
    /// When it happened.
    pub(super) fn at(&self) -> Timestamp {
        match self {
            Event::Slot { decided_at: at, .. }
            | Event::Retry { created_at: at, .. }
            | Event::Run { finished_at: at, .. } => *at,
        }
    }

    fn slot(schedule: &str, row: &SlotRow) -> Event {
        Event::Slot {
            schedule: schedule.to_owned(),
            slot_at: row.slot_at,
            decision: row.decision,
            reason: row.reason,
            count: row.count,
            decided_at: row.decided_at,
            late_ms: row.late_ms,
            job_id: row.job_id,
        }
    }

    fn run(name: String, schedule: Option<String>, job: &Job, run: &Run) -> Event {
        Event::Run {
            name,
            schedule,
            queue: job.spec.queue.clone(),
            finished_at: run.finished_at,
            job_id: job.id,
            attempt: job.attempt,
            outcome: run.outcome,
            error_code: run.error_code,
            error: run.error.clone(),
            exit_code: run.exit_code,
            started_at: run.started_at,
            ran_ms: took(run).map(whole_ms),
            retried: !run.is_final,
        }
    }
}

/// How long a run took.
fn took(run: &Run) -> Option<SignedDuration> {
    run.started_at.map(|started_at| run.finished_at.duration_since(started_at))
}

fn whole_ms(time: SignedDuration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// How often each thing happened since the demo began.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Counts {
    pub(super) slots_fired: u64,
    pub(super) slots_not_run: u64,
    pub(super) runs_completed: u64,
    pub(super) runs_failed: u64,
    /// Runs that the end of the demo cut short.
    pub(super) runs_interrupted: u64,
    pub(super) retries: u64,
}

impl Counts {
    fn add(&mut self, event: &Event) {
        match event {
            Event::Slot { decision: Decision::Fired, .. } => self.slots_fired += 1,
            Event::Slot { count, .. } => self.slots_not_run += count,
            Event::Retry { .. } => self.retries += 1,
            Event::Run { outcome: Outcome::Completed, .. } => self.runs_completed += 1,
            Event::Run { error_code: Some(ErrorCode::Interrupted), .. } => self.runs_interrupted += 1,
            Event::Run { .. } => self.runs_failed += 1,
        }
    }
}

/// How a schedule stands, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Failing,
    Overdue,
    Paused,
    Fine,
}

/// One schedule and what is known of it.
pub(super) struct Watched {
    pub(super) schedule: Schedule,
    /// Why its last failed run failed.
    pub(super) error: Option<String>,
    /// How long its last run took.
    pub(super) took: Option<SignedDuration>,
    /// How long its runs took in the first days of the history.
    took_before: Option<SignedDuration>,
    /// What the next change of clocks does to it.
    clock_change: Option<String>,
    /// Why its last slot did not run.
    not_run: Option<Reason>,
    seen_slot: Option<Timestamp>,
}

impl Watched {
    async fn new(store: &dyn Store, schedule: Schedule, now: Timestamp) -> StoreResult<Watched> {
        let latest = store.schedule_jobs(schedule.id, None, 20).await?;
        let slot = store.slots(schedule.id, None, 1).await?.into_iter().next();
        let early = JobId::first_of(now - SignedDuration::from_hours(6 * 24));
        let early = store.schedule_jobs(schedule.id, Some(early), 20).await?;
        let completed = |views: &[JobView]| {
            views.iter().filter_map(JobView::run).find(|run| run.outcome == Outcome::Completed).and_then(took)
        };
        Ok(Watched {
            error: latest.iter().filter_map(JobView::run).find_map(|run| run.error.clone()),
            took: completed(&latest),
            took_before: completed(&early),
            clock_change: next_clock_change(&schedule, now),
            not_run: slot.as_ref().and_then(why_not),
            seen_slot: schedule.state.last_slot_at,
            schedule,
        })
    }

    pub(super) fn name(&self) -> &str {
        self.schedule.definition.name.as_str()
    }

    pub(super) fn standing(&self, now: Timestamp) -> Standing {
        let state = &self.schedule.state;
        let long_due = state.next_run_at.is_some_and(|due| now.duration_since(due) > PATIENCE);
        match () {
            () if !state.enabled => Standing::Paused,
            () if state.problem.is_some() || long_due => Standing::Overdue,
            () if self.schedule.results.consecutive_failures > 0 => Standing::Failing,
            () => Standing::Fine,
        }
    }

    /// What there is to say about it.
    pub(super) fn note(&self, now: Timestamp) -> String {
        let state = &self.schedule.state;
        match self.standing(now) {
            Standing::Failing => self.error.clone().unwrap_or_default(),
            Standing::Overdue => state.problem.clone().unwrap_or_else(|| "long due, and nobody took it".to_owned()),
            Standing::Paused => state.pause.as_ref().map_or(String::new(), |pause| {
                let by = pause.by.as_deref().unwrap_or("somebody");
                format!("paused by {by}: {}", pause.note.as_deref().unwrap_or("no reason given"))
            }),
            Standing::Fine => {
                let not_run = self.not_run.map(|reason| format!("its last slot did not run: {reason}"));
                self.trend().or(not_run).or_else(|| self.clock_change.clone()).unwrap_or_default()
            }
        }
    }

    /// Whether it has become much slower.
    fn trend(&self) -> Option<String> {
        let (now, before) = (self.took?, self.took_before?);
        let slower = now > before * 2 && now > SignedDuration::from_secs(60);
        slower.then(|| format!("takes {}, a week ago {}", rough(now), rough(before)))
    }

    async fn new_slots(&mut self, store: &dyn Store) -> StoreResult<Vec<Event>> {
        if self.schedule.state.last_slot_at == self.seen_slot {
            return Ok(Vec::new());
        }
        let page = store.slots(self.schedule.id, None, PAGE).await?;
        let new = page.iter().filter(|row| Some(row.slot_at) > self.seen_slot);
        let events = new.map(|row| Event::slot(self.name(), row)).collect();
        self.not_run = page.first().and_then(why_not);
        self.seen_slot = page.iter().map(|row| row.through).max().max(self.seen_slot);
        Ok(events)
    }
}

fn why_not(slot: &SlotRow) -> Option<Reason> {
    (slot.decision != Decision::Fired).then_some(slot.reason)
}

/// A time in its two largest units.
pub(super) fn rough(time: SignedDuration) -> String {
    match time.as_secs() {
        0 => format!("{}ms", time.as_millis()),
        seconds @ 1..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds @ 3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        seconds => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

fn next_clock_change(schedule: &Schedule, now: Timestamp) -> Option<String> {
    let Ok(Timing::Cron(clock)) = schedule.definition.timing.compile(schedule.anchor_at, &schedule.seed) else {
        return None;
    };
    let notes = dst_notes(&clock, now, now + SignedDuration::from_hours(366 * 24));
    notes.into_iter().next().map(|note| note.text)
}

/// Looks at the store again and again, and tells what is new.
pub(super) struct Watcher {
    pub(super) schedules: Vec<Watched>,
    pub(super) queues: Vec<QueueRow>,
    began_at: Timestamp,
    seen_job: JobId,
    seen_end: Ended,
    counts: Counts,
    /// Jobs of the present that have not ended.
    open: BTreeSet<JobId>,
    made: u64,
    ended: u64,
    late: Vec<SignedDuration>,
    to_start: Vec<SignedDuration>,
    untold: Vec<Event>,
}

impl Watcher {
    /// Watches what happens from now on.
    pub(super) async fn new(store: &dyn Store) -> StoreResult<Watcher> {
        let began_at = store.now().await?;
        let mut schedules = Vec::new();
        for schedule in store.schedules(None, PAGE).await? {
            schedules.push(Watched::new(store, schedule, began_at).await?);
        }
        Ok(Watcher {
            schedules,
            queues: store.queues(None, PAGE).await?,
            began_at,
            seen_job: JobId::first_of(began_at),
            seen_end: Ended { finished_at: began_at, job_id: JobId::from_bytes([0; 16]) },
            counts: Counts::default(),
            open: BTreeSet::new(),
            made: 0,
            ended: 0,
            late: Vec::new(),
            to_start: Vec::new(),
            untold: Vec::new(),
        })
    }

    /// What happened since the last look, in order of time.
    pub(super) async fn look(&mut self, store: &dyn Store) -> StoreResult<Vec<Event>> {
        let settled = store.now().await? - SETTLING;
        self.queues = store.queues(None, PAGE).await?;
        let mut events = self.new_slots(store).await?;
        events.extend(self.new_jobs(store).await?);
        events.extend(self.new_ends(store).await?);
        for event in &events {
            self.counts.add(event);
        }
        self.untold.extend(events);
        // A retry is made in the transaction that closes the run it follows.
        self.untold.sort_by_key(|event| (event.at(), matches!(event, Event::Retry { .. })));
        let young = self.untold.partition_point(|event| event.at() <= settled);
        Ok(self.untold.drain(..young).collect())
    }

    /// All that is left, when nothing happens any more.
    pub(super) async fn last_look(&mut self, store: &dyn Store) -> StoreResult<Vec<Event>> {
        let mut events = self.look(store).await?;
        events.append(&mut self.untold);
        Ok(events)
    }

    async fn new_slots(&mut self, store: &dyn Store) -> StoreResult<Vec<Event>> {
        let mut stored: BTreeMap<ScheduleId, Schedule> =
            store.schedules(None, PAGE).await?.into_iter().map(|schedule| (schedule.id, schedule)).collect();
        let mut events = Vec::new();
        // Whoever plays with the demo may delete schedules, and make others.
        self.schedules.retain(|watched| stored.contains_key(&watched.schedule.id));
        for watched in &mut self.schedules {
            if let Some(schedule) = stored.remove(&watched.schedule.id) {
                watched.schedule = schedule;
                events.extend(watched.new_slots(store).await?);
            }
        }
        for schedule in stored.into_values() {
            self.schedules.push(Watched::new(store, schedule, self.began_at).await?);
        }
        for event in &events {
            if let Event::Slot { decision: Decision::Fired, slot_at, decided_at, .. } = event
                && *slot_at >= self.began_at
            {
                self.late.push(decided_at.duration_since(*slot_at));
            }
        }
        Ok(events)
    }

    async fn new_jobs(&mut self, store: &dyn Store) -> StoreResult<Vec<Event>> {
        let mut events = Vec::new();
        loop {
            let page = store.jobs_after(self.seen_job, PAGE).await?;
            for view in &page {
                let job = &view.job;
                self.seen_job = job.id;
                self.made += 1;
                self.open.insert(job.id);
                events.extend(job.retry_of.map(|retry_of| Event::Retry {
                    name: self.name_of(job),
                    created_at: job.created_at,
                    job_id: job.id,
                    retry_of,
                    attempt: job.attempt,
                }));
            }
            if page.len() < PAGE {
                return Ok(events);
            }
        }
    }

    async fn new_ends(&mut self, store: &dyn Store) -> StoreResult<Vec<Event>> {
        let mut events = Vec::new();
        loop {
            let page = store.ended_after(self.seen_end, PAGE).await?;
            for view in &page {
                events.extend(self.end_of(view));
            }
            if page.len() < PAGE {
                return Ok(events);
            }
        }
    }

    fn end_of(&mut self, view: &JobView) -> Option<Event> {
        let (job, run) = (&view.job, view.run()?);
        self.seen_end = Ended { finished_at: run.finished_at, job_id: job.id };
        self.open.remove(&job.id);
        self.ended += 1;
        let slot_at = job.slot_at.filter(|slot_at| *slot_at >= self.began_at && job.retry_of.is_none());
        if let (Some(slot_at), Some(started_at)) = (slot_at, run.started_at) {
            self.to_start.push(started_at.duration_since(slot_at));
        }
        let watched = self.schedules.iter_mut().find(|watched| Some(watched.schedule.id) == job.schedule_id);
        let schedule = watched.map(|watched| {
            watched.took = took(run).filter(|_| run.outcome == Outcome::Completed).or(watched.took);
            watched.error = run.error.clone().or(watched.error.take());
            watched.name().to_owned()
        });
        Some(Event::run(self.name_of(job), schedule, job, run))
    }

    /// The schedule of a job, or its kind of work.
    fn name_of(&self, job: &Job) -> String {
        let watched = self.schedules.iter().find(|watched| Some(watched.schedule.id) == job.schedule_id);
        watched.map_or_else(|| short_kind(&job.spec.target.job_type()), |watched| watched.name().to_owned())
    }

    /// How many jobs end in a second.
    pub(super) fn rate(&self, now: Timestamp) -> f64 {
        let seconds = now.duration_since(self.began_at).as_secs_f64().max(1.0);
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 jobs end in a demo")]
        let ended = self.ended as f64;
        ended / seconds
    }

    pub(super) fn summary(&self) -> Summary {
        Summary {
            counts: self.counts,
            jobs_made: self.made,
            open: self.open.len(),
            late_ms: Spread::of(&self.late),
            slot_to_start_ms: Spread::of(&self.to_start),
        }
    }
}

/// A job type without the word that all tasks begin with.
fn short_kind(job_type: &str) -> String {
    job_type.strip_prefix("task:").unwrap_or(job_type).to_owned()
}

/// What the whole demo came to.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Summary {
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// Jobs that were made, retries included.
    pub(super) jobs_made: u64,
    /// Jobs that were made and have not ended.
    pub(super) open: usize,
    /// From when a slot was due until it was decided.
    pub(super) late_ms: Option<Spread>,
    /// From the slot until its command was started.
    pub(super) slot_to_start_ms: Option<Spread>,
}

/// Times in milliseconds: the middle, and nearly the worst.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Spread {
    fn of(times: &[SignedDuration]) -> Option<Spread> {
        let mut times = times.to_vec();
        times.sort_unstable();
        // The smallest time that at least so many in a hundred do not exceed.
        let percentile = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1);
            times.get(rank - 1).map(|time| (time.as_secs_f64() * 1e6).round() / 1e3)
        };
        Some(Spread { p50: percentile(50)?, p99: percentile(99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d04_the_middle_and_nearly_the_worst_are_times_that_occurred() {
        let spread = |times: &[i64]| {
            let times: Vec<_> = times.iter().copied().map(SignedDuration::from_millis).collect();
            Spread::of(&times).map(|spread| (spread.p50, spread.p99))
        };
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[7]), Some((7.0, 7.0)));
        assert_eq!(spread(&[9, 1, 5]), Some((5.0, 9.0)));
        let hundred: Vec<_> = (1..=100).collect();
        assert_eq!(spread(&hundred), Some((50.0, 99.0)));
    }

    #[test]
    fn times_are_told_in_their_largest_units() {
        let told: Vec<_> = [0, 9, 61, 3_660, 90_000].map(|secs| rough(SignedDuration::from_secs(secs))).to_vec();
        assert_eq!(told, ["0ms", "9s", "1m01s", "1h01m", "1d01h"]);
    }
}
