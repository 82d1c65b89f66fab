//! Benchmarks as ratios to a reference measured in the same run.

mod cron;
mod figures;
mod sqlite;

use std::process::ExitCode;

const USAGE: &str = "usage: punctual-bench cron | sqlite";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("cron") => cron::run(),
        Some("sqlite") => {
            if let Err(error) = sqlite::run() {
                eprintln!("punctual-bench: {error}");
                return ExitCode::FAILURE;
            }
        }
        Some("help" | "--help") => println!("{USAGE}"),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
