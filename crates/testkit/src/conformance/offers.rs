//! Targets that no live node offers: the schedule is marked and waits, and nothing of it stays pending for ever.

use crate::prelude::*;
use punctual_core::checks::Check;
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::job::JobState;
use punctual_core::offers::{OffersSettled, PATIENCE};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::{Missed, ScheduleDefinition};
use punctual_core::slot::{Decision, Reason};
use punctual_core::store::{Lease, NewNode};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;

async fn settle(world: &World) -> OffersSettled {
    world.store().settle_offers(ALL).await.expect("offers can be settled")
}

fn nothing() -> OffersSettled {
    OffersSettled::default()
}

async fn only_job(world: &World, id: ScheduleId) -> JobId {
    let jobs = world.store().schedule_jobs(id, None, ALL).await.expect("jobs can be read");
    assert_eq!(jobs.len(), 1);
    jobs[0].job.id
}

async fn leave(world: &World, lease: Lease) {
    world.store().leave_if_leased(lease).await.expect("an idle node may leave");
}

pub async fn e06_a_schedule_nobody_can_run_is_marked_and_waits(world: &mut World) {
    let schedule = world.create(minutely("alone")).await;
    assert_eq!(settle(world).await, OffersSettled { marked: 1, ..nothing() });
    assert_eq!(settle(world).await, nothing(), "it is marked once");
    let state = world.schedule(schedule.id).await.state;
    assert_eq!(state.no_executor_since, Some(clock_time("00:00:00")));
    assert!(state.problem.is_some_and(|words| words.contains("no executor") && words.contains(WORK)));
    assert_eq!((state.next_slot_at, state.next_run_at), (Some(clock_time("00:01:00")), None));
    world.pass(mins(10));
    assert_eq!(world.store().next_due_in().await, Ok(None), "nothing wakes the scheduler for it");
    assert_eq!(world.fire().await.schedules, 0);
    assert_eq!(world.ledger(schedule.id).await, []);
    world.reopen().await;
    let findings = world.store().run_checks(ALL).await.expect("the store can be checked");
    let told: Vec<_> = findings.iter().map(|finding| finding.check).collect();
    assert_eq!(told, [Check::ScheduleProblem], "doctor tells, and finds nothing broken: {findings:?}");
    let reconciled = world.store().reconcile_schedules(None, ALL).await.expect("it reconciles");
    assert_eq!(reconciled.replanned, 0, "its plan waits, and is not made anew");
}

pub async fn e06_other_schedules_go_on_meanwhile(world: &mut World) {
    world.node("n").await;
    let target = Target::task("elsewhere");
    let lonely = ScheduleDefinition { target, ..minutely("lonely") };
    world.create(lonely).await;
    world.create(minutely("served")).await;
    assert_eq!(settle(world).await, OffersSettled { marked: 1, ..nothing() });
    world.pass(mins(1));
    let fired = world.fire_one().await;
    assert_eq!(world.state(fired).await, JobState::Queued);
}

pub async fn e06_the_mark_goes_when_a_node_offers_the_target_again(world: &mut World) {
    let schedule = world.create(minutely("back")).await;
    settle(world).await;
    let lease = world.node("n").await;
    assert_eq!(settle(world).await, OffersSettled { cleared: 1, ..nothing() });
    let state = world.schedule(schedule.id).await.state;
    assert_eq!((state.no_executor_since, state.problem), (None, None));
    assert_eq!(state.next_run_at, Some(clock_time("00:01:00")));
    world.pass(mins(1));
    let fired = world.fire_one().await;
    assert_eq!(world.claim_one(lease).await, fired);
    world.complete(lease, fired).await;
    leave(world, lease).await;
    assert_eq!(settle(world).await, OffersSettled { marked: 1, ..nothing() }, "a node that left offers nothing");
}

pub async fn e06_a_lost_node_offers_nothing(world: &mut World) {
    world.create(minutely("s")).await;
    let lease = world.node("n").await;
    assert_eq!(settle(world).await, nothing());
    world.recover(lease).await;
    assert_eq!(settle(world).await, OffersSettled { marked: 1, ..nothing() });
}

pub async fn e06_the_missed_policy_decides_about_the_slots_that_waited(world: &mut World) {
    let with = |name: &str, missed| ScheduleDefinition { missed, ..minutely(name) };
    let skip = world.create(with("skip", Missed::SKIP)).await.id;
    let once = world.create(with("once", Missed::ONCE)).await.id;
    let all = world.create(with("all", Missed::all(10))).await.id;
    assert_eq!(settle(world).await.marked, 3);
    world.set_time("00:03:30");
    world.node("n").await;
    assert_eq!(settle(world).await.cleared, 3);
    assert_eq!(world.fire().await.jobs.len(), 1 + 1 + 3);
    let superseded = |last| range("00:01:00", last, 2, Decision::Missed, Reason::Superseded);
    let skipped = range("00:01:00", "00:02:00", 2, Decision::Skipped, Reason::Superseded);
    let on_time = slot("00:03:00", Decision::Fired, Reason::OnTime);
    let decisions = |rows: Vec<SlotFacts>| rows.into_iter().map(|row| (row.0, row.1, row.2)).collect::<Vec<_>>();
    let expected = decisions(vec![skipped, on_time]);
    assert_eq!(decisions(world.ledger(skip).await), expected);
    assert_eq!(
        decisions(world.ledger(once).await),
        decisions(vec![superseded("00:02:00"), slot("00:03:00", Decision::Fired, Reason::Catchup)])
    );
    assert_eq!(world.ledger(all).await.len(), 3);
}

pub async fn e06_jitter_and_a_chosen_time_survive_the_mark(world: &mut World) {
    let jittered = world.create(ScheduleDefinition { jitter: mins(30), ..hourly("jittered") }).await;
    let moved = world.create(hourly("moved")).await;
    let at = clock_time("00:37:11");
    world.store().reschedule(moved.id, at).await.expect("it can be moved");
    assert_eq!(settle(world).await.marked, 2);
    world.node("n").await;
    assert_eq!(settle(world).await.cleared, 2);
    let after = world.schedule(jittered.id).await.state;
    assert_eq!((after.next_slot_at, after.next_run_at), (jittered.state.next_slot_at, jittered.state.next_run_at));
    let after = world.schedule(moved.id).await.state;
    assert_eq!((after.next_slot_at, after.next_run_at), (Some(at), Some(at)));
}

pub async fn e06_pausing_editing_and_deleting_a_marked_schedule_go_on_as_usual(world: &mut World) {
    let paused = world.create(minutely("paused")).await;
    let edited = world.create(minutely("edited")).await;
    let deleted = world.create(minutely("deleted")).await;
    assert_eq!(settle(world).await.marked, 3);
    let store = world.store();
    store.pause_schedule(paused.id, None, None).await.expect("it can be paused");
    store.delete_schedule(deleted.id).await.expect("it can be deleted");
    world.node("n").await;
    let definition = ScheduleDefinition { description: "new words".to_owned(), ..minutely("edited") };
    let after = store.update_schedule_if_version(edited.id, 1, definition).await.expect("it can be edited");
    assert_eq!((after.state.no_executor_since, after.state.problem), (None, None), "an edit takes the mark off");
    assert_eq!(after.state.next_run_at, Some(clock_time("00:01:00")), "and keeps its place");
    assert_eq!(settle(world).await.cleared, 1, "the paused one");
    let after = world.schedule(paused.id).await.state;
    assert_eq!((after.enabled, after.next_run_at), (false, None), "it is still paused");
    world.pass(mins(2));
    assert_eq!(world.fire().await.jobs.len(), 1);
    let resumed = store.resume_schedule(paused.id).await.expect("it can be resumed");
    assert_eq!(resumed.state.next_run_at, Some(clock_time("00:03:00")));
}

pub async fn e06_a_job_nobody_can_run_does_not_wait_for_ever(world: &mut World) {
    let skip = world.create(ScheduleDefinition { missed: Missed::SKIP, ..hourly("skip") }).await;
    let once = world.create(hourly("once")).await;
    world.set_time("01:00:00");
    assert_eq!(world.fire().await.jobs.len(), 2);
    let stray = world.enqueue(job()).await;
    assert_eq!(settle(world).await.marked, 2);
    world.pass(secs(60));
    assert_eq!(settle(world).await.given_up, []);
    world.pass(secs(1));
    let given_up = settle(world).await.given_up;
    let skipped = only_job(world, skip.id).await;
    assert_eq!(given_up, [skipped]);
    let run = world.closed_run(skipped).await;
    assert_eq!((run.outcome, run.error_code), (Outcome::Failed, Some(ErrorCode::NoExecutor)));
    assert_eq!((run.started_at, run.is_final), (None, true));
    let results = world.schedule(skip.id).await.results;
    assert_eq!((results.last_outcome, results.consecutive_failures), (Some(Outcome::Failed), 1));
    world.pass(PATIENCE);
    let given_up = settle(world).await.given_up;
    assert_eq!(given_up, [only_job(world, once.id).await]);
    assert_eq!(world.queue("default").await, [stray], "what belongs to no schedule waits");
    assert_eq!(settle(world).await, nothing());
}

pub async fn e06_a_job_waits_while_its_patience_lasts_and_runs_then(world: &mut World) {
    world.create(hourly("s")).await;
    world.set_time("01:00:00");
    let fired = world.fire_one().await;
    settle(world).await;
    world.pass(mins(600));
    assert_eq!(settle(world).await, nothing());
    let lease = world.node("n").await;
    assert_eq!(settle(world).await.given_up, []);
    assert_eq!(world.claim_one(lease).await, fired);
}

pub async fn e06_giving_up_frees_the_serial_key(world: &mut World) {
    let definition = ScheduleDefinition { serial: true, missed: Missed::SKIP, ..hourly("serial") };
    world.create(definition).await;
    world.set_time("01:00:00");
    let first = world.fire_one().await;
    settle(world).await;
    world.pass(secs(61));
    assert_eq!(settle(world).await.given_up, [first]);
    let lease = world.node("n").await;
    assert_eq!(settle(world).await.cleared, 1);
    world.set_time("02:00:00");
    let second = world.fire_one().await;
    assert_eq!(world.claim_one(lease).await, second);
}

pub async fn e06_every_kind_of_target_is_compared_by_its_job_type(world: &mut World) {
    let targets = [
        Target::command(["true"]),
        Target::task("ü \"q\""),
        serde("{\"kind\":\"http\",\"url\":\"https://example.org\"}"),
        serde("{\"kind\":\"sql\",\"connection\":\"main\",\"function\":\"f\"}"),
        serde("{\"kind\":\"flow\",\"name\":\"f\"}"),
        serde("{\"kind\":\"graph\",\"id\":\"p:g\"}"),
    ];
    for (n, target) in targets.iter().enumerate() {
        let timing = TimingSpec::cron("* * * * *", "UTC");
        world.create(ScheduleDefinition::new(named(&format!("s{n}")), timing, target.clone())).await;
    }
    assert_eq!(settle(world).await.marked, targets.len());
    let offers = targets.iter().map(Target::job_type).collect();
    world.store().register_node(NewNode { name: "all".to_owned(), offers }).await.expect("a node comes in");
    assert_eq!(settle(world).await.cleared, targets.len());
}

fn serde(text: &str) -> Target {
    json(text).to().expect("it is a target")
}

pub async fn e06_a_schedule_that_cannot_be_understood_holds_up_nobody(world: &mut World) {
    let broken = world.create(minutely("broken")).await;
    world.create(minutely("fine")).await;
    let id = world.raw.uuid_literal(broken.id.0);
    let tampered = world.tamper(&format!("UPDATE {{schedules}} SET missed = '7' WHERE id = {id}")).await;
    assert_eq!(tampered, Ok(1));
    assert_eq!(settle(world).await.marked, 1);
}

pub async fn e06_marks_are_made_a_page_at_a_time(world: &mut World) {
    for n in 0..5 {
        world.create(minutely(&format!("s{n}"))).await;
    }
    let page = || async { world.store().settle_offers(2).await.expect("offers can be settled").marked };
    assert_eq!([page().await, page().await, page().await, page().await], [2, 2, 1, 0]);
}
