//! Tables of slot to decision for the missed policies, on time and late, with bounds, jitter and moved slots.

use super::*;

#[test]
fn a07_an_on_time_slot_fires_under_every_policy() {
    let policies = [
        Missed::SKIP,
        Missed::Skip { window: SignedDuration::from_millis(1) },
        Missed::ONCE,
        Missed::Once { window: Some(SignedDuration::from_millis(1)) },
        Missed::all(1),
        Missed::all(100),
        Missed::All { limit: 1, window: Some(SignedDuration::from_millis(1)) },
    ];
    for missed in policies {
        let schedule = minutely(missed);
        assert_eq!(fired(&schedule, "00:01:00"), "fired 00:01:00 on_time; next 00:02:00", "{missed:?}");
        assert_eq!(fired(&schedule, "00:01:00.001"), "fired 00:01:00 on_time; next 00:02:00", "{missed:?}");
        let firing = schedule.fire(at("00:01:00.001"), &Facts::default());
        let job = firing.slots[0].job.unwrap();
        assert_eq!((job.trigger, firing.slots[0].late_ms), (Trigger::Schedule, 1), "{missed:?}");
    }
}

#[test]
fn a05_a_slot_that_is_not_due_yet_is_left_as_it_is() {
    for missed in [Missed::SKIP, Missed::ONCE, Missed::all(100)] {
        assert_eq!(fired(&minutely(missed), "00:00:59.999999"), "next 00:01:00");
    }
}

#[test]
fn a07_skip_runs_what_is_within_its_window_and_records_the_rest() {
    for (window, now, expected) in [
        (60, "00:01:59.999", "fired 00:01:00 on_time; next 00:02:00"),
        (60, "00:02:00", "missed 00:01:00 superseded; fired 00:02:00 on_time; next 00:03:00"),
        (30, "00:01:30", "fired 00:01:00 on_time; next 00:02:00"),
        (30, "00:01:30.000001", "missed 00:01:00 too_late; next 00:02:00"),
        (30, "00:05:20", "missed 00:01:00..00:04:00 x4 superseded; fired 00:05:00 on_time; next 00:06:00"),
        (30, "00:05:40", "missed 00:01:00..00:05:00 x5 too_late; next 00:06:00"),
        // A wide window is a wide notion of on time.
        (86_400, "00:05:40", "missed 00:01:00..00:04:00 x4 superseded; fired 00:05:00 on_time; next 00:06:00"),
    ] {
        let schedule = minutely(Missed::Skip { window: secs(window) });
        assert_eq!(fired(&schedule, now), expected, "window {window}s at {now}");
    }
    let hourly = schedule(TimingSpec::cron("0 * * * *", "UTC"), |d| d.missed = Missed::Skip { window: mins(30) });
    assert_eq!(fired(&hourly, "01:30:00"), "fired 01:00:00 on_time; next 02:00:00");
    assert_eq!(fired(&hourly, "01:30:01"), "missed 01:00:00 too_late; next 02:00:00");
}

#[test]
fn e03_once_makes_one_run_however_many_were_missed() {
    for (now, expected) in [
        ("00:01:00", "fired 00:01:00 on_time; next 00:02:00"),
        ("00:02:00", "missed 00:01:00 superseded; fired 00:02:00 catchup; next 00:03:00"),
        ("00:05:59", "missed 00:01:00..00:04:00 x4 superseded; fired 00:05:00 catchup; next 00:06:00"),
        ("23:59:30", "missed 00:01:00..23:58:00 x1438 superseded; fired 23:59:00 catchup; next 2026-03-02T00:00:00Z"),
    ] {
        assert_eq!(fired(&minutely(Missed::ONCE), now), expected, "{now}");
    }
    let daily = schedule(TimingSpec::cron("0 6 * * *", "UTC"), |_| ());
    assert_eq!(fired(&daily, "06:01:00"), "fired 06:00:00 on_time; next 2026-03-02T06:00:00Z");
    assert_eq!(fired(&daily, "06:01:00.000001"), "fired 06:00:00 catchup; next 2026-03-02T06:00:00Z");
    assert_eq!(fired(&daily, "23:00:00"), "fired 06:00:00 catchup; next 2026-03-02T06:00:00Z");
}

#[test]
fn e03_once_with_a_window_gives_up_what_is_too_old() {
    let schedule =
        schedule(TimingSpec::cron("0 * * * *", "UTC"), |d| d.missed = Missed::Once { window: Some(mins(10)) });
    for (now, expected) in [
        ("01:10:00", "fired 01:00:00 catchup; next 02:00:00"),
        ("01:10:01", "missed 01:00:00 too_late; next 02:00:00"),
        ("03:05:00", "missed 01:00:00..02:00:00 x2 superseded; fired 03:00:00 catchup; next 04:00:00"),
        ("03:15:00", "missed 01:00:00..03:00:00 x3 too_late; next 04:00:00"),
    ] {
        assert_eq!(fired(&schedule, now), expected, "{now}");
    }
}

#[test]
fn a07_all_makes_up_for_each_and_only_the_latest_is_on_time() {
    for (limit, now, expected) in [
        (100, "00:01:30", "fired 00:01:00 on_time; next 00:02:00"),
        (100, "00:03:00", "fired 00:01:00 catchup; fired 00:02:00 catchup; fired 00:03:00 on_time; next 00:04:00"),
        (2, "00:03:00", "missed 00:01:00 over_limit; fired 00:02:00 catchup; fired 00:03:00 on_time; next 00:04:00"),
        (
            2,
            "00:09:00",
            "missed 00:01:00..00:07:00 x7 over_limit; fired 00:08:00 catchup; fired 00:09:00 on_time; next 00:10:00",
        ),
        (1, "00:09:59", "missed 00:01:00..00:08:00 x8 over_limit; fired 00:09:00 on_time; next 00:10:00"),
    ] {
        assert_eq!(fired(&minutely(Missed::all(limit)), now), expected, "limit {limit} at {now}");
    }
    let firing = minutely(Missed::all(100)).fire(at("00:02:00"), &Facts::default());
    let triggers: Vec<_> = firing.slots.iter().map(|slot| slot.job.unwrap().trigger).collect();
    assert_eq!(triggers, [Trigger::Catchup, Trigger::Schedule]);
    assert_eq!(firing.slots.iter().map(|slot| slot.late_ms).collect::<Vec<_>>(), [60_000, 0]);
}

#[test]
fn a07_all_names_the_bound_that_a_slot_fell_to() {
    let all = |limit, window| minutely(Missed::All { limit, window: Some(secs(window)) });
    for (limit, window, now, expected) in [
        (5, 60, "00:09:30", "missed 00:01:00..00:08:00 x8 too_late; fired 00:09:00 on_time; next 00:10:00"),
        (
            5,
            90,
            "00:09:30",
            "missed 00:01:00..00:07:00 x7 too_late; fired 00:08:00 catchup; fired 00:09:00 on_time; next 00:10:00",
        ),
        (1, 90, "00:09:30", "missed 00:01:00..00:08:00 x8 over_limit; fired 00:09:00 on_time; next 00:10:00"),
        (9, 10, "00:09:30", "missed 00:01:00..00:09:00 x9 too_late; next 00:10:00"),
    ] {
        assert_eq!(fired(&all(limit, window), now), expected, "limit {limit}, window {window}s at {now}");
    }
}

#[test]
fn a07_a_limit_of_none_that_reached_the_table_still_fires_on_time() {
    assert_eq!(fired(&minutely(Missed::all(0)), "00:01:00"), "fired 00:01:00 on_time; next 00:02:00");
}

#[test]
fn a05_much_to_catch_up_on_is_spread_over_passes_and_each_slot_fires_once() {
    let per_pass = u32::try_from(SLOTS_PER_PASS).unwrap();
    let mut schedule = minutely(Missed::all(1000));
    let now = at("10:10:30");
    let first = fire_and_store(&mut schedule, now, &Facts::default());
    assert_eq!(first.slots.len(), SLOTS_PER_PASS);
    assert_eq!(first.next, Next::Slot(NextSlot { slot_at: at("04:17:00"), run_at: at("04:17:00") }));
    assert!(first.slots.iter().all(|slot| slot.reason == Reason::Catchup));
    let second = fire_and_store(&mut schedule, now, &Facts::default());
    let third = fire_and_store(&mut schedule, now, &Facts::default());
    let all: Vec<_> = [first, second, third].into_iter().flat_map(|firing| firing.slots).collect();
    assert_eq!(all.len(), 610);
    let expected: Vec<_> = (1..=610).map(|minute| at("00:00:00") + mins(minute)).collect();
    assert_eq!(all.iter().map(|slot| slot.slot_at).collect::<Vec<_>>(), expected);
    assert_eq!(all.last().unwrap().reason, Reason::OnTime);
    assert_eq!(fired(&schedule, "10:10:30"), "next 10:11:00");
    // Exactly one pass full leaves nothing over.
    let exact = minutely(Missed::all(per_pass));
    assert!(fired(&exact, "10:00:00").ends_with("fired 10:00:00 on_time; next 10:01:00"));
}

#[test]
fn d05_bounds_are_slots_themselves_and_end_the_schedule() {
    let bounded = |missed| {
        schedule(TimingSpec::cron("* * * * *", "UTC"), |d| {
            d.starts_at = Some(at("00:03:00"));
            d.ends_at = Some(at("00:05:00"));
            d.missed = missed;
        })
    };
    assert_eq!(fired(&bounded(Missed::ONCE), "00:02:59"), "next 00:03:00");
    assert_eq!(fired(&bounded(Missed::ONCE), "00:03:00"), "fired 00:03:00 on_time; next 00:04:00");
    assert_eq!(
        fired(&bounded(Missed::ONCE), "00:05:00"),
        "missed 00:03:00..00:04:00 x2 superseded; fired 00:05:00 catchup; exhausted"
    );
    assert_eq!(fired(&bounded(Missed::SKIP), "09:00:00"), "missed 00:03:00..00:05:00 x3 too_late; exhausted");
    assert_eq!(
        fired(&bounded(Missed::all(9)), "09:00:00"),
        "fired 00:03:00 catchup; fired 00:04:00 catchup; fired 00:05:00 catchup; exhausted"
    );
    let between_slots = schedule(TimingSpec::cron("* * * * *", "UTC"), |d| {
        d.starts_at = Some(at("00:03:00.000000001"));
        d.ends_at = Some(at("00:04:59.999999999"));
    });
    assert_eq!(fired(&between_slots, "00:03:30"), "next 00:04:00");
    assert_eq!(fired(&between_slots, "00:05:00"), "fired 00:04:00 on_time; exhausted");
}

#[test]
fn d05_the_line_of_slots_keeps_to_its_bounds_in_both_directions() {
    let bounded = schedule(TimingSpec::cron("* * * * *", "UTC"), |d| {
        d.starts_at = Some(at("00:03:00"));
        d.ends_at = Some(at("00:05:00"));
    });
    let slots = bounded.slots().unwrap();
    assert_eq!(slots.latest_at_or_before(at("00:02:59")), None);
    assert_eq!(slots.latest_at_or_before(at("00:03:00")), Some(at("00:03:00")));
    assert_eq!(slots.latest_at_or_before(at("09:00:00")), Some(at("00:05:00")));
    assert_eq!(slots.next_after(at("00:04:59")), Some(at("00:05:00")));
    assert_eq!(slots.next_after(at("00:05:00")), None);
    assert_eq!(slots.count_between(Timestamp::MIN, Timestamp::MAX), 3);
    assert_eq!(slots.count_between(at("00:03:00"), at("00:05:00")), 2);
}

#[test]
fn d05_an_at_fires_once_late_or_on_time_and_is_exhausted() {
    let once = |missed| schedule(TimingSpec::At { at: at("08:00:00") }, |d| d.missed = missed);
    for missed in [Missed::SKIP, Missed::ONCE, Missed::all(3)] {
        assert_eq!(fired(&once(missed), "07:59:59"), "next 08:00:00");
        assert_eq!(fired(&once(missed), "08:00:00"), "fired 08:00:00 on_time; exhausted");
    }
    assert_eq!(fired(&once(Missed::SKIP), "09:00:00"), "missed 08:00:00 too_late; exhausted");
    assert_eq!(fired(&once(Missed::ONCE), "09:00:00"), "fired 08:00:00 catchup; exhausted");
    let mut done = once(Missed::ONCE);
    fire_and_store(&mut done, at("08:00:00"), &Facts::default());
    assert_eq!(fired(&done, "23:00:00"), "exhausted");
}

#[test]
fn d05_every_keeps_its_phase_through_downtime() {
    let every = |missed| schedule(TimingSpec::Every { period: secs(90) }, |d| d.missed = missed);
    assert_eq!(fired(&every(Missed::ONCE), "00:01:30"), "fired 00:01:30 on_time; next 00:03:00");
    assert_eq!(fired(&every(Missed::ONCE), "00:01:47"), "fired 00:01:30 on_time; next 00:03:00");
    assert_eq!(
        fired(&every(Missed::ONCE), "01:00:29"),
        "missed 00:01:30..00:58:30 x39 superseded; fired 01:00:00 catchup; next 01:01:30"
    );
    assert_eq!(fired(&every(Missed::SKIP), "01:01:29"), "missed 00:01:30..01:00:00 x40 too_late; next 01:01:30");
}

#[test]
fn d10_jitter_is_fixed_for_a_slot_and_shorter_than_the_gap() {
    for (period, jitter) in [(60, 45), (60, 60), (60, 86_400), (1, 86_400), (86_400, 5)] {
        let schedule = schedule(TimingSpec::Every { period: secs(period) }, |d| d.jitter = secs(jitter));
        let slots = schedule.slots().unwrap();
        let mut spread = std::collections::BTreeSet::new();
        let mut last_due = Timestamp::MIN;
        for n in 1..=500 {
            let slot_at = at("00:00:00") + secs(period) * n;
            let due_at = slots.due_at(slot_at);
            assert_eq!(due_at, schedule.clone().slots().unwrap().due_at(slot_at), "every node computes the same");
            let offset = due_at.duration_since(slot_at);
            assert!(!offset.is_negative() && offset < secs(period.min(jitter)), "{offset:?}");
            assert!(due_at > last_due, "due times keep the order of their slots");
            last_due = due_at;
            spread.insert(offset);
        }
        assert!(spread.len() > 490, "500 slots have {} offsets", spread.len());
    }
}

#[test]
fn d10_two_schedules_have_different_jitter() {
    let one = schedule(TimingSpec::cron("0 * * * *", "UTC"), |d| d.jitter = mins(10));
    let mut other = one.clone();
    other.id = ScheduleId(uuid::Uuid::from_u128(0x0198_5f3a_9c1e_7000_8000_0000_dead_bee0));
    let due = |schedule: &Schedule| schedule.slots().unwrap().due_at(at("01:00:00"));
    assert_ne!(due(&one), due(&other));
}

#[test]
fn d10_a_slot_held_back_by_its_jitter_is_neither_fired_early_nor_lost() {
    let schedule = schedule(TimingSpec::cron("* * * * *", "UTC"), |d| {
        d.jitter = secs(59);
        d.missed = Missed::all(100);
    });
    let slots = schedule.slots().unwrap();
    let (second, due) = (at("00:02:00"), slots.due_at(at("00:02:00")));
    assert!(due > second + secs(1), "the case needs a slot with a noticeable jitter");
    let held_back = schedule.fire(due - SignedDuration::from_micros(1), &Facts::default());
    assert_eq!(held_back.slots.len(), 1);
    assert_eq!(held_back.slots[0].slot_at, at("00:01:00"));
    assert_eq!(held_back.next, Next::Slot(NextSlot { slot_at: second, run_at: due }));
    let both = schedule.fire(due, &Facts::default());
    assert_eq!(both.slots.iter().map(|slot| slot.slot_at).collect::<Vec<_>>(), [at("00:01:00"), second]);
    assert_eq!(both.slots[1].late_ms, 0, "lateness counts from when the slot was due");
}

#[test]
fn d03_a_slot_moved_later_fires_at_its_new_time_and_the_schedule_goes_on() {
    // What reschedule leaves: the slots it jumped over are decided, and the new time is the slot.
    let moved = |missed| {
        let mut schedule = schedule(TimingSpec::cron("0 * * * *", "UTC"), |d| d.missed = missed);
        schedule.state.last_slot_at = Some(at("03:00:00"));
        schedule.state.fired_through = Some(at("03:00:00"));
        force_plan(&mut schedule, "03:30:00", "03:30:00");
        schedule
    };
    assert_eq!(fired(&moved(Missed::ONCE), "03:29:59"), "next 03:30:00");
    assert_eq!(fired(&moved(Missed::ONCE), "03:30:00"), "fired 03:30:00 on_time; next 04:00:00");
    assert_eq!(
        fired(&moved(Missed::ONCE), "06:00:00"),
        "missed 03:30:00..05:00:00 x3 superseded; fired 06:00:00 catchup; next 07:00:00"
    );
    assert_eq!(
        fired(&moved(Missed::all(2)), "05:00:00"),
        "missed 03:30:00 over_limit; fired 04:00:00 catchup; fired 05:00:00 on_time; next 06:00:00"
    );
}

#[test]
fn d03_a_slot_moved_earlier_fires_once_and_its_old_time_does_not() {
    let moved = |missed| {
        let mut schedule = schedule(TimingSpec::cron("0 * * * *", "UTC"), |d| d.missed = missed);
        schedule.state.last_slot_at = Some(at("01:00:00"));
        force_plan(&mut schedule, "00:10:00", "00:10:00");
        schedule
    };
    assert_eq!(fired(&moved(Missed::ONCE), "00:10:00"), "fired 00:10:00 on_time; next 02:00:00");
    // 01:00 was decided when it was moved, so it is not among what is due.
    assert_eq!(fired(&moved(Missed::all(9)), "01:30:00"), "fired 00:10:00 catchup; next 02:00:00");
    assert_eq!(
        fired(&moved(Missed::ONCE), "03:00:00"),
        "missed 00:10:00..02:00:00 x2 superseded; fired 03:00:00 catchup; next 04:00:00"
    );
    let mut schedule = moved(Missed::ONCE);
    fire_and_store(&mut schedule, at("00:10:00"), &Facts::default());
    assert_eq!(schedule.state.last_slot_at, Some(at("01:00:00")), "what was decided ahead stays decided");
    assert_eq!(fired(&schedule, "01:00:00"), "next 02:00:00");
}

#[test]
fn d03_a_slot_moved_within_a_second_of_the_next_loses_neither() {
    let mut schedule = schedule(TimingSpec::cron("* * * * * *", "UTC"), |d| d.missed = Missed::all(2));
    schedule.state.last_slot_at = Some(at("01:00:00"));
    force_plan(&mut schedule, "01:00:00.5", "01:00:00.5");
    assert_eq!(
        fired(&schedule, "01:00:02"),
        "missed 01:00:00.5 over_limit; fired 01:00:01 catchup; fired 01:00:02 on_time; next 01:00:03"
    );
}
