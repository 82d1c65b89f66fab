//! Limits with real workers that are killed: never exceeded at any instant, in the order of the commits.

use crate::process::{Ear, Said, Worker};
use crate::world::{World, on_both_stores};
use punctual_core::id::JobId;
use punctual_core::job::NewJob;
use punctual_core::limits::{Limit, LimitSubject, Rate};
use std::collections::BTreeMap;

const WORKERS: usize = 3;
const KILLS: usize = 6;

/// Writes down every start and every end as the database has it. On PostgreSQL the lock is held until the commit, so
/// that the numbers are in the order of the commits; SQLite has one writer.
async fn bear_witness(world: &World) {
    let table = |number: &str| format!("CREATE TABLE witness (n {number} PRIMARY KEY, line TEXT NOT NULL)");
    world.execute(&table("INTEGER"), &table("bigserial")).await;
    let noted = |when: &str, row: &str, word: &str| {
        format!(
            "CREATE TRIGGER witness_{when} AFTER {when} ON {{running}} BEGIN
               INSERT INTO witness (line) VALUES ('{word} ' || hex({row}.job_id) || ' ' || hex({row}.node_id));
             END"
        )
    };
    let function = "CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          PERFORM pg_advisory_xact_lock(42);
          IF TG_OP = 'INSERT' THEN
            INSERT INTO public.witness (line) VALUES ('start ' || NEW.job_id || ' ' || NEW.node_id);
          ELSE
            INSERT INTO public.witness (line) VALUES ('end ' || OLD.job_id || ' ' || OLD.node_id);
          END IF;
          RETURN NULL;
        END $$";
    world.execute(&noted("INSERT", "NEW", "start"), function).await;
    let trigger = "CREATE TRIGGER witness AFTER INSERT OR DELETE ON {running} FOR EACH ROW EXECUTE FUNCTION witness()";
    world.execute(&noted("DELETE", "OLD", "end"), trigger).await;
}

/// The most that ran at once of the jobs that are counted, on all nodes and on any one, in the order of the commits.
fn most_at_once(witness: &[String], counts: impl Fn(JobId) -> bool) -> (u32, u32) {
    let (mut running, mut most): (BTreeMap<&str, u32>, _) = (BTreeMap::new(), (0, 0));
    for line in witness {
        let [event, job, node] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        if !counts(job.parse().unwrap()) {
            continue;
        }
        let here = running.entry(node).or_default();
        *here = if event == "start" { *here + 1 } else { here.checked_sub(1).unwrap() };
        most.1 = most.1.max(*here);
        most.0 = most.0.max(running.values().sum());
    }
    most
}

on_both_stores! {
    async fn c14_no_limit_is_exceeded_at_any_instant_while_workers_are_killed(world: &World) {
        let tag = |name: &str| LimitSubject::Tag(name.to_owned());
        let rate = Rate { jobs: 40, per: jiff::SignedDuration::from_secs(1), burst: 4 };
        let limits = [
            Limit { concurrency: Some(5), ..Limit::on(LimitSubject::All) },
            Limit { concurrency: Some(1), ..Limit::on(tag("one")) },
            Limit { concurrency: Some(3), node_concurrency: Some(2), ..Limit::on(tag("few")) },
            Limit { rate: Some(rate), ..Limit::on(tag("slow")) },
        ];
        for limit in &limits {
            world.store.set_limit(limit.clone()).await.unwrap();
        }
        bear_witness(world).await;
        let tags = [vec![], vec!["one"], vec!["few"], vec!["few", "slow"], vec!["one", "few"], vec!["slow"]];
        let job = |n: usize| {
            let tags = tags[n % tags.len()].iter().map(|tag| (*tag).to_owned()).collect();
            NewJob { tags, ..NewJob::new(world.target()) }
        };
        let made = world.store.enqueue_jobs((0..90).map(job).collect()).await.unwrap();
        let mut ear = Ear::new();
        let mut workers: BTreeMap<u32, Worker> = (0..WORKERS).map(|_| hired(world, &ear)).collect();
        let mut kills = 0;
        while kills < KILLS {
            let (pid, said) = ear.next().await;
            if said == Said::Begins("run".to_owned()) && let Some(mut worker) = workers.remove(&pid) {
                worker.kill();
                kills += 1;
                workers.extend([hired(world, &ear)]);
            }
        }
        world.come_to_rest().await;
        let ended = world.all_jobs().await;
        assert!(made.iter().all(|id| ended[id].is_terminal()));

        let lines = "SELECT line FROM witness ORDER BY n";
        let witness = world.texts(lines, lines).await;
        let mut tags = BTreeMap::new();
        for id in ended.keys() {
            tags.insert(*id, world.store.job(*id).await.unwrap().unwrap().job.spec.tags);
        }
        for limit in &limits {
            let counts = |id: JobId| limit.subject.covers("default", "command", &tags[&id]);
            let (everywhere, on_one) = most_at_once(&witness, counts);
            eprintln!("{}: {everywhere} at once, {on_one} on one node", limit.subject);
            assert!(limit.concurrency.is_none_or(|most| everywhere <= most), "{}", limit.subject);
            assert!(limit.node_concurrency.is_none_or(|most| on_one <= most), "{}", limit.subject);
        }
        assert_eq!(most_at_once(&witness, |id| tags[&id].contains(&"one".to_owned())).0, 1, "it was in use");
        starts_within(world, rate, |id| tags[&id].contains(&"slow".to_owned()), ended.keys().copied().collect()).await;
    }
}

fn hired(world: &World, ear: &Ear) -> (u32, Worker) {
    let worker = Worker::start(world, ear);
    (worker.pid(), worker)
}

/// In no window did more start than the bucket allows.
async fn starts_within(world: &World, rate: Rate, counts: impl Fn(JobId) -> bool, jobs: Vec<JobId>) {
    let mut starts = Vec::new();
    for id in jobs.into_iter().filter(|id| counts(*id)) {
        starts.extend(world.store.run(id).await.unwrap().and_then(|run| run.started_at));
    }
    starts.sort_unstable();
    assert!(starts.len() >= 30, "every one of them has started");
    for (first, from) in starts.iter().enumerate() {
        for (last, until) in starts.iter().enumerate().skip(first) {
            let allowed = i128::from(rate.burst) * rate.per.as_micros()
                + i128::from(rate.jobs) * until.duration_since(*from).as_micros();
            assert!((last - first + 1) as i128 * rate.per.as_micros() <= allowed, "{from} to {until}");
        }
    }
}
