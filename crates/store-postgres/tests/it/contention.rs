//! Many connections at once: each slot and each job goes to one, and nobody is told of a conflict.

use crate::harness::{Own, done, node, options};
use jiff::SignedDuration;
use punctual_core::id::JobId;
use punctual_core::job::NewJob;
use punctual_core::order::Move;
use punctual_core::readings::Readings;
use punctual_core::store::{Cancelled, Store, StoreError};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::harness::block_on;
use punctual_testkit::prelude::*;
use std::collections::BTreeSet;

/// As many stores on one database as there are nodes: one alone fires only so many batches at once.
async fn stores(own: &Own, count: usize) -> Vec<PostgresStore> {
    let mut stores = Vec::with_capacity(count);
    while stores.len() < count {
        let options = PostgresOptions { pool_size: 1, ..options(own.clock.clone()) };
        stores.push(PostgresStore::connect(&own.database.url(), options).await.expect("a node comes"));
    }
    stores
}

async fn fire_at_once(stores: &[PostgresStore], limit: usize) -> Vec<Vec<JobId>> {
    let tasks: Vec<_> = stores
        .iter()
        .map(|store| {
            let store = store.clone();
            tokio::spawn(async move { store.fire_due(None, limit).await.expect("firing succeeds").jobs })
        })
        .collect();
    let mut fired = Vec::new();
    for task in tasks {
        fired.push(task.await.expect("a node ends"));
    }
    fired
}

#[test]
fn d01_of_ten_connections_exactly_one_fires_a_due_schedule_a_thousand_times_over() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let stores = stores(&own, 10).await;
        let schedule = own.store.create_schedule(every("contended", 60)).await.unwrap();
        for round in 0..1000 {
            own.clock.advance(SignedDuration::from_secs(60));
            let fired = fire_at_once(&stores, 10).await;
            let winners = fired.iter().filter(|jobs| !jobs.is_empty()).count();
            assert_eq!((winners, fired.concat().len()), (1, 1), "round {round}");
        }
        let slots = own.store.slots(schedule.id, None, ALL).await.unwrap();
        assert_eq!(slots.len(), 1000);
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.jobs").await, 1000);
    });
}

#[test]
fn d01_fifty_claimers_on_a_thousand_due_schedules_fire_each_slot_once() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let stores = stores(&own, 50).await;
        for n in 0..1000 {
            own.store.create_schedule(minutely(&format!("s{n}"))).await.unwrap();
        }
        own.clock.advance(mins(1));
        let mut fired = fire_at_once(&stores, 50).await.concat();
        // Rows that were locked at that very moment were passed over; they are still due.
        while fired.len() < 1000 {
            let more = fire_at_once(&stores, 50).await.concat();
            assert!(!more.is_empty(), "{} slots fired, and no more", fired.len());
            fired.extend(more);
        }
        assert_eq!(fired.iter().collect::<BTreeSet<_>>().len(), 1000);
        let slots =
            "SELECT count(DISTINCT (schedule_id, slot_at)) FROM punctual_internal.slots WHERE decision = 'fired'";
        assert_eq!(own.number(slots).await, 1000);
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.queue").await, 1000);
    });
}

/// However many fire by one store, they leave its connections to others.
#[test]
fn e07_many_who_fire_by_one_store_take_few_of_its_connections() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        for n in 0..50 {
            own.store.create_schedule(minutely(&format!("s{n}"))).await.unwrap();
        }
        own.clock.advance(mins(1));
        let fired = fire_at_once(&vec![own.store.clone(); 20], 5).await.concat();
        assert_eq!(fired.len(), 50, "each waited for its turn");
        let open = own.store.pool_figures().expect("there is a pool").open;
        assert!(open <= 3, "{open} connections were needed");
    });
}

#[test]
fn c07_several_lanes_are_claimed_in_queue_order_by_several_at_once() {
    block_on(async {
        let own = Own::with(|options| options.pool_size = 8).await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        let mut specs = Vec::new();
        for n in 0..600 {
            let queue = format!("q{}", n % 3);
            specs.push(NewJob { queue, priority: n % 2, ..job() });
        }
        let made = own.store.enqueue_jobs(specs).await.unwrap();
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let store = own.store.clone();
                tokio::spawn(async move {
                    let mut mine = Vec::new();
                    loop {
                        let claimed = store.claim_jobs_if_leased(claim_request(lease, 7)).await.expect("a claim");
                        if claimed.is_empty() {
                            return mine;
                        }
                        let priorities: Vec<i32> = claimed.iter().map(|claimed| claimed.job.spec.priority).collect();
                        assert!(priorities.is_sorted_by(|one, next| one >= next), "{priorities:?}");
                        mine.extend(claimed.into_iter().map(|claimed| claimed.job.id));
                    }
                })
            })
            .collect();
        let mut claimed = Vec::new();
        for task in tasks {
            claimed.extend(task.await.unwrap());
        }
        assert_eq!(claimed.len(), 600);
        assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), made.into_iter().collect());
    });
}

/// One caller among several who do everything to jobs of a few serial keys.
async fn meddle(store: PostgresStore, caller: usize) -> Result<(), StoreError> {
    let lease = store.register_node(node(&format!("n{caller}"))).await?;
    for round in 0..15 {
        let keys = [format!("k{}", (caller + round) % 3), format!("k{}", round % 2)];
        let specs = vec![serial_job(&keys[0]), job(), serial_job(&keys[1])];
        let made = store.enqueue_jobs(specs).await?;
        match store.move_job_if_queued(made[2], Move::ToFront).await {
            Ok(_) | Err(StoreError::WrongState { .. }) => {}
            Err(error) => return Err(error),
        }
        if round % 3 == 0 {
            match store.cancel_job(made[0]).await {
                Ok(Cancelled::BeforeStart | Cancelled::Requested) | Err(StoreError::WrongState { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let claimed = store.claim_jobs_if_leased(claim_request(lease, 4)).await?;
        let mut ids: Vec<JobId> = claimed.iter().map(|claimed| claimed.job.id).collect();
        if round % 4 == 1 {
            let given = store.give_back_if_leased(lease, ids.clone()).await?;
            ids.retain(|id| !given.contains(id));
        }
        store.finish_runs_if_leased(lease, ids.into_iter().map(done).collect()).await?;
    }
    Ok(())
}

#[test]
fn a06_serial_keys_hold_whatever_eight_nodes_do_at_once() {
    block_on(async {
        let own = Own::with(|options| options.pool_size = 8).await;
        let tasks: Vec<_> = (0..8).map(|caller| tokio::spawn(meddle(own.store.clone(), caller))).collect();
        for task in tasks {
            task.await.unwrap().expect("nobody is told of a conflict");
        }
        // Whatever is left can be drained: no key is stuck, and no key has two heads.
        let lease = own.store.register_node(node("last")).await.unwrap();
        loop {
            let claimed = own.store.claim_jobs_if_leased(claim_request(lease, ALL)).await.unwrap();
            if claimed.is_empty() {
                break;
            }
            let keys: Vec<_> = claimed.iter().filter_map(|claimed| claimed.job.spec.serial_key.clone()).collect();
            assert_eq!(keys.len(), keys.iter().collect::<BTreeSet<_>>().len(), "{keys:?}");
            let ends = claimed.iter().map(|claimed| done(claimed.job.id)).collect();
            own.store.finish_runs_if_leased(lease, ends).await.unwrap();
        }
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.queue").await, 0);
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.running").await, 0);
        let open = "SELECT count(*) FROM punctual_internal.jobs AS j
                    WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.runs WHERE job_id = j.id)";
        assert_eq!(own.number(open).await, 0);
    });
}
