//! Rules: of what people are told, whom, and when. Admins make and change them.

use super::schedules::check_match;
use super::words::{QuietDocument, RuleTriggerWord, ScopeDocument, StepDocument};
use super::{Page, Paging};
use crate::change::{Action, Ask, Made, Told, etag, text_of};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size, parse};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use punctual_core::access::Role;
use punctual_core::invalid::Invalid;
use punctual_core::notify::rule::{Rule, RuleDefinition};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A rule that is to be made; `core` reads it.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct NewRuleBody(pub(crate) RuleDefinition);

/// What a rule says.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it only describes what `core` reads and writes")]
#[schema(as = NewRule, example = json!({
    "name": "nightly", "on": "failures_in_a_row", "failures": 3, "scope": { "schedule": "nightly-backup" },
    "steps": [{ "channels": ["ops"] }, { "channels": ["oncall"], "after": "15m" }],
    "quiet": { "from": "22:00", "until": "07:00", "timezone": "Europe/Berlin" } }))]
pub(crate) struct RuleShape {
    /// What people call it.
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    #[schema(required = false)]
    description: String,
    /// Whether it is looked at; `true` unless said otherwise.
    #[schema(required = false)]
    enabled: bool,
    /// What it is about.
    #[schema(value_type = RuleTriggerWord)]
    on: (),
    /// How long it must last, such as `5m`, for triggers that last.
    after: Option<String>,
    /// How many failures in a row.
    #[schema(minimum = 2, maximum = 1000)]
    failures: Option<u32>,
    /// How often a dead-man's switch is told that all is well.
    every: Option<String>,
    /// Where it looks.
    #[schema(value_type = ScopeDocument, required = false)]
    scope: (),
    /// Who is told, in order.
    #[schema(value_type = Vec<StepDocument>, min_items = 1, max_items = 10)]
    steps: (),
    /// How long more of the same is waited for before the first message; `10s` unless said otherwise.
    #[schema(required = false)]
    wait: String,
    /// What makes one alert out of several troubles: `cause`, `subject` or `rule`.
    #[schema(required = false, pattern = "^(cause|subject|rule)$")]
    group_by: String,
    /// How often the last step is reminded while nobody has acknowledged.
    repeat_every: Option<String>,
    /// When nobody is told.
    #[schema(value_type = Option<QuietDocument>)]
    quiet: Option<()>,
    /// Whether those who were told hear of the end; as is usual for the trigger unless said otherwise.
    tell_recovery: Option<bool>,
}

/// A rule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Rule)]
pub(crate) struct RuleBody {
    #[serde(flatten)]
    #[schema(value_type = RuleShape, inline = false)]
    definition: RuleDefinition,
    /// Rises with every edit; also the `ETag`.
    version: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&Rule> for RuleBody {
    fn from(rule: &Rule) -> Self {
        let Rule { definition, version, created_at, updated_at } = rule.clone();
        Self { definition, version, created_at, updated_at }
    }
}

fn tell(rule: &Rule) -> Told {
    Told::new(format!("rule:{}", rule.definition.name), &RuleBody::from(rule))
}

fn shown(rule: &Rule) -> Response {
    ([(header::ETAG, etag(rule.version))], Json(RuleBody::from(rule))).into_response()
}

async fn existing(state: &AppState, name: &str) -> Answered<Rule> {
    state.store.rule(name).await?.ok_or_else(|| Problem::not_found("rule", name))
}

/// Make a rule. It holds for what happens from now on.
#[utoipa::path(post, path = "/rules", tag = "rules", request_body = RuleShape,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 201, description = "it holds from now on", body = RuleBody)))]
pub(crate) async fn create(ask: Ask, sent: Sent<NewRuleBody>) -> Answered<Made> {
    ask.caller.require(Role::Admin)?;
    let NewRuleBody(definition) = sent.value;
    definition.validate()?;
    let made = ask.create(sent.fingerprint, Action::new("rule.create"), tell, |store| async move {
        store.create_rule(definition).await
    });
    Ok(made.await?.tagged(1))
}

/// List rules, in order of name.
#[utoipa::path(get, path = "/rules", tag = "rules", params(Paging),
    responses((status = 200, description = "one page", body = Page<RuleBody>)))]
pub(crate) async fn list(State(state): State<AppState>, Asked(asked): Asked<Paging>) -> Answered<Json<Page<RuleBody>>> {
    let after: Option<String> = cursor::read(List::Rules, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.rules(after.as_deref(), limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::Rules, |row| row.definition.name.to_string(), |row| (&row).into())))
}

/// Look at one rule.
#[utoipa::path(get, path = "/rules/{name}", tag = "rules", params(("name" = String, Path)),
    responses((status = 200, description = "the rule; its ETag is its version", body = RuleBody)))]
pub(crate) async fn get(State(state): State<AppState>, Named(name): Named) -> Answered<Response> {
    Ok(shown(&existing(&state, &name).await?))
}

/// Edit a rule: what is sent replaces what was, `null` takes it away, the rest stays (RFC 7396 on the top level). Its
/// open alerts go on by what it says now.
#[utoipa::path(patch, path = "/rules/{name}", tag = "rules",
    params(("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The ETag that was read; another one is refused with 412.")),
    request_body(content = Object, description = "What is to change; `null` takes a field away."),
    responses((status = 200, description = "the rule as it is now", body = RuleBody)))]
pub(crate) async fn patch(
    ask: Ask, Named(name): Named, headers: HeaderMap, sent: Sent<BTreeMap<String, Box<RawValue>>>,
) -> Answered<Response> {
    ask.caller.require(Role::Admin)?;
    let old = existing(&ask.state, &name).await?;
    check_match(&headers, old.version)?;
    let definition = merged(&old.definition, sent.value)?;
    definition.validate()?;
    let action = Action::new("rule.update").before(&RuleBody::from(&old));
    let now = ask.change(action, tell, |store| async move {
        let (name, version) = (old.definition.name.as_str(), old.version);
        store.update_rule_if_version(name, version, definition).await
    });
    Ok(shown(&now.await?))
}

/// What was said before, with this put over it.
fn merged(old: &RuleDefinition, sent: BTreeMap<String, Box<RawValue>>) -> Answered<RuleDefinition> {
    let mut whole: BTreeMap<String, Box<RawValue>> = parse(text_of(old).as_bytes())?;
    for (field, value) in sent {
        if value.get() == "null" {
            whole.remove(&field);
        } else {
            whole.insert(field, value);
        }
    }
    let edited: RuleDefinition = parse(text_of(&whole).as_bytes())?;
    if edited.name != old.name {
        return Err(Invalid::new("name", "cannot be changed").remedy("make another rule, and delete this one").into());
    }
    Ok(edited)
}

/// Delete a rule; its open alerts end with it, and nobody is told.
#[utoipa::path(delete, path = "/rules/{name}", tag = "rules",
    params(("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The ETag that was read; another one is refused with 412.")),
    responses((status = 204, description = "it is gone")))]
pub(crate) async fn delete(ask: Ask, Named(name): Named, headers: HeaderMap) -> Answered<StatusCode> {
    ask.caller.require(Role::Admin)?;
    let old = existing(&ask.state, &name).await?;
    check_match(&headers, old.version)?;
    let action = Action::new("rule.delete").before(&RuleBody::from(&old));
    let subject = format!("rule:{name}");
    let tell = move |(): &()| Told::new(subject.clone(), &());
    ask.change(action, tell, |store| async move { store.delete_rule(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
