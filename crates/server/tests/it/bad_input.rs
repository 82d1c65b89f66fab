//! What is refused: for each kind of bad input the status, the code and a remedy; and nothing is changed by it.

use crate::client::Call;
use crate::on_both_stores;
use crate::world::World;
use punctual_core::access::Role;
use serde_json::{Value, json};

on_both_stores! { c12_bad_input_is_refused_with_a_code_and_a_remedy_and_changes_nothing }

/// What is sent, and how it is refused.
type Row = (&'static str, Call, u16, &'static str);

fn task() -> Value {
    json!({ "kind": "task", "name": "t" })
}

fn schedule(name: &str) -> Value {
    json!({ "name": name, "cron": "@daily", "target": task() })
}

fn job() -> Value {
    json!({ "target": task() })
}

/// A job with one field more.
fn job_with(field: &str, value: Value) -> Value {
    let mut job = job();
    job[field] = value;
    job
}

/// A schedule `x` whose time is said otherwise.
fn timed(timing: &Value) -> Value {
    let mut schedule = json!({ "name": "x", "target": task() });
    for (field, value) in timing.as_object().unwrap() {
        schedule[field] = value.clone();
    }
    schedule
}

/// Everything that could have been changed.
async fn everything(world: &World) -> Value {
    let mut all = Vec::new();
    for list in ["/schedules", "/jobs", "/queues", "/templates", "/audit"] {
        all.push(world.get(&format!("{list}?limit=500")).await);
    }
    Value::Array(all)
}

/// Whoever may not, or not from there.
async fn strangers(world: &World) -> Vec<Row> {
    let expired = world.token_until("ada", Role::Admin, Some(jiff::Timestamp::UNIX_EPOCH)).await;
    let viewer = world.token("ada", Role::Viewer).await;
    let operator = world.token("ada", Role::Operator).await;
    let wrong = format!("{}x", world.admin);
    let post = || world.bare("POST", "/jobs").json(&job());
    let own = || world.call("POST", "/jobs").json(&job());
    let admin = json!({ "name": "x", "owner": "x", "role": "admin" });
    let tokens = world.bare("POST", "/tokens").token(&operator).json(&admin);
    vec![
        ("no token", post(), 401, "not_authenticated"),
        ("wrong token", post().token(&wrong), 401, "not_authenticated"),
        ("no token at all", world.bare("GET", "/jobs").token("hello"), 401, "not_authenticated"),
        ("expired token", post().token(&expired), 401, "not_authenticated"),
        ("viewer writing", post().token(&viewer), 403, "role_too_low"),
        ("viewer deleting", world.bare("DELETE", "/schedules/taken").token(&viewer), 403, "role_too_low"),
        ("operator making tokens", tokens, 403, "role_too_low"),
        ("foreign origin", own().header("Origin", "https://evil.example"), 403, "foreign_origin"),
        ("null origin", own().header("Origin", "null"), 403, "foreign_origin"),
        ("cross site", own().header("Sec-Fetch-Site", "cross-site"), 403, "foreign_origin"),
        ("foreign host", own().header("Host", "evil.example"), 421, "unknown_host"),
    ]
}

/// Questions without an answer, and versions that are not there any more.
fn questions(world: &World) -> Vec<Row> {
    let get = |path: &str| world.call("GET", path);
    let stale = |method: &str| world.call(method, "/schedules/taken").header("If-Match", "\"7\"");
    vec![
        ("bad cursor", get("/jobs?cursor=nonsense"), 400, "bad_cursor"),
        ("cursor of another list", get("/jobs?cursor=MXNh"), 400, "bad_cursor"),
        ("bad limit", get("/jobs?limit=0"), 400, "bad_query"),
        ("huge limit", get("/jobs?limit=501"), 400, "bad_query"),
        ("unknown parameter", get("/jobs?stat=queued"), 400, "bad_query"),
        ("unknown state", get("/jobs?state=lost"), 400, "bad_query"),
        ("unknown topic", get("/events?topics=weather"), 400, "bad_query"),
        ("stale ETag", stale("PATCH").json(&json!({ "priority": 1 })), 412, "version_conflict"),
        ("stale ETag, deleting", stale("DELETE"), 412, "version_conflict"),
        ("unknown queue", get("/queues/nowhere"), 404, "not_found"),
        ("unknown queue's jobs", get("/queues/nowhere/jobs"), 404, "not_found"),
        ("unknown schedule", world.call("POST", "/schedules/nowhere/trigger"), 404, "not_found"),
        ("unknown job", get("/jobs/00000000-0000-0000-0000-000000000000"), 404, "not_found"),
        ("no id", world.call("POST", "/jobs/one/cancel"), 404, "not_found"),
        ("unknown path", get("/nothing"), 404, "no_such_path"),
        ("wrong method", world.call("PUT", "/jobs").json(&job()), 405, "method_not_allowed"),
    ]
}

/// Bodies that are none.
fn bodies(world: &World) -> Vec<Row> {
    let raw = |text: &[u8]| world.call("POST", "/jobs").raw("application/json", text.to_vec());
    let deep = format!("{{\"target\":{{\"kind\":\"task\",\"name\":\"t\"}},\"input\":{}", "[".repeat(100_000));
    vec![
        ("oversized body", raw(&vec![b' '; 5 * 1024 * 1024]), 413, "body_too_large"),
        ("malformed JSON", raw(b"{\"target\":"), 400, "malformed_json"),
        ("two documents", raw(b"{} {}"), 400, "malformed_json"),
        ("too deep", raw(deep.as_bytes()), 400, "malformed_json"),
        ("not UTF-8", raw(b"{\"queue\":\"\xff\"}"), 400, "malformed_json"),
        ("no body", raw(b""), 400, "malformed_json"),
        ("a list", raw(b"[{\"kind\":\"task\",\"name\":\"t\"}]"), 422, "invalid"),
        ("not JSON", world.call("POST", "/jobs").raw("text/plain", b"{}".to_vec()), 415, "not_json"),
    ]
}

/// Bodies that say something impossible.
fn definitions(world: &World) -> Vec<Row> {
    let jobs = |body: Value| world.call("POST", "/jobs").json(&body);
    let schedules = |body: Value| world.call("POST", "/schedules").json(&body);
    let uuid = "00000000-0000-0000-0000-000000000000";
    let nowhere = world.call("POST", &format!("/jobs/{uuid}/move")).json(&json!({}));
    let reserve = world.call("POST", "/queues/q/reservations").json(&json!({ "expires_in": "soon" }));
    let long_key = jobs(job()).header("Idempotency-Key", &"k".repeat(300));
    vec![
        ("unknown field", jobs(job_with("que", json!("x"))), 422, "unknown_field"),
        ("wrong type", jobs(job_with("priority", json!("high"))), 422, "invalid"),
        ("unknown target", jobs(json!({ "target": { "kind": "teleport" } })), 422, "invalid"),
        ("no target", jobs(json!({})), 422, "invalid"),
        ("NUL", jobs(job_with("input", json!("\u{0}"))), 422, "invalid"),
        ("NUL in a name", jobs(json!({ "target": { "kind": "task", "name": "t\u{0}" } })), 422, "invalid"),
        ("duplicate name", schedules(schedule("taken")), 409, "name_taken"),
        ("bad cron", schedules(timed(&json!({ "cron": "61 * * * *" }))), 422, "invalid"),
        ("bad zone", schedules(timed(&json!({ "cron": "@daily", "timezone": "Mars/Olympus" }))), 422, "invalid"),
        ("two timings", schedules(timed(&json!({ "cron": "@daily", "every": "1h" }))), 422, "invalid"),
        ("the past", schedules(timed(&json!({ "at": "2020-01-01T00:00:00Z" }))), 422, "invalid"),
        ("a UUID as a name", schedules(schedule(uuid)), 422, "invalid"),
        ("bad duration", reserve, 422, "invalid"),
        ("move nowhere", nowhere, 422, "invalid"),
        ("bad idempotency key", long_key, 400, "bad_idempotency_key"),
    ]
}

async fn c12_bad_input_is_refused_with_a_code_and_a_remedy_and_changes_nothing(world: &World) {
    world.post("/schedules", &schedule("taken")).await.expect(201);
    world.post("/jobs", &job()).await.expect(201);
    let before = everything(world).await;
    let table = [strangers(world).await, questions(world), bodies(world), definitions(world)];
    for (what, call, status, code) in table.into_iter().flatten() {
        let answer = call.send().await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text);
        assert_eq!(answer.refused(status), code, "{what}");
    }
    assert_eq!(everything(world).await, before, "nothing was changed");
    let command = json!({ "target": { "kind": "command", "argv": ["x"], "shel": 1 } });
    let unknown = world.post("/jobs", &command).await;
    assert_eq!(unknown.json()["errors"][0]["pointer"], "/target", "{}", unknown.text);
    let put = world.call("PUT", "/jobs").json(&job()).send().await;
    assert!(put.header("allow").is_some_and(|allow| allow.contains("POST")), "{:?}", put.headers);
}
