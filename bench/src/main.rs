//! Benchmarks as ratios to a reference measured in the same run.

mod cron;

use std::process::ExitCode;

const USAGE: &str = "usage: punctual-bench cron";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("cron") => cron::run(),
        Some("help" | "--help") => println!("{USAGE}"),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
