//! The API against its own document: schemathesis on a fresh server, and the committed `openapi.json`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, bail};

use crate::junit::Counts;
use crate::{cmd, deps};

#[derive(clap::Args)]
pub struct Args {
    /// How many examples of each call
    #[arg(long, default_value_t = 100)]
    examples: u32,
    /// Passed to schemathesis as they are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Many examples of every call: for a change of the API, and before a release.
pub fn run(args: &Args) -> Result<()> {
    deps::ensure_for(&["api"])?;
    check(args.examples, &args.args, &mut Counts::default())
}

/// Writes the document that the code describes itself with.
pub fn write_document() -> Result<()> {
    let path = cmd::root().join("openapi.json");
    // The test that compares the two includes the file, so there must be one.
    if !path.exists() {
        std::fs::write(&path, "").context("make openapi.json")?;
    }
    let text =
        cmd::capture(&mut cmd::cargo(["run", "--quiet", "--package", "punctual-server", "--example", "openapi"]))?;
    std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    println!("wrote openapi.json");
    Ok(())
}

/// Runs schemathesis with all its checks. The stream of events never ends, and is left out.
pub fn check(examples: u32, more: &[String], counts: &mut Counts) -> Result<()> {
    cmd::run(&mut cmd::cargo(["build", "--quiet", "--package", "punctual-server", "--example", "serve_for_tests"]))?;
    let server = Server::start()?;
    let (examples, header) = (examples.to_string(), format!("Authorization: Bearer {}", server.token));
    let mut tool = cmd::command("target/schemathesis/bin/schemathesis", ["--config-file", "schemathesis.toml", "run"]);
    tool.arg(format!("http://{}/openapi.json", server.address)).args(["--header", &header]);
    tool.args(["--exclude-path", "/events", "--checks", "all", "--max-examples", &examples]);
    // The same examples each time: a change must not fail for what another one would have found.
    tool.args(["--generation-deterministic", "--no-color"]).args(more);
    let (status, text) = cmd::tee(&mut tool)?;
    let passed = passed(&text).unwrap_or(0);
    counts.passed += passed;
    if !status.success() {
        counts.failed += 1;
        bail!("the API does not keep to its document ({status})");
    }
    if passed == 0 {
        bail!("schemathesis tried nothing");
    }
    Ok(())
}

/// The number in `3527 generated, 3527 passed`.
fn passed(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split([' ', ',', '\n']).filter(|word| !word.is_empty()).collect();
    let at = words.iter().rposition(|word| *word == "passed")?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

/// A server on a fresh store; it stops when its standard input is closed.
struct Server {
    child: Child,
    address: String,
    token: String,
}

impl Server {
    fn start() -> Result<Self> {
        let mut command = cmd::command("target/debug/examples/serve_for_tests", [""; 0]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start the server")?;
        let mut line = String::new();
        let output = child.stdout.take().context("take the server's standard output")?;
        BufReader::new(output).read_line(&mut line).context("read the server's address")?;
        let (address, token) = line.trim().split_once(' ').context("the server did not start")?;
        Ok(Self { address: address.to_owned(), token: token.to_owned(), child })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It was told to stop; how it ends is no part of the check.
        let _ended = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_schemathesis_tried_is_counted() {
        assert_eq!(passed("Test cases:\n  3527 generated, 3527 passed, 54 skipped\n"), Some(3527));
        assert_eq!(passed("nothing"), None);
    }
}
