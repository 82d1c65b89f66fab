//! What the model says about schedules: planning, deciding, and steering by hand.

use super::clockwork::{Beat, Micros, SECOND};
use super::{Job, Model, News, Results, Row, Schedule, Spec, Whereabouts};
use punctual_core::run::{ErrorCode, Trigger};
use punctual_core::slot::{Decision, Reason};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a user says about a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its rhythm.
    pub beat: Beat,
    /// No slot lies after this.
    pub ends_at: Option<Micros>,
    /// What happens to missed slots.
    pub missed: MissedRule,
    /// What happens while one is alive.
    pub overlap: OverlapRule,
    /// How many may be alive.
    pub max_alive: Option<usize>,
    /// Whether its jobs run one after the other.
    pub serial: bool,
    /// Which other schedule must have succeeded, and how many seconds before the slot at most.
    pub depends_on: Option<(usize, i64)>,
    /// Each slot is due up to so many seconds later.
    pub jitter: i64,
    /// After how many failures in a row it stops by itself.
    pub stops_after: Option<u32>,
    /// What its jobs look like; the key is the schedule's own.
    pub job: Spec,
}

/// By how much each slot of a schedule is held back. Any value below the jitter and the gap to the next slot is right,
/// so the store chooses, and says so once and for all.
#[derive(Clone, Default)]
pub struct Spread(pub Option<Arc<dyn Fn(Micros) -> Micros>>);

impl std::fmt::Debug for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spread")
    }
}

/// What happens to missed slots; windows in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissedRule {
    /// Only what is on time.
    Skip(i64),
    /// The latest.
    Once(Option<i64>),
    /// Each, up to so many.
    All(usize, Option<i64>),
}

/// What happens while one is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverlapRule {
    /// Both.
    Allow,
    /// Not the new one.
    Forbid,
    /// Not the old one.
    Replace,
    /// One after the other, and one waits at most.
    QueueOne,
}

/// The due slots of a schedule, sorted out by its missed policy.
struct Sorted {
    passed: Vec<Micros>,
    reason: Reason,
    chosen: Vec<Micros>,
}

impl Schedule {
    fn slots_between(&self, after: Micros, until: Micros) -> Vec<Micros> {
        let until = self.definition.ends_at.map_or(until, |end| end.min(until));
        self.definition.beat.between(self.anchor, after, until)
    }

    fn next_after(&self, after: Micros) -> Option<Micros> {
        let next = self.definition.beat.next(self.anchor, after)?;
        self.definition.ends_at.is_none_or(|end| next <= end).then_some(next)
    }

    /// When a slot is due; the store may choose, within bounds.
    fn due(&self, slot: Micros) -> Micros {
        let Some(spread) = &self.spread.0 else { return slot };
        let due = spread(slot);
        let gap = self.definition.beat.next(self.anchor, slot).map_or(Micros::MAX, |next| next - slot);
        let room = gap.min(self.definition.jitter * SECOND).max(1);
        assert!((0..room).contains(&(due - slot)), "a slot is held back by less than the jitter and the gap");
        due
    }

    /// When a slot that waits is due: one that somebody chose by hand at once.
    fn due_of(&self, slot: Micros) -> Micros {
        self.next_due.filter(|_| self.next == Some(slot)).unwrap_or_else(|| self.due(slot))
    }

    /// Whether its rhythm has a slot.
    pub fn has_slot(&self, slot: Micros) -> bool {
        self.slots_between(slot - 1, slot) == [slot]
    }

    /// The slot of its rhythm after another one.
    pub fn slot_after(&self, slot: Micros) -> Option<Micros> {
        self.next_after(slot)
    }

    fn set_next(&mut self, slot: Option<Micros>) {
        self.next = slot;
        self.next_due = slot.map(|slot| self.due(slot));
    }

    /// Says by how much slots are held back, for a schedule that was planned just now.
    pub fn set_spread(&mut self, spread: Spread) {
        self.spread = spread;
    }

    fn plan_from(&self, now: Micros) -> Option<Micros> {
        self.next_after(now.max(self.created_at).max(self.last_slot.unwrap_or(Micros::MIN)))
    }

    /// The slot it waits for, and those of its rhythm that came since and were not decided.
    fn passed_until(&self, until: Micros) -> Vec<Micros> {
        let Some(first) = self.next else { return Vec::new() };
        let floor = self.last_slot.map_or(first, |last| last.max(first));
        let mut slots = vec![first];
        slots.extend(self.slots_between(floor, until));
        slots
    }

    /// The slot it waits for, and those that have become due since.
    fn due_until(&self, now: Micros) -> Vec<Micros> {
        let mut slots = self.passed_until(now);
        slots.retain(|slot| self.due_of(*slot) <= now);
        slots
    }

    fn record(&mut self, row: Row) {
        self.last_slot = self.last_slot.max(Some(row.through));
        if row.through <= row.decided_at {
            self.passed_through = self.passed_through.max(Some(row.through));
        }
        let twice = self.ledger.insert(row.slot, row);
        assert!(twice.is_none(), "the model decides a slot once");
    }

    fn set_aside(&mut self, slots: &[Micros], reason: Reason, now: Micros) {
        let (Some(first), Some(last)) = (slots.first(), slots.last()) else { return };
        let (slot, through, count) = (*first, *last, slots.len() as u64);
        let (decided_at, version) = (now, self.version);
        let decision = Decision::Skipped;
        self.record(Row { slot, through, count, decision, reason, job: None, decided_at, version });
    }

    /// Ends a pause: what passed up to an instant is set aside. Says how many slots that were.
    fn go_on(&mut self, behind: Micros, now: Micros) -> u64 {
        (self.paused_at, self.resumes_at) = (None, None);
        self.forgiven = Some((now, self.results.failures));
        if let Some(next) = self.next.filter(|next| *next > behind) {
            let own = self.slots_between(next - 1, next) == [next];
            self.next_due = Some(if own { self.due(next) } else { next });
            return 0;
        }
        let passed = self.passed_until(behind);
        self.set_aside(&passed, Reason::Paused, now);
        self.set_next(self.plan_from(behind));
        passed.len() as u64
    }

    /// Failures since the last success, without those from before its last pause.
    fn failures_in_row(&self) -> u32 {
        let forgiven = self.forgiven.filter(|(at, _)| self.results.success_at.is_none_or(|success| success < *at));
        self.results.failures - forgiven.map_or(0, |(_, failures)| failures)
    }

    fn sort_out(&self, mut due: Vec<Micros>, now: Micros) -> Sorted {
        let latest = due.pop().expect("the first one is due");
        let in_window =
            |slot: Micros, window: Option<i64>| window.is_none_or(|w| now - self.due_of(slot) <= w * SECOND);
        match self.definition.missed {
            MissedRule::Skip(_) | MissedRule::Once(_) if !in_window(latest, self.definition.missed.window()) => {
                due.push(latest);
                Sorted { passed: due, reason: Reason::TooLate, chosen: Vec::new() }
            }
            MissedRule::Skip(_) | MissedRule::Once(_) => {
                Sorted { passed: due, reason: Reason::Superseded, chosen: vec![latest] }
            }
            MissedRule::All(limit, window) => {
                due.push(latest);
                let (young, old): (Vec<_>, Vec<_>) = due.into_iter().partition(|slot| in_window(*slot, window));
                let surplus = young.len().saturating_sub(limit);
                let reason = if surplus > 0 { Reason::OverLimit } else { Reason::TooLate };
                let passed = old.into_iter().chain(young[..surplus].iter().copied()).collect();
                Sorted { passed, reason, chosen: young[surplus..].to_vec() }
            }
        }
    }
}

impl MissedRule {
    fn window(self) -> Option<i64> {
        match self {
            Self::Skip(window) => Some(window),
            Self::Once(window) | Self::All(_, window) => window,
        }
    }
}

impl Model {
    /// Stores a schedule; false when it has no slot ahead.
    pub fn create_schedule(&mut self, definition: Definition, spread: Spread) -> bool {
        let mut schedule = Schedule {
            definition,
            created_at: self.now,
            anchor: self.now / SECOND * SECOND,
            version: 1,
            past: Vec::new(),
            deleted: false,
            paused_at: None,
            resumes_at: None,
            forgiven: None,
            next: None,
            next_due: None,
            spread: Spread::default(),
            last_slot: None,
            passed_through: None,
            last_enqueued: None,
            last_job: None,
            results: Results::default(),
            behind: false,
            ledger: BTreeMap::new(),
        };
        schedule.spread = spread;
        schedule.set_next(schedule.plan_from(self.now));
        let planned = schedule.next.is_some();
        if planned {
            self.schedules.push(schedule);
        }
        planned
    }

    /// Replaces a definition; false when it is one instant that has passed.
    pub fn update_schedule(&mut self, index: usize, definition: Definition, spread: Spread) -> bool {
        let now = self.now;
        let old = &self.schedules[index];
        let mut edited = old.clone();
        let keeps_phase = old.definition.beat == definition.beat;
        let same_times =
            keeps_phase && old.definition.ends_at == definition.ends_at && old.definition.jitter == definition.jitter;
        let overdue: Vec<Micros> = match old.next {
            Some(next) if !same_times && next <= now => old.passed_until(now),
            _ => Vec::new(),
        };
        // What passed is told under the rules that were in force.
        let reason = if old.paused_at.is_some() { Reason::Paused } else { Reason::Edited };
        edited.set_aside(&overdue, reason, now);
        edited.past.push(std::mem::replace(&mut edited.definition, definition));
        edited.version += 1;
        edited.spread = spread;
        if !same_times {
            edited.anchor = now / SECOND * SECOND;
        }
        if !same_times || edited.next.is_none() {
            edited.set_next(edited.plan_from(now));
        }
        let single = matches!(edited.definition.beat, Beat::At(_));
        if single && edited.next.is_none() {
            return false;
        }
        self.schedules[index] = edited;
        true
    }

    /// Stops a schedule.
    pub fn pause_schedule(&mut self, index: usize) {
        let now = self.now;
        self.schedules[index].paused_at.get_or_insert(now);
    }

    /// Lets a schedule go on.
    pub fn resume_schedule(&mut self, index: usize) {
        let now = self.now;
        if self.schedules[index].paused_at.is_some() {
            self.schedules[index].go_on(now, now);
        }
    }

    /// Stops a schedule until an instant; false when that has passed.
    pub fn pause_schedule_until(&mut self, index: usize, until: Micros) -> bool {
        let now = self.now;
        let schedule = &mut self.schedules[index];
        if until > now {
            schedule.paused_at.get_or_insert(now);
            schedule.resumes_at = Some(until);
        }
        until > now
    }

    /// Lets a schedule go on whose pause is over, or stops one that has failed too often; says how many slots did not
    /// run for it.
    pub fn steer(&mut self, index: usize) -> Option<u64> {
        let now = self.now;
        let schedule = &mut self.schedules[index];
        if schedule.paused_at.is_some() {
            let until = schedule.resumes_at.filter(|until| *until <= now)?;
            // The slot at the end itself is none of the pause.
            return Some(schedule.go_on(until - 1, now));
        }
        let most = schedule.definition.stops_after?;
        if schedule.failures_in_row() < most {
            return None;
        }
        let due = schedule.due_until(now);
        let latest = *due.last().expect("the first one is due");
        schedule.set_aside(&due, Reason::Paused, now);
        schedule.set_next(schedule.next_after(schedule.last_slot.map_or(latest, |last| last.max(latest))));
        schedule.paused_at = Some(now);
        Some(due.len() as u64)
    }

    /// Moves the next fire; false when that is refused.
    pub fn reschedule(&mut self, index: usize, at: Micros) -> bool {
        let now = self.now;
        let schedule = &mut self.schedules[index];
        let of_the_rhythm = schedule.next_after(at - 1) == Some(at);
        let in_a_range = schedule.ledger.values().any(|row| of_the_rhythm && row.slot <= at && at <= row.through);
        let decided = Some(at) <= schedule.passed_through || schedule.ledger.contains_key(&at) || in_a_range;
        if schedule.paused_at.is_some() || at <= now || at < schedule.created_at || decided {
            return false;
        }
        if schedule.next != Some(at) {
            let jumped = schedule.passed_until(at - 1);
            schedule.set_aside(&jumped, Reason::Rescheduled, now);
        }
        (schedule.next, schedule.next_due) = (Some(at), Some(at));
        true
    }

    /// Leaves the next fire out; false when that is refused.
    pub fn skip_next(&mut self, index: usize) -> bool {
        let now = self.now;
        let schedule = &mut self.schedules[index];
        let Some(next) = schedule.next.filter(|_| schedule.paused_at.is_none()) else { return false };
        schedule.set_aside(&[next], Reason::Rescheduled, now);
        schedule.set_next(schedule.next_after(schedule.last_slot.map_or(next, |last| last.max(next))));
        true
    }

    /// Makes a job by hand.
    pub fn trigger_schedule(&mut self, index: usize, key: &str) -> usize {
        let definition = &self.schedules[index].definition;
        let key = definition.serial.then(|| key.to_owned());
        let spec = Spec { key, trigger: Trigger::Manual, ..definition.job.clone() };
        self.make_job(spec, Some(index), None, None)
    }

    /// Ends a schedule.
    pub fn delete_schedule(&mut self, index: usize) {
        self.schedules[index].deleted = true;
        self.schedules[index].resumes_at = None;
        self.schedules[index].set_next(None);
        for job in self.alive_of(index) {
            if !matches!(self.jobs[job].place, Whereabouts::Running(_)) {
                self.close_unstarted(job, ErrorCode::Cancelled);
            }
        }
    }

    /// The schedules that are due.
    pub fn due_schedules(&self) -> Vec<usize> {
        let is_due = |s: &Schedule| {
            let due = if s.paused_at.is_some() { s.resumes_at } else { s.next_due };
            !s.deleted && due.is_some_and(|due| due <= self.now)
        };
        (0..self.schedules.len()).filter(|index| is_due(&self.schedules[*index])).collect()
    }

    /// Decides one due schedule; hands back the jobs that were made and how many slots did not run.
    pub fn fire(&mut self, index: usize, key: &str) -> (Vec<usize>, u64) {
        let now = self.now;
        let schedule = &self.schedules[index];
        let due = schedule.due_until(now);
        let latest = *due.last().expect("the first one is due");
        let sorted = schedule.sort_out(due, now);
        let mut not_run = sorted.passed.len() as u64;
        if let (Some(first), Some(last)) = (sorted.passed.first(), sorted.passed.last()) {
            let (slot, through, version) = (*first, *last, schedule.version);
            let (decision, reason, count) = (Decision::Missed, sorted.reason, not_run);
            let row = Row { slot, through, count, decision, reason, job: None, decided_at: now, version };
            self.schedules[index].record(row);
            self.tell(News::Missed(index, slot));
        }
        let stands_for_others = not_run > 0 && matches!(self.schedules[index].definition.missed, MissedRule::Once(_));
        let mut made = Vec::new();
        for slot in sorted.chosen {
            let on_time = !stands_for_others && slot == latest && self.is_on_time(index, slot);
            let job = self.decide(index, slot, on_time, key);
            not_run += u64::from(job.is_none());
            made.extend(job);
        }
        let schedule = &mut self.schedules[index];
        schedule.set_next(schedule.next_after(schedule.last_slot.map_or(latest, |last| last.max(latest))));
        (made, not_run)
    }

    fn is_on_time(&self, index: usize, slot: Micros) -> bool {
        let window = match self.schedules[index].definition.missed {
            MissedRule::Skip(window) => window,
            MissedRule::Once(_) | MissedRule::All(..) => 60,
        };
        self.now - self.schedules[index].due_of(slot) <= window * SECOND
    }

    /// Looks through the plans: one that lies behind the rhythm's own next slot, as after a clock that went back, is
    /// made anew. Says how many were.
    pub fn reconcile(&mut self) -> usize {
        let now = self.now;
        let mut replanned = 0;
        for schedule in self.schedules.iter_mut().filter(|s| !s.deleted && s.paused_at.is_none()) {
            let own = schedule.plan_from(now);
            if own.is_some() && schedule.next > own {
                schedule.set_next(own);
                replanned += 1;
            }
        }
        replanned
    }

    fn decide(&mut self, index: usize, slot: Micros, on_time: bool, key: &str) -> Option<usize> {
        let (now, version) = (self.now, self.schedules[index].version);
        let (decision, reason) = match self.refusal(index, slot) {
            Some(reason) => (Decision::Skipped, reason),
            None if on_time => (Decision::Fired, Reason::OnTime),
            None => (Decision::Fired, Reason::Catchup),
        };
        let job = (decision == Decision::Fired).then(|| {
            let trigger = if on_time { Trigger::Schedule } else { Trigger::Catchup };
            self.make_slot_job(index, slot, trigger, key)
        });
        let schedule = &mut self.schedules[index];
        if let Some(job) = job {
            schedule.last_job = Some(job);
            schedule.last_enqueued = Some(now);
        }
        schedule.record(Row { slot, through: slot, count: 1, decision, reason, job, decided_at: now, version });
        job
    }

    /// Decides a slot as somebody did who went by what was said in some version; refuses what that one had no right to.
    pub fn decide_as(
        &mut self, index: usize, slot: Micros, version: i64, reason: Reason, key: &str,
    ) -> Result<Option<usize>, String> {
        let schedule = &mut self.schedules[index];
        let past = usize::try_from(version - 1).ok().and_then(|past| schedule.past.get(past).cloned());
        let current = schedule.definition.clone();
        schedule.definition = past.unwrap_or_else(|| current.clone());
        let made = match (self.refusal(index, slot), reason) {
            (Some(expected), reason) if expected == reason => Ok(None),
            (None, Reason::OnTime) => Ok(Some(self.make_slot_job(index, slot, Trigger::Schedule, key))),
            (None, Reason::Catchup) => Ok(Some(self.make_slot_job(index, slot, Trigger::Catchup, key))),
            (expected, reason) => Err(format!("schedule {index}: decided by {reason:?}, and not by {expected:?}")),
        };
        self.schedules[index].definition = current;
        made
    }

    fn refusal(&self, index: usize, slot: Micros) -> Option<Reason> {
        let definition = &self.schedules[index].definition;
        if let Some((other, within)) = definition.depends_on {
            let success = self.schedules[other].results.success_at;
            if success.is_none_or(|at| at < slot - within * SECOND) {
                return Some(Reason::Dependency);
            }
        }
        let alive = self.alive_of(index);
        let waiting = alive.iter().filter(|job| !matches!(self.jobs[**job].place, Whereabouts::Running(_))).count();
        let overlaps = match definition.overlap {
            OverlapRule::Allow | OverlapRule::Replace => false,
            OverlapRule::Forbid => !alive.is_empty(),
            OverlapRule::QueueOne => waiting > 0,
        };
        if overlaps {
            return Some(Reason::Overlap);
        }
        let too_many = definition.max_alive.is_some_and(|max| alive.len() >= max);
        (too_many && definition.overlap != OverlapRule::Replace).then_some(Reason::MaxConcurrentRuns)
    }

    fn make_slot_job(&mut self, index: usize, slot: Micros, trigger: Trigger, key: &str) -> usize {
        let definition = self.schedules[index].definition.clone();
        if definition.overlap == OverlapRule::Replace {
            for job in self.alive_of(index) {
                match self.jobs[job].place {
                    Whereabouts::Running(_) => self.request_cancel(job, ErrorCode::Replaced),
                    _ => self.close_unstarted(job, ErrorCode::Replaced),
                }
            }
        }
        let one_by_one =
            definition.serial || matches!(definition.overlap, OverlapRule::Replace | OverlapRule::QueueOne);
        let spec = Spec { key: one_by_one.then(|| key.to_owned()), trigger, ..definition.job };
        self.make_job(spec, Some(index), Some(slot), None)
    }

    fn alive_of(&self, index: usize) -> Vec<usize> {
        let alive = |job: &Job| job.schedule == Some(index) && !matches!(job.place, Whereabouts::Closed(_));
        (0..self.jobs.len()).filter(|job| alive(&self.jobs[*job])).collect()
    }
}
