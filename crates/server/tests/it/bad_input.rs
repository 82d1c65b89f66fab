//! What is refused: for each kind of bad input the status, the code and a remedy; and nothing is changed by it.

use crate::client::Call;
use crate::on_both_stores;
use crate::world::World;
use punctual_core::access::Role;
use serde_json::{Value, json};

on_both_stores! { c12_bad_input_is_refused_with_a_code_and_a_remedy_and_changes_nothing }

fn schedule(name: &str) -> Value {
    json!({ "name": name, "cron": "@daily", "target": { "kind": "task", "name": "t" } })
}

fn job() -> Value {
    json!({ "target": { "kind": "task", "name": "work" } })
}

/// Everything that could have been changed.
async fn everything(world: &World) -> Value {
    let mut all = Vec::new();
    for list in ["/schedules", "/jobs", "/queues", "/templates", "/audit"] {
        all.push(world.get(&format!("{list}?limit=500")).await);
    }
    Value::Array(all)
}

async fn c12_bad_input_is_refused_with_a_code_and_a_remedy_and_changes_nothing(world: &World) {
    world.post("/schedules", &schedule("taken")).await.expect(201);
    world.post("/jobs", &job()).await.expect(201);
    let past = jiff::Timestamp::UNIX_EPOCH;
    let expired = world.token_until("ada", Role::Admin, Some(past)).await;
    let viewer = world.token("ada", Role::Viewer).await;
    let operator = world.token("ada", Role::Operator).await;
    let before = everything(world).await;
    let post = |path: &str| world.call("POST", path);
    let wrong_secret = format!("{}x", world.admin);
    let huge = vec![b' '; 5 * 1024 * 1024];
    let deep = format!("{{\"target\":{{\"kind\":\"task\",\"name\":\"t\"}},\"input\":{}", "[".repeat(100_000));
    let table: Vec<(&str, Call, u16, &str)> = vec![
        ("no token", world.bare("POST", "/jobs").json(&job()), 401, "not_authenticated"),
        ("wrong token", world.bare("POST", "/jobs").token(&wrong_secret).json(&job()), 401, "not_authenticated"),
        ("no token at all", world.bare("GET", "/jobs").token("hello"), 401, "not_authenticated"),
        ("expired token", world.bare("POST", "/jobs").token(&expired).json(&job()), 401, "not_authenticated"),
        ("viewer writing", world.bare("POST", "/jobs").token(&viewer).json(&job()), 403, "role_too_low"),
        ("viewer deleting", world.bare("DELETE", "/schedules/taken").token(&viewer), 403, "role_too_low"),
        ("operator making tokens", world.bare("POST", "/tokens").token(&operator)
            .json(&json!({ "name": "x", "owner": "x", "role": "admin" })), 403, "role_too_low"),
        ("foreign origin", post("/jobs").header("Origin", "https://evil.example").json(&job()), 403, "foreign_origin"),
        ("null origin", post("/jobs").header("Origin", "null").json(&job()), 403, "foreign_origin"),
        ("cross site", post("/jobs").header("Sec-Fetch-Site", "cross-site").json(&job()), 403, "foreign_origin"),
        ("foreign host", post("/jobs").header("Host", "evil.example").json(&job()), 421, "unknown_host"),
        ("oversized body", post("/jobs").raw("application/json", huge), 413, "body_too_large"),
        ("bad cursor", world.call("GET", "/jobs?cursor=nonsense"), 400, "bad_cursor"),
        ("cursor of another list", world.call("GET", "/jobs?cursor=MXNh"), 400, "bad_cursor"),
        ("bad limit", world.call("GET", "/jobs?limit=0"), 400, "bad_query"),
        ("huge limit", world.call("GET", "/jobs?limit=501"), 400, "bad_query"),
        ("unknown parameter", world.call("GET", "/jobs?stat=queued"), 400, "bad_query"),
        ("unknown state", world.call("GET", "/jobs?state=lost"), 400, "bad_query"),
        ("stale ETag", world.call("PATCH", "/schedules/taken").header("If-Match", "\"7\"").json(&json!({ "priority": 1 })), 412, "version_conflict"),
        ("stale ETag, deleting", world.call("DELETE", "/schedules/taken").header("If-Match", "\"7\""), 412, "version_conflict"),
        ("duplicate name", post("/schedules").json(&schedule("taken")), 409, "name_taken"),
        ("unknown queue", world.call("GET", "/queues/nowhere"), 404, "not_found"),
        ("unknown queue's jobs", world.call("GET", "/queues/nowhere/jobs"), 404, "not_found"),
        ("unknown schedule", post("/schedules/nowhere/trigger"), 404, "not_found"),
        ("unknown job", world.call("GET", "/jobs/00000000-0000-0000-0000-000000000000"), 404, "not_found"),
        ("no id", post("/jobs/one/cancel"), 404, "not_found"),
        ("malformed JSON", post("/jobs").raw("application/json", b"{\"target\":".to_vec()), 400, "malformed_json"),
        ("two documents", post("/jobs").raw("application/json", b"{} {}".to_vec()), 400, "malformed_json"),
        ("too deep", post("/jobs").raw("application/json", deep.into_bytes()), 400, "malformed_json"),
        ("a list", post("/jobs").json(&json!([{ "kind": "task", "name": "t" }])), 422, "invalid"),
        ("not UTF-8", post("/jobs").raw("application/json", b"{\"queue\":\"\xff\"}".to_vec()), 400, "malformed_json"),
        ("not JSON", post("/jobs").raw("text/plain", b"{}".to_vec()), 415, "not_json"),
        ("no body", post("/jobs").raw("application/json", Vec::new()), 400, "malformed_json"),
        ("unknown field", post("/jobs").json(&json!({ "target": { "kind": "task", "name": "t" }, "que": "x" })), 422, "unknown_field"),
        ("wrong type", post("/jobs").json(&json!({ "target": { "kind": "task", "name": "t" }, "priority": "high" })), 422, "invalid"),
        ("unknown target", post("/jobs").json(&json!({ "target": { "kind": "teleport" } })), 422, "invalid"),
        ("no target", post("/jobs").json(&json!({})), 422, "invalid"),
        ("NUL", post("/jobs").json(&json!({ "target": { "kind": "task", "name": "t" }, "input": "\u{0}" })), 422, "invalid"),
        ("NUL in a name", post("/jobs").json(&json!({ "target": { "kind": "task", "name": "t\u{0}" } })), 422, "invalid"),
        ("bad cron", post("/schedules").json(&json!({ "name": "x", "cron": "61 * * * *", "target": { "kind": "task", "name": "t" } })), 422, "invalid"),
        ("bad zone", post("/schedules").json(&json!({ "name": "x", "cron": "@daily", "timezone": "Mars/Olympus", "target": { "kind": "task", "name": "t" } })), 422, "invalid"),
        ("two timings", post("/schedules").json(&json!({ "name": "x", "cron": "@daily", "every": "1h", "target": { "kind": "task", "name": "t" } })), 422, "invalid"),
        ("a UUID as a name", post("/schedules").json(&schedule("00000000-0000-0000-0000-000000000000")), 422, "invalid"),
        ("an instant that has passed", post("/schedules").json(&json!({ "name": "x", "at": "2020-01-01T00:00:00Z", "target": { "kind": "task", "name": "t" } })), 422, "invalid"),
        ("bad duration", post("/queues/q/reservations").json(&json!({ "expires_in": "soon" })), 422, "invalid"),
        ("move nowhere", post("/jobs/00000000-0000-0000-0000-000000000000/move").json(&json!({})), 422, "invalid"),
        ("bad idempotency key", post("/jobs").header("Idempotency-Key", &"k".repeat(300)).json(&job()), 400, "bad_idempotency_key"),
        ("unknown path", world.call("GET", "/nothing"), 404, "no_such_path"),
        ("wrong method", world.call("PUT", "/jobs").json(&job()), 405, "method_not_allowed"),
        ("unknown topic", world.call("GET", "/events?topics=weather"), 400, "bad_query"),
    ];
    for (what, call, status, code) in table {
        let answer = call.send().await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text);
        assert_eq!(answer.refused(status), code, "{what}");
    }
    assert_eq!(everything(world).await, before, "nothing was changed");
    let unknown =
        post("/jobs").json(&json!({ "target": { "kind": "command", "argv": ["x"], "shel": 1 } })).send().await;
    assert_eq!(unknown.json()["errors"][0]["pointer"], "/target", "{}", unknown.text);
    let put = world.call("PUT", "/jobs").json(&job()).send().await;
    assert!(put.header("allow").is_some_and(|allow| allow.contains("POST")), "{:?}", put.headers);
}
