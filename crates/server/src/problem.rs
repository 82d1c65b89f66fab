//! Problems (RFC 9457): one shape for every refusal, with a stable code, the field and what to do.

use crate::settings::BasePath;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual_core::invalid::Invalid;
use punctual_core::store::{StoreError, listed};
use serde::Serialize;
use utoipa::ToSchema;

/// A refusal. Boxed, because it carries its whole explanation and every handler may return one.
#[derive(Debug, Clone)]
pub(crate) struct Problem(Box<ProblemBody>);

/// Why a request was refused (RFC 9457, `application/problem+json`).
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ProblemBody {
    /// Where the code is explained.
    #[serde(rename = "type")]
    kind: String,
    /// The status in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What is wrong, as a word that stays the same.
    code: &'static str,
    /// What is wrong, in words.
    detail: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    /// Which parts of the request are meant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldProblem>,
    /// The request, for whoever looks into the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// After how many seconds trying again may help.
    #[serde(skip)]
    retry_after_secs: Option<u64>,
}

/// What is wrong with one part of a request.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct FieldProblem {
    /// A JSON pointer into the body, or the name of a parameter.
    pub(crate) pointer: String,
    /// What is wrong with it.
    pub(crate) detail: String,
    /// What to do about this part, where that is not said for the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

/// The result of a handler.
pub(crate) type Answered<T> = Result<T, Problem>;

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self(Box::new(ProblemBody {
            kind: format!("/docs#problem-{code}"),
            title: status.canonical_reason().unwrap_or("Problem").to_owned(),
            status: status.as_u16(),
            code,
            detail: detail.into(),
            remedy: None,
            errors: Vec::new(),
            request_id: None,
            retry_after_secs: None,
        }))
    }

    /// The code that stays the same, for whoever goes on after some problems.
    pub(crate) fn code(&self) -> &'static str {
        self.0.code
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy = Some(remedy.into());
        self
    }

    /// Names the part of the request that is meant.
    pub(crate) fn at(mut self, pointer: impl Into<String>) -> Self {
        let detail = self.0.detail.clone();
        self.0.errors.push(FieldProblem { pointer: pointer.into(), detail, remedy: None });
        self
    }

    /// Names all parts that are meant, each with words of its own.
    pub(crate) fn at_all(mut self, parts: Vec<FieldProblem>) -> Self {
        self.0.errors = parts;
        self
    }

    pub(crate) fn retry_after(mut self, secs: u64) -> Self {
        self.0.retry_after_secs = Some(secs);
        self
    }

    pub(crate) fn not_found(what: &str, key: &str) -> Self {
        let key: String = key.chars().take(200).collect();
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {what} `{key}`"))
            .remedy(format!("list the {what}s to see which there are"))
    }

    /// For a server that is found below a path.
    pub(crate) fn below(mut self, base: &BasePath) -> Self {
        self.0.kind.insert_str(0, base.as_str());
        self
    }

    pub(crate) fn with_request(mut self, id: Option<&str>) -> Self {
        self.0.request_id = id.map(str::to_owned);
        self
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let Invalid { field, problem, remedy } = invalid;
        let pointer = format!("/{}", field.replace('.', "/"));
        // Some say in the problem itself what to do.
        let remedy = remedy.or_else(|| Some(format!("change {field} as it says, and send it again")));
        let mut refused = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", format!("{field}: {problem}"));
        refused.0.remedy = remedy;
        refused.0.errors = vec![FieldProblem { pointer, detail: problem, remedy: None }];
        refused
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let words = error.to_string();
        match error {
            StoreError::Invalid(invalid) => invalid.into(),
            StoreError::NotFound { what, key } => Self::not_found(what, &key),
            StoreError::NameTaken { what, name } => {
                Self::new(StatusCode::CONFLICT, "name_taken", format!("a {what} named `{name}` exists already"))
                    .remedy("choose another name, or edit that one")
                    .at("/name")
            }
            StoreError::InUse { what, name, by } => {
                let told = format!("the {what} `{name}` is in use by {}", listed(&by));
                Self::new(StatusCode::CONFLICT, "in_use", told).remedy("take it from them first")
            }
            StoreError::VersionConflict { .. } => Self::new(StatusCode::PRECONDITION_FAILED, "version_conflict", words)
                .remedy("read it again, and send its ETag in If-Match"),
            StoreError::Overtaken { what, name } => {
                let told = format!("the {what} `{name}` was changed by somebody else since this was planned");
                Self::new(StatusCode::CONFLICT, "overtaken", told).remedy("plan again")
            }
            StoreError::ManagedBy { what, name, owner } => {
                let told = format!("the {what} `{name}` is in the manifest of `{owner}`");
                Self::new(StatusCode::CONFLICT, "managed_by_another", told)
                    .remedy("choose another name, or let them take it out first")
            }
            StoreError::WrongState { state, remedy } => {
                Self::new(StatusCode::CONFLICT, "wrong_state", format!("the job is {state}, so this cannot be done"))
                    .remedy(remedy)
            }
            StoreError::LostLease => Self::new(StatusCode::CONFLICT, "lost_lease", words),
            StoreError::Reserved { .. } => {
                Self::new(StatusCode::CONFLICT, "reserved", words).remedy("wait until it is released or expires")
            }
            StoreError::Repeated => Self::new(StatusCode::CONFLICT, "repeated", words).remedy("try again"),
            StoreError::Unavailable(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", words)
                .remedy("try again in a moment")
                .retry_after(1),
            StoreError::Full(_) => Self::new(StatusCode::INSUFFICIENT_STORAGE, "store_full", words)
                .remedy("free some space; it goes on by itself"),
            StoreError::Frozen { .. } => Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_frozen", words)
                .remedy("do as it says, and send it again; nothing was changed")
                .retry_after(5),
            StoreError::SchemaTooNew { .. } | StoreError::Internal(_) => {
                tracing::error!(error = %words, "the store has a fault");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "something went wrong inside Punctual")
                    .remedy("look into the server's log for this request")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&*self.0)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(secs) = self.0.retry_after_secs {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(secs));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.0.request_id.is_none() {
            // Kept beside the body, so that the guard can put the request's id into it.
            response.extensions_mut().insert(self);
        }
        response
    }
}

pub(crate) async fn no_such_path() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no_such_path", "nothing is served here")
        .remedy("see /docs for what there is; the API is under /api/v1")
}

pub(crate) async fn no_such_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this cannot be done here")
        .remedy("the Allow header says what can")
}
