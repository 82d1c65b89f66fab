//! Random schedules and downtimes against an oracle that lists every slot and follows the words of the design.

use super::*;
use proptest::prelude::*;

const BEGIN: &str = "2026-03-28T00:00:00Z";

/// When the schedule of a case is due; the last number says about how many seconds lie between two slots.
#[derive(Debug, Clone)]
enum When {
    Every(i64),
    Cron(&'static str, &'static str, i64),
}

#[derive(Debug, Clone)]
struct Case {
    when: When,
    missed: Missed,
    jitter: SignedDuration,
    starts_at: Option<i64>,
    ends_at: Option<i64>,
    /// The stored slot is this one of the definition's, the earlier ones being decided.
    skipped: usize,
    /// Somebody moved it by this much, which records the slots between.
    moved: Option<SignedDuration>,
    /// From the stored slot to the decision.
    down: SignedDuration,
}

/// From every second to a few times a week, over the clock changes of two zones.
fn when() -> impl Strategy<Value = When> {
    let cron = prop::sample::select(vec![
        ("* * * * * *", 1),
        ("*/7 * * * * *", 7),
        ("* * * * *", 60),
        ("0 * * * *", 3_600),
        ("*/15 1-3 * * *", 7_200),
        ("30 1,2 * * *", 43_200),
        ("0 2 * * *", 86_400),
        ("17 3 * * 1-5", 120_000),
    ]);
    let zone = prop::sample::select(vec!["UTC", "Europe/Berlin", "Africa/Cairo"]);
    prop_oneof![
        prop_oneof![1_i64..10, 10_i64..4000].prop_map(When::Every),
        (cron, zone).prop_map(|((expression, pace), zone)| When::Cron(expression, zone, pace)),
    ]
}

/// Windows, downtimes and jitters are made to the measure of a schedule, so that listing its slots stays affordable.
fn pace(when: &When) -> i64 {
    match when {
        When::Every(pace) | When::Cron(_, _, pace) => *pace,
    }
}

fn missed(pace: i64) -> impl Strategy<Value = Missed> {
    let window = move || (1_i64..60).prop_map(move |n| SignedDuration::from_millis(n * pace * 250));
    let limit = prop_oneof![1_u32..5, 5_u32..400];
    prop_oneof![
        window().prop_map(|window| Missed::Skip { window }),
        Just(Missed::SKIP),
        prop::option::of(window()).prop_map(|window| Missed::Once { window }),
        (limit, prop::option::of(window())).prop_map(|(limit, window)| Missed::All { limit, window }),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    when().prop_flat_map(|when| {
        let pace = pace(&when);
        let jitter =
            prop_oneof![Just(0_i64), 1..pace * 1000, Just(86_400_000_i64)].prop_map(SignedDuration::from_millis);
        // Few slots mostly, and now and then more than one pass.
        let down = prop_oneof![
            8 => -pace * 1000..pace * 8_000,
            4 => 0..pace * 40_000,
            1 => 0..pace * 300_000,
        ];
        let bound = || prop::option::weighted(0.2, 0..pace * 40);
        let moved = prop::option::weighted(0.2, (-pace * 900..pace * 5_000).prop_map(SignedDuration::from_millis));
        (missed(pace), jitter, bound(), bound(), 0_usize..4, moved, down).prop_map(
            move |(missed, jitter, starts_at, ends_at, skipped, moved, down)| Case {
                when: when.clone(),
                missed,
                jitter,
                starts_at,
                ends_at,
                skipped,
                moved,
                down: SignedDuration::from_millis(down),
            },
        )
    })
}

/// Every slot of the definition, one by one: `every` by addition, cron by asking for the next one.
fn all_slots(schedule: &Schedule, until: Timestamp) -> Vec<Timestamp> {
    let definition = &schedule.definition;
    let clock = definition.timing.compile(schedule.anchor_at, &schedule.seed).unwrap();
    let mut slots = Vec::new();
    let mut slot = schedule.created_at;
    loop {
        slot = match (&definition.timing, &clock) {
            (TimingSpec::Every { period }, _) => slot + *period,
            (_, clock) => match clock.next_after(slot) {
                Some(next) => next,
                None => return slots,
            },
        };
        if definition.ends_at.is_some_and(|to| slot > to) {
            return slots;
        }
        if definition.starts_at.is_none_or(|from| slot >= from) {
            slots.push(slot);
            // One more than needed, so that the next slot is among them.
            if slot > until {
                return slots;
            }
        }
    }
}

/// The schedule of a case and the instant at which it is decided; `None` when it has no slot to begin with.
fn prepare(case: &Case) -> Option<(Schedule, Timestamp)> {
    let begin = at(BEGIN);
    let timing = match &case.when {
        When::Every(period) => TimingSpec::Every { period: secs(*period) },
        When::Cron(expression, zone, _) => TimingSpec::cron(*expression, *zone),
    };
    let mut schedule = schedule_made_at(begin, timing, |d| {
        d.missed = case.missed;
        d.jitter = case.jitter;
        d.starts_at = case.starts_at.map(|seconds| begin + secs(seconds));
        d.ends_at = case.ends_at.map(|seconds| begin + secs(seconds));
    });
    for _ in 0..case.skipped {
        let (slot_at, run_at) = (schedule.state.next_slot_at?, schedule.state.next_run_at?);
        schedule.state.last_slot_at = Some(slot_at);
        schedule.state.fired_through = Some(slot_at);
        let next = schedule.slots().unwrap().next_from(slot_at);
        assert!(run_at >= slot_at);
        store_plan(&mut schedule, &next);
    }
    let stored = schedule.state.next_slot_at?;
    if let Some(by) = case.moved {
        let earliest = schedule.state.fired_through.unwrap_or(begin) + SignedDuration::from_micros(1);
        let moved = (stored + by).max(earliest);
        let jumped =
            all_slots(&schedule, moved).into_iter().rfind(|slot| *slot < moved).map_or(stored, |s| s.max(stored));
        if moved != stored {
            schedule.state.last_slot_at = schedule.state.last_slot_at.max(Some(jumped));
        }
        schedule.state.next_slot_at = Some(moved);
        schedule.state.next_run_at = Some(moved);
    }
    let now = schedule.state.next_run_at? + case.down;
    Some((schedule, now))
}

/// What the design's words make of the due slots.
fn oracle(schedule: &Schedule, now: Timestamp) -> String {
    let slots = schedule.slots().unwrap();
    let (stored, stored_due) = (schedule.state.next_slot_at.unwrap(), schedule.state.next_run_at.unwrap());
    let decided = schedule.state.last_slot_at.unwrap_or(Timestamp::MIN);
    let regular = all_slots(schedule, now.max(stored).max(decided));
    let ahead =
        regular.into_iter().filter(|slot| *slot > stored && *slot > decided).map(|slot| (slot, slots.due_at(slot)));
    let line: Vec<(Timestamp, Timestamp)> = std::iter::once((stored, stored_due)).chain(ahead).collect();
    let due: Vec<_> = line.iter().copied().filter(|(_, due)| *due <= now).collect();
    let Some(latest) = due.last().copied() else {
        return said(&Firing { slots: vec![], next: Next::Slot(NextSlot { slot_at: stored, run_at: stored_due }) });
    };
    let late = |(_, due): (Timestamp, Timestamp)| now.duration_since(due);
    let within = |slot, window: Option<SignedDuration>| window.is_none_or(|window| late(slot) <= window);
    let on_time = late(latest) <= secs(60);
    let (fires, why_not): (Vec<_>, Reason) = match schedule.definition.missed {
        Missed::Skip { window } if within(latest, Some(window)) => (vec![(latest, Reason::OnTime)], Reason::Superseded),
        Missed::Once { window } if within(latest, window) => {
            let reason = if on_time && due.len() == 1 { Reason::OnTime } else { Reason::Catchup };
            (vec![(latest, reason)], Reason::Superseded)
        }
        Missed::Skip { .. } | Missed::Once { .. } => (vec![], Reason::TooLate),
        Missed::All { limit, window } => {
            let fresh: Vec<_> = due.iter().copied().filter(|slot| within(*slot, window)).collect();
            let surplus = fresh.len().saturating_sub(limit as usize);
            let reason = |slot| if slot == latest && on_time { Reason::OnTime } else { Reason::Catchup };
            let fires = fresh[surplus..].iter().map(|slot| (*slot, reason(*slot))).collect();
            (fires, if surplus > 0 { Reason::OverLimit } else { Reason::TooLate })
        }
    };
    write_down(&line, &due, &fires, why_not)
}

/// The decision as text: one range for what passed, each fire of this pass, and what comes next.
fn write_down(
    line: &[(Timestamp, Timestamp)], due: &[(Timestamp, Timestamp)], fires: &[((Timestamp, Timestamp), Reason)],
    why_not: Reason,
) -> String {
    let row = |first: Timestamp, through, count: usize, decision, reason| DecidedSlot {
        slot_at: first,
        through,
        count: count as u64,
        decision,
        reason,
        late_ms: 0,
        job: None,
        note: None,
    };
    let passed = &due[..due.len() - fires.len()];
    let mut rows = Vec::new();
    if let (Some(first), Some(last)) = (passed.first(), passed.last()) {
        rows.push(row(first.0, last.0, passed.len(), Decision::Missed, why_not));
    }
    for ((slot_at, _), reason) in fires.iter().take(SLOTS_PER_PASS) {
        rows.push(row(*slot_at, *slot_at, 1, Decision::Fired, *reason));
    }
    let next = fires.get(SLOTS_PER_PASS).map(|(slot, _)| slot).or_else(|| line.get(due.len()));
    let next =
        next.map_or(Next::Exhausted, |(slot_at, run_at)| Next::Slot(NextSlot { slot_at: *slot_at, run_at: *run_at }));
    said(&Firing { slots: rows, next })
}

/// Fires at each of some instants, pass after pass, and gives all rows.
fn live_through(schedule: &mut Schedule, wakes: &[Timestamp]) -> Vec<DecidedSlot> {
    let mut rows = Vec::new();
    for now in wakes {
        while schedule.state.next_run_at.is_some_and(|due| due <= *now) {
            let firing = fire_and_store(schedule, *now, &Facts::default());
            assert!(!firing.slots.is_empty(), "what is due is decided");
            for slot in &firing.slots {
                assert!(slot.through <= *now && slot.late_ms >= 0, "nothing is decided before it is due");
            }
            rows.extend(firing.slots);
        }
    }
    rows
}

proptest! {
    #![proptest_config(config(20_000))]

    #[test]
    fn a07_decisions_agree_with_listing_every_slot(case in cases()) {
        if let Some((schedule, now)) = prepare(&case) {
            prop_assert!(schedule.plan_is_sound());
            let firing = schedule.fire(now, &Facts::default());
            prop_assert_eq!(said(&firing), oracle(&schedule, now));
        }
    }
}

proptest! {
    #![proptest_config(config(3_000))]

    /// Whenever the scheduler wakes up, in the end every slot of the definition is decided exactly once.
    #[test]
    fn a05_no_slot_is_lost_and_none_is_decided_twice(case in cases(), naps in prop::collection::vec(1_i64..5_000, 1..25)) {
        let case = Case { skipped: 0, moved: None, ..case };
        let Some((mut schedule, _)) = prepare(&case) else { return Ok(()) };
        let mut now = schedule.created_at;
        let wakes: Vec<_> = naps.iter().map(|nap| { now += SignedDuration::from_millis(nap * pace(&case.when)); now }).collect();
        let rows = live_through(&mut schedule, &wakes);
        let slots = schedule.slots().unwrap();
        let expected: Vec<_> =
            all_slots(&schedule, now).into_iter().filter(|slot| slots.due_at(*slot) <= now).collect();
        let mut seen = 0;
        for row in &rows {
            let held = expected.iter().filter(|slot| row.slot_at <= **slot && **slot <= row.through).count();
            prop_assert_eq!(held as u64, row.count);
            prop_assert_eq!(expected.get(seen), Some(&row.slot_at), "rows follow each other without a hole");
            seen += held;
        }
        prop_assert_eq!(seen, expected.len());
    }
}
