//! What a seed says will happen: the nodes, what users do and when, and what goes wrong.

use super::chance::Chance;
use crate::model::{Beat, Definition, LocalTimes, MissedRule, OverlapRule, SECOND, Spec};
use crate::property::ops::{Draft, DraftJob, Op, QUEUES};
use jiff::SignedDuration;
use jiff::Timestamp;
use punctual_core::run::Trigger;
use punctual_engine::retain::Keep;
use std::collections::BTreeSet;
use std::time::Duration;

/// Milliseconds since the beginning of a simulation.
pub type Ms = i64;

/// One minute.
pub const MINUTE: Ms = 60_000;

/// One hour.
pub const HOUR: Ms = 60 * MINUTE;

/// Everything that is known before a simulation begins.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What everything else follows from.
    pub seed: u64,
    /// When it begins, by the store's clock.
    pub begin: Timestamp,
    /// How long a node may be silent.
    pub lease: Duration,
    /// From one heartbeat to the next.
    pub heartbeat: Duration,
    /// What is kept of the history.
    pub keep: Keep,
    /// The nodes.
    pub nodes: Vec<Setup>,
    /// What happens when, in order.
    pub steps: Vec<(Ms, Step)>,
    /// When the last of it is over and calm comes.
    pub until: Ms,
    /// Faults that do not happen: the how-manieth call of which node.
    pub muted: BTreeSet<(usize, u64)>,
}

/// One node.
#[derive(Debug, Clone)]
pub struct Setup {
    /// By how much its clock is too fast, in millionths.
    pub drift: i64,
    /// How many jobs it runs at once.
    pub room: usize,
    /// How many it claims ahead.
    pub prefetch: usize,
}

/// Something that happens.
#[derive(Debug, Clone)]
pub enum Step {
    /// A user does something.
    User(Op),
    /// A node stands still, as after SIGSTOP, and goes on later; its clock goes on, or stands still too, as the
    /// monotonic clock of a machine does that is put to sleep.
    Freeze {
        /// Which.
        node: usize,
        /// For how long.
        length: Ms,
        /// Whether its clock goes on meanwhile.
        clock_runs: bool,
    },
    /// A node dies, and is started again later.
    Kill {
        /// Which.
        node: usize,
        /// How much later.
        down: Ms,
    },
    /// A node is told to leave, and is started again later.
    Leave {
        /// Which.
        node: usize,
        /// How much later.
        down: Ms,
        /// Whether it is told a second time, so that it leaves at once.
        hurry: bool,
    },
    /// The store's clock is turned by seconds.
    Turn(i64),
    /// The table of plans is out of reach, from some moments before something is due.
    HidePlans {
        /// How long before.
        lead: Ms,
        /// How long in all.
        length: Ms,
    },
}

/// The days on which simulations begin: ordinary ones, and those on which clocks change somewhere.
const DAYS: [&str; 8] = [
    "2026-03-01T00:00:00Z",
    "2026-03-28T20:00:00Z",
    "2026-03-08T02:00:00Z",
    "2026-04-04T10:00:00Z",
    "2026-10-24T20:00:00Z",
    "2026-11-01T01:00:00Z",
    "2026-04-23T18:00:00Z",
    "2026-12-31T12:00:00Z",
];

const fn local(
    expression: &'static str, zone: &'static str, hours: std::ops::RangeInclusive<i8>, minutes: &'static [i8],
    wildcard: bool,
) -> LocalTimes {
    LocalTimes { expression, zone, hours, minutes, weekdays: 0..=6, wildcard }
}

/// Schedules by the clock on the wall.
static LOCAL: [LocalTimes; 10] = [
    local("30 2 * * *", "Europe/Berlin", 2..=2, &[30], false),
    local("15,45 1-3 * * *", "America/New_York", 1..=3, &[15, 45], false),
    local("*/30 1-3 * * *", "America/New_York", 1..=3, &[0, 30], true),
    local("0 * * * *", "Europe/Berlin", 0..=23, &[0], true),
    local("15 2 * * *", "Australia/Lord_Howe", 2..=2, &[15], false),
    local("*/30 * * * *", "Australia/Lord_Howe", 0..=23, &[0, 30], true),
    local("0 0 * * *", "Africa/Cairo", 0..=0, &[0], false),
    local("5 0-12 * * *", "Asia/Kathmandu", 0..=12, &[5], false),
    LocalTimes {
        expression: "10 8-17 * * 1-5",
        zone: "America/New_York",
        hours: 8..=17,
        minutes: &[10],
        weekdays: 1..=5,
        wildcard: false,
    },
    local("45 * * * *", "UTC", 0..=23, &[45], true),
];

impl Scenario {
    /// What a seed says about some hours.
    pub fn of(seed: u64, hours: i64) -> Self {
        let mut chance = Chance::of(seed, &[0]);
        let until = hours * HOUR;
        let lease_minutes = u64::try_from(chance.between(20, 45)).expect("it is positive");
        let lease = Duration::from_secs(lease_minutes * 60);
        let nodes: Vec<Setup> = (0..*chance.pick(&[2, 2, 3, 3, 4])).map(|_| Setup::of(&mut chance)).collect();
        let mut steps = Vec::new();
        add_users(seed, until, &mut steps);
        add_faults(seed, until, nodes.len(), &lease, &mut steps);
        steps.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            begin: chance.pick(&DAYS).parse().expect("the days are instants"),
            heartbeat: lease / u32::try_from(chance.between(4, 7)).expect("it is positive"),
            lease,
            keep: keep(seed),
            nodes,
            steps,
            until,
            muted: BTreeSet::new(),
        }
    }
}

impl Setup {
    fn of(chance: &mut Chance) -> Self {
        Self { drift: chance.between(-20_000, 20_000), room: 1 + chance.index(4), prefetch: chance.index(3) }
    }
}

/// How many of something happen in a time, if so many happen in a day.
fn many(a_day: i64, until: Ms) -> u64 {
    u64::try_from((a_day * until / (24 * HOUR)).max(1)).expect("it is positive")
}

fn keep(seed: u64) -> Keep {
    let mut chance = Chance::of(seed, &[10]);
    let runs = chance.between(1, 7);
    let failed = runs + chance.between(0, 5);
    let last = u32::try_from(chance.index(4)).expect("it is small");
    let hours = |hours| Some(SignedDuration::from_hours(hours));
    Keep { runs: hours(runs), failed: hours(failed), last }
}

fn add_users(seed: u64, until: Ms, steps: &mut Vec<(Ms, Step)>) {
    for number in 0..5 {
        let mut chance = Chance::of(seed, &[1, number]);
        let at = chance.between(0, HOUR.min(until));
        steps.push((at, Step::User(Op::Create(draft(&mut chance)))));
    }
    for number in 0..many(30, until) {
        let mut chance = Chance::of(seed, &[2, number]);
        let at = chance.between(0, until);
        let jobs = (0..chance.between(1, 5)).map(|_| draft_job(&mut chance)).collect();
        steps.push((at, Step::User(Op::Enqueue(jobs))));
    }
    for number in 0..many(45, until) {
        let mut chance = Chance::of(seed, &[3, number]);
        let at = chance.between(0, until);
        let op = steering(&mut chance);
        // What was stopped goes on after a while, or little would happen.
        let again = at + chance.between(MINUTE, 3 * HOUR);
        match &op {
            Op::Pause(which) => steps.push((again, Step::User(Op::Resume(*which)))),
            Op::SetPaused(queue, true) => steps.push((again, Step::User(Op::SetPaused(*queue, false)))),
            Op::Reserve(queue, _) => steps.push((again, Step::User(Op::Release(*queue)))),
            _ => {}
        }
        steps.push((at, Step::User(op)));
    }
}

fn add_faults(seed: u64, until: Ms, nodes: usize, lease: &Duration, steps: &mut Vec<(Ms, Step)>) {
    let lease = i64::try_from(lease.as_millis()).expect("a lease is short");
    for number in 0..many(10, until) {
        let mut chance = Chance::of(seed, &[4, number]);
        let (at, node) = (chance.between(0, until), chance.index(nodes));
        let down = chance.between(MINUTE, 2 * HOUR);
        let step = match chance.index(8) {
            0..=2 => {
                Step::Freeze { node, length: chance.between(lease / 4, lease * 4), clock_runs: !chance.once_in(3) }
            }
            3 | 4 => Step::Kill { node, down },
            5 | 6 => Step::Leave { node, down, hurry: chance.once_in(3) },
            _ => Step::Turn(*chance.pick(&[3600, -3600, 1800, -600, 61, -3, 7200])),
        };
        steps.push((at, step));
    }
    for number in 0..many(1, until) {
        let mut chance = Chance::of(seed, &[11, number]);
        let at = chance.between(until / 10, until);
        let (lead, length) = (chance.between(500, 5_000), chance.between(5_000, 40_000));
        steps.push((at, Step::HidePlans { lead, length }));
    }
}

fn steering(chance: &mut Chance) -> Op {
    let which = chance.index(64);
    match chance.index(20) {
        0 | 1 => Op::Create(draft(chance)),
        2 | 3 => Op::Update(which, draft(chance)),
        4 => Op::Retouch(which, draft(chance)),
        5 | 6 => Op::Pause(which),
        7 => Op::Resume(which),
        8 | 9 => Op::Reschedule(which, chance.between(-5, 7200)),
        10 | 11 => Op::Trigger(which),
        12 => Op::Delete(which),
        13 | 14 => Op::Edit(which, u32::try_from(chance.between(300, 400)).expect("it is positive")),
        15..=17 => Op::Cancel(which),
        18 => Op::SetPaused(chance.index(QUEUES.len()), true),
        _ => Op::Reserve(chance.index(QUEUES.len()), chance.between(60, 7200)),
    }
}

fn draft(chance: &mut Chance) -> Draft {
    let beat = match chance.index(10) {
        0..=2 => Beat::Every(*chance.pick(&[1_337, 1_800, 3_600, 5_000, 7_200])),
        3 => Beat::Minutes(*chance.pick(&[30, 60])),
        4 => Beat::At(chance.between(1, 20 * 3600) * SECOND),
        _ => Beat::Local(chance.pick(&LOCAL)),
    };
    let window = chance.once_in(3).then(|| chance.between(60, 4 * 3600));
    let missed = match chance.index(4) {
        0 => MissedRule::Skip(*chance.pick(&[60, 60, 900, 5_400])),
        1 | 2 => MissedRule::Once(window),
        _ => MissedRule::All(1 + chance.index(12), window),
    };
    let overlap = *chance.pick(&[
        OverlapRule::Allow,
        OverlapRule::Allow,
        OverlapRule::Forbid,
        OverlapRule::Replace,
        OverlapRule::QueueOne,
    ]);
    let ends_at = (chance.once_in(8) && !matches!(beat, Beat::At(_))).then(|| chance.between(600, 50_000) * SECOND);
    Draft {
        definition: Definition {
            stops_after: None,
            beat,
            ends_at,
            missed,
            overlap,
            max_alive: chance.once_in(5).then(|| 1 + chance.index(2)),
            serial: chance.once_in(3),
            depends_on: chance.once_in(6).then(|| (chance.index(64), chance.between(60, 20_000))),
            jitter: if chance.once_in(3) { chance.between(1, 900) } else { 0 },
            job: Spec { key: None, ..spec(chance) },
        },
    }
}

fn spec(chance: &mut Chance) -> Spec {
    let queue = QUEUES[usize::from(chance.once_in(3))].to_owned();
    Spec {
        key: chance.once_in(3).then(|| format!("{} of {queue}", chance.index(2))),
        queue,
        priority: i32::try_from(chance.between(-1, 2)).expect("it is small"),
        input: u32::try_from(chance.between(0, 300)).expect("it is positive"),
        max_attempts: u32::try_from(chance.between(1, 4)).expect("it is positive"),
        wait: chance.between(1, 600) * SECOND,
        max_interruptions: u32::try_from(chance.between(0, 4)).expect("it is positive"),
        trigger: Trigger::Api,
    }
}

fn draft_job(chance: &mut Chance) -> DraftJob {
    let spec = spec(chance);
    DraftJob { spec, delay: chance.once_in(3).then(|| chance.between(-5, 7_200)) }
}
