//! Kills real workers under load, on both stores, as often as one likes.

use anyhow::{Result, bail};

use crate::{cmd, deps, sim};

#[derive(clap::Args)]
pub struct Args {
    /// Kills on each store
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(5..))]
    kills: u32,
    /// Only on this store
    #[arg(long)]
    store: Option<Kind>,
    /// Where in its step each worker is killed; without it a new seed is taken and printed
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// The suite's own test, which takes the number of kills from its environment.
const TEST: &str = "test(c09_killing_workers_loses_nothing)";

pub fn run(args: &Args) -> Result<()> {
    deps::ensure_for(&["unit"])?;
    let seed = args.seed.map_or_else(sim::new_seed, Ok)?;
    let (filter, only) = match args.store {
        Some(store) => (format!("{TEST} & test({})", store.name()), format!(" --store {}", store.name())),
        None => (TEST.to_owned(), String::new()),
    };
    let again = format!("cargo xtask chaos --kills {} --seed {seed}{only}", args.kills);
    println!("the same again: {again}");
    let status = cmd::status(
        cmd::cargo(["nextest", "run", "--package", "punctual", "--locked", "--profile", "chaos", "--no-tests", "fail"])
            // As it happens, and one store after the other: the test tells how far it is.
            .args(["--no-capture", "--filterset", &filter])
            .env("PUNCTUAL_CHAOS_KILLS", args.kills.to_string())
            .env("PUNCTUAL_CHAOS_SEED", seed.to_string()),
    )?;
    if !status.success() {
        bail!("something was lost or done twice ({status}); the same again: {again}");
    }
    println!("{} kills on each store: nothing acknowledged was lost, no slot was fired twice", args.kills);
    Ok(())
}
