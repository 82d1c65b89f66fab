//! Figures of both sides, and the ratio between them: medians of rounds, and how far these lay apart.

use super::facts::StoreKind;
use serde::Serialize;

/// What is measured on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Jobs claimed, run and finished in a second, out of a full queue.
    Drain,
    /// Jobs enqueued in a second by one caller who waits for each.
    EnqueueSingle,
    /// The same by 16 callers at once.
    EnqueueCallers,
    /// The same in batches of 1,000.
    EnqueueBatched,
    /// Milliseconds from the call that enqueues to the start, on an idle node: the median.
    StartP50,
    /// The same: all but one of a hundred are faster.
    StartP99,
    /// Slots fired in a second, out of 1,000 that are due.
    Fire,
    /// The same by 50 who claim at once.
    FireClaimers,
    /// Milliseconds of one such claim: all but one of a hundred are faster.
    ClaimP99,
    /// Bytes of write-ahead log for the whole life of a job.
    WalPerJob,
}

impl Measure {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 10] = [
        Self::Drain,
        Self::EnqueueSingle,
        Self::EnqueueCallers,
        Self::EnqueueBatched,
        Self::StartP50,
        Self::StartP99,
        Self::Fire,
        Self::FireClaimers,
        Self::ClaimP99,
        Self::WalPerJob,
    ];

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Drain => "drain, jobs/s",
            Self::EnqueueSingle => "enqueue one by one, jobs/s",
            Self::EnqueueCallers => "enqueue one by one, 16 callers, jobs/s",
            Self::EnqueueBatched => "enqueue in batches of 1,000, jobs/s",
            Self::StartP50 => "enqueue to start when idle, p50 ms",
            Self::StartP99 => "enqueue to start when idle, p99 ms",
            Self::Fire => "fire 1,000 due schedules, slots/s",
            Self::FireClaimers => "the same by 50 claimers, slots/s",
            Self::ClaimP99 => "one of their claims, p99 ms",
            Self::WalPerJob => "write-ahead log, bytes a job",
        }
    }

    /// Whether more is better.
    pub fn is_rate(self) -> bool {
        !matches!(self, Self::StartP50 | Self::StartP99 | Self::ClaimP99 | Self::WalPerJob)
    }

    fn goal(self, store: StoreKind) -> Option<Goal> {
        match (store, self) {
            (StoreKind::Sqlite, Self::Drain) => Some(Goal::RatioAtLeast(0.5)),
            (StoreKind::Sqlite, _) => None,
            (StoreKind::Postgres, Self::Drain) => Some(Goal::RatioAtLeast(0.85)),
            (StoreKind::Postgres, Self::StartP50) => Some(Goal::RatioAtMost(1.5)),
            (StoreKind::Postgres, Self::StartP99) => Some(Goal::RatioAtMost(2.0)),
            (StoreKind::Postgres, Self::ClaimP99) => Some(Goal::AtMost(100.0)),
            (StoreKind::Postgres, Self::WalPerJob) => Some(Goal::RatioAtMost(1.15)),
            (StoreKind::Postgres, _) => Some(Goal::RatioAtLeast(0.8)),
        }
    }
}

/// What Punctual means to reach on a database of its own on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// At least so much of what hand-written SQL reaches.
    RatioAtLeast(f64),
    /// At most so much of what hand-written SQL takes.
    RatioAtMost(f64),
    /// At most so much, whatever the other takes.
    AtMost(f64),
}

/// How one side does beside the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The middle of the rounds; of latencies, that of all rounds together.
    pub middle: f64,
    /// That of the round in which it was least.
    pub low: f64,
    /// And most.
    pub high: f64,
}

/// One line of the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured.
    pub measure: Measure,
    /// Hand-written SQL, where it can be measured.
    pub raw: Option<f64>,
    /// Punctual.
    pub punctual: f64,
    /// Only if the database is durable, and every job accounted for.
    pub ratio: Option<Ratio>,
    /// What is meant to be reached.
    pub goal: Option<Goal>,
    /// Whether it was, if the ratio counts.
    pub goal_met: Option<bool>,
}

/// What the rounds measured on one side.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// One value for each round.
    rounds: Vec<f64>,
    /// What was measured many times in each round, in milliseconds.
    all: Vec<f64>,
}

impl Sample {
    pub(super) fn add(&mut self, value: f64) {
        self.rounds.push(value);
    }

    /// A share of what was measured in this round.
    pub(super) fn add_many(&mut self, values: &[f64], share: f64) {
        self.rounds.push(percentile(values, share));
        self.all.extend(values);
    }

    fn value(&self, share: f64) -> Option<f64> {
        match (self.all.is_empty(), self.rounds.is_empty()) {
            (false, _) => Some(percentile(&self.all, share)),
            (true, false) => Some(percentile(&self.rounds, 0.5)),
            (true, true) => None,
        }
    }
}

/// Which of many is meant.
fn share(measure: Measure) -> f64 {
    if matches!(measure, Measure::StartP99 | Measure::ClaimP99) { 0.99 } else { 0.5 }
}

/// Adds a round's measurements of something that is measured many times.
pub(super) fn add_latencies(sample: &mut Sample, measure: Measure, milliseconds: &[f64]) {
    sample.add_many(milliseconds, share(measure));
}

/// One line, if Punctual was measured. `counts` says whether a ratio may be given.
pub(super) fn figure(
    measure: Measure, store: StoreKind, raw: &Sample, punctual: &Sample, counts: bool,
) -> Option<Figure> {
    let value = punctual.value(share(measure))?;
    let reference = raw.value(share(measure));
    let ratio = if counts { ratio(measure, raw, punctual) } else { None };
    let goal = measure.goal(store);
    let goal_met = match (goal, ratio) {
        (Some(Goal::RatioAtLeast(least)), Some(ratio)) => Some(ratio.middle >= least),
        (Some(Goal::RatioAtMost(most)), Some(ratio)) => Some(ratio.middle <= most),
        (Some(Goal::AtMost(most)), Some(_)) => Some(value <= most),
        _ => None,
    };
    Some(Figure { measure, raw: reference, punctual: value, ratio, goal, goal_met })
}

fn ratio(measure: Measure, raw: &Sample, punctual: &Sample) -> Option<Ratio> {
    let each: Vec<f64> = punctual.rounds.iter().zip(&raw.rounds).map(|(ours, raw)| ours / raw).collect();
    let together = punctual.value(share(measure))? / raw.value(share(measure))?;
    let middle = if punctual.all.is_empty() { percentile(&each, 0.5) } else { together };
    Some(Ratio { middle, low: percentile(&each, 0.0), high: percentile(&each, 1.0) })
}

/// The value that a share of all are not above: the nearest that was measured.
pub(super) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let wanted = f64::from(u32::try_from(sorted.len()).unwrap_or(u32::MAX)) * share;
    let place = (1..sorted.len()).take_while(|n| f64::from(u32::try_from(*n).unwrap_or(u32::MAX)) < wanted).count();
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(values: &[f64]) -> Sample {
        Sample { rounds: values.to_vec(), all: Vec::new() }
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        let at = |share: f64| percentile(&hundred, share);
        assert_eq!([at(0.0), at(0.5), at(0.99), at(1.0)].map(|value| value.to_string()), ["1", "50", "99", "100"]);
        assert_eq!(percentile(&[3.0, 1.0, 2.0], 0.5).to_bits(), 2.0_f64.to_bits());
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn a_ratio_is_the_middle_of_the_rounds_and_not_the_ratio_of_the_middles() {
        let (raw, ours) = (rounds(&[100.0, 10.0, 50.0]), rounds(&[90.0, 9.0, 60.0]));
        let figure = figure(Measure::Drain, StoreKind::Postgres, &raw, &ours, true).unwrap();
        let ratio = figure.ratio.unwrap();
        assert!((ratio.middle - 0.9).abs() < 1e-9 && (ratio.low - 0.9).abs() < 1e-9 && (ratio.high - 1.2).abs() < 1e-9);
        assert_eq!(figure.goal_met, Some(true));
    }

    #[test]
    fn what_may_not_count_has_its_values_and_neither_ratio_nor_goal() {
        let (raw, ours) = (rounds(&[100.0]), rounds(&[99.0]));
        let figure = figure(Measure::Drain, StoreKind::Postgres, &raw, &ours, false).unwrap();
        assert_eq!((figure.ratio, figure.goal_met, figure.raw), (None, None, Some(100.0)));
    }

    #[test]
    fn goals_look_in_the_right_direction() {
        let met = |measure, store, raw: f64, ours: f64| {
            figure(measure, store, &rounds(&[raw]), &rounds(&[ours]), true).unwrap().goal_met
        };
        assert_eq!(met(Measure::Drain, StoreKind::Postgres, 100.0, 84.0), Some(false));
        assert_eq!(met(Measure::Drain, StoreKind::Sqlite, 100.0, 51.0), Some(true));
        assert_eq!(met(Measure::StartP50, StoreKind::Postgres, 1.0, 1.6), Some(false));
        assert_eq!(met(Measure::ClaimP99, StoreKind::Postgres, 1.0, 99.0), Some(true));
        assert_eq!(met(Measure::WalPerJob, StoreKind::Postgres, 100.0, 116.0), Some(false));
        assert_eq!(met(Measure::EnqueueSingle, StoreKind::Sqlite, 1.0, 1.0), None);
    }

    #[test]
    fn without_a_reference_there_is_no_ratio() {
        let figure = figure(Measure::Drain, StoreKind::Postgres, &Sample::default(), &rounds(&[5.0]), true).unwrap();
        assert_eq!((figure.raw, figure.ratio, figure.goal_met), (None, None, None));
    }
}
