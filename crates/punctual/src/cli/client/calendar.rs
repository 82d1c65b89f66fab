//! `punctual calendar`: named days and times at which nothing may run.

use axum::http::Method;
use clap::{Args, Subcommand};
use punctual_core::calendar::DayRule;
use serde_json::{Value, json};

use super::api::{Api, escaped};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::Body;
use crate::cli::{Output, Stop};

/// Make, look at and change calendars: days and times at which nothing may run
#[derive(Subcommand)]
pub(crate) enum CalendarCommand {
    /// Make a calendar
    #[command(after_help = "Examples:\n  \
        punctual calendar add holidays --tz Europe/Berlin --day 12-25=Christmas --day 2026-04-06 --weekday sunday\n  \
        punctual calendar add freeze --window 2026-12-20T00:00:00Z..2027-01-04T00:00:00Z='year end'\n  \
        punctual schedule edit nightly --calendar holidays")]
    Add(AddArgs),
    /// List calendars
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Show one calendar
    Show(OneArgs),
    /// Change a calendar: what is given replaces what was; it holds for the slots that come
    Edit(EditArgs),
    /// Delete a calendar that no schedule names
    Rm(OneArgs),
}

#[derive(Args)]
pub(crate) struct RulesArgs {
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The time zone in which its days begin and end, such as Europe/Berlin [default: UTC]
    #[arg(long, visible_alias = "timezone", value_name = "ZONE")]
    tz: Option<String>,
    /// A closed day, 2026-12-25 or 12-25 for every year, with =NOTE if you like; may be given more than once
    #[arg(long = "day", value_name = "DAY[=NOTE]", value_parser = day)]
    days: Vec<Value>,
    /// A day of the week that is closed; may be given more than once
    #[arg(long = "weekday", value_name = "NAME")]
    weekdays: Vec<String>,
    /// A closed stretch of time, FROM..UNTIL, with =NOTE if you like; may be given more than once
    #[arg(long = "window", value_name = "FROM..UNTIL[=NOTE]", value_parser = window)]
    windows: Vec<Value>,
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// What schedules call it
    name: String,
    #[command(flatten)]
    rules: RulesArgs,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct EditArgs {
    /// Its name
    calendar: String,
    #[command(flatten)]
    rules: RulesArgs,
    /// Take all closed days away, before those that are given
    #[arg(long)]
    no_days: bool,
    /// Take all closed days of the week away, before those that are given
    #[arg(long)]
    no_weekdays: bool,
    /// Take all closed stretches away, before those that are given
    #[arg(long)]
    no_windows: bool,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// Its name
    calendar: String,
    #[command(flatten)]
    show: ShowArgs,
}

const CALENDARS: &[Column] = &[
    ("NAME", Cell::Text("/name")),
    ("ZONE", Cell::Text("/timezone")),
    ("DAYS", Cell::Words(|calendar| count(&calendar["days"]))),
    ("WEEKDAYS", Cell::Words(weekdays)),
    ("WINDOWS", Cell::Words(|calendar| count(&calendar["windows"]))),
    ("CHANGED", Cell::Time("/updated_at")),
];

fn count(list: &Value) -> String {
    list.as_array().map_or(0, Vec::len).to_string()
}

fn weekdays(calendar: &Value) -> String {
    calendar["weekdays"].as_array().into_iter().flatten().map(show::plain).collect::<Vec<_>>().join(" ")
}

/// What was given, and the note behind it.
fn noted(text: &str) -> (&str, Option<&str>) {
    text.split_once('=').map_or((text, None), |(what, note)| (what, Some(note)))
}

fn day(text: &str) -> Result<Value, String> {
    let (on, note) = noted(text);
    on.parse::<DayRule>().map_err(|refused| refused.to_string())?;
    Ok(json!({ "on": on, "note": note }))
}

fn window(text: &str) -> Result<Value, String> {
    let (span, note) = noted(text);
    let (from, until) = span.split_once("..").ok_or("use FROM..UNTIL")?;
    Ok(json!({ "from": from, "until": until, "note": note }))
}

impl RulesArgs {
    fn put(&self, body: &mut Body) {
        body.put("description", self.description.as_ref());
        body.put("timezone", self.tz.as_ref());
        body.put("days", Some(&self.days).filter(|days| !days.is_empty()));
        body.put("weekdays", Some(&self.weekdays).filter(|days| !days.is_empty()));
        body.put("windows", Some(&self.windows).filter(|windows| !windows.is_empty()));
    }
}

impl EditArgs {
    fn body(&self) -> Body {
        let mut body = Body::default();
        let taken = [("days", self.no_days), ("weekdays", self.no_weekdays), ("windows", self.no_windows)];
        for (field, _) in taken.into_iter().filter(|(_, taken)| *taken) {
            body.put(field, Some(json!([])));
        }
        self.rules.put(&mut body);
        body
    }
}

fn path(calendar: &str) -> String {
    format!("/calendars/{}", escaped(calendar))
}

impl CalendarCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Add(args) => {
                let mut body = Body::default();
                body.put("name", Some(&args.name));
                args.rules.put(&mut body);
                let made = api.create("/calendars", &body).await?;
                let words =
                    format!("{0}: created; use it with `punctual schedule edit NAME --calendar {0}`", args.name);
                show::said(out, args.show, &made, &words)
            }
            Self::Ls(list) => {
                let empty = "no calendars; make one with `punctual calendar add NAME --day 12-25`";
                show::list(out, list, CALENDARS, empty, async || api.list("/calendars", list.limit).await).await
            }
            Self::Show(args) => show::one(out, args.show, &api.get(&path(&args.calendar)).await?),
            Self::Edit(args) => {
                let body = args.body();
                if body.is_empty() {
                    return Err(Stop::usage("nothing to change; see `punctual calendar edit --help` for what can be"));
                }
                let edited = api.change(Method::PATCH, &path(&args.calendar), &body).await?;
                show::said(out, args.show, &edited, &format!("{}: changed", args.calendar))
            }
            Self::Rm(args) => {
                let answer = api.act(Method::DELETE, &path(&args.calendar)).await?;
                show::said(out, args.show, &answer, &format!("{}: deleted", args.calendar))
            }
        }
    }
}
