//! Execution grants: durable permission to run graphs, checked by one function on both sides (A02, A09).

use crate::id::GrantId;
use crate::invalid::Invalid;
use crate::limits::{Bucket, Rate};
use crate::name;
use crate::run::ErrorCode;
use crate::store::StoreResult;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

/// A durable permission, never a user's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its identity.
    pub id: GrantId,
    /// Who gave it.
    pub owner: String,
    /// Who pays (A03).
    pub billing_account: String,
    /// What it covers.
    pub scopes: Vec<Scope>,
    /// Until when; `None` means until revoked.
    pub expires_at: Option<Timestamp>,
    /// How many graph runs it allows at all; `None` means any number.
    pub max_runs: Option<u32>,
    /// How many graph runs it allows in a while.
    pub rate: Option<Rate>,
    /// When it was given.
    pub created_at: Timestamp,
    /// Since when it is revoked; the row stays.
    pub revoked_at: Option<Timestamp>,
    /// How many graph runs were begun under it.
    pub runs: u64,
    /// What is in the bucket of its rate.
    pub bucket: Option<Bucket>,
}

/// A grant that is to be stored (A02).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGrant {
    /// Who gives it.
    pub owner: String,
    /// Who pays.
    pub billing_account: String,
    /// What it covers.
    pub scopes: Vec<Scope>,
    /// Until when; `None` means until revoked.
    pub expires_at: Option<Timestamp>,
    /// How many graph runs it allows at all; `None` means any number.
    pub max_runs: Option<u32>,
    /// How many graph runs it allows in a while.
    pub rate: Option<Rate>,
}

impl NewGrant {
    /// Refuses what the stores could not keep, and what would allow nothing.
    pub fn validate(&self) -> Result<(), Invalid> {
        let at_grant = |field: &str, e: Invalid| Invalid { field: format!("grant.{field}"), ..e };
        let named = |field: &str, text: &str| name::check(text).map_err(|e| at_grant(field, e));
        named("owner", &self.owner)?;
        named("billing_account", &self.billing_account)?;
        if self.scopes.is_empty() || self.scopes.len() > 64 {
            return Err(Invalid::new("grant.scopes", "are none, or more than 64")
                .remedy("name what the grant covers, such as graph:execute:*"));
        }
        self.scopes.iter().try_for_each(|scope| name::check_text("grant.scopes", &scope.to_string()))?;
        if self.max_runs == Some(0) {
            return Err(Invalid::new("grant.max_runs", "0 would allow nothing")
                .remedy("use 1 or more, or leave it out to allow any number"));
        }
        self.rate
            .map_or(Ok(()), |rate| rate.validate().map_err(|e| Invalid { field: format!("grant.{}", e.field), ..e }))
    }

    /// The grant as it is stored.
    pub fn made(self, id: GrantId, now: Timestamp) -> Grant {
        let Self { owner, billing_account, scopes, expires_at, max_runs, rate } = self;
        let bucket = rate.map(|rate| rate.bucket(now));
        Grant {
            id,
            owner,
            billing_account,
            scopes,
            expires_at,
            max_runs,
            rate,
            created_at: now,
            revoked_at: None,
            runs: 0,
            bucket,
        }
    }
}

/// What a grant covers: `graph:execute:{graphId}` or `graph:execute:*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Every graph.
    AnyGraph,
    /// One graph.
    Graph(String),
}

impl Scope {
    fn covers(&self, graph_id: &str) -> bool {
        match self {
            Self::AnyGraph => true,
            Self::Graph(id) => id == graph_id,
        }
    }
}

impl std::str::FromStr for Scope {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text.strip_prefix("graph:execute:") {
            Some("*") => Ok(Self::AnyGraph),
            Some(id) if !id.is_empty() && !id.contains('*') => Ok(Self::Graph(id.to_owned())),
            _ => Err(Invalid::new("scopes", format!("`{}` is not a scope", text.chars().take(64).collect::<String>()))
                .remedy("use graph:execute:{graphId} or graph:execute:*")),
        }
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AnyGraph => f.write_str("graph:execute:*"),
            Self::Graph(id) => write!(f, "graph:execute:{id}"),
        }
    }
}

/// What somebody wants to do under a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Whose work it is: a grant of another owner is not there for it. `None` where whoever asks may act for all owners.
    pub owner: Option<&'a str>,
    /// Which graph is to run; `None` for work that a graph has started, which needs a grant that is good and no scope.
    pub graph: Option<&'a str>,
}

/// Why a grant does not allow something: a code for machines, and the same in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct Denied {
    /// One of the codes about grants.
    pub code: ErrorCode,
    /// What is wrong, and what to do.
    pub words: String,
}

impl Denied {
    fn new(code: ErrorCode, words: impl Into<String>) -> Self {
        Self { code, words: words.into() }
    }
}

/// Whether something may be done now: existence, owner, revocation, expiry, scope, in this order. What is somebody
/// else's is not there.
///
/// ```
/// use punctual_core::grant::{self, Wanted};
/// use punctual_core::run::ErrorCode;
/// let now = "2026-03-01T00:00:00Z".parse().unwrap();
/// let wanted = Wanted { owner: Some("ada"), graph: Some("flow:etl") };
/// assert_eq!(grant::check(None, wanted, now).unwrap_err().code, ErrorCode::GrantMissing);
/// ```
pub fn check(grant: Option<&Grant>, wanted: Wanted<'_>, now: Timestamp) -> Result<(), Denied> {
    let own = |grant: &&Grant| wanted.owner.is_none_or(|owner| owner == grant.owner);
    let Some(grant) = grant.filter(own) else {
        return Err(Denied::new(
            ErrorCode::GrantMissing,
            "there is no such grant; make one, or name one of the same owner",
        ));
    };
    if let Some(at) = grant.revoked_at.filter(|at| *at <= now) {
        let words = format!("the grant {} was revoked at {at}; make a new one", grant.id);
        return Err(Denied::new(ErrorCode::GrantRevoked, words));
    }
    if let Some(at) = grant.expires_at.filter(|at| *at <= now) {
        let words = format!("the grant {} was good until {at}; make a new one", grant.id);
        return Err(Denied::new(ErrorCode::GrantExpired, words));
    }
    match wanted.graph {
        Some(graph) if !grant.scopes.iter().any(|scope| scope.covers(graph)) => {
            let words = format!("the grant {} does not cover {graph}; it needs graph:execute:{graph}", grant.id);
            Err(Denied::new(ErrorCode::ScopeDenied, words))
        }
        _ => Ok(()),
    }
}

/// Why no further graph run may begin under a grant that is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bounded {
    /// All its runs are used up.
    UsedUp(Denied),
    /// It allows the next run in so long a time.
    TooFast(SignedDuration),
}

impl Grant {
    /// What is left of the grant after one more run: the number of runs, and what is in the bucket. Counted in the
    /// transaction that begins the run, and nowhere else.
    pub fn begin_run(&self, now: Timestamp) -> Result<(u64, Option<Bucket>), Bounded> {
        if self.max_runs.is_some_and(|most| self.runs >= most.into()) {
            let words =
                format!("the grant {} allowed {} runs, and all are used up; make a new one", self.id, self.runs);
            return Err(Bounded::UsedUp(Denied::new(ErrorCode::GrantExpired, words)));
        }
        let Some(rate) = self.rate else { return Ok((self.runs + 1, self.bucket)) };
        let bucket = rate.refilled(self.bucket.unwrap_or_else(|| rate.bucket(now)), now);
        if rate.tokens(bucket) == 0 {
            // A clock that was turned back brings nothing until it has caught up.
            let behind = bucket.at.duration_since(now);
            return Err(Bounded::TooFast(rate.next_token_in(bucket).saturating_add(behind)));
        }
        Ok((self.runs + 1, Some(Bucket { level: bucket.level - rate.cost(), ..bucket })))
    }
}

/// Grants in the store.
#[async_trait]
pub trait Grants: Send + Sync {
    /// Stores a grant; with it its billing account, if it is the first that names it (A03).
    async fn create_grant(&self, grant: NewGrant) -> StoreResult<Grant>;

    /// One grant, revoked or not.
    async fn grant(&self, id: GrantId) -> StoreResult<Option<Grant>>;

    /// Grants, latest made first, before a grant; of one owner, or of all.
    async fn grants(&self, owner: Option<&str>, before: Option<GrantId>, limit: usize) -> StoreResult<Vec<Grant>>;

    /// Ends a grant: nothing begins under it any more. Revoking twice changes nothing.
    async fn revoke_grant(&self, id: GrantId) -> StoreResult<Grant>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn grant(scopes: &[&str]) -> Grant {
        let new = NewGrant {
            owner: "ada".into(),
            billing_account: "acme".into(),
            scopes: scopes.iter().map(|s| s.parse().unwrap()).collect(),
            expires_at: None,
            max_runs: None,
            rate: None,
        };
        new.made(GrantId(uuid::Uuid::nil()), at(0))
    }

    fn code(grant: Option<&Grant>, owner: Option<&str>, graph: Option<&str>) -> Option<ErrorCode> {
        check(grant, Wanted { owner, graph }, at(1000)).err().map(|denied| denied.code)
    }

    #[test]
    fn a09_grant_matrix() {
        let one = grant(&["graph:execute:g1"]);
        let of = |grant: &Grant, graph| code(Some(grant), Some("ada"), Some(graph));
        assert_eq!(code(None, Some("ada"), Some("g1")), Some(ErrorCode::GrantMissing));
        assert_eq!(of(&one, "g1"), None);
        assert_eq!(of(&one, "g2"), Some(ErrorCode::ScopeDenied));
        assert_eq!(of(&grant(&["graph:execute:*"]), "g2"), None);
        let expires = |second| Grant { expires_at: Some(at(second)), ..one.clone() };
        assert_eq!((of(&expires(1000), "g1"), of(&expires(1001), "g1")), (Some(ErrorCode::GrantExpired), None));
        let revoked = Grant { revoked_at: Some(at(999)), ..expires(1) };
        assert_eq!(of(&revoked, "g1"), Some(ErrorCode::GrantRevoked));
    }

    #[test]
    fn a26_a_grant_of_another_owner_is_missing_whatever_else_is_wrong_with_it() {
        let revoked = Grant { revoked_at: Some(at(1)), ..grant(&["graph:execute:g1"]) };
        assert_eq!(code(Some(&revoked), Some("eve"), Some("g2")), Some(ErrorCode::GrantMissing));
        assert_eq!(code(Some(&revoked), None, Some("g1")), Some(ErrorCode::GrantRevoked));
    }

    #[test]
    fn a09_what_a_graph_has_started_needs_no_scope_and_all_else() {
        let one = grant(&["graph:execute:g1"]);
        assert_eq!(code(Some(&one), Some("ada"), None), None);
        let revoked = Grant { revoked_at: Some(at(1)), ..one };
        assert_eq!(code(Some(&revoked), Some("ada"), None), Some(ErrorCode::GrantRevoked));
    }

    #[test]
    fn a09_runs_are_counted_and_a_rate_says_how_long_to_wait() {
        let two = Grant { max_runs: Some(2), ..grant(&["graph:execute:*"]) };
        assert_eq!(two.begin_run(at(1)), Ok((1, None)));
        let Err(Bounded::UsedUp(denied)) = (Grant { runs: 2, ..two }).begin_run(at(1)) else { panic!("used up") };
        assert_eq!(denied.code, ErrorCode::GrantExpired);
        assert!(denied.words.contains("used up"), "{denied}");
        let rate = Rate { jobs: 1, per: SignedDuration::from_secs(10), burst: 1 };
        let slow = Grant { rate: Some(rate), bucket: Some(rate.bucket(at(0))), ..grant(&["graph:execute:*"]) };
        let (runs, bucket) = slow.begin_run(at(0)).unwrap();
        let slow = Grant { runs, bucket, ..slow };
        assert_eq!(slow.begin_run(at(4)), Err(Bounded::TooFast(SignedDuration::from_secs(6))));
        assert!(slow.begin_run(at(10)).is_ok());
        let Err(Bounded::TooFast(wait)) = slow.begin_run(at(-5)) else { panic!("too fast") };
        assert_eq!(wait, SignedDuration::from_secs(15), "the clock was turned back");
    }

    #[test]
    fn a09_a_grant_that_allows_nothing_is_refused() {
        let new = |max_runs| NewGrant {
            owner: "ada".into(),
            billing_account: "acme".into(),
            scopes: vec![Scope::AnyGraph],
            expires_at: None,
            max_runs,
            rate: None,
        };
        assert_eq!(new(Some(0)).validate().unwrap_err().field, "grant.max_runs");
        assert!(new(Some(1)).validate().is_ok());
        let rate = Rate { jobs: 0, per: SignedDuration::from_secs(1), burst: 1 };
        assert_eq!(NewGrant { rate: Some(rate), ..new(None) }.validate().unwrap_err().field, "grant.rate.jobs");
    }

    #[test]
    fn a09_other_spellings_are_no_scopes() {
        for text in ["", "graph:execute:", "graph:*", "graph:execute:a*", "execute:graph:g1"] {
            assert!(text.parse::<Scope>().is_err(), "{text}");
        }
    }
}
