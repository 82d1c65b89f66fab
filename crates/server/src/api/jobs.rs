//! Jobs and runs: make, list, look at, cancel, retry, move, edit.

use super::job_shapes::{ArtifactBody, JobBody, LogLineBody, NewJobBody, RunBody, ScheduleNames};
use super::words::{ErrorCodeWord, StateWord};
use super::{Page, Paging};
use crate::auth::Caller;
use crate::change::{Action, Ask, Made, Told};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::producing::Producing;
use crate::state::AppState;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use punctual_core::access::{Role, retry_by_hand};
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::invalid::Invalid;
use punctual_core::job::{Job, JobState, JobView, NewJob, Origin};
use punctual_core::order::Move;
use punctual_core::readings::{JobFilter, JobsIn};
use punctual_core::run::ErrorCode;
use punctual_core::store::Cancelled;
use punctual_core::trace::SpanValue;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// The most jobs of one batch.
const BATCH_MAX: usize = 1_000;

/// Make a job.
#[utoipa::path(post, path = "/jobs", tag = "jobs", request_body = NewJobBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h."),
        ("traceparent" = Option<String>, Header, description = "The caller's place in a trace; kept with the job.")),
    responses((status = 201, description = "it is in its queue, or waits for its time", body = JobBody)))]
pub(crate) async fn create(ask: Ask, sent: Sent<NewJobBody>) -> Answered<Made> {
    let mut producing = ask.produce("enqueue");
    let spec = spec_of(&ask, sent.value, &producing).await?;
    producing.tell("punctual.job.kind", spec.target.kind());
    producing.tell("punctual.queue", spec.queue.as_str());
    if spec.job_key.is_some() || spec.unique.is_some() {
        let made = create_keyed(&ask, vec![spec]).await?;
        return Ok(Made::new(&made.first()).found_under("/api/v1/jobs"));
    }
    let kept = spec.clone();
    let tell = move |ids: &Vec<JobId>| match ids.first() {
        Some(id) => Told::new(format!("job:{id}"), &JobBody::made(*id, &kept, &Origin::default())),
        None => Told::new("job".to_owned(), &()),
    };
    // A job says by itself whose it is, and is never changed: the audit log need not repeat it.
    let action = Action::default();
    let made = ask.create(sent.fingerprint, action, tell, |store| async move { store.enqueue_jobs(vec![spec]).await });
    Ok(made.await?.found_under("/api/v1/jobs"))
}

/// Several jobs that are made together.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJobs {
    /// 1 to 1,000 jobs.
    #[schema(min_items = 1, max_items = 1000)]
    jobs: Vec<NewJobBody>,
}

/// Several jobs that were made together.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MadeJobs {
    items: Vec<JobBody>,
}

/// Make several jobs, all or none, in the order given.
#[utoipa::path(post, path = "/jobs/batch", tag = "jobs", request_body = NewJobs,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h."),
        ("traceparent" = Option<String>, Header, description = "The caller's place in a trace; kept with the job.")),
    responses((status = 201, description = "all were made", body = MadeJobs)))]
pub(crate) async fn create_batch(ask: Ask, sent: Sent<NewJobs>) -> Answered<Made> {
    if !(1..=BATCH_MAX).contains(&sent.value.jobs.len()) {
        return Err(Invalid::new("jobs", "are none, or more than 1,000").remedy("send several batches").into());
    }
    let mut producing = ask.produce("enqueue batch");
    let mut specs = Vec::with_capacity(sent.value.jobs.len());
    for job in sent.value.jobs {
        specs.push(spec_of(&ask, job, &producing).await?);
    }
    producing.tell("punctual.jobs", SpanValue::Number(i64::try_from(specs.len()).unwrap_or(i64::MAX)));
    if specs.iter().any(|spec| spec.job_key.is_some() || spec.unique.is_some()) {
        return Ok(Made::new(&MadeJobs { items: create_keyed(&ask, specs).await? }));
    }
    let kept = specs.clone();
    let tell = move |ids: &Vec<JobId>| {
        let items = ids.iter().zip(&kept).map(|(id, spec)| JobBody::made(*id, spec, &Origin::default())).collect();
        Told::new("jobs".to_owned(), &MadeJobs { items })
    };
    ask.create(sent.fingerprint, Action::default(), tell, |store| async move { store.enqueue_jobs(specs).await }).await
}

async fn spec_of(ask: &Ask, body: NewJobBody, producing: &Producing) -> Answered<NewJob> {
    let (name, given) = (body.template.as_deref(), body.parameters.as_ref());
    let template = super::templates::job_of(&ask.state, name, given, body.input.is_some()).await?;
    let mut spec = body.into_spec(template, &ask.caller)?;
    spec.trace_context = spec.trace_context.or_else(|| producing.trace_context());
    super::grants::check_named(&ask.state, spec.owner.as_deref(), &spec.target, spec.grant_id).await?;
    super::flows::check_target(&ask.state, &ask.caller, &spec.target).await?;
    Ok(spec)
}

/// Jobs of which some have a key or are unique: what becomes of them depends on who is there already, so they are read
/// afterwards.
async fn create_keyed(ask: &Ask, specs: Vec<NewJob>) -> Answered<Vec<JobBody>> {
    if ask.has_key() {
        return Err(Invalid::new("job_key", "or unique is given beside an Idempotency-Key, and does the same already")
            .remedy("send one of the two")
            .into());
    }
    let unique: Vec<bool> = specs.iter().map(|spec| spec.unique.is_some()).collect();
    let mut items = Vec::new();
    for (enqueued, unique) in ask.state.store.enqueue_once(specs).await?.into_iter().zip(unique) {
        let id = enqueued.id;
        let view = ask.state.store.job(id).await?.ok_or_else(|| Problem::not_found("job", &id.to_string()))?;
        let body = shown_one(&ask.state, view).await?;
        items.push(if unique { body.found(!enqueued.is_new) } else { body });
    }
    Ok(items)
}

/// Jobs as they are shown; the names of their schedules are one look for all of them.
pub(crate) async fn shown(state: &AppState, views: Vec<JobView>) -> Answered<Vec<JobBody>> {
    let names = schedule_names(state, views.iter().map(|view| &view.job)).await?;
    Ok(views.into_iter().map(|view| JobBody::of_view(view, &names)).collect())
}

/// One job as it is shown.
pub(crate) async fn shown_one(state: &AppState, view: JobView) -> Answered<JobBody> {
    let names = schedule_names(state, std::iter::once(&view.job)).await?;
    Ok(JobBody::of_view(view, &names))
}

/// The names of the schedules of some jobs.
pub(crate) async fn schedule_names(state: &AppState, jobs: impl Iterator<Item = &Job>) -> Answered<ScheduleNames> {
    let ids: Vec<ScheduleId> = jobs.filter_map(|job| job.schedule_id).collect::<BTreeSet<_>>().into_iter().collect();
    if ids.is_empty() {
        return Ok(ScheduleNames::new());
    }
    Ok(state.store.schedule_names(&ids).await?)
}

/// Which jobs, and where in the list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct JobsAsked {
    /// In this state.
    #[param(value_type = Option<StateWord>)]
    state: Option<JobState>,
    /// Of this queue.
    queue: Option<String>,
    /// Of this job type, such as `command` or `task:mail`.
    job_type: Option<String>,
    /// Made by this schedule.
    schedule_id: Option<Uuid>,
    /// Whose run did not complete for this reason.
    #[param(value_type = Option<ErrorCodeWord>)]
    error_code: Option<ErrorCode>,
    /// With this tag.
    tag: Option<String>,
    /// Of this owner; only an admin can ask for another than his own.
    owner: Option<String>,
    /// Made at this time or later.
    since: Option<Timestamp>,
    /// Made before this time.
    until: Option<Timestamp>,
    /// How many, 1 to 500; 50 unless said otherwise.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

impl JobsAsked {
    fn filter(&self, caller: &Caller) -> Answered<JobFilter> {
        let texts = [&self.queue, &self.job_type, &self.tag, &self.owner];
        if texts.into_iter().flatten().any(|text| text.contains('\0')) {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "bad_query", "a parameter holds NUL").remedy("remove it"));
        }
        Ok(JobFilter {
            place: self.state.map_or(JobsIn::Anywhere, JobsIn::State),
            queue: self.queue.clone(),
            job_type: self.job_type.clone(),
            schedule_id: self.schedule_id.map(ScheduleId),
            error_code: self.error_code,
            tag: self.tag.clone(),
            owner: caller.scope().or_else(|| self.owner.clone()),
            since: self.since,
            until: self.until,
        })
    }
}

/// List jobs, latest made first.
#[utoipa::path(get, path = "/jobs", tag = "jobs", params(JobsAsked),
    responses((status = 200, description = "one page", body = Page<JobBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<JobsAsked>,
) -> Answered<Json<Page<JobBody>>> {
    let page = read_page(&state, &asked.filter(&caller)?, asked.cursor.as_deref(), asked.limit).await?;
    Ok(Json(Page::new(shown(&state, page.items).await?, List::Jobs, page.next.as_ref())))
}

/// A page of jobs.
pub(crate) async fn read_page(
    state: &AppState, filter: &JobFilter, cursor: Option<&str>, limit: Option<u32>,
) -> Answered<punctual_core::readings::Page<JobView, JobId>> {
    let before = cursor::read(List::Jobs, cursor)?;
    Ok(state.store.jobs_by(filter, before, page_size(limit)?).await?)
}

/// List runs that have ended, of the jobs made latest first.
#[utoipa::path(get, path = "/runs", tag = "runs", params(JobsAsked),
    responses((status = 200, description = "one page", body = Page<JobBody>)))]
pub(crate) async fn list_runs(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<JobsAsked>,
) -> Answered<Json<Page<JobBody>>> {
    let mut filter = asked.filter(&caller)?;
    if filter.place == JobsIn::Anywhere {
        filter.place = JobsIn::Ended;
    }
    let page = read_page(&state, &filter, asked.cursor.as_deref(), asked.limit).await?;
    Ok(Json(Page::new(shown(&state, page.items).await?, List::Jobs, page.next.as_ref())))
}

/// A job that the caller may see.
pub(crate) async fn visible(state: &AppState, caller: &Caller, text: &str) -> Answered<JobView> {
    let id: JobId = text.parse().map_err(|_| Problem::not_found("job", text))?;
    let found = state.store.job(id).await?.filter(|view| caller.sees(view.job.spec.owner.as_deref()));
    found.ok_or_else(|| Problem::not_found("job", text))
}

/// Look at one job, with its run.
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs", params(("id" = Uuid, Path)),
    responses((status = 200, description = "the job", body = JobBody)))]
pub(crate) async fn get(State(state): State<AppState>, caller: Caller, Named(id): Named) -> Answered<Json<JobBody>> {
    let view = visible(&state, &caller, &id).await?;
    let why = super::waiting::reason(&state, &view).await?;
    let link = state.store.flow_link(view.job.id).await?;
    Ok(Json(shown_one(&state, view).await?.waiting_for(why).in_flow(link)))
}

/// The last job of a chain: the job itself, or the latest of its retries.
#[utoipa::path(get, path = "/jobs/{id}/chain-end", tag = "jobs", params(("id" = Uuid, Path)),
    responses((status = 200, description = "the last job", body = JobBody)))]
pub(crate) async fn chain_end(
    State(state): State<AppState>, caller: Caller, Named(id): Named,
) -> Answered<Json<JobBody>> {
    let view = visible(&state, &caller, &id).await?;
    let last = state.store.chain_end(view.job.id).await?;
    Ok(Json(shown_one(&state, last.unwrap_or(view)).await?))
}

/// Look at one run.
#[utoipa::path(get, path = "/runs/{id}", tag = "runs", params(("id" = Uuid, Path)),
    responses((status = 200, description = "the run", body = RunBody)))]
pub(crate) async fn get_run(
    State(state): State<AppState>, caller: Caller, Named(id): Named,
) -> Answered<Json<RunBody>> {
    let view = visible(&state, &caller, &id).await?;
    RunBody::of(&view).map(Json).ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, "not_found", format!("the job {id} has not begun to run"))
            .remedy("look at the job to see where it is")
    })
}

/// The artifacts of a run, in the order in which they came.
#[utoipa::path(get, path = "/jobs/{id}/artifacts", tag = "jobs", params(("id" = Uuid, Path)),
    responses((status = 200, description = "all of them", body = Page<ArtifactBody>)))]
pub(crate) async fn artifacts(
    State(state): State<AppState>, caller: Caller, Named(id): Named, Asked(_all): Asked<Paging>,
) -> Answered<Json<Page<ArtifactBody>>> {
    let view = visible(&state, &caller, &id).await?;
    let artifacts = state.store.artifacts(view.job.id).await?;
    Ok(Json(Page::new(artifacts.into_iter().map(Into::into).collect(), List::Jobs, None::<&String>)))
}

/// Which lines of a log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogAsked {
    /// Only lines behind this number.
    after: Option<u64>,
    /// How many, 1 to 500; 50 unless said otherwise.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The log of a run, line by line. To follow a run that goes on, ask again behind the last number.
#[utoipa::path(get, path = "/jobs/{id}/logs", tag = "jobs", params(("id" = Uuid, Path), LogAsked),
    responses((status = 200, description = "one page", body = Page<LogLineBody>)))]
pub(crate) async fn logs(
    State(state): State<AppState>, caller: Caller, Named(id): Named, Asked(asked): Asked<LogAsked>,
) -> Answered<Json<Page<LogLineBody>>> {
    let view = visible(&state, &caller, &id).await?;
    let limit = page_size(asked.limit)?;
    let after = cursor::read(List::Lines, asked.cursor.as_deref())?.or(asked.after).unwrap_or(0);
    if i64::try_from(after).is_err() {
        return Err(Invalid::new("after", "is beyond every line").remedy("give the number of a line").into());
    }
    let lines = state.store.run_log(view.job.id, after, limit + 1).await?;
    Ok(Json(Page::of_rows(lines, limit, List::Lines, |line| line.sequence.to_string(), Into::into)))
}

/// The contents of an artifact, by its place in the list, from 1.
#[utoipa::path(get, path = "/jobs/{id}/artifacts/{number}", tag = "jobs", params(("id" = Uuid, Path), ("number" = u32, Path)),
    responses((status = 200, description = "the file", body = Vec<u8>, content_type = "application/octet-stream")))]
pub(crate) async fn artifact(
    State(state): State<AppState>, caller: Caller, Path((id, number)): Path<(String, String)>,
) -> Answered<Response> {
    let view = visible(&state, &caller, &id).await?;
    let none = || Problem::not_found("artifact", &number);
    let place: u32 = number.parse().map_err(|_| none())?;
    let contents = state.store.artifact_contents(view.job.id, u64::from(place)).await?.ok_or_else(none)?;
    // Whatever a run has written is kept from being shown as a page of this server.
    let headers = [(header::CONTENT_TYPE, "application/octet-stream"), (header::CONTENT_DISPOSITION, "attachment")];
    Ok((headers, contents).into_response())
}

/// What became of a job that was to be stopped.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CancelledBody {
    /// `before_start`: it will never run. `requested`: its node stops it.
    #[schema(pattern = "^(before_start|requested)$")]
    cancelled: &'static str,
}

/// Stop a job: one that waits never runs, one that runs is told to stop.
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs", params(("id" = Uuid, Path)),
    responses((status = 200, description = "it is or will be stopped", body = CancelledBody)))]
pub(crate) async fn cancel(ask: Ask, Named(id): Named) -> Answered<Json<CancelledBody>> {
    let view = visible(&ask.state, &ask.caller, &id).await?;
    let (job, state) = (view.job.id, view.state());
    let word = |done: &Cancelled| match done {
        Cancelled::BeforeStart => "before_start",
        Cancelled::Requested => "requested",
    };
    let action = Action::new("job.cancel").before(&serde_json::json!({ "state": state }));
    let tell = move |done: &Cancelled| Told::new(format!("job:{job}"), &CancelledBody { cancelled: word(done) });
    let done = ask.change(action, tell, |store| async move { store.cancel_job(job).await }).await?;
    Ok(Json(CancelledBody { cancelled: word(&done) }))
}

/// Try a job again that failed or was cancelled: a new job at the end of its chain.
#[utoipa::path(post, path = "/jobs/{id}/retry", tag = "jobs",
    params(("id" = Uuid, Path), ("Idempotency-Key" = Option<String>, Header, description = "Done once for each key.")),
    responses((status = 201, description = "the new job", body = JobBody)))]
pub(crate) async fn retry(ask: Ask, Named(id): Named) -> Answered<Made> {
    let view = visible(&ask.state, &ask.caller, &id).await?;
    let job = view.job.id;
    let by = Some(ask.caller.owner.clone());
    let planned = view.run().and_then(|run| retry_by_hand(&view.job, run, by.clone()).ok());
    let name = schedule_names(&ask.state, std::iter::once(&view.job)).await?.into_values().next();
    let tell = move |made: &JobId| match &planned {
        Some((spec, origin)) => {
            Told::new(format!("job:{made}"), &JobBody::made(*made, spec, origin).named(name.clone()))
        }
        None => Told::new(format!("job:{made}"), &serde_json::json!({ "id": made })),
    };
    let action = Action::new("job.retry").before(&serde_json::json!({ "retry_of": job }));
    let fingerprint = crate::secret::fingerprint(&[b"retry", id.as_bytes()]);
    let made =
        ask.create(fingerprint, action, tell, |store| async move { store.retry_job_if_ended(job, by).await }).await?;
    Ok(made.found_under("/api/v1/jobs"))
}

/// Where a queued job is to go: exactly one of these.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "to": "front" }))]
pub(crate) struct MoveBody {
    /// Directly before this job of the same queue.
    before: Option<Uuid>,
    /// Directly behind this job of the same queue.
    after: Option<Uuid>,
    /// `front` or `back` of its priority.
    #[schema(pattern = "^(front|back)$")]
    to: Option<String>,
    /// To the back of another priority.
    priority: Option<i32>,
}

impl MoveBody {
    fn target(self) -> Result<Move, Invalid> {
        let one = || Invalid::new("to", "exactly one of before, after, to and priority must be given");
        match (self.before, self.after, self.to.as_deref(), self.priority) {
            (Some(id), None, None, None) => Ok(Move::Before(JobId(id))),
            (None, Some(id), None, None) => Ok(Move::After(JobId(id))),
            (None, None, Some("front"), None) => Ok(Move::ToFront),
            (None, None, Some("back"), None) => Ok(Move::ToBack),
            (None, None, None, Some(priority)) => Ok(Move::ToPriority(priority)),
            _ => Err(one().remedy("give one; `to` is front or back")),
        }
    }
}

/// Move a queued job.
#[utoipa::path(post, path = "/jobs/{id}/move", tag = "jobs", params(("id" = Uuid, Path)), request_body = MoveBody,
    responses((status = 200, description = "the job at its new place", body = JobBody)))]
pub(crate) async fn move_to(ask: Ask, Named(id): Named, sent: Sent<MoveBody>) -> Answered<Json<JobBody>> {
    let to = sent.value.target()?;
    let view = visible(&ask.state, &ask.caller, &id).await?;
    if let Move::Before(other) | Move::After(other) = to {
        visible(&ask.state, &ask.caller, &other.to_string()).await?;
    }
    let job = view.job.id;
    let words = format!("{to:?}");
    let tell = move |_: &punctual_core::order::Place| {
        Told::new(format!("job:{job}"), &serde_json::json!({ "id": job, "moved": words }))
    };
    ask.change(Action::new("job.move"), tell, |store| async move { store.move_job_if_queued(job, to).await }).await?;
    Ok(Json(shown_one(&ask.state, visible(&ask.state, &ask.caller, &id).await?).await?))
}

/// A job's new input.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditBody {
    /// Any JSON.
    #[schema(value_type = serde_json::Value)]
    input: punctual_core::json::Json,
}

/// Change the input of a job that has not begun: a new job takes its exact place, and the old one is closed.
#[utoipa::path(patch, path = "/jobs/{id}", tag = "jobs", params(("id" = Uuid, Path)), request_body = EditBody,
    responses((status = 200, description = "the new job", body = JobBody)))]
pub(crate) async fn edit(ask: Ask, Named(id): Named, sent: Sent<EditBody>) -> Answered<Json<JobBody>> {
    ask.caller.require(Role::Operator)?;
    let view = visible(&ask.state, &ask.caller, &id).await?;
    let (job, input) = (view.job.id, sent.value.input);
    let action = Action::new("job.edit").before(&serde_json::json!({ "id": job, "input": view.job.spec.input }));
    let kept = input.clone();
    let tell = move |made: &JobId| Told::new(format!("job:{job}"), &serde_json::json!({ "id": made, "input": kept }));
    let made = ask.change(action, tell, |store| async move { store.edit_job_if_queued(job, input).await }).await?;
    Ok(Json(shown_one(&ask.state, visible(&ask.state, &ask.caller, &made.to_string()).await?).await?))
}
