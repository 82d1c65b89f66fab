//! Flows drawn by chance, with failures, retries and lost nodes, against an evaluator that shares no code with the rules.

use super::flows::{Taken, flow_job, step, take};
use crate::prelude::*;
use crate::sim::chance::Chance;
use punctual_core::flow::{FanOut, FlowDefinition, OnFailure, Step};
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob};
use punctual_core::run::Outcome;
use punctual_core::store::{ClaimRequest, FinishResult, FinishedRun, Lease};
use std::collections::{BTreeMap, BTreeSet};

/// How many flows are drawn; each has up to fifty steps.
const FLOWS: u64 = 24;

/// What a step is going to do, decided before anything runs.
#[derive(Debug, Clone)]
struct Fate {
    after: Vec<usize>,
    on_failure: OnFailure,
    /// Whether its condition holds, if it has one.
    wanted: Option<bool>,
    /// How many times each of its items fails before it succeeds; one entry for a step without items.
    failures: Vec<u32>,
    /// How many attempts each has.
    attempts: u32,
    mapped: bool,
}

impl Fate {
    fn of(chance: &mut Chance, n: usize) -> Self {
        let mut after: BTreeSet<usize> = BTreeSet::new();
        for _ in 0..chance.index(4) {
            if n > 0 {
                after.insert(chance.index(n));
            }
        }
        let mapped = chance.once_in(5);
        let items = if mapped { chance.index(6) } else { 1 };
        let attempts = *chance.pick(&[1, 2, 3]);
        let draw = |chance: &mut Chance| if chance.once_in(8) { attempts } else { *chance.pick(&[0, 1, 2]) % attempts };
        Self {
            after: after.into_iter().collect(),
            on_failure: *chance.pick(&[OnFailure::Skip, OnFailure::Continue, OnFailure::Skip, OnFailure::Stop]),
            wanted: chance.once_in(4).then(|| chance.once_in(2)),
            failures: (0..items).map(|_| draw(chance)).collect(),
            attempts,
            mapped,
        }
    }

    fn fails(&self) -> bool {
        self.failures.iter().any(|failures| *failures >= self.attempts)
    }

    fn into_step(self, n: usize) -> Step {
        let after: Vec<String> = self.after.iter().map(|before| format!("s{before}")).collect();
        let list: Vec<String> = (0..self.failures.len()).map(|item| item.to_string()).collect();
        Step {
            on_failure: self.on_failure,
            when: self.wanted.map(|wanted| if wanted { "input.yes".to_owned() } else { "not input.yes".to_owned() }),
            map: self.mapped.then(|| FanOut { over: format!("[{}]", list.join(", ")), limit: Some(2) }),
            input: self.mapped.then(|| json(r#"{"item": "{{ item }}"}"#)),
            retry: Some(retry(self.attempts, secs(1))),
            ..step(&format!("s{n}"), &after.iter().map(String::as_str).collect::<Vec<_>>())
        }
    }
}

/// How each step ends, worked out on paper: in the order of the steps, each from those before it. A flow that is stopped
/// by a failure depends on who was first, so that only what every order has in common is said of it.
fn on_paper(fates: &[Fate]) -> Vec<Option<Outcome>> {
    let stops = |fate: &Fate| fate.on_failure == OnFailure::Stop && fate.fails();
    let may_stop = fates.iter().any(stops);
    let mut ends: Vec<(Outcome, bool)> = Vec::new();
    for fate in fates {
        let open = fate.after.iter().all(|before| ends[*before].1);
        ends.push(if !open {
            (Outcome::Skipped, false)
        } else if fate.wanted == Some(false) {
            (Outcome::Skipped, true)
        } else if !fate.fails() || (fate.mapped && fate.on_failure == OnFailure::Continue) {
            (Outcome::Completed, true)
        } else {
            (Outcome::Failed, fate.on_failure == OnFailure::Continue)
        });
    }
    // Before the first step that could stop the flow has ended everything may happen that would happen without it.
    ends.into_iter().map(|(outcome, _)| (!may_stop).then_some(outcome)).collect()
}

pub async fn d06_random_flows_end_as_an_independent_evaluator_says(world: &mut World) {
    for seed in 0..FLOWS {
        let mut chance = Chance::of(seed, &[50]);
        let size = 1 + chance.index(50);
        let mut fates: Vec<Fate> = (0..size).map(|n| Fate::of(&mut chance, n)).collect();
        // Two of three flows are such that their end does not depend on who is first.
        if seed % 3 > 0 {
            for fate in &mut fates {
                if fate.on_failure == OnFailure::Stop {
                    fate.on_failure = OnFailure::Skip;
                }
            }
        }
        let steps = fates.iter().cloned().enumerate().map(|(n, fate)| fate.into_step(n)).collect();
        let job = NewJob { input: json(r#"{"yes": true}"#), ..flow_job(FlowDefinition::parallel(steps)) };
        let flow = world.enqueue(job).await;
        run_to_the_end(world, flow, &fates, &mut chance).await;
        compare(world, flow, &fates, seed).await;
    }
    assert!(world.store().run_checks(10).await.expect("an answer").is_empty(), "the doctor finds nothing");
}

/// Runs jobs in any order, as their fates say; nodes are lost now and then.
async fn run_to_the_end(world: &World, flow: JobId, fates: &[Fate], chance: &mut Chance) {
    let mut lease = world.node("a").await;
    let mut alive: Vec<(Lease, Taken)> = Vec::new();
    let mut failed: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..10_000 {
        let claimed = take(world, lease).await;
        for job in &claimed {
            no_step_before_its_time(world, flow, fates, job).await;
        }
        alive.extend(claimed.into_iter().map(|job| (lease, job)));
        let ended = current_state(world, flow).await.is_terminal();
        if alive.is_empty() && ended {
            return;
        }
        if alive.is_empty() {
            world.pass(mins(30));
            world.store().promote_due_jobs(1000).await.expect("they are promoted");
            continue;
        }
        if chance.once_in(12) {
            world.recover(lease).await;
            alive.retain(|(held, _)| *held != lease);
            lease = world.node("next").await;
            continue;
        }
        let at = chance.index(alive.len());
        let (held, job) = alive.swap_remove(at);
        end_one(world, held, &job, fates, &mut failed).await;
    }
    panic!("the flow does not come to an end");
}

async fn current_state(world: &World, flow: JobId) -> JobState {
    world.store().chain_end(flow).await.expect("an answer").expect("a job").state()
}

async fn end_one(world: &World, lease: Lease, job: &Taken, fates: &[Fate], failed: &mut BTreeMap<String, u32>) {
    let name = job.step.clone();
    let (n, item) = parts(&name);
    let so_far = failed.entry(name).or_default();
    if *so_far < fates[n].failures[item] {
        *so_far += 1;
        world.fail(lease, job.id).await;
    } else {
        let done = FinishedRun { output: Some(json(&format!("{item}"))), ..FinishedRun::completed(job.id) };
        world.finish(lease, done).await;
    }
}

/// `s12[3]` is step 12 and item 3.
fn parts(name: &str) -> (usize, usize) {
    let (step, item) = name.split_once('[').unwrap_or((name, "0]"));
    (step[1..].parse().expect("a step"), item.trim_end_matches(']').parse().expect("an item"))
}

async fn no_step_before_its_time(world: &World, flow: JobId, fates: &[Fate], job: &Taken) {
    let link = world.store().flow_link(job.id).await.expect("an answer").expect("a step");
    let run = world.store().flow_run(link.flow_id).await.expect("an answer").expect("a flow");
    let (n, _) = parts(&job.step);
    for before in &fates[n].after {
        let state = &run.steps[*before].state;
        assert!(state.outcome.is_some(), "the step s{n} of {flow} began before s{before} had ended");
    }
}

async fn compare(world: &World, flow: JobId, fates: &[Fate], seed: u64) {
    let last = world.store().chain_end(flow).await.expect("an answer").expect("a job");
    let run = world.store().flow_run(last.job.id).await.expect("an answer").expect("a flow");
    let mut some_failed = false;
    for (n, (step, expected)) in run.steps.iter().zip(on_paper(fates)).enumerate() {
        let outcome = step.state.outcome.expect("every step has ended");
        some_failed |= outcome == Outcome::Failed && fates[n].on_failure != OnFailure::Continue;
        if let Some(expected) = expected {
            assert_eq!(outcome, expected, "seed {seed}, step s{n} {:?}", fates[n]);
        } else {
            assert!(outcome != Outcome::Failed || fates[n].fails(), "seed {seed}, step s{n} failed for no reason");
        }
    }
    let expected = if some_failed { JobState::Failed } else { JobState::Completed };
    assert_eq!(last.state(), expected, "seed {seed}");
}

pub async fn d06_ten_thousand_items_are_begun_a_few_at_a_time(world: &mut World) {
    const ITEMS: usize = 10_000;
    let lease = world.node("a").await;
    let list: Vec<String> = (0..ITEMS).map(|item| item.to_string()).collect();
    let map = Step {
        map: Some(FanOut { over: "input".to_owned(), limit: Some(500) }),
        input: Some(json(r#"{"n": "{{ item }}"}"#)),
        ..step("each", &[])
    };
    let job = NewJob {
        input: json(&format!("[{}]", list.join(","))),
        ..flow_job(FlowDefinition::parallel(vec![map, step("join", &["each"])]))
    };
    let flow = world.enqueue(job).await;
    let request = ClaimRequest { job_types: vec!["flow".to_owned()], ..claim_request(lease, 1) };
    world.store().claim_jobs_if_leased(request).await.expect("the flow is claimed");
    assert_eq!(world.finish(lease, FinishedRun::by_steps(flow)).await, FinishResult::GoesOn);
    let mut done = 0;
    while done < ITEMS {
        let jobs = world.claim(lease, ALL).await;
        assert!(!jobs.is_empty() && jobs.len() <= 500, "{} at once", jobs.len());
        done += jobs.len();
        let reports = jobs.into_iter().map(FinishedRun::completed).collect();
        world.store().finish_runs_if_leased(lease, reports).await.expect("they are closed");
    }
    let join = take(world, lease).await;
    assert_eq!(join.iter().map(|job| job.step.as_str()).collect::<Vec<_>>(), ["join"], "it waits for all of them");
    world.complete(lease, join[0].id).await;
    assert_eq!(world.state(flow).await, JobState::Completed);
    let made = world.count("SELECT count(*) FROM {flow_jobs}").await;
    assert_eq!(made, i64::try_from(ITEMS).expect("small") + 1, "each once");
}
