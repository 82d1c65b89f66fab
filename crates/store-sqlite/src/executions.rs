//! What the execution service keeps: graph runs under their keys, who drives them, receipts and billing accounts.

use crate::SqliteStore;
use crate::rows::{self, Columns, Unreadable, document};
use crate::tx::Tx;
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
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::{Row, params};
use uuid::Uuid;

const EXECUTION: &str = "SELECT q.key, q.hash, g.id, g.graph_id, g.grant_id, g.owner, g.billing_account, a.virtual_key,
    g.input, g.trace_id, q.service, g.driver, g.beats, g.started_at, g.ended_at, q.answer
    FROM punctual_execution_requests AS q
    JOIN punctual_graph_runs AS g ON g.id = q.run_id
    JOIN punctual_billing_accounts AS a ON a.owner = g.owner AND a.name = g.billing_account";

const ACCOUNT: &str = "SELECT owner, name, virtual_key, created_at FROM punctual_billing_accounts";

#[async_trait]
impl Executions for SqliteStore {
    async fn begin_execution(&self, new: NewExecution) -> StoreResult<Begun> {
        new.validate()?;
        self.write(move |tx| tx.begin_execution(&new)).await
    }

    async fn execution(&self, key: &str) -> StoreResult<Option<Execution>> {
        let key = key.to_owned();
        self.read(move |connection| {
            Ok(rows::collect(connection, &format!("{EXECUTION} WHERE q.key = ?1"), params![key], execution)?.pop())
        })
        .await
    }

    async fn beat_execution(&self, run: GraphRunId, driver: DriverId) -> StoreResult<bool> {
        self.write(move |tx| {
            let beat = "UPDATE punctual_graph_runs SET beats = beats + 1
                        WHERE id = ?1 AND driver = ?2 AND ended_at IS NULL";
            Ok(tx.execute(beat, params![run.as_bytes(), driver.as_bytes()])? == 1)
        })
        .await
    }

    async fn take_over_execution_if_still(&self, seen: &Execution, driver: DriverId) -> StoreResult<Option<Execution>> {
        let (run, old, beats) = (seen.run_id, seen.driver, seen.beats);
        self.write(move |tx| {
            let take = "UPDATE punctual_graph_runs SET driver = ?4, beats = beats + 1
                        WHERE id = ?1 AND driver IS ?2 AND beats = ?3 AND ended_at IS NULL";
            let params = params![run.as_bytes(), rows::bytes(old.as_ref()), beats, driver.as_bytes()];
            if tx.execute(take, params)? == 0 {
                return Ok(None);
            }
            tx.one(&format!("{EXECUTION} WHERE g.id = ?1"), params![run.as_bytes()], execution)
        })
        .await
    }

    async fn release_execution(&self, run: GraphRunId, driver: DriverId) -> StoreResult<()> {
        self.write(move |tx| {
            let release = "UPDATE punctual_graph_runs SET driver = NULL, beats = beats + 1
                           WHERE id = ?1 AND driver = ?2 AND ended_at IS NULL";
            tx.execute(release, params![run.as_bytes(), driver.as_bytes()]).map(drop)
        })
        .await
    }

    async fn end_execution_if_driven(
        &self, run: GraphRunId, driver: DriverId, end: GraphEnd, answer: String,
    ) -> StoreResult<bool> {
        self.write(move |tx| tx.end_execution(run, driver, &end, &answer)).await
    }

    async fn receipts(&self, run: GraphRunId) -> StoreResult<Vec<Receipt>> {
        self.read(move |connection| {
            let find = "SELECT attempt, unit, quantity FROM punctual_charge_receipts WHERE run_id = ?1
                        ORDER BY attempt, unit";
            rows::collect(connection, find, params![run.as_bytes()], |row| {
                let mut c = Columns::of(row);
                let attempt = c.next()?;
                Ok(Receipt { run_id: run, attempt, used: Used { unit: c.next()?, quantity: c.count()? } })
            })
        })
        .await
    }

    async fn create_billing_account(&self, owner: &str, name: &str) -> StoreResult<BillingAccount> {
        name::check(owner).map_err(|e| Invalid { field: "owner".into(), ..e })?;
        name::check(name)?;
        let (owner, name) = (owner.to_owned(), name.to_owned());
        self.write(move |tx| {
            tx.ensure_account(&owner, &name)?;
            let found = tx.one(&format!("{ACCOUNT} WHERE owner = ?1 AND name = ?2"), params![owner, name], account)?;
            found.ok_or_else(|| StoreError::Internal("a billing account was not stored".to_owned()))
        })
        .await
    }

    async fn billing_account(&self, owner: &str, name: &str) -> StoreResult<Option<BillingAccount>> {
        let params = (owner.to_owned(), name.to_owned());
        self.read(move |connection| {
            let find = format!("{ACCOUNT} WHERE owner = ?1 AND name = ?2");
            Ok(rows::collect(connection, &find, params, account)?.pop())
        })
        .await
    }

    async fn billing_accounts(
        &self, owner: Option<&str>, after: Option<(&str, &str)>, limit: usize,
    ) -> StoreResult<Vec<BillingAccount>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let (after_owner, after_name) = after.unwrap_or(("", ""));
        let params = (owner.map(str::to_owned), after_owner.to_owned(), after_name.to_owned(), limit);
        self.read(move |connection| {
            let page = format!(
                "{ACCOUNT} WHERE (?1 IS NULL OR owner = ?1) AND (owner, name) > (?2, ?3) ORDER BY owner, name LIMIT ?4"
            );
            rows::collect(connection, &page, params, account)
        })
        .await
    }

    async fn usage(&self, owner: &str, account: &str, from: Timestamp, until: Timestamp) -> StoreResult<Vec<Usage>> {
        let params = (owner.to_owned(), account.to_owned(), from.as_microsecond(), until.as_microsecond());
        self.read(move |connection| {
            let find = "SELECT graph_id, unit, sum(quantity), count(DISTINCT run_id) FROM punctual_charge_receipts
                        WHERE owner = ?1 AND billing_account = ?2 AND charged_at >= ?3 AND charged_at < ?4
                        GROUP BY graph_id, unit ORDER BY graph_id, unit";
            rows::collect(connection, find, params, |row| {
                let mut c = Columns::of(row);
                Ok(Usage { graph: c.next()?, unit: c.next()?, quantity: c.count()?, runs: c.count()? })
            })
        })
        .await
    }
}

impl Tx<'_> {
    /// Makes a billing account if it is not there.
    pub(crate) fn ensure_account(&self, owner: &str, name: &str) -> StoreResult<()> {
        let insert = "INSERT INTO punctual_billing_accounts (owner, name, virtual_key, created_at)
                      VALUES (?1, ?2, ?3, ?4) ON CONFLICT (owner, name) DO NOTHING";
        let key = virtual_key([Uuid::new_v4().as_u128(), Uuid::new_v4().as_u128()]);
        self.execute(insert, params![owner, name, key, self.now_us()]).map(drop)
    }

    fn begin_execution(&mut self, new: &NewExecution) -> StoreResult<Begun> {
        let by_key = format!("{EXECUTION} WHERE q.key = ?1");
        if let Some(there) = self.one(&by_key, params![new.key], execution)? {
            return Ok(Begun::There(Box::new(there)));
        }
        let grant = self.find_grant(new.grant_id)?;
        let (grant, left) = match (new.allowed_by(grant.as_ref(), self.now), grant) {
            (Ok(left), Some(grant)) => (grant, left),
            (Err(bounded), _) => return Ok(bounded.into()),
            (Ok(_), None) => return Err(StoreError::Internal("a grant that is not there allows nothing".to_owned())),
        };
        self.count_run(grant.id, left.0, left.1)?;
        let bits = self.id_bits();
        let run = GraphRunId::at(self.now, bits);
        self.execute(
            "INSERT INTO punctual_graph_runs (id, graph_id, grant_id, owner, billing_account, input, trace_id, driver,
               started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                run.as_bytes(),
                new.graph.to_string(),
                grant.id.as_bytes(),
                grant.owner,
                grant.billing_account,
                new.input.as_str(),
                new.trace_id,
                new.driver.as_bytes(),
                self.now_us(),
            ],
        )?;
        let insert = "INSERT INTO punctual_execution_requests (key, hash, run_id, service) VALUES (?1, ?2, ?3, ?4)";
        self.execute(insert, params![new.key, new.hash, run.as_bytes(), new.service])?;
        let made = self.one(&by_key, params![new.key], execution)?;
        made.map(|made| Begun::Mine(Box::new(made)))
            .ok_or_else(|| StoreError::Internal("a request was not stored".to_owned()))
    }

    fn end_execution(&mut self, run: GraphRunId, driver: DriverId, end: &GraphEnd, answer: &str) -> StoreResult<bool> {
        let update = "UPDATE punctual_graph_runs SET ended_at = ?3, error_code = ?4, error = ?5, output = ?6,
                      provider_references = ?7 WHERE id = ?1 AND driver = ?2 AND ended_at IS NULL";
        let params = params![
            run.as_bytes(),
            driver.as_bytes(),
            self.now_us(),
            end.failure.as_ref().map(|(code, _)| code.as_str()),
            end.failure.as_ref().map(|(_, words)| storable_text(words)),
            end.output.as_ref().map(Json::as_str),
            document("references", &end.references)?,
        ];
        if self.execute(update, params)? == 0 {
            return Ok(false);
        }
        for used in charged(end) {
            let charge = "INSERT INTO punctual_charge_receipts
                            (run_id, attempt, unit, quantity, owner, billing_account, graph_id, grant_id, charged_at)
                          SELECT id, ?2, ?3, ?4, owner, billing_account, graph_id, grant_id, ?5
                          FROM punctual_graph_runs WHERE id = ?1";
            let quantity = i64::try_from(used.quantity).unwrap_or(i64::MAX);
            self.execute(charge, params![run.as_bytes(), ATTEMPT, used.unit, quantity, self.now_us()])?;
        }
        let keep = "UPDATE punctual_execution_requests SET answer = ?2 WHERE run_id = ?1";
        self.execute(keep, params![run.as_bytes(), answer])?;
        Ok(true)
    }
}

fn execution(row: &Row<'_>) -> Result<Execution, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Execution {
        key: c.next()?,
        hash: c.next()?,
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

fn account(row: &Row<'_>) -> Result<BillingAccount, Unreadable> {
    let mut c = Columns::of(row);
    Ok(BillingAccount { owner: c.next()?, name: c.next()?, virtual_key: c.next()?, created_at: c.time()? })
}
