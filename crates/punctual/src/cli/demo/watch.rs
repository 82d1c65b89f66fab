//! What happened, read back from the store: events in order, counts for each schedule, and the closing summary.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use punctual_core::id::JobId;
use punctual_core::job::{Job, JobView, Run};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::Schedule;
use punctual_core::slot::{Decision, Reason, SlotRow};
use punctual_core::store::{ScheduleKey, Store, StoreResult};
use serde::Serialize;

use super::cast::Role;

/// Far more than happens between two looks.
const PAGE: usize = 200;

/// Schedules are read one after the other, and a commit is seen a little after the time it bears; what is younger
/// than this is told with the next look, so that events stand in order.
const SETTLING: SignedDuration = SignedDuration::from_millis(60);

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
    Retry { schedule: String, created_at: Timestamp, job_id: JobId, retry_of: JobId, attempt: u32 },
    /// A run ended.
    Run {
        schedule: String,
        finished_at: Timestamp,
        job_id: JobId,
        attempt: u32,
        outcome: Outcome,
        error_code: Option<ErrorCode>,
        error: Option<String>,
        exit_code: Option<i32>,
        output: Option<String>,
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

    fn retry(schedule: &str, job: &Job) -> Option<Event> {
        Some(Event::Retry {
            schedule: schedule.to_owned(),
            created_at: job.created_at,
            job_id: job.id,
            retry_of: job.retry_of?,
            attempt: job.attempt,
        })
    }

    fn run(schedule: &str, job: &Job, run: &Run) -> Event {
        Event::Run {
            schedule: schedule.to_owned(),
            finished_at: run.finished_at,
            job_id: job.id,
            attempt: job.attempt,
            outcome: run.outcome,
            error_code: run.error_code,
            error: run.error.clone(),
            exit_code: run.exit_code,
            output: run.output.as_ref().and_then(|output| output.to().ok()),
            started_at: run.started_at,
            ran_ms: run.started_at.map(|started_at| whole_ms(run.finished_at.duration_since(started_at))),
            retried: !run.is_final,
        }
    }
}

fn whole_ms(time: SignedDuration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// How often each thing happened.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Counts {
    pub(super) slots_fired: u64,
    pub(super) slots_not_run: u64,
    pub(super) runs_completed: u64,
    pub(super) runs_failed: u64,
    pub(super) retries: u64,
}

impl Counts {
    fn add(&mut self, event: &Event) {
        match event {
            Event::Slot { decision: Decision::Fired, .. } => self.slots_fired += 1,
            Event::Slot { count, .. } => self.slots_not_run += count,
            Event::Retry { .. } => self.retries += 1,
            Event::Run { outcome: Outcome::Completed, .. } => self.runs_completed += 1,
            Event::Run { .. } => self.runs_failed += 1,
        }
    }
}

/// One schedule and what was seen of it.
pub(super) struct Watched {
    pub(super) schedule: Schedule,
    pub(super) shows: &'static str,
    pub(super) counts: Counts,
    /// How its last run ended.
    pub(super) last: Option<(Outcome, Option<i32>)>,
    seen_slot: Option<Timestamp>,
    seen_job: Option<JobId>,
    open: BTreeSet<JobId>,
    late: Vec<SignedDuration>,
    to_start: Vec<SignedDuration>,
}

impl Watched {
    fn new(role: Role) -> Watched {
        Watched {
            schedule: role.schedule,
            shows: role.shows,
            counts: Counts::default(),
            last: None,
            seen_slot: None,
            seen_job: None,
            open: BTreeSet::new(),
            late: Vec::new(),
            to_start: Vec::new(),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.schedule.definition.name.as_str()
    }

    async fn look(&mut self, store: &dyn Store) -> StoreResult<Vec<Event>> {
        let id = self.schedule.id;
        if let Some(schedule) = store.schedule(&ScheduleKey::Id(id)).await? {
            self.schedule = schedule;
        }
        let mut events = self.new_slots(store).await?;
        let known: Vec<_> = self.open.iter().copied().collect();
        for job in known {
            if let Some(view) = store.job(job).await? {
                events.extend(self.end_of(&view));
            }
        }
        let page = store.schedule_jobs(id, None, PAGE).await?;
        let seen = self.seen_job;
        for view in page.iter().rev().filter(|view| Some(view.job.id) > seen) {
            events.extend(Event::retry(self.name(), &view.job));
            self.open.insert(view.job.id);
            events.extend(self.end_of(view));
        }
        self.seen_job = page.iter().map(|view| view.job.id).max().max(self.seen_job);
        for event in &events {
            self.counts.add(event);
        }
        Ok(events)
    }

    async fn new_slots(&mut self, store: &dyn Store) -> StoreResult<Vec<Event>> {
        let page = store.slots(self.schedule.id, None, PAGE).await?;
        let mut events = Vec::new();
        for row in page.iter().filter(|row| Some(row.slot_at) > self.seen_slot) {
            if row.decision == Decision::Fired {
                self.late.push(row.decided_at.duration_since(row.slot_at));
            }
            events.push(Event::slot(self.name(), row));
        }
        self.seen_slot = page.iter().map(|row| row.slot_at).max().max(self.seen_slot);
        Ok(events)
    }

    /// The end of an open job, once there is one.
    fn end_of(&mut self, view: &JobView) -> Option<Event> {
        let run = view.run()?;
        self.open.remove(&view.job.id);
        self.last = Some((run.outcome, run.exit_code));
        if let (Some(slot_at), Some(started_at), None) = (view.job.slot_at, run.started_at, view.job.retry_of) {
            self.to_start.push(started_at.duration_since(slot_at));
        }
        Some(Event::run(self.name(), &view.job, run))
    }
}

/// Looks at the store again and again, and tells what is new.
pub(super) struct Watcher {
    pub(super) schedules: Vec<Watched>,
    untold: Vec<Event>,
}

impl Watcher {
    pub(super) fn new(roles: Vec<Role>) -> Watcher {
        Watcher { schedules: roles.into_iter().map(Watched::new).collect(), untold: Vec::new() }
    }

    /// What happened since the last look, in order of time.
    pub(super) async fn look(&mut self, store: &dyn Store) -> StoreResult<Vec<Event>> {
        let settled = store.now().await? - SETTLING;
        for watched in &mut self.schedules {
            self.untold.extend(watched.look(store).await?);
        }
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

    pub(super) fn summary(&self) -> Summary {
        let all = || self.schedules.iter();
        let total = |count: fn(&Counts) -> u64| all().map(|watched| count(&watched.counts)).sum();
        Summary {
            counts: Counts {
                slots_fired: total(|counts| counts.slots_fired),
                slots_not_run: total(|counts| counts.slots_not_run),
                runs_completed: total(|counts| counts.runs_completed),
                runs_failed: total(|counts| counts.runs_failed),
                retries: total(|counts| counts.retries),
            },
            open: all().map(|watched| watched.open.len()).sum(),
            late_ms: Spread::of(all().flat_map(|watched| &watched.late)),
            slot_to_start_ms: Spread::of(all().flat_map(|watched| &watched.to_start)),
        }
    }
}

/// What the whole demo came to.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Summary {
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// Jobs that have not ended.
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
    fn of<'a>(times: impl Iterator<Item = &'a SignedDuration>) -> Option<Spread> {
        let mut times: Vec<_> = times.copied().collect();
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
            Spread::of(times.iter()).map(|spread| (spread.p50, spread.p99))
        };
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[7]), Some((7.0, 7.0)));
        assert_eq!(spread(&[9, 1, 5]), Some((5.0, 9.0)));
        let hundred: Vec<_> = (1..=100).collect();
        assert_eq!(spread(&hundred), Some((50.0, 99.0)));
    }
}
