//! A store that real processes share, on SQLite or PostgreSQL, and a file in which every command says that it ran.

use punctual_core::id::JobId;
use punctual_core::job::JobState;
use punctual_core::store::Store;
use punctual_core::target::{Command, Target};
use punctual_testkit::postgres::Database;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Makes one test for each store.
macro_rules! on_both_stores {
    ($($(#[$doc:meta])* async fn $name:ident($world:ident: &World) $body:block)+) => { $(
        $(#[$doc])*
        mod $name {
            use super::*;

            async fn case($world: &World) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                case(&World::on_sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                case(&World::on_postgres().await).await;
            }
        }
    )+ };
}

pub(crate) use on_both_stores;

/// The data, as somebody sees it who goes round the store.
enum Data {
    File(PathBuf),
    Database(Database),
}

pub struct World {
    pub store: Arc<dyn Store>,
    pub url: String,
    data: Data,
    effects: PathBuf,
    _folder: tempfile::TempDir,
}

impl World {
    pub async fn on_sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shared.db");
        Self::new(format!("sqlite:{}", file.display()), Data::File(file), folder).await
    }

    pub async fn on_postgres() -> Self {
        let database = Database::empty().await;
        Self::new(database.url(), Data::Database(database), tempfile::tempdir().unwrap()).await
    }

    async fn new(url: String, data: Data, folder: tempfile::TempDir) -> Self {
        let store = punctual::open(&url).await.unwrap();
        Self { store, url, data, effects: folder.path().join("effects"), _folder: folder }
    }

    /// A command that takes a moment, and leaves one line in the end: appended in one write, so lines never mix.
    pub fn target(&self) -> Target {
        let script = "sleep 0.02; echo \"$PUNCTUAL_JOB_ID\" >> \"$EFFECTS\"";
        Target::Command(Command {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            env: BTreeMap::from([("EFFECTS".to_owned(), self.effects.display().to_string().into())]),
            ..Command::default()
        })
    }

    /// How often each job had its effect.
    pub fn effects(&self) -> BTreeMap<JobId, usize> {
        let mut counts = BTreeMap::new();
        for line in std::fs::read_to_string(&self.effects).unwrap_or_default().lines() {
            *counts.entry(line.parse().unwrap()).or_default() += 1;
        }
        counts
    }

    /// The answer to a question whose tables are written `{name}`.
    pub async fn number(&self, sql: &str) -> i64 {
        match &self.data {
            Data::File(file) => {
                let connection = rusqlite::Connection::open(file).unwrap();
                connection.busy_timeout(Duration::from_secs(30)).unwrap();
                connection.query_row(&self.tables(sql), [], |row| row.get(0)).unwrap()
            }
            Data::Database(database) => {
                database.connect().await.query_one(&self.tables(sql), &[]).await.unwrap().get(0)
            }
        }
    }

    fn tables(&self, sql: &str) -> String {
        let prefix = match self.data {
            Data::File(_) => "punctual_",
            Data::Database(_) => "punctual_internal.",
        };
        sql.replace('{', prefix).replace('}', "")
    }

    /// Every job that exists, with its state.
    pub async fn all_jobs(&self) -> BTreeMap<JobId, JobState> {
        let ids: Vec<String> = match &self.data {
            Data::File(file) => {
                let connection = rusqlite::Connection::open(file).unwrap();
                let mut statement = connection.prepare("SELECT hex(id) FROM punctual_jobs").unwrap();
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            }
            Data::Database(database) => {
                let rows = database.connect().await.query("SELECT id::text FROM punctual_internal.jobs", &[]).await;
                rows.unwrap().iter().map(|row| row.get(0)).collect()
            }
        };
        let mut states = BTreeMap::new();
        for id in ids.iter().map(|id| id.parse::<JobId>().unwrap()) {
            states.insert(id, self.store.job(id).await.unwrap().unwrap().state());
        }
        states
    }

    /// Whether nobody is in the middle of a transaction: one that is stopped there holds its locks, and on SQLite the
    /// whole file.
    pub async fn nobody_writes(&self) -> bool {
        match &self.data {
            Data::File(file) => {
                let connection = rusqlite::Connection::open(file).unwrap();
                connection.busy_timeout(Duration::from_millis(100)).unwrap();
                connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
            }
            Data::Database(_) => {
                let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                            AND pid <> pg_backend_pid() AND state <> 'idle'";
                self.number(open).await == 0
            }
        }
    }
}
