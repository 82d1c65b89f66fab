//! Everything a change must pass, part by part, with the time each took.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::junit::{self, Counts};
use crate::{api, browser, cmd, deploy, deps, table, tidy};

#[derive(clap::Args)]
pub struct Args {
    /// Only these parts, in the usual order
    #[arg(long = "part", value_name = "NAME", num_args = 1..)]
    parts: Vec<String>,
    /// Show the parts and run nothing
    #[arg(long)]
    list: bool,
}

/// Run in this order; a new part is one line.
const PARTS: &[Part] = &[
    Part { name: "tidy", about: "the repository's rules, formatting, lints", run: tidy_part },
    Part { name: "build", about: "every target of every crate", run: build_part },
    Part { name: "deploy", about: "the container and Kubernetes files", run: deploy::check },
    Part { name: "unit", about: "unit, conformance and property tests", run: unit_part },
    Part { name: "api", about: "the API against its own document", run: |counts| api::check(10, &[], counts) },
    Part {
        name: "browser",
        about: "the dashboard: types, unit tests, every page in a real browser",
        run: browser::check,
    },
    Part { name: "doc", about: "the documentation: its links and its examples", run: doc_part },
];

struct Part {
    name: &'static str,
    about: &'static str,
    /// Adds the tests that it ran to the counts, also when it fails.
    run: fn(&mut Counts) -> Result<()>,
}

struct Done {
    name: &'static str,
    counts: Counts,
    time: Duration,
    result: Result<()>,
}

pub fn part_names() -> Vec<&'static str> {
    PARTS.iter().map(|part| part.name).collect()
}

pub fn run(args: &Args) -> Result<()> {
    let parts = chosen(&args.parts)?;
    if args.list {
        let rows: Vec<_> = parts.iter().map(|part| vec![part.name.into(), part.about.into()]).collect();
        print!("{}", table::render(&["part", "what"], &rows));
        return Ok(());
    }
    deps::ensure_for(&parts.iter().map(|part| part.name).collect::<Vec<_>>())?;
    report(&run_parts(&parts))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Part>> {
    if let Some(unknown) = names.iter().find(|name| !part_names().contains(&name.as_str())) {
        bail!("no part named {unknown}; the parts are {}", part_names().join(", "));
    }
    Ok(PARTS.iter().filter(|part| names.is_empty() || names.iter().any(|name| name == part.name)).collect())
}

/// Runs the parts in order and stops after the first that fails.
fn run_parts(parts: &[&'static Part]) -> Vec<Done> {
    let mut done: Vec<Done> = Vec::new();
    for part in parts {
        println!("\n== {}: {}", part.name, part.about);
        let begun = Instant::now();
        let mut counts = Counts::default();
        let result = (part.run)(&mut counts);
        let failed = result.is_err();
        done.push(Done { name: part.name, counts, time: begun.elapsed(), result });
        if failed {
            break;
        }
    }
    done
}

fn report(done: &[Done]) -> Result<()> {
    let mut sum = Counts::default();
    let mut time = Duration::ZERO;
    let mut rows = Vec::new();
    for part in done {
        sum += part.counts;
        time += part.time;
        let result = if part.result.is_ok() { "ok" } else { "FAILED" };
        rows.push(row(part.name, result, part.counts, part.time));
    }
    rows.push(row("all", "", sum, time));
    println!("\n{}", table::render(&["part", "result", "passed", "failed", "time"], &rows));
    let failed = done.iter().find_map(|part| Some((part.name, part.result.as_ref().err()?)));
    if let Some((name, error)) = failed {
        println!("part {name} failed: {error:#}\n");
    }
    // Alone on its line and last, for whoever reads the log by machine.
    println!("{} passed, {} failed", sum.passed, sum.failed);
    match failed {
        Some((name, _)) => bail!("part {name} failed (alone: cargo xtask test --part {name})"),
        None => Ok(()),
    }
}

fn row(name: &str, result: &str, counts: Counts, time: Duration) -> Vec<String> {
    vec![name.into(), result.into(), counts.passed.to_string(), counts.failed.to_string(), table::seconds(time)]
}

fn tidy_part(_: &mut Counts) -> Result<()> {
    tidy::run(&tidy::Args::default())
}

fn build_part(_: &mut Counts) -> Result<()> {
    // A worker of its own is built with fewer features than anything else here.
    let worker = ["--package", "punctual", "--no-default-features", "--features", "worker", "--bin", "punctual"];
    cmd::run(cmd::cargo(["check", "--locked"]).args(worker))?;
    cmd::run(&mut cmd::cargo(["nextest", "run", "--workspace", "--all-targets", "--locked", "--no-run"]))?;
    // Asked of the program itself: to say so to the build would build everything anew for whoever does not.
    browser::is_embedded()
}

fn unit_part(counts: &mut Counts) -> Result<()> {
    let report = cmd::root().join("target/nextest/ci/junit.xml");
    junit::forget(&report)?;
    let ran = cmd::run(&mut cmd::cargo([
        "nextest",
        "run",
        "--workspace",
        "--locked",
        "--profile",
        "ci",
        "--no-tests",
        "fail",
    ]));
    // There is no report when nothing was run; then nextest's own failure is the one to tell.
    match junit::read(&report) {
        Ok(report) => *counts += report.counts,
        Err(error) => ran.as_ref().map_or(Ok(()), |()| Err(error))?,
    }
    ran
}

fn doc_part(counts: &mut Counts) -> Result<()> {
    // A link to something that was renamed is an error, too.
    cmd::run(cmd::cargo(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "--deny warnings"))?;
    let (status, text) = cmd::tee(&mut cmd::cargo(["test", "--doc", "--workspace", "--locked", "--no-fail-fast"]))?;
    *counts += doc_counts(&text)?;
    if !status.success() {
        bail!("a documentation test failed ({status})");
    }
    Ok(())
}

/// Sums rustdoc's closing lines, `test result: ok. 3 passed; 0 failed; …`, one for each crate.
fn doc_counts(text: &str) -> Result<Counts> {
    let mut sum = Counts::default();
    for line in text.lines().filter(|line| line.starts_with("test result: ")) {
        let number_before = |word: &str| -> Result<u64> {
            let words: Vec<&str> = line.split([' ', ';']).collect();
            let at = words.iter().position(|it| *it == word).with_context(|| format!("no `{word}` in `{line}`"))?;
            words[at - 1].parse().with_context(|| format!("no number before `{word}` in `{line}`"))
        };
        sum += Counts { passed: number_before("passed")?, failed: number_before("failed")? };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Part = Part {
        name: "good",
        about: "passes",
        run: |counts| {
            counts.passed += 2;
            Ok(())
        },
    };
    const BAD: Part = Part {
        name: "bad",
        about: "fails",
        run: |counts| {
            counts.failed += 1;
            bail!("broken on purpose")
        },
    };

    #[test]
    fn the_first_failing_part_ends_the_run_and_is_named() {
        let done = run_parts(&[&GOOD, &BAD, &GOOD]);
        assert_eq!(done.len(), 2);
        let error = report(&done).unwrap_err().to_string();
        assert!(error.contains("--part bad"), "{error}");
    }

    #[test]
    fn documentation_tests_are_summed_over_the_crates() {
        let text = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
                    other\ntest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(doc_counts(text).unwrap(), Counts { passed: 4, failed: 2 });
        assert!(doc_counts("test result: nonsense").is_err());
    }

    #[test]
    fn an_unknown_part_is_refused_and_known_ones_keep_their_order() {
        assert!(chosen(&["units".into()]).is_err());
        let names: Vec<_> = chosen(&["unit".into(), "tidy".into()]).unwrap().iter().map(|part| part.name).collect();
        assert_eq!(names, ["tidy", "unit"]);
    }
}
