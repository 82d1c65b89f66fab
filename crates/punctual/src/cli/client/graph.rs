//! `punctual graph`: which graphs there are, and running one under a grant.

use clap::{Args, Subcommand};
use serde_json::value::RawValue;

use super::api::{Api, escaped};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::{Body, json_text};
use crate::cli::{Exit, Output, Stop};

/// Look at graphs and run them
#[derive(Subcommand)]
pub(crate) enum GraphCommand {
    /// List the graphs of the server's providers
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Run a graph: a job that calls the execution service
    Run(RunArgs),
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// The graph, PROVIDER:NAME
    graph: String,
    /// The grant it runs under [default: your only one that fits]
    #[arg(long, value_name = "ID")]
    grant: Option<String>,
    /// What it is given, as JSON
    #[arg(long, value_name = "JSON", value_parser = json_text)]
    input: Option<Box<RawValue>>,
    /// Its queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Wait for its end so long, such as 30s; at most a minute
    #[arg(long, value_name = "TIME")]
    wait: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
}

const GRAPHS: &[Column] =
    &[("ID", Cell::Text("/id")), ("PROVIDER", Cell::Text("/provider")), ("PROBLEM", Cell::Text("/problem"))];

impl GraphCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Ls(list) => {
                let empty = "no graphs; the server has no provider that has any";
                show::list(out, list, GRAPHS, empty, async || api.get("/graphs").await?.page()).await
            }
            Self::Run(args) => args.run(api, out).await,
        }
    }
}

impl RunArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let mut body = Body::default();
        body.put("grant_id", self.grant.as_ref());
        body.put("input", self.input);
        body.put("queue", self.queue.as_ref());
        let wait = self.wait.map(|wait| format!("?wait={}", escaped(&wait))).unwrap_or_default();
        let answer = api.create(&format!("/graphs/{}/runs{wait}", escaped(&self.graph)), &body).await?;
        let job = answer.value();
        let words = format!("{}: {}", show::plain(&job["id"]), show::plain(&job["state"]));
        show::said(out, self.show, &answer, &words)?;
        if job["state"] == "failed" || job["state"] == "cancelled" {
            let why = show::plain(&job["run"]["error"]);
            return Err(Stop::Failed(Exit::JobFailed, format!("the job is {}: {why}", show::plain(&job["state"]))));
        }
        Ok(())
    }
}
