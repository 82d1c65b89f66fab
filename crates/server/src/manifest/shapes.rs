//! A plan as the API shows it.

use super::node::{Difference, Node};
use crate::api::words::ThingKindWord;
use jiff::Timestamp;
use punctual_core::manifest::ThingKind;
use serde::Serialize;
use utoipa::ToSchema;

/// What becomes of a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PlanAction {
    /// It is not there, and is made.
    Make,
    /// It is there and otherwise than the manifest says.
    Change,
    /// It is there, and no manifest has it: from now on this one does.
    Adopt,
    /// It was changed by hand into what the manifest says: only what is remembered of it changes.
    Accept,
    /// It is not in the manifest any more, and is removed.
    Remove,
    /// It is not in the manifest any more, and stays: nobody asked for `prune`.
    Left,
    /// It is not in the manifest itself, and fires otherwise because its calendar changes.
    Affected,
}

/// What a manifest would change, or has changed.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Plan {
    pub(crate) owner: String,
    /// Whether there is nothing to do.
    pub(crate) is_empty: bool,
    /// Stands for what is to be done: send it as `if_plan`, and nothing else is done.
    pub(crate) digest: String,
    pub(crate) counts: PlanCounts,
    /// What is to be done, things in the order in which they are made.
    pub(crate) things: Vec<PlannedThing>,
    /// How many schedules that the caller may not see fire otherwise because their calendar changes.
    pub(crate) others_affected: usize,
    /// Until when fires were looked at.
    pub(crate) fires_until: Timestamp,
}

/// How many things.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct PlanCounts {
    pub(crate) make: usize,
    pub(crate) change: usize,
    pub(crate) adopt: usize,
    pub(crate) accept: usize,
    pub(crate) remove: usize,
    pub(crate) left: usize,
    pub(crate) unchanged: usize,
}

impl PlanCounts {
    pub(crate) fn add(&mut self, action: PlanAction) {
        match action {
            PlanAction::Make => self.make += 1,
            PlanAction::Change => self.change += 1,
            PlanAction::Adopt => self.adopt += 1,
            PlanAction::Accept => self.accept += 1,
            PlanAction::Remove => self.remove += 1,
            PlanAction::Left => self.left += 1,
            PlanAction::Affected => {}
        }
    }

    /// Whether nothing is to be done. What is left stays, and so is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.make + self.change + self.adopt + self.accept + self.remove == 0
    }
}

/// What becomes of one thing.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct PlannedThing {
    #[schema(value_type = ThingKindWord)]
    pub(crate) kind: ThingKind,
    pub(crate) name: String,
    pub(crate) action: PlanAction,
    /// What it shall be, when it is made: what is as usual is left out.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) definition: Option<Node>,
    /// What is changed, field by field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<FieldChange>,
    /// What was changed by hand since a manifest was applied: from what was applied to what is there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) drift: Vec<FieldChange>,
    /// Whether it was removed by hand since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) removed_by_hand: bool,
    /// Of a schedule: how its fires move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fires: Option<MovedFires>,
    /// What to mind about when it will fire: clock changes, fires that never come.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// What becomes of one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FieldChange {
    /// Where, such as `retry.max_attempts`.
    pub(crate) field: String,
    /// What it was; absent when it was not there.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Node>,
    /// What it is then; absent when it is not there any more.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<Node>,
}

impl From<Difference> for FieldChange {
    fn from(Difference { field, from, to }: Difference) -> Self {
        Self { field, from, to }
    }
}

/// How the fires of a schedule move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct MovedFires {
    /// Whether they move at all.
    pub(crate) moved: bool,
    /// The zone of `local`.
    pub(crate) timezone: String,
    /// The next ones before and after, in one list; empty when none of them moves, and when the plan lists 100,000 others
    /// already.
    pub(crate) list: Vec<MovedFire>,
    /// How many slots lie ahead within 90 days as it is. Those that a calendar closes are not counted, unless there are
    /// more than 3,000 slots.
    pub(crate) before: u64,
    /// How many then.
    pub(crate) after: u64,
}

/// Whether a fire is there before, after, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FireMove {
    /// It will not be any more.
    Gone,
    /// It was not before.
    New,
    /// It stays.
    Same,
}

/// One fire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct MovedFire {
    #[serde(rename = "move")]
    pub(crate) moved: FireMove,
    pub(crate) slot_at: Timestamp,
    /// The same on the schedule's wall clock, with its distance from UTC.
    pub(crate) local: String,
    /// When it is due, jitter included; absent while that is not known, because the schedule is not made yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_at: Option<Timestamp>,
    /// Why it will be skipped, if the calendar closes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) skipped: Option<String>,
}

impl PlannedThing {
    /// The same without how fires move.
    pub(crate) fn without_fires(&self) -> Self {
        Self { fires: None, notes: Vec::new(), ..self.clone() }
    }
}

impl Plan {
    /// What was done, as the audit log keeps it.
    pub(crate) fn without_fires(&self) -> Self {
        let done = self.things.iter().filter(|thing| !matches!(thing.action, PlanAction::Left | PlanAction::Affected));
        Self { things: done.map(PlannedThing::without_fires).collect(), ..self.clone() }
    }
}
