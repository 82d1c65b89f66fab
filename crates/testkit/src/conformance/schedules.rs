//! Schedules as they are stored: first slots, reads, edits, deletion, templates.

use crate::prelude::*;
use jiff::{SignedDuration, Timestamp};
use punctual_core::calendar::CalendarRules;
use punctual_core::job::{JobState, NewJob, Timeout};
use punctual_core::name::Name;
use punctual_core::retry::{Backoff, RetryPolicy, SerialOnFailure};
use punctual_core::run::ErrorCode;
use punctual_core::schedule::{Dependency, Missed, Overlap, Schedule, ScheduleDefinition, ScheduleResults, Source};
use punctual_core::slot::{Decision, Reason};
use punctual_core::store::{FinishResult, FinishedRun, ScheduleKey, StoreError};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use std::collections::BTreeMap;

async fn first_slot(world: &World, name: &str, timing: TimingSpec) -> Option<Timestamp> {
    let created = world.create(ScheduleDefinition::new(named(name), timing, Target::task("work"))).await;
    assert_eq!(created.state.next_run_at, created.state.next_slot_at, "without jitter a slot is due at its time");
    assert_eq!(world.schedule(created.id).await, created, "what is returned is what is stored");
    created.state.next_slot_at
}

pub async fn d05_every_kind_of_timing_plans_its_first_slot(world: &mut World) {
    for (expression, expected) in [
        ("0 * * * *", "2026-03-01T01:00:00Z"),
        ("*/15 * * * *", "2026-03-01T00:15:00Z"),
        ("30 * * * * *", "2026-03-01T00:00:30Z"),
        ("@hourly", "2026-03-01T01:00:00Z"),
        ("@daily", "2026-03-02T00:00:00Z"),
        ("@weekly", "2026-03-08T00:00:00Z"),
        ("@monthly", "2026-04-01T00:00:00Z"),
        ("@yearly", "2027-01-01T00:00:00Z"),
        ("@every 90s", "2026-03-01T00:01:30Z"),
    ] {
        let first = first_slot(world, expression, TimingSpec::cron(expression, "UTC")).await;
        assert_eq!(first, Some(instant(expected)), "{expression}");
    }
    let every = first_slot(world, "every", TimingSpec::Every { period: secs(7) }).await;
    assert_eq!(every, Some(clock_time("00:00:07")));
    let at = first_slot(world, "at", TimingSpec::At { at: clock_time("12:34:56") }).await;
    assert_eq!(at, Some(clock_time("12:34:56")));
}

pub async fn d05_cron_is_read_in_its_own_zone(world: &mut World) {
    let berlin = first_slot(world, "berlin", TimingSpec::cron("0 8 * * *", "Europe/Berlin")).await;
    assert_eq!(berlin, Some(clock_time("07:00:00")));
    let kolkata = first_slot(world, "kolkata", TimingSpec::cron("0 8 * * *", "Asia/Kolkata")).await;
    assert_eq!(kolkata, Some(clock_time("02:30:00")));
}

pub async fn d05_a_slot_at_this_very_instant_is_not_ahead(world: &mut World) {
    world.set_time("01:00:00");
    let hourly = world.create(hourly("hourly")).await;
    assert_eq!(hourly.state.next_slot_at, Some(clock_time("02:00:00")));
    assert!(world.fire().await.jobs.is_empty());
}

pub async fn d05_an_at_fires_once_and_is_exhausted(world: &mut World) {
    let at = TimingSpec::At { at: clock_time("00:05:00") };
    let schedule = world.create(ScheduleDefinition::new(named("once"), at, Target::task("work"))).await;
    world.set_time("00:05:00");
    let job = world.fire_one().await;
    let after = world.schedule(schedule.id).await;
    assert_eq!(after.state.next_slot_at, None);
    assert_eq!(after.state.next_run_at, None);
    assert_eq!(after.state.exhausted_at, Some(clock_time("00:05:00")));
    assert_eq!(after.state.last_job_id, Some(job));
    assert_eq!(world.store().next_due_in().await, Ok(None));
    world.pass(mins(60));
    assert_eq!(world.fire().await.schedules, 0, "an exhausted schedule is not looked at again");
    assert_eq!(world.ledger(schedule.id).await, [slot("00:05:00", Decision::Fired, Reason::OnTime)]);
}

pub async fn d05_an_at_that_has_passed_is_refused(world: &mut World) {
    for passed in ["2026-02-28T23:59:59Z", "2026-03-01T00:00:00Z", "0001-01-01T00:00:00Z"] {
        let at = TimingSpec::At { at: instant(passed) };
        let late = ScheduleDefinition::new(named("late"), at, Target::task("work"));
        assert_eq!(refusal(world.store().create_schedule(late).await).field, "at", "{passed}");
    }
    assert_eq!(world.store().schedules(None, ALL).await, Ok(Vec::new()));
}

pub async fn d05_slots_stay_within_starts_at_and_ends_at(world: &mut World) {
    let bounds = (Some(clock_time("00:03:00")), Some(clock_time("00:04:00")));
    let bounded = ScheduleDefinition { starts_at: bounds.0, ends_at: bounds.1, ..minutely("bounded") };
    let schedule = world.create(bounded).await;
    assert_eq!(schedule.state.next_slot_at, Some(clock_time("00:03:00")), "a slot at the first instant counts");
    world.set_time("00:03:00");
    world.fire_one().await;
    assert_eq!(world.schedule(schedule.id).await.state.next_slot_at, Some(clock_time("00:04:00")));
    world.set_time("00:04:00");
    world.fire_one().await;
    let state = world.schedule(schedule.id).await.state;
    assert_eq!((state.next_slot_at, state.exhausted_at), (None, Some(clock_time("00:04:00"))));
}

fn full_definition(template: &Schedule, template_id: punctual_core::id::TemplateId) -> ScheduleDefinition {
    ScheduleDefinition {
        description: "every field\nset".to_owned(),
        labels: BTreeMap::from([("team".to_owned(), "billing".to_owned()), ("leer".to_owned(), String::new())]),
        starts_at: Some(clock_time("02:00:00")),
        ends_at: Some(instant("2027-01-01T00:00:00.000001Z")),
        input: json(r#"{"n": 12345678901234567890123, "b":1, "a":[null,1.50]}"#),
        template_id: Some(template_id),
        queue: "slow lane".to_owned(),
        priority: -7,
        serial: true,
        retry: RetryPolicy {
            max_attempts: 9,
            backoff: Backoff::Fixed,
            base: SignedDuration::from_millis(1500),
            max: mins(20),
            max_age: Some(mins(90)),
            max_interruptions: 4,
            serial_on_failure: SerialOnFailure::Hold,
        },
        timeout: Timeout::Never,
        missed: Missed::All { limit: 17, window: Some(mins(30)) },
        overlap: Overlap::QueueOne,
        max_concurrent_runs: Some(3),
        burst_allowed: true,
        pause_after_failures: Some(4),
        calendar: Some("holidays 🎄".to_owned()),
        jitter: secs(20),
        depends_on: Some(Dependency { schedule_id: template.id, within: mins(5) }),
        owner: Some("ada".to_owned()),
        source: Source::Code,
        ..ScheduleDefinition::new(
            named("full"),
            TimingSpec::cron("5 4 * * *", "Europe/Berlin"),
            Target::command(["backup.sh", "--all"]),
        )
    }
}

pub async fn c02_a_schedule_keeps_every_field(world: &mut World) {
    let other = world.create(hourly("other")).await;
    let template = world.store().create_template(named("backup"), job(), vec![]).await.expect("a template is stored");
    let calendar = world.store().create_calendar(named("holidays 🎄"), String::new(), CalendarRules::default()).await;
    calendar.expect("a calendar is stored");
    let definition = full_definition(&other, template.id);
    let created = world.create(definition.clone()).await;
    assert_eq!(created.definition, definition);
    assert_eq!((created.version, created.created_at), (1, clock_time("00:00:00")));
    assert_eq!((created.updated_at, created.seed.as_str()), (clock_time("00:00:00"), "full"));
    assert_eq!(created.results, ScheduleResults::default());
    let found = world.store().schedule(&ScheduleKey::from("full")).await;
    assert_eq!(found, Ok(Some(created.clone())));
    world.reopen().await;
    assert_eq!(world.schedule(created.id).await, created);
}

pub async fn c02_every_kind_of_timing_and_policy_is_kept(world: &mut World) {
    let kept = [
        ScheduleDefinition { missed: Missed::SKIP, ..every("skip", 90) },
        ScheduleDefinition { missed: Missed::Skip { window: SignedDuration::from_millis(1) }, ..every("narrow", 1) },
        ScheduleDefinition { missed: Missed::Once { window: Some(mins(1)) }, ..minutely("once") },
        ScheduleDefinition { missed: Missed::all(100_000), overlap: Overlap::Replace, ..minutely("all") },
        ScheduleDefinition { overlap: Overlap::Forbid, timeout: Timeout::After(secs(1)), ..minutely("forbid") },
        ScheduleDefinition { source: Source::File, ..cron("macro", "@daily") },
    ];
    for definition in kept {
        let created = world.create(definition.clone()).await;
        assert_eq!(world.schedule(created.id).await.definition, definition);
    }
}

pub async fn c02_schedules_are_listed_by_name_page_by_page(world: &mut World) {
    for name in ["b", "a", "ä", "Z", "🌙"] {
        world.create(hourly(name)).await;
    }
    let names = |page: Vec<Schedule>| page.into_iter().map(|s| s.definition.name.to_string()).collect::<Vec<_>>();
    let first = names(world.store().schedules(None, 2).await.expect("a page"));
    assert_eq!(first, ["Z", "a"], "names compare by their bytes");
    let rest = names(world.store().schedules(Some("a"), ALL).await.expect("a page"));
    assert_eq!(rest, ["b", "ä", "🌙"]);
    assert_eq!(world.store().schedules(Some("🌙"), ALL).await, Ok(Vec::new()));
    assert_eq!(world.store().schedules(None, 0).await, Ok(Vec::new()));
}

pub async fn c02_an_edit_replaces_the_definition_and_plans_from_now(world: &mut World) {
    let schedule = world.create(hourly("edited")).await;
    world.set_time("00:10:00");
    let definition = ScheduleDefinition { priority: 3, ..minutely("renamed") };
    let edited = world.store().update_schedule_if_version(schedule.id, 1, definition.clone()).await.expect("an edit");
    assert_eq!((edited.id, edited.version), (schedule.id, 2));
    assert_eq!(edited.definition, definition);
    assert_eq!((edited.created_at, edited.updated_at), (schedule.created_at, clock_time("00:10:00")));
    assert_eq!(edited.state.next_slot_at, Some(clock_time("00:11:00")));
    assert_eq!(edited.seed, schedule.seed, "spread fields stay where they were");
    assert_eq!(world.schedule(schedule.id).await, edited);
    assert!(world.ledger(schedule.id).await.is_empty(), "a slot that was not due leaves nothing");
    assert_eq!(world.store().schedule(&ScheduleKey::from("edited")).await, Ok(None));
    world.create(hourly("edited")).await;
}

pub async fn c02_an_edit_fires_nothing_and_records_what_was_due(world: &mut World) {
    let schedule = world.create(minutely("edited")).await;
    world.set_time("00:02:30");
    let edited = world.store().update_schedule_if_version(schedule.id, 1, hourly("edited")).await.expect("an edit");
    assert_eq!(edited.state.next_slot_at, Some(clock_time("01:00:00")));
    assert!(world.fire().await.jobs.is_empty());
    let expected = [range("00:01:00", "00:02:00", 2, Decision::Skipped, Reason::Edited)];
    assert_eq!(world.ledger(schedule.id).await, expected);
    world.set_time("01:00:00");
    world.fire_one().await;
}

pub async fn c02_an_edit_of_another_version_is_refused(world: &mut World) {
    let schedule = world.create(hourly("contested")).await;
    let first = world.store().update_schedule_if_version(schedule.id, 1, minutely("contested")).await.expect("an edit");
    let second = world.store().update_schedule_if_version(schedule.id, 1, hourly("contested")).await;
    assert_eq!(second, Err(StoreError::VersionConflict { expected: 1, found: 2 }));
    assert_eq!(world.schedule(schedule.id).await, first);
    let unknown = punctual_core::id::ScheduleId(nobody());
    assert_not_found(world.store().update_schedule_if_version(unknown, 1, hourly("x")).await, "schedule");
}

pub async fn c02_versions_of_a_schedule_are_kept(world: &mut World) {
    let schedule = world.create(minutely("kept")).await;
    world.set_time("00:01:00");
    world.fire_one().await;
    world.store().update_schedule_if_version(schedule.id, 1, minutely("kept")).await.expect("an edit");
    world.set_time("00:02:00");
    world.fire_one().await;
    let versions: Vec<i64> = world.slot_rows(schedule.id).await.iter().map(|row| row.schedule_version).collect();
    assert_eq!(versions, [2, 1], "the ledger says which version was in force, latest slot first");
    let id = world.raw.uuid_literal(schedule.id.0);
    let kept = world.count(&format!("SELECT COUNT(*) FROM {{schedule_versions}} WHERE schedule_id = {id}")).await;
    assert!(kept >= 1, "what it was before is kept");
}

pub async fn c02_a_name_is_taken_once(world: &mut World) {
    world.create(hourly("taken")).await;
    let second = world.store().create_schedule(minutely("taken")).await;
    assert_eq!(second, Err(StoreError::NameTaken { what: "schedule", name: "taken".to_owned() }));
    let other = world.create(hourly("other")).await;
    let renamed = world.store().update_schedule_if_version(other.id, 1, hourly("taken")).await;
    assert_eq!(renamed, Err(StoreError::NameTaken { what: "schedule", name: "taken".to_owned() }));
    assert_eq!(world.schedule(other.id).await, other);
    assert_eq!(world.store().schedules(None, ALL).await.map(|all| all.len()), Ok(2));
    world.create(hourly("Taken")).await;
}

pub async fn c02_a_template_is_kept_with_every_field_of_its_job(world: &mut World) {
    let job = NewJob {
        queue: "slow".to_owned(),
        priority: 5,
        serial_key: Some("key".to_owned()),
        tags: vec!["gpu".to_owned(), "net".to_owned()],
        input: json(r#"{"z":1,"a":2.0}"#),
        timeout: Timeout::Never,
        ..retried_job(4, secs(30))
    };
    let made = world.store().create_template(named("backup"), job.clone(), vec![]).await.expect("a template is stored");
    assert_eq!((made.name.as_str(), &made.job, made.created_at), ("backup", &job, clock_time("00:00:00")));
    world.reopen().await;
    assert_eq!(world.store().template("backup").await, Ok(Some(made)));
    assert_eq!(world.store().template("none").await, Ok(None));
    let again = world.store().create_template(named("backup"), job, vec![]).await;
    assert_eq!(again, Err(StoreError::NameTaken { what: "template", name: "backup".to_owned() }));
}

pub async fn a26_deleting_cancels_what_waits_and_lets_what_runs_go_on(world: &mut World) {
    let schedule = world.create(minutely("doomed")).await;
    let bystander = world.enqueue(job()).await;
    world.set_time("00:01:00");
    let running = world.fire_one().await;
    let lease = world.node("a").await;
    assert_eq!(world.claim(lease, 2).await, [bystander, running]);
    world.set_time("00:02:00");
    let waiting = world.fire_one().await;
    world.store().delete_schedule(schedule.id).await.expect("it is deleted");
    assert_eq!(world.state(waiting).await, JobState::Cancelled);
    let run = world.closed_run(waiting).await;
    assert_eq!((run.error_code, run.started_at, run.is_final), (Some(ErrorCode::Cancelled), None, true));
    assert!(world.queue("default").await.is_empty());
    assert_eq!(world.state(running).await, JobState::Running);
    world.complete(lease, running).await;
    assert_eq!(world.state(running).await, JobState::Completed);
    assert_eq!(world.state(bystander).await, JobState::Running, "nothing else is touched");
}

pub async fn a26_deleting_keeps_history_and_frees_the_name(world: &mut World) {
    let schedule = world.create(minutely("doomed")).await;
    world.set_time("00:01:00");
    let fired = world.fire_one().await;
    world.store().delete_schedule(schedule.id).await.expect("it is deleted");
    assert_eq!(world.store().schedule(&ScheduleKey::Id(schedule.id)).await, Ok(None));
    assert_eq!(world.store().schedule(&ScheduleKey::from("doomed")).await, Ok(None));
    assert_eq!(world.store().schedules(None, ALL).await, Ok(Vec::new()));
    assert_eq!(world.ledger(schedule.id).await, [slot("00:01:00", Decision::Fired, Reason::OnTime)]);
    let jobs = world.store().schedule_jobs(schedule.id, None, ALL).await.expect("history stays");
    assert_eq!(jobs.iter().map(|view| view.job.id).collect::<Vec<_>>(), [fired]);
    world.set_time("00:10:00");
    assert_eq!(world.fire().await.schedules, 0, "a deleted schedule is never due");
    assert_eq!(world.store().next_due_in().await, Ok(None));
    let successor = world.create(minutely("doomed")).await;
    assert_ne!(successor.id, schedule.id);
    assert!(world.ledger(successor.id).await.is_empty());
}

pub async fn a26_a_deleted_schedule_is_not_found_by_any_verb(world: &mut World) {
    let doomed = world.create(minutely("doomed")).await;
    world.store().delete_schedule(doomed.id).await.expect("it is deleted");
    for id in [doomed.id, punctual_core::id::ScheduleId(nobody())] {
        assert_not_found(world.store().update_schedule_if_version(id, 1, minutely("doomed")).await, "schedule");
        assert_not_found(world.store().pause_schedule(id, None, None).await, "schedule");
        assert_not_found(world.store().resume_schedule(id).await, "schedule");
        assert_not_found(world.store().reschedule(id, clock_time("05:00:00")).await, "schedule");
        assert_not_found(world.store().skip_next(id, None).await, "schedule");
        assert_not_found(world.store().trigger_schedule(id, ByHand::default()).await, "schedule");
        assert_not_found(world.store().delete_schedule(id).await, "schedule");
    }
}

pub async fn a26_a_run_that_outlives_its_schedule_can_still_be_closed(world: &mut World) {
    let definition = ScheduleDefinition { retry: RetryPolicy::none(), ..minutely("doomed") };
    let schedule = world.create(definition).await;
    world.set_time("00:01:00");
    let running = world.fire_one().await;
    let lease = world.node("a").await;
    world.claim_one(lease).await;
    world.store().delete_schedule(schedule.id).await.expect("it is deleted");
    let failed = FinishedRun::failed(running, ErrorCode::TargetError, "too late to matter");
    assert_eq!(world.finish(lease, failed).await, FinishResult::Closed { retry: None });
    assert_eq!(world.state(running).await, JobState::Failed);
}

pub async fn a24_a_schedule_is_found_by_id_or_by_name_and_never_confused(world: &mut World) {
    let schedule = world.create(hourly("findable")).await;
    let by_text = ScheduleKey::from(schedule.id.to_string().as_str());
    assert_eq!(world.store().schedule(&by_text).await, Ok(Some(schedule.clone())));
    assert_eq!(world.store().schedule(&ScheduleKey::from("findable")).await, Ok(Some(schedule)));
    assert_eq!(world.store().schedule(&ScheduleKey::from("Findable")).await, Ok(None));
    assert!(Name::new(nobody().to_string()).is_err(), "a name that looks like an id is refused");
}
