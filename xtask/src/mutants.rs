//! Puts each bug kept in `mutants/` into a scratch copy of the tree and requires a test to fail.
//!
//! The copy and its build stay under `target/mutants`, and only files whose content differs are
//! written, so that each mutant costs one incremental build and the tests that it names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::{cmd, junit, table};

#[derive(clap::Args)]
pub struct Args {
    /// Only the mutant of this name (the patch's file name without `.patch`)
    #[arg(long)]
    only: Option<String>,
    /// Show the mutants and run nothing
    #[arg(long)]
    list: bool,
}

/// One kept bug: the header of its patch, and where the patch is.
#[derive(Debug)]
pub struct Mutant {
    pub name: String,
    /// Relative to the repository's root.
    pub path: String,
    pub breaks: String,
    pub requirement: String,
    /// A nextest filterset of the tests that must notice.
    pub catch: String,
}

enum Verdict {
    Caught(Vec<String>),
    Survived,
    /// The experiment itself went wrong: no proof of anything.
    Broken(String),
}

pub fn run(args: &Args) -> Result<()> {
    let mut mutants = chosen(load(&cmd::root())?, args.only.as_deref())?;
    if args.list {
        let rows: Vec<_> =
            mutants.iter().map(|it| vec![it.name.clone(), it.requirement.clone(), it.breaks.clone()]).collect();
        print!("{}", table::render(&["mutant", "requirement", "breaks"], &rows));
        return Ok(());
    }
    // Those of one package together: each change of package builds what was left alone meanwhile.
    mutants.sort_by(|a, b| packages(&a.catch).cmp(&packages(&b.catch)));
    let begun = Instant::now();
    let scratch = Scratch::new()?;
    scratch.check_that_all_pass(&mutants)?;
    let mut results = Vec::new();
    for mutant in &mutants {
        println!("\n== {}: {}", mutant.name, mutant.breaks);
        let begun = Instant::now();
        let verdict = scratch.judge(mutant)?;
        results.push((mutant, verdict, begun.elapsed()));
    }
    scratch.reset()?;
    report(&results)?;
    println!("in {}", table::seconds(begun.elapsed()));
    Ok(())
}

/// Reads all mutants, sorted by name.
pub fn load(root: &Path) -> Result<Vec<Mutant>> {
    let folder = root.join("mutants");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let mut mutants = Vec::new();
    for entry in entries {
        let path = entry.context("read mutants/")?.path();
        if path.extension().is_some_and(|it| it == "patch") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).with_context(|| format!("read {name}.patch"))?;
            mutants.push(parse(&name, &text)?);
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

/// Reads the header: the lines before the diff, each `key: value`.
fn parse(name: &str, text: &str) -> Result<Mutant> {
    let header: Vec<&str> =
        text.lines().take_while(|line| !line.starts_with("diff ") && !line.starts_with("--- ")).collect();
    ensure!(header.len() < text.lines().count(), "mutants/{name}.patch has no diff");
    let value = |key: &str| -> Result<String> {
        let values: Vec<&str> = header.iter().filter_map(|line| line.strip_prefix(key)).map(str::trim).collect();
        match values[..] {
            [value] if !value.is_empty() => Ok(value.to_owned()),
            _ => bail!("mutants/{name}.patch needs exactly one line `{key} …` before its diff"),
        }
    };
    Ok(Mutant {
        name: name.to_owned(),
        path: format!("mutants/{name}.patch"),
        breaks: value("breaks:")?,
        requirement: value("requirement:")?,
        catch: value("catch:")?,
    })
}

fn chosen(mut mutants: Vec<Mutant>, only: Option<&str>) -> Result<Vec<Mutant>> {
    if let Some(only) = only {
        mutants.retain(|it| it.name == only);
        ensure!(!mutants.is_empty(), "no mutant named {only}; `cargo xtask mutants --list` shows them");
    }
    Ok(mutants)
}

fn report(results: &[(&Mutant, Verdict, Duration)]) -> Result<()> {
    let rows: Vec<_> = results
        .iter()
        .map(|(mutant, verdict, time)| vec![mutant.name.clone(), told(verdict), table::seconds(*time)])
        .collect();
    println!("\n{}", table::render(&["mutant", "caught by", "time"], &rows));
    let caught = results.iter().filter(|(_, verdict, _)| matches!(verdict, Verdict::Caught(_))).count();
    println!("{caught} of {} mutants caught", results.len());
    ensure!(caught == results.len(), "{} not caught", results.len() - caught);
    Ok(())
}

fn told(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Caught(tests) => match &tests[..] {
            [first, second, rest @ ..] if !rest.is_empty() => {
                format!("{first}, {second} and {} more", rest.len())
            }
            tests => tests.join(", "),
        },
        Verdict::Survived => "NOT CAUGHT: all named tests pass".into(),
        Verdict::Broken(why) => format!("BROKEN: {why}"),
    }
}

/// A copy of the tree with its own build folder.
struct Scratch {
    root: PathBuf,
    tree: PathBuf,
    build: PathBuf,
}

/// Relative to the root, because `git apply` wants its `--directory` so.
const TREE: &str = "target/mutants/tree";

impl Scratch {
    fn new() -> Result<Self> {
        let root = std::path::absolute(cmd::root()).context("find the repository's root")?;
        let scratch = Self { tree: root.join(TREE), build: root.join("target/mutants/build"), root };
        scratch.reset()?;
        Ok(scratch)
    }

    /// Makes the copy equal to the working tree again, uncommitted changes included.
    fn reset(&self) -> Result<()> {
        let wanted = files_of(&self.root)?;
        for file in &wanted {
            copy_if_different(&self.root.join(file), &self.tree.join(file))?;
        }
        for file in walk(&self.tree)? {
            let relative = file.strip_prefix(&self.tree).context("a file outside of the copy")?;
            if !wanted.contains(relative) {
                std::fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
            }
        }
        Ok(())
    }

    /// Without this, a test that always fails would seem to catch everything.
    fn check_that_all_pass(&self, mutants: &[Mutant]) -> Result<()> {
        let filters: BTreeSet<&str> = mutants.iter().map(|it| it.catch.as_str()).collect();
        ensure!(!filters.is_empty(), "there are no mutants");
        println!("== without any mutant");
        let all: Vec<String> = filters.iter().map(|filter| format!("({filter})")).collect();
        let status = cmd::status(&mut self.nextest(&all.join(" | ")))?;
        ensure!(status.success(), "the named tests must pass without a mutant first ({status})");
        Ok(())
    }

    fn judge(&self, mutant: &Mutant) -> Result<Verdict> {
        self.reset()?;
        let apply = ["apply", "--whitespace=nowarn", "--directory", TREE, &mutant.path];
        if !cmd::status(&mut cmd::command("git", apply))?.success() {
            return Ok(Verdict::Broken("the patch no longer applies".into()));
        }
        // Nextest keeps its reports in the workspace's own `target`, wherever the build is.
        let report = self.tree.join("target/nextest/mutants/junit.xml");
        junit::forget(&report)?;
        let code = cmd::status(&mut self.nextest(&mutant.catch))?.code();
        verdict(code, || Ok(junit::read(&report)?.failed_tests))
    }

    fn nextest(&self, filter: &str) -> Command {
        let mut command = cmd::cargo(["nextest", "run", "--locked"]);
        let named = packages(filter);
        if named.is_empty() {
            // Neither is what a mutant is about, and both would be built again for each.
            command.args(["--workspace", "--exclude", "xtask", "--exclude", "punctual-bench"]);
        }
        command
            .args(named.iter().flat_map(|package| ["--package", package]))
            .args(["--profile", "mutants", "--no-tests", "fail", "--filterset", filter])
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.build);
        command
    }
}

/// The packages that a filter names as `package(=NAME)`; nothing else is built for it.
fn packages(filter: &str) -> BTreeSet<&str> {
    filter.split("package(=").skip(1).filter_map(|rest| rest.split_once(')')).map(|(name, _)| name).collect()
}

/// Judges by nextest's exit code, so that a mutant that does not compile is not taken for caught.
fn verdict(code: Option<i32>, failed_tests: impl FnOnce() -> Result<Vec<String>>) -> Result<Verdict> {
    Ok(match code {
        Some(0) => Verdict::Survived,
        Some(100) => Verdict::Caught(failed_tests()?),
        Some(4) => Verdict::Broken("its `catch` names no test".into()),
        Some(94) => Verdict::Broken("its `catch` is no valid filterset".into()),
        Some(101) => Verdict::Broken("it does not compile".into()),
        other => Verdict::Broken(format!("nextest ended with {other:?}")),
    })
}

/// What git tracks or would track, as far as it exists.
fn files_of(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut git = cmd::command("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = cmd::capture(git.current_dir(root))?;
    Ok(listed.split('\0').filter(|it| !it.is_empty()).map(PathBuf::from).filter(|it| root.join(it).is_file()).collect())
}

/// Leaves an equal file alone: a new modification time would make cargo build it again.
fn copy_if_different(from: &Path, to: &Path) -> Result<()> {
    let wanted = std::fs::read(from).with_context(|| format!("read {}", from.display()))?;
    if std::fs::read(to).is_ok_and(|present| present == wanted) {
        return Ok(());
    }
    let folder = to.parent().context("a file without a folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    std::fs::write(to, wanted).with_context(|| format!("write {}", to.display()))
}

fn walk(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry.with_context(|| format!("read {}", folder.display()))?.path();
        if path.is_dir() {
            files.extend(walk(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "breaks: the fence\nrequirement: C09\ncatch: test(c09_) & !test(slow)\n\n\
                         --- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n-a\n+catch: b\n";

    #[test]
    fn the_header_is_read() {
        let mutant = parse("fence", PATCH).unwrap();
        assert_eq!(mutant.breaks, "the fence");
        assert_eq!(mutant.requirement, "C09");
        assert_eq!(mutant.catch, "test(c09_) & !test(slow)");
        assert_eq!(mutant.path, "mutants/fence.patch");
    }

    #[test]
    fn an_incomplete_header_is_refused() {
        for key in ["breaks:", "requirement:", "catch:"] {
            let text = PATCH.replacen(key, "other:", 1);
            let error = parse("fence", &text).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
        assert!(parse("fence", "breaks: a\nrequirement: b\ncatch: c\n").is_err(), "a header alone is no patch");
    }

    #[test]
    fn only_the_packages_that_are_named_are_built() {
        assert!(packages("test(c09_)").is_empty());
        let two = "(package(=b) & test(x)) | (package(=a) & (test(y) | test(z))) | (package(=b) & test(w))";
        assert_eq!(Vec::from_iter(packages(two)), ["a", "b"]);
    }

    #[test]
    fn only_a_failing_test_counts_as_caught() {
        let tests = || Ok(vec!["c09_late_finish_is_refused".to_owned()]);
        assert!(matches!(verdict(Some(100), tests).unwrap(), Verdict::Caught(_)));
        assert!(matches!(verdict(Some(0), tests).unwrap(), Verdict::Survived));
        for code in [Some(4), Some(94), Some(101), None] {
            assert!(matches!(verdict(code, tests).unwrap(), Verdict::Broken(_)), "{code:?}");
        }
    }

    #[test]
    fn a_survivor_fails_the_run() {
        let mutant = parse("fence", PATCH).unwrap();
        let caught = || (&mutant, Verdict::Caught(vec!["a".into(), "b".into(), "c".into()]), Duration::ZERO);
        assert!(report(&[caught()]).is_ok());
        assert!(report(&[caught(), (&mutant, Verdict::Survived, Duration::ZERO)]).is_err());
        assert_eq!(told(&caught().1), "a, b and 1 more");
    }
}
