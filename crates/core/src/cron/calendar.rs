//! Wall-clock matching: bit masks of times and days, walked without any time zone.
//!
//! A wall second is a date and time of day counted in seconds from 1970-01-01T00:00:00 as if the
//! zone had no offset. Every question is answered month by month, never second by second, so the
//! work is bounded by the number of months looked at.

pub(super) const DAY: i64 = 86_400;

/// Days from 0001-01-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_162;

fn year_start(year: i64) -> i64 {
    let past = year - 1;
    past * 365 + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) - EPOCH_DAYS
}

fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

/// One month of one year, placed on the day line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Month {
    year: i64,
    /// 1 to 12.
    number: u32,
    /// Day number of its first day (1970-01-01 is 0).
    first: i64,
    len: u32,
}

impl Month {
    fn new(year: i64, number: u32, first: i64) -> Month {
        let len = match number {
            4 | 6 | 9 | 11 => 30,
            2 => 28 + u32::from(is_leap(year)),
            _ => 31,
        };
        Month { year, number, first, len }
    }

    pub(super) fn of_day(day: i64) -> Month {
        // A Gregorian cycle is 146 097 days; the estimate is at most one year off.
        let mut year = ((day + EPOCH_DAYS) * 400).div_euclid(146_097) + 1;
        while year_start(year) > day {
            year -= 1;
        }
        while year_start(year + 1) <= day {
            year += 1;
        }
        let mut month = Month::new(year, 1, year_start(year));
        while day >= month.first + i64::from(month.len) {
            month = month.next();
        }
        month
    }

    fn next(self) -> Month {
        let first = self.first + i64::from(self.len);
        match self.number {
            12 => Month::new(self.year + 1, 1, first),
            number => Month::new(self.year, number + 1, first),
        }
    }

    fn previous(self) -> Month {
        let (year, number) = match self.number {
            1 => (self.year - 1, 12),
            number => (self.year, number - 1),
        };
        let month = Month::new(year, number, 0);
        Month { first: self.first - i64::from(month.len), ..month }
    }

    /// Weekday of the 1st, Sunday = 0. The epoch's day was a Thursday.
    fn first_weekday(self) -> u32 {
        u32::try_from((self.first + 4).rem_euclid(7)).unwrap_or(0)
    }

    fn all_days(self) -> u32 {
        days_through(self.len)
    }
}

/// Bits 1 to `day`.
fn days_through(day: u32) -> u32 {
    u32::MAX >> (31 - day) & !1
}

/// Which days match; bit n of a day mask is the nth of the month.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DayRule {
    pub(super) of_month: u32,
    /// `L`
    pub(super) last: bool,
    /// `LW`
    pub(super) last_weekday: bool,
    /// `nW`, one bit per n.
    pub(super) nearest: u32,
    /// Weekdays, Sunday = bit 0.
    pub(super) of_week: u8,
    /// `nL`
    pub(super) last_of_week: u8,
    /// `n#k`: weekdays by k - 1.
    pub(super) nth_of_week: [u8; 5],
    /// Either field is enough: neither day field starts with `*`.
    pub(super) either: bool,
}

impl DayRule {
    fn mask(&self, month: Month) -> u32 {
        let of_month = self.of_month_mask(month);
        let of_week = self.of_week_mask(month);
        if self.either { of_month | of_week } else { of_month & of_week }
    }

    fn of_month_mask(&self, month: Month) -> u32 {
        let mut days = self.of_month & month.all_days();
        if self.last {
            days |= 1 << month.len;
        }
        if self.last_weekday {
            days |= 1 << nearest_weekday(month, month.len);
        }
        let mut nearest = self.nearest & month.all_days();
        while nearest != 0 {
            days |= 1 << nearest_weekday(month, nearest.trailing_zeros());
            nearest &= nearest - 1;
        }
        days
    }

    fn of_week_mask(&self, month: Month) -> u32 {
        let first = month.first_weekday();
        let mut days = weekly(self.of_week, first);
        if self.last_of_week != 0 {
            let last_seven = month.all_days() & !days_through(month.len - 7);
            days |= weekly(self.last_of_week, first) & last_seven;
        }
        for (weekdays, first_day) in self.nth_of_week.iter().zip([1, 8, 15, 22, 29]) {
            if *weekdays != 0 {
                days |= weekly(*weekdays, first) & (0x7f_u32 << first_day);
            }
        }
        days & month.all_days()
    }

    /// Whether some month in `months` of some year has a matching day. There are only fourteen
    /// kinds of year, so all are tried.
    pub(super) fn is_possible(&self, months: u16) -> bool {
        // 2000 to 2027 holds every combination of leap and first weekday.
        let mut month = Month::of_day(year_start(2000));
        while month.year < 2028 {
            if months >> month.number & 1 == 1 && self.mask(month) != 0 {
                return true;
            }
            month = month.next();
        }
        false
    }
}

/// Repeats a week's pattern over a month that begins on weekday `first`.
fn weekly(weekdays: u8, first: u32) -> u32 {
    let week = u32::from(weekdays);
    let turned = ((week | week << 7) >> first) & 0x7f;
    // The factor puts a copy at every seventh bit; what falls off the top is no day.
    turned.wrapping_mul(0x1020_4081) << 1
}

/// The Monday to Friday nearest to `day`, without leaving the month.
fn nearest_weekday(month: Month, day: u32) -> u32 {
    match (month.first_weekday() + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == month.len => day - 2,
        0 => day + 1,
        _ => day,
    }
}

/// Which times of day match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TimeMask {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
}

impl TimeMask {
    fn first(&self) -> i64 {
        join(self.hours.trailing_zeros(), self.minutes.trailing_zeros(), self.seconds.trailing_zeros())
    }

    fn last(&self) -> i64 {
        join(top(self.hours), top(self.minutes), top(self.seconds))
    }

    /// First matching time of day at or after `time`.
    fn at_or_after(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = split(time);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1 {
                let seconds = self.seconds >> second << second;
                if seconds != 0 {
                    return Some(join(hour, minute, seconds.trailing_zeros()));
                }
            }
            let minutes = self.minutes & above(minute);
            if minutes != 0 {
                let second = self.seconds.trailing_zeros();
                return Some(join(hour, minutes.trailing_zeros(), second));
            }
        }
        let hours = self.hours & above(hour);
        (hours != 0).then(|| {
            let (minute, second) = (self.minutes.trailing_zeros(), self.seconds.trailing_zeros());
            join(hours.trailing_zeros(), minute, second)
        })
    }

    /// Last matching time of day before `time`.
    fn before(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = split(time);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1 {
                let seconds = self.seconds & below(second);
                if seconds != 0 {
                    return Some(join(hour, minute, top(seconds)));
                }
            }
            let minutes = self.minutes & below(minute);
            if minutes != 0 {
                return Some(join(hour, top(minutes), top(self.seconds)));
            }
        }
        let hours = self.hours & below(hour);
        (hours != 0).then(|| join(top(hours), top(self.minutes), top(self.seconds)))
    }

    /// Number of matching times of day before `time`.
    fn count_before(&self, time: i64) -> u64 {
        let (hour, minute, second) = split(time);
        let per_minute = ones(self.seconds);
        let per_hour = ones(self.minutes) * per_minute;
        let mut count = ones(self.hours & below(hour)) * per_hour;
        if self.hours >> hour & 1 == 1 {
            count += ones(self.minutes & below(minute)) * per_minute;
            if self.minutes >> minute & 1 == 1 {
                count += ones(self.seconds & below(second));
            }
        }
        count
    }

    fn per_day(&self) -> u64 {
        ones(self.hours) * ones(self.minutes) * ones(self.seconds)
    }
}

fn split(time: i64) -> (u32, u32, u32) {
    let time = u32::try_from(time).unwrap_or(0);
    (time / 3600, time / 60 % 60, time % 60)
}

fn join(hour: u32, minute: u32, second: u32) -> i64 {
    i64::from(hour * 3600 + minute * 60 + second)
}

fn above(bit: u32) -> u64 {
    !1 << bit
}

fn below(bit: u32) -> u64 {
    (1 << bit) - 1
}

/// Index of the highest bit; the mask is never empty.
fn top(mask: u64) -> u32 {
    63 - mask.leading_zeros().min(63)
}

fn ones(mask: u64) -> u64 {
    u64::from(mask.count_ones())
}

/// All fields of an expression as masks: the set of wall seconds it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Calendar {
    pub(super) time: TimeMask,
    pub(super) days: DayRule,
    /// Bit n is month n.
    pub(super) months: u16,
}

impl Calendar {
    fn month_days(&self, month: Month) -> u32 {
        if self.months >> month.number & 1 == 1 { self.days.mask(month) } else { 0 }
    }

    /// First match in `start..end`.
    pub(super) fn first_in(&self, start: i64, end: i64) -> Option<i64> {
        if start >= end {
            return None;
        }
        let (day, time) = (start.div_euclid(DAY), start.rem_euclid(DAY));
        let mut month = Month::of_day(day);
        let of_month = day - month.first + 1;
        let mut days = self.month_days(month) >> of_month << of_month;
        if days >> of_month & 1 == 1 {
            if let Some(time) = self.time.at_or_after(time) {
                return Some(day * DAY + time).filter(|wall| *wall < end);
            }
            days &= days - 1;
        }
        while days == 0 {
            month = month.next();
            if month.first * DAY >= end {
                return None;
            }
            days = self.month_days(month);
        }
        let day = month.first + i64::from(days.trailing_zeros()) - 1;
        Some(day * DAY + self.time.first()).filter(|wall| *wall < end)
    }

    /// Last match in `start..end`.
    pub(super) fn last_in(&self, start: i64, end: i64) -> Option<i64> {
        if start >= end {
            return None;
        }
        let (day, time) = (end.div_euclid(DAY), end.rem_euclid(DAY));
        let mut month = Month::of_day(day);
        let of_month = day - month.first + 1;
        let mut days = self.month_days(month);
        if days >> of_month & 1 == 1
            && let Some(time) = self.time.before(time)
        {
            return Some(day * DAY + time).filter(|wall| *wall >= start);
        }
        days &= (1 << of_month) - 1;
        while days == 0 {
            if month.first * DAY <= start {
                return None;
            }
            month = month.previous();
            days = self.month_days(month);
        }
        let day = month.first + i64::from(top(u64::from(days))) - 1;
        Some(day * DAY + self.time.last()).filter(|wall| *wall >= start)
    }

    /// Number of matches in `start..end`.
    pub(super) fn count_in(&self, start: i64, end: i64) -> u64 {
        if start >= end {
            return 0;
        }
        let (first, last) = (start.div_euclid(DAY), end.div_euclid(DAY));
        let mut whole_days = 0;
        let mut month = Month::of_day(first);
        let starts_on = self.matches_day(month, first);
        loop {
            let (from, to) = (first.max(month.first), last.min(month.first + i64::from(month.len)));
            let shift = from - month.first + 1;
            let days = u64::from(self.month_days(month)) >> shift;
            whole_days += ones(days & below(u32::try_from(to - from).unwrap_or(0)));
            if last < month.first + i64::from(month.len) {
                break;
            }
            month = month.next();
        }
        // Whole days are counted from the start of the first to the start of the last; the two
        // cut-off parts correct that.
        let mut count = whole_days * self.time.per_day();
        if self.matches_day(month, last) {
            count += self.time.count_before(end.rem_euclid(DAY));
        }
        if starts_on {
            count -= self.time.count_before(start.rem_euclid(DAY));
        }
        count
    }

    fn matches_day(&self, month: Month, day: i64) -> bool {
        self.month_days(month) >> (day - month.first + 1) & 1 == 1
    }
}
