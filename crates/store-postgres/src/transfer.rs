//! What the store does for a move: rows out and in, in their neutral form, and its own part in it.
//!
//! The statements are made from the list of tables, which is the same for all stores.

use crate::PostgresStore;
use crate::error::Work;
use crate::params::{Params, params, time};
use crate::rows::{Columns, Unreadable, value};
use crate::tx::{Tx, in_transaction};
use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::freeze::FreezeLevel;
use punctual_core::id::ScheduleId;
use punctual_core::invalid::Invalid;
use punctual_core::order::POSITION_GAP;
use punctual_core::store::{StoreError, StoreResult};
use punctual_core::transfer::tables::{Column, Kind, TABLES, Table};
use punctual_core::transfer::{Carried, Move, MoveStage, Row, Tally, Transfer, Value, in_use, overtaken};
use std::time::SystemTime;
use uuid::Uuid;

/// What is made from what has come.
const DERIVE: &str = include_str!("../sql/arrive.sql");

/// The store's part in a move.
const PART: &str = "SELECT move_id, stage, other, began_at FROM punctual_internal.moves WHERE id = 1";

/// Rows that are there only to be locked, or name a job that is forgotten: nobody would miss them.
const SIEVES: [(&str, &str); 2] = [
    ("job_keys", "EXISTS (SELECT 1 FROM punctual_internal.jobs AS j WHERE j.id = t.job_id)"),
    ("unique_keys", "t.job_id IS NOT NULL AND t.until_at IS NOT NULL"),
];

#[async_trait]
impl Transfer for PostgresStore {
    fn has(&self, _table: &Table) -> bool {
        true
    }

    async fn part_in_move(&self) -> StoreResult<Option<Move>> {
        Ok(self.shared.read(PART, params![], part).await?.pop())
    }

    async fn jobs_at_work(&self) -> StoreResult<u64> {
        let count = "SELECT count(*) FROM punctual_internal.running WHERE node_id IS NOT NULL";
        Ok(self.shared.read(count, params![], |row| Columns::of(row).count()).await?.pop().unwrap_or(0))
    }

    async fn table_in_use(&self) -> StoreResult<Option<&'static str>> {
        in_transaction!(&self.shared, |tx| tx.table_in_use())
    }

    async fn begin_to_leave(&self, part: &Move, why: &str) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.begin_to_leave(part, why))
    }

    async fn stop_writing(&self, id: Uuid, why: &str) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.stop_writing(id, why))
    }

    async fn begin_to_stay(&self, id: Uuid) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.begin_to_stay(id))
    }

    async fn stay(&self, id: Uuid) -> StoreResult<()> {
        in_transaction!(&self.shared, Plans | tx | tx.stay(id))
    }

    async fn note_left(&self, id: Uuid, why: &str) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.note_left(id, why))
    }

    async fn begin_to_arrive(&self, part: &Move, why: &str) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.begin_to_arrive(part, why))
    }

    async fn carried(&self) -> StoreResult<Vec<Carried>> {
        let find = "SELECT name, after, rows, sum, whole FROM punctual_internal.move_progress";
        Ok(self.shared.read(find, params![], carried).await?)
    }

    async fn take_in(
        &self, id: Uuid, table: &'static Table, rows: Vec<Row>, before: &Carried, after: &Carried,
    ) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.take_in(id, table, &rows, before, after))
    }

    async fn refuse_more(&self, id: Uuid, why: &str) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.refuse_more(id, why))
    }

    async fn arrive(&self, id: Uuid) -> StoreResult<()> {
        in_transaction!(&self.shared, Plans | tx | tx.arrive(id))
    }

    async fn rows_after(&self, table: &'static Table, after: Option<&[Value]>) -> StoreResult<Vec<Row>> {
        let mut params = Params::default();
        for (column, value) in table.columns.iter().zip(after.unwrap_or_default()) {
            params = with_one(params, *column, value)?;
        }
        let page = page(table, after.is_some());
        Ok(self.shared.read(&page, params, |row| neutral(table, row)).await?)
    }
}

fn part(row: &tokio_postgres::Row) -> Result<Move, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Move { id: c.next()?, stage: c.word()?, other: c.next()?, began_at: c.time()? })
}

fn carried(row: &tokio_postgres::Row) -> Result<Carried, Unreadable> {
    let mut c = Columns::of(row);
    let table = c.next()?;
    let after: Option<&str> = c.next()?;
    let after = after.map(serde_json::from_str).transpose();
    let after = after.map_err(|error| Invalid::new("after", error.to_string()))?;
    let rows = c.count()?;
    let sum: &str = c.next()?;
    let sum = u128::from_str_radix(sum, 16).map_err(|error| Invalid::new("sum", error.to_string()))?;
    Ok(Carried { table, after, tally: Tally { rows, sum }, whole: c.next()? })
}

/// The columns of a table, or its key, for a statement: some of the names mean something in SQL.
fn names(columns: &[Column]) -> String {
    let quoted: Vec<String> = columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    quoted.join(", ")
}

fn numbered(count: usize) -> String {
    let marks: Vec<String> = (1..=count).map(|number| format!("${number}")).collect();
    marks.join(", ")
}

fn page(table: &Table, goes_on: bool) -> String {
    let read = |column: &Column| match column.kind {
        Kind::Number => format!("t.\"{}\"::bigint", column.name),
        Kind::Json => format!("t.\"{}\"::text", column.name),
        Kind::Id | Kind::Time | Kind::Flag | Kind::Text | Kind::Bytes | Kind::Tags => format!("t.\"{}\"", column.name),
    };
    let columns: Vec<String> = table.columns.iter().map(read).collect();
    let key = names(&table.columns[..table.key]);
    let sieve = SIEVES.iter().find(|(name, _)| *name == table.name).map_or("true", |(_, sieve)| sieve);
    let after = if goes_on { format!("AND ({key}) > ({})", numbered(table.key)) } else { String::new() };
    format!(
        "SELECT {} FROM punctual_internal.{} AS t WHERE {sieve} {after} ORDER BY {key} LIMIT {}",
        columns.join(", "),
        table.name,
        table.page
    )
}

fn insert(table: &Table) -> String {
    let write = |(at, column): (usize, &Column)| match column.kind {
        Kind::Json => format!("c{at}::json"),
        Kind::Tags => format!("ARRAY(SELECT json_array_elements_text(c{at}::json))"),
        Kind::Id | Kind::Time | Kind::Flag | Kind::Number | Kind::Text | Kind::Bytes => format!("c{at}"),
    };
    let values: Vec<String> = table.columns.iter().enumerate().map(write).collect();
    let given: Vec<String> = (0..table.columns.len()).map(|at| format!("c{at}")).collect();
    let insert = format!(
        "INSERT INTO punctual_internal.{} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM unnest({}) AS r ({})",
        table.name,
        names(table.columns),
        values.join(", "),
        numbered(table.columns.len()),
        given.join(", ")
    );
    if !table.seeded {
        return insert;
    }
    let rest = table.columns[table.key..].iter();
    let rest: Vec<String> = rest.map(|column| format!("\"{0}\" = excluded.\"{0}\"", column.name)).collect();
    format!("{insert} ON CONFLICT ({}) DO UPDATE SET {}", names(&table.columns[..table.key]), rest.join(", "))
}

fn odd(column: Column) -> Invalid {
    Invalid::new(column.name, format!("does not hold what a column of its kind holds ({:?})", column.kind))
}

fn number(column: Column, value: &Value) -> Result<Option<i64>, Invalid> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => Ok(Some(*number)),
        Value::Text(_) | Value::Bytes(_) => Err(odd(column)),
    }
}

fn instant(column: Column, value: &Value) -> Result<Option<SystemTime>, Invalid> {
    let at = number(column, value)?.map(Timestamp::from_microsecond).transpose();
    Ok(at.map_err(|error| Invalid::new(column.name, error.to_string()))?.map(time))
}

fn text(column: Column, value: &Value) -> Result<Option<&str>, Invalid> {
    match value {
        Value::Null => Ok(None),
        Value::Text(text) => Ok(Some(text)),
        Value::Number(_) | Value::Bytes(_) => Err(odd(column)),
    }
}

fn bytes(column: Column, value: &Value) -> Result<Option<&[u8]>, Invalid> {
    match value {
        Value::Null => Ok(None),
        Value::Bytes(bytes) => Ok(Some(bytes)),
        Value::Number(_) | Value::Text(_) => Err(odd(column)),
    }
}

fn id(column: Column, value: &Value) -> Result<Option<Uuid>, Invalid> {
    bytes(column, value)?.map(Uuid::from_slice).transpose().map_err(|_| odd(column))
}

/// One value of a key.
fn with_one<'a>(params: Params<'a>, column: Column, value: &'a Value) -> Result<Params<'a>, Invalid> {
    Ok(match column.kind {
        Kind::Id => params.with(id(column, value)?),
        Kind::Time => params.with(instant(column, value)?),
        Kind::Flag => params.with(number(column, value)?.map(|flag| flag != 0)),
        Kind::Number => params.with(number(column, value)?),
        Kind::Text | Kind::Json | Kind::Tags => params.with(text(column, value)?),
        Kind::Bytes => params.with(bytes(column, value)?),
    })
}

/// One column of many rows.
fn with_column<'a>(params: Params<'a>, column: Column, at: usize, rows: &'a [Row]) -> Result<Params<'a>, Invalid> {
    fn all<'a, T>(
        column: Column, at: usize, rows: &'a [Row], read: impl Fn(Column, &'a Value) -> Result<T, Invalid>,
    ) -> Result<Vec<T>, Invalid> {
        rows.iter().map(|row| read(column, row.get(at).unwrap_or(&Value::Null))).collect()
    }
    Ok(match column.kind {
        Kind::Id => params.with(all(column, at, rows, id)?),
        Kind::Time => params.with(all(column, at, rows, instant)?),
        Kind::Flag => {
            params.with(all(column, at, rows, |column, value| Ok(number(column, value)?.map(|flag| flag != 0)))?)
        }
        Kind::Number => params.with(all(column, at, rows, number)?),
        Kind::Text | Kind::Json | Kind::Tags => params.with(all(column, at, rows, text)?),
        Kind::Bytes => params.with(all(column, at, rows, bytes)?),
    })
}

fn neutral(table: &Table, row: &tokio_postgres::Row) -> Result<Row, Unreadable> {
    let mut c = Columns::of(row);
    let mut of_column = |column: &Column| -> Result<Option<Value>, Unreadable> {
        Ok(match column.kind {
            Kind::Id => c.next::<Option<Uuid>>()?.map(|id| Value::Bytes(id.as_bytes().to_vec())),
            Kind::Time => c.next::<Option<SystemTime>>()?.map(micros).transpose()?.map(Value::Number),
            Kind::Flag => c.next::<Option<bool>>()?.map(|flag| Value::Number(i64::from(flag))),
            Kind::Number => c.next::<Option<i64>>()?.map(Value::Number),
            Kind::Text | Kind::Json => c.next::<Option<String>>()?.map(Value::Text),
            Kind::Bytes => c.next::<Option<Vec<u8>>>()?.map(Value::Bytes),
            Kind::Tags => c.next::<Option<Vec<String>>>()?.map(|tags| Value::Text(serde_json::json!(tags).to_string())),
        })
    };
    table.columns.iter().map(|column| Ok(of_column(column)?.unwrap_or(Value::Null))).collect()
}

fn micros(at: SystemTime) -> Result<i64, Unreadable> {
    Timestamp::try_from(at).map(Timestamp::as_microsecond).map_err(|error| Invalid::new("time", error.to_string()))
}

impl Tx<'_> {
    async fn table_in_use(&self) -> Work<Option<&'static str>> {
        for table in TABLES.iter().filter(|table| !table.seeded) {
            let look = format!("SELECT EXISTS (SELECT 1 FROM punctual_internal.{})", table.name);
            if self.one(&look, params![], value).await?.unwrap_or(false) {
                return Ok(Some(table.name));
            }
        }
        Ok(None)
    }

    /// Locks the store's part, too: of two who ask at once, the second finds what the first has done.
    async fn locked_part(&self) -> Work<Option<Move>> {
        self.word("LOCK TABLE punctual_internal.moves IN SHARE ROW EXCLUSIVE MODE").await?;
        self.one(PART, params![], part).await
    }

    async fn expect_part(&self, id: Uuid, stages: &[MoveStage]) -> Work<()> {
        match self.locked_part().await? {
            Some(part) if part.id == id && stages.contains(&part.stage) => Ok(()),
            _ => Err(overtaken().into()),
        }
    }

    async fn note_left(&self, id: Uuid, why: &str) -> Work<()> {
        self.expect_part(id, &[MoveStage::Leaving, MoveStage::Staying]).await?;
        self.execute("DELETE FROM punctual_internal.moves WHERE id = 2", params![]).await?;
        self.note_stage(MoveStage::Left).await?;
        self.freeze(FreezeLevel::Writes, why).await?;
        Ok(())
    }

    async fn refuse_more(&self, id: Uuid, why: &str) -> Work<()> {
        self.expect_part(id, &[MoveStage::Arriving, MoveStage::Abandoned]).await?;
        self.note_stage(MoveStage::Abandoned).await?;
        self.freeze(FreezeLevel::Writes, why).await?;
        Ok(())
    }

    async fn begin_to_leave(&self, part: &Move, why: &str) -> Work<()> {
        if self.locked_part().await?.is_some_and(|part| part.stage != MoveStage::Arrived) {
            return Err(overtaken().into());
        }
        // Whoever freezes takes this lock.
        self.word("SELECT pg_advisory_xact_lock(7815263005)").await?;
        if let Some(freeze) = self.one(crate::freeze::FIND, params![], crate::freeze::freeze).await? {
            return Err(StoreError::Frozen { why: freeze.why }.into());
        }
        self.execute("UPDATE punctual_internal.moves SET id = 2", params![]).await?;
        self.note_part(part).await?;
        self.freeze(FreezeLevel::Starts, why).await?;
        Ok(())
    }

    /// What SQL has asked of schedules is carried out first: another kind of store could not.
    async fn stop_writing(&self, id: Uuid, why: &str) -> Work<()> {
        self.expect_part(id, &[MoveStage::Leaving]).await?;
        self.word("LOCK TABLE punctual_internal.schedule_requests IN SHARE ROW EXCLUSIVE MODE").await?;
        let asked = "SELECT DISTINCT schedule_id FROM punctual_internal.schedule_requests ORDER BY schedule_id";
        for schedule in self.all(asked, params![], value::<Uuid>).await? {
            Box::pin(self.locked_schedule(ScheduleId(schedule))).await?;
        }
        self.freeze(FreezeLevel::Writes, why).await?;
        Ok(())
    }

    async fn begin_to_stay(&self, id: Uuid) -> Work<()> {
        self.expect_part(id, &[MoveStage::Leaving, MoveStage::Staying]).await?;
        self.note_stage(MoveStage::Staying).await
    }

    async fn stay(&self, id: Uuid) -> Work<()> {
        self.expect_part(id, &[MoveStage::Staying, MoveStage::Arriving]).await?;
        let come = "SELECT EXISTS (SELECT 1 FROM punctual_internal.move_progress)";
        if self.one(come, params![], value).await?.unwrap_or(false) {
            return Err(overtaken().into());
        }
        self.execute("DELETE FROM punctual_internal.moves WHERE id = 1", params![]).await?;
        self.execute("UPDATE punctual_internal.moves SET id = 1", params![]).await?;
        self.thaw().await
    }

    async fn begin_to_arrive(&self, part: &Move, why: &str) -> Work<()> {
        if self.locked_part().await?.is_some() {
            return Err(overtaken().into());
        }
        self.note_part(part).await?;
        self.execute("DELETE FROM punctual_internal.move_progress", params![]).await?;
        self.freeze(FreezeLevel::Writes, why).await?;
        // Nobody can write to it any more, so that it stays so.
        match self.table_in_use().await? {
            Some(table) => Err(in_use(table).into()),
            None => Ok(()),
        }
    }

    async fn note_part(&self, part: &Move) -> Work<()> {
        let note =
            "INSERT INTO punctual_internal.moves (id, move_id, stage, other, began_at) VALUES (1, $1, $2, $3, $4)";
        let Move { id, stage, other, began_at } = part;
        self.execute(note, params![*id, stage.as_str(), other.as_str(), time(*began_at)]).await?;
        Ok(())
    }

    async fn note_stage(&self, stage: MoveStage) -> Work<()> {
        let note = "UPDATE punctual_internal.moves SET stage = $1 WHERE id = 1";
        self.execute(note, params![stage.as_str()]).await?;
        Ok(())
    }

    async fn take_in(
        &self, id: Uuid, table: &'static Table, rows: &[Row], before: &Carried, after: &Carried,
    ) -> Work<()> {
        self.expect_part(id, &[MoveStage::Arriving]).await?;
        self.execute("UPDATE punctual_internal.moves SET writing = true", params![]).await?;
        if !rows.is_empty() {
            let mut params = Params::default();
            for (at, column) in table.columns.iter().enumerate() {
                params = with_column(params, *column, at, rows)?;
            }
            self.execute(&insert(table), params).await?;
        }
        self.note_carried(before, after).await?;
        self.execute("UPDATE punctual_internal.moves SET writing = false", params![]).await?;
        Ok(())
    }

    async fn note_carried(&self, before: &Carried, after: &Carried) -> Work<()> {
        let key = after.after.as_ref().map(serde_json::to_string).transpose();
        let key = key.map_err(|error| StoreError::Internal(error.to_string()))?;
        let count = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
        let note = "INSERT INTO punctual_internal.move_progress AS p (name, after, rows, sum, whole)
                    VALUES ($1, $2, $3, $4, $5)
                    ON CONFLICT (name) DO UPDATE SET after = excluded.after, rows = excluded.rows, sum = excluded.sum,
                      whole = excluded.whole
                    WHERE p.rows = $6 AND NOT p.whole";
        let (sum, rows) = (format!("{:032x}", after.tally.sum), count(after.tally.rows));
        let noted = params![after.table.as_str(), key, rows, sum, after.whole, count(before.tally.rows)];
        if self.execute(note, noted).await? == 0 {
            return Err(overtaken().into());
        }
        Ok(())
    }

    /// What is made from what has come, nodes that left nothing behind, and the end of the freeze.
    async fn arrive(&self, id: Uuid) -> Work<()> {
        self.expect_part(id, &[MoveStage::Arriving]).await?;
        self.thaw().await?;
        self.rows(DERIVE, params![self.at(), POSITION_GAP]).await?;
        let sync = "SELECT punctual_internal.sync_scheduled_job(s.id) FROM punctual_internal.schedules AS s
                    WHERE s.deleted_at IS NULL ORDER BY s.created_at, s.id";
        self.rows(sync, params![]).await?;
        self.execute("DELETE FROM punctual_internal.move_progress", params![]).await?;
        self.note_stage(MoveStage::Arrived).await
    }
}
