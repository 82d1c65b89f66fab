//! The steps of a move, each durable in the stores before the next begins, so that it can be killed between any two.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use punctual_core::store::StoreError;
use punctual_core::transfer::tables::{TABLES, Table};
use punctual_core::transfer::{Carried, Move, MoveStage, Tally};
use serde::Serialize;
use tokio::time::sleep;
use uuid::Uuid;

use super::Side;
use super::parts::{Standing, judge};
use crate::cli::{Exit, Stop};

/// How often it is looked whether running jobs have ended.
const LOOK: Duration = Duration::from_millis(200);

/// How long a store may be too busy to be frozen.
const BUSY: Duration = Duration::from_secs(60);

/// After how many rows of one table something is said.
const SAID_EVERY: u64 = 10_000;

/// A move between two open stores.
pub(super) struct Walk {
    pub(super) from: Side,
    pub(super) to: Side,
    pub(super) wait: Duration,
    pub(super) cut: bool,
}

/// What a move did.
#[derive(Debug, Serialize)]
pub(super) struct Walked {
    pub(super) move_id: Uuid,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) rows: u64,
    /// The rows of each table.
    pub(super) tables: BTreeMap<&'static str, u64>,
    /// Jobs that were still running when writing was stopped.
    pub(super) cut: u64,
}

fn conflict(words: impl Into<String>) -> Stop {
    Stop::Failed(Exit::Conflict, words.into())
}

/// For people who wait, and for those who look into a log.
fn say(words: &str) {
    eprintln!("{words}");
}

impl Walk {
    /// From wherever it stands to its end.
    pub(super) async fn walk(&self) -> Result<Walked, Stop> {
        let mut walked = Walked {
            move_id: Uuid::nil(),
            from: self.from.name.clone(),
            to: self.to.name.clone(),
            rows: 0,
            tables: BTreeMap::new(),
            cut: 0,
        };
        let standing = self.standing().await?;
        let id = match standing {
            Standing::New => self.begin().await?,
            Standing::Leaving(id) | Standing::Carrying(id) | Standing::Arrived(id) | Standing::Done(id) => {
                say("going on with a move that has begun");
                id
            }
        };
        walked.move_id = id;
        if let Standing::New | Standing::Leaving(_) = standing {
            self.begin_to_arrive(id).await?;
        }
        if let Standing::New | Standing::Leaving(_) | Standing::Carrying(_) = standing {
            walked.cut = self.stop_writing().await?;
            self.carry().await?;
            walked.tables = self.compare().await?;
            self.to.store.arrive().await.map_err(|error| self.to.refused(error))?;
            say("everything has arrived");
        }
        if walked.tables.is_empty() {
            walked.tables = self.counted().await?;
        }
        walked.rows = walked.tables.values().sum();
        if standing != Standing::Done(id) {
            let why = format!(
                "it has moved to {} at {}; work on that one: --database {}",
                self.to.name,
                Timestamp::now(),
                self.to.name
            );
            self.from.store.note_left(&why).await.map_err(|error| self.from.refused(error))?;
        }
        Ok(walked)
    }

    async fn parts(&self) -> Result<(Option<Move>, Option<Move>), Stop> {
        let from = self.from.store.part_in_move().await.map_err(|error| self.from.refused(error))?;
        let to = self.to.store.part_in_move().await.map_err(|error| self.to.refused(error))?;
        Ok((from, to))
    }

    async fn standing(&self) -> Result<Standing, Stop> {
        let (from, to) = self.parts().await?;
        judge(from.as_ref(), to.as_ref(), &self.to.name).map_err(conflict)
    }

    fn part(&self, id: Uuid, stage: MoveStage) -> Move {
        let other = if stage == MoveStage::Leaving { &self.to.name } else { &self.from.name };
        Move { id, stage, other: other.clone(), began_at: Timestamp::now() }
    }

    /// Looks whether it can be done at all, before anything is stopped for it.
    async fn begin(&self) -> Result<Uuid, Stop> {
        if let Some(freeze) = self.from.store.frozen().await.map_err(|error| self.from.refused(error))? {
            return Err(conflict(format!("--from {} is frozen by somebody else: {}", self.from.name, freeze.why)));
        }
        if let Some(freeze) = self.to.store.frozen().await.map_err(|error| self.to.refused(error))? {
            return Err(conflict(format!("--to {} is frozen: {}", self.to.name, freeze.why)));
        }
        if let Some(table) = self.to.store.table_in_use().await.map_err(|error| self.to.refused(error))? {
            return Err(self.to.refused(punctual_core::transfer::in_use(table).into()));
        }
        let id = Uuid::new_v4();
        let why = format!(
            "it is being moved to {}; what runs may end, and nothing new starts until the move is done",
            self.to.name
        );
        let part = self.part(id, MoveStage::Leaving);
        let begin = async || self.from.store.begin_to_leave(&part, &why).await;
        patiently(begin).await.map_err(|error| self.from.refused(error))?;
        say(&format!("{} fires and claims nothing any more", self.from.name));
        Ok(id)
    }

    async fn begin_to_arrive(&self, id: Uuid) -> Result<(), Stop> {
        let (_, to) = self.parts().await?;
        if to.is_some() {
            let freed = self.from.store.stay().await.map_err(|error| self.from.refused(error));
            return freed.and(Err(conflict("--from and --to are the same store; name another one with --to")));
        }
        let why = format!(
            "{} is being moved into it, and is not here yet; let `punctual move --from {} --to {}` finish that",
            self.from.name, self.from.name, self.to.name
        );
        match self.to.store.begin_to_arrive(&self.part(id, MoveStage::Arriving), &why).await {
            Ok(()) => Ok(()),
            Err(error) => {
                // Somebody was faster, or it cannot be frozen: the first store is not kept waiting for that.
                self.from.store.stay().await.map_err(|error| self.from.refused(error))?;
                Err(self.to.refused(error))
            }
        }
    }

    /// Waits for what runs, and stops all writing; says how many jobs were cut off.
    async fn stop_writing(&self) -> Result<u64, Stop> {
        let frozen = self.from.store.frozen().await.map_err(|error| self.from.refused(error))?;
        if frozen.is_some_and(|freeze| freeze.level == punctual_core::freeze::FreezeLevel::Writes) {
            return Ok(0);
        }
        let still = self.wait_for_jobs().await?;
        let why = format!(
            "it is being moved to {}, and nothing is written meanwhile; `punctual move --from {} --to {}` goes on with \
             that, and gives it up with --abandon",
            self.to.name, self.from.name, self.to.name
        );
        let stop = async || self.from.store.stop_writing(&why).await;
        patiently(stop).await.map_err(|error| self.from.refused(error))?;
        say(&format!("{} writes nothing any more", self.from.name));
        Ok(still)
    }

    async fn wait_for_jobs(&self) -> Result<u64, Stop> {
        let (began, mut said) = (Instant::now(), 0);
        loop {
            let still = self.from.store.jobs_at_work().await.map_err(|error| self.from.refused(error))?;
            if still == 0 {
                return Ok(0);
            }
            if began.elapsed() >= self.wait {
                return if self.cut { Ok(still) } else { Err(self.give_up(still).await?) };
            }
            if still != said {
                say(&format!("waiting for {still} running jobs"));
                said = still;
            }
            sleep(LOOK).await;
        }
    }

    /// Nothing has been carried yet: both stores are as they were.
    async fn give_up(&self, still: u64) -> Result<Stop, Stop> {
        self.to.store.stay().await.map_err(|error| self.to.refused(error))?;
        self.from.store.stay().await.map_err(|error| self.from.refused(error))?;
        let jobs = if still == 1 { "1 job is".to_owned() } else { format!("{still} jobs are") };
        let told = format!(
            "{jobs} still running, so that nothing was moved, and {} goes on as before; wait longer with --wait, or \
             stop them with --cut: they are then recovered on the other side as those of a lost node",
            self.from.name
        );
        Ok(Stop::Failed(Exit::Timeout, told))
    }

    /// What both stores have.
    fn tables(&self) -> impl Iterator<Item = &'static Table> {
        TABLES.iter().filter(|table| self.from.store.has(table) && self.to.store.has(table))
    }

    async fn progress(&self) -> Result<BTreeMap<String, Carried>, Stop> {
        let carried = self.to.store.carried().await.map_err(|error| self.to.refused(error))?;
        Ok(carried.into_iter().map(|carried| (carried.table.clone(), carried)).collect())
    }

    async fn carry(&self) -> Result<(), Stop> {
        for table in TABLES.iter().filter(|table| self.from.store.has(table) && !self.to.store.has(table)) {
            let rows = self.from.store.rows_after(table, None).await.map_err(|error| self.from.refused(error))?;
            if !rows.is_empty() {
                say(&format!("left behind: `{}`, which {} has no place for", table.name, self.to.name));
            }
        }
        let mut progress = self.progress().await?;
        for table in self.tables() {
            let mut carried = progress.remove(table.name).unwrap_or_else(|| Carried::nothing(table));
            let mut said = carried.tally.rows;
            while !carried.whole {
                let after = carried.after.as_deref();
                let page = self.from.store.rows_after(table, after).await;
                let page = page.map_err(|error| self.from.refused(error))?;
                let next = carried.clone().with(table, &page);
                let taken = self.to.store.take_in(table, page, &carried, &next).await;
                taken.map_err(|error| self.to.refused(error))?;
                carried = next;
                if carried.whole || carried.tally.rows - said >= SAID_EVERY {
                    said = carried.tally.rows;
                    say(&format!("carried {said} rows of {}", table.name));
                }
            }
        }
        Ok(())
    }

    /// Reads everything again where it has come to; says how many rows each table has.
    async fn compare(&self) -> Result<BTreeMap<&'static str, u64>, Stop> {
        let (progress, mut tables) = (self.progress().await?, BTreeMap::new());
        for table in self.tables() {
            let expected = progress.get(table.name).map_or_else(Tally::default, |carried| carried.tally);
            let found = tally(&self.to, table).await?;
            if found != expected {
                return Err(Stop::failure(format!(
                    "`{}` is not the same on both sides: {} rows were carried, and {} with another content are there; \
                     {} is as it was: give it back with --abandon",
                    table.name, expected.rows, found.rows, self.from.name
                )));
            }
            tables.insert(table.name, found.rows);
        }
        say("counted and compared");
        Ok(tables)
    }

    /// How many rows each table has, by the side that does not change any more.
    async fn counted(&self) -> Result<BTreeMap<&'static str, u64>, Stop> {
        let mut tables = BTreeMap::new();
        for table in self.tables() {
            tables.insert(table.name, tally(&self.from, table).await?.rows);
        }
        Ok(tables)
    }

    /// Gives the first store back, and says what to do with the other.
    pub(super) async fn abandon(&self) -> Result<String, Stop> {
        let (from, to) = self.parts().await?;
        let Some(from) = from.filter(|part| part.stage == MoveStage::Leaving && part.other == self.to.name) else {
            return Err(conflict(format!("{} is not being moved to {}", self.from.name, self.to.name)));
        };
        let to = to.filter(|part| part.id == from.id);
        let mut remedy = "";
        match to.map(|part| part.stage) {
            Some(MoveStage::Arrived) => {
                return Err(conflict("everything has arrived; run the same command without --abandon to finish"));
            }
            Some(MoveStage::Arriving) if self.progress().await?.is_empty() => {
                self.to.store.stay().await.map_err(|error| self.to.refused(error))?;
            }
            Some(_) => {
                remedy = "; throw the other one away, it holds a part only";
                let why = format!(
                    "a move of {} into it was given up at {}, so that it holds a part only; throw it away",
                    self.from.name,
                    Timestamp::now()
                );
                self.to.store.refuse_more(&why).await.map_err(|error| self.to.refused(error))?;
            }
            None => {}
        }
        self.from.store.stay().await.map_err(|error| self.from.refused(error))?;
        Ok(format!("{} goes on as before{remedy}", self.from.name))
    }
}

/// Everything that a store has of a table.
async fn tally(side: &Side, table: &'static Table) -> Result<Tally, Stop> {
    let mut seen = Carried::nothing(table);
    while !seen.whole {
        let page = side.store.rows_after(table, seen.after.as_deref()).await;
        seen = seen.with(table, &page.map_err(|error| side.refused(error))?);
    }
    Ok(seen.tally)
}

/// Tries again while the store is too busy: whoever freezes has to wait for those who write.
async fn patiently(attempt: impl AsyncFn() -> Result<(), StoreError>) -> Result<(), StoreError> {
    let began = Instant::now();
    loop {
        match attempt().await {
            Err(StoreError::Unavailable(_)) if began.elapsed() < BUSY => sleep(LOOK).await,
            done => return done,
        }
    }
}
