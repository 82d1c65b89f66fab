//! How ends are reported: in batches, again after a failure, and around one that cannot be stored.

use crate::strays::World;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::Store;
use std::time::Duration;

/// Places for all that ends, and for some more: what is claimed is all there is.
const ROOM: usize = 4500;

/// More than one report may hold.
const MANY: usize = 4400;

/// The most that one may hold.
const MOST: usize = 4000;

/// All that is here has ended.
async fn until_all_have_ended(world: &mut World) {
    while world.desk.runs() > 0 {
        world.desk.next_end().await;
    }
}

/// A desk at which jobs end fast, and at which more have ended than one report may hold.
async fn with_many_ends() -> World {
    let mut world = World::with(ROOM, 2).await;
    world.enqueue_many(1000).await;
    assert_eq!(world.desk.exchange(true).await.unwrap().claimed, 1000);
    until_all_have_ended(&mut world).await;
    assert_eq!(world.desk.exchange(true).await.unwrap().closed, 1000);
    world.enqueue_many(MANY).await;
    assert_eq!(world.desk.exchange(true).await.unwrap().claimed, MANY);
    until_all_have_ended(&mut world).await;
    world
}

#[tokio::test]
async fn c09_reports_that_could_not_be_made_are_made_again_and_meanwhile_nobody_is_woken_for_them() {
    let mut world = with_many_ends().await;
    world.faulty.cut_off(true);
    world.desk.exchange(true).await.unwrap_err();
    let again = tokio::time::timeout(Duration::ZERO, world.desk.next_end()).await;
    assert!(again.is_err(), "those behind them wait for the next try as well");
    world.faulty.cut_off(false);
    world.faulty.reports.lock().unwrap().clear();
    let mut closed = 0;
    while !world.desk.is_clear() {
        closed += world.desk.exchange(true).await.unwrap().closed;
        // What the cap left behind is heard of at once.
        if !world.desk.is_clear() {
            world.desk.next_end().await;
        }
    }
    assert_eq!((closed, world.faulty.reports.lock().unwrap()[0]), (MANY, MOST));
}

#[tokio::test]
async fn c08_whoever_leaves_reports_everything_at_once() {
    let mut world = with_many_ends().await;
    world.faulty.reports.lock().unwrap().clear();
    assert_eq!(world.desk.exchange(false).await.unwrap().closed, MANY);
    assert_eq!(*world.faulty.reports.lock().unwrap(), [MANY]);
    assert!(world.desk.is_clear());
}

/// More than one report takes.
#[tokio::test]
async fn c08_whoever_leaves_reports_everything_in_as_many_reports_as_that_takes() {
    let mut world = World::with(40, 0).await;
    world.enqueue_large(40).await;
    assert_eq!(world.desk.exchange(true).await.unwrap().claimed, 40);
    until_all_have_ended(&mut world).await;
    world.faulty.reports.lock().unwrap().clear();
    assert_eq!(world.desk.exchange(false).await.unwrap().closed, 40);
    assert_eq!(*world.faulty.reports.lock().unwrap(), [17, 17, 6]);
    assert!(world.desk.is_clear());
}

/// It is looked for in halves, so that a large batch does not become as many calls as it has ends.
#[tokio::test]
async fn c09_an_end_that_cannot_be_stored_becomes_a_failure_and_the_others_are_stored_as_they_are() {
    const ENDS: usize = 100;
    let mut world = World::with(ENDS, 0).await;
    let jobs = world.enqueue_many(ENDS).await;
    world.faulty.refuse_success_of(&jobs[33..34]);
    assert_eq!(world.desk.exchange(true).await.unwrap().claimed, ENDS);
    until_all_have_ended(&mut world).await;
    assert_eq!(world.desk.exchange(true).await.unwrap().closed, ENDS);
    for (at, job) in jobs.into_iter().enumerate() {
        let run = world.real.run(job).await.unwrap().unwrap();
        let (outcome, code) = (run.outcome, run.error_code);
        let expected = if at == 33 { (Outcome::Failed, Some(ErrorCode::Internal)) } else { (Outcome::Completed, None) };
        assert_eq!((outcome, code), expected, "{at}");
    }
    let calls = world.faulty.reports.lock().unwrap().len();
    assert!(calls <= 2 * 8, "{calls} calls");
}

/// A node must hear of cancels and of its own end meanwhile: it does not look for all of them in one go.
#[tokio::test]
async fn c09_where_many_ends_cannot_be_stored_some_wait_for_the_next_report() {
    const ENDS: usize = 100;
    let mut world = World::with(ENDS, 0).await;
    let jobs = world.enqueue_many(ENDS).await;
    world.faulty.refuse_success_of(&jobs[..40]);
    assert_eq!(world.desk.exchange(true).await.unwrap().claimed, ENDS);
    until_all_have_ended(&mut world).await;
    let mut tries = 0;
    while !world.desk.is_clear() {
        tries += 1;
        assert_eq!(world.desk.exchange(true).await.is_ok(), tries == 3, "try {tries}");
    }
    assert_eq!(tries, 3);
    for (at, job) in jobs.into_iter().enumerate() {
        let outcome = world.real.run(job).await.unwrap().unwrap().outcome;
        assert_eq!(outcome, if at < 40 { Outcome::Failed } else { Outcome::Completed }, "{at}");
    }
}

#[tokio::test]
async fn c08_thousands_that_have_not_begun_go_back_some_at_a_time() {
    let world = World::with(4, 0).await;
    let mut jobs = world.enqueue_many(2500).await;
    assert_eq!(world.claim_unseen(jobs.len()).await, jobs.len());
    assert_eq!(world.desk.give_back(jobs.clone()).await.unwrap(), jobs.len());
    assert_eq!(*world.faulty.given_back.lock().unwrap(), [1000, 1000, 500]);
    let queued = world.real.queued_jobs("default", None, jobs.len() + 1).await.unwrap();
    let mut queued: Vec<_> = queued.into_iter().map(|queued| queued.place.job_id).collect();
    jobs.sort_unstable();
    queued.sort_unstable();
    assert_eq!(queued, jobs);
}
