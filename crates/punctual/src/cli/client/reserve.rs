//! `punctual queue reserve`: holding a queue for yourself, for a time or while a command runs.

use std::process::{Command, ExitStatus};
use std::time::Duration;

use axum::http::Method;
use clap::Args;
use jiff::SignedDuration;
use punctual_core::duration::{format_duration, parse_duration};
use serde_json::json;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};

use super::api::{Answer, Api};
use super::queue::path;
use super::show::{self, ShowArgs};
use crate::cli::signals::Signals;
use crate::cli::{Exit, Output, Stop};

/// The longest that one call waits for a queue; a longer wait is several calls.
const ONE_WAIT: Duration = Duration::from_secs(20);

/// How long a renewal that failed waits before it is tried again.
const SETBACK: Duration = Duration::from_millis(500);

pub(crate) const EXAMPLES: &str = "Examples:\n  \
    punctual queue reserve mail --for 10m                          hold it for ten minutes\n  \
    punctual queue reserve mail --wait 30s -- ./migrate.sh         hold it while a command runs";

#[derive(Args)]
pub(crate) struct ReserveArgs {
    /// The queue's name
    queue: String,
    /// For how long, unless it is released before; with a command it is renewed while that runs
    #[arg(long = "for", value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    expires_in: SignedDuration,
    /// How long to wait while somebody else holds it [default: not at all]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wait: Option<SignedDuration>,
    #[command(flatten)]
    show: ShowArgs,
    /// Run this while the queue is held, release it afterwards, and exit with its code
    #[arg(last = true, value_name = "CMD")]
    argv: Vec<String>,
}

impl ReserveArgs {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        // Heard from now on, so that Ctrl-C while a command runs is the command's to obey.
        let signals = if self.argv.is_empty() { None } else { Some(Signals::listen()?) };
        let answer = self.reserve(api).await?;
        let held = answer.value();
        let (id, until) = (show::plain(&held["id"]), show::plain(&held["expires_at"]));
        let Some(signals) = signals else {
            let words = format!("{id} until {until}; give it back with `punctual queue release {id}`");
            return show::said(out, self.show, &answer, &words);
        };
        let reservation = Hold { api, id, expires_in: self.expires_in };
        let ran = reservation.during(&self.argv, signals).await;
        reservation.release().await?;
        ran
    }

    /// Takes the queue; a long wait is several calls, so that none is cut short on its way.
    async fn reserve(&self, api: &Api) -> Result<Answer, Stop> {
        let patience = self.wait.map_or(Duration::ZERO, |wait| Duration::try_from(wait).unwrap_or_default());
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).min(ONE_WAIT);
            let mut body = json!({ "expires_in": format_duration(self.expires_in) });
            if let Some(wait) = SignedDuration::try_from(left).ok().filter(SignedDuration::is_positive) {
                body["wait"] = json!(format_duration(wait));
            }
            match api.create(&format!("{}/reservations", path(&self.queue)), &body).await {
                Err(Stop::Failed(Exit::Conflict, _)) if Instant::now() < deadline => {}
                answered => return answered,
            }
        }
    }
}

/// A queue that is held while something else is done.
struct Hold<'a> {
    api: &'a Api,
    id: String,
    expires_in: SignedDuration,
}

impl Hold<'_> {
    /// Runs a command and renews the hold meanwhile. If the hold is lost, the command must not go on: others are in.
    async fn during(&self, argv: &[String], mut signals: Signals) -> Result<(), Stop> {
        let mut child = Command::new(&argv[0])
            .args(&argv[1..])
            .spawn()
            .map_err(|error| Stop::failure(format!("{} could not be started: {error}", argv[0])))?;
        let pid = child.id();
        let mut ended = tokio::task::spawn_blocking(move || child.wait());
        let mut next = Instant::now() + self.every();
        let mut lost_at = Instant::now() + self.length();
        let status = loop {
            tokio::select! {
                status = &mut ended => break waited(status)?,
                // A terminal's Ctrl-C has reached the command by itself; whoever stops us stops it as well.
                () = signals.next() => stop(pid),
                () = tokio::time::sleep_until(next) => {
                    let asked_at = Instant::now();
                    match self.renew().await {
                        Ok(()) => (next, lost_at) = (asked_at + self.every(), asked_at + self.length()),
                        Err(Stop::Failed(Exit::Unreachable, _)) if Instant::now() < lost_at => {
                            next = Instant::now() + SETBACK;
                        }
                        Err(error) => {
                            stop(pid);
                            waited(ended.await)?;
                            return Err(error);
                        }
                    }
                }
            }
        };
        match status.code().and_then(|code| u8::try_from(code).ok()) {
            Some(0) => Ok(()),
            Some(code) => Err(Stop::Exited(code)),
            None => Err(Stop::failure(format!("{} was ended by a signal", argv[0]))),
        }
    }

    fn length(&self) -> Duration {
        Duration::try_from(self.expires_in).unwrap_or_default()
    }

    fn every(&self) -> Duration {
        (self.length() / 3).max(Duration::from_millis(10))
    }

    async fn renew(&self) -> Result<(), Stop> {
        let body = json!({ "expires_in": format_duration(self.expires_in) });
        self.api.change(Method::POST, &format!("/reservations/{}/renew", self.id), &body).await?;
        Ok(())
    }

    /// Gives it back; that it has run out meanwhile is no reason to complain.
    async fn release(&self) -> Result<(), Stop> {
        let path = format!("/reservations/{}", self.id);
        for _ in 0..3 {
            match self.api.act(Method::DELETE, &path).await {
                Ok(_) | Err(Stop::Failed(Exit::NotFound, _)) => return Ok(()),
                Err(Stop::Failed(Exit::Unreachable, _)) => sleep(SETBACK).await,
                Err(error) => return Err(error),
            }
        }
        // It ends by itself.
        Ok(())
    }
}

/// How a command ended.
fn waited(ended: Result<std::io::Result<ExitStatus>, JoinError>) -> Result<ExitStatus, Stop> {
    let status = ended.map_err(|error| Stop::failure(format!("the command is out of sight: {error}")))?;
    Ok(status?)
}

/// Asks a command to end; it is our child and not waited for yet, so that the id is its own.
fn stop(pid: u32) {
    let _gone_already = Command::new("kill").args(["-TERM", &pid.to_string()]).status();
}
