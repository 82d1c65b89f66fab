//! Queues as a whole: pause, reservations; templates and cron presets.

use crate::Shared;
use crate::claim::CLAIMS;
use crate::error::Work;
use crate::params::{params, time};
use crate::rows::{self, Columns, Unreadable, document};
use crate::session::Session;
use crate::tx::Tx;
use jiff::SignedDuration;
use punctual_core::cron::CronPreset;
use punctual_core::id::{ReservationId, TemplateId};
use punctual_core::invalid::Invalid;
use punctual_core::job::NewJob;
use punctual_core::name::{self, Name};
use punctual_core::store::{Reservation, StoreError, StoreResult, Template};
use punctual_core::template::Parameter;
use tokio_postgres::Row;

const ACTIVE: &str = "SELECT id, queue, holder, reserved_at, expires_at FROM punctual_internal.reservations
                      WHERE queue = $1 AND ended_at IS NULL AND expires_at > coalesce($2, now())";

impl Tx<'_> {
    /// Waits for the claims that are going on, and keeps new ones waiting until this transaction is done: what is
    /// claimed afterwards is claimed by what is written here.
    pub(crate) async fn stop_claims(&self) -> Work<()> {
        self.rows("SELECT pg_advisory_xact_lock($1)", params![CLAIMS]).await?;
        Ok(())
    }

    pub(crate) async fn set_queue_paused(&mut self, queue: &str, paused: bool) -> Work<()> {
        check_queue(queue)?;
        self.stop_claims().await?;
        self.make_queue(queue).await?;
        let set = "UPDATE punctual_internal.queues SET paused = $2 WHERE name = $1";
        self.execute(set, params![queue, paused]).await?;
        Ok(())
    }

    pub(crate) async fn reserve_queue(
        &mut self, queue: &str, holder: &str, for_how_long: SignedDuration,
    ) -> Work<Reservation> {
        check_queue(queue)?;
        name::check(holder).map_err(|e| Invalid { field: "holder".into(), ..e })?;
        punctual_core::duration::check("expires_in", for_how_long)?;
        self.stop_claims().await?;
        self.make_queue(queue).await?;
        // A hold that has run out ends here at the latest, so that the unique index lets the next one in.
        let expire = "UPDATE punctual_internal.reservations SET ended_at = expires_at
                      WHERE queue = $1 AND ended_at IS NULL AND expires_at <= $2";
        self.execute(expire, params![queue, self.at()]).await?;
        if let Some(active) = self.one(ACTIVE, params![queue, Some(self.at())], reservation).await? {
            let Reservation { queue, holder, expires_at, .. } = active;
            return Err(StoreError::Reserved { queue, holder, expires_at }.into());
        }
        let made = Reservation {
            id: ReservationId::at(self.now, self.id_bits()),
            queue: queue.to_owned(),
            holder: holder.to_owned(),
            reserved_at: self.now,
            expires_at: self.now.saturating_add(for_how_long).unwrap_or(jiff::Timestamp::MAX),
        };
        let insert = "INSERT INTO punctual_internal.reservations (id, queue, holder, reserved_at, expires_at)
                      VALUES ($1, $2, $3, $4, $5)";
        self.execute(insert, params![made.id.0, queue, holder, self.at(), time(made.expires_at)]).await?;
        Ok(made)
    }

    /// Only one that is still held can be held for longer: jobs may have gone out since one has run out. Claims wait, and
    /// the time is asked for when they do, not when this transaction began.
    pub(crate) async fn renew_reservation(&mut self, id: ReservationId, by: SignedDuration) -> Work<Reservation> {
        self.stop_claims().await?;
        let renew = "UPDATE punctual_internal.reservations SET expires_at = greatest(expires_at, $3)
                     WHERE id = $1 AND ended_at IS NULL AND expires_at > coalesce($2, clock_timestamp())
                     RETURNING id, queue, holder, reserved_at, expires_at";
        let until = self.now.saturating_add(by).unwrap_or(jiff::Timestamp::MAX);
        let renewed = self.one(renew, params![id.0, self.turned(), time(until)], reservation).await?;
        Ok(renewed.ok_or_else(|| StoreError::NotFound { what: "reservation", key: id.to_string() })?)
    }

    pub(crate) async fn release_reservation(&mut self, id: ReservationId) -> Work<()> {
        let end = "UPDATE punctual_internal.reservations SET ended_at = coalesce(ended_at, $2) WHERE id = $1";
        match self.execute(end, params![id.0, self.at()]).await? {
            0 => Err(StoreError::NotFound { what: "reservation", key: id.to_string() }.into()),
            _ => Ok(()),
        }
    }

    pub(crate) async fn create_template(
        &mut self, name: &Name, job: &NewJob, parameters: &[Parameter],
    ) -> Work<Template> {
        let id = TemplateId::at(self.now, self.id_bits());
        let insert = "INSERT INTO punctual_internal.templates (id, name, job, parameters, created_at)
                      VALUES ($1, $2, $3::text::json, $4::text::json, $5)";
        let (job_text, parameters_text) = (document("job", job)?, document("parameters", &parameters)?);
        let params = params![id.0, name.as_str(), job_text, parameters_text, self.at()];
        match self.execute(insert, params).await {
            Ok(_) => {
                let (name, job, parameters) = (name.clone(), job.clone(), parameters.to_vec());
                Ok(Template { id, name, job, parameters, created_at: self.now })
            }
            Err(failure) if failure.is_unique_violation() => {
                Err(StoreError::NameTaken { what: "template", name: name.to_string() }.into())
            }
            Err(failure) => Err(failure),
        }
    }

    /// One template; nobody else changes or forgets it before this is over.
    pub(crate) async fn locked_template(&self, name: &str) -> Work<Option<Template>> {
        self.rows("SELECT 1 FROM punctual_internal.templates WHERE name = $1 FOR UPDATE", params![name]).await?;
        read_template(self.session()?, name).await
    }

    /// Makes a template another one under the same id, which schedules and jobs remember.
    pub(crate) async fn edit_template(&mut self, name: &str, job: &NewJob, parameters: &[Parameter]) -> Work<()> {
        let edit = "UPDATE punctual_internal.templates SET job = $2::text::json, parameters = $3::text::json
                    WHERE name = $1";
        self.execute(edit, params![name, document("job", job)?, document("parameters", &parameters)?]).await?;
        Ok(())
    }

    pub(crate) async fn delete_template(&mut self, name: &str) -> Work<()> {
        match self.execute("DELETE FROM punctual_internal.templates WHERE name = $1", params![name]).await? {
            0 => Err(StoreError::NotFound { what: "template", key: name.to_owned() }.into()),
            _ => Ok(()),
        }
    }

    pub(crate) async fn create_cron_preset(&mut self, preset: &CronPreset) -> Work<CronPreset> {
        let insert = "INSERT INTO punctual_internal.cron_presets (name, expression, description, created_at)
                      VALUES ($1, $2, $3, $4)";
        let CronPreset { name, expression, description, .. } = preset;
        let params = params![name.as_str(), expression.as_str(), description.as_str(), self.at()];
        match self.execute(insert, params).await {
            Ok(_) => Ok(CronPreset { created_at: Some(self.now), ..preset.clone() }),
            Err(failure) if failure.is_unique_violation() => {
                Err(StoreError::NameTaken { what: "cron preset", name: name.clone() }.into())
            }
            Err(failure) => Err(failure),
        }
    }

    /// One preset; nobody else changes or forgets it before this is over.
    pub(crate) async fn locked_cron_preset(&self, name: &str) -> Work<Option<CronPreset>> {
        self.one(&format!("{PRESETS} WHERE name = $1 FOR UPDATE"), params![name], preset).await
    }

    /// Changes a preset. Schedules that were made with it keep the expression that they have.
    pub(crate) async fn edit_cron_preset(&mut self, preset: &CronPreset) -> Work<()> {
        let edit = "UPDATE punctual_internal.cron_presets SET expression = $2, description = $3 WHERE name = $1";
        let CronPreset { name, expression, description, .. } = preset;
        self.execute(edit, params![name.as_str(), expression.as_str(), description.as_str()]).await?;
        Ok(())
    }

    pub(crate) async fn delete_cron_preset(&mut self, name: &str) -> Work<()> {
        match self.execute("DELETE FROM punctual_internal.cron_presets WHERE name = $1", params![name]).await? {
            0 => Err(StoreError::NotFound { what: "cron preset", key: name.to_owned() }.into()),
            _ => Ok(()),
        }
    }
}

pub(crate) const PRESETS: &str = "SELECT name, expression, description, created_at FROM punctual_internal.cron_presets";

pub(crate) fn preset(row: &Row) -> Result<CronPreset, Unreadable> {
    let mut c = Columns::of(row);
    Ok(CronPreset { name: c.next()?, expression: c.next()?, description: c.next()?, created_at: c.optional_time()? })
}

fn check_queue(queue: &str) -> StoreResult<()> {
    Ok(name::check(queue).map_err(|e| Invalid { field: "queue".into(), ..e })?)
}

pub(crate) fn reservation(row: &Row) -> Result<Reservation, Unreadable> {
    reservation_columns(&mut Columns::of(row))
}

pub(crate) fn reservation_columns(c: &mut Columns<'_>) -> Result<Reservation, Unreadable> {
    Ok(Reservation { id: c.id()?, queue: c.next()?, holder: c.next()?, reserved_at: c.time()?, expires_at: c.time()? })
}

/// The active hold of a queue.
pub(crate) async fn read_reservation(shared: &Shared, session: &Session, queue: &str) -> Work<Option<Reservation>> {
    let rows = session.rows(ACTIVE, &params![queue, shared.turned()]).await?;
    Ok(rows::collect(&rows, reservation)?.pop())
}

/// One template.
pub(crate) async fn read_template(session: &Session, name: &str) -> Work<Option<Template>> {
    let sql = "SELECT id, name, job::text, parameters::text, created_at FROM punctual_internal.templates
               WHERE name = $1";
    let rows = session.rows(sql, &params![name]).await?;
    Ok(rows::collect(&rows, template)?.pop())
}

pub(crate) fn template(row: &Row) -> Result<Template, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Template {
        id: c.id()?,
        name: Name::new(c.next::<String>()?)?,
        job: c.document("job")?,
        parameters: c.document("parameters")?,
        created_at: c.time()?,
    })
}
