//! How fast jobs come to their end at a node, which says how many are worth claiming ahead.

use std::time::Duration;

/// What is claimed ahead is done within about this time, if jobs go on to end as fast as they do.
const AHEAD: Duration = Duration::from_millis(100);

/// A pace that was seen for less than this says little: two runs that end beside each other are not a thousand a second.
const SPAN: Duration = Duration::from_millis(33);

/// The most jobs in one claim or one report while more follow, unless more run at once. A claim steps over what the ones
/// before it left behind in the index, and so few large ones cost less than many; beyond this it is little that they gain.
pub const BATCH: usize = 4000;

/// What is claimed ahead is so many batches: one is worked through while the next two are on their way.
const BATCHES: usize = 3;

/// The most jobs that are claimed ahead, unless the node is told to claim more.
const MOST: usize = BATCHES * BATCH;

/// What is claimed ahead takes about this much memory at most, by what the last ones took.
const MOST_BYTES: usize = 32 << 20;

/// The pace of one node.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// What is claimed ahead at least; nothing at all when this is 0.
    least: usize,
    ahead: usize,
    /// Bounded by how large jobs are.
    most: usize,
    /// When the last look was, and how many runs had ended until then.
    looked_at: Duration,
    ends: u64,
}

impl Pace {
    /// Nothing is known yet but how many runs have ended before.
    pub(crate) fn new(least: usize, ends: u64, now: Duration) -> Self {
        Self { least, ahead: least, most: MOST, looked_at: now, ends }
    }

    /// How many are worth claiming ahead.
    pub(crate) fn ahead(&self) -> usize {
        self.ahead
    }

    /// How many are worth a claim or a report of their own while more follow.
    pub(crate) fn batch(&self) -> usize {
        self.ahead / BATCHES
    }

    /// So many runs have ended until now. It rises at once, and falls by halves: a single pause says little.
    pub(crate) fn saw(&mut self, ends: u64, now: Duration) {
        let took = now.saturating_sub(self.looked_at);
        let ended = ends.saturating_sub(self.ends);
        (self.looked_at, self.ends) = (now, ends);
        // Where no time passes, as on a clock that stands still, nothing can be said about the pace.
        if self.least == 0 || took.is_zero() {
            return;
        }
        let within = AHEAD.as_nanos().saturating_mul(u128::from(ended));
        let worth = usize::try_from(within / took.max(SPAN).as_nanos()).unwrap_or(MOST);
        self.ahead = worth.max(self.ahead / 2).min(self.most).max(self.least);
    }

    /// So many jobs came with inputs of so many bytes in sum: where they are large, fewer are kept in memory.
    pub(crate) fn came(&mut self, jobs: usize, bytes: usize) {
        if let Some(each) = bytes.checked_div(jobs) {
            self.most = MOST_BYTES.checked_div(each).unwrap_or(MOST).min(MOST);
        }
    }

    /// What was claimed ahead had to wait: from the beginning again.
    pub(crate) fn slow_down(&mut self) {
        self.ahead = self.least;
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH, MOST, Pace};
    use std::time::Duration;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn who_is_slow_claims_no_more_than_told() {
        let mut pace = Pace::new(4, 0, at(0));
        pace.saw(8, at(1000));
        assert_eq!(pace.ahead(), 4);
    }

    #[test]
    fn who_is_fast_claims_what_is_done_within_a_moment() {
        let mut pace = Pace::new(4, 100, at(0));
        pace.saw(300, at(33));
        assert_eq!((pace.ahead(), pace.batch()), (606, 202), "those before it are not counted");
        pace.saw(10_300, at(73));
        assert_eq!((pace.ahead(), pace.batch()), (MOST, BATCH));
    }

    /// Runs of 200 ms at eight places end one after the other: two that happen to end beside each other are no pace.
    #[test]
    fn a_run_that_ends_right_after_another_lets_no_more_be_claimed_ahead() {
        let mut pace = Pace::new(4, 0, at(0));
        for (ends, now) in [(1, 24), (2, 26), (4, 27), (5, 100), (6, 101)] {
            pace.saw(ends, at(now));
            assert!(pace.ahead() <= 6, "{} after {ends}", pace.ahead());
        }
    }

    #[test]
    fn it_falls_by_halves_and_not_below_the_least() {
        let mut pace = Pace::new(4, 0, at(0));
        pace.saw(40_000, at(1));
        let falls: Vec<usize> = (0..12)
            .map(|n| {
                pace.saw(40_000, at(500 * (n + 1)));
                pace.ahead()
            })
            .collect();
        assert_eq!(falls, [6000, 3000, 1500, 750, 375, 187, 93, 46, 23, 11, 5, 4]);
    }

    #[test]
    fn where_jobs_are_large_fewer_are_claimed_ahead() {
        let mut pace = Pace::new(4, 0, at(0));
        pace.came(10, 10 << 20);
        pace.saw(10_000, at(1));
        assert_eq!(pace.ahead(), 32);
        pace.came(10, 640 << 20);
        pace.saw(20_000, at(2));
        assert_eq!(pace.ahead(), 4, "not fewer than told");
        pace.came(10, 20);
        pace.saw(30_000, at(3));
        assert_eq!(pace.ahead(), MOST);
    }

    #[test]
    fn a_clock_that_stands_still_says_nothing() {
        let mut pace = Pace::new(4, 0, at(0));
        pace.saw(1000, at(0));
        assert_eq!(pace.ahead(), 4);
    }

    #[test]
    fn who_is_told_to_claim_nothing_ahead_never_does() {
        let mut pace = Pace::new(0, 0, at(0));
        pace.saw(100_000, at(1));
        assert_eq!(pace.ahead(), 0);
    }
}
