//! Callers that enqueue at once: they share transactions, and nothing else.

use crate::harness::Own;
use punctual_core::id::JobId;
use punctual_core::job::NewJob;
use punctual_core::store::{Store, StoreResult};
use punctual_testkit::harness::block_on;
use punctual_testkit::prelude::*;

const CALLERS: usize = 64;

fn input(caller: usize, part: usize) -> String {
    format!("{{\"caller\":{caller},\"part\":{part}}}")
}

/// What each of many callers is told who enqueue two jobs at the same time.
async fn enqueue_at_once(own: &Own) -> Vec<StoreResult<Vec<JobId>>> {
    let tasks: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let store = own.store.clone();
            let jobs = (0..2).map(|part| NewJob { input: json(&input(caller, part)), ..job() }).collect();
            tokio::spawn(async move { store.enqueue_jobs(jobs).await })
        })
        .collect();
    let mut told = Vec::new();
    for task in tasks {
        told.push(task.await.expect("a caller ends"));
    }
    told
}

#[test]
fn c03_callers_at_once_share_transactions_and_each_is_told_of_his_own_jobs() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        for (caller, told) in enqueue_at_once(&own).await.into_iter().enumerate() {
            for (part, id) in told.expect("nothing stands in the way").into_iter().enumerate() {
                let view = own.store.job(id).await.unwrap().expect("it is there");
                assert_eq!(view.job.spec.input.as_str(), input(caller, part));
            }
        }
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.queue").await, 2 * 64);
        let transactions = own.number("SELECT count(DISTINCT xmin::text) FROM punctual_internal.jobs").await;
        assert!(transactions < 20, "{transactions} transactions");
    });
}

#[test]
fn c03_what_one_caller_is_refused_costs_the_others_nothing() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                      BEGIN
                        IF NEW.input ->> 'caller' = '20' AND NEW.input ->> 'part' = '1' THEN RAISE 'refused'; END IF;
                        RETURN NEW;
                      END $$;
                      CREATE TRIGGER refuse BEFORE INSERT ON punctual_internal.jobs
                      FOR EACH ROW EXECUTE FUNCTION refuse();";
        own.database.connect().await.batch_execute(refuse).await.unwrap();
        for (caller, told) in enqueue_at_once(&own).await.into_iter().enumerate() {
            assert_eq!(told.is_err(), caller == 20, "{caller}: {told:?}");
        }
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.jobs").await, 2 * 63);
    });
}
