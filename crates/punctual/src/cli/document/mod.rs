//! Documents that people write: TOML, YAML or JSON, with the place of every value, and written again for people.

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
            Format::Json => Ok(vec![json(text)?]),
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

/// JSON is read by its own rules, and what it has in common with YAML says where its values stand.
fn json(text: &str) -> Result<Document, Broken> {
    let value = serde_json::from_str(text).map_err(|error| {
        let place = Place { line: error.line().max(1), column: error.column().max(1) };
        let told = error.to_string();
        Broken::at(place, told.split(" at line ").next().unwrap_or_default())
    })?;
    let places =
        yaml::parse(text).ok().and_then(|mut found| found.pop()).map_or_else(BTreeMap::new, |found| found.places);
    Ok(Document { value, places })
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
