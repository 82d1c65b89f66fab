//! What other people's packages may be: permissively licensed, and from the default registry.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Tree;
use crate::cmd;

/// Licences that ask for no more than their text.
const PERMISSIVE: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unlicense",
    "Unicode-3.0",
    "CC0-1.0",
    "BSL-1.0",
    // For data: lists of certificate authorities.
    "CDLA-Permissive-2.0",
];

const DEFAULT_REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub fn check(_: &Tree) -> Result<Vec<String>> {
    let text = cmd::capture(&mut cmd::cargo(["metadata", "--format-version", "1", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&text).context("read cargo's metadata")?;
    let packages = metadata["packages"].as_array().context("cargo's metadata has no packages")?;
    Ok(packages.iter().filter_map(problem).collect())
}

/// A package of this workspace has no source and is our own.
fn problem(package: &Value) -> Option<String> {
    let name = package["name"].as_str().unwrap_or("?");
    let source = package["source"].as_str()?;
    if source != DEFAULT_REGISTRY {
        return Some(format!("{name}: comes from {source}, not from the default registry"));
    }
    let licence = package["license"].as_str().unwrap_or("no licence");
    (!is_permissive(licence)).then(|| format!("{name}: is under {licence}, which is not on the list"))
}

/// Every part that must be accepted offers at least one licence of the list. (`OR` is read as
/// binding tighter than `AND`, which can only refuse more.)
fn is_permissive(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], " ").replace('/', " OR ");
    expression.split(" AND ").all(|part| {
        part.split(" OR ").any(|choice| {
            // An exception (`WITH`) only permits more.
            let licence = choice.split(" WITH ").next().unwrap_or(choice).trim();
            PERMISSIVE.contains(&licence)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn licences_are_read_as_people_write_them() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_permissive(good), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "", "MITX"] {
            assert!(!is_permissive(bad), "{bad}");
        }
    }

    #[test]
    fn foreign_sources_and_licences_are_found() {
        let package = |source: Value, license: &str| json!({"name": "a", "source": source, "license": license});
        assert!(problem(&package(json!("git+https://example.org/a"), "MIT")).is_some());
        assert!(problem(&package(json!(DEFAULT_REGISTRY), "AGPL-3.0")).is_some());
        assert!(problem(&package(json!(DEFAULT_REGISTRY), "MIT")).is_none());
        assert!(problem(&package(Value::Null, "")).is_none());
    }
}
