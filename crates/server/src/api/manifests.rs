//! Manifests: what a file would change, carrying that out, and writing down what is there.

use crate::auth::Caller;
use crate::change::{Action, Ask, Made, Told, text_of};
use crate::extract::{Asked, LargeSent};
use crate::manifest::shapes::Plan;
use crate::manifest::{self, Node, Wishes};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual_core::manifest::Applied;
use punctual_core::store::Store;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// How many fires of each schedule are compared unless somebody says otherwise, and at most.
const FIRES_USUAL: usize = 10;
const FIRES_MOST: usize = 100;

/// A manifest, and what is asked about it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "manifest": { "owner": "billing", "schedules": { "nightly": {
    "cron": "0 2 * * *", "timezone": "Europe/Berlin", "target": { "kind": "command", "argv": ["backup.sh"] } } } } }))]
pub(crate) struct PlanAsked {
    /// `owner`, and things by name in `calendars`, `presets`, `templates`, `queues`, `limits`, `channels`, `rules`, `flows`
    /// and `schedules`, each with the fields of the call that makes one.
    #[schema(value_type = Object)]
    manifest: Box<RawValue>,
    /// Whether the owner's things that are not in it any more are removed.
    #[serde(default)]
    prune: bool,
    /// Whether things that no manifest has are taken over.
    #[serde(default)]
    adopt: bool,
    /// How many fires of each schedule are compared, 0 to 100; 10 unless said otherwise.
    #[schema(maximum = 100)]
    fires: Option<usize>,
}

/// A manifest that is to be applied.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApplyAsked {
    /// As for a plan.
    #[schema(value_type = Object)]
    manifest: Box<RawValue>,
    /// Whether the owner's things that are not in it any more are removed.
    #[serde(default)]
    prune: bool,
    /// Whether things that no manifest has are taken over.
    #[serde(default)]
    adopt: bool,
    /// Of no use here, and taken so that what was planned can be sent as it is: what was done is told without fires.
    #[schema(maximum = 100)]
    fires: Option<usize>,
    /// The `digest` of the plan that somebody has seen; refused when it would be another by now.
    if_plan: Option<String>,
}

fn wishes(prune: bool, adopt: bool, fires: Option<usize>) -> Answered<Wishes> {
    match fires.unwrap_or(FIRES_USUAL) {
        fires @ 0..=FIRES_MOST => Ok(Wishes { prune, adopt, fires }),
        _ => Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "fires is not between 0 and 100")
            .remedy("ask for 100 at most, and for more with GET /schedules/{key}/upcoming")
            .at("/fires")),
    }
}

/// Say what a manifest would change, field by field, and how the fires of schedules would move. Nothing is changed.
#[utoipa::path(post, path = "/manifest/plan", tag = "manifest", request_body = PlanAsked,
    responses((status = 200, description = "what would be done", body = Plan)))]
pub(crate) async fn plan(
    State(state): State<AppState>, caller: Caller, sent: LargeSent<PlanAsked>,
) -> Answered<Json<Plan>> {
    let PlanAsked { manifest, prune, adopt, fires } = sent.value;
    let planned = manifest::plan(&state, &caller, &manifest, wishes(prune, adopt, fires)?).await?;
    Ok(Json(planned.plan))
}

/// Carry out a manifest: all of it in one transaction, or nothing.
#[utoipa::path(post, path = "/manifest/apply", tag = "manifest", request_body = ApplyAsked,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 200, description = "what was done", body = Plan)))]
pub(crate) async fn apply(ask: Ask, sent: LargeSent<ApplyAsked>) -> Answered<Made> {
    // What was carried out under this key would be another plan by now.
    if let Some(made) = ask.answered(sent.fingerprint).await? {
        return Ok(made.into_changed());
    }
    let ApplyAsked { manifest, prune, adopt, fires, if_plan } = sent.value;
    // The fires of very many schedules are more than some callers read, and what was done must not look as if it failed.
    let wishes = Wishes { fires: 0, ..wishes(prune, adopt, fires)? };
    let planned = manifest::plan(&ask.state, &ask.caller, &manifest, wishes).await?;
    let manifest::Planned { plan, application } = planned;
    if if_plan.is_some_and(|seen| seen != plan.digest) {
        let told = "something has changed since that plan was made";
        return Err(Problem::new(StatusCode::CONFLICT, "plan_changed", told)
            .remedy("plan again, look at it, and send its digest")
            .at("/if_plan"));
    }
    let nothing = application.edits.is_empty() && application.said.is_empty() && application.forgotten.is_empty();
    if nothing {
        return Ok(Made::new(&plan).into_changed());
    }
    let (subject, whole, kept) = (format!("manifest:{}", plan.owner), text_of(&plan), text_of(&plan.without_fires()));
    let tell = move |_: &Applied| Told { subject: subject.clone(), body: whole.clone(), on_repeat: Some(kept.clone()) };
    let carry_out = |store: Arc<dyn Store>| async move { store.apply_manifest(application).await };
    let made = ask.create(sent.fingerprint, Action::new("manifest.apply"), tell, carry_out).await?;
    Ok(made.into_changed())
}

/// Which manifest is written down.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportAsked {
    /// Only what the manifests of this owner have; everything that you may see when it is left out.
    owner: Option<String>,
}

/// Write down what is there as a manifest; what is as usual is left out, and secrets stay references. Applied again it
/// changes nothing.
#[utoipa::path(get, path = "/manifest", tag = "manifest", params(ExportAsked),
    responses((status = 200, description = "the manifest", body = Object)))]
pub(crate) async fn export(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<ExportAsked>,
) -> Answered<Json<Node>> {
    if asked.owner.as_deref().is_some_and(|owner| !caller.sees(Some(owner))) {
        return Err(Problem::new(StatusCode::FORBIDDEN, "role_too_low", "that is the manifest of another owner")
            .remedy("ask for your own, or use an admin's token")
            .at("owner"));
    }
    Ok(Json(manifest::export(&state, &caller, asked.owner.as_deref()).await?))
}
