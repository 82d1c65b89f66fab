//! Real workers, killed for real: what was acknowledged is kept, what ran ran once, what was cut short is told.

use crate::process::{Ear, Said, Setup, Steps, Worker};
use crate::world::{World, on_both_stores};
use punctual_core::id::JobId;
use punctual_core::job::NewJob;
use punctual_core::run::ErrorCode;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a worker can be in the middle of when it is killed.
const PHASES: [&str; 5] = ["fire", "claim", "run", "finish", "recover"];

/// Looks for lost nodes in one lease: see the node's loop.
const LOOKS_PER_LEASE: usize = 5;

/// A number from the environment, by which `cargo xtask chaos` asks for more.
fn asked(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Two workers, and somebody who kills them.
struct Killer<'w> {
    world: &'w World,
    ear: Ear,
    workers: BTreeMap<u32, Worker>,
    steps: Steps,
    /// Kills that met a worker in the middle of what they were meant for.
    met: BTreeMap<&'static str, usize>,
    kills: usize,
    chance: u64,
}

impl<'w> Killer<'w> {
    fn new(world: &'w World, seed: u64) -> Self {
        let met = PHASES.iter().map(|phase| (*phase, 0)).collect();
        let chance = seed.wrapping_mul(2).wrapping_add(1);
        let mut killer =
            Self { world, ear: Ear::new(), workers: BTreeMap::new(), steps: Steps::default(), met, kills: 0, chance };
        killer.hire();
        killer.hire();
        killer
    }

    fn hire(&mut self) {
        let worker = Worker::start(self.world, &self.ear);
        self.workers.insert(worker.pid(), worker);
    }

    /// Kills whichever worker is next in the middle of a step, some moments after it has begun.
    async fn kill_in(&mut self, phase: &'static str) {
        // What was said while nobody listened is over by now.
        while let Some((pid, said)) = self.ear.pending() {
            self.steps.note(pid, &said);
        }
        let begun = Said::Begins(phase.to_owned());
        let pid = loop {
            let (pid, said) = self.ear.next().await;
            self.steps.note(pid, &said);
            if said == begun && self.workers.contains_key(&pid) {
                break pid;
            }
        };
        std::thread::sleep(self.moment());
        let mut worker = self.workers.remove(&pid).unwrap();
        worker.kill();
        while self.ear.next_of(pid, &mut self.steps).await != Said::Gone {}
        self.kills += 1;
        if self.steps.is_in(pid, phase) {
            *self.met.get_mut(phase).unwrap() += 1;
        }
        self.hire();
    }

    /// Up to a millisecond, so that the beginning, the middle and the end of a transaction are all met.
    fn moment(&mut self) -> Duration {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros((self.chance >> 33) % 1000)
    }

    fn missing(&self) -> Option<&'static str> {
        PHASES.into_iter().find(|phase| self.met[phase] == 0)
    }
}

impl Ear {
    /// The next thing that one worker says; what the others say meanwhile is noted.
    async fn next_of(&mut self, one: u32, steps: &mut Steps) -> Said {
        loop {
            let (pid, said) = self.next().await;
            steps.note(pid, &said);
            if pid == one {
                return said;
            }
        }
    }
}

on_both_stores! {
    async fn c09_killing_workers_loses_nothing_and_runs_nothing_twice(world: &World) {
        let (kills, seed) = (asked("PUNCTUAL_CHAOS_KILLS", 20), asked("PUNCTUAL_CHAOS_SEED", 1));
        world.schedule_every_second(5).await;
        let producer = world.produce();
        let mut killer = Killer::new(world, seed);
        for (n, phase) in (0..kills).zip(PHASES.into_iter().cycle()) {
            killer.kill_in(phase).await;
            if (n + 1) % 20 == 0 {
                eprintln!("{} kills; in the middle of {:?}", killer.kills, killer.met);
            }
        }
        // A step may be over before the signal comes; whatever was not met is tried again.
        for _ in 0..20 {
            let Some(phase) = killer.missing() else { break };
            killer.kill_in(phase).await;
        }
        eprintln!("{} kills; in the middle of {:?}; seed {seed}", killer.kills, killer.met);
        assert_eq!(killer.missing(), None, "no kill met this step: {:?}", killer.met);

        let acknowledged = producer.stop().await;
        world.come_to_rest().await;
        world.until("SELECT count(*) FROM {leases}", |leases| leases == 2).await;
        world.check(&acknowledged).await;
        let cut = world.number("SELECT count(*) FROM {runs} WHERE error_code = 'node_lost'").await;
        assert!(cut > 0, "no kill met a running job, so nothing was shown");
        eprintln!("{} jobs acknowledged and kept, {cut} runs cut and told", acknowledged.len());
    }
}

on_both_stores! {
    /// Counted in looks of the one who lives, so that a slow machine makes no difference.
    async fn c09_what_a_killed_worker_held_is_handled_within_two_leases(world: &World) {
        world.store.enqueue_jobs((0..40).map(|_| NewJob::new(world.target())).collect()).await.unwrap();
        let mut ear = Ear::new();
        // It has the jobs to itself: the other one could be done with all of them first.
        let mut victim = Worker::start(world, &ear);
        loop {
            if ear.next().await == (victim.pid(), Said::Begins("run".to_owned())) {
                break;
            }
        }
        victim.kill();
        let survivor = Worker::start(world, &ear);
        let dead = victim.pid();
        while ear.next().await != (dead, Said::Gone) {}
        let mut looks = 0;
        loop {
            match ear.next().await {
                (pid, Said::Looked { lost }) if pid == survivor.pid() => {
                    looks += 1;
                    if lost > 0 {
                        break;
                    }
                }
                _ => assert!(looks <= 2 * LOOKS_PER_LEASE, "after {looks} looks the dead one is still believed alive"),
            }
        }
        assert!(looks <= 2 * LOOKS_PER_LEASE, "{looks} looks");
        let ended = Said::Ended("recover".to_owned());
        while ear.next().await != (survivor.pid(), ended.clone()) {}
        let orphans = "SELECT count(*) FROM {running} WHERE lease_id NOT IN (SELECT lease_id FROM {leases})";
        assert_eq!(world.number(orphans).await, 0, "nothing is running without a lease");
        assert_eq!(world.number("SELECT count(*) FROM {leases}").await, 1, "and the dead one has none");
        world.come_to_rest().await;
        assert!(world.number("SELECT count(*) FROM {runs} WHERE error_code = 'node_lost'").await > 0);
    }
}

on_both_stores! {
    /// A stopped worker is fenced. When it goes on it notices how late it is and stops its own work; one that believes
    /// in a longer lease than the others grant it does not notice, and everything it reports late is refused.
    async fn c09_a_worker_that_was_stopped_for_longer_than_its_lease_changes_nothing_any_more(world: &World) {
        stop_and_go_on(world, &Setup::default()).await;
        let trusting = Setup { lease: "60s", heartbeat: "10s", ..Setup::default() };
        let mut refused = 0;
        for round in 0.. {
            assert!(round < 20, "in {round} rounds only {refused} late reports were seen");
            refused += stop_and_go_on(world, &trusting).await;
            if refused >= 4 {
                break;
            }
        }
        eprintln!("{refused} late reports, all refused");
    }
}

/// One worker is stopped with jobs in its hands until another one has taken over, and goes on then. Says how many late
/// reports of it were refused.
async fn stop_and_go_on(world: &World, setup: &Setup) -> usize {
    let jobs: Vec<_> = (0..40).map(|_| NewJob::new(world.target())).collect();
    let made: BTreeSet<_> = world.store.enqueue_jobs(jobs).await.unwrap().into_iter().collect();
    let mut ear = Ear::new();
    let sleeper = Worker::start_as(&world.url, setup, &ear);
    let held = stop_between_two_writes(world, &sleeper).await;
    let other = Worker::start(world, &ear);
    world.come_to_rest().await;
    let record = world.record().await;
    sleeper.signal("-CONT");
    // It comes back under a new lease once it has noticed; only then has it had its chance to overwrite.
    world.until("SELECT count(*) FROM {leases}", |leases| leases == 2).await;
    assert_eq!(world.record().await, record, "what it reported late changed nothing");
    for id in held {
        let run = world.store.run(id).await.unwrap().unwrap();
        assert_eq!(
            (run.error_code, run.is_final),
            (Some(ErrorCode::NodeLost), false),
            "what it held was closed as lost"
        );
    }
    let states = world.all_jobs().await;
    assert!(made.iter().all(|id| states[id].is_terminal()));
    sleeper.signal("-TERM");
    other.signal("-TERM");
    world.until("SELECT count(*) FROM {leases}", |leases| leases == 0).await;
    let mut refused = 0;
    while let Some((_, said)) = ear.pending() {
        if let Said::Refused(reports) = said {
            refused += reports;
        }
    }
    refused
}

/// Stops a worker while it has jobs in its hands and is not in the middle of a write. Says which jobs it holds.
async fn stop_between_two_writes(world: &World, worker: &Worker) -> Vec<JobId> {
    loop {
        worker.stop();
        // Somebody who was stopped in the middle of a write cannot be looked past, not even by a reader.
        if world.nobody_writes().await {
            let running = world.running().await;
            if !running.is_empty() {
                return running;
            }
        }
        worker.signal("-CONT");
        let open = "SELECT (SELECT count(*) FROM {queue}) + (SELECT count(*) FROM {running})";
        assert!(world.number(open).await > 0, "all was done before it could be stopped");
    }
}
