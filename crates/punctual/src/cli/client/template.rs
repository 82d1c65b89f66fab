//! `punctual template`: named jobs to begin with.

use clap::{Args, Subcommand};

use super::api::{Api, escaped};
use super::job::NewArgs;
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::{Body, TargetArgs};
use crate::cli::{Output, Stop};

/// Make and look at templates: named jobs to begin with
#[derive(Subcommand)]
pub(crate) enum TemplateCommand {
    /// Make a template
    Add(Box<AddArgs>),
    /// List templates
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Show one template
    Show(OneArgs),
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// What it is called
    name: String,
    #[command(flatten)]
    new: NewArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// Its name
    template: String,
    #[command(flatten)]
    show: ShowArgs,
}

const TEMPLATES: &[Column] = &[
    ("NAME", Cell::Text("/name")),
    ("KIND", Cell::Text("/job/target/kind")),
    ("QUEUE", Cell::Text("/job/queue")),
    ("CREATED", Cell::Time("/created_at")),
];

impl TemplateCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Add(args) => {
                let (mut job, mut body) = (Body::default(), Body::default());
                args.new.put(&mut job);
                args.target.put(api, &mut job, true)?;
                body.put("name", Some(&args.name));
                body.put("job", Some(job));
                let answer = api.create("/templates", &body).await?;
                let words = format!("{0}: created; use it with `punctual job add --template {0}`", args.name);
                show::said(out, args.show, &answer, &words)
            }
            Self::Ls(list) => {
                let empty = "no templates; make one with `punctual template add NAME -- CMD`";
                show::list(out, list, TEMPLATES, empty, async || api.list("/templates", list.limit).await).await
            }
            Self::Show(args) => {
                show::one(out, args.show, &api.get(&format!("/templates/{}", escaped(&args.template))).await?)
            }
        }
    }
}
