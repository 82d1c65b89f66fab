//! Every section, one after the other, each in a process of its own, so that none is measured in what another has left
//! behind, and none that fails stops the others.

use crate::compare;
use crate::load::Outcome;
use crate::report::{PARTIAL, PRINT_ONLY, is_asked_for};
use std::process::Command;

/// All but the comparison with the peers, and `quick`, which is for users and keeps nothing.
const SECTIONS: [&str; 12] = [
    "claimers", "command", "cron", "sqlite", "postgres", "growth", "startup", "lateness", "limits", "idle", "notify",
    "http",
];

/// Measures them, and fails at the end if one of them failed.
pub fn run() -> Outcome<()> {
    let program = std::env::current_exe()?;
    each(sections(), |section| {
        eprintln!("== {}", section.join(" "));
        let options = [PRINT_ONLY, PARTIAL].into_iter().filter(|option| is_asked_for(option));
        let status = Command::new(&program).args(section).args(options).status()?;
        if status.success() { Ok(()) } else { Err(format!("ended with {status}").into()) }
    })
}

/// What each is called on the command line: the comparison first, because most of the goals are about it.
fn sections() -> Vec<Vec<&'static str>> {
    let parts = compare::PARTS.into_iter().map(|part| vec!["compare", part]);
    parts.chain(SECTIONS.into_iter().map(|section| vec![section])).collect()
}

fn each(sections: Vec<Vec<&str>>, mut measure: impl FnMut(&[&str]) -> Outcome<()>) -> Outcome<()> {
    let mut failed = Vec::new();
    for section in sections {
        if let Err(error) = measure(&section) {
            eprintln!("{}: {error}", section.join(" "));
            failed.push(section.join(" "));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("these sections failed: {}", failed.join(", ")).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_fails_is_named_at_the_end_and_stops_no_other() {
        let mut seen = Vec::new();
        let error = each(vec![vec!["one"], vec!["compare", "drain"], vec!["three"]], |section| {
            seen.push(section.join(" "));
            if section.len() > 1 { Err("no disk".into()) } else { Ok(()) }
        });
        assert_eq!(error.unwrap_err().to_string(), "these sections failed: compare drain");
        assert_eq!(seen, ["one", "compare drain", "three"]);
        assert!(each(vec![vec!["one"]], |_| Ok(())).is_ok());
    }

    #[test]
    fn all_sections_but_the_quick_one_are_measured() {
        let all: Vec<String> = sections().iter().map(|section| section.join(" ")).collect();
        assert!(all.contains(&"compare slots".to_owned()) && all.contains(&"http".to_owned()));
        assert!(!all.contains(&"quick".to_owned()));
        assert_eq!(all.len(), 18, "as many as the page has");
    }
}
