//! What happened in a simulation: told in lines, counted, and summed up in one number.

use super::proxy::Said;
use super::scenario::Ms;
use crate::property::drive::Drive;
use punctual_core::store::{FinishResult, StoreResult};
use std::collections::BTreeMap;

/// What happened so far.
#[derive(Debug, Clone)]
pub struct History {
    hash: u64,
    lines: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl Default for History {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, lines: Vec::new(), counts: BTreeMap::new() }
    }
}

impl History {
    /// Takes something down; `plain` things count for the sum but are not worth a line.
    pub fn note(&mut self, at: Ms, who: &str, what: &str, plain: bool) {
        for byte in at.to_be_bytes().iter().chain(who.as_bytes()).chain(what.as_bytes()) {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if !plain {
            self.lines.push(format!("{} {who:<7} {what}", clock(at)));
        }
    }

    /// Counts something.
    pub fn count(&mut self, what: &'static str, times: usize) {
        if times == 0 {
            return;
        }
        *self.counts.entry(what).or_default() += times as u64;
    }

    /// Everything in one number: two histories with the same one are the same.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The counts.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }
}

/// Milliseconds as `1d 02:03:04.567`.
pub fn clock(at: Ms) -> String {
    let (seconds, ms) = (at / 1000, at % 1000);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    format!("{days}d {hours:02}:{minutes:02}:{:02}.{ms:03}", seconds % 60)
}

/// What a verb did, in words without ids, and whether it did anything at all.
pub fn told(drive: &Drive, verb: &str, said: &Said, history: &mut History) -> (String, bool) {
    let jobs = |ids: &[punctual_core::id::JobId]| {
        let numbers: Vec<_> =
            ids.iter().map(|id| drive.number_of(*id)).map(|number| number.unwrap_or(usize::MAX)).collect();
        format!("{numbers:?}")
    };
    let (what, plain) = match said {
        Said::Register(_) => (format!("is node {}", drive.leases.len().saturating_sub(1)), false),
        Said::Claim(_, Ok(claimed)) => {
            let ids: Vec<_> = claimed.iter().map(|claimed| claimed.job.id).collect();
            history.count("claimed", ids.len());
            (jobs(&ids), ids.is_empty())
        }
        Said::GiveBack(_, asked, Ok(given)) => {
            history.count("given back", given.len());
            (format!("{} of {}", jobs(given), jobs(asked)), false)
        }
        Said::Finish(_, runs, Ok(answers)) => {
            let refused = answers.iter().filter(|answer| **answer == FinishResult::LostLease).count();
            history.count("late ends refused", refused);
            history.count("ended", answers.len() - refused);
            let ids: Vec<_> = runs.iter().map(|run| run.job_id).collect();
            let how: Vec<_> = runs.iter().map(|run| run.error_code.map_or("completed", |code| code.as_str())).collect();
            (format!("{} {how:?}, {refused} refused", jobs(&ids)), false)
        }
        Said::Recover(lost, Ok(recovered)) => {
            history.count("nodes lost", recovered.nodes);
            history.count("jobs of lost nodes", recovered.closed.len());
            let what = format!("{} of {} nodes, jobs {}", recovered.nodes, lost.len(), jobs(&recovered.closed));
            (what, lost.is_empty() && recovered.closed.is_empty())
        }
        Said::Fire(Ok(fired)) => {
            history.count("slots fired", fired.jobs.len());
            history.count("slots not run", usize::try_from(fired.slots_not_run).unwrap_or(usize::MAX));
            let what = format!("{} jobs, {} slots not run", jobs(&fired.jobs), fired.slots_not_run);
            (what, fired.schedules == 0)
        }
        Said::FireRemembered(given, Ok(done)) => {
            history.count("slots fired from memory", done.fired.jobs.len());
            (format!("{} jobs of {} schedules", done.fired.jobs.len(), given.len()), done.fired.jobs.is_empty())
        }
        Said::Prune(_, Ok(pruned)) => {
            history.count("jobs forgotten", pruned.jobs);
            history.count("slots forgotten", pruned.slots);
            history.count("notices forgotten", pruned.notices);
            let what = format!("{} jobs, {} slots, {} notices", pruned.jobs, pruned.slots, pruned.notices);
            (what, pruned.jobs + pruned.slots + pruned.notices == 0)
        }
        Said::Promote(Ok(count)) => (count.to_string(), *count == 0),
        Said::Reconcile(Ok(done)) => {
            history.count("plans mended", done.replanned);
            (done.replanned.to_string(), done.replanned == 0)
        }
        Said::Leave(_, result) => (outcome(result), false),
        Said::Beat(_, result) => {
            (result.as_ref().map_or_else(ToString::to_string, |b| b.counter.to_string()), result.is_ok())
        }
        Said::NextDue(Ok(due)) => (format!("{due:?}"), true),
        Said::Other | Said::Offers(Ok(_)) | Said::Remember(Ok(_)) => (String::new(), true),
        said => (refusal(said), false),
    };
    (format!("{verb}: {what}"), plain)
}

fn outcome<T>(result: &StoreResult<T>) -> String {
    result.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned())
}

fn refusal(said: &Said) -> String {
    match said {
        Said::Claim(_, result) => outcome(result),
        Said::GiveBack(_, _, result) => outcome(result),
        Said::Finish(_, _, result) => outcome(result),
        Said::Recover(_, result) => outcome(result),
        Said::Fire(result) => outcome(result),
        Said::Promote(result) => outcome(result),
        Said::Reconcile(result) => outcome(result),
        Said::NextDue(result) => outcome(result),
        Said::Offers(result) => outcome(result),
        Said::Prune(_, result) => outcome(result),
        Said::Remember(result) => outcome(result),
        Said::FireRemembered(_, result) => outcome(result),
        Said::Register(_) | Said::Beat(..) | Said::Leave(..) | Said::Other => String::new(),
    }
}
