//! Sending messages: each channel's line moves by itself, one message at a time, and what was sent is marked until that
//! has succeeded.

use super::{NewsBell, Telling};
use crate::lease::HeldLease;
use crate::phase::Phase;
use punctual_core::id::DeliveryId;
use punctual_core::meter::AttemptResult;
use punctual_core::notify::channel::Channel;
use punctual_core::notify::delivery::{Delivery, DeliveryState};
use punctual_core::notify::message::{Courier, Sent};
use punctual_core::store::{StoreError, StoreResult};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Messages that a node sends at once, each to another channel.
const ROOM: usize = 16;

/// How long a store that fails is left alone.
const SETBACK: Duration = Duration::from_secs(1);

/// Messages on their way.
struct Carriers {
    telling: Telling,
    courier: Arc<dyn Courier>,
    tasks: JoinSet<DeliveryId>,
    in_hand: BTreeSet<DeliveryId>,
}

impl Carriers {
    fn new(telling: Telling, courier: Arc<dyn Courier>) -> Self {
        Self { telling, courier, tasks: JoinSet::new(), in_hand: BTreeSet::new() }
    }

    /// Sends what there is; says when the next is due, if that is known.
    async fn send_what_is_due(&mut self) -> StoreResult<Option<Duration>> {
        let room = ROOM.saturating_sub(self.in_hand.len());
        if room == 0 {
            return Ok(None);
        }
        let (lease, sending) = (self.telling.lease.lease, self.in_hand.iter().copied().collect());
        let taken = self.telling.store.take_deliveries_if_leased(lease, sending, room).await?;
        for (delivery, channel) in taken.deliveries {
            self.in_hand.insert(delivery.id);
            self.tasks.spawn(carry(self.telling.clone(), Arc::clone(&self.courier), delivery, channel));
        }
        Ok(taken.again_in.map(|wait| Duration::try_from(wait).unwrap_or_default()))
    }

    /// Waits until one has been sent and marked; for ever when none is on its way.
    async fn next_end(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(id)) => {
                self.in_hand.remove(&id);
            }
            // A courier that panics loses its message from sight: whoever has none in hand is given all of his again.
            Some(Err(error)) => {
                tracing::error!("a courier was lost: {error}");
                if self.tasks.is_empty() {
                    self.in_hand.clear();
                }
            }
            None => std::future::pending().await,
        }
    }
}

/// Sends one message and marks what came of it. The mark is tried until it succeeds or the lease is over: after a send
/// that nobody knows of, the message goes again, under the same id.
async fn carry(telling: Telling, courier: Arc<dyn Courier>, delivery: Delivery, channel: Channel) -> DeliveryId {
    let _phase = Phase::enter("deliver");
    let Delivery { id, message, .. } = delivery;
    let began = telling.uptime.now();
    let sent = courier.send(id, &channel, &message).await;
    let took = telling.uptime.now().saturating_sub(began);
    let kind = channel.definition.target.kind();
    telling.meter.delivery_ended(kind, result_of(&sent), took);
    loop {
        match telling.store.end_attempt_if_taken(telling.lease.lease, id, sent.clone()).await {
            Ok(after) => {
                report(&channel, after.as_ref());
                return id;
            }
            Err(error @ (StoreError::Unavailable(_) | StoreError::Full(_))) => {
                tracing::warn!("failed to mark a message as sent: {error}");
                sleep(SETBACK).await;
            }
            Err(error) => {
                tracing::warn!("a message could not be marked as sent, and may be sent again: {error}");
                return id;
            }
        }
    }
}

fn result_of(sent: &Sent) -> AttemptResult {
    match sent {
        Sent::Arrived { .. } => AttemptResult::Arrived,
        Sent::Failed { .. } => AttemptResult::Failed,
        Sent::Refused { .. } => AttemptResult::Refused,
    }
}

/// Loud when a message is given up: somebody was to be told, and is not.
fn report(channel: &Channel, after: Option<&Delivery>) {
    let Some(after) = after else { return };
    let (channel, answer) = (&channel.definition.name, after.attempts.last().map_or("", |last| &last.answer));
    match after.state {
        DeliveryState::Failed => tracing::error!(%channel, delivery = %after.id, "a message was given up: {answer}"),
        DeliveryState::Waiting => tracing::warn!(%channel, tries = after.tries, "a message did not arrive: {answer}"),
        DeliveryState::Arrived | DeliveryState::Dropped => tracing::debug!(%channel, "a message was sent: {answer}"),
    }
}

/// Goes on until the lease is lost.
pub(super) async fn run(telling: Telling, courier: Arc<dyn Courier>, messages: NewsBell) {
    let mut plans = telling.store.plan_changes();
    let sweep = telling.sweep;
    let mut carriers = Carriers::new(telling, courier);
    loop {
        let wait = match carriers.send_what_is_due().await {
            Ok(wait) => wait.unwrap_or(sweep).min(sweep),
            Err(error) if HeldLease::is_over(&error) => return,
            Err(error) => {
                tracing::warn!("failed to look for messages: {error}");
                SETBACK
            }
        };
        tokio::select! {
            () = carriers.next_end() => {}
            () = sleep(wait) => {}
            () = messages.heard() => {}
            () = plans.next() => {}
        }
    }
}
