//! The conformance suite: one list of cases, each a fact about the port, run on every store.
//!
//! A case is `pub async fn <requirement>_<fact>(world: &mut World)` in one of the files beside this one, and stands
//! in [`for_each_conformance_case`](crate::for_each_conformance_case) once; a test below sees to it that none is
//! forgotten. A case that concerns one store only is marked there with the reason: `@sqlite_only("why") c01_…`.
#![expect(missing_docs, reason = "the name of a case is its statement")]

pub mod access;
pub mod alerts;
pub mod backfill;
pub mod bad_input;
pub mod bulk;
mod cases;
pub mod checks;
pub mod claims;
pub mod deliveries;
pub mod durability;
pub mod executions;
pub mod firing;
pub mod flow_chance;
pub mod flow_ends;
pub mod flows;
pub mod freeze;
pub mod gaps;
pub mod grants;
pub mod history;
pub mod keys;
pub mod limits;
mod making;
pub mod manifest;
pub mod memory;
pub mod missed;
pub mod moves;
pub mod offers;
pub mod outbox;
pub mod overlap;
pub mod overview;
pub mod policies;
pub mod queue;
pub mod readings;
pub mod records;
pub mod recovery;
pub mod repair;
pub mod runs;
pub mod schedules;
pub mod serial;
pub mod steering;
pub mod templates;
pub mod unique;
pub mod zones;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    macro_rules! names {
        ($( $group:ident { $( $(@ $only:ident ($why:literal))? $case:ident, )+ } )+) => {
            /// Every group with its file and its listed cases.
            const LISTED: &[(&str, &str, &[&str])] = &[
                $( (stringify!($group), include_str!(concat!(stringify!($group), ".rs")), &[ $( stringify!($case), )+ ]), )+
            ];
        };
    }
    crate::for_each_conformance_case!(names);

    fn written(source: &str) -> BTreeSet<&str> {
        let cases = source.lines().filter_map(|line| line.strip_prefix("pub async fn "));
        cases.filter_map(|rest| rest.split('(').next()).collect()
    }

    #[test]
    fn every_case_that_is_written_is_listed_once() {
        for (group, source, listed) in LISTED {
            let unique: BTreeSet<&str> = listed.iter().copied().collect();
            assert_eq!(unique.len(), listed.len(), "{group} lists a case twice");
            assert_eq!(unique, written(source), "{group}");
        }
    }

    #[test]
    fn every_case_begins_with_the_requirement_it_shows() {
        for case in LISTED.iter().flat_map(|(_, _, listed)| listed.iter()) {
            let (id, fact) = case.split_once('_').expect("an id and a fact");
            let (letter, number) = id.split_at(1);
            assert!("abcden".contains(letter) && number.len() == 2 && number.parse::<u8>().is_ok(), "{case}");
            assert!(fact.len() > 10, "{case} states a fact");
        }
    }
}
