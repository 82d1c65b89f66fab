//! `punctual grant`: durable permission to run graphs.

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::json;

use super::api::{Api, escaped};
use super::limit::rate;
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::Body;
use crate::cli::{Output, Stop};

/// Make, look at and revoke grants
#[derive(Subcommand)]
pub(crate) enum GrantCommand {
    /// Make a grant: graphs run under it, and its billing account pays
    Add(AddArgs),
    /// List grants, latest made first
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Show one grant
    Show(OneArgs),
    /// Revoke a grant: nothing begins under it any more
    Revoke(OneArgs),
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// Who pays; the account is made with the first grant that names it
    #[arg(long, value_name = "ACCOUNT")]
    account: String,
    /// A graph it covers, such as flow:etl; may be given more than once [default: every graph]
    #[arg(long = "graph", value_name = "GRAPH")]
    graphs: Vec<String>,
    /// Until when it is good [default: until it is revoked]
    #[arg(long, value_name = "INSTANT")]
    expires_at: Option<String>,
    /// How many graph runs it allows at all [default: any number]
    #[arg(long, value_name = "RUNS")]
    max_runs: Option<u32>,
    /// How many graph runs it allows in a while, such as `10/1m`
    #[arg(long, value_name = "RUNS/TIME", value_parser = rate)]
    rate: Option<(u32, String)>,
    /// How many at once after a quiet time; as many as the rate says unless given
    #[arg(long, value_name = "RUNS", requires = "rate")]
    burst: Option<u32>,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// The grant's id
    grant: String,
    #[command(flatten)]
    show: ShowArgs,
}

const GRANTS: &[Column] = &[
    ("ID", Cell::Text("/id")),
    ("OWNER", Cell::Text("/owner")),
    ("ACCOUNT", Cell::Text("/billing_account")),
    ("SCOPES", Cell::Text("/scopes")),
    ("RUNS", Cell::Text("/runs")),
    ("AT MOST", Cell::Text("/max_runs")),
    ("EXPIRES", Cell::Time("/expires_at")),
    ("REVOKED", Cell::Time("/revoked_at")),
];

impl GrantCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Add(args) => args.run(api, out).await,
            Self::Ls(list) => {
                let empty = "no grants; make one with `punctual grant add --account NAME --graph flow:etl`";
                show::list(out, list, GRANTS, empty, async || api.list("/grants", list.limit).await).await
            }
            Self::Show(args) => show::one(out, args.show, &api.get(&path(&args.grant)).await?),
            Self::Revoke(args) => {
                let answer = api.act(Method::POST, &format!("{}/revoke", path(&args.grant))).await?;
                show::said(out, args.show, &answer, &format!("{}: revoked", args.grant))
            }
        }
    }
}

fn path(grant: &str) -> String {
    format!("/grants/{}", escaped(grant))
}

impl AddArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let graphs = if self.graphs.is_empty() { vec!["*".to_owned()] } else { self.graphs };
        let scopes: Vec<String> = graphs.iter().map(|graph| format!("graph:execute:{graph}")).collect();
        let mut body = Body::default();
        body.put("billing_account", Some(&self.account));
        body.put("scopes", Some(scopes));
        body.put("expires_at", self.expires_at.as_ref());
        body.put("max_runs", self.max_runs);
        body.put("rate", self.rate.map(|(jobs, per)| json!({ "jobs": jobs, "per": per, "burst": self.burst })));
        let answer = api.create("/grants", &body).await?;
        show::said(out, self.show, &answer, &show::plain(&answer.value()["id"]))
    }
}
