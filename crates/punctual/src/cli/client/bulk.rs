//! `punctual job bulk` and `punctual bulk`: changing every job that a filter finds, and watching that.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use axum::http::Method;
use clap::{Args, Subcommand};
use punctual_engine::bulk::bulk_once;
use serde_json::{Value, json};

use super::api::{Answer, Api, escaped};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::Body;
use crate::cli::{Output, Stop};

/// How often an operation that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) const EXAMPLES: &str = "Examples:\n  \
    punctual job bulk cancel --queue mail                          how many would be cancelled\n  \
    punctual job bulk cancel --queue mail --yes                    cancel them\n  \
    punctual job bulk retry --schedule nightly --since 2026-11-01T00:00:00Z --yes\n  \
    punctual job bulk reprioritise --tag urgent --priority 10 --yes";

/// Cancel, retry or reprioritise every job that a filter finds
#[derive(Args)]
pub(crate) struct BulkArgs {
    #[command(subcommand)]
    action: BulkAction,
}

#[derive(Subcommand)]
enum BulkAction {
    /// Stop jobs: what waits never runs, what runs is told to stop
    Cancel(ChangeArgs),
    /// Run jobs that failed once more; with --state, those that were cancelled or skipped
    Retry(ChangeArgs),
    /// Give queued jobs another priority
    Reprioritise(ReprioritiseArgs),
}

#[derive(Args)]
struct ReprioritiseArgs {
    /// The new priority; higher goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: i32,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
struct ChangeArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Every job, when nothing else is said
    #[arg(long)]
    all: bool,
    /// Only say how many jobs would be changed, as without --yes
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do it; without this, only how many would be changed is printed
    #[arg(long)]
    yes: bool,
    /// Wait until all are changed
    #[arg(long, requires = "yes")]
    wait: bool,
    #[command(flatten)]
    show: ShowArgs,
}

/// Which jobs, for lists and for bulk operations.
#[derive(Args)]
pub(crate) struct FilterArgs {
    /// Only in this state: waiting, scheduled, queued, running, completed, failed, skipped or cancelled
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only of this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Only of this schedule, by name or id
    #[arg(long, value_name = "NAME")]
    schedule: Option<String>,
    /// Only of this type, such as command or task:mail
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// Only those that did not complete for this reason, such as timeout
    #[arg(long, value_name = "CODE")]
    error_code: Option<String>,
    /// Only with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only those made at this time or later
    #[arg(long, value_name = "INSTANT")]
    since: Option<String>,
    /// Only those made before this time
    #[arg(long, value_name = "INSTANT")]
    until: Option<String>,
}

impl FilterArgs {
    /// What was said, under the API's names.
    pub(crate) async fn fields(self, api: &Api) -> Result<Vec<(&'static str, String)>, Stop> {
        let schedule = match &self.schedule {
            None => None,
            Some(name) => Some(show::plain(&api.get(&format!("/schedules/{}", escaped(name))).await?.value()["id"])),
        };
        let fields = [
            ("state", self.state),
            ("queue", self.queue),
            ("schedule_id", schedule),
            ("job_type", self.job_type),
            ("error_code", self.error_code),
            ("tag", self.tag),
            ("since", self.since),
            ("until", self.until),
        ];
        Ok(fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
    }
}

/// Look at bulk operations and stop them
#[derive(Subcommand)]
pub(crate) enum BulkCommand {
    /// List bulk operations, latest first
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Say how far a bulk operation is
    Show(OneArgs),
    /// Stop a bulk operation; what it has changed stays so
    Cancel(OneArgs),
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// The operation's id
    operation: String,
    #[command(flatten)]
    show: ShowArgs,
}

const BULKS: &[Column] = &[
    ("ID", Cell::Text("/id")),
    ("STATE", Cell::Text("/state")),
    ("ACTION", Cell::Text("/action")),
    ("DONE", Cell::Text("/done")),
    ("LEFT ALONE", Cell::Text("/passed")),
    ("BEGUN", Cell::Time("/created_at")),
    ("BY", Cell::Text("/by")),
];

impl BulkArgs {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self.action {
            BulkAction::Cancel(change) => change.run(api, out, "cancel", None).await,
            BulkAction::Retry(change) => change.run(api, out, "retry", None).await,
            BulkAction::Reprioritise(args) => args.change.run(api, out, "reprioritise", Some(args.priority)).await,
        }
    }
}

impl ChangeArgs {
    async fn run(self, api: &Api, out: &mut Output, action: &str, priority: Option<i32>) -> Result<(), Stop> {
        let (yes, wait, show) = (self.yes, self.wait, self.show);
        let mut filter = Body::default();
        for (name, value) in self.filter.fields(api).await? {
            filter.put(name, Some(value));
        }
        let mut body = Body::default();
        body.put("action", Some(action));
        body.put("filter", Some(filter));
        body.put("all", Some(self.all));
        body.put("priority", priority);
        if !yes {
            body.put("dry_run", Some(true));
            let preview = api.change(Method::POST, "/jobs/bulk", &body).await?;
            let words = match preview.value()["jobs"].as_u64() {
                Some(0) => format!("there is no job to {action}"),
                _ => format!("{} jobs: {action}; nothing was done, do it with --yes", preview.value()["jobs"]),
            };
            return show::said(out, show, &preview, &words);
        }
        let begun = api.create("/jobs/bulk", &body).await?;
        let answer = if wait || !is_served(api) { wait_for(api, &begun).await? } else { begun };
        show::said(out, show, &answer, &told(&answer.value()))
    }
}

fn told(bulk: &Value) -> String {
    let text = |key: &str| show::plain(&bulk[key]);
    match text("state").as_str() {
        "running" => format!("{0}: has begun; watch it with `punctual bulk show {0}`", text("id")),
        state => format!("{}: {state}, {} changed, {} left alone", text("id"), text("done"), text("passed")),
    }
}

/// Whether somebody else goes on with the operation. Without a server this process does so itself.
fn is_served(api: &Api) -> bool {
    matches!(api, Api::Remote { .. })
}

/// Looks until an operation is over; on a terminal it says how far it is.
async fn wait_for(api: &Api, begun: &Answer) -> Result<Answer, Stop> {
    let path = format!("/bulk-operations/{}", show::plain(&begun.value()["id"]));
    let shows = std::io::stderr().is_terminal();
    loop {
        let answer = api.get(&path).await?;
        let bulk = answer.value();
        if shows {
            write!(std::io::stderr(), "\r{} changed, {} left alone  ", bulk["done"], bulk["passed"])?;
        }
        if bulk["state"] != json!("running") {
            if shows {
                writeln!(std::io::stderr())?;
            }
            return Ok(answer);
        }
        match api {
            Api::Local { store, .. } => {
                // What another node is about in this moment is left to it.
                if !bulk_once(&**store).await?.more {
                    tokio::time::sleep(LOOK).await;
                }
            }
            Api::Remote { .. } => tokio::time::sleep(LOOK).await,
        }
    }
}

impl BulkCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Ls(list) => {
                let empty = "no bulk operations; begin one with `punctual job bulk`";
                show::list(out, list, BULKS, empty, async || api.list("/bulk-operations", list.limit).await).await
            }
            Self::Show(args) => {
                show::one(out, args.show, &api.get(&format!("/bulk-operations/{}", escaped(&args.operation))).await?)
            }
            Self::Cancel(args) => {
                let path = format!("/bulk-operations/{}/cancel", escaped(&args.operation));
                let answer = api.act(Method::POST, &path).await?;
                show::said(out, args.show, &answer, &told(&answer.value()))
            }
        }
    }
}
