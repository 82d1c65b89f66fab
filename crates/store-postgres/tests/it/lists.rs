//! How lists are read at a million rows: ranges of indexes from where the last page ended, whatever the filter and
//! however deep the page, and no figure counts a big table (B10).

use crate::harness::own_settings;
use punctual_core::readings::{COUNT_MAX, SCAN_MAX};
use punctual_core::virtual_clock::VirtualClock;
use punctual_store_postgres::{PostgresOptions, PostgresStore, sql};
use punctual_testkit::harness::block_on;
use punctual_testkit::postgres::Database;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use tokio_postgres::{Client, SimpleQueryMessage};

/// A million jobs that have ended, two hundred thousand in queues, fifty thousand delayed, ten thousand running; a
/// million rows of the slot ledger and of the audit log; a hundred thousand of everything else that lists show.
const FILL: &str = include_str!("lists.sql");

/// One row more than a page holds.
const PAGE: u32 = 51;

/// A list as somebody asks for it.
struct Asked {
    statement: &'static str,
    params: String,
    /// How many rows come back.
    returns: Returns,
    /// The most rows that may be read from tables and indexes together.
    reads: usize,
}

#[derive(Clone, Copy)]
enum Returns {
    Page,
    Some,
    Nothing,
}

/// Each row that is looked at is looked up in the ledger, in its lane and in the four places where it may be.
const LOOK_UPS: usize = 7;

fn page(statement: &'static str, params: impl Into<String>) -> Asked {
    Asked { statement, params: params.into(), returns: Returns::Page, reads: 60 * LOOK_UPS }
}

impl Asked {
    /// A filter that is checked row by row.
    fn checked(self) -> Self {
        Self { reads: SCAN_MAX * LOOK_UPS + 100, ..self }
    }

    /// One that lets nothing pass.
    fn in_vain(self) -> Self {
        Self { returns: Returns::Nothing, ..self.checked() }
    }

    fn with_some(self) -> Self {
        Self { returns: Returns::Some, ..self }
    }

    fn execute(&self) -> String {
        if self.params.is_empty() { "EXECUTE list".to_owned() } else { format!("EXECUTE list({})", self.params) }
    }

    fn counted(self, counts: usize) -> Self {
        let counted = usize::try_from(COUNT_MAX).unwrap() + 1;
        Self { reads: counts * counted + 1_000, returns: Returns::Some, ..self }
    }
}

/// The id of a row of the fixture.
fn id(row: u32) -> String {
    format!("id_of({row})")
}

/// The first page of a list of jobs, and one far down, by a filter.
fn jobs(statement: &'static str, key: &str, filter: [&str; 5], deep: u32) -> [Asked; 2] {
    jobs_among(PAGE, statement, key, filter, deep)
}

/// The same by a filter that is checked row by row.
fn checked(statement: &'static str, key: &str, filter: [&str; 5], deep: u32) -> [Asked; 2] {
    let scan = u32::try_from(SCAN_MAX).unwrap();
    jobs_among(scan, statement, key, filter, deep).map(Asked::checked)
}

/// The same by a filter that lets nothing pass.
fn in_vain(statement: &'static str, key: &str, filter: [&str; 5], deep: u32) -> [Asked; 2] {
    checked(statement, key, filter, deep).map(Asked::in_vain)
}

fn jobs_among(look_at: u32, statement: &'static str, key: &str, filter: [&str; 5], deep: u32) -> [Asked; 2] {
    let [queue, job_type, owner, tag, place] = filter;
    [id(2_000_000), id(deep)].map(|before| {
        let rest = format!("{key}, {queue}, {job_type}, {owner}, {tag}, {place}, {}, {PAGE}, NULL", id(0));
        page(statement, format!("{before}, 0, {look_at}, {rest}"))
    })
}

const ANY: [&str; 5] = ["NULL"; 5];

fn lists_of_jobs() -> Vec<Asked> {
    let mut lists = Vec::new();
    let place = |word| ["NULL", "NULL", "NULL", "NULL", word];
    let busy = "busy_of(7)";
    lists.extend(jobs("jobs_page", "NULL", ANY, 500_000));
    lists.extend(jobs("jobs_page_runs", "NULL", place("'ended'"), 500_000));
    lists.extend(jobs("jobs_page_runs_not_completed", "'failed'", place("'failed'"), 500_000));
    lists.extend(jobs("jobs_page_queue", "NULL", place("'queued'"), 1_100_000));
    lists.extend(jobs("jobs_page_running", "NULL", place("'running'"), 1_255_000));
    lists.extend(jobs("jobs_page_of_schedule", busy, ANY, 500_000));
    lists.extend(jobs("jobs_page_of_owner", "'ada'", ["NULL", "NULL", "'ada'", "NULL", "NULL"], 500_000));
    // What no index leads to: many have it, or nobody.
    lists.extend(checked("jobs_page_runs", "NULL", place("'completed'"), 500_000));
    lists.extend(checked("jobs_page_delayed", "NULL", place("'scheduled'"), 1_225_000));
    lists.extend(checked("jobs_page_delayed", "NULL", place("'waiting'"), 1_225_000));
    lists.extend(checked("jobs_page", "NULL", ["'q1'", "NULL", "NULL", "NULL", "NULL"], 500_000));
    for filter in [
        ["'nowhere'", "NULL", "NULL", "NULL", "NULL"],
        ["NULL", "'task:none'", "NULL", "NULL", "NULL"],
        ["NULL", "NULL", "NULL", "'none'", "NULL"],
    ] {
        lists.extend(in_vain("jobs_page", "NULL", filter, 500_000));
        lists.extend(in_vain("jobs_page_queue", "NULL", filter, 1_100_000));
        lists.extend(in_vain("jobs_page_of_owner", "'ada'", filter, 500_000));
        lists.extend(in_vain("jobs_page_of_schedule", busy, filter, 500_000));
    }
    lists.extend(in_vain("jobs_page_of_owner", "'ada'", place("'cancelled'"), 500_000));
    lists.extend(in_vain("jobs_page_runs_not_completed", "'skipped'", place("'skipped'"), 500_000));
    lists.extend(jobs("jobs_page_runs_of_error", "'timeout'", ANY, 500_000));
    lists.extend(jobs("jobs_page_runs_of_error", "'cancelled'", ANY, 500_000));
    // Hers that were made last have not ended, and more of them than are looked at.
    let [latest, deep] = checked("jobs_page_of_owner", "'ada'", ANY, 500_000).map(|asked| {
        let params = asked.params.strip_suffix("NULL").map(|params| format!("{params}'timeout'"));
        Asked { params: params.expect("no reason is asked for"), ..asked }
    });
    lists.extend([latest.in_vain(), deep]);
    for (scan, key) in [
        ("scan_jobs", ""),
        ("scan_runs", ""),
        ("scan_queue", ""),
        ("scan_running", ""),
        ("scan_delayed", ""),
        ("scan_runs_not_completed", ", 'failed'"),
        ("scan_runs_of_error", ", 'timeout'"),
        ("scan_jobs_of_owner", ", 'ada'"),
        ("scan_jobs_of_schedule", ", busy_of(7)"),
    ] {
        let last = format!("{}, {}, 1{key}", id(2_000_000), SCAN_MAX - 1);
        lists.push(page(scan, last).with_some().checked());
    }
    lists.push(page("jobs_after", format!("{}, {PAGE}", id(500_000))));
    lists.push(page("ended_after", format!("at_of(500000), {}, {PAGE}", id(500_000))));
    lists.push(page("schedule_jobs_page", format!("{busy}, {}, {PAGE}", id(500_000))));
    lists
}

fn lists_of_schedules() -> Vec<Asked> {
    let mut lists = Vec::new();
    for after in ["''", "'s5'"] {
        lists.push(page("schedules_page", format!("{after}, {PAGE}")));
        // Owner, enabled, text, failing, queue, label and its value.
        for (filter, vain) in [
            ("NULL, NULL, NULL, NULL, NULL", false),
            ("true, NULL, NULL, NULL, NULL", false),
            ("false, NULL, NULL, NULL, NULL", true),
            ("NULL, 'nobody', NULL, NULL, NULL", true),
            ("NULL, NULL, true, NULL, NULL", true),
            ("NULL, NULL, NULL, 'nowhere', NULL", true),
            ("NULL, NULL, NULL, NULL, 'none'", true),
        ] {
            for (statement, owner) in [("schedules_filtered", "NULL"), ("schedules_filtered_of_owner", "'ada'")] {
                let asked = page(statement, format!("{after}, {SCAN_MAX}, 0, {owner}, {filter}, NULL, {PAGE}"));
                lists.push(if vain { asked.in_vain() } else { asked });
            }
        }
    }
    lists.push(page("scan_schedules", format!("'', 1, {}, NULL", SCAN_MAX - 1)).with_some().checked());
    lists.push(page("scan_schedules_of_owner", "'', 1, 1000, 'ada'").with_some().checked());
    lists.push(page("next_schedules", format!("{SCAN_MAX}, NULL, {PAGE}")));
    lists.push(page("next_schedules", format!("{SCAN_MAX}, 'ada', {PAGE}")).checked());
    lists.push(page("next_schedules", format!("{SCAN_MAX}, 'nobody', {PAGE}")).in_vain());
    // Schedules that have so many jobs behind them that have not ended.
    let busy = "ARRAY[busy_of(1), busy_of(2), busy_of(3), busy_of(4), busy_of(5)]";
    let recent = page("recent_runs", format!("{busy}, 20, 3000"));
    lists.push(Asked { reads: 5 * (3_000 + 20), ..recent.with_some() });
    let ids: Vec<String> = (1..=PAGE).map(|row| id(row * 20_000)).collect();
    lists.push(page("jobs_with_places", format!("ARRAY[{}]", ids.join(","))));
    lists.push(page("schedule_names", format!("ARRAY[{}]", (1..=PAGE).map(id).collect::<Vec<_>>().join(","))));
    lists.push(page("slots_page", format!("busy_of(7), 'infinity', {PAGE}")));
    lists.push(page("slots_page", format!("busy_of(7), at_of(500000), {PAGE}")));
    // Beside the page, a thousand rows are looked at for a range that reaches into it.
    for until in ["'infinity'", "at_of(500000)"] {
        let between = page("slots_page_between", format!("busy_of(7), {until}, at_of(200000), {PAGE}"));
        lists.push(Asked { reads: 1_000 + 60, ..between });
    }
    lists
}

fn other_lists() -> Vec<Asked> {
    let deep = "0, 1105000 * 1048576::bigint, at_of(1105000), id_of(1105000)";
    vec![
        page("queue_page", format!("'q1', 2147483647, 0, 'epoch', {}, {PAGE}", id(0))),
        page("queue_page", format!("'q1', {deep}, {PAGE}")),
        page("queues_page", format!("'', NULL, {PAGE}, {}, NULL", COUNT_MAX + 1)).counted(4),
        page("queues_page", format!("'q5', NULL, {PAGE}, {}, NULL", COUNT_MAX + 1)),
        page("queues_page", format!("'', 'q1', 1, {}, NULL", COUNT_MAX + 1)).counted(2),
        page("running_figures", (COUNT_MAX + 1).to_string()).counted(2),
        page("ended_figures", format!("'epoch', {}", COUNT_MAX + 1)).counted(1),
        page("stats", "").counted(8),
        // The runs and their jobs, and none beside them.
        Asked { reads: 2_100, ..page("run_series", "at_of(500000), at_of(501000), 60000000").with_some() },
        page("nodes_page", format!("{}, {PAGE}", id(2_000_000))),
        page("nodes_page", format!("{}, {PAGE}", id(50_000))),
        page("nodes_page_alive", format!("{}, {PAGE}", id(2_000_000))).with_some().counted(1),
        page("templates_page", format!("'', {PAGE}")),
        page("templates_page", format!("'t5', {PAGE}")),
        page("calendars_page", format!("'', {PAGE}")),
        page("calendars_page", format!("'c5', {PAGE}")),
        page("flows_page", format!("'', {PAGE}")),
        page("flows_page", format!("'f5', {PAGE}")),
        page("flows_page_of_owner", format!("'ada', '', {PAGE}")),
        page("flows_page_of_owner", format!("'ada', 'f5', {PAGE}")),
        page("managed_page", format!("'', '', {PAGE}")),
        page("managed_page", format!("'schedule', 'm5', {PAGE}")),
        page("managed_page_of_owner", format!("'ada', '', '', {PAGE}")),
        page("managed_page_of_owner", format!("'ada', 'schedule', 'm5', {PAGE}")),
        page("flow_items_page", format!("{}, 0, -1, {PAGE}", id(7))),
        page("flow_items_page", format!("{}, 1, 50000, {PAGE}", id(7))),
        page("tokens_page", format!("{}, {PAGE}", id(2_000_000))),
        page("tokens_page", format!("{}, {PAGE}", id(50_000))),
        page("audit_page", format!("{}, {PAGE}", id(2_000_000))),
        page("audit_page", format!("{}, {PAGE}", id(500_000))),
        page("audit_page_of_subject", format!("{}, {PAGE}, 'schedule:7'", id(2_000_000))),
        page("audit_page_of_subject", format!("{}, {PAGE}, 'schedule:7'", id(500_000))),
        page("audit_after", format!("{}, {PAGE}", id(500_000))),
    ]
}

fn lists_of_notifications() -> Vec<Asked> {
    let (latest, deep) = (id(2_000_000), id(50_000));
    vec![
        page("alerts_page", format!("{latest}, false, {PAGE}")),
        page("alerts_page", format!("{deep}, true, {PAGE}")),
        page("alerts_page_of_rule", format!("{latest}, false, {PAGE}, 'r7'")),
        page("alerts_page_of_rule", format!("{deep}, true, {PAGE}, 'r7'")),
        page("alerts_page_open", format!("{latest}, NULL, {PAGE}")),
        page("alerts_page_open", format!("{latest}, 'r7', {PAGE}")).with_some().checked(),
        page("notices_after", format!("{deep}, {PAGE}")),
        page("deliveries_page", format!("{latest}, {PAGE}")),
        page("deliveries_page_of_state", format!("{latest}, {PAGE}, 'failed'")),
        page("deliveries_page_of_channel", format!("{deep}, {PAGE}, 'c7'")),
        page("deliveries_page_of_line", format!("{deep}, {PAGE}, 'arrived', 'c7'")),
        page("deliveries_page_of_alert", format!("{latest}, {PAGE}, {}", id(500))).with_some(),
    ]
}

/// Whether a statement reads a list or a figure for people.
fn is_list(name: &str) -> bool {
    // A run's log is short by nature, and the second is the engine's own.
    let others = ["log_page", "reconcile_page"];
    let figures = name.ends_with("_figures") || name == "stats" || name == "next_schedules";
    let pages = name.ends_with("_page") || name.contains("_page_") || name.contains("_filtered");
    (figures || pages || name.starts_with("scan_") || name.ends_with("_after")) && !others.contains(&name)
}

/// What carrying out a plan took.
#[derive(Debug, Default)]
struct Cost {
    read: f64,
    /// The most rows that were sorted at once.
    sorted: f64,
    /// Tables that were read from their beginning.
    scanned: Vec<String>,
}

impl Cost {
    fn of(plan: &Value) -> Self {
        let mut cost = Self::default();
        cost.add(plan);
        cost
    }

    fn add(&mut self, node: &Value) {
        let number = |field: &str| node[field].as_f64().unwrap_or(0.0);
        let kind = node["Node Type"].as_str().unwrap_or_default();
        let loops = number("Actual Loops");
        let removed = number("Rows Removed by Filter") + number("Rows Removed by Index Recheck");
        if let Some(table) = node["Relation Name"].as_str() {
            let read = (number("Actual Rows") + removed) * loops;
            // Queues, lanes and leases are few by nature; they are read in any way that is quick.
            let few = ["lanes", "queues", "leases", "reservations"].contains(&table);
            if !few {
                self.read += read;
            }
            if kind == "Seq Scan" && read > 0.0 && !few {
                self.scanned.push(table.to_owned());
            }
        }
        for child in node["Plans"].as_array().into_iter().flatten() {
            if kind.ends_with("Sort") {
                self.sorted = self.sorted.max(child["Actual Rows"].as_f64().unwrap_or(0.0));
            }
            self.add(child);
        }
    }
}

fn statement(name: &str) -> &'static str {
    sql::ALL.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no statement {name}")).1
}

async fn prepare(client: &Client, name: &str) {
    // Not every page of jobs looks at the fourth, so that its type must be told.
    let types = match name.strip_prefix("jobs_page") {
        Some("_of_schedule") => "(uuid, bigint, bigint, uuid)",
        Some(_) => "(uuid, bigint, bigint, text)",
        None => "",
    };
    let prepared = client.batch_execute(&format!("PREPARE list {types} AS {}", statement(name))).await;
    prepared.unwrap_or_else(|error| panic!("{name}: {error:?}"));
}

/// Carries a list out, and says what it took and how many rows came.
async fn carry_out(client: &Client, asked: &Asked) -> (Value, Cost, f64) {
    let explain = format!("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {}", asked.execute());
    let answer = client.simple_query(&explain).await;
    let answer = answer.unwrap_or_else(|error| panic!("{}({}): {error:?}", asked.statement, asked.params));
    let mut text = String::new();
    for message in &answer {
        if let SimpleQueryMessage::Row(row) = message {
            writeln!(text, "{}", row.get(0).unwrap_or_default()).unwrap();
        }
    }
    let explained: Value = serde_json::from_str(&text).unwrap();
    let plan = explained[0]["Plan"].clone();
    let (cost, rows) = (Cost::of(&plan), plan["Actual Rows"].as_f64().unwrap_or(0.0));
    (plan, cost, rows)
}

/// What is wrong with how a list was read.
fn judge(asked: &Asked, cost: &Cost, rows: f64) -> Vec<String> {
    let mut wrong = Vec::new();
    let page = f64::from(PAGE);
    let right = match asked.returns {
        Returns::Page => (rows - page).abs() < 0.5,
        Returns::Some => rows >= 1.0,
        Returns::Nothing => rows == 0.0,
    };
    if !right {
        wrong.push(format!("{rows} rows came"));
    }
    if !cost.scanned.is_empty() {
        wrong.push(format!("tables were scanned: {:?}", cost.scanned));
    }
    let reads = u32::try_from(asked.reads).map_or(f64::MAX, f64::from);
    if cost.read > reads {
        wrong.push(format!("{} rows were read, and {reads} are enough", cost.read));
    }
    // The heads of the lanes of one queue are merged.
    let sorts = if asked.statement == "queue_page" { page * 8.0 } else { page };
    if cost.sorted > sorts && !matches!(asked.returns, Returns::Some) {
        wrong.push(format!("{} rows were sorted", cost.sorted));
    }
    wrong
}

#[test]
fn b10_every_list_is_a_range_of_an_index_at_a_million_rows() {
    block_on(async {
        let database = Database::empty().await;
        // The ledgers in weekly partitions, as they are outside of tests.
        let options = PostgresOptions { clock: Some(Arc::new(VirtualClock::new())), ..PostgresOptions::default() };
        let _store = PostgresStore::connect(&database.url(), options).await.unwrap();
        let client = database.connect().await;
        client.batch_execute(FILL).await.unwrap();
        for name in ["stats", "nodes_page", "nodes_page_alive"] {
            let bound = format!("LIMIT {})", COUNT_MAX + 1);
            assert!(statement(name).contains(&bound), "{name} counts up to where counting stops");
        }
        let mut lists = lists_of_jobs();
        lists.extend(lists_of_schedules());
        lists.extend(other_lists());
        lists.extend(lists_of_notifications());
        let covered: BTreeSet<_> = lists.iter().map(|asked| asked.statement).collect();
        let forgotten: Vec<_> =
            sql::ALL.iter().map(|(name, _)| *name).filter(|name| is_list(name) && !covered.contains(name)).collect();
        assert!(forgotten.is_empty(), "{forgotten:?} are not asked for here");
        let mut bad = String::new();
        // As a pooler's connections are, which plan every statement anew; and as the store's own.
        for settings in ["SET plan_cache_mode = force_custom_plan", &own_settings()] {
            client.batch_execute(settings).await.unwrap();
            for name in &covered {
                prepare(&client, name).await;
                for asked in lists.iter().filter(|asked| asked.statement == *name) {
                    let (plan, cost, rows) = carry_out(&client, asked).await;
                    for wrong in judge(asked, &cost, rows) {
                        writeln!(bad, "{settings} {name}({}): {wrong}\n{plan:#}", asked.params).unwrap();
                    }
                }
                client.batch_execute("DEALLOCATE list").await.unwrap();
            }
        }
        assert!(bad.is_empty(), "{bad}");
    });
}
