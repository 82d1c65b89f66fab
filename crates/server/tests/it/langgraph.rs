//! Graphs at a real LangGraph server: run once for each id, whoever asks and whatever breaks.

use crate::world::run;
use punctual_core::graph::{GraphEnd, GraphExecutor, GraphRun};
use punctual_core::id::{GrantId, GraphRunId};
use punctual_core::json::Json;
use punctual_core::run::ErrorCode;
use punctual_server::graphs::langgraph::{LangGraph, LangGraphOptions};
use punctual_testkit::langgraph::LangGraph as Server;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn asked(graph: &str, input: &Value) -> GraphRun {
    GraphRun {
        run_id: GraphRunId(Uuid::new_v4()),
        graph: format!("langgraph:{graph}").parse().unwrap(),
        input: Json::from_value("input", input).unwrap(),
        virtual_key: "vk-7".to_owned(),
        trace_id: TRACE.to_owned(),
        grant_id: GrantId(Uuid::new_v4()),
        owner: "somebody".to_owned(),
    }
}

fn provider(server: &Server) -> Arc<LangGraph> {
    Arc::new(LangGraph::new(&LangGraphOptions::new(server.url())).unwrap())
}

fn output(end: &GraphEnd) -> Value {
    assert_eq!(end.failure, None);
    serde_json::from_str(end.output.as_ref().expect("a final state").as_str()).unwrap()
}

fn used(end: &GraphEnd) -> Vec<(&str, u64)> {
    end.used.iter().map(|it| (it.unit.as_str(), it.quantity)).collect()
}

/// What the server itself says of a thread's runs.
async fn runs_at(server: &Server, run: &GraphRun) -> Vec<Value> {
    // The adapter's own client would do; this one shares nothing with it.
    let address = server.url().trim_start_matches("http://").to_owned();
    let call = format!("GET /threads/{}/runs HTTP/1.0\r\nHost: {address}\r\n\r\n", run.run_id);
    let answer = exchange(&address, &call).await;
    serde_json::from_str(answer.split_once("\r\n\r\n").expect("an answer").1).expect("a list")
}

async fn exchange(address: &str, call: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(call.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Waits until the graph itself has begun.
async fn begun(server: &Server, run: &GraphRun) {
    while server.started(run.graph.name(), &run.run_id.to_string()) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// One server for all of it, because each takes seconds to start.
#[test]
fn a01_graphs_of_a_langgraph_server_run_once_for_each_id() {
    run(async {
        let server = Server::start();
        let graphs = provider(&server);
        assert_eq!(graphs.graphs().await.unwrap(), ["asking", "echo", "failing", "gated", "talking"]);
        asked_twice_it_runs_once(&server, &graphs).await;
        asked_by_many_at_once_it_runs_once(&server, &graphs).await;
        ends_are_told_apart(&server, &graphs).await;
        a_thread_whose_maker_died_gets_its_run(&server).await;
        cancelled_it_ends(&server, &graphs).await;
    });
}

async fn asked_twice_it_runs_once(server: &Server, graphs: &LangGraph) {
    let run = asked("echo", &json!({ "text": "abc" }));
    let first = graphs.run_graph(run.clone()).await.unwrap();
    let state = output(&first);
    assert_eq!(state["answer"], "cba");
    assert_eq!(state["told"], json!({ "virtual_key": "vk-7", "trace_id": TRACE }));
    assert_eq!(used(&first), [("run", 1)]);
    assert_eq!(graphs.run_graph(run.clone()).await.unwrap(), first, "asked again, the same answer");
    assert_eq!(server.started("echo", &run.run_id.to_string()), 1);
    let runs = runs_at(server, &run).await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["metadata"]["trace_id"], TRACE);
    assert!(!runs[0]["metadata"].to_string().contains("vk-7"));
    assert_eq!(first.references["langgraph_run_id"], runs[0]["run_id"].as_str().unwrap());
    assert_eq!(first.references["thread_id"], run.run_id.to_string());
    assert_eq!(first.references["trace_id"], TRACE);
}

/// Two adapters, as in two servers of ours, with several callers each. The runs are quick, so that a caller who comes
/// late finds a thread that is idle again.
async fn asked_by_many_at_once_it_runs_once(server: &Server, graphs: &Arc<LangGraph>) {
    let run = asked("echo", &json!({ "text": "many" }));
    let other = provider(server);
    let calls = (0..8).map(|number| {
        let graphs = Arc::clone(if number % 2 == 0 { graphs } else { &other });
        let run = run.clone();
        tokio::spawn(async move { graphs.run_graph(run).await })
    });
    let mut ends = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        ends.push(call.await.unwrap().unwrap());
    }
    assert_eq!(output(&ends[0])["answer"], "ynam");
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
    assert_eq!(server.started("echo", &run.run_id.to_string()), 1);
    assert_eq!(runs_at(server, &run).await.len(), 1);
}

async fn ends_are_told_apart(server: &Server, graphs: &LangGraph) {
    let failing = asked("failing", &json!({ "text": "x" }));
    let end = graphs.run_graph(failing.clone()).await.unwrap();
    let (code, words) = end.failure.clone().unwrap();
    assert_eq!((code, words.as_str()), (ErrorCode::TargetError, "the graph failed: ValueError: the soup is cold"));
    assert_eq!(used(&end), [("run", 1)]);
    assert_eq!(graphs.run_graph(failing.clone()).await.unwrap(), end, "what failed is not run again under its id");
    assert_eq!(server.started("failing", &failing.run_id.to_string()), 1);

    let (code, words) = graphs.run_graph(asked("asking", &json!({}))).await.unwrap().failure.unwrap();
    assert!(code == ErrorCode::TargetError && words.contains("may I?"), "{words}");

    let unknown = graphs.run_graph(asked("nothing", &json!({}))).await.unwrap();
    let (code, words) = unknown.failure.clone().unwrap();
    assert!(code == ErrorCode::TargetRejected && words.contains("nothing") && words.contains("echo"), "{words}");
    assert_eq!(used(&unknown), [], "what was not run is not charged");

    let talking = graphs.run_graph(asked("talking", &json!({}))).await.unwrap();
    assert_eq!(used(&talking), [("run", 1), ("input_token", 60), ("output_token", 14)]);
}

async fn a_thread_whose_maker_died_gets_its_run(server: &Server) {
    let run = asked("echo", &json!({ "text": "late" }));
    let body = json!({ "thread_id": run.run_id }).to_string();
    let call = format!(
        "POST /threads HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let made = exchange(server.url().trim_start_matches("http://"), &call).await;
    assert!(made.contains(" 200 "), "{made}");
    let impatient = LangGraphOptions { settle: Duration::ZERO, ..LangGraphOptions::new(server.url()) };
    let graphs = LangGraph::new(&impatient).unwrap();
    assert_eq!(output(&graphs.run_graph(run).await.unwrap())["answer"], "etal");
}

async fn cancelled_it_ends(server: &Server, graphs: &Arc<LangGraph>) {
    graphs.cancel_graph(GraphRunId(Uuid::new_v4())).await.expect("there is nothing to stop");
    let run = asked("gated", &json!({}));
    let call = tokio::spawn({
        let (graphs, run) = (Arc::clone(graphs), run.clone());
        async move { graphs.run_graph(run).await }
    });
    begun(server, &run).await;
    graphs.cancel_graph(run.run_id).await.unwrap();
    let end = call.await.unwrap().unwrap();
    assert_eq!(end.failure.unwrap().0, ErrorCode::Cancelled);
    graphs.cancel_graph(run.run_id).await.expect("it has ended, and that is what was wanted");
}

#[test]
fn a13_a_langgraph_server_that_dies_leaves_an_unknown_outcome_and_then_the_right_one() {
    run(async {
        let mut server = Server::start();
        let graphs = provider(&server);
        let run = asked("gated", &json!({}));
        let call = tokio::spawn({
            let (graphs, run) = (Arc::clone(&graphs), run.clone());
            async move { graphs.run_graph(run).await }
        });
        begun(&server, &run).await;
        server.kill();
        let unknown = call.await.unwrap().unwrap_err();
        assert!(unknown.to_string().contains("LangGraph server"), "{unknown}");
        let away = graphs.run_graph(run.clone()).await.unwrap_err();
        assert!(away.to_string().contains("cannot be reached"), "{away}");
        graphs.cancel_graph(run.run_id).await.unwrap_err();

        server.start_again();
        server.open_gate();
        let end = provider(&server).run_graph(run.clone()).await.unwrap();
        assert_eq!(output(&end)["answer"], "the gate was opened");
        assert_eq!(runs_at(&server, &run).await.len(), 1);
    });
}
