//! JSON, with the place of every value, each name once, and only numbers that are kept as they are.

use super::toml::Lines;
use super::{Broken, Document, Place, is_kept, member, not_kept};
use std::collections::{BTreeMap, BTreeSet};

/// Reads a text.
pub(super) fn parse(text: &str) -> Result<Document, Broken> {
    let value = serde_json::from_str(text).map_err(|error| {
        let place = Place { line: error.line().max(1), column: error.column().max(1) };
        let told = error.to_string();
        Broken::at(place, told.split(" at line ").next().unwrap_or_default())
    })?;
    let mut walk = Walk { text, at: 0, lines: Lines::of(text), places: BTreeMap::new() };
    walk.value("")?;
    Ok(Document { value, places: walk.places })
}

/// Goes through a text that is known to be JSON.
struct Walk<'t> {
    text: &'t str,
    at: usize,
    lines: Lines<'t>,
    places: BTreeMap<String, Place>,
}

impl<'t> Walk<'t> {
    /// The next byte that means something, which is not passed yet.
    fn next(&mut self) -> Option<u8> {
        let rest = self.text.get(self.at..)?;
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        self.text.as_bytes().get(self.at).copied()
    }

    fn value(&mut self, pointer: &str) -> Result<(), Broken> {
        let first = self.next();
        let place = self.lines.place(self.at);
        self.places.entry(pointer.to_owned()).or_insert(place);
        match first {
            Some(b'{') => self.object(pointer),
            Some(b'[') => self.list(pointer),
            Some(b'"') => {
                self.quoted();
                Ok(())
            }
            _ => self.plain(pointer, place),
        }
    }

    fn object(&mut self, pointer: &str) -> Result<(), Broken> {
        let mut names = BTreeSet::new();
        self.at += 1;
        while self.next() == Some(b'"') {
            let place = self.lines.place(self.at);
            let name: String = serde_json::from_str(self.quoted()).unwrap_or_default();
            let at = member(pointer, &name);
            self.places.insert(at.clone(), place);
            if names.contains(&name) {
                return Err(Broken::at(place, format!("`{name}` is there twice")));
            }
            names.insert(name);
            self.pass(b':');
            self.value(&at)?;
            self.pass(b',');
        }
        self.pass(b'}');
        Ok(())
    }

    fn list(&mut self, pointer: &str) -> Result<(), Broken> {
        self.at += 1;
        let mut n = 0;
        while self.next().is_some_and(|byte| byte != b']') {
            self.value(&format!("{pointer}/{n}"))?;
            self.pass(b',');
            n += 1;
        }
        self.pass(b']');
        Ok(())
    }

    fn pass(&mut self, byte: u8) {
        if self.next() == Some(byte) {
            self.at += 1;
        }
    }

    /// A text with its quotes.
    fn quoted(&mut self) -> &'t str {
        let (begin, bytes) = (self.at, self.text.as_bytes());
        self.at += 1;
        while let Some(byte) = bytes.get(self.at).filter(|byte| **byte != b'"') {
            self.at += if *byte == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        self.text.get(begin..self.at).unwrap_or_default()
    }

    /// A number, `true`, `false` or `null`.
    fn plain(&mut self, pointer: &str, place: Place) -> Result<(), Broken> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
        let word = &rest[..end];
        self.at += end;
        match serde_json::from_str::<serde_json::Number>(word) {
            Ok(number) if !is_kept(word, &number) => Err(not_kept(place, pointer, word)),
            _ => Ok(()),
        }
    }
}
