//! The figures of a real server after real work, read by an independent parser; and the dashboard, the alert rules and
//! the page about them, which name what is really there.

use crate::serve::Server;
use crate::world::{World, on_both_stores};
use punctual_core::job::NewJob;
use punctual_core::name::Name;
use punctual_core::retry::RetryPolicy;
use punctual_core::schedule::{Overlap, ScheduleDefinition};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use punctual_testkit::prometheus::{Family, Watched, expressions, figures};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What Prometheus itself puts on every sample.
const OF_THE_SCRAPER: [&str; 2] = ["instance", "job"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn watched() -> Watched {
    let (dashboard, rules) =
        (root().join("deploy/grafana/punctual.json"), root().join("deploy/prometheus/alerts.yaml"));
    expressions(&dashboard, &rules).unwrap()
}

/// What a server says at `/metrics`.
fn scrape(server: &Server) -> String {
    let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).unwrap();
    let request =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer scrape\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    // Without a length the body would come in chunks.
    assert!(head.to_lowercase().contains("content-length"), "{head}");
    body.to_owned()
}

type Labels = BTreeMap<String, String>;

/// The figures by the names they are asked for by, each with all its labels.
struct Figures(BTreeMap<String, Vec<(Labels, f64)>>);

impl Figures {
    fn of(families: Vec<Family>) -> Self {
        let mut all = BTreeMap::<_, Vec<_>>::new();
        for sample in families.into_iter().flat_map(|family| family.samples) {
            all.entry(sample.name).or_default().push((sample.labels, sample.value));
        }
        Self(all)
    }

    /// The sum of what has these labels; what is not there is zero.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let rows = self.0.get(name).into_iter().flatten();
        let has = |row: &Labels| labels.iter().all(|(label, value)| row.get(*label).is_some_and(|it| it == value));
        rows.filter(|(row, _)| has(row)).map(|(_, value)| value).sum()
    }

    fn labels(&self, name: &str) -> BTreeSet<&str> {
        self.0.get(name).into_iter().flatten().flat_map(|(labels, _)| labels.keys().map(String::as_str)).collect()
    }
}

/// A schedule that is fired every second, one whose slots do not run, and jobs that end well and badly.
async fn work(world: &World) {
    let definition = |name: &str, target| {
        ScheduleDefinition::new(Name::new(name).unwrap(), TimingSpec::cron("@every 1s", "UTC"), target)
    };
    world.store.create_schedule(definition("secret-name", Target::command(["true"]))).await.unwrap();
    let slow = definition("slow", Target::command(["sleep", "3600"]));
    world.store.create_schedule(ScheduleDefinition { overlap: Overlap::Forbid, ..slow }).await.unwrap();
    let bad = NewJob { retry: RetryPolicy::none(), ..NewJob::new(Target::command(["false"])) };
    world.store.enqueue_jobs(vec![bad]).await.unwrap();
}

/// Asks until everything that was started shows.
async fn figures_after_work(server: &Server) -> (Vec<Family>, String) {
    loop {
        let text = scrape(server);
        let families = figures(&text).unwrap_or_else(|refused| panic!("{refused}\n{text}"));
        let seen = Figures::of(figures(&text).unwrap());
        let failed = [("kind", "command"), ("outcome", "failed"), ("error_code", "target_error")];
        let done = seen.sum("punctual_slots_fired_total", &[]) >= 2.0
            && seen.sum("punctual_slots_not_run_total", &[("reason", "overlap")]) >= 1.0
            && seen.sum("punctual_runs_total", &[("outcome", "completed"), ("error_code", "none")]) >= 1.0
            && seen.sum("punctual_runs_total", &failed) >= 1.0
            && seen.sum("punctual_lease_renewals_total", &[("result", "ok")]) >= 1.0
            && seen.sum("punctual_runs_ended_last_minute", &[]) >= 1.0
            && seen.sum("punctual_store_seconds_count", &[("verb", "recover")]) >= 1.0;
        if done {
            return (families, text);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Every name and label of the dashboard and of the rules is there.
fn check_expressions(seen: &Figures, has_pool: bool) {
    let watched = watched();
    assert!(watched.expressions.len() > 60, "{}", watched.expressions.len());
    let known = |name: &str| seen.0.contains_key(name) || (!has_pool && name.starts_with("punctual_pool_"));
    let bears = |name: &str, label: &str| {
        OF_THE_SCRAPER.contains(&label) || seen.labels(name).contains(label) || !seen.0.contains_key(name)
    };
    for expression in &watched.expressions {
        let place = &expression.r#where;
        for selector in &expression.selectors {
            assert!(known(&selector.name), "{place}: there is no {}", selector.name);
            for label in &selector.labels {
                assert!(bears(&selector.name, label), "{place}: {} has no label {label}", selector.name);
            }
        }
        for grouping in &expression.groupings {
            for (label, name) in
                grouping.labels.iter().flat_map(|label| grouping.names.iter().map(move |it| (label, it)))
            {
                assert!(bears(name, label), "{place}: {name} has no label {label}");
            }
        }
    }
}

/// Every family is on the page, and every name on the page is a family.
fn check_page(families: &[Family], has_pool: bool) {
    let page = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `punctual_"));
    let rows = rows.map(|row| format!("punctual_{}", row.split_once('`').unwrap().0));
    let told: BTreeSet<String> = rows.filter(|name| has_pool || !name.starts_with("punctual_pool_")).collect();
    let there = families.iter().map(|family| match family.kind.as_str() {
        "counter" => format!("{}_total", family.name),
        "info" => format!("{}_info", family.name),
        _ => family.name.clone(),
    });
    assert_eq!(told, there.collect::<BTreeSet<_>>());
}

on_both_stores! {
    /// A real node works; an independent parser reads what is told of it.
    async fn d12_the_figures_of_a_working_server_are_openmetrics_and_what_the_dashboard_names(world: &World) {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().to_str().unwrap();
        let server = Server::on(&["--data", data, "--database", &world.url, "--metrics-token", "scrape"]);
        work(world).await;
        let (families, text) = figures_after_work(&server).await;
        let store = if world.url.starts_with("sqlite") { "sqlite" } else { "postgres" };
        let has_pool = store == "postgres";
        check_page(&families, has_pool);
        assert!(families.iter().all(|family| !family.help.is_empty()));
        let seen = Figures::of(families);
        check_expressions(&seen, has_pool);
        assert!(seen.sum("punctual_build_info", &[("store", store)]) >= 1.0);
        for name in ["punctual_slot_lateness_seconds", "punctual_job_wait_seconds", "punctual_claim_batch_jobs"] {
            assert!(seen.sum(&format!("{name}_count"), &[]) >= 2.0, "{name}");
        }
        for verb in ["next_due", "fire", "promote", "claim", "finish", "heartbeat"] {
            assert!(seen.sum("punctual_store_seconds_count", &[("verb", verb)]) >= 1.0, "{verb}");
        }
        assert!((seen.sum("punctual_node_room", &[]) - 8.0).abs() < 0.5);
        assert!(seen.sum("punctual_node_running", &[]) >= 1.0, "one sleeps");
        assert_eq!(seen.0.contains_key("punctual_pool_connections"), has_pool);
        for unbounded in ["secret-name", "sleep"] {
            assert!(!text.contains(unbounded), "a name is part of a figure:\n{text}");
        }
    }
}

#[test]
fn d12_every_alert_has_a_severity_words_and_a_section_to_read() {
    let page = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let sections: BTreeSet<String> =
        page.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_lowercase).collect();
    let alerts = watched().alerts;
    for alert in &alerts {
        let severity = alert.labels.get("severity").map(String::as_str);
        assert!(matches!(severity, Some("critical" | "warning" | "info")), "{}", alert.alert);
        assert!(!alert.annotations["summary"].is_empty(), "{}", alert.alert);
        let section = alert.annotations["runbook"].strip_prefix("docs/metrics.md#").unwrap();
        assert!(sections.contains(section) && section == alert.alert.to_lowercase(), "{}: {section}", alert.alert);
    }
    assert_eq!(alerts.len(), sections.len(), "every section is of an alert");
}

#[test]
fn d12_what_reads_figures_refuses_what_is_none() {
    let twice = "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\na 2\n# EOF\n";
    assert!(figures(twice).is_err());
    assert!(figures("# TYPE a counter\na 1\n# EOF\n").is_err(), "a counter has a total");
    assert!(figures("a 1\n").is_err(), "without an end");
    assert!(figures("# TYPE a gauge\na 1\n# EOF\n").is_ok());
}
