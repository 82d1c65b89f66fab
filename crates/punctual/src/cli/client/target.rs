//! What a job is to do, as flags: a command after `--`, or one of the other kinds; and requests as they are put together.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::api::Api;
use crate::cli::Stop;

/// What is sent: field by field, so that a document that was given goes out to the letter.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Body(BTreeMap<&'static str, Box<RawValue>>);

impl Body {
    /// Puts a field, if there is a value for it.
    pub(crate) fn put(&mut self, field: &'static str, value: Option<impl Serialize>) {
        if let Some(raw) = value.and_then(|value| serde_json::value::to_raw_value(&value).ok()) {
            self.0.insert(field, raw);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }
}

/// What is to be done.
#[derive(Args)]
#[command(next_help_heading = "What to do")]
pub(crate) struct TargetArgs {
    /// Call this address
    #[arg(long, value_name = "URL", group = "what")]
    http: Option<String>,
    /// The method of --http [default: POST]
    #[arg(long, value_name = "METHOD", requires = "http")]
    method: Option<String>,
    /// The body of --http; may use the input, as {{ input.name }}
    #[arg(long, value_name = "TEXT", requires = "http")]
    body: Option<String>,
    /// Call this SQL function, CONNECTION:FUNCTION
    #[arg(long, value_name = "CONNECTION:FUNCTION", group = "what")]
    sql: Option<String>,
    /// Run this graph, PROVIDER:NAME, under --grant
    #[arg(long, value_name = "GRAPH", group = "what", requires = "grant")]
    graph: Option<String>,
    /// The grant it runs under
    #[arg(long, value_name = "ID")]
    grant: Option<String>,
    /// Run this handler of a program that embeds Punctual
    #[arg(long, value_name = "NAME", group = "what")]
    task: Option<String>,
    /// Run this flow
    #[arg(long, value_name = "NAME", group = "what")]
    flow: Option<String>,
    /// The whole target as JSON, for everything that has no flag
    #[arg(long, value_name = "JSON", group = "what", value_parser = json_text)]
    target: Option<Box<RawValue>>,
    /// What it works on, as JSON
    #[arg(long, value_name = "JSON", value_parser = json_text)]
    input: Option<Box<RawValue>>,
    /// The folder a command runs in [default: this one, when it runs on this machine]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["http", "sql", "graph", "task", "flow", "target"])]
    cwd: Option<String>,
    /// Let /bin/sh run the command: its first word is a script
    #[arg(long, conflicts_with_all = ["http", "sql", "graph", "task", "flow", "target"])]
    shell: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD", group = "what")]
    argv: Vec<String>,
}

impl TargetArgs {
    /// Puts target and input into a request; `needed` says whether there must be a target.
    pub(crate) fn put(self, api: &Api, body: &mut Body, needed: bool) -> Result<(), Stop> {
        let target = self.what(api)?;
        if needed && target.is_none() {
            return Err(Stop::usage(
                "nothing to do; give a command after `--`, or --http, --sql, --graph, --task, --flow or --target",
            ));
        }
        body.put("target", target);
        body.put("grant_id", self.grant.as_ref());
        body.put("input", self.input);
        Ok(())
    }

    fn what(&self, api: &Api) -> Result<Option<Box<RawValue>>, Stop> {
        let target = if !self.argv.is_empty() {
            command(api, &self.argv, self.cwd.as_deref(), self.shell)?
        } else if self.cwd.is_some() || self.shell {
            return Err(Stop::usage("--cwd and --shell go with a command; give it after `--`"));
        } else if let Some(url) = &self.http {
            let mut target = json!({ "kind": "http", "method": self.method.as_deref().unwrap_or("POST"), "url": url });
            if let Some(body) = &self.body {
                target["body"] = json!(body);
            }
            target
        } else if let Some(sql) = &self.sql {
            let wanted = || Stop::usage("--sql wants CONNECTION:FUNCTION, such as main:reports.refresh");
            let (connection, function) = sql.split_once(':').ok_or_else(wanted)?;
            json!({ "kind": "sql", "connection": connection, "function": function })
        } else if let Some(id) = &self.graph {
            json!({ "kind": "graph", "id": id })
        } else if let Some(name) = &self.task {
            json!({ "kind": "task", "name": name })
        } else if let Some(name) = &self.flow {
            json!({ "kind": "flow", "name": name })
        } else {
            return Ok(self.target.clone());
        };
        serde_json::value::to_raw_value(&target).map(Some).map_err(|error| Stop::usage(error.to_string()))
    }
}

/// A command as a target. On this machine it runs in this folder, as people expect of what they type; elsewhere the
/// folder would mean nothing.
pub(crate) fn command(api: &Api, argv: &[String], cwd: Option<&str>, shell: bool) -> Result<serde_json::Value, Stop> {
    let mut target = json!({ "kind": "command", "argv": argv });
    let here = || std::env::current_dir().ok().and_then(|folder| folder.to_str().map(str::to_owned));
    let cwd = match cwd {
        Some(folder) if api.is_near() => {
            let whole = std::path::absolute(folder)?;
            Some(whole.to_str().ok_or_else(|| Stop::usage("--cwd is not UTF-8"))?.to_owned())
        }
        Some(folder) => Some(folder.to_owned()),
        None => api.is_near().then(here).flatten(),
    };
    if let Some(folder) = cwd {
        target["cwd"] = json!(folder);
    }
    if shell {
        target["shell"] = json!(true);
    }
    Ok(target)
}

/// JSON on the command line; numbers keep all their digits.
pub(crate) fn json_text(text: &str) -> Result<Box<RawValue>, String> {
    RawValue::from_string(text.to_owned())
        .map_err(|error| format!("not JSON: {error}; quote it, as in '{{\"user\": 7}}'"))
}
