//! The documents for people and programs: `/openapi.json`, and `/docs`, which shows it and lets one try.

use crate::openapi;
use crate::state::AppState;
use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

const PAGE: &str = include_str!("../assets/docs.html");
const SCRIPT: &str = include_str!("../assets/docs.js");
const STYLE: &str = include_str!("../assets/docs.css");

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/openapi.json", get(|| async { sent("application/json", openapi::text()) }))
        .route("/docs", get(|| async { sent("text/html; charset=utf-8", PAGE) }))
        .route("/docs/docs.js", get(|| async { sent("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/docs/docs.css", get(|| async { sent("text/css; charset=utf-8", STYLE) }))
}

fn sent(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text)
}
