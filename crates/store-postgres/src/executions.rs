//! What the execution service keeps: graph runs under their keys, who drives them, receipts and billing accounts.

use crate::PostgresStore;
use crate::error::{Failure, Work};
use crate::params::{limit as whole, params, time};
use crate::rows::{Columns, Unreadable, document};
use crate::tx::{Tx, in_transaction};
use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::closing::storable_text;
use punctual_core::execution::{
    ATTEMPT, Begun, BillingAccount, Execution, Executions, NewExecution, Receipt, Usage, charged, virtual_key,
};
use punctual_core::graph::{GraphEnd, Used};
use punctual_core::id::{DriverId, GraphRunId};
use punctual_core::invalid::Invalid;
use punctual_core::json::Json;
use punctual_core::name;
use punctual_core::store::StoreResult;
use tokio_postgres::Row;
use uuid::Uuid;

const EXECUTION: &str = "SELECT q.key, q.hash, g.id, g.graph_id, g.grant_id, g.owner, g.billing_account, a.virtual_key,
    g.input::text, g.trace_id, q.service, g.driver, g.beats, g.started_at, g.ended_at, q.answer
    FROM punctual_internal.execution_requests AS q
    JOIN punctual_internal.graph_runs AS g ON g.id = q.run_id
    JOIN punctual_internal.billing_accounts AS a ON a.owner = g.owner AND a.name = g.billing_account";

const ACCOUNT: &str = "SELECT owner, name, virtual_key, created_at FROM punctual_internal.billing_accounts";

#[async_trait]
impl Executions for PostgresStore {
    async fn begin_execution(&self, new: NewExecution) -> StoreResult<Begun> {
        new.validate()?;
        in_transaction!(&self.shared, |tx| tx.begin_execution(&new))
    }

    async fn execution(&self, key: &str) -> StoreResult<Option<Execution>> {
        Ok(self.shared.read(&format!("{EXECUTION} WHERE q.key = $1"), params![key], execution).await?.pop())
    }

    async fn beat_execution(&self, run: GraphRunId, driver: DriverId) -> StoreResult<bool> {
        in_transaction!(&self.shared, |tx| tx.beat_execution(run, driver))
    }

    async fn take_over_execution_if_still(&self, seen: &Execution, driver: DriverId) -> StoreResult<Option<Execution>> {
        in_transaction!(&self.shared, |tx| tx.take_over_execution(seen, driver))
    }

    async fn release_execution(&self, run: GraphRunId, driver: DriverId) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.release_execution(run, driver))
    }

    async fn end_execution_if_driven(
        &self, run: GraphRunId, driver: DriverId, end: GraphEnd, answer: String,
    ) -> StoreResult<bool> {
        in_transaction!(&self.shared, |tx| tx.end_execution(run, driver, &end, &answer))
    }

    async fn receipts(&self, run: GraphRunId) -> StoreResult<Vec<Receipt>> {
        let find = "SELECT attempt, unit, quantity FROM punctual_internal.charge_receipts WHERE run_id = $1
                    ORDER BY attempt, unit";
        let found = self.shared.read(find, params![run.0], |row| {
            let mut c = Columns::of(row);
            let attempt = c.small()?;
            Ok(Receipt { run_id: run, attempt, used: Used { unit: c.next()?, quantity: c.count()? } })
        });
        Ok(found.await?)
    }

    async fn create_billing_account(&self, owner: &str, name: &str) -> StoreResult<BillingAccount> {
        name::check(owner).map_err(|e| Invalid { field: "owner".into(), ..e })?;
        name::check(name)?;
        in_transaction!(&self.shared, |tx| tx.create_account(owner, name))
    }

    async fn billing_account(&self, owner: &str, name: &str) -> StoreResult<Option<BillingAccount>> {
        let find = format!("{ACCOUNT} WHERE owner = $1 AND name = $2");
        Ok(self.shared.read(&find, params![owner, name], account).await?.pop())
    }

    async fn billing_accounts(
        &self, owner: Option<&str>, after: Option<(&str, &str)>, limit: usize,
    ) -> StoreResult<Vec<BillingAccount>> {
        let (after_owner, after_name) = after.unwrap_or(("", ""));
        let page = format!(
            "{ACCOUNT} WHERE ($1 IS NULL OR owner = $1) AND (owner, name) > ($2, $3) ORDER BY owner, name LIMIT $4"
        );
        Ok(self.shared.read(&page, params![owner, after_owner, after_name, whole(limit)], account).await?)
    }

    async fn usage(&self, owner: &str, account: &str, from: Timestamp, until: Timestamp) -> StoreResult<Vec<Usage>> {
        // Differs from SQLite: a sum is of a wider type here, and is cast back.
        let find = "SELECT graph_id, unit, least(sum(quantity), 9223372036854775807)::bigint, count(DISTINCT run_id)
                    FROM punctual_internal.charge_receipts
                    WHERE owner = $1 AND billing_account = $2 AND charged_at >= $3 AND charged_at < $4
                    GROUP BY graph_id, unit ORDER BY graph_id, unit";
        let found = self.shared.read(find, params![owner, account, time(from), time(until)], |row| {
            let mut c = Columns::of(row);
            Ok(Usage { graph: c.next()?, unit: c.next()?, quantity: c.count()?, runs: c.count()? })
        });
        Ok(found.await?)
    }
}

impl Tx<'_> {
    /// Makes a billing account if it is not there.
    pub(crate) async fn ensure_account(&self, owner: &str, name: &str) -> Work<()> {
        let insert = "INSERT INTO punctual_internal.billing_accounts (owner, name, virtual_key, created_at)
                      VALUES ($1, $2, $3, $4) ON CONFLICT (owner, name) DO NOTHING";
        let key = virtual_key([Uuid::new_v4().as_u128(), Uuid::new_v4().as_u128()]);
        self.execute(insert, params![owner, name, key, self.at()]).await.map(drop)
    }

    async fn create_account(&self, owner: &str, name: &str) -> Work<BillingAccount> {
        self.ensure_account(owner, name).await?;
        let find = format!("{ACCOUNT} WHERE owner = $1 AND name = $2");
        let found = self.one(&find, params![owner, name], account).await?;
        found.ok_or_else(|| Failure::internal("a billing account was not stored"))
    }

    async fn begin_execution(&self, new: &NewExecution) -> Work<Begun> {
        let by_key = format!("{EXECUTION} WHERE q.key = $1");
        // Two who come with one key at once: the second waits here, and then sees what the first has begun. A lock and
        // no row, because a refusal writes nothing.
        let lock = "SELECT 1 FROM (SELECT pg_advisory_xact_lock(hashtextextended($1, 7815263011))) AS taken";
        self.rows(lock, params![new.key.as_str()]).await?;
        if let Some(there) = self.one(&by_key, params![new.key.as_str()], execution).await? {
            return Ok(Begun::There(Box::new(there)));
        }
        let grant = self.lock_grant(new.grant_id).await?;
        let (grant, left) = match (new.allowed_by(grant.as_ref(), self.now), grant) {
            (Ok(left), Some(grant)) => (grant, left),
            (Err(bounded), _) => return Ok(bounded.into()),
            (Ok(_), None) => return Err(Failure::internal("a grant that is not there allows nothing")),
        };
        self.count_run(grant.id, left.0, left.1).await?;
        let run = GraphRunId::at(self.now, self.id_bits());
        let insert = "INSERT INTO punctual_internal.graph_runs
                        (id, graph_id, grant_id, owner, billing_account, input, trace_id, driver, started_at)
                      VALUES ($1, $2, $3, $4, $5, $6::text::json, $7, $8, $9)";
        let params = params![
            run.0,
            new.graph.to_string(),
            grant.id.0,
            grant.owner.as_str(),
            grant.billing_account.as_str(),
            new.input.as_str(),
            new.trace_id.as_str(),
            new.driver.0,
            self.at(),
        ];
        self.execute(insert, params).await?;
        let insert = "INSERT INTO punctual_internal.execution_requests (key, hash, run_id, service)
                      VALUES ($1, $2, $3, $4)";
        self.execute(insert, params![new.key.as_str(), &new.hash[..], run.0, new.service.as_deref()]).await?;
        let made = self.one(&by_key, params![new.key.as_str()], execution).await?;
        made.map(|made| Begun::Mine(Box::new(made))).ok_or_else(|| Failure::internal("a request was not stored"))
    }

    async fn beat_execution(&self, run: GraphRunId, driver: DriverId) -> Work<bool> {
        let beat = "UPDATE punctual_internal.graph_runs SET beats = beats + 1
                    WHERE id = $1 AND driver = $2 AND ended_at IS NULL";
        Ok(self.execute(beat, params![run.0, driver.0]).await? == 1)
    }

    async fn take_over_execution(&self, seen: &Execution, driver: DriverId) -> Work<Option<Execution>> {
        let take = "UPDATE punctual_internal.graph_runs SET driver = $4, beats = beats + 1
                    WHERE id = $1 AND driver IS NOT DISTINCT FROM $2 AND beats = $3 AND ended_at IS NULL";
        let params = params![seen.run_id.0, seen.driver.map(|id| id.0), seen.beats, driver.0];
        if self.execute(take, params).await? == 0 {
            return Ok(None);
        }
        self.one(&format!("{EXECUTION} WHERE g.id = $1"), params![seen.run_id.0], execution).await
    }

    async fn release_execution(&self, run: GraphRunId, driver: DriverId) -> Work<()> {
        let release = "UPDATE punctual_internal.graph_runs SET driver = NULL, beats = beats + 1
                       WHERE id = $1 AND driver = $2 AND ended_at IS NULL";
        self.execute(release, params![run.0, driver.0]).await.map(drop)
    }

    async fn end_execution(&self, run: GraphRunId, driver: DriverId, end: &GraphEnd, answer: &str) -> Work<bool> {
        let update = "UPDATE punctual_internal.graph_runs SET ended_at = $3, error_code = $4, error = $5,
                        output = $6::text::json, provider_references = $7::text::json
                      WHERE id = $1 AND driver = $2 AND ended_at IS NULL";
        let params = params![
            run.0,
            driver.0,
            self.at(),
            end.failure.as_ref().map(|(code, _)| code.as_str()),
            end.failure.as_ref().map(|(_, words)| storable_text(words)),
            end.output.as_ref().map(Json::as_str),
            document("references", &end.references)?,
        ];
        if self.execute(update, params).await? == 0 {
            return Ok(false);
        }
        for used in charged(end) {
            let charge = "INSERT INTO punctual_internal.charge_receipts
                            (run_id, attempt, unit, quantity, owner, billing_account, graph_id, grant_id, charged_at)
                          SELECT id, $2, $3, $4, owner, billing_account, graph_id, grant_id, $5
                          FROM punctual_internal.graph_runs WHERE id = $1";
            let quantity = i64::try_from(used.quantity).unwrap_or(i64::MAX);
            let attempt = i32::try_from(ATTEMPT).unwrap_or(i32::MAX);
            self.execute(charge, params![run.0, attempt, used.unit.as_str(), quantity, self.at()]).await?;
        }
        let keep = "UPDATE punctual_internal.execution_requests SET answer = $2 WHERE run_id = $1";
        self.execute(keep, params![run.0, answer]).await?;
        Ok(true)
    }
}

fn execution(row: &Row) -> Result<Execution, Unreadable> {
    let mut c = Columns::of(row);
    let key = c.next()?;
    let hash: &[u8] = c.next()?;
    Ok(Execution {
        key,
        hash: hash.try_into().map_err(|_| Invalid::new("hash", "has not 32 bytes"))?,
        run_id: c.id()?,
        graph: c.word()?,
        grant_id: c.id()?,
        owner: c.next()?,
        billing_account: c.next()?,
        virtual_key: c.next()?,
        input: c.json()?,
        trace_id: c.next()?,
        service: c.next()?,
        driver: c.optional_id()?,
        beats: c.next()?,
        started_at: c.time()?,
        ended_at: c.optional_time()?,
        answer: c.next()?,
    })
}

fn account(row: &Row) -> Result<BillingAccount, Unreadable> {
    let mut c = Columns::of(row);
    Ok(BillingAccount { owner: c.next()?, name: c.next()?, virtual_key: c.next()?, created_at: c.time()? })
}
