//! Wake-ups from node to node: heard where they are waited for, and not sent where nobody waits.

use crate::harness::{Own, broken, done, fresh_database, node, options, retry_of};
use punctual_core::job::NewJob;
use punctual_core::limits::{Limit, LimitSubject, Limits};
use punctual_core::store::{Changes, Clock, Lease, Store};
use punctual_core::upkeep::Upkeep;
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::VirtualClock;
use punctual_testkit::harness::block_on;
use punctual_testkit::postgres::{Database, PgBouncer};
use punctual_testkit::prelude::*;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// Somebody who hears every notification there is.
struct Ear {
    client: Client,
    heard: mpsc::UnboundedReceiver<String>,
}

impl Ear {
    async fn at(database: &Database) -> Self {
        let (client, mut connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
        let (tell, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    tell.send(notification.payload().to_owned()).unwrap();
                }
            }
        });
        client.batch_execute("LISTEN punctual_wake").await.unwrap();
        Self { client, heard }
    }

    /// How many were sent since the last time this was asked. They come in the order of the commits, so that all there
    /// are have come when this one has.
    async fn count(&mut self) -> usize {
        self.client.batch_execute("NOTIFY punctual_wake, 'counted'").await.unwrap();
        let mut count = 0;
        while self.heard.recv().await.unwrap() != "counted" {
            count += 1;
        }
        count
    }
}

async fn woken(changes: &mut Box<dyn Changes>) {
    tokio::time::timeout(Duration::from_secs(20), changes.next()).await.expect("it is woken");
}

async fn claim(own: &Own, lease: Lease, limit: usize) -> usize {
    own.store.claim_jobs_if_leased(claim_request(lease, limit)).await.unwrap().len()
}

#[test]
fn d13_nobody_is_told_of_work_while_nobody_waits_for_it() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let mut ear = Ear::at(&own.database).await;
        own.store.create_schedule(minutely("s")).await.unwrap();
        own.store.enqueue_jobs(vec![job(), job(), serial_job("k"), serial_job("k"), job()]).await.unwrap();
        assert_eq!(ear.count().await, 0, "there is no node");
        let lease = own.store.register_node(node("a")).await.unwrap();
        assert_eq!(claim(&own, lease, 3).await, 3, "as many as it asked for: it is busy");
        own.store.enqueue_jobs((0..200).map(|_| job()).collect()).await.unwrap();
        own.clock.advance(mins(1));
        assert_eq!(own.store.fire_due(None, ALL).await.unwrap().jobs.len(), 1);
        let ends = own.store.heartbeat_if_leased(lease).await.unwrap().running.into_iter().map(done).collect();
        own.store.finish_runs_if_leased(lease, ends).await.unwrap();
        own.store.promote_due_jobs(ALL).await.unwrap();
        assert_eq!(ear.count().await, 0, "its only node is busy");
    });
}

#[test]
fn d13_who_waits_is_told_once_until_he_has_looked() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let mut ear = Ear::at(&own.database).await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        assert_eq!(claim(&own, lease, 5).await, 0, "it waits from now on");
        for _ in 0..4 {
            own.store.enqueue_jobs((0..50).map(|_| job()).collect()).await.unwrap();
        }
        assert_eq!(ear.count().await, 1, "it is told once");
        assert_eq!(claim(&own, lease, 150).await, 150);
        own.store.enqueue_jobs(vec![job()]).await.unwrap();
        assert_eq!(ear.count().await, 0, "it is busy");
        assert_eq!(claim(&own, lease, 150).await, 51, "less than it asked for");
        own.store.enqueue_jobs(vec![job(), serial_job("k"), serial_job("k")]).await.unwrap();
        assert_eq!(ear.count().await, 1, "it waits for more");
        assert_eq!(claim(&own, lease, 150).await, 2);
        own.store.promote_due_jobs(ALL).await.unwrap();
        assert_eq!(ear.count().await, 0, "nothing was promoted");
        let ends = own.store.heartbeat_if_leased(lease).await.unwrap().running.into_iter().map(done).collect();
        own.store.finish_runs_if_leased(lease, ends).await.unwrap();
        assert_eq!(ear.count().await, 1, "the next job of the key may run");
    });
}

#[test]
fn d13_who_makes_work_waits_for_no_other_transaction_to_tell_of_it() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        assert_eq!(claim(&own, lease, 5).await, 0);
        // Somebody else tells the node, and does not commit.
        let mut other = own.database.connect().await;
        let open = other.transaction().await.unwrap();
        let tell = "SELECT setval('punctual_internal.told', last_value), pg_notify('punctual_wake', '')
                    FROM punctual_internal.waits";
        open.execute(tell, &[]).await.unwrap();
        own.store.enqueue_jobs(vec![job()]).await.unwrap();
        own.store.heartbeat_if_leased(lease).await.expect("no lock of it is held");
        assert_eq!(claim(&own, lease, 5).await, 1);
        open.rollback().await.unwrap();
        let mut ear = Ear::at(&own.database).await;
        own.store.enqueue_jobs(vec![job()]).await.unwrap();
        assert_eq!(ear.count().await, 1, "what was lost with it is made up for by the next look");
    });
}

/// The node that finishes may not be the one that could take the next: whoever waits is told.
#[test]
fn c14_who_waits_for_a_place_that_a_limit_kept_is_told_when_it_is_free() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let mut ear = Ear::at(&own.database).await;
        let (a, b) =
            (own.store.register_node(node("a")).await.unwrap(), own.store.register_node(node("b")).await.unwrap());
        let made = own.store.enqueue_jobs(vec![job(), job(), retried_job(3, mins(1)), job()]).await.unwrap();
        assert_eq!((claim(&own, a, 1).await, claim(&own, b, 2).await), (1, 2), "nobody waits");
        own.store.finish_runs_if_leased(a, vec![done(made[0])]).await.unwrap();
        assert_eq!(ear.count().await, 0, "without limits an end makes room for nobody");
        let one = Limit { concurrency: Some(1), ..Limit::on(LimitSubject::All) };
        own.store.set_limit(one).await.unwrap();
        assert_eq!(claim(&own, b, 1).await, 0, "it waits now");
        ear.count().await;
        own.store.finish_runs_if_leased(b, vec![done(made[1])]).await.unwrap();
        assert_eq!(ear.count().await, 1, "an end that nothing follows from");
        assert_eq!(claim(&own, a, 1).await, 0, "another one still runs");
        own.store.finish_runs_if_leased(b, vec![broken(made[2])]).await.unwrap();
        assert_eq!(ear.count().await, 1, "and one that has to be judged");
        assert_eq!(claim(&own, a, 1).await, 1);
    });
}

#[test]
fn d13_plans_are_told_when_they_come_before_all_others() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let mut ear = Ear::at(&own.database).await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        own.store.enqueue_jobs(vec![job()]).await.unwrap();
        assert_eq!(claim(&own, lease, 1).await, 1, "it is busy");
        let delayed = |minutes| NewJob { run_at: Some(own.clock.now() + mins(minutes)), ..job() };
        own.store.enqueue_jobs(vec![delayed(20), delayed(30)]).await.unwrap();
        assert_eq!(ear.count().await, 1, "nothing was to be promoted before");
        own.store.enqueue_jobs(vec![delayed(25)]).await.unwrap();
        assert_eq!(ear.count().await, 0, "whoever promotes looks again before that");
        own.store.enqueue_jobs(vec![delayed(10), job()]).await.unwrap();
        assert_eq!(ear.count().await, 1);
        own.store.create_schedule(minutely("first")).await.unwrap();
        assert_eq!(ear.count().await, 1);
        own.store.create_schedule(minutely("second")).await.unwrap();
        assert_eq!(ear.count().await, 0, "whoever fires looks at that very time");
        let first = own.store.schedules(None, 1).await.unwrap().remove(0);
        own.store.reschedule(first.id, own.clock.now() + secs(20)).await.unwrap();
        assert_eq!(ear.count().await, 1);
    });
}

#[test]
fn d13_other_nodes_are_told_of_what_fires_and_of_what_an_end_makes_ready() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let second = PostgresStore::connect(&own.database.url(), options(own.clock.clone())).await.unwrap();
        let mut changes = second.changes();
        woken(&mut changes).await; // It listens now.
        let lease = own.store.register_node(node("a")).await.unwrap();
        own.store.create_schedule(minutely("told")).await.unwrap();
        woken(&mut changes).await;
        assert_eq!(claim(&own, lease, ALL).await, 0, "it waits");
        own.clock.advance(mins(1));
        own.store.fire_due(None, ALL).await.unwrap();
        woken(&mut changes).await;
        assert_eq!(claim(&own, lease, ALL).await, 1);
        let made = own.store.enqueue_jobs(vec![retried_job(3, SHORTEST_WAIT), serial_job("k"), serial_job("k")]).await;
        let made = made.unwrap();
        woken(&mut changes).await;
        assert_eq!(claim(&own, lease, ALL).await, 2);
        let ended = own.store.finish_runs_if_leased(lease, vec![broken(made[0])]).await.unwrap();
        retry_of(&ended[0]);
        woken(&mut changes).await;
        assert_eq!(claim(&own, lease, ALL).await, 0);
        own.store.finish_runs_if_leased(lease, vec![done(made[1])]).await.unwrap();
        woken(&mut changes).await;
    });
}

/// A thousand slots that fire make work and no plan: whoever looks after plans would only get into the way of the claims.
#[test]
fn d13_whoever_looks_after_plans_is_not_woken_by_work() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let second = PostgresStore::connect(&own.database.url(), options(own.clock.clone())).await.unwrap();
        let (mut changes, mut plans) = (second.changes(), second.plan_changes());
        woken(&mut changes).await; // It listens now.
        woken(&mut plans).await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        own.store.create_schedule(minutely("told")).await.unwrap();
        woken(&mut plans).await;
        woken(&mut changes).await;
        own.clock.advance(mins(1));
        for makes_work in ["fires", "enqueues one", "enqueues some"] {
            assert_eq!(claim(&own, lease, ALL).await, 0, "it waits");
            match makes_work {
                "fires" => drop(own.store.fire_due(None, ALL).await.unwrap()),
                "enqueues one" => drop(own.store.enqueue_jobs(vec![job()]).await.unwrap()),
                _ => drop(own.store.enqueue_jobs(vec![job(), job()]).await.unwrap()),
            }
            woken(&mut changes).await;
            let at_once = tokio::time::timeout(Duration::ZERO, plans.next()).await;
            assert!(at_once.is_err(), "nothing is due earlier than before when somebody {makes_work}");
            assert!(claim(&own, lease, 2).await > 0);
        }
        own.store.create_schedule(every("earlier", 5)).await.unwrap();
        woken(&mut plans).await;
    });
}

#[test]
fn d13_behind_a_pooler_notifications_come_by_the_direct_address_or_not_at_all() {
    let deaf = crate::harness::until_told("notifications do not come through");
    block_on(async {
        let database = fresh_database().await;
        let pooler = PgBouncer::start(&database, 2);
        let clock = Arc::new(VirtualClock::new());
        let connect = |direct_url| {
            let options = PostgresOptions { direct_url, pool_size: 2, ..options(clock.clone()) };
            async { PostgresStore::connect(pooler.url(), options).await.unwrap() }
        };
        let (here, there) = (connect(None).await, connect(Some(database.url())).await);
        let mut changes = there.changes();
        woken(&mut changes).await; // It listens now.
        let lease = here.register_node(node("a")).await.unwrap();
        assert!(here.claim_jobs_if_leased(claim_request(lease, 1)).await.unwrap().is_empty());
        here.enqueue_jobs(vec![job()]).await.unwrap();
        woken(&mut changes).await;
        // The other one finds out that it hears nothing, and goes on without.
        let _polls = here.changes();
        deaf.await;
        here.enqueue_jobs(vec![job()]).await.unwrap();
    });
}
