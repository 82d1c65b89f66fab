//! The history is the same for the same seed, and holds what the demo promises to show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use punctual_core::checks::Severity;
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::job::{JobState, JobView};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::Schedule;
use punctual_core::slot::{Decision, Reason};
use punctual_core::store::Store;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

use super::super::cast::{FAILING, OVERDUE, PAUSED, PAUSED_QUEUE};
use super::super::script::World;
use super::super::stage;

/// A Thursday afternoon, far from any change of clocks.
const PRESENT: &str = "2026-06-18T15:42:10Z";

/// A store with a history, read back.
struct Seeded {
    world: World,
    store: Arc<dyn Store>,
    schedules: BTreeMap<ScheduleId, Schedule>,
    jobs: Vec<JobView>,
    _folder: TempDir,
}

impl Seeded {
    async fn new(present: &str, seed: u64) -> Seeded {
        let world = World::ending_at(present.parse().unwrap(), seed);
        let folder = tempfile::tempdir().unwrap();
        let runs = stage::set(folder.path(), &world).await.unwrap();
        let file = folder.path().join("punctual.db");
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&file, SqliteOptions::default()).unwrap());
        let schedules = store.schedules(None, 100).await.unwrap().into_iter().map(|it| (it.id, it)).collect();
        let mut jobs: Vec<JobView> = Vec::new();
        loop {
            let after = jobs.last().map_or(JobId::from_bytes([0; 16]), |view| view.job.id);
            let page = store.jobs_after(after, 500).await.unwrap();
            if page.is_empty() {
                break;
            }
            jobs.extend(page);
        }
        let ended = jobs.iter().filter_map(JobView::run).filter(|run| run.started_at.is_some());
        let ended = ended.filter(|run| run.error_code != Some(ErrorCode::NodeLost)).count();
        assert_eq!(u64::try_from(ended).unwrap(), runs);
        Seeded { world, store, schedules, jobs, _folder: folder }
    }

    fn name(&self, id: Option<ScheduleId>) -> &str {
        id.and_then(|id| self.schedules.get(&id)).map_or("-", |it| it.definition.name.as_str())
    }

    fn named(&self, name: &str) -> &Schedule {
        self.schedules.values().find(|it| it.definition.name.as_str() == name).unwrap()
    }

    /// The jobs of one schedule, earliest first.
    fn jobs_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a JobView> {
        self.jobs.iter().filter(move |view| self.name(view.job.schedule_id) == name)
    }

    /// Everything that happened, without ids and with times counted from the beginning.
    async fn told(&self) -> Vec<String> {
        let since = |at: Timestamp| at.duration_since(self.world.origin).as_micros();
        let mut told: Vec<_> = self.jobs.iter().map(|view| self.told_of(view)).collect();
        for schedule in self.schedules.values() {
            for slot in self.store.slots(schedule.id, None, 5000).await.unwrap() {
                let (name, at, by) = (&schedule.definition.name, since(slot.slot_at), since(slot.decided_at));
                told.push(format!("{name} {at} x{} {} {} {by}", slot.count, slot.decision, slot.reason));
            }
        }
        for view in self.jobs.iter().step_by(50) {
            for line in self.store.run_log(view.job.id, 0, 100).await.unwrap() {
                told.push(format!("{} {} {}", since(line.at), line.stream, line.text));
            }
        }
        told
    }

    fn told_of(&self, view: &JobView) -> String {
        let since = |at: Timestamp| at.duration_since(self.world.origin).as_micros();
        let (job, spec) = (&view.job, &view.job.spec);
        let end = view.run().map(|run| {
            let error = run.error.as_deref().unwrap_or("");
            let output = run.output.as_ref().map_or("", |output| output.as_str());
            format!("{:?} {} {error} {output}", run.started_at.map(since), since(run.finished_at))
        });
        format!(
            "{} {} {} p{} {} {} {} slot {:?} made {} attempt {} {}: {}",
            self.name(job.schedule_id),
            spec.target.job_type(),
            spec.queue,
            spec.priority,
            spec.trigger,
            spec.serial_key.as_ref().filter(|_| job.schedule_id.is_none()).map_or("", String::as_str),
            spec.input.as_str(),
            job.slot_at.map(since),
            since(job.created_at),
            job.attempt,
            view.state(),
            end.unwrap_or_default()
        )
    }
}

#[tokio::test]
async fn the_same_seed_gives_the_same_history_on_any_day_and_another_gives_another() {
    let first = Seeded::new(PRESENT, 1).await.told().await;
    let a_week_later = Seeded::new("2026-06-25T15:42:10Z", 1).await.told().await;
    assert!(first.len() > 5000, "{} things happened", first.len());
    for (one, other) in first.iter().zip(&a_week_later) {
        assert_eq!(one, other);
    }
    assert_eq!(first.len(), a_week_later.len());
    let other = Seeded::new(PRESENT, 2).await.told().await;
    let same = first.iter().filter(|told| other.contains(told)).count();
    assert!(same < first.len() / 2, "{same} of {} things happened with another seed as well", first.len());
}

#[tokio::test]
async fn a05_the_history_holds_one_of_each_thing_worth_seeing_and_every_check_passes() {
    // In the afternoon, and at the midnight of a week in which the clocks changed.
    for (present, seed) in [(PRESENT, 1), ("2026-03-31T00:00:00Z", 5)] {
        let seeded = Seeded::new(present, seed).await;
        shows_what_needs_somebody(&seeded).await;
        shows_every_end(&seeded);
        shows_every_reason(&seeded).await;
        let findings = seeded.store.run_checks(10).await.unwrap();
        assert!(findings.iter().all(|finding| finding.check.severity() < Severity::Broken), "{findings:?}");
    }
}

async fn shows_what_needs_somebody(seeded: &Seeded) {
    let present = seeded.world.present;
    assert_eq!(seeded.schedules.len(), 13);
    assert_eq!(seeded.store.queues(None, 100).await.unwrap().len(), 6);

    // A group of failures that share one error, and what depends on them is skipped.
    let failing = seeded.named(FAILING);
    assert!(failing.results.consecutive_failures > 5);
    let errors: BTreeSet<_> = seeded
        .jobs_of(FAILING)
        .filter(|view| view.job.created_at > present - SignedDuration::from_hours(5))
        .filter_map(|view| view.run()?.error.clone())
        .collect();
    assert_eq!(errors.len(), 1, "{errors:?}");

    // Overdue, with a job that waits for a node that could run it.
    let overdue = seeded.named(OVERDUE);
    assert!(overdue.state.no_executor_since.is_some() && overdue.state.next_slot_at.unwrap() < present);
    let waiting: Vec<_> = seeded.jobs_of(OVERDUE).filter(|view| view.state() == JobState::Queued).collect();
    assert_eq!(waiting.len(), 1);

    // Ever slower.
    let took: Vec<_> = seeded.jobs_of("search-reindex").filter_map(JobView::run).filter_map(duration).collect();
    let (first, last) = (took.first().unwrap(), took.last().unwrap());
    assert!(last.as_secs() > 3 * first.as_secs(), "{first:?} {last:?}");

    // Paused: a schedule with a note, and a queue with what waits in it.
    let pause = seeded.named(PAUSED).state.pause.clone().unwrap();
    assert!(pause.by.is_some() && pause.note.is_some());
    let queue = seeded.store.queue(PAUSED_QUEUE).await.unwrap().unwrap();
    assert!(queue.paused && queue.depth.value >= 40);
}

fn shows_every_end(seeded: &Seeded) {
    let states: BTreeSet<_> = seeded.jobs.iter().map(JobView::state).collect();
    let expected = [JobState::Scheduled, JobState::Queued, JobState::Completed, JobState::Failed, JobState::Cancelled];
    assert!(expected.iter().all(|state| states.contains(state)), "{states:?}");
    assert!(!states.contains(&JobState::Running), "nobody is there to run it");
    assert!(seeded.jobs.iter().any(|view| view.run().is_some_and(|run| run.error_code == Some(ErrorCode::NodeLost))));
    assert!(seeded.jobs.iter().any(|view| view.job.attempt == 2 && view.state() == JobState::Completed));
    let stopped =
        |view: &JobView| view.run().is_some_and(|run| run.outcome == Outcome::Cancelled && run.started_at.is_some());
    assert_eq!(seeded.jobs.iter().filter(|view| stopped(view)).count(), 1);
}

fn duration(run: &punctual_core::job::Run) -> Option<SignedDuration> {
    (run.outcome == Outcome::Completed).then_some(run.finished_at.duration_since(run.started_at?))
}

/// The ledger says why each slot did not run.
async fn shows_every_reason(seeded: &Seeded) {
    let mut reasons = BTreeSet::new();
    for schedule in seeded.schedules.values() {
        for slot in seeded.store.slots(schedule.id, None, 5000).await.unwrap() {
            assert_eq!(slot.decision == Decision::Fired, slot.job_id.is_some());
            assert!(slot.late_ms < 1000 || slot.reason != Reason::OnTime, "{slot:?}");
            reasons.insert(slot.reason);
        }
    }
    let expected = [
        Reason::OnTime,
        Reason::Catchup,
        Reason::Overlap,
        Reason::Dependency,
        Reason::Paused,
        Reason::Rescheduled,
        Reason::TooLate,
        Reason::Superseded,
    ];
    assert!(expected.iter().all(|reason| reasons.contains(reason)), "{reasons:?}");
}
