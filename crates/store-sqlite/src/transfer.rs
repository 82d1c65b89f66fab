//! What the store does for a move: rows out and in, in their neutral form, and its own part in it.
//!
//! The statements are made from the list of tables, which is the same for all stores.

use crate::SqliteStore;
use crate::error::store_error;
use crate::rows::{self, Columns, Unreadable};
use crate::tx::{Tx, value};
use async_trait::async_trait;
use punctual_core::freeze::FreezeLevel;
use punctual_core::invalid::Invalid;
use punctual_core::order::POSITION_GAP;
use punctual_core::store::{StoreError, StoreResult};
use punctual_core::transfer::tables::{Column, Kind, NOT_EVERYWHERE, TABLES, Table};
use punctual_core::transfer::{Carried, FIRST_MICROS, Move, MoveStage, Row, Tally, Transfer, Value, in_use, overtaken};
use rusqlite::types::Value as Stored;
use rusqlite::{Connection, params, params_from_iter};
use uuid::Uuid;

#[async_trait]
impl Transfer for SqliteStore {
    fn has(&self, table: &Table) -> bool {
        has(table)
    }

    async fn part_in_move(&self) -> StoreResult<Option<Move>> {
        self.read(read_part).await
    }

    async fn jobs_at_work(&self) -> StoreResult<u64> {
        let count = "SELECT count(*) FROM punctual_running WHERE node_id IS NOT NULL";
        let counted = self.read(move |connection| rows::collect(connection, count, [], |row| Columns::of(row).count()));
        Ok(counted.await?.pop().unwrap_or(0))
    }

    async fn table_in_use(&self) -> StoreResult<Option<&'static str>> {
        self.read(table_in_use).await
    }

    async fn begin_to_leave(&self, part: &Move, why: &str) -> StoreResult<()> {
        let (part, why) = (part.clone(), why.to_owned());
        self.write(move |tx| {
            tx.expect_no_other_move()?;
            tx.execute("UPDATE punctual_moves SET id = 2", [])?;
            tx.note_part(&part)?;
            tx.freeze(FreezeLevel::Starts, &why).map(drop)
        })
        .await
    }

    async fn stop_writing(&self, id: Uuid, why: &str) -> StoreResult<()> {
        let why = why.to_owned();
        self.write(move |tx| {
            tx.expect_part(id, &[MoveStage::Leaving])?;
            tx.freeze(FreezeLevel::Writes, &why).map(drop)
        })
        .await
    }

    async fn begin_to_stay(&self, id: Uuid) -> StoreResult<()> {
        self.write(move |tx| {
            tx.expect_part(id, &[MoveStage::Leaving, MoveStage::Staying])?;
            tx.note_stage(MoveStage::Staying)
        })
        .await
    }

    async fn stay(&self, id: Uuid) -> StoreResult<()> {
        self.write_plans(move |tx| {
            tx.expect_part(id, &[MoveStage::Staying, MoveStage::Arriving])?;
            if !tx.all("SELECT 1 FROM punctual_move_progress LIMIT 1", [], value::<i64>)?.is_empty() {
                return Err(overtaken());
            }
            tx.execute("DELETE FROM punctual_moves WHERE id = 1", [])?;
            tx.execute("UPDATE punctual_moves SET id = 1", [])?;
            tx.thaw()
        })
        .await
    }

    async fn note_left(&self, id: Uuid, why: &str) -> StoreResult<()> {
        let why = why.to_owned();
        self.write(move |tx| {
            tx.expect_part(id, &[MoveStage::Leaving, MoveStage::Staying])?;
            tx.execute("DELETE FROM punctual_moves WHERE id = 2", [])?;
            tx.note_stage(MoveStage::Left)?;
            tx.freeze(FreezeLevel::Writes, &why).map(drop)
        })
        .await
    }

    async fn begin_to_arrive(&self, part: &Move, why: &str) -> StoreResult<()> {
        let (part, why) = (part.clone(), why.to_owned());
        self.write(move |tx| {
            if read_part(tx.connection())?.is_some() {
                return Err(overtaken());
            }
            if let Some(table) = table_in_use(tx.connection())? {
                return Err(in_use(table).into());
            }
            tx.note_part(&part)?;
            tx.execute("DELETE FROM punctual_move_progress", [])?;
            tx.freeze(FreezeLevel::Writes, &why).map(drop)
        })
        .await
    }

    async fn carried(&self) -> StoreResult<Vec<Carried>> {
        let find = "SELECT name, after, rows, sum, whole FROM punctual_move_progress";
        self.read(move |connection| rows::collect(connection, find, [], carried)).await
    }

    async fn take_in(
        &self, id: Uuid, table: &'static Table, rows: Vec<Row>, before: &Carried, after: &Carried,
    ) -> StoreResult<()> {
        let (before, after) = (before.clone(), after.clone());
        self.write(move |tx| {
            tx.expect_part(id, &[MoveStage::Arriving])?;
            tx.take_in(table, rows, &before, &after)
        })
        .await
    }

    async fn refuse_more(&self, id: Uuid, why: &str) -> StoreResult<()> {
        let why = why.to_owned();
        self.write(move |tx| {
            tx.expect_part(id, &[MoveStage::Arriving, MoveStage::Abandoned])?;
            tx.note_stage(MoveStage::Abandoned)?;
            tx.freeze(FreezeLevel::Writes, &why).map(drop)
        })
        .await
    }

    async fn arrive(&self, id: Uuid) -> StoreResult<()> {
        self.write_plans(move |tx| {
            tx.expect_part(id, &[MoveStage::Arriving])?;
            tx.thaw()?;
            tx.arrive()
        })
        .await
    }

    async fn rows_after(&self, table: &'static Table, after: Option<&[Value]>) -> StoreResult<Vec<Row>> {
        let after: Vec<Stored> = after.unwrap_or_default().iter().cloned().map(stored).collect();
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(&page(table, !after.is_empty())).map_err(store_error)?;
            let mut rows = statement.query(params_from_iter(after)).map_err(store_error)?;
            let mut found = Vec::new();
            while let Some(row) = rows.next().map_err(store_error)? {
                found.push(neutral(table, row).map_err(rows::unreadable)?);
            }
            Ok(found)
        })
        .await
    }
}

fn has(table: &Table) -> bool {
    !NOT_EVERYWHERE.contains(&table.name)
}

fn table_in_use(connection: &Connection) -> StoreResult<Option<&'static str>> {
    for table in TABLES.iter().filter(|table| has(table) && !table.seeded) {
        let look = format!("SELECT 1 FROM punctual_{} LIMIT 1", table.name);
        if !rows::collect(connection, &look, [], value::<i64>)?.is_empty() {
            return Ok(Some(table.name));
        }
    }
    Ok(None)
}

fn read_part(connection: &Connection) -> StoreResult<Option<Move>> {
    let find = "SELECT move_id, stage, other, began_at FROM punctual_moves WHERE id = 1";
    let mut found = rows::collect(connection, find, [], |row| {
        let mut c = Columns::of(row);
        Ok(Move { id: c.id()?, stage: c.word()?, other: c.next()?, began_at: c.time()? })
    })?;
    Ok(found.pop())
}

fn carried(row: &rusqlite::Row<'_>) -> Result<Carried, Unreadable> {
    let mut c = Columns::of(row);
    let table = c.next()?;
    let after: Option<String> = c.next()?;
    let after = after.map(|text| serde_json::from_str(&text)).transpose();
    let after = after.map_err(|error| Invalid::new("after", error.to_string()))?;
    let rows = c.count()?;
    let sum: String = c.next()?;
    let sum = u128::from_str_radix(&sum, 16).map_err(|error| Invalid::new("sum", error.to_string()))?;
    Ok(Carried { table, after, tally: Tally { rows, sum }, whole: c.next()? })
}

/// The columns of a table, or its key, for a statement: some of the names mean something in SQL.
fn names(table: &Table, count: usize) -> String {
    let quoted: Vec<String> = table.columns[..count].iter().map(|column| format!("\"{}\"", column.name)).collect();
    quoted.join(", ")
}

fn numbered(count: usize) -> String {
    let marks: Vec<String> = (1..=count).map(|number| format!("?{number}")).collect();
    marks.join(", ")
}

fn page(table: &Table, goes_on: bool) -> String {
    let (columns, key) = (names(table, table.columns.len()), names(table, table.key));
    let after = if goes_on { format!("WHERE ({key}) > ({})", numbered(table.key)) } else { String::new() };
    format!("SELECT {columns} FROM punctual_{} {after} ORDER BY {key} LIMIT {}", table.name, table.page)
}

fn insert(table: &Table) -> String {
    let columns = names(table, table.columns.len());
    let insert = format!("INSERT INTO punctual_{} ({columns}) VALUES ({})", table.name, numbered(table.columns.len()));
    if !table.seeded {
        return insert;
    }
    let rest = table.columns[table.key..].iter();
    let rest: Vec<String> = rest.map(|column| format!("\"{0}\" = excluded.\"{0}\"", column.name)).collect();
    format!("{insert} ON CONFLICT ({}) DO UPDATE SET {}", names(table, table.key), rest.join(", "))
}

fn stored(value: Value) -> Stored {
    match value {
        Value::Null => Stored::Null,
        Value::Number(number) => Stored::Integer(number),
        Value::Text(text) => Stored::Text(text),
        Value::Bytes(bytes) => Stored::Blob(bytes),
    }
}

fn neutral(table: &Table, row: &rusqlite::Row<'_>) -> Result<Row, Unreadable> {
    let mut c = Columns::of(row);
    let of_column = |column: &Column| match c.next::<Stored>()? {
        Stored::Null => Ok(Value::Null),
        Stored::Integer(number) if column.kind == Kind::Time => Ok(Value::Number(number.max(FIRST_MICROS))),
        Stored::Integer(number) => Ok(Value::Number(number)),
        Stored::Text(text) => Ok(Value::Text(text)),
        Stored::Blob(bytes) => Ok(Value::Bytes(bytes)),
        Stored::Real(_) => Err(Invalid::new(column.name, "holds a number that is not whole")),
    };
    table.columns.iter().map(of_column).collect()
}

impl Tx<'_> {
    fn expect_part(&self, id: Uuid, stages: &[MoveStage]) -> StoreResult<()> {
        match read_part(self.connection())? {
            Some(part) if part.id == id && stages.contains(&part.stage) => Ok(()),
            _ => Err(overtaken()),
        }
    }

    fn expect_no_other_move(&self) -> StoreResult<()> {
        if read_part(self.connection())?.is_some_and(|part| part.stage != MoveStage::Arrived) {
            return Err(overtaken());
        }
        match crate::freeze::read_frozen(self.connection())? {
            Some(freeze) => Err(StoreError::Frozen { why: freeze.why }),
            None => Ok(()),
        }
    }

    fn note_part(&self, part: &Move) -> StoreResult<()> {
        let note = "INSERT INTO punctual_moves (id, move_id, stage, other, began_at) VALUES (1, ?1, ?2, ?3, ?4)";
        let Move { id, stage, other, began_at } = part;
        self.execute(note, params![id.as_bytes(), stage.as_str(), other, began_at.as_microsecond()]).map(drop)
    }

    fn note_stage(&self, stage: MoveStage) -> StoreResult<()> {
        self.execute("UPDATE punctual_moves SET stage = ?1 WHERE id = 1", params![stage.as_str()]).map(drop)
    }

    fn take_in(&self, table: &'static Table, rows: Vec<Row>, before: &Carried, after: &Carried) -> StoreResult<()> {
        self.execute("UPDATE punctual_moves SET writing = 1", [])?;
        let insert = insert(table);
        for row in rows {
            self.execute(&insert, params_from_iter(row.into_iter().map(stored)))?;
        }
        self.note_carried(before, after)?;
        self.execute("UPDATE punctual_moves SET writing = 0", []).map(drop)
    }

    fn note_carried(&self, before: &Carried, after: &Carried) -> StoreResult<()> {
        let key = after.after.as_ref().map(serde_json::to_string).transpose();
        let key = key.map_err(|error| StoreError::Internal(error.to_string()))?;
        let count = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
        let note = "INSERT INTO punctual_move_progress AS p (name, after, rows, sum, whole) VALUES (?1, ?2, ?3, ?4, ?5)
                    ON CONFLICT (name) DO UPDATE SET after = excluded.after, rows = excluded.rows, sum = excluded.sum,
                      whole = excluded.whole
                    WHERE p.rows = ?6 AND NOT p.whole";
        let (sum, rows) = (format!("{:032x}", after.tally.sum), count(after.tally.rows));
        let noted = params![after.table, key, rows, sum, after.whole, count(before.tally.rows)];
        if self.execute(note, noted)? == 0 {
            return Err(overtaken());
        }
        Ok(())
    }

    /// What is made from what has come, and nodes that left nothing behind.
    fn arrive(&self) -> StoreResult<()> {
        let positions = "UPDATE punctual_counters SET value = max(value, coalesce((
                           SELECT max(position) FROM (
                             SELECT max(position) AS position FROM punctual_queue
                             UNION ALL SELECT max(position) FROM punctual_running)) / ?1 + 1, 0))
                         WHERE name = 'position'";
        self.execute(positions, [POSITION_GAP])?;
        let leave = "UPDATE punctual_nodes SET left_at = ?1 WHERE id IN (
                       SELECT node_id FROM punctual_leases
                       WHERE lease_id NOT IN (SELECT lease_id FROM punctual_running WHERE lease_id IS NOT NULL))";
        self.execute(leave, [self.now_us()])?;
        let forget = "DELETE FROM punctual_leases
                      WHERE lease_id NOT IN (SELECT lease_id FROM punctual_running WHERE lease_id IS NOT NULL)";
        self.execute(forget, [])?;
        self.execute("DELETE FROM punctual_move_progress", [])?;
        self.note_stage(MoveStage::Arrived)
    }
}
