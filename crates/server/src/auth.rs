//! Who asks: tokens and sessions, roles, owners, and the protection of cookies.

use crate::Peer;
use crate::extract::Sent;
use crate::problem::{Answered, Problem};
use crate::secret::{self, Secret};
use crate::state::AppState;
use axum::Json;
use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use punctual_core::access::{NewToken, Role, Token};
use punctual_core::id::TokenId;
use punctual_core::store::{Store, StoreError, StoreResult};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use utoipa::ToSchema;

/// How long a token that was found valid is believed without asking again: what a revocation takes to be felt by
/// another server on the same store.
const BELIEVED_FOR: Duration = Duration::from_secs(1);

/// Who owns the first token, and what is made by a program in its own process.
const ADMIN: &str = "admin";

/// How many tokens are believed at once.
const BELIEVED_MAX: usize = 1_000;

/// Whoever asks.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// `None` when it is a program that has the store itself open.
    pub(crate) token_id: Option<TokenId>,
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) role: Role,
    /// The secret of the cookie, when a browser asks.
    session: Option<String>,
}

impl Caller {
    fn of(token: Token, session: Option<String>) -> Self {
        let NewToken { name, owner, role, .. } = token.token;
        Self { token_id: Some(token.id), name, owner, role, session }
    }

    /// Whoever has the store open in his own process, and so could change it without asking.
    pub(crate) fn in_process() -> Self {
        let (name, owner) = ("command line".to_owned(), ADMIN.to_owned());
        Self { token_id: None, name, owner, role: Role::Admin, session: None }
    }

    /// Whoever was sent a link; what it leads to is all he may do.
    pub(crate) fn by_link() -> Self {
        let (name, owner) = ("link".to_owned(), "link".to_owned());
        Self { token_id: None, name, owner, role: Role::Viewer, session: None }
    }

    /// Whose things he sees: everybody's when `None`.
    pub(crate) fn scope(&self) -> Option<String> {
        (self.role != Role::Admin).then(|| self.owner.clone())
    }

    /// Whether something of an owner is there for him.
    pub(crate) fn sees(&self, owner: Option<&str>) -> bool {
        self.role == Role::Admin || owner == Some(&self.owner)
    }

    pub(crate) fn require(&self, role: Role) -> Answered<()> {
        if self.role >= role {
            return Ok(());
        }
        let told = format!("this needs the role {role}, and the token has {}", self.role);
        Err(Problem::new(StatusCode::FORBIDDEN, "role_too_low", told)
            .remedy(format!("ask an admin for a token with the role {role}")))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answered<Self> {
        parts.extensions.get::<Self>().cloned().ok_or_else(not_authenticated)
    }
}

/// Tokens that were found valid a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Believed(Mutex<HashMap<String, (Token, Instant)>>);

impl Believed {
    fn get(&self, prefix: &str) -> Option<Token> {
        let believed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        believed.get(prefix).filter(|(_, since)| since.elapsed() < BELIEVED_FOR).map(|(token, _)| token.clone())
    }

    fn put(&self, token: &Token) {
        let mut believed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if believed.len() >= BELIEVED_MAX {
            believed.retain(|_, (_, since)| since.elapsed() < BELIEVED_FOR);
        }
        believed.insert(token.token.prefix.clone(), (token.clone(), Instant::now()));
    }

    pub(crate) fn forget(&self, prefix: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(prefix);
    }
}

/// Lets only those in who may do what they ask for: looking needs a viewer, everything else an operator.
pub(crate) async fn authenticate(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    // Put there by this process; nothing that is sent can do so.
    if request.extensions().get::<Caller>().is_some() {
        return next.run(request).await;
    }
    let admitted = admit(&state, request.headers(), request.method(), address(request.extensions())).await;
    let needed = if is_change(&request) { Role::Operator } else { Role::Viewer };
    match admitted.and_then(|caller| caller.require(needed).map(|()| caller)) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

async fn admit(state: &AppState, headers: &HeaderMap, method: &Method, from: Option<IpAddr>) -> Answered<Caller> {
    let Some(caller) = identify(state, headers).await? else {
        from.map_or(Ok(()), |from| state.shared.limits.stranger(from))?;
        return Err(not_authenticated());
    };
    caller.token_id.map_or(Ok(()), |id| state.shared.limits.token(id.0))?;
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(caller);
    }
    if let Some(session) = &caller.session {
        let given = headers.get("x-csrf-token").and_then(|token| token.to_str().ok()).unwrap_or_default();
        if !secret::same_text(given, &secret::csrf_of(session)) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "csrf",
                "a change by cookie needs the session's CSRF token",
            )
            .remedy("send csrf_token of GET /api/v1/session in the header X-CSRF-Token"));
        }
    }
    Ok(caller)
}

/// Whether a request asks for a change that concerns others: whoever logs out ends nothing but the own session, and a
/// plan changes nothing at all.
fn is_change(request: &Request) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD)
        && !matches!(request.uri().path(), "/session" | "/manifest/plan")
}

/// Where a request came from; nowhere when it was made in this process.
pub(crate) struct Address(pub(crate) Option<IpAddr>);

impl<S: Sync> FromRequestParts<S> for Address {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(address(&parts.extensions)))
    }
}

pub(crate) fn address(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<Peer>>().map(|ConnectInfo(Peer(from))| from.ip())
}

async fn identify(state: &AppState, headers: &HeaderMap) -> Answered<Option<Caller>> {
    if let Some(given) = bearer(headers) {
        return Ok(valid_token(state, given).await?.map(|token| Caller::of(token, None)));
    }
    let Some(secret) = cookie(state, headers) else { return Ok(None) };
    let Some(session) = state.store.session(secret::hash(&secret)).await? else { return Ok(None) };
    let now = state.store.now().await?;
    let valid = now < session.expires_at && session.token.is_valid(now);
    Ok(valid.then(|| Caller::of(session.token, Some(secret))))
}

pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The token whose secret this is, if it is valid. Unknown, revoked and expired ones are told alike.
pub(crate) async fn valid_token(state: &AppState, given: &str) -> Answered<Option<Token>> {
    let prefix = secret::prefix_of(given).unwrap_or("none");
    let hash = secret::hash(given);
    if let Some(token) = state.shared.believed.get(prefix) {
        return Ok(secret::same(&hash, &token.token.hash).then_some(token));
    }
    let found = state.store.token_by_prefix(prefix).await?;
    // Compared also when there is none, so that the time tells nothing.
    let expected = found.as_ref().map_or([0; 32], |token| token.token.hash);
    let same = secret::same(&hash, &expected);
    let now = state.store.now().await?;
    let Some(token) = found.filter(|token| same && token.is_valid(now)) else { return Ok(None) };
    match state.store.touch_token(token.id).await {
        // Whoever may read a frozen store may do so although his visit cannot be noted.
        Ok(()) | Err(StoreError::Frozen { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    state.shared.believed.put(&token);
    Ok(Some(token))
}

fn not_authenticated() -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "not_authenticated", "the token is missing, unknown, revoked or expired")
        .remedy("send Authorization: Bearer with a valid token, or log in")
}

fn cookie_name(state: &AppState) -> &'static str {
    // With a prefix a browser accepts it over https only; and with the first one from this host and for all of it only.
    match (state.shared.settings.https, state.shared.settings.base_path.as_str()) {
        (true, "") => "__Host-punctual_session",
        (true, _) => "__Secure-punctual_session",
        (false, _) => "punctual_session",
    }
}

fn cookie(state: &AppState, headers: &HeaderMap) -> Option<String> {
    let name = cookie_name(state);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
}

/// What a browser sends to log in.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    /// An API token.
    token: String,
}

/// Who is logged in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionBody {
    /// Whose things are seen and made.
    owner: String,
    /// The token's name.
    token_name: String,
    /// What the token allows.
    #[schema(value_type = crate::api::words::RoleWord)]
    role: Role,
    /// What changes by cookie must carry in `X-CSRF-Token`; absent when a token was sent.
    csrf_token: Option<String>,
}

impl From<&Caller> for SessionBody {
    fn from(caller: &Caller) -> Self {
        Self {
            owner: caller.owner.clone(),
            token_name: caller.name.clone(),
            role: caller.role,
            csrf_token: caller.session.as_deref().map(secret::csrf_of),
        }
    }
}

/// Log a browser in: a session cookie for a token.
#[utoipa::path(post, path = "/session", tag = "session", request_body = Login, security(()),
    responses((status = 200, description = "logged in; the cookie is set", body = SessionBody)))]
pub(crate) async fn log_in(
    State(state): State<AppState>, Address(from): Address, Sent { value, .. }: Sent<Login>,
) -> Answered<Response> {
    let Some(token) = valid_token(&state, value.token.trim()).await? else {
        from.map_or(Ok(()), |from| state.shared.limits.stranger(from))?;
        return Err(not_authenticated());
    };
    let secret = Secret::new_session().map_err(|error| Problem::from(no_chance(error)))?;
    let lasts = state.shared.settings.session_for;
    let until = state.store.now().await?.saturating_add(lasts).unwrap_or(Timestamp::MAX);
    state.store.create_session(secret.hash(), token.id, until).await?;
    let caller = Caller::of(token, Some(secret.reveal().to_owned()));
    let set = set_cookie(&state, secret.reveal(), lasts.as_secs())?;
    Ok(([(header::SET_COOKIE, set)], Json(SessionBody::from(&caller))).into_response())
}

/// Who asks, and what a browser needs to make changes.
#[utoipa::path(get, path = "/session", tag = "session", responses((status = 200, description = "who asks", body = SessionBody)))]
pub(crate) async fn who_am_i(caller: Caller) -> Json<SessionBody> {
    Json(SessionBody::from(&caller))
}

/// Log out.
#[utoipa::path(delete, path = "/session", tag = "session", responses((status = 204, description = "logged out")))]
pub(crate) async fn log_out(State(state): State<AppState>, caller: Caller) -> Answered<Response> {
    if let Some(session) = &caller.session {
        state.store.end_session(secret::hash(session)).await?;
    }
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, set_cookie(&state, "", 0)?)]).into_response())
}

fn set_cookie(state: &AppState, secret: &str, secs: i64) -> Answered<HeaderValue> {
    let secure = if state.shared.settings.https { "; Secure" } else { "" };
    let name = cookie_name(state);
    // Other programs on the same host, beside the base path, do not get it.
    let path = Some(state.shared.settings.base_path.as_str()).filter(|path| !path.is_empty()).unwrap_or("/");
    let text = format!("{name}={secret}; Path={path}; HttpOnly; SameSite=Strict; Max-Age={secs}{secure}");
    HeaderValue::from_str(&text).map_err(|_| StoreError::Internal("a cookie could not be written".into()).into())
}

pub(crate) fn no_chance(error: getrandom::Error) -> StoreError {
    StoreError::Internal(format!("the system gives no random bytes: {error}"))
}

/// Makes the first token of a store, an admin's, and tells its secret; `None` when there are tokens already.
pub async fn first_admin_token(store: &dyn Store) -> StoreResult<Option<Secret>> {
    let secret = Secret::new_token().map_err(no_chance)?;
    let token = NewToken {
        prefix: secret.prefix().unwrap_or_default().to_owned(),
        hash: secret.hash(),
        name: "first admin token".to_owned(),
        owner: ADMIN.to_owned(),
        role: Role::Admin,
        expires_at: None,
    };
    Ok(store.create_token_if_none(token).await?.map(|_| secret))
}

/// The link that logs a browser in. The secret stands behind the `#`, which browsers send to nobody.
pub fn login_link(base_url: &str, secret: &Secret) -> String {
    format!("{}/#token={}", base_url.trim_end_matches('/'), secret.reveal())
}
