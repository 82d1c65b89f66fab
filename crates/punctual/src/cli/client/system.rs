//! The whole at a glance: `punctual status`, `punctual node`, `punctual audit`.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::api::{Api, with_query};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use crate::cli::{Output, Stop};

/// Say how everything is: what waits, runs, failed, and who works
#[derive(Args)]
pub(crate) struct StatusArgs {
    /// How far back ended runs are counted
    #[arg(long, value_name = "TIME", default_value = "1h")]
    window: String,
    #[command(flatten)]
    show: ShowArgs,
}

/// Look at the nodes
#[derive(Subcommand)]
pub(crate) enum NodeCommand {
    /// List nodes, latest started first
    #[command(visible_alias = "list")]
    Ls(NodesArgs),
}

#[derive(Args)]
pub(crate) struct NodesArgs {
    /// Also those that have left or were lost
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    list: ListArgs,
}

/// List what was changed by whom, latest first
#[derive(Args)]
pub(crate) struct AuditArgs {
    /// Only what was done to this, such as queue:mail
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    #[command(flatten)]
    list: ListArgs,
}

const NODES: &[Column] = &[
    ("NAME", Cell::Text("/name")),
    ("STATE", Cell::Words(state)),
    ("RUNNING", Cell::Count("/running")),
    ("STARTED", Cell::Time("/started_at")),
    ("OFFERS", Cell::Words(offers)),
    ("ID", Cell::Text("/id")),
];

const AUDIT: &[Column] = &[
    ("AT", Cell::Time("/at")),
    ("WHO", Cell::Text("/actor")),
    ("DID", Cell::Text("/action")),
    ("TO", Cell::Text("/subject")),
    ("REQUEST", Cell::Text("/request_id")),
];

fn state(node: &Value) -> String {
    let state = match node {
        _ if !node["lost_at"].is_null() => "lost",
        _ if !node["left_at"].is_null() => "left",
        _ => "alive",
    };
    state.to_owned()
}

fn offers(node: &Value) -> String {
    node["offers"].as_array().into_iter().flatten().map(show::plain).collect::<Vec<_>>().join(" ")
}

impl NodeCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let Self::Ls(NodesArgs { all, list }) = self;
        let path = with_query("/nodes", &[("all", all.then_some("true"))]);
        let empty = "no node works on this store; start one with `punctual serve` or `punctual worker`";
        show::list(out, list, NODES, empty, async || api.list(&path, list.limit).await).await
    }
}

impl AuditArgs {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let path = with_query("/audit", &[("subject", self.subject.as_deref())]);
        let look = async || api.list(&path, self.list.limit).await;
        show::list(out, self.list, AUDIT, "nothing was changed yet", look).await
    }
}

impl StatusArgs {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let answer = api.get(&with_query("/stats", &[("window", Some(&self.window))])).await?;
        if !self.show.is_for_people() {
            return Ok(show::json(out, &answer)?);
        }
        let stats = answer.value();
        let count = |of: &Value| {
            let more = if of["more"] == Value::Bool(true) { "+" } else { "" };
            format!("{}{more}", show::plain(&of["count"]))
        };
        let number = |of: &Value| show::plain(of);
        let (ended, schedules) = (&stats["ended"], &stats["schedules"]);
        writeln!(
            out,
            "jobs       {} queued, {} running, {} scheduled, {} waiting",
            count(&stats["queued"]),
            count(&stats["running"]),
            count(&stats["scheduled"]),
            count(&stats["waiting"])
        )?;
        writeln!(
            out,
            "last {:<5} {} completed, {} failed, {} cancelled, {} skipped{}",
            self.window,
            number(&ended["completed"]),
            number(&ended["failed"]),
            number(&ended["cancelled"]),
            number(&ended["skipped"]),
            if ended["more"] == Value::Bool(true) { ", and more" } else { "" }
        )?;
        writeln!(
            out,
            "schedules  {}, of which {} paused, {} failing, {} with a problem",
            count(&schedules["total"]),
            number(&schedules["paused"]),
            number(&schedules["failing"]),
            number(&schedules["with_problem"])
        )?;
        writeln!(out, "nodes      {}", number(&stats["nodes"]))?;
        let frozen = &stats["frozen"];
        if !frozen.is_null() {
            let [level, since, why] = ["level", "since", "why"].map(|field| show::plain(&frozen[field]));
            writeln!(out, "frozen     {level}, since {since}: {why}")?;
        }
        Ok(())
    }
}
