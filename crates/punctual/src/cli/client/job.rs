//! `punctual job`: make, look at and steer jobs.

use std::io::Write;
use std::time::Duration;

use axum::http::Method;
use clap::{Args, Subcommand};
use punctual_core::target::Target;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::api::{Answer, Api, escaped, with_query};
use super::bulk;
use super::policy::retrying;
use super::show::{self, Cell, Column, ListArgs, ShowArgs};
use super::target::{Body, TargetArgs, json_text};
use super::template::UseArgs;
use crate::cli::{Output, Stop};

/// How often a log that is followed is asked for news.
const LOOK: Duration = Duration::from_millis(200);

/// How many lines of a log are asked for at once.
const LINES: usize = 500;

/// Make, look at and steer jobs
#[derive(Subcommand)]
pub(crate) enum JobCommand {
    /// Put a job into a queue
    #[command(after_help = "Examples:\n  \
        punctual job add -- ./resize.sh cat.png\n  \
        punctual job add --queue mail --task welcome --input '{\"user\": 7}'\n  \
        punctual job add --run-at 2026-12-01T08:00:00Z --http https://example.org/hook")]
    Add(Box<AddArgs>),
    /// List jobs, latest made first
    #[command(visible_alias = "list")]
    Ls(LsArgs),
    /// Show one job and its run
    Show(OneArgs),
    /// Print what a job wrote
    Logs(LogsArgs),
    /// List the files a job left, or print one of them
    Artifacts(ArtifactsArgs),
    /// Stop a job
    Cancel(OneArgs),
    /// Run a job that failed or was cancelled once more
    Retry(OneArgs),
    /// Give a job that waits another input: a new job takes its place
    Edit(EditArgs),
    /// Change a job's place in its queue
    Move(MoveArgs),
    #[command(after_help = bulk::EXAMPLES)]
    Bulk(bulk::BulkArgs),
}

#[derive(Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    new: NewArgs,
    /// Not before this instant
    #[arg(long, value_name = "INSTANT")]
    run_at: Option<String>,
    #[command(flatten)]
    begin: UseArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    show: ShowArgs,
}

/// What can be said of a job beside what it does.
#[derive(Args)]
pub(crate) struct NewArgs {
    /// The queue it goes to [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Higher goes first [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Jobs with the same key run one at a time, in order
    #[arg(long, value_name = "KEY")]
    serial_key: Option<String>,
    /// Whether the next jobs of its serial key wait when it fails: continue or hold [default: continue]
    #[arg(long, value_name = "WHAT", requires = "serial_key")]
    serial_on_failure: Option<String>,
    /// At most one job with this key waits
    #[arg(long, value_name = "KEY")]
    job_key: Option<String>,
    /// What happens to one that waits already: replace, `preserve_run_at` or `unsafe_dedupe` [default: replace]
    #[arg(long, value_name = "MODE", requires = "job_key")]
    job_key_mode: Option<String>,
    /// Make it once in this time: an earlier job that is the same is the answer then
    #[arg(long, value_name = "TIME", conflicts_with = "job_key")]
    unique_for: Option<String>,
    /// What makes two jobs the same [default: their target, input and queue]
    #[arg(long, value_name = "KEY", requires = "unique_for")]
    unique_key: Option<String>,
    /// A resource tag; may be given more than once
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// How often it is tried in all
    #[arg(long, value_name = "N")]
    pub(crate) attempts: Option<u32>,
    /// How long it may run, or none [default: 1h]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
}

#[derive(Args)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    filter: bulk::FilterArgs,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    /// The job's id
    job: String,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct LogsArgs {
    /// The job's id
    job: String,
    /// Go on until the job has ended
    #[arg(short, long)]
    follow: bool,
    /// Print each line as JSON, with its time and stream
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct ArtifactsArgs {
    /// The job's id
    job: String,
    /// Print the file at this place of the list, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    print: Option<u32>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Args)]
pub(crate) struct EditArgs {
    /// The job's id
    job: String,
    /// The new input, as JSON
    #[arg(long, value_name = "JSON", value_parser = json_text)]
    input: Box<RawValue>,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct MoveArgs {
    /// The job's id
    job: String,
    #[command(flatten)]
    to: WhereTo,
    #[command(flatten)]
    show: ShowArgs,
}

/// The new place.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct WhereTo {
    /// To the front of its priority
    #[arg(long)]
    front: bool,
    /// To the back of its priority
    #[arg(long)]
    back: bool,
    /// Right before this job
    #[arg(long, value_name = "JOB")]
    before: Option<String>,
    /// Right behind this job
    #[arg(long, value_name = "JOB")]
    after: Option<String>,
    /// To the back of another priority
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
}

pub(crate) const JOBS: &[Column] = &[
    ("ID", Cell::Text("/id")),
    ("STATE", Cell::Text("/state")),
    ("QUEUE", Cell::Text("/queue")),
    ("WHAT", Cell::Words(what)),
    ("BY", Cell::Text("/triggered_by")),
    ("TRY", Cell::Text("/attempt")),
    ("CREATED", Cell::Time("/created_at")),
    ("ENDED", Cell::Time("/run/finished_at")),
    ("ERROR", Cell::Text("/run/error_code")),
];

const ARTIFACTS: &[Column] =
    &[("NAME", Cell::Text("/name")), ("BYTES", Cell::Text("/size_bytes")), ("SHA-256", Cell::Text("/sha256"))];

/// How much of what a job does is shown.
const WHAT_MAX: usize = 40;

/// What a job does, in a few words; a target of a newer server by its kind.
fn what(job: &Value) -> String {
    let target = &job["target"];
    let known = serde_json::from_value::<Target>(target.clone());
    known.map_or_else(|_| show::plain(&target["kind"]), |target| show::visible(&target.in_a_line(WHAT_MAX)))
}

impl JobCommand {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Add(args) => args.run(api, out).await,
            Self::Ls(args) => args.run(api, out).await,
            Self::Show(args) => show::one(out, args.show, &api.get(&path(&args.job)).await?),
            Self::Logs(args) => args.run(api, out).await,
            Self::Artifacts(ArtifactsArgs { job, print: Some(number), .. }) => {
                Ok(out.write_all(&api.fetch(&format!("{}/{number}", verb(&job, "artifacts"))).await?)?)
            }
            Self::Artifacts(args) => {
                let look = async || api.list(&verb(&args.job, "artifacts"), args.list.limit).await;
                show::list(out, args.list, ARTIFACTS, "it left no files", look).await
            }
            Self::Cancel(args) => {
                let answer = api.act(Method::POST, &verb(&args.job, "cancel")).await?;
                let words = match answer.value()["cancelled"].as_str() {
                    Some("requested") => "told to stop",
                    _ => "cancelled before it began",
                };
                show::said(out, args.show, &answer, &format!("{}: {words}", args.job))
            }
            Self::Bulk(args) => args.run(api, out).await,
            Self::Retry(args) => say_made(out, args.show, &api.create(&verb(&args.job, "retry"), &json!({})).await?),
            Self::Edit(args) => {
                let mut body = Body::default();
                body.put("input", Some(args.input));
                say_made(out, args.show, &api.change(Method::PATCH, &path(&args.job), &body).await?)
            }
            Self::Move(args) => {
                let answer = api.change(Method::POST, &verb(&args.job, "move"), &args.to.body()).await?;
                show::said(out, args.show, &answer, &format!("{}: moved", args.job))
            }
        }
    }
}

fn path(job: &str) -> String {
    format!("/jobs/{}", escaped(job))
}

fn verb(job: &str, verb: &str) -> String {
    format!("{}/{verb}", path(job))
}

/// Says that a job was made, by its id, so that a script can go on with it.
pub(crate) fn say_made(out: &mut Output, show: ShowArgs, answer: &Answer) -> Result<(), Stop> {
    show::said(out, show, answer, &show::plain(&answer.value()["id"]))
}

impl NewArgs {
    pub(crate) fn put(&self, body: &mut Body) {
        body.put("queue", self.queue.as_ref());
        body.put("serial_key", self.serial_key.as_ref());
        body.put("job_key", self.job_key.as_ref());
        body.put("job_key_mode", self.job_key_mode.as_ref());
        let unique = |period: &String| json!({ "key": self.unique_key, "period": period });
        body.put("unique", self.unique_for.as_ref().map(unique));
        body.put("timeout", self.timeout.as_ref());
        body.put("priority", self.priority);
        let retry = || retrying(json!({}), self.attempts, self.serial_on_failure.as_ref());
        body.put("retry", (self.attempts.is_some() || self.serial_on_failure.is_some()).then(retry));
        body.put("tags", Some(&self.tags).filter(|tags| !tags.is_empty()));
    }
}

/// Puts a job into its queue. A job key does what an idempotency key does, and the API takes one of the two.
pub(crate) async fn enqueue(api: &Api, body: &Body) -> Result<Answer, Stop> {
    if body.has("job_key") || body.has("unique") {
        api.change(Method::POST, "/jobs", body).await
    } else {
        api.create("/jobs", body).await
    }
}

impl AddArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let mut body = Body::default();
        self.new.put(&mut body);
        body.put("run_at", self.run_at.as_ref());
        self.begin.put(&mut body);
        self.target.put(api, &mut body, self.begin.template.is_none())?;
        say_made(out, self.show, &enqueue(api, &body).await?)
    }
}

impl LsArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let fields = self.filter.fields(api).await?;
        let query: Vec<(&str, Option<&str>)> =
            fields.iter().map(|(name, value)| (*name, Some(value.as_str()))).collect();
        let path = with_query("/jobs", &query);
        let empty = "no jobs; put one into a queue with `punctual job add -- CMD`";
        show::list(out, self.list, JOBS, empty, async || api.list(&path, self.list.limit).await).await
    }
}

impl WhereTo {
    fn body(&self) -> Value {
        match self {
            Self { front: true, .. } => json!({ "to": "front" }),
            Self { back: true, .. } => json!({ "to": "back" }),
            Self { before: Some(job), .. } => json!({ "before": job }),
            Self { after: Some(job), .. } => json!({ "after": job }),
            Self { priority, .. } => json!({ "priority": priority }),
        }
    }
}

impl LogsArgs {
    async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let mut log = LogTail::new(&self.job, self.json);
        loop {
            let job = log.look(api, out).await?;
            if !self.follow || has_ended(&job) {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Whether nothing more will come from a job.
pub(crate) fn has_ended(job: &Value) -> bool {
    matches!(job["state"].as_str(), Some("completed" | "failed" | "skipped" | "cancelled"))
}

/// A log that is printed as it grows.
pub(crate) struct LogTail {
    job: String,
    json: bool,
    /// The last line that was printed.
    last: u64,
}

impl LogTail {
    pub(crate) fn new(job: &str, json: bool) -> Self {
        Self { job: path(job), json, last: 0 }
    }

    /// Prints the lines that have come since the last look; answers with the job as it was before them, so that nothing
    /// that was written before the end is missed.
    pub(crate) async fn look(&mut self, api: &Api, out: &mut Output) -> Result<Value, Stop> {
        let job = api.get(&self.job).await?.value();
        loop {
            let path = format!("{}/logs?limit={LINES}&after={}", self.job, self.last);
            let lines = api.get(&path).await?.page()?.items;
            for line in &lines {
                self.print(line, out)?;
            }
            out.flush()?;
            if lines.len() < LINES {
                return Ok(job);
            }
        }
    }

    fn print(&mut self, line: &RawValue, out: &mut Output) -> Result<(), Stop> {
        let value: Value = serde_json::from_str(line.get()).unwrap_or_default();
        self.last = value["sequence"].as_u64().unwrap_or(self.last + 1);
        let text = show::plain(&value["text"]);
        match value["stream"].as_str() {
            _ if self.json => writeln!(out, "{line}")?,
            Some("stdout") => writeln!(out, "{text}")?,
            // In its place among the rest, when both go to one screen.
            _ => {
                out.flush()?;
                writeln!(std::io::stderr(), "{text}")?;
            }
        }
        Ok(())
    }
}

/// Waits for the next look at a job.
pub(crate) async fn until_next_look() {
    tokio::time::sleep(LOOK).await;
}
