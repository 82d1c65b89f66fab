//! Manifests where hands, other owners and other manifests come in between.

use crate::on_both_stores;
use crate::world::World;
use punctual_core::access::Role;
use serde_json::{Value, json};

on_both_stores! {
    c12_a_namesake_of_another_owner_is_not_the_manifests,
    c12_a_flow_of_the_same_name_is_not_the_manifests,
    d03_schedules_that_wait_in_a_ring_are_removed,
    d03_a_dependency_that_was_made_again_is_found,
    d03_null_in_an_input_is_not_nothing,
    d03_a_pause_by_hand_outlives_the_manifest,
    c12_a_unique_key_is_the_owners_whoever_applies,
    d03_what_others_need_is_not_planned_to_go,
    d11_a_schedule_that_is_only_depended_on_is_told_of_its_calendar,
    a15_every_graph_of_a_manifest_is_looked_at,
    e04_a_name_twice_is_refused,
    d03_fires_are_the_same_while_no_node_can_run_them,
    d03_what_is_over_is_not_written_down,
    d03_a_plan_lists_no_more_fires_than_can_be_read,
}

async fn send(world: &World, token: &str, path: &str, body: &Value) -> crate::client::Answer {
    world.bare("POST", path).token(token).json(body).send().await
}

async fn plan(world: &World, body: &Value) -> Value {
    world.post("/manifest/plan", body).await.expect(200)
}

async fn apply(world: &World, body: &Value) -> Value {
    world.post("/manifest/apply", body).await.expect(200)
}

fn asked(manifest: &Value) -> Value {
    json!({ "manifest": manifest })
}

fn pruned(manifest: &Value) -> Value {
    json!({ "manifest": manifest, "prune": true })
}

fn hourly() -> Value {
    json!({ "every": "1h", "target": { "kind": "task", "name": "t" } })
}

fn named(name: &str) -> Value {
    json!({ "name": name, "every": "1h", "target": { "kind": "task", "name": "t" } })
}

async fn c12_a_namesake_of_another_owner_is_not_the_manifests(world: &World) {
    let (ada, bob) = (world.token("ada", Role::Operator).await, world.token("bob", Role::Operator).await);
    let hers = asked(&json!({ "owner": "ada", "schedules": { "s": hourly() } }));
    send(world, &ada, "/manifest/apply", &hers).await.expect(200);
    world.bare("DELETE", "/schedules/s").token(&ada).send().await.expect(204);
    let his = json!({ "name": "s", "every": "2h", "target": { "kind": "command", "argv": ["bobs-own"] } });
    send(world, &bob, "/schedules", &his).await.expect(201);
    for adopt in [false, true] {
        let refused =
            send(world, &ada, "/manifest/plan", &json!({ "manifest": hers["manifest"], "adopt": adopt })).await;
        assert_eq!(refused.refused(409), "not_the_manifests");
        assert!(!refused.text.contains("bobs-own"), "{}", refused.text);
    }
    // An admin sees it, and takes it from him only when he says so.
    assert_eq!(world.post("/manifest/apply", &hers).await.refused(409), "not_the_manifests");
    let left = send(world, &ada, "/manifest/plan", &asked(&json!({ "owner": "ada" }))).await.expect(200);
    assert_eq!(left["things"], json!([]), "what is another's is not left by her");
    let gone = send(world, &ada, "/manifest/apply", &pruned(&json!({ "owner": "ada" }))).await.expect(200);
    assert_eq!((&gone["counts"]["remove"], &gone["things"]), (&json!(0), &json!([])));
    let there = world.get("/schedules/s").await;
    assert_eq!((&there["owner"], &there["every"], &there["managed_by"]), (&json!("bob"), &json!("2h"), &Value::Null));
}

async fn c12_a_flow_of_the_same_name_is_not_the_manifests(world: &World) {
    let (ada, bob) = (world.token("ada", Role::Operator).await, world.token("bob", Role::Operator).await);
    let steps = |program: &str| json!([{ "name": "a", "target": { "kind": "command", "argv": [program] } }]);
    let hers = asked(&json!({ "owner": "ada", "flows": { "f": { "steps": steps("hers") } } }));
    send(world, &ada, "/manifest/apply", &hers).await.expect(200);
    world.bare("DELETE", "/flows/f").token(&ada).send().await.expect(204);
    let his = json!({ "steps": steps("bobs-own") });
    world.bare("PUT", "/flows/f").token(&bob).json(&his).send().await.expect(200);
    let refused = send(world, &ada, "/manifest/plan", &hers).await;
    assert!(refused.refused(409) == "not_the_manifests" && !refused.text.contains("bobs-own"), "{}", refused.text);
    assert_eq!(world.post("/manifest/apply", &hers).await.refused(409), "not_the_manifests");
    send(world, &ada, "/manifest/apply", &pruned(&json!({ "owner": "ada" }))).await.expect(200);
    assert_eq!(world.get("/flows/f").await["owner"], "bob");
}

async fn d03_schedules_that_wait_in_a_ring_are_removed(world: &World) {
    let mut b = hourly();
    b["depends_on"] = json!({ "schedule": "a", "within": "2h" });
    apply(world, &asked(&json!({ "owner": "admin", "schedules": { "a": hourly(), "b": b } }))).await;
    let on_b = json!({ "depends_on": { "schedule_id": world.get("/schedules/b").await["id"], "within": "2h" } });
    world.call("PATCH", "/schedules/a").json(&on_b).send().await.expect(200);
    let emptied = pruned(&json!({ "owner": "admin" }));
    let gone = apply(world, &emptied).await;
    assert_eq!(gone["counts"]["remove"], 2, "{gone:#}");
    assert_eq!(gone["things"][0]["drift"][0]["field"], "depends_on", "what was changed by hand is told: {gone:#}");
    assert_eq!(world.get("/schedules").await["items"], json!([]));
    assert_eq!(plan(world, &emptied).await["is_empty"], true);
}

async fn d03_a_dependency_that_was_made_again_is_found(world: &World) {
    world.post("/schedules", &named("first")).await.expect(201);
    let mut a = hourly();
    a["depends_on"] = json!({ "schedule": "first", "within": "2h" });
    let body = asked(&json!({ "owner": "admin", "schedules": { "a": a } }));
    apply(world, &body).await;
    world.call("DELETE", "/schedules/first").send().await.expect(204);
    let written = world.get("/manifest").await;
    assert_eq!(written["schedules"]["a"], hourly(), "what is gone cannot be named");
    let again = world.post("/schedules", &named("first")).await.expect(201)["id"].clone();
    let planned = plan(world, &body).await;
    assert_eq!(planned["things"][0]["changes"][0]["field"], "depends_on.schedule", "{planned:#}");
    apply(world, &body).await;
    assert_eq!(world.get("/schedules/a").await["depends_on"]["schedule_id"], again);
    assert_eq!(plan(world, &body).await["is_empty"], true);
    // One whose dependency is gone can be edited, and is rid of it when the file does not say it.
    world.call("DELETE", "/schedules/first").send().await.expect(204);
    apply(world, &asked(&json!({ "owner": "admin", "schedules": { "a": hourly() } }))).await;
    assert_eq!(world.get("/schedules/a").await["depends_on"], Value::Null);
}

async fn d03_null_in_an_input_is_not_nothing(world: &World) {
    let with = |input: Value| {
        let (mut schedule, template) = (hourly(), json!({ "target": hourly()["target"], "input": input }));
        schedule["input"] = input.clone();
        asked(&json!({ "owner": "admin", "schedules": { "s": schedule }, "templates": { "t": { "job": template } } }))
    };
    apply(world, &with(json!({ "mode": null, "a": 1 }))).await;
    assert_eq!(plan(world, &with(json!({ "mode": null, "a": 1 }))).await["is_empty"], true);
    let changed = apply(world, &with(json!({ "a": 1 }))).await;
    let fields: Vec<&Value> = [0, 1].map(|n| &changed["things"][n]["changes"][0]["field"]).into();
    assert_eq!(fields, [&json!("job.input.mode"), &json!("input.mode")], "{changed:#}");
    assert_eq!(world.get("/schedules/s").await["input"], json!({ "a": 1 }));
}

async fn d03_a_pause_by_hand_outlives_the_manifest(world: &World) {
    apply(world, &asked(&json!({ "owner": "admin", "queues": { "hand": {}, "said": { "paused": true } } }))).await;
    world.call("PATCH", "/queues/hand").json(&json!({ "paused": true })).send().await.expect(200);
    let gone = apply(world, &pruned(&json!({ "owner": "admin" }))).await;
    let paused = |from: bool, to: bool| json!([{ "field": "paused", "from": from, "to": to }]);
    let [hand, said] = [&gone["things"][0], &gone["things"][1]];
    assert_eq!((&hand["drift"], &hand["changes"]), (&paused(false, true), &Value::Null), "{gone:#}");
    assert_eq!((&said["drift"], &said["changes"]), (&Value::Null, &paused(true, false)), "{gone:#}");
    assert_eq!(world.get("/queues/hand").await["paused"], true);
    assert_eq!(world.get("/queues/said").await["paused"], false);
    assert_eq!(plan(world, &pruned(&json!({ "owner": "admin" }))).await["is_empty"], true);
}

async fn c12_a_unique_key_is_the_owners_whoever_applies(world: &World) {
    let ada = world.token("ada", Role::Operator).await;
    let job = json!({ "target": hourly()["target"], "unique": { "key": "k", "period": "1h" } });
    let body = asked(&json!({ "owner": "ada", "templates": { "t": { "job": job } } }));
    send(world, &ada, "/manifest/apply", &body).await.expect(200);
    assert_eq!(world.get("/templates/t").await["job"]["unique"]["key"], "ada:k");
    assert_eq!(plan(world, &body).await["is_empty"], true, "an admin's token says the same");
    assert_eq!(send(world, &ada, "/manifest/plan", &body).await.expect(200)["is_empty"], true);
}

async fn d03_what_others_need_is_not_planned_to_go(world: &World) {
    let ada = world.token("ada", Role::Operator).await;
    let steps = json!([{ "name": "a", "target": { "kind": "task", "name": "t" } }]);
    let hers = asked(&json!({ "owner": "ada", "flows": { "f": { "steps": steps } } }));
    send(world, &ada, "/manifest/apply", &hers).await.expect(200);
    let user = json!({ "name": "admins-own", "every": "1h", "target": { "kind": "flow", "name": "f" } });
    world.post("/schedules", &user).await.expect(201);
    let refused = send(world, &ada, "/manifest/plan", &pruned(&json!({ "owner": "ada" }))).await;
    assert_eq!(refused.refused(409), "not_the_manifests");
    assert_eq!(refused.json()["errors"][0]["pointer"], "/flows/f");
    assert!(!refused.text.contains("admins-own") && refused.text.contains("other owners"), "{}", refused.text);

    let channel = json!({ "target": { "kind": "slack", "url": { "secret": "env:URL" } } });
    let rule = json!({ "on": "failure", "steps": [{ "channels": ["ops"] }] });
    let both = json!({ "owner": "admin", "channels": { "ops": channel }, "rules": { "own": rule } });
    apply(world, &asked(&both)).await;
    let mut by_hand = rule.clone();
    by_hand["name"] = json!("by-hand");
    world.post("/rules", &by_hand).await.expect(201);
    let refused = world.post("/manifest/plan", &pruned(&json!({ "owner": "admin" }))).await;
    assert_eq!(refused.refused(409), "not_the_manifests");
    let error = &refused.json()["errors"][0];
    assert!(error["pointer"] == "/channels/ops" && error["detail"].as_str().unwrap().contains("by-hand"), "{error}");
    world.call("DELETE", "/rules/by-hand").send().await.expect(204);
    assert_eq!(
        apply(world, &pruned(&json!({ "owner": "admin" }))).await["counts"]["remove"],
        2,
        "its own rule goes too"
    );
}

async fn d11_a_schedule_that_is_only_depended_on_is_told_of_its_calendar(world: &World) {
    let said = |days: Value| {
        let mut a = hourly();
        a["depends_on"] = json!({ "schedule": "base", "within": "2h" });
        asked(&json!({ "owner": "admin", "calendars": { "c": { "weekdays": days } }, "schedules": { "a": a } }))
    };
    apply(world, &asked(&json!({ "owner": "admin", "calendars": { "c": { "weekdays": ["sunday"] } } }))).await;
    let mut base = named("base");
    base["calendar"] = json!("c");
    world.post("/schedules", &base).await.expect(201);
    apply(world, &said(json!(["sunday"]))).await;
    let body = said(json!(["saturday", "sunday", "monday", "tuesday", "wednesday", "thursday"]));
    let planned = plan(world, &body).await;
    let told: Vec<(&Value, &Value)> =
        planned["things"].as_array().unwrap().iter().map(|thing| (&thing["action"], &thing["name"])).collect();
    assert_eq!(told, [(&json!("change"), &json!("c")), (&json!("affected"), &json!("base"))], "{planned:#}");
}

async fn a15_every_graph_of_a_manifest_is_looked_at(world: &World) {
    let grant = json!({ "billing_account": "acme", "scopes": ["graph:execute:flow:etl"] });
    let grant = world.post("/grants", &grant).await.expect(201)["id"].clone();
    let runs = |id: &str| json!({ "every": "1h", "target": { "kind": "graph", "id": id }, "grant_id": grant });
    let both = asked(&json!({ "owner": "admin", "schedules": { "a": runs("flow:etl"), "b": runs("no graph") } }));
    let refused = world.post("/manifest/plan", &both).await;
    assert_eq!(refused.refused(422), "invalid_manifest");
    assert_eq!(refused.json()["errors"][0]["pointer"], "/schedules/b/target/id");
    plan(world, &asked(&json!({ "owner": "admin", "schedules": { "a": runs("flow:etl") } }))).await;
}

async fn e04_a_name_twice_is_refused(world: &World) {
    let schedule = hourly().to_string();
    for (schedules, pointer) in [
        (format!(r#"{{"s":{schedule},"s":{schedule}}}"#), "/schedules/s"),
        (r#"{"s":{"every":"1h","every":"2h","target":{"kind":"task","name":"t"}}}"#.to_owned(), "/schedules/s/every"),
    ] {
        let body = format!(r#"{{"manifest":{{"owner":"admin","schedules":{schedules}}}}}"#);
        let refused = world.call("POST", "/manifest/plan").raw("application/json", body.into_bytes()).send().await;
        assert_eq!(refused.refused(422), "invalid_manifest");
        let error = &refused.json()["errors"][0];
        assert_eq!((&error["pointer"], &error["detail"]), (&json!(pointer), &json!("is there twice")));
    }
}

async fn d03_fires_are_the_same_while_no_node_can_run_them(world: &World) {
    let said = |every: &str, description: &str| {
        let mut schedule = hourly();
        (schedule["every"], schedule["description"]) = (json!(every), json!(description));
        asked(&json!({ "owner": "admin", "schedules": { "s": schedule } }))
    };
    apply(world, &said("1h", "a")).await;
    world.tamper("UPDATE {}schedule_state SET next_run_at = NULL").await;
    let same = plan(world, &said("1h", "b")).await;
    assert_eq!(same["things"][0]["fires"]["moved"], false, "{same:#}");
    let other = plan(world, &said("2h", "a")).await;
    let fires = &other["things"][0]["fires"];
    assert!(fires["before"].as_u64() > fires["after"].as_u64(), "{fires}");
}

async fn d03_what_is_over_is_not_written_down(world: &World) {
    let once = json!({ "at": "2099-01-01T00:00:00Z", "target": hourly()["target"] });
    apply(world, &asked(&json!({ "owner": "admin", "schedules": { "once": once } }))).await;
    assert_eq!(world.get("/manifest").await["schedules"]["once"], once);
    world.tamper("UPDATE {}schedule_state SET next_slot_at = NULL, next_run_at = NULL").await;
    assert_eq!(world.get("/manifest").await["schedules"], Value::Null, "a fresh store would refuse it");
    let own = world.get("/manifest?owner=admin").await;
    assert_eq!(plan(world, &pruned(&own)).await["is_empty"], true, "its own manifest has it still");
}

async fn d03_a_plan_lists_no_more_fires_than_can_be_read(world: &World) {
    let schedules: serde_json::Map<String, Value> = (0..1_010).map(|n| (format!("s{n:04}"), hourly())).collect();
    let body = json!({ "manifest": { "owner": "admin", "schedules": schedules }, "fires": 100 });
    let planned = plan(world, &body).await;
    let listed = |n: usize| planned["things"][n]["fires"]["list"].as_array().unwrap().len();
    assert_eq!((listed(0), listed(999), listed(1_000)), (100, 100, 0));
    assert!(planned["things"][1_009]["fires"]["after"].as_u64() > Some(2_000), "how many is told of all");
    let applied = apply(world, &body).await;
    assert_eq!((&applied["counts"]["make"], &applied["things"][0]["fires"]), (&json!(1_010), &Value::Null));
}
