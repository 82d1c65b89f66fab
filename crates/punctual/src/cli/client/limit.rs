//! `punctual limit`: how many jobs run at once, and how many start in a while.

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::api::{Api, escaped};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::Body;
use crate::cli::{Output, Stop};

/// Limit how many jobs run at once and how many start in a while
#[derive(Subcommand)]
pub(crate) enum LimitCommand {
    /// Set a limit; it counts what runs and what waits already
    Set(SetArgs),
    /// List limits, and how far each is used
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Show one limit
    Show(OneArgs),
    /// Remove a limit: what it kept back starts
    Rm(OneArgs),
}

#[derive(Args)]
pub(crate) struct SetArgs {
    /// What is counted: `all`, `queue:NAME`, `type:NAME` (such as `type:command` or `type:task:mail`) or `tag:NAME`
    subject: String,
    /// So many at once, on all nodes together; 0 lets none start
    #[arg(long, value_name = "JOBS")]
    concurrency: Option<u32>,
    /// So many at once on each node
    #[arg(long, value_name = "JOBS")]
    per_node: Option<u32>,
    /// So many starts in a while, such as `10/1m`
    #[arg(long, value_name = "JOBS/TIME", value_parser = rate)]
    rate: Option<(u32, String)>,
    /// So many starts at once after a quiet time; as many as the rate says unless given
    #[arg(long, value_name = "JOBS", requires = "rate")]
    burst: Option<u32>,
    #[command(flatten)]
    show: ShowArgs,
}

/// A rate as it is written: how many, in which time.
pub(crate) fn rate(text: &str) -> Result<(u32, String), String> {
    let read = |(jobs, per): (&str, &str)| Some((jobs.trim().parse().ok()?, per.trim().to_owned()));
    text.split_once('/').and_then(read).ok_or_else(|| "write how many in which time, such as 10/1m".to_owned())
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// What is counted: `all`, `queue:NAME`, `type:NAME` or `tag:NAME`
    subject: String,
    #[command(flatten)]
    show: ShowArgs,
}

const LIMITS: &[Column] = &[
    ("SUBJECT", Cell::Text("/subject")),
    ("RUNNING", Cell::Text("/running")),
    ("AT ONCE", Cell::Text("/concurrency")),
    ("PER NODE", Cell::Text("/node_concurrency")),
    ("STARTS", Cell::Text("/rate/jobs")),
    ("PER", Cell::Text("/rate/per")),
    ("BURST", Cell::Text("/rate/burst")),
    ("TOKENS", Cell::Text("/tokens")),
];

impl LimitCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Set(args) => args.run(api, out).await,
            Self::Ls(list) => {
                let empty = "no limits; set one with `punctual limit set queue:default --concurrency 2`";
                show::list(out, list, LIMITS, empty, async || api.list("/limits", list.limit).await).await
            }
            Self::Show(args) => show::one(out, args.show, &api.get(&path(&args.subject)).await?),
            Self::Rm(args) => {
                let answer = api.act(Method::DELETE, &path(&args.subject)).await?;
                show::said(out, args.show, &answer, &format!("{}: not limited any more", args.subject))
            }
        }
    }
}

fn path(subject: &str) -> String {
    format!("/limits/{}", escaped(subject))
}

impl SetArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let mut body = Body::default();
        body.put("concurrency", self.concurrency);
        body.put("node_concurrency", self.per_node);
        body.put("rate", self.rate.map(|(jobs, per)| json!({ "jobs": jobs, "per": per, "burst": self.burst })));
        let answer = api.change(Method::PUT, &path(&self.subject), &body).await?;
        show::said(out, self.show, &answer, &format!("{}: {}", self.subject, words(&answer.value())))
    }
}

/// What a limit says.
fn words(limit: &Value) -> String {
    let number = |field: &str| limit.pointer(field).filter(|value| !value.is_null()).map(show::plain);
    let bounds = [
        number("/concurrency").map(|jobs| format!("{jobs} at once")),
        number("/node_concurrency").map(|jobs| format!("{jobs} at once on each node")),
        number("/rate/jobs").map(|jobs| format!("{jobs} starts in {}", show::plain(&limit["rate"]["per"]))),
    ];
    let running = show::plain(&limit["running"]);
    format!("{}; {running} running now", bounds.into_iter().flatten().collect::<Vec<_>>().join(", "))
}
