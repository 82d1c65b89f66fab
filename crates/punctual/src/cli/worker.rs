//! `punctual worker`: one node on one store, until it is told to stop; `punctual serve` is one as well.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use punctual::calls::CallOptions;
use punctual_core::duration::parse_duration;
use punctual_core::freeze::{Freeze, FreezeLevel};
use punctual_core::health::Health;
use punctual_core::meter::{Meter, NoMeter};
use punctual_core::store::{Store, StoreError};
use punctual_core::trace::Tracer;
use punctual_engine::dispatch::DeskOptions;
use punctual_engine::flow::{FLOW, FlowExecutor};
use punctual_engine::memory::Fallback;
use punctual_engine::node::{self, NodeEvent, NodeOptions};
use punctual_engine::notify::NotifyOptions;
use punctual_engine::retain::Keep;
use punctual_engine::targets::command::{CommandExecutor, CommandOptions};
use punctual_engine::targets::graph::GraphCaller;
use punctual_engine::work::Executors;
use tokio::runtime::Runtime;

use super::calls::CallArgs;
use super::data::DataFolder;
use super::graphs::GraphArgs;
use super::health::Pulse;
use super::log::{self, LogFormat};
use super::signals::Signals;
use super::traces::{self, Traces};
use super::{Exit, Output, Stop};

/// Take jobs from the queue and run them; fire schedules when they are due.
#[derive(Args)]
pub(crate) struct WorkerArgs {
    /// The folder for everything that is written [default: the user's state folder]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA")]
    data: Option<PathBuf>,
    /// The store: sqlite:PATH or postgres://… [default: sqlite:DIR/punctual.db]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// What the node is called [default: the host's name]
    #[arg(long, env = "PUNCTUAL_NAME")]
    name: Option<String>,
    /// How many jobs run at once
    #[arg(long, value_name = "N", default_value_t = 8, env = "PUNCTUAL_CONCURRENCY", value_parser = at_least_one)]
    concurrency: usize,
    /// Take jobs of this queue only; may be given more than once
    #[arg(long = "queue", value_name = "NAME", env = "PUNCTUAL_QUEUES", value_delimiter = ',')]
    queues: Vec<String>,
    /// How long running jobs may go on after the first signal to stop
    #[arg(long, value_name = "TIME", default_value = "30s", env = "PUNCTUAL_GRACE", value_parser = parse_duration)]
    grace: SignedDuration,
    /// How long a job that is cancelled or replaced may take to stop before it is killed
    #[arg(long, value_name = "TIME", default_value = "10s", env = "PUNCTUAL_STOP_GRACE", value_parser = parse_duration)]
    stop_grace: SignedDuration,
    /// How long a node may be silent before others take its jobs over
    #[arg(long, value_name = "TIME", default_value = "15s", env = "PUNCTUAL_LEASE", value_parser = parse_duration)]
    lease: SignedDuration,
    /// From one heartbeat to the next [default: a fifteenth of the lease]
    #[arg(long, value_name = "TIME", env = "PUNCTUAL_HEARTBEAT", value_parser = parse_duration)]
    heartbeat: Option<SignedDuration>,
    /// How long runs are kept after their end: a time such as 30d, forever, or none
    #[arg(long, value_name = "TIME", default_value = "30d", env = "PUNCTUAL_KEEP_RUNS", value_parser = KeepTime::parse)]
    keep_runs: KeepTime,
    /// The same for runs that failed
    #[arg(long, value_name = "TIME", default_value = "90d", env = "PUNCTUAL_KEEP_FAILED", value_parser = KeepTime::parse)]
    keep_failed: KeepTime,
    /// How many of the latest jobs of each schedule are kept, however old they are
    #[arg(long, value_name = "N", default_value_t = 20, env = "PUNCTUAL_KEEP_LAST")]
    keep_last: u32,
    /// Say in this file that the node is well, for `punctual health`
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_HEALTH_FILE")]
    health_file: Option<PathBuf>,
    /// Where people reach the server, for the links in messages, such as <https://punctual.example.com>
    #[arg(long, value_name = "URL", env = "PUNCTUAL_PUBLIC_URL", value_parser = public_url)]
    public_url: Option<String>,
    /// How long after it was due a schedule counts as overdue, which /readyz and the log then say
    #[arg(long, value_name = "TIME", default_value = "1m", env = "PUNCTUAL_OVERDUE_AFTER", value_parser = parse_duration)]
    overdue_after: SignedDuration,
    /// How the log on standard error is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, env = "PUNCTUAL_LOG_FORMAT")]
    log_format: LogFormat,
    #[command(flatten)]
    calls: CallArgs,
    #[command(flatten)]
    pub(crate) graphs: GraphArgs,
}

/// What else there is in a node's process.
pub(crate) struct Surroundings {
    /// Addresses of this process, which no job may call.
    pub(crate) own: Vec<SocketAddr>,
    /// Who runs graphs.
    pub(crate) graphs: Option<GraphCaller>,
    /// Who counts.
    pub(crate) meter: Arc<dyn Meter>,
    /// Where is noted what is wrong with the whole.
    pub(crate) health: Arc<Health>,
    /// Who keeps spans.
    pub(crate) tracer: Arc<dyn Tracer>,
}

/// How long something is kept; no time is for ever.
#[derive(Debug, Clone, Copy)]
struct KeepTime(Option<SignedDuration>);

impl KeepTime {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "forever" => Ok(Self(None)),
            "none" => Ok(Self(Some(SignedDuration::ZERO))),
            time => parse_duration(time)
                .map(|time| Self(Some(time)))
                .map_err(|error| format!("{error}; or write forever or none")),
        }
    }
}

/// An address that links can begin with.
fn public_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let plain = |letter: char| letter.is_ascii_graphic() && !"?#\"'<>\\@".contains(letter);
    if rest.is_empty() || rest.starts_with(['/', ':']) || !rest.chars().all(plain) {
        return Err("write https://HOST, without anything behind its path".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
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
        self.check()?;
        let url = match &self.database {
            Some(url) => url.clone(),
            None => DataFolder::open(self.data())?.database_url(),
        };
        self.run_on(&url, out)
    }

    /// Refuses what cannot be meant, before anything is written.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        self.options()?;
        traces::receiver()?;
        self.calls.options(self.database())?;
        self.graphs.check()
    }

    /// The folder that was named.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// How the log is written.
    #[cfg(feature = "server")]
    pub(crate) fn log_format(&self) -> LogFormat {
        self.log_format
    }

    /// How long a node, or the driver of a graph run, may be silent.
    #[cfg(feature = "server")]
    pub(crate) fn lease(&self) -> Duration {
        whole(self.lease)
    }

    /// The name in the address by which people reach the server.
    #[cfg(feature = "server")]
    pub(crate) fn public_host(&self) -> Option<String> {
        let (_, rest) = self.public_url.as_deref()?.split_once("://")?;
        let authority = rest.split('/').next().unwrap_or_default();
        let name = match authority.strip_prefix('[') {
            Some(inner) => inner.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        Some(name.to_owned())
    }

    /// Whether people reach the server by https.
    #[cfg(feature = "server")]
    pub(crate) fn is_public_by_https(&self) -> bool {
        self.public_url.as_ref().is_some_and(|url| url.starts_with("https://"))
    }

    /// The store that was named.
    pub(crate) fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Works on a store until it is told to stop.
    fn run_on(self, url: &str, out: &mut Output) -> Result<(), Stop> {
        // Who has said where the store is may have no folder.
        let folder =
            if self.database.is_some() && self.data.is_none() { None } else { DataFolder::open(self.data()).ok() };
        let graphs = self.graphs.caller(folder.as_ref(), None)?;
        runtime(self.log_format)?.block_on(async {
            let store = punctual::open(url).await?;
            refuse_frozen(store.as_ref()).await?;
            let meter: Arc<dyn Meter> = Arc::new(NoMeter);
            let spans = Traces::start(Arc::clone(&meter))?;
            let (tracer, health) = (spans.tracer(), Arc::default());
            let alone = Surroundings { own: Vec::new(), graphs, meter, tracer, health };
            let worked = self.work(store, &without_password(url), alone, out).await;
            spans.stop().await;
            worked
        })
    }

    /// The same on a store that is open; `shown` says where it is.
    pub(crate) async fn work(
        self, store: Arc<dyn Store>, shown: &str, around: Surroundings, out: &mut Output,
    ) -> Result<(), Stop> {
        let Surroundings { own, graphs, meter, tracer, health } = around;
        let calls = CallOptions { own_addresses: own, ..self.calls.options(self.database())? };
        let courier = calls.courier(self.public_url.clone()).map_err(|refused| Stop::usage(refused.to_string()))?;
        let notify = NotifyOptions {
            courier: Some(Arc::new(courier)),
            health,
            overdue_after: whole(self.overdue_after),
            ..NotifyOptions::default()
        };
        let options = NodeOptions { meter, tracer, notify: Some(notify), ..self.options()? };
        let signals = both_signals(Signals::listen()?);
        // A node that is stopped for as long as this has given up its lease, and so must its commands.
        let commands = CommandOptions { silence: options.lease * 2 / 3, ..CommandOptions::default() };
        let executors = Executors::default()
            .with("command", Arc::new(CommandExecutor::new(commands)))
            .with(FLOW, Arc::new(FlowExecutor));
        let executors = calls.executors(executors).map_err(|refused| Stop::usage(refused.to_string()))?;
        let executors = match graphs {
            Some(graphs) => executors.with("graph", Arc::new(graphs)),
            None => executors,
        };
        let name = options.name.clone();
        // Lines are said from inside the node's loop; what cannot be said does not stop the work.
        let pulse = self.health_file.as_deref().map(Pulse::start).transpose()?;
        let say = |event: NodeEvent| {
            if let Some(pulse) = &pulse {
                pulse.hear(&event);
            }
            let _closed = tell(out, &event, &name, shown);
        };
        Ok(node::run_until(store, executors, options, signals, say).await?)
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
            desk: DeskOptions {
                room: self.concurrency,
                queues: self.queues.clone(),
                grace: whole(self.stop_grace),
                ..usual.desk
            },
            heartbeat,
            lease,
            shutdown_grace: whole(self.grace),
            keep: Keep { runs: self.keep_runs.0, failed: self.keep_failed.0, last: self.keep_last },
            ..usual
        })
    }
}

/// Nobody begins to work where nothing can be written: what he would wait for may never come.
pub(crate) async fn refuse_frozen(store: &dyn Store) -> Result<(), Stop> {
    match store.frozen().await? {
        Some(Freeze { level: FreezeLevel::Writes, why, .. }) => {
            Err(Stop::Failed(Exit::Conflict, StoreError::Frozen { why }.to_string()))
        }
        _ => Ok(()),
    }
}

/// What a node runs on. Warnings are heard from here on.
pub(crate) fn runtime(format: LogFormat) -> Result<Runtime, Stop> {
    log::begin(format);
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
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
        NodeEvent::Draining { running } => {
            match running {
                0 => writeln!(out, "stopping")?,
                1 => writeln!(out, "stopping: waiting for 1 running job (a second signal stops it now)")?,
                _ => writeln!(out, "stopping: waiting for {running} running jobs (a second signal stops them now)")?,
            }
            notify_systemd("STOPPING=1");
        }
        NodeEvent::Fallback(Fallback::Began { schedules }) => {
            writeln!(out, "the schedules are out of reach: {schedules} that were due soon are fired from memory")?;
        }
        NodeEvent::Fallback(Fallback::Ended) => writeln!(out, "the schedules are back")?,
        NodeEvent::Fallback(Fallback::GaveUp) => {
            writeln!(out, "the schedules are out of reach for too long: none is fired until they are back")?;
        }
        NodeEvent::Fenced => writeln!(out, "the lease was lost; everything was stopped, coming back under a new one")?,
        NodeEvent::Left => writeln!(out, "stopped")?,
    }
    out.flush()
}

/// An address as it may be shown: a password stays unsaid.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let told = match rest.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split_once(':').map_or(user, |(user, _)| user)),
        None => rest.to_owned(),
    };
    // A setting of that name is one, too.
    let (place, settings) = told.split_once('?').unwrap_or((&told, ""));
    let kept: Vec<&str> = settings.split('&').filter(|it| !it.is_empty() && !it.starts_with("password=")).collect();
    if kept.is_empty() { format!("{scheme}://{place}") } else { format!("{scheme}://{place}?{}", kept.join("&")) }
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

pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "node".to_owned() } else { name.trim().to_owned() }
}
