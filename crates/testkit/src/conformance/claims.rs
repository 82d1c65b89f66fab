//! Claims: a job is in exactly one place, handed out once, and only to a lease that holds.

use crate::prelude::*;
use jiff::SignedDuration;
use punctual_core::id::{JobId, LeaseId, ReservationId};
use punctual_core::job::{JobState, NewJob, Whereabouts};
use punctual_core::limits::Claimed;
use punctual_core::order::Move;
use punctual_core::store::{FinishResult, FinishedRun, Lease, LostNode, Store, StoreError};
use punctual_core::target::Target;
use std::sync::Arc;

async fn some_jobs(world: &World, count: usize) -> Vec<JobId> {
    world.enqueue_all(vec![job(); count]).await
}

pub async fn c07_a_claimed_job_is_out_of_the_queue_and_running(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("a").await;
    world.pass(secs(2));
    let claimed = world.store().claim_jobs_if_leased(claim_request(lease, 1)).await.expect("claiming succeeds");
    assert_eq!(claimed.len(), 1);
    let view = world.job(id).await;
    assert_eq!((&*claimed[0].job, claimed[0].started_at), (&view.job, clock_time("00:00:02")));
    let Whereabouts::Running(running) = view.whereabouts else { panic!("it runs") };
    assert_eq!((running.node_id, running.lease_id), (Some(lease.node_id), Some(lease.lease_id)));
    assert_eq!((running.started_at, running.cancel_requested_at), (clock_time("00:00:02"), None));
    assert!(world.queue("default").await.is_empty());
    assert_eq!(world.store().run(id).await, Ok(None), "a run that goes on is not closed");
}

pub async fn e07_a_store_that_gets_ready_changes_nothing(world: &mut World) {
    let schedule = world.create(minutely("due")).await;
    let (waits, later) = (world.enqueue(job()).await, NewJob { run_at: Some(clock_time("00:00:05")), ..job() });
    let later = world.enqueue(later).await;
    let lease = world.node("a").await;
    let runs = world.enqueue(NewJob { priority: 1, ..job() }).await;
    assert_eq!(world.claim_one(lease).await, runs);
    world.set_time("00:01:00");
    world.store().warm_up().await.expect("it gets ready");
    assert_eq!(world.schedule(schedule.id).await.state, schedule.state, "its slot is still due");
    assert!(world.slot_rows(schedule.id).await.is_empty(), "and not decided");
    assert_eq!(world.state(waits).await, JobState::Queued);
    assert_eq!(world.state(later).await, JobState::Scheduled, "although its time has come");
    assert_eq!(world.state(runs).await, JobState::Running);
    assert_eq!(world.count("SELECT COUNT(*) FROM {jobs}").await, 3, "nothing was made");
}

/// Counts the tables in which each job stands; it must always be one.
async fn assert_one_place_each(world: &World) {
    let misplaced = world
        .count(
            "SELECT COUNT(*) FROM {jobs} AS j WHERE \
             (SELECT COUNT(*) FROM {delayed} AS d WHERE d.job_id = j.id) \
             + (SELECT COUNT(*) FROM {queue} AS q WHERE q.job_id = j.id) \
             + (SELECT COUNT(*) FROM {running} AS r WHERE r.job_id = j.id) \
             + (SELECT COUNT(*) FROM {runs} AS f WHERE f.job_id = j.id) <> 1",
        )
        .await;
    assert_eq!(misplaced, 0, "every job is in exactly one place");
}

pub async fn c07_every_job_is_in_exactly_one_place_all_its_life(world: &mut World) {
    let made = world.enqueue_all(vec![retried_job(2, secs(5)); 6]).await;
    world.enqueue(NewJob { run_at: Some(clock_time("00:00:05")), ..job() }).await;
    let lease = world.node("a").await;
    assert_one_place_each(world).await;
    world.claim(lease, 5).await;
    assert_one_place_each(world).await;
    world.complete(lease, made[0]).await;
    world.fail(lease, made[1]).await;
    world.store().give_back_if_leased(lease, vec![made[2]]).await.expect("it goes back");
    world.store().cancel_job(made[5]).await.expect("it is cancelled");
    world.store().edit_job_if_queued(made[2], json("[]")).await.expect("it is edited");
    assert_one_place_each(world).await;
    world.set_time("00:00:05");
    world.store().promote_due_jobs(ALL).await.expect("they are promoted");
    assert_one_place_each(world).await;
    world.recover(lease).await;
    assert_one_place_each(world).await;
    assert_eq!(world.count("SELECT COUNT(*) FROM {running}").await, 0);
}

pub async fn c07_of_many_who_claim_each_job_goes_to_one(world: &mut World) {
    let made = some_jobs(world, 200).await;
    let stores = [world.store(), world.second_store().await];
    let mut tasks = Vec::new();
    for n in 0..10 {
        let store: Arc<dyn Store> = stores[n % 2].clone();
        let lease = world.node(&format!("node {n}")).await;
        tasks.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let claimed = store.claim_jobs_if_leased(claim_request(lease, 7)).await.expect("claiming succeeds");
                if claimed.is_empty() {
                    return mine;
                }
                mine.extend(claimed.into_iter().map(|claimed| claimed.job.id));
            }
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        let mine = task.await.expect("a node ends");
        let sorted = made.iter().copied().filter(|id| mine.contains(id)).collect::<Vec<_>>();
        assert_eq!(mine, sorted, "each node gets them in queue order");
        all.extend(mine);
    }
    all.sort();
    let mut expected = made;
    expected.sort();
    assert_eq!(all, expected, "each job is handed out once");
    assert_one_place_each(world).await;
}

pub async fn c07_a_node_gets_only_what_it_can_run(world: &mut World) {
    let mine = world.enqueue(job()).await;
    let other = world.enqueue(NewJob { target: Target::task("other"), priority: 9, ..job() }).await;
    let command = world.enqueue(NewJob { target: Target::command(["true"]), priority: 9, ..job() }).await;
    let lease = world.node("a").await;
    assert_eq!(world.claim(lease, ALL).await, [mine]);
    let mut nothing = claim_request(lease, ALL);
    nothing.job_types.clear();
    assert_eq!(world.store().claim_jobs_if_leased(nothing).await, Ok(Claimed::default()));
    assert_eq!(world.queue("default").await, [other, command]);
}

pub async fn c07_a_claim_of_nothing_gives_nothing(world: &mut World) {
    let lease = world.node("a").await;
    assert_eq!(world.claim(lease, ALL).await, []);
    let id = world.enqueue(job()).await;
    assert_eq!(world.claim(lease, 0).await, []);
    let mut elsewhere = claim_request(lease, ALL);
    elsewhere.queues = vec!["nothing here".to_owned()];
    assert_eq!(world.store().claim_jobs_if_leased(elsewhere).await, Ok(Claimed::default()));
    assert_eq!(world.queue("default").await, [id]);
}

pub async fn c08_a_job_that_never_started_goes_back_to_its_exact_place(world: &mut World) {
    let made = some_jobs(world, 4).await;
    world.store().move_job_if_queued(made[3], Move::After(made[0])).await.expect("it is moved");
    let order = world.store().queued_jobs("default", None, ALL).await.expect("the queue can be read");
    let lease = world.node("a").await;
    let claimed = world.claim(lease, 3).await;
    let given: Vec<JobId> = claimed.iter().rev().copied().collect();
    let mut back = world.store().give_back_if_leased(lease, given.clone()).await.expect("they go back");
    back.sort();
    let mut expected = given;
    expected.sort();
    assert_eq!(back, expected);
    assert_eq!(world.store().queued_jobs("default", None, ALL).await, Ok(order));
    for id in made {
        assert_eq!((world.job(id).await.job.attempt, world.state(id).await), (1, JobState::Queued));
    }
}

pub async fn c08_only_the_holders_own_jobs_go_back(world: &mut World) {
    let made = some_jobs(world, 3).await;
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(world.claim(a, 1).await, [made[0]]);
    assert_eq!(world.claim(b, 1).await, [made[1]]);
    let back = world.store().give_back_if_leased(a, vec![made[0], made[1], made[2], JobId(nobody())]).await;
    assert_eq!(back, Ok(vec![made[0]]));
    assert_eq!(world.state(made[1]).await, JobState::Running);
    assert_eq!(world.queue("default").await, [made[0], made[2]]);
    let again = world.store().give_back_if_leased(a, vec![made[0]]).await;
    assert_eq!(again, Ok(Vec::new()), "it is not running any more");
}

pub async fn c08_a_node_leaves_when_it_runs_nothing(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("a").await;
    world.claim_one(lease).await;
    assert!(world.store().leave_if_leased(lease).await.is_err(), "not while it runs something");
    assert_eq!(world.state(id).await, JobState::Running);
    world.complete(lease, id).await;
    assert_eq!(world.store().leave_if_leased(lease).await, Ok(()));
    assert_eq!(world.counter(lease).await, None, "a node that left is not watched");
    assert_eq!(world.store().heartbeat_if_leased(lease).await, Err(StoreError::LostLease));
    let claim = world.store().claim_jobs_if_leased(claim_request(lease, 1)).await;
    assert_eq!(claim, Err(StoreError::LostLease));
}

pub async fn a06_serial_keys_hold_across_nodes_and_stores(world: &mut World) {
    let mut expected = Vec::new();
    for n in 0..30 {
        expected.push(world.enqueue(serial_job(["x", "y", "z"][n % 3])).await);
    }
    let stores = [world.store(), world.second_store().await];
    let nodes = [world.node("a").await, world.node("b").await];
    let mut ran = Vec::new();
    for turn in 0..40 {
        let (store, lease) = (&stores[turn % 2], nodes[turn % 2]);
        let claimed = store.claim_jobs_if_leased(claim_request(lease, ALL)).await.expect("claiming succeeds");
        let held = world.count("SELECT COUNT(*) FROM {running}").await;
        let keys = world.count("SELECT COUNT(DISTINCT serial_key) FROM {running}").await;
        assert_eq!(held, keys, "never two of one key");
        for claimed in claimed {
            ran.push(claimed.job.id);
            let done = vec![FinishedRun::completed(claimed.job.id)];
            store.finish_runs_if_leased(lease, done).await.expect("the report is taken");
        }
    }
    assert_eq!(ran, expected, "each key in its order");
}

pub async fn a06_only_the_head_of_a_key_is_ready(world: &mut World) {
    let made = world.enqueue_all(vec![serial_job("k"), job(), serial_job("k")]).await;
    assert_eq!(world.readiness().await, [(made[0], true), (made[1], true), (made[2], false)]);
    world.store().move_job_if_queued(made[2], Move::ToFront).await.expect("it is moved");
    assert_eq!(world.readiness().await, [(made[2], true), (made[0], false), (made[1], true)]);
    let urgent = world.enqueue(NewJob { priority: 9, ..serial_job("k") }).await;
    assert_eq!(world.readiness().await[..2], [(urgent, true), (made[2], false)]);
    let lease = world.node("a").await;
    assert_eq!(world.claim(lease, ALL).await, [urgent, made[1]]);
    assert_eq!(world.readiness().await, [(made[2], false), (made[0], false)]);
    world.store().give_back_if_leased(lease, vec![urgent]).await.expect("it goes back");
    assert_eq!(world.readiness().await, [(urgent, true), (made[2], false), (made[0], false)]);
}

pub async fn a06_a_delayed_job_joins_its_key_when_it_is_promoted(world: &mut World) {
    let first = world.enqueue(serial_job("k")).await;
    let urgent = NewJob { run_at: Some(clock_time("00:01:00")), priority: 5, ..serial_job("k") };
    let urgent = world.enqueue(urgent).await;
    assert_eq!(world.readiness().await, [(first, true)]);
    world.set_time("00:01:00");
    world.store().promote_due_jobs(ALL).await.expect("it is promoted");
    assert_eq!(world.readiness().await, [(urgent, true), (first, false)]);
}

pub async fn c11_a_reserved_queue_gives_nothing_and_keeps_its_order(world: &mut World) {
    let made = some_jobs(world, 3).await;
    let elsewhere = world.enqueue(NewJob { queue: "elsewhere".to_owned(), ..job() }).await;
    let before = world.store().queued_jobs("default", None, ALL).await;
    let lease = world.node("a").await;
    let held = world.store().reserve_queue("default", "ada", mins(5)).await.expect("the queue is free");
    assert_eq!((held.queue.as_str(), held.holder.as_str()), ("default", "ada"));
    assert_eq!((held.reserved_at, held.expires_at), (clock_time("00:00:00"), clock_time("00:05:00")));
    assert_eq!(world.claim(lease, ALL).await, [elsewhere], "other queues go on");
    assert_eq!(world.store().queued_jobs("default", None, ALL).await, before);
    assert_eq!(world.store().reservation("default").await, Ok(Some(held.clone())));
    world.reopen().await;
    assert_eq!(world.store().reservation("default").await, Ok(Some(held.clone())), "it survives a crash");
    assert_eq!(world.claim(lease, ALL).await, []);
    world.store().release_reservation(held.id).await.expect("it is released");
    assert_eq!(world.store().release_reservation(held.id).await, Ok(()), "releasing twice changes nothing");
    assert_eq!(world.store().reservation("default").await, Ok(None));
    assert_eq!(world.claim(lease, ALL).await, made);
}

pub async fn c11_a_second_reservation_is_refused_and_a_first_expires_by_itself(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("a").await;
    let first = world.store().reserve_queue("default", "ada", mins(5)).await.expect("the queue is free");
    world.set_time("00:04:59");
    let refused = world.store().reserve_queue("default", "bob", mins(5)).await;
    let (queue, holder) = ("default".to_owned(), "ada".to_owned());
    assert_eq!(refused, Err(StoreError::Reserved { queue, holder, expires_at: first.expires_at }));
    world.store().reserve_queue("elsewhere", "bob", mins(5)).await.expect("one for each queue");
    assert_eq!(world.claim(lease, ALL).await, []);
    world.set_time("00:05:00");
    assert_eq!(world.store().reservation("default").await, Ok(None), "at its end it is over");
    let second = world.store().reserve_queue("default", "bob", mins(1)).await.expect("the queue is free again");
    assert_eq!(world.claim(lease, ALL).await, []);
    world.store().release_reservation(first.id).await.expect("an old hold is released");
    assert_eq!(world.store().reservation("default").await, Ok(Some(second)), "which ends nobody else's");
    world.set_time("00:06:00");
    assert_eq!(world.claim(lease, ALL).await, [id], "nobody had to clean up");
}

pub async fn c11_an_impossible_reservation_is_refused(world: &mut World) {
    for impossible in [SignedDuration::ZERO, secs(-1)] {
        refusal(world.store().reserve_queue("default", "ada", impossible).await);
    }
    refusal(world.store().reserve_queue("", "ada", mins(1)).await);
    assert_eq!(world.store().reservation("default").await, Ok(None));
    let unknown = world.store().release_reservation(ReservationId(nobody())).await;
    assert!(matches!(unknown, Ok(()) | Err(StoreError::NotFound { .. })), "{unknown:?}");
}

pub async fn c11_a_paused_queue_gives_nothing_until_it_goes_on(world: &mut World) {
    let made = some_jobs(world, 2).await;
    let lease = world.node("a").await;
    world.store().set_queue_paused("default", true).await.expect("it is paused");
    world.store().set_queue_paused("never used", true).await.expect("a queue is made by its first use");
    assert_eq!(world.claim(lease, ALL).await, []);
    world.reopen().await;
    assert_eq!(world.claim(lease, ALL).await, [], "a pause outlives the process");
    assert_eq!(world.queue("default").await, made);
    world.store().set_queue_paused("default", false).await.expect("it goes on");
    assert_eq!(world.claim(lease, ALL).await, made);
    world.enqueue(NewJob { queue: "never used".to_owned(), ..job() }).await;
    assert_eq!(world.claim(lease, ALL).await, []);
}

/// What a stranger, a thief and a ghost have in common: a lease that is not the one that holds.
async fn false_leases(world: &World, holder: Lease) -> Vec<Lease> {
    let other = world.node("other").await;
    vec![
        foreign_lease(),
        Lease { lease_id: LeaseId(nobody()), ..holder },
        Lease { lease_id: other.lease_id, ..holder },
        Lease { lease_id: holder.lease_id, ..other },
    ]
}

pub async fn c07_a_false_lease_changes_nothing(world: &mut World) {
    let made = some_jobs(world, 2).await;
    let holder = world.node("holder").await;
    world.claim_one(holder).await;
    let false_leases = false_leases(world, holder).await;
    let before = (world.snapshot(&made).await, world.counter(holder).await);
    let store = world.store();
    for lease in false_leases {
        assert_eq!(store.heartbeat_if_leased(lease).await, Err(StoreError::LostLease), "{lease:?}");
        let claim = store.claim_jobs_if_leased(claim_request(lease, 1)).await;
        assert_eq!(claim, Err(StoreError::LostLease), "{lease:?}");
        let finish = store.finish_runs_if_leased(lease, vec![FinishedRun::completed(made[0])]).await;
        assert!(
            matches!(&finish, Err(StoreError::LostLease)) || finish == Ok(vec![FinishResult::LostLease]),
            "{finish:?}"
        );
        let back = store.give_back_if_leased(lease, vec![made[0]]).await;
        assert!(matches!(&back, Err(StoreError::LostLease)) || back == Ok(Vec::new()), "{back:?}");
        let artifact = store.add_artifacts_if_leased(lease, made[0], Vec::new()).await;
        assert_eq!(artifact, Err(StoreError::LostLease), "{lease:?}");
        assert_eq!(store.leave_if_leased(lease).await, Err(StoreError::LostLease), "{lease:?}");
        let lost = vec![LostNode { lease, counter: 0 }];
        let recovered = store.recover_lost_nodes(lost).await.expect("there is nothing to recover");
        assert_eq!(recovered.closed, [], "{lease:?}");
    }
    assert_eq!((world.snapshot(&made).await, world.counter(holder).await), before);
    world.complete(holder, made[0]).await;
}

pub async fn c07_a_job_that_another_node_runs_cannot_be_finished(world: &mut World) {
    let made = some_jobs(world, 2).await;
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(world.claim(a, 1).await, [made[0]]);
    assert_eq!(world.claim(b, 1).await, [made[1]]);
    let reports = vec![FinishedRun::completed(made[0]), FinishedRun::completed(made[1])];
    let results = world.store().finish_runs_if_leased(b, reports).await.expect("each end is judged by itself");
    assert_eq!(results, [FinishResult::LostLease, FinishResult::Closed { retry: None }]);
    assert_eq!(world.state(made[0]).await, JobState::Running);
    assert_eq!(world.state(made[1]).await, JobState::Completed);
    let unknown = world.finish(a, FinishedRun::completed(JobId(nobody()))).await;
    assert_eq!(unknown, FinishResult::LostLease);
}

pub async fn c09_a_heartbeat_counts_and_says_what_is_believed_to_run(world: &mut World) {
    let made = some_jobs(world, 2).await;
    let lease = world.node("a").await;
    let start = world.counter(lease).await.expect("a node is watched from the start");
    world.claim(lease, ALL).await;
    for n in 1..=3 {
        let beat = world.store().heartbeat_if_leased(lease).await.expect("the lease holds");
        assert_eq!((beat.counter, beat.cancel_requested.len()), (start + n, 0));
        let mut running = beat.running;
        running.sort();
        let mut expected = made.clone();
        expected.sort();
        assert_eq!(running, expected);
        assert_eq!(world.counter(lease).await, Some(start + n));
    }
    let pulses = world.store().node_pulses().await.expect("pulses can be read");
    assert_eq!(pulses.len(), 1);
    assert_eq!((pulses[0].node_id, pulses[0].name.as_str()), (lease.node_id, "a"));
    assert_eq!(pulses[0].offers, [WORK]);
}

pub async fn c09_two_nodes_of_one_name_are_two_nodes(world: &mut World) {
    let (a, b) = (world.node("twin").await, world.node("twin").await);
    assert_ne!(a.node_id, b.node_id);
    assert_ne!(a.lease_id, b.lease_id);
    assert_eq!(world.store().node_pulses().await.map(|pulses| pulses.len()), Ok(2));
}
