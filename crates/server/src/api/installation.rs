//! What holds for the whole installation, whichever node does the work.

use crate::change::{Action, Ask, Told};
use crate::extract::Sent;
use crate::problem::Answered;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use punctual_core::access::Role;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// Settings that all nodes share.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Settings)]
pub(crate) struct SettingsBody {
    /// The most slots that fire in any second, across all nodes; no limit when null. Slots beyond it wait and fire late;
    /// those of schedules with `burst_allowed` neither wait nor count.
    fires_per_second: Option<u32>,
}

/// What is to change of them; `null` lifts a limit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingsPatch {
    #[schema(value_type = Option<u32>)]
    #[serde(default)]
    fires_per_second: Change,
}

/// What becomes of a limit.
#[derive(Debug, Default)]
enum Change {
    /// Nothing was sent about it.
    #[default]
    Leave,
    /// It is set, or lifted by `null`.
    To(Option<u32>),
}

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self::To)
    }
}

/// Look at the settings that all nodes share.
#[utoipa::path(get, path = "/settings", tag = "system",
    responses((status = 200, description = "the settings", body = SettingsBody)))]
pub(crate) async fn get(State(state): State<AppState>) -> Answered<Json<SettingsBody>> {
    Ok(Json(SettingsBody { fires_per_second: state.store.fire_cap().await? }))
}

/// Change the settings that all nodes share; for admins.
#[utoipa::path(patch, path = "/settings", tag = "system", request_body = SettingsPatch,
    responses((status = 200, description = "the settings as they are now", body = SettingsBody)))]
pub(crate) async fn patch(ask: Ask, sent: Sent<SettingsPatch>) -> Answered<Json<SettingsBody>> {
    ask.caller.require(Role::Admin)?;
    let before = SettingsBody { fires_per_second: ask.state.store.fire_cap().await? };
    let Change::To(cap) = sent.value.fires_per_second else { return Ok(Json(before)) };
    let tell = |cap: &Option<u32>| Told::new("settings".to_owned(), &SettingsBody { fires_per_second: *cap });
    let action = Action::new("settings.update").before(&before);
    let now = ask.change(action, tell, |store| async move { store.set_fire_cap(cap).await }).await?;
    Ok(Json(SettingsBody { fires_per_second: now }))
}
