//! Deliveries: a line for each channel, handed out from its head, with a record of every attempt.

use crate::Shared;
use crate::error::Work;
use crate::params::{limit as most, params, time};
use crate::rows::{Columns, Unreadable, document, value};
use crate::sql;
use crate::tx::Tx;
use jiff::Timestamp;
use punctual_core::id::{DeliveryId, LeaseId};
use punctual_core::invalid::Invalid;
use punctual_core::name::Name;
use punctual_core::notify::delivery::{Delivery, DeliveryState, head_of_line, line_moves_at};
use punctual_core::notify::message::{Message, Occasion, Sent};
use punctual_core::notify::port::{DeliveryFilter, TakenDeliveries};
use punctual_core::readings::Page;
use punctual_core::store::{Lease, StoreError};
use tokio_postgres::Row;
use uuid::Uuid;

/// How far into a line is looked.
const LINE_MAX: i64 = 100;

pub(crate) fn delivery(row: &Row) -> Result<Delivery, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Delivery {
        id: c.id()?,
        channel: Name::new(c.next::<String>()?)?,
        alert_id: c.optional_id()?,
        message: c.document("message")?,
        state: c.word()?,
        created_at: c.time()?,
        next_at: c.time()?,
        tried_since: c.optional_time()?,
        tries: u32::try_from(c.next::<i64>()?).map_err(|_| Invalid::new("tries", "is no count"))?,
        attempts: c.document("attempts")?,
        ended_at: c.optional_time()?,
    })
}

pub(crate) async fn any_waits(shared: &Shared) -> Work<bool> {
    let find = "SELECT EXISTS (SELECT 1 FROM punctual_internal.deliveries WHERE state = 'waiting')";
    Ok(shared.read(find, params![], value).await?.pop().unwrap_or(false))
}

pub(crate) async fn page(
    shared: &Shared, filter: &DeliveryFilter, before: Option<DeliveryId>, limit: usize,
) -> Work<Page<Delivery, DeliveryId>> {
    let before = before.map_or(Uuid::max(), |id| id.0);
    let (state, more) = (filter.state.map(DeliveryState::as_str), most(limit.saturating_add(1)));
    let params = params![before, more];
    let (sql, params) = match (filter.alert_id, filter.channel.as_deref(), state) {
        (Some(alert), _, _) => (sql::deliveries_page_of_alert, params.with(alert.0)),
        (None, Some(channel), Some(state)) => (sql::deliveries_page_of_line, params.with(state).with(channel)),
        (None, Some(channel), None) => (sql::deliveries_page_of_channel, params.with(channel)),
        (None, None, Some(state)) => (sql::deliveries_page_of_state, params.with(state)),
        (None, None, None) => (sql::deliveries_page, params),
    };
    let mut found = shared.read(sql, params, delivery).await?;
    let last = found.last().map(|delivery| delivery.id).filter(|_| found.len() > limit);
    // An alert has few deliveries: the rest of the filter is checked one by one.
    found.retain(|delivery| filter.lets_through(delivery));
    Ok(Page::of(found, limit, |delivery| delivery.id, last))
}

impl Tx<'_> {
    /// Puts a message at the end of a channel's line. A dead-man's switch that waits for one message needs no second.
    pub(crate) async fn put_into_line(&self, channel: Name, message: Message) -> Work<Delivery> {
        let delivery = Delivery::new(DeliveryId::at(self.now, self.id_bits()), channel, message, self.now);
        if delivery.message.occasion == Occasion::Well {
            let waits = "SELECT 1 FROM punctual_internal.deliveries
                         WHERE channel = $1 AND state = 'waiting' AND occasion = 'well'";
            if self.one(waits, params![delivery.channel.as_str()], value::<i32>).await?.is_some() {
                return Ok(delivery);
            }
            self.execute(sql::forget_pings, params![delivery.channel.as_str()]).await?;
        }
        let insert = "INSERT INTO punctual_internal.deliveries
                        (id, channel, alert_id, occasion, message, state, created_at, next_at)
                      VALUES ($1, $2, $3, $4, $5::text::json, 'waiting', $6, $6)";
        let params = params![
            delivery.id.0,
            delivery.channel.as_str(),
            delivery.alert_id.map(|id| id.0),
            delivery.message.occasion.as_str(),
            document("message", &delivery.message)?,
            self.at(),
        ];
        self.execute(insert, params).await?;
        Ok(delivery)
    }

    async fn save_delivery(&self, delivery: &Delivery) -> Work<()> {
        let params = params![
            delivery.id.0,
            delivery.state.as_str(),
            time(delivery.next_at),
            delivery.tried_since.map(time),
            i64::from(delivery.tries),
            document("attempts", &delivery.attempts)?,
            delivery.ended_at.map(time),
        ];
        self.execute(sql::save_delivery, params).await?;
        Ok(())
    }

    async fn locked_delivery(&self, id: DeliveryId) -> Work<Option<Delivery>> {
        let find = format!("{} FOR UPDATE", sql::delivery_by_id);
        self.one(&find, params![id.0], delivery).await
    }

    pub(crate) async fn change_delivery(
        &mut self, id: DeliveryId, change: fn(&mut Delivery, Timestamp),
    ) -> Work<Delivery> {
        let not_found = || StoreError::NotFound { what: "delivery", key: id.to_string() };
        let mut delivery = self.locked_delivery(id).await?.ok_or_else(not_found)?;
        change(&mut delivery, self.now);
        self.save_delivery(&delivery).await?;
        Ok(delivery)
    }

    pub(crate) async fn take_deliveries(
        &mut self, lease: Lease, sending: &[DeliveryId], limit: usize,
    ) -> Work<TakenDeliveries> {
        self.check_lease(lease).await?;
        let lines: Vec<String> = self.all(sql::waiting_lines, params![], value).await?;
        let mut taken = TakenDeliveries::default();
        for name in lines {
            if taken.deliveries.len() >= limit {
                break;
            }
            // A channel that somebody else looks at is his.
            let Some(channel) = self.free_channel(&name).await? else { continue };
            if !channel.definition.enabled || self.is_being_sent(&name, lease, sending).await? {
                continue;
            }
            let line = self.all(sql::line, params![name.as_str(), LINE_MAX], delivery).await?;
            if let Some(head) = head_of_line(&line, self.now) {
                let take = "UPDATE punctual_internal.deliveries SET taken_by = $2 WHERE id = $1";
                self.execute(take, params![line[head].id.0, lease.lease_id.0]).await?;
                taken.deliveries.push((line[head].clone(), channel));
            } else if let Some(at) = line_moves_at(&line, self.now) {
                let wait = at.duration_since(self.now);
                taken.again_in = Some(taken.again_in.map_or(wait, |other| other.min(wait)));
            }
        }
        Ok(taken)
    }

    /// Whether somebody has a message of this line in hand.
    async fn is_being_sent(&self, channel: &str, lease: Lease, sending: &[DeliveryId]) -> Work<bool> {
        let taken: Vec<(DeliveryId, LeaseId)> = self
            .all(sql::taken_of_line, params![channel], |row| {
                let mut c = Columns::of(row);
                Ok((c.id()?, c.id()?))
            })
            .await?;
        Ok(taken.iter().any(|(id, by)| *by != lease.lease_id || sending.contains(id)))
    }

    pub(crate) async fn end_attempt(&mut self, lease: Lease, id: DeliveryId, sent: Sent) -> Work<Option<Delivery>> {
        self.check_lease(lease).await?;
        let mine = "SELECT 1 FROM punctual_internal.deliveries
                    WHERE id = $1 AND taken_by = $2 AND state = 'waiting' FOR UPDATE";
        if self.one(mine, params![id.0, lease.lease_id.0], value::<i32>).await?.is_none() {
            return Ok(None);
        }
        let Some(mut delivery) = self.locked_delivery(id).await? else { return Ok(None) };
        delivery.attempted(sent, self.now, u64::from(self.id_bits()[7]));
        self.save_delivery(&delivery).await?;
        if delivery.state == DeliveryState::Arrived {
            // The way is clear: whoever waited for it to be goes now, in order.
            let go = "UPDATE punctual_internal.deliveries SET next_at = $2
                      WHERE channel = $1 AND state = 'waiting' AND next_at > $2";
            self.execute(go, params![delivery.channel.as_str(), self.at()]).await?;
        }
        Ok(Some(delivery))
    }
}
