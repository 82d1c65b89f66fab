//! The execution service: graph runs under grants, one for each key, whoever asks how often (A11 to A17).
//!
//! It writes graph runs, requests and receipts, and nothing of the schedule ledger; the two meet in the run's id and
//! the trace (A14).

mod canonical;
mod drive;
mod jwt;
mod service;

pub use jwt::JwtRules;
pub use service::{SECRET_MIN, ServiceAccess};

pub(crate) use drive::Drives;

use crate::change::idempotency_key;
use crate::extract::{Named, Sent};
use crate::problem::{self, Answered, Problem};
use crate::producing::caller_of;
use crate::state::AppState;
use axum::extract::{Extension, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Router, middleware};
use drive::Found;
use punctual_core::execution::{Begun, Execution, NewExecution};
use punctual_core::grant::Denied;
use punctual_core::graph::{GraphEnd, GraphId};
use punctual_core::id::{GrantId, GraphRunId};
use punctual_core::json::Json;
use punctual_core::run::ErrorCode;
use serde::{Deserialize, Serialize};
use service::ServiceCaller;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The largest output that is part of an answer, in bytes.
const OUTPUT_MAX: usize = 512 * 1024;

/// The router of `/api/internal`.
pub(crate) fn routes(state: &AppState) -> Router {
    Router::new()
        .route("/graphs/{graphId}/runs", post(run))
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::no_such_method)
        .layer(middleware::from_fn_with_state(state.clone(), service::authenticate))
        .with_state(state.clone())
}

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RunAsked {
    execution_grant_id: Uuid,
    #[serde(default = "Json::null")]
    input: Json,
}

/// What is answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunAnswer<'a> {
    run_id: Option<GraphRunId>,
    trace_id: &'a str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<ErrorCode>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// The provider's own names for the run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    references: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a Json>,
}

impl<'a> RunAnswer<'a> {
    fn of_end(execution: &'a Execution, end: &'a GraphEnd) -> Self {
        let failure = end.failure.as_ref();
        Self {
            run_id: Some(execution.run_id),
            trace_id: &execution.trace_id,
            ok: failure.is_none(),
            error_code: failure.map(|(code, _)| *code),
            error: failure.map(|(_, words)| words.as_str()),
            references: end.references.clone(),
            output: end.output.as_ref().filter(|output| output.as_str().len() <= OUTPUT_MAX),
        }
    }

    fn denied(trace_id: &'a str, denied: &'a Denied) -> Self {
        Self {
            run_id: None,
            trace_id,
            ok: false,
            error_code: Some(denied.code),
            error: Some(&denied.words),
            references: BTreeMap::new(),
            output: None,
        }
    }
}

/// Runs a graph, once for each key.
async fn run(
    State(state): State<AppState>, Extension(caller): Extension<ServiceCaller>, Named(graph): Named,
    Asking(asking): Asking, sent: Sent<RunAsked>,
) -> Answered<Response> {
    let graph: GraphId = graph.parse()?;
    let RunAsked { execution_grant_id, input } = sent.value;
    let grant_id = GrantId(execution_grant_id);
    let hash = canonical::request_hash(&graph.to_string(), grant_id, &input)?;
    let Asked { key, owner, service, trace_id } = asking;
    tracing::info!(service = service.as_deref().unwrap_or("unnamed"), %graph, key, "a graph run is asked for");
    // The bearer's own bound counts beside what he says.
    let owner = match (caller.owner, owner) {
        (Some(bound), Some(said)) if bound != said => return Ok(refused(&trace_id, &not_his())),
        (bound, said) => bound.or(said),
    };
    if let Some(there) = state.store.execution(&key).await? {
        return answer_of(&state, there, &hash).await;
    }
    if state.shared.graphs.of(&graph).is_none() {
        return Err(state.shared.graphs.unknown(&graph));
    }
    input.check("input")?;
    let driver = state.shared.drives.id();
    let new = NewExecution { key, hash, graph, grant_id, owner, input, trace_id: trace_id.clone(), service, driver };
    match state.store.begin_execution(new).await? {
        Begun::Mine(mine) => told(drive::carry_out(&state, *mine).await?, false),
        Begun::There(there) => answer_of(&state, *there, &hash).await,
        Begun::Denied(denied) => Ok(refused(&trace_id, &denied)),
        Begun::TooFast(wait) => {
            let secs = u64::try_from(wait.as_secs()).unwrap_or(0).saturating_add(1);
            Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "grant_too_fast", "the grant's rate is used up for now")
                .remedy(format!("wait {secs} s, as Retry-After says"))
                .retry_after(secs))
        }
    }
}

fn not_his() -> Denied {
    let words = "the bearer may not act for this owner".to_owned();
    Denied { code: ErrorCode::GrantMissing, words }
}

/// The answer to a request whose key has been here before.
async fn answer_of(state: &AppState, there: Execution, hash: &[u8; 32]) -> Answered<Response> {
    if there.hash != *hash {
        let told = "the Idempotency-Key was used for another request";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", told)
            .remedy("use a new key for a new request")
            .at("Idempotency-Key"));
    }
    let replayed = there.answer.is_some();
    told(drive::wait_for(state, there).await?, replayed)
}

/// An answer that was given before says so, and is the same to the letter.
fn told(found: Found, replayed: bool) -> Answered<Response> {
    let Found::Answer(answer) = found else {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "outcome_unknown",
            "what became of the run is not known yet",
        )
        .remedy("ask again with the same Idempotency-Key; nothing runs twice")
        .retry_after(1));
    };
    let mut response = (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], answer).into_response();
    if replayed {
        response
            .headers_mut()
            .insert(HeaderName::from_static("idempotency-replayed"), HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn refused(trace_id: &str, denied: &Denied) -> Response {
    let answer = RunAnswer::denied(trace_id, denied);
    (StatusCode::FORBIDDEN, axum::Json(&answer)).into_response()
}

/// What the headers say about a request.
struct Asked {
    key: String,
    /// Whose work it is: only ever narrows what the bearer may do.
    owner: Option<String>,
    service: Option<String>,
    trace_id: String,
}

struct Asking(Asked);

impl axum::extract::FromRequestParts<AppState> for Asking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Answered<Self> {
        let key = idempotency_key(parts)?.ok_or_else(|| {
            let told = "a graph is run under an Idempotency-Key only";
            Problem::new(StatusCode::BAD_REQUEST, "idempotency_key_missing", told)
                .remedy("send Idempotency-Key, such as scheduleId:scheduledFor, the same for every try")
                .at("Idempotency-Key")
        })?;
        let owner = parts.headers.get("x-owner").map(|owner| String::from_utf8_lossy(owner.as_bytes()).into_owned());
        let (service, trace_id) = (service::service_name(&parts.headers), trace_of(&parts.headers));
        Ok(Self(Asked { key, owner, service, trace_id }))
    }
}

/// The trace of the caller, or a new one.
fn trace_of(headers: &HeaderMap) -> String {
    caller_of(headers).map_or_else(|| Uuid::new_v4().simple().to_string(), |caller| caller.trace_id.to_string())
}
