//! A database as somebody sees it who comes with `psql`, and what a test can do to it.

use super::Database;
use crate::harness::{Faults, RawSql};
use async_trait::async_trait;
use jiff::Timestamp;
use std::sync::Arc;
use tokio::sync::OnceCell;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

/// A second connection, as `psql` has one.
#[derive(Debug)]
pub struct PostgresPrompt {
    database: Arc<Database>,
    client: OnceCell<Client>,
}

impl PostgresPrompt {
    /// A prompt that connects when it is first used.
    pub fn new(database: Arc<Database>) -> Self {
        Self { database, client: OnceCell::new() }
    }

    async fn client(&self) -> &Client {
        self.client.get_or_init(|| self.database.connect()).await
    }

    async fn first(&self, sql: &str) -> Result<Row, String> {
        self.client().await.query_one(sql, &[]).await.map_err(|error| words(&error))
    }
}

#[async_trait]
impl RawSql for PostgresPrompt {
    async fn execute(&self, sql: &str) -> Result<u64, String> {
        self.client().await.execute(sql, &[]).await.map_err(|error| words(&error))
    }

    async fn query_i64(&self, sql: &str) -> Result<Option<i64>, String> {
        self.first(sql).await?.try_get(0).map_err(|error| words(&error))
    }

    async fn query_text(&self, sql: &str) -> Result<Option<String>, String> {
        self.first(sql).await?.try_get(0).map_err(|error| words(&error))
    }

    fn table(&self, name: &str) -> String {
        format!("punctual_internal.{name}")
    }

    fn uuid_literal(&self, id: Uuid) -> String {
        format!("'{id}'::uuid")
    }

    fn time_literal(&self, at: Timestamp) -> String {
        // By the number, because not every spelling of a year is one of PostgreSQL's.
        format!("('epoch'::timestamptz + {} * interval '1 microsecond')", at.as_microsecond())
    }
}

fn words(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

/// Commits that fail: a deferred trigger on every table, which only speaks up at the COMMIT.
#[derive(Debug)]
pub struct PostgresFaults {
    database: Arc<Database>,
}

impl PostgresFaults {
    /// No faults yet.
    pub fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

const REFUSE: &str = "
    CREATE SCHEMA punctual_faults;
    CREATE FUNCTION punctual_faults.refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'the test refuses this commit' USING ERRCODE = 'io_error'; END $$;
    DO $$
    DECLARE
      name text;
    BEGIN
      FOR name IN SELECT relname FROM pg_class
        WHERE relnamespace = 'punctual_internal'::regnamespace AND relkind = 'r'
      LOOP
        EXECUTE format('CREATE CONSTRAINT TRIGGER punctual_faults AFTER INSERT OR UPDATE OR DELETE
          ON punctual_internal.%I DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION punctual_faults.refuse()',
          name);
      END LOOP;
    END $$;
";

#[async_trait]
impl Faults for PostgresFaults {
    async fn refuse_commits(&self, on: bool) {
        let client = self.database.connect().await;
        let sql = if on { REFUSE } else { "DROP SCHEMA punctual_faults CASCADE" };
        client.batch_execute(sql).await.expect("commits can be refused");
    }
}
