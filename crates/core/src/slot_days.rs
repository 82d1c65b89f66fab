//! The slot ledger day by day: what was decided on each, and how the work for it ended (D03).

use crate::run::Outcome;
use crate::slot::{Decision, Reason, SlotRow};
use crate::statistics::SlotTally;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// The most rows of the ledger that are looked at for some days: the latest ones.
pub const DAY_ROWS_MAX: usize = 50_000;

/// The most days that are told at once.
pub const DAYS_MAX: usize = 62;

/// One day of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotDay {
    /// Which.
    pub day: Date,
    /// What was decided, in the order of the words.
    pub tallies: Vec<SlotTally>,
    /// For how many of its slots the last job completed.
    pub completed: u64,
    /// For how many it failed.
    pub failed: u64,
}

/// A day with the instants at which it begins and the next one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaySpan {
    day: Date,
    begins: Timestamp,
    ends: Timestamp,
}

/// The days from one up to another (not included), as a zone has them; `None` beyond what calendars know.
pub fn days_between(from: Date, until: Date, zone: &TimeZone) -> Option<Vec<DaySpan>> {
    let begins = |day: Date| Some(day.to_zoned(zone.clone()).ok()?.timestamp());
    let days = std::iter::successors(Some(from), |day| day.tomorrow().ok()).take_while(|day| *day < until);
    days.map(|day| Some(DaySpan { day, begins: begins(day)?, ends: begins(day.tomorrow().ok()?)? })).collect()
}

/// The time that some days cover.
pub fn time_of(days: &[DaySpan]) -> Option<(Timestamp, Timestamp)> {
    Some((days.first()?.begins, days.last()?.ends))
}

/// Puts rows of the ledger on their days. The slots of a range are taken to lie evenly between its first and its last,
/// which stand where they were.
pub fn by_day(days: &[DaySpan], rows: &[SlotRow], ends: &BTreeMap<Timestamp, Outcome>) -> Vec<SlotDay> {
    let one = |span: &DaySpan| {
        let (mut tallies, mut completed, mut failed) = (BTreeMap::<(Decision, Reason), u64>::new(), 0, 0);
        for row in rows.iter().filter(|row| row.slot_at < span.ends && row.through >= span.begins) {
            let slots = slots_before(row, span.ends) - slots_before(row, span.begins);
            if slots > 0 {
                *tallies.entry((row.decision, row.reason)).or_default() += slots;
            }
            if row.slot_at >= span.begins {
                completed += u64::from(ends.get(&row.slot_at) == Some(&Outcome::Completed));
                failed += u64::from(ends.get(&row.slot_at) == Some(&Outcome::Failed));
            }
        }
        let tally = |((decision, reason), slots)| SlotTally { decision, reason, slots };
        let mut tallies: Vec<SlotTally> = tallies.into_iter().map(tally).collect();
        tallies.sort_by_key(|tally| (tally.decision.as_str(), tally.reason.as_str()));
        SlotDay { day: span.day, tallies, completed, failed }
    };
    days.iter().map(one).collect()
}

/// How many slots of a row lie before an instant.
fn slots_before(row: &SlotRow, instant: Timestamp) -> u64 {
    if instant <= row.slot_at {
        return 0;
    }
    if instant > row.through {
        return row.count;
    }
    let micros = |from: Timestamp, to: Timestamp| i128::from(to.as_microsecond()) - i128::from(from.as_microsecond());
    let gaps = i128::from(row.count.saturating_sub(1));
    let (passed, whole) = (micros(row.slot_at, instant) * gaps, micros(row.slot_at, row.through).max(1));
    // The first of them lies at the beginning.
    u64::try_from((passed + whole - 1) / whole).unwrap_or(row.count).clamp(1, row.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ScheduleId;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn row(slot_at: &str, through: &str, count: u64, decision: Decision, reason: Reason) -> SlotRow {
        SlotRow {
            schedule_id: ScheduleId::from_bytes([1; 16]),
            slot_at: at(slot_at),
            through: at(through),
            count,
            decision,
            reason,
            job_id: None,
            decided_at: at(slot_at),
            node: None,
            late_ms: 0,
            schedule_version: 1,
            note: None,
        }
    }

    fn days(from: &str, until: &str, zone: &str) -> Vec<DaySpan> {
        let zone = TimeZone::get(zone).unwrap();
        days_between(from.parse().unwrap(), until.parse().unwrap(), &zone).unwrap()
    }

    fn counts(days: &[DaySpan], rows: &[SlotRow]) -> Vec<u64> {
        by_day(days, rows, &BTreeMap::new())
            .iter()
            .map(|day| day.tallies.iter().map(|tally| tally.slots).sum())
            .collect()
    }

    #[test]
    fn d03_a_day_begins_at_midnight_of_its_zone() {
        // The day on which Berlin's clocks go forward has 23 hours.
        let days = days("2026-03-28", "2026-03-31", "Europe/Berlin");
        let hours: Vec<i64> = days.iter().map(|day| day.ends.duration_since(day.begins).as_hours()).collect();
        assert_eq!(hours, [24, 23, 24]);
        let fired = |slot: &str| row(slot, slot, 1, Decision::Fired, Reason::OnTime);
        let rows = [fired("2026-03-28T22:59:59Z"), fired("2026-03-28T23:00:00Z"), fired("2026-03-29T22:00:00Z")];
        assert_eq!(counts(&days, &rows), [1, 1, 1]);
    }

    #[test]
    fn d03_the_slots_of_a_range_lie_on_the_days_that_it_covers() {
        let days = days("2026-03-01", "2026-03-06", "UTC");
        let paused = |from: &str, through: &str, count| row(from, through, count, Decision::Skipped, Reason::Paused);
        let hourly = paused("2026-03-01T12:00:00Z", "2026-03-04T11:00:00Z", 72);
        assert_eq!(counts(&days, &[hourly]), [12, 24, 24, 12, 0]);
        let daily = paused("2026-03-02T09:00:00Z", "2026-03-05T09:00:00Z", 4);
        assert_eq!(counts(&days, &[daily]), [0, 1, 1, 1, 1]);
        let first_and_last = paused("2026-03-01T00:00:00Z", "2026-03-05T00:00:00Z", 2);
        assert_eq!(counts(&days, &[first_and_last]), [1, 0, 0, 0, 1]);
        let from_before = paused("2026-02-27T00:00:00Z", "2026-03-02T00:00:00Z", 4);
        assert_eq!(counts(&days, &[from_before]), [1, 1, 0, 0, 0]);
        let every_second = paused("2026-03-01T00:00:00Z", "2026-03-05T23:59:59Z", 432_000);
        assert_eq!(counts(&days, &[every_second]), [86_400; 5]);
    }

    #[test]
    fn d03_a_day_tells_how_the_work_of_its_slots_ended() {
        let days = days("2026-03-01", "2026-03-03", "UTC");
        let fired = |slot: &str| row(slot, slot, 1, Decision::Fired, Reason::OnTime);
        let slots = ["2026-03-01T01:00:00Z", "2026-03-01T02:00:00Z", "2026-03-01T03:00:00Z", "2026-03-02T01:00:00Z"];
        let rows = slots.map(fired);
        let outcomes = [Outcome::Completed, Outcome::Failed, Outcome::Cancelled, Outcome::Failed];
        let ends = slots.into_iter().map(at).zip(outcomes).collect();
        let told = by_day(&days, &rows, &ends);
        assert_eq!(told.iter().map(|day| (day.completed, day.failed)).collect::<Vec<_>>(), [(1, 1), (0, 1)]);
        assert_eq!(told[0].tallies, [SlotTally { decision: Decision::Fired, reason: Reason::OnTime, slots: 3 }]);
    }
}
