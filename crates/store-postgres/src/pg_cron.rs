//! The jobs of `pg_cron`, read from the database that has them, for those who move.

use crate::address::Address;
use crate::error::{store_error, with_causes};
use crate::tls;
use punctual_core::invalid::Invalid;
use punctual_core::store::{StoreError, StoreResult};
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;

const PG_CRON_JOBS: &str = include_str!("../sql/pg_cron_jobs.sql");

/// What `pg_cron` has in one database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PgCron {
    /// `cron.job`, each row as a JSON object, in the order of ids.
    pub jobs: Vec<String>,
    /// `cron.timezone`, where the version has it.
    pub timezone: Option<String>,
    /// `cron.match_dom_and_dow`, where the version has it: whether both day fields must fit.
    pub both_days: bool,
    /// The machine that the address names, if it is one in the network.
    pub host: Option<String>,
    /// And its port.
    pub port: Option<u16>,
}

/// Reads them with the rights of the address; `pg_cron` shows a role its own jobs only, and a superuser all of them.
pub async fn read_pg_cron(url: &str) -> StoreResult<PgCron> {
    let address = Address::parse(url)?;
    let connector = tls::connector(address.trust, address.root_cert.as_deref())?;
    let connected = address.config.connect(connector).await;
    let (client, connection) = connected.map_err(|error| {
        Invalid::new("database", format!("the connection cannot be made: {}", with_causes(&error)))
            .remedy("see that the address and the password are right")
    })?;
    let reading = tokio::spawn(connection);
    let rows = client.query_typed(PG_CRON_JOBS, &[]).await;
    reading.abort();
    let rows = rows.map_err(|error| match error.code() {
        Some(code) if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::INVALID_SCHEMA_NAME => StoreError::from(
            Invalid::new("database", "has no table cron.job: pg_cron is not installed in it")
                .remedy("name the database of `cron.database_name`, which is `postgres` unless set otherwise"),
        ),
        _ => store_error(&error),
    })?;
    let mut found = PgCron { port: address.config.get_ports().first().copied(), ..PgCron::default() };
    if let Some(Host::Tcp(host)) = address.config.get_hosts().first() {
        found.host = Some(host.clone());
    }
    for row in &rows {
        found.jobs.push(row.try_get("job").map_err(|error| store_error(&error))?);
        found.both_days = row.try_get("both_days").map_err(|error| store_error(&error))?;
        found.timezone = row.try_get("timezone").map_err(|error| store_error(&error))?;
    }
    Ok(found)
}
