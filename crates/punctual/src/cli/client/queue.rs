//! `punctual queue`: look at queues, stop and start them, hold one for yourself.

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::json;

use super::api::{Api, escaped};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use crate::cli::{Output, Stop};

/// Look at queues, stop and start them, hold one for yourself
#[derive(Subcommand)]
pub(crate) enum QueueCommand {
    /// List queues
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Show one queue
    Show(OneArgs),
    /// List the jobs that wait in a queue, in their order
    Jobs(JobsArgs),
    /// Hand out no more jobs of a queue
    Pause(OneArgs),
    /// Hand out jobs again
    Resume(OneArgs),
    /// Take exclusive hold of a queue: it hands out nothing until it is released or the time is over
    Reserve(ReserveArgs),
    /// Give a hold back
    Release(ReleaseArgs),
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// The queue's name
    queue: String,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct JobsArgs {
    /// The queue's name
    queue: String,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Args)]
pub(crate) struct ReserveArgs {
    /// The queue's name
    queue: String,
    /// For how long, unless it is released before
    #[arg(long = "for", value_name = "TIME", default_value = "5m")]
    expires_in: String,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct ReleaseArgs {
    /// The reservation's id, as `reserve` printed it
    reservation: String,
    #[command(flatten)]
    show: ShowArgs,
}

const QUEUES: &[Column] = &[
    ("NAME", Cell::Text("/name")),
    ("PAUSED", Cell::Text("/paused")),
    ("QUEUED", Cell::Count("/depth")),
    ("RUNNING", Cell::Count("/running")),
    ("AT ONCE", Cell::Text("/concurrency")),
    ("OLDEST", Cell::Time("/oldest_queued_at")),
    ("HELD BY", Cell::Text("/reservation/holder")),
];

const QUEUED: &[Column] = &[
    ("JOB", Cell::Text("/job_id")),
    ("PRIORITY", Cell::Text("/priority")),
    ("READY", Cell::Text("/ready")),
    ("SERIAL KEY", Cell::Text("/serial_key")),
    ("CREATED", Cell::Time("/created_at")),
];

impl QueueCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Ls(list) => {
                let empty = "no queues yet; the first job of a queue makes it";
                show::list(out, list, QUEUES, empty, async || api.list("/queues", list.limit).await).await
            }
            Self::Show(args) => show::one(out, args.show, &api.get(&path(&args.queue)).await?),
            Self::Jobs(args) => {
                let jobs = format!("{}/jobs", path(&args.queue));
                let look = async || api.list(&jobs, args.list.limit).await;
                show::list(out, args.list, QUEUED, "nothing waits in it", look).await
            }
            Self::Pause(args) => set_paused(api, out, &args, true).await,
            Self::Resume(args) => set_paused(api, out, &args, false).await,
            Self::Reserve(args) => args.run(api, out).await,
            Self::Release(args) => {
                let answer = api.act(Method::DELETE, &format!("/reservations/{}", escaped(&args.reservation))).await?;
                show::said(out, args.show, &answer, &format!("{}: released", args.reservation))
            }
        }
    }
}

fn path(queue: &str) -> String {
    format!("/queues/{}", escaped(queue))
}

async fn set_paused(api: &Api, out: &mut Output, args: &OneArgs, paused: bool) -> Result<(), Stop> {
    let answer = api.change(Method::PATCH, &path(&args.queue), &json!({ "paused": paused })).await?;
    let done = if paused { "paused; jobs that run go on" } else { "resumed" };
    show::said(out, args.show, &answer, &format!("{}: {done}", args.queue))
}

impl ReserveArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let body = json!({ "expires_in": self.expires_in });
        let answer = api.create(&format!("{}/reservations", path(&self.queue)), &body).await?;
        let held = answer.value();
        let (id, until) = (show::plain(&held["id"]), show::plain(&held["expires_at"]));
        let words = format!("{id} until {until}; give it back with `punctual queue release {id}`");
        show::said(out, self.show, &answer, &words)
    }
}
