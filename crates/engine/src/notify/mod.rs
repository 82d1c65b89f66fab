//! Telling people what happened: the rules are judged, messages are sent, and the whole is watched.
//!
//! None of this waits for a place at the desk: whoever is told that nothing gets done must not be told by the same hands
//! that are full.

#[cfg(feature = "http")]
pub mod courier;
mod deliver;
mod judge;
mod watch;

pub use judge::judge_once;

use crate::clock::Uptime;
use crate::lease::HeldLease;
use punctual_core::health::Health;
use punctual_core::meter::Meter;
use punctual_core::notify::message::Courier;
use punctual_core::store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// How a node tells people.
#[derive(Clone)]
pub struct NotifyOptions {
    /// Who carries the messages; a node without one judges the rules, and leaves the sending to others.
    pub courier: Option<Arc<dyn Courier>>,
    /// Where is noted what is wrong with the whole.
    pub health: Arc<Health>,
    /// How long after it was due a schedule counts as overdue.
    pub overdue_after: Duration,
    /// From one look at the whole to the next.
    pub watch: Duration,
}

impl Default for NotifyOptions {
    fn default() -> Self {
        Self {
            courier: None,
            health: Arc::default(),
            overdue_after: Duration::from_secs(60),
            watch: Duration::from_secs(15),
        }
    }
}

impl std::fmt::Debug for NotifyOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sends = self.courier.is_some();
        f.debug_struct("NotifyOptions").field("sends", &sends).field("watch", &self.watch).finish_non_exhaustive()
    }
}

/// Rings when there may be news in the outbox: whatever was written by this node is taken in without waiting.
#[derive(Debug, Clone, Default)]
pub struct NewsBell(Arc<Notify>);

impl NewsBell {
    /// There may be news.
    pub fn ring(&self) {
        self.0.notify_one();
    }

    async fn heard(&self) {
        self.0.notified().await;
    }
}

/// What the loops of one node share.
#[derive(Clone)]
pub(crate) struct Telling {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) lease: HeldLease,
    pub(crate) meter: Arc<dyn Meter>,
    pub(crate) uptime: Uptime,
    /// The longest sleep.
    pub(crate) sweep: Duration,
    pub(crate) news: NewsBell,
}

/// Starts what tells people.
pub(crate) fn start(loops: &mut JoinSet<()>, telling: &Telling, options: &NotifyOptions) {
    let messages = NewsBell::default();
    loops.spawn(judge::run(telling.clone(), messages.clone()));
    if let Some(courier) = &options.courier {
        loops.spawn(deliver::run(telling.clone(), Arc::clone(courier), messages));
    }
    loops.spawn(watch::run(telling.clone(), options.clone()));
}
