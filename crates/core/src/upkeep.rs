//! The store port, continued: what keeps a store and its nodes in order beside the life of a single job.
//!
//! News that somebody must be told of, schedules that a program declares, and firing from what a node remembers when
//! the plans cannot be read.

use crate::closing::{End, storable_text};
use crate::firing::DecidedSlot;
use crate::id::{JobId, NodeId, NoticeId, ScheduleId};
use crate::invalid::Invalid;
use crate::job::Job;
use crate::json::Json;
use crate::name::Name;
use crate::run::{ErrorCode, Outcome};
use crate::schedule::{FiredFrom, Schedule, ScheduleDefinition, Source};
use crate::slot::{Decision, Reason};
use crate::store::{Changes, Fired, StoreResult};
use crate::words::words;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use std::collections::BTreeSet;

/// The most of an error text that a notice carries; the whole stands in the run.
const NOTICE_ERROR_MAX_CHARS: usize = 1000;

words! {
    /// What a notice is about.
    pub enum NoticeKind as "kind of notice" {
        /// A job failed, and nothing follows: its budgets are used up, or trying again could not help.
        RunFailed = "run_failed",
        /// A schedule whose failure was told has succeeded again.
        Recovered = "recovered",
        /// A node stood still for a lease and was given up.
        NodeLost = "node_lost",
        /// Slots of a schedule passed without a run.
        SlotsMissed = "slots_missed",
        /// The database's clock jumped.
        ClockJumped = "clock_jumped",
    }
}

/// A step of the schema that was taken when a store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct AppliedMigration {
    /// Its number, which is the same in all stores.
    pub number: i64,
    /// What it is called.
    pub name: &'static str,
}

/// News in the outbox: written in the transaction of what it tells, so that a crash loses none (N04).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its identity, which is in order of time.
    pub id: NoticeId,
    /// When it happened, by the store's clock.
    pub created_at: Timestamp,
    /// What it is about.
    pub news: News,
}

/// What a notice says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// What it is about.
    pub kind: NoticeKind,
    /// The job that failed or succeeded.
    pub job_id: Option<JobId>,
    /// Its schedule.
    pub schedule_id: Option<ScheduleId>,
    /// The node that was lost.
    pub node_id: Option<NodeId>,
    /// What is known at that moment and may be forgotten later.
    pub payload: Json,
}

impl News {
    /// What is told of a run's end: that it failed, and that nothing follows. The caller has made sure that somebody
    /// wanted the work: nobody is told of what was cancelled or whose schedule was deleted.
    pub fn of_end(job: &Job, end: &End) -> Option<Self> {
        let code = end.error_code.filter(|_| end.outcome == Outcome::Failed && end.retry.is_none())?;
        Some(Self::run_failed(job, code, end.error.as_deref()))
    }

    /// A job failed, and nothing follows.
    pub fn run_failed(job: &Job, code: ErrorCode, error: Option<&str>) -> Self {
        #[derive(Serialize)]
        struct Payload<'a> {
            error_code: ErrorCode,
            error: Option<String>,
            attempt: u32,
            root_job_id: JobId,
            slot_at: Option<Timestamp>,
            queue: &'a str,
            job_type: String,
        }
        let error = error.map(|text| storable_text(text).chars().take(NOTICE_ERROR_MAX_CHARS).collect());
        let payload = Payload {
            error_code: code,
            error,
            attempt: job.attempt,
            root_job_id: job.root_job_id,
            slot_at: job.slot_at,
            queue: &job.spec.queue,
            job_type: job.spec.target.job_type(),
        };
        Self {
            kind: NoticeKind::RunFailed,
            job_id: Some(job.id),
            schedule_id: job.schedule_id,
            node_id: None,
            payload: document(&payload),
        }
    }

    /// A schedule succeeded after a failure that was told.
    pub fn recovered(schedule_id: ScheduleId, job_id: JobId, failing_since: Timestamp) -> Self {
        #[derive(Serialize)]
        struct Payload {
            failing_since: Timestamp,
        }
        Self {
            kind: NoticeKind::Recovered,
            job_id: Some(job_id),
            schedule_id: Some(schedule_id),
            node_id: None,
            payload: document(&Payload { failing_since }),
        }
    }

    /// A node was given up.
    pub fn node_lost(node_id: NodeId, name: &str) -> Self {
        #[derive(Serialize)]
        struct Payload<'a> {
            name: &'a str,
        }
        Self {
            kind: NoticeKind::NodeLost,
            job_id: None,
            schedule_id: None,
            node_id: Some(node_id),
            payload: document(&Payload { name }),
        }
    }

    /// What is told of a decision: that slots were missed.
    pub fn of_slot(schedule_id: ScheduleId, slot: &DecidedSlot) -> Option<Self> {
        #[derive(Serialize)]
        struct Payload {
            slot_at: Timestamp,
            through: Timestamp,
            count: u64,
            reason: Reason,
        }
        let payload = Payload { slot_at: slot.slot_at, through: slot.through, count: slot.count, reason: slot.reason };
        (slot.decision == Decision::Missed).then(|| Self {
            kind: NoticeKind::SlotsMissed,
            job_id: None,
            schedule_id: Some(schedule_id),
            node_id: None,
            payload: document(&payload),
        })
    }

    /// The database's clock jumped, as this node saw it.
    pub fn clock_jumped(node_id: NodeId, by: SignedDuration) -> Self {
        #[derive(Serialize)]
        struct Payload {
            by_ms: i64,
        }
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        Self {
            kind: NoticeKind::ClockJumped,
            job_id: None,
            schedule_id: None,
            node_id: Some(node_id),
            payload: document(&Payload { by_ms }),
        }
    }
}

/// What these few fields hold is always fit for a store; if it were not, the ids alone still tell what happened.
fn document(payload: &impl Serialize) -> Json {
    Json::from_value("payload", payload).unwrap_or_else(|_| Json::empty_object())
}

/// A schedule that a program declares, and who fires it (D07).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// What it is.
    pub definition: ScheduleDefinition,
    /// Whether the store fires it, or the processes that declare it. The switch for moving one schedule at a time
    /// from a program's memory into the store, and back (D14).
    pub fired_from: FiredFrom,
}

impl Declaration {
    /// The definition as it is stored.
    pub fn owned_by(&self, owner: Option<&String>) -> ScheduleDefinition {
        ScheduleDefinition { source: Source::Code, owner: owner.cloned(), ..self.definition.clone() }
    }

    /// Whether a stored schedule of the same name is this owner's to change.
    pub fn may_change(&self, stored: &Schedule, owner: Option<&String>) -> bool {
        stored.definition.source == Source::Code && stored.definition.owner.as_ref() == owner
    }
}

/// Everything that one program declares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Declarations {
    /// Whose they are. Only schedules that were declared in code under the same owner are changed or removed.
    pub owner: Option<String>,
    /// The schedules.
    pub schedules: Vec<Declaration>,
    /// Whether schedules of this owner that are declared no longer are removed.
    pub remove_others: bool,
}

impl Declarations {
    /// Refuses what could never work, and one name twice.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut names = BTreeSet::new();
        for declaration in &self.schedules {
            declaration.definition.validate()?;
            if !names.insert(declaration.definition.name.as_str()) {
                let problem = format!("`{}` is declared twice", declaration.definition.name);
                return Err(Invalid::new("name", problem).remedy("give each schedule a name of its own"));
            }
        }
        Ok(())
    }
}

/// What declaring changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Declared {
    /// Schedules that were new.
    pub created: Vec<Name>,
    /// Schedules whose definition was another.
    pub updated: Vec<Name>,
    /// Schedules that somebody else fires from now on.
    pub switched: Vec<Name>,
    /// Schedules that are declared no longer.
    pub removed: Vec<Name>,
    /// All declared ones as they stand now, in the order of the declarations.
    pub schedules: Vec<Schedule>,
}

/// How firing from memory leaves the plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plans {
    /// They move on with what was fired: for schedules that are fired from memory while all is well.
    Move,
    /// They are not even looked at, because they cannot be: the ledger alone keeps a slot from firing twice (D08).
    LeaveAlone,
}

/// What came of firing from memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FiredFromMemory {
    /// What was decided and made; slots that somebody had decided before do not count.
    pub fired: Fired,
    /// The schedules as they stand now, in the order given.
    pub schedules: Vec<Schedule>,
}

/// The verbs of upkeep.
#[async_trait]
pub trait Upkeep: Send + Sync {
    // --- wake-ups --------------------------------------------------------------------------------------------------

    /// A wake-up line for whoever fires: it rings when something may be due earlier than it was before, and not for
    /// every job that comes or ends.
    fn plan_changes(&self) -> Box<dyn Changes>;

    // --- schedules in code and in memory ---------------------------------------------------------------------------

    /// Writes a program's schedules: new ones are created, changed ones edited as by hand, and the others of the same
    /// owner removed if that is asked for. All or none. Refused: names that belong to somebody else.
    async fn declare_schedules(&self, declarations: Declarations) -> StoreResult<Declared>;

    /// The schedules that a node should remember: those the store fires and that are due within a time, soonest first,
    /// at most so many; and those among the given ones that are fired from memory, unless they are paused.
    async fn schedules_to_remember(
        &self, within: SignedDuration, limit: usize, declared: &[ScheduleId],
    ) -> StoreResult<Vec<Schedule>>;

    /// Fires schedules as they are given, by the same rule and under the same slot keys as `fire_due`, without reading
    /// their table. A slot that anybody has decided is not fired again.
    async fn fire_remembered(
        &self, node: Option<NodeId>, schedules: Vec<Schedule>, plans: Plans,
    ) -> StoreResult<FiredFromMemory>;
}
