//! Graphs: a call of the execution service under a key that stays the same until an answer has come (A11).
//!
//! The key is the slot, or the chain of the job. While nobody knows what became of a call it is made again under the same
//! key, and the service starts nothing twice. Each failure that was received is remembered with the chain, and the next
//! attempt adds their number to the key: a retry of a failed run is a new run.

use super::http::trusted_tls;
use crate::clock::Uptime;
use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::execute::{Executor, RunContext, stopped};
use punctual_core::id::{GrantId, SlotKey};
use punctual_core::invalid::Invalid;
use punctual_core::job::Job;
use punctual_core::json::Json;
use punctual_core::records::LogStream;
use punctual_core::run::{ErrorCode, Trigger};
use punctual_core::secret::Secret;
use punctual_core::store::{FinishedRun, StoreResult};
use punctual_core::target::Target;
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use rustls::pki_types::CertificateDer;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How long making a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one call waits for its answer. A graph may take longer: the next call joins it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// How soon, and how late, a graph that is still under way is asked for again.
const LOOK: (SignedDuration, SignedDuration) = (SignedDuration::from_secs(1), SignedDuration::from_secs(60));

/// For how long a service that cannot be reached is called again within one run.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait between two calls, when the service does not say.
const PAUSE: Duration = Duration::from_millis(500);

/// The longest wait that the service may ask for.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The most that is read of an answer.
const ANSWER_MAX: usize = 2 << 20;

/// Where the service's secret comes from; asked for every call, so that a new one needs no restart.
pub type TokenSource = Arc<dyn Fn() -> Result<Secret, Invalid> + Send + Sync>;

/// How a node calls the execution service.
pub struct GraphOptions {
    /// The service's address, such as `http://127.0.0.1:7878`.
    pub url: String,
    /// What lets the node in.
    pub token: TokenSource,
    /// What the node calls itself.
    pub service: String,
    /// Authorities that are trusted beside those of the system.
    pub authorities: Vec<CertificateDer<'static>>,
}

/// Runs graphs by calling the execution service.
pub struct GraphCaller {
    client: Client,
    base: Url,
    token: TokenSource,
    service: String,
}

/// What the service says about a run.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    run_id: Option<String>,
    trace_id: String,
    ok: bool,
    error_code: Option<String>,
    error: Option<String>,
    #[serde(default)]
    references: BTreeMap<String, String>,
    output: Option<Box<RawValue>>,
}

/// What came of one call.
enum Heard {
    Answer {
        answer: Answer,
        replayed: bool,
    },
    /// It is not to be run now.
    TooFast(Duration),
    /// The call is refused, and would be again.
    Refused(ErrorCode, String),
    /// Still under way, as far as can be seen.
    Waiting,
    /// Nobody knows.
    Unknown(String, Duration),
}

impl GraphCaller {
    /// Reads the system's authorities once. Refused: what is no address.
    pub fn new(options: GraphOptions) -> Result<Self, Invalid> {
        let refused = |problem: String| {
            Invalid::new("internal_api_url", problem).remedy("write it as http://HOST:PORT or https://HOST")
        };
        let base =
            Url::parse(&options.url).map_err(|error| refused(format!("{} is no address: {error}", options.url)))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(refused(format!("{base} is neither http nor https")));
        }
        let tls = trusted_tls(options.authorities).map_err(|error| refused(error.to_string()))?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(Policy::none())
            .no_proxy()
            .http1_only()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            .build()
            .map_err(|error| refused(error.to_string()))?;
        Ok(Self { client, base, token: options.token, service: options.service })
    }

    async fn run_graph(&self, run: &RunContext, graph: &str, grant: GrantId) -> StoreResult<FinishedRun> {
        let mut failures = received_failures(run).await?;
        let uptime = Uptime::start();
        let mut unreachable_since = None;
        loop {
            match self.call(run, graph, grant, &key(&run.job, failures)).await {
                Heard::Answer { answer, .. } if answer.ok => return Ok(run.completed(answer.output())),
                Heard::Answer { answer, replayed } => {
                    remember_failure(run, failures, &answer).await?;
                    failures += 1;
                    // What failed long ago is why there is a backfill, and none of its own failures.
                    if replayed && run.job.attempt == 1 && run.job.spec.trigger == Trigger::Backfill {
                        continue;
                    }
                    return Ok(FinishedRun { output: answer.output(), ..run.failed(answer.code(), answer.words()) });
                }
                Heard::Refused(code, words) => return Ok(run.failed(code, words)),
                Heard::TooFast(wait) => {
                    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
                    return Ok(run.snoozed(wait, "the grant or the service allows no more runs just now"));
                }
                // The place is given up: the graph may itself wait for one.
                Heard::Waiting => return Ok(run.snoozed(look_again(run), "the graph is still under way")),
                Heard::Unknown(words, wait) => {
                    let since = *unreachable_since.get_or_insert_with(|| uptime.now());
                    if uptime.now().saturating_sub(since) >= PATIENCE {
                        let words = format!("{words}; what became of the run is not known, and the next attempt asks");
                        return Ok(run.failed(ErrorCode::TargetError, words));
                    }
                    run.log(LogStream::System, format!("{words}; asked again under the same key"));
                    sleep(wait).await;
                }
            }
        }
    }

    async fn call(&self, run: &RunContext, graph: &str, grant: GrantId, key: &str) -> Heard {
        let request = match self.request(run, graph, grant, key) {
            Ok(request) => request,
            Err(refused) => return Heard::Refused(ErrorCode::TargetRejected, refused.to_string()),
        };
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_timeout() && !error.is_connect() => return Heard::Waiting,
            Err(error) => return Heard::Unknown(unreachable(error), PAUSE),
        };
        let (status, headers) = (response.status(), response.headers().clone());
        match read(response).await {
            Ok(body) => judge(status, &headers, &body),
            Err(words) => Heard::Unknown(words, PAUSE),
        }
    }

    fn request(
        &self, run: &RunContext, graph: &str, grant: GrantId, key: &str,
    ) -> Result<reqwest::RequestBuilder, Invalid> {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["api", "internal", "graphs", graph, "runs"]);
        }
        let token = (self.token)()?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .map_err(|_| Invalid::new("service_secret", "cannot be sent").remedy("use letters and digits"))?;
        bearer.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(reqwest::header::AUTHORIZATION, bearer);
        headers.insert(reqwest::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let said = [
            ("idempotency-key", key),
            ("x-service-name", &self.service),
            ("x-owner", run.job.spec.owner.as_deref().unwrap_or_default()),
            ("traceparent", &run.trace_context().to_string()),
        ];
        for (name, value) in said.into_iter().filter(|(_, value)| !value.is_empty()) {
            let value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| Invalid::new(name, "cannot be sent in a header").remedy("use no control characters"))?;
            headers.insert(name, value);
        }
        // Put together as text, so that the input goes out to the letter.
        let body = format!("{{\"executionGrantId\":\"{grant}\",\"input\":{}}}", run.job.spec.input.as_str());
        Ok(self.client.post(url).headers(headers).body(body))
    }
}

#[async_trait]
impl Executor for GraphCaller {
    async fn run(&self, run: RunContext) -> FinishedRun {
        let (Target::Graph(graph), Some(grant)) = (&run.job.spec.target, run.job.spec.grant_id) else {
            return run.failed(ErrorCode::GrantMissing, "a graph runs under a grant only; name one in grant_id");
        };
        tokio::select! {
            biased;
            // Who is told to stop drops the call; the key tells whoever comes next what became of it.
            reason = run.stop.requested() => stopped(run.job.id, reason),
            end = self.run_graph(&run, &graph.id, grant) => end.unwrap_or_else(|error| {
                run.failed(ErrorCode::Internal, format!("what the chain remembers is out of reach: {error}"))
            }),
        }
    }
}

/// When a graph that takes long is asked for again: the longer it has taken, the less often.
fn look_again(run: &RunContext) -> SignedDuration {
    let age = run.started_at.duration_since(run.job.chain_began_at);
    (age / 10).clamp(LOOK.0, LOOK.1)
}

/// The key of a call after so many failures of its chain.
fn key(job: &Job, failures: u32) -> String {
    let base = match (job.schedule_id, job.slot_at) {
        (Some(schedule_id), Some(slot_at)) => SlotKey { schedule_id, slot_at }.to_string(),
        _ => format!("job:{}", job.root_job_id),
    };
    if failures == 0 { base } else { format!("{base}:{failures}") }
}

fn step(number: u32) -> String {
    format!("punctual graph failure {number}")
}

/// How many failures the chain has received; what was lost on the way is not among them.
async fn received_failures(run: &RunContext) -> StoreResult<u32> {
    let mut count = 0;
    while run.reports.remembered_step(&step(count)).await?.is_some() {
        count += 1;
    }
    Ok(count)
}

async fn remember_failure(run: &RunContext, number: u32, answer: &Answer) -> StoreResult<()> {
    let id = Json::from_output(&answer.run_id).unwrap_or_else(|_| Json::null());
    run.reports.remember_step(&step(number), id).await.map(drop)
}

impl Answer {
    fn code(&self) -> ErrorCode {
        self.error_code.as_deref().and_then(|code| code.parse().ok()).unwrap_or(ErrorCode::TargetError)
    }

    fn words(&self) -> String {
        self.error.clone().unwrap_or_else(|| "the graph failed".to_owned())
    }

    /// What is kept with the run: the names by which others know it, and what it returned.
    fn output(&self) -> Option<Json> {
        // The provider may use the same words for names of its own.
        let named = |name: &str| match name {
            "run_id" | "trace_id" | "output" => format!("provider_{name}"),
            other => other.to_owned(),
        };
        let references = self.references.iter();
        let mut shown: Map<String, Value> =
            references.map(|(name, value)| (named(name), Value::from(value.as_str()))).collect();
        shown.insert("run_id".to_owned(), Value::from(self.run_id.clone()));
        shown.insert("trace_id".to_owned(), Value::from(self.trace_id.as_str()));
        let plain = Json::from_output(&shown).ok();
        let Some(output) = &self.output else { return plain };
        let fields: BTreeMap<&str, Box<RawValue>> = shown
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), serde_json::value::to_raw_value(value).ok()?)))
            .chain([("output", output.clone())])
            .collect();
        Json::from_output(&fields).ok().filter(|whole| whole.check("output").is_ok()).or(plain)
    }
}

fn judge(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Heard {
    let asked = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    let wait = asked.map_or(PAUSE, Duration::from_secs).min(WAIT_MAX);
    match (status, serde_json::from_slice::<Answer>(body)) {
        (StatusCode::OK, Ok(answer)) => {
            Heard::Answer { answer, replayed: headers.contains_key("idempotency-replayed") }
        }
        (StatusCode::OK, Err(error)) => {
            Heard::Refused(ErrorCode::BadOutput, format!("the service's answer cannot be read: {error}"))
        }
        (StatusCode::FORBIDDEN, Ok(answer)) => Heard::Refused(answer.code(), answer.words()),
        (StatusCode::TOO_MANY_REQUESTS, _) => Heard::TooFast(wait),
        _ if status.is_server_error() => Heard::Unknown(told(status, body), wait),
        // Somebody has to set it up, and may have done so by the next attempt.
        (StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED, _) => {
            Heard::Refused(ErrorCode::NoExecutor, told(status, body))
        }
        _ => Heard::Refused(ErrorCode::TargetRejected, told(status, body)),
    }
}

/// What the service says about a refusal.
fn told(status: StatusCode, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Problem {
        detail: String,
        remedy: Option<String>,
    }
    match serde_json::from_slice::<Problem>(body) {
        Ok(Problem { detail, remedy }) => {
            let remedy = remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
            format!("the execution service answers {}: {detail}{remedy}", status.as_u16())
        }
        Err(_) => format!("the execution service answers {}", status.as_u16()),
    }
}

fn unreachable(error: reqwest::Error) -> String {
    let what = if error.is_connect() { "cannot be reached" } else { "broke off" };
    format!("the execution service {what}: {}", super::http::causes(&error.without_url()))
}

async fn read(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) => return Err(unreachable(error)),
        }
        if body.len() > ANSWER_MAX {
            return Err("the execution service says too much".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(status: u16, headers: &[(&'static str, &str)], body: &str) -> Heard {
        let headers = headers.iter().map(|(name, value)| {
            (reqwest::header::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        judge(StatusCode::from_u16(status).unwrap(), &headers.collect(), body.as_bytes())
    }

    const FAILED: &str = r#"{"runId":"r","traceId":"t","ok":false,"errorCode":"timeout","error":"slow"}"#;

    #[test]
    fn a17_answers_are_told_from_what_nobody_knows() {
        assert!(matches!(heard(200, &[], FAILED), Heard::Answer { replayed: false, .. }));
        assert!(matches!(
            heard(200, &[("idempotency-replayed", "true")], FAILED),
            Heard::Answer { replayed: true, .. }
        ));
        assert!(matches!(heard(200, &[], "<html>"), Heard::Refused(ErrorCode::BadOutput, _)));
        let denied = r#"{"runId":null,"traceId":"t","ok":false,"errorCode":"grant_revoked"}"#;
        assert!(matches!(heard(403, &[], denied), Heard::Refused(ErrorCode::GrantRevoked, _)));
        assert!(matches!(heard(403, &[], "{}"), Heard::Refused(ErrorCode::TargetRejected, _)), "another site's");
        let wait = Duration::from_secs(7);
        assert!(matches!(heard(429, &[("retry-after", "7")], "{}"), Heard::TooFast(waited) if waited == wait));
        assert!(matches!(heard(503, &[("retry-after", "7")], "{}"), Heard::Unknown(_, waited) if waited == wait));
        assert!(matches!(heard(502, &[], "<html>"), Heard::Unknown(_, waited) if waited == PAUSE));
        assert!(matches!(heard(404, &[], "{}"), Heard::Refused(ErrorCode::NoExecutor, _)));
        assert!(matches!(heard(401, &[], "{}"), Heard::Refused(ErrorCode::NoExecutor, _)));
        assert!(matches!(heard(422, &[], "{}"), Heard::Refused(ErrorCode::TargetRejected, _)));
        assert!(matches!(heard(302, &[], ""), Heard::Refused(ErrorCode::TargetRejected, _)), "nothing is followed");
    }

    #[test]
    fn a14_the_output_names_the_run_as_both_sides_know_it() {
        let answer: Answer = serde_json::from_str(
            r#"{"runId":"r","traceId":"t","ok":true,"references":{"run_id":"theirs","thread_id":"x"},
                "output":{"n":12345678901234567890123}}"#,
        )
        .unwrap();
        let shown = answer.output().unwrap();
        assert!(shown.as_str().contains("12345678901234567890123"), "to the letter: {}", shown.as_str());
        let shown: Value = shown.to().unwrap();
        assert_eq!((&shown["run_id"], &shown["trace_id"]), (&Value::from("r"), &Value::from("t")));
        assert_eq!((&shown["provider_run_id"], &shown["thread_id"]), (&Value::from("theirs"), &Value::from("x")));
        let failed: Answer = serde_json::from_str(FAILED).unwrap();
        assert_eq!((failed.code(), failed.words().as_str()), (ErrorCode::Timeout, "slow"));
        let odd = Answer { error_code: Some("new_word".to_owned()), error: None, ..failed };
        assert_eq!((odd.code(), odd.words().as_str()), (ErrorCode::TargetError, "the graph failed"));
    }

    #[test]
    fn a11_what_is_no_address_is_refused() {
        for url in ["", "localhost:7878", "ftp://x", "/api"] {
            let token: TokenSource = Arc::new(|| Ok(Secret::new("x")));
            let options = GraphOptions { url: url.to_owned(), token, service: "t".to_owned(), authorities: Vec::new() };
            let refused = GraphCaller::new(options).err().unwrap_or_else(|| panic!("{url} is taken"));
            assert_eq!(refused.field, "internal_api_url");
        }
    }
}
