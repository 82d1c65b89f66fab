//! How a run is told to stop: the first reason stands, and everybody who waits hears it.

use async_trait::async_trait;
use punctual_core::execute::{Stop, StopReason};
use std::sync::Arc;
use tokio::sync::watch;

/// The side that decides.
#[derive(Debug, Clone)]
pub struct StopHandle(Arc<watch::Sender<Option<StopReason>>>);

impl Default for StopHandle {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl StopHandle {
    /// Tells the run to stop, unless it was told before. Being fenced outranks everything: work that another node
    /// may have taken over must end now.
    pub fn stop(&self, reason: StopReason) {
        self.0.send_if_modified(|told| {
            let news = told.is_none() || (reason == StopReason::Fenced && *told != Some(StopReason::Fenced));
            if news {
                *told = Some(reason);
            }
            news
        });
    }
}

#[async_trait]
impl Stop for StopHandle {
    fn reason(&self) -> Option<StopReason> {
        *self.0.borrow()
    }

    async fn requested(&self) -> StopReason {
        let mut told = self.0.subscribe();
        loop {
            if let Some(reason) = *told.borrow_and_update() {
                return reason;
            }
            if told.changed().await.is_err() {
                return StopReason::Shutdown;
            }
        }
    }
}
