//! `punctual billing`: who pays for graphs, and what was used.

use clap::{Args, Subcommand};

use super::api::{Api, escaped, with_query};
use super::show::{self, Cell, Column, Format, ListArgs, ShowArgs};
use super::target::Body;
use crate::cli::{Output, Stop};

/// Look at billing accounts and what was used of them
#[derive(Subcommand)]
pub(crate) enum BillingCommand {
    /// Make a billing account; the first grant that names one makes it, too
    Add(AddArgs),
    /// List billing accounts
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Say what an account used in a while, by graph and unit
    Usage(UsageArgs),
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// What it is called
    name: String,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct UsageArgs {
    /// The account
    account: String,
    /// Whose; only an admin can ask for another than his own
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// From this instant on [default: 30 days before the end]
    #[arg(long, value_name = "INSTANT")]
    from: Option<String>,
    /// Before this instant [default: now]
    #[arg(long, value_name = "INSTANT")]
    to: Option<String>,
    #[command(flatten)]
    list: ListArgs,
}

const ACCOUNTS: &[Column] = &[
    ("NAME", Cell::Text("/name")),
    ("OWNER", Cell::Text("/owner")),
    ("KEY", Cell::Text("/virtual_key")),
    ("MADE", Cell::Time("/created_at")),
];

const USAGE: &[Column] = &[
    ("GRAPH", Cell::Text("/graph_id")),
    ("UNIT", Cell::Text("/unit")),
    ("QUANTITY", Cell::Text("/quantity")),
    ("RUNS", Cell::Text("/runs")),
];

impl BillingCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Add(args) => {
                let mut body = Body::default();
                body.put("name", Some(&args.name));
                let answer = api.create("/billing/accounts", &body).await?;
                show::said(out, args.show, &answer, &format!("{}: grants can name it", args.name))
            }
            Self::Ls(list) => {
                let empty = "no billing accounts; a grant makes its own";
                let look = async || api.list("/billing/accounts", list.limit).await;
                show::list(out, list, ACCOUNTS, empty, look).await
            }
            Self::Usage(args) => args.run(api, out).await,
        }
    }
}

impl UsageArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let asked = [("owner", self.owner.as_deref()), ("from", self.from.as_deref()), ("to", self.to.as_deref())];
        let path = with_query(&format!("/billing/accounts/{}/usage", escaped(&self.account)), &asked);
        if self.list.show.format() == Format::Json {
            return Ok(show::json(out, &api.get(&path).await?)?);
        }
        show::list(out, self.list, USAGE, "nothing was used", async || api.get(&path).await?.page()).await
    }
}
