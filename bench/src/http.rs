//! The HTTP API under load: requests come at a fixed rate whatever becomes of the ones before, from another process than
//! the server's, on a durable throw-away PostgreSQL. Beside it the same rows by hand-written SQL over as many connections
//! as the server has, at the same rate, in the same run.

use crate::figures::{median, percentile};
use crate::http_client::Connection;
use crate::http_lists;
use crate::load::{Outcome, each};
use crate::report::{self, Cell, Goal, Plot, Sheet, Strip, Strips, Survey, Table, Tone, spelled};
use punctual_core::store::Store;
use punctual_measure::raw::postgres::Raw;
use punctual_server::{AppState, Settings, first_admin_token, serve};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep_until};

/// Requests in a second.
const RATE: u32 = 2_000;
/// Connections of the callers, each with one request under way.
const CALLERS: usize = 64;
/// Connections of the server's pool, and of the reference.
const CONNECTIONS: usize = 16;
/// For how long nothing is counted: connections are made, and plans.
const WARM_UP: Duration = Duration::from_secs(3);

const JOB: &str = r#"{"target":{"kind":"task","name":"noop"}}"#;

/// Measures the section `http`: `secs` of load, and lists at `rows` rows.
pub fn run(secs: u64, rows: i64) -> Outcome<()> {
    if rows < http_lists::LEAST_ROWS {
        let least = http_lists::LEAST_ROWS;
        return Err(format!("{rows} rows are too few for lists that go far down; ask for {least} or more").into());
    }
    let mut survey = Survey::begin()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let server = PrivateServer::start(true);
    runtime.block_on(async {
        let databases = [Database::empty_on(&server).await, Database::empty_on(&server).await];
        survey.postgres(&server, &databases[1].connect().await).await?;
        // The store makes the tables of the reference as well.
        PostgresStore::connect(&databases[0].url(), PostgresOptions::default()).await?;
        let ours = Server::start(&databases[1].url())?;
        let half = Duration::from_secs(secs / 2);
        let raw = raw_callers(&databases[0]).await?;
        let http = http_callers(&ours).await?;
        let (raw, first_of_raw) = offer(raw, WARM_UP).await?;
        let (http, first_of_http) = offer(http, WARM_UP).await?;
        let (raw, mut reference) = offer(raw, half).await?;
        let (_, measured) = offer(http, Duration::from_secs(secs)).await?;
        let (_, after) = offer(raw, half).await?;
        reference.add(after);
        if let Some(error) = reference.first_error() {
            return Err(format!("raw SQL failed: {error}").into());
        }
        check_stored(&[&first_of_raw, &reference], stored(&databases[0]).await?)?;
        check_stored(&[&first_of_http, &measured], stored(&databases[1]).await?)?;
        let mut sheet = sheet(&reference, &measured, secs, rows);
        let (table, plot) = http_lists::measure(&databases[1], &ours, rows).await?;
        sheet.tables.push(table);
        sheet.plots.push(plot);
        report::keep(sheet, survey)
    })
}

fn sheet(reference: &Seen, measured: &Seen, secs: u64, rows: i64) -> Sheet {
    let mut sheet = Sheet::new("http", "The HTTP API", &format!("http {secs} {rows}"));
    sheet.say(format!(
        "{} enqueue requests a second for {secs} s from another process, over {CALLERS} connections that are kept open, on \
         PostgreSQL. The reference writes the same rows by SQL over {CONNECTIONS} connections at the same rate, half \
         before and half after.",
        spelled(f64::from(RATE), 0)
    ));
    sheet.answer(Goal::HttpErrors, "", each(measured.errors.len()));
    let mut table = Table::new("", ["milliseconds from when it was due", "raw SQL", "HTTP", "ratio"]);
    let mut row = |what: &str, raw: f64, ours: f64| {
        let numbers = [raw, ours, ours / raw].map(|value| Cell::number(value, 2));
        table.row(std::iter::once(Cell::words(what)).chain(numbers));
    };
    row("p50", median(&reference.latencies), median(&measured.latencies));
    row("p99", percentile(&reference.latencies, 99), percentile(&measured.latencies, 99));
    row("max", percentile(&reference.latencies, 100), percentile(&measured.latencies, 100));
    row("achieved, per second", reference.rate(), measured.rate());
    let (errors, all) = (each(measured.errors.len()), each(measured.latencies.len()));
    let first = measured.first_error().map_or_else(String::new, |error| format!("; the first one: {error}"));
    table.note = format!("Errors: {} of {}{first}.", spelled(errors, 0), spelled(all, 0));
    sheet.tables.push(table);
    let strip = |label, tone, seen: &Seen| {
        Strip::new(label, tone, (median(&seen.latencies), percentile(&seen.latencies, 99)), None)
    };
    sheet.plots.push(Plot::Strips(Strips {
        title: format!("{} enqueue requests a second, from when each was due", spelled(f64::from(RATE), 0)),
        unit: "ms".to_owned(),
        digits: 2,
        rows: vec![strip("raw SQL", Tone::Raw, reference), strip("HTTP", Tone::Ours, measured)],
        marks: Vec::new(),
    }));
    sheet
}

/// The server, in a process of its own.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    pub token: String,
}

impl Server {
    fn start(url: &str) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(["http-server", url]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().ok_or("the server has no output")?).read_line(&mut line)?;
        let (address, token) = line.trim().split_once(' ').ok_or("the server did not start")?;
        Ok(Self { child, address: address.parse()?, token: token.to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

/// What `run` starts: the API on a database, until it is killed.
pub fn serve_on(url: &str) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let options = PostgresOptions { pool_size: CONNECTIONS, ..PostgresOptions::default() };
        let store: Arc<dyn Store> = Arc::new(PostgresStore::connect(url, options).await?);
        let token = first_admin_token(store.as_ref()).await?.ok_or("there is a token already")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{} {}", listener.local_addr()?, token.reveal())?;
        out.flush()?;
        drop(out);
        Ok(serve(listener, AppState::new(store, Settings::default()), std::future::pending()).await?)
    })
}

/// Whoever can put one job into the store.
enum Caller {
    Http(Connection),
    Raw(Raw),
}

/// Why a job was not accepted.
enum Refused {
    /// The server said so.
    Answered(String),
    /// Nothing was said, so that the job may be there all the same.
    Unanswered(String),
}

impl Refused {
    /// In one line.
    fn words(&self) -> &str {
        let (Self::Answered(words) | Self::Unanswered(words)) = self;
        words.lines().next().unwrap_or_default()
    }
}

impl Caller {
    async fn enqueue(&mut self) -> Result<(), Refused> {
        match self {
            Self::Raw(raw) => raw.enqueue(1).await.map_err(|error| Refused::Unanswered(error.to_string())),
            Self::Http(connection) => match connection.ask("POST", "/api/v1/jobs", JOB).await {
                Ok((201, _)) => Ok(()),
                Ok((status, body)) => Err(Refused::Answered(format!("{status}: {body}"))),
                Err(error) => Err(Refused::Unanswered(error.to_string())),
            },
        }
    }
}

async fn http_callers(server: &Server) -> Outcome<Vec<Caller>> {
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        callers.push(Caller::Http(Connection::open(server.address, &server.token).await?));
    }
    Ok(callers)
}

async fn raw_callers(database: &Database) -> Outcome<Vec<Caller>> {
    let first = Raw::open(database.connect().await).await?;
    let mut callers = Vec::new();
    for _ in 1..CONNECTIONS {
        callers.push(Caller::Raw(first.beside(database.connect().await).await?));
    }
    callers.push(Caller::Raw(first));
    Ok(callers)
}

/// What was seen of a load.
#[derive(Default)]
struct Seen {
    /// From when a request was due to its answer, in milliseconds.
    latencies: Vec<f64>,
    errors: Vec<Refused>,
    took: Duration,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.errors.extend(other.errors);
        self.took += other.took;
    }

    fn first_error(&self) -> Option<&str> {
        self.errors.first().map(Refused::words)
    }

    fn rate(&self) -> f64 {
        each(self.latencies.len()) / self.took.as_secs_f64()
    }
}

/// Lets requests come at the rate; whoever is free takes the next one. One that finds nobody free waits, and that counts.
async fn offer(callers: Vec<Caller>, lasting: Duration) -> Outcome<(Vec<Caller>, Seen)> {
    let total = RATE * u32::try_from(lasting.as_secs())?;
    let next = Arc::new(AtomicU32::new(0));
    let begun = Instant::now() + Duration::from_millis(100);
    let tasks: Vec<_> = callers
        .into_iter()
        .map(|mut caller| {
            let next = Arc::clone(&next);
            tokio::spawn(async move {
                let mut seen = Seen::default();
                loop {
                    let ticket = next.fetch_add(1, Ordering::Relaxed);
                    if ticket >= total {
                        return (caller, seen);
                    }
                    let due = begun + Duration::from_secs(1) / RATE * ticket;
                    sleep_until(due).await;
                    seen.errors.extend(caller.enqueue().await.err());
                    seen.latencies.push(due.elapsed().as_secs_f64() * 1000.0);
                }
            })
        })
        .collect();
    let (mut callers, mut all) = (Vec::new(), Seen::default());
    for task in tasks {
        let (caller, seen) = task.await?;
        callers.push(caller);
        all.add(seen);
    }
    all.took = begun.elapsed();
    Ok((callers, all))
}

/// No figure counts unless exactly those jobs are there that were accepted. One of which nothing was heard may be there.
fn check_stored(loads: &[&Seen], stored: i64) -> Outcome<()> {
    let unanswered = |refused: &&Refused| matches!(refused, Refused::Unanswered(_));
    let accepted: usize = loads.iter().map(|seen| seen.latencies.len() - seen.errors.len()).sum();
    let perhaps: usize = loads.iter().map(|seen| seen.errors.iter().filter(unanswered).count()).sum();
    let stored = usize::try_from(stored)?;
    if (accepted..=accepted + perhaps).contains(&stored) {
        return Ok(());
    }
    Err(format!("{accepted} jobs were accepted, {perhaps} were not answered, and {stored} are stored").into())
}

async fn stored(database: &Database) -> Outcome<i64> {
    let count = "SELECT count(*) FROM punctual_internal.jobs";
    Ok(database.connect().await.query_one(count, &[]).await?.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(calls: usize, errors: Vec<Refused>) -> Seen {
        Seen { latencies: vec![1.0; calls], errors, took: Duration::from_secs(1) }
    }

    #[test]
    fn what_is_stored_is_exactly_what_was_accepted() {
        let (warm_up, load) = (seen(3, Vec::new()), seen(10, vec![Refused::Answered("503".to_owned())]));
        let check = |stored| check_stored(&[&warm_up, &load], stored).is_ok();
        assert!(check(12) && !check(11) && !check(13));
    }

    #[test]
    fn a_job_without_an_answer_may_be_stored_or_not() {
        let load =
            seen(10, vec![Refused::Unanswered("broken pipe".to_owned()), Refused::Answered("500: no".to_owned())]);
        let check = |stored| check_stored(&[&load], stored).is_ok();
        assert!(check(8) && check(9) && !check(7) && !check(10));
        assert_eq!(load.first_error(), Some("broken pipe"));
    }
}
