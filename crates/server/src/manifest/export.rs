//! Writes down what is there as a manifest: applied again it changes nothing.

use super::node::{Fields, Node};
use super::present::{Moving, Present, Wanted, Whose};
use super::read::Key;
use super::refusal::section;
use super::said::brief;
use crate::auth::Caller;
use crate::problem::Answered;
use crate::state::AppState;
use punctual_core::access::Role;
use punctual_core::manifest::{Thing, ThingKind};
use punctual_core::schedule::Source;
use punctual_core::timing::TimingSpec;

/// The manifest of one owner, or of everything that the caller may see.
pub(crate) async fn export(state: &AppState, caller: &Caller, owner: Option<&str>) -> Answered<Node> {
    let store = state.store.as_ref();
    let mut present = Present::default();
    let mut wanted = if owner.is_none() { Wanted::everything() } else { Wanted::default() };
    present.read_managed(store, owner, &wanted).await?;
    present.managed.keys().for_each(|key| wanted.add(key.clone()));
    present.read_calendars(store, &wanted).await?;
    present.read_rest(state, &wanted, &Moving::default()).await?;
    let mut sections = Fields::new();
    for key in present.keys() {
        if owner.is_some() && !present.managed.contains_key(&key) {
            continue;
        }
        // What is over cannot be made again; only its owner's manifest, which has it, says it still.
        if owner.is_none() && is_over(&present, &key) {
            continue;
        }
        let Some(thing) = present.thing(key.0, &key.1).filter(|thing| is_told(&present, caller, &key, thing)) else {
            continue;
        };
        let told = sections.entry(section(key.0)).or_insert_with(|| Node::Fields(Fields::new()));
        if let Node::Fields(told) = told {
            told.insert(key.1, Node::Fields(brief(&thing)));
        }
    }
    if let Some(owner) = owner {
        sections.insert("owner".to_owned(), Node::text(owner));
    }
    Ok(Node::Fields(sections))
}

/// Whether a thing is written down: what the caller may see, and what a manifest can say.
fn is_told(present: &Present, caller: &Caller, key: &Key, thing: &Thing) -> bool {
    let seen = present.owner_of(key.0, &key.1).is_none_or(|Whose(owner)| caller.sees(owner));
    seen && match thing {
        // Others than admins see addresses only in part, and half an address would be written over the whole.
        Thing::Channel(_) | Thing::Rule(_) => caller.role >= Role::Admin,
        // Every queue that was ever used is there; only a pause is somebody's wish, or what a manifest says.
        Thing::Queue { paused } => *paused || present.managed.contains_key(key),
        // What a program declares, it declares again when it starts.
        Thing::Schedule(schedule) => schedule.definition.source != Source::Code,
        _ => true,
    }
}

/// Whether a thing is a schedule of one instant that has fired.
fn is_over(present: &Present, (kind, name): &Key) -> bool {
    let schedule = present.schedules.get(name).filter(|_| *kind == ThingKind::Schedule);
    schedule.is_some_and(|schedule| {
        matches!(schedule.definition.timing, TimingSpec::At { .. }) && schedule.state.next_slot_at.is_none()
    })
}

/// The kinds that only an admin's manifest can change.
pub(crate) fn is_admins(kind: ThingKind) -> bool {
    matches!(kind, ThingKind::Channel | ThingKind::Rule)
}
