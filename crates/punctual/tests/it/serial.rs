//! Serial keys under kills: three real workers, some of them killed in the middle of a job, and a strict order.

use crate::process::{Ear, Setup, Worker};
use crate::world::{World, on_both_stores};
use jiff::SignedDuration;
use punctual_core::id::JobId;
use punctual_core::job::{JobState, JobView, NewJob};
use punctual_core::readings::JobFilter;
use punctual_core::retry::{Backoff, RetryPolicy, SerialOnFailure};
use punctual_core::target::Target;
use std::collections::BTreeMap;

const KEYS: [&str; 3] = ["a", "b", "c"];
const JOBS_OF_A_KEY: usize = 8;
/// Which jobs are cut, by their place among all: one early and one late of each key.
const DOOMED: [usize; 6] = [3, 4, 5, 15, 16, 17];

fn setup() -> Setup {
    Setup { lease: "1s", heartbeat: "100ms", ..Setup::default() }
}

/// Jobs whose key waits until they are made good, however often their nodes die.
fn strict(target: Target, key: &str) -> NewJob {
    let retry = RetryPolicy {
        backoff: Backoff::Fixed,
        base: SignedDuration::from_millis(1),
        max_interruptions: 100,
        serial_on_failure: SerialOnFailure::Hold,
        ..RetryPolicy::default()
    };
    NewJob { serial_key: Some(key.to_owned()), retry, ..NewJob::new(target) }
}

/// Every job, retries included.
async fn all_jobs(world: &World) -> BTreeMap<JobId, JobView> {
    let mut all = BTreeMap::new();
    let mut before = None;
    loop {
        let page = world.store.jobs_by(&JobFilter::default(), before, 500).await.unwrap();
        all.extend(page.items.into_iter().map(|view| (view.job.id, view)));
        before = page.next;
        if before.is_none() {
            return all;
        }
    }
}

/// What really happened to the jobs of one key: each ends before the next begins, or never.
fn check_spans(key: &str, spans: &[(bool, JobId)]) {
    for (at, (begins, id)) in spans.iter().enumerate() {
        if !begins {
            assert_eq!(spans.get(at.wrapping_sub(1)), Some(&(true, *id)), "{key}: another one began before {id} ended");
        }
    }
}

on_both_stores! {
    async fn a06_serial_keys_never_overlap_and_keep_their_order_under_kills(world: &World) {
        let spec = |at: usize| {
            let target = if DOOMED.contains(&at) { world.doomed_target(at) } else { world.spanned_target() };
            strict(target, KEYS[at % KEYS.len()])
        };
        let made = world.store.enqueue_jobs((0..KEYS.len() * JOBS_OF_A_KEY).map(spec).collect()).await.unwrap();
        let ear = Ear::new();
        let mut workers: BTreeMap<u32, Worker> = BTreeMap::new();
        let hire = || {
            let worker = Worker::start_as(&world.url, &setup(), &ear);
            (worker.pid(), worker)
        };
        workers.extend([hire(), hire(), hire()]);
        for at in DOOMED {
            let pid = world.until_doomed(at).await;
            // Whoever had two of them died of the first.
            if let Some(mut victim) = workers.remove(&pid) {
                victim.kill();
                workers.extend([hire()]);
            }
        }
        world.until_open(0).await;
        let jobs = all_jobs(world).await;
        let spans = world.spans();
        for (at, key) in KEYS.into_iter().enumerate() {
            let of_key = |id: &JobId| jobs[id].job.spec.serial_key.as_deref() == Some(key);
            let spans: Vec<(bool, JobId)> = spans.iter().filter(|(_, id)| of_key(id)).copied().collect();
            check_spans(key, &spans);
            let mut roots: Vec<JobId> = spans.iter().map(|(_, id)| jobs[id].job.root_job_id).collect();
            roots.dedup();
            let wanted: Vec<JobId> = made.iter().skip(at).step_by(KEYS.len()).copied().collect();
            assert_eq!(roots, wanted, "{key}: in their order, and none before the one ahead was made good");
            let good = jobs.values().filter(|view| of_key(&view.job.id) && view.state() == JobState::Completed).count();
            assert_eq!(good, JOBS_OF_A_KEY, "{key}");
        }
        for at in DOOMED {
            assert_eq!(jobs[&made[at]].state(), JobState::Failed, "job {at} was cut");
        }
    }
}
