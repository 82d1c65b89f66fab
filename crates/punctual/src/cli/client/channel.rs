//! `punctual channel`: where people are told, and whether that works.

use std::time::Duration;

use axum::http::Method;
use clap::{Args, Subcommand};
use jiff::SignedDuration;
use punctual_core::duration::parse_duration;
use serde_json::{Map, Value, json};

use super::api::{Answer, Api, escaped};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::Body;
use crate::cli::calls::pair;
use crate::cli::{Exit, Output, Stop};

/// How often a test message is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Make, try, look at and change channels: where people are told
#[derive(Subcommand)]
pub(crate) enum ChannelCommand {
    /// Make a channel
    #[command(after_help = "Examples:\n  \
        punctual channel add ops --slack env:SLACK_URL\n  \
        punctual channel add pager --webhook https://example.com/hook --secret env:HOOK_SECRET\n  \
        punctual channel add mail --email ops@example.com --smtp smtp.example.com --from punctual@example.com \
        --username punctual --password env:SMTP_PASSWORD\n  \
        punctual channel add deadman --ping https://example.com/ping/1")]
    Add(AddArgs),
    /// List channels
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Show one channel
    Show(OneArgs),
    /// Change a channel: what is given replaces what was
    Edit(EditArgs),
    /// Delete a channel that no rule names; what waits in its line is dropped
    #[command(visible_alias = "delete")]
    Rm(OneArgs),
    /// Send a test message, and say what came back
    Test(TestArgs),
}

#[derive(Args)]
#[command(next_help_heading = "Where it leads")]
pub(crate) struct LeadArgs {
    /// An incoming webhook of a chat (Slack, Mattermost, Rocket.Chat, Discord): an address, or env:NAME or <file:/PATH>
    #[arg(long, value_name = "URL", group = "lead")]
    slack: Option<String>,
    /// A signed POST to this address, or to the one in env:NAME or <file:/PATH>
    #[arg(long, value_name = "URL", group = "lead")]
    webhook: Option<String>,
    /// What webhooks are signed with, as env:NAME or <file:/PATH>; the present secret first, then those it replaces
    #[arg(long = "secret", value_name = "REFERENCE")]
    secrets: Vec<String>,
    /// A header of the webhook: NAME=VALUE, or NAME=env:NAME; may be given more than once
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
    /// An address that gets e-mail; may be given more than once
    #[arg(long = "email", value_name = "ADDRESS", group = "lead")]
    to: Vec<String>,
    /// The mail server
    #[arg(long, value_name = "HOST[:PORT]")]
    smtp: Option<String>,
    /// How its connection is secured: starttls, implicit or none
    #[arg(long, value_name = "KIND")]
    tls: Option<String>,
    /// Who logs in to the mail server, or env:NAME
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// With which password, as env:NAME or <file:/PATH>
    #[arg(long, value_name = "REFERENCE")]
    password: Option<String>,
    /// The sender of e-mail
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// A plain GET, for a dead-man's switch
    #[arg(long, value_name = "URL", group = "lead")]
    ping: Option<String>,
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// What rules call it
    name: String,
    #[command(flatten)]
    lead: LeadArgs,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Send nothing yet; what comes meanwhile waits
    #[arg(long)]
    disabled: bool,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct EditArgs {
    /// Its name
    channel: String,
    #[command(flatten)]
    lead: LeadArgs,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Send again, beginning with what has waited
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// Send nothing; what comes meanwhile waits
    #[arg(long)]
    disable: bool,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// Its name
    channel: String,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct TestArgs {
    /// Its name
    channel: String,
    /// Do not wait for what comes back
    #[arg(long)]
    no_wait: bool,
    /// How long to wait for it
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    timeout: SignedDuration,
    #[command(flatten)]
    show: ShowArgs,
}

const CHANNELS: &[Column] = &[
    ("NAME", Cell::Text("/name")),
    ("KIND", Cell::Text("/kind")),
    ("LEADS TO", Cell::Words(leads_to)),
    ("ENABLED", Cell::Text("/enabled")),
    ("CHANGED", Cell::Time("/updated_at")),
];

fn leads_to(channel: &Value) -> String {
    let target = &channel["target"];
    match &target["to"] {
        Value::Array(to) => to.iter().map(show::plain).collect::<Vec<_>>().join(" "),
        _ => target["url"]["secret"].as_str().map_or_else(|| show::plain(&target["url"]), str::to_owned),
    }
}

/// A reference to a secret, or the text itself.
fn value(text: &str) -> Value {
    if text.starts_with("env:") || text.starts_with("file:") { json!({ "secret": text }) } else { json!(text) }
}

fn reference(text: &str) -> Value {
    json!({ "secret": text })
}

impl LeadArgs {
    /// Where it leads, put over where it led; `None` when nothing was said.
    fn over(&self, before: Option<&Value>) -> Result<Option<Value>, Stop> {
        let kind = match (&self.slack, &self.webhook, &self.to[..], &self.ping) {
            (Some(_), ..) => Some("slack"),
            (_, Some(_), ..) => Some("webhook"),
            (_, _, [_, ..], _) => Some("email"),
            (.., Some(_)) => Some("ping"),
            _ => None,
        };
        let before = before.and_then(Value::as_object).cloned().unwrap_or_default();
        let same = kind.is_none_or(|kind| before.get("kind") == Some(&json!(kind)));
        let mut target = if same { before.clone() } else { Map::new() };
        let mut put = |field: &str, value: Option<Value>| {
            value.map(|value| target.insert(field.to_owned(), value));
        };
        put("kind", kind.map(Value::from));
        let url = self.slack.as_ref().or(self.webhook.as_ref()).or(self.ping.as_ref());
        put("url", url.map(|url| value(url)));
        let secrets: Vec<Value> = self.secrets.iter().map(|secret| reference(secret)).collect();
        put("secrets", Some(json!(secrets)).filter(|_| !self.secrets.is_empty()));
        let headers: Map<String, Value> = self.headers.iter().map(|(name, text)| (name.clone(), value(text))).collect();
        put("headers", Some(json!(headers)).filter(|_| !self.headers.is_empty()));
        put("to", Some(json!(self.to)).filter(|_| !self.to.is_empty()));
        if let Some(server) = &self.smtp {
            let (host, port) = host_and_port(server)?;
            put("host", Some(json!(host)));
            put("port", port.map(Value::from));
        }
        put("tls", self.tls.as_ref().map(|tls| json!(tls)));
        put("username", self.username.as_ref().map(|name| value(name)));
        put("password", self.password.as_ref().map(|password| reference(password)));
        put("from", self.from.as_ref().map(|from| json!(from)));
        Ok(Some(Value::from(target.clone())).filter(|_| target != before))
    }
}

fn host_and_port(server: &str) -> Result<(&str, Option<u16>), Stop> {
    match server.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => Ok((host, Some(port))),
            Err(_) => Err(Stop::usage(format!("--smtp {server}: {port} is no port; write HOST or HOST:PORT"))),
        },
        _ => Ok((server, None)),
    }
}

fn path(channel: &str) -> String {
    format!("/channels/{}", escaped(channel))
}

impl AddArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let Some(target) = self.lead.over(None)?.filter(|target| target["kind"].is_string()) else {
            return Err(Stop::usage("say where it leads: --slack, --webhook, --email or --ping"));
        };
        let mut body = Body::default();
        body.put("name", Some(&self.name));
        body.put("description", self.description.as_ref());
        body.put("enabled", Some(!self.disabled));
        body.put("target", Some(target));
        let made = api.create("/channels", &body).await?;
        show::said(out, self.show, &made, &format!("{0}: created; try it with `punctual channel test {0}`", self.name))
    }
}

impl EditArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let was = api.get(&path(&self.channel)).await?.value();
        let mut body = Body::default();
        body.put("description", self.description.as_ref());
        body.put("enabled", (self.enable || self.disable).then_some(self.enable));
        body.put("target", self.lead.over(Some(&was["target"]))?);
        if body.is_empty() {
            return Err(Stop::usage("nothing to change; see `punctual channel edit --help` for what can be"));
        }
        let edited = api.change(Method::PATCH, &path(&self.channel), &body).await?;
        show::said(out, self.show, &edited, &format!("{}: changed", self.channel))
    }
}

impl TestArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let asked = api.act(Method::POST, &format!("{}/test", path(&self.channel))).await?;
        let id = show::plain(&asked.value()["id"]);
        if self.no_wait {
            let words = format!("{id}: in the line; look at it with `punctual delivery show {id}`");
            return show::said(out, self.show, &asked, &words);
        }
        let patience = Duration::try_from(self.timeout).unwrap_or(Duration::MAX);
        let Ok(ended) = tokio::time::timeout(patience, first_attempt(api, &id)).await else {
            return Err(Stop::Failed(Exit::Timeout, self.not_tried(&id)));
        };
        let ended = ended?;
        let delivery = ended.value();
        let answer =
            delivery["attempts"].as_array().and_then(|all| all.last()).map(|last| show::plain(&last["answer"]));
        let answer = answer.unwrap_or_default();
        if delivery["state"] == json!("arrived") {
            return show::said(out, self.show, &ended, &format!("{}: it arrived: {answer}", self.channel));
        }
        // Nobody waits for a test that did not arrive; it would only hold up what comes behind it.
        let dropped = api.act(Method::POST, &format!("/deliveries/{}/drop", escaped(&id))).await?;
        if !self.show.is_for_people() {
            show::json(out, &dropped)?;
        }
        Err(Stop::failure(format!("{}: it did not arrive: {answer}", self.channel)))
    }

    fn not_tried(&self, id: &str) -> String {
        format!(
            "{0}: nobody has tried to send it; see that a server or worker runs, and with `punctual \
             delivery ls --channel {0} --state waiting` whether something is before it (this one is {id})",
            self.channel
        )
    }
}

/// Looks until a delivery was tried once, or has ended.
async fn first_attempt(api: &Api, id: &str) -> Result<Answer, Stop> {
    let path = format!("/deliveries/{}", escaped(id));
    loop {
        let answer = api.get(&path).await?;
        let delivery = answer.value();
        if delivery["state"] != json!("waiting") || delivery["tries"] != json!(0) {
            return Ok(answer);
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl ChannelCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Add(args) => args.run(api, out).await,
            Self::Ls(list) => {
                let empty = "no channels; make one with `punctual channel add NAME --slack URL`";
                show::list(out, list, CHANNELS, empty, async || api.list("/channels", list.limit).await).await
            }
            Self::Show(args) => show::one(out, args.show, &api.get(&path(&args.channel)).await?),
            Self::Edit(args) => args.run(api, out).await,
            Self::Rm(args) => {
                let answer = api.act(Method::DELETE, &path(&args.channel)).await?;
                show::said(out, args.show, &answer, &format!("{}: deleted", args.channel))
            }
            Self::Test(args) => args.run(api, out).await,
        }
    }
}
