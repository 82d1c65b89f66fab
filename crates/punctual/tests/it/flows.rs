//! Flows under kills: real workers that die in the middle, and a graph of steps that all run, none before its time.

use crate::process::{Ear, Said, Setup, Worker};
use crate::serve::{Server, punctual};
use crate::world::{World, on_both_stores};
use jiff::SignedDuration;
use punctual_core::flow::{FanOut, FlowDefinition, Step};
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob};
use punctual_core::json::Json;
use punctual_core::retry::{Backoff, RetryPolicy};
use punctual_core::run::Outcome;
use punctual_core::target::{Flow, Target};
use serde_json::Value;
use std::collections::BTreeMap;

const FLOWS: usize = 4;
const KILLS: usize = 5;

fn json(text: &str) -> Json {
    Json::parse("input", text).unwrap()
}

/// `first`, then `each` for six items two at a time, beside it `left` and `right`; `last` comes after all of them.
fn definition(world: &World) -> FlowDefinition {
    let retry = RetryPolicy {
        backoff: Backoff::Fixed,
        base: SignedDuration::from_millis(1),
        max_interruptions: 100,
        ..RetryPolicy::default()
    };
    let step = |name: &str, after: &[&str]| Step {
        after: after.iter().map(|name| (*name).to_owned()).collect(),
        retry: Some(retry.clone()),
        ..Step::new(name, world.spanned_target())
    };
    let each = Step {
        map: Some(FanOut { over: "input.items".to_owned(), limit: Some(2) }),
        input: Some(json(r#"{"item": "{{ item }}"}"#)),
        ..step("each", &["first"])
    };
    FlowDefinition::parallel(vec![
        step("first", &[]),
        each,
        step("left", &["first"]),
        step("right", &["left"]),
        step("last", &["each", "right"]),
    ])
}

async fn step_of(world: &World, id: JobId) -> (JobId, String) {
    let link = world.store.flow_link(id).await.unwrap().expect("a step");
    (link.flow_id, link.step)
}

/// Where in the order of events the steps of each flow began first and ended last.
async fn order(world: &World) -> BTreeMap<(JobId, String), (usize, usize)> {
    let mut order: BTreeMap<(JobId, String), (usize, usize)> = BTreeMap::new();
    for (at, (begins, id)) in world.spans().into_iter().enumerate() {
        let seen = order.entry(step_of(world, id).await).or_insert((at, at));
        if !begins {
            seen.1 = at;
        }
    }
    order
}

on_both_stores! {
    async fn d06_flows_come_to_their_end_whoever_is_killed(world: &World) {
        let target = Target::Flow(Flow { name: "etl".to_owned(), definition: Some(Box::new(definition(world))) });
        let spec = NewJob { input: json(r#"{"items": [1, 2, 3, 4, 5, 6]}"#), ..NewJob::new(target) };
        let flows = world.store.enqueue_jobs(vec![spec; FLOWS]).await.unwrap();
        let mut ear = Ear::new();
        let mut workers: BTreeMap<u32, Worker> = BTreeMap::new();
        let setup = Setup { lease: "1s", heartbeat: "100ms", ..Setup::default() };
        let hire = |ear: &Ear| {
            let worker = Worker::start_as(&world.url, &setup, ear);
            (worker.pid(), worker)
        };
        workers.extend([hire(&ear), hire(&ear)]);
        // Whoever runs something, or writes down that something has ended, dies of it.
        for phase in ["run", "finish", "run", "finish", "run"].into_iter().take(KILLS) {
            let pid = loop {
                match ear.next().await {
                    (pid, Said::Begins(begun)) if begun == phase && workers.contains_key(&pid) => break pid,
                    _ => {}
                }
            };
            workers.remove(&pid).unwrap().kill();
            workers.extend([hire(&ear)]);
        }
        world.until_open(0).await;
        for flow in flows {
            let last = world.store.chain_end(flow).await.unwrap().unwrap();
            assert_eq!(last.state(), JobState::Completed);
            let run = world.store.flow_run(last.job.id).await.unwrap().unwrap();
            assert!(run.steps.iter().all(|step| step.state.outcome == Some(Outcome::Completed)), "{run:?}");
            assert_eq!(run.steps[1].state.items.map(|items| (items.total, items.ended, items.failed)), Some((6, 6, 0)));
        }
        let order = order(world).await;
        assert_eq!(order.len(), FLOWS * 5);
        for (before, after) in [("first", "each"), ("first", "left"), ("left", "right"), ("each", "last"), ("right", "last")] {
            for ((flow, name), (began, _)) in order.iter().filter(|((_, name), _)| name == after) {
                let (_, ended) = order[&(*flow, before.to_owned())];
                assert!(ended < *began, "{name} of {flow} began before {before} had ended");
            }
        }
    }
}

/// What a command prints, as JSON.
fn tell(data: &str, args: &[&str]) -> Value {
    let output = punctual(&[args, &["--data", data, "--json"]].concat()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// A flow as a user makes it: from a file, run by hand, and as a graph under a grant that is charged.
#[test]
fn a01_a_flow_is_a_graph_that_runs_once_under_a_grant_and_is_charged() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let file = folder.path().join("sum.toml");
    let definition = r#"
        output = { each = "{{ steps.each.output }}", of = "{{ steps.list.output.n }}" }
        [[steps]]
        name = "list"
        target = { kind = "command", argv = ["printf", "{\"n\": [1, 2, 3]}"] }
        [[steps]]
        name = "each"
        after = ["list"]
        map = { over = "steps.list.output.n", limit = 2 }
        input = { n = "{{ item }}" }
        target = { kind = "command", argv = ["cat"] }
    "#;
    std::fs::write(&file, definition).unwrap();
    let _server = Server::on(&["--data", data]);
    tell(data, &["flow", "add", "sum", "--file", file.to_str().unwrap()]);
    let grant = tell(data, &["grant", "add", "--account", "acme", "--graph", "flow:sum"]);
    let ran = tell(data, &["graph", "run", "flow:sum", "--grant", grant["id"].as_str().unwrap(), "--wait", "60s"]);
    assert_eq!(ran["state"], "completed", "{ran}");
    let output = &ran["run"]["output"];
    assert_eq!(output["output"]["of"], serde_json::json!([1, 2, 3]), "{output}");
    assert_eq!(output["output"]["each"][2]["n"], 3, "{output}");
    assert!(output["run_id"].is_string() && output["trace_id"].is_string());
    let job = output["job_id"].as_str().unwrap();
    let run = tell(data, &["flow", "steps", job]);
    assert_eq!(run["steps"][1]["items"]["ended"], 3, "{run}");
    let items = tell(data, &["flow", "items", job, "each"]);
    assert_eq!(items["items"].as_array().unwrap().len(), 3, "{items}");
    let step = tell(data, &["job", "show", items["items"][0]["job_id"].as_str().unwrap()]);
    assert_eq!((&step["flow"]["step"], &step["flow"]["item"]), (&"each".into(), &0.into()), "{step}");
    let grant = grant["id"].as_str().unwrap();
    let failed = punctual(&["graph", "run", "flow:none", "--grant", grant, "--wait", "30s", "--data", data]).output();
    let failed = failed.unwrap();
    assert_eq!(failed.status.code(), Some(8), "{}", String::from_utf8_lossy(&failed.stderr));
    let used = tell(data, &["billing", "usage", "acme"]).to_string();
    assert!(used.contains("\"step\"") && used.contains("\"run\""), "{used}");
}
