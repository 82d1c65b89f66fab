//! What runs leave behind: log lines, progress, artifacts with their contents, remembered steps.

use crate::SqliteStore;
use crate::rows::{self, Columns};
use crate::tx::{Tx, value};
use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::closing::storable_text;
use punctual_core::id::JobId;
use punctual_core::job::Artifact;
use punctual_core::json::Json;
use punctual_core::records::{LogChunk, LogLine, Progress, RunRecords, check_step};
use punctual_core::store::{Lease, StoreError, StoreResult};
use rusqlite::{Connection, params};

/// How many chunks are read at a time; a page is seldom more.
const CHUNKS: i64 = 16;

const STEP: &str = "SELECT value FROM punctual_step_memos WHERE root_job_id = ?1 AND step = ?2";

#[async_trait]
impl RunRecords for SqliteStore {
    async fn append_log_if_leased(&self, lease: Lease, chunks: Vec<LogChunk>) -> StoreResult<Vec<bool>> {
        self.write(move |tx| chunks.iter().map(|chunk| tx.append_log(lease, chunk)).collect()).await
    }

    async fn run_log(&self, job: JobId, after: u64, limit: usize) -> StoreResult<Vec<LogLine>> {
        self.read(move |connection| read_log(connection, job, after, limit)).await
    }

    async fn run_progress(&self, job: JobId) -> StoreResult<Option<(Timestamp, Progress)>> {
        self.read(move |connection| read_progress(connection, job)).await
    }

    async fn keep_artifact_if_leased(
        &self, lease: Lease, job: JobId, name: &str, contents: Vec<u8>,
    ) -> StoreResult<Artifact> {
        let artifact = Artifact::of(name, &contents)?;
        self.write(move |tx| {
            tx.add_artifacts(lease, job, std::slice::from_ref(&artifact))?;
            let keep = "INSERT INTO punctual_artifact_contents (job_id, number, contents)
                        SELECT ?1, max(number), ?2 FROM punctual_artifacts WHERE job_id = ?1";
            tx.execute(keep, params![job.as_bytes(), contents])?;
            Ok(artifact)
        })
        .await
    }

    async fn artifact_contents(&self, job: JobId, number: u64) -> StoreResult<Option<Vec<u8>>> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let find = "SELECT contents FROM punctual_artifact_contents WHERE job_id = ?1 AND number = ?2";
        self.read(move |connection| {
            Ok(rows::collect(connection, find, params![job.as_bytes(), number], |row| Columns::of(row).next())?.pop())
        })
        .await
    }

    async fn remember_step_if_leased(&self, lease: Lease, job: JobId, step: &str, value: Json) -> StoreResult<Json> {
        check_step(step)?;
        value.check("step")?;
        let step = step.to_owned();
        self.write(move |tx| tx.remember_step(lease, job, &step, &value)).await
    }

    async fn remembered_step(&self, root_job: JobId, step: &str) -> StoreResult<Option<Json>> {
        let step = step.to_owned();
        self.read(move |connection| {
            Ok(rows::collect(connection, STEP, params![root_job.as_bytes(), step], |row| Columns::of(row).json())?
                .pop())
        })
        .await
    }
}

impl Tx<'_> {
    /// Whether a job is running under a lease.
    pub(crate) fn is_leased(&self, lease: Lease, job: JobId) -> StoreResult<bool> {
        let mine = "SELECT 1 FROM punctual_running WHERE job_id = ?1 AND node_id = ?2 AND lease_id = ?3";
        let params = params![job.as_bytes(), lease.node_id.as_bytes(), lease.lease_id.as_bytes()];
        Ok(self.one(mine, params, value::<i64>)?.is_some())
    }

    fn append_log(&self, lease: Lease, chunk: &LogChunk) -> StoreResult<bool> {
        if !self.is_leased(lease, chunk.job_id)? {
            return Ok(false);
        }
        let job = chunk.job_id.as_bytes();
        if let Some(first) = chunk.first() {
            let first = i64::try_from(first).unwrap_or(i64::MAX);
            let append = "INSERT INTO punctual_run_logs (job_id, sequence, lines) VALUES (?1, ?2, ?3)
                          ON CONFLICT DO NOTHING";
            self.execute(append, params![job, first, chunk.document()])?;
        }
        if let Some(progress) = &chunk.progress {
            let tell = "INSERT INTO punctual_run_progress (job_id, told_at, percent, note) VALUES (?1, ?2, ?3, ?4)
                        ON CONFLICT (job_id) DO UPDATE
                        SET told_at = excluded.told_at, percent = excluded.percent, note = excluded.note";
            let note = storable_text(&progress.note);
            self.execute(tell, params![job, self.now_us(), progress.percent.min(100), note])?;
        }
        Ok(true)
    }

    fn remember_step(&self, lease: Lease, job: JobId, step: &str, value: &Json) -> StoreResult<Json> {
        if !self.is_leased(lease, job)? {
            return Err(StoreError::LostLease);
        }
        let gone = || StoreError::Internal(format!("the job {job} of a running run is gone"));
        let root = self.job(job)?.ok_or_else(gone)?.root_job_id;
        let remember = "INSERT INTO punctual_step_memos (root_job_id, step, value, job_id, remembered_at)
                        VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
        let params = params![root.as_bytes(), step, value.as_str(), job.as_bytes(), self.now_us()];
        self.execute(remember, params)?;
        let kept = self.one(STEP, params![root.as_bytes(), step], |row| Columns::of(row).json())?;
        kept.ok_or_else(|| StoreError::Internal("a step was not remembered".to_owned()))
    }
}

fn read_log(connection: &Connection, job: JobId, after: u64, limit: usize) -> StoreResult<Vec<LogLine>> {
    let mut lines: Vec<LogLine> = Vec::new();
    let mut after = after;
    while lines.len() < limit {
        let behind = i64::try_from(after).unwrap_or(i64::MAX).saturating_add(1);
        let chunks = rows::collect(connection, crate::sql::log_page, params![job.as_bytes(), behind, CHUNKS], |row| {
            let mut c = Columns::of(row);
            let first = c.count()?;
            LogChunk::lines_of(first, &c.next::<String>()?)
        })?;
        let before = lines.len();
        lines.extend(chunks.into_iter().flatten().filter(|line| line.sequence > after));
        if lines.len() == before {
            break;
        }
        after = lines.last().map_or(after, |line| line.sequence);
    }
    lines.truncate(limit);
    Ok(lines)
}

fn read_progress(connection: &Connection, job: JobId) -> StoreResult<Option<(Timestamp, Progress)>> {
    let find = "SELECT told_at, percent, note FROM punctual_run_progress WHERE job_id = ?1";
    let mut found = rows::collect(connection, find, params![job.as_bytes()], |row| {
        let mut c = Columns::of(row);
        Ok((c.time()?, Progress { percent: c.next()?, note: c.next()? }))
    })?;
    Ok(found.pop())
}
