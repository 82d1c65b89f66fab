//! The words of a run: how it ended, why it failed, what started it.

use crate::words::words;

words! {
    /// How a run ended. A run is immutable once it has one of these.
    pub enum Outcome as "outcome" {
        /// The target did its work.
        Completed = "completed",
        /// The target, or Punctual, says it did not.
        Failed = "failed",
        /// Decided not to run (a step whose condition did not hold).
        Skipped = "skipped",
        /// Stopped by a person or a policy, before or while it ran.
        Cancelled = "cancelled",
    }
}

words! {
    /// Why a run did not complete: a closed set (A20), so that machines can act on it; the words are in `error`.
    pub enum ErrorCode as "error_code" {
        /// The job names a grant that does not exist.
        GrantMissing = "grant_missing",
        /// The grant was revoked.
        GrantRevoked = "grant_revoked",
        /// The grant's time is over.
        GrantExpired = "grant_expired",
        /// The grant does not cover what the job wants.
        ScopeDenied = "scope_denied",
        /// No live node can run this target.
        NoExecutor = "no_executor",
        /// A guard or an allow-list refused the target.
        TargetRejected = "target_rejected",
        /// The target itself reported failure.
        TargetError = "target_error",
        /// The target's answer could not be understood.
        BadOutput = "bad_output",
        /// The target's answer was larger than allowed.
        OutputTooLarge = "output_too_large",
        /// It ran longer than its timeout.
        Timeout = "timeout",
        /// The node that ran it is gone.
        NodeLost = "node_lost",
        /// The node was shut down before it was done.
        Interrupted = "interrupted",
        /// Cancelled on request.
        Cancelled = "cancelled",
        /// Another job took its place.
        Replaced = "replaced",
        /// Something it depended on did not succeed.
        DependencyFailed = "dependency_failed",
        /// A fault of Punctual itself.
        Internal = "internal",
    }
}

impl ErrorCode {
    /// Whether the job never had a fair chance: such ends are charged to the interruption budget, not to the attempts.
    pub const fn is_interruption(self) -> bool {
        matches!(self, Self::NodeLost | Self::Interrupted)
    }

    /// Whether trying again could help. What a guard, a grant or a person refused is refused the next time too.
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::TargetError
            | Self::BadOutput
            | Self::Timeout
            | Self::NodeLost
            | Self::Interrupted
            | Self::NoExecutor
            | Self::Internal => true,
            Self::GrantMissing
            | Self::GrantRevoked
            | Self::GrantExpired
            | Self::ScopeDenied
            | Self::TargetRejected
            | Self::OutputTooLarge
            | Self::Cancelled
            | Self::Replaced
            | Self::DependencyFailed => false,
        }
    }
}

words! {
    /// What made a job (E04). A detail stands beside it, such as the cron expression.
    pub enum Trigger as "trigger" {
        /// A slot, on time.
        Schedule = "schedule",
        /// A slot that was missed and is made up for.
        Catchup = "catchup",
        /// A past slot that somebody asked for.
        Backfill = "backfill",
        /// A person ran the schedule by hand.
        Manual = "manual",
        /// A program enqueued it.
        Api = "api",
        /// The job before it in the chain failed.
        Retry = "retry",
        /// A step of a flow.
        Flow = "flow",
        /// Another schedule's success.
        Dependency = "dependency",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a20_error_codes_are_a_closed_set_that_round_trips() {
        assert_eq!(ErrorCode::ALL.len(), 16);
        for code in ErrorCode::ALL {
            assert_eq!(code.as_str().parse::<ErrorCode>().unwrap(), *code);
        }
        let refused = "oops".parse::<ErrorCode>().unwrap_err();
        assert!(refused.to_string().contains("node_lost"), "{refused}");
    }

    #[test]
    fn e04_triggers_are_a_closed_set_that_round_trips() {
        for trigger in Trigger::ALL {
            assert_eq!(trigger.as_str().parse::<Trigger>().unwrap(), *trigger);
        }
    }
}
