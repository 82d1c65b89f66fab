//! `punctual move` with real processes: under load and killed again and again, in every direction; and what it refuses.

use crate::cli::{Place, tell_all};
use crate::process::{Ear, Worker};
use crate::serve::punctual;
use crate::world::World;
use punctual_core::freeze::FreezeLevel;
use punctual_core::job::{JobState, NewJob};
use punctual_core::run::ErrorCode;
use punctual_core::schedule::ByHand;
use punctual_core::transfer::tables::TABLES;
use punctual_core::transfer::{Carried, Row, Transfer};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// After how many lines a mover is killed: few, so that it dies often.
pub const LINES: usize = 4;

pub fn move_args<'a>(from: &'a World, to: &'a World) -> Vec<&'a str> {
    vec!["move", "--from", &from.url, "--to", &to.url]
}

pub fn moved(from: &World, to: &World, more: &[&str]) -> Output {
    let args: Vec<&str> = move_args(from, to).into_iter().chain(more.iter().copied()).collect();
    punctual(&args).output().unwrap()
}

pub fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn refused(output: &Output, code: i32, words: &str) {
    let said = complaint(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words), "{said}");
}

/// Begins or goes on, and kills the mover with its n-th line; what it says when it was done before that.
pub fn move_until(from: &World, to: &World, lines: usize) -> Option<serde_json::Value> {
    let args: Vec<&str> = move_args(from, to).into_iter().chain(["--json"]).collect();
    let mut child = punctual(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let said: Vec<String> = stderr.lines().take(lines).map(Result::unwrap).collect();
    if said.len() == lines {
        child.kill().unwrap();
    }
    let mut told = String::new();
    child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    let ended = child.wait().unwrap();
    if said.len() < lines {
        assert!(ended.success(), "{said:?}");
        return Some(serde_json::from_str(&told).unwrap());
    }
    None
}

/// Every second since the first slot of a schedule is decided once, whatever became of it.
async fn assert_slots_without_gap(world: &World) {
    for schedule in world.store.schedules(None, 100).await.unwrap() {
        let mut rows = world.store.slots(schedule.id, None, 100_000).await.unwrap();
        rows.sort_by_key(|row| row.slot_at);
        assert!(rows.len() > 3, "{} has fired", schedule.definition.name);
        for (row, next) in rows.iter().zip(&rows[1..]) {
            let gap = next.slot_at.duration_since(row.through);
            assert_eq!(gap.as_millis(), 1000, "{}: {row:?} and then {next:?}", schedule.definition.name);
        }
    }
}

async fn moved_under_load(from: World, to: World) {
    let to = to.with_effects_of(&from);
    from.schedule_every_second(3).await;
    let (first, second) = (from.produce(), from.produce());
    let ear = Ear::new();
    let mut old = Worker::start(&from, &ear);
    from.until("SELECT count(*) FROM {runs}", |runs| runs >= 60).await;
    let mut kills = 0;
    let told = loop {
        match move_until(&from, &to, LINES) {
            Some(told) => break told,
            None => kills += 1,
        }
    };
    assert!(kills >= 5, "it was killed {kills} times");
    let mut acknowledged = first.stop().await;
    acknowledged.extend(second.stop().await);
    for table in ["jobs", "runs", "slots", "schedules", "queue"] {
        let count = format!("SELECT count(*) FROM {{{table}}}");
        assert_eq!(from.number(&count).await, to.number(&count).await, "{table}");
    }
    assert_eq!(told["tables"]["jobs"], from.number("SELECT count(*) FROM {jobs}").await);
    assert_eq!((told["from"].as_str(), told["to"].as_str()), (Some(from.url.as_str()), Some(to.url.as_str())));
    assert!(!old.has_ended(), "whoever worked on the first store waits");
    let frozen = from.store.frozen().await.unwrap().expect("the first store stays frozen");
    assert!(frozen.level == FreezeLevel::Writes && frozen.why.contains("has moved to"), "{frozen:?}");
    refused(&punctual(&["worker", "--database", &from.url]).output().unwrap(), 4, "has moved to");
    refused(&moved(&from, &to, &["--abandon"]), 4, "is not being moved");
    assert!(moved(&from, &to, &[]).status.success(), "once more changes nothing");

    let new = Worker::start(&to, &ear);
    let since = to.number("SELECT count(*) FROM {slots}").await;
    to.until("SELECT count(*) FROM {slots}", |slots| slots >= since + 9).await;
    assert_slots_without_gap(&to).await;
    to.come_to_rest().await;
    to.check(&acknowledged).await;
    assert!(acknowledged.iter().all(|id| from.effects().get(id) == Some(&1)), "each had its effect once");
    assert_eq!(from.store.run_checks(10).await, Ok(Vec::new()));
    for world in [&from, &to] {
        let looked = punctual(&["doctor", "--database", &world.url]).output().unwrap();
        let said = String::from_utf8_lossy(&looked.stdout).into_owned();
        assert!(looked.status.success() && said.contains("nothing is wrong"), "{}: {said}", world.url);
    }
    drop((old, new));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a04_a_move_to_postgresql_under_load_and_killed_brings_everything_over_once() {
    moved_under_load(World::on_sqlite().await, World::on_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a04_a_move_to_sqlite_under_load_and_killed_brings_everything_over_once() {
    moved_under_load(World::on_postgres().await, World::on_sqlite().await).await;
}

pub async fn transfer(world: &World) -> Arc<dyn Transfer> {
    if world.url.starts_with("sqlite:") {
        return Arc::new(SqliteStore::from_url(&world.url, SqliteOptions::default()).unwrap());
    }
    Arc::new(PostgresStore::connect(&world.url, PostgresOptions::default()).await.unwrap())
}

/// Everything that a store holds, in its neutral form.
async fn contents(world: &World) -> BTreeMap<&'static str, Vec<Row>> {
    let (store, mut tables) = (transfer(world).await, BTreeMap::new());
    for table in TABLES.iter().filter(|table| store.has(table) && table.name != "owner_checks") {
        let (mut seen, mut rows) = (Carried::nothing(table), Vec::new());
        while !seen.whole {
            let page = store.rows_after(table, seen.after.as_deref()).await.unwrap();
            seen = seen.with(table, &page);
            rows.extend(page);
        }
        tables.insert(table.name, rows);
    }
    tables
}

/// What the story of all commands takes away again in its end, and what only a node leaves behind.
const MORE: [&str; 9] = [
    "calendar add feasts --tz Europe/Berlin --day 12-25=Christmas",
    "preset add payday '0 9 25 * *'",
    "limit set tag:cpu --concurrency 2 --per-node 1 --rate 10/1m --burst 3",
    "limit set queue:slow --concurrency 1",
    "flow add pair --sequential --step a=true --step 'b=echo 2'",
    "flow run pair",
    "job add --queue later --tag cpu --tag gpu --serial-key k --run-at 2099-01-01T00:00:00Z -- true",
    "queue pause held",
    "run --queue fails --attempts 1 -- false",
];

/// What neither the commands nor a node on this machine can fill: graphs, tasks of a program, and what is rare, as a time
/// that PostgreSQL has no place for.
const BY_HAND: &str = "
    UPDATE punctual_schedules SET starts_at = -346000000000000000;
    INSERT INTO punctual_alerts VALUES (randomblob(16), 'night', 'abc', '{\"b\": 1.0,  \"a\":[]}', 7);
    INSERT INTO punctual_artifacts SELECT id, 1, 'name', 'place', 3, 'ab' FROM punctual_jobs LIMIT 1;
    INSERT INTO punctual_artifact_contents SELECT id, 1, x'00ff10' FROM punctual_jobs LIMIT 1;
    INSERT INTO punctual_run_progress SELECT id, 5, 50, 'half 🌗' FROM punctual_jobs LIMIT 1;
    INSERT INTO punctual_step_memos SELECT id, 'one', '12345678901234567890.10', id, 5 FROM punctual_jobs LIMIT 1;
    INSERT INTO punctual_serial_holds SELECT 'other key', id, 5 FROM punctual_jobs LIMIT 1;
    INSERT INTO punctual_sessions SELECT randomblob(32), id, 5 FROM punctual_api_tokens LIMIT 1;
    INSERT INTO punctual_flow_items (flow_id, step, item, value) SELECT flow_id, step, 0, 'null' FROM punctual_flow_steps;
    INSERT INTO punctual_graph_runs
      SELECT randomblob(16), 'g', g.id, b.owner, b.name, '{}', 't', NULL, 3, 5, 6, NULL, NULL, '[1]', NULL
      FROM punctual_grants AS g, punctual_billing_accounts AS b LIMIT 1;
    INSERT INTO punctual_execution_requests SELECT 'key', randomblob(32), id, NULL, 'said' FROM punctual_graph_runs;
    INSERT INTO punctual_charge_receipts
      SELECT id, 1, 'tokens', 9, owner, billing_account, graph_id, grant_id, 5 FROM punctual_graph_runs;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c02_what_every_command_has_made_comes_through_both_stores_and_back_unchanged() {
    let (first, second, third) = (World::on_sqlite().await, World::on_postgres().await, World::on_sqlite().await);
    let mut place = Place::remote(&first);
    tell_all(&mut place);
    for line in MORE {
        let told = place.tell(line);
        assert!(told.status.success() || line.ends_with("false"), "{line}: {}", complaint(&told));
    }
    first.until("SELECT count(*) FROM {flow_runs} WHERE ended_at IS NOT NULL", |ended| ended > 0).await;
    // The server is killed, and with it what it runs.
    drop(place);
    rusqlite::Connection::open(first.file()).unwrap().execute_batch(BY_HAND).unwrap();
    let job = || NewJob { tags: vec!["cpu".to_owned(), "other".to_owned()], ..NewJob::new(first.target()) };
    // More than one page of them.
    first.store.enqueue_jobs((0..700).map(|_| job()).collect()).await.unwrap();
    let nightly = first.store.schedules(None, 1).await.unwrap()[0].id;
    first.store.trigger_schedule(nightly, ByHand::default()).await.unwrap();
    for (from, to) in [(&first, &second), (&second, &third)] {
        let done = moved(from, to, &["--wait", "1ms", "--cut"]);
        assert!(done.status.success(), "{}", complaint(&done));
        let (before, after) = (contents(from).await, contents(to).await);
        for (name, rows) in before.iter().filter(|(name, _)| !["nodes", "leases"].contains(name)) {
            assert_eq!(rows, &after[name], "{name}");
        }
        assert_eq!(before["nodes"].len(), after["nodes"].len());
        assert_eq!(to.store.run_checks(10).await, Ok(Vec::new()));
    }
    let empty: Vec<_> =
        contents(&first).await.into_iter().filter(|(_, rows)| rows.is_empty()).map(|(n, _)| n).collect();
    assert!(empty.is_empty(), "tables of which nothing was seen: {empty:?}");
    // What PostgreSQL derives: jobs find their limited lanes again, and keys can be locked.
    let tagged = "SELECT count(*) FROM {queue} AS q JOIN {lanes} AS l ON l.id = q.lane_id
                  WHERE q.tags IS NOT NULL AND l.tags = ARRAY['cpu'] AND cardinality(l.limits) > 0";
    assert_eq!(second.number(tagged).await, 700);
    let names = "SELECT count(*) FROM {scheduled_jobs}";
    let schedules = first.number("SELECT count(*) FROM {schedules} WHERE deleted_at IS NULL").await;
    assert_eq!(second.number(names).await, schedules, "and SQL sees the schedules");
    // Positions and lanes go on behind those that have come.
    let last = third.number("SELECT coalesce(max(position), 0) FROM {queue}").await;
    third.store.enqueue_jobs(vec![NewJob::new(third.target())]).await.unwrap();
    third.until("SELECT max(position) FROM {queue}", |position| position > last).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c09_what_still_runs_is_waited_for_or_cut_off_and_recovered_on_the_other_side() {
    let (from, to) = (World::on_sqlite().await, World::on_postgres().await);
    let to = to.with_effects_of(&from);
    let ear = Ear::new();
    let worker = Worker::start(&from, &ear);
    let script = from.script("echo \"$PUNCTUAL_JOB_ID\" >> \"$EFFECTS\"; exec sleep 600");
    let id = from.store.enqueue_jobs(vec![NewJob::new(script)]).await.unwrap()[0];
    while from.effects().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    refused(&moved(&from, &to, &["--wait", "1ms"]), 7, "1 job is still running");
    assert_eq!((from.store.frozen().await, to.store.frozen().await), (Ok(None), Ok(None)), "both go on");
    let done = moved(&from, &to, &["--wait", "1ms", "--cut"]);
    assert!(done.status.success(), "{}", complaint(&done));
    assert_eq!(to.store.job(id).await.unwrap().unwrap().state(), JobState::Running, "as it stood");
    let new = Worker::start(&to, &ear);
    while to.store.run(id).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let run = to.store.run(id).await.unwrap().unwrap();
    assert_eq!(run.error_code, Some(ErrorCode::NodeLost));
    assert_eq!(to.store.run_checks(10).await, Ok(Vec::new()));
    drop((worker, new));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_move_that_is_given_up_gives_the_first_store_back() {
    let (from, to) = (World::on_sqlite().await, World::on_postgres().await);
    from.store.enqueue_jobs(vec![NewJob::new(from.target())]).await.unwrap();
    refused(&moved(&from, &to, &["--abandon"]), 4, "is not being moved");
    assert_eq!(move_until(&from, &to, LINES), None, "it was killed on its way");
    refused(&punctual(&["worker", "--database", &to.url]).output().unwrap(), 4, "is being moved into it");
    let other = World::on_postgres().await;
    refused(&moved(&from, &other, &[]), 4, "is being moved to");
    let given_up = moved(&from, &to, &["--abandon"]);
    assert!(given_up.status.success(), "{}", complaint(&given_up));
    from.store.enqueue_jobs(vec![NewJob::new(from.target())]).await.expect("it is open again");
    refused(&moved(&from, &to, &[]), 4, "given up");
    refused(&punctual(&["worker", "--database", &to.url]).output().unwrap(), 4, "throw it away");
    let done = moved(&from, &other, &[]);
    assert!(done.status.success(), "{}", complaint(&done));
    assert_eq!(other.number("SELECT count(*) FROM {queue}").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_move_that_cannot_be_done_changes_nothing_and_says_why() {
    let (from, to) = (World::on_sqlite().await, World::on_postgres().await);
    refused(&moved(&from, &from, &[]), 2, "are the same store");
    refused(&moved(&to, &to, &[]), 2, "are the same store");
    let nowhere = punctual(&["move", "--from", "sqlite:/nowhere/x.db", "--to", &to.url]).output().unwrap();
    refused(&nowhere, 3, "there is no such file");
    refused(&punctual(&["move", "--from", &from.url, "--to", "mysql://x"]).output().unwrap(), 2, "use sqlite:PATH");
    let secret = "postgres://somebody:hunter2@127.0.0.1:1/x?password=hunter3";
    let unreachable = punctual(&["move", "--from", &from.url, "--to", secret]).output().unwrap();
    refused(&unreachable, 6, "postgres://somebody@127.0.0.1:1/x");
    assert!(!complaint(&unreachable).contains("hunter"), "{}", complaint(&unreachable));
    from.store.freeze(FreezeLevel::Starts, "hands off").await.unwrap();
    refused(&moved(&from, &to, &[]), 4, "frozen by somebody else: hands off");
    from.store.thaw().await.unwrap();
    to.store.enqueue_jobs(vec![NewJob::new(to.target())]).await.unwrap();
    refused(&moved(&from, &to, &[]), 4, "is not empty");
    assert_eq!((from.store.frozen().await, to.store.frozen().await), (Ok(None), Ok(None)));
    let localhost = from.url.replacen("sqlite:/", "sqlite:/./", 1);
    let twice = punctual(&["move", "--from", &from.url, "--to", &localhost]).output().unwrap();
    refused(&twice, 2, "are the same store");
}
