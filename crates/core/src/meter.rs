//! The port behind the figures of one process: what a node tells while it works, for whoever counts it.
//!
//! Everything told here is about this process alone, costs no look at the store, and has few names: no job, schedule or
//! id is ever part of it. Who does not listen pays for a call that does nothing.

use crate::notify::channel::ChannelKind;
use crate::run::{ErrorCode, Outcome};
use crate::slot::Reason;
use crate::words::words;
use std::time::Duration;

words! {
    /// What a node asks of its store, as far as the answer's time is worth knowing.
    pub enum StoreVerb as "verb of the store" {
        /// Asks when something is due.
        NextDue = "next_due",
        /// Decides what is due, and makes its jobs.
        Fire = "fire",
        /// Puts delayed jobs into their queues.
        Promote = "promote",
        /// Takes jobs from the queues.
        Claim = "claim",
        /// Closes runs.
        Finish = "finish",
        /// Renews the node's lease.
        Heartbeat = "heartbeat",
        /// Looks for lost nodes, and judges what they left.
        Recover = "recover",
    }
}

/// How a run ended on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunEnd {
    /// The kind of its target: see [`crate::target::Target::kind`].
    pub kind: &'static str,
    /// How.
    pub outcome: Outcome,
    /// Why it did not complete.
    pub error_code: Option<ErrorCode>,
    /// How long the target was at it.
    pub took: Duration,
}

words! {
    /// How an attempt to send a message ended.
    pub enum AttemptResult as "result of an attempt" {
        /// It arrived.
        Arrived = "arrived",
        /// It did not, and is tried again.
        Failed = "failed",
        /// The other side does not want it.
        Refused = "refused",
    }
}

/// Hears what a node does. No call waits for anything, and none may fail.
pub trait Meter: std::fmt::Debug + Send + Sync {
    /// Jobs were made for slots.
    fn slots_fired(&self, _slots: u64) {}

    /// Slots were decided not to run.
    fn slots_not_run(&self, _reason: Reason, _slots: u64) {}

    /// Delayed jobs were put into their queues.
    fn jobs_promoted(&self, _jobs: u64) {}

    /// Plans that were null or impossible were made anew, or schedules could not be understood.
    fn schedules_mended(&self, _schedules: u64) {}

    /// The store answered one of the node's questions; whether it could.
    fn store_answered(&self, _verb: StoreVerb, _took: Duration, _could: bool) {}

    /// So many jobs came with one claim; none is no claim.
    fn jobs_claimed(&self, _jobs: usize) {}

    /// A claimed job had waited so long since it could have run.
    fn job_waited(&self, _waited: Duration) {}

    /// The job of a slot came to a node so long after the slot.
    fn slot_was_late(&self, _late: Duration) {}

    /// A run came to its end here.
    fn run_ended(&self, _end: RunEnd) {}

    /// So many ends were reported together, and so many of them were refused, because others had taken over.
    fn runs_reported(&self, _runs: usize, _refused: usize) {}

    /// So many runs are going on, of so many that may.
    fn at_work(&self, _running: usize, _room: usize) {}

    /// The lease was renewed, or could not be.
    fn lease_renewed(&self, _renewed: bool) {}

    /// The lease was lost, and everything was stopped.
    fn lease_lost(&self) {}

    /// Other nodes were found lost, and so many runs of theirs were closed.
    fn recovered(&self, _nodes: usize, _runs: usize) {}

    /// Notices were judged by the rules.
    fn notices_judged(&self, _notices: u64) {}

    /// An attempt to send a message to a channel of a kind ended so.
    fn delivery_ended(&self, _channel: ChannelKind, _result: AttemptResult, _took: Duration) {}

    /// Alerts were opened.
    fn alerts_opened(&self, _alerts: u64) {}

    /// Spans were handed to the receiver of traces.
    fn spans_exported(&self, _spans: u64) {}

    /// Spans were dropped, because the receiver of traces is slow or out of reach.
    fn spans_dropped(&self, _spans: u64) {}
}

/// Nobody listens.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMeter;

impl Meter for NoMeter {}
