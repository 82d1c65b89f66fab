//! `punctual roles`: the roles of a PostgreSQL database, printed as SQL or made.

use std::io::Write;

use clap::{Args, Subcommand};
use punctual_store_postgres::{PostgresOptions, PostgresStore, roles_sql};

use super::worker::{runtime, without_password};
use super::{Output, Stop};

const LOGINS: &str = "The roles cannot log in. Let a login of your own be one of them:\n  \
    CREATE ROLE worker_login LOGIN PASSWORD '…' IN ROLE punctual_worker;";

// How each is described stands with the command.
#[derive(Subcommand)]
pub(crate) enum RolesCommand {
    /// Print the SQL that makes the roles, for whoever may make roles
    #[command(after_help = LOGINS)]
    Print,
    /// Make the roles, and give each the least it needs; again after that changes nothing
    #[command(after_help = LOGINS)]
    Apply(ApplyArgs),
}

#[derive(Args)]
pub(crate) struct ApplyArgs {
    /// The database: postgres://…, as a user who owns Punctual's tables and may make roles
    #[arg(long, value_name = "URL", env = "PUNCTUAL_DATABASE", hide_env_values = true)]
    database: String,
}

impl RolesCommand {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Print => Ok(out.write_all(roles_sql().as_bytes())?),
            Self::Apply(args) => runtime()?.block_on(args.apply(out)),
        }
    }
}

impl ApplyArgs {
    async fn apply(&self, out: &mut Output) -> Result<(), Stop> {
        if !self.database.starts_with("postgres") {
            return Err(Stop::usage(
                "only PostgreSQL has roles; name the database with --database postgres://…, or keep the file of an \
                 SQLite store from others by its owner and mode",
            ));
        }
        let store = PostgresStore::connect(&self.database, PostgresOptions::default()).await?;
        store.apply_roles().await.map_err(|error| {
            Stop::failure(format!(
                "the roles cannot be made: {error}; connect as the owner of Punctual's tables who may make roles, or \
                 hand the SQL of `punctual roles print` to somebody who may"
            ))
        })?;
        Ok(writeln!(out, "the roles are made on {}", without_password(&self.database))?)
    }
}
