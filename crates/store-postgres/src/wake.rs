//! Wake-ups by NOTIFY: an optimisation only, for whoever would otherwise wait for the next poll.

use crate::address::Address;
use crate::error::store_error;
use crate::tls;
use punctual_core::store::StoreResult;
use std::future::poll_fn;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_postgres::{AsyncMessage, Client};

/// Hears when another node has made something to do.
///
/// It never misses for good: a wake-up that comes while nobody waits is kept for the next wait. When the connection
/// breaks, [`Wake::is_live`] says so, and the caller polls until it has a new one.
#[derive(Debug)]
pub struct Wake {
    bell: Arc<Notify>,
    listener: AbortHandle,
    // The connection listens for as long as its client lives.
    client: Client,
}

impl Wake {
    /// Waits until there may be something to do, or until the connection is gone.
    pub async fn rung(&self) {
        if self.is_live() {
            self.bell.notified().await;
        }
    }

    /// Whether the connection still listens.
    pub fn is_live(&self) -> bool {
        !self.listener.is_finished()
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

pub(crate) async fn listen(address: &Address) -> StoreResult<Wake> {
    let connector = tls::connector(address.trust, address.root_cert.as_deref())?;
    let (client, mut connection) = address.config.connect(connector).await.map_err(|error| store_error(&error))?;
    let bell = Arc::new(Notify::new());
    let ring = Arc::clone(&bell);
    let listener = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(message, AsyncMessage::Notification(_)) {
                ring.notify_one();
            }
        }
        // Whoever waits goes back to polling.
        ring.notify_one();
    });
    let wake = Wake { bell, listener: listener.abort_handle(), client: client };
    let listen = format!("LISTEN {}", crate::CHANNEL);
    wake.client.batch_execute(&listen).await.map_err(|error| store_error(&error))?;
    Ok(wake)
}
