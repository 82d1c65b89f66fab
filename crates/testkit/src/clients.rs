//! Clients that know nothing but SQL: `psql`, and the usual drivers of Python and Node.

use crate::postgres::Programs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What a client printed, or what it said when it was refused.
pub type Answer = Result<String, String>;

/// Runs a script as a person would type it; the first error ends it. Rows come back one a line, columns with `|`.
pub fn psql(url: &str, script: &str) -> Answer {
    let mut command = alone(&psql_program());
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", "-"]);
    answer(start(command, script))
}

/// The same as it is shown to a person: with a heading, in columns.
pub fn psql_shown(url: &str, script: &str) -> Answer {
    let mut command = alone(&psql_program());
    command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", "-"]);
    answer(start(command, script))
}

/// Runs a Python script, which finds the database in `DATABASE_URL` and can import `psycopg`.
pub fn python(url: &str, script: &str) -> Answer {
    let mut command = alone(&installed("target/psycopg/bin/python"));
    command.arg("-").env("DATABASE_URL", url);
    answer(start(command, script))
}

/// Runs a script of Node, which finds the database in `DATABASE_URL` and can require `pg`.
pub fn node(url: &str, script: &str) -> Answer {
    let mut command = alone(Path::new("node"));
    command.arg("-").env("DATABASE_URL", url).env("NODE_PATH", installed("target/node-pg/node_modules"));
    answer(start(command, script))
}

/// A command that sees nothing of the developer's own settings.
pub(crate) fn alone(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(mut command: Command, script: &str) -> Child {
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    let mut stdin = child.stdin.take().expect("it reads from a pipe");
    // One that has ended already says why, and that is what is told.
    let _ended = stdin.write_all(script.as_bytes());
    child
}

pub(crate) fn answer(child: Child) -> Answer {
    let output = child.wait_with_output().expect("it can be waited for");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// The one beside the server that the tests use, or any.
fn psql_program() -> PathBuf {
    let beside = Programs::find().path("psql");
    if beside.is_file() { beside } else { PathBuf::from("psql") }
}

/// What `cargo xtask deps` has put into the target folder.
pub fn installed(path: &str) -> PathBuf {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    assert!(found.exists(), "{path} is not there: run `cargo xtask deps`");
    found
}
