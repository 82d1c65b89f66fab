//! Doctor's checks: silent on every sound history, and each one speaks when its invariant is broken by hand.

use crate::harness::StoreKind;
use crate::prelude::*;
use jiff::Timestamp;
use punctual_core::checks::{Check, Finding};
use punctual_core::job::NewJob;
use punctual_core::upkeep::Plans;

async fn found(world: &World) -> Vec<Check> {
    let findings = world.store().run_checks(10).await.expect("the checks can be run");
    findings.into_iter().map(|finding| finding.check).collect()
}

/// Breaks a sound store by hand, and says what is found.
async fn found_after(world: &World, sql: &str) -> Vec<Check> {
    assert_eq!(found(world).await, [], "the store is sound before `{sql}`");
    let changed = world.tamper(sql).await;
    assert!(matches!(changed, Ok(1..)), "`{sql}` changes something: {changed:?}");
    found(world).await
}

pub async fn c17_a_sound_store_has_no_findings(world: &mut World) {
    let node = world.node("worker").await;
    let schedule = world.create(minutely("busy")).await;
    world.enqueue_all(vec![serial_job("k"), serial_job("k"), retried_job(2, secs(60)), job()]).await;
    world.set_time("00:01:00");
    world.fire_one().await;
    for id in world.claim(node, ALL).await {
        world.fail(node, id).await;
    }
    let first = world.claim_one(node).await;
    world.store().trigger_schedule(schedule.id, ByHand::default()).await.expect("it is triggered");
    assert_eq!(found(world).await, []);
    world.complete(node, first).await;
    world.store().delete_schedule(schedule.id).await.expect("it is deleted");
    assert_eq!(found(world).await, []);
}

pub async fn c17_a_job_that_is_nowhere_is_found_and_named(world: &mut World) {
    let id = world.enqueue(job()).await;
    assert_eq!(found_after(world, "DELETE FROM {queue}").await, [Check::JobNowhere]);
    let findings = world.store().run_checks(10).await.expect("the checks can be run");
    assert_eq!(findings[0].subjects, [id.to_string()]);
    assert!(!findings[0].more);
}

pub async fn c17_more_findings_than_asked_for_are_said_to_be_more(world: &mut World) {
    world.enqueue_all(vec![job(), job(), job()]).await;
    world.tamper("DELETE FROM {queue}").await.expect("the queue is emptied by hand");
    let findings = world.store().run_checks(2).await.expect("the checks can be run");
    assert_eq!((findings.len(), findings[0].subjects.len(), findings[0].more), (1, 2, true));
}

pub async fn c17_a_job_in_two_places_is_found(world: &mut World) {
    world.enqueue(job()).await;
    let node = world.node("worker").await;
    let twice = "INSERT INTO {delayed} (job_id, run_at) SELECT job_id, NULL FROM {queue}";
    assert_eq!(found_after(world, twice).await, [Check::JobInTwoPlaces]);
    world.tamper("DELETE FROM {delayed}").await.expect("it is undone");
    let running = world.claim_one(node).await;
    world.complete(node, running).await;
    let ended = "INSERT INTO {delayed} (job_id, run_at) SELECT job_id, NULL FROM {runs}";
    assert_eq!(found_after(world, ended).await, [Check::JobInTwoPlaces]);
}

pub async fn c17_a_running_job_whose_lease_is_gone_is_found(world: &mut World) {
    world.enqueue(job()).await;
    let node = world.node("worker").await;
    world.claim_one(node).await;
    assert_eq!(found_after(world, "DELETE FROM {leases}").await, [Check::RunningWithoutLease]);
}

pub async fn c17_a_job_that_is_held_for_nothing_is_found(world: &mut World) {
    world.enqueue_all(vec![serial_job("k"), serial_job("k")]).await;
    let no = match world.kind {
        StoreKind::Sqlite => "0",
        StoreKind::Postgres => "false",
    };
    assert_eq!(found_after(world, &format!("UPDATE {{queue}} SET ready = {no}")).await, [Check::HeldForNothing]);
}

pub async fn c17_a_missing_retry_is_found(world: &mut World) {
    world.enqueue(retried_job(2, secs(60))).await;
    let node = world.node("worker").await;
    let failed = world.claim_one(node).await;
    world.fail(node, failed).await.expect("a retry was made");
    assert_eq!(found_after(world, "DELETE FROM {retries}").await, [Check::RetryMissing, Check::RetryUnrecorded]);
}

pub async fn c17_a_schedule_without_its_state_is_found(world: &mut World) {
    world.create(minutely("stateless")).await;
    assert_eq!(found_after(world, "DELETE FROM {schedule_state}").await, [Check::ScheduleIncomplete]);
}

/// What was fired without the plan is found by it as soon as the schedule fires again.
async fn fired_from_memory_is_sound(world: &mut World) {
    let schedule = world.create(minutely("remembered")).await;
    world.set_time("00:01:00");
    let memory = vec![world.schedule(schedule.id).await];
    let done = world.store().fire_remembered(None, memory, Plans::LeaveAlone).await.expect("it is fired from memory");
    assert_eq!((done.fired.jobs.len(), found(world).await), (1, Vec::new()));
    world.store().pause_schedule(schedule.id, None, None).await.expect("it is paused");
    assert_eq!(found(world).await, []);
}

pub async fn c17_a_ledger_that_runs_ahead_of_its_schedule_is_found(world: &mut World) {
    fired_from_memory_is_sound(world).await;
    let schedule = world.create(minutely("ahead")).await;
    let (id, at) = (world.raw.uuid_literal(schedule.id.0), world.raw.time_literal(clock_time("00:01:30")));
    let sql = format!(
        "INSERT INTO {{slots}} (schedule_id, slot_at, through, count, decision, reason, decided_at, late_ms,
         schedule_version) VALUES ({id}, {at}, {at}, 1, 'skipped', 'calendar', {at}, 0, 1)"
    );
    assert_eq!(found_after(world, &sql).await, [Check::SlotNotCounted]);
}

pub async fn c17_a_slot_that_fired_a_job_nobody_has_is_found(world: &mut World) {
    let schedule = world.create(minutely("lost")).await;
    world.set_time("00:02:00");
    world.fire().await;
    let (id, at) = (world.raw.uuid_literal(schedule.id.0), world.raw.time_literal(clock_time("00:00:30")));
    let job = world.raw.uuid_literal(nobody());
    let sql = format!(
        "INSERT INTO {{slots}} (schedule_id, slot_at, through, count, decision, reason, decided_at, late_ms,
         schedule_version, job_id) VALUES ({id}, {at}, {at}, 1, 'fired', 'on_time', {at}, 0, 1, {job})"
    );
    assert_eq!(found_after(world, &sql).await, [Check::SlotWithoutJob]);
}

pub async fn c17_a_wrong_count_of_living_jobs_is_found(world: &mut World) {
    world.create(minutely("alive")).await;
    world.set_time("00:01:00");
    world.fire_one().await;
    assert_eq!(found_after(world, "DELETE FROM {schedule_live}").await, [Check::LiveMiscounted]);
    let restore = "INSERT INTO {schedule_live} (schedule_id, job_id) SELECT schedule_id, id FROM {jobs}";
    world.tamper(restore).await.expect("it is undone");
    let node = world.node("worker").await;
    let job = world.claim_one(node).await;
    world.complete(node, job).await;
    assert_eq!(found_after(world, restore).await, [Check::LiveMiscounted]);
}

pub async fn c17_schedules_that_stay_silent_are_found(world: &mut World) {
    let unplanned = world.create(hourly("unplanned")).await;
    let broken = world.create(hourly("broken")).await;
    let overdue = world.create(minutely("overdue")).await;
    assert_eq!(found(world).await, []);
    world.set_state_by_hand(unplanned.id, "next_slot_at = NULL, next_run_at = NULL").await;
    world.set_state_by_hand(broken.id, "problem = 'no such zone'").await;
    assert_eq!(found(world).await, [Check::ScheduleUnplanned, Check::ScheduleProblem]);
    world.set_time("00:02:00");
    assert_eq!(found(world).await, [Check::ScheduleUnplanned, Check::ScheduleProblem], "not yet over a minute");
    world.set_time("00:02:01");
    let findings = world.store().run_checks(10).await.expect("the checks can be run");
    let said: Vec<_> = findings.iter().flat_map(|finding| finding.subjects.clone()).collect();
    assert_eq!(said, ["unplanned", "broken: no such zone", "overdue"]);
    world.store().pause_schedule(overdue.id, None, None).await.expect("it is paused");
    assert_eq!(found(world).await, [Check::ScheduleUnplanned, Check::ScheduleProblem], "who is paused is not overdue");
}

pub async fn c17_a_delayed_job_that_nobody_takes_is_found(world: &mut World) {
    world.enqueue(NewJob { run_at: Some(clock_time("00:10:00")), ..job() }).await;
    world.set_time("00:11:00");
    assert_eq!(found(world).await, []);
    world.set_time("00:11:01");
    assert_eq!(found(world).await, [Check::Overdue]);
}

pub async fn c17_slots_that_a_wrong_clock_decided_are_found(world: &mut World) {
    world.create(minutely("early")).await;
    world.set_time("12:00:00");
    world.fire().await;
    assert_eq!(found(world).await, []);
    world.set_time("00:00:30");
    assert_eq!(found(world).await, [Check::DecidedInFuture]);
}

pub async fn c17_a_row_without_its_job_is_found(world: &mut World) {
    // SQLite would refuse this row by its references, unless somebody switches them off.
    if world.kind == StoreKind::Sqlite {
        world.tamper("PRAGMA foreign_keys = OFF").await.expect("references can be switched off");
    }
    let sql = format!("INSERT INTO {{delayed}} (job_id, run_at) VALUES ({}, NULL)", world.raw.uuid_literal(nobody()));
    assert_eq!(found_after(world, &sql).await, [Check::RowWithoutJob]);
}

pub async fn c17_a_snapshot_that_keeps_what_is_dead_is_found(world: &mut World) {
    match world.kind {
        StoreKind::Sqlite => a_reader_that_does_not_end(world).await,
        StoreKind::Postgres => a_transaction_that_does_not_end(world).await,
    }
    assert_eq!(found(world).await, [], "with its end it is over");
}

/// What is found without reading a table.
async fn found_quickly(world: &World) -> Vec<Finding> {
    world.store().run_quick_checks(10).await.expect("the checks can be run")
}

/// SQLite cannot empty its log, which grows by all that is written.
async fn a_reader_that_does_not_end(world: &World) {
    let large = json(&format!(r#"{{"text":"{}"}}"#, "x".repeat(1_000_000)));
    world.tamper("BEGIN").await.expect("a transaction is begun by hand");
    assert_eq!(world.count("SELECT count(*) FROM {queue}").await, 0, "and has its snapshot");
    for _ in 0..50 {
        world.enqueue(NewJob { input: large.clone(), ..job() }).await;
    }
    assert_eq!(found(world).await, [], "50 MB are not too many");
    for _ in 0..20 {
        world.enqueue(NewJob { input: large.clone(), ..job() }).await;
    }
    let findings = found_quickly(world).await;
    assert_eq!((findings.len(), findings[0].check), (1, Check::OldSnapshot));
    assert!(findings[0].subjects[0].contains("punctual.db-wal has grown to "), "{findings:?}");
    assert_eq!(found(world).await, [Check::OldSnapshot]);
    world.tamper("ROLLBACK").await.expect("it is ended by hand");
    // The next writes find that the log can be emptied, when they next try.
    while !found_quickly(world).await.is_empty() {
        world.enqueue(job()).await;
    }
}

/// PostgreSQL cannot remove dead rows. The transaction's age is what the store's clock says of it.
async fn a_transaction_that_does_not_end(world: &World) {
    for _ in 0..11 {
        world.enqueue_all(vec![job(); 1_000]).await;
    }
    let node = world.node("worker").await;
    world.tamper("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("a transaction is begun by hand");
    let since = world.count("SELECT (extract(epoch FROM now()) * 1000000)::bigint").await;
    let session = world.count("SELECT pg_backend_pid()::bigint").await;
    let set_age = |micros: i64| world.clock.set(Timestamp::from_microsecond(since + micros).expect("an instant"));
    let (minute, hour) = (60_000_000, 3_600_000_000);
    set_age(hour);
    assert_eq!(found(world).await, [], "nothing has died");
    set_age(hour + 1);
    assert_eq!(found(world).await, [Check::OldSnapshot], "and still it is too long");
    set_age(minute + 1);
    assert_eq!(found_quickly(world).await, []);
    while !world.claim(node, ALL).await.is_empty() {}
    // The server counts what died a little later.
    while found_quickly(world).await.is_empty() {}
    let findings = found_quickly(world).await;
    let subject = findings[0].subjects.concat();
    assert!(subject.contains("for 1m, with 1") && subject.contains(" dead rows in queue: "), "{subject}");
    assert!(subject.ends_with(&format!("SELECT pg_terminate_backend({session})")), "{subject}");
    assert_eq!(found(world).await, [Check::OldSnapshot]);
    set_age(minute);
    assert_eq!(found(world).await, [], "not yet over a minute");
    world.tamper("ROLLBACK").await.expect("it is ended by hand");
    set_age(2 * hour);
}
