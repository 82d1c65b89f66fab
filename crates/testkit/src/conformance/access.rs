//! Tokens, sessions, idempotency keys, the audit log, grants, and retries by hand.

use crate::prelude::*;
use punctual_core::access::{Answer, Change, Described, NewToken, OnceKey, Role, StoredAnswer, Token};
use punctual_core::grant::NewGrant;
use punctual_core::id::{AuditId, GrantId, JobId, TokenId};
use punctual_core::job::{JobState, NewJob};
use punctual_core::json::Json;
use punctual_core::run::Trigger;
use punctual_core::schedule::{Schedule, ScheduleDefinition};
use punctual_core::store::{Store, StoreError};
use std::sync::Arc;

fn new_token(prefix: &str) -> NewToken {
    NewToken {
        prefix: prefix.into(),
        hash: [7; 32],
        name: "laptop".into(),
        owner: "ada".into(),
        role: Role::Operator,
        expires_at: Some(clock_time("12:00:00")),
    }
}

async fn token(world: &World, prefix: &str) -> Token {
    world.store().create_token(new_token(prefix)).await.unwrap()
}

/// A change of schedules that is written down, and done once if it has a key.
fn change(action: Option<&'static str>, key: Option<&str>) -> Change {
    Change {
        actor: "ada".into(),
        token_id: Some(TokenId(nobody())),
        action,
        request_id: Some("r1".into()),
        before: Some(json("{\"was\":1}")),
        once: key.map(|key| OnceKey { owner: "ada".into(), key: key.into(), fingerprint: [1; 32] }),
        describe: Arc::new(|done| {
            let name = done.downcast_ref::<Schedule>().map(|schedule| schedule.definition.name.to_string());
            let jobs = done.downcast_ref::<Vec<JobId>>().map(|jobs| format!("{} jobs", jobs.len()));
            let said = name.or(jobs).unwrap_or_else(|| "something".into());
            Described {
                subject: format!("schedule:{said}"),
                after: Json::from_value("after", &said).ok(),
                answer: Some(Answer { status: 201, body: said }),
            }
        }),
    }
}

pub async fn c12_a_token_keeps_its_hash_and_never_its_secret(world: &mut World) {
    let made = token(world, "abc").await;
    assert_eq!(made.token, new_token("abc"));
    world.reopen().await;
    assert_eq!(world.store().token_by_prefix("abc").await.unwrap(), Some(made.clone()));
    assert_eq!(world.store().token_by_prefix("ab").await.unwrap(), None);
    assert!(made.is_valid(clock_time("11:59:59")) && !made.is_valid(clock_time("12:00:00")));
    let taken = world.store().create_token(new_token("abc")).await;
    assert!(matches!(taken, Err(StoreError::NameTaken { what: "token", .. })), "{taken:?}");
}

pub async fn c12_the_first_token_is_made_once(world: &mut World) {
    let other = world.second_store().await;
    let store = world.store();
    let (one, two) =
        tokio::join!(store.create_token_if_none(new_token("one")), other.create_token_if_none(new_token("two")));
    assert_eq!([one.unwrap(), two.unwrap()].iter().flatten().count(), 1);
    assert_eq!(store.create_token_if_none(new_token("three")).await.unwrap(), None);
    assert_eq!(store.tokens(None, ALL).await.unwrap().len(), 1);
}

pub async fn c12_tokens_are_listed_latest_first_and_revoked_for_good(world: &mut World) {
    let first = token(world, "first").await;
    world.pass(secs(1));
    let second = token(world, "second").await;
    let ids = |tokens: Vec<Token>| -> Vec<TokenId> { tokens.iter().map(|token| token.id).collect() };
    assert_eq!(ids(world.store().tokens(None, ALL).await.unwrap()), [second.id, first.id]);
    assert_eq!(ids(world.store().tokens(Some(second.id), ALL).await.unwrap()), [first.id]);
    let at = world.pass(secs(1));
    let revoked = world.store().revoke_token(first.id).await.unwrap();
    assert_eq!((revoked.revoked_at, revoked.is_valid(at)), (Some(at), false));
    world.pass(secs(1));
    assert_eq!(world.store().revoke_token(first.id).await.unwrap().revoked_at, Some(at), "the first time stands");
    assert_not_found(world.store().revoke_token(TokenId(nobody())).await, "token");
}

pub async fn c12_the_use_of_a_token_is_remembered_to_the_minute(world: &mut World) {
    let made = token(world, "used").await;
    let last_used = |world: &World| {
        let store = world.store();
        async move { store.token_by_prefix("used").await.unwrap().unwrap().last_used_at }
    };
    assert_eq!(last_used(world).await, None);
    let first = world.pass(secs(1));
    world.store().touch_token(made.id).await.unwrap();
    world.pass(secs(59));
    world.store().touch_token(made.id).await.unwrap();
    assert_eq!(last_used(world).await, Some(first));
    let second = world.pass(secs(1));
    world.store().touch_token(made.id).await.unwrap();
    assert_eq!(last_used(world).await, Some(second));
}

pub async fn c12_a_session_ends_with_its_token(world: &mut World) {
    let made = token(world, "abc").await;
    let until = clock_time("06:00:00");
    for hash in [[1; 32], [2; 32]] {
        world.store().create_session(hash, made.id, until).await.unwrap();
    }
    let session = world.store().session([1; 32]).await.unwrap().unwrap();
    assert_eq!((session.token.id, session.expires_at), (made.id, until));
    world.store().end_session([1; 32]).await.unwrap();
    world.store().end_session([1; 32]).await.expect("ending it twice changes nothing");
    assert_eq!(world.store().session([1; 32]).await.unwrap(), None);
    assert!(world.store().session([2; 32]).await.unwrap().is_some());
    world.store().revoke_token(made.id).await.unwrap();
    assert_eq!(world.store().session([2; 32]).await.unwrap(), None);
}

pub async fn c12_what_is_over_is_forgotten(world: &mut World) {
    let made = token(world, "abc").await;
    world.store().create_session([1; 32], made.id, clock_time("01:00:00")).await.unwrap();
    world.store().create_session([2; 32], made.id, clock_time("03:00:00")).await.unwrap();
    world.store().recorded(change(None, Some("old"))).create_schedule(minutely("a")).await.unwrap();
    world.set_time("02:00:00");
    world.store().recorded(change(None, Some("new"))).create_schedule(minutely("b")).await.unwrap();
    let forgotten = world.store().forget_access(clock_time("02:00:00"), ALL).await.unwrap();
    assert_eq!((forgotten.sessions, forgotten.keys), (1, 1));
    assert_eq!(world.store().session([1; 32]).await.unwrap(), None);
    assert!(world.store().session([2; 32]).await.unwrap().is_some());
    assert_eq!(world.store().answer_under("ada", "old").await.unwrap(), None);
    assert!(world.store().answer_under("ada", "new").await.unwrap().is_some());
}

pub async fn c12_a_change_and_its_audit_row_are_one(world: &mut World) {
    let store = world.store().recorded(change(Some("schedule.create"), None));
    let made = store.create_schedule(minutely("a")).await.unwrap();
    let log = world.store().audit_log(None, None, ALL).await.unwrap();
    let [row] = log.as_slice() else { panic!("{log:?}") };
    assert_eq!(
        (row.actor.as_str(), row.action.as_str(), row.subject.as_str()),
        ("ada", "schedule.create", "schedule:a")
    );
    assert_eq!((row.at, row.token_id), (made.created_at, Some(TokenId(nobody()))));
    assert_eq!((row.before.clone(), row.after.clone()), (Some(json("{\"was\":1}")), Some(json("\"a\""))));
    assert_eq!(row.request_id.as_deref(), Some("r1"));

    let refused = world.store().recorded(change(Some("schedule.create"), None)).create_schedule(minutely("a")).await;
    assert!(matches!(refused, Err(StoreError::NameTaken { .. })), "{refused:?}");
    world.faults.refuse_commits(true).await;
    let failed = world.store().recorded(change(Some("schedule.create"), None)).create_schedule(minutely("b")).await;
    assert!(failed.is_err());
    world.faults.refuse_commits(false).await;
    assert_eq!(world.store().audit_log(None, None, ALL).await.unwrap().len(), 1, "what was not done is not told");
    assert!(world.store().schedule(&"b".into()).await.unwrap().is_none());
}

pub async fn c12_the_audit_log_is_read_in_pages_and_by_subject(world: &mut World) {
    for name in ["a", "b", "a2"] {
        world.store().recorded(change(Some("schedule.create"), None)).create_schedule(minutely(name)).await.unwrap();
        world.pass(secs(1));
    }
    let a = world.store().schedule(&"a".into()).await.unwrap().unwrap().id;
    world.store().recorded(change(Some("schedule.pause"), None)).pause_schedule(a, None, None).await.unwrap();
    let seen = |rows: Vec<punctual_core::access::AuditRow>| -> Vec<String> {
        rows.iter().map(|row| format!("{} {}", row.action, row.subject)).collect()
    };
    let first = world.store().audit_log(None, None, 2).await.unwrap();
    let next = first.last().map(|row| row.id);
    assert_eq!(seen(first), ["schedule.pause schedule:a", "schedule.create schedule:a2"]);
    let second = world.store().audit_log(None, next, 9).await.unwrap();
    let oldest = second.last().unwrap().id;
    assert_eq!(seen(second), ["schedule.create schedule:b", "schedule.create schedule:a"]);
    let of_a = world.store().audit_log(Some("schedule:a"), None, 9).await.unwrap();
    assert_eq!(seen(of_a), ["schedule.pause schedule:a", "schedule.create schedule:a"]);
    let after = world.store().audit_after(oldest, 2).await.unwrap();
    assert_eq!(seen(after), ["schedule.create schedule:b", "schedule.create schedule:a2"]);
    assert_eq!(world.store().audit_after(AuditId(nobody()), ALL).await.unwrap().len(), 4);
}

pub async fn c12_the_database_refuses_to_change_the_audit_log(world: &mut World) {
    world.store().recorded(change(Some("schedule.create"), None)).create_schedule(minutely("a")).await.unwrap();
    let log = world.raw.table("audit_log");
    world.assert_database_refuses(&format!("UPDATE {log} SET actor = 'eve'")).await;
    world.assert_database_refuses(&format!("DELETE FROM {log}")).await;
}

pub async fn c12_a_request_with_a_key_is_carried_out_once(world: &mut World) {
    let once = || world.store().recorded(change(Some("schedule.create"), Some("k1")));
    once().create_schedule(minutely("a")).await.unwrap();
    let stored = StoredAnswer { fingerprint: [1; 32], answer: Answer { status: 201, body: "a".into() } };
    assert_eq!(world.store().answer_under("ada", "k1").await.unwrap(), Some(stored));
    assert_eq!(world.store().answer_under("eve", "k1").await.unwrap(), None);
    // The key decides before the work does: the name would be refused, too.
    assert_eq!(once().create_schedule(minutely("a")).await, Err(StoreError::Repeated));
    assert_eq!(once().create_schedule(minutely("b")).await, Err(StoreError::Repeated));
    assert!(world.store().schedule(&"b".into()).await.unwrap().is_none());
    assert_eq!(world.store().audit_log(None, None, ALL).await.unwrap().len(), 1);
}

pub async fn c12_a_refused_request_leaves_its_key_free(world: &mut World) {
    world.create(minutely("a")).await;
    let once = || world.store().recorded(change(None, Some("k1")));
    assert!(matches!(once().create_schedule(minutely("a")).await, Err(StoreError::NameTaken { .. })));
    assert_eq!(world.store().answer_under("ada", "k1").await.unwrap(), None);
    once().create_schedule(minutely("b")).await.unwrap();
    assert!(world.store().audit_log(None, None, ALL).await.unwrap().is_empty(), "it was asked to be silent");
}

pub async fn c12_of_many_with_one_key_exactly_one_is_carried_out(world: &mut World) {
    let other = world.second_store().await;
    let stores: [Arc<dyn Store>; 2] = [world.store(), other];
    let tries = (0..8).map(|n| {
        let store = stores[n % 2].recorded(change(None, Some("k1")));
        tokio::spawn(async move { store.enqueue_jobs(vec![job(), job()]).await })
    });
    let mut made = Vec::new();
    for tried in tries.collect::<Vec<_>>() {
        match tried.await.unwrap() {
            Ok(ids) => made.push(ids),
            Err(error) => assert_eq!(error, StoreError::Repeated),
        }
    }
    assert_eq!(made.len(), 1);
    assert_eq!(world.queue("default").await, made[0]);
}

pub async fn a15_a_grant_and_its_schedule_are_made_together_or_not_at_all(world: &mut World) {
    let grant = NewGrant {
        owner: "ada".into(),
        billing_account: "acme".into(),
        scopes: vec!["graph:execute:flow-1".parse().unwrap(), "graph:execute:*".parse().unwrap()],
        expires_at: Some(instant("2027-01-01T00:00:00Z")),
        max_runs: None,
        rate: None,
    };
    let (schedule, made) = world.store().create_schedule_with_grant(hourly("a"), grant.clone()).await.unwrap();
    assert_eq!(schedule.definition.grant_id, Some(made.id));
    assert!(schedule.state.next_slot_at.is_some());
    assert_eq!(world.store().grant(made.id).await.unwrap(), Some(made));
    assert_eq!(world.store().grant(GrantId(nobody())).await.unwrap(), None);

    let taken = world.store().create_schedule_with_grant(hourly("a"), grant.clone()).await;
    assert!(matches!(taken, Err(StoreError::NameTaken { .. })), "{taken:?}");
    let grants = format!("SELECT count(*) FROM {}", world.raw.table("grants"));
    assert_eq!(world.count(&grants).await, 1, "the grant of a refused schedule is not kept");
    let nothing = NewGrant { scopes: Vec::new(), ..grant };
    assert_eq!(refusal(world.store().create_schedule_with_grant(hourly("b"), nothing).await).field, "grant.scopes");
    assert!(world.store().schedule(&"b".into()).await.unwrap().is_none());
}

pub async fn c04_a_failed_job_can_be_retried_by_hand_once(world: &mut World) {
    let lease = world.node("n").await;
    let id = world.enqueue(NewJob { retry: no_retry(), ..serial_job("k") }).await;
    world.claim(lease, 1).await;
    assert_wrong_state(world.store().retry_job_if_ended(id, None).await, JobState::Running);
    world.fail(lease, id).await;
    let retry = world.store().retry_job_if_ended(id, Some("ada".into())).await.unwrap();
    let view = world.job(retry).await;
    assert_eq!((view.state(), view.job.attempt, view.job.failures), (JobState::Queued, 2, 1));
    assert_eq!((view.job.retry_of, view.job.root_job_id), (Some(id), id));
    assert_eq!((view.job.spec.trigger, view.job.spec.trigger_detail.as_deref()), (Trigger::Retry, Some("ada")));
    assert_eq!(view.job.spec.serial_key.as_deref(), Some("k"));
    assert_wrong_state(world.store().retry_job_if_ended(id, None).await, JobState::Failed);
    assert_eq!(world.claim(lease, ALL).await, [retry]);
    world.complete(lease, retry).await;
    assert_wrong_state(world.store().retry_job_if_ended(retry, None).await, JobState::Completed);
    assert_not_found(world.store().retry_job_if_ended(JobId(nobody()), None).await, "job");
}

pub async fn c04_a_cancelled_job_can_be_retried_and_one_of_a_deleted_schedule_cannot(world: &mut World) {
    let id = world.enqueue(job()).await;
    world.store().cancel_job(id).await.unwrap();
    let retry = world.store().retry_job_if_ended(id, None).await.unwrap();
    let view = world.job(retry).await;
    assert_eq!((view.state(), view.job.failures), (JobState::Queued, 0));

    let schedule = world.create(ScheduleDefinition { retry: no_retry(), ..minutely("a") }).await;
    let of_schedule = world.store().trigger_schedule(schedule.id, ByHand::default()).await.unwrap();
    world.store().delete_schedule(schedule.id).await.unwrap();
    assert_eq!(world.state(of_schedule).await, JobState::Cancelled);
    assert_not_found(world.store().retry_job_if_ended(of_schedule, None).await, "schedule");
}
