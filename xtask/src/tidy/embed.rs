//! What a program that embeds Punctual is built with: its store and nothing of the command line or of other stores; and
//! a worker of its own: nothing of the server.

use anyhow::Result;

use super::Tree;
use crate::cmd;

/// A way to build the crate, and what must not come with it.
struct Build {
    features: &'static str,
    /// Whether it makes the binary, which has a command line.
    is_binary: bool,
    /// Names, or beginnings of names when they end with `*`.
    never: &'static [&'static str],
}

/// What only the server, with its graphs, and tests need.
const NOT_FOR_WORKERS: &[&str] = &["axum", "axum-*", "utoipa*", "punctual-server", "punctual-testkit", "proptest"];

/// And what only the command line needs.
const NOT_FOR_PROGRAMS: &[&str] = &["clap", "clap_*", "anyhow", "tracing-subscriber", "toml"];

const BUILDS: &[Build] = &[
    Build {
        features: "sqlite",
        is_binary: false,
        never: &["tokio-postgres", "deadpool*", "rustls", "ring", "sqlx*", "tempfile"],
    },
    Build { features: "postgres", is_binary: false, never: &["rusqlite", "libsqlite3-sys", "sqlx*", "tempfile"] },
    Build {
        features: "rusqlite,testing",
        is_binary: false,
        never: &["tokio-postgres", "deadpool*", "rustls", "sqlx*"],
    },
    Build { features: "tokio-postgres", is_binary: false, never: &["rusqlite", "libsqlite3-sys", "sqlx*"] },
    Build {
        features: "sqlx-postgres",
        is_binary: false,
        never: &["rusqlite", "libsqlite3-sys", "sqlx-sqlite", "sqlx-mysql"],
    },
    // A11: who starts graphs by HTTP cannot even link what runs them.
    Build {
        features: "worker",
        is_binary: true,
        never: &["clap_complete", "clap_mangen", "comfy-table", "sqlx*", "tempfile"],
    },
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
    let more = if build.is_binary { &[][..] } else { NOT_FOR_PROGRAMS };
    let never = || build.never.iter().chain(NOT_FOR_WORKERS).chain(more);
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
    fn a11_a_worker_that_links_the_graph_code_is_found() {
        let worker = BUILDS.iter().find(|build| build.features == "worker").unwrap();
        assert_eq!(unwanted(worker, "punctual v0.1.0\nclap v4.6.7\ntokio v1.54.1\n"), [""; 0]);
        assert_eq!(unwanted(worker, "punctual-server v0.1.0\naxum v0.8.9\naxum-core v0.5.0\n").len(), 3);
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
