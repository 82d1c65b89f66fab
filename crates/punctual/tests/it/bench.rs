//! `punctual bench` on both stores: figures of which every job is accounted for, and nothing that stays behind.

use crate::process::signal_process;
use crate::serve::punctual;
use crate::world::{World, on_both_stores};
use punctual_testkit::postgres::{Database, PgBouncer, PrivateServer};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};

/// Few jobs: what is shown here is that they are counted, not how fast they are.
const FEW: [&str; 4] = ["--jobs", "5", "--rounds", "3"];

const MEASURES: [&str; 9] = [
    "drain",
    "enqueue_single",
    "enqueue_callers",
    "enqueue_batched",
    "start_p50",
    "start_p99",
    "fire",
    "fire_claimers",
    "claim_p99",
];

/// Jobs of one side in one turn: one batch, and five of each other kind.
const JOBS_OF_A_TURN: i64 = 1000 + 2 * 5 + 2 * 5 + 5;

fn bench(database: &str, more: &[&str]) -> Output {
    let args = [&["bench", "--database", database][..], &FEW, more].concat();
    punctual(&args).output().unwrap()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn findings(output: &Output) -> Value {
    assert!(output.status.success(), "{}", complaint(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(output: &Output, code: i32, words: &str) {
    let said = complaint(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words), "`{words}` is not in: {said}");
}

/// The name of the database that was made, as the command said it.
fn named(said: &str) -> &str {
    let begins = said.find("punctual_bench_").unwrap_or_else(|| panic!("no database is named: {said}"));
    said[begins..].split([',', ';', ' ', '\n']).next().unwrap()
}

/// Whether the folder in which a file would be has anything of a look in it.
fn left_beside(file: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(file.parent().unwrap()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("bench")).collect()
}

async fn databases(database: &Database, name: &str) -> i64 {
    let client = database.connect().await;
    client.query_one("SELECT count(*) FROM pg_database WHERE datname = $1", &[&name]).await.unwrap().get(0)
}

async fn nothing_is_left(world: &World, said: &str) {
    if world.url.starts_with("sqlite:") {
        assert_eq!(left_beside(world.file()), Vec::<String>::new());
    } else {
        assert_eq!(databases(world.database(), named(said)).await, 0, "{said}");
    }
}

fn figure<'a>(found: &'a Value, measure: &str) -> &'a Value {
    let figures = found["figures"].as_array().unwrap();
    figures
        .iter()
        .find(|figure| figure["measure"] == measure)
        .unwrap_or_else(|| panic!("{measure} is missing: {found}"))
}

fn codes(found: &Value) -> Vec<&str> {
    found["verdict"].as_array().unwrap().iter().map(|remark| remark["code"].as_str().unwrap()).collect()
}

on_both_stores! {
    async fn a_look_accounts_for_every_job_and_leaves_nothing_behind(world: &World) {
        let output = bench(&world.url, &["--json"]);
        let found = findings(&output);
        for measure in MEASURES {
            let figure = figure(&found, measure);
            for side in ["raw", "punctual"] {
                assert!(figure[side].as_f64().unwrap() > 0.0, "{measure} {side}: {figure}");
            }
        }
        let counted = &found["accounted"];
        assert_eq!(counted["jobs"], counted["runs"], "{counted}");
        for none in ["queued", "running", "delayed"] {
            assert_eq!(counted[none], 0, "{counted}");
        }
        // Three rounds and a warm-up of two sides; each has five starts more that do not count.
        let at_least = 8 * JOBS_OF_A_TURN - 2 * 2;
        assert!(counted["jobs"].as_i64().unwrap() >= at_least, "{counted}, and at least {at_least}");
        assert!(codes(&found).contains(&"drain"), "{found}");
        // The file is durable, and the server that tests share is not.
        let is_durable = world.url.starts_with("sqlite:");
        assert_eq!(found["durable"], is_durable);
        assert_eq!(figure(&found, "drain")["ratio"].is_null(), !is_durable, "no ratio of what is not durable");
        assert_eq!(codes(&found).contains(&"not_durable"), !is_durable);
        nothing_is_left(world, &complaint(&output)).await;
        assert_eq!(world.number("SELECT count(*) FROM {jobs}").await, 0, "nobody's tables were touched");
        assert_eq!(world.number("SELECT count(*) FROM {queues}").await, 0);
    }

    async fn a_look_that_is_interrupted_leaves_nothing_behind(world: &World) {
        let args = ["bench", "--database", &world.url, "--jobs", "5", "--rounds", "20"];
        let mut child = punctual(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while !said.contains("round 2 of 20") {
            assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "it has ended: {said}");
        }
        signal_process(child.id(), "-INT");
        std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert!(output.stdout.is_empty() && said.contains("nothing is left behind"), "{said}");
        nothing_is_left(world, &said).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_server_gets_ratios_and_its_log_is_measured() {
    let server = PrivateServer::start(true);
    let found = findings(&bench(&server.url("postgres"), &["--json"]));
    assert_eq!(found["durable"], true);
    for measure in MEASURES.iter().chain(&["wal_per_job"]) {
        let figure = figure(&found, measure);
        let (ratio, raw) = (&figure["ratio"], figure["raw"].as_f64().unwrap());
        assert!(ratio["low"].as_f64() <= ratio["middle"].as_f64(), "{figure}");
        assert!(ratio["middle"].as_f64() <= ratio["high"].as_f64() || measure.contains("_p"), "{figure}");
        assert!(raw > 0.0 && figure["goal_met"].is_boolean(), "{figure}");
    }
    let settings = &found["settings"];
    assert_eq!([&settings["fsync"], &settings["synchronous_commit"], &settings["full_page_writes"]], ["on"; 3]);
    let table = bench(&server.url("postgres"), &[]);
    let text = String::from_utf8(table.stdout).unwrap();
    for words in ["How fast is postgres://", "drain, jobs/s", "fsync=on", "accounted for:", "verdict", "0 queued"] {
        assert!(text.contains(words), "`{words}` is not in:\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_make_no_database_names_an_empty_one() {
    let server = PrivateServer::start(false);
    let database = Database::empty_on(&server).await;
    let admin = database.connect().await;
    admin.batch_execute("CREATE ROLE modest LOGIN").await.unwrap();
    admin.batch_execute(&format!("ALTER DATABASE {} OWNER TO modest", database.name())).await.unwrap();
    let url = format!("postgres://modest@{}/{}", database.server(), database.name());
    let output = bench(&url, &["--json"]);
    refused(&output, 5, "CREATEDB");
    refused(&output, 5, "--in-this-database");
    let found = findings(&bench(&url, &["--json", "--in-this-database"]));
    assert_eq!(found["accounted"]["jobs"], found["accounted"]["runs"]);
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'punctual%'";
    let left: i64 = admin.query_one(schemas, &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "it is empty again");
    admin.batch_execute("CREATE TABLE mine (n bigint); INSERT INTO mine VALUES (7)").await.unwrap();
    refused(&bench(&url, &["--in-this-database"]), 4, "it is not empty");
    let kept: i64 = admin.query_one("SELECT n FROM mine", &[]).await.unwrap().get(0);
    assert_eq!(kept, 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_punctual_alone_is_measured() {
    let database = Database::empty().await;
    let pooler = PgBouncer::start(&database, 4);
    let found = findings(&bench(pooler.url(), &["--json", "--in-this-database"]));
    assert_eq!(found["pooled"], true);
    assert!(codes(&found).contains(&"pooler"), "{found}");
    let drain = figure(&found, "drain");
    assert!(drain["raw"].is_null() && drain["ratio"].is_null() && drain["punctual"].as_f64().unwrap() > 0.0, "{drain}");
    assert_eq!(found["accounted"]["queued"], 0);
}

/// An id that was made at an instant.
fn id_of(at: jiff::Timestamp) -> String {
    format!("{:012x}70008000000000000000", at.as_millisecond())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_earlier_look_left_is_named_with_the_way_to_be_rid_of_it() {
    let (now, hour) = (jiff::Timestamp::now(), jiff::SignedDuration::from_hours(1));
    let (old, new) = (id_of(now - 2 * hour), id_of(now));
    let folder = tempfile::tempdir().unwrap();
    for id in [&old, &new] {
        std::fs::create_dir(folder.path().join(format!(".punctual-bench-{id}"))).unwrap();
    }
    let said = complaint(&bench(&format!("sqlite:{}", folder.path().join("app.db").display()), &[]));
    assert!(said.contains("rm -r '") && said.contains(&old), "{said}");
    assert!(!said.contains(&new), "somebody may still be measuring there: {said}");
    let server = PrivateServer::start(false);
    let database = Database::empty_on(&server).await;
    let admin = database.connect().await;
    for id in [&old, &new] {
        admin.batch_execute(&format!("CREATE DATABASE punctual_bench_{id}")).await.unwrap();
    }
    let said = complaint(&bench(&server.url("postgres"), &[]));
    assert!(said.contains(&format!("DROP DATABASE punctual_bench_{old}")), "{said}");
    assert!(!said.contains(&new), "{said}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_to_do() {
    refused(&bench("carrier-pigeon://home", &[]), 2, "use sqlite:PATH or postgres://");
    refused(&bench("sqlite::memory:", &[]), 2, "use sqlite:PATH");
    refused(&bench("sqlite:app.db", &["--in-this-database"]), 2, "is for PostgreSQL");
    refused(&bench("sqlite:/nowhere/at/all/app.db", &[]), 1, "name another file");
    let secret = bench("postgres://somebody:secret@127.0.0.1:1/db", &[]);
    refused(&secret, 6, "127.0.0.1");
    assert!(!complaint(&secret).contains("secret"));
}
