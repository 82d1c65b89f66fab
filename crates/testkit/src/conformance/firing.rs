//! Firing: one job per slot, the next slot in the same transaction, and what each decision leaves behind.

use crate::prelude::*;
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::job::JobState;
use punctual_core::run::Trigger;
use punctual_core::schedule::{Dependency, Missed, ScheduleDefinition};
use punctual_core::slot::{Decision, Reason};
use punctual_core::store::{Fired, Retention, Store, StoreResult};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Several calls of `fire_due` at once, spread over several stores on the same data.
async fn fire_at_once(stores: &[Arc<dyn Store>], calls: usize, limit: usize) -> Vec<Fired> {
    let tasks: Vec<_> = (0..calls)
        .map(|n| {
            let store = stores[n % stores.len()].clone();
            tokio::spawn(async move { fire_until_done(&*store, limit).await })
        })
        .collect();
    let mut fired = Vec::new();
    for task in tasks {
        fired.extend(task.await.expect("a caller ends").expect("firing succeeds"));
    }
    fired
}

/// Fires in small batches until nothing is due any more.
async fn fire_until_done(store: &dyn Store, limit: usize) -> StoreResult<Vec<Fired>> {
    let mut all = Vec::new();
    loop {
        let fired = store.fire_due(None, limit).await?;
        if fired.schedules == 0 {
            return Ok(all);
        }
        all.push(fired);
    }
}

async fn slots_of_jobs(world: &World, jobs: &[JobId]) -> BTreeMap<(ScheduleId, Timestamp), usize> {
    let mut seen = BTreeMap::new();
    for id in jobs {
        let job = world.job(*id).await.job;
        let key = (job.schedule_id.expect("made by a schedule"), job.slot_at.expect("made for a slot"));
        *seen.entry(key).or_default() += 1;
    }
    seen
}

pub async fn a04_a_thousand_due_slots_fire_once_each_whoever_tries(world: &mut World) {
    let mut ids = BTreeSet::new();
    for n in 0..1000 {
        ids.insert(world.create(hourly(&format!("schedule {n}"))).await.id);
    }
    world.set_time("01:00:00");
    let stores = [world.store(), world.second_store().await];
    let jobs: Vec<JobId> = fire_at_once(&stores, 10, 64).await.into_iter().flat_map(|fired| fired.jobs).collect();
    assert_eq!(jobs.len(), 1000);
    let fired = slots_of_jobs(world, &jobs).await;
    let expected: BTreeMap<_, _> = ids.iter().map(|id| ((*id, clock_time("01:00:00")), 1)).collect();
    assert_eq!(fired, expected, "each slot has exactly one job");
    assert_eq!(world.queue("default").await.len(), 1000);
    assert_eq!(world.fire().await, Fired::default());
}

pub async fn d01_of_many_who_fire_one_schedule_exactly_one_does(world: &mut World) {
    let schedule = world.create(minutely("contested")).await;
    let stores = [world.store(), world.second_store().await];
    for round in 1..=20 {
        world.pass(mins(1));
        let fired = fire_at_once(&stores, 10, 1).await;
        let jobs: Vec<JobId> = fired.iter().flat_map(|fired| fired.jobs.iter().copied()).collect();
        assert_eq!(jobs.len(), 1, "round {round}: {fired:?}");
        assert_eq!(world.ledger(schedule.id).await.len(), round);
    }
}

pub async fn a04_a_slot_that_is_in_the_ledger_never_fires_again(world: &mut World) {
    let schedule = world.create(minutely("decided elsewhere")).await;
    // As if another program had decided the slot, and this one had not seen it yet.
    let (id, at) = (world.raw.uuid_literal(schedule.id.0), world.raw.time_literal(clock_time("00:01:00")));
    let row = format!("({id}, {at}, {at}, 1, 'skipped', 'edited', {at}, 0, 1)");
    let columns = "schedule_id, slot_at, through, count, decision, reason, decided_at, late_ms, schedule_version";
    let inserted = world.tamper(&format!("INSERT INTO {{slots}} ({columns}) VALUES {row}")).await;
    assert_eq!(inserted, Ok(1));
    world.set_time("00:01:00");
    for _ in 0..3 {
        assert_eq!(world.fire().await.jobs, [], "the ledger's row stands in the way");
    }
    assert!(world.queue("default").await.is_empty());
    assert_eq!(world.ledger(schedule.id).await, [slot("00:01:00", Decision::Skipped, Reason::Edited)]);
    assert_eq!(world.schedule(schedule.id).await.state.next_slot_at, Some(clock_time("00:02:00")));
    world.set_time("00:02:00");
    world.fire_one().await;
    world.assert_database_refuses(&format!("INSERT INTO {{slots}} ({columns}) VALUES {row}")).await;
}

pub async fn a04_a_slot_fires_once_however_much_is_forgotten(world: &mut World) {
    let schedule = world.create(minutely("pruned")).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let job = world.fire_one().await;
    world.claim_one(lease).await;
    world.complete(lease, job).await;
    world.set_time("00:01:30");
    let horizon = clock_time("00:01:30");
    let retention = Retention::before(horizon, ALL);
    let pruned = world.store().prune_history(retention).await.expect("history can be pruned");
    assert_eq!((pruned.jobs, pruned.slots), (1, 1));
    assert!(world.ledger(schedule.id).await.is_empty());
    let slot_at = world.raw.time_literal(clock_time("00:01:00"));
    world.set_state_by_hand(schedule.id, &format!("next_slot_at = {slot_at}, next_run_at = {slot_at}")).await;
    assert_eq!(world.fire().await.jobs, []);
    let state = world.schedule(schedule.id).await.state;
    assert_eq!(state.next_slot_at, Some(clock_time("00:02:00")));
    assert_eq!(state.fired_through, Some(clock_time("00:01:00")));
}

pub async fn a04_a_clock_that_goes_back_fires_nothing_twice(world: &mut World) {
    let schedule = world.create(minutely("turned back")).await;
    world.set_time("00:02:00");
    assert_eq!(world.fire().await.jobs.len(), 1);
    for text in ["00:00:59", "00:01:00", "00:01:59", "00:02:00", "00:02:59"] {
        world.set_time(text);
        assert_eq!(world.fire().await.jobs, [], "{text}");
    }
    world.set_time("00:03:00");
    world.fire_one().await;
    let fired: Vec<_> = world.ledger(schedule.id).await.into_iter().filter(|row| row.3 == Decision::Fired).collect();
    assert_eq!(fired.iter().map(|row| row.0.as_str()).collect::<Vec<_>>(), ["00:02:00", "00:03:00"]);
}

pub async fn a05_the_next_slot_is_stored_with_the_job_that_was_fired(world: &mut World) {
    let schedule = world.create(hourly("chained")).await;
    for hour in 1..=5 {
        world.clock.set(clock_time("00:00:00") + mins(60 * hour));
        let job = world.fire_one().await;
        world.reopen().await;
        let state = world.schedule(schedule.id).await.state;
        assert_eq!(state.last_job_id, Some(job));
        assert_eq!(state.last_slot_at, Some(clock_time("00:00:00") + mins(60 * hour)));
        assert_eq!(state.next_slot_at, Some(clock_time("00:00:00") + mins(60 * (hour + 1))));
        assert_eq!(world.state(job).await, JobState::Queued);
    }
    assert_eq!(world.ledger(schedule.id).await.len(), 5);
}

pub async fn a05_a_refused_commit_moves_neither_plan_nor_ledger_nor_queue(world: &mut World) {
    let schedule = world.create(hourly("unlucky")).await;
    world.set_time("01:00:00");
    let before = world.snapshot(&[]).await;
    world.faults.refuse_commits(true).await;
    let refused = world.store().fire_due(None, ALL).await;
    world.faults.refuse_commits(false).await;
    assert!(refused.is_err(), "the caller is told: {refused:?}");
    assert_eq!(world.snapshot(&[]).await, before);
    world.reopen().await;
    assert_eq!(world.snapshot(&[]).await, before);
    world.fire_one().await;
    assert_eq!(world.ledger(schedule.id).await, [slot("01:00:00", Decision::Fired, Reason::OnTime)]);
}

pub async fn a10_every_slot_leaves_a_record(world: &mut World) {
    let schedule = world.create(minutely("recorded")).await;
    let node = world.node("a").await.node_id;
    world.clock.set(clock_time("00:01:00") + SignedDuration::from_micros(1_234_567));
    let fired = world.store().fire_due(Some(node), ALL).await.expect("firing succeeds");
    let rows = world.slot_rows(schedule.id).await;
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!(
        (row.schedule_id, row.slot_at, row.through),
        (schedule.id, clock_time("00:01:00"), clock_time("00:01:00"))
    );
    assert_eq!((row.count, row.decision, row.reason), (1, Decision::Fired, Reason::OnTime));
    assert_eq!((row.job_id, row.node), (Some(fired.jobs[0]), Some(node)));
    assert_eq!((row.late_ms, row.schedule_version), (1234, 1));
    assert_eq!(row.decided_at, clock_time("00:01:00") + SignedDuration::from_micros(1_234_567));
}

pub async fn a10_a_slot_can_be_followed_from_pending_to_its_end(world: &mut World) {
    let schedule = world.create(ScheduleDefinition { retry: no_retry(), ..minutely("followed") }).await;
    let lease = world.node("a").await;
    for (minute, fails, expected) in [(1, false, JobState::Completed), (2, true, JobState::Failed)] {
        world.clock.set(clock_time("00:00:00") + mins(minute));
        let job = world.fire_one().await;
        let row = world.slot_rows(schedule.id).await.remove(0);
        assert_eq!(row.job_id, Some(job), "the record is written before the run");
        assert_eq!(world.state(job).await, JobState::Queued);
        world.claim_one(lease).await;
        assert_eq!(world.state(job).await, JobState::Running);
        if fails {
            world.fail(lease, job).await;
        } else {
            world.complete(lease, job).await;
        }
        assert_eq!(world.state(job).await, expected);
        assert_eq!(world.slot_rows(schedule.id).await.remove(0), row, "the ledger's row never changes");
    }
}

pub async fn a10_the_ledger_is_read_latest_first_page_by_page(world: &mut World) {
    let schedule = world.create(minutely("paged")).await;
    for _ in 0..5 {
        world.pass(mins(1));
        world.fire_one().await;
    }
    let page = |rows: Vec<punctual_core::slot::SlotRow>| rows.iter().map(|row| facts(row).0).collect::<Vec<_>>();
    let first = world.store().slots(schedule.id, None, 2).await.expect("a page");
    let before = first[1].slot_at;
    assert_eq!(page(first), ["00:05:00", "00:04:00"]);
    let rest = world.store().slots(schedule.id, Some(before), ALL).await.expect("a page");
    assert_eq!(page(rest), ["00:03:00", "00:02:00", "00:01:00"]);
    let jobs = world.store().schedule_jobs(schedule.id, None, 2).await.expect("a page");
    let later = jobs[1].job.id;
    let slots: Vec<_> = jobs.iter().map(|view| view.job.slot_at).collect();
    assert_eq!(slots, [Some(clock_time("00:05:00")), Some(clock_time("00:04:00"))]);
    let rest = world.store().schedule_jobs(schedule.id, Some(later), ALL).await.expect("a page");
    assert_eq!(rest.len(), 3);
}

pub async fn e04_a_run_says_what_started_it(world: &mut World) {
    let definition = ScheduleDefinition { retry: retry(2, SHORTEST_WAIT), ..cron("told", "*/5 * * * *") };
    let schedule = world.create(definition).await;
    let lease = world.node("a").await;
    world.set_time("00:05:00");
    let on_time = world.fire_one().await;
    world.set_time("00:17:00");
    let late = world.fire_one().await;
    let by_hand = world.store().trigger_schedule(schedule.id, ByHand::default()).await.expect("it is triggered");
    let by_program = world.enqueue(job()).await;
    assert_eq!(world.claim_one(lease).await, on_time);
    let again = world.fail(lease, on_time).await.expect("a retry follows");
    let mut told = Vec::new();
    for id in [on_time, late, by_hand, by_program, again] {
        told.push(world.job(id).await.job.spec);
    }
    let triggers: Vec<_> = told.iter().map(|spec| spec.trigger).collect();
    let expected = [Trigger::Schedule, Trigger::Catchup, Trigger::Manual, Trigger::Api, Trigger::Retry];
    assert_eq!(triggers, expected);
    assert_eq!(told[0].trigger_detail.as_deref(), Some("*/5 * * * *"), "the cron stands beside it");
}

pub async fn e04_every_and_at_say_their_text_too(world: &mut World) {
    world.create(every("every", 90)).await;
    world.set_time("00:01:30");
    let job = world.fire_one().await;
    assert_eq!(world.job(job).await.job.spec.trigger_detail.as_deref(), Some("@every 1m30s"));
}

pub async fn e05_what_a_fire_changes_changes_together(world: &mut World) {
    let schedule = world.create(minutely("together")).await;
    assert_eq!(schedule.state.last_job_id, None);
    assert_eq!(schedule.state.last_enqueued_at, None);
    world.set_time("00:01:05");
    let job = world.fire_one().await;
    let state = world.schedule(schedule.id).await.state;
    assert_eq!((state.last_job_id, state.last_enqueued_at), (Some(job), Some(clock_time("00:01:05"))));
    assert_eq!((state.last_slot_at, state.next_run_at), (Some(clock_time("00:01:00")), Some(clock_time("00:02:00"))));
    assert_eq!(state.fired_through, Some(clock_time("00:01:00")));
    assert_eq!((state.problem, state.exhausted_at), (None, None));
}

pub async fn e05_a_job_carries_what_its_schedule_says(world: &mut World) {
    let definition = ScheduleDefinition {
        input: json(r#"{"a":1}"#),
        queue: "reports".to_owned(),
        priority: 7,
        retry: retry(5, secs(9)),
        timeout: punctual_core::job::Timeout::After(secs(42)),
        ..minutely("carried")
    };
    let schedule = world.create(definition.clone()).await;
    world.set_time("00:01:00");
    let made = world.fire_one().await;
    let job = world.job(made).await.job;
    assert_eq!((job.schedule_id, job.slot_at), (Some(schedule.id), Some(clock_time("00:01:00"))));
    assert_eq!((&job.spec.target, &job.spec.input), (&definition.target, &definition.input));
    assert_eq!((job.spec.queue.as_str(), job.spec.priority), ("reports", 7));
    assert_eq!((&job.spec.retry, job.spec.timeout), (&definition.retry, definition.timeout));
    assert_eq!((job.attempt, job.failures, job.interruptions), (1, 0, 0));
    assert_eq!((job.root_job_id, job.retry_of, job.chain_began_at), (made, None, clock_time("00:01:00")));
    assert_eq!(world.queue("reports").await, [made]);
}

pub async fn d10_jitter_delays_a_slot_by_less_than_the_gap_and_keeps_its_name(world: &mut World) {
    let schedule = world.create(ScheduleDefinition { jitter: mins(30), ..minutely("spread") }).await;
    for minute in 1..=20 {
        let state = world.schedule(schedule.id).await.state;
        let slot_at = clock_time("00:00:00") + mins(minute);
        assert_eq!(state.next_slot_at, Some(slot_at));
        let run_at = state.next_run_at.expect("it is planned");
        assert!(run_at >= slot_at && run_at < slot_at + mins(1), "{slot_at} is due at {run_at}");
        world.clock.set(run_at - SignedDuration::from_micros(1));
        assert_eq!(world.fire().await.jobs, [], "not before it is due");
        world.clock.set(run_at);
        let job = world.fire_one().await;
        assert_eq!(world.job(job).await.job.slot_at, Some(slot_at));
    }
}

pub async fn d10_a_batch_looks_at_no_more_than_it_was_asked_to(world: &mut World) {
    for n in 0..5 {
        world.create(hourly(&format!("schedule {n}"))).await;
    }
    world.set_time("01:00:00");
    let mut sizes = Vec::new();
    for _ in 0..4 {
        let fired = world.store().fire_due(None, 2).await.expect("firing succeeds");
        assert_eq!(fired.schedules, fired.jobs.len());
        sizes.push(fired.schedules);
    }
    assert_eq!(sizes, [2, 2, 1, 0]);
    assert_eq!(world.queue("default").await.len(), 5);
}

pub async fn d10_jobs_are_queued_in_the_order_that_is_reported(world: &mut World) {
    for n in 0..20 {
        world.create(hourly(&format!("schedule {n}"))).await;
    }
    world.create(ScheduleDefinition { missed: Missed::all(10), ..cron("many", "*/10 * * * *") }).await;
    world.set_time("01:00:00");
    let fired = world.fire().await;
    assert_eq!(fired.jobs.len(), 26);
    assert_eq!(world.queue("default").await, fired.jobs);
}

async fn succeed_once(world: &World) {
    let lease = world.node("a").await;
    let job = world.claim_one(lease).await;
    world.complete(lease, job).await;
}

pub async fn d11_a_slot_runs_only_if_the_other_schedule_succeeded_within_the_window(world: &mut World) {
    let first = world.create(cron("first", "0 1 1 3 *")).await;
    let within = Some(Dependency { schedule_id: first.id, within: mins(30) });
    let second = world.create(ScheduleDefinition { depends_on: within, ..cron("second", "*/20 * * * *") }).await;
    world.set_time("00:20:00");
    assert_eq!(world.fire().await.jobs, [], "the other one never ran");
    world.set_time("00:40:00");
    assert_eq!(world.fire().await.jobs, []);
    world.set_time("01:00:00");
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.slots_not_run), (1, 1), "the first one fires, but has not succeeded yet");
    world.set_time("01:10:00");
    succeed_once(world).await;
    for minute in [80, 100, 120] {
        world.clock.set(clock_time("00:00:00") + mins(minute));
        world.fire().await;
    }
    let decisions: Vec<_> = world.ledger(second.id).await.into_iter().map(|row| (row.0, row.3, row.4)).collect();
    let skipped = |at: &str| (at.to_owned(), Decision::Skipped, Reason::Dependency);
    let ran = |at: &str| (at.to_owned(), Decision::Fired, Reason::OnTime);
    let expected = [
        skipped("00:20:00"),
        skipped("00:40:00"),
        skipped("01:00:00"),
        ran("01:20:00"),
        ran("01:40:00"),
        skipped("02:00:00"),
    ];
    assert_eq!(decisions, expected);
}

/// The reads of an API, made one after the other while the store is busy firing.
pub async fn e07_reads_go_on_while_ten_thousand_slots_are_fired(world: &mut World) {
    let missed = Missed::all(100);
    let mut ids = Vec::new();
    for n in 0..100 {
        let name = format!("behind {n}");
        ids.push(world.create(ScheduleDefinition { missed, ..minutely(&name) }).await.id);
    }
    let store = world.store();
    let others = world.enqueue_all(vec![job(); 10]).await;
    world.pass(mins(100));
    let fired = std::cell::Cell::new(false);
    let firing = async {
        let done = store.fire_due(None, ALL).await.expect("firing succeeds");
        fired.set(true);
        done.jobs.len()
    };
    let reading = async {
        let mut reads = 0;
        while !fired.get() {
            let id = ids[reads % ids.len()];
            store.schedule(&id.into()).await.expect("schedules can be read");
            store.slots(id, None, 10).await.expect("the ledger can be read");
            store.job(others[reads % others.len()]).await.expect("jobs can be read").expect("the job exists");
            assert!(store.queued_jobs("default", None, 10).await.expect("queues can be read").len() >= 10);
            reads += 4;
        }
        reads
    };
    let (jobs, reads) = tokio::join!(firing, reading);
    assert_eq!(jobs, 10_000);
    assert!(reads >= 40, "only {reads} reads were answered while the store was firing");
}
