//! Tokens, sessions, idempotency keys, the audit log, a schedule with its grant, and the retry that somebody asks for.

use crate::error::{Failure, Work};
use crate::jobs::serial_keys;
use crate::params::{limit as whole, params, time};
use crate::rows::{Columns, Unreadable, value};
use crate::tx::{Tx, in_transaction};
use crate::wake::Wake;
use crate::{Handle, PostgresStore, sql};
use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::access::{
    Access, Answer, AuditRow, Change, Forgotten, NewToken, OnceKey, SecretHash, Session, StoredAnswer, Token,
    retried_already, retry_by_hand,
};
use punctual_core::grant::{Grant, NewGrant};
use punctual_core::id::{AuditId, JobId, TokenId};
use punctual_core::invalid::Invalid;
use punctual_core::json::Json;
use punctual_core::name;
use punctual_core::schedule::{Schedule, ScheduleDefinition};
use punctual_core::store::{Store, StoreError, StoreResult};
use std::any::Any;
use std::sync::Arc;
use tokio_postgres::Row;
use uuid::Uuid;

const TOKEN: &str = "SELECT id, prefix, hash, name, owner, role, expires_at, created_at, revoked_at, last_used_at
                     FROM punctual_internal.api_tokens";

#[async_trait]
impl Access for PostgresStore {
    fn recorded(&self, change: Change) -> Arc<dyn Store> {
        let shared = Handle { change: Some(Arc::new(change)), ..self.shared.clone() };
        Arc::new(Self { shared })
    }

    async fn create_token(&self, token: NewToken) -> StoreResult<Token> {
        token.validate()?;
        in_transaction!(&self.shared, |tx| tx.create_token(&token))
    }

    async fn create_token_if_none(&self, token: NewToken) -> StoreResult<Option<Token>> {
        token.validate()?;
        in_transaction!(&self.shared, |tx| tx.create_token_if_none(&token))
    }

    async fn token_by_prefix(&self, prefix: &str) -> StoreResult<Option<Token>> {
        Ok(self.shared.read(&format!("{TOKEN} WHERE prefix = $1"), params![prefix], token).await?.pop())
    }

    async fn tokens(&self, before: Option<TokenId>, limit: usize) -> StoreResult<Vec<Token>> {
        let before = before.map_or(Uuid::max(), |id| id.0);
        Ok(self.shared.read(sql::tokens_page, params![before, whole(limit)], token).await?)
    }

    async fn revoke_token(&self, id: TokenId) -> StoreResult<Token> {
        in_transaction!(&self.shared, |tx| tx.revoke_token(id))
    }

    async fn touch_token(&self, id: TokenId) -> StoreResult<()> {
        let touch = "UPDATE punctual_internal.api_tokens SET last_used_at = coalesce($2, now())
                     WHERE id = $1 AND coalesce(last_used_at <= coalesce($2, now()) - interval '1 minute', true)";
        let session = self.shared.session().await?;
        let touched = session.count(touch, &params![id.0, self.shared.turned()]).await;
        touched.map(drop).map_err(|error| crate::error::store_error(&error))
    }

    async fn create_session(&self, hash: SecretHash, token: TokenId, expires_at: Timestamp) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.create_session(hash, token, expires_at))
    }

    async fn session(&self, hash: SecretHash) -> StoreResult<Option<Session>> {
        let found = self.shared.read(sql::session_by_hash, params![&hash[..]], |row| {
            let mut c = Columns::of(row);
            Ok(Session { hash, expires_at: c.time()?, token: token_columns(&mut c)? })
        });
        Ok(found.await?.pop())
    }

    async fn end_session(&self, hash: SecretHash) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.end_session(hash))
    }

    async fn answer_under(&self, owner: &str, key: &str) -> StoreResult<Option<StoredAnswer>> {
        let find = "SELECT fingerprint, status, answer FROM punctual_internal.idempotency_keys
                    WHERE owner = $1 AND key = $2";
        let found = self.shared.read(find, params![owner, key], |row| {
            let mut c = Columns::of(row);
            Ok(StoredAnswer { fingerprint: hash(&mut c)?, answer: Answer { status: c.small()?, body: c.next()? } })
        });
        Ok(found.await?.pop())
    }

    async fn audit_log(
        &self, subject: Option<&str>, before: Option<AuditId>, limit: usize,
    ) -> StoreResult<Vec<AuditRow>> {
        let params = params![before.map_or(Uuid::max(), |id| id.0), whole(limit)];
        Ok(match subject {
            None => self.shared.read(sql::audit_page, params, audit_row).await?,
            Some(subject) => self.shared.read(sql::audit_page_of_subject, params.with(subject), audit_row).await?,
        })
    }

    async fn audit_after(&self, after: AuditId, limit: usize) -> StoreResult<Vec<AuditRow>> {
        Ok(self.shared.read(sql::audit_after, params![after.0, whole(limit)], audit_row).await?)
    }

    async fn forget_access(&self, keys_before: Timestamp, limit: usize) -> StoreResult<Forgotten> {
        in_transaction!(&self.shared, |tx| tx.forget_access(keys_before, limit))
    }

    async fn create_schedule_with_grant(
        &self, definition: ScheduleDefinition, grant: NewGrant,
    ) -> StoreResult<(Schedule, Grant)> {
        grant.validate()?;
        in_transaction!(&self.shared, |made| Some(Wake::of(&made.0)), |tx| tx
            .create_schedule_with_grant(&definition, &grant))
    }

    async fn retry_job_if_ended(&self, id: JobId, by: Option<String>) -> StoreResult<JobId> {
        name::check_text("by", by.as_deref().unwrap_or_default())?;
        in_transaction!(&self.shared, Work | tx | tx.retry_job(id, by.as_deref()))
    }
}

impl Tx<'_> {
    /// Takes the idempotency key before the work is begun; whoever comes with the same key meanwhile waits here. The
    /// answer takes its place at the end.
    pub(crate) async fn take_key(&self, change: Option<&Change>) -> Work<()> {
        let Some(OnceKey { owner, key, fingerprint }) = change.and_then(|change| change.once.as_ref()) else {
            return Ok(());
        };
        let take =
            "INSERT INTO punctual_internal.idempotency_keys (owner, key, fingerprint, status, answer, created_at)
                    VALUES ($1, $2, $3, 0, '', $4) ON CONFLICT (owner, key) DO NOTHING";
        match self.execute(take, params![owner.as_str(), key.as_str(), &fingerprint[..], self.at()]).await? {
            0 => Err(StoreError::Repeated.into()),
            _ => Ok(()),
        }
    }

    /// Writes down what was done: the audit row, and the answer under its key.
    pub(crate) fn record<'a>(
        &'a self, change: Option<&'a Change>, done: &dyn Any,
    ) -> impl Future<Output = Work<()>> + Send + use<'a> {
        let described = change.map(|change| (change, (change.describe)(done)));
        async move {
            let Some((change, described)) = described else { return Ok(()) };
            if let Some(OnceKey { owner, key, .. }) = &change.once {
                let missing = || Failure::internal("a change with an idempotency key has no answer");
                let answer = described.answer.ok_or_else(missing)?;
                let keep = "UPDATE punctual_internal.idempotency_keys SET status = $3, answer = $4
                            WHERE owner = $1 AND key = $2";
                let params = params![owner.as_str(), key.as_str(), i32::from(answer.status), answer.body];
                self.execute(keep, params).await?;
            }
            let Some(action) = change.action else { return Ok(()) };
            let insert = "INSERT INTO punctual_internal.audit_log
                            (id, at, actor, token_id, action, subject, request_id, before, after)
                          VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::json, $9::text::json)";
            let params = params![
                AuditId::at(self.now, self.id_bits()).0,
                self.at(),
                change.actor.as_str(),
                change.token_id.map(|id| id.0),
                action,
                described.subject.as_str(),
                change.request_id.as_deref(),
                change.before.as_ref().map(Json::as_str),
                described.after.as_ref().map(Json::as_str),
            ];
            self.execute(insert, params).await?;
            Ok(())
        }
    }

    async fn create_token(&self, new: &NewToken) -> Work<Token> {
        let id = TokenId::at(self.now, self.id_bits());
        let insert = "INSERT INTO punctual_internal.api_tokens
                        (id, prefix, hash, name, owner, role, expires_at, created_at)
                      VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let params = params![
            id.0,
            new.prefix.as_str(),
            &new.hash[..],
            new.name.as_str(),
            new.owner.as_str(),
            new.role.as_str(),
            new.expires_at.map(time),
            self.at(),
        ];
        match self.execute(insert, params).await {
            Ok(_) => Ok(Token { id, token: new.clone(), created_at: self.now, revoked_at: None, last_used_at: None }),
            Err(failure) if failure.is_unique_violation() => {
                Err(StoreError::NameTaken { what: "token", name: new.prefix.clone() }.into())
            }
            Err(failure) => Err(failure),
        }
    }

    async fn create_token_if_none(&self, new: &NewToken) -> Work<Option<Token>> {
        // Two servers that start at once must not both find nothing.
        self.word("LOCK TABLE punctual_internal.api_tokens IN SHARE ROW EXCLUSIVE MODE").await?;
        let any = "SELECT 1 FROM punctual_internal.api_tokens LIMIT 1";
        match self.one(any, params![], value::<i32>).await? {
            Some(_) => Ok(None),
            None => self.create_token(new).await.map(Some),
        }
    }

    async fn revoke_token(&self, id: TokenId) -> Work<Token> {
        let revoke = "UPDATE punctual_internal.api_tokens SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1";
        self.execute(revoke, params![id.0, self.at()]).await?;
        self.execute("DELETE FROM punctual_internal.sessions WHERE token_id = $1", params![id.0]).await?;
        let found = self.one(&format!("{TOKEN} WHERE id = $1"), params![id.0], token).await?;
        found.ok_or_else(|| StoreError::NotFound { what: "token", key: id.to_string() }.into())
    }

    async fn create_session(&self, hash: SecretHash, token: TokenId, expires_at: Timestamp) -> Work<()> {
        let insert = "INSERT INTO punctual_internal.sessions (hash, token_id, expires_at) VALUES ($1, $2, $3)";
        self.execute(insert, params![&hash[..], token.0, time(expires_at)]).await.map(drop)
    }

    async fn end_session(&self, hash: SecretHash) -> Work<()> {
        self.execute("DELETE FROM punctual_internal.sessions WHERE hash = $1", params![&hash[..]]).await.map(drop)
    }

    async fn forget_access(&self, keys_before: Timestamp, limit: usize) -> Work<Forgotten> {
        let sessions = "DELETE FROM punctual_internal.sessions WHERE hash IN
                        (SELECT hash FROM punctual_internal.sessions WHERE expires_at <= $1 LIMIT $2)";
        let keys = "DELETE FROM punctual_internal.idempotency_keys WHERE (owner, key) IN
                    (SELECT owner, key FROM punctual_internal.idempotency_keys WHERE created_at < $1 LIMIT $2)";
        let small = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Ok(Forgotten {
            sessions: small(self.execute(sessions, params![self.at(), whole(limit)]).await?),
            keys: small(self.execute(keys, params![time(keys_before), whole(limit)]).await?),
        })
    }

    async fn create_schedule_with_grant(
        &mut self, definition: &ScheduleDefinition, new: &NewGrant,
    ) -> Work<(Schedule, Grant)> {
        let grant = self.create_grant(new).await?;
        let definition = ScheduleDefinition { grant_id: Some(grant.id), ..definition.clone() };
        Ok((self.create_schedule(&definition).await?, grant))
    }

    async fn retry_job(&mut self, id: JobId, by: Option<&str>) -> Work<JobId> {
        let not_found = || StoreError::NotFound { what: "job", key: id.to_string() };
        let view = self.job_view(id).await?.ok_or_else(not_found)?;
        let Some(run) = view.run() else {
            let remedy = "wait until it has ended, or cancel it";
            return Err(StoreError::WrongState { state: view.state(), remedy }.into());
        };
        let (spec, origin) = retry_by_hand(&view.job, run, by.map(str::to_owned))?;
        if self.links_of(&[id]).await?.contains_key(&id) {
            return Err(punctual_core::flow::step_not_retried(run.outcome).into());
        }
        if let Some(schedule) = view.job.schedule_id {
            self.schedule_to_use(schedule).await?;
        }
        let new = self.make_one(&spec, &origin).await?;
        let insert = "INSERT INTO punctual_internal.retries (retry_of, job_id) VALUES ($1, $2)";
        match self.execute(insert, params![id.0, new.0]).await {
            Ok(_) => {
                // If the key waits for this job, only now it is seen that it has come.
                self.settle_serial_keys(&serial_keys([&spec])).await?;
                Ok(new)
            }
            Err(failure) if failure.is_unique_violation() => Err(retried_already(run.outcome).into()),
            Err(failure) => Err(failure),
        }
    }
}

fn hash(c: &mut Columns<'_>) -> Result<SecretHash, Unreadable> {
    let bytes: &[u8] = c.next()?;
    bytes.try_into().map_err(|_| Invalid::new("hash", "has not 32 bytes"))
}

fn token(row: &Row) -> Result<Token, Unreadable> {
    token_columns(&mut Columns::of(row))
}

fn token_columns(c: &mut Columns<'_>) -> Result<Token, Unreadable> {
    Ok(Token {
        id: c.id()?,
        token: NewToken {
            prefix: c.next()?,
            hash: hash(c)?,
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

fn audit_row(row: &Row) -> Result<AuditRow, Unreadable> {
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
