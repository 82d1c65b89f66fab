//! Backfills: what one would do, beginning it with consent, watching it, stopping it.

use super::schedules::visible;
use super::{Page, Paging};
use crate::auth::Caller;
use crate::change::{Action, Ask, Made, Told};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use punctual_core::backfill::{Backfill, NewBackfill};
use punctual_core::id::BackfillId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A backfill that is asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewBackfill, example = json!({ "from": "2026-11-01T00:00:00Z", "until": "2026-11-02T00:00:00Z", "dry_run": true }))]
pub(crate) struct NewBackfillBody {
    /// From this time on.
    from: Timestamp,
    /// Up to this time, which is not one of them; in the past.
    until: Timestamp,
    /// Only say what would be done.
    #[serde(default)]
    dry_run: bool,
    /// How many slots run, as a dry run has told. Without it nothing is done, and when it is another number by now,
    /// neither.
    consent: Option<u64>,
    /// The priority of its jobs; 100 below the schedule's unless said otherwise.
    priority: Option<i32>,
    /// The most jobs in a minute; as fast as it goes unless said otherwise.
    per_minute: Option<u32>,
}

/// What a backfill would do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackfillPreview)]
pub(crate) struct PreviewBody {
    /// How many slots the range has.
    slots: u64,
    /// How many of them have no success and are not alive: these would run, and be charged. What `consent` must say.
    gaps: u64,
    /// The first of them.
    first: Vec<Timestamp>,
}

/// A backfill and how far it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Backfill)]
pub(crate) struct BackfillBody {
    id: Uuid,
    schedule_id: Uuid,
    created_at: Timestamp,
    from: Timestamp,
    until: Timestamp,
    priority: Option<i32>,
    per_minute: Option<u32>,
    /// Who asked for it.
    by: Option<String>,
    /// `running`, `done` or `cancelled`.
    #[schema(pattern = "^(running|done|cancelled)$")]
    state: &'static str,
    /// Everything before this time is done.
    next_at: Timestamp,
    /// How many jobs it has made.
    made: u64,
    /// How many slots it left alone, because they had run or were running.
    passed: u64,
    ended_at: Option<Timestamp>,
}

impl From<&Backfill> for BackfillBody {
    fn from(backfill: &Backfill) -> Self {
        let NewBackfill { schedule_id, from, until, priority, per_minute, by } = backfill.asked.clone();
        Self {
            id: backfill.id.0,
            schedule_id: schedule_id.0,
            created_at: backfill.created_at,
            from,
            until,
            priority,
            per_minute,
            by,
            state: match (backfill.ended_at, backfill.cancelled) {
                (None, _) => "running",
                (Some(_), false) => "done",
                (Some(_), true) => "cancelled",
            },
            next_at: backfill.next_at,
            made: backfill.made,
            passed: backfill.passed,
            ended_at: backfill.ended_at,
        }
    }
}

fn tell(backfill: &Backfill) -> Told {
    Told::new(format!("schedule:{}", backfill.asked.schedule_id), &BackfillBody::from(backfill))
}

/// Run the past slots of a schedule that have no success: a dry run first, then with consent.
#[utoipa::path(post, path = "/schedules/{key}/backfill", tag = "backfills",
    params(("key" = String, Path, description = "id or name"),
        ("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    request_body = NewBackfillBody,
    responses((status = 200, description = "what it would do", body = PreviewBody),
        (status = 201, description = "it has begun", body = BackfillBody)))]
pub(crate) async fn create(ask: Ask, Named(key): Named, sent: Sent<NewBackfillBody>) -> Answered<Response> {
    let schedule = visible(&ask.state, &ask.caller, &key).await?;
    let NewBackfillBody { from, until, dry_run, consent, priority, per_minute } = sent.value;
    let (from, until) = (super::job_shapes::whole_micros(from), super::job_shapes::whole_micros(until));
    let by = Some(ask.caller.owner.clone());
    let asked = NewBackfill { schedule_id: schedule.id, from, until, priority, per_minute, by };
    let preview = ask.state.store.preview_backfill(&asked).await?;
    if dry_run {
        let told = PreviewBody { slots: preview.slots, gaps: preview.gaps, first: preview.first };
        return Ok(Json(told).into_response());
    }
    check_consent(consent, preview.gaps)?;
    let begin =
        |store: std::sync::Arc<dyn punctual_core::store::Store>| async move { store.create_backfill(asked).await };
    let made: Made = ask.create(sent.fingerprint, Action::new("schedule.backfill"), tell, begin).await?;
    Ok(made.found_under("/api/v1/backfills").into_response())
}

fn check_consent(consent: Option<u64>, gaps: u64) -> Answered<()> {
    let (code, told) = match consent {
        Some(given) if given == gaps => return Ok(()),
        Some(given) => ("consent_outdated", format!("{gaps} slots would run by now, and consent was given to {given}")),
        None => ("consent_needed", format!("{gaps} slots would run, and each is charged like any other")),
    };
    Err(Problem::new(StatusCode::CONFLICT, code, told)
        .remedy(format!("look at a dry run, and send \"consent\": {gaps}"))
        .at("/consent"))
}

/// List the backfills of a schedule, latest first.
#[utoipa::path(get, path = "/schedules/{key}/backfills", tag = "backfills",
    params(("key" = String, Path, description = "id or name"), Paging),
    responses((status = 200, description = "one page", body = Page<BackfillBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, caller: Caller, Named(key): Named, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<BackfillBody>>> {
    let schedule = visible(&state, &caller, &key).await?;
    let before: Option<BackfillId> = cursor::read(List::Backfills, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.backfills(Some(schedule.id), before, limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::Backfills, |row| row.id.to_string(), |row| (&row).into())))
}

/// A backfill of a schedule that the caller may see.
async fn existing(state: &AppState, caller: &Caller, text: &str) -> Answered<Backfill> {
    let none = || Problem::not_found("backfill", text);
    let id: BackfillId = text.parse().map_err(|_| none())?;
    let found = state.store.backfill(id).await?.ok_or_else(none)?;
    // One of a deleted schedule is an admin's to look at.
    match visible(state, caller, &found.asked.schedule_id.to_string()).await {
        Ok(_) => Ok(found),
        Err(_) if caller.scope().is_none() => Ok(found),
        Err(_) => Err(none()),
    }
}

/// Look at one backfill.
#[utoipa::path(get, path = "/backfills/{id}", tag = "backfills", params(("id" = Uuid, Path)),
    responses((status = 200, description = "how far it is", body = BackfillBody)))]
pub(crate) async fn get(
    State(state): State<AppState>, caller: Caller, Named(id): Named,
) -> Answered<Json<BackfillBody>> {
    Ok(Json((&existing(&state, &caller, &id).await?).into()))
}

/// Stop a backfill; what it has made goes on.
#[utoipa::path(post, path = "/backfills/{id}/cancel", tag = "backfills", params(("id" = Uuid, Path)),
    responses((status = 200, description = "it makes no more jobs", body = BackfillBody)))]
pub(crate) async fn cancel(ask: Ask, Named(id): Named) -> Answered<Json<BackfillBody>> {
    let old = existing(&ask.state, &ask.caller, &id).await?;
    let action = Action::new("backfill.cancel").before(&BackfillBody::from(&old));
    let key = old.id;
    let now = ask.change(action, tell, |store| async move { store.cancel_backfill(key).await }).await?;
    Ok(Json((&now).into()))
}
