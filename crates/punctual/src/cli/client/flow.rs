//! `punctual flow`: store, run and look at flows.

use std::path::{Path, PathBuf};

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::api::{Api, escaped};
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::{Body, json_text};
use crate::cli::{Output, Stop};

/// Store, run and look at flows: steps that follow one another
#[derive(Subcommand)]
pub(crate) enum FlowCommand {
    /// Store a flow, or the next version of it
    #[command(after_help = "Examples:\n  \
        punctual flow add etl --file etl.toml\n  \
        punctual flow add nightly --sequential --step dump='pg_dump shop > shop.sql' --step ship='gzip shop.sql'\n  \
        punctual schedule add nightly --cron '0 2 * * *' --flow nightly")]
    Add(AddArgs),
    /// List flows
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Show one flow
    Show(OneArgs),
    /// Forget a flow that no schedule needs
    Rm(OneArgs),
    /// Run a flow now
    Run(RunArgs),
    /// Show how far a flow is, step by step
    #[command(visible_alias = "status")]
    Steps(StepsArgs),
    /// List the items that a step is run for
    Items(ItemsArgs),
}

#[derive(Args)]
pub(crate) struct AddArgs {
    /// What jobs and schedules call it
    name: String,
    /// Read the definition from this file, JSON or TOML; `-` reads JSON from standard input
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["steps", "sequential"])]
    file: Option<PathBuf>,
    /// A step: its name, and what /bin/sh is to do; may be given more than once, and all begin at once
    #[arg(long = "step", value_name = "NAME=SCRIPT", value_parser = named)]
    steps: Vec<(String, String)>,
    /// The steps follow one another as they are given
    #[arg(long)]
    sequential: bool,
    /// What it is for
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    description: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// Its name
    flow: String,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// Its name
    flow: String,
    /// What it is given, as JSON
    #[arg(long, value_name = "JSON", value_parser = json_text)]
    input: Option<Box<RawValue>>,
    /// The queue that it and its steps go to [default: default]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// How long it may take as a whole [default: for ever; each step has a time of its own]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct StepsArgs {
    /// The flow's job
    job: String,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct ItemsArgs {
    /// The flow's job
    job: String,
    /// The step
    step: String,
    #[command(flatten)]
    list: ListArgs,
}

const FLOWS: &[Column] = &[
    ("NAME", Cell::Text("/name")),
    ("STEPS", Cell::Words(|flow| flow["steps"].as_array().map_or(0, Vec::len).to_string())),
    ("VERSION", Cell::Text("/version")),
    ("CHANGED", Cell::Time("/updated_at")),
    ("DESCRIPTION", Cell::Text("/description")),
];

const STEPS: &[Column] = &[
    ("STEP", Cell::Text("/name")),
    ("STATE", Cell::Text("/state")),
    (
        "AFTER",
        Cell::Words(|step| {
            step["after"].as_array().into_iter().flatten().map(show::plain).collect::<Vec<_>>().join(" ")
        }),
    ),
    ("ITEMS", Cell::Words(items)),
    ("STARTED", Cell::Time("/started_at")),
    ("ENDED", Cell::Time("/ended_at")),
    ("JOB", Cell::Text("/job_id")),
    ("ERROR", Cell::Text("/error")),
];

const ITEMS: &[Column] = &[
    ("ITEM", Cell::Text("/item")),
    ("OUTCOME", Cell::Text("/outcome")),
    ("JOB", Cell::Text("/job_id")),
    ("VALUE", Cell::Words(|item| item["value"].to_string())),
];

/// `7/10, 1 failed`.
fn items(step: &Value) -> String {
    let Some(items) = step["items"].as_object() else { return String::new() };
    let failed = items["failed"].as_u64().filter(|failed| *failed > 0);
    let failed = failed.map_or_else(String::new, |failed| format!(", {failed} failed"));
    format!("{}/{}{failed}", items["ended"], items["total"])
}

fn named(text: &str) -> Result<(String, String), String> {
    let (name, script) = text.split_once('=').ok_or("use NAME=SCRIPT, such as dump='pg_dump shop'")?;
    Ok((name.to_owned(), script.to_owned()))
}

/// A definition from a file, to the letter where it is JSON.
fn read(file: &Path) -> Result<Box<RawValue>, Stop> {
    let refused = |why: String| Stop::usage(format!("{}: {why}", file.display()));
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())?
    } else {
        std::fs::read_to_string(file).map_err(|error| refused(error.to_string()))?
    };
    if file.extension().is_some_and(|extension| extension == "toml") {
        let value: Value = toml::from_str(&text).map_err(|error| refused(format!("not TOML: {error}")))?;
        return serde_json::value::to_raw_value(&value).map_err(|error| refused(error.to_string()));
    }
    json_text(&text).map_err(|error| refused(format!("{error} (a TOML file ends with .toml)")))
}

impl AddArgs {
    fn definition(&self, api: &Api) -> Result<Box<RawValue>, Stop> {
        if let Some(file) = &self.file {
            return read(file);
        }
        if self.steps.is_empty() {
            return Err(Stop::usage(
                "nothing to do; give the definition with --file, or steps with --step NAME=SCRIPT",
            ));
        }
        let mut steps = Vec::new();
        for (name, script) in &self.steps {
            let target = super::target::command(api, std::slice::from_ref(script), None, true)?;
            steps.push(json!({ "name": name, "target": target }));
        }
        let order = if self.sequential { "sequential" } else { "graph" };
        let definition = json!({ "description": self.description, "order": order, "steps": steps });
        serde_json::value::to_raw_value(&definition).map_err(|error| Stop::usage(error.to_string()))
    }
}

fn path(flow: &str) -> String {
    format!("/flows/{}", escaped(flow))
}

impl FlowCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Add(args) => {
                let saved = api.change(Method::PUT, &path(&args.name), &args.definition(api)?).await?;
                let words = format!("{0}: stored; run it with `punctual flow run {0}`", args.name);
                show::said(out, args.show, &saved, &words)
            }
            Self::Ls(list) => {
                let empty = "no flows; store one with `punctual flow add NAME --file FILE`";
                show::list(out, list, FLOWS, empty, async || api.list("/flows", list.limit).await).await
            }
            Self::Show(args) => show::one(out, args.show, &api.get(&path(&args.flow)).await?),
            Self::Rm(args) => {
                let answer = api.act(Method::DELETE, &path(&args.flow)).await?;
                show::said(out, args.show, &answer, &format!("{}: forgotten", args.flow))
            }
            Self::Run(args) => args.run(api, out).await,
            Self::Steps(args) => {
                let run = api.get(&format!("/jobs/{}/steps", escaped(&args.job))).await?;
                if !args.show.is_for_people() {
                    return show::one(out, args.show, &run);
                }
                show::rows(out, args.show, STEPS, &run.value()["steps"])
            }
            Self::Items(ItemsArgs { job, step, list }) => {
                let path = format!("/jobs/{}/steps/{}/items", escaped(&job), escaped(&step));
                show::list(out, list, ITEMS, "no items", async || api.list(&path, list.limit).await).await
            }
        }
    }
}

impl RunArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let mut body = Body::default();
        body.put("target", Some(json!({ "kind": "flow", "name": self.flow })));
        body.put("input", self.input);
        body.put("queue", self.queue);
        body.put("timeout", self.timeout);
        let made = api.create("/jobs", &body).await?;
        let id = show::plain(&made.value()["id"]);
        let words = format!("{}: job {id}; see how far it is with `punctual flow steps {id}`", self.flow);
        show::said(out, self.show, &made, &words)
    }
}
