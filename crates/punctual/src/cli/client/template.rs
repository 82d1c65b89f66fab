//! `punctual template`: named jobs to begin with, and what is filled in when one is used.

use std::collections::BTreeMap;

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::value::RawValue;
use serde_json::{Value, json};

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
    /// Forget a template; what was made from it stays
    Rm(OneArgs),
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// What it is called
    name: String,
    /// A field of the input that whoever uses it fills in: NAME:TYPE, NAME:TYPE! if it must be given, or
    /// NAME:TYPE=DEFAULT; the types are text, integer, number, boolean and json
    #[arg(long = "param", value_name = "NAME:TYPE", value_parser = parameter)]
    parameters: Vec<Value>,
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
                body.put("parameters", Some(&args.parameters).filter(|parameters| !parameters.is_empty()));
                let answer = api.create("/templates", &body).await?;
                let words = format!("{0}: created; use it with `punctual job add --template {0}`", args.name);
                show::said(out, args.show, &answer, &words)
            }
            Self::Ls(list) => {
                let empty = "no templates; make one with `punctual template add NAME -- CMD`";
                show::list(out, list, TEMPLATES, empty, async || api.list("/templates", list.limit).await).await
            }
            Self::Rm(args) => {
                let answer = api.act(Method::DELETE, &format!("/templates/{}", escaped(&args.template))).await?;
                show::said(out, args.show, &answer, &format!("{}: gone", args.template))
            }
            Self::Show(args) => {
                show::one(out, args.show, &api.get(&format!("/templates/{}", escaped(&args.template))).await?)
            }
        }
    }
}

/// A parameter as it is written: `to:text!`, `copies:integer=1`, `note:text`.
fn parameter(text: &str) -> Result<Value, String> {
    let wanted = "use NAME:TYPE, NAME:TYPE! or NAME:TYPE=DEFAULT, such as to:text! or copies:integer=1";
    let (name, rest) = text.split_once(':').ok_or(wanted)?;
    let mut parameter = json!({ "name": name });
    let kind = if let Some((kind, default)) = rest.split_once('=') {
        parameter["default"] = given(kind, default);
        kind
    } else if let Some(kind) = rest.strip_suffix('!') {
        parameter["required"] = json!(true);
        kind
    } else {
        rest
    };
    parameter["type"] = json!(kind);
    Ok(parameter)
}

/// A value as it is written: a text as it stands, anything else as JSON.
fn given(kind: &str, text: &str) -> Value {
    match kind {
        "text" => json!(text),
        _ => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
    }
}

/// What is filled in for a template's parameters.
#[derive(Args)]
pub(crate) struct UseArgs {
    /// Begin with this template
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// What is filled in for one of its parameters, NAME=VALUE: JSON, or a text as it stands
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "template", value_parser = setting)]
    set: Vec<(String, Box<RawValue>)>,
}

impl UseArgs {
    pub(crate) fn put(&self, body: &mut Body) {
        body.put("template", self.template.as_ref());
        let set: BTreeMap<&String, &RawValue> = self.set.iter().map(|(name, value)| (name, &**value)).collect();
        body.put("parameters", Some(set).filter(|set| !set.is_empty()));
    }
}

fn setting(text: &str) -> Result<(String, Box<RawValue>), String> {
    let (name, value) = text.split_once('=').ok_or("use NAME=VALUE")?;
    let as_text = || serde_json::value::to_raw_value(value);
    let value = RawValue::from_string(value.to_owned()).or_else(|_| as_text()).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value))
}
