//! Calendars: named sets of days and times at which nothing may run.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Days and stretches of time that are excluded from the schedules that use this calendar.
#[derive(Debug, Clone)]
pub struct Calendar {
    /// The zone in which its days begin and end.
    pub zone: TimeZone,
    /// Whole days, such as holidays.
    pub days: Vec<Date>,
    /// Stretches, the beginning included and the end not, such as a maintenance window.
    pub stretches: Vec<(Timestamp, Timestamp)>,
}

impl Calendar {
    /// Whether nothing may run at this instant.
    pub fn excludes(&self, at: Timestamp) -> bool {
        self.excluded_since(at).is_some()
    }

    /// Since when nothing may run, if nothing may run at this instant: the beginning of the earliest entry that holds
    /// it, so that many slots in one entry can be passed over in one step.
    pub fn excluded_since(&self, at: Timestamp) -> Option<Timestamp> {
        let local = at.to_zoned(self.zone.clone());
        let day = self.days.contains(&local.date()).then(|| local.start_of_day().map_or(at, |start| start.timestamp()));
        let stretches = self.stretches.iter().filter(|(from, to)| *from <= at && at < *to).map(|(from, _)| *from);
        stretches.chain(day).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d11_a_holiday_is_a_day_of_its_own_zone() {
        let calendar = Calendar {
            zone: TimeZone::get("Europe/Berlin").unwrap(),
            days: vec![Date::constant(2026, 12, 25)],
            stretches: vec![("2026-12-31T10:00:00Z".parse().unwrap(), "2026-12-31T11:00:00Z".parse().unwrap())],
        };
        let excluded = |text: &str| calendar.excludes(text.parse().unwrap());
        assert!(excluded("2026-12-24T23:00:00Z"));
        assert!(!excluded("2026-12-25T23:00:00Z"));
        assert!(excluded("2026-12-31T10:00:00Z"));
        assert!(!excluded("2026-12-31T11:00:00Z"));
    }
}
