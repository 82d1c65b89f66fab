//! How a run is told to stop: the first reason stands, and everybody who waits hears it.

use async_trait::async_trait;
use punctual_core::execute::{Stop, StopReason};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// The side that decides. There is one for every run, and hardly any is ever told: it is made to cost little.
#[derive(Debug, Clone, Default)]
pub struct StopHandle(Arc<Told>);

#[derive(Debug, Default)]
struct Told {
    reason: Mutex<Option<StopReason>>,
    heard: Notify,
}

impl StopHandle {
    /// Tells the run to stop, unless it was told before. Being fenced outranks everything: work that another node
    /// may have taken over must end now.
    pub fn stop(&self, reason: StopReason) {
        let mut told = self.0.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none() || reason == StopReason::Fenced {
            *told = Some(reason);
            drop(told);
            self.0.heard.notify_waiters();
        }
    }

    /// Why, once it is told.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.0.reason()
    }

    /// Waits for the reason.
    pub(crate) async fn told(&self) -> StopReason {
        self.0.told().await
    }

    /// What the run itself is given.
    pub fn signal(&self) -> Arc<dyn Stop> {
        Arc::<Told>::clone(&self.0)
    }
}

impl Told {
    async fn told(&self) -> StopReason {
        let mut heard = pin!(self.heard.notified());
        loop {
            // Whoever tells after this look wakes us.
            heard.as_mut().enable();
            if let Some(reason) = self.reason() {
                return reason;
            }
            heard.as_mut().await;
            heard.set(self.heard.notified());
        }
    }
}

#[async_trait]
impl Stop for Told {
    fn reason(&self) -> Option<StopReason> {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn requested(&self) -> StopReason {
        self.told().await
    }
}
