//! When slots are, by plain arithmetic: only rhythms that need no calendar.

/// Microseconds since 1970.
pub type Micros = i64;

/// One second.
pub const SECOND: Micros = 1_000_000;

/// A rhythm without months, zones or clock changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// So many seconds after the anchor, and again.
    Every(i64),
    /// At every minute of the hour that so many minutes divide, in UTC.
    Minutes(i64),
    /// Once.
    At(Micros),
}

impl Beat {
    /// All slots after one instant, up to another, one by one.
    pub fn between(self, anchor: Micros, after: Micros, until: Micros) -> Vec<Micros> {
        let mut found = Vec::new();
        let mut slot = self.next(anchor, after);
        while let Some(at) = slot.filter(|at| *at <= until) {
            found.push(at);
            slot = self.next(anchor, at);
        }
        found
    }

    /// The first slot after an instant.
    pub fn next(self, anchor: Micros, after: Micros) -> Option<Micros> {
        match self {
            Self::Every(seconds) => Some(next_multiple(anchor, seconds * SECOND, after.max(anchor))),
            Self::Minutes(minutes) => Some(next_multiple(0, minutes * 60 * SECOND, after)),
            Self::At(at) => (at > after).then_some(at),
        }
    }
}

fn next_multiple(from: Micros, step: Micros, after: Micros) -> Micros {
    let mut slot = from + (after - from) / step * step;
    while slot <= after {
        slot += step;
    }
    slot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d05_beats_are_listed_one_by_one() {
        let listed = Beat::Every(7).between(100 * SECOND, 0, 121 * SECOND);
        assert_eq!(listed, [107 * SECOND, 114 * SECOND, 121 * SECOND]);
        assert_eq!(Beat::Minutes(15).next(0, 899 * SECOND), Some(900 * SECOND));
        assert_eq!(Beat::Minutes(15).next(0, 900 * SECOND), Some(1800 * SECOND));
        assert_eq!(Beat::At(5).between(0, 4, 9), [5]);
        assert_eq!(Beat::At(5).next(0, 5), None);
    }
}
