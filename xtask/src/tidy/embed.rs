//! What a program that embeds Punctual is built with: its store and nothing of the command line or of other stores.

use anyhow::Result;

use super::Tree;
use crate::cmd;

/// A way to build the crate, and what must not come with it.
struct Build {
    features: &'static str,
    /// Names, or beginnings of names when they end with `*`.
    never: &'static [&'static str],
}

/// What only the command line, the server and tests need.
const NOT_FOR_PROGRAMS: &[&str] = &[
    "clap",
    "clap_*",
    "anyhow",
    "tracing-subscriber",
    "axum",
    "axum-*",
    "punctual-server",
    "punctual-testkit",
    "proptest",
];

const BUILDS: &[Build] = &[
    Build { features: "sqlite", never: &["tokio-postgres", "deadpool*", "rustls", "ring", "sqlx*", "tempfile"] },
    Build { features: "postgres", never: &["rusqlite", "libsqlite3-sys", "sqlx*", "tempfile"] },
    Build { features: "rusqlite,testing", never: &["tokio-postgres", "deadpool*", "rustls", "sqlx*"] },
    Build { features: "tokio-postgres", never: &["rusqlite", "libsqlite3-sys", "sqlx*"] },
    Build { features: "sqlx-postgres", never: &["rusqlite", "libsqlite3-sys", "sqlx-sqlite", "sqlx-mysql"] },
];

pub fn check(_: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for build in BUILDS {
        let arguments = ["tree", "--locked", "--package", "punctual", "--no-default-features", "--features"];
        let mut tree = cmd::cargo(arguments);
        tree.args([build.features, "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
        findings.extend(unwanted(build, &cmd::capture(&mut tree)?));
    }
    Ok(findings)
}

fn unwanted(build: &Build, tree: &str) -> Vec<String> {
    let mut names: Vec<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    names.dedup();
    let never = || build.never.iter().chain(NOT_FOR_PROGRAMS);
    let is_never = |name: &str| never().any(|never| super::seams::is_named(name, never));
    let found = names.into_iter().filter(|name| is_never(name));
    found.map(|name| format!("punctual with the features `{}` is built with {name}", build.features)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a24_a_program_that_embeds_punctual_gets_nothing_of_the_command_line() {
        assert_eq!(check(&Tree::of(&[])).unwrap(), [""; 0]);
    }

    #[test]
    fn what_comes_along_unasked_is_named() {
        let build = &BUILDS[0];
        let tree = "punctual v0.1.0 (/p)\nclap_builder v4.6.0\njiff v0.2.39\ntokio-postgres v0.7.18\n";
        let found = unwanted(build, tree);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].ends_with("clap_builder") && found[1].contains("`sqlite`"));
    }
}
