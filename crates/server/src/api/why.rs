//! Why something ran or did not, or will or will not: an answer for any time.

use super::job_shapes::JobBody;
use super::plans::{SlotBody, calendar_of};
use super::schedules::visible;
use super::words::VerdictWord;
use crate::auth::Caller;
use crate::extract::{Asked, Named};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use punctual_core::job::{JobState, JobView};
use punctual_core::run::Trigger;
use punctual_core::schedule::Schedule;
use punctual_core::slot::SlotRow;
use punctual_core::why::{Answer, Known, Place, Verdict, When};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// How many of a schedule's latest jobs are looked at for some that are alive.
const LATEST: usize = 200;

/// Which time is asked about.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WhyAsked {
    /// An instant such as `2026-11-01T08:00:00Z`; without an offset, a time on the schedule's wall clock.
    at: String,
}

/// What happened, or will happen, at a time.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Why {
    /// The instant that the answer is about.
    at: Timestamp,
    /// In one word.
    #[schema(value_type = VerdictWord)]
    verdict: Verdict,
    /// In words.
    answer: String,
    /// The row of the ledger that decides it.
    slot: Option<SlotBody>,
    /// The job that was made.
    job: Option<JobBody>,
    /// The jobs that backfills made for it later.
    backfilled: Vec<Uuid>,
}

fn bad_time(detail: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad_query", detail.to_owned())
        .remedy("write 2026-11-01T08:00:00Z, or 2026-11-01T08:00 for the schedule's wall clock")
        .at("at")
}

/// What happened at a time, or will, and why.
#[utoipa::path(get, path = "/schedules/{key}/why", tag = "schedules",
    params(("key" = String, Path, description = "id or name"), WhyAsked),
    responses((status = 200, description = "the answer", body = Why)))]
pub(crate) async fn why(
    State(state): State<AppState>, caller: Caller, Named(key): Named, Asked(WhyAsked { at }): Asked<WhyAsked>,
) -> Answered<Json<Why>> {
    let when: When = at.parse().map_err(|_| bad_time("at is no time"))?;
    let schedule = visible(&state, &caller, &key).await?;
    let Place { at, remark, is_all } = schedule.place(when).ok_or_else(|| bad_time("at is out of range"))?;
    let at = super::job_shapes::whole_micros(at);
    if is_all {
        let answer = remark.unwrap_or_default();
        let verdict = Verdict::DoesNotExist;
        return Ok(Json(Why { at, verdict, answer, slot: None, job: None, backfilled: Vec::new() }));
    }
    let row = row_at(&state, &schedule, at).await?;
    let said = match &row {
        Some(row) => row.in_words(),
        None => schedule.why_unrecorded(at, &known(&state, &caller, &schedule).await?),
    };
    let Answer { verdict, words } = said.after(remark.as_ref());
    let backfilled: Vec<Uuid> = state.store.backfilled(schedule.id, at).await?.into_iter().map(|id| id.0).collect();
    let later = match backfilled.len() {
        0 => "",
        1 => " A backfill made a job for it later.",
        _ => " Backfills made jobs for it later.",
    };
    let job = match row.as_ref().and_then(|row| row.job_id) {
        Some(id) => state.store.job(id).await?,
        None => None,
    };
    let job = match job {
        Some(view) => Some(super::jobs::shown_one(&state, view).await?),
        None => None,
    };
    Ok(Json(Why { at, verdict, answer: words + later, slot: row.map(Into::into), job, backfilled }))
}

/// The row of the ledger that stands for an instant.
async fn row_at(state: &AppState, schedule: &Schedule, at: Timestamp) -> Answered<Option<SlotRow>> {
    let behind = at.saturating_add(SignedDuration::from_micros(1)).map_err(|_| bad_time("at is out of range"))?;
    let latest = state.store.slots(schedule.id, Some(behind), 1).await?.into_iter().next();
    // Between two slots of a range there is none.
    Ok(latest.filter(|row| row.slot_at == at || (row.through >= at && schedule.has_slot_at(at))))
}

/// What an answer about what is not in the ledger needs to know.
async fn known(state: &AppState, caller: &Caller, schedule: &Schedule) -> Answered<Known> {
    let jobs = state.store.schedule_jobs(schedule.id, None, LATEST).await?;
    // What a backfill made is none of its present work.
    let present = |view: &&JobView| view.job.spec.trigger != Trigger::Backfill;
    let states: Vec<JobState> = jobs.iter().filter(present).map(JobView::state).collect();
    let count = |those: &[JobState]| states.iter().filter(|state| those.contains(state)).count();
    let dependency = match schedule.definition.depends_on {
        Some(other) => state.store.schedule(&other.schedule_id.into()).await?,
        None => None,
    };
    let dependency = dependency.filter(|other| caller.sees(other.definition.owner.as_deref()));
    Ok(Known {
        now: state.store.now().await?,
        calendar: calendar_of(state, schedule).await?,
        running: count(&[JobState::Running]),
        waiting: count(&[JobState::Waiting, JobState::Scheduled, JobState::Queued]),
        dependency: dependency.map(|other| (other.definition.name.to_string(), other.results.last_success_at)),
        kept_since: state.store.slots_kept_since().await?,
    })
}
