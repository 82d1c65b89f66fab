//! What is taken from a request: bodies and parameters, strict, with a problem that names the field.

use crate::problem::{Answered, Problem};
use crate::secret;
use crate::state::AppState;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use jiff::SignedDuration;
use punctual_core::access::SecretHash;
use punctual_core::duration::parse_duration;
use serde::de::DeserializeOwned;

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Sent<T> {
    pub(crate) value: T,
    /// The hash of the whole request, for idempotency.
    pub(crate) fingerprint: SecretHash,
}

impl<T: DeserializeOwned> FromRequest<AppState> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Answered<Self> {
        let read = Raw::from_request(request, state.shared.settings.body_max).await?;
        if !read.is_json {
            return Err(not_json());
        }
        Ok(Self { value: parse(&read.bytes)?, fingerprint: read.fingerprint })
    }
}

/// The largest manifest, in bytes: more than 50,000 schedules.
const MANIFEST_MAX: usize = 32 << 20;

/// A JSON body that may be as large as a manifest.
#[derive(Debug)]
pub(crate) struct LargeSent<T> {
    pub(crate) value: T,
    pub(crate) fingerprint: SecretHash,
}

impl<T: DeserializeOwned> FromRequest<AppState> for LargeSent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Answered<Self> {
        let read = Raw::from_request(request, state.shared.settings.body_max.max(MANIFEST_MAX)).await?;
        if !read.is_json {
            return Err(not_json());
        }
        Ok(Self { value: parse(&read.bytes)?, fingerprint: read.fingerprint })
    }
}

/// A JSON body that may be left out altogether.
#[derive(Debug)]
pub(crate) struct MaybeSent<T> {
    pub(crate) value: T,
    pub(crate) fingerprint: SecretHash,
}

impl<T: DeserializeOwned + Default> FromRequest<AppState> for MaybeSent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Answered<Self> {
        let read = Raw::from_request(request, state.shared.settings.body_max).await?;
        let value = match read.bytes.is_empty() {
            true => T::default(),
            false if !read.is_json => return Err(not_json()),
            false => parse::<Option<T>>(&read.bytes)?.unwrap_or_default(),
        };
        Ok(Self { value, fingerprint: read.fingerprint })
    }
}

struct Raw {
    bytes: Bytes,
    is_json: bool,
    fingerprint: SecretHash,
}

impl Raw {
    async fn from_request(request: Request, max: usize) -> Answered<Self> {
        let is_json = is_json(request.headers());
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let bytes = axum::body::to_bytes(request.into_body(), max).await.map_err(|_| too_large(max))?;
        let fingerprint = secret::fingerprint(&[method.as_str().as_bytes(), path.as_bytes(), &bytes]);
        Ok(Self { bytes, is_json, fingerprint })
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json") || essence.eq_ignore_ascii_case("application/merge-patch+json")
}

fn not_json() -> Problem {
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", "the body is not declared to be JSON")
        .remedy("send Content-Type: application/json")
}

fn too_large(max: usize) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", format!("the body has more than {max} bytes"))
        .remedy("send less at once; store large data elsewhere and pass a reference to it")
}

/// Reads JSON strictly; says which field is wrong.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Answered<T> {
    // A list of values would be taken for an object's fields in their order, which nobody means.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "the body is a list and not an object")
            .remedy("see /docs for what this call takes")
            .at("/"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let pointer = error.path().to_string().replace(['.', '['], "/").replace(']', "");
        refused(error.inner(), &pointer)
    })?;
    reader.end().map_err(|error| refused(&error, ""))?;
    Ok(value)
}

fn refused(error: &serde_json::Error, path: &str) -> Problem {
    let words = error.to_string();
    if !error.is_data() {
        return Problem::new(StatusCode::BAD_REQUEST, "malformed_json", format!("the body is not JSON: {words}"))
            .remedy("send valid JSON");
    }
    let code = if words.starts_with("unknown field") { "unknown_field" } else { "invalid" };
    let pointer = if path.is_empty() || path == "/" { "/".to_owned() } else { format!("/{}", path.trim_matches('/')) };
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, words).remedy("see /docs for what this call takes").at(pointer)
}

/// The parameters behind the question mark.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answered<Self> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => {
                let words = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                Err(Problem::new(StatusCode::BAD_REQUEST, "bad_query", words).remedy("see /docs for the parameters"))
            }
        }
    }
}

/// A part of the path, as text.
#[derive(Debug)]
pub(crate) struct Named(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answered<Self> {
        match Path::<String>::from_request_parts(parts, state).await {
            // A name with NUL is nobody's, and no database could be asked for it.
            Ok(Path(name)) if !name.contains('\0') => Ok(Self(name)),
            _ => Err(Problem::new(StatusCode::NOT_FOUND, "not_found", "the name in the path cannot be one")
                .remedy("percent-encode it as UTF-8")),
        }
    }
}

/// How far back something is looked at.
pub(crate) fn window(asked: Option<&str>, usual: SignedDuration) -> Answered<SignedDuration> {
    asked.map_or(Ok(usual), parse_duration).map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, "bad_query", format!("window: {error}"))
            .remedy("use a duration such as 24h")
            .at("window")
    })
}

/// How many are on a page.
pub(crate) fn page_size(asked: Option<u32>) -> Answered<usize> {
    const USUAL: u32 = 50;
    const MOST: u32 = 500;
    match asked.unwrap_or(USUAL) {
        limit @ 1..=MOST => Ok(usize::try_from(limit).unwrap_or(1)),
        _ => Err(Problem::new(StatusCode::BAD_REQUEST, "bad_query", format!("limit is not between 1 and {MOST}"))
            .remedy("ask for fewer, and go on with next_cursor")
            .at("limit")),
    }
}
