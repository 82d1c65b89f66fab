//! Documents written for people: plain values first, then what holds others.

use super::{Format, yaml};
use serde_json::{Map, Value};
use std::fmt::Write;

/// Writes a document. Refused, in words: what the format cannot say.
pub(crate) fn write(format: Format, value: &Value) -> Result<String, String> {
    match format {
        Format::Json => serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(|error| error.to_string()),
        Format::Yaml => {
            let mut text = String::new();
            yaml_value(&mut text, value, 0, Spot::Root);
            Ok(text)
        }
        Format::Toml => match value {
            Value::Object(members) => {
                let mut text = String::new();
                toml_table(&mut text, members, &mut Vec::new())?;
                Ok(text.trim_start_matches('\n').to_owned())
            }
            _ => Err("TOML holds one table; use YAML or JSON".to_owned()),
        },
    }
}

/// Members in the order in which they are written: those that fit on a line first.
fn in_order(members: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let (plain, holding): (Vec<_>, Vec<_>) = members.iter().partition(|(_, value)| !value.is_object());
    plain.into_iter().chain(holding)
}

// --- TOML ----------------------------------------------------------------------------------------------------------

/// A table with a heading of its own for each table in it. An empty one keeps its heading.
fn toml_table(text: &mut String, members: &Map<String, Value>, path: &mut Vec<String>) -> Result<(), String> {
    let (plain, tables): (Vec<_>, Vec<_>) =
        members.iter().filter(|(_, value)| !value.is_null()).partition(|(_, value)| !has_heading(value, path.len()));
    if !path.is_empty() && (!plain.is_empty() || tables.is_empty()) {
        let heading: Vec<String> = path.iter().map(|key| toml_key(key)).collect();
        let _ = writeln!(text, "\n[{}]", heading.join("."));
    }
    for (key, value) in plain {
        let written = match value {
            Value::String(lines) if is_long(lines) => format!("\"\"\"\n{}\"\"\"", multi_line(lines)),
            _ => toml_inline(value, key)?,
        };
        let _ = writeln!(text, "{} = {written}", toml_key(key));
    }
    for (key, value) in tables {
        let Value::Object(inner) = value else { continue };
        path.push(key.clone());
        toml_table(text, inner, path)?;
        path.pop();
    }
    Ok(())
}

/// Things and their kinds have headings; what a thing holds stands on a line of its own.
fn has_heading(value: &Value, depth: usize) -> bool {
    value.is_object() && depth < 2
}

fn toml_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { key.to_owned() } else { toml_text(key) }
}

/// A basic string of TOML: the escapes of JSON, and DEL, which TOML wants escaped as well.
fn toml_text(text: &str) -> String {
    Value::String(text.to_owned()).to_string().replace('\u{7f}', "\\u007F")
}

/// A value on one line.
fn toml_inline(value: &Value, at: &str) -> Result<String, String> {
    Ok(match value {
        Value::Null => return Err(format!("`{at}` holds null, which TOML does not have; use YAML or JSON")),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) if number.is_u64() && !number.is_i64() => {
            return Err(format!("`{at}` holds {number}, which is too large for TOML; use YAML or JSON"));
        }
        Value::Number(number) => number.to_string(),
        Value::String(text) => toml_text(text),
        Value::Array(items) => {
            let items = items.iter().map(|item| toml_inline(item, at)).collect::<Result<Vec<_>, _>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let mut written = Vec::new();
            for (key, value) in in_order(members) {
                written.push(format!("{} = {}", toml_key(key), toml_inline(value, key)?));
            }
            format!("{{ {} }}", written.join(", "))
        }
    })
}

/// Whether a text is easier to read on lines of its own.
fn is_long(text: &str) -> bool {
    text.trim_end_matches('\n').contains('\n') && text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control())
}

fn multi_line(text: &str) -> String {
    let text =
        text.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"").replace('\t', "\\t").replace('\u{7f}', "\\u007F");
    // A quote at the very end would be taken for one of the closing ones.
    match text.strip_suffix('"') {
        Some(rest) => format!("{rest}\\\""),
        None => text,
    }
}

// --- YAML ----------------------------------------------------------------------------------------------------------

/// Where a value stands.
#[derive(Clone, Copy, PartialEq)]
enum Spot {
    Root,
    AfterKey,
    AfterDash,
}

fn yaml_value(text: &mut String, value: &Value, depth: usize, spot: Spot) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            if spot == Spot::AfterKey {
                text.push('\n');
            }
            for (n, (key, value)) in in_order(members).enumerate() {
                // The first member stands behind the dash.
                if n > 0 || spot != Spot::AfterDash {
                    indent(text, depth);
                }
                text.push_str(&yaml_text(key));
                text.push(':');
                yaml_value(text, value, depth + 1, Spot::AfterKey);
            }
        }
        Value::Array(items) if !items.is_empty() && !is_flat(items) => {
            if spot == Spot::AfterKey {
                text.push('\n');
            }
            for (n, item) in items.iter().enumerate() {
                if n > 0 || spot != Spot::AfterDash {
                    indent(text, depth);
                }
                text.push_str("- ");
                yaml_value(text, item, depth + 1, Spot::AfterDash);
            }
        }
        plain => {
            if spot == Spot::AfterKey {
                text.push(' ');
            }
            text.push_str(&yaml_plain(plain));
            text.push('\n');
        }
    }
}

/// Whether a list stands on one line.
fn is_flat(items: &[Value]) -> bool {
    items.iter().all(|item| !item.is_object() && !item.is_array())
}

fn yaml_plain(value: &Value) -> String {
    match value {
        Value::String(text) => yaml_text(text),
        Value::Array(items) => format!("[{}]", items.iter().map(yaml_plain).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// A text, without quotes where nobody could take it for something else.
fn yaml_text(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' ');
    let begins = text.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '/'));
    let is_word = matches!(
        text.to_ascii_lowercase().as_str(),
        "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n"
    );
    // What looks like a number or a time is one to some readers.
    let like_number = yaml::number(text).is_some() || text.starts_with(|c: char| c.is_ascii_digit());
    let fits = begins && text.chars().all(plain) && !text.ends_with(' ') && !text.contains(" #");
    if fits && !is_word && !like_number { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}
