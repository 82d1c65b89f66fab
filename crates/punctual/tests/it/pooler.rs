//! Whole workers behind pgbouncer in transaction mode: twenty of them on two connections.

use crate::process::{Ear, Setup, Worker};
use crate::world::World;
use punctual_testkit::postgres::PgBouncer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c07_twenty_workers_share_two_connections_of_a_pooler() {
    let world = World::on_postgres().await;
    let pooler = PgBouncer::start(world.database(), 2);
    let url = pooler.url();
    world.schedule_every_second(5).await;
    let producer = world.produce();
    let ear = Ear::new();
    let setup = Setup { lease: "30s", heartbeat: "1s", concurrency: 2, log: "warn", env: Vec::new() };
    let mut workers: Vec<_> = (0..20).map(|_| Worker::start_as(url, &setup, &ear)).collect();
    let busy = "SELECT count(DISTINCT node_id) FROM {runs}";
    world.until(busy, |nodes| nodes == 20).await;
    // Only the pooler's own and this test's.
    let theirs = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                  AND application_name <> 'punctual' AND pid <> pg_backend_pid()";
    assert!(world.number(theirs).await <= 2, "two connections are enough");
    let acknowledged = producer.stop().await;
    world.come_to_rest().await;
    world.check(&acknowledged).await;
    assert_eq!(world.number("SELECT count(*) FROM {runs} WHERE error_code = 'node_lost'").await, 0);
    for worker in &mut workers {
        assert!(!worker.has_ended());
        // A pooler swallows wake-ups, which a worker says once; nothing else is different behind one.
        let mut said = worker.said();
        said.retain(|line| !line.contains("notifications do not come through"));
        assert_eq!(said, Vec::<String>::new(), "a worker notices nothing else of the pooler");
    }
}
