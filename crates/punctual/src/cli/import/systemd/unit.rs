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
    /// The unit whose file it is a link to.
    pub(crate) alias_of: Option<String>,
    /// It belongs to the manager of a user, not to that of the system.
    pub(crate) of_user: bool,
}

/// One line of a unit, drop-ins included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) section: String,
    pub(super) key: String,
    pub(super) value: String,
    pub(super) place: Place,
    /// The value had specifiers, which were replaced.
    pub(super) filled: bool,
}

/// A unit with its drop-ins.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// Its full name, the instance included.
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) settings: Vec<Setting>,
    /// It belongs to the manager of a user.
    pub(super) of_user: bool,
}

/// What lets a timer elapse. They are one list: an empty one forgets all of them.
const TRIGGERS: [&str; 6] =
    ["OnCalendar", "OnBootSec", "OnActiveSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec"];

impl Unit {
    /// The values of a list, in order; an empty one forgets those before it.
    pub(super) fn all(&self, section: &str, key: &str) -> Vec<&Setting> {
        let is_trigger = section == "Timer" && TRIGGERS.contains(&key);
        let same = |of: &str| of == key || (is_trigger && TRIGGERS.contains(&of));
        let mut found = Vec::new();
        for setting in self.settings.iter().filter(|each| each.section == section && same(&each.key)) {
            if setting.value.is_empty() {
                found.clear();
            } else if setting.key == key {
                found.push(setting);
            }
        }
        found
    }

    /// Replaces the specifiers of some settings, and says of which some are known only to the machine.
    pub(super) fn fill(&mut self, specifiers: &Specifiers, wants: impl Fn(&Setting) -> bool) -> Vec<(Setting, String)> {
        let mut unknown = Vec::new();
        for setting in self.settings.iter_mut().filter(|each| each.value.contains('%')).filter(|each| wants(each)) {
            let (filled, letters) = specifiers.fill(&setting.value);
            if !letters.is_empty() {
                unknown.push((setting.clone(), spelled(&letters)));
            }
            setting.value = filled;
            setting.filled = true;
        }
        unknown
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
    let mut folders = folders_of(name);
    folders.extend(files.iter().filter(|file| file.alias_of.as_deref() == Some(name)).map(|file| file.name.clone()));
    let mut dropped: BTreeMap<&str, &UnitFile> = BTreeMap::new();
    for folder in &folders {
        let inside = |file: &&UnitFile| file.name.split_once(".d/").is_some_and(|(unit, _)| unit == folder);
        dropped.extend(files.iter().filter(inside).filter_map(|file| Some((file.name.rsplit('/').next()?, file))));
    }
    settings.extend(dropped.into_values().flat_map(|file| parsed(file, faults)));
    Some(Unit { name: name.to_owned(), place: Place::new(&file.path, 1), settings, of_user: file.of_user })
}

/// Whose drop-ins a unit has, the nearest last: `service`, `a-.service`, `a-b@.service`, `a-b@c.service`.
fn folders_of(name: &str) -> Vec<String> {
    let Some((stem, kind)) = name.rsplit_once('.') else { return vec![name.to_owned()] };
    let (prefix, instance) = stem.split_once('@').map_or((stem, None), |(prefix, of)| (prefix, Some(of)));
    let mut folders = vec![kind.to_owned()];
    let ends = prefix.match_indices('-').map(|(at, _)| at + 1).filter(|end| *end < prefix.len());
    for prefix in ends.map(|end| &prefix[..end]).chain([prefix]) {
        match instance {
            None => folders.push(format!("{prefix}.{kind}")),
            Some(instance) => {
                folders.extend([format!("{prefix}@.{kind}"), format!("{prefix}@{instance}.{kind}")]);
            }
        }
    }
    folders
}

/// `x@.timer` for `x@one.timer`.
pub(crate) fn template_of(name: &str) -> Option<String> {
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
            settings.push(Setting { section: section.clone(), key, value, place, filled: false });
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
    /// Nothing where it is not known.
    pub(super) user: Option<String>,
    pub(super) home: Option<String>,
    /// The folders are those of a user's own manager, which the environment of that user names.
    pub(super) of_user: bool,
}

/// Specifiers as they are written.
pub(super) fn spelled(letters: &[char]) -> String {
    letters.iter().map(|letter| format!("%{letter}")).collect::<Vec<_>>().join(", ")
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
            'u' => self.user.clone()?,
            'h' => self.home.clone()?,
            't' | 'S' | 'C' | 'L' | 'E' if self.of_user => return None,
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

/// Splits a text into words as systemd does: quotes of both kinds, escapes of C. `Err` says what is wrong.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        words.push(next_word(&mut rest)?);
    }
    Ok(words)
}

/// The commands of a line: a `;` that stands alone is between two of them, and `\;` is a word.
pub(super) fn commands(line: &str) -> Result<Vec<Vec<String>>, String> {
    let mut commands = vec![Vec::new()];
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let last = commands.len() - 1;
        match &rest[..end] {
            ";" => commands.push(Vec::new()),
            r"\;" => commands[last].push(";".to_owned()),
            _ => {
                commands[last].push(next_word(&mut rest)?);
                continue;
            }
        }
        rest = rest[end..].trim_start();
    }
    commands.retain(|command| !command.is_empty());
    Ok(commands)
}

/// The next word; moves behind it and the white space after it.
fn next_word(rest: &mut &str) -> Result<String, String> {
    let text = *rest;
    let mut word = Vec::new();
    let mut quote: Option<char> = None;
    let mut characters = text.chars();
    *rest = "";
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', _) => escape(&mut characters, &mut word),
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            (c, None) if c.is_whitespace() => {
                *rest = characters.as_str().trim_start();
                break;
            }
            (c, _) => word.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    if quote.is_some() {
        return Err(format!("a quote in {} is not closed", quoted(text)));
    }
    String::from_utf8(word).map_err(|_| format!("escapes in {} make no UTF-8", quoted(text)))
}

/// What stands for a backslash and what follows it; one that means nothing stays with its character.
fn escape(characters: &mut std::str::Chars<'_>, word: &mut Vec<u8>) {
    let rest = characters.as_str();
    let code = |skip: usize, length: usize, radix: u32| {
        let digits = rest.get(skip..skip + length)?;
        let is_digits = digits.chars().all(|digit| digit.is_digit(radix));
        u32::from_str_radix(digits, radix).ok().filter(|value| is_digits && *value != 0)
    };
    let byte = |value: Option<u32>| Some(vec![u8::try_from(value?).ok()?]);
    let character = |value: Option<u32>| Some(char::from_u32(value?)?.to_string().into_bytes());
    let (meaning, length) = match rest.chars().next() {
        Some('a') => (Some(vec![7]), 1),
        Some('b') => (Some(vec![8]), 1),
        Some('f') => (Some(vec![12]), 1),
        Some('n') => (Some(vec![b'\n']), 1),
        Some('r') => (Some(vec![b'\r']), 1),
        Some('t') => (Some(vec![b'\t']), 1),
        Some('v') => (Some(vec![11]), 1),
        Some('s') => (Some(vec![b' ']), 1),
        Some(plain @ ('\\' | '"' | '\'')) => (Some(plain.to_string().into_bytes()), 1),
        Some('x') => (byte(code(1, 2, 16)), 3),
        Some('u') => (character(code(1, 4, 16)), 5),
        Some('U') => (character(code(1, 8, 16)), 9),
        Some('0'..='7') => (byte(code(0, 3, 8)), 3),
        _ => (None, 0),
    };
    if let Some(bytes) = meaning {
        word.extend(bytes);
        *characters = rest[length..].chars();
        return;
    }
    word.push(b'\\');
    if let Some(c) = characters.next() {
        word.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Splits the value of a variable that stands alone: quotes are taken off, a backslash keeps what follows it.
pub(super) fn split_value(value: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', _) => word.get_or_insert_default().extend(characters.next()),
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
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
    // 36,525 days, as durations have it here.
    let longest = 3.155_76e15;
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
        assert_eq!(words(r"\101\102 \xc3\xa9 \u00e9 \d+ \x4 \").unwrap(), ["AB", "é", "é", r"\d+", r"\x4", r"\"]);
        assert!(words("a 'b").is_err());
        assert!(words(r"\xff").is_err());
    }

    #[test]
    fn a_semicolon_alone_is_between_two_commands() {
        assert_eq!(commands("/bin/a b ; -/bin/c").unwrap(), [vec!["/bin/a", "b"], vec!["-/bin/c"]]);
        assert_eq!(commands(r"/bin/a \; b; ';' ;").unwrap(), [vec!["/bin/a", ";", "b;", ";"]]);
    }

    #[test]
    fn the_value_of_a_variable_is_split_and_its_quotes_are_taken_off() {
        assert_eq!(split_value(r#"one 'two two'  "th"ree fo\ ur ''"#), ["one", "two two", "three", "fo ur", ""]);
    }

    #[test]
    fn spans_are_read_in_every_unit() {
        for (text, seconds) in
            [("90", 90), ("1h 30min", 5400), ("2w", 1_209_600), ("1.5h", 5400), ("6000", 6000), ("99y", 3_124_202_400)]
        {
            assert_eq!(span(text).unwrap(), Some(SignedDuration::from_secs(seconds)), "{text}");
        }
        assert_eq!(span("infinity").unwrap(), None);
        for text in ["", "soon", "5 fortnights", "-5s", "1..2s", "99999999999y"] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn drop_ins_come_last_and_an_empty_setting_forgets() {
        let file = |name: &str, text: &str| UnitFile {
            path: name.into(),
            name: name.into(),
            text: text.into(),
            alias_of: None,
            of_user: false,
        };
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
        let of_user = Specifiers { of_user: true, ..filled };
        assert_eq!(of_user.fill("%h %t %S %u").1, ['h', 't', 'S', 'u']);
    }

    #[test]
    fn drop_ins_of_a_kind_and_of_a_prefix_count_and_nearer_ones_win() {
        assert_eq!(folders_of("a-b-c.timer"), ["timer", "a-.timer", "a-b-.timer", "a-b-c.timer"]);
        assert_eq!(folders_of("a-b@x-y.timer")[1..], ["a-@.timer", "a-@x-y.timer", "a-b@.timer", "a-b@x-y.timer"]);
    }

    #[test]
    fn an_empty_trigger_forgets_every_trigger() {
        let text = "[Timer]\nOnBootSec=5\nOnCalendar=daily\nPersistent=yes\nOnUnitActiveSec=\nOnCalendar=weekly\n";
        let file = UnitFile {
            path: "a.timer".into(),
            name: "a.timer".into(),
            text: text.into(),
            alias_of: None,
            of_user: false,
        };
        let unit = unit("a.timer", &[file], &mut Vec::new()).unwrap();
        assert!(unit.all("Timer", "OnBootSec").is_empty());
        assert_eq!(unit.all("Timer", "OnCalendar").len(), 1);
        assert!(unit.is_on("Timer", "Persistent"));
    }
}
