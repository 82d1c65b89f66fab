//! How long the lists of the API take when there are a million of what they show.

use crate::figures::{median, percentile};
use crate::http::Server;
use crate::http_client::Connection;
use crate::load::Outcome;
use crate::report::{Cell, Plot, Strip, Strips, Table, Tone, spelled};
use punctual_testkit::postgres::Database;
use serde_json::Value;
use std::time::Instant;

/// How often each is asked for.
const TIMES: usize = 100;

/// How many pages are passed to get far down.
const DOWN: usize = 10;

/// What the rarest list needs to go that far down, by pages of 500: one job in a hundred failed.
pub const LEAST_ROWS: i64 = 600_000;

/// Fills the tables that lists are read from. One job a second until now, so that cursors lead far down; a hundred
/// schedules share them, one in a hundred failed.
const FILL: [(&str, &str); 5] = [
    (
        "schedules",
        "INSERT INTO punctual_internal.schedules (id, name, cron, target, seed, anchor_at, created_at, updated_at)
         SELECT gen_random_uuid(), 'list ' || n, '0 3 * * *', '{\"kind\":\"task\",\"name\":\"noop\"}', 's', now(), now(), now()
         FROM generate_series(1, $1::bigint / 10) AS n",
    ),
    (
        "plans",
        "INSERT INTO punctual_internal.schedule_state (schedule_id, next_slot_at, next_run_at)
         SELECT id, now() + interval '1 day', now() + interval '1 day' FROM punctual_internal.schedules LIMIT $1::bigint",
    ),
    (
        "jobs",
        "INSERT INTO punctual_internal.jobs (id, created_at, lane_id, priority, target, input, retry, timeout_us, trigger,
                                             schedule_id)
         SELECT (left(punctual_internal.id_prefix(at), 12) || '70008000' || lpad(to_hex(n), 12, '0'))::uuid, at,
                (SELECT min(id) FROM punctual_internal.lanes), 0, '{\"kind\":\"task\",\"name\":\"noop\"}', '{}', '{}',
                3600000000, 'schedule', s.ids[1 + n % 100]
         FROM (SELECT array_agg(id) AS ids FROM (SELECT id FROM punctual_internal.schedules ORDER BY name LIMIT 100) AS s) AS s,
              generate_series(1, $1::bigint) AS n, LATERAL (SELECT now() - n * interval '1 second') AS t (at)",
    ),
    (
        "runs",
        "INSERT INTO punctual_internal.runs (job_id, started_at, finished_at, final, outcome, error_code)
         SELECT id, created_at, created_at, true, CASE WHEN n % 100 = 0 THEN 'failed' ELSE 'completed' END,
                CASE WHEN n % 100 = 0 THEN 'timeout' END
         FROM (SELECT id, created_at, row_number() OVER () AS n FROM punctual_internal.jobs
               WHERE schedule_id IS NOT NULL LIMIT $1::bigint) AS j",
    ),
    (
        "audit",
        "INSERT INTO punctual_internal.audit_log (id, at, actor, action, subject)
         SELECT (left(punctual_internal.id_prefix(at), 12) || '70008000' || lpad(to_hex(n), 12, '0'))::uuid, at, 'ada',
                'schedule.pause', 'schedule:' || n % 100
         FROM generate_series(1, $1::bigint) AS n, LATERAL (SELECT now() - n * interval '1 second') AS t (at)",
    ),
];

/// What is asked for. A list that is marked is also asked for from a cursor far down.
const LISTS: [(&str, bool); 21] = [
    ("/session", false),
    ("/jobs", true),
    ("/jobs?state=queued", true),
    ("/jobs?state=failed", true),
    ("/jobs?tag=nobody", false),
    ("/runs", true),
    ("/schedules", true),
    ("/schedules?q=nobody", false),
    ("/schedules?order=next_run", false),
    ("/schedules/list%201/runs", true),
    ("/queues", false),
    ("/queues/default/jobs", true),
    ("/audit", true),
    ("/audit?subject=schedule:7", true),
    ("/stats", false),
    // What the pages of the dashboard ask for beside.
    ("/schedules?recent=20", true),
    ("/jobs?error_code=timeout", true),
    ("/schedules/list%201/slots", false),
    ("/stats/series?window=1h", false),
    ("/stats/series?window=24h", false),
    ("/stats/series?window=7d", false),
];

/// Fills the database and measures every list.
pub async fn measure(database: &Database, server: &Server, rows: i64) -> Outcome<(Table, Plot)> {
    let client = database.connect().await;
    for (what, sql) in FILL {
        client.execute(sql, &[&rows]).await.map_err(|error| format!("fill the {what}: {error:?}"))?;
    }
    client.batch_execute("ANALYZE").await?;
    let mut connection = Connection::open(server.address, &server.token).await?;
    let nothing = median(&times(&mut connection, LISTS[0].0).await?);
    let rows = spelled(f64::from(u32::try_from(rows)?), 0);
    let words = format!(
        "Lists at {rows} jobs, runs and rows of the audit log, pages of 50; the reference is a request that reads nothing, \
         {nothing:.2} ms."
    );
    let mut table = Table::new(&words, ["list", "p50 ms", "p99 ms", "p50 / reference"]);
    let mut strips = Vec::new();
    let mut line = |what: &str, times: &[f64]| {
        let (p50, p99) = (median(times), percentile(times, 99));
        let numbers = [Cell::number(p50, 2), Cell::number(p99, 2), Cell::number(p50 / nothing, 1)];
        table.row(std::iter::once(Cell::words(what)).chain(numbers));
        strips.push(Strip::new(what, Tone::Ours, (p50, p99), None));
    };
    for (path, is_deep) in LISTS {
        line(path, &times(&mut connection, path).await?);
        if is_deep {
            let deep = far_down(&mut connection, path).await?;
            line(&format!("{path}, after {DOWN} pages of 500"), &times(&mut connection, &deep).await?);
        }
    }
    let (title, unit) = (format!("Lists at {rows} rows"), "ms".to_owned());
    Ok((table, Plot::Strips(Strips { title, unit, digits: 2, rows: strips, marks: Vec::new() })))
}

async fn times(connection: &mut Connection, path: &str) -> Outcome<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        get(connection, path).await?;
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(times)
}

async fn get(connection: &mut Connection, path: &str) -> Outcome<Value> {
    let (status, body) = connection.ask("GET", &format!("/api/v1{path}"), "").await?;
    if status != 200 {
        return Err(format!("{path}: {status} {body}").into());
    }
    Ok(serde_json::from_str(&body)?)
}

/// Goes down a list in large steps, and says how to ask for a page there.
async fn far_down(connection: &mut Connection, path: &str) -> Outcome<String> {
    let and = if path.contains('?') { '&' } else { '?' };
    let mut cursor = None;
    for _ in 0..DOWN {
        let from = cursor.map(|cursor: String| format!("&cursor={cursor}")).unwrap_or_default();
        let page = get(connection, &format!("{path}{and}limit=500{from}")).await?;
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Err(format!("{path} is too short to go far down; ask for more rows").into());
        }
    }
    Ok(format!("{path}{and}cursor={}", cursor.unwrap_or_default()))
}
