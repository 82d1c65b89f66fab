//! Manifests: things made, changed and removed together, by owners who do not touch each other's.

use super::alerts::{chat, rule};
use super::flows::step;
use crate::prelude::*;
use punctual_core::access::{Answer, Change, Described, OnceKey};
use punctual_core::calendar::{CalendarRules, ClosedWeekday};
use punctual_core::flow::FlowDefinition;
use punctual_core::id::ScheduleId;
use punctual_core::job::NewJob;
use punctual_core::limits::Limit;
use punctual_core::manifest::{Application, Applied, Managed, Said, ScheduleThing, Thing, ThingEdit, ThingKind};
use punctual_core::notify::channel::ChannelDefinition;
use punctual_core::notify::rule::Trigger;
use punctual_core::schedule::{Dependency, Schedule, ScheduleDefinition, Source};
use punctual_core::slot::{Decision, Reason};
use punctual_core::store::{ScheduleKey, StoreError, StoreResult};
use punctual_core::template::{Parameter, ParameterKind};
use std::collections::BTreeSet;
use std::sync::Arc;

fn schedule_thing(definition: ScheduleDefinition) -> Thing {
    let definition = ScheduleDefinition { source: Source::File, ..definition };
    Thing::Schedule(Box::new(ScheduleThing { definition, depends_on: None, template: None, paused: None }))
}

fn calendar(weekdays: Vec<ClosedWeekday>) -> Thing {
    Thing::Calendar { description: "öffen".into(), rules: CalendarRules { weekdays, ..CalendarRules::default() } }
}

fn limit(concurrency: u32) -> Thing {
    let subject = "queue:mail".parse().expect("a subject");
    Thing::Limit(Limit { subject, concurrency: Some(concurrency), node_concurrency: None, rate: None })
}

fn template(priority: i32) -> Thing {
    let parameters = vec![Parameter::required("to", ParameterKind::Text)];
    Thing::Template { job: Box::new(NewJob { priority, ..job() }), parameters }
}

fn flow(steps: &[&str]) -> Thing {
    let steps = steps.iter().map(|name| step(name, &[])).collect();
    Thing::Flow { definition: FlowDefinition::parallel(steps), owner: Some("ada".into()) }
}

fn preset(expression: &str) -> Thing {
    Thing::Preset { expression: expression.into(), description: "wäges".into() }
}

/// One of each kind, as it is first and as it is then, in an order in which each can be made.
fn one_of_each() -> Vec<(&'static str, Thing, Thing)> {
    let off = ChannelDefinition { enabled: false, ..chat("ops") };
    let with_calendar = ScheduleDefinition { calendar: Some("closed".into()), ..hourly("nightly") };
    vec![
        ("closed", calendar(vec![ClosedWeekday::Sunday]), calendar(vec![ClosedWeekday::Monday])),
        ("payday", preset("0 9 25 * *"), preset("0 9 26 * *")),
        ("letter", template(1), template(2)),
        ("mail", Thing::Queue { paused: true }, Thing::Queue { paused: false }),
        ("queue:mail", limit(3), limit(4)),
        ("ops", Thing::Channel(chat("ops")), Thing::Channel(off)),
        (
            "broken",
            Thing::Rule(rule("broken", Trigger::Failure, "ops")),
            Thing::Rule(rule("broken", Trigger::Recovery, "ops")),
        ),
        ("etl", flow(&["extract"]), flow(&["extract", "load"])),
        ("nightly", schedule_thing(with_calendar), schedule_thing(minutely("nightly"))),
    ]
}

fn edit(name: &str, from: Option<Thing>, to: Option<Thing>) -> ThingEdit {
    let kind = from.as_ref().or(to.as_ref()).expect("something is said").kind();
    ThingEdit { kind, name: name.to_owned(), from, to }
}

fn said(kind: ThingKind, name: &str) -> Said {
    Said { kind, name: name.to_owned(), definition: json(&format!("{{\"name\": {name:?}}}")) }
}

/// An application that knows as its owner's whatever it leaves behind.
fn application(owner: &str, edits: Vec<ThingEdit>) -> Application {
    let said = edits.iter().filter(|edit| edit.to.is_some()).map(|edit| said(edit.kind, &edit.name)).collect();
    Application { owner: owner.to_owned(), edits, said, forgotten: Vec::new() }
}

fn making(things: Vec<(&str, Thing)>) -> Application {
    application("ops", things.into_iter().map(|(name, thing)| edit(name, None, Some(thing))).collect())
}

async fn apply(world: &World, application: Application) -> Applied {
    world.store().apply_manifest(application).await.expect("the manifest is applied")
}

async fn managed(world: &World) -> Vec<Managed> {
    world.store().managed(None, None, ALL).await.expect("a list")
}

async fn names(world: &World) -> Vec<String> {
    let listed = managed(world).await;
    listed.into_iter().map(|it| format!("{} {} {}", it.owner, it.said.kind, it.said.name)).collect()
}

async fn by_name(world: &World, name: &str) -> Option<Schedule> {
    world.store().schedule(&ScheduleKey::Name(name.to_owned())).await.expect("schedules can be read")
}

/// What is stored under a name, read as people read it.
async fn read(world: &World, kind: ThingKind, name: &str) -> Option<Thing> {
    let store = world.store();
    match kind {
        ThingKind::Calendar => {
            let found = store.calendar(name).await.expect("it can be read");
            found.map(|it| Thing::Calendar { description: it.description, rules: it.rules })
        }
        ThingKind::Preset => {
            let found = store.cron_preset(name).await.expect("it can be read");
            found.map(|it| Thing::Preset { expression: it.expression, description: it.description })
        }
        ThingKind::Template => {
            let found = store.template(name).await.expect("it can be read");
            found.map(|it| Thing::Template { job: Box::new(it.job), parameters: it.parameters })
        }
        ThingKind::Queue => {
            let found = store.queue(name).await.expect("it can be read");
            found.map(|it| Thing::Queue { paused: it.paused })
        }
        ThingKind::Limit => {
            let found = store.limit(&name.parse().expect("a subject")).await.expect("it can be read");
            found.map(|it| Thing::Limit(it.limit))
        }
        ThingKind::Channel => {
            store.channel(name).await.expect("it can be read").map(|it| Thing::Channel(it.definition))
        }
        ThingKind::Rule => store.rule(name).await.expect("it can be read").map(|it| Thing::Rule(it.definition)),
        ThingKind::Flow => {
            let found = store.flow(name).await.expect("it can be read");
            found.map(|it| Thing::Flow { definition: it.definition, owner: it.owner })
        }
        ThingKind::Schedule => by_name(world, name).await.map(|it| schedule_thing(it.definition)),
    }
}

fn overtaken<T>(kind: ThingKind, name: &str) -> StoreResult<T> {
    Err(StoreError::Overtaken { what: kind.as_str(), name: name.to_owned() })
}

pub async fn d07_a_manifest_makes_changes_and_removes_every_kind_of_thing(world: &mut World) {
    let things = one_of_each();
    let kinds: BTreeSet<ThingKind> = things.iter().map(|(_, thing, _)| thing.kind()).collect();
    assert_eq!(kinds.len(), ThingKind::ALL.len(), "each kind is here");
    let made = apply(world, making(things.iter().map(|(name, first, _)| (*name, first.clone())).collect())).await;
    assert_eq!((made.made, made.changed, made.removed, made.schedules.len()), (9, 0, 0, 1));
    world.reopen().await;
    for (name, first, _) in &things {
        assert_eq!(read(world, first.kind(), name).await.as_ref(), Some(first), "{name}");
        let kept = world.store().managed_thing(first.kind(), name).await.expect("it can be read").expect("it is there");
        assert_eq!((kept.owner.as_str(), &kept.said), ("ops", &said(first.kind(), name)));
        assert_eq!(kept.applied_at, clock_time("00:00:00"));
    }

    world.set_time("00:00:30");
    let edits = things.iter().map(|(name, first, then)| edit(name, Some(first.clone()), Some(then.clone())));
    let changed = apply(world, application("ops", edits.collect())).await;
    assert_eq!((changed.made, changed.changed, changed.removed), (0, 9, 0));
    assert_eq!(changed.schedules, made.schedules);
    for (name, _, then) in &things {
        assert_eq!(read(world, then.kind(), name).await.as_ref(), Some(then), "{name}");
    }
    assert!(managed(world).await.iter().all(|it| it.applied_at == clock_time("00:00:30")));

    let edits = things.iter().rev().map(|(name, _, then)| edit(name, Some(then.clone()), None)).collect();
    let removed = apply(world, application("ops", edits)).await;
    assert_eq!(removed, Applied { removed: 9, ..Applied::default() });
    for (name, _, then) in &things {
        // A queue cannot be removed: it goes on.
        let left = matches!(then, Thing::Queue { .. }).then_some(Thing::Queue { paused: false });
        assert_eq!(read(world, then.kind(), name).await, left, "{name}");
        assert_eq!(world.store().managed_thing(then.kind(), name).await, Ok(None), "{name}");
    }
}

pub async fn d07_an_application_is_carried_out_as_a_whole_or_not_at_all(world: &mut World) {
    let things = one_of_each();
    let edits =
        || -> Vec<ThingEdit> { things.iter().map(|(name, first, _)| edit(name, None, Some(first.clone()))).collect() };
    world.create(minutely("taken")).await;
    let mut last_is_refused = edits();
    last_is_refused.push(edit("taken", None, Some(schedule_thing(hourly("taken")))));
    let refused = world.store().apply_manifest(application("ops", last_is_refused)).await;
    assert_eq!(refused, overtaken(ThingKind::Schedule, "taken"));
    world.faults.refuse_commits(true).await;
    assert!(world.store().apply_manifest(application("ops", edits())).await.is_err());
    world.faults.refuse_commits(false).await;
    for (name, first, _) in &things {
        assert_eq!(read(world, first.kind(), name).await, None, "{name}");
    }
    assert_eq!(managed(world).await, []);
    assert_eq!(apply(world, application("ops", edits())).await.made, 9, "the same works when nothing is in its way");
}

pub async fn d07_what_was_changed_since_the_plan_is_not_overwritten(world: &mut World) {
    let things = one_of_each();
    apply(world, making(things.iter().map(|(name, first, _)| (*name, first.clone())).collect())).await;
    for (name, first, then) in &things {
        let (kind, store) = (first.kind(), world.store());
        // It was made by somebody, it was changed by somebody, it was removed by somebody.
        let made = store.apply_manifest(application("ops", vec![edit(name, None, Some(first.clone()))])).await;
        assert_eq!(made, overtaken(kind, name));
        for to in [Some(first.clone()), None] {
            let changed = store.apply_manifest(application("ops", vec![edit(name, Some(then.clone()), to)])).await;
            assert_eq!(changed, overtaken(kind, name));
        }
        assert_eq!(read(world, kind, name).await.as_ref(), Some(first), "{name}");
    }
    let gone = edit("gone", Some(schedule_thing(hourly("gone"))), Some(schedule_thing(minutely("gone"))));
    let gone = world.store().apply_manifest(application("ops", vec![gone])).await;
    assert_eq!(gone, overtaken(ThingKind::Schedule, "gone"));
    // By hand, and not only by what the plan said wrongly.
    let Some((name, first, then)) = things.last() else { panic!("there are things") };
    let nightly = by_name(world, name).await.expect("it is there");
    let by_hand = ScheduleDefinition { priority: 7, ..nightly.definition.clone() };
    world.store().update_schedule_if_version(nightly.id, 1, by_hand).await.expect("an edit");
    let late = edit(name, Some(first.clone()), Some(then.clone()));
    assert_eq!(
        world.store().apply_manifest(application("ops", vec![late])).await,
        overtaken(ThingKind::Schedule, name)
    );
    assert_eq!(world.schedule(nightly.id).await.definition.priority, 7);
}

pub async fn d07_what_another_owners_manifest_has_is_refused(world: &mut World) {
    let things = one_of_each();
    apply(world, making(things.iter().map(|(name, first, _)| (*name, first.clone())).collect())).await;
    for (name, first, then) in &things {
        let theirs: StoreResult<Applied> = Err(StoreError::ManagedBy {
            what: first.kind().as_str(),
            name: (*name).to_owned(),
            owner: "ops".to_owned(),
        });
        for to in [Some(then.clone()), Some(first.clone()), None] {
            let tried = application("dev", vec![edit(name, Some(first.clone()), to)]);
            assert_eq!(world.store().apply_manifest(tried).await, theirs);
        }
        let only_said = Application { said: vec![said(first.kind(), name)], ..application("dev", vec![]) };
        assert_eq!(world.store().apply_manifest(only_said).await, theirs);
        let forgotten = Application { forgotten: vec![(first.kind(), (*name).into())], ..application("dev", vec![]) };
        apply(world, forgotten).await;
        assert_eq!(read(world, first.kind(), name).await.as_ref(), Some(first), "{name}");
    }
    assert!(managed(world).await.iter().all(|it| it.owner == "ops"), "nobody forgets what is another's");
    assert_eq!(managed(world).await.len(), 9);
}

pub async fn d07_a_thing_that_nobody_manages_can_be_taken_over(world: &mut World) {
    let by_hand = world.create(ScheduleDefinition { source: Source::File, ..hourly("report") }).await;
    let (hourly, minutely) = (schedule_thing(hourly("report")), schedule_thing(minutely("report")));
    let as_it_is = edit("report", Some(hourly.clone()), Some(hourly.clone()));
    assert_eq!(apply(world, application("ops", vec![as_it_is])).await, Applied::default());
    assert_eq!(names(world).await, ["ops schedule report"]);
    assert_eq!(world.schedule(by_hand.id).await, by_hand, "nothing is done to it");
    // Changed by hand before it was taken over: that it is as it was is looked at, too.
    let forgotten = Application {
        forgotten: vec![(ThingKind::Schedule, "report".into())],
        ..application("ops", vec![edit("x", None, Some(Thing::Queue { paused: true }))])
    };
    apply(world, forgotten).await;
    assert_eq!(names(world).await, ["ops queue x"]);
    let late = edit("report", Some(minutely.clone()), Some(minutely.clone()));
    let late = world.store().apply_manifest(application("dev", vec![late])).await;
    assert_eq!(late, overtaken(ThingKind::Schedule, "report"));
    let changed = apply(world, application("dev", vec![edit("report", Some(hourly), Some(minutely))])).await;
    assert_eq!((changed.changed, changed.schedules), (1, vec![by_hand.id]));
    assert_eq!(names(world).await, ["ops queue x", "dev schedule report"]);
}

pub async fn d07_only_what_the_owner_has_is_removed(world: &mut World) {
    let by_hand = world.create(ScheduleDefinition { source: Source::File, ..hourly("report") }).await;
    let remove = || application("ops", vec![edit("report", Some(schedule_thing(hourly("report"))), None)]);
    assert_eq!(world.store().apply_manifest(remove()).await, overtaken(ThingKind::Schedule, "report"));
    assert_eq!(world.schedule(by_hand.id).await, by_hand);
    let taken = Application { said: vec![said(ThingKind::Schedule, "report")], ..application("ops", vec![]) };
    apply(world, taken).await;
    assert_eq!(apply(world, remove()).await.removed, 1);
    assert_eq!(by_name(world, "report").await, None);
    assert_eq!(managed(world).await, []);
}

/// A schedule that depends on another one by name, and is made from a template.
fn dependent(name: &str, on: &str, from: &str) -> Thing {
    let dependency = Dependency { schedule_id: ScheduleId(nobody()), within: mins(90) };
    let definition = ScheduleDefinition { depends_on: Some(dependency), source: Source::File, ..hourly(name) };
    let (depends_on, template) = (Some(named(on)), Some(named(from)));
    Thing::Schedule(Box::new(ScheduleThing { definition, depends_on, template, paused: None }))
}

pub async fn d07_names_stand_for_what_the_same_application_makes(world: &mut World) {
    let load = schedule_thing(hourly("load"));
    let things =
        vec![("letter", template(1)), ("load", load.clone()), ("report", dependent("report", "load", "letter"))];
    let applied = apply(world, making(things)).await;
    let report = by_name(world, "report").await.expect("it is made");
    assert_eq!(report.definition.depends_on, Some(Dependency { schedule_id: applied.schedules[0], within: mins(90) }));
    let letter = world.store().template("letter").await.expect("it can be read").expect("it is made");
    assert_eq!(report.definition.template_id, Some(letter.id));

    // What was planned with speaks of names as well.
    let mut later = dependent("report", "load", "letter");
    let Thing::Schedule(schedule) = &mut later else { panic!("it is a schedule") };
    schedule.definition.priority = 4;
    let change = edit("report", Some(dependent("report", "load", "letter")), Some(later.clone()));
    assert_eq!(apply(world, application("ops", vec![change])).await.schedules, [report.id]);
    let edited = world.schedule(report.id).await;
    assert_eq!((edited.version, edited.definition.priority), (2, 4));
    assert_eq!(edited.definition.depends_on, report.definition.depends_on);

    let other = edit("report", Some(dependent("report", "none", "letter")), Some(later.clone()));
    let other = world.store().apply_manifest(application("ops", vec![other])).await;
    assert_eq!(other, overtaken(ThingKind::Schedule, "report"));
    for (to, field) in [
        (dependent("a", "none", "letter"), "schedules.a.depends_on"),
        (dependent("a", "load", "none"), "schedules.a.template"),
        (schedule_thing(ScheduleDefinition { calendar: Some("none".into()), ..hourly("a") }), "schedules.a.calendar"),
    ] {
        assert_eq!(refusal(world.store().apply_manifest(making(vec![("a", to)])).await).field, field);
    }
}

fn paused(definition: ScheduleDefinition, paused: Option<bool>) -> Thing {
    let Thing::Schedule(schedule) = schedule_thing(definition) else { panic!("it is a schedule") };
    Thing::Schedule(Box::new(ScheduleThing { paused, ..*schedule }))
}

pub async fn d03_a_manifest_pauses_and_resumes_only_where_it_says_so(world: &mut World) {
    let thing = |said| paused(minutely("s"), said);
    let id = apply(world, making(vec![("s", thing(Some(true)))])).await.schedules[0];
    let state = world.schedule(id).await.state;
    let pause = state.pause.expect("it is paused");
    assert!(!state.enabled);
    assert_eq!((pause.by.as_deref(), pause.until), (Some("manifest of ops"), None));
    assert_eq!(pause.note.as_deref(), Some("paused by the manifest of ops"));

    // It says that it is paused, and somebody has resumed it: planned with that, it is paused again.
    world.store().resume_schedule(id).await.expect("it goes on");
    let late = edit("s", Some(thing(Some(true))), Some(thing(Some(false))));
    let late = world.store().apply_manifest(application("ops", vec![late])).await;
    assert_eq!(late, overtaken(ThingKind::Schedule, "s"));
    let again = edit("s", Some(thing(Some(false))), Some(thing(Some(true))));
    assert_eq!(apply(world, application("ops", vec![again])).await.changed, 1);
    let seen = world.schedule(id).await;
    assert_eq!((seen.state.enabled, seen.version), (false, 1), "a pause is no new version");

    // Silent about it, an edit leaves the pause alone, and its being there matters to nobody.
    let silent = edit("s", Some(thing(None)), Some(paused(hourly("s"), None)));
    apply(world, application("ops", vec![silent])).await;
    let seen = world.schedule(id).await;
    assert_eq!((seen.state.enabled, seen.version), (false, 2));

    world.set_time("02:30:00");
    let resumed = edit("s", Some(paused(hourly("s"), Some(true))), Some(paused(hourly("s"), Some(false))));
    apply(world, application("ops", vec![resumed])).await;
    let seen = world.schedule(id).await;
    assert!(seen.state.enabled && seen.state.pause.is_none());
    assert_eq!(seen.state.next_slot_at, Some(clock_time("03:00:00")));
    let ledger = world.ledger(id).await;
    assert_eq!(ledger.len(), 1, "what passed meanwhile is one row, and nothing fired: {ledger:?}");
    assert_eq!(world.fire().await.jobs, []);
}

pub async fn d03_a_schedule_that_a_manifest_edits_is_edited_as_by_hand(world: &mut World) {
    let id = apply(world, making(vec![("s", schedule_thing(minutely("s")))])).await.schedules[0];
    world.create(minutely("twin")).await;
    world.set_time("00:01:00");
    assert_eq!(world.fire().await.jobs.len(), 2);
    let before = world.schedule(id).await;
    world.set_time("00:02:10");
    let to = ScheduleDefinition { source: Source::File, ..cron("s", "*/15 * * * *") };
    let change = edit("s", Some(schedule_thing(minutely("s"))), Some(schedule_thing(to)));
    assert_eq!(apply(world, application("ops", vec![change])).await.schedules, [id]);
    let twin = by_name(world, "twin").await.expect("it is there");
    world.store().update_schedule_if_version(twin.id, 1, cron("twin", "*/15 * * * *")).await.expect("an edit");

    let (after, twin) = (world.schedule(id).await, world.schedule(twin.id).await);
    assert_eq!((after.version, after.created_at), (2, before.created_at));
    assert_eq!(after.state.next_slot_at, Some(clock_time("00:15:00")));
    assert_eq!(after.state.fired_through, twin.state.fired_through);
    assert_eq!(after.state.next_run_at, twin.state.next_run_at);
    let expected =
        [slot("00:01:00", Decision::Fired, Reason::OnTime), slot("00:02:00", Decision::Skipped, Reason::Edited)];
    assert_eq!(world.ledger(id).await, expected);
    assert_eq!(world.ledger(twin.id).await, expected);
    assert_eq!(world.fire().await.jobs, []);
}

pub async fn d07_a_template_that_a_manifest_changes_keeps_its_id(world: &mut World) {
    apply(world, making(vec![("letter", template(1)), ("payday", preset("0 9 25 * *"))])).await;
    let first = world.store().template("letter").await.expect("it can be read").expect("it is made");
    let made_at = world.store().cron_preset("payday").await.expect("it can be read").expect("it is made").created_at;
    world.set_time("00:10:00");
    let edits = vec![
        edit("letter", Some(template(1)), Some(template(2))),
        edit("payday", Some(preset("0 9 25 * *")), Some(preset("0 9 26 * *"))),
    ];
    apply(world, application("ops", edits)).await;
    let then = world.store().template("letter").await.expect("it can be read").expect("it is there");
    assert_eq!((then.id, then.created_at, then.job.priority), (first.id, first.created_at, 2));
    let preset = world.store().cron_preset("payday").await.expect("it can be read").expect("it is there");
    assert_eq!((preset.created_at, preset.expression.as_str()), (made_at, "0 9 26 * *"));
}

pub async fn d07_what_manifests_have_is_listed_in_pages(world: &mut World) {
    let queue = || Thing::Queue { paused: true };
    let minute = |name: &str| schedule_thing(minutely(name));
    let things = vec![("b", queue()), ("Z", minute("Z")), ("a", minute("a")), ("ä", minute("ä")), ("a", queue())];
    apply(world, making(things)).await;
    let theirs = ["c", "d"].map(|name| edit(name, None, Some(queue()))).to_vec();
    apply(world, application("dev", theirs)).await;
    let all = names(world).await;
    assert_eq!(
        all,
        [
            "ops queue a",
            "ops queue b",
            "dev queue c",
            "dev queue d",
            "ops schedule Z",
            "ops schedule a",
            "ops schedule ä"
        ],
        "bytewise by kind and name"
    );
    let whole = managed(world).await;
    let (mut seen, mut after) = (Vec::new(), None::<(ThingKind, String)>);
    loop {
        let from = after.as_ref().map(|(kind, name)| (*kind, name.as_str()));
        let page = world.store().managed(None, from, 2).await.expect("a page");
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 2);
        after = Some((last.said.kind, last.said.name.clone()));
        seen.extend(page);
    }
    assert_eq!(seen, whole);
    let of_dev = world.store().managed(Some("dev"), None, ALL).await.expect("a list");
    assert_eq!(of_dev, whole[2..4]);
    let rest = world.store().managed(Some("ops"), Some((ThingKind::Queue, "b")), ALL).await.expect("a list");
    assert_eq!(rest, whole[4..]);
    assert_eq!(world.store().managed(Some("nobody"), None, ALL).await, Ok(vec![]));
}

pub async fn d07_applications_at_the_same_time_do_not_spoil_each_other(world: &mut World) {
    let other = world.second_store().await;
    for round in 0..5 {
        let one = |owner: &str, thing: &str| {
            let thing = format!("{thing}{round}");
            let made = edit(&thing, None, Some(schedule_thing(minutely(&thing))));
            let shared = edit(&format!("q{owner}{round}"), None, Some(Thing::Queue { paused: true }));
            application(owner, vec![shared, made])
        };
        let store = world.store();
        let (ops, dev) = tokio::join!(store.apply_manifest(one("ops", "a")), other.apply_manifest(one("dev", "b")));
        assert_eq!((ops.map(|it| it.made), dev.map(|it| it.made)), (Ok(2), Ok(2)));
        let (first, second) =
            tokio::join!(store.apply_manifest(one("one", "c")), other.apply_manifest(one("one", "c")));
        let mut ends = [first, second];
        ends.sort_by_key(Result::is_err);
        let [Ok(done), Err(refused)] = ends else { panic!("one of them comes first: {ends:?}") };
        assert_eq!(done.made, 2);
        assert!(matches!(refused, StoreError::Overtaken { .. }), "{refused:?}");
    }
    assert_eq!(managed(world).await.len(), 30);
}

pub async fn d07_an_application_is_written_down_and_done_once(world: &mut World) {
    let change = || Change {
        actor: "ada".into(),
        token_id: None,
        action: Some("manifest.apply"),
        request_id: None,
        before: None,
        once: Some(OnceKey { owner: "ada".into(), key: "k".into(), fingerprint: [1; 32] }),
        describe: Arc::new(|done| {
            let made = done.downcast_ref::<Applied>().map_or(0, |applied| applied.made);
            let answer = Some(Answer { status: 200, body: format!("{made} made") });
            Described { subject: "manifest:ops".into(), after: None, answer }
        }),
    };
    let manifest = || making(vec![("s", schedule_thing(minutely("s")))]);
    world.store().recorded(change()).apply_manifest(manifest()).await.expect("it is applied");
    let again = world.store().recorded(change()).apply_manifest(manifest()).await;
    assert_eq!(again, Err(StoreError::Repeated));
    let answer = world.store().answer_under("ada", "k").await.expect("it can be read").expect("it is kept");
    assert_eq!(answer.answer.body, "1 made");
    let log = world.store().audit_log(None, None, ALL).await.expect("the log can be read");
    let told: Vec<_> = log.iter().map(|row| (row.action.as_str(), row.subject.as_str())).collect();
    assert_eq!(told, [("manifest.apply", "manifest:ops")]);
}

pub async fn d07_removing_what_others_need_undoes_everything(world: &mut World) {
    let closed = calendar(vec![ClosedWeekday::Sunday]);
    let (ops, broken) = (Thing::Channel(chat("ops")), Thing::Rule(rule("broken", Trigger::Failure, "ops")));
    let user = schedule_thing(ScheduleDefinition { calendar: Some("closed".into()), ..hourly("user") });
    apply(world, making(vec![("closed", closed.clone()), ("ops", ops.clone()), ("broken", broken), ("user", user)]))
        .await;
    for (name, thing, user) in [("closed", closed, "user"), ("ops", ops, "broken")] {
        let what = thing.kind().as_str();
        let edits = vec![edit("q", None, Some(Thing::Queue { paused: true })), edit(name, Some(thing.clone()), None)];
        let refused = world.store().apply_manifest(application("ops", edits)).await;
        assert_eq!(refused, Err(StoreError::InUse { what, name: name.into(), by: vec![user.into()] }));
        assert_eq!(read(world, thing.kind(), name).await, Some(thing));
    }
    assert_eq!(read(world, ThingKind::Queue, "q").await, None);
    assert_eq!(managed(world).await.len(), 4);
}

pub async fn d07_an_application_that_makes_no_sense_is_refused(world: &mut World) {
    let queue = || Thing::Queue { paused: true };
    let twice = vec![edit("q", None, Some(queue())), edit("q", None, Some(queue()))];
    let said_twice = vec![said(ThingKind::Queue, "q"), said(ThingKind::Queue, "q")];
    let other_kind = ThingEdit { kind: ThingKind::Flow, ..edit("q", None, Some(queue())) };
    let nothing = ThingEdit { kind: ThingKind::Queue, name: "q".into(), from: None, to: None };
    let nobodys = flow(&["extract"]);
    let Thing::Flow { definition, .. } = nobodys.clone() else { panic!("it is a flow") };
    let given_away = edit("etl", Some(nobodys), Some(Thing::Flow { definition, owner: None }));
    let bad_cron = schedule_thing(cron("s", "61 * * * *"));
    for (tried, field) in [
        (application("", vec![]), "owner"),
        (application("ops", twice), "edits"),
        (Application { said: said_twice, ..application("ops", vec![]) }, "said"),
        (application("ops", vec![other_kind]), "flows.q.name"),
        (application("ops", vec![nothing]), "queues.q.to"),
        (application("ops", vec![given_away]), "flows.etl.owner"),
        (making(vec![("t", schedule_thing(minutely("s")))]), "schedules.t.name"),
        (making(vec![("s", bad_cron)]), "schedules.s.cron"),
        (making(vec![("daily", preset("0 9 25 * *"))]), "presets.daily.name"),
        (making(vec![("q\n", queue())]), "queues.q\n.name"),
        (making(vec![("nonsense", limit(1))]), "limits.nonsense.subject"),
    ] {
        assert_eq!(refusal(world.store().apply_manifest(tried).await).field, field);
    }
    assert_eq!(managed(world).await, []);
}

pub async fn d07_a_thousand_schedules_are_applied_together(world: &mut World) {
    let names: Vec<String> = (0..1_000).map(|n| format!("s{n:04}")).collect();
    let edits = names.iter().map(|name| edit(name, None, Some(schedule_thing(minutely(name))))).collect();
    let applied = apply(world, application("ops", edits)).await;
    assert_eq!((applied.made, applied.schedules.len()), (1_000, 1_000));
    assert_eq!(world.store().managed(Some("ops"), None, ALL).await.expect("a list").len(), 1_000);
    world.set_time("00:01:00");
    assert_eq!(world.fire().await.jobs.len(), 1_000, "and each of them is due");
}
