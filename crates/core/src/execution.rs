//! What the execution service keeps: requests by their keys, graph runs, receipts and billing accounts (A13, A14, A18).
//!
//! A graph run has a driver, the process that carries it to its end and beats meanwhile. When the beats stand still on
//! the monotonic clock of somebody who waits, he takes over: the provider knows the run by its id and starts no second
//! one, so that nothing runs twice.

use crate::access::SecretHash;
use crate::grant::{Bounded, Denied, Grant, Wanted, check};
use crate::graph::{GraphEnd, GraphId, GraphRun, Used};
use crate::id::{DriverId, GrantId, GraphRunId};
use crate::invalid::Invalid;
use crate::json::Json;
use crate::limits::Bucket;
use crate::name;
use crate::store::StoreResult;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// The longest idempotency key, in bytes.
pub const KEY_MAX: usize = 255;

/// The most units that one run is charged in.
const UNITS_MAX: usize = 64;

/// A run of a graph is one attempt of it: a retry is a run of its own.
pub const ATTEMPT: u32 = 1;

/// A graph run that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewExecution {
    /// Under which key it is done once.
    pub key: String,
    /// The hash of what was asked for, in its canonical form.
    pub hash: SecretHash,
    /// What is to run.
    pub graph: GraphId,
    /// By which permission.
    pub grant_id: GrantId,
    /// Whose work it is, where whoever asks has said so.
    pub owner: Option<String>,
    /// What it is given.
    pub input: Json,
    /// The trace it belongs to: 32 hex digits.
    pub trace_id: String,
    /// What the caller calls himself; written down, and not trusted.
    pub service: Option<String>,
    /// Who carries it to its end.
    pub driver: DriverId,
}

impl NewExecution {
    /// Refuses what the stores could not keep.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.key.is_empty() || self.key.len() > KEY_MAX {
            return Err(Invalid::new("key", format!("is empty, or longer than {KEY_MAX} bytes")).remedy("use a UUID"));
        }
        name::check_text("key", &self.key)?;
        name::check_text("trace_id", &self.trace_id)?;
        name::check_text("service", self.service.as_deref().unwrap_or_default())?;
        self.input.check("input")
    }

    /// What the grant has left after this run, if it allows it.
    pub fn allowed_by(&self, grant: Option<&Grant>, now: Timestamp) -> Result<(u64, Option<Bucket>), Bounded> {
        let graph = self.graph.to_string();
        let wanted = Wanted { owner: self.owner.as_deref(), graph: Some(&graph) };
        check(grant, wanted, now).map_err(Bounded::UsedUp)?;
        grant.map_or(Ok((1, None)), |grant| grant.begin_run(now))
    }
}

/// A graph run, and the request that it was begun by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Under which key it was asked for.
    pub key: String,
    /// The hash of what was asked for.
    pub hash: SecretHash,
    /// The run's identity.
    pub run_id: GraphRunId,
    /// What runs.
    pub graph: GraphId,
    /// By which permission.
    pub grant_id: GrantId,
    /// Whose run it is.
    pub owner: String,
    /// Who pays.
    pub billing_account: String,
    /// By which key of his the provider charges.
    pub virtual_key: String,
    /// What it was given.
    pub input: Json,
    /// The trace it belongs to.
    pub trace_id: String,
    /// What the caller called himself.
    pub service: Option<String>,
    /// Who carries it to its end; nobody after its provider could not be reached.
    pub driver: Option<DriverId>,
    /// How often the driver has beaten.
    pub beats: i64,
    /// When it was begun.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// What is answered to everybody who asks with the key, once it has ended.
    pub answer: Option<String>,
}

impl Execution {
    /// What its provider is asked for.
    pub fn graph_run(&self) -> GraphRun {
        GraphRun {
            run_id: self.run_id,
            graph: self.graph.clone(),
            input: self.input.clone(),
            virtual_key: self.virtual_key.clone(),
            trace_id: self.trace_id.clone(),
            grant_id: self.grant_id,
            owner: self.owner.clone(),
        }
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// The run is begun, and the caller is its driver.
    Mine(Box<Execution>),
    /// A request with this key has been here before.
    There(Box<Execution>),
    /// The grant does not allow it; nothing was written.
    Denied(Denied),
    /// The grant allows it in so long a time; nothing was written.
    TooFast(SignedDuration),
}

impl From<Bounded> for Begun {
    fn from(bounded: Bounded) -> Self {
        match bounded {
            Bounded::UsedUp(denied) => Self::Denied(denied),
            Bounded::TooFast(wait) => Self::TooFast(wait),
        }
    }
}

/// What was charged for a graph run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// For which run.
    pub run_id: GraphRunId,
    /// For which attempt of it; see [`ATTEMPT`].
    pub attempt: u32,
    /// What was used, and how much.
    pub used: Used,
}

/// What is charged for a run: each unit once, whatever the provider says twice.
pub fn charged(end: &GraphEnd) -> Vec<Used> {
    let mut seen = BTreeSet::new();
    let sound = |used: &&Used| name::check(&used.unit).is_ok() && seen.insert(used.unit.clone());
    end.used.iter().filter(sound).take(UNITS_MAX).cloned().collect()
}

/// Who pays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BillingAccount {
    /// Whose it is: two owners may use the same name.
    pub owner: String,
    /// What it is called.
    pub name: String,
    /// The key that providers charge by.
    pub virtual_key: String,
    /// Since when there is one.
    pub created_at: Timestamp,
}

/// A new account's key, from chance.
pub fn virtual_key(chance: [u128; 2]) -> String {
    format!("vk_{:032x}{:032x}", chance[0], chance[1])
}

/// What an account used of one unit for one graph in a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// For which graph.
    pub graph: String,
    /// In which unit.
    pub unit: String,
    /// How much.
    pub quantity: u64,
    /// In how many runs.
    pub runs: u64,
}

/// The records of the execution service. No other part of Punctual writes them, and it writes no others (A14).
#[async_trait]
pub trait Executions: Send + Sync {
    /// Begins a graph run under a key, if there is none yet and the grant allows it: the request, the run, and what the
    /// grant has left, together.
    async fn begin_execution(&self, new: NewExecution) -> StoreResult<Begun>;

    /// What is stored under a key.
    async fn execution(&self, key: &str) -> StoreResult<Option<Execution>>;

    /// Says that the driver is alive; whether it is the driver still.
    async fn beat_execution(&self, run: GraphRunId, driver: DriverId) -> StoreResult<bool>;

    /// Takes over a run whose driver has not moved since it was seen so; `None` when it has, or the run has ended.
    async fn take_over_execution_if_still(&self, seen: &Execution, driver: DriverId) -> StoreResult<Option<Execution>>;

    /// Leaves a run to whoever asks next: what became of it is not known. Nothing happens when somebody else drives it.
    async fn release_execution(&self, run: GraphRunId, driver: DriverId) -> StoreResult<()>;

    /// Ends a run: how it ended, what is charged, and the answer, together; whether the driver was the driver still.
    async fn end_execution_if_driven(
        &self, run: GraphRunId, driver: DriverId, end: GraphEnd, answer: String,
    ) -> StoreResult<bool>;

    /// What was charged for a run, by unit.
    async fn receipts(&self, run: GraphRunId) -> StoreResult<Vec<Receipt>>;

    /// Makes a billing account with its default key; one that is there stays as it is.
    async fn create_billing_account(&self, owner: &str, name: &str) -> StoreResult<BillingAccount>;

    /// One account.
    async fn billing_account(&self, owner: &str, name: &str) -> StoreResult<Option<BillingAccount>>;

    /// Accounts in order of owner and name, after one of them; of one owner, or of all.
    async fn billing_accounts(
        &self, owner: Option<&str>, after: Option<(&str, &str)>, limit: usize,
    ) -> StoreResult<Vec<BillingAccount>>;

    /// What an account used from an instant on and before another, by graph and unit.
    async fn usage(&self, owner: &str, account: &str, from: Timestamp, until: Timestamp) -> StoreResult<Vec<Usage>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a18_a_unit_is_charged_once_whatever_the_provider_says() {
        let used = |unit: &str, quantity| Used { unit: unit.into(), quantity };
        let end = GraphEnd {
            failure: None,
            output: None,
            references: std::collections::BTreeMap::new(),
            used: vec![used("run", 1), used("token", 7), used("run", 9), used("", 3), used("a\0b", 3)],
        };
        assert_eq!(charged(&end), [used("run", 1), used("token", 7)]);
    }

    #[test]
    fn a03_a_virtual_key_is_all_chance() {
        assert_eq!(virtual_key([1, u128::MAX]).len(), 3 + 64);
        assert_ne!(virtual_key([1, 2]), virtual_key([2, 1]));
    }
}
