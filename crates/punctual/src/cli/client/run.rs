//! `punctual run`: one command now, as a job, with its log on the screen and its exit code as ours.

use std::future::Future;
use std::sync::Arc;

use axum::http::Method;
use clap::Args;
use punctual_core::store::Store;
use punctual_engine::dispatch::DeskOptions;
use punctual_engine::node::{self, NodeOptions};
use punctual_engine::targets::command::CommandExecutor;
use punctual_engine::work::Executors;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::api::Api;
use super::job::{LogTail, NewArgs, enqueue, has_ended, until_next_look};
use super::show;
use super::target::{self, Body};
use crate::cli::signals::Signals;
use crate::cli::{Exit, Output, Stop};

/// The queue of jobs that are run from the command line without a server.
const QUEUE: &str = "run";

/// Run one command now as a job, print what it writes, and exit with its code
#[derive(Args)]
#[command(
    after_help = "Examples:\n  punctual run -- ./backup.sh --all\n  punctual run --attempts 3 --timeout 5m -- ./flaky.sh"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    new: NewArgs,
    /// The folder it runs in [default: this one, when it runs on this machine]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Print each line as JSON, and the job at the end
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    argv: Vec<String>,
}

impl RunArgs {
    pub(crate) async fn run(mut self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let mut signals = Signals::listen()?;
        let store = match api {
            Api::Local { store, .. } => Some(Arc::clone(store)),
            Api::Remote { .. } => None,
        };
        let Some(store) = store else { return self.follow(api, out, &mut signals).await };
        // Without a server nobody would run it: this process does, and takes nothing but what is in this queue.
        let queue = self.new.queue.get_or_insert_with(|| QUEUE.to_owned()).clone();
        beside_a_node(store, queue, self.follow(api, out, &mut signals)).await
    }

    async fn follow(mut self, api: &Api, out: &mut Output, signals: &mut Signals) -> Result<(), Stop> {
        let mut body = Body::default();
        // Whoever runs something by hand sees it fail.
        self.new.attempts.get_or_insert(1);
        self.new.put(&mut body);
        body.put("target", Some(target::command(api, &self.argv, self.cwd.as_deref(), false)?));
        let mut id = show::plain(&enqueue(api, &body).await?.value()["id"]);
        let mut cancelled = false;
        loop {
            let mut log = LogTail::new(&id, self.json);
            let job = loop {
                let job = log.look(api, out).await?;
                if has_ended(&job) {
                    break job;
                }
                tokio::select! {
                    () = until_next_look() => {}
                    () = signals.next() => {
                        cancelled = true;
                        cancel(api, &id).await?;
                    }
                }
            };
            match retry_of(api, &job).await? {
                Some(next) if !cancelled => id = next,
                _ => return self.end(&job, out, cancelled),
            }
        }
    }

    fn end(&self, job: &Value, out: &mut Output, cancelled: bool) -> Result<(), Stop> {
        use std::io::Write;
        if self.json {
            writeln!(out, "{job}")?;
        }
        if cancelled {
            return Err(Stop::Exited(130));
        }
        let run = &job["run"];
        match (job["state"].as_str(), run["exit_code"].as_u64().and_then(|code| u8::try_from(code).ok())) {
            (Some("completed"), _) => Ok(()),
            (_, Some(code)) if code != 0 => Err(Stop::Exited(code)),
            (state, _) => {
                let why = [&run["error_code"], &run["error"]].map(show::plain).join(": ");
                Err(Stop::Failed(Exit::JobFailed, format!("the job is {}: {why}", state.unwrap_or("lost"))))
            }
        }
    }
}

/// Stops the job; that it has ended meanwhile is no reason to complain.
async fn cancel(api: &Api, id: &str) -> Result<(), Stop> {
    match api.act(Method::POST, &format!("/jobs/{id}/cancel")).await {
        Ok(_) | Err(Stop::Failed(Exit::Conflict, _)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The job that tries it again, if there is to be one: the last of its chain, whose log is what is left to see.
async fn retry_of(api: &Api, job: &Value) -> Result<Option<String>, Stop> {
    if job["run"]["is_final"] != json!(false) {
        return Ok(None);
    }
    let last = api.get(&format!("/jobs/{}/chain-end", show::plain(&job["id"]))).await?.value();
    Ok((last["id"] != job["id"]).then(|| show::plain(&last["id"])))
}

/// Runs the jobs of one queue for as long as something takes.
async fn beside_a_node(
    store: Arc<dyn Store>, queue: String, work: impl Future<Output = Result<(), Stop>>,
) -> Result<(), Stop> {
    let (done, is_done) = watch::channel(false);
    let until_done = |mut is_done: watch::Receiver<bool>| async move { drop(is_done.wait_for(|done| *done).await) };
    let usual = NodeOptions::default();
    let desk = DeskOptions { room: 1, queues: vec![queue], ..usual.desk };
    let options = NodeOptions { name: "punctual run".to_owned(), desk, ..usual };
    let executors = Executors::default().with("command", Arc::new(CommandExecutor::default()));
    let signals = node::Signals { gently: Box::pin(until_done(is_done)), now: Box::pin(std::future::pending()) };
    let working = node::run_until(store, executors, options, signals, |_| {});
    let following = async {
        let followed = work.await;
        done.send_replace(true);
        followed
    };
    let (worked, followed) = tokio::join!(working, following);
    followed?;
    Ok(worked?)
}
