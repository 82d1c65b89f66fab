//! The hash of a request: SHA-256 of its canonical form (RFC 8785), so that two spellings of one request are one.

use punctual_core::access::SecretHash;
use punctual_core::id::GrantId;
use punctual_core::invalid::Invalid;
use punctual_core::json::Json;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// What decides whether two requests are the same.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    graph_id: &'a str,
    execution_grant_id: String,
    input: Value,
}

/// The hash of what is asked for.
pub(crate) fn request_hash(graph: &str, grant: GrantId, input: &Json) -> Result<SecretHash, Invalid> {
    let unfit = |error: &dyn std::fmt::Display| {
        Invalid::new("input", format!("has no canonical form: {error}")).remedy("send numbers that a double can hold")
    };
    let input: Value = serde_json::from_str(input.as_str()).map_err(|error| unfit(&error))?;
    let payload = Payload { graph_id: graph, execution_grant_id: grant.to_string(), input };
    let text = serde_json_canonicalizer::to_vec(&payload).map_err(|error| unfit(&error))?;
    Ok(Sha256::digest(&text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        serde_json_canonicalizer::to_string(&serde_json::from_str::<Value>(text).unwrap()).unwrap()
    }

    /// The rules of RFC 8785, section 3.2.
    #[test]
    fn a13_the_canonical_form_follows_the_rfc() {
        let numbers = "[333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001, -0.0, 1e21, 100, 1e-7]";
        assert_eq!(canonical(numbers), "[333333333.3333333,1e+30,4.5,0.002,1e-27,0,1e+21,100,1e-7]");
        let text = r#""\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/""#;
        assert_eq!(canonical(text), "\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"");
        assert_eq!(canonical("[ null , true,\tfalse ]"), "[null,true,false]");
        // Sorted by UTF-16 code units: the emoji, a surrogate pair, comes before the Hebrew presentation form.
        let keys = r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#;
        assert_eq!(canonical(keys), "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}");
    }

    #[test]
    fn a13_one_request_in_two_spellings_has_one_hash() {
        let grant = GrantId(uuid::Uuid::from_u128(1));
        let hash = |graph, grant, text: &str| request_hash(graph, grant, &Json::parse("input", text).unwrap()).unwrap();
        let one = hash("flow:a", grant, r#"{"b":1.0,"a":[1,2]}"#);
        assert_eq!(one, hash("flow:a", grant, " {\"a\" : [1, 2],\"b\":1 }"));
        assert_ne!(one, hash("flow:a", grant, r#"{"b":1,"a":[2,1]}"#));
        assert_ne!(one, hash("flow:b", grant, r#"{"b":1,"a":[1,2]}"#));
        assert_ne!(one, hash("flow:a", GrantId(uuid::Uuid::from_u128(2)), r#"{"b":1,"a":[1,2]}"#));
    }
}
