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

/// Collects rounds and prints the table.
#[derive(Debug)]
pub struct Report {
    title: &'static str,
    /// What the reference and what is measured are called.
    sides: [&'static str; 2],
    rounds: usize,
    ours: BTreeMap<Figure, Vec<f64>>,
    reference: BTreeMap<Figure, Vec<f64>>,
}

impl Report {
    /// An empty report.
    pub fn new(title: &'static str, sides: [&'static str; 2], rounds: usize) -> Self {
        Self { title, sides, rounds, ours: BTreeMap::new(), reference: BTreeMap::new() }
    }

    /// Adds what one round measured on one side.
    pub fn add(&mut self, figure: Figure, (ours, reference): (Option<f64>, Option<f64>)) {
        self.ours.entry(figure).or_default().extend(ours);
        self.reference.entry(figure).or_default().extend(reference);
    }

    /// One line for each figure: medians of both sides, the median of the ratios that the rounds had, and how far these
    /// lay apart: the middle half. A table in the form that `bench/RESULTS.md` keeps.
    pub fn print(&self) {
        println!("{}; medians of {} rounds in alternating order\n", self.title, self.rounds);
        println!(
            "| {:<34} | {:>10} | {:>10} | {:>5} | middle half |",
            "per second unless said", self.sides[0], self.sides[1], "ratio"
        );
        println!("| --- | ---: | ---: | ---: | --- |");
        for (figure, ours) in &self.ours {
            let reference = &self.reference[figure];
            let ratios: Vec<f64> = ours.iter().zip(reference).map(|(ours, reference)| ours / reference).collect();
            println!(
                "| {:<34} | {:>10.0} | {:>10.0} | {:>5.2} | {} |",
                figure.words(),
                median(reference),
                median(ours),
                median(&ratios),
                spread(&ratios),
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
    let sorted = sorted(values);
    match (sorted.get(sorted.len() / 4), sorted.get(sorted.len() * 3 / 4)) {
        (Some(low), Some(high)) => format!("{low:.2} to {high:.2}"),
        _ => "-".to_owned(),
    }
}
