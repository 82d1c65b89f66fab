//! Carrying everything that a store holds into another one, of whatever kind: what is carried, and how it is compared.
//!
//! Rows travel in a neutral form that says nothing of either database: a number, a text or bytes. What a table has is
//! listed once, in [`tables`]; a test of each store compares the list with its catalogue, so that nothing that a later
//! migration adds can be forgotten.

pub mod tables;

use crate::freeze::Freezing;
use crate::invalid::Invalid;
use crate::store::{StoreError, StoreResult};
use crate::words::words;
use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tables::Table;
use uuid::Uuid;

/// The first microsecond that every store knows, of the year 4714 BC: whatever is before it is carried as this one.
pub const FIRST_MICROS: i64 = -210_866_803_200_000_000;

/// One value in its neutral form: an id is 16 bytes, a time a number of microseconds, a flag 0 or 1, a document its
/// own text, a list of tags the text of a JSON array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// Nothing.
    Null,
    /// A number, a time or a flag.
    Number(i64),
    /// A text, a document or tags.
    Text(String),
    /// An id, or bytes as they are.
    Bytes(Vec<u8>),
}

/// A row: a value for each column, in the order of the table.
pub type Row = Vec<Value>;

/// How many rows there are and what is in them, in whatever order they are read: equal for equal rows, and for others
/// only by a chance of one in 2^128.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// How many.
    pub rows: u64,
    /// The sum of their hashes.
    pub sum: u128,
}

impl Tally {
    /// Counts a row.
    pub fn add(&mut self, row: &[Value]) {
        let mut hash = Sha256::new();
        for value in row {
            // The length goes first, so that no two rows run together to the same bytes.
            let (kind, bytes): (u8, &[u8]) = match value {
                Value::Null => (0, &[]),
                Value::Number(number) => (1, &number.to_be_bytes()),
                Value::Text(text) => (2, text.as_bytes()),
                Value::Bytes(bytes) => (3, bytes),
            };
            hash.update([kind]);
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
        let mut half = [0; 16];
        half.copy_from_slice(&hash.finalize()[..16]);
        self.sum = self.sum.wrapping_add(u128::from_be_bytes(half));
        self.rows += 1;
    }
}

/// How far a table has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// The table's name.
    pub table: String,
    /// The key of the last row that has come; `None` before the first.
    pub after: Option<Row>,
    /// What has come.
    pub tally: Tally,
    /// Whether that is all.
    pub whole: bool,
}

impl Carried {
    /// Nothing yet.
    pub fn nothing(table: &Table) -> Self {
        Self { table: table.name.to_owned(), after: None, tally: Tally::default(), whole: false }
    }

    /// The same with one more page of rows; a page that is not full is the last one.
    #[must_use]
    pub fn with(mut self, table: &Table, page: &[Row]) -> Self {
        for row in page {
            self.tally.add(row);
        }
        if let Some(last) = page.last() {
            self.after = Some(last[..table.key].to_vec());
        }
        self.whole = page.len() < table.page;
        self
    }
}

/// Why a store cannot take another one in: it has rows of its own in a table.
pub fn in_use(table: &str) -> Invalid {
    Invalid::new("to", format!("is not empty: there are rows in `{table}`"))
        .remedy("name a database that no punctual has worked on, or a file that is not there yet")
}

/// What a store answers when its part in a move is not, or not any more, what whoever asks believes.
pub fn overtaken() -> StoreError {
    StoreError::Invalid(
        Invalid::new("move", "has gone on by other hands, or was given up")
            .remedy("look whether another `punctual move` runs, and run the same command again"),
    )
}

words! {
    /// Which side of a move a store is, and how far that side is.
    pub enum MoveStage as "stage of a move" {
        /// It is being carried into another store.
        Leaving = "leaving",
        /// It is being given back, and does not leave any more unless everything has arrived before.
        Staying = "staying",
        /// It has been carried into another store, and stays frozen.
        Left = "left",
        /// Another store is being carried into it.
        Arriving = "arriving",
        /// It holds everything that the other one held.
        Arrived = "arrived",
        /// What has come is not all, and no more will come: it can be thrown away.
        Abandoned = "abandoned",
    }
}

/// A store's part in a move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The move's identity, the same on both sides.
    pub id: Uuid,
    /// Which side this is.
    pub stage: MoveStage,
    /// The address of the other side, without a password.
    pub other: String,
    /// When it began.
    pub began_at: Timestamp,
}

/// What a store can do for a move. Not a part of [`Store`](crate::store::Store): no node and no server asks for it.
///
/// Every verb is one transaction, so that whoever is killed between two finds in the stores where to go on. Each looks
/// itself whether the store's part is that of this very move, at the stage that it goes on from: others may have gone on
/// with it, or given it up. It is [`arrive`](Transfer::arrive) that decides whether a move has been made.
#[async_trait]
pub trait Transfer: Freezing {
    /// Whether this kind of store has a table.
    fn has(&self, table: &Table) -> bool;

    /// The store's part in a move, if it had one.
    async fn part_in_move(&self) -> StoreResult<Option<Move>>;

    /// How many jobs are in the hands of nodes.
    async fn jobs_at_work(&self) -> StoreResult<u64>;

    /// The name of a table that is not empty, although nobody has ever worked on a new store.
    async fn table_in_use(&self) -> StoreResult<Option<&'static str>>;

    /// Begins to leave: nothing is started from now on. Refused while another move is under way or it is frozen.
    async fn begin_to_leave(&self, part: &Move, why: &str) -> StoreResult<()>;

    /// Stops all writing, once what was asked by other ways is carried out. Refused unless it is leaving.
    async fn stop_writing(&self, id: Uuid, why: &str) -> StoreResult<()>;

    /// Is to be given back. Writing cannot be stopped any more, so that whoever then looks at the other side, and ends
    /// the move there, knows that nobody carries on behind his back. Refused unless it is leaving.
    async fn begin_to_stay(&self, id: Uuid) -> StoreResult<()>;

    /// Goes on as if this move had not begun: what has arrived by an earlier one has still arrived by that. Refused
    /// unless it is being given back, or is the other side and nothing has come.
    async fn stay(&self, id: Uuid) -> StoreResult<()>;

    /// Notes that everything has left. Refused unless it is leaving, or was to be given back too late.
    async fn note_left(&self, id: Uuid, why: &str) -> StoreResult<()>;

    /// Becomes the other side. Refused unless it is empty and has no part in a move.
    async fn begin_to_arrive(&self, part: &Move, why: &str) -> StoreResult<()>;

    /// How far the tables have come.
    async fn carried(&self) -> StoreResult<Vec<Carried>>;

    /// Takes a page of rows in, and notes how far the table has come with them; refused when somebody else has done so
    /// since `before`, and unless it is arriving.
    async fn take_in(
        &self, id: Uuid, table: &'static Table, rows: Vec<Row>, before: &Carried, after: &Carried,
    ) -> StoreResult<()>;

    /// Takes nothing more in, and stays frozen: what has come is not all. Refused when everything has arrived.
    async fn refuse_more(&self, id: Uuid, why: &str) -> StoreResult<()>;

    /// Everything is there: what the store derives from it is made, nodes that left nothing behind are gone, and it is
    /// open for work. Refused unless it is arriving.
    async fn arrive(&self, id: Uuid) -> StoreResult<()>;

    /// Rows in the order of their key, after one.
    async fn rows_after(&self, table: &'static Table, after: Option<&[Value]>) -> StoreResult<Vec<Row>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Number),
            ".{0,4}".prop_map(Value::Text),
            proptest::collection::vec(any::<u8>(), 0..4).prop_map(Value::Bytes),
        ]
    }

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        proptest::collection::vec(proptest::collection::vec(value(), 2), 0..8)
    }

    fn tally(rows: &[Row]) -> Tally {
        let mut tally = Tally::default();
        for row in rows {
            tally.add(row);
        }
        tally
    }

    proptest! {
        #[test]
        fn c02_a_tally_does_not_depend_on_the_order_of_rows(rows in rows()) {
            let mut turned = rows.clone();
            turned.reverse();
            prop_assert_eq!(tally(&rows), tally(&turned));
        }

        #[test]
        fn c02_a_tally_tells_other_rows(one in rows(), other in rows()) {
            let (mut sorted, mut others) = (one.clone(), other.clone());
            sorted.sort_by_key(|row| format!("{row:?}"));
            others.sort_by_key(|row| format!("{row:?}"));
            prop_assert_eq!(tally(&one) == tally(&other), sorted == others);
        }

        #[test]
        fn c02_a_key_comes_back_as_it_was_noted(row in proptest::collection::vec(value(), 0..3)) {
            let noted = serde_json::to_string(&row).unwrap();
            prop_assert_eq!(serde_json::from_str::<Row>(&noted).unwrap(), row);
        }
    }

    #[test]
    fn c02_values_that_look_alike_are_told_apart() {
        let rows: [Row; 6] = [
            vec![Value::Text("ab".into()), Value::Text("c".into())],
            vec![Value::Text("a".into()), Value::Text("bc".into())],
            vec![Value::Bytes(b"ab".to_vec()), Value::Text("c".into())],
            vec![Value::Null, Value::Text("ab".into())],
            vec![Value::Text(String::new()), Value::Text("ab".into())],
            vec![Value::Number(0), Value::Text("ab".into())],
        ];
        for (at, row) in rows.iter().enumerate() {
            for other in &rows[at + 1..] {
                assert_ne!(tally(std::slice::from_ref(row)), tally(std::slice::from_ref(other)), "{row:?} {other:?}");
            }
        }
    }
}
