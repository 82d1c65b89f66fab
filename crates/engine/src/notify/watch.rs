//! Watching the whole: any node notices that schedules are overdue, or that the database's clock jumped, and says so.

use super::{NotifyOptions, Telling};
use crate::lease::HeldLease;
use jiff::{SignedDuration, Timestamp, Unit};
use punctual_core::health::Overdue;
use punctual_core::store::StoreResult;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// What the two clocks may differ by from one look to the next without anybody being told.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(5);

/// The most overdue schedules that are counted.
const COUNTED: usize = 1000;

/// Compares the store's clock with the node's own, which never jumps.
#[derive(Debug, Default)]
struct Watcher {
    last: Option<(Timestamp, Duration)>,
}

impl Watcher {
    /// Notes what the store's clock showed when it was asked at one instant of the node's own clock and answered at
    /// another; says by how much it has jumped since the last look. A slow answer is no jump.
    fn look(&mut self, shown: Timestamp, asked_at: Duration, heard_at: Duration) -> Option<SignedDuration> {
        let slow = SignedDuration::try_from(heard_at.saturating_sub(asked_at)).unwrap_or(SignedDuration::MAX);
        let last = self.last.replace((shown, heard_at));
        let (before, at) = last?;
        let own = SignedDuration::try_from(heard_at.saturating_sub(at)).unwrap_or(SignedDuration::MAX);
        let jumped = shown.duration_since(before) - own;
        (jumped.abs() > TOLERANCE + slow).then_some(jumped)
    }
}

/// Goes on until the lease is lost.
pub(super) async fn run(telling: Telling, options: NotifyOptions) {
    let mut watcher = Watcher::default();
    let mut ticks = interval(options.watch);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match watch_once(&telling, &options, &mut watcher).await {
            Ok(()) => {}
            Err(error) if HeldLease::is_over(&error) => return,
            // Whoever cannot reach the store is not the one who could say that others do not.
            Err(error) => tracing::warn!("failed to watch the whole: {error}"),
        }
    }
}

async fn watch_once(telling: &Telling, options: &NotifyOptions, watcher: &mut Watcher) -> StoreResult<()> {
    let asked_at = telling.uptime.now();
    let shown = telling.store.now().await?;
    if let Some(by) = watcher.look(shown, asked_at, telling.uptime.now()) {
        // What the answers took is no part of it.
        let by = by.round(Unit::Second).unwrap_or(by);
        let seconds = by.as_secs();
        tracing::error!(seconds, "the database's clock jumped; schedules may fire late, or wait for it to come round");
        options.health.note_jump(shown, by);
        telling.store.tell_clock_jumped_if_leased(telling.lease.lease, by).await?;
        telling.news.ring();
    }
    let by = SignedDuration::try_from(options.overdue_after).unwrap_or(SignedDuration::MAX);
    let overdue = telling.store.overdue_schedules(by, COUNTED).await?;
    let first = overdue.first().cloned();
    let noticed = first.map(|first| Overdue { schedules: overdue.len(), longest: first.name, since: first.due_at });
    if options.health.note_overdue(noticed.clone()) {
        if let Some(Overdue { schedules, longest, since }) = noticed {
            tracing::error!(schedules, %longest, %since, "schedules are overdue: nobody fires, or firing cannot keep up");
        } else {
            tracing::warn!("no schedule is overdue any more");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n02_a_jump_of_the_stores_clock_is_noticed_and_slow_answers_are_not_taken_for_one() {
        let mut watcher = Watcher::default();
        let (own, shown) = (Duration::from_secs, |second| Timestamp::from_second(second).expect("a time"));
        assert_eq!(watcher.look(shown(1000), own(10), own(10)), None, "the first look compares with nothing");
        assert_eq!(watcher.look(shown(1015), own(25), own(25)), None);
        assert_eq!(watcher.look(shown(1045), own(40), own(40)), Some(SignedDuration::from_secs(15)));
        assert_eq!(watcher.look(shown(1060), own(55), own(55)), None, "once is enough");
        assert_eq!(watcher.look(shown(1000), own(70), own(70)), Some(SignedDuration::from_secs(-75)));
        assert_eq!(watcher.look(shown(1015), own(85), own(100)), None, "it may have been read at any time in between");
    }
}
