//! When a schedule fires and by which policies, as flags.

use clap::Args;
use serde_json::{Map, Value, json};

use super::target::Body;

/// When a schedule fires.
#[derive(Args)]
#[command(next_help_heading = "When")]
pub(crate) struct TimingArgs {
    /// A cron expression of five or six fields, or @daily and its like
    #[arg(long, value_name = "EXPR", group = "when")]
    cron: Option<String>,
    /// The name of a cron preset, such as weekdays-9am; `punctual preset ls` lists them
    #[arg(long, value_name = "NAME", group = "when")]
    preset: Option<String>,
    /// A fixed distance, such as 90s or 1h30m
    #[arg(long, value_name = "TIME", group = "when")]
    every: Option<String>,
    /// A single instant, such as 2026-12-01T08:00:00Z
    #[arg(long, value_name = "INSTANT", group = "when")]
    at: Option<String>,
    /// The time zone in which cron is read, such as Europe/Berlin [default: UTC]
    #[arg(long, visible_alias = "timezone", value_name = "ZONE")]
    tz: Option<String>,
    /// A local time that a clock change leaves out: next (right after it) or skip
    #[arg(long, value_name = "RULE")]
    dst_gap: Option<String>,
    /// A local time that a clock change brings twice: first, second or both
    #[arg(long, value_name = "RULE")]
    dst_overlap: Option<String>,
    /// Not before this instant
    #[arg(long, value_name = "INSTANT")]
    starts_at: Option<String>,
    /// Not after this instant
    #[arg(long, value_name = "INSTANT")]
    ends_at: Option<String>,
}

impl TimingArgs {
    pub(crate) fn put(&self, body: &mut Body) {
        body.put("cron", self.cron.as_ref());
        body.put("preset", self.preset.as_ref());
        body.put("every", self.every.as_ref());
        body.put("at", self.at.as_ref());
        body.put("timezone", self.tz.as_ref());
        body.put("dst_gap", self.dst_gap.as_ref());
        body.put("dst_overlap", self.dst_overlap.as_ref());
        body.put("starts_at", self.starts_at.as_ref());
        body.put("ends_at", self.ends_at.as_ref());
    }
}

/// What can be said of a schedule beside when and what.
#[derive(Args)]
#[command(next_help_heading = "Policies")]
pub(crate) struct PolicyArgs {
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A label, KEY=VALUE; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = key_and_value)]
    labels: Vec<(String, String)>,
    /// The queue its jobs go to [default: default]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Higher goes first [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// A tag of its jobs that limits count; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Whether its jobs run one at a time, in order
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    serial: Option<bool>,
    /// What becomes of slots that passed while nobody could fire: skip, once or all [default: once]
    #[arg(long, value_name = "POLICY")]
    missed: Option<String>,
    /// What happens while an earlier run is alive: allow, forbid, replace or `queue_one` [default: allow]
    #[arg(long, value_name = "POLICY")]
    overlap: Option<String>,
    /// The most runs that are alive at once
    #[arg(long, value_name = "N")]
    max_concurrent_runs: Option<u32>,
    /// Whether its slots fire at once although the cap on fires of `punctual settings` is reached
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    burst_allowed: Option<bool>,
    /// Pause after so many failed runs in a row, retries included; 0 to go on whatever happens
    #[arg(long, value_name = "N")]
    pause_after_failures: Option<u32>,
    /// Skip the days and times that this calendar closes
    #[arg(long, value_name = "NAME", conflicts_with = "no_calendar")]
    calendar: Option<String>,
    /// Obey no calendar
    #[arg(long)]
    no_calendar: bool,
    /// Each slot is due up to this much later
    #[arg(long, value_name = "TIME")]
    jitter: Option<String>,
    /// How often a job is tried in all
    #[arg(long, value_name = "N")]
    attempts: Option<u32>,
    /// With --serial, whether the next jobs wait when one fails: continue or hold [default: continue]
    #[arg(long, value_name = "WHAT")]
    serial_on_failure: Option<String>,
    /// How long a job may run, or none [default: 1h]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
}

impl PolicyArgs {
    /// Whether something is said about a part of the retry policy.
    pub(crate) fn changes_retry(&self) -> bool {
        self.attempts.is_some() || self.serial_on_failure.is_some()
    }

    /// `retry` is the policy that other attempts are put into.
    pub(crate) fn put(&self, body: &mut Body, retry: Value) {
        body.put("description", self.description.as_ref());
        body.put("queue", self.queue.as_ref());
        body.put("missed", self.missed.as_ref());
        body.put("overlap", self.overlap.as_ref());
        body.put("jitter", self.jitter.as_ref());
        body.put("timeout", self.timeout.as_ref());
        body.put("priority", self.priority);
        body.put("tags", Some(&self.tags).filter(|tags| !tags.is_empty()));
        body.put("serial", self.serial);
        body.put("max_concurrent_runs", self.max_concurrent_runs);
        body.put("burst_allowed", self.burst_allowed);
        let after = self.pause_after_failures.map(|after| if after == 0 { Value::Null } else { json!(after) });
        body.put("pause_after_failures", after);
        body.put("calendar", self.calendar.as_ref());
        body.put("calendar", self.no_calendar.then_some(Value::Null));
        body.put(
            "retry",
            self.changes_retry().then(|| retrying(retry, self.attempts, self.serial_on_failure.as_ref())),
        );
        if !self.labels.is_empty() {
            let labels: Map<String, Value> = self.labels.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
            body.put("labels", Some(labels));
        }
    }
}

/// A retry policy with another number of attempts, or with another word for the serial key, as far as they are said.
pub(crate) fn retrying(mut policy: Value, attempts: Option<u32>, serial_on_failure: Option<&String>) -> Value {
    if let Some(most) = attempts {
        policy["max_attempts"] = json!(most);
    }
    if let Some(word) = serial_on_failure {
        policy["serial_on_failure"] = json!(word);
    }
    policy
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("use KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
