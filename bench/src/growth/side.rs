//! One of two stores that are compared: it does a batch of work, grows, and knows how many jobs it must have.

use super::Growing;
use crate::fill::{Filler, Held};
use crate::load::{self, BATCH, Outcome, per_second};
use crate::report::Survey;
use punctual_core::store::{ClaimedJob, Lease, Store};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;
use tokio_postgres::Client;

/// Where stores are opened.
#[derive(Clone, Copy)]
pub enum Place<'s> {
    Postgres(&'s PrivateServer),
    Sqlite,
}

impl Place<'_> {
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres(_) => "PostgreSQL",
            Self::Sqlite => "SQLite",
        }
    }
}

/// What goes away with the side.
enum Home {
    Database(Database),
    Folder(#[expect(dead_code, reason = "it is kept, not looked at")] TempDir),
}

pub struct Side {
    pub store: Arc<dyn Store>,
    pub node: Lease,
    filler: Filler,
    home: Home,
    /// How large it has grown.
    size: i64,
    /// Schedules that have been made due.
    due: i64,
    /// Jobs that have been made, and that have ended.
    made: i64,
    ended: i64,
}

impl Side {
    /// An empty one.
    pub async fn open(place: Place<'_>, survey: &mut Survey) -> Outcome<Self> {
        let (store, filler, home): (Arc<dyn Store>, _, _) = match place {
            Place::Postgres(server) => {
                let database = Database::empty_on(server).await;
                let store = PostgresStore::connect(&database.url(), PostgresOptions::default()).await?;
                survey.postgres(server, &database.connect().await).await?;
                (Arc::new(store), Filler::of_postgres(&database).await, Home::Database(database))
            }
            Place::Sqlite => {
                let folder = tempfile::tempdir()?;
                let path = folder.path().join("growth.db");
                let store = SqliteStore::open(&path, SqliteOptions::default())?;
                survey.sqlite(&store).await?;
                (Arc::new(store), Filler::of_sqlite(&path)?, Home::Folder(folder))
            }
        };
        let node = load::node(&store).await?;
        let mut side = Self { store, node, filler, home, size: 0, due: 0, made: 0, ended: 0 };
        // The first job makes the lane that the filler's jobs name.
        side.enqueue(1).await?;
        side.claim_and_finish(1).await?;
        Ok(side)
    }

    /// A connection to the database of a store on a server.
    pub async fn another_connection(&self) -> Outcome<Client> {
        match &self.home {
            Home::Database(database) => Ok(database.connect().await),
            Home::Folder(_) => Err("a file has no server to connect to".into()),
        }
    }

    /// Grows until it holds so many.
    pub async fn grow(&mut self, growing: Growing, size: i64) -> Outcome<()> {
        let more = size - self.size;
        match growing {
            Growing::History => {
                self.filler.history(self.size + 1, size).await?;
                self.made += more;
                self.ended += more;
            }
            Growing::Schedules => self.filler.schedules(self.size + 1, size).await?,
            Growing::Depth => {
                let batches = usize::try_from(more)? / BATCH;
                for _ in 0..batches {
                    self.enqueue(BATCH).await?;
                }
                self.enqueue(usize::try_from(more)? % BATCH).await?;
            }
        }
        self.size = size;
        self.filler.settle().await
    }

    /// One batch of the work that is compared: how many a second.
    pub async fn turn(&mut self, growing: Growing) -> Outcome<f64> {
        if growing == Growing::Schedules {
            return self.fire().await;
        }
        self.enqueue(BATCH).await?;
        let started = Instant::now();
        self.claim_and_finish(BATCH).await?;
        Ok(per_second(BATCH, started))
    }

    async fn fire(&mut self) -> Outcome<f64> {
        let batch = i64::try_from(BATCH)?;
        self.filler.due_schedules(self.due + 1, self.due + batch).await?;
        self.due += batch;
        let started = Instant::now();
        let fired = self.store.fire_due(None, BATCH).await?.jobs.len();
        let rate = per_second(fired, started);
        if fired != BATCH {
            return Err(format!("{fired} of {BATCH} slots were fired").into());
        }
        self.made += batch;
        self.claim_and_finish(BATCH).await?;
        Ok(rate)
    }

    /// Puts jobs behind all others.
    pub async fn enqueue(&mut self, jobs: usize) -> Outcome<()> {
        if jobs > 0 {
            self.store.enqueue_jobs((0..jobs).map(|_| load::job()).collect()).await?;
        }
        self.made += i64::try_from(jobs)?;
        Ok(())
    }

    /// Takes exactly so many jobs, and finishes them.
    pub async fn claim_and_finish(&mut self, jobs: usize) -> Outcome<()> {
        let claimed = load::claim(&self.store, self.node, jobs).await?;
        if claimed.len() != jobs {
            return Err(format!("{} of {jobs} jobs were handed out", claimed.len()).into());
        }
        self.finished(&claimed).await
    }

    /// Reports that jobs are done.
    pub async fn finished(&mut self, claimed: &[ClaimedJob]) -> Outcome<()> {
        load::finish(&self.store, self.node, claimed).await?;
        self.ended += i64::try_from(claimed.len())?;
        Ok(())
    }

    /// No ratio counts unless every job is where it must be, once.
    pub async fn check_all_accounted_for(&self) -> Outcome<()> {
        let (jobs, runs) = (self.made, self.ended);
        let expected = Held { jobs, runs, queued: jobs - runs, running: 0 };
        let found = self.filler.held().await?;
        if found == expected { Ok(()) } else { Err(format!("{found:?} was found, {expected:?} expected").into()) }
    }
}
