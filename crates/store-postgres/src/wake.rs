//! Wake-ups: within the process by a channel, from other nodes by NOTIFY; an optimisation only.

use crate::error::with_causes;
use crate::{CHANNEL, Shared, tls};
use async_trait::async_trait;
use punctual_core::store::Changes;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio_postgres::AsyncMessage;

/// How long a listener waits before it connects again.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What a notification says when something may be due earlier than before, and not only when there is work.
pub(crate) const PLANS: &str = "plans";

/// What rings when there may be new work or a new plan.
pub(crate) struct Wakes(pub(crate) watch::Receiver<()>);

#[async_trait]
impl Changes for Wakes {
    async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The store is closed: nothing will ever change again.
            std::future::pending::<()>().await;
        }
    }
}

/// Listens for other nodes for as long as the store lives. Whoever waits looks again by himself, so that a listener
/// that cannot connect costs time and nothing else.
pub(crate) fn listen(shared: &Arc<Shared>) {
    let store = Arc::downgrade(shared);
    let listener = tokio::spawn(async move {
        while let Err(error) = listen_once(&store).await {
            tracing::warn!(%error, "failed to listen for wake-ups; polling instead");
            tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
        }
    });
    // The cell is empty: a store listens once.
    let _first = shared.listener.set(listener.abort_handle());
}

/// Listens until the connection breaks, which is the error, or until the store is gone.
async fn listen_once(store: &Weak<Shared>) -> Result<(), String> {
    let words = |error: tokio_postgres::Error| with_causes(&error);
    let Some(shared) = store.upgrade() else { return Ok(()) };
    let connector = tls::connector(shared.direct.trust, shared.direct.root_cert.as_deref());
    let connecting = shared.direct.config.connect(connector.map_err(|error| error.to_string())?);
    let (client, mut connection) = connecting.await.map_err(words)?;
    drop(shared);
    let listen = format!("LISTEN {CHANNEL}");
    let mut listening = std::pin::pin!(client.batch_execute(&listen));
    let mut listens = false;
    loop {
        let message = poll_fn(|context| {
            if !listens && listening.as_mut().poll(context).is_ready() {
                listens = true;
            }
            connection.poll_message(context)
        });
        match message.await {
            Some(Ok(AsyncMessage::Notification(told))) => match store.upgrade() {
                Some(shared) => {
                    shared.ring();
                    if told.payload() == PLANS {
                        shared.ring_plans();
                    }
                }
                None => return Ok(()),
            },
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(words(error)),
            None => return Err("the connection was closed".to_owned()),
        }
    }
}
