//! The records of the execution service: one run for each key, one driver at a time, one set of receipts.

use super::grants::any_graph;
use crate::prelude::*;
use jiff::SignedDuration;
use punctual_core::execution::{Begun, Execution, NewExecution, Receipt, Usage};
use punctual_core::grant::NewGrant;
use punctual_core::graph::{GraphEnd, Used};
use punctual_core::id::{DriverId, GrantId};
use punctual_core::limits::Rate;
use punctual_core::run::ErrorCode;
use punctual_core::store::Retention;

fn driver(number: u128) -> DriverId {
    DriverId(uuid::Uuid::from_u128(number))
}

fn asked(key: &str, grant: GrantId) -> NewExecution {
    NewExecution {
        key: key.into(),
        hash: [1; 32],
        graph: "counting:a".parse().unwrap(),
        grant_id: grant,
        owner: None,
        input: json("{\"n\":12345678901234567890123}"),
        trace_id: "0123456789abcdef0123456789abcdef".into(),
        service: Some("worker".into()),
        driver: driver(1),
    }
}

fn ended(quantity: u64) -> GraphEnd {
    GraphEnd {
        failure: None,
        output: Some(json("{\"ok\":1}")),
        references: [("thread_id".to_owned(), "t1".to_owned())].into(),
        used: vec![
            Used { unit: "run".into(), quantity: 1 },
            Used { unit: "token".into(), quantity },
            Used { unit: "run".into(), quantity: 5 },
        ],
    }
}

async fn grant(world: &World) -> GrantId {
    world.store().create_grant(any_graph("ada")).await.unwrap().id
}

async fn begin(world: &World, new: NewExecution) -> Execution {
    match world.store().begin_execution(new).await.unwrap() {
        Begun::Mine(execution) => *execution,
        other => panic!("it is not begun: {other:?}"),
    }
}

pub async fn a13_the_same_key_is_one_run_whoever_comes_first(world: &mut World) {
    let grant = grant(world).await;
    let other = world.second_store().await;
    let store = world.store();
    let second = NewExecution { driver: driver(2), ..asked("k", grant) };
    let (one, two) = tokio::join!(store.begin_execution(asked("k", grant)), other.begin_execution(second));
    let (Begun::Mine(mine), Begun::There(there)) = (match (one.unwrap(), two.unwrap()) {
        (one @ Begun::Mine(_), two) => (one, two),
        (one, two) => (two, one),
    }) else {
        panic!("exactly one is begun")
    };
    assert_eq!(mine.run_id, there.run_id);
    assert_eq!((mine.owner.as_str(), mine.billing_account.as_str(), mine.answer.as_deref()), ("ada", "acme", None));
    assert_eq!(mine.input.as_str(), "{\"n\":12345678901234567890123}", "to the letter");
    assert_eq!(mine.virtual_key, store.billing_account("ada", "acme").await.unwrap().unwrap().virtual_key);
    world.reopen().await;
    assert_eq!(world.store().execution("k").await.unwrap().map(|found| found.run_id), Some(mine.run_id));
    assert_eq!(world.store().execution("l").await.unwrap(), None);
    assert_eq!(world.store().grant(grant).await.unwrap().unwrap().runs, 1, "it is counted once");
    assert_ne!(begin(world, asked("l", grant)).await.run_id, mine.run_id);
}

pub async fn a13_the_answer_is_kept_with_the_end_and_the_receipts(world: &mut World) {
    let grant = grant(world).await;
    let mine = begin(world, asked("k", grant)).await;
    let at = world.pass(secs(1));
    let store = world.store();
    assert!(store.end_execution_if_driven(mine.run_id, driver(1), ended(7), "answer".into()).await.unwrap());
    let kept = store.execution("k").await.unwrap().unwrap();
    assert_eq!((kept.answer.as_deref(), kept.ended_at), (Some("answer"), Some(at)));
    let receipt =
        |unit: &str, quantity| Receipt { run_id: mine.run_id, attempt: 1, used: Used { unit: unit.into(), quantity } };
    assert_eq!(store.receipts(mine.run_id).await.unwrap(), [receipt("run", 1), receipt("token", 7)]);
    let again = store.end_execution_if_driven(mine.run_id, driver(1), ended(9), "other".into()).await.unwrap();
    assert!(!again, "it has ended already");
    assert_eq!(store.execution("k").await.unwrap(), Some(kept));
    assert_eq!(store.receipts(mine.run_id).await.unwrap().len(), 2);
    match store.begin_execution(asked("k", grant)).await.unwrap() {
        Begun::There(there) => assert_eq!(there.answer.as_deref(), Some("answer")),
        other => panic!("{other:?}"),
    }
}

pub async fn a13_a_run_whose_driver_stands_still_is_taken_over_once(world: &mut World) {
    let grant = grant(world).await;
    let seen = begin(world, asked("k", grant)).await;
    let store = world.store();
    assert!(store.beat_execution(seen.run_id, driver(1)).await.unwrap());
    assert_eq!(store.take_over_execution_if_still(&seen, driver(2)).await.unwrap(), None, "it has moved");
    let seen = store.execution("k").await.unwrap().unwrap();
    let other = world.second_store().await;
    let (one, two) = tokio::join!(
        store.take_over_execution_if_still(&seen, driver(2)),
        other.take_over_execution_if_still(&seen, driver(3)),
    );
    let taken: Vec<Execution> = [one.unwrap(), two.unwrap()].into_iter().flatten().collect();
    assert_eq!(taken.len(), 1, "one of the two has it");
    assert_eq!(taken[0].run_id, seen.run_id, "and it is the same run");
    assert!(!store.beat_execution(seen.run_id, driver(1)).await.unwrap(), "the old one hears of it");
    assert!(!store.end_execution_if_driven(seen.run_id, driver(1), ended(1), "late".into()).await.unwrap());
    assert_eq!(store.receipts(seen.run_id).await.unwrap(), []);
    let new = taken[0].driver.unwrap();
    assert!(store.end_execution_if_driven(seen.run_id, new, ended(1), "answer".into()).await.unwrap());
    let seen = store.execution("k").await.unwrap().unwrap();
    assert_eq!(store.take_over_execution_if_still(&seen, driver(4)).await.unwrap(), None, "it has ended");
}

pub async fn a13_a_run_that_was_released_is_anybodys_and_its_driver_is_not_believed_any_more(world: &mut World) {
    let grant = grant(world).await;
    let mine = begin(world, asked("k", grant)).await;
    let store = world.store();
    store.release_execution(mine.run_id, driver(2)).await.unwrap();
    assert_eq!(store.execution("k").await.unwrap().unwrap().driver, Some(driver(1)), "it is not his to release");
    store.release_execution(mine.run_id, driver(1)).await.unwrap();
    let free = store.execution("k").await.unwrap().unwrap();
    assert_eq!((free.driver, free.ended_at), (None, None));
    assert!(!store.beat_execution(mine.run_id, driver(1)).await.unwrap());
    let taken = store.take_over_execution_if_still(&free, driver(2)).await.unwrap().unwrap();
    assert_eq!((taken.run_id, taken.driver), (mine.run_id, Some(driver(2))));
    assert_eq!(store.take_over_execution_if_still(&free, driver(3)).await.unwrap(), None);
}

pub async fn a09_what_the_grant_refuses_writes_nothing(world: &mut World) {
    let narrow = NewGrant { scopes: vec!["graph:execute:counting:b".parse().unwrap()], ..any_graph("ada") };
    let narrow = world.store().create_grant(narrow).await.unwrap().id;
    let over = NewGrant { expires_at: Some(world.store().now().await.unwrap()), ..any_graph("ada") };
    let over = world.store().create_grant(over).await.unwrap().id;
    let revoked = grant(world).await;
    world.store().revoke_grant(revoked).await.unwrap();
    let good = grant(world).await;
    let of_eve = NewExecution { owner: Some("eve".into()), ..asked("k", good) };
    let store = world.store();
    for (new, code) in [
        (asked("k", GrantId(nobody())), ErrorCode::GrantMissing),
        (of_eve, ErrorCode::GrantMissing),
        (asked("k", revoked), ErrorCode::GrantRevoked),
        (asked("k", over), ErrorCode::GrantExpired),
        (asked("k", narrow), ErrorCode::ScopeDenied),
    ] {
        match store.begin_execution(new).await.unwrap() {
            Begun::Denied(denied) => assert_eq!(denied.code, code),
            other => panic!("{code} was wanted: {other:?}"),
        }
    }
    assert_eq!(store.execution("k").await.unwrap(), None, "the key is free");
    begin(world, NewExecution { owner: Some("ada".into()), ..asked("k", good) }).await;
}

pub async fn a09_runs_under_a_grant_are_counted_and_bounded(world: &mut World) {
    let rate = Rate { jobs: 1, per: SignedDuration::from_secs(10), burst: 1 };
    let bounded = NewGrant { max_runs: Some(2), rate: Some(rate), ..any_graph("ada") };
    let grant = world.store().create_grant(bounded).await.unwrap().id;
    begin(world, asked("a", grant)).await;
    let too_fast = world.store().begin_execution(asked("b", grant)).await.unwrap();
    assert_eq!(too_fast, Begun::TooFast(SignedDuration::from_secs(10)));
    world.pass(secs(10));
    begin(world, asked("b", grant)).await;
    world.pass(secs(100));
    match world.store().begin_execution(asked("c", grant)).await.unwrap() {
        Begun::Denied(denied) => {
            assert_eq!(denied.code, ErrorCode::GrantExpired);
            assert!(denied.words.contains("used up"), "{denied}");
        }
        other => panic!("{other:?}"),
    }
    let there = world.store().begin_execution(asked("a", grant)).await.unwrap();
    assert!(matches!(there, Begun::There(_)), "what was begun is found all the same: {there:?}");
    assert_eq!(world.store().grant(grant).await.unwrap().unwrap().runs, 2);
}

pub async fn a14_a_run_that_has_ended_and_a_receipt_never_change(world: &mut World) {
    let grant = grant(world).await;
    let mine = begin(world, asked("k", grant)).await;
    let failed = GraphEnd { failure: Some((ErrorCode::TargetError, "a\0b".into())), output: None, ..ended(1) };
    assert!(world.store().end_execution_if_driven(mine.run_id, driver(1), failed, "x".into()).await.unwrap());
    for (table, change) in [
        ("graph_runs", "UPDATE {} SET error_code = NULL, error = NULL"),
        ("charge_receipts", "UPDATE {} SET quantity = 0"),
        ("charge_receipts", "DELETE FROM {}"),
    ] {
        world.assert_database_refuses(&change.replace("{}", &world.raw.table(table))).await;
    }
}

pub async fn a13_keys_are_kept_as_long_as_the_ledger_and_receipts_for_ever(world: &mut World) {
    let grant = grant(world).await;
    let (old, open) = (begin(world, asked("old", grant)).await, begin(world, asked("open", grant)).await);
    let store = world.store();
    store.end_execution_if_driven(old.run_id, driver(1), ended(1), "x".into()).await.unwrap();
    let at = world.pass(secs(3600));
    let young = Retention { failed_before: at - secs(3600), ..Retention::before(at, ALL) };
    assert_eq!(world.store().prune_history(young).await.unwrap().graph_runs, 0, "failed runs are kept longer");
    assert!(world.store().execution("old").await.unwrap().is_some());
    assert_eq!(world.store().prune_history(Retention::before(at, ALL)).await.unwrap().graph_runs, 1);
    assert_eq!(world.store().execution("old").await.unwrap(), None);
    assert!(world.store().execution("open").await.unwrap().is_some(), "what has not ended stays");
    assert_eq!(world.store().receipts(old.run_id).await.unwrap().len(), 2, "the bill stays");
    assert!(world.store().end_execution_if_driven(open.run_id, driver(1), ended(1), "y".into()).await.unwrap());
}

pub async fn a18_usage_is_summed_by_graph_and_unit(world: &mut World) {
    let grant = grant(world).await;
    let from = world.store().now().await.unwrap();
    for (key, graph, tokens) in [("a", "counting:a", 3), ("b", "counting:a", 4), ("c", "counting:b", 5)] {
        let new = NewExecution { graph: graph.parse().unwrap(), ..asked(key, grant) };
        let mine = begin(world, new).await;
        world.store().end_execution_if_driven(mine.run_id, driver(1), ended(tokens), key.into()).await.unwrap();
        world.pass(secs(10));
    }
    let usage =
        |graph: &str, unit: &str, quantity, runs| Usage { graph: graph.into(), unit: unit.into(), quantity, runs };
    let store = world.store();
    assert_eq!(
        store.usage("ada", "acme", from, from + secs(30)).await.unwrap(),
        [
            usage("counting:a", "run", 2, 2),
            usage("counting:a", "token", 7, 2),
            usage("counting:b", "run", 1, 1),
            usage("counting:b", "token", 5, 1),
        ]
    );
    let first = store.usage("ada", "acme", from, from + secs(10)).await.unwrap();
    assert_eq!(first, [usage("counting:a", "run", 1, 1), usage("counting:a", "token", 3, 1)], "the end is not in it");
    assert_eq!(store.usage("eve", "acme", from, from + secs(30)).await.unwrap(), []);
}

pub async fn a03_an_account_is_made_once_with_a_key_of_its_own(world: &mut World) {
    let store = world.store();
    let made = store.create_billing_account("ada", "acme").await.unwrap();
    assert_eq!(store.create_billing_account("ada", "acme").await.unwrap(), made, "it stays as it is");
    let other = store.create_billing_account("ada", "beta").await.unwrap();
    let of_eve = store.create_billing_account("eve", "acme").await.unwrap();
    assert!(made.virtual_key != other.virtual_key && made.virtual_key != of_eve.virtual_key);
    assert_eq!(refusal(store.create_billing_account("ada", "").await).field, "name");
    assert_eq!(store.billing_accounts(Some("ada"), None, ALL).await.unwrap(), [made.clone(), other.clone()]);
    let all = store.billing_accounts(None, Some(("ada", "acme")), ALL).await.unwrap();
    assert_eq!(all, [other, of_eve]);
    assert_eq!(store.billing_accounts(None, None, 1).await.unwrap(), [made]);
}
