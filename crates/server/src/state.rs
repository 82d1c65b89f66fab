//! What all requests share: the store, the settings, the limits, the events and the figures.

use crate::auth::Believed;
use crate::dashboard::Page;
use crate::events::Hub;
use crate::execution::Drives;
use crate::graphs::{FlowGraphs, Providers};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::settings::Settings;
use punctual_core::graph::GraphExecutor;
use punctual_core::health::Health;
use punctual_core::meter::Meter;
use punctual_core::store::Store;
use punctual_core::trace::{NoTracer, Tracer};
use std::sync::{Arc, OnceLock};
use tokio::sync::{Mutex, watch};

/// What a server works on. Cheap to clone; all clones are one server.
#[derive(Clone)]
pub struct AppState {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) page: Page,
    pub(crate) limits: Limits,
    pub(crate) believed: Believed,
    pub(crate) metrics: Metrics,
    pub(crate) health: Arc<Health>,
    tracer: OnceLock<Arc<dyn Tracer>>,
    pub(crate) hub: Hub,
    pub(crate) graphs: Providers,
    pub(crate) drives: Drives,
    /// Held by whoever looks through the whole store.
    pub(crate) doctor: Mutex<()>,
    draining: watch::Sender<bool>,
}

impl std::fmt::Debug for AppState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppState").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

impl AppState {
    /// A server on a store.
    pub fn new(store: Arc<dyn Store>, settings: Settings) -> Self {
        let shared = Shared {
            page: Page::new(&settings.dashboard, &settings.base_path),
            limits: Limits::new(&settings),
            believed: Believed::default(),
            health: Arc::default(),
            metrics: Metrics::default(),
            tracer: OnceLock::new(),
            hub: Hub::new(Arc::clone(&store)),
            graphs: Providers::default(),
            drives: Drives::default(),
            doctor: Mutex::new(()),
            draining: watch::Sender::new(false),
            settings,
        };
        shared.graphs.add(Arc::new(FlowGraphs::new(Arc::clone(&store))));
        Self { store, shared: Arc::new(shared) }
    }

    /// Has the graphs of a provider, too; a later one with the same prefix takes the place of an earlier one.
    pub fn add_provider(&self, provider: Arc<dyn GraphExecutor>) {
        self.shared.graphs.add(provider);
    }

    /// Where a node that works in this process tells what it does, for `/metrics`.
    pub fn meter(&self) -> Arc<dyn Meter> {
        self.shared.metrics.meter()
    }

    /// Where the node of this process notes what is wrong with the whole.
    pub fn health(&self) -> Arc<Health> {
        Arc::clone(&self.shared.health)
    }

    /// Hands the spans of requests that make jobs to whoever keeps them; the first one to be named stays.
    pub fn trace_with(&self, tracer: Arc<dyn Tracer>) {
        let _named_already = self.shared.tracer.set(tracer);
    }

    pub(crate) fn tracer(&self) -> Arc<dyn Tracer> {
        self.shared.tracer.get().map_or_else(|| Arc::new(NoTracer) as Arc<dyn Tracer>, Arc::clone)
    }

    /// Says from now on that this server is not ready, and ends its event streams.
    pub fn begin_drain(&self) {
        self.shared.draining.send_replace(true);
    }

    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.shared.draining.subscribe()
    }
}
