//! What is believed of a token, and what is not.

use super::*;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};

/// A key made for this test alone, in PKCS #8; it opens nothing.
const RSA_PRIVATE: &str = "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQDGTuHz/gUztwMaiv0ae7eWAscie9d6/2BI8Ft7H5ZtSdvgitx8KsAz2BssgE\
    T856d9RGTcQvb+S5XBHzaJPlCJ7cYXp7mcGUHRc8IB8sckh5bictC65sGnH6FuMgWEi9Aoy3VnuCW9Zvp5E5Ibh0yQEySG3Kcj1J/+OkwsGGtH\
    anp/1dfj89wsn/TjEWyJi1fHRk4kZaD6grACUx2fI19hmnWQ1y0rWqHYIqDpFVxgum46zvZSniKT8xGv+APaWzijSPSWjpG6CYJCLmYqbt14r+\
    BF1vIDnb8K7+FZr39B8bNpoqPS8jTOjFJUs7Mwqdrf+dTy2mqHKr3I2YTC4/2hAgMBAAECggEANZ5uicJNNcZuGGcsOFTrNqxZm4FQqfkS16Xl\
    lkzcJ4Co6vWg2BHXFi2Aa2/jN16LcttjSgrxLaDSRP1jiYhHzoNz5EF9di9+FFvwQQabwczHh0L0HRT3l3B9/YWY6FXFWsJoZDruOV/2qXYZM0\
    hJ80q5vZ07s/xxphOtNN8FYrF1wnl/Ta0NlqxgoYNBiWYIsD5e/JezsOajKxClI1Zk37O9naQjjfIAPY2h/anpuy4OFP9kQKRBpMiCaEhy2pFm\
    a0LaEf5/Bw7AeM99iCZaO4qY7SMROmadCyHoNdfOrp/k6cLTXBB9bwrCQMEWauwR91BHpx5bXiowflNsb7ncYQKBgQDkmO0jSqTdFjjkdpXnz9\
    PuffN3rh8JGlqsm4nGP5K1/PPBItozZpI1RkOjsRHrI1uQ+ArV59evk18OHP/PvO196Kh3HuDrKjte9s5fehgB8qsNTrSkAZboP214HGSRTQB9\
    mJ4nSqHz14Kyp94NK8FWkIw2vZl3InowW7a2aTwROwKBgQDeFHTffUa+T7MfeqRjX1evPAvFFTYP1ZrzxjJliBTC9n+t0mXmqykST8ritFEAmH\
    J+cdeGeEpJugvDEkrpEBNzWfzCDKWpQVyIqRuDhASIg0pznoueI24r8u+U7j0cU0XCreLlQpDWwfxQVuni3p3mYpTQJTerNXRbX+dcO0i+0wKB\
    gQDgRay56ByxD4FHm5RctohdPlKkAz9Npf55w6s6xdpBE+dtf60Fqscc30+zBCDpSWonY0L2M5xnFDW42fibreZuldjZ7YCLF4biF0/HWji9iI\
    AK8UHGegy81KWopmqAJ0So9BeNwun7Gl+OuaTf1SK8s9nsRr2OpVOtp/0tHzegSwKBgQDIowCn/R2RyJ2S3hFwee3VMlGL38r06U3R2Ykkc5oW\
    Pe9CUiigCpjTo2UwBip8eD5QgHdwVHMBQuVnerpU76Iy/+S8SALO9G8uRGHIItiZoMv9wwpud6IMcLIFAmwRkCYhaUnpSIdkjuNujedGgUt0nj\
    HGDynJM0UJXI7ApArn4wKBgGaNVMz7/6tX7evprmeVR8uOmCfNaQDoBq27pHXvTRAz+/o150hCc4lHrmPPb/YTewKwgn1p9W+nopKvh5we0sWc\
    W0vwLfp0A6De6S7A+hIW5YjXJeFwdzeUUI3BapG19EfHZgKi/OGxWzpD0gPNpFlaTo/CBXEqRRzAUYf5hMmy";

/// Its public half.
const RSA_MODULUS: &str = "xk7h8_4FM7cDGor9Gnu3lgLHInvXev9gSPBbex-\
    WbUnb4IrcfCrAM9gbLIBE_OenfURk3EL2_kuVwR82iT5Qie3GF6e5nBlB0XPCAfLHJIeW4nLQuubBpx-\
    hbjIFhIvQKMt1Z7glvWb6eROSG4dMkBMkhtynI9Sf_jpMLBhrR2p6f9XX4_PcLJ_04xFsiYtXx0ZOJGWg-oKwAlMdnyNfYZp1kNctK1qh2CKg6\
    RVcYLpuOs72Up4ik_MRr_gD2ls4o0j0lo6RugmCQi5mKm7deK_gRdbyA52_Cu_hWa9_QfGzaaKj0vI0zoxSVLOzMKna3_nU8tpqhyq9yNmEwuP\
    9oQ";

const NOW: f64 = 1_800_000_000.0;

fn text(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rsa() -> RsaKeyPair {
    let der = base64::engine::general_purpose::STANDARD.decode(RSA_PRIVATE).unwrap();
    RsaKeyPair::from_pkcs8(&der).unwrap()
}

fn shared() -> Vec<u8> {
    vec![7; 32]
}

fn rules() -> JwtRules {
    let set = json!({ "keys": [
        { "kid": "rsa", "kty": "RSA", "alg": "RS256", "use": "sig", "n": RSA_MODULUS, "e": "AQAB" },
        { "kid": "shared", "kty": "oct", "alg": "HS256", "k": text(shared()) },
    ] });
    JwtRules::from_jwks(&set.to_string(), "https://issuer", "punctual").unwrap()
}

fn claims() -> Value {
    json!({ "iss": "https://issuer", "aud": "punctual", "exp": NOW + 60.0, "sub": "worker" })
}

fn signed_rsa(header: &Value, claims: &Value) -> String {
    let message = format!("{}.{}", text(header.to_string()), text(claims.to_string()));
    let key = rsa();
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature).unwrap();
    format!("{message}.{}", text(signature))
}

fn signed_shared(header: &Value, claims: &Value, key: &[u8]) -> String {
    let message = format!("{}.{}", text(header.to_string()), text(claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message.as_bytes());
    format!("{message}.{}", text(tag))
}

fn rs256() -> Value {
    json!({ "alg": "RS256", "kid": "rsa", "typ": "JWT" })
}

fn with(mut base: Value, field: &str, value: Value) -> Value {
    base[field] = value;
    base
}

#[test]
fn a12_a_good_token_is_believed_and_says_who_it_is() {
    let rules = rules();
    let good = rules.check(&signed_rsa(&rs256(), &claims()), NOW).unwrap();
    assert_eq!((good.sub.as_deref(), good.owner.as_deref()), (Some("worker"), None));
    let header = json!({ "alg": "HS256", "kid": "shared", "typ": "at+jwt" });
    let bound = with(with(claims(), "owner", json!("ada")), "aud", json!(["other", "punctual"]));
    let good = rules.check(&signed_shared(&header, &bound, &shared()), NOW).unwrap();
    assert_eq!(good.owner.as_deref(), Some("ada"), "two keys are valid at once");
}

#[test]
fn a12_the_algorithm_belongs_to_the_key() {
    let rules = rules();
    for alg in ["none", "None", "HS256", "RS512", ""] {
        let header = with(rs256(), "alg", json!(alg));
        let unsigned = format!("{}.{}.", text(header.to_string()), text(claims().to_string()));
        assert!(rules.check(&unsigned, NOW).is_err(), "{alg} without a signature");
        assert!(rules.check(&signed_rsa(&header, &claims()), NOW).is_err(), "{alg} with the right signature");
    }
    // The classic: the public key, which everybody knows, as the key of an HMAC.
    let header = with(rs256(), "alg", json!("HS256"));
    let modulus = URL_SAFE_NO_PAD.decode(RSA_MODULUS).unwrap();
    for key in [RSA_MODULUS.as_bytes(), modulus.as_slice()] {
        assert!(rules.check(&signed_shared(&header, &claims(), key), NOW).is_err());
    }
    let as_shared = json!({ "alg": "RS256", "kid": "shared", "typ": "JWT" });
    assert!(rules.check(&signed_rsa(&as_shared, &claims()), NOW).is_err());
}

#[test]
fn a12_claims_that_are_not_for_us_are_refused() {
    let rules = rules();
    for (wrong, told) in [
        (with(claims(), "exp", json!(NOW - 31.0)), "expired"),
        (with(claims(), "exp", Value::Null), "expired"),
        (with(claims(), "aud", json!("other")), "somebody else"),
        (with(claims(), "aud", json!([])), "somebody else"),
        (with(claims(), "aud", Value::Null), "somebody else"),
        (with(claims(), "iss", json!("https://issuer/")), "issuer"),
        (with(claims(), "iss", Value::Null), "issuer"),
        (with(claims(), "nbf", json!(NOW + 31.0)), "not valid yet"),
        (with(claims(), "exp", json!("never")), "shape"),
    ] {
        let refused = rules.check(&signed_rsa(&rs256(), &wrong), NOW).unwrap_err();
        assert!(refused.contains(told), "{wrong}: {refused}");
    }
    let late = with(claims(), "exp", json!(NOW - 29.0));
    assert!(rules.check(&signed_rsa(&rs256(), &late), NOW).is_ok(), "clocks may be a little apart");
}

#[test]
fn a12_keys_are_found_by_their_exact_name_and_come_from_nowhere_else() {
    let rules = rules();
    for kid in [json!("RSA"), json!("rsa "), json!("../rsa"), json!(""), Value::Null] {
        assert!(rules.check(&signed_rsa(&with(rs256(), "kid", kid.clone()), &claims()), NOW).is_err(), "{kid}");
    }
    // A key that the token brings along, or an address to get one from, is not looked at.
    let own = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
    let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": text(own.public_key()) });
    let header = json!({ "alg": "EdDSA", "kid": "mine", "typ": "JWT", "jwk": jwk, "jku": "https://evil/jwks",
                         "x5u": "https://evil/x5u" });
    let message = format!("{}.{}", text(header.to_string()), text(claims().to_string()));
    let token = format!("{message}.{}", text(own.sign(message.as_bytes())));
    assert!(rules.check(&token, NOW).is_err());
    for (header, told) in
        [(with(rs256(), "crit", json!(["b64"])), "extension"), (with(rs256(), "typ", Value::Null), "type")]
    {
        let refused = rules.check(&signed_rsa(&header, &claims()), NOW).unwrap_err();
        assert!(refused.contains(told), "{refused}");
    }
}

#[test]
fn a12_what_is_no_token_is_refused() {
    let rules = rules();
    let good = signed_rsa(&rs256(), &claims());
    let (message, signature) = good.rsplit_once('.').unwrap();
    let other = text(with(claims(), "sub", json!("admin")).to_string());
    let swapped = format!("{}.{other}.{signature}", message.split('.').next().unwrap());
    let cut = format!("{message}.{}", &signature[..signature.len() - 4]);
    for wrong in ["", ".", "..", "a.b.c", message, &format!("{good}.x"), &swapped, &cut, &"x.".repeat(TOKEN_MAX)] {
        assert!(rules.check(wrong, NOW).is_err());
    }
}

#[test]
fn a12_elliptic_curves_are_verified_too() {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let p256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
    let ed = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
    let point = p256.public_key().as_ref();
    let set = json!({ "keys": [
        { "kid": "p", "kty": "EC", "alg": "ES256", "crv": "P-256", "x": text(&point[1..33]), "y": text(&point[33..]) },
        { "kid": "e", "kty": "OKP", "alg": "EdDSA", "crv": "Ed25519", "x": text(ed.public_key()) },
    ] });
    let rules = JwtRules::from_jwks(&set.to_string(), "https://issuer", "punctual").unwrap();
    for (alg, kid) in [("ES256", "p"), ("EdDSA", "e")] {
        let header = json!({ "alg": alg, "kid": kid, "typ": "JWT" });
        let message = format!("{}.{}", text(header.to_string()), text(claims().to_string()));
        let signature = match alg {
            "ES256" => p256.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
            _ => ed.sign(message.as_bytes()).as_ref().to_vec(),
        };
        assert!(rules.check(&format!("{message}.{}", text(&signature)), NOW).is_ok(), "{alg}");
        assert!(rules.check(&format!("{message}.{}", text(&signature[1..])), NOW).is_err(), "{alg}");
    }
}

#[test]
fn a12_a_set_of_keys_that_is_not_sound_is_refused() {
    let key = |fields: Value| json!({ "keys": [fields] }).to_string();
    for wrong in [
        "[]".to_owned(),
        json!({ "keys": [] }).to_string(),
        key(json!({ "kty": "RSA", "alg": "RS256", "n": RSA_MODULUS, "e": "AQAB" })),
        key(json!({ "kid": "a", "kty": "RSA", "n": RSA_MODULUS, "e": "AQAB" })),
        key(json!({ "kid": "a", "kty": "RSA", "alg": "HS256", "n": RSA_MODULUS, "e": "AQAB" })),
        key(json!({ "kid": "a", "kty": "oct", "alg": "HS256", "k": text([1; 31]) })),
        key(json!({ "kid": "a", "kty": "oct", "alg": "none", "k": text([1; 32]) })),
        key(json!({ "kid": "a", "kty": "EC", "alg": "ES256", "crv": "P-256", "x": "AA", "y": "AA" })),
    ] {
        let refused = JwtRules::from_jwks(&wrong, "i", "a").unwrap_err();
        assert!(refused.field == "service_jwks" && refused.remedy.is_some(), "{wrong}");
    }
    let sound = key(json!({ "kid": "a", "kty": "oct", "alg": "HS256", "k": text([1; 32]) }));
    assert!(JwtRules::from_jwks(&sound, "", "a").is_err() && JwtRules::from_jwks(&sound, "i", "").is_err());
    assert!(JwtRules::from_jwks(&sound, "i", "a").is_ok());
}
