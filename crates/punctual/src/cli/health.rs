//! `punctual health`, for those who watch over containers; and the file in which a node says that it is well.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use punctual_core::duration::parse_duration;
use punctual_engine::node::NodeEvent;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Exit, Output, Stop};

/// How often a node says that it is well.
const BEAT: Duration = Duration::from_secs(2);

/// What a node says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Starting,
    Ready,
    Stopping,
    /// Its lease was lost: it has stopped everything, and comes back under a new one.
    Fenced,
}

impl State {
    const ALL: [Self; 4] = [Self::Starting, Self::Ready, Self::Stopping, Self::Fenced];

    const fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
            Self::Fenced => "fenced",
        }
    }
}

/// Writes the file for as long as the node runs. It is the runtime that writes it: a process that hangs falls silent.
pub(crate) struct Pulse {
    path: PathBuf,
    state: watch::Sender<State>,
    task: JoinHandle<()>,
}

impl Pulse {
    /// Begins with a file that says `starting`, so that a place where none can be written is noticed at once.
    pub(crate) fn start(path: &Path) -> Result<Self, Stop> {
        say(path, State::Starting)
            .map_err(|error| Stop::failure(format!("cannot write the health file {}: {error}", path.display())))?;
        let (state, mut heard) = watch::channel(State::Starting);
        let file = path.to_owned();
        let task = tokio::spawn(async move {
            loop {
                let now = *heard.borrow_and_update();
                if let Err(error) = say(&file, now) {
                    tracing::warn!("the health file {} cannot be written: {error}", file.display());
                }
                tokio::select! {
                    changed = heard.changed() => if changed.is_err() { return },
                    () = tokio::time::sleep(BEAT) => {}
                }
            }
        });
        Ok(Self { path: path.to_owned(), state, task })
    }

    /// What an event of the node means for its health.
    pub(crate) fn hear(&self, event: &NodeEvent) {
        let state = match event {
            NodeEvent::Ready => State::Ready,
            NodeEvent::Draining { .. } => State::Stopping,
            NodeEvent::Fenced => State::Fenced,
            NodeEvent::Fallback(_) | NodeEvent::Left => return,
        };
        self.state.send_replace(state);
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.task.abort();
        // Whoever finds it all the same finds it old.
        let _gone_already = std::fs::remove_file(&self.path);
    }
}

/// Written aside and put in place, so that nobody reads half of it.
fn say(path: &Path, state: State) -> std::io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    std::fs::write(&aside, format!("{}\n", state.word()))?;
    std::fs::rename(&aside, path)
}

/// Say whether a worker or a server on this machine is well: exit code 0 if it is
#[derive(Args)]
#[command(after_help = "Examples:\n  punctual health --health-file /run/punctual/health\n  \
    punctual health --live --health-file /run/punctual/health")]
pub(crate) struct HealthArgs {
    /// The file in which it says so, as its own --health-file [default: the server on the data folder is asked]
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_HEALTH_FILE")]
    health_file: Option<PathBuf>,
    /// How old its last word in the file may be
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_duration)]
    within: SignedDuration,
    /// Only whether it lives, not whether it is ready
    #[arg(long)]
    live: bool,
    /// The folder of the server [default: the user's state folder]
    #[cfg(feature = "server")]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA")]
    data: Option<PathBuf>,
}

impl HealthArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<(), Stop> {
        if let Some(path) = &self.health_file {
            let word = self.read(path).map_err(Stop::failure)?;
            return Ok(writeln!(out, "{word}")?);
        }
        self.ask(out)
    }

    /// The last word in the file, if it is good and recent enough.
    fn read(&self, path: &Path) -> Result<&'static str, String> {
        let shown = path.display();
        let written = std::fs::read_to_string(path)
            .map_err(|error| format!("nothing says in {shown} that it is well: {error}; is it started with it?"))?;
        let state = State::ALL.into_iter().find(|state| state.word() == written.trim());
        let state = state.ok_or_else(|| format!("{shown} is no health file of a worker or a server"))?;
        let modified = std::fs::metadata(path).and_then(|it| it.modified());
        let modified = modified.map_err(|error| format!("the age of {shown} is not known: {error}"))?;
        // A time that lies ahead is one from before the clock was put back, and no sign of silence.
        let age = modified.elapsed().unwrap_or_default();
        if age > Duration::try_from(self.within).unwrap_or_default() {
            return Err(format!("the last word in {shown} is {} s old: it hangs, or was killed", age.as_secs()));
        }
        match state {
            State::Ready | State::Stopping => Ok(state.word()),
            _ if self.live => Ok(state.word()),
            _ => Err(format!("it lives, but takes no work: {}", state.word())),
        }
    }

    #[cfg(not(feature = "server"))]
    #[expect(clippy::unused_self, reason = "a program without a server has nobody to ask")]
    fn ask(&self, _: &mut Output) -> Result<(), Stop> {
        Err(Stop::Failed(Exit::Usage, "name the file that the worker was started with: --health-file FILE".to_owned()))
    }

    #[cfg(feature = "server")]
    fn ask(&self, out: &mut Output) -> Result<(), Stop> {
        use super::data::DataFolder;
        let folder = DataFolder::open(self.data.as_deref())?;
        let Some(running) = folder.running() else {
            let words = "no server runs on the data folder; name its folder with --data DIR, or, for a worker, its \
                         --health-file FILE";
            return Err(Stop::Failed(Exit::Unreachable, words.to_owned()));
        };
        let path = if self.live { "livez" } else { "readyz" };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let status = runtime.block_on(answered(&format!("{}/{path}", running.url)))?;
        if !status.is_success() {
            return Err(Stop::failure(format!("the server answers /{path} with {status}")));
        }
        Ok(writeln!(out, "{}", if self.live { "lives" } else { "ready" })?)
    }
}

/// How long a server may take to say that it is well.
#[cfg(feature = "server")]
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(feature = "server")]
async fn answered(url: &str) -> Result<reqwest::StatusCode, Stop> {
    let no_client = |error: &dyn std::error::Error| Stop::failure(format!("no HTTP client could be made: {error}"));
    let tls = punctual_engine::targets::http::trusted_tls(Vec::new()).map_err(|error| no_client(&error))?;
    let client = reqwest::Client::builder().tls_backend_preconfigured(tls).timeout(PATIENCE).no_proxy().build();
    let asked = client.map_err(|error| no_client(&error))?.get(url).send().await;
    let unreachable = |error: reqwest::Error| {
        Stop::Failed(Exit::Unreachable, format!("the server at {url} does not answer: {}", error.without_url()))
    };
    asked.map(|answer| answer.status()).map_err(unreachable)
}
