//! `punctual move` beside others: a second mover, somebody who gives it up, readers; and what became of the other store.

use crate::move_stores::{LINES, complaint, move_args, move_until, moved, refused, transfer};
use crate::process::{Ear, Worker};
use crate::serve::punctual;
use crate::world::{World, on_both_stores};
use punctual_core::freeze::FreezeLevel;
use punctual_core::job::NewJob;
use punctual_core::store::StoreError;
use punctual_core::transfer::tables::TABLES;
use punctual_core::transfer::{Carried, Move, MoveStage, Transfer};
use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{Child, ChildStderr, Stdio};
use uuid::Uuid;

/// One that is empty here, and that nothing refers to: a mover touches it when it freezes and when it compares.
const QUIET: &str = "cron_presets";

fn part(id: u128, stage: MoveStage) -> Move {
    Move { id: Uuid::from_u128(id), stage, other: "there".to_owned(), began_at: jiff::Timestamp::UNIX_EPOCH }
}

fn id(id: u128) -> Uuid {
    Uuid::from_u128(id)
}

async fn level(store: &dyn Transfer) -> Option<FreezeLevel> {
    store.frozen().await.unwrap().map(|freeze| freeze.level)
}

async fn stands(store: &dyn Transfer) -> Option<(u128, MoveStage)> {
    store.part_in_move().await.unwrap().map(|part| (part.id.as_u128(), part.stage))
}

on_both_stores! {
    async fn c12_a_store_leaves_and_stays_only_by_its_own_move(world: &World) {
        use MoveStage::{Leaving, Left, Staying};
        let store = transfer(world).await;
        store.freeze(FreezeLevel::Starts, "hands off").await.unwrap();
        let tried = store.begin_to_leave(&part(1, Leaving), "it leaves").await;
        assert_eq!(tried, Err(StoreError::Frozen { why: "hands off".to_owned() }));
        assert_eq!((stands(&*store).await, level(&*store).await), (None, Some(FreezeLevel::Starts)));
        store.thaw().await.unwrap();

        store.begin_to_leave(&part(1, Leaving), "it leaves").await.unwrap();
        assert!(store.begin_to_leave(&part(2, Leaving), "it leaves").await.is_err(), "one mover is enough");
        assert!(store.begin_to_arrive(&part(2, MoveStage::Arriving), "it comes").await.is_err());
        assert!(store.stop_writing(id(2), "it is gone").await.is_err());
        assert!(store.note_left(id(2), "it is gone").await.is_err());
        assert!(store.begin_to_stay(id(2)).await.is_err());
        assert!(store.stay(id(1)).await.is_err(), "whoever gives it back says so first");
        assert!(store.arrive(id(1)).await.is_err());
        assert!(store.refuse_more(id(1), "no").await.is_err());
        assert_eq!((stands(&*store).await, level(&*store).await), (Some((1, Leaving)), Some(FreezeLevel::Starts)));
        store.stop_writing(id(1), "it is gone").await.unwrap();
        store.stop_writing(id(1), "it is gone").await.expect("once more changes nothing");

        store.begin_to_stay(id(1)).await.unwrap();
        assert!(store.stop_writing(id(1), "it is gone").await.is_err(), "nobody carries on");
        assert!(store.stay(id(2)).await.is_err());
        assert_eq!((stands(&*store).await, level(&*store).await), (Some((1, Staying)), Some(FreezeLevel::Writes)));
        store.stay(id(1)).await.unwrap();
        assert!(store.stop_writing(id(1), "it is gone").await.is_err());
        assert!(store.note_left(id(1), "it is gone").await.is_err());
        assert_eq!((stands(&*store).await, level(&*store).await), (None, None));

        store.begin_to_leave(&part(3, Leaving), "it leaves").await.unwrap();
        store.stop_writing(id(3), "it is gone").await.unwrap();
        store.begin_to_stay(id(3)).await.unwrap();
        store.note_left(id(3), "it is gone").await.expect("it was given up too late");
        assert!(store.begin_to_stay(id(3)).await.is_err());
        assert!(store.begin_to_leave(&part(4, Leaving), "it leaves").await.is_err());
        assert_eq!((stands(&*store).await, level(&*store).await), (Some((3, Left)), Some(FreezeLevel::Writes)));
    }

    async fn c12_a_store_takes_in_only_what_its_own_move_brings_until_it_is_given_up(world: &World) {
        use MoveStage::{Abandoned, Arriving};
        let store = transfer(world).await;
        store.begin_to_arrive(&part(1, Arriving), "it comes").await.unwrap();
        assert!(store.begin_to_arrive(&part(1, Arriving), "it comes").await.is_err());
        assert!(store.begin_to_leave(&part(2, MoveStage::Leaving), "it leaves").await.is_err());
        store.stay(id(1)).await.expect("nothing has come");
        assert_eq!((stands(&*store).await, level(&*store).await), (None, None));

        store.begin_to_arrive(&part(1, Arriving), "it comes").await.unwrap();
        let (nothing, all) = (Carried::nothing(&TABLES[0]), Carried::nothing(&TABLES[0]).with(&TABLES[0], &[]));
        assert!(store.take_in(id(2), &TABLES[0], Vec::new(), &nothing, &all).await.is_err());
        assert!(store.arrive(id(2)).await.is_err());
        assert!(store.refuse_more(id(2), "no").await.is_err());
        store.take_in(id(1), &TABLES[0], Vec::new(), &nothing, &all).await.unwrap();
        assert!(store.stay(id(1)).await.is_err(), "something has come");
        store.refuse_more(id(1), "given up").await.unwrap();
        assert!(store.arrive(id(1)).await.is_err(), "whoever still compares is too late");
        assert!(store.take_in(id(1), &TABLES[1], Vec::new(), &nothing, &all).await.is_err());
        assert_eq!((stands(&*store).await, level(&*store).await), (Some((1, Abandoned)), Some(FreezeLevel::Writes)));
    }

    async fn c12_what_has_arrived_has_still_arrived_when_it_leaves_again_and_stays(world: &World) {
        use MoveStage::{Arrived, Arriving, Leaving, Left};
        let store = transfer(world).await;
        store.begin_to_arrive(&part(1, Arriving), "it comes").await.unwrap();
        store.arrive(id(1)).await.unwrap();
        for attempt in [2, 3] {
            store.begin_to_leave(&part(attempt, Leaving), "it leaves").await.unwrap();
            assert_eq!(stands(&*store).await, Some((attempt, Leaving)));
            store.begin_to_stay(id(attempt)).await.unwrap();
            store.stay(id(attempt)).await.unwrap();
            assert_eq!((stands(&*store).await, level(&*store).await), (Some((1, Arrived)), None));
        }
        assert!(store.refuse_more(id(1), "no").await.is_err(), "it is too late to give that up");
        store.begin_to_leave(&part(4, Leaving), "it leaves").await.unwrap();
        store.stop_writing(id(4), "it is gone").await.unwrap();
        store.note_left(id(4), "it is gone").await.unwrap();
        assert_eq!(stands(&*store).await, Some((4, Left)));
        assert_eq!(world.number("SELECT count(*) FROM {moves}").await, 1);
    }

    async fn c12_a_frozen_store_of_an_older_schema_says_with_what_to_finish(world: &World) {
        world.store.freeze(FreezeLevel::Starts, "it is being moved").await.unwrap();
        let forget = "DELETE FROM {migrations} WHERE number = (SELECT max(number) FROM {migrations})";
        world.execute(forget, forget).await;
        let known = world.number("SELECT max(number) FROM {migrations}").await;
        let said = punctual::open(&world.url).await.err().expect("it is not migrated").to_string();
        assert!(said.contains(&format!("it is being moved; its schema is still {known}")), "{said}");
    }
}

/// A mover at work, and what it says.
struct Mover {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Mover {
    fn start(from: &World, to: &World, more: &[&str]) -> Self {
        let args: Vec<&str> = move_args(from, to).into_iter().chain(more.iter().copied()).collect();
        let mut child = punctual(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines }
    }

    fn until(&mut self, words: &str) {
        let said: Vec<String> =
            self.lines.by_ref().map(Result::unwrap).take_while(|line| !line.contains(words)).collect();
        assert!(self.child.try_wait().unwrap().is_none(), "it ended before it said {words:?}: {said:?}");
    }

    fn end(mut self) -> (Option<i32>, String) {
        let said: Vec<String> = self.lines.by_ref().map(Result::unwrap).collect();
        let mut told = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
        (self.child.wait().unwrap().code(), said.join("\n") + &told)
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A job that runs until it is let go.
struct Held {
    _worker: Worker,
    folder: tempfile::TempDir,
}

impl Held {
    async fn on(world: &World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let worker = Worker::start(world, &Ear::new());
        let script = format!("until [ -e '{}/go' ]; do sleep 0.02; done", folder.path().display());
        world.store.enqueue_jobs(vec![NewJob::new(world.script(&script))]).await.unwrap();
        world.until("SELECT count(*) FROM {running} WHERE node_id IS NOT NULL", |running| running == 1).await;
        Self { _worker: worker, folder }
    }

    fn let_go(&self) {
        std::fs::write(self.folder.path().join("go"), "").unwrap();
    }
}

/// A mover that compares, and cannot end that before the client is gone.
async fn comparing(from: &World, to: &World) -> (Mover, tokio_postgres::Client) {
    let held = Held::on(from).await;
    let mut mover = Mover::start(from, to, &[]);
    mover.until("waiting for 1 running job");
    let client = to.database().connect().await;
    client.batch_execute(&format!("BEGIN; LOCK TABLE punctual_internal.{QUIET}")).await.unwrap();
    held.let_go();
    let waits = format!("SELECT count(*) FROM pg_locks WHERE relation = '{{{QUIET}}}'::regclass AND NOT granted");
    to.until(&waits, |waiting| waiting > 0).await;
    (mover, client)
}

async fn assert_open(world: &World) {
    assert_eq!(world.store.frozen().await, Ok(None), "{}", world.url);
    world.store.enqueue_jobs(vec![NewJob::new(world.target())]).await.unwrap();
}

async fn given_up_beside_one_who_waits(from: World, to: World) {
    let held = Held::on(&from).await;
    let mut mover = Mover::start(&from, &to, &[]);
    mover.until("waiting for 1 running job");
    let third = World::on_sqlite().await;
    refused(&moved(&from, &third, &[]), 4, "is being moved to");
    refused(&moved(&from, &third, &["--abandon"]), 4, &format!("but to {}", to.url));
    assert_open(&third).await;
    let given_up = moved(&from, &to, &["--abandon"]);
    assert!(given_up.status.success(), "{}", complaint(&given_up));
    let (code, said) = mover.end();
    assert!(code == Some(4) && said.contains("was given up"), "{code:?} {said}");
    held.let_go();
    assert_open(&from).await;
    assert_open(&to).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_move_from_sqlite_that_waits_is_given_up_by_somebody_else() {
    given_up_beside_one_who_waits(World::on_sqlite().await, World::on_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_move_from_postgresql_that_waits_is_given_up_by_somebody_else() {
    given_up_beside_one_who_waits(World::on_postgres().await, World::on_sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a04_a_move_that_compares_and_is_given_up_opens_one_store_only() {
    let (from, to) = (World::on_sqlite().await, World::on_postgres().await);
    let (mover, client) = comparing(&from, &to).await;
    let given_up = moved(&from, &to, &["--abandon"]);
    assert!(given_up.status.success(), "{}", complaint(&given_up));
    assert_open(&from).await;
    client.batch_execute("ROLLBACK").await.unwrap();
    let (code, said) = mover.end();
    assert!(code == Some(4) && said.contains("was given up"), "{code:?} {said}");
    assert_open(&from).await;
    let frozen = to.store.frozen().await.unwrap().expect("it holds a part only");
    assert!(frozen.why.contains("given up"), "{frozen:?}");
}

/// Keeps the first store from noting anything while something is done.
async fn killed_before_it_was_noted(from: &World, to: &World) {
    let (mut mover, client) = comparing(from, to).await;
    let go_on = async |client: tokio_postgres::Client| {
        client.batch_execute("ROLLBACK").await.unwrap();
        mover.until("everything has arrived");
        mover.kill();
    };
    if from.url.starts_with("sqlite:") {
        let holds = rusqlite::Connection::open(from.file()).unwrap();
        holds.execute_batch("BEGIN IMMEDIATE").unwrap();
        go_on(client).await;
    } else {
        let holds = from.database().connect().await;
        holds.batch_execute("BEGIN; LOCK TABLE punctual_internal.moves IN EXCLUSIVE MODE").await.unwrap();
        go_on(client).await;
    }
}

async fn first_store_stays_closed(from: World, to: World) {
    killed_before_it_was_noted(&from, &to).await;
    let store = transfer(&from).await;
    assert_eq!(stands(&*store).await.map(|(_, stage)| stage), Some(MoveStage::Leaving), "it does not know yet");
    assert_open(&to).await;
    let third = World::on_sqlite().await;
    assert_eq!(move_until(&to, &third, LINES), None, "it was killed on its way");
    refused(&moved(&from, &to, &[]), 4, "another move");
    refused(&moved(&from, &to, &["--abandon"]), 4, "another move");
    let given_up = moved(&to, &third, &["--abandon"]);
    assert!(given_up.status.success(), "{}", complaint(&given_up));
    assert_open(&to).await;
    refused(&moved(&from, &to, &["--abandon"]), 4, "everything has arrived");
    assert_eq!(level(&*store).await, Some(FreezeLevel::Writes));
    let done = moved(&from, &to, &[]);
    assert!(done.status.success(), "{}", complaint(&done));
    assert_eq!(stands(&*store).await.map(|(_, stage)| stage), Some(MoveStage::Left));
    assert_eq!(level(&*store).await, Some(FreezeLevel::Writes));
    assert_open(&to).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a04_a_move_killed_before_sqlite_knows_that_it_has_left_never_opens_it_again() {
    first_store_stays_closed(World::on_sqlite().await, World::on_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a04_a_move_killed_before_postgresql_knows_that_it_has_left_never_opens_it_again() {
    first_store_stays_closed(World::on_postgres().await, World::on_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_move_is_given_up_without_the_other_store_only_if_that_is_said() {
    let (from, to) = (World::on_sqlite().await, World::on_postgres().await);
    let store = transfer(&from).await;
    let leaving = Move { other: to.url.clone(), ..part(1, MoveStage::Leaving) };
    store.begin_to_leave(&leaving, "it leaves").await.unwrap();
    assert_open(&to).await;
    refused(&moved(&from, &to, &[]), 4, "is not empty");
    refused(&moved(&from, &to, &[]), 4, "is still frozen");
    refused(&moved(&from, &to, &["--abandon"]), 4, "it cannot be known");
    assert_eq!(level(&*store).await, Some(FreezeLevel::Starts), "whoever has not frozen it does not thaw it");
    let lost = |url: &str| {
        punctual(&["move", "--from", &from.url, "--to", url, "--abandon", "--target-is-lost"]).output().unwrap()
    };
    refused(&lost("postgres://nobody@127.0.0.1:1/x"), 4, &format!("but to {}", to.url));
    let given_up = lost(&to.url);
    let said = String::from_utf8_lossy(&given_up.stdout).into_owned();
    assert!(given_up.status.success() && said.contains("nothing must ever be started on"), "{said}");
    assert_open(&from).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_whoever_gives_a_store_back_waits_for_those_who_read_it() {
    let (from, to) = (World::on_postgres().await, World::on_sqlite().await);
    let leaving = Move { other: to.url.clone(), ..part(1, MoveStage::Leaving) };
    transfer(&from).await.begin_to_leave(&leaving, "it leaves").await.unwrap();
    let reader = from.database().connect().await;
    reader.batch_execute("BEGIN; SELECT count(*) FROM punctual_internal.running").await.unwrap();
    let mut giver = Mover::start(&from, &to, &["--abandon"]);
    giver.until("waiting for others who use");
    reader.batch_execute("COMMIT").await.unwrap();
    let (code, said) = giver.end();
    assert_eq!(code, Some(0), "{said}");
    assert_open(&from).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_file_that_a_move_makes_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (from, folder) = (World::on_sqlite().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("new.db");
    let to = format!("sqlite:{}", file.display());
    let done = punctual(&["move", "--from", &from.url, "--to", &to]).output().unwrap();
    assert!(done.status.success(), "{}", complaint(&done));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}
