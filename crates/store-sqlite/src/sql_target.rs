//! Jobs that run a statement file against a named SQLite database, on a connection of their own.

mod run;

use async_trait::async_trait;
use punctual_core::execute::{Executor, RunContext, stopped};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::FinishedRun;
use punctual_core::target::Target;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The largest statement file.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// A named database of a node.
#[derive(Debug, Clone)]
pub struct StatementConnection {
    /// The database's file; it is never made.
    pub database: PathBuf,
    /// The folder that the statement files are in.
    pub statements: PathBuf,
    /// How long a statement waits for whoever else writes to the file.
    pub lock_timeout: Duration,
}

impl StatementConnection {
    /// A database, and the folder of its statements.
    pub fn new(database: impl Into<PathBuf>, statements: impl Into<PathBuf>) -> Self {
        Self { database: database.into(), statements: statements.into(), lock_timeout: Duration::from_secs(30) }
    }
}

/// Runs statement files on one database.
pub struct StatementExecutor(StatementConnection);

impl StatementExecutor {
    /// For the job type `sql:NAME` of this connection.
    pub fn new(connection: StatementConnection) -> Self {
        Self(connection)
    }
}

/// Why a statement file did not come to its end.
#[derive(Debug)]
struct Failure {
    code: ErrorCode,
    words: String,
}

impl Failure {
    fn new(code: ErrorCode, words: impl Into<String>) -> Self {
        Self { code, words: words.into() }
    }
}

#[async_trait]
impl Executor for StatementExecutor {
    async fn run(&self, run: RunContext) -> FinishedRun {
        let Target::Sql(sql) = &run.job.spec.target else {
            return run.failed(ErrorCode::Internal, "a job of another kind was handed to the SQL executor");
        };
        let Some(statement) = &sql.statement else {
            let why = format!("`{}` is an SQLite database: name a statement file, not a function", sql.connection);
            return run.failed(ErrorCode::TargetRejected, why);
        };
        let text = match read(&self.0.statements, statement) {
            Ok(text) => text,
            Err(failure) => return run.failed(failure.code, failure.words),
        };
        let told = StopFlag::default();
        let (connection, input, flag) = (self.0.clone(), run.job.spec.input.as_str().to_owned(), told.0.clone());
        let mut work = tokio::task::spawn_blocking(move || run::run(&connection, &text, &input, &flag));
        let (end, reason) = tokio::select! {
            biased;
            end = &mut work => (end, None),
            reason = run.stop.requested() => {
                told.0.store(true, Ordering::SeqCst);
                (work.await, Some(reason))
            }
        };
        let end = match end {
            Ok(Ok(output)) => run.completed(Some(output)),
            Ok(Err(failure)) => run.failed(failure.code, failure.words),
            Err(error) => run.failed(ErrorCode::Internal, format!("the statement's thread broke: {error}")),
        };
        match reason {
            Some(reason) if end.outcome != Outcome::Completed => stopped(run.job.id, reason),
            _ => end,
        }
    }
}

/// Tells the thread to stop, at the latest when nobody waits for it any more.
#[derive(Default)]
struct StopFlag(Arc<AtomicBool>);

impl Drop for StopFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Reads a statement file. Neither its name nor a link may lead out of the folder.
fn read(folder: &Path, name: &str) -> Result<String, Failure> {
    let rejected = |why: &str| Failure::new(ErrorCode::TargetRejected, format!("the statement file {name} {why}"));
    let cannot = |error: std::io::Error| {
        Failure::new(ErrorCode::TargetError, format!("the statement file {name} cannot be read: {}", error.kind()))
    };
    if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) || name.contains('\\') {
        return Err(rejected("is not a path inside the folder of statements"));
    }
    if Path::new(name).extension().is_none_or(|extension| extension != "sql") {
        return Err(rejected("does not end with .sql"));
    }
    let folder = folder.canonicalize().map_err(cannot)?;
    let file = folder.join(name).canonicalize().map_err(cannot)?;
    if !file.starts_with(&folder) {
        return Err(rejected("leads out of the folder of statements"));
    }
    let about = file.metadata().map_err(cannot)?;
    if !about.is_file() || about.len() > FILE_MAX_BYTES {
        return Err(rejected("is no file, or too large for one"));
    }
    std::fs::read_to_string(&file).map_err(cannot)
}
