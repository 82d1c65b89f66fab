//! Limits: they hold exactly, whatever is claimed, given back, retried or lost, and nobody waits longer than he must.

use super::flows::{complete_with, graph, names, step, take};
use crate::prelude::*;
use crate::sim::chance::Chance;
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::JobId;
use punctual_core::job::NewJob;
use punctual_core::limits::{Limit, LimitRow, LimitSubject, Rate};
use punctual_core::run::Outcome;
use punctual_core::store::{ClaimRequest, Lease};
use punctual_core::target::Target;
use std::collections::BTreeMap;
use std::sync::Arc;

fn on(subject: &str) -> Limit {
    Limit::on(subject.parse().expect("a subject"))
}

fn at_once(subject: &str, jobs: u32) -> Limit {
    Limit { concurrency: Some(jobs), ..on(subject) }
}

fn rate(subject: &str, jobs: u32, per: SignedDuration, burst: u32) -> Limit {
    Limit { rate: Some(Rate { jobs, per, burst }), ..on(subject) }
}

fn tagged(tags: &[&str]) -> NewJob {
    NewJob { tags: tags.iter().map(|tag| (*tag).to_owned()).collect(), ..job() }
}

fn in_queue(queue: &str) -> NewJob {
    NewJob { queue: queue.to_owned(), ..job() }
}

async fn set(world: &World, limit: Limit) -> LimitRow {
    world.store().set_limit(limit).await.expect("a limit is set")
}

async fn running(world: &World, subject: &str) -> u64 {
    let subject: LimitSubject = subject.parse().expect("a subject");
    world.store().limit(&subject).await.expect("an answer").expect("a limit").running
}

pub async fn c14_a_queue_gives_no_more_at_once_than_its_limit(world: &mut World) {
    let ids = world.enqueue_all(vec![job(); 5]).await;
    let others = world.enqueue_all(vec![in_queue("other"); 2]).await;
    let (a, b) = (world.node("a").await, world.node("b").await);
    set(world, at_once("queue:default", 2)).await;
    assert_eq!(world.claim(a, 1).await, &ids[..1]);
    assert_eq!(world.claim(b, ALL).await, [ids[1], others[0], others[1]], "and the others behind it are not held up");
    assert!(world.claim(a, ALL).await.is_empty());
    assert_eq!(running(world, "queue:default").await, 2);
    world.complete(b, ids[1]).await;
    assert_eq!(world.claim(a, ALL).await, &ids[2..3], "the next one in queue order");
    assert_eq!(world.queue("default").await, &ids[3..]);
}

pub async fn c14_a_flow_that_goes_on_by_itself_leaves_the_room_to_its_steps(world: &mut World) {
    let lease = world.node("a").await;
    set(world, at_once("queue:default", 1)).await;
    let flow = world.enqueue(graph(vec![step("a", &[]), step("b", &["a"])])).await;
    for name in ["a", "b"] {
        let taken = take(world, lease).await;
        assert_eq!(names(&taken), [name], "the flow does not keep its own steps back");
        assert_eq!(running(world, "queue:default").await, 1, "the step alone is counted");
        set(world, at_once("all", 1)).await;
        assert_eq!(running(world, "all").await, 1, "also by a limit that came later");
        complete_with(world, lease, taken[0].id, "1").await;
    }
    assert_eq!(running(world, "queue:default").await, 0);
    assert_eq!(world.closed_run(flow).await.outcome, Outcome::Completed);
}

pub async fn c14_limits_on_everything_a_type_and_each_node_hold_too(world: &mut World) {
    let both = vec![WORK.to_owned(), "task:rest".to_owned()];
    let rest = || NewJob::new(Target::task("rest"));
    let made = world.enqueue_all(vec![job(), rest(), job(), rest(), job(), rest()]).await;
    let (a, b) = (world.node("a").await, world.node("b").await);
    let claim = async |lease: Lease| -> Vec<JobId> {
        let request = ClaimRequest { job_types: both.clone(), ..claim_request(lease, ALL) };
        let claimed = world.store().claim_jobs_if_leased(request).await.expect("claiming succeeds");
        claimed.into_iter().map(|claimed| claimed.job.id).collect()
    };
    set(world, at_once("all", 4)).await;
    set(world, at_once("type:task:work", 1)).await;
    set(world, Limit { node_concurrency: Some(2), ..on("type:task:rest") }).await;
    assert_eq!(claim(a).await, [made[0], made[1], made[3]]);
    assert_eq!(claim(b).await, [made[5]], "one more of all, and none of the type that is full");
    world.complete(a, made[0]).await;
    world.complete(a, made[1]).await;
    world.complete(a, made[3]).await;
    assert_eq!(claim(b).await, [made[2]]);
}

pub async fn c14_a_job_counts_for_each_of_its_tags_and_keeps_nobody_else_back(world: &mut World) {
    set(world, at_once("tag:gpu", 1)).await;
    set(world, at_once("tag:disk", 2)).await;
    let made = world
        .enqueue_all(vec![
            tagged(&["gpu", "disk"]),
            tagged(&["gpu"]),
            tagged(&["disk", "free"]),
            tagged(&["disk"]),
            tagged(&["free"]),
            job(),
        ])
        .await;
    let lease = world.node("a").await;
    assert_eq!(world.claim(lease, ALL).await, [made[0], made[2], made[4], made[5]]);
    assert_eq!((running(world, "tag:gpu").await, running(world, "tag:disk").await), (1, 2));
    world.complete(lease, made[0]).await;
    assert_eq!(world.claim(lease, ALL).await, [made[1], made[3]]);
}

/// An operator limits what burns now, not what will be enqueued tomorrow.
pub async fn c14_a_limit_counts_what_runs_and_what_waits_already(world: &mut World) {
    let later = NewJob { run_at: Some(clock_time("00:00:05")), ..tagged(&["gpu"]) };
    let made = world.enqueue_all(vec![tagged(&["gpu"]), tagged(&["gpu", "x"]), job(), later]).await;
    let lease = world.node("a").await;
    assert_eq!(world.claim(lease, 1).await, &made[..1]);
    assert_eq!(set(world, at_once("tag:gpu", 1)).await.running, 1);
    assert_eq!(world.claim(lease, ALL).await, &made[2..3]);
    world.set_time("00:00:05");
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1));
    assert!(world.claim(lease, ALL).await.is_empty(), "what was delayed is counted too");
    world.store().remove_limit(&LimitSubject::Tag("gpu".to_owned())).await.expect("it is removed");
    assert_eq!(world.claim(lease, ALL).await, [made[1], made[3]], "and without the limit they go");
    assert_eq!(set(world, at_once("tag:gpu", 9)).await.running, 3);
}

pub async fn c14_what_is_retried_edited_given_back_or_lost_stays_within_the_limit(world: &mut World) {
    set(world, at_once("tag:gpu", 1)).await;
    let spec = NewJob { retry: retry(2, SHORTEST_WAIT), ..tagged(&["gpu"]) };
    let made = world.enqueue_all(vec![spec; 3]).await;
    let (a, b) = (world.node("a").await, world.node("b").await);
    assert_eq!(world.claim(a, ALL).await, &made[..1]);
    world.store().give_back_if_leased(a, vec![made[0]]).await.expect("it goes back");
    let edited = world.store().edit_job_if_queued(made[0], json("[]")).await.expect("it is edited");
    assert_eq!(world.claim(b, ALL).await, [edited], "to its exact place");
    assert!(world.claim(a, ALL).await.is_empty());
    world.fail_and_requeue(b, edited).await;
    assert_eq!(world.claim(a, ALL).await, &made[1..2]);
    assert!(world.claim(b, ALL).await.is_empty());
    world.recover(a).await;
    assert_eq!(world.claim(b, ALL).await.len(), 1, "what a lost node held is free");
    assert!(world.claim(b, ALL).await.is_empty());
}

pub async fn c14_a_rate_lets_start_what_its_bucket_holds_and_says_when_there_is_more(world: &mut World) {
    set(world, rate("queue:default", 2, secs(10), 3)).await;
    let made = world.enqueue_all(vec![job(); 9]).await;
    let lease = world.node("a").await;
    let claim = async |limit: usize| {
        let claimed = world.store().claim_jobs_if_leased(claim_request(lease, limit)).await.expect("claiming succeeds");
        let ids: Vec<JobId> = claimed.iter().map(|claimed| claimed.job.id).collect();
        (ids, claimed.more_in)
    };
    assert_eq!(claim(2).await, (made[..2].to_vec(), None), "who gets all that he asked for is not told");
    assert_eq!(claim(ALL).await, (made[2..3].to_vec(), Some(secs(5))));
    world.pass(SignedDuration::from_micros(4_999_999));
    assert_eq!(claim(ALL).await, (vec![], Some(SignedDuration::from_micros(1))), "not a microsecond too early");
    world.pass(SignedDuration::from_micros(1));
    assert_eq!(claim(ALL).await.0, &made[3..4]);
    world.pass(mins(10));
    assert_eq!(claim(ALL).await, (made[4..7].to_vec(), Some(secs(5))), "no more than the bucket holds");
    world.pass(mins(1));
    assert_eq!(claim(ALL).await, (made[7..].to_vec(), None), "nothing waits any more");
    world.pass(-mins(1));
    assert_eq!(set(world, rate("queue:default", 1, secs(1), 2)).await.tokens, Some(1), "what is left of it is kept");
}

pub async fn c14_limits_are_set_listed_changed_and_removed(world: &mut World) {
    let store = world.store();
    assert_eq!(store.limits(None, ALL).await, Ok(Vec::new()));
    let gpu = at_once("tag:gpu", 2);
    for limit in [&gpu, &rate("type:task:work", 10, mins(1), 20), &at_once("all", 100), &at_once("queue:mail", 0)] {
        assert_eq!(store.set_limit(limit.clone()).await.expect("it is set").limit, *limit);
    }
    let subjects = async |after: Option<&str>, limit: usize| -> Vec<String> {
        let after = after.map(|after| after.parse().expect("a subject"));
        let rows = store.limits(after.as_ref(), limit).await.expect("a page");
        rows.iter().map(|row| row.limit.subject.to_string()).collect()
    };
    assert_eq!(subjects(None, 2).await, ["all", "queue:mail"]);
    assert_eq!(subjects(Some("queue:mail"), 5).await, ["tag:gpu", "type:task:work"]);
    world.pass(secs(3));
    let changed = store.set_limit(at_once("tag:gpu", 3)).await.expect("it is changed");
    assert_eq!((changed.created_at, changed.updated_at), (clock_time("00:00:00"), clock_time("00:00:03")));
    assert_eq!(store.limit(&gpu.subject).await, Ok(Some(changed)));
    store.remove_limit(&gpu.subject).await.expect("it is removed");
    assert_eq!(store.limit(&gpu.subject).await, Ok(None));
    assert_not_found(store.remove_limit(&gpu.subject).await, "limit");
    assert_eq!(refusal(store.set_limit(on("all")).await).field, "limit");
    let nameless = Limit { concurrency: Some(1), ..Limit::on(LimitSubject::Tag("\0".to_owned())) };
    assert_eq!(refusal(store.set_limit(nameless).await).field, "subject");
}

/// Many claim at once through several connections; what runs is counted by everybody after each claim.
pub async fn c14_many_who_claim_at_once_never_go_beyond_a_limit(world: &mut World) {
    world.enqueue_all((0..120).map(|n| if n % 2 == 0 { tagged(&["gpu"]) } else { job() }).collect()).await;
    set(world, at_once("tag:gpu", 3)).await;
    set(world, at_once("all", 5)).await;
    let mut nodes = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let (lease, store) = (world.node(name).await, world.second_store().await);
        nodes.push(tokio::spawn(async move {
            let mut done = 0;
            loop {
                let claimed = store.claim_jobs_if_leased(claim_request(lease, 4)).await.expect("claiming succeeds");
                for (subject, most) in [("tag:gpu", 3), ("all", 5)] {
                    let row = store.limit(&subject.parse().expect("a subject")).await.expect("an answer");
                    assert!(row.expect("a limit").running <= most);
                }
                let ends = claimed.iter().map(|job| punctual_core::store::FinishedRun::completed(job.job.id)).collect();
                done += store.finish_runs_if_leased(lease, ends).await.expect("they are closed").len();
                if store.queued_jobs("default", None, 1).await.expect("the queue").is_empty() {
                    return done;
                }
                tokio::task::yield_now().await;
            }
        }));
    }
    let mut done = 0;
    for node in nodes {
        done += node.await.expect("no claim failed");
    }
    assert_eq!(done, 120);
}

/// Two nodes, two queues, three tags and all kinds of limits, by chance, against a count that knows nothing of lanes.
pub async fn c14_by_chance_the_stores_hand_out_what_a_plain_count_says(world: &mut World) {
    for seed in 1..=6 {
        Naive::new(world, seed).await.play(world, 60).await;
    }
}

struct Naive {
    chance: Chance,
    nodes: Vec<Lease>,
    queued: Vec<(JobId, NewJob)>,
    running: Vec<(JobId, NewJob, usize)>,
    limits: BTreeMap<String, (Limit, i128, Timestamp)>,
}

const SUBJECTS: [&str; 7] = ["all", "queue:default", "queue:other", "type:task:work", "tag:a", "tag:b", "tag:c"];

impl Naive {
    async fn new(world: &World, seed: u64) -> Self {
        let nodes = vec![world.node("a").await, world.node("b").await];
        Self { chance: Chance::of(seed, &[]), nodes, queued: Vec::new(), running: Vec::new(), limits: BTreeMap::new() }
    }

    async fn play(mut self, world: &World, steps: usize) {
        for _ in 0..steps {
            match self.chance.index(6) {
                0 => self.limit(world).await,
                1 => self.enqueue(world).await,
                2 | 3 => self.claim(world).await,
                4 => self.finish(world).await,
                _ => drop(world.pass(SignedDuration::from_millis(self.chance.between(0, 3_000)))),
            }
        }
        for subject in self.limits.into_keys() {
            world.store().remove_limit(&subject.parse().expect("a subject")).await.expect("it is removed");
        }
        for id in world.queue("default").await.into_iter().chain(world.queue("other").await) {
            world.store().cancel_job(id).await.expect("it is cancelled");
        }
        for (id, _, node) in self.running {
            world.complete(self.nodes[node], id).await;
        }
    }

    fn number(&mut self, below: i64) -> u32 {
        u32::try_from(self.chance.between(0, below)).expect("it is small")
    }

    async fn limit(&mut self, world: &World) {
        let subject = *self.chance.pick(&SUBJECTS);
        if self.limits.contains_key(subject) && self.chance.once_in(2) {
            self.limits.remove(subject);
            return world.store().remove_limit(&subject.parse().expect("a subject")).await.expect("it is removed");
        }
        // A change of a rate keeps its tokens, which is said elsewhere; here each begins anew.
        if self.limits.remove(subject).is_some() {
            world.store().remove_limit(&subject.parse().expect("a subject")).await.expect("it is removed");
        }
        let mut limit = on(subject);
        match self.chance.index(4) {
            0 => limit.concurrency = Some(self.number(4)),
            1 => limit.node_concurrency = Some(self.number(3)),
            2 => limit.rate = Some(Rate { jobs: self.number(5) + 1, per: secs(7), burst: self.number(3) + 1 }),
            _ => (limit.concurrency, limit.node_concurrency) = (Some(self.number(5)), Some(self.number(3))),
        }
        let full = limit.rate.map_or(0, |rate| i128::from(rate.burst) * rate.per.as_micros());
        self.limits.insert(subject.to_owned(), (limit.clone(), full, world.clock_now()));
        set(world, limit).await;
    }

    async fn enqueue(&mut self, world: &World) {
        let specs: Vec<NewJob> = (0..4)
            .map(|_| {
                let tags = ["a", "b", "c"].into_iter().filter(|_| self.chance.once_in(3));
                let tags = tags.map(str::to_owned).collect();
                let queue = if self.chance.once_in(2) { "default" } else { "other" };
                NewJob { tags, queue: queue.to_owned(), ..job() }
            })
            .collect();
        let ids = world.enqueue_all(specs.clone()).await;
        self.queued.extend(ids.into_iter().zip(specs));
    }

    fn has_room(&self, spec: &NewJob, node: usize) -> bool {
        self.limits.values().all(|(limit, level, _)| {
            let counts = |other: &NewJob| limit.subject.covers(&other.queue, WORK, &other.tags);
            let used = |here: bool| {
                let of_it = self.running.iter().filter(|(_, other, on)| counts(other) && (!here || *on == node));
                u32::try_from(of_it.count()).expect("few run")
            };
            !counts(spec)
                || (limit.concurrency.is_none_or(|most| used(false) < most)
                    && limit.node_concurrency.is_none_or(|most| used(true) < most)
                    && limit.rate.is_none_or(|rate| *level >= rate.per.as_micros()))
        })
    }

    async fn claim(&mut self, world: &World) {
        let (node, most) = (self.chance.index(2), self.chance.index(6) + 1);
        for (limit, level, at) in self.limits.values_mut() {
            if let Some(rate) = limit.rate {
                let gained = world.clock_now().duration_since(*at).as_micros() * i128::from(rate.jobs);
                *level = (*level + gained).min(i128::from(rate.burst) * rate.per.as_micros());
                *at = world.clock_now();
            }
        }
        let mut expected = Vec::new();
        for (id, spec) in std::mem::take(&mut self.queued) {
            if expected.len() < most && self.has_room(&spec, node) {
                for (limit, level, _) in self.limits.values_mut() {
                    if limit.subject.covers(&spec.queue, WORK, &spec.tags) {
                        *level -= limit.rate.map_or(0, |rate| rate.per.as_micros());
                    }
                }
                expected.push(id);
                self.running.push((id, spec, node));
            } else {
                self.queued.push((id, spec));
            }
        }
        assert_eq!(world.claim(self.nodes[node], most).await, expected);
    }

    async fn finish(&mut self, world: &World) {
        if self.running.is_empty() {
            return;
        }
        let picked = self.chance.index(self.running.len());
        let (id, _, node) = self.running.swap_remove(picked);
        world.complete(self.nodes[node], id).await;
    }
}

/// A limit that nobody heeds is none: a job in a queue stands in the lane of its limited tags, whoever put it there.
pub async fn c14_the_stores_agree_on_the_use_of_every_limit(world: &mut World) {
    let store: Arc<dyn punctual_core::store::Store> = world.store();
    let (a, b) = (world.node("a").await, world.node("b").await);
    set(world, at_once("tag:x", 10)).await;
    set(world, at_once("queue:default", 10)).await;
    world.enqueue_all(vec![tagged(&["x"]), job(), tagged(&["x", "y"])]).await;
    assert_eq!((world.claim(a, 2).await.len(), world.claim(b, ALL).await.len()), (2, 1));
    set(world, at_once("tag:y", 1)).await;
    let rows = store.limits(None, ALL).await.expect("a page");
    let used: Vec<_> = rows.iter().map(|row| (row.limit.subject.to_string(), row.running)).collect();
    let expected = [("queue:default", 3), ("tag:x", 2), ("tag:y", 1)];
    assert_eq!(used, expected.map(|(subject, running)| (subject.to_owned(), running)));
}

/// Of the two ways in which slots are fired, many at once and one by one.
pub async fn c14_the_jobs_of_a_schedule_carry_its_tags(world: &mut World) {
    set(world, at_once("tag:gpu", 1)).await;
    let tagged =
        |name: &str| punctual_core::schedule::ScheduleDefinition { tags: vec!["gpu".to_owned()], ..minutely(name) };
    let (one, two) = (world.create(tagged("one")).await, world.create(tagged("two")).await);
    let serial = punctual_core::schedule::ScheduleDefinition { serial: true, ..tagged("three") };
    world.create(serial).await;
    assert_eq!(world.schedule(one.id).await.definition.tags, ["gpu"]);
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let fired = world.fire().await.jobs;
    assert_eq!(fired.len(), 3);
    assert_eq!(world.job(fired[0]).await.job.spec.tags, ["gpu"]);
    let first = world.claim(lease, ALL).await;
    assert_eq!(first.len(), 1, "the others wait, whichever way they were fired");
    let triggered = world.store().trigger_schedule(two.id, ByHand::default()).await.expect("it is triggered");
    assert_eq!(world.job(triggered).await.job.spec.tags, ["gpu"]);
    assert!(world.claim(lease, ALL).await.is_empty());
}
