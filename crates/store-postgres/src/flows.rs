//! Flows: their definitions, verb by verb, and what can be read about their runs.

use crate::PostgresStore;
use crate::error::{Failure, Work};
use crate::params::params;
use crate::rows::{Columns, Unreadable, document, value};
use crate::sql;
use crate::tx::{Tx, in_transaction};
use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::flow::progress::{Items, StepState};
use punctual_core::flow::{Flow, FlowDefinition, FlowItem, FlowLink, FlowRun, FlowStep, Flows, FlowsAdvanced};
use punctual_core::id::JobId;
use punctual_core::name::{self, Name};
use punctual_core::run::ErrorCode;
use punctual_core::store::{StoreError, StoreResult};
use tokio_postgres::Row;

const FLOW: &str = "SELECT name, version, definition::text, owner, created_at, updated_at
    FROM punctual_internal.flows WHERE name = $1";

/// How many of the schedules that use a flow are named.
const USERS_NAMED: i64 = 10;

#[async_trait]
impl Flows for PostgresStore {
    async fn save_flow(
        &self, name: Name, definition: FlowDefinition, owner: Option<String>, if_version: Option<i64>,
    ) -> StoreResult<Flow> {
        definition.validate()?;
        name::check_text("owner", owner.as_deref().unwrap_or_default())?;
        in_transaction!(&self.shared, |tx| tx.save_flow(&name, &definition, owner.as_deref(), if_version))
    }

    async fn flow(&self, name: &str) -> StoreResult<Option<Flow>> {
        Ok(self.shared.read(FLOW, params![name], flow).await?.pop())
    }

    async fn flows(&self, owner: Option<&str>, after: Option<&str>, limit: usize) -> StoreResult<Vec<Flow>> {
        let (after, limit) = (after.unwrap_or_default(), crate::params::limit(limit));
        Ok(match owner {
            Some(owner) => self.shared.read(sql::flows_page_of_owner, params![owner, after, limit], flow).await?,
            None => self.shared.read(sql::flows_page, params![after, limit], flow).await?,
        })
    }

    async fn delete_flow(&self, name: &str) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.delete_flow(name))
    }

    async fn flow_run(&self, id: JobId) -> StoreResult<Option<FlowRun>> {
        let find = "SELECT definition::text, stopping, started_at, deadline FROM punctual_internal.flow_runs
                    WHERE job_id = $1";
        let found = self.shared.read(find, params![id.0], |row| {
            let mut c = Columns::of(row);
            Ok(FlowRun {
                job_id: id,
                definition: c.document("definition")?,
                stopping: c.optional_word()?,
                started_at: c.time()?,
                deadline: c.optional_time()?,
                steps: Vec::new(),
            })
        });
        let Some(run) = found.await?.pop() else { return Ok(None) };
        let steps = self.shared.read(sql::flow_steps, params![id.0, true], flow_step).await?;
        Ok(Some(FlowRun { steps, ..run }))
    }

    async fn flow_items(&self, id: JobId, step: usize, after: Option<u32>, limit: usize) -> StoreResult<Vec<FlowItem>> {
        let after = after.map_or(-1, |after| i32::try_from(after).unwrap_or(i32::MAX));
        let params = params![id.0, step_number(step), after, crate::params::limit(limit)];
        let items = self.shared.read(sql::flow_items_page, params, |row| {
            let mut c = Columns::of(row);
            Ok(FlowItem { item: c.small()?, value: c.json()?, job_id: c.optional_id()?, outcome: c.optional_word()? })
        });
        Ok(items.await?)
    }

    async fn flow_link(&self, id: JobId) -> StoreResult<Option<FlowLink>> {
        let find = "SELECT j.flow_id, s.name, j.item FROM punctual_internal.flow_jobs AS j
                    JOIN punctual_internal.flow_steps AS s ON s.flow_id = j.flow_id AND s.step = j.step
                    WHERE j.job_id = $1";
        let found = self.shared.read(find, params![id.0], |row| {
            let mut c = Columns::of(row);
            Ok(FlowLink { flow_id: c.id()?, step: c.next()?, item: small(&mut c)? })
        });
        Ok(found.await?.pop())
    }

    async fn advance_flows(&self, limit: usize) -> StoreResult<FlowsAdvanced> {
        let params = params![self.shared.turned(), crate::params::limit(limit)];
        let due = self.shared.read(sql::flows_to_stop, params, |row| {
            let mut c = Columns::of(row);
            Ok((c.id::<JobId>()?, c.word::<ErrorCode>()?))
        });
        let mut advanced = FlowsAdvanced::default();
        for (id, code) in due.await? {
            let stopped = in_transaction!(&self.shared, Plans | tx | tx.stop_flow(id, code))?;
            match code {
                ErrorCode::Timeout => advanced.expired += usize::from(stopped),
                _ => advanced.stopped += usize::from(stopped),
            }
        }
        let next = self.shared.read(sql::next_flow_deadline, params![self.shared.turned()], value::<i64>).await?.pop();
        Ok(FlowsAdvanced { next_in: next.map(SignedDuration::from_micros), ..advanced })
    }
}

pub(crate) fn step_number(step: usize) -> i32 {
    i32::try_from(step).unwrap_or(i32::MAX)
}

/// A small number that may be absent.
pub(crate) fn small(c: &mut Columns<'_>) -> Result<Option<u32>, Unreadable> {
    Ok(c.next::<Option<i32>>()?.and_then(|number| u32::try_from(number).ok()))
}

fn flow(row: &Row) -> Result<Flow, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Flow {
        name: Name::new(c.next::<String>()?)?,
        version: c.next()?,
        definition: c.document("definition")?,
        owner: c.next()?,
        created_at: c.time()?,
        updated_at: c.time()?,
    })
}

/// A row of `flow_steps`.
pub(crate) fn flow_step(row: &Row) -> Result<FlowStep, Unreadable> {
    let mut c = Columns::of(row);
    let name = c.next()?;
    let (waits, job_id) = (c.small()?, c.optional_id()?);
    let (started_at, ended_at) = (c.optional_time()?, c.optional_time()?);
    let (outcome, error_code, error) = (c.optional_word()?, c.optional_word()?, c.next()?);
    let output = c.optional_json()?;
    let total = small(&mut c)?;
    let (started, ended, failed) = (c.small()?, c.small()?, c.small()?);
    let items = total.map(|total| Items { total, started, ended, failed });
    let state = StepState { waits, started: started_at.is_some(), job_id, outcome, error_code, error, items };
    Ok(FlowStep { name, state, started_at, ended_at, output })
}

impl Tx<'_> {
    pub(crate) async fn save_flow(
        &mut self, name: &Name, definition: &FlowDefinition, owner: Option<&str>, if_version: Option<i64>,
    ) -> Work<Flow> {
        // Two that store the same new name at once meet at the name itself; the second one looks again.
        let stored = self.locked_flow(name.as_str()).await?;
        Flow::check_save(stored.as_ref(), name, owner, if_version)?;
        let text = document("definition", definition)?;
        if stored.is_none() {
            let insert =
                "INSERT INTO punctual_internal.flows (name, version, definition, owner, created_at, updated_at)
                          VALUES ($1, 1, $2::text::json, $3, $4, $4) ON CONFLICT (name) DO NOTHING";
            if self.execute(insert, params![name.as_str(), text, owner, self.at()]).await? == 0 {
                return Err(StoreError::Unavailable("somebody stored a flow of this name just now".to_owned()).into());
            }
        } else {
            let update = "UPDATE punctual_internal.flows
                          SET version = version + 1, definition = $2::text::json, updated_at = $3 WHERE name = $1";
            self.execute(update, params![name.as_str(), text, self.at()]).await?;
        }
        let saved = self.one(FLOW, params![name.as_str()], flow).await?;
        saved.ok_or_else(|| Failure::internal("a flow was not stored"))
    }

    /// What is stored under a name; nobody else changes it before this is over.
    pub(crate) async fn locked_flow(&self, name: &str) -> Work<Option<Flow>> {
        self.one(&format!("{FLOW} FOR UPDATE"), params![name], flow).await
    }

    /// The definition that is stored under a name.
    pub(crate) async fn stored_flow(&self, name: &str) -> Work<Option<FlowDefinition>> {
        Ok(self.one(FLOW, params![name], flow).await?.map(|flow| flow.definition))
    }

    pub(crate) async fn delete_flow(&mut self, name: &str) -> Work<()> {
        let users = "SELECT name FROM punctual_internal.schedules
                     WHERE deleted_at IS NULL AND job_type = 'flow' AND target ->> 'name' = $1
                       AND target ->> 'definition' IS NULL
                     ORDER BY name LIMIT $2";
        let by: Vec<String> = self.all(users, params![name, USERS_NAMED], value).await?;
        if !by.is_empty() {
            return Err(StoreError::InUse { what: "flow", name: name.to_owned(), by }.into());
        }
        match self.execute("DELETE FROM punctual_internal.flows WHERE name = $1", params![name]).await? {
            0 => Err(StoreError::NotFound { what: "flow", key: name.to_owned() }.into()),
            _ => Ok(()),
        }
    }
}
