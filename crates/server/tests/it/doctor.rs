//! The doctor: silent about what is sound, and clear about what is not.

use crate::on_both_stores;
use crate::world::{World, run};
use jiff::{SignedDuration, Timestamp};
use punctual_core::access::Role;
use punctual_core::store::{Lease, NewNode};
use punctual_core::virtual_clock::VirtualClock;
use punctual_server::Settings;
use punctual_store_postgres::PostgresOptions;
use punctual_store_sqlite::SqliteOptions;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

on_both_stores! {
    c17_a_sound_store_with_a_live_node_has_no_findings,
    c17_a_broken_store_is_told_with_what_to_do,
    c17_work_that_nobody_would_take_is_told,
    c17_a_silent_node_does_not_count_as_alive,
    c17_what_a_person_may_have_forgotten_is_told,
    c17_only_an_admin_may_ask_the_doctor,
}

/// A node that shows signs of life for as long as it is kept.
struct Alive(tokio::task::JoinHandle<()>);

impl Alive {
    async fn register(world: &World, offers: &[&str]) -> Self {
        let lease = register(world, offers).await;
        let store = Arc::clone(&world.store);
        Self(tokio::spawn(async move {
            loop {
                store.heartbeat_if_leased(lease).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn register(world: &World, offers: &[&str]) -> Lease {
    let offers = offers.iter().map(|&offer| offer.to_owned()).collect();
    world.store.register_node(NewNode { name: "node".into(), offers }).await.unwrap()
}

fn task(name: &str) -> Value {
    json!({ "target": { "kind": "task", "name": name } })
}

fn nightly(name: &str, task: &str) -> Value {
    json!({ "name": name, "cron": "@daily", "target": { "kind": "task", "name": task } })
}

/// What is found, as codes with their subjects; each finding says what it means and what to do.
async fn found(world: &World, path: &str) -> Vec<(String, Vec<String>)> {
    let answer = world.get(path).await;
    let texts =
        |value: &Value| value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect();
    let findings = answer["findings"].as_array().unwrap();
    for finding in findings {
        for words in ["problem", "remedy"] {
            assert!(finding[words].as_str().is_some_and(|words| words.len() > 10), "{finding}");
        }
    }
    let worst = findings.first().map_or(&Value::Null, |finding| &finding["severity"]);
    assert_eq!(&answer["worst"], worst, "the worst come first");
    findings.iter().map(|finding| (finding["code"].as_str().unwrap().to_owned(), texts(&finding["subjects"]))).collect()
}

/// The codes of what is found.
async fn codes(world: &World) -> Vec<String> {
    found(world, "/doctor").await.into_iter().map(|(code, _)| code).collect()
}

async fn c17_a_sound_store_with_a_live_node_has_no_findings(world: &World) {
    assert_eq!(codes(world).await, [] as [&str; 0], "nothing waits, so nobody is missed");
    let _node = Alive::register(world, &["task:work"]).await;
    world.post("/schedules", &nightly("nightly", "work")).await.expect(201);
    world.post("/jobs", &task("work")).await.expect(201);
    let answer = world.get("/doctor").await;
    assert_eq!((&answer["findings"], &answer["worst"]), (&json!([]), &Value::Null));
    let looked: Vec<_> = answer["looked_at"].as_array().unwrap().iter().map(|look| look["what"].clone()).collect();
    let parts = ["clocks", "old snapshots", "every table, in one snapshot", "queues", "tokens", "nodes", "schedules"];
    assert_eq!(looked[..7], parts.map(Value::from));
    let quick = world.get("/doctor?quick=true").await;
    let looked: Vec<_> = quick["looked_at"].as_array().unwrap().iter().map(|look| look["what"].clone()).collect();
    assert_eq!(looked[..3], ["clocks", "old snapshots", "queues"].map(Value::from), "{quick}");
}

async fn c17_a_broken_store_is_told_with_what_to_do(world: &World) {
    let _node = Alive::register(world, &["task:work"]).await;
    let mut lost = Vec::new();
    for _ in 0..3 {
        lost.push(world.post("/jobs", &task("work")).await.expect(201)["id"].as_str().unwrap().to_owned());
    }
    let token = world.token_until("ada", Role::Viewer, Some(soon())).await;
    world.tamper("DELETE FROM {}queue").await;
    let all = found(world, "/doctor").await;
    let mut nowhere = all[0].1.clone();
    nowhere.sort();
    assert_eq!((all[0].0.as_str(), nowhere), ("job_nowhere", lost));
    assert_eq!(all[1].0, "token_expires", "what is broken comes first: {all:?}");
    let few = world.get("/doctor?limit=2").await["findings"][0].clone();
    assert_eq!((few["subjects"].as_array().unwrap().len(), &few["more"]), (2, &json!(true)));
    assert_eq!(found(world, "/doctor?quick=true").await.len(), 1, "the tables are not read");
    world.bare("GET", "/session").token(&token).send().await.expect(200);
}

async fn c17_work_that_nobody_would_take_is_told(world: &World) {
    world.post("/jobs", &task("typo")).await.expect(201);
    world.post("/schedules", &nightly("nightly", "other")).await.expect(201);
    let alone = found(world, "/doctor").await;
    assert_eq!(alone, [("no_live_node".into(), vec!["1 job queued".to_owned(), "1 schedule on".into()])]);
    let _node = Alive::register(world, &["task:work"]).await;
    let unmarked = [
        ("no_executor".to_owned(), vec!["nightly: no live node offers `task:other`".to_owned()]),
        ("jobs_without_executor".to_owned(), vec!["task:typo: 1 of those looked at".to_owned()]),
    ];
    assert_eq!(found(world, "/doctor").await, unmarked);
    // Nodes mark such schedules; it is told once all the same, beside what else is wrong with others.
    world.store.settle_offers(10).await.unwrap();
    world.post("/schedules", &nightly("broken", "work")).await.expect(201);
    world
        .tamper(
            "UPDATE {}schedule_state SET problem = 'no such zone'
             WHERE schedule_id = (SELECT id FROM {}schedules WHERE name = 'broken')",
        )
        .await;
    let marked = found(world, "/doctor").await;
    let codes: Vec<_> = marked.iter().map(|(code, _)| code.as_str()).collect();
    assert_eq!(codes, ["no_executor", "jobs_without_executor", "schedule_problem"]);
    assert!(marked[0].1[0].starts_with("nightly: no executor"), "{marked:?}");
    assert_eq!(marked[2].1, ["broken: no such zone"]);
}

async fn c17_a_silent_node_does_not_count_as_alive(world: &World) {
    world.post("/jobs", &task("work")).await.expect(201);
    register(world, &["task:work"]).await;
    assert_eq!(codes(world).await, ["node_silent", "no_live_node"]);
}

fn soon() -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(6 * 24)
}

async fn c17_what_a_person_may_have_forgotten_is_told(world: &World) {
    let _node = Alive::register(world, &["task:work"]).await;
    world.token_until("ada", Role::Operator, Some(soon())).await;
    world.token_until("late", Role::Operator, Some(soon() + SignedDuration::from_hours(48))).await;
    world.token_until("over", Role::Operator, Some(Timestamp::UNIX_EPOCH)).await;
    world.call("PATCH", "/queues/empty").json(&json!({ "paused": true })).send().await.expect(200);
    world.call("PATCH", "/queues/default").json(&json!({ "paused": true })).send().await.expect(200);
    world.post("/jobs", &task("work")).await.expect(201);
    let all = found(world, "/doctor").await;
    assert_eq!(all[0], ("queue_paused".into(), vec!["default: 1 job waiting".to_owned()]));
    assert_eq!((all[1].0.as_str(), all[1].1.len(), all.len()), ("token_expires", 1, 2));
    assert!(all[1].1[0].starts_with("test of ada, at 2"), "{all:?}");
}

async fn c17_only_an_admin_may_ask_the_doctor(world: &World) {
    let operator = world.token("ada", Role::Operator).await;
    assert_eq!(world.bare("GET", "/doctor").token(&operator).send().await.refused(403), "role_too_low");
    assert_eq!(world.call("GET", "/doctor?limit=0").send().await.refused(400), "bad_query");
}

/// A store whose clock stands where every virtual clock begins: months ago.
async fn c17_clocks_that_are_apart_are_told(world: World) {
    let all = found(&world, "/doctor").await;
    assert_eq!(all[0].0, "clock_skew");
    assert!(all[0].1[0].ends_with("ahead of the store"), "{all:?}");
}

#[test]
fn c17_clocks_that_are_apart_are_told_on_sqlite() {
    let options = SqliteOptions { clock: Arc::new(VirtualClock::new()), ..SqliteOptions::default() };
    run(async { c17_clocks_that_are_apart_are_told(World::on_sqlite(options, Settings::default()).await).await });
}

#[test]
fn c17_clocks_that_are_apart_are_told_on_postgres() {
    let options = PostgresOptions { clock: Some(Arc::new(VirtualClock::new())), ..PostgresOptions::default() };
    run(async { c17_clocks_that_are_apart_are_told(World::on_postgres(options, Settings::default()).await).await });
}
