//! A node watches the whole: schedules that nobody decides on, and a store's clock that jumps.

use crate::node::RunningNode;
use jiff::SignedDuration;
use punctual_core::health::Health;
use punctual_core::name::Name;
use punctual_core::notify::port::Notifications;
use punctual_core::policies::Policies;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::{Clock, Store};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use punctual_core::upkeep::NoticeKind;
use punctual_core::virtual_clock::VirtualClock;
use punctual_engine::node::NodeOptions;
use punctual_engine::notify::NotifyOptions;
use punctual_engine::targets::task::{Context, Handler, TaskError};
use punctual_engine::work::Executors;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;
use std::time::Duration;

const SCHEDULES: usize = 20;

/// Waits until the node has noticed what is wanted.
async fn until(health: &Health, clock: &VirtualClock, wanted: impl Fn(&[String]) -> bool) {
    for _ in 0..1200 {
        if wanted(&health.troubles(clock.now())) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it was not noticed; this was: {:?}", health.troubles(clock.now()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n02_a_node_notices_overdue_schedules_and_a_clock_that_jumps() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(VirtualClock::new()));
    let options = SqliteOptions { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..SqliteOptions::default() };
    let store = Arc::new(SqliteStore::open(&folder.path().join("a.db"), options).unwrap());
    for number in 0..SCHEDULES {
        let hourly = TimingSpec::cron("0 * * * *", "UTC");
        let name = Name::new(format!("s{number}")).unwrap();
        store.create_schedule(ScheduleDefinition::new(name, hourly, Target::task("work"))).await.unwrap();
    }
    // On a clock that stands still, one of them fires in this second, and it stays this second.
    store.set_fire_cap(Some(1)).await.unwrap();
    clock.advance(SignedDuration::from_mins(60) + SignedDuration::from_secs(5));
    let health = Arc::new(Health::default());
    let notify = NotifyOptions {
        health: Arc::clone(&health),
        overdue_after: Duration::from_secs(1),
        watch: Duration::from_millis(20),
        ..NotifyOptions::default()
    };
    let lease = Duration::from_secs(60);
    let options = NodeOptions { notify: Some(notify), lease, ..NodeOptions::default() };
    let work = Handler::new(|_: Context, _: serde_json::Value| async { Ok::<_, TaskError>(()) });
    let executors = Executors::default().with("task:work", Arc::new(work));
    let node = RunningNode::start(Arc::clone(&store) as Arc<dyn Store>, executors, options);
    // Whoever has noticed what is overdue has looked at the clock, too.
    until(&health, &clock, |told| told.iter().any(|line| line.contains("schedules are overdue"))).await;
    assert_eq!(health.troubles(clock.now()).len(), 1);
    clock.advance(SignedDuration::from_mins(60));
    until(&health, &clock, |told| told.iter().any(|line| line.contains("clock jumped 1h ahead"))).await;
    store.set_fire_cap(None).await.unwrap();
    until(&health, &clock, |told| told.len() == 1).await;
    let notices = store.notices(None, 100).await.unwrap();
    let jumps = notices.iter().filter(|notice| notice.news.kind == NoticeKind::ClockJumped).count();
    assert_eq!(jumps, 1, "it is told once: {notices:?}");
    node.leave().await;
}
