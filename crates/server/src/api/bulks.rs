//! Bulk operations: what one would change, beginning it, watching it, stopping it.

use super::words::{BulkActionWord, ErrorCodeWord, StateWord};
use super::{Page, Paging};
use crate::auth::Caller;
use crate::change::{Action, Ask, Made, Told};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use punctual_core::bulk::{Bulk, BulkAction, FilterDocument, NewBulk};
use punctual_core::id::BulkId;
use punctual_core::invalid::Invalid;
use punctual_core::job::JobState;
use punctual_core::run::ErrorCode;
use punctual_core::store::Store;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;
use uuid::Uuid;

/// Which jobs, under the names that a list of jobs takes. What is left out does not matter.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BulkFilter)]
pub(crate) struct FilterBody {
    /// In this state.
    #[schema(value_type = Option<StateWord>)]
    state: Option<JobState>,
    /// Of this queue.
    queue: Option<String>,
    /// Of this job type, such as `command` or `task:mail`.
    job_type: Option<String>,
    /// Made by this schedule.
    schedule_id: Option<Uuid>,
    /// Whose run did not complete for this reason; for `retry`.
    #[schema(value_type = Option<ErrorCodeWord>)]
    error_code: Option<ErrorCode>,
    /// With this tag.
    tag: Option<String>,
    /// Of this owner; only an admin can ask for another than his own.
    owner: Option<String>,
    /// Made at this time or later.
    since: Option<Timestamp>,
    /// Made before this time.
    until: Option<Timestamp>,
}

impl FilterBody {
    fn document(&self) -> FilterDocument {
        FilterDocument {
            state: self.state,
            queue: self.queue.clone(),
            job_type: self.job_type.clone(),
            schedule_id: self.schedule_id.map(Into::into),
            error_code: self.error_code,
            tag: self.tag.clone(),
            owner: self.owner.clone(),
            since: self.since.map(super::job_shapes::whole_micros),
            until: self.until.map(super::job_shapes::whole_micros),
        }
    }
}

impl From<FilterDocument> for FilterBody {
    fn from(document: FilterDocument) -> Self {
        let FilterDocument { state, queue, job_type, schedule_id, error_code, tag, owner, since, until } = document;
        let schedule_id = schedule_id.map(|id| id.0);
        Self { state, queue, job_type, schedule_id, error_code, tag, owner, since, until }
    }
}

/// A bulk operation that is asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewBulkOperation, example = json!({ "action": "cancel", "filter": { "queue": "mail" }, "dry_run": true }))]
pub(crate) struct NewBulkBody {
    #[schema(value_type = BulkActionWord)]
    action: BulkAction,
    /// Which jobs; without any field only together with `all`.
    #[serde(default)]
    filter: FilterBody,
    /// That every job is meant, when the filter says nothing.
    #[serde(default)]
    all: bool,
    /// The new priority, for `reprioritise`.
    priority: Option<i32>,
    /// Only say how many jobs would be changed.
    #[serde(default)]
    dry_run: bool,
}

impl NewBulkBody {
    fn into_asked(self, caller: &Caller) -> Result<NewBulk, Invalid> {
        let mut document = self.filter.document();
        if document.is_empty() && !self.all {
            return Err(Invalid::new("filter", "is empty, and would take every job")
                .remedy("say which jobs, or \"all\": true if you mean all of them"));
        }
        document.owner = caller.scope().or(document.owner);
        let by = Some(caller.owner.clone());
        let asked = NewBulk { action: self.action, filter: document.into(), priority: self.priority, by };
        asked.validate()?;
        Ok(asked)
    }
}

/// What a bulk operation would do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BulkPreview)]
pub(crate) struct PreviewBody {
    #[schema(value_type = BulkActionWord)]
    action: BulkAction,
    /// How many jobs would be changed now.
    jobs: u64,
}

/// A bulk operation and how far it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BulkOperation)]
pub(crate) struct BulkBody {
    id: Uuid,
    created_at: Timestamp,
    #[schema(value_type = BulkActionWord)]
    action: BulkAction,
    filter: FilterBody,
    priority: Option<i32>,
    /// Who asked for it.
    by: Option<String>,
    /// `running`, `done` or `cancelled`.
    #[schema(pattern = "^(running|done|cancelled)$")]
    state: &'static str,
    /// How many jobs it has changed.
    done: u64,
    /// How many it found and left alone, because they had moved on by then.
    passed: u64,
    ended_at: Option<Timestamp>,
}

impl From<&Bulk> for BulkBody {
    fn from(bulk: &Bulk) -> Self {
        Self {
            id: bulk.id.0,
            created_at: bulk.created_at,
            action: bulk.asked.action,
            filter: bulk.asked.filter_document().into(),
            priority: bulk.asked.priority,
            by: bulk.asked.by.clone(),
            state: match (bulk.ended_at, bulk.cancelled) {
                (None, _) => "running",
                (Some(_), false) => "done",
                (Some(_), true) => "cancelled",
            },
            done: bulk.done,
            passed: bulk.passed,
            ended_at: bulk.ended_at,
        }
    }
}

fn tell(bulk: &Bulk) -> Told {
    Told::new(format!("bulk:{}", bulk.id), &BulkBody::from(bulk))
}

/// Cancel, retry or reprioritise every job that a filter finds, step by step in the background.
#[utoipa::path(post, path = "/jobs/bulk", tag = "bulk", request_body = NewBulkBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 200, description = "how many jobs it would change", body = PreviewBody),
        (status = 201, description = "it has begun", body = BulkBody)))]
pub(crate) async fn create(ask: Ask, sent: Sent<NewBulkBody>) -> Answered<Response> {
    let dry_run = sent.value.dry_run;
    let asked = sent.value.into_asked(&ask.caller)?;
    if dry_run {
        let jobs = ask.state.store.count_bulk(&asked).await?;
        return Ok(Json(PreviewBody { action: asked.action, jobs }).into_response());
    }
    let begin = |store: Arc<dyn Store>| async move { store.create_bulk(asked).await };
    let made: Made = ask.create(sent.fingerprint, Action::new("job.bulk"), tell, begin).await?;
    Ok(made.found_under("/api/v1/bulk-operations").into_response())
}

/// List bulk operations, latest first. Only an admin sees those about everybody's jobs.
#[utoipa::path(get, path = "/bulk-operations", tag = "bulk", params(Paging),
    responses((status = 200, description = "one page", body = Page<BulkBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<BulkBody>>> {
    let before: Option<BulkId> = cursor::read(List::Bulks, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.bulks(caller.scope().as_deref(), before, limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::Bulks, |row| row.id.to_string(), |row| (&row).into())))
}

/// An operation that the caller may see.
async fn existing(state: &AppState, caller: &Caller, text: &str) -> Answered<Bulk> {
    let none = || Problem::not_found("bulk operation", text);
    let id: BulkId = text.parse().map_err(|_| none())?;
    let found = state.store.bulk(id).await?.filter(|bulk| caller.sees(bulk.asked.filter.owner.as_deref()));
    found.ok_or_else(none)
}

/// Look at one bulk operation.
#[utoipa::path(get, path = "/bulk-operations/{id}", tag = "bulk", params(("id" = Uuid, Path)),
    responses((status = 200, description = "how far it is", body = BulkBody)))]
pub(crate) async fn get(State(state): State<AppState>, caller: Caller, Named(id): Named) -> Answered<Json<BulkBody>> {
    Ok(Json((&existing(&state, &caller, &id).await?).into()))
}

/// Stop a bulk operation; what it has changed stays so.
#[utoipa::path(post, path = "/bulk-operations/{id}/cancel", tag = "bulk", params(("id" = Uuid, Path)),
    responses((status = 200, description = "it changes no more jobs", body = BulkBody)))]
pub(crate) async fn cancel(ask: Ask, Named(id): Named) -> Answered<Json<BulkBody>> {
    let old = existing(&ask.state, &ask.caller, &id).await?;
    let action = Action::new("bulk.cancel").before(&BulkBody::from(&old));
    let key = old.id;
    let now = ask.change(action, tell, |store| async move { store.cancel_bulk(key).await }).await?;
    Ok(Json((&now).into()))
}
