//! The resources: what can be made, listed, looked at and changed.

use crate::on_both_stores;
use crate::world::World;
use jiff::{SignedDuration, Timestamp};
use punctual_core::access::Role;
use punctual_core::health::Overdue;
use punctual_core::id::ClaimId;
use punctual_core::records::{LogChunk, LogLine, LogStream};
use punctual_core::run::ErrorCode;
use punctual_core::store::{ClaimRequest, FinishedRun, Lease, NewNode};
use serde_json::{Value, json};

on_both_stores! {
    a15_a_schedule_is_made_looked_at_edited_and_deleted,
    d03_a_schedule_is_paused_resumed_triggered_and_rescheduled,
    a15_a_grant_is_made_with_its_schedule_or_not_at_all,
    a02_grants_are_made_listed_and_revoked_by_their_owner,
    a09_a_graph_without_a_grant_of_its_owner_is_refused,
    c12_a_repeated_request_gets_the_same_answer_once,
    c02_jobs_are_made_one_by_one_and_in_batches,
    c06_queued_jobs_are_moved_edited_and_cancelled,
    c04_a_failed_job_is_retried_and_its_run_is_shown,
    b10_lists_go_on_from_their_cursors,
    c11_queues_are_paused_and_reserved,
    c18_many_jobs_are_changed_at_once,
    d09_parameters_of_a_template_are_filled_in,
    c18_a_unique_job_is_marked_when_it_was_there,
    c14_limits_are_set_looked_at_and_removed,
    d09_templates_are_made_and_used,
    d04_plans_and_reasons_are_told,
    e07_the_api_answers_while_the_engine_does_not_run,
    n02_a_server_is_ready_and_says_what_its_node_has_noticed,
    c12_changes_are_in_the_audit_log_with_before_and_after,
    c13_logs_and_artifacts_are_shown,
    c05_only_one_job_of_a_key_waits_and_owners_do_not_meet,
}

fn nightly(name: &str) -> Value {
    json!({ "name": name, "cron": "0 2 * * *", "timezone": "Europe/Berlin",
            "target": { "kind": "command", "argv": ["backup.sh", "--all"] },
            "missed": "once", "timeout": "30s", "labels": { "team": "billing" } })
}

fn task() -> Value {
    json!({ "target": { "kind": "task", "name": "work" }, "retry": { "max_attempts": 1 } })
}

pub async fn node(world: &World) -> Lease {
    world.store.register_node(NewNode { name: "n".into(), offers: vec!["task:work".into()] }).await.unwrap()
}

pub async fn claim(world: &World, lease: Lease) -> Vec<punctual_core::id::JobId> {
    let request = ClaimRequest {
        lease,
        claim_id: ClaimId(uuid::Uuid::new_v4()),
        queues: vec![],
        job_types: vec!["task:work".into()],
        limit: 100,
    };
    world.store.claim_jobs_if_leased(request).await.unwrap().iter().map(|claimed| claimed.job.id).collect()
}

async fn a15_a_schedule_is_made_looked_at_edited_and_deleted(world: &World) {
    let made = world.post("/schedules", &nightly("nightly")).await;
    let etag = made.header("etag").unwrap().to_owned();
    let location = made.header("location").unwrap().to_owned();
    let made = made.expect(201);
    assert_eq!(location, format!("/api/v1/schedules/{}", made["id"].as_str().unwrap()));
    assert_eq!((&made["version"], &made["owner"], &made["last_run_at"]), (&json!(1), &json!("admin"), &Value::Null));
    assert!(made["next_run_at"].is_string() && made["in_words"].as_str().unwrap().contains("02:00"), "{made}");
    assert_eq!(world.get("/schedules/nightly").await, made, "by name as by id, and as it was told");
    assert_eq!(world.get(&format!("/schedules/{}", made["id"].as_str().unwrap())).await, made);

    let patch = json!({ "every": "90s", "input": { "n": 1 }, "labels": null });
    let edited = world.call("PATCH", "/schedules/nightly").header("If-Match", &etag).json(&patch).send().await;
    assert_eq!(edited.header("etag"), Some("\"2\""));
    let edited = edited.expect(200);
    assert_eq!((&edited["every"], &edited["input"], &edited["labels"]), (&json!("1m30s"), &json!({"n":1}), &json!({})));
    assert_eq!((&edited["cron"], &edited["version"], &edited["timeout"]), (&Value::Null, &json!(2), &json!("30s")));

    let stale = world.call("PATCH", "/schedules/nightly").header("If-Match", &etag).json(&patch).send().await;
    assert_eq!(stale.refused(412), "version_conflict");
    let stale = world.call("DELETE", "/schedules/nightly").header("If-Match", &etag).send().await;
    assert_eq!(stale.refused(412), "version_conflict");
    world.call("DELETE", "/schedules/nightly").header("If-Match", "\"2\"").send().await.expect(204);
    assert_eq!(world.call("GET", "/schedules/nightly").send().await.refused(404), "not_found");
}

async fn d03_a_schedule_is_paused_resumed_triggered_and_rescheduled(world: &World) {
    world.post("/schedules", &nightly("s")).await.expect(201);
    let paused = world.post("/schedules/s/pause", &json!({ "note": "holiday" })).await.expect(200);
    assert_eq!((&paused["enabled"], &paused["next_run_at"]), (&json!(false), &Value::Null));
    assert_eq!((&paused["paused"]["note"], &paused["paused"]["by"]), (&json!("holiday"), &json!("admin")));
    let resumed = world.call("POST", "/schedules/s/resume").send().await.expect(200);
    assert_eq!((&resumed["enabled"], &resumed["paused"]), (&json!(true), &Value::Null));
    let job = world.post("/schedules/s/trigger", &json!({ "input": [1] })).await.expect(201);
    assert_eq!((&job["triggered_by"], &job["input"], &job["state"]), (&json!("manual"), &json!([1]), &json!("queued")));
    assert_eq!(job["schedule_id"], resumed["id"]);
    let stored = world.get(&format!("/jobs/{}", job["id"].as_str().unwrap())).await;
    for field in ["id", "created_at", "input", "owner", "schedule_id", "trigger_detail", "queued_at", "attempt"] {
        assert_eq!(stored[field], job[field], "{field}: what was told is what is stored");
    }
    let at = (Timestamp::now() + SignedDuration::from_hours(1)).round(jiff::Unit::Second).unwrap();
    let moved = world.post("/schedules/s/reschedule", &json!({ "at": at })).await.expect(200);
    assert_eq!(moved["next_run_at"], json!(at));
    let skip = || world.call("POST", "/schedules/s/skip-next").header("Idempotency-Key", "not this one").send();
    let skipped = skip().await.expect(200);
    assert!(skipped["next_run_at"].as_str() > moved["next_run_at"].as_str(), "{skipped}");
    assert_eq!(skip().await.expect(200), skipped, "a repeated request skips no second slot");
    assert_eq!(world.get("/schedules/s").await["next_run_at"], skipped["next_run_at"]);
    let rows = world.get("/schedules/s/slots").await["items"].take();
    let row = rows.as_array().unwrap().iter().find(|row| row["slot_at"] == json!(at)).expect("it is in the ledger");
    assert_eq!((&row["reason"], &row["note"]), (&json!("rescheduled"), &json!("skipped by admin")));
    world.call("POST", "/schedules/s/pause").send().await.expect(200);
    let refused = world.call("POST", "/schedules/s/skip-next").send().await.expect(422);
    assert!(refused["remedy"].as_str().unwrap().contains("resume it first"), "{refused}");
    let made_paused =
        json!({ "name": "p", "every": "1h", "enabled": false, "target": { "kind": "task", "name": "t" } });
    let make = || world.call("POST", "/schedules").header("Idempotency-Key", "p").json(&made_paused).send();
    make().await.expect(201);
    assert_eq!(world.get("/schedules/p").await["enabled"], false);
    world.call("POST", "/schedules/p/resume").send().await.expect(200);
    make().await.expect(201);
    assert_eq!(world.get("/schedules/p").await["enabled"], true, "a repeated request pauses nothing");
    world.post("/schedules", &nightly("n")).await.expect(201);
    let nothing = world.post("/schedules/n/trigger", &json!({ "input": null })).await.expect(201);
    assert_eq!(nothing["input"], Value::Null, "null is an input, and not the absence of one");
    let own = world.post("/schedules/n/trigger", &json!({})).await.expect(201);
    assert_eq!(own["input"], json!({}));
}

async fn a15_a_grant_is_made_with_its_schedule_or_not_at_all(world: &World) {
    let with = |name: &str, scopes: Value| {
        json!({ "name": name, "cron": "@daily", "target": { "kind": "graph", "id": "flow:etl" },
                "grant": { "billing_account": "acme", "scopes": scopes } })
    };
    let made = world.post("/schedules", &with("g", json!(["graph:execute:flow:etl"]))).await.expect(201);
    let grant = made["grant_id"].as_str().expect("the schedule runs under the new grant").parse().unwrap();
    assert_eq!(world.store.grant(grant).await.unwrap().unwrap().owner, "admin");
    let refused = world.post("/schedules", &with("h", json!(["everything"]))).await;
    assert_eq!(refused.refused(422), "invalid");
    assert_eq!(refused.json()["errors"][0]["pointer"], "/grant/scopes");
    assert_eq!(world.call("GET", "/schedules/h").send().await.status, 404);
    let unknown = json!({ "name": "i", "cron": "@daily", "grant_id": uuid::Uuid::new_v4(),
                          "target": { "kind": "graph", "id": "flow:x" } });
    assert_eq!(world.post("/schedules", &unknown).await.json()["errors"][0]["pointer"], "/grant_id");
}

async fn a02_grants_are_made_listed_and_revoked_by_their_owner(world: &World) {
    let (ada, eve) = (world.token("ada", Role::Operator).await, world.token("eve", Role::Operator).await);
    let body = json!({ "billing_account": "acme", "scopes": ["graph:execute:*"], "max_runs": 3,
                       "rate": { "jobs": 2, "per": "1m" } });
    let ask = || world.bare("POST", "/grants").token(&ada).header("Idempotency-Key", "g").json(&body).send();
    let made = ask().await.expect(201);
    assert_eq!(ask().await.expect(201), made, "once for each key");
    assert_eq!((&made["owner"], &made["runs"], &made["rate"]["burst"]), (&json!("ada"), &json!(0), &json!(2)));
    let path = format!("/grants/{}", made["id"].as_str().unwrap());
    assert_eq!(world.bare("GET", &path).token(&ada).send().await.expect(200), made);
    assert_eq!(world.bare("GET", "/grants").token(&ada).send().await.expect(200)["items"], json!([made]));
    assert_eq!(world.get("/grants").await["items"], json!([made]), "an admin sees all");
    assert_eq!(world.bare("GET", "/grants").token(&eve).send().await.expect(200)["items"], json!([]));
    assert_eq!(world.bare("GET", &path).token(&eve).send().await.refused(404), "not_found");
    let revoke = format!("{path}/revoke");
    assert_eq!(world.bare("POST", &revoke).token(&eve).send().await.refused(404), "not_found");
    let revoked = world.bare("POST", &revoke).token(&ada).send().await.expect(200);
    assert!(revoked["revoked_at"].is_string());
    assert_eq!(world.bare("POST", &revoke).token(&ada).send().await.expect(200), revoked);
    for (field, wrong) in [("scopes", json!(["all"])), ("scopes", json!([])), ("max_runs", json!(0))] {
        let mut refused = body.clone();
        refused[field] = wrong;
        let answer = world.post("/grants", &refused).await;
        assert_eq!(answer.json()["errors"][0]["pointer"], format!("/{field}"));
        assert_eq!(answer.refused(422), "invalid");
    }
}

async fn a09_a_graph_without_a_grant_of_its_owner_is_refused(world: &World) {
    let ada = world.token("ada", Role::Operator).await;
    let grant = json!({ "billing_account": "acme", "scopes": ["graph:execute:*"] });
    let own = world.bare("POST", "/grants").token(&ada).json(&grant).send().await.expect(201)["id"].clone();
    let of_admin = world.post("/grants", &grant).await.expect(201)["id"].clone();
    for (path, timing) in [("/jobs", json!({})), ("/schedules", json!({ "name": "s", "every": "1h" }))] {
        let ask = |graph: &str, grant: &Value| {
            let mut body = timing.clone();
            body["target"] = json!({ "kind": "graph", "id": graph });
            body["grant_id"] = grant.clone();
            world.bare("POST", path).token(&ada).json(&body).send()
        };
        for (graph, grant, pointer) in [
            ("flow:etl", &Value::Null, "/grant_id"),
            ("flow:etl", &of_admin, "/grant_id"),
            ("flow:etl", &json!(uuid::Uuid::nil()), "/grant_id"),
            ("etl", &own, "/target/id"),
        ] {
            let refused = ask(graph, grant).await;
            assert_eq!(refused.json()["errors"][0]["pointer"], pointer, "{path} {graph}");
            assert_eq!(refused.refused(422), "invalid");
        }
        assert_eq!(ask("flow:etl", &own).await.expect(201)["grant_id"], own);
    }
}

async fn c12_a_repeated_request_gets_the_same_answer_once(world: &World) {
    let send =
        |key: &str, path: &str, body: &Value| world.call("POST", path).header("Idempotency-Key", key).json(body).send();
    for (path, body) in [
        ("/schedules", nightly("once")),
        ("/jobs", task()),
        ("/jobs/batch", json!({ "jobs": [task(), task()] })),
        ("/templates", json!({ "name": "t", "job": task() })),
        ("/queues/q/reservations", json!({ "expires_in": "5m" })),
        ("/schedules/once/trigger", json!({})),
    ] {
        let first = send(path, path, &body).await;
        assert_eq!(first.status, 201, "{path}: {}", first.text);
        let again = send(path, path, &body).await;
        assert_eq!((again.status, &again.text), (201, &first.text), "{path}");
        assert_eq!((again.header("idempotency-replayed"), first.header("idempotency-replayed")), (Some("true"), None));
        assert_eq!(again.header("location"), first.header("location"), "{path}");
    }
    assert_eq!(world.get("/jobs?limit=500").await["items"].as_array().unwrap().len(), 4);
    let other = send("/jobs", "/jobs", &json!({ "target": { "kind": "task", "name": "other" } })).await;
    assert_eq!(other.refused(422), "idempotency_key_reused");
    // A key of another owner is another key.
    let eve = world.token("eve", Role::Operator).await;
    let hers = world.bare("POST", "/jobs").token(&eve).header("Idempotency-Key", "/jobs").json(&task());
    assert_eq!(hers.send().await.expect(201)["owner"], "eve");
    let token = json!({ "name": "ci", "owner": "ci", "role": "viewer" });
    let first = send("tok", "/tokens", &token).await.expect(201);
    assert!(first["secret"].as_str().unwrap().starts_with("punctual_"));
    let again = send("tok", "/tokens", &token).await.expect(201);
    assert_eq!((&again["id"], &again["secret"]), (&first["id"], &Value::Null), "a secret is told once");
}

async fn c02_jobs_are_made_one_by_one_and_in_batches(world: &World) {
    let at = Timestamp::now() + SignedDuration::from_hours(1);
    let later = json!({ "target": { "kind": "http", "url": "https://example.org" }, "run_at": at, "queue": "mail",
                        "input": { "n": 12_345_678_901_234_567_u64 }, "priority": -3, "tags": ["big"] });
    let made = world.post("/jobs", &later).await.expect(201);
    assert_eq!((&made["state"], &made["attempt"], &made["run"]), (&json!("scheduled"), &json!(1), &Value::Null));
    let stored = world.get(&format!("/jobs/{}", made["id"].as_str().unwrap())).await;
    assert_eq!(stored, made, "what was told is what is stored");
    let batch = world.post("/jobs/batch", &json!({ "jobs": [task(), task()] })).await.expect(201);
    assert_eq!(batch["items"].as_array().unwrap().len(), 2);
    let bad =
        world.post("/jobs/batch", &json!({ "jobs": [task(), { "target": { "kind": "command", "argv": [] } }] })).await;
    assert_eq!(bad.refused(422), "invalid");
    let count = |list: Value| list["items"].as_array().unwrap().len();
    assert_eq!(count(world.get("/jobs").await), 3, "all or none");
    assert_eq!(count(world.get("/jobs?state=scheduled&queue=mail&tag=big&job_type=http").await), 1);
    assert_eq!(count(world.get("/jobs?state=queued").await), 2);
}

async fn c06_queued_jobs_are_moved_edited_and_cancelled(world: &World) {
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(world.post("/jobs", &task()).await.expect(201)["id"].as_str().unwrap().to_owned());
    }
    let order = || async {
        let listed = world.get("/queues/default/jobs").await;
        let id = |job: &Value| job["job_id"].as_str().unwrap().to_owned();
        listed["items"].as_array().unwrap().iter().map(id).collect::<Vec<_>>()
    };
    assert_eq!(order().await, ids);
    world.post(&format!("/jobs/{}/move", ids[2]), &json!({ "before": ids[0] })).await.expect(200);
    assert_eq!(order().await, [&ids[2], &ids[0], &ids[1]].map(Clone::clone));
    let edited =
        world.call("PATCH", &format!("/jobs/{}", ids[0])).json(&json!({ "input": null })).send().await.expect(200);
    assert_eq!(edited["input"], Value::Null);
    assert_eq!(world.get(&format!("/jobs/{}", ids[0])).await["run"]["error_code"], "replaced");
    let stopped = world.call("POST", &format!("/jobs/{}/cancel", ids[1])).send().await.expect(200);
    assert_eq!(stopped["cancelled"], "before_start");
    let again = world.call("POST", &format!("/jobs/{}/cancel", ids[1])).send().await;
    assert_eq!(again.refused(409), "wrong_state");
    assert_eq!(order().await, [ids[2].clone(), edited["id"].as_str().unwrap().to_owned()]);
}

async fn c04_a_failed_job_is_retried_and_its_run_is_shown(world: &World) {
    let id = world.post("/jobs", &task()).await.expect(201)["id"].as_str().unwrap().to_owned();
    let path = format!("/jobs/{id}");
    assert_eq!(world.call("GET", &format!("/runs/{id}")).send().await.refused(404), "not_found");
    let lease = node(world).await;
    let claimed = claim(world, lease).await;
    assert_eq!(world.get(&path).await["run"]["outcome"], Value::Null);
    assert_eq!(world.call("POST", &format!("{path}/retry")).send().await.refused(409), "wrong_state");
    let failed = FinishedRun::failed(claimed[0], ErrorCode::TargetError, "it broke");
    world.store.finish_runs_if_leased(lease, vec![failed]).await.unwrap();
    let run = world.get(&format!("/runs/{id}")).await;
    assert_eq!(
        (&run["outcome"], &run["error"], &run["error_code"]),
        (&json!("failed"), &json!("it broke"), &json!("target_error"))
    );
    assert_eq!(world.get("/runs?state=failed").await["items"][0]["id"], json!(id));
    let retry = world.call("POST", &format!("{path}/retry")).send().await.expect(201);
    assert_eq!(
        (&retry["attempt"], &retry["retry_of"], &retry["triggered_by"]),
        (&json!(2), &json!(id), &json!("retry"))
    );
    assert_eq!(world.get(&format!("/jobs/{}", retry["id"].as_str().unwrap())).await["retry_of"], json!(id));
    let nodes = world.get("/nodes").await;
    assert_eq!((&nodes["items"][0]["name"], &nodes["items"][0]["alive"]), (&json!("n"), &json!(true)));
    let stats = world.get("/stats?window=24h").await;
    assert_eq!((&stats["ended"]["failed"], &stats["queued"]["count"]), (&json!(1), &json!(1)));
}

async fn b10_lists_go_on_from_their_cursors(world: &World) {
    for n in 0..5 {
        world.post("/schedules", &nightly(&format!("s{n}"))).await.expect(201);
        world.post("/templates", &json!({ "name": format!("t{n}"), "job": task() })).await.expect(201);
        world.call("PATCH", &format!("/queues/q{n}")).json(&json!({ "paused": false })).send().await.expect(200);
    }
    world.post("/jobs/batch", &json!({ "jobs": [task(), task(), task(), task(), task()] })).await.expect(201);
    for n in 0..5 {
        world.call("PUT", &format!("/limits/tag:l{n}")).json(&json!({ "concurrency": n })).send().await.expect(200);
    }
    for (list, key, total) in [
        ("/schedules", "name", 5),
        ("/templates", "name", 5),
        ("/queues", "name", 6),
        ("/limits", "subject", 5),
        ("/jobs", "id", 5),
        ("/queues/default/jobs", "job_id", 5),
        ("/audit", "id", 20),
    ] {
        let whole = world.get(&format!("{list}?limit=100")).await;
        let all: Vec<Value> = whole["items"].as_array().unwrap().iter().map(|item| item[key].clone()).collect();
        assert_eq!((all.len(), &whole["next_cursor"]), (total, &Value::Null), "{list}");
        let (mut seen, mut path) = (Vec::new(), format!("{list}?limit=2"));
        loop {
            let page = world.get(&path).await;
            seen.extend(page["items"].as_array().unwrap().iter().map(|item| item[key].clone()));
            match page["next_cursor"].as_str() {
                Some(cursor) => path = format!("{list}?limit=2&cursor={cursor}"),
                None => break,
            }
        }
        assert_eq!(seen, all, "{list}");
    }
    let due = world.get("/schedules?order=next_run&limit=2").await;
    assert_eq!((due["items"].as_array().unwrap().len(), &due["next_cursor"]), (2, &Value::Null));
    assert_eq!(world.get("/schedules?label=team=billing&q=s3").await["items"][0]["name"], "s3");
}

async fn c11_queues_are_paused_and_reserved(world: &World) {
    assert_eq!(world.call("GET", "/queues/mail").send().await.refused(404), "not_found");
    let paused = world.call("PATCH", "/queues/mail").json(&json!({ "paused": true })).send().await.expect(200);
    assert_eq!((&paused["paused"], &paused["depth"]["count"]), (&json!(true), &json!(0)));
    let held = world.post("/queues/mail/reservations", &json!({ "expires_in": "5m" })).await.expect(201);
    assert_eq!(world.get("/queues/mail").await["reservation"]["id"], held["id"]);
    let second = world.post("/queues/mail/reservations", &json!({ "expires_in": "5m" })).await;
    assert_eq!(second.refused(409), "reserved");
    let waited = world.post("/queues/mail/reservations", &json!({ "wait": "100ms" })).await;
    assert_eq!(waited.refused(409), "reserved", "it waited, and it was not enough");
    let long = world.post("/queues/mail/reservations", &json!({ "wait": "1h" })).await;
    assert_eq!(long.json()["errors"][0]["pointer"], "/wait");
    let renew = format!("/reservations/{}/renew", held["id"].as_str().unwrap());
    let renewed = world.post(&renew, &json!({ "expires_in": "10m" })).await.expect(200);
    assert!(renewed["expires_at"].as_str() > held["expires_at"].as_str(), "{renewed}");
    let path = format!("/reservations/{}", held["id"].as_str().unwrap());
    world.call("DELETE", &path).send().await.expect(204);
    assert_eq!(world.get("/queues/mail").await["reservation"], Value::Null);
    assert_eq!(world.call("DELETE", &path).send().await.refused(404), "not_found");
    assert_eq!(world.post(&renew, &json!({})).await.refused(404), "not_found");
    // Somebody who waits gets it as soon as it is given back.
    let held = world.post("/queues/mail/reservations", &json!({})).await.expect(201);
    let path = format!("/reservations/{}", held["id"].as_str().unwrap());
    let patient = json!({ "wait": "1m" });
    let waiting = world.post("/queues/mail/reservations", &patient);
    let releasing = async { world.call("DELETE", &path).send().await.expect(204) };
    let (waited, _) = tokio::join!(waiting, releasing);
    assert_ne!(waited.expect(201)["id"], held["id"]);
}

async fn c18_many_jobs_are_changed_at_once(world: &World) {
    let job = json!({ "target": { "kind": "task", "name": "t" }, "queue": "bulk" });
    for _ in 0..3 {
        world.post("/jobs", &job).await.expect(201);
    }
    let everything = world.post("/jobs/bulk", &json!({ "action": "cancel" })).await;
    assert_eq!(everything.json()["errors"][0]["pointer"], "/filter", "all must be said");
    let mut cancel = json!({ "action": "cancel", "filter": { "queue": "bulk" }, "dry_run": true });
    assert_eq!(world.post("/jobs/bulk", &cancel).await.expect(200)["jobs"], 3);
    let wrong = json!({ "action": "cancel", "filter": { "state": "completed" } });
    assert_eq!(world.post("/jobs/bulk", &wrong).await.json()["errors"][0]["pointer"], "/state");
    cancel["dry_run"] = json!(false);
    let begun = world.post("/jobs/bulk", &cancel).await.expect(201);
    assert_eq!((&begun["state"], &begun["filter"]["queue"]), (&json!("running"), &json!("bulk")));
    while world.store.advance_bulks().await.unwrap().more {}
    let path = format!("/bulk-operations/{}", begun["id"].as_str().unwrap());
    let over = world.get(&path).await;
    assert_eq!((&over["state"], &over["done"]), (&json!("done"), &json!(3)));
    assert_eq!(world.get("/jobs?queue=bulk&state=cancelled").await["items"].as_array().unwrap().len(), 3);
    assert_eq!(world.get("/bulk-operations").await["items"][0], over);
    let cancelled = world.post(&format!("{path}/cancel"), &json!({})).await.expect(200);
    assert_eq!(cancelled, over, "it has ended, and stays as it is");
    assert_eq!(world.call("GET", "/bulk-operations/x").send().await.refused(404), "not_found");
}

async fn c18_a_unique_job_is_marked_when_it_was_there(world: &World) {
    let job = json!({ "target": { "kind": "task", "name": "t" }, "unique": { "period": "1h" } });
    let first = world.post("/jobs", &job).await.expect(201);
    let second = world.post("/jobs", &job).await.expect(201);
    assert_eq!((&first["existing"], &second["existing"]), (&json!(false), &json!(true)));
    assert_eq!(first["id"], second["id"]);
    let mut other = job.clone();
    other["input"] = json!(7);
    let batch = world.post("/jobs/batch", &json!({ "jobs": [job, other] })).await.expect(201);
    let marks: Vec<&Value> = batch["items"].as_array().unwrap().iter().map(|item| &item["existing"]).collect();
    assert_eq!(marks, [&json!(true), &json!(false)]);
    let both = json!({ "target": { "kind": "task", "name": "t" }, "unique": { "period": "1h" }, "job_key": "k" });
    assert_eq!(world.post("/jobs", &both).await.json()["errors"][0]["pointer"], "/unique");
}

async fn c14_limits_are_set_looked_at_and_removed(world: &World) {
    assert_eq!(world.get("/limits").await["items"], json!([]));
    let rate = json!({ "concurrency": 2, "rate": { "jobs": 10, "per": "1m" } });
    let set = world.call("PUT", "/limits/tag:gpu").json(&rate).send().await.expect(200);
    assert_eq!((&set["subject"], &set["concurrency"], &set["running"]), (&json!("tag:gpu"), &json!(2), &json!(0)));
    assert_eq!((&set["rate"], &set["tokens"]), (&json!({ "jobs": 10, "per": "1m", "burst": 10 }), &json!(10)));
    assert_eq!(world.get("/limits/tag:gpu").await, set);
    for (path, body, field) in [
        ("/limits/tag:gpu", json!({}), "/limit"),
        ("/limits/tag:gpu", json!({ "rate": { "jobs": 0, "per": "1m" } }), "/rate/jobs"),
        ("/limits/tag:gpu", json!({ "concurrency": 9_999_999 }), "/concurrency"),
        ("/limits/rack:7", json!({ "concurrency": 1 }), "/subject"),
    ] {
        let refused = world.call("PUT", path).json(&body).send().await;
        assert_eq!(refused.refused(422), "invalid", "{path} {body}");
        assert_eq!(refused.json()["errors"][0]["pointer"], field);
    }
    let of_queue = async |patch: Value| world.call("PATCH", "/queues/mail").json(&patch).send().await;
    assert_eq!(of_queue(json!({ "concurrency": 1 })).await.refused(404), "not_found");
    let limited = of_queue(json!({ "paused": true, "concurrency": 1 })).await.expect(200);
    assert_eq!((&limited["paused"], &limited["concurrency"]), (&json!(true), &json!(1)));
    assert_eq!(world.get("/limits/queue:mail").await["concurrency"], 1);
    assert_eq!(of_queue(json!({ "paused": false })).await.expect(200)["concurrency"], 1, "what is not said stays");
    assert_eq!(of_queue(json!({ "concurrency": null })).await.expect(200)["concurrency"], Value::Null);
    assert_eq!(world.call("GET", "/limits/queue:mail").send().await.refused(404), "not_found");
    let stuck =
        world.post("/jobs", &json!({ "target": { "kind": "task", "name": "t" }, "tags": ["gpu"] })).await.expect(201);
    let why = async || world.get(&format!("/jobs/{}", stuck["id"].as_str().unwrap())).await["waits_for"].clone();
    assert_eq!(why().await, "a node that runs `task:t`; none of those that live does");
    world.call("PUT", "/limits/tag:gpu").json(&json!({ "concurrency": 0 })).send().await.expect(200);
    assert_eq!(why().await, "the limit `tag:gpu` is full: 0 run, and 0 may at once");
    world.call("PATCH", "/queues/default").json(&json!({ "paused": true })).send().await.expect(200);
    assert_eq!(why().await, "the queue `default` is paused; resume it");
    world.call("DELETE", "/limits/tag:gpu").send().await.expect(204);
    assert_eq!(world.call("DELETE", "/limits/tag:gpu").send().await.refused(404), "not_found");
    let audit = world.get("/audit?subject=limit:tag:gpu").await;
    let actions: Vec<_> = audit["items"].as_array().unwrap().iter().map(|row| row["action"].clone()).collect();
    assert_eq!(actions, ["limit.remove", "limit.set", "limit.set"]);
}

async fn d09_templates_are_made_and_used(world: &World) {
    let job = json!({ "target": { "kind": "task", "name": "mail" }, "input": { "to": "ada" }, "queue": "mail" });
    let made = world.post("/templates", &json!({ "name": "mail", "job": job })).await.expect(201);
    assert_eq!(world.get("/templates/mail").await, made);
    let job = world.post("/jobs", &json!({ "template": "mail", "priority": 5 })).await.expect(201);
    assert_eq!((&job["queue"], &job["input"]["to"], &job["priority"]), (&json!("mail"), &json!("ada"), &json!(5)));
    assert_eq!(job["template_id"], made["id"]);
    let unknown = world.post("/jobs", &json!({ "template": "nope" })).await;
    assert_eq!(unknown.json()["errors"][0]["pointer"], "/template");
    assert_eq!(world.call("GET", "/templates/nope").send().await.refused(404), "not_found");
}

async fn d09_parameters_of_a_template_are_filled_in(world: &World) {
    let target = json!({ "kind": "http", "url": "https://example.org/{{ input.to }}" });
    let parameters = json!([{ "name": "to", "type": "text", "required": true },
                            { "name": "copies", "type": "integer", "default": 1 }]);
    let template =
        json!({ "name": "letter", "job": { "target": target, "input": { "from": "me" } }, "parameters": parameters });
    let made = world.post("/templates", &template).await.expect(201);
    assert_eq!(made["parameters"][1]["default"], 1);
    let job = world.post("/jobs", &json!({ "template": "letter", "parameters": { "to": "ada" } })).await.expect(201);
    assert_eq!(job["input"], json!({ "copies": 1, "from": "me", "to": "ada" }));
    assert_eq!(job["target"]["url"], "https://example.org/{{ input.to }}", "filled in when it runs, and not before");
    let refused = async |body: Value| -> String {
        let answer = world.post("/jobs", &body).await.json();
        answer["errors"][0]["pointer"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(refused(json!({ "template": "letter" })).await, "/parameters/to");
    assert_eq!(refused(json!({ "template": "letter", "parameters": { "to": 7 } })).await, "/parameters/to");
    assert_eq!(refused(json!({ "template": "letter", "parameters": { "to": "a", "x": 1 } })).await, "/parameters/x");
    assert_eq!(refused(json!({ "template": "letter", "input": {} })).await, "/input");
    assert_eq!(refused(json!({ "target": target, "parameters": {} })).await, "/parameters");
    let schedule = json!({ "name": "weekly", "preset": "mondays-9am", "timezone": "Europe/Berlin",
                           "template": "letter", "parameters": { "to": "all" }, "priority": 7 });
    let schedule = world.post("/schedules", &schedule).await.expect(201);
    assert_eq!((&schedule["cron"], &schedule["input"]["to"]), (&json!("0 9 * * 1"), &json!("all")));
    assert_eq!((&schedule["priority"], &schedule["target"]["kind"]), (&json!(7), &json!("http")));
    let unknown = json!({ "name": "x", "preset": "nope", "target": target });
    assert_eq!(world.post("/schedules", &unknown).await.json()["errors"][0]["pointer"], "/preset");
    let own = world.post("/cron/presets", &json!({ "name": "payday", "expression": "0 9 25 * *" })).await.expect(201);
    assert_eq!(own["built_in"], false);
    let listed = world.get("/cron/presets?limit=500").await;
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted() && names.contains(&"payday") && names.contains(&"weekdays-9am"), "{names:?}");
    world.call("DELETE", "/cron/presets/payday").send().await.expect(204);
    assert_eq!(world.call("DELETE", "/cron/presets/daily").send().await.refused(404), "not_found");
    world.call("DELETE", "/templates/letter").send().await.expect(204);
    assert_eq!(world.get("/schedules/weekly").await["input"]["to"], "all", "what was made from it stays");
}

async fn d04_plans_and_reasons_are_told(world: &World) {
    let hourly = json!({ "name": "h", "cron": "0 * * * *", "target": { "kind": "task", "name": "t" } });
    let made = world.post("/schedules", &hourly).await.expect(201);
    let ahead = world.get("/schedules/h/upcoming?count=3").await;
    assert_eq!((ahead["items"].as_array().unwrap().len(), &ahead["items"][0]["run_at"]), (3, &made["next_run_at"]));
    let why = |at: &str| {
        let path = format!("/schedules/h/why?at={at}");
        async move { world.get(&path).await["answer"].as_str().unwrap().to_owned() }
    };
    assert!(why(made["next_run_at"].as_str().unwrap()).await.contains("lies ahead"));
    assert!(why("2030-01-01T00:00:01Z").await.contains("not a slot"));
    assert!(why("2020-01-01T00:00:00Z").await.contains("did not exist"));
    let later = Timestamp::now() + SignedDuration::from_hours(10);
    world.post("/schedules/h/reschedule", &json!({ "at": later })).await.expect(200);
    assert!(why(made["next_run_at"].as_str().unwrap()).await.contains("moved the fire"));
    let slots = world.get("/schedules/h/slots").await;
    assert_eq!(
        (&slots["items"][0]["decision"], &slots["items"][0]["reason"]),
        (&json!("skipped"), &json!("rescheduled"))
    );
    assert_eq!(world.get("/schedules/h/runs").await["items"], json!([]));
    let preview = world.get("/cron/preview?expr=30+2+*+*+*&tz=Europe/Berlin&count=2&after=2027-03-27T12:00:00Z").await;
    assert_eq!(preview["fires"][0], "2027-03-28T01:00:00Z", "{preview}");
    assert!(!preview["warnings"].as_array().unwrap().is_empty(), "{preview}");
}

async fn e07_the_api_answers_while_the_engine_does_not_run(world: &World) {
    for n in 0..20 {
        world
            .post(
                "/schedules",
                &json!({ "name": format!("s{n}"), "every": "1s", "target": { "kind": "task", "name": "t" } }),
            )
            .await
            .expect(201);
    }
    assert_eq!(world.get("/schedules?limit=500").await["items"].as_array().unwrap().len(), 20);
    let live = crate::client::Call::new(world.address, "GET", "/livez").send().await;
    assert_eq!((live.status, live.text.as_str()), (200, "ok"));
    let ready = crate::client::Call::new(world.address, "GET", "/readyz?strict=true").send().await;
    assert_eq!((ready.status, ready.text.as_str()), (200, "ok"));
}

async fn n02_a_server_is_ready_and_says_what_its_node_has_noticed(world: &World) {
    let get = async |path: &str| crate::client::Call::new(world.address, "GET", path).send().await;
    let now = world.store.now().await.unwrap();
    let overdue = Overdue { schedules: 3, longest: "nightly".to_owned(), since: now };
    assert!(world.state.health().note_overdue(Some(overdue)));
    world.state.health().note_jump(now, SignedDuration::from_secs(90));
    let ready = get("/readyz").await;
    assert_eq!(ready.status, 200, "who can be reached is not to lose his callers: {}", ready.text);
    assert!(ready.text.starts_with("degraded\n3 schedules are overdue, `nightly` since "), "{}", ready.text);
    assert!(ready.text.contains("jumped 1m30s ahead"), "{}", ready.text);
    let strict = get("/readyz?strict=true").await;
    assert_eq!(strict.status, 503);
    assert!(strict.text.contains("not_well") && strict.text.contains("3 schedules are overdue"), "{}", strict.text);
    assert_eq!(get("/readyz?strict=perhaps").await.status, 400);
    assert_eq!(get("/livez").await.status, 200, "nothing is to be restarted for it");
}

async fn c12_changes_are_in_the_audit_log_with_before_and_after(world: &World) {
    let made = world.post("/schedules", &nightly("a")).await.expect(201);
    let id = made["id"].as_str().unwrap();
    world.call("POST", "/schedules/a/pause").header("X-Request-Id", "my-request").send().await.expect(200);
    world.call("PATCH", "/schedules/a").json(&json!({ "priority": 7 })).send().await.expect(200);
    world.call("DELETE", "/schedules/a").send().await.expect(204);
    world.post("/jobs", &task()).await.expect(201);
    let log = world.get(&format!("/audit?subject=schedule:{id}")).await;
    let rows = log["items"].as_array().unwrap();
    let actions: Vec<&str> = rows.iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["schedule.delete", "schedule.update", "schedule.pause", "schedule.create"]);
    assert!(rows.iter().all(|row| row["actor"] == "admin" && row["token_id"].is_string()));
    assert_eq!(rows[2]["request_id"], "my-request");
    assert_eq!((&rows[2]["before"]["enabled"], &rows[2]["after"]["enabled"]), (&json!(true), &json!(false)));
    assert_eq!((&rows[1]["before"]["priority"], &rows[1]["after"]["priority"]), (&json!(0), &json!(7)));
    assert_eq!((&rows[0]["before"]["name"], &rows[0]["after"]), (&json!("a"), &Value::Null));
    assert_eq!(world.get("/audit").await["items"].as_array().unwrap().len(), 4, "a job is its own record");
}

async fn c13_logs_and_artifacts_are_shown(world: &World) {
    let id = world.post("/jobs", &task()).await.expect(201)["id"].as_str().unwrap().to_owned();
    let lease = node(world).await;
    let job_id = claim(world, lease).await[0];
    let line = |sequence, text: &str| LogLine {
        sequence,
        at: Timestamp::UNIX_EPOCH,
        stream: LogStream::Stdout,
        text: text.to_owned(),
    };
    let lines = vec![line(1, "<img onerror=x>"), line(2, "two"), line(3, "three")];
    let told = world.store.append_log_if_leased(lease, vec![LogChunk { job_id, lines, progress: None }]).await.unwrap();
    assert_eq!(told, [true]);
    world.store.keep_artifact_if_leased(lease, job_id, "out.txt", b"kept".to_vec()).await.unwrap();
    let first = world.get(&format!("/jobs/{id}/logs?limit=2")).await;
    assert_eq!((&first["items"][0]["text"], &first["items"][1]["sequence"]), (&json!("<img onerror=x>"), &json!(2)));
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&format!("/jobs/{id}/logs?limit=2&cursor={cursor}")).await;
    assert_eq!((&rest["items"][0]["text"], &rest["next_cursor"]), (&json!("three"), &Value::Null));
    assert_eq!(world.get(&format!("/jobs/{id}/logs?after=3")).await["items"], json!([]));
    assert_eq!(world.get(&format!("/jobs/{id}/artifacts")).await["items"][0]["name"], "out.txt");
    let file = world.call("GET", &format!("/jobs/{id}/artifacts/1")).send().await;
    assert_eq!((file.status, file.text.as_str()), (200, "kept"));
    assert_eq!(file.header("content-disposition"), Some("attachment"), "a browser does not show it as a page");
    for none in ["2", "0", "x", "99999999999"] {
        let answer = world.call("GET", &format!("/jobs/{id}/artifacts/{none}")).send().await;
        assert_eq!(answer.refused(404), "not_found", "{none}");
    }
}

async fn c05_only_one_job_of_a_key_waits_and_owners_do_not_meet(world: &World) {
    let eve = world.token("eve", Role::Operator).await;
    let ada = world.token("ada", Role::Operator).await;
    let keyed = |input: i32, mode: &str| {
        let mut job = task();
        (job["job_key"], job["job_key_mode"], job["input"]) = (json!("user:7"), json!(mode), json!(input));
        job
    };
    let post = |token: &str, body: &Value| world.bare("POST", "/jobs").token(token).json(body).send();
    let first = post(&ada, &keyed(1, "replace")).await.expect(201);
    let second = post(&ada, &keyed(2, "replace")).await.expect(201);
    assert_eq!(world.get(&format!("/jobs/{}", first["id"].as_str().unwrap())).await["state"], "cancelled");
    let kept = post(&ada, &keyed(3, "unsafe_dedupe")).await.expect(201);
    assert_eq!((&kept["id"], &kept["input"]), (&second["id"], &json!(2)), "what is there is what is told");
    let hers = post(&eve, &keyed(4, "replace")).await.expect(201);
    assert_eq!(world.get("/jobs?state=queued").await["items"].as_array().unwrap().len(), 2);
    assert_ne!(hers["job_key"], second["job_key"]);
    let both = world.call("POST", "/jobs").header("Idempotency-Key", "k").json(&keyed(5, "replace")).send().await;
    assert_eq!(both.refused(422), "invalid");
}
