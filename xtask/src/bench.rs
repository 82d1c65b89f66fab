//! Runs the benchmarks as users would run the program: from a release build.

use anyhow::Result;

use crate::cmd;

#[derive(clap::Args)]
pub struct Args {
    /// Passed to the benchmark program as they are (`--help` after `--` shows its own)
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub fn run(args: &Args) -> Result<()> {
    // The comparison with the peers starts our own contestants from beside the benchmark program.
    let contestants = ["--package", "punctual-measure", "--package", "punctual-bench"];
    cmd::run(cmd::cargo(["build", "--release", "--locked"]).args(contestants))?;
    cmd::run(cmd::cargo(["run", "--release", "--locked", "--package", "punctual-bench", "--"]).args(&args.args))
}
