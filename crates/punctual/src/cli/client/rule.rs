//! `punctual rule`: of what people are told, whom, and when.

use std::path::PathBuf;

use axum::http::Method;
use clap::{Args, Subcommand};
use punctual_core::duration::parse_duration;
use serde_json::{Map, Value, json};

use super::api::{Api, escaped};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use crate::cli::{Output, Stop};

/// Make, look at and change rules: of what people are told, and whom
#[derive(Subcommand)]
pub(crate) enum RuleCommand {
    /// Make a rule; it holds for what happens from now on
    #[command(after_help = "Examples:\n  \
        punctual rule add failures --on failure --channel ops\n  \
        punctual rule add nightly --on failures_in_a_row --failures 3 --schedule nightly-backup --channel ops \
        --then oncall:15m --quiet 22:00-07:00 --tz Europe/Berlin\n  \
        punctual rule add slow-mail --on queue_too_old --after 5m --queue mail --channel ops\n  \
        punctual rule add deadman --on all_well --every 1m --channel deadman")]
    Add(AddArgs),
    /// List rules
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Show one rule
    Show(OneArgs),
    /// Change a rule: what is given replaces what was; its open alerts go on by what it says now
    Edit(EditArgs),
    /// Delete a rule, and its alerts with it
    #[command(visible_alias = "delete")]
    Rm(OneArgs),
}

#[derive(Args)]
pub(crate) struct SayArgs {
    /// What it is about: failure, `failures_in_a_row`, recovery, `late_start`, `missed_slots`, `long_run`, `no_executor`,
    /// `queue_too_old`, overdue, `node_lost`, `clock_jumped` or `all_well`
    #[arg(long, value_name = "TRIGGER")]
    on: Option<String>,
    /// How long it must last, for those that last
    #[arg(long, value_name = "TIME")]
    after: Option<String>,
    /// How many failures in a row
    #[arg(long, value_name = "N")]
    failures: Option<u32>,
    /// How often a dead-man's switch is told that all is well
    #[arg(long, value_name = "TIME")]
    every: Option<String>,
    /// Look at this schedule only
    #[arg(long, value_name = "NAME")]
    schedule: Option<String>,
    /// Look at schedules with this label only
    #[arg(long, value_name = "KEY[=VALUE]")]
    label: Option<String>,
    /// Look at this queue only
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Who is told first; may be given more than once
    #[arg(long = "channel", value_name = "NAME")]
    channels: Vec<String>,
    /// Who is told next when nobody acknowledges: after a time (15m), or when it has happened so often (5x); may be given
    /// more than once, in order
    #[arg(long = "then", value_name = "CHANNEL[,CHANNEL]:WHEN", value_parser = step)]
    then: Vec<Value>,
    /// How long more of the same is waited for before the first message [default: 10s]
    #[arg(long, value_name = "TIME")]
    wait: Option<String>,
    /// What makes one alert: the same cause, subject or rule [default: cause]
    #[arg(long, value_name = "WORD")]
    group_by: Option<String>,
    /// How often the last step is reminded while nobody has acknowledged
    #[arg(long, value_name = "TIME")]
    repeat_every: Option<String>,
    /// When nobody is told, such as 22:00-07:00; what falls into it is told when it is over
    #[arg(long, value_name = "FROM-UNTIL")]
    quiet: Option<String>,
    /// The time zone of the quiet hours [default: UTC]
    #[arg(long, visible_alias = "timezone", value_name = "ZONE", requires = "quiet")]
    tz: Option<String>,
    /// A day on which quiet hours begin [default: every day]; may be given more than once
    #[arg(long = "quiet-day", value_name = "NAME", requires = "quiet")]
    quiet_days: Vec<String>,
    /// Whether those who were told hear of the end [default: as is usual for the trigger]
    #[arg(long, value_name = "BOOL")]
    tell_recovery: Option<bool>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Read the rule from this file, as the API takes it; what is given beside it replaces what it says
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// What people call it
    name: String,
    #[command(flatten)]
    say: SayArgs,
    /// Do not look at it yet
    #[arg(long)]
    disabled: bool,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct EditArgs {
    /// Its name
    rule: String,
    #[command(flatten)]
    say: SayArgs,
    /// Look at it again
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// Do not look at it any more
    #[arg(long)]
    disable: bool,
    /// Look everywhere
    #[arg(long, conflicts_with_all = ["schedule", "label", "queue"])]
    everywhere: bool,
    /// Have no quiet hours
    #[arg(long, conflicts_with = "quiet")]
    no_quiet: bool,
    /// Remind nobody
    #[arg(long, conflicts_with = "repeat_every")]
    no_repeat: bool,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// Its name
    rule: String,
    #[command(flatten)]
    show: ShowArgs,
}

const RULES: &[Column] = &[
    ("NAME", Cell::Text("/name")),
    ("ON", Cell::Text("/on")),
    ("WHERE", Cell::Words(scope)),
    ("TELLS", Cell::Words(steps)),
    ("ENABLED", Cell::Text("/enabled")),
];

fn scope(rule: &Value) -> String {
    let words = ["schedule", "label", "queue"].into_iter().filter_map(|kind| {
        let name = rule["scope"][kind].as_str()?;
        Some(format!("{kind} {name}"))
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "everywhere".to_owned() } else { words.join(", ") }
}

fn steps(rule: &Value) -> String {
    let steps = rule["steps"].as_array().into_iter().flatten().map(|step| {
        let channels = step["channels"].as_array().into_iter().flatten().map(show::plain).collect::<Vec<_>>().join(" ");
        match (step["after"].as_str(), step["failures"].as_u64()) {
            (Some(after), _) => format!("{channels} (after {after})"),
            (None, Some(failures)) => format!("{channels} (after {failures}x)"),
            (None, None) => channels,
        }
    });
    steps.collect::<Vec<_>>().join(", ")
}

/// `oncall:15m`, `oncall,boss:1h` or `boss:5x`.
fn step(text: &str) -> Result<Value, String> {
    let refused = || "write CHANNEL:15m or CHANNEL:5x".to_owned();
    let (channels, when) = text.rsplit_once(':').ok_or_else(refused)?;
    let channels: Vec<&str> = channels.split(',').collect();
    if let Some(times) = when.strip_suffix('x') {
        let times: u32 = times.parse().map_err(|_| refused())?;
        return Ok(json!({ "channels": channels, "failures": times }));
    }
    parse_duration(when).map_err(|error| error.to_string())?;
    Ok(json!({ "channels": channels, "after": when }))
}

impl SayArgs {
    /// What was said, over what a file says.
    fn fields(&self) -> Result<Map<String, Value>, Stop> {
        let mut fields = self.file.as_ref().map(read).transpose()?.unwrap_or_default();
        let mut put = |field: &str, value: Option<Value>| {
            value.map(|value| fields.insert(field.to_owned(), value));
        };
        let texts = [
            ("on", &self.on),
            ("after", &self.after),
            ("every", &self.every),
            ("wait", &self.wait),
            ("group_by", &self.group_by),
            ("repeat_every", &self.repeat_every),
            ("description", &self.description),
        ];
        for (field, text) in texts {
            put(field, text.as_ref().map(|text| json!(text)));
        }
        put("failures", self.failures.map(Value::from));
        put("tell_recovery", self.tell_recovery.map(Value::from));
        put("scope", self.scope());
        put("steps", self.steps()?);
        put("quiet", self.quiet_hours()?);
        Ok(fields)
    }

    fn scope(&self) -> Option<Value> {
        let parts = [("schedule", &self.schedule), ("label", &self.label), ("queue", &self.queue)];
        let scope: Map<String, Value> =
            parts.into_iter().filter_map(|(kind, name)| Some((kind.to_owned(), json!(name.as_ref()?)))).collect();
        if scope.is_empty() { None } else { Some(Value::from(scope)) }
    }

    fn steps(&self) -> Result<Option<Value>, Stop> {
        match (self.channels.is_empty(), self.then.is_empty()) {
            (true, true) => Ok(None),
            (true, false) => Err(Stop::usage("--then says who is told next; say with --channel who is told first")),
            _ => {
                let first = json!({ "channels": self.channels });
                Ok(Some([&[first], &self.then[..]].concat().into()))
            }
        }
    }

    fn quiet_hours(&self) -> Result<Option<Value>, Stop> {
        let Some(text) = &self.quiet else { return Ok(None) };
        let (from, until) = text
            .split_once('-')
            .ok_or_else(|| Stop::usage(format!("--quiet {text}: write FROM-UNTIL, such as 22:00-07:00")))?;
        let mut quiet = json!({ "from": from, "until": until });
        if let Some(zone) = &self.tz {
            quiet["timezone"] = json!(zone);
        }
        if !self.quiet_days.is_empty() {
            quiet["days"] = json!(self.quiet_days);
        }
        Ok(Some(quiet))
    }
}

fn read(file: &PathBuf) -> Result<Map<String, Value>, Stop> {
    let refused = |why: String| Stop::usage(format!("--file {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| refused(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| refused(format!("is no JSON object: {error}")))
}

fn path(rule: &str) -> String {
    format!("/rules/{}", escaped(rule))
}

impl AddArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let mut body = self.say.fields()?;
        body.insert("name".to_owned(), json!(self.name));
        if self.disabled {
            body.insert("enabled".to_owned(), json!(false));
        }
        if !body.contains_key("on") || !body.contains_key("steps") {
            return Err(Stop::usage("say of what people are told with --on, and whom with --channel"));
        }
        let made = api.create("/rules", &body).await?;
        show::said(out, self.show, &made, &format!("{}: created; it holds from now on", self.name))
    }
}

impl EditArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let mut body = self.say.fields()?;
        if self.enable || self.disable {
            body.insert("enabled".to_owned(), json!(self.enable));
        }
        let taken = [("scope", self.everywhere), ("quiet", self.no_quiet), ("repeat_every", self.no_repeat)];
        for (field, _) in taken.into_iter().filter(|(_, taken)| *taken) {
            body.insert(field.to_owned(), Value::Null);
        }
        if body.is_empty() {
            return Err(Stop::usage("nothing to change; see `punctual rule edit --help` for what can be"));
        }
        let edited = api.change(Method::PATCH, &path(&self.rule), &body).await?;
        show::said(out, self.show, &edited, &format!("{}: changed", self.rule))
    }
}

impl RuleCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Add(args) => args.run(api, out).await,
            Self::Ls(list) => {
                let empty = "no rules; make one with `punctual rule add NAME --on failure --channel CHANNEL`";
                show::list(out, list, RULES, empty, async || api.list("/rules", list.limit).await).await
            }
            Self::Show(args) => show::one(out, args.show, &api.get(&path(&args.rule)).await?),
            Self::Edit(args) => args.run(api, out).await,
            Self::Rm(args) => {
                let answer = api.act(Method::DELETE, &path(&args.rule)).await?;
                show::said(out, args.show, &answer, &format!("{}: deleted", args.rule))
            }
        }
    }
}
