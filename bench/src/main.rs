//! Benchmarks as ratios to a reference measured in the same run.

mod command;
mod cron;
mod figures;
mod growth;
mod load;
mod postgres;
mod sqlite;

use std::process::ExitCode;

const USAGE: &str = "usage: punctual-bench command | cron | sqlite | postgres | growth [RUNS SCHEDULES]";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("command") => return told(command::run()),
        Some("cron") => cron::run(),
        Some("sqlite") => return told(sqlite::run()),
        Some("postgres") => return told(postgres::run()),
        Some("growth") => {
            let number =
                |n: usize, usual: i64| std::env::args().nth(n).and_then(|text| text.parse().ok()).unwrap_or(usual);
            return told(growth::run(number(2, 10_000_000), number(3, 1_000_000)));
        }
        Some("help" | "--help") => println!("{USAGE}"),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn told(outcome: load::Outcome<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("punctual-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
