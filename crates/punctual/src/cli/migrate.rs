//! `punctual migrate`: a database brought to the schema of this version, and the roles of one in PostgreSQL.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use punctual_core::upkeep::AppliedMigration;
use punctual_store_postgres::{PostgresOptions, PostgresStore, roles_sql};
use serde::Serialize;

use super::data::DataFolder;
use super::log::LogFormat;
use super::worker::{runtime, without_password};
use super::{Output, Stop};

const EXAMPLES: &str = "Examples:\n  \
    punctual migrate --database postgres://owner@db/punctual --roles\n  \
    punctual migrate --roles --print > roles.sql\n\n\
    The roles cannot log in. Let a login of your own be one of them:\n  \
    CREATE ROLE worker_login LOGIN PASSWORD '…' IN ROLE punctual_worker;";

/// Bring a database to the schema of this version, as a server does when it starts; make its roles if asked
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MigrateArgs {
    /// The folder of the store, when no database is named [default: the user's state folder]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA")]
    data: Option<PathBuf>,
    /// The store: sqlite:PATH or postgres://…, as the owner of its tables [default: sqlite:DIR/punctual.db]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// Make the roles of a PostgreSQL database, too, and give each the least it needs; again after that changes nothing
    #[arg(long)]
    roles: bool,
    /// Print the SQL that makes the roles, for somebody who may make roles, and change nothing
    #[arg(long, requires = "roles", conflicts_with = "json")]
    print: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was done, for programs.
#[derive(Serialize)]
struct Done {
    database: String,
    applied: Vec<AppliedMigration>,
    /// Whether the roles were made.
    roles: bool,
}

impl MigrateArgs {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        if self.print {
            return Ok(out.write_all(roles_sql().as_bytes())?);
        }
        let url = match &self.database {
            Some(url) => url.clone(),
            None => DataFolder::open(self.data.as_deref())?.database_url(),
        };
        if self.roles && url.starts_with("sqlite:") {
            return Err(Stop::usage(
                "only PostgreSQL has roles; name the database with --database postgres://…, or keep the file of an \
                 SQLite store from others by its owner and mode",
            ));
        }
        runtime(LogFormat::Text)?.block_on(self.migrate(&url, out))
    }

    async fn migrate(&self, url: &str, out: &mut Output) -> Result<(), Stop> {
        let applied = punctual::migrate(url).await?;
        let done = Done { database: without_password(url), applied, roles: self.roles };
        if !self.json {
            tell(out, &done)?;
        }
        if self.roles {
            make_roles(url).await?;
        }
        match (self.json, self.roles) {
            (true, _) => writeln!(out, "{}", serde_json::to_string(&done).map_err(std::io::Error::from)?)?,
            (false, true) => writeln!(out, "the roles are made on {}", done.database)?,
            (false, false) => {}
        }
        Ok(())
    }
}

fn tell(out: &mut Output, done: &Done) -> Result<(), Stop> {
    for AppliedMigration { number, name } in &done.applied {
        writeln!(out, "applied {number:04} {name}")?;
    }
    match done.applied.len() {
        0 => writeln!(out, "nothing to do: {} has the schema of this version", done.database)?,
        _ => writeln!(out, "{} has the schema of this version now", done.database)?,
    }
    Ok(())
}

async fn make_roles(url: &str) -> Result<(), Stop> {
    let store = PostgresStore::connect(url, PostgresOptions::default()).await?;
    store.apply_roles().await.map_err(|error| {
        Stop::failure(format!(
            "the roles cannot be made: {error}; connect as the owner of Punctual's tables who may make roles, or hand \
             the SQL of `punctual migrate --roles --print` to somebody who may"
        ))
    })
}
