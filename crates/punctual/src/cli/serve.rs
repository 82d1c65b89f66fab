//! `punctual serve`: a node and the HTTP API, on a data folder that it has to itself and tells others about.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use punctual_core::graph::GraphExecutor;
use punctual_core::health::Health;
use punctual_core::invalid::Invalid;
use punctual_core::meter::Meter;
use punctual_core::store::Store;
use punctual_core::trace::Tracer;
use punctual_server::{
    AppState, BasePath, JwtRules, Missing, PublicBind, ServerConfig, ServiceAccess, Settings, check_bind,
    first_admin_token, load_tls, login_link,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::data::DataFolder;
use super::langgraph::LangGraphArgs;
use super::traces::Traces;
use super::worker::{Surroundings, WorkerArgs, refuse_frozen, runtime, without_password};
use super::{Output, Stop};

/// Run a server: the HTTP API and everything a worker does, on a data folder that no other server has.
#[derive(Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    node: WorkerArgs,
    /// Where the API listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878", env = "PUNCTUAL_LISTEN")]
    listen: SocketAddr,
    /// The server's certificate and those it was issued by, in PEM form: the API is then served over https
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_TLS_CERT", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM form
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Listen where others can reach it without TLS, because a proxy with TLS stands in front
    #[arg(long, env = "PUNCTUAL_ALLOW_PLAIN_HTTP", value_parser = clap::builder::FalseyValueParser::new())]
    allow_plain_http: bool,
    /// A name the server is called by, beside localhost; may be given more than once
    #[arg(long = "host", value_name = "NAME", env = "PUNCTUAL_HOSTS", value_delimiter = ',')]
    hosts: Vec<String>,
    /// The path below which browsers find it, such as /punctual, when a host is shared with others
    #[arg(long, value_name = "PATH", default_value = "/", env = "PUNCTUAL_BASE_PATH", value_parser = base_path)]
    base_path: BasePath,
    /// The token that /metrics asks for [default: an admin's]
    #[arg(long, value_name = "TOKEN", env = "PUNCTUAL_METRICS_TOKEN", hide_env_values = true)]
    metrics_token: Option<String>,
    /// A JWK set with the keys of an issuer whose tokens let services in, too
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_SERVICE_JWKS", requires_all = ["service_issuer", "service_audience"])]
    service_jwks: Option<PathBuf>,
    /// Who issues those tokens: `iss`
    #[arg(long, value_name = "ISSUER", env = "PUNCTUAL_SERVICE_ISSUER")]
    service_issuer: Option<String>,
    /// Whom they must be meant for: `aud`
    #[arg(long, value_name = "AUDIENCE", env = "PUNCTUAL_SERVICE_AUDIENCE")]
    service_audience: Option<String>,
    #[command(flatten)]
    langgraph: LangGraphArgs,
}

impl ServeArgs {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        self.node.check()?;
        let providers: Vec<_> = self.langgraph.provider()?.into_iter().collect();
        let refused = |refused: Invalid| Stop::usage(refused.to_string());
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some(load_tls(certificate, key).map_err(refused)?),
            _ => None,
        };
        let public = match &tls {
            Some(_) => PublicBind::Tls,
            None if self.allow_plain_http => PublicBind::Allowed,
            None => PublicBind::Refused,
        };
        check_bind(self.listen, public).map_err(refused)?;
        let folder = DataFolder::open(self.node.data())?;
        let database = self.node.database().map_or_else(|| folder.database_url(), str::to_owned);
        let serving = folder.hold()?;
        let listener = TcpListener::bind(self.listen).map_err(|error| {
            Stop::failure(format!("cannot listen on {}: {error}; choose another address with --listen", self.listen))
        })?;
        let done = runtime(self.node.log_format())?.block_on(self.serve(
            &database,
            &folder,
            Socket { listener, tls },
            providers,
            out,
        ));
        drop(serving);
        done
    }

    async fn serve(
        self, database: &str, folder: &DataFolder, socket: Socket, providers: Vec<Arc<dyn GraphExecutor>>,
        out: &mut Output,
    ) -> Result<(), Stop> {
        let address = socket.listener.local_addr()?;
        let service_access = self.service_access(folder)?;
        // What is called by a public name comes through a proxy, which speaks https.
        let settings = Settings {
            https: socket.tls.is_some()
                || (self.allow_plain_http && (!self.hosts.is_empty() || self.node.is_public_by_https())),
            hosts: self.hosts.into_iter().chain(self.node.public_host()).collect(),
            metrics_token: self.metrics_token,
            service_access,
            execution_lease: self.node.lease(),
            base_path: self.base_path,
            ..Settings::default()
        };
        let store = punctual::open(database).await?;
        refuse_frozen(store.as_ref()).await?;
        let api = Api::start(Arc::clone(&store), socket, settings, providers, folder).await?;
        let database = without_password(database);
        folder.tell(&database, api.url())?;
        let shown = format!("{database}, API at {}", api.url());
        let graphs = self.node.graphs.caller(Some(folder), Some(format!("http://{}", api.internal)))?;
        let traces = Traces::start(api.meter())?;
        api.trace_with(traces.tracer());
        let node = Surroundings {
            own: vec![address, api.internal],
            graphs,
            meter: api.meter(),
            tracer: traces.tracer(),
            health: api.health(),
        };
        let worked = self.node.work(store, &shown, node, out).await;
        // Last, so that what the node does while it stops can be watched.
        api.stop().await;
        traces.stop().await;
        worked
    }
}

impl ServeArgs {
    /// Who may call the execution service: whoever has the folder's own secret or one that was given, and the bearers of
    /// an issuer's tokens.
    fn service_access(&self, folder: &DataFolder) -> Result<ServiceAccess, Stop> {
        let refused = |refused: Invalid| Stop::usage(refused.to_string());
        let mut secrets = self.node.graphs.secrets();
        secrets.push(folder.make_service_secret()?);
        let access = ServiceAccess::with_secrets(&secrets).map_err(refused)?;
        let Some(file) = &self.service_jwks else { return Ok(access) };
        let text = std::fs::read_to_string(file)
            .map_err(|error| Stop::usage(format!("--service-jwks {}: {error}", file.display())))?;
        let (issuer, audience) = (self.service_issuer.as_deref(), self.service_audience.as_deref());
        let rules = JwtRules::from_jwks(&text, issuer.unwrap_or_default(), audience.unwrap_or_default());
        Ok(access.with_jwt(rules.map_err(refused)?))
    }
}

/// Where the API listens, before it serves.
pub(crate) struct Socket {
    pub(crate) listener: TcpListener,
    /// The certificate, when it speaks TLS itself.
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

/// The API while it serves.
pub(crate) struct Api {
    url: String,
    /// Where this process itself reaches it, without TLS and without leaving the machine.
    internal: SocketAddr,
    state: AppState,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<std::io::Result<()>>>,
}

impl Api {
    /// Begins to serve. At the first start of a store it makes an admin's token: the link that logs in with it is told
    /// once, and the token is kept in the folder for the local command line.
    pub(crate) async fn start(
        store: Arc<dyn Store>, Socket { listener, tls }: Socket, settings: Settings,
        providers: Vec<Arc<dyn GraphExecutor>>, folder: &DataFolder,
    ) -> Result<Self, Stop> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}{}", within(listener.local_addr()?), settings.base_path);
        if let Some(Missing { reason, remedy, .. }) = settings.dashboard.why_missing() {
            eprintln!("there is no dashboard in this program: {reason}; {remedy}");
        }
        if let Some(secret) = first_admin_token(store.as_ref()).await? {
            folder.keep_admin_token(secret.reveal())?;
            eprintln!("first start: log in at {}", login_link(&url, &secret));
        }
        let stop = watch::Sender::new(false);
        let stopped = |mut told: watch::Receiver<bool>| async move {
            // Also when nobody is left to say so.
            drop(told.wait_for(|told| *told).await);
        };
        let state = AppState::new(store, settings);
        for provider in providers {
            state.add_provider(provider);
        }
        let kept = state.clone();
        let mut internal = within(listener.local_addr()?);
        let listener = served(listener)?;
        let mut tasks = Vec::new();
        match tls {
            Some(tls) => {
                // No certificate is made out for this machine's own address.
                let own = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                internal = own.local_addr()?;
                tasks.push(tokio::spawn(punctual_server::serve(
                    served(own)?,
                    state.clone(),
                    stopped(stop.subscribe()),
                )));
                tasks.push(tokio::spawn(punctual_server::serve_tls(listener, tls, state, stopped(stop.subscribe()))));
            }
            None => tasks.push(tokio::spawn(punctual_server::serve(listener, state, stopped(stop.subscribe())))),
        }
        Ok(Self { url, internal, state: kept, stop, tasks })
    }

    /// Where the node of this process tells what it does.
    pub(crate) fn meter(&self) -> Arc<dyn Meter> {
        self.state.meter()
    }

    /// Hands the spans of its requests to whoever keeps them.
    pub(crate) fn trace_with(&self, tracer: Arc<dyn Tracer>) {
        self.state.trace_with(tracer);
    }

    /// Where the node of this process notes what is wrong.
    pub(crate) fn health(&self) -> Arc<Health> {
        self.state.health()
    }

    /// Where it can be called.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Takes no more requests, and waits for those that are under way.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            match task.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!("the API failed: {error}"),
                Err(error) => tracing::error!("the API ended badly: {error}"),
            }
        }
    }
}

fn base_path(text: &str) -> Result<BasePath, String> {
    BasePath::parse(text).map_err(|refused| match refused.remedy {
        Some(remedy) => format!("{}; {remedy}", refused.problem),
        None => refused.problem,
    })
}

fn served(listener: TcpListener) -> std::io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

/// An address as it is reached from the machine itself.
fn within(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
