//! The calendar of a schedule: day by day what was decided about its slots, and how the work for them ended.

use super::schedules::visible;
use super::statistics::TallyBody;
use crate::auth::Caller;
use crate::extract::{Asked, Named};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use punctual_core::cron::zone;
use punctual_core::slot_days::{self, DAY_ROWS_MAX, DAYS_MAX, DaySpan, SlotDay};
use punctual_core::timing::TimingSpec;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which days, in which zone.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SlotDaysAsked {
    /// The first day, such as `2026-11-01`.
    #[param(format = Date)]
    from: String,
    /// The day behind the last one; 62 days at most.
    #[param(format = Date)]
    until: String,
    /// The zone whose days they are, such as `Europe/Berlin`; the schedule's own unless said otherwise.
    tz: Option<String>,
}

/// The days that were asked for, each of them, whether something was decided or not.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SlotDays)]
pub(crate) struct SlotDaysBody {
    days: Vec<SlotDayBody>,
    /// Whether there were more than 50,000 rows of the ledger; then the earliest of these days lack some.
    more: bool,
}

/// One day of a schedule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SlotDay)]
pub(crate) struct SlotDayBody {
    #[schema(value_type = String, format = Date)]
    day: Date,
    /// The slots of the day by what was decided about them. Those of a range (a pause, say) are taken to lie evenly
    /// between its first and its last.
    tallies: Vec<TallyBody>,
    /// For how many slots the work failed at last, all retries counted in.
    failed: u64,
    /// For how many it completed.
    completed: u64,
}

impl From<SlotDay> for SlotDayBody {
    fn from(day: SlotDay) -> Self {
        let tallies = day.tallies.into_iter().map(Into::into).collect();
        Self { day: day.day, tallies, failed: day.failed, completed: day.completed }
    }
}

fn bad(field: &'static str, detail: impl Into<String>, remedy: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad_query", detail.into()).remedy(remedy.to_owned()).at(field)
}

impl SlotDaysAsked {
    fn days(&self, own_zone: &str) -> Answered<Vec<DaySpan>> {
        let name = self.tz.as_deref().unwrap_or(own_zone);
        let zone: TimeZone =
            zone(name).map_err(|error| bad("tz", error.to_string(), "use an IANA name such as Europe/Berlin"))?;
        let day = |field, text: &str| {
            text.parse::<Date>().map_err(|_| bad(field, format!("{field} is no day"), "write it as 2026-11-01"))
        };
        let (from, until) = (day("from", &self.from)?, day("until", &self.until)?);
        let span = from.until(until).map_or(i32::MAX, |span| span.get_days());
        if !usize::try_from(span).is_ok_and(|days| (1..=DAYS_MAX).contains(&days)) {
            let remedy = "until is the day behind the last one: ask for 62 days at most";
            return Err(bad("until", format!("from until until is not 1 to {DAYS_MAX} days"), remedy));
        }
        let days = slot_days::days_between(from, until, &zone);
        days.ok_or_else(|| bad("from", "the days are out of range", "ask for days that calendars know"))
    }
}

/// The slots of a schedule day by day: what was decided, and how the work for them ended.
#[utoipa::path(get, path = "/schedules/{key}/slots/days", tag = "schedules",
    params(("key" = String, Path, description = "id or name"), SlotDaysAsked),
    responses((status = 200, description = "the days, earliest first", body = SlotDaysBody)))]
pub(crate) async fn slot_days(
    State(state): State<AppState>, caller: Caller, Named(key): Named, Asked(asked): Asked<SlotDaysAsked>,
) -> Answered<Json<SlotDaysBody>> {
    let schedule = visible(&state, &caller, &key).await?;
    let own_zone = match &schedule.definition.timing {
        TimingSpec::Cron { timezone, .. } => timezone.as_str(),
        TimingSpec::Every { .. } | TimingSpec::At { .. } => "UTC",
    };
    let days = asked.days(own_zone)?;
    let Some((from, until)) = slot_days::time_of(&days) else {
        return Ok(Json(SlotDaysBody { days: Vec::new(), more: false }));
    };
    let mut rows = state.store.slots_between(schedule.id, from, until, DAY_ROWS_MAX + 1).await?;
    let more = rows.len() > DAY_ROWS_MAX;
    rows.truncate(DAY_ROWS_MAX);
    let ends = state.store.slot_ends(schedule.id, from, until, DAY_ROWS_MAX).await?;
    let days = slot_days::by_day(&days, &rows, &ends).into_iter().map(Into::into).collect();
    Ok(Json(SlotDaysBody { days, more }))
}
