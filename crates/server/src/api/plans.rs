//! What a schedule did and will do: its runs, its slots, its next slots.

use super::job_shapes::{JobBody, whole_micros};
use super::schedules::visible;
use super::words::{DecisionWord, ReasonWord};
use super::{Page, Paging, jobs};
use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, page_size};
use crate::problem::Answered;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use punctual_core::calendar::Calendar;
use punctual_core::firing::Slots;
use punctual_core::readings::{JobFilter, JobsIn};
use punctual_core::schedule::Schedule;
use punctual_core::slot::{Decision, Reason, SlotRow};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// The jobs of a schedule that have ended, latest made first.
#[utoipa::path(get, path = "/schedules/{key}/runs", tag = "schedules",
    params(("key" = String, Path, description = "id or name"), Paging),
    responses((status = 200, description = "one page", body = Page<JobBody>)))]
pub(crate) async fn runs(
    State(state): State<AppState>, caller: Caller, Named(key): Named, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<JobBody>>> {
    let schedule = visible(&state, &caller, &key).await?;
    let filter = JobFilter { place: JobsIn::Ended, schedule_id: Some(schedule.id), ..JobFilter::default() };
    let page = jobs::read_page(&state, &filter, asked.cursor.as_deref(), asked.limit).await?;
    Ok(Json(Page::new(jobs::shown(&state, page.items).await?, List::Jobs, page.next.as_ref())))
}

/// What was decided about a slot, or about a range of slots.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Slot)]
pub(crate) struct SlotBody {
    /// The slot, or the first of the range.
    slot_at: Timestamp,
    /// The last of the range.
    through: Timestamp,
    /// How many slots the row stands for.
    count: u64,
    #[schema(value_type = DecisionWord)]
    decision: Decision,
    #[schema(value_type = ReasonWord)]
    reason: Reason,
    job_id: Option<Uuid>,
    decided_at: Timestamp,
    node: Option<Uuid>,
    late_ms: i64,
    schedule_version: i64,
    /// The reason in more words: which holiday, whose pause.
    note: Option<String>,
}

impl From<SlotRow> for SlotBody {
    fn from(row: SlotRow) -> Self {
        Self {
            slot_at: row.slot_at,
            through: row.through,
            count: row.count,
            decision: row.decision,
            reason: row.reason,
            job_id: row.job_id.map(|id| id.0),
            decided_at: row.decided_at,
            node: row.node.map(|id| id.0),
            late_ms: row.late_ms,
            schedule_version: row.schedule_version,
            note: row.note,
        }
    }
}

/// Which rows of the ledger, and where in it.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SlotsAsked {
    /// Only slots at this time or later, and ranges that reach into that time.
    from: Option<Timestamp>,
    /// Only slots before this time.
    until: Option<Timestamp>,
    /// How many, 1 to 500; 50 unless said otherwise.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The slot ledger of a schedule, latest slot first.
#[utoipa::path(get, path = "/schedules/{key}/slots", tag = "schedules",
    params(("key" = String, Path, description = "id or name"), SlotsAsked),
    responses((status = 200, description = "one page", body = Page<SlotBody>)))]
pub(crate) async fn slots(
    State(state): State<AppState>, caller: Caller, Named(key): Named, Asked(asked): Asked<SlotsAsked>,
) -> Answered<Json<Page<SlotBody>>> {
    let schedule = visible(&state, &caller, &key).await?;
    let cursor: Option<Timestamp> = cursor::read(List::Slots, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let before = [cursor, asked.until.map(whole_micros)].into_iter().flatten().min();
    let rows = match asked.from.map(whole_micros) {
        None => state.store.slots(schedule.id, before, limit + 1).await?,
        Some(from) => {
            let until = before.unwrap_or(Timestamp::MAX);
            state.store.slots_between(schedule.id, from, until, limit + 1).await?
        }
    };
    Ok(Json(Page::of_rows(rows, limit, List::Slots, |row| row.slot_at.to_string(), Into::into)))
}

/// How many slots ahead.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UpcomingAsked {
    /// 1 to 500; 10 unless said otherwise.
    #[param(minimum = 1, maximum = 500)]
    count: Option<u32>,
}

/// A slot ahead.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UpcomingSlot {
    pub(crate) slot_at: Timestamp,
    /// When it is due, jitter included.
    pub(crate) run_at: Timestamp,
    /// Why it will be skipped, if the calendar closes it.
    pub(crate) skipped: Option<String>,
}

/// The slots ahead of a schedule, if nobody changes it; none while it is paused without an end.
#[utoipa::path(get, path = "/schedules/{key}/upcoming", tag = "schedules",
    params(("key" = String, Path, description = "id or name"), UpcomingAsked),
    responses((status = 200, description = "soonest first", body = Page<UpcomingSlot>)))]
pub(crate) async fn upcoming(
    State(state): State<AppState>, caller: Caller, Named(key): Named, Asked(asked): Asked<UpcomingAsked>,
) -> Answered<Json<Page<UpcomingSlot>>> {
    let schedule = visible(&state, &caller, &key).await?;
    let count = page_size(Some(asked.count.unwrap_or(10)))?;
    let calendar = calendar_of(&state, &schedule).await?;
    Ok(Json(Page::new(slots_ahead(&schedule, calendar.as_ref(), count), List::Slots, None::<&String>)))
}

/// The calendar that a schedule names.
pub(crate) async fn calendar_of(state: &AppState, schedule: &Schedule) -> Answered<Option<Calendar>> {
    let Some(name) = &schedule.definition.calendar else { return Ok(None) };
    let found = state.store.calendar(name).await?;
    Ok(found.and_then(|found| Calendar::new(name.clone(), found.rules).ok()))
}

pub(crate) fn slots_ahead(schedule: &Schedule, calendar: Option<&Calendar>, count: usize) -> Vec<UpcomingSlot> {
    let Ok(slots) = schedule.slots() else { return Vec::new() };
    let Some((slot_at, run_at)) = first_ahead(schedule, &slots) else { return Vec::new() };
    let skipped = |slot_at| calendar.and_then(|calendar| calendar.why_excluded(slot_at));
    let first = UpcomingSlot { slot_at, run_at, skipped: skipped(slot_at) };
    let later = std::iter::successors(slots.next_after(slot_at), |slot| slots.next_after(*slot));
    let later = later.map(|slot_at| UpcomingSlot { slot_at, run_at: slots.due_at(slot_at), skipped: skipped(slot_at) });
    std::iter::once(first).chain(later).take(count).collect()
}

/// The first slot that will be decided; behind a pause that has an end, the first from then on.
fn first_ahead(schedule: &Schedule, slots: &Slots<'_>) -> Option<(Timestamp, Timestamp)> {
    let state = &schedule.state;
    let slot_at = state.next_slot_at?;
    if let Some(run_at) = state.next_run_at {
        return Some((slot_at, run_at));
    }
    let until = state.pause.as_ref().filter(|_| !state.enabled)?.until?;
    let behind = until.max(slot_at).saturating_sub(SignedDuration::from_micros(1)).ok()?;
    slots.next_after(behind).map(|slot_at| (slot_at, slots.due_at(slot_at)))
}
