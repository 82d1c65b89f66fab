//! Enqueueing inside the caller's own transaction: the database's function does what the store's verb does.

use crate::harness::{Own, done, node, until_waiting};
use punctual_core::control::Control;
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob, Timeout, Whereabouts};
use punctual_core::job_key::{JobKey, JobKeyMode};
use punctual_core::run::Trigger;
use punctual_core::store::{Store, StoreResult};
use punctual_core::target::Target;
use punctual_core::unique::Unique;
use punctual_store_postgres::join;
use punctual_testkit::harness::block_on;
use punctual_testkit::prelude::*;
use tokio_postgres::Transaction;

/// The database's own clock, which is what a caller's transaction has.
async fn own() -> Own {
    Own::with(|options| options.clock = None).await
}

async fn enqueue_in(transaction: &Transaction<'_>, jobs: &[NewJob]) -> StoreResult<Vec<JobId>> {
    let document = join::document(jobs)?;
    let rows = transaction.query(join::ENQUEUE, &[&document]).await.map_err(|error| join::driver_error(&error))?;
    join::ids(rows.iter().map(|row| row.get(0)))
}

/// Everything that a job can be asked for with.
fn rich_jobs() -> Vec<NewJob> {
    let keyed = |key: &str, mode| Some(JobKey { key: key.to_owned(), mode });
    vec![
        job(),
        NewJob {
            // Every field is named, so that a new one cannot be forgotten here.
            target: Target::command(["echo", "ü 'quoted' \"twice\" \\u0041"]),
            input: json("{ \"b\" :1.0e+2,\"a\": [ 12345678901234567890.10 ,\"\\u00e9\"],\"b\":null }"),
            queue: "spät \"q\"".to_owned(),
            priority: i32::MIN,
            run_at: Some(instant("2999-01-01T00:00:00.000001Z")),
            serial_key: Some("s:1".to_owned()),
            tags: vec!["b".to_owned(), "a \"x\"".to_owned()],
            retry: retry(9, secs(3)),
            timeout: Timeout::Never,
            template_id: Some(nobody().into()),
            grant_id: Some(nobody().into()),
            trigger_detail: Some("by 'test'".to_owned()),
            trace_context: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
            trigger: Trigger::Manual,
            job_key: keyed("k:0", JobKeyMode::Replace),
            // About its making alone: it is not kept.
            unique: None,
            owner: Some("ada \"x\"".to_owned()),
        },
        NewJob { input: json("null"), run_at: Some(instant("1999-01-01T00:00:00Z")), ..serial_job("s:2") },
        serial_job("s:2"),
        NewJob { timeout: Timeout::After(secs(5)), job_key: keyed("k:1", JobKeyMode::PreserveRunAt), ..job() },
        NewJob { job_key: keyed("k:2", JobKeyMode::UnsafeDedupe), ..serial_job("s:2") },
    ]
}

/// What of a job does not depend on when it was made.
async fn lasting(own: &Own, id: JobId) -> (NewJob, JobState, Option<bool>) {
    let view = own.store.job(id).await.unwrap().unwrap();
    let ready = match view.whereabouts {
        Whereabouts::Queued { ready, .. } => Some(ready),
        _ => None,
    };
    (view.job.spec.clone(), view.state(), ready)
}

#[test]
fn a24_a_job_made_in_the_callers_transaction_is_the_one_that_the_store_would_make() {
    block_on(async {
        let by_verb = own().await;
        let by_function = own().await;
        let expected = by_verb.store.enqueue_jobs(rich_jobs()).await.unwrap();
        let mut client = by_function.database.connect().await;
        let transaction = client.transaction().await.unwrap();
        let made = enqueue_in(&transaction, &rich_jobs()).await.unwrap();
        transaction.commit().await.unwrap();
        assert!(made.is_sorted(), "the ids of a batch stand in its order");
        for (expected, made) in expected.into_iter().zip(&made) {
            assert_eq!(lasting(&by_function, *made).await, lasting(&by_verb, expected).await);
            assert_eq!(made.0.get_version_num(), 7);
            let created = by_function.store.job(*made).await.unwrap().unwrap().job.created_at;
            assert_eq!(
                JobId::at(created, [0; 8]).as_bytes()[..8],
                made.as_bytes()[..8],
                "the id has the database's time"
            );
        }
        for sql in ["queues", "lanes", "serial_keys", "job_keys", "queue", "delayed"] {
            let count = format!("SELECT count(*) FROM punctual_internal.{sql}");
            assert_eq!(by_function.number(&count).await, by_verb.number(&count).await, "{sql}");
        }
    });
}

#[test]
fn c18_a_unique_job_is_one_with_those_of_open_transactions() {
    block_on(async {
        let own = own().await;
        let once = || NewJob { unique: Some(Unique::by_key("k", secs(3600))), ..job() };
        let mut client = own.database.connect().await;
        let transaction = client.transaction().await.unwrap();
        let undone = enqueue_in(&transaction, &[once()]).await.unwrap();
        // Whoever comes meanwhile waits to see what becomes of it.
        let rolling_back = async {
            until_waiting(&own, 1).await;
            transaction.rollback().await.unwrap();
        };
        let (made, ()) = tokio::join!(own.store.enqueue_once(vec![once()]), rolling_back);
        let made = made.unwrap()[0];
        assert!(made.is_new && made.id != undone[0], "what was rolled back does not count");
        let transaction = client.transaction().await.unwrap();
        assert_eq!(enqueue_in(&transaction, &[once(), once()]).await.unwrap(), [made.id, made.id]);
        transaction.commit().await.unwrap();
    });
}

#[test]
fn c12_a_callers_transaction_that_rolls_back_leaves_nothing() {
    block_on(async {
        let own = own().await;
        let waiting =
            own.store.enqueue_jobs(vec![NewJob { job_key: Some(JobKey::new("k:1")), ..job() }]).await.unwrap()[0];
        let mut client = own.database.connect().await;
        let transaction = client.transaction().await.unwrap();
        let made = enqueue_in(&transaction, &rich_jobs()).await.unwrap();
        assert_eq!(made.len(), 6);
        drop(transaction);
        client.batch_execute("SELECT 1").await.unwrap();
        for id in made {
            assert_eq!(own.store.job(id).await.unwrap(), None);
        }
        assert_eq!(own.store.job(waiting).await.unwrap().unwrap().state(), JobState::Queued, "nothing was replaced");
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.jobs").await, 1);
    });
}

#[test]
fn c12_what_the_store_would_refuse_the_document_refuses_and_the_function_too() {
    block_on(async {
        let own = own().await;
        let twice = vec![NewJob { job_key: Some(JobKey::new("k")), ..job() }; 2];
        assert_eq!(refusal(join::document(&twice)).field, "job_key");
        assert_eq!(refusal(join::document(&[NewJob { queue: String::new(), ..job() }])).field, "queue");
        let client = own.database.connect().await;
        let target = r#""target":{"kind":"task","name":"t"}"#;
        for bad in [
            format!(r#"[{{{target},"job_key":"k"}},{{{target},"job_key":"k"}}]"#),
            format!(r#"[{{{target},"job_key":"k","job_key_mode":"often"}}]"#),
            format!(r#"[{{{target},"trigger":"magic"}}]"#),
            "[{}]".to_owned(),
        ] {
            assert!(client.query(join::ENQUEUE, &[&bad]).await.is_err(), "{bad}");
        }
        let plain = format!("[{{{target}}}]");
        let made =
            join::ids(client.query(join::ENQUEUE, &[&plain]).await.unwrap().iter().map(|row| row.get(0))).unwrap();
        let view = own.store.job(made[0]).await.unwrap().unwrap();
        assert_eq!(view.job.spec, NewJob::new(Target::task("t")), "what is left out is as usual");
        assert_eq!(client.query(join::ENQUEUE, &[&"[]"]).await.unwrap().len(), 0);
    });
}

#[test]
fn a06_a_callers_transaction_keeps_a_serial_keys_order() {
    block_on(async {
        let own = own().await;
        let lease = own.store.register_node(node("n")).await.unwrap();
        let first = own.store.enqueue_jobs(vec![serial_job("s")]).await.unwrap()[0];
        let mut client = own.database.connect().await;
        let transaction = client.transaction().await.unwrap();
        let second = enqueue_in(&transaction, &[serial_job("s")]).await.unwrap()[0];
        transaction.commit().await.unwrap();
        let claim = || own.store.claim_jobs_if_leased(claim_request(lease, ALL));
        let ids = |claimed: punctual_core::limits::Claimed| claimed.into_iter().map(|it| it.job.id).collect::<Vec<_>>();
        assert_eq!(ids(claim().await.unwrap()), [first]);
        assert_eq!(ids(claim().await.unwrap()), []);
        own.store.finish_runs_if_leased(lease, vec![done(first)]).await.unwrap();
        assert_eq!(ids(claim().await.unwrap()), [second]);
    });
}
