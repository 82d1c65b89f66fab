//! Calendars, pauses that end or begin by themselves, and the cap on fires.

use crate::prelude::*;
use jiff::{SignedDuration, Timestamp};
use punctual_core::backfill::NewBackfill;
use punctual_core::calendar::{CalendarRules, ClosedDay, ClosedWeekday, StoredCalendar, Window};
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::schedule::{FiredFrom, Missed, Schedule, ScheduleDefinition};
use punctual_core::slot::{Decision, Reason};
use punctual_core::store::{Fired, Lease, Store, StoreError};
use punctual_core::upkeep::{Declaration, Declarations, Plans};
use std::sync::Arc;

/// Closed from one time of the first day to another.
fn closed(from: &str, until: &str) -> CalendarRules {
    let window = Window { from: clock_time(from), until: clock_time(until), note: Some("works".to_owned()) };
    CalendarRules { windows: vec![window], ..CalendarRules::default() }
}

async fn make(world: &World, name: &str, rules: CalendarRules) -> StoredCalendar {
    let made = world.store().create_calendar(named(name), "for tests".to_owned(), rules).await;
    made.expect("a valid calendar is stored")
}

fn with_calendar(definition: ScheduleDefinition, name: &str) -> ScheduleDefinition {
    ScheduleDefinition { calendar: Some(name.to_owned()), ..definition }
}

pub async fn d11_a_calendar_keeps_every_field(world: &mut World) {
    world.set_time("00:00:10");
    let rules = CalendarRules {
        timezone: "Europe/Berlin".to_owned(),
        days: vec![
            ClosedDay { on: "2026-12-25".parse().expect("a day"), note: Some("Christmas 🎄".to_owned()) },
            ClosedDay { on: "05-01".parse().expect("a day"), note: None },
        ],
        weekdays: vec![ClosedWeekday::Sunday],
        windows: closed("01:00:00", "02:00:00").windows,
    };
    let made = make(world, "de", rules.clone()).await;
    assert_eq!((made.name.as_str(), made.description.as_str(), &made.rules), ("de", "for tests", &rules));
    assert_eq!((made.version, made.created_at, made.updated_at), (1, clock_time("00:00:10"), clock_time("00:00:10")));
    assert_eq!(world.store().calendar("de").await, Ok(Some(made.clone())));
    assert_eq!(world.store().calendar("other").await, Ok(None));
    make(world, "at", CalendarRules::default()).await;
    let listed = world.store().calendars(None, 10).await.expect("a list");
    assert_eq!(listed.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["at", "de"]);
    assert_eq!(world.store().calendars(Some("at"), 10).await, Ok(vec![made.clone()]));
    world.reopen().await;
    assert_eq!(world.store().calendar("de").await, Ok(Some(made)));
}

pub async fn d11_a_calendars_name_is_taken_once_and_bad_rules_are_refused(world: &mut World) {
    make(world, "de", CalendarRules::default()).await;
    let again = world.store().create_calendar(named("de"), String::new(), CalendarRules::default()).await;
    assert_eq!(again, Err(StoreError::NameTaken { what: "calendar", name: "de".to_owned() }));
    let mars = CalendarRules { timezone: "Mars/Olympus".to_owned(), ..CalendarRules::default() };
    assert_eq!(refusal(world.store().create_calendar(named("x"), String::new(), mars.clone()).await).field, "timezone");
    assert_eq!(refusal(world.store().update_calendar_if_version("de", 1, String::new(), mars).await).field, "timezone");
    let nul = world.store().create_calendar(named("x"), "a\0b".to_owned(), CalendarRules::default()).await;
    assert_eq!(refusal(nul).field, "description");
}

pub async fn d11_a_schedule_names_a_calendar_that_is_there(world: &mut World) {
    assert_not_found(world.store().create_schedule(with_calendar(minutely("s"), "none")).await, "calendar");
    let schedule = world.create(minutely("s")).await;
    let edit = with_calendar(minutely("s"), "none");
    assert_not_found(world.store().update_schedule_if_version(schedule.id, 1, edit).await, "calendar");
    make(world, "de", CalendarRules::default()).await;
    let edit = with_calendar(minutely("s"), "de");
    let edited = world.store().update_schedule_if_version(schedule.id, 1, edit).await.expect("an edit");
    assert_eq!(edited.definition.calendar.as_deref(), Some("de"));
    assert_eq!(edited.state.next_slot_at, schedule.state.next_slot_at, "its place is kept");
}

pub async fn d11_a_slot_that_the_calendar_closes_is_skipped_and_says_why(world: &mut World) {
    make(world, "works", closed("00:02:00", "00:04:00")).await;
    let schedule = world.create(with_calendar(minutely("s"), "works")).await;
    for minute in 1..=4 {
        world.set_time(&format!("00:0{minute}:00"));
        world.fire().await;
    }
    let expected = [
        slot("00:01:00", Decision::Fired, Reason::OnTime),
        slot("00:02:00", Decision::Skipped, Reason::Calendar),
        slot("00:03:00", Decision::Skipped, Reason::Calendar),
        slot("00:04:00", Decision::Fired, Reason::OnTime),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
    let notes: Vec<_> = world.slot_rows(schedule.id).await.into_iter().map(|row| row.note).collect();
    let why = "calendar works: it is closed from 2026-03-01T00:02:00Z until 2026-03-01T00:04:00Z (works)";
    assert_eq!(notes, [None, Some(why.to_owned()), Some(why.to_owned()), None]);
}

pub async fn d11_many_schedules_of_several_calendars_are_decided_in_one_batch(world: &mut World) {
    make(world, "shut", closed("00:01:00", "00:02:00")).await;
    make(world, "open", closed("05:00:00", "06:00:00")).await;
    for n in 0..30 {
        let name = ["shut", "open"][n % 2];
        world.create(with_calendar(minutely(&format!("s{n}")), name)).await;
    }
    world.set_time("00:01:00");
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.slots_not_run, fired.problems), (15, 15, 0));
    world.set_time("00:02:00");
    assert_eq!(world.fire().await.jobs.len(), 30);
}

pub async fn d11_once_runs_the_latest_slot_that_its_calendar_allows(world: &mut World) {
    make(world, "works", closed("00:05:00", "00:09:00")).await;
    let schedule = world.create(with_calendar(minutely("s"), "works")).await;
    world.set_time("00:08:00");
    world.fire_one().await;
    let expected = [
        range("00:01:00", "00:03:00", 3, Decision::Missed, Reason::Superseded),
        slot("00:04:00", Decision::Fired, Reason::Catchup),
        range("00:05:00", "00:08:00", 4, Decision::Skipped, Reason::Calendar),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
    let latest = world.slot_rows(schedule.id).await.remove(0);
    assert!(latest.note.is_some_and(|note| note.starts_with("calendar works: ")), "a range says why, too");
}

pub async fn d11_an_edited_calendar_holds_from_the_next_slot_on_and_fires_nothing(world: &mut World) {
    let made = make(world, "works", closed("00:01:00", "00:02:00")).await;
    let schedule = world.create(with_calendar(minutely("s"), "works")).await;
    world.set_time("00:01:00");
    assert_eq!(world.fire().await.slots_not_run, 1);
    let before = world.schedule(schedule.id).await;
    let other = closed("00:02:00", "00:03:00");
    let store = world.store();
    let edited = store.update_calendar_if_version("works", made.version, "anew".to_owned(), other.clone()).await;
    let edited = edited.expect("an edit");
    assert_eq!((edited.version, &edited.rules, edited.description.as_str()), (2, &other, "anew"));
    assert_eq!(edited.created_at, made.created_at);
    let late = store.update_calendar_if_version("works", 1, String::new(), other.clone()).await;
    assert_eq!(late, Err(StoreError::VersionConflict { expected: 1, found: 2 }));
    assert_not_found(store.update_calendar_if_version("none", 1, String::new(), other).await, "calendar");
    assert_eq!(world.schedule(schedule.id).await, before, "no plan has moved");
    assert_eq!(world.fire().await.jobs, []);
    world.set_time("00:02:00");
    assert_eq!(world.fire().await.slots_not_run, 1);
    world.set_time("00:03:00");
    world.fire_one().await;
}

pub async fn d11_a_calendar_in_use_is_not_deleted(world: &mut World) {
    make(world, "works", CalendarRules::default()).await;
    let b = world.create(with_calendar(minutely("b"), "works")).await;
    let a = world.create(with_calendar(minutely("a"), "works")).await;
    let refused = world.store().delete_calendar("works").await;
    let by = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(refused, Err(StoreError::InUse { what: "calendar", name: "works".to_owned(), by }));
    world.store().update_schedule_if_version(b.id, 1, minutely("b")).await.expect("an edit");
    world.store().delete_schedule(a.id).await.expect("it is deleted");
    assert_eq!(world.store().delete_calendar("works").await, Ok(()));
    assert_eq!(world.store().calendar("works").await, Ok(None));
    assert_not_found(world.store().delete_calendar("works").await, "calendar");
    make(world, "works", CalendarRules::default()).await;
}

pub async fn d11_of_a_deletion_and_a_use_at_once_one_is_refused(world: &mut World) {
    let (one, other) = (world.store(), world.second_store().await);
    for round in 0..10 {
        let name = format!("c{round}");
        make(world, &name, CalendarRules::default()).await;
        let definition = with_calendar(hourly(&format!("s{round}")), &name);
        let (made, deleted) = tokio::join!(one.create_schedule(definition), other.delete_calendar(&name));
        match (&made, &deleted) {
            (Ok(_), Err(StoreError::InUse { .. })) | (Err(StoreError::NotFound { .. }), Ok(())) => {}
            others => panic!("exactly one of the two is refused: {others:?}"),
        }
        assert_eq!(one.calendar(&name).await.expect("an answer").is_some(), made.is_ok());
    }
}

pub async fn d11_a_schedule_whose_calendar_was_deleted_by_hand_tells_so(world: &mut World) {
    make(world, "works", CalendarRules::default()).await;
    let schedule = world.create(with_calendar(minutely("s"), "works")).await;
    let other = world.create(minutely("other")).await;
    world.tamper("DELETE FROM {calendars}").await.expect("it is deleted by hand");
    world.set_time("00:01:00");
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.problems), (1, 1), "the other one goes on");
    assert_eq!(world.ledger(other.id).await.len(), 1);
    let problem = world.schedule(schedule.id).await.state.problem.expect("a problem");
    assert!(problem.contains("its calendar `works` is gone"), "{problem}");
}

pub async fn a22_a_backfill_leaves_alone_what_the_calendar_closes(world: &mut World) {
    make(world, "works", closed("00:02:00", "00:04:00")).await;
    let schedule = world.create(with_calendar(minutely("s"), "works")).await;
    world.store().pause_schedule(schedule.id, None, None).await.expect("it is paused");
    world.set_time("00:06:30");
    world.store().resume_schedule(schedule.id).await.expect("it goes on");
    let asked = NewBackfill {
        schedule_id: schedule.id,
        from: clock_time("00:01:00"),
        until: clock_time("00:06:00"),
        priority: None,
        per_minute: None,
        by: None,
    };
    let preview = world.store().preview_backfill(&asked).await.expect("a preview");
    assert_eq!((preview.slots, preview.gaps), (5, 3));
    let begun = world.store().create_backfill(asked).await.expect("it begins");
    while world.store().advance_backfills().await.expect("a step").again_in == Some(SignedDuration::ZERO) {}
    let done = world.store().backfill(begun.id).await.expect("an answer").expect("a backfill");
    assert_eq!((done.made, done.passed, done.ended_at.is_some()), (3, 2, true));
}

pub async fn d03_a_pause_with_an_end_goes_on_by_itself(world: &mut World) {
    let schedule = world.create(minutely("s")).await;
    world.set_time("00:00:30");
    let (by, note) = (Some("ada".to_owned()), Some("audit".to_owned()));
    let until = clock_time("00:03:30");
    let paused = world.store().pause_schedule_until(schedule.id, until, by, note).await.expect("it is paused");
    let pause = paused.state.pause.clone().expect("a pause");
    assert_eq!((pause.until, pause.by.as_deref(), pause.note.as_deref()), (Some(until), Some("ada"), Some("audit")));
    assert_eq!(world.store().next_due_in().await, Ok(Some(mins(3))), "its end is due");
    world.set_time("00:03:29");
    let fired = world.fire().await;
    assert_eq!((fired.schedules, fired.steered), (0, 0));
    world.set_time("00:03:30");
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.slots_not_run, fired.steered, fired.replanned), (0, 3, 1, 0));
    let resumed = world.schedule(schedule.id).await;
    assert!(resumed.state.enabled);
    assert_eq!((resumed.state.pause, resumed.state.next_slot_at), (None, Some(clock_time("00:04:00"))));
    assert_eq!(world.fire().await.schedules, 0, "once");
    world.set_time("00:04:00");
    world.fire_one().await;
    let expected = [
        range("00:01:00", "00:03:00", 3, Decision::Skipped, Reason::Paused),
        slot("00:04:00", Decision::Fired, Reason::OnTime),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
    let told = world.slot_rows(schedule.id).await.pop().and_then(|row| row.note).expect("a note");
    assert_eq!(told, "paused by ada at 2026-03-01T00:00:30Z until 2026-03-01T00:03:30Z: audit");
}

pub async fn d03_the_slot_at_the_end_of_a_pause_fires(world: &mut World) {
    let schedule = world.create(minutely("s")).await;
    let until = clock_time("00:03:00");
    world.store().pause_schedule_until(schedule.id, until, None, None).await.expect("it is paused");
    world.set_time("00:03:00");
    assert_eq!(world.fire().await.steered, 1);
    assert_eq!(world.store().next_due_in().await, Ok(Some(SignedDuration::ZERO)), "its slot is due at once");
    world.fire_one().await;
    let expected = [
        range("00:01:00", "00:02:00", 2, Decision::Skipped, Reason::Paused),
        slot("00:03:00", Decision::Fired, Reason::OnTime),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
}

pub async fn d03_what_came_after_a_pause_that_nobody_ended_is_for_the_missed_policy(world: &mut World) {
    let schedule = world.create(minutely("s")).await;
    let until = clock_time("00:02:30");
    world.store().pause_schedule_until(schedule.id, until, None, None).await.expect("it is paused");
    world.reopen().await;
    world.set_time("00:05:00");
    world.fire().await;
    world.fire_one().await;
    let expected = [
        range("00:01:00", "00:02:00", 2, Decision::Skipped, Reason::Paused),
        range("00:03:00", "00:04:00", 2, Decision::Missed, Reason::Superseded),
        slot("00:05:00", Decision::Fired, Reason::Catchup),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
}

pub async fn d03_the_end_of_a_pause_can_be_set_moved_and_forgotten(world: &mut World) {
    let schedule = world.create(minutely("s")).await;
    let store = world.store();
    store.pause_schedule(schedule.id, Some("ada".to_owned()), Some("why".to_owned())).await.expect("it is paused");
    world.set_time("00:00:10");
    let later = clock_time("00:10:00");
    let moved =
        store.pause_schedule_until(schedule.id, later, Some("bob".to_owned()), None).await.expect("it is moved");
    let pause = moved.state.pause.expect("a pause");
    assert_eq!((pause.at, pause.by.as_deref()), (clock_time("00:00:00"), Some("ada")), "it is the same pause");
    assert_eq!((pause.note.as_deref(), pause.until), (Some("why"), Some(later)));
    let passed = store.pause_schedule_until(schedule.id, clock_time("00:00:10"), None, None).await;
    assert_eq!(refusal(passed).field, "until");
    assert_not_found(store.pause_schedule_until(ScheduleId(nobody()), later, None, None).await, "schedule");
    // Resumed by hand, it is not resumed again.
    world.set_time("00:02:30");
    store.resume_schedule(schedule.id).await.expect("it goes on");
    store.pause_schedule(schedule.id, None, None).await.expect("it is paused");
    world.set_time("00:20:00");
    assert_eq!(world.fire().await.schedules, 0);
    // A deleted one neither.
    store.pause_schedule_until(schedule.id, clock_time("00:30:00"), None, None).await.expect("it is moved");
    store.delete_schedule(schedule.id).await.expect("it is deleted");
    world.set_time("00:40:00");
    assert_eq!(store.next_due_in().await, Ok(None));
    assert_eq!(world.fire().await.schedules, 0);
}

pub async fn d03_of_many_who_end_a_pause_exactly_one_does(world: &mut World) {
    let schedule = world.create(minutely("s")).await;
    let until = clock_time("00:03:30");
    world.store().pause_schedule_until(schedule.id, until, None, None).await.expect("it is paused");
    world.set_time("00:03:30");
    let stores = [world.store(), world.second_store().await, world.second_store().await];
    assert_eq!(fire_at_once(&stores, 2, ALL).await.steered, 1);
    assert_eq!(world.ledger(schedule.id).await.len(), 1);
}

/// Each of several stores fires at once, as often as said; what all of them did.
async fn fire_at_once(stores: &[Arc<dyn Store>], times: usize, limit: usize) -> Fired {
    let mut tasks = Vec::new();
    for store in stores.iter().flat_map(|store| std::iter::repeat_n(store, times)) {
        let store = Arc::clone(store);
        tasks.push(tokio::spawn(async move { store.fire_due(None, limit).await }));
    }
    let mut all = Fired::default();
    for task in tasks {
        let fired = task.await.expect("the task ends").expect("firing succeeds");
        all.jobs.extend(fired.jobs);
        all.steered += fired.steered;
    }
    all
}

fn fragile(name: &str, after: u32) -> ScheduleDefinition {
    ScheduleDefinition { pause_after_failures: Some(after), retry: no_retry(), ..minutely(name) }
}

/// Fires the slot of a minute and lets its job fail or succeed.
async fn run_slot(world: &World, lease: Lease, minute: usize, succeeds: bool) -> JobId {
    world.set_time(&format!("00:{minute:02}:00"));
    let job = world.fire_one().await;
    assert_eq!(world.claim_one(lease).await, job);
    if succeeds {
        world.complete(lease, job).await;
    } else {
        world.fail(lease, job).await;
    }
    job
}

pub async fn d03_a_schedule_pauses_by_itself_after_so_many_failures(world: &mut World) {
    let schedule = world.create(fragile("s", 2)).await;
    let lease = world.node("n").await;
    run_slot(world, lease, 1, false).await;
    run_slot(world, lease, 2, true).await;
    run_slot(world, lease, 3, false).await;
    run_slot(world, lease, 4, false).await;
    assert!(world.schedule(schedule.id).await.state.enabled, "finish does not touch the plan");
    world.set_time("00:05:00");
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.slots_not_run, fired.steered), (0, 1, 1));
    let stopped = world.schedule(schedule.id).await;
    let pause = stopped.state.pause.expect("a pause");
    let note = "paused by itself: 2 runs failed in a row, and pause_after_failures is 2";
    assert_eq!((pause.at, pause.by, pause.note.as_deref()), (clock_time("00:05:00"), None, Some(note)));
    assert_eq!((stopped.state.enabled, stopped.state.next_run_at), (false, None));
    assert_eq!(stopped.state.next_slot_at, Some(clock_time("00:06:00")));
    let latest = world.slot_rows(schedule.id).await.remove(0);
    assert_eq!(facts(&latest), slot("00:05:00", Decision::Skipped, Reason::Paused));
    assert_eq!(latest.note.as_deref(), Some(note));
    world.set_time("00:08:00");
    assert_eq!(world.fire().await.schedules, 0);

    // Resumed, it counts from the beginning.
    world.store().resume_schedule(schedule.id).await.expect("it goes on");
    run_slot(world, lease, 9, false).await;
    run_slot(world, lease, 10, false).await;
    world.set_time("00:11:00");
    assert_eq!(world.fire().await.steered, 1);
    assert_eq!(world.schedule(schedule.id).await.results.consecutive_failures, 4);
}

pub async fn d03_a_success_after_a_pause_begins_the_count_anew(world: &mut World) {
    let schedule = world.create(fragile("s", 2)).await;
    let lease = world.node("n").await;
    run_slot(world, lease, 1, false).await;
    run_slot(world, lease, 2, false).await;
    world.set_time("00:03:00");
    assert_eq!(world.fire().await.steered, 1);
    world.store().resume_schedule(schedule.id).await.expect("it goes on");
    run_slot(world, lease, 4, true).await;
    run_slot(world, lease, 5, false).await;
    run_slot(world, lease, 6, false).await;
    world.set_time("00:07:00");
    assert_eq!(world.fire().await.steered, 1, "what was forgiven is forgotten with the success");
}

pub async fn d03_what_is_fired_from_memory_pauses_after_failures_and_goes_on_too(world: &mut World) {
    let declaration = Declaration { definition: fragile("s", 1), fired_from: FiredFrom::Memory };
    let declarations = Declarations { schedules: vec![declaration], owner: None, remove_others: false };
    let declared = world.store().declare_schedules(declarations).await.expect("it is declared");
    let id = declared.schedules[0].id;
    let remember = async || -> Vec<Schedule> {
        world.store().schedules_to_remember(mins(60), ALL, &[id]).await.expect("they can be read")
    };
    let lease = world.node("n").await;
    world.set_time("00:01:00");
    let fired = world.store().fire_remembered(None, remember().await, Plans::Move).await.expect("it fires");
    let job = fired.fired.jobs[0];
    assert_eq!(world.claim_one(lease).await, job);
    world.fail(lease, job).await;
    world.set_time("00:02:00");
    let stopped = world.store().fire_remembered(None, remember().await, Plans::Move).await.expect("it fires");
    assert_eq!((stopped.fired.jobs.len(), stopped.fired.slots_not_run), (0, 1));
    let seen = &stopped.schedules[0].state;
    assert_eq!((seen.enabled, seen.next_run_at), (false, None), "whoever remembers it stops, too");
    let stored = world.schedule(id).await;
    assert!(!stored.state.enabled && stored.state.pause.is_some());
    assert_eq!(remember().await, []);
    world.store().pause_schedule_until(id, clock_time("00:04:30"), None, None).await.expect("it gets an end");
    world.set_time("00:04:30");
    assert_eq!(world.fire().await.steered, 1);
    let again = remember().await;
    assert_eq!(again.iter().map(|it| it.state.next_slot_at).collect::<Vec<_>>(), [Some(clock_time("00:05:00"))]);
    assert_eq!(world.store().next_due_in().await, Ok(None), "the store does not fire it");
}

pub async fn d10_no_second_fires_more_than_the_cap(world: &mut World) {
    let store = world.store();
    assert_eq!(store.fire_cap().await, Ok(None));
    assert_eq!(store.set_fire_cap(Some(4)).await, Ok(Some(4)));
    assert_eq!(store.fire_cap().await, Ok(Some(4)));
    for n in 0..10 {
        world.create(ScheduleDefinition { missed: Missed::SKIP, ..hourly(&format!("s{n}")) }).await;
    }
    world.set_time("01:00:00");
    let mut fired = Vec::new();
    for _ in 0..40 {
        let jobs = world.fire().await.jobs.len();
        fired.extend(std::iter::repeat_n(world.clock_now(), jobs));
        let wait = store.next_due_in().await.expect("an answer").expect("there are more slots");
        if fired.len() == 10 {
            assert!(wait > mins(59), "{wait}");
            break;
        }
        assert!(wait <= secs(1), "what waits for the cap is due within a second: {wait}");
        world.pass(wait.max(SignedDuration::from_micros(1)));
    }
    let counts = |at: &Timestamp| fired.iter().filter(|other| **other == *at).count();
    assert_eq!(fired.len(), 10, "none is lost");
    assert_eq!((counts(&fired[0]), counts(&fired[4]), counts(&fired[9])), (4, 4, 2));
    assert_eq!(fired[4].duration_since(fired[0]), secs(1));
    let late: Vec<i64> = late_of_all(world).await;
    assert_eq!(late, [0, 0, 0, 0, 1000, 1000, 1000, 1000, 2000, 2000], "the ledger says how late");
    assert_eq!(store.set_fire_cap(None).await, Ok(None));
    world.set_time("02:00:00");
    assert_eq!(world.fire().await.jobs.len(), 10, "without a cap, all at once");
    assert_eq!(refusal(store.set_fire_cap(Some(0)).await).field, "fires_per_second");
}

/// How late every slot was, in order.
async fn late_of_all(world: &World) -> Vec<i64> {
    let mut late = Vec::new();
    for schedule in world.store().schedules(None, ALL).await.expect("a list") {
        late.extend(world.slot_rows(schedule.id).await.iter().map(|row| row.late_ms));
    }
    late.sort_unstable();
    late
}

pub async fn d10_a_cap_holds_across_all_nodes(world: &mut World) {
    world.store().set_fire_cap(Some(5)).await.expect("it is set");
    for n in 0..20 {
        world.create(hourly(&format!("s{n}"))).await;
    }
    let stores = [world.store(), world.second_store().await, world.second_store().await];
    world.set_time("01:00:00");
    let mut all = 0;
    for second in 1..=4 {
        all += fire_at_once(&stores, 2, 7).await.jobs.len();
        // Whoever passed over rows that others held may have left room.
        all += world.fire().await.jobs.len();
        assert_eq!(all, 5 * second);
        world.pass(secs(1));
    }
}

pub async fn d10_burst_allowed_neither_waits_nor_counts(world: &mut World) {
    world.store().set_fire_cap(Some(1)).await.expect("it is set");
    for n in 0..3 {
        world.create(hourly(&format!("a{n}"))).await;
    }
    let burst = |name: &str| ScheduleDefinition { burst_allowed: true, ..hourly(name) };
    let kept = world.create(burst("z0")).await;
    assert!(world.schedule(kept.id).await.definition.burst_allowed);
    world.create(burst("z1")).await;
    world.set_time("01:00:00");
    // Of those that are due no more are looked at than asked for, and those with `burst_allowed` beside.
    let fired = world.store().fire_due(None, 2).await.expect("firing succeeds");
    assert_eq!(fired.jobs.len(), 3);
    let wait = world.store().next_due_in().await.expect("an answer").expect("two wait");
    assert_eq!(wait, secs(1));
    assert_eq!(world.fire().await.jobs, []);
    world.pass(secs(1));
    assert_eq!(world.fire().await.jobs.len(), 1);
    world.pass(secs(1));
    assert_eq!(world.fire().await.jobs.len(), 1);
}

pub async fn d10_what_a_cap_holds_back_for_long_is_late_and_not_lost(world: &mut World) {
    world.store().set_fire_cap(Some(1)).await.expect("it is set");
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(world.create(ScheduleDefinition { missed: Missed::SKIP, ..hourly(&format!("s{n}")) }).await.id);
    }
    world.set_time("01:00:00");
    world.fire_one().await;
    // Longer than the window of `skip`.
    world.set_time("01:02:00");
    world.fire_one().await;
    world.set_time("01:04:00");
    world.fire_one().await;
    let mut decided = Vec::new();
    for id in ids {
        decided.extend(world.slot_rows(id).await.into_iter().map(|row| (row.late_ms, row.decision, row.reason)));
    }
    decided.sort_unstable_by_key(|row| row.0);
    let expected = [
        (0, Decision::Fired, Reason::OnTime),
        (120_000, Decision::Fired, Reason::Catchup),
        (240_000, Decision::Fired, Reason::Catchup),
    ];
    assert_eq!(decided, expected);
    // Nothing waits any more: from now on a slot that is too late is too late.
    world.set_time("02:05:00");
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.slots_not_run), (0, 3));
}

pub async fn d10_a_schedule_with_much_to_make_up_for_is_capped_too(world: &mut World) {
    world.store().set_fire_cap(Some(3)).await.expect("it is set");
    let schedule = world.create(ScheduleDefinition { missed: Missed::all(100), ..minutely("s") }).await;
    world.set_time("00:08:00");
    let mut jobs = Vec::new();
    for expected in [3, 3, 2, 0] {
        let fired = world.fire().await.jobs;
        assert_eq!(fired.len(), expected);
        jobs.extend(fired);
        assert_eq!(world.fire().await.jobs, [], "not twice in a second");
        world.pass(secs(1));
    }
    let slots: Vec<_> = world.ledger(schedule.id).await.into_iter().map(|row| row.0).collect();
    let minutes: Vec<_> = (1..=8).map(|minute| format!("00:0{minute}:00")).collect();
    assert_eq!(slots, minutes, "each once, in order");
}

pub async fn d10_delayed_jobs_and_pauses_do_not_wait_for_the_cap(world: &mut World) {
    world.store().set_fire_cap(Some(1)).await.expect("it is set");
    world.create(hourly("a")).await;
    world.create(hourly("b")).await;
    let paused = world.create(hourly("c")).await;
    world.set_time("01:00:00");
    world.fire_one().await;
    let soon = world.clock_now().saturating_add(SignedDuration::from_millis(300)).expect("a time");
    world.enqueue(punctual_core::job::NewJob { run_at: Some(soon), ..job() }).await;
    assert_eq!(world.store().next_due_in().await, Ok(Some(SignedDuration::from_millis(300))));
    let sooner = world.clock_now().saturating_add(SignedDuration::from_millis(100)).expect("a time");
    world.store().pause_schedule_until(paused.id, sooner, None, None).await.expect("it is paused");
    assert_eq!(world.store().next_due_in().await, Ok(Some(SignedDuration::from_millis(100))));
    world.pass(SignedDuration::from_millis(100));
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.steered), (0, 1));
}
