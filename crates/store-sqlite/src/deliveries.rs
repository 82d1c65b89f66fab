//! Deliveries: a line for each channel, handed out from its head, with a record of every attempt.

use crate::notify::most;
use crate::rows::{self, Columns, Unreadable, bytes, document};
use crate::sql;
use crate::tx::{Tx, value};
use jiff::Timestamp;
use punctual_core::id::{DeliveryId, LeaseId};
use punctual_core::name::Name;
use punctual_core::notify::delivery::{Delivery, DeliveryState, head_of_line, line_moves_at};
use punctual_core::notify::message::{Message, Occasion, Sent};
use punctual_core::notify::port::{DeliveryFilter, TakenDeliveries};
use punctual_core::readings::Page;
use punctual_core::store::{Lease, StoreError, StoreResult};
use rusqlite::{Connection, Row, ToSql, params};

/// How far into a line is looked.
const LINE_MAX: i64 = 100;

fn delivery(row: &Row<'_>) -> Result<Delivery, Unreadable> {
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
        tries: c.next()?,
        attempts: c.document("attempts")?,
        ended_at: c.optional_time()?,
    })
}

pub(crate) fn any_waits(connection: &Connection) -> StoreResult<bool> {
    let find = "SELECT EXISTS (SELECT 1 FROM punctual_deliveries WHERE state = 'waiting')";
    Ok(rows::collect(connection, find, [], value)?.pop().unwrap_or(false))
}

pub(crate) fn page(
    connection: &Connection, filter: &DeliveryFilter, before: Option<DeliveryId>, limit: usize,
) -> StoreResult<Page<Delivery, DeliveryId>> {
    let before = before.map_or([0xff; 16], |id| *id.as_bytes());
    let (state, more) = (filter.state.map(DeliveryState::as_str), most(limit.saturating_add(1)));
    let read = |sql, params: &[&dyn ToSql]| rows::collect(connection, sql, params, delivery);
    let mut found = match (&filter.alert_id, &filter.channel, state) {
        (Some(alert), _, _) => read(sql::deliveries_page_of_alert, &[&before, &more, alert.as_bytes()])?,
        (None, Some(channel), Some(state)) => read(sql::deliveries_page_of_line, &[&before, &more, &state, channel])?,
        (None, Some(channel), None) => read(sql::deliveries_page_of_channel, &[&before, &more, channel])?,
        (None, None, Some(state)) => read(sql::deliveries_page_of_state, &[&before, &more, &state])?,
        (None, None, None) => read(sql::deliveries_page, &[&before, &more])?,
    };
    let last = found.last().map(|delivery| delivery.id).filter(|_| found.len() > limit);
    // An alert has few deliveries: the rest of the filter is checked one by one.
    found.retain(|delivery| filter.lets_through(delivery));
    Ok(Page::of(found, limit, |delivery| delivery.id, last))
}

pub(crate) fn by_id(connection: &Connection, id: DeliveryId) -> StoreResult<Option<Delivery>> {
    Ok(rows::collect(connection, sql::delivery_by_id, params![id.as_bytes()], delivery)?.pop())
}

impl Tx<'_> {
    /// Puts a message at the end of a channel's line. A dead-man's switch that waits for one message needs no second.
    pub(crate) fn put_into_line(&mut self, channel: Name, message: Message) -> StoreResult<Delivery> {
        let bits = self.id_bits();
        let delivery = Delivery::new(DeliveryId::at(self.now, bits), channel, message, self.now);
        if delivery.message.occasion == Occasion::Well {
            let waits = "SELECT 1 FROM punctual_deliveries
                         WHERE channel = ?1 AND state = 'waiting' AND occasion = 'well'";
            if self.one(waits, params![delivery.channel.as_str()], value::<i64>)?.is_some() {
                return Ok(delivery);
            }
            self.execute(sql::forget_pings, params![delivery.channel.as_str()])?;
        }
        let insert =
            "INSERT INTO punctual_deliveries (id, channel, alert_id, occasion, message, state, created_at, next_at)
                      VALUES (?1, ?2, ?3, ?4, ?5, 'waiting', ?6, ?6)";
        let params = params![
            delivery.id.as_bytes(),
            delivery.channel.as_str(),
            bytes(delivery.alert_id.as_ref()),
            delivery.message.occasion.as_str(),
            document("message", &delivery.message)?,
            self.now_us(),
        ];
        self.execute(insert, params)?;
        Ok(delivery)
    }

    fn save_delivery(&self, delivery: &Delivery) -> StoreResult<()> {
        let params = params![
            delivery.id.as_bytes(),
            delivery.state.as_str(),
            delivery.next_at.as_microsecond(),
            delivery.tried_since.map(Timestamp::as_microsecond),
            delivery.tries,
            document("attempts", &delivery.attempts)?,
            delivery.ended_at.map(Timestamp::as_microsecond),
        ];
        self.execute(sql::save_delivery, params).map(|_| ())
    }

    pub(crate) fn change_delivery(
        &mut self, id: DeliveryId, change: fn(&mut Delivery, Timestamp),
    ) -> StoreResult<Delivery> {
        let not_found = || StoreError::NotFound { what: "delivery", key: id.to_string() };
        let mut delivery = by_id(self.connection(), id)?.ok_or_else(not_found)?;
        change(&mut delivery, self.now);
        self.save_delivery(&delivery)?;
        Ok(delivery)
    }

    pub(crate) fn take_deliveries(
        &mut self, lease: Lease, sending: &[DeliveryId], limit: usize,
    ) -> StoreResult<TakenDeliveries> {
        self.check_lease(lease)?;
        let lines: Vec<String> = self.all(sql::waiting_lines, [], value)?;
        let mut taken = TakenDeliveries::default();
        for name in lines {
            if taken.deliveries.len() >= limit {
                break;
            }
            let channel = self.stored_channel(&name)?;
            if !channel.definition.enabled || self.is_being_sent(&name, lease, sending)? {
                continue;
            }
            let line = self.all(sql::line, params![name, LINE_MAX], delivery)?;
            if let Some(head) = head_of_line(&line, self.now) {
                let take = "UPDATE punctual_deliveries SET taken_by = ?2 WHERE id = ?1";
                self.execute(take, params![line[head].id.as_bytes(), lease.lease_id.as_bytes()])?;
                taken.deliveries.push((line[head].clone(), channel));
            } else if let Some(at) = line_moves_at(&line, self.now) {
                let wait = at.duration_since(self.now);
                taken.again_in = Some(taken.again_in.map_or(wait, |other| other.min(wait)));
            }
        }
        Ok(taken)
    }

    /// Whether somebody has a message of this line in hand.
    fn is_being_sent(&self, channel: &str, lease: Lease, sending: &[DeliveryId]) -> StoreResult<bool> {
        let taken: Vec<(DeliveryId, LeaseId)> = self.all(sql::taken_of_line, params![channel], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.id()?))
        })?;
        Ok(taken.iter().any(|(id, by)| *by != lease.lease_id || sending.contains(id)))
    }

    pub(crate) fn end_attempt(&mut self, lease: Lease, id: DeliveryId, sent: Sent) -> StoreResult<Option<Delivery>> {
        self.check_lease(lease)?;
        let mine = "SELECT 1 FROM punctual_deliveries WHERE id = ?1 AND taken_by = ?2 AND state = 'waiting'";
        if self.one(mine, params![id.as_bytes(), lease.lease_id.as_bytes()], value::<i64>)?.is_none() {
            return Ok(None);
        }
        let chance = u64::from(self.id_bits()[7]);
        let Some(mut delivery) = by_id(self.connection(), id)? else { return Ok(None) };
        delivery.attempted(sent, self.now, chance);
        self.save_delivery(&delivery)?;
        if delivery.state == DeliveryState::Arrived {
            // The way is clear: whoever waited for it to be goes now, in order.
            let go = "UPDATE punctual_deliveries SET next_at = ?2
                      WHERE channel = ?1 AND state = 'waiting' AND next_at > ?2";
            self.execute(go, params![delivery.channel.as_str(), self.now_us()])?;
        }
        Ok(Some(delivery))
    }
}
