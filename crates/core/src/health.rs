//! What a process has noticed to be wrong with the whole, for whoever asks it how things are.

use jiff::{SignedDuration, Timestamp};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a jump of the clock is worth mentioning.
const JUMP_MENTIONED: SignedDuration = SignedDuration::from_mins(5);

/// Schedules that were due and that nobody has decided on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdue {
    /// How many, counted up to a bound.
    pub schedules: usize,
    /// The one that has been due for longest.
    pub longest: String,
    /// Since when.
    pub since: Timestamp,
}

#[derive(Debug, Default)]
struct Noticed {
    overdue: Option<Overdue>,
    jumped: Option<(Timestamp, SignedDuration)>,
}

/// What a node has noticed, shared with the server beside it.
#[derive(Debug, Default)]
pub struct Health(Mutex<Noticed>);

impl Health {
    fn lock(&self) -> MutexGuard<'_, Noticed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is overdue; says whether that is another answer than before.
    pub fn note_overdue(&self, overdue: Option<Overdue>) -> bool {
        let mut noticed = self.lock();
        let other = noticed.overdue.is_some() != overdue.is_some();
        noticed.overdue = overdue;
        other
    }

    /// Notes that the store's clock was found to have jumped.
    pub fn note_jump(&self, at: Timestamp, by: SignedDuration) {
        self.lock().jumped = Some((at, by));
    }

    /// What is wrong, in words, one line for each; nothing when all is well.
    pub fn troubles(&self, now: Timestamp) -> Vec<String> {
        let noticed = self.lock();
        let overdue = noticed.overdue.as_ref().map(|overdue| {
            let Overdue { schedules, longest, since } = overdue;
            let many = if *schedules == 1 { "1 schedule is".to_owned() } else { format!("{schedules} schedules are") };
            format!("{many} overdue, `{longest}` since {since}: nobody fires, or firing cannot keep up")
        });
        let jumped = noticed.jumped.filter(|(at, _)| now.duration_since(*at) < JUMP_MENTIONED).map(|(at, by)| {
            let way = if by.is_negative() { "back" } else { "ahead" };
            let by = crate::duration::format_duration(by.abs());
            format!("the database's clock jumped {by} {way} at {at}")
        });
        overdue.into_iter().chain(jumped).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn n02_what_was_noticed_is_told_until_it_is_over() {
        let health = Health::default();
        assert_eq!(health.troubles(at(0)), Vec::<String>::new());
        let overdue = Overdue { schedules: 2, longest: "nightly".to_owned(), since: at(60) };
        assert!(health.note_overdue(Some(overdue.clone())), "that is news");
        assert!(!health.note_overdue(Some(overdue)), "and now it is none");
        health.note_jump(at(100), SignedDuration::from_secs(-90));
        let told = health.troubles(at(200));
        assert!(told[0].contains("2 schedules are overdue, `nightly` since 1970-01-01T00:01:00Z"), "{told:?}");
        assert!(told[1].contains("jumped 1m30s back"), "{told:?}");
        assert!(health.note_overdue(None));
        assert_eq!(health.troubles(at(100 + 300)), Vec::<String>::new());
    }
}
