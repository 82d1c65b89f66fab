//! `punctual serve`: a node and the HTTP API, on a data folder that it has to itself and tells others about.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use punctual_core::invalid::Invalid;
use punctual_core::store::Store;
use punctual_server::{
    AppState, PublicBind, ServerConfig, Settings, check_bind, first_admin_token, load_tls, login_link,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::data::DataFolder;
use super::worker::{WorkerArgs, runtime, without_password};
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
    /// The token that /metrics asks for [default: an admin's]
    #[arg(long, value_name = "TOKEN", env = "PUNCTUAL_METRICS_TOKEN", hide_env_values = true)]
    metrics_token: Option<String>,
}

impl ServeArgs {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        self.node.check()?;
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
        let done = runtime()?.block_on(self.serve(&database, &folder, Socket { listener, tls }, out));
        drop(serving);
        done
    }

    async fn serve(self, database: &str, folder: &DataFolder, socket: Socket, out: &mut Output) -> Result<(), Stop> {
        let address = socket.listener.local_addr()?;
        // What is called by a public name comes through a proxy, which speaks https.
        let settings = Settings {
            https: socket.tls.is_some() || (self.allow_plain_http && !self.hosts.is_empty()),
            hosts: self.hosts,
            metrics_token: self.metrics_token,
            ..Settings::default()
        };
        let store = punctual::open(database).await?;
        let api = Api::start(Arc::clone(&store), socket, settings, folder).await?;
        let database = without_password(database);
        folder.tell(&database, api.url())?;
        let shown = format!("{database}, API at {}", api.url());
        let worked = self.node.work(store, &shown, vec![address], out).await;
        // Last, so that what the node does while it stops can be watched.
        api.stop().await;
        worked
    }
}

/// Where the API listens, before it serves.
pub(crate) struct Socket {
    pub(crate) listener: TcpListener,
    /// The certificate, when it speaks TLS itself.
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

/// Where this machine itself calls an address that it listens on: one that stands for all of them is none of them.
fn callable(mut address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(it) if it.ip().is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(it) if it.ip().is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

/// The API while it serves.
pub(crate) struct Api {
    url: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Api {
    /// Begins to serve. At the first start of a store it makes an admin's token: the link that logs in with it is told
    /// once, and the token is kept in the folder for the local command line.
    pub(crate) async fn start(
        store: Arc<dyn Store>, Socket { listener, tls }: Socket, settings: Settings, folder: &DataFolder,
    ) -> Result<Self, Stop> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", callable(listener.local_addr()?));
        if let Some(secret) = first_admin_token(store.as_ref()).await? {
            folder.keep_admin_token(secret.reveal())?;
            eprintln!("first start: log in at {}", login_link(&url, &secret));
        }
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let state = AppState::new(store, settings);
        let task = tokio::spawn(async move {
            let stopped = async {
                // Also when nobody is left to say so.
                let _told = stopped.await;
            };
            match tls {
                Some(tls) => punctual_server::serve_tls(listener, tls, state, stopped).await,
                None => punctual_server::serve(listener, state, stopped).await,
            }
        });
        Ok(Self { url, stop, task })
    }

    /// Where it can be called.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Takes no more requests, and waits for those that are under way.
    pub(crate) async fn stop(self) {
        // When it has ended by itself, there is nothing to stop.
        let _ended = self.stop.send(());
        match self.task.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("the API failed: {error}"),
            Err(error) => tracing::error!("the API ended badly: {error}"),
        }
    }
}
