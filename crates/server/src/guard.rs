//! What stands around every request: its id, the host it was meant for, the headers that protect a browser, figures.

use crate::problem::Problem;
use crate::state::AppState;
use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::time::Instant;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of a request: the caller's own, or a new one.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Nothing but what this server sends itself may run or be shown, and nobody may put it into a frame.
const CSP: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

const SECURITY: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CSP),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Puts the guard around a router.
pub(crate) fn around(router: Router, state: AppState) -> Router {
    router.layer(middleware::from_fn_with_state(state, guard))
}

async fn guard(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = request_id(&request);
    request.extensions_mut().insert(RequestId(id.clone()));
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let refused = check_host(&state, &request).and_then(|()| check_origin(&request));
    let mut response = match refused {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let allowed = response.headers_mut().remove(header::ALLOW);
        response = problem.below(&state.shared.settings.base_path).with_request(Some(&id)).into_response();
        if let Some(allowed) = allowed {
            response.headers_mut().insert(header::ALLOW, allowed);
        }
    }
    place(&state, &mut response);
    protect(&state, &mut response, &id);
    state.shared.metrics.count(&method, &route, response.status(), begun.elapsed());
    response
}

fn request_id(request: &Request) -> String {
    let given = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let sound = |id: &&str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
    };
    given.filter(sound).map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned)
}

/// A name that leads here by somebody else's DNS is not ours: a page under it could speak to us otherwise.
fn check_host(state: &AppState, request: &Request) -> Result<(), Problem> {
    let given = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = given.or_else(|| request.uri().authority().map(axum::http::uri::Authority::as_str)).unwrap_or_default();
    let name = host_name(host);
    let own =
        |name: &str| name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let known = state.shared.settings.hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
    if known || own(name) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", "this server is not called by that name")
        .remedy("call it by localhost, or add the name to the hosts it knows"))
}

/// The name in `name:port` or `[address]:port`.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// A browser says where a request comes from; a change that another site asks for is refused, whatever it carries.
fn check_origin(request: &Request) -> Result<(), Problem> {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let value = |name: HeaderName| request.headers().get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = value(header::HOST).or_else(|| request.uri().authority().map(axum::http::uri::Authority::as_str));
    let same = |origin: &str| {
        let uri: Option<Uri> = origin.parse().ok();
        uri.as_ref().and_then(Uri::authority).is_some_and(|authority| Some(authority.as_str()) == host)
    };
    let cross_site = value(HeaderName::from_static("sec-fetch-site")).is_some_and(|site| site == "cross-site");
    if cross_site || value(header::ORIGIN).is_some_and(|origin| !same(origin)) {
        return Err(Problem::new(StatusCode::FORBIDDEN, "foreign_origin", "another site may not change anything here")
            .remedy("open the dashboard itself, or call the API from a program with a token"));
    }
    Ok(())
}

/// Handlers know nothing of the path below which the server is found: a place that they name is put below it here.
fn place(state: &AppState, response: &mut Response) {
    let base = state.shared.settings.base_path.as_str();
    let named = response.headers().get(header::LOCATION).and_then(|place| place.to_str().ok());
    let Some(named) = named.filter(|place| !base.is_empty() && place.starts_with('/')) else { return };
    if let Ok(place) = HeaderValue::from_str(&format!("{base}{named}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
}

fn protect(state: &AppState, response: &mut Response, id: &str) {
    let headers = response.headers_mut();
    for (name, value) in SECURITY {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if state.shared.settings.https {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.entry(header::STRICT_TRANSPORT_SECURITY).or_insert(year);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c12_the_name_in_a_host_header_is_found() {
        for (host, name) in [
            ("localhost", "localhost"),
            ("localhost:7878", "localhost"),
            ("[::1]:7878", "::1"),
            ("[::1]", "::1"),
            ("", ""),
        ] {
            assert_eq!(host_name(host), name, "{host}");
        }
    }
}
