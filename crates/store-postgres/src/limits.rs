//! Limits: setting them, and reading what they say. The claim itself heeds them in SQL (`claim_quotas`).

use crate::PostgresStore;
use crate::error::Work;
use crate::params::{Params, params, time};
use crate::rows::{self, Columns, Unreadable};
use crate::session::Session;
use crate::tx::{Tx, in_transaction};
use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::limits::{Bucket, Limit, LimitRow, LimitSubject, Limits, Rate};
use punctual_core::store::{StoreError, StoreResult};
use tokio_postgres::Row;

/// The lock that everything shares that makes a lane (`new_lane`) or puts a job with tags into a queue
/// (`queue_by_tags`).
const TAGS: i64 = 7_815_263_004;

const COLUMNS: &str = "SELECT l.scope, l.name, l.concurrency, l.node_concurrency, l.rate_jobs, l.rate_per_us,
    l.rate_burst, l.level, l.level_at, l.created_at, l.updated_at, coalesce($1, now()), (
      SELECT count(*) FROM punctual_internal.running AS g JOIN punctual_internal.lanes AS w ON w.id = g.lane_id
      WHERE g.limited AND l.id = ANY (w.limits))
    FROM punctual_internal.limits AS l";

#[async_trait]
impl Limits for PostgresStore {
    async fn set_limit(&self, limit: Limit) -> StoreResult<LimitRow> {
        limit.validate()?;
        in_transaction!(&self.shared, Work | tx | tx.set_limit(&limit))
    }

    async fn remove_limit(&self, subject: &LimitSubject) -> StoreResult<()> {
        in_transaction!(&self.shared, Work | tx | tx.remove_limit(subject))
    }

    async fn limit(&self, subject: &LimitSubject) -> StoreResult<Option<LimitRow>> {
        let session = self.shared.session().await?;
        let find = format!("{COLUMNS} WHERE l.scope = $2 AND l.name = $3");
        let params = params![self.shared.turned(), subject.scope(), subject.name()];
        Ok(read_limits(&session, &find, &params).await?.pop())
    }

    async fn limits(&self, after: Option<&LimitSubject>, limit: usize) -> StoreResult<Vec<LimitRow>> {
        let session = self.shared.session().await?;
        let (scope, name) = after.map_or(("", ""), |after| (after.scope(), after.name()));
        let page = format!("{COLUMNS} WHERE (l.scope, l.name) > ($2, $3) ORDER BY l.scope, l.name LIMIT $4");
        let params = params![self.shared.turned(), scope, name, crate::params::limit(limit)];
        Ok(read_limits(&session, &page, &params).await?)
    }
}

async fn read_limits(session: &Session, sql: &str, params: &Params<'_>) -> Work<Vec<LimitRow>> {
    let found = rows::collect(&session.rows(sql, params).await?, stored)?;
    Ok(found.into_iter().map(|(row, _)| row).collect())
}

/// A limit, and what is in its bucket.
fn stored(row: &Row) -> Result<(LimitRow, Option<Bucket>), Unreadable> {
    let mut c = Columns::of(row);
    let (scope, name): (String, String) = (c.next()?, c.next()?);
    let (concurrency, node_concurrency) = (number(c.next()?), number(c.next()?));
    let (jobs, per, burst): (_, Option<i64>, _) = (number(c.next()?), c.next()?, number(c.next()?));
    let rate = jobs.zip(per).zip(burst).map(|((jobs, per), burst)| Rate {
        jobs,
        per: SignedDuration::from_micros(per),
        burst,
    });
    let (level, at): (Option<i64>, _) = (c.next()?, c.optional_time()?);
    let (created_at, updated_at, now) = (c.time()?, c.time()?, c.time()?);
    let bucket = level.zip(at).map(|(level, at)| Bucket { level, at });
    let bucket = rate.zip(bucket).map(|(rate, bucket)| rate.refilled(bucket, now));
    let row = LimitRow {
        limit: Limit { subject: LimitSubject::of(&scope, &name)?, concurrency, node_concurrency, rate },
        running: u64::try_from(c.next::<i64>()?).unwrap_or(0),
        tokens: rate.zip(bucket).map(|(rate, bucket)| rate.tokens(bucket)),
        created_at,
        updated_at,
    };
    Ok((row, bucket))
}

fn number(stored: Option<i64>) -> Option<u32> {
    stored.map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

impl Tx<'_> {
    pub(crate) async fn set_limit(&mut self, limit: &Limit) -> Work<LimitRow> {
        self.stop_claims().await?;
        let (scope, name) = (limit.subject.scope(), limit.subject.name());
        let find = format!("{COLUMNS} WHERE l.scope = $2 AND l.name = $3");
        let old = self.one(&find, params![Some(self.at()), scope, name], stored).await?;
        let left = old.as_ref().and_then(|(old, bucket)| old.limit.rate.zip(*bucket));
        let bucket = limit.first_bucket(left, self.now);
        let set = "INSERT INTO punctual_internal.limits (scope, name, concurrency, node_concurrency, rate_jobs, \
                   rate_per_us, rate_burst, level, level_at, created_at, updated_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10) ON CONFLICT (scope, name) DO UPDATE SET \
                   concurrency = excluded.concurrency, node_concurrency = excluded.node_concurrency, \
                   rate_jobs = excluded.rate_jobs, rate_per_us = excluded.rate_per_us, \
                   rate_burst = excluded.rate_burst, level = excluded.level, level_at = excluded.level_at, \
                   updated_at = excluded.updated_at";
        let params = params![
            scope,
            name,
            limit.concurrency.map(i64::from),
            limit.node_concurrency.map(i64::from),
            limit.rate.map(|rate| i64::from(rate.jobs)),
            limit.rate.map(Rate::cost),
            limit.rate.map(|rate| i64::from(rate.burst)),
            bucket.map(|bucket| bucket.level),
            bucket.map(|bucket| time(bucket.at)),
            self.at(),
        ];
        self.execute(set, params).await?;
        if old.is_none() {
            self.sort_into_lanes(&limit.subject).await?;
        }
        let stored = self.one(&find, params![Some(self.at()), scope, name], stored).await?;
        let none = || StoreError::Internal("a limit was not stored".to_owned());
        Ok(stored.ok_or_else(none)?.0)
    }

    /// What is said about a subject, without what is in its bucket; nobody claims or sets a limit before this is over.
    pub(crate) async fn locked_limit(&self, subject: &LimitSubject) -> Work<Option<Limit>> {
        self.stop_claims().await?;
        let find = format!("{COLUMNS} WHERE l.scope = $2 AND l.name = $3");
        let params = params![Some(self.at()), subject.scope(), subject.name()];
        Ok(self.one(&find, params, stored).await?.map(|(row, _)| row.limit))
    }

    pub(crate) async fn remove_limit(&mut self, subject: &LimitSubject) -> Work<()> {
        self.stop_claims().await?;
        let remove = "DELETE FROM punctual_internal.limits WHERE scope = $1 AND name = $2";
        if self.execute(remove, params![subject.scope(), subject.name()]).await? == 0 {
            return Err(StoreError::NotFound { what: "limit", key: subject.to_string() }.into());
        }
        self.sort_into_lanes(subject).await
    }

    /// Tells the lanes which limits they have, puts jobs with a tag into other lanes after it was limited or is not any
    /// more, and counts what runs already.
    async fn sort_into_lanes(&self, subject: &LimitSubject) -> Work<()> {
        // Until this is done no lane is made, and nothing with tags comes into a queue.
        self.rows("SELECT pg_advisory_xact_lock($1)", params![TAGS]).await?;
        let lanes = "UPDATE punctual_internal.lanes AS w SET limits = now.limits
                     FROM (SELECT id, punctual_internal.limits_of(queue, job_type, tags) AS limits
                           FROM punctual_internal.lanes) AS now
                     WHERE now.id = w.id AND now.limits <> w.limits";
        self.execute(lanes, Params::default()).await?;
        if let LimitSubject::Tag(tag) = subject {
            self.sort_by_tag(tag).await?;
        }
        let count = "UPDATE punctual_internal.running
                     SET limited = NOT limited
                     WHERE limited <> (node_id IS NOT NULL AND EXISTS (SELECT 1 FROM punctual_internal.limits))";
        self.execute(count, Params::default()).await?;
        Ok(())
    }

    async fn sort_by_tag(&self, tag: &str) -> Work<()> {
        let waiting = "UPDATE punctual_internal.queue
                       SET lane_id = punctual_internal.tagged_lane(lane_id, tags)
                       WHERE tags IS NOT NULL AND $1 IN (SELECT json_array_elements_text(tags))";
        self.execute(waiting, params![tag]).await?;
        let running = "UPDATE punctual_internal.running AS g
                       SET lane_id = punctual_internal.tagged_lane(g.lane_id, j.tags)
                       FROM punctual_internal.jobs AS j
                       WHERE j.id = g.job_id AND j.tags IS NOT NULL
                         AND $1 IN (SELECT json_array_elements_text(j.tags))";
        self.execute(running, params![tag]).await?;
        Ok(())
    }
}
