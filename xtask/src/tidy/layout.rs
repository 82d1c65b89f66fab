//! Rules about which files there are and what every manifest says.

use std::collections::BTreeMap;

use super::Tree;

/// The same versions everywhere: the lock file is committed.
pub fn lock_files(tree: &Tree) -> Vec<String> {
    let missing = (!tree.has("Cargo.lock")).then(|| "Cargo.lock: missing; commit it".to_owned());
    let packages = tree.files.iter().filter_map(|file| file.path.strip_suffix("package.json"));
    missing.into_iter().chain(packages.filter_map(|folder| node_lock(tree, folder))).collect()
}

/// Packages of Node are locked, too, and by their content: where one machine has them from is no matter of the others.
fn node_lock(tree: &Tree, folder: &str) -> Option<String> {
    let path = format!("{folder}package-lock.json");
    match tree.text(&path) {
        None => Some(format!("{path}: missing; run `npm install` there and commit it")),
        Some(text) if text.contains("\"resolved\"") => Some(format!(
            "{path}: names addresses; run `npm install` with omit-lockfile-registry-resolved=true in .npmrc"
        )),
        Some(_) => None,
    }
}

/// Each further binary links the whole crate once more; modules of one binary cost nothing.
pub fn one_test_binary(tree: &Tree) -> Vec<String> {
    let mut binaries: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in tree.with_extension("rs") {
        if let Some((package, name)) = file.path.split_once("/tests/") {
            let is_binary = !name.contains('/') || name.ends_with("/main.rs") && name.matches('/').count() == 1;
            if is_binary && tree.has(&format!("{package}/Cargo.toml")) {
                binaries.entry(package).or_default().push(name);
            }
        }
    }
    binaries
        .iter()
        .filter(|(_, names)| names.len() > 1)
        .map(|(package, names)| {
            format!("{package}/tests: {} are binaries of their own: make them modules of one", names.join(", "))
        })
        .collect()
}

/// A crate that forgets to inherit the workspace's lints is checked by none of them.
pub fn lints_inherited(tree: &Tree) -> Vec<String> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    manifests
        .filter(|file| file.text.contains("[package]") && !file.text.contains("\n[workspace]"))
        .filter(|file| !file.text.contains("[lints]\nworkspace = true"))
        .map(|file| format!("{}: add `[lints]` with `workspace = true`", file.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_file_must_be_there() {
        assert_eq!(lock_files(&Tree::of(&[])).len(), 1);
        assert!(lock_files(&Tree::of(&[("Cargo.lock", "")])).is_empty());
        let node = |lock: &[(&str, &str)]| {
            let files = [&[("Cargo.lock", ""), ("dashboard/package.json", "{}")], lock].concat();
            lock_files(&Tree::of(&files)).len()
        };
        assert_eq!(node(&[]), 1);
        assert_eq!(node(&[("dashboard/package-lock.json", "{ \"resolved\": \"somewhere\" }")]), 1);
        assert_eq!(node(&[("dashboard/package-lock.json", "{ \"integrity\": \"sha512-…\" }")]), 0);
    }

    #[test]
    fn a_second_integration_test_binary_is_refused() {
        let mut files = vec![("a/Cargo.toml", ""), ("a/tests/main.rs", ""), ("a/tests/common/mod.rs", "")];
        assert!(one_test_binary(&Tree::of(&files)).is_empty());
        files.push(("a/tests/more/main.rs", ""));
        assert_eq!(one_test_binary(&Tree::of(&files)).len(), 1);
    }

    #[test]
    fn every_crate_inherits_the_lints() {
        let without = "[package]\nname = \"a\"\n";
        let with = format!("{without}\n[lints]\nworkspace = true\n");
        assert_eq!(lints_inherited(&Tree::of(&[("a/Cargo.toml", without)])).len(), 1);
        assert!(lints_inherited(&Tree::of(&[("a/Cargo.toml", &with)])).is_empty());
    }
}
