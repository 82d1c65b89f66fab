//! Partitions: made ahead of time, dropped as a whole, and nothing that must stay goes with them.

use crate::harness::{Own, broken, done, fresh_database, node, retry_of};
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob};
use punctual_core::store::{Clock, Pruned, Retention, Store};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::harness::block_on;
use punctual_testkit::prelude::*;
use std::time::Duration;

pub const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// A store whose partitions hold an hour each. The template has one partition for ten years; it is put aside, so that
/// this store begins with small ones.
pub async fn hourly_partitions() -> Own {
    let own = Own::with(|_| {}).await;
    let client = own.database.connect().await;
    let names = client.query("SELECT name FROM punctual_internal.partitions", &[]).await.unwrap();
    for name in names.iter().map(|row| row.get::<_, String>(0)) {
        client.batch_execute(&format!("DROP TABLE punctual_internal.{name}")).await.unwrap();
    }
    client.batch_execute("DELETE FROM punctual_internal.partitions").await.unwrap();
    let options =
        PostgresOptions { clock: Some(own.clock.clone()), partition_span: HOUR, ..PostgresOptions::default() };
    let store = PostgresStore::connect(&own.database.url(), options).await.unwrap();
    Own { store, ..own }
}

pub async fn prune(own: &Own, before: Timestamp) -> Pruned {
    let retention = Retention::before(before, 100);
    own.store.prune_history(retention).await.unwrap()
}

pub async fn partitions(own: &Own, parent: &str) -> i64 {
    own.number(&format!("SELECT count(*) FROM punctual_internal.partitions WHERE parent = '{parent}'")).await
}

async fn partitions_before(own: &Own, mark: Timestamp) -> i64 {
    let mark = mark.as_microsecond();
    let old = format!("to_at <= 'epoch'::timestamptz + {mark} * interval '1 microsecond'");
    own.number(&format!("SELECT count(*) FROM punctual_internal.partitions WHERE {old}")).await
}

async fn state(own: &Own, id: JobId) -> Option<JobState> {
    own.store.job(id).await.unwrap().map(|view| view.state())
}

#[test]
fn c13_a_partition_is_dropped_and_what_must_stay_stays() {
    block_on(async {
        let own = hourly_partitions().await;
        let store = &own.store;
        let schedule = store.create_schedule(minutely("slots")).await.unwrap();
        let lease = store.register_node(node("a")).await.unwrap();
        let in_a_year = own.clock.now() + SignedDuration::from_hours(24 * 365);
        let specs = vec![
            job(),
            NewJob { run_at: Some(in_a_year), ..job() },
            retried_job(5, SHORTEST_WAIT),
            NewJob { queue: "waits".to_owned(), ..job() },
            job(),
        ];
        let made = store.enqueue_jobs(specs).await.unwrap();
        let (ended, delayed, failed, waits, runs) = (made[0], made[1], made[2], made[3], made[4]);
        own.clock.advance(mins(1));
        let fired = store.fire_due(None, ALL).await.unwrap().jobs[0];
        let mut request = claim_request(lease, ALL);
        request.queues = vec!["default".to_owned()];
        assert_eq!(store.claim_jobs_if_leased(request).await.unwrap().len(), 4);
        let ends = vec![done(ended), broken(failed), done(fired)];
        let results = store.finish_runs_if_leased(lease, ends).await.unwrap();
        let retry = retry_of(&results[1]);
        own.clock.advance(SignedDuration::from_hours(5));
        // The mark lies behind the whole first partition: what ended in it goes, whatever else was born in it stays.
        let mark = own.clock.now() - HOUR * 2;
        assert!(partitions_before(&own, mark).await > 0);
        assert_eq!(prune(&own, mark).await, Pruned { jobs: 2, slots: 1, ..Pruned::default() });
        assert_eq!(partitions_before(&own, mark).await, 0, "the old partitions are gone");
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.jobs_kept").await, 5);
        assert_eq!((state(&own, ended).await, state(&own, fired).await), (None, None));
        assert_eq!(state(&own, delayed).await, Some(JobState::Scheduled));
        assert_eq!(state(&own, waits).await, Some(JobState::Queued));
        assert_eq!(state(&own, runs).await, Some(JobState::Running));
        assert_eq!(state(&own, failed).await, Some(JobState::Failed), "its chain goes on");
        assert_eq!(state(&own, retry).await, Some(JobState::Scheduled));
        assert_eq!(store.schedule_jobs(schedule.id, None, ALL).await.unwrap(), []);
        // What was carried over lives on: it runs, ends and is forgotten like any other.
        store.finish_runs_if_leased(lease, vec![done(runs)]).await.unwrap();
        assert_eq!(store.promote_due_jobs(ALL).await, Ok(1));
        let claimed = store.claim_jobs_if_leased(claim_request(lease, ALL)).await.unwrap();
        let ids: Vec<JobId> = claimed.iter().map(|claimed| claimed.job.id).collect();
        assert_eq!(ids, [waits, retry]);
        store.finish_runs_if_leased(lease, vec![done(waits), done(retry)]).await.unwrap();
        own.clock.advance(SignedDuration::from_hours(24 * 366));
        assert_eq!(store.promote_due_jobs(ALL).await, Ok(1));
        assert_eq!(state(&own, delayed).await, Some(JobState::Queued));
        let gone = prune(&own, own.clock.now()).await.jobs + prune(&own, own.clock.now()).await.jobs;
        assert_eq!(gone, 4, "all but the one that was delayed for a year");
    });
}

#[test]
fn c13_a_partition_of_which_too_much_must_stay_is_pruned_by_row() {
    block_on(async {
        let own = hourly_partitions().await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        let made = own.store.enqueue_jobs(vec![job(); 30]).await.unwrap();
        own.store.claim_jobs_if_leased(claim_request(lease, 10)).await.unwrap();
        own.store.finish_runs_if_leased(lease, made[..10].iter().map(|id| done(*id)).collect()).await.unwrap();
        own.clock.advance(SignedDuration::from_hours(5));
        let retention = Retention::before(own.clock.now(), 8);
        let mut steps = Vec::new();
        for _ in 0..3 {
            steps.push(own.store.prune_history(retention).await.unwrap().jobs);
        }
        assert_eq!(steps, [8, 2, 0], "20 must stay, which is more than one call carries");
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.jobs_kept").await, 0);
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.jobs").await, 20);
    });
}

#[test]
fn c13_partitions_are_made_ahead_of_time_and_no_insert_fails_without_one() {
    block_on(async {
        let own = hourly_partitions().await;
        assert_eq!(partitions(&own, "jobs").await, 3);
        // A jump over all partitions there are: the default one takes the row, and new ones are made meanwhile.
        own.clock.advance(SignedDuration::from_hours(100));
        let early = own.store.enqueue_jobs(vec![job()]).await.unwrap()[0];
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.jobs_kept").await, 1);
        for _ in 0..200 {
            if partitions(&own, "slots").await > 3 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(partitions(&own, "runs").await > 3, "partitions of the new time are made");
        own.clock.advance(HOUR);
        let late = own.store.enqueue_jobs(vec![job()]).await.unwrap()[0];
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.jobs_kept").await, 1);
        for id in [early, late] {
            assert_eq!(state(&own, id).await, Some(JobState::Queued));
        }
    });
}

#[test]
fn c13_too_short_a_span_is_refused() {
    block_on(async {
        let database = fresh_database().await;
        let options = PostgresOptions { partition_span: SignedDuration::from_secs(1), ..PostgresOptions::default() };
        let refused = PostgresStore::connect(&database.url(), options).await.map(|_| ());
        assert_eq!(refusal(refused).field, "partition_span");
    });
}

#[test]
fn c13_a_partition_keeps_failed_runs_and_the_latest_of_a_schedule() {
    block_on(async {
        let own = hourly_partitions().await;
        let schedule = own.store.create_schedule(minutely("kept")).await.unwrap();
        let lease = own.store.register_node(node("a")).await.unwrap();
        let mut fired = Vec::new();
        for _ in 0..4 {
            own.clock.advance(mins(1));
            fired.extend(own.store.fire_due(None, ALL).await.unwrap().jobs);
        }
        let spec = NewJob { retry: no_retry(), ..job() };
        let others = own.store.enqueue_jobs(vec![spec.clone(), spec]).await.unwrap();
        own.store.claim_jobs_if_leased(claim_request(lease, ALL)).await.unwrap();
        let mut ends: Vec<_> = fired.iter().map(|id| done(*id)).collect();
        ends.extend([broken(others[0]), done(others[1])]);
        own.store.finish_runs_if_leased(lease, ends).await.unwrap();
        own.clock.advance(SignedDuration::from_hours(5));
        let mark = own.clock.now() - HOUR;
        let retention = Retention { failed_before: Timestamp::MIN, keep_last: 2, ..Retention::before(mark, 100) };
        assert!(partitions_before(&own, mark).await > 0);
        assert_eq!(own.store.prune_history(retention).await.unwrap().jobs, 3);
        assert_eq!(partitions_before(&own, mark).await, 0, "the old partitions are gone");
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.jobs_kept").await, 3);
        let kept: Vec<JobId> =
            own.store.schedule_jobs(schedule.id, None, ALL).await.unwrap().iter().map(|view| view.job.id).collect();
        assert_eq!(kept, [fired[3], fired[2]]);
        assert_eq!(state(&own, others[0]).await, Some(JobState::Failed));
        assert_eq!(state(&own, others[1]).await, None);
    });
}
