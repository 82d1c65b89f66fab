//! Policies with real processes: a run that will not stop is replaced, and a backfill outlives those who make it.

use crate::process::{Ear, Said, Worker};
use crate::world::{World, on_both_stores};
use jiff::{SignedDuration, Timestamp};
use punctual_core::backfill::{Backfill, NewBackfill};
use punctual_core::id::{BackfillId, JobId};
use punctual_core::name::Name;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::{Overlap, Schedule, ScheduleDefinition};
use punctual_core::target::{Http, Target};
use punctual_core::timing::TimingSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(20);

async fn create(world: &World, name: &str, timing: TimingSpec, overlap: Overlap, target: Target) -> Schedule {
    let definition = ScheduleDefinition::new(Name::new(name).unwrap(), timing, target);
    let retry = RetryPolicy::default();
    world.store.create_schedule(ScheduleDefinition { overlap, retry, ..definition }).await.unwrap()
}

/// Says twenty times a second that it lives, and does not listen to SIGTERM.
const STUBBORN: &str =
    "trap '' TERM; while :; do echo \"$PUNCTUAL_JOB_ID $(date +%s%N)\" >> \"$EFFECTS\"; sleep 0.05; done";

/// When each job was alive, by its own words: the first and the last time it said so, in the order of their beginnings.
fn lives(world: &World) -> Vec<(JobId, i128, i128)> {
    let mut lives: BTreeMap<JobId, (i128, i128)> = BTreeMap::new();
    for line in world.lines() {
        // The last line may be half written.
        let Some((id, at)) = line.split_once(' ') else { continue };
        let (Ok(id), Ok(at)) = (id.parse(), at.parse()) else { continue };
        let life = lives.entry(id).or_insert((at, at));
        life.1 = at;
    }
    let mut lives: Vec<_> = lives.into_iter().map(|(id, (from, to))| (id, from, to)).collect();
    lives.sort_unstable_by_key(|life| life.1);
    lives
}

/// Lets a slot of the schedule come soon, and waits until its job says that it lives.
async fn next_run(world: &World, schedule: &Schedule, known: usize) {
    let at = world.store.now().await.unwrap() + SignedDuration::from_millis(150);
    world.store.reschedule(schedule.id, at).await.unwrap();
    while lives(world).len() <= known {
        tokio::time::sleep(MOMENT).await;
    }
}

on_both_stores! {
    async fn a21_a_run_that_ignores_sigterm_is_replaced_without_gap_or_overlap(world: &World) {
        let ear = Ear::new();
        let _worker = Worker::start_with(world, &ear, &[("PUNCTUAL_STOP_GRACE", "1s")]);
        let yearly = TimingSpec::cron("0 0 1 1 *", "UTC");
        let schedule = create(world, "stubborn", yearly, Overlap::Replace, world.script(STUBBORN)).await;
        for known in 0..3 {
            next_run(world, &schedule, known).await;
        }
        world.store.pause_schedule(schedule.id, None, None).await.unwrap();
        let last = lives(world)[2].0;
        world.store.cancel_job(last).await.unwrap();
        world.until_open(0).await;

        let lives = lives(world);
        assert_eq!(lives.len(), 3);
        let mut runs = Vec::new();
        for (id, ..) in &lives {
            runs.push(world.store.run(*id).await.unwrap().unwrap());
        }
        for (n, pair) in lives.windows(2).enumerate() {
            let ([old, new], [old_run, new_run]) = (pair, &runs[n..n + 2]) else { panic!("two of each") };
            assert!(old.2 < new.1, "the old one was alive after the new one had begun: {pair:?}");
            assert_eq!((old_run.outcome, old_run.error_code), (Outcome::Cancelled, Some(ErrorCode::Replaced)));
            // The new one was there, waiting, when the old one ended, and went first.
            let waited = world.store.job(new.0).await.unwrap().unwrap().job.created_at;
            let began = new_run.started_at.unwrap();
            assert!(waited < old_run.finished_at && old_run.finished_at <= began, "{waited} {old_run:?} {new_run:?}");
            let gap = began.duration_since(old_run.finished_at);
            assert!(gap < SignedDuration::from_secs(10), "it began {gap} later");
            let alive_for = Duration::from_nanos(u64::try_from(old.2 - old.1).unwrap());
            assert!(alive_for >= Duration::from_millis(700), "it had its grace: {alive_for:?}");
        }
        let slots = world.store.slots(schedule.id, None, 10).await.unwrap();
        assert_eq!(slots.iter().filter(|slot| slot.job_id.is_some()).count(), 3, "each slot has one job");
    }
}

const SLOTS: i64 = 1000;

/// A web server that notes for which job and slot it was called, on a thread of its own: a thousand calls are made sooner
/// than a thousand processes.
struct Counter {
    address: String,
    calls: Arc<Mutex<Vec<(String, String)>>>,
}

impl Counter {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&calls);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut bytes = [0; 4096];
                let read = stream.read(&mut bytes).unwrap_or(0);
                let said = String::from_utf8_lossy(&bytes[..read]).into_owned();
                let path = said.split(' ').nth(1).unwrap_or_default();
                if let Some((job, slot)) = path.trim_start_matches('/').split_once('/') {
                    noted.lock().unwrap().push((job.to_owned(), slot.to_owned()));
                }
                let _gone = stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        Self { address, calls }
    }

    fn target(&self) -> Target {
        Target::from(Http::new("POST", format!("http://{}/{{{{ job.id }}}}/{{{{ job.slot_at }}}}", self.address)))
    }

    fn calls(&self) -> Vec<(String, String)> {
        self.calls.lock().unwrap().clone()
    }
}

async fn state_of(world: &World, id: BackfillId) -> Backfill {
    world.store.backfill(id).await.unwrap().unwrap()
}

async fn until_ended(world: &World, id: BackfillId) -> Backfill {
    loop {
        let backfill = state_of(world, id).await;
        if backfill.ended_at.is_some() {
            return backfill;
        }
        tokio::time::sleep(MOMENT).await;
    }
}

/// A worker that begins a step of the backfill, and is killed while it is about it.
async fn kill_in_a_step(world: &World, ear: &mut Ear, id: BackfillId, at_least: u64) {
    let mut worker = Worker::start_with(world, ear, &[("PUNCTUAL_HTTP_ALLOW", "127.0.0.1")]);
    let step = Said::Begins("backfill".to_owned());
    loop {
        let (pid, said) = ear.next().await;
        if pid == worker.pid() && said == step && state_of(world, id).await.made >= at_least {
            break;
        }
    }
    worker.kill();
}

on_both_stores! {
    async fn a22_a_backfill_of_a_thousand_slots_survives_kill_9_with_exactly_a_thousand(world: &World) {
        let counter = Counter::start();
        let every = TimingSpec::cron("* * * * *", "UTC");
        let schedule = create(world, "filled", every, Overlap::Allow, counter.target()).await;
        world.store.pause_schedule(schedule.id, None, None).await.unwrap();
        let now = Timestamp::from_second(world.store.now().await.unwrap().as_second() / 60 * 60).unwrap();
        let until = now - SignedDuration::from_mins(5);
        let asked = NewBackfill {
            schedule_id: schedule.id,
            from: until - SignedDuration::from_mins(SLOTS),
            until,
            priority: None,
            // So slow that it is met in the middle, however slow the machine is.
            per_minute: Some(600),
            by: None,
        };
        let preview = world.store.preview_backfill(&asked).await.unwrap();
        assert_eq!((preview.slots, preview.gaps), (1000, 1000));
        let begun = world.store.create_backfill(asked.clone()).await.unwrap();

        let mut ear = Ear::new();
        for at_least in [1, 4, 8] {
            kill_in_a_step(world, &mut ear, begun.id, at_least).await;
        }
        let so_far = state_of(world, begun.id).await.made;
        assert!((8..1000).contains(&so_far), "it was killed on its way: {so_far}");
        // The rest as fast as it goes, with a kill in one of the large steps.
        let (faster, at_once) = ("UPDATE {backfills} SET per_minute = NULL", "again_at");
        world.execute(&format!("{faster}, {at_once} = 0"), &format!("{faster}, {at_once} = 'epoch'")).await;
        kill_in_a_step(world, &mut ear, begun.id, 0).await;
        let _worker = Worker::start_with(world, &ear, &[("PUNCTUAL_HTTP_ALLOW", "127.0.0.1")]);
        let done = until_ended(world, begun.id).await;
        assert_eq!((done.made, done.passed, done.cancelled), (1000, 0, false));
        world.until_open(0).await;

        let slots = "SELECT count(DISTINCT slot_at) FROM {jobs}";
        let roots = "SELECT count(*) FROM {jobs} WHERE retry_of IS NULL";
        let completed = "SELECT count(*) FROM {runs} WHERE outcome = 'completed'";
        let succeeded = "SELECT count(DISTINCT j.slot_at) FROM {jobs} AS j JOIN {runs} AS r ON r.job_id = j.id
                         WHERE r.outcome = 'completed'";
        for question in [slots, roots, completed, succeeded] {
            assert_eq!(world.number(question).await, SLOTS, "{question}");
        }
        let calls = counter.calls();
        let jobs: BTreeSet<_> = calls.iter().map(|call| &call.0).collect();
        assert_eq!(jobs.len(), calls.len(), "a job is executed at most once");
        let filled: BTreeSet<_> = calls.iter().map(|call| &call.1).collect();
        assert_eq!(filled.len(), 1000, "each slot was worked for");

        // The same again does nothing.
        assert_eq!(world.store.preview_backfill(&asked).await.unwrap().gaps, 0);
        let again = world.store.create_backfill(NewBackfill { per_minute: None, ..asked }).await.unwrap();
        let again = until_ended(world, again.id).await;
        assert_eq!((again.made, again.passed), (0, 1000));
        assert_eq!(world.number(roots).await, SLOTS);
        assert_eq!(world.store.run_checks(100).await.unwrap(), []);
    }
}
