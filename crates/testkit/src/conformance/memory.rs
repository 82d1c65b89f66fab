//! Schedules that a program declares, and firing from what a node remembers: the same slots, each once.

use crate::prelude::*;
use jiff::Timestamp;
use punctual_core::id::ScheduleId;
use punctual_core::job::JobState;
use punctual_core::run::Trigger;
use punctual_core::schedule::{FiredFrom, Missed, Overlap, Schedule, ScheduleDefinition, Source};
use punctual_core::slot::{Decision, Reason};
use punctual_core::store::{ScheduleKey, StoreError};
use punctual_core::upkeep::{Declaration, Declarations, Declared, FiredFromMemory, Plans};

fn declarations(schedules: Vec<(ScheduleDefinition, FiredFrom)>) -> Declarations {
    let schedules =
        schedules.into_iter().map(|(definition, fired_from)| Declaration { definition, fired_from }).collect();
    Declarations { owner: Some("app".to_owned()), schedules, remove_others: false }
}

async fn declare(world: &World, schedules: Vec<(ScheduleDefinition, FiredFrom)>) -> Declared {
    world.store().declare_schedules(declarations(schedules)).await.expect("they are declared")
}

/// Declares one schedule.
async fn declare_one(world: &World, definition: ScheduleDefinition, fired_from: FiredFrom) -> Schedule {
    declare(world, vec![(definition, fired_from)]).await.schedules.remove(0)
}

/// What a node remembers that declares one schedule.
async fn remembered(world: &World, id: ScheduleId) -> Vec<Schedule> {
    world.store().schedules_to_remember(mins(60), ALL, &[id]).await.expect("they can be read")
}

async fn fire_from_memory(world: &World, schedules: &[Schedule], plans: Plans) -> FiredFromMemory {
    world.store().fire_remembered(None, schedules.to_vec(), plans).await.expect("firing from memory succeeds")
}

/// Renames the table of plans, so that nothing can use it, or back.
async fn hide_plans(world: &World, hide: bool) {
    let (from, to) = if hide { ("schedule_state", "hidden") } else { ("hidden", "schedule_state") };
    let to = world.raw.table(to);
    let to = to.rsplit('.').next().unwrap_or(&to);
    let renamed = world.tamper(&format!("ALTER TABLE {{{from}}} RENAME TO {to}")).await;
    assert!(renamed.is_ok(), "{renamed:?}");
}

fn fired(at: &str) -> SlotFacts {
    slot(at, Decision::Fired, Reason::OnTime)
}

pub async fn d07_declared_schedules_are_created_edited_and_left_alone(world: &mut World) {
    let both = |second: &str| vec![(minutely("one"), FiredFrom::Store), (cron("two", second), FiredFrom::Store)];
    let first = declare(world, both("0 * * * *")).await;
    assert_eq!((&first.created, &first.updated), (&vec![named("one"), named("two")], &Vec::new()));
    let one = &first.schedules[0];
    assert_eq!((one.definition.source, one.definition.owner.as_deref()), (Source::Code, Some("app")));
    assert_eq!((one.version, one.state.next_slot_at), (1, Some(clock_time("00:01:00"))));
    world.pass(secs(30));
    let again = declare(world, both("0 * * * *")).await;
    assert_eq!(again.schedules, first.schedules, "what is as it was is not touched");
    assert!(again.created.is_empty() && again.updated.is_empty() && again.switched.is_empty());
    let edited = declare(world, both("30 * * * *")).await;
    assert_eq!((&edited.created, &edited.updated), (&Vec::new(), &vec![named("two")]));
    assert_eq!(edited.schedules[1].id, first.schedules[1].id);
    assert_eq!(
        (edited.schedules[1].version, edited.schedules[1].state.next_slot_at),
        (2, Some(clock_time("00:30:00")))
    );
    assert_eq!(world.count("SELECT COUNT(*) FROM {schedules}").await, 2);
}

pub async fn d07_removal_is_asked_for_and_touches_the_same_owner_only(world: &mut World) {
    let stored = |name: &str| (minutely(name), FiredFrom::Store);
    let by_hand = world.create(minutely("by hand")).await;
    let other = Declarations { owner: Some("other".to_owned()), ..declarations(vec![stored("foreign")]) };
    world.store().declare_schedules(other).await.expect("they are declared");
    declare(world, vec![stored("kept"), stored("old")]).await;
    let unasked = declare(world, vec![stored("kept")]).await;
    assert!(unasked.removed.is_empty(), "only when it is asked for");
    let asked = Declarations { remove_others: true, ..declarations(vec![stored("kept")]) };
    let declared = world.store().declare_schedules(asked.clone()).await.expect("they are declared");
    assert_eq!(declared.removed, [named("old")]);
    let names: Vec<_> = world.store().schedules(None, ALL).await.expect("they can be read");
    let names: Vec<_> = names.iter().map(|schedule| schedule.definition.name.as_str()).collect();
    assert_eq!(names, ["by hand", "foreign", "kept"]);
    assert_eq!(world.schedule(by_hand.id).await, by_hand);
    let again = world.store().declare_schedules(asked).await.expect("they are declared");
    assert!(again.removed.is_empty());
}

pub async fn d07_a_name_of_somebody_else_is_refused_and_nothing_is_written(world: &mut World) {
    let by_hand = world.create(minutely("taken")).await;
    let wanted = declarations(vec![(minutely("new"), FiredFrom::Store), (hourly("taken"), FiredFrom::Store)]);
    let refused = world.store().declare_schedules(wanted).await;
    assert_eq!(refused, Err(StoreError::NameTaken { what: "schedule", name: "taken".to_owned() }));
    assert_eq!(world.schedule(by_hand.id).await, by_hand);
    assert_eq!(world.store().schedule(&ScheduleKey::from("new")).await, Ok(None), "all or none");
    let twice = declarations(vec![(minutely("same"), FiredFrom::Store), (hourly("same"), FiredFrom::Store)]);
    assert_eq!(refusal(world.store().declare_schedules(twice).await).field, "name");
    let broken = declarations(vec![(cron("broken", "61 * * * *"), FiredFrom::Store)]);
    assert_eq!(refusal(world.store().declare_schedules(broken).await).field, "cron");
}

pub async fn d07_many_who_declare_at_once_make_one_schedule(world: &mut World) {
    let (first, second) = (world.store(), world.second_store().await);
    let wanted = || declarations(vec![(minutely("one"), FiredFrom::Store), (hourly("two"), FiredFrom::Memory)]);
    let (a, b, c) = tokio::join!(
        first.declare_schedules(wanted()),
        second.declare_schedules(wanted()),
        first.declare_schedules(wanted())
    );
    let created: usize = [a, b, c].map(|declared| declared.expect("it is declared").created.len()).iter().sum();
    assert_eq!(created, 2);
    assert_eq!(world.count("SELECT COUNT(*) FROM {schedules}").await, 2);
}

pub async fn d07_a_slot_seen_by_memory_and_store_runs_once(world: &mut World) {
    let schedule = declare_one(world, minutely("both"), FiredFrom::Store).await;
    for (minute, memory_first) in [(1, true), (2, false), (3, true)] {
        // As an older process holds it, which does not know that the store fires it by now.
        let held = world.schedule(schedule.id).await;
        world.set_time(&format!("00:0{minute}:00"));
        let mut jobs = Vec::new();
        for memory in [memory_first, !memory_first] {
            jobs.extend(if memory {
                fire_from_memory(world, std::slice::from_ref(&held), Plans::Move).await.fired.jobs
            } else {
                world.fire().await.jobs
            });
        }
        assert_eq!(jobs.len(), 1, "slot {minute}");
        assert_eq!(world.job(jobs[0]).await.job.slot_at, Some(clock_time(&format!("00:0{minute}:00"))));
    }
    assert_eq!(world.ledger(schedule.id).await, ["00:01:00", "00:02:00", "00:03:00"].map(fired));
    assert_eq!(world.count("SELECT COUNT(*) FROM {jobs}").await, 3);
}

pub async fn d07_what_is_fired_from_memory_is_never_due_in_the_store(world: &mut World) {
    let schedule = declare_one(world, minutely("in memory"), FiredFrom::Memory).await;
    assert_eq!((schedule.state.fired_from, schedule.state.next_run_at), (FiredFrom::Memory, None));
    assert_eq!(schedule.state.next_slot_at, Some(clock_time("00:01:00")));
    assert_eq!(world.store().next_due_in().await, Ok(None));
    world.set_time("00:01:00");
    assert_eq!(world.fire().await, punctual_core::store::Fired::default());
    let found = world.store().reconcile_schedules(None, ALL).await.expect("reconciling succeeds");
    assert_eq!(found.replanned, 0, "its plan is as it should be");
    let mut memory = remembered(world, schedule.id).await;
    assert_eq!(memory.len(), 1);
    for minute in 1..4 {
        world.set_time(&format!("00:0{minute}:00"));
        let done = fire_from_memory(world, &memory, Plans::Move).await;
        assert_eq!(done.fired.jobs.len(), 1);
        assert_eq!(world.job(done.fired.jobs[0]).await.job.spec.trigger, Trigger::Schedule);
        memory = done.schedules;
        let stored = world.schedule(schedule.id).await.state;
        assert_eq!((stored.next_slot_at, stored.next_run_at), (memory[0].state.next_slot_at, None));
        assert_eq!((stored.last_job_id, stored.fired_through), (Some(done.fired.jobs[0]), Some(world.clock_now())));
    }
    assert_eq!(remembered(world, schedule.id).await[0].state.next_run_at, memory[0].state.next_run_at);
    let others = world.store().schedules_to_remember(mins(60), ALL, &[]).await;
    assert_eq!(others, Ok(Vec::new()), "a process that does not declare it does not fire it");
}

pub async fn d14_a_schedule_is_switched_back_and_forth_and_no_slot_is_lost_or_fired_twice(world: &mut World) {
    let (moving, staying) = (minutely("moving"), minutely("staying"));
    let both = |fired_from| vec![(moving.clone(), fired_from), (staying.clone(), FiredFrom::Memory)];
    let first = declare(world, both(FiredFrom::Memory)).await;
    let (id, staying_id) = (first.schedules[0].id, first.schedules[1].id);
    assert_eq!(first.switched, [named("moving"), named("staying")]);
    world.set_time("00:01:00");
    let held = remembered(world, id).await;
    fire_from_memory(world, &held, Plans::Move).await;
    // Into the store, while a slot is due that memory has not fired.
    world.set_time("00:02:10");
    let canary = declare(world, both(FiredFrom::Store)).await;
    assert_eq!((&canary.switched, canary.schedules[0].version), (&vec![named("moving")], 1));
    assert_eq!(world.fire().await.jobs.len(), 1, "the store goes on with the very next slot");
    world.set_time("00:03:00");
    assert_eq!(world.fire().await.jobs.len(), 1);
    let stale = fire_from_memory(world, &held, Plans::Move).await;
    assert_eq!(stale.fired.jobs, [], "a process that has not heard of it fires nothing twice");
    // And back, again while a slot is due.
    world.set_time("00:04:05");
    assert_eq!(declare(world, both(FiredFrom::Memory)).await.switched, [named("moving")]);
    assert_eq!(world.fire().await.jobs, []);
    let memory = remembered(world, id).await;
    assert_eq!(fire_from_memory(world, &memory, Plans::Move).await.fired.jobs.len(), 1);
    assert_eq!(world.ledger(id).await, ["00:01:00", "00:02:00", "00:03:00", "00:04:00"].map(fired));
    assert_eq!(world.schedule(staying_id).await.state.fired_from, FiredFrom::Memory, "one at a time");
    assert_eq!(world.ledger(staying_id).await, []);
}

pub async fn d14_steering_reaches_what_is_fired_from_memory(world: &mut World) {
    let schedule = declare_one(world, hourly("steered"), FiredFrom::Memory).await;
    world.store().pause_schedule(schedule.id, None, None).await.expect("it is paused");
    assert_eq!(remembered(world, schedule.id).await, [], "a paused one is not remembered");
    world.store().resume_schedule(schedule.id).await.expect("it goes on");
    world.store().reschedule(schedule.id, clock_time("00:20:00")).await.expect("it is moved");
    let memory = remembered(world, schedule.id).await;
    assert_eq!(memory[0].state.next_run_at, Some(clock_time("00:20:00")));
    assert_eq!(world.store().next_due_in().await, Ok(None), "still nothing is due in the store");
    world.set_time("00:20:00");
    assert_eq!(fire_from_memory(world, &memory, Plans::Move).await.fired.jobs.len(), 1);
    world.store().skip_next(schedule.id, None).await.expect("the next one is skipped");
    assert_eq!(remembered(world, schedule.id).await[0].state.next_slot_at, Some(clock_time("03:00:00")));
    let version = world.schedule(schedule.id).await.version;
    let edited = ScheduleDefinition { description: "told".to_owned(), ..memory[0].definition.clone() };
    world.store().update_schedule_if_version(schedule.id, version, edited).await.expect("it is edited");
    let memory = remembered(world, schedule.id).await;
    assert_eq!(
        memory[0].state.next_slot_at,
        Some(clock_time("03:00:00")),
        "01:00 was given up for 00:20, 02:00 for nothing"
    );
    assert_eq!(memory[0].definition.description, "told");
}

pub async fn d08_schedules_are_fired_from_memory_without_their_table(world: &mut World) {
    let plain = world.create(minutely("plain")).await;
    let forbid = world.create(ScheduleDefinition { overlap: Overlap::Forbid, ..minutely("forbid") }).await;
    let lease = world.node("a").await;
    let mut memory = world.store().schedules_to_remember(mins(60), ALL, &[]).await.expect("they can be read");
    assert_eq!(memory.len(), 2);
    hide_plans(world, true).await;
    world.set_time("00:01:00");
    assert!(world.store().fire_due(None, ALL).await.is_err(), "the table cannot be used");
    let mut made = Vec::new();
    for minute in 1..4 {
        world.set_time(&format!("00:0{minute}:00"));
        let done = fire_from_memory(world, &memory, Plans::LeaveAlone).await;
        made.extend(done.fired.jobs);
        memory = done.schedules;
        let again = fire_from_memory(world, &memory, Plans::LeaveAlone).await;
        assert_eq!(again.fired.jobs, [], "nothing is due twice");
    }
    assert_eq!(made.len(), 4, "three of the one, and one of the other, which waits for it");
    assert_eq!(world.claim(lease, ALL).await, made, "the rest of the store works");
    for id in &made {
        world.complete(lease, *id).await;
    }
    assert_eq!(world.ledger(plain.id).await, ["00:01:00", "00:02:00", "00:03:00"].map(fired));
    let skipped = |at| slot(at, Decision::Skipped, Reason::Overlap);
    assert_eq!(world.ledger(forbid.id).await, [fired("00:01:00"), skipped("00:02:00"), skipped("00:03:00")]);
    hide_plans(world, false).await;
}

pub async fn d08_the_ledger_goes_on_after_firing_from_memory(world: &mut World) {
    let policies = [("skip", Missed::SKIP), ("once", Missed::ONCE), ("all", Missed::all(100))];
    let mut ids = Vec::new();
    for (name, missed) in policies {
        ids.push(world.create(ScheduleDefinition { missed, ..minutely(name) }).await.id);
    }
    let mut memory = world.store().schedules_to_remember(mins(60), ALL, &[]).await.expect("they can be read");
    hide_plans(world, true).await;
    for minute in 1..5 {
        world.set_time(&format!("00:0{minute}:00"));
        memory = fire_from_memory(world, &memory, Plans::LeaveAlone).await.schedules;
    }
    hide_plans(world, false).await;
    world.set_time("00:04:30");
    assert_eq!(world.fire().await.jobs, [], "what was fired from memory is not fired again");
    world.set_time("00:05:00");
    assert_eq!(world.fire().await.jobs.len(), 3, "and the next slot is");
    for id in ids {
        let all = ["00:01:00", "00:02:00", "00:03:00", "00:04:00", "00:05:00"].map(fired);
        assert_eq!(world.ledger(id).await, all);
        assert_eq!(world.schedule(id).await.state.next_slot_at, Some(clock_time("00:06:00")));
    }
}

pub async fn d08_a_range_does_not_cover_what_was_fired_from_memory(world: &mut World) {
    let schedule = world.create(minutely("gaps")).await;
    let memory = world.store().schedules_to_remember(mins(60), ALL, &[]).await.expect("they can be read");
    let planned_at = |at: &str| {
        let mut schedule = memory[0].clone();
        (schedule.state.next_slot_at, schedule.state.next_run_at) = (Some(clock_time(at)), Some(clock_time(at)));
        schedule
    };
    for at in ["00:03:00", "00:04:00", "00:07:00"] {
        world.set_time(at);
        let done = fire_from_memory(world, &[planned_at(at)], Plans::LeaveAlone).await;
        assert_eq!(done.fired.jobs.len(), 1);
    }
    world.set_time("00:09:00");
    let fired_now = world.fire().await;
    assert_eq!((fired_now.jobs.len(), fired_now.slots_not_run), (1, 5));
    let missed = |first, last, count| range(first, last, count, Decision::Missed, Reason::Superseded);
    let expected = [
        missed("00:01:00", "00:02:00", 2),
        fired("00:03:00"),
        fired("00:04:00"),
        missed("00:05:00", "00:06:00", 2),
        fired("00:07:00"),
        missed("00:08:00", "00:08:00", 1),
        slot("00:09:00", Decision::Fired, Reason::Catchup),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected, "every slot has one record");
}

/// Whoever goes by an older plan takes slots for due that somebody else has decided. What he would have made of them
/// must not stand in the way of the slots that he does decide.
pub async fn d08_a_slot_that_somebody_else_fired_keeps_no_other_from_firing(world: &mut World) {
    let lease = world.node("a").await;
    let policies =
        [("forbid", Overlap::Forbid, None), ("queue", Overlap::QueueOne, None), ("two", Overlap::Allow, Some(2))];
    let mut ids = Vec::new();
    for (name, overlap, max_concurrent_runs) in policies {
        let definition = ScheduleDefinition { overlap, max_concurrent_runs, missed: Missed::all(9), ..minutely(name) };
        ids.push(world.create(definition).await.id);
    }
    let older = world.store().schedules_to_remember(mins(60), ALL, &[]).await.expect("they can be read");
    world.set_time("00:01:00");
    let first = world.fire().await.jobs;
    assert_eq!(world.claim(lease, ALL).await, first);
    world.set_time("00:02:00");
    let second = fire_from_memory(world, &older, Plans::LeaveAlone).await.fired;
    assert_eq!((second.jobs.len(), second.slots_not_run), (2, 1), "only the one that forbids it waits for its job");
    for job in first {
        world.complete(lease, job).await;
    }
    for job in world.claim(lease, ALL).await {
        world.complete(lease, job).await;
    }
    world.set_time("00:03:00");
    let third = fire_from_memory(world, &older, Plans::LeaveAlone).await.fired;
    assert_eq!((third.jobs.len(), third.slots_not_run), (3, 0), "all that was before is over");
    for job in world.claim(lease, ALL).await {
        world.complete(lease, job).await;
    }
    world.set_time("00:04:00");
    let fourth = world.fire().await;
    assert_eq!((fourth.jobs.len(), fourth.slots_not_run), (3, 0), "the store's own plan was behind as well");
    for id in ids {
        let last = world.ledger(id).await.split_off(2);
        assert_eq!(last, ["00:03:00", "00:04:00"].map(fired));
    }
}

pub async fn d08_what_is_remembered_is_due_soon_and_not_paused(world: &mut World) {
    let names = |schedules: &[Schedule]| -> Vec<String> {
        schedules.iter().map(|schedule| schedule.definition.name.to_string()).collect()
    };
    let paused = world.create(minutely("paused")).await;
    world.store().pause_schedule(paused.id, None, None).await.expect("it is paused");
    let deleted = world.create(minutely("deleted")).await;
    world.store().delete_schedule(deleted.id).await.expect("it is deleted");
    world.create(cron("later", "30 * * * *")).await;
    world.create(minutely("soon")).await;
    world.create(cron("tomorrow", "0 8 * * *")).await;
    let store = world.store();
    let soon = store.schedules_to_remember(mins(60), ALL, &[paused.id]).await.expect("they can be read");
    assert_eq!(names(&soon), ["soon", "later"], "soonest first");
    let fewer = store.schedules_to_remember(mins(60), 1, &[]).await.expect("they can be read");
    assert_eq!(names(&fewer), ["soon"], "at most as many as are asked for");
    let nearer = store.schedules_to_remember(mins(10), ALL, &[]).await.expect("they can be read");
    assert_eq!(names(&nearer), ["soon"]);
    assert_eq!(world.schedule(soon[0].id).await, soon[0], "as it is stored");
}

/// What a node remembers is a hint: whatever it holds, the ledger and the rules decide.
pub async fn c16_a_poisoned_memory_changes_nothing(world: &mut World) {
    let schedule = world.create(minutely("poisoned")).await;
    let lease = world.node("a").await;
    for minute in 1..4 {
        world.set_time(&format!("00:0{minute}:00"));
        let id = world.fire_one().await;
        world.claim_one(lease).await;
        world.complete(lease, id).await;
    }
    world.set_time("00:03:30");
    let before = world.snapshot(&[]).await;
    let sound = world.schedule(schedule.id).await;
    let poisoned = |next: Option<Timestamp>, through: Option<Timestamp>| {
        let mut memory = sound.clone();
        (memory.state.next_slot_at, memory.state.next_run_at) = (next, next);
        (memory.state.fired_through, memory.state.last_slot_at) = (through, through);
        memory
    };
    let long_ago = Some(clock_time("00:00:00"));
    for memory in [
        poisoned(Some(clock_time("00:03:00")), long_ago),
        poisoned(Some(clock_time("00:03:00")), None),
        poisoned(Some(clock_time("00:02:00")), Some(clock_time("00:01:00"))),
        poisoned(None, None),
        poisoned(Some(instant("1999-01-01T00:00:00Z")), None),
        poisoned(Some(instant("2999-01-01T00:00:00Z")), None),
    ] {
        for plans in [Plans::LeaveAlone, Plans::Move] {
            let done = fire_from_memory(world, std::slice::from_ref(&memory), plans).await;
            assert_eq!(done.fired.jobs, [], "{plans:?} {:?}", memory.state);
            assert_eq!(world.snapshot(&[]).await, before, "{plans:?} {:?}", memory.state);
        }
    }
    world.set_time("00:04:00");
    let id = world.fire_one().await;
    assert_eq!(world.state(id).await, JobState::Queued);
}
