//! What breaks around the store: connections, the pool, the commit's answer.

use crate::harness::{Own, done, node, until_waiting};
use punctual_core::store::{Store, StoreError};
use punctual_testkit::harness::block_on;
use punctual_testkit::prelude::*;

#[test]
fn c09_heartbeats_have_a_connection_of_their_own() {
    block_on(async {
        let own = Own::with(|options| options.pool_size = 1).await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        let schedule = own.store.create_schedule(minutely("locked")).await.unwrap();
        let mut blocker = own.database.connect().await;
        let lock = blocker.transaction().await.unwrap();
        lock.execute("LOCK TABLE punctual_internal.schedule_state", &[]).await.unwrap();
        let store = own.store.clone();
        let stuck = tokio::spawn(async move { store.pause_schedule(schedule.id, None, None).await });
        until_waiting(&own, 1).await;
        // The only connection of the pool is taken, and the node keeps its lease all the same.
        for counter in 1..=3 {
            assert_eq!(own.store.heartbeat_if_leased(lease).await.unwrap().counter, counter);
        }
        lock.rollback().await.unwrap();
        stuck.await.unwrap().expect("the pause goes through when the lock is gone");
    });
}

#[test]
fn c12_a_broken_connection_is_told_and_the_next_verb_has_a_new_one() {
    block_on(async {
        let own = Own::with(|options| options.pool_size = 1).await;
        let mut blocker = own.database.connect().await;
        let lock = blocker.transaction().await.unwrap();
        lock.execute("LOCK TABLE punctual_internal.jobs", &[]).await.unwrap();
        let store = own.store.clone();
        let cut = tokio::spawn(async move { store.enqueue_jobs(vec![job()]).await });
        until_waiting(&own, 1).await;
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
        assert_eq!(own.number(end).await, 1);
        let told = cut.await.unwrap();
        assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
        lock.rollback().await.unwrap();
        assert_eq!(own.store.enqueue_jobs(vec![job()]).await.map(|made| made.len()), Ok(1));
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.jobs").await, 1);
    });
}

#[test]
fn c12_a_caller_who_goes_away_leaves_nothing_half_done() {
    block_on(async {
        let own = Own::with(|options| options.pool_size = 1).await;
        let schedule = own.store.create_schedule(minutely("left")).await.unwrap();
        let mut blocker = own.database.connect().await;
        let lock = blocker.transaction().await.unwrap();
        lock.execute("LOCK TABLE punctual_internal.schedule_state", &[]).await.unwrap();
        let store = own.store.clone();
        let gone = tokio::spawn(async move { store.pause_schedule(schedule.id, None, None).await });
        until_waiting(&own, 1).await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        lock.rollback().await.unwrap();
        assert!(own.store.schedule(&schedule.id.into()).await.unwrap().unwrap().state.enabled);
        let lease = own.store.register_node(node("a")).await.unwrap();
        let id = own.store.enqueue_jobs(vec![job()]).await.unwrap()[0];
        assert_eq!(own.store.claim_jobs_if_leased(claim_request(lease, 1)).await.unwrap()[0].job.id, id);
    });
}

#[test]
fn c12_deadlocks_are_tried_again_and_not_told() {
    block_on(async {
        let own = Own::with(|options| options.pool_size = 4).await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        let made = own.store.enqueue_jobs(vec![job(); 2]).await.unwrap();
        own.store.claim_jobs_if_leased(claim_request(lease, 2)).await.unwrap();
        // Somebody by hand locks the second row, and wants the first when the store has it: one of the two gives way.
        let client = own.database.connect().await;
        let touch = |id: punctual_core::id::JobId| {
            format!("UPDATE punctual_internal.running SET claim_id = claim_id WHERE job_id = '{id}'")
        };
        let (mut first, mut second) = (made[0], made[1]);
        let order = client.query_one("SELECT job_id FROM punctual_internal.running LIMIT 1", &[]).await.unwrap();
        if order.get::<_, uuid::Uuid>(0) == second.0 {
            (first, second) = (second, first);
        }
        client.batch_execute("BEGIN; SET LOCAL deadlock_timeout = '60s'").await.unwrap();
        client.batch_execute(&touch(second)).await.unwrap();
        let store = own.store.clone();
        let finishing =
            tokio::spawn(async move { store.finish_runs_if_leased(lease, vec![done(made[0]), done(made[1])]).await });
        // In one call to the server: the store looks for a deadlock once, a second after it began to wait, and the
        // deadlock must be there by then, however busy this machine is.
        let when_somebody_waits = format!(
            "DO $$ BEGIN
               WHILE NOT EXISTS (SELECT 1 FROM pg_stat_activity
                                 WHERE datname = current_database() AND wait_event_type = 'Lock') LOOP
                 PERFORM pg_sleep(0.005), pg_stat_clear_snapshot();
               END LOOP;
               {};
             END $$",
            touch(first)
        );
        let by_hand = client.batch_execute(&when_somebody_waits).await;
        by_hand.expect("the store gives way, because it looks for deadlocks sooner");
        client.batch_execute("COMMIT").await.unwrap();
        assert_eq!(finishing.await.unwrap().map(|results| results.len()), Ok(2));
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.runs").await, 2);
    });
}

#[test]
fn c01_a_commit_waits_for_the_disk_as_the_server_is_told_to() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let client = own.database.connect().await;
        // A trigger sees the settings of the session in which the store writes.
        let watch = "CREATE TABLE public.seen (name text, source text);
            CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
              INSERT INTO public.seen SELECT name, source FROM pg_settings
              WHERE name IN ('synchronous_commit', 'commit_delay', 'default_transaction_deferrable');
              RETURN NULL; END $$;
            CREATE TRIGGER see AFTER INSERT ON punctual_internal.jobs EXECUTE FUNCTION public.see();
            CREATE TRIGGER see AFTER INSERT ON punctual_internal.runs EXECUTE FUNCTION public.see()";
        client.batch_execute(watch).await.unwrap();
        let lease = own.store.register_node(node("a")).await.unwrap();
        let id = own.store.enqueue_jobs(vec![job()]).await.unwrap()[0];
        own.store.claim_jobs_if_leased(claim_request(lease, 1)).await.unwrap();
        own.store.finish_runs_if_leased(lease, vec![done(id)]).await.unwrap();
        assert_eq!(own.number("SELECT count(DISTINCT name) FROM seen").await, 3);
        let own_way = "SELECT count(*) FROM seen WHERE source IN ('client', 'session', 'user', 'database')";
        assert_eq!(own.number(own_way).await, 0, "the store changes none of them");
    });
}
