//! A store that is frozen: noticed and told once, and looked at again from time to time.

use punctual_core::store::StoreError;
use std::time::Duration;

/// How often a frozen store is looked at: whoever thaws it should not have to wait.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// What has been said about a store that is frozen, so that it is not said again and again.
#[derive(Debug, Default)]
pub(crate) struct Frozen {
    why: Option<String>,
}

impl Frozen {
    /// Looks at an error: true when the store is frozen, which is told when it is news.
    pub(crate) fn is_why(&mut self, what: &str, error: &StoreError) -> bool {
        let StoreError::Frozen { why } = error else { return false };
        if self.why.as_ref() != Some(why) {
            tracing::warn!("{what} waits, because the store is frozen: {why}");
            self.why = Some(why.clone());
        }
        true
    }

    /// Notes that the store did as it was asked.
    pub(crate) fn is_over(&mut self, what: &str) {
        if self.why.take().is_some() {
            tracing::info!("{what} goes on: the store is thawed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c12_a_freeze_is_told_apart_from_a_store_that_fails() {
        let mut frozen = Frozen::default();
        assert!(!frozen.is_why("firing", &StoreError::LostLease));
        let why = |why: &str| StoreError::Frozen { why: why.to_owned() };
        assert!(frozen.is_why("firing", &why("a")) && frozen.is_why("firing", &why("b")));
        assert_eq!(frozen.why.as_deref(), Some("b"));
        frozen.is_over("firing");
        assert_eq!(frozen.why, None);
    }
}
