//! Policies with real processes: a run that will not stop is replaced, and a backfill outlives those who make it.

use crate::process::{Ear, Said, Worker};
use crate::world::{World, on_both_stores};
use jiff::{SignedDuration, Timestamp};
use punctual_core::backfill::NewBackfill;
use punctual_core::id::{BackfillId, JobId};
use punctual_core::job::JobState;
use punctual_core::name::Name;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::{Overlap, Schedule, ScheduleDefinition};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(20);

async fn create(world: &World, name: &str, timing: TimingSpec, overlap: Overlap, target: Target) -> Schedule {
    let definition = ScheduleDefinition::new(Name::new(name).unwrap(), timing, target);
    let retry = RetryPolicy::default();
    world.store.create_schedule(ScheduleDefinition { overlap, retry, ..definition }).await.unwrap()
}

/// Says twenty times a second that it lives, and does not listen to SIGTERM.
const STUBBORN: &str = "trap '' TERM; while :; do echo \"$PUNCTUAL_JOB_ID $(date +%s%N)\" >> \"$EFFECTS\"; sleep 0.05; done";

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

async fn made(world: &World, id: BackfillId) -> u64 {
    world.store.backfill(id).await.unwrap().unwrap().made
}

on_both_stores! {
    /// Killed three times while it makes its jobs, in the middle of a step as far as one can tell.
    async fn a22_a_backfill_of_a_thousand_slots_survives_kill_9_with_exactly_a_thousand(world: &World) {
        let every = TimingSpec::cron("* * * * *", "UTC");
        let script = world.script("echo \"$PUNCTUAL_JOB_ID $PUNCTUAL_SLOT\" >> \"$EFFECTS\"");
        let schedule = create(world, "filled", every, Overlap::Allow, script).await;
        world.store.pause_schedule(schedule.id, None, None).await.unwrap();
        let now = Timestamp::from_second(world.store.now().await.unwrap().as_second() / 60 * 60).unwrap();
        let until = now - SignedDuration::from_mins(5);
        let asked = NewBackfill {
            schedule_id: schedule.id,
            from: until - SignedDuration::from_mins(SLOTS),
            until,
            priority: None,
            // Slow enough to be met in the middle.
            per_minute: Some(15_000),
            by: None,
        };
        let preview = world.store.preview_backfill(&asked).await.unwrap();
        assert_eq!((preview.slots, preview.gaps), (1000, 1000));
        let begun = world.store.create_backfill(asked.clone()).await.unwrap();

        let mut ear = Ear::new();
        let step = Said::Begins("backfill".to_owned());
        for at_least in [1, 300, 600] {
            let mut worker = Worker::start(world, &ear);
            loop {
                let (pid, said) = ear.next().await;
                if pid == worker.pid() && said == step && made(world, begun.id).await >= at_least {
                    break;
                }
            }
            worker.kill();
        }
        let so_far = made(world, begun.id).await;
        assert!(so_far < 1000, "it was killed before its end");
        let _worker = Worker::start(world, &ear);
        while world.store.backfill(begun.id).await.unwrap().unwrap().ended_at.is_none() {
            tokio::time::sleep(MOMENT).await;
        }
        world.until_open(0).await;

        let done = world.store.backfill(begun.id).await.unwrap().unwrap();
        assert_eq!((done.made, done.passed, done.cancelled), (1000, 0, false));
        let slots = "SELECT count(DISTINCT slot_at) FROM {jobs}";
        let roots = "SELECT count(*) FROM {jobs} WHERE retry_of IS NULL";
        let completed = "SELECT count(*) FROM {runs} WHERE outcome = 'completed'";
        let succeeded = "SELECT count(DISTINCT j.slot_at) FROM {jobs} AS j JOIN {runs} AS r ON r.job_id = j.id
                         WHERE r.outcome = 'completed'";
        for question in [slots, roots, completed, succeeded] {
            assert_eq!(world.number(question).await, SLOTS, "{question}");
        }
        let twice: Vec<_> = world.effects().into_iter().filter(|(_, times)| *times > 1).collect();
        assert_eq!(twice, [], "a job is executed at most once");
        let filled: BTreeSet<_> = world.lines().iter().filter_map(|line| Some(line.split_once(' ')?.1.to_owned())).collect();
        assert_eq!(filled.len(), 1000, "each slot had its effect");
        assert!(world.all_jobs().await.values().all(|state| matches!(state, JobState::Completed | JobState::Failed)));

        // The same again does nothing.
        assert_eq!(world.store.preview_backfill(&asked).await.unwrap().gaps, 0);
        let again = world.store.create_backfill(asked).await.unwrap();
        while world.store.backfill(again.id).await.unwrap().unwrap().ended_at.is_none() {
            tokio::time::sleep(MOMENT).await;
        }
        let again = world.store.backfill(again.id).await.unwrap().unwrap();
        assert_eq!((again.made, again.passed), (0, 1000));
        assert_eq!(world.number(roots).await, SLOTS);
        assert_eq!(world.store.run_checks(100).await.unwrap(), []);
    }
}
