//! Whether a failed job is tried again, and when: a pure decision over the chain so far.

use crate::duration;
use crate::invalid::Invalid;
use crate::run::ErrorCode;
use crate::words::words;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

words! {
    /// How the wait grows from one attempt to the next.
    pub enum Backoff as "backoff" {
        /// Always the base.
        Fixed = "fixed",
        /// The base, doubled after every failure, up to the maximum, less up to a quarter by chance.
        Exponential = "exponential",
    }
}

/// How often a job is tried, and how long Punctual waits in between.
///
/// Failures and interruptions have budgets of their own: a deploy does not use up attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// How many times it may fail, the first time included; 1 means no retry.
    pub max_attempts: u32,
    /// How the wait grows.
    pub backoff: Backoff,
    /// The first wait.
    #[serde(with = "duration::text")]
    pub base: SignedDuration,
    /// The longest wait.
    #[serde(with = "duration::text")]
    pub max: SignedDuration,
    /// No retry is made when the first job of the chain is older than this.
    #[serde(with = "duration::optional_text", skip_serializing_if = "Option::is_none")]
    pub max_age: Option<SignedDuration>,
    /// How many times it may be interrupted (node lost, shutdown) before that counts as the end.
    pub max_interruptions: u32,
    /// What a failure means for the other jobs of its serial key.
    #[serde(skip_serializing_if = "SerialOnFailure::is_usual")]
    pub serial_on_failure: SerialOnFailure,
}

words! {
    /// What a failed job means for the next ones of its serial key.
    pub enum SerialOnFailure as "serial_on_failure" {
        /// The next one goes, also while the failed one waits for its retry.
        Continue = "continue",
        /// They wait until the failed one has been retried with success, by its policy or by hand, or until somebody
        /// releases the key.
        Hold = "hold",
    }
}

impl SerialOnFailure {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
    fn is_usual(&self) -> bool {
        *self == Self::Continue
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            backoff: Backoff::Exponential,
            base: SignedDuration::from_secs(1),
            max: SignedDuration::from_mins(10),
            max_age: None,
            max_interruptions: 10,
            serial_on_failure: SerialOnFailure::Continue,
        }
    }
}

impl RetryPolicy {
    /// One attempt, no second try of any kind.
    pub fn none() -> Self {
        Self { max_attempts: 1, max_interruptions: 0, ..Self::default() }
    }

    /// Refuses what makes no sense.
    pub fn validate(&self) -> Result<(), Invalid> {
        if !(1..=1000).contains(&self.max_attempts) {
            return Err(Invalid::new("retry.max_attempts", "is not between 1 and 1000").remedy("1 means no retry"));
        }
        if self.max_interruptions > 1000 {
            return Err(Invalid::new("retry.max_interruptions", "is more than 1000").remedy("use at most 1000"));
        }
        duration::check("retry.base", self.base)?;
        self.max_age.map_or(Ok(()), |age| duration::check("retry.max_age", age))?;
        if self.max < self.base {
            return Err(Invalid::new("retry.max", "is shorter than retry.base").remedy("raise max or lower base"));
        }
        if self.max > SignedDuration::from_hours(24 * 30) {
            return Err(Invalid::new("retry.max", "is longer than 30 days").remedy("use at most 30d"));
        }
        Ok(())
    }
}

/// What the decision needs to know of the chain, the present end included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    /// Failures so far, this one included if it is one.
    pub failures: u32,
    /// Interruptions so far, this one included if it is one.
    pub interruptions: u32,
    /// When the first job of the chain was made.
    pub began_at: Timestamp,
}

/// What follows a job that did not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// A new job, to start no earlier than this.
    Retry {
        /// The earliest start.
        run_at: Timestamp,
    },
    /// This was the last one: the run is marked `final`.
    Final,
}

/// Decides what follows a failed job.
///
/// `chance` is any number; it spreads the waits of jobs that failed together and is the only randomness there is.
/// A retry never starts before `not_before`, whatever the policy would wait.
pub fn after_failure(
    policy: &RetryPolicy, code: ErrorCode, chain: Chain, now: Timestamp, not_before: Timestamp, chance: u64,
) -> AfterFailure {
    let within_budget = if code.is_interruption() {
        chain.interruptions <= policy.max_interruptions
    } else {
        chain.failures < policy.max_attempts
    };
    if !code.is_retryable() || !within_budget {
        return AfterFailure::Final;
    }
    // An interruption says nothing about the target, so there is nothing to wait for.
    let wait = if code.is_interruption() { SignedDuration::ZERO } else { wait_after(policy, chain.failures, chance) };
    let run_at = now.saturating_add(wait).unwrap_or(Timestamp::MAX).max(not_before);
    let too_old = policy.max_age.is_some_and(|age| run_at.duration_since(chain.began_at) > age);
    if too_old { AfterFailure::Final } else { AfterFailure::Retry { run_at } }
}

/// The wait after the nth failure.
fn wait_after(policy: &RetryPolicy, failures: u32, chance: u64) -> SignedDuration {
    let base = i64::try_from(policy.base.as_micros()).unwrap_or(i64::MAX);
    let max = i64::try_from(policy.max.as_micros()).unwrap_or(i64::MAX);
    let wait = match policy.backoff {
        Backoff::Fixed => base,
        Backoff::Exponential => {
            let doublings = failures.saturating_sub(1).min(62);
            let full = base.saturating_mul(1 << doublings).min(max);
            full - i64::try_from(chance % (u64::try_from(full).unwrap_or(0) / 4 + 1)).unwrap_or(0)
        }
    };
    SignedDuration::from_micros(wait.min(max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn decide(policy: &RetryPolicy, code: ErrorCode, failures: u32, interruptions: u32) -> AfterFailure {
        let chain = Chain { failures, interruptions, began_at: at(0) };
        after_failure(policy, code, chain, at(100), at(0), 0)
    }

    #[test]
    fn c04_attempts_are_bounded_and_waits_double_up_to_the_maximum() {
        let policy = RetryPolicy { max_attempts: 20, max: SignedDuration::from_secs(60), ..RetryPolicy::default() };
        let waits: Vec<_> = (1..=8)
            .map(|n| match decide(&policy, ErrorCode::TargetError, n, 0) {
                AfterFailure::Retry { run_at } => run_at.as_second() - 100,
                AfterFailure::Final => -1,
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(decide(&policy, ErrorCode::TargetError, 20, 0), AfterFailure::Final);
    }

    #[test]
    fn c04_interruptions_have_a_budget_of_their_own() {
        let policy = RetryPolicy { max_attempts: 1, max_interruptions: 2, ..RetryPolicy::default() };
        assert_eq!(decide(&policy, ErrorCode::NodeLost, 0, 2), AfterFailure::Retry { run_at: at(100) });
        assert_eq!(decide(&policy, ErrorCode::NodeLost, 0, 3), AfterFailure::Final);
        assert_eq!(decide(&policy, ErrorCode::TargetError, 1, 0), AfterFailure::Final);
    }

    #[test]
    fn c04_fatal_errors_and_old_chains_are_final() {
        let policy = RetryPolicy { max_age: Some(SignedDuration::from_secs(99)), ..RetryPolicy::default() };
        assert_eq!(decide(&RetryPolicy::default(), ErrorCode::ScopeDenied, 1, 0), AfterFailure::Final);
        assert_eq!(decide(&policy, ErrorCode::TargetError, 1, 0), AfterFailure::Final);
    }

    #[test]
    fn c04_chance_only_shortens_an_exponential_wait_by_a_quarter() {
        let policy = RetryPolicy { base: SignedDuration::from_secs(8), ..RetryPolicy::default() };
        let chain = Chain { failures: 1, interruptions: 0, began_at: at(0) };
        for chance in [0, 1, 999, u64::MAX] {
            let AfterFailure::Retry { run_at } =
                after_failure(&policy, ErrorCode::Timeout, chain, at(0), at(0), chance)
            else {
                panic!("within budget")
            };
            assert!((6_000_000..=8_000_000).contains(&run_at.as_microsecond()), "{run_at}");
        }
    }
}
