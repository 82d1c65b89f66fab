//! Fills a store with what would take long to make one by one: a history, and schedules.

use crate::load::Outcome;
use jiff::Timestamp;
use punctual_testkit::postgres::Database;
use rusqlite::params;
use std::path::Path;
use std::time::Duration;
use tokio_postgres::Client;

/// Rows in one transaction.
const CHUNK: i64 = 100_000;
/// Schedules that are due are numbered from here, apart from those that are not.
const FIRST_DUE: i64 = 1_000_000_000;
const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 24 * HOUR_US;

/// Finished jobs with their runs, numbered $1 to $2.
const HISTORY: &str = "WITH made AS (
    INSERT INTO punctual_internal.jobs (id, created_at, lane_id, priority, target, input, retry, timeout_us, trigger)
    SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid,
           now(), (SELECT min(id) FROM punctual_internal.lanes), 0, '{\"kind\":\"task\",\"name\":\"noop\"}', '{}', '{}',
           3600000000, 'api'
    FROM generate_series($1::bigint, $2::bigint) AS n RETURNING id)
  INSERT INTO punctual_internal.runs (job_id, node_id, started_at, finished_at, final, outcome)
  SELECT id, '00000000-0000-4000-8000-000000000000', now(), now(), true, 'completed' FROM made";

/// Schedules numbered $1 to $2, named $3, with the cron expression $4, next due at $5, made at $6 (in microseconds).
const SCHEDULES: &str = "WITH made AS (
    INSERT INTO punctual_internal.schedules (id, name, cron, target, seed, anchor_at, created_at, updated_at)
    SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, $3::text || n, $4::text,
           '{\"kind\":\"task\",\"name\":\"noop\"}', 'filler', made_at, made_at, made_at
    FROM generate_series($1::bigint, $2::bigint) AS n,
         (SELECT 'epoch'::timestamptz + $6::bigint * interval '1 microsecond') AS m (made_at) RETURNING id)
  INSERT INTO punctual_internal.schedule_state (schedule_id, next_slot_at, next_run_at)
  SELECT id, due_at, due_at FROM made, (SELECT 'epoch'::timestamptz + $5::bigint * interval '1 microsecond') AS d (due_at)";

/// The same for SQLite, one statement for each table.
const SQLITE_JOBS: &str = "WITH RECURSIVE series (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM series WHERE n < ?2)
  INSERT INTO punctual_jobs (id, created_at, lane_id, priority, target, input, retry, timeout_us, trigger)
  SELECT unhex(printf('%012x70008000%012x', ?3 / 1000, n)), ?3, (SELECT min(id) FROM punctual_lanes), 0,
         '{\"kind\":\"task\",\"name\":\"noop\"}', '{}', '{}', 3600000000, 'api' FROM series";
const SQLITE_RUNS: &str = "WITH RECURSIVE series (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM series WHERE n < ?2)
  INSERT INTO punctual_runs (job_id, node_id, started_at, finished_at, outcome, final)
  SELECT unhex(printf('%012x70008000%012x', ?3 / 1000, n)), zeroblob(16), ?3, ?3, 'completed', 1 FROM series";
const SQLITE_SCHEDULES: &str = "WITH RECURSIVE series (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM series WHERE n < ?2)
  INSERT INTO punctual_schedules (id, name, cron, target, seed, anchor_at, created_at, updated_at)
  SELECT unhex(printf('00000000000040008000%012x', n)), ?3 || n, ?4, '{\"kind\":\"task\",\"name\":\"noop\"}', 'filler', ?5, ?5, ?5
  FROM series";
const SQLITE_PLANS: &str = "WITH RECURSIVE series (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM series WHERE n < ?2)
  INSERT INTO punctual_schedule_state (schedule_id, next_slot_at, next_run_at)
  SELECT unhex(printf('00000000000040008000%012x', n)), ?3, ?3 FROM series";

/// A connection of its own to the database of a store that has made its tables, and the lane of its first job.
pub enum Filler {
    Postgres(Client),
    Sqlite(rusqlite::Connection),
}

/// What the tables hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub jobs: i64,
    pub runs: i64,
    pub queued: i64,
    pub running: i64,
}

impl Filler {
    /// Beside the store on a server.
    pub async fn of_postgres(database: &Database) -> Self {
        Self::Postgres(database.connect().await)
    }

    /// Beside the store on a file.
    pub fn of_sqlite(path: &Path) -> Outcome<Self> {
        let connection = rusqlite::Connection::open(path)?;
        connection.busy_timeout(Duration::from_mins(1))?;
        Ok(Self::Sqlite(connection))
    }

    /// Makes finished jobs with the numbers from `first` to `last`.
    pub async fn history(&self, first: i64, last: i64) -> Outcome<()> {
        for (from, to) in chunks(first, last) {
            match self {
                Self::Postgres(client) => _ = client.execute(HISTORY, &[&from, &to]).await?,
                Self::Sqlite(connection) => {
                    let now_us = Timestamp::now().as_microsecond();
                    connection.execute_batch("BEGIN IMMEDIATE")?;
                    connection.execute(SQLITE_JOBS, params![from, to, now_us])?;
                    connection.execute(SQLITE_RUNS, params![from, to, now_us])?;
                    connection.execute_batch("COMMIT")?;
                }
            }
        }
        Ok(())
    }

    /// Makes schedules that have nothing to do before tomorrow.
    pub async fn schedules(&self, first: i64, last: i64) -> Outcome<()> {
        let now_us = Timestamp::now().as_microsecond();
        let tomorrow_us = now_us - now_us % DAY_US + 2 * DAY_US;
        self.make_schedules((first, last), ("filler ", "0 0 * * *"), (tomorrow_us, now_us)).await
    }

    /// Makes schedules whose last slot has not been fired.
    pub async fn due_schedules(&self, first: i64, last: i64) -> Outcome<()> {
        let now_us = Timestamp::now().as_microsecond();
        let slot_us = now_us - now_us % HOUR_US;
        let numbers = (FIRST_DUE + first, FIRST_DUE + last);
        self.make_schedules(numbers, ("due ", "0 * * * *"), (slot_us, slot_us - HOUR_US)).await
    }

    async fn make_schedules(
        &self, (first, last): (i64, i64), (name, cron): (&str, &str), (due_us, made_us): (i64, i64),
    ) -> Outcome<()> {
        for (from, to) in chunks(first, last) {
            match self {
                Self::Postgres(client) => {
                    client.execute(SCHEDULES, &[&from, &to, &name, &cron, &due_us, &made_us]).await?;
                }
                Self::Sqlite(connection) => {
                    connection.execute_batch("BEGIN IMMEDIATE")?;
                    connection.execute(SQLITE_SCHEDULES, params![from, to, name, cron, made_us])?;
                    connection.execute(SQLITE_PLANS, params![from, to, due_us])?;
                    connection.execute_batch("COMMIT")?;
                }
            }
        }
        Ok(())
    }

    /// Lets the database do at once what it would do by itself some time later: PostgreSQL learns what it holds, SQLite
    /// empties its log.
    pub async fn settle(&self) -> Outcome<()> {
        match self {
            Self::Postgres(client) => client.batch_execute("VACUUM (ANALYZE)").await?,
            Self::Sqlite(connection) => connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?,
        }
        Ok(())
    }

    /// Counts.
    pub async fn held(&self) -> Outcome<Held> {
        let schema = if matches!(self, Self::Postgres(_)) { "punctual_internal." } else { "punctual_" };
        let mut found = Vec::new();
        for table in ["jobs", "runs", "queue", "running"] {
            let sql = format!("SELECT count(*) FROM {schema}{table}");
            found.push(match self {
                Self::Postgres(client) => client.query_one(&sql, &[]).await?.get::<_, i64>(0),
                Self::Sqlite(connection) => connection.query_row(&sql, [], |row| row.get(0))?,
            });
        }
        let [jobs, runs, queued, running] = found[..] else { return Err("four tables were counted".into()) };
        Ok(Held { jobs, runs, queued, running })
    }
}

fn chunks(first: i64, last: i64) -> impl Iterator<Item = (i64, i64)> {
    let mut from = first;
    std::iter::from_fn(move || {
        let to = last.min(from + CHUNK - 1);
        let chunk = (from <= to).then_some((from, to));
        from = to + 1;
        chunk
    })
}
