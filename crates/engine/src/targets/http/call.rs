//! One exchange: names to addresses, the guard's word on every one of them, and a connection to nothing else.

use super::answer::Answer;
use super::guard::{Guard, Refused};
use super::names::Names;
use super::request::{Destination, Request};
use super::{HttpOptions, trusted_tls};
use punctual_core::run::ErrorCode;
use reqwest::dns::{Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// What every call of a node is made with.
pub(crate) struct Caller {
    passage: Passage,
    tls: rustls::ClientConfig,
    limits: Limits,
}

/// The way out of a node: names to addresses, and the guard's word on every one of them.
pub(crate) struct Passage {
    guard: Guard,
    names: Arc<dyn Names>,
}

/// How much of an answer is read and kept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the body that are kept with the run.
    pub kept_bytes: usize,
    /// Bytes of the body that are read at all; a longer answer fails the run.
    pub read_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { kept_bytes: 64 * 1024, read_bytes: 16 << 20 }
    }
}

/// Why there is no whole answer.
pub(crate) struct Failure {
    pub(super) code: ErrorCode,
    pub(crate) words: String,
    /// What had come until then.
    pub(crate) answer: Option<Box<Answer>>,
}

impl Failure {
    fn new(code: ErrorCode, words: impl Into<String>) -> Self {
        Self { code, words: words.into(), answer: None }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self::new(ErrorCode::TargetRejected, refused.0)
    }
}

impl Passage {
    pub(crate) fn new(guard: Guard, names: Arc<dyn Names>) -> Self {
        Self { guard, names }
    }

    /// The addresses of a destination, when the guard lets all of them pass: none of them is asked for again.
    pub(crate) async fn passed(&self, destination: &Destination, limit: Duration) -> Result<Vec<IpAddr>, Failure> {
        let addresses = match destination.address {
            Some(address) => vec![address],
            None => self.addresses(&destination.host, limit).await?,
        };
        for address in &addresses {
            self.guard.check(&destination.host, *address, destination.port)?;
        }
        Ok(addresses)
    }

    async fn addresses(&self, host: &str, limit: Duration) -> Result<Vec<IpAddr>, Failure> {
        let cannot = |why: &dyn std::fmt::Display| {
            Failure::new(ErrorCode::TargetError, format!("the addresses of {host} cannot be found: {why}"))
        };
        match timeout(limit, self.names.addresses(host)).await {
            Ok(Ok(addresses)) if addresses.is_empty() => Err(cannot(&"it has none")),
            Ok(found) => found.map_err(|error| cannot(&error)),
            Err(_) => Err(Failure::new(ErrorCode::Timeout, format!("nobody knew the addresses of {host} in time"))),
        }
    }
}

impl Caller {
    /// Reads the system's authorities once.
    pub(crate) fn new(options: HttpOptions) -> Result<Self, rustls::Error> {
        let tls = trusted_tls(options.authorities)?;
        Ok(Self { passage: Passage::new(options.guard, options.names), tls, limits: options.limits })
    }

    /// Sends one request and reads its answer; follows nothing.
    pub(crate) async fn send(&self, request: &Request, connect: Duration) -> Result<Answer, Failure> {
        let destination = request.destination()?;
        let addresses = self.passage.passed(&destination, connect).await?;
        let client = self.client(&destination.host, &addresses, connect)?;
        let sent = client
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone())
            .body(request.body.clone())
            .send()
            .await;
        let response = sent.map_err(|error| judge(error, "the call failed"))?;
        self.read(response).await
    }

    /// A client for one exchange with one host, which knows the checked addresses and no others. It keeps nothing, so
    /// that the connection is gone with it.
    fn client(&self, host: &str, addresses: &[IpAddr], connect: Duration) -> Result<Client, Failure> {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| SocketAddr::new(*address, 0)).collect();
        let built = Client::builder()
            .tls_backend_preconfigured(self.tls.clone())
            .dns_resolver(NoOtherNames)
            .resolve_to_addrs(host, &addresses)
            .redirect(Policy::none())
            .no_proxy()
            .http1_only()
            .pool_max_idle_per_host(0)
            .connect_timeout(connect)
            .build();
        built.map_err(|error| Failure::new(ErrorCode::Internal, format!("no call can be made: {}", causes(&error))))
    }

    /// Reads the body as far as it is kept, and to its end as far as that is bearable.
    async fn read(&self, mut response: Response) -> Result<Answer, Failure> {
        let mut answer = Answer::new(&response);
        let fail = |code, words: String, answer: Answer| Failure { code, words, answer: Some(Box::new(answer)) };
        let too_large = format!("the answer is larger than {} bytes", self.limits.read_bytes);
        if let Some(encoding) = answer.encoding() {
            let words = format!("the answer is packed as {encoding}, which was not asked for");
            return Err(fail(ErrorCode::BadOutput, words, answer));
        }
        if response.content_length().is_some_and(|length| length > self.limits.read_bytes as u64) {
            return Err(fail(ErrorCode::OutputTooLarge, too_large, answer));
        }
        let mut read = 0;
        loop {
            match response.chunk().await {
                Ok(None) => return Ok(answer),
                Ok(Some(chunk)) => {
                    read += chunk.len();
                    answer.keep(&chunk, self.limits.kept_bytes);
                    if read > self.limits.read_bytes {
                        return Err(fail(ErrorCode::OutputTooLarge, too_large, answer));
                    }
                }
                Err(error) => {
                    let failure = judge(error, "the answer broke off in its middle");
                    return Err(Failure { answer: Some(Box::new(answer)), ..failure });
                }
            }
        }
    }
}

/// Knows no name: what was not checked is not called.
struct NoOtherNames;

impl Resolve for NoOtherNames {
    fn resolve(&self, name: Name) -> Resolving {
        let refused = io::Error::other(Refused(format!("{} was not checked", name.as_str())));
        Box::pin(async move { Err(refused.into()) })
    }
}

/// What an error of the client means. Its words never repeat the address, which may hold a secret.
fn judge(error: reqwest::Error, what: &str) -> Failure {
    let error = error.without_url();
    if error.is_timeout() {
        return Failure::new(ErrorCode::Timeout, "the connection could not be made in time");
    }
    let code = match below::<hyper::Error>(&error) {
        Some(cause) if cause.is_parse() => ErrorCode::BadOutput,
        _ if below::<Refused>(&error).is_some() => ErrorCode::TargetRejected,
        _ => ErrorCode::TargetError,
    };
    Failure::new(code, format!("{what}: {}", causes(&error)))
}

/// The cause of a type somewhere below an error.
fn below<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        next = cause.source();
    }
    None
}

/// An error and what lies below it, each said once.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !words.contains(&said) {
            words = format!("{words}: {said}");
        }
        next = cause.source();
    }
    words
}
