//! What a node remembers of the schedules, to fire them while their table cannot be used (D08), and those that its
//! program fires from memory anyway (D07).
//!
//! It is a cache and never decides: a slot fires once because the ledger says so, whatever is remembered here.

use crate::fire::FirePass;
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{NodeId, ScheduleId};
use punctual_core::schedule::{FiredFrom, Schedule};
use punctual_core::store::{Store, StoreError, StoreResult};
use punctual_core::upkeep::Plans;
use std::collections::BTreeMap;
use std::time::Duration;

/// Schedules fired from memory by one transaction.
const BATCH: usize = 100;

/// How long after a look at the schedules a change of them is looked at.
const SOON: Duration = Duration::from_secs(1);

/// How much is remembered, and when it is used.
#[derive(Debug, Clone)]
pub struct MemoryOptions {
    /// Schedules that are due within this are remembered; it is also how long they are fired after the table was last
    /// seen.
    pub horizon: Duration,
    /// The most that are remembered.
    pub limit: usize,
    /// How often they are read again, at the latest.
    pub refresh: Duration,
    /// How long firing must have failed before it is done from memory.
    pub patience: Duration,
    /// How often the table is tried again meanwhile.
    pub probe: Duration,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            horizon: Duration::from_secs(3600),
            limit: 2000,
            refresh: Duration::from_secs(60),
            patience: Duration::from_secs(10),
            probe: Duration::from_secs(5),
        }
    }
}

/// What changed about where a node fires from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// The table cannot be used; so many schedules are fired from memory.
    Began {
        /// How many are remembered.
        schedules: usize,
    },
    /// The table is back.
    Ended,
    /// What is remembered is too old to be trusted; nothing fires until the table is back.
    GaveUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The store fires what it is to fire.
    Store,
    /// All that is remembered is fired from memory.
    Memory,
    /// Too long ago: only what belongs to memory is.
    GaveUp,
}

/// The schedules as a node last saw them. Times are the node's own uptime, except those of the schedules themselves.
#[derive(Debug)]
pub struct Memory {
    options: MemoryOptions,
    /// What this node's program declares.
    declared: Vec<ScheduleId>,
    schedules: BTreeMap<ScheduleId, Schedule>,
    seen_at: Option<Duration>,
    failing_since: Option<Duration>,
    tried_at: Duration,
    mode: Mode,
}

impl Memory {
    /// Remembers nothing yet.
    pub fn new(options: MemoryOptions, declared: Vec<ScheduleId>) -> Self {
        Self {
            options,
            declared,
            schedules: BTreeMap::new(),
            seen_at: None,
            failing_since: None,
            tried_at: Duration::ZERO,
            mode: Mode::Store,
        }
    }

    /// How many schedules are remembered.
    pub fn len(&self) -> usize {
        self.schedules.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.schedules.is_empty()
    }

    /// How long until it is time to read the schedules again; never while they cannot be trusted. `changed` says that
    /// somebody changed plans since: then it is soon, but not for every one of many changes.
    pub fn stale_in(&self, now: Duration, changed: bool) -> Option<Duration> {
        let old_enough = if changed { SOON.min(self.options.refresh) } else { self.options.refresh };
        let age = |seen: Duration| now.saturating_sub(seen);
        (self.mode == Mode::Store)
            .then(|| self.seen_at.map_or(Duration::ZERO, |seen| old_enough.saturating_sub(age(seen))))
    }

    /// Reads the schedules again. What is not there any more, or is paused by now, is forgotten.
    pub async fn refresh(&mut self, store: &dyn Store, now: Duration) -> StoreResult<()> {
        let within = SignedDuration::try_from(self.options.horizon).unwrap_or(SignedDuration::MAX);
        let seen = store.schedules_to_remember(within, self.options.limit, &self.declared).await?;
        self.schedules = seen.into_iter().map(|schedule| (schedule.id, schedule)).collect();
        self.seen_at = Some(now);
        Ok(())
    }

    /// Whether the store should be asked to fire; while it cannot, it is asked only now and then.
    pub fn asks_store(&self, now: Duration) -> bool {
        self.mode == Mode::Store || now.saturating_sub(self.tried_at) >= self.options.probe
    }

    /// Notes that the store has fired.
    pub fn succeeded(&mut self) -> Option<Fallback> {
        self.failing_since = None;
        let was = std::mem::replace(&mut self.mode, Mode::Store);
        (was != Mode::Store).then(|| {
            // What was fired meanwhile is in the ledger, and the plans are the store's again.
            self.seen_at = None;
            Fallback::Ended
        })
    }

    /// Notes that the store could not fire.
    pub fn failed(&mut self, now: Duration) -> Option<Fallback> {
        self.tried_at = now;
        let failing = now.saturating_sub(*self.failing_since.get_or_insert(now));
        let seen_at = self.seen_at?;
        let too_old = now.saturating_sub(seen_at) > self.options.horizon;
        let mode = match self.mode {
            Mode::Store if failing < self.options.patience => Mode::Store,
            _ if too_old => Mode::GaveUp,
            _ => Mode::Memory,
        };
        let was = std::mem::replace(&mut self.mode, mode);
        match mode {
            _ if was == mode => None,
            Mode::Store => None,
            Mode::Memory => Some(Fallback::Began { schedules: self.schedules.len() }),
            Mode::GaveUp => Some(Fallback::GaveUp),
        }
    }

    /// Whether everything is fired from memory.
    pub fn is_firing(&self) -> bool {
        self.mode == Mode::Memory
    }

    /// The schedules that are fired from memory as things stand.
    fn fired(&self) -> impl Iterator<Item = &Schedule> {
        let all = self.is_firing();
        self.schedules.values().filter(move |it| all || it.state.fired_from == FiredFrom::Memory)
    }

    /// When the next of them is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.fired().filter_map(|schedule| schedule.state.next_run_at).min()
    }

    fn due(&self, now: Timestamp) -> Vec<Schedule> {
        let is_due = |schedule: &&Schedule| schedule.state.next_run_at.is_some_and(|due| due <= now);
        self.fired().filter(is_due).take(BATCH).cloned().collect()
    }

    fn learn(&mut self, schedules: Vec<Schedule>) {
        self.schedules.extend(schedules.into_iter().map(|schedule| (schedule.id, schedule)));
    }
}

/// Fires what is due of what is remembered, as far as it is fired from memory at present.
pub async fn fire_from_memory(store: &dyn Store, node: Option<NodeId>, memory: &mut Memory) -> StoreResult<FirePass> {
    let mut pass = FirePass::default();
    if memory.next_due().is_none() {
        return Ok(pass);
    }
    let now = store.now().await?;
    loop {
        let due = memory.due(now);
        if due.is_empty() {
            return Ok(pass);
        }
        let done = if memory.is_firing() {
            store.fire_remembered(node, due, Plans::LeaveAlone).await?
        } else {
            match store.fire_remembered(node, due.clone(), Plans::Move).await {
                Ok(done) => done,
                Err(error @ StoreError::Frozen { .. }) => return Err(error),
                // What a program fires from its own memory does not wait for the table of plans.
                Err(error) => {
                    tracing::warn!("failed to move the plans of schedules that are fired from memory: {error}");
                    store.fire_remembered(node, due, Plans::LeaveAlone).await?
                }
            }
        };
        pass.schedules += done.fired.schedules;
        pass.jobs += done.fired.jobs.len();
        pass.slots_not_run += done.fired.slots_not_run;
        pass.not_run.add_all(&done.fired.not_run);
        pass.problems += done.fired.problems;
        memory.learn(done.schedules);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let mut memory = Memory::new(MemoryOptions::default(), Vec::new());
        memory.seen_at = Some(Duration::from_secs(100));
        memory
    }

    #[test]
    fn d08_the_fallback_begins_after_a_while_and_ends_with_the_first_success() {
        let at = Duration::from_secs;
        let mut memory = memory();
        assert_eq!(memory.failed(at(110)), None);
        assert_eq!(memory.failed(at(119)), None, "a short failure is none");
        assert!(memory.asks_store(at(119)));
        assert_eq!(memory.failed(at(120)), Some(Fallback::Began { schedules: 0 }));
        assert_eq!(memory.failed(at(130)), None, "told once");
        assert!(!memory.asks_store(at(134)) && memory.asks_store(at(135)));
        assert_eq!(memory.stale_in(at(1000), true), None, "what cannot be trusted now is not read");
        assert_eq!(memory.succeeded(), Some(Fallback::Ended));
        assert_eq!(memory.stale_in(at(136), false), Some(Duration::ZERO), "the first look after it");
        assert_eq!(memory.succeeded(), None);
        assert_eq!(memory.failed(at(140)), None, "the patience begins anew");
    }

    #[test]
    fn d08_the_fallback_is_given_up_an_hour_after_the_table_was_last_seen() {
        let at = Duration::from_secs;
        let mut memory = memory();
        memory.failed(at(110));
        assert!(memory.failed(at(120)).is_some() && memory.is_firing());
        assert_eq!(memory.failed(at(3700)), None);
        assert!(memory.is_firing());
        assert_eq!(memory.failed(at(3701)), Some(Fallback::GaveUp));
        assert!(!memory.is_firing());
        assert_eq!(memory.failed(at(3800)), None, "told once");
        assert_eq!(memory.succeeded(), Some(Fallback::Ended));
    }

    #[test]
    fn d08_many_changes_of_plans_cost_one_look() {
        let memory = memory();
        assert_eq!(memory.stale_in(Duration::from_millis(100_400), true), Some(Duration::from_millis(600)));
        assert_eq!(memory.stale_in(Duration::from_secs(101), true), Some(Duration::ZERO));
        assert_eq!(memory.stale_in(Duration::from_secs(101), false), Some(Duration::from_secs(59)));
    }

    #[test]
    fn d08_a_node_that_never_saw_the_table_has_nothing_to_fall_back_on() {
        let mut memory = Memory::new(MemoryOptions::default(), Vec::new());
        memory.failed(Duration::ZERO);
        assert_eq!(memory.failed(Duration::from_secs(3600)), None);
        assert!(!memory.is_firing());
    }
}
