//! Queues as a whole: pause, reservations; templates and cron presets.

use crate::error::{is_unique_violation, store_error};
use crate::rows::{self, Columns, Unreadable, document};
use crate::tx::Tx;
use jiff::SignedDuration;
use punctual_core::cron::CronPreset;
use punctual_core::id::{ReservationId, TemplateId};
use punctual_core::invalid::Invalid;
use punctual_core::job::NewJob;
use punctual_core::name::{self, Name};
use punctual_core::store::{Reservation, StoreError, StoreResult, Template};
use punctual_core::template::Parameter;
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

    pub(crate) fn create_template(
        &mut self, name: &Name, job: &NewJob, parameters: &[Parameter],
    ) -> StoreResult<Template> {
        let bits = self.id_bits();
        let id = TemplateId::at(self.now, bits);
        let insert =
            "INSERT INTO punctual_templates (id, name, job, parameters, created_at) VALUES (?1, ?2, ?3, ?4, ?5)";
        let (job_text, parameters_text) = (document("job", job)?, document("parameters", &parameters)?);
        let params = params![id.as_bytes(), name.as_str(), job_text, parameters_text, self.now_us()];
        match self.try_execute(insert, params)? {
            Ok(_) => {
                let (name, job, parameters) = (name.clone(), job.clone(), parameters.to_vec());
                Ok(Template { id, name, job, parameters, created_at: self.now })
            }
            Err(error) if is_unique_violation(&error) => {
                Err(StoreError::NameTaken { what: "template", name: name.to_string() })
            }
            Err(error) => Err(store_error(error)),
        }
    }

    /// Makes a template another one under the same id, which schedules and jobs remember.
    pub(crate) fn edit_template(&mut self, name: &str, job: &NewJob, parameters: &[Parameter]) -> StoreResult<()> {
        let edit = "UPDATE punctual_templates SET job = ?2, parameters = ?3 WHERE name = ?1";
        self.execute(edit, params![name, document("job", job)?, document("parameters", &parameters)?])?;
        Ok(())
    }

    pub(crate) fn delete_template(&mut self, name: &str) -> StoreResult<()> {
        match self.execute("DELETE FROM punctual_templates WHERE name = ?1", params![name])? {
            0 => Err(StoreError::NotFound { what: "template", key: name.to_owned() }),
            _ => Ok(()),
        }
    }

    pub(crate) fn create_cron_preset(&mut self, preset: &CronPreset) -> StoreResult<CronPreset> {
        let insert =
            "INSERT INTO punctual_cron_presets (name, expression, description, created_at) VALUES (?1, ?2, ?3, ?4)";
        let params = params![preset.name, preset.expression, preset.description, self.now_us()];
        match self.try_execute(insert, params)? {
            Ok(_) => Ok(CronPreset { created_at: Some(self.now), ..preset.clone() }),
            Err(error) if is_unique_violation(&error) => {
                Err(StoreError::NameTaken { what: "cron preset", name: preset.name.clone() })
            }
            Err(error) => Err(store_error(error)),
        }
    }

    /// Changes a preset. Schedules that were made with it keep the expression that they have.
    pub(crate) fn edit_cron_preset(&mut self, preset: &CronPreset) -> StoreResult<()> {
        let edit = "UPDATE punctual_cron_presets SET expression = ?2, description = ?3 WHERE name = ?1";
        self.execute(edit, params![preset.name, preset.expression, preset.description])?;
        Ok(())
    }

    pub(crate) fn delete_cron_preset(&mut self, name: &str) -> StoreResult<()> {
        match self.execute("DELETE FROM punctual_cron_presets WHERE name = ?1", params![name])? {
            0 => Err(StoreError::NotFound { what: "cron preset", key: name.to_owned() }),
            _ => Ok(()),
        }
    }
}

const PRESETS: &str = "SELECT name, expression, description, created_at FROM punctual_cron_presets";

fn preset(row: &Row<'_>) -> Result<CronPreset, Unreadable> {
    let mut c = Columns::of(row);
    Ok(CronPreset { name: c.next()?, expression: c.next()?, description: c.next()?, created_at: c.optional_time()? })
}

/// A page of the presets that people made.
pub(crate) fn read_presets(connection: &Connection, after: &str, limit: usize) -> StoreResult<Vec<CronPreset>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    rows::collect(
        connection,
        &format!("{PRESETS} WHERE name > ?1 ORDER BY name LIMIT ?2"),
        params![after, limit],
        preset,
    )
}

/// One of them.
pub(crate) fn read_preset(connection: &Connection, name: &str) -> StoreResult<Option<CronPreset>> {
    Ok(rows::collect(connection, &format!("{PRESETS} WHERE name = ?1"), params![name], preset)?.pop())
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
    let sql = "SELECT id, name, job, parameters, created_at FROM punctual_templates WHERE name = ?1";
    Ok(rows::collect(connection, sql, params![name], template)?.pop())
}

pub(crate) fn template(row: &Row<'_>) -> Result<Template, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Template {
        id: c.id()?,
        name: Name::new(c.next::<String>()?)?,
        job: c.document("job")?,
        parameters: c.document("parameters")?,
        created_at: c.time()?,
    })
}
