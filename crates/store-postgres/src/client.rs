//! A connection of one's own, made by the same rules of address and TLS as the store's.

use crate::address::Address;
use crate::error::{store_error, with_causes};
use crate::tls;
use punctual_core::store::{StoreError, StoreResult};
use std::future::poll_fn;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Connection, Notification, Socket};

/// The notifications that a connection receives, in their order.
pub type Notifications = mpsc::UnboundedReceiver<Notification>;

/// Connects to wherever a store with this address would: for programs that look at the same database by SQL of their
/// own. The connection ends with its client.
pub async fn connect_client(url: &str) -> StoreResult<(Client, Notifications)> {
    connect(&Address::parse(url)?).await.map_err(|error| match error {
        NotConnected::Invalid(error) => error.into(),
        NotConnected::Database(error) => store_error(&error),
    })
}

/// Why there is no connection.
pub(crate) enum NotConnected {
    Invalid(punctual_core::invalid::Invalid),
    Database(tokio_postgres::Error),
}

impl From<NotConnected> for String {
    fn from(reason: NotConnected) -> Self {
        match reason {
            NotConnected::Invalid(error) => StoreError::from(error).to_string(),
            NotConnected::Database(error) => with_causes(&error),
        }
    }
}

pub(crate) async fn connect(address: &Address) -> Result<(Client, Notifications), NotConnected> {
    let connector = tls::connector(address.trust, address.root_cert.as_deref()).map_err(NotConnected::Invalid)?;
    let (client, connection) = address.config.connect(connector).await.map_err(NotConnected::Database)?;
    Ok((client, heard_on(connection)))
}

/// Keeps a connection going for as long as its client lives, and hands on each notification.
fn heard_on<T>(mut connection: Connection<Socket, T>) -> Notifications
where
    Connection<Socket, T>: Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let (heard, notifications) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                Ok(AsyncMessage::Notification(notification)) => {
                    // Nobody may be left to hear it; the client is gone then, and this ends with it.
                    let _gone = heard.send(notification);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!("the connection broke: {}", with_causes(&error));
                    return;
                }
            }
        }
    });
    notifications
}
