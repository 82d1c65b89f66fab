//! Figures as ratios: what was measured beside its reference, medians with their spread.

use crate::report::{Bar, Bars, Cell, Group, Mark, Plot, Table, Tone};
use std::collections::BTreeMap;

/// What is measured, in units per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Jobs enqueued in batches.
    EnqueueBatched,
    /// Jobs enqueued one by one, by one caller.
    EnqueueSingle,
    /// Jobs enqueued one by one, by many callers at once.
    EnqueueManyCallers,
    /// Jobs claimed and finished in batches.
    ClaimAndFinish,
    /// The same a few at a time.
    ClaimAndFinishFew,
    /// The same by several nodes at once.
    ClaimAndFinishTogether,
    /// Slots fired in batches.
    Fire,
    /// Bytes of write-ahead log for each job, enqueued in batches.
    WalOfEnqueue,
    /// Bytes of write-ahead log for each job, claimed and finished in batches.
    WalOfClaimAndFinish,
    /// Bytes of write-ahead log for each slot that is fired.
    WalOfFire,
    /// Processor time of program and server together, for each job enqueued in batches.
    CpuOfEnqueue,
    /// The same for each job enqueued by itself.
    CpuOfSingle,
    /// The same by many callers.
    CpuOfMany,
    /// The same for each job claimed and finished in batches.
    CpuOfClaimAndFinish,
    /// The same for each slot that is fired.
    CpuOfFire,
}

impl Figure {
    /// Whether less is better.
    fn is_cost(self) -> bool {
        self >= Self::WalOfEnqueue
    }

    fn words(self) -> &'static str {
        match self {
            Self::EnqueueBatched => "enqueue, batches of 500",
            Self::EnqueueSingle => "enqueue, one by one",
            Self::EnqueueManyCallers => "enqueue, one by one, 64 callers",
            Self::ClaimAndFinish => "claim + finish, batches of 500",
            Self::ClaimAndFinishFew => "claim + finish, 10 at a time",
            Self::ClaimAndFinishTogether => "the same, 4 nodes at once",
            Self::Fire => "fire, batches of 500",
            Self::WalOfEnqueue => "WAL bytes a job, enqueue",
            Self::WalOfClaimAndFinish => "WAL bytes a job, claim + finish",
            Self::WalOfFire => "WAL bytes a slot, fire",
            Self::CpuOfEnqueue => "CPU µs a job, enqueue",
            Self::CpuOfSingle => "CPU µs a job, enqueue one by one",
            Self::CpuOfMany => "CPU µs a job, the same, 64 callers",
            Self::CpuOfClaimAndFinish => "CPU µs a job, claim + finish",
            Self::CpuOfFire => "CPU µs a slot, fire",
        }
    }
}

/// Collects rounds, and makes a table and bars of them.
#[derive(Debug)]
pub struct Report {
    /// What the reference and what is measured are called.
    sides: [&'static str; 2],
    ours: BTreeMap<Figure, Vec<f64>>,
    reference: BTreeMap<Figure, Vec<f64>>,
}

impl Report {
    /// An empty report.
    pub fn new(sides: [&'static str; 2]) -> Self {
        Self { sides, ours: BTreeMap::new(), reference: BTreeMap::new() }
    }

    /// Adds what one round measured on one side.
    pub fn add(&mut self, figure: Figure, (ours, reference): (Option<f64>, Option<f64>)) {
        self.ours.entry(figure).or_default().extend(ours);
        self.reference.entry(figure).or_default().extend(reference);
    }

    /// One line for each figure: medians of both sides, the median of the ratios that the rounds had, and how far these
    /// lay apart: the middle half.
    pub fn table(&self, words: &str) -> Table {
        let [reference, ours] = self.sides;
        let mut table = Table::new(words, ["per second unless said", reference, ours, "ratio", "middle half"]);
        for (figure, ours) in &self.ours {
            let ratios = self.ratios(*figure);
            let reference = median(&self.reference[figure]);
            table.row([
                Cell::words(figure.words()),
                Cell::number(reference, 0),
                Cell::number(median(ours), 0),
                Cell::number(median(&ratios), 2),
                Cell::range(middle_half(&ratios), 2),
            ]);
        }
        table
    }

    /// The ratios as bars: of speeds, or of what it costs.
    pub fn bars(&self, costs: bool) -> Vec<Bar> {
        let figures = self.ours.keys().filter(|figure| figure.is_cost() == costs);
        let bar = |figure: &Figure| {
            let ratios = self.ratios(*figure);
            Bar::new(figure.words(), Tone::Ours, median(&ratios), Some(middle_half(&ratios)))
        };
        figures.map(bar).collect()
    }

    /// The median of the ratios that the rounds had.
    pub fn ratio(&self, figure: Figure) -> f64 {
        median(&self.ratios(figure))
    }

    /// What each round of ours was to the reference's.
    fn ratios(&self, figure: Figure) -> Vec<f64> {
        let of = |side: &BTreeMap<Figure, Vec<f64>>| side.get(&figure).cloned().unwrap_or_default();
        of(&self.ours).iter().zip(of(&self.reference)).map(|(ours, reference)| ours / reference).collect()
    }
}

/// Bars that are ratios, with the line at which they are as good as the reference.
pub fn ratio_bars(title: &str, groups: Vec<(&str, Vec<Bar>)>, marks: Vec<Mark>) -> Plot {
    let groups = groups.into_iter().map(|(name, bars)| Group { name: name.to_owned(), bars }).collect();
    Plot::Bars(Bars { title: title.to_owned(), unit: String::new(), digits: 2, groups, marks })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle of what was measured.
pub fn median(values: &[f64]) -> f64 {
    percentile(values, 50)
}

/// Where the middle half of what was measured begins and ends.
pub fn middle_half(values: &[f64]) -> (f64, f64) {
    let sorted = sorted(values);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
    (at(sorted.len() / 4), at(sorted.len() * 3 / 4))
}

/// The value that so many of a hundred do not exceed, by nearest rank: one that was measured, and the greatest only if
/// fewer than a hundred were.
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let rank = (values.len() * percent).div_ceil(100).max(1);
    sorted(values).get(rank - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured_by_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let at = |percent| percentile(&hundred, percent).to_string();
        assert_eq!([0, 1, 50, 99, 100].map(at), ["1", "1", "50", "99", "100"]);
        assert_eq!(percentile(&hundred[..20], 99).to_string(), "100", "the greatest of few");
        assert_eq!((median(&[3.0, 1.0, 2.0]).to_string(), median(&[7.0]).to_string()), ("2".into(), "7".into()));
        assert!(percentile(&[], 50).is_nan() && median(&[]).is_nan());
    }
}
