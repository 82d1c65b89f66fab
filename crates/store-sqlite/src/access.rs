//! Tokens, sessions, idempotency keys, the audit log, a schedule with its grant, and the retry that somebody asks for.

use crate::error::{is_unique_violation, store_error};
use crate::rows::{self, Columns, Unreadable};
use crate::tx::{Tx, value};
use crate::{SqliteStore, sql};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use punctual_core::access::{
    Access, Answer, AuditRow, Change, Described, Forgotten, NewToken, OnceKey, SecretHash, Session, StoredAnswer,
    Token, retried_already, retry_by_hand,
};
use punctual_core::grant::{Grant, NewGrant};
use punctual_core::id::{AuditId, JobId, TokenId};
use punctual_core::job::{JobView, Whereabouts};
use punctual_core::json::Json;
use punctual_core::name;
use punctual_core::schedule::{Schedule, ScheduleDefinition};
use punctual_core::store::{Store, StoreError, StoreResult};
use rusqlite::{Row, params};
use std::any::Any;
use std::sync::Arc;

const TOKEN: &str = "SELECT id, prefix, hash, name, owner, role, expires_at, created_at, revoked_at, last_used_at FROM punctual_api_tokens";

/// How long the last use of a token stands before it is written anew.
const TOUCH_AFTER: SignedDuration = SignedDuration::from_mins(1);

#[async_trait]
impl Access for SqliteStore {
    fn recorded(&self, change: Change) -> Arc<dyn Store> {
        Arc::new(Self { change: Some(Arc::new(change)), ..self.clone() })
    }

    async fn create_token(&self, token: NewToken) -> StoreResult<Token> {
        token.validate()?;
        self.write(move |tx| tx.create_token(token)).await
    }

    async fn create_token_if_none(&self, token: NewToken) -> StoreResult<Option<Token>> {
        token.validate()?;
        self.write(move |tx| {
            let any = tx.one("SELECT 1 FROM punctual_api_tokens LIMIT 1", [], value::<i64>)?;
            if any.is_some() { Ok(None) } else { tx.create_token(token).map(Some) }
        })
        .await
    }

    async fn token_by_prefix(&self, prefix: &str) -> StoreResult<Option<Token>> {
        let prefix = prefix.to_owned();
        self.read(move |connection| {
            Ok(rows::collect(connection, &format!("{TOKEN} WHERE prefix = ?1"), params![prefix], token)?.pop())
        })
        .await
    }

    async fn tokens(&self, before: Option<TokenId>, limit: usize) -> StoreResult<Vec<Token>> {
        let before = before.map_or([0xff; 16], |id| *id.as_bytes());
        self.read(move |connection| rows::collect(connection, sql::tokens_page, params![before, whole(limit)], token))
            .await
    }

    async fn revoke_token(&self, id: TokenId) -> StoreResult<Token> {
        self.write(move |tx| tx.revoke_token(id)).await
    }

    async fn touch_token(&self, id: TokenId) -> StoreResult<()> {
        let stale = self.clock.now().saturating_sub(TOUCH_AFTER).unwrap_or(Timestamp::MIN).as_microsecond();
        let due = self.read(move |connection| {
            let find = "SELECT 1 FROM punctual_api_tokens WHERE id = ?1 AND coalesce(last_used_at <= ?2, 1)";
            crate::readings::exists(connection, find, params![id.as_bytes(), stale])
        });
        if due.await? {
            let touch = "UPDATE punctual_api_tokens SET last_used_at = ?2 WHERE id = ?1";
            self.write(move |tx| tx.execute(touch, params![id.as_bytes(), tx.now_us()]).map(drop)).await?;
        }
        Ok(())
    }

    async fn create_session(&self, hash: SecretHash, token: TokenId, expires_at: Timestamp) -> StoreResult<()> {
        self.write(move |tx| {
            let insert = "INSERT INTO punctual_sessions (hash, token_id, expires_at) VALUES (?1, ?2, ?3)";
            tx.execute(insert, params![hash, token.as_bytes(), expires_at.as_microsecond()]).map(drop)
        })
        .await
    }

    async fn session(&self, hash: SecretHash) -> StoreResult<Option<Session>> {
        self.read(move |connection| {
            let mut found = rows::collect(connection, sql::session_by_hash, params![hash], |row| {
                let mut c = Columns::of(row);
                Ok(Session { hash, expires_at: c.time()?, token: token_columns(&mut c)? })
            })?;
            Ok(found.pop())
        })
        .await
    }

    async fn end_session(&self, hash: SecretHash) -> StoreResult<()> {
        self.write(move |tx| tx.execute("DELETE FROM punctual_sessions WHERE hash = ?1", params![hash]).map(drop)).await
    }

    async fn answer_under(&self, owner: &str, key: &str) -> StoreResult<Option<StoredAnswer>> {
        let (owner, key) = (owner.to_owned(), key.to_owned());
        self.read(move |connection| {
            let find =
                "SELECT fingerprint, status, answer FROM punctual_idempotency_keys WHERE owner = ?1 AND key = ?2";
            let mut found = rows::collect(connection, find, params![owner, key], |row| {
                let mut c = Columns::of(row);
                Ok(StoredAnswer { fingerprint: c.next()?, answer: Answer { status: c.next()?, body: c.next()? } })
            })?;
            Ok(found.pop())
        })
        .await
    }

    async fn audit_log(
        &self, subject: Option<&str>, before: Option<AuditId>, limit: usize,
    ) -> StoreResult<Vec<AuditRow>> {
        let (subject, before) = (subject.map(str::to_owned), before.map_or([0xff; 16], |id| *id.as_bytes()));
        self.read(move |connection| match subject {
            None => rows::collect(connection, sql::audit_page, params![before, whole(limit)], audit_row),
            Some(subject) => {
                let params = params![before, whole(limit), subject];
                rows::collect(connection, sql::audit_page_of_subject, params, audit_row)
            }
        })
        .await
    }

    async fn audit_after(&self, after: AuditId, limit: usize) -> StoreResult<Vec<AuditRow>> {
        self.read(move |connection| {
            rows::collect(connection, sql::audit_after, params![after.as_bytes(), whole(limit)], audit_row)
        })
        .await
    }

    async fn forget_access(&self, keys_before: Timestamp, limit: usize) -> StoreResult<Forgotten> {
        self.write(move |tx| {
            let sessions = "DELETE FROM punctual_sessions WHERE hash IN
                            (SELECT hash FROM punctual_sessions WHERE expires_at <= ?1 LIMIT ?2)";
            let keys = "DELETE FROM punctual_idempotency_keys WHERE (owner, key) IN
                        (SELECT owner, key FROM punctual_idempotency_keys WHERE created_at < ?1 LIMIT ?2)";
            Ok(Forgotten {
                sessions: tx.execute(sessions, params![tx.now_us(), whole(limit)])?,
                keys: tx.execute(keys, params![keys_before.as_microsecond(), whole(limit)])?,
            })
        })
        .await
    }

    async fn create_schedule_with_grant(
        &self, definition: ScheduleDefinition, grant: NewGrant,
    ) -> StoreResult<(Schedule, Grant)> {
        grant.validate()?;
        self.write_and_wake(move |tx| {
            let grant = tx.create_grant(grant)?;
            let schedule = tx.create_schedule(ScheduleDefinition { grant_id: Some(grant.id), ..definition })?;
            Ok((schedule, grant))
        })
        .await
    }

    async fn retry_job_if_ended(&self, id: JobId, by: Option<String>) -> StoreResult<JobId> {
        name::check_text("by", by.as_deref().unwrap_or_default())?;
        self.write_and_wake(move |tx| tx.retry_job(id, by)).await
    }
}

impl Tx<'_> {
    /// Stops before the work is begun when its key has been used: what the work itself would say is not the answer.
    pub(crate) fn refuse_repeated(&self, change: &Change) -> StoreResult<()> {
        let Some(once) = &change.once else { return Ok(()) };
        let find = "SELECT 1 FROM punctual_idempotency_keys WHERE owner = ?1 AND key = ?2";
        match self.one(find, params![once.owner, once.key], value::<i64>)? {
            Some(_) => Err(StoreError::Repeated),
            None => Ok(()),
        }
    }

    /// Writes down what was done: the audit row, and the answer under its key.
    pub(crate) fn record(&mut self, change: &Change, done: &dyn Any) -> StoreResult<()> {
        let described = (change.describe)(done);
        if let Some(once) = &change.once {
            self.keep_answer(once, &described)?;
        }
        let Some(action) = change.action else { return Ok(()) };
        let bits = self.id_bits();
        self.execute(
            "INSERT INTO punctual_audit_log (id, at, actor, token_id, action, subject, request_id, before, after)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                AuditId::at(self.now, bits).as_bytes(),
                self.now_us(),
                change.actor,
                change.token_id.as_ref().map(TokenId::as_bytes),
                action,
                described.subject,
                change.request_id,
                change.before.as_ref().map(Json::as_str),
                described.after.as_ref().map(Json::as_str),
            ],
        )?;
        Ok(())
    }

    fn keep_answer(&mut self, once: &OnceKey, described: &Described) -> StoreResult<()> {
        let missing = || StoreError::Internal("a change with an idempotency key has no answer".to_owned());
        let answer = described.answer.as_ref().ok_or_else(missing)?;
        let insert = "INSERT INTO punctual_idempotency_keys (owner, key, fingerprint, status, answer, created_at)
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let params = params![once.owner, once.key, once.fingerprint, answer.status, answer.body, self.now_us()];
        self.execute(insert, params).map(drop)
    }

    fn create_token(&mut self, new: NewToken) -> StoreResult<Token> {
        let bits = self.id_bits();
        let made = Token {
            id: TokenId::at(self.now, bits),
            token: new,
            created_at: self.now,
            revoked_at: None,
            last_used_at: None,
        };
        let new = &made.token;
        let insert = "INSERT INTO punctual_api_tokens (id, prefix, hash, name, owner, role, expires_at, created_at)
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let expires_at = new.expires_at.map(Timestamp::as_microsecond);
        let params = params![
            made.id.as_bytes(),
            new.prefix,
            new.hash,
            new.name,
            new.owner,
            new.role.as_str(),
            expires_at,
            self.now_us()
        ];
        match self.try_execute(insert, params)? {
            Ok(_) => Ok(made),
            Err(error) if is_unique_violation(&error) => {
                Err(StoreError::NameTaken { what: "token", name: new.prefix.clone() })
            }
            Err(error) => Err(store_error(error)),
        }
    }

    fn revoke_token(&mut self, id: TokenId) -> StoreResult<Token> {
        let revoke = "UPDATE punctual_api_tokens SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1";
        self.execute(revoke, params![id.as_bytes(), self.now_us()])?;
        self.execute("DELETE FROM punctual_sessions WHERE token_id = ?1", params![id.as_bytes()])?;
        let found = self.one(&format!("{TOKEN} WHERE id = ?1"), params![id.as_bytes()], token)?;
        found.ok_or_else(|| StoreError::NotFound { what: "token", key: id.to_string() })
    }

    pub(crate) fn retry_job(&mut self, id: JobId, by: Option<String>) -> StoreResult<JobId> {
        let not_found = || StoreError::NotFound { what: "job", key: id.to_string() };
        let job = self.job(id)?.ok_or_else(not_found)?;
        let run = match self.whereabouts(id)?.ok_or_else(not_found)? {
            Whereabouts::Closed(run) => run,
            whereabouts => {
                let state = JobView { job, whereabouts }.state();
                return Err(StoreError::WrongState { state, remedy: "wait until it has ended, or cancel it" });
            }
        };
        let (spec, origin) = retry_by_hand(&job, &run, by)?;
        self.refuse_step(id, run.outcome)?;
        let taken = "SELECT 1 FROM punctual_retries WHERE retry_of = ?1";
        if self.one(taken, params![id.as_bytes()], value::<i64>)?.is_some() {
            return Err(retried_already(run.outcome));
        }
        if let Some(schedule) = job.schedule_id {
            self.schedule(schedule)?;
        }
        let new = self.insert_and_place(&spec, &origin)?;
        let insert = "INSERT INTO punctual_retries (retry_of, job_id) VALUES (?1, ?2)";
        self.execute(insert, params![id.as_bytes(), new.as_bytes()])?;
        // If the key waits for this job, only now it is seen that it has come.
        self.settle_serial_key(spec.serial_key.as_deref())?;
        Ok(new)
    }
}

fn whole(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn token(row: &Row<'_>) -> Result<Token, Unreadable> {
    token_columns(&mut Columns::of(row))
}

fn token_columns(c: &mut Columns<'_>) -> Result<Token, Unreadable> {
    Ok(Token {
        id: c.id()?,
        token: NewToken {
            prefix: c.next()?,
            hash: c.next()?,
            name: c.next()?,
            owner: c.next()?,
            role: c.word()?,
            expires_at: c.optional_time()?,
        },
        created_at: c.time()?,
        revoked_at: c.optional_time()?,
        last_used_at: c.optional_time()?,
    })
}

fn audit_row(row: &Row<'_>) -> Result<AuditRow, Unreadable> {
    let mut c = Columns::of(row);
    Ok(AuditRow {
        id: c.id()?,
        at: c.time()?,
        actor: c.next()?,
        token_id: c.optional_id()?,
        action: c.next()?,
        subject: c.next()?,
        request_id: c.next()?,
        before: c.optional_json()?,
        after: c.optional_json()?,
    })
}
