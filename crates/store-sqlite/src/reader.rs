//! The reader threads: queries beside the writer, each on a connection that cannot write.

use crate::crew::Crew;
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

type Query = Box<dyn FnOnce(&Connection) + Send>;

/// Hands queries to whichever reader is free.
#[derive(Debug, Clone)]
pub(crate) struct Readers {
    threads: Arc<Crew<Query>>,
}

impl Readers {
    /// Starts one thread for each connection. They end when the last handle is dropped.
    pub(crate) fn start(connections: Vec<Connection>) -> std::io::Result<Self> {
        let (sender, receiver) = channel::<Query>();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for connection in connections {
            let receiver = Arc::clone(&receiver);
            let serve = move || {
                while let Some(query) = take(&receiver) {
                    query(&connection);
                }
            };
            threads.push(std::thread::Builder::new().name("punctual-reader".to_owned()).spawn(serve)?);
        }
        Ok(Self { threads: Arc::new(Crew::new(sender, threads)) })
    }

    /// Asks a question.
    pub(crate) async fn read<T, F>(&self, query: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let query = move |connection: &Connection| {
            let result = catch_unwind(AssertUnwindSafe(|| query(connection)))
                .unwrap_or_else(|_| Err(StoreError::Internal("a query panicked".to_owned())));
            let _gone = reply.send(result);
        };
        let closed = || StoreError::Unavailable("the store is closed".to_owned());
        self.threads.hand_in(Box::new(query)).map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

/// Waits for the next query; the lock is held only while waiting, not while the query runs.
fn take(receiver: &Mutex<Receiver<Query>>) -> Option<Query> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
