//! The HTTP API: resources over the store port, access, events, health, the execution service, and the documents that
//! describe them.
//!
//! [`router`] is a `tower` service: `punctual serve` puts it behind a socket with [`serve`] or [`serve_tls`], and the
//! command line calls the same router in its own process. It sees the store through `core`'s port only, and never
//! waits for the engine: whatever is asked here is a read or one short transaction.

#![expect(unused_qualifications, reason = "the macro that describes a call repeats the names it is given")]

mod acknowledge;
mod api;
mod auth;
mod change;
mod cursor;
mod dashboard;
mod docs;
mod doctor;
mod events;
mod execution;
mod extract;
pub mod graphs;
mod guard;
mod limits;
mod manifest;
mod metrics;
pub mod openapi;
mod problem;
mod producing;
pub mod secret;
mod settings;
mod state;
mod tls;

pub use auth::{first_admin_token, login_link};
pub use dashboard::{Dashboard, DashboardFile, Missing};
pub use execution::{JwtRules, SECRET_MIN, ServiceAccess};
pub use manifest::checked_schedule;
pub use settings::{BasePath, PublicBind, Settings, check_bind};
pub use state::AppState;
pub use tls::load_tls;
pub use tokio_rustls::rustls::ServerConfig;

use crate::tls::TlsListener;
use axum::extract::Request;
use axum::extract::connect_info::Connected;
use axum::http::Uri;
use axum::middleware;
use axum::routing::get;
use axum::serve::{IncomingStream, Listener};
use axum::{Extension, Router};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// How long requests that are under way are waited for after the server was told to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Everything under one service: the dashboard, the API, its documents, health and metrics.
pub fn router(state: AppState) -> Router {
    let (api, internal) = (api::routes(&state), execution::routes(&state));
    let open = Router::new()
        .route("/", get(dashboard::root))
        .merge(docs::routes())
        .merge(acknowledge::routes())
        .merge(metrics::routes())
        .fallback(dashboard::anything_else)
        .method_not_allowed_fallback(problem::no_such_method)
        .with_state(state.clone());
    let base = state.shared.settings.base_path.clone();
    below(base, guard::around(open.nest("/api/v1", api).nest("/api/internal", internal), state))
}

/// The same below a path, and without it all the same: a proxy may have taken it away already.
fn below(base: BasePath, router: Router) -> Router {
    if base.as_str().is_empty() {
        return router;
    }
    let strip = move |mut request: Request| {
        let uri = request.uri();
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let rest = format!("{}{query}", base.strip(uri.path()));
        let mut parts = uri.clone().into_parts();
        // What is left of a path is a path.
        parts.path_and_query = rest.parse().ok();
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
        std::future::ready(request)
    };
    Router::new().fallback_service(router).layer(middleware::map_request(strip))
}

/// The same service for a program that has the store open itself: every call is an admin's, and no token is asked for.
/// Never to be put behind a socket.
pub fn in_process(state: AppState) -> Router {
    router(state).layer(Extension(auth::Caller::in_process()))
}

/// Serves until told to stop; then takes no more requests, ends the event streams, and lets the rest finish.
pub async fn serve(
    listener: TcpListener, state: AppState, shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    serve_on(PlainListener(listener), state, shutdown).await
}

/// The same over TLS, with what [`load_tls`] has read; [`Settings::https`] must say so, too.
pub async fn serve_tls(
    listener: TcpListener, tls: Arc<ServerConfig>, state: AppState, shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    serve_on(TlsListener::new(listener, tls), state, shutdown).await
}

/// Plain HTTP.
struct PlainListener(TcpListener);

impl Listener for PlainListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        let (stream, from) = Listener::accept(&mut self.0).await;
        // An answer is written at once and not held back for more to come; without this it is only slower.
        let _slower = stream.set_nodelay(true);
        (stream, from)
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Where a request came from, whatever it came through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl Connected<IncomingStream<'_, PlainListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, PlainListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

async fn serve_on<L>(
    listener: L, state: AppState, shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()>
where
    L: Listener<Addr = SocketAddr>,
    for<'a> Peer: Connected<IncomingStream<'a, L>>,
{
    let service = router(state.clone()).into_make_service_with_connect_info::<Peer>();
    let (told, mut stopping) = tokio::sync::watch::channel(false);
    let drain = {
        let state = state.clone();
        async move {
            shutdown.await;
            state.begin_drain();
            told.send_replace(true);
        }
    };
    let serving = axum::serve(listener, service).with_graceful_shutdown(drain);
    let out_of_patience = async {
        // An error means that the sender is gone, and with it the server.
        let _gone = stopping.wait_for(|stopping| *stopping).await.is_err();
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = serving.into_future() => served,
        () = out_of_patience => {
            tracing::warn!("some requests did not finish in time; their connections are closed");
            Ok(())
        }
    }
}
