//! Looking for what is wrong: what a store has to read for a look, and what it comes to.

use super::event::{Finding, Sighting};
use super::port::{Findings, Look};
use super::rule::Trigger;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// What is overdue by more than this is not well, whatever the rules say.
pub const BEARABLE: SignedDuration = SignedDuration::from_mins(1);

/// The most that one look sees of each kind.
pub const SIGHTINGS_MAX: usize = 500;

/// What a store has seen.
#[derive(Debug, Clone, Default)]
pub struct Sightings {
    /// Schedules that are due and not decided on; `since` is when they were due.
    pub overdue: Vec<Sighting>,
    /// Schedules whose latest job waits.
    pub waiting: Vec<Sighting>,
    /// What runs, or ended since the last look.
    pub runs: Vec<Sighting>,
    /// Schedules that no node can run; `since` is when that was noticed.
    pub marked: Vec<Sighting>,
    /// The heads of all lanes; `since` is when they began to wait.
    pub lanes: Vec<Sighting>,
    /// The job types that live nodes offer.
    pub offered: BTreeSet<String>,
    /// Queues; `since` is when the oldest job began to wait.
    pub queues: Vec<Sighting>,
}

impl Look {
    /// What something must have lasted to be worth reading; `None` when no rule asks for it.
    pub fn least(&self, trigger: Trigger) -> Option<SignedDuration> {
        self.wanted.get(&trigger).copied()
    }

    /// The instant before which something must have begun to have lasted that long.
    pub fn begun_before(&self, trigger: Trigger, now: Timestamp) -> Option<Timestamp> {
        Some(now.saturating_sub(self.least(trigger)?).unwrap_or(Timestamp::MIN))
    }

    /// The same for what is overdue, which is always looked for.
    pub fn due_before(&self, now: Timestamp) -> Timestamp {
        let least = self.least(Trigger::Overdue).map_or(BEARABLE, |least| least.min(BEARABLE));
        now.saturating_sub(least).unwrap_or(Timestamp::MIN)
    }

    /// What was found.
    pub fn findings(&self, seen: &Sightings, now: Timestamp) -> Findings {
        let lasted = |sighting: &Sighting| sighting.long(now).unwrap_or_default();
        let well = seen.overdue.iter().all(|sighting| lasted(sighting) < BEARABLE);
        let mut findings = Vec::new();
        let mut add = |trigger, sighting: &Sighting, lasted: Option<SignedDuration>| {
            if let (Some(least), Some(lasted)) = (self.least(trigger), lasted)
                && lasted >= least
            {
                findings.push(sighting.finding(trigger, lasted));
            }
        };
        for sighting in &seen.overdue {
            add(Trigger::Overdue, sighting, sighting.long(now));
        }
        for sighting in seen.waiting.iter().chain(&seen.runs) {
            add(Trigger::LateStart, sighting, sighting.late(now));
        }
        for sighting in &seen.runs {
            add(Trigger::LongRun, sighting, sighting.long(now));
        }
        for sighting in &seen.marked {
            add(Trigger::NoExecutor, sighting, sighting.long(now));
        }
        let offered = |sighting: &&Sighting| sighting.job_type.as_ref().is_some_and(|it| seen.offered.contains(it));
        for sighting in seen.lanes.iter().filter(|sighting| !offered(sighting)) {
            add(Trigger::NoExecutor, sighting, sighting.long(now));
        }
        for sighting in &seen.queues {
            add(Trigger::QueueTooOld, sighting, sighting.long(now));
        }
        Findings { findings: longest_of_each(findings), through: now, well }
    }
}

/// One finding for each trigger and subject: the one that has lasted longest.
fn longest_of_each(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|a, b| {
        let key = |it: &Finding| (it.trigger, it.subject.mark());
        key(a).cmp(&key(b)).then(b.lasted.cmp(&a.lasted))
    });
    findings.dedup_by(|a, b| a.trigger == b.trigger && a.subject == b.subject);
    findings
}
