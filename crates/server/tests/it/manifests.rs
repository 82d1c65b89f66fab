//! Manifests: planned, applied as one change, owned by a label, and written down again.

use crate::on_both_stores;
use crate::world::World;
use punctual_core::access::Role;
use serde_json::{Value, json};
use std::collections::BTreeSet;

on_both_stores! {
    d03_a_manifest_of_every_kind_is_applied_and_again_changes_nothing,
    d03_what_is_written_down_changes_nothing_when_it_is_applied,
    e04_everything_that_is_wrong_is_told_at_once_with_its_place,
    d03_owners_do_not_touch_each_others_things,
    d03_what_was_changed_by_hand_is_seen,
    d03_what_is_there_already_is_taken_over_only_when_asked,
    d03_a_plan_says_how_fires_move,
    d11_a_calendar_that_changes_moves_everybodys_fires,
    d03_only_what_was_seen_is_carried_out,
    d03_schedules_depend_on_each_other_by_name,
    c12_a_manifest_needs_the_roles_of_what_it_changes,
    d03_every_list_that_a_manifest_changes_is_told,
}

/// Two of everything that a manifest can hold, as far as one needs the other.
fn everything() -> Value {
    json!({
        "owner": "admin",
        "calendars": { "feasts": { "timezone": "Europe/Berlin", "weekdays": ["sunday"],
            "days": [{ "on": "12-25", "note": "Christmas" }] } },
        "presets": { "payday": { "expression": "0 9 25 * *", "description": "the 25th" } },
        "templates": { "letter": { "job": { "target": { "kind": "command", "argv": ["cat"] }, "queue": "mail",
                "unique": { "key": "k", "period": "1h" } },
            "parameters": [{ "name": "to", "type": "text", "required": true },
                { "name": "copies", "type": "integer", "default": 1 }] } },
        "queues": { "mail": { "paused": true }, "open": {} },
        "limits": { "queue:mail": { "concurrency": 2, "rate": { "jobs": 10, "per": "1m" } }, "all": { "node_concurrency": 9 } },
        "channels": { "ops": { "target": { "kind": "slack", "url": { "secret": "env:SLACK_URL" } } } },
        "rules": { "failures": { "on": "failures_in_a_row", "failures": 3, "scope": { "schedule": "nightly" },
            "steps": [{ "channels": ["ops"] }, { "channels": ["ops"], "after": "15m" }], "wait": "1s" } },
        "flows": { "etl": { "description": "all of it", "order": "sequential", "steps": [
            { "name": "extract", "target": { "kind": "command", "argv": ["extract.sh"] } },
            { "name": "load", "target": { "kind": "task", "name": "load" }, "retry": { "max_attempts": 2 } }] } },
        "schedules": {
            "nightly": { "cron": "30 2 * * *", "timezone": "Europe/Berlin", "calendar": "feasts", "labels": { "team": "ops" },
                "target": { "kind": "command", "argv": ["backup.sh"], "env": { "KEY": { "secret": "env:KEY" } } },
                "input": { "n": 12_345_678_901_u64 }, "missed": "skip", "timeout": "30m", "jitter": "30s",
                "retry": { "max_attempts": 5 }, "paused": false },
            "wages": { "preset": "payday", "template": "letter", "parameters": { "to": "all" }, "paused": true,
                "missed": { "policy": "all", "limit": 3 }, "overlap": "forbid", "serial": true },
            "pump": { "every": "90s", "target": { "kind": "flow", "name": "etl" }, "queue": "open", "priority": 7,
                "tags": ["cpu"], "depends_on": { "schedule": "nightly", "within": "26h" }, "burst_allowed": true },
            "once": { "at": "2099-01-01T00:00:00Z", "target": { "kind": "http", "url": "https://example.org/x" },
                "max_concurrent_runs": 1, "pause_after_failures": 3, "starts_at": "2027-01-01T00:00:00Z" },
        },
    })
}

fn asked(manifest: &Value) -> Value {
    json!({ "manifest": manifest })
}

fn with(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

async fn plan(world: &World, body: &Value) -> Value {
    world.post("/manifest/plan", body).await.expect(200)
}

async fn apply(world: &World, body: &Value) -> Value {
    world.post("/manifest/apply", body).await.expect(200)
}

fn one_schedule(owner: &str, name: &str, cron: &str) -> Value {
    json!({ "owner": owner, "schedules": { name: { "cron": cron, "target": { "kind": "task", "name": "t" } } } })
}

/// The action and the name of each thing of a plan.
fn actions(plan: &Value) -> Vec<String> {
    let told = |thing: &Value| format!("{} {}", thing["action"].as_str().unwrap(), thing["name"].as_str().unwrap());
    plan["things"].as_array().unwrap().iter().map(told).collect()
}

fn fields(changes: &Value) -> Vec<&str> {
    changes.as_array().unwrap().iter().map(|change| change["field"].as_str().unwrap()).collect()
}

async fn d03_a_manifest_of_every_kind_is_applied_and_again_changes_nothing(world: &World) {
    let body = asked(&everything());
    let planned = plan(world, &body).await;
    assert_eq!(planned["counts"]["make"], 14, "{planned:#}");
    assert_eq!(world.get("/schedules").await["items"], json!([]), "a plan changes nothing");
    let call = world.call("POST", "/manifest/apply").header("Idempotency-Key", "once").json(&body);
    let applied = call.clone().send().await.expect(200);
    assert_eq!((&applied["digest"], &applied["counts"]), (&planned["digest"], &planned["counts"]));
    let repeated = call.send().await;
    assert_eq!(repeated.header("idempotency-replayed"), Some("true"));
    assert_eq!(repeated.expect(200)["digest"], planned["digest"]);

    let again = plan(world, &body).await;
    assert_eq!((&again["is_empty"], &again["things"]), (&json!(true), &json!([])), "{again:#}");
    assert_eq!(again["counts"]["unchanged"], 14);
    assert_eq!(apply(world, &body).await["is_empty"], true);
    let audit = world.get("/audit?subject=manifest:admin").await;
    let rows = audit["items"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "what changes nothing is not told: {audit:#}");
    assert_eq!(
        (&rows[0]["action"], rows[0]["after"]["things"].as_array().unwrap().len()),
        (&json!("manifest.apply"), 14)
    );

    let nightly = world.get("/schedules/nightly").await;
    assert_eq!(
        (&nightly["owner"], &nightly["source"], &nightly["version"]),
        (&json!("admin"), &json!("file"), &json!(1))
    );
    assert_eq!(nightly["managed_by"]["owner"], "admin");
    let wages = world.get("/schedules/wages").await;
    assert_eq!((&wages["cron"], &wages["enabled"]), (&json!("0 9 25 * *"), &json!(false)));
    assert_eq!(wages["input"], json!({ "to": "all", "copies": 1 }));
    assert_eq!(world.get("/schedules/pump").await["depends_on"]["schedule_id"], nightly["id"]);
    assert_eq!(world.get("/queues/mail").await["paused"], true);
    let channel = world.get("/channels/ops").await;
    assert_eq!(channel["target"]["url"], json!({ "secret": "env:SLACK_URL" }), "a secret stays a reference");

    let emptied = with(asked(&json!({ "owner": "admin" })), "prune", json!(true));
    let gone = apply(world, &emptied).await;
    assert_eq!(gone["counts"]["remove"], 14, "{gone:#}");
    assert_eq!(world.get("/schedules").await["items"], json!([]));
    assert_eq!(world.get("/queues/mail").await["paused"], false);
    assert_eq!(plan(world, &emptied).await["is_empty"], true);
}

async fn d03_what_is_written_down_changes_nothing_when_it_is_applied(world: &World) {
    // Made by hand and by a manifest, in all the ways that leave something behind.
    apply(world, &asked(&everything())).await;
    for schedule in [
        json!({ "name": "plain", "every": "1h", "target": { "kind": "task", "name": "t" } }),
        json!({ "name": "a/b~c.d e", "cron": "@daily", "target": { "kind": "command", "argv": ["true"], "shell": true },
            "input": null, "enabled": false, "dst_gap": "skip", "dst_overlap": "both", "timezone": "America/New_York" }),
        json!({ "name": "digits", "cron": "H * * * *", "target": { "kind": "task", "name": "t" }, "input": [1.5, "x", {}] }),
    ] {
        world.post("/schedules", &schedule).await.expect(201);
    }
    world.call("PUT", "/limits/tag:gpu").json(&json!({ "concurrency": 0 })).send().await.expect(200);
    let written = world.get("/manifest").await;
    assert!(written["owner"].is_null() && written["schedules"]["plain"]["every"] == "1h", "{written:#}");
    assert_eq!(written["schedules"]["plain"], json!({ "every": "1h", "target": { "kind": "task", "name": "t" } }));
    assert_eq!(written["queues"], json!({ "mail": { "paused": true }, "open": { "paused": false } }));
    let body = with(asked(&with(written.clone(), "owner", json!("admin"))), "adopt", json!(true));
    let planned = plan(world, &body).await;
    let things = planned["things"].as_array().unwrap();
    assert!(things.iter().all(|thing| thing["action"] == "adopt" && thing["changes"].is_null()), "{planned:#}");
    assert_eq!((things.len(), &planned["counts"]["unchanged"]), (4, &json!(14)), "{planned:#}");
    apply(world, &body).await;
    let own = world.get("/manifest?owner=admin").await;
    assert_eq!(with(own.clone(), "owner", Value::Null), with(written, "owner", Value::Null));
    assert_eq!(plan(world, &asked(&own)).await["is_empty"], true);
    assert_eq!(plan(world, &with(asked(&own), "prune", json!(true))).await["is_empty"], true);
}

async fn e04_everything_that_is_wrong_is_told_at_once_with_its_place(world: &World) {
    let task = json!({ "kind": "task", "name": "t" });
    let manifest = json!({
        "owner": "admin", "scheduels": {}, "calendars": { "c": { "timezone": "Mars/Olympus" } }, "rules": 7,
        "templates": { "broken": { "job": { "target": task, "queu": "x" } } },
        "limits": { "nonsense": { "concurrency": 1 } }, "presets": { "p": { "expression": "61 * * * *" } },
        "queues": { "q": { "paused": "yes" } },
        "schedules": {
            "two": { "crn": "@daily", "priority": "high", "target": task },
            "cron": { "cron": "0 0 * *", "target": task }, "zone": { "cron": "@daily", "timezone": "Nowhere", "target": task },
            "none": { "every": "1h" }, "calendar": { "every": "1h", "target": task, "calendar": "nobodys" },
            "preset": { "preset": "nobodys", "target": task }, "uses_broken": { "every": "1h", "template": "broken" },
            "depends": { "every": "1h", "target": task, "depends_on": { "schedule": "nobody", "within": "1h" } },
            "within": { "every": "1h", "target": task, "depends_on": { "schedule": "none", "within": "soon" } },
            "flow": { "every": "1h", "target": { "kind": "flow", "name": "nobodys" } },
            "enabled": { "every": "1h", "target": task, "enabled": false }, "name": { "name": "x", "every": "1h", "target": task },
            "past": { "at": "2001-01-01T00:00:00Z", "target": task }, "text": "every day",
            "grant": { "every": "1h", "target": { "kind": "graph", "id": "flow:etl" } },
        },
    });
    let refused = world.post("/manifest/apply", &asked(&manifest)).await;
    assert_eq!(refused.refused(422), "invalid_manifest");
    let told = refused.json();
    let errors = told["errors"].as_array().unwrap();
    let found: BTreeSet<&str> = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    let expected = BTreeSet::from([
        "/scheduels",
        "/calendars/c/timezone",
        "/rules",
        "/templates/broken/job/queu",
        "/limits/nonsense",
        "/presets/p/expression",
        "/queues/q/paused",
        "/schedules/two/crn",
        "/schedules/two/priority",
        "/schedules/cron/cron",
        "/schedules/zone/timezone",
        "/schedules/none/target",
        "/schedules/calendar/calendar",
        "/schedules/preset/preset",
        "/schedules/depends/depends_on/schedule",
        "/schedules/within/depends_on/within",
        "/schedules/flow/target/name",
        "/schedules/enabled/enabled",
        "/schedules/name/name",
        "/schedules/past/at",
        "/schedules/text",
        "/schedules/grant/grant_id",
    ]);
    assert_eq!(found, expected, "{told:#}");
    let remedy = |pointer: &str| {
        let error = errors.iter().find(|error| error["pointer"] == pointer).unwrap();
        error["remedy"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(remedy("/scheduels"), "did you mean `schedules`?");
    assert_eq!(remedy("/templates/broken/job/queu"), "did you mean `queue`?");
    assert_eq!(remedy("/schedules/two/crn"), "did you mean `cron`?");
    assert_eq!(world.get("/manifest").await, json!({}), "nothing was changed");
    let nobodys = world.post("/manifest/plan", &asked(&json!({ "schedules": {} }))).await;
    assert_eq!(
        (nobodys.refused(422).as_str(), &nobodys.json()["errors"][0]["pointer"]),
        ("invalid_manifest", &json!("/owner"))
    );
}

async fn d03_owners_do_not_touch_each_others_things(world: &World) {
    apply(world, &asked(&one_schedule("billing", "bill", "0 1 * * *"))).await;
    apply(world, &asked(&one_schedule("ops", "sweep", "0 2 * * *"))).await;
    let taken = world.post("/manifest/apply", &asked(&one_schedule("ops", "bill", "0 3 * * *"))).await;
    assert_eq!(taken.refused(409), "not_the_manifests");
    let error = &taken.json()["errors"][0];
    assert_eq!(error["pointer"], "/schedules/bill");
    assert!(error["detail"].as_str().unwrap().contains("manifest of `billing`"), "{error}");
    assert_eq!(world.get("/schedules/bill").await["cron"], "0 1 * * *");
    // What is not in the file any more stays unless somebody asks, and then only the own goes.
    let other = asked(&one_schedule("ops", "clean", "0 4 * * *"));
    let left = apply(world, &other).await;
    assert_eq!(actions(&left), ["make clean", "left sweep"]);
    let pruned = apply(world, &with(other, "prune", json!(true))).await;
    assert_eq!(actions(&pruned), ["remove sweep"]);
    let names = world.get("/schedules").await;
    let names: Vec<&str> = names["items"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bill", "clean"]);
}

async fn d03_what_was_changed_by_hand_is_seen(world: &World) {
    let body = asked(&one_schedule("admin", "s", "0 1 * * *"));
    apply(world, &body).await;
    let edit = |change: Value| world.call("PATCH", "/schedules/s").json(&change).send();
    edit(json!({ "cron": "0 5 * * *", "description": "by hand" })).await.expect(200);
    let planned = plan(world, &body).await;
    let thing = &planned["things"][0];
    assert_eq!((thing["action"].as_str(), fields(&thing["changes"])), (Some("change"), vec!["cron", "description"]));
    assert_eq!(thing["drift"][0], json!({ "field": "cron", "from": "0 1 * * *", "to": "0 5 * * *" }));
    assert_eq!(thing["changes"][0], json!({ "field": "cron", "from": "0 5 * * *", "to": "0 1 * * *" }));
    // A file that says the same as the hand is told all the same, and only what is remembered changes.
    let mut agreed = one_schedule("admin", "s", "0 5 * * *");
    agreed["schedules"]["s"]["description"] = json!("by hand");
    let version = world.get("/schedules/s").await["version"].clone();
    let accepted = apply(world, &asked(&agreed)).await;
    assert_eq!((actions(&accepted), &accepted["things"][0]["changes"]), (vec!["accept s".to_owned()], &Value::Null));
    assert_eq!(world.get("/schedules/s").await["version"], version);
    assert_eq!(plan(world, &asked(&agreed)).await["is_empty"], true);
    // A pause is people's own, unless the file says something about it.
    world.call("POST", "/schedules/s/pause").json(&json!({ "note": "x" })).send().await.expect(200);
    assert_eq!(plan(world, &asked(&agreed)).await["is_empty"], true);
    agreed["schedules"]["s"]["paused"] = json!(false);
    let resumed = apply(world, &asked(&agreed)).await;
    assert_eq!(resumed["things"][0]["changes"], json!([{ "field": "paused", "from": true, "to": false }]));
    assert_eq!(world.get("/schedules/s").await["enabled"], true);
    world.call("DELETE", "/schedules/s").send().await.expect(204);
    let remade = apply(world, &asked(&agreed)).await;
    assert_eq!((actions(&remade), &remade["things"][0]["removed_by_hand"]), (vec!["make s".to_owned()], &json!(true)));
}

async fn d03_what_is_there_already_is_taken_over_only_when_asked(world: &World) {
    let schedule = json!({ "name": "s", "cron": "0 1 * * *", "target": { "kind": "task", "name": "t" } });
    let id = world.post("/schedules", &schedule).await.expect(201)["id"].clone();
    let body = asked(&one_schedule("billing", "s", "0 2 * * *"));
    let refused = world.post("/manifest/plan", &body).await;
    assert_eq!(refused.refused(409), "not_the_manifests");
    assert!(refused.json()["errors"][0]["remedy"].as_str().unwrap().contains("--adopt"), "{}", refused.text);
    let adopted = apply(world, &with(body.clone(), "adopt", json!(true))).await;
    assert_eq!(actions(&adopted), ["adopt s"]);
    assert_eq!(fields(&adopted["things"][0]["changes"]), ["cron", "owner"]);
    let now = world.get("/schedules/s").await;
    assert_eq!((&now["id"], &now["owner"], &now["source"]), (&id, &json!("billing"), &json!("file")));
    assert_eq!(plan(world, &body).await["is_empty"], true);
}

async fn d03_a_plan_says_how_fires_move(world: &World) {
    let at = |cron: &str| {
        with(
            asked(&json!({ "owner": "admin", "schedules": { "s": { "cron": cron,
        "timezone": "Europe/Berlin", "target": { "kind": "task", "name": "t" } } } })),
            "fires",
            json!(3),
        )
    };
    let made = plan(world, &at("0 8 * * *")).await;
    let applied = apply(world, &at("0 8 * * *")).await;
    assert_eq!((&applied["digest"], &applied["things"][0]["fires"]), (&made["digest"], &Value::Null));
    let fires = &made["things"][0]["fires"];
    assert_eq!(
        (&fires["moved"], &fires["before"], fires["list"].as_array().unwrap().len()),
        (&json!(true), &json!(0), 3)
    );
    assert!(fires["after"].as_u64().is_some_and(|n| (89..=91).contains(&n)), "{fires}");
    assert_eq!(fires["list"][0]["slot_at"], world.get("/schedules/s").await["next_slot_at"], "{fires}");
    let upcoming = world.get("/schedules/s/upcoming?count=3").await;
    let moved = plan(world, &at("30 2 * * *")).await;
    let thing = &moved["things"][0];
    let list = thing["fires"]["list"].as_array().unwrap();
    let of = |word: &str| {
        list.iter().filter(|fire| fire["move"] == word).map(|fire| fire["slot_at"].clone()).collect::<Vec<_>>()
    };
    let ahead: Vec<Value> = upcoming["items"].as_array().unwrap().iter().map(|slot| slot["slot_at"].clone()).collect();
    assert_eq!((of("gone"), of("new").len(), of("same").len()), (ahead, 3, 0));
    let local = list.iter().find(|fire| fire["move"] == "new").unwrap()["local"].as_str().unwrap();
    assert!(local.contains("T02:30:00+0"), "{local}");
    let notes = thing["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("does not exist on")), "{notes:?}");
    // What both have is the same, also where one of the lists does not reach.
    let more = plan(world, &at("0 8,20 * * *")).await;
    let list = more["things"][0]["fires"]["list"].as_array().unwrap();
    let words: BTreeSet<&str> = list.iter().map(|fire| fire["move"].as_str().unwrap()).collect();
    assert_eq!(words, BTreeSet::from(["new", "same"]), "{list:?}");
    // Another description moves nothing, and the store agrees with the plan about where the next fire is.
    let mut told = at("0 8 * * *");
    told["manifest"]["schedules"]["s"]["description"] = json!("x");
    let same = plan(world, &told).await;
    assert_eq!(
        (&same["things"][0]["fires"]["moved"], &same["things"][0]["fires"]["list"]),
        (&json!(false), &json!([]))
    );
    let planned = plan(world, &at("15 * * * *")).await;
    apply(world, &at("15 * * * *")).await;
    let list = planned["things"][0]["fires"]["list"].as_array().unwrap();
    let first = list.iter().find(|fire| fire["move"] == "new").unwrap();
    assert_eq!(first["slot_at"], world.get("/schedules/s").await["next_slot_at"]);
    let gone = plan(world, &with(asked(&json!({ "owner": "admin" })), "prune", json!(true))).await;
    assert_eq!((&gone["things"][0]["action"], &gone["things"][0]["fires"]["after"]), (&json!("remove"), &json!(0)));
    let paused = plan(
        world,
        &with(at("15 * * * *"), "manifest", {
            let mut manifest = at("15 * * * *")["manifest"].clone();
            manifest["schedules"]["s"]["paused"] = json!(true);
            manifest
        }),
    )
    .await;
    assert_eq!(paused["things"][0]["fires"]["after"], 0, "{paused:#}");
}

async fn d11_a_calendar_that_changes_moves_everybodys_fires(world: &World) {
    let weekdays = |days: Value| asked(&json!({ "owner": "admin", "calendars": { "c": { "weekdays": days } } }));
    apply(world, &weekdays(json!(["sunday"]))).await;
    let uses =
        json!({ "name": "mine", "cron": "0 12 * * *", "calendar": "c", "target": { "kind": "task", "name": "t" } });
    world.post("/schedules", &uses).await.expect(201);
    let ada = world.token("ada", Role::Operator).await;
    let hers = with(uses, "name", json!("hers"));
    world.bare("POST", "/schedules").token(&ada).json(&hers).send().await.expect(201);
    let body = weekdays(json!(["sunday", "saturday"]));
    let planned = plan(world, &body).await;
    assert_eq!(actions(&planned), ["change c", "affected hers", "affected mine"], "{planned:#}");
    let list = planned["things"][1]["fires"]["list"].as_array().unwrap();
    assert!(
        list.iter()
            .any(|fire| fire["move"] == "new" && fire["skipped"].as_str().is_some_and(|why| why.contains("saturday")))
    );
    // What a token may not see is counted, and a calendar that others use stays.
    world.call("DELETE", "/schedules/mine").send().await.expect(204);
    let own = json!({ "owner": "ada", "calendars": { "d": {} } });
    world.bare("POST", "/manifest/apply").token(&ada).json(&asked(&own)).send().await.expect(200);
    let of_admin = with(noon_on_d(), "name", json!("of_admin"));
    world.post("/schedules", &of_admin).await.expect(201);
    let closed = with(own, "calendars", json!({ "d": { "weekdays": ["monday"] } }));
    let planned = world.bare("POST", "/manifest/plan").token(&ada).json(&asked(&closed)).send().await.expect(200);
    assert_eq!((actions(&planned), &planned["others_affected"]), (vec!["change d".to_owned()], &json!(1)));
    let emptied = with(asked(&json!({ "owner": "ada" })), "prune", json!(true));
    let kept = world.bare("POST", "/manifest/apply").token(&ada).json(&emptied).send().await;
    assert_eq!(kept.refused(409), "not_the_manifests");
    assert!(kept.text.contains("schedules of other owners") && !kept.text.contains("of_admin"), "{}", kept.text);
}

fn noon_on_d() -> Value {
    json!({ "name": "", "cron": "0 12 * * *", "calendar": "d", "target": { "kind": "task", "name": "t" } })
}

async fn d03_only_what_was_seen_is_carried_out(world: &World) {
    let body = asked(&one_schedule("admin", "s", "0 1 * * *"));
    let seen = plan(world, &body).await["digest"].clone();
    world
        .post("/schedules", &json!({ "name": "other", "every": "1h", "target": { "kind": "task", "name": "t" } }))
        .await
        .expect(201);
    assert_eq!(plan(world, &body).await["digest"], seen, "what has nothing to do with it does not matter");
    let more = json!({ "owner": "admin", "schedules": { "s": body["manifest"]["schedules"]["s"], "t": body["manifest"]["schedules"]["s"] } });
    let stale = world.post("/manifest/apply", &with(asked(&more), "if_plan", seen.clone())).await;
    assert_eq!(stale.refused(409), "plan_changed");
    let applied = apply(world, &with(body.clone(), "if_plan", seen.clone())).await;
    assert_eq!(applied["digest"], seen);
    let late = world.post("/manifest/apply", &with(body, "if_plan", seen)).await;
    assert_eq!(late.refused(409), "plan_changed");
}

async fn d03_schedules_depend_on_each_other_by_name(world: &World) {
    let schedule = |other: Option<&str>| {
        let mut said = json!({ "every": "1h", "target": { "kind": "task", "name": "t" } });
        if let Some(other) = other {
            said["depends_on"] = json!({ "schedule": other, "within": "2h" });
        }
        said
    };
    // In the order of names each is made before the one that it depends on would be.
    let line = json!({ "owner": "admin", "schedules": { "a": schedule(Some("b")), "b": schedule(Some("c")), "c": schedule(None) } });
    apply(world, &asked(&line)).await;
    assert_eq!(world.get("/schedules/a").await["depends_on"]["schedule_id"], world.get("/schedules/b").await["id"]);
    assert_eq!(plan(world, &asked(&line)).await["is_empty"], true);
    let turned = json!({ "owner": "admin", "schedules": { "a": schedule(None), "b": schedule(Some("a")), "c": schedule(Some("b")) } });
    let changed = apply(world, &asked(&turned)).await;
    assert_eq!(changed["things"][1]["changes"], json!([{ "field": "depends_on.schedule", "from": "c", "to": "a" }]));
    let ring = json!({ "owner": "admin", "schedules": { "a": schedule(Some("c")), "b": schedule(Some("a")), "c": schedule(Some("b")), "d": schedule(Some("a")) } });
    let refused = world.post("/manifest/apply", &asked(&ring)).await;
    assert_eq!(refused.refused(422), "invalid_manifest");
    let errors = refused.json()["errors"].as_array().unwrap().len();
    assert_eq!(errors, 3, "those in the ring, and not who waits for it: {}", refused.text);
    let all_gone = apply(world, &with(asked(&json!({ "owner": "admin" })), "prune", json!(true))).await;
    assert_eq!(all_gone["counts"]["remove"], 3);
}

async fn c12_a_manifest_needs_the_roles_of_what_it_changes(world: &World) {
    let (ada, viewer) = (world.token("ada", Role::Operator).await, world.token("ada", Role::Viewer).await);
    let send =
        |token: &str, path: &str, manifest: &Value| world.bare("POST", path).token(token).json(&asked(manifest)).send();
    let hers = one_schedule("ada", "s", "0 1 * * *");
    send(&viewer, "/manifest/plan", &hers).await.expect(200);
    assert_eq!(send(&viewer, "/manifest/apply", &hers).await.refused(403), "role_too_low");
    send(&ada, "/manifest/apply", &hers).await.expect(200);
    let refused = send(&ada, "/manifest/plan", &one_schedule("bob", "s", "0 1 * * *")).await;
    assert_eq!(
        (refused.refused(403).as_str(), &refused.json()["errors"][0]["pointer"]),
        ("role_too_low", &json!("/owner"))
    );
    let channel =
        |url: &str| json!({ "owner": "ada", "channels": { "ops": { "target": { "kind": "slack", "url": url } } } });
    let refused = send(&ada, "/manifest/apply", &channel("https://chat.example/secret")).await;
    assert_eq!(refused.refused(403), "role_too_low");
    apply(world, &asked(&channel("https://chat.example/secret"))).await;
    let refused = send(&ada, "/manifest/plan", &channel("https://chat.example/other")).await;
    assert!(
        refused.refused(403) == "role_too_low" && !refused.text.contains("chat.example/secret"),
        "{}",
        refused.text
    );
    let written = world.bare("GET", "/manifest").token(&ada).send().await.expect(200);
    assert!(written["channels"].is_null() && written["schedules"]["s"].is_object(), "{written}");
    // Names of others are taken, and that is all that is told.
    world
        .post("/schedules", &json!({ "name": "admins", "every": "1h", "target": { "kind": "task", "name": "t" } }))
        .await
        .expect(201);
    let adopting = with(asked(&one_schedule("ada", "admins", "0 1 * * *")), "adopt", json!(true));
    let refused = world.bare("POST", "/manifest/apply").token(&ada).json(&adopting).send().await;
    assert_eq!(refused.refused(409), "not_the_manifests");
    assert_eq!(world.bare("GET", "/manifest?owner=bob").token(&ada).send().await.refused(403), "role_too_low");
}

async fn d03_every_list_that_a_manifest_changes_is_told(world: &World) {
    let mut events = world.call("GET", "/events?topics=schedules,limits,rules,cron_presets").listen().await;
    apply(world, &asked(&everything())).await;
    let mut told = BTreeSet::new();
    for _ in 0..4 {
        let event: Value = serde_json::from_str(&events.until("manifest.apply").await.data).unwrap();
        assert_eq!(event["subject"], "manifest:admin", "{event}");
        told.insert(event["topic"].as_str().unwrap().to_owned());
    }
    assert_eq!(told, ["cron_presets", "limits", "rules", "schedules"].map(str::to_owned).into());
}
