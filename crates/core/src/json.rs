//! JSON documents kept exactly as given: digits, key order and all.

use crate::invalid::Invalid;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The largest input or output, in bytes of JSON text.
pub const JSON_MAX_BYTES: usize = 1 << 20;

/// A JSON text that both stores return byte for byte.
///
/// Numbers keep every digit because they are never turned into floating point; `\u0000` is refused because
/// PostgreSQL cannot hold it and one such row would poison the batch it stands in.
#[derive(Debug, Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Checks a text that came from outside.
    ///
    /// ```
    /// use punctual_core::json::Json;
    /// assert_eq!(Json::parse("input", "{\"n\":12345678901234567890123}").unwrap().as_str(), "{\"n\":12345678901234567890123}");
    /// assert!(Json::parse("input", "\"a\\u0000b\"").is_err());
    /// ```
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        if text.len() > JSON_MAX_BYTES {
            return Err(too_large(field, text.len()));
        }
        let raw: Box<RawValue> = serde_json::from_str(text)
            .map_err(|error| Invalid::new(field, format!("is not JSON: {error}")).remedy("send valid JSON"))?;
        Self::checked(field, raw)
    }

    /// Turns a value of the program into JSON.
    pub fn from_value<T: Serialize + ?Sized>(field: &str, value: &T) -> Result<Self, Invalid> {
        let raw = serde_json::value::to_raw_value(value)
            .map_err(|error| Invalid::new(field, format!("cannot be written as JSON: {error}")))?;
        Self::checked(field, raw)
    }

    /// Turns what a run returned into JSON. NUL is replaced, because the work is done and its record must be kept; the
    /// size is the caller's to judge.
    ///
    /// ```
    /// use punctual_core::json::Json;
    /// assert_eq!(Json::from_output(&("a\0b", r"\u0000")).unwrap().as_str(), r#"["a\ufffdb","\\u0000"]"#);
    /// ```
    pub fn from_output<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let mut text = serde_json::to_string(value)?;
        while let Some(at) = nul_at(&text) {
            text.replace_range(at + 2..at + 6, "fffd");
        }
        RawValue::from_string(text).map(Self)
    }

    fn checked(field: &str, raw: Box<RawValue>) -> Result<Self, Invalid> {
        let document = Self(raw);
        document.check(field)?;
        Ok(document)
    }

    /// Refuses what the stores do not keep, wherever the document came from.
    pub fn check(&self, field: &str) -> Result<(), Invalid> {
        if self.as_str().len() > JSON_MAX_BYTES {
            return Err(too_large(field, self.as_str().len()));
        }
        if has_nul(self.as_str()) {
            return Err(Invalid::new(field, "holds the character \\u0000, which no text column can keep")
                .remedy("remove it, or send the bytes in base64"));
        }
        Ok(())
    }

    /// Trusts a text that this store wrote itself; anything else is reported by the reader of the row.
    pub fn from_stored(text: String) -> Result<Self, Invalid> {
        RawValue::from_string(text)
            .map(Self)
            .map_err(|error| Invalid::new("stored JSON", format!("cannot be read: {error}")))
    }

    /// `null`.
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self(RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads it as a type of the program.
    pub fn to<T: for<'de> Deserialize<'de>>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

fn too_large(field: &str, bytes: usize) -> Invalid {
    Invalid::new(field, format!("has {bytes} bytes; at most {JSON_MAX_BYTES} are allowed"))
        .remedy("store the data elsewhere and pass a reference to it")
}

/// Whether an escaped NUL stands in a JSON text that has already been checked to be JSON.
///
/// Only an odd run of backslashes before `u0000` escapes it: `\\u0000` is a backslash and five letters.
fn has_nul(text: &str) -> bool {
    nul_at(text).is_some()
}

fn nul_at(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let escapes = text.match_indices("\\u0000").map(|(at, _)| at);
    escapes.into_iter().find(|at| {
        let slashes_before = bytes[..*at].iter().rev().take_while(|b| **b == b'\\').count();
        slashes_before % 2 == 0
    })
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl Default for Json {
    fn default() -> Self {
        Self::empty_object()
    }
}

impl Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <Box<RawValue>>::deserialize(deserializer)?;
        Self::checked("input", raw).map_err(serde::de::Error::custom)
    }
}

/// The fields of an object in the order in which they are written, each to the letter.
#[derive(Debug)]
pub struct Fields(pub Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> serde::de::Visitor<'de> for Reader {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c12_nul_is_refused_and_its_look_alike_is_kept() {
        assert!(Json::parse("input", r#"{"a":["x\u0000"]}"#).is_err());
        assert!(Json::parse("input", r#"{"\\\u0000":1}"#).is_err());
        assert!(Json::parse("input", r#"{"a":"\\u0000"}"#).is_ok());
    }

    #[test]
    fn c12_ten_megabytes_are_refused_with_the_limit_named() {
        let text = format!("\"{}\"", "x".repeat(10_000_000));
        let refused = Json::parse("input", &text).unwrap_err();
        assert!(refused.to_string().contains("1048576"), "{refused}");
    }
}
