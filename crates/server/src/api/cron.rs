//! Trying a cron expression: what it means, when it fires, what to mind.

use crate::extract::{Asked, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use punctual_core::cron::{CronClock, Dst, Recurrence, describe, dst_notes, lint, zone};
use punctual_core::duration::format_duration;
use punctual_core::invalid::Invalid;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

const YEAR: SignedDuration = SignedDuration::from_hours(366 * 24);

/// An expression, and what is asked about it.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PreviewAsked {
    /// A cron expression.
    #[param(example = "0 8 * * 1-5")]
    expr: String,
    /// An IANA time zone; `UTC` unless said otherwise.
    #[param(example = "Europe/Berlin")]
    tz: Option<String>,
    /// How many fires, 1 to 500; 10 unless said otherwise.
    #[param(minimum = 1, maximum = 500)]
    count: Option<u32>,
    /// Fires after this time; now unless said otherwise.
    after: Option<Timestamp>,
    /// What fixes the spread fields (`H`, `~`): the schedule's name.
    seed: Option<String>,
}

/// What an expression means.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Preview {
    /// For people.
    description: String,
    fires: Vec<Timestamp>,
    /// Clock changes, fires that never come, and what else to mind.
    warnings: Vec<String>,
}

/// Try a cron expression.
#[utoipa::path(get, path = "/cron/preview", tag = "cron", params(PreviewAsked),
    responses((status = 200, description = "what it means", body = Preview)))]
pub(crate) async fn preview(
    State(state): State<AppState>, Asked(asked): Asked<PreviewAsked>,
) -> Answered<Json<Preview>> {
    let after = match asked.after {
        Some(after) => after,
        None => state.store.now().await?,
    };
    let count = page_size(Some(asked.count.unwrap_or(10)))?;
    let zone_name = asked.tz.unwrap_or_else(|| "UTC".to_owned());
    let zone = zone(&zone_name).map_err(|error| Problem::from(Invalid::new("tz", error.to_string())))?;
    let seed = asked.seed.unwrap_or_else(|| asked.expr.clone());
    let refused = |error: punctual_core::cron::RecurrenceError| Problem::from(Invalid::new("expr", error.to_string()));
    Ok(Json(match Recurrence::parse(&asked.expr, Some(&seed)).map_err(refused)? {
        Recurrence::Every(period) => {
            let next = |at: Timestamp| at.checked_add(period).ok();
            let fires = std::iter::successors(next(after), |at| next(*at)).take(count).collect();
            Preview { description: format!("Every {}", format_duration(period)), fires, warnings: Vec::new() }
        }
        Recurrence::Cron(cron) => {
            let clock = CronClock::new(cron, zone, Dst::default());
            let until = after.saturating_add(YEAR).unwrap_or(Timestamp::MAX);
            let notes = dst_notes(&clock, after, until).into_iter().map(|note| note.text);
            let warnings = lint(&clock, after).iter().map(ToString::to_string).chain(notes).collect();
            let fires = clock.fires_after(after).take(count).collect();
            Preview { description: describe(clock.cron(), &zone_name), fires, warnings }
        }
    }))
}
