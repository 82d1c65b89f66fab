//! The part of the store port that knows people: who may do what, what was done by whom, and what they alone ask for.

use crate::grant::{Grant, NewGrant};
use crate::id::{AuditId, JobId, TokenId};
use crate::invalid::Invalid;
use crate::job::{ChainLink, Job, NewJob, Origin, Run};
use crate::json::Json;
use crate::name;
use crate::run::{Outcome, Trigger};
use crate::schedule::{Schedule, ScheduleDefinition};
use crate::store::{Store, StoreError, StoreResult};
use crate::words::words;
use async_trait::async_trait;
use jiff::Timestamp;
use std::any::Any;
use std::sync::Arc;

words! {
    /// What a token lets its bearer do; each includes the ones before it.
    pub enum Role as "role" {
        /// Look at what is the owner's.
        Viewer = "viewer",
        /// Change what is the owner's.
        Operator = "operator",
        /// Everything, whoever owns it.
        Admin = "admin",
    }
}

/// A SHA-256 of a secret; the secret itself is never stored.
pub type SecretHash = [u8; 32];

/// A token that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The part of the secret that it is found by.
    pub prefix: String,
    /// The hash of the whole secret.
    pub hash: SecretHash,
    /// For people.
    pub name: String,
    /// Whose it is: what is made with it belongs to the owner.
    pub owner: String,
    /// What it allows.
    pub role: Role,
    /// Until when.
    pub expires_at: Option<Timestamp>,
}

impl NewToken {
    /// Refuses what the stores could not keep.
    pub fn validate(&self) -> Result<(), Invalid> {
        let named = |field: &str, text: &str| name::check(text).map_err(|e| Invalid { field: field.into(), ..e });
        named("prefix", &self.prefix)?;
        named("name", &self.name)?;
        named("owner", &self.owner)
    }
}

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its identity.
    pub id: TokenId,
    /// What was asked for.
    pub token: NewToken,
    /// When it was made.
    pub created_at: Timestamp,
    /// Since when it is not valid any more; the row stays.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
}

impl Token {
    /// Whether it may be used at an instant.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.token.expires_at.is_none_or(|until| now < until)
    }
}

/// A browser that is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The hash of the cookie's secret.
    pub hash: SecretHash,
    /// The token it was opened with; the session is worth as much as that.
    pub token: Token,
    /// Until when.
    pub expires_at: Timestamp,
}

/// An answer that was given once and is given again to whoever repeats the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// The idempotency key of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceKey {
    /// Whose key: two owners may use the same.
    pub owner: String,
    /// The key.
    pub key: String,
    /// The hash of what was asked for.
    pub fingerprint: SecretHash,
}

/// What is stored under an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The hash of what was asked for.
    pub fingerprint: SecretHash,
    /// What was answered.
    pub answer: Answer,
}

/// What a change came to, in the words of whoever asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Described {
    /// What was changed, such as `schedule:0190…`.
    pub subject: String,
    /// What it is now.
    pub after: Option<Json>,
    /// What the asker is told, kept under the idempotency key.
    pub answer: Option<Answer>,
}

/// Puts the result of a verb into words.
pub type Describe = Arc<dyn Fn(&dyn Any) -> Described + Send + Sync>;

/// A change that somebody asks for, and what is written down with it.
#[derive(Clone)]
pub struct Change {
    /// Who, in words.
    pub actor: String,
    /// By which token.
    pub token_id: Option<TokenId>,
    /// What, such as `schedule.pause`; `None` when the audit log need not know, because the thing that is made says
    /// by itself who made it.
    pub action: Option<&'static str>,
    /// In which request.
    pub request_id: Option<String>,
    /// What it was.
    pub before: Option<Json>,
    /// Under which key it is done once.
    pub once: Option<OnceKey>,
    /// What it comes to.
    pub describe: Describe,
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Change").field("actor", &self.actor).field("action", &self.action).finish_non_exhaustive()
    }
}

/// One row of the audit log: insert-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Its identity, which rises with time.
    pub id: AuditId,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// By which token.
    pub token_id: Option<TokenId>,
    /// What was done.
    pub action: String,
    /// To what.
    pub subject: String,
    /// In which request.
    pub request_id: Option<String>,
    /// What it was.
    pub before: Option<Json>,
    /// What it is now.
    pub after: Option<Json>,
}

/// How much was forgotten of what is kept for a while only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forgotten {
    /// Sessions that were over.
    pub sessions: usize,
    /// Idempotency keys that were old.
    pub keys: usize,
}

/// Who may do what, and who did what.
#[async_trait]
pub trait Access: Send + Sync {
    /// The same store in somebody's name: a change that is made through it is written into the audit log, and its
    /// answer under its idempotency key, in the change's own transaction. Refused with [`StoreError::Repeated`] when
    /// the key has been used. Meant for one change; reading through it writes nothing.
    fn recorded(&self, change: Change) -> Arc<dyn Store>;

    /// Stores a token.
    async fn create_token(&self, token: NewToken) -> StoreResult<Token>;

    /// Stores a token if there is none yet, valid or not; `None` when there is one.
    async fn create_token_if_none(&self, token: NewToken) -> StoreResult<Option<Token>>;

    /// The token whose secret begins so, valid or not.
    async fn token_by_prefix(&self, prefix: &str) -> StoreResult<Option<Token>>;

    /// Tokens, latest made first, before a token.
    async fn tokens(&self, before: Option<TokenId>, limit: usize) -> StoreResult<Vec<Token>>;

    /// Ends a token, and the sessions that were opened with it. Revoking twice changes nothing.
    async fn revoke_token(&self, id: TokenId) -> StoreResult<Token>;

    /// Remembers that a token was used; a use within a minute of the last one writes nothing.
    async fn touch_token(&self, id: TokenId) -> StoreResult<()>;

    /// Opens a session for the bearer of a token.
    async fn create_session(&self, hash: SecretHash, token: TokenId, expires_at: Timestamp) -> StoreResult<()>;

    /// A session with its token, valid or not.
    async fn session(&self, hash: SecretHash) -> StoreResult<Option<Session>>;

    /// Ends a session. Ending one that is not there changes nothing.
    async fn end_session(&self, hash: SecretHash) -> StoreResult<()>;

    /// What was answered under an idempotency key.
    async fn answer_under(&self, owner: &str, key: &str) -> StoreResult<Option<StoredAnswer>>;

    /// What was done, latest first, before a row; to one subject, or to all.
    async fn audit_log(
        &self, subject: Option<&str>, before: Option<AuditId>, limit: usize,
    ) -> StoreResult<Vec<AuditRow>>;

    /// What was done after a row, earliest first.
    async fn audit_after(&self, after: AuditId, limit: usize) -> StoreResult<Vec<AuditRow>>;

    /// Forgets sessions that are over, and idempotency keys from before an instant.
    async fn forget_access(&self, keys_before: Timestamp, limit: usize) -> StoreResult<Forgotten>;

    /// Stores a grant and a schedule that runs under it, both or neither (A15).
    async fn create_schedule_with_grant(
        &self, definition: ScheduleDefinition, grant: NewGrant,
    ) -> StoreResult<(Schedule, Grant)>;

    /// Tries a job again that has ended without success: a new job at the end of its chain. Refused: jobs that have
    /// not ended, that completed, or that have been tried again already.
    async fn retry_job_if_ended(&self, id: JobId, by: Option<String>) -> StoreResult<JobId>;
}

/// The retry that somebody asks for: one more attempt, now, whatever the policy says.
pub fn retry_by_hand(job: &Job, run: &Run, by: Option<String>) -> StoreResult<(NewJob, Origin)> {
    if run.outcome == Outcome::Completed {
        let remedy = "enqueue a new job to do the same work again";
        return Err(StoreError::WrongState { state: run.outcome.into(), remedy });
    }
    let interrupted = run.error_code.is_some_and(crate::run::ErrorCode::is_interruption);
    let failed = run.outcome == Outcome::Failed;
    let chain = ChainLink {
        retry_of: job.id,
        root_job_id: job.root_job_id,
        began_at: job.chain_began_at,
        attempt: job.attempt + 1,
        failures: job.failures + u32::from(failed && !interrupted),
        interruptions: job.interruptions + u32::from(failed && interrupted),
    };
    let spec = NewJob { run_at: None, trigger: Trigger::Retry, trigger_detail: by, ..job.spec.clone() };
    Ok((spec, Origin { schedule_id: job.schedule_id, slot_at: job.slot_at, chain: Some(chain) }))
}

/// The refusal of a second retry.
pub fn retried_already(outcome: Outcome) -> StoreError {
    StoreError::WrongState {
        state: outcome.into(),
        remedy: "it has been retried already; retry the job that followed it",
    }
}
