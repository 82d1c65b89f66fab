//! Freezing: what each level refuses and lets through, whoever comes, and that thawing brings everything back.

use crate::prelude::*;
use punctual_core::access::{NewToken, Role};
use punctual_core::freeze::FreezeLevel;
use punctual_core::store::{FinishedRun, LostNode, NewNode, StoreError, StoreResult};
use std::fmt::Debug;

/// A reason with everything that could break a statement.
const WHY: &str = "it's being \"moved\"; -- wait\nfor it 🌙";

fn assert_frozen<T: Debug>(what: &str, tried: &StoreResult<T>) {
    match tried {
        Err(StoreError::Frozen { why }) => assert_eq!(why, WHY, "{what}"),
        other => panic!("{what} is refused by the freeze: {other:?}"),
    }
}

pub async fn c12_a_store_says_whether_and_why_it_is_frozen(world: &mut World) {
    assert_eq!(world.store().frozen().await, Ok(None));
    world.store().thaw().await.expect("what is not frozen can be thawed");
    let first = world.store().freeze(FreezeLevel::Starts, WHY).await.expect("it is frozen");
    assert_eq!((first.level, first.why.as_str(), first.since), (FreezeLevel::Starts, WHY, clock_time("00:00:00")));
    world.pass(secs(5));
    let again = world.store().freeze(FreezeLevel::Starts, "another reason").await.expect("the reason changes");
    assert_eq!((again.why.as_str(), again.since), ("another reason", first.since));
    let more = world.store().freeze(FreezeLevel::Writes, WHY).await.expect("it is frozen further");
    assert_eq!((more.level, more.since), (FreezeLevel::Writes, clock_time("00:00:05")));
    assert_eq!(world.store().frozen().await, Ok(Some(more.clone())));
    world.reopen().await;
    assert_eq!(world.store().frozen().await, Ok(Some(more)), "it is the store that is frozen, not the process");
    world.store().thaw().await.expect("it is thawed");
    assert_eq!(world.store().frozen().await, Ok(None));
}

pub async fn a04_a_store_whose_starts_are_frozen_fires_and_claims_nothing_and_finishes_what_runs(world: &mut World) {
    let node = world.node("worker").await;
    let schedule = world.create(minutely("ticks")).await;
    world.enqueue_all(vec![job(), retried_job(3, secs(60))]).await;
    let running = world.claim(node, 2).await;
    world.store().freeze(FreezeLevel::Starts, WHY).await.expect("it is frozen");
    world.set_time("00:01:00");
    assert_frozen("firing", &world.store().fire_due(Some(node.node_id), ALL).await);
    assert_eq!(world.store().slots(schedule.id, None, ALL).await, Ok(Vec::new()), "no slot was decided");
    let untouched = world.store().schedule(&schedule.id.into()).await.expect("it can be read").expect("it is there");
    assert_eq!((untouched.state.next_slot_at, untouched.state.problem), (schedule.state.next_slot_at, None));
    let waits = world.enqueue(job()).await;
    world.store().trigger_schedule(schedule.id, ByHand::default()).await.expect("work may be added");
    assert_frozen("claiming", &world.store().claim_jobs_if_leased(claim_request(node, 1)).await);
    assert_eq!(world.queue("default").await.len(), 2, "what waits is where it was");
    world.store().heartbeat_if_leased(node).await.expect("nodes go on");
    world.complete(node, running[0]).await;
    world.fail(node, running[1]).await.expect("what failed gets its retry");
    world.store().pause_schedule(schedule.id, None, None).await.expect("people may do what people do");
    world.store().resume_schedule(schedule.id).await.expect("and the ledger may say that nothing ran");
    world.store().thaw().await.expect("it is thawed");
    assert_eq!(world.claim_one(node).await, waits, "and it goes on where it stood");
    world.set_time("00:02:00");
    world.fire_one().await;
}

pub async fn c12_a_store_whose_writes_are_frozen_refuses_every_write_and_answers_every_question(world: &mut World) {
    let node = world.node("worker").await;
    let schedule = world.create(minutely("ticks")).await;
    let made = world.enqueue_all(vec![job(), job()]).await;
    let running = world.claim_one(node).await;
    world.store().freeze(FreezeLevel::Writes, WHY).await.expect("it is frozen");
    world.set_time("00:01:00");
    let store = world.store();
    let new_node = NewNode { name: "late".to_owned(), offers: vec![WORK.to_owned()] };
    let token = NewToken {
        prefix: "abcdefgh".to_owned(),
        hash: [7; 32],
        name: "somebody".to_owned(),
        owner: "ops".to_owned(),
        role: Role::Admin,
        expires_at: None,
    };
    assert_frozen("creating", &store.create_schedule(minutely("more")).await);
    assert_frozen("enqueueing", &store.enqueue_jobs(vec![job()]).await);
    assert_frozen("firing", &store.fire_due(None, ALL).await);
    assert_frozen("claiming", &store.claim_jobs_if_leased(claim_request(node, 1)).await);
    assert_frozen("finishing", &store.finish_runs_if_leased(node, vec![FinishedRun::completed(running)]).await);
    assert_frozen("a heartbeat", &store.heartbeat_if_leased(node).await);
    assert_frozen("coming to work", &store.register_node(new_node).await);
    assert_frozen("cancelling", &store.cancel_job(made[1]).await);
    assert_frozen("pausing", &store.pause_schedule(schedule.id, None, None).await);
    assert_frozen("deleting", &store.delete_schedule(schedule.id).await);
    assert_frozen("a queue's pause", &store.set_queue_paused("default", true).await);
    assert_frozen("a token", &store.create_token(token).await);
    let lost = vec![LostNode { lease: node, counter: 0 }];
    assert_frozen("recovering", &store.recover_lost_nodes(lost).await);
    assert!(world.tamper("DELETE FROM {queue}").await.is_err(), "whoever comes by another way is refused as well");
    assert_eq!(world.queue("default").await.len(), 1);
    assert_eq!(store.run_checks(10).await, Ok(Vec::new()), "a doctor may look");
    world.reopen().await;
    assert_frozen("a program that comes later", &world.store().enqueue_jobs(vec![job()]).await);
    world.store().thaw().await.expect("it is thawed");
    world.complete(node, running).await;
    assert_eq!(world.claim_one(node).await, made[1]);
    world.fire_one().await;
}

pub async fn c12_a_freeze_binds_everybody_who_has_the_store_open(world: &mut World) {
    let other = world.second_store().await;
    other.enqueue_jobs(vec![job()]).await.expect("it is open");
    world.store().freeze(FreezeLevel::Writes, WHY).await.expect("it is frozen");
    assert_frozen("another process", &other.enqueue_jobs(vec![job()]).await);
    other.thaw().await.expect("anybody may thaw it");
    world.enqueue(job()).await;
    assert_eq!(world.queue("default").await.len(), 2);
}
