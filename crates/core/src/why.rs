//! Why something ran or did not, or will or will not: an answer in words for any instant, past or future.

use crate::calendar::Calendar;
use crate::cron::{CronClock, DstGap, DstOverlap};
use crate::firing::Slots;
use crate::schedule::{Overlap, Schedule};
use crate::slot::{Decision, Reason, SlotRow};
use crate::timing::{Timing, TimingSpec};
use crate::words::words;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

/// How far ahead an open time of a calendar is looked for, in entries.
const LOOK_AHEAD: usize = 400;

words! {
    /// What became of an instant, or will.
    pub enum Verdict as "verdict" {
        /// A job was made for this slot.
        Fired = "fired",
        /// A slot that was skipped by a rule.
        Skipped = "skipped",
        /// A slot that was missed.
        Missed = "missed",
        /// A slot that lies ahead.
        Ahead = "ahead",
        /// A slot that lies ahead and will not run as things stand.
        WillBeSkipped = "will_be_skipped",
        /// A slot that is due and not decided yet.
        Due = "due",
        /// A slot that passed in a pause which goes on.
        Paused = "paused",
        /// No slot of the schedule.
        NotASlot = "not_a_slot",
        /// A local time that a clock change leaves out.
        DoesNotExist = "does_not_exist",
        /// Before the schedule was made.
        BeforeCreated = "before_created",
        /// Before `starts_at`.
        BeforeStartsAt = "before_starts_at",
        /// After `ends_at`.
        AfterEndsAt = "after_ends_at",
        /// Behind the last slot of a schedule that has no more.
        Exhausted = "exhausted",
        /// So long ago that the record is gone.
        Forgotten = "forgotten",
        /// Passed without a record: a slot by the present definition only.
        Unrecorded = "unrecorded",
        /// The schedule cannot be fired.
        Problem = "problem",
    }
}

/// What is asked about: an instant, or what the schedule's wall clock shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// An instant.
    Instant(Timestamp),
    /// A time on the schedule's wall clock.
    Wall(DateTime),
}

impl std::str::FromStr for When {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        if let Ok(at) = text.parse::<Timestamp>() {
            return Ok(Self::Instant(at));
        }
        match text.parse::<jiff::Zoned>() {
            Ok(at) => Ok(Self::Instant(at.timestamp())),
            Err(_) => text.parse().map(Self::Wall),
        }
    }
}

/// The instant that a question is about, and what a clock change has to do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The instant.
    pub at: Timestamp,
    /// What there is to say about the clock.
    pub remark: Option<String>,
    /// Whether that is all: the local time does not exist, and nothing stands for it.
    pub is_all: bool,
}

/// What an answer needs to know beside the schedule.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The store's time.
    pub now: Timestamp,
    /// The calendar it names.
    pub calendar: Option<Calendar>,
    /// Jobs of it that run now.
    pub running: usize,
    /// Jobs of it that wait now.
    pub waiting: usize,
    /// The schedule that it depends on: its name, and when it last succeeded.
    pub dependency: Option<(String, Option<Timestamp>)>,
    /// Since when the ledger is kept.
    pub kept_since: Timestamp,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// In one word.
    pub verdict: Verdict,
    /// In a sentence or two.
    pub words: String,
}

impl Answer {
    fn new(verdict: Verdict, words: impl Into<String>) -> Self {
        Self { verdict, words: words.into() }
    }

    /// With what is to be said of the clock in front.
    #[must_use]
    pub fn after(self, remark: Option<&String>) -> Self {
        let Some(remark) = remark else { return self };
        Self { words: format!("{remark} {}", self.words), ..self }
    }
}

impl SlotRow {
    /// What was decided about a slot, and why, in words.
    pub fn in_words(&self) -> Answer {
        let (verdict, what) = match self.decision {
            Decision::Fired => (Verdict::Fired, "A job was made for this slot"),
            Decision::Skipped => (Verdict::Skipped, "This slot was skipped"),
            Decision::Missed => (Verdict::Missed, "This slot was missed"),
        };
        let range = if self.count > 1 { format!(" (one of {} decided together)", self.count) } else { String::new() };
        let late = match (self.decision, self.late_ms) {
            (Decision::Fired, 1000..) => format!(", {} late", seconds(self.late_ms)),
            _ => String::new(),
        };
        let note = self.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        Answer::new(verdict, format!("{what}{range}: {}{late}{note}.", self.reason.in_words()))
    }
}

fn seconds(millis: i64) -> String {
    crate::duration::format_duration(jiff::SignedDuration::from_secs(millis / 1000))
}

impl Reason {
    /// The reason as a person would say it.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::OnTime => "it fired when it was due",
            Self::Catchup => "it fired late, to make up for slots that passed meanwhile",
            Self::Backfill => "somebody asked for this past range",
            Self::Overlap => "a run of the schedule was still alive, and overlap forbids a second one",
            Self::MaxConcurrentRuns => "max_concurrent_runs were alive",
            Self::Dependency => "the schedule it depends on had not succeeded within the window",
            Self::Calendar => "its calendar excludes this time",
            Self::Paused => "the schedule was paused",
            Self::Rescheduled => "somebody moved the fire to another time, or left it out",
            Self::TooLate => "it was later than the policy's window when it was looked at",
            Self::Superseded => "a later slot was due as well and stands for it",
            Self::OverLimit => "more slots were due than the policy's limit",
            Self::Edited => "the schedule was edited, and this is no longer one of its slots",
        }
    }
}

impl Schedule {
    /// The zone of its wall clock.
    pub fn zone(&self) -> TimeZone {
        match &self.definition.timing {
            TimingSpec::Cron { timezone, .. } => crate::cron::zone(timezone).unwrap_or(TimeZone::UTC),
            TimingSpec::Every { .. } | TimingSpec::At { .. } => TimeZone::UTC,
        }
    }

    /// Finds the instant that a question is about. `None` when no calendar has it.
    pub fn place(&self, when: When) -> Option<Place> {
        let zone = self.zone();
        let wall = match when {
            When::Instant(at) => return Some(Place { at, remark: None, is_all: false }),
            When::Wall(wall) => wall,
        };
        let slots = self.slots().ok();
        let clock = slots.as_ref().and_then(Slots::clock);
        let instant = |offset: jiff::tz::Offset| offset.to_timestamp(wall).ok();
        match zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => {
                Some(Place { at: instant(offset)?, remark: None, is_all: false })
            }
            AmbiguousOffset::Gap { before, .. } => {
                // Read with the offset of before, it lies behind the change, by less than the gap.
                let behind = instant(before)?;
                let change = zone.preceding(behind.saturating_add(MICRO).ok()?).next()?.timestamp();
                let (remark, is_all) = in_a_gap(wall, change, &zone, clock);
                Some(Place { at: change, remark: Some(remark), is_all })
            }
            AmbiguousOffset::Fold { before, after } => {
                let both = [instant(before)?, instant(after)?];
                let is_slot = |at: &Timestamp| slots.as_ref().is_some_and(|slots| slots.has(*at));
                let at = both.into_iter().find(is_slot).unwrap_or(both[0]);
                Some(Place { at, remark: Some(in_a_fold(wall, both, &zone, clock)), is_all: false })
            }
        }
    }

    /// What is to be said of an instant that is not in the ledger.
    pub fn why_unrecorded(&self, at: Timestamp, known: &Known) -> Answer {
        let slots = match self.slots() {
            Ok(slots) => slots,
            Err(problem) => {
                return Answer::new(Verdict::Problem, format!("The schedule cannot be understood: {problem}."));
            }
        };
        if !slots.has(at) && self.state.next_slot_at != Some(at) {
            return self.no_slot(&slots, at);
        }
        if at < self.created_at && at <= known.now {
            let made = self.created_at;
            return Answer::new(
                Verdict::BeforeCreated,
                format!("The schedule did not exist yet: it was made at {made}."),
            );
        }
        if at > known.now { self.ahead(&slots, at, known) } else { self.passed(at, known) }
    }

    fn no_slot(&self, slots: &Slots<'_>, at: Timestamp) -> Answer {
        let by_timing = slots.is_named(at);
        if let Some(from) = self.definition.starts_at.filter(|from| by_timing && at < *from) {
            return Answer::new(
                Verdict::BeforeStartsAt,
                format!("The schedule has no slots before it starts at {from}."),
            );
        }
        if let Some(to) = self.definition.ends_at.filter(|to| by_timing && at > *to) {
            return Answer::new(Verdict::AfterEndsAt, format!("The schedule has no slots after it ended at {to}."));
        }
        let before = slots.latest_at_or_before(at).map_or_else(|| "there is none".to_owned(), |at| at.to_string());
        match slots.next_after(at) {
            Some(next) => Answer::new(
                Verdict::NotASlot,
                format!("This is not a slot of the schedule. The one before it: {before}. The next one: {next}."),
            ),
            None => Answer::new(
                Verdict::Exhausted,
                format!(
                    "This is not a slot of the schedule, and there are none after it. The one before it: {before}."
                ),
            ),
        }
    }

    fn ahead(&self, slots: &Slots<'_>, at: Timestamp, known: &Known) -> Answer {
        if let Some(refused) = self.refused_ahead(at, known) {
            return refused;
        }
        let run_at = if self.state.next_slot_at == Some(at) { self.state.next_run_at } else { None };
        let run_at = run_at.unwrap_or_else(|| slots.due_at(at));
        let later = if run_at == at { String::new() } else { format!(", which is at {run_at} because of its jitter") };
        let mut words = format!("This slot lies ahead; it will be decided when it is due{later}.");
        for condition in [self.overlap_ahead(at, known), self.dependency_ahead(known)].into_iter().flatten() {
            words += " ";
            words += &condition;
        }
        Answer::new(Verdict::Ahead, words)
    }

    /// What keeps a slot from running as things stand.
    fn refused_ahead(&self, at: Timestamp, known: &Known) -> Option<Answer> {
        let skipped = |words: String| Some(Answer::new(Verdict::WillBeSkipped, words));
        if !self.state.enabled {
            let pause = self.state.pause.as_ref();
            let told = pause.map_or_else(|| "paused".to_owned(), crate::schedule::Pause::in_words);
            match pause.and_then(|pause| pause.until) {
                Some(until) if at >= until => {}
                Some(_) => {
                    return skipped(format!("This slot lies ahead and will be skipped: the schedule is {told}."));
                }
                None => {
                    let words = "This slot lies ahead and will be skipped unless the schedule is resumed: it is";
                    return skipped(format!("{words} {told}."));
                }
            }
        }
        if let Some(problem) = &self.state.problem {
            let words = format!("This slot lies ahead, and the schedule cannot be fired: {problem}.");
            return Some(Answer::new(Verdict::Problem, words));
        }
        let calendar = known.calendar.as_ref()?;
        let why = calendar.why_excluded(at)?;
        let open = calendar.open_from(at, LOOK_AHEAD);
        let open = open.map(|open| format!(" It is open again from {open}.")).unwrap_or_default();
        skipped(format!("This slot lies ahead and will be skipped because of its calendar ({why}).{open}"))
    }

    fn overlap_ahead(&self, at: Timestamp, known: &Known) -> Option<String> {
        let alive = known.running + known.waiting;
        if alive == 0 || self.state.next_slot_at != Some(at) {
            return None;
        }
        let is = if alive == 1 { "run of it is alive".to_owned() } else { format!("{alive} runs of it are alive") };
        let is = if alive == 1 { format!("A {is}") } else { is };
        let then = "if that is still so then";
        match self.definition.overlap {
            Overlap::Forbid => Some(format!("{is} now; {then}, it will be skipped, because overlap is forbid.")),
            Overlap::QueueOne if known.waiting > 0 => {
                Some(format!("{is} now, and one waits; {then}, it will be skipped, because overlap is queue_one."))
            }
            Overlap::Replace => {
                Some(format!("{is} now; {then}, it will be cancelled for this one (overlap is replace)."))
            }
            Overlap::Allow | Overlap::QueueOne => {
                let most = self.definition.max_concurrent_runs?;
                let full = alive >= usize::try_from(most).unwrap_or(usize::MAX);
                full.then(|| format!("{is} now; {then}, it will be skipped, because max_concurrent_runs is {most}."))
            }
        }
    }

    fn dependency_ahead(&self, known: &Known) -> Option<String> {
        let within = crate::duration::format_duration(self.definition.depends_on?.within);
        let (name, succeeded) = known.dependency.as_ref()?;
        let last = succeeded.map_or_else(|| "it never did yet".to_owned(), |at| format!("it last did at {at}"));
        Some(format!("It runs only if `{name}` has succeeded within {within} before it; {last}."))
    }

    fn passed(&self, at: Timestamp, known: &Known) -> Answer {
        let waits = self.state.next_slot_at.is_some_and(|next| at >= next);
        if waits && !self.state.enabled {
            let told = self.state.pause.as_ref().map_or_else(|| "paused".to_owned(), crate::schedule::Pause::in_words);
            let words =
                format!("This slot passed while the schedule is {told}. It is recorded as skipped when it goes on.");
            return Answer::new(Verdict::Paused, words);
        }
        if let Some(problem) = &self.state.problem {
            return Answer::new(Verdict::Problem, format!("The schedule could not be fired: {problem}."));
        }
        if waits {
            return Answer::new(Verdict::Due, "This slot is due and has not been decided yet; a node that fires will.");
        }
        if at < known.kept_since {
            let words = format!("What was decided before {} is forgotten by retention.", known.kept_since);
            return Answer::new(Verdict::Forgotten, words);
        }
        let words = format!(
            "This slot has passed and nothing was decided about it: it is a slot by the present definition only, which \
             is of {}.",
            self.updated_at
        );
        Answer::new(Verdict::Unrecorded, words)
    }
}

const MICRO: jiff::SignedDuration = jiff::SignedDuration::from_micros(1);

impl Slots<'_> {
    /// Whether an instant is a slot, within the schedule's bounds.
    pub fn has(&self, at: Timestamp) -> bool {
        self.latest_at_or_before(at) == Some(at)
    }

    /// Whether the timing alone names an instant.
    fn is_named(&self, at: Timestamp) -> bool {
        self.timing().latest_at_or_before(at) == Some(at)
    }

    fn clock(&self) -> Option<&CronClock> {
        match self.timing() {
            Timing::Cron(clock) => Some(clock),
            Timing::Every { .. } | Timing::At(_) => None,
        }
    }
}

/// What becomes of a local time that does not exist, and whether that is all there is to say.
fn in_a_gap(wall: DateTime, change: Timestamp, zone: &TimeZone, clock: Option<&CronClock>) -> (String, bool) {
    let before = change.saturating_sub(MICRO).unwrap_or(change);
    let shown = |at: Timestamp| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let from = zone.to_offset(before).to_datetime(change);
    let told = format!(
        "{} does not exist there: the clock goes from {} to {}.",
        wall.strftime("%Y-%m-%d %H:%M:%S"),
        from.strftime("%Y-%m-%d %H:%M:%S"),
        shown(change)
    );
    let Some(clock) = clock.filter(|clock| clock.names(wall)) else {
        return (format!("{told} The schedule would have no slot at that time anyway."), true);
    };
    if !clock.cron().is_fixed_time() {
        let words =
            "The schedule follows the clock, because an hour, a minute or a second of it is `*`, and makes nothing up";
        return (format!("{told} {words}."), true);
    }
    match clock.dst().gap {
        DstGap::Next => (format!("{told} The schedule's slot is {change} instead (dst_gap is next)."), false),
        DstGap::Skip => (format!("{told} The schedule leaves it out (dst_gap is skip)."), true),
    }
}

/// What becomes of a local time that comes twice.
fn in_a_fold(wall: DateTime, both: [Timestamp; 2], zone: &TimeZone, clock: Option<&CronClock>) -> String {
    let [first, second] = both;
    let offset = |at: Timestamp| zone.to_offset(at);
    let told = format!(
        "{} comes twice there: at {first} ({}) and at {second} ({}).",
        wall.strftime("%Y-%m-%d %H:%M:%S"),
        offset(first),
        offset(second)
    );
    let Some(clock) = clock.filter(|clock| clock.names(wall)) else { return told };
    if !clock.cron().is_fixed_time() {
        return format!("{told} The schedule follows the clock and has a slot at both; this is about the first.");
    }
    match clock.dst().overlap {
        DstOverlap::First => format!("{told} The schedule fires at the first (dst_overlap is first)."),
        DstOverlap::Second => format!("{told} The schedule fires at the second (dst_overlap is second)."),
        DstOverlap::Both => {
            format!("{told} The schedule fires at both (dst_overlap is both); this is about the first.")
        }
    }
}

#[cfg(test)]
mod tests;
