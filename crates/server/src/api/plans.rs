//! What a schedule did and will do: its runs, its slots, its next slots, and why something did or did not run.

use super::job_shapes::JobBody;
use super::schedules::visible;
use super::words::{DecisionWord, ReasonWord};
use super::{Page, Paging, jobs};
use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
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
    Ok(Json(Page::new(page.items.into_iter().map(Into::into).collect(), List::Jobs, page.next.as_ref())))
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
        }
    }
}

/// The slot ledger of a schedule, latest slot first.
#[utoipa::path(get, path = "/schedules/{key}/slots", tag = "schedules",
    params(("key" = String, Path, description = "id or name"), Paging),
    responses((status = 200, description = "one page", body = Page<SlotBody>)))]
pub(crate) async fn slots(
    State(state): State<AppState>, caller: Caller, Named(key): Named, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<SlotBody>>> {
    let schedule = visible(&state, &caller, &key).await?;
    let before: Option<Timestamp> = cursor::read(List::Slots, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.slots(schedule.id, before, limit + 1).await?;
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
    slot_at: Timestamp,
    /// When it is due, jitter included.
    run_at: Timestamp,
}

/// The slots ahead of a schedule, if nobody changes it; none while it is paused.
#[utoipa::path(get, path = "/schedules/{key}/upcoming", tag = "schedules",
    params(("key" = String, Path, description = "id or name"), UpcomingAsked),
    responses((status = 200, description = "soonest first", body = Page<UpcomingSlot>)))]
pub(crate) async fn upcoming(
    State(state): State<AppState>, caller: Caller, Named(key): Named, Asked(asked): Asked<UpcomingAsked>,
) -> Answered<Json<Page<UpcomingSlot>>> {
    let schedule = visible(&state, &caller, &key).await?;
    let count = page_size(Some(asked.count.unwrap_or(10)))?;
    Ok(Json(Page::new(slots_ahead(&schedule, count), List::Slots, None::<&String>)))
}

fn slots_ahead(schedule: &Schedule, count: usize) -> Vec<UpcomingSlot> {
    let state = &schedule.state;
    let (Some(slot_at), Some(run_at), Ok(slots)) = (state.next_slot_at, state.next_run_at, schedule.slots()) else {
        return Vec::new();
    };
    let first = UpcomingSlot { slot_at, run_at };
    let later = std::iter::successors(slots.next_after(slot_at), |slot| slots.next_after(*slot));
    let later = later.map(|slot_at| UpcomingSlot { slot_at, run_at: slots.due_at(slot_at) });
    std::iter::once(first).chain(later).take(count).collect()
}

/// Which instant is asked about.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WhyAsked {
    at: Timestamp,
}

/// What happened, or will happen, at an instant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Why {
    at: Timestamp,
    /// In words.
    answer: String,
    /// The row of the ledger that decides it.
    slot: Option<SlotBody>,
    /// The job that was made.
    job: Option<JobBody>,
    /// The jobs that backfills made for it later.
    backfilled: Vec<Uuid>,
}

/// What happened at an instant, or will, and why.
#[utoipa::path(get, path = "/schedules/{key}/why", tag = "schedules",
    params(("key" = String, Path, description = "id or name"), WhyAsked),
    responses((status = 200, description = "the answer", body = Why)))]
pub(crate) async fn why(
    State(state): State<AppState>, caller: Caller, Named(key): Named, Asked(WhyAsked { at }): Asked<WhyAsked>,
) -> Answered<Json<Why>> {
    let schedule = visible(&state, &caller, &key).await?;
    let just_behind = at.saturating_add(SignedDuration::from_micros(1)).map_err(|_| {
        Problem::new(StatusCode::BAD_REQUEST, "bad_query", "at is out of range").remedy("choose another time").at("at")
    })?;
    let backfilled: Vec<Uuid> = state.store.backfilled(schedule.id, at).await?.into_iter().map(|id| id.0).collect();
    let later = match backfilled.len() {
        0 => "",
        1 => " A backfill made a job for it later.",
        _ => " Backfills made jobs for it later.",
    };
    let rows = state.store.slots(schedule.id, Some(just_behind), 1).await?;
    if let Some(row) = rows.into_iter().next().filter(|row| row.through >= at) {
        let job = match row.job_id {
            Some(id) => state.store.job(id).await?.map(Into::into),
            None => None,
        };
        let answer = decided(&row) + later;
        return Ok(Json(Why { at, answer, slot: Some(row.into()), job, backfilled }));
    }
    let answer = undecided(&schedule, at, state.store.now().await?) + later;
    Ok(Json(Why { at, answer, slot: None, job: None, backfilled }))
}

fn decided(row: &SlotRow) -> String {
    let what = match row.decision {
        Decision::Fired => "A job was made for this slot",
        Decision::Skipped => "This slot was skipped",
        Decision::Missed => "This slot was missed",
    };
    let why = match row.reason {
        Reason::OnTime => "it fired when it was due",
        Reason::Catchup => "it fired late, to make up for slots that passed meanwhile",
        Reason::Backfill => "somebody asked for this past range",
        Reason::Overlap => "a run of the schedule was still alive, and overlap forbids a second one",
        Reason::MaxConcurrentRuns => "max_concurrent_runs were alive",
        Reason::Dependency => "the schedule it depends on had not succeeded within the window",
        Reason::Calendar => "its calendar excludes this time",
        Reason::Paused => "the schedule was paused",
        Reason::Rescheduled => "somebody moved the fire to another time",
        Reason::TooLate => "it was later than the policy's window when it was looked at",
        Reason::Superseded => "a later slot was due as well and stands for it",
        Reason::OverLimit => "more slots were due than the policy's limit",
        Reason::Edited => "the schedule was edited, and this is no longer one of its slots",
    };
    let range = if row.count > 1 { format!(" (one of {} decided together)", row.count) } else { String::new() };
    format!("{what}{range}: {why}.")
}

fn undecided(schedule: &Schedule, at: Timestamp, now: Timestamp) -> String {
    let slots = match schedule.slots() {
        Ok(slots) => slots,
        Err(problem) => return format!("The schedule cannot be understood: {problem}"),
    };
    let is_slot = slots.latest_at_or_before(at) == Some(at) || schedule.state.next_slot_at == Some(at);
    if !is_slot {
        let next = slots.next_after(at).map_or_else(|| "there is none".to_owned(), |next| format!("it is {next}"));
        return format!("This is not a slot of the schedule. Its next one after this: {next}.");
    }
    if at < schedule.created_at {
        return "The schedule did not exist yet.".to_owned();
    }
    match (at > now, schedule.state.enabled) {
        (true, true) => "This slot lies ahead; it will be decided when it is due.".to_owned(),
        (true, false) => {
            "This slot lies ahead, and the schedule is paused: it will be skipped unless it is resumed.".to_owned()
        }
        (false, false) => {
            "The schedule is paused; the slots that pass meanwhile are recorded when it is resumed.".to_owned()
        }
        (false, true) => {
            "This slot has passed and its record is not there: it is being decided, or it was forgotten by \
                          retention, or it is a slot by the present definition only."
                .to_owned()
        }
    }
}
