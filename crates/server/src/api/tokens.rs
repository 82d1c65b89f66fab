//! API tokens: make, list, revoke; for admins.

use super::words::RoleWord;
use super::{Page, Paging};
use crate::auth::{Caller, no_chance};
use crate::change::{Action, Ask, Made, Told, text_of};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::secret::Secret;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use punctual_core::access::{NewToken, Role, Token};
use punctual_core::id::TokenId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A token that is to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewToken, example = json!({ "name": "ci", "owner": "ci", "role": "operator" }))]
pub(crate) struct NewTokenBody {
    /// For people.
    name: String,
    /// Whose it is: what is made with it belongs to the owner, and a token that is not an admin's sees nothing else.
    owner: String,
    #[schema(value_type = RoleWord)]
    role: Role,
    /// Until when it is valid.
    expires_at: Option<Timestamp>,
}

/// A token; its secret is shown once, when it is made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Token)]
pub(crate) struct TokenBody {
    id: Uuid,
    /// What the secret begins with, so that it can be told from others.
    prefix: String,
    name: String,
    owner: String,
    #[schema(value_type = RoleWord)]
    role: Role,
    expires_at: Option<Timestamp>,
    created_at: Timestamp,
    revoked_at: Option<Timestamp>,
    /// To the minute.
    last_used_at: Option<Timestamp>,
    /// Shown once; null ever after, also to a repeated request.
    secret: Option<String>,
}

impl From<&Token> for TokenBody {
    fn from(token: &Token) -> Self {
        let NewToken { prefix, name, owner, role, expires_at, .. } = token.token.clone();
        Self {
            id: token.id.0,
            prefix: format!("{}{prefix}", crate::secret::TOKEN_MARK),
            name,
            owner,
            role,
            expires_at,
            created_at: token.created_at,
            revoked_at: token.revoked_at,
            last_used_at: token.last_used_at,
            secret: None,
        }
    }
}

/// Make a token. Its secret is in the answer, and nowhere else.
#[utoipa::path(post, path = "/tokens", tag = "tokens", request_body = NewTokenBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; the secret is not told twice.")),
    responses((status = 201, description = "the token with its secret", body = TokenBody)))]
pub(crate) async fn create(ask: Ask, sent: Sent<NewTokenBody>) -> Answered<Made> {
    ask.caller.require(Role::Admin)?;
    let secret = Secret::new_token().map_err(|error| Problem::from(no_chance(error)))?;
    let NewTokenBody { name, owner, role, expires_at } = sent.value;
    let prefix = secret.prefix().unwrap_or_default().to_owned();
    let token = NewToken { prefix, hash: secret.hash(), name, owner, role, expires_at };
    token.validate()?;
    let tell = move |made: &Token| {
        let shown = TokenBody { secret: Some(secret.reveal().to_owned()), ..TokenBody::from(made) };
        let on_repeat = Some(text_of(&TokenBody::from(made)));
        Told { subject: format!("token:{}", made.id), body: text_of(&shown), on_repeat }
    };
    let action = Action::new("token.create");
    ask.create(sent.fingerprint, action, tell, |store| async move { store.create_token(token).await }).await
}

/// List tokens, latest made first.
#[utoipa::path(get, path = "/tokens", tag = "tokens", params(Paging),
    responses((status = 200, description = "one page", body = Page<TokenBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<TokenBody>>> {
    caller.require(Role::Admin)?;
    let before: Option<TokenId> = cursor::read(List::Tokens, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.tokens(before, limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::Tokens, |row| row.id.to_string(), |row| (&row).into())))
}

/// Revoke a token, and end the sessions that were opened with it.
#[utoipa::path(delete, path = "/tokens/{id}", tag = "tokens", params(("id" = Uuid, Path)),
    responses((status = 204, description = "it is not valid any more")))]
pub(crate) async fn revoke(ask: Ask, Named(id): Named) -> Answered<StatusCode> {
    ask.caller.require(Role::Admin)?;
    let key: TokenId = id.parse().map_err(|_| Problem::not_found("token", &id))?;
    let tell = |token: &Token| Told::new(format!("token:{}", token.id), &TokenBody::from(token));
    let revoke = |store: std::sync::Arc<dyn punctual_core::store::Store>| async move { store.revoke_token(key).await };
    let revoked = ask.change(Action::new("token.revoke"), tell, revoke).await?;
    ask.state.shared.believed.forget(&revoked.token.prefix);
    Ok(StatusCode::NO_CONTENT)
}
