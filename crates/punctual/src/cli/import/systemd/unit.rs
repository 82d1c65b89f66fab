//! Unit files: sections, settings in their order, drop-ins, specifiers, words and spans of time.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::super::reading::{Fault, Place, quoted};

/// A file as it was found. Drop-ins are called `x.timer.d/name.conf`.
#[derive(Clone, Debug)]
pub(crate) struct UnitFile {
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) text: String,
}

/// One line of a unit, drop-ins included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) section: String,
    pub(super) key: String,
    pub(super) value: String,
    pub(super) place: Place,
}

/// A unit with its drop-ins.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// Its full name, the instance included.
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) settings: Vec<Setting>,
}

impl Unit {
    /// The values of a list, in order; an empty one forgets those before it.
    pub(super) fn all(&self, section: &str, key: &str) -> Vec<&Setting> {
        let mut found = Vec::new();
        for setting in self.settings.iter().filter(|each| each.section == section && each.key == key) {
            if setting.value.is_empty() { found.clear() } else { found.push(setting) }
        }
        found
    }

    /// The last word on a setting.
    pub(super) fn last(&self, section: &str, key: &str) -> Option<&Setting> {
        self.all(section, key).pop()
    }

    pub(super) fn is_on(&self, section: &str, key: &str) -> bool {
        let yes = |value: &str| matches!(value.to_ascii_lowercase().as_str(), "1" | "yes" | "y" | "true" | "t" | "on");
        self.last(section, key).is_some_and(|setting| yes(&setting.value))
    }

    /// The name without `.timer` and its like.
    pub(super) fn stem(&self) -> &str {
        self.name.rsplit_once('.').map_or(self.name.as_str(), |(stem, _)| stem)
    }
}

/// The unit of a name: its own file, or that of its template, with the drop-ins of both.
pub(super) fn unit(name: &str, files: &[UnitFile], faults: &mut Vec<Fault>) -> Option<Unit> {
    let template = template_of(name);
    let file = files
        .iter()
        .find(|file| file.name == name)
        .or_else(|| files.iter().find(|file| Some(&file.name) == template.as_ref()))?;
    let mut settings = parsed(file, faults);
    let mut folders: Vec<String> = template.into_iter().collect();
    folders.push(name.to_owned());
    let mut dropped: BTreeMap<&str, &UnitFile> = BTreeMap::new();
    for folder in &folders {
        let inside = |file: &&UnitFile| file.name.split_once(".d/").is_some_and(|(unit, _)| unit == folder);
        dropped.extend(files.iter().filter(inside).filter_map(|file| Some((file.name.rsplit('/').next()?, file))));
    }
    settings.extend(dropped.into_values().flat_map(|file| parsed(file, faults)));
    Some(Unit { name: name.to_owned(), place: Place::new(&file.path, 1), settings })
}

/// `x@.timer` for `x@one.timer`.
fn template_of(name: &str) -> Option<String> {
    let (prefix, rest) = name.split_once('@')?;
    let (_, kind) = rest.rsplit_once('.')?;
    Some(format!("{prefix}@.{kind}"))
}

fn parsed(file: &UnitFile, faults: &mut Vec<Fault>) -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut section = String::new();
    let mut lines = file.text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let place = Place::new(&file.path, number + 1);
        let mut line = line.trim().to_owned();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        while line.ends_with('\\') {
            line.pop();
            let next = lines.find(|(_, next)| !next.trim_start().starts_with(['#', ';']));
            let Some((_, next)) = next else { break };
            line = format!("{} {}", line.trim_end(), next.trim());
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once('=').filter(|_| !section.is_empty()) {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            settings.push(Setting { section: section.clone(), key, value, place });
        } else {
            let problem = format!("{} is neither a section nor a setting", quoted(&line));
            faults.push(Fault { place, problem });
        }
    }
    settings
}

/// What `%i` and its like stand for in a unit.
#[derive(Clone, Debug, Default)]
pub(super) struct Specifiers {
    pub(super) unit: String,
    pub(super) user: String,
    pub(super) home: Option<String>,
}

impl Specifiers {
    /// The text with its specifiers replaced, and those that only the machine itself knows.
    pub(super) fn fill(&self, text: &str) -> (String, Vec<char>) {
        let (mut filled, mut unknown) = (String::with_capacity(text.len()), Vec::new());
        let mut characters = text.chars();
        while let Some(c) = characters.next() {
            if c != '%' {
                filled.push(c);
                continue;
            }
            let Some(letter) = characters.next() else {
                filled.push('%');
                break;
            };
            if let Some(value) = self.value(letter) {
                filled.push_str(&value);
            } else {
                filled.extend(['%', letter]);
                unknown.push(letter);
            }
        }
        (filled, unknown)
    }

    fn value(&self, letter: char) -> Option<String> {
        let stem = self.unit.rsplit_once('.').map_or(self.unit.as_str(), |(stem, _)| stem);
        let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
        Some(match letter {
            '%' => "%".to_owned(),
            'n' => self.unit.clone(),
            'N' => stem.to_owned(),
            'p' => prefix.to_owned(),
            'P' => unescaped(prefix),
            'i' => instance.to_owned(),
            'I' => unescaped(instance),
            'j' => prefix.rsplit('-').next().unwrap_or_default().to_owned(),
            'f' => format!("/{}", unescaped(if instance.is_empty() { prefix } else { instance })),
            'u' => self.user.clone(),
            'h' => self.home.clone()?,
            't' => "/run".to_owned(),
            'S' => "/var/lib".to_owned(),
            'C' => "/var/cache".to_owned(),
            'L' => "/var/log".to_owned(),
            'E' => "/etc".to_owned(),
            'T' => "/tmp".to_owned(),
            'V' => "/var/tmp".to_owned(),
            _ => return None,
        })
    }
}

/// `a-b\x2dc` is `a/b-c`.
fn unescaped(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.strip_prefix(b"x").and_then(|hex| hex.get(..2)).and_then(|hex| std::str::from_utf8(hex).ok());
        match (first, code.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            (b'-', _) => {
                bytes.push(b'/');
                rest = tail;
            }
            (byte, _) => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Splits a line into words as systemd does: quotes of both kinds, escapes of C. `Err` says what is wrong.
pub(super) fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', _) => {
                let escaped = escape(&mut characters)?;
                word.get_or_insert_default().push(escaped);
            }
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(format!("a quote in {} is not closed", quoted(line)));
    }
    words.extend(word);
    Ok(words)
}

fn escape(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<char, String> {
    let Some(c) = characters.next() else { return Ok('\\') };
    let mut code = |length: usize, radix: u32| {
        let digits: String = characters.by_ref().take(length).collect();
        let value = u32::from_str_radix(&digits, radix).ok().filter(|value| *value != 0).and_then(char::from_u32);
        value.ok_or_else(|| format!("\\{c}{digits} is no character"))
    };
    Ok(match c {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        's' => ' ',
        'x' => code(2, 16)?,
        'u' => code(4, 16)?,
        'U' => code(8, 16)?,
        other => other,
    })
}

/// A span such as `1h 30min`, `90` or `infinity`, which is `None`.
pub(super) fn span(text: &str) -> Result<Option<SignedDuration>, String> {
    let wrong = || format!("{} is no span of time such as 1h 30min", quoted(text));
    if text.trim() == "infinity" {
        return Ok(None);
    }
    let mut micros: f64 = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() || text.len() > 200 {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let amount: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        micros += amount * unit_micros(&rest[..letters]).ok_or_else(wrong)?;
        rest = rest[letters..].trim_start();
    }
    let longest = 3.0e15;
    if micros > longest {
        return Err(format!("{} is longer than a hundred years", quoted(text)));
    }
    #[expect(clippy::cast_possible_truncation, reason = "bounded just above")]
    Ok(Some(SignedDuration::from_micros(micros.round() as i64)))
}

fn unit_micros(unit: &str) -> Option<f64> {
    let seconds = |seconds: f64| seconds * 1e6;
    Some(match unit {
        "us" | "usec" | "µs" | "μs" => 1.0,
        "ms" | "msec" => 1e3,
        "" | "s" | "sec" | "second" | "seconds" => seconds(1.0),
        "m" | "min" | "minute" | "minutes" => seconds(60.0),
        "h" | "hr" | "hour" | "hours" => seconds(3600.0),
        "d" | "day" | "days" => seconds(86_400.0),
        "w" | "week" | "weeks" => seconds(604_800.0),
        "M" | "month" | "months" => seconds(2_629_800.0),
        "y" | "year" | "years" => seconds(31_557_600.0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_systemd_splits_them() {
        assert_eq!(words(r#"/bin/a  "b c" 'd "e' f\sg"#).unwrap(), ["/bin/a", "b c", "d \"e", "f g"]);
        assert_eq!(words(r#"a "" \x41 "x"y"#).unwrap(), ["a", "", "A", "xy"]);
        assert!(words("a 'b").is_err());
    }

    #[test]
    fn spans_are_read_in_every_unit() {
        for (text, seconds) in [("90", 90), ("1h 30min", 5400), ("2w", 1_209_600), ("1.5h", 5400), ("6000", 6000)] {
            assert_eq!(span(text).unwrap(), Some(SignedDuration::from_secs(seconds)), "{text}");
        }
        assert_eq!(span("infinity").unwrap(), None);
        for text in ["", "soon", "5 fortnights", "-5s", "1..2s", "99999999999y"] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn drop_ins_come_last_and_an_empty_setting_forgets() {
        let file = |name: &str, text: &str| UnitFile { path: name.into(), name: name.into(), text: text.into() };
        let files = [
            file("a@.timer", "[Timer]\nOnCalendar=daily\nOnCalendar=weekly\n# no\nPersistent=\\\n  yes\n"),
            file("a@x.timer.d/b.conf", "[Timer]\nOnCalendar=\nOnCalendar=hourly\n"),
        ];
        let unit = unit("a@x.timer", &files, &mut Vec::new()).unwrap();
        let calendars: Vec<&str> = unit.all("Timer", "OnCalendar").iter().map(|each| each.value.as_str()).collect();
        assert_eq!(calendars, ["hourly"]);
        assert!(unit.is_on("Timer", "Persistent"));
        let filled = Specifiers { unit: "a@x\\x2dy-z.service".into(), ..Specifiers::default() };
        assert_eq!(filled.fill("%i %I %p %% %m"), ("x\\x2dy-z x-y/z a % %m".to_owned(), vec!['m']));
    }
}
