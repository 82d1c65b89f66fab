//! How a run is closed and what follows it: pure, so that both stores write the same rows.

use crate::id::JobId;
use crate::job::{ChainLink, Job, NewJob, Origin};
use crate::retry::{AfterFailure, Chain, SerialOnFailure, after_failure};
use crate::run::{ErrorCode, Outcome, Trigger};
use crate::store::FinishedRun;
use jiff::{SignedDuration, Timestamp};

/// The longest error text that is kept, in characters.
pub const ERROR_MAX_CHARS: usize = 65_536;

/// The shortest snooze, so that a job that is never ready does not spin.
pub const SNOOZE_MIN: SignedDuration = SignedDuration::from_secs(1);

/// How a target wants its job to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Again {
    /// As the job's retry policy says.
    #[default]
    ByPolicy,
    /// As the retry policy says, but not before so much time has passed (`Retry-After`).
    After(SignedDuration),
    /// Not at all: trying again cannot help.
    Never,
    /// Later, because it is not ready yet. The run is `skipped`, and neither a failure nor an interruption is charged;
    /// only the policy's `max_age` ends it. A run that failed cannot be snoozed: for it this means [`Again::After`].
    Snooze(SignedDuration),
    /// With its steps: it is a flow that has begun. It does not end here, and its node has nothing more to do with it.
    BySteps,
}

/// What a text says, made fit for both stores: NUL replaced, and cut where it is too long.
pub fn storable_text(text: &str) -> String {
    text.chars().take(ERROR_MAX_CHARS).map(|c| if c == '\0' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A retry that is to be made: a new job in the same chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The job it follows.
    pub retry_of: JobId,
    /// What it does, and when at the earliest.
    pub spec: NewJob,
    /// Its schedule, slot and place in the chain.
    pub origin: Origin,
}

/// What one report comes to: what is written, and what follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// How the run ended.
    pub outcome: Outcome,
    /// Why it did not complete.
    pub error_code: Option<ErrorCode>,
    /// The same in words.
    pub error: Option<String>,
    /// The retry. `None` means that the run is `final`.
    pub retry: Option<Retry>,
}

/// What a store knows about a run that has ended.
#[derive(Debug, Clone, Copy)]
pub struct EndFacts<'a> {
    /// The job, unless nobody wants it to go on: nobody retries what was cancelled or whose schedule was deleted. A
    /// store need not look it up when [`is_of_interest`] says no.
    pub job: Option<&'a Job>,
    /// Who asked it to stop.
    pub cancel_code: Option<ErrorCode>,
    /// The store's time.
    pub now: Timestamp,
    /// Any number; it spreads the waits of jobs that failed together.
    pub chance: u64,
}

/// Whether something may follow a run, or its end is told, so that its job is needed to judge it.
pub fn is_of_interest(run: &FinishedRun) -> bool {
    run.outcome == Outcome::Failed || may_go_on(run)
}

/// Whether a run's end may be what most are: it completed, and nothing follows from that unless its job is a special one.
pub fn is_plain(run: &FinishedRun) -> bool {
    run.outcome == Outcome::Completed && run.error_code.is_none() && run.error.is_none() && run.again == Again::ByPolicy
}

/// Whether something may follow a run.
fn may_go_on(run: &FinishedRun) -> bool {
    matches!(
        (run.outcome, run.again),
        (Outcome::Failed, Again::ByPolicy | Again::After(_) | Again::Snooze(_)) | (Outcome::Skipped, Again::Snooze(_))
    )
}

/// Judges one report.
pub fn judge_end(run: &FinishedRun, facts: EndFacts<'_>) -> End {
    // Whoever waits to be ready and is asked to stop does not come back: it was cancelled.
    if let (Outcome::Skipped, Again::Snooze(_), Some(code)) = (run.outcome, run.again, facts.cancel_code) {
        return End { outcome: Outcome::Cancelled, error_code: Some(code), error: run.error.clone(), retry: None };
    }
    let error_code = error_code(run, facts.cancel_code);
    let told = End { outcome: run.outcome, error_code, error: run.error.clone(), retry: None };
    let Some(job) = facts.job.filter(|_| may_go_on(run)) else { return told };
    if run.outcome == Outcome::Skipped {
        return judge_snooze(run, job, facts.now, told);
    }
    End { retry: retry_after(run, error_code.unwrap_or(ErrorCode::Internal), job, facts), ..told }
}

/// What the end of a run means for the serial key of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAfter {
    /// The next job waits until this one is retried with success.
    Held,
    /// Whatever held the key has come to a good end.
    Free,
    /// Nothing changes.
    Same,
}

/// Judges that. The job of a run that was cancelled, or whose schedule is gone, is not looked at: it holds nothing.
pub fn key_after(job: Option<&Job>, end: &End) -> KeyAfter {
    let holds = |job: &Job| job.spec.retry.serial_on_failure == SerialOnFailure::Hold;
    match end.outcome {
        Outcome::Completed => KeyAfter::Free,
        Outcome::Failed if job.is_some_and(holds) => KeyAfter::Held,
        Outcome::Failed | Outcome::Skipped | Outcome::Cancelled => KeyAfter::Same,
    }
}

/// The code a run is closed with: a cancelled one says who cancelled it, a failed one always has one.
fn error_code(run: &FinishedRun, cancel_code: Option<ErrorCode>) -> Option<ErrorCode> {
    match run.outcome {
        Outcome::Completed => None,
        Outcome::Failed => Some(run.error_code.unwrap_or(ErrorCode::Internal)),
        Outcome::Cancelled => cancel_code.or(run.error_code).or(Some(ErrorCode::Cancelled)),
        Outcome::Skipped => run.error_code,
    }
}

/// A snoozed job waits; one that waited for longer than its policy allows has failed, and that is said.
fn judge_snooze(run: &FinishedRun, job: &Job, now: Timestamp, told: End) -> End {
    let Again::Snooze(wait) = run.again else { return told };
    let run_at = now.saturating_add(wait.max(SNOOZE_MIN)).unwrap_or(Timestamp::MAX);
    if job.spec.retry.max_age.is_some_and(|age| run_at.duration_since(job.chain_began_at) > age) {
        let why = run.error.as_deref().unwrap_or("it was not ready");
        return End {
            outcome: Outcome::Failed,
            error_code: Some(ErrorCode::Timeout),
            error: Some(format!("it was snoozed until it was too old for its retry policy; last: {why}")),
            retry: None,
        };
    }
    let chain = Chain { failures: job.failures, interruptions: job.interruptions, began_at: job.chain_began_at };
    End { retry: Some(next_in_chain(job, chain, run_at, "snooze")), ..told }
}

/// The retry that follows a failed job, if its policy wants one.
fn retry_after(run: &FinishedRun, code: ErrorCode, job: &Job, facts: EndFacts<'_>) -> Option<Retry> {
    let interrupted = code.is_interruption();
    let chain = Chain {
        failures: job.failures + u32::from(!interrupted),
        interruptions: job.interruptions + u32::from(interrupted),
        began_at: job.chain_began_at,
    };
    let not_before = match run.again {
        Again::After(wait) | Again::Snooze(wait) => facts.now.saturating_add(wait).unwrap_or(Timestamp::MAX),
        Again::ByPolicy | Again::Never | Again::BySteps => facts.now,
    };
    match after_failure(&job.spec.retry, code, chain, facts.now, not_before, facts.chance) {
        AfterFailure::Retry { run_at } => Some(next_in_chain(job, chain, run_at, code.as_str())),
        AfterFailure::Final => None,
    }
}

fn next_in_chain(job: &Job, chain: Chain, run_at: Timestamp, detail: &str) -> Retry {
    Retry {
        retry_of: job.id,
        spec: NewJob {
            run_at: Some(run_at),
            trigger: Trigger::Retry,
            trigger_detail: Some(detail.to_owned()),
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::RetryPolicy;
    use crate::target::Target;
    use uuid::Uuid;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn job() -> Job {
        let id = JobId(Uuid::from_u128(1));
        Job {
            id,
            created_at: at(1000),
            spec: NewJob::new(Target::command(["true"])),
            schedule_id: None,
            slot_at: None,
            retry_of: None,
            root_job_id: id,
            chain_began_at: at(1000),
            attempt: 1,
            failures: 0,
            interruptions: 0,
        }
    }

    fn end_of(job: &Job, run: &FinishedRun) -> End {
        judge_end(run, EndFacts { job: Some(job), cancel_code: None, now: at(1010), chance: 0 })
    }

    fn failed(code: ErrorCode, again: Again) -> FinishedRun {
        FinishedRun { again, ..FinishedRun::failed(job().id, code, "it broke") }
    }

    fn budgets(retry: &Retry) -> (u32, u32, u32) {
        let link = retry.origin.chain.as_ref().unwrap();
        (link.attempt, link.failures, link.interruptions)
    }

    #[test]
    fn c04_a_retry_is_a_new_job_of_the_same_chain() {
        let retry = end_of(&job(), &failed(ErrorCode::TargetError, Again::ByPolicy)).retry.unwrap();
        assert_eq!(budgets(&retry), (2, 1, 0));
        let link = retry.origin.chain.unwrap();
        assert_eq!((link.retry_of, link.root_job_id), (job().id, job().id));
        assert_eq!((retry.spec.trigger, retry.spec.trigger_detail.as_deref()), (Trigger::Retry, Some("target_error")));
    }

    #[test]
    fn c04_an_interruption_is_not_charged_as_a_failure() {
        let retry = end_of(&job(), &failed(ErrorCode::NodeLost, Again::ByPolicy)).retry.unwrap();
        assert_eq!(budgets(&retry), (2, 0, 1));
    }

    #[test]
    fn c04_a_target_can_put_its_retry_off_but_not_bring_it_forward() {
        let run_at = |again| end_of(&job(), &failed(ErrorCode::TargetError, again)).retry.unwrap().spec.run_at.unwrap();
        assert_eq!(run_at(Again::ByPolicy), at(1011));
        assert_eq!(run_at(Again::After(SignedDuration::from_secs(60))), at(1070));
        assert_eq!(run_at(Again::After(SignedDuration::ZERO)), at(1011));
        assert_eq!(run_at(Again::After(SignedDuration::MAX)), Timestamp::MAX);
        assert_eq!(end_of(&job(), &failed(ErrorCode::TargetError, Again::Never)).retry, None);
        let mut limited = job();
        limited.spec.retry = RetryPolicy { max_age: Some(SignedDuration::from_secs(60)), ..RetryPolicy::default() };
        let late = failed(ErrorCode::TargetError, Again::After(SignedDuration::from_secs(60)));
        assert_eq!(end_of(&limited, &late).retry, None, "it would be too old by then");
    }

    #[test]
    fn c04_a_snooze_charges_nothing_and_ends_with_the_policys_age() {
        let mut tired = Job { attempt: 4, failures: 2, interruptions: 1, ..job() };
        let snooze = |seconds| FinishedRun::snoozed(job().id, SignedDuration::from_secs(seconds), "not ready");
        let end = end_of(&tired, &snooze(300));
        assert_eq!((end.outcome, end.error_code), (Outcome::Skipped, None));
        let retry = end.retry.unwrap();
        assert_eq!((budgets(&retry), retry.spec.run_at), ((5, 2, 1), Some(at(1310))));
        assert_eq!(retry.spec.trigger_detail.as_deref(), Some("snooze"));
        assert_eq!(end_of(&tired, &snooze(0)).retry.unwrap().spec.run_at, Some(at(1011)), "it does not spin");
        tired.spec.retry = RetryPolicy { max_age: Some(SignedDuration::from_secs(100)), ..RetryPolicy::default() };
        let end = end_of(&tired, &snooze(91));
        assert_eq!((end.outcome, end.error_code, end.retry), (Outcome::Failed, Some(ErrorCode::Timeout), None));
        assert!(end.error.unwrap().contains("not ready"));
        assert!(end_of(&tired, &snooze(90)).retry.is_some());
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
