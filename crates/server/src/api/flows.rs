//! Flows: their definitions, and how far a run of one is, step by step.

use super::jobs;
use super::schedules::check_match;
use super::words::{ErrorCodeWord, FlowOrderWord, OnFailureWord, OutcomeWord, RetryDocument, TargetDocument};
use super::{Page, Paging};
use crate::auth::Caller;
use crate::change::{Action, Ask, Told, etag};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use punctual_core::flow::progress::Items;
use punctual_core::flow::{Flow, FlowDefinition, FlowItem, FlowRun, FlowStep, OnFailure, Step, StepOrder};
use punctual_core::invalid::Invalid;
use punctual_core::json::Json as Document;
use punctual_core::name::Name;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::target::Target;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A step of a flow, as the OpenAPI document shows it; `core` reads and writes it.
#[derive(ToSchema)]
#[schema(as = Step)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct StepDocument {
    /// Its name within the flow: letters, digits and `_`.
    #[schema(min_length = 1, max_length = 64)]
    name: String,
    #[schema(value_type = TargetDocument)]
    target: Target,
    /// Any JSON, with values filled in: `{{ input.x }}`, `{{ steps.a.output.y }}`, `{{ item }}`. The flow's own input
    /// when absent.
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Document>,
    /// The steps that must be done before it.
    after: Option<Vec<String>>,
    /// It is skipped unless this is true, such as `steps.a.output.rows > 0`.
    when: Option<String>,
    map: Option<MapDocument>,
    #[schema(value_type = Option<OnFailureWord>)]
    on_failure: Option<OnFailure>,
    /// The flow's own when absent.
    queue: Option<String>,
    /// The flow's own when absent.
    priority: Option<i32>,
    tags: Option<Vec<String>>,
    #[schema(value_type = Option<RetryDocument>)]
    retry: Option<()>,
    /// How long it may run, such as `30s`, or `none`.
    timeout: Option<String>,
    /// The flow's own when absent.
    grant_id: Option<Uuid>,
}

/// A step that is run once for each item of a list.
#[derive(ToSchema)]
#[schema(as = Map)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct MapDocument {
    /// What the list is, such as `steps.a.output.files`.
    over: String,
    /// How many items are under way at once, 1 to 1,000; 100 unless said otherwise.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// A flow that is to be stored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewFlow, example = json!({
    "steps": [
        { "name": "extract", "target": { "kind": "command", "argv": ["extract.sh"] } },
        { "name": "load", "target": { "kind": "command", "argv": ["load.sh"] }, "after": ["extract"],
          "input": { "rows": "{{ steps.extract.output.rows }}" } }] }))]
pub(crate) struct NewFlowBody {
    /// For people.
    description: Option<String>,
    /// `graph`, or `sequential` for one step after the other as they are written.
    #[schema(value_type = Option<FlowOrderWord>)]
    order: Option<StepOrder>,
    #[schema(value_type = Vec<StepDocument>, min_items = 1, max_items = 256)]
    steps: Vec<Step>,
    /// What it returns: any JSON, with values filled in.
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Document>,
}

impl From<NewFlowBody> for FlowDefinition {
    fn from(body: NewFlowBody) -> Self {
        Self {
            description: body.description.unwrap_or_default(),
            order: body.order.unwrap_or(StepOrder::Graph),
            steps: body.steps,
            output: body.output,
        }
    }
}

/// A flow.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Flow)]
pub(crate) struct FlowBody {
    name: String,
    description: String,
    #[schema(value_type = FlowOrderWord)]
    order: StepOrder,
    #[schema(value_type = Vec<StepDocument>)]
    steps: Vec<Step>,
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Document>,
    owner: Option<String>,
    /// Rises with every change; also the `ETag`.
    version: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&Flow> for FlowBody {
    fn from(flow: &Flow) -> Self {
        let Flow { name, version, definition, owner, created_at, updated_at } = flow.clone();
        let FlowDefinition { description, order, steps, output } = definition;
        Self { name: name.to_string(), description, order, steps, output, owner, version, created_at, updated_at }
    }
}

fn tell(flow: &Flow) -> Told {
    Told::new(format!("flow:{}", flow.name), &FlowBody::from(flow))
}

/// A flow that the caller may see.
async fn visible(state: &AppState, caller: &Caller, name: &str) -> Answered<Flow> {
    let none = || Problem::not_found("flow", name).remedy("list the flows; PUT stores one");
    if name.contains('\0') {
        return Err(none());
    }
    let found = state.store.flow(name).await?.filter(|flow| caller.sees(flow.owner.as_deref()));
    found.ok_or_else(none)
}

/// Refuses targets that name a flow which is not there; others' flows are nothing that one could use.
pub(crate) async fn check_target(state: &AppState, caller: &Caller, target: &Target) -> Answered<()> {
    let mut named = Vec::new();
    name_flows(target, "target.", &mut named);
    check_named(state, caller, named).await
}

/// The flows that a target names, each with the field that does.
pub(crate) fn name_flows(target: &Target, at: &str, named: &mut Vec<(String, String)>) {
    let Target::Flow(flow) = target else { return };
    match &flow.definition {
        Some(definition) => name_flows_of_steps(definition, &format!("{at}definition."), named),
        None => named.push((format!("{at}name"), flow.name.clone())),
    }
}

pub(crate) fn name_flows_of_steps(definition: &FlowDefinition, at: &str, named: &mut Vec<(String, String)>) {
    for (n, step) in definition.steps.iter().enumerate() {
        name_flows(&step.target, &format!("{at}steps[{n}].target."), named);
    }
}

async fn check_named(state: &AppState, caller: &Caller, named: Vec<(String, String)>) -> Answered<()> {
    for (field, name) in named {
        let found = state.store.flow(&name).await?;
        if !found.is_some_and(|flow| caller.sees(flow.owner.as_deref())) {
            return Err(no_flow(field, &name).into());
        }
    }
    Ok(())
}

/// The refusal of a name that no flow has.
pub(crate) fn no_flow(field: String, name: &str) -> Invalid {
    Invalid::new(field, format!("there is no flow `{name}`"))
        .remedy("store it first with PUT /flows/NAME, or send its steps in `definition`")
}

/// Store a flow under a name: a new one, or the next version of it. What runs goes on as it began.
#[utoipa::path(put, path = "/flows/{name}", tag = "flows", request_body = NewFlowBody,
    params(("name" = String, Path, description = "what jobs and schedules call it"),
           ("If-Match" = Option<String>, Header, description = "Only if this is its version.")),
    responses((status = 200, description = "the flow as it is now", body = FlowBody)))]
pub(crate) async fn put(
    ask: Ask, headers: HeaderMap, Named(name): Named, sent: Sent<NewFlowBody>,
) -> Answered<Response> {
    let name = Name::new(name)?;
    let definition = FlowDefinition::from(sent.value);
    definition.validate()?;
    let mut named = Vec::new();
    name_flows_of_steps(&definition, "", &mut named);
    // A flow may run itself; how deep that goes is bounded.
    named.retain(|(_, other)| other != name.as_str());
    check_named(&ask.state, &ask.caller, named).await?;
    let was = ask.state.store.flow(name.as_str()).await?.filter(|flow| ask.caller.sees(flow.owner.as_deref()));
    check_match(&headers, was.as_ref().map_or(0, |flow| flow.version))?;
    let if_version = headers.get(header::IF_MATCH).and(was.as_ref()).map(|flow| flow.version);
    let owner = was.as_ref().map_or_else(|| Some(ask.caller.owner.clone()), |flow| flow.owner.clone());
    let action = Action::new("flow.save").before(&was.as_ref().map(FlowBody::from));
    let saved = ask
        .change(action, tell, |store| async move { store.save_flow(name, definition, owner, if_version).await })
        .await?;
    Ok(([(header::ETAG, etag(saved.version))], Json(FlowBody::from(&saved))).into_response())
}

/// List flows, in order of name.
#[utoipa::path(get, path = "/flows", tag = "flows", params(Paging),
    responses((status = 200, description = "one page", body = Page<FlowBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<FlowBody>>> {
    let after: Option<String> = cursor::read(List::Flows, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.flows(caller.scope().as_deref(), after.as_deref(), limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::Flows, |flow| flow.name.to_string(), |flow| FlowBody::from(&flow))))
}

/// Look at one flow.
#[utoipa::path(get, path = "/flows/{name}", tag = "flows", params(("name" = String, Path, description = "its name")),
    responses((status = 200, description = "the flow", body = FlowBody)))]
pub(crate) async fn get(State(state): State<AppState>, caller: Caller, Named(name): Named) -> Answered<Response> {
    let flow = visible(&state, &caller, &name).await?;
    Ok(([(header::ETAG, etag(flow.version))], Json(FlowBody::from(&flow))).into_response())
}

/// Forget a flow that no schedule needs; what runs goes on.
#[utoipa::path(delete, path = "/flows/{name}", tag = "flows", params(("name" = String, Path, description = "its name")),
    responses((status = 204, description = "it is forgotten")))]
pub(crate) async fn delete(ask: Ask, headers: HeaderMap, Named(name): Named) -> Answered<StatusCode> {
    let was = visible(&ask.state, &ask.caller, &name).await?;
    check_match(&headers, was.version)?;
    let action = Action::new("flow.delete").before(&FlowBody::from(&was));
    let subject = format!("flow:{name}");
    let told = move |(): &()| Told::new(subject.clone(), &());
    ask.change(action, told, |store| async move { store.delete_flow(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// How far a flow is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowRun)]
pub(crate) struct FlowRunBody {
    job_id: Uuid,
    started_at: Timestamp,
    /// When it is stopped because it takes too long.
    deadline: Option<Timestamp>,
    /// Why nothing more is started.
    #[schema(value_type = Option<ErrorCodeWord>)]
    stopping: Option<ErrorCode>,
    steps: Vec<FlowStepBody>,
}

/// One step of a flow.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowStep)]
pub(crate) struct FlowStepBody {
    name: String,
    /// `waiting`, `running`, or how it ended.
    state: &'static str,
    after: Vec<String>,
    /// How many of those have not ended.
    waits: u32,
    /// Its latest job.
    job_id: Option<Uuid>,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    #[schema(value_type = Option<OutcomeWord>)]
    outcome: Option<Outcome>,
    #[schema(value_type = Option<ErrorCodeWord>)]
    error_code: Option<ErrorCode>,
    error: Option<String>,
    /// What it returned, if a later step asks for it.
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Document>,
    items: Option<ItemCounts>,
}

/// How far the items of a step are.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ItemCounts {
    total: u32,
    started: u32,
    ended: u32,
    failed: u32,
}

impl From<FlowRun> for FlowRunBody {
    fn from(run: FlowRun) -> Self {
        let before = run.definition.before();
        let names: Vec<String> = run.steps.iter().map(|step| step.name.clone()).collect();
        let after = |n: usize| before[n].iter().map(|other| names[*other].clone()).collect();
        let steps = run.steps.into_iter().enumerate().map(|(n, step)| FlowStepBody::of(step, after(n))).collect();
        Self { job_id: run.job_id.0, started_at: run.started_at, deadline: run.deadline, stopping: run.stopping, steps }
    }
}

impl FlowStepBody {
    fn of(step: FlowStep, after: Vec<String>) -> Self {
        let FlowStep { name, state, started_at, ended_at, output } = step;
        let word = match state.outcome {
            Some(outcome) => outcome.as_str(),
            None if state.started => "running",
            None => "waiting",
        };
        let counts = |Items { total, started, ended, failed }| ItemCounts { total, started, ended, failed };
        Self {
            name,
            state: word,
            after,
            waits: state.waits,
            job_id: state.job_id.map(|id| id.0),
            started_at,
            ended_at,
            outcome: state.outcome,
            error_code: state.error_code,
            error: state.error,
            output,
            items: state.items.map(counts),
        }
    }
}

async fn visible_run(state: &AppState, caller: &Caller, id: &str) -> Answered<FlowRun> {
    let view = jobs::visible(state, caller, id).await?;
    let found = state.store.flow_run(view.job.id).await?;
    found.ok_or_else(|| {
        let (what, remedy) = match view.job.spec.target {
            Target::Flow(_) => {
                ("the flow has not begun", "wait until it is claimed; `GET /jobs/{id}` says what it waits for")
            }
            _ => ("the job is no flow", "ask for its logs instead"),
        };
        Problem::new(StatusCode::NOT_FOUND, "no_steps", what).remedy(remedy)
    })
}

/// Look at a flow that runs or has run, step by step.
#[utoipa::path(get, path = "/jobs/{id}/steps", tag = "flows", params(("id" = Uuid, Path, description = "the flow's job")),
    responses((status = 200, description = "its steps", body = FlowRunBody)))]
pub(crate) async fn steps(
    State(state): State<AppState>, caller: Caller, Named(id): Named,
) -> Answered<Json<FlowRunBody>> {
    Ok(Json(visible_run(&state, &caller, &id).await?.into()))
}

/// An item that a step is run for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowItem)]
pub(crate) struct FlowItemBody {
    /// Its number, from zero.
    item: u32,
    /// Any JSON.
    #[schema(value_type = serde_json::Value)]
    value: Document,
    /// Its latest job.
    job_id: Option<Uuid>,
    #[schema(value_type = Option<OutcomeWord>)]
    outcome: Option<Outcome>,
}

impl From<FlowItem> for FlowItemBody {
    fn from(item: FlowItem) -> Self {
        let FlowItem { item, value, job_id, outcome } = item;
        Self { item, value, job_id: job_id.map(|id| id.0), outcome }
    }
}

/// List the items of a step, in their order.
#[utoipa::path(get, path = "/jobs/{id}/steps/{step}/items", tag = "flows",
    params(("id" = Uuid, Path, description = "the flow's job"), ("step" = String, Path, description = "the step's name"), Paging),
    responses((status = 200, description = "one page", body = Page<FlowItemBody>)))]
pub(crate) async fn items(
    State(state): State<AppState>, caller: Caller, Path((id, step)): Path<(String, String)>,
    Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<FlowItemBody>>> {
    let run = visible_run(&state, &caller, &id).await?;
    let at = run.steps.iter().position(|known| known.name == step);
    let at = at.ok_or_else(|| Problem::not_found("step", &step).remedy("list the steps of the flow"))?;
    let after: Option<u32> = cursor::read(List::FlowItems, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.flow_items(run.job_id, at, after, limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::FlowItems, |item| item.item.to_string(), Into::into)))
}
