//! Manifests: what they have, and how one is applied, by the verbs with which people change the same things.

use crate::PostgresStore;
use crate::error::{Failure, Work};
use crate::params::{limit as most, params};
use crate::rows::{Columns, Unreadable, value};
use crate::sql;
use crate::tx::{Tx, in_transaction};
use async_trait::async_trait;
use punctual_core::id::{ScheduleId, TemplateId};
use punctual_core::manifest::{
    Application, Applied, Managed, ManagedAfter, Manifests, Said, ScheduleThing, Thing, ThingEdit, ThingKind, preset,
};
use punctual_core::name::Name;
use punctual_core::schedule::Schedule;
use punctual_core::store::{StoreError, StoreResult};
use std::collections::BTreeMap;
use tokio_postgres::Row;
use uuid::Uuid;

/// How many things are written down with one statement, so that none grows with the manifest.
const TOGETHER: usize = 500;

#[async_trait]
impl Manifests for PostgresStore {
    async fn managed(&self, owner: Option<&str>, after: ManagedAfter<'_>, limit: usize) -> StoreResult<Vec<Managed>> {
        let ((kind, name), limit) = (after.map_or(("", ""), |(kind, name)| (kind.as_str(), name)), most(limit));
        Ok(match owner {
            Some(owner) => {
                let params = params![owner, kind, name, limit];
                self.shared.read(sql::managed_page_of_owner, params, managed).await?
            }
            None => self.shared.read(sql::managed_page, params![kind, name, limit], managed).await?,
        })
    }

    async fn managed_thing(&self, kind: ThingKind, name: &str) -> StoreResult<Option<Managed>> {
        let find = "SELECT kind, name, definition::text, owner, applied_at FROM punctual_internal.managed_things
                    WHERE kind = $1 AND name = $2";
        Ok(self.shared.read(find, params![kind.as_str(), name], managed).await?.pop())
    }

    async fn apply_manifest(&self, application: Application) -> StoreResult<Applied> {
        application.validate()?;
        in_transaction!(&self.shared, Plans | tx | tx.apply_manifest(&application))
    }
}

fn managed(row: &Row) -> Result<Managed, Unreadable> {
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
fn if_there<T>(found: Work<T>) -> Work<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Failure::Told(StoreError::NotFound { .. })) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Whether claims wait from such an edit until the end of the transaction.
fn stops_claims(edit: &ThingEdit) -> bool {
    matches!(edit.kind, ThingKind::Queue | ThingKind::Limit)
}

/// What a failure means for an edit. Where somebody was faster after its thing was looked at, the thing is not what it
/// was planned with.
fn explained(edit: &ThingEdit, failure: Failure) -> Failure {
    match failure {
        Failure::Told(StoreError::NameTaken { .. } | StoreError::VersionConflict { .. }) => edit.overtaken().into(),
        Failure::Told(error) => edit.explain(error).into(),
        failure @ Failure::Database(_) => failure,
    }
}

impl Tx<'_> {
    async fn apply_manifest(&mut self, application: &Application) -> Work<Applied> {
        self.lock_declarations().await?;
        application.check_owners(&self.owners_of(application).await?)?;
        let mut applied = Applied::default();
        // Nothing else in a manifest needs a queue or a limit, and claims shall not wait for ten thousand schedules.
        let (last, first): (Vec<&ThingEdit>, Vec<_>) = application.edits.iter().partition(|edit| stops_claims(edit));
        for edit in first.into_iter().chain(last) {
            // Large, and one at a time: off the stack of everything else.
            let schedule = Box::pin(self.apply_edit(application, edit)).await?;
            applied.schedules.extend(schedule);
            applied.count(edit);
        }
        self.write_managed(application).await?;
        Ok(applied)
    }

    async fn owners_of(&self, application: &Application) -> Work<BTreeMap<(ThingKind, String), String>> {
        let (kinds, names): (Vec<&str>, Vec<&str>) =
            application.things().into_iter().map(|(kind, name)| (kind.as_str(), name)).unzip();
        let find = "SELECT kind, name, owner FROM punctual_internal.managed_things
                    JOIN unnest($1, $2) AS asked (kind, name) USING (kind, name)";
        let owners = self.all(find, params![kinds, names], |row| {
            let mut c = Columns::of(row);
            Ok(((c.word()?, c.next()?), c.next()?))
        });
        Ok(owners.await?.into_iter().collect())
    }

    async fn write_managed(&self, application: &Application) -> Work<()> {
        let (kinds, names): (Vec<&str>, Vec<&str>) =
            application.all_forgotten().map(|(kind, name)| (kind.as_str(), name)).unzip();
        let forget = "DELETE FROM punctual_internal.managed_things AS m USING unnest($1, $2) AS asked (kind, name)
                      WHERE m.kind = asked.kind AND m.name = asked.name AND m.owner = $3";
        if !names.is_empty() {
            self.execute(forget, params![kinds, names, application.owner.as_str()]).await?;
        }
        let keep = "INSERT INTO punctual_internal.managed_things (kind, name, owner, definition, applied_at)
                    SELECT said.kind, said.name, $1, said.definition::json, $2
                    FROM unnest($3, $4, $5) AS said (kind, name, definition)
                    ON CONFLICT (kind, name)
                    DO UPDATE SET definition = excluded.definition, applied_at = excluded.applied_at";
        for said in application.said.chunks(TOGETHER) {
            let kinds: Vec<&str> = said.iter().map(|said| said.kind.as_str()).collect();
            let names: Vec<&str> = said.iter().map(|said| said.name.as_str()).collect();
            let definitions: Vec<&str> = said.iter().map(|said| said.definition.as_str()).collect();
            let params = params![application.owner.as_str(), self.at(), kinds, names, definitions];
            self.execute(keep, params).await?;
        }
        Ok(())
    }

    /// Does one edit; says which schedule was made or changed.
    async fn apply_edit(&mut self, application: &Application, edit: &ThingEdit) -> Work<Option<ScheduleId>> {
        let standing = self.standing(edit).await?;
        let planned = self.planned(edit).await?;
        if !Thing::stands(planned.as_ref(), standing.as_ref().map(|standing| &standing.thing)) {
            return Err(edit.overtaken().into());
        }
        let Some(to) = &edit.to else {
            return self.remove_thing(edit, standing.as_ref()).await.map(|()| None);
        };
        if edit.from == edit.to {
            return Ok(None);
        }
        let done = match (self.by_ids(to).await, &standing) {
            (Ok(to), None) => self.make_thing(application, &edit.name, &to).await,
            (Ok(to), Some(standing)) => self.change_thing(application, &edit.name, standing, &to).await,
            (Err(failure), _) => Err(failure),
        };
        done.map_err(|failure| explained(edit, failure))
    }

    /// What an edit was planned with, as the store keeps it.
    async fn planned(&self, edit: &ThingEdit) -> Work<Option<Thing>> {
        let Some(from) = &edit.from else { return Ok(None) };
        match self.by_ids(from).await {
            Ok(thing) => Ok(Some(thing)),
            // A name that stands for nothing any more is not what was planned with, either.
            Err(Failure::Told(StoreError::Invalid(_))) => Err(edit.overtaken().into()),
            Err(failure) => Err(failure),
        }
    }

    /// A thing as the store keeps it: ids where a manifest has names.
    async fn by_ids(&self, thing: &Thing) -> Work<Thing> {
        let Thing::Schedule(schedule) = thing else { return Ok(thing.clone()) };
        let dependency = match &schedule.depends_on {
            Some(name) => self.schedule_named(name.as_str()).await?,
            None => None,
        };
        let template = match &schedule.template {
            Some(name) => {
                let find = "SELECT id FROM punctual_internal.templates WHERE name = $1";
                self.one(find, params![name.as_str()], value::<Uuid>).await?.map(TemplateId)
            }
            None => None,
        };
        Ok(Thing::Schedule(Box::new(schedule.with_ids(dependency, template)?)))
    }

    async fn schedule_named(&self, name: &str) -> Work<Option<ScheduleId>> {
        let find = "SELECT id FROM punctual_internal.schedules WHERE name = $1 AND deleted_at IS NULL";
        Ok(self.one(find, params![name], value::<Uuid>).await?.map(ScheduleId))
    }

    /// What is stored under the name of an edit; locked, so that it stays so until the edit is done.
    async fn standing(&self, edit: &ThingEdit) -> Work<Option<Standing>> {
        let name = edit.name.as_str();
        Ok(match edit.kind {
            ThingKind::Calendar => if_there(self.locked_calendar(name).await)?.map(|it| {
                Standing::versioned(Thing::Calendar { description: it.description, rules: it.rules }, it.version)
            }),
            ThingKind::Preset => self
                .locked_cron_preset(name)
                .await?
                .map(|it| Standing::plain(Thing::Preset { expression: it.expression, description: it.description })),
            ThingKind::Template => self
                .locked_template(name)
                .await?
                .map(|it| Standing::plain(Thing::Template { job: Box::new(it.job), parameters: it.parameters })),
            ThingKind::Queue => {
                self.stop_claims().await?;
                let find = "SELECT paused FROM punctual_internal.queues WHERE name = $1";
                let paused = self.one(find, params![name], value).await?;
                paused.map(|paused| Standing::plain(Thing::Queue { paused }))
            }
            ThingKind::Limit => self
                .locked_limit(&name.parse().map_err(StoreError::from)?)
                .await?
                .map(|it| Standing::plain(Thing::Limit(it))),
            ThingKind::Channel => {
                self.lock_book().await?;
                let found = if_there(self.stored_channel(name).await)?;
                found.map(|it| Standing::versioned(Thing::Channel(it.definition), it.version))
            }
            ThingKind::Rule => {
                self.lock_book().await?;
                let found = if_there(self.stored_rule(name).await)?;
                found.map(|it| Standing::versioned(Thing::Rule(it.definition), it.version))
            }
            ThingKind::Flow => self
                .locked_flow(name)
                .await?
                .map(|it| Standing::versioned(Thing::Flow { definition: it.definition, owner: it.owner }, it.version)),
            ThingKind::Schedule => self.standing_schedule(name).await?,
        })
    }

    async fn standing_schedule(&self, name: &str) -> Work<Option<Standing>> {
        let Some(id) = self.schedule_named(name).await? else { return Ok(None) };
        Ok(self.locked_schedule(id).await?.map(|it| Standing {
            thing: Thing::Schedule(Box::new(ScheduleThing::of(&it))),
            version: it.version,
            schedule: Some(id),
        }))
    }

    async fn make_thing(&mut self, application: &Application, name: &str, to: &Thing) -> Work<Option<ScheduleId>> {
        match to {
            Thing::Calendar { description, rules } => {
                self.create_calendar(&Name::new(name)?, description, &rules.clone().storable()).await?;
            }
            Thing::Preset { expression, description } => {
                self.create_cron_preset(&preset(name, expression, description)).await?;
            }
            Thing::Template { job, parameters } => {
                self.create_template(&Name::new(name)?, job, parameters).await?;
            }
            Thing::Queue { paused } => self.set_queue_paused(name, *paused).await?,
            Thing::Limit(limit) => drop(self.set_limit(limit).await?),
            Thing::Channel(channel) => drop(self.create_channel(channel).await?),
            Thing::Rule(rule) => drop(self.create_rule(rule).await?),
            Thing::Flow { definition, owner } => {
                self.save_flow(&Name::new(name)?, definition, owner.as_deref(), Some(0)).await?;
            }
            Thing::Schedule(to) => {
                let made = self.create_schedule(&to.definition).await?;
                self.pause_as_said(application, to, &made).await?;
                return Ok(Some(made.id));
            }
        }
        Ok(None)
    }

    async fn change_thing(
        &mut self, application: &Application, name: &str, old: &Standing, to: &Thing,
    ) -> Work<Option<ScheduleId>> {
        match to {
            Thing::Calendar { description, rules } => {
                self.update_calendar(name, old.version, description, &rules.clone().storable()).await?;
            }
            Thing::Preset { expression, description } => {
                self.edit_cron_preset(&preset(name, expression, description)).await?;
            }
            Thing::Template { job, parameters } => self.edit_template(name, job, parameters).await?,
            Thing::Queue { paused } => self.set_queue_paused(name, *paused).await?,
            Thing::Limit(limit) => drop(self.set_limit(limit).await?),
            Thing::Channel(channel) => drop(self.update_channel(name, old.version, channel).await?),
            Thing::Rule(rule) => drop(self.update_rule(name, old.version, rule).await?),
            Thing::Flow { definition, .. } => {
                self.save_flow(&Name::new(name)?, definition, None, Some(old.version)).await?;
            }
            Thing::Schedule(to) => return self.change_schedule(application, old, to).await,
        }
        Ok(None)
    }

    async fn change_schedule(
        &mut self, application: &Application, old: &Standing, to: &ScheduleThing,
    ) -> Work<Option<ScheduleId>> {
        let Some(id) = old.schedule else { return Ok(None) };
        // Whoever only pauses a schedule by its manifest makes no new version of it.
        let same = matches!(&old.thing, Thing::Schedule(old) if old.definition == to.definition);
        let edited =
            if same { self.schedule(id).await? } else { self.update_schedule(id, old.version, &to.definition).await? };
        self.pause_as_said(application, to, &edited).await?;
        Ok(Some(id))
    }

    async fn pause_as_said(&mut self, application: &Application, to: &ScheduleThing, now: &Schedule) -> Work<()> {
        match to.paused {
            Some(true) if now.state.enabled => {
                let (by, note) = (application.pauses_as(), application.pause_note());
                self.pause_schedule(now.id, Some(&by), Some(&note)).await?;
            }
            Some(false) if !now.state.enabled => drop(self.resume_schedule(now.id).await?),
            _ => {}
        }
        Ok(())
    }

    async fn remove_thing(&mut self, edit: &ThingEdit, standing: Option<&Standing>) -> Work<()> {
        let name = edit.name.as_str();
        match (edit.kind, standing) {
            (ThingKind::Calendar, _) => self.delete_calendar(name).await,
            (ThingKind::Preset, _) => self.delete_cron_preset(name).await,
            (ThingKind::Template, _) => self.delete_template(name).await,
            (ThingKind::Queue, Some(_)) => self.set_queue_paused(name, false).await,
            (ThingKind::Limit, _) => self.remove_limit(&name.parse().map_err(StoreError::from)?).await,
            (ThingKind::Channel, _) => self.delete_channel(name).await,
            (ThingKind::Rule, _) => self.delete_rule(name).await,
            (ThingKind::Flow, _) => self.delete_flow(name).await,
            (ThingKind::Schedule, Some(Standing { schedule: Some(id), .. })) => self.delete_schedule(*id).await,
            (ThingKind::Queue | ThingKind::Schedule, _) => Ok(()),
        }
    }
}
