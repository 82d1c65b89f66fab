//! Deliveries: each message to each channel, with every attempt; to look at, send again, or take out of the line.

use super::Page;
use super::alerts;
use super::words::{DeliveryStateWord, OccasionWord};
use crate::auth::Caller;
use crate::change::{Action, Ask, Told};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use punctual_core::id::{AlertId, DeliveryId};
use punctual_core::notify::delivery::{Attempt, Delivery, DeliveryState};
use punctual_core::notify::message::{Message, Occasion};
use punctual_core::notify::port::DeliveryFilter;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// Which deliveries.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveriesAsked {
    /// Only those to this channel.
    channel: Option<String>,
    /// Only those of this alert.
    alert_id: Option<Uuid>,
    /// Only those in this state.
    #[param(value_type = Option<DeliveryStateWord>, inline)]
    state: Option<DeliveryState>,
    /// How many, 1 to 500; 50 unless said otherwise.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// One message to one channel.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub(crate) struct DeliveryBody {
    /// The same over all attempts; webhooks carry it as `msg_{id}`.
    id: Uuid,
    channel: String,
    alert_id: Option<Uuid>,
    #[schema(value_type = DeliveryStateWord)]
    state: DeliveryState,
    #[schema(value_type = OccasionWord)]
    occasion: Occasion,
    /// What it says, in one line.
    title: String,
    /// All that it says.
    #[schema(value_type = Object)]
    message: Message,
    created_at: Timestamp,
    /// When it is sent, or sent again; null when that is over.
    next_at: Option<Timestamp>,
    /// How often it was tried.
    tries: u32,
    /// The latest attempts, oldest first.
    attempts: Vec<AttemptBody>,
    ended_at: Option<Timestamp>,
}

/// One attempt to send.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeliveryAttempt)]
pub(crate) struct AttemptBody {
    at: Timestamp,
    arrived: bool,
    /// What the other side said, or why it did not arrive.
    answer: String,
}

impl From<&Delivery> for DeliveryBody {
    fn from(delivery: &Delivery) -> Self {
        let attempt = |Attempt { at, arrived, answer }: Attempt| AttemptBody { at, arrived, answer };
        Self {
            id: delivery.id.0,
            channel: delivery.channel.to_string(),
            alert_id: delivery.alert_id.map(|id| id.0),
            state: delivery.state,
            occasion: delivery.message.occasion,
            title: delivery.message.wording(None).title,
            // Whoever gets the message may acknowledge by its code; whoever may look at the list may not.
            message: Message { acknowledge: None, ..delivery.message.clone() },
            created_at: delivery.created_at,
            next_at: Some(delivery.next_at).filter(|_| delivery.state == DeliveryState::Waiting),
            tries: delivery.tries,
            attempts: delivery.attempts.iter().cloned().map(attempt).collect(),
            ended_at: delivery.ended_at,
        }
    }
}

fn tell(delivery: &Delivery) -> Told {
    Told::new(format!("delivery:{}", delivery.id), &DeliveryBody::from(delivery))
}

/// A delivery is there for whoever may see its alert; a test is there for everybody.
async fn is_visible(state: &AppState, caller: &Caller, delivery: &Delivery) -> Answered<bool> {
    let Some(id) = delivery.alert_id.filter(|_| caller.scope().is_some()) else { return Ok(true) };
    match state.store.alert(id).await? {
        Some(alert) => alerts::is_visible(state, caller, &alert).await,
        None => Ok(false),
    }
}

async fn existing(state: &AppState, caller: &Caller, text: &str) -> Answered<Delivery> {
    let none = || {
        Problem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no delivery `{text:.100}`"))
            .remedy("list the deliveries to see which there are")
    };
    let id: DeliveryId = text.parse().map_err(|_| none())?;
    let delivery = state.store.delivery(id).await?.ok_or_else(none)?;
    if is_visible(state, caller, &delivery).await? { Ok(delivery) } else { Err(none()) }
}

/// List deliveries, the latest first.
#[utoipa::path(get, path = "/deliveries", tag = "deliveries", params(DeliveriesAsked),
    responses((status = 200, description = "one page", body = Page<DeliveryBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<DeliveriesAsked>,
) -> Answered<Json<Page<DeliveryBody>>> {
    let before: Option<DeliveryId> = cursor::read(List::Deliveries, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let filter =
        DeliveryFilter { channel: asked.channel, alert_id: asked.alert_id.map(AlertId::from), state: asked.state };
    let page = state.store.deliveries(&filter, before, limit).await?;
    let mut shown = Vec::new();
    for delivery in &page.items {
        if is_visible(&state, &caller, delivery).await? {
            shown.push(delivery.into());
        }
    }
    Ok(Json(Page::new(shown, List::Deliveries, page.next.as_ref())))
}

/// Look at one delivery.
#[utoipa::path(get, path = "/deliveries/{id}", tag = "deliveries", params(("id" = Uuid, Path)),
    responses((status = 200, description = "the delivery", body = DeliveryBody)))]
pub(crate) async fn get(
    State(state): State<AppState>, caller: Caller, Named(id): Named,
) -> Answered<Json<DeliveryBody>> {
    Ok(Json((&existing(&state, &caller, &id).await?).into()))
}

/// Send a message again, under the same id, whatever became of it.
#[utoipa::path(post, path = "/deliveries/{id}/resend", tag = "deliveries", params(("id" = Uuid, Path)),
    responses((status = 200, description = "it is in the line again", body = DeliveryBody)))]
pub(crate) async fn resend(ask: Ask, Named(id): Named) -> Answered<Json<DeliveryBody>> {
    let old = existing(&ask.state, &ask.caller, &id).await?;
    let action = Action::new("delivery.resend");
    let now = ask.change(action, tell, |store| async move { store.resend_delivery(old.id).await }).await?;
    Ok(Json((&now).into()))
}

/// Take a message out of its line; those behind it go on.
#[utoipa::path(post, path = "/deliveries/{id}/drop", tag = "deliveries", params(("id" = Uuid, Path)),
    responses((status = 200, description = "it is not sent any more; what has ended stays as it is", body = DeliveryBody)))]
pub(crate) async fn take_out(ask: Ask, Named(id): Named) -> Answered<Json<DeliveryBody>> {
    let old = existing(&ask.state, &ask.caller, &id).await?;
    let action = Action::new("delivery.drop");
    let now = ask.change(action, tell, |store| async move { store.drop_delivery(old.id).await }).await?;
    Ok(Json((&now).into()))
}
