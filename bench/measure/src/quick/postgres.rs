//! The other side on PostgreSQL: hand-written SQL on connections of its own, and what is looked up there.

use super::durability;
use super::facts::{Counts, StoreKind};
use super::figures::percentile;
use super::ours::Ours;
use super::side::{
    BATCH, Bound, Claims, Done, Ground, Side, Starts, WARM_UP, by_many, claim_by_many, expect, milliseconds, pause,
};
use crate::Outcome;
use crate::raw::postgres::Raw;
use async_trait::async_trait;
use punctual_store_postgres::{Notifications, PostgresOptions, PostgresStore, connect_client};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio_postgres::Client;

/// Connections of the reference when many call at once, if the server has so many to give.
const CONNECTIONS: usize = 16;
/// The fewest with which many callers are still many.
const CONNECTIONS_MIN: usize = 4;
/// Connections that take from a full queue at the same time.
const DRAINERS: usize = 2;
/// How often the way there and back is measured.
const ROUND_TRIPS: usize = 200;
/// How long a notification may take.
const HEARS_WITHIN: Duration = Duration::from_secs(10);

const COMMITS_TABLE: &str = "CREATE SCHEMA IF NOT EXISTS punctual_bench;
  CREATE TABLE IF NOT EXISTS punctual_bench.commits (n bigint NOT NULL)";

const COUNTS: &str =
    "SELECT (SELECT count(*) FROM punctual_internal.jobs), (SELECT count(*) FROM punctual_internal.runs),
  (SELECT count(*) FROM punctual_internal.queue), (SELECT count(*) FROM punctual_internal.running),
  (SELECT count(*) FROM punctual_internal.delayed)";

const TIDY: &str = "VACUUM punctual_internal.queue, punctual_internal.running, punctual_internal.schedule_state,
  punctual_internal.schedule_live";

/// Settings that say how it may be made faster.
const SETTINGS: [&str; 6] =
    ["server_version", "jit", "shared_buffers", "max_wal_size", "autovacuum", "max_connections"];

/// Everything that takes part.
pub(super) struct Parts {
    pub(super) ours: Ours,
    /// Not behind a pooler, where statements cannot be prepared and nobody can listen.
    pub(super) raw: Option<RawSide>,
    pub(super) ground: Hand,
}

/// Opens both sides on one database, which gets its tables from the store.
pub(super) async fn open(url: &str) -> Outcome<Parts> {
    let works = PostgresStore::connect(url, PostgresOptions::default()).await?;
    let makes = PostgresStore::connect(url, PostgresOptions::default()).await?;
    let pooled = !works.has_own_sessions();
    let (client, _) = connect_client(url).await?;
    client.batch_execute(COMMITS_TABLE).await?;
    let raw = if pooled { None } else { Some(RawSide::open(url).await?) };
    let ground = Hand { client, pooled };
    if let Some(raw) = &raw {
        raw.is_as_durable_as(&ground).await?;
    }
    let ours = Ours { works: Arc::new(works), makes: Arc::new(makes) };
    Ok(Parts { ours, raw, ground })
}

/// How many connections the server has left for whoever is no superuser.
pub(super) async fn free_connections(client: &Client) -> Option<i64> {
    let sql = "SELECT current_setting('max_connections')::bigint
      - current_setting('superuser_reserved_connections')::bigint - count(*) FROM pg_stat_activity
      WHERE backend_type = 'client backend'";
    let rows = client.simple_query(sql).await.ok()?;
    first_value(&rows)?.parse().ok()
}

fn first_value(rows: &[tokio_postgres::SimpleQueryMessage]) -> Option<&str> {
    rows.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    })
}

/// A connection that looks, and is used by neither side.
pub(super) struct Hand {
    client: Client,
    pub(super) pooled: bool,
}

impl Hand {
    /// Without a prepared statement, so that a pooler is fine.
    async fn value(&self, sql: &str) -> Outcome<Option<String>> {
        Ok(first_value(&self.client.simple_query(sql).await?).map(str::to_owned))
    }
}

#[async_trait]
impl Ground for Hand {
    async fn make_due_schedules(&self, count: usize) -> Outcome<()> {
        Raw::make_due_schedules_on(&self.client, count).await
    }

    async fn counts(&self) -> Outcome<Counts> {
        let rows = self.client.simple_query(COUNTS).await?;
        let row = rows.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let row = row.ok_or("the tables cannot be counted")?;
        let at = |n: usize| -> Outcome<i64> { Ok(row.get(n).ok_or("a count is missing")?.parse()?) };
        Ok(Counts { jobs: at(0)?, runs: at(1)?, queued: at(2)?, running: at(3)?, delayed: at(4)? })
    }

    async fn log_bytes(&self) -> Option<f64> {
        let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8";
        self.value(sql).await.ok()??.parse().ok()
    }

    async fn tidy(&self) -> Outcome<()> {
        Ok(self.client.batch_execute(TIDY).await?)
    }

    async fn round_trip_ms(&self) -> Outcome<f64> {
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        let began = Instant::now();
        while times.len() < ROUND_TRIPS && (times.len() < 10 || began.elapsed() < Duration::from_secs(1)) {
            let asked = Instant::now();
            self.client.simple_query("SELECT 1").await?;
            times.push(milliseconds(asked.elapsed()));
        }
        Ok(percentile(&times, 0.5))
    }

    async fn commits(&self, bound: Bound) -> Outcome<Done> {
        let began = Instant::now();
        let mut count = 0;
        while count < bound.count && began.elapsed() < bound.time {
            self.client.simple_query("INSERT INTO punctual_bench.commits VALUES (1)").await?;
            count += 1;
        }
        Ok(Done { count, took: began.elapsed() })
    }

    async fn settings(&self) -> Outcome<BTreeMap<String, String>> {
        let mut settings = BTreeMap::new();
        for name in durability::names(StoreKind::Postgres).iter().chain(&SETTINGS) {
            if let Some(value) = self.value(&format!("SHOW {name}")).await? {
                settings.insert((*name).to_owned(), value);
            }
        }
        Ok(settings)
    }

    async fn forced_checkpoints(&self) -> Option<i64> {
        // The view of older versions is asked only where there is no newer one.
        let newer = self.value("SELECT num_requested FROM pg_stat_checkpointer").await;
        let found = match newer {
            Ok(found) => found,
            Err(_) => self.value("SELECT checkpoints_req FROM pg_stat_bgwriter").await.ok()?,
        };
        found?.parse().ok()
    }
}

/// Hand-written SQL: connections that are held, statements that are prepared once.
pub(super) struct RawSide {
    drainers: Vec<Raw>,
    /// One that makes jobs, and one that waits for them.
    maker: Raw,
    waiting: (Raw, Arc<AsyncMutex<Notifications>>),
    crew: Arc<Crew>,
}

/// Connections that callers share.
struct Crew {
    free: Mutex<Vec<Raw>>,
    room: Semaphore,
}

impl Crew {
    async fn enqueue(&self) -> Outcome<()> {
        let _room = self.room.acquire().await?;
        let mut raw = self.take()?;
        let done = raw.enqueue(1).await;
        self.put_back(raw);
        done
    }

    async fn fire(&self, batch: usize) -> Outcome<usize> {
        let _room = self.room.acquire().await?;
        let mut raw = self.take()?;
        let done = raw.fire(batch).await;
        self.put_back(raw);
        done
    }

    fn take(&self) -> Outcome<Raw> {
        Ok(self.free.lock().unwrap_or_else(PoisonError::into_inner).pop().ok_or("no connection is free")?)
    }

    fn put_back(&self, raw: Raw) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(raw);
    }
}

impl RawSide {
    async fn open(url: &str) -> Outcome<Self> {
        let maker = Raw::open(connect_client(url).await?.0).await?;
        let mut drainers = Vec::new();
        for _ in 0..DRAINERS {
            drainers.push(maker.beside(connect_client(url).await?.0).await?);
        }
        let (client, notifications) = connect_client(url).await?;
        client.batch_execute("LISTEN punctual_bench").await?;
        let waiting = (maker.beside(client).await?, Arc::new(AsyncMutex::new(notifications)));
        let mut crew = Vec::new();
        while crew.len() < CONNECTIONS {
            match connect_client(url).await {
                Ok((client, _)) => crew.push(maker.beside(client).await?),
                Err(_) if crew.len() >= CONNECTIONS_MIN => break,
                Err(error) => return Err(error.into()),
            }
        }
        let crew = Arc::new(Crew { room: Semaphore::new(crew.len()), free: Mutex::new(crew) });
        Ok(Self { drainers, maker, waiting, crew })
    }

    /// Two sessions of one address have the same settings, unless somebody in between changes them.
    async fn is_as_durable_as(&self, ground: &Hand) -> Outcome<()> {
        for name in durability::names(StoreKind::Postgres) {
            let (here, there) = (self.maker.shows(name).await?, ground.value(&format!("SHOW {name}")).await?);
            if Some(&here) != there.as_ref() {
                return Err(format!("two connections to this address differ in {name}: {here} and {there:?}").into());
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Side for RawSide {
    async fn enqueue_singly(&mut self, bound: Bound) -> Outcome<Done> {
        let began = Instant::now();
        let mut count = 0;
        while count < bound.count && began.elapsed() < bound.time {
            self.maker.enqueue(1).await?;
            count += 1;
        }
        Ok(Done { count, took: began.elapsed() })
    }

    async fn enqueue_by(&mut self, callers: usize, bound: Bound) -> Outcome<Done> {
        let crew = Arc::clone(&self.crew);
        by_many(callers, bound, move || {
            let crew = Arc::clone(&crew);
            async move { crew.enqueue().await }
        })
        .await
    }

    async fn enqueue_batches(&mut self, batches: usize) -> Outcome<Done> {
        let began = Instant::now();
        for _ in 0..batches {
            self.maker.enqueue(BATCH).await?;
        }
        Ok(Done { count: batches * BATCH, took: began.elapsed() })
    }

    async fn drain(&mut self, jobs: usize) -> Outcome<Done> {
        let began = Instant::now();
        let tasks: Vec<_> = std::mem::take(&mut self.drainers)
            .into_iter()
            .map(|mut raw| {
                tokio::spawn(async move {
                    let ended = raw.drain(BATCH).await?;
                    Ok::<_, Box<dyn std::error::Error + Send + Sync>>((ended, raw))
                })
            })
            .collect();
        let mut ended = 0;
        for task in tasks {
            let (count, raw) = task.await??;
            ended += count;
            self.drainers.push(raw);
        }
        let took = began.elapsed();
        expect("jobs drained by hand", ended, jobs)?;
        Ok(Done { count: ended, took })
    }

    async fn fire(&mut self, slots: usize) -> Outcome<Done> {
        let began = Instant::now();
        let mut fired = 0;
        while fired < slots {
            let some = self.maker.fire(BATCH).await?;
            fired += some;
            if some == 0 {
                break;
            }
        }
        let took = began.elapsed();
        expect("slots fired by hand", fired, slots)?;
        Ok(Done { count: fired, took })
    }

    async fn fire_by(&mut self, claimers: usize, slots: usize) -> Outcome<Claims> {
        let (crew, each) = (Arc::clone(&self.crew), slots.div_ceil(claimers));
        let claims = claim_by_many(claimers, move || {
            let crew = Arc::clone(&crew);
            async move { crew.fire(each).await }
        })
        .await?;
        expect("slots fired by hand by many", claims.done.count, slots)?;
        Ok(claims)
    }

    async fn enqueue_to_start(&mut self, bound: Bound) -> Outcome<Starts> {
        let (waiting, notifications) = &self.waiting;
        let (mut times, began) = (Vec::new(), Instant::now());
        let mut notifications = notifications.lock().await;
        while times.len() <= WARM_UP || (times.len() < bound.count + WARM_UP && began.elapsed() < bound.time) {
            pause(times.len()).await;
            let asked = Instant::now();
            let started = async {
                tokio::time::timeout(HEARS_WITHIN, notifications.recv())
                    .await
                    .map_err(|_| "no notification came")?
                    .ok_or("the listening connection was closed")?;
                let claimed = waiting.claim(1).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>((claimed, milliseconds(asked.elapsed())))
            };
            let (made, started) = tokio::join!(self.maker.enqueue_and_tell(), started);
            made?;
            let (claimed, took) = started?;
            expect("jobs claimed after a notification", claimed.len(), 1)?;
            waiting.finish(&claimed).await?;
            times.push(took);
        }
        let made = times.len();
        Ok(Starts { made, milliseconds: times.split_off(WARM_UP.min(made)) })
    }
}
