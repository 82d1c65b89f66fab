//! Grants: what is kept of them, whose they are, and their end.

use crate::prelude::*;
use jiff::SignedDuration;
use punctual_core::grant::NewGrant;
use punctual_core::id::GrantId;
use punctual_core::limits::Rate;

/// A grant for every graph.
pub(crate) fn any_graph(owner: &str) -> NewGrant {
    NewGrant {
        owner: owner.into(),
        billing_account: "acme".into(),
        scopes: vec!["graph:execute:*".parse().unwrap()],
        expires_at: None,
        max_runs: None,
        rate: None,
    }
}

pub async fn a02_a_grant_is_kept_as_it_was_given(world: &mut World) {
    let rate = Rate { jobs: 3, per: SignedDuration::from_mins(1), burst: 5 };
    let asked = NewGrant {
        scopes: vec!["graph:execute:flow:etl".parse().unwrap(), "graph:execute:*".parse().unwrap()],
        expires_at: Some(instant("2027-01-01T00:00:00Z")),
        max_runs: Some(7),
        rate: Some(rate),
        ..any_graph("ada")
    };
    let made = world.store().create_grant(asked.clone()).await.unwrap();
    assert_eq!(made, asked.made(made.id, made.created_at));
    assert_eq!((made.runs, made.bucket), (0, Some(rate.bucket(made.created_at))));
    world.reopen().await;
    assert_eq!(world.store().grant(made.id).await.unwrap(), Some(made));
    assert_eq!(world.store().grant(GrantId(nobody())).await.unwrap(), None);
}

pub async fn a02_grants_are_listed_latest_first_and_by_owner(world: &mut World) {
    let mut made = Vec::new();
    for owner in ["ada", "eve", "ada"] {
        made.push(world.store().create_grant(any_graph(owner)).await.unwrap().id);
        world.pass(secs(1));
    }
    let ids = |grants: Vec<punctual_core::grant::Grant>| grants.iter().map(|grant| grant.id).collect::<Vec<_>>();
    let store = world.store();
    assert_eq!(ids(store.grants(None, None, ALL).await.unwrap()), [made[2], made[1], made[0]]);
    assert_eq!(ids(store.grants(Some("ada"), None, ALL).await.unwrap()), [made[2], made[0]]);
    assert_eq!(ids(store.grants(Some("ada"), Some(made[2]), ALL).await.unwrap()), [made[0]]);
    assert_eq!(ids(store.grants(None, Some(made[2]), 1).await.unwrap()), [made[1]]);
    assert_eq!(ids(store.grants(Some("bob"), None, ALL).await.unwrap()), []);
}

pub async fn a09_a_grant_is_revoked_once_and_stays(world: &mut World) {
    let made = world.store().create_grant(any_graph("ada")).await.unwrap();
    let at = world.pass(secs(1));
    assert_eq!(world.store().revoke_grant(made.id).await.unwrap().revoked_at, Some(at));
    world.pass(secs(1));
    assert_eq!(world.store().revoke_grant(made.id).await.unwrap().revoked_at, Some(at), "the first time stands");
    assert_eq!(world.store().grant(made.id).await.unwrap().unwrap().revoked_at, Some(at));
    assert_not_found(world.store().revoke_grant(GrantId(nobody())).await, "grant");
}

pub async fn a03_a_grant_brings_its_billing_account(world: &mut World) {
    let store = world.store();
    assert_eq!(store.billing_account("ada", "acme").await.unwrap(), None);
    store.create_grant(any_graph("ada")).await.unwrap();
    let account = store.billing_account("ada", "acme").await.unwrap().expect("it came with the grant");
    store.create_grant(any_graph("ada")).await.unwrap();
    assert_eq!(store.billing_account("ada", "acme").await.unwrap(), Some(account.clone()), "and once only");
    store.create_grant(any_graph("eve")).await.unwrap();
    let other = store.billing_account("eve", "acme").await.unwrap().unwrap();
    assert_ne!(other.virtual_key, account.virtual_key, "nobody pays for a namesake");
}

pub async fn a09_a_grant_that_allows_nothing_is_refused(world: &mut World) {
    let store = world.store();
    for (asked, field) in [
        (NewGrant { scopes: Vec::new(), ..any_graph("ada") }, "grant.scopes"),
        (NewGrant { max_runs: Some(0), ..any_graph("ada") }, "grant.max_runs"),
        (NewGrant { owner: String::new(), ..any_graph("ada") }, "grant.owner"),
        (NewGrant { billing_account: "a\0".into(), ..any_graph("ada") }, "grant.billing_account"),
    ] {
        assert_eq!(refusal(store.create_grant(asked).await).field, field);
    }
    assert_eq!(store.grants(None, None, ALL).await.unwrap(), []);
}
