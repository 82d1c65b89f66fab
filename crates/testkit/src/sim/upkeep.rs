//! What a simulation holds about upkeep: what may be forgotten, who is told what, and what is fired from memory.

use crate::model::{News, Row, Whereabouts};
use crate::property::drive::{Agreement, Drive, agree, at};
use crate::property::ops::Op;
use crate::steps::ALL;
use jiff::Timestamp;
use punctual_core::id::{JobId, NodeId};
use punctual_core::run::Outcome;
use punctual_core::schedule::Schedule;
use punctual_core::slot::{Decision, SlotRow};
use punctual_core::store::{Pruned, Retention, ScheduleKey};
use punctual_core::upkeep::{FiredFromMemory, Notice, NoticeKind};
use std::collections::BTreeSet;

impl Drive {
    // --- retention ---------------------------------------------------------------------------------------------------

    /// Judges what was forgotten: only what no rule keeps, and nothing that keeps a slot from firing twice.
    pub(super) async fn judge_pruned(&mut self, retention: &Retention, pruned: Pruned) -> Agreement {
        if pruned.jobs > 0 {
            let gone = self.jobs_gone().await?;
            agree("how many jobs were forgotten", pruned.jobs, gone.len())?;
            let kept = self.latest_of_schedules(retention.keep_last as usize);
            for job in &gone {
                self.may_be_forgotten(*job, retention, &gone, &kept)?;
            }
            for job in gone {
                self.model.jobs[job].forgotten = true;
            }
        }
        if pruned.slots > 0 {
            let mut slots = 0;
            for index in 0..self.schedules.len() {
                slots += self.adopt_gone_slots(index, retention).await?;
            }
            agree("how many rows of the ledger were forgotten", pruned.slots, slots)?;
        }
        let horizon = retention.slots_before.as_microsecond();
        self.notices_gone += pruned.notices;
        self.notices_kept_from = self.notices_kept_from.max(horizon);
        Ok(())
    }

    async fn jobs_gone(&self) -> Result<BTreeSet<usize>, String> {
        let mut gone = BTreeSet::new();
        for (index, job) in self.model.jobs.iter().enumerate().filter(|(_, job)| !job.forgotten) {
            let ended = matches!(job.place, Whereabouts::Closed(_));
            // What is alive is looked at when all is compared; to ask for everything each time would take too long.
            if ended && self.world.store().job(self.jobs[index]).await.map_err(|error| error.to_string())?.is_none() {
                gone.insert(index);
            }
        }
        Ok(gone)
    }

    /// The latest jobs of each schedule among those that are known.
    fn latest_of_schedules(&self, many: usize) -> BTreeSet<usize> {
        let mut latest = BTreeSet::new();
        for schedule in 0..self.schedules.len() {
            let jobs = self.model.jobs.iter().enumerate();
            let of_it = jobs.filter(|(_, job)| job.schedule == Some(schedule) && !job.forgotten);
            let mut of_it: Vec<usize> = of_it.map(|(index, _)| index).collect();
            of_it.sort_by_key(|job| std::cmp::Reverse(self.jobs[*job]));
            latest.extend(of_it.into_iter().take(many));
        }
        latest
    }

    fn may_be_forgotten(
        &self, job: usize, retention: &Retention, gone: &BTreeSet<usize>, latest: &BTreeSet<usize>,
    ) -> Agreement {
        let refuse = |why: &str| Err(format!("job {job} was forgotten although {why}"));
        let Whereabouts::Closed(closed) = &self.model.jobs[job].place else { return refuse("it is alive") };
        let failed = closed.outcome == Outcome::Failed;
        let before = if failed { retention.failed_before } else { retention.runs_before };
        let retried = |(index, other): (usize, &crate::model::Job)| {
            other.retry_of == Some(job) && !other.forgotten && !gone.contains(&index)
        };
        if at(closed.finished_at) >= before {
            return refuse("it ended a short while ago");
        }
        if self.model.jobs.iter().enumerate().any(retried) {
            return refuse("its retry is known");
        }
        if latest.contains(&job) {
            return refuse("it is among the latest of its schedule");
        }
        Ok(())
    }

    async fn adopt_gone_slots(&mut self, index: usize, retention: &Retention) -> Result<usize, String> {
        let rows = self.rows_of(index).await?;
        let kept: BTreeSet<i64> = rows.iter().map(|row| row.slot_at.as_microsecond()).collect();
        let found = self.world.store().schedule(&ScheduleKey::Id(self.schedules[index])).await;
        let found = found.map_err(|error| error.to_string())?;
        let schedule = &mut self.model.schedules[index];
        for row in schedule.ledger.values().filter(|row| !kept.contains(&row.slot)) {
            let old = at(row.through) < retention.slots_before;
            // A schedule that was deleted fires nothing, so it needs no watermark.
            let covered = found.as_ref().is_none_or(|found| found.state.fired_through >= Some(at(row.through)));
            if !(old && covered) {
                return Err(format!(
                    "the slot {} of schedule {index} was forgotten and might fire again",
                    at(row.slot)
                ));
            }
        }
        let before = schedule.ledger.len();
        schedule.ledger.retain(|slot, _| kept.contains(slot));
        Ok(before - schedule.ledger.len())
    }

    /// What ended long ago, alone in its chain, is forgotten by now.
    pub(super) fn nothing_is_kept_for_ever(&self, before: i64, keep_last: usize) -> Agreement {
        let latest = self.latest_of_schedules(keep_last);
        let alone = |job: usize| {
            let chain = self.model.jobs[job].root;
            self.model.jobs.iter().filter(|other| other.root == chain).count() == 1
        };
        let old = self.model.jobs.iter().enumerate().find(|(index, job)| {
            let ended = matches!(&job.place, Whereabouts::Closed(closed) if closed.finished_at < before);
            ended && job.created_at < before && !job.forgotten && !latest.contains(index) && alone(*index)
        });
        old.map_or(Ok(()), |(job, _)| Err(format!("job {job} ended long ago, and is still known")))
    }

    // --- the outbox --------------------------------------------------------------------------------------------------

    /// Everybody who had to be told is told once.
    pub(super) async fn compare_outbox(&self) -> Agreement {
        let found = self.world.store().notices(None, ALL).await.map_err(|error| error.to_string())?;
        let total = found.len() + self.notices_gone;
        agree("how much was ever told", total, self.model.notices.len())?;
        let mut found = found.iter().map(|notice| self.news_of(notice)).collect::<Result<Vec<_>, _>>()?;
        found.sort_unstable();
        if let Some((twice, _)) = found.iter().zip(found.iter().skip(1)).find(|(one, next)| one == next) {
            return Err(format!("told twice: {twice:?}"));
        }
        let known: BTreeSet<(i64, News)> = self.model.notices.iter().map(|it| (it.at, it.news)).collect();
        if let Some(invented) = found.iter().find(|notice| !known.contains(notice)) {
            return Err(format!("told although nothing happened: {invented:?}"));
        }
        let kept = known.into_iter().filter(|(at, _)| *at >= self.notices_kept_from);
        let missing = kept.into_iter().find(|notice| !found.contains(notice));
        missing.map_or(Ok(()), |missing| Err(format!("nobody was told of {missing:?}")))
    }

    fn news_of(&self, notice: &Notice) -> Result<(i64, News), String> {
        let job = |id: Option<JobId>| id.and_then(|id| self.number_of(id)).ok_or("a notice names an unknown job");
        let node = |id: Option<NodeId>| {
            id.and_then(|id| self.leases.iter().position(|lease| lease.node_id == id)).ok_or("an unknown node was lost")
        };
        let news = match notice.news.kind {
            NoticeKind::RunFailed => News::Failed(job(notice.news.job_id)?),
            NoticeKind::Recovered => News::Recovered(job(notice.news.job_id)?),
            NoticeKind::NodeLost => News::Lost(node(notice.news.node_id)?),
            NoticeKind::SlotsMissed => self.missed(notice)?,
            NoticeKind::ClockJumped => return Err("no clock has jumped as a node would see it".to_owned()),
        };
        Ok((notice.created_at.as_microsecond(), news))
    }

    fn missed(&self, notice: &Notice) -> Result<News, String> {
        #[derive(serde::Deserialize)]
        struct Payload {
            slot_at: Timestamp,
        }
        let payload: Payload = notice.news.payload.to().map_err(|error| error.to_string())?;
        let schedule = notice.news.schedule_id.and_then(|id| self.schedules.iter().position(|known| *known == id));
        let schedule = schedule.ok_or("a notice names an unknown schedule")?;
        Ok(News::Missed(schedule, payload.slot_at.as_microsecond()))
    }

    // --- firing from memory ------------------------------------------------------------------------------------------

    /// Whether a user can do something now: not with plans that are out of reach, and not with those that the store has
    /// still to bring up to what was fired without them, for which the model has no rules.
    pub(super) fn may_do(&self, op: &Op) -> bool {
        use Op::{Create, Delete, Pause, PauseUntil, Reschedule, Resume, Retouch, SkipNext, Trigger, Update};
        let behind = self.model.schedules.iter().any(|schedule| schedule.behind && !schedule.deleted);
        match op {
            Update(..) | Retouch(..) | PauseUntil(..) | Resume(_) | Reschedule(..) | SkipNext(_) => {
                !self.plans_hidden && !behind
            }
            Create(_) | Pause(_) | Trigger(_) | Delete(_) => !self.plans_hidden,
            _ => true,
        }
    }

    /// Hides the table of plans, as it is when nobody can use it, or brings it back.
    pub(super) async fn hide_plans(&mut self, hide: bool) -> Agreement {
        let (from, to) = if hide { ("schedule_state", "hidden") } else { ("hidden", "schedule_state") };
        let to = self.world.raw.table(to);
        let to = to.rsplit('.').next().unwrap_or(&to);
        self.plans_hidden = hide;
        self.world.tamper(&format!("ALTER TABLE {{{from}}} RENAME TO {to}")).await.map(drop)
    }

    /// Takes over what was fired from memory, as far as the rules allow it.
    pub(super) async fn judge_remembered(&mut self, given: &[Schedule], done: FiredFromMemory) -> Agreement {
        let mut fired = Vec::new();
        for id in &done.fired.jobs {
            let job = self.world.job(*id).await.job;
            fired.push((self.schedules.iter().position(|known| Some(*known) == job.schedule_id), job.slot_at));
        }
        let known = |schedule: &Schedule| self.schedules.iter().position(|known| *known == schedule.id);
        let mut given: Vec<usize> = given.iter().filter_map(known).collect();
        given.sort_by_key(|index| fired.iter().position(|(by, _)| *by == Some(*index)));
        let (mut expected, mut not_run) = (Vec::new(), 0);
        for index in given {
            let (jobs, others) = self.adopt_rows(index).await?;
            self.model.schedules[index].behind |= others > 0 || !jobs.is_empty();
            not_run += others;
            expected.extend(jobs.into_iter().map(|job| (Some(index), self.model.jobs[job].slot.map(at))));
        }
        agree("the slots that fired from memory, in order", fired, expected)?;
        agree("the slots that did not", done.fired.slots_not_run, not_run)?;
        self.jobs.extend(done.fired.jobs);
        Ok(())
    }

    /// What the store decided for a schedule whose plan is behind its ledger: every row must be one that the rules
    /// allow. Hands back the jobs that were made and how many slots did not run.
    pub(crate) async fn adopt_rows(&mut self, index: usize) -> Result<(Vec<usize>, u64), String> {
        let rows = self.rows_of(index).await?;
        let is_new = |row: &&SlotRow| !self.model.schedules[index].ledger.contains_key(&row.slot_at.as_microsecond());
        let new: Vec<SlotRow> = rows.iter().filter(is_new).cloned().collect();
        let (mut jobs, mut not_run) = (Vec::new(), 0);
        for row in &new {
            let slot = row.slot_at.as_microsecond();
            let schedule = &self.model.schedules[index];
            let covered = |other: &&Row| other.slot < slot && slot <= other.through && schedule.has_slot(slot);
            if let Some(other) = schedule.ledger.values().find(covered) {
                return Err(format!("schedule {index}: the slot {} was decided twice: {other:?}", row.slot_at));
            }
            if row.decided_at < row.slot_at {
                return Err(format!("schedule {index}: the slot {} was decided early", row.slot_at));
            }
            let job = match row.decision {
                Decision::Fired | Decision::Skipped => {
                    let key = self.schedules[index].to_string();
                    self.model.decide_as(index, slot, row.schedule_version, row.reason, &key)?
                }
                Decision::Missed => None,
            };
            agree(&format!("schedule {index}: a job for {}", row.slot_at), row.job_id.is_some(), job.is_some())?;
            not_run += if job.is_none() { row.count } else { 0 };
            jobs.extend(job);
            let (through, decided_at) = (row.through.as_microsecond(), row.decided_at.as_microsecond());
            let (count, decision, reason, version) = (row.count, row.decision, row.reason, row.schedule_version);
            let row = Row { slot, through, count, decision, reason, job, decided_at, version };
            if row.decision == Decision::Missed {
                let news = News::Missed(index, slot);
                self.model.notices.push(crate::model::Notice { news, at: decided_at });
            }
            self.model.schedules[index].ledger.insert(slot, row);
        }
        Ok((jobs, not_run))
    }

    /// Takes over the plans of several schedules.
    pub(crate) async fn adopt_plans(&mut self, behind: &[usize]) -> Agreement {
        for index in behind {
            self.adopt_plan(*index).await?;
        }
        Ok(())
    }

    /// Takes over the plan that the store made after it had found what was fired without it.
    async fn adopt_plan(&mut self, index: usize) -> Agreement {
        let found = self.world.store().schedule(&ScheduleKey::Id(self.schedules[index])).await;
        let Some(found) = found.map_err(|error| error.to_string())? else { return Ok(()) };
        let micros = |at: Option<Timestamp>| at.map(Timestamp::as_microsecond);
        let last_job = found.state.last_job_id.and_then(|id| self.number_of(id));
        let schedule = &mut self.model.schedules[index];
        let last = schedule.ledger.values().map(|row| row.through).max();
        let expected = last.and_then(|last| schedule.slot_after(last));
        agree(
            &format!("schedule {index}: the slot after the last one decided"),
            micros(found.state.next_slot_at),
            expected,
        )?;
        (schedule.next, schedule.next_due) = (micros(found.state.next_slot_at), micros(found.state.next_run_at));
        (schedule.last_slot, schedule.last_enqueued) =
            (micros(found.state.last_slot_at), micros(found.state.last_enqueued_at));
        schedule.last_job = last_job;
        let passed = schedule.ledger.values().filter(|row| row.through <= row.decided_at).map(|row| row.through).max();
        schedule.passed_through = schedule.passed_through.max(passed);
        schedule.behind = false;
        Ok(())
    }

    async fn rows_of(&self, index: usize) -> Result<Vec<SlotRow>, String> {
        let rows = self.world.store().slots(self.schedules[index], None, ALL).await;
        let mut rows = rows.map_err(|error| error.to_string())?;
        rows.reverse();
        Ok(rows)
    }
}
