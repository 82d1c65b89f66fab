//! How soon a node is ready after its process was started, with no schedules stored and with many.

use crate::figures::{median, middle_half};
use crate::fill::Filler;
use crate::idle::Node;
use crate::load::{Outcome, each};
use crate::report::{self, Bar, Bars, Cell, Goal, Group, Mark, Plot, Sheet, Survey, Table, Tone, spelled};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use std::path::Path;
use std::time::Instant;

/// Starts with each number of schedules, in alternating order.
const ROUNDS: usize = 11;

/// Measures the section `startup`.
pub fn run(schedules: i64) -> Outcome<()> {
    let mut survey = Survey::begin()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let server = PrivateServer::start(true);
    runtime.block_on(async {
        let files = [folder.path().join("none.db"), folder.path().join("many.db")];
        let databases = [Database::empty_on(&server).await, Database::empty_on(&server).await];
        for (at, count) in [0, schedules].into_iter().enumerate() {
            make_sqlite(&files[at], count, &mut survey).await?;
            make_postgres(&databases[at], count).await?;
        }
        survey.postgres(&server, &databases[1].connect().await).await?;
        let on_sqlite = starts(&files.each_ref().map(|file| format!("sqlite:{}", file.display())))?;
        let on_postgres = starts(&databases.each_ref().map(Database::url))?;
        report::keep(sheet(schedules, &[("SQLite", on_sqlite), ("PostgreSQL", on_postgres)]), survey)
    })
}

async fn make_sqlite(path: &Path, schedules: i64, survey: &mut Survey) -> Outcome<()> {
    let store = SqliteStore::open(path, SqliteOptions::default())?;
    survey.sqlite(&store).await?;
    let filler = Filler::of_sqlite(path)?;
    filler.schedules(1, schedules).await?;
    filler.settle().await
}

async fn make_postgres(database: &Database, schedules: i64) -> Outcome<()> {
    PostgresStore::connect(&database.url(), PostgresOptions::default()).await?;
    let filler = Filler::of_postgres(database).await;
    filler.schedules(1, schedules).await?;
    filler.settle().await
}

/// Milliseconds from the start of the process until the node says that it works.
fn starts(urls: &[String; 2]) -> Outcome<[Vec<f64>; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let started = Instant::now();
            let node = Node::start(&urls[at])?;
            times[at].push(started.elapsed().as_secs_f64() * 1000.0);
            drop(node);
        }
    }
    Ok(times)
}

fn sheet(schedules: i64, times: &[(&str, [Vec<f64>; 2])]) -> Sheet {
    let many = format!("{} schedules", spelled(each(usize::try_from(schedules).unwrap_or_default()), 0));
    let mut sheet = Sheet::new("startup", "Start", &format!("startup {schedules}"));
    sheet.say(format!(
        "From the start of a process to the moment when its node works, {ROUNDS} times with each number of schedules in \
         alternating order; the tables are there already."
    ));
    let mut table = Table::new("", ["store", "stored", "milliseconds", "middle half", "most"]);
    let mut groups = Vec::new();
    for (store, [few, full]) in times {
        let mut bars = Vec::new();
        for (stored, tone, times) in [("no schedules", Tone::Raw, few), (many.as_str(), Tone::Ours, full)] {
            let most = times.iter().copied().fold(0.0, f64::max);
            let numbers = [Cell::number(median(times), 0), Cell::range(middle_half(times), 0), Cell::number(most, 0)];
            table.row([Cell::words(*store), Cell::words(stored)].into_iter().chain(numbers));
            bars.push(Bar::new(stored, tone, median(times), Some(middle_half(times))));
        }
        sheet.answer(Goal::ReadyAfterStart, store, median(full));
        groups.push(Group { name: (*store).to_owned(), bars });
    }
    sheet.tables.push(table);
    sheet.plots.push(Plot::Bars(Bars {
        title: "Ready after start".to_owned(),
        unit: "ms".to_owned(),
        groups,
        marks: vec![Mark::new(150.0, "goal: at most 150")],
        ..Bars::default()
    }));
    sheet
}
