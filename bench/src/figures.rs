//! Figures as ratios: what was measured beside its reference, medians with their spread.

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
    /// Slots fired in batches.
    Fire,
}

impl Figure {
    fn words(self) -> &'static str {
        match self {
            Self::EnqueueBatched => "enqueue, batches of 500",
            Self::EnqueueSingle => "enqueue, one by one",
            Self::EnqueueManyCallers => "enqueue, one by one, 64 callers",
            Self::ClaimAndFinish => "claim + finish, batches of 500",
            Self::Fire => "fire, batches of 500",
        }
    }
}

/// Collects rounds and prints the table.
#[derive(Debug)]
pub struct Report {
    title: &'static str,
    rounds: usize,
    ours: BTreeMap<Figure, Vec<f64>>,
    reference: BTreeMap<Figure, Vec<f64>>,
}

impl Report {
    /// An empty report.
    pub fn new(title: &'static str, rounds: usize) -> Self {
        Self { title, rounds, ours: BTreeMap::new(), reference: BTreeMap::new() }
    }

    /// Adds what one round measured on one side.
    pub fn add(&mut self, figure: Figure, ours: Option<f64>, reference: Option<f64>) {
        self.ours.entry(figure).or_default().extend(ours);
        self.reference.entry(figure).or_default().extend(reference);
    }

    /// One line for each figure: medians of both sides, the ratio, and how far the rounds lay apart.
    pub fn print(&self) {
        println!("{}; medians of {} rounds in alternating order", self.title, self.rounds);
        println!("{:<34} {:>12} {:>12} {:>7}  spread", "", "raw/s", "store/s", "ratio");
        for (figure, ours) in &self.ours {
            let reference = &self.reference[figure];
            let (ours_median, reference_median) = (median(ours), median(reference));
            println!(
                "{:<34} {reference_median:>12.0} {ours_median:>12.0} {:>7.2}  raw {}, store {}",
                figure.words(),
                ours_median / reference_median,
                spread(reference),
                spread(ours),
            );
        }
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle of what was measured.
pub fn median(values: &[f64]) -> f64 {
    sorted(values).get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn spread(values: &[f64]) -> String {
    match sorted(values).as_slice() {
        [first, .., last] => format!("{first:.0}..{last:.0}"),
        _ => "-".to_owned(),
    }
}
