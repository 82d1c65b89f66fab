//! What telling people costs: ten thousand jobs that fail of one cause, with a rule that tells of them and without.
//!
//! Both drain the same jobs with the same node on the same durable store, in turns, so that a slow disk is slow for both.
//! No ratio is printed unless every failure was counted by the alert and one message came of them.

use crate::figures::{median, middle_half};
use crate::load::Outcome;
use crate::report::{self, Bar, Bars, Cell, Goal, Group, Plot, Sheet, Survey, Table, Tone};
use async_trait::async_trait;
use punctual_core::id::DeliveryId;
use punctual_core::job::NewJob;
use punctual_core::name::Name;
use punctual_core::notify::channel::{Channel, ChannelDefinition, ChannelTarget};
use punctual_core::notify::message::{Courier, Message, Sent};
use punctual_core::notify::rule::{RuleDefinition, Trigger};
use punctual_core::retry::RetryPolicy;
use punctual_core::secret::Value;
use punctual_core::store::Store;
use punctual_core::target::Target;
use punctual_engine::dispatch::DeskOptions;
use punctual_engine::node::{self, NodeOptions, Signals};
use punctual_engine::notify::NotifyOptions;
use punctual_engine::targets::task::{Context, Handler, TaskError};
use punctual_engine::work::Executors;
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const JOBS: u32 = 10_000;
const ROUNDS: usize = 5;

/// Measures the section `notify`.
pub fn run() -> Outcome<()> {
    let mut survey = Survey::begin()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut on_sqlite = [Vec::new(), Vec::new()];
        for round in 0..2 * ROUNDS {
            let folder = tempfile::tempdir()?;
            let store = SqliteStore::open(&folder.path().join("told.db"), SqliteOptions::default())?;
            survey.sqlite(&store).await?;
            on_sqlite[round % 2].push(drain(Arc::new(store), round % 2 == 1).await?);
        }
        let server = PrivateServer::start(true);
        let mut on_postgres = [Vec::new(), Vec::new()];
        for round in 0..2 * ROUNDS {
            let database = Database::empty_on(&server).await;
            let store = PostgresStore::connect(&database.url(), PostgresOptions::default()).await?;
            survey.postgres(&server, &database.connect().await).await?;
            on_postgres[round % 2].push(drain(Arc::new(store), round % 2 == 1).await?);
        }
        report::keep(sheet(&[("SQLite", on_sqlite), ("PostgreSQL", on_postgres)]), survey)
    })
}

/// The rates of both sides on each store: nobody told, and told.
fn sheet(rates: &[(&str, [Vec<f64>; 2])]) -> Sheet {
    let mut sheet = Sheet::new("notify", "Telling people", "notify");
    sheet.say(format!(
        "A node drains {JOBS} jobs that fail of one cause, with a rule that tells of them and with nobody who is told, \
         {ROUNDS} times each in turns. A ratio is given only if the alert counted every failure and one message came of \
         them."
    ));
    let mut table = Table::new("", ["failures a second", "nobody is told", "a rule tells", "ratio"]);
    let mut groups = Vec::new();
    for (store, [silent, told]) in rates {
        let ratio = median(told) / median(silent);
        sheet.answer(Goal::NotifiedFailures, store, ratio);
        let cells = [Cell::number(median(silent), 0), Cell::number(median(told), 0), Cell::number(ratio, 2)];
        table.row(std::iter::once(Cell::words(*store)).chain(cells));
        let bar = |label, tone, rates: &Vec<f64>| Bar::new(label, tone, median(rates), Some(middle_half(rates)));
        let bars = vec![bar("nobody is told", Tone::Raw, silent), bar("a rule tells", Tone::Ours, told)];
        groups.push(Group { name: (*store).to_owned(), bars });
    }
    sheet.tables.push(table);
    sheet.plots.push(Plot::Bars(Bars {
        title: "Jobs that fail, with and without somebody who is told".to_owned(),
        unit: "failures/s".to_owned(),
        groups,
        ..Bars::default()
    }));
    sheet
}

/// Notes how often what it tells of had happened.
struct Counting(UnboundedSender<u64>);

#[async_trait]
impl Courier for Counting {
    async fn send(&self, _: DeliveryId, _: &Channel, message: &Message) -> Sent {
        // Whoever measures may be gone already.
        let _gone = self.0.send(message.count);
        Sent::Arrived { answer: "counted".to_owned() }
    }
}

/// Jobs per second until all have failed.
async fn drain(store: Arc<dyn Store>, told: bool) -> Outcome<f64> {
    if told {
        let chat = ChannelTarget::Slack { url: Value::from("https://chat.example/") };
        store.create_channel(ChannelDefinition::new(Name::new("ops")?, chat)).await?;
        let rule = RuleDefinition::new(Name::new("failures")?, Trigger::Failure, vec![Name::new("ops")?]);
        store.create_rule(rule).await?;
    }
    let job = NewJob { retry: RetryPolicy::none(), ..NewJob::new(Target::task("fails")) };
    for _ in 0..JOBS / 1000 {
        store.enqueue_jobs(vec![job.clone(); 1000]).await?;
    }
    let handler = Handler::new(|_: Context, _: serde_json::Value| async {
        Err::<(), _>(TaskError::Fatal("cannot reach the mail server".to_owned()))
    });
    let executors = Executors::default().with("task:fails", Arc::new(handler));
    let (tell, mut counts) = unbounded_channel();
    let usual = NodeOptions::default();
    let notify = NotifyOptions { courier: Some(Arc::new(Counting(tell))), ..NotifyOptions::default() };
    let options = NodeOptions {
        desk: DeskOptions { room: 256, prefetch: 256, ..usual.desk.clone() },
        notify: told.then_some(notify),
        ..usual
    };
    let forever = || Box::pin(std::future::pending());
    let signals = Signals { gently: forever(), now: forever() };
    let began = Instant::now();
    let node = tokio::spawn(node::run_until(Arc::clone(&store), executors, options, signals, |_| {}));
    while unfinished(&*store).await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = began.elapsed().as_secs_f64();
    if told {
        let count = counts.recv().await.ok_or("nobody was told")?;
        if count != u64::from(JOBS) || counts.try_recv().is_ok() {
            return Err(format!("one message with {JOBS} failures was to come, and one with {count} came").into());
        }
    }
    node.abort();
    Ok(f64::from(JOBS) / took)
}

async fn unfinished(store: &dyn Store) -> Outcome<bool> {
    let queue = store.queue("default").await?;
    Ok(queue.is_none_or(|queue| queue.depth.value > 0 || queue.running.value > 0))
}
