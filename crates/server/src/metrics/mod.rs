//! Health and figures for machines: `/livez`, `/readyz`, `/metrics`.

mod node;
mod render;

use crate::auth;
use crate::extract::Asked;
use crate::problem::{Answered, Problem};
use crate::secret;
use crate::state::AppState;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use node::NodeFigures;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use punctual_core::access::Role;
use punctual_core::freeze::Freeze;
use punctual_core::meter::Meter;
use render::StoreFigures;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// What all names begin with.
const PREFIX: &str = "punctual";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    route: String,
    status: u16,
}

/// What this process counts by itself: its requests, and what the node tells that works in it.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Histogram,
    node: Arc<NodeFigures>,
    registry: Registry,
}

impl Default for Metrics {
    fn default() -> Self {
        let buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
        let (requests, seconds) = (Family::default(), Histogram::new(buckets));
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register("http_requests", "Requests by method, route and status", Family::clone(&requests));
        registry.register("http_request_seconds", "How long requests took", Histogram::clone(&seconds));
        let node = Arc::new(NodeFigures::registered(&mut registry));
        Self { requests, seconds, node, registry }
    }
}

impl Metrics {
    /// Counts a request. The route is a pattern, so that there are not more of them than routes.
    pub(crate) fn count(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let known =
            [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
        let method = if known.contains(method) { method.as_str() } else { "OTHER" };
        let labels = RequestLabels { method: method.to_owned(), route: route.to_owned(), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// Where a node tells what it does.
    pub(crate) fn meter(&self) -> Arc<dyn Meter> {
        Arc::clone(&self.node) as Arc<dyn Meter>
    }
}

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/livez", get(live)).route("/readyz", get(ready)).route("/metrics", get(metrics))
}

async fn live() -> &'static str {
    "ok"
}

/// How much a server must be well to be called ready.
#[derive(Debug, Deserialize)]
struct Readiness {
    /// Anything that is wrong with the whole makes the answer 503: for whoever watches. Those who hand out requests ask
    /// without it: a server that is reachable is not to lose its callers because a schedule is late.
    #[serde(default)]
    strict: bool,
}

async fn ready(State(state): State<AppState>, Asked(asked): Asked<Readiness>) -> Answered<String> {
    if *state.draining().borrow() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "draining", "this server is being stopped")
            .remedy("ask another one"));
    }
    let now = state.store.now().await?;
    let mut troubles = state.shared.health.troubles(now);
    if let Some(Freeze { why, since, .. }) = state.store.frozen().await? {
        troubles.insert(0, format!("the store is frozen since {since}: {why}"));
    }
    if troubles.is_empty() {
        return Ok("ok".to_owned());
    }
    if asked.strict {
        let words = troubles.join("; ");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_well", words)
            .remedy("look at the nodes' logs, and at `punctual doctor`"));
    }
    Ok(format!("degraded\n{}\n", troubles.join("\n")))
}

async fn metrics(State(state): State<AppState>, headers: HeaderMap) -> Answered<Response> {
    check_metrics_token(&state, &headers).await?;
    let stored = StoreFigures::read(state.store.as_ref(), state.shared.hub.streams()).await?;
    let text = stored.render(&state.shared.metrics.registry);
    let text = text.map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "no figures"))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// The scraper's own token, which opens nothing else; without one, an admin's.
async fn check_metrics_token(state: &AppState, headers: &HeaderMap) -> Answered<()> {
    let given = auth::bearer(headers).unwrap_or_default();
    let allowed = match &state.shared.settings.metrics_token {
        Some(token) => secret::same_text(given, token),
        None => auth::valid_token(state, given).await?.is_some_and(|token| token.token.role == Role::Admin),
    };
    if allowed {
        return Ok(());
    }
    Err(Problem::new(StatusCode::UNAUTHORIZED, "not_authenticated", "the metrics token is missing or wrong")
        .remedy("send Authorization: Bearer with the metrics token, or with an admin's when none is set up"))
}
