//! A graph of a real LangGraph server, from its schedule to its end.

use crate::serve::{Server, punctual};
use punctual_testkit::langgraph::LangGraph;
use serde_json::Value;

/// What a command prints as JSON.
fn told(args: &[&str]) -> Value {
    let output = punctual(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a01_a_langgraph_graph_runs_by_cron_under_a_grant_and_shows_its_thread_and_trace() {
    let langgraph = LangGraph::start();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let _server = Server::on(&["--data", data, "--langgraph-url", &langgraph.url()]);
    let graphs = told(&["graph", "ls", "--json", "--data", data]);
    let ids: Vec<&str> = graphs["items"].as_array().unwrap().iter().filter_map(|it| it["id"].as_str()).collect();
    assert!(ids.contains(&"langgraph:echo"), "{graphs}");
    let grant = told(&["grant", "add", "--account", "acme", "--graph", "langgraph:echo", "--json", "--data", data]);
    let grant = grant["id"].as_str().unwrap();
    let add = ["schedule", "add", "turned", "--cron", "* * * * * *", "--graph", "langgraph:echo", "--grant", grant];
    told(&[&add[..], &["--input", "{\"text\":\"abc\"}", "--json", "--data", data]].concat());

    let ended = loop {
        let runs = told(&["schedule", "runs", "turned", "--json", "--data", data]);
        let mut items = runs["items"].as_array().unwrap().clone();
        items.retain(|job| job["state"] != "running" && job["state"] != "queued");
        if let Some(job) = items.pop() {
            break told(&["job", "show", job["id"].as_str().unwrap(), "--json", "--data", data]);
        }
    };
    assert_eq!(ended["state"], "completed", "{ended}\n{}", langgraph.log());
    let shown = &ended["run"]["output"];
    assert_eq!(shown["output"]["answer"], "cba", "{ended}");
    let (thread, trace) = (shown["thread_id"].as_str().unwrap(), shown["trace_id"].as_str().unwrap());
    assert_eq!(langgraph.started("echo", thread), 1, "as the graph itself counts");
    assert_eq!(shown["output"]["told"]["trace_id"], trace);
    assert!(trace.len() == 32 && shown["langgraph_run_id"].is_string(), "{shown}");
    assert!(shown["output"]["told"]["virtual_key"].as_str().unwrap().starts_with("vk_"), "{shown}");
}

#[test]
fn an_address_of_a_langgraph_server_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let refused = punctual(&["serve", "--data", data, "--langgraph-url", "localhost:2024"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("http://HOST:PORT"), "{words}");
}
