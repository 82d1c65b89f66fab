//! Nodes on a store that is frozen and thawed: they finish what runs, begin nothing, and go on by themselves.

use crate::node::{RunningNode, World, gated, quick};
use punctual_core::freeze::{FreezeLevel, Freezing};
use punctual_core::job::JobState;
use punctual_core::name::Name;
use punctual_core::run::ErrorCode;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::Store;
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use punctual_engine::memory::MemoryOptions;
use punctual_engine::node::{NodeEvent, NodeOptions};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

#[tokio::test]
async fn c12_a_node_finishes_what_runs_begins_nothing_and_goes_on_when_the_store_is_thawed() {
    let world = World::new();
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let running = world.enqueue("gated").await;
    let memory = MemoryOptions { patience: Duration::ZERO, ..MemoryOptions::default() };
    let options = NodeOptions { memory, lease: Duration::from_secs(30), ..quick() };
    let mut node = RunningNode::start(Arc::clone(&world.store) as Arc<dyn Store>, gated(&started, &gate), options);
    assert_eq!(node.event().await, NodeEvent::Ready);
    started.acquire().await.unwrap().forget();
    let timing = TimingSpec::cron("@every 1s", "UTC");
    let definition = ScheduleDefinition::new(Name::new("ticks").unwrap(), timing, Target::task("nobody"));
    world.store.freeze(FreezeLevel::Starts, "wait").await.unwrap();
    let schedule = world.store.create_schedule(definition).await.unwrap();
    let waits = world.enqueue("gated").await;
    gate.add_permits(2);
    assert_eq!(world.until_ended(running).await.state(), JobState::Completed, "its end is written");
    assert_eq!(world.store.job(waits).await.unwrap().unwrap().state(), JobState::Queued, "and nothing was claimed");
    while world.store.next_due_in().await.unwrap().is_none_or(|wait| wait.is_positive()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.store.thaw().await.unwrap();
    assert_eq!(world.until_ended(waits).await.state(), JobState::Completed);
    while world.store.slots(schedule.id, None, 1).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.store.pause_schedule(schedule.id, None, None).await.unwrap();
    node.leave_saying(&[NodeEvent::Draining { running: 0 }, NodeEvent::Left]).await;
}

#[tokio::test]
async fn c12_a_node_gives_everything_up_when_nothing_can_be_written_and_comes_back() {
    let world = World::new();
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let cut = world.enqueue("gated").await;
    let mut node = RunningNode::start(Arc::clone(&world.store) as Arc<dyn Store>, gated(&started, &gate), quick());
    assert_eq!(node.event().await, NodeEvent::Ready);
    started.acquire().await.unwrap().forget();
    world.store.freeze(FreezeLevel::Writes, "moved").await.unwrap();
    assert_eq!(node.event().await, NodeEvent::Fenced, "long before its lease is over");
    assert_eq!(world.store.job(cut).await.unwrap().unwrap().state(), JobState::Running, "as it stood");
    world.store.thaw().await.unwrap();
    assert_eq!(node.event().await, NodeEvent::Ready, "by itself");
    let run = world.until_ended(cut).await.run().cloned().unwrap();
    assert_eq!(run.error_code, Some(ErrorCode::NodeLost), "it is judged as any that a node left behind");
    gate.add_permits(8);
    node.leave().await;
}
