//! Channels: where people are told, with every secret as a reference.

use crate::invalid::Invalid;
use crate::name::{self, Name};
use crate::secret::{SecretRef, Value};
use crate::words::words;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most secrets that sign one webhook: the present one, and those that it takes the place of.
pub const SECRETS_MAX: usize = 4;

/// The most addresses of one e-mail channel.
pub const RECIPIENTS_MAX: usize = 50;

/// The most headers of one webhook.
const HEADERS_MAX: usize = 20;

words! {
    /// What a channel is.
    pub enum ChannelKind as "kind of channel" {
        /// A signed POST of a CloudEvents document.
        Webhook = "webhook",
        /// An e-mail.
        Email = "email",
        /// A message to an incoming webhook as Slack has it, and Mattermost, Rocket.Chat and Discord (`/slack`) as well.
        Slack = "slack",
        /// A plain call that says that all is well: somebody else raises the alarm when it stays away.
        Ping = "ping",
    }
}

words! {
    /// How a mail server's connection is secured.
    pub enum MailTls as "kind of TLS" {
        /// TLS from the first byte (usually port 465).
        Implicit = "implicit",
        /// TLS after STARTTLS (usually port 587); refused if the server does not offer it.
        Starttls = "starttls",
        /// None: for a relay on the same machine.
        None = "none",
    }
}

impl MailTls {
    /// The port that is usual.
    pub fn usual_port(self) -> u16 {
        match self {
            Self::Implicit => 465,
            Self::Starttls => 587,
            Self::None => 25,
        }
    }
}

/// Where a channel leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ChannelTarget {
    /// A signed POST.
    Webhook {
        /// Where to; a reference when the address is itself a secret.
        url: Value,
        /// What it is signed with: the first is the present secret, the others are on their way out. Each is 24 to 64
        /// bytes in base64, with or without `whsec_` in front.
        secrets: Vec<SecretRef>,
        /// Headers beside those of the signature.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, Value>,
    },
    /// An e-mail.
    Email {
        /// The mail server.
        host: String,
        /// Its port; the usual one of its kind of TLS when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// How the connection is secured.
        #[serde(default = "starttls")]
        tls: MailTls,
        /// Who logs in; nobody when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        username: Option<Value>,
        /// With which password.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<SecretRef>,
        /// The sender: `a@b.example` or `Name <a@b.example>`.
        from: String,
        /// Who gets it.
        to: Vec<String>,
    },
    /// An incoming webhook of a chat.
    Slack {
        /// Where to; such an address is itself a secret, so that it is best given by reference.
        url: Value,
    },
    /// A plain GET.
    Ping {
        /// Where to.
        url: Value,
    },
}

fn starttls() -> MailTls {
    MailTls::Starttls
}

impl ChannelTarget {
    /// What it is.
    pub fn kind(&self) -> ChannelKind {
        match self {
            Self::Webhook { .. } => ChannelKind::Webhook,
            Self::Email { .. } => ChannelKind::Email,
            Self::Slack { .. } => ChannelKind::Slack,
            Self::Ping { .. } => ChannelKind::Ping,
        }
    }

    /// Refuses what could never work.
    pub fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Webhook { url, secrets, headers } => {
                check_url(url)?;
                check_secrets(secrets)?;
                check_headers(headers)
            }
            Self::Slack { url } | Self::Ping { url } => check_url(url),
            Self::Email { host, port, tls, username, password, from, to } => {
                check_host(host)?;
                if *port == Some(0) {
                    return Err(Invalid::new("port", "is 0").remedy("leave it out for the usual one"));
                }
                check_login(*tls, username.as_ref(), password.as_ref())?;
                check_mailbox("from", from)?;
                check_recipients(to)
            }
        }
    }
}

fn check_url(url: &Value) -> Result<(), Invalid> {
    url.validate("url")?;
    match url {
        Value::Plain(text) if !(text.starts_with("https://") || text.starts_with("http://")) => {
            Err(Invalid::new("url", "is no http address").remedy("write https://…, or {\"secret\": \"env:NAME\"}"))
        }
        Value::Plain(text) if text.contains(char::is_whitespace) => {
            Err(Invalid::new("url", "holds white space").remedy("remove it"))
        }
        _ => Ok(()),
    }
}

fn check_secrets(secrets: &[SecretRef]) -> Result<(), Invalid> {
    if secrets.is_empty() || secrets.len() > SECRETS_MAX {
        return Err(Invalid::new("secrets", format!("are not 1 to {SECRETS_MAX}"))
            .remedy("name the secret that signs, such as {\"secret\": \"env:HOOK_SECRET\"}"));
    }
    for secret in secrets {
        secret.source().map_err(|error| Invalid { field: "secrets".to_owned(), ..error })?;
    }
    Ok(())
}

fn check_headers(headers: &BTreeMap<String, Value>) -> Result<(), Invalid> {
    if headers.len() > HEADERS_MAX {
        return Err(Invalid::new("headers", format!("are more than {HEADERS_MAX}")).remedy("use fewer"));
    }
    for (name, value) in headers {
        let field = format!("headers.{}", name.chars().take(64).collect::<String>());
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(Invalid::new(field, "is no header name").remedy("use letters, digits and dashes"));
        }
        let ours = ["webhook-", "content-", "host", "connection", "transfer-encoding"];
        if ours.iter().any(|ours| name.to_ascii_lowercase().starts_with(ours)) {
            return Err(Invalid::new(field, "is set by Punctual itself").remedy("leave it out"));
        }
        value.validate(&field)?;
    }
    Ok(())
}

fn check_host(host: &str) -> Result<(), Invalid> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if host.is_empty() || host.len() > 255 || !host.bytes().all(fine) {
        return Err(Invalid::new("host", "is no name of a mail server").remedy("write smtp.example.com"));
    }
    Ok(())
}

fn check_login(tls: MailTls, username: Option<&Value>, password: Option<&SecretRef>) -> Result<(), Invalid> {
    username.map_or(Ok(()), |name| name.validate("username"))?;
    if let Some(password) = password {
        password.source().map_err(|error| Invalid { field: "password".to_owned(), ..error })?;
    }
    if username.is_some() != password.is_some() {
        return Err(Invalid::new("password", "and username go together").remedy("give both, or neither"));
    }
    if password.is_some() && tls == MailTls::None {
        return Err(Invalid::new("tls", "is none, and a password would go over the wire as it is")
            .remedy("use starttls or implicit"));
    }
    Ok(())
}

/// A line break in a mailbox would begin another header.
fn check_mailbox(field: &str, text: &str) -> Result<(), Invalid> {
    let refused = || Invalid::new(field, "is no e-mail address").remedy("write a@b.example or Name <a@b.example>");
    if text.len() > 500 || text.chars().any(char::is_control) {
        return Err(refused());
    }
    let address = match text.rsplit_once('<') {
        Some((_, rest)) => rest.strip_suffix('>').ok_or_else(refused)?,
        None => text,
    };
    let (user, host) = address.rsplit_once('@').ok_or_else(refused)?;
    let plain = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace) && !part.contains(['<', '>', ',']);
    if plain(user) && plain(host) { Ok(()) } else { Err(refused()) }
}

fn check_recipients(to: &[String]) -> Result<(), Invalid> {
    if to.is_empty() || to.len() > RECIPIENTS_MAX {
        return Err(Invalid::new("to", format!("has not 1 to {RECIPIENTS_MAX} addresses"))
            .remedy("name who gets it; use a mailing list for many"));
    }
    to.iter().try_for_each(|mailbox| check_mailbox("to", mailbox))
}

/// What a user says about a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelDefinition {
    /// What rules call it.
    pub name: Name,
    /// For people.
    pub description: String,
    /// Whether anything is sent; what comes meanwhile waits.
    pub enabled: bool,
    /// Where it leads.
    pub target: ChannelTarget,
}

impl ChannelDefinition {
    /// A channel that is on.
    pub fn new(name: Name, target: ChannelTarget) -> Self {
        Self { name, description: String::new(), enabled: true, target }
    }

    /// Refuses what could never work.
    pub fn validate(&self) -> Result<(), Invalid> {
        name::check_text("description", &self.description)?;
        self.target.validate()
    }
}

/// A channel as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// What the user says.
    pub definition: ChannelDefinition,
    /// Rises with every edit.
    pub version: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last edited.
    pub updated_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<ChannelTarget, String> {
        let target: ChannelTarget = serde_json::from_str(text).map_err(|error| error.to_string())?;
        target.validate().map_err(|refused| refused.to_string())?;
        Ok(target)
    }

    #[test]
    fn n01_every_kind_of_channel_can_be_written_down_and_read_back() {
        for (kind, text) in [
            ("webhook", r#"{"kind":"webhook","url":"https://a.example/","secrets":[{"secret":"env:HOOK"}]}"#),
            ("email", r#"{"kind":"email","host":"mail.example","from":"P <p@a.example>","to":["o@a.example"]}"#),
            ("slack", r#"{"kind":"slack","url":{"secret":"env:SLACK_URL"}}"#),
            ("ping", r#"{"kind":"ping","url":"http://hc.example/1"}"#),
        ] {
            let target = parsed(text).expect(kind);
            assert_eq!(target.kind().as_str(), kind);
            let written = serde_json::to_string(&target).expect("it can be written");
            assert_eq!(parsed(&written), Ok(target));
        }
    }

    #[test]
    fn n01_what_could_never_work_is_refused_with_a_remedy() {
        for (text, part) in [
            (r#"{"kind":"webhook","url":"ftp://a","secrets":[{"secret":"env:A"}]}"#, "url"),
            (r#"{"kind":"webhook","url":"https://a","secrets":[]}"#, "secrets"),
            (r#"{"kind":"webhook","url":"https://a","secrets":[{"secret":"hunter2"}]}"#, "secrets"),
            (
                r#"{"kind":"webhook","url":"https://a","secrets":[{"secret":"env:A"}],"headers":{"webhook-id":"x"}}"#,
                "itself",
            ),
            (r#"{"kind":"webhook","url":"https://a","secrets":[{"secret":"env:A"}],"headers":{"a\nb":"x"}}"#, "header"),
            (r#"{"kind":"email","host":"m","from":"p@a\nBcc: x@y","to":["o@a"]}"#, "from"),
            (r#"{"kind":"email","host":"m","from":"p@a","to":[]}"#, "to"),
            (
                r#"{"kind":"email","host":"m","tls":"none","username":"u","password":{"secret":"env:P"},"from":"p@a","to":["o@a"]}"#,
                "tls",
            ),
            (r#"{"kind":"email","host":"m","username":"u","from":"p@a","to":["o@a"]}"#, "both"),
            (r#"{"kind":"slack","url":"https://a","more":1}"#, "unknown field"),
            (r#"{"kind":"pager","url":"https://a"}"#, "unknown variant"),
        ] {
            let refused = parsed(text).expect_err(text);
            assert!(refused.contains(part), "{text}: {refused}");
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }
}
