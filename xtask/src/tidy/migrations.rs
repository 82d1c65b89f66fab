//! Rules about the stores' migrations: numbered without gaps, alike in all stores.

use std::collections::BTreeSet;

use super::Tree;

pub fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    let mut stores: Vec<(&str, BTreeSet<u32>)> = Vec::new();
    for store in tree.stores() {
        let numbers = numbers_of(tree, store, &mut findings);
        stores.push((store, numbers));
    }
    if let [(first, expected), rest @ ..] = &stores[..] {
        for (store, numbers) in rest {
            for number in expected.symmetric_difference(numbers) {
                findings.push(format!(
                    "migration {number:04} is in only one of {first} and {store}: both carry the same numbers"
                ));
            }
        }
    }
    findings
}

fn numbers_of(tree: &Tree, store: &str, findings: &mut Vec<String>) -> BTreeSet<u32> {
    let folder = format!("crates/{store}/migrations/");
    let mut numbers = BTreeSet::new();
    for name in tree.with_extension("sql").filter_map(|file| file.path.strip_prefix(&folder)) {
        match number_of(name) {
            None => findings.push(format!("{folder}{name}: name it like 0003_add_reservations.sql")),
            Some(number) if !numbers.insert(number) => {
                findings.push(format!("{folder}{name}: the number {number:04} is used twice"));
            }
            Some(_) => {}
        }
    }
    for (number, expected) in numbers.iter().zip(1..) {
        if *number != expected {
            findings.push(format!("{folder}: {expected:04} is missing before {number:04}"));
            break;
        }
    }
    numbers
}

/// The number of `0003_add_reservations.sql`.
fn number_of(name: &str) -> Option<u32> {
    let (number, words) = name.strip_suffix(".sql")?.split_once('_')?;
    let words_fit =
        !words.is_empty() && words.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_');
    (number.len() == 4 && words_fit).then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(paths: &[&str]) -> Vec<String> {
        let mut files = vec![("crates/store-a/Cargo.toml", ""), ("crates/store-b/Cargo.toml", "")];
        files.extend(paths.iter().map(|path| (*path, "")));
        check(&Tree::of(&files))
    }

    #[test]
    fn equal_unbroken_numbers_pass() {
        let paths = ["crates/store-a/migrations/0001_start.sql", "crates/store-b/migrations/0001_begin.sql"];
        assert!(findings(&paths).is_empty());
    }

    #[test]
    fn gaps_duplicates_and_bad_names_are_found() {
        let cases = [
            ("crates/store-a/migrations/0002_b.sql", "0001 is missing"),
            ("crates/store-a/migrations/1_b.sql", "name it like"),
            ("crates/store-a/migrations/0001_Big.sql", "name it like"),
        ];
        for (path, problem) in cases {
            assert!(findings(&[path])[0].contains(problem), "{path}");
        }
        let twice = ["crates/store-a/migrations/0001_a.sql", "crates/store-a/migrations/0001_b.sql"];
        assert!(findings(&twice)[0].contains("used twice"));
    }

    #[test]
    fn a_migration_in_one_store_only_is_found() {
        assert!(findings(&["crates/store-a/migrations/0001_start.sql"])[0].contains("only one of"));
    }
}
