//! What runs leave behind: log lines, progress, artifacts with their contents, remembered steps.

use crate::error::Work;
use crate::params::{params, time};
use crate::rows::{self, Columns};
use crate::session::Session;
use crate::tx::{Tx, in_transaction, unknown_outcome};
use crate::{PostgresStore, Shared, sql};
use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::closing::storable_text;
use punctual_core::id::JobId;
use punctual_core::job::Artifact;
use punctual_core::json::Json;
use punctual_core::records::{LogChunk, LogLine, Progress, RunRecords, check_step};
use punctual_core::store::{Lease, StoreError, StoreResult};
use std::collections::{HashMap, HashSet};

/// How many chunks are read at a time; a page is seldom more.
const CHUNKS: i64 = 16;

const STEP: &str = "SELECT value::text FROM punctual_internal.step_memos WHERE root_job_id = $1 AND step = $2";

#[async_trait]
impl RunRecords for PostgresStore {
    async fn append_log_if_leased(&self, lease: Lease, chunks: Vec<LogChunk>) -> StoreResult<Vec<bool>> {
        append_log(&self.shared, lease, &chunks).await
    }

    async fn run_log(&self, job: JobId, after: u64, limit: usize) -> StoreResult<Vec<LogLine>> {
        Ok(read_log(&self.shared.session().await?, job, after, limit).await?)
    }

    async fn run_progress(&self, job: JobId) -> StoreResult<Option<(Timestamp, Progress)>> {
        Ok(read_progress(&self.shared.session().await?, job).await?)
    }

    async fn keep_artifact_if_leased(
        &self, lease: Lease, job: JobId, name: &str, contents: Vec<u8>,
    ) -> StoreResult<Artifact> {
        let artifact = Artifact::of(name, &contents)?;
        in_transaction!(&self.shared, |tx| tx.keep_artifact(lease, job, &artifact, &contents))?;
        Ok(artifact)
    }

    async fn artifact_contents(&self, job: JobId, number: u64) -> StoreResult<Option<Vec<u8>>> {
        Ok(read_contents(&self.shared.session().await?, job, number).await?)
    }

    async fn remember_step_if_leased(&self, lease: Lease, job: JobId, step: &str, value: Json) -> StoreResult<Json> {
        check_step(step)?;
        value.check("step")?;
        in_transaction!(&self.shared, |tx| tx.remember_step(lease, job, step, &value))
    }

    async fn remembered_step(&self, root_job: JobId, step: &str) -> StoreResult<Option<Json>> {
        Ok(read_step(&self.shared.session().await?, root_job, step).await?)
    }
}

/// One statement for a batch. A run has one row in it, because one statement cannot change a row twice.
async fn append_log(shared: &Shared, lease: Lease, chunks: &[LogChunk]) -> StoreResult<Vec<bool>> {
    if chunks.is_empty() {
        return Ok(Vec::new());
    }
    let latest: HashMap<JobId, usize> = chunks
        .iter()
        .enumerate()
        .filter(|(_, chunk)| chunk.progress.is_some())
        .map(|(at, chunk)| (chunk.job_id, at))
        .collect();
    let progress = |at: usize| chunks[at].progress.as_ref().filter(|_| latest.get(&chunks[at].job_id) == Some(&at));
    let number = |first: u64| i64::try_from(first).unwrap_or(i64::MAX);
    let params = params![
        shared.turned_time().map(time),
        lease.node_id.0,
        lease.lease_id.0,
        chunks.iter().map(|chunk| chunk.job_id.0).collect::<Vec<_>>(),
        chunks.iter().map(|chunk| chunk.first().map(number)).collect::<Vec<_>>(),
        chunks.iter().map(LogChunk::document).collect::<Vec<_>>(),
        (0..chunks.len()).map(|at| progress(at).map(|it| i32::from(it.percent.min(100)))).collect::<Vec<_>>(),
        (0..chunks.len()).map(|at| progress(at).map(|it| storable_text(&it.note))).collect::<Vec<_>>(),
    ];
    let session = shared.session().await?;
    let answer = session.rows(sql::append_log, &params).await.map_err(|error| unknown_outcome(&error))?;
    let held: HashSet<JobId> = rows::collect(&answer, |row| Columns::of(row).id())?.into_iter().collect();
    Ok(chunks.iter().map(|chunk| held.contains(&chunk.job_id)).collect())
}

impl Tx<'_> {
    /// Whether a job is running under a lease; it stays so until this transaction is done.
    pub(crate) async fn hold_run(&self, lease: Lease, job: JobId) -> Work<()> {
        let mine = "SELECT 1 FROM punctual_internal.running
                    WHERE job_id = $1 AND node_id = $2 AND (lease_id = $3) IS TRUE FOR UPDATE";
        let held = self.one(mine, params![job.0, lease.node_id.0, lease.lease_id.0], rows::value::<i32>).await?;
        Ok(held.map(|_| ()).ok_or(StoreError::LostLease)?)
    }

    async fn keep_artifact(&mut self, lease: Lease, job: JobId, artifact: &Artifact, contents: &[u8]) -> Work<()> {
        self.add_artifacts(lease, job, std::slice::from_ref(artifact)).await?;
        let keep = "INSERT INTO punctual_internal.artifact_contents (job_id, number, contents)
                    SELECT $1, max(number), $2 FROM punctual_internal.artifacts WHERE job_id = $1";
        self.execute(keep, params![job.0, contents]).await?;
        Ok(())
    }

    async fn remember_step(&mut self, lease: Lease, job: JobId, step: &str, value: &Json) -> Work<Json> {
        self.hold_run(lease, job).await?;
        let find = "SELECT coalesce(root_job_id, id) FROM punctual_internal.jobs WHERE id = $1";
        let gone = || StoreError::Internal(format!("the job {job} of a running run is gone"));
        let root: JobId = self.one(find, params![job.0], |row| Columns::of(row).id()).await?.ok_or_else(gone)?;
        let remember = "INSERT INTO punctual_internal.step_memos (root_job_id, step, value, job_id, remembered_at)
                        VALUES ($1, $2, $3::text::json, $4, $5) ON CONFLICT DO NOTHING";
        self.execute(remember, params![root.0, step, value.as_str(), job.0, self.at()]).await?;
        let kept = self.one(STEP, params![root.0, step], |row| Columns::of(row).json()).await?;
        Ok(kept.ok_or_else(|| StoreError::Internal("a step was not remembered".to_owned()))?)
    }
}

async fn read_log(session: &Session, job: JobId, after: u64, limit: usize) -> Work<Vec<LogLine>> {
    let mut lines: Vec<LogLine> = Vec::new();
    let mut after = after;
    while lines.len() < limit {
        let behind = i64::try_from(after).unwrap_or(i64::MAX).saturating_add(1);
        let found = session.rows(sql::log_page, &params![job.0, behind, CHUNKS]).await?;
        let chunks = rows::collect(&found, |row| {
            let mut c = Columns::of(row);
            let first = c.count()?;
            LogChunk::lines_of(first, c.next()?)
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

async fn read_progress(session: &Session, job: JobId) -> Work<Option<(Timestamp, Progress)>> {
    let find = "SELECT told_at, percent, note FROM punctual_internal.run_progress WHERE job_id = $1";
    let found = session.rows(find, &params![job.0]).await?;
    let mut progress = rows::collect(&found, |row| {
        let mut c = Columns::of(row);
        Ok((c.time()?, Progress { percent: c.small()?, note: c.next()? }))
    })?;
    Ok(progress.pop())
}

async fn read_contents(session: &Session, job: JobId, number: u64) -> Work<Option<Vec<u8>>> {
    let find = "SELECT contents FROM punctual_internal.artifact_contents WHERE job_id = $1 AND number = $2";
    let found = session.rows(find, &params![job.0, i64::try_from(number).unwrap_or(i64::MAX)]).await?;
    Ok(rows::collect(&found, |row| Columns::of(row).next())?.pop())
}

async fn read_step(session: &Session, root_job: JobId, step: &str) -> Work<Option<Json>> {
    let found = session.rows(STEP, &params![root_job.0, step]).await?;
    Ok(rows::collect(&found, |row| Columns::of(row).json())?.pop())
}
