//! Serial keys that a failure holds, and queues that are held for longer.

use crate::prelude::*;
use punctual_core::id::{JobId, ReservationId};
use punctual_core::job::{JobState, NewJob};
use punctual_core::job_key::{JobKey, JobKeyMode};
use punctual_core::readings::Count;
use punctual_core::retry::{RetryPolicy, SerialOnFailure};
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::Lease;
use punctual_core::unique::Unique;

fn holding(mut policy: RetryPolicy) -> RetryPolicy {
    policy.serial_on_failure = SerialOnFailure::Hold;
    policy
}

fn strict(key: &str) -> NewJob {
    NewJob { retry: holding(no_retry()), ..serial_job(key) }
}

/// Three jobs of one key, of which the first has failed for good.
async fn held(world: &World, lease: Lease) -> Vec<JobId> {
    let jobs = world.enqueue_all(vec![strict("k"); 3]).await;
    assert_eq!(world.claim(lease, ALL).await, [jobs[0]]);
    assert_eq!(world.fail(lease, jobs[0]).await, None);
    jobs
}

async fn assert_nothing_goes(world: &World, lease: Lease) {
    assert_eq!(world.claim(lease, ALL).await, []);
    assert_eq!(world.store().run_checks(10).await.expect("an answer"), [], "a held key is nothing wrong");
}

pub async fn a06_a_failure_holds_its_key_until_it_is_made_good(world: &mut World) {
    let lease = world.node("n").await;
    let jobs = held(world, lease).await;
    assert_nothing_goes(world, lease).await;
    world.reopen().await;
    assert_nothing_goes(world, lease).await;
    let free = world.enqueue_all(vec![serial_job("other"), job()]).await;
    assert_eq!(world.claim(lease, ALL).await, free, "other keys go on");
    let again = world.store().retry_job_if_ended(jobs[0], None).await.expect("a retry by hand");
    assert_eq!(world.claim(lease, ALL).await, [again], "it goes first, although it came last");
    assert_eq!(world.fail(lease, again).await, None);
    assert_nothing_goes(world, lease).await;
    let third = world.store().retry_job_if_ended(again, None).await.expect("a retry by hand");
    assert_eq!(world.claim(lease, ALL).await, [third]);
    assert_eq!(world.claim(lease, ALL).await, [], "one at a time");
    world.complete(lease, third).await;
    assert_eq!(world.store().serial_hold("k").await, Ok(None));
    assert_eq!(world.claim(lease, ALL).await, [jobs[1]]);
    world.complete(lease, jobs[1]).await;
    assert_eq!(world.claim(lease, ALL).await, [jobs[2]]);
}

pub async fn a06_a_held_key_waits_for_the_retries_of_its_policy(world: &mut World) {
    let lease = world.node("n").await;
    let patient = NewJob { retry: holding(retry(3, mins(1))), ..serial_job("k") };
    let jobs = world.enqueue_all(vec![patient; 2]).await;
    assert_eq!(world.claim(lease, ALL).await, [jobs[0]]);
    let second = world.fail(lease, jobs[0]).await.expect("a retry follows");
    assert_nothing_goes(world, lease).await;
    world.pass(mins(1));
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1));
    assert_eq!(world.claim(lease, ALL).await, [second], "before the one that came earlier");
    // A node that is lost is a failure, too.
    let recovered = world.recover(lease).await;
    assert_eq!(recovered.retries.len(), 1);
    let lease = world.node("m").await;
    world.pass(mins(1));
    world.store().promote_due_jobs(ALL).await.expect("they are promoted");
    assert_eq!(world.claim(lease, ALL).await, recovered.retries);
    world.complete(lease, recovered.retries[0]).await;
    assert_eq!(world.claim(lease, ALL).await, [jobs[1]]);
}

pub async fn a06_without_the_setting_the_next_one_goes(world: &mut World) {
    let lease = world.node("n").await;
    let jobs = world.enqueue_all(vec![NewJob { retry: no_retry(), ..serial_job("k") }; 2]).await;
    assert_eq!(world.claim(lease, ALL).await, [jobs[0]]);
    world.fail(lease, jobs[0]).await;
    assert_eq!(world.claim(lease, ALL).await, [jobs[1]]);
    assert_eq!(world.store().serial_holds(None, 10).await, Ok(vec![]));
}

pub async fn a06_whatever_comes_to_a_held_key_waits(world: &mut World) {
    let lease = world.node("n").await;
    let jobs = held(world, lease).await;
    let high = NewJob { priority: 9, ..strict("k") };
    let keyed =
        |key: &str| NewJob { job_key: Some(JobKey { key: key.into(), mode: JobKeyMode::Replace }), ..strict("k") };
    world.enqueue_all(vec![high.clone(), job()]).await;
    world.enqueue(keyed("a")).await;
    world.enqueue(keyed("a")).await;
    world.enqueue(NewJob { unique: Some(Unique::for_period(mins(1))), ..strict("k") }).await;
    let later = world.enqueue(NewJob { run_at: Some(clock_time("00:00:01")), ..high }).await;
    world.set_time("00:00:01");
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1));
    let queued = world.queue("default").await;
    world.store().move_job_if_queued(jobs[2], punctual_core::order::Move::ToFront).await.expect("it is moved");
    world.store().cancel_job(queued[0]).await.expect("it is cancelled");
    let claimed = world.claim(lease, ALL).await;
    assert_eq!(claimed.len(), 1, "only the one without a key");
    assert_eq!(world.job(claimed[0]).await.job.spec.serial_key, None);
    assert_nothing_goes(world, lease).await;
    let again = world.store().retry_job_if_ended(jobs[0], None).await.expect("a retry by hand");
    // What comes meanwhile does not take its place, and neither does a new input.
    world.enqueue(keyed("b")).await;
    let edited = world.store().edit_job_if_queued(again, json("7")).await.expect("it is edited");
    assert_eq!(world.claim(lease, ALL).await, [edited]);
    assert_eq!(world.store().give_back_if_leased(lease, vec![edited]).await, Ok(vec![edited]));
    assert_eq!(world.claim(lease, ALL).await, [edited]);
    world.complete(lease, edited).await;
    assert_eq!(world.claim(lease, ALL).await, [later], "by priority from now on");
}

pub async fn a06_a_held_key_is_listed_and_can_be_released(world: &mut World) {
    let lease = world.node("n").await;
    let jobs = held(world, lease).await;
    let hold = world.store().serial_hold("k").await.expect("an answer").expect("it is held");
    assert_eq!((hold.key.as_str(), hold.job_id), ("k", jobs[0]));
    assert_eq!((hold.held_at, hold.waiting), (clock_time("00:00:00"), Count { value: 2, more: false }));
    let other = world.enqueue(strict("b")).await;
    assert_eq!(world.claim(lease, ALL).await, [other]);
    world.fail(lease, other).await;
    let keys = async |after| -> Vec<String> {
        let listed = world.store().serial_holds(after, 10).await.expect("a list");
        listed.into_iter().map(|hold| hold.key).collect()
    };
    assert_eq!(keys(None).await, ["b", "k"]);
    assert_eq!(keys(Some("b")).await, ["k"]);
    // A retry that somebody cancels makes nothing good.
    let again = world.store().retry_job_if_ended(jobs[0], None).await.expect("a retry by hand");
    world.store().cancel_job(again).await.expect("it is cancelled");
    assert_nothing_goes(world, lease).await;
    assert_eq!(world.store().release_serial_key("k").await, Ok(hold));
    assert_not_found(world.store().release_serial_key("k").await, "held serial key");
    assert_eq!(world.claim(lease, ALL).await, [jobs[1]]);
    world.complete(lease, jobs[1]).await;
    assert_eq!(world.claim(lease, ALL).await, [jobs[2]]);
    assert_eq!(keys(None).await, ["b"]);
}

pub async fn a06_a_serial_schedule_may_hold_its_slots(world: &mut World) {
    let lease = world.node("n").await;
    let definition = ScheduleDefinition { serial: true, retry: holding(no_retry()), ..minutely("strict") };
    let schedule = world.create(definition.clone()).await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    assert_eq!(world.claim(lease, ALL).await, [first]);
    world.fail(lease, first).await;
    world.set_time("00:02:00");
    let second = world.fire_one().await;
    assert_nothing_goes(world, lease).await;
    let key = schedule.id.to_string();
    assert_eq!(world.store().release_serial_key(&key).await.expect("it is released").job_id, first);
    assert_eq!(world.claim(lease, ALL).await, [second]);
    let refused = ScheduleDefinition { serial: false, ..definition };
    let refused = ScheduleDefinition { name: named("loose"), ..refused };
    assert_eq!(refusal(world.store().create_schedule(refused).await).field, "retry.serial_on_failure");
    let loose = NewJob { serial_key: None, ..strict("k") };
    assert_eq!(refusal(world.store().enqueue_jobs(vec![loose]).await).field, "retry.serial_on_failure");
}

pub async fn a06_of_many_nodes_none_takes_what_a_failure_holds(world: &mut World) {
    let lease = world.node("n").await;
    let jobs = world.enqueue_all(vec![strict("k"); 20]).await;
    let others = [world.node("a").await, world.node("b").await];
    for (at, id) in jobs.iter().enumerate() {
        assert_eq!(world.claim(lease, ALL).await, [*id]);
        let store = world.store();
        // The failure is reported while others claim and make jobs of the key.
        let (failed, one, two, made) = tokio::join!(
            world.fail(lease, *id),
            world.claim(others[0], ALL),
            world.claim(others[1], ALL),
            store.enqueue_jobs(vec![strict("later")]),
        );
        assert_eq!(failed, None);
        let taken = [one, two, world.claim(others[0], ALL).await].concat();
        made.expect("it is queued");
        for id in taken {
            assert_eq!(world.job(id).await.job.spec.serial_key.as_deref(), Some("later"), "round {at}");
            // Whoever has it completes it; the other's report is refused.
            for lease in others {
                world.finish(lease, punctual_core::store::FinishedRun::completed(id)).await;
            }
        }
        assert_eq!(world.state(*id).await, JobState::Failed);
        world.store().release_serial_key("k").await.expect("it is released");
    }
}

pub async fn c11_a_hold_of_a_queue_can_be_renewed_until_it_has_ended(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("n").await;
    let held = world.store().reserve_queue("default", "ada", mins(5)).await.expect("the queue is free");
    world.set_time("00:04:00");
    let renewed = world.store().renew_reservation(held.id, mins(5)).await.expect("it is held");
    assert_eq!((renewed.id, renewed.expires_at), (held.id, clock_time("00:09:00")));
    let shorter = world.store().renew_reservation(held.id, secs(1)).await.expect("it is held");
    assert_eq!(shorter.expires_at, clock_time("00:09:00"), "it never becomes shorter");
    world.set_time("00:08:59");
    assert_eq!(world.claim(lease, ALL).await, []);
    world.set_time("00:09:00");
    assert_not_found(world.store().renew_reservation(held.id, mins(5)).await, "reservation");
    assert_eq!(world.claim(lease, ALL).await, [id], "it has run out");
    let held = world.store().reserve_queue("default", "ada", mins(5)).await.expect("the queue is free");
    world.store().release_reservation(held.id).await.expect("it is released");
    assert_not_found(world.store().renew_reservation(held.id, mins(5)).await, "reservation");
    assert_not_found(world.store().renew_reservation(ReservationId(nobody()), mins(5)).await, "reservation");
    assert_eq!(refusal(world.store().renew_reservation(held.id, secs(0)).await).field, "expires_in");
}
