//! Counts the calls of the handler, and how many different jobs they were for.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

#[derive(Default)]
pub struct Tally {
    handled: AtomicI64,
    seen: Mutex<Seen>,
    reached: Notify,
}

#[derive(Default)]
struct Seen {
    jobs: Vec<bool>,
    distinct: i64,
    goal: Option<i64>,
}

impl Tally {
    pub fn handle(&self, number: i64) {
        self.handled.fetch_add(1, Ordering::Relaxed);
        let index = usize::try_from(number).unwrap_or_default();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if index >= seen.jobs.len() {
            let more = (index + 1).max(2 * seen.jobs.len());
            seen.jobs.resize(more, false);
        }
        if !std::mem::replace(&mut seen.jobs[index], true) {
            seen.distinct += 1;
        }
        if seen.goal.is_some_and(|goal| seen.distinct >= goal) {
            self.reached.notify_one();
        }
    }

    pub fn as_handle(self: &Arc<Self>) -> crate::Handle {
        let tally = Arc::clone(self);
        Arc::new(move |number| tally.handle(number))
    }

    pub fn handled(&self) -> i64 {
        self.handled.load(Ordering::Relaxed)
    }

    pub fn distinct(&self) -> i64 {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).distinct
    }

    /// Waits until so many different jobs were handled.
    pub async fn reaches(&self, goal: i64) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).goal = Some(goal);
        while self.distinct() < goal {
            self.reached.notified().await;
        }
    }
}
