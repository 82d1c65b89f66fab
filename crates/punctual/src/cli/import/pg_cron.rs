//! Jobs of `pg_cron`: rows of `cron.job`, from a file or from the database itself.

use punctual_core::cron::{Cron, zone};
use serde_json::{Map, Value, json};

use super::reading::{Draft, Kind, Place, Reading, quoted};
use crate::cli::Stop;
use crate::cli::document::{Document, Format};

/// Where jobs of a live database really run: the address that it was reached by.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    host: Option<String>,
    port: Option<u16>,
    /// `cron.match_dom_and_dow`: both day fields must fit, where either is enough otherwise.
    both_days: bool,
}

/// One row, and where it stands.
struct Job {
    place: Place,
    columns: Map<String, Value>,
}

impl Job {
    fn text(&self, column: &str) -> Option<&str> {
        self.columns.get(column).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// A number or a truth value, which a file may hold as text.
    fn word(&self, column: &str) -> Option<String> {
        match self.columns.get(column)? {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        }
    }

    fn is_paused(&self) -> bool {
        self.word("active").is_some_and(|word| matches!(word.as_str(), "f" | "false" | "0"))
    }
}

/// Columns that are read; the others are named in the report.
const KNOWN: [&str; 9] =
    ["jobid", "schedule", "command", "nodename", "nodeport", "database", "username", "active", "jobname"];

/// Reads rows as JSON (a list of objects, or one object on each line) or as CSV with a header.
pub(super) fn read(file: &str, text: &str, timezone: Option<&str>) -> Reading {
    let mut reading = Reading::default();
    let jobs = if text.trim_start().starts_with(['[', '{']) { json_rows(file, text) } else { csv_rows(file, text) };
    match jobs {
        Ok(jobs) => all(jobs, timezone.unwrap_or("UTC"), &Reached::default(), &mut reading),
        Err((line, problem)) => reading.fault(Place::new(file, line), problem),
    }
    if let (None, Some(first)) = (timezone, reading.drafts.first()) {
        let what = "times are read in UTC, which is what pg_cron does unless cron.timezone is set";
        let place = first.place.clone();
        reading.remark(place, Kind::Note, what, "say --tz ZONE if `SHOW cron.timezone` says otherwise");
    }
    reading
}

/// Reads the rows of a live database.
#[cfg(feature = "postgres")]
pub(super) async fn live(url: &str, timezone: Option<&str>) -> Result<Reading, Stop> {
    let file = crate::cli::worker::without_password(url);
    let found = punctual_store_postgres::read_pg_cron(url).await?;
    let mut reading = Reading::default();
    let zone_name = timezone.or(found.timezone.as_deref()).unwrap_or("UTC").to_owned();
    let mut jobs = Vec::new();
    for (number, row) in found.jobs.iter().enumerate() {
        let columns = serde_json::from_str(row).map_err(|error| Stop::failure(format!("{file}: {error}")))?;
        jobs.push(Job { place: Place::new(&file, number + 1), columns });
    }
    let reached = Reached { host: found.host, port: found.port, both_days: found.both_days };
    let none = jobs.is_empty();
    all(jobs, &zone_name, &reached, &mut reading);
    let what = "pg_cron shows a role only its own jobs; lines are counted in the order of ids";
    let kind = if none { Kind::Differs } else { Kind::Note };
    reading.remark(Place::new(&file, 1), kind, what, "connect as a superuser to see all of them");
    Ok(reading)
}

#[cfg(not(feature = "postgres"))]
pub(super) async fn live(_url: &str, _timezone: Option<&str>) -> Result<Reading, Stop> {
    Err(Stop::usage("this build has no PostgreSQL; give the rows of cron.job as a file"))
}

fn all(jobs: Vec<Job>, timezone: &str, reached: &Reached, reading: &mut Reading) {
    for job in jobs {
        if let Err((kind, problem, remedy)) = draft(&job, timezone, reached).map(|draft| reading.drafts.push(draft)) {
            match kind {
                Some(kind) => reading.remark(job.place, kind, problem, remedy),
                None => reading.fault(job.place, problem),
            }
        }
    }
}

type Refused = (Option<Kind>, String, &'static str);

fn draft(job: &Job, timezone: &str, reached: &Reached) -> Result<Draft, Refused> {
    let missing = |column: &str| (None, format!("the row has no `{column}`; export all columns of cron.job"), "");
    let schedule = job.text("schedule").ok_or_else(|| missing("schedule"))?.trim();
    let command = job.text("command").ok_or_else(|| missing("command"))?;
    let id = job.word("jobid").unwrap_or_else(|| job.place.line.to_string());
    // What psql would take for one of its own commands, such as one that starts a shell, is no statement.
    if command.starts_with('\\') {
        let told = format!("{} begins with a backslash, which is no SQL and fails in pg_cron", quoted(command));
        return Err((Some(Kind::LeftOut), told, "correct the command in pg_cron, or unschedule it"));
    }
    // Names are unique for each role only.
    let name = match (job.text("jobname"), job.text("username")) {
        (Some(name), Some(user)) => format!("{user}/{name}"),
        (Some(name), None) => name.to_owned(),
        (None, _) => format!("pg_cron-{id}"),
    };
    let mut draft = Draft::new(name, job.place.clone());
    draft.identity = format!("{id} {schedule} {command} {:?} {:?}", job.text("database"), job.text("username"));
    timing(schedule, timezone, reached.both_days, &mut draft)?;
    // One instance at a time, a second one waits; downtime is forgotten; no second try, no end.
    draft.put("missed", "skip");
    draft.put("overlap", "queue_one");
    draft.put("retry", json!({ "max_attempts": 1, "max_interruptions": 0 }));
    draft.put("timeout", "none");
    if job.is_paused() {
        draft.put("paused", true);
    }
    let target = target(job, command, reached, &mut draft);
    draft.put("target", target);
    let rest: Vec<&str> = job.columns.keys().map(String::as_str).filter(|column| !KNOWN.contains(column)).collect();
    if !rest.is_empty() {
        draft.remark(Kind::Lost, format!("columns that are not known: {}", rest.join(", ")), "look them up");
    }
    Ok(draft)
}

fn timing(schedule: &str, timezone: &str, both_days: bool, draft: &mut Draft) -> Result<(), Refused> {
    let lower = schedule.to_ascii_lowercase();
    if let Some(count) = lower.strip_suffix("seconds").or_else(|| lower.strip_suffix("second")) {
        let seconds = count.trim().parse::<u32>().ok().filter(|seconds| *seconds > 0);
        let seconds = seconds.ok_or_else(|| (None, format!("{} is no number of seconds", quoted(schedule)), ""))?;
        draft.put("every", format!("{seconds}s"));
        let what = "seconds are counted from slot to slot; pg_cron counts them from the start of the last run";
        draft.remark(Kind::Note, what, "nothing");
        return Ok(());
    }
    if lower == "@reboot" {
        let told = format!("{} runs when the database starts (@reboot), which is no time", quoted(&draft.base));
        return Err((Some(Kind::LeftOut), told, "let what starts the database run it"));
    }
    zone(timezone).map_err(|error| (None, format!("cron.timezone: {error}"), ""))?;
    let cron = last_day(schedule);
    let letters = cron.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty() && *word != "L");
    let unknown = letters.into_iter().find(|word| word.len() != 3 && !cron.starts_with('@'));
    if let Some(word) = unknown {
        return Err((None, format!("{}: {word} is no name of a month or weekday", quoted(schedule)), ""));
    }
    if let Err(error) = Cron::parse(&cron) {
        let told = format!("{}: Punctual does not take {}: {error}", quoted(&draft.base), quoted(schedule));
        return Err((Some(Kind::LeftOut), told, "correct the schedule in pg_cron, or make one by hand"));
    }
    let fields: Vec<&str> = cron.split(' ').collect();
    if let ([_, _, day, _, weekday], true) = (&fields[..], both_days)
        && !day.starts_with('*')
        && !weekday.starts_with('*')
    {
        let told = format!(
            "{}: {} asks for the day of the month and of the week together (cron.match_dom_and_dow), and cron here \
             for either",
            quoted(&draft.base),
            quoted(schedule)
        );
        return Err((Some(Kind::LeftOut), told, "make it by hand, with a calendar that closes the other weekdays"));
    }
    draft.put("cron", cron);
    draft.put("timezone", timezone);
    let what = "while a run is alive every further slot waits in pg_cron, however many; here at most one does";
    draft.remark(Kind::Differs, what, "`overlap = \"allow\"` runs them beside each other");
    // pg_cron looks every minute whether the local time fits: what is left out does not come, what is repeated does.
    draft.put("dst_gap", "skip");
    draft.put("dst_overlap", "both");
    Ok(())
}

/// `$` in the days of the month is the last one.
fn last_day(schedule: &str) -> String {
    let mut fields: Vec<String> = schedule.split_whitespace().map(str::to_owned).collect();
    if let Some(days) = fields.get_mut(2) {
        *days = days.replace('$', "L");
    }
    fields.join(" ")
}

/// The statement as psql runs it: one request, as `pg_cron` sends it.
fn target(job: &Job, command: &str, reached: &Reached, draft: &mut Draft) -> Value {
    let mut env = Map::new();
    let is_here = |host: &str| matches!(host, "localhost" | "127.0.0.1" | "::1");
    let named = job.text("nodename").map(str::to_owned);
    // What is near to the database's own server is far from a worker.
    let (host, port) = match (&reached.host, named) {
        (Some(host), named) if named.as_deref().is_none_or(is_here) => {
            (Some(host.clone()), reached.port.map(u32::from))
        }
        (_, named) => (named, job.word("nodeport").and_then(|port| port.parse().ok())),
    };
    if let Some(host) = host.filter(|host| !host.is_empty()) {
        if is_here(&host) {
            let what = format!("the database is at {host}, seen from its own server");
            draft.remark(Kind::Differs, what, "set PGHOST in the target's `env` to its address, seen from the worker");
        }
        env.insert("PGHOST".to_owned(), json!(host));
    }
    if let Some(port) = port {
        env.insert("PGPORT".to_owned(), json!(port.to_string()));
    }
    for (variable, column) in [("PGDATABASE", "database"), ("PGUSER", "username")] {
        if let Some(value) = job.text(column) {
            env.insert(variable.to_owned(), json!(value));
        }
    }
    let user = job.text("username").unwrap_or("the worker's own role");
    let what = format!("it runs by psql as {user}, over a connection from the worker, which must be let in");
    let remedy = "keep the password in ~/.pgpass of the worker's user, or add PGPASSWORD = { secret = \"env:NAME\" }";
    draft.remark(Kind::Note, what, remedy);
    let what = "its answer is psql's output; a function that returns jsonb could be a `sql` target instead";
    draft.remark(Kind::Note, what, "see docs/from-pg-cron.md for the three lines around the statement");
    let argv = json!(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", command]);
    json!({ "kind": "command", "argv": argv, "env": env, "input": "none" })
}

type Wrong = (usize, String);

fn json_rows(file: &str, text: &str) -> Result<Vec<Job>, Wrong> {
    let wrong_kind = |line: usize| (line, "is no object with the columns of cron.job".to_owned());
    let row = |line: usize, value: &Value| match value {
        Value::Object(columns) => Ok(Job { place: Place::new(file, line), columns: columns.clone() }),
        _ => Err(wrong_kind(line)),
    };
    if text.trim_start().starts_with('{') {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        return lines
            .map(|(number, line)| {
                let value: Value = serde_json::from_str(line)
                    .map_err(|error| (number + 1, format!("is no JSON object on a line of its own: {error}")))?;
                row(number + 1, &value)
            })
            .collect();
    }
    let broken = |broken: crate::cli::document::Broken| (broken.place.map_or(1, |place| place.line), broken.problem);
    let documents = Document::parse(Format::Json, text).map_err(broken)?;
    let rows = documents.iter().filter_map(|document| Some((document, document.value.as_array()?)));
    let line = |document: &Document, number: usize| {
        document.place_of(&format!("/{number}")).map_or(number + 1, |place| place.line)
    };
    rows.flat_map(|(document, rows)| rows.iter().enumerate().map(move |(number, value)| (document, number, value)))
        .map(|(document, number, value)| row(line(document, number), value))
        .collect()
}

/// CSV as `COPY … TO STDOUT CSV HEADER` writes it.
fn csv_rows(file: &str, text: &str) -> Result<Vec<Job>, Wrong> {
    let mut records = csv(text)?.into_iter();
    let Some((_, header)) = records.next() else { return Err((1, "is empty".to_owned())) };
    if !header.iter().any(|column| column == "schedule") {
        let what = "the first line does not name the columns; use COPY cron.job TO STDOUT CSV HEADER";
        return Err((1, what.to_owned()));
    }
    records
        .map(|(line, cells)| {
            if cells.len() != header.len() {
                return Err((line, format!("has {} columns, and the first line {}", cells.len(), header.len())));
            }
            let columns = header.iter().cloned().zip(cells.into_iter().map(Value::String)).collect();
            Ok(Job { place: Place::new(file, line), columns })
        })
        .collect()
}

/// Records by RFC 4180, each with the line it begins on.
fn csv(text: &str) -> Result<Vec<(usize, Vec<String>)>, Wrong> {
    let (mut records, mut record, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut line, mut began, mut quoted_since) = (1, 1, None);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        line += usize::from(c == '\n');
        match (c, quoted_since) {
            ('"', Some(_)) if characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            ('"', Some(_)) => quoted_since = None,
            ('"', None) if cell.is_empty() => quoted_since = Some(line),
            (',', None) => record.push(std::mem::take(&mut cell)),
            ('\r', None) => {}
            ('\n', None) => {
                record.push(std::mem::take(&mut cell));
                if record != [""] {
                    records.push((began, std::mem::take(&mut record)));
                }
                record.clear();
                began = line;
            }
            (c, _) => cell.push(c),
        }
    }
    if let Some(line) = quoted_since {
        return Err((line, "a quote is not closed".to_owned()));
    }
    if !cell.is_empty() || !record.is_empty() {
        record.push(cell);
        records.push((began, record));
    }
    Ok(records)
}
