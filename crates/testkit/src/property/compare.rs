//! Compares everything that can be seen of a store with what the model says.

use super::drive::{Agreement, Drive, agree, at};
use super::ops::QUEUES;
use crate::model::{self, SECOND, Whereabouts as Modelled};
use crate::steps::ALL;
use jiff::SignedDuration;
use punctual_core::checks::Severity;
use punctual_core::id::JobId;
use punctual_core::job::{JobView, Whereabouts};
use punctual_core::slot::Decision;
use punctual_core::store::{Retention, ScheduleKey};

impl Drive {
    /// Compares all of it.
    pub(crate) async fn compare(&mut self) -> Agreement {
        agree("how many jobs were made", self.jobs.len(), self.model.jobs.len())?;
        for index in 0..self.schedules.len() {
            self.compare_schedule(index).await?;
            self.compare_ledger(index).await?;
        }
        for index in 0..self.jobs.len() {
            self.compare_job(index).await?;
        }
        for queue in QUEUES {
            self.compare_queue(queue).await?;
        }
        self.compare_nodes().await?;
        let due = self.world.store().next_due_in().await.map_err(|error| error.to_string())?;
        let expected = self.model.next_due().map(|due| SignedDuration::from_micros((due - self.model.now).max(0)));
        agree("how long until anything is due", due, expected)
    }

    /// After any history doctor finds nothing broken (C17).
    pub(crate) async fn check(&self) -> Agreement {
        let mut findings = self.world.store().run_checks(3).await.map_err(|error| error.to_string())?;
        findings.retain(|finding| finding.check.severity() == Severity::Broken);
        agree("what doctor finds", findings, Vec::new())
    }

    async fn compare_schedule(&mut self, index: usize) -> Agreement {
        let found = self.world.store().schedule(&ScheduleKey::Id(self.schedules[index])).await;
        let found = found.map_err(|error| error.to_string())?;
        let expected = &self.model.schedules[index];
        let what = |field: &str| format!("schedule {index}: {field}");
        agree(&what("is there"), found.is_some(), !expected.deleted)?;
        let Some(found) = found else { return Ok(()) };
        let (state, results) = (found.state, found.results);
        agree(&what("next slot"), state.next_slot_at, expected.next.map(at))?;
        let due = expected.next_due.filter(|_| expected.paused_at.is_none());
        agree(&what("next run"), state.next_run_at, due.map(at))?;
        agree(&what("paused"), state.pause.map(|pause| pause.at), expected.paused_at.map(at))?;
        agree(&what("enabled"), state.enabled, expected.paused_at.is_none())?;
        agree(&what("exhausted"), state.exhausted_at.is_some(), expected.next.is_none())?;
        agree(&what("last slot"), state.last_slot_at, expected.last_slot.map(at))?;
        agree(&what("last enqueued"), state.last_enqueued_at, expected.last_enqueued.map(at))?;
        agree(&what("last job"), state.last_job_id, expected.last_job.map(|job| self.jobs[job]))?;
        agree(&what("problem"), state.problem, None)?;
        agree(&what("version"), found.version, expected.version)?;
        agree(&what("last run"), results.last_run_at, expected.results.at.map(at))?;
        agree(&what("last outcome"), results.last_outcome, expected.results.outcome)?;
        agree(&what("last success"), results.last_success_at, expected.results.success_at.map(at))?;
        agree(&what("failures in a row"), results.consecutive_failures, expected.results.failures)?;
        // How far the watermark goes is the store's affair, as long as it never goes back and covers what fired.
        let covered = state.fired_through >= expected.passed_through.map(at);
        let risen = state.fired_through >= self.fired_through.get(&index).copied();
        agree(&what("the watermark covers what passed and has not gone back"), (covered, risen), (true, true))?;
        if let Some(through) = state.fired_through {
            self.fired_through.insert(index, through);
        }
        Ok(())
    }

    async fn compare_ledger(&self, index: usize) -> Agreement {
        let rows = self.world.store().slots(self.schedules[index], None, ALL).await;
        let mut rows = rows.map_err(|error| error.to_string())?;
        rows.reverse();
        let found: Vec<_> = rows
            .into_iter()
            .map(|row| {
                let span = (row.slot_at, row.through, row.count);
                (span, row.decision, row.reason, row.job_id, row.decided_at, row.schedule_version)
            })
            .collect();
        let expected: Vec<_> = self.model.schedules[index]
            .ledger
            .values()
            .map(|row| {
                let span = (at(row.slot), at(row.through), row.count);
                let job = row.job.map(|job| self.jobs[job]);
                (span, row.decision, row.reason, job, at(row.decided_at), row.version)
            })
            .collect();
        agree(&format!("the ledger of schedule {index}"), found, expected)
    }

    async fn compare_job(&self, index: usize) -> Agreement {
        let found = self.world.store().job(self.jobs[index]).await.map_err(|error| error.to_string())?;
        let expected = &self.model.jobs[index];
        agree(&format!("job {index} is there"), found.is_some(), !expected.forgotten)?;
        let Some(JobView { job, whereabouts }) = found else { return Ok(()) };
        let what = |field: &str| format!("job {index}: {field}");
        let spec = &expected.spec;
        agree(&what("queue"), &job.spec.queue, &spec.queue)?;
        agree(&what("priority"), job.spec.priority, spec.priority)?;
        agree(&what("serial key"), &job.spec.serial_key, &spec.key)?;
        agree(&what("input"), job.spec.input.as_str(), spec.input.to_string().as_str())?;
        agree(&what("trigger"), job.spec.trigger, spec.trigger)?;
        let id_of = |index: usize| self.jobs[index];
        agree(&what("schedule"), job.schedule_id, expected.schedule.map(|schedule| self.schedules[schedule]))?;
        agree(&what("slot"), job.slot_at, expected.slot.map(at))?;
        agree(&what("retry of"), job.retry_of, expected.retry_of.map(id_of))?;
        agree(&what("root"), job.root_job_id, id_of(expected.root))?;
        let counts = (expected.attempt, expected.failures, expected.interruptions);
        agree(&what("attempt, failures, interruptions"), (job.attempt, job.failures, job.interruptions), counts)?;
        let began_at = at(self.model.jobs[expected.root].created_at);
        agree(&what("made"), (job.created_at, job.chain_began_at), (at(expected.created_at), began_at))?;
        self.compare_place(index, &whereabouts, expected)
    }

    fn compare_place(&self, index: usize, found: &Whereabouts, expected: &model::Job) -> Agreement {
        let what = format!("job {index}: where it is");
        let differs = || Err(format!("{what}\n  store: {found:?}\n  model: {:?}", expected.place));
        match (found, &expected.place) {
            (Whereabouts::Delayed { run_at }, Modelled::Delayed(expected)) => {
                agree(&what, *run_at, Some(at(*expected)))
            }
            (Whereabouts::Queued { place, ready, .. }, Modelled::Queued) => {
                let expected = (expected.priority, self.model.is_ready(index));
                agree(&what, (place.priority, *ready), expected)
            }
            (Whereabouts::Running(run), Modelled::Running(expected)) => {
                let lease = self.leases[expected.node];
                agree(&what, (run.node_id, run.lease_id), (Some(lease.node_id), Some(lease.lease_id)))?;
                let cancel = expected.cancel.map(|(since, _)| at(since));
                agree(&what, (run.started_at, run.cancel_requested_at), (at(expected.started_at), cancel))
            }
            (Whereabouts::Closed(run), Modelled::Closed(expected)) => {
                let times = (expected.started_at.map(at), at(expected.finished_at));
                agree(&what, (run.started_at, run.finished_at), times)?;
                let end = (expected.outcome, expected.code, expected.is_final);
                agree(&what, (run.outcome, run.error_code, run.is_final), end)
            }
            _ => differs(),
        }
    }

    async fn compare_queue(&self, queue: &str) -> Agreement {
        let listed = self.world.store().queued_jobs(queue, None, ALL).await.map_err(|error| error.to_string())?;
        let found: Vec<(JobId, bool)> = listed.iter().map(|queued| (queued.place.job_id, queued.ready)).collect();
        let expected: Vec<(JobId, bool)> =
            self.model.queued(queue).into_iter().map(|job| (self.jobs[job], self.model.is_ready(job))).collect();
        agree(&format!("the queue `{queue}`"), found, expected)?;
        let held = self.world.store().reservation(queue).await.map_err(|error| error.to_string())?;
        let until = self.model.lines.get(queue).and_then(|line| line.held_until);
        let expected = until.filter(|until| *until > self.model.now).map(at);
        agree(&format!("the reservation of `{queue}`"), held.map(|hold| hold.expires_at), expected)
    }

    async fn compare_nodes(&self) -> Agreement {
        let pulses = self.world.store().node_pulses().await.map_err(|error| error.to_string())?;
        let mut found: Vec<_> = pulses.iter().map(|pulse| (pulse.lease_id, pulse.counter)).collect();
        let nodes = self.leases.iter().zip(&self.model.nodes).filter(|(_, node)| node.leased);
        let mut expected: Vec<_> = nodes.map(|(lease, node)| (lease.lease_id, node.counter)).collect();
        found.sort_unstable();
        expected.sort_unstable();
        agree("the nodes", found, expected)
    }

    /// Forgets old history. What must go and what must stay is compared; in between the store is free.
    pub(crate) async fn prune(&mut self, seconds: i64) -> Agreement {
        let horizon = self.model.now - seconds * SECOND;
        let retention = Retention::before(at(horizon), ALL);
        // A chain may go one job at a time.
        for _ in 0..8 {
            self.world.store().prune_history(retention).await.map_err(|error| error.to_string())?;
        }
        for index in 0..self.jobs.len() {
            self.adopt_forgotten_job(index, horizon).await?;
        }
        for index in 0..self.schedules.len() {
            self.adopt_forgotten_slots(index, horizon).await?;
        }
        Ok(())
    }

    async fn adopt_forgotten_job(&mut self, index: usize, horizon: i64) -> Agreement {
        let known = self.world.store().job(self.jobs[index]).await.map_err(|error| error.to_string())?.is_some();
        let job = &self.model.jobs[index];
        let (must_stay, replaced) = match &job.place {
            Modelled::Closed(closed) => (closed.finished_at >= horizon, closed.started_at.is_none()),
            _ => (true, false),
        };
        let must_stay = must_stay || (self.model.chain_is_alive(index) && !replaced);
        if !job.forgotten && must_stay {
            agree(&format!("job {index} is kept"), known, true)?;
        }
        if self.model.chain_is_older_than(index, horizon) {
            agree(&format!("job {index} is known"), known, false)?;
        }
        self.model.jobs[index].forgotten |= !known;
        Ok(())
    }

    async fn adopt_forgotten_slots(&mut self, index: usize, horizon: i64) -> Agreement {
        let rows = self.world.store().slots(self.schedules[index], None, ALL).await;
        let kept: Vec<i64> =
            rows.map_err(|error| error.to_string())?.iter().map(|row| row.slot_at.as_microsecond()).collect();
        let schedule = &mut self.model.schedules[index];
        for row in schedule.ledger.values() {
            let known = kept.contains(&row.slot);
            if row.through >= horizon {
                agree(&format!("the slot {} is kept", at(row.slot)), known, true)?;
            } else if row.decision == Decision::Fired {
                agree(&format!("the slot {} is known", at(row.slot)), known, false)?;
            }
        }
        schedule.ledger.retain(|slot, _| kept.contains(slot));
        Ok(())
    }
}
