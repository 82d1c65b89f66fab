//! Makes a failing simulation as short as it can, and tells it.

use super::scenario::{MINUTE, Scenario};
use super::{Verdict, live};
use crate::harness::{Harness, StoreKind};
use std::fmt::Write as _;

/// How many simulations are spent on finding a shorter one.
const TRIES: usize = 100;

/// How many of the last lines are told.
const LINES: usize = 80;

/// A scenario that goes wrong, and how.
struct Failing<'a> {
    harness: &'a dyn Harness,
    scenario: Scenario,
    verdict: Verdict,
    tries: usize,
}

/// Tells what goes wrong in a scenario, by the shortest one that does.
pub fn tell(harness: &dyn Harness, scenario: &Scenario, hours: i64) -> String {
    let verdict = live(harness, scenario);
    let (seed, hash) = (scenario.seed, verdict.hash);
    let mut failing = Failing { harness, scenario: scenario.clone(), verdict, tries: TRIES };
    let first = failing.verdict.violation.clone();
    if first.is_none() {
        return format!("seed {seed} went wrong once and not again: something is not decided by the seed");
    }
    failing.cut_the_end();
    failing.leave_out_nodes();
    failing.leave_out_steps();
    failing.leave_out_faults();
    failing.cut_the_end();
    let store = match harness.kind() {
        StoreKind::Sqlite => "sqlite",
        StoreKind::Postgres => "postgres",
    };
    let mut told = format!("seed {seed} goes wrong: {}\n", first.unwrap_or_default());
    let _ = writeln!(told, "again: cargo xtask sim --seed {seed} --hours {hours} --store {store}   (hash {hash:016x})");
    let _ = writeln!(told, "shortest history found: {}", failing.verdict.violation.as_deref().unwrap_or_default());
    let lines = &failing.verdict.lines;
    for line in &lines[lines.len().saturating_sub(LINES)..] {
        let _ = writeln!(told, "  {line}");
    }
    told
}

impl Failing<'_> {
    /// Takes another scenario if it goes wrong too.
    fn try_instead(&mut self, scenario: Scenario) -> bool {
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let verdict = live(self.harness, &scenario);
        let worse = verdict.violation.is_some();
        if worse {
            (self.scenario, self.verdict) = (scenario, verdict);
        }
        worse
    }

    fn cut_the_end(&mut self) {
        let ends = [self.verdict.now + MINUTE, self.scenario.until / 2, self.scenario.until * 3 / 4];
        for until in ends {
            if until < self.scenario.until {
                let mut steps = self.scenario.steps.clone();
                steps.retain(|(at, _)| *at < until);
                self.try_instead(Scenario { steps, until, ..self.scenario.clone() });
            }
        }
    }

    fn leave_out_nodes(&mut self) {
        while self.scenario.nodes.len() > 1 {
            let mut nodes = self.scenario.nodes.clone();
            nodes.pop();
            if !self.try_instead(Scenario { nodes, ..self.scenario.clone() }) {
                return;
            }
        }
    }

    fn leave_out_steps(&mut self) {
        let mut chunk = self.scenario.steps.len().div_ceil(2);
        while chunk > 0 && self.tries > 0 {
            let mut from = 0;
            while from < self.scenario.steps.len() && self.tries > 0 {
                let mut steps = self.scenario.steps.clone();
                steps.drain(from..(from + chunk).min(steps.len()));
                if !self.try_instead(Scenario { steps, ..self.scenario.clone() }) {
                    from += chunk;
                }
            }
            chunk /= 2;
        }
    }

    fn leave_out_faults(&mut self) {
        let mut chunk = self.verdict.faults.len();
        while chunk > 0 && self.tries > 0 {
            let mut from = 0;
            while from < self.verdict.faults.len() && self.tries > 0 {
                let some = &self.verdict.faults[from..(from + chunk).min(self.verdict.faults.len())];
                let mut muted = self.scenario.muted.clone();
                muted.extend(some.iter().copied());
                if !self.try_instead(Scenario { muted, ..self.scenario.clone() }) {
                    from += chunk;
                }
            }
            chunk /= 2;
        }
    }
}
