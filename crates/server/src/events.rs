//! The event stream: what happens in the store, whoever does it, told to whoever listens.
//!
//! One follower for each server looks into the store when it is woken or a second has passed, for as long as somebody
//! listens: jobs made, started and ended, nodes that came and went, and what people changed (from the audit log). So
//! events of other nodes are told, too, and each says by its topic which list it is about. Ids count within this server;
//! whoever comes back with one that is too old, or from another server, is told to read anew (`reset`). The same is told
//! to whoever reads too slowly, and when more happens than is followed.

use crate::auth::Caller;
use crate::extract::Asked;
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use jiff::{SignedDuration, Timestamp};
use punctual_core::access::{AuditRow, Role};
use punctual_core::id::{AuditId, JobId, NodeId};
use punctual_core::job::{JobState, JobView};
use punctual_core::readings::{Ended, JobFilter, JobsIn};
use punctual_core::store::{Store, StoreResult};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use utoipa::IntoParams;

/// How many events are kept for those who come back, and how far a reader may fall behind.
const KEPT: usize = 1_024;

/// The most of one kind that one look tells; when there is more, readers are told to read anew.
const LOOK_MAX: usize = 500;

/// The shortest and the longest time between two looks.
const LOOK_AFTER: Duration = Duration::from_millis(200);
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How far each look goes back: a transaction that began earlier may be stored later.
const LOOK_BACK: SignedDuration = SignedDuration::from_secs(2);

/// How often a silent stream says that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Something that happened.
#[derive(Debug, Clone)]
struct Event {
    number: u64,
    topic: &'static str,
    kind: String,
    /// Whose it is; only admins hear of what is nobody's.
    owner: Option<String>,
    data: String,
}

const RESET: &str = "reset";

/// Where events come together and go out from.
#[derive(Clone)]
pub(crate) struct Hub(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    /// Names this server among others, and among its own restarts.
    epoch: String,
    sender: broadcast::Sender<Event>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<Event>,
    next: u64,
    streams: usize,
    followed: bool,
}

impl Hub {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let epoch = uuid::Uuid::new_v4().simple().to_string();
        let sender = broadcast::Sender::new(KEPT);
        Self(Arc::new(Inner { store, epoch, sender, kept: Mutex::new(Kept { next: 1, ..Kept::default() }) }))
    }

    /// How many listen.
    pub(crate) fn streams(&self) -> usize {
        self.0.kept().streams
    }

    /// Joins: everything from now on is told; what was missed since an id comes first, or `None` when that cannot be
    /// told.
    fn join(&self, last: Option<&str>, now: Timestamp) -> (Option<VecDeque<Event>>, broadcast::Receiver<Event>) {
        let mut kept = self.0.kept();
        kept.streams += 1;
        if !kept.followed {
            kept.followed = true;
            tokio::spawn(follow(Arc::downgrade(&self.0), now));
        }
        let missed = match last {
            None => Some(VecDeque::new()),
            Some(last) => last.strip_prefix(&self.0.epoch).and_then(|rest| rest.strip_prefix('-')).and_then(|number| {
                let number: u64 = number.parse().ok()?;
                let oldest = kept.events.front().map_or(kept.next, |event| event.number);
                (oldest <= number + 1 && number < kept.next)
                    .then(|| kept.events.iter().filter(|event| event.number > number).cloned().collect())
            }),
        };
        (missed, self.0.sender.subscribe())
    }
}

impl Inner {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, topic: &'static str, kind: impl Into<String>, owner: Option<String>, data: &Value) {
        let mut kept = self.kept();
        let mut told = json!({ "topic": topic });
        if let (Some(told), Some(data)) = (told.as_object_mut(), data.as_object()) {
            told.extend(data.clone());
        }
        let event = Event { number: kept.next, topic, kind: kind.into(), owner, data: told.to_string() };
        kept.next += 1;
        if kept.events.len() >= KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(event.clone());
        // Nobody listens: then there is nobody to tell.
        let _unheard = self.sender.send(event);
    }

    /// Whether to stop following, because nobody listens any more.
    fn is_alone(&self) -> bool {
        let mut kept = self.kept();
        if kept.streams == 0 {
            // Whoever comes later cannot know what was not followed.
            kept.events.clear();
            kept.next += 1;
            kept.followed = false;
        }
        kept.streams == 0
    }
}

/// Follows the store for as long as somebody listens.
async fn follow(hub: Weak<Inner>, began: Timestamp) {
    let Some(mut changes) = hub.upgrade().map(|hub| hub.store.changes()) else { return };
    let mut follower = None;
    loop {
        let Some(hub) = hub.upgrade().filter(|hub| !hub.is_alone()) else { return };
        let looked = match &mut follower {
            None => Follower::begin(hub.store.as_ref(), began).await.map(|begun| follower = Some(begun)),
            Some(follower) => follower.look(&hub).await,
        };
        if let Err(error) = looked {
            tracing::debug!(%error, "failed to follow the store; trying again");
        }
        drop(hub);
        tokio::time::sleep(LOOK_AFTER).await;
        let _woken = tokio::time::timeout(LOOK_AGAIN.saturating_sub(LOOK_AFTER), changes.next()).await;
    }
}

/// How far the store has been followed.
struct Follower {
    began: Timestamp,
    made: HashSet<JobId>,
    started: HashSet<JobId>,
    ended: HashSet<JobId>,
    changed: HashSet<AuditId>,
    /// The nodes that hold a lease, with their names.
    nodes: HashMap<NodeId, String>,
}

impl Follower {
    async fn begin(store: &dyn Store, began: Timestamp) -> StoreResult<Self> {
        let running = JobFilter { place: JobsIn::State(JobState::Running), ..JobFilter::default() };
        let running = store.jobs_by(&running, None, LOOK_MAX).await?;
        Ok(Self {
            began,
            made: HashSet::new(),
            started: running.items.iter().map(|view| view.job.id).collect(),
            ended: HashSet::new(),
            changed: HashSet::new(),
            nodes: live_nodes(store).await?,
        })
    }

    /// Looks once, and tells what is new.
    async fn look(&mut self, hub: &Inner) -> StoreResult<()> {
        let store = hub.store.as_ref();
        let since = store.now().await?.saturating_sub(LOOK_BACK).unwrap_or(self.began).max(self.began);
        let made = store.jobs_after(JobId::first_of(since), LOOK_MAX).await?;
        let running = JobFilter { place: JobsIn::State(JobState::Running), ..JobFilter::default() };
        let running = store.jobs_by(&running, None, LOOK_MAX).await?.items;
        let from = Ended { finished_at: since, job_id: JobId::from_bytes([0; 16]) };
        let ended = store.ended_after(from, LOOK_MAX).await?;
        let changed = store.audit_after(AuditId::first_of(since), LOOK_MAX).await?;
        if [made.len(), ended.len(), changed.len()].contains(&LOOK_MAX) {
            hub.tell("all", RESET, None, &json!({ "reason": "more happened than is told one by one" }));
        }
        tell_new(hub, "job.created", &mut self.made, &made);
        tell_new(hub, "job.started", &mut self.started, &running);
        tell_new(hub, "job.ended", &mut self.ended, &ended);
        for row in &changed {
            if !self.changed.contains(&row.id) {
                tell_change(hub, row);
            }
        }
        self.changed = changed.iter().map(|row| row.id).collect();
        let nodes = live_nodes(store).await?;
        tell_nodes(hub, "node.joined", &nodes, &self.nodes);
        tell_nodes(hub, "node.gone", &self.nodes, &nodes);
        self.nodes = nodes;
        Ok(())
    }
}

async fn live_nodes(store: &dyn Store) -> StoreResult<HashMap<NodeId, String>> {
    Ok(store.node_pulses().await?.into_iter().map(|pulse| (pulse.node_id, pulse.name)).collect())
}

/// Tells of the nodes that are among some and not among others. Whether one that is gone left or was lost is in the list
/// of nodes.
fn tell_nodes(hub: &Inner, kind: &str, some: &HashMap<NodeId, String>, others: &HashMap<NodeId, String>) {
    for (id, name) in some.iter().filter(|(id, _)| !others.contains_key(id)) {
        hub.tell("nodes", kind, None, &json!({ "id": id, "name": name }));
    }
}

/// Tells what was not told before, and remembers what is still in sight.
fn tell_new(hub: &Inner, kind: &str, told: &mut HashSet<JobId>, views: &[JobView]) {
    for view in views.iter().filter(|view| !told.contains(&view.job.id)) {
        let data = json!({
            "id": view.job.id,
            "state": view.state(),
            "queue": view.job.spec.queue,
            "schedule_id": view.job.schedule_id,
            "attempt": view.job.attempt,
            "error_code": view.run().and_then(|run| run.error_code),
        });
        hub.tell("jobs", kind, view.job.spec.owner.clone(), &data);
    }
    *told = views.iter().map(|view| view.job.id).collect();
}

/// A manifest changes several lists at once: each is told.
fn tell_manifest(hub: &Inner, row: &AuditRow) {
    #[derive(Deserialize)]
    struct Applied {
        owner: String,
        things: Vec<Touched>,
    }
    #[derive(Deserialize)]
    struct Touched {
        kind: String,
    }
    let Some(applied) = row.after.as_ref().and_then(|after| after.to::<Applied>().ok()) else { return };
    let of = |kind: &str| topic_of(if kind == "preset" { "cron_preset" } else { kind });
    let touched: BTreeSet<&'static str> = applied.things.iter().map(|thing| of(&thing.kind)).collect();
    for topic in touched {
        let owner = (!is_shared(topic)).then(|| applied.owner.clone());
        let data = json!({ "subject": row.subject, "actor": row.actor, "at": row.at });
        hub.tell(topic, row.action.clone(), owner, &data);
    }
}

fn tell_change(hub: &Inner, row: &AuditRow) {
    #[derive(Deserialize)]
    struct Owned {
        owner: Option<String>,
    }
    if row.action == "manifest.apply" {
        return tell_manifest(hub, row);
    }
    let owner = [&row.after, &row.before].into_iter().flatten().find_map(|json| json.to::<Owned>().ok()?.owner);
    let topic = topic_of(&row.action);
    let owner = if topic == "tokens" { None } else { owner };
    hub.tell(topic, row.action.clone(), owner, &json!({ "subject": row.subject, "actor": row.actor, "at": row.at }));
}

/// Which list a change is about: the first word of its name in the audit log says so.
fn topic_of(action: &str) -> &'static str {
    match action.split('.').next().unwrap_or_default() {
        "schedule" | "backfill" => "schedules",
        "queue" | "serial_key" => "queues",
        "template" => "templates",
        "calendar" => "calendars",
        "cron_preset" => "cron_presets",
        "settings" => "settings",
        "token" => "tokens",
        "flow" => "flows",
        "grant" => "grants",
        "billing_account" => "billing_accounts",
        "channel" => "channels",
        "rule" => "rules",
        "alert" => "alerts",
        "delivery" => "deliveries",
        "limit" => "limits",
        _ => "jobs",
    }
}

/// Whether what is nobody's own is told to everybody, as its list is shown to everybody.
fn is_shared(topic: &str) -> bool {
    let shared =
        ["queues", "templates", "calendars", "cron_presets", "settings", "channels", "rules", "limits", "nodes"];
    shared.contains(&topic)
}

/// What is listened to.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsAsked {
    /// Some of `jobs,schedules,queues,templates,tokens,calendars,settings,flows,grants,channels,rules,alerts,deliveries,`
    /// `limits,nodes,cron_presets,billing_accounts`, separated by commas; all unless said otherwise.
    topics: Option<String>,
}

const TOPICS: [&str; 17] = [
    "jobs",
    "schedules",
    "queues",
    "templates",
    "tokens",
    "calendars",
    "settings",
    "flows",
    "grants",
    "channels",
    "rules",
    "alerts",
    "deliveries",
    "limits",
    "nodes",
    "cron_presets",
    "billing_accounts",
];

fn topics(asked: Option<&str>) -> Answered<Vec<&'static str>> {
    let Some(asked) = asked else { return Ok(TOPICS.to_vec()) };
    let known = |word: &str| TOPICS.into_iter().find(|topic| *topic == word.trim());
    asked
        .split(',')
        .map(|word| {
            known(word).ok_or_else(|| {
                Problem::new(StatusCode::BAD_REQUEST, "bad_query", "a topic is not known")
                    .remedy(format!("use some of {}", TOPICS.join(", ")))
                    .at("topics")
            })
        })
        .collect()
}

/// Listen to what happens, as server-sent events; `Last-Event-ID` brings what was missed, or the event `reset`.
#[utoipa::path(get, path = "/events", tag = "system",
    params(EventsAsked, ("Last-Event-ID" = Option<String>, Header, description = "The last id that was seen.")),
    responses((status = 200, description = "a stream", content_type = "text/event-stream", body = String)))]
pub(crate) async fn stream(
    State(state): State<AppState>, caller: Caller, headers: HeaderMap, Asked(asked): Asked<EventsAsked>,
) -> Answered<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>> {
    let topics = topics(asked.topics.as_deref())?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let hub = state.shared.hub.clone();
    let (missed, receiver) = hub.join(last, state.store.now().await?);
    let opening = if missed.is_some() { "ready" } else { RESET };
    let reader = Reader {
        epoch: hub.0.epoch.clone(),
        opening: Some(opening),
        missed: missed.unwrap_or_default(),
        receiver,
        topics,
        caller,
        draining: state.draining(),
        hub,
    };
    let events = unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok(event), reader))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// One who listens.
struct Reader {
    epoch: String,
    opening: Option<&'static str>,
    missed: VecDeque<Event>,
    receiver: broadcast::Receiver<Event>,
    topics: Vec<&'static str>,
    caller: Caller,
    draining: watch::Receiver<bool>,
    hub: Hub,
}

impl Reader {
    /// The next event that concerns him; `None` when the server stops.
    async fn next(&mut self) -> Option<sse::Event> {
        if let Some(opening) = self.opening.take() {
            return Some(sse::Event::default().event(opening).data("{}"));
        }
        loop {
            let event = if let Some(event) = self.missed.pop_front() {
                event
            } else {
                tokio::select! {
                    biased;
                    _ = self.draining.wait_for(|draining| *draining) => return None,
                    event = self.receiver.recv() => match event {
                        Ok(event) => event,
                        Err(RecvError::Closed) => return None,
                        // He read too slowly, and what he missed is gone.
                        Err(RecvError::Lagged(_)) => return Some(sse::Event::default().event(RESET).data("{}")),
                    },
                }
            };
            if self.hears(&event) {
                let id = format!("{}-{}", self.epoch, event.number);
                return Some(sse::Event::default().id(id).event(event.kind).data(event.data));
            }
        }
    }

    fn hears(&self, event: &Event) -> bool {
        if event.kind == RESET {
            return true;
        }
        let own = match &event.owner {
            None => self.caller.role == Role::Admin || is_shared(event.topic),
            Some(owner) => self.caller.sees(Some(owner)),
        };
        own && self.topics.contains(&event.topic)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.hub.0.kept().streams -= 1;
    }
}
