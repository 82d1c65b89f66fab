//! Trying a cron expression: what it means, when it fires, what to mind; and presets.

use super::{Page, Paging};
use crate::change::{Action, Ask, Made, Told};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use punctual_core::cron::{CronClock, CronPreset, Dst, Recurrence, built_in_presets, describe, dst_notes, lint, zone};
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
            let warnings = warnings(&clock, after);
            let fires = clock.fires_after(after).take(count).collect();
            Preview { description: describe(clock.cron(), &zone_name), fires, warnings }
        }
    }))
}

/// What the author of an expression should mind: oddities, and the clock changes of the year ahead.
pub(crate) fn warnings(clock: &CronClock, after: Timestamp) -> Vec<String> {
    let until = after.saturating_add(YEAR).unwrap_or(Timestamp::MAX);
    let notes = dst_notes(clock, after, until).into_iter().map(|note| note.text);
    lint(clock, after).iter().map(ToString::to_string).chain(notes).collect()
}

/// A named cron expression.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CronPreset)]
pub(crate) struct PresetBody {
    name: String,
    expression: String,
    description: String,
    /// Whether it comes with the program.
    built_in: bool,
    created_at: Option<Timestamp>,
}

impl From<CronPreset> for PresetBody {
    fn from(preset: CronPreset) -> Self {
        let CronPreset { name, expression, description, created_at } = preset;
        Self { name, expression, description, built_in: created_at.is_none(), created_at }
    }
}

/// A cron preset that a body names: one that comes with the program, or one that somebody made.
pub(crate) async fn preset_of(state: &AppState, name: &str) -> Answered<CronPreset> {
    let unknown = || no_preset(name);
    if let Some(preset) = CronPreset::built_in(name) {
        return Ok(preset);
    }
    if name.contains('\0') {
        return Err(unknown().into());
    }
    Ok(state.store.cron_preset(name).await?.ok_or_else(unknown)?)
}

/// The refusal of a name that no cron preset has.
pub(crate) fn no_preset(name: &str) -> Invalid {
    Invalid::new("preset", format!("there is no cron preset `{name}`")).remedy("list the presets")
}

/// List cron presets: those that come with the program, and those that people made.
#[utoipa::path(get, path = "/cron/presets", tag = "cron", params(Paging),
    responses((status = 200, description = "one page", body = Page<PresetBody>)))]
pub(crate) async fn presets(
    State(state): State<AppState>, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<PresetBody>>> {
    let after: Option<String> = cursor::read(List::Presets, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let mut rows = state.store.cron_presets(after.as_deref(), limit + 1).await?;
    let behind = |preset: &CronPreset| after.as_ref().is_none_or(|after| preset.name > *after);
    rows.extend(built_in_presets().into_iter().filter(behind));
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows.truncate(limit + 1);
    Ok(Json(Page::of_rows(rows, limit, List::Presets, |row| row.name.clone(), Into::into)))
}

/// A cron preset that is to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCronPreset, example = json!({ "name": "payday", "expression": "0 9 25 * *" }))]
pub(crate) struct NewPreset {
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// A cron expression; the zone is said by the schedule.
    expression: String,
    #[serde(default)]
    description: String,
}

impl From<NewPreset> for CronPreset {
    fn from(NewPreset { name, expression, description }: NewPreset) -> Self {
        Self { name, expression, description, created_at: None }
    }
}

/// Make a cron preset.
#[utoipa::path(post, path = "/cron/presets", tag = "cron", request_body = NewPreset,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 201, description = "it can be used", body = PresetBody)))]
pub(crate) async fn create_preset(ask: Ask, sent: Sent<NewPreset>) -> Answered<Made> {
    let preset = CronPreset::from(sent.value);
    preset.validate()?;
    let tell = |made: &CronPreset| Told::new(format!("cron_preset:{}", made.name), &PresetBody::from(made.clone()));
    let action = Action::new("cron_preset.create");
    ask.create(sent.fingerprint, action, tell, |store| async move { store.create_cron_preset(preset).await }).await
}

/// Forget a cron preset; schedules keep their expressions.
#[utoipa::path(delete, path = "/cron/presets/{name}", tag = "cron", params(("name" = String, Path)),
    responses((status = 204, description = "it is gone")))]
pub(crate) async fn delete_preset(ask: Ask, Named(name): Named) -> Answered<StatusCode> {
    let none = || Problem::not_found("cron preset", &name).remedy("list the presets; those of the program stay");
    let old = ask.state.store.cron_preset(&name).await?.ok_or_else(none)?;
    let action = Action::new("cron_preset.delete").before(&PresetBody::from(old));
    let (subject, key) = (format!("cron_preset:{name}"), name.clone());
    let tell = move |(): &()| Told::new(subject.clone(), &());
    ask.change(action, tell, |store| async move { store.delete_cron_preset(&key).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
