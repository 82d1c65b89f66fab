//! E-mail: a letter handed to a mail server that the guard has passed, one command after the other.

mod html;
mod letter;

use super::{CONNECT_TIMEOUT, reveal};
use crate::secrets::RunSecrets;
use crate::targets::http::{Destination, HttpOptions, Passage, causes};
use letter::Letter;
use lettre::Address;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use lettre::transport::smtp::response::Response;
use lettre::transport::smtp::{Error, response};
use punctual_core::id::DeliveryId;
use punctual_core::notify::channel::{ChannelTarget, MailTls};
use punctual_core::notify::message::{Message, Sent};
use punctual_core::notify::wording::{Wording, one_line};
use punctual_core::secret::Value;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;

/// Ports of mail servers, which may be called beside those of the web.
const MAIL_PORTS: [u16; 4] = [25, 465, 587, 2525];

/// How a login may be told; both only ever go through TLS.
const MECHANISMS: [Mechanism; 2] = [Mechanism::Plain, Mechanism::Login];

/// Answers to a recipient or a letter that another attempt does not change.
const NEVER: std::ops::RangeInclusive<u16> = 550..=554;

/// Hands letters to mail servers.
pub(super) struct MailDesk {
    passage: Passage,
    authorities: Vec<CertificateDer<'static>>,
}

impl MailDesk {
    pub(super) fn new(http: HttpOptions) -> Self {
        let HttpOptions { guard, names, authorities, .. } = http;
        Self { passage: Passage::new(guard.with_more_ports(MAIL_PORTS), names), authorities }
    }

    /// Sends a letter to all who get it. One of them who is refused does not keep it from the others.
    pub(super) async fn send(
        &self, id: DeliveryId, target: &ChannelTarget, message: &Message, wording: &Wording, secrets: &RunSecrets,
    ) -> Result<Sent, String> {
        let ChannelTarget::Email { host, port, tls, username, password, from, to } = target else {
            return Err("a channel of another kind was handed to the mail desk".to_owned());
        };
        let letter = Letter::new(id, message, wording, from, to)?;
        let login = match (username, password) {
            (Some(name), Some(password)) => Some(Credentials::new(
                reveal(secrets, "username", name)?,
                reveal(secrets, "password", &Value::Secret(password.clone()))?,
            )),
            _ => None,
        };
        let port = port.unwrap_or(tls.usual_port());
        let mut connection = match self.connect(host, port, *tls, login.as_ref()).await {
            Ok(connection) => connection,
            Err(problem) => return Ok(Sent::failed(problem)),
        };
        let sent = hand_over(&mut connection, &letter).await;
        // Whatever becomes of the farewell: the server has said what it had to say.
        connection.abort().await;
        Ok(sent)
    }

    /// A connection to an address that the guard has passed, secured and logged in as the channel says.
    async fn connect(
        &self, host: &str, port: u16, tls: MailTls, login: Option<&Credentials>,
    ) -> Result<AsyncSmtpConnection, String> {
        let passed = self.passage.passed(&Destination::new(host, port), CONNECT_TIMEOUT).await;
        let passed = passed.map_err(|failure| failure.words)?;
        let addresses: Vec<SocketAddr> = passed.into_iter().map(|address| SocketAddr::new(address, port)).collect();
        let hello = ClientId::default();
        let implicit = match tls {
            MailTls::Implicit => Some(self.tls(host)?),
            MailTls::Starttls | MailTls::None => None,
        };
        let connected =
            AsyncSmtpConnection::connect_tokio1(&addresses[..], Some(CONNECT_TIMEOUT), &hello, implicit, None);
        let mut connection =
            connected.await.map_err(|error| format!("the mail server cannot be reached: {}", causes(&error)))?;
        if tls == MailTls::Starttls {
            if !connection.can_starttls() {
                connection.abort().await;
                return Err("the mail server does not offer STARTTLS; use implicit TLS if it has that".to_owned());
            }
            let secured = connection.starttls(self.tls(host)?, &hello).await;
            secured.map_err(|error| format!("the connection cannot be secured: {}", causes(&error)))?;
        }
        if let Some(login) = login {
            let welcome = connection.auth(&MECHANISMS, login).await;
            welcome.map_err(|error| format!("the mail server refuses the login: {}", causes(&error)))?;
        }
        Ok(connection)
    }

    /// The system's authorities, and the node's own.
    fn tls(&self, host: &str) -> Result<TlsParameters, String> {
        let cannot = |error: Error| format!("TLS cannot be set up: {}", causes(&error));
        let bare = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
        let mut builder = TlsParameters::builder(bare.to_owned());
        for authority in &self.authorities {
            builder = builder.add_root_certificate(Certificate::from_der(authority.to_vec()).map_err(cannot)?);
        }
        builder.build_rustls().map_err(cannot)
    }
}

/// Sender, recipients, letter. It has arrived when the server has taken it for at least one of them.
async fn hand_over(connection: &mut AsyncSmtpConnection, letter: &Letter) -> Sent {
    let parameters = match (letter.needs_utf8(), connection.server_info().supports_feature(Extension::SmtpUtfEight)) {
        (true, false) => {
            return Sent::failed("an address has letters that the mail server does not take; use one in plain letters");
        }
        (true, true) => vec![MailParameter::SmtpUtfEight],
        (false, _) => Vec::new(),
    };
    if let Err(error) = connection.command(Mail::new(Some(letter.from.clone()), parameters)).await {
        return Sent::failed(format!("the mail server does not take the sender: {}", causes(&error)));
    }
    let mut refused = Vec::new();
    for recipient in &letter.to {
        if let Err(error) = connection.command(Rcpt::new(recipient.clone(), Vec::new())).await {
            refused.push(Refusal { recipient, never: is_never(&error), words: causes(&error) });
            if error.status().is_none() {
                // The connection is gone, and with it everybody else.
                return nobody(&refused);
            }
        }
    }
    if refused.len() == letter.to.len() {
        return nobody(&refused);
    }
    let taken = match connection.command(Data).await {
        Ok(_) => connection.message(&letter.bytes).await,
        Err(error) => Err(error),
    };
    match taken {
        Ok(response) => Sent::Arrived { answer: answer(&response, &refused) },
        Err(error) if is_never(&error) => Sent::Refused { error: not_taken(&error) },
        Err(error) => Sent::failed(not_taken(&error)),
    }
}

/// Why somebody does not get it.
struct Refusal<'a> {
    recipient: &'a Address,
    never: bool,
    words: String,
}

fn told(refused: &[Refusal<'_>]) -> String {
    refused.iter().map(|refusal| format!("{}: {}", refusal.recipient, refusal.words)).collect::<Vec<_>>().join("; ")
}

fn nobody(refused: &[Refusal<'_>]) -> Sent {
    let error = one_line(&format!("the mail server takes it for nobody: {}", told(refused)), 500);
    if refused.iter().all(|refusal| refusal.never) { Sent::Refused { error } } else { Sent::failed(error) }
}

fn answer(response: &Response, refused: &[Refusal<'_>]) -> String {
    let said = one_line(&format!("{} {}", response.code(), response.first_line().unwrap_or_default()), 200);
    if refused.is_empty() { said } else { one_line(&format!("{said}; not for {}", told(refused)), 500) }
}

fn not_taken(error: &Error) -> String {
    one_line(&format!("the mail server does not take the letter: {}", causes(error)), 500)
}

fn is_never(error: &Error) -> bool {
    error.status().is_some_and(|code| NEVER.contains(&number(code)))
}

fn number(code: response::Code) -> u16 {
    code.to_string().parse().unwrap_or(0)
}
