//! Documents that people write: TOML, YAML or JSON, with the place of every value, and written again for people.

mod json;
mod toml;
mod write;
mod yaml;

pub(crate) use self::write::write;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The deepest nesting; nothing that people write comes near it.
const DEPTH_MAX: usize = 64;

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    Toml,
    Yaml,
    Json,
}

impl Format {
    /// The one that a file's name speaks of.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// A place in a text, both counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    /// The place of a byte.
    fn of_byte(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }
}

/// Why a text is no document, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) place: Option<Place>,
    pub(crate) problem: String,
}

impl Broken {
    fn at(place: Place, problem: impl Into<String>) -> Self {
        Self { place: Some(place), problem: problem.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(Place { line, column }) => write!(f, "line {line}, column {column}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

/// A document, and where each of its values stands.
#[derive(Debug, PartialEq)]
pub(crate) struct Document {
    pub(crate) value: serde_json::Value,
    /// By JSON pointer; of a member of an object the place of its key.
    places: BTreeMap<String, Place>,
}

impl Document {
    /// Reads a text. Only YAML may hold several documents; empty ones are left out.
    pub(crate) fn parse(format: Format, text: &str) -> Result<Vec<Self>, Broken> {
        // Editors of some systems put it in front; no format takes it for content.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match format {
            Format::Toml => Ok(vec![toml::parse(text)?]),
            Format::Yaml => yaml::parse(text),
            Format::Json => Ok(vec![json::parse(text)?]),
        }
    }

    /// The place of a value, or of the nearest one around it that is written down.
    pub(crate) fn place_of(&self, pointer: &str) -> Option<Place> {
        let mut at = pointer;
        loop {
            if let Some(place) = self.places.get(at) {
                return Some(*place);
            }
            at = &at[..at.rfind('/')?];
        }
    }
}

/// Whether a number stays the same number when it is written again: a long one loses digits.
fn is_kept(written: &str, number: &serde_json::Number) -> bool {
    decimal(written) == decimal(&number.to_string())
}

/// A decimal number: its sign, its digits without zeros at both ends, and the power of ten of the last of them.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let kept = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - kept.len()).ok()?;
    let power = exponent - i64::try_from(fraction.len()).ok()? + zeros;
    match kept.trim_start_matches('0') {
        "" => Some((false, String::new(), 0)),
        kept => Some((text.starts_with('-'), kept.to_owned(), power)),
    }
}

fn not_kept(place: Place, pointer: &str, written: &str) -> Broken {
    let told = "has more digits than are kept; quote it if it is a text";
    Broken::at(place, format!("{}: `{written}` {told}", dotted(pointer)))
}

/// A pointer as people write it: `schedules.nightly.cron`.
pub(crate) fn dotted(pointer: &str) -> String {
    let parts = pointer.trim_start_matches('/').split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
    parts.collect::<Vec<_>>().join(".")
}

/// The pointer of a member.
pub(crate) fn member(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn too_deep(place: Place) -> Broken {
    Broken::at(place, format!("values are nested more than {DEPTH_MAX} deep; write it flatter"))
}

#[cfg(test)]
mod tests;
