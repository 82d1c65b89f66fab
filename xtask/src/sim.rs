//! Runs the model-based property tests with a seed of choice and many more cases than the suite.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::cmd;

#[derive(clap::Args)]
pub struct Args {
    /// The seed to replay; without it a new one is taken and printed
    #[arg(long)]
    seed: Option<u64>,
    /// Random histories for each property
    #[arg(long, default_value_t = 2_000)]
    cases: u32,
}

/// The tests that drive a store and the reference model with the same random operations.
const TESTS: &str = "test(model) | test(sim_)";

pub fn run(args: &Args) -> Result<()> {
    let seed = match args.seed {
        Some(seed) => seed,
        None => new_seed()?,
    };
    let again = format!("cargo xtask sim --seed {seed} --cases {}", args.cases);
    println!("replay: {again}");
    let status = cmd::status(
        cmd::cargo(["nextest", "run", "--workspace", "--locked", "--profile", "sim", "--no-tests", "fail"])
            .args(["--filterset", TESTS])
            .env("PUNCTUAL_MODEL_SEED", seed.to_string())
            .env("PUNCTUAL_MODEL_CASES", args.cases.to_string()),
    )?;
    if !status.success() {
        bail!("the simulation failed ({status}); the same again: {again}");
    }
    Ok(())
}

/// Small enough to be typed, different from run to run.
pub fn new_seed() -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("read the clock")?;
    Ok(now.as_millis().try_into().unwrap_or(u64::MAX) % 1_000_000_000)
}
