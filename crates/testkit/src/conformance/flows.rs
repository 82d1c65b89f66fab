//! Flows: what follows from what, in the transaction that ends a step.

use crate::prelude::*;
use punctual_core::flow::{FanOut, FlowDefinition, FlowRun, OnFailure, Step};
use punctual_core::id::JobId;
use punctual_core::job::{Job, JobState, NewJob, Whereabouts};
use punctual_core::run::{ErrorCode, Outcome, Trigger};
use punctual_core::store::{ClaimRequest, FinishResult, FinishedRun, Lease};
use punctual_core::target::{Flow, Target};
use punctual_core::trace::TraceContext;
use std::collections::BTreeMap;
use std::sync::Arc;

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

pub(crate) fn graph(steps: Vec<Step>) -> NewJob {
    flow_job(FlowDefinition::parallel(steps))
}

/// A job of a step, and which: `load`, or `each[3]`.
pub(crate) struct Taken {
    job: Arc<Job>,
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
        let jobs: Vec<Arc<Job>> = claimed.into_iter().map(|claimed| claimed.job).collect();
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

pub(crate) fn names(jobs: &[Taken]) -> Vec<String> {
    let mut names: Vec<String> = jobs.iter().map(|job| job.step.clone()).collect();
    names.sort_unstable();
    names
}

pub(crate) fn find<'a>(jobs: &'a [Taken], name: &str) -> &'a Job {
    jobs.iter().find(|job| job.step == name).unwrap_or_else(|| panic!("no job of {name}"))
}

pub(crate) async fn complete_with(world: &World, lease: Lease, id: JobId, output: &str) {
    let report = FinishedRun { output: Some(json(output)), ..FinishedRun::completed(id) };
    assert_eq!(world.finish(lease, report).await, FinishResult::Closed { retry: None });
}

pub(crate) async fn flow_run(world: &World, id: JobId) -> FlowRun {
    world.store().flow_run(id).await.expect("an answer").expect("a flow")
}

/// How each step ended.
pub(crate) async fn outcomes(world: &World, id: JobId) -> BTreeMap<String, Option<Outcome>> {
    flow_run(world, id).await.steps.into_iter().map(|step| (step.name, step.state.outcome)).collect()
}

pub(crate) async fn outcome(world: &World, id: JobId, step: &str) -> Option<Outcome> {
    outcomes(world, id).await[step]
}

pub async fn d12_the_steps_of_a_flow_stand_below_its_run_in_its_trace(world: &mut World) {
    let lease = world.node("n").await;
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for trace_context in [None, Some(given.to_owned())] {
        let made = world.enqueue(NewJob { trace_context, ..graph(vec![step("a", &[]), step("b", &["a"])]) }).await;
        let run = TraceContext::of_run(&world.job(made).await.job);
        for name in ["a", "b"] {
            let taken = take(world, lease).await;
            let job = find(&taken, name);
            let asker = TraceContext::asked_by(job).expect("a trace context");
            assert_eq!(asker, run);
            complete_with(world, lease, job.id, "1").await;
        }
    }
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
