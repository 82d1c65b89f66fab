//! Rules that other programs check: git for the mutants, rustfmt and clippy for the code.

use anyhow::Result;

use super::{Tree, requirements};
use crate::{cmd, mutants};

/// A patch that no longer applies proves nothing.
pub fn mutants_apply(tree: &Tree) -> Result<Vec<String>> {
    let ids = requirements::ids(tree)?;
    let mut findings = Vec::new();
    for mutant in mutants::load(&cmd::root())? {
        let mut apply = cmd::command("git", ["apply", "--check", "--whitespace=nowarn", &mutant.path]);
        if let Err(error) = cmd::capture(&mut apply) {
            findings.push(format!("{}: {error}", mutant.path));
        }
        if !ids.contains(&mutant.requirement) {
            findings.push(format!("{}: there is no requirement {}", mutant.path, mutant.requirement));
        }
    }
    Ok(findings)
}

pub fn formatted(_: &Tree) -> Result<Vec<String>> {
    let done = cmd::status(&mut cmd::cargo(["fmt", "--all", "--check"]))?.success();
    Ok(finding(done, "run `cargo fmt`"))
}

/// Its `too_many_lines`, set in `clippy.toml`, is also the rule about the length of functions.
pub fn clippy(_: &Tree) -> Result<Vec<String>> {
    let mut clippy = cmd::cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"]);
    Ok(finding(cmd::status(&mut clippy)?.success(), "see clippy's report above"))
}

fn finding(succeeded: bool, problem: &str) -> Vec<String> {
    if succeeded { Vec::new() } else { vec![problem.to_owned()] }
}
