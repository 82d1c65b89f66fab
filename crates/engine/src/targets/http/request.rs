//! What is sent: a job's target with all values filled in, and what becomes of it after a redirect.

use super::guard::Refused;
use punctual_core::execute::RunContext;
use punctual_core::expression::{Serde, Style, Value as TemplateValue, render, render_json};
use punctual_core::job::Job;
use punctual_core::secret::Value;
use punctual_core::target::{Body, Http};
use punctual_core::trace::TraceContext;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use std::net::IpAddr;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// One request, ready to be sent.
#[derive(Clone)]
pub(crate) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(crate) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// Whether a secret is in it, so that it may not go to another place than the one it was meant for.
    secret: bool,
}

/// Where a request goes: a name, or an address that was written as one.
pub(crate) struct Destination {
    pub(super) host: String,
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
}

impl Destination {
    /// A host that was written without a scheme, and a port.
    pub(crate) fn new(host: &str, port: u16) -> Self {
        let bare = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
        Self { host: host.to_owned(), address: bare.parse().ok(), port }
    }
}

impl Request {
    /// A request that no job asked for, and that is never sent on to another place.
    pub(crate) fn new(method: Method, url: &str, body: Vec<u8>) -> Result<Self, Refused> {
        Ok(Self { method, url: parse(url)?, headers: usual_headers(), body, secret: true })
    }

    /// Fills in the values. What cannot be sent is refused with the reason.
    pub(super) fn of(run: &RunContext, http: &Http) -> Result<Self, Refused> {
        let context = context(run, http)?;
        let fill = |part: &str, style, source: &str| {
            render(style, source, &context).map_err(|error| Refused(format!("{part}: {error}")))
        };
        let url = fill("url", Style::Url, &http.url)?;
        let mut headers = own_headers(&run.job, &http.method);
        let (body, is_json) = body(&run.job, http, &context)?;
        if is_json {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for (name, value) in &http.headers {
            let unfit = || Refused(format!("the header {name} cannot be sent: it holds a line break or the like"));
            let text = match value {
                Value::Plain(source) => fill(name, Style::Plain, source)?,
                Value::Secret(reference) => reveal(run, name, reference)?,
            };
            let mut value = HeaderValue::from_str(&text).map_err(|_| unfit())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?, value);
        }
        let secret = !http.secrets.is_empty() || http.headers.values().any(|value| matches!(value, Value::Secret(_)));
        let method = Method::from_bytes(http.method.as_bytes());
        let method = method.map_err(|_| Refused("the method cannot be sent".to_owned()))?;
        Ok(Self { method, url: parse(&url)?, headers, body, secret })
    }

    /// What is sent along.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Where it goes. Whatever the spelling, an address comes out as an address.
    pub(super) fn destination(&self) -> Result<Destination, Refused> {
        if !matches!(self.url.scheme(), "http" | "https") {
            return Err(Refused(format!("{}: is neither http nor https", self.url.scheme())));
        }
        if !self.url.username().is_empty() || self.url.password().is_some() {
            return Err(Refused(
                "the address holds a user or a password; put them into a header, by a reference to a secret".to_owned(),
            ));
        }
        let host = self.url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| Refused("the address names no host".to_owned()))?;
        let port = self.url.port_or_known_default().ok_or_else(|| Refused("the address has no port".to_owned()))?;
        Ok(Destination::new(host, port))
    }

    /// The request that follows a redirect.
    pub(super) fn redirected(mut self, status: u16, location: &str) -> Result<Self, Refused> {
        let next = self.url.join(location).map_err(|error| Refused(format!("the redirect leads nowhere: {error}")))?;
        if self.url.scheme() == "https" && next.scheme() != "https" {
            return Err(Refused("the redirect leads from https to an unprotected address".to_owned()));
        }
        if self.url.origin() != next.origin() {
            if self.secret {
                return Err(Refused("the redirect would carry the job's secrets to another host".to_owned()));
            }
            for held in [header::AUTHORIZATION, header::COOKIE] {
                self.headers.remove(held);
            }
        }
        let as_get = status == 303 || (matches!(status, 301 | 302) && self.method == Method::POST);
        if as_get && self.method != Method::HEAD {
            self.method = Method::GET;
            self.body.clear();
            self.headers.remove(header::CONTENT_TYPE);
        }
        self.url = next;
        Ok(self)
    }
}

fn parse(url: &str) -> Result<Url, Refused> {
    // The address is not repeated, because a secret may have been filled in.
    Url::parse(url).map_err(|error| Refused(format!("the url is no address: {error}")))
}

fn reveal(run: &RunContext, name: &str, reference: &punctual_core::secret::SecretRef) -> Result<String, Refused> {
    let secret = run.secrets.reveal(reference).map_err(|error| Refused(format!("{name}: {error}")))?;
    Ok(secret.expose().to_owned())
}

/// What templates can name.
fn context(run: &RunContext, http: &Http) -> Result<TemplateValue, Refused> {
    let job = &run.job;
    let mut secrets = std::collections::BTreeMap::new();
    for (name, reference) in &http.secrets {
        secrets.insert(name, reveal(run, name, reference)?);
    }
    let input: serde_json::Value = job.spec.input.to().map_err(|error| Refused(format!("input: {error}")))?;
    Ok(TemplateValue::from(Serde(serde_json::json!({
        "input": input,
        "job": {
            "id": job.id.to_string(),
            "root_id": job.root_job_id.to_string(),
            "attempt": job.attempt,
            "slot_at": job.slot_at.map(|at| at.to_string()),
        },
        "secrets": secrets,
    }))))
}

/// The body, and whether it is JSON.
fn body(job: &Job, http: &Http, context: &TemplateValue) -> Result<(Vec<u8>, bool), Refused> {
    let refused = |error: String| Refused(format!("body: {error}"));
    match &http.body {
        Some(Body::Text(source)) => Ok((render(Style::Plain, source, context).map_err(refused)?.into_bytes(), false)),
        Some(Body::Json(document)) => {
            let filled = render_json(document, context).map_err(refused)?;
            Ok((filled.to_string().into_bytes(), true))
        }
        None if matches!(http.method.as_str(), "POST" | "PUT" | "PATCH") => {
            Ok((job.spec.input.as_str().as_bytes().to_vec(), true))
        }
        None => Ok((Vec::new(), false)),
    }
}

/// What every request says.
fn usual_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("punctual/", env!("CARGO_PKG_VERSION"))));
    // Nothing is unpacked, so that a small answer cannot become a large one.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers
}

/// What Punctual itself says. A job's own headers of the same names take their place.
fn own_headers(job: &Job, method: &str) -> HeaderMap {
    let mut headers = usual_headers();
    if !matches!(method, "GET" | "HEAD" | "OPTIONS")
        && let Ok(key) = HeaderValue::from_str(&job.root_job_id.to_string())
    {
        // The same for all attempts of a chain: after a lost answer nobody knows whether the work was done.
        headers.insert(IDEMPOTENCY_KEY, key);
    }
    if let Ok(trace) = HeaderValue::from_str(&TraceContext::of_run(job).to_string()) {
        headers.insert(TRACEPARENT, trace);
    }
    headers
}
