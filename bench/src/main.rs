//! Benchmarks as ratios to a reference measured in the same run.

mod command;
mod cpu;
mod cron;
mod figures;
mod growth;
mod http;
mod http_client;
mod http_lists;
mod idle;
mod lateness;
mod limits;
mod load;
mod notify;
mod postgres;
mod raw_postgres;
mod sqlite;

use std::process::ExitCode;

const USAGE: &str = "usage: punctual-bench command | cron | sqlite | postgres | growth [RUNS SCHEDULES] | lateness | limits \
                     | idle [SCHEDULES] | notify | http [SECONDS ROWS]";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("command") => return told(command::run()),
        Some("cron") => cron::run(),
        Some("sqlite") => return told(sqlite::run()),
        Some("postgres") => return told(postgres::run()),
        Some("growth") => return told(growth::run(number(2, 10_000_000), number(3, 1_000_000))),
        Some("limits") => return told(limits::run()),
        Some("notify") => return told(notify::run()),
        Some("lateness") => return told(lateness::run()),
        Some("idle") => {
            return told(idle::run(usize::try_from(number(2, 100_000)).unwrap_or_default()));
        }
        Some("http") => return told(http::run(number(2, 60).unsigned_abs(), number(3, 1_000_000))),
        // What `http` calls, in a process of its own.
        Some("http-server") => return told(http::serve_on(&std::env::args().nth(2).unwrap_or_default())),
        // What `idle` watches, in a process of its own.
        Some("idle-node") => return told(idle::node(&std::env::args().nth(2).unwrap_or_default())),
        Some("help" | "--help") => println!("{USAGE}"),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// A number among the arguments, or the usual one.
fn number(n: usize, usual: i64) -> i64 {
    std::env::args().nth(n).and_then(|text| text.parse().ok()).unwrap_or(usual)
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
