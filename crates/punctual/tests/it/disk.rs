//! A disk that is full under SQLite: it is told clearly, nothing acknowledged is lost, and room is all that it takes.

use crate::process::{Ear, Said, Worker};
use crate::world::World;
use punctual_core::id::JobId;
use punctual_core::job::NewJob;
use punctual_core::json::Json;
use punctual_core::store::StoreError;
use punctual_testkit::faults::{SmallDisk, as_root};
use std::sync::Arc;

const TEST: &str = "disk::c12_a_full_disk_is_told_and_goes_on_by_itself_when_there_is_room";

/// Enqueues large jobs until there is no room left, several times in a row; says which were acknowledged.
async fn fill(world: &World, callers: usize, bytes: usize) -> Vec<JobId> {
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let (store, target) = (Arc::clone(&world.store), world.target());
            tokio::spawn(async move {
                let input = Json::from_value("input", &"x".repeat(bytes)).unwrap();
                let (mut acknowledged, mut refused) = (Vec::new(), 0);
                while refused < 5 {
                    let job = NewJob { input: input.clone(), ..NewJob::new(target.clone()) };
                    match store.enqueue_jobs(vec![job]).await {
                        Ok(made) => acknowledged.extend(made),
                        Err(StoreError::Full(_)) => refused += 1,
                        Err(error) => panic!("not told clearly: {error:?}"),
                    }
                }
                acknowledged
            })
        })
        .collect();
    let mut acknowledged = Vec::new();
    for caller in callers {
        acknowledged.extend(caller.await.unwrap());
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_full_disk_is_told_and_goes_on_by_itself_when_there_is_room() {
    if !as_root(TEST) {
        return;
    }
    let disk = SmallDisk::with_room_for(3);
    let world = World::on_file(disk.path().join("full.db")).await;
    world.schedule_every_second(3).await;
    let mut ear = Ear::new();
    let mut worker = Worker::start(&world, &ear);
    world.until("SELECT count(*) FROM {runs}", |runs| runs > 5).await;
    let mut acknowledged = fill(&world, 8, 8 * 1024).await;
    // So much at once that the disk is full in the middle of a transaction and not only at its end.
    acknowledged.extend(fill(&world, 100, 60 * 1024).await);
    // The worker cannot write either: it says so, stops its work, and waits for room.
    loop {
        match ear.next().await.1 {
            Said::Other(line) if line.contains("no room left") => break,
            Said::Gone => panic!("it ended: {:?}", worker.said()),
            _ => {}
        }
    }
    for id in &acknowledged {
        assert!(world.store.job(*id).await.unwrap().is_some(), "what was acknowledged can be read");
    }
    disk.make_room();
    world.come_to_rest().await;
    assert!(!worker.has_ended(), "nobody needs to start it again");
    world.check(&acknowledged).await;
}
