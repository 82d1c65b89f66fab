//! What all commands share: the list of them, output, failures and exit codes.

#[cfg(feature = "cli")]
mod backup;
#[cfg(feature = "cli")]
mod bench;
mod calls;
#[cfg(feature = "server")]
mod client;
mod config;
#[cfg(feature = "cli")]
mod cron;
mod data;
#[cfg(feature = "cli")]
mod demo;
#[cfg(feature = "server")]
mod document;
mod graphs;
mod health;
#[cfg(feature = "server")]
mod import;
#[cfg(feature = "server")]
mod langgraph;
mod log;
#[cfg(feature = "cli")]
mod migrate;
#[cfg(feature = "cli")]
mod pages;
#[cfg(feature = "cli")]
mod relocate;
#[cfg(feature = "server")]
mod serve;
mod signals;
mod traces;
mod worker;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use punctual_core::store::StoreError;

use self::config::FromFiles;

/// Work that runs on time, once, and leaves a record.
#[derive(Parser)]
#[command(name = "punctual", version, long_version = long_version(), arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The version, and what not every build has.
fn long_version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    #[cfg(feature = "server")]
    return format!("{version}\ndashboard: {}", punctual_server::Dashboard::BUILT.status());
    #[cfg(not(feature = "server"))]
    return format!("{version}\nserver: left out");
}

// One variant per command, each with its own file and a `run` of its own.
#[derive(Subcommand)]
enum Command {
    #[cfg(feature = "cli")]
    #[command(subcommand)]
    Cron(cron::CronCommand),
    #[cfg(feature = "cli")]
    Demo(demo::DemoArgs),
    #[cfg(feature = "server")]
    Serve(Box<serve::ServeArgs>),
    Worker(worker::WorkerArgs),
    Health(health::HealthArgs),
    #[cfg(feature = "server")]
    #[command(flatten)]
    Client(client::ClientCommand),
    #[cfg(feature = "cli")]
    Migrate(migrate::MigrateArgs),
    #[cfg(feature = "cli")]
    Backup(backup::BackupArgs),
    #[cfg(feature = "cli")]
    Restore(backup::RestoreArgs),
    #[cfg(feature = "cli")]
    Bench(bench::BenchArgs),
    #[cfg(feature = "cli")]
    Move(relocate::MoveArgs),
    Config(config::ConfigArgs),
    #[cfg(feature = "cli")]
    Completions(pages::CompletionsArgs),
    #[cfg(feature = "cli")]
    Man(pages::ManArgs),
}

const EXIT_CODES: &str = "Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, \
    5 not authorised, 6 unreachable, 7 timeout, 8 the job itself failed, \
    9 plan --check: there is something to do";

/// The exit codes in use; `EXIT_CODES` tells users all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exit {
    Failure = 1,
    Usage = 2,
    NotFound = 3,
    Conflict = 4,
    NotAuthorised = 5,
    Unreachable = 6,
    Timeout = 7,
    JobFailed = 8,
    Differs = 9,
}

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The reader of our output went away, as `head` does: nothing to say, nothing wrong.
    Quiet,
    /// Said on standard error, with an exit code.
    Failed(Exit, String),
    /// With the exit code of a command that was run for the user; it has said why itself.
    Exited(u8),
}

impl Stop {
    pub(crate) fn usage(message: impl Into<String>) -> Stop {
        Stop::Failed(Exit::Usage, message.into())
    }

    pub(crate) fn failure(message: impl Into<String>) -> Stop {
        Stop::Failed(Exit::Failure, message.into())
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Stop::Quiet,
            _ => Stop::failure(error.to_string()),
        }
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Stop {
        Stop::failure(error.to_string())
    }
}

/// Standard output, buffered, and whether it may be coloured.
pub(crate) struct Output {
    writer: io::BufWriter<io::Stdout>,
    pub(crate) bold: bool,
}

impl Output {
    fn new() -> Output {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let bold = !plain && io::stdout().is_terminal();
        Output { writer: io::BufWriter::new(io::stdout()), bold }
    }

    /// A heading, bold on a terminal.
    pub(crate) fn heading(&mut self, text: &str) -> io::Result<()> {
        if self.bold { writeln!(self, "\x1b[1m{text}\x1b[0m") } else { writeln!(self, "{text}") }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Runs the command line and says how it ended.
pub(crate) fn run() -> ExitCode {
    let mut out = Output::new();
    match carry_out(&mut out).and_then(|()| Ok(out.flush()?)) {
        Ok(()) | Err(Stop::Quiet) => ExitCode::SUCCESS,
        Err(Stop::Exited(code)) => {
            // The reader may be gone; the code still counts.
            let _ = out.flush();
            ExitCode::from(code)
        }
        Err(Stop::Failed(exit, message)) => {
            // What was found before the failure still belongs on standard output, before the message.
            let _ = out.flush();
            let _ = writeln!(io::stderr(), "error: {message}");
            ExitCode::from(exit as u8)
        }
    }
}

fn carry_out(out: &mut Output) -> Result<(), Stop> {
    let line = Cli::command();
    let files = FromFiles::read(&line)?;
    let matches = files.put_under(line.clone()).get_matches();
    let Cli { command } = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match command {
        #[cfg(feature = "cli")]
        Command::Cron(command) => command.run(out),
        #[cfg(feature = "cli")]
        Command::Demo(args) => args.run(out),
        #[cfg(feature = "server")]
        Command::Serve(args) => args.run(out),
        Command::Worker(args) => args.run(out),
        Command::Health(args) => args.run(out),
        #[cfg(feature = "server")]
        Command::Client(command) => command.run(out),
        #[cfg(feature = "cli")]
        Command::Migrate(args) => args.run(out),
        #[cfg(feature = "cli")]
        Command::Backup(args) => args.run(out),
        #[cfg(feature = "cli")]
        Command::Restore(args) => args.run(out),
        #[cfg(feature = "cli")]
        Command::Bench(args) => args.run(out),
        #[cfg(feature = "cli")]
        Command::Move(args) => args.run(out),
        Command::Config(args) => args.run(&line, &files, out),
        #[cfg(feature = "cli")]
        Command::Completions(args) => args.run(line, out),
        #[cfg(feature = "cli")]
        Command::Man(args) => args.run(line, out),
    }
}
