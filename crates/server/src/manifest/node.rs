//! A JSON document as a tree that can be compared field by field, with every digit of its numbers.

use punctual_core::json::Json;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// How deep a document is taken apart; what lies deeper is compared as it is written.
const DEEPEST: usize = 64;

/// Fields that hold what people like: in them `null` is not the same as nothing.
const FREE: [&str; 2] = ["input", "default"];

/// The fields of an object.
pub(crate) type Fields = BTreeMap<String, Node>;

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// A text.
    Text(String),
    /// A number, `true`, `false` or `null`, as it is written.
    Plain(String),
    /// A list.
    List(Vec<Node>),
    /// An object.
    Fields(Fields),
}

/// What became of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Where, such as `retry.max_attempts`.
    pub(crate) field: String,
    /// What it was, if it was there.
    pub(crate) from: Option<Node>,
    /// What it is to be, if it is to be there.
    pub(crate) to: Option<Node>,
}

impl Node {
    /// Reads a text that is JSON; anything else is nothing.
    pub(crate) fn read(text: &str) -> Self {
        serde_json::from_str::<&RawValue>(text).map_or_else(|_| Self::null(), |raw| Self::of_raw(raw, 0))
    }

    /// A value of the program.
    pub(crate) fn of(value: &impl Serialize) -> Self {
        serde_json::to_string(value).map_or_else(|_| Self::null(), |text| Self::read(&text))
    }

    pub(crate) fn null() -> Self {
        Self::Plain("null".to_owned())
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn of_raw(raw: &RawValue, depth: usize) -> Self {
        let text = raw.get();
        let taken_apart = match text.as_bytes().first() {
            Some(b'"') => parsed(text).map(Self::Text),
            Some(b'[') if depth < DEEPEST => {
                let items = parsed::<Vec<Box<RawValue>>>(text);
                items.map(|items| Self::List(items.iter().map(|item| Self::of_raw(item, depth + 1)).collect()))
            }
            Some(b'{') if depth < DEEPEST => {
                let fields = parsed::<BTreeMap<String, Box<RawValue>>>(text);
                let deeper = |(name, value): (String, Box<RawValue>)| (name, Self::of_raw(&value, depth + 1));
                fields.map(|fields| Self::Fields(fields.into_iter().map(deeper).collect()))
            }
            _ => None,
        };
        taken_apart.unwrap_or_else(|| Self::Plain(text.to_owned()))
    }

    /// The fields of an object; none of anything else.
    pub(crate) fn into_fields(self) -> Fields {
        match self {
            Self::Fields(fields) => fields,
            Self::Text(_) | Self::Plain(_) | Self::List(_) => Fields::new(),
        }
    }

    /// Whether it says nothing: `null`, an empty text, an empty list, no fields.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Plain(text) => text == "null",
            Self::List(items) => items.is_empty(),
            Self::Fields(fields) => fields.is_empty(),
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Self::Plain(text) if text == "null")
    }

    /// The document, to be stored.
    pub(crate) fn to_json(&self) -> Json {
        Json::from_value("definition", self).unwrap_or_else(|_| Json::null())
    }
}

fn parsed<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Plain(text) => match RawValue::from_string(text.clone()) {
                Ok(raw) => raw.serialize(serializer),
                Err(error) => Err(serde::ser::Error::custom(error)),
            },
            Self::List(items) => items.serialize(serializer),
            Self::Fields(fields) => fields.serialize(serializer),
        }
    }
}

/// What differs between two objects, field by field; a field that is `null` is not there, unless people give it a meaning.
pub(crate) fn differences(from: &Fields, to: &Fields) -> Vec<Difference> {
    let mut found = Vec::new();
    of_fields("", from, to, false, &mut found);
    found
}

fn of_fields(at: &str, from: &Fields, to: &Fields, exact: bool, found: &mut Vec<Difference>) {
    let names: std::collections::BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    for name in names {
        let field = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        let exact = exact || FREE.contains(&name.as_str());
        of_nodes(field, from.get(name), to.get(name), exact, found);
    }
}

fn of_nodes(field: String, from: Option<&Node>, to: Option<&Node>, exact: bool, found: &mut Vec<Difference>) {
    let there = |node: &&Node| exact || !node.is_null();
    match (from.filter(there), to.filter(there)) {
        (None, None) => {}
        (Some(from), Some(to)) if from == to => {}
        (Some(Node::Fields(from)), Some(Node::Fields(to))) => of_fields(&field, from, to, exact, found),
        (Some(Node::List(from)), Some(Node::List(to))) if from.len() == to.len() => {
            for (n, (from, to)) in from.iter().zip(to).enumerate() {
                of_nodes(format!("{field}[{n}]"), Some(from), Some(to), exact, found);
            }
        }
        (from, to) => found.push(Difference { field, from: from.cloned(), to: to.cloned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(from: &str, to: &str) -> Vec<String> {
        let fields = |text: &str| Node::read(text).into_fields();
        let word =
            |node: &Option<Node>| node.as_ref().map_or("-".to_owned(), |node| serde_json::to_string(node).unwrap());
        let line = |d: &Difference| format!("{}: {} > {}", d.field, word(&d.from), word(&d.to));
        differences(&fields(from), &fields(to)).iter().map(line).collect()
    }

    #[test]
    fn differences_are_told_field_by_field_and_to_the_last_digit() {
        let from = r#"{"a":{"n":12345678901234567890123,"same":[1,{"x":"y"}]},"list":[1,2],"gone":"x","none":null}"#;
        let to = r#"{ "list": [1, 3], "a": {"same":[1,{"x":"y"}], "n":12345678901234567890124}, "new": [] }"#;
        assert_eq!(
            told(from, to),
            [
                "a.n: 12345678901234567890123 > 12345678901234567890124",
                "gone: \"x\" > -",
                "list[1]: 2 > 3",
                "new: - > []"
            ]
        );
        assert_eq!(told(r#"{"input":null}"#, "{}"), ["input: null > -"]);
        let (from, to) = (r#"{"input":{"mode":null,"a":[null]},"mode":null}"#, r#"{"input":{"a":[null]}}"#);
        assert_eq!(told(from, to), ["input.mode: null > -"]);
        assert_eq!(told(&format!(r#"{{"job":{from}}}"#), &format!(r#"{{"job":{to}}}"#)), ["job.input.mode: null > -"]);
        assert!(told(r#"{"e":"\u00e9","f":1.50}"#, "{\"f\":1.50,\"e\":\"é\"}").is_empty());
    }

    #[test]
    fn a_document_is_written_as_it_was_read_however_deep_it_is() {
        let deep = format!("{}1.50{}", "[".repeat(5_000), "]".repeat(5_000));
        for text in [deep.as_str(), r#"{"a":[true,null,"x\ny",1e400]}"#] {
            assert_eq!(serde_json::to_string(&Node::read(text)).unwrap(), text);
        }
    }
}
