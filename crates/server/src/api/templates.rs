//! Templates: named jobs to begin with. They are shared: everybody may use one.

use super::job_shapes::NewJobBody;
use super::{Page, Paging};
use crate::change::{Action, Ask, Made, Told};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual_core::invalid::Invalid;
use punctual_core::job::NewJob;
use punctual_core::name::Name;
use punctual_core::store::Template;
use serde::{Deserialize, Serialize};
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
    created_at: Timestamp,
}

impl From<Template> for TemplateBody {
    fn from(template: Template) -> Self {
        let Template { id, name, job, created_at } = template;
        Self { id: id.0, name: name.to_string(), job, created_at }
    }
}

/// The job of a template that a body names.
pub(crate) async fn job_of(state: &AppState, name: &str) -> Answered<NewJob> {
    let unknown = || Invalid::new("template", format!("there is no template `{name}`")).remedy("list the templates");
    if name.contains('\0') {
        return Err(unknown().into());
    }
    let template = state.store.template(name).await?.ok_or_else(unknown)?;
    Ok(NewJob { template_id: Some(template.id), ..template.job })
}

/// Make a template.
#[utoipa::path(post, path = "/templates", tag = "templates", request_body = NewTemplate,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 201, description = "it can be used", body = TemplateBody)))]
pub(crate) async fn create(ask: Ask, sent: Sent<NewTemplate>) -> Answered<Made> {
    let NewTemplate { name, job } = sent.value;
    if job.template.is_some() {
        return Err(Invalid::new("job.template", "a template is not made from another").remedy("leave it out").into());
    }
    let name = Name::new(name)?;
    let at_job = |refused: Invalid| Invalid { field: format!("job.{}", refused.field), ..refused };
    let job = job.into_spec(None, &ask.caller).map_err(at_job)?;
    let job = NewJob { owner: None, job_key: None, ..job };
    let tell = |made: &Template| Told::new(format!("template:{}", made.name), &TemplateBody::from(made.clone()));
    let made = ask.create(sent.fingerprint, Action::new("template.create"), tell, |store| async move {
        store.create_template(name, job).await
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
