//! `punctual serve` and `punctual worker`: one node on one store, until it is told to stop.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use punctual_core::duration::parse_duration;
use punctual_engine::dispatch::DeskOptions;
use punctual_engine::node::{self, NodeEvent, NodeOptions};
use punctual_engine::targets::command::{CommandExecutor, CommandOptions};
use punctual_engine::work::Executors;

use super::calls::CallArgs;
use super::signals::Signals;
use super::{Output, Stop};

/// Take jobs from the queue and run them; fire schedules when they are due.
#[derive(Args)]
pub(crate) struct WorkerArgs {
    /// The folder for everything that is written [default: the user's state folder]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA")]
    data: Option<PathBuf>,
    /// The store: sqlite:PATH or postgres://… [default: sqlite:DIR/punctual.db]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_DATABASE")]
    database: Option<String>,
    /// What the node is called [default: the host's name]
    #[arg(long, env = "PUNCTUAL_NAME")]
    name: Option<String>,
    /// How many jobs run at once
    #[arg(long, value_name = "N", default_value_t = 8, env = "PUNCTUAL_CONCURRENCY", value_parser = at_least_one)]
    concurrency: usize,
    /// Take jobs of this queue only; may be given more than once
    #[arg(long = "queue", value_name = "NAME")]
    queues: Vec<String>,
    /// How long running jobs may go on after the first signal to stop
    #[arg(long, value_name = "TIME", default_value = "30s", env = "PUNCTUAL_GRACE", value_parser = parse_duration)]
    grace: SignedDuration,
    /// How long a node may be silent before others take its jobs over
    #[arg(long, value_name = "TIME", default_value = "15s", env = "PUNCTUAL_LEASE", value_parser = parse_duration)]
    lease: SignedDuration,
    /// From one heartbeat to the next [default: a fifteenth of the lease]
    #[arg(long, value_name = "TIME", env = "PUNCTUAL_HEARTBEAT", value_parser = parse_duration)]
    heartbeat: Option<SignedDuration>,
    #[command(flatten)]
    calls: CallArgs,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("use 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("not a whole number".to_owned()),
    }
}

impl WorkerArgs {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(self.work(out))
    }

    async fn work(self, out: &mut Output) -> Result<(), Stop> {
        log_to_stderr();
        let url = self.database_url()?;
        let (options, calls) = (self.options()?, self.calls.options()?);
        let store = punctual::open(&url).await?;
        let signals = both_signals(Signals::listen()?);
        // A node that is stopped for as long as this has given up its lease, and so must its commands.
        let commands = CommandOptions { silence: options.lease * 2 / 3, ..CommandOptions::default() };
        let executors = Executors::default().with("command", Arc::new(CommandExecutor::new(commands)));
        let executors = calls.executors(executors).map_err(|refused| Stop::usage(refused.to_string()))?;
        let (name, shown) = (options.name.clone(), without_password(&url));
        // Lines are said from inside the node's loop; what cannot be said does not stop the work.
        let say = |event: NodeEvent| {
            let _closed = tell(out, &event, &name, &shown);
        };
        node::run_until(store, executors, options, signals, say).await?;
        Ok(())
    }

    fn database_url(&self) -> Result<String, Stop> {
        if let Some(url) = &self.database {
            return Ok(url.clone());
        }
        let folder = match &self.data {
            Some(folder) => folder.clone(),
            None => state_folder()?,
        };
        std::fs::create_dir_all(&folder)
            .map_err(|error| Stop::failure(format!("cannot make the folder {}: {error}", folder.display())))?;
        Ok(format!("sqlite:{}", folder.join("punctual.db").display()))
    }

    fn options(&self) -> Result<NodeOptions, Stop> {
        let lease = whole(self.lease);
        let heartbeat = self.heartbeat.map_or(lease / 15, whole);
        if heartbeat * 3 > lease {
            return Err(Stop::usage(
                "the lease must be at least three heartbeats long; raise --lease or lower --heartbeat",
            ));
        }
        let usual = NodeOptions::default();
        Ok(NodeOptions {
            name: self.name.clone().unwrap_or_else(host_name),
            desk: DeskOptions { room: self.concurrency, queues: self.queues.clone(), ..usual.desk },
            heartbeat,
            lease,
            shutdown_grace: whole(self.grace),
            ..usual
        })
    }
}

fn whole(time: SignedDuration) -> Duration {
    Duration::try_from(time).unwrap_or(Duration::MAX)
}

/// The first signal asks to stop when the running jobs are done, the second one at once.
fn both_signals(mut signals: Signals) -> node::Signals {
    let (first, heard_first) = tokio::sync::oneshot::channel();
    let (second, heard_second) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        signals.next().await;
        let _gone = first.send(());
        signals.next().await;
        let _gone = second.send(());
    });
    node::Signals {
        gently: Box::pin(async { drop(heard_first.await) }),
        now: Box::pin(async {
            if heard_second.await.is_err() {
                std::future::pending::<()>().await;
            }
        }),
    }
}

fn tell(out: &mut Output, event: &NodeEvent, name: &str, url: &str) -> std::io::Result<()> {
    match event {
        NodeEvent::Ready => {
            writeln!(out, "ready: {name} works on {url}")?;
            notify_systemd("READY=1");
        }
        NodeEvent::Draining { running: 0 } => writeln!(out, "stopping")?,
        NodeEvent::Draining { running } => {
            writeln!(out, "stopping: waiting for {running} running jobs (a second signal stops them now)")?;
            notify_systemd("STOPPING=1");
        }
        NodeEvent::Fenced => writeln!(out, "the lease was lost; everything was stopped, coming back under a new one")?,
        NodeEvent::Left => writeln!(out, "stopped")?,
    }
    out.flush()
}

/// An address as it may be shown: a password stays unsaid.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            format!("{scheme}://{user}@{host}")
        }
        None => url.to_owned(),
    }
}

/// Warnings and errors go to standard error; `PUNCTUAL_LOG=debug` says more.
fn log_to_stderr() {
    let level = std::env::var("PUNCTUAL_LOG").ok().and_then(|word| word.parse().ok()).unwrap_or(tracing::Level::WARN);
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_target(false).init();
}

/// Tells systemd (`Type=notify`) where we are, if it started us.
fn notify_systemd(state: &str) {
    #[cfg(target_os = "linux")]
    if let Some(path) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send_to_systemd(&path, state)
    {
        tracing::warn!("failed to tell systemd: {error}");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = state;
}

#[cfg(target_os = "linux")]
fn send_to_systemd(path: &std::ffi::OsStr, state: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    // A leading @ stands for the abstract namespace.
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(Path::new(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

/// Where the user's state goes: systemd's folder, the XDG one, or the one below the home folder.
fn state_folder() -> Result<PathBuf, Stop> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from("STATE_DIRECTORY")
        .or_else(|| from("XDG_STATE_HOME").map(|folder| folder.join("punctual")))
        .or_else(|| from("HOME").map(|home| home.join(".local/state/punctual")))
        .ok_or_else(|| Stop::usage("there is no home folder; say where the data goes with --data DIR"))
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "node".to_owned() } else { name.trim().to_owned() }
}
