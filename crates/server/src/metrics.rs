//! Health and figures for machines: `/livez`, `/readyz`, `/metrics`.

use crate::auth;
use crate::problem::{Answered, Problem};
use crate::secret;
use crate::state::AppState;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use punctual_core::access::Role;
use punctual_core::readings::{QueueRow, Stats};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: String,
}

/// What this server counts by itself.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
        Self { requests: Family::default(), seconds: Histogram::new(buckets) }
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

    fn render(&self, stats: &Stats, queues: &[QueueRow], streams: usize) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::with_prefix("punctual");
        registry.register("http_requests", "Requests by method, route and status", self.requests.clone());
        registry.register("http_request_seconds", "How long requests took", self.seconds.clone());
        let jobs = Family::<StateLabel, Gauge>::default();
        for (state, count) in [
            ("waiting", stats.waiting),
            ("scheduled", stats.scheduled),
            ("queued", stats.queued),
            ("running", stats.running),
        ] {
            jobs.get_or_create(&StateLabel { state }).set(whole(count.value));
        }
        registry.register("jobs", "Jobs that have not ended, counted up to 10,000", jobs);
        let ended = Family::<StateLabel, Gauge>::default();
        for (outcome, count) in &stats.ended {
            ended.get_or_create(&StateLabel { state: outcome.as_str() }).set(whole(*count));
        }
        registry.register("runs_ended_last_minute", "Runs that ended in the last minute, by outcome", ended);
        let depth = Family::<QueueLabel, Gauge>::default();
        for queue in queues {
            depth.get_or_create(&QueueLabel { queue: queue.name.clone() }).set(whole(queue.depth.value));
        }
        registry.register("queue_depth", "Jobs that wait in a queue, counted up to 10,000", depth);
        for (name, help, value) in [
            ("schedules", "Schedules, counted up to 10,000", stats.schedules.value),
            ("schedules_failing", "Schedules whose last run failed", stats.failing),
            ("schedules_with_problem", "Schedules that cannot be fired", stats.with_problem),
            ("nodes", "Nodes that hold a lease", stats.nodes),
            ("event_streams", "Open event streams of this server", u64::try_from(streams).unwrap_or(0)),
        ] {
            let gauge: Gauge = Gauge::default();
            gauge.set(whole(value));
            registry.register(name, help, gauge);
        }
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/livez", get(live)).route("/readyz", get(ready)).route("/metrics", get(metrics))
}

async fn live() -> &'static str {
    "ok"
}

async fn ready(State(state): State<AppState>) -> Answered<&'static str> {
    if *state.draining().borrow() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "draining", "this server is being stopped")
            .remedy("ask another one"));
    }
    state.store.now().await?;
    Ok("ok")
}

async fn metrics(State(state): State<AppState>, headers: HeaderMap) -> Answered<Response> {
    check_metrics_token(&state, &headers).await?;
    let since = state.store.now().await?.saturating_sub(SignedDuration::from_mins(1)).unwrap_or(Timestamp::MIN);
    let counts = state.store.stats(since).await?;
    let queues = state.store.queues(None, 500).await?;
    let text = state.shared.metrics.render(&counts, &queues, state.shared.hub.streams());
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
