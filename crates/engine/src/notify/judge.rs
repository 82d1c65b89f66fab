//! Taking in the news: the pass that judges them by the rules, and the loop that takes one after the other.

use super::{NewsBell, Telling};
use crate::lease::HeldLease;
use crate::phase::Phase;
use punctual_core::notify::port::Judged;
use punctual_core::store::{Lease, Store, StoreResult};
use std::time::Duration;
use tokio::time::sleep;

/// Notices that one transaction takes in.
const STEP: usize = 500;

/// How long news that come in a burst are gathered, so that they are taken in together.
const GATHERED: Duration = Duration::from_secs(1);

/// How long a store that fails is left alone.
const SETBACK: Duration = Duration::from_secs(1);

/// Takes in everything there is, and looks for what is wrong where a rule asks for it and it is time.
pub async fn judge_once(store: &dyn Store, lease: Lease) -> StoreResult<Judged> {
    let mut all = Judged::default();
    loop {
        let _phase = Phase::enter("judge");
        let mut judged = store.judge_news_if_leased(lease, STEP, None).await?;
        add(&mut all, &judged);
        if let Some(look) = &judged.look {
            let findings = store.look(look).await?;
            judged = store.judge_news_if_leased(lease, STEP, Some(findings)).await?;
            add(&mut all, &judged);
        }
        if !judged.more {
            return Ok(Judged { again_in: judged.again_in, ..all });
        }
    }
}

fn add(all: &mut Judged, judged: &Judged) {
    all.notices += judged.notices;
    all.opened += judged.opened;
    all.messages += judged.messages;
}

/// Goes on until the lease is lost.
pub(super) async fn run(telling: Telling, messages: NewsBell) {
    let Telling { store, lease, meter, sweep, news, .. } = telling;
    let mut plans = store.plan_changes();
    loop {
        let wait = match judge_once(&*store, lease.lease).await {
            Ok(judged) => {
                if judged.notices > 0 {
                    meter.notices_judged(judged.notices as u64);
                }
                if judged.opened > 0 {
                    meter.alerts_opened(judged.opened as u64);
                }
                if judged.messages > 0 {
                    messages.ring();
                }
                let again_in = judged.again_in.map(|wait| Duration::try_from(wait).unwrap_or_default());
                again_in.map_or(sweep, |wait| wait.min(sweep))
            }
            Err(error) if HeldLease::is_over(&error) => return,
            Err(error) => {
                tracing::warn!("failed to take in the news: {error}");
                SETBACK
            }
        };
        tokio::select! {
            () = sleep(wait) => {}
            () = news.heard() => sleep(GATHERED).await,
            () = plans.next() => {}
        }
    }
}
