//! Offers: a pass marks and clears everything, however much there is, a small transaction at a time.

use super::World;
use punctual_core::offers::OffersSettled;
use punctual_core::schedule::Missed;
use punctual_core::store::{NewNode, Store};
use punctual_engine::fire::fire_once;
use punctual_engine::offers::settle_offers_once;

#[tokio::test]
async fn e06_one_pass_marks_and_clears_all_and_the_next_one_finds_nothing() {
    let world = World::new();
    for n in 0..250 {
        world.minutely(&format!("schedule {n}"), Missed::ONCE).await;
    }
    let nothing = OffersSettled::default();
    let marked = OffersSettled { marked: 250, ..nothing.clone() };
    assert_eq!(settle_offers_once(&world.store).await, Ok(marked));
    assert_eq!(settle_offers_once(&world.store).await, Ok(nothing.clone()));
    world.clock.pass(jiff::SignedDuration::from_mins(5));
    assert!(!fire_once(&world.store, None, 100).await.unwrap().changed_anything());
    let node = NewNode { name: "n".to_owned(), offers: vec!["command".to_owned()] };
    world.store.register_node(node).await.unwrap();
    let cleared = OffersSettled { cleared: 250, ..nothing.clone() };
    assert_eq!(settle_offers_once(&world.store).await, Ok(cleared));
    assert_eq!(settle_offers_once(&world.store).await, Ok(nothing));
    assert_eq!(fire_once(&world.store, None, 100).await.unwrap().jobs, 250);
}
