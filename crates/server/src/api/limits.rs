//! Limits: how many jobs run at once and how many start in a while. They are shared: operators set them for everybody.

use super::{Page, Paging};
use crate::change::{Action, Ask, Told};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use punctual_core::duration::text;
use punctual_core::limits::{Limit, LimitRow, LimitSubject, Rate};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How many jobs start in a while: a bucket of tokens that holds `burst` and gets `jobs` of them evenly in every `per`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Rate, example = json!({ "jobs": 10, "per": "1m", "burst": 10 }))]
pub(crate) struct RateBody {
    /// So many.
    #[schema(minimum = 1, maximum = 1_000_000)]
    jobs: u32,
    /// In such a time, such as `1m`; up to 31 days.
    #[schema(value_type = String)]
    #[serde(with = "text")]
    per: SignedDuration,
    /// So many at once after a quiet time; as many as `jobs` unless said otherwise.
    #[schema(minimum = 1, maximum = 1_000_000)]
    burst: Option<u32>,
}

impl RateBody {
    pub(crate) fn into_rate(self) -> Rate {
        Rate { jobs: self.jobs, per: self.per, burst: self.burst.unwrap_or(self.jobs) }
    }

    pub(crate) fn of(rate: Rate) -> Self {
        Self { jobs: rate.jobs, per: rate.per, burst: Some(rate.burst) }
    }
}

/// What may not be exceeded; at least one of the three.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewLimit, example = json!({ "concurrency": 2 }))]
pub(crate) struct NewLimitBody {
    /// So many at once, on all nodes together; 0 lets none start.
    #[schema(maximum = 1_000_000)]
    concurrency: Option<u32>,
    /// So many at once on each node; 0 lets none start.
    #[schema(maximum = 1_000_000)]
    node_concurrency: Option<u32>,
    /// So many starts in a while, on all nodes together.
    rate: Option<RateBody>,
}

impl NewLimitBody {
    pub(crate) fn on(self, subject: LimitSubject) -> Limit {
        let rate = self.rate.map(RateBody::into_rate);
        Limit { subject, concurrency: self.concurrency, node_concurrency: self.node_concurrency, rate }
    }
}

/// A limit.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Limit)]
pub(crate) struct LimitBody {
    /// What it counts: `all`, `queue:NAME`, `type:NAME` or `tag:NAME`.
    subject: String,
    concurrency: Option<u32>,
    node_concurrency: Option<u32>,
    rate: Option<RateBody>,
    /// How many of its jobs run.
    running: u64,
    /// How many may start at once as far as the rate goes.
    tokens: Option<u32>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<LimitRow> for LimitBody {
    fn from(row: LimitRow) -> Self {
        let Limit { subject, concurrency, node_concurrency, rate } = row.limit;
        Self {
            subject: subject.to_string(),
            concurrency,
            node_concurrency,
            rate: rate.map(|Rate { jobs, per, burst }| RateBody { jobs, per, burst: Some(burst) }),
            running: row.running,
            tokens: row.tokens,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// List limits, in order of what they count.
#[utoipa::path(get, path = "/limits", tag = "limits", params(Paging),
    responses((status = 200, description = "one page", body = Page<LimitBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<LimitBody>>> {
    let after: Option<LimitSubject> = cursor::read(List::Limits, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.limits(after.as_ref(), limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::Limits, |row| row.limit.subject.to_string(), Into::into)))
}

async fn existing(state: &AppState, name: &str) -> Answered<LimitRow> {
    let subject: LimitSubject = name.parse()?;
    let none = || Problem::not_found("limit", name).remedy("list the limits; PUT sets one");
    state.store.limit(&subject).await?.ok_or_else(none)
}

/// Look at one limit.
#[utoipa::path(get, path = "/limits/{subject}", tag = "limits",
    params(("subject" = String, Path, description = "`all`, `queue:NAME`, `type:NAME` or `tag:NAME`")),
    responses((status = 200, description = "the limit", body = LimitBody)))]
pub(crate) async fn get(State(state): State<AppState>, Named(subject): Named) -> Answered<Json<LimitBody>> {
    Ok(Json(existing(&state, &subject).await?.into()))
}

/// Set a limit. It counts what runs and what waits already.
#[utoipa::path(put, path = "/limits/{subject}", tag = "limits", request_body = NewLimitBody,
    params(("subject" = String, Path, description = "`all`, `queue:NAME`, `type:NAME` or `tag:NAME`")),
    responses((status = 200, description = "the limit as it is now", body = LimitBody)))]
pub(crate) async fn put(ask: Ask, Named(subject): Named, sent: Sent<NewLimitBody>) -> Answered<Json<LimitBody>> {
    let limit = sent.value.on(subject.parse()?);
    Ok(Json(set(&ask, limit).await?.into()))
}

/// Sets a limit in the caller's name.
async fn set(ask: &Ask, limit: Limit) -> Answered<LimitRow> {
    let was = ask.state.store.limit(&limit.subject).await?.map(LimitBody::from);
    let action = Action::new("limit.set").before(&was);
    let tell = |row: &LimitRow| Told::new(format!("limit:{}", row.limit.subject), &LimitBody::from(row.clone()));
    ask.change(action, tell, |store| async move { store.set_limit(limit).await }).await
}

/// Remove a limit: what it kept back starts.
#[utoipa::path(delete, path = "/limits/{subject}", tag = "limits",
    params(("subject" = String, Path, description = "`all`, `queue:NAME`, `type:NAME` or `tag:NAME`")),
    responses((status = 204, description = "it is removed")))]
pub(crate) async fn remove(ask: Ask, Named(subject): Named) -> Answered<StatusCode> {
    let was = existing(&ask.state, &subject).await?;
    unset(&ask, was).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn unset(ask: &Ask, was: LimitRow) -> Answered<()> {
    let subject = was.limit.subject.clone();
    let named = format!("limit:{subject}");
    let action = Action::new("limit.remove").before(&LimitBody::from(was));
    let tell = move |(): &()| Told::new(named.clone(), &());
    ask.change(action, tell, |store| async move { store.remove_limit(&subject).await }).await
}

/// Sets how many jobs of a queue run at once, or lets any number; what else its limit says stays.
pub(crate) async fn set_queue_concurrency(ask: &Ask, queue: &str, concurrency: Option<u32>) -> Answered<()> {
    let subject = LimitSubject::Queue(queue.to_owned());
    let was = ask.state.store.limit(&subject).await?;
    let limit = Limit { concurrency, ..was.as_ref().map_or_else(|| Limit::on(subject), |was| was.limit.clone()) };
    match was {
        Some(was) if limit.bounds_nothing() => unset(ask, was).await,
        None if limit.bounds_nothing() => Ok(()),
        _ => set(ask, limit).await.map(drop),
    }
}
