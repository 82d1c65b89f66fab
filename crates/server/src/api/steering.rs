//! Steering a schedule: pause, resume, trigger, reschedule, skip.

use super::job_shapes::JobBody;
use super::schedule_shapes::ScheduleBody;
use super::schedules::{shown, tell, visible};
use crate::change::{Action, Ask, Made, Told};
use crate::extract::{MaybeSent, Named, Sent};
use crate::problem::Answered;
use axum::response::Response;
use jiff::Timestamp;
use punctual_core::id::JobId;
use punctual_core::job::Origin;
use punctual_core::json::Json;
use punctual_core::schedule::{ByHand, Schedule};
use punctual_core::store::Store;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Why a schedule is paused.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseAsked {
    /// For whoever finds it paused.
    note: Option<String>,
    /// When it goes on by itself; of a schedule that is paused already, this is changed.
    until: Option<Timestamp>,
}

/// Stop firing a schedule, for good or until a time. Pausing twice changes nothing but that time.
#[utoipa::path(post, path = "/schedules/{key}/pause", tag = "schedules",
    params(("key" = String, Path, description = "id or name")), request_body = Option<PauseAsked>,
    responses((status = 200, description = "it is paused", body = ScheduleBody)))]
pub(crate) async fn pause(ask: Ask, Named(key): Named, sent: MaybeSent<PauseAsked>) -> Answered<Response> {
    let old = visible(&ask.state, &ask.caller, &key).await?;
    let PauseAsked { note, until } = sent.value;
    let Some(until) = until else { return Ok(shown(&set_enabled(&ask, &old, false, note).await?)) };
    let (id, by) = (old.id, Some(ask.caller.owner.clone()));
    let action = Action::new("schedule.pause").before(&ScheduleBody::from(&old));
    let pause = |store: Arc<dyn Store>| async move { store.pause_schedule_until(id, until, by, note).await };
    Ok(shown(&ask.change(action, tell, pause).await?))
}

/// Go on firing a schedule from now; what passed meanwhile is recorded and does not fire.
#[utoipa::path(post, path = "/schedules/{key}/resume", tag = "schedules",
    params(("key" = String, Path, description = "id or name")),
    responses((status = 200, description = "it fires", body = ScheduleBody)))]
pub(crate) async fn resume(ask: Ask, Named(key): Named) -> Answered<Response> {
    let old = visible(&ask.state, &ask.caller, &key).await?;
    Ok(shown(&set_enabled(&ask, &old, true, None).await?))
}

/// Pauses or resumes.
pub(crate) async fn set_enabled(ask: &Ask, old: &Schedule, enabled: bool, note: Option<String>) -> Answered<Schedule> {
    let name = if enabled { "schedule.resume" } else { "schedule.pause" };
    let (id, by) = (old.id, Some(ask.caller.owner.clone()));
    let action = Action::new(name).before(&ScheduleBody::from(old));
    ask.change(action, tell, |store| async move {
        if enabled { store.resume_schedule(id).await } else { store.pause_schedule(id, by, note).await }
    })
    .await
}

/// What a job that is made by hand is given.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TriggerAsked {
    /// Another input than the schedule's own: any JSON.
    #[serde(default, deserialize_with = "super::job_shapes::given")]
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Json>,
}

/// Make a job of a schedule now, by hand; its plan does not move.
#[utoipa::path(post, path = "/schedules/{key}/trigger", tag = "schedules",
    params(("key" = String, Path, description = "id or name"),
        ("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h."),
        ("traceparent" = Option<String>, Header, description = "The caller's place in a trace; kept with the job.")),
    request_body = Option<TriggerAsked>,
    responses((status = 201, description = "the job", body = JobBody)))]
pub(crate) async fn trigger(ask: Ask, Named(key): Named, sent: MaybeSent<TriggerAsked>) -> Answered<Made> {
    let schedule = visible(&ask.state, &ask.caller, &key).await?;
    let producing = ask.produce("trigger");
    let (id, by) = (schedule.id, Some(ask.caller.owner.clone()));
    let by_hand = ByHand { input: sent.value.input, by, trace_context: producing.trace_context() };
    let spec = by_hand.job(&schedule);
    let origin = Origin { schedule_id: Some(id), ..Origin::default() };
    let name = schedule.definition.name.to_string();
    let tell = move |made: &JobId| {
        let job = JobBody::made(*made, &spec, &origin).named(Some(name.clone()));
        Told::new(format!("schedule:{id}"), &job)
    };
    let action = Action::new("schedule.trigger");
    let made =
        ask.create(sent.fingerprint, action, tell, |store| async move { store.trigger_schedule(id, by_hand).await });
    Ok(made.await?.found_under("/api/v1/jobs"))
}

/// When a schedule is to fire next.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "at": "2099-12-01T08:00:00Z" }))]
pub(crate) struct RescheduleAsked {
    at: Timestamp,
}

/// Move the next fire to another time; the slots it jumps over are recorded as skipped.
#[utoipa::path(post, path = "/schedules/{key}/reschedule", tag = "schedules",
    params(("key" = String, Path, description = "id or name")), request_body = RescheduleAsked,
    responses((status = 200, description = "it fires then", body = ScheduleBody)))]
pub(crate) async fn reschedule(ask: Ask, Named(key): Named, sent: Sent<RescheduleAsked>) -> Answered<Response> {
    let old = visible(&ask.state, &ask.caller, &key).await?;
    let (id, at) = (old.id, sent.value.at);
    let action = Action::new("schedule.reschedule").before(&ScheduleBody::from(&old));
    Ok(shown(&ask.change(action, tell, |store| async move { store.reschedule(id, at).await }).await?))
}

/// Leave the next fire out, and go on with the one after it; the slot is recorded as skipped.
#[utoipa::path(post, path = "/schedules/{key}/skip-next", tag = "schedules",
    params(("key" = String, Path, description = "id or name"),
        ("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 200, description = "it fires again after that", body = ScheduleBody)))]
pub(crate) async fn skip_next(ask: Ask, Named(key): Named) -> Answered<Made> {
    let old = visible(&ask.state, &ask.caller, &key).await?;
    let (id, by) = (old.id, Some(ask.caller.owner.clone()));
    let action = Action::new("schedule.skip_next").before(&ScheduleBody::from(&old));
    // Asked twice, two slots are skipped; so the key counts here as it does where something is made.
    let fingerprint = crate::secret::fingerprint(&[b"skip-next", id.as_bytes()]);
    let skipped = ask.create(fingerprint, action, tell, |store| async move { store.skip_next(id, by).await }).await?;
    Ok(skipped.into_changed().tagged(old.version))
}
