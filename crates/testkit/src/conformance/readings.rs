//! Lists and figures: every list is complete, in order and without repetition, whatever the page size.

use crate::prelude::*;
use punctual_core::id::{JobId, NodeId};
use punctual_core::job::{JobState, NewJob};
use punctual_core::readings::{COUNT_MAX, Count, Ended, JobFilter, JobsIn, SCAN_MAX, ScheduleFilter};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::slot::{Decision, Reason};
use punctual_core::statistics::{ScheduleSamples, ScheduleStatistics, SlotTally};
use punctual_core::store::FinishedRun;
use punctual_core::target::Target;

impl World {
    /// All pages of a list of jobs.
    async fn listed(&self, filter: &JobFilter, page: usize) -> Vec<JobId> {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let listed = self.store().jobs_by(filter, before, page).await.unwrap();
            assert!(listed.items.len() <= page);
            found.extend(listed.items.iter().map(|view| view.job.id));
            match listed.next {
                Some(next) => before = Some(next),
                None => return found,
            }
        }
    }

    async fn in_state(&self, state: JobState) -> Vec<JobId> {
        self.listed(&JobFilter { place: JobsIn::State(state), ..JobFilter::default() }, 2).await
    }

    async fn names(&self, filter: &ScheduleFilter) -> Vec<String> {
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let listed = self.store().schedules_by(filter, after.as_deref(), 2).await.unwrap();
            found.extend(listed.items.iter().map(|schedule| schedule.definition.name.to_string()));
            match listed.next {
                Some(next) => after = Some(next),
                None => return found,
            }
        }
    }
}

fn newest_first(ids: &[JobId]) -> Vec<JobId> {
    ids.iter().rev().copied().collect()
}

pub async fn b10_jobs_made_at_the_same_instant_are_listed_once_each(world: &mut World) {
    let ids = world.enqueue_all(vec![job(); 25]).await;
    for page in [1, 2, 7, 25, 100] {
        assert_eq!(world.listed(&JobFilter::default(), page).await, newest_first(&ids), "pages of {page}");
    }
}

pub async fn b10_jobs_are_found_by_the_state_they_are_in(world: &mut World) {
    let lease = world.node("n").await;
    let names = ["completes", "fails", "is cancelled", "runs"];
    let ids = world.enqueue_all(names.iter().map(|_| NewJob { retry: no_retry(), ..job() }).collect()).await;
    assert_eq!(world.claim(lease, ALL).await.len(), 4);
    world.complete(lease, ids[0]).await;
    world.fail(lease, ids[1]).await;
    let queued = world.enqueue(job()).await;
    let cancelled = world.enqueue(job()).await;
    world.store().cancel_job(cancelled).await.unwrap();
    let later = world.enqueue(NewJob { run_at: Some(clock_time("10:00:00")), ..job() }).await;
    assert_eq!(world.in_state(JobState::Completed).await, [ids[0]]);
    assert_eq!(world.in_state(JobState::Failed).await, [ids[1]]);
    assert_eq!(world.in_state(JobState::Running).await, [ids[3], ids[2]]);
    assert_eq!(world.in_state(JobState::Queued).await, [queued]);
    assert_eq!(world.in_state(JobState::Cancelled).await, [cancelled]);
    assert_eq!(world.in_state(JobState::Scheduled).await, [later]);
    assert_eq!(world.in_state(JobState::Waiting).await, []);
    assert_eq!(world.in_state(JobState::Skipped).await, []);
    let ended = JobFilter { place: JobsIn::Ended, ..JobFilter::default() };
    assert_eq!(world.listed(&ended, 2).await, [cancelled, ids[1], ids[0]]);
}

pub async fn b10_jobs_are_found_by_what_they_are(world: &mut World) {
    let mine = NewJob { owner: Some("ada".into()), ..job() };
    let ids = world
        .enqueue_all(vec![
            job(),
            NewJob { queue: "mail".into(), ..job() },
            NewJob { tags: vec!["big".into(), "red".into()], ..job() },
            NewJob { target: Target::command(["true"]), ..job() },
            mine.clone(),
            NewJob { queue: "mail".into(), ..mine },
        ])
        .await;
    let with = |change: fn(&mut JobFilter)| {
        let mut filter = JobFilter::default();
        change(&mut filter);
        filter
    };
    for (filter, expected) in [
        (with(|f| f.queue = Some("mail".into())), vec![ids[5], ids[1]]),
        (with(|f| f.tag = Some("red".into())), vec![ids[2]]),
        (with(|f| f.tag = Some("re".into())), vec![]),
        (with(|f| f.job_type = Some("command".into())), vec![ids[3]]),
        (with(|f| f.owner = Some("ada".into())), vec![ids[5], ids[4]]),
        (with(|f| f.owner = Some("eve".into())), vec![]),
        (with(|f| (f.owner, f.queue) = (Some("ada".into()), Some("mail".into()))), vec![ids[5]]),
        (with(|f| f.place = JobsIn::State(JobState::Queued)), newest_first(&ids)),
        (with(|f| (f.place, f.owner) = (JobsIn::State(JobState::Failed), Some("ada".into()))), vec![]),
    ] {
        assert_eq!(world.listed(&filter, 1).await, expected, "{filter:?}");
    }
}

pub async fn b10_jobs_are_found_by_what_went_wrong(world: &mut World) {
    let lease = world.node("n").await;
    let mine = NewJob { owner: Some("ada".into()), retry: no_retry(), ..job() };
    let other = NewJob { retry: no_retry(), queue: "mail".into(), ..job() };
    let ids = world.enqueue_all(vec![mine.clone(), other.clone(), mine, other.clone(), other]).await;
    assert_eq!(world.claim(lease, ALL).await.len(), 5);
    for (id, code) in [(ids[0], ErrorCode::Timeout), (ids[1], ErrorCode::Timeout), (ids[2], ErrorCode::BadOutput)] {
        world.finish(lease, FinishedRun::failed(id, code, "no")).await;
    }
    world.complete(lease, ids[3]).await;
    let of = |code| JobFilter { error_code: Some(code), ..JobFilter::default() };
    let timeout = || of(ErrorCode::Timeout);
    let owner = Some("ada".to_owned());
    for (filter, expected) in [
        (timeout(), vec![ids[1], ids[0]]),
        (of(ErrorCode::BadOutput), vec![ids[2]]),
        (of(ErrorCode::NodeLost), vec![]),
        (JobFilter { place: JobsIn::Ended, ..timeout() }, vec![ids[1], ids[0]]),
        (JobFilter { place: JobsIn::State(JobState::Failed), ..timeout() }, vec![ids[1], ids[0]]),
        (JobFilter { place: JobsIn::State(JobState::Completed), ..timeout() }, vec![]),
        (JobFilter { owner: owner.clone(), ..timeout() }, vec![ids[0]]),
        (JobFilter { queue: Some("mail".into()), ..timeout() }, vec![ids[1]]),
        (JobFilter { owner, queue: Some("mail".into()), ..timeout() }, vec![]),
    ] {
        assert_eq!(world.listed(&filter, 1).await, expected, "{filter:?}");
    }
}

pub async fn b10_jobs_are_found_by_when_they_were_made(world: &mut World) {
    let first = world.enqueue(job()).await;
    let second_at = world.pass(secs(60));
    let second = world.enqueue(job()).await;
    let third_at = world.pass(secs(60));
    let third = world.enqueue(job()).await;
    let within = |since, until| JobFilter { since, until, ..JobFilter::default() };
    assert_eq!(world.listed(&within(Some(second_at), None), 9).await, [third, second]);
    assert_eq!(world.listed(&within(None, Some(second_at)), 9).await, [first]);
    assert_eq!(world.listed(&within(Some(second_at), Some(third_at)), 9).await, [second]);
}

pub async fn b10_a_schedules_jobs_are_found_and_so_are_its_owners(world: &mut World) {
    let owned = world.create(ScheduleDefinition { owner: Some("ada".into()), ..minutely("owned") }).await;
    world.create(minutely("other")).await;
    let by_hand = world.store().trigger_schedule(owned.id, ByHand::default()).await.unwrap();
    world.pass(mins(1));
    world.fire().await;
    let of_schedule = JobFilter { schedule_id: Some(owned.id), ..JobFilter::default() };
    let listed = world.listed(&of_schedule, 1).await;
    assert_eq!((listed.len(), listed[1]), (2, by_hand));
    let of_owner = JobFilter { owner: Some("ada".into()), ..JobFilter::default() };
    assert_eq!(world.listed(&of_owner, 5).await, listed);
    assert_eq!(world.job(by_hand).await.job.spec.owner.as_deref(), Some("ada"));
}

pub async fn a26_a_retry_belongs_to_whom_the_first_job_belonged(world: &mut World) {
    let lease = world.node("n").await;
    let owner = Some("ada".to_owned());
    let first = world.enqueue(NewJob { owner: owner.clone(), ..retried_job(2, SHORTEST_WAIT) }).await;
    world.claim(lease, 1).await;
    let retry = world.fail(lease, first).await.expect("it is tried again");
    assert_eq!(world.job(retry).await.job.spec.owner, owner);
}

pub async fn b10_a_rare_match_behind_many_others_is_found_page_by_page(world: &mut World) {
    let rare = world.enqueue(NewJob { tags: vec!["rare".into()], ..job() }).await;
    for _ in 0..6 {
        world.enqueue_all(vec![job(); SCAN_MAX / 5]).await;
    }
    let filter = JobFilter { tag: Some("rare".into()), ..JobFilter::default() };
    let first = world.store().jobs_by(&filter, None, 10).await.unwrap();
    assert!(first.items.is_empty(), "one call looks at so many rows and no more");
    let second = world.store().jobs_by(&filter, first.next, 10).await.unwrap();
    assert_eq!(second.items.iter().map(|view| view.job.id).collect::<Vec<_>>(), [rare]);
    assert_eq!(second.next, None);
}

pub async fn b10_new_jobs_and_ends_can_be_followed(world: &mut World) {
    let lease = world.node("n").await;
    let first = world.enqueue(job()).await;
    let ids = world.enqueue_all(vec![job(); 3]).await;
    let after: Vec<JobId> = world.store().jobs_after(first, 2).await.unwrap().iter().map(|view| view.job.id).collect();
    assert_eq!(after, ids[..2]);
    assert_eq!(world.claim(lease, ALL).await.len(), 4);
    world.complete(lease, ids[2]).await;
    let first_end = Ended { finished_at: world.closed_run(ids[2]).await.finished_at, job_id: ids[2] };
    world.pass(secs(1));
    world.complete(lease, first).await;
    world.complete(lease, ids[0]).await;
    let ended: Vec<JobId> =
        world.store().ended_after(first_end, ALL).await.unwrap().iter().map(|view| view.job.id).collect();
    assert_eq!(ended, [first, ids[0]], "in the order of their ends, ties by id");
    let none = Ended { finished_at: world.closed_run(ids[0]).await.finished_at, job_id: ids[0] };
    assert!(world.store().ended_after(none, ALL).await.unwrap().is_empty());
}

pub async fn b10_schedules_are_found_by_what_they_are(world: &mut World) {
    let labels = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
    let lease = world.node("n").await;
    world.create(ScheduleDefinition { labels: labels("team", "red"), ..minutely("a-red") }).await;
    world.create(ScheduleDefinition { labels: labels("team", "blue"), ..minutely("b-blue") }).await;
    let paused = world.create(ScheduleDefinition { owner: Some("ada".into()), ..minutely("c-paused") }).await;
    world.store().pause_schedule(paused.id, None, None).await.unwrap();
    let failing =
        world.create(ScheduleDefinition { queue: "mail".into(), retry: no_retry(), ..minutely("d-fails") }).await;
    let id = world.store().trigger_schedule(failing.id, ByHand::default()).await.unwrap();
    world.claim(lease, ALL).await;
    world.finish(lease, FinishedRun::failed(id, ErrorCode::TargetError, "no")).await;
    let gone = world.create(minutely("e-gone")).await;
    world.store().delete_schedule(gone.id).await.unwrap();
    let with = |change: fn(&mut ScheduleFilter)| {
        let mut filter = ScheduleFilter::default();
        change(&mut filter);
        filter
    };
    for (filter, expected) in [
        (with(|_| {}), vec!["a-red", "b-blue", "c-paused", "d-fails"]),
        (with(|f| f.label = Some(("team".into(), None))), vec!["a-red", "b-blue"]),
        (with(|f| f.label = Some(("team".into(), Some("blue".into())))), vec!["b-blue"]),
        (with(|f| f.label = Some(("te".into(), None))), vec![]),
        (with(|f| f.enabled = Some(false)), vec!["c-paused"]),
        (with(|f| f.enabled = Some(true)), vec!["a-red", "b-blue", "d-fails"]),
        (with(|f| f.owner = Some("ada".into())), vec!["c-paused"]),
        (with(|f| (f.owner, f.enabled) = (Some("ada".into()), Some(true))), vec![]),
        (with(|f| f.failing = Some(true)), vec!["d-fails"]),
        (with(|f| f.failing = Some(false)), vec!["a-red", "b-blue", "c-paused"]),
        (with(|f| f.text = Some("-b".into())), vec!["b-blue"]),
        (with(|f| f.text = Some("%".into())), vec![]),
        (with(|f| f.queue = Some("mail".into())), vec!["d-fails"]),
    ] {
        assert_eq!(world.names(&filter).await, expected, "{filter:?}");
    }
}

pub async fn d04_the_schedules_that_are_due_next_come_first(world: &mut World) {
    world.create(hourly("hour")).await;
    world.create(ScheduleDefinition { owner: Some("ada".into()), ..minutely("minute") }).await;
    let paused = world.create(minutely("paused")).await;
    world.store().pause_schedule(paused.id, None, None).await.unwrap();
    let names = |schedules: Vec<punctual_core::schedule::Schedule>| -> Vec<String> {
        schedules.iter().map(|schedule| schedule.definition.name.to_string()).collect()
    };
    assert_eq!(names(world.store().next_schedules(None, 9).await.unwrap()), ["minute", "hour"]);
    assert_eq!(names(world.store().next_schedules(None, 1).await.unwrap()), ["minute"]);
    assert_eq!(names(world.store().next_schedules(Some("ada"), 9).await.unwrap()), ["minute"]);
}

pub async fn b10_queues_show_what_waits_and_what_runs(world: &mut World) {
    let lease = world.node("n").await;
    let began = world.enqueue(job()).await;
    assert_eq!(world.claim(lease, 1).await, [began]);
    let oldest = world.pass(secs(5));
    world.enqueue(NewJob { priority: -5, ..job() }).await;
    world.enqueue(serial_job("k")).await;
    world.pass(secs(5));
    world.enqueue(serial_job("k")).await;
    world.store().set_queue_paused("mail", true).await.unwrap();
    let held = world.store().reserve_queue("zoo", "ada", secs(60)).await.unwrap();
    let queues = world.store().queues(None, ALL).await.unwrap();
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["default", "mail", "zoo"]);
    let exactly = |value| Count { value, more: false };
    assert_eq!((queues[0].depth, queues[0].running), (exactly(3), exactly(1)));
    assert_eq!(queues[0].oldest_queued_at, Some(oldest));
    assert_eq!((queues[1].depth, queues[1].oldest_queued_at, queues[1].paused), (exactly(0), None, true));
    assert_eq!(queues[2].reservation, Some(held.clone()));
    assert_eq!(world.store().queues(Some("default"), 1).await.unwrap(), queues[1..2]);
    assert_eq!(world.store().queue("zoo").await.unwrap(), Some(queues[2].clone()));
    assert_eq!(world.store().queue("nowhere").await.unwrap(), None);
    assert_eq!(world.store().reservation_by_id(held.id).await.unwrap(), Some(held.clone()));
    world.pass(secs(61));
    assert_eq!(world.store().reservation_by_id(held.id).await.unwrap(), None);
    assert_eq!(world.store().queue("zoo").await.unwrap().unwrap().reservation, None);
}

pub async fn b10_counting_stops_at_a_bound(world: &mut World) {
    let many = usize::try_from(COUNT_MAX).unwrap();
    for _ in 0..4 {
        world.enqueue_all(vec![job(); many / 4]).await;
    }
    let depth = |world: &World| {
        let store = world.store();
        async move { store.queue("default").await.unwrap().unwrap().depth }
    };
    assert_eq!(depth(world).await, Count { value: COUNT_MAX, more: false });
    world.enqueue(job()).await;
    assert_eq!(depth(world).await, Count { value: COUNT_MAX, more: true });
    let stats = world.store().stats(clock_time("00:00:00")).await.unwrap();
    assert_eq!(stats.queued, Count { value: COUNT_MAX, more: true });
}

pub async fn b10_nodes_show_what_they_offer_and_run(world: &mut World) {
    let gone = world.node("gone").await;
    world.store().leave_if_leased(gone).await.unwrap();
    world.pass(secs(1));
    let here = world.node("here").await;
    world.enqueue(job()).await;
    world.claim(here, 1).await;
    world.store().heartbeat_if_leased(here).await.unwrap();
    let alive = world.store().nodes(true, None, ALL).await.unwrap();
    assert_eq!(alive.len(), 1);
    assert_eq!((alive[0].id, alive[0].running.value, alive[0].heartbeats), (here.node_id, 1, Some(1)));
    assert!(alive[0].offers.iter().any(|offer| offer == WORK));
    let all: Vec<NodeId> = world.store().nodes(false, None, ALL).await.unwrap().iter().map(|node| node.id).collect();
    assert_eq!(all, [here.node_id, gone.node_id]);
    let rest = world.store().nodes(false, Some(here.node_id), ALL).await.unwrap();
    assert_eq!((rest.len(), rest[0].left_at.is_some(), rest[0].heartbeats), (1, true, None));
}

pub async fn d09_templates_are_listed_by_name(world: &mut World) {
    for name in ["b", "a", "c"] {
        world.store().create_template(named(name), job(), vec![]).await.unwrap();
    }
    let names = |templates: Vec<punctual_core::store::Template>| -> Vec<String> {
        templates.iter().map(|template| template.name.to_string()).collect()
    };
    assert_eq!(names(world.store().templates(None, 2).await.unwrap()), ["a", "b"]);
    assert_eq!(names(world.store().templates(Some("b"), 2).await.unwrap()), ["c"]);
}

pub async fn b10_figures_say_what_there_is(world: &mut World) {
    let lease = world.node("n").await;
    world.create(minutely("a")).await;
    let paused = world.create(minutely("b")).await;
    world.store().pause_schedule(paused.id, None, None).await.unwrap();
    let gone = world.create(minutely("c")).await;
    world.store().delete_schedule(gone.id).await.unwrap();
    let ids = world.enqueue_all(vec![NewJob { retry: no_retry(), ..job() }; 4]).await;
    world.enqueue(NewJob { run_at: Some(clock_time("20:00:00")), ..job() }).await;
    world.claim(lease, 3).await;
    world.complete(lease, ids[0]).await;
    let since = world.pass(mins(5));
    world.fail(lease, ids[1]).await;
    let stats = world.store().stats(since).await.unwrap();
    assert_eq!((stats.queued.value, stats.running.value), (1, 1));
    assert_eq!((stats.scheduled.value, stats.waiting.value), (1, 0));
    assert_eq!((stats.schedules.value, stats.paused, stats.failing, stats.with_problem), (2, 1, 0, 0));
    assert_eq!((stats.nodes, stats.more_ended), (1, false));
    assert_eq!(stats.notices.value, 1, "of what failed");
    assert_eq!(stats.ended.into_iter().collect::<Vec<_>>(), [(Outcome::Failed, 1)]);
}

/// A schedule every minute: three slots fire, the last one late; one run fails once and then succeeds, one is never run.
pub async fn d12_the_samples_of_a_schedule_say_who_ran_what_when(world: &mut World) {
    let definition = ScheduleDefinition { retry: retry(2, SHORTEST_WAIT), ..minutely("counted") };
    let schedule = world.create(definition).await;
    let (a, b) = (world.node("a").await, world.node("b").await);
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    world.pass(secs(2));
    assert_eq!(world.claim_one(a).await, first);
    world.pass(secs(3));
    let again = world.fail_and_requeue(a, first).await;
    assert_eq!(world.claim_one(b).await, again);
    world.pass(secs(1));
    world.complete(b, again).await;
    world.set_time("00:02:07");
    let second = world.fire_one().await;
    assert_eq!(world.claim_one(a).await, second);
    world.complete(a, second).await;
    world.set_time("00:03:00");
    let third = world.fire_one().await;
    world.store().cancel_job(third).await.expect("it is cancelled");

    let since = clock_time("00:00:00");
    let samples = world.store().schedule_samples(schedule.id, since).await.expect("samples");
    let ids: Vec<_> = samples.runs.iter().map(|run| run.job_id).collect();
    assert_eq!((ids, samples.more), (vec![third, second, again, first], false), "latest made first");
    let stored = world.schedule(schedule.id).await;
    let figures = ScheduleStatistics::of(&stored, samples.clone(), since, world.clock_now());
    let counts = [Outcome::Completed, Outcome::Failed, Outcome::Cancelled].map(|outcome| figures.outcomes[&outcome]);
    assert_eq!(counts, [2, 1, 1]);
    assert_eq!(figures.success.last().map(|all| (all.completed, all.failed)), Some((2, 0)), "the retry went well");
    let lateness = figures.lateness.expect("two slots were run");
    assert_eq!((lateness.p50, lateness.max, lateness.count), (secs(2), secs(7), 2), "without the retry");
    let duration = figures.duration.expect("three ran");
    assert_eq!((duration.p50, duration.p95, duration.count), (secs(1), secs(3), 3));
    assert_eq!(figures.claim_latency.map(|latency| latency.max), Some(secs(2)));
    let nodes: Vec<_> = figures.nodes.iter().map(|share| (share.node_id, share.runs)).collect();
    assert_eq!(nodes, [(a.node_id, 2), (b.node_id, 1)]);
    assert_eq!(figures.nodes[0].last_claimed_at, clock_time("00:02:07"));
    let slots = [SlotTally { decision: Decision::Fired, reason: Reason::OnTime, slots: 3 }];
    assert_eq!(samples.slots, slots);

    let later = world.store().schedule_samples(schedule.id, clock_time("00:02:30")).await.expect("samples");
    assert_eq!((later.runs.len(), later.slots[0].slots), (1, 1), "since an instant");
    let nobody = world.store().schedule_samples(nobody().into(), since).await;
    assert_eq!(nobody, Ok(ScheduleSamples::default()));
}
