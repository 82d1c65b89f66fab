//! `punctual schedule stats`: how a schedule does, in figures.

use std::io::Write;

use clap::Args;
use jiff::SignedDuration;
use serde_json::Value;

use super::api::{Api, escaped, with_query};
use super::show::{self, ShowArgs};
use crate::cli::{Output, Stop};

/// Say how late it starts, how long it runs, how often it goes well, and on which node
#[derive(Args)]
pub(crate) struct StatsArgs {
    /// The schedule's name or id
    schedule: String,
    /// How far back to look
    #[arg(long, value_name = "TIME", default_value = "7d")]
    window: String,
    #[command(flatten)]
    show: ShowArgs,
}

impl StatsArgs {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let path = format!("/schedules/{}/stats", escaped(&self.schedule));
        let answer = api.get(&with_query(&path, &[("window", Some(&self.window))])).await?;
        if !self.show.is_for_people() {
            return Ok(show::json(out, &answer)?);
        }
        let stats = answer.value();
        for success in list(&stats["success"]) {
            writeln!(out, "{:<14} {}", format!("last {}", show::plain(&success["window"])), ends(success))?;
        }
        writeln!(out, "{:<14} {} in a row", "failures", show::plain(&stats["consecutive_failures"]))?;
        for (name, field) in [("lateness", "lateness"), ("claimed after", "claim_latency"), ("duration", "duration")] {
            writeln!(out, "{name:<14} {}", spread(&stats[field]))?;
        }
        for tally in list(&stats["slots"]) {
            let [decision, reason, slots] = ["decision", "reason", "slots"].map(|field| show::plain(&tally[field]));
            writeln!(out, "{:<14} {slots} {decision} ({reason})", "slots")?;
        }
        for node in list(&stats["nodes"]) {
            let [id, runs, last] = ["node_id", "runs", "last_claimed_at"].map(|field| show::plain(&node[field]));
            writeln!(out, "{:<14} {id}: {runs} runs, the last claimed at {last}", "node")?;
        }
        if stats["more"] == Value::Bool(true) {
            writeln!(out, "only the latest 10,000 were looked at; choose a shorter --window for all of one")?;
        }
        Ok(())
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// How work ended in a window.
fn ends(success: &Value) -> String {
    let [completed, failed] = ["completed", "failed"].map(|field| show::plain(&success[field]));
    match success["rate"].as_f64() {
        Some(rate) => format!("{:.1} % well: {completed} completed, {failed} failed", rate * 100.0),
        None => "nothing ended".to_owned(),
    }
}

fn spread(spread: &Value) -> String {
    let length = |field: &str| {
        let ms = spread[field].as_f64().unwrap_or_default();
        if ms < 1000.0 { format!("{ms:.1}ms") } else { rounded(ms) }
    };
    if spread.is_null() {
        return "nothing ran".to_owned();
    }
    format!("p50 {}, p95 {}, max {}", length("p50_ms"), length("p95_ms"), length("max_ms"))
}

/// A length to the tenth of a second below a minute, and to the second above.
fn rounded(ms: f64) -> String {
    let length = SignedDuration::try_from_secs_f64(ms / 1000.0).unwrap_or(SignedDuration::MAX);
    if ms < 60_000.0 { format!("{:.1}s", ms / 1000.0) } else { format!("{length:#}") }
}
