//! The documents for people and programs: `/` says where to go, `/docs` shows the API and lets one try it, and
//! `/openapi.json` describes it.

use crate::openapi;
use crate::state::AppState;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

const HOME: &str = include_str!("../assets/home.html");
const PAGE: &str = include_str!("../assets/docs.html");
const SCRIPT: &str = include_str!("../assets/docs.js");
const STYLE: &str = include_str!("../assets/docs.css");

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/", get(|| async { sent("text/html; charset=utf-8", HOME) }))
        .route("/openapi.json", get(|| async { sent("application/json", openapi::text()) }))
        .route("/docs", get(|| async { sent("text/html; charset=utf-8", PAGE) }))
        .route("/docs/docs.js", get(|| async { sent("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/docs/docs.css", get(|| async { sent("text/css; charset=utf-8", STYLE) }))
}

/// What the API itself says when it is asked for nothing.
pub(crate) async fn api_root() -> Json<serde_json::Value> {
    Json(json!({
        "name": "Punctual",
        "version": env!("CARGO_PKG_VERSION"),
        "docs": "/docs",
        "openapi": "/openapi.json",
    }))
}

fn sent(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text)
}
