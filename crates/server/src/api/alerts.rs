//! Alerts: the troubles that rules have found, who was told, and who takes care of them.

use super::Page;
use super::words::{ErrorCodeWord, RuleTriggerWord, SubjectKindWord};
use crate::auth::Caller;
use crate::change::{Action, Ask, Told};
use crate::cursor::{self, List};
use crate::extract::{Asked, MaybeSent, Named, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual_core::id::AlertId;
use punctual_core::name;
use punctual_core::notify::alert::{Alert, Member};
use punctual_core::notify::event::SubjectKind;
use punctual_core::notify::message::Occasion;
use punctual_core::notify::port::AlertFilter;
use punctual_core::notify::rule::Trigger;
use punctual_core::run::ErrorCode;
use punctual_core::store::ScheduleKey;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// The most of those in trouble that are shown.
const MEMBERS_SHOWN: usize = 100;

/// Which alerts.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AlertsAsked {
    /// Only those that go on (`true`), or that are over (`false`).
    open: Option<bool>,
    /// Only those of this rule.
    rule: Option<String>,
    /// How many, 1 to 500; 50 unless said otherwise.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// A trouble that a rule has found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Alert)]
pub(crate) struct AlertBody {
    id: Uuid,
    rule: String,
    #[schema(value_type = RuleTriggerWord)]
    trigger: Trigger,
    /// `open`, `acknowledged`, `recovered` (and not told yet) or `closed`.
    #[schema(pattern = "^(open|acknowledged|recovered|closed)$")]
    state: &'static str,
    /// One line that says it all.
    title: String,
    opened_at: Timestamp,
    last_at: Timestamp,
    /// How often it happened.
    count: u64,
    /// Who is in trouble, or was: the first hundred.
    subjects: Vec<MemberBody>,
    subjects_total: u64,
    /// Of the latest failure.
    #[schema(value_type = Option<ErrorCodeWord>)]
    error_code: Option<ErrorCode>,
    error: Option<String>,
    job_id: Option<Uuid>,
    detail: Option<String>,
    /// How many steps of the rule were told.
    steps_told: u32,
    /// The channels that were told.
    told: Vec<String>,
    last_told_at: Option<Timestamp>,
    acknowledged: Option<AcknowledgedBody>,
    recovered_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
}

/// One of those in trouble.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AlertSubject)]
pub(crate) struct MemberBody {
    #[schema(value_type = SubjectKindWord)]
    kind: SubjectKind,
    /// What it is known by: a schedule's or a node's id, a queue's name.
    key: String,
    name: String,
    count: u64,
    since: Timestamp,
    recovered_at: Option<Timestamp>,
}

/// Who takes care of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Acknowledgement)]
pub(crate) struct AcknowledgedBody {
    at: Timestamp,
    /// Whoever it was; unknown when it came by a link.
    by: Option<String>,
    note: Option<String>,
}

impl From<&Member> for MemberBody {
    fn from(member: &Member) -> Self {
        let Member { subject, count, since, recovered_at } = member.clone();
        Self { kind: subject.kind, key: subject.key, name: subject.name, count, since, recovered_at }
    }
}

pub(crate) fn state_of(alert: &Alert) -> &'static str {
    match (alert.closed_at, alert.recovered_at, &alert.acknowledged) {
        (Some(_), ..) => "closed",
        (_, Some(_), _) => "recovered",
        (.., Some(_)) => "acknowledged",
        _ => "open",
    }
}

/// What the alert was about when it began, whatever it is now.
pub(crate) fn title_of(alert: &Alert) -> String {
    alert.message(Occasion::Opened, alert.last_at).wording(None).title
}

impl From<&Alert> for AlertBody {
    fn from(alert: &Alert) -> Self {
        let acknowledged = alert.acknowledged.clone();
        Self {
            id: alert.id.0,
            rule: alert.rule.to_string(),
            trigger: alert.trigger,
            state: state_of(alert),
            title: title_of(alert),
            opened_at: alert.opened_at,
            last_at: alert.last_at,
            count: alert.count,
            subjects: alert.members.values().take(MEMBERS_SHOWN).map(Into::into).collect(),
            subjects_total: alert.members_total(),
            error_code: alert.error_code,
            error: alert.error.clone(),
            job_id: alert.job_id.map(|id| id.0),
            detail: alert.detail.clone(),
            steps_told: alert.steps_told,
            told: alert.told.iter().map(ToString::to_string).collect(),
            last_told_at: alert.last_told_at,
            acknowledged: acknowledged.map(|it| AcknowledgedBody { at: it.at, by: it.by, note: it.note }),
            recovered_at: alert.recovered_at,
            closed_at: alert.closed_at,
        }
    }
}

/// Whether an alert is there for the caller: nothing in it may belong to somebody else.
pub(crate) async fn is_visible(state: &AppState, caller: &Caller, alert: &Alert) -> Answered<bool> {
    if caller.scope().is_none() {
        return Ok(true);
    }
    for member in alert.members.values().filter(|member| member.subject.kind == SubjectKind::Schedule) {
        let found = state.store.schedule(&ScheduleKey::from(member.subject.key.as_str())).await?;
        if !found.is_some_and(|schedule| caller.sees(schedule.definition.owner.as_deref())) {
            return Ok(false);
        }
    }
    let job = match alert.job_id {
        Some(id) => state.store.job(id).await?,
        None => return Ok(alert.unnamed == 0),
    };
    // A job that is gone belonged to somebody.
    Ok(alert.unnamed == 0 && job.is_some_and(|view| caller.sees(view.job.spec.owner.as_deref())))
}

pub(crate) async fn existing(state: &AppState, caller: &Caller, text: &str) -> Answered<Alert> {
    let none = || Problem::not_found("alert", text);
    let id: AlertId = text.parse().map_err(|_| none())?;
    let alert = state.store.alert(id).await?.ok_or_else(none)?;
    if is_visible(state, caller, &alert).await? { Ok(alert) } else { Err(none()) }
}

/// List alerts, the latest first.
#[utoipa::path(get, path = "/alerts", tag = "alerts", params(AlertsAsked),
    responses((status = 200, description = "one page", body = Page<AlertBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<AlertsAsked>,
) -> Answered<Json<Page<AlertBody>>> {
    let before: Option<AlertId> = cursor::read(List::Alerts, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let filter = AlertFilter { open: asked.open, rule: asked.rule };
    let page = state.store.alerts(&filter, before, limit).await?;
    let mut shown = Vec::new();
    for alert in &page.items {
        if is_visible(&state, &caller, alert).await? {
            shown.push(alert.into());
        }
    }
    Ok(Json(Page::new(shown, List::Alerts, page.next.as_ref())))
}

/// Look at one alert.
#[utoipa::path(get, path = "/alerts/{id}", tag = "alerts", params(("id" = Uuid, Path)),
    responses((status = 200, description = "the alert", body = AlertBody)))]
pub(crate) async fn get(State(state): State<AppState>, caller: Caller, Named(id): Named) -> Answered<Json<AlertBody>> {
    Ok(Json((&existing(&state, &caller, &id).await?).into()))
}

/// A word about it.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acknowledge {
    /// What others should know, such as who looks into it.
    note: Option<String>,
}

pub(crate) fn tell(alert: &Alert) -> Told {
    Told::new(format!("alert:{}", alert.id), &AlertBody::from(alert))
}

/// Take care of an alert: no further step is told. The first who does so stands.
#[utoipa::path(post, path = "/alerts/{id}/acknowledge", tag = "alerts", params(("id" = Uuid, Path)),
    request_body(content = Option<Acknowledge>),
    responses((status = 200, description = "nobody else is told; a second time changes nothing", body = AlertBody)))]
pub(crate) async fn acknowledge(ask: Ask, Named(id): Named, sent: MaybeSent<Acknowledge>) -> Answered<Json<AlertBody>> {
    let old = existing(&ask.state, &ask.caller, &id).await?;
    let note = sent.value.note.filter(|note| !note.trim().is_empty());
    note.as_deref().map_or(Ok(()), |note| name::check_text("note", note))?;
    let by = Some(ask.caller.owner.clone());
    let action = Action::new("alert.acknowledge").before(&AlertBody::from(&old));
    let now = ask.change(action, tell, |store| async move { store.acknowledge_alert(old.id, by, note).await }).await?;
    Ok(Json((&now).into()))
}
