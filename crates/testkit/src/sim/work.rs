//! What simulated jobs do: they start, leave traces while they run, and end, well or badly.

use super::chance::Chance;
use async_trait::async_trait;
use punctual_core::execute::{Executor, RunContext, stopped};
use punctual_core::id::JobId;
use punctual_core::job::Job;
use punctual_core::run::ErrorCode;
use punctual_core::store::FinishedRun;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What a job was seen doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It began.
    Begin,
    /// It did something in the outside world.
    Trace,
    /// It came to its end: well, or badly.
    End(bool),
}

/// One sighting.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Which job.
    pub job: JobId,
    /// What it did.
    pub act: Act,
    /// When, by its node's clock.
    pub at: Instant,
}

/// Where sightings are noted.
#[derive(Debug, Clone, Default)]
pub struct Witness(Arc<Mutex<Vec<Seen>>>);

impl Witness {
    fn note(&self, job: JobId, act: Act) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Seen { job, act, at: Instant::now() });
    }

    /// What was seen since the last time.
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs simulated jobs.
#[derive(Debug)]
pub struct Worker {
    /// What the jobs do follows from it.
    pub seed: u64,
    /// Where they are seen.
    pub witness: Witness,
}

/// What a job does: how long, how it ends, and whether it stops when it is told to.
struct Nature {
    length: Duration,
    end: Option<ErrorCode>,
    obeys: bool,
}

impl Nature {
    /// What a job does follows from what it was given, never from its id.
    fn of(seed: u64, job: &Job) -> Self {
        let slot = job.slot_at.map_or(0, |at| at.as_microsecond().unsigned_abs());
        let input = job.spec.input.as_str().parse().unwrap_or(0);
        let mut chance = Chance::of(seed, &[5, input, slot, u64::from(job.attempt)]);
        let seconds = match chance.index(20) {
            0..=8 => chance.between(0, 3),
            9..=14 => chance.between(5, 300),
            15..=18 => chance.between(300, 2_400),
            _ => chance.between(2_400, 5_400),
        };
        let end = match chance.index(10) {
            0..=6 => None,
            7 | 8 => Some(ErrorCode::TargetError),
            _ => Some(*chance.pick(&[ErrorCode::TargetRejected, ErrorCode::BadOutput, ErrorCode::OutputTooLarge])),
        };
        let length = Duration::from_secs(seconds.unsigned_abs());
        Self { length, end, obeys: !chance.once_in(4) }
    }
}

#[async_trait]
impl Executor for Worker {
    async fn run(&self, run: RunContext) -> FinishedRun {
        let (job, nature) = (run.job.id, Nature::of(self.seed, &run.job));
        self.witness.note(job, Act::Begin);
        for _ in 0..4 {
            tokio::select! {
                biased;
                reason = run.stop.requested(), if nature.obeys => return stopped(job, reason),
                () = sleep(nature.length / 4) => self.witness.note(job, Act::Trace),
            }
        }
        self.witness.note(job, Act::End(nature.end.is_none()));
        match nature.end {
            None => run.completed(None),
            Some(code) => run.failed(code, "it was meant to"),
        }
    }
}
