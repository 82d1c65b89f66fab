//! `punctual delivery`: each message to each channel, with every attempt.

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::api::{Api, escaped, with_query};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use crate::cli::{Output, Stop};

/// Look at messages, send them again, take them out of the line
#[derive(Subcommand)]
pub(crate) enum DeliveryCommand {
    /// List messages, the latest first
    #[command(visible_alias = "list")]
    Ls(LsArgs),
    /// Show one message and its attempts
    Show(OneArgs),
    /// Send a message again, under the same id, whatever became of it
    Resend(OneArgs),
    /// Take a message out of its line; those behind it go on
    Drop(OneArgs),
}

#[derive(Args)]
pub(crate) struct LsArgs {
    /// Only those to this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Only those of this alert
    #[arg(long, value_name = "ID")]
    alert: Option<String>,
    /// Only those in this state: waiting, arrived, failed or dropped
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// The message's id
    delivery: String,
    #[command(flatten)]
    show: ShowArgs,
}

const DELIVERIES: &[Column] = &[
    ("ID", Cell::Text("/id")),
    ("CHANNEL", Cell::Text("/channel")),
    ("STATE", Cell::Text("/state")),
    ("WHAT", Cell::Text("/title")),
    ("TRIES", Cell::Text("/tries")),
    ("LAST ANSWER", Cell::Words(last_answer)),
    ("MADE", Cell::Time("/created_at")),
];

fn last_answer(delivery: &Value) -> String {
    let last = delivery["attempts"].as_array().and_then(|attempts| attempts.last());
    last.map(|attempt| show::plain(&attempt["answer"])).unwrap_or_default()
}

fn path(delivery: &str) -> String {
    format!("/deliveries/{}", escaped(delivery))
}

impl DeliveryCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Ls(args) => {
                let query = [
                    ("channel", args.channel.as_deref()),
                    ("alert_id", args.alert.as_deref()),
                    ("state", args.state.as_deref()),
                ];
                let path = with_query("/deliveries", &query);
                let look = async || api.list(&path, args.list.limit).await;
                show::list(out, args.list, DELIVERIES, "no messages", look).await
            }
            Self::Show(args) => show::one(out, args.show, &api.get(&path(&args.delivery)).await?),
            Self::Resend(args) => act(args, "resend", "is sent again", api, out).await,
            Self::Drop(args) => act(args, "drop", "is not sent any more", api, out).await,
        }
    }
}

async fn act(args: OneArgs, verb: &str, done: &str, api: &Api, out: &mut Output) -> Result<(), Stop> {
    let answer = api.act(Method::POST, &format!("{}/{verb}", path(&args.delivery))).await?;
    let state = show::plain(&answer.value()["state"]);
    show::said(out, args.show, &answer, &format!("{}: {done} (it is {state})", args.delivery))
}
