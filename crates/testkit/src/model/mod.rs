//! An independent model of the store: the same rules written a second time, simply and slowly, in memory.
//!
//! It shares no logic with `core`: instants are plain microseconds, slots are listed one by one, a queue is a list.
//! Only words without behaviour are borrowed (decisions, reasons, triggers, error codes), so that both can be
//! compared. Things are known by the number of their creation.

mod clockwork;
mod queues;
mod runs;
mod schedules;

pub use clockwork::{Beat, LocalTimes, Micros, SECOND};
pub use runs::Ending;
pub use schedules::{Definition, MissedRule, OverlapRule, Spread};

use punctual_core::run::{ErrorCode, Outcome, Trigger};
use punctual_core::slot::{Decision, Reason};
use std::collections::BTreeMap;

/// Everything that the model knows.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// The time.
    pub now: Micros,
    /// All schedules ever made, in order of creation.
    pub schedules: Vec<Schedule>,
    /// All jobs ever made, in order of creation.
    pub jobs: Vec<Job>,
    /// All nodes that ever came, in order of arrival.
    pub nodes: Vec<Node>,
    /// The queues by name.
    pub lines: BTreeMap<String, Line>,
    /// How often a job was put at the back of a queue.
    pub queueings: u64,
    /// What somebody was to be told, in order.
    pub notices: Vec<Notice>,
}

/// News for somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// What it says.
    pub news: News,
    /// When it happened.
    pub at: Micros,
}

/// What there is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// A job failed, and nothing follows.
    Failed(usize),
    /// With this job a schedule succeeded after a failure that was told.
    Recovered(usize),
    /// A node was given up.
    Lost(usize),
    /// Slots of this schedule were missed, from this one on.
    Missed(usize, Micros),
}

/// One schedule.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// What its user said.
    pub definition: Definition,
    /// When it was made.
    pub created_at: Micros,
    /// What the multiples of its period count from.
    pub anchor: Micros,
    /// How often it was edited, and one.
    pub version: i64,
    /// What its user said before, by version.
    pub past: Vec<Definition>,
    /// Whether it was deleted.
    pub deleted: bool,
    /// Since when it is paused.
    pub paused_at: Option<Micros>,
    /// When its pause ends by itself.
    pub resumes_at: Option<Micros>,
    /// When its last pause ended, and how many failures in a row there were.
    pub forgiven: Option<(Micros, u32)>,
    /// The slot that it waits for.
    pub next: Option<Micros>,
    /// When that slot is due.
    pub next_due: Option<Micros>,
    /// By how much its slots are held back.
    pub spread: Spread,
    /// The latest slot that was decided.
    pub last_slot: Option<Micros>,
    /// The latest slot that was decided when it had passed already.
    pub passed_through: Option<Micros>,
    /// When a job was last made for a slot.
    pub last_enqueued: Option<Micros>,
    /// Which job that was.
    pub last_job: Option<usize>,
    /// How its runs ended.
    pub results: Results,
    /// Whether slots were fired that its plan knows nothing of.
    pub behind: bool,
    /// What was decided, by the first slot of each row.
    pub ledger: BTreeMap<Micros, Row>,
}

/// How a schedule's runs ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Results {
    /// When the last one ended.
    pub at: Option<Micros>,
    /// How.
    pub outcome: Option<Outcome>,
    /// When one last completed.
    pub success_at: Option<Micros>,
    /// How many failed since.
    pub failures: u32,
    /// Whether a failure was told, and no success since.
    pub told: bool,
}

/// One row of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The first slot.
    pub slot: Micros,
    /// The last slot.
    pub through: Micros,
    /// How many there are.
    pub count: u64,
    /// What was decided.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// The job that was made.
    pub job: Option<usize>,
    /// When it was decided.
    pub decided_at: Micros,
    /// Under which version.
    pub version: i64,
}

/// One job.
#[derive(Debug, Clone)]
pub struct Job {
    /// What was asked for.
    pub spec: Spec,
    /// When it was made.
    pub created_at: Micros,
    /// By which schedule.
    pub schedule: Option<usize>,
    /// For which slot.
    pub slot: Option<Micros>,
    /// The failed job before it.
    pub retry_of: Option<usize>,
    /// The first job of its chain.
    pub root: usize,
    /// The length of its chain.
    pub attempt: u32,
    /// Failures before it.
    pub failures: u32,
    /// Interruptions before it.
    pub interruptions: u32,
    /// When it was put at the back of its queue, by the count of all such events.
    pub queueing: u64,
    /// Its priority in the queue, which a move may change.
    pub priority: i32,
    /// Where it is.
    pub place: Whereabouts,
    /// Whether its history was forgotten.
    pub forgotten: bool,
}

/// What is asked for when a job is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Which queue.
    pub queue: String,
    /// Larger goes first.
    pub priority: i32,
    /// Which serial key.
    pub key: Option<String>,
    /// A number that stands for the input.
    pub input: u32,
    /// How often it may fail, in all.
    pub max_attempts: u32,
    /// How long a retry waits.
    pub wait: Micros,
    /// How often it may be interrupted.
    pub max_interruptions: u32,
    /// What made it.
    pub trigger: Trigger,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// Until then it waits.
    Delayed(Micros),
    /// In its queue.
    Queued,
    /// With a node.
    Running(Running),
    /// At its end.
    Closed(Closed),
}

/// A run that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// By which node.
    pub node: usize,
    /// Since when.
    pub started_at: Micros,
    /// Since when somebody wants it to stop, and why.
    pub cancel: Option<(Micros, ErrorCode)>,
    /// How often its queue had been reordered when it left; its place is known only while nobody reorders it.
    pub moves_seen: u64,
}

/// A run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// When it began.
    pub started_at: Option<Micros>,
    /// When it ended.
    pub finished_at: Micros,
    /// How.
    pub outcome: Outcome,
    /// Why.
    pub code: Option<ErrorCode>,
    /// Whether nothing follows.
    pub is_final: bool,
}

/// One node.
#[derive(Debug, Clone)]
pub struct Node {
    /// Whether its lease holds.
    pub leased: bool,
    /// How often it beat.
    pub counter: i64,
}

/// One queue.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// Its jobs in order, with those that run in the place they left, should they come back.
    pub order: Vec<usize>,
    /// Whether it is paused.
    pub paused: bool,
    /// Until when it is reserved.
    pub held_until: Option<Micros>,
    /// How often it was reordered by hand.
    pub moves: u64,
}
