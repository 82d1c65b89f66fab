//! Queues: what waits and runs, pause, order, reservations. Queues are shared: operators steer all of them.

use super::job_shapes::ScheduleNames;
use super::jobs::schedule_names;
use super::{Page, Paging};
use crate::auth::Caller;
use crate::change::{Action, Ask, Made, Told};
use crate::cursor::{self, List};
use crate::extract::{Asked, MaybeSent, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use punctual_core::access::{Role, SecretHash};
use punctual_core::duration::{optional_text, text};
use punctual_core::id::{JobId, ReservationId};
use punctual_core::invalid::Invalid;
use punctual_core::job::{JobView, Whereabouts};
use punctual_core::order::Place;
use punctual_core::readings::{Count, QueueRow};
use punctual_core::store::{QueuedJob, Reservation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use utoipa::ToSchema;
use uuid::Uuid;

/// A queue.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Queue)]
pub(crate) struct QueueBody {
    name: String,
    paused: bool,
    created_at: Timestamp,
    /// How many jobs wait, counted up to 10,000.
    depth: CountBody,
    /// Since when the one that has waited longest waits, of those that were counted.
    oldest_queued_at: Option<Timestamp>,
    running: CountBody,
    /// How many of its jobs run at once; any number when null. `/limits/queue:NAME` says more.
    concurrency: Option<u32>,
    reservation: Option<ReservationBody>,
}

/// A number that is exact up to 10,000.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = Count)]
pub(crate) struct CountBody {
    count: u64,
    /// Whether there are more.
    more: bool,
}

impl From<Count> for CountBody {
    fn from(count: Count) -> Self {
        Self { count: count.value, more: count.more }
    }
}

/// An exclusive hold of a queue.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reservation)]
pub(crate) struct ReservationBody {
    id: Uuid,
    queue: String,
    holder: String,
    reserved_at: Timestamp,
    expires_at: Timestamp,
}

impl From<Reservation> for ReservationBody {
    fn from(held: Reservation) -> Self {
        let Reservation { id, queue, holder, reserved_at, expires_at } = held;
        Self { id: id.0, queue, holder, reserved_at, expires_at }
    }
}

impl From<QueueRow> for QueueBody {
    fn from(row: QueueRow) -> Self {
        Self {
            name: row.name,
            paused: row.paused,
            created_at: row.created_at,
            depth: row.depth.into(),
            oldest_queued_at: row.oldest_queued_at,
            running: row.running.into(),
            concurrency: row.concurrency,
            reservation: row.reservation.map(Into::into),
        }
    }
}

/// List queues, in order of name.
#[utoipa::path(get, path = "/queues", tag = "queues", params(Paging),
    responses((status = 200, description = "one page", body = Page<QueueBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<QueueBody>>> {
    let after: Option<String> = cursor::read(List::Queues, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.queues(after.as_deref(), limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::Queues, |row| row.name.clone(), Into::into)))
}

async fn existing(state: &AppState, name: &str) -> Answered<QueueRow> {
    state
        .store
        .queue(name)
        .await?
        .ok_or_else(|| Problem::not_found("queue", name).remedy("list the queues; one is made by its first job"))
}

/// Look at one queue.
#[utoipa::path(get, path = "/queues/{name}", tag = "queues", params(("name" = String, Path)),
    responses((status = 200, description = "the queue", body = QueueBody)))]
pub(crate) async fn get(State(state): State<AppState>, Named(name): Named) -> Answered<Json<QueueBody>> {
    Ok(Json(existing(&state, &name).await?.into()))
}

/// What a queue is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueuePatch {
    /// Whether it hands out nothing.
    paused: Option<bool>,
    /// How many of its jobs run at once, on all nodes together; null lets any number.
    #[serde(default)]
    #[schema(value_type = Option<u32>, maximum = 1_000_000)]
    concurrency: NewBound,
}

/// What is to become of a bound: a null is something else than nothing at all.
#[derive(Debug, Default)]
enum NewBound {
    #[default]
    Kept,
    Lifted,
    Set(u32),
}

impl<'de> Deserialize<'de> for NewBound {
    fn deserialize<D: serde::Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(value)?.map_or(Self::Lifted, Self::Set))
    }
}

/// Pause a queue, let it go on, or limit it; it is made by its first use, and pausing is one.
#[utoipa::path(patch, path = "/queues/{name}", tag = "queues", params(("name" = String, Path)), request_body = QueuePatch,
    responses((status = 200, description = "the queue as it is now", body = QueueBody)))]
pub(crate) async fn patch(ask: Ask, Named(name): Named, sent: Sent<QueuePatch>) -> Answered<Json<QueueBody>> {
    let QueuePatch { paused, concurrency } = sent.value;
    if let Some(paused) = paused {
        set_paused(&ask, &name, paused).await?;
    }
    let concurrency = match concurrency {
        NewBound::Kept => return Ok(Json(existing(&ask.state, &name).await?.into())),
        NewBound::Lifted => None,
        NewBound::Set(jobs) => Some(jobs),
    };
    existing(&ask.state, &name).await?;
    super::limits::set_queue_concurrency(&ask, &name, concurrency).await?;
    Ok(Json(existing(&ask.state, &name).await?.into()))
}

async fn set_paused(ask: &Ask, name: &str, paused: bool) -> Answered<()> {
    let was = ask.state.store.queue(name).await?.is_some_and(|queue| queue.paused);
    let action = Action::new(if paused { "queue.pause" } else { "queue.resume" });
    let action = action.before(&serde_json::json!({ "paused": was }));
    let (subject, queue) = (format!("queue:{name}"), name.to_owned());
    let tell = move |(): &()| Told::new(subject.clone(), &serde_json::json!({ "paused": paused }));
    ask.change(action, tell, |store| async move { store.set_queue_paused(&queue, paused).await }).await
}

/// A job in its queue's order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueuedJob)]
pub(crate) struct QueuedBody {
    job_id: Uuid,
    priority: i32,
    /// Its position within the priority; as text, because it has 64 bits.
    position: String,
    created_at: Timestamp,
    /// Whether it may be claimed.
    ready: bool,
    serial_key: Option<String>,
    job_type: String,
    /// What it does, in one line of at most 120 characters.
    what: String,
    schedule_id: Option<Uuid>,
    /// The name of that schedule, also when it was deleted since.
    schedule_name: Option<String>,
    attempt: u32,
    tags: Vec<String>,
    /// Since when it is in its queue; null when it has just left it.
    queued_at: Option<Timestamp>,
}

/// How much is told of what a queued job does.
const WHAT_MAX: usize = 120;

impl QueuedBody {
    fn of(queued: QueuedJob, view: JobView, names: &ScheduleNames) -> Self {
        let job = view.job;
        Self {
            job_id: queued.place.job_id.0,
            priority: queued.place.priority,
            position: queued.place.position.to_string(),
            created_at: queued.place.created_at,
            ready: queued.ready,
            serial_key: queued.serial_key,
            job_type: job.spec.target.job_type(),
            what: job.spec.target.in_a_line(WHAT_MAX),
            schedule_id: job.schedule_id.map(|id| id.0),
            schedule_name: job.schedule_id.and_then(|id| names.get(&id).cloned()),
            attempt: job.attempt,
            tags: job.spec.tags,
            queued_at: match view.whereabouts {
                Whereabouts::Queued { queued_at, .. } => Some(queued_at),
                _ => None,
            },
        }
    }
}

/// A place as a cursor.
struct PlaceKey(Place);

impl std::fmt::Display for PlaceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Place { priority, position, created_at, job_id } = self.0;
        write!(f, "{priority} {position} {} {job_id}", created_at.as_microsecond())
    }
}

impl std::str::FromStr for PlaceKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(' ');
        let mut part = || parts.next().ok_or(());
        let priority = part()?.parse().map_err(drop)?;
        let position = part()?.parse().map_err(drop)?;
        let created_at = Timestamp::from_microsecond(part()?.parse().map_err(drop)?).map_err(drop)?;
        let job_id: JobId = part()?.parse().map_err(drop)?;
        Ok(Self(Place { priority, position, created_at, job_id }))
    }
}

/// The jobs that wait in a queue, in the order in which they will be handed out. Only an admin sees all of them.
#[utoipa::path(get, path = "/queues/{name}/jobs", tag = "queues", params(("name" = String, Path), Paging),
    responses((status = 200, description = "one page", body = Page<QueuedBody>)))]
pub(crate) async fn jobs(
    State(state): State<AppState>, caller: Caller, Named(name): Named, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<QueuedBody>>> {
    existing(&state, &name).await?;
    let after: Option<PlaceKey> = cursor::read(List::Jobs, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let mut rows = state.store.queued_jobs(&name, after.map(|key| key.0), limit + 1).await?;
    let next = (rows.len() > limit).then(|| {
        rows.truncate(limit);
        rows.last().map(|row| PlaceKey(row.place))
    });
    let ids: Vec<JobId> = rows.iter().map(|row| row.place.job_id).collect();
    let views = if ids.is_empty() { Vec::new() } else { state.store.jobs_by_id(&ids).await? };
    let mut views: BTreeMap<JobId, JobView> = views.into_iter().map(|view| (view.job.id, view)).collect();
    views.retain(|_, view| caller.sees(view.job.spec.owner.as_deref()));
    let names = schedule_names(&state, views.values().map(|view| &view.job)).await?;
    let of_view = |row: QueuedJob| {
        let view = views.remove(&row.place.job_id)?;
        Some(QueuedBody::of(row, view, &names))
    };
    let items = rows.into_iter().filter_map(of_view).collect();
    Ok(Json(Page::new(items, List::Jobs, next.flatten().as_ref())))
}

/// The longest that a call waits for a queue.
const WAIT_MAX: SignedDuration = SignedDuration::from_secs(60);

/// How often somebody who waits looks again by himself.
const LOOK: Duration = Duration::from_millis(250);

/// How long a queue is held unless said otherwise (C11).
fn usual_hold() -> SignedDuration {
    SignedDuration::from_mins(5)
}

/// A hold of a queue that is asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewReservation, example = json!({ "expires_in": "5m" }))]
pub(crate) struct ReserveAsked {
    /// How long, such as `30s`; `5m` unless said otherwise.
    #[schema(value_type = Option<String>)]
    #[serde(with = "text", default = "usual_hold")]
    expires_in: SignedDuration,
    /// How long to wait while somebody else holds it, up to `1m`; refused at once unless said.
    #[schema(value_type = Option<String>)]
    #[serde(with = "optional_text", default)]
    wait: Option<SignedDuration>,
}

impl Default for ReserveAsked {
    fn default() -> Self {
        Self { expires_in: usual_hold(), wait: None }
    }
}

/// Take exclusive hold of a queue: it hands out nothing until it is released or the time is over.
#[utoipa::path(post, path = "/queues/{name}/reservations", tag = "queues", request_body = Option<ReserveAsked>,
    params(("name" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 201, description = "it is held", body = ReservationBody)))]
pub(crate) async fn reserve(ask: Ask, Named(name): Named, sent: MaybeSent<ReserveAsked>) -> Answered<Made> {
    let ReserveAsked { expires_in, wait } = sent.value;
    let patience = wait.unwrap_or(SignedDuration::ZERO);
    if patience.is_negative() || patience > WAIT_MAX {
        return Err(Invalid::new("wait", "is not between 0 and 1m").remedy("call again to wait for longer").into());
    }
    let deadline = Instant::now() + Duration::try_from(patience).unwrap_or_default();
    let mut changes = ask.state.store.changes();
    loop {
        match try_reserve(&ask, &name, sent.fingerprint, expires_in).await {
            Err(problem) if problem.code() == "reserved" && Instant::now() < deadline => {
                let again = deadline.min(Instant::now() + LOOK);
                tokio::select! {
                    () = tokio::time::sleep_until(again) => {}
                    () = changes.next() => {}
                }
            }
            answered => return answered,
        }
    }
}

async fn try_reserve(ask: &Ask, name: &str, fingerprint: SecretHash, how_long: SignedDuration) -> Answered<Made> {
    let (holder, name) = (ask.caller.owner.clone(), name.to_owned());
    let tell = |held: &Reservation| Told::new(format!("queue:{}", held.queue), &ReservationBody::from(held.clone()));
    let made = ask.create(fingerprint, Action::new("queue.reserve"), tell, |store| async move {
        store.reserve_queue(&name, &holder, how_long).await
    });
    Ok(made.await?.found_under("/api/v1/reservations"))
}

/// For how much longer a queue is held.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RenewReservation, example = json!({ "expires_in": "5m" }))]
pub(crate) struct RenewAsked {
    /// From now, such as `30s`; `5m` unless said otherwise.
    #[schema(value_type = Option<String>)]
    #[serde(with = "text", default = "usual_hold")]
    expires_in: SignedDuration,
}

impl Default for RenewAsked {
    fn default() -> Self {
        Self { expires_in: usual_hold() }
    }
}

/// Hold a queue for longer. One that is not held any more has to be reserved anew: jobs may have gone out since.
#[utoipa::path(post, path = "/reservations/{id}/renew", tag = "queues", params(("id" = Uuid, Path)),
    request_body = Option<RenewAsked>,
    responses((status = 200, description = "it is held for longer", body = ReservationBody)))]
pub(crate) async fn renew(ask: Ask, Named(id): Named, sent: MaybeSent<RenewAsked>) -> Answered<Json<ReservationBody>> {
    ask.caller.require(Role::Operator)?;
    let held = own_reservation(&ask, &id).await?;
    // Not in the audit log: a holder renews again and again, and who holds it is there already.
    let renewed = ask.state.store.renew_reservation(held.id, sent.value.expires_in).await?;
    Ok(Json(renewed.into()))
}

/// An active reservation that the caller may steer.
async fn own_reservation(ask: &Ask, text: &str) -> Answered<Reservation> {
    let none = || {
        Problem::not_found("reservation", text).remedy("it has been released or has run out; reserve the queue anew")
    };
    let id: ReservationId = text.parse().map_err(|_| none())?;
    let held = ask.state.store.reservation_by_id(id).await?.filter(|held| ask.caller.sees(Some(&held.holder)));
    held.ok_or_else(none)
}

/// Release a queue.
#[utoipa::path(delete, path = "/reservations/{id}", tag = "queues", params(("id" = Uuid, Path)),
    responses((status = 204, description = "it is released")))]
pub(crate) async fn release(ask: Ask, Named(id): Named) -> Answered<StatusCode> {
    let held = own_reservation(&ask, &id).await?;
    let key = held.id;
    let subject = format!("queue:{}", held.queue);
    let action = Action::new("queue.release").before(&ReservationBody::from(held));
    let tell = move |(): &()| Told::new(subject.clone(), &());
    ask.change(action, tell, |store| async move { store.release_reservation(key).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
