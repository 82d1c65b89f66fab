//! What a message tells, before a channel gives it a form; kept with the delivery, so that it says the same every time.

use super::event::Subject;
use super::rule::Trigger;
use crate::id::{AlertId, DeliveryId, JobId};
use crate::name::Name;
use crate::run::ErrorCode;
use crate::words::words;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::channel::Channel;

words! {
    /// Why a message is sent.
    pub enum Occasion as "occasion" {
        /// An alert has begun.
        Opened = "opened",
        /// Nobody has acknowledged it, so that the next step is told.
        Escalated = "escalated",
        /// It still goes on.
        Reminder = "reminder",
        /// It is over.
        Recovered = "recovered",
        /// All is well: for a dead-man's switch.
        Well = "well",
        /// Somebody tries the channel.
        Test = "test",
    }
}

/// What a message tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Why it is sent.
    pub occasion: Occasion,
    /// When it was written, by the store's clock.
    pub at: Timestamp,
    /// The rule; `None` for a test.
    pub rule: Option<Name>,
    /// What the rule is about; `None` for a test.
    pub trigger: Option<Trigger>,
    /// The alert; `None` for a test and for a dead-man's switch.
    pub alert_id: Option<AlertId>,
    /// The number of the step, from 1.
    pub step: u32,
    /// How often it happened so far.
    pub count: u64,
    /// What is in trouble: the first few.
    pub subjects: Vec<Subject>,
    /// How many there are of them.
    pub subjects_total: u64,
    /// When it began.
    pub opened_at: Option<Timestamp>,
    /// When it was seen last.
    pub last_at: Option<Timestamp>,
    /// When it was over, if it is.
    pub recovered_at: Option<Timestamp>,
    /// The latest error.
    pub error_code: Option<ErrorCode>,
    /// Its text, cut.
    pub error: Option<String>,
    /// The latest job.
    pub job_id: Option<JobId>,
    /// One line of what is wrong beside that, such as "waits for 12m, and 5m are allowed".
    pub detail: Option<String>,
    /// The code that acknowledges the alert: `/acknowledge/{code}`.
    pub acknowledge: Option<String>,
}

impl Message {
    /// What somebody gets who tries a channel.
    pub fn test(at: Timestamp) -> Self {
        Self::empty(Occasion::Test, at)
    }

    /// What a dead-man's switch gets.
    pub fn well(at: Timestamp, rule: Name) -> Self {
        Self { rule: Some(rule), trigger: Some(Trigger::AllWell), ..Self::empty(Occasion::Well, at) }
    }

    fn empty(occasion: Occasion, at: Timestamp) -> Self {
        Self {
            occasion,
            at,
            rule: None,
            trigger: None,
            alert_id: None,
            step: 1,
            count: 0,
            subjects: Vec::new(),
            subjects_total: 0,
            opened_at: None,
            last_at: None,
            recovered_at: None,
            error_code: None,
            error: None,
            job_id: None,
            detail: None,
            acknowledge: None,
        }
    }
}

/// How an attempt to send ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// It arrived.
    Arrived {
        /// What the other side said, in a few words, such as "200" or "250 queued".
        answer: String,
    },
    /// It did not, and may another time.
    Failed {
        /// Why, without any secret.
        error: String,
        /// When the other side wants to be asked again.
        retry_after: Option<SignedDuration>,
    },
    /// It never will as it is: the other side has read it and does not want it, or it must not be called.
    Refused {
        /// Why, without any secret.
        error: String,
    },
}

impl Sent {
    /// It did not arrive, and nobody said when to try again.
    pub fn failed(error: impl Into<String>) -> Self {
        Self::Failed { error: error.into(), retry_after: None }
    }
}

/// What brings messages to channels.
#[async_trait]
pub trait Courier: Send + Sync {
    /// Sends a message once. `id` is the same over all attempts, so that a receiver can drop what it has already.
    async fn send(&self, id: DeliveryId, channel: &Channel, message: &Message) -> Sent;
}
