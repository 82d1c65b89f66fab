//! `punctual queue`: look at queues, stop and start them, hold one for yourself.

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::json;

use super::api::{Api, escaped};
use super::reserve;
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
    #[command(after_help = reserve::EXAMPLES)]
    Reserve(reserve::ReserveArgs),
    /// Give a hold back
    Release(ReleaseArgs),
    /// Look at serial keys that are held by a failure, and let them go
    #[command(subcommand)]
    Serial(SerialCommand),
}

/// Look at serial keys that are held by a failure, and let them go
#[derive(Subcommand)]
pub(crate) enum SerialCommand {
    /// List the keys whose next jobs wait until a failed one is made good
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Let the next job of a key go
    Release(SerialReleaseArgs),
}

#[derive(Args)]
pub(crate) struct SerialReleaseArgs {
    /// The serial key
    key: String,
    #[command(flatten)]
    show: ShowArgs,
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

const HELD: &[Column] = &[
    ("KEY", Cell::Text("/key")),
    ("FAILED JOB", Cell::Text("/job_id")),
    ("QUEUED", Cell::Count("/waiting")),
    ("HELD SINCE", Cell::Time("/held_at")),
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
            Self::Serial(command) => command.run(api, out).await,
            Self::Release(args) => {
                let answer = api.act(Method::DELETE, &format!("/reservations/{}", escaped(&args.reservation))).await?;
                show::said(out, args.show, &answer, &format!("{}: released", args.reservation))
            }
        }
    }
}

pub(crate) fn path(queue: &str) -> String {
    format!("/queues/{}", escaped(queue))
}

async fn set_paused(api: &Api, out: &mut Output, args: &OneArgs, paused: bool) -> Result<(), Stop> {
    let answer = api.change(Method::PATCH, &path(&args.queue), &json!({ "paused": paused })).await?;
    let done = if paused { "paused; jobs that run go on" } else { "resumed" };
    show::said(out, args.show, &answer, &format!("{}: {done}", args.queue))
}

impl SerialCommand {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Ls(list) => {
                let look = async || api.list("/serial-keys", list.limit).await;
                show::list(out, list, HELD, "no serial key is held", look).await
            }
            Self::Release(args) => {
                let path = format!("/serial-keys/{}/release", escaped(&args.key));
                let answer = api.act(Method::POST, &path).await?;
                let waiting = show::plain(&answer.value()["waiting"]["count"]);
                show::said(out, args.show, &answer, &format!("{}: released, {waiting} queued", args.key))
            }
        }
    }
}
