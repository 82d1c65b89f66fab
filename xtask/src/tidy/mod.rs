//! The repository's rules as checks, each of which names what to do instead.

mod banned;
mod docs;
mod embed;
mod layout;
mod migrations;
mod packages;
mod requirements;
mod rust;
mod seams;
mod tools;

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::cmd;

#[derive(clap::Args, Default)]
pub struct Args {
    /// Repair what can be repaired: formatting and the requirement index
    #[arg(long)]
    fix: bool,
}

/// A rule returns one line for each place that breaks it.
struct Rule {
    name: &'static str,
    check: Check,
}

enum Check {
    /// Looks at the files only.
    Files(fn(&Tree) -> Vec<String>),
    /// Asks something that can itself go wrong.
    Asks(fn(&Tree) -> Result<Vec<String>>),
}

/// The cheap ones first; the compiler's come last.
const RULES: &[Rule] = &[
    files("files open with a sentence", rust::opening_sentence),
    files("files are of readable size", rust::file_length),
    files("lints are excepted with a reason", rust::lint_exceptions),
    files("time comes from outside", rust::no_clock),
    files("banned words", banned::check),
    files("lock files", layout::lock_files),
    files("one integration-test binary per crate", layout::one_test_binary),
    files("workspace lints are inherited", layout::lints_inherited),
    files("migrations are numbered", migrations::check),
    files("documents name what exists", docs::check),
    asks("requirement index", requirements::check),
    asks("dependency seams", seams::check),
    asks("what programs that embed are built with", embed::check),
    asks("packages may be used", packages::check),
    asks("mutants apply", tools::mutants_apply),
    asks("formatting", tools::formatted),
    asks("clippy", tools::clippy),
];

const fn files(name: &'static str, check: fn(&Tree) -> Vec<String>) -> Rule {
    Rule { name, check: Check::Files(check) }
}

const fn asks(name: &'static str, check: fn(&Tree) -> Result<Vec<String>>) -> Rule {
    Rule { name, check: Check::Asks(check) }
}

pub fn run(args: &Args) -> Result<()> {
    let root = cmd::root();
    if args.fix {
        cmd::run(&mut cmd::cargo(["fmt", "--all"]))?;
        requirements::fix(&root, &Tree::read(&root)?)?;
    }
    let tree = Tree::read(&root)?;
    let mut broken = 0;
    for rule in RULES {
        let findings = rule.find(&tree)?;
        println!("tidy: {:<40} {}", rule.name, if findings.is_empty() { "ok" } else { "BROKEN" });
        for finding in &findings {
            println!("  {finding}");
        }
        broken += findings.len();
    }
    if broken > 0 {
        bail!("{broken} places break the repository's rules; see above");
    }
    Ok(())
}

impl Rule {
    fn find(&self, tree: &Tree) -> Result<Vec<String>> {
        match self.check {
            Check::Files(check) => Ok(check(tree)),
            Check::Asks(check) => check(tree).with_context(|| format!("check the rule `{}`", self.name)),
        }
    }
}

/// The text files that git tracks or would track.
struct Tree {
    files: Vec<File>,
}

struct File {
    /// Relative to the root, with `/`.
    path: String,
    text: String,
}

impl Tree {
    fn read(root: &Path) -> Result<Self> {
        let mut git = cmd::command("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = cmd::capture(git.current_dir(root))?;
        let mut files = Vec::new();
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            // A deleted file is listed until the deletion is staged; a binary file has no text.
            let Ok(bytes) = std::fs::read(root.join(path)) else {
                continue;
            };
            let text = String::from_utf8(bytes).unwrap_or_default();
            files.push(File { path: path.to_owned(), text });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(Self { files })
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Self { files: files.iter().map(file).collect() }
    }

    fn with_extension<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.path.rsplit_once('.').is_some_and(|it| it.1 == extension))
    }

    fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// The folder names below `crates/` that begin with `store-`.
    fn stores(&self) -> Vec<&str> {
        let mut stores: Vec<&str> = self
            .files
            .iter()
            .filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
            .filter(|name| name.starts_with("store-"))
            .collect();
        stores.sort_unstable();
        stores
    }
}

/// Where a byte of a text is, as `path:line`.
fn place(file: &File, byte: usize) -> String {
    format!("{}:{}", file.path, file.text[..byte].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_and_folders_are_seen() {
        let tree = Tree::of(&[("crates/store-sqlite/Cargo.toml", ""), ("crates/core/Cargo.toml", "")]);
        assert_eq!(tree.stores(), ["store-sqlite"]);
        assert!(tree.has("crates/core") && tree.has("crates/core/") && !tree.has("crates/co"));
    }

    #[test]
    fn places_are_counted_from_line_one() {
        let file = File { path: "a.rs".into(), text: "one\ntwo\n".into() };
        assert_eq!(place(&file, 0), "a.rs:1");
        assert_eq!(place(&file, 4), "a.rs:2");
    }
}
