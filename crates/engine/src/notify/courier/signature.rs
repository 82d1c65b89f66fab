//! Signatures as the Standard Webhooks specification has them: over id, time and body, one for each secret.

use crate::targets::http::Request;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use punctual_core::id::DeliveryId;
use reqwest::header::{HeaderName, HeaderValue};
use ring::hmac;

/// How many bytes a secret has.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// What secrets may begin with, to say what they are.
const PREFIX: &str = "whsec_";

/// Who signs with every secret of a channel, so that a receiver may know the old one or the new one.
pub(super) struct Signer(Vec<hmac::Key>);

impl Signer {
    /// Takes secrets as people keep them. What is no secret is not repeated.
    pub(super) fn new(secrets: &[String]) -> Result<Self, String> {
        secrets.iter().map(|secret| key(secret)).collect::<Result<_, _>>().map(Self)
    }

    /// Puts id, time and signatures into the headers of a request.
    pub(super) fn sign(&self, request: &mut Request, id: DeliveryId, at: Timestamp) -> Result<(), String> {
        let (id, at) = (format!("msg_{id}"), at.as_second().to_string());
        let signature = self.signature(&id, &at, request.body());
        for (name, value) in [("webhook-id", id), ("webhook-timestamp", at), ("webhook-signature", signature)] {
            let value = HeaderValue::from_str(&value).map_err(|_| format!("{name} cannot be sent"))?;
            request.headers.insert(HeaderName::from_static(name), value);
        }
        Ok(())
    }

    fn signature(&self, id: &str, at: &str, body: &[u8]) -> String {
        let signed = [id.as_bytes(), b".", at.as_bytes(), b".", body].concat();
        let each = self.0.iter().map(|key| format!("v1,{}", BASE64.encode(hmac::sign(key, &signed))));
        each.collect::<Vec<_>>().join(" ")
    }
}

fn key(secret: &str) -> Result<hmac::Key, String> {
    let bytes = BASE64.decode(secret.trim().strip_prefix(PREFIX).unwrap_or(secret.trim())).ok();
    match bytes.filter(|bytes| SECRET_BYTES.contains(&bytes.len())) {
        Some(bytes) => Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes)),
        None => Err("a secret of the webhook is not 24 to 64 bytes in base64, with or without whsec_ in front; make \
                     one with `openssl rand -base64 32`"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n01_signatures_are_those_of_the_specification() {
        // The specification's own example.
        let signer = Signer::new(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned()]).unwrap();
        let signature = signer.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn n01_every_secret_signs_while_one_takes_the_place_of_another() {
        let secrets = [BASE64.encode([1; 24]), format!("whsec_{}\n", BASE64.encode([2; 64]))];
        let both = Signer::new(&secrets).unwrap().signature("a", "1", b"x");
        let each = secrets.map(|secret| Signer::new(&[secret]).unwrap().signature("a", "1", b"x"));
        assert_eq!(both, each.join(" "));
    }

    #[test]
    fn n01_what_is_no_secret_is_refused_and_not_repeated() {
        let wrong = [BASE64.encode([1; 23]), BASE64.encode([1; 65]), "hunter2 hunter2 hunter2 hunter2".to_owned()];
        for secret in wrong {
            let refused = Signer::new(std::slice::from_ref(&secret)).err().unwrap();
            assert!(refused.contains("openssl rand") && !refused.contains(&secret), "{refused}");
        }
    }
}
