//! Punctual's side: the store's verbs as programs call them, and whole nodes with their usual options.

use super::side::{
    BATCH, Bound, Claims, Done, Side, Starts, WARM_UP, by_many, claim_by_many, expect, milliseconds, pause,
};
use crate::Outcome;
use crate::node::Noop;
use async_trait::async_trait;
use punctual_core::job::NewJob;
use punctual_core::store::Store;
use punctual_core::target::Target;
use punctual_engine::node::NodeOptions;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a node may take for the jobs of one turn before something is wrong with it.
const PATIENCE: Duration = Duration::from_secs(90);

pub(super) struct Ours {
    /// What nodes work on.
    pub(super) works: Arc<dyn Store>,
    /// Where jobs are made: another handle where a program that makes jobs is usually another process.
    pub(super) makes: Arc<dyn Store>,
}

fn jobs(task: &str, count: usize) -> Vec<NewJob> {
    (0..count).map(|_| NewJob::new(Target::task(task))).collect()
}

#[async_trait]
impl Side for Ours {
    async fn enqueue_singly(&mut self, bound: Bound) -> Outcome<Done> {
        self.enqueue_by(1, bound).await
    }

    async fn enqueue_by(&mut self, callers: usize, bound: Bound) -> Outcome<Done> {
        let store = Arc::clone(&self.makes);
        by_many(callers, bound, move || {
            let store = Arc::clone(&store);
            async move { Ok(store.enqueue_jobs(jobs("noop", 1)).await.map(drop)?) }
        })
        .await
    }

    async fn enqueue_batches(&mut self, batches: usize) -> Outcome<Done> {
        let mut took = Duration::ZERO;
        for _ in 0..batches {
            // To make them up is the caller's work.
            let batch = jobs("noop", BATCH);
            let asked = Instant::now();
            self.makes.enqueue_jobs(batch).await?;
            took += asked.elapsed();
        }
        Ok(Done { count: batches * BATCH, took })
    }

    async fn drain(&mut self, jobs: usize) -> Outcome<Done> {
        let began = Instant::now();
        let node = Noop::start(Arc::clone(&self.works), NodeOptions::default());
        let all = async {
            node.counted.reaches(jobs).await;
            node.settles(&*self.works).await
        };
        let ended = tokio::time::timeout(PATIENCE, all).await;
        let (took, handled) = (began.elapsed(), node.counted.now());
        node.stops().await;
        expect("jobs run by the node", handled, jobs)?;
        ended.map_err(|_| "the ends of jobs were not stored in time")??;
        Ok(Done { count: handled, took })
    }

    async fn fire(&mut self, slots: usize) -> Outcome<Done> {
        let began = Instant::now();
        let mut fired = 0;
        while fired < slots {
            let some = self.works.fire_due(None, BATCH).await?.jobs.len();
            fired += some;
            if some == 0 {
                break;
            }
        }
        let took = began.elapsed();
        expect("slots fired", fired, slots)?;
        Ok(Done { count: fired, took })
    }

    async fn fire_by(&mut self, claimers: usize, slots: usize) -> Outcome<Claims> {
        let (store, each) = (Arc::clone(&self.works), slots.div_ceil(claimers));
        let claims = claim_by_many(claimers, move || {
            let store = Arc::clone(&store);
            async move { Ok(store.fire_due(None, each).await?.jobs.len()) }
        })
        .await?;
        expect("slots fired by many", claims.done.count, slots)?;
        Ok(claims)
    }

    async fn enqueue_to_start(&mut self, bound: Bound) -> Outcome<Starts> {
        let mut node = Noop::start(Arc::clone(&self.works), NodeOptions::default());
        node.is_ready().await?;
        let (mut times, began) = (Vec::new(), Instant::now());
        let mut made = 0;
        while made <= WARM_UP || (made < bound.count + WARM_UP && began.elapsed() < bound.time) {
            pause(made).await;
            let asked = Instant::now();
            self.makes.enqueue_jobs(jobs("probe", 1)).await?;
            let (started, _) = node.next_probe().await?;
            made += 1;
            if made > WARM_UP {
                times.push(milliseconds(started.saturating_duration_since(asked)));
            }
        }
        node.settles(&*self.works).await?;
        node.stops().await;
        Ok(Starts { milliseconds: times, made })
    }
}
