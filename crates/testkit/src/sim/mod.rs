//! A simulation of several nodes on one real store: the shipped node, with everything around it left to a seed.
//!
//! Each node runs on a runtime of its own whose clock stands until the simulation turns it. Whatever a node asks of the
//! store is a letter that the simulation delivers: late, never, or to a node that has died meanwhile. The store does one
//! verb at a time, so that the seed alone decides the order. Every verb is done in the reference model as well, and the
//! answers are compared; what the jobs do is watched; at the end all is compared. The same seed gives the same history.

mod calm;
pub(crate) mod chance;
mod history;
mod laws;
mod node;
mod proxy;
mod referee;
mod run;
mod scenario;
mod shorten;
mod upkeep;
mod work;

use crate::harness::Harness;
use crate::property::setting;
use run::Sim;
use scenario::Scenario;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a simulation went.
pub struct Verdict {
    /// Everything that happened, in one number.
    pub hash: u64,
    /// How often what happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// What was wrong, if anything was.
    pub violation: Option<String>,
    /// When it was over.
    now: i64,
    faults: Vec<(usize, u64)>,
    lines: Vec<String>,
}

/// Lives through a scenario.
fn live(harness: &dyn Harness, scenario: &Scenario) -> Verdict {
    let mut sim = Sim::new(harness, scenario);
    // The model refuses what cannot be by a panic, which is a finding like any other.
    let lived = catch_unwind(AssertUnwindSafe(|| sim.live()));
    let violation = match lived {
        Ok(lived) => lived.err(),
        Err(panic) => Some(words_of(&*panic)),
    };
    let mut counts = sim.history.counts().clone();
    counts.insert("executions", sim.executions.len() as u64);
    counts.insert("minutes", u64::try_from(sim.now / scenario::MINUTE).unwrap_or(0));
    Verdict {
        hash: sim.history.hash(),
        counts,
        violation,
        now: sim.now,
        faults: sim.faults.clone(),
        lines: sim.history.lines().to_vec(),
    }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "a panic".to_owned())
}

/// Lives through what one seed says about some hours.
pub fn simulate(harness: &dyn Harness, seed: u64, hours: i64) -> Verdict {
    live(harness, &Scenario::of(seed, hours))
}

/// Simulates some hours for each of some seeds. Panics with the shortest history it finds if one of them goes wrong, or
/// if something that should go wrong now and then never did.
pub fn assert_seeds_hold(harness: &dyn Harness, seeds: std::ops::Range<u64>, hours: i64) {
    let mut sum: BTreeMap<&'static str, u64> = BTreeMap::new();
    let many = seeds.end - seeds.start;
    for seed in seeds {
        let verdict = simulate(harness, seed, hours);
        assert!(verdict.violation.is_none(), "{}", shorten::tell(harness, &Scenario::of(seed, hours), hours));
        println!("seed {seed}, {hours} hours: hash {:016x}, {} verbs", verdict.hash, verdict.counts["verbs"]);
        for (what, times) in verdict.counts {
            *sum.entry(what).or_default() += times;
        }
    }
    let told = sum.iter().fold(String::new(), |mut told, (what, times)| {
        let _ = write!(told, "{what} {times}; ");
        told
    });
    println!("{told}");
    if many >= ENOUGH {
        let never: Vec<_> = WANTED.iter().filter(|what| !sum.contains_key(**what)).collect();
        assert!(never.is_empty(), "never seen, so nothing is shown about it: {never:?} ({told})");
    }
}

/// With so many seeds everything is seen.
const ENOUGH: u64 = 20;

/// What must have been seen, or the simulation shows less than it claims.
const WANTED: [&str; 22] = [
    "killed before a verb",
    "killed after a verb",
    "answers lost",
    "letters lost",
    "verbs overtaken",
    "answers slow",
    "stopped after a verb",
    "stopped",
    "asleep",
    "clock turned",
    "left",
    "fenced",
    "nodes lost",
    "jobs of lost nodes",
    "given back",
    "late ends refused",
    "slots not run",
    "jobs forgotten",
    "slots forgotten",
    "notices forgotten",
    "fallbacks",
    "slots fired from memory",
];

/// The first seed of the suite, unless `PUNCTUAL_SIM_SEED` says otherwise.
const SEED: u64 = 1;

/// In how many tests the seeds of a suite are divided, so that several of them run at once.
const PARTS: u64 = 8;

/// Simulates a part of the seeds, of which a suite takes so many for so many hours each.
pub fn assert_part_holds(harness: &dyn Harness, part: u64, suite: u64, hours: u64) {
    let first = setting("PUNCTUAL_SIM_SEED", SEED);
    let many = setting("PUNCTUAL_SIM_SEEDS", suite);
    let hours = i64::try_from(setting("PUNCTUAL_SIM_HOURS", hours)).expect("hours can be counted");
    let bound = |part: u64| first + many * part / PARTS;
    assert_seeds_hold(harness, bound(part)..bound(part + 1), hours);
}

/// Asserts that a seed gives the same history again.
pub fn assert_deterministic(harness: &dyn Harness, seed: u64, hours: i64) {
    let (once, again) = (simulate(harness, seed, hours), simulate(harness, seed, hours));
    let parted = once.lines.iter().zip(&again.lines).find(|(one, other)| one != other);
    assert_eq!((once.hash, once.lines.len()), (again.hash, again.lines.len()), "the histories part: {parted:?}");
    assert_ne!(once.hash, simulate(harness, seed + 1, hours).hash, "another seed is another history");
}

/// Makes the tests of one store: so many seeds of so many hours in eight parts, and one that shows that a seed is enough to see it again.
///
/// ```text
/// punctual_testkit::sim_tests!(SqliteHarness::new(), 200 seeds of 24 hours);
/// ```
#[macro_export]
macro_rules! sim_tests {
    ($harness:expr, $suite:literal seeds of $hours:literal hours) => {
        mod sim {
            use super::*;

            #[test]
            fn c09_sim_a_seed_gives_the_same_history_again() {
                $crate::sim::assert_deterministic(&$harness, 7, $hours);
            }

            $crate::sim_tests!(@parts $harness, $suite, $hours,
                0 c09_sim_part_1_of_8, 1 c09_sim_part_2_of_8, 2 c09_sim_part_3_of_8, 3 c09_sim_part_4_of_8,
                4 c09_sim_part_5_of_8, 5 c09_sim_part_6_of_8, 6 c09_sim_part_7_of_8, 7 c09_sim_part_8_of_8);
        }
    };
    (@parts $harness:expr, $suite:expr, $hours:expr, $($part:literal $name:ident),+) => {
        $(
            #[test]
            fn $name() {
                $crate::sim::assert_part_holds(&$harness, $part, $suite, $hours);
            }
        )+
    };
}
