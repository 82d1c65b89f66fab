//! Decides what becomes of each thing, and puts it into an order in which it can be done in one transaction.

use super::desired::{Desired, in_order};
use super::export::is_admins;
use super::fires::{self, Look, Side};
use super::node::{Difference, Fields, Node, differences};
use super::present::{Present, Whose, flow_of};
use super::read::Key;
use super::refusal::{Refusals, Why, place};
use super::said::{beside, brief, whole};
use super::shapes::{MovedFires, Plan, PlanAction, PlanCounts, PlannedThing};
use crate::auth::Caller;
use crate::change::text_of;
use crate::secret;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use punctual_core::access::Role;
use punctual_core::calendar::{Calendar, CalendarRules};
use punctual_core::manifest::{Application, Managed, Said, ScheduleThing, Thing, ThingEdit, ThingKind};
use punctual_core::notify::rule::RuleDefinition;
use punctual_core::replan::{refuse_without_slots, same_times};
use punctual_core::schedule::{Schedule, Source};
use std::collections::{BTreeMap, BTreeSet};

/// The most fires that one plan lists.
const FIRES_TOLD_MAX: usize = 100_000;

/// A plan, for people and for the store.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) application: Application,
}

/// Decides.
#[derive(Debug)]
pub(crate) struct Planner {
    present: Present,
    desired: Desired,
    caller: Caller,
    adopt: bool,
    look: Look,
    refusals: Refusals,
    /// The calendars that change.
    moving: BTreeSet<String>,
    /// Calendars as they are, and as they will be.
    before: BTreeMap<String, Calendar>,
    after: BTreeMap<String, Calendar>,
    counts: PlanCounts,
    things: Vec<PlannedThing>,
    edits: BTreeMap<Key, ThingEdit>,
    /// What is removed, as it was.
    removed: BTreeMap<Key, Thing>,
    said: Vec<Said>,
    forgotten: Vec<Key>,
    others_affected: usize,
    /// How many fires are listed yet.
    fires_left: usize,
}

impl Planner {
    pub(crate) fn new(
        present: Present, desired: Desired, caller: Caller, adopt: bool, look: Look, refusals: Refusals,
        moving: BTreeSet<String>,
    ) -> Self {
        let understood =
            |name: &str, rules: &CalendarRules| Some((name.to_owned(), Calendar::new(name, rules.clone()).ok()?));
        let before: BTreeMap<String, Calendar> = present
            .calendars
            .values()
            .filter_map(|calendar| understood(calendar.name.as_str(), &calendar.rules))
            .collect();
        let mut after = before.clone();
        after.retain(|name, _| !(desired.prune && desired.left.contains(&(ThingKind::Calendar, name.clone()))));
        after.extend(desired.things.iter().filter_map(|((_, name), thing)| match thing {
            Thing::Calendar { rules, .. } => understood(name, rules),
            _ => None,
        }));
        Self {
            present,
            desired,
            caller,
            adopt,
            look,
            refusals,
            moving,
            before,
            after,
            counts: PlanCounts::default(),
            things: Vec::new(),
            edits: BTreeMap::new(),
            removed: BTreeMap::new(),
            said: Vec::new(),
            forgotten: Vec::new(),
            others_affected: 0,
            fires_left: FIRES_TOLD_MAX,
        }
    }

    pub(crate) fn plan(mut self) -> (Planned, Refusals) {
        let things = std::mem::take(&mut self.desired.things);
        for (key, thing) in &things {
            self.decide(key, thing);
        }
        for key in std::mem::take(&mut self.desired.left) {
            self.leave(key, &things);
        }
        self.affect_users();
        let edits = self.in_order_of_work(&things);
        let Self { desired, look, refusals, counts, mut things, said, forgotten, others_affected, .. } = self;
        things.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        let plan = Plan {
            is_empty: counts.is_empty(),
            digest: digest(&desired.owner, &things),
            owner: desired.owner.clone(),
            counts,
            things,
            others_affected,
            fires_until: look.until(),
        };
        let application = Application { owner: desired.owner, edits, said, forgotten };
        (Planned { plan, application }, refusals)
    }

    /// What becomes of a thing of the manifest.
    fn decide(&mut self, key: &Key, thing: &Thing) {
        let (kind, name) = (key.0, key.1.as_str());
        let managed = self.present.managed.get(key);
        if let Some(other) = managed.filter(|managed| managed.owner != self.desired.owner) {
            let told = format!("is in the manifest of `{}`", other.owner);
            let remedy = "choose another name, or let them take it out first";
            self.refusals.add(Why::Taken, place(kind, name), told, remedy);
            return;
        }
        let managed = managed.filter(|managed| !self.is_namesake(key, managed));
        let was_said = managed.map(|managed| Node::read(managed.said.definition.as_str()).into_fields());
        let fields = whole(thing);
        let Some(was) = self.present.thing(kind, name) else {
            return self.make(key, thing, was_said.is_some());
        };
        if was_said.is_none() && !self.may_take_over(key, &was) {
            return;
        }
        let there = whole(&was);
        let mut changes = differences(&beside(there.clone(), &fields), &fields);
        changes.extend(self.owner_change(key));
        let drift = was_said.as_ref().map_or_else(Vec::new, |said| drift_of(said, &was));
        let action = match (was_said.is_some(), changes.is_empty(), drift.is_empty()) {
            (false, _, _) => PlanAction::Adopt,
            (true, false, _) => PlanAction::Change,
            (true, true, false) => PlanAction::Accept,
            (true, true, true) => {
                // Said otherwise than before and still the same, such as `paused` for the first time.
                if was_said.is_some_and(|said| said != fields) {
                    self.say(key, thing);
                }
                self.counts.unchanged += 1;
                return self.affect(key);
            }
        };
        self.say(key, thing);
        let to = kept(thing, &was);
        // Where nothing is to be changed the store still sees to it that it is so when this is carried out.
        let from = aligned(was, thing);
        let to = if action == PlanAction::Accept { from.clone() } else { to };
        self.edits.insert(key.clone(), ThingEdit { kind, name: name.to_owned(), from: Some(from), to: Some(to) });
        let mut planned = self.planned(key, action);
        planned.changes = changes.into_iter().map(Into::into).collect();
        planned.drift = drift.into_iter().map(Into::into).collect();
        self.move_fires(&mut planned, Some(thing));
        self.things.push(planned);
    }

    fn make(&mut self, key: &Key, thing: &Thing, removed_by_hand: bool) {
        self.say(key, thing);
        let edit = ThingEdit { kind: key.0, name: key.1.clone(), from: None, to: Some(thing.clone()) };
        self.edits.insert(key.clone(), edit);
        let mut planned = self.planned(key, PlanAction::Make);
        planned.removed_by_hand = removed_by_hand;
        planned.definition = Some(Node::Fields(brief(thing)));
        self.move_fires(&mut planned, Some(thing));
        self.things.push(planned);
    }

    /// Whether what stands there is not what this manifest has made: that was removed by hand, and somebody else, or a
    /// program, made another one of the same name since.
    fn is_namesake(&self, key: &Key, managed: &Managed) -> bool {
        let is_owners = |owner: Option<&str>| owner == Some(self.desired.owner.as_str());
        match key.0 {
            ThingKind::Schedule => self.present.schedules.get(&key.1).is_some_and(|there| {
                !is_owners(there.definition.owner.as_deref()) || there.definition.source == Source::Code
            }),
            // A flow that was taken over stays whose it was.
            ThingKind::Flow => self.present.flows.get(&key.1).is_some_and(|there| {
                let owner = there.owner.as_deref();
                !is_owners(owner) && (there.created_at > managed.applied_at || !self.caller.sees(owner))
            }),
            _ => false,
        }
    }

    /// What becomes of a thing of the owner that is not in the manifest any more.
    fn leave(&mut self, key: Key, things: &BTreeMap<Key, Thing>) {
        let managed = self.present.managed.get(&key);
        let is_namesake = managed.is_some_and(|managed| self.is_namesake(&key, managed));
        let said = managed.map(|managed| Node::read(managed.said.definition.as_str()).into_fields());
        let Some(was) = self.present.thing(key.0, &key.1).filter(|_| !is_namesake) else {
            self.affect(&key);
            self.forgotten.push(key);
            return;
        };
        let drift = said.as_ref().map_or_else(Vec::new, |said| drift_of(said, &was));
        let drift = drift.into_iter().map(Into::into).collect();
        if !self.desired.prune {
            let left = PlannedThing { drift, ..self.planned(&key, PlanAction::Left) };
            self.things.push(left);
            return self.affect(&key);
        }
        if let Some(user) = self.user_of(&key, things) {
            let told = format!("cannot be removed: it is in use by {user}");
            self.refusals.add(
                Why::Taken,
                place(key.0, &key.1),
                told,
                "keep it in the manifest, or take it from them first",
            );
            return;
        }
        let mut planned = PlannedThing { drift, ..self.planned(&key, PlanAction::Remove) };
        if let Thing::Queue { paused: true } = was {
            // A queue stays. Its pause goes with the manifest that said it, and one that was made by hand stays, too.
            if said.is_none_or(|said| said.get("paused") != Some(&Node::of(&true))) {
                self.things.push(planned);
                self.forgotten.push(key);
                return;
            }
            let (from, to) = (Some(Node::of(&true)), Some(Node::of(&false)));
            planned.changes.push(Difference { field: "paused".to_owned(), from, to }.into());
        }
        self.move_fires(&mut planned, None);
        self.things.push(planned);
        self.forgotten.push(key.clone());
        self.removed.insert(key.clone(), was.clone());
        let from = match was {
            Thing::Schedule(schedule) => Thing::Schedule(Box::new(by_ids(*schedule, None))),
            was => was,
        };
        let edit = ThingEdit { kind: key.0, name: key.1.clone(), from: Some(from), to: None };
        self.edits.insert(key, edit);
    }

    /// Who needs a thing and stays, for people: not by name where it is another owner's.
    fn user_of(&self, key: &Key, things: &BTreeMap<Key, Thing>) -> Option<String> {
        let name = key.1.as_str();
        match key.0 {
            ThingKind::Calendar | ThingKind::Flow => {
                let needs = |user: &&Schedule| match key.0 {
                    ThingKind::Calendar => user.definition.calendar.as_deref() == Some(name),
                    _ => flow_of(&user.definition.target) == Some(name),
                };
                let namesakes = self.present.schedules.values().filter(|there| {
                    let key = (ThingKind::Schedule, there.definition.name.to_string());
                    self.present.managed.get(&key).is_some_and(|managed| self.is_namesake(&key, managed))
                });
                let user = self.present.users.iter().chain(namesakes).find(needs)?;
                let told = || format!("the schedule `{}`", user.definition.name);
                let seen = self.caller.sees(user.definition.owner.as_deref());
                Some(if seen { told() } else { "schedules of other owners".to_owned() })
            }
            ThingKind::Channel => {
                let needs = |rule: &&RuleDefinition| rule.channels().iter().any(|channel| channel.as_str() == name);
                let stays = |rule: &&RuleDefinition| {
                    let key = (ThingKind::Rule, rule.name.to_string());
                    let managed = self.present.managed.get(&key);
                    let goes = managed.is_some_and(|managed| managed.owner == self.desired.owner);
                    !goes && !things.contains_key(&key)
                };
                let said = things.values().filter_map(|thing| match thing {
                    Thing::Rule(rule) => Some(rule),
                    _ => None,
                });
                let user = said.chain(self.present.rules.values().filter(stays)).find(needs)?;
                // Rules are an admin's to look at, as far as they are not in the manifest.
                let told = || format!("the rule `{}`", user.name);
                Some(if self.caller.role >= Role::Admin { told() } else { "rules".to_owned() })
            }
            _ => None,
        }
    }

    /// Whether what no manifest has may become this manifest's.
    fn may_take_over(&mut self, key: &Key, was: &Thing) -> bool {
        let (kind, name) = (key.0, key.1.as_str());
        let mut refuse = |told: &str, remedy: &str| {
            self.refusals.add(Why::Taken, place(kind, name), told, remedy);
            false
        };
        if self.present.owner_of(kind, name).is_some_and(|Whose(owner)| !self.caller.sees(owner)) {
            return refuse("is the name of something of another owner", "choose another name");
        }
        if let Thing::Schedule(schedule) = was
            && schedule.definition.source == Source::Code
        {
            return refuse("is declared by a program", "take it out of the program first, or choose another name");
        }
        // A queue is made by its first use, and so is nobody's until somebody says something about it.
        if self.adopt || kind == ThingKind::Queue {
            return true;
        }
        refuse(
            "is there already, and no manifest has it",
            "take it over with `adopt` (--adopt), or choose another name",
        )
    }

    /// A schedule that was somebody else's becomes the manifest's owner's; a flow stays whose it is.
    fn owner_change(&self, key: &Key) -> Option<Difference> {
        if key.0 != ThingKind::Schedule {
            return None;
        }
        let Whose(owner) = self.present.owner_of(key.0, &key.1)?;
        let changes = owner != Some(self.desired.owner.as_str());
        changes.then(|| Difference {
            field: "owner".to_owned(),
            from: owner.map(Node::text),
            to: Some(Node::text(&self.desired.owner)),
        })
    }

    fn say(&mut self, key: &Key, thing: &Thing) {
        let definition = Node::Fields(whole(thing)).to_json();
        self.said.push(Said { kind: key.0, name: key.1.clone(), definition });
    }

    fn planned(&mut self, key: &Key, action: PlanAction) -> PlannedThing {
        self.counts.add(action);
        let touched = !matches!(action, PlanAction::Left | PlanAction::Affected);
        if touched && is_admins(key.0) && self.caller.role < Role::Admin {
            let told = format!("is an admin's to change, and the token has the role {}", self.caller.role);
            self.refusals.add(Why::Role, place(key.0, &key.1), told, "ask an admin to apply it");
        }
        PlannedThing {
            kind: key.0,
            name: key.1.clone(),
            action,
            definition: None,
            changes: Vec::new(),
            drift: Vec::new(),
            removed_by_hand: false,
            fires: None,
            notes: Vec::new(),
        }
    }

    /// Shows how the fires of a schedule move.
    fn move_fires(&mut self, planned: &mut PlannedThing, to: Option<&Thing>) {
        if planned.kind != ThingKind::Schedule {
            return;
        }
        let now = self.look.now;
        let old = self.present.schedules.get(&planned.name);
        let new = match to {
            Some(Thing::Schedule(to)) => Some(match old {
                None => fires::made(&to.definition, to.paused == Some(true), now),
                Some(old) => fires::edited(old, &to.definition, to.paused, now),
            }),
            _ => None,
        };
        if old.is_none()
            && let Some(new) = &new
            && let Err(invalid) = refuse_without_slots(&new.plan_next(now), &new.definition)
        {
            return self.refusals.invalid(planned.kind, &planned.name, invalid);
        }
        if self.look.fires == 0 {
            return;
        }
        let timing_is_new = |new: &Schedule| old.is_none_or(|old| old.definition.timing != new.definition.timing);
        planned.notes =
            new.as_ref().filter(|new| timing_is_new(new)).map(|new| fires::notes(new, now)).unwrap_or_default();
        let after = new.as_ref().map(|schedule| side(schedule, &self.after));
        let before = old.map(|schedule| match &new {
            // When the next slot is due may not be known while no node can run it; the same fires are the same all along.
            Some(new) if self.fires_as(schedule, new) => side(new, &self.after),
            _ => side(schedule, &self.before),
        });
        let fires = fires::moved(before, after, self.look);
        planned.fires = Some(self.told_fires(fires));
    }

    /// Whether an edit leaves alone when a schedule fires.
    fn fires_as(&self, old: &Schedule, new: &Schedule) -> bool {
        let calendar = &new.definition.calendar;
        same_times(&old.definition, &new.definition)
            && old.state.enabled == new.state.enabled
            && old.definition.calendar == *calendar
            && !calendar.as_ref().is_some_and(|calendar| self.moving.contains(calendar))
    }

    /// Fires as far as they are listed: a plan of very many schedules says of the last ones only how many.
    fn told_fires(&mut self, mut fires: MovedFires) -> MovedFires {
        match self.fires_left.checked_sub(fires.list.len()) {
            Some(left) => self.fires_left = left,
            None => fires.list.clear(),
        }
        fires
    }

    /// A schedule that stays as it is may have a calendar that does not.
    fn affect(&mut self, key: &Key) {
        if key.0 != ThingKind::Schedule {
            return;
        }
        let Some(schedule) = self.present.schedules.get(&key.1) else { return };
        let uses = schedule.definition.calendar.as_ref().is_some_and(|calendar| self.moving.contains(calendar));
        if uses {
            let schedule = schedule.clone();
            self.affect_schedule(&schedule);
        }
    }

    fn affect_users(&mut self) {
        for user in std::mem::take(&mut self.present.users) {
            self.affect_schedule(&user);
        }
    }

    fn affect_schedule(&mut self, schedule: &Schedule) {
        let look = Look { fires: self.look.fires.max(1), ..self.look };
        let (before, after) = (side(schedule, &self.before), side(schedule, &self.after));
        let fires = fires::moved(Some(before), Some(after), look);
        if !fires.moved {
            return;
        }
        if !self.caller.sees(schedule.definition.owner.as_deref()) {
            self.others_affected += 1;
            return;
        }
        let key = (ThingKind::Schedule, schedule.definition.name.to_string());
        let fires = Some(self.told_fires(fires));
        let planned = PlannedThing { fires, ..self.planned(&key, PlanAction::Affected) };
        self.things.push(planned);
    }

    /// The edits: what is made and changed in the order of kinds, schedules behind those that they depend on; then what
    /// is removed, the other way round.
    fn in_order_of_work(&mut self, things: &BTreeMap<Key, Thing>) -> Vec<ThingEdit> {
        let mut edits = std::mem::take(&mut self.edits);
        let schedules: Vec<String> = match in_order(things) {
            Ok(names) => names.into_iter().map(str::to_owned).collect(),
            Err(ring) => {
                let told = format!("waits for itself, by way of `{}`", ring.join("`, `"));
                for name in &ring {
                    let pointer = format!("{}/depends_on", place(ThingKind::Schedule, name));
                    self.refusals.add(Why::Wrong, pointer, told.clone(), "take one of these dependencies away");
                }
                Vec::new()
            }
        };
        let removed = std::mem::take(&mut self.removed);
        let others = things.keys().filter(|(kind, _)| *kind != ThingKind::Schedule).cloned();
        let schedules = schedules.into_iter().map(|name| (ThingKind::Schedule, name));
        let mut work: Vec<Key> = others.chain(schedules).collect();
        // By hand schedules can be made to wait for one another in a ring; then no order is better than another.
        let by_name = removed.keys().filter(|(kind, _)| *kind == ThingKind::Schedule).map(|(_, name)| name.as_str());
        let first_last = in_order(&removed).unwrap_or_else(|_ring| by_name.collect());
        work.extend(first_last.into_iter().rev().map(|name| (ThingKind::Schedule, name.to_owned())));
        work.extend(removed.keys().rev().filter(|(kind, _)| *kind != ThingKind::Schedule).cloned());
        work.iter().filter_map(|key| edits.remove(key)).collect()
    }
}

fn side<'a>(schedule: &'a Schedule, calendars: &'a BTreeMap<String, Calendar>) -> Side<'a> {
    let calendar = schedule.definition.calendar.as_ref().and_then(|name| calendars.get(name));
    Side { schedule, calendar }
}

/// What was changed by hand: what was said then against what is there. What a later version of the program knows of a
/// thing, and is as usual, was not changed by anybody.
fn drift_of(said: &Fields, was: &Thing) -> Vec<Difference> {
    let (there, unusual) = (beside(whole(was), said), brief(was));
    let by_hand = |difference: &Difference| {
        let field = difference.field.split(['.', '[']).next().unwrap_or_default();
        said.contains_key(field) || unusual.contains_key(field)
    };
    differences(said, &there).into_iter().filter(by_hand).collect()
}

/// A schedule as the store compares it. What it names stands in its definition by ids: a name may stand for nothing by now.
fn by_ids(was: ScheduleThing, paused: Option<bool>) -> ScheduleThing {
    ScheduleThing { paused, depends_on: None, template: None, ..was }
}

/// What a thing was, as far as its edit says something about it.
fn aligned(was: Thing, to: &Thing) -> Thing {
    match (was, to) {
        (Thing::Schedule(was), Thing::Schedule(to)) => {
            let paused = was.paused.filter(|_| to.paused.is_some());
            Thing::Schedule(Box::new(by_ids(*was, paused)))
        }
        (was, _) => was,
    }
}

/// What a thing shall be, with what the manifest leaves open as it was.
fn kept(thing: &Thing, was: &Thing) -> Thing {
    match (thing, was) {
        (Thing::Schedule(to), Thing::Schedule(was)) if to.template.is_none() => {
            let mut to = to.clone();
            to.template.clone_from(&was.template);
            to.definition.template_id = was.definition.template_id;
            Thing::Schedule(to)
        }
        (Thing::Flow { definition, .. }, Thing::Flow { owner, .. }) => {
            Thing::Flow { definition: definition.clone(), owner: owner.clone() }
        }
        _ => thing.clone(),
    }
}

/// Stands for what a plan does; how fires move is left out, because that changes by itself as time goes on.
fn digest(owner: &str, things: &[PlannedThing]) -> String {
    let done = things.iter().filter(|thing| !matches!(thing.action, PlanAction::Left | PlanAction::Affected));
    let plain: Vec<PlannedThing> = done.map(PlannedThing::without_fires).collect();
    URL_SAFE_NO_PAD.encode(secret::hash(&text_of(&(owner, plain))))
}
