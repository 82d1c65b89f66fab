//! `punctual bench`: how fast a database is for Punctual, how near that is to its limit, and what holds it back.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use punctual_measure::quick::{Findings, Leftover, Place, PlaceError, Scale, Wanted, look};
use serde::Serialize;

use super::data::DataFolder;
use super::log::LogFormat;
use super::signals::Signals;
use super::worker::{runtime, without_password};
use super::{Exit, Output, Stop};

const EXAMPLES: &str = "Examples:\n  \
    punctual bench\n  \
    punctual bench --database postgres://owner@db/punctual\n  \
    punctual bench --database postgres://owner@db/empty --in-this-database --json\n\n\
    Nothing of yours is touched: it is measured in a database, or in a folder beside the file, that is made for it and \
    removed afterwards. docs/bench.md explains every line.";

/// The exit code of what Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Measure how fast your database is for Punctual, and say what holds it back
///
/// Takes about a minute. Punctual and hand-written SQL take turns on the same tables, and every job is accounted for.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// The folder of the store, when no database is named [default: the user's state folder]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA")]
    data: Option<PathBuf>,
    /// The database: sqlite:PATH or postgres://… [default: sqlite:DIR/punctual.db]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// Measure in the very database that is named, which must be empty and is emptied again; for roles that may not make one
    #[arg(long)]
    in_this_database: bool,
    /// How often each side has its turn; more take longer, and their medians are worth more
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=20))]
    rounds: u8,
    /// How many jobs each side makes in a turn, instead of as many as the database is good for
    #[arg(long, value_name = "N", hide = true, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Done<'a> {
    database: &'a str,
    #[serde(flatten)]
    findings: &'a Findings,
}

impl BenchArgs {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        let url = match &self.database {
            Some(url) => url.clone(),
            None => DataFolder::open(self.data.as_deref())?.database_url(),
        };
        runtime(LogFormat::Text)?.block_on(self.measure(&url, out))
    }

    async fn measure(&self, url: &str, out: &mut Output) -> Result<(), Stop> {
        let mut signals = Signals::listen()?;
        let name = without_password(url);
        let scale = Scale { rounds: usize::from(self.rounds), jobs: self.jobs.map(usize::from) };
        let wanted = if self.in_this_database { Wanted::ThisDatabase } else { Wanted::OfItsOwn };
        let place = Place::make(url, wanted, scale.bytes_at_most()).await.map_err(|error| refused(&name, &error))?;
        for Leftover { name, command } in place.leftovers().await {
            say(&format!("note: an earlier look left {name} behind; be rid of it by: {command}"));
        }
        say(&format!("measuring in {}; up to {} MB are written", place.name(), scale.bytes_at_most() / 1_000_000));
        let looked = tokio::select! {
            looked = look(&place, scale, &say) => Some(looked),
            () = signals.next() => None,
        };
        // Whatever has become of it: nothing stays behind.
        place.remove().await.map_err(|error| refused(&name, &error))?;
        let Some(looked) = looked else {
            say("stopped; nothing is left behind");
            return Err(Stop::Exited(INTERRUPTED));
        };
        let findings = looked.map_err(|error| Stop::failure(format!("{name} could not be measured: {error}")))?;
        if self.json {
            let done = Done { database: &name, findings: &findings };
            return Ok(writeln!(out, "{}", serde_json::to_string(&done).map_err(std::io::Error::from)?)?);
        }
        out.heading(&format!("How fast is {name}?"))?;
        Ok(write!(out, "{findings}")?)
    }
}

/// How far it is, for whoever waits.
fn say(words: &str) {
    // Nobody to tell is no reason to stop.
    let _unseen = writeln!(std::io::stderr(), "{words}");
}

fn refused(name: &str, error: &PlaceError) -> Stop {
    let exit = match error {
        PlaceError::Address(_) => Exit::Usage,
        PlaceError::Unreachable(_) => Exit::Unreachable,
        PlaceError::MayNotCreate(_) => Exit::NotAuthorised,
        PlaceError::NotEmpty(_) => Exit::Conflict,
        PlaceError::NoRoom(_) | PlaceError::Failed(_) => Exit::Failure,
    };
    Stop::Failed(exit, format!("{name}: {error}"))
}
