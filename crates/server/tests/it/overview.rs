//! What the pages of a dashboard read: one call for what a list shows, however many things are on it.

use crate::on_both_stores;
use crate::resources::{claim, node};
use crate::world::World;
use jiff::ToSpan;
use jiff::tz::TimeZone;
use punctual_core::run::ErrorCode;
use punctual_core::store::FinishedRun;
use serde_json::{Value, json};

on_both_stores! {
    d12_a_list_of_schedules_has_their_last_runs_when_they_are_asked_for,
    d03_every_job_names_its_schedule,
    b10_a_queue_shows_what_its_jobs_are,
    d12_figures_over_time_have_a_bucket_for_every_step,
    b10_jobs_are_listed_and_retried_by_what_went_wrong,
    d03_the_slots_of_a_month_are_told_day_by_day,
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
    let command =
        json!({ "target": { "kind": "command", "argv": ["echo", "a\nb", "x".repeat(200)] }, "tags": ["big"] });
    world.post("/jobs", &command).await.expect(201);
    world.post("/schedules", &hourly("hour")).await.expect(201);
    let of_schedule = trigger(world, "hour").await;
    let listed = world.get("/queues/default/jobs").await;
    let (first, second) = (&listed["items"][0], &listed["items"][1]);
    assert_eq!(
        (&first["job_type"], &first["tags"], &first["attempt"]),
        (&json!("command"), &json!(["big"]), &json!(1))
    );
    let what = first["what"].as_str().unwrap();
    assert!(what.starts_with("echo a b xxx") && what.ends_with('…') && what.chars().count() == 121, "{what}");
    assert_eq!((&first["schedule_id"], &first["schedule_name"]), (&Value::Null, &Value::Null));
    assert_eq!((&second["job_id"], &second["what"]), (&of_schedule["id"], &json!("work")));
    assert_eq!((&second["schedule_id"], &second["schedule_name"]), (&of_schedule["schedule_id"], &json!("hour")));
    assert_eq!(second["queued_at"], of_schedule["queued_at"]);
}

/// The sum of a field over all buckets.
fn sum(series: &Value, field: &str) -> u64 {
    series["buckets"].as_array().unwrap().iter().map(|bucket| bucket[field].as_u64().unwrap()).sum()
}

async fn d12_figures_over_time_have_a_bucket_for_every_step(world: &World) {
    world.post("/schedules", &hourly("a")).await.expect(201);
    let lease = node(world).await;
    for _ in 0..3 {
        trigger(world, "a").await;
    }
    let claimed = claim(world, lease).await;
    let failed = FinishedRun::failed(claimed[1], ErrorCode::Timeout, "too slow");
    world.store.finish_runs_if_leased(lease, vec![FinishedRun::completed(claimed[0]), failed]).await.unwrap();
    let hour = world.get("/stats/series?window=1h").await;
    assert_eq!(hour["step"], "1m");
    let buckets = hour["buckets"].as_array().unwrap();
    assert!((60..=170).contains(&buckets.len()) && buckets[0]["at"] == hour["since"], "{} buckets", buckets.len());
    assert_eq!((sum(&hour, "completed"), sum(&hour, "failed"), sum(&hour, "cancelled")), (1, 1, 0));
    let first = &buckets[0];
    assert_eq!((&first["completed"], &first["queue_time_p50_ms"]), (&json!(0), &Value::Null), "nothing ended then");
    let last = buckets.iter().rev().find(|bucket| bucket["completed"] == 1).unwrap();
    for field in ["queue_time_p50_ms", "queue_time_p95_ms", "duration_p50_ms", "duration_p95_ms"] {
        assert!(last[field].as_f64().is_some_and(|ms| ms >= 0.0), "{field}: {last}");
    }
    // What is over is kept, and what is not is read anew.
    world.store.finish_runs_if_leased(lease, vec![FinishedRun::completed(claimed[2])]).await.unwrap();
    for window in ["1h", "5m", "24h", "7d", "31d"] {
        let again = world.get(&format!("/stats/series?window={window}")).await;
        assert_eq!((sum(&again, "completed"), sum(&again, "failed")), (2, 1), "{window}");
    }
    for window in ["4m", "32d", "soon"] {
        let refused = world.call("GET", &format!("/stats/series?window={window}")).send().await;
        assert_eq!(refused.json()["errors"][0]["pointer"], "window");
        assert_eq!(refused.refused(400), "bad_query", "{window}");
    }
}

async fn b10_jobs_are_listed_and_retried_by_what_went_wrong(world: &World) {
    let task = json!({ "target": { "kind": "task", "name": "work" }, "retry": { "max_attempts": 1 } });
    for _ in 0..2 {
        world.post("/jobs", &task).await.expect(201);
    }
    let lease = node(world).await;
    let claimed = claim(world, lease).await;
    let ends = [(claimed[0], ErrorCode::Timeout), (claimed[1], ErrorCode::BadOutput)];
    let ends = ends.map(|(id, code)| FinishedRun::failed(id, code, "no")).into();
    world.store.finish_runs_if_leased(lease, ends).await.unwrap();
    for list in ["/jobs?error_code=timeout", "/runs?error_code=timeout&state=failed"] {
        let items = world.get(list).await["items"].take();
        assert_eq!((items.as_array().unwrap().len(), &items[0]["id"]), (1, &json!(claimed[0])), "{list}");
    }
    let refused = world.call("GET", "/jobs?error_code=oops").send().await;
    assert!(refused.json()["detail"].as_str().unwrap().contains("node_lost"), "the words are told");
    assert_eq!(refused.refused(400), "bad_query");
    let bulk = |action: &str| json!({ "action": action, "filter": { "error_code": "timeout" }, "dry_run": true });
    assert_eq!(world.post("/jobs/bulk", &bulk("retry")).await.expect(200)["jobs"], 1);
    assert_eq!(world.post("/jobs/bulk", &bulk("cancel")).await.refused(422), "invalid");
    let begun = json!({ "action": "retry", "filter": { "error_code": "timeout" } });
    assert_eq!(world.post("/jobs/bulk", &begun).await.expect(201)["filter"]["error_code"], "timeout");
}

async fn d03_the_slots_of_a_month_are_told_day_by_day(world: &World) {
    let made = world.post("/schedules", &hourly("s")).await.expect(201);
    let today = world.store.now().await.unwrap().to_zoned(TimeZone::UTC).date();
    let day = |later: i64| today.checked_add(later.days()).unwrap();
    // What a reschedule jumps over is one range, from the first slot to the last before its new time.
    let moved = json!({ "at": format!("{}T10:00:00Z", day(3)) });
    world.post("/schedules/s/reschedule", &moved).await.expect(200);
    let next = made["next_slot_at"].as_str().unwrap();
    let whole = world.get("/schedules/s/slots").await["items"].take();
    assert_eq!((whole.as_array().unwrap().len(), &whole[0]["slot_at"]), (1, &json!(next)));
    for (query, found) in [
        (format!("from={next}"), 1),
        (format!("from={}T00:30:00Z&until={}T00:40:00Z", day(2), day(2)), 1),
        (format!("from={}T10:00:00Z", day(3)), 0),
        (format!("until={next}"), 0),
        (format!("from={}T00:00:00Z&until={}T00:00:00Z", day(-30), day(-1)), 0),
    ] {
        let items = world.get(&format!("/schedules/s/slots?{query}")).await["items"].take();
        assert_eq!(items.as_array().unwrap().len(), found, "{query}");
    }
    let days = |from, until, zone: &str| {
        let path = format!("/schedules/s/slots/days?from={}&until={}{zone}", day(from), day(until));
        async move { world.get(&path).await }
    };
    let told = days(2, 5, "").await;
    let skipped = |slots: u64| json!([{ "decision": "skipped", "reason": "rescheduled", "slots": slots }]);
    let expected = |later, tallies| json!({ "day": day(later), "tallies": tallies, "failed": 0, "completed": 0 });
    assert_eq!(told["days"], json!([expected(2, skipped(24)), expected(3, skipped(10)), expected(4, json!([]))]));
    assert_eq!(told["more"], false);
    let east = days(3, 4, "&tz=Etc/GMT-1").await;
    assert_eq!(east["days"][0]["tallies"], skipped(11), "the day begins an hour earlier there");
    for (query, field) in [
        ("from=2026-01-01&until=2026-03-05", "until"),
        ("from=2026-01-02&until=2026-01-02", "until"),
        ("from=soon&until=2026-01-02", "from"),
        ("from=2026-01-01&until=2026-01-02&tz=Europe/Belrin", "tz"),
    ] {
        let refused = world.call("GET", &format!("/schedules/s/slots/days?{query}")).send().await;
        assert_eq!(refused.json()["errors"][0]["pointer"], field, "{query}");
        assert_eq!(refused.refused(400), "bad_query");
    }
}
