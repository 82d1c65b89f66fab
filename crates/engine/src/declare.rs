//! Declaring: what a program says about its schedules is written to the store when its node comes to work (D07).

use punctual_core::id::ScheduleId;
use punctual_core::schedule::FiredFrom;
use punctual_core::store::{Store, StoreResult};
use punctual_core::upkeep::{Declarations, Declared};

/// Writes the declarations, warns of what moves between memory and store (D14), and says which schedules they are.
pub async fn declare_once(store: &dyn Store, declarations: &Declarations) -> StoreResult<Vec<ScheduleId>> {
    if declarations.schedules.is_empty() && !declarations.remove_others {
        return Ok(Vec::new());
    }
    let declared = store.declare_schedules(declarations.clone()).await?;
    report(&declared);
    Ok(declared.schedules.iter().map(|schedule| schedule.id).collect())
}

fn report(declared: &Declared) {
    let (created, updated, removed) = (declared.created.len(), declared.updated.len(), declared.removed.len());
    tracing::info!(created, updated, removed, "declared the program's schedules");
    for schedule in &declared.schedules {
        let (name, from) = (&schedule.definition.name, schedule.state.fired_from);
        if declared.switched.contains(name) {
            tracing::warn!(
                schedule = name.as_str(),
                "from now on it is fired from the {from}; declare the other to roll back"
            );
        } else if from == FiredFrom::Memory {
            tracing::warn!(
                schedule = name.as_str(),
                "it is fired from the memory of this program, so that nothing fires it when the program does not run"
            );
        }
    }
}
