//! Changes in somebody's name: written into the audit log with the change itself, and done once under a key.

use crate::auth::Caller;
use crate::guard::RequestId;
use crate::problem::{Answered, Problem};
use crate::producing::{self, Producing};
use crate::state::AppState;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual_core::access::{Answer, Change, Described, OnceKey, SecretHash};
use punctual_core::json::Json;
use punctual_core::store::{Store, StoreError, StoreResult};
use punctual_core::trace::TraceContext;
use serde::Serialize;
use serde_json::value::RawValue;
use std::future::Future;
use std::sync::Arc;

/// A request that may change something: who asks, in which request, under which key.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) state: AppState,
    pub(crate) caller: Caller,
    request_id: String,
    key: Option<String>,
    /// Where the caller stands in a trace.
    trace: Option<TraceContext>,
}

impl FromRequestParts<AppState> for Ask {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Answered<Self> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let request_id = parts.extensions.get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
        let (key, trace) = (idempotency_key(parts)?, producing::caller_of(&parts.headers));
        Ok(Self { state: state.clone(), caller, request_id, key, trace })
    }
}

pub(crate) fn idempotency_key(parts: &Parts) -> Answered<Option<String>> {
    let Some(given) = parts.headers.get("idempotency-key") else { return Ok(None) };
    let sound = |key: &&str| (1..=255).contains(&key.len()) && key.bytes().all(|b| (0x20..0x7f).contains(&b));
    given.to_str().ok().filter(sound).map(|key| Some(key.to_owned())).ok_or_else(|| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "bad_idempotency_key",
            "the Idempotency-Key is empty, too long or not ASCII",
        )
        .remedy("use 1 to 255 printable ASCII characters, such as a UUID")
        .at("Idempotency-Key")
    })
}

/// What is told about a change that was made.
#[derive(Debug)]
pub(crate) struct Told {
    /// What was changed, such as `schedule:0190…`.
    pub(crate) subject: String,
    /// What it is now, as JSON.
    pub(crate) body: String,
    /// What a repeated request is told, when that is something else.
    pub(crate) on_repeat: Option<String>,
}

impl Told {
    pub(crate) fn new(subject: String, body: &impl Serialize) -> Self {
        Self { subject, body: text_of(body), on_repeat: None }
    }
}

/// A value as JSON text; our own shapes can always be written.
pub(crate) fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

fn json_of(text: &str) -> Option<Json> {
    RawValue::from_string(text.to_owned()).ok().and_then(|raw| Json::from_stored(raw.get().to_owned()).ok())
}

/// What is done, as the audit log calls it, and what it was before.
#[derive(Debug, Default)]
pub(crate) struct Action {
    /// `None` when the thing that is made says by itself who made it.
    pub(crate) name: Option<&'static str>,
    pub(crate) before: Option<String>,
}

impl Action {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name: Some(name), before: None }
    }

    pub(crate) fn before(self, before: &impl Serialize) -> Self {
        Self { before: Some(text_of(before)), ..self }
    }
}

impl Ask {
    /// A change that no token asks for.
    pub(crate) fn of(state: AppState, caller: Caller, RequestId(request_id): RequestId) -> Self {
        Self { state, caller, request_id, key: None, trace: None }
    }

    /// Makes a change; answers with what it came to.
    pub(crate) async fn change<T, V>(
        &self, action: Action, tell: impl Fn(&T) -> Told + Send + Sync + 'static,
        verb: impl FnOnce(Arc<dyn Store>) -> V,
    ) -> Answered<T>
    where
        T: 'static,
        V: Future<Output = StoreResult<T>>,
    {
        Ok(self.try_change(action, tell, verb).await?)
    }

    /// The same for whoever has words of his own for what the store refuses.
    pub(crate) async fn try_change<T, V>(
        &self, action: Action, tell: impl Fn(&T) -> Told + Send + Sync + 'static,
        verb: impl FnOnce(Arc<dyn Store>) -> V,
    ) -> StoreResult<T>
    where
        T: 'static,
        V: Future<Output = StoreResult<T>>,
    {
        verb(self.state.store.recorded(self.noted(&action, None, tell))).await
    }

    /// Begins to make jobs, in the caller's trace.
    pub(crate) fn produce(&self, name: &'static str) -> Producing {
        Producing::begin(&self.state.tracer(), self.trace, name)
    }

    /// Whether the request carries an idempotency key.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Makes something new, once for each idempotency key; answers with 201 and what was made.
    pub(crate) async fn create<T, V>(
        &self, fingerprint: SecretHash, action: Action, tell: impl Fn(&T) -> Told + Clone + Send + Sync + 'static,
        verb: impl FnOnce(Arc<dyn Store>) -> V,
    ) -> Answered<Made>
    where
        T: 'static,
        V: Future<Output = StoreResult<T>>,
    {
        if let Some(made) = self.answered(fingerprint).await? {
            return Ok(made);
        }
        let once = self.key.clone().map(|key| OnceKey { owner: self.caller.owner.clone(), key, fingerprint });
        let store = if once.is_none() && action.name.is_none() {
            Arc::clone(&self.state.store)
        } else {
            self.state.store.recorded(self.noted(&action, once, tell.clone()))
        };
        match verb(store).await {
            Ok(done) => Ok(Made { status: 201, body: tell(&done).body, repeated: false, under: "", etag: None }),
            // Somebody was quicker with the same key: his answer is ours.
            Err(StoreError::Repeated) => self.answered(fingerprint).await?.ok_or_else(|| StoreError::Repeated.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// The answer that was given under this key before.
    pub(crate) async fn answered(&self, fingerprint: SecretHash) -> Answered<Option<Made>> {
        let Some(key) = &self.key else { return Ok(None) };
        let Some(stored) = self.state.store.answer_under(&self.caller.owner, key).await? else { return Ok(None) };
        if stored.fingerprint != fingerprint {
            let told = "the Idempotency-Key was used for another request";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", told)
                .remedy("use a new key for a new request")
                .at("Idempotency-Key"));
        }
        let Answer { status, body } = stored.answer;
        Ok(Some(Made { status, body, repeated: true, under: "", etag: None }))
    }

    fn noted<T: 'static>(
        &self, action: &Action, once: Option<OnceKey>, tell: impl Fn(&T) -> Told + Send + Sync + 'static,
    ) -> Change {
        Change {
            actor: self.caller.owner.clone(),
            token_id: self.caller.token_id,
            action: action.name,
            request_id: Some(self.request_id.clone()),
            before: action.before.as_deref().and_then(json_of),
            once,
            describe: Arc::new(move |done| {
                let Some(done) = done.downcast_ref::<T>() else { return Described::default() };
                let Told { subject, body, on_repeat } = tell(done);
                let kept = on_repeat.unwrap_or_else(|| body.clone());
                Described { subject, after: json_of(&kept), answer: Some(Answer { status: 201, body: kept }) }
            }),
        }
    }
}

/// Something new, or the answer that was given when it was made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) status: u16,
    body: String,
    repeated: bool,
    under: &'static str,
    etag: Option<String>,
}

impl Made {
    /// Something that was made without an idempotency key.
    pub(crate) fn new(body: &impl Serialize) -> Self {
        Self { status: 201, body: text_of(body), repeated: false, under: "", etag: None }
    }

    /// Whether it is the answer to a request that was carried out before.
    pub(crate) fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// The id of what was made.
    pub(crate) fn id(&self) -> Option<uuid::Uuid> {
        serde_json::from_str::<Id>(&self.body).ok().map(|Id { id }| id)
    }

    /// The same, as it is by now.
    pub(crate) fn now(self, body: &impl Serialize) -> Self {
        Self { body: text_of(body), ..self }
    }

    /// The same for something that was there before, and was changed once for each key.
    pub(crate) fn into_changed(self) -> Self {
        Self { status: 200, ..self }
    }

    /// Says where it can be found: under a path, by its id.
    pub(crate) fn found_under(self, path: &'static str) -> Self {
        Self { under: path, ..self }
    }

    /// Says which version it is.
    pub(crate) fn tagged(self, version: i64) -> Self {
        Self { etag: Some(etag(version)), ..self }
    }
}

#[derive(serde::Deserialize)]
struct Id {
    id: uuid::Uuid,
}

/// How a version is written in `ETag` and If-Match.
pub(crate) fn etag(version: i64) -> String {
    format!("\"{version}\"")
}

impl IntoResponse for Made {
    fn into_response(self) -> Response {
        let location = self.id().map(|id| format!("{}/{id}", self.under));
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::CREATED);
        let mut response = (status, [(header::CONTENT_TYPE, "application/json")], self.body).into_response();
        let headers = response.headers_mut();
        let mut put = |name: HeaderName, value: Option<String>| {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
                headers.insert(name, value);
            }
        };
        put(header::LOCATION, location.filter(|_| !self.under.is_empty()));
        put(header::ETAG, self.etag);
        put(HeaderName::from_static("idempotency-replayed"), self.repeated.then(|| "true".to_owned()));
        response
    }
}
