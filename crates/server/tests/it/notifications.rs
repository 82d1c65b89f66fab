//! Channels, rules, alerts and deliveries by the API, and the page behind the link that acknowledges.

use crate::client::{Answer, Call};
use crate::on_both_stores;
use crate::world::World;
use punctual_core::access::Role;
use punctual_core::id::{AlertId, ClaimId};
use punctual_core::run::ErrorCode;
use punctual_core::store::{ClaimRequest, FinishedRun, Lease, NewNode};
use serde_json::{Value, json};

on_both_stores! {
    n01_a_channel_is_made_edited_tried_and_deleted,
    n01_only_admins_see_an_address_as_a_whole_and_change_channels_and_rules,
    n02_a_rule_is_made_edited_and_deleted,
    n03_an_alert_is_acknowledged_by_whoever_may_see_it,
    n03_the_link_acknowledges_by_its_button_and_not_by_being_opened,
    n04_a_delivery_is_looked_at_sent_again_and_taken_out,
}

const URL: &str = "https://hooks.example/services/T0/s3cr3t";

fn chat(name: &str) -> Value {
    json!({ "name": name, "target": { "kind": "slack", "url": URL } })
}

async fn patch(world: &World, path: &str, body: &Value) -> Answer {
    world.call("PATCH", path).json(body).send().await
}

async fn actions(world: &World, subject: &str) -> Vec<String> {
    let audit = world.get(&format!("/audit?subject={subject}")).await;
    let rows = audit["items"].as_array().unwrap().iter();
    let mut actions: Vec<String> = rows.map(|row| row["action"].as_str().unwrap().to_owned()).collect();
    actions.reverse();
    actions
}

async fn n01_a_channel_is_made_edited_tried_and_deleted(world: &World) {
    let made = world.post("/channels", &chat("ops")).await;
    assert_eq!(made.header("etag"), Some("\"1\""));
    let made = made.expect(201);
    assert_eq!((&made["kind"], &made["enabled"], &made["version"]), (&json!("slack"), &json!(true), &json!(1)));
    assert_eq!(world.get("/channels/ops").await, made);
    assert_eq!(world.get("/channels").await["items"], json!([made]));
    assert_eq!(world.post("/channels", &chat("ops")).await.refused(409), "name_taken");
    for (target, pointer) in [
        (json!({ "kind": "slack", "url": "ftp://x" }), "/target/url"),
        (json!({ "kind": "webhook", "url": URL, "secrets": [{ "secret": "hunter2" }] }), "/target/secrets"),
        (json!({ "kind": "email", "host": "m", "from": "p", "to": ["o@b.example"] }), "/target/from"),
    ] {
        let refused = world.post("/channels", &json!({ "name": "x", "target": target })).await;
        assert_eq!(refused.refused(422), "invalid", "{target}");
        assert_eq!(refused.json()["errors"][0]["pointer"], pointer);
        assert!(!refused.text.contains("hunter2"));
    }
    let tried = world.call("POST", "/channels/ops/test").send().await.expect(202);
    assert_eq!((&tried["state"], &tried["occasion"], &tried["tries"]), (&json!("waiting"), &json!("test"), &json!(0)));
    assert_eq!(tried["title"], "This is a test: the channel works");
    assert_eq!(world.call("POST", "/channels/nobody/test").send().await.refused(404), "not_found");
    let edited = world.call("PATCH", "/channels/ops").header("If-Match", "\"1\"").json(&json!({ "enabled": false }));
    let edited = edited.send().await.expect(200);
    assert_eq!((&edited["enabled"], &edited["version"]), (&json!(false), &json!(2)));
    let stale = world.call("PATCH", "/channels/ops").header("If-Match", "\"1\"").json(&json!({})).send().await;
    assert_eq!(stale.refused(412), "version_conflict");

    assert_eq!(world.call("POST", "/channels/ops/test").send().await.refused(422), "invalid", "it is off");
    world
        .post("/rules", &json!({ "name": "r", "on": "failure", "steps": [{ "channels": ["ops"] }] }))
        .await
        .expect(201);
    let refused = world.call("DELETE", "/channels/ops").send().await;
    assert_eq!(refused.refused(409), "in_use");
    assert!(refused.json()["detail"].as_str().unwrap().contains('r'), "{}", refused.text);
    world.call("DELETE", "/rules/r").send().await.expect(204);
    world.call("DELETE", "/channels/ops").send().await.expect(204);
    assert_eq!(world.call("GET", "/channels/ops").send().await.refused(404), "not_found");
    assert_eq!(actions(world, "channel:ops").await, ["channel.create", "channel.update", "channel.delete"]);
}

async fn n01_only_admins_see_an_address_as_a_whole_and_change_channels_and_rules(world: &World) {
    world.post("/channels", &chat("plain")).await.expect(201);
    let named = json!({ "name": "named", "target": { "kind": "webhook", "url": { "secret": "env:URL" },
        "secrets": [{ "secret": "env:KEY" }], "headers": { "x-token": "s3cr3t", "x-other": { "secret": "env:OTHER" } } } });
    world.post("/channels", &named).await.expect(201);
    let rule = json!({ "name": "r", "on": "failure", "steps": [{ "channels": ["plain"] }] });
    world.post("/rules", &rule).await.expect(201);
    for role in [Role::Viewer, Role::Operator] {
        let token = world.token("eve", role).await;
        for path in ["/channels", "/channels/plain", "/channels/named", "/rules", "/rules/r"] {
            let seen = world.bare("GET", path).token(&token).send().await;
            assert_eq!(seen.status, 200, "{}", seen.text);
            assert!(!seen.text.contains("s3cr3t"), "{}", seen.text);
        }
        let seen = world.bare("GET", "/channels/plain").token(&token).send().await.expect(200);
        assert_eq!(seen["target"]["url"], "https://hooks.example/…");
        let seen = world.bare("GET", "/channels/named").token(&token).send().await.expect(200);
        assert_eq!(seen["target"]["url"], json!({ "secret": "env:URL" }));
        for (method, path, body) in [
            ("POST", "/channels", chat("other")),
            ("PATCH", "/channels/plain", json!({ "enabled": false })),
            ("DELETE", "/channels/named", json!({})),
            ("POST", "/rules", json!({ "name": "x", "on": "failure", "steps": [{ "channels": ["plain"] }] })),
            ("PATCH", "/rules/r", json!({ "enabled": false })),
            ("DELETE", "/rules/r", json!({})),
        ] {
            let refused = world.bare(method, path).token(&token).json(&body).send().await;
            assert_eq!(refused.refused(403), "role_too_low", "{role} {method} {path}");
        }
        let status = world.bare("POST", "/channels/plain/test").token(&token).send().await.status;
        assert_eq!(status, if role == Role::Operator { 202 } else { 403 });
    }
    assert_eq!(world.get("/channels/plain").await["target"]["url"], URL);
}

async fn n02_a_rule_is_made_edited_and_deleted(world: &World) {
    let rule = json!({ "name": "night", "on": "failures_in_a_row", "failures": 3, "scope": { "label": "team=ops" },
        "steps": [{ "channels": ["ops"] }, { "channels": ["boss"], "after": "15m" }], "wait": "1s",
        "quiet": { "from": "22:00", "until": "07:00", "timezone": "Europe/Berlin" } });
    let refused = world.post("/rules", &rule).await;
    assert_eq!(refused.refused(422), "invalid");
    assert!(refused.json()["remedy"].as_str().unwrap().contains("channel add"), "{}", refused.text);
    for name in ["ops", "boss"] {
        world.post("/channels", &chat(name)).await.expect(201);
    }
    let made = world.post("/rules", &rule).await.expect(201);
    for (field, value) in rule.as_object().unwrap() {
        assert_eq!(&made[field], value, "{field}");
    }
    assert_eq!(world.get("/rules/night").await, made);
    assert_eq!(world.get("/rules").await["items"], json!([made]));
    let edited = patch(world, "/rules/night", &json!({ "quiet": null, "failures": 5 })).await.expect(200);
    assert_eq!((&edited["quiet"], &edited["failures"], &edited["version"]), (&Value::Null, &json!(5), &json!(2)));
    assert_eq!(edited["steps"], rule["steps"]);
    for (body, code) in [
        (json!({ "failures": null }), "invalid"),
        (json!({ "every": "1m" }), "invalid"),
        (json!({ "name": "other" }), "invalid"),
        (json!({ "steps": [{ "channels": ["nobody"] }] }), "invalid"),
        (json!({ "when": "now" }), "unknown_field"),
    ] {
        assert_eq!(patch(world, "/rules/night", &body).await.refused(422), code, "{body}");
    }
    world.call("DELETE", "/rules/night").header("If-Match", "\"1\"").send().await.refused(412);
    world.call("DELETE", "/rules/night").header("If-Match", "\"2\"").send().await.expect(204);
    assert_eq!(world.call("GET", "/rules/night").send().await.refused(404), "not_found");
    assert_eq!(actions(world, "rule:night").await, ["rule.create", "rule.update", "rule.delete"]);
}

/// A rule on all failures, and a failure of somebody's schedule that it has found.
async fn failure_of(world: &World, owner: &str) -> (Lease, Value) {
    world.post("/channels", &chat("ops")).await.expect(201);
    let rule = json!({ "name": "failures", "on": "failure", "wait": "1ms", "steps": [{ "channels": ["ops"] }] });
    world.post("/rules", &rule).await.expect(201);
    let token = world.token(owner, Role::Operator).await;
    let schedule = json!({ "name": "<b>hers</b>", "cron": "@daily", "target": { "kind": "task", "name": "work" },
        "retry": { "max_attempts": 1 } });
    world.bare("POST", "/schedules").token(&token).json(&schedule).send().await.expect(201);
    world.bare("POST", "/schedules/%3Cb%3Ehers%3C%2Fb%3E/trigger").token(&token).send().await.expect(201);
    let lease =
        world.store.register_node(NewNode { name: "n".into(), offers: vec!["task:work".into()] }).await.unwrap();
    let claim = ClaimRequest {
        lease,
        claim_id: ClaimId(uuid::Uuid::new_v4()),
        queues: vec![],
        job_types: vec!["task:work".into()],
        limit: 10,
    };
    let claimed = world.store.claim_jobs_if_leased(claim).await.unwrap();
    let failed = FinishedRun::failed(claimed[0].job.id, ErrorCode::TargetError, "disk full");
    world.store.finish_runs_if_leased(lease, vec![failed]).await.unwrap();
    // The first pass finds it, and the next one, when its wait is over, tells.
    while world.get("/deliveries").await["items"] == json!([]) {
        world.store.judge_news_if_leased(lease, 100, None).await.unwrap();
    }
    let alerts = world.get("/alerts?open=true").await;
    assert_eq!(alerts["items"].as_array().unwrap().len(), 1, "{alerts}");
    (lease, alerts["items"][0].clone())
}

async fn n03_an_alert_is_acknowledged_by_whoever_may_see_it(world: &World) {
    let (_, alert) = failure_of(world, "ada").await;
    assert_eq!(alert["title"], "<b>hers</b> failed: disk full");
    assert_eq!((&alert["state"], &alert["rule"], &alert["count"]), (&json!("open"), &json!("failures"), &json!(1)));
    assert!(alert.get("code").is_none(), "whoever looks does not get the link: {alert}");
    let path = format!("/alerts/{}", alert["id"].as_str().unwrap());
    let delivery = world.get("/deliveries").await["items"][0].clone();
    assert_eq!(delivery["message"]["acknowledge"], Value::Null);
    let delivery = format!("/deliveries/{}", delivery["id"].as_str().unwrap());
    let eve = world.token("eve", Role::Operator).await;
    for (method, path) in [
        ("GET", path.clone()),
        ("POST", format!("{path}/acknowledge")),
        ("GET", delivery.clone()),
        ("POST", format!("{delivery}/resend")),
    ] {
        assert_eq!(world.bare(method, &path).token(&eve).send().await.refused(404), "not_found", "{method} {path}");
    }
    for path in ["/alerts", "/deliveries"] {
        assert_eq!(world.bare("GET", path).token(&eve).send().await.expect(200)["items"], json!([]), "{path}");
    }
    let viewer = world.token("ada", Role::Viewer).await;
    assert_eq!(world.bare("GET", &path).token(&viewer).send().await.expect(200), alert);
    let acknowledge =
        |token: &str, body: Value| world.bare("POST", &format!("{path}/acknowledge")).token(token).json(&body).send();
    assert_eq!(acknowledge(&viewer, json!({})).await.refused(403), "role_too_low");
    let ada = world.token("ada", Role::Operator).await;
    let first = acknowledge(&ada, json!({ "note": "on it" })).await.expect(200);
    assert_eq!((&first["state"], &first["acknowledged"]["by"]), (&json!("acknowledged"), &json!("ada")));
    let second = acknowledge(&world.admin, json!({})).await.expect(200);
    assert_eq!(second["acknowledged"], first["acknowledged"], "the first one stands");
    assert_eq!(world.get("/alerts?open=false").await["items"], json!([]));
    assert_eq!(world.get("/alerts?rule=other").await["items"], json!([]));
    let audited = actions(world, &format!("alert:{}", alert["id"].as_str().unwrap())).await;
    assert_eq!(audited, ["alert.acknowledge", "alert.acknowledge"]);
}

async fn n03_the_link_acknowledges_by_its_button_and_not_by_being_opened(world: &World) {
    let (_, alert) = failure_of(world, "ada").await;
    let id: AlertId = alert["id"].as_str().unwrap().parse().unwrap();
    let code = world.store.alert(id).await.unwrap().unwrap().code;
    let at = |method: &str, code: &str| Call::new(world.address, method, &format!("/acknowledge/{code}"));
    for _ in 0..2 {
        let page = at("GET", &code).send().await;
        assert_eq!(page.status, 200);
        assert!(page.text.contains("&lt;b&gt;hers&lt;/b&gt; failed: disk full"), "{}", page.text);
        assert!(page.text.contains("<button>") && !page.text.contains("<b>"), "{}", page.text);
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("referrer-policy"), Some("same-origin"));
    }
    let path = format!("/alerts/{id}");
    assert_eq!(world.get(&path).await["acknowledged"], Value::Null, "looking changes nothing");
    let foreign = at("POST", &code).header("Origin", "https://evil.example").send().await;
    assert_eq!(foreign.refused(403), "foreign_origin");
    for wrong in ["0".repeat(32).as_str(), "x", "..%2F..", &format!("{code}0")] {
        assert_eq!(at("POST", wrong).send().await.status, 404, "{wrong}");
    }
    assert_eq!(world.get(&path).await["acknowledged"], Value::Null);
    let origin = format!("http://{}", world.address);
    let done = at("POST", &code).header("Origin", &origin).send().await;
    assert!(done.status == 200 && done.text.contains("Acknowledged at ") && !done.text.contains("<button>"));
    let alert = world.get(&path).await;
    assert_eq!((&alert["state"], &alert["acknowledged"]["by"]), (&json!("acknowledged"), &Value::Null));
    let audit = world.get(&format!("/audit?subject=alert:{id}")).await;
    assert_eq!(
        (&audit["items"][0]["action"], &audit["items"][0]["actor"]),
        (&json!("alert.acknowledge"), &json!("link"))
    );
}

async fn n04_a_delivery_is_looked_at_sent_again_and_taken_out(world: &World) {
    let (lease, alert) = failure_of(world, "ada").await;
    let query = format!("?alert_id={}&channel=ops&state=waiting", alert["id"].as_str().unwrap());
    let listed = world.get(&format!("/deliveries{query}")).await;
    let delivery = &listed["items"][0];
    assert_eq!((&delivery["occasion"], &delivery["alert_id"]), (&json!("opened"), &alert["id"]));
    let id = delivery["id"].as_str().unwrap().to_owned();
    let path = format!("/deliveries/{id}");
    let taken = world.store.take_deliveries_if_leased(lease, Vec::new(), 10).await.unwrap().deliveries;
    assert_eq!(taken.len(), 1);
    let no = punctual_core::notify::message::Sent::Refused { error: "the answer is 410".to_owned() };
    world.store.end_attempt_if_taken(lease, taken[0].0.id, no).await.unwrap();
    let ended = world.get(&path).await;
    assert_eq!((&ended["state"], &ended["tries"], &ended["next_at"]), (&json!("failed"), &json!(1), &Value::Null));
    assert_eq!(ended["attempts"][0]["answer"], "the answer is 410");
    let again = world.call("POST", &format!("{path}/resend")).send().await.expect(200);
    assert_eq!((&again["state"], &again["id"]), (&json!("waiting"), &json!(id)));
    assert!(again["next_at"].is_string());
    let out = world.call("POST", &format!("{path}/drop")).send().await.expect(200);
    assert_eq!(out["state"], "dropped");
    assert_eq!(world.get("/deliveries?state=waiting").await["items"], json!([]));
    assert_eq!(world.call("GET", "/deliveries/x").send().await.refused(404), "not_found");
    assert_eq!(world.call("GET", "/deliveries?state=lost").send().await.refused(400), "bad_query");
    assert_eq!(actions(world, &format!("delivery:{id}")).await, ["delivery.resend", "delivery.drop"]);
}
