//! Writing a declared schedule to the store.

use crate::{Error, Result};
use punctual_core::schedule::{FiredFrom, Schedule, ScheduleDefinition};
use punctual_core::store::{Store, StoreError};
use punctual_core::upkeep::{Declaration, Declarations};

/// Creates a schedule, or edits the one that this program declared before.
pub(crate) async fn save(store: &dyn Store, definition: ScheduleDefinition) -> Result<Schedule> {
    let owner = definition.owner.clone();
    let schedules = vec![Declaration { definition, fired_from: FiredFrom::Store }];
    let declared = store.declare_schedules(Declarations { owner, schedules, remove_others: false }).await?;
    let missing = || Error::Store(StoreError::Internal("a declared schedule was not stored".to_owned()));
    declared.schedules.into_iter().next().ok_or_else(missing)
}
