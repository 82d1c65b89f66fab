//! The execution service over a real socket: one run and one charge for each key, counted at the provider.

use crate::client::{Answer, Call};
use crate::world::{World, run};
use jiff::SignedDuration;
use punctual_core::access::Role;
use punctual_core::execution::{Begun, Execution, NewExecution};
use punctual_core::grant::{self, NewGrant, Wanted};
use punctual_core::id::{DriverId, GrantId};
use punctual_core::json::Json;
use punctual_core::limits::Rate;
use punctual_core::store::Store;
use punctual_server::{ServiceAccess, Settings};
use punctual_store_postgres::PostgresOptions;
use punctual_store_sqlite::SqliteOptions;
use punctual_testkit::graphs::CountingGraphs;
use serde_json::{Value, json};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// The secret of services, and the one that takes its place one day.
const SECRETS: [&str; 2] = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"];

/// Runs each test on SQLite and on PostgreSQL, with a provider beside the server.
macro_rules! with_graphs_on_both_stores {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $( #[test] fn $test() { super::run(async { super::$test(&super::Service::sqlite().await).await }) } )+
        }
        mod postgres {
            $( #[test] fn $test() { super::run(async { super::$test(&super::Service::postgres().await).await }) } )+
        }
    };
}

with_graphs_on_both_stores! {
    a13_two_hundred_who_ask_at_once_get_one_run_one_charge_and_one_answer,
    a13_a_key_belongs_to_one_request,
    a09_the_service_checks_the_grant_again,
    a13_a_run_whose_driver_died_is_taken_over_and_runs_once,
    a13_while_the_outcome_is_unknown_the_request_stays_open,
    a17_a_failed_graph_is_an_answer_like_any_other,
    a09_a_grant_that_is_too_fast_says_when_to_come_back,
    a19_users_list_graphs_and_run_them_as_jobs,
    a03_accounts_and_usage_are_told_to_their_owners,
}

struct Service {
    world: World,
    provider: CountingGraphs,
    _folder: tempfile::TempDir,
}

fn settings() -> Settings {
    Settings {
        service_access: ServiceAccess::with_secrets(&SECRETS).unwrap(),
        service_rate: NonZeroU32::new(10_000).unwrap(),
        // A driver that is only slow may be taken over, and nothing comes of it.
        execution_lease: Duration::from_secs(1),
        ..Settings::default()
    }
}

fn any_graph(owner: &str) -> NewGrant {
    NewGrant {
        owner: owner.into(),
        billing_account: "acme".into(),
        scopes: vec!["graph:execute:*".parse().unwrap()],
        expires_at: None,
        max_runs: None,
        rate: None,
    }
}

impl Service {
    async fn sqlite() -> Self {
        Self::of(World::on_sqlite(SqliteOptions::default(), settings()).await)
    }

    async fn postgres() -> Self {
        Self::of(World::on_postgres(PostgresOptions::default(), settings()).await)
    }

    fn of(world: World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let provider = CountingGraphs::new(folder.path());
        world.state.add_provider(Arc::new(provider.clone()));
        Self { world, provider, _folder: folder }
    }

    fn store(&self) -> &dyn Store {
        &*self.world.store
    }

    async fn grant(&self, grant: NewGrant) -> GrantId {
        self.store().create_grant(grant).await.unwrap().id
    }

    /// A call of a service, without a key.
    fn call(&self, graph: &str, grant: GrantId, input: &Value) -> Call {
        let body = json!({ "executionGrantId": grant, "input": input });
        Call::new(self.world.address, "POST", &format!("/api/internal/graphs/{graph}/runs"))
            .token(SECRETS[0])
            .header("X-Service-Name", "test")
            .json(&body)
    }

    async fn ask(&self, key: &str, grant: GrantId, input: &Value) -> Answer {
        self.call("counting:a", grant, input).header("Idempotency-Key", key).send().await
    }

    /// How many runs were started and charged, as the provider counts them.
    fn counted(&self) -> (usize, usize) {
        (self.provider.runs(), self.provider.charges())
    }
}

async fn a13_two_hundred_who_ask_at_once_get_one_run_one_charge_and_one_answer(service: &Service) {
    let grant = service.grant(any_graph("ada")).await;
    let call = service.call("counting:a", grant, &json!({ "ms": 300 })).header("Idempotency-Key", "slot");
    let calls: Vec<_> = (0..200).map(|_| tokio::spawn(call.clone().send())).collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    let first = &answers[0];
    assert_eq!(first.status, 200, "{}", first.text);
    assert!(answers.iter().all(|answer| (answer.status, &answer.text) == (200, &first.text)), "200 equal answers");
    assert_eq!(service.counted(), (1, 1));
    let run = service.provider.run_ids()[0];
    assert_eq!(first.json()["runId"], json!(run));
    assert_eq!(service.store().receipts(run).await.unwrap().len(), 2, "one set of receipts");
    assert_eq!(service.store().grant(grant).await.unwrap().unwrap().runs, 1);
}

async fn a13_a_key_belongs_to_one_request(service: &Service) {
    let grant = service.grant(any_graph("ada")).await;
    let answer = service.ask("k", grant, &json!({ "b": 1.0, "a": [1] })).await;
    assert_eq!(answer.header("idempotency-replayed"), None);
    let told = answer.json();
    assert_eq!((answer.status, &told["ok"]), (200, &json!(true)), "{told}");
    assert!(told.get("errorCode").is_none() && told["traceId"].as_str().unwrap().len() == 32, "{told}");
    assert!(told["references"]["thread_id"].is_string());
    let body = format!("{{\"input\" : {{\"a\":[1], \"b\":1}}, \"executionGrantId\":\"{grant}\"}}");
    let path = "/api/internal/graphs/counting:a/runs";
    let spelled = Call::new(service.world.address, "POST", path).token(SECRETS[1]).header("Idempotency-Key", "k");
    let again = spelled.raw("application/json", body.into_bytes()).send().await;
    assert_eq!((again.status, &again.text), (200, &answer.text), "another spelling, another secret, the same request");
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(service.ask("k", grant, &json!({ "a": [2], "b": 1 })).await.refused(422), "idempotency_key_reused");
    let other = service.call("counting:b", grant, &json!({ "a": [1], "b": 1 })).header("Idempotency-Key", "k");
    assert_eq!(other.send().await.refused(422), "idempotency_key_reused");
    assert_eq!(service.counted(), (1, 1));

    let no_key = service.call("counting:a", grant, &json!({})).send().await;
    assert_eq!(no_key.refused(400), "idempotency_key_missing");
    let call = service.call("counting:a", grant, &json!({})).header("Idempotency-Key", "x");
    let extra = call.clone().json(&json!({ "executionGrantId": grant, "input": {}, "graphId": "b" })).send().await;
    assert_eq!(extra.refused(422), "unknown_field");
    let unknown = service.call("nowhere:a", grant, &json!({})).header("Idempotency-Key", "x").send().await;
    assert!(unknown.json()["detail"].as_str().unwrap().contains("counting:"), "{}", unknown.text);
    assert_eq!(unknown.refused(404), "no_executor");
    assert_eq!(
        service.call("a", grant, &json!({})).header("Idempotency-Key", "x").send().await.refused(422),
        "invalid"
    );
    assert_eq!(service.counted(), (1, 1));
}

async fn a09_the_service_checks_the_grant_again(service: &Service) {
    let narrow = NewGrant { scopes: vec!["graph:execute:counting:b".parse().unwrap()], ..any_graph("ada") };
    let narrow = service.grant(narrow).await;
    let now = service.store().now().await.unwrap();
    let over = service.grant(NewGrant { expires_at: Some(now), ..any_graph("ada") }).await;
    let revoked = service.grant(any_graph("ada")).await;
    service.store().revoke_grant(revoked).await.unwrap();
    let good = service.grant(any_graph("ada")).await;
    let input = json!({});
    for (grant, owner, code) in [
        (GrantId(uuid::Uuid::from_u128(7)), "ada", "grant_missing"),
        (good, "eve", "grant_missing"),
        (revoked, "ada", "grant_revoked"),
        (over, "ada", "grant_expired"),
        (narrow, "ada", "scope_denied"),
    ] {
        let call = service.call("counting:a", grant, &input).header("Idempotency-Key", "k").header("X-Owner", owner);
        let told = call.send().await.expect(403);
        assert_eq!((&told["ok"], &told["errorCode"], &told["runId"]), (&json!(false), &json!(code), &Value::Null));
    }
    // The worker has found it good, and then it is revoked: the second look sees it.
    let stored = service.store().grant(good).await.unwrap();
    let wanted = Wanted { owner: Some("ada"), graph: Some("counting:a") };
    assert_eq!(grant::check(stored.as_ref(), wanted, service.store().now().await.unwrap()), Ok(()));
    service.store().revoke_grant(good).await.unwrap();
    assert_eq!(service.ask("k", good, &input).await.expect(403)["errorCode"], "grant_revoked");
    assert_eq!(service.counted(), (0, 0), "nothing ran");
    assert_eq!(service.store().execution("k").await.unwrap(), None, "a refusal is no run, and the key is free");
    let wildcard = service.grant(any_graph("ada")).await;
    assert_eq!(service.ask("k", wildcard, &input).await.expect(200)["ok"], true);
    // What has run is answered, whatever became of the grant.
    service.store().revoke_grant(wildcard).await.unwrap();
    assert_eq!(service.ask("k", wildcard, &input).await.expect(200)["ok"], true);
    assert_eq!(service.counted(), (1, 1));
}

/// A run that somebody else has begun under a key.
async fn begun_by_another(service: &Service, key: &str, grant: GrantId) -> Execution {
    // The hash that the service would have stored: it begins the run, and another one takes it over.
    service.ask(key, grant, &json!({ "unknown": 1 })).await;
    let free = service.store().execution(key).await.unwrap().unwrap();
    let dead = DriverId(uuid::Uuid::from_u128(1));
    service.store().take_over_execution_if_still(&free, dead).await.unwrap().expect("it was nobody's")
}

async fn a13_a_run_whose_driver_died_is_taken_over_and_runs_once(service: &Service) {
    let grant = service.grant(any_graph("ada")).await;
    let dead = begun_by_another(service, "k", grant).await;
    let answer = service.ask("k", grant, &json!({ "unknown": 1 })).await;
    let told = answer.json();
    assert_eq!((answer.status, &told["ok"], &told["runId"]), (200, &json!(true), &json!(dead.run_id)), "{told}");
    assert_eq!(service.counted(), (1, 1));
    assert_eq!(service.store().receipts(dead.run_id).await.unwrap().len(), 2);
    let late = service.store().beat_execution(dead.run_id, dead.driver.unwrap()).await.unwrap();
    assert!(!late, "the dead one is not believed");
}

async fn a13_while_the_outcome_is_unknown_the_request_stays_open(service: &Service) {
    let grant = service.grant(any_graph("ada")).await;
    let input = json!({ "unknown": 2 });
    for _ in 0..2 {
        let unknown = service.ask("k", grant, &input).await;
        assert_eq!(unknown.header("retry-after"), Some("1"));
        assert_eq!(unknown.refused(503), "outcome_unknown");
        assert_eq!(service.counted(), (1, 0), "it has begun, and nobody knows");
    }
    assert_eq!(service.ask("k", grant, &input).await.expect(200)["ok"], true);
    assert_eq!(service.counted(), (1, 1));
    assert_eq!(service.provider.asked(), 3);
    assert_eq!(service.store().grant(grant).await.unwrap().unwrap().runs, 1);
}

async fn a17_a_failed_graph_is_an_answer_like_any_other(service: &Service) {
    let grant = service.grant(any_graph("ada")).await;
    let answer = service.ask("k", grant, &json!({ "fail": true })).await;
    let told = answer.json();
    assert_eq!((answer.status, &told["ok"], &told["errorCode"]), (200, &json!(false), &json!("target_error")));
    let again = service.ask("k", grant, &json!({ "fail": true })).await;
    assert_eq!((&again.text, again.header("idempotency-replayed")), (&answer.text, Some("true")));
    assert_eq!(service.counted(), (1, 1), "a failure is charged, and not run again under its key");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = service.call("counting:a", grant, &json!({ "fail": true })).header("Idempotency-Key", "k:1");
    let next = call.header("traceparent", trace).send().await.expect(200);
    assert_eq!(next["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_ne!(next["runId"], told["runId"]);
    assert_eq!(service.counted(), (2, 2));
}

async fn a09_a_grant_that_is_too_fast_says_when_to_come_back(service: &Service) {
    let rate = Rate { jobs: 1, per: SignedDuration::from_hours(1), burst: 1 };
    let slow = service.grant(NewGrant { rate: Some(rate), ..any_graph("ada") }).await;
    assert_eq!(service.ask("a", slow, &json!({})).await.expect(200)["ok"], true);
    let refused = service.ask("b", slow, &json!({})).await;
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((3000..=3601).contains(&wait), "{wait}");
    assert_eq!(refused.refused(429), "grant_too_fast");
    let once = service.grant(NewGrant { max_runs: Some(1), ..any_graph("ada") }).await;
    assert_eq!(service.ask("c", once, &json!({})).await.expect(200)["ok"], true);
    let used_up = service.ask("d", once, &json!({})).await.expect(403);
    assert_eq!(used_up["errorCode"], "grant_expired");
    assert!(used_up["error"].as_str().unwrap().contains("used up"), "{used_up}");
    assert_eq!(service.ask("c", once, &json!({})).await.expect(200)["ok"], true, "what has run is answered");
}

async fn a19_users_list_graphs_and_run_them_as_jobs(service: &Service) {
    let world = &service.world;
    let ada = world.token("ada", Role::Operator).await;
    let listed = world.bare("GET", "/graphs").token(&ada).send().await.expect(200);
    assert_eq!(listed["items"][0], json!({ "id": "counting:a", "provider": "counting", "name": "a", "problem": null }));
    let ask =
        |graph: &str, body: &Value| world.bare("POST", &format!("/graphs/{graph}/runs")).token(&ada).json(body).send();
    let none = ask("counting:a", &json!({})).await;
    assert_eq!(none.json()["errors"][0]["pointer"], "/grant_id");
    assert_eq!(none.refused(422), "invalid");
    let grant = service.grant(any_graph("ada")).await;
    service.grant(any_graph("eve")).await;
    let job = ask("counting:a", &json!({ "input": { "n": 1 } })).await.expect(201);
    assert_eq!((&job["target"], &job["grant_id"]), (&json!({ "kind": "graph", "id": "counting:a" }), &json!(grant)));
    assert_eq!((&job["owner"], &job["input"]), (&json!("ada"), &json!({ "n": 1 })));
    let waited = world.bare("POST", "/graphs/counting:a/runs?wait=10ms").token(&ada).send().await.expect(201);
    assert_eq!(waited["state"], "queued", "no node is there to run it, and the wait is over");
    service.grant(any_graph("ada")).await;
    let two = ask("counting:a", &json!({})).await;
    assert!(two.json()["detail"].as_str().unwrap().contains("2 grants"), "{}", two.text);
    ask("counting:a", &json!({ "grant_id": grant })).await.expect(201);
    assert_eq!(ask("nowhere:a", &json!({ "grant_id": grant })).await.refused(404), "no_executor");
    assert_eq!(service.counted(), (0, 0), "whoever has an API token makes jobs, and runs nothing himself");
}

async fn a03_accounts_and_usage_are_told_to_their_owners(service: &Service) {
    let world = &service.world;
    let (ada, eve) = (world.token("ada", Role::Operator).await, world.token("eve", Role::Viewer).await);
    let ask = || world.bare("POST", "/billing/accounts").token(&ada).json(&json!({ "name": "acme" })).send();
    let made = ask().await.expect(201);
    assert_eq!(ask().await.expect(201), made);
    let key = service.store().billing_account("ada", "acme").await.unwrap().unwrap().virtual_key;
    let shown = made["virtual_key"].as_str().unwrap();
    assert!(shown.ends_with('…') && key.starts_with(shown.trim_end_matches('…')) && shown.len() < 20, "{shown}");
    let grant = service.grant(any_graph("ada")).await;
    for run in ["a", "b"] {
        service.ask(run, grant, &json!({})).await.expect(200);
    }
    let usage = world.bare("GET", "/billing/accounts/acme/usage").token(&ada).send().await.expect(200);
    let item =
        |unit: &str, quantity| json!({ "graph_id": "counting:a", "unit": unit, "quantity": quantity, "runs": 2 });
    assert_eq!(usage["items"], json!([item("run", 2), item("token", 14)]));
    let past = "/billing/accounts/acme/usage?from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z";
    assert_eq!(world.bare("GET", past).token(&ada).send().await.expect(200)["items"], json!([]));
    let of_ada = "/billing/accounts/acme/usage?owner=ada";
    assert_eq!(world.get(of_ada).await["items"], usage["items"], "an admin asks for anybody's");
    assert_eq!(world.bare("GET", of_ada).token(&eve).send().await.refused(404), "not_found");
    assert_eq!(world.get("/billing/accounts").await["items"], json!([made]));
    assert_eq!(world.bare("GET", "/billing/accounts").token(&eve).send().await.expect(200)["items"], json!([]));
    let backwards = "/billing/accounts/acme/usage?from=2020-02-01T00:00:00Z&to=2020-01-01T00:00:00Z";
    assert_eq!(world.bare("GET", backwards).token(&ada).send().await.refused(400), "bad_query");
}

#[test]
fn a12_only_services_come_in_and_users_do_not() {
    run(async {
        let service = Service::sqlite().await;
        let grant = service.grant(any_graph("ada")).await;
        let body = json!({ "executionGrantId": grant, "input": {} });
        let call = Call::new(service.world.address, "POST", "/api/internal/graphs/counting:a/runs")
            .header("Idempotency-Key", "k")
            .json(&body);
        assert_eq!(call.clone().send().await.refused(401), "not_authenticated");
        for wrong in [service.world.admin.as_str(), "", "x", &SECRETS[0][1..], "a.b.c"] {
            assert_eq!(call.clone().token(wrong).send().await.refused(401), "not_authenticated", "{wrong}");
        }
        for right in SECRETS {
            assert_eq!(call.clone().token(right).send().await.expect(200)["ok"], true);
        }
        assert_eq!(service.counted(), (1, 1));
        let router = punctual_server::in_process(service.world.state.clone());
        let request = axum::http::Request::post("/api/internal/graphs/counting:a/runs").header("Host", "localhost");
        let request = request.body(axum::body::Body::empty()).unwrap();
        let answer = tower::ServiceExt::oneshot(router, request).await.unwrap();
        assert_eq!(answer.status(), 401, "not even whoever has the store open");
    });
}

#[test]
fn a16_a_service_that_asks_too_often_is_told_when_to_come_back() {
    run(async {
        let settings = Settings { service_rate: NonZeroU32::new(1).unwrap(), ..settings() };
        let service = Service::of(World::with(settings).await);
        let grant = service.grant(any_graph("ada")).await;
        let call = service.call("counting:a", grant, &json!({})).header("Idempotency-Key", "k");
        let calls: Vec<_> = (0..50).map(|_| tokio::spawn(call.clone().send())).collect();
        let mut refused = None;
        for call in calls {
            let answer = call.await.unwrap();
            refused = refused.or((answer.status != 200).then_some(answer));
        }
        let refused = refused.expect("fifty in a moment are too many");
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        assert_eq!(refused.refused(429), "too_many_requests");
        let other = service.call("counting:a", grant, &json!({})).header("Idempotency-Key", "k");
        let other = other.without("Authorization").token(SECRETS[1]).send().await;
        assert_eq!(other.status, 200, "each secret is counted by itself");
    });
}

#[test]
fn a13_nothing_is_begun_for_a_request_that_cannot_be_kept() {
    run(async {
        let service = Service::sqlite().await;
        let grant = service.grant(any_graph("ada")).await;
        let nul = service.ask("k", grant, &json!("a\0b")).await;
        assert_eq!(nul.refused(422), "invalid");
        let new = NewExecution {
            key: String::new(),
            hash: [0; 32],
            graph: "counting:a".parse().unwrap(),
            grant_id: grant,
            owner: None,
            input: Json::null(),
            trace_id: "0".repeat(32),
            service: None,
            driver: DriverId(uuid::Uuid::from_u128(1)),
        };
        assert!(service.store().begin_execution(new.clone()).await.is_err());
        let sound = NewExecution { key: "x".into(), ..new };
        assert!(matches!(service.store().begin_execution(sound).await, Ok(Begun::Mine(_))));
        assert_eq!(service.counted(), (0, 0));
    });
}
