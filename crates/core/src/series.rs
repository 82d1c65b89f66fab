//! How runs ended over time and how long they waited and took, in buckets of one length (D12).
//!
//! A bucket holds the runs that ended in it. Percentiles are nearest ranks, as [`Spread`] has them, in every store.

use crate::duration::format_duration;
use crate::invalid::Invalid;
use crate::run::Outcome;
use crate::statistics::Spread;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// The shortest and the longest time that a series goes back.
const WINDOWS: (SignedDuration, SignedDuration) = (SignedDuration::from_mins(5), SignedDuration::from_hours(24 * 31));

/// The fewest buckets of a series, beside the one that is not over.
const BUCKETS_MIN: i64 = 60;

/// The most buckets of a series.
pub const BUCKETS_MAX: usize = 170;

/// The lengths that a bucket may have, in seconds; none is more than two and a half times the one before it.
const STEPS: [i64; 17] =
    [5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_200, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];

/// The buckets that were asked for: the first begins at `since`, and the last is the one in which `until` lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesPlan {
    /// When the first bucket begins.
    pub since: Timestamp,
    /// Now.
    pub until: Timestamp,
    /// How long each is; all of them begin at a multiple of it since 1970.
    pub step: SignedDuration,
}

impl SeriesPlan {
    /// The buckets that cover a window up to now.
    pub fn of(window: SignedDuration, now: Timestamp) -> Result<Self, Invalid> {
        let (shortest, longest) = WINDOWS;
        if window < shortest || window > longest {
            let bounds = format!("is not between {} and {}", format_duration(shortest), format_duration(longest));
            return Err(Invalid::new("window", bounds).remedy("ask for 1h, 24h or 7d, for example"));
        }
        let fits = |step: &&i64| window.as_secs() / **step >= BUCKETS_MIN;
        let step = STEPS.iter().rev().find(fits).copied().unwrap_or(STEPS[0]);
        let earliest = now.as_second().saturating_sub(window.as_secs());
        let since = Timestamp::from_second(earliest.div_euclid(step) * step).unwrap_or(Timestamp::UNIX_EPOCH);
        Ok(Self { since, until: now, step: SignedDuration::from_secs(step) })
    }

    /// When each bucket begins, from the first to the last.
    pub fn begins(&self) -> impl Iterator<Item = Timestamp> + use<> {
        let Self { since, until, step } = *self;
        let next = move |at: &Timestamp| at.checked_add(step).ok().filter(|at| *at <= until);
        std::iter::successors(Some(since), next)
    }
}

/// The runs that ended within a length of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesBucket {
    /// When it begins.
    pub at: Timestamp,
    /// How the runs ended, retries counted each; what there was none of is absent.
    pub ended: BTreeMap<Outcome, u64>,
    /// From when a job could begin (it was made, or its `run_at` came) until a node had claimed it.
    pub queue_time: Option<Spread>,
    /// From the beginning of a run to its end.
    pub duration: Option<Spread>,
}

impl SeriesBucket {
    /// A bucket in which nothing ended.
    pub fn empty(at: Timestamp) -> Self {
        Self { at, ended: BTreeMap::new(), queue_time: None, duration: None }
    }
}

/// A run that ended, for stores that cannot rank by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesSample {
    /// When.
    pub finished_at: Timestamp,
    /// How.
    pub outcome: Outcome,
    /// How long it waited and how long it took; `None` when it never began.
    pub lengths: Option<(SignedDuration, SignedDuration)>,
}

/// Puts runs into buckets of one length from an instant on; only buckets in which something ended come out.
pub fn buckets_of(samples: Vec<SeriesSample>, from: Timestamp, step: SignedDuration) -> Vec<SeriesBucket> {
    let step_us = i64::try_from(step.as_micros()).unwrap_or(i64::MAX).max(1);
    let mut grouped: BTreeMap<i64, Vec<SeriesSample>> = BTreeMap::new();
    for sample in samples {
        let place = (sample.finished_at.as_microsecond() - from.as_microsecond()).div_euclid(step_us);
        grouped.entry(place).or_default().push(sample);
    }
    let bucket = |(place, samples): (i64, Vec<SeriesSample>)| {
        let at = Timestamp::from_microsecond(from.as_microsecond() + place * step_us).unwrap_or(from);
        let mut ended = BTreeMap::new();
        for sample in &samples {
            *ended.entry(sample.outcome).or_default() += 1;
        }
        let lengths = || samples.iter().filter_map(|sample| sample.lengths);
        let queue_time = Spread::of(lengths().map(|(waited, _)| waited.max(SignedDuration::ZERO)));
        SeriesBucket { at, ended, queue_time, duration: Spread::of(lengths().map(|(_, took)| took)) }
    };
    grouped.into_iter().map(bucket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn d12_a_window_has_sixty_buckets_or_somewhat_more() {
        let now = at("2026-03-01T12:34:56.789Z");
        let (shortest, longest) = WINDOWS;
        for (window, step) in [
            (shortest, 5),
            (SignedDuration::from_hours(1), 60),
            (SignedDuration::from_hours(24), 1_200),
            (SignedDuration::from_hours(24 * 7), 7_200),
            (longest, 43_200),
        ] {
            assert_eq!(SeriesPlan::of(window, now).unwrap().step, SignedDuration::from_secs(step), "{window:?}");
        }
        let mut window = shortest;
        while window <= longest {
            let plan = SeriesPlan::of(window, now).unwrap();
            let begins: Vec<Timestamp> = plan.begins().collect();
            assert!((60..=BUCKETS_MAX).contains(&begins.len()), "{window:?}: {} buckets", begins.len());
            assert!(begins[0] <= now - window && begins[0] > now - window - plan.step, "{window:?}");
            assert!(begins.iter().all(|at| at.as_second() % plan.step.as_secs() == 0));
            let last = *begins.last().unwrap();
            assert!(last <= now && now < last + plan.step);
            window += SignedDuration::from_mins(7);
        }
    }

    #[test]
    fn d12_a_window_that_is_too_short_or_too_long_is_refused() {
        let now = at("2026-03-01T00:00:00Z");
        for window in [SignedDuration::from_secs(299), SignedDuration::from_hours(24 * 31 + 1)] {
            let refused = SeriesPlan::of(window, now).unwrap_err();
            assert_eq!(refused.field, "window");
            assert!(refused.to_string().contains("between 5m and 31d"), "{refused}");
        }
    }

    #[test]
    fn d12_runs_are_put_into_the_bucket_in_which_they_ended() {
        let secs = SignedDuration::from_secs;
        let sample = |finished: &str, outcome, lengths: Option<(i64, i64)>| SeriesSample {
            finished_at: at(finished),
            outcome,
            lengths: lengths.map(|(waited, took)| (secs(waited), secs(took))),
        };
        let samples = vec![
            sample("2026-03-01T00:00:00Z", Outcome::Completed, Some((1, 10))),
            sample("2026-03-01T00:02:00Z", Outcome::Cancelled, None),
            sample("2026-03-01T00:00:59.999999Z", Outcome::Failed, Some((-3, 20))),
        ];
        let buckets = buckets_of(samples, at("2026-03-01T00:00:00Z"), secs(60));
        let begins: Vec<String> = buckets.iter().map(|bucket| bucket.at.to_string()).collect();
        assert_eq!(begins, ["2026-03-01T00:00:00Z", "2026-03-01T00:02:00Z"]);
        assert_eq!(buckets[0].ended, [(Outcome::Completed, 1), (Outcome::Failed, 1)].into());
        let waited = buckets[0].queue_time.unwrap();
        assert_eq!((waited.p50, waited.p95, waited.count), (secs(0), secs(1), 2), "no job waits less than nothing");
        assert_eq!(buckets[0].duration.unwrap().p95, secs(20));
        assert_eq!((buckets[1].queue_time, buckets[1].duration), (None, None), "it never began");
    }
}
