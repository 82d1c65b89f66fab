//! Templates: named jobs to begin with. They are shared: everybody may use one.

use super::job_shapes::NewJobBody;
use super::words::ParameterDocument;
use super::{Page, Paging};
use crate::auth::Caller;
use crate::change::{Action, Ask, Made, Told};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use punctual_core::invalid::Invalid;
use punctual_core::job::NewJob;
use punctual_core::name::Name;
use punctual_core::template::{Parameter, Template, fill};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use uuid::Uuid;

/// A template that is to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTemplate {
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// What jobs made from it look like.
    job: NewJobBody,
    /// Fields of the input that whoever uses it fills in.
    #[schema(value_type = Option<Vec<ParameterDocument>>)]
    #[serde(default)]
    parameters: Vec<Parameter>,
}

/// A template.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Template)]
pub(crate) struct TemplateBody {
    id: Uuid,
    name: String,
    /// What jobs made from it look like.
    #[schema(value_type = serde_json::Value)]
    job: NewJob,
    #[schema(value_type = Vec<ParameterDocument>)]
    parameters: Vec<Parameter>,
    created_at: Timestamp,
}

impl From<Template> for TemplateBody {
    fn from(template: Template) -> Self {
        let Template { id, name, job, parameters, created_at } = template;
        Self { id: id.0, name: name.to_string(), job, parameters, created_at }
    }
}

/// What was given for a template's parameters, by name.
pub(crate) type Given = BTreeMap<String, punctual_core::json::Json>;

/// The job of a template that a body names, its parameters filled in. `has_input` says whether an input is given as well.
pub(crate) async fn job_of(
    state: &AppState, name: Option<&str>, given: Option<&Given>, has_input: bool,
) -> Answered<Option<NewJob>> {
    let Some(name) = name else {
        return match given {
            None => Ok(None),
            Some(_) => Err(Invalid::new("parameters", "are given without template").remedy("name the template").into()),
        };
    };
    if name.contains('\0') {
        return Err(no_template(name).into());
    }
    let template = state.store.template(name).await?.ok_or_else(|| no_template(name))?;
    let job = filled(template.job, &template.parameters, given, has_input)?;
    Ok(Some(NewJob { template_id: Some(template.id), ..job }))
}

/// The refusal of a name that no template has.
pub(crate) fn no_template(name: &str) -> Invalid {
    Invalid::new("template", format!("there is no template `{name}`")).remedy("list the templates")
}

/// The job of a template with its parameters filled in.
pub(crate) fn filled(
    job: NewJob, parameters: &[Parameter], given: Option<&Given>, has_input: bool,
) -> Result<NewJob, Invalid> {
    if has_input && (given.is_some() || !parameters.is_empty()) {
        return Err(Invalid::new("input", "is made of the template's parameters").remedy("give parameters instead"));
    }
    let nothing = Given::new();
    let input = fill(&job.input, parameters, given.unwrap_or(&nothing))?;
    Ok(NewJob { input, ..job })
}

impl NewTemplate {
    /// What jobs made from it look like, and what is filled in.
    pub(crate) fn into_job(self, caller: &Caller) -> Result<(NewJob, Vec<Parameter>), Invalid> {
        let Self { name: _, job, parameters } = self;
        if job.template.is_some() || job.parameters.is_some() {
            return Err(Invalid::new("job.template", "a template is not made from another").remedy("leave it out"));
        }
        let at_job = |refused: Invalid| Invalid { field: format!("job.{}", refused.field), ..refused };
        let job = job.into_spec(None, caller).map_err(at_job)?;
        Ok((NewJob { owner: None, job_key: None, ..job }, parameters))
    }
}

/// Make a template.
#[utoipa::path(post, path = "/templates", tag = "templates", request_body = NewTemplate,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 201, description = "it can be used", body = TemplateBody)))]
pub(crate) async fn create(ask: Ask, sent: Sent<NewTemplate>) -> Answered<Made> {
    let name = Name::new(sent.value.name.clone())?;
    let (job, parameters) = sent.value.into_job(&ask.caller)?;
    let tell = |made: &Template| Told::new(format!("template:{}", made.name), &TemplateBody::from(made.clone()));
    let made = ask.create(sent.fingerprint, Action::new("template.create"), tell, |store| async move {
        store.create_template(name, job, parameters).await
    });
    made.await
}

/// List templates, in order of name.
#[utoipa::path(get, path = "/templates", tag = "templates", params(Paging),
    responses((status = 200, description = "one page", body = Page<TemplateBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<TemplateBody>>> {
    let after: Option<String> = cursor::read(List::Templates, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.templates(after.as_deref(), limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::Templates, |row| row.name.to_string(), Into::into)))
}

/// Look at one template.
#[utoipa::path(get, path = "/templates/{name}", tag = "templates", params(("name" = String, Path)),
    responses((status = 200, description = "the template", body = TemplateBody)))]
pub(crate) async fn get(State(state): State<AppState>, Named(name): Named) -> Answered<Json<TemplateBody>> {
    let found = state.store.template(&name).await?;
    found.map(|template| Json(template.into())).ok_or_else(|| Problem::not_found("template", &name))
}

/// Forget a template; jobs and schedules that were made from it stay.
#[utoipa::path(delete, path = "/templates/{name}", tag = "templates", params(("name" = String, Path)),
    responses((status = 204, description = "it is gone")))]
pub(crate) async fn delete(ask: Ask, Named(name): Named) -> Answered<StatusCode> {
    let old = ask.state.store.template(&name).await?.ok_or_else(|| Problem::not_found("template", &name))?;
    let action = Action::new("template.delete").before(&TemplateBody::from(old));
    let subject = format!("template:{name}");
    let tell = move |(): &()| Told::new(subject.clone(), &());
    ask.change(action, tell, |store| async move { store.delete_template(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
