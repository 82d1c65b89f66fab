//! Manifests: what they have, and how one is applied, by the verbs with which people change the same things.

use crate::SqliteStore;
use crate::rows::{self, Columns, Unreadable};
use crate::tx::{Tx, value};
use crate::{holds, sql};
use async_trait::async_trait;
use punctual_core::id::ScheduleId;
use punctual_core::manifest::{
    Application, Applied, Managed, ManagedAfter, Manifests, Said, ScheduleThing, Thing, ThingEdit, ThingKind, preset,
};
use punctual_core::name::Name;
use punctual_core::schedule::Schedule;
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::{Row, params};
use std::collections::BTreeMap;

#[async_trait]
impl Manifests for SqliteStore {
    async fn managed(&self, owner: Option<&str>, after: ManagedAfter<'_>, limit: usize) -> StoreResult<Vec<Managed>> {
        let (kind, name) = after.map_or(("", ""), |(kind, name)| (kind.as_str(), name));
        let (owner, name, limit) =
            (owner.map(str::to_owned), name.to_owned(), i64::try_from(limit).unwrap_or(i64::MAX));
        self.read(move |connection| match owner {
            Some(owner) => {
                rows::collect(connection, sql::managed_page_of_owner, params![owner, kind, name, limit], managed)
            }
            None => rows::collect(connection, sql::managed_page, params![kind, name, limit], managed),
        })
        .await
    }

    async fn managed_thing(&self, kind: ThingKind, name: &str) -> StoreResult<Option<Managed>> {
        let find = "SELECT kind, name, definition, owner, applied_at FROM punctual_managed_things
                    WHERE kind = ?1 AND name = ?2";
        let name = name.to_owned();
        self.read(move |connection| Ok(rows::collect(connection, find, params![kind.as_str(), name], managed)?.pop()))
            .await
    }

    async fn apply_manifest(&self, application: Application) -> StoreResult<Applied> {
        application.validate()?;
        self.write_plans(move |tx| tx.apply_manifest(&application)).await
    }
}

fn managed(row: &Row<'_>) -> Result<Managed, Unreadable> {
    let mut c = Columns::of(row);
    let said = Said { kind: c.word()?, name: c.next()?, definition: c.json()? };
    Ok(Managed { said, owner: c.next()?, applied_at: c.time()? })
}

/// A thing as it is stored.
struct Standing {
    thing: Thing,
    /// Where its kind has versions.
    version: i64,
    /// Where it is a schedule.
    schedule: Option<ScheduleId>,
}

impl Standing {
    fn plain(thing: Thing) -> Self {
        Self::versioned(thing, 0)
    }

    fn versioned(thing: Thing, version: i64) -> Self {
        Self { thing, version, schedule: None }
    }
}

/// Something that is asked for by name and may not be there.
fn if_there<T>(found: StoreResult<T>) -> StoreResult<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Tx<'_> {
    /// There is one writer, so that nothing moves between two edits; PostgreSQL takes locks.
    fn apply_manifest(&mut self, application: &Application) -> StoreResult<Applied> {
        application.check_owners(&self.owners_of(application)?)?;
        let mut applied = Applied::default();
        for edit in &application.edits {
            let schedule = self.apply_edit(application, edit)?;
            applied.schedules.extend(schedule);
            applied.count(edit);
        }
        self.write_managed(application)?;
        Ok(applied)
    }

    fn owners_of(&self, application: &Application) -> StoreResult<BTreeMap<(ThingKind, String), String>> {
        let find = "SELECT owner FROM punctual_managed_things WHERE kind = ?1 AND name = ?2";
        let mut owners = BTreeMap::new();
        for (kind, name) in application.things() {
            let owner = self.one(find, params![kind.as_str(), name], value)?;
            owners.extend(owner.map(|owner| ((kind, name.to_owned()), owner)));
        }
        Ok(owners)
    }

    fn write_managed(&self, application: &Application) -> StoreResult<()> {
        let forget = "DELETE FROM punctual_managed_things WHERE kind = ?1 AND name = ?2 AND owner = ?3";
        for (kind, name) in application.all_forgotten() {
            self.execute(forget, params![kind.as_str(), name, application.owner])?;
        }
        let keep = "INSERT INTO punctual_managed_things (kind, name, owner, definition, applied_at)
                    VALUES (?1, ?2, ?3, ?4, ?5)
                    ON CONFLICT (kind, name) DO UPDATE SET definition = ?4, applied_at = ?5";
        for said in &application.said {
            let (kind, definition) = (said.kind.as_str(), said.definition.as_str());
            self.execute(keep, params![kind, said.name, application.owner, definition, self.now_us()])?;
        }
        Ok(())
    }

    /// Does one edit; says which schedule was made or changed.
    fn apply_edit(&mut self, application: &Application, edit: &ThingEdit) -> StoreResult<Option<ScheduleId>> {
        let standing = self.standing(edit)?;
        // A name that stands for nothing any more is not what was planned with, either.
        let from = edit.from.as_ref().map(|from| self.by_ids(from)).transpose();
        let planned = from.map_err(|_| edit.overtaken())?;
        if !Thing::stands(planned.as_ref(), standing.as_ref().map(|standing| &standing.thing)) {
            return Err(edit.overtaken());
        }
        let Some(to) = &edit.to else {
            return self.remove_thing(edit, standing.as_ref()).map(|()| None);
        };
        if edit.from == edit.to {
            return Ok(None);
        }
        let done = self.by_ids(to).and_then(|to| match &standing {
            None => self.make_thing(application, &edit.name, &to),
            Some(standing) => self.change_thing(application, &edit.name, standing, &to),
        });
        done.map_err(|error| edit.explain(error))
    }

    /// A thing as the store keeps it: ids where a manifest has names.
    fn by_ids(&self, thing: &Thing) -> StoreResult<Thing> {
        let Thing::Schedule(schedule) = thing else { return Ok(thing.clone()) };
        let id = |name: &Name| -> StoreResult<Option<ScheduleId>> {
            let find = "SELECT id FROM punctual_schedules WHERE name = ?1 AND deleted_at IS NULL";
            self.one(find, params![name.as_str()], |row| Columns::of(row).id())
        };
        let dependency = schedule.depends_on.as_ref().map(id).transpose()?.flatten();
        let template = schedule.template.as_ref();
        let template = template.map(|name| holds::read_template(self.connection(), name.as_str())).transpose()?;
        let template = template.flatten().map(|template| template.id);
        Ok(Thing::Schedule(Box::new(schedule.with_ids(dependency, template)?)))
    }

    /// What is stored under the name of an edit.
    fn standing(&self, edit: &ThingEdit) -> StoreResult<Option<Standing>> {
        let name = edit.name.as_str();
        Ok(match edit.kind {
            ThingKind::Calendar => if_there(self.stored_calendar(name))?.map(|it| {
                Standing::versioned(Thing::Calendar { description: it.description, rules: it.rules }, it.version)
            }),
            ThingKind::Preset => holds::read_preset(self.connection(), name)?
                .map(|it| Standing::plain(Thing::Preset { expression: it.expression, description: it.description })),
            ThingKind::Template => holds::read_template(self.connection(), name)?
                .map(|it| Standing::plain(Thing::Template { job: Box::new(it.job), parameters: it.parameters })),
            ThingKind::Queue => self
                .one("SELECT paused FROM punctual_queues WHERE name = ?1", params![name], value)?
                .map(|paused| Standing::plain(Thing::Queue { paused })),
            ThingKind::Limit => self.limit_said(&name.parse()?)?.map(|it| Standing::plain(Thing::Limit(it))),
            ThingKind::Channel => if_there(self.stored_channel(name))?
                .map(|it| Standing::versioned(Thing::Channel(it.definition), it.version)),
            ThingKind::Rule => {
                if_there(self.stored_rule(name))?.map(|it| Standing::versioned(Thing::Rule(it.definition), it.version))
            }
            ThingKind::Flow => self
                .stored_flow(name)?
                .map(|it| Standing::versioned(Thing::Flow { definition: it.definition, owner: it.owner }, it.version)),
            ThingKind::Schedule => self.one(sql::schedule_by_name, params![name], rows::schedule)?.map(|it| Standing {
                thing: Thing::Schedule(Box::new(ScheduleThing::of(&it))),
                version: it.version,
                schedule: Some(it.id),
            }),
        })
    }

    fn make_thing(&mut self, application: &Application, name: &str, to: &Thing) -> StoreResult<Option<ScheduleId>> {
        match to {
            Thing::Calendar { description, rules } => {
                self.create_calendar(&Name::new(name)?, description, &rules.clone().storable())?;
            }
            Thing::Preset { expression, description } => {
                self.create_cron_preset(&preset(name, expression, description))?;
            }
            Thing::Template { job, parameters } => {
                self.create_template(&Name::new(name)?, job, parameters)?;
            }
            Thing::Queue { paused } => self.set_queue_paused(name, *paused)?,
            Thing::Limit(limit) => drop(self.set_limit(limit)?),
            Thing::Channel(channel) => drop(self.create_channel(channel)?),
            Thing::Rule(rule) => drop(self.create_rule(rule)?),
            Thing::Flow { definition, owner } => {
                self.save_flow(&Name::new(name)?, definition, owner.as_deref(), Some(0))?;
            }
            Thing::Schedule(to) => {
                let made = self.create_schedule(to.definition.clone())?;
                self.pause_as_said(application, to, &made)?;
                return Ok(Some(made.id));
            }
        }
        Ok(None)
    }

    fn change_thing(
        &mut self, application: &Application, name: &str, old: &Standing, to: &Thing,
    ) -> StoreResult<Option<ScheduleId>> {
        match to {
            Thing::Calendar { description, rules } => {
                self.update_calendar(name, old.version, description, &rules.clone().storable())?;
            }
            Thing::Preset { expression, description } => {
                self.edit_cron_preset(&preset(name, expression, description))?;
            }
            Thing::Template { job, parameters } => self.edit_template(name, job, parameters)?,
            Thing::Queue { paused } => self.set_queue_paused(name, *paused)?,
            Thing::Limit(limit) => drop(self.set_limit(limit)?),
            Thing::Channel(channel) => drop(self.update_channel(name, old.version, channel)?),
            Thing::Rule(rule) => drop(self.update_rule(name, old.version, rule)?),
            Thing::Flow { definition, .. } => {
                self.save_flow(&Name::new(name)?, definition, None, Some(old.version))?;
            }
            Thing::Schedule(to) => return self.change_schedule(application, old, to),
        }
        Ok(None)
    }

    fn change_schedule(
        &mut self, application: &Application, old: &Standing, to: &ScheduleThing,
    ) -> StoreResult<Option<ScheduleId>> {
        let Some(id) = old.schedule else { return Ok(None) };
        // Whoever only pauses a schedule by its manifest makes no new version of it.
        let same = matches!(&old.thing, Thing::Schedule(old) if old.definition == to.definition);
        let edited =
            if same { self.schedule(id)? } else { self.update_schedule(id, old.version, to.definition.clone())? };
        self.pause_as_said(application, to, &edited)?;
        Ok(Some(id))
    }

    fn pause_as_said(&mut self, application: &Application, to: &ScheduleThing, now: &Schedule) -> StoreResult<()> {
        match to.paused {
            Some(true) if now.state.enabled => {
                self.pause_schedule(now.id, Some(&application.pauses_as()), Some(&application.pause_note()))?;
            }
            Some(false) if !now.state.enabled => drop(self.resume_schedule(now.id)?),
            _ => {}
        }
        Ok(())
    }

    fn remove_thing(&mut self, edit: &ThingEdit, standing: Option<&Standing>) -> StoreResult<()> {
        let name = edit.name.as_str();
        match edit.kind {
            ThingKind::Calendar => self.delete_calendar(name),
            ThingKind::Preset => self.delete_cron_preset(name),
            ThingKind::Template => self.delete_template(name),
            ThingKind::Queue => standing.map_or(Ok(()), |_| self.set_queue_paused(name, false)),
            ThingKind::Limit => self.remove_limit(&name.parse()?),
            ThingKind::Channel => self.delete_channel(name),
            ThingKind::Rule => self.delete_rule(name),
            ThingKind::Flow => self.delete_flow(name),
            ThingKind::Schedule => {
                standing.and_then(|standing| standing.schedule).map_or(Ok(()), |id| self.delete_schedule(id))
            }
        }
    }
}
