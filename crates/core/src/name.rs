//! Names that people give: of schedules, queues, templates and keys.

use crate::invalid::Invalid;
use serde::{Deserialize, Serialize};

/// The longest name, in characters.
pub const NAME_MAX_CHARS: usize = 200;

/// A name that is safe to store, to show and to put into an address: 1 to 200 characters, none of them a control
/// character, no white space at either end, and not a UUID (so that a name can never be taken for an id).
///
/// Any script and emoji are fine; names compare by their bytes in both stores.
///
/// ```
/// use punctual_core::name::Name;
/// assert!(Name::new("nightly 🌙").is_ok());
/// assert!(Name::new("").is_err());
/// assert!(Name::new("6c0f7f6e-0d5c-4c2e-9d53-2b0b5d1a1f00").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// Checks a name.
    pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
        let text = text.into();
        check(&text)?;
        if uuid::Uuid::parse_str(&text).is_ok() {
            return Err(Invalid::new("name", "a UUID cannot be a name, because it would be taken for an id")
                .remedy("add a letter or a word to it"));
        }
        Ok(Self(text))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The rule for every text by which something is found again: names, queues, serial keys, tags, labels.
pub fn check(text: &str) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new("name", "is empty").remedy("give it 1 to 200 characters"));
    }
    // Bytes bound characters, so a huge text is refused without being walked.
    if text.len() > NAME_MAX_CHARS * 4 || text.chars().count() > NAME_MAX_CHARS {
        return Err(Invalid::new("name", format!("is longer than {NAME_MAX_CHARS} characters"))
            .remedy("shorten it; put the long form into the description"));
    }
    if text.chars().any(char::is_control) {
        return Err(Invalid::new("name", "has a control character").remedy("remove line breaks, tabs and NUL"));
    }
    if text.trim() != text {
        return Err(Invalid::new("name", "begins or ends with white space").remedy("trim it"));
    }
    Ok(())
}

/// The rule for free text beside a name, such as a note: at most 10,000 bytes, and no NUL, which no text column keeps.
pub fn check_text(field: &str, text: &str) -> Result<(), Invalid> {
    if text.len() > 10_000 || text.contains('\0') {
        return Err(Invalid::new(field, "is longer than 10,000 bytes or holds a NUL character")
            .remedy("shorten it and remove NUL"));
    }
    Ok(())
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Name {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c02_hostile_names_are_refused_with_a_reason() {
        for (given, part) in [
            ("", "empty"),
            ("a\u{0}b", "control"),
            ("two\nlines", "control"),
            (" padded", "white space"),
            ("00000000-0000-0000-0000-000000000000", "UUID"),
            ("00000000000000000000000000000000", "UUID"),
        ] {
            let refused = Name::new(given).unwrap_err();
            assert!(refused.problem.contains(part), "{given:?}: {refused}");
        }
        assert!(Name::new("x".repeat(10_000_000)).unwrap_err().problem.contains("longer"));
    }

    #[test]
    fn c02_any_script_is_a_name() {
        for given in ["nightly", "夜間バックアップ", "🌙", "a/b.c", "'; DROP TABLE jobs; --"] {
            assert_eq!(Name::new(given).unwrap().as_str(), given);
        }
    }
}
