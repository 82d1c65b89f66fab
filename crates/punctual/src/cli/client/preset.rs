//! `punctual preset`: cron expressions with a name.

use axum::http::Method;
use clap::{Args, Subcommand};

use super::api::{Api, escaped};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::Body;
use crate::cli::{Output, Stop};

/// Make and look at cron presets: named expressions for `schedule add --preset`
#[derive(Subcommand)]
pub(crate) enum PresetCommand {
    /// Make a preset
    Add(AddArgs),
    /// List presets, those of the program and those that people made
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Forget a preset; schedules keep their expressions
    Rm(OneArgs),
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// What it is called
    name: String,
    /// A cron expression
    expression: String,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// Its name
    preset: String,
    #[command(flatten)]
    show: ShowArgs,
}

const PRESETS: &[Column] = &[
    ("NAME", Cell::Text("/name")),
    ("EXPRESSION", Cell::Text("/expression")),
    ("DESCRIPTION", Cell::Text("/description")),
];

impl PresetCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Add(args) => {
                let mut body = Body::default();
                body.put("name", Some(&args.name));
                body.put("expression", Some(&args.expression));
                body.put("description", args.description.as_ref());
                let answer = api.create("/cron/presets", &body).await?;
                let words = format!("{0}: created; use it with `punctual schedule add --preset {0}`", args.name);
                show::said(out, args.show, &answer, &words)
            }
            Self::Ls(list) => {
                let look = async || api.list("/cron/presets", list.limit).await;
                show::list(out, list, PRESETS, "no presets", look).await
            }
            Self::Rm(args) => {
                let answer = api.act(Method::DELETE, &format!("/cron/presets/{}", escaped(&args.preset))).await?;
                show::said(out, args.show, &answer, &format!("{}: gone", args.preset))
            }
        }
    }
}
