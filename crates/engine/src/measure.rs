//! What is measured of a node: how long its store takes to answer, and what its passes and runs came to.

use crate::clock::Uptime;
use crate::fire::FirePass;
use jiff::{SignedDuration, Timestamp};
use punctual_core::job::Job;
use punctual_core::meter::{Meter, NoMeter, StoreVerb};
use punctual_core::run::Trigger;
use punctual_core::store::{ClaimedJob, StoreError, StoreResult};
use std::sync::Arc;
use std::time::Duration;

/// A meter and the clock to measure with.
#[derive(Debug, Clone)]
pub(crate) struct Stopwatch {
    pub(crate) meter: Arc<dyn Meter>,
    uptime: Uptime,
}

impl Stopwatch {
    pub(crate) fn new(meter: Arc<dyn Meter>, uptime: Uptime) -> Self {
        Self { meter, uptime }
    }

    /// One that nobody reads.
    pub(crate) fn unread() -> Self {
        Self::new(Arc::new(NoMeter), Uptime::start())
    }

    /// Tells how long the store took to answer. A refusal is an answer as well.
    pub(crate) async fn time<T>(&self, verb: StoreVerb, call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let asked_at = self.uptime.now();
        let answer = call.await;
        let could_not =
            matches!(&answer, Err(StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::Internal(_)));
        self.meter.store_answered(verb, self.uptime.now().saturating_sub(asked_at), !could_not);
        answer
    }
}

/// Tells what a firing pass came to.
pub(crate) fn tell_pass(meter: &dyn Meter, pass: &FirePass) {
    if pass.jobs > 0 {
        meter.slots_fired(whole(pass.jobs));
    }
    pass.not_run.iter().for_each(|(reason, slots)| meter.slots_not_run(reason, slots));
    if pass.promoted > 0 {
        meter.jobs_promoted(whole(pass.promoted));
    }
    if pass.replanned + pass.problems > 0 {
        meter.schedules_mended(whole(pass.replanned + pass.problems));
    }
}

/// Tells what came with a claim, and how long each job had waited for it.
pub(crate) fn tell_claim(meter: &dyn Meter, claimed: &[ClaimedJob]) {
    if claimed.is_empty() {
        return;
    }
    meter.jobs_claimed(claimed.len());
    for ClaimedJob { job, started_at } in claimed {
        meter.job_waited(between(ready_at(job), *started_at));
        // What makes up for the past is late by design, and says nothing about the present.
        if let (Some(slot_at), Trigger::Schedule) = (job.slot_at, job.spec.trigger) {
            meter.slot_was_late(between(slot_at, *started_at));
        }
    }
}

/// Since when a job could have run.
fn ready_at(job: &Job) -> Timestamp {
    job.spec.run_at.map_or(job.created_at, |run_at| run_at.max(job.created_at))
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    let passed: SignedDuration = to.duration_since(from);
    Duration::try_from(passed).unwrap_or(Duration::ZERO)
}

fn whole(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
