//! Texts with values filled in: `{{ input.name }}`, and as little else as is useful.
//!
//! The template comes with the job, so it is not trusted: there are expressions and no statements, filters that are
//! listed here and no others, and limits on steps and size. Concatenation is writing two expressions in a row, so
//! that no value can grow on its way to the text.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;

pub use minijinja::Value;
pub use minijinja::value::Serde;

/// The longest template.
const SOURCE_MAX_BYTES: usize = 64 * 1024;

/// The longest text that a template, or one filter in it, may make.
const TEXT_MAX_BYTES: usize = 1 << 20;

/// The most steps of one template.
const FUEL: u64 = 5_000;

/// Operators that make values grow.
const GROWING: [char; 3] = ['~', '*', '+'];

/// How the engine calls the style for addresses.
const FOR_URL: &str = "url";

/// How values are written into the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As they are.
    Plain,
    /// So that they stay inside their part of an address, unless the template says `| safe`.
    Url,
}

/// Fills in a template.
pub fn render(style: Style, source: &str, context: &Value) -> Result<String, String> {
    // Most texts hold nothing to fill in, and those are taken as they are.
    if !source.contains("{{") {
        return Ok(source.to_owned());
    }
    check(source)?;
    let environment = environment(style).map_err(|error| words(&error))?;
    let template = environment.template_from_str(source).map_err(|error| words(&error))?;
    let mut text = Capped(Vec::new());
    template.render_captured_to(context.clone(), &mut text).map_err(|error| words(&error))?;
    String::from_utf8(text.0).map_err(|_| "the text is not UTF-8".to_owned())
}

/// Fills in the texts of a JSON document. A text that is one expression and nothing else becomes the expression's
/// value, whatever its type.
pub fn render_json(document: &serde_json::Value, context: &Value) -> Result<serde_json::Value, String> {
    use serde_json::Value as Json;
    Ok(match document {
        Json::String(text) => match sole_expression(text) {
            Some(expression) => evaluate(expression, context)?,
            None => Json::String(render(Style::Plain, text, context)?),
        },
        Json::Array(items) => {
            Json::Array(items.iter().map(|item| render_json(item, context)).collect::<Result<_, _>>()?)
        }
        Json::Object(fields) => Json::Object(
            fields
                .iter()
                .map(|(name, value)| Ok((name.clone(), render_json(value, context)?)))
                .collect::<Result<_, String>>()?,
        ),
        plain => plain.clone(),
    })
}

pub(crate) fn sole_expression(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    (!inner.contains("{{") && !inner.contains("}}")).then_some(inner)
}

fn evaluate(expression: &str, context: &Value) -> Result<serde_json::Value, String> {
    let value = value_of(expression, context)?;
    serde_json::to_value(&value).map_err(|error| format!("cannot be written as JSON: {error}"))
}

/// What an expression comes to.
pub(crate) fn value_of(expression: &str, context: &Value) -> Result<Value, String> {
    check(&format!("{{{{{expression}}}}}"))?;
    let environment = environment(Style::Plain).map_err(|error| words(&error))?;
    let compiled = environment.compile_expression(expression).map_err(|error| words(&error))?;
    let value = compiled.eval(context.clone()).map_err(|error| words(&error))?;
    if value.is_undefined() {
        return Err(words(&Error::from(ErrorKind::UndefinedError)));
    }
    Ok(value)
}

/// The values that an expression asks for, with their fields as far as they are written out: `steps.a.output`.
pub(crate) fn names_in_expression(expression: &str) -> Result<BTreeSet<String>, String> {
    check(&format!("{{{{{expression}}}}}"))?;
    let environment = environment(Style::Plain).map_err(|error| words(&error))?;
    let compiled = environment.compile_expression(expression).map_err(|error| words(&error))?;
    Ok(compiled.undeclared_variables(true).into_iter().collect())
}

/// The same for a text.
pub(crate) fn names_in_text(source: &str) -> Result<BTreeSet<String>, String> {
    if !source.contains("{{") {
        return Ok(BTreeSet::new());
    }
    check(source)?;
    let environment = environment(Style::Plain).map_err(|error| words(&error))?;
    let template = environment.template_from_str(source).map_err(|error| words(&error))?;
    Ok(template.undeclared_variables(true).into_iter().collect())
}

/// The characters that mean nothing anywhere in an address stay; all others are written as `%XX`.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn check(source: &str) -> Result<(), String> {
    if source.len() > SOURCE_MAX_BYTES {
        return Err(format!("the template has {} bytes; at most {SOURCE_MAX_BYTES} are allowed", source.len()));
    }
    match growing_operator(source) {
        Some(c) => Err(format!("`{c}` is not available in templates; write two values as {{{{ a }}}}{{{{ b }}}}")),
        None => Ok(()),
    }
}

fn environment(style: Style) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::empty();
    // Delimiters that no text of a job can hold turn statements and comments off.
    let mut syntax = SyntaxConfig::builder();
    syntax.block_delimiters("\0{%", "%}\0").comment_delimiters("\0{#", "#}\0").keep_trailing_newline(true);
    environment.set_syntax(syntax.build()?);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(50);
    environment.set_auto_escape_callback(move |_| match style {
        Style::Plain => AutoEscape::None,
        Style::Url => AutoEscape::Custom(FOR_URL.into()),
    });
    environment.set_formatter(write_value);
    environment.add_filter("tojson", |value: Value| to_json(&value));
    environment.add_filter("urlencode", |value: Value| text_of(&value).map(|text| safe(&percent_encoded(&text))));
    environment.add_filter("safe", |value: Value| text_of(&value).map(|text| safe(&text)));
    environment.add_filter("default", |value: Value, other: Value| if value.is_undefined() { other } else { value });
    environment.add_filter("lower", |value: Value| text_of(&value).map(|text| text.to_lowercase()));
    environment.add_filter("upper", |value: Value| text_of(&value).map(|text| text.to_uppercase()));
    environment.add_filter("trim", |value: Value| text_of(&value).map(|text| text.trim().to_owned()));
    environment.add_filter("length", |value: Value| {
        value.len().ok_or_else(|| refused("only texts, lists and objects have a length"))
    });
    Ok(environment)
}

fn safe(text: &str) -> Value {
    Value::from_safe_string(text.to_owned())
}

/// Writes one value. Lists and objects have no plain text, so that nobody sends half-quoted JSON by accident.
fn write_value(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let text = text_of(value)?;
    let escape = matches!(state.auto_escape(), AutoEscape::Custom(name) if name == FOR_URL) && !value.is_safe();
    out.write_str(if escape { percent_encoded(&text) } else { text }.as_str()).map_err(Error::from)
}

fn text_of(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Number | ValueKind::Bool => Ok(value.to_string()),
        ValueKind::None => Ok(String::new()),
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        kind => Err(refused(&format!("a {kind} has no plain text; use the filter `tojson`"))),
    }
}

fn to_json(value: &Value) -> Result<String, Error> {
    let mut text = Capped(Vec::new());
    serde_json::to_writer(&mut text, value).map_err(|error| refused(&format!("cannot be written as JSON: {error}")))?;
    String::from_utf8(text.0).map_err(|_| refused("the JSON is not UTF-8"))
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, why.to_owned())
}

/// The first operator outside of quotes, inside of an expression, that would make values grow.
fn growing_operator(source: &str) -> Option<char> {
    let mut rest = source;
    while let Some(start) = rest.find("{{") {
        let mut quote = None;
        let mut chars = rest[start + 2..].char_indices();
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            match quote {
                Some(_) if c == '\\' => {
                    chars.next();
                }
                Some(open) => quote = Some(open).filter(|open| c != *open),
                None if matches!(c, '"' | '\'') => quote = Some(c),
                None if GROWING.contains(&c) => return Some(c),
                None if rest[start + 2 + at..].starts_with("}}") => {
                    end = start + 2 + at;
                    break;
                }
                None => {}
            }
        }
        rest = &rest[end..];
    }
    None
}

/// The engine's words with what it adds below them, without the template's own text.
fn words(error: &Error) -> String {
    let mut words = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    if error.kind() == ErrorKind::UndefinedError {
        "names a value that the input does not have".clone_into(&mut words);
    }
    if let Some(line) = error.line() {
        let _ = write!(words, " (line {line})");
    }
    words
}

/// A buffer that refuses to grow beyond the limit.
struct Capped(Vec<u8>);

impl Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > TEXT_MAX_BYTES {
            return Err(std::io::Error::other(format!("the text is longer than {TEXT_MAX_BYTES} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
