//! The dashboard: its types and its rules, and every page of the built program in a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::junit::Counts;
use crate::{cmd, deps};

/// Where all of it is checked: a copy, so that nothing is written into the sources. Its packages are kept.
pub const COPY: &str = "target/dashboard/dev";

/// What is in the folder of the sources and is none.
const NO_SOURCES: &[&str] = &["node_modules", "dist", "unit-dist"];

/// The program that users get, and the one that makes databases for it.
const PROGRAM: &str = "target/debug/punctual";
const DATABASES: &str = "target/debug/examples/databases_for_tests";

#[derive(clap::Args)]
pub struct ScreenshotArgs {
    /// Where the pictures go
    #[arg(long, default_value = "docs/images")]
    to: PathBuf,
}

/// The part `browser` of the tests.
pub fn check(counts: &mut Counts) -> Result<()> {
    let folder = copy_sources()?;
    one(counts, cmd::run(&mut npm(&folder, &["run", "check"])))?;
    node_tests(counts, &mut npm(&folder, &["test"]))?;
    build()?;
    let tests = end_to_end_tests(&folder)?;
    // Two at a time: they mostly wait for signals. What a failing test leaves open must not keep the others from ending.
    let how = ["--test", "--test-concurrency=2", "--test-force-exit"].map(str::to_owned);
    node_tests(counts, &mut in_browser(&folder, how.into_iter().chain(tests)))
}

/// The pictures of the documentation, of the demo's fixed history.
pub fn screenshots(args: &ScreenshotArgs) -> Result<()> {
    deps::ensure_for(&["browser"])?;
    let folder = copy_sources()?;
    build()?;
    let to = cmd::root().join(&args.to).display().to_string();
    cmd::run(&mut in_browser(&folder, ["e2e/screenshots.mjs".to_owned(), to]))
}

/// Fails unless the built program has its dashboard, with the program's own reason.
pub fn is_embedded() -> Result<()> {
    let said = cmd::capture(&mut cmd::command(PROGRAM, ["--version"]))?;
    let status = said.lines().find_map(|line| line.strip_prefix("dashboard: "));
    ensure!(status == Some("built in"), "the dashboard is not in the program: {}", status.unwrap_or("it says nothing"));
    Ok(())
}

fn build() -> Result<()> {
    // As the tests are built, so that nothing is built twice.
    cmd::run(&mut cmd::cargo(["nextest", "run", "--workspace", "--locked", "--no-run"]))?;
    is_embedded()
}

fn one(counts: &mut Counts, done: Result<()>) -> Result<()> {
    *(if done.is_ok() { &mut counts.passed } else { &mut counts.failed }) += 1;
    done
}

fn npm(folder: &Path, arguments: &[&str]) -> Command {
    let mut npm = cmd::command("npm", arguments);
    npm.current_dir(folder);
    npm
}

/// Node with what the end-to-end tests want to know.
fn in_browser(folder: &Path, arguments: impl IntoIterator<Item = String>) -> Command {
    let root = cmd::root();
    let mut node = cmd::command("node", arguments);
    node.current_dir(folder);
    node.env("E2E_PROGRAM", root.join(PROGRAM)).env("E2E_DATABASES", root.join(DATABASES));
    node.env("E2E_FAILURES", root.join("target/dashboard/failures"));
    node
}

fn end_to_end_tests(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder.join("e2e")).context("look for the end-to-end tests")?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut tests: Vec<String> =
        names.filter(|name| name.ends_with(".test.mjs")).map(|name| format!("e2e/{name}")).collect();
    tests.sort();
    ensure!(!tests.is_empty(), "there are no end-to-end tests in dashboard/e2e");
    Ok(tests)
}

/// Runs tests of Node and counts them by what it says at the end; none at all is a failure.
fn node_tests(counts: &mut Counts, command: &mut Command) -> Result<()> {
    let (status, text) = cmd::tee(command)?;
    let found = node_counts(&text);
    *counts += found;
    if !status.success() {
        // A test that broke before it could be counted is one all the same.
        counts.failed += u64::from(found.failed == 0);
        bail!("`{}` failed ({status})", cmd::shown(command));
    }
    ensure!(found.passed > 0, "`{}` has tried nothing", cmd::shown(command));
    Ok(())
}

/// Sums the closing lines of Node's reporters: `# pass 3` of one, `ℹ pass 3` of the other.
fn node_counts(text: &str) -> Counts {
    let sum = |words: &[&str]| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ ")));
        let pairs = lines.filter_map(|line| line.split_once(' ')).filter(|(word, _)| words.contains(word));
        pairs.filter_map(|(_, number)| number.parse::<u64>().ok()).sum()
    };
    Counts { passed: sum(&["pass"]), failed: sum(&["fail", "cancelled"]) }
}

/// Makes the copy hold what the sources do, beside its packages, and puts the API's document where the types look for it.
fn copy_sources() -> Result<PathBuf> {
    let (from, to) = (cmd::root().join("dashboard"), cmd::root().join(COPY));
    for entry in std::fs::read_dir(&to).context("look into the copy of the dashboard")? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true if entry.file_name() == "node_modules" => {}
            true => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    copy(&from, &to).context("copy the dashboard")?;
    std::fs::copy(cmd::root().join("openapi.json"), to.with_file_name("openapi.json")).context("copy openapi.json")?;
    Ok(to)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.path().is_dir() {
            if !NO_SOURCES.iter().any(|no_source| name == *no_source) {
                copy(&entry.path(), &to.join(name))?;
            }
        } else {
            std::fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b10_tests_of_node_are_counted_whatever_the_reporter() {
        let tap = "TAP version 13\n# pass 2\n# fail 1\n# cancelled 1\n# skipped 0\n";
        assert_eq!(node_counts(tap), Counts { passed: 2, failed: 2 });
        assert_eq!(node_counts("✔ one\nℹ tests 3\nℹ pass 3\nℹ fail 0\n"), Counts { passed: 3, failed: 0 });
    }

    #[test]
    fn b10_a_failing_or_an_empty_run_is_a_failure() {
        let run = |script: &str| {
            let mut counts = Counts::default();
            (node_tests(&mut counts, &mut cmd::command("sh", ["-c", script])).is_ok(), counts)
        };
        assert_eq!(run("echo '# pass 1'"), (true, Counts { passed: 1, failed: 0 }));
        assert_eq!(run("echo '# pass 0'"), (false, Counts::default()));
        assert_eq!(run("echo '# fail 2'; exit 1"), (false, Counts { passed: 0, failed: 2 }));
        assert_eq!(run("exit 1"), (false, Counts { passed: 0, failed: 1 }));
    }
}
