//! Secrets: 256 random bits with a prefix to find them by; only a hash is ever stored, compared in constant time.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use punctual_core::access::SecretHash;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What every API token begins with, so that scanners for leaked secrets know one.
pub const TOKEN_MARK: &str = "punctual_";

/// A secret that was just made. It is shown once and kept nowhere.
#[derive(Clone)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// A new API token: `punctual_<prefix>_<256 random bits>`.
    pub fn new_token() -> Result<Self, getrandom::Error> {
        let prefix = format!("{:012x}", u64::from_be_bytes(random::<8>()?) >> 16);
        Ok(Self(format!("{TOKEN_MARK}{prefix}_{}", URL_SAFE_NO_PAD.encode(random::<32>()?))))
    }

    /// A new session's secret.
    pub fn new_session() -> Result<Self, getrandom::Error> {
        Ok(Self(URL_SAFE_NO_PAD.encode(random::<32>()?)))
    }

    /// The text, to be shown to its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is stored of it.
    pub fn hash(&self) -> SecretHash {
        hash(&self.0)
    }

    /// What a token is found by.
    pub fn prefix(&self) -> Option<&str> {
        prefix_of(&self.0)
    }
}

/// The prefix in the text of a token, if it looks like one.
pub fn prefix_of(token: &str) -> Option<&str> {
    let (prefix, rest) = token.strip_prefix(TOKEN_MARK)?.split_once('_')?;
    (!prefix.is_empty() && prefix.len() <= 32 && !rest.is_empty()).then_some(prefix)
}

/// SHA-256: a secret with 256 bits of chance needs no slow hash.
pub fn hash(text: &str) -> SecretHash {
    Sha256::digest(text.as_bytes()).into()
}

/// The fingerprint of a request, for idempotency.
pub(crate) fn fingerprint(parts: &[&[u8]]) -> SecretHash {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        sha.update(part);
    }
    sha.finalize().into()
}

/// What a browser must send back beside its cookie: made from the cookie's secret, so that it need not be stored.
pub(crate) fn csrf_of(session: &str) -> String {
    URL_SAFE_NO_PAD.encode(fingerprint(&[b"csrf", session.as_bytes()]))
}

/// Whether two hashes are equal, in a time that does not tell where they differ.
pub fn same(one: &SecretHash, other: &SecretHash) -> bool {
    one.ct_eq(other).into()
}

/// The same for two texts: their hashes are compared, so that not even their lengths are told.
pub(crate) fn same_text(one: &str, other: &str) -> bool {
    same(&hash(one), &hash(other))
}

fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c12_a_token_has_256_random_bits_and_a_prefix_to_find_it_by() {
        let (one, two) = (Secret::new_token().unwrap(), Secret::new_token().unwrap());
        assert_ne!(one.reveal(), two.reveal());
        let prefix = one.prefix().unwrap();
        assert_eq!((prefix.len(), one.reveal().len()), (12, TOKEN_MARK.len() + 12 + 1 + 43));
        assert!(!format!("{one:?}").contains(prefix), "a secret is not shown by accident");
    }

    #[test]
    fn c12_what_is_no_token_has_no_prefix() {
        for text in ["", "punctual_", "punctual_abc", "punctual_abc_", "other_abc_def", "punctual__def"] {
            assert_eq!(prefix_of(text), None, "{text}");
        }
    }

    #[test]
    fn c12_parts_of_a_request_cannot_be_shifted_into_each_other() {
        assert_ne!(fingerprint(&[b"ab", b"c"]), fingerprint(&[b"a", b"bc"]));
        assert!(same_text("a", "a") && !same_text("a", "b"));
    }
}
