//! Serial keys that a failure holds: which they are, and letting them go. They are shared as queues are.

use super::queues::CountBody;
use super::{Page, Paging};
use crate::change::{Action, Ask, Told};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, page_size};
use crate::problem::Answered;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual_core::control::SerialHold;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// A serial key whose next jobs wait because one has failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SerialHold)]
pub(crate) struct SerialHoldBody {
    key: String,
    /// The job that failed last; retry it, or release the key.
    job_id: Uuid,
    held_at: Timestamp,
    /// How many jobs of the key are queued.
    waiting: CountBody,
}

impl From<SerialHold> for SerialHoldBody {
    fn from(hold: SerialHold) -> Self {
        let SerialHold { key, job_id, held_at, waiting } = hold;
        Self { key, job_id: job_id.0, held_at, waiting: waiting.into() }
    }
}

/// List the serial keys that are held, in order of key.
#[utoipa::path(get, path = "/serial-keys", tag = "serial_keys", params(Paging),
    responses((status = 200, description = "one page", body = Page<SerialHoldBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<SerialHoldBody>>> {
    let after: Option<String> = cursor::read(List::SerialKeys, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.serial_holds(after.as_deref(), limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::SerialKeys, |row| row.key.clone(), Into::into)))
}

/// Let the next job of a key go although the one that failed has not been made good.
#[utoipa::path(post, path = "/serial-keys/{key}/release", tag = "serial_keys", params(("key" = String, Path)),
    responses((status = 200, description = "what held it", body = SerialHoldBody)))]
pub(crate) async fn release(ask: Ask, Named(key): Named) -> Answered<Json<SerialHoldBody>> {
    let tell = |held: &SerialHold| Told::new(format!("serial_key:{}", held.key), &SerialHoldBody::from(held.clone()));
    let action = Action::new("serial_key.release");
    let held = ask.change(action, tell, |store| async move { store.release_serial_key(&key).await }).await?;
    Ok(Json(held.into()))
}
