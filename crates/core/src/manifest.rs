//! Manifests: schedules, and what they need, as a file says them; applied in one transaction, owned by a label.
//!
//! Whoever applies a manifest has planned with what the store held. Each edit carries what it was planned with, and the
//! store refuses all of them when one of those is not there any more, so that nobody's change is overwritten unseen.
//! What a manifest has made is written down with its owner: another owner's manifest neither changes nor removes it, and
//! what was changed by hand since is seen by comparing.

use crate::calendar::CalendarRules;
use crate::flow::FlowDefinition;
use crate::id::ScheduleId;
use crate::invalid::Invalid;
use crate::job::NewJob;
use crate::json::Json;
use crate::limits::Limit;
use crate::name::{self, Name};
use crate::notify::channel::ChannelDefinition;
use crate::notify::rule::RuleDefinition;
use crate::schedule::ScheduleDefinition;
use crate::store::StoreResult;
use crate::template::{self, Parameter};
use crate::words::words;
use async_trait::async_trait;
use jiff::Timestamp;
use std::collections::BTreeSet;

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
            Self::Preset { expression, description } => {
                name::check_text("description", description)?;
                crate::cron::Recurrence::parse(expression, Some(name))
                    .map(drop)
                    .map_err(|error| Invalid::new("expression", error.to_string()))
            }
            Self::Template { job, parameters } => {
                job.validate()?;
                template::check_parameters(parameters, &job.input)
            }
            Self::Queue { .. } => name::check(name),
            Self::Limit(limit) => limit.validate(),
            Self::Channel(channel) => channel.validate(),
            Self::Rule(rule) => rule.validate(),
            Self::Flow { definition, .. } => definition.validate(),
            Self::Schedule(schedule) => schedule.definition.validate(),
        }
    }
}

/// One thing that is made (`from` is absent), changed, or removed (`to` is absent).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThingEdit {
    /// Which kind.
    pub kind: ThingKind,
    /// What it is called; of a limit its subject.
    pub name: String,
    /// What it was when the edit was planned. The store compares; of a schedule everything but its state counts.
    pub from: Option<Thing>,
    /// What it shall be.
    pub to: Option<Thing>,
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
        let mut seen = BTreeSet::new();
        for edit in &self.edits {
            let at = |refused: Invalid| Invalid {
                field: format!("{}s.{}.{}", edit.kind, edit.name, refused.field),
                ..refused
            };
            if !seen.insert((edit.kind, edit.name.as_str())) {
                let problem = format!("the {} `{}` is there twice", edit.kind, edit.name);
                return Err(Invalid::new("edits", problem).remedy("say each thing once"));
            }
            if let Some(thing) = &edit.to {
                thing.validate(&edit.name).map_err(at)?;
            }
        }
        self.said.iter().try_for_each(|said| said.definition.check("definition"))
    }
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
    /// what it was planned with ([`StoreError::Overtaken`](crate::store::StoreError::Overtaken)), one that another
    /// owner's manifest has ([`StoreError::ManagedBy`](crate::store::StoreError::ManagedBy)), what could never work,
    /// and removing what others need.
    async fn apply_manifest(&self, application: Application) -> StoreResult<Applied>;
}
