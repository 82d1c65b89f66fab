//! What came back: as much of it as is kept with the run, and when to try again.

use jiff::{SignedDuration, Timestamp};
use punctual_core::json::Json;
use reqwest::Response;
use reqwest::header::{self, HeaderMap, HeaderName};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The longest wait that a server may ask for.
const RETRY_AFTER_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Headers worth keeping. Cookies and the like are not among them.
const KEPT_HEADERS: [&str; 9] = [
    "content-length",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "location",
    "request-id",
    "retry-after",
    "x-request-id",
];

/// The longest value of a header that is kept.
const HEADER_KEPT_CHARS: usize = 1024;

/// An answer, or as much of it as has come.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
    cut: bool,
}

/// How a run's output shows it.
#[derive(Serialize)]
struct Shown<'a> {
    status: u16,
    headers: BTreeMap<&'a str, String>,
    body: ShownBody<'a>,
    /// Said only when the body is longer than what is kept of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    body_cut: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ShownBody<'a> {
    Json(&'a RawValue),
    Text(String),
}

impl Answer {
    pub(super) fn new(response: &Response) -> Self {
        let headers = response.headers().clone();
        Self { status: response.status().as_u16(), headers, body: Vec::new(), cut: false }
    }

    pub(super) fn keep(&mut self, chunk: &[u8], most: usize) {
        let room = most.saturating_sub(self.body.len());
        self.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        self.cut |= chunk.len() > room;
    }

    /// How the body is packed, if it is.
    pub(super) fn encoding(&self) -> Option<String> {
        let packed = self.headers.get_all(header::CONTENT_ENCODING).iter().find(|value| *value != "identity")?;
        Some(String::from_utf8_lossy(packed.as_bytes()).chars().take(40).collect())
    }

    /// Where a redirect leads.
    pub(crate) fn location(&self) -> Option<&str> {
        matches!(self.status, 301 | 302 | 303 | 307 | 308).then(|| self.header(&header::LOCATION)).flatten()
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// How long the server wants to be left alone. A date is taken by the server's own clock, where it tells it.
    pub(crate) fn retry_after(&self, now: Timestamp) -> Option<SignedDuration> {
        let text = self.header(&header::RETRY_AFTER)?.trim();
        let date = |text: &str| jiff::fmt::rfc2822::parse(text).ok().map(|zoned| zoned.timestamp());
        let wait = if let Ok(seconds) = text.parse::<u32>() {
            SignedDuration::from_secs(seconds.into())
        } else {
            let now = self.header(&header::DATE).and_then(date).unwrap_or(now);
            date(text)?.duration_since(now)
        };
        Some(wait.clamp(SignedDuration::ZERO, RETRY_AFTER_MAX))
    }

    /// The body as text, as far as it is kept.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// As the run's output. Bytes that are no text, and what no store keeps, are replaced.
    pub(super) fn output(&self) -> Option<Json> {
        let text = String::from_utf8_lossy(&self.body);
        let shown = |body| Shown { status: self.status, headers: self.kept_headers(), body, body_cut: self.cut };
        let json = (self.is_json() && !self.cut).then(|| serde_json::from_str::<&RawValue>(&text).ok()).flatten();
        let as_json = json.and_then(|body| Json::from_value("output", &shown(ShownBody::Json(body))).ok());
        as_json.or_else(|| {
            let text = text.replace('\0', "\u{fffd}");
            Json::from_value("output", &shown(ShownBody::Text(text))).ok()
        })
    }

    fn kept_headers(&self) -> BTreeMap<&str, String> {
        let kept = self.headers.iter().filter(|(name, _)| KEPT_HEADERS.contains(&name.as_str()));
        kept.map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.as_str(), value.chars().take(HEADER_KEPT_CHARS).collect())
        })
        .collect()
    }

    fn is_json(&self) -> bool {
        let kind = self.header(&header::CONTENT_TYPE).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind == "application/json" || kind.ends_with("+json")
    }
}
