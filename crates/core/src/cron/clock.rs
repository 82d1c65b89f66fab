//! When an expression fires in a time zone: the walk over stretches of constant offset.
//!
//! Between two changes of clock wall time and real time run in step, so inside such a stretch the
//! question is one of the calendar alone. What happens at the seams is the whole of the DST rule:
//! a stretch that starts behind a gap may owe one fire for what the gap swallowed, and one whose
//! start or end is shown twice may give up that part to its neighbour. A wildcard job is the plain
//! case: it owes nothing and gives nothing up.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::{Cron, HORIZON_YEARS};

const HORIZON_SECONDS: i64 = HORIZON_YEARS * 366 * super::calendar::DAY;

/// What a fixed-time job does when the clock skips its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DstGap {
    /// Fire once, at the first instant after the gap.
    #[default]
    Next,
    /// Do not fire for the skipped time.
    Skip,
}

/// What a fixed-time job does when the clock shows its time twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DstOverlap {
    /// Fire the first time only.
    #[default]
    First,
    /// Fire both times.
    Both,
    /// Fire the second time only.
    Second,
}

/// The two choices a schedule has at a change of clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dst {
    /// When the time is skipped.
    pub gap: DstGap,
    /// When the time comes twice.
    pub overlap: DstOverlap,
}

/// A word that names no choice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {choice} {word:?}; use {known}")]
pub struct UnknownDstWord {
    choice: &'static str,
    word: String,
    known: &'static str,
}

impl DstGap {
    /// The word used in storage, the API and the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            DstGap::Next => "next",
            DstGap::Skip => "skip",
        }
    }
}

impl std::str::FromStr for DstGap {
    type Err = UnknownDstWord;

    fn from_str(word: &str) -> Result<DstGap, UnknownDstWord> {
        match word {
            "next" => Ok(DstGap::Next),
            "skip" => Ok(DstGap::Skip),
            _ => Err(unknown("dst_gap", word, "next or skip")),
        }
    }
}

impl DstOverlap {
    /// The word used in storage, the API and the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            DstOverlap::First => "first",
            DstOverlap::Both => "both",
            DstOverlap::Second => "second",
        }
    }
}

impl std::str::FromStr for DstOverlap {
    type Err = UnknownDstWord;

    fn from_str(word: &str) -> Result<DstOverlap, UnknownDstWord> {
        match word {
            "first" => Ok(DstOverlap::First),
            "both" => Ok(DstOverlap::Both),
            "second" => Ok(DstOverlap::Second),
            _ => Err(unknown("dst_overlap", word, "first, both or second")),
        }
    }
}

fn unknown(choice: &'static str, word: &str, known: &'static str) -> UnknownDstWord {
    UnknownDstWord { choice, word: word.chars().take(20).collect(), known }
}

/// An expression in a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronClock {
    cron: Cron,
    zone: TimeZone,
    dst: Dst,
}

impl CronClock {
    /// Puts an expression into a zone.
    pub fn new(cron: Cron, zone: TimeZone, dst: Dst) -> CronClock {
        CronClock { cron, zone, dst }
    }

    /// The expression.
    pub fn cron(&self) -> &Cron {
        &self.cron
    }

    /// The zone it is read in.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The choices at a change of clock.
    pub fn dst(&self) -> Dst {
        self.dst
    }

    /// The first fire after `after`, never at it; whole seconds; none within 41 years is `None`.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        Walk::new(&self.cron, &self.zone, self.dst).next_after(after)
    }

    /// The last fire at or before `at`, looking back 41 years.
    pub fn latest_at_or_before(&self, at: Timestamp) -> Option<Timestamp> {
        Walk::new(&self.cron, &self.zone, self.dst).latest_at_or_before(at)
    }

    /// The number of fires after `after` and up to `until`, without walking through them.
    pub fn count_between(&self, after: Timestamp, until: Timestamp) -> u64 {
        Walk::new(&self.cron, &self.zone, self.dst).count_between(after, until)
    }

    /// Whether the expression names a wall-clock time, whatever the zone makes of it.
    pub fn names(&self, wall: DateTime) -> bool {
        let whole = wall.subsec_nanosecond() == 0;
        let second = TimeZone::UTC.to_timestamp(wall).map(Timestamp::as_second);
        whole && second.is_ok_and(|second| self.cron.calendar.first_in(second, second + 1).is_some())
    }

    /// All fires after `after`, in order.
    ///
    /// ```
    /// # use punctual_core::cron::{Cron, CronClock, Dst, zone};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = CronClock::new(Cron::parse("30 1 * * *")?, zone("America/New_York")?, Dst::default());
    /// let fires: Vec<_> =
    ///     clock.fires_after("2025-11-02T00:00:00Z".parse()?).take(2).map(|t| t.to_string()).collect();
    /// // 01:30 comes twice on 2 November; it fires once.
    /// assert_eq!(fires, ["2025-11-02T05:30:00Z", "2025-11-03T06:30:00Z"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fires_after(&self, after: Timestamp) -> Fires<'_> {
        let walk = Walk::new(&self.cron, &self.zone, self.dst);
        let from = floor_second(after) + 1;
        Fires { walk, from, stretch: None }
    }
}

/// The fires of a [`CronClock`], in order.
#[derive(Clone, Debug)]
pub struct Fires<'a> {
    walk: Walk<'a>,
    from: i64,
    /// Kept between fires: looking a stretch up costs more than finding a fire in it.
    stretch: Option<Stretch>,
}

impl Iterator for Fires<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        let stretch = match self.stretch {
            Some(stretch) => stretch,
            None => Stretch::at(self.walk.zone, self.from)?,
        };
        let (fire, stretch) = self.walk.first_from(stretch, self.from)?;
        self.from = fire + 1;
        self.stretch = Some(stretch).filter(|stretch| self.from < stretch.end);
        timestamp(fire)
    }
}

/// A time in which the zone's offset is constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// First second.
    pub(super) start: i64,
    /// First second behind it.
    pub(super) end: i64,
    pub(super) offset: i64,
    /// Offset of the stretch before.
    pub(super) before: i64,
    /// Offset of the stretch behind.
    pub(super) after: i64,
}

impl Stretch {
    /// The stretch that holds `second`, or `None` outside the years -9999 to 9999.
    pub(super) fn at(zone: &TimeZone, second: i64) -> Option<Stretch> {
        let offset = offset_at(zone, second)?;
        let mut stretch = Stretch {
            start: Timestamp::MIN.as_second(),
            end: Timestamp::MAX.as_second() + 1,
            offset,
            before: offset,
            after: offset,
        };
        // Zone data also records changes of name; only those of offset end a stretch.
        let next = timestamp(second)?;
        for change in zone.following(next) {
            if seconds(change.offset()) != offset {
                stretch.end = change.timestamp().as_second();
                stretch.after = seconds(change.offset());
                break;
            }
        }
        let behind = timestamp(second + 1).unwrap_or(Timestamp::MAX);
        for change in zone.preceding(behind) {
            let start = change.timestamp().as_second();
            let Some(before) = offset_at(zone, start - 1) else {
                break;
            };
            if before != offset {
                stretch.start = start;
                stretch.before = before;
                break;
            }
        }
        Some(stretch)
    }

    /// The stretch behind this one.
    pub(super) fn next(&self, zone: &TimeZone) -> Option<Stretch> {
        Stretch::at(zone, self.end)
    }

    fn previous(&self, zone: &TimeZone) -> Option<Stretch> {
        Stretch::at(zone, self.start - 1)
    }
}

/// An expression, a zone and the rule for its seams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk<'a> {
    cron: &'a Cron,
    zone: &'a TimeZone,
    dst: Dst,
}

impl<'a> Walk<'a> {
    pub(super) fn new(cron: &'a Cron, zone: &'a TimeZone, dst: Dst) -> Walk<'a> {
        // A wildcard job shows the wall clock as it is: nothing made up, nothing left out.
        let wildcard = Dst { gap: DstGap::Skip, overlap: DstOverlap::Both };
        let dst = if cron.is_fixed_time() { dst } else { wildcard };
        Walk { cron, zone, dst }
    }

    pub(super) fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let from = floor_second(after) + 1;
        let stretch = Stretch::at(self.zone, from)?;
        timestamp(self.first_from(stretch, from)?.0)
    }

    /// The first fire at or after `from` and the stretch it lies in.
    fn first_from(&self, mut stretch: Stretch, mut from: i64) -> Option<(i64, Stretch)> {
        let limit = from.saturating_add(HORIZON_SECONDS);
        loop {
            if let Some(fire) = self.first_in(&stretch, from, limit) {
                return Some((fire, stretch));
            }
            from = stretch.end;
            if from >= limit {
                return None;
            }
            stretch = stretch.next(self.zone)?;
        }
    }

    fn first_in(&self, stretch: &Stretch, from: i64, until: i64) -> Option<i64> {
        if from == stretch.start && self.owes_gap_fire(stretch) {
            return Some(from);
        }
        let (start, end) = self.walls(stretch, from, until);
        Some(self.cron.calendar.first_in(start, end)? - stretch.offset)
    }

    pub(super) fn latest_at_or_before(&self, at: Timestamp) -> Option<Timestamp> {
        let at = floor_second(at);
        let limit = at.saturating_sub(HORIZON_SECONDS);
        let mut stretch = Stretch::at(self.zone, at)?;
        loop {
            let (start, end) = self.walls(&stretch, limit, at + 1);
            if let Some(wall) = self.cron.calendar.last_in(start, end) {
                return timestamp(wall - stretch.offset);
            }
            if stretch.start < limit {
                return None;
            }
            if self.owes_gap_fire(&stretch) {
                return timestamp(stretch.start);
            }
            stretch = stretch.previous(self.zone)?;
        }
    }

    pub(super) fn count_between(&self, after: Timestamp, until: Timestamp) -> u64 {
        let (mut from, until) = (floor_second(after) + 1, floor_second(until) + 1);
        let mut count = 0;
        while from < until {
            let Some(stretch) = Stretch::at(self.zone, from) else {
                break;
            };
            let (start, end) = self.walls(&stretch, from, until);
            count += self.cron.calendar.count_in(start, end);
            // The first instant behind a gap may be named by itself as well; it is one fire.
            if from == stretch.start && self.owes_gap_fire(&stretch) {
                let named =
                    start == from + stretch.offset && self.cron.calendar.first_in(start, end.min(start + 1)).is_some();
                count += u64::from(!named);
            }
            from = stretch.end;
        }
        count
    }

    /// The wall seconds of the stretch that fire in it, between two instants.
    fn walls(&self, stretch: &Stretch, from: i64, until: i64) -> (i64, i64) {
        let (mut start, mut end) = (from.max(stretch.start), until.min(stretch.end));
        start += stretch.offset;
        end += stretch.offset;
        if self.dst.overlap == DstOverlap::First && stretch.before > stretch.offset {
            start = start.max(stretch.start + stretch.before);
        }
        if self.dst.overlap == DstOverlap::Second && stretch.after < stretch.offset {
            end = end.min(stretch.end + stretch.after);
        }
        (start, end)
    }

    /// Whether a time in the gap before the stretch fires at its start.
    fn owes_gap_fire(&self, stretch: &Stretch) -> bool {
        let (gap_start, gap_end) = (stretch.start + stretch.before, stretch.start + stretch.offset);
        self.dst.gap == DstGap::Next && self.cron.calendar.first_in(gap_start, gap_end).is_some()
    }
}

/// The whole second at or before an instant.
fn floor_second(at: Timestamp) -> i64 {
    at.as_second() - i64::from(at.subsec_nanosecond() < 0)
}

pub(super) fn timestamp(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}

fn seconds(offset: jiff::tz::Offset) -> i64 {
    i64::from(offset.seconds())
}

fn offset_at(zone: &TimeZone, second: i64) -> Option<i64> {
    Some(seconds(zone.to_offset(timestamp(second)?)))
}
