//! What must hold of the work itself, as the jobs were seen doing it.

use super::node::Body;
use super::work::{Act, Seen};
use crate::model::{Job, Whereabouts};
use crate::property::drive::{Agreement, Drive};
use punctual_core::id::JobId;
use punctual_core::run::{ErrorCode, Outcome};
use std::collections::BTreeMap;
use std::time::Duration;

/// How much later than its lease allows a run may leave a trace: it has to be told, and to hear it.
const SLACK: Duration = Duration::from_secs(2);

/// All executions so far; one for each job at most.
#[derive(Debug, Default)]
pub struct Executions(BTreeMap<JobId, Execution>);

/// One execution.
#[derive(Debug)]
struct Execution {
    /// How it ended, if it came to its own end.
    ended: Option<bool>,
}

impl Executions {
    /// How many there were.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Judges what a job was seen doing on a node that has a lease.
    pub fn judge(
        &mut self, drive: &Drive, body: &Body, lease: Option<usize>, length: Duration, seen: &Seen,
    ) -> Agreement {
        let job = drive.number_of(seen.job).ok_or("an unknown job was seen")?;
        let renewed_at = body.renewed_at.ok_or("a job was seen on a node that never had a lease")?;
        let unsure_for = seen.at.duration_since(renewed_at);
        let may = length * 2 / 3;
        // A machine that slept cannot know it; only the store's fence helps then.
        let excused = body.slept;
        match seen.act {
            Act::Begin => {
                if self.0.insert(seen.job, Execution { ended: None }).is_some() {
                    return Err(format!("job {job} was executed twice"));
                }
                if unsure_for >= may && !excused {
                    return Err(format!(
                        "job {job} was started {unsure_for:?} after the last renewal, which is too late"
                    ));
                }
                let held = matches!((&drive.model.jobs[job].place, lease), (Whereabouts::Running(run), Some(lease)) if run.node == lease);
                if !held && !excused {
                    return Err(format!("job {job} was started by a node that does not hold it any more"));
                }
            }
            Act::Trace => {
                let just_woken = body.woke_at.is_some_and(|woke| seen.at.duration_since(woke) <= SLACK);
                if unsure_for > may + SLACK && !just_woken && !excused {
                    return Err(format!("job {job} worked on {unsure_for:?} after the last renewal"));
                }
            }
            Act::End(well) => {
                let execution = self.0.get_mut(&seen.job).ok_or("what ended had begun")?;
                execution.ended = Some(well);
            }
        }
        Ok(())
    }

    /// Compares what was seen with what the record says.
    pub fn compare(&self, drive: &Drive) -> Agreement {
        for (number, job) in drive.model.jobs.iter().enumerate() {
            let execution = self.0.get(&drive.jobs[number]);
            if !matches_record(job, execution) {
                return Err(format!("job {number} was seen as {execution:?}, and the record says {:?}", job.place));
            }
        }
        Ok(())
    }
}

fn matches_record(job: &Job, execution: Option<&Execution>) -> bool {
    let Whereabouts::Closed(closed) = &job.place else { return execution.is_none() };
    let own_fault = matches!(
        closed.code,
        Some(ErrorCode::TargetError | ErrorCode::TargetRejected | ErrorCode::BadOutput | ErrorCode::OutputTooLarge)
    );
    match execution {
        Some(_) if closed.started_at.is_none() => false,
        // Whatever it did, its node could not say so any more.
        Some(_) if closed.code == Some(ErrorCode::NodeLost) => true,
        Some(Execution { ended: Some(true) }) => closed.outcome == Outcome::Completed,
        Some(Execution { ended: Some(false) }) => closed.outcome != Outcome::Completed,
        None | Some(Execution { ended: None }) => closed.outcome != Outcome::Completed && !own_fault,
    }
}
