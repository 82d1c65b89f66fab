//! Deliveries: lines that move in order, one message at a time, over failures, losses and changes of mind.

use super::alerts::{add_channel, add_rule, alerts, chat, fail_a_job, judge, rule};
use crate::prelude::*;
use jiff::SignedDuration;
use punctual_core::id::DeliveryId;
use punctual_core::notify::channel::ChannelDefinition;
use punctual_core::notify::delivery::{Delivery, DeliveryState};
use punctual_core::notify::message::{Occasion, Sent};
use punctual_core::notify::port::DeliveryFilter;
use punctual_core::notify::rule::Trigger;
use punctual_core::store::{Lease, StoreError};

/// What is handed out to a node that has some messages in hand.
async fn take(world: &World, lease: Lease, sending: &[DeliveryId]) -> Vec<DeliveryId> {
    let taken = world.store().take_deliveries_if_leased(lease, sending.to_vec(), ALL).await.expect("they are taken");
    taken.deliveries.into_iter().map(|(delivery, _)| delivery.id).collect()
}

async fn end(world: &World, lease: Lease, id: DeliveryId, sent: Sent) -> Option<Delivery> {
    world.store().end_attempt_if_taken(lease, id, sent).await.expect("the end is stored")
}

fn arrived() -> Sent {
    Sent::Arrived { answer: "200".to_owned() }
}

fn failed() -> Sent {
    Sent::Failed { error: "503".to_owned(), retry_after: None }
}

/// Puts so many test messages into a line.
async fn fill(world: &World, channel: &str, count: usize) -> Vec<DeliveryId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(world.store().test_channel(channel).await.expect("a message is written").id);
        world.pass(secs(1));
    }
    ids
}

pub async fn n04_a_line_moves_in_order_one_message_at_a_time(world: &mut World) {
    for channel in ["a", "b"] {
        add_channel(world, chat(channel)).await;
    }
    let (one, two) = (world.node("one").await, world.node("two").await);
    assert_eq!(take(world, one, &[]).await, []);
    let (a, b) = (fill(world, "a", 3).await, fill(world, "b", 1).await);
    assert_eq!(take(world, one, &[]).await, [a[0], b[0]], "the first of each line");
    assert_eq!(take(world, one, &[a[0], b[0]]).await, [], "nothing passes what is on its way");
    assert_eq!(take(world, two, &[]).await, [], "nor with another node");
    let done = end(world, one, a[0], arrived()).await.expect("it was on its way");
    assert_eq!((done.state, done.tries, done.ended_at), (DeliveryState::Arrived, 1, Some(world.clock_now())));
    assert_eq!(done.attempts[0].answer, "200");
    assert_eq!(take(world, two, &[]).await, [a[1]], "the next may go with anybody");
    assert_eq!(end(world, one, a[1], arrived()).await, None, "it is another's to end");
    assert_eq!(end(world, one, a[0], arrived()).await, None, "and once");
    let refused = world.store().take_deliveries_if_leased(foreign_lease(), Vec::new(), 1).await;
    assert_eq!(refused, Err(StoreError::LostLease));
    let refused = world.store().end_attempt_if_taken(foreign_lease(), a[1], arrived()).await;
    assert_eq!(refused, Err(StoreError::LostLease));
}

pub async fn n04_a_message_whose_sender_is_gone_goes_again_under_the_same_id(world: &mut World) {
    add_channel(world, chat("a")).await;
    let (one, two) = (world.node("one").await, world.node("two").await);
    let line = fill(world, "a", 2).await;
    assert_eq!(take(world, one, &[]).await, [line[0]]);
    assert_eq!(take(world, one, &[]).await, [line[0]], "an answer that was lost is given again");
    world.recover(one).await;
    assert_eq!(take(world, two, &[]).await, [line[0]], "the sender is gone, and nobody knows whether it arrived");
    let late = world.store().end_attempt_if_taken(one, line[0], arrived()).await;
    assert_eq!(late, Err(StoreError::LostLease));
    assert_eq!(end(world, two, line[0], arrived()).await.map(|it| it.state), Some(DeliveryState::Arrived));
    assert_eq!(take(world, two, &[]).await, [line[1]]);
}

pub async fn n04_what_failed_is_tried_again_later_and_those_behind_wait_for_it(world: &mut World) {
    add_channel(world, chat("a")).await;
    let lease = world.node("one").await;
    let line = fill(world, "a", 3).await;
    assert_eq!(take(world, lease, &[]).await, [line[0]]);
    let after = end(world, lease, line[0], failed()).await.expect("it was on its way");
    assert_eq!((after.state, after.tries), (DeliveryState::Waiting, 1));
    let wait = after.next_at.duration_since(world.clock_now());
    assert!(wait > SignedDuration::from_millis(1400) && wait <= secs(2), "{wait}");
    let taken = world.store().take_deliveries_if_leased(lease, Vec::new(), ALL).await.expect("nothing is taken");
    assert_eq!((taken.deliveries, taken.again_in), (Vec::new(), Some(wait)), "in order");
    world.pass(wait);
    assert_eq!(take(world, lease, &[]).await, [line[0]]);
    let asked = Sent::Failed { error: "429".to_owned(), retry_after: Some(mins(3)) };
    let after = end(world, lease, line[0], asked).await.expect("it was on its way");
    assert_eq!(after.next_at, world.clock_now() + mins(3));
    // Whoever has kept the line waiting for an hour keeps it waiting no longer.
    world.pass(mins(3));
    assert_eq!(take(world, lease, &[]).await, [line[0]]);
    let asked = Sent::Failed { error: "429".to_owned(), retry_after: Some(mins(60)) };
    end(world, lease, line[0], asked).await.expect("it was on its way");
    world.pass(mins(58));
    assert_eq!(take(world, lease, &[]).await, [line[1]]);
    end(world, lease, line[1], arrived()).await.expect("it was on its way");
    assert_eq!(
        take(world, lease, &[]).await,
        [line[0]],
        "the way is clear: nobody waits any longer, and all go in order"
    );
    end(world, lease, line[0], arrived()).await.expect("it was on its way");
    assert_eq!(take(world, lease, &[]).await, [line[2]]);
}

pub async fn n04_what_is_refused_is_given_up_and_can_be_sent_again_or_dropped(world: &mut World) {
    add_channel(world, chat("a")).await;
    let lease = world.node("one").await;
    let line = fill(world, "a", 3).await;
    assert_eq!(take(world, lease, &[]).await, [line[0]]);
    let refused = end(world, lease, line[0], Sent::Refused { error: "422: no".to_owned() }).await.expect("it ended");
    assert_eq!((refused.state, refused.attempts[0].answer.as_str()), (DeliveryState::Failed, "422: no"));
    assert_eq!(take(world, lease, &[]).await, [line[1]], "it keeps nobody waiting");
    let again = world.store().resend_delivery(line[0]).await.expect("it is sent again");
    assert_eq!((again.state, again.tries, again.attempts.len()), (DeliveryState::Waiting, 0, 1), "its record stays");
    assert_eq!(take(world, lease, &[line[1]]).await, []);
    let dropped = world.store().drop_delivery(line[1]).await.expect("it is dropped while it is sent");
    assert_eq!(dropped.state, DeliveryState::Dropped);
    assert_eq!(end(world, lease, line[1], arrived()).await, None, "whatever came of it");
    assert_eq!(take(world, lease, &[]).await, [line[0]]);
    end(world, lease, line[0], arrived()).await.expect("it ended");
    let filter = DeliveryFilter { state: Some(DeliveryState::Arrived), ..DeliveryFilter::default() };
    let page = world.store().deliveries(&filter, None, ALL).await.expect("a page");
    assert_eq!(page.items.iter().map(|it| it.id).collect::<Vec<_>>(), [line[0]]);
    assert_not_found(world.store().resend_delivery(DeliveryId(nobody())).await, "delivery");
    assert_not_found(world.store().drop_delivery(DeliveryId(nobody())).await, "delivery");
    assert_eq!(world.store().delivery(line[1]).await.map(|it| it.map(|it| it.state)), Ok(Some(DeliveryState::Dropped)));
}

pub async fn n04_a_channel_that_is_off_keeps_its_messages_and_one_that_is_deleted_drops_them(world: &mut World) {
    add_channel(world, chat("a")).await;
    let lease = world.node("one").await;
    let line = fill(world, "a", 2).await;
    let off = ChannelDefinition { enabled: false, ..chat("a") };
    world.store().update_channel_if_version("a", 1, off).await.expect("it is turned off");
    assert_eq!(take(world, lease, &[]).await, []);
    world.store().update_channel_if_version("a", 2, chat("a")).await.expect("it is turned on");
    assert_eq!(take(world, lease, &[]).await, [line[0]]);
    world.store().delete_channel("a").await.expect("it is deleted");
    for id in line {
        let state = world.store().delivery(id).await.expect("it can be read").map(|it| it.state);
        assert_eq!(state, Some(DeliveryState::Dropped));
    }
    assert_eq!(take(world, lease, &[]).await, []);
}

pub async fn n04_deliveries_are_listed_by_channel_and_alert_page_by_page(world: &mut World) {
    for channel in ["a", "b"] {
        add_channel(world, chat(channel)).await;
        add_rule(world, rule(channel, Trigger::Failure, channel)).await;
    }
    let lease = world.node("one").await;
    fail_a_job(world, lease, "it broke").await;
    judge(world, lease).await;
    world.pass(secs(1));
    judge(world, lease).await;
    let tests = fill(world, "a", 2).await;
    let world = &*world;
    let ids = |filter: DeliveryFilter, before, limit| async move {
        let page = world.store().deliveries(&filter, before, limit).await.expect("a page");
        (page.items.into_iter().map(|it| (it.id, it.message.occasion)).collect::<Vec<_>>(), page.next)
    };
    let of_a = DeliveryFilter { channel: Some("a".to_owned()), ..DeliveryFilter::default() };
    let (first, next) = ids(of_a.clone(), None, 2).await;
    assert_eq!(first, [(tests[1], Occasion::Test), (tests[0], Occasion::Test)], "the latest first");
    let (rest, end) = ids(of_a, next, 2).await;
    assert_eq!((rest.len(), rest[0].1, end), (1, Occasion::Opened, None));
    let alert = alerts(world).await.into_iter().find(|alert| alert.rule.as_str() == "b").expect("an alert");
    let of_alert = DeliveryFilter { alert_id: Some(alert.id), ..DeliveryFilter::default() };
    let (found, _) = ids(of_alert.clone(), None, ALL).await;
    assert_eq!(found.len(), 1);
    let (none, _) = ids(DeliveryFilter { channel: Some("a".to_owned()), ..of_alert }, None, ALL).await;
    assert_eq!(none, []);
}
