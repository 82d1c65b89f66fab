//! Grants: making them with their billing accounts, reading them, revoking them.

use crate::SqliteStore;
use crate::rows::{self, Columns, Unreadable, document};
use crate::tx::Tx;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use punctual_core::grant::{Grant, Grants, NewGrant, Scope};
use punctual_core::id::GrantId;
use punctual_core::invalid::Invalid;
use punctual_core::limits::{Bucket, Rate};
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::{Row, params};

const COLUMNS: &str = "SELECT id, owner, billing_account, scopes, expires_at, max_runs, rate_runs, rate_per_us,
    rate_burst, created_at, revoked_at, runs, level, level_at FROM punctual_grants";

#[async_trait]
impl Grants for SqliteStore {
    async fn create_grant(&self, grant: NewGrant) -> StoreResult<Grant> {
        grant.validate()?;
        self.write(move |tx| tx.create_grant(grant)).await
    }

    async fn grant(&self, id: GrantId) -> StoreResult<Option<Grant>> {
        self.read(move |connection| {
            Ok(rows::collect(connection, &format!("{COLUMNS} WHERE id = ?1"), params![id.as_bytes()], grant)?.pop())
        })
        .await
    }

    async fn grants(&self, owner: Option<&str>, before: Option<GrantId>, limit: usize) -> StoreResult<Vec<Grant>> {
        let (owner, before) = (owner.map(str::to_owned), before.map_or([0xff; 16], |id| *id.as_bytes()));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(move |connection| match owner {
            None => {
                let page = format!("{COLUMNS} WHERE id < ?1 ORDER BY id DESC LIMIT ?2");
                rows::collect(connection, &page, params![before, limit], grant)
            }
            Some(owner) => {
                let page = format!("{COLUMNS} WHERE owner = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3");
                rows::collect(connection, &page, params![owner, before, limit], grant)
            }
        })
        .await
    }

    async fn revoke_grant(&self, id: GrantId) -> StoreResult<Grant> {
        self.write(move |tx| {
            let revoke = "UPDATE punctual_grants SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1";
            tx.execute(revoke, params![id.as_bytes(), tx.now_us()])?;
            tx.find_grant(id)?.ok_or_else(|| StoreError::NotFound { what: "grant", key: id.to_string() })
        })
        .await
    }
}

impl Tx<'_> {
    pub(crate) fn create_grant(&mut self, new: NewGrant) -> StoreResult<Grant> {
        self.ensure_account(&new.owner, &new.billing_account)?;
        let bits = self.id_bits();
        let made = new.made(GrantId::at(self.now, bits), self.now);
        let words: Vec<String> = made.scopes.iter().map(ToString::to_string).collect();
        self.execute(
            "INSERT INTO punctual_grants (id, owner, billing_account, scopes, expires_at, max_runs, rate_runs,
               rate_per_us, rate_burst, created_at, level, level_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                made.id.as_bytes(),
                made.owner,
                made.billing_account,
                document("scopes", &words)?,
                made.expires_at.map(Timestamp::as_microsecond),
                made.max_runs,
                made.rate.map(|rate| rate.jobs),
                made.rate.map(Rate::cost),
                made.rate.map(|rate| rate.burst),
                self.now_us(),
                made.bucket.map(|bucket| bucket.level),
                made.bucket.map(|bucket| bucket.at.as_microsecond()),
            ],
        )?;
        Ok(made)
    }

    pub(crate) fn find_grant(&self, id: GrantId) -> StoreResult<Option<Grant>> {
        self.one(&format!("{COLUMNS} WHERE id = ?1"), params![id.as_bytes()], grant)
    }

    /// Writes down what a grant has left.
    pub(crate) fn count_run(&self, id: GrantId, runs: u64, bucket: Option<Bucket>) -> StoreResult<()> {
        let count = "UPDATE punctual_grants SET runs = ?2, level = ?3, level_at = ?4 WHERE id = ?1";
        let runs = i64::try_from(runs).unwrap_or(i64::MAX);
        let (level, at) = (bucket.map(|bucket| bucket.level), bucket.map(|bucket| bucket.at.as_microsecond()));
        self.execute(count, params![id.as_bytes(), runs, level, at]).map(drop)
    }
}

fn grant(row: &Row<'_>) -> Result<Grant, Unreadable> {
    let mut c = Columns::of(row);
    let (id, owner, billing_account) = (c.id()?, c.next()?, c.next()?);
    let words: Vec<String> = c.document("scopes")?;
    let scopes = words.iter().map(|word| word.parse()).collect::<Result<Vec<Scope>, Invalid>>()?;
    let (expires_at, max_runs) = (c.optional_time()?, c.next()?);
    let (jobs, per_us, burst): (Option<u32>, Option<i64>, Option<u32>) = (c.next()?, c.next()?, c.next()?);
    let rate = jobs.zip(per_us).zip(burst);
    let rate = rate.map(|((jobs, per_us), burst)| Rate { jobs, per: SignedDuration::from_micros(per_us), burst });
    let (created_at, revoked_at, runs) = (c.time()?, c.optional_time()?, c.count()?);
    let (level, at): (Option<i64>, _) = (c.next()?, c.optional_time()?);
    let bucket = level.zip(at).map(|(level, at)| Bucket { level, at });
    Ok(Grant { id, owner, billing_account, scopes, expires_at, max_runs, rate, created_at, revoked_at, runs, bucket })
}
