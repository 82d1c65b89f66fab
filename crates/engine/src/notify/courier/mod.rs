//! What brings messages to channels: signed webhooks, chats, pings and e-mail, within the node's rules for calls.

#[cfg(feature = "email")]
mod email;
mod ping;
mod signature;
mod slack;
mod webhook;

use crate::secrets::{RunSecrets, SecretRules};
use crate::targets::http::{Answer, Caller, Failure, HttpOptions, Limits, Request};
use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::id::DeliveryId;
use punctual_core::invalid::Invalid;
use punctual_core::notify::channel::{Channel, ChannelTarget};
use punctual_core::notify::message::{Courier, Message, Sent};
use punctual_core::notify::wording::one_line;
use punctual_core::secret::{Secrets, Value};
use punctual_core::store::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long making a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an attempt may take altogether.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);

/// Of an answer only its status matters; the beginning of its text is shown to people.
const LIMITS: Limits = Limits { kept_bytes: 1024, read_bytes: 1 << 20 };

/// The most of an answer's text that is shown.
const SHOWN_CHARS: usize = 200;

/// Answers by which a receiver says that it has read the message and will never take it.
const NEVER: [u16; 8] = [400, 405, 410, 411, 413, 414, 415, 422];

/// How a node sends messages.
pub struct PostOptions {
    /// Where to they may go: the same rules as for the calls of jobs.
    pub http: HttpOptions,
    /// Which secrets channels may use.
    pub secrets: Arc<SecretRules>,
    /// The time that signatures carry, which receivers compare with their own.
    pub clock: Arc<dyn Clock>,
    /// Where people reach the server, for links.
    pub public_url: Option<String>,
    /// How long an attempt may take altogether.
    pub attempt_timeout: Duration,
}

impl PostOptions {
    /// Public addresses only, the node's own clock, no links.
    pub fn new(secrets: Arc<SecretRules>) -> Self {
        Self {
            http: HttpOptions::default(),
            secrets,
            clock: Arc::new(crate::clock::WallClock),
            public_url: None,
            attempt_timeout: ATTEMPT_TIMEOUT,
        }
    }
}

/// Sends messages by HTTP and SMTP.
pub struct PostOffice {
    caller: Caller,
    #[cfg(feature = "email")]
    mail: email::MailDesk,
    secrets: Arc<SecretRules>,
    clock: Arc<dyn Clock>,
    public_url: Option<String>,
    attempt_timeout: Duration,
}

impl PostOffice {
    /// Reads the system's authorities once.
    pub fn new(options: PostOptions) -> Result<Self, rustls::Error> {
        let http = HttpOptions { limits: LIMITS, ..options.http };
        Ok(Self {
            #[cfg(feature = "email")]
            mail: email::MailDesk::new(http.clone()),
            caller: Caller::new(http)?,
            secrets: options.secrets,
            clock: options.clock,
            public_url: options.public_url,
            attempt_timeout: options.attempt_timeout,
        })
    }

    /// One attempt; the error is why it was not even begun.
    async fn attempt(
        &self, id: DeliveryId, target: &ChannelTarget, message: &Message, secrets: &RunSecrets,
    ) -> Result<Sent, String> {
        let wording = message.wording(self.public_url.as_deref());
        let request = match target {
            ChannelTarget::Webhook { url, secrets: keys, headers } => {
                let body = webhook::body(id, message, &wording, self.public_url.as_deref());
                let keys = keys.iter().map(|key| reveal(secrets, "secrets", &Value::Secret(key.clone())));
                let signer = signature::Signer::new(&keys.collect::<Result<Vec<_>, _>>()?)?;
                let mut request = webhook::request(&address(secrets, url)?, body)?;
                signer.sign(&mut request, id, self.clock.now())?;
                for (name, value) in headers {
                    webhook::add_header(&mut request, name, &reveal(secrets, name, value)?)?;
                }
                request
            }
            ChannelTarget::Slack { url } => slack::request(&address(secrets, url)?, &wording)?,
            ChannelTarget::Ping { url } => ping::request(&address(secrets, url)?)?,
            #[cfg(feature = "email")]
            ChannelTarget::Email { .. } => return self.mail.send(id, target, message, &wording, secrets).await,
            #[cfg(not(feature = "email"))]
            ChannelTarget::Email { .. } => {
                return Err("this node was built without e-mail; use one with the feature `email`".to_owned());
            }
        };
        Ok(self.call(&request).await)
    }

    /// The head of an answer says it all: what becomes of its body does not matter.
    async fn call(&self, request: &Request) -> Sent {
        match self.caller.send(request, CONNECT_TIMEOUT).await {
            Ok(answer) => judge(&answer, self.clock.now()),
            Err(Failure { answer: Some(answer), .. }) => judge(&answer, self.clock.now()),
            Err(failure) => Sent::failed(failure.words),
        }
    }
}

#[async_trait]
impl Courier for PostOffice {
    async fn send(&self, id: DeliveryId, channel: &Channel, message: &Message) -> Sent {
        let secrets = RunSecrets::new(Arc::clone(&self.secrets));
        let attempt = self.attempt(id, &channel.definition.target, message, &secrets);
        let sent = match timeout(self.attempt_timeout, attempt).await {
            Ok(Ok(sent)) => sent,
            Ok(Err(problem)) => Sent::failed(problem),
            Err(_) => Sent::failed(format!("there was no answer within {:?}", self.attempt_timeout)),
        };
        discreet(sent, &secrets)
    }
}

/// Reads an address, which is kept from view however it was given: those of chats are secrets themselves.
fn address(secrets: &RunSecrets, url: &Value) -> Result<String, String> {
    let url = reveal(secrets, "url", url)?;
    secrets.hide(&url);
    Ok(url)
}

/// Reads a value when it is needed.
fn reveal(secrets: &RunSecrets, field: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::Plain(text) => Ok(text.clone()),
        Value::Secret(reference) => {
            let named = |refused: Invalid| Invalid { field: format!("{field}: {}", reference.secret), ..refused };
            let secret = secrets.reveal(reference).map_err(|refused| named(refused).to_string())?;
            Ok(secret.expose().to_owned())
        }
    }
}

/// What an answer means for the message.
fn judge(answer: &Answer, now: Timestamp) -> Sent {
    let status = answer.status;
    let text = one_line(&answer.text(), SHOWN_CHARS);
    let said = if text.is_empty() { status.to_string() } else { format!("{status}: {text}") };
    match status {
        200..300 => Sent::Arrived { answer: said },
        _ if NEVER.contains(&status) => Sent::Refused { error: format!("the answer is {said}") },
        _ if answer.location().is_some() => Sent::failed(format!(
            "the answer is {status}, a redirect, which is not followed; name the place it leads to"
        )),
        _ => Sent::Failed { error: format!("the answer is {said}"), retry_after: answer.retry_after(now) },
    }
}

/// How it ended, without the secrets that it took.
fn discreet(sent: Sent, secrets: &RunSecrets) -> Sent {
    match sent {
        Sent::Arrived { answer } => Sent::Arrived { answer: secrets.redact_text(&answer) },
        Sent::Failed { error, retry_after } => Sent::Failed { error: secrets.redact_text(&error), retry_after },
        Sent::Refused { error } => Sent::Refused { error: secrets.redact_text(&error) },
    }
}
