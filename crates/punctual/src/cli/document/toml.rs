//! TOML, with the place of every value.

use super::{Broken, DEPTH_MAX, Document, Place, is_kept, member, not_kept, too_deep};
use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;

/// Reads a text.
pub(super) fn parse(text: &str) -> Result<Document, Broken> {
    let table = DeTable::parse(text).map_err(|error| Broken {
        place: error.span().map(|span| Place::of_byte(text, span.start)),
        problem: error.message().trim().to_owned(),
    })?;
    let mut reader = Reader { lines: Lines::of(text), places: BTreeMap::new() };
    let value = reader.table(table.into_inner(), "", 0)?;
    Ok(Document { value, places: reader.places })
}

/// Where the lines of a text begin, so that a place is found without reading the text again.
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    pub(super) fn place(&self, byte: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= byte);
        let start = self.starts[line.max(1) - 1];
        let column = self.text.get(start..byte).map_or(0, |before| before.chars().count()) + 1;
        Place { line, column }
    }
}

struct Reader<'t> {
    lines: Lines<'t>,
    places: BTreeMap<String, Place>,
}

impl Reader<'_> {
    fn table(&mut self, table: DeTable<'_>, pointer: &str, depth: usize) -> Result<Value, Broken> {
        let mut object = Map::new();
        for (key, value) in table {
            let place = self.lines.place(key.span().start);
            let name = key.into_inner().into_owned();
            let at = member(pointer, &name);
            let value = self.value(value, &at, depth + 1)?;
            self.places.insert(at, place);
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }

    fn value(&mut self, value: Spanned<DeValue<'_>>, pointer: &str, depth: usize) -> Result<Value, Broken> {
        let place = self.lines.place(value.span().start);
        self.places.insert(pointer.to_owned(), place);
        if depth > DEPTH_MAX {
            return Err(too_deep(place));
        }
        match value.into_inner() {
            DeValue::String(text) => Ok(Value::String(text.into_owned())),
            DeValue::Boolean(flag) => Ok(Value::Bool(flag)),
            DeValue::Datetime(at) => Ok(Value::String(at.to_string())),
            DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix())
                .map(|number| Value::Number(number.into()))
                .map_err(|_| Broken::at(place, format!("`{}` is too large a number", digits.as_str()))),
            DeValue::Float(digits) => {
                let written = digits.as_str();
                match written.parse::<f64>().ok().and_then(Number::from_f64) {
                    Some(number) if is_kept(written, &number) => Ok(Value::Number(number)),
                    Some(_) => Err(not_kept(place, pointer, written)),
                    None => Err(Broken::at(place, format!("`{written}` is a number that JSON does not have"))),
                }
            }
            DeValue::Array(items) => {
                let read = |(n, item)| self.value(item, &format!("{pointer}/{n}"), depth + 1);
                items.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            DeValue::Table(table) => self.table(table, pointer, depth),
        }
    }
}
