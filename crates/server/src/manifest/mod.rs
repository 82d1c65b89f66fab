//! Manifests: what a file says is compared with what is there, shown as a plan, and carried out as one change.
//!
//! [`read`] understands the file, [`present`] reads the store, [`desired`] fills in what things begin with, [`plan`]
//! decides what becomes of each, [`fires`] shows how the fires of schedules move.

mod desired;
mod export;
mod fires;
mod node;
mod plan;
mod present;
mod read;
mod refusal;
mod said;
pub(crate) mod shapes;

pub(crate) use export::export;
pub(crate) use node::Node;
pub(crate) use plan::Planned;
pub use read::checked_schedule;

use self::desired::{Desired, Resolver};
use self::fires::Look;
use self::plan::Planner;
use self::present::{Moving, Present, Wanted};
use self::read::{Manifest, SaidOf};
use self::refusal::Refusals;
use crate::api::grants::{judge_grant, judge_graph};
use crate::auth::Caller;
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::http::StatusCode;
use punctual_core::calendar::CalendarRules;
use punctual_core::id::GrantId;
use punctual_core::invalid::Invalid;
use punctual_core::manifest::{Thing, ThingKind};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// What is asked about a manifest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wishes {
    /// Whether the owner's things that are not in it any more are removed.
    pub(crate) prune: bool,
    /// Whether things that nobody's manifest has are taken over.
    pub(crate) adopt: bool,
    /// How many fires of each schedule are compared.
    pub(crate) fires: usize,
}

/// Finds out what a manifest would change. Reads the store in pages, however much the manifest holds.
pub(crate) async fn plan(state: &AppState, caller: &Caller, text: &RawValue, wishes: Wishes) -> Answered<Planned> {
    let store = state.store.as_ref();
    let mut refusals = Refusals::default();
    let manifest = Manifest::read(text, caller, &mut refusals);
    let now = store.now().await?;
    let mut wanted = Wanted::by(&manifest);
    let mut present = Present::default();
    present.read_managed(store, Some(&manifest.owner), &wanted).await?;
    for (key, managed) in &present.managed {
        if managed.owner == manifest.owner {
            wanted.add(key.clone());
        }
    }
    present.read_calendars(store, &wanted).await?;
    let moving = Moving {
        calendars: moving_calendars(&manifest, &present, wishes.prune),
        flows: gone(ThingKind::Flow, &manifest, &present, wishes.prune).collect(),
    };
    present.read_rest(state, &wanted, &moving).await?;
    let desired =
        Resolver { present: &present, caller, refusals: &mut refusals, prune: wishes.prune }.resolve(manifest);
    check_grants(state, &desired, &mut refusals).await?;
    let look = Look { now, fires: wishes.fires };
    let deciding = Planner::new(present, desired, caller.clone(), wishes.adopt, look, refusals, moving.calendars);
    // Thousands of schedules are worth more than a moment of one thread, and others wait for theirs meanwhile.
    let done = tokio::task::spawn_blocking(move || deciding.plan()).await;
    let (planned, refusals) = done.map_err(|error| {
        tracing::error!(%error, "planning a manifest failed");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "something went wrong inside Punctual")
            .remedy("look into the server's log for this request")
    })?;
    refusals.into_problem()?;
    Ok(planned)
}

/// The calendars whose days and times change: those that the manifest says otherwise, and those that it removes.
fn moving_calendars(manifest: &Manifest, present: &Present, prune: bool) -> BTreeSet<String> {
    let said = manifest.things.iter().filter_map(|((_, name), said)| match said {
        SaidOf::Thing(thing) => match thing.as_ref() {
            Thing::Calendar { rules, .. } => Some((name, rules)),
            _ => None,
        },
        SaidOf::Schedule(_) => None,
    });
    let moves = |name: &String, rules: &CalendarRules| present.rules_of(name).is_some_and(|there| there != rules);
    let changed = said.filter(|(name, rules)| moves(name, rules)).map(|(name, _)| name.clone());
    changed.chain(gone(ThingKind::Calendar, manifest, present, prune)).collect()
}

/// The things of a kind that the manifest removes.
fn gone(kind: ThingKind, manifest: &Manifest, present: &Present, prune: bool) -> impl Iterator<Item = String> {
    let own = present.managed.iter().filter(move |(_, managed)| prune && managed.owner == manifest.owner);
    let gone = own.filter(move |(key, _)| key.0 == kind && !manifest.things.contains_key(key));
    gone.map(|(key, _)| key.1.clone())
}

/// Refuses schedules of graphs that cannot run, and those whose grant is not there; each grant is asked for once.
async fn check_grants(state: &AppState, desired: &Desired, refusals: &mut Refusals) -> Answered<()> {
    let mut found: BTreeMap<GrantId, Result<(), Invalid>> = BTreeMap::new();
    for ((kind, name), thing) in &desired.things {
        let Thing::Schedule(schedule) = thing else { continue };
        let (target, grant) = (&schedule.definition.target, schedule.definition.grant_id);
        if let Err(invalid) = judge_graph(target, grant) {
            refusals.invalid(*kind, name, invalid);
            continue;
        }
        let Some(id) = grant else { continue };
        let judged = match found.get(&id) {
            Some(judged) => judged,
            None => found.entry(id).or_insert(judge_grant(state, Some(&desired.owner), id).await?),
        };
        if let Err(invalid) = judged {
            refusals.invalid(*kind, name, invalid.clone());
        }
    }
    Ok(())
}
