//! How a run is closed and what follows it: pure, so that both stores write the same rows.

use crate::id::JobId;
use crate::job::{ChainLink, Job, NewJob, Origin};
use crate::retry::{AfterFailure, Chain, after_failure};
use crate::run::{ErrorCode, Outcome, Trigger};
use crate::store::FinishedRun;
use jiff::Timestamp;

/// The longest error text that is kept, in characters.
pub const ERROR_MAX_CHARS: usize = 65_536;

/// The code a run is closed with: a cancelled one says who cancelled it, a failed one always has one.
pub fn error_code(run: &FinishedRun, cancel_code: Option<ErrorCode>) -> Option<ErrorCode> {
    match run.outcome {
        Outcome::Completed => None,
        Outcome::Failed => Some(run.error_code.unwrap_or(ErrorCode::Internal)),
        Outcome::Cancelled => cancel_code.or(run.error_code).or(Some(ErrorCode::Cancelled)),
        Outcome::Skipped => run.error_code,
    }
}

/// What a target said, made fit for both stores: NUL replaced, and cut where it is too long.
pub fn storable_text(text: &str) -> String {
    text.chars().take(ERROR_MAX_CHARS).map(|c| if c == '\0' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A retry that is to be made: a new job in the same chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The failed job it follows.
    pub retry_of: JobId,
    /// What it does, and when at the earliest.
    pub spec: NewJob,
    /// Its schedule, slot and place in the chain.
    pub origin: Origin,
}

/// The retry that follows a failed job, if its policy wants one. `None` means that the run is `final`.
///
/// The caller has made sure that somebody still wants the work: nobody retries what was cancelled or whose schedule
/// was deleted.
pub fn retry_after(job: &Job, code: ErrorCode, now: Timestamp, chance: u64) -> Option<Retry> {
    let interrupted = code.is_interruption();
    let chain = Chain {
        failures: job.failures + u32::from(!interrupted),
        interruptions: job.interruptions + u32::from(interrupted),
        began_at: job.chain_began_at,
    };
    let AfterFailure::Retry { run_at } = after_failure(&job.spec.retry, code, chain, now, chance) else {
        return None;
    };
    Some(Retry {
        retry_of: job.id,
        spec: NewJob {
            run_at: Some(run_at),
            trigger: Trigger::Retry,
            trigger_detail: Some(code.as_str().to_owned()),
            ..job.spec.clone()
        },
        origin: Origin {
            schedule_id: job.schedule_id,
            slot_at: job.slot_at,
            chain: Some(ChainLink {
                retry_of: job.id,
                root_job_id: job.root_job_id,
                began_at: job.chain_began_at,
                attempt: job.attempt + 1,
                failures: chain.failures,
                interruptions: chain.interruptions,
            }),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;
    use uuid::Uuid;

    fn job() -> Job {
        let now = Timestamp::from_second(1000).unwrap();
        let id = JobId(Uuid::from_u128(1));
        Job {
            id,
            created_at: now,
            spec: NewJob::new(Target::command(["true"])),
            schedule_id: None,
            slot_at: None,
            retry_of: None,
            root_job_id: id,
            chain_began_at: now,
            attempt: 1,
            failures: 0,
            interruptions: 0,
        }
    }

    #[test]
    fn c04_a_retry_is_a_new_job_of_the_same_chain() {
        let now = Timestamp::from_second(1010).unwrap();
        let retry = retry_after(&job(), ErrorCode::TargetError, now, 0).unwrap();
        let link = retry.origin.chain.unwrap();
        assert_eq!((link.attempt, link.failures, link.interruptions), (2, 1, 0));
        assert_eq!((link.retry_of, link.root_job_id), (job().id, job().id));
        assert_eq!((retry.spec.trigger, retry.spec.trigger_detail.as_deref()), (Trigger::Retry, Some("target_error")));
    }

    #[test]
    fn c04_an_interruption_is_not_charged_as_a_failure() {
        let now = Timestamp::from_second(1010).unwrap();
        let link = retry_after(&job(), ErrorCode::NodeLost, now, 0).unwrap().origin.chain.unwrap();
        assert_eq!((link.attempt, link.failures, link.interruptions), (2, 0, 1));
    }

    #[test]
    fn a20_a_failed_run_always_has_a_code_and_a_completed_one_never() {
        let id = job().id;
        let untold = FinishedRun { error_code: None, ..FinishedRun::failed(id, ErrorCode::Timeout, "") };
        assert_eq!(error_code(&untold, None), Some(ErrorCode::Internal));
        let odd = FinishedRun { error_code: Some(ErrorCode::Timeout), ..FinishedRun::completed(id) };
        assert_eq!(error_code(&odd, None), None);
        let stopped = FinishedRun { outcome: Outcome::Cancelled, ..FinishedRun::completed(id) };
        assert_eq!(error_code(&stopped, Some(ErrorCode::Replaced)), Some(ErrorCode::Replaced));
        assert_eq!(error_code(&stopped, None), Some(ErrorCode::Cancelled));
    }

    #[test]
    fn c13_what_no_text_column_can_keep_is_replaced() {
        assert_eq!(storable_text("a\0b"), "a\u{fffd}b");
        assert_eq!(storable_text(&"x".repeat(100_000)).len(), ERROR_MAX_CHARS);
    }
}
