//! `punctual alert`: the troubles that rules have found, and who takes care of them.

use axum::http::Method;
use clap::{Args, Subcommand};

use super::api::{Api, escaped, with_query};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::Body;
use crate::cli::{Output, Stop};

/// Look at alerts and acknowledge them
#[derive(Subcommand)]
pub(crate) enum AlertCommand {
    /// List alerts, the latest first
    #[command(visible_alias = "list")]
    Ls(LsArgs),
    /// Show one alert
    Show(OneArgs),
    /// Take care of an alert: no further step is told
    #[command(visible_alias = "ack")]
    Acknowledge(AcknowledgeArgs),
}

#[derive(Args)]
pub(crate) struct LsArgs {
    /// Only those that go on
    #[arg(long, conflicts_with = "closed")]
    open: bool,
    /// Only those that are over
    #[arg(long)]
    closed: bool,
    /// Only those of this rule
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// The alert's id
    alert: String,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct AcknowledgeArgs {
    /// The alert's id
    alert: String,
    /// What others should know
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
}

const ALERTS: &[Column] = &[
    ("ID", Cell::Text("/id")),
    ("STATE", Cell::Text("/state")),
    ("RULE", Cell::Text("/rule")),
    ("WHAT", Cell::Text("/title")),
    ("TIMES", Cell::Text("/count")),
    ("BEGAN", Cell::Time("/opened_at")),
];

fn path(alert: &str) -> String {
    format!("/alerts/{}", escaped(alert))
}

impl AlertCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Ls(args) => {
                let open = if args.open { Some("true") } else { args.closed.then_some("false") };
                let path = with_query("/alerts", &[("open", open), ("rule", args.rule.as_deref())]);
                let look = async || api.list(&path, args.list.limit).await;
                show::list(out, args.list, ALERTS, "no alerts", look).await
            }
            Self::Show(args) => show::one(out, args.show, &api.get(&path(&args.alert)).await?),
            Self::Acknowledge(args) => {
                let mut body = Body::default();
                body.put("note", args.note.as_ref());
                let answer = api.change(Method::POST, &format!("{}/acknowledge", path(&args.alert)), &body).await?;
                let alert = answer.value();
                let words = match alert["acknowledged"]["by"].as_str() {
                    Some(by) => format!("{}: acknowledged by {by}; nobody else is told", args.alert),
                    None => format!("{}: acknowledged; nobody else is told", args.alert),
                };
                show::said(out, args.show, &answer, &words)
            }
        }
    }
}
