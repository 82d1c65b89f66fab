//! Holding a queue for oneself: taking it, waiting for it, keeping it, giving it back.

use crate::enqueue::signed;
use crate::{Error, Punctual, Result, Timestamp};
use punctual_core::store::{Reservation, StoreError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How often somebody who waits for a queue looks again by himself.
const LOOK: Duration = Duration::from_millis(250);

/// A hold of a queue that is asked for; begun by [`Punctual::reserve`].
#[derive(Debug)]
#[must_use = "a queue is held when it is taken"]
pub struct Reserve {
    punctual: Punctual,
    queue: String,
    holder: String,
    expires_in: Duration,
    wait: Duration,
}

impl Reserve {
    pub(crate) fn new(punctual: Punctual, queue: String) -> Self {
        let holder = format!("process {}", std::process::id());
        Self { punctual, queue, holder, expires_in: Duration::from_secs(5 * 60), wait: Duration::ZERO }
    }

    /// After how long it ends by itself, unless it is renewed; 5 minutes unless it is said.
    pub fn expires_in(self, time: Duration) -> Self {
        Self { expires_in: time, ..self }
    }

    /// How long to wait while somebody else holds the queue; not at all unless it is said.
    pub fn wait(self, time: Duration) -> Self {
        Self { wait: time, ..self }
    }

    /// Who holds it, for people; this process unless it is said.
    pub fn holder(self, name: impl Into<String>) -> Self {
        Self { holder: name.into(), ..self }
    }

    /// Takes the queue. From now on it hands out nothing; jobs that run go on. Refused with
    /// [`StoreError::Reserved`] when somebody else holds it and goes on doing so.
    pub async fn take(self) -> Result<HeldQueue> {
        let deadline = Instant::now() + self.wait;
        let store = self.punctual.store();
        let mut changes = store.changes();
        loop {
            match store.reserve_queue(&self.queue, &self.holder, signed(self.expires_in)).await {
                Ok(held) => {
                    return Ok(HeldQueue { punctual: self.punctual, held: Some(held), expires_in: self.expires_in });
                }
                Err(StoreError::Reserved { .. }) if Instant::now() < deadline => {
                    tokio::select! {
                        () = sleep_until(deadline.min(Instant::now() + LOOK)) => {}
                        () = changes.next() => {}
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A queue that hands out nothing while this is held. It is given back by [`HeldQueue::release`], or soon after it is
/// dropped, or when its time is over.
#[derive(Debug)]
pub struct HeldQueue {
    punctual: Punctual,
    // `None` once it was given back.
    held: Option<Reservation>,
    expires_in: Duration,
}

impl HeldQueue {
    /// Until when it is held, by the store's clock.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.held.as_ref().map(|held| held.expires_at)
    }

    /// Holds it for as long again, from now. Refused when it has run out: others may have been in since.
    pub async fn renew(&mut self) -> Result<()> {
        let Some(held) = &self.held else { return Ok(()) };
        self.held = Some(self.punctual.store().renew_reservation(held.id, signed(self.expires_in)).await?);
        Ok(())
    }

    /// Does something while the queue is held, renews the hold meanwhile, and gives it back. When the hold is lost, the
    /// work is dropped and the error says so.
    pub async fn during<T>(mut self, work: impl Future<Output = T>) -> Result<T> {
        let mut work = std::pin::pin!(work);
        loop {
            let next = sleep_until(Instant::now() + self.expires_in / 3);
            tokio::select! {
                done = &mut work => {
                    self.release().await?;
                    return Ok(done);
                }
                () = next => match self.renew().await {
                    // The next try may come in time; if not, the hold has run out and that is told.
                    Ok(()) | Err(Error::Store(StoreError::Unavailable(_))) => {}
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Gives it back. That it has run out meanwhile is no error.
    pub async fn release(mut self) -> Result<()> {
        match self.held.take() {
            Some(held) => Ok(self.punctual.store().release_reservation(held.id).await?),
            None => Ok(()),
        }
    }
}

impl Drop for HeldQueue {
    fn drop(&mut self) {
        let (Some(held), Ok(runtime)) = (self.held.take(), tokio::runtime::Handle::try_current()) else { return };
        let store = self.punctual.store();
        runtime.spawn(async move { store.release_reservation(held.id).await });
    }
}
