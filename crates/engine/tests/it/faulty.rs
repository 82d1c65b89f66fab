//! A store in front of a real one that loses answers or is cut off, so that unknown outcomes can be shown.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use punctual_core::backfill::{Advanced, Backfill, BackfillPreview, Backfills, NewBackfill};
use punctual_core::chain::Chains;
use punctual_core::checks::{Checks, Finding};
use punctual_core::id::{BackfillId, JobId, NodeId, ReservationId, ScheduleId};
use punctual_core::job::{Artifact, JobView, NewJob};
use punctual_core::json::Json;
use punctual_core::limits::Claimed;
use punctual_core::name::Name;
use punctual_core::offers::{Offers, OffersSettled};
use punctual_core::order::{Move, Place};
use punctual_core::records::{LogChunk, LogLine, Progress, RunRecords};
use punctual_core::run::Outcome;
use punctual_core::schedule::{ByHand, Schedule, ScheduleDefinition};
use punctual_core::slot::SlotRow;
use punctual_core::store::{
    Cancelled, Changes, ClaimRequest, FinishResult, FinishedRun, Fired, Heartbeat, Lease, LostNode, NewNode, NodePulse,
    Pruned, QueuedJob, Reconciled, Recovered, Reservation, Retention, ScheduleKey, Store, StoreError, StoreResult,
    Template,
};
use punctual_core::template::Parameter;
use punctual_core::upkeep::{Declarations, Declared, FiredFromMemory, Plans, Upkeep};
use punctual_store_sqlite::SqliteStore;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What goes wrong once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The claim happens, and its answer is lost.
    LoseClaimAnswer,
    /// The end is stored, and its answer is lost.
    LoseFinishAnswer,
}

/// The real store, with faults.
pub struct FaultyStore {
    inner: Arc<SqliteStore>,
    armed: Mutex<Option<Fault>>,
    happened: [AtomicUsize; 2],
    cut_off: AtomicBool,
    /// Whose success cannot be stored.
    refused: Mutex<Vec<JobId>>,
    /// How many ends were reported at once, in order.
    pub reports: Mutex<Vec<usize>>,
    /// How many jobs were given back at once, in order.
    pub given_back: Mutex<Vec<usize>>,
    /// How often it was asked to get ready.
    pub warmed: AtomicUsize,
    /// How often it was asked for jobs.
    pub looks: AtomicUsize,
}

impl FaultyStore {
    pub fn new(inner: Arc<SqliteStore>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            armed: Mutex::new(None),
            happened: [AtomicUsize::new(0), AtomicUsize::new(0)],
            cut_off: AtomicBool::new(false),
            refused: Mutex::new(Vec::new()),
            reports: Mutex::new(Vec::new()),
            given_back: Mutex::new(Vec::new()),
            warmed: AtomicUsize::new(0),
            looks: AtomicUsize::new(0),
        })
    }

    /// Lets a fault happen at the next occasion that matters.
    pub fn arm(&self, fault: Fault) {
        *self.armed.lock().unwrap() = Some(fault);
    }

    /// How often a fault happened.
    pub fn times(&self, fault: Fault) -> usize {
        self.happened[fault as usize].load(Ordering::SeqCst)
    }

    /// Makes the store unreachable, or reachable again.
    pub fn cut_off(&self, on: bool) {
        self.cut_off.store(on, Ordering::SeqCst);
    }

    /// Lets no report through that says that one of these jobs has succeeded.
    pub fn refuse_success_of(&self, jobs: &[JobId]) {
        *self.refused.lock().unwrap() = jobs.to_vec();
    }

    fn look_at(&self, runs: &[FinishedRun]) -> StoreResult<()> {
        self.reports.lock().unwrap().push(runs.len());
        let refused = self.refused.lock().unwrap();
        if runs.iter().any(|run| run.outcome == Outcome::Completed && refused.contains(&run.job_id)) {
            return Err(StoreError::Internal("its output is too strange".into()));
        }
        Ok(())
    }

    fn reach(&self) -> StoreResult<&SqliteStore> {
        if self.cut_off.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("cut off".into()));
        }
        Ok(&self.inner)
    }

    fn lose(&self, fault: Fault, matters: bool) -> StoreResult<()> {
        let mut armed = self.armed.lock().unwrap();
        if matters && *armed == Some(fault) {
            *armed = None;
            self.happened[fault as usize].fetch_add(1, Ordering::SeqCst);
            return Err(StoreError::Unavailable("the answer was lost".into()));
        }
        Ok(())
    }
}

#[async_trait]
impl Checks for FaultyStore {
    async fn run_checks(&self, limit: usize) -> StoreResult<Vec<Finding>> {
        self.reach()?.run_checks(limit).await
    }

    async fn run_quick_checks(&self, limit: usize) -> StoreResult<Vec<Finding>> {
        self.reach()?.run_quick_checks(limit).await
    }
}

#[async_trait]
impl Upkeep for FaultyStore {
    fn plan_changes(&self) -> Box<dyn Changes> {
        self.inner.plan_changes()
    }

    async fn declare_schedules(&self, declarations: Declarations) -> StoreResult<Declared> {
        self.reach()?.declare_schedules(declarations).await
    }

    async fn schedules_to_remember(
        &self, within: SignedDuration, limit: usize, declared: &[ScheduleId],
    ) -> StoreResult<Vec<Schedule>> {
        self.reach()?.schedules_to_remember(within, limit, declared).await
    }

    async fn fire_remembered(
        &self, node: Option<NodeId>, schedules: Vec<Schedule>, plans: Plans,
    ) -> StoreResult<FiredFromMemory> {
        self.reach()?.fire_remembered(node, schedules, plans).await
    }
}

#[async_trait]
impl Chains for FaultyStore {
    async fn chain_end(&self, id: JobId) -> StoreResult<Option<JobView>> {
        self.reach()?.chain_end(id).await
    }

    fn ends(&self) -> Box<dyn Changes> {
        self.inner.ends()
    }
}

#[async_trait]
impl Backfills for FaultyStore {
    async fn preview_backfill(&self, asked: &NewBackfill) -> StoreResult<BackfillPreview> {
        self.reach()?.preview_backfill(asked).await
    }

    async fn create_backfill(&self, asked: NewBackfill) -> StoreResult<Backfill> {
        self.reach()?.create_backfill(asked).await
    }

    async fn backfill(&self, id: BackfillId) -> StoreResult<Option<Backfill>> {
        self.reach()?.backfill(id).await
    }

    async fn backfills(
        &self, schedule: Option<ScheduleId>, before: Option<BackfillId>, limit: usize,
    ) -> StoreResult<Vec<Backfill>> {
        self.reach()?.backfills(schedule, before, limit).await
    }

    async fn cancel_backfill(&self, id: BackfillId) -> StoreResult<Backfill> {
        self.reach()?.cancel_backfill(id).await
    }

    async fn backfilled(&self, schedule: ScheduleId, slot_at: Timestamp) -> StoreResult<Vec<JobId>> {
        self.reach()?.backfilled(schedule, slot_at).await
    }

    async fn advance_backfills(&self) -> StoreResult<Advanced> {
        self.reach()?.advance_backfills().await
    }
}

#[async_trait]
impl Offers for FaultyStore {
    async fn settle_offers(&self, limit: usize) -> StoreResult<OffersSettled> {
        self.reach()?.settle_offers(limit).await
    }
}

/// Passes a verb on to the real store, if it can be reached.
macro_rules! pass_on {
    (records: $(async fn $verb:ident(&self $(, $arg:ident: $type:ty)*) -> $answer:ty;)+) => {
        #[async_trait]
        impl RunRecords for FaultyStore {
            $( async fn $verb(&self $(, $arg: $type)*) -> StoreResult<$answer> {
                self.reach()?.$verb($($arg),*).await
            } )+
        }
    };
    ($(async fn $verb:ident(&self $(, $arg:ident: $type:ty)*) -> $answer:ty;)+) => {
        #[async_trait]
        impl Store for FaultyStore {
            fn changes(&self) -> Box<dyn Changes> {
                self.inner.changes()
            }

            async fn warm_up(&self) -> StoreResult<()> {
                self.warmed.fetch_add(1, Ordering::SeqCst);
                self.reach()?.warm_up().await
            }

            async fn claim_jobs_if_leased(&self, request: ClaimRequest) -> StoreResult<Claimed> {
                self.looks.fetch_add(1, Ordering::SeqCst);
                let claimed = self.reach()?.claim_jobs_if_leased(request).await?;
                self.lose(Fault::LoseClaimAnswer, !claimed.is_empty())?;
                Ok(claimed)
            }

            async fn finish_runs_if_leased(&self, lease: Lease, runs: Vec<FinishedRun>) -> StoreResult<Vec<FinishResult>> {
                self.look_at(&runs)?;
                let closed = self.reach()?.finish_runs_if_leased(lease, runs).await?;
                self.lose(Fault::LoseFinishAnswer, !closed.is_empty())?;
                Ok(closed)
            }

            async fn give_back_if_leased(&self, lease: Lease, jobs: Vec<JobId>) -> StoreResult<Vec<JobId>> {
                self.given_back.lock().unwrap().push(jobs.len());
                self.reach()?.give_back_if_leased(lease, jobs).await
            }

            $( async fn $verb(&self $(, $arg: $type)*) -> StoreResult<$answer> {
                self.reach()?.$verb($($arg),*).await
            } )+
        }
    };
}

pass_on! {
    records:
    async fn append_log_if_leased(&self, lease: Lease, chunks: Vec<LogChunk>) -> Vec<bool>;
    async fn run_log(&self, job: JobId, after: u64, limit: usize) -> Vec<LogLine>;
    async fn run_progress(&self, job: JobId) -> Option<(Timestamp, Progress)>;
    async fn keep_artifact_if_leased(&self, lease: Lease, job: JobId, name: &str, contents: Vec<u8>) -> Artifact;
    async fn artifact_contents(&self, job: JobId, number: u64) -> Option<Vec<u8>>;
    async fn remember_step_if_leased(&self, lease: Lease, job: JobId, step: &str, value: Json) -> Json;
    async fn remembered_step(&self, root_job: JobId, step: &str) -> Option<Json>;
}

pass_on! {
    async fn now(&self) -> Timestamp;
    async fn create_schedule(&self, definition: ScheduleDefinition) -> Schedule;
    async fn update_schedule_if_version(&self, id: ScheduleId, version: i64, definition: ScheduleDefinition) -> Schedule;
    async fn pause_schedule(&self, id: ScheduleId, by: Option<String>, note: Option<String>) -> Schedule;
    async fn resume_schedule(&self, id: ScheduleId) -> Schedule;
    async fn reschedule(&self, id: ScheduleId, at: Timestamp) -> Schedule;
    async fn trigger_schedule(&self, id: ScheduleId, by_hand: ByHand) -> JobId;
    async fn delete_schedule(&self, id: ScheduleId) -> ();
    async fn schedule(&self, key: &ScheduleKey) -> Option<Schedule>;
    async fn schedules(&self, after: Option<&str>, limit: usize) -> Vec<Schedule>;
    async fn slots(&self, id: ScheduleId, before: Option<Timestamp>, limit: usize) -> Vec<SlotRow>;
    async fn next_due_in(&self) -> Option<SignedDuration>;
    async fn fire_due(&self, node: Option<NodeId>, limit: usize) -> Fired;
    async fn reconcile_schedules(&self, after: Option<ScheduleId>, limit: usize) -> Reconciled;
    async fn enqueue_jobs(&self, jobs: Vec<NewJob>) -> Vec<JobId>;
    async fn promote_due_jobs(&self, limit: usize) -> usize;
    async fn move_job_if_queued(&self, id: JobId, to: Move) -> Place;
    async fn edit_job_if_queued(&self, id: JobId, input: Json) -> JobId;
    async fn cancel_job(&self, id: JobId) -> Cancelled;
    async fn job(&self, id: JobId) -> Option<JobView>;
    async fn schedule_jobs(&self, id: ScheduleId, before: Option<JobId>, limit: usize) -> Vec<JobView>;
    async fn queued_jobs(&self, queue: &str, after: Option<Place>, limit: usize) -> Vec<QueuedJob>;
    async fn register_node(&self, node: NewNode) -> Lease;
    async fn heartbeat_if_leased(&self, lease: Lease) -> Heartbeat;
    async fn node_pulses(&self) -> Vec<NodePulse>;
    async fn add_artifacts_if_leased(&self, lease: Lease, job: JobId, artifacts: Vec<Artifact>) -> ();
    async fn artifacts(&self, job: JobId) -> Vec<Artifact>;
    async fn leave_if_leased(&self, lease: Lease) -> ();
    async fn recover_lost_nodes(&self, lost: Vec<LostNode>) -> Recovered;
    async fn set_queue_paused(&self, queue: &str, paused: bool) -> ();
    async fn reserve_queue(&self, queue: &str, holder: &str, for_how_long: SignedDuration) -> Reservation;
    async fn release_reservation(&self, id: ReservationId) -> ();
    async fn reservation(&self, queue: &str) -> Option<Reservation>;
    async fn create_template(&self, name: Name, job: NewJob, parameters: Vec<Parameter>) -> Template;
    async fn template(&self, name: &str) -> Option<Template>;
    async fn prune_history(&self, retention: Retention) -> Pruned;
}

/// What only the server asks for: passed on to the real store, which no fault of these tests concerns.
macro_rules! pass_on_outside {
    ($port:ident { $($others:item)* } $(async fn $verb:ident(&self $(, $arg:ident: $type:ty)*) -> $answer:ty;)+) => {
        const _: () = {
            use punctual_testkit::verbs::words::*;

            #[async_trait]
            impl $port for FaultyStore {
            $($others)*
            $( async fn $verb(&self $(, $arg: $type)*) -> StoreResult<$answer> {
                self.reach()?.$verb($($arg),*).await
            } )+
            }
        };
    };
}

punctual_testkit::with_verbs!(Readings, pass_on_outside {});

punctual_testkit::with_verbs!(Control, pass_on_outside {
    async fn advance_bulks(&self) -> StoreResult<BulkStep> {
        self.reach()?.advance_bulks().await
    }
});

punctual_testkit::with_verbs!(Flows, pass_on_outside {
    async fn advance_flows(&self, limit: usize) -> StoreResult<FlowsAdvanced> {
        self.reach()?.advance_flows(limit).await
    }
});

punctual_testkit::with_verbs!(Limits, pass_on_outside {});

punctual_testkit::with_verbs!(Manifests, pass_on_outside {});

punctual_testkit::with_verbs!(Policies, pass_on_outside {});

punctual_testkit::with_verbs!(Notifications, pass_on_outside {});

punctual_testkit::with_verbs!(Access, pass_on_outside {
    fn recorded(&self, change: Change) -> Arc<dyn Store> {
        self.inner.recorded(change)
    }
});

punctual_testkit::with_verbs!(Freezing, pass_on_outside {});

punctual_testkit::with_verbs!(Grants, pass_on_outside {
    async fn grant(&self, id: GrantId) -> StoreResult<Option<Grant>> {
        self.reach()?.grant(id).await
    }
});

punctual_testkit::with_verbs!(Executions, pass_on_outside {});
