//! The files in `deploy/`, each read by the linter that knows its kind; none of them asks the network.

use anyhow::{Result, bail};

use crate::cmd;
use crate::junit::Counts;

/// Where `cargo xtask deps` puts them.
const LINTERS: &str = "target/deploy-linters/bin";

struct Lint {
    linter: &'static str,
    arguments: &'static [&'static str],
    /// Files by a beginning and an end of their path.
    files: (&'static str, &'static str),
}

/// A new kind of file is one entry.
const LINTS: &[Lint] = &[
    Lint { linter: "hadolint", arguments: &["--failure-threshold", "style"], files: ("deploy/", "Dockerfile") },
    Lint { linter: "yamllint", arguments: &["--strict", "-d", YAML], files: ("deploy/", ".yaml") },
    Lint {
        linter: "check-jsonschema",
        arguments: &["--builtin-schema", "vendor.compose-spec"],
        files: ("deploy/compose", ".yaml"),
    },
    Lint { linter: "kubernetes-validate", arguments: &["--strict"], files: ("deploy/kubernetes/", ".yaml") },
];

/// The house's line length; `on` and `yes` are no words here.
const YAML: &str = "{extends: default, rules: {line-length: {max: 120}, document-start: disable, \
                    comments: {min-spaces-from-content: 1}, braces: {max-spaces-inside: 1}}}";

pub fn check(counts: &mut Counts) -> Result<()> {
    let listed = cmd::capture(&mut cmd::command("git", ["ls-files", "--cached", "--others", "deploy"]))?;
    for lint in LINTS {
        let files = lint.files_of(&listed);
        // A linter without files checks nothing, and would say that all is well.
        if files.is_empty() {
            bail!("{} has nothing to read: no file {}…{}", lint.linter, lint.files.0, lint.files.1);
        }
        let mut linter = cmd::command(&format!("{LINTERS}/{}", lint.linter), lint.arguments);
        let done = cmd::run(linter.args(files));
        *(if done.is_ok() { &mut counts.passed } else { &mut counts.failed }) += 1;
        done?;
    }
    Ok(())
}

impl Lint {
    fn files_of<'a>(&self, listed: &'a str) -> Vec<&'a str> {
        let (begin, end) = self.files;
        listed.lines().filter(|path| path.starts_with(begin) && path.ends_with(end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a23_every_linter_finds_its_files() {
        let listed = "deploy/Dockerfile\ndeploy/compose.yaml\ndeploy/kubernetes/server.yaml\n";
        let found: Vec<usize> = LINTS.iter().map(|lint| lint.files_of(listed).len()).collect();
        assert_eq!(found, [1, 2, 1, 1]);
    }
}
