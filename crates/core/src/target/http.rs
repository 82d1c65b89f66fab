//! An HTTP call as data: what is sent, which answers are good, and which are worth another try.

use crate::duration;
use crate::invalid::Invalid;
use crate::name;
use crate::secret::{SecretRef, Value};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The longest address.
const URL_MAX_BYTES: usize = 8 * 1024;

/// The most redirects that one call may follow.
const REDIRECTS_MAX: u8 = 10;

/// Headers that belong to the connection and not to the job.
const OWN_HEADERS: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// An HTTP call. The texts of `url`, `headers` and `body` are templates: `{{ input.name }}` stands for a value of the
/// input, `{{ job.id }}` for one of the job, `{{ secrets.name }}` for a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// `GET`, `POST`, …
    #[serde(default = "post")]
    pub method: String,
    /// Where to.
    pub url: String,
    /// Headers beside those that Punctual sets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Value>,
    /// The body. Without one, a `POST`, `PUT` or `PATCH` sends the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// Secrets that the templates may use, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, SecretRef>,
    /// Answers that mean success.
    #[serde(default = "Statuses::success", skip_serializing_if = "Statuses::is_success")]
    pub accept: Statuses,
    /// Answers after which it is tried again; all others are final.
    #[serde(default = "Statuses::passing", skip_serializing_if = "Statuses::is_passing")]
    pub retry_on: Statuses,
    /// How many redirects are followed, each checked like the first address.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redirects: u8,
    /// How long making the connection may take; 10 s when it is not said.
    #[serde(default, with = "duration::optional_text", skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<SignedDuration>,
    /// How long the whole call may take; the job's own timeout holds in any case.
    #[serde(default, with = "duration::optional_text", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
}

fn post() -> String {
    "POST".to_owned()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Body {
    /// One template.
    Text(String),
    /// JSON whose texts are templates: whatever the values are, it stays valid JSON.
    Json(serde_json::Value),
}

/// A set of status codes: numbers, classes such as `2xx`, and ranges such as `400-404`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statuses(Vec<StatusRange>);

impl Statuses {
    /// `2xx`.
    pub fn success() -> Self {
        Self(vec![StatusRange(200, 299)])
    }

    /// What may pass by itself: 408, 429 and `5xx`.
    pub fn passing() -> Self {
        Self(vec![StatusRange(408, 408), StatusRange(429, 429), StatusRange(500, 599)])
    }

    /// Whether a status is one of them.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| (range.0..=range.1).contains(&status))
    }

    fn is_success(&self) -> bool {
        *self == Self::success()
    }

    fn is_passing(&self) -> bool {
        *self == Self::passing()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StatusText", into = "StatusText")]
struct StatusRange(u16, u16);

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "a status such as 204, a class such as \"2xx\", or a range such as \"400-404\"")]
enum StatusText {
    Number(u16),
    Text(String),
}

impl TryFrom<StatusText> for StatusRange {
    type Error = Invalid;

    fn try_from(text: StatusText) -> Result<Self, Invalid> {
        let range = match &text {
            StatusText::Number(status) => Some((*status, *status)),
            StatusText::Text(text) => match text.strip_suffix("xx") {
                Some(class) => class.parse().ok().filter(|class| *class < 10).map(|c: u16| (c * 100, c * 100 + 99)),
                None => text.split_once('-').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?))),
            },
        };
        match range {
            Some((from, to)) if (100..=599).contains(&from) && to <= 599 && from <= to => Ok(Self(from, to)),
            _ => Err(Invalid::new("status", "is none").remedy("write 204, \"2xx\" or \"400-404\"")),
        }
    }
}

impl From<StatusRange> for StatusText {
    fn from(StatusRange(from, to): StatusRange) -> Self {
        match to - from {
            0 => Self::Number(from),
            99 if from % 100 == 0 => Self::Text(format!("{}xx", from / 100)),
            _ => Self::Text(format!("{from}-{to}")),
        }
    }
}

impl Http {
    /// A call with the usual rules.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: BTreeMap::new(),
            body: None,
            secrets: BTreeMap::new(),
            accept: Statuses::success(),
            retry_on: Statuses::passing(),
            redirects: 0,
            connect_timeout: None,
            timeout: None,
        }
    }

    /// Refuses what could never be sent.
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        if !is_token(&self.method) || ["CONNECT", "TRACE"].contains(&self.method.as_str()) {
            return Err(Invalid::new("target.method", "is none that can be sent").remedy("use GET, POST, PUT, …"));
        }
        // An address that begins with a value is checked when the value is there.
        if !["http://", "https://", "{{"].iter().any(|start| self.url.starts_with(start)) {
            return Err(Invalid::new("target.url", "is neither http:// nor https://").remedy("give the full address"));
        }
        if self.url.len() > URL_MAX_BYTES || self.url.contains(char::is_control) {
            return Err(Invalid::new("target.url", format!("is longer than {URL_MAX_BYTES} bytes or not one line"))
                .remedy("send the data in the body"));
        }
        self.headers.iter().try_for_each(|(header, value)| check_header(header, value))?;
        for (secret, reference) in &self.secrets {
            let field = format!("target.secrets.{secret}");
            if secret.is_empty() || !secret.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(Invalid::new("target.secrets", "has a name that templates cannot use")
                    .remedy("use letters, digits and _"));
            }
            reference.source().map_err(|error| Invalid { field, ..error })?;
        }
        if self.accept.0.is_empty() {
            return Err(Invalid::new("target.accept", "is empty, so no answer would do").remedy("name a status"));
        }
        if self.redirects > REDIRECTS_MAX {
            return Err(Invalid::new("target.redirects", format!("is more than {REDIRECTS_MAX}")).remedy("use fewer"));
        }
        self.connect_timeout.map_or(Ok(()), |time| duration::check("target.connect_timeout", time))?;
        self.timeout.map_or(Ok(()), |time| duration::check("target.timeout", time))
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 100
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.!#$&'*+^`|~%".contains(&b))
}

fn check_header(header: &str, value: &Value) -> Result<(), Invalid> {
    let field = format!("target.headers.{header}");
    if !is_token(header) {
        return Err(Invalid::new("target.headers", "has a name that cannot be sent").remedy("use letters and `-`"));
    }
    if OWN_HEADERS.contains(&header.to_ascii_lowercase().as_str()) {
        return Err(Invalid::new(field, "belongs to the connection and cannot be set").remedy("leave it out"));
    }
    match value {
        Value::Plain(text) if text.contains(char::is_control) => {
            Err(Invalid::new(field, "has a control character").remedy("remove line breaks"))
        }
        Value::Plain(text) => name::check_text(&field, text),
        Value::Secret(_) => value.validate(&field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    fn read(text: &str) -> Target {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn d06_a_short_call_stays_short() {
        let text = r#"{"kind":"http","method":"GET","url":"https://example.com/"}"#;
        assert_eq!(serde_json::to_string(&read(text)).unwrap(), text);
        let long = r#"{"kind":"http","method":"PUT","url":"https://example.com/","headers":{"authorization":{"secret":"env:TOKEN"}},"body":{"a":"{{ input.a }}"},"secrets":{"t":{"secret":"file:/t"}},"accept":["2xx",304,"400-404"],"retry_on":[503],"redirects":2,"connect_timeout":"5s","timeout":"1m"}"#;
        assert_eq!(serde_json::to_string(&read(long)).unwrap(), long);
        read(long).validate().unwrap();
    }

    #[test]
    fn d06_statuses_are_numbers_classes_and_ranges() {
        let set: Statuses = serde_json::from_str(r#"["2xx", 304, "400-404"]"#).unwrap();
        let held: Vec<u16> =
            [199, 200, 299, 300, 304, 399, 400, 404, 405].into_iter().filter(|s| set.contains(*s)).collect();
        assert_eq!(held, [200, 299, 304, 400, 404]);
        for wrong in [r"[42]", r#"["2x"]"#, r#"["404-400"]"#, r#"["6xx"]"#, r#"["99xx"]"#, r"[true]"] {
            assert!(serde_json::from_str::<Statuses>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn d06_what_could_never_be_sent_is_refused() {
        let call = || Http::new("POST", "https://example.com/");
        let header = |name: &str, value: &str| Http {
            headers: BTreeMap::from([(name.to_owned(), Value::from(value))]),
            ..call()
        };
        assert_eq!(call().validate(), Ok(()));
        assert_eq!(Http::new("GET", "{{ input.url | safe }}").validate(), Ok(()));
        let refused = [
            ("target.method", Http::new("GET it", "https://example.com/")),
            ("target.method", Http::new("CONNECT", "https://example.com/")),
            ("target.url", Http::new("GET", "ftp://example.com/")),
            ("target.url", Http::new("GET", "https://example.com/\n")),
            ("target.url", Http::new("GET", format!("https://example.com/{}", "x".repeat(9000)))),
            ("target.headers", header("a b", "c")),
            ("target.headers.Host", header("Host", "localhost")),
            ("target.headers.a", header("a", "b\r\nc: d")),
            ("target.secrets", Http { secrets: BTreeMap::from([("a-b".into(), SecretRef::new("env:A"))]), ..call() }),
            ("target.secrets.a", Http { secrets: BTreeMap::from([("a".into(), SecretRef::new("A"))]), ..call() }),
            ("target.accept", Http { accept: Statuses(vec![]), ..call() }),
            ("target.redirects", Http { redirects: 11, ..call() }),
            ("target.timeout", Http { timeout: Some(SignedDuration::ZERO), ..call() }),
        ];
        for (field, http) in refused {
            assert_eq!(http.validate().unwrap_err().field, field, "{http:?}");
        }
    }
}
