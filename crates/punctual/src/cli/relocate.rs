//! `punctual move`: everything that a store holds, carried into another one; and a move given up.

mod parts;
mod walk;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use punctual_core::duration::parse_duration;
use punctual_core::store::StoreError;
use punctual_core::transfer::Transfer;
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};

use super::data::private;
use super::log::LogFormat;
use super::worker::{runtime, without_password};
use super::{Exit, Output, Stop};
use walk::{Walk, Walked, abandon_lost};

const EXAMPLES: &str = "Examples:\n  \
    punctual move --from sqlite:punctual.db --to postgres://owner@db/punctual\n  \
    punctual move --from sqlite:punctual.db --to postgres://owner@db/punctual --wait 1h --cut\n  \
    punctual move --from sqlite:punctual.db --to postgres://owner@db/punctual --abandon\n\n\
    Killed or failed anywhere, the same command again goes on where it stopped. Both addresses are those of the owner \
    of the tables; one with a password goes into PUNCTUAL_MOVE_FROM or PUNCTUAL_MOVE_TO.";

/// Carry everything that a store holds into another, empty one, while nothing fires; the first then stays frozen
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct MoveArgs {
    /// The store that leaves: sqlite:PATH or postgres://…
    #[arg(long, value_name = "URL", env = "PUNCTUAL_MOVE_FROM", hide_env_values = true)]
    from: String,
    /// Where it goes: sqlite:PATH or postgres://…, empty
    #[arg(long, value_name = "URL", env = "PUNCTUAL_MOVE_TO", hide_env_values = true)]
    to: String,
    /// How long running jobs may take to end before the move is given up
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    wait: SignedDuration,
    /// Do not give up then: what still runs is stopped, and recovered on the other side as a lost node's
    #[arg(long)]
    cut: bool,
    /// Give the move up that has begun: the first store goes on as if there had been none
    #[arg(long, conflicts_with_all = ["cut", "json"])]
    abandon: bool,
    /// Give it up without asking the other store, which cannot be reached any more: nothing must ever be started on it
    #[arg(long, requires = "abandon")]
    target_is_lost: bool,
    /// Print JSON in the end
    #[arg(long)]
    json: bool,
}

/// One store of a move.
pub(super) struct Side {
    pub(super) store: Arc<dyn Transfer>,
    /// Its address as it may be shown.
    pub(super) name: String,
    option: &'static str,
}

impl Side {
    /// What a store refused, and which one it was.
    #[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
    pub(super) fn refused(&self, error: StoreError) -> Stop {
        let exit = match error {
            StoreError::Invalid(_) | StoreError::Frozen { .. } => Exit::Conflict,
            StoreError::Unavailable(_) => Exit::Unreachable,
            _ => Exit::Failure,
        };
        Stop::Failed(exit, format!("{} {}: {error}", self.option, self.name))
    }
}

impl MoveArgs {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        runtime(LogFormat::Text)?.block_on(self.carry(out))
    }

    async fn carry(self, out: &mut Output) -> Result<(), Stop> {
        refuse_same(&self.from, &self.to)?;
        let wait = Duration::try_from(self.wait).unwrap_or(Duration::MAX);
        let from = open("--from", &self.from, true).await?;
        if self.target_is_lost {
            let told = abandon_lost(&from, &without_password(&self.to), wait).await?;
            return Ok(writeln!(out, "{told}")?);
        }
        let walk = Walk { from, to: open("--to", &self.to, false).await?, wait, cut: self.cut };
        if self.abandon {
            return match walk.abandon().await {
                Ok(told) => Ok(writeln!(out, "{told}")?),
                Err(stop) => Err(walk.with_state(stop).await),
            };
        }
        let walked = match walk.walk().await {
            Ok(walked) => walked,
            Err(stop) => return Err(walk.with_state(stop).await),
        };
        if self.json {
            let text = serde_json::to_string(&walked).map_err(std::io::Error::from)?;
            return Ok(writeln!(out, "{text}")?);
        }
        Ok(tell(out, &walked)?)
    }
}

fn tell(out: &mut Output, walked: &Walked) -> std::io::Result<()> {
    let Walked { from, to, rows, tables, .. } = walked;
    writeln!(out, "moved: {rows} rows of {} tables are in {to}, counted and compared", tables.len())?;
    writeln!(out, "{from} stays frozen; start servers and workers with --database {to}")
}

/// Two names of one store are noticed later, by what the move leaves in it; this is for the usual slip.
fn refuse_same(from: &str, to: &str) -> Result<(), Stop> {
    let place = |url: &str| match url.strip_prefix("sqlite:") {
        Some(path) => std::fs::canonicalize(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string()),
        None => without_password(url),
    };
    if place(from) == place(to) {
        return Err(Stop::usage("--from and --to are the same store; name another one with --to"));
    }
    Ok(())
}

async fn open(option: &'static str, url: &str, is_there: bool) -> Result<Side, Stop> {
    let name = without_password(url);
    let failed = |error: StoreError| {
        let exit = match error {
            StoreError::Invalid(_) => Exit::Usage,
            StoreError::Frozen { .. } => Exit::Conflict,
            _ => Exit::Unreachable,
        };
        Stop::Failed(exit, format!("{option} {name}: {error}"))
    };
    let store: Arc<dyn Transfer> = if let Some(path) = url.strip_prefix("sqlite:") {
        // Opening would make the file, and an empty store would be moved.
        if is_there && !Path::new(path).is_file() {
            return Err(Stop::Failed(Exit::NotFound, format!("{option} {name}: there is no such file")));
        }
        if !is_there && !path.is_empty() && !path.starts_with(':') {
            // It will hold what was as private where it comes from. One that is there keeps what its owner chose.
            private(Path::new(path), false).map_err(|error| Stop::failure(format!("{option} {name}: {error}")))?;
        }
        Arc::new(SqliteStore::from_url(url, SqliteOptions::default()).map_err(failed)?)
    } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        Arc::new(PostgresStore::connect(url, PostgresOptions::default()).await.map_err(failed)?)
    } else {
        return Err(Stop::usage(format!("{option} is no address of a store; use sqlite:PATH or postgres://…")));
    };
    Ok(Side { store, name, option })
}
