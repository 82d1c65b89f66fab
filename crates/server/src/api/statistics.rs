//! The statistics of a schedule: how late, how long, how often well, and on which node.

use super::schedules::visible;
use super::words::{DecisionWord, ReasonWord};
use crate::auth::Caller;
use crate::extract::{Asked, Named, window};
use crate::problem::Answered;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use punctual_core::duration;
use punctual_core::run::Outcome;
use punctual_core::slot::{Decision, Reason};
use punctual_core::statistics::{ScheduleStatistics, SlotTally, Spread, Success};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// A week.
const USUAL_WINDOW: SignedDuration = SignedDuration::from_hours(24 * 7);

/// Which time is looked at.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WindowAsked {
    /// How far back, such as `24h`; `7d` unless said otherwise.
    window: Option<String>,
}

/// How some lengths of time are spread, in milliseconds. Each is one that was measured.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Spread)]
pub(crate) struct SpreadBody {
    p50_ms: f64,
    p95_ms: f64,
    max_ms: f64,
    /// How many were measured.
    count: usize,
}

impl From<Spread> for SpreadBody {
    fn from(spread: Spread) -> Self {
        let ms = |length: SignedDuration| length.as_secs_f64() * 1000.0;
        Self { p50_ms: ms(spread.p50), p95_ms: ms(spread.p95), max_ms: ms(spread.max), count: spread.count }
    }
}

/// How work ended within a window that ends now; a job and its retries count once.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Success)]
pub(crate) struct SuccessBody {
    #[serde(with = "duration::text")]
    #[schema(value_type = String)]
    window: SignedDuration,
    completed: u64,
    failed: u64,
    /// The share of good ends, from 0 to 1, in steps of a thousandth; null when nothing ended.
    rate: Option<f64>,
}

impl From<Success> for SuccessBody {
    fn from(success: Success) -> Self {
        let rate =
            success.per_mille().and_then(|share| u32::try_from(share).ok()).map(|share| f64::from(share) / 1000.0);
        Self { window: success.window, completed: success.completed, failed: success.failed, rate }
    }
}

/// What was decided about slots, and how often.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SlotTally)]
pub(crate) struct TallyBody {
    #[schema(value_type = DecisionWord)]
    decision: Decision,
    #[schema(value_type = ReasonWord)]
    reason: Reason,
    slots: u64,
}

impl From<SlotTally> for TallyBody {
    fn from(tally: SlotTally) -> Self {
        Self { decision: tally.decision, reason: tally.reason, slots: tally.slots }
    }
}

/// What a node did for the schedule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NodeShare)]
pub(crate) struct ShareBody {
    node_id: Uuid,
    runs: u64,
    last_claimed_at: Timestamp,
}

/// How runs ended, retries counted each.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunOutcomes)]
pub(crate) struct OutcomesBody {
    completed: u64,
    failed: u64,
    skipped: u64,
    cancelled: u64,
}

/// The statistics of a schedule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ScheduleStatistics)]
pub(crate) struct StatisticsBody {
    since: Timestamp,
    until: Timestamp,
    runs: OutcomesBody,
    /// How often it went well, in windows of an hour, a day, a week and a month as far as they fit, and the whole.
    success: Vec<SuccessBody>,
    /// Failures since the last success, or since the beginning.
    consecutive_failures: u32,
    last_success_at: Option<Timestamp>,
    /// From when a slot was due until its first run began; without backfills.
    lateness: Option<SpreadBody>,
    /// From when a job was made until a node had claimed it; without retries.
    claim_latency: Option<SpreadBody>,
    /// From the beginning of a run to its end.
    duration: Option<SpreadBody>,
    slots: Vec<TallyBody>,
    /// Who ran it, those with most runs first.
    nodes: Vec<ShareBody>,
    /// Whether only the latest 10,000 runs or rows of the ledger were looked at.
    more: bool,
}

/// How a schedule does: how late, how long, how often well, and on which node.
#[utoipa::path(get, path = "/schedules/{key}/stats", tag = "schedules",
    params(("key" = String, Path, description = "id or name"), WindowAsked),
    responses((status = 200, description = "the figures", body = StatisticsBody)))]
pub(crate) async fn of_schedule(
    State(state): State<AppState>, caller: Caller, Named(key): Named, Asked(asked): Asked<WindowAsked>,
) -> Answered<Json<StatisticsBody>> {
    let window = window(asked.window.as_deref(), USUAL_WINDOW)?;
    let schedule = visible(&state, &caller, &key).await?;
    let now = state.store.now().await?;
    let since = now.saturating_sub(window).unwrap_or(Timestamp::UNIX_EPOCH).max(Timestamp::UNIX_EPOCH);
    let samples = state.store.schedule_samples(schedule.id, since).await?;
    let figures = ScheduleStatistics::of(&schedule, samples, since, now);
    let ended = |outcome| figures.outcomes.get(&outcome).copied().unwrap_or(0);
    Ok(Json(StatisticsBody {
        since,
        until: now,
        runs: OutcomesBody {
            completed: ended(Outcome::Completed),
            failed: ended(Outcome::Failed),
            skipped: ended(Outcome::Skipped),
            cancelled: ended(Outcome::Cancelled),
        },
        success: figures.success.into_iter().map(Into::into).collect(),
        consecutive_failures: schedule.results.consecutive_failures,
        last_success_at: schedule.results.last_success_at,
        lateness: figures.lateness.map(Into::into),
        claim_latency: figures.claim_latency.map(Into::into),
        duration: figures.duration.map(Into::into),
        slots: figures.slots.into_iter().map(Into::into).collect(),
        nodes: figures
            .nodes
            .into_iter()
            .map(|share| ShareBody {
                node_id: share.node_id.0,
                runs: share.runs,
                last_claimed_at: share.last_claimed_at,
            })
            .collect(),
        more: figures.more,
    }))
}
