//! Ten thousand schedules that are due in the same second.

use crate::world::{World, on_both_stores};
use jiff::SignedDuration;
use punctual_core::id::JobId;
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::Store;
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use punctual_engine::dispatch::DeskOptions;
use punctual_engine::node::{self, NodeEvent, NodeOptions, Signals};
use punctual_engine::targets::task::{Context, Handler, TaskError};
use punctual_engine::work::Executors;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const SCHEDULES: usize = 10_000;
const NODES: i64 = 2;

/// The connections of one store: its pool, one for heartbeats, one for wake-ups.
const CONNECTIONS: i64 = 8 + 1 + 1;

type Starts = Arc<Mutex<BTreeMap<JobId, usize>>>;

/// A node in this process, with a store of its own.
struct Node {
    stop: watch::Sender<bool>,
    events: Arc<Mutex<Vec<NodeEvent>>>,
    task: JoinHandle<()>,
}

impl Node {
    fn start(store: Arc<dyn Store>, starts: &Starts) -> Self {
        let starts = Arc::clone(starts);
        let handler = Handler::new(move |run: Context, _: serde_json::Value| {
            *starts.lock().unwrap().entry(run.job.id).or_default() += 1;
            async { Ok::<_, TaskError>(()) }
        });
        let executors = Executors::default().with("task:herd", Arc::new(handler));
        let usual = NodeOptions::default();
        let desk = DeskOptions { room: 64, prefetch: 64, ..usual.desk };
        let (stop, mut stopped) = watch::channel(false);
        let gently = Box::pin(async move { drop(stopped.wait_for(|stop| *stop).await) });
        let signals = Signals { gently, now: Box::pin(std::future::pending()) };
        let events = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&events);
        let task = tokio::spawn(async move {
            let options = NodeOptions { desk, ..usual };
            let on_event = move |event| told.lock().unwrap().push(event);
            node::run_until(store, executors, options, signals, on_event).await.unwrap();
        });
        Self { stop, events, task }
    }

    async fn leave(self) -> Vec<NodeEvent> {
        self.stop.send_replace(true);
        self.task.await.unwrap();
        self.events.lock().unwrap().clone()
    }
}

/// Many schedules, all for a time that is far away: one is made, and copied as a restore would.
async fn make_schedules(world: &World) {
    let at = world.store.now().await.unwrap() + SignedDuration::from_hours(24);
    let name = Name::new("herd").unwrap();
    let schedule = ScheduleDefinition::new(name, TimingSpec::At { at }, Target::task("herd"));
    world.store.create_schedule(schedule).await.unwrap();
    world.copy_schedules(SCHEDULES - 1).await;
}

on_both_stores! {
    async fn d10_ten_thousand_schedules_due_in_one_second_all_start_and_no_lease_suffers(world: &World) {
        make_schedules(world).await;
        let starts = Starts::default();
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            nodes.push(Node::start(punctual::open(&world.url).await.unwrap(), &starts));
        }
        world.until("SELECT count(*) FROM {leases} WHERE counter > 0", |nodes| nodes == NODES).await;
        let beats = world.number("SELECT min(counter) FROM {leases}").await;
        world
            .execute(
                "UPDATE {schedule_state} SET next_slot_at = at, next_run_at = at
                 FROM (SELECT CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER) AS at)",
                "UPDATE {schedule_state} SET next_slot_at = now(), next_run_at = now()",
            )
            .await;
        let mut most = 0;
        while starts.lock().unwrap().len() < SCHEDULES {
            most = most.max(world.connections().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        world.until_open(0).await;
        // The herd may be through before the next heartbeat is due.
        world.until("SELECT min(counter) FROM {leases}", |counter| counter > beats).await;
        for node in nodes {
            let events = node.leave().await;
            assert!(!events.contains(&NodeEvent::Fenced), "{events:?}");
        }
        let starts = starts.lock().unwrap().clone();
        assert_eq!(starts.len(), SCHEDULES);
        assert!(starts.values().all(|times| *times == 1));
        assert_eq!(world.number("SELECT count(*) FROM {slots} WHERE decision = 'fired'").await, 10_000);
        assert_eq!(world.number("SELECT count(*) FROM {runs} WHERE outcome = 'completed'").await, 10_000);
        // The nodes' and this test's own.
        assert!(most <= (NODES + 1) * CONNECTIONS, "{most} connections");
        eprintln!("{most} connections at most");
    }
}
