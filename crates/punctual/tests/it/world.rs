//! A store that real processes share, on SQLite or PostgreSQL, and a file in which every command says that it ran.

use jiff::Timestamp;
use punctual_core::checks::Check;
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob};
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::{Store, StoreError};
use punctual_core::target::{Command, Target};
use punctual_core::timing::TimingSpec;
use punctual_testkit::postgres::Database;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

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

/// A table of one's own takes a copy of a row, whatever columns it has.
const COPY_ON_SQLITE: &str = "
    CREATE TEMP TABLE numbers AS WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < COPIES)
      SELECT n, randomblob(16) AS id FROM n;
    CREATE TEMP TABLE s AS SELECT t.*, numbers.n AS number, numbers.id AS copy FROM {schedules} AS t, numbers;
    UPDATE s SET id = copy, name = name || ' ' || number;
    ALTER TABLE s DROP COLUMN number; ALTER TABLE s DROP COLUMN copy;
    CREATE TEMP TABLE t AS SELECT t.*, numbers.id AS copy FROM {schedule_state} AS t, numbers;
    UPDATE t SET schedule_id = copy;
    ALTER TABLE t DROP COLUMN copy;
    BEGIN IMMEDIATE;
    INSERT INTO {schedules} (COLUMNS) SELECT COLUMNS FROM s;
    INSERT INTO {schedule_state} SELECT * FROM t;
    COMMIT";

const COPY_ON_POSTGRES: &str = "
    CREATE TEMP TABLE numbers AS SELECT n, gen_random_uuid() AS id FROM generate_series(1, COPIES) AS n;
    INSERT INTO {schedules} (COLUMNS) SELECT COPIED FROM {schedules} AS s, numbers AS n,
      LATERAL jsonb_populate_record(s, jsonb_build_object('id', n.id, 'name', s.name || ' ' || n.n)) AS copy;
    INSERT INTO {schedule_state} SELECT copy.* FROM {schedule_state} AS t, numbers AS n,
      LATERAL jsonb_populate_record(t, jsonb_build_object('schedule_id', n.id)) AS copy";

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
        Self::on_database(Database::empty().await).await
    }

    pub async fn on_database(database: Database) -> Self {
        Self::new(database.url(), Data::Database(database), tempfile::tempdir().unwrap()).await
    }

    /// A file in a folder of the test's choice.
    pub async fn on_file(file: PathBuf) -> Self {
        Self::new(format!("sqlite:{}", file.display()), Data::File(file), tempfile::tempdir().unwrap()).await
    }

    async fn new(url: String, data: Data, folder: tempfile::TempDir) -> Self {
        let store = punctual::open(&url).await.unwrap();
        Self { store, url, data, effects: folder.path().join("effects"), _folder: folder }
    }

    /// The same with the lines that jobs leave for another one: those that are moved over from it.
    pub fn with_effects_of(self, other: &Self) -> Self {
        Self { effects: other.effects.clone(), ..self }
    }

    /// The file, on SQLite.
    pub fn file(&self) -> &Path {
        match &self.data {
            Data::File(file) => file,
            Data::Database(_) => panic!("this world has no file"),
        }
    }

    /// The database, on PostgreSQL.
    pub fn database(&self) -> &Database {
        match &self.data {
            Data::File(_) => panic!("this world has no database"),
            Data::Database(database) => database,
        }
    }

    /// How many connections stores have; on SQLite nobody counts them.
    pub async fn connections(&self) -> i64 {
        let all = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name = 'punctual'";
        if matches!(self.data, Data::File(_)) { 0 } else { self.number(all).await }
    }

    /// A command that takes a moment, and leaves one line in the end: appended in one write, so lines never mix.
    pub fn target(&self) -> Target {
        self.script("sleep 0.02; echo \"$PUNCTUAL_JOB_ID\" >> \"$EFFECTS\"")
    }

    /// A shell script that knows where to leave its lines.
    pub fn script(&self, script: &str) -> Target {
        Target::from(Command {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            env: BTreeMap::from([("EFFECTS".to_owned(), self.effects.display().to_string().into())]),
            ..Command::default()
        })
    }

    /// The same with more in its line: the slot, and the time by a clock that is right, in nanoseconds.
    pub fn timed_target(&self) -> Target {
        let script = "echo \"$PUNCTUAL_JOB_ID $PUNCTUAL_SLOT $(date -u +%s%N)\" >> \"$EFFECTS\"";
        self.script(script)
    }

    /// The same with a line at its beginning and one at its end.
    pub fn spanned_target(&self) -> Target {
        self.script(
            "echo \"+$PUNCTUAL_JOB_ID\" >> \"$EFFECTS\"; sleep 0.02; echo \"-$PUNCTUAL_JOB_ID\" >> \"$EFFECTS\"",
        )
    }

    /// The same whose first run never ends by itself: it says whose it is, and waits until that worker is killed.
    pub fn doomed_target(&self, number: usize) -> Target {
        // Between a worker and its command stands a guard, whose parent is the fourth word of what the system says.
        self.script(&format!(
            "echo \"+$PUNCTUAL_JOB_ID\" >> \"$EFFECTS\"
             if mkdir \"$EFFECTS.{number}\" 2>/dev/null; then
               read -r _ _ _ worker _ < /proc/$PPID/stat
               echo \"$worker\" > \"$EFFECTS.{number}/said\" && mv \"$EFFECTS.{number}/said\" \"$EFFECTS.{number}/worker\"
               sleep 600
             fi
             echo \"-$PUNCTUAL_JOB_ID\" >> \"$EFFECTS\""
        ))
    }

    /// Waits until such a run has begun, and tells which process runs it.
    pub async fn until_doomed(&self, number: usize) -> u32 {
        let said = format!("{}.{number}/worker", self.effects.display());
        loop {
            if let Ok(worker) = std::fs::read_to_string(&said) {
                return worker.trim().parse().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Which jobs began (true) and ended, in the order in which they really did.
    pub fn spans(&self) -> Vec<(bool, JobId)> {
        let lines = std::fs::read_to_string(&self.effects).unwrap_or_default();
        lines.lines().map(|line| (line.starts_with('+'), line[1..].parse().unwrap())).collect()
    }

    /// When the job of each slot was run.
    pub fn starts(&self) -> Vec<(Timestamp, Timestamp)> {
        let lines = std::fs::read_to_string(&self.effects).unwrap_or_default();
        let times = lines.lines().filter_map(|line| {
            let [_, slot, at] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
            Some((slot.parse().ok()?, Timestamp::from_nanosecond(at.parse().ok()?).ok()?))
        });
        times.collect()
    }

    /// The lines that commands left, in order.
    pub fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.effects).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// How often each job had its effect.
    pub fn effects(&self) -> BTreeMap<JobId, usize> {
        let mut counts = BTreeMap::new();
        for line in std::fs::read_to_string(&self.effects).unwrap_or_default().lines() {
            let id = line.split(' ').next().unwrap();
            *counts.entry(id.parse().unwrap()).or_default() += 1;
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

    /// Changes something behind the store's back.
    pub async fn execute(&self, sqlite: &str, postgres: &str) {
        match &self.data {
            Data::File(file) => {
                let connection = rusqlite::Connection::open(file).unwrap();
                connection.busy_timeout(Duration::from_secs(30)).unwrap();
                connection.execute(&self.tables(sqlite), []).unwrap();
            }
            Data::Database(database) => {
                database.connect().await.execute(&self.tables(postgres), &[]).await.unwrap();
            }
        }
    }

    /// Copies the one schedule there is, with its state, under other names.
    pub async fn copy_schedules(&self, copies: usize) {
        match &self.data {
            Data::File(file) => {
                let connection = rusqlite::Connection::open(file).unwrap();
                connection.busy_timeout(Duration::from_secs(30)).unwrap();
                // What the database computes by itself cannot be copied.
                let columns =
                    "SELECT group_concat(name) FROM pragma_table_xinfo('punctual_schedules') WHERE hidden = 0";
                let columns: String = connection.query_row(columns, [], |row| row.get(0)).unwrap();
                let script = COPY_ON_SQLITE.replace("COPIES", &copies.to_string()).replace("COLUMNS", &columns);
                connection.execute_batch(&self.tables(&script)).unwrap();
            }
            Data::Database(database) => {
                let client = database.connect().await;
                let columns = "SELECT string_agg(column_name, ','), string_agg('copy.' || column_name, ',')
                               FROM information_schema.columns
                               WHERE table_schema = 'punctual_internal' AND table_name = 'schedules'
                                 AND is_generated = 'NEVER'";
                let columns = client.query_one(columns, &[]).await.unwrap();
                let script = COPY_ON_POSTGRES.replace("COPIES", &copies.to_string());
                let script = script.replace("COLUMNS", columns.get(0)).replace("COPIED", columns.get(1));
                client.batch_execute(&self.tables(&script)).await.unwrap();
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

    /// The first column of a query, which is written for each store.
    pub async fn texts(&self, sqlite: &str, postgres: &str) -> Vec<String> {
        match &self.data {
            Data::File(file) => {
                let connection = rusqlite::Connection::open(file).unwrap();
                connection.busy_timeout(Duration::from_secs(30)).unwrap();
                let mut statement = connection.prepare(&self.tables(sqlite)).unwrap();
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            }
            Data::Database(database) => {
                let rows = database.connect().await.query(&self.tables(postgres), &[]).await;
                rows.unwrap().iter().map(|row| row.get(0)).collect()
            }
        }
    }

    /// Every job that exists, with its state.
    pub async fn all_jobs(&self) -> BTreeMap<JobId, JobState> {
        let ids = self.texts("SELECT hex(id) FROM {jobs}", "SELECT id::text FROM {jobs}").await;
        let mut states = BTreeMap::new();
        for id in ids.iter().map(|id| id.parse::<JobId>().unwrap()) {
            states.insert(id, self.store.job(id).await.unwrap().unwrap().state());
        }
        states
    }

    /// The jobs that are running.
    pub async fn running(&self) -> Vec<JobId> {
        let ids = self.texts("SELECT hex(job_id) FROM {running}", "SELECT job_id::text FROM {running}").await;
        ids.iter().map(|id| id.parse().unwrap()).collect()
    }

    /// How every run ended, as the ledger has it.
    pub async fn record(&self) -> Vec<String> {
        self.texts(
            "SELECT concat_ws(' ', hex(job_id), outcome, error_code, hex(node_id), finished_at, final) FROM {runs}
             ORDER BY job_id",
            "SELECT concat_ws(' ', job_id, outcome, error_code, node_id, finished_at, final) FROM {runs} ORDER BY job_id",
        )
        .await
    }

    /// Schedules that are due every second, each at a moment of its own.
    pub async fn schedule_every_second(&self, count: u32) {
        self.schedule_every_second_with(count, self.target()).await;
    }

    pub async fn schedule_every_second_with(&self, count: u32, target: Target) {
        for n in 0..count {
            let name = Name::new(format!("tick {n}")).unwrap();
            let timing = TimingSpec::cron("@every 1s", "UTC");
            self.store.create_schedule(ScheduleDefinition::new(name, timing, target.clone())).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1) / count).await;
        }
    }

    /// Enqueues jobs, one by one, for as long as there are not many waiting.
    pub fn produce(&self) -> Producer {
        let (store, target) = (Arc::clone(&self.store), self.target());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            while !stopped.load(Ordering::SeqCst) {
                match store.enqueue_jobs(vec![NewJob::new(target.clone())]).await {
                    Ok(made) => acknowledged.extend(made),
                    // Not acknowledged: it may be there or not.
                    Err(StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::Frozen { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                tokio::time::sleep(Duration::from_millis(15)).await;
                let many = async || store.queued_jobs("default", None, 30).await.is_ok_and(|jobs| jobs.len() >= 30);
                while !stopped.load(Ordering::SeqCst) && many().await {
                    tokio::time::sleep(Duration::from_millis(15)).await;
                }
            }
            acknowledged
        });
        Producer { stop, task }
    }

    /// Waits until a number is as wanted.
    pub async fn until(&self, sql: &str, wanted: impl Fn(i64) -> bool) {
        while !wanted(self.number(sql).await) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends all schedules, and waits until nothing is on its way any more.
    pub async fn come_to_rest(&self) {
        for schedule in self.store.schedules(None, 1000).await.unwrap() {
            self.store.pause_schedule(schedule.id, None, None).await.unwrap();
        }
        self.until_open(0).await;
    }

    /// Waits until only so many jobs are waiting or running.
    pub async fn until_open(&self, jobs: i64) {
        let open = "SELECT (SELECT count(*) FROM {queue}) + (SELECT count(*) FROM {delayed})
                         + (SELECT count(*) FROM {running})";
        self.until(open, |open| open == jobs).await;
    }

    /// What must hold once everything has come to rest, whatever happened before.
    pub async fn check(&self, acknowledged: &[JobId]) {
        self.check_but(acknowledged, None).await;
    }

    /// The same where one finding is right.
    pub async fn check_but(&self, acknowledged: &[JobId], right: Option<Check>) {
        let (states, effects) = (self.all_jobs().await, self.effects());
        assert!(acknowledged.iter().all(|id| states.contains_key(id)), "an acknowledged job is gone");
        assert!(states.values().all(|state| state.is_terminal()));
        let twice: Vec<_> = effects.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "a job is executed at most once: {twice:?}");
        for (id, state) in &states {
            if *state == JobState::Completed {
                assert!(effects.contains_key(id), "{id} is recorded as completed and had no effect");
            }
        }
        // Every chain came to a good end: interruptions are not failures, so a retry followed each.
        let ends = "SELECT count(*) FROM {runs} WHERE final AND outcome <> 'completed'";
        assert_eq!(self.number(ends).await, 0);
        self.check_slots().await;
        self.check_file().await;
        let mut findings = self.store.run_checks(100).await.unwrap();
        findings.retain(|finding| Some(finding.check) != right);
        assert_eq!(findings, [], "every invariant holds");
    }

    /// One job for each fired slot, none before its time, and the ledger and the jobs agree.
    async fn check_slots(&self) {
        let fired = self.number("SELECT count(*) FROM {slots} WHERE decision = 'fired'").await;
        let made = self.number("SELECT count(*) FROM {jobs} WHERE slot_at IS NOT NULL AND retry_of IS NULL").await;
        let apart = "SELECT count(*) FROM (SELECT DISTINCT schedule_id, slot_at FROM {jobs}
                                           WHERE slot_at IS NOT NULL AND retry_of IS NULL) AS apart";
        assert!(fired > 0);
        assert_eq!((made, self.number(apart).await), (fired, fired));
        assert_eq!(self.number("SELECT count(*) FROM {slots} WHERE decided_at < slot_at").await, 0, "none is early");
    }

    async fn check_file(&self) {
        if matches!(self.data, Data::File(_)) {
            let whole = "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'";
            assert_eq!(self.number(whole).await, 1, "the file is whole");
        }
    }

    /// Everything that is stored, as text: bytes that are none are shown as hexadecimal digits, too.
    pub async fn dump(&self) -> String {
        match &self.data {
            Data::File(file) => {
                let beside = ["", "-wal", "-journal"].map(|end| format!("{}{end}", file.display()));
                let read = |file: &String| std::fs::read(file).unwrap_or_default();
                beside.iter().map(|file| String::from_utf8_lossy(&read(file)).into_owned()).collect()
            }
            Data::Database(database) => {
                let client = database.connect().await;
                let tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
                              WHERE schemaname IN ('punctual', 'punctual_internal')";
                let mut dump = String::new();
                for table in client.query(tables, &[]).await.unwrap() {
                    let table: String = table.get(0);
                    let rows = format!("SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM {table} AS t");
                    dump.push_str(client.query_one(&rows, &[]).await.unwrap().get(0));
                }
                dump
            }
        }
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

/// Somebody who enqueues jobs until he is told to stop.
pub struct Producer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<JobId>>,
}

impl Producer {
    /// What was acknowledged.
    pub async fn stop(self) -> Vec<JobId> {
        self.stop.store(true, Ordering::SeqCst);
        let acknowledged = self.task.await.unwrap();
        assert!(acknowledged.len() > 20, "only {} jobs were made", acknowledged.len());
        acknowledged
    }
}
