//! `punctual schedule backfill` and `punctual backfill`: running what was missed, with consent, and watching it.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::api::{Answer, Api, escaped};
use super::schedule::{instant, path};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::Body;
use crate::cli::{Output, Stop};

/// How often a backfill that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) const EXAMPLES: &str = "Examples:\n  \
    punctual schedule backfill nightly --from 2026-11-01T00:00 --until 2026-11-08T00:00         what would run\n  \
    punctual schedule backfill nightly --from 2026-11-01T00:00 --until 2026-11-08T00:00 --yes   run it";

#[derive(Args)]
pub(crate) struct BeginArgs {
    /// The schedule's name or id
    schedule: String,
    /// From this time on; without an offset, on the schedule's wall clock
    #[arg(long, value_name = "TIME")]
    from: String,
    /// Up to this time, which is not one of them
    #[arg(long, value_name = "TIME")]
    until: String,
    /// Run it; without this, only what would run is printed
    #[arg(long)]
    yes: bool,
    /// The most jobs in a minute [default: as fast as it goes]
    #[arg(long, value_name = "N")]
    per_minute: Option<u32>,
    /// The priority of its jobs [default: 100 below the schedule's]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Wait until all its jobs are made
    #[arg(long, requires = "yes")]
    wait: bool,
    #[command(flatten)]
    show: ShowArgs,
}

/// Look at backfills and stop them
#[derive(Subcommand)]
pub(crate) enum BackfillCommand {
    /// List the backfills of a schedule, latest first
    #[command(visible_alias = "list")]
    Ls(LsArgs),
    /// Say how far a backfill is
    Show(OneArgs),
    /// Stop a backfill; what it has made goes on
    Cancel(OneArgs),
}

#[derive(Args)]
pub(crate) struct LsArgs {
    /// The schedule's name or id
    schedule: String,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// The backfill's id
    backfill: String,
    #[command(flatten)]
    show: ShowArgs,
}

const BACKFILLS: &[Column] = &[
    ("ID", Cell::Text("/id")),
    ("STATE", Cell::Text("/state")),
    ("FROM", Cell::Time("/from")),
    ("UNTIL", Cell::Time("/until")),
    ("MADE", Cell::Text("/made")),
    ("LEFT ALONE", Cell::Text("/passed")),
    ("BY", Cell::Text("/by")),
];

impl BeginArgs {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let mut body = Body::default();
        body.put("from", Some(instant(api, &self.schedule, &self.from).await?));
        body.put("until", Some(instant(api, &self.schedule, &self.until).await?));
        body.put("priority", self.priority);
        body.put("per_minute", self.per_minute);
        body.put("dry_run", Some(true));
        let path = format!("{}/backfill", path(&self.schedule));
        let preview = api.change(Method::POST, &path, &body).await?;
        if !self.yes {
            return self.tell(&preview, out);
        }
        body.put("dry_run", Some(false));
        body.put("consent", Some(&preview.value()["gaps"]));
        let begun = api.create(&path, &body).await?;
        let answer = if self.wait { wait_for(api, &begun).await? } else { begun };
        let backfill = answer.value();
        let text = |key: &str| show::plain(&backfill[key]);
        let words = match text("state").as_str() {
            "running" => format!(
                "{0}: runs {1} slots; watch it with `punctual backfill show {0}`",
                text("id"),
                preview.value()["gaps"]
            ),
            state => {
                format!("{}: {state}, made {} jobs, left {} slots alone", text("id"), text("made"), text("passed"))
            }
        };
        show::said(out, self.show, &answer, &words)
    }

    fn tell(&self, preview: &Answer, out: &mut Output) -> Result<(), Stop> {
        if !self.show.is_for_people() {
            return Ok(show::json(out, preview)?);
        }
        let told = preview.value();
        if told["gaps"] == json!(0) {
            return Ok(writeln!(
                out,
                "none of the {} slots is without success; there is nothing to run",
                told["slots"]
            )?);
        }
        let first = told["first"].as_array().cloned().unwrap_or_default();
        writeln!(out, "{} of {} slots have no success, and would run:", told["gaps"], told["slots"])?;
        for slot in &first {
            writeln!(out, "  {}", show::plain(slot))?;
        }
        if told["gaps"].as_u64().is_some_and(|gaps| gaps > first.len() as u64) {
            writeln!(out, "  …")?;
        }
        Ok(writeln!(out, "nothing was done; run them with --yes")?)
    }
}

/// Looks until a backfill is over; on a terminal it says how far it is.
async fn wait_for(api: &Api, begun: &Answer) -> Result<Answer, Stop> {
    let path = format!("/backfills/{}", show::plain(&begun.value()["id"]));
    let shows = std::io::stderr().is_terminal();
    loop {
        let answer = api.get(&path).await?;
        let backfill: Value = answer.value();
        if shows {
            let told = format!("\r{} made, up to {}  ", backfill["made"], show::plain(&backfill["next_at"]));
            write!(std::io::stderr(), "{told}")?;
        }
        if backfill["state"] != json!("running") {
            if shows {
                writeln!(std::io::stderr())?;
            }
            return Ok(answer);
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl BackfillCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Ls(args) => {
                let path = format!("{}/backfills", path(&args.schedule));
                let look = async || api.list(&path, args.list.limit).await;
                show::list(out, args.list, BACKFILLS, "it has no backfills", look).await
            }
            Self::Show(args) => {
                show::one(out, args.show, &api.get(&format!("/backfills/{}", escaped(&args.backfill))).await?)
            }
            Self::Cancel(args) => {
                let answer = api.act(Method::POST, &format!("/backfills/{}/cancel", escaped(&args.backfill))).await?;
                let words = format!("{}: {}", args.backfill, show::plain(&answer.value()["state"]));
                show::said(out, args.show, &answer, &words)
            }
        }
    }
}
