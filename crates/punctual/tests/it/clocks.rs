//! Wrong clocks and jumping clocks: nothing is early, nothing happens twice, no lease expires.

use crate::process::{Ear, Setup, Worker};
use crate::world::World;
use jiff::{SignedDuration, Timestamp};
use punctual_core::checks::Check;
use punctual_core::job::NewJob;
use punctual_testkit::faults::{FakeClock, shifted_clock};
use punctual_testkit::postgres::{Database, PrivateServer};

const HOUR: i64 = 3600;

/// A worker whose lease is long for this test, and short for the jumps in it.
fn patient(env: Vec<(String, String)>) -> Setup {
    Setup { lease: "30s", heartbeat: "200ms", env, ..Setup::default() }
}

/// Nobody had to come back under a new lease, and nobody was believed lost.
async fn assert_no_lease_was_lost(world: &World, workers: i64) {
    assert_eq!(world.number("SELECT count(*) FROM {nodes}").await, workers, "nobody came a second time");
    assert_eq!(world.number("SELECT count(*) FROM {leases}").await, workers);
    assert_eq!(world.number("SELECT count(*) FROM {runs} WHERE error_code = 'node_lost'").await, 0);
}

/// Waits until a job that is made now has been run.
async fn until_a_new_job_is_done(world: &World) {
    let id = world.store.enqueue_jobs(vec![NewJob::new(world.timed_target())]).await.unwrap()[0];
    while !world.store.job(id).await.unwrap().unwrap().state().is_terminal() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Waits until every lease has been renewed a few times more.
async fn until_renewed(world: &World) {
    let least = "SELECT min(counter) FROM {leases}";
    let so_far = world.number(least).await;
    world.until(least, |counter| counter > so_far + 3).await;
}

async fn until_more_fired(world: &World) {
    let fired = "SELECT count(*) FROM {slots} WHERE decision = 'fired'";
    let so_far = world.number(fired).await;
    world.until(fired, |fired| fired > so_far + 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d02_nodes_whose_clocks_are_wrong_fire_nothing_early_and_nothing_twice() {
    let world = World::on_postgres().await;
    world.schedule_every_second_with(5, world.timed_target()).await;
    let producer = world.produce();
    let ear = Ear::new();
    let mut workers = Vec::new();
    for seconds in [-24 * HOUR, -HOUR, HOUR, 24 * HOUR] {
        let worker = Worker::start_as(&world.url, &patient(shifted_clock(seconds)), &ear);
        let off = worker.clock_showed().duration_since(Timestamp::now()) - SignedDuration::from_secs(seconds);
        assert!(off.abs() < SignedDuration::from_mins(10), "its clock is wrong as it should be, but for {off}");
        workers.push(worker);
    }
    let busy = "SELECT count(*) FROM (SELECT node_id FROM {runs} GROUP BY node_id HAVING count(*) >= 5) AS busy";
    world.until(busy, |nodes| nodes == 4).await;
    let firing = "SELECT count(DISTINCT node_id) FROM {slots} WHERE decision = 'fired'";
    world.until(firing, |nodes| nodes >= 2).await;
    let acknowledged = producer.stop().await;
    world.come_to_rest().await;
    world.check(&acknowledged).await;
    let starts = world.starts();
    assert!(!starts.is_empty());
    for (slot, started) in starts {
        assert!(started >= slot, "the slot {slot} was run at {started}");
    }
    assert_no_lease_was_lost(&world, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d02_a_database_whose_clock_jumps_fires_nothing_twice_and_expires_no_lease() {
    let clock = FakeClock::right();
    let server = PrivateServer::start_with(false, &clock.env());
    let world = World::on_database(Database::empty_on(&server).await).await;
    jump_about(&world, &clock, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d02_a_host_whose_clock_jumps_fires_nothing_twice_and_expires_no_lease() {
    let (clock, world) = (FakeClock::right(), World::on_sqlite().await);
    jump_about(&world, &clock, &clock.env()).await;
}

/// Two workers, and a clock that jumps forth and back by an hour.
async fn jump_about(world: &World, clock: &FakeClock, env: &[(String, String)]) {
    world.schedule_every_second_with(3, world.timed_target()).await;
    let ear = Ear::new();
    let setup = patient(env.to_vec());
    let _workers = [Worker::start_as(&world.url, &setup, &ear), Worker::start_as(&world.url, &setup, &ear)];
    until_more_fired(world).await;
    clock.set(HOUR);
    until_more_fired(world).await;
    until_renewed(world).await;
    // Back by an hour: what was decided for that hour stays decided, and the work goes on.
    clock.set(0);
    until_renewed(world).await;
    until_a_new_job_is_done(world).await;
    clock.set(-HOUR);
    until_renewed(world).await;
    until_a_new_job_is_done(world).await;
    clock.set(2 * HOUR);
    until_more_fired(world).await;
    until_renewed(world).await;
    world.come_to_rest().await;
    let jobs: Vec<_> = world.all_jobs().await.into_keys().collect();
    // To this process, whose own clock was right all the time, the last slots on a file lie ahead.
    world.check_but(&jobs, Some(Check::DecidedInFuture)).await;
    assert_no_lease_was_lost(world, 2).await;
}
