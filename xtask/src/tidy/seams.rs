//! Which crates may not be below which, checked over the resolved dependency graph.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Tree;
use crate::cmd;

struct Seam {
    package: &'static str,
    why: &'static str,
    /// Names, or beginnings of names when they end with `*`.
    never: &'static [&'static str],
}

const SEAMS: &[Seam] = &[
    Seam {
        package: "punctual-core",
        why: "the rules do no I/O and know no async runtime",
        never: &[
            "tokio",
            "tokio-*",
            "async-std",
            "smol",
            "futures-executor",
            "mio",
            "socket2",
            "rusqlite",
            "libsqlite3-sys",
            "postgres",
            "postgres-*",
            "deadpool*",
            "sqlx*",
            "diesel*",
            "hyper",
            "hyper-*",
            "reqwest",
            "ureq",
            "axum",
            "axum-*",
            "tower-http",
            "rustls",
            "lettre",
            "punctual-*",
        ],
    },
    Seam {
        package: "punctual-engine",
        why: "the engine sees the store through core's port, and graphs through HTTP",
        never: &[
            "rusqlite",
            "libsqlite3-sys",
            "postgres",
            "tokio-postgres*",
            "deadpool*",
            "sqlx*",
            "diesel*",
            "axum",
            "axum-*",
            "punctual-server",
            "punctual-store-*",
            "punctual",
        ],
    },
    Seam {
        package: "punctual-server",
        why: "the server sees the store through core's port, and leaves running work to the engine",
        never: &[
            "rusqlite",
            "libsqlite3-sys",
            "postgres",
            "tokio-postgres*",
            "deadpool*",
            "sqlx*",
            "diesel*",
            "punctual-engine",
            "punctual-store-*",
            "punctual",
        ],
    },
];

/// Test code must never reach a release binary.
const TESTKIT: &str = "punctual-testkit";
/// Programs for developers, which may use it freely.
const DEVELOPERS: &[&str] = &["punctual-bench", "xtask", TESTKIT];

pub fn check(_: &Tree) -> Result<Vec<String>> {
    let mut metadata = cmd::cargo(["metadata", "--format-version", "1", "--locked", "--all-features"]);
    let graph = Graph::read(&cmd::capture(&mut metadata)?)?;
    let mut findings: Vec<String> = SEAMS.iter().flat_map(|seam| crossed(&graph, seam)).collect();
    findings.extend(testkit_users(&graph));
    Ok(findings)
}

/// Package names and what each is built with, development dependencies left out.
#[derive(Default)]
struct Graph {
    below: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn read(metadata: &str) -> Result<Self> {
        let metadata: Value = serde_json::from_str(metadata).context("read cargo's metadata")?;
        let names: BTreeMap<&str, &str> = list(&metadata["packages"])?
            .iter()
            .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
            .collect();
        let name = |id: &Value| -> Result<String> {
            let name = id.as_str().and_then(|id| names.get(id));
            Ok((*name.context("a package without a name")?).to_owned())
        };
        let mut graph = Self::default();
        for node in list(&metadata["resolve"]["nodes"])? {
            // Two versions of a package share a name, and then what is below either counts.
            let below = graph.below.entry(name(&node["id"])?).or_default();
            for dependency in list(&node["deps"])? {
                if list(&dependency["dep_kinds"])?.iter().any(|it| it["kind"] != "dev") {
                    below.insert(name(&dependency["pkg"])?);
                }
            }
        }
        Ok(graph)
    }

    /// Everything that a package is built with, each with the shortest way to it.
    fn all_below<'a>(&'a self, package: &'a str) -> BTreeMap<&'a str, Vec<&'a str>> {
        let mut ways = BTreeMap::from([(package, vec![package])]);
        let mut next = std::collections::VecDeque::from([package]);
        while let Some(at) = next.pop_front() {
            for below in self.below.get(at).into_iter().flatten() {
                if !ways.contains_key(below.as_str()) {
                    ways.insert(below, [&ways[at][..], &[below]].concat());
                    next.push_back(below);
                }
            }
        }
        ways.remove(package);
        ways
    }
}

fn list(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().context("cargo's metadata has another shape than expected")
}

fn crossed(graph: &Graph, seam: &Seam) -> Vec<String> {
    let ways = graph.all_below(seam.package);
    let crossing = ways.iter().filter(|(name, _)| seam.never.iter().any(|never| is_named(name, never)));
    crossing.map(|(_, way)| format!("{}: {} ({})", seam.package, way.join(" → "), seam.why)).collect()
}

pub(super) fn is_named(name: &str, pattern: &str) -> bool {
    pattern.strip_suffix('*').map_or(name == pattern, |start| name.starts_with(start))
}

fn testkit_users(graph: &Graph) -> Vec<String> {
    let users =
        graph.below.iter().filter(|(user, below)| below.contains(TESTKIT) && !DEVELOPERS.contains(&user.as_str()));
    users.map(|(user, _)| format!("{user}: {TESTKIT} may only be a development dependency")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::default();
        for (from, to) in edges {
            graph.below.entry((*from).into()).or_default().insert((*to).into());
        }
        graph
    }

    fn all_crossed(edges: &[(&str, &str)]) -> Vec<String> {
        let graph = graph(edges);
        SEAMS.iter().flat_map(|seam| crossed(&graph, seam)).chain(testkit_users(&graph)).collect()
    }

    #[test]
    fn a24_core_may_reach_no_io_crate_even_indirectly() {
        let edges = [("punctual-core", "helper"), ("helper", "tokio")];
        assert!(all_crossed(&edges)[0].contains("punctual-core → helper → tokio"));
        assert!(all_crossed(&[("punctual-core", "jiff"), ("other", "tokio")]).is_empty());
    }

    #[test]
    fn a24_the_tree_as_it_is_keeps_its_seams() {
        assert_eq!(check(&Tree::of(&[])).unwrap(), [""; 0]);
    }

    #[test]
    fn the_engine_may_reach_neither_a_driver_nor_a_store_nor_the_server() {
        for never in ["rusqlite", "tokio-postgres", "punctual-store-sqlite", "punctual-server", "axum"] {
            assert_eq!(all_crossed(&[("punctual-engine", never)]).len(), 1, "{never}");
        }
        assert!(all_crossed(&[("punctual-engine", "punctual-core"), ("punctual-engine", "tokio")]).is_empty());
    }

    #[test]
    fn the_server_may_reach_neither_a_driver_nor_a_store_nor_the_engine() {
        for never in ["rusqlite", "tokio-postgres", "punctual-store-postgres", "punctual-engine"] {
            assert_eq!(all_crossed(&[("punctual-server", never)]).len(), 1, "{never}");
        }
        assert!(all_crossed(&[("punctual-server", "punctual-core"), ("punctual-server", "axum")]).is_empty());
    }

    #[test]
    fn the_testkit_is_for_tests_only() {
        assert_eq!(all_crossed(&[("punctual", TESTKIT)]).len(), 1);
        assert!(all_crossed(&[("punctual-bench", TESTKIT)]).is_empty());
    }

    #[test]
    fn development_dependencies_are_left_out() {
        let metadata = r#"{
            "packages": [{"id": "a 1", "name": "a"}, {"id": "b 1", "name": "b"}, {"id": "c 1", "name": "c"}],
            "resolve": {"nodes": [
                {"id": "a 1", "deps": [
                    {"pkg": "b 1", "dep_kinds": [{"kind": "dev"}]},
                    {"pkg": "c 1", "dep_kinds": [{"kind": "dev"}, {"kind": null}]}]},
                {"id": "b 1", "deps": []}, {"id": "c 1", "deps": []}]}}"#;
        let graph = Graph::read(metadata).unwrap();
        assert_eq!(graph.below["a"], BTreeSet::from(["c".to_owned()]));
    }
}
