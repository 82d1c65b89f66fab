//! A connection that is cut at any place of an exchange, the reply to the COMMIT included: nothing happens twice.

use crate::harness::{broken, done, fresh_database, node, options};
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::job::{JobState, NewJob};
use punctual_core::job_key::{JobKey, JobKeyMode};
use punctual_core::store::{FinishResult, Lease, Store, StoreError, StoreResult};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::VirtualClock;
use punctual_testkit::faults::{CutProxy, Exchange, Side, message_starts};
use punctual_testkit::harness::block_on;
use punctual_testkit::postgres::Database;
use punctual_testkit::prelude::*;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;

/// A store whose only connection goes through the proxy, and one beside it that sees what became of things.
struct Line {
    proxy: CutProxy,
    cut: PostgresStore,
    beside: PostgresStore,
    clock: Arc<VirtualClock>,
    admin: Client,
    /// How the exchange went that was not cut.
    heard: RefCell<Exchange>,
    _database: Database,
}

/// What was seen over all places at which the line was cut.
#[derive(Debug, Default)]
struct Tally {
    cuts: usize,
    /// The caller was told that it had failed, and nothing had happened.
    undone: usize,
    /// The caller was told that it had failed, and it had happened all the same.
    done_unknown_to_the_caller: usize,
}

impl Line {
    async fn new() -> Self {
        let (database, clock) = (fresh_database().await, Arc::new(VirtualClock::new()));
        let proxy = CutProxy::start(database.server().to_owned()).await;
        // Wake-ups go another way, so that the one connection is the only one on the line.
        let through = PostgresOptions { pool_size: 1, direct_url: Some(database.url()), ..options(clock.clone()) };
        let cut = PostgresStore::connect(&database.url_through(proxy.address()), through).await.unwrap();
        let beside = PostgresStore::connect(&database.url(), options(clock.clone())).await.unwrap();
        let admin = database.connect().await;
        Self { proxy, cut, beside, clock, admin, heard: RefCell::default(), _database: database }
    }

    async fn count(&self, sql: &str) -> i64 {
        self.admin.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Whoever was cut off in the middle of a statement goes on for a moment, because nobody tells him.
    async fn until_the_server_has_noticed(&self) {
        let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                    AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'";
        while self.count(busy).await > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// All places at which the exchange can be cut that was heard last: before and inside each of its messages.
    fn places(&self) -> Vec<(Side, usize)> {
        let heard = self.heard.borrow();
        let mut places = Vec::new();
        for (side, bytes) in [(Side::ToServer, &heard.to_server), (Side::ToClient, &heard.to_client)] {
            let starts = message_starts(bytes);
            assert!(!starts.is_empty(), "nothing was heard");
            let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
            for (start, end) in starts.iter().zip(ends) {
                places.extend([(side, *start), (side, start.midpoint(end))]);
            }
        }
        places
    }
}

/// Something that is done over the line.
trait Verb {
    /// What it is done to.
    type Given;

    async fn prepare(&self, line: &Line) -> Self::Given;

    async fn act(&self, line: &Line, given: &Self::Given) -> StoreResult<()>;

    /// Whether it has happened; panics when it has happened twice or by half. Leaves everything tidy.
    async fn judge(&self, line: &Line, given: &Self::Given, told: &StoreResult<()>) -> bool;
}

/// Does something over the line once for each place at which the line can be cut, and cuts it there.
async fn at_every_place(line: &Line, verb: &impl Verb) {
    // Twice, because the first time gives names to statements; the second is what goes over a connection in use.
    in_peace(line, verb).await;
    in_peace(line, verb).await;
    let mut tally = Tally::default();
    for (side, place) in line.places() {
        // The last cut has cost the connection; this makes a new one that is in use.
        in_peace(line, verb).await;
        let given = verb.prepare(line).await;
        line.proxy.cut_after(side, place);
        let told = verb.act(line, &given).await;
        tally.cuts += line.proxy.cuts();
        line.proxy.listen();
        line.until_the_server_has_noticed().await;
        match (&told, verb.judge(line, &given, &told).await) {
            (Ok(()), true) => {}
            (Err(StoreError::Unavailable(_)), true) => tally.done_unknown_to_the_caller += 1,
            (Err(StoreError::Unavailable(_)), false) => tally.undone += 1,
            (told, happened) => panic!("cut {side:?} at {place}: {told:?}, and happened: {happened}"),
        }
    }
    eprintln!("{tally:?}");
    assert!(tally.cuts > 10, "{tally:?}");
    assert!(tally.undone > 0, "{tally:?}");
    assert!(tally.done_unknown_to_the_caller > 0, "no answer to a COMMIT was lost: {tally:?}");
}

async fn in_peace(line: &Line, verb: &impl Verb) {
    let given = verb.prepare(line).await;
    line.proxy.listen();
    let told = verb.act(line, &given).await;
    told.as_ref().expect("nothing is cut");
    let heard = line.proxy.heard();
    assert!(verb.judge(line, &given, &told).await, "it happens when nothing is cut");
    line.heard.replace(heard);
}

/// Makes a job in a queue of its own.
struct Enqueue(Cell<usize>);

impl Verb for Enqueue {
    type Given = String;

    async fn prepare(&self, _: &Line) -> String {
        self.0.set(self.0.get() + 1);
        format!("q{:05}", self.0.get())
    }

    async fn act(&self, line: &Line, queue: &String) -> StoreResult<()> {
        line.cut.enqueue_jobs(vec![NewJob { queue: queue.clone(), ..job() }]).await.map(drop)
    }

    async fn judge(&self, line: &Line, queue: &String, _: &StoreResult<()>) -> bool {
        let made = line.beside.queued_jobs(queue, None, ALL).await.unwrap().len();
        assert!(made <= 1, "a job was made twice");
        made == 1
    }
}

#[test]
fn c12_an_enqueue_that_is_cut_makes_one_job_or_none() {
    block_on(async {
        at_every_place(&Line::new().await, &Enqueue(Cell::new(0))).await;
    });
}

/// Makes a job with a key of its own, under which there is never more than one.
struct EnqueueWithKey(Enqueue);

impl EnqueueWithKey {
    fn job(key: &str) -> NewJob {
        let job_key = JobKey { key: key.to_owned(), mode: JobKeyMode::UnsafeDedupe };
        NewJob { queue: key.to_owned(), job_key: Some(job_key), ..job() }
    }
}

impl Verb for EnqueueWithKey {
    type Given = String;

    async fn prepare(&self, line: &Line) -> String {
        self.0.prepare(line).await
    }

    async fn act(&self, line: &Line, key: &String) -> StoreResult<()> {
        line.cut.enqueue_jobs(vec![Self::job(key)]).await.map(drop)
    }

    async fn judge(&self, line: &Line, key: &String, _: &StoreResult<()>) -> bool {
        let made = async || line.beside.queued_jobs(key, None, ALL).await.unwrap();
        let before: Vec<JobId> = made().await.iter().map(|job| job.place.job_id).collect();
        // Who was not told how it went asks again with the same key.
        let again = line.beside.enqueue_jobs(vec![Self::job(key)]).await.unwrap();
        let after: Vec<JobId> = made().await.iter().map(|job| job.place.job_id).collect();
        assert_eq!(again, after, "there is one job, and it is the answer");
        assert!(before.is_empty() || before == after, "the one that was there stays");
        !before.is_empty()
    }
}

#[test]
fn c12_an_enqueue_that_is_cut_and_asked_for_again_with_its_key_is_one_job() {
    block_on(async {
        at_every_place(&Line::new().await, &EnqueueWithKey(Enqueue(Cell::new(0)))).await;
    });
}

/// Takes a job.
struct Claim(Lease);

impl Verb for Claim {
    type Given = JobId;

    async fn prepare(&self, line: &Line) -> JobId {
        line.beside.enqueue_jobs(vec![job()]).await.unwrap()[0]
    }

    async fn act(&self, line: &Line, _: &JobId) -> StoreResult<()> {
        line.cut.claim_jobs_if_leased(claim_request(self.0, 1)).await.map(drop)
    }

    async fn judge(&self, line: &Line, id: &JobId, _: &StoreResult<()>) -> bool {
        let state = line.beside.job(*id).await.unwrap().unwrap().state();
        assert!(matches!(state, JobState::Running | JobState::Queued), "{state}");
        let taken = state == JobState::Running;
        let mine = line.beside.heartbeat_if_leased(self.0).await.unwrap().running;
        assert_eq!(mine.contains(id), taken, "the node learns of what it holds");
        if taken {
            assert_eq!(line.beside.give_back_if_leased(self.0, vec![*id]).await.unwrap(), [*id]);
        }
        let claimed = line.beside.claim_jobs_if_leased(claim_request(self.0, 5)).await.unwrap();
        assert_eq!(claimed.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), [*id], "it can be taken, once");
        let closed = line.beside.finish_runs_if_leased(self.0, vec![done(*id)]).await.unwrap();
        assert_eq!(closed, [FinishResult::Closed { retry: None }]);
        taken
    }
}

#[test]
fn c09_a_claim_that_is_cut_leaves_the_job_in_the_queue_or_with_the_node_which_gives_it_back() {
    block_on(async {
        let line = Line::new().await;
        let lease = line.beside.register_node(node("a")).await.unwrap();
        at_every_place(&line, &Claim(lease)).await;
    });
}

/// Reports a failure, after which there is a retry.
struct Finish(Lease);

impl Verb for Finish {
    type Given = JobId;

    async fn prepare(&self, line: &Line) -> JobId {
        let id = line.beside.enqueue_jobs(vec![retried_job(3, secs(3600))]).await.unwrap()[0];
        assert_eq!(line.beside.claim_jobs_if_leased(claim_request(self.0, 1)).await.unwrap()[0].job.id, id);
        id
    }

    async fn act(&self, line: &Line, id: &JobId) -> StoreResult<()> {
        line.cut.finish_runs_if_leased(self.0, vec![broken(*id)]).await.map(drop)
    }

    async fn judge(&self, line: &Line, id: &JobId, told: &StoreResult<()>) -> bool {
        let closed = line.beside.run(*id).await.unwrap().is_some();
        if told.is_err() {
            // The node reports again, as it does after every error.
            let again = line.beside.finish_runs_if_leased(self.0, vec![broken(*id)]).await.unwrap();
            assert_eq!(matches!(again[0], FinishResult::LostLease), closed, "{again:?}");
        }
        let retries = format!("SELECT count(*) FROM punctual_internal.jobs WHERE retry_of = '{id}'");
        assert_eq!(line.count(&retries).await, 1, "one failure, one retry");
        closed
    }
}

#[test]
fn c10_a_finish_that_is_cut_and_reported_again_closes_once_and_makes_one_retry() {
    block_on(async {
        let line = Line::new().await;
        let lease = line.beside.register_node(node("a")).await.unwrap();
        at_every_place(&line, &Finish(lease)).await;
    });
}

/// Fires the next slot.
struct Fire(ScheduleId);

impl Verb for Fire {
    type Given = usize;

    async fn prepare(&self, line: &Line) -> usize {
        line.clock.advance(mins(1));
        line.beside.slots(self.0, None, ALL).await.unwrap().len()
    }

    async fn act(&self, line: &Line, _: &usize) -> StoreResult<()> {
        line.cut.fire_due(None, 10).await.map(drop)
    }

    async fn judge(&self, line: &Line, before: &usize, _: &StoreResult<()>) -> bool {
        let fired = line.beside.slots(self.0, None, ALL).await.unwrap().len() == before + 1;
        let again = line.beside.fire_due(None, 10).await.unwrap();
        assert_eq!(again.jobs.len(), usize::from(!fired), "what was not fired is fired, and nothing else");
        let jobs = line.count("SELECT count(*) FROM punctual_internal.jobs").await;
        assert_eq!(usize::try_from(jobs).unwrap(), before + 1, "one job for each slot");
        fired
    }
}

#[test]
fn a04_a_fire_that_is_cut_and_done_again_makes_one_job_for_the_slot() {
    block_on(async {
        let line = Line::new().await;
        let schedule = line.beside.create_schedule(minutely("cut")).await.unwrap();
        at_every_place(&line, &Fire(schedule.id)).await;
    });
}
