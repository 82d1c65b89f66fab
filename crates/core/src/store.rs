//! The store port: what the engine and the server ask of a database.
//!
//! One verb is one transaction; the condition under which it acts is in its name; there is no `begin` and no
//! `commit`, so that neither SQLite's single writer nor PostgreSQL's pool leaks into the engine. The verbs stand in
//! the order of a job's life. Both stores answer every one alike: the conformance suite in `testkit` is the proof.

use crate::access::Access;
use crate::backfill::Backfills;
use crate::chain::Chains;
use crate::checks::Checks;
use crate::closing::Again;
use crate::control::Control;
use crate::execution::Executions;
use crate::flow::Flows;
use crate::freeze::Freezing;
use crate::grant::Grants;
pub use crate::id::ScheduleKey;
use crate::id::{ClaimId, JobId, LeaseId, NodeId, ReservationId, ScheduleId};
use crate::invalid::Invalid;
use crate::job::{Artifact, Job, JobState, JobView, NewJob, Run};
use crate::json::Json;
use crate::limits::{Claimed, Limits};
use crate::manifest::Manifests;
use crate::name::{self, Name};
use crate::notify::port::Notifications;
use crate::offers::Offers;
use crate::order::{Move, Place};
use crate::policies::Policies;
use crate::readings::Readings;
use crate::records::RunRecords;
use crate::run::{ErrorCode, Outcome};
use crate::schedule::{ByHand, Schedule, ScheduleDefinition};
use crate::slot::{NotRun, SlotRow};
use crate::template::Parameter;
pub use crate::template::Template;
use crate::upkeep::Upkeep;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

pub use crate::retention::{PruneFrom, Pruned, Retention};

/// Where a store's time comes from when it is not the database's own clock: tests turn it by hand.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The present instant.
    fn now(&self) -> Timestamp;
}

/// Why a verb did nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The input was refused.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such thing.
    #[error("no {what} `{key}`")]
    NotFound {
        /// What was looked for: `schedule`, `job`, …
        what: &'static str,
        /// By which id or name.
        key: String,
    },
    /// Another one has this name.
    #[error("a {what} named `{name}` exists already; choose another name, or edit that one")]
    NameTaken {
        /// What it is.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Somebody else changed it first.
    #[error("it was changed by somebody else: version {found} is stored, {expected} was expected; read it again")]
    VersionConflict {
        /// What the caller had read.
        expected: i64,
        /// What is stored.
        found: i64,
    },
    /// Others need it.
    #[error("the {what} `{name}` is in use by {}; take it from them first", listed(.by))]
    InUse {
        /// What it is.
        what: &'static str,
        /// Its name.
        name: String,
        /// The names of some that need it, in order.
        by: Vec<String>,
    },
    /// It is not what somebody planned with.
    #[error("the {what} `{name}` was changed by somebody else since this was planned; plan again")]
    Overtaken {
        /// What it is.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Another owner's manifest has it.
    #[error("the {what} `{name}` is in the manifest of `{owner}`; choose another name, or let them take it out first")]
    ManagedBy {
        /// What it is.
        what: &'static str,
        /// Its name.
        name: String,
        /// Whose manifest.
        owner: String,
    },
    /// The job is not in a state in which this can be done.
    #[error("the job is {state}, so this cannot be done; {remedy}")]
    WrongState {
        /// Where it is.
        state: JobState,
        /// What can be done instead.
        remedy: &'static str,
    },
    /// The lease does not hold, or not for this job: somebody else has taken over. Nothing was overwritten.
    #[error("the lease is lost: another node has taken over")]
    LostLease,
    /// The queue is reserved by somebody else (C11).
    #[error("the queue `{queue}` is reserved by {holder} until {expires_at}")]
    Reserved {
        /// Which queue.
        queue: String,
        /// By whom.
        holder: String,
        /// Until when.
        expires_at: Timestamp,
    },
    /// A request with this idempotency key has been carried out: its answer is stored.
    #[error("a request with this idempotency key has been carried out already")]
    Repeated,
    /// The database could not take the write just now; nothing was changed, and trying again is right.
    #[error("the store is busy or out of reach: {0}; try again")]
    Unavailable(String),
    /// There is no room left; nothing was changed.
    #[error("the store has no room left: {0}; free some space, and it goes on by itself")]
    Full(String),
    /// The store was written by a newer Punctual, in a way that this one cannot read.
    #[error("the store has schema {found} (`{name}`), and this program knows {known}; use a newer punctual")]
    SchemaTooNew {
        /// The number of the breaking migration.
        found: i64,
        /// Its name.
        name: String,
        /// The newest that this program knows.
        known: i64,
    },
    /// The store is frozen, and refuses this; nothing was changed.
    #[error("the store is frozen: {why}")]
    Frozen {
        /// Why, and what to do about it.
        why: String,
    },
    /// Something that must not happen.
    #[error("internal error of the store: {0}")]
    Internal(String),
}

/// Names, for a sentence.
pub fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// The result of a verb.
pub type StoreResult<T> = Result<T, StoreError>;

/// What one call of `fire_due` did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fired {
    /// Schedules that were looked at.
    pub schedules: usize,
    /// Jobs that were made, in the order in which they were queued.
    pub jobs: Vec<JobId>,
    /// Slots that were decided not to run, ranges counted in full.
    pub slots_not_run: u64,
    /// The same by why.
    pub not_run: NotRun,
    /// Schedules whose null or impossible plan was made anew (E01, A08).
    pub replanned: usize,
    /// Schedules that could not be understood (E02).
    pub problems: usize,
    /// Schedules that paused after failures, or whose pause was over, or of which SQL had asked something.
    pub steered: usize,
}

/// What one call of `reconcile_schedules` found and mended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// Schedules that were looked at.
    pub looked_at: usize,
    /// Plans that were made anew.
    pub replanned: usize,
    /// Schedules whose last decided slot lies far ahead of the clock: they fire nothing until then.
    pub stuck_ahead: usize,
    /// Where to go on; `None` when all were seen.
    pub next: Option<ScheduleId>,
}

/// A process that comes to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNode {
    /// For people: the host's name, for example.
    pub name: String,
    /// The job types it can run; see [`crate::target::Target::job_type`].
    pub offers: Vec<String>,
}

impl NewNode {
    /// Refuses what the stores could not keep.
    pub fn validate(&self) -> Result<(), Invalid> {
        name::check(&self.name).map_err(|e| Invalid { field: "node.name".into(), ..e })?;
        self.offers.iter().try_for_each(|offer| name::check_text("node.offers", offer))
    }
}

/// A node's right to claim and to finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Whose.
    pub node_id: NodeId,
    /// The fence: random, and checked by every late write.
    pub lease_id: LeaseId,
}

/// What a heartbeat brings back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heartbeat {
    /// The counter after this beat; others watch it on their own monotonic clock.
    pub counter: i64,
    /// Jobs of this node that somebody wants to stop.
    pub cancel_requested: Vec<JobId>,
    /// All jobs that the store believes this node is running, to be compared with what it really runs.
    pub running: Vec<JobId>,
}

/// A heartbeat counter as an observer saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePulse {
    /// Which node.
    pub node_id: NodeId,
    /// Under which lease.
    pub lease_id: LeaseId,
    /// For people.
    pub name: String,
    /// How often it beat.
    pub counter: i64,
    /// The job types it offers.
    pub offers: Vec<String>,
}

/// What a node asks for when it has room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// By which right.
    pub lease: Lease,
    /// Made by the node, so that it can find the claim again after an unknown outcome.
    pub claim_id: ClaimId,
    /// Only these queues; all of them when empty.
    pub queues: Vec<String>,
    /// Only these job types.
    pub job_types: Vec<String>,
    /// At most this many.
    pub limit: usize,
}

/// A job that was handed to a node, with what finishing it must repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedJob {
    /// The job; shared, because it is handed on from hand to hand and never changed.
    pub job: Arc<Job>,
    /// When its run began, by the store's clock.
    pub started_at: Timestamp,
}

/// How a run ended, as the node reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedRun {
    /// Which.
    pub job_id: JobId,
    /// How.
    pub outcome: Outcome,
    /// Why it did not complete.
    pub error_code: Option<ErrorCode>,
    /// The same in words; NUL is replaced and the length cut by the store.
    pub error: Option<String>,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// What it returned.
    pub output: Option<Json>,
    /// Where its log is.
    pub log_ref: Option<String>,
    /// How it wants to go on.
    pub again: Again,
    /// What it used up: processor time, memory, and what else its target counts.
    pub usage: Option<Json>,
}

impl FinishedRun {
    /// A run that did its work.
    pub fn completed(job_id: JobId) -> Self {
        Self {
            job_id,
            outcome: Outcome::Completed,
            error_code: None,
            error: None,
            exit_code: None,
            output: None,
            log_ref: None,
            again: Again::ByPolicy,
            usage: None,
        }
    }

    /// A run that did not.
    pub fn failed(job_id: JobId, code: ErrorCode, error: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failed, error_code: Some(code), error: Some(error.into()), ..Self::completed(job_id) }
    }

    /// A flow that goes on with its steps.
    pub fn by_steps(job_id: JobId) -> Self {
        Self { again: Again::BySteps, ..Self::completed(job_id) }
    }

    /// A run that was not ready: a new job of the same chain takes its place later, and nothing is charged.
    pub fn snoozed(job_id: JobId, wait: SignedDuration, why: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Skipped,
            error: Some(why.into()),
            again: Again::Snooze(wait),
            ..Self::completed(job_id)
        }
    }
}

/// What became of one reported end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishResult {
    /// The run is closed.
    Closed {
        /// The retry that was made for it.
        retry: Option<JobId>,
    },
    /// It is a flow: it goes on without the node, and ends when its steps have.
    GoesOn,
    /// The lease does not hold for this job any more; nothing was written.
    LostLease,
    /// The run had ended already, although this node still held it: its record stands, and the claim is gone.
    AlreadyClosed,
}

/// What became of a job that somebody wants to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It had not started, and never will.
    BeforeStart,
    /// It is running; its node learns of it with its next heartbeat.
    Requested,
}

/// A lost node, as its observer saw it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostNode {
    /// Which lease.
    pub lease: Lease,
    /// The counter at which it stood still; if it has moved since, the node is not lost.
    pub counter: i64,
}

/// What recovery did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Nodes that were declared lost.
    pub nodes: usize,
    /// Runs closed as `node_lost`.
    pub closed: Vec<JobId>,
    /// Retries that were made.
    pub retries: Vec<JobId>,
    /// Left-over rows that were removed.
    pub leftovers: usize,
}

/// A hold of a queue (C11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Its identity.
    pub id: ReservationId,
    /// Which queue.
    pub queue: String,
    /// By whom.
    pub holder: String,
    /// Since when.
    pub reserved_at: Timestamp,
    /// Until when, unless it is renewed or released.
    pub expires_at: Timestamp,
}

/// One queued job, for listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedJob {
    /// Its place.
    pub place: Place,
    /// Whether it may be claimed.
    pub ready: bool,
    /// The key it waits for.
    pub serial_key: Option<String>,
}

/// A wake-up line from a store. It is an optimisation only: a change of another process may never be told, and one
/// that means nothing may be; whoever waits looks again by itself from time to time.
#[async_trait]
pub trait Changes: Send {
    /// Waits until there may be new work or a new plan, counted from the last call.
    async fn next(&mut self);
}

/// A durable store: the only source of truth.
#[async_trait]
pub trait Store:
    Access
    + Backfills
    + Chains
    + Checks
    + Control
    + Executions
    + Flows
    + Freezing
    + Grants
    + Limits
    + Manifests
    + Notifications
    + Offers
    + Policies
    + Readings
    + RunRecords
    + Upkeep
    + Send
    + Sync
{
    /// The store's own time, which decides what is due.
    async fn now(&self) -> StoreResult<Timestamp>;

    /// A wake-up line for whoever waits for work or for plans.
    fn changes(&self) -> Box<dyn Changes>;

    /// Makes ready what the first calls would have to wait for. Changes nothing, and is not needed by anybody.
    async fn warm_up(&self) -> StoreResult<()> {
        Ok(())
    }

    // --- schedules -------------------------------------------------------------------------------------------------

    /// Stores a schedule with its first slot. Refused: invalid definitions, names taken, an `at` that has passed.
    async fn create_schedule(&self, definition: ScheduleDefinition) -> StoreResult<Schedule>;

    /// Replaces the definition if nobody else did meanwhile, and keeps the old one as a version. It never fires
    /// anything by itself: the next slot is planned from now, and a slot that was planned under the old definition
    /// and is due already is recorded as skipped (edited).
    async fn update_schedule_if_version(
        &self, id: ScheduleId, version: i64, definition: ScheduleDefinition,
    ) -> StoreResult<Schedule>;

    /// Stops firing. Pausing twice changes nothing.
    async fn pause_schedule(&self, id: ScheduleId, by: Option<String>, note: Option<String>) -> StoreResult<Schedule>;

    /// Goes on from now: the slots that passed meanwhile become one range row, and nothing fires by resuming.
    async fn resume_schedule(&self, id: ScheduleId) -> StoreResult<Schedule>;

    /// Moves the next fire to another time: the slots it jumps over are recorded as skipped (rescheduled), and the
    /// new time is the slot. Refused: times at or before now or a decided slot, paused schedules.
    async fn reschedule(&self, id: ScheduleId, at: Timestamp) -> StoreResult<Schedule>;

    /// Makes a job now, by hand; the plan does not move and no slot is written.
    async fn trigger_schedule(&self, id: ScheduleId, by_hand: ByHand) -> StoreResult<JobId>;

    /// Ends a schedule: what waits is cancelled, what runs goes on, history stays, and the name is free again.
    async fn delete_schedule(&self, id: ScheduleId) -> StoreResult<()>;

    /// One schedule, unless it was deleted.
    async fn schedule(&self, key: &ScheduleKey) -> StoreResult<Option<Schedule>>;

    /// Schedules in order of name.
    async fn schedules(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Schedule>>;

    /// What was decided, latest slot first, before an instant.
    async fn slots(&self, id: ScheduleId, before: Option<Timestamp>, limit: usize) -> StoreResult<Vec<SlotRow>>;

    // --- firing ----------------------------------------------------------------------------------------------------

    /// How long until anything is due: a schedule, or a delayed job. Zero when something is due now; `None` when
    /// nothing is planned. A duration, so that the caller's wall clock does not matter.
    async fn next_due_in(&self) -> StoreResult<Option<SignedDuration>>;

    /// Decides up to `limit` due schedules: ledger rows, jobs and the new plan, together or not at all. A schedule
    /// that cannot be understood gets a problem and does not hold up the others.
    async fn fire_due(&self, node: Option<NodeId>, limit: usize) -> StoreResult<Fired>;

    /// Looks through the schedules, a page at a time, for plans that are null or impossible, and makes them anew. A
    /// schedule that was fired under a clock far ahead of the present one gets a problem.
    async fn reconcile_schedules(&self, after: Option<ScheduleId>, limit: usize) -> StoreResult<Reconciled>;

    // --- jobs ------------------------------------------------------------------------------------------------------

    /// Makes jobs, all or none, in the order given. A job with a key may replace one that waits, or give way to the one
    /// that is there, whose id is the answer then (see [`crate::job_key`]); and so may a unique one ([`crate::unique`]).
    async fn enqueue_jobs(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<JobId>>;

    /// Moves delayed jobs whose time has come into their queues, earliest first; says how many.
    async fn promote_due_jobs(&self, limit: usize) -> StoreResult<usize>;

    /// Changes a job's place in its queue. Refused: jobs that are not queued, and neighbours of another queue.
    async fn move_job_if_queued(&self, id: JobId, to: Move) -> StoreResult<Place>;

    /// Replaces the input of a job that has not started: the old one is closed as `replaced`, and a new one takes
    /// its exact place. Refused: jobs that have been dispatched.
    async fn edit_job_if_queued(&self, id: JobId, input: Json) -> StoreResult<JobId>;

    /// Stops a job. Refused: jobs that have ended.
    async fn cancel_job(&self, id: JobId) -> StoreResult<Cancelled>;

    /// One job, wherever it is.
    async fn job(&self, id: JobId) -> StoreResult<Option<JobView>>;

    /// The jobs of one schedule, latest first, before a job.
    async fn schedule_jobs(&self, id: ScheduleId, before: Option<JobId>, limit: usize) -> StoreResult<Vec<JobView>>;

    /// A queue in its order, after a place.
    async fn queued_jobs(&self, queue: &str, after: Option<Place>, limit: usize) -> StoreResult<Vec<QueuedJob>>;

    // --- nodes, claims and ends ------------------------------------------------------------------------------------

    /// Brings a node in, under a new random lease.
    async fn register_node(&self, node: NewNode) -> StoreResult<Lease>;

    /// Renews a lease, and brings back what the node should know. Refused: leases that are not the node's own.
    async fn heartbeat_if_leased(&self, lease: Lease) -> StoreResult<Heartbeat>;

    /// All nodes with their counters, for observers.
    async fn node_pulses(&self) -> StoreResult<Vec<NodePulse>>;

    /// Hands out jobs in queue order, across all lanes the node may take from: out of `queue` and into `running`,
    /// in one step. Paused and reserved queues give nothing, and nothing goes beyond a limit. Refused: leases that do not hold.
    async fn claim_jobs_if_leased(&self, request: ClaimRequest) -> StoreResult<Claimed>;

    /// Puts claimed jobs that never started back to their exact place; says which were the node's to give back.
    async fn give_back_if_leased(&self, lease: Lease, jobs: Vec<JobId>) -> StoreResult<Vec<JobId>>;

    /// Closes runs: result, retry, the schedule's results and the next job of a serial key, in one transaction.
    /// Each end is judged by itself; the answers stand in the order of the reports.
    async fn finish_runs_if_leased(&self, lease: Lease, runs: Vec<FinishedRun>) -> StoreResult<Vec<FinishResult>>;

    /// Adds artifacts to a run that is going on; the list only grows.
    async fn add_artifacts_if_leased(&self, lease: Lease, job: JobId, artifacts: Vec<Artifact>) -> StoreResult<()>;

    /// The artifacts of a run, in the order in which they came.
    async fn artifacts(&self, job: JobId) -> StoreResult<Vec<Artifact>>;

    /// Takes a node out: its lease ends. Refused while it has running jobs under this lease.
    async fn leave_if_leased(&self, lease: Lease) -> StoreResult<()>;

    /// Ends the leases of lost nodes whose counter has not moved, and judges what they left (C09, C10).
    async fn recover_lost_nodes(&self, lost: Vec<LostNode>) -> StoreResult<Recovered>;

    // --- queues ----------------------------------------------------------------------------------------------------

    /// Stops or starts handing out jobs of a queue; a queue is made by its first use.
    async fn set_queue_paused(&self, queue: &str, paused: bool) -> StoreResult<()>;

    /// Takes exclusive hold of a queue. Refused while another hold is active (C11).
    async fn reserve_queue(&self, queue: &str, holder: &str, for_how_long: SignedDuration) -> StoreResult<Reservation>;

    /// Ends a hold. Releasing twice changes nothing.
    async fn release_reservation(&self, id: ReservationId) -> StoreResult<()>;

    /// The active hold of a queue.
    async fn reservation(&self, queue: &str) -> StoreResult<Option<Reservation>>;

    // --- templates -------------------------------------------------------------------------------------------------

    /// Stores a template. Refused: names taken, invalid jobs, parameters that make no sense.
    async fn create_template(&self, name: Name, job: NewJob, parameters: Vec<Parameter>) -> StoreResult<Template>;

    /// One template by name.
    async fn template(&self, name: &str) -> StoreResult<Option<Template>>;

    // --- history ---------------------------------------------------------------------------------------------------

    /// Forgets old history in a small step. What uniqueness needs stays: slots fire once however much is forgotten,
    /// and the chain of a job that is alive is kept whole.
    async fn prune_history(&self, retention: Retention) -> StoreResult<Pruned>;

    /// The closed run of a job, if it has ended.
    async fn run(&self, id: JobId) -> StoreResult<Option<Run>> {
        Ok(self.job(id).await?.and_then(|view| view.run().cloned()))
    }
}
