//! `punctual settings`: what holds for the whole installation, whichever node does the work.

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::api::Api;
use super::show::{self, ShowArgs};
use crate::cli::{Output, Stop};

/// Look at and change what holds for all nodes
#[derive(Subcommand)]
pub(crate) enum SettingsCommand {
    /// Show the settings
    Show(ShowArgs),
    /// Change settings
    #[command(after_help = "Examples:\n  \
        punctual settings edit --fires-per-second 50\n  \
        punctual settings edit --fires-per-second none")]
    Edit(EditArgs),
}

#[derive(Args)]
pub(crate) struct EditArgs {
    /// The most slots that fire in any second, across all nodes, or none; what is over it waits
    #[arg(long, value_name = "N", value_parser = limit)]
    fires_per_second: Value,
    #[command(flatten)]
    show: ShowArgs,
}

fn limit(text: &str) -> Result<Value, String> {
    if text == "none" {
        return Ok(Value::Null);
    }
    text.parse::<u32>().map(|number| json!(number)).map_err(|_| "use a number, or none".to_owned())
}

impl SettingsCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Show(show) => {
                let answer = api.get("/settings").await?;
                let cap = cap_in_words(&answer.value());
                show::said(out, show, &answer, &format!("fires_per_second  {cap}"))
            }
            Self::Edit(args) => {
                let body = json!({ "fires_per_second": args.fires_per_second });
                let answer = api.change(Method::PATCH, "/settings", &body).await?;
                let cap = cap_in_words(&answer.value());
                show::said(out, args.show, &answer, &format!("fires_per_second: {cap}"))
            }
        }
    }
}

fn cap_in_words(settings: &Value) -> String {
    match &settings["fires_per_second"] {
        Value::Null => "none".to_owned(),
        cap => show::plain(cap),
    }
}
