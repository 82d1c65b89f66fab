//! Who may do what: tokens, roles, owners, sessions, limits, and what protects a browser.

use crate::client::Call;
use crate::on_both_stores;
use crate::world::{World, run};
use punctual_core::access::Role;
use punctual_server::{Dashboard, Missing, Settings, first_admin_token, login_link, router};
use serde_json::{Value, json};
use std::num::NonZeroU32;
use tower::ServiceExt;

on_both_stores! {
    a26_whoever_is_no_admin_sees_and_changes_only_his_own,
    c12_a_browser_logs_in_with_a_cookie_and_needs_the_csrf_token,
    c12_a_viewer_logs_out_and_changes_nothing_else,
    c12_a_revoked_token_opens_nothing_any_more,
    c12_the_first_admin_token_is_made_once,
    c12_figures_have_a_token_of_their_own,
}

fn job() -> Value {
    json!({ "target": { "kind": "task", "name": "work" } })
}

async fn a26_whoever_is_no_admin_sees_and_changes_only_his_own(world: &World) {
    let ada = world.token("ada", Role::Operator).await;
    let eve = world.token("eve", Role::Operator).await;
    let schedule = json!({ "name": "hers", "cron": "@daily", "target": { "kind": "task", "name": "t" } });
    let made = world.bare("POST", "/schedules").token(&ada).json(&schedule).send().await.expect(201);
    assert_eq!(made["owner"], "ada");
    let its_job = world.bare("POST", "/schedules/hers/trigger").token(&ada).send().await.expect(201);
    let own_job = world.bare("POST", "/jobs").token(&ada).json(&job()).send().await.expect(201);
    let (id, own) = (its_job["id"].as_str().unwrap(), own_job["id"].as_str().unwrap());
    for (method, path, body) in [
        ("GET", "/schedules/hers".to_owned(), None),
        ("GET", format!("/schedules/{}", made["id"].as_str().unwrap()), None),
        ("PATCH", "/schedules/hers".to_owned(), Some(json!({ "priority": 1 }))),
        ("DELETE", "/schedules/hers".to_owned(), None),
        ("POST", "/schedules/hers/pause".to_owned(), None),
        ("POST", "/schedules/hers/trigger".to_owned(), None),
        ("GET", "/schedules/hers/runs".to_owned(), None),
        ("GET", "/schedules/hers/slots".to_owned(), None),
        ("GET", "/schedules/hers/upcoming".to_owned(), None),
        ("GET", "/schedules/hers/why?at=2026-01-01T00:00:00Z".to_owned(), None),
        ("GET", format!("/jobs/{id}"), None),
        ("GET", format!("/jobs/{id}/artifacts"), None),
        ("POST", format!("/jobs/{id}/cancel"), None),
        ("POST", format!("/jobs/{own}/cancel"), None),
        ("POST", format!("/jobs/{own}/retry"), None),
        ("POST", format!("/jobs/{own}/move"), Some(json!({ "to": "front" }))),
        ("PATCH", format!("/jobs/{own}"), Some(json!({ "input": 1 }))),
    ] {
        let call = world.bare(method, &path).token(&eve);
        let call = body.iter().fold(call, Call::json);
        assert_eq!(call.send().await.refused(404), "not_found", "{method} {path}");
    }
    for list in [
        "/schedules",
        "/jobs",
        "/schedules?owner=ada",
        "/jobs?owner=ada",
        "/queues/default/jobs",
        "/schedules?order=next_run",
    ] {
        let hers = world.bare("GET", list).token(&eve).send().await.expect(200);
        assert_eq!(hers["items"], json!([]), "{list}");
        let all = world.get(list).await;
        assert!(!all["items"].as_array().unwrap().is_empty(), "{list}: an admin sees it");
    }
    for admin_only in ["/tokens", "/audit"] {
        assert_eq!(world.bare("GET", admin_only).token(&eve).send().await.refused(403), "role_too_low");
    }
    let depends = json!({ "name": "mine", "cron": "@daily", "target": { "kind": "task", "name": "t" },
                          "depends_on": { "schedule_id": made["id"], "within": "1d" } });
    let refused = world.bare("POST", "/schedules").token(&eve).json(&depends).send().await;
    assert_eq!(
        (refused.refused(422).as_str(), &refused.json()["errors"][0]["pointer"]),
        ("invalid", &json!("/depends_on/schedule_id"))
    );
}

async fn c12_a_browser_logs_in_with_a_cookie_and_needs_the_csrf_token(world: &World) {
    let answer = world.bare("POST", "/session").json(&json!({ "token": world.admin })).send().await;
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.contains("Path=/"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let session = answer.expect(200);
    let csrf = session["csrf_token"].as_str().unwrap();
    assert_eq!((&session["owner"], &session["role"]), (&json!("admin"), &json!("admin")));
    let by_cookie = |method: &str, path: &str| world.bare(method, path).header("Cookie", &cookie);
    assert_eq!(by_cookie("GET", "/session").send().await.expect(200)["csrf_token"], json!(csrf));
    assert_eq!(by_cookie("POST", "/jobs").json(&job()).send().await.refused(403), "csrf");
    assert_eq!(by_cookie("POST", "/jobs").header("X-CSRF-Token", "x").json(&job()).send().await.refused(403), "csrf");
    by_cookie("POST", "/jobs").header("X-CSRF-Token", csrf).json(&job()).send().await.expect(201);
    let own = format!("http://{}", world.address);
    by_cookie("POST", "/jobs")
        .header("X-CSRF-Token", csrf)
        .header("Origin", &own)
        .json(&job())
        .send()
        .await
        .expect(201);
    by_cookie("DELETE", "/session").header("X-CSRF-Token", csrf).send().await.expect(204);
    assert_eq!(by_cookie("GET", "/session").send().await.refused(401), "not_authenticated");
    let wrong = world.bare("POST", "/session").json(&json!({ "token": "punctual_x_y" })).send().await;
    assert_eq!(wrong.refused(401), "not_authenticated");
}

async fn c12_a_viewer_logs_out_and_changes_nothing_else(world: &World) {
    let made = world.post("/tokens", &json!({ "name": "tv", "owner": "ada", "role": "viewer" })).await.expect(201);
    let answer = world.bare("POST", "/session").json(&json!({ "token": made["secret"] })).send().await;
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let session = answer.expect(200);
    let csrf = session["csrf_token"].as_str().unwrap();
    let change =
        |method: &str, path: &str| world.bare(method, path).header("Cookie", &cookie).header("X-CSRF-Token", csrf);
    assert_eq!(change("POST", "/jobs").json(&job()).send().await.refused(403), "role_too_low");
    change("DELETE", "/session").send().await.expect(204);
    let gone = world.bare("GET", "/session").header("Cookie", &cookie).send().await;
    assert_eq!(gone.refused(401), "not_authenticated");
}

async fn c12_a_revoked_token_opens_nothing_any_more(world: &World) {
    let made = world.post("/tokens", &json!({ "name": "ci", "owner": "ci", "role": "operator" })).await.expect(201);
    let secret = made["secret"].as_str().unwrap();
    let me = world.bare("GET", "/session").token(secret).send().await.expect(200);
    assert_eq!((&me["owner"], &me["role"], &me["csrf_token"]), (&json!("ci"), &json!("operator"), &Value::Null));
    let listed = world.get("/tokens").await;
    assert!(listed["items"].as_array().unwrap().iter().all(|token| token["secret"].is_null()));
    assert!(listed["items"][0]["last_used_at"].is_string());
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    world.call("DELETE", &path).send().await.expect(204);
    assert_eq!(world.bare("GET", "/session").token(secret).send().await.refused(401), "not_authenticated");
}

async fn c12_the_first_admin_token_is_made_once(world: &World) {
    assert!(first_admin_token(world.store.as_ref()).await.unwrap().is_none());
    let secret = punctual_server::secret::Secret::new_token().unwrap();
    let link = login_link("http://127.0.0.1:7878/", &secret);
    assert_eq!(link, format!("http://127.0.0.1:7878/#token={}", secret.reveal()));
}

async fn c12_figures_have_a_token_of_their_own(world: &World) {
    let metrics = |token: &str| Call::new(world.address, "GET", "/metrics").token(token);
    assert_eq!(metrics("x").send().await.refused(401), "not_authenticated");
    let viewer = world.token("ada", Role::Viewer).await;
    assert_eq!(metrics(&viewer).send().await.refused(401), "not_authenticated");
    world.post("/jobs", &job()).await.expect(201);
    let figures = metrics(&world.admin).send().await;
    assert_eq!(figures.status, 200);
    for line in [
        "punctual_jobs{state=\"queued\"} 1",
        "punctual_queue_depth{queue=\"default\"} 1",
        "punctual_http_requests_total{method=\"POST\",route=\"/api/v1/jobs\",status=\"201\"} 1",
    ] {
        assert!(figures.text.contains(line), "{line}\n{}", figures.text);
    }
}

#[test]
fn c12_a_metrics_token_opens_nothing_else() {
    run(async {
        let settings = Settings { metrics_token: Some("scrape".into()), ..Settings::default() };
        let world = World::with(settings).await;
        let metrics = |token: &str| Call::new(world.address, "GET", "/metrics").token(token);
        assert_eq!(metrics("scrape").send().await.status, 200);
        assert_eq!(metrics(&world.admin).send().await.refused(401), "not_authenticated");
        assert_eq!(world.bare("GET", "/jobs").token("scrape").send().await.refused(401), "not_authenticated");
    });
}

#[test]
fn a16_too_many_requests_are_told_when_to_come_back() {
    run(async {
        let one = NonZeroU32::MIN;
        let world = World::with(Settings { token_rate: one, stranger_rate: one, ..Settings::default() }).await;
        let mut refused = None;
        for _ in 0..10 {
            let answer = world.call("GET", "/queues").send().await;
            if answer.status != 200 {
                refused = Some(answer);
                break;
            }
        }
        let refused = refused.expect("ten at once are too many");
        assert_eq!(refused.refused(429), "too_many_requests");
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        // Guessing is limited by address.
        let mut codes = Vec::new();
        for _ in 0..10 {
            codes.push(world.bare("GET", "/queues").token("punctual_a_b").send().await.status);
        }
        assert!(codes.contains(&401) && codes.contains(&429), "{codes:?}");
    });
}

#[test]
fn c12_every_answer_protects_a_browser() {
    run(async {
        let world = World::with(Settings { https: true, ..Settings::default() }).await;
        for path in ["/", "/docs", "/docs/docs.js", "/openapi.json", "/livez", "/nothing", "/api/v1/jobs"] {
            let answer = Call::new(world.address, "GET", path).send().await;
            let csp = answer.header("content-security-policy").unwrap_or_else(|| panic!("{path}"));
            assert!(csp.starts_with("default-src 'self'") && !csp.contains("unsafe"), "{csp}");
            for header in ["x-content-type-options", "x-frame-options", "referrer-policy", "strict-transport-security"]
            {
                assert!(answer.header(header).is_some(), "{path} has no {header}");
            }
        }
        for path in ["/", "/docs"] {
            let page = Call::new(world.address, "GET", path).send().await.text;
            assert!(!page.contains("//cdn") && !page.contains("style=") && !page.contains("onclick"), "nothing inline");
        }
        let answer = world.bare("POST", "/session").json(&json!({ "token": world.admin })).send().await;
        let cookie = answer.header("set-cookie").unwrap();
        assert!(cookie.starts_with("__Host-punctual_session=") && cookie.ends_with("; Secure"), "{cookie}");
    });
}

#[test]
fn a24_the_first_page_leads_to_everything_else() {
    run(async {
        let why = Missing { reason: "nobody built it", remedy: "build it", on_purpose: true };
        let world = World::with(Settings { dashboard: Dashboard::missing(why), ..Settings::default() }).await;
        let page = Call::new(world.address, "GET", "/").send().await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        assert!(page.text.contains("nobody built it") && page.text.contains("To have one: build it."), "{}", page.text);
        let links: Vec<_> = page.text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(["docs", "api/v1", "openapi.json"].iter().all(|needed| links.contains(needed)), "{links:?}");
        for link in links.into_iter().filter(|link| *link != "/") {
            let link = format!("/{link}");
            assert_eq!(Call::new(world.address, "GET", &link).send().await.status, 200, "{link} leads somewhere");
        }
    });
}

#[test]
fn a24_the_router_works_in_the_same_process_without_a_socket() {
    run(async {
        let world = World::sqlite().await;
        let request = axum::http::Request::get("/api/v1/queues")
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", world.admin))
            .body(axum::body::Body::empty())
            .unwrap();
        let answer = router(world.state.clone()).oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 200);
    });
}

#[test]
fn c12_a_server_that_stops_lets_requests_finish_and_ends_its_streams() {
    run(async {
        let world = World::sqlite().await;
        let mut events = world.call("GET", "/events").listen().await;
        assert_eq!(events.next().await.unwrap().kind, "ready");
        world.stop().await;
        assert_eq!(events.next().await, None);
        assert!(tokio::net::TcpStream::connect(world.address).await.is_err());
    });
}
