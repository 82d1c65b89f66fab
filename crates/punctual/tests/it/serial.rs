//! Serial keys under kills: three real workers, some of them killed in the middle of a job, and a strict order.

use crate::process::{Ear, Said, Setup, Worker};
use crate::world::{World, on_both_stores};
use jiff::SignedDuration;
use punctual_core::id::JobId;
use punctual_core::job::{JobState, JobView, NewJob};
use punctual_core::readings::JobFilter;
use punctual_core::retry::{Backoff, RetryPolicy, SerialOnFailure};
use std::collections::BTreeMap;

const KEYS: [&str; 3] = ["a", "b", "c"];
const JOBS_OF_A_KEY: usize = 8;
const KILLS: usize = 4;

fn setup() -> Setup {
    Setup { lease: "1s", heartbeat: "100ms", ..Setup::default() }
}

/// Jobs whose key waits until they are made good, however often their nodes die.
fn strict(world: &World, key: &str) -> NewJob {
    let retry = RetryPolicy {
        backoff: Backoff::Fixed,
        base: SignedDuration::from_millis(1),
        max_interruptions: 100,
        serial_on_failure: SerialOnFailure::Hold,
        ..RetryPolicy::default()
    };
    NewJob { serial_key: Some(key.to_owned()), retry, ..NewJob::new(world.spanned_target()) }
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
        let specs = (0..JOBS_OF_A_KEY).flat_map(|_| KEYS.map(|key| strict(world, key))).collect();
        let made = world.store.enqueue_jobs(specs).await.unwrap();
        let mut ear = Ear::new();
        let mut workers: BTreeMap<u32, Worker> = BTreeMap::new();
        let hire = |ear: &Ear| {
            let worker = Worker::start_as(&world.url, &setup(), ear);
            (worker.pid(), worker)
        };
        workers.extend([hire(&ear), hire(&ear), hire(&ear)]);
        for _ in 0..KILLS {
            // Whoever runs something next dies of it.
            let pid = loop {
                match ear.next().await {
                    (pid, Said::Begins(phase)) if phase == "run" && workers.contains_key(&pid) => break pid,
                    _ => {}
                }
            };
            workers.remove(&pid).unwrap().kill();
            workers.extend([hire(&ear)]);
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
        let lost = jobs.values().filter(|view| view.state() == JobState::Failed).count();
        assert!(lost > 0, "no kill met a running job, so nothing was shown");
        eprintln!("{lost} runs were cut");
    }
}
