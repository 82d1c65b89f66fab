//! A PostgreSQL that stops without a word and comes back, and connections that are ended one by one.

use crate::process::{Ear, Said, Worker};
use crate::world::World;
use punctual_testkit::postgres::{Database, PrivateServer};
use std::time::{Duration, Instant};

const COMPLETED: &str = "SELECT count(*) FROM {runs} WHERE outcome = 'completed'";

/// Waits until so many more runs have completed.
async fn until_more_completed(world: &World, more: i64) {
    let so_far = world.number(COMPLETED).await;
    world.until(COMPLETED, |completed| completed >= so_far + more).await;
}

/// Waits until both have stopped everything because they could not renew their leases.
async fn until_fenced(ear: &mut Ear, workers: &[Worker; 2]) {
    let mut working: Vec<u32> = workers.iter().map(Worker::pid).collect();
    while !working.is_empty() {
        if let (pid, Said::Other(line)) = ear.next().await
            && line.contains("the lease is lost")
        {
            working.retain(|working| *working != pid);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c09_a_server_that_stops_and_comes_back_again_and_again_costs_nothing() {
    let mut server = PrivateServer::start(true);
    let world = World::on_database(Database::empty_on(&server).await).await;
    world.schedule_every_second(3).await;
    let producer = world.produce();
    let mut ear = Ear::new();
    let mut workers = [Worker::start(&world, &ear), Worker::start(&world, &ear)];
    for round in 0..5 {
        until_more_completed(&world, 20).await;
        while ear.pending().is_some() {}
        server.stop_immediately();
        if round == 2 {
            // Once it stays away for longer than the leases last.
            until_fenced(&mut ear, &workers).await;
        }
        server.start_again();
        let ready = Instant::now();
        until_more_completed(&world, 1).await;
        eprintln!("first success {} ms after the server was ready", ready.elapsed().as_millis());
    }
    assert!(workers.iter_mut().all(|worker| !worker.has_ended()), "nobody needs to be started again");
    let acknowledged = producer.stop().await;
    world.come_to_rest().await;
    world.check(&acknowledged).await;
}

/// A process of the server, if it can be asked; another one shows that the server has begun anew.
async fn checkpointer(world: &World) -> Option<i32> {
    let client = world.database().try_connect().await?;
    let find = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
    client.query_opt(find, &[]).await.ok()?.map(|row| row.get(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c09_connections_that_are_ended_one_by_one_end_no_worker() {
    let server = PrivateServer::start(true);
    let world = World::on_database(Database::empty_on(&server).await).await;
    world.schedule_every_second(3).await;
    let producer = world.produce();
    let ear = Ear::new();
    let mut worker = Worker::start(&world, &ear);
    let one = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
               AND application_name = 'punctual' ORDER BY random() LIMIT 1";
    for _ in 0..20 {
        assert_eq!(world.number(&format!("SELECT count(pg_terminate_backend(pid)) FROM ({one}) AS one")).await, 1);
        until_more_completed(&world, 2).await;
    }
    // By force, after which the server ends all others as well, because that one may have left a mess.
    let pid = world.number(&format!("SELECT pid::bigint FROM ({one}) AS one")).await;
    let before = checkpointer(&world).await;
    assert!(std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    while checkpointer(&world).await.is_none_or(|now| Some(now) == before) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    until_more_completed(&world, 20).await;
    assert!(!worker.has_ended(), "{:?}", worker.said());
    let acknowledged = producer.stop().await;
    world.come_to_rest().await;
    world.check(&acknowledged).await;
}
