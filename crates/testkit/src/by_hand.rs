//! Runs an executor by hand: one job, without a store and without a node, told to stop when a test says so.

use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::execute::{MemoryReports, RunContext, Stop, StopReason};
use punctual_core::id::JobId;
use punctual_core::invalid::Invalid;
use punctual_core::job::{Job, NewJob};
use punctual_core::secret::{Secret, SecretRef, Secrets};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// What a run by hand is given, and what it has left behind.
pub struct ByHand {
    /// Its log, progress and files.
    pub reports: Arc<MemoryReports>,
    stop: Arc<HandStop>,
    hidden: Arc<HiddenTexts>,
}

impl Default for ByHand {
    fn default() -> Self {
        let stop = Arc::new(HandStop(watch::Sender::new(None)));
        Self { reports: Arc::default(), stop, hidden: Arc::default() }
    }
}

impl ByHand {
    /// The context for one job.
    pub fn context(&self, spec: NewJob) -> RunContext {
        let id = JobId::from_bytes(*uuid::Uuid::now_v7().as_bytes());
        let now = Timestamp::UNIX_EPOCH;
        let job = Job {
            id,
            created_at: now,
            spec,
            schedule_id: None,
            slot_at: None,
            retry_of: None,
            root_job_id: id,
            chain_began_at: now,
            attempt: 1,
            failures: 0,
            interruptions: 0,
        };
        RunContext {
            job: Arc::new(job),
            started_at: now,
            stop: Arc::clone(&self.stop) as Arc<dyn Stop>,
            grace: Duration::from_secs(10),
            reports: self.reports.clone(),
            secrets: Arc::clone(&self.hidden) as Arc<dyn Secrets>,
        }
    }

    /// Tells the run to stop.
    pub fn tell(&self, reason: StopReason) {
        self.stop.0.send_replace(Some(reason));
    }

    /// The texts that the run wants to be kept from view.
    pub fn hidden(&self) -> Vec<String> {
        self.hidden.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct HandStop(watch::Sender<Option<StopReason>>);

#[async_trait]
impl Stop for HandStop {
    fn reason(&self) -> Option<StopReason> {
        *self.0.borrow()
    }

    async fn requested(&self) -> StopReason {
        let mut told = self.0.subscribe();
        let reason = told.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
        match reason {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }
}

/// Hands out nothing, and remembers what is to be hidden.
#[derive(Default)]
struct HiddenTexts(Mutex<Vec<String>>);

impl Secrets for HiddenTexts {
    fn reveal(&self, _: &SecretRef) -> Result<Secret, Invalid> {
        Err(Invalid::new("secret", "is not handed out in this test"))
    }

    fn hide(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }
}
