//! Freezing a store: nothing is started any more, or nothing is written at all, until it is thawed.
//!
//! The database itself refuses, by triggers that are there only while a freeze is in force: they bind every node and
//! every program, whatever its version, and cost nothing at any other time.

use crate::store::{StoreError, StoreResult};
use crate::words::words;
use async_trait::async_trait;
use jiff::Timestamp;

words! {
    /// How much a freeze refuses.
    pub enum FreezeLevel as "level of a freeze" {
        /// Nothing fires and nothing is claimed; what runs may end, and everything else works.
        Starts = "starts",
        /// Nothing is written; reading works.
        Writes = "writes",
    }
}

/// A freeze that is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freeze {
    /// How much it refuses.
    pub level: FreezeLevel,
    /// Why, and what to do about it, in words that follow "the store is frozen: ".
    pub why: String,
    /// Since when it has this level.
    pub since: Timestamp,
}

/// Why a store is not brought to a newer schema: while it is moved, that stays as the other side knows it.
pub fn too_old_and_frozen(freeze: &Freeze, schema: i64) -> StoreError {
    let why = format!(
        "{}; its schema is still {schema}, and is not changed meanwhile: finish that, or give it up, with the version of \
         punctual that has begun it, and upgrade then",
        freeze.why
    );
    StoreError::Frozen { why }
}

/// The part of the store port that freezes and thaws.
#[async_trait]
pub trait Freezing: Send + Sync {
    /// The freeze that is in force.
    async fn frozen(&self) -> StoreResult<Option<Freeze>>;

    /// Freezes the store, or gives the freeze that is in force another level and reason. Waits for what is being
    /// written, so that whoever is answered knows that nothing of the kind comes after.
    async fn freeze(&self, level: FreezeLevel, why: &str) -> StoreResult<Freeze>;

    /// Lets everything go on. A store that is not frozen stays as it is.
    async fn thaw(&self) -> StoreResult<()>;
}
