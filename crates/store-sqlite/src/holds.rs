//! Queues as a whole: pause, reservations; and templates.

use crate::error::{is_unique_violation, store_error};
use crate::rows::{self, Columns, Unreadable, document};
use crate::tx::Tx;
use jiff::SignedDuration;
use punctual_core::id::{ReservationId, TemplateId};
use punctual_core::invalid::Invalid;
use punctual_core::job::NewJob;
use punctual_core::name::{self, Name};
use punctual_core::store::{Reservation, StoreError, StoreResult, Template};
use rusqlite::{Connection, Row, params};

const ACTIVE: &str = "SELECT id, queue, holder, reserved_at, expires_at FROM punctual_reservations
                      WHERE queue = ?1 AND ended_at IS NULL AND expires_at > ?2";

impl Tx<'_> {
    pub(crate) fn set_queue_paused(&mut self, queue: &str, paused: bool) -> StoreResult<()> {
        check_queue(queue)?;
        self.make_queue(queue)?;
        self.execute("UPDATE punctual_queues SET paused = ?2 WHERE name = ?1", params![queue, paused])?;
        Ok(())
    }

    pub(crate) fn reserve_queue(
        &mut self, queue: &str, holder: &str, for_how_long: SignedDuration,
    ) -> StoreResult<Reservation> {
        check_queue(queue)?;
        name::check(holder).map_err(|e| Invalid { field: "holder".into(), ..e })?;
        punctual_core::duration::check("expires_in", for_how_long)?;
        self.make_queue(queue)?;
        // A hold that has run out ends here at the latest, so that the unique index lets the next one in.
        let expire = "UPDATE punctual_reservations SET ended_at = expires_at
                      WHERE queue = ?1 AND ended_at IS NULL AND expires_at <= ?2";
        self.execute(expire, params![queue, self.now_us()])?;
        if let Some(active) = self.one(ACTIVE, params![queue, self.now_us()], reservation)? {
            let Reservation { queue, holder, expires_at, .. } = active;
            return Err(StoreError::Reserved { queue, holder, expires_at });
        }
        let bits = self.id_bits();
        let made = Reservation {
            id: ReservationId::at(self.now, bits),
            queue: queue.to_owned(),
            holder: holder.to_owned(),
            reserved_at: self.now,
            expires_at: self.now.saturating_add(for_how_long).unwrap_or(jiff::Timestamp::MAX),
        };
        self.execute(
            "INSERT INTO punctual_reservations (id, queue, holder, reserved_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![made.id.as_bytes(), queue, holder, self.now_us(), made.expires_at.as_microsecond()],
        )?;
        Ok(made)
    }

    /// Only one that is still held can be held for longer: jobs may have gone out since one has run out.
    pub(crate) fn renew_reservation(&mut self, id: ReservationId, by: SignedDuration) -> StoreResult<Reservation> {
        let renew = "UPDATE punctual_reservations SET expires_at = max(expires_at, ?3)
                     WHERE id = ?1 AND ended_at IS NULL AND expires_at > ?2
                     RETURNING id, queue, holder, reserved_at, expires_at";
        let until = self.now.saturating_add(by).unwrap_or(jiff::Timestamp::MAX);
        let renewed = self.one(renew, params![id.as_bytes(), self.now_us(), until.as_microsecond()], reservation)?;
        renewed.ok_or_else(|| StoreError::NotFound { what: "reservation", key: id.to_string() })
    }

    pub(crate) fn release_reservation(&mut self, id: ReservationId) -> StoreResult<()> {
        let end = "UPDATE punctual_reservations SET ended_at = coalesce(ended_at, ?2) WHERE id = ?1";
        match self.execute(end, params![id.as_bytes(), self.now_us()])? {
            0 => Err(StoreError::NotFound { what: "reservation", key: id.to_string() }),
            _ => Ok(()),
        }
    }

    pub(crate) fn create_template(&mut self, name: &Name, job: &NewJob) -> StoreResult<Template> {
        let bits = self.id_bits();
        let id = TemplateId::at(self.now, bits);
        let insert = "INSERT INTO punctual_templates (id, name, job, created_at) VALUES (?1, ?2, ?3, ?4)";
        let params = params![id.as_bytes(), name.as_str(), document("job", job)?, self.now_us()];
        match self.try_execute(insert, params)? {
            Ok(_) => Ok(Template { id, name: name.clone(), job: job.clone(), created_at: self.now }),
            Err(error) if is_unique_violation(&error) => {
                Err(StoreError::NameTaken { what: "template", name: name.to_string() })
            }
            Err(error) => Err(store_error(error)),
        }
    }
}

fn check_queue(queue: &str) -> StoreResult<()> {
    Ok(name::check(queue).map_err(|e| Invalid { field: "queue".into(), ..e })?)
}

pub(crate) fn reservation(row: &Row<'_>) -> Result<Reservation, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Reservation { id: c.id()?, queue: c.next()?, holder: c.next()?, reserved_at: c.time()?, expires_at: c.time()? })
}

/// The active hold of a queue.
pub(crate) fn read_reservation(connection: &Connection, queue: &str, now_us: i64) -> StoreResult<Option<Reservation>> {
    Ok(rows::collect(connection, ACTIVE, params![queue, now_us], reservation)?.pop())
}

/// One template.
pub(crate) fn read_template(connection: &Connection, name: &str) -> StoreResult<Option<Template>> {
    let sql = "SELECT id, name, job, created_at FROM punctual_templates WHERE name = ?1";
    Ok(rows::collect(connection, sql, params![name], template)?.pop())
}

pub(crate) fn template(row: &Row<'_>) -> Result<Template, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Template { id: c.id()?, name: Name::new(c.next::<String>()?)?, job: c.document("job")?, created_at: c.time()? })
}
