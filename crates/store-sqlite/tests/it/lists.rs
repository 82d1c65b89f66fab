//! How lists are read at a million rows: ranges of indexes from where the last page ended, whatever the filter and
//! however deep the page, and no figure counts a big table (B10).

use punctual_core::readings::{COUNT_MAX, SCAN_MAX};
use punctual_store_sqlite::{SqliteOptions, SqliteStore, sql};
use punctual_testkit::harness::fast_folder;
use rusqlite::types::Value;
use rusqlite::{Connection, StatementStatus, params_from_iter};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A million jobs that have ended, two hundred thousand in queues, fifty thousand delayed, ten thousand running; a
/// million rows of the slot ledger and of the audit log; a hundred thousand of everything else that lists show.
const FILL: &str = include_str!("lists.sql");

/// One row more than a page holds.
const PAGE: i64 = 51;

/// The most steps of the virtual machine for each row that may be looked at; a row that is read past takes three.
const STEPS: i64 = 150;

/// A list as somebody asks for it.
struct Asked {
    statement: &'static str,
    params: Vec<Value>,
    returns: Returns,
    /// How many rows may be looked at.
    looks_at: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Returns {
    Page,
    Some,
    Nothing,
}

fn page(statement: &'static str, params: Vec<Value>) -> Asked {
    Asked { statement, params, returns: Returns::Page, looks_at: 2 * PAGE }
}

impl Asked {
    /// A filter that is checked row by row.
    fn checked(self) -> Self {
        Self { looks_at: scan(), ..self }
    }

    /// One that lets nothing pass.
    fn in_vain(self) -> Self {
        Self { returns: Returns::Nothing, ..self.checked() }
    }

    fn with_some(self) -> Self {
        Self { returns: Returns::Some, ..self }
    }

    fn counted(self, counts: i64) -> Self {
        Self { looks_at: counts * bound(), returns: Returns::Some, ..self }
    }
}

fn scan() -> i64 {
    i64::try_from(SCAN_MAX).unwrap()
}

fn bound() -> i64 {
    i64::try_from(COUNT_MAX + 1).unwrap()
}

/// The id of a row of the fixture.
fn id(row: i64) -> Value {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&(1_772_323_200_000 + row * 1000).to_be_bytes()[2..]);
    bytes[6..10].copy_from_slice(&[0x70, 0, 0x80, 0]);
    bytes[10..].copy_from_slice(&row.to_be_bytes()[2..]);
    bytes.to_vec().into()
}

fn at(row: i64) -> Value {
    ((1_772_323_200_000 + row * 1000) * 1000).into()
}

/// A schedule that many jobs and slots are of.
fn busy() -> Value {
    7u128.to_be_bytes().to_vec().into()
}

fn text(text: &str) -> Value {
    text.to_owned().into()
}

const NULL: Value = Value::Null;

/// Queue, job type, owner, tag and place.
type Filter = [Value; 5];

fn any() -> Filter {
    [NULL; 5]
}

fn in_place(word: &str) -> Filter {
    [NULL, NULL, NULL, NULL, text(word)]
}

/// The first page of a list of jobs, and one far down, by a filter.
fn jobs(statement: &'static str, key: &Value, filter: &Filter, deep: i64) -> [Asked; 2] {
    jobs_among(PAGE, statement, key, filter, deep)
}

/// The same by a filter that is checked row by row.
fn checked(statement: &'static str, key: &Value, filter: &Filter, deep: i64) -> [Asked; 2] {
    jobs_among(scan(), statement, key, filter, deep).map(Asked::checked)
}

/// The same by a filter that lets nothing pass.
fn in_vain(statement: &'static str, key: &Value, filter: &Filter, deep: i64) -> [Asked; 2] {
    checked(statement, key, filter, deep).map(Asked::in_vain)
}

fn jobs_among(look_at: i64, statement: &'static str, key: &Value, filter: &Filter, deep: i64) -> [Asked; 2] {
    [id(2_000_000), id(deep)].map(|before| {
        let mut params = vec![before, id(0), look_at.into(), 0.into(), key.clone()];
        params.extend(filter.iter().cloned());
        params.extend([PAGE.into(), NULL]);
        page(statement, params)
    })
}

/// What failed for one reason, by the index made for it and checked row by row.
fn jobs_of_error() -> Vec<Asked> {
    let of_error = |code: &str| jobs("jobs_page_runs_of_error", &text(code), &any(), 500_000);
    let mut lists: Vec<Asked> = of_error("timeout").into_iter().chain(of_error("cancelled")).collect();
    // Hers that were made last have not ended, and more of them than are looked at.
    let [latest, mut deep] = checked("jobs_page_of_owner", &text("ada"), &any(), 500_000);
    deep.params[11] = text("timeout");
    let mut in_vain = latest.in_vain();
    in_vain.params[11] = text("timeout");
    lists.extend([in_vain, deep]);
    lists
}

fn lists_of_jobs() -> Vec<Asked> {
    let mut lists = Vec::new();
    let ada = text("ada");
    lists.extend(jobs("jobs_page", &NULL, &any(), 500_000));
    lists.extend(jobs("jobs_page_runs", &NULL, &in_place("ended"), 500_000));
    lists.extend(jobs("jobs_page_runs_not_completed", &text("failed"), &in_place("failed"), 500_000));
    lists.extend(jobs("jobs_page_queue", &NULL, &in_place("queued"), 1_100_000));
    lists.extend(jobs("jobs_page_running", &NULL, &in_place("running"), 1_255_000));
    lists.extend(jobs("jobs_page_of_schedule", &busy(), &any(), 500_000));
    lists.extend(jobs("jobs_page_of_owner", &ada, &[NULL, NULL, ada.clone(), NULL, NULL], 500_000));
    // What no index leads to: many have it, or nobody.
    lists.extend(checked("jobs_page_runs", &NULL, &in_place("completed"), 500_000));
    lists.extend(checked("jobs_page_delayed", &NULL, &in_place("scheduled"), 1_225_000));
    lists.extend(checked("jobs_page_delayed", &NULL, &in_place("waiting"), 1_225_000));
    lists.extend(checked("jobs_page", &NULL, &[text("q1"), NULL, NULL, NULL, NULL], 500_000));
    for filter in [
        [text("nowhere"), NULL, NULL, NULL, NULL],
        [NULL, text("task:none"), NULL, NULL, NULL],
        [NULL, NULL, NULL, text("none"), NULL],
    ] {
        lists.extend(in_vain("jobs_page", &NULL, &filter, 500_000));
        lists.extend(in_vain("jobs_page_queue", &NULL, &filter, 1_100_000));
        lists.extend(in_vain("jobs_page_of_owner", &ada, &filter, 500_000));
        lists.extend(in_vain("jobs_page_of_schedule", &busy(), &filter, 500_000));
    }
    lists.extend(in_vain("jobs_page_of_owner", &ada, &in_place("cancelled"), 500_000));
    lists.extend(in_vain("jobs_page_runs_not_completed", &text("skipped"), &in_place("skipped"), 500_000));
    lists.extend(jobs_of_error());
    for (statement, key) in [
        ("scan_jobs", None),
        ("scan_runs", None),
        ("scan_queue", None),
        ("scan_running", None),
        ("scan_delayed", None),
        ("scan_runs_not_completed", Some(text("failed"))),
        ("scan_runs_of_error", Some(text("timeout"))),
        ("scan_jobs_of_owner", Some(ada)),
        ("scan_jobs_of_schedule", Some(busy())),
    ] {
        let mut last = vec![id(2_000_000), id(0), 1.into(), (scan() - 1).into()];
        last.extend(key);
        lists.push(page(statement, last).with_some().checked());
    }
    lists.push(page("jobs_after", vec![id(500_000), PAGE.into()]));
    lists.push(page("ended_after", vec![at(500_000), id(500_000), PAGE.into()]));
    lists.push(page("schedule_jobs_page", vec![busy(), id(500_000), PAGE.into()]));
    lists
}

fn lists_of_schedules() -> Vec<Asked> {
    let mut lists = Vec::new();
    for after in ["", "s5"] {
        lists.push(page("schedules_page", vec![text(after), PAGE.into()]));
        // Enabled, text, failing, queue, label and its value.
        for (filter, vain) in [
            ([NULL, NULL, NULL, NULL, NULL, NULL], false),
            ([true.into(), NULL, NULL, NULL, NULL, NULL], false),
            ([false.into(), NULL, NULL, NULL, NULL, NULL], true),
            ([NULL, text("nobody"), NULL, NULL, NULL, NULL], true),
            ([NULL, NULL, true.into(), NULL, NULL, NULL], true),
            ([NULL, NULL, NULL, text("nowhere"), NULL, NULL], true),
            ([NULL, NULL, NULL, NULL, text("none"), NULL], true),
        ] {
            for (statement, owner) in [("schedules_filtered", NULL), ("schedules_filtered_of_owner", text("ada"))] {
                let mut params = vec![text(after), scan().into(), 0.into(), owner];
                params.extend(filter.iter().cloned());
                params.push(PAGE.into());
                let asked = page(statement, params);
                lists.push(if vain { asked.in_vain() } else { asked });
            }
        }
    }
    let last = |passed: i64, owner| vec![text(""), 1.into(), passed.into(), owner];
    lists.push(page("scan_schedules", last(scan() - 1, NULL)).with_some().checked());
    lists.push(page("scan_schedules_of_owner", last(1000, text("ada"))).with_some().checked());
    lists.push(page("next_schedules", vec![scan().into(), NULL, PAGE.into()]));
    lists.push(page("next_schedules", vec![scan().into(), text("ada"), PAGE.into()]).checked());
    lists.push(page("next_schedules", vec![scan().into(), text("nobody"), PAGE.into()]).in_vain());
    lists.push(recent_runs());
    lists.push(page("slots_page", vec![busy(), i64::MAX.into(), PAGE.into()]));
    lists.push(page("slots_page", vec![busy(), at(50_000), PAGE.into()]));
    // Beside the page, a thousand rows are looked at for a range that reaches into it.
    let between = |from, until| vec![busy(), until, from, PAGE.into()];
    for (from, until) in [(at(20_000), i64::MAX.into()), (at(20_000), at(50_000))] {
        lists.push(Asked { looks_at: 1_000 + 2 * PAGE, ..page("slots_page_between", between(from, until)) });
    }
    lists
}

/// The last runs of schedules that have so many jobs behind them that have not ended.
fn recent_runs() -> Asked {
    let ids: Vec<String> = (0..5).map(|schedule| format!("\"{schedule:032x}\"")).collect();
    let look = 3_000;
    let params = vec![text(&format!("[{}]", ids.join(","))), 20.into(), look.into()];
    Asked { looks_at: 5 * look, ..page("recent_runs", params) }.with_some()
}

fn other_lists() -> Vec<Asked> {
    let place = |priority: i64, row: i64| {
        vec![1.into(), priority.into(), (row * 1_048_576).into(), at(row), id(row), PAGE.into()]
    };
    vec![
        page("lane_page", place(i64::from(i32::MAX), 0)),
        page("lane_page", place(0, 1_105_000)),
        page("queues_page", vec![text(""), PAGE.into()]),
        page("queues_page", vec![text("q5"), PAGE.into()]),
        page("queue_figures", vec![text("q1"), bound().into()]).counted(1),
        page("running_figures", vec![bound().into()]).counted(1),
        page("ended_figures", vec![0.into(), bound().into()]).counted(1),
        page("stats", vec![bound().into()]).counted(7),
        Asked { looks_at: 1_001, ..page("run_series", vec![at(500_000), at(501_000)]) }.with_some(),
        page("nodes_page", vec![id(2_000_000), PAGE.into(), bound().into()]),
        page("nodes_page", vec![id(50_000), PAGE.into(), bound().into()]),
        page("nodes_page_alive", vec![id(2_000_000), PAGE.into(), bound().into()]).counted(1),
        page("templates_page", vec![text(""), PAGE.into()]),
        page("templates_page", vec![text("t5"), PAGE.into()]),
        page("calendars_page", vec![text(""), PAGE.into()]),
        page("calendars_page", vec![text("c5"), PAGE.into()]),
        page("flows_page", vec![text(""), PAGE.into()]),
        page("flows_page", vec![text("f5"), PAGE.into()]),
        page("flows_page_of_owner", vec![text("ada"), text(""), PAGE.into()]),
        page("flows_page_of_owner", vec![text("ada"), text("f5"), PAGE.into()]),
        page("managed_page", vec![text(""), text(""), PAGE.into()]),
        page("managed_page", vec![text("schedule"), text("m5"), PAGE.into()]),
        page("managed_page_of_owner", vec![text("ada"), text(""), text(""), PAGE.into()]),
        page("managed_page_of_owner", vec![text("ada"), text("schedule"), text("m5"), PAGE.into()]),
        page("flow_items_page", vec![seventh(), 0.into(), (-1).into(), PAGE.into()]),
        page("flow_items_page", vec![seventh(), 1.into(), 50_000.into(), PAGE.into()]),
        page("tokens_page", vec![id(2_000_000), PAGE.into()]),
        page("tokens_page", vec![id(50_000), PAGE.into()]),
        page("audit_page", vec![id(2_000_000), PAGE.into()]),
        page("audit_page", vec![id(500_000), PAGE.into()]),
        page("audit_page_of_subject", vec![id(2_000_000), PAGE.into(), text("schedule:7")]),
        page("audit_page_of_subject", vec![id(500_000), PAGE.into(), text("schedule:7")]),
        page("audit_after", vec![id(500_000), PAGE.into()]),
    ]
}

fn lists_of_notifications() -> Vec<Asked> {
    vec![
        page("alerts_page", vec![id(2_000_000), 0.into(), PAGE.into()]),
        page("alerts_page", vec![id(50_000), 1.into(), PAGE.into()]),
        page("alerts_page_of_rule", vec![id(2_000_000), 0.into(), PAGE.into(), text("r7")]),
        page("alerts_page_of_rule", vec![id(50_000), 1.into(), PAGE.into(), text("r7")]),
        page("alerts_page_open", vec![id(2_000_000), NULL, PAGE.into()]),
        page("alerts_page_open", vec![id(2_000_000), text("r7"), PAGE.into()]).with_some().checked(),
        page("notices_after", vec![id(50_000), PAGE.into()]),
        page("deliveries_page", vec![id(2_000_000), PAGE.into()]),
        page("deliveries_page_of_state", vec![id(2_000_000), PAGE.into(), text("failed")]),
        page("deliveries_page_of_channel", vec![id(50_000), PAGE.into(), text("c7")]),
        page("deliveries_page_of_line", vec![id(50_000), PAGE.into(), text("arrived"), text("c7")]),
        page("deliveries_page_of_alert", vec![id(2_000_000), PAGE.into(), id(500)]).with_some(),
    ]
}

/// The flow whose items are listed.
fn seventh() -> Value {
    let mut id = vec![0; 16];
    id[15] = 7;
    Value::Blob(id)
}

/// Whether a statement reads a list or a figure for people.
fn is_list(name: &str) -> bool {
    // A run's log is short by nature, and the second is the engine's own.
    let others = ["log_page", "reconcile_page"];
    let figures = name.ends_with("_figures") || name == "stats" || name == "next_schedules";
    let pages = name.ends_with("_page") || name.contains("_page_") || name.contains("_filtered");
    (figures || pages || name.starts_with("scan_") || name.ends_with("_after")) && !others.contains(&name)
}

/// Carries a list out, and says what is wrong with how it was read.
fn judge(connection: &Connection, asked: &Asked) -> Vec<String> {
    let known = sql::ALL.iter().find(|(name, _)| *name == asked.statement);
    let text = known.unwrap_or_else(|| panic!("no statement {}", asked.statement)).1;
    let mut statement = connection.prepare(text).unwrap();
    let found = statement.query_map(params_from_iter(asked.params.iter()), |_| Ok(()));
    let rows = i64::try_from(found.unwrap_or_else(|error| panic!("{}: {error}", asked.statement)).count()).unwrap();
    let status = |which| i64::from(statement.get_status(which));
    let mut wrong = Vec::new();
    let right = match asked.returns {
        Returns::Page => rows == PAGE,
        Returns::Some => rows >= 1,
        Returns::Nothing => rows == 0,
    };
    if !right {
        wrong.push(format!("{rows} rows came"));
    }
    let (steps, enough) = (status(StatementStatus::VmStep), asked.looks_at * STEPS);
    if steps > enough {
        wrong.push(format!("{steps} steps were taken, and {enough} are enough"));
    }
    let scanned = status(StatementStatus::FullscanStep);
    if scanned > asked.looks_at {
        wrong.push(format!("{scanned} rows were scanned"));
    }
    // A figure puts what it counted into a few groups; a page is read in its order.
    if status(StatementStatus::Sort) > 0 && asked.returns != Returns::Some {
        wrong.push("the rows were sorted".to_owned());
    }
    wrong
}

#[test]
fn b10_every_list_is_a_range_of_an_index_at_a_million_rows() {
    let folder = tempfile::tempdir_in(fast_folder()).unwrap();
    let path = folder.path().join("lists.db");
    drop(SqliteStore::open(&path, SqliteOptions::default()).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(FILL).unwrap();
    let mut lists = lists_of_jobs();
    lists.extend(lists_of_schedules());
    lists.extend(other_lists());
    lists.extend(lists_of_notifications());
    let covered: BTreeSet<_> = lists.iter().map(|asked| asked.statement).collect();
    let forgotten: Vec<_> =
        sql::ALL.iter().map(|(name, _)| *name).filter(|name| is_list(name) && !covered.contains(name)).collect();
    assert!(forgotten.is_empty(), "{forgotten:?} are not asked for here");
    let mut bad = String::new();
    for asked in &lists {
        for wrong in judge(&connection, asked) {
            writeln!(bad, "{}{:?}: {wrong}", asked.statement, asked.params).unwrap();
        }
    }
    assert!(bad.is_empty(), "{bad}");
}
