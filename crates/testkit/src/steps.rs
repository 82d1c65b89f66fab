//! The words in which cases are written: short ways to say what is given, done and seen.

use crate::harness::World;
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{ClaimId, JobId, LeaseId, NodeId, ScheduleId};
use punctual_core::invalid::Invalid;
use punctual_core::job::{JobState, JobView, NewJob, Run};
use punctual_core::json::Json;
use punctual_core::name::Name;
use punctual_core::retry::{Backoff, RetryPolicy};
use punctual_core::run::ErrorCode;
pub use punctual_core::schedule::ByHand;
use punctual_core::schedule::{Schedule, ScheduleDefinition};
use punctual_core::slot::{Decision, Reason, SlotRow};
use punctual_core::store::{
    ClaimRequest, Clock, FinishResult, FinishedRun, Fired, Lease, LostNode, NewNode, QueuedJob, Recovered, ScheduleKey,
    StoreError, StoreResult,
};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use std::fmt::Debug;
use uuid::Uuid;

/// The job type of the jobs that cases make.
pub const WORK: &str = "task:work";

/// More than any case makes.
pub const ALL: usize = 10_000;

/// An instant of the first day, as `HH:MM:SS`.
pub fn clock_time(text: &str) -> Timestamp {
    instant(&format!("2026-03-01T{text}Z"))
}

/// An instant.
pub fn instant(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|e| panic!("`{text}` is an instant: {e}"))
}

/// Seconds.
pub fn secs(n: i64) -> SignedDuration {
    SignedDuration::from_secs(n)
}

/// Minutes.
pub fn mins(n: i64) -> SignedDuration {
    SignedDuration::from_mins(n)
}

/// A name that is one.
pub fn named(text: &str) -> Name {
    Name::new(text).unwrap_or_else(|e| panic!("`{text}` is a name: {e}"))
}

/// JSON that is valid.
pub fn json(text: &str) -> Json {
    Json::parse("input", text).unwrap_or_else(|e| panic!("`{text}` is JSON: {e}"))
}

/// A cron schedule in UTC.
pub fn cron(name: &str, expression: &str) -> ScheduleDefinition {
    ScheduleDefinition::new(named(name), TimingSpec::cron(expression, "UTC"), Target::task("work"))
}

/// A schedule with a slot at every full minute.
pub fn minutely(name: &str) -> ScheduleDefinition {
    cron(name, "* * * * *")
}

/// A schedule with a slot at every full hour.
pub fn hourly(name: &str) -> ScheduleDefinition {
    cron(name, "0 * * * *")
}

/// A schedule with a slot every so many seconds.
pub fn every(name: &str, seconds: i64) -> ScheduleDefinition {
    ScheduleDefinition::new(named(name), TimingSpec::Every { period: secs(seconds) }, Target::task("work"))
}

/// A job with nothing special about it.
pub fn job() -> NewJob {
    NewJob::new(Target::task("work"))
}

/// A job of a serial key.
pub fn serial_job(key: &str) -> NewJob {
    NewJob { serial_key: Some(key.to_owned()), ..job() }
}

/// A job that is tried so often, always after the same wait, so that a case can say when.
pub fn retried_job(max_attempts: u32, wait: SignedDuration) -> NewJob {
    NewJob { retry: retry(max_attempts, wait), ..job() }
}

/// The shortest wait between two attempts.
pub const SHORTEST_WAIT: SignedDuration = SignedDuration::from_millis(1);

/// A policy of one attempt; interruptions do not count.
pub fn no_retry() -> RetryPolicy {
    retry(1, SHORTEST_WAIT)
}

/// A retry policy without chance in it.
pub fn retry(max_attempts: u32, wait: SignedDuration) -> RetryPolicy {
    let max = wait.max(RetryPolicy::default().max);
    RetryPolicy { max_attempts, backoff: Backoff::Fixed, base: wait, max, ..RetryPolicy::default() }
}

/// An id that nothing has.
pub fn nobody() -> Uuid {
    Uuid::from_u128(0xdead_beef)
}

/// A lease that was never given out.
pub fn foreign_lease() -> Lease {
    Lease { node_id: NodeId(nobody()), lease_id: LeaseId(nobody()) }
}

/// The refusal inside an error that must be one.
pub fn refusal<T: Debug>(result: StoreResult<T>) -> Invalid {
    match result {
        Err(StoreError::Invalid(invalid)) => invalid,
        other => panic!("expected a refusal of the input, got {other:?}"),
    }
}

/// Asserts that nothing of this kind was found.
#[track_caller]
pub fn assert_not_found<T: Debug>(result: StoreResult<T>, kind: &str) {
    match result {
        Err(StoreError::NotFound { what, .. }) => assert_eq!(what, kind),
        other => panic!("expected that there is no such {kind}, got {other:?}"),
    }
}

/// Asserts that the job's state stood in the way.
#[track_caller]
pub fn assert_wrong_state<T: Debug>(result: StoreResult<T>, expected: JobState) {
    match result {
        Err(StoreError::WrongState { state, .. }) => assert_eq!(state, expected),
        other => panic!("expected a refusal because the job is {expected}, got {other:?}"),
    }
}

/// What is asserted of a ledger row, short enough to be listed.
pub type SlotFacts = (String, String, u64, Decision, Reason);

/// A ledger row as the facts that cases list: first and last slot as `HH:MM:SS`, count, decision, reason.
pub fn facts(row: &SlotRow) -> SlotFacts {
    let time = |at: Timestamp| at.strftime("%H:%M:%S").to_string();
    (time(row.slot_at), time(row.through), row.count, row.decision, row.reason)
}

/// One slot, as [`facts`] lists it.
pub fn slot(at: &str, decision: Decision, reason: Reason) -> SlotFacts {
    (at.to_owned(), at.to_owned(), 1, decision, reason)
}

/// A range of slots, as [`facts`] lists it.
pub fn range(first: &str, last: &str, count: u64, decision: Decision, reason: Reason) -> SlotFacts {
    (first.to_owned(), last.to_owned(), count, decision, reason)
}

/// Everything that a caller can see of a small store, to be compared before and after what must change nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// All schedules.
    pub schedules: Vec<Schedule>,
    /// Their ledgers.
    pub slots: Vec<SlotRow>,
    /// Their jobs.
    pub jobs: Vec<JobView>,
    /// The default queue.
    pub queue: Vec<QueuedJob>,
    /// What was asked for beside.
    pub others: Vec<Option<JobView>>,
}

impl World {
    /// Moves the clock.
    pub fn pass(&self, by: SignedDuration) -> Timestamp {
        self.clock.advance(by)
    }

    /// What the clock shows.
    pub fn clock_now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sets the clock to a time of the first day.
    pub fn set_time(&self, text: &str) {
        self.clock.set(clock_time(text));
    }

    /// Stores a schedule that is valid.
    pub async fn create(&self, definition: ScheduleDefinition) -> Schedule {
        self.store().create_schedule(definition).await.expect("a valid schedule is stored")
    }

    /// Reads a schedule that exists.
    pub async fn schedule(&self, id: ScheduleId) -> Schedule {
        let found = self.store().schedule(&ScheduleKey::Id(id)).await.expect("schedules can be read");
        found.expect("the schedule exists")
    }

    /// Fires everything that is due.
    pub async fn fire(&self) -> Fired {
        self.store().fire_due(None, ALL).await.expect("firing succeeds")
    }

    /// Fires, and hands back the one job that must come of it.
    pub async fn fire_one(&self) -> JobId {
        let fired = self.fire().await;
        assert_eq!(fired.jobs.len(), 1, "one job is fired: {fired:?}");
        fired.jobs[0]
    }

    /// The ledger of a schedule, oldest first, as short facts.
    pub async fn ledger(&self, id: ScheduleId) -> Vec<SlotFacts> {
        let mut rows: Vec<_> = self.slot_rows(id).await.iter().map(facts).collect();
        rows.reverse();
        rows
    }

    /// The ledger of a schedule, latest first.
    pub async fn slot_rows(&self, id: ScheduleId) -> Vec<SlotRow> {
        self.store().slots(id, None, ALL).await.expect("the ledger can be read")
    }

    /// Makes a job that is valid.
    pub async fn enqueue(&self, job: NewJob) -> JobId {
        let made = self.store().enqueue_jobs(vec![job]).await.expect("a valid job is queued");
        assert_eq!(made.len(), 1, "one id for one job");
        made[0]
    }

    /// Makes several jobs at once.
    pub async fn enqueue_all(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        self.store().enqueue_jobs(jobs).await.expect("valid jobs are queued")
    }

    /// Reads a job that exists.
    pub async fn job(&self, id: JobId) -> JobView {
        self.store().job(id).await.expect("jobs can be read").expect("the job exists")
    }

    /// Where a job is.
    pub async fn state(&self, id: JobId) -> JobState {
        self.job(id).await.state()
    }

    /// The closed run of a job that has ended.
    pub async fn closed_run(&self, id: JobId) -> Run {
        self.store().run(id).await.expect("runs can be read").expect("the run is closed")
    }

    /// The jobs of a queue, in its order.
    pub async fn queue(&self, queue: &str) -> Vec<JobId> {
        let listed = self.store().queued_jobs(queue, None, ALL).await.expect("queues can be read");
        listed.into_iter().map(|queued| queued.place.job_id).collect()
    }

    /// The jobs of the default queue, each with whether it may be claimed.
    pub async fn readiness(&self) -> Vec<(JobId, bool)> {
        let listed = self.store().queued_jobs("default", None, ALL).await.expect("queues can be read");
        listed.into_iter().map(|queued| (queued.place.job_id, queued.ready)).collect()
    }

    /// Brings a node in that can run what cases make.
    pub async fn node(&self, name: &str) -> Lease {
        let node = NewNode { name: name.to_owned(), offers: vec![WORK.to_owned()] };
        self.store().register_node(node).await.expect("a node comes in")
    }

    /// Claims from all queues.
    pub async fn claim(&self, lease: Lease, limit: usize) -> Vec<JobId> {
        let claimed = self.store().claim_jobs_if_leased(claim_request(lease, limit)).await;
        claimed.expect("claiming succeeds").into_iter().map(|claimed| claimed.job.id).collect()
    }

    /// Claims the one job that there is.
    pub async fn claim_one(&self, lease: Lease) -> JobId {
        let claimed = self.claim(lease, 1).await;
        assert_eq!(claimed.len(), 1, "one job can be claimed");
        claimed[0]
    }

    /// Reports one end.
    pub async fn finish(&self, lease: Lease, run: FinishedRun) -> FinishResult {
        let results = self.store().finish_runs_if_leased(lease, vec![run]).await.expect("the report is taken");
        assert_eq!(results.len(), 1, "one answer for one report");
        results[0].clone()
    }

    /// Completes a claimed job.
    pub async fn complete(&self, lease: Lease, id: JobId) {
        assert_eq!(self.finish(lease, FinishedRun::completed(id)).await, FinishResult::Closed { retry: None });
    }

    /// Fails a claimed job, and hands back its retry.
    pub async fn fail(&self, lease: Lease, id: JobId) -> Option<JobId> {
        match self.finish(lease, FinishedRun::failed(id, ErrorCode::TargetError, "it broke")).await {
            FinishResult::Closed { retry } => retry,
            other => panic!("the lease holds, and the run has not ended: {other:?}"),
        }
    }

    /// Fails a claimed job, lets the shortest wait pass, and hands back its retry, which is queued then.
    pub async fn fail_and_requeue(&self, lease: Lease, id: JobId) -> JobId {
        let retry = self.fail(lease, id).await.expect("a retry follows");
        self.pass(SHORTEST_WAIT);
        assert_eq!(self.store().promote_due_jobs(ALL).await, Ok(1), "the retry is promoted");
        retry
    }

    /// Declares a node lost at the counter at which it stands.
    pub async fn recover(&self, lease: Lease) -> Recovered {
        let counter = self.counter(lease).await.expect("the node is known");
        let lost = vec![LostNode { lease, counter }];
        self.store().recover_lost_nodes(lost).await.expect("recovery succeeds")
    }

    /// How often a node beat, as an observer sees it.
    pub async fn counter(&self, lease: Lease) -> Option<i64> {
        let pulses = self.store().node_pulses().await.expect("pulses can be read");
        pulses.iter().find(|pulse| pulse.lease_id == lease.lease_id).map(|pulse| pulse.counter)
    }

    /// All that can be seen, with some jobs beside those of schedules.
    pub async fn snapshot(&self, others: &[JobId]) -> Snapshot {
        let store = self.store();
        let schedules = store.schedules(None, ALL).await.expect("schedules can be read");
        let (mut slots, mut jobs, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for schedule in &schedules {
            slots.extend(self.slot_rows(schedule.id).await);
            jobs.extend(store.schedule_jobs(schedule.id, None, ALL).await.expect("jobs can be read"));
        }
        for id in others {
            seen.push(store.job(*id).await.expect("jobs can be read"));
        }
        let queue = store.queued_jobs("default", None, ALL).await.expect("queues can be read");
        Snapshot { schedules, slots, jobs, queue, others: seen }
    }

    /// Changes a table by hand, as somebody with a SQL prompt would; `{name}` stands for a table.
    pub async fn tamper(&self, sql: &str) -> Result<u64, String> {
        self.raw.execute(&self.with_tables(sql)).await
    }

    /// Counts rows by hand; `{name}` stands for a table.
    pub async fn count(&self, sql: &str) -> i64 {
        let found = self.raw.query_i64(&self.with_tables(sql)).await;
        found.expect("the rows can be counted").expect("a count is a number")
    }

    /// Asserts that the database itself refuses a statement; `{name}` stands for a table.
    pub async fn assert_database_refuses(&self, sql: &str) {
        let answer = self.tamper(sql).await;
        assert!(answer.is_err(), "the database accepted `{sql}`: {answer:?}");
    }

    /// Sets columns of a schedule's state by hand.
    pub async fn set_state_by_hand(&self, id: ScheduleId, assignments: &str) {
        let id = self.raw.uuid_literal(id.0);
        let sql = format!("UPDATE {{schedule_state}} SET {assignments} WHERE schedule_id = {id}");
        assert_eq!(self.tamper(&sql).await, Ok(1), "one row of the table is changed by hand");
    }

    fn with_tables(&self, sql: &str) -> String {
        let mut text = String::new();
        let mut rest = sql;
        while let Some((before, name, after)) = next_table(rest) {
            text.push_str(before);
            text.push_str(&self.raw.table(name));
            rest = after;
        }
        text + rest
    }
}

/// The text before the next `{name}`, the name, and the text behind it; other braces belong to JSON.
fn next_table(sql: &str) -> Option<(&str, &str, &str)> {
    sql.match_indices('{').find_map(|(at, _)| {
        let (name, after) = sql[at + 1..].split_once('}')?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        is_name.then_some((&sql[..at], name, after))
    })
}

/// A claim of anything that cases make.
pub fn claim_request(lease: Lease, limit: usize) -> ClaimRequest {
    ClaimRequest {
        lease,
        claim_id: ClaimId(Uuid::new_v4()),
        queues: Vec::new(),
        job_types: vec![WORK.to_owned()],
        limit,
    }
}
