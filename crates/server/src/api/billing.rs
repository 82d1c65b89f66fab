//! Billing: accounts with the key that providers charge by, and what was used of them (A03, A18).

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
use jiff::{SignedDuration, Timestamp};
use punctual_core::execution::{BillingAccount, Usage};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use utoipa::{IntoParams, ToSchema};

/// How far back usage is told unless said otherwise.
const USUAL: SignedDuration = SignedDuration::from_hours(24 * 30);

/// How much of a key is shown, so that it can be told from others.
const KEY_SHOWN: usize = 9;

/// A billing account that is to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewBillingAccount, example = json!({ "name": "acme" }))]
pub(crate) struct NewAccountBody {
    #[schema(min_length = 1, max_length = 200)]
    name: String,
}

/// A billing account.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BillingAccount)]
pub(crate) struct AccountBody {
    owner: String,
    name: String,
    /// What the key begins with that providers charge by; the whole key is given to providers only.
    virtual_key: String,
    created_at: Timestamp,
}

impl From<&BillingAccount> for AccountBody {
    fn from(account: &BillingAccount) -> Self {
        let shown: String = account.virtual_key.chars().take(KEY_SHOWN).collect();
        Self {
            owner: account.owner.clone(),
            name: account.name.clone(),
            virtual_key: format!("{shown}…"),
            created_at: account.created_at,
        }
    }
}

/// Make a billing account with its default key; one that is there stays as it is.
#[utoipa::path(post, path = "/billing/accounts", tag = "billing", request_body = NewAccountBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 201, description = "grants can name it", body = AccountBody)))]
pub(crate) async fn create(ask: Ask, sent: Sent<NewAccountBody>) -> Answered<Made> {
    let (owner, name) = (ask.caller.owner.clone(), sent.value.name);
    let tell =
        |account: &BillingAccount| Told::new(format!("billing_account:{}", account.name), &AccountBody::from(account));
    let create = |store: std::sync::Arc<dyn punctual_core::store::Store>| async move {
        store.create_billing_account(&owner, &name).await
    };
    ask.create(sent.fingerprint, Action::new("billing_account.create"), tell, create).await
}

/// Owner and name of an account in a cursor; neither holds a line break.
struct Place(String, String);

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        text.split_once('\n').map(|(owner, name)| Self(owner.to_owned(), name.to_owned())).ok_or(())
    }
}

/// List billing accounts, by owner and name.
#[utoipa::path(get, path = "/billing/accounts", tag = "billing", params(Paging),
    responses((status = 200, description = "one page", body = Page<AccountBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<AccountBody>>> {
    let after: Option<Place> = cursor::read(List::Accounts, asked.cursor.as_deref())?;
    let after = after.as_ref().map(|Place(owner, name)| (owner.as_str(), name.as_str()));
    let limit = page_size(asked.limit)?;
    let rows = state.store.billing_accounts(caller.scope().as_deref(), after, limit + 1).await?;
    let key = |row: &BillingAccount| format!("{}\n{}", row.owner, row.name);
    Ok(Json(Page::of_rows(rows, limit, List::Accounts, key, |row| (&row).into())))
}

/// Of whom, and from when to when.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageAsked {
    /// Whose account; only an admin can ask for another than his own.
    owner: Option<String>,
    /// From this time on; 30 days before the end unless said otherwise.
    from: Option<Timestamp>,
    /// Before this time; now unless said otherwise.
    to: Option<Timestamp>,
}

/// What an account used in a while.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Usage)]
pub(crate) struct UsageBody {
    owner: String,
    account: String,
    from: Timestamp,
    to: Timestamp,
    /// By graph and unit.
    items: Vec<UsedBody>,
}

/// What was used of one unit by one graph.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Used)]
pub(crate) struct UsedBody {
    graph_id: String,
    unit: String,
    quantity: u64,
    /// In how many graph runs.
    runs: u64,
}

impl From<Usage> for UsedBody {
    fn from(usage: Usage) -> Self {
        Self { graph_id: usage.graph, unit: usage.unit, quantity: usage.quantity, runs: usage.runs }
    }
}

/// What an account used in a while, by graph and unit.
#[utoipa::path(get, path = "/billing/accounts/{name}/usage", tag = "billing",
    params(("name" = String, Path), UsageAsked),
    responses((status = 200, description = "the sums", body = UsageBody)))]
pub(crate) async fn usage(
    State(state): State<AppState>, caller: Caller, Named(name): Named, Asked(asked): Asked<UsageAsked>,
) -> Answered<Json<UsageBody>> {
    // Another's account is not found, whoever asks for it by name.
    let owner = caller.scope().or(asked.owner).unwrap_or_else(|| caller.owner.clone());
    let none = || Problem::not_found("billing account", &name);
    if owner.contains('\0') {
        return Err(none());
    }
    let account = state.store.billing_account(&owner, &name).await?.ok_or_else(none)?;
    let to = match asked.to {
        Some(to) => to,
        None => state.store.now().await?,
    };
    let from = asked.from.unwrap_or_else(|| to.saturating_sub(USUAL).unwrap_or(Timestamp::MIN));
    if from > to {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad_query", "`from` lies behind `to`")
            .remedy("give a range with from before to")
            .at("from"));
    }
    let items = state.store.usage(&account.owner, &account.name, from, to).await?;
    let items = items.into_iter().map(Into::into).collect();
    Ok(Json(UsageBody { owner: account.owner, account: account.name, from, to, items }))
}
