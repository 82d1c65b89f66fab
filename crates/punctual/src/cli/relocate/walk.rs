//! The steps of a move, each durable in the stores before the next begins, so that it can be killed between any two.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use MoveStage::{Abandoned, Arrived, Arriving, Leaving, Left, Staying};
use jiff::Timestamp;
use punctual_core::freeze::FreezeLevel;
use punctual_core::store::StoreError;
use punctual_core::transfer::tables::{TABLES, Table};
use punctual_core::transfer::{Carried, Move, MoveStage, Tally, Transfer, overtaken};
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

/// For people, who need no more.
fn this_second() -> Timestamp {
    let now = Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now)
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
            self.begin_to_arrive(id, standing == Standing::New).await?;
        }
        if let Standing::New | Standing::Leaving(_) | Standing::Carrying(_) = standing {
            walked.cut = self.stop_writing(id).await?;
            self.carry(id).await?;
            walked.tables = self.compare().await?;
            self.to.patiently(self.patience(), async |store| store.arrive(id).await).await?;
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
                this_second(),
                self.to.name
            );
            self.from.patiently(self.patience(), async |store| store.note_left(id, &why).await).await?;
        }
        Ok(walked)
    }

    /// What went wrong, and in which state that leaves the first store.
    pub(super) async fn with_state(&self, stop: Stop) -> Stop {
        let Stop::Failed(exit, words) = stop else { return stop };
        let ours = |part: &Move| matches!(part.stage, Leaving | Staying) && part.other == self.to.name;
        match self.from.store.part_in_move().await {
            Ok(part) if part.as_ref().is_some_and(ours) => {
                let told =
                    format!("{} is still frozen: the same command goes on, and --abandon frees it", self.from.name);
                Stop::Failed(exit, format!("{words}\n{told}"))
            }
            _ => Stop::Failed(exit, words),
        }
    }

    /// How long it may take to open a store again: whoever reads it for long, as a dump does, has to end first.
    fn patience(&self) -> Duration {
        self.wait.max(BUSY)
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
        let other = if stage == Leaving { &self.to.name } else { &self.from.name };
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
        let part = self.part(id, Leaving);
        self.from.patiently(BUSY, async |store| store.begin_to_leave(&part, &why).await).await?;
        say(&format!("{} fires and claims nothing any more", self.from.name));
        Ok(id)
    }

    /// The first store is given back when it cannot be done, but only by whoever has just frozen it: nobody else can know
    /// what became of the move meanwhile.
    async fn begin_to_arrive(&self, id: Uuid, has_begun_it: bool) -> Result<(), Stop> {
        let (_, to) = self.parts().await?;
        if to.is_some_and(|to| to.id == id && to.stage == Leaving) {
            self.give_back(id).await?;
            return Err(conflict("--from and --to are the same store; name another one with --to"));
        }
        let why = format!(
            "{} is being moved into it, and is not here yet; let `punctual move --from {} --to {}` finish that",
            self.from.name, self.from.name, self.to.name
        );
        let part = self.part(id, Arriving);
        let begun = self.to.patiently(BUSY, async |store| store.begin_to_arrive(&part, &why).await).await;
        if begun.is_err() && has_begun_it && self.parts().await?.1.is_none() {
            self.give_back(id).await?;
        }
        begun
    }

    /// Waits for what runs, and stops all writing; says how many jobs were cut off.
    async fn stop_writing(&self, id: Uuid) -> Result<u64, Stop> {
        let stopped = self.wait_and_stop_writing(id).await;
        if stopped.is_err() {
            // Whoever gave the move up may have looked at the other store before it was told of it. If it has another
            // part, or rows have come, it refuses.
            let _as_it_is = self.to.store.stay(id).await;
        }
        stopped
    }

    async fn wait_and_stop_writing(&self, id: Uuid) -> Result<u64, Stop> {
        let frozen = self.from.store.frozen().await.map_err(|error| self.from.refused(error))?;
        let stopped = frozen.is_some_and(|freeze| freeze.level == FreezeLevel::Writes);
        let still = if stopped { 0 } else { self.wait_for_jobs(id).await? };
        let why = format!(
            "it is being moved to {}, and nothing is written meanwhile; `punctual move --from {} --to {}` goes on with \
             that, and gives it up with --abandon",
            self.to.name, self.from.name, self.to.name
        );
        // Once more if that was done before, because the store looks whether it is still leaving.
        self.from.patiently(BUSY, async |store| store.stop_writing(id, &why).await).await?;
        if !stopped {
            say(&format!("{} writes nothing any more", self.from.name));
        }
        Ok(still)
    }

    async fn wait_for_jobs(&self, id: Uuid) -> Result<u64, Stop> {
        let (began, mut said) = (Instant::now(), 0);
        loop {
            let part = self.from.store.part_in_move().await.map_err(|error| self.from.refused(error))?;
            if !part.is_some_and(|part| part.id == id && part.stage == Leaving) {
                return Err(self.from.refused(overtaken()));
            }
            let still = self.from.store.jobs_at_work().await.map_err(|error| self.from.refused(error))?;
            if still == 0 {
                return Ok(0);
            }
            if began.elapsed() >= self.wait {
                return if self.cut { Ok(still) } else { Err(self.give_up(id, still).await?) };
            }
            if still != said {
                say(&format!("waiting for {still} running {}", if still == 1 { "job" } else { "jobs" }));
                said = still;
            }
            sleep(LOOK).await;
        }
    }

    /// Nothing has been carried yet: both stores are as they were.
    async fn give_up(&self, id: Uuid, still: u64) -> Result<Stop, Stop> {
        self.give_back(id).await?;
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

    async fn carry(&self, id: Uuid) -> Result<(), Stop> {
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
                let taken = self.to.store.take_in(id, table, page, &carried, &next).await;
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
        let from = part_to_abandon(&self.from, &self.to.name).await?;
        let to = self.to.store.part_in_move().await.map_err(|error| self.to.refused(error))?;
        let unknown = match &to {
            Some(to) if to.id != from.id => format!("has a part in another move, with {}", to.other),
            Some(_) => String::new(),
            None => match self.to.store.table_in_use().await.map_err(|error| self.to.refused(error))? {
                Some(table) => format!("knows nothing of this move, but there are rows in its `{table}`"),
                None => String::new(),
            },
        };
        if !unknown.is_empty() {
            return Err(conflict(format!(
                "--to {} {unknown}, so that it cannot be known whether everything has arrived there; if nothing has, \
                 {LOST} frees --from",
                self.to.name
            )));
        }
        let remedy =
            if self.give_back(from.id).await? { "; throw the other one away, it holds a part only" } else { "" };
        Ok(format!("{} goes on as before{remedy}", self.from.name))
    }

    /// Ends the move in the other store, and after that in the first one; says whether rows are left in the other.
    async fn give_back(&self, id: Uuid) -> Result<bool, Stop> {
        self.from.patiently(BUSY, async |store| store.begin_to_stay(id).await).await?;
        let to = self.to.store.part_in_move().await.map_err(|error| self.to.refused(error))?;
        let holds_a_part = match to.filter(|to| to.id == id).map(|to| to.stage) {
            Some(Arrived) => {
                return Err(conflict("everything has arrived; run the same command without --abandon to finish"));
            }
            Some(Arriving) if self.progress().await?.is_empty() => {
                self.free_target(id).await?;
                false
            }
            Some(Arriving | Abandoned) => {
                let why = format!(
                    "a move of {} into it was given up at {}, so that it holds a part only; throw it away",
                    self.from.name,
                    this_second()
                );
                self.to.patiently(BUSY, async |store| store.refuse_more(id, &why).await).await?;
                true
            }
            Some(Leaving | Staying | Left) | None => false,
        };
        self.from.patiently(self.patience(), async |store| store.stay(id).await).await?;
        Ok(holds_a_part)
    }

    /// Frees the other store, into which nothing has come yet. The mover who learns that his move is given up does so
    /// as well, and may be first.
    async fn free_target(&self, id: Uuid) -> Result<(), Stop> {
        let freed = self.to.patiently(self.patience(), async |store| store.stay(id).await).await;
        let (_, to) = self.parts().await?;
        if to.is_some_and(|to| to.id == id) { freed } else { Ok(()) }
    }
}

/// How a move is given up whose other side cannot be asked.
const LOST: &str = "`--abandon --target-is-lost`";

/// The part of a store that is to be given back from its way to another one.
async fn part_to_abandon(from: &Side, to: &str) -> Result<Move, Stop> {
    let part = from.store.part_in_move().await.map_err(|error| from.refused(error))?;
    match part.filter(|part| matches!(part.stage, Leaving | Staying)) {
        Some(part) if part.other == to => Ok(part),
        Some(Move { other, .. }) => {
            Err(conflict(format!("{} is not being moved to {to}, but to {other}; name that one with --to", from.name)))
        }
        None => Err(conflict(format!("{} is not being moved to {to}", from.name))),
    }
}

/// Gives a store back without asking the other one, which nobody can reach any more.
pub(super) async fn abandon_lost(from: &Side, to: &str, wait: Duration) -> Result<String, Stop> {
    let id = part_to_abandon(from, to).await?.id;
    from.patiently(BUSY, async |store| store.begin_to_stay(id).await).await?;
    from.patiently(wait.max(BUSY), async |store| store.stay(id).await).await?;
    let told =
        format!("{} goes on as before; nothing must ever be started on {to}, which may hold the same", from.name);
    Ok(format!("{told} jobs and schedules: should it come back, throw it away"))
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

impl Side {
    /// Tries again while the store is too busy: whoever freezes has to wait for those who write, and whoever thaws for those
    /// who read as well.
    async fn patiently(
        &self, patience: Duration, attempt: impl AsyncFn(&dyn Transfer) -> Result<(), StoreError>,
    ) -> Result<(), Stop> {
        let (began, mut has_said) = (Instant::now(), false);
        loop {
            match attempt(self.store.as_ref()).await {
                Err(StoreError::Unavailable(why)) if began.elapsed() < patience => {
                    if !std::mem::replace(&mut has_said, true) {
                        say(&format!("waiting for others who use {} ({why})", self.name));
                    }
                    sleep(LOOK).await;
                }
                done => return done.map_err(|error| self.refused(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_store_sqlite::{SqliteOptions, SqliteStore};
    use std::sync::Arc;

    fn side(folder: &tempfile::TempDir, option: &'static str) -> Side {
        let path = folder.path().join(option);
        let store = SqliteStore::open(&path, SqliteOptions::default()).expect("it can be made");
        Side { store: Arc::new(store), name: format!("sqlite:{}", path.display()), option }
    }

    #[tokio::test]
    async fn c12_whoever_gives_a_move_up_may_come_after_the_mover_who_learnt_of_it() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (from, to) = (side(&folder, "--from"), side(&folder, "--to"));
        let walk = Walk { from, to, wait: Duration::ZERO, cut: false };
        let id = walk.begin().await.expect("it begins");
        walk.begin_to_arrive(id, true).await.expect("it begins on the other side");
        walk.from.store.begin_to_stay(id).await.expect("it is being given up");
        walk.to.store.stay(id).await.expect("the mover frees the other side");
        walk.free_target(id).await.expect("which is free already");
        assert!(!walk.give_back(id).await.expect("and the first side is free as well"));
        assert_eq!(walk.from.store.frozen().await, Ok(None));
        let other = walk.begin().await.expect("a new move begins");
        walk.begin_to_arrive(other, true).await.expect("it begins on the other side");
        walk.free_target(id).await.expect("what is another move's is left alone");
        assert!(walk.to.store.frozen().await.expect("it can be asked").is_some());
    }
}
