//! Flows in trouble and within each other: what is tried again, lost, cancelled, late or not there, and what is kept.

use super::flows::{complete_with, flow_run, graph, names, outcome, outcomes, step, take};
use crate::prelude::*;
use jiff::SignedDuration;
use punctual_core::flow::{FanOut, FlowDefinition, FlowsAdvanced, OnFailure, Step};
use punctual_core::job::{JobState, NewJob, Timeout};
use punctual_core::json::Json;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::{ClaimRequest, FinishResult, FinishedRun, Retention, StoreError};
use punctual_core::target::{Flow, Target};

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
    let advanced = world.store().advance_flows(10).await.expect("nothing yet");
    assert_eq!(advanced, FlowsAdvanced { next_in: Some(secs(1)), ..FlowsAdvanced::default() });
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

pub async fn a21_a_flow_that_is_replaced_stops_at_once(world: &mut World) {
    let lease = world.node("a").await;
    let definition = FlowDefinition::parallel(vec![step("a", &[]), step("b", &["a"])]);
    world.store().save_flow(named("etl"), definition, None, None).await.expect("it is stored");
    let replacing = punctual_core::schedule::ScheduleDefinition {
        target: Target::flow("etl"),
        overlap: punctual_core::schedule::Overlap::Replace,
        ..minutely("nightly")
    };
    world.create(replacing).await;
    world.pass(mins(1));
    let old = world.fire_one().await;
    let a = take(world, lease).await;
    world.pass(mins(1));
    world.fire_one().await;
    assert_eq!(world.store().heartbeat_if_leased(lease).await.expect("a beat").cancel_requested, [a[0].id]);
    let stopped = FinishedRun { outcome: Outcome::Cancelled, ..FinishedRun::completed(a[0].id) };
    world.finish(lease, stopped).await;
    let run = world.closed_run(old).await;
    assert_eq!((run.outcome, run.error_code), (Outcome::Cancelled, Some(ErrorCode::Replaced)));
    assert_eq!(names(&take(world, lease).await), ["a"], "the new one");
}
