//! Keeps `docs/requirements.md` and the tests together: every ID named by a test exists, and the
//! index says truly where each requirement is shown.
//!
//! A test shows a requirement by beginning its name with the ID: `a04_one_job_per_slot`. The cases
//! of the conformance suite count for every store that runs the suite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::rust::blank_text;
use super::{File, Tree, place};

const INDEX: &str = "docs/requirements.md";
const CONFORMANCE: &str = "crates/testkit/src/conformance";
/// In the index, for a requirement that no test shows yet.
const NOWHERE: &str = "–";

/// Where each requirement is shown: ID → names of crates, or `conformance`.
type Shown = BTreeMap<String, BTreeSet<String>>;

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let rows = rows(tree)?;
    let (shown, mut findings) = shown_by_tests(tree, &rows);
    for row in &rows {
        let truth = cell(&shown, &row.id);
        if row.shown != truth {
            let says = &row.shown;
            findings.push(format!(
                "{INDEX}: {} says `{says}`, but tests are in `{truth}`: restore the tests, or `cargo xtask tidy --fix`",
                row.id
            ));
        }
        findings.extend(one_sided(tree, row, shown.get(&row.id)));
    }
    findings.extend(unlisted_cases(tree));
    findings.extend(stores_without_suite(tree));
    Ok(findings)
}

/// Rewrites the index's third column from the tests.
pub fn fix(root: &Path, tree: &Tree) -> Result<()> {
    let rows = rows(tree)?;
    let (shown, _) = shown_by_tests(tree, &rows);
    let mut text = String::new();
    for line in tree.text(INDEX).context("no index")?.lines() {
        match Row::parse(line) {
            Some(row) => {
                let line = format!("| {} | {} | {} | {} |", row.id, row.meaning, cell(&shown, &row.id), row.note);
                let _ = writeln!(text, "{}", line.replace("|  |", "| |"));
            }
            None => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    std::fs::write(root.join(INDEX), text).with_context(|| format!("write {INDEX}"))
}

/// The IDs of the index.
pub fn ids(tree: &Tree) -> Result<BTreeSet<String>> {
    Ok(rows(tree)?.into_iter().map(|row| row.id).collect())
}

struct Row {
    id: String,
    meaning: String,
    shown: String,
    note: String,
}

impl Row {
    /// Reads `| A04 | meaning | shown by | note |`; other lines are not rows.
    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [id, meaning, shown, note] = cells[..] else {
            return None;
        };
        let is_id = id.len() == 3 && id.starts_with(|it: char| it.is_ascii_uppercase()) && is_number(&id[1..]);
        is_id.then(|| Self { id: id.into(), meaning: meaning.into(), shown: shown.into(), note: note.into() })
    }
}

fn rows(tree: &Tree) -> Result<Vec<Row>> {
    let text = tree.text(INDEX).with_context(|| format!("{INDEX} is missing"))?;
    let rows: Vec<Row> = text.lines().filter_map(Row::parse).collect();
    let ids: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    ensure!(!rows.is_empty() && ids.len() == rows.len(), "{INDEX} has no rows, or an ID twice");
    Ok(rows)
}

fn cell(shown: &Shown, id: &str) -> String {
    shown.get(id).map_or(NOWHERE.into(), |places| places.iter().cloned().collect::<Vec<_>>().join(", "))
}

/// Collects the tests' IDs, and complains of those that the index does not have.
fn shown_by_tests(tree: &Tree, rows: &[Row]) -> (Shown, Vec<String>) {
    let mut shown = Shown::new();
    let mut findings = Vec::new();
    for file in tree.with_extension("rs") {
        for test in tests_of(file) {
            if rows.iter().any(|row| row.id == test.id) {
                shown.entry(test.id).or_default().insert(place_of(&file.path));
            } else {
                findings.push(format!("{}: `{}` names no requirement of {INDEX}", place(file, test.at), test.name));
            }
        }
    }
    (shown, findings)
}

fn place_of(path: &str) -> String {
    if path.starts_with(CONFORMANCE) {
        return "conformance".into();
    }
    let path = path.strip_prefix("crates/").unwrap_or(path);
    path.split('/').next().unwrap_or(path).to_owned()
}

struct Test {
    id: String,
    name: String,
    at: usize,
}

/// Test functions whose names begin with an ID; in the conformance suite every such function is one.
fn tests_of(file: &File) -> Vec<Test> {
    let code = blank_text(&file.text);
    let is_case = file.path.starts_with(CONFORMANCE);
    let functions = code.match_indices("fn ").filter_map(|(at, _)| {
        let name: String = code[at + 3..].chars().take_while(|it| it.is_ascii_alphanumeric() || *it == '_').collect();
        let attributes = code[..at].rsplit(['}', ';', '{']).next().unwrap_or_default();
        let is_test = is_case || attributes.contains("test");
        is_test.then_some(())?;
        Some(Test { id: id_of(&name)?, name, at })
    });
    functions.collect()
}

/// The ID that a test's name begins with: `A04` of `a04_one_job_per_slot`.
fn id_of(name: &str) -> Option<String> {
    let (id, fact) = name.split_once('_')?;
    let is_id = id.len() == 3 && id.starts_with(['a', 'b', 'c', 'd', 'e', 'n']) && is_number(&id[1..]);
    (is_id && !fact.is_empty()).then(|| id.to_ascii_uppercase())
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|it| it.is_ascii_digit())
}

/// What one store's own tests show, the other's must show too, or the note says why not.
fn one_sided(tree: &Tree, row: &Row, places: Option<&BTreeSet<String>>) -> Option<String> {
    let places = places?;
    let (with, without): (Vec<&str>, Vec<&str>) = tree.stores().into_iter().partition(|store| places.contains(*store));
    (!with.is_empty() && !without.is_empty() && !places.contains("conformance") && row.note.is_empty())
        .then(|| format!("{INDEX}: {} is shown on {} only: say why in its note", row.id, with.join(", ")))
}

/// A case that is not in the suite's one list never runs.
fn unlisted_cases(tree: &Tree) -> Vec<String> {
    let list_file = format!("{CONFORMANCE}/cases.rs");
    let Some(list) = tree.text(&list_file) else { return Vec::new() };
    let list = blank_text(list);
    let listed: BTreeSet<&str> = list.split(|it: char| !it.is_ascii_alphanumeric() && it != '_').collect();
    let files = tree.with_extension("rs").filter(|file| file.path.starts_with(CONFORMANCE));
    files
        .flat_map(|file| tests_of(file).into_iter().map(move |test| (file, test)))
        .filter(|(file, test)| file.path != list_file && !listed.contains(test.name.as_str()))
        .map(|(file, test)| format!("{}: `{}` is not in the conformance list", place(file, test.at), test.name))
        .collect()
}

fn stores_without_suite(tree: &Tree) -> Vec<String> {
    if !tree.files.iter().any(|file| file.path.starts_with(CONFORMANCE)) {
        return Vec::new();
    }
    let runs_it = |store: &&str| {
        let folder = format!("crates/{store}/");
        let mut files = tree.with_extension("rs").filter(|file| file.path.starts_with(&folder));
        files.any(|file| blank_text(&file.text).contains("conformance!"))
    };
    tree.stores()
        .into_iter()
        .filter(|store| !runs_it(store))
        .map(|store| format!("crates/{store}: does not run the suite (`punctual_testkit::conformance!`)"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "| ID | What | Shown by | Note |\n| --- | --- | --- | --- |\n\
                        | A04 | one job per slot | conformance | |\n| C05 | order | – | |\n";
    const CASE: (&str, &str) = ("crates/testkit/src/conformance/slots.rs", "pub async fn a04_one_job_per_slot() {}");
    const LIST: (&str, &str) = ("crates/testkit/src/conformance/cases.rs", "cases! { a04_one_job_per_slot, }");
    const STORE: (&str, &str) = ("crates/store-a/Cargo.toml", "");
    const SUITE: (&str, &str) = ("crates/store-a/tests/main.rs", "punctual_testkit::conformance!(open);");

    fn findings(index: &str, more: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(&[&[(INDEX, index)], more].concat())).unwrap()
    }

    #[test]
    fn an_index_that_tells_the_truth_passes() {
        assert_eq!(findings(ROWS, &[CASE, LIST, STORE, SUITE]), [""; 0]);
    }

    #[test]
    fn a_requirement_that_lost_its_test_is_found() {
        assert!(findings(ROWS, &[STORE, SUITE])[0].contains("A04 says `conformance`"));
    }

    #[test]
    fn a_test_that_the_index_does_not_tell_of_is_found() {
        let test = ("crates/core/src/order.rs", "#[test]\nfn c05_ties_are_broken_by_id() {}");
        assert!(findings(ROWS, &[CASE, LIST, STORE, SUITE, test])[0].contains("C05 says `–`"));
    }

    #[test]
    fn an_unknown_id_is_found_in_tests_only() {
        let test = ("crates/core/src/x.rs", "#[test]\nfn c99_unheard_of() {}");
        assert!(findings(ROWS, &[CASE, LIST, test])[0].contains("names no requirement"));
        let helper = ("crates/core/src/x.rs", "#[must_use]\nfn b64_encode() {}");
        assert_eq!(findings(ROWS, &[CASE, LIST, helper]), [""; 0]);
    }

    #[test]
    fn a_case_outside_of_the_list_and_a_store_without_the_suite_are_found() {
        for without in ["cases! {}", "cases! {\n// a04_one_job_per_slot,\n}"] {
            let found = findings(ROWS, &[CASE, (LIST.0, without)]);
            assert!(found[0].contains("not in the conformance list"), "{without}");
        }
        assert!(findings(ROWS, &[CASE, LIST, STORE])[0].contains("does not run the suite"));
    }

    #[test]
    fn what_one_store_alone_shows_needs_a_reason() {
        let row = "| E08 | the plan | store-a | |\n";
        let test = ("crates/store-a/src/x.rs", "#[test]\nfn e08_plan() {}");
        let other = ("crates/store-b/Cargo.toml", "");
        assert!(findings(row, &[STORE, other, test])[0].contains("on store-a only"));
        assert_eq!(findings(&row.replace("| |", "| no planner |"), &[STORE, other, test]), [""; 0]);
    }
}
