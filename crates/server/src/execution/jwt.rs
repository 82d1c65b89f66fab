//! JSON web tokens of services: the algorithm belongs to the key and not to the token (A12, RFC 8725).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use punctual_core::invalid::Invalid;
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How far two clocks may be apart, in seconds.
const LEEWAY_SECS: f64 = 30.0;

/// The longest token that is looked at.
const TOKEN_MAX: usize = 16 * 1024;

/// The shortest shared key, in bytes: as long as its hash.
const SHARED_KEY_MIN: usize = 32;

/// Whose tokens are believed. Several keys are valid at once, so that they can be rotated.
#[derive(Debug, Clone)]
pub struct JwtRules {
    issuer: String,
    audience: String,
    keys: BTreeMap<String, Key>,
}

#[derive(Clone)]
enum Key {
    Hs256(hmac::Key),
    Rs256 { n: Vec<u8>, e: Vec<u8> },
    Es256(Vec<u8>),
    EdDsa(Vec<u8>),
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.algorithm())
    }
}

/// A key as a JWK set writes it; what else stands there is for others.
#[derive(Deserialize)]
struct Jwk {
    kid: Option<String>,
    kty: String,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    k: Option<String>,
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    // Whatever it is, it must be understood, and nothing is.
    crit: Option<serde_json::Value>,
}

/// What a token says about its bearer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Claims {
    iss: Option<String>,
    aud: Option<Audience>,
    exp: Option<f64>,
    nbf: Option<f64>,
    /// Who it is.
    pub(crate) sub: Option<String>,
    /// Whose grants it may use; all when absent.
    pub(crate) owner: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl JwtRules {
    /// Reads a JWK set (RFC 7517). Each key must name itself (`kid`) and its algorithm (`alg`): RS256, ES256, `EdDSA`,
    /// or HS256 with a key of 32 bytes or more.
    pub fn from_jwks(text: &str, issuer: &str, audience: &str) -> Result<Self, Invalid> {
        let refused = |problem: String| Invalid::new("service_jwks", problem).remedy("write a JWK set, RFC 7517");
        if issuer.is_empty() || audience.is_empty() {
            return Err(Invalid::new("service_jwt", "an issuer and an audience are needed")
                .remedy("give --service-issuer and --service-audience"));
        }
        let set: JwkSet = serde_json::from_str(text).map_err(|error| refused(format!("is not one: {error}")))?;
        let mut keys = BTreeMap::new();
        for jwk in set.keys {
            let kid = jwk.kid.clone().unwrap_or_default();
            let key = Key::read(&jwk).map_err(|problem| refused(format!("the key `{kid}` {problem}")))?;
            if kid.is_empty() || keys.insert(kid.clone(), key).is_some() {
                return Err(refused(format!("the kid `{kid}` is missing, or there twice")));
            }
        }
        if keys.is_empty() {
            return Err(refused("holds no key".to_owned()));
        }
        Ok(Self { issuer: issuer.to_owned(), audience: audience.to_owned(), keys })
    }

    /// What the token says, if it is to be believed at an instant; otherwise what is wrong with it, for the log.
    pub(crate) fn check(&self, token: &str, now_secs: f64) -> Result<Claims, &'static str> {
        if token.len() > TOKEN_MAX {
            return Err("is too long");
        }
        let mut parts = token.split('.');
        let (Some(head), Some(body), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("has not three parts");
        };
        let header: Header =
            decoded(head).and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or("has no header")?;
        if !header.typ.as_deref().is_some_and(|typ| ["jwt", "at+jwt"].contains(&typ.to_ascii_lowercase().as_str())) {
            return Err("is of another type");
        }
        if header.crit.is_some() {
            return Err("wants an extension that is not known");
        }
        let key = header.kid.and_then(|kid| self.keys.get(&kid)).ok_or("names a key that is not known")?;
        if header.alg != key.algorithm() {
            return Err("names another algorithm than its key has");
        }
        let signature = decoded(signature).ok_or("has no signature")?;
        if !key.verifies(&token.as_bytes()[..head.len() + 1 + body.len()], &signature) {
            return Err("has a wrong signature");
        }
        let claims: Claims =
            decoded(body).and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or("has claims of a wrong shape")?;
        self.check_claims(&claims, now_secs)?;
        Ok(claims)
    }

    fn check_claims(&self, claims: &Claims, now_secs: f64) -> Result<(), &'static str> {
        if claims.iss.as_deref() != Some(&self.issuer) {
            return Err("is of another issuer");
        }
        let ours = match &claims.aud {
            Some(Audience::One(audience)) => *audience == self.audience,
            Some(Audience::Several(audiences)) => audiences.contains(&self.audience),
            None => false,
        };
        if !ours {
            return Err("is meant for somebody else");
        }
        if !claims.exp.is_some_and(|exp| now_secs < exp + LEEWAY_SECS) {
            return Err("is expired, or never expires");
        }
        match claims.nbf {
            Some(nbf) if now_secs < nbf - LEEWAY_SECS => Err("is not valid yet"),
            _ => Ok(()),
        }
    }
}

fn decoded(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

impl Key {
    fn read(jwk: &Jwk) -> Result<Self, &'static str> {
        let part =
            |text: &Option<String>| text.as_deref().and_then(decoded).ok_or("lacks a part, or it is no base64url");
        let curve = jwk.crv.as_deref().unwrap_or_default();
        match (jwk.kty.as_str(), jwk.alg.as_deref().unwrap_or_default(), curve) {
            ("oct", "HS256", _) => {
                let key = part(&jwk.k)?;
                if key.len() < SHARED_KEY_MIN {
                    return Err("is shorter than 32 bytes");
                }
                Ok(Self::Hs256(hmac::Key::new(hmac::HMAC_SHA256, &key)))
            }
            ("RSA", "RS256", _) => Ok(Self::Rs256 { n: part(&jwk.n)?, e: part(&jwk.e)? }),
            ("EC", "ES256", "P-256") => {
                let point = [vec![4], part(&jwk.x)?, part(&jwk.y)?].concat();
                if point.len() == 65 { Ok(Self::Es256(point)) } else { Err("is no point of P-256") }
            }
            ("OKP", "EdDSA", "Ed25519") => {
                let key = part(&jwk.x)?;
                if key.len() == 32 { Ok(Self::EdDsa(key)) } else { Err("is no key of Ed25519") }
            }
            _ => Err("must name its algorithm: HS256, RS256, ES256 or EdDSA, with the type of key that it needs"),
        }
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Hs256(_) => "HS256",
            Self::Rs256 { .. } => "RS256",
            Self::Es256(_) => "ES256",
            Self::EdDsa(_) => "EdDSA",
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Hs256(key) => hmac::verify(key, message, signature).is_ok(),
            Self::Rs256 { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok()
            }
            Self::Es256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
            Self::EdDsa(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests;
