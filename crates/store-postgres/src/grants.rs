//! Grants: making them with their billing accounts, reading them, revoking them.

use crate::PostgresStore;
use crate::error::Work;
use crate::params::{limit as whole, params, time};
use crate::rows::{Columns, Unreadable, document};
use crate::tx::{Tx, in_transaction};
use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::grant::{Grant, Grants, NewGrant, Scope};
use punctual_core::id::GrantId;
use punctual_core::invalid::Invalid;
use punctual_core::limits::{Bucket, Rate};
use punctual_core::store::{StoreError, StoreResult};
use tokio_postgres::Row;
use uuid::Uuid;

const COLUMNS: &str = "SELECT id, owner, billing_account, scopes::text, expires_at, max_runs, rate_runs, rate_per_us,
    rate_burst, created_at, revoked_at, runs, level, level_at FROM punctual_internal.grants";

#[async_trait]
impl Grants for PostgresStore {
    async fn create_grant(&self, grant: NewGrant) -> StoreResult<Grant> {
        grant.validate()?;
        in_transaction!(&self.shared, |tx| tx.create_grant(&grant))
    }

    async fn grant(&self, id: GrantId) -> StoreResult<Option<Grant>> {
        Ok(self.shared.read(&format!("{COLUMNS} WHERE id = $1"), params![id.0], grant).await?.pop())
    }

    async fn grants(&self, owner: Option<&str>, before: Option<GrantId>, limit: usize) -> StoreResult<Vec<Grant>> {
        let (before, limit) = (before.map_or(Uuid::max(), |id| id.0), whole(limit));
        let Some(owner) = owner else {
            let page = format!("{COLUMNS} WHERE id < $1 ORDER BY id DESC LIMIT $2");
            return Ok(self.shared.read(&page, params![before, limit], grant).await?);
        };
        let page = format!("{COLUMNS} WHERE owner = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
        Ok(self.shared.read(&page, params![owner, before, limit], grant).await?)
    }

    async fn revoke_grant(&self, id: GrantId) -> StoreResult<Grant> {
        in_transaction!(&self.shared, |tx| tx.revoke_grant(id))
    }
}

impl Tx<'_> {
    pub(crate) async fn create_grant(&self, new: &NewGrant) -> Work<Grant> {
        self.ensure_account(&new.owner, &new.billing_account).await?;
        let made = new.clone().made(GrantId::at(self.now, self.id_bits()), self.now);
        let words: Vec<String> = made.scopes.iter().map(ToString::to_string).collect();
        let insert = "INSERT INTO punctual_internal.grants (id, owner, billing_account, scopes, expires_at, max_runs,
                        rate_runs, rate_per_us, rate_burst, created_at, level, level_at)
                      VALUES ($1, $2, $3, $4::text::json, $5, $6, $7, $8, $9, $10, $11, $12)";
        let params = params![
            made.id.0,
            made.owner.as_str(),
            made.billing_account.as_str(),
            document("scopes", &words)?,
            made.expires_at.map(time),
            made.max_runs.map(i64::from),
            made.rate.map(|rate| i64::from(rate.jobs)),
            made.rate.map(Rate::cost),
            made.rate.map(|rate| i64::from(rate.burst)),
            self.at(),
            made.bucket.map(|bucket| bucket.level),
            made.bucket.map(|bucket| time(bucket.at)),
        ];
        self.execute(insert, params).await?;
        Ok(made)
    }

    async fn revoke_grant(&self, id: GrantId) -> Work<Grant> {
        let revoke = "UPDATE punctual_internal.grants SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1";
        self.execute(revoke, params![id.0, self.at()]).await?;
        let found = self.one(&format!("{COLUMNS} WHERE id = $1"), params![id.0], grant).await?;
        found.ok_or_else(|| StoreError::NotFound { what: "grant", key: id.to_string() }.into())
    }

    /// A grant that stays as it is until the transaction is done: whoever revokes it, or begins another run, waits.
    pub(crate) async fn lock_grant(&self, id: GrantId) -> Work<Option<Grant>> {
        self.one(&format!("{COLUMNS} WHERE id = $1 FOR UPDATE"), params![id.0], grant).await
    }

    /// Writes down what a grant has left.
    pub(crate) async fn count_run(&self, id: GrantId, runs: u64, bucket: Option<Bucket>) -> Work<()> {
        let count = "UPDATE punctual_internal.grants SET runs = $2, level = $3, level_at = $4 WHERE id = $1";
        let runs = i64::try_from(runs).unwrap_or(i64::MAX);
        let (level, at) = (bucket.map(|bucket| bucket.level), bucket.map(|bucket| time(bucket.at)));
        self.execute(count, params![id.0, runs, level, at]).await.map(drop)
    }
}

fn small(number: Option<i64>) -> Option<u32> {
    number.map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn grant(row: &Row) -> Result<Grant, Unreadable> {
    let mut c = Columns::of(row);
    let (id, owner, billing_account) = (c.id()?, c.next()?, c.next()?);
    let words: Vec<String> = c.document("scopes")?;
    let scopes = words.iter().map(|word| word.parse()).collect::<Result<Vec<Scope>, Invalid>>()?;
    let (expires_at, max_runs) = (c.optional_time()?, small(c.next()?));
    let (jobs, per_us, burst): (_, Option<i64>, _) = (small(c.next()?), c.next()?, small(c.next()?));
    let rate = jobs.zip(per_us).zip(burst);
    let rate = rate.map(|((jobs, per_us), burst)| Rate { jobs, per: SignedDuration::from_micros(per_us), burst });
    let (created_at, revoked_at, runs) = (c.time()?, c.optional_time()?, c.count()?);
    let (level, at): (Option<i64>, _) = (c.next()?, c.optional_time()?);
    let bucket = level.zip(at).map(|(level, at)| Bucket { level, at });
    Ok(Grant { id, owner, billing_account, scopes, expires_at, max_runs, rate, created_at, revoked_at, runs, bucket })
}
