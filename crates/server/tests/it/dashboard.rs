//! The dashboard as browsers get it: its page, its files, below a path, and not in the way of anything else.

use crate::client::{Answer, Call};
use crate::world::{World, run};
use flate2::read::GzDecoder;
use punctual_server::{BasePath, Dashboard, DashboardFile, Settings, login_link, secret::Secret};
use serde_json::json;
use std::io::Read;

const INDEX: &str =
    "<!doctype html><base href=\"/\" /><title>Punctual</title><script src=\"./assets/app-1.js\"></script>";

/// Small, and so not worth compressing, but told apart by what is sent.
const FILES: &[DashboardFile] = &[
    DashboardFile {
        path: "assets/app-1.js",
        kind: "text/javascript; charset=utf-8",
        mark: "a1",
        bytes: b"start()",
        gzip: Some(b"compressed"),
    },
    DashboardFile { path: "icon.svg", kind: "image/svg+xml", mark: "b2", bytes: b"<svg/>", gzip: None },
    DashboardFile {
        path: "index.html",
        kind: "text/html; charset=utf-8",
        mark: "c3",
        bytes: INDEX.as_bytes(),
        gzip: None,
    },
];

fn settings(base: &str) -> Settings {
    Settings { dashboard: Dashboard::of(FILES), base_path: BasePath::parse(base).unwrap(), ..Settings::default() }
}

/// As a browser asks when somebody follows a link.
async fn browse(world: &World, path: &str) -> Answer {
    Call::new(world.address, "GET", path).header("Accept", "text/html,*/*;q=0.8").send().await
}

async fn get(world: &World, path: &str, header: (&str, &str)) -> Answer {
    Call::new(world.address, "GET", path).header(header.0, header.1).send().await
}

#[test]
fn b10_every_address_of_a_page_gives_the_page_and_nothing_else_does() {
    run(async {
        let world = World::with(settings("")).await;
        for path in ["/", "/jobs?state=failed", "/schedules/foo%2Fbar.baz", "/flows/a/b", "/apiary", "/index.html"] {
            let page = browse(&world, path).await;
            assert_eq!((page.status, page.text.as_str()), (200, INDEX), "{path}");
            assert_eq!(page.header("cache-control"), Some("no-cache"), "{path}");
        }
        for path in ["/api", "/api/v2/jobs", "/docs/nothing", "/metrics/x", "/assets/old-0.js", "/assets"] {
            assert_eq!(browse(&world, path).await.refused(404), "no_such_path", "{path}");
        }
        assert_eq!(browse(&world, "/api/v1/nothing").await.refused(401), "not_authenticated");
        // A program that mistypes an address is not given a page.
        for accept in ["application/json", "*/*"] {
            assert_eq!(get(&world, "/jobs", ("Accept", accept)).await.refused(404), "no_such_path");
        }
        assert_eq!(get(&world, "/", ("Accept", "*/*")).await.status, 200);
        let posted = Call::new(world.address, "POST", "/jobs").header("Accept", "text/html").send().await;
        assert_eq!(posted.refused(404), "no_such_path");
        assert_eq!(Call::new(world.address, "POST", "/").send().await.refused(405), "method_not_allowed");
    });
}

#[test]
fn c12_the_page_may_run_what_this_server_sends_and_nothing_else() {
    run(async {
        let world = World::with(settings("")).await;
        let page = browse(&world, "/jobs").await;
        let csp = page.header("content-security-policy").unwrap();
        let rules: Vec<&str> = csp.split("; ").collect();
        for rule in [
            "default-src 'self'",
            "base-uri 'self'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "style-src 'self'",
            "script-src 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "object-src 'none'",
        ] {
            assert!(rules.contains(&rule), "{rule} is not in {csp}");
        }
        assert!(!csp.contains("unsafe") && !csp.contains("http"), "{csp}");
        let docs = browse(&world, "/docs").await;
        assert!(docs.header("content-security-policy").unwrap().contains("base-uri 'none'"), "for the page alone");
    });
}

#[test]
fn b10_files_are_sent_once_and_compressed_to_those_who_take_it() {
    run(async {
        let world = World::with(settings("")).await;
        let plain = get(&world, "/assets/app-1.js", ("Accept", "*/*")).await;
        assert_eq!((plain.status, plain.text.as_str()), (200, "start()"));
        assert_eq!(plain.header("content-type"), Some("text/javascript; charset=utf-8"));
        assert_eq!(plain.header("cache-control"), Some("public, max-age=31536000, immutable"));
        assert_eq!((plain.header("vary"), plain.header("content-encoding")), (Some("accept-encoding"), None));
        let small = get(&world, "/assets/app-1.js", ("Accept-Encoding", "gzip, br")).await;
        assert_eq!((small.text.as_str(), small.header("content-encoding")), ("compressed", Some("gzip")));
        let icon = get(&world, "/icon.svg", ("Accept-Encoding", "gzip")).await;
        assert_eq!((icon.text.as_str(), icon.header("content-encoding")), ("<svg/>", None));
        assert_eq!(icon.header("cache-control"), Some("no-cache"), "its name does not change with its content");
        for path in ["/", "/icon.svg", "/assets/app-1.js"] {
            let mark = get(&world, path, ("Accept", "*/*")).await.header("etag").unwrap().to_owned();
            let again = get(&world, path, ("If-None-Match", &format!("\"other\", {mark}"))).await;
            assert_eq!((again.status, again.text.as_str()), (304, ""), "{path}");
            assert_eq!(again.header("etag"), Some(mark.as_str()));
            assert_eq!(get(&world, path, ("If-None-Match", "\"other\"")).await.status, 200, "{path}");
        }
    });
}

#[test]
fn b10_below_a_path_everything_is_found_with_it_and_without_it() {
    run(async {
        let world = World::with(settings("/tools/punctual")).await;
        for path in ["/tools/punctual/", "/tools/punctual/jobs", "/", "/jobs"] {
            let page = browse(&world, path).await;
            assert!(page.text.contains("<base href=\"/tools/punctual/\" />"), "{path}: {}", page.text);
        }
        let beside = browse(&world, "/tools/punctual?zone=UTC").await;
        assert_eq!((beside.status, beside.header("location")), (308, Some("/tools/punctual/?zone=UTC")));
        for path in ["/docs", "/docs/docs.js", "/openapi.json", "/livez", "/readyz", "/assets/app-1.js", "/api/v1"] {
            for base in ["", "/tools/punctual"] {
                assert_eq!(browse(&world, &format!("{base}{path}")).await.status, 200, "{base}{path}");
            }
        }
        assert_eq!(browse(&world, "/tools/punctual/assets/old-0.js").await.refused(404), "no_such_path");
        let document = browse(&world, "/tools/punctual/openapi.json").await.json();
        assert_eq!(document["servers"][0]["url"], "/tools/punctual/api/v1");
        let root = browse(&world, "/tools/punctual/api/v1").await.json();
        assert_eq!(
            (root["docs"].as_str(), root["dashboard"].as_str()),
            (Some("/tools/punctual/docs"), Some("built in"))
        );
    });
}

#[test]
fn b10_below_a_path_places_problems_and_cookies_have_it() {
    run(async {
        let world = World::with(settings("/punctual")).await;
        let job = json!({ "target": { "kind": "command", "argv": ["true"] } });
        let call = |method: &str, path: &str| Call::new(world.address, method, path).token(&world.admin);
        let made = call("POST", "/punctual/api/v1/jobs").json(&job).send().await;
        assert_eq!(made.status, 201, "{}", made.text);
        let place = made.header("location").unwrap();
        assert!(place.starts_with("/punctual/api/v1/jobs/"), "{place}");
        assert_eq!(call("GET", place).send().await.status, 200);
        let problem = call("GET", "/punctual/api/v1/jobs/none").send().await;
        assert!(problem.json()["type"].as_str().unwrap().starts_with("/punctual/docs#problem-"), "{}", problem.text);

        let login = json!({ "token": world.admin });
        let entered = Call::new(world.address, "POST", "/punctual/api/v1/session").json(&login).send().await;
        let cookie = entered.header("set-cookie").unwrap();
        assert!(cookie.contains("; Path=/punctual;"), "{cookie}");
        let session = cookie.split(';').next().unwrap();
        let known = Call::new(world.address, "GET", "/punctual/api/v1/session").header("Cookie", session).send().await;
        assert_eq!(known.expect(200)["role"], "admin");
        let figures = call("GET", "/metrics").send().await.text;
        assert!(figures.contains("route=\"/api/v1/jobs\"") && !figures.contains("route=\"/punctual"), "{figures}");

        // A cookie for the whole host alone may have the strictest prefix.
        let world = World::with(Settings { https: true, ..settings("/punctual") }).await;
        let entered = world.bare("POST", "/session").json(&json!({ "token": world.admin })).send().await;
        let cookie = entered.header("set-cookie").unwrap();
        assert!(cookie.starts_with("__Secure-punctual_session=") && cookie.ends_with("; Secure"), "{cookie}");
    });
}

#[test]
fn b10_the_login_link_leads_below_the_path() {
    let secret = Secret::new_token().unwrap();
    let link = login_link("http://127.0.0.1:7878/punctual", &secret);
    assert_eq!(link, format!("http://127.0.0.1:7878/punctual/#token={}", secret.reveal()));
}

/// What the build has made of the sources, if it has: whole, and the same compressed.
#[test]
fn b10_what_is_built_in_is_whole() {
    run(async {
        let world = World::sqlite().await;
        if Dashboard::BUILT.why_missing().is_some_and(|why| why.on_purpose) {
            return;
        }
        assert_eq!(Dashboard::BUILT.why_missing(), None, "there is a dashboard");
        let page = browse(&world, "/").await.text;
        assert!(page.contains("<base href=\"/\"") && !page.contains("style=") && !page.contains("<style"), "{page}");
        let files: Vec<&str> =
            page.split(['"', '\'']).filter_map(|text| text.strip_prefix("./").filter(|it| it.contains('.'))).collect();
        assert!(files.iter().any(|file| file.starts_with("assets/")), "{page}");
        for file in files {
            let plain = get(&world, &format!("/{file}"), ("Accept", "*/*")).await;
            assert_eq!(plain.status, 200, "{file}");
        }
    });
}

#[test]
fn compressed_files_hold_what_the_plain_ones_do() {
    let mut seen = 0;
    for file in Dashboard::BUILT.files() {
        if let Some(gzip) = file.gzip {
            let mut plain = Vec::new();
            GzDecoder::new(gzip).read_to_end(&mut plain).unwrap();
            assert!(plain == file.bytes && gzip.len() < plain.len(), "{}", file.path);
            seen += 1;
        }
    }
    assert!(seen > 0 || Dashboard::BUILT.why_missing().is_some(), "something is worth compressing");
}
