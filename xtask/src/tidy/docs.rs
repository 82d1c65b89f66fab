//! Documents may only name files that exist, so that they cannot rot unnoticed.

use super::{File, Tree, place};

/// Text in backticks that begins so is taken for a path of this repository.
const OURS: &[&str] = &[
    "crates/",
    "bench/",
    "xtask/",
    "deploy/",
    "docs/",
    "mutants/",
    "dashboard/",
    "fuzz/",
    ".ci/",
    ".cargo/",
    ".config/",
];

pub fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for file in tree.with_extension("md") {
        findings.extend(broken_links(tree, file));
        findings.extend(missing_paths(tree, file));
    }
    findings
}

fn broken_links(tree: &Tree, file: &File) -> Vec<String> {
    let links = file.text.match_indices("](").filter_map(|(at, _)| {
        let target = file.text[at + 2..].split([')', '\n']).next()?;
        let path = target.split('#').next()?;
        let elsewhere = path.is_empty() || target.contains("://") || target.starts_with("mailto:");
        (!elsewhere && !tree.has(&resolve(&file.path, path)))
            .then(|| format!("{}: links to {path}, which does not exist", place(file, at)))
    });
    links.collect()
}

/// A path relative to a document, as one relative to the root.
fn resolve(document: &str, path: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn missing_paths(tree: &Tree, file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    let mut at = 0;
    for (index, piece) in file.text.split('`').enumerate() {
        // Every second piece is between backticks; patterns and placeholders name no one file.
        let is_path = index % 2 == 1
            && OURS.iter().any(|start| piece.starts_with(start))
            && !piece.contains(['*', '<', '{', '…', ' ', '\n']);
        if is_path && !tree.has(piece) {
            findings.push(format!("{}: names {piece}, which does not exist", place(file, at)));
        }
        at += piece.len() + 1;
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let files = [("docs/a.md", text), ("docs/b.md", ""), ("README.md", ""), ("crates/core/src/lib.rs", "")];
        check(&Tree::of(&files))
    }

    #[test]
    fn links_to_missing_files_are_found() {
        assert_eq!(findings("one\n[x](c.md)"), ["docs/a.md:2: links to c.md, which does not exist"]);
        assert_eq!(findings("[x](b.md#part) [y](../README.md) [z](#here) [w](https://example.org/x)"), [""; 0]);
    }

    #[test]
    fn named_files_must_exist() {
        assert_eq!(findings("see `crates/core/src/gone.rs`").len(), 1);
        assert_eq!(findings("see `crates/core`, `crates/core/src/lib.rs`, `crates/*/src` and `a/b`"), [""; 0]);
    }
}
