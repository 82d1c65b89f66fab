//! What the node tells that works in this process.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use punctual_core::meter::{AttemptResult, Meter, RunEnd, StoreVerb};
use punctual_core::notify::channel::ChannelKind;
use punctual_core::slot::Reason;
use std::time::Duration;

/// Answers of a database, from a cached page to a lock that somebody holds.
const ANSWERS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 2.5, 10.0];

/// Waiting times, from what nobody notices to what somebody must look at.
const WAITS: [f64; 13] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 3600.0];

/// Work, from a call to a night.
const WORK: [f64; 12] = [0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0];

/// How many at once.
const BATCHES: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    kind: &'static str,
    outcome: &'static str,
    error_code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabel {
    verb: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChannelLabel {
    channel: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeliveryLabels {
    channel: &'static str,
    result: &'static str,
}

/// A histogram for each label.
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Counters, histograms and gauges of one node.
#[derive(Debug)]
pub(super) struct NodeFigures {
    slots_fired: Counter,
    slots_not_run: Family<ReasonLabel, Counter>,
    jobs_promoted: Counter,
    schedules_mended: Counter,
    slot_lateness: Histogram,
    job_wait: Histogram,
    claim_batch: Histogram,
    report_batch: Histogram,
    store: Histograms<VerbLabel>,
    store_failures: Family<VerbLabel, Counter>,
    runs: Family<RunLabels, Counter>,
    run_seconds: Histograms<KindLabel>,
    reports_refused: Counter,
    running: Gauge,
    room: Gauge,
    lease_renewals: Family<ResultLabel, Counter>,
    leases_lost: Counter,
    nodes_recovered: Counter,
    runs_recovered: Counter,
    notices_judged: Counter,
    alerts_opened: Counter,
    deliveries: Family<DeliveryLabels, Counter>,
    delivery_seconds: Histograms<ChannelLabel>,
    spans_exported: Counter,
    spans_dropped: Counter,
}

impl NodeFigures {
    /// All at zero, and to be found in a registry under their names.
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let figures = Self {
            slots_fired: Counter::default(),
            slots_not_run: Family::default(),
            jobs_promoted: Counter::default(),
            schedules_mended: Counter::default(),
            slot_lateness: Histogram::new(WAITS),
            job_wait: Histogram::new(WAITS),
            claim_batch: Histogram::new(BATCHES),
            report_batch: Histogram::new(BATCHES),
            store: Family::new_with_constructor(|| Histogram::new(ANSWERS)),
            store_failures: Family::default(),
            runs: Family::default(),
            run_seconds: Family::new_with_constructor(|| Histogram::new(WORK)),
            reports_refused: Counter::default(),
            running: Gauge::default(),
            room: Gauge::default(),
            lease_renewals: Family::default(),
            leases_lost: Counter::default(),
            nodes_recovered: Counter::default(),
            runs_recovered: Counter::default(),
            notices_judged: Counter::default(),
            alerts_opened: Counter::default(),
            deliveries: Family::default(),
            delivery_seconds: Family::new_with_constructor(|| Histogram::new(WORK)),
            spans_exported: Counter::default(),
            spans_dropped: Counter::default(),
        };
        figures.begin_at_zero();
        figures.register_firing(registry);
        figures.register_work(registry);
        figures.register_lease(registry);
        figures.register_notices(registry);
        figures
    }

    /// What may happen is there before it does: a rate of something that appears with its first time is missed.
    fn begin_at_zero(&self) {
        for verb in StoreVerb::ALL {
            let label = VerbLabel { verb: verb.as_str() };
            drop(self.store.get_or_create(&label));
            drop(self.store_failures.get_or_create(&label));
        }
        for reason in Reason::ALL.iter().filter(|reason| keeps_from_running(**reason)) {
            drop(self.slots_not_run.get_or_create(&ReasonLabel { reason: reason.as_str() }));
        }
        for renewed in [true, false] {
            drop(self.lease_renewals.get_or_create(&result(renewed)));
        }
        for channel in ChannelKind::ALL.iter().map(|kind| kind.as_str()) {
            drop(self.delivery_seconds.get_or_create(&ChannelLabel { channel }));
            for result in AttemptResult::ALL.iter().map(|result| result.as_str()) {
                drop(self.deliveries.get_or_create(&DeliveryLabels { channel, result }));
            }
        }
    }

    fn register_firing(&self, registry: &mut Registry) {
        registry.register("slots_fired", "Slots for which this node made a job", self.slots_fired.clone());
        registry.register("slots_not_run", "Slots that this node decided not to run", self.slots_not_run.clone());
        registry.register("jobs_promoted", "Delayed jobs whose time had come", self.jobs_promoted.clone());
        registry.register(
            "schedules_mended",
            "Plans made anew and schedules that could not be understood",
            self.schedules_mended.clone(),
        );
        registry.register(
            "slot_lateness_seconds",
            "From a slot to the start of its job, without what makes up for the past",
            self.slot_lateness.clone(),
        );
    }

    fn register_work(&self, registry: &mut Registry) {
        registry.register(
            "job_wait_seconds",
            "From when a job could have run until this node claimed it",
            self.job_wait.clone(),
        );
        registry.register("claim_batch_jobs", "Jobs that came with one claim", self.claim_batch.clone());
        registry.register("report_batch_runs", "Ends that were reported together", self.report_batch.clone());
        registry.register(
            "reports_refused",
            "Ends that came after others had taken over",
            self.reports_refused.clone(),
        );
        registry.register("runs", "Runs that ended on this node", self.runs.clone());
        registry.register("run_seconds", "How long targets were at work", self.run_seconds.clone());
        registry.register("node_running", "Runs that are going on on this node", self.running.clone());
        registry.register("node_room", "Runs that may go on on this node", self.room.clone());
        registry.register("store_seconds", "How long the store took to answer this node", self.store.clone());
        registry.register("store_failures", "Questions that the store could not answer", self.store_failures.clone());
        registry.register("spans_exported", "Spans that the receiver of traces took", self.spans_exported.clone());
        registry.register(
            "spans_dropped",
            "Spans that the receiver of traces did not take",
            self.spans_dropped.clone(),
        );
    }

    fn register_lease(&self, registry: &mut Registry) {
        registry.register("lease_renewals", "Heartbeats of this node", self.lease_renewals.clone());
        registry.register("leases_lost", "Leases that this node could not keep", self.leases_lost.clone());
        registry.register("nodes_recovered", "Lost nodes that this node found", self.nodes_recovered.clone());
        registry.register("runs_recovered", "Runs of lost nodes that this node closed", self.runs_recovered.clone());
    }

    fn register_notices(&self, registry: &mut Registry) {
        registry.register("notices_judged", "News that this node judged by the rules", self.notices_judged.clone());
        registry.register("alerts_opened", "Alerts that this node opened", self.alerts_opened.clone());
        registry.register("deliveries", "Messages by kind of channel and result", self.deliveries.clone());
        registry.register("delivery_seconds", "How long deliveries took", self.delivery_seconds.clone());
    }
}

fn keeps_from_running(reason: Reason) -> bool {
    !matches!(reason, Reason::OnTime | Reason::Catchup | Reason::Backfill)
}

fn result(could: bool) -> ResultLabel {
    ResultLabel { result: if could { "ok" } else { "failed" } }
}

fn gauged(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn counted(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "no batch is that large")]
fn observed(count: usize) -> f64 {
    count as f64
}

impl Meter for NodeFigures {
    fn slots_fired(&self, slots: u64) {
        self.slots_fired.inc_by(slots);
    }

    fn slots_not_run(&self, reason: Reason, slots: u64) {
        self.slots_not_run.get_or_create(&ReasonLabel { reason: reason.as_str() }).inc_by(slots);
    }

    fn jobs_promoted(&self, jobs: u64) {
        self.jobs_promoted.inc_by(jobs);
    }

    fn schedules_mended(&self, schedules: u64) {
        self.schedules_mended.inc_by(schedules);
    }

    fn store_answered(&self, verb: StoreVerb, took: Duration, could: bool) {
        let label = VerbLabel { verb: verb.as_str() };
        self.store.get_or_create(&label).observe(took.as_secs_f64());
        if !could {
            self.store_failures.get_or_create(&label).inc();
        }
    }

    fn jobs_claimed(&self, jobs: usize) {
        self.claim_batch.observe(observed(jobs));
    }

    fn job_waited(&self, waited: Duration) {
        self.job_wait.observe(waited.as_secs_f64());
    }

    fn slot_was_late(&self, late: Duration) {
        self.slot_lateness.observe(late.as_secs_f64());
    }

    fn run_ended(&self, end: RunEnd) {
        let RunEnd { kind, outcome, error_code, took } = end;
        let error_code = error_code.map_or("none", punctual_core::run::ErrorCode::as_str);
        self.runs.get_or_create(&RunLabels { kind, outcome: outcome.as_str(), error_code }).inc();
        self.run_seconds.get_or_create(&KindLabel { kind }).observe(took.as_secs_f64());
    }

    fn runs_reported(&self, runs: usize, refused: usize) {
        self.report_batch.observe(observed(runs));
        self.reports_refused.inc_by(counted(refused));
    }

    fn at_work(&self, running: usize, room: usize) {
        self.running.set(gauged(running));
        self.room.set(gauged(room));
    }

    fn lease_renewed(&self, renewed: bool) {
        self.lease_renewals.get_or_create(&result(renewed)).inc();
    }

    fn lease_lost(&self) {
        self.leases_lost.inc();
    }

    fn recovered(&self, nodes: usize, runs: usize) {
        self.nodes_recovered.inc_by(counted(nodes));
        self.runs_recovered.inc_by(counted(runs));
    }

    fn notices_judged(&self, notices: u64) {
        self.notices_judged.inc_by(notices);
    }

    fn delivery_ended(&self, channel: ChannelKind, result: AttemptResult, took: Duration) {
        let (channel, result) = (channel.as_str(), result.as_str());
        self.deliveries.get_or_create(&DeliveryLabels { channel, result }).inc();
        self.delivery_seconds.get_or_create(&ChannelLabel { channel }).observe(took.as_secs_f64());
    }

    fn alerts_opened(&self, alerts: u64) {
        self.alerts_opened.inc_by(alerts);
    }

    fn spans_exported(&self, spans: u64) {
        self.spans_exported.inc_by(spans);
    }

    fn spans_dropped(&self, spans: u64) {
        self.spans_dropped.inc_by(spans);
    }
}
