//! The figures that are read from the store when somebody asks, and the text of all of them.

use super::PREFIX;
use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use punctual_core::readings::{PoolFigures, QueueRow, Stats};
use punctual_core::store::{Store, StoreResult};
use std::sync::atomic::AtomicU64;

/// The most queues that are told of one by one.
const QUEUES_MAX: usize = 500;

/// A gauge of seconds.
type Seconds = Gauge<f64, AtomicU64>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    store: &'static str,
}

/// What the store says at one moment.
pub(super) struct StoreFigures {
    now: Timestamp,
    kind: &'static str,
    stats: Stats,
    queues: Vec<QueueRow>,
    pool: Option<PoolFigures>,
    overdue: SignedDuration,
    streams: usize,
}

impl StoreFigures {
    pub(super) async fn read(store: &dyn Store, streams: usize) -> StoreResult<Self> {
        let now = store.now().await?;
        let since = now.saturating_sub(SignedDuration::from_mins(1)).unwrap_or(Timestamp::MIN);
        let due = store.overdue_schedules(SignedDuration::ZERO, 1).await?.first().map(|schedule| schedule.due_at);
        Ok(Self {
            now,
            kind: store.kind(),
            stats: store.stats(since).await?,
            queues: store.queues(None, QUEUES_MAX).await?,
            pool: store.pool_figures(),
            overdue: due.map_or(SignedDuration::ZERO, |due| now.duration_since(due).max(SignedDuration::ZERO)),
            streams,
        })
    }

    /// Everything as text: what the process counted, and what the store says.
    pub(super) fn render(&self, counted: &Registry) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::with_prefix(PREFIX);
        let build = Info::new(BuildLabels { version: env!("CARGO_PKG_VERSION"), store: self.kind });
        registry.register("build", "Which version this is, on which store", build);
        self.register_jobs(&mut registry);
        self.register_queues(&mut registry);
        self.register_numbers(&mut registry);
        self.register_pool(&mut registry);
        let mut text = String::new();
        encode_registry(&mut text, &registry)?;
        encode_registry(&mut text, counted)?;
        encode_eof(&mut text)?;
        Ok(text)
    }

    fn register_jobs(&self, registry: &mut Registry) {
        let stats = &self.stats;
        let jobs = Family::<StateLabel, Gauge>::default();
        for (state, count) in [
            ("waiting", stats.waiting),
            ("scheduled", stats.scheduled),
            ("queued", stats.queued),
            ("running", stats.running),
        ] {
            jobs.get_or_create(&StateLabel { state }).set(whole(count.value));
        }
        registry.register("jobs", "Jobs that have not ended, counted up to 10,000", jobs);
        let ended = Family::<StateLabel, Gauge>::default();
        for (outcome, count) in &stats.ended {
            ended.get_or_create(&StateLabel { state: outcome.as_str() }).set(whole(*count));
        }
        registry.register("runs_ended_last_minute", "Runs that ended in the last minute, by outcome", ended);
    }

    fn register_queues(&self, registry: &mut Registry) {
        let [depth, running, paused] = [(); 3].map(|()| Family::<QueueLabel, Gauge>::default());
        let oldest = Family::<QueueLabel, Seconds>::default();
        for queue in &self.queues {
            let label = QueueLabel { queue: queue.name.clone() };
            depth.get_or_create(&label).set(whole(queue.depth.value));
            running.get_or_create(&label).set(whole(queue.running.value));
            paused.get_or_create(&label).set(i64::from(queue.paused));
            let waited = queue.oldest_queued_at.map_or(SignedDuration::ZERO, |since| self.now.duration_since(since));
            oldest.get_or_create(&label).set(waited.as_secs_f64().max(0.0));
        }
        registry.register("queue_depth", "Jobs that wait in a queue, counted up to 10,000", depth);
        registry.register("queue_running", "Jobs of a queue that run, counted up to 10,000", running);
        registry.register("queue_paused", "Whether a queue hands out nothing", paused);
        registry.register("queue_oldest_seconds", "How long the job that has waited longest has waited", oldest);
    }

    fn register_numbers(&self, registry: &mut Registry) {
        let stats = &self.stats;
        for (name, help, value) in [
            ("schedules", "Schedules, counted up to 10,000", stats.schedules.value),
            ("schedules_paused", "Schedules that are paused", stats.paused),
            ("schedules_failing", "Schedules whose last run failed", stats.failing),
            ("schedules_with_problem", "Schedules that cannot be fired", stats.with_problem),
            ("nodes", "Nodes that hold a lease", stats.nodes),
            ("notices_open", "News that no rule has judged yet, counted up to 10,000", stats.notices.value),
            ("event_streams", "Open event streams of this server", u64::try_from(self.streams).unwrap_or(0)),
        ] {
            register_number(registry, name, help, value);
        }
        let overdue = Seconds::default();
        overdue.set(self.overdue.as_secs_f64());
        registry.register("schedule_overdue_seconds", "How long a schedule is due that nobody has fired", overdue);
    }

    fn register_pool(&self, registry: &mut Registry) {
        let Some(pool) = self.pool else { return };
        for (name, help, value) in [
            ("pool_connections_max", "Connections to the database that there may be", pool.max),
            ("pool_connections", "Connections to the database", pool.open),
            ("pool_connections_idle", "Connections to the database that nobody uses", pool.idle),
            ("pool_waiting", "Calls that wait for a connection to the database", pool.waiting),
        ] {
            register_number(registry, name, help, u64::try_from(value).unwrap_or(u64::MAX));
        }
    }
}

fn register_number(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(whole(value));
    registry.register(name, help, gauge);
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
