//! YAML, with the place of every value: the core schema of YAML 1.2, so that `no` and `on` are texts.

use super::{Broken, DEPTH_MAX, Document, Place, dotted, is_kept, member, too_deep};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// How many values aliases may stand for, all together: a short text must not become a large document.
const ALIASED_MAX: usize = 100_000;

/// Reads a text.
pub(super) fn parse(text: &str) -> Result<Vec<Document>, Broken> {
    let mut documents = Vec::new();
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| Broken::at(place(*error.marker()), error.info().to_owned()))?;
        let at = place(span.start);
        match event {
            Event::DocumentStart(_) => reader = Reader::default(),
            Event::DocumentEnd => {
                let Reader { done, places, .. } = std::mem::take(&mut reader);
                documents.extend(done.filter(|value| !value.is_null()).map(|value| Document { value, places }));
            }
            Event::Scalar(text, style, anchor, tag) => reader.scalar(&text, style, anchor, tag.as_deref(), at)?,
            Event::SequenceStart(anchor, tag) => {
                check_tag(tag.as_ref(), "seq", at)?;
                reader.open(Holder::List(Vec::new()), anchor, at)?;
            }
            Event::MappingStart(anchor, tag) => {
                check_tag(tag.as_ref(), "map", at)?;
                reader.open(Holder::Object(Map::new(), None), anchor, at)?;
            }
            Event::SequenceEnd | Event::MappingEnd => reader.close(at)?,
            Event::Alias(anchor) => reader.alias(anchor, at)?,
            Event::Nothing | Event::StreamStart | Event::StreamEnd => {}
        }
    }
    Ok(documents)
}

fn place(marker: Marker) -> Place {
    Place { line: marker.line().max(1), column: marker.col() + 1 }
}

/// What is being put together.
enum Holder {
    List(Vec<Value>),
    /// With the key whose value comes next.
    Object(Map<String, Value>, Option<String>),
}

struct Open {
    holder: Holder,
    pointer: String,
    anchor: usize,
}

#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    anchors: HashMap<usize, Value>,
    aliased: usize,
    places: BTreeMap<String, Place>,
    done: Option<Value>,
}

impl Reader {
    /// The pointer of the value that comes next.
    fn pointer(&self) -> String {
        match self.open.last() {
            None => String::new(),
            Some(Open { holder: Holder::List(items), pointer, .. }) => format!("{pointer}/{}", items.len()),
            Some(Open { holder: Holder::Object(_, key), pointer, .. }) => {
                member(pointer, key.as_deref().unwrap_or_default())
            }
        }
    }

    /// Whether a key comes next.
    fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { holder: Holder::Object(_, None), .. }))
    }

    fn open(&mut self, holder: Holder, anchor: usize, at: Place) -> Result<(), Broken> {
        if self.wants_key() {
            return Err(Broken::at(at, "a key is a list or an object; write a plain text"));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep(at));
        }
        let pointer = self.pointer();
        self.places.entry(pointer.clone()).or_insert(at);
        self.open.push(Open { holder, pointer, anchor });
        Ok(())
    }

    fn close(&mut self, at: Place) -> Result<(), Broken> {
        let Some(Open { holder, anchor, .. }) = self.open.pop() else { return Ok(()) };
        let value = match holder {
            Holder::List(items) => Value::Array(items),
            Holder::Object(members, _) => Value::Object(members),
        };
        self.take(value, anchor, at)
    }

    fn scalar(
        &mut self, text: &str, style: ScalarStyle, anchor: usize, tag: Option<&Tag>, at: Place,
    ) -> Result<(), Broken> {
        if self.wants_key() {
            return self.key(text, style, at);
        }
        let value = match tag {
            None if style == ScalarStyle::Plain => plain(text, &self.pointer(), at)?,
            None => Value::String(text.to_owned()),
            Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Value::String(text.to_owned()),
            Some(tag)
                if tag.is_yaml_core_schema() && matches!(tag.suffix.as_str(), "int" | "float" | "bool" | "null") =>
            {
                plain(text, &self.pointer(), at)?
            }
            Some(tag) => return Err(strange(tag, at)),
        };
        let pointer = self.pointer();
        self.places.entry(pointer).or_insert(at);
        self.take(value, anchor, at)
    }

    fn key(&mut self, text: &str, style: ScalarStyle, at: Place) -> Result<(), Broken> {
        let Some(Open { holder: Holder::Object(members, key), pointer, .. }) = self.open.last_mut() else {
            return Ok(());
        };
        if text == "<<" && style == ScalarStyle::Plain {
            return Err(Broken::at(
                at,
                "`<<` is not understood; write the fields out, or use an alias for a whole value",
            ));
        }
        if members.contains_key(text) {
            return Err(Broken::at(at, format!("`{text}` is there twice")));
        }
        self.places.insert(member(pointer, text), at);
        *key = Some(text.to_owned());
        Ok(())
    }

    fn alias(&mut self, anchor: usize, at: Place) -> Result<(), Broken> {
        let Some(value) = self.anchors.get(&anchor).cloned() else {
            return Err(Broken::at(at, "the alias stands for a value that holds it"));
        };
        if self.wants_key() {
            return Err(Broken::at(at, "a key is an alias; write a plain text"));
        }
        self.aliased += size(&value);
        if self.aliased > ALIASED_MAX {
            return Err(Broken::at(
                at,
                format!("the aliases stand for more than {ALIASED_MAX} values; write it shorter"),
            ));
        }
        let pointer = self.pointer();
        self.places.entry(pointer).or_insert(at);
        self.take(value, 0, at)
    }

    fn take(&mut self, value: Value, anchor: usize, at: Place) -> Result<(), Broken> {
        if anchor > 0 {
            self.aliased += size(&value);
            if self.aliased > ALIASED_MAX {
                return Err(Broken::at(at, format!("more than {ALIASED_MAX} values have anchors; write them without")));
            }
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut() {
            None => self.done = Some(value),
            Some(Open { holder: Holder::List(items), .. }) => items.push(value),
            Some(Open { holder: Holder::Object(members, key), .. }) => {
                members.insert(key.take().unwrap_or_default(), value);
            }
        }
        Ok(())
    }
}

/// How many values a value holds, itself among them.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

fn check_tag(tag: Option<&Cow<'_, Tag>>, usual: &str, at: Place) -> Result<(), Broken> {
    match tag {
        Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == usual) => Err(strange(tag, at)),
        _ => Ok(()),
    }
}

fn strange(tag: &Tag, at: Place) -> Broken {
    Broken::at(at, format!("the tag `{}{}` is not understood; leave it out", tag.handle, tag.suffix))
}

/// A text without quotes: what the core schema says that it is.
fn plain(text: &str, pointer: &str, at: Place) -> Result<Value, Broken> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        _ => {}
    }
    match number(text) {
        None => Ok(Value::String(text.to_owned())),
        Some(Ok(number)) => Ok(Value::Number(number)),
        Some(Err(NotKept)) => {
            let told = "is a number that cannot be kept as it is; quote it if it is a text";
            Err(Broken::at(at, format!("{}: `{text}` {told}", dotted(pointer))))
        }
    }
}

/// A number that cannot be kept as it is written.
#[derive(Debug)]
pub(super) struct NotKept;

/// Whether a plain text is a number, and which one.
pub(super) fn number(text: &str) -> Option<Result<Number, NotKept>> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(hex) =
        text.strip_prefix("0x").filter(|hex| !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()))
    {
        return Some(u64::from_str_radix(hex, 16).map(Number::from).map_err(|_| NotKept));
    }
    if let Some(octal) =
        text.strip_prefix("0o").filter(|octal| !octal.is_empty() && octal.bytes().all(|b| (b'0'..=b'7').contains(&b)))
    {
        return Some(u64::from_str_radix(octal, 8).map(Number::from).map_err(|_| NotKept));
    }
    if matches!(digits.to_ascii_lowercase().as_str(), ".inf") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(Err(NotKept));
    }
    let (whole, rest) = digits.split_at(digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()));
    if rest.is_empty() && !whole.is_empty() {
        let signed = text.strip_prefix('+').unwrap_or(text);
        let small = signed.parse::<i64>().map(Number::from);
        return Some(small.or_else(|_| signed.parse::<u64>().map(Number::from)).map_err(|_| NotKept));
    }
    let fraction = rest.strip_prefix('.').unwrap_or(rest);
    let after = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    let has_digits = !whole.is_empty() || fraction.len() > after.len();
    let exponent = match after.strip_prefix(['e', 'E']) {
        None => after.is_empty(),
        Some(exponent) => {
            let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        }
    };
    let is_number = has_digits && exponent && (rest.starts_with('.') || rest.starts_with(['e', 'E']));
    let kept = |number: &Number| is_kept(text, number);
    is_number.then(|| text.parse::<f64>().ok().and_then(Number::from_f64).filter(kept).ok_or(NotKept))
}
