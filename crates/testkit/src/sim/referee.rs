//! Takes every verb of a simulated node in the model as well, and compares what the store answered.

use super::proxy::Said;
use crate::model::{self, Whereabouts};
use crate::property::drive::{Agreement, Drive, agree};
use punctual_core::id::JobId;
use punctual_core::offers::OffersSettled;
use punctual_core::run::Outcome;
use punctual_core::store::{
    ClaimRequest, ClaimedJob, FinishResult, FinishedRun, Heartbeat, Lease, LostNode, Recovered, StoreError, StoreResult,
};

impl Drive {
    /// Judges one verb that the store has done.
    pub(super) async fn judge(&mut self, said: &Said) -> Agreement {
        if self.plans_hidden && said.was_refused() {
            return Ok(());
        }
        match said.clone() {
            Said::Register(result) => self.judge_register(result).await,
            Said::Beat(lease, result) => self.judge_beat(lease, result),
            Said::Claim(request, result) => self.judge_claim(&request, result.map(|claimed| claimed.jobs)),
            Said::GiveBack(lease, jobs, result) => self.judge_give_back(lease, &jobs, result),
            Said::Finish(lease, runs, result) => self.judge_finish(lease, &runs, result),
            Said::Leave(lease, result) => self.judge_leave(lease, result),
            Said::Recover(lost, result) => self.judge_recover(&lost, result),
            Said::NextDue(result) => {
                let now = self.model.now;
                let expected = self.model.next_due().map(|due| jiff::SignedDuration::from_micros((due - now).max(0)));
                agree("how long until anything is due", answered(result)?, expected)
            }
            Said::Fire(result) => self.compare_fired(answered(result)?).await,
            Said::Promote(result) => agree("promoted", answered(result)?, self.model.promote()),
            Said::Reconcile(result) => self.judge_reconciled(answered(result)?.replanned),
            Said::Prune(retention, result) => self.judge_pruned(&retention, answered(result)?).await,
            Said::Remember(result) => answered(result).map(drop),
            Said::FireRemembered(given, result) => self.judge_remembered(&given, answered(result)?).await,
            // Every node offers what every schedule needs.
            Said::Offers(result) => agree("marked schedules", answered(result)?, OffersSettled::default()),
            Said::Other => Ok(()),
        }
    }

    /// The number of a job.
    pub(super) fn number_of(&self, id: JobId) -> Option<usize> {
        self.jobs.iter().position(|job| *job == id)
    }

    /// The number of a lease, if it is known.
    pub(super) fn node_of(&self, lease: Lease) -> Option<usize> {
        self.leases.iter().position(|known| *known == lease)
    }

    /// The number of a lease that holds.
    fn holder(&self, lease: Lease) -> Option<usize> {
        self.node_of(lease).filter(|node| self.model.nodes[*node].leased)
    }

    /// The jobs that run under a lease.
    pub(super) fn running_of(&self, node: usize) -> Vec<usize> {
        let mine = |job: &model::Job| matches!(&job.place, Whereabouts::Running(running) if running.node == node);
        (0..self.model.jobs.len()).filter(|job| mine(&self.model.jobs[*job])).collect()
    }

    fn judge_reconciled(&mut self, replanned: usize) -> Agreement {
        let behind = self.model.schedules.iter().position(|schedule| schedule.behind);
        match behind {
            // What its next slot is the store says as soon as it fires.
            Some(_) if replanned == 0 => Ok(()),
            Some(_) => Err("a plan was mended that is only behind".to_owned()),
            None => agree("impossible plans", replanned, self.model.reconcile()),
        }
    }

    async fn judge_register(&mut self, result: StoreResult<Lease>) -> Agreement {
        let lease = answered(result)?;
        let counter = self.world.counter(lease).await.ok_or("a new node is watched")?;
        self.leases.push(lease);
        self.model.nodes.push(model::Node { leased: true, counter });
        Ok(())
    }

    fn judge_beat(&mut self, lease: Lease, result: StoreResult<Heartbeat>) -> Agreement {
        let Some(node) = self.holder(lease) else { return lost("a heartbeat", &result) };
        let beat = answered(result)?;
        self.model.nodes[node].counter += 1;
        agree("the counter", beat.counter, self.model.nodes[node].counter)?;
        let cancelled =
            |job: &usize| matches!(&self.model.jobs[*job].place, Whereabouts::Running(run) if run.cancel.is_some());
        let running = self.running_of(node);
        let to_stop = running.iter().copied().filter(cancelled).collect();
        agree("what runs", sorted(beat.running), self.ids(running))?;
        agree("what is to stop", sorted(beat.cancel_requested), self.ids(to_stop))
    }

    fn ids(&self, jobs: Vec<usize>) -> Vec<JobId> {
        sorted(jobs.into_iter().map(|job| self.jobs[job]).collect())
    }

    fn judge_claim(&mut self, request: &ClaimRequest, result: StoreResult<Vec<ClaimedJob>>) -> Agreement {
        let Some(node) = self.holder(request.lease) else { return lost("a claim", &result) };
        let claimed: Vec<JobId> = answered(result)?.into_iter().map(|claimed| claimed.job.id).collect();
        let expected = self.model.claim_anywhere(node, request.limit);
        agree("what is handed out", claimed, expected.into_iter().map(|job| self.jobs[job]).collect())
    }

    fn judge_give_back(&mut self, lease: Lease, jobs: &[JobId], result: StoreResult<Vec<JobId>>) -> Agreement {
        let Some(node) = self.holder(lease) else { return lost("giving back", &result) };
        let given = answered(result)?;
        let mut expected = Vec::new();
        let asked: Vec<usize> = jobs.iter().filter_map(|id| self.number_of(*id)).collect();
        for job in asked {
            match &self.model.jobs[job].place {
                Whereabouts::Running(running) if running.node == node && running.cancel.is_none() => {
                    self.model.give_back(job);
                    expected.push(self.jobs[job]);
                }
                _ => {}
            }
        }
        agree("what went back", given, expected)
    }

    fn judge_finish(
        &mut self, lease: Lease, runs: &[FinishedRun], result: StoreResult<Vec<FinishResult>>,
    ) -> Agreement {
        let answers = answered(result)?;
        agree("answers to reports", answers.len(), runs.len())?;
        for (run, answer) in runs.iter().zip(answers) {
            let job = self.number_of(run.job_id).ok_or("an unknown job was finished")?;
            let node = self.node_of(lease).ok_or("an unknown lease")?;
            let mine = matches!(&self.model.jobs[job].place, Whereabouts::Running(running) if running.node == node);
            if !mine {
                agree(&format!("a late end of job {job}"), answer, FinishResult::LostLease)?;
                continue;
            }
            let ending = match (run.outcome, run.error_code) {
                (Outcome::Completed, _) => model::Ending::Completed,
                (Outcome::Failed, Some(code)) => model::Ending::Failed(code),
                (Outcome::Cancelled, _) => model::Ending::Cancelled,
                other => return Err(format!("a run of job {job} ended in an unknown way: {other:?}")),
            };
            let expected = self.model.finish(job, ending);
            match (answer, expected) {
                (FinishResult::Closed { retry: Some(id) }, Some(_)) => self.jobs.push(id),
                (FinishResult::Closed { retry: None }, None) => {}
                (answer, expected) => {
                    return Err(format!(
                        "the end of job {job}: the model's retry is {expected:?}, the store says {answer:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn judge_leave(&mut self, lease: Lease, result: StoreResult<()>) -> Agreement {
        let Some(node) = self.holder(lease) else { return lost("leaving", &result) };
        if self.running_of(node).is_empty() {
            answered(result)?;
            self.model.nodes[node].leased = false;
            return Ok(());
        }
        agree("leaving is refused", result.is_err(), true)
    }

    fn judge_recover(&mut self, lost: &[LostNode], result: StoreResult<Recovered>) -> Agreement {
        let recovered = answered(result)?;
        let still =
            |lost: &LostNode| self.holder(lost.lease).filter(|node| self.model.nodes[*node].counter == lost.counter);
        let nodes: Vec<usize> = lost.iter().filter_map(still).collect();
        agree("nodes declared lost", recovered.nodes, nodes.len())?;
        agree("left-over rows", recovered.leftovers, 0)?;
        self.compare_recovered(&nodes, recovered)
    }
}

fn answered<T>(result: StoreResult<T>) -> Result<T, String> {
    result.map_err(|error| format!("the store refused: {error}"))
}

/// What must be answered to somebody whose lease does not hold.
fn lost<T: std::fmt::Debug>(what: &str, result: &StoreResult<T>) -> Agreement {
    match result {
        Err(StoreError::LostLease) => Ok(()),
        other => Err(format!("{what} without a lease was answered by {other:?}")),
    }
}

fn sorted(mut ids: Vec<JobId>) -> Vec<JobId> {
    ids.sort_unstable();
    ids
}
