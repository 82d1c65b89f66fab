//! A whole node whose table of schedules is taken away and given back, on both stores (D08).

use crate::world::{World, on_both_stores};
use punctual_core::id::ScheduleId;
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::slot::{Decision, SlotRow};
use punctual_core::timing::TimingSpec;
use punctual_engine::memory::{Fallback, MemoryOptions};
use punctual_engine::node::{self, NodeEvent, NodeOptions, Signals};
use punctual_engine::targets::command::CommandExecutor;
use punctual_engine::work::Executors;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// What keeps the schedules out of reach for as long as it is held.
enum Outage {
    /// A trigger that raises: what a broken migration comes to.
    Trigger(rusqlite::Connection),
    /// A lock of the whole table, as a migration or a backup takes it.
    Lock(tokio_postgres::Client),
}

impl Outage {
    async fn begin(world: &World) -> Self {
        if let Some(path) = world.url.strip_prefix("sqlite:") {
            let connection = rusqlite::Connection::open(path).unwrap();
            connection.busy_timeout(Duration::from_secs(30)).unwrap();
            let broken = "CREATE TRIGGER broken BEFORE UPDATE ON punctual_schedule_state
                          BEGIN SELECT raise(ABORT, 'this table is broken'); END";
            connection.execute_batch(broken).unwrap();
            return Self::Trigger(connection);
        }
        let (client, connection) = tokio_postgres::connect(&world.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let lock = "BEGIN; LOCK TABLE punctual_internal.schedules, punctual_internal.schedule_state
                    IN ACCESS EXCLUSIVE MODE";
        client.batch_execute(lock).await.unwrap();
        Self::Lock(client)
    }

    async fn end(self) {
        match self {
            Self::Trigger(connection) => connection.execute_batch("DROP TRIGGER broken").unwrap(),
            Self::Lock(client) => client.batch_execute("ROLLBACK").await.unwrap(),
        }
    }
}

struct RunningNode {
    events: mpsc::UnboundedReceiver<NodeEvent>,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl RunningNode {
    fn start(world: &World, name: &str) -> Self {
        let memory = MemoryOptions {
            patience: Duration::from_millis(500),
            probe: Duration::from_millis(500),
            refresh: Duration::from_secs(1),
            ..MemoryOptions::default()
        };
        let options = NodeOptions { name: name.to_owned(), memory, ..NodeOptions::default() };
        let (stop, stopped) = oneshot::channel::<()>();
        let (say, events) = mpsc::unbounded_channel();
        let signals =
            Signals { gently: Box::pin(async { drop(stopped.await) }), now: Box::pin(std::future::pending()) };
        let executors = Executors::default().with("command", Arc::new(CommandExecutor::default()));
        let store = Arc::clone(&world.store);
        let task = tokio::spawn(async move {
            let on_event = move |event| drop(say.send(event));
            node::run_until(store, executors, options, signals, on_event).await.unwrap();
        });
        Self { events, stop, task }
    }

    /// Waits until the node says so.
    async fn until(&mut self, wanted: impl Fn(&NodeEvent) -> bool) {
        while !wanted(&self.events.recv().await.unwrap()) {}
    }

    async fn leave(self) {
        drop(self.stop);
        self.task.await.unwrap();
    }
}

/// The ledger, oldest first; read beside the tables that are out of reach.
async fn ledger(world: &World, id: ScheduleId) -> Vec<SlotRow> {
    let mut rows = world.store.slots(id, None, 1000).await.unwrap();
    rows.reverse();
    rows
}

/// Waits until so many slots more have fired.
async fn fired_more(world: &World, id: ScheduleId, more: usize) {
    let fired = async || ledger(world, id).await.iter().filter(|row| row.decision == Decision::Fired).count();
    let wanted = fired().await + more;
    while fired().await < wanted {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

on_both_stores! {
    async fn d08_nodes_fire_from_memory_while_the_schedules_are_out_of_reach_and_nothing_runs_twice(world: &World) {
        let name = Name::new("every second").unwrap();
        let definition = ScheduleDefinition::new(name, TimingSpec::cron("@every 1s", "UTC"), world.target());
        let schedule = world.store.create_schedule(definition).await.unwrap();
        let mut nodes = [RunningNode::start(world, "one"), RunningNode::start(world, "two")];
        fired_more(world, schedule.id, 2).await;

        let outage = Outage::begin(world).await;
        for node in &mut nodes {
            node.until(|event| matches!(event, NodeEvent::Fallback(Fallback::Began { schedules: 1 }))).await;
        }
        fired_more(world, schedule.id, 3).await;
        outage.end().await;
        for node in &mut nodes {
            node.until(|event| *event == NodeEvent::Fallback(Fallback::Ended)).await;
        }
        fired_more(world, schedule.id, 2).await;

        world.store.pause_schedule(schedule.id, None, None).await.unwrap();
        for node in nodes {
            node.leave().await;
        }
        let rows = ledger(world, schedule.id).await;
        let fired = rows.iter().filter(|row| row.decision == Decision::Fired).count();
        let jobs = world.store.schedule_jobs(schedule.id, None, 1000).await.unwrap();
        let first_tries = jobs.iter().filter(|view| view.job.retry_of.is_none()).count();
        assert_eq!(first_tries, fired, "one job for each slot that fired");
        assert!(world.effects().values().all(|times| *times == 1), "nothing ran twice");
        // Every second has one record, and no two rows overlap.
        for pair in rows.windows(2) {
            assert_eq!(pair[1].slot_at.duration_since(pair[0].through).as_secs(), 1, "{pair:?}");
        }
    }
}
