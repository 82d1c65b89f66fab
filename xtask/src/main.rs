//! What a developer and CI run: `cargo xtask deps | test | tidy | bench | sim | chaos | mutants | api-check | openapi |
//! screenshots`.

mod api;
mod bench;
mod browser;
mod chaos;
mod cmd;
mod deploy;
mod deps;
mod junit;
mod mutants;
mod sim;
mod table;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The repository's own tasks.")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what the tests need, or say exactly what is missing
    Deps(deps::Args),
    /// Run everything a change must pass, and show how long each part took
    Test(test::Args),
    /// Check the repository's rules
    Tidy(tidy::Args),
    /// Run the benchmarks (release build)
    Bench(bench::Args),
    /// Simulate days of several nodes for a seed, crashes and all
    Sim(sim::Args),
    /// Kill workers in the middle of each of their steps, many more times than the suite
    Chaos(chaos::Args),
    /// Check that the suite catches every bug kept in mutants/
    Mutants(mutants::Args),
    /// Test the API against its own document, with many examples of every call
    ApiCheck(api::Args),
    /// Write openapi.json anew from the code
    Openapi,
    /// Take the pictures of the documentation anew, of the demo in a real browser
    Screenshots(browser::ScreenshotArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Deps(args) => deps::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Tidy(args) => tidy::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Sim(args) => sim::run(&args),
        Task::Chaos(args) => chaos::run(&args),
        Task::Mutants(args) => mutants::run(&args),
        Task::ApiCheck(args) => api::run(&args),
        Task::Openapi => api::write_document(),
        Task::Screenshots(args) => browser::screenshots(&args),
    };
    // Without the backtrace that `?` from main would print: these are messages for people.
    done.map_or_else(
        |error| {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
