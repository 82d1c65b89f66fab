//! What the store holds of what a manifest is about: read page by page, and only that much of it is kept.

use super::read::{Key, Manifest, SaidOf};
use crate::problem::Answered;
use crate::state::AppState;
use punctual_core::calendar::{CalendarRules, StoredCalendar};
use punctual_core::cron::CronPreset;
use punctual_core::flow::Flow;
use punctual_core::id::{ScheduleId, TemplateId};
use punctual_core::limits::{Limit, LimitSubject};
use punctual_core::manifest::{Managed, ScheduleThing, Thing, ThingKind};
use punctual_core::name::Name;
use punctual_core::notify::channel::ChannelDefinition;
use punctual_core::notify::rule::RuleDefinition;
use punctual_core::schedule::Schedule;
use punctual_core::store::{Store, StoreResult};
use punctual_core::target::Target;
use punctual_core::template::Template;
use std::collections::{BTreeMap, BTreeSet};

/// How much is read at once.
const PAGE: usize = 500;

/// Reads a list page by page: `$after` is the key behind which a page begins, `$row` what is done with each of its rows.
macro_rules! each_page {
    ($after:ident: $type:ty => $page:expr, $row:ident: $key:expr => $take:expr) => {{
        let mut $after: Option<$type> = None;
        loop {
            let rows = $page.await?;
            let is_last = rows.len() < PAGE;
            for $row in rows {
                $after = Some($key);
                $take;
            }
            if is_last {
                break;
            }
        }
    }};
}

/// Which things are kept.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Those with these names.
    names: BTreeSet<Key>,
    /// Schedules that others only depend on.
    only_named: BTreeSet<String>,
    /// All of them: whoever writes everything down.
    all: bool,
    /// Whether schedules are looked at, and with them everything that they may name.
    schedules: bool,
}

impl Wanted {
    /// Everything.
    pub(crate) fn everything() -> Self {
        Self { all: true, schedules: true, ..Self::default() }
    }

    /// What a manifest names: its things, and those that they need.
    pub(crate) fn by(manifest: &Manifest) -> Self {
        let mut names: BTreeSet<Key> = manifest.things.keys().cloned().collect();
        let mut only_named = BTreeSet::new();
        for said in manifest.things.values() {
            let SaidOf::Schedule(said) = said else { continue };
            let needs = [
                (ThingKind::Preset, said.body.preset.clone()),
                (ThingKind::Template, said.body.template.clone()),
                (ThingKind::Schedule, said.depends_on.as_ref().map(|other| other.schedule.clone())),
            ];
            for (kind, name) in needs.into_iter().filter_map(|(kind, name)| Some((kind, name?))) {
                if names.insert((kind, name.clone())) && kind == ThingKind::Schedule {
                    only_named.insert(name);
                }
            }
        }
        Self { names, only_named, ..Self::default() }
    }

    /// What is called so as well.
    pub(crate) fn add(&mut self, key: Key) {
        if key.0 == ThingKind::Schedule {
            self.only_named.remove(&key.1);
        }
        self.names.insert(key);
    }

    fn has(&self, kind: ThingKind, name: &str) -> bool {
        self.all || self.names.contains(&(kind, name.to_owned()))
    }

    /// Whether there is anything of a kind to look for.
    fn any(&self, kind: ThingKind) -> bool {
        self.all || self.names.range((kind, String::new())..).next().is_some_and(|(found, _)| *found == kind)
    }
}

/// What stands in the store.
#[derive(Debug, Default)]
pub(crate) struct Present {
    /// What manifests have, of what is wanted.
    pub(crate) managed: BTreeMap<Key, Managed>,
    /// All of them: any schedule that is looked at may name one.
    pub(crate) calendars: BTreeMap<String, StoredCalendar>,
    pub(crate) presets: BTreeMap<String, CronPreset>,
    pub(crate) templates: BTreeMap<String, Template>,
    template_names: BTreeMap<TemplateId, Name>,
    queues: BTreeMap<String, bool>,
    limits: BTreeMap<String, Limit>,
    channels: BTreeMap<String, ChannelDefinition>,
    /// Those that are wanted; all of them where a channel is.
    pub(crate) rules: BTreeMap<String, RuleDefinition>,
    pub(crate) flows: BTreeMap<String, Flow>,
    /// Whose flow a name is, of all flows.
    pub(crate) flow_owners: BTreeMap<String, Option<String>>,
    pub(crate) schedules: BTreeMap<String, Schedule>,
    /// Schedules that are not the manifest's, and use a calendar which changes, or a flow which goes.
    pub(crate) users: Vec<Schedule>,
    schedule_names: BTreeMap<ScheduleId, String>,
}

impl Present {
    /// Reads what manifests have: one owner's things, and what else is wanted.
    pub(crate) async fn read_managed(
        &mut self, store: &dyn Store, owner: Option<&str>, wanted: &Wanted,
    ) -> StoreResult<()> {
        each_page!(
            after: Key => store.managed(None, after.as_ref().map(|(kind, name)| (*kind, name.as_str())), PAGE),
            row: (row.said.kind, row.said.name.clone()) => {
                let own = owner == Some(row.owner.as_str());
                if own || wanted.has(row.said.kind, &row.said.name) {
                    self.managed.insert((row.said.kind, row.said.name.clone()), row);
                }
            }
        );
        Ok(())
    }

    /// Reads calendars, and with them what schedules may name beside them.
    pub(crate) async fn read_calendars(&mut self, store: &dyn Store, wanted: &Wanted) -> StoreResult<()> {
        if !wanted.schedules && !wanted.any(ThingKind::Calendar) && !wanted.any(ThingKind::Schedule) {
            return Ok(());
        }
        each_page!(after: String => store.calendars(after.as_deref(), PAGE),
            row: row.name.to_string() => { self.calendars.insert(row.name.to_string(), row); });
        Ok(())
    }

    /// Reads everything else. Schedules that use one of `moving` calendars and flows are kept as well.
    pub(crate) async fn read_rest(&mut self, state: &AppState, wanted: &Wanted, moving: &Moving) -> Answered<()> {
        let store = state.store.as_ref();
        let schedules = wanted.any(ThingKind::Schedule) || !moving.is_empty();
        if schedules {
            self.read_schedules(store, wanted, moving).await?;
        }
        if schedules || wanted.any(ThingKind::Template) {
            self.read_templates(store, wanted).await?;
        }
        if schedules || wanted.any(ThingKind::Flow) || wanted.any(ThingKind::Template) {
            self.read_flows(store, wanted).await?;
        }
        self.read_small(store, wanted).await?;
        Ok(())
    }

    async fn read_schedules(&mut self, store: &dyn Store, wanted: &Wanted, moving: &Moving) -> StoreResult<()> {
        let (mut others, mut alive) = (BTreeSet::new(), BTreeSet::new());
        each_page!(after: String => store.schedules(after.as_deref(), PAGE),
        row: row.definition.name.to_string() => {
            let name = row.definition.name.as_str();
            alive.insert(row.id);
            let is_wanted = wanted.has(ThingKind::Schedule, name);
            if moving.moves(&row) && (!is_wanted || wanted.only_named.contains(name)) {
                self.users.push(row.clone());
            }
            if is_wanted {
                others.extend(row.definition.depends_on.map(|other| other.schedule_id));
                self.schedules.insert(name.to_owned(), row);
            }
        });
        // One that was removed has its name still, which may be another's by now.
        let others: Vec<ScheduleId> = others.intersection(&alive).copied().collect();
        for some in others.chunks(PAGE) {
            self.schedule_names.extend(store.schedule_names(some).await?);
        }
        Ok(())
    }

    async fn read_templates(&mut self, store: &dyn Store, wanted: &Wanted) -> StoreResult<()> {
        each_page!(after: String => store.templates(after.as_deref(), PAGE),
        row: row.name.to_string() => {
            self.template_names.insert(row.id, row.name.clone());
            if wanted.has(ThingKind::Template, row.name.as_str()) {
                self.templates.insert(row.name.to_string(), row);
            }
        });
        Ok(())
    }

    async fn read_flows(&mut self, store: &dyn Store, wanted: &Wanted) -> StoreResult<()> {
        each_page!(after: String => store.flows(None, after.as_deref(), PAGE),
        row: row.name.to_string() => {
            self.flow_owners.insert(row.name.to_string(), row.owner.clone());
            if wanted.has(ThingKind::Flow, row.name.as_str()) {
                self.flows.insert(row.name.to_string(), row);
            }
        });
        Ok(())
    }

    async fn read_small(&mut self, store: &dyn Store, wanted: &Wanted) -> StoreResult<()> {
        if wanted.any(ThingKind::Preset) {
            each_page!(after: String => store.cron_presets(after.as_deref(), PAGE),
            row: row.name.clone() => if wanted.has(ThingKind::Preset, &row.name) {
                self.presets.insert(row.name.clone(), row);
            });
        }
        if wanted.any(ThingKind::Queue) {
            each_page!(after: String => store.queues(after.as_deref(), PAGE),
            row: row.name.clone() => if wanted.has(ThingKind::Queue, &row.name) {
                self.queues.insert(row.name.clone(), row.paused);
            });
        }
        if wanted.any(ThingKind::Limit) {
            each_page!(after: LimitSubject => store.limits(after.as_ref(), PAGE),
            row: row.limit.subject.clone() => if wanted.has(ThingKind::Limit, &row.limit.subject.to_string()) {
                self.limits.insert(row.limit.subject.to_string(), row.limit);
            });
        }
        if wanted.any(ThingKind::Channel) {
            each_page!(after: String => store.channels(after.as_deref(), PAGE),
            row: row.definition.name.to_string() => if wanted.has(ThingKind::Channel, row.definition.name.as_str()) {
                self.channels.insert(row.definition.name.to_string(), row.definition);
            });
        }
        // A rule that nothing names may need a channel that goes.
        let channels = !wanted.all && wanted.any(ThingKind::Channel);
        if channels || wanted.any(ThingKind::Rule) {
            each_page!(after: String => store.rules(after.as_deref(), PAGE),
            row: row.definition.name.to_string() => if channels || wanted.has(ThingKind::Rule, row.definition.name.as_str()) {
                self.rules.insert(row.definition.name.to_string(), row.definition);
            });
        }
        Ok(())
    }

    /// A thing as it stands in the store.
    pub(crate) fn thing(&self, kind: ThingKind, name: &str) -> Option<Thing> {
        match kind {
            ThingKind::Calendar => self.calendars.get(name).map(|calendar| Thing::Calendar {
                description: calendar.description.clone(),
                rules: calendar.rules.clone(),
            }),
            ThingKind::Preset => self.presets.get(name).map(|preset| Thing::Preset {
                expression: preset.expression.clone(),
                description: preset.description.clone(),
            }),
            ThingKind::Template => self.templates.get(name).map(|template| Thing::Template {
                job: Box::new(template.job.clone()),
                parameters: template.parameters.clone(),
            }),
            ThingKind::Queue => self.queues.get(name).map(|paused| Thing::Queue { paused: *paused }),
            ThingKind::Limit => self.limits.get(name).cloned().map(Thing::Limit),
            ThingKind::Channel => self.channels.get(name).cloned().map(Thing::Channel),
            ThingKind::Rule => self.rules.get(name).cloned().map(Thing::Rule),
            ThingKind::Flow => self
                .flows
                .get(name)
                .map(|flow| Thing::Flow { definition: flow.definition.clone(), owner: flow.owner.clone() }),
            ThingKind::Schedule => {
                self.schedules.get(name).map(|schedule| Thing::Schedule(Box::new(self.schedule_thing(schedule))))
            }
        }
    }

    fn schedule_thing(&self, schedule: &Schedule) -> ScheduleThing {
        let definition = schedule.definition.clone();
        let other = definition.depends_on.and_then(|other| self.schedule_names.get(&other.schedule_id));
        ScheduleThing {
            depends_on: other.and_then(|name| Name::new(name.clone()).ok()),
            template: definition.template_id.and_then(|id| self.template_names.get(&id).cloned()),
            paused: Some(!schedule.state.enabled),
            definition,
        }
    }

    /// The names of everything that was kept, in the order in which it is made.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let kept: [(ThingKind, Vec<&String>); 9] = [
            (ThingKind::Calendar, self.calendars.keys().collect()),
            (ThingKind::Preset, self.presets.keys().collect()),
            (ThingKind::Template, self.templates.keys().collect()),
            (ThingKind::Queue, self.queues.keys().collect()),
            (ThingKind::Limit, self.limits.keys().collect()),
            (ThingKind::Channel, self.channels.keys().collect()),
            (ThingKind::Rule, self.rules.keys().collect()),
            (ThingKind::Flow, self.flows.keys().collect()),
            (ThingKind::Schedule, self.schedules.keys().collect()),
        ];
        let keys = kept.into_iter().flat_map(|(kind, names)| names.into_iter().map(move |name| (kind, name.clone())));
        keys.collect()
    }

    /// When nothing may run by a calendar.
    pub(crate) fn rules_of(&self, calendar: &str) -> Option<&CalendarRules> {
        self.calendars.get(calendar).map(|calendar| &calendar.rules)
    }

    /// Whose a thing is, for those that are not everybody's.
    pub(crate) fn owner_of(&self, kind: ThingKind, name: &str) -> Option<Whose<'_>> {
        match kind {
            ThingKind::Schedule => self.schedules.get(name).map(|schedule| Whose(schedule.definition.owner.as_deref())),
            ThingKind::Flow => self.flows.get(name).map(|flow| Whose(flow.owner.as_deref())),
            _ => None,
        }
    }
}

/// What changes and is used by schedules that a manifest does not name.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    /// Calendars whose days and times change.
    pub(crate) calendars: BTreeSet<String>,
    /// Flows that go.
    pub(crate) flows: BTreeSet<String>,
}

impl Moving {
    fn is_empty(&self) -> bool {
        self.calendars.is_empty() && self.flows.is_empty()
    }

    fn moves(&self, schedule: &Schedule) -> bool {
        let Schedule { definition, .. } = schedule;
        let calendar = definition.calendar.as_ref().is_some_and(|calendar| self.calendars.contains(calendar));
        calendar || flow_of(&definition.target).is_some_and(|flow| self.flows.contains(flow))
    }
}

/// The stored flow that a target runs.
pub(crate) fn flow_of(target: &Target) -> Option<&str> {
    match target {
        Target::Flow(flow) if flow.definition.is_none() => Some(flow.name.as_str()),
        _ => None,
    }
}

/// The owner of a thing, if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whose<'a>(pub(crate) Option<&'a str>);
