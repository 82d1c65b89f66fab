//! The simulation itself: one agenda, one store, and nodes that go on in turn, all in an order that the seed decides.

use super::chance::Chance;
use super::history::{History, told};
use super::laws::Executions;
use super::node::{Body, HORIZON, PROBE};
use super::proxy::{Answer, Letter, Said};
use super::scenario::{HOUR, MINUTE, Ms, Scenario, Step};
use crate::harness::Harness;
use crate::property::drive::{Agreement, Drive};
use crate::property::ops::Op;
use jiff::SignedDuration;
use punctual_engine::memory::Fallback;
use punctual_engine::node::NodeEvent;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A simulation under way.
pub struct Sim<'a> {
    pub(super) scenario: &'a Scenario,
    /// The runtime of the store, which is real.
    pub(super) runtime: Runtime,
    pub(super) drive: Drive,
    pub(super) seats: Vec<Seat>,
    agenda: BTreeMap<(Ms, u64), Event>,
    planned: u64,
    pub(super) now: Ms,
    /// By how much the store's clock was turned.
    turned: Ms,
    pub(super) history: History,
    pub(super) executions: Executions,
    /// Faults that happened: the how-manieth call of which node.
    pub(super) faults: Vec<(usize, u64)>,
    /// Whether nothing goes wrong any more.
    pub(super) calm: bool,
}

/// Where a node is, or will be again.
#[derive(Default)]
pub struct Seat {
    pub(super) body: Option<Body>,
    /// How often it was started.
    life: u64,
    /// How many verbs it has sent.
    calls: u64,
    /// Which lease it was given last.
    lease: Option<usize>,
    /// How long it stays away when it has left.
    down: Ms,
}

/// Something on the agenda.
enum Event {
    /// A step of the scenario.
    Step(usize),
    /// A letter reaches the store.
    Arrive { node: usize, life: u64, call: u64, letter: Letter, fate: Fate },
    /// An answer reaches its node, or is known to be lost.
    Answer { node: usize, life: u64, letter_sent_at: tokio::time::Instant, said: Said, answer: Option<Answer> },
    /// A letter is known to be lost.
    Bounce(Letter),
    /// A node goes on that stood still.
    Thaw { node: usize, life: u64 },
    /// A node is started.
    Start(usize),
    /// The table of plans goes out of reach, or comes back.
    Hide(bool),
    /// A user does not want a job any more, just when its node knows nothing of it.
    Cancel(usize),
}

/// What becomes of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It arrives and is answered.
    Fine,
    /// Its node dies before it arrives.
    KillBefore,
    /// Its node dies after it was done.
    KillAfter,
    /// It is done, and its answer is lost.
    LoseAnswer,
    /// It is lost itself.
    Lose,
    /// It is slow on its way, and others overtake it.
    SlowThere,
    /// Its answer is slow.
    SlowBack,
    /// It is done, and its node stands still just then.
    FreezeAfter,
}

/// One letter in so many has another fate than a good one.
const FAULTS: u64 = 80;

/// The same for letters that did something, by what can still befall them.
const FAULTS_AFTER: u64 = 15;

impl<'a> Sim<'a> {
    /// Opens an empty store and seats all nodes.
    pub fn new(harness: &dyn Harness, scenario: &'a Scenario) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let world = runtime.block_on(async {
            let mut world = harness.open().await;
            world.reopen_with_ids(scenario.seed).await;
            world.clock.set(scenario.begin);
            world
        });
        let mut sim = Self {
            scenario,
            runtime,
            drive: Drive::new(world),
            seats: scenario.nodes.iter().map(|_| Seat::default()).collect(),
            agenda: BTreeMap::new(),
            planned: 0,
            now: 0,
            turned: 0,
            history: History::default(),
            executions: Executions::default(),
            faults: Vec::new(),
            calm: false,
        };
        for (number, (at, _)) in scenario.steps.iter().enumerate() {
            sim.plan(*at, Event::Step(number));
        }
        for node in 0..scenario.nodes.len() {
            let at = Chance::of(scenario.seed, &[7, node as u64]).between(0, 10 * MINUTE);
            sim.plan(at, Event::Start(node));
        }
        sim
    }

    fn plan(&mut self, at: Ms, event: Event) {
        self.planned += 1;
        self.agenda.insert((at.max(self.now), self.planned), event);
    }

    /// Goes on until an instant.
    pub fn go_until(&mut self, until: Ms) -> Agreement {
        loop {
            let next = self.agenda.first_key_value().map_or(until, |((at, _), _)| *at).min(until);
            if let Some(node) = self.furthest_behind(next) {
                self.run_node(node, next)?;
                continue;
            }
            if let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= until) {
                let ((at, _), event) = entry.remove_entry();
                self.set_time(at);
                self.happen(event)?;
            } else {
                self.set_time(until);
                return Ok(());
            }
        }
    }

    fn set_time(&mut self, at: Ms) {
        self.now = at;
        let shown = self.scenario.begin + SignedDuration::from_millis(at + self.turned);
        self.drive.world.clock.set(shown);
        self.drive.model.now = shown.as_microsecond();
    }

    /// The node that has come least far and not as far as an instant.
    fn furthest_behind(&self, next: Ms) -> Option<usize> {
        let awake = |seat: &&(usize, &Seat)| {
            seat.1.body.as_ref().is_some_and(|body| body.frozen_until.is_none() && body.now < next)
        };
        let seats: Vec<_> = self.seats.iter().enumerate().collect();
        seats
            .iter()
            .filter(awake)
            .min_by_key(|(_, seat)| seat.body.as_ref().map(|body| body.now))
            .map(|(node, _)| *node)
    }

    fn run_node(&mut self, node: usize, to: Ms) -> Agreement {
        let Some(body) = self.seats[node].body.as_mut() else { return Ok(()) };
        let letters = body.run_until(to);
        let at = body.now;
        self.look_at(node)?;
        for letter in letters {
            self.post(node, at, letter);
        }
        self.hear_events(node, at)
    }

    /// Judges what the jobs of a node did.
    fn look_at(&mut self, node: usize) -> Agreement {
        let seat = &self.seats[node];
        let Some(body) = &seat.body else { return Ok(()) };
        for seen in body.sightings() {
            let number = self.drive.number_of(seen.job).unwrap_or(usize::MAX);
            self.history.note(
                body.time_at(seen.at),
                &format!("node {node}"),
                &format!("job {number}: {:?}", seen.act),
                false,
            );
            self.executions.judge(&self.drive, body, seat.lease, self.scenario.lease, &seen)?;
        }
        Ok(())
    }

    fn hear_events(&mut self, node: usize, at: Ms) -> Agreement {
        let Some(body) = &self.seats[node].body else { return Ok(()) };
        for event in body.events() {
            self.history.note(at, &format!("node {node}"), &format!("{event:?}"), false);
            match event {
                NodeEvent::Fenced => self.history.count("fenced", 1),
                NodeEvent::Fallback(Fallback::Began { .. }) => self.history.count("fallbacks", 1),
                NodeEvent::Left => {
                    self.history.count("left", 1);
                    self.seats[node].body = None;
                    let down = self.seats[node].down;
                    if !self.calm {
                        self.plan(at + down, Event::Start(node));
                    }
                    return Ok(());
                }
                _ => {}
            }
        }
        let ended = self.seats[node].body.as_ref().is_some_and(Body::has_ended);
        if ended { Err(format!("node {node} ended by itself")) } else { Ok(()) }
    }

    /// Sends a letter on its way.
    fn post(&mut self, node: usize, at: Ms, letter: Letter) {
        let seat = &mut self.seats[node];
        seat.calls += 1;
        let (call, life) = (seat.calls, seat.life);
        let mut chance = Chance::of(self.scenario.seed, &[6, node as u64, call]);
        let travel = chance.between(1, 30);
        let muted = self.calm || self.scenario.muted.contains(&(node, call));
        let fate = if muted || !chance.once_in(FAULTS) { Fate::Fine } else { fate(&mut chance) };
        if fate != Fate::Fine {
            self.note_fault(at, node, call, letter.verb, fate);
        }
        let lease = self.lease_ms();
        match fate {
            Fate::Lose => self.plan(at + travel + chance.between(0, MINUTE), Event::Bounce(letter)),
            Fate::SlowThere => {
                let slow = chance.between(1_000, lease * 5 / 4);
                self.plan(at + slow, Event::Arrive { node, life, call, letter, fate });
            }
            _ => self.plan(at + travel, Event::Arrive { node, life, call, letter, fate }),
        }
    }

    fn happen(&mut self, event: Event) -> Agreement {
        match event {
            Event::Step(number) => {
                let scenario = self.scenario;
                self.take(&scenario.steps[number].1)
            }
            Event::Arrive { node, life, call, letter, fate } => self.arrive(node, life, call, letter, fate),
            Event::Answer { node, life, letter_sent_at, said, answer } => {
                if let Some(answer) = answer
                    && self.seats[node].life == life
                {
                    self.note_lease(node, &said, letter_sent_at);
                    if let (Said::Remember(Ok(_)), Some(body)) = (&said, self.seats[node].body.as_mut()) {
                        body.remembered_at = Some(letter_sent_at);
                    }
                    answer();
                }
                Ok(())
            }
            Event::Bounce(letter) => {
                drop(letter);
                Ok(())
            }
            Event::Thaw { node, life } => {
                if self.seats[node].life == life {
                    self.thaw(node);
                }
                Ok(())
            }
            Event::Start(node) => {
                self.start(node);
                Ok(())
            }
            Event::Hide(hide) => self.hide_plans(hide),
            Event::Cancel(job) => {
                let place = self.alive().position(|alive| alive == job);
                place.map_or(Ok(()), |place| self.take(&Step::User(Op::Cancel(place))))
            }
        }
    }

    fn arrive(&mut self, node: usize, life: u64, call: u64, letter: Letter, fate: Fate) -> Agreement {
        let mut chance = Chance::of(self.scenario.seed, &[8, node as u64, call]);
        let alive = self.seats[node].life == life && self.seats[node].body.is_some();
        // What a dead node has sent may still arrive.
        if !alive && chance.once_in(2) {
            return Ok(());
        }
        // What becomes of schedules when no node is there at all is for the conformance suite to show.
        let nobody = letter.verb == "settle_offers" && !self.drive.model.nodes.iter().any(|node| node.leased);
        if nobody {
            return Ok(());
        }
        if fate == Fate::KillBefore && alive {
            self.kill(node, chance.between(MINUTE, HOUR));
            return Ok(());
        }
        if letter.verb == "fire_remembered" && alive {
            self.memory_is_fresh(node, letter.sent_at)?;
        }
        let store = self.drive.world.store();
        let (verb, letter_sent_at) = (letter.verb, letter.sent_at);
        let (said, answer) = self.runtime.block_on((letter.act)(store));
        let judged = self.runtime.block_on(self.drive.judge(&said));
        let (what, plain) = told(&self.drive, verb, &said, &mut self.history);
        self.history.note(self.now, &format!("node {node}"), &what, plain);
        self.history.count("verbs", 1);
        judged?;
        let fate = if plain || !alive { fate } else { self.fate_after(node, call, fate, verb, &mut chance) };
        if said.makes_work() {
            self.wake_some(&mut chance);
        }
        let back = match fate {
            Fate::KillAfter if alive => {
                self.kill(node, chance.between(MINUTE, HOUR));
                return Ok(());
            }
            Fate::FreezeAfter if alive => {
                let length = chance.between(self.lease_ms() / 4, self.lease_ms() * 3);
                self.freeze(node, length, !chance.once_in(4));
                chance.between(1, 30)
            }
            Fate::SlowBack => chance.between(1_000, self.lease_ms() * 5 / 4),
            Fate::LoseAnswer => chance.between(1, MINUTE),
            _ => chance.between(1, 30),
        };
        if let (Said::Claim(_, Ok(claimed)), Fate::LoseAnswer | Fate::SlowBack) = (&said, fate)
            && let Some(job) = claimed.first().and_then(|claimed| self.drive.number_of(claimed.job.id))
            && chance.once_in(4)
        {
            self.plan(self.now + chance.between(0, self.lease_ms() / 4), Event::Cancel(job));
        }
        let answer = (fate != Fate::LoseAnswer).then_some(answer);
        self.plan(self.now + back, Event::Answer { node, life, letter_sent_at, said, answer });
        Ok(())
    }

    /// What befalls a letter that has done something: more often something than others.
    fn fate_after(&mut self, node: usize, call: u64, fate: Fate, verb: &str, chance: &mut Chance) -> Fate {
        let muted = self.calm || self.scenario.muted.contains(&(node, call));
        if fate != Fate::Fine || muted || !chance.once_in(FAULTS_AFTER) {
            return fate;
        }
        let fates =
            [Fate::KillAfter, Fate::LoseAnswer, Fate::LoseAnswer, Fate::SlowBack, Fate::FreezeAfter, Fate::FreezeAfter];
        let fate = *chance.pick(&fates);
        self.note_fault(self.now, node, call, verb, fate);
        fate
    }

    fn note_fault(&mut self, at: Ms, node: usize, call: u64, verb: &str, fate: Fate) {
        self.faults.push((node, call));
        self.history.note(at, &format!("node {node}"), &format!("sends {verb}: {fate:?}"), false);
        self.history.count(fate.name(), 1);
    }

    pub(super) fn lease_ms(&self) -> Ms {
        i64::try_from(self.scenario.lease.as_millis()).expect("a lease is short")
    }

    /// Wake-ups are hints: most get lost.
    fn wake_some(&mut self, chance: &mut Chance) {
        for seat in &self.seats {
            if let Some(body) = seat.body.as_ref().filter(|_| chance.once_in(6)) {
                body.wake();
            }
        }
    }

    /// Notes what a node now knows of its lease.
    fn note_lease(&mut self, node: usize, said: &Said, sent_at: tokio::time::Instant) {
        let number = match said {
            Said::Register(Ok(lease)) => self.drive.node_of(*lease),
            Said::Beat(lease, Ok(_)) => {
                self.drive.node_of(*lease).filter(|number| self.seats[node].lease == Some(*number))
            }
            _ => None,
        };
        let (seat, Some(number)) = (&mut self.seats[node], number) else { return };
        let Some(body) = seat.body.as_mut() else { return };
        if seat.lease != Some(number) {
            (seat.lease, body.renewed_at) = (Some(number), None);
        }
        body.renewed_at = body.renewed_at.max(Some(sent_at));
        if body.woke_at.is_none_or(|woke| sent_at >= woke) {
            body.slept = false;
        }
    }

    fn take(&mut self, step: &Step) -> Agreement {
        self.history.note(self.now, "*", &format!("{step:?}"), false);
        match step {
            Step::User(op) => self.user(op),
            Step::HidePlans { lead, length } => {
                self.plan_outage(*lead, *length);
                Ok(())
            }
            Step::Turn(seconds) => {
                self.turned += seconds * 1000;
                self.history.count("clock turned", 1);
                self.set_time(self.now);
                Ok(())
            }
            Step::Freeze { node, length, clock_runs } => {
                self.freeze(*node, *length, *clock_runs);
                Ok(())
            }
            Step::Kill { node, down } => {
                if self.seats.get(*node).is_some_and(|seat| seat.body.is_some()) {
                    self.kill(*node, *down);
                }
                Ok(())
            }
            Step::Leave { node, down, hurry } => {
                let Some(seat) = self.seats.get_mut(*node) else { return Ok(()) };
                seat.down = *down;
                if let Some(body) = seat.body.as_mut().filter(|body| !body.leaving) {
                    body.tell_to_leave(*hurry);
                }
                Ok(())
            }
        }
    }

    /// Takes the plans out of reach shortly before something is due.
    fn plan_outage(&mut self, lead: Ms, length: Ms) {
        let model = &self.drive.model;
        let waiting = model.schedules.iter().filter(|it| !it.deleted && it.paused_at.is_none());
        let due = waiting.filter_map(|it| it.next_due).filter(|due| *due > model.now + lead * 1000).min();
        let Some(due) = due else { return };
        let from = self.now + (due - model.now) / 1000 - lead;
        self.plan(from, Event::Hide(true));
        self.plan(from + lead + length, Event::Hide(false));
    }

    pub(super) fn hide_plans(&mut self, hide: bool) -> Agreement {
        if self.drive.plans_hidden == hide || (hide && self.calm) {
            return Ok(());
        }
        self.history.note(self.now, "*", if hide { "the plans are out of reach" } else { "the plans are back" }, false);
        self.runtime.block_on(self.drive.hide_plans(hide))
    }

    /// What a node remembers is given up in time.
    fn memory_is_fresh(&self, node: usize, sent_at: tokio::time::Instant) -> Agreement {
        let seen = self.seats[node].body.as_ref().and_then(|body| body.remembered_at);
        let seen = seen.ok_or_else(|| format!("node {node} fires what it never saw"))?;
        let age = sent_at.saturating_duration_since(seen);
        // It notices when it tries the table again, and a verb under way takes its time.
        let late = HORIZON + PROBE + Duration::from_secs(120);
        if age > late { Err(format!("node {node} fires what it saw {age:?} ago")) } else { Ok(()) }
    }

    pub(super) fn user(&mut self, op: &Op) -> Agreement {
        if !self.drive.may_do(op) {
            self.history.count("refused for lack of plans", 1);
            return Ok(());
        }
        self.runtime.block_on(self.drive.step(op)).map_err(|difference| format!("{op:?}: {difference}"))?;
        let mut chance = Chance::of(self.scenario.seed, &[9, self.planned]);
        self.wake_some(&mut chance);
        Ok(())
    }

    fn freeze(&mut self, node: usize, length: Ms, clock_runs: bool) {
        let (now, Some(seat)) = (self.now, self.seats.get_mut(node)) else { return };
        let life = seat.life;
        let Some(body) = seat.body.as_mut().filter(|body| body.frozen_until.is_none()) else { return };
        body.frozen_until = Some((now + length, clock_runs));
        self.history.count(if clock_runs { "stopped" } else { "asleep" }, 1);
        self.plan(now + length, Event::Thaw { node, life });
    }

    pub(super) fn thaw(&mut self, node: usize) {
        let now = self.now;
        if let Some(body) = self.seats[node].body.as_mut().filter(|body| body.frozen_until.is_some()) {
            body.thaw(now);
            self.history.note(now, &format!("node {node}"), "goes on", false);
        }
    }

    fn kill(&mut self, node: usize, down: Ms) {
        self.history.note(self.now, &format!("node {node}"), "dies", false);
        self.history.count("killed", 1);
        self.seats[node].body = None;
        if !self.calm {
            self.plan(self.now + down, Event::Start(node));
        }
    }

    pub(super) fn start(&mut self, node: usize) {
        let (now, scenario) = (self.now, self.scenario);
        let seat = &mut self.seats[node];
        if seat.body.is_none() {
            seat.life += 1;
            seat.lease = None;
            seat.body = Some(Body::start(scenario, &scenario.nodes[node], now));
            self.history.note(now, &format!("node {node}"), "starts", false);
        }
    }
}

fn fate(chance: &mut Chance) -> Fate {
    *chance.pick(&[
        Fate::KillBefore,
        Fate::KillAfter,
        Fate::LoseAnswer,
        Fate::LoseAnswer,
        Fate::LoseAnswer,
        Fate::Lose,
        Fate::Lose,
        Fate::SlowThere,
        Fate::SlowThere,
        Fate::SlowBack,
        Fate::SlowBack,
    ])
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::KillBefore => "killed before a verb",
            Self::KillAfter => "killed after a verb",
            Self::LoseAnswer => "answers lost",
            Self::Lose => "letters lost",
            Self::SlowThere => "verbs overtaken",
            Self::SlowBack => "answers slow",
            Self::FreezeAfter => "stopped after a verb",
        }
    }
}
