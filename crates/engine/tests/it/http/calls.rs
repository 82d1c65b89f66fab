//! What is sent, which answers are good, what is kept of them, and when it is tried again.

use super::server::{Server, answer};
use super::{Calls, get, job, local_options, output};
use punctual_core::id::JobId;
use punctual_core::job::NewJob;
use punctual_core::json::Json;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::secret::{SecretRef, Value};
use punctual_core::store::{Cancelled, Store};
use punctual_core::target::{Body, Http};
use punctual_core::trace::{SpanId, TraceContext};
use punctual_engine::targets::http::{HttpOptions, Limits};
use std::collections::BTreeMap;

const INPUT: &str = r#"{"id":"a/b","n":7,"exact":12345678901234567890123}"#;

#[tokio::test]
async fn d06_the_request_is_filled_in_from_the_input() {
    let server = Server::saying(answer(200, "", "")).await;
    let calls = Calls::local();
    let http = Http {
        headers: BTreeMap::from([("x-id".to_owned(), Value::from("<{{ input.id }}>"))]),
        body: Some(Body::Json(serde_json::json!({ "n": "{{ input.n }}", "id": "id {{ input.id }}" }))),
        ..Http::new("PUT", server.url("/things/{{ input.id }}?n={{ input.n }}"))
    };
    assert_eq!(calls.call(http, INPUT).await.outcome, Outcome::Completed);
    let text = Http { body: Some(Body::Text("n={{ input.n }}\n".into())), ..Http::new("POST", server.url("/")) };
    assert_eq!(calls.call(text, INPUT).await.outcome, Outcome::Completed);
    assert_eq!(calls.call(Http::new("POST", server.url("/")), INPUT).await.outcome, Outcome::Completed);
    assert_eq!(calls.call(get(server.url("/")), INPUT).await.outcome, Outcome::Completed);
    let [put, text, input, get] = &server.seen()[..] else { panic!("{:?}", server.seen()) };
    assert!(put.head.starts_with("PUT /things/a%2Fb?n=7 HTTP/1.1"), "{}", put.head);
    assert_eq!((put.header("x-id"), put.header("content-type")), (Some("<a/b>"), Some("application/json")));
    assert_eq!(put.body, r#"{"id":"id a/b","n":7}"#);
    assert_eq!((text.body.as_str(), text.header("content-type")), ("n=7\n", None));
    assert_eq!(input.body, INPUT, "the input goes as it is, to the last digit");
    assert_eq!((get.body.as_str(), get.header("idempotency-key")), ("", None));
    assert!(put.header("user-agent").unwrap().starts_with("punctual/"));
    calls.node.leave().await;
}

#[tokio::test]
async fn d06_what_cannot_be_filled_in_is_refused_before_anything_is_sent() {
    let server = Server::saying(answer(200, "", "")).await;
    let calls = Calls::local();
    let header =
        |text: &str| Http { headers: BTreeMap::from([("x-id".to_owned(), Value::from(text))]), ..get(server.url("/")) };
    for (http, says) in [
        (get(server.url("/{{ input.missing }}")), "url: names a value that the input does not have"),
        (get(server.url("/{{ input.n * 9 }}")), "url: `*` is not available"),
        (header("{{ input.lines }}"), "x-id cannot be sent"),
        (get("{{ input.n }}"), "no address"),
        (Http { body: Some(Body::Text("{{ input".into())), ..get(server.url("/")) }, "body: "),
    ] {
        let run = calls.call(http, r#"{"n":1,"lines":"a\r\nb: c"}"#).await;
        assert_eq!(run.error_code, Some(ErrorCode::TargetRejected));
        assert!(run.error.as_deref().unwrap().contains(says), "{run:?}");
    }
    assert_eq!(server.seen().len(), 0);
    calls.node.leave().await;
}

#[tokio::test]
async fn d06_the_key_of_a_chain_and_its_trace_stay_the_same() {
    let server = Server::start({
        let calls = std::sync::atomic::AtomicUsize::new(0);
        move |mut stream, _| {
            let first = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            let said = if first { answer(503, "retry-after: 1\r\n", "") } else { answer(200, "", "") };
            async move {
                let _gone = tokio::io::AsyncWriteExt::write_all(&mut stream, said.as_bytes()).await;
            }
        }
    })
    .await;
    let calls = Calls::local();
    let first =
        calls.enqueue_job(NewJob { retry: RetryPolicy::default(), ..job(Http::new("POST", server.url("/")), "{}") });
    let first = first.await;
    assert!(!calls.end(first).await.is_final);
    server.arrived.acquire_many(2).await.unwrap().forget();
    let [one, two] = &server.seen()[..] else { panic!() };
    let (id, key) = (first.to_string(), one.header("idempotency-key"));
    assert_eq!(key, Some(id.as_str()));
    assert_eq!(two.header("idempotency-key"), key);
    let trace = |seen: &super::server::Seen| seen.header("traceparent").unwrap().split('-').nth(1).unwrap().to_owned();
    assert_eq!(trace(one), id.replace('-', ""));
    assert_eq!(trace(two), trace(one));
    assert_ne!(two.header("traceparent"), one.header("traceparent"), "each attempt is a span of its own");
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let traced = NewJob { trace_context: Some(given.into()), ..job(Http::new("POST", server.url("/")), "{}") };
    let id = calls.enqueue_job(traced).await;
    calls.end(id).await;
    let span = TraceContext { span_id: SpanId::of_run(id), ..given.parse().unwrap() };
    assert_eq!(server.seen()[2].header("traceparent"), Some(span.to_string().as_str()), "the run is what calls");
    calls.node.leave().await;
}

/// The wait between a job and its retry, as the store has planned it.
async fn planned_wait(calls: &Calls, job: JobId) -> Option<jiff::SignedDuration> {
    let connection = rusqlite::Connection::open(calls.world.store.path()).unwrap();
    let find = "SELECT job_id FROM punctual_retries WHERE retry_of = ?1";
    let retry = connection.query_row(find, [job.as_bytes()], |row| row.get(0)).ok().map(JobId::from_bytes)?;
    let ended = calls.end(job).await.finished_at;
    Some(calls.world.store.job(retry).await.unwrap().unwrap().job.spec.run_at?.duration_since(ended))
}

#[tokio::test]
async fn d06_retry_after_is_honoured_in_both_forms_and_only_where_it_helps() {
    let dated = "date: Sun, 06 Nov 2033 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 2033 09:49:37 GMT\r\n";
    let calls = Calls::local();
    for (status, headers, wait) in [
        (503, "retry-after: 7200\r\n", Some(7200)),
        (429, dated, Some(3600)),
        (503, "retry-after: 99999999\r\n", Some(86_400)),
        (503, "retry-after: soon\r\n", Some(0)),
        (500, "", Some(0)),
        (408, "", Some(0)),
        (404, "retry-after: 5\r\n", None),
        (302, "location: /\r\n", None),
    ] {
        let server = Server::saying(answer(status, headers, "")).await;
        let again = NewJob { retry: RetryPolicy::default(), ..job(Http::new("POST", server.url("/")), "{}") };
        let id = calls.enqueue_job(again).await;
        let run = calls.end(id).await;
        assert_eq!(run.error_code, Some(ErrorCode::TargetError));
        assert!(run.error.as_deref().unwrap().contains(&status.to_string()), "{run:?}");
        assert_eq!(run.is_final, wait.is_none(), "{status} {headers}");
        let planned = planned_wait(&calls, id).await.map(|wait| wait.as_secs());
        match wait {
            // Without a word of the server the policy's own wait of about a second holds.
            Some(0) => assert!(planned.is_some_and(|planned| planned <= 1), "{status}: {planned:?}"),
            wait => assert!(planned >= wait && planned <= wait.map(|wait| wait + 1), "{status}: {planned:?}"),
        }
    }
    calls.node.leave().await;
}

#[tokio::test]
async fn d06_the_job_says_which_answers_are_good_and_which_pass() {
    let calls = Calls::local();
    let http = |url: String| -> Http {
        serde_json::from_value(serde_json::json!({ "url": url, "accept": ["2xx", 404], "retry_on": ["410-418"] }))
            .unwrap()
    };
    for (status, outcome, is_final) in [
        (204, Outcome::Completed, true),
        (404, Outcome::Completed, true),
        (418, Outcome::Failed, false),
        (500, Outcome::Failed, true),
    ] {
        let server = Server::saying(answer(status, "", "")).await;
        let id = calls.enqueue_job(NewJob { retry: RetryPolicy::default(), ..job(http(server.url("/")), "{}") }).await;
        let run = calls.end(id).await;
        assert_eq!((run.outcome, run.is_final), (outcome, is_final), "{status}");
    }
    calls.node.leave().await;
}

#[tokio::test]
async fn d06_the_answer_is_kept_with_its_cut_stated() {
    let calls = Calls::new(HttpOptions { limits: Limits { kept_bytes: 10, read_bytes: 1000 }, ..local_options() });
    let kind = "content-type: application/json; charset=utf-8\r\nset-cookie: a=b\r\nx-request-id: r1\r\n";
    let at = |said: String| Server::saying(said);
    let server = at(answer(200, kind, r#"{"a":1.0}"#)).await;
    let run = calls.call(get(server.url("/")), "{}").await;
    let kept = r#"{"status":200,"headers":{"content-length":"9","content-type":"application/json; charset=utf-8","x-request-id":"r1"},"body":{"a":1.0}}"#;
    assert_eq!(run.output.as_ref().map(Json::as_str), Some(kept));
    let server = at(answer(500, kind, r#"{"long":"0123456789"}"#)).await;
    let run = calls.call(get(server.url("/")), "{}").await;
    assert_eq!((output(&run)["body"].as_str(), &output(&run)["body_cut"]), (Some(r#"{"long":"0"#), &true.into()));
    let server =
        Server::saying([b"HTTP/1.1 200 x\r\ncontent-length: 5\r\n\r\n" as &[u8], b"a\xff\0\"z"].concat()).await;
    assert_eq!(output(&calls.call(get(server.url("/")), "{}").await)["body"], "a\u{fffd}\u{fffd}\"z");
    let server = at(answer(200, kind, r#""\u0000""#)).await;
    assert_eq!(output(&calls.call(get(server.url("/")), "{}").await)["body"], r#""\u0000""#);
    calls.node.leave().await;
}

#[tokio::test]
async fn b12_a_secret_reaches_the_server_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "canary \"7f3a\"\n").unwrap();
    let secret = SecretRef::new(format!("file:{}", file.display()));
    // The server repeats everything it was told, and so does a redirect.
    let server = Server::start(|mut stream, seen| async move {
        let told = serde_json::json!({ "head": seen.head, "body": seen.body }).to_string();
        let _gone = tokio::io::AsyncWriteExt::write_all(
            &mut stream,
            answer(400, "content-type: application/json\r\nx-request-id: canary \"7f3a\"\r\n", &told).as_bytes(),
        )
        .await;
    })
    .await;
    let calls = Calls::local();
    let http = Http {
        headers: BTreeMap::from([("authorization".to_owned(), Value::Secret(secret.clone()))]),
        secrets: BTreeMap::from([("token".to_owned(), secret.clone())]),
        body: Some(Body::Text("{{ secrets.token }} {{ secrets.token | tojson }}".into())),
        ..Http::new("POST", server.url("/?t={{ secrets.token }}"))
    };
    let run = calls.call(http.clone(), "{}").await;
    let seen = &server.seen()[0];
    assert!(seen.head.contains("?t=canary%20%227f3a%22"), "{seen:?}");
    assert_eq!(seen.header("authorization"), Some("canary \"7f3a\""));
    assert_eq!(seen.body, r#"canary "7f3a" "canary \"7f3a\"""#);
    assert!(!format!("{run:?}").contains("7f3a"), "{run:?}");
    assert!(format!("{run:?}").contains("[secret]"));
    let elsewhere = Server::saying(answer(200, "", "")).await;
    let to_elsewhere = Server::saying(answer(307, &format!("location: {}\r\n", elsewhere.url("/")), "")).await;
    let run = calls.call(Http { redirects: 1, url: to_elsewhere.url("/"), ..http.clone() }, "{}").await;
    assert_eq!((run.error_code, elsewhere.seen().len()), (Some(ErrorCode::TargetRejected), 0));
    // A broken address must not be repeated in the error.
    let run = calls.call(Http { url: "http://127.0.0.1:{{ secrets.token | safe }}/".into(), ..http }, "{}").await;
    assert!(run.error_code == Some(ErrorCode::TargetRejected) && !format!("{run:?}").contains("7f3a"), "{run:?}");
    for entry in std::fs::read_dir(calls.world.store.path().parent().unwrap()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(4).any(|part| part == b"7f3a"), "the store's files do not hold it");
    }
    calls.node.leave().await;
}

/// What a redirect to another place takes along: never what was meant for the first one alone.
#[tokio::test]
async fn d06_a_redirect_keeps_the_method_only_where_it_must_and_credentials_nowhere() {
    let elsewhere = Server::saying(answer(200, "", "")).await;
    let location = format!("location: {}\r\n", elsewhere.url("/there"));
    let calls = Calls::local();
    for (status, line, body) in [(303, "GET", ""), (302, "GET", ""), (307, "POST", "{}"), (308, "POST", "{}")] {
        let here = Server::saying(answer(status, &location, "")).await;
        let headers = ["authorization", "cookie", "x-plain"].map(|name| (name.to_owned(), Value::from("held")));
        let http = Http { redirects: 1, headers: headers.into(), ..Http::new("POST", here.url("/")) };
        assert_eq!(calls.call(http, "{}").await.outcome, Outcome::Completed);
        let seen = elsewhere.seen().pop().unwrap();
        assert!(seen.head.starts_with(&format!("{line} /there ")), "{status}: {}", seen.head);
        assert_eq!((seen.body.as_str(), seen.header("x-plain")), (body, Some("held")));
        assert_eq!((seen.header("authorization"), seen.header("cookie")), (None, None));
        assert_eq!(here.seen()[0].header("authorization"), Some("held"));
    }
    calls.node.leave().await;
}

#[tokio::test]
async fn d06_cancelling_a_call_closes_its_connection() {
    let server = Server::start(|stream, _| super::server::hold(stream)).await;
    let calls = Calls::local();
    let id = calls.enqueue(get(server.url("/")), "{}").await;
    server.arrived.acquire().await.unwrap().forget();
    assert_eq!(calls.world.store.cancel_job(id).await.unwrap(), Cancelled::Requested);
    assert_eq!(calls.end(id).await.outcome, Outcome::Cancelled);
    server.until_left_alone().await;
    calls.node.leave().await;
}
