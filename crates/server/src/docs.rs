//! The documents for people and programs: `/docs` shows the API and lets one try it, and `/openapi.json` describes it.

use crate::openapi;
use crate::state::AppState;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

const PAGE: &str = include_str!("../assets/docs.html");
const SCRIPT: &str = include_str!("../assets/docs.js");
const STYLE: &str = include_str!("../assets/docs.css");

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/openapi.json", get(document))
        .route("/docs", get(|| async { sent("text/html; charset=utf-8", PAGE) }))
        .route("/docs/docs.js", get(|| async { sent("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/docs/docs.css", get(|| async { sent("text/css; charset=utf-8", STYLE) }))
}

/// What the API itself says when it is asked for nothing.
pub(crate) async fn api_root(State(state): State<AppState>) -> Json<serde_json::Value> {
    let settings = &state.shared.settings;
    let base = &settings.base_path;
    Json(json!({
        "name": "Punctual",
        "version": env!("CARGO_PKG_VERSION"),
        "docs": format!("{base}/docs"),
        "openapi": format!("{base}/openapi.json"),
        "dashboard": settings.dashboard.status(),
    }))
}

async fn document(State(state): State<AppState>) -> impl IntoResponse {
    sent("application/json", openapi::text_below(&state.shared.settings.base_path))
}

fn sent(kind: &'static str, text: impl IntoResponse) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text)
}
