//! Simulates days of several nodes for seeds of choice, or drives the stores and the model through more histories.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::cmd;

#[derive(clap::Args)]
pub struct Args {
    /// The seed to begin with; without it a new one is taken and printed
    #[arg(long)]
    seed: Option<u64>,
    /// Days to simulate for each seed
    #[arg(long, default_value_t = 1)]
    days: u32,
    /// Hours to simulate for each seed, instead of days
    #[arg(long, conflicts_with = "days")]
    hours: Option<u32>,
    /// How many seeds, counted up from the first
    #[arg(long, default_value_t = 1)]
    seeds: u32,
    /// The store below the nodes
    #[arg(long, value_enum, default_value_t = Store::Sqlite)]
    store: Store,
    /// Instead of nodes, drive each store and the reference model through random histories
    #[arg(long, conflicts_with_all = ["days", "hours", "seeds", "store"])]
    model: bool,
    /// Random histories for each store
    #[arg(long, default_value_t = 2_000, requires = "model")]
    cases: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Store {
    Sqlite,
    Postgres,
}

/// The tests that simulate nodes.
const NODES: &str = "test(c09_sim_part_)";
/// The tests that drive a store and the reference model with the same random operations.
const MODEL: &str = "test(c16_the_store_agrees_with_the_model)";

pub fn run(args: &Args) -> Result<()> {
    let seed = match args.seed {
        Some(seed) => seed,
        None => new_seed()?,
    };
    let (again, filter, settings) = plan(args, seed);
    println!("again: {again}");
    let mut tests = cmd::cargo(["nextest", "run", "--workspace", "--locked", "--profile", "sim", "--no-tests", "fail"]);
    let status = cmd::status(tests.args(["--filterset", &filter]).envs(settings))?;
    if !status.success() {
        bail!("it failed ({status}); the same again: {again}");
    }
    Ok(())
}

/// How to do the same again, which tests to run, and what to tell them.
fn plan(args: &Args, seed: u64) -> (String, String, Vec<(&'static str, String)>) {
    if args.model {
        let settings =
            vec![("PUNCTUAL_MODEL_SEED", seed.to_string()), ("PUNCTUAL_MODEL_CASES", args.cases.to_string())];
        let again = format!("cargo xtask sim --model --seed {seed} --cases {}", args.cases);
        return (again, MODEL.to_owned(), settings);
    }
    let store = match args.store {
        Store::Sqlite => "sqlite",
        Store::Postgres => "postgres",
    };
    let settings = vec![
        ("PUNCTUAL_SIM_SEED", seed.to_string()),
        ("PUNCTUAL_SIM_SEEDS", args.seeds.to_string()),
        ("PUNCTUAL_SIM_HOURS", args.hours.unwrap_or(24 * args.days).to_string()),
    ];
    let length = args.hours.map_or_else(|| format!("--days {}", args.days), |hours| format!("--hours {hours}"));
    let again = format!("cargo xtask sim --seed {seed} {length} --seeds {} --store {store}", args.seeds);
    (again, format!("package(=punctual-store-{store}) & {NODES}"), settings)
}

/// Small enough to be typed, different from run to run.
pub fn new_seed() -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("read the clock")?;
    Ok(now.as_millis().try_into().unwrap_or(u64::MAX) % 1_000_000_000)
}
