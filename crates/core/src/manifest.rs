//! Manifests: schedules, and what they need, as a file says them; applied in one transaction, owned by a label.
//!
//! Whoever applies a manifest has planned with what the store held. Each edit carries what it was planned with, and the
//! store refuses all of them when one of those is not there any more, so that nobody's change is overwritten unseen.
//! What a manifest has made is written down with its owner: another owner's manifest neither changes nor removes it, and
//! what was changed by hand since is seen by comparing. Both stores judge by the rules here.

use crate::calendar::CalendarRules;
use crate::cron::CronPreset;
use crate::flow::FlowDefinition;
use crate::id::{ScheduleId, TemplateId};
use crate::invalid::Invalid;
use crate::job::NewJob;
use crate::json::Json;
use crate::limits::{Limit, LimitSubject};
use crate::name::{self, Name};
use crate::notify::channel::ChannelDefinition;
use crate::notify::rule::RuleDefinition;
use crate::schedule::{Dependency, Schedule, ScheduleDefinition};
use crate::store::{StoreError, StoreResult};
use crate::template::{self, Parameter};
use crate::words::words;
use async_trait::async_trait;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

words! {
    /// What a manifest holds, in the order in which it is made: a thing comes after everything that it may name.
    pub enum ThingKind as "kind of thing" {
        /// Days and times at which nothing may run.
        Calendar = "calendar",
        /// A cron expression with a name.
        Preset = "preset",
        /// A named job to begin with.
        Template = "template",
        /// Whether a queue is paused.
        Queue = "queue",
        /// How many jobs run at once and start in a while.
        Limit = "limit",
        /// Where people are told.
        Channel = "channel",
        /// Of what they are told.
        Rule = "rule",
        /// Steps that follow one another.
        Flow = "flow",
        /// When and what.
        Schedule = "schedule",
    }
}

impl ThingKind {
    /// Refuses what no thing of this kind is called.
    fn check_name(self, text: &str) -> Result<(), Invalid> {
        match self {
            Self::Preset | Self::Queue => name::check(text),
            Self::Limit => text.parse::<LimitSubject>().map(drop),
            _ => Name::new(text).map(drop),
        }
    }
}

/// A schedule as a manifest says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleThing {
    /// What it is. Where another schedule is meant by its name (`depends_on`), the id here does not count.
    pub definition: ScheduleDefinition,
    /// The schedule that must have succeeded, by name: it may be made by the same manifest. `definition.depends_on` says
    /// how long ago.
    pub depends_on: Option<Name>,
    /// The template that it is made from, by name.
    pub template: Option<Name>,
    /// Whether it is paused; `None` leaves that to people.
    pub paused: Option<bool>,
}

impl ScheduleThing {
    /// A stored schedule; what it names is told by ids, as it is stored.
    pub fn of(stored: &Schedule) -> Self {
        let paused = Some(!stored.state.enabled);
        Self { definition: stored.definition.clone(), depends_on: None, template: None, paused }
    }

    /// The same with ids in place of names, so that it can be compared with what is stored, and stored itself. Refused
    /// when a name stands for nothing.
    pub fn with_ids(&self, dependency: Option<ScheduleId>, template: Option<TemplateId>) -> Result<Self, Invalid> {
        let mut definition = self.definition.clone();
        if let Some(name) = &self.depends_on {
            let schedule_id = dependency.ok_or_else(|| names_nothing("depends_on", "schedule", name.as_str()))?;
            definition.depends_on = definition.depends_on.map(|other| Dependency { schedule_id, ..other });
        }
        if let Some(name) = &self.template {
            let id = template.ok_or_else(|| names_nothing("template", "template", name.as_str()))?;
            definition.template_id = Some(id);
        }
        Ok(Self { definition, depends_on: None, template: None, paused: self.paused })
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.depends_on.is_some() && self.definition.depends_on.is_none() {
            return Err(
                Invalid::new("depends_on", "does not say how long ago the success may lie").remedy("say within")
            );
        }
        self.definition.validate()
    }
}

fn names_nothing(field: &str, what: &str, name: &str) -> Invalid {
    Invalid::new(field, format!("there is no {what} `{name}`")).remedy("put it into the manifest, or make it first")
}

/// What a thing is, without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thing {
    /// A calendar.
    Calendar {
        /// For people.
        description: String,
        /// When nothing may run.
        rules: CalendarRules,
    },
    /// A cron preset.
    Preset {
        /// The expression.
        expression: String,
        /// For people.
        description: String,
    },
    /// A template.
    Template {
        /// What jobs made from it look like.
        job: Box<NewJob>,
        /// What is filled in by whoever uses it.
        parameters: Vec<Parameter>,
    },
    /// A queue.
    Queue {
        /// Whether nothing is claimed from it.
        paused: bool,
    },
    /// A limit; its name is its subject, such as `queue:mail`.
    Limit(Limit),
    /// A channel.
    Channel(ChannelDefinition),
    /// A rule.
    Rule(RuleDefinition),
    /// A flow.
    Flow {
        /// Its steps.
        definition: FlowDefinition,
        /// Whose it is.
        owner: Option<String>,
    },
    /// A schedule.
    Schedule(Box<ScheduleThing>),
}

impl Thing {
    /// Which kind it is.
    pub fn kind(&self) -> ThingKind {
        match self {
            Self::Calendar { .. } => ThingKind::Calendar,
            Self::Preset { .. } => ThingKind::Preset,
            Self::Template { .. } => ThingKind::Template,
            Self::Queue { .. } => ThingKind::Queue,
            Self::Limit(_) => ThingKind::Limit,
            Self::Channel(_) => ThingKind::Channel,
            Self::Rule(_) => ThingKind::Rule,
            Self::Flow { .. } => ThingKind::Flow,
            Self::Schedule(_) => ThingKind::Schedule,
        }
    }

    /// Refuses what could never work, before anything is stored.
    pub fn validate(&self, name: &str) -> Result<(), Invalid> {
        match self {
            Self::Calendar { description, rules } => {
                name::check_text("description", description)?;
                rules.validate()
            }
            Self::Preset { expression, description } => preset(name, expression, description).validate(),
            Self::Template { job, parameters } => {
                job.validate()?;
                template::check_parameters(parameters, &job.input)
            }
            Self::Queue { .. } => name::check(name),
            Self::Limit(limit) => limit.validate(),
            Self::Channel(channel) => channel.validate(),
            Self::Rule(rule) => rule.validate(),
            Self::Flow { definition, .. } => definition.validate(),
            Self::Schedule(schedule) => schedule.validate(),
        }
    }

    /// What it calls itself, where the name is a part of what it is.
    fn own_name(&self) -> Option<String> {
        match self {
            Self::Limit(limit) => Some(limit.subject.to_string()),
            Self::Channel(channel) => Some(channel.name.to_string()),
            Self::Rule(rule) => Some(rule.name.to_string()),
            Self::Schedule(schedule) => Some(schedule.definition.name.to_string()),
            _ => None,
        }
    }

    /// Whether what stands is what somebody planned with. A queue that nobody has used is one that is not paused; of a
    /// schedule whose pause is left to people only the definition counts.
    pub fn stands(planned: Option<&Self>, standing: Option<&Self>) -> bool {
        match (planned, standing) {
            (None, Some(Self::Queue { paused })) | (Some(Self::Queue { paused }), None) => !paused,
            (Some(Self::Schedule(planned)), Some(Self::Schedule(standing))) => {
                planned.definition == standing.definition
                    && (planned.paused.is_none() || planned.paused == standing.paused)
            }
            _ => planned == standing,
        }
    }
}

/// A preset as the stores take it.
pub fn preset(name: &str, expression: &str, description: &str) -> CronPreset {
    let (expression, description) = (expression.to_owned(), description.to_owned());
    CronPreset { name: name.to_owned(), expression, description, created_at: None }
}

/// One thing that is made (`from` is absent), changed, or removed (`to` is absent). Where both are the same nothing is
/// done, but that it still is so is looked at: for a thing that a manifest takes over as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThingEdit {
    /// Which kind.
    pub kind: ThingKind,
    /// What it is called; of a limit its subject.
    pub name: String,
    /// What it was when the edit was planned. The store compares; of a schedule everything but its state counts.
    pub from: Option<Thing>,
    /// What it shall be. A queue goes on where it is absent, because queues are never removed.
    pub to: Option<Thing>,
}

impl ThingEdit {
    /// The refusal when it is not what the edit was planned with.
    pub fn overtaken(&self) -> StoreError {
        StoreError::Overtaken { what: self.kind.as_str(), name: self.name.clone() }
    }

    /// Where in a manifest something is wrong.
    fn field(&self, field: &str) -> String {
        format!("{}s.{}.{field}", self.kind, self.name)
    }

    /// A refusal with the thing that it is about. What is not found is what this one names, not this one itself.
    pub fn explain(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Invalid(refused) => Invalid { field: self.field(&refused.field), ..refused }.into(),
            StoreError::NotFound { what, key } => names_nothing(&self.field(what), what, &key).into(),
            other => other,
        }
    }

    fn validate(&self) -> Result<(), Invalid> {
        self.kind.check_name(&self.name)?;
        for thing in [&self.from, &self.to].into_iter().flatten() {
            if thing.kind() != self.kind || thing.own_name().is_some_and(|own| own != self.name) {
                let problem = format!("what is said of it is of a {} of another name", thing.kind());
                return Err(Invalid::new("name", problem).remedy("call a thing the same everywhere"));
            }
        }
        match (&self.from, &self.to) {
            (None, None) => Err(Invalid::new("to", "nothing is to be done").remedy("leave it out")),
            (Some(Thing::Flow { owner: old, .. }), Some(Thing::Flow { owner: new, .. })) if old != new => {
                Err(Invalid::new("owner", "cannot be changed").remedy("give it another name, or remove it first"))
            }
            (_, Some(to)) => to.validate(&self.name),
            (Some(_), None) => Ok(()),
        }
    }
}

/// What a manifest says of a thing, as it is kept to see later what was changed by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Which kind.
    pub kind: ThingKind,
    /// What it is called.
    pub name: String,
    /// What it was made to be, in the words of the API.
    pub definition: Json,
}

/// What is carried out together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Whose manifest it is.
    pub owner: String,
    /// What changes, in the order in which it is done.
    pub edits: Vec<ThingEdit>,
    /// What the manifest holds and the store shall know as its owner's: new, or said otherwise than before.
    pub said: Vec<Said>,
    /// What is the owner's no longer.
    pub forgotten: Vec<(ThingKind, String)>,
}

impl Application {
    /// Refuses what could never work, and one thing twice.
    pub fn validate(&self) -> Result<(), Invalid> {
        name::check(&self.owner).map_err(|e| Invalid { field: "owner".into(), ..e })?;
        check_once("edits", self.edits.iter().map(|edit| (edit.kind, edit.name.as_str())))?;
        check_once("said", self.said.iter().map(|said| (said.kind, said.name.as_str())))?;
        for edit in &self.edits {
            edit.validate().map_err(|refused| Invalid { field: edit.field(&refused.field), ..refused })?;
        }
        for said in &self.said {
            said.kind.check_name(&said.name)?;
            said.definition.check("definition")?;
        }
        self.forgotten.iter().try_for_each(|(_, name)| name::check_text("forgotten", name))
    }

    /// Every thing whose owner matters, once.
    pub fn things(&self) -> BTreeSet<(ThingKind, &str)> {
        let edited = self.edits.iter().map(|edit| (edit.kind, edit.name.as_str()));
        edited.chain(self.said.iter().map(|said| (said.kind, said.name.as_str()))).collect()
    }

    /// Refuses what another owner's manifest has, and removing what this owner's has not, or has no longer.
    pub fn check_owners(&self, owners: &BTreeMap<(ThingKind, String), String>) -> StoreResult<()> {
        let taken = owners.iter().find(|(_, owner)| **owner != self.owner);
        if let Some(((kind, name), owner)) = taken {
            let (name, owner) = (name.clone(), owner.clone());
            return Err(StoreError::ManagedBy { what: kind.as_str(), name, owner });
        }
        let mut removed = self.edits.iter().filter(|edit| edit.to.is_none());
        let not_ours = removed.find(|edit| !owners.contains_key(&(edit.kind, edit.name.clone())));
        not_ours.map_or(Ok(()), |edit| Err(edit.overtaken()))
    }

    /// What is the owner's no longer: what is removed, too.
    pub fn all_forgotten(&self) -> impl Iterator<Item = (ThingKind, &str)> {
        let removed = self.edits.iter().filter(|edit| edit.to.is_none());
        let removed = removed.map(|edit| (edit.kind, edit.name.as_str()));
        removed.chain(self.forgotten.iter().map(|(kind, name)| (*kind, name.as_str())))
    }

    /// Who pauses a schedule that the manifest says is paused.
    pub fn pauses_as(&self) -> String {
        format!("manifest of {}", self.owner)
    }

    /// Why such a schedule is paused.
    pub fn pause_note(&self) -> String {
        format!("paused by the manifest of {}", self.owner)
    }
}

fn check_once<'a>(field: &str, things: impl Iterator<Item = (ThingKind, &'a str)>) -> Result<(), Invalid> {
    let mut seen = BTreeSet::new();
    for (kind, name) in things {
        if !seen.insert((kind, name)) {
            let problem = format!("the {kind} `{name}` is there twice");
            return Err(Invalid::new(field, problem).remedy("say each thing once"));
        }
    }
    Ok(())
}

/// A thing that a manifest has made or taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Managed {
    /// What was said of it last.
    pub said: Said,
    /// Whose manifest has it.
    pub owner: String,
    /// When that was applied last, with a change of it.
    pub applied_at: Timestamp,
}

/// What was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// Things that were made.
    pub made: usize,
    /// Things that were changed.
    pub changed: usize,
    /// Things that were removed.
    pub removed: usize,
    /// The schedules that were made or changed, in the order of the edits.
    pub schedules: Vec<ScheduleId>,
}

impl Applied {
    /// Counts what an edit did.
    pub fn count(&mut self, edit: &ThingEdit) {
        match (&edit.from, &edit.to) {
            (None, _) => self.made += 1,
            (Some(_), None) => self.removed += 1,
            (Some(from), Some(to)) => self.changed += usize::from(from != to),
        }
    }
}

/// Where a list of managed things goes on: after this kind and name.
pub type ManagedAfter<'a> = Option<(ThingKind, &'a str)>;

/// The part of the store that keeps what manifests say.
#[async_trait]
pub trait Manifests: Send + Sync {
    /// What manifests have, in order of kind (as the words are spelled) and name, after one; of one owner, or of all.
    async fn managed(&self, owner: Option<&str>, after: ManagedAfter<'_>, limit: usize) -> StoreResult<Vec<Managed>>;

    /// Which manifest has a thing, if one does.
    async fn managed_thing(&self, kind: ThingKind, name: &str) -> StoreResult<Option<Managed>>;

    /// Carries out what was planned: all of it, or nothing. Schedules are edited as by hand. Refused: a thing that is not
    /// what it was planned with ([`StoreError::Overtaken`]), one that another owner's manifest has
    /// ([`StoreError::ManagedBy`]), what could never work, removing what others need, and removing what this owner's
    /// manifest has not.
    async fn apply_manifest(&self, application: Application) -> StoreResult<Applied>;
}
