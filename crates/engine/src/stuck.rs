//! Runs that block their threads: their places cannot keep time for them, so that they are given up from outside.
//!
//! A place times its run by itself as long as its task gets its turns, and a handler that blocks its thread takes them
//! away. Giving every handler a task of its own would help as well, and cost every run a fifth of its time.

use crate::floor::Floor;
use crate::stop::StopHandle;
use punctual_core::execute::StopReason;
use punctual_core::job::Timeout;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// How often somebody looks while jobs run: a run is stuck when it is in the same turn twice.
const LOOK: Duration = Duration::from_millis(50);

/// A place where one job runs after the other, as it is seen from outside.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// How often its task went in and came out: odd while it is in.
    turns: AtomicU64,
}

impl Place {
    /// Does the work of a place, and notes when its task is at it.
    pub(crate) async fn let_in<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            self.turns.fetch_add(1, Ordering::Relaxed);
            let state = work.as_mut().poll(cx);
            self.turns.fetch_add(1, Ordering::Relaxed);
            state
        })
        .await
    }

    /// The turn its task is in, if it is.
    fn turn(&self) -> Option<u64> {
        let turns = self.turns.load(Ordering::Relaxed);
        (turns % 2 == 1).then_some(turns)
    }
}

/// What is seen of a run from outside.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    place: Arc<Place>,
    /// When its time is over, on the node's own clock.
    deadline: Option<Duration>,
    /// The turn it was in at the last look.
    turn: Option<u64>,
    /// When it was seen that it had been told to stop and did not hear.
    deaf_since: Option<Duration>,
}

impl Watched {
    pub(crate) fn new(place: Arc<Place>, timeout: Timeout, began_at: Duration) -> Self {
        let deadline = match timeout {
            Timeout::After(limit) => began_at.checked_add(limit.unsigned_abs()),
            Timeout::Never => None,
        };
        Self { place, deadline, turn: None, deaf_since: None }
    }

    /// Whether it runs at this place.
    pub(crate) fn is_at(&self, place: &Arc<Place>) -> bool {
        Arc::ptr_eq(&self.place, place)
    }

    /// Looks at it: says why it was to stop if it blocks its thread and has not heard of it within the grace. One that
    /// blocks its thread is told here that its time is over, because the place cannot.
    pub(crate) fn is_lost(&mut self, stop: &StopHandle, now: Duration, grace: Duration) -> Option<StopReason> {
        let turn = self.place.turn();
        if turn.is_none() || turn != self.turn {
            (self.turn, self.deaf_since) = (turn, None);
            return None;
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            stop.stop(StopReason::Timeout);
        }
        let reason = stop.reason()?;
        let deaf_since = *self.deaf_since.get_or_insert(now);
        (reason == StopReason::Fenced || now.saturating_sub(deaf_since) >= grace).then_some(reason)
    }
}

/// Looks after the runs of a floor for as long as there are some, again and again.
pub(crate) async fn patrol(floor: Arc<Floor>) {
    loop {
        floor.begun.notified().await;
        while floor.give_up_stuck() > 0 {
            sleep(LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    const GRACE: Duration = Duration::from_millis(300);

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn watched(timeout: Timeout) -> (Watched, StopHandle) {
        let place = Place { turns: AtomicU64::new(1) };
        (Watched::new(Arc::new(place), timeout, Duration::ZERO), StopHandle::default())
    }

    fn turn(run: &Watched, turns: u64) {
        run.place.turns.fetch_add(turns, Ordering::Relaxed);
    }

    #[test]
    fn c04_a_run_that_blocks_its_thread_is_told_its_timeout_and_lost_after_the_grace() {
        let (mut run, stop) = watched(Timeout::After(SignedDuration::from_millis(100)));
        assert_eq!((run.is_lost(&stop, at(50), GRACE), run.is_lost(&stop, at(99), GRACE)), (None, None));
        assert_eq!(stop.reason(), None, "it has time left");
        assert_eq!((run.is_lost(&stop, at(150), GRACE), stop.reason()), (None, Some(StopReason::Timeout)));
        assert_eq!(run.is_lost(&stop, at(449), GRACE), None);
        assert_eq!(run.is_lost(&stop, at(450), GRACE), Some(StopReason::Timeout));
    }

    #[test]
    fn c04_a_run_that_gives_its_thread_back_is_left_to_its_place() {
        let (mut run, stop) = watched(Timeout::After(SignedDuration::from_millis(1)));
        stop.stop(StopReason::Cancelled);
        for look in 0..20 {
            assert_eq!(run.is_lost(&stop, at(100 * look), GRACE), None, "it has had a turn since the last look");
            turn(&run, 2);
        }
        turn(&run, 1);
        for look in 20..40 {
            assert_eq!(run.is_lost(&stop, at(100 * look), GRACE), None, "it waits, and its place keeps its time");
        }
    }

    #[test]
    fn c09_a_fenced_run_that_blocks_its_thread_is_lost_at_once() {
        let (mut run, stop) = watched(Timeout::Never);
        stop.stop(StopReason::Fenced);
        assert_eq!(run.is_lost(&stop, at(0), GRACE), None, "whether it is stuck shows at the second look");
        assert_eq!(run.is_lost(&stop, at(50), GRACE), Some(StopReason::Fenced));
    }
}
