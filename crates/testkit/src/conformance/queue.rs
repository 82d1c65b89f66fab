//! The queue: order, delays, moves, edits and cancellations of jobs that have not started.

use crate::prelude::*;
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob, Whereabouts};
use punctual_core::order::Move;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::{Cancelled, StoreError};
use punctual_core::target::Target;

fn with_priority(priority: i32) -> NewJob {
    NewJob { priority, ..job() }
}

async fn some_jobs(world: &World, count: usize) -> Vec<JobId> {
    world.enqueue_all(vec![job(); count]).await
}

pub async fn c02_a_job_keeps_every_field(world: &mut World) {
    let template = world.store().create_template(named("t"), job(), vec![]).await.expect("a template is stored");
    let spec = NewJob {
        target: Target::command(["echo", "ü 'quoted' \"twice\""]),
        input: json(r#"{"b":1.0,"a":[12345678901234567890]}"#),
        queue: "spät".to_owned(),
        priority: i32::MIN,
        run_at: Some(clock_time("10:00:00")),
        serial_key: Some("key:1".to_owned()),
        job_key: Some(punctual_core::job_key::JobKey::new("jk:1")),
        tags: vec!["b".to_owned(), "a".to_owned()],
        retry: retry(9, secs(3)),
        timeout: punctual_core::job::Timeout::Never,
        template_id: Some(template.id),
        trigger_detail: Some("by test".to_owned()),
        trace_context: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
        owner: Some("ada".to_owned()),
        ..job()
    };
    world.set_time("00:00:07");
    let id = world.enqueue(spec.clone()).await;
    world.reopen().await;
    let view = world.job(id).await;
    assert_eq!(view.job.spec, spec);
    assert_eq!((view.job.id, view.job.created_at, view.job.attempt), (id, clock_time("00:00:07"), 1));
    assert_eq!((view.job.root_job_id, view.job.chain_began_at), (id, clock_time("00:00:07")));
    assert_eq!((view.job.retry_of, view.job.schedule_id, view.job.slot_at), (None, None, None));
    assert_eq!(view.whereabouts, Whereabouts::Delayed { run_at: Some(clock_time("10:00:00")) });
}

pub async fn c05_order_is_priority_then_position(world: &mut World) {
    let priorities = [0, 5, -5, 5, 0, i32::MAX, i32::MIN];
    let made = world.enqueue_all(priorities.map(with_priority).to_vec()).await;
    let expected = [5, 1, 3, 0, 4, 2, 6].map(|n| made[n]);
    assert_eq!(world.queue("default").await, expected);
    world.reopen().await;
    assert_eq!(world.queue("default").await, expected, "the same stored state gives the same order");
    let places = world.store().queued_jobs("default", None, ALL).await.expect("the queue can be read");
    assert!(places.is_sorted_by(|a, b| a.place < b.place), "the list stands in the order of its places");
}

pub async fn c05_jobs_of_one_batch_and_of_several_keep_the_order_they_were_made_in(world: &mut World) {
    let mut made = some_jobs(world, 50).await;
    for _ in 0..10 {
        made.push(world.enqueue(job()).await);
    }
    world.pass(secs(-60));
    made.extend(some_jobs(world, 5).await);
    assert_eq!(world.queue("default").await, made, "also when the clock goes back");
    let lease = world.node("a").await;
    let mut claimed = Vec::new();
    loop {
        let batch = world.claim(lease, 7).await;
        if batch.is_empty() {
            break;
        }
        claimed.extend(batch);
    }
    assert_eq!(claimed, made, "they are handed out in that order");
}

pub async fn c05_equal_positions_are_ordered_by_age_and_then_by_id(world: &mut World) {
    let mut made = Vec::new();
    for _ in 0..3 {
        world.pass(secs(1));
        made.extend(some_jobs(world, 3).await);
    }
    let mut expected = Vec::new();
    for id in &made {
        expected.push((world.job(*id).await.job.created_at, *id));
    }
    expected.sort();
    assert_ne!(world.tamper("UPDATE {queue} SET position = 7").await, Ok(0));
    let expected: Vec<JobId> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(world.queue("default").await, expected);
    let lease = world.node("a").await;
    assert_eq!(world.claim(lease, 4).await, expected[..4]);
}

pub async fn c05_the_order_holds_across_the_job_types_of_a_queue(world: &mut World) {
    let typed = |name: &str, priority: i32| NewJob { target: Target::task(name), priority, ..job() };
    let batch = vec![typed("work", 0), typed("other", 1), typed("work", 1), typed("other", 0), typed("work", 2)];
    let made = world.enqueue_all(batch).await;
    let expected = [4, 1, 2, 0, 3].map(|n| made[n]);
    assert_eq!(world.queue("default").await, expected);
    let lease = world.node("a").await;
    let mut request = claim_request(lease, ALL);
    request.job_types.push("task:other".to_owned());
    let claimed = world.store().claim_jobs_if_leased(request).await.expect("claiming succeeds");
    assert_eq!(claimed.into_iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), expected);
}

pub async fn c05_a_queue_is_read_page_by_page(world: &mut World) {
    let made = world.enqueue_all([1, 0, 1, 0, 2].map(with_priority).to_vec()).await;
    let first = world.store().queued_jobs("default", None, 2).await.expect("a page");
    let second = world.store().queued_jobs("default", Some(first[1].place), 2).await.expect("a page");
    let third = world.store().queued_jobs("default", Some(second[1].place), 2).await.expect("a page");
    let seen: Vec<JobId> = [first, second, third].concat().into_iter().map(|queued| queued.place.job_id).collect();
    assert_eq!(seen, [4, 0, 2, 1, 3].map(|n| made[n]));
    assert_eq!(world.store().queued_jobs("nothing here", None, ALL).await, Ok(Vec::new()));
}

pub async fn c05_queues_are_apart(world: &mut World) {
    let one = world.enqueue(NewJob { queue: "one".to_owned(), ..job() }).await;
    let two = world.enqueue(NewJob { queue: "two".to_owned(), ..job() }).await;
    assert_eq!((world.queue("one").await, world.queue("two").await), (vec![one], vec![two]));
    let lease = world.node("a").await;
    let mut request = claim_request(lease, ALL);
    request.queues = vec!["two".to_owned()];
    let claimed = world.store().claim_jobs_if_leased(request).await.expect("claiming succeeds");
    assert_eq!(claimed.len(), 1);
    assert_eq!((claimed[0].job.id, claimed[0].started_at), (two, clock_time("00:00:00")));
    assert_eq!(world.claim(lease, ALL).await, [one]);
}

pub async fn c18_a_job_keeps_when_it_was_queued(world: &mut World) {
    let id = world.enqueue(NewJob { run_at: Some(clock_time("00:01:00")), ..job() }).await;
    world.set_time("00:01:05");
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1));
    let Whereabouts::Queued { place, queued_at, ready } = world.job(id).await.whereabouts else { panic!("queued") };
    assert_eq!((queued_at, ready), (clock_time("00:01:05"), true));
    assert_eq!((place.job_id, place.created_at, place.priority), (id, clock_time("00:00:00"), 0));
}

pub async fn b04_a_delayed_job_is_promoted_when_its_time_has_come(world: &mut World) {
    let at = |text: &str| NewJob { run_at: Some(clock_time(text)), ..job() };
    let made = world.enqueue_all(vec![at("00:03:00"), at("00:01:00"), at("00:02:00"), at("00:00:00")]).await;
    assert_eq!(world.state(made[3]).await, JobState::Queued, "a time that has come is no delay");
    assert_eq!(world.state(made[0]).await, JobState::Scheduled);
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(0));
    world.set_time("00:02:00");
    assert_eq!(world.store().promote_due_jobs(1).await, Ok(1));
    assert_eq!(world.queue("default").await, [made[3], made[1]], "the earliest comes first");
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1));
    assert_eq!(world.queue("default").await, [made[3], made[1], made[2]]);
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(0));
    let lease = world.node("a").await;
    assert_eq!(world.claim(lease, ALL).await.len(), 3);
    assert_eq!(world.state(made[0]).await, JobState::Scheduled, "a delayed job is not handed out");
}

pub async fn c06_a_job_can_be_moved_anywhere(world: &mut World) {
    let made = some_jobs(world, 5).await;
    let order = |numbers: [usize; 5]| numbers.map(|n| made[n]).to_vec();
    for (id, to, expected) in [
        (made[2], Move::ToFront, [2, 0, 1, 3, 4]),
        (made[0], Move::ToBack, [2, 1, 3, 4, 0]),
        (made[4], Move::Before(made[1]), [2, 4, 1, 3, 0]),
        (made[2], Move::After(made[3]), [4, 1, 3, 2, 0]),
        (made[4], Move::Before(made[1]), [4, 1, 3, 2, 0]),
        (made[0], Move::After(made[2]), [4, 1, 3, 2, 0]),
        (made[1], Move::ToPriority(3), [1, 4, 3, 2, 0]),
        (made[2], Move::Before(made[1]), [2, 1, 4, 3, 0]),
        (made[2], Move::ToPriority(3), [1, 2, 4, 3, 0]),
        (made[2], Move::ToFront, [2, 1, 4, 3, 0]),
        (made[0], Move::ToPriority(-1), [2, 1, 4, 3, 0]),
        (made[2], Move::After(made[0]), [1, 4, 3, 0, 2]),
    ] {
        let place = world.store().move_job_if_queued(id, to).await.expect("a queued job can be moved");
        assert_eq!(place.job_id, id);
        assert_eq!(world.queue("default").await, order(expected), "{to:?}");
        let Whereabouts::Queued { place: stored, .. } = world.job(id).await.whereabouts else { panic!("queued") };
        assert_eq!(stored, place, "what is returned is what is stored");
    }
    world.reopen().await;
    assert_eq!(world.queue("default").await, order([1, 4, 3, 0, 2]));
}

pub async fn c06_a_new_job_goes_behind_what_was_moved_to_the_end(world: &mut World) {
    let made = some_jobs(world, 4).await;
    let (mut order, mut last) = (vec![made[3]], made[3]);
    for moved in &made[..3] {
        world.store().move_job_if_queued(*moved, Move::After(last)).await.expect("there is room");
        last = *moved;
        order.push(last);
    }
    order.extend(some_jobs(world, 2).await);
    assert_eq!(world.queue("default").await, order);
    world.store().move_job_if_queued(order[0], Move::ToBack).await.expect("it is moved");
    order.rotate_left(1);
    assert_eq!(world.queue("default").await, order);
}

pub async fn c06_a_new_job_goes_behind_a_neighbourhood_that_was_renumbered(world: &mut World) {
    let mut order = some_jobs(world, 8).await;
    // Everybody squeezes in before the last one, until the gap there is used up.
    for _ in 0..60 {
        let (first, last) = (order.remove(0), order[order.len() - 1]);
        world.store().move_job_if_queued(first, Move::Before(last)).await.expect("there is room");
        order.insert(order.len() - 1, first);
    }
    order.extend(some_jobs(world, 3).await);
    assert_eq!(world.queue("default").await, order);
}

pub async fn c06_moving_into_the_same_gap_never_runs_out_and_never_reorders_others(world: &mut World) {
    let made = some_jobs(world, 10).await;
    let mut order = made.clone();
    // More moves than a gap can be halved, many times over.
    for round in 0..300 {
        let moved = if round % 2 == 0 { made[7] } else { made[8] };
        let place = world.store().move_job_if_queued(moved, Move::After(made[3])).await.expect("there is room");
        order.retain(|id| *id != moved);
        let anchor = order.iter().position(|id| *id == made[3]).expect("the anchor stays");
        order.insert(anchor + 1, moved);
        assert_eq!(world.queue("default").await, order, "round {round}");
        assert_eq!(place.job_id, moved);
    }
}

pub async fn c06_thousands_of_moves_keep_every_order(world: &mut World) {
    let mut order = some_jobs(world, 40).await;
    let mut dice: u64 = 42;
    for round in 0..2000 {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = |salt: u32| usize::try_from(dice.rotate_left(salt) % 40).expect("small");
        let (moved, other) = (order[pick(7)], order[2 + pick(29) % 3]);
        if moved == other {
            continue;
        }
        let before = dice & (1 << 40) == 0;
        let to = if before { Move::Before(other) } else { Move::After(other) };
        world.store().move_job_if_queued(moved, to).await.expect("there is room");
        order.retain(|id| *id != moved);
        let anchor = order.iter().position(|id| *id == other).expect("it stays");
        order.insert(if before { anchor } else { anchor + 1 }, moved);
        if round % 100 == 0 {
            assert_eq!(world.queue("default").await, order, "round {round}");
        }
    }
    assert_eq!(world.queue("default").await, order);
}

pub async fn c06_a_used_up_gap_is_renumbered_and_ties_keep_their_order(world: &mut World) {
    let made = some_jobs(world, 6).await;
    assert_ne!(world.tamper("UPDATE {queue} SET position = 0").await, Ok(0));
    let mut order = world.queue("default").await;
    assert_eq!(order, made, "ids of one instant keep the order in which they were made");
    let moved = order.remove(5);
    world.store().move_job_if_queued(moved, Move::After(order[1])).await.expect("the gap is renumbered");
    order.insert(2, moved);
    assert_eq!(world.queue("default").await, order);
}

pub async fn c06_a_move_is_refused_unless_both_wait_in_one_queue(world: &mut World) {
    let made = some_jobs(world, 3).await;
    let elsewhere = world.enqueue(NewJob { queue: "elsewhere".to_owned(), ..job() }).await;
    let later = world.enqueue(NewJob { run_at: Some(clock_time("01:00:00")), ..job() }).await;
    let lease = world.node("a").await;
    let mut request = claim_request(lease, 1);
    request.queues = vec!["default".to_owned()];
    let claimed = world.store().claim_jobs_if_leased(request).await.expect("claiming succeeds");
    assert_eq!(claimed[0].job.id, made[0]);
    let before = world.snapshot(&[made[0], elsewhere, later]).await;
    let store = world.store();
    assert_wrong_state(store.move_job_if_queued(made[0], Move::ToFront).await, JobState::Running);
    assert_wrong_state(store.move_job_if_queued(later, Move::ToFront).await, JobState::Scheduled);
    assert_not_found(store.move_job_if_queued(JobId(nobody()), Move::ToFront).await, "job");
    refusal(store.move_job_if_queued(made[1], Move::Before(elsewhere)).await);
    for neighbour in [JobId(nobody()), made[0], later] {
        let refused = store.move_job_if_queued(made[1], Move::After(neighbour)).await;
        assert!(refused.is_err(), "{refused:?}");
    }
    assert_eq!(world.snapshot(&[made[0], elsewhere, later]).await, before);
    world.complete(lease, made[0]).await;
    assert_wrong_state(store.move_job_if_queued(made[0], Move::ToFront).await, JobState::Completed);
}

pub async fn c06_moving_a_job_beside_itself_changes_no_order(world: &mut World) {
    let made = some_jobs(world, 3).await;
    // Refused or done, both are right; what must not happen is another order.
    let _answer = world.store().move_job_if_queued(made[1], Move::Before(made[1])).await;
    assert_eq!(world.queue("default").await, made);
}

pub async fn c18_an_edit_replaces_a_queued_job_at_its_exact_place(world: &mut World) {
    let mut order = some_jobs(world, 3).await;
    world.store().move_job_if_queued(order[1], Move::ToPriority(4)).await.expect("it is moved");
    order.swap(0, 1);
    world.pass(secs(10));
    let new = world.store().edit_job_if_queued(order[0], json(r#"{"v":2}"#)).await.expect("it is edited");
    let old = order[0];
    order[0] = new;
    assert_eq!(world.queue("default").await, order);
    let view = world.job(new).await;
    assert_eq!((view.job.spec.input.as_str(), view.state()), (r#"{"v":2}"#, JobState::Queued));
    let Whereabouts::Queued { place, ready, .. } = view.whereabouts else { panic!("queued") };
    assert_eq!((place.priority, ready), (4, true));
    let closed = world.closed_run(old).await;
    assert_eq!((closed.outcome, closed.error_code), (Outcome::Cancelled, Some(ErrorCode::Replaced)));
    assert_eq!((closed.started_at, closed.node_id), (None, None));
    assert_eq!(world.job(old).await.job.spec.input, json("{}"), "what was asked for first is still known");
}

pub async fn c03_a_dispatched_job_cannot_be_edited(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("a").await;
    world.claim_one(lease).await;
    assert_wrong_state(world.store().edit_job_if_queued(id, json("1")).await, JobState::Running);
    world.complete(lease, id).await;
    assert_wrong_state(world.store().edit_job_if_queued(id, json("1")).await, JobState::Completed);
    assert_not_found(world.store().edit_job_if_queued(JobId(nobody()), json("1")).await, "job");
    assert_eq!(world.job(id).await.job.spec.input, json("{}"));
}

pub async fn c18_an_edit_of_a_serial_head_keeps_the_head(world: &mut World) {
    let made = world.enqueue_all(vec![serial_job("k"), serial_job("k")]).await;
    let new = world.store().edit_job_if_queued(made[0], json("[]")).await.expect("it is edited");
    assert_eq!(world.readiness().await, [(new, true), (made[1], false)]);
    let lease = world.node("a").await;
    assert_eq!(world.claim(lease, ALL).await, [new]);
}

pub async fn c07_cancelling_before_the_start_closes_the_job(world: &mut World) {
    let queued = world.enqueue(job()).await;
    let delayed = world.enqueue(NewJob { run_at: Some(clock_time("01:00:00")), ..job() }).await;
    world.pass(secs(3));
    for id in [queued, delayed] {
        assert_eq!(world.store().cancel_job(id).await, Ok(Cancelled::BeforeStart));
        let run = world.closed_run(id).await;
        assert_eq!((run.outcome, run.error_code), (Outcome::Cancelled, Some(ErrorCode::Cancelled)));
        assert_eq!((run.started_at, run.node_id, run.is_final), (None, None, true));
        assert_eq!(run.finished_at, clock_time("00:00:03"));
        assert_wrong_state(world.store().cancel_job(id).await, JobState::Cancelled);
    }
    assert!(world.queue("default").await.is_empty());
    world.set_time("02:00:00");
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(0));
    assert_not_found(world.store().cancel_job(JobId(nobody())).await, "job");
}

pub async fn c07_cancelling_a_running_job_asks_its_node(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("a").await;
    world.claim_one(lease).await;
    world.pass(secs(5));
    assert_eq!(world.store().cancel_job(id).await, Ok(Cancelled::Requested));
    world.pass(secs(5));
    assert_eq!(world.store().cancel_job(id).await, Ok(Cancelled::Requested), "asking twice is asking once");
    let Whereabouts::Running(running) = world.job(id).await.whereabouts else { panic!("it runs on") };
    assert_eq!(running.cancel_requested_at, Some(clock_time("00:00:05")));
    let beat = world.store().heartbeat_if_leased(lease).await.expect("the lease holds");
    assert_eq!((beat.cancel_requested, beat.running), (vec![id], vec![id]));
    world.complete(lease, id).await;
    assert_eq!(world.state(id).await, JobState::Completed, "what was done before the request came is done");
}

pub async fn c07_cancelling_the_head_of_a_key_readies_the_next(world: &mut World) {
    let made = world.enqueue_all(vec![serial_job("k"), serial_job("k"), serial_job("k")]).await;
    assert_eq!(world.store().cancel_job(made[0]).await, Ok(Cancelled::BeforeStart));
    assert_eq!(world.readiness().await, [(made[1], true), (made[2], false)]);
}

pub async fn c12_a_batch_is_made_whole_or_not_at_all(world: &mut World) {
    let bad = NewJob { queue: String::new(), ..job() };
    let refused = world.store().enqueue_jobs(vec![job(), bad, job()]).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    assert!(world.queue("default").await.is_empty());
    assert_eq!(world.count("SELECT COUNT(*) FROM {jobs}").await, 0);
}
