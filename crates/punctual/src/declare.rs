//! Writing a declared schedule to the store.

use crate::{Error, Result};
use punctual_core::schedule::{Schedule, ScheduleDefinition, Source};
use punctual_core::store::{ScheduleKey, Store, StoreError};

/// Creates a schedule, or edits the one that this program declared before.
pub(crate) async fn save(store: &dyn Store, definition: ScheduleDefinition) -> Result<Schedule> {
    let key = ScheduleKey::from(definition.name.as_str());
    loop {
        let Some(stored) = store.schedule(&key).await? else {
            match store.create_schedule(definition.clone()).await {
                // Another process of the same program was quicker.
                Err(StoreError::NameTaken { .. }) => continue,
                created => return Ok(created?),
            }
        };
        if stored.definition.source != Source::Code {
            return Err(Error::Store(StoreError::NameTaken { what: "schedule", name: definition.name.to_string() }));
        }
        if stored.definition == definition {
            return Ok(stored);
        }
        match store.update_schedule_if_version(stored.id, stored.version, definition.clone()).await {
            Err(StoreError::VersionConflict { .. }) => {}
            updated => return Ok(updated?),
        }
    }
}
