//! `punctual token`: make, list and revoke API tokens.

use std::io::Write;

use axum::http::Method;
use clap::{Args, Subcommand};

use super::api::{Api, escaped};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::Body;
use crate::cli::{Output, Stop};

/// Make, list and revoke API tokens
#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; its secret is printed once, and kept nowhere
    Add(AddArgs),
    /// List tokens, latest made first
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Make a token invalid, and end the sessions that were opened with it
    #[command(visible_alias = "rm")]
    Revoke(RevokeArgs),
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// What it is called, for people
    name: String,
    /// Whose it is: it sees and changes only what this owner made, unless it is an admin's
    #[arg(long, value_name = "OWNER")]
    owner: String,
    /// What it allows: viewer, operator or admin
    #[arg(long, value_name = "ROLE", default_value = "operator")]
    role: String,
    /// Until when it is valid [default: until it is revoked]
    #[arg(long, value_name = "INSTANT")]
    expires_at: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct RevokeArgs {
    /// The token's id
    #[arg(value_name = "TOKEN")]
    id: String,
    #[command(flatten)]
    show: ShowArgs,
}

const TOKENS: &[Column] = &[
    ("ID", Cell::Text("/id")),
    ("NAME", Cell::Text("/name")),
    ("OWNER", Cell::Text("/owner")),
    ("ROLE", Cell::Text("/role")),
    ("BEGINS WITH", Cell::Text("/prefix")),
    ("EXPIRES", Cell::Time("/expires_at")),
    ("USED", Cell::Time("/last_used_at")),
    ("REVOKED", Cell::Time("/revoked_at")),
];

impl TokenCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Add(args) => {
                let mut body = Body::default();
                body.put("name", Some(&args.name));
                body.put("owner", Some(&args.owner));
                body.put("role", Some(&args.role));
                body.put("expires_at", args.expires_at.as_ref());
                let answer = api.create("/tokens", &body).await?;
                show::said(out, args.show, &answer, &show::plain(&answer.value()["secret"]))?;
                if args.show.is_for_people() {
                    out.flush()?;
                    writeln!(std::io::stderr(), "keep it now: it is not shown again")?;
                }
                Ok(())
            }
            Self::Ls(list) => {
                show::list(out, list, TOKENS, "no tokens", async || api.list("/tokens", list.limit).await).await
            }
            Self::Revoke(args) => {
                let answer = api.act(Method::DELETE, &format!("/tokens/{}", escaped(&args.id))).await?;
                show::said(out, args.show, &answer, &format!("{}: revoked", args.id))
            }
        }
    }
}
