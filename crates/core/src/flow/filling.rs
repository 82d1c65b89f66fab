//! What a step is given: the values of a flow that have been told so far, filled into a document to the last digit.

use crate::expression::{self, Serde, Style, Value, names_in_expression, names_in_text, sole_expression};
use crate::invalid::Invalid;
use crate::json::{Fields, Json};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What a flow knows about a step that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) outcome: &'static str,
    pub(super) output: Option<&'a Json>,
}

/// The values that can be filled in.
#[derive(Debug, Clone, Default)]
pub(super) struct Known<'a> {
    pub(super) input: Option<&'a Json>,
    pub(super) steps: BTreeMap<&'a str, Told<'a>>,
    pub(super) item: Option<(u32, &'a Json)>,
}

impl Known<'_> {
    /// Fills a document in.
    pub(super) fn fill(&self, document: &Json) -> Result<Json, String> {
        let mut text = String::new();
        self.write(&document.to::<Box<RawValue>>().map_err(|error| error.to_string())?, &mut text)?;
        Json::parse("input", &text).map_err(|refused| refused.to_string())
    }

    /// Whether a condition holds.
    pub(super) fn holds(&self, condition: &str) -> Result<bool, String> {
        expression::value_of(condition, &self.as_value()?).map(|value| value.is_true())
    }

    /// The items of a list.
    pub(super) fn list(&self, expression: &str) -> Result<Vec<Json>, String> {
        let list = if let Some(raw) = self.path(expression.trim()) {
            raw?.get().to_owned()
        } else {
            let value = expression::value_of(expression, &self.as_value()?)?;
            serde_json::to_string(&value).map_err(|error| error.to_string())?
        };
        serde_json::from_str(&list).map_err(|_| "is no list".to_owned())
    }

    fn write(&self, raw: &RawValue, out: &mut String) -> Result<(), String> {
        let broken = |error: serde_json::Error| error.to_string();
        match raw.get().as_bytes().first() {
            Some(b'{') => {
                let fields: Fields = serde_json::from_str(raw.get()).map_err(broken)?;
                out.push('{');
                for (n, (name, value)) in fields.0.iter().enumerate() {
                    let _ = write!(out, "{}{}:", if n > 0 { "," } else { "" }, quoted(name)?);
                    self.write(value, out)?;
                }
                out.push('}');
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(broken)?;
                out.push('[');
                for (n, item) in items.into_iter().enumerate() {
                    out.push_str(if n > 0 { "," } else { "" });
                    self.write(item, out)?;
                }
                out.push(']');
            }
            Some(b'"') if raw.get().contains("{{") => {
                let text: String = serde_json::from_str(raw.get()).map_err(broken)?;
                out.push_str(&self.text(&text)?);
            }
            _ => out.push_str(raw.get()),
        }
        Ok(())
    }

    /// One text. One that is an expression and nothing else becomes its value, whatever its type; and one that only
    /// names a value becomes that value exactly.
    fn text(&self, text: &str) -> Result<String, String> {
        let Some(sole) = sole_expression(text) else {
            return quoted(&expression::render(Style::Plain, text, &self.as_value()?)?);
        };
        if let Some(raw) = self.path(sole.trim()) {
            return raw.map(|raw| raw.get().to_owned());
        }
        let value = expression::value_of(sole, &self.as_value()?)?;
        serde_json::to_string(&value).map_err(|error| error.to_string())
    }

    /// The value that a path such as `steps.a.output.rows` names; `None` when it is more than a path.
    fn path(&self, path: &str) -> Option<Result<Box<RawValue>, String>> {
        let parts: Vec<&str> = path.split('.').collect();
        let plain = |part: &&str| {
            let mut chars = part.chars();
            chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
                && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if !parts.iter().all(plain) {
            return None;
        }
        let missing = || format!("`{path}` names a value that is not there");
        let found = match parts.as_slice() {
            ["input", fields @ ..] => self.input.and_then(|input| field_of(input, fields)),
            ["item", fields @ ..] => self.item.and_then(|(_, item)| field_of(item, fields)),
            ["steps", step, "output", fields @ ..] => {
                let told = self.steps.get(step)?;
                match told.output {
                    Some(output) => field_of(output, fields),
                    None => fields.is_empty().then(|| RawValue::NULL.to_owned()),
                }
            }
            _ => return None,
        };
        Some(found.ok_or_else(missing))
    }

    /// All values, for expressions that calculate with them.
    fn as_value(&self) -> Result<Value, String> {
        let read = |json: &Json| json.to::<serde_json::Value>().map_err(|error| error.to_string());
        let mut steps = serde_json::Map::new();
        for (name, told) in &self.steps {
            let output = told.output.map(read).transpose()?;
            steps.insert((*name).to_owned(), serde_json::json!({ "outcome": told.outcome, "output": output }));
        }
        let mut all = serde_json::Map::new();
        all.insert("input".to_owned(), self.input.map(read).transpose()?.unwrap_or_default());
        all.insert("steps".to_owned(), steps.into());
        if let Some((index, item)) = self.item {
            all.insert("item".to_owned(), read(item)?);
            all.insert("index".to_owned(), index.into());
        }
        Ok(Value::from(Serde(serde_json::Value::Object(all))))
    }
}

fn quoted(text: &str) -> Result<String, String> {
    serde_json::to_string(text).map_err(|error| error.to_string())
}

fn field_of(document: &Json, fields: &[&str]) -> Option<Box<RawValue>> {
    let mut raw: Box<RawValue> = document.to().ok()?;
    for field in fields {
        let mut inside: BTreeMap<String, Box<RawValue>> = serde_json::from_str(raw.get()).ok()?;
        raw = inside.remove(*field)?;
    }
    Some(raw)
}

/// The values that a document asks for.
pub(super) fn names_in(document: &Json, field: &str) -> Result<BTreeSet<String>, Invalid> {
    let mut names = BTreeSet::new();
    let mut open: Vec<Box<RawValue>> = document.to().into_iter().collect();
    while let Some(raw) = open.pop() {
        match raw.get().as_bytes().first() {
            Some(b'{') => {
                open.extend(serde_json::from_str::<Fields>(raw.get()).into_iter().flat_map(|f| f.0).map(|f| f.1));
            }
            Some(b'[') => open.extend(serde_json::from_str::<Vec<Box<RawValue>>>(raw.get()).into_iter().flatten()),
            Some(b'"') if raw.get().contains("{{") => {
                let text: String = serde_json::from_str(raw.get()).unwrap_or_default();
                let found = match sole_expression(&text) {
                    Some(sole) => names_in_expression(sole),
                    None => names_in_text(&text),
                };
                names.extend(found.map_err(|why| {
                    Invalid::new(field, format!("`{}`: {why}", text.chars().take(80).collect::<String>()))
                        .remedy("write values as {{ input.x }} or {{ steps.NAME.output.y }}")
                })?);
            }
            _ => {}
        }
    }
    Ok(names)
}
