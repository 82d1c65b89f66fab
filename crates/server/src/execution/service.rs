//! Which services may call: shared secrets, several at once so that they can be rotated, or tokens of an issuer (A12).

use super::jwt::JwtRules;
use crate::auth::{address, bearer};
use crate::problem::{Answered, Problem};
use crate::secret;
use crate::state::AppState;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use punctual_core::access::SecretHash;
use punctual_core::invalid::Invalid;
use std::net::IpAddr;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use uuid::Uuid;

/// The shortest secret, in bytes.
pub const SECRET_MIN: usize = 32;

/// The longest name of a service that is written down, in characters.
const NAME_MAX: usize = 64;

/// Who may call the execution service. Nobody, unless something is said.
#[derive(Clone, Default)]
pub struct ServiceAccess {
    secrets: Vec<SecretHash>,
    jwt: Option<JwtRules>,
}

impl std::fmt::Debug for ServiceAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServiceAccess({} secrets, jwt: {:?})", self.secrets.len(), self.jwt)
    }
}

impl ServiceAccess {
    /// Lets in whoever knows one of these secrets; only their hashes are kept.
    pub fn with_secrets<S: AsRef<str>>(secrets: &[S]) -> Result<Self, Invalid> {
        if secrets.iter().any(|secret| secret.as_ref().len() < SECRET_MIN) {
            return Err(Invalid::new("service_secrets", format!("one has fewer than {SECRET_MIN} characters"))
                .remedy("make one with `openssl rand -hex 32`"));
        }
        Ok(Self { secrets: secrets.iter().map(|text| secret::hash(text.as_ref())).collect(), jwt: None })
    }

    /// Lets in the bearers of an issuer's tokens as well.
    #[must_use]
    pub fn with_jwt(self, rules: JwtRules) -> Self {
        Self { jwt: Some(rules), ..self }
    }

    fn identify(&self, given: &str, now: Timestamp) -> Option<ServiceCaller> {
        let hash = secret::hash(given);
        let place = place_of(&hash, &self.secrets, |one, other| one.ct_eq(other));
        if place > 0 {
            return Some(ServiceCaller { id: limited_by(&hash), owner: None });
        }
        // Text that does not look like a token is not taken for one.
        let rules = self.jwt.as_ref().filter(|_| given.contains('.'))?;
        match rules.check(given, now.as_duration().as_secs_f64()) {
            Ok(claims) => {
                let subject = claims.sub.unwrap_or_default();
                Some(ServiceCaller { id: limited_by(&secret::hash(&subject)), owner: claims.owner })
            }
            Err(wrong) => {
                tracing::info!("a service's token {wrong}");
                None
            }
        }
    }
}

/// Where a hash stands in a list, from 1; 0 when it does not. Every one of them is compared, whatever was found before,
/// so that the time tells neither whether nor where.
fn place_of(given: &SecretHash, known: &[SecretHash], mut same: impl FnMut(&SecretHash, &SecretHash) -> Choice) -> u32 {
    let numbered = (1u32..).zip(known);
    numbered.fold(0, |place, (number, hash)| u32::conditional_select(&place, &number, same(given, hash)))
}

/// By which key the requests of a caller are counted.
fn limited_by(hash: &SecretHash) -> Uuid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Uuid::from_bytes(bytes)
}

/// A service that may call.
#[derive(Debug, Clone)]
pub(crate) struct ServiceCaller {
    id: Uuid,
    /// Whose grants it may use; all when `None`.
    pub(crate) owner: Option<String>,
}

/// Lets only services in, and no more often than they may. What opens the API of users opens nothing here.
pub(crate) async fn authenticate(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    match admit(&state, request.headers(), address(request.extensions())) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

fn admit(state: &AppState, headers: &HeaderMap, from: Option<IpAddr>) -> Answered<ServiceCaller> {
    let access = &state.shared.settings.service_access;
    let Some(caller) = access.identify(bearer(headers).unwrap_or_default(), Timestamp::now()) else {
        from.map_or(Ok(()), |from| state.shared.limits.stranger(from))?;
        let told = "the service's secret or token is not valid";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "not_authenticated", told).remedy(
            "send Authorization: Bearer with a service secret or a token of the issuer, not with an API token",
        ));
    };
    state.shared.limits.service(caller.id)?;
    Ok(caller)
}

/// What the caller calls himself: written down and never trusted, so it is cut and cleaned.
pub(crate) fn service_name(headers: &HeaderMap) -> Option<String> {
    let given = headers.get("x-service-name")?.to_str().ok()?;
    let sound = |c: char| if c.is_ascii_alphanumeric() || "-_.:/@ ".contains(c) { c } else { '_' };
    let name: String = given.trim().chars().take(NAME_MAX).map(sound).collect();
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(count: u8) -> Vec<SecretHash> {
        (0..count).map(|number| secret::hash(&format!("secret {number}"))).collect()
    }

    /// What an attacker could measure is how much is compared: it is the same for every guess.
    #[test]
    fn a12_every_secret_is_compared_whatever_is_given() {
        let known = hashes(5);
        for (given, expected) in [("secret 0", 1), ("secret 2", 3), ("secret 4", 5), ("secret 9", 0), ("", 0)] {
            let mut compared = Vec::new();
            let found = place_of(&secret::hash(given), &known, |one, other| {
                compared.push(*other);
                one.ct_eq(other)
            });
            assert_eq!((found, compared), (expected, known.clone()), "{given}");
        }
    }

    #[test]
    fn a12_two_secrets_are_valid_at_once_and_short_ones_never() {
        let (old, new) = ("o".repeat(SECRET_MIN), "n".repeat(SECRET_MIN));
        let access = ServiceAccess::with_secrets(&[old.as_str(), &new]).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        assert!(access.identify(&old, now).is_some() && access.identify(&new, now).is_some());
        for wrong in ["", "o", &old[1..], &format!("{old}x")] {
            assert!(access.identify(wrong, now).is_none(), "{wrong}");
        }
        assert!(ServiceAccess::with_secrets(&[old.as_str(), "short"]).is_err());
        assert!(ServiceAccess::default().identify("", now).is_none(), "nobody, unless something is said");
        assert!(!format!("{access:?}").contains(&old));
    }

    #[test]
    fn a12_the_name_of_a_service_is_cut_and_cleaned() {
        let name = |text: &'static [u8]| {
            let mut headers = HeaderMap::new();
            headers.insert("x-service-name", axum::http::HeaderValue::from_bytes(text).unwrap());
            service_name(&headers)
        };
        assert_eq!(name(b"worker-7").as_deref(), Some("worker-7"));
        assert_eq!(name(b"a\"b<c>\t").as_deref(), Some("a_b_c_"));
        assert_eq!((name(b"  "), name(b"\xff")), (None, None));
        assert_eq!(name(&[b'x'; 200]).unwrap().len(), NAME_MAX);
    }
}
