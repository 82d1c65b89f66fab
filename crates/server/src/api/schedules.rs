//! Schedules: make, list, look at, edit, delete.

use super::Page;
use super::schedule_shapes::{Begin, Definition, NewScheduleBody, ScheduleBody};
use crate::auth::Caller;
use crate::change::{Action, Ask, Made, Told, etag, text_of};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size, parse};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual_core::grant::Grant;
use punctual_core::id::ScheduleId;
use punctual_core::invalid::Invalid;
use punctual_core::manifest::ThingKind;
use punctual_core::readings::{RecentRun, ScheduleFilter};
use punctual_core::schedule::{Schedule, ScheduleDefinition, Source};
use punctual_core::store::{ScheduleKey, Store, StoreError};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::IntoParams;

/// A schedule that the caller may see, by id or name.
pub(crate) async fn visible(state: &AppState, caller: &Caller, key: &str) -> Answered<Schedule> {
    let found = state.store.schedule(&ScheduleKey::from(key)).await?;
    let seen = found.filter(|schedule| caller.sees(schedule.definition.owner.as_deref()));
    seen.ok_or_else(|| Problem::not_found("schedule", key))
}

pub(crate) fn tell(schedule: &Schedule) -> Told {
    Told::new(format!("schedule:{}", schedule.id), &ScheduleBody::from(schedule))
}

/// A thing that a definition names and that is not there is a mistake in the definition.
fn of_the_body(error: StoreError) -> StoreError {
    match error {
        StoreError::NotFound { what: what @ "calendar", key } => {
            Invalid::new(what, format!("there is no calendar `{key}`"))
                .remedy("make it first with POST /calendars, name another one, or leave it out")
                .into()
        }
        StoreError::NotFound { what: "schedule", key } => {
            Invalid::new("depends_on.schedule_id", format!("there is no schedule `{key}`"))
                .remedy("name the id of an existing schedule")
                .into()
        }
        other => other,
    }
}

/// Others' schedules are nothing that one could use.
async fn check_references(ask: &Ask, definition: &ScheduleDefinition) -> Answered<()> {
    super::flows::check_target(&ask.state, &ask.caller, &definition.target).await?;
    if let Some(other) = definition.depends_on {
        let found = ask.state.store.schedule(&other.schedule_id.into()).await?;
        let seen = found.is_some_and(|schedule| ask.caller.sees(schedule.definition.owner.as_deref()));
        if !seen {
            let key = other.schedule_id.to_string();
            return Err(of_the_body(StoreError::NotFound { what: "schedule", key }).into());
        }
    }
    Ok(())
}

async fn check_grant(ask: &Ask, definition: &ScheduleDefinition) -> Answered<()> {
    let owner = definition.owner.as_deref();
    super::grants::check_named(&ask.state, owner, &definition.target, definition.grant_id).await
}

/// Make a schedule, with its first slot; with a grant, if one is sent, both or neither.
#[utoipa::path(post, path = "/schedules", tag = "schedules", request_body = NewScheduleBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 201, description = "it will fire", body = ScheduleBody)))]
pub(crate) async fn create(ask: Ask, mut sent: Sent<NewScheduleBody>) -> Answered<Made> {
    let paused = sent.value.enabled == Some(false);
    let owner = ask.caller.owner.clone();
    let grant = sent.value.grant.take().map(|grant| grant.into_grant(&owner)).transpose()?;
    let begin = begin_of(&ask, &sent.value).await?;
    let definition = sent.value.into_definition(begin, Some(owner), Source::Api)?;
    if grant.is_some() && definition.grant_id.is_some() {
        return Err(Invalid::new("grant_id", "is given beside a new grant").remedy("send one of the two").into());
    }
    check_references(&ask, &definition).await?;
    match &grant {
        Some(_) => super::grants::check_graph(&definition.target)?,
        None => check_grant(&ask, &definition).await?,
    }
    let action = Action::new("schedule.create");
    let name = definition.name.to_string();
    let made = match grant {
        None => {
            let create =
                |store: Arc<dyn Store>| async move { store.create_schedule(definition).await.map_err(of_the_body) };
            ask.create(sent.fingerprint, action, tell, create).await?
        }
        Some(grant) => {
            grant.validate()?;
            let tell_both = |(schedule, _): &(Schedule, Grant)| tell(schedule);
            let create = |store: Arc<dyn Store>| async move {
                store.create_schedule_with_grant(definition, grant).await.map_err(of_the_body)
            };
            ask.create(sent.fingerprint, action, tell_both, create).await?
        }
    };
    if paused && !made.is_repeated() {
        pause_new(&ask, &name).await?;
    }
    Ok(made.found_under("/api/v1/schedules").tagged(1))
}

/// A schedule that is made paused is paused by a change of its own, right behind the one that made it.
async fn pause_new(ask: &Ask, name: &str) -> Answered<()> {
    let schedule = visible(&ask.state, &ask.caller, name).await?;
    let by = Some(ask.caller.owner.clone());
    let pause = |store: Arc<dyn Store>| async move {
        store.pause_schedule(schedule.id, by, Some("made paused".to_owned())).await
    };
    ask.change(Action::new("schedule.pause"), tell, pause).await.map(drop)
}

/// Which schedules, and where in the list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SchedulesAsked {
    /// Running (true) or paused (false).
    enabled: Option<bool>,
    /// Whose last run failed (true) or did not (false).
    failing: Option<bool>,
    /// With this text in the name.
    q: Option<String>,
    /// With this label: `key`, or `key=value`.
    label: Option<String>,
    /// Whose jobs go to this queue.
    queue: Option<String>,
    /// Of this owner; only an admin can ask for another than his own.
    owner: Option<String>,
    /// `next_run` lists those that are due next, soonest first, without further pages.
    #[param(pattern = "^(name|next_run)$")]
    order: Option<String>,
    /// With the last so many runs of each that have ended, 0 to 20: of its latest 100 jobs. None unless said.
    #[param(maximum = 20)]
    recent: Option<usize>,
    /// How many, 1 to 500; 50 unless said otherwise.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// List schedules, in order of name.
#[utoipa::path(get, path = "/schedules", tag = "schedules", params(SchedulesAsked),
    responses((status = 200, description = "one page", body = Page<ScheduleBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<SchedulesAsked>,
) -> Answered<Json<Page<ScheduleBody>>> {
    let limit = page_size(asked.limit)?;
    let recent = recent_asked(asked.recent)?;
    let owner = caller.scope().or(asked.owner);
    match asked.order.as_deref() {
        None | Some("name") => {}
        Some("next_run") => {
            let filter = ScheduleFilter { owner, ..ScheduleFilter::default() };
            filter.validate()?;
            let due = state.store.next_schedules(filter.owner.as_deref(), limit).await?;
            let items = shown_list(&state, &due, recent).await?;
            return Ok(Json(Page::new(items, List::Schedules, None::<&String>)));
        }
        Some(_) => {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "bad_query", "order is neither name nor next_run")
                .remedy("use name or next_run")
                .at("order"));
        }
    }
    let label = asked.label.map(|label| match label.split_once('=') {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => (label, None),
    });
    let filter = ScheduleFilter {
        enabled: asked.enabled,
        owner,
        label,
        text: asked.q,
        failing: asked.failing,
        queue: asked.queue,
    };
    let after: Option<String> = cursor::read(List::Schedules, asked.cursor.as_deref())?;
    let page = state.store.schedules_by(&filter, after.as_deref(), limit).await?;
    Ok(Json(Page::new(shown_list(&state, &page.items, recent).await?, List::Schedules, page.next.as_ref())))
}

/// The most recent runs that a list tells of each schedule.
const RECENT_MAX: usize = 20;

fn recent_asked(asked: Option<usize>) -> Answered<usize> {
    match asked.unwrap_or(0) {
        recent @ 0..=RECENT_MAX => Ok(recent),
        _ => Err(Problem::new(StatusCode::BAD_REQUEST, "bad_query", "recent is not between 0 and 20")
            .remedy("ask for 20 at most, and for more with GET /schedules/{key}/runs")
            .at("recent")),
    }
}

/// Schedules as a list shows them, with their recent runs if these are asked for: one look for all of them.
async fn shown_list(state: &AppState, schedules: &[Schedule], recent: usize) -> Answered<Vec<ScheduleBody>> {
    if recent == 0 || schedules.is_empty() {
        return Ok(schedules.iter().map(Into::into).collect());
    }
    let ids: Vec<ScheduleId> = schedules.iter().map(|schedule| schedule.id).collect();
    let mut runs: BTreeMap<ScheduleId, Vec<RecentRun>> = BTreeMap::new();
    for run in state.store.recent_runs(&ids, recent).await? {
        runs.entry(run.schedule_id).or_default().push(run);
    }
    let with_runs =
        |schedule: &Schedule| ScheduleBody::from(schedule).with_recent(runs.remove(&schedule.id).unwrap_or_default());
    Ok(schedules.iter().map(with_runs).collect())
}

/// Look at one schedule.
#[utoipa::path(get, path = "/schedules/{key}", tag = "schedules", params(("key" = String, Path, description = "id or name")),
    responses((status = 200, description = "the schedule; its ETag is its version", body = ScheduleBody)))]
pub(crate) async fn get(State(state): State<AppState>, caller: Caller, Named(key): Named) -> Answered<Response> {
    let schedule = visible(&state, &caller, &key).await?;
    let managed = state.store.managed_thing(ThingKind::Schedule, schedule.definition.name.as_str()).await?;
    let body = ScheduleBody::from(&schedule).managed_by(managed);
    Ok(([(header::ETAG, etag(schedule.version))], Json(body)).into_response())
}

/// A schedule with its `ETag`.
pub(crate) fn shown(schedule: &Schedule) -> Response {
    ([(header::ETAG, etag(schedule.version))], Json(ScheduleBody::from(schedule))).into_response()
}

/// Refuses when the caller has read another version.
pub(crate) fn check_match(headers: &HeaderMap, version: i64) -> Answered<()> {
    let Some(given) = headers.get(header::IF_MATCH) else { return Ok(()) };
    let given = given.to_str().unwrap_or_default();
    let own = etag(version);
    if given.split(',').any(|tag| tag.trim() == "*" || tag.trim() == own) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::PRECONDITION_FAILED,
        "version_conflict",
        format!("it was changed by somebody else: its ETag is {own}"),
    )
    .remedy("read it again, and send its ETag in If-Match"))
}

/// Edit a schedule: what is sent replaces what was, `null` takes it away, the rest stays (RFC 7396 on the top level).
#[utoipa::path(patch, path = "/schedules/{key}", tag = "schedules",
    params(("key" = String, Path, description = "id or name"),
        ("If-Match" = Option<String>, Header, description = "The ETag that was read; another one is refused with 412.")),
    request_body = NewScheduleBody,
    responses((status = 200, description = "the schedule as it is now", body = ScheduleBody)))]
pub(crate) async fn patch(
    ask: Ask, Named(key): Named, headers: HeaderMap, sent: Sent<BTreeMap<String, Box<RawValue>>>,
) -> Answered<Response> {
    let old = visible(&ask.state, &ask.caller, &key).await?;
    check_match(&headers, old.version)?;
    let edited = merged(&old, sent.value)?;
    if edited.grant.is_some() {
        return Err(Invalid::new("grant", "can be sent only with a new schedule").remedy("send grant_id").into());
    }
    let enabled = edited.enabled;
    let begin = begin_of(&ask, &edited).await?;
    let mut definition = edited.into_definition(begin, old.definition.owner.clone(), old.definition.source)?;
    definition.template_id = old.definition.template_id;
    check_references(&ask, &definition).await?;
    check_grant(&ask, &definition).await?;
    let before = Action::new("schedule.update").before(&ScheduleBody::from(&old));
    let update = |store: Arc<dyn Store>| async move {
        store.update_schedule_if_version(old.id, old.version, definition).await.map_err(of_the_body)
    };
    let mut now = ask.change(before, tell, update).await?;
    if let Some(enabled) = enabled.filter(|enabled| *enabled != now.state.enabled) {
        now = super::steering::set_enabled(&ask, &now, enabled, None).await?;
    }
    Ok(shown(&now))
}

/// What a schedule is made from: a preset, a template, both or neither.
async fn begin_of(ask: &Ask, body: &NewScheduleBody) -> Answered<Begin> {
    let cron = match &body.preset {
        None => None,
        Some(name) => Some(super::cron::preset_of(&ask.state, name).await?.expression),
    };
    let (name, given) = (body.template.as_deref(), body.parameters.as_ref());
    let job = super::templates::job_of(&ask.state, name, given, body.input.is_some()).await?;
    Ok(Begin { cron, job })
}

/// The definition with what was sent put over it.
fn merged(old: &Schedule, sent: BTreeMap<String, Box<RawValue>>) -> Answered<NewScheduleBody> {
    if let Some(field) = ["template", "parameters", "preset"].into_iter().find(|field| sent.contains_key(*field)) {
        return Err(Invalid::new(field, "is for new schedules").remedy("send what is to change itself").into());
    }
    let text = text_of(&Definition::from(&old.definition));
    let mut whole: BTreeMap<String, Box<RawValue>> = parse(text.as_bytes())?;
    // Whoever names one way of saying when means that one.
    if ["cron", "every", "at"].iter().any(|timing| sent.get(*timing).is_some_and(|raw| raw.get() != "null")) {
        for timing in ["cron", "every", "at"] {
            whole.remove(timing);
        }
        let cron = sent.get("cron").is_some_and(|raw| raw.get() != "null");
        if !cron {
            for of_cron in ["timezone", "dst_gap", "dst_overlap"] {
                whole.remove(of_cron);
            }
        }
    }
    for (field, value) in sent {
        if value.get() == "null" && field != "input" {
            whole.remove(&field);
        } else {
            whole.insert(field, value);
        }
    }
    parse(text_of(&whole).as_bytes())
}

/// Delete a schedule: what waits is cancelled, what runs goes on, its history stays.
#[utoipa::path(delete, path = "/schedules/{key}", tag = "schedules",
    params(("key" = String, Path, description = "id or name"),
        ("If-Match" = Option<String>, Header, description = "The ETag that was read; another one is refused with 412.")),
    responses((status = 204, description = "it is gone")))]
pub(crate) async fn delete(ask: Ask, Named(key): Named, headers: HeaderMap) -> Answered<StatusCode> {
    let old = visible(&ask.state, &ask.caller, &key).await?;
    check_match(&headers, old.version)?;
    let action = Action::new("schedule.delete").before(&ScheduleBody::from(&old));
    let id = old.id;
    let tell = move |(): &()| Told::new(format!("schedule:{id}"), &());
    ask.change(action, tell, |store| async move { store.delete_schedule(id).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
