//! Flows: their definitions, verb by verb, and what can be read about their runs.

use crate::SqliteStore;
use crate::rows::{self, Columns, Unreadable, document};
use crate::sql;
use crate::tx::{Tx, value};
use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::flow::progress::{Items, StepState};
use punctual_core::flow::{Flow, FlowDefinition, FlowItem, FlowLink, FlowRun, FlowStep, Flows, FlowsAdvanced};
use punctual_core::id::JobId;
use punctual_core::name::{self, Name};
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::{Connection, Row, params};

const FLOW: &str =
    "SELECT name, version, definition, owner, created_at, updated_at FROM punctual_flows WHERE name = ?1";

/// How many of the schedules that use a flow are named.
const USERS_NAMED: i64 = 10;

#[async_trait]
impl Flows for SqliteStore {
    async fn save_flow(
        &self, name: Name, definition: FlowDefinition, owner: Option<String>, if_version: Option<i64>,
    ) -> StoreResult<Flow> {
        definition.validate()?;
        name::check_text("owner", owner.as_deref().unwrap_or_default())?;
        self.write(move |tx| tx.save_flow(&name, &definition, owner.as_deref(), if_version)).await
    }

    async fn flow(&self, name: &str) -> StoreResult<Option<Flow>> {
        let name = name.to_owned();
        self.read(move |connection| Ok(rows::collect(connection, FLOW, params![name], flow)?.pop())).await
    }

    async fn flows(&self, owner: Option<&str>, after: Option<&str>, limit: usize) -> StoreResult<Vec<Flow>> {
        let (owner, after) = (owner.map(str::to_owned), after.unwrap_or_default().to_owned());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(move |connection| match owner {
            Some(owner) => rows::collect(connection, sql::flows_page_of_owner, params![owner, after, limit], flow),
            None => rows::collect(connection, sql::flows_page, params![after, limit], flow),
        })
        .await
    }

    async fn delete_flow(&self, name: &str) -> StoreResult<()> {
        let name = name.to_owned();
        self.write(move |tx| tx.delete_flow(&name)).await
    }

    async fn flow_run(&self, id: JobId) -> StoreResult<Option<FlowRun>> {
        self.read(move |connection| read_flow_run(connection, id)).await
    }

    async fn flow_items(&self, id: JobId, step: usize, after: Option<u32>, limit: usize) -> StoreResult<Vec<FlowItem>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(move |connection| {
            let params = params![id.as_bytes(), step_number(step), after.map_or(-1, i64::from), limit];
            rows::collect(connection, sql::flow_items_page, params, |row| {
                let mut c = Columns::of(row);
                Ok(FlowItem {
                    item: c.next()?,
                    value: c.json()?,
                    job_id: c.optional_id()?,
                    outcome: c.optional_word()?,
                })
            })
        })
        .await
    }

    async fn flow_link(&self, id: JobId) -> StoreResult<Option<FlowLink>> {
        let find = "SELECT j.flow_id, s.name, j.item FROM punctual_flow_jobs AS j
                    JOIN punctual_flow_steps AS s ON s.flow_id = j.flow_id AND s.step = j.step WHERE j.job_id = ?1";
        self.read(move |connection| {
            let found = rows::collect(connection, find, params![id.as_bytes()], |row| {
                let mut c = Columns::of(row);
                Ok(FlowLink { flow_id: c.id()?, step: c.next()?, item: c.next()? })
            });
            Ok(found?.pop())
        })
        .await
    }

    async fn advance_flows(&self, limit: usize) -> StoreResult<FlowsAdvanced> {
        // Most of the time there is nothing to do, and whoever looks need not wait for the writer.
        let now = self.clock.now();
        let due = self.read(move |connection| Ok(!read_stops(connection, now, 1)?.is_empty())).await?;
        let advanced =
            if due { self.write_and_wake(move |tx| tx.advance_flows(limit)).await? } else { FlowsAdvanced::default() };
        let next: Option<i64> =
            self.read(|connection| Ok(rows::collect(connection, sql::next_flow_deadline, [], value)?.pop())).await?;
        let next = next.and_then(|at| Timestamp::from_microsecond(at).ok());
        Ok(FlowsAdvanced { next_in: next.map(|at| at.duration_since(now)), ..advanced })
    }
}

pub(crate) fn step_number(step: usize) -> i64 {
    i64::try_from(step).unwrap_or(i64::MAX)
}

fn flow(row: &Row<'_>) -> Result<Flow, Unreadable> {
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

/// A flow that is to stop, and why: because somebody asked for it, or because its time is over.
pub(crate) fn read_stops(
    connection: &Connection, now: Timestamp, limit: usize,
) -> StoreResult<Vec<(JobId, punctual_core::run::ErrorCode)>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    rows::collect(connection, sql::flows_to_stop, params![now.as_microsecond(), limit], |row| {
        let mut c = Columns::of(row);
        Ok((c.id()?, c.word()?))
    })
}

/// The steps of a flow, in order.
pub(crate) fn read_steps(connection: &Connection, id: JobId, outputs: bool) -> StoreResult<Vec<FlowStep>> {
    rows::collect(connection, sql::flow_steps, params![id.as_bytes(), outputs], |row| {
        let mut c = Columns::of(row);
        let name = c.next()?;
        let (waits, job_id) = (c.next()?, c.optional_id()?);
        let (started_at, ended_at) = (c.optional_time()?, c.optional_time()?);
        let (outcome, error_code, error) = (c.optional_word()?, c.optional_word()?, c.next()?);
        let output = c.optional_json()?;
        let total: Option<u32> = c.next()?;
        let (started, ended, failed) = (c.next()?, c.next()?, c.next()?);
        let items = total.map(|total| Items { total, started, ended, failed });
        let state = StepState { waits, started: started_at.is_some(), job_id, outcome, error_code, error, items };
        Ok(FlowStep { name, state, started_at, ended_at, output })
    })
}

fn read_flow_run(connection: &Connection, id: JobId) -> StoreResult<Option<FlowRun>> {
    let find = "SELECT definition, stopping, started_at, deadline FROM punctual_flow_runs WHERE job_id = ?1";
    let found = rows::collect(connection, find, params![id.as_bytes()], |row| {
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
    let Some(run) = found?.pop() else { return Ok(None) };
    Ok(Some(FlowRun { steps: read_steps(connection, id, true)?, ..run }))
}

impl Tx<'_> {
    pub(crate) fn save_flow(
        &mut self, name: &Name, definition: &FlowDefinition, owner: Option<&str>, if_version: Option<i64>,
    ) -> StoreResult<Flow> {
        let stored = self.stored_flow(name.as_str())?;
        Flow::check_save(stored.as_ref(), name, owner, if_version)?;
        let save = "INSERT INTO punctual_flows (name, version, definition, owner, created_at, updated_at)
                    VALUES (?1, 1, ?2, ?3, ?4, ?4)
                    ON CONFLICT (name) DO UPDATE SET version = version + 1, definition = ?2, updated_at = ?4";
        self.execute(save, params![name.as_str(), document("definition", definition)?, owner, self.now_us()])?;
        let saved = self.stored_flow(name.as_str())?;
        saved.ok_or_else(|| StoreError::Internal("a flow was not stored".to_owned()))
    }

    /// What is stored under a name.
    pub(crate) fn stored_flow(&self, name: &str) -> StoreResult<Option<Flow>> {
        self.one(FLOW, params![name], flow)
    }

    pub(crate) fn delete_flow(&mut self, name: &str) -> StoreResult<()> {
        let users = "SELECT name FROM punctual_schedules
                     WHERE deleted_at IS NULL AND job_type = 'flow' AND target ->> '$.name' = ?1
                       AND target ->> '$.definition' IS NULL
                     ORDER BY name LIMIT ?2";
        let by: Vec<String> = self.all(users, params![name, USERS_NAMED], value)?;
        if !by.is_empty() {
            return Err(StoreError::InUse { what: "flow", name: name.to_owned(), by });
        }
        match self.execute("DELETE FROM punctual_flows WHERE name = ?1", params![name])? {
            0 => Err(StoreError::NotFound { what: "flow", key: name.to_owned() }),
            _ => Ok(()),
        }
    }
}
