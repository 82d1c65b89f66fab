//! Flows: what follows from what, in the transaction that ends a step, whatever fails or is lost in between.

use crate::prelude::*;
use jiff::SignedDuration;
use punctual_core::flow::{FanOut, FlowDefinition, FlowRun, FlowsAdvanced, OnFailure, Step};
use punctual_core::id::JobId;
use punctual_core::job::{Job, JobState, NewJob, Timeout, Whereabouts};
use punctual_core::json::Json;
use punctual_core::run::{ErrorCode, Outcome, Trigger};
use punctual_core::store::{ClaimRequest, FinishResult, FinishedRun, Lease, Retention, StoreError};
use punctual_core::target::{Flow, Target};
use std::collections::BTreeMap;

/// A step that does work and is not tried again.
pub(crate) fn step(name: &str, after: &[&str]) -> Step {
    Step {
        after: after.iter().map(|name| (*name).to_owned()).collect(),
        retry: Some(no_retry()),
        ..Step::new(name, Target::task("work"))
    }
}

pub(crate) fn flow_job(definition: FlowDefinition) -> NewJob {
    NewJob::new(Target::Flow(Flow { name: "etl".to_owned(), definition: Some(Box::new(definition)) }))
}

fn graph(steps: Vec<Step>) -> NewJob {
    flow_job(FlowDefinition::parallel(steps))
}

/// A job of a step, and which: `load`, or `each[3]`.
pub(crate) struct Taken {
    job: Job,
    pub(crate) step: String,
}

impl std::ops::Deref for Taken {
    type Target = Job;
    fn deref(&self) -> &Job {
        &self.job
    }
}

/// Claims whatever there is; flows are handed over to their steps at once.
pub(crate) async fn take(world: &World, lease: Lease) -> Vec<Taken> {
    let mut taken = Vec::new();
    loop {
        let request = ClaimRequest { job_types: vec![WORK.to_owned(), "flow".to_owned()], ..claim_request(lease, ALL) };
        let claimed = world.store().claim_jobs_if_leased(request).await.expect("claiming succeeds");
        let jobs: Vec<Job> = claimed.into_iter().map(|claimed| claimed.job).collect();
        if jobs.is_empty() {
            return taken;
        }
        for job in jobs {
            if matches!(job.spec.target, Target::Flow(_)) {
                assert_eq!(world.finish(lease, FinishedRun::by_steps(job.id)).await, FinishResult::GoesOn);
            } else {
                let link = world.store().flow_link(job.id).await.expect("an answer").expect("a step");
                let item = link.item.map_or_else(String::new, |item| format!("[{item}]"));
                taken.push(Taken { job, step: format!("{}{item}", link.step) });
            }
        }
    }
}

fn names(jobs: &[Taken]) -> Vec<String> {
    let mut names: Vec<String> = jobs.iter().map(|job| job.step.clone()).collect();
    names.sort_unstable();
    names
}

fn find<'a>(jobs: &'a [Taken], name: &str) -> &'a Job {
    jobs.iter().find(|job| job.step == name).unwrap_or_else(|| panic!("no job of {name}"))
}

async fn complete_with(world: &World, lease: Lease, id: JobId, output: &str) {
    let report = FinishedRun { output: Some(json(output)), ..FinishedRun::completed(id) };
    assert_eq!(world.finish(lease, report).await, FinishResult::Closed { retry: None });
}

async fn flow_run(world: &World, id: JobId) -> FlowRun {
    world.store().flow_run(id).await.expect("an answer").expect("a flow")
}

/// How each step ended.
async fn outcomes(world: &World, id: JobId) -> BTreeMap<String, Option<Outcome>> {
    flow_run(world, id).await.steps.into_iter().map(|step| (step.name, step.state.outcome)).collect()
}

async fn outcome(world: &World, id: JobId, step: &str) -> Option<Outcome> {
    outcomes(world, id).await[step]
}

pub async fn d06_steps_follow_one_another_and_pass_on_what_they_return(world: &mut World) {
    let lease = world.node("a").await;
    let load = Step {
        input: Some(json(
            r#"{"rows": "{{ steps.extract.output.rows }}", "text": "{{ input.day }}: {{ steps.extract.output.n }}", "b": 1}"#,
        )),
        ..step("load", &["extract"])
    };
    let definition = FlowDefinition {
        output: Some(json(r#"{"done": "{{ steps.load.output }}"}"#)),
        ..FlowDefinition::parallel(vec![step("extract", &[]), load])
    };
    let flow = world
        .enqueue(NewJob {
            input: json(r#"{"day": "mon"}"#),
            owner: Some("ada".into()),
            priority: 3,
            ..flow_job(definition)
        })
        .await;
    let first = take(world, lease).await;
    assert_eq!(names(&first), ["extract"], "nothing else before it is done");
    let Whereabouts::Running(running) = world.job(flow).await.whereabouts else { panic!("a flow that runs") };
    assert_eq!((running.node_id, running.lease_id), (None, None), "no node has it");
    let job = &first[0];
    assert_eq!((job.spec.trigger, job.spec.owner.as_deref(), job.spec.priority), (Trigger::Flow, Some("ada"), 3));
    assert_eq!(job.spec.input, json(r#"{"day": "mon"}"#), "a step that says nothing is given what the flow was given");
    complete_with(world, lease, job.id, r#"{"rows": [12345678901234567890123, 1.50], "n": 2}"#).await;
    let second = take(world, lease).await;
    assert_eq!(names(&second), ["load"]);
    let expected = json(r#"{"rows":[12345678901234567890123, 1.50],"text":"mon: 2","b":1}"#);
    assert_eq!(second[0].spec.input, expected, "to the last digit");
    let link = world.store().flow_link(second[0].id).await.expect("an answer").expect("a step");
    assert_eq!((link.flow_id, link.step.as_str(), link.item), (flow, "load", None));
    complete_with(world, lease, second[0].id, "7").await;
    let run = world.closed_run(flow).await;
    assert_eq!((run.outcome, run.output, run.node_id), (Outcome::Completed, Some(json(r#"{"done":7}"#)), None));
    assert!(run.started_at.is_some() && run.is_final);
    assert!(world.store().run_checks(10).await.expect("an answer").is_empty(), "the doctor finds nothing");
}

pub async fn d06_a_join_waits_for_all_its_predecessors(world: &mut World) {
    let lease = world.node("a").await;
    let steps = vec![step("a", &[]), step("b", &[]), step("c", &[]), step("join", &["a", "b", "c"])];
    let flow = world.enqueue(graph(steps)).await;
    let jobs = take(world, lease).await;
    assert_eq!(names(&jobs), ["a", "b", "c"]);
    for (n, name) in ["c", "a", "b"].into_iter().enumerate() {
        assert!(take(world, lease).await.is_empty(), "{n} of 3 are done");
        world.complete(lease, find(&jobs, name).id).await;
    }
    let join = take(world, lease).await;
    assert_eq!(names(&join), ["join"]);
    world.complete(lease, join[0].id).await;
    assert_eq!(world.state(flow).await, JobState::Completed);
    assert!(world.store().flow_link(flow).await.expect("an answer").is_none(), "it is no step itself");
}

pub async fn d06_many_ends_in_one_report_count_each_once(world: &mut World) {
    let lease = world.node("a").await;
    let names: Vec<String> = (0..40).map(|n| format!("s{n}")).collect();
    let mut steps: Vec<Step> = names.iter().map(|name| step(name, &[])).collect();
    steps.push(step("join", &names.iter().map(String::as_str).collect::<Vec<_>>()));
    let two = world.enqueue_all(vec![graph(steps.clone()), graph(steps)]).await;
    let jobs = take(world, lease).await;
    assert_eq!(jobs.len(), 80);
    let reports: Vec<FinishedRun> = jobs.iter().map(|job| FinishedRun::completed(job.id)).collect();
    let results = world.store().finish_runs_if_leased(lease, reports).await.expect("they are closed");
    assert_eq!(results, vec![FinishResult::Closed { retry: None }; 80]);
    let joins = take(world, lease).await;
    assert_eq!(joins.len(), 2);
    for join in joins {
        world.complete(lease, join.id).await;
    }
    for flow in two {
        assert_eq!(world.state(flow).await, JobState::Completed);
    }
}

pub async fn d06_a_condition_that_does_not_hold_skips_its_step_and_the_flow_goes_on(world: &mut World) {
    let lease = world.node("a").await;
    let when = |name: &str, text: &str| Step { when: Some(text.to_owned()), ..step(name, &["look"]) };
    let after = Step {
        input: Some(json(r#"{"few": "{{ steps.few.outcome }}", "none": "{{ steps.few.output }}"}"#)),
        ..step("after", &["many", "few"])
    };
    let steps = vec![
        step("look", &[]),
        when("many", "steps.look.output.rows > 10"),
        when("few", "steps.look.output.rows <= 10 and input.mode == 'full'"),
        after,
    ];
    let flow = world.enqueue(NewJob { input: json(r#"{"mode": "full"}"#), ..graph(steps) }).await;
    let look = take(world, lease).await;
    complete_with(world, lease, look[0].id, r#"{"rows": 11}"#).await;
    let many = take(world, lease).await;
    assert_eq!(names(&many), ["many"]);
    assert_eq!(outcome(world, flow, "few").await, Some(Outcome::Skipped));
    world.complete(lease, many[0].id).await;
    let after = take(world, lease).await;
    assert_eq!(after[0].spec.input, json(r#"{"few":"skipped","none":null}"#));
    world.complete(lease, after[0].id).await;
    assert_eq!(world.state(flow).await, JobState::Completed);
}

pub async fn d06_a_step_runs_once_for_each_item_with_so_many_at_once_and_passes_on_the_list(world: &mut World) {
    let lease = world.node("a").await;
    let map = Step {
        map: Some(FanOut { over: "input.files".to_owned(), limit: Some(2) }),
        input: Some(json(r#"{"file": "{{ item.name }}", "n": "{{ index }}"}"#)),
        ..step("each", &[])
    };
    let sum = Step { input: Some(json(r#""{{ steps.each.output }}""#)), ..step("sum", &["each"]) };
    let input = json(r#"{"files": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}, {"name": "e"}]}"#);
    let flow = world.enqueue(NewJob { input, ..graph(vec![map, sum]) }).await;
    let mut alive = take(world, lease).await;
    let mut seen = Vec::new();
    while !alive.is_empty() && alive[0].step != "sum" {
        assert!(alive.len() <= 2, "two at once: {}", alive.len());
        let job = alive.remove(0);
        seen.push(job.spec.input.as_str().to_owned());
        let link = world.store().flow_link(job.id).await.expect("an answer").expect("a step");
        complete_with(world, lease, job.id, &format!("{}", link.item.expect("an item") * 10)).await;
        alive.extend(take(world, lease).await);
    }
    assert_eq!(seen.len(), 5);
    assert_eq!(seen[4], r#"{"file":"e","n":4}"#);
    assert_eq!(alive[0].spec.input, json("[0,10,20,30,40]"), "in the order of the items");
    let items = world.store().flow_items(flow, 0, Some(2), 10).await.expect("an answer");
    assert_eq!(
        items.iter().map(|item| (item.item, item.outcome)).collect::<Vec<_>>(),
        [(3, Some(Outcome::Completed)), (4, Some(Outcome::Completed))]
    );
    world.complete(lease, alive[0].id).await;
    assert_eq!(world.state(flow).await, JobState::Completed);
}

pub async fn d06_a_step_for_no_items_is_done_at_once(world: &mut World) {
    let lease = world.node("a").await;
    let map = Step { map: Some(FanOut { over: "input".to_owned(), limit: None }), ..step("each", &[]) };
    let then = Step { input: Some(json(r#""{{ steps.each.output }}""#)), ..step("then", &["each"]) };
    let flow = world.enqueue(NewJob { input: json("[]"), ..graph(vec![map, then]) }).await;
    let then = take(world, lease).await;
    assert_eq!((names(&then), then[0].spec.input.clone()), (vec!["then".to_owned()], json("[]")));
    world.complete(lease, then[0].id).await;
    assert_eq!(world.state(flow).await, JobState::Completed);
}

/// A flow of `a`, then `b`, beside it `x`; `a` fails.
async fn after_a_failure(world: &World, on_failure: OnFailure) -> (JobId, Vec<String>, JobState) {
    let lease = world.node("a").await;
    let first = Step { on_failure, ..step("a", &[]) };
    let flow = world.enqueue(graph(vec![first, step("b", &["a"]), step("x", &[]), step("y", &["x"])])).await;
    let jobs = take(world, lease).await;
    assert_eq!(world.fail(lease, find(&jobs, "a").id).await, None);
    world.complete(lease, find(&jobs, "x").id).await;
    let mut ran = Vec::new();
    loop {
        let more = take(world, lease).await;
        if more.is_empty() {
            break;
        }
        for job in more {
            ran.push(job.step.clone());
            world.complete(lease, job.id).await;
        }
    }
    ran.sort_unstable();
    (flow, ran, world.state(flow).await)
}

pub async fn c15_a_failure_stops_the_flow_unless_it_says_otherwise(world: &mut World) {
    let (flow, ran, state) = after_a_failure(world, OnFailure::Stop).await;
    assert_eq!((ran.len(), state), (0, JobState::Failed), "what ran came to its end, and nothing more began");
    let run = world.closed_run(flow).await;
    assert_eq!(run.error_code, Some(ErrorCode::TargetError), "the code of the step that failed");
    assert!(run.error.expect("words").contains("`a`"));
    let steps = flow_run(world, flow).await.steps;
    let b = steps.iter().find(|step| step.name == "b").expect("b");
    assert_eq!((b.state.outcome, b.state.error_code), (Some(Outcome::Skipped), Some(ErrorCode::DependencyFailed)));

    let (flow, ran, state) = after_a_failure(world, OnFailure::Skip).await;
    assert_eq!((ran, state), (vec!["y".to_owned()], JobState::Failed), "what does not need it goes on");
    assert_eq!(outcome(world, flow, "b").await, Some(Outcome::Skipped));

    let (flow, ran, state) = after_a_failure(world, OnFailure::Continue).await;
    assert_eq!((ran, state), (vec!["b".to_owned(), "y".to_owned()], JobState::Completed), "it is tolerated");
    assert_eq!(outcome(world, flow, "a").await, Some(Outcome::Failed));
}

pub async fn c15_a_group_is_a_flow_without_edges_or_with_one_chain(world: &mut World) {
    let lease = world.node("a").await;
    let steps = vec![step("a", &[]), step("b", &[]), step("c", &[])];
    world.enqueue(flow_job(FlowDefinition::parallel(steps.clone()))).await;
    let all = take(world, lease).await;
    assert_eq!(names(&all), ["a", "b", "c"]);
    let flow = world.enqueue(flow_job(FlowDefinition::sequential(steps))).await;
    for name in ["a", "b", "c"] {
        let next = take(world, lease).await;
        assert_eq!(names(&next), [name]);
        world.complete(lease, next[0].id).await;
    }
    assert_eq!(world.state(flow).await, JobState::Completed);
}

pub async fn d06_failed_items_are_judged_like_failed_steps(world: &mut World) {
    for (on_failure, begun, state) in [
        (OnFailure::Stop, 2, JobState::Failed),
        (OnFailure::Skip, 4, JobState::Failed),
        (OnFailure::Continue, 4, JobState::Completed),
    ] {
        let lease = world.node("a").await;
        let map = Some(FanOut { over: "input".to_owned(), limit: Some(2) });
        let each = Step { map, on_failure, ..step("each", &[]) };
        let then = Step { input: Some(json(r#""{{ steps.each.output }}""#)), ..step("then", &["each"]) };
        let flow = world.enqueue(NewJob { input: json("[1,2,3,4]"), ..graph(vec![each, then]) }).await;
        let mut ran = 0;
        let mut alive = take(world, lease).await;
        while !alive.is_empty() {
            let job = alive.remove(0);
            if job.step == "then" {
                assert_eq!((on_failure, &job.spec.input), (OnFailure::Continue, &json("[null,1,2,3]")));
                world.complete(lease, job.id).await;
                continue;
            }
            ran += 1;
            match job.step.as_str() {
                "each[0]" => drop(world.fail(lease, job.id).await),
                other => complete_with(world, lease, job.id, &other[5..6]).await,
            }
            alive.extend(take(world, lease).await);
        }
        assert_eq!((ran, world.state(flow).await), (begun, state), "{on_failure}");
        let steps = flow_run(world, flow).await.steps;
        assert_eq!(steps[0].state.items.map(|items| (items.total, items.failed)), Some((4, 1)));
    }
}

pub async fn d06_a_step_is_tried_again_before_its_flow_hears_of_it(world: &mut World) {
    let lease = world.node("a").await;
    let first = Step { retry: Some(retry(3, secs(1))), ..step("a", &[]) };
    let flow = world.enqueue(graph(vec![first, step("b", &["a"])])).await;
    let mut job = take(world, lease).await[0].id;
    for _ in 0..2 {
        job = world.fail(lease, job).await.expect("a retry follows");
        world.pass(secs(5));
        world.store().promote_due_jobs(10).await.expect("it is promoted");
        assert_eq!(world.claim(lease, ALL).await, [job]);
        assert_eq!(flow_run(world, flow).await.steps[0].state.job_id, Some(job), "it waits for the latest attempt");
    }
    complete_with(world, lease, job, "1").await;
    let b = take(world, lease).await;
    assert_eq!(names(&b), ["b"]);
    world.complete(lease, b[0].id).await;
    assert_eq!(world.state(flow).await, JobState::Completed);
}

pub async fn d06_what_a_lost_node_ran_is_run_again_and_the_flow_goes_on(world: &mut World) {
    let (lost, lease) = (world.node("lost").await, world.node("a").await);
    let first = Step { retry: Some(retry(1, secs(1))), ..step("a", &[]) };
    let flow = world.enqueue(graph(vec![first, step("b", &["a"])])).await;
    // The node dies between claiming the flow and handing it over; and once more while it runs a step.
    let request = ClaimRequest { job_types: vec!["flow".to_owned()], ..claim_request(lost, ALL) };
    assert_eq!(world.store().claim_jobs_if_leased(request).await.expect("it is claimed").len(), 1);
    world.recover(lost).await;
    assert_eq!(world.state(flow).await, JobState::Failed);
    world.pass(mins(10));
    world.store().promote_due_jobs(10).await.expect("it is promoted");
    let second = world.node("lost too").await;
    let a = take(world, second).await;
    assert_eq!(names(&a), ["a"]);
    let recovered = world.recover(second).await;
    assert_eq!(recovered.closed, [a[0].id], "the flow itself is nobody's to lose");
    world.pass(mins(10));
    world.store().promote_due_jobs(10).await.expect("it is promoted");
    let a = take(world, lease).await;
    world.complete(lease, a[0].id).await;
    let b = take(world, lease).await;
    world.complete(lease, b[0].id).await;
    let again = world.store().chain_end(flow).await.expect("an answer").expect("a retry");
    assert_eq!(world.state(again.job.id).await, JobState::Completed);
}

pub async fn d06_a_flow_that_failed_begins_again_at_the_step_that_did(world: &mut World) {
    let lease = world.node("a").await;
    let each = Step {
        map: Some(FanOut { over: "input".to_owned(), limit: None }),
        on_failure: OnFailure::Skip,
        ..step("each", &["a"])
    };
    let sum =
        Step { input: Some(json(r#"["{{ steps.a.output }}", "{{ steps.each.output }}"]"#)), ..step("sum", &["each"]) };
    let flow = world.enqueue(NewJob { input: json("[1,2,3]"), ..graph(vec![step("a", &[]), each, sum]) }).await;
    let a = take(world, lease).await;
    complete_with(world, lease, a[0].id, r#""first""#).await;
    for job in take(world, lease).await {
        match job.step.as_str() {
            "each[1]" => drop(world.fail(lease, job.id).await),
            other => complete_with(world, lease, job.id, &other[5..6]).await,
        }
    }
    assert_eq!(world.state(flow).await, JobState::Failed);
    assert_wrong_state(world.store().retry_job_if_ended(a[0].id, None).await, JobState::Completed);
    let again = world.store().retry_job_if_ended(flow, Some("ada".into())).await.expect("it begins again");
    let jobs = take(world, lease).await;
    assert_eq!(names(&jobs), ["each[1]"], "only what had failed");
    complete_with(world, lease, jobs[0].id, "11").await;
    let sum = take(world, lease).await;
    assert_eq!(sum[0].spec.input, json(r#"["first",[0,11,2]]"#), "what completed before counts");
    world.complete(lease, sum[0].id).await;
    assert_eq!(world.state(again).await, JobState::Completed);
    assert_eq!(world.state(flow).await, JobState::Failed, "and what was stays as it was");
}

pub async fn d06_a_step_is_not_retried_by_itself(world: &mut World) {
    let lease = world.node("a").await;
    world.enqueue(graph(vec![step("a", &[])])).await;
    let a = take(world, lease).await;
    world.fail(lease, a[0].id).await;
    let refused = world.store().retry_job_if_ended(a[0].id, None).await;
    let Err(StoreError::WrongState { remedy, .. }) = refused else { panic!("{refused:?}") };
    assert!(remedy.contains("flow"), "{remedy}");
}

pub async fn d06_a_cancelled_flow_cancels_what_waits_and_stops_what_runs(world: &mut World) {
    let lease = world.node("a").await;
    let flow = world.enqueue(graph(vec![step("a", &[]), step("b", &[]), step("c", &["a", "b"])])).await;
    let request = ClaimRequest { job_types: vec!["flow".to_owned()], ..claim_request(lease, 1) };
    world.store().claim_jobs_if_leased(request).await.expect("it is claimed");
    world.finish(lease, FinishedRun::by_steps(flow)).await;
    let running = world.claim(lease, 1).await;
    world.store().cancel_job(flow).await.expect("it is cancelled");
    let advanced = world.store().advance_flows(10).await.expect("it is stopped");
    assert_eq!((advanced.stopped, advanced.expired), (1, 0));
    assert_eq!(world.store().advance_flows(10).await.expect("once"), FlowsAdvanced::default());
    assert_eq!(world.state(flow).await, JobState::Running, "a step of it still runs");
    let beat = world.store().heartbeat_if_leased(lease).await.expect("a beat");
    assert_eq!(beat.cancel_requested, running, "its node is told");
    let stopped = FinishedRun { outcome: Outcome::Cancelled, ..FinishedRun::completed(running[0]) };
    world.finish(lease, stopped).await;
    let run = world.closed_run(flow).await;
    assert_eq!((run.outcome, run.error_code), (Outcome::Cancelled, Some(ErrorCode::Cancelled)));
    assert!(world.queue("default").await.is_empty());
    let ended = outcomes(world, flow).await;
    assert_eq!(ended.values().filter(|outcome| **outcome == Some(Outcome::Cancelled)).count(), 3, "{ended:?}");
}

pub async fn d06_a_cancelled_step_counts_as_failed(world: &mut World) {
    let lease = world.node("a").await;
    let flow = world.enqueue(graph(vec![step("a", &[]), step("b", &["a"])])).await;
    let request = ClaimRequest { job_types: vec!["flow".to_owned()], ..claim_request(lease, 1) };
    world.store().claim_jobs_if_leased(request).await.expect("it is claimed");
    world.finish(lease, FinishedRun::by_steps(flow)).await;
    let a = world.queue("default").await;
    world.store().cancel_job(a[0]).await.expect("it is cancelled");
    assert_eq!(world.state(flow).await, JobState::Failed);
    assert_eq!(outcome(world, flow, "b").await, Some(Outcome::Skipped));
}

pub async fn d06_an_edited_step_takes_the_place_of_the_old_one(world: &mut World) {
    let lease = world.node("a").await;
    let flow = world.enqueue(graph(vec![step("a", &[])])).await;
    let request = ClaimRequest { job_types: vec!["flow".to_owned()], ..claim_request(lease, 1) };
    world.store().claim_jobs_if_leased(request).await.expect("it is claimed");
    world.finish(lease, FinishedRun::by_steps(flow)).await;
    let old = world.queue("default").await[0];
    let new = world.store().edit_job_if_queued(old, json("[7]")).await.expect("it is edited");
    assert_eq!(world.state(flow).await, JobState::Running, "it waits for the new one");
    assert_eq!(world.claim(lease, ALL).await, [new]);
    world.complete(lease, new).await;
    assert_eq!(world.state(flow).await, JobState::Completed);
}

pub async fn d06_a_flow_whose_time_is_over_is_stopped(world: &mut World) {
    let lease = world.node("a").await;
    let job = NewJob { timeout: Timeout::After(mins(5)), ..graph(vec![step("a", &[]), step("b", &["a"])]) };
    let flow = world.enqueue(job).await;
    let a = take(world, lease).await;
    world.pass(mins(5) - secs(1));
    assert_eq!(world.store().advance_flows(10).await.expect("nothing yet"), FlowsAdvanced::default());
    world.pass(secs(1));
    assert_eq!(world.store().advance_flows(10).await.expect("it is stopped").expired, 1);
    let stopped = FinishedRun { outcome: Outcome::Cancelled, ..FinishedRun::completed(a[0].id) };
    world.finish(lease, stopped).await;
    let run = world.closed_run(flow).await;
    assert_eq!((run.outcome, run.error_code), (Outcome::Failed, Some(ErrorCode::Timeout)));
}

pub async fn d06_a_flow_may_be_a_step_of_another(world: &mut World) {
    let lease = world.node("a").await;
    let inner = FlowDefinition {
        output: Some(json(r#"{"sum": "{{ steps.x.output }}"}"#)),
        ..FlowDefinition::parallel(vec![step("x", &[])])
    };
    world.store().save_flow(named("inner"), inner, None, None).await.expect("it is stored");
    let sub = Step { input: Some(json(r#"{"n": 1}"#)), ..Step::new("sub", Target::flow("inner")) };
    let then = Step { input: Some(json(r#""{{ steps.sub.output.sum }}""#)), ..step("then", &["sub"]) };
    let flow = world.enqueue(graph(vec![sub, then])).await;
    let x = take(world, lease).await;
    assert_eq!((names(&x), &x[0].spec.input), (vec!["x".to_owned()], &json(r#"{"n":1}"#)));
    complete_with(world, lease, x[0].id, "5").await;
    let then = take(world, lease).await;
    assert_eq!((names(&then), &then[0].spec.input), (vec!["then".to_owned()], &json("5")));
    world.complete(lease, then[0].id).await;
    assert_eq!(world.state(flow).await, JobState::Completed);
}

pub async fn d06_cancelling_reaches_flows_within_flows(world: &mut World) {
    let lease = world.node("a").await;
    let inner = FlowDefinition::parallel(vec![step("x", &[])]);
    let sub = |name: &str, inner: FlowDefinition| {
        Step::new(name, Target::Flow(Flow { name: name.to_owned(), definition: Some(Box::new(inner)) }))
    };
    let middle = FlowDefinition::parallel(vec![sub("inner", inner)]);
    let flow = world.enqueue(graph(vec![sub("middle", middle)])).await;
    let x = take(world, lease).await;
    world.store().cancel_job(flow).await.expect("it is cancelled");
    for _ in 0..3 {
        world.store().advance_flows(10).await.expect("one level at a time");
    }
    assert_eq!(world.store().heartbeat_if_leased(lease).await.expect("a beat").cancel_requested, [x[0].id]);
    let stopped = FinishedRun { outcome: Outcome::Cancelled, ..FinishedRun::completed(x[0].id) };
    world.finish(lease, stopped).await;
    assert_eq!(world.state(flow).await, JobState::Cancelled);
}

pub async fn d06_a_flow_that_runs_itself_comes_to_an_end(world: &mut World) {
    let lease = world.node("a").await;
    let endless =
        FlowDefinition::parallel(vec![Step { retry: Some(no_retry()), ..Step::new("again", Target::flow("endless")) }]);
    world.store().save_flow(named("endless"), endless, None, None).await.expect("it is stored");
    let flow = world.enqueue(NewJob::new(Target::flow("endless"))).await;
    let mut deep = 0;
    loop {
        let request = ClaimRequest { job_types: vec!["flow".to_owned()], ..claim_request(lease, 1) };
        let claimed = world.store().claim_jobs_if_leased(request).await.expect("claiming succeeds");
        let Some(next) = claimed.into_iter().next() else { break };
        deep += 1;
        world.finish(lease, FinishedRun::by_steps(next.job.id)).await;
    }
    assert_eq!(deep, 17);
    let run = world.closed_run(flow).await;
    assert_eq!((run.outcome, run.error_code), (Outcome::Failed, Some(ErrorCode::TargetRejected)));
}

pub async fn d06_a_flow_that_is_not_there_fails_with_a_remedy(world: &mut World) {
    let lease = world.node("a").await;
    let flow = world.enqueue(NewJob { retry: no_retry(), ..NewJob::new(Target::flow("etl")) }).await;
    let request = ClaimRequest { job_types: vec!["flow".to_owned()], ..claim_request(lease, 1) };
    world.store().claim_jobs_if_leased(request).await.expect("it is claimed");
    assert_eq!(world.finish(lease, FinishedRun::by_steps(flow)).await, FinishResult::Closed { retry: None });
    let run = world.closed_run(flow).await;
    assert_eq!(run.error_code, Some(ErrorCode::TargetRejected));
    assert!(run.error.expect("words").contains("no flow `etl`"));
    let again = world.store().retry_job_if_ended(flow, None).await.expect("it is retried");
    let etl = FlowDefinition::parallel(vec![step("a", &[])]);
    world.store().save_flow(named("etl"), etl, None, None).await.expect("it is stored");
    let a = take(world, lease).await;
    world.complete(lease, a[0].id).await;
    assert_eq!(world.state(again).await, JobState::Completed);
}

pub async fn d06_handing_over_twice_begins_once_and_only_by_the_holder(world: &mut World) {
    let (lease, other) = (world.node("a").await, world.node("b").await);
    let flow = world.enqueue(graph(vec![step("a", &[])])).await;
    let request = ClaimRequest { job_types: vec!["flow".to_owned()], ..claim_request(lease, 1) };
    world.store().claim_jobs_if_leased(request).await.expect("it is claimed");
    assert_eq!(world.finish(other, FinishedRun::by_steps(flow)).await, FinishResult::LostLease);
    assert_eq!(world.finish(lease, FinishedRun::by_steps(flow)).await, FinishResult::GoesOn);
    assert_eq!(world.finish(lease, FinishedRun::by_steps(flow)).await, FinishResult::GoesOn, "the answer was lost");
    assert_eq!(world.queue("default").await.len(), 1);
}

pub async fn d06_a_value_that_is_not_there_fails_its_step_and_says_which(world: &mut World) {
    let lease = world.node("a").await;
    let b = Step { input: Some(json(r#"{"x": "{{ steps.a.output.missing.field }}"}"#)), ..step("b", &["a"]) };
    let flow = world.enqueue(graph(vec![step("a", &[]), b])).await;
    let a = take(world, lease).await;
    complete_with(world, lease, a[0].id, r#"{"rows": 1}"#).await;
    let run = world.closed_run(flow).await;
    assert_eq!(run.error_code, Some(ErrorCode::TargetRejected));
    let words = run.error.expect("words");
    assert!(words.contains("`b`") && words.contains("steps.a.output.missing.field"), "{words}");
}

pub async fn a06_a_serial_flow_keeps_its_key_until_its_last_step_is_done(world: &mut World) {
    let lease = world.node("a").await;
    let serial = NewJob { serial_key: Some("k".into()), ..graph(vec![step("a", &[]), step("b", &["a"])]) };
    let two = world.enqueue_all(vec![serial.clone(), serial]).await;
    let a = take(world, lease).await;
    assert_eq!(names(&a), ["a"], "the second flow waits");
    world.complete(lease, a[0].id).await;
    let b = take(world, lease).await;
    assert_eq!(names(&b), ["b"]);
    world.complete(lease, b[0].id).await;
    assert_eq!(world.state(two[0]).await, JobState::Completed);
    assert_eq!(names(&take(world, lease).await), ["a"]);
}

pub async fn d06_a_scheduled_flow_is_the_run_of_its_slot(world: &mut World) {
    let lease = world.node("a").await;
    let definition = FlowDefinition::parallel(vec![step("a", &[])]);
    world.store().save_flow(named("etl"), definition, None, None).await.expect("it is stored");
    let schedule = world
        .create(punctual_core::schedule::ScheduleDefinition { target: Target::flow("etl"), ..minutely("nightly") })
        .await;
    let in_use = world.store().delete_flow("etl").await;
    assert!(matches!(&in_use, Err(StoreError::InUse { by, .. }) if by == &["nightly"]), "{in_use:?}");
    world.pass(mins(1));
    let flow = world.fire_one().await;
    let a = take(world, lease).await;
    assert_eq!(world.schedule(schedule.id).await.results.last_outcome, None, "it has not ended");
    world.complete(lease, a[0].id).await;
    assert_eq!(world.state(flow).await, JobState::Completed);
    assert_eq!(world.schedule(schedule.id).await.results.last_outcome, Some(Outcome::Completed));
}

pub async fn d06_flows_are_stored_with_versions_and_owners(world: &mut World) {
    let store = world.store();
    let one = |name: &str| FlowDefinition::parallel(vec![step(name, &[])]);
    let made = store.save_flow(named("etl"), one("a"), Some("ada".into()), Some(0)).await.expect("it is stored");
    assert_eq!((made.version, made.owner.as_deref()), (1, Some("ada")));
    let taken = store.save_flow(named("etl"), one("b"), Some("ada".into()), Some(0)).await;
    assert!(matches!(taken, Err(StoreError::NameTaken { .. })), "{taken:?}");
    let foreign = store.save_flow(named("etl"), one("b"), Some("eve".into()), None).await;
    assert!(matches!(foreign, Err(StoreError::NameTaken { .. })), "{foreign:?}");
    let edited = store.save_flow(named("etl"), one("b"), Some("ada".into()), Some(1)).await.expect("it is edited");
    assert_eq!((edited.version, edited.definition.steps[0].name.as_str()), (2, "b"));
    let late = store.save_flow(named("etl"), one("c"), None, Some(1)).await;
    assert_eq!(late, Err(StoreError::VersionConflict { expected: 1, found: 2 }));
    store.save_flow(named("zip"), one("a"), None, None).await.expect("it is stored");
    let names = |flows: Vec<punctual_core::flow::Flow>| -> Vec<String> {
        flows.into_iter().map(|flow| flow.name.to_string()).collect()
    };
    assert_eq!(names(store.flows(None, None, 10).await.expect("a page")), ["etl", "zip"]);
    assert_eq!(names(store.flows(None, Some("etl"), 10).await.expect("a page")), ["zip"]);
    assert_eq!(names(store.flows(Some("ada"), None, 10).await.expect("a page")), ["etl"]);
    store.delete_flow("etl").await.expect("it is deleted");
    assert_not_found(store.delete_flow("etl").await, "flow");
    let refused = refusal(store.save_flow(named("bad"), one("no-name"), None, None).await);
    assert_eq!(refused.field, "steps[0].name");
}

pub async fn e03_a_flow_is_forgotten_with_its_job(world: &mut World) {
    let lease = world.node("a").await;
    let flow = world
        .enqueue(NewJob {
            input: json("[1,2]"),
            ..graph(vec![Step { map: Some(FanOut { over: "input".to_owned(), limit: None }), ..step("each", &[]) }])
        })
        .await;
    for job in take(world, lease).await {
        world.complete(lease, job.id).await;
    }
    assert_eq!(world.state(flow).await, JobState::Completed);
    world.pass(SignedDuration::from_hours(24 * 40));
    let retention = Retention::before(world.clock_now(), 1000);
    world.store().prune_history(retention).await.expect("it is forgotten");
    world.store().prune_history(retention).await.expect("it is forgotten");
    assert_eq!(world.store().job(flow).await.expect("an answer"), None);
    assert_eq!(world.store().flow_run(flow).await.expect("an answer"), None);
    for table in ["flow_runs", "flow_steps", "flow_items", "flow_jobs"] {
        assert_eq!(world.count(&format!("SELECT count(*) FROM {{{table}}}")).await, 0, "{table}");
    }
}

/// What is kept of an output that nobody asks for.
pub async fn d06_what_nobody_asks_for_is_not_kept_twice(world: &mut World) {
    let lease = world.node("a").await;
    let flow = world.enqueue(graph(vec![step("a", &[]), step("b", &["a"])])).await;
    let a = take(world, lease).await;
    complete_with(world, lease, a[0].id, &format!("\"{}\"", "x".repeat(1000))).await;
    let kept: Vec<Option<Json>> = flow_run(world, flow).await.steps.into_iter().map(|step| step.output).collect();
    assert_eq!(kept, [None, None]);
}
