//! A pass that is taken again and again: at once while there is more to do, and after that when plans change or every so
//! often.

use crate::frozen::{self, Frozen};
use punctual_core::store::{Store, StoreResult};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::sleep;

/// How long a store that fails is left alone.
const SETBACK: Duration = Duration::from_secs(1);

/// A pass under way; it answers how long it can wait for the next one, if it knows.
pub(crate) type Pass<'a> = Pin<Box<dyn Future<Output = StoreResult<Option<Duration>>> + Send + 'a>>;

/// Takes the pass for ever. `what` says what cannot go on when it fails.
pub(crate) async fn again_and_again<'a>(
    store: &'a dyn Store, every: Duration, what: &str, pass: impl Fn(&'a dyn Store) -> Pass<'a>,
) {
    let mut plans = store.plan_changes();
    let mut frozen = Frozen::default();
    loop {
        let wait = match pass(store).await {
            Ok(wait) => {
                frozen.is_over(what);
                wait.unwrap_or(every).min(every)
            }
            Err(error) if frozen.is_why(what, &error) => frozen::LOOK,
            Err(error) => {
                tracing::warn!("failed to go on with {what}: {error}");
                SETBACK
            }
        };
        tokio::select! {
            () = sleep(wait) => {}
            () = plans.next() => {}
        }
    }
}
