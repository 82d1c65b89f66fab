//! Freezing and thawing: triggers on the tables, which are there only while a freeze is in force.

use crate::SqliteStore;
use crate::error::store_error;
use crate::rows::{self, Columns};
use crate::tx::{Tx, value};
use async_trait::async_trait;
use punctual_core::freeze::{Freeze, FreezeLevel, Freezing};
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::{Connection, params};

/// What the triggers' words begin with, so that they are known again.
const MARK: &str = "punctual is frozen: ";

/// What stays writable: the freeze itself, the move it belongs to, and the schema's own record.
const NEVER_FROZEN: &str = "'punctual_migrations', 'punctual_frozen', 'punctual_moves', 'punctual_move_progress'";

#[async_trait]
impl Freezing for SqliteStore {
    async fn frozen(&self) -> StoreResult<Option<Freeze>> {
        self.read(read_frozen).await
    }

    async fn freeze(&self, level: FreezeLevel, why: &str) -> StoreResult<Freeze> {
        let why = why.to_owned();
        self.write(move |tx| tx.freeze(level, &why)).await
    }

    async fn thaw(&self) -> StoreResult<()> {
        self.write_plans(|tx| {
            tx.thaw()?;
            Ok(())
        })
        .await
    }
}

/// The freeze that is in force.
pub(crate) fn read_frozen(connection: &Connection) -> StoreResult<Option<Freeze>> {
    let find = "SELECT level, why, since FROM punctual_frozen";
    let mut found = rows::collect(connection, find, [], |row| {
        let mut c = Columns::of(row);
        Ok(Freeze { level: c.word()?, why: c.next()?, since: c.time()? })
    })?;
    Ok(found.pop())
}

/// What an error of a trigger means, if it is one of a freeze.
pub(crate) fn frozen_error(error: &rusqlite::Error) -> Option<StoreError> {
    match error {
        rusqlite::Error::SqliteFailure(code, Some(words))
            if code.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_TRIGGER =>
        {
            Some(StoreError::Frozen { why: words.strip_prefix(MARK)?.to_owned() })
        }
        _ => None,
    }
}

impl Tx<'_> {
    /// Freezes, or freezes in another way: the reason is a part of the triggers, and so they are made anew.
    pub(crate) fn freeze(&mut self, level: FreezeLevel, why: &str) -> StoreResult<Freeze> {
        let before = read_frozen(self.connection())?;
        self.thaw()?;
        let why = why.replace('\0', "\u{fffd}");
        let refuse = format!("BEGIN SELECT raise(ABORT, '{}'); END", format!("{MARK}{why}").replace('\'', "''"));
        let triggers = match level {
            FreezeLevel::Starts => format!(
                "CREATE TRIGGER punctual_frozen_running BEFORE INSERT ON punctual_running
                 WHEN NEW.node_id IS NOT NULL {refuse};
                 CREATE TRIGGER punctual_frozen_slots BEFORE INSERT ON punctual_slots
                 WHEN NEW.decision = 'fired' {refuse};"
            ),
            FreezeLevel::Writes => self.against_all_writing(&refuse)?,
        };
        self.connection().execute_batch(&triggers).map_err(store_error)?;
        let since = before.filter(|before| before.level == level).map_or(self.now, |before| before.since);
        let insert = "INSERT INTO punctual_frozen (id, level, why, since) VALUES (1, ?1, ?2, ?3)";
        self.execute(insert, params![level.as_str(), why, since.as_microsecond()])?;
        Ok(Freeze { level, why, since })
    }

    fn against_all_writing(&self, refuse: &str) -> StoreResult<String> {
        let find = format!(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 9) = 'punctual_'
               AND name NOT IN ({NEVER_FROZEN}) ORDER BY name"
        );
        let tables = self.all(&find, [], value::<String>)?;
        let trigger = |table: &String| {
            // Whoever takes rows in by a move says so in its own transaction, which nobody else sees.
            ["INSERT", "UPDATE", "DELETE"].map(|change| {
                format!(
                    "CREATE TRIGGER punctual_frozen_{change}_{table} BEFORE {change} ON {table}
                     WHEN NOT EXISTS (SELECT 1 FROM punctual_moves WHERE writing = 1) {refuse};"
                )
            })
        };
        Ok(tables.iter().flat_map(trigger).collect())
    }

    /// Lets everything go on.
    pub(crate) fn thaw(&mut self) -> StoreResult<()> {
        let find = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND substr(name, 1, 16) = 'punctual_frozen_'";
        for trigger in self.all(find, [], value::<String>)? {
            self.connection().execute_batch(&format!("DROP TRIGGER \"{trigger}\"")).map_err(store_error)?;
        }
        self.execute("DELETE FROM punctual_frozen", []).map(drop)
    }
}
