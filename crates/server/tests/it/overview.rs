//! What the pages of a dashboard read: one call for what a list shows, however many things are on it.

use crate::on_both_stores;
use crate::resources::{claim, node};
use crate::world::World;
use punctual_core::run::ErrorCode;
use punctual_core::store::FinishedRun;
use serde_json::{Value, json};

on_both_stores! {
    d12_a_list_of_schedules_has_their_last_runs_when_they_are_asked_for,
    d03_every_job_names_its_schedule,
    b10_a_queue_shows_what_its_jobs_are,
}

fn hourly(name: &str) -> Value {
    json!({ "name": name, "cron": "0 * * * *", "target": { "kind": "task", "name": "work" },
            "retry": { "max_attempts": 1 } })
}

async fn trigger(world: &World, schedule: &str) -> Value {
    world.post(&format!("/schedules/{schedule}/trigger"), &json!({})).await.expect(201)
}

async fn d12_a_list_of_schedules_has_their_last_runs_when_they_are_asked_for(world: &World) {
    world.post("/schedules", &hourly("a")).await.expect(201);
    world.post("/schedules", &hourly("b")).await.expect(201);
    let lease = node(world).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(trigger(world, "a").await["id"].clone());
    }
    let claimed = claim(world, lease).await;
    let failed = FinishedRun::failed(claimed[1], ErrorCode::Timeout, "too slow\nby far");
    let ends = vec![FinishedRun::completed(claimed[0]), failed, FinishedRun::completed(claimed[2])];
    world.store.finish_runs_if_leased(lease, ends).await.unwrap();
    let listed = world.get("/schedules?recent=2").await;
    let recent = listed["items"][0]["recent"].as_array().unwrap();
    let ids: Vec<&Value> = recent.iter().map(|run| &run["job_id"]).collect();
    assert_eq!(ids, [&made[2], &made[1]], "the latest first");
    let run = &recent[1];
    assert_eq!(
        (&run["outcome"], &run["error_code"], &run["error"], &run["triggered_by"]),
        (&json!("failed"), &json!("timeout"), &json!("too slow"), &json!("manual"))
    );
    assert!(run["started_at"].is_string() && run["finished_at"].is_string() && run["slot_at"].is_null());
    assert_eq!(listed["items"][1]["recent"], json!([]), "it has not run");
    let soonest = world.get("/schedules?order=next_run&recent=1").await;
    assert!(soonest["items"].as_array().unwrap().iter().all(|schedule| schedule["recent"].is_array()));
    for plain in ["/schedules", "/schedules?recent=0"] {
        assert!(world.get(plain).await["items"][0].get("recent").is_none(), "{plain}: it was not asked for");
    }
    let refused = world.call("GET", "/schedules?recent=21").send().await;
    assert_eq!(refused.json()["errors"][0]["pointer"], "recent");
    assert_eq!(refused.refused(400), "bad_query");
}

async fn d03_every_job_names_its_schedule(world: &World) {
    world.post("/schedules", &hourly("named")).await.expect(201);
    let made = trigger(world, "named").await;
    assert_eq!(made["schedule_name"], "named", "as it is made");
    let id = made["id"].as_str().unwrap();
    let lease = node(world).await;
    let claimed = claim(world, lease).await;
    let failed = FinishedRun::failed(claimed[0], ErrorCode::TargetError, "no");
    world.store.finish_runs_if_leased(lease, vec![failed]).await.unwrap();
    let alone = json!({ "target": { "kind": "task", "name": "work" } });
    let alone = world.post("/jobs", &alone).await.expect(201);
    assert_eq!((&alone["schedule_name"], alone.get("schedule_name").is_some()), (&Value::Null, true));
    for list in ["/jobs?state=failed", "/runs", "/schedules/named/runs"] {
        assert_eq!(world.get(list).await["items"][0]["schedule_name"], "named", "{list}");
    }
    assert_eq!(world.get(&format!("/jobs/{id}/chain-end")).await["schedule_name"], "named");
    let retry = world.call("POST", &format!("/jobs/{id}/retry")).send().await.expect(201);
    assert_eq!(retry["schedule_name"], "named");
    world.call("DELETE", "/schedules/named").send().await.expect(204);
    assert_eq!(world.get(&format!("/jobs/{id}")).await["schedule_name"], "named", "it had this name");
}

async fn b10_a_queue_shows_what_its_jobs_are(world: &World) {
    let command = json!({ "target": { "kind": "command", "argv": ["echo", "a\nb", "x".repeat(200)] }, "tags": ["big"] });
    world.post("/jobs", &command).await.expect(201);
    world.post("/schedules", &hourly("hour")).await.expect(201);
    let of_schedule = trigger(world, "hour").await;
    let listed = world.get("/queues/default/jobs").await;
    let (first, second) = (&listed["items"][0], &listed["items"][1]);
    assert_eq!((&first["job_type"], &first["tags"], &first["attempt"]), (&json!("command"), &json!(["big"]), &json!(1)));
    let what = first["what"].as_str().unwrap();
    assert!(what.starts_with("echo a b xxx") && what.ends_with('…') && what.chars().count() == 121, "{what}");
    assert_eq!((&first["schedule_id"], &first["schedule_name"]), (&Value::Null, &Value::Null));
    assert_eq!((&second["job_id"], &second["what"]), (&of_schedule["id"], &json!("work")));
    assert_eq!((&second["schedule_id"], &second["schedule_name"]), (&of_schedule["schedule_id"], &json!("hour")));
    assert_eq!(second["queued_at"], of_schedule["queued_at"]);
}
