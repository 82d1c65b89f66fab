//! `punctual schedule`: make, look at and steer schedules; and `punctual why`.

use std::io::Write;

use axum::http::Method;
use clap::{Args, Subcommand};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use punctual_core::why::When;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::api::{Answer, Api, Page, escaped, with_query};
use super::job::JOBS;
use super::policy::{PolicyArgs, TimingArgs};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::{Body, TargetArgs, json_text};
use super::template::UseArgs;
use crate::cli::{Output, Stop};

/// Make, look at and steer schedules
#[derive(Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Make a schedule
    #[command(after_help = "Examples:\n  \
        punctual schedule add nightly --cron '0 2 * * *' --tz Europe/Berlin -- ./backup.sh --all\n  \
        punctual schedule add ping --every 90s --http https://example.org/health\n  \
        punctual schedule add once --at 2026-12-01T08:00:00Z -- ./migrate.sh")]
    Add(Box<AddArgs>),
    /// List schedules
    #[command(visible_alias = "list")]
    Ls(LsArgs),
    /// Show one schedule
    Show(OneArgs),
    /// Change a schedule; what is not given stays
    Edit(Box<EditArgs>),
    /// Stop firing, for good or until a time
    Pause(PauseArgs),
    /// Go on from now; what passed meanwhile is recorded and not made up for
    Resume(OneArgs),
    /// Run it now, beside its plan
    Trigger(TriggerArgs),
    /// Move the next fire to another time
    Reschedule(RescheduleArgs),
    /// Leave the next fire out, and go on with the one after it
    Skip(OneArgs),
    /// Delete a schedule; its history stays
    Rm(OneArgs),
    /// Say when it fires next
    Next(NextArgs),
    Stats(super::stats::StatsArgs),
    /// List its runs, latest first
    Runs(HistoryArgs),
    /// List what was decided for each slot, latest first
    Slots(HistoryArgs),
    /// Run the past slots of a range that have no success
    #[command(after_help = super::backfill::EXAMPLES)]
    Backfill(super::backfill::BeginArgs),
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// What it is called
    name: String,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    policy: PolicyArgs,
    /// Make it paused
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    begin: UseArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct EditArgs {
    /// Its name or id
    schedule: String,
    /// Another name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct LsArgs {
    /// Only with this text in the name
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Only with this label, KEY or KEY=VALUE
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    /// Only those whose jobs go to this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Only those that are paused
    #[arg(long)]
    paused: bool,
    /// Only those whose last run failed
    #[arg(long)]
    failing: bool,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// Its name or id
    schedule: String,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct PauseArgs {
    /// Its name or id
    schedule: String,
    /// Why, for whoever wonders later
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// When it goes on by itself; without an offset, on the schedule's wall clock
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct TriggerArgs {
    /// Its name or id
    schedule: String,
    /// Another input for this run, as JSON
    #[arg(long, value_name = "JSON", value_parser = json_text)]
    input: Option<Box<RawValue>>,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct RescheduleArgs {
    /// Its name or id
    schedule: String,
    /// When it is to fire instead, such as 2026-12-01T08:00:00Z; without an offset, on the schedule's wall clock
    #[arg(value_name = "TIME")]
    at: String,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct NextArgs {
    /// Its name or id
    schedule: String,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=500))]
    count: u32,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct HistoryArgs {
    /// Its name or id
    schedule: String,
    #[command(flatten)]
    list: ListArgs,
}

/// Say what happened at a time, or will, and why
#[derive(Args)]
#[command(
    after_help = "Examples:\n  punctual why nightly 2026-11-01T02:30\n  punctual why nightly 2026-11-01T01:30:00Z"
)]
pub(crate) struct WhyArgs {
    /// The schedule's name or id
    schedule: String,
    /// The time; without an offset, on the schedule's wall clock
    #[arg(value_name = "TIME")]
    at: String,
    #[command(flatten)]
    show: ShowArgs,
}

const SCHEDULES: &[Column] = &[
    ("NAME", Cell::Text("/name")),
    ("WHEN", Cell::Words(when)),
    ("ZONE", Cell::Text("/timezone")),
    ("STATE", Cell::Words(state)),
    ("NEXT", Cell::Time("/next_run_at")),
    ("LAST", Cell::Time("/last_run_at")),
    ("OUTCOME", Cell::Text("/last_outcome")),
];

const SLOTS: &[Column] = &[
    ("SLOT", Cell::Time("/slot_at")),
    ("DECISION", Cell::Text("/decision")),
    ("REASON", Cell::Text("/reason")),
    ("LATE MS", Cell::Text("/late_ms")),
    ("NOTE", Cell::Text("/note")),
    ("SLOTS", Cell::Text("/count")),
    ("JOB", Cell::Text("/job_id")),
];

fn when(schedule: &Value) -> String {
    ["cron", "every", "at"]
        .iter()
        .map(|key| show::plain(&schedule[*key]))
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

fn state(schedule: &Value) -> String {
    let state = match schedule {
        _ if schedule["enabled"] == json!(false) => "paused",
        _ if !schedule["problem"].is_null() => "problem",
        _ if !schedule["exhausted_at"].is_null() => "exhausted",
        _ => "on",
    };
    state.to_owned()
}

impl ScheduleCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Add(args) => args.run(api, out).await,
            Self::Edit(args) => args.run(api, out).await,
            Self::Ls(args) => args.run(api, out).await,
            Self::Show(args) => show::one(out, args.show, &api.get(&path(&args.schedule)).await?),
            Self::Pause(args) => {
                let until = match &args.until {
                    Some(text) => Some(instant(api, &args.schedule, text).await?),
                    None => None,
                };
                let body = json!({ "note": args.note, "until": until });
                let answer = api.change(Method::POST, &verb(&args.schedule, "pause"), &body).await?;
                let done = until.map_or_else(|| "paused".to_owned(), |until| format!("paused until {until}"));
                say(out, args.show, &answer, &done)
            }
            Self::Resume(args) => {
                let answer = api.act(Method::POST, &verb(&args.schedule, "resume")).await?;
                say(out, args.show, &answer, "resumed")
            }
            Self::Reschedule(args) => {
                let at = instant(api, &args.schedule, &args.at).await?;
                let answer =
                    api.change(Method::POST, &verb(&args.schedule, "reschedule"), &json!({ "at": at })).await?;
                say(out, args.show, &answer, "rescheduled")
            }
            Self::Skip(args) => {
                let answer = api.create(&verb(&args.schedule, "skip-next"), &json!({})).await?;
                say(out, args.show, &answer, "one fire skipped")
            }
            Self::Trigger(args) => {
                let mut body = Body::default();
                body.put("input", args.input);
                let made = api.create(&verb(&args.schedule, "trigger"), &body).await?;
                super::job::say_made(out, args.show, &made)
            }
            Self::Rm(args) => {
                let answer = api.act(Method::DELETE, &path(&args.schedule)).await?;
                show::said(out, args.show, &answer, &format!("{}: deleted; its history stays", args.schedule))
            }
            Self::Next(args) => args.run(api, out).await,
            Self::Stats(args) => args.run(api, out).await,
            Self::Backfill(args) => args.run(api, out).await,
            Self::Runs(args) => {
                let look = async || api.list(&verb(&args.schedule, "runs"), args.list.limit).await;
                show::list(out, args.list, JOBS, "it has not run yet", look).await
            }
            Self::Slots(args) => {
                let look = async || api.list(&verb(&args.schedule, "slots"), args.list.limit).await;
                show::list(out, args.list, SLOTS, "no slot has been decided yet", look).await
            }
        }
    }
}

pub(super) fn path(schedule: &str) -> String {
    format!("/schedules/{}", escaped(schedule))
}

fn verb(schedule: &str, verb: &str) -> String {
    format!("{}/{verb}", path(schedule))
}

/// One line for people, the whole answer for programs.
fn say(out: &mut Output, show: ShowArgs, answer: &Answer, done: &str) -> Result<(), Stop> {
    let schedule = answer.value();
    let next = schedule["next_run_at"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    let next = next.map(|at| {
        let zone = schedule["timezone"].as_str().and_then(|zone| TimeZone::get(zone).ok()).unwrap_or(TimeZone::UTC);
        format!(
            ", next {} ({})",
            at.to_zoned(zone).strftime("%a %Y-%m-%d %H:%M:%S %Z"),
            show::from_now(at, Timestamp::now())
        )
    });
    let words = format!("{}: {done}{}", show::plain(&schedule["name"]), next.unwrap_or_default());
    show::said(out, show, answer, &words)
}

impl AddArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let mut body = Body::default();
        body.put("name", Some(&self.name));
        self.timing.put(&mut body);
        self.policy.put(&mut body, json!({}));
        body.put("enabled", self.paused.then_some(false));
        self.begin.put(&mut body);
        self.target.put(api, &mut body, self.begin.template.is_none())?;
        let made = api.create("/schedules", &body).await?;
        say(out, self.show, &made, "created")?;
        if self.show.is_for_people() {
            let schedule = made.value();
            writeln!(out, "  {}", show::plain(&schedule["in_words"]))?;
            if let Some(cron) = schedule["cron"].as_str() {
                warn_of(api, out, cron, schedule["timezone"].as_str(), &self.name).await?;
            }
        }
        Ok(())
    }
}

/// What is to be minded about an expression: clock changes, fires that never come.
async fn warn_of(api: &Api, out: &mut Output, cron: &str, zone: Option<&str>, name: &str) -> Result<(), Stop> {
    let asked = [("expr", Some(cron)), ("tz", zone), ("seed", Some(name)), ("count", Some("1"))];
    let preview = api.get(&with_query("/cron/preview", &asked)).await?.value();
    for warning in preview["warnings"].as_array().into_iter().flatten() {
        writeln!(out, "  note: {}", show::plain(warning))?;
    }
    Ok(())
}

impl EditArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let mut body = Body::default();
        body.put("name", self.name.as_ref());
        self.timing.put(&mut body);
        let retry = if self.policy.changes_retry() {
            api.get(&path(&self.schedule)).await?.value()["retry"].take()
        } else {
            Value::Null
        };
        self.policy.put(&mut body, retry);
        self.target.put(api, &mut body, false)?;
        if body.is_empty() {
            return Err(Stop::usage("nothing to change; see `punctual schedule edit --help` for what can be"));
        }
        let edited = api.change(Method::PATCH, &path(&self.schedule), &body).await?;
        say(out, self.show, &edited, "changed")
    }
}

impl LsArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let path = with_query(
            "/schedules",
            &[
                ("q", self.text.as_deref()),
                ("label", self.label.as_deref()),
                ("queue", self.queue.as_deref()),
                ("enabled", self.paused.then_some("false")),
                ("failing", self.failing.then_some("true")),
            ],
        );
        let empty = "no schedules; make one with `punctual schedule add NAME --cron '0 8 * * 1-5' -- CMD`";
        show::list(out, self.list, SCHEDULES, empty, async || api.list(&path, self.list.limit).await).await
    }
}

impl NextArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let answer = api.get(&format!("{}?count={}", verb(&self.schedule, "upcoming"), self.count)).await?;
        if !self.show.is_for_people() {
            return Ok(show::json(out, &answer)?);
        }
        let zone = zone_of(api, &self.schedule).await?;
        let Page { items, .. } = answer.page()?;
        if items.is_empty() {
            return Ok(writeln!(out, "it does not fire: it is paused, or has no slots left")?);
        }
        for item in items {
            let slot: Value = serde_json::from_str(item.get()).unwrap_or_default();
            let at = slot["run_at"].as_str().and_then(|at| at.parse::<Timestamp>().ok()).unwrap_or_default();
            let local = at.to_zoned(zone.clone());
            let skipped = slot["skipped"].as_str().map(|why| format!("  skipped: {}", show::visible(why)));
            let (local, from_now) = (local.strftime("%a %Y-%m-%d %H:%M:%S %Z"), show::from_now(at, Timestamp::now()));
            writeln!(out, "{local}  {from_now}{}", skipped.unwrap_or_default())?;
        }
        Ok(())
    }
}

impl WhyArgs {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        // A time of the wall clock goes out as it is: whether there is such a time is part of the answer.
        if self.at.parse::<When>().is_err() {
            return Err(no_time(&self.at));
        }
        let answer = api.get(&with_query(&verb(&self.schedule, "why"), &[("at", Some(&self.at))])).await?;
        if !self.show.is_for_people() {
            return Ok(show::json(out, &answer)?);
        }
        let why = answer.value();
        writeln!(out, "{}", show::plain(&why["answer"]))?;
        let job = &why["job"];
        if !job.is_null() {
            let run =
                ["/run/error_code", "/run/error"].iter().filter_map(|at| job.pointer(at).filter(|v| !v.is_null()));
            let error: Vec<String> = run.map(show::plain).collect();
            let error = if error.is_empty() { String::new() } else { format!(" ({})", error.join(": ")) };
            let (id, state) = (show::plain(&job["id"]), show::plain(&job["state"]));
            writeln!(out, "Its job {id} is {state}{error}. See `punctual job show {id}`.")?;
        }
        Ok(())
    }
}

async fn zone_of(api: &Api, schedule: &str) -> Result<TimeZone, Stop> {
    let schedule = api.get(&path(schedule)).await?.value();
    Ok(schedule["timezone"].as_str().and_then(|zone| TimeZone::get(zone).ok()).unwrap_or(TimeZone::UTC))
}

fn no_time(text: &str) -> Stop {
    Stop::usage(format!("`{}` is no time; write 2026-11-01T08:00, or 2026-11-01T08:00:00Z", show::visible(text)))
}

/// A time as people write it: with an offset or a zone, or as the schedule's wall clock shows it.
pub(super) async fn instant(api: &Api, schedule: &str, text: &str) -> Result<Timestamp, Stop> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Ok(at) = text.parse::<Zoned>() {
        return Ok(at.timestamp());
    }
    let wall: DateTime = text.parse().map_err(|_| no_time(text))?;
    let local = wall.to_zoned(zone_of(api, schedule).await?);
    Ok(local.map_err(|error| Stop::usage(error.to_string()))?.timestamp())
}
