//! What a manifest's things shall be, once presets and templates are filled in and everything that they name is found.

use super::present::Present;
use super::read::{Key, Manifest, SaidOf, SaidSchedule};
use super::refusal::Refusals;
use crate::api::cron::no_preset;
use crate::api::flows::{name_flows, name_flows_of_steps, no_flow};
use crate::api::job_shapes::whole_micros;
use crate::api::schedule_shapes::Begin;
use crate::api::templates::{filled, no_template};
use crate::auth::Caller;
use punctual_core::cron::CronPreset;
use punctual_core::id::ScheduleId;
use punctual_core::invalid::Invalid;
use punctual_core::job::NewJob;
use punctual_core::manifest::{ScheduleThing, Thing, ThingKind};
use punctual_core::name::Name;
use punctual_core::schedule::{Dependency, ScheduleDefinition, Source};
use punctual_core::template::Parameter;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// What shall be there.
#[derive(Debug)]
pub(crate) struct Desired {
    pub(crate) owner: String,
    pub(crate) things: BTreeMap<Key, Thing>,
    /// What is the owner's, and not in the manifest any more.
    pub(crate) left: BTreeSet<Key>,
    /// Whether that is to be removed.
    pub(crate) prune: bool,
    /// What is in the manifest and was refused already.
    refused: BTreeSet<Key>,
}

impl Desired {
    /// Whether a schedule begins with a preset or a template that was refused: what it would be cannot be said.
    fn begins_with_refused(&self, said: &SaidSchedule) -> bool {
        let begins = [(ThingKind::Preset, &said.body.preset), (ThingKind::Template, &said.body.template)];
        let named = begins.into_iter().filter_map(|(kind, name)| Some((kind, name.clone()?)));
        named.into_iter().any(|key| self.refused.contains(&key))
    }
}

/// Finds out what a manifest's things shall be.
pub(crate) struct Resolver<'a> {
    pub(crate) present: &'a Present,
    pub(crate) caller: &'a Caller,
    pub(crate) refusals: &'a mut Refusals,
    pub(crate) prune: bool,
}

impl Resolver<'_> {
    pub(crate) fn resolve(&mut self, manifest: Manifest) -> Desired {
        let Manifest { owner, things: said, refused } = manifest;
        let left: BTreeSet<Key> = self.left(&owner, |key| said.contains_key(key) || refused.contains(key));
        let mut desired = Desired { owner, things: BTreeMap::new(), left, prune: self.prune, refused };
        // Schedules come last in the order of kinds, so that what they are made from is there by then.
        for ((kind, name), said) in said {
            let thing = match said {
                SaidOf::Thing(thing) => Ok(*thing),
                SaidOf::Schedule(said) if desired.begins_with_refused(&said) => continue,
                SaidOf::Schedule(said) => self.schedule(&name, *said, &desired),
            };
            match thing {
                Ok(thing) => drop(desired.things.insert((kind, name), thing)),
                Err(invalid) => {
                    self.refusals.invalid(kind, &name, invalid);
                    desired.refused.insert((kind, name));
                }
            }
        }
        self.check_references(&desired);
        desired
    }

    fn left(&self, owner: &str, is_said: impl Fn(&Key) -> bool) -> BTreeSet<Key> {
        let own = self.present.managed.iter().filter(|(_, managed)| managed.owner == owner);
        own.map(|(key, _)| key.clone()).filter(|key| !is_said(key)).collect()
    }

    fn schedule(&self, name: &str, said: SaidSchedule, desired: &Desired) -> Result<Thing, Invalid> {
        let SaidSchedule { body, depends_on, paused } = said;
        let cron = body.preset.as_deref().map(|preset| self.expression(preset, desired)).transpose()?;
        let template = body.template.clone().map(Name::new).transpose();
        let template = template.map_err(|invalid| Invalid { field: "template".to_owned(), ..invalid })?;
        let job = match (&template, &body.parameters) {
            (None, Some(_)) => {
                return Err(Invalid::new("parameters", "are given without template").remedy("name the template"));
            }
            (None, None) => None,
            (Some(template), given) => {
                let (job, parameters) = self.template(template, desired)?;
                Some(filled(job, &parameters, given.as_ref(), body.input.is_some())?)
            }
        };
        let definition = body.into_definition(Begin { cron, job }, Some(desired.owner.clone()), Source::File)?;
        let other = depends_on.as_ref().map(|other| Name::new(other.schedule.clone())).transpose();
        let other = other.map_err(|invalid| Invalid { field: "depends_on.schedule".to_owned(), ..invalid })?;
        let definition = ScheduleDefinition {
            starts_at: definition.starts_at.map(whole_micros),
            ends_at: definition.ends_at.map(whole_micros),
            // Which one that is, the store finds by its name: it may be made by the same manifest.
            depends_on: depends_on
                .map(|other| Dependency { schedule_id: ScheduleId(Uuid::nil()), within: other.within }),
            ..definition
        };
        let thing = Thing::Schedule(Box::new(ScheduleThing { definition, depends_on: other, template, paused }));
        thing.validate(name)?;
        Ok(thing)
    }

    fn expression(&self, name: &str, desired: &Desired) -> Result<String, Invalid> {
        if let Some(Thing::Preset { expression, .. }) = desired.things.get(&(ThingKind::Preset, name.to_owned())) {
            return Ok(expression.clone());
        }
        let stored = || self.present.presets.get(name).map(|preset| preset.expression.clone());
        let built_in = CronPreset::built_in(name).map(|preset| preset.expression);
        built_in.or_else(stored).ok_or_else(|| no_preset(name))
    }

    fn template(&self, name: &Name, desired: &Desired) -> Result<(NewJob, Vec<Parameter>), Invalid> {
        let stored = self.present.templates.get(name.as_str());
        let template_id = stored.map(|template| template.id);
        let key = (ThingKind::Template, name.to_string());
        match (desired.things.get(&key), stored) {
            (Some(Thing::Template { job, parameters }), _) => {
                Ok((NewJob { template_id, ..(**job).clone() }, parameters.clone()))
            }
            (_, Some(stored)) => Ok((NewJob { template_id, ..stored.job.clone() }, stored.parameters.clone())),
            _ => Err(no_template(name.as_str())),
        }
    }

    /// Whether a name is there when the manifest has been applied.
    fn is_there(&self, desired: &Desired, kind: ThingKind, name: &str) -> bool {
        let key = (kind, name.to_owned());
        let goes = desired.prune && desired.left.contains(&key);
        let stands = match kind {
            ThingKind::Calendar => self.present.calendars.contains_key(name),
            ThingKind::Flow => {
                self.present.flow_owners.get(name).is_some_and(|owner| self.caller.sees(owner.as_deref()))
            }
            ThingKind::Schedule => {
                let found = self.present.schedules.get(name);
                found.is_some_and(|schedule| self.caller.sees(schedule.definition.owner.as_deref()))
            }
            _ => true,
        };
        desired.things.contains_key(&key) || desired.refused.contains(&key) || (stands && !goes)
    }

    fn check_references(&mut self, desired: &Desired) {
        for ((kind, name), thing) in &desired.things {
            let mut flows = Vec::new();
            match thing {
                Thing::Flow { definition, .. } => name_flows_of_steps(definition, "", &mut flows),
                Thing::Template { job, .. } => name_flows(&job.target, "job.target.", &mut flows),
                Thing::Schedule(schedule) => {
                    name_flows(&schedule.definition.target, "target.", &mut flows);
                    self.check_named(name, schedule, desired);
                }
                _ => {}
            }
            for (field, flow) in flows {
                if !self.is_there(desired, ThingKind::Flow, &flow) {
                    let invalid = no_flow(field, &flow).remedy("add it to the manifest's flows, or name another one");
                    self.refusals.invalid(*kind, name, invalid);
                }
            }
        }
    }

    fn check_named(&mut self, name: &str, schedule: &ScheduleThing, desired: &Desired) {
        if let Some(calendar) = &schedule.definition.calendar
            && !self.is_there(desired, ThingKind::Calendar, calendar)
        {
            let told = format!("there is no calendar `{calendar}`, or none will be left");
            let invalid =
                Invalid::new("calendar", told).remedy("add it to the manifest's calendars, or name another one");
            self.refusals.invalid(ThingKind::Schedule, name, invalid);
        }
        if let Some(other) = &schedule.depends_on
            && !self.is_there(desired, ThingKind::Schedule, other.as_str())
        {
            let told = format!("there is no schedule `{other}`, or none will be left");
            let invalid = Invalid::new("depends_on.schedule", told)
                .remedy("add it to the manifest's schedules, or name another one");
            self.refusals.invalid(ThingKind::Schedule, name, invalid);
        }
    }
}

/// The schedules in an order in which each comes after the one that it depends on; those that wait for one another in a
/// ring are the other answer.
pub(crate) fn in_order(things: &BTreeMap<Key, Thing>) -> Result<Vec<&str>, Vec<&str>> {
    let dependency = |thing: &Thing| match thing {
        Thing::Schedule(schedule) => schedule.depends_on.as_ref().map(Name::to_string),
        _ => None,
    };
    let of = |name: &str| things.get(&(ThingKind::Schedule, name.to_owned()));
    let names = things.keys().filter(|(kind, _)| *kind == ThingKind::Schedule).map(|(_, name)| name.as_str());
    let (mut ordered, mut done) = (Vec::new(), BTreeSet::new());
    for name in names.clone() {
        let (mut way, mut passed): (Vec<&str>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
        let mut next = Some(name);
        while let Some(name) = next.filter(|name| !done.contains(name)) {
            if !passed.insert(name) {
                let begin = way.iter().position(|passed| *passed == name).unwrap_or_default();
                return Err(way.split_off(begin));
            }
            way.push(name);
            let other = of(name).and_then(dependency);
            next = other
                .and_then(|other| things.get_key_value(&(ThingKind::Schedule, other)))
                .map(|((_, name), _)| name.as_str());
        }
        for name in way.into_iter().rev() {
            done.insert(name);
            ordered.push(name);
        }
    }
    Ok(ordered)
}
