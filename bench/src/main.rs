//! Benchmarks as ratios to a reference measured in the same run.

mod cron;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("cron") => cron::run(),
        _ => {
            eprintln!("usage: punctual-bench cron");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
