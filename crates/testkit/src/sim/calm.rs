//! The end of a simulation: nothing goes wrong any more, everything comes to its end, and all of it is compared.

use super::node::{RETAIN, SWEEP};
use super::run::Sim;
use super::scenario::{HOUR, MINUTE, Ms};
use crate::model::Whereabouts;
use crate::property::drive::Agreement;
use crate::property::ops::{Op, QUEUES};

/// How long everything may take to come to its end.
const PATIENCE: Ms = 10 * HOUR;

impl Sim<'_> {
    /// Lives through the whole scenario and what follows it.
    pub(super) fn live(&mut self) -> Agreement {
        self.go_until(self.scenario.until)?;
        self.calm_down()?;
        let sweep = i64::try_from(SWEEP.as_millis()).expect("a sweep is short");
        self.go_until(self.now + 2 * self.lease_ms() + 2 * sweep)?;
        self.nothing_is_overdue(sweep + MINUTE)?;
        self.come_to_an_end()?;
        self.leave()?;
        self.executions.compare(&self.drive)?;
        self.nothing_is_kept_for_ever()?;
        self.runtime.block_on(async {
            self.drive.compare().await?;
            self.drive.check().await?;
            self.drive.compare_outbox().await
        })
    }

    fn calm_down(&mut self) -> Agreement {
        self.calm = true;
        self.hide_plans(false)?;
        self.history.note(self.now, "*", "nothing goes wrong any more", false);
        for node in 0..self.seats.len() {
            self.thaw(node);
            self.start(node);
        }
        for queue in 0..QUEUES.len() {
            self.user(&Op::SetPaused(queue, false))?;
            self.user(&Op::Release(queue))?;
        }
        Ok(())
    }

    /// What is due is decided soon, as long as somebody is there.
    fn nothing_is_overdue(&self, within: Ms) -> Agreement {
        let (now, schedules) = (self.drive.model.now, &self.drive.model.schedules);
        let overdue = self
            .drive
            .model
            .due_schedules()
            .into_iter()
            .find(|index| schedules[*index].next_due.is_some_and(|due| due < now - within * 1000));
        overdue.map_or(Ok(()), |index| Err(format!("schedule {index} is overdue although nothing is wrong")))
    }

    /// No schedule makes anything new, and every job ends.
    fn come_to_an_end(&mut self) -> Agreement {
        for which in 0..self.drive.schedules.len() {
            if !self.drive.model.schedules[which].deleted {
                let living = (0..which).filter(|other| !self.drive.model.schedules[*other].deleted).count();
                self.user(&Op::Pause(living))?;
            }
        }
        let patience = self.now + PATIENCE;
        while self.now < patience && self.alive().next().is_some() {
            self.go_until(self.now + 20 * MINUTE)?;
        }
        match self.alive().next() {
            None => Ok(()),
            Some(job) => Err(format!("job {job} never came to its end: {:?}", self.drive.model.jobs[job].place)),
        }
    }

    /// The jobs that have not ended.
    pub(super) fn alive(&self) -> impl Iterator<Item = usize> {
        let jobs = self.drive.model.jobs.iter().enumerate();
        jobs.filter(|(_, job)| !matches!(job.place, Whereabouts::Closed(_))).map(|(index, _)| index)
    }

    /// What no rule keeps is forgotten in time: several looks, and whatever clocks were turned meanwhile.
    fn nothing_is_kept_for_ever(&self) -> Agreement {
        let keep = self.scenario.keep;
        let longest =
            keep.runs.max(keep.failed).map_or(i64::MAX, |kept| kept.as_micros().try_into().unwrap_or(i64::MAX));
        let looks = 3 * i64::try_from(RETAIN.as_micros()).expect("it is short") + 6 * HOUR * 1000;
        self.drive.nothing_is_kept_for_ever(
            self.drive.model.now.saturating_sub(longest).saturating_sub(looks),
            keep.last as usize,
        )
    }

    /// All nodes leave, and no lease stays behind.
    fn leave(&mut self) -> Agreement {
        // A node that died in the last storm is declared lost by the others first.
        self.go_until(self.now + 2 * self.lease_ms())?;
        for seat in &mut self.seats {
            if let Some(body) = seat.body.as_mut() {
                body.tell_to_leave(false);
            }
        }
        self.go_until(self.now + HOUR)?;
        let stayed = self.seats.iter().position(|seat| seat.body.is_some());
        if let Some(node) = stayed {
            return Err(format!("node {node} was told to leave and did not"));
        }
        match self.drive.model.nodes.iter().position(|node| node.leased) {
            None => Ok(()),
            Some(node) => Err(format!("the lease of node {node} was left behind")),
        }
    }
}
