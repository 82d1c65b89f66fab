//! Positions through ten thousand random moves, compared with a list that somebody reorders by hand.

use crate::prelude::*;
use punctual_core::id::JobId;
use punctual_core::job::NewJob;
use punctual_core::order::{Move, Place};
use punctual_core::store::Store;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Queues that are reordered at the same time, and how often each.
const QUEUES: usize = 8;
const MOVES: usize = 1_250;

/// How many jobs a queue has.
const JOBS: usize = 24;

/// A small generator; the same seed gives the same moves.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

/// The model: who stands where, as a person would keep it.
struct Line(Vec<(i32, JobId)>);

impl Line {
    fn take(&mut self, id: JobId) -> i32 {
        let at = self.place(id);
        self.0.remove(at).0
    }

    fn place(&self, id: JobId) -> usize {
        self.0.iter().position(|(_, other)| *other == id).expect("it stands in the line")
    }

    /// The first place of a priority, and the first behind it.
    fn bounds(&self, priority: i32) -> (usize, usize) {
        let count = |goes_before: &dyn Fn(i32) -> bool| self.0.iter().filter(|(other, _)| goes_before(*other)).count();
        (count(&|other| other > priority), count(&|other| other >= priority))
    }

    fn carry_out(&mut self, id: JobId, to: Move) {
        let was = self.take(id);
        let (priority, at) = match to {
            Move::ToFront => (was, self.bounds(was).0),
            Move::ToBack => (was, self.bounds(was).1),
            Move::ToPriority(priority) => (priority, self.bounds(priority).1),
            Move::Before(other) => (self.0[self.place(other)].0, self.place(other)),
            Move::After(other) => (self.0[self.place(other)].0, self.place(other) + 1),
        };
        self.0.insert(at, (priority, id));
    }
}

async fn reorder(store: Arc<dyn Store>, queue: String, seed: u64) {
    let spec = NewJob { queue: queue.clone(), ..job() };
    let made = store.enqueue_jobs(vec![spec; JOBS]).await.expect("they are queued");
    let mut line = Line(made.iter().map(|id| (0, *id)).collect());
    let mut dice = Dice(seed);
    for turn in 0..MOVES {
        let id = made[dice.below(JOBS)];
        // Half of them go beside one and the same job, so that its gaps are used up again and again.
        let hot = made[turn / 200 % JOBS];
        let other = if dice.below(2) == 0 { hot } else { made[dice.below(JOBS)] };
        let to = match dice.below(8) {
            0 => Move::ToFront,
            1 => Move::ToBack,
            2 => Move::ToPriority(i32::try_from(dice.below(3)).expect("small")),
            3..=5 => Move::Before(other),
            _ => Move::After(other),
        };
        if matches!(to, Move::Before(other) | Move::After(other) if other == id) {
            continue;
        }
        store.move_job_if_queued(id, to).await.expect("it is moved");
        line.carry_out(id, to);
        if turn % 50 == 0 || turn + 1 == MOVES {
            let listed = store.queued_jobs(&queue, None, ALL).await.expect("the queue can be read");
            let places: Vec<Place> = listed.iter().map(|queued| queued.place).collect();
            assert!(places.is_sorted_by(|a, b| a < b), "{queue}: a total order");
            let order: Vec<(i32, JobId)> = places.iter().map(|place| (place.priority, place.job_id)).collect();
            assert_eq!(order, line.0, "{queue} after {turn} moves, the last {id} {to:?}");
        }
    }
}

pub async fn c06_positions_stay_a_total_order_through_ten_thousand_moves(world: &mut World) {
    let mut queues = JoinSet::new();
    for n in 0..QUEUES {
        queues.spawn(reorder(world.store(), format!("q{n}"), n as u64));
    }
    queues.join_all().await;
    // The order in which jobs are handed out is the one that is shown.
    let shown = world.queue("q0").await;
    let lease = world.node("n").await;
    let mut request = claim_request(lease, ALL);
    request.queues = vec!["q0".to_owned()];
    let claimed = world.store().claim_jobs_if_leased(request).await.expect("they are claimed");
    assert_eq!(claimed.into_iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), shown);
}
