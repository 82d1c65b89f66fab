//! Channels: where people are told. Admins make and change them, operators try them, everybody sees which there are.

use super::deliveries::DeliveryBody;
use super::schedules::check_match;
use super::words::{ChannelKindWord, ChannelTargetDocument};
use super::{Page, Paging};
use crate::auth::Caller;
use crate::change::{Action, Ask, Made, Told, etag};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use punctual_core::access::Role;
use punctual_core::invalid::Invalid;
use punctual_core::name::Name;
use punctual_core::notify::channel::{Channel, ChannelDefinition, ChannelKind, ChannelTarget};
use punctual_core::notify::delivery::Delivery;
use punctual_core::secret::Value;
use punctual_core::store::StoreError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A channel that is to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewChannel, example = json!({
    "name": "ops", "target": { "kind": "slack", "url": { "secret": "env:SLACK_URL" } } }))]
pub(crate) struct NewChannelBody {
    /// What rules call it.
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    #[serde(default)]
    description: String,
    /// Whether anything is sent; what comes meanwhile waits. `true` unless said otherwise.
    enabled: Option<bool>,
    /// Where it leads. Secrets are references: `env:NAME` or `file:/PATH` of the nodes.
    #[schema(value_type = ChannelTargetDocument)]
    target: ChannelTarget,
}

impl NewChannelBody {
    /// The definition, if it could work.
    pub(crate) fn into_definition(self) -> Result<ChannelDefinition, Invalid> {
        let Self { name, description, enabled, target } = self;
        let enabled = enabled.unwrap_or(true);
        let definition = ChannelDefinition { name: Name::new(name)?, description, enabled, target };
        definition.validate().map_err(of_the_target)?;
        Ok(definition)
    }
}

/// What a channel is to be instead.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChannelPatch {
    description: Option<String>,
    enabled: Option<bool>,
    /// All of it.
    #[schema(value_type = Option<ChannelTargetDocument>)]
    target: Option<ChannelTarget>,
}

/// A channel.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Channel)]
pub(crate) struct ChannelBody {
    name: String,
    description: String,
    enabled: bool,
    #[schema(value_type = ChannelKindWord)]
    kind: ChannelKind,
    /// Where it leads. An address that is not given by reference is shown as a whole to admins alone.
    #[schema(value_type = ChannelTargetDocument)]
    target: ChannelTarget,
    /// Rises with every edit; also the `ETag`.
    version: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&Channel> for ChannelBody {
    fn from(channel: &Channel) -> Self {
        let Channel { definition, version, created_at, updated_at } = channel.clone();
        Self {
            name: definition.name.to_string(),
            description: definition.description,
            enabled: definition.enabled,
            kind: definition.target.kind(),
            target: definition.target,
            version,
            created_at,
            updated_at,
        }
    }
}

impl ChannelBody {
    /// As the caller may see it: the path of an address is often what lets one in.
    fn for_caller(channel: &Channel, caller: &Caller) -> Self {
        let mut body = Self::from(channel);
        if caller.role < Role::Admin {
            match &mut body.target {
                ChannelTarget::Webhook { url, headers, .. } => {
                    hide_path(url);
                    headers.values_mut().for_each(hide_value);
                }
                ChannelTarget::Slack { url } | ChannelTarget::Ping { url } => hide_path(url),
                ChannelTarget::Email { .. } => {}
            }
        }
        body
    }
}

fn hide_path(url: &mut Value) {
    if let Value::Plain(text) = url {
        let (scheme, rest) = text.split_once("://").unwrap_or(("https", ""));
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default();
        *text = format!("{scheme}://{host}/…");
    }
}

fn hide_value(value: &mut Value) {
    if let Value::Plain(text) = value {
        "…".clone_into(text);
    }
}

fn tell(channel: &Channel) -> Told {
    Told::new(format!("channel:{}", channel.definition.name), &ChannelBody::from(channel))
}

fn shown(channel: &Channel, caller: &Caller) -> Response {
    ([(header::ETAG, etag(channel.version))], Json(ChannelBody::for_caller(channel, caller))).into_response()
}

async fn existing(state: &AppState, name: &str) -> Answered<Channel> {
    state.store.channel(name).await?.ok_or_else(|| Problem::not_found("channel", name))
}

/// The fields of a target stand inside it.
fn of_the_target(refused: Invalid) -> Invalid {
    let field = if refused.field == "description" { refused.field } else { format!("target.{}", refused.field) };
    Invalid { field, ..refused }
}

/// Make a channel.
#[utoipa::path(post, path = "/channels", tag = "channels", request_body = NewChannelBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 201, description = "rules can name it", body = ChannelBody)))]
pub(crate) async fn create(ask: Ask, sent: Sent<NewChannelBody>) -> Answered<Made> {
    ask.caller.require(Role::Admin)?;
    let definition = sent.value.into_definition()?;
    let action = Action::new("channel.create");
    let made =
        ask.create(sent.fingerprint, action, tell, |store| async move { store.create_channel(definition).await });
    Ok(made.await?.tagged(1))
}

/// List channels, in order of name.
#[utoipa::path(get, path = "/channels", tag = "channels", params(Paging),
    responses((status = 200, description = "one page", body = Page<ChannelBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<ChannelBody>>> {
    let after: Option<String> = cursor::read(List::Channels, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.channels(after.as_deref(), limit + 1).await?;
    let shape = |row: Channel| ChannelBody::for_caller(&row, &caller);
    Ok(Json(Page::of_rows(rows, limit, List::Channels, |row| row.definition.name.to_string(), shape)))
}

/// Look at one channel.
#[utoipa::path(get, path = "/channels/{name}", tag = "channels", params(("name" = String, Path)),
    responses((status = 200, description = "the channel; its ETag is its version", body = ChannelBody)))]
pub(crate) async fn get(State(state): State<AppState>, caller: Caller, Named(name): Named) -> Answered<Response> {
    Ok(shown(&existing(&state, &name).await?, &caller))
}

/// Edit a channel: what is sent replaces what was, the rest stays. What waits in its line is sent by what it says now.
#[utoipa::path(patch, path = "/channels/{name}", tag = "channels",
    params(("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The ETag that was read; another one is refused with 412.")),
    request_body = ChannelPatch,
    responses((status = 200, description = "the channel as it is now", body = ChannelBody)))]
pub(crate) async fn patch(
    ask: Ask, Named(name): Named, headers: HeaderMap, sent: Sent<ChannelPatch>,
) -> Answered<Response> {
    ask.caller.require(Role::Admin)?;
    let old = existing(&ask.state, &name).await?;
    check_match(&headers, old.version)?;
    let was = old.definition.clone();
    let definition = ChannelDefinition {
        name: was.name,
        description: sent.value.description.unwrap_or(was.description),
        enabled: sent.value.enabled.unwrap_or(was.enabled),
        target: sent.value.target.unwrap_or(was.target),
    };
    definition.validate().map_err(of_the_target)?;
    let action = Action::new("channel.update").before(&ChannelBody::from(&old));
    let now = ask.change(action, tell, |store| async move {
        store.update_channel_if_version(old.definition.name.as_str(), old.version, definition).await
    });
    Ok(shown(&now.await?, &ask.caller))
}

/// Delete a channel that no rule names; what waits in its line is dropped.
#[utoipa::path(delete, path = "/channels/{name}", tag = "channels",
    params(("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The ETag that was read; another one is refused with 412.")),
    responses((status = 204, description = "it is gone")))]
pub(crate) async fn delete(ask: Ask, Named(name): Named, headers: HeaderMap) -> Answered<StatusCode> {
    ask.caller.require(Role::Admin)?;
    let old = existing(&ask.state, &name).await?;
    check_match(&headers, old.version)?;
    let action = Action::new("channel.delete").before(&ChannelBody::from(&old));
    let subject = format!("channel:{name}");
    let tell = move |(): &()| Told::new(subject.clone(), &());
    let deleted = ask.try_change(action, tell, |store| async move { store.delete_channel(&name).await });
    match deleted.await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(error @ StoreError::InUse { .. }) => {
            Err(Problem::from(error).remedy("take it out of these rules first, or delete them"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Try a channel: a message that says that it is a test is put into its line. Look at the delivery for what came of it.
#[utoipa::path(post, path = "/channels/{name}/test", tag = "channels", params(("name" = String, Path)),
    responses((status = 202, description = "it is in the line", body = DeliveryBody)))]
pub(crate) async fn test(ask: Ask, Named(name): Named) -> Answered<(StatusCode, Json<DeliveryBody>)> {
    let tell = |delivery: &Delivery| Told::new(format!("delivery:{}", delivery.id), &DeliveryBody::from(delivery));
    let action = Action::new("channel.test");
    let delivery = ask.change(action, tell, |store| async move { store.test_channel(&name).await }).await?;
    Ok((StatusCode::ACCEPTED, Json((&delivery).into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n01_the_path_of_an_address_is_hidden_and_a_reference_is_not() {
        for (url, seen) in [
            ("https://hooks.example/services/T0/secret", "https://hooks.example/…"),
            ("http://a.example:8080?token=secret", "http://a.example:8080/…"),
            ("https://user:secret@a.example/x", "https://a.example/…"),
        ] {
            let mut value = Value::from(url);
            hide_path(&mut value);
            assert_eq!(value, Value::from(seen));
        }
        let mut reference: Value = serde_json::from_str(r#"{"secret":"env:SLACK_URL"}"#).unwrap();
        let was = reference.clone();
        hide_path(&mut reference);
        hide_value(&mut reference);
        assert_eq!(reference, was);
    }
}
