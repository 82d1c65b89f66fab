//! The verbs of upkeep: schedules declared in code and firing from memory, each handed to the writer.

use crate::SqliteStore;
use crate::fire::{micros, schedule_row};
use crate::rows;
use crate::sql;
use crate::store::Wakes;
use crate::tx::Tx;
use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::firing::{Firing, Next};
use punctual_core::id::{NodeId, ScheduleId};
use punctual_core::schedule::{FiredFrom, Pause, Schedule};
use punctual_core::store::{Changes, StoreError, StoreResult};
use punctual_core::upkeep::{Declaration, Declarations, Declared, FiredFromMemory, Plans, Upkeep};
use rusqlite::params;

#[async_trait]
impl Upkeep for SqliteStore {
    fn plan_changes(&self) -> Box<dyn Changes> {
        Box::new(Wakes(self.plans.subscribe()))
    }

    async fn declare_schedules(&self, declarations: Declarations) -> StoreResult<Declared> {
        declarations.validate()?;
        self.write_plans(move |tx| tx.declare(&declarations)).await
    }

    async fn schedules_to_remember(
        &self, within: SignedDuration, limit: usize, declared: &[ScheduleId],
    ) -> StoreResult<Vec<Schedule>> {
        let (now, declared) = (self.clock.now(), declared.to_vec());
        let until = now.saturating_add(within).unwrap_or(jiff::Timestamp::MAX).as_microsecond();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(move |connection| {
            let due = rows::collect(connection, sql::due_schedules, params![until, limit], schedule_row)?;
            // What cannot be understood could not be fired from memory, either.
            let mut found: Vec<Schedule> = due.into_iter().filter_map(|(_, schedule)| schedule.ok()).collect();
            for id in &declared {
                let own = rows::collect(connection, sql::schedule_by_id, params![id.as_bytes()], rows::schedule)?;
                let own = own.into_iter().filter(|it| it.state.enabled && it.state.fired_from == FiredFrom::Memory);
                let own = own.filter(|it| it.state.no_executor_since.is_none());
                found.extend(own.map(|schedule| schedule.planned_in_memory(now)));
            }
            Ok(found)
        })
        .await
    }

    async fn fire_remembered(
        &self, node: Option<NodeId>, schedules: Vec<Schedule>, plans: Plans,
    ) -> StoreResult<FiredFromMemory> {
        let done = self.write(move |tx| tx.fire_remembered(node, &schedules, plans)).await?;
        if !done.fired.jobs.is_empty() {
            self.ring();
        }
        Ok(done)
    }
}

impl Tx<'_> {
    fn declare(&mut self, declarations: &Declarations) -> StoreResult<Declared> {
        let mut declared = Declared::default();
        for declaration in &declarations.schedules {
            let schedule = self.declare_one(declarations.owner.as_ref(), declaration, &mut declared)?;
            declared.schedules.push(schedule);
        }
        if declarations.remove_others {
            self.remove_undeclared(declarations.owner.as_deref(), &mut declared)?;
        }
        Ok(declared)
    }

    fn declare_one(
        &mut self, owner: Option<&String>, declaration: &Declaration, declared: &mut Declared,
    ) -> StoreResult<Schedule> {
        let definition = declaration.owned_by(owner);
        let name = definition.name.clone();
        let found = self.one(sql::schedule_by_name, params![name.as_str()], rows::schedule)?;
        let schedule = match found {
            None => {
                declared.created.push(name.clone());
                self.create_schedule(definition)?
            }
            Some(other) if !declaration.may_change(&other, owner) => {
                return Err(StoreError::NameTaken { what: "schedule", name: name.to_string() });
            }
            Some(same) if same.definition == definition => same,
            Some(old) => {
                declared.updated.push(name.clone());
                self.update_schedule(old.id, old.version, definition)?
            }
        };
        if schedule.state.fired_from == declaration.fired_from {
            return Ok(schedule);
        }
        declared.switched.push(name);
        self.switch_firing(schedule, declaration.fired_from)
    }

    /// Lets somebody else fire a schedule, from exactly where it stands.
    fn switch_firing(&mut self, mut schedule: Schedule, to: FiredFrom) -> StoreResult<Schedule> {
        let switch = "UPDATE punctual_schedule_state SET fired_from = ?2, next_run_at = NULL WHERE schedule_id = ?1";
        self.execute(switch, params![schedule.id.as_bytes(), to.as_str()])?;
        schedule.state.fired_from = to;
        let next = schedule.next_in_memory(self.now);
        self.write_firing(&schedule, &Firing { slots: Vec::new(), next }, None)?;
        self.schedule(schedule.id)
    }

    fn remove_undeclared(&mut self, owner: Option<&str>, declared: &mut Declared) -> StoreResult<()> {
        let find = "SELECT * FROM punctual_schedule_rows WHERE source = 'code' AND owner IS ?1 AND deleted_at IS NULL
                    ORDER BY name";
        for other in self.all(find, params![owner], rows::schedule)? {
            if declared.schedules.iter().all(|kept| kept.id != other.id) {
                self.delete_schedule(other.id)?;
                declared.removed.push(other.definition.name);
            }
        }
        Ok(())
    }

    fn fire_remembered(
        &mut self, node: Option<NodeId>, schedules: &[Schedule], plans: Plans,
    ) -> StoreResult<FiredFromMemory> {
        let mut done = FiredFromMemory::default();
        done.fired.schedules = schedules.len();
        for schedule in schedules {
            let facts = self.facts(schedule)?;
            let (firing, pause) = schedule.judge_remembered(self.now, &facts, plans);
            let moved = schedule.moved_on(&firing, self.now).paused_if(pause.as_ref());
            match self.attempt(|tx| tx.write_remembered(schedule, &firing, pause.as_ref(), node, plans))? {
                Ok(written) => {
                    done.fired.slots_not_run += written.slots_not_run;
                    done.fired.not_run.add_all(&written.not_run);
                    done.fired.jobs.extend(written.jobs);
                    done.fired.problems += usize::from(matches!(firing.next, Next::Problem(_)));
                    done.schedules.push(moved);
                }
                // What is wrong with one alone must not hold up the others.
                Err(StoreError::Internal(problem)) if plans == Plans::LeaveAlone => {
                    done.fired.problems += 1;
                    done.schedules
                        .push(schedule.moved_on(&Firing { slots: Vec::new(), next: Next::Problem(problem) }, self.now));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_remembered(
        &mut self, schedule: &Schedule, firing: &Firing, pause: Option<&Pause>, node: Option<NodeId>, plans: Plans,
    ) -> StoreResult<crate::fire::Written> {
        let insert = match plans {
            Plans::Move => sql::insert_slot,
            Plans::LeaveAlone => sql::insert_slot_alone,
        };
        let written = self.write_slots(schedule, firing, node, insert)?;
        if let Some(pause) = pause {
            self.pause(schedule.id, pause)?;
        }
        if plans == Plans::Move {
            let moved = schedule.moved_on(firing, self.now).state;
            let last = written.jobs.last();
            self.execute(
                sql::move_plan,
                params![
                    schedule.id.as_bytes(),
                    micros(moved.next_slot_at),
                    micros(firing.decided_through()),
                    micros(firing.passed(self.now)),
                    last.map(|id| *id.as_bytes()),
                    last.map(|_| self.now_us()),
                    micros(moved.exhausted_at),
                ],
            )?;
        }
        Ok(written)
    }
}
