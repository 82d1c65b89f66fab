//! The verbs of upkeep: schedules declared in code, and firing from memory.

use crate::PostgresStore;
use crate::error::Work;
use crate::fire::{begin_impatiently, schedule_row};
use crate::firing::Written;
use crate::params::{params, time};
use crate::rows;
use crate::sql;
use crate::tx::{Tx, in_transaction};
use crate::wake::{Wake, Wakes};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use punctual_core::firing::{Firing, Next};
use punctual_core::id::{NodeId, ScheduleId};
use punctual_core::schedule::{FiredFrom, Pause, Schedule};
use punctual_core::store::{Changes, StoreError, StoreResult};
use punctual_core::upkeep::{Declaration, Declarations, Declared, FiredFromMemory, Plans, Upkeep};

#[async_trait]
impl Upkeep for PostgresStore {
    fn plan_changes(&self) -> Box<dyn Changes> {
        crate::wake::listen(&self.shared.shared);
        Box::new(Wakes(self.shared.plans.subscribe()))
    }

    async fn declare_schedules(&self, declarations: Declarations) -> StoreResult<Declared> {
        declarations.validate()?;
        in_transaction!(&self.shared, Plans | tx | tx.declare(&declarations))
    }

    async fn schedules_to_remember(
        &self, within: SignedDuration, limit: usize, declared: &[ScheduleId],
    ) -> StoreResult<Vec<Schedule>> {
        // A node whose look at the schedules hangs would not get to firing what it remembers.
        let mut tx = begin_impatiently(&self.shared).await?;
        let found = tx.remember(within, limit, declared).await;
        Ok(tx.end(found).await?)
    }

    async fn fire_remembered(
        &self, node: Option<NodeId>, schedules: Vec<Schedule>, plans: Plans,
    ) -> StoreResult<FiredFromMemory> {
        in_transaction!(&self.shared, |done| (!done.fired.jobs.is_empty()).then_some(Wake::Told), |tx| tx
            .fire_remembered(node, &schedules, plans))
    }
}

impl Tx<'_> {
    async fn remember(&self, within: SignedDuration, limit: usize, declared: &[ScheduleId]) -> Work<Vec<Schedule>> {
        let until = self.now.saturating_add(within).unwrap_or(Timestamp::MAX);
        let params = params![time(until), crate::params::limit(limit)];
        // What cannot be understood could not be fired from memory, either.
        let due = self.all(sql::due_soon, params, schedule_row).await?.into_iter();
        let mut found: Vec<Schedule> = due.filter_map(|(_, schedule)| schedule.ok()).collect();
        if !declared.is_empty() {
            let ids: Vec<_> = declared.iter().map(|id| id.0).collect();
            let own = self.all(sql::fired_from_memory, params![ids], schedule_row).await?.into_iter();
            let own = own.filter_map(|(_, schedule)| schedule.ok());
            found.extend(own.map(|schedule| schedule.planned_in_memory(self.now)));
        }
        Ok(found)
    }

    /// Keeps everybody else from declaring schedules or applying a manifest: whoever comes second finds the schedules
    /// made. SQLite has one writer and needs no lock.
    pub(crate) async fn lock_declarations(&self) -> Work<()> {
        self.rows("SELECT pg_advisory_xact_lock(7815263003)", params![]).await?;
        Ok(())
    }

    async fn declare(&mut self, declarations: &Declarations) -> Work<Declared> {
        self.lock_declarations().await?;
        let mut declared = Declared::default();
        for declaration in &declarations.schedules {
            let schedule = Box::pin(self.declare_one(declarations.owner.as_ref(), declaration, &mut declared)).await?;
            declared.schedules.push(schedule);
        }
        if declarations.remove_others {
            self.remove_undeclared(declarations.owner.as_deref(), &mut declared).await?;
        }
        Ok(declared)
    }

    async fn declare_one(
        &mut self, owner: Option<&String>, declaration: &Declaration, declared: &mut Declared,
    ) -> Work<Schedule> {
        let definition = declaration.owned_by(owner);
        let name = definition.name.clone();
        let found = self.one(sql::schedule_by_name, params![name.as_str()], rows::schedule).await?;
        let schedule = match found {
            None => {
                declared.created.push(name.clone());
                self.create_schedule(&definition).await?
            }
            Some(other) if !declaration.may_change(&other, owner) => {
                return Err(StoreError::NameTaken { what: "schedule", name: name.to_string() }.into());
            }
            Some(same) if same.definition == definition => same,
            Some(old) => {
                declared.updated.push(name.clone());
                self.update_schedule(old.id, old.version, &definition).await?
            }
        };
        if schedule.state.fired_from == declaration.fired_from {
            return Ok(schedule);
        }
        declared.switched.push(name);
        self.switch_firing(schedule.id, declaration.fired_from).await
    }

    /// Lets somebody else fire a schedule, from exactly where it stands.
    async fn switch_firing(&self, id: ScheduleId, to: FiredFrom) -> Work<Schedule> {
        let Some(mut schedule) = self.locked_schedule(id).await? else { return self.schedule(id).await };
        let switch = "UPDATE punctual_internal.schedule_state SET fired_from = $2, next_run_at = NULL
                      WHERE schedule_id = $1";
        self.execute(switch, params![id.0, to.as_str()]).await?;
        schedule.state.fired_from = to;
        let next = schedule.next_in_memory(self.now);
        self.write_firing(&schedule, &Firing { slots: Vec::new(), next }, None, schedule.version).await?;
        self.schedule(id).await
    }

    async fn remove_undeclared(&mut self, owner: Option<&str>, declared: &mut Declared) -> Work<()> {
        for other in self.all(sql::schedules_of_code, params![owner], rows::schedule).await? {
            if declared.schedules.iter().all(|kept| kept.id != other.id) {
                self.delete_schedule(other.id).await?;
                declared.removed.push(other.definition.name);
            }
        }
        Ok(())
    }

    async fn fire_remembered(
        &mut self, node: Option<NodeId>, schedules: &[Schedule], plans: Plans,
    ) -> Work<FiredFromMemory> {
        let mut done = FiredFromMemory::default();
        done.fired.schedules = schedules.len();
        let facts = self.facts(schedules).await?;
        for schedule in schedules {
            let facts = facts.get(&schedule.id).cloned().unwrap_or_default();
            let (firing, pause) = schedule.judge_remembered(self.now, &facts, plans);
            self.word("SAVEPOINT remembered").await?;
            match self.write_remembered(schedule, &firing, pause.as_ref(), node, plans).await {
                Ok(written) => {
                    done.fired.slots_not_run += written.slots_not_run;
                    done.fired.not_run.add_all(&written.not_run);
                    done.fired.jobs.extend(written.jobs);
                    done.fired.problems += usize::from(matches!(firing.next, Next::Problem(_)));
                    done.schedules.push(schedule.moved_on(&firing, self.now).paused_if(pause.as_ref()));
                }
                // What is wrong with one alone must not hold up the others.
                Err(failure) if plans == Plans::LeaveAlone && failure.is_of_the_data() => {
                    self.word("ROLLBACK TO remembered").await?;
                    let next = Next::Problem(StoreError::from(failure).to_string());
                    done.fired.problems += 1;
                    done.schedules.push(schedule.moved_on(&Firing { slots: Vec::new(), next }, self.now));
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(done)
    }

    async fn write_remembered(
        &self, schedule: &Schedule, firing: &Firing, pause: Option<&Pause>, node: Option<NodeId>, plans: Plans,
    ) -> Work<Written> {
        let insert = match plans {
            Plans::Move => sql::insert_slots,
            Plans::LeaveAlone => sql::insert_slots_alone,
        };
        let written = self.write_slots(schedule, firing, node, insert).await?;
        if let Some(pause) = pause {
            self.pause(schedule.id, pause).await?;
        }
        if plans == Plans::Move {
            let moved = schedule.moved_on(firing, self.now).state;
            let last = written.jobs.last();
            let params = params![
                schedule.id.0,
                moved.next_slot_at.map(time),
                firing.decided_through().map(time),
                firing.passed(self.now).map(time),
                last.map(|id| id.0),
                last.map(|_| self.at()),
                moved.exhausted_at.map(time),
            ];
            self.execute(sql::move_plan, params).await?;
        }
        Ok(written)
    }
}
