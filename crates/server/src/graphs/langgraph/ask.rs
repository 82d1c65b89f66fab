//! One line to a LangGraph server: a call, its answer, and words for what went wrong that never repeat a secret.

use punctual_core::graph::{GraphRun, Unknown};
use punctual_core::invalid::Invalid;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// How long one call may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
const CONNECT: Duration = Duration::from_secs(5);
/// The most that is read of one answer.
const ANSWER_MAX: usize = 16 << 20;
/// How much of an answer that was not expected is repeated.
const DETAIL_MAX: usize = 500;

pub(super) struct Line {
    client: Client,
    base: String,
}

/// What the server said.
pub(super) struct Answer {
    pub(super) status: u16,
    body: Vec<u8>,
    /// More than is read of one answer: what there is of the body means nothing.
    pub(super) too_large: bool,
}

impl Line {
    pub(super) fn new(url: &str, api_key: Option<&str>) -> Result<Self, Invalid> {
        let base = url.trim_end_matches('/').to_owned();
        let parsed = reqwest::Url::parse(&base);
        if !parsed.is_ok_and(|it| matches!(it.scheme(), "http" | "https") && it.query().is_none()) {
            return Err(Invalid::new("langgraph_url", format!("{url} is no address of a LangGraph server"))
                .remedy("write it as https://HOST or http://HOST:PORT"));
        }
        let mut headers = HeaderMap::new();
        if let Some(key) = api_key {
            let mut value = HeaderValue::from_str(key).map_err(|_| {
                Invalid::new("langgraph_api_key", "has characters that no header can carry")
                    .remedy("look for a line break at its end")
            })?;
            value.set_sensitive(true);
            headers.insert("x-api-key", value);
        }
        let failed = |error: &dyn std::error::Error| Invalid::new("langgraph_url", format!("no calls: {error}"));
        let client = Client::builder()
            .tls_backend_preconfigured(tls().map_err(|error| failed(&error))?)
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .no_proxy()
            .http1_only()
            .build();
        Ok(Self { client: client.map_err(|error| failed(&error))?, base })
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer, Unknown> {
        self.call(self.client.get(format!("{}{path}", self.base))).await
    }

    /// `run` says for whom a run is made, in headers for what stands before the server, such as a gateway.
    pub(super) async fn post(
        &self, path: &str, body: &impl Serialize, run: Option<&GraphRun>,
    ) -> Result<Answer, Unknown> {
        let text = serde_json::to_vec(body).map_err(|error| Unknown(format!("the call cannot be written: {error}")))?;
        let mut call = self.client.post(format!("{}{path}", self.base)).header("content-type", "application/json");
        if let Some(run) = run {
            call = call.headers(headers(run).map_err(|refused| Unknown(refused.to_string()))?);
        }
        self.call(call.body(text)).await
    }

    /// Waits for an answer whose words do not matter; it may take as long as it likes.
    pub(super) async fn wait_on(&self, path: &str) -> Result<(), Unknown> {
        let mut response = self.client.get(format!("{}{path}", self.base)).send().await.map_err(|it| unknown(&it))?;
        while response.chunk().await.map_err(|it| unknown(&it))?.is_some() {}
        Ok(())
    }

    async fn call(&self, call: RequestBuilder) -> Result<Answer, Unknown> {
        let answered = timeout(PATIENCE, async { Answer::read(call.send().await?).await }).await;
        let answered = answered.map_err(|_| Unknown("the LangGraph server did not answer in time".to_owned()))?;
        answered.map_err(|error| unknown(&error))
    }
}

impl Answer {
    async fn read(mut response: Response) -> Result<Self, reqwest::Error> {
        let mut answer = Self { status: response.status().as_u16(), body: Vec::new(), too_large: false };
        while let Some(chunk) = response.chunk().await? {
            if answer.body.len() + chunk.len() > ANSWER_MAX {
                answer.too_large = true;
                break;
            }
            answer.body.extend_from_slice(&chunk);
        }
        Ok(answer)
    }

    /// The answer as what it must be.
    pub(super) fn expect<T: DeserializeOwned>(&self, what: &str) -> Result<T, Unknown> {
        if self.status != 200 {
            return Err(self.not_expected(&format!("it did not show {what}")));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| Unknown(format!("the LangGraph server's answer for {what} is not understood: {error}")))
    }

    pub(super) fn not_expected(&self, what: &str) -> Unknown {
        let hint = match self.status {
            401 | 403 => "; check PUNCTUAL_LANGGRAPH_API_KEY",
            404 => "; check PUNCTUAL_LANGGRAPH_URL, or it has forgotten the run",
            _ => "",
        };
        Unknown(format!("the LangGraph server answered {}: {what}: {}{hint}", self.status, self.detail()))
    }

    /// The server's own words.
    pub(super) fn detail(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let detail = serde_json::from_str::<serde_json::Value>(&text).ok();
        let detail = detail.as_ref().and_then(|it| it["detail"].as_str()).unwrap_or(&text);
        let words: Vec<&str> = detail.split_whitespace().collect();
        words.join(" ").chars().take(DETAIL_MAX).collect()
    }
}

/// What goes with a run: whose account is charged, and the trace it belongs to.
pub(super) fn headers(run: &GraphRun) -> Result<HeaderMap, Invalid> {
    let value = |field: &str, text: &str| {
        HeaderValue::from_str(text).map_err(|_| Invalid::new(field, "has characters that no header can carry"))
    };
    let mut headers = HeaderMap::new();
    let mut key = value("virtual_key", &run.virtual_key)?;
    key.set_sensitive(true);
    headers.insert("x-virtual-key", key);
    headers.insert("x-trace-id", value("trace_id", &run.trace_id)?);
    headers.insert("x-grant-id", value("grant_id", &run.grant_id.to_string())?);
    headers.insert("traceparent", value("trace_id", &traceparent(run))?);
    Ok(headers)
}

/// W3C trace context; the run is the span, the same one however often it is asked for.
fn traceparent(run: &GraphRun) -> String {
    let span = u64::from_be_bytes(*run.run_id.0.as_bytes().last_chunk().expect("a UUID has 16 bytes")).max(1);
    format!("00-{}-{span:016x}-01", run.trace_id)
}

fn tls() -> Result<ClientConfig, tokio_rustls::rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let versions =
        ClientConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions()?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

/// Trouble on the way: nobody knows what has happened at the other end.
fn unknown(error: &reqwest::Error) -> Unknown {
    let what = if error.is_connect() { "cannot be reached" } else { "broke off" };
    let mut words = format!("the LangGraph server {what}");
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        words = format!("{words}: {cause}");
        next = cause.source();
    }
    Unknown(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::id::{GrantId, GraphRunId};
    use punctual_core::json::Json;
    use uuid::Uuid;

    fn run() -> GraphRun {
        GraphRun {
            run_id: GraphRunId(Uuid::from_u128(0xab)),
            graph: "langgraph:echo".parse().unwrap(),
            input: Json::parse("input", "{}").unwrap(),
            virtual_key: "vk-1".to_owned(),
            trace_id: "0123456789abcdef0123456789abcdef".to_owned(),
            grant_id: GrantId(Uuid::from_u128(1)),
            owner: "somebody".to_owned(),
        }
    }

    #[test]
    fn a03_the_virtual_key_and_the_trace_go_along_in_headers() {
        let headers = headers(&run()).unwrap();
        assert_eq!(headers["x-virtual-key"], "vk-1");
        assert!(headers["x-virtual-key"].is_sensitive());
        assert_eq!(headers["traceparent"], "00-0123456789abcdef0123456789abcdef-00000000000000ab-01");
        let odd = GraphRun { virtual_key: "a\nb".to_owned(), ..run() };
        assert!(super::headers(&odd).unwrap_err().to_string().contains("virtual_key"));
    }

    #[test]
    fn an_address_that_is_none_is_refused_with_what_to_write() {
        for wrong in ["", "localhost:2024", "ftp://host", "http://"] {
            let refused = Line::new(wrong, None).map(drop).unwrap_err();
            assert!(refused.to_string().contains("http://HOST:PORT"), "{wrong}: {refused}");
        }
        let refused = Line::new("http://localhost:2024/", Some("key\n")).map(drop).unwrap_err();
        assert!(refused.to_string().contains("line break") && !refused.to_string().contains("key\n"), "{refused}");
    }
}
