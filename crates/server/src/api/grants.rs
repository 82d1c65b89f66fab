//! Grants: durable permission to run graphs; make, list, look at, revoke.

use super::limits::RateBody;
use super::{Page, Paging};
use crate::auth::Caller;
use crate::change::{Action, Ask, Made, Told};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual_core::access::Role;
use punctual_core::grant::{Grant, NewGrant, Wanted, check};
use punctual_core::graph::GraphId;
use punctual_core::id::GrantId;
use punctual_core::invalid::Invalid;
use punctual_core::target::Target;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// How many of an owner's grants are looked through for one that fits.
const LOOKED_AT: usize = 500;

/// A grant that is to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewGrant, example = json!({ "billing_account": "acme", "scopes": ["graph:execute:*"] }))]
pub(crate) struct NewGrantBody {
    /// Who pays. The account is made with the first grant that names it.
    billing_account: String,
    /// What it covers: `graph:execute:{graphId}` or `graph:execute:*`.
    scopes: Vec<String>,
    /// Until when; until revoked when absent.
    expires_at: Option<Timestamp>,
    /// How many graph runs it allows at all; any number when absent.
    #[schema(minimum = 1)]
    max_runs: Option<u32>,
    /// How many graph runs it allows in a while; `jobs` counts graph runs here.
    rate: Option<RateBody>,
}

impl NewGrantBody {
    pub(crate) fn into_grant(self, owner: &str) -> Result<NewGrant, Invalid> {
        let at_grant = |refused: Invalid| Invalid { field: format!("grant.{}", refused.field), ..refused };
        let scopes = self.scopes.iter().map(|scope| scope.parse()).collect::<Result<_, _>>().map_err(at_grant)?;
        Ok(NewGrant {
            owner: owner.to_owned(),
            billing_account: self.billing_account,
            scopes,
            expires_at: self.expires_at.map(super::job_shapes::whole_micros),
            max_runs: self.max_runs,
            rate: self.rate.map(RateBody::into_rate),
        })
    }
}

/// A grant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Grant)]
pub(crate) struct GrantBody {
    id: Uuid,
    owner: String,
    billing_account: String,
    scopes: Vec<String>,
    expires_at: Option<Timestamp>,
    max_runs: Option<u32>,
    rate: Option<RateBody>,
    /// How many graph runs were begun under it.
    runs: u64,
    created_at: Timestamp,
    /// Since when nothing begins under it any more.
    revoked_at: Option<Timestamp>,
}

impl From<&Grant> for GrantBody {
    fn from(grant: &Grant) -> Self {
        Self {
            id: grant.id.0,
            owner: grant.owner.clone(),
            billing_account: grant.billing_account.clone(),
            scopes: grant.scopes.iter().map(ToString::to_string).collect(),
            expires_at: grant.expires_at,
            max_runs: grant.max_runs,
            rate: grant.rate.map(RateBody::of),
            runs: grant.runs,
            created_at: grant.created_at,
            revoked_at: grant.revoked_at,
        }
    }
}

fn tell(grant: &Grant) -> Told {
    Told::new(format!("grant:{}", grant.id), &GrantBody::from(grant))
}

/// The fields of a grant that is the whole body.
fn of_the_body(refused: Invalid) -> Invalid {
    let field = refused.field.strip_prefix("grant.").unwrap_or(&refused.field).to_owned();
    Invalid { field, ..refused }
}

/// Make a grant.
#[utoipa::path(post, path = "/grants", tag = "grants", request_body = NewGrantBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 201, description = "jobs may run under it", body = GrantBody)))]
pub(crate) async fn create(ask: Ask, sent: Sent<NewGrantBody>) -> Answered<Made> {
    let new = sent.value.into_grant(&ask.caller.owner).map_err(of_the_body)?;
    new.validate().map_err(of_the_body)?;
    let action = Action::new("grant.create");
    let made = ask.create(sent.fingerprint, action, tell, |store| async move { store.create_grant(new).await });
    Ok(made.await?.found_under("/api/v1/grants"))
}

/// List grants, latest made first.
#[utoipa::path(get, path = "/grants", tag = "grants", params(Paging),
    responses((status = 200, description = "one page", body = Page<GrantBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<GrantBody>>> {
    let before: Option<GrantId> = cursor::read(List::Grants, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.grants(caller.scope().as_deref(), before, limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::Grants, |row| row.id.to_string(), |row| (&row).into())))
}

/// A grant that the caller may see.
async fn existing(state: &AppState, caller: &Caller, text: &str) -> Answered<Grant> {
    let none = || Problem::not_found("grant", text);
    let id: GrantId = text.parse().map_err(|_| none())?;
    let found = state.store.grant(id).await?;
    found.filter(|grant| caller.sees(Some(&grant.owner))).ok_or_else(none)
}

/// Look at one grant.
#[utoipa::path(get, path = "/grants/{id}", tag = "grants", params(("id" = Uuid, Path)),
    responses((status = 200, description = "the grant", body = GrantBody)))]
pub(crate) async fn get(State(state): State<AppState>, caller: Caller, Named(id): Named) -> Answered<Json<GrantBody>> {
    Ok(Json((&existing(&state, &caller, &id).await?).into()))
}

/// Revoke a grant: nothing begins under it any more, and what is queued under it is stopped when it is claimed.
#[utoipa::path(post, path = "/grants/{id}/revoke", tag = "grants", params(("id" = Uuid, Path)),
    responses((status = 200, description = "it is revoked; a second time changes nothing", body = GrantBody)))]
pub(crate) async fn revoke(ask: Ask, Named(id): Named) -> Answered<Json<GrantBody>> {
    ask.caller.require(Role::Operator)?;
    let old = existing(&ask.state, &ask.caller, &id).await?;
    let action = Action::new("grant.revoke").before(&GrantBody::from(&old));
    let revoked = ask.change(action, tell, |store| async move { store.revoke_grant(old.id).await }).await?;
    Ok(Json((&revoked).into()))
}

/// Refuses graphs that no provider could have.
pub(crate) fn check_graph(target: &Target) -> Result<(), Invalid> {
    let Target::Graph(graph) = target else { return Ok(()) };
    graph.id.parse::<GraphId>().map(drop).map_err(|refused| Invalid { field: "target.id".into(), ..refused })
}

/// Refuses work whose grant is not there for its owner, and graphs without any.
pub(crate) async fn check_named(
    state: &AppState, owner: Option<&str>, target: &Target, grant: Option<GrantId>,
) -> Answered<()> {
    Ok(judge_named(state, owner, target, grant).await??)
}

/// The same for whoever has a place of his own for what is wrong.
pub(crate) async fn judge_named(
    state: &AppState, owner: Option<&str>, target: &Target, grant: Option<GrantId>,
) -> Answered<Result<(), Invalid>> {
    match (judge_graph(target, grant), grant) {
        (Err(invalid), _) => Ok(Err(invalid)),
        (Ok(()), None) => Ok(Ok(())),
        (Ok(()), Some(id)) => judge_grant(state, owner, id).await,
    }
}

/// Whether a target is a graph that could never run, or has no grant to run under.
pub(crate) fn judge_graph(target: &Target, grant: Option<GrantId>) -> Result<(), Invalid> {
    check_graph(target)?;
    if matches!(target, Target::Graph(_)) && grant.is_none() {
        return Err(Invalid::new("grant_id", "is missing: a graph runs under a grant only")
            .remedy("make a grant with POST /grants, and name its id"));
    }
    Ok(())
}

/// Whether an owner has a grant.
pub(crate) async fn judge_grant(state: &AppState, owner: Option<&str>, id: GrantId) -> Answered<Result<(), Invalid>> {
    let found = state.store.grant(id).await?;
    if found.is_none_or(|grant| owner != Some(&grant.owner)) {
        return Ok(Err(Invalid::new("grant_id", format!("{} has no grant `{id}`", owner.unwrap_or("nobody")))
            .remedy("name a grant of the same owner, or make one")));
    }
    Ok(Ok(()))
}

/// The one grant of the caller under which a graph may run now.
pub(crate) async fn only_fitting(ask: &Ask, graph: &str) -> Answered<GrantId> {
    let (store, owner) = (&ask.state.store, ask.caller.owner.as_str());
    let now = store.now().await?;
    let wanted = Wanted { owner: Some(owner), graph: Some(graph) };
    let fits = |grant: &Grant| check(Some(grant), wanted, now).is_ok() && grant.begin_run(now).is_ok();
    let fitting: Vec<Grant> = store.grants(Some(owner), None, LOOKED_AT).await?.into_iter().filter(fits).collect();
    let (problem, remedy) = match fitting.as_slice() {
        [one] => return Ok(one.id),
        [] => (format!("{owner} has no grant that covers {graph} now"), "make one with POST /grants"),
        several => (format!("{owner} has {} grants that cover {graph}", several.len()), "name one of them"),
    };
    Err(Invalid::new("grant_id", problem).remedy(remedy).into())
}
