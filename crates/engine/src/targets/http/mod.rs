//! HTTP calls: a request filled in from the job, sent only where the node allows it, and an answer that is judged.

mod answer;
mod call;
pub mod guard;
pub mod names;
mod request;

pub use call::{Limits, causes};

pub(crate) use answer::Answer;
pub(crate) use call::{Caller, Failure, Passage};
pub(crate) use request::{Destination, Request};

use crate::clock::Uptime;
use async_trait::async_trait;
use guard::Guard;
use jiff::{SignedDuration, Timestamp};
use names::{Names, SystemNames};
use punctual_core::closing::Again;
use punctual_core::execute::{Executor, RunContext, stopped};
use punctual_core::run::ErrorCode;
use punctual_core::store::FinishedRun;
use punctual_core::target::{Http, Target};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long making a connection may take when the job does not say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How a node makes calls.
#[derive(Clone)]
pub struct HttpOptions {
    /// Where they may go.
    pub guard: Guard,
    /// Who knows the addresses of names.
    pub names: Arc<dyn Names>,
    /// How much of an answer is read and kept.
    pub limits: Limits,
    /// Authorities that are trusted beside those of the system.
    pub authorities: Vec<CertificateDer<'static>>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            guard: Guard::default(),
            names: Arc::new(SystemNames),
            limits: Limits::default(),
            authorities: Vec::new(),
        }
    }
}

/// TLS that believes the system's authorities, and `more`.
pub fn trusted_tls(more: Vec<CertificateDer<'static>>) -> Result<rustls::ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots.add_parsable_certificates(more);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

/// Makes HTTP calls.
pub struct HttpExecutor(Caller);

impl HttpExecutor {
    /// Reads the system's authorities once.
    pub fn new(options: HttpOptions) -> Result<Self, rustls::Error> {
        Caller::new(options).map(Self)
    }

    /// Sends the request, follows as many redirects as the job allows, and judges the last answer.
    async fn call(&self, run: &RunContext, http: &Http) -> FinishedRun {
        let uptime = Uptime::start();
        let connect = http.connect_timeout.map_or(CONNECT_TIMEOUT, whole);
        let mut request = match Request::of(run, http) {
            Ok(request) => request,
            Err(refused) => return run.failed(ErrorCode::TargetRejected, refused.to_string()),
        };
        let mut hops = 0;
        loop {
            let answer = match self.0.send(&request, connect).await {
                Ok(answer) => answer,
                Err(failure) => return failed(run, &failure),
            };
            match answer.location() {
                Some(location) if hops < http.redirects => {
                    hops += 1;
                    request = match request.redirected(answer.status, location) {
                        Ok(next) => next,
                        Err(refused) => return run.failed(ErrorCode::TargetRejected, refused.to_string()),
                    };
                }
                _ => {
                    let passed = SignedDuration::try_from(uptime.now()).unwrap_or_default();
                    return judge(run, http, &answer, run.started_at.saturating_add(passed).unwrap_or(run.started_at));
                }
            }
        }
    }
}

#[async_trait]
impl Executor for HttpExecutor {
    async fn run(&self, run: RunContext) -> FinishedRun {
        let Target::Http(http) = &run.job.spec.target else {
            return run.failed(ErrorCode::Internal, "a job of another kind was handed to the HTTP executor");
        };
        let limit = http.timeout.map_or(Duration::MAX, whole);
        tokio::select! {
            biased;
            // Who is told to stop drops the call, and the connection with it.
            reason = run.stop.requested() => stopped(run.job.id, reason),
            end = timeout(limit, self.call(&run, http)) => {
                end.unwrap_or_else(|_| run.failed(ErrorCode::Timeout, "the call took longer than its timeout"))
            }
        }
    }
}

fn whole(time: SignedDuration) -> Duration {
    Duration::try_from(time).unwrap_or(Duration::MAX)
}

fn failed(run: &RunContext, failure: &Failure) -> FinishedRun {
    let output = failure.answer.as_ref().and_then(|answer| answer.output());
    FinishedRun { output, ..run.failed(failure.code, failure.words.clone()) }
}

fn judge(run: &RunContext, http: &Http, answer: &Answer, now: Timestamp) -> FinishedRun {
    let (status, output) = (answer.status, answer.output());
    if http.accept.contains(status) {
        return run.completed(output);
    }
    let redirect = answer.location().map_or("", |_| ", a redirect that is not followed");
    let end = run.failed(ErrorCode::TargetError, format!("the answer is {status}{redirect}"));
    let again = match answer.retry_after(now) {
        _ if !http.retry_on.contains(status) => Again::Never,
        Some(wait) => Again::After(wait),
        None => Again::ByPolicy,
    };
    FinishedRun { output, again, ..end }
}
