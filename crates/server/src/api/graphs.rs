//! Graphs for users: which there are, and running one as a job under a grant (A19).

use super::Page;
use super::grants::{check_named, only_fitting};
use super::job_shapes::{JobBody, given};
use super::words::RetryDocument;
use crate::auth::Caller;
use crate::change::{Action, Ask, Told};
use crate::cursor::List;
use crate::extract::{Asked, MaybeSent, Named, window};
use crate::problem::Answered;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use jiff::SignedDuration;
use punctual_core::graph::GraphId;
use punctual_core::id::{GrantId, JobId};
use punctual_core::job::{JobView, NewJob, Origin, Timeout};
use punctual_core::json::Json as Document;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::Trigger;
use punctual_core::target::{Graph, Target};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};

/// The longest that a request waits for a run.
const WAIT_MAX: SignedDuration = SignedDuration::from_secs(60);

/// How often a run that is waited for is looked at, at least.
const LOOK: Duration = Duration::from_millis(250);

/// A graph that a provider of this server has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Graph)]
pub(crate) struct GraphBody {
    /// What it is run by: `provider:name`.
    id: String,
    provider: String,
    /// Its name there; `*` for all graphs of a provider that could not be asked for their names.
    name: String,
    /// Why it could not be asked.
    problem: Option<String>,
}

impl GraphBody {
    fn new(provider: &str, name: String, problem: Option<String>) -> Self {
        Self { id: format!("{provider}:{name}"), provider: provider.to_owned(), name, problem }
    }
}

/// List the graphs of this server's providers.
#[utoipa::path(get, path = "/graphs", tag = "graphs",
    responses((status = 200, description = "all of them", body = Page<GraphBody>)))]
pub(crate) async fn list(State(state): State<AppState>, _caller: Caller) -> Answered<Json<Page<GraphBody>>> {
    let mut items = Vec::new();
    for provider in state.shared.graphs.all() {
        match provider.graphs().await {
            Ok(names) => items.extend(names.into_iter().map(|name| GraphBody::new(provider.provider(), name, None))),
            Err(unknown) => items.push(GraphBody::new(provider.provider(), "*".to_owned(), Some(unknown.0))),
        }
    }
    Ok(Json(Page::new(items, List::Jobs, None::<&String>)))
}

/// A run of a graph that is asked for.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewGraphRun, example = json!({ "input": { "day": "2026-11-01" } }))]
pub(crate) struct NewGraphRunBody {
    /// What the graph is given: any JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(default, deserialize_with = "given")]
    input: Option<Document>,
    /// The grant it runs under; the caller's only fitting one when absent.
    #[schema(value_type = Option<Uuid>)]
    grant_id: Option<GrantId>,
    /// Its queue; `default` unless said otherwise.
    queue: Option<String>,
    /// Larger goes first.
    priority: Option<i32>,
    /// How it is tried again.
    #[schema(value_type = Option<RetryDocument>)]
    retry: Option<RetryPolicy>,
    /// How long it may run, such as `30s`, or `none`.
    #[schema(value_type = Option<String>)]
    timeout: Option<Timeout>,
}

/// Whether to wait for the end.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunAsked {
    /// Answer when the run has ended, or after this time, such as `30s`; at most a minute.
    wait: Option<String>,
}

/// Run a graph: a job with a graph as its target, under a grant.
#[utoipa::path(post, path = "/graphs/{graph_id}/runs", tag = "graphs",
    params(("graph_id" = String, Path, description = "provider:name"), RunAsked,
        ("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    request_body = NewGraphRunBody,
    responses((status = 201, description = "the job, as far as it has come", body = JobBody)))]
pub(crate) async fn run(
    ask: Ask, Named(graph): Named, Asked(asked): Asked<RunAsked>, sent: MaybeSent<NewGraphRunBody>,
) -> Answered<Response> {
    let wait = asked.wait.as_deref().map(|text| window(Some(text), WAIT_MAX)).transpose()?;
    let graph: GraphId = graph.parse()?;
    if ask.state.shared.graphs.of(&graph).is_none() {
        return Err(ask.state.shared.graphs.unknown(&graph));
    }
    let spec = spec_of(&ask, &graph, sent.value).await?;
    let kept = spec.clone();
    let tell = move |ids: &Vec<JobId>| match ids.first() {
        Some(id) => Told::new(format!("job:{id}"), &JobBody::made(*id, &kept, &Origin::default())),
        None => Told::new("job".to_owned(), &()),
    };
    let enqueue =
        |store: std::sync::Arc<dyn punctual_core::store::Store>| async move { store.enqueue_jobs(vec![spec]).await };
    let made = ask.create(sent.fingerprint, Action::default(), tell, enqueue).await?;
    let mut response = made.found_under("/api/v1/jobs");
    if let (Some(wait), Some(id)) = (wait, response.id())
        && let Some(view) = ended(&ask.state, JobId(id), wait.min(WAIT_MAX)).await?
    {
        response = response.now(&super::jobs::shown_one(&ask.state, view).await?);
    }
    Ok(response.into_response())
}

async fn spec_of(ask: &Ask, graph: &GraphId, body: NewGraphRunBody) -> Answered<NewJob> {
    let grant = match body.grant_id {
        Some(grant) => grant,
        None => only_fitting(ask, &graph.to_string()).await?,
    };
    let usual = NewJob::new(Target::Graph(Graph { id: graph.to_string() }));
    let spec = NewJob {
        input: body.input.unwrap_or(usual.input),
        queue: body.queue.unwrap_or(usual.queue),
        priority: body.priority.unwrap_or(usual.priority),
        retry: body.retry.unwrap_or(usual.retry),
        timeout: body.timeout.unwrap_or(usual.timeout),
        grant_id: Some(grant),
        trigger: Trigger::Api,
        owner: Some(ask.caller.owner.clone()),
        ..usual
    };
    spec.validate()?;
    check_named(&ask.state, spec.owner.as_deref(), &spec.target, spec.grant_id).await?;
    Ok(spec)
}

/// The last job of a chain, when it has ended within a time, or as it is then.
async fn ended(state: &AppState, id: JobId, wait: SignedDuration) -> Answered<Option<JobView>> {
    let patience = Duration::try_from(wait).unwrap_or_default();
    let until = tokio::time::Instant::now() + patience;
    let mut ends = state.store.ends();
    loop {
        let view = state.store.chain_end(id).await?;
        let over = view.as_ref().is_none_or(|view| view.state().is_terminal());
        if over || tokio::time::Instant::now() >= until {
            return Ok(view);
        }
        let next = (tokio::time::Instant::now() + LOOK).min(until);
        // Ends on other nodes may never be told.
        let _heard = tokio::time::timeout_at(next, ends.next()).await;
    }
}
