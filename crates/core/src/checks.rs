//! What must hold in every store at every instant, as checks that a person can run (C17).
//!
//! The layout makes most faults impossible to write by the verbs; what these checks look for is what a hand-made
//! statement, a restored backup, a damaged disk or a bug could leave behind, and what only looks healthy: schedules
//! that nobody fires, plans that a wrong clock has spoiled.

use crate::store::StoreResult;
use crate::words::words;
use async_trait::async_trait;
use serde::Serialize;

words! {
    /// One thing that is looked for.
    pub enum Check as "check" {
        /// The database itself is damaged, or one of its indexes cannot be trusted.
        DatabaseDamaged = "database_damaged",
        /// A job is neither waiting, nor queued, nor running, nor ended.
        JobNowhere = "job_nowhere",
        /// A job is in two places at once.
        JobInTwoPlaces = "job_in_two_places",
        /// A row of the queue or of the ledgers belongs to no job.
        RowWithoutJob = "row_without_job",
        /// A job is running under a lease that nobody holds.
        RunningWithoutLease = "running_without_lease",
        /// A queued job is held back although nothing stands before it.
        HeldForNothing = "held_for_nothing",
        /// A run failed, is not final, and has no retry.
        RetryMissing = "retry_missing",
        /// A retry is not the one that is recorded for the job it follows.
        RetryUnrecorded = "retry_unrecorded",
        /// A schedule has no state, or a state has no schedule.
        ScheduleIncomplete = "schedule_incomplete",
        /// The ledger holds a slot behind the plan that the schedule has not counted, so that it could fire again.
        SlotNotCounted = "slot_not_counted",
        /// The ledger says that a slot fired, and its job is not there.
        SlotWithoutJob = "slot_without_job",
        /// A job counts as alive for its schedule and is not, or is alive and does not count.
        LiveMiscounted = "live_miscounted",
        /// A schedule is on and has no next time.
        ScheduleUnplanned = "schedule_unplanned",
        /// A schedule has decided slots that lie in the future: a clock was wrong.
        DecidedInFuture = "decided_in_future",
        /// A schedule cannot be understood.
        ScheduleProblem = "schedule_problem",
        /// A schedule or a delayed job is long due, and nobody took it.
        Overdue = "overdue",
        /// Somebody's snapshot is so old that what has died since cannot be removed.
        OldSnapshot = "old_snapshot",
    }
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Somebody should look; the store itself is sound.
    Attention,
    /// An invariant does not hold.
    Broken,
}

impl Check {
    /// How bad it is.
    pub const fn severity(self) -> Severity {
        match self {
            Self::ScheduleUnplanned
            | Self::DecidedInFuture
            | Self::ScheduleProblem
            | Self::Overdue
            | Self::OldSnapshot => Severity::Attention,
            _ => Severity::Broken,
        }
    }

    /// What it means, for a person.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::DatabaseDamaged => "the database is damaged, or an index of it is not valid",
            Self::JobNowhere => "a job is neither waiting, nor queued, nor running, nor ended: it would never run",
            Self::JobInTwoPlaces => "a job is in two places at once: it could run twice",
            Self::RowWithoutJob => "a row stands for a job that does not exist",
            Self::RunningWithoutLease => "a job is running under a lease that nobody holds: it would never end",
            Self::HeldForNothing => "a queued job is held back although nothing stands before it: it would never run",
            Self::RetryMissing => "a run failed, is not final, and has no retry",
            Self::RetryUnrecorded => "a retry is not the one recorded for its job: another could be made",
            Self::ScheduleIncomplete => "a schedule has no state, or a state has no schedule: it would never fire",
            Self::SlotNotCounted => "the ledger holds a slot beyond what its schedule has counted",
            Self::SlotWithoutJob => "the ledger says that a slot fired, and its job is not there",
            Self::LiveMiscounted => "the count of a schedule's living jobs is wrong: overlap rules decide wrongly",
            Self::ScheduleUnplanned => "a schedule is on and has no next time",
            Self::DecidedInFuture => "a schedule has decided slots of the future: it stays silent until then",
            Self::ScheduleProblem => "a schedule cannot fire as it is written",
            Self::Overdue => "something is due for over a minute, and nobody took it",
            Self::OldSnapshot => {
                "a transaction that does not end keeps dead rows from being removed: the store grows, and claims get slow"
            }
        }
    }

    /// What to do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::DatabaseDamaged => {
                "stop the nodes, keep a copy of the data, then restore a backup (SQLite) or REINDEX (PostgreSQL)"
            }
            Self::JobNowhere => "enqueue the same work again; the record of this job stays as it is",
            Self::JobInTwoPlaces => "stop the nodes and restore a backup, or remove the row that is wrong by hand",
            Self::RowWithoutJob => "restore the job from a backup, or remove the row by hand",
            Self::RunningWithoutLease => "start a node: it recovers such jobs when it starts and in every sweep",
            Self::HeldForNothing => "cancel one queued job of that key, which lets the next one go",
            Self::RetryMissing => "start a node: recovery makes the missing retry, once",
            Self::RetryUnrecorded => "cancel the retry, and retry the failed job again",
            Self::ScheduleIncomplete => "create the schedule again under its name",
            Self::SlotNotCounted => "set the schedule's fired_through to the latest slot of its ledger",
            Self::SlotWithoutJob => "the slot counts as fired; run the schedule by hand if the work is still wanted",
            Self::LiveMiscounted => "start a node; if it stays, remove or add the row in schedule_live by hand",
            Self::ScheduleUnplanned => "start a node: it plans such schedules within five minutes, without firing",
            Self::DecidedInFuture => {
                "correct the clock; if that time is far away, delete the schedule and create it again"
            }
            Self::ScheduleProblem => "read the problem with the schedule, and edit it",
            Self::Overdue => "start a node, or look in its log why it does not fire",
            Self::OldSnapshot => {
                "end it as said beside it; on PostgreSQL, idle_in_transaction_session_timeout ends the next one by itself"
            }
        }
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which check found it.
    pub check: Check,
    /// About what: an id, a name, or what the database said.
    pub subjects: Vec<String>,
    /// Whether there are more than are listed.
    pub more: bool,
}

impl Finding {
    /// Groups what the checks answered, at most `limit` subjects each; the stores ask for one more than that.
    pub fn group(found: impl IntoIterator<Item = (Check, String)>, limit: usize) -> Vec<Self> {
        let mut findings: Vec<Self> = Vec::new();
        for (check, subject) in found {
            let known = findings.iter().position(|finding| finding.check == check);
            let at = known.unwrap_or_else(|| {
                findings.push(Self { check, subjects: Vec::new(), more: false });
                findings.len() - 1
            });
            let finding = &mut findings[at];
            if finding.subjects.contains(&subject) {
                continue;
            }
            if finding.subjects.len() < limit { finding.subjects.push(subject) } else { finding.more = true }
        }
        findings.sort_by_key(|finding| (std::cmp::Reverse(finding.check.severity()), finding.check));
        findings
    }
}

/// The part of the store port that looks for what must not be.
#[async_trait]
pub trait Checks: Send + Sync {
    /// Looks through the whole store in one snapshot, so that work going on meanwhile alarms nobody; at most `limit`
    /// subjects of each finding are told. It reads every table once: minutes for a store of many millions of jobs.
    async fn run_checks(&self, limit: usize) -> StoreResult<Vec<Finding>>;

    /// Only those of the checks that read no table, which take milliseconds whatever the store holds.
    async fn run_quick_checks(&self, limit: usize) -> StoreResult<Vec<Finding>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c17_findings_are_grouped_worst_first_and_cut() {
        let found = [
            (Check::Overdue, "a"),
            (Check::JobNowhere, "x"),
            (Check::JobNowhere, "x"),
            (Check::JobNowhere, "y"),
            (Check::JobNowhere, "z"),
        ];
        let grouped = Finding::group(found.map(|(check, subject)| (check, subject.to_owned())), 2);
        assert_eq!(
            grouped,
            [
                Finding { check: Check::JobNowhere, subjects: vec!["x".into(), "y".into()], more: true },
                Finding { check: Check::Overdue, subjects: vec!["a".into()], more: false },
            ]
        );
    }

    #[test]
    fn c17_every_check_says_what_to_do() {
        for check in Check::ALL {
            assert!(!check.meaning().is_empty() && !check.remedy().is_empty(), "{check}");
        }
    }
}
