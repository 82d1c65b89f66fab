//! The other side on SQLite: hand-written SQL on one connection, and what is looked up beside it.

use super::facts::Counts;
use super::figures::percentile;
use super::ours::Ours;
use super::side::{
    BATCH, Bound, Claims, Done, Ground, Side, Starts, WARM_UP, by_many, claim_by_many, expect, milliseconds, pause,
};
use crate::Outcome;
use crate::raw::sqlite::Raw;
use async_trait::async_trait;
use punctual_core::store::Store;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// How often the way there and back is measured.
const ROUND_TRIPS: usize = 200;

/// Everything that takes part.
pub(super) struct Parts {
    pub(super) ours: Ours,
    pub(super) raw: RawSide,
    pub(super) ground: Hand,
}

/// Opens both sides on one file, which gets its tables from the store.
pub(super) fn open(file: &Path) -> Outcome<Parts> {
    let store = SqliteStore::open(file, SqliteOptions::default())?;
    let raw = RawSide { raw: Arc::new(Mutex::new(Raw::open(file)?)) };
    let ground = Hand { file: file.to_owned(), store: store.clone(), raw: raw.clone() };
    // A program that embeds Punctual makes and works in one process.
    let store: Arc<dyn Store> = Arc::new(store);
    Ok(Parts { ours: Ours { works: Arc::clone(&store), makes: store }, raw, ground })
}

/// Looks at the file by connections of its own.
pub(super) struct Hand {
    file: PathBuf,
    store: SqliteStore,
    raw: RawSide,
}

impl Hand {
    async fn by_hand<T: Send + 'static>(
        &self, look: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Outcome<T> {
        let file = self.file.clone();
        tokio::task::spawn_blocking(move || look(&Connection::open(file)?)).await?
    }
}

#[async_trait]
impl Ground for Hand {
    async fn make_due_schedules(&self, count: usize) -> Outcome<()> {
        self.raw.with(move |raw| raw.make_due_schedules(count)).await
    }

    async fn counts(&self) -> Outcome<Counts> {
        self.by_hand(|connection| {
            let count = |table: &str| -> Outcome<i64> {
                Ok(connection.query_row(&format!("SELECT count(*) FROM punctual_{table}"), [], |row| row.get(0))?)
            };
            let (queued, running, delayed) = (count("queue")?, count("running")?, count("delayed")?);
            Ok(Counts { jobs: count("jobs")?, runs: count("runs")?, queued, running, delayed })
        })
        .await
    }

    async fn log_bytes(&self) -> Option<f64> {
        // Its log is written over again and again.
        None
    }

    async fn tidy(&self) -> Outcome<()> {
        self.by_hand(|connection| {
            // It answers with a row, which says whether somebody was in the way; then the next one does the rest.
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            Ok(())
        })
        .await
    }

    async fn round_trip_ms(&self) -> Outcome<f64> {
        self.by_hand(|connection| {
            let mut statement = connection.prepare("SELECT 1")?;
            let mut times = Vec::with_capacity(ROUND_TRIPS);
            for _ in 0..ROUND_TRIPS {
                let asked = Instant::now();
                statement.query_row([], |row| row.get::<_, i64>(0))?;
                times.push(milliseconds(asked.elapsed()));
            }
            Ok(percentile(&times, 0.5))
        })
        .await
    }

    async fn commits(&self, bound: Bound) -> Outcome<Done> {
        let beside = self.file.with_file_name("commits.db");
        tokio::task::spawn_blocking(move || {
            let connection = Connection::open(beside)?;
            connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.execute_batch("CREATE TABLE IF NOT EXISTS commits (n INTEGER NOT NULL)")?;
            let mut insert = connection.prepare("INSERT INTO commits VALUES (1)")?;
            let began = Instant::now();
            let mut count = 0;
            while count < bound.count && began.elapsed() < bound.time {
                insert.execute([])?;
                count += 1;
            }
            Ok(Done { count, took: began.elapsed() })
        })
        .await?
    }

    async fn settings(&self) -> Outcome<BTreeMap<String, String>> {
        let ours = self.store.durability().await?;
        let (mode, synchronous) = self.raw.with(|raw| raw.durability()).await?;
        if (ours.journal_mode.as_str(), ours.synchronous) != (mode.as_str(), synchronous) {
            return Err(
                format!("the two sides are not equally durable: {ours:?}, and {mode} with {synchronous}").into()
            );
        }
        Ok(BTreeMap::from([
            ("journal_mode".to_owned(), mode),
            ("synchronous".to_owned(), synchronous.to_string()),
            ("server_version".to_owned(), rusqlite::version().to_owned()),
        ]))
    }

    async fn forced_checkpoints(&self) -> Option<i64> {
        None
    }
}

/// Hand-written SQL. A file has one writer, so that callers take turns.
#[derive(Clone)]
pub(super) struct RawSide {
    raw: Arc<Mutex<Raw>>,
}

impl RawSide {
    /// Where it may block.
    async fn with<T: Send + 'static>(&self, work: impl FnOnce(&mut Raw) -> Outcome<T> + Send + 'static) -> Outcome<T> {
        let raw = Arc::clone(&self.raw);
        tokio::task::spawn_blocking(move || work(&mut raw.lock().unwrap_or_else(PoisonError::into_inner))).await?
    }

    async fn timed(&self, work: impl FnOnce(&mut Raw) -> Outcome<usize> + Send + 'static) -> Outcome<Done> {
        self.with(|raw| {
            let began = Instant::now();
            let count = work(raw)?;
            Ok(Done { count, took: began.elapsed() })
        })
        .await
    }
}

#[async_trait]
impl Side for RawSide {
    async fn enqueue_singly(&mut self, bound: Bound) -> Outcome<Done> {
        self.timed(move |raw| {
            let (began, mut count) = (Instant::now(), 0);
            while count < bound.count && began.elapsed() < bound.time {
                raw.enqueue(1)?;
                count += 1;
            }
            Ok(count)
        })
        .await
    }

    async fn enqueue_by(&mut self, callers: usize, bound: Bound) -> Outcome<Done> {
        let side = self.clone();
        by_many(callers, bound, move || {
            let side = side.clone();
            async move { side.with(|raw| raw.enqueue(1)).await }
        })
        .await
    }

    async fn enqueue_batches(&mut self, batches: usize) -> Outcome<Done> {
        self.timed(move |raw| {
            for _ in 0..batches {
                raw.enqueue(BATCH)?;
            }
            Ok(batches * BATCH)
        })
        .await
    }

    async fn drain(&mut self, jobs: usize) -> Outcome<Done> {
        let done = self.timed(|raw| raw.drain(BATCH)).await?;
        expect("jobs drained by hand", done.count, jobs)?;
        Ok(done)
    }

    async fn fire(&mut self, slots: usize) -> Outcome<Done> {
        let done = self.timed(move |raw| {
            let mut fired = 0;
            while fired < slots {
                let some = raw.fire(BATCH)?;
                fired += some;
                if some == 0 {
                    break;
                }
            }
            Ok(fired)
        });
        let done = done.await?;
        expect("slots fired by hand", done.count, slots)?;
        Ok(done)
    }

    async fn fire_by(&mut self, claimers: usize, slots: usize) -> Outcome<Claims> {
        let (side, each) = (self.clone(), slots.div_ceil(claimers));
        let claims = claim_by_many(claimers, move || {
            let side = side.clone();
            async move { side.with(move |raw| raw.fire(each)).await }
        })
        .await?;
        expect("slots fired by hand by many", claims.done.count, slots)?;
        Ok(claims)
    }

    async fn enqueue_to_start(&mut self, bound: Bound) -> Outcome<Starts> {
        let (mut times, began) = (Vec::new(), Instant::now());
        while times.len() <= WARM_UP || (times.len() < bound.count + WARM_UP && began.elapsed() < bound.time) {
            pause(times.len()).await;
            let took = self.with(|raw| {
                let asked = Instant::now();
                raw.enqueue(1)?;
                let claimed = raw.claim(1)?;
                let took = milliseconds(asked.elapsed());
                expect("jobs claimed by hand", claimed.len(), 1)?;
                raw.finish(&claimed)?;
                Ok(took)
            });
            times.push(took.await?);
        }
        let made = times.len();
        Ok(Starts { made, milliseconds: times.split_off(WARM_UP.min(made)) })
    }
}
