//! Hands spans to an OpenTelemetry receiver: OTLP over HTTP, in JSON, in batches, and never in the way of work.
//!
//! A span that has ended goes into a line of bounded length; who puts it there never waits. A task of its own takes what
//! is there, sends it together, and tries again when the receiver is out of reach. What does not fit into the line, or
//! is not taken in time, is dropped, counted, and said once.

mod encode;
mod settings;

pub use settings::OtlpSettings;

use punctual_core::invalid::Invalid;
use punctual_core::meter::Meter;
use punctual_core::trace::{Span, Tracer};
use punctual_engine::targets::http::{causes, trusted_tls};
use reqwest::Client;
use reqwest::redirect::Policy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// The most spans that wait.
const LINE: usize = 4096;

/// The most that go out together.
const BATCH: usize = 512;

/// How long a span waits for others.
const GATHER: Duration = Duration::from_millis(500);

/// How long the receiver may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a batch waits before it is tried again; after the last time it is dropped.
const AGAIN_AFTER: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(8)];

/// How long the last spans may take when the program ends.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Takes spans for a receiver.
#[derive(Debug)]
pub struct Otlp {
    line: mpsc::Sender<Span>,
    meter: Arc<dyn Meter>,
    told: AtomicBool,
}

/// What sends them.
#[derive(Debug)]
pub struct Sending {
    task: JoinHandle<()>,
    stop: tokio::sync::watch::Sender<bool>,
}

impl Otlp {
    /// Begins to send what it is given. Refused: addresses and headers that cannot be used.
    pub fn start(settings: OtlpSettings, meter: Arc<dyn Meter>) -> Result<(Arc<Self>, Sending), Invalid> {
        let refused = |error: String| Invalid::new("OTEL_EXPORTER_OTLP_ENDPOINT", error).remedy("check the address");
        let tls = trusted_tls(Vec::new()).map_err(|error| refused(error.to_string()))?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(Policy::none())
            .no_proxy()
            .http1_only()
            .timeout(PATIENCE)
            .build()
            .map_err(|error| refused(error.to_string()))?;
        let (line, spans) = mpsc::channel(LINE);
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let sender = Sender { client, settings, meter: Arc::clone(&meter), told: false };
        let task = tokio::spawn(sender.run(spans, stopped));
        Ok((Arc::new(Self { line, meter, told: AtomicBool::new(false) }), Sending { task, stop }))
    }
}

impl Tracer for Otlp {
    fn is_on(&self) -> bool {
        true
    }

    fn ended(&self, span: Span) {
        if !span.context.sampled || self.line.try_send(span).is_ok() {
            return;
        }
        self.meter.spans_dropped(1);
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!("spans come faster than the receiver of traces takes them; some are dropped, and counted");
        }
    }
}

impl Sending {
    /// Sends what is left, if that does not take long.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if timeout(LAST_WORDS, self.task).await.is_err() {
            tracing::warn!("the receiver of traces did not take the last spans");
        }
    }
}

/// The task that sends.
struct Sender {
    client: Client,
    settings: OtlpSettings,
    meter: Arc<dyn Meter>,
    /// Whether trouble was said.
    told: bool,
}

impl Sender {
    async fn run(mut self, mut spans: mpsc::Receiver<Span>, mut stopped: tokio::sync::watch::Receiver<bool>) {
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                taken = spans.recv_many(&mut batch, BATCH) => if taken == 0 {
                    return;
                },
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
            if batch.len() < BATCH && !*stopped.borrow() {
                // Others end soon after; but nobody who looks for his trace should wait long.
                tokio::select! {
                    () = sleep(GATHER) => {}
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                }
            }
            while batch.len() < BATCH
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            self.send(&batch).await;
        }
    }

    async fn send(&mut self, batch: &[Span]) {
        let spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let body = encode::request(&self.settings, batch);
        let mut pauses = AGAIN_AFTER.iter();
        let trouble = loop {
            match self.post(&body).await {
                Ok(()) => {
                    self.told = false;
                    return self.meter.spans_exported(spans);
                }
                Err(Trouble { may_pass: true, words }) => match pauses.next() {
                    Some(pause) => sleep(*pause).await,
                    None => break words,
                },
                Err(trouble) => break trouble.words,
            }
        };
        self.meter.spans_dropped(spans);
        // Once, until it is over: the figures tell how many.
        if !self.told {
            self.told = true;
            tracing::warn!("the receiver of traces does not take spans, which are dropped and counted: {trouble}");
        }
    }

    async fn post(&self, body: &str) -> Result<(), Trouble> {
        let request = self.client.post(self.settings.url()).headers(self.settings.headers());
        let request = request.header(reqwest::header::CONTENT_TYPE, "application/json").body(body.to_owned());
        let answer = request.send().await.map_err(|error| Trouble { may_pass: true, words: causes(&error) })?;
        let status = answer.status();
        // What the receiver says of spans that it refuses is for its own log.
        if status.is_success() {
            return Ok(());
        }
        let may_pass = matches!(status.as_u16(), 429 | 502 | 503 | 504);
        Err(Trouble { may_pass, words: format!("it answers with {status}") })
    }
}

/// Why a batch was not taken.
struct Trouble {
    may_pass: bool,
    words: String,
}
