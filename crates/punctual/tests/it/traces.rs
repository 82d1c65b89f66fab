//! Traces through the real program: from whoever asks, over every attempt, to the target; and logs with the same ids.

use crate::serve::{Server, punctual};
use crate::world::{World, on_both_stores};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use punctual_core::job::NewJob;
use punctual_core::target::Target;
use punctual_core::trace::{SpanId, TraceId};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// Where the client stands.
const CLIENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// What was received: bodies of requests for spans, and the headers of calls to the target.
#[derive(Debug, Default)]
struct Received {
    requests: usize,
    spans: Vec<Value>,
    resource: Value,
    token: String,
    calls: Vec<String>,
}

/// A receiver of traces that is not there at first, and a target that fails at first.
struct Outside {
    address: SocketAddr,
    received: Arc<Mutex<Received>>,
    changed: watch::Sender<usize>,
}

#[derive(Clone)]
struct Shared {
    received: Arc<Mutex<Received>>,
    changed: watch::Sender<usize>,
    /// What the receiver answers to each request; the last one stands for all that follow.
    answers: Arc<Vec<u16>>,
}

async fn take_spans(State(shared): State<Shared>, headers: HeaderMap, body: String) -> StatusCode {
    let mut received = shared.received.lock().unwrap();
    let answer = *shared.answers.get(received.requests).or(shared.answers.last()).unwrap();
    received.requests += 1;
    assert_eq!(headers["content-type"], "application/json");
    if answer == 200 {
        let body: Value = serde_json::from_str(&body).unwrap();
        let sent = &body["resourceSpans"][0];
        received.resource = sent["resource"].clone();
        headers["authorization"].to_str().unwrap().clone_into(&mut received.token);
        received.spans.extend(sent["scopeSpans"][0]["spans"].as_array().unwrap().iter().cloned());
    }
    shared.changed.send_modify(|count| *count += 1);
    StatusCode::from_u16(answer).unwrap()
}

async fn be_called(State(shared): State<Shared>, headers: HeaderMap) -> StatusCode {
    let calls = &mut shared.received.lock().unwrap().calls;
    calls.push(headers["traceparent"].to_str().unwrap().to_owned());
    if calls.len() == 1 { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK }
}

impl Outside {
    async fn start(answers: &[u16]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, changed) = (listener.local_addr().unwrap(), watch::Sender::new(0));
        let received = Arc::new(Mutex::new(Received::default()));
        let shared =
            Shared { received: Arc::clone(&received), changed: changed.clone(), answers: answers.to_vec().into() };
        let routes = Router::new().route("/v1/traces", post(take_spans)).route("/target", post(be_called));
        tokio::spawn(async move { axum::serve(listener, routes.with_state(shared)).await });
        Self { address, received, changed }
    }

    /// Waits until what was received is as wanted.
    async fn until(&self, wanted: impl Fn(&Received) -> bool) {
        let mut changes = self.changed.subscribe();
        while !wanted(&self.received.lock().unwrap()) {
            changes.changed().await.unwrap();
        }
    }

    /// A server that sends its spans here, on a store.
    fn server(&self, world: &World, data: &str) -> Server {
        let (here, allow) = (format!("http://{}", self.address), format!("--http-allow={}", self.address));
        let args = ["serve", "--listen", "127.0.0.1:0", "--data", data, "--database", &world.url, &allow];
        let mut command = punctual(&[&args[..], &["--metrics-token", "scrape"]].concat());
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", here)
            .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20traces")
            .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
            .env("OTEL_SERVICE_NAME", "nightly");
        Server::start(&mut command)
    }
}

/// One request, and the body of its answer.
fn request(server: &Server, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).unwrap();
    let length = body.len();
    write!(stream, "{head}\r\nHost: localhost\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
    body.to_owned()
}

/// Makes a job as a client that is traced does.
fn enqueue(server: &Server, data: &str, body: &Value) -> Value {
    let token = std::fs::read_to_string(format!("{data}/admin.token")).unwrap();
    let head = "POST /api/v1/jobs HTTP/1.1\r\nContent-Type: application/json";
    let head = format!("{head}\r\nAuthorization: Bearer {}\r\ntraceparent: {CLIENT}", token.trim());
    serde_json::from_str(&request(server, &head, &body.to_string())).unwrap()
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|it| it["key"] == key).unwrap_or_else(|| panic!("no {key}: {span}"));
    let value = &found["value"];
    value.get("stringValue").or_else(|| value.get("intValue")).unwrap()
}

fn nanos(span: &Value, key: &str) -> i128 {
    span[key].as_str().unwrap().parse().unwrap()
}

/// Client → enqueue → two attempts, each the caller of the target.
fn check_trace(received: &Received, job: &Value) {
    let named = |name: &str| received.spans.iter().filter(|span| span["name"] == name).collect::<Vec<_>>();
    let (produced, mut runs) = (named("enqueue"), named("run http"));
    assert_eq!((received.spans.len(), produced.len(), runs.len()), (3, 1, 2), "{:?}", received.spans);
    let enqueue = produced[0];
    runs.sort_by_key(|span| nanos(span, "startTimeUnixNano"));
    assert!(received.spans.iter().all(|span| span["traceId"] == TRACE));
    assert_eq!((&enqueue["parentSpanId"], &enqueue["kind"]), (&json!("00f067aa0ba902b7"), &json!(4)));
    assert_eq!(job["trace_context"], format!("00-{TRACE}-{}-01", enqueue["spanId"].as_str().unwrap()));
    for (n, run) in runs.iter().enumerate() {
        assert_eq!((&run["parentSpanId"], &run["kind"]), (&enqueue["spanId"], &json!(5)));
        assert_eq!(*attribute(run, "punctual.job.attempt"), json!((n + 1).to_string()));
        assert_eq!(*attribute(run, "punctual.job.root_id"), job["id"]);
        assert_eq!(*attribute(run, "punctual.job.kind"), "http");
        assert!(nanos(run, "endTimeUnixNano") >= nanos(run, "startTimeUnixNano"));
        let passed_on = format!("00-{TRACE}-{}-01", run["spanId"].as_str().unwrap());
        assert_eq!(received.calls[n], passed_on, "the run is what calls the target");
    }
    let [first, second] = runs[..] else { unreachable!() };
    assert_eq!((attribute(first, "punctual.outcome"), &first["status"]["code"]), (&json!("failed"), &json!(2)));
    assert_eq!(*attribute(first, "punctual.error_code"), "target_error");
    assert_eq!(first["status"]["message"], "the answer is 500");
    assert_eq!((attribute(second, "punctual.outcome"), &second["status"]), (&json!("completed"), &json!({})));
    assert_eq!(second["links"], json!([{ "traceId": TRACE, "spanId": first["spanId"] }]));
    assert_eq!(first["links"], json!([]));
    assert_eq!(*attribute(first, "punctual.job.id"), job["id"]);
}

on_both_stores! {
    /// The receiver is out of order at first, and gets everything all the same.
    async fn d12_a_retried_http_job_is_one_trace_from_the_client_to_the_target(world: &World) {
        let (outside, folder) = (Outside::start(&[503, 200]).await, tempfile::tempdir().unwrap());
        let data = folder.path().to_str().unwrap();
        let server = outside.server(world, data);
        let job = enqueue(&server, data, &json!({
            "target": { "kind": "http", "method": "POST", "url": format!("http://{}/target", outside.address) },
            "retry": { "max_attempts": 3, "backoff": "fixed", "base": "10ms", "max": "10ms" },
        }));
        outside.until(|received| received.spans.len() >= 3).await;
        let received = outside.received.lock().unwrap();
        check_trace(&received, &job);
        assert_eq!(received.token, "Bearer traces");
        assert!(received.requests > 1, "the first one was refused");
        assert_eq!(*attribute(&received.resource, "service.name"), "nightly");
        assert_eq!(*attribute(&received.resource, "deployment.environment"), "test");
    }

    /// What is dropped is counted, and nothing else is affected.
    async fn d12_a_receiver_that_takes_nothing_stops_no_work(world: &World) {
        let (outside, folder) = (Outside::start(&[400]).await, tempfile::tempdir().unwrap());
        let data = folder.path().to_str().unwrap();
        let server = outside.server(world, data);
        let job = enqueue(&server, data, &json!({ "target": { "kind": "command", "argv": ["true"] } }));
        let id = job["id"].as_str().unwrap().parse().unwrap();
        while world.store.run(id).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let head = "GET /metrics HTTP/1.1\r\nAuthorization: Bearer scrape";
        while !request(&server, head, "").contains("punctual_spans_dropped_total 2\n") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(request(&server, head, "").contains("punctual_spans_exported_total 0\n"));
    }
}

/// Without a receiver the client's own span is what the job keeps, and the run is passed on all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d12_the_trace_is_passed_on_although_nobody_keeps_spans() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let server = Server::on(&["--data", data]);
    let job =
        enqueue(&server, data, &json!({ "target": { "kind": "command", "argv": ["sh", "-c", "echo $TRACEPARENT"] } }));
    assert_eq!(job["trace_context"], CLIENT);
    let store = punctual::open(&format!("sqlite:{data}/punctual.db")).await.unwrap();
    let id = job["id"].as_str().unwrap().parse().unwrap();
    while store.run(id).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let log = store.run_log(id, 0, 10).await.unwrap();
    let said: Vec<&str> = log.iter().map(|line| line.text.as_str()).collect();
    assert!(said.contains(&format!("00-{TRACE}-{}-01", SpanId::of_run(id)).as_str()), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d12_lines_of_the_log_carry_the_ids_of_the_run_they_are_said_in() {
    let folder = tempfile::tempdir().unwrap();
    let (url, log) = (format!("sqlite:{}", folder.path().join("p.db").display()), folder.path().join("log"));
    let store = punctual::open(&url).await.unwrap();
    let bad = NewJob { trace_context: Some("00-trace-01".into()), ..NewJob::new(Target::command(["true"])) };
    let id = store.enqueue_jobs(vec![bad]).await.unwrap()[0];
    let mut command = punctual(&["worker", "--database", &url, "--log-format", "json"]);
    command.env("PUNCTUAL_LOG", "trace").stderr(std::fs::File::create(&log).unwrap());
    let worker = Server::start_with_log(&mut command);
    while store.run(id).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(worker);
    let text = std::fs::read_to_string(&log).unwrap();
    // The last line may have been cut by the end of the process.
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect::<Vec<_>>();
    assert!(lines.len() + 1 >= text.lines().count() && lines.len() > 3, "{text}");
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["level"].is_string()));
    let within = lines.iter().find(|line| line["phase"] == "run" && line["message"] == "begins").unwrap();
    assert_eq!(within["job_id"], id.to_string());
    assert_eq!(within["trace_id"], TraceId::of_chain(id).to_string());
    assert_eq!(within["span_id"], SpanId::of_run(id).to_string());
    let outside = lines.iter().find(|line| line["phase"] == "claim").unwrap();
    assert!(outside.get("job_id").is_none());
    let warned = lines.iter().find(|line| line["level"] == "WARN" && line["stored"] == "00-trace-01").unwrap();
    assert_eq!(warned["job_id"], id.to_string());
}

#[test]
fn d12_a_receiver_that_is_no_address_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut command = punctual(&["worker", "--data", data.to_str().unwrap()]);
    let ended = command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317").output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(words.contains("OTEL_EXPORTER_OTLP_ENDPOINT") && words.contains("http://HOST:4318"), "{words}");
    assert!(!data.exists());
}
