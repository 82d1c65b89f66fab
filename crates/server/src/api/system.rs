//! The whole: nodes, figures, and what was done by whom.

use super::Page;
use super::queues::CountBody;
use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::extract::{Asked, page_size, window};
use crate::problem::Answered;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use punctual_core::access::{AuditRow, Role};
use punctual_core::freeze::Freeze;
use punctual_core::id::{AuditId, NodeId};
use punctual_core::readings::NodeRow;
use punctual_core::run::Outcome;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// Which nodes, and where in the list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct NodesAsked {
    /// Also those that have left or were lost.
    all: Option<bool>,
    /// How many, 1 to 500; 50 unless said otherwise.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// A node: one process.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Node)]
pub(crate) struct NodeBody {
    id: Uuid,
    name: String,
    /// The job types it can run.
    offers: Vec<String>,
    /// Whether it holds a lease.
    alive: bool,
    started_at: Timestamp,
    left_at: Option<Timestamp>,
    lost_at: Option<Timestamp>,
    /// How often it has renewed its lease.
    heartbeats: Option<i64>,
    running: CountBody,
}

impl From<NodeRow> for NodeBody {
    fn from(row: NodeRow) -> Self {
        Self {
            id: row.id.0,
            name: row.name,
            offers: row.offers,
            alive: row.heartbeats.is_some(),
            started_at: row.started_at,
            left_at: row.left_at,
            lost_at: row.lost_at,
            heartbeats: row.heartbeats,
            running: row.running.into(),
        }
    }
}

/// List nodes, latest started first.
#[utoipa::path(get, path = "/nodes", tag = "system", params(NodesAsked),
    responses((status = 200, description = "one page", body = Page<NodeBody>)))]
pub(crate) async fn nodes(
    State(state): State<AppState>, Asked(asked): Asked<NodesAsked>,
) -> Answered<Json<Page<NodeBody>>> {
    let before: Option<NodeId> = cursor::read(List::Nodes, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.nodes(!asked.all.unwrap_or(false), before, limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::Nodes, |row| row.id.to_string(), Into::into)))
}

/// How far back runs are counted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StatsAsked {
    /// Such as `24h`; `1h` unless said otherwise.
    #[param(example = "24h")]
    window: Option<String>,
}

/// Figures of the whole. Nothing big is counted to its end: `more` says that there are more.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stats {
    waiting: CountBody,
    scheduled: CountBody,
    queued: CountBody,
    running: CountBody,
    /// Runs that ended within the window.
    ended: EndedStats,
    schedules: ScheduleStats,
    /// Nodes that hold a lease.
    nodes: u64,
    /// The freeze that is in force: while there is one, some or all writing is refused.
    frozen: Option<FreezeBody>,
    now: Timestamp,
}

/// A freeze of the store.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FreezeBody {
    /// `starts`: nothing is fired or claimed. `writes`: nothing is written.
    #[schema(example = "starts")]
    level: &'static str,
    /// Why, and what to do about it.
    why: String,
    since: Timestamp,
}

impl From<Freeze> for FreezeBody {
    fn from(freeze: Freeze) -> Self {
        Self { level: freeze.level.as_str(), why: freeze.why, since: freeze.since }
    }
}

/// How runs ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndedStats {
    completed: u64,
    failed: u64,
    skipped: u64,
    cancelled: u64,
    /// Whether there are more; then these are the latest.
    more: bool,
    since: Timestamp,
}

/// How schedules are.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScheduleStats {
    total: CountBody,
    paused: u64,
    failing: u64,
    with_problem: u64,
}

/// Figures of the whole.
#[utoipa::path(get, path = "/stats", tag = "system", params(StatsAsked),
    responses((status = 200, description = "the figures", body = Stats)))]
pub(crate) async fn stats(State(state): State<AppState>, Asked(asked): Asked<StatsAsked>) -> Answered<Json<Stats>> {
    let window = window(asked.window.as_deref(), SignedDuration::from_hours(1))?;
    let now = state.store.now().await?;
    let since = now.saturating_sub(window).unwrap_or(Timestamp::MIN);
    let found = state.store.stats(since).await?;
    let ended = |outcome| found.ended.get(&outcome).copied().unwrap_or(0);
    Ok(Json(Stats {
        waiting: found.waiting.into(),
        scheduled: found.scheduled.into(),
        queued: found.queued.into(),
        running: found.running.into(),
        ended: EndedStats {
            completed: ended(Outcome::Completed),
            failed: ended(Outcome::Failed),
            skipped: ended(Outcome::Skipped),
            cancelled: ended(Outcome::Cancelled),
            more: found.more_ended,
            since,
        },
        schedules: ScheduleStats {
            total: found.schedules.into(),
            paused: found.paused,
            failing: found.failing,
            with_problem: found.with_problem,
        },
        nodes: found.nodes,
        frozen: state.store.frozen().await?.map(FreezeBody::from),
        now,
    }))
}

/// Which rows of the audit log, and where in it.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditAsked {
    /// Only what was done to this, such as `schedule:0190…`.
    subject: Option<String>,
    /// How many, 1 to 500; 50 unless said otherwise.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// One change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub(crate) struct AuditBody {
    id: Uuid,
    at: Timestamp,
    /// Who.
    actor: String,
    token_id: Option<Uuid>,
    /// What, such as `schedule.pause`.
    action: String,
    /// To what.
    subject: String,
    request_id: Option<String>,
    #[schema(value_type = Option<serde_json::Value>)]
    before: Option<punctual_core::json::Json>,
    #[schema(value_type = Option<serde_json::Value>)]
    after: Option<punctual_core::json::Json>,
}

impl From<AuditRow> for AuditBody {
    fn from(row: AuditRow) -> Self {
        let AuditRow { id, at, actor, token_id, action, subject, request_id, before, after } = row;
        Self { id: id.0, at, actor, token_id: token_id.map(|id| id.0), action, subject, request_id, before, after }
    }
}

/// What was done by whom, latest first; for admins.
#[utoipa::path(get, path = "/audit", tag = "system", params(AuditAsked),
    responses((status = 200, description = "one page", body = Page<AuditBody>)))]
pub(crate) async fn audit(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<AuditAsked>,
) -> Answered<Json<Page<AuditBody>>> {
    caller.require(Role::Admin)?;
    let before: Option<AuditId> = cursor::read(List::Audit, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let subject = asked.subject.filter(|subject| !subject.contains('\0'));
    let rows = state.store.audit_log(subject.as_deref(), before, limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::Audit, |row| row.id.to_string(), Into::into)))
}
