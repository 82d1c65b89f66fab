//! Firing through changes of clock in many zones, compared with somebody who looks at the wall clock every minute.

use crate::prelude::*;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use punctual_core::calendar::{CalendarRules, ClosedDay, DayRule};
use punctual_core::schedule::{Missed, Schedule, ScheduleDefinition};
use punctual_core::slot::{Decision, Reason, SlotRow};
use punctual_core::timing::TimingSpec;

/// Zones, and an instant some hours before their clocks change: by an hour in both directions, by half an hour, at
/// midnight, by a whole day, by two hours, and around a month of fasting.
const CHANGES: [(&str, &str); 14] = [
    ("Europe/Berlin", "2026-03-28T14:00:00Z"),
    ("Europe/Berlin", "2026-10-24T14:00:00Z"),
    ("America/New_York", "2026-03-07T20:00:00Z"),
    ("America/New_York", "2026-10-31T20:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T03:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T03:00:00Z"),
    ("America/Sao_Paulo", "2018-11-03T15:00:00Z"),
    ("America/Sao_Paulo", "2018-02-17T15:00:00Z"),
    ("Asia/Tehran", "2022-03-21T10:00:00Z"),
    ("Asia/Tehran", "2022-09-21T10:00:00Z"),
    ("Africa/Casablanca", "2026-02-14T14:00:00Z"),
    ("Africa/Casablanca", "2026-03-21T14:00:00Z"),
    ("Antarctica/Troll", "2026-03-28T13:00:00Z"),
    ("Pacific/Apia", "2011-12-29T22:00:00Z"),
];

/// How long each is watched.
const WATCHED: SignedDuration = SignedDuration::from_hours(26);

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// Times of day, with the expression that means them.
struct Times {
    expression: &'static str,
    hours: &'static [i8],
    minutes: &'static [i8],
    /// Whether it follows the clock, or stands for single times.
    wildcard: bool,
}

const ALL_HOURS: &[i8] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23];

const TIMES: [Times; 5] = [
    Times { expression: "30 2 * * *", hours: &[2], minutes: &[30], wildcard: false },
    Times { expression: "15,45 0-3 * * *", hours: &[0, 1, 2, 3], minutes: &[15, 45], wildcard: false },
    Times { expression: "0 0,12 * * *", hours: &[0, 12], minutes: &[0], wildcard: false },
    Times { expression: "*/30 1-3 * * *", hours: &[1, 2, 3], minutes: &[0, 30], wildcard: true },
    Times { expression: "0 * * * *", hours: ALL_HOURS, minutes: &[0], wildcard: true },
];

impl Times {
    fn shows(&self, wall: DateTime) -> bool {
        self.hours.contains(&wall.hour()) && self.minutes.contains(&wall.minute())
    }

    /// The single times of a day.
    fn of(&self, date: Date) -> impl Iterator<Item = DateTime> {
        let minutes = self.minutes;
        self.hours.iter().flat_map(move |hour| minutes.iter().map(move |minute| date.at(*hour, *minute, 0, 0)))
    }

    /// When it fires, by looking at the wall clock every minute. What follows the clock fires whenever the clock shows
    /// it; a single time comes when the clock first shows it or a later one, and comes once.
    fn fires(&self, zone: &TimeZone, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        let mut fires = Vec::new();
        let mut latest_shown = zone.to_datetime(from);
        let mut at = from + MINUTE;
        while at <= until {
            let wall = zone.to_datetime(at);
            let mut passed = latest_shown.date();
            let mut comes = self.wildcard && self.shows(wall);
            while !self.wildcard && passed <= wall.date() {
                comes |= self.of(passed).any(|time| latest_shown < time && time <= wall);
                passed = passed.tomorrow().expect("the days go on");
            }
            latest_shown = latest_shown.max(wall);
            fires.extend(comes.then_some(at));
            at += MINUTE;
        }
        fires
    }
}

const POLICIES: [Missed; 3] = [Missed::SKIP, Missed::ONCE, Missed::All { limit: 100, window: None }];

/// A schedule for each expression, with policies in turn.
async fn schedules(world: &World, zone: &str, turn: usize) -> Vec<(Schedule, &'static Times)> {
    let mut made = Vec::new();
    for (n, times) in TIMES.iter().enumerate() {
        let timing = TimingSpec::cron(times.expression, zone);
        let missed = POLICIES[(n + turn) % POLICIES.len()];
        let definition = ScheduleDefinition { timing, missed, ..minutely(&format!("{zone} {turn} {n}")) };
        made.push((world.create(definition).await, times));
    }
    made
}

/// What a row must be: first slot, last slot, how many, decision and reason.
type Expected = (Timestamp, Timestamp, u64, Decision, Reason);

fn row(row: &SlotRow) -> Expected {
    (row.slot_at, row.through, row.count, row.decision, row.reason)
}

async fn rows(world: &World, schedule: &Schedule) -> Vec<Expected> {
    world.slot_rows(schedule.id).await.iter().rev().map(row).collect()
}

async fn end(world: &World, schedules: Vec<(Schedule, &'static Times)>) {
    for (schedule, _) in schedules {
        world.store().delete_schedule(schedule.id).await.expect("it is deleted");
    }
}

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or_else(|e| panic!("`{name}` is a zone: {e}"))
}

pub async fn b05_every_slot_fires_on_time_through_a_change_of_clock(world: &mut World) {
    let mut changed = 0;
    for (turn, (name, begin)) in CHANGES.into_iter().enumerate() {
        let (from, until) = (instant(begin), instant(begin) + WATCHED);
        changed += usize::from(zone(name).to_offset(from) != zone(name).to_offset(until));
        world.clock.set(from);
        let schedules = schedules(world, name, turn).await;
        loop {
            let wait = world.store().next_due_in().await.expect("an answer").expect("there is always a next slot");
            let due = world.clock_now() + wait;
            if due > until {
                break;
            }
            world.clock.set(due);
            world.fire().await;
        }
        for (schedule, times) in &schedules {
            let fires = times.fires(&zone(name), from, until);
            let expected: Vec<Expected> =
                fires.iter().map(|at| (*at, *at, 1, Decision::Fired, Reason::OnTime)).collect();
            assert_eq!(rows(world, schedule).await, expected, "`{}` in {name} from {begin}", times.expression);
        }
        end(world, schedules).await;
    }
    assert_eq!(changed, CHANGES.len(), "every one of them is a change");
}

/// What a policy makes of the slots that are due at an instant.
fn decide(missed: Missed, mut due: Vec<Timestamp>, now: Timestamp) -> Vec<Expected> {
    let Some(latest) = due.last().copied() else { return Vec::new() };
    let on_time = |slot: Timestamp| now.duration_since(slot) <= secs(60);
    let range = |slots: &[Timestamp], reason| -> Vec<Expected> {
        let (Some(first), Some(last)) = (slots.first(), slots.last()) else { return Vec::new() };
        vec![(*first, *last, slots.len() as u64, Decision::Missed, reason)]
    };
    let fired = |slot: Timestamp, on_time: bool| {
        let reason = if on_time { Reason::OnTime } else { Reason::Catchup };
        (slot, slot, 1, Decision::Fired, reason)
    };
    match missed {
        Missed::Skip { .. } if !on_time(latest) => range(&due, Reason::TooLate),
        Missed::Skip { .. } | Missed::Once { .. } => {
            due.pop();
            let alone = due.is_empty() || matches!(missed, Missed::Skip { .. });
            let mut rows = range(&due, Reason::Superseded);
            rows.push(fired(latest, alone && on_time(latest)));
            rows
        }
        Missed::All { .. } => due.iter().map(|slot| fired(*slot, *slot == latest && on_time(latest))).collect(),
    }
}

pub async fn e03_downtime_over_a_change_of_clock_is_decided_by_each_policy(world: &mut World) {
    for (turn, (name, begin)) in CHANGES.into_iter().enumerate() {
        let (from, until) = (instant(begin), instant(begin) + WATCHED);
        world.clock.set(from);
        let schedules = schedules(world, name, turn + 1).await;
        let mut expected: Vec<Vec<Expected>> = schedules.iter().map(|_| Vec::new()).collect();
        let mut seen = from;
        // Up for a moment now and then: at full hours as well as between.
        for nap in [150, 30, 90, 277, 3, 120, 60, 61, 59, 240, 300].into_iter().cycle() {
            let now = seen + mins(nap);
            if now > until {
                break;
            }
            world.clock.set(now);
            world.fire().await;
            for ((schedule, times), expected) in schedules.iter().zip(&mut expected) {
                let due = times.fires(&zone(name), from, now).into_iter().filter(|slot| *slot > seen).collect();
                expected.extend(decide(schedule.definition.missed, due, now));
            }
            seen = now;
        }
        for ((schedule, times), expected) in schedules.iter().zip(&expected) {
            let missed = schedule.definition.missed;
            assert_eq!(&rows(world, schedule).await, expected, "`{}` in {name}, {missed:?}", times.expression);
        }
        end(world, schedules).await;
    }
}

pub async fn d11_a_closed_day_is_closed_from_its_first_to_its_last_local_minute(world: &mut World) {
    for (turn, (name, begin)) in CHANGES.into_iter().enumerate() {
        let (from, until) = (instant(begin), instant(begin) + WATCHED);
        world.clock.set(from);
        // The day of the change itself, which is shorter, longer, or not there at all.
        let closed = zone(name).to_datetime(from).date().tomorrow().expect("the days go on");
        let rules = CalendarRules {
            timezone: name.to_owned(),
            days: vec![ClosedDay { on: DayRule::Once(closed), note: None }],
            ..CalendarRules::default()
        };
        let calendar = format!("closed {turn}");
        world.store().create_calendar(named(&calendar), String::new(), rules).await.expect("a calendar");
        let hourly = &TIMES[4];
        let definition = ScheduleDefinition {
            timing: TimingSpec::cron(hourly.expression, name),
            calendar: Some(calendar),
            missed: Missed::all(100),
            ..minutely(&format!("s{turn}"))
        };
        let schedule = world.create(definition).await;
        // All at once, so that none is judged by when it is looked at.
        world.clock.set(until);
        world.fire().await;
        let fires = hourly.fires(&zone(name), from, until);
        let skipped = fires.iter().map(|at| (*at, zone(name).to_datetime(*at).date() == closed));
        let expected: Vec<_> = skipped.map(|(at, skipped)| (at, if skipped { "skipped" } else { "fired" })).collect();
        let decided: Vec<_> = rows(world, &schedule).await.into_iter().map(|row| (row.0, row.3.as_str())).collect();
        assert_eq!(decided, expected, "{name} from {begin}");
        let some_closed = decided.iter().any(|row| row.1 == "skipped");
        assert_eq!(some_closed, name != "Pacific/Apia", "the day that Apia left out closes nothing");
        world.store().delete_schedule(schedule.id).await.expect("it is deleted");
    }
}

pub async fn d03_a_pause_over_a_change_of_clock_is_one_range(world: &mut World) {
    for (turn, (name, begin)) in CHANGES.into_iter().enumerate() {
        let (from, until) = (instant(begin), instant(begin) + WATCHED);
        world.clock.set(from);
        let schedules = schedules(world, name, turn).await;
        let goes_on = until - SignedDuration::from_hours(2);
        for (schedule, _) in &schedules {
            let paused = world.store().pause_schedule_until(schedule.id, goes_on, None, None).await;
            paused.expect("it is paused");
        }
        world.clock.set(goes_on);
        world.fire().await;
        for (schedule, times) in &schedules {
            let passed: Vec<_> =
                times.fires(&zone(name), from, until).into_iter().filter(|slot| *slot < goes_on).collect();
            let first = rows(world, schedule).await.into_iter().next();
            let expected = passed
                .first()
                .zip(passed.last())
                .map(|(first, last)| (*first, *last, passed.len() as u64, Decision::Skipped, Reason::Paused));
            assert_eq!(first, expected, "`{}` in {name} from {begin}", times.expression);
            assert!(world.schedule(schedule.id).await.state.enabled, "all of them go on");
        }
        end(world, schedules).await;
    }
}
