//! The one way to the API: over HTTP to a server, or to the same router in this process on the local store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use clap::Args;
use punctual_core::store::Store;
use punctual_server::{AppState, Settings, in_process};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tower::ServiceExt;
use uuid::Uuid;

use super::show;
use crate::cli::data::{DataFolder, Running};
use crate::cli::{Exit, Stop};

/// How long a server may take to answer one call.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long it may take over a whole manifest.
const LONG_PATIENCE: Duration = Duration::from_secs(15 * 60);

/// The most that is read of one answer.
const ANSWER_MAX: usize = 256 << 20;

/// The largest page that is asked for.
const PAGE_MAX: usize = 500;

/// How often a call is made anew after its connection broke, when that can do no harm.
const TRIES: u32 = 3;

/// Where the API is.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Where to")]
pub(crate) struct ConnectArgs {
    /// The server's address [default: the one that runs on the data folder, else the store itself]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_SERVER", global = true)]
    server: Option<String>,
    /// The API token for that server
    #[arg(long, value_name = "TOKEN", env = "PUNCTUAL_TOKEN", hide_env_values = true, global = true)]
    token: Option<String>,
    /// The folder of the local store [default: the user's state folder]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA", global = true)]
    data: Option<PathBuf>,
    /// The local store: sqlite:PATH or postgres://… [default: sqlite:DIR/punctual.db]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_DATABASE", hide_env_values = true, global = true)]
    database: Option<String>,
}

/// A line to the API.
pub(crate) enum Api {
    /// A server.
    Remote { client: reqwest::Client, base: String, token: Option<String>, near: bool },
    /// The router itself, and the store below it.
    Local { router: Router, store: Arc<dyn Store> },
}

impl ConnectArgs {
    /// Finds the API: the server that was named, else one that runs on the data folder, else the store itself.
    pub(crate) async fn connect(&self) -> Result<Api, Stop> {
        if let Some(server) = &self.server {
            return Api::remote(server, self.token.clone(), false);
        }
        let database = if let Some(database) = &self.database {
            database.clone()
        } else {
            let folder = DataFolder::open(self.data.as_deref())?;
            if let Some(Running { url, token }) = folder.running() {
                return Api::remote(&url, self.token.clone().or(token), true);
            }
            folder.database_url()
        };
        let store = punctual::open(&database).await?;
        let router = in_process(AppState::new(Arc::clone(&store), Settings::default()));
        Ok(Api::Local { router, store })
    }
}

impl Api {
    fn remote(server: &str, token: Option<String>, near: bool) -> Result<Self, Stop> {
        let base = server.trim_end_matches('/').to_owned();
        if !(base.starts_with("http://") || base.starts_with("https://")) {
            return Err(Stop::usage(format!(
                "--server {server} is no address; write it as https://HOST or http://HOST:PORT"
            )));
        }
        let failed = |error: &dyn std::error::Error| Stop::failure(format!("no HTTP client could be made: {error}"));
        let tls = punctual_engine::targets::http::trusted_tls(Vec::new()).map_err(|error| failed(&error))?;
        let client = reqwest::Client::builder().tls_backend_preconfigured(tls).timeout(PATIENCE).no_proxy().build();
        Ok(Self::Remote { client: client.map_err(|error| failed(&error))?, base, token, near })
    }

    /// Whether commands run where this process runs, so that a path means the same to both.
    pub(crate) fn is_near(&self) -> bool {
        match self {
            Self::Remote { near, .. } => *near,
            Self::Local { .. } => true,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Stop> {
        self.answer(&Ask { method: Method::GET, path, body: None, key: None, patience: PATIENCE }).await
    }

    /// The same for what is long in coming.
    pub(crate) async fn get_patiently(&self, path: &str) -> Result<Answer, Stop> {
        self.answer(&Ask { method: Method::GET, path, body: None, key: None, patience: LONG_PATIENCE }).await
    }

    /// Makes something new, once, however often the connection breaks.
    pub(crate) async fn create(&self, path: &str, body: &impl Serialize) -> Result<Answer, Stop> {
        let key = Some(Uuid::new_v4().to_string());
        self.answer(&Ask { method: Method::POST, path, body: Some(text_of(body)?), key, patience: PATIENCE }).await
    }

    /// Asks about something, or for it, once for a key if one is given, and waits long; for whoever has words of his own for
    /// what is refused.
    pub(crate) async fn ask(
        &self, path: &str, body: &impl Serialize, once: bool,
    ) -> Result<Result<Answer, Refused>, Stop> {
        let key = once.then(|| Uuid::new_v4().to_string());
        self.try_answer(&Ask { method: Method::POST, path, body: Some(text_of(body)?), key, patience: LONG_PATIENCE })
            .await
    }

    /// Changes something.
    pub(crate) async fn change(&self, method: Method, path: &str, body: &impl Serialize) -> Result<Answer, Stop> {
        self.answer(&Ask { method, path, body: Some(text_of(body)?), key: None, patience: PATIENCE }).await
    }

    /// Asks for something that needs no words.
    pub(crate) async fn act(&self, method: Method, path: &str) -> Result<Answer, Stop> {
        self.answer(&Ask { method, path, body: None, key: None, patience: PATIENCE }).await
    }

    /// A file, as it is.
    pub(crate) async fn fetch(&self, path: &str) -> Result<Vec<u8>, Stop> {
        let (status, bytes) =
            self.carry(&Ask { method: Method::GET, path, body: None, key: None, patience: PATIENCE }).await?;
        if status.is_success() {
            return Ok(bytes);
        }
        Err(refused(status, &serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    async fn carry(&self, ask: &Ask<'_>) -> Result<(StatusCode, Vec<u8>), Stop> {
        match self {
            Self::Remote { client, base, token, .. } => ask.send(client, base, token.as_deref()).await,
            Self::Local { router, .. } => ask.hand_to(router.clone()).await,
        }
    }

    /// One call; what is not a success becomes the problem's own words and an exit code.
    async fn answer(&self, ask: &Ask<'_>) -> Result<Answer, Stop> {
        self.try_answer(ask).await?.map_err(Refused::into_stop)
    }

    async fn try_answer(&self, ask: &Ask<'_>) -> Result<Result<Answer, Refused>, Stop> {
        let (status, bytes) = self.carry(ask).await?;
        let bytes = if bytes.is_empty() { b"null".to_vec() } else { bytes };
        match serde_json::from_slice::<Box<RawValue>>(&bytes) {
            Ok(answer) if status.is_success() => Ok(Ok(Answer(answer))),
            Ok(problem) => Ok(Err(Refused { status, problem: Answer(problem).value() })),
            Err(_) => Err(Stop::failure(format!(
                "the answer {status} is not JSON; is there a Punctual server at that address?"
            ))),
        }
    }

    /// A list, page after page, up to a number of items.
    pub(crate) async fn list(&self, path: &str, most: usize) -> Result<Page, Stop> {
        let mut page = Page::default();
        loop {
            let joint = if path.contains('?') { '&' } else { '?' };
            let mut asked = format!("{path}{joint}limit={}", (most - page.items.len()).clamp(1, PAGE_MAX));
            if let Some(cursor) = &page.next_cursor {
                asked = format!("{asked}&cursor={}", escaped(cursor));
            }
            let mut more = self.get(&asked).await?.page()?;
            more.items.splice(..0, page.items);
            page = more;
            if page.next_cursor.is_none() || page.items.len() >= most {
                return Ok(page);
            }
        }
    }
}

/// What the API said, to the letter: numbers keep all their digits, fields their order.
#[derive(Debug, Clone)]
pub(crate) struct Answer(Box<RawValue>);

impl Answer {
    pub(crate) fn text(&self) -> &str {
        self.0.get()
    }

    /// The same to look into; not to be shown, because long numbers may lose digits.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_default()
    }

    pub(crate) fn page(&self) -> Result<Page, Stop> {
        serde_json::from_str(self.text()).map_err(|error| Stop::failure(format!("this is no list: {error}")))
    }
}

/// A list, or a part of one.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Page {
    pub(crate) items: Vec<Box<RawValue>>,
    /// Whether there are more, and where they begin.
    #[serde(default)]
    pub(crate) next_cursor: Option<String>,
}

fn text_of(body: &impl Serialize) -> Result<String, Stop> {
    serde_json::to_string(body).map_err(|error| Stop::usage(format!("this cannot be sent: {error}")))
}

/// One call.
struct Ask<'a> {
    method: Method,
    path: &'a str,
    body: Option<String>,
    key: Option<String>,
    /// How long the answer may take.
    patience: Duration,
}

impl Ask<'_> {
    fn can_be_repeated(&self) -> bool {
        self.key.is_some() || self.method == Method::GET
    }

    async fn send(
        &self, client: &reqwest::Client, base: &str, token: Option<&str>,
    ) -> Result<(StatusCode, Vec<u8>), Stop> {
        let mut tries = 1;
        loop {
            match self.try_send(client, base, token).await {
                Ok(answer) => return Ok(answer),
                Err(error) if self.can_be_repeated() && tries < TRIES && !error.is_connect() && !error.is_timeout() => {
                    tries += 1;
                }
                Err(error) => return Err(unreachable(base, &error)),
            }
        }
    }

    async fn try_send(
        &self, client: &reqwest::Client, base: &str, token: Option<&str>,
    ) -> reqwest::Result<(StatusCode, Vec<u8>)> {
        let mut request = client.request(self.method.clone(), format!("{base}/api/v1{}", self.path));
        request = request.timeout(self.patience);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(key) = &self.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(body) = &self.body {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body.clone());
        }
        let answer = request.send().await?;
        Ok((answer.status(), answer.bytes().await?.to_vec()))
    }

    async fn hand_to(&self, router: Router) -> Result<(StatusCode, Vec<u8>), Stop> {
        let request = Request::builder()
            .method(self.method.clone())
            .uri(format!("/api/v1{}", self.path))
            .header(header::HOST, "localhost");
        let request = match &self.body {
            Some(body) => request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.clone())),
            None => request.body(Body::empty()),
        };
        let request = request.map_err(|error| Stop::usage(format!("this cannot be asked: {error}")))?;
        let answer = match router.oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let status = answer.status();
        let bytes = to_bytes(answer.into_body(), ANSWER_MAX).await;
        Ok((status, bytes.map_err(|error| Stop::failure(error.to_string()))?.to_vec()))
    }
}

/// A piece of a path or of a query, safe whatever it holds.
pub(crate) fn escaped(text: &str) -> String {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~".contains(&byte);
    let piece = |byte: u8| if is_safe(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(piece).collect()
}

/// The parameters that were given, behind a path.
pub(crate) fn with_query(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(key, value)| Some(format!("{key}={}", escaped((*value)?))));
    let given: Vec<String> = given.collect();
    if given.is_empty() { path.to_owned() } else { format!("{path}?{}", given.join("&")) }
}

fn unreachable(base: &str, error: &reqwest::Error) -> Stop {
    if error.is_timeout() {
        return Stop::Failed(Exit::Timeout, format!("{base} did not answer in time"));
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let told = format!("{base} cannot be reached: {innermost}; is `punctual serve` running there?");
    Stop::Failed(Exit::Unreachable, told)
}

/// A call that was refused, and why.
#[derive(Debug)]
pub(crate) struct Refused {
    status: StatusCode,
    pub(crate) problem: Value,
}

impl Refused {
    /// The problem's own words.
    pub(crate) fn into_stop(self) -> Stop {
        refused(self.status, &self.problem)
    }

    /// How a command ends because of it.
    pub(crate) fn exit(&self) -> Exit {
        exit_of(self.status)
    }
}

/// The problem's own words: what is wrong, where, and what to do.
fn refused(status: StatusCode, problem: &Value) -> Stop {
    let text = |of: &Value, field: &str| of[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let mut message = text(problem, "detail").or_else(|| text(problem, "title"));
    for wrong in problem["errors"].as_array().into_iter().flatten() {
        let place = text(wrong, "pointer").unwrap_or_default();
        let detail = text(wrong, "detail").unwrap_or_default();
        if message.as_ref().is_none_or(|told| !told.contains(&detail)) {
            message = Some(format!("{}{place}: {detail}", message.map(|told| told + "; ").unwrap_or_default()));
        }
    }
    let mut message = message.unwrap_or_else(|| format!("the server answered {status}"));
    if let Some(remedy) = text(problem, "remedy").filter(|remedy| !message.contains(remedy)) {
        message = format!("{message}; {remedy}");
    }
    if status == StatusCode::UNAUTHORIZED {
        message.push_str("; give it with --token, or in PUNCTUAL_TOKEN or PUNCTUAL_TOKEN_FILE");
    }
    Stop::Failed(exit_of(status), show::visible(&message))
}

fn exit_of(status: StatusCode) -> Exit {
    match status.as_u16() {
        401 | 403 => Exit::NotAuthorised,
        404 => Exit::NotFound,
        408 | 504 => Exit::Timeout,
        409 | 412 => Exit::Conflict,
        400 | 413 | 415 | 422 => Exit::Usage,
        502 | 503 => Exit::Unreachable,
        _ => Exit::Failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_one_piece_of_a_path() {
        assert_eq!(escaped("nightly-2_x~"), "nightly-2_x~");
        assert_eq!(escaped("../a b?c#d&e=f%\u{e9}"), "%2E%2E%2Fa%20b%3Fc%23d%26e%3Df%25%C3%A9");
        let path = with_query("/jobs", &[("state", None), ("queue", Some("a&b")), ("tag", Some("x"))]);
        assert_eq!(path, "/jobs?queue=a%26b&tag=x");
        assert_eq!(with_query("/jobs", &[("state", None)]), "/jobs");
    }

    #[test]
    fn a_problem_is_told_in_its_own_words_with_an_exit_code() {
        let problem = serde_json::json!({
            "detail": "a value is refused", "remedy": "use HH:MM",
            "errors": [{ "pointer": "/cron", "detail": "five fields are needed" }],
        });
        let Stop::Failed(exit, told) = refused(StatusCode::UNPROCESSABLE_ENTITY, &problem) else { panic!() };
        assert_eq!(told, "a value is refused; /cron: five fields are needed; use HH:MM");
        assert_eq!(exit as u8, 2);
        let Stop::Failed(exit, told) = refused(StatusCode::BAD_GATEWAY, &Value::Null) else { panic!() };
        assert_eq!((exit as u8, told.as_str()), (6, "the server answered 502 Bad Gateway"));
    }
}
