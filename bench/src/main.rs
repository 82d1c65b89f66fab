//! Benchmarks as ratios to a reference measured in the same run.

mod all;
mod claimers;
mod command;
mod compare;
mod cpu;
mod cron;
mod figures;
mod fill;
mod growth;
mod http;
mod http_client;
mod http_lists;
mod idle;
mod lateness;
mod limits;
mod load;
mod notify;
mod peers;
mod postgres;
mod quick;
mod report;
mod sqlite;
mod startup;

use load::Outcome;
use std::process::ExitCode;

const USAGE: &str = "usage: punctual-bench SECTION [--print-only | --partial]
sections: quick | claimers | command | cron | sqlite | postgres | growth [RUNS JOBS SCHEDULES] | startup [SCHEDULES]
          | lateness | limits | idle [SCHEDULES] | notify | http [SECONDS ROWS]
          | compare [PART] [ROUNDS PERCENT] [PEER ...], PART being drain | sqlite | enqueue | latency | sustained
          | slots, and all peers playing unless some are named
          | all, which is each of them but quick, one after the other; a section that fails does not stop the others
Each is printed, saved in bench/results and rendered into bench/RESULTS.md; --print-only only prints. A comparison in
fewer than 3 rounds, with other than 100 percent of the jobs or with some peers only is not saved, unless --partial is
given; the page then says of it that it is a part.
`punctual-bench render` makes the page and its drawings of what is saved.
`punctual-bench peer [NAME REQUEST]` shows the peers, or plays one of them.";

/// What may stand anywhere among the arguments.
const OPTIONS: [&str; 2] = [report::PRINT_ONLY, report::PARTIAL];

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).filter(|argument| !OPTIONS.contains(&argument.as_str()));
    let arguments: Vec<String> = arguments.collect();
    let Some((section, rest)) = arguments.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(section, rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("punctual-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(section: &str, rest: &[String]) -> Outcome<()> {
    let number = |at, usual| number(rest, at, usual);
    match section {
        "all" => all::run(),
        "claimers" => claimers::run(),
        "command" => command::run(),
        "compare" => {
            let (part, at) = match rest.first() {
                Some(word) if word.parse::<i64>().is_err() => (Some(word.as_str()), 1),
                _ => (None, 0),
            };
            let (rounds, percent) = (usize::try_from(number(at, 3)?)?, usize::try_from(number(at + 1, 100)?)?);
            let only = rest.get(at + 2..).unwrap_or_default().to_vec();
            compare::run(part, &compare::Extent { rounds, percent, only })
        }
        "cron" => cron::run(),
        "quick" | "--quick" => quick::run(),
        "sqlite" => sqlite::run(),
        "postgres" => postgres::run(),
        "growth" => growth::run(growth::Sizes {
            history: number(0, 10_000_000)?,
            depth: number(1, 1_000_000)?,
            schedules: number(2, 1_000_000)?,
        }),
        "startup" => startup::run(number(0, 100_000)?),
        "limits" => limits::run(),
        "notify" => notify::run(),
        "lateness" => lateness::run(),
        "idle" => idle::run(usize::try_from(number(0, 100_000)?)?),
        "http" => http::run(number(0, 60)?.unsigned_abs(), number(1, 1_000_000)?),
        "peer" => peers::run(rest.first().map(String::as_str), rest.get(1).map(String::as_str)),
        "render" => report::render(),
        // What `http` calls, in a process of its own.
        "http-server" => http::serve_on(&rest.first().cloned().unwrap_or_default()),
        // What `idle` and `startup` watch, in a process of its own.
        "idle-node" => idle::node(&rest.first().cloned().unwrap_or_default()),
        "help" | "--help" => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(format!("no section is called {section}\n{USAGE}").into()),
    }
}

/// A number among the arguments, or the usual one.
fn number(arguments: &[String], at: usize, usual: i64) -> Outcome<i64> {
    let Some(text) = arguments.get(at) else { return Ok(usual) };
    match text.parse() {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err(format!("{text} is not a number that is zero or more\n{USAGE}").into()),
    }
}
