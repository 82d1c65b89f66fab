//! Execution grants: durable permission to run graphs, checked by one function on both sides (A02, A09).

use crate::id::GrantId;
use crate::invalid::Invalid;
use crate::run::ErrorCode;
use jiff::Timestamp;

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
    /// Since when it is revoked; the row stays.
    pub revoked_at: Option<Timestamp>,
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

/// Whether a graph may be run now: existence, revocation, expiry, scope, in this order.
///
/// ```
/// use punctual_core::{grant, run::ErrorCode};
/// let now = "2026-03-01T00:00:00Z".parse().unwrap();
/// assert_eq!(grant::check(None, "flow:etl", now), Err(ErrorCode::GrantMissing));
/// ```
pub fn check(grant: Option<&Grant>, graph_id: &str, now: Timestamp) -> Result<(), ErrorCode> {
    let grant = grant.ok_or(ErrorCode::GrantMissing)?;
    if grant.revoked_at.is_some_and(|at| at <= now) {
        return Err(ErrorCode::GrantRevoked);
    }
    if grant.expires_at.is_some_and(|at| at <= now) {
        return Err(ErrorCode::GrantExpired);
    }
    if !grant.scopes.iter().any(|scope| scope.covers(graph_id)) {
        return Err(ErrorCode::ScopeDenied);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(scopes: &[&str]) -> Grant {
        Grant {
            id: GrantId(uuid::Uuid::nil()),
            owner: "ada".into(),
            billing_account: "acme".into(),
            scopes: scopes.iter().map(|s| s.parse().unwrap()).collect(),
            expires_at: None,
            revoked_at: None,
        }
    }

    #[test]
    fn a09_grant_matrix() {
        let now = Timestamp::from_second(1000).unwrap();
        let earlier = Some(Timestamp::from_second(999).unwrap());
        let later = Some(Timestamp::from_second(1001).unwrap());
        let one = grant(&["graph:execute:g1"]);
        assert_eq!(check(Some(&one), "g1", now), Ok(()));
        assert_eq!(check(Some(&one), "g2", now), Err(ErrorCode::ScopeDenied));
        assert_eq!(check(Some(&grant(&["graph:execute:*"])), "g2", now), Ok(()));
        assert_eq!(
            check(Some(&Grant { expires_at: Some(now), ..one.clone() }), "g1", now),
            Err(ErrorCode::GrantExpired)
        );
        assert_eq!(check(Some(&Grant { expires_at: later, ..one.clone() }), "g1", now), Ok(()));
        assert_eq!(check(Some(&Grant { revoked_at: earlier, ..one }), "g1", now), Err(ErrorCode::GrantRevoked));
    }

    #[test]
    fn a09_other_spellings_are_no_scopes() {
        for text in ["", "graph:execute:", "graph:*", "graph:execute:a*", "execute:graph:g1"] {
            assert!(text.parse::<Scope>().is_err(), "{text}");
        }
    }
}
