//! One exchange between a desk and its store: what is on its way, and what has come of it.

use crate::dispatch::Exchange;
use crate::messenger::Messenger;
use punctual_core::limits::Claimed;
use punctual_core::store::{FinishResult, FinishedRun, StoreError, StoreResult};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How long an exchange goes on while jobs end fast; then the node looks at what else there is.
const LONG: Duration = Duration::from_millis(500);

/// Claims on their way at once: while the jobs of one are unpacked, the database is at the other. They do not get into each
/// other's way there: the store lets the second follow the first.
const CLAIMS: usize = 2;

/// What became of the first of those that were reported, and why the others are to be reported again.
type Reported = (Vec<FinishResult>, Option<StoreError>);

type Pending<T> = VecDeque<Flight<T>>;

/// What is on its way, or has come before what was sent earlier.
pub(crate) enum Flight<T> {
    Flying(Pin<Box<dyn Future<Output = T> + Send>>),
    Landed(T),
}

/// Reports and claims go their own ways: neither waits for the other.
pub(crate) struct Talk {
    messenger: Arc<Messenger>,
    began_at: Duration,
    /// Whether anything is claimed at all.
    pub(crate) claims: bool,
    /// Nothing has been said yet.
    pub(crate) begins: bool,
    /// How many runs had ended when reports were taken last.
    pub(crate) ends_by_report: u64,
    /// Every claim got all that it asked for.
    pub(crate) there_is_more: bool,
    pub(crate) reporting: Pending<(Vec<FinishedRun>, Reported)>,
    /// With how many were asked for.
    pub(crate) claiming: Pending<(usize, StoreResult<Claimed>)>,
    /// How many are asked for and have not come.
    pub(crate) asked_for: usize,
    pub(crate) done: Exchange,
    pub(crate) not_reported: Option<StoreError>,
    pub(crate) not_claimed: Option<StoreError>,
}

impl Talk {
    pub(crate) fn new(messenger: Messenger, claims: bool, now: Duration) -> Self {
        Self {
            messenger: Arc::new(messenger),
            began_at: now,
            claims,
            begins: true,
            ends_by_report: 0,
            there_is_more: true,
            reporting: VecDeque::new(),
            claiming: VecDeque::new(),
            asked_for: 0,
            done: Exchange::default(),
            not_reported: None,
            not_claimed: None,
        }
    }

    /// Whether more may be said.
    pub(crate) fn has_time(&self, now: Duration) -> bool {
        let failed = self.not_reported.is_some() || self.not_claimed.is_some();
        !failed && now.saturating_sub(self.began_at) < LONG
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_over(&self) -> bool {
        self.reporting.is_empty() && self.claiming.is_empty()
    }

    /// Whether another report may be sent: one at a time, so that what ends meanwhile goes together.
    pub(crate) fn may_report(&self) -> bool {
        self.reporting.is_empty()
    }

    pub(crate) fn report(&mut self, reports: Vec<FinishedRun>) {
        let messenger = Arc::clone(&self.messenger);
        self.reporting.push_back(Flight::Flying(Box::pin(async move {
            let answer = messenger.report(&reports).await;
            (reports, answer)
        })));
    }

    /// Whether another claim may be sent.
    pub(crate) fn may_claim(&self) -> bool {
        self.claims && self.claiming.len() < CLAIMS
    }

    pub(crate) fn claim(&mut self, limit: usize) {
        let messenger = Arc::clone(&self.messenger);
        self.asked_for += limit;
        self.claiming.push_back(Flight::Flying(Box::pin(async move { (limit, messenger.claim(limit).await) })));
    }

    /// What a claim brought: how many jobs, and when the next one that a rate keeps back may start.
    pub(crate) fn hear_claim(&mut self, limit: usize, answer: StoreResult<(usize, Option<Duration>)>) {
        self.asked_for -= limit;
        match answer {
            Ok((jobs, more_in)) => {
                self.there_is_more &= jobs >= limit;
                self.done.claimed += jobs;
                // Of two that were kept back by rates, the one that may start first.
                self.done.more_in = self.done.more_in.into_iter().chain(more_in).min();
            }
            Err(error) => {
                self.there_is_more = false;
                self.not_claimed = Some(error);
            }
        }
    }
}

/// The next answer to what is on its way, in the order in which it was sent: what was claimed first stood before the rest
/// in its queue, and is started before it. For ever when nothing is on its way.
pub(crate) async fn next_of<T>(pending: &mut Pending<T>) -> T {
    std::future::poll_fn(|cx| {
        for flight in pending.iter_mut() {
            if let Flight::Flying(future) = flight
                && let Poll::Ready(answer) = future.as_mut().poll(cx)
            {
                *flight = Flight::Landed(answer);
            }
        }
        match pending.pop_front() {
            Some(Flight::Landed(answer)) => Poll::Ready(answer),
            Some(flying) => {
                pending.push_front(flying);
                Poll::Pending
            }
            None => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn c05_the_answers_to_claims_are_taken_in_the_order_in_which_they_were_sent() {
        let (first, hear_first) = oneshot::channel();
        let (second, hear_second) = oneshot::channel();
        let flying = |hear: oneshot::Receiver<u8>| Flight::Flying(Box::pin(async move { hear.await.unwrap() }));
        let mut pending = Pending::from([flying(hear_first), flying(hear_second)]);
        second.send(2).unwrap();
        let early = tokio::time::timeout(Duration::ZERO, next_of(&mut pending)).await;
        assert!(early.is_err(), "what was sent first has not come");
        first.send(1).unwrap();
        assert_eq!((next_of(&mut pending).await, next_of(&mut pending).await), (1, 2));
        assert!(pending.is_empty());
    }
}
