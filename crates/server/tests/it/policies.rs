//! Calendars, pauses that end by themselves, the cap on fires, and an answer for any time.

use crate::on_both_stores;
use crate::world::World;
use jiff::{SignedDuration, Timestamp};
use punctual_core::access::Role;
use serde_json::{Value, json};

on_both_stores! {
    d11_a_calendar_is_made_used_edited_and_deleted,
    d11_a_calendar_in_use_is_not_deleted_and_names_only_what_one_may_see,
    d03_a_pause_can_have_an_end,
    d10_the_cap_on_fires_is_an_admins_to_set,
    a10_any_time_has_an_answer,
}

fn hourly(name: &str) -> Value {
    json!({ "name": name, "cron": "0 * * * *", "target": { "kind": "task", "name": "t" } })
}

fn with(mut schedule: Value, field: &str, value: Value) -> Value {
    schedule[field] = value;
    schedule
}

async fn d11_a_calendar_is_made_used_edited_and_deleted(world: &World) {
    let calendar = json!({ "name": "feasts", "timezone": "Europe/Berlin", "weekdays": ["sunday"],
        "days": [{ "on": "12-25", "note": "Christmas" }, { "on": "2026-04-06" }],
        "windows": [{ "from": "2026-12-31T20:00:00Z", "until": "2027-01-01T06:00:00+00:00", "note": null }] });
    let unknown = with(hourly("h"), "calendar", json!("feasts"));
    let refused = world.post("/schedules", &unknown).await;
    assert_eq!(refused.refused(422), "invalid");
    let told = refused.json();
    assert!(told["detail"].as_str().unwrap().contains("no calendar `feasts`"), "{told}");
    assert!(told["remedy"].as_str().unwrap().contains("POST /calendars"), "{told}");

    let made = world.post("/calendars", &calendar).await;
    assert_eq!(made.header("etag"), Some("\"1\""));
    let made = made.expect(201);
    assert_eq!((&made["days"], &made["weekdays"]), (&calendar["days"], &calendar["weekdays"]));
    assert_eq!(world.get("/calendars/feasts").await, made);
    assert_eq!(world.get("/calendars").await["items"], json!([made]));
    assert_eq!(world.post("/calendars", &calendar).await.refused(409), "name_taken");
    for (field, wrong, pointer) in [
        ("timezone", json!("Mars/Olympus"), "/timezone"),
        (
            "weekdays",
            json!(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]),
            "/weekdays",
        ),
        ("windows", json!([{ "from": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z" }]), "/windows"),
    ] {
        let refused = world.post("/calendars", &with(json!({ "name": "x" }), field, wrong)).await;
        assert_eq!(refused.refused(422), "invalid", "{field}");
        assert_eq!(refused.json()["errors"][0]["pointer"], pointer);
    }
    let odd = world.post("/calendars", &json!({ "name": "x", "days": [{ "on": "13-45" }] })).await;
    assert!(odd.status == 422 || odd.status == 400, "{}", odd.status);
    assert_eq!(world.post("/calendars", &json!({ "name": "x", "holidays": [] })).await.refused(422), "unknown_field");

    world.post("/schedules", &unknown).await.expect(201);
    // A Sunday in Berlin, and the hour after it.
    let why = world.get("/schedules/h/why?at=2099-03-01T12:00").await;
    assert_eq!(why["verdict"], "will_be_skipped", "{why}");
    assert!(why["answer"].as_str().unwrap().contains("calendar feasts: 2099-03-01 is a sunday"), "{why}");
    let ahead = world.get("/schedules/h/upcoming?count=200").await;
    let skipped = ahead["items"].as_array().unwrap().iter().filter(|slot| slot["skipped"].is_string()).count();
    assert!((24..=48).contains(&skipped), "one or two Sundays in 200 hours: {skipped}");

    let edit = world.call("PATCH", "/calendars/feasts").header("If-Match", "\"1\"").json(&json!({ "weekdays": [] }));
    let edited = edit.send().await.expect(200);
    assert_eq!((&edited["version"], &edited["weekdays"], &edited["days"]), (&json!(2), &json!([]), &made["days"]));
    let stale = world.call("PATCH", "/calendars/feasts").header("If-Match", "\"1\"").json(&json!({})).send().await;
    assert_eq!(stale.refused(412), "version_conflict");
    assert_eq!(world.get("/schedules/h/why?at=2099-03-01T12:00").await["verdict"], "ahead");
    world.call("PATCH", "/schedules/h").json(&json!({ "calendar": null })).send().await.expect(200);
    world.call("DELETE", "/calendars/feasts").send().await.expect(204);
    assert_eq!(world.call("GET", "/calendars/feasts").send().await.refused(404), "not_found");
    let audit = world.get("/audit?subject=calendar:feasts").await;
    let actions: Vec<_> = audit["items"].as_array().unwrap().iter().map(|row| row["action"].clone()).collect();
    assert_eq!(actions, ["calendar.delete", "calendar.update", "calendar.create"]);
}

async fn d11_a_calendar_in_use_is_not_deleted_and_names_only_what_one_may_see(world: &World) {
    let (ada, eve) = (world.token("ada", Role::Operator).await, world.token("eve", Role::Operator).await);
    world.bare("POST", "/calendars").token(&ada).json(&json!({ "name": "c" })).send().await.expect(201);
    for (token, name) in [(&ada, "hers"), (&eve, "eves")] {
        let schedule = with(hourly(name), "calendar", json!("c"));
        world.bare("POST", "/schedules").token(token).json(&schedule).send().await.expect(201);
    }
    let refused = world.bare("DELETE", "/calendars/c").token(&ada).send().await;
    assert_eq!(refused.refused(409), "in_use");
    let told = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(told.contains("`hers`") && told.contains("schedules of other owners") && !told.contains("eves"), "{told}");
    let refused = world.call("DELETE", "/calendars/c").send().await;
    assert!(refused.json()["detail"].as_str().unwrap().contains("`eves`, `hers`"), "an admin sees all");
    let viewer = world.token("vic", Role::Viewer).await;
    assert_eq!(world.bare("DELETE", "/calendars/c").token(&viewer).send().await.refused(403), "role_too_low");
}

async fn d03_a_pause_can_have_an_end(world: &World) {
    world.post("/schedules", &with(hourly("h"), "pause_after_failures", json!(3))).await.expect(201);
    let until = Timestamp::now() + SignedDuration::from_hours(30);
    let asked = json!({ "note": "audit", "until": until });
    let paused = world.post("/schedules/h/pause", &asked).await.expect(200);
    assert_eq!((&paused["enabled"], &paused["paused"]["note"]), (&json!(false), &json!("audit")));
    assert_eq!(paused["paused"]["by"], "admin");
    assert_eq!(paused["pause_after_failures"], 3);
    let told: Timestamp = paused["paused"]["until"].as_str().unwrap().parse().unwrap();
    assert_eq!(told.as_microsecond(), until.as_microsecond());
    let first = world.get("/schedules/h/upcoming?count=1").await["items"][0]["slot_at"].clone();
    let first: Timestamp = first.as_str().unwrap().parse().unwrap();
    assert!(first >= told && first.duration_since(told) <= SignedDuration::from_hours(1), "{first} {told}");
    let why = world.get(&format!("/schedules/h/why?at={}", paused["next_slot_at"].as_str().unwrap())).await;
    assert_eq!(why["verdict"], "will_be_skipped");
    assert!(why["answer"].as_str().unwrap().contains("paused by admin"), "{why}");
    let past = world.post("/schedules/h/pause", &json!({ "until": "2020-01-01T00:00:00Z" })).await;
    assert_eq!((past.refused(422), &past.json()["errors"][0]["pointer"]), ("invalid".to_owned(), &json!("/until")));
    let never = world.post("/schedules", &with(hourly("x"), "pause_after_failures", json!(0))).await;
    assert_eq!(never.json()["errors"][0]["pointer"], "/pause_after_failures");
}

async fn d10_the_cap_on_fires_is_an_admins_to_set(world: &World) {
    assert_eq!(world.get("/settings").await, json!({ "fires_per_second": null }));
    let patch = |body: Value| world.call("PATCH", "/settings").json(&body).send();
    assert_eq!(patch(json!({ "fires_per_second": 40 })).await.expect(200), json!({ "fires_per_second": 40 }));
    assert_eq!(patch(json!({})).await.expect(200), json!({ "fires_per_second": 40 }));
    assert_eq!(world.store.fire_cap().await, Ok(Some(40)));
    assert_eq!(patch(json!({ "fires_per_second": 0 })).await.refused(422), "invalid");
    assert_eq!(patch(json!({ "fires": 1 })).await.refused(422), "unknown_field");
    let operator = world.token("ada", Role::Operator).await;
    let theirs = world.bare("PATCH", "/settings").token(&operator).json(&json!({ "fires_per_second": 1 })).send().await;
    assert_eq!(theirs.refused(403), "role_too_low");
    assert_eq!(patch(json!({ "fires_per_second": null })).await.expect(200), json!({ "fires_per_second": null }));
    let audit = world.get("/audit?subject=settings").await;
    assert_eq!(audit["items"].as_array().unwrap().len(), 2);
}

async fn a10_any_time_has_an_answer(world: &World) {
    let nightly = json!({ "name": "n", "cron": "30 2 * * *", "timezone": "Europe/Berlin",
        "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2097-01-01T00:00:00Z",
        "target": { "kind": "task", "name": "t" } });
    world.post("/schedules", &nightly).await.expect(201);
    for (at, verdict, words) in [
        ("2090-03-26T02:30", "does_not_exist_", "does not exist there: the clock goes from 2090-03-26 02:00:00"),
        ("2090-03-26T03:00", "ahead", "lies ahead"),
        ("2090-10-29T02:30", "ahead", "comes twice there"),
        ("2090-05-05T02:30", "ahead", "lies ahead"),
        ("2090-05-05T00:30:00Z", "ahead", "lies ahead"),
        ("2090-05-05T02:31", "not_a_slot", "The one before it: 2090-05-05T00:30:00Z"),
        ("2025-05-05T02:30", "before_starts_at", "before it starts at"),
        ("2098-05-05T02:30", "after_ends_at", "after it ended at"),
        ("2098-05-05T02:31", "exhausted", "none after it"),
    ] {
        let why = world.get(&format!("/schedules/n/why?at={at}")).await;
        // What stands for a time that does not exist lies ahead like any other.
        let expected = if verdict == "does_not_exist_" { "ahead" } else { verdict };
        assert_eq!(why["verdict"], expected, "{at}: {why}");
        assert!(why["answer"].as_str().unwrap().contains(words), "{at}: {why}");
    }
    world.call("PATCH", "/schedules/n").json(&json!({ "dst_gap": "skip" })).send().await.expect(200);
    let why = world.get("/schedules/n/why?at=2090-03-26T02:30").await;
    assert_eq!(why["verdict"], "does_not_exist", "{why}");
    for wrong in ["tomorrow", "2026-13-01T00:00", ""] {
        let refused = world.call("GET", &format!("/schedules/n/why?at={wrong}")).send().await;
        assert_eq!(refused.refused(400), "bad_query", "{wrong}");
    }
}
