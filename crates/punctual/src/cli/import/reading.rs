//! What an importer has read: schedules to be, and every difference in meaning, each with the line it comes from.

use std::collections::{HashMap, HashSet};
use std::fmt;

use jiff::Timestamp;
use punctual_core::name::{NAME_MAX_CHARS, Name};
use punctual_core::timing::Timing;
use punctual_server::checked_schedule;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A line of a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) line: usize,
}

impl Place {
    pub(crate) fn new(file: &str, line: usize) -> Self {
        Self { file: file.to_owned(), line }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// How something differs from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The job is not imported at all.
    LeftOut,
    /// The job is imported, but this part of it is not.
    Lost,
    /// It is imported and means something else here.
    Differs,
    /// It means the same, and yet is worth knowing.
    Note,
}

impl Kind {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::LeftOut => "left out",
            Self::Lost => "lost",
            Self::Differs => "differs",
            Self::Note => "note",
        }
    }
}

/// A difference, before the schedule it is about has its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

/// A difference in meaning, as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) schedule: Option<String>,
    pub(crate) remark: Remark,
}

impl Difference {
    pub(crate) fn document(&self) -> Value {
        json!({
            "file": self.remark.place.file, "line": self.remark.place.line, "schedule": self.schedule,
            "kind": self.remark.kind, "what": self.remark.what, "remedy": self.remark.remedy,
        })
    }
}

/// A source that cannot be read: nothing of it is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    pub(crate) problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// A schedule that has no name yet.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// What it would like to be called.
    pub(crate) base: String,
    /// What tells it from others that would like the same name; the same at every import.
    pub(crate) identity: String,
    /// Its name ends with a mark of its identity even if nobody shares it: another may be added, and must not rename it.
    pub(crate) marked: bool,
    pub(crate) place: Place,
    /// As a manifest has it.
    pub(crate) definition: Map<String, Value>,
    pub(crate) remarks: Vec<Remark>,
    /// The days of the week on which it must not run, by a calendar of its own.
    pub(crate) closed_weekdays: Vec<&'static str>,
}

impl Draft {
    pub(crate) fn new(base: impl Into<String>, place: Place) -> Self {
        Self {
            base: base.into(),
            identity: String::new(),
            marked: false,
            place,
            definition: Map::new(),
            remarks: Vec::new(),
            closed_weekdays: Vec::new(),
        }
    }

    pub(crate) fn put(&mut self, field: &str, value: impl Into<Value>) {
        self.definition.insert(field.to_owned(), value.into());
    }

    /// Says something about the line it comes from.
    pub(crate) fn remark(&mut self, kind: Kind, what: impl Into<String>, remedy: impl Into<String>) {
        self.remark_at(self.place.line, kind, what, remedy);
    }

    /// Says something about another line of the same file.
    pub(crate) fn remark_at(&mut self, line: usize, kind: Kind, what: impl Into<String>, remedy: impl Into<String>) {
        let place = Place { line, ..self.place.clone() };
        self.remarks.push(Remark { place, kind, what: what.into(), remedy: remedy.into() });
    }
}

/// Everything that was read of some sources.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) drafts: Vec<Draft>,
    /// What is about no single schedule.
    pub(crate) remarks: Vec<Remark>,
    pub(crate) faults: Vec<Fault>,
    /// Files and what was said about them once.
    pub(crate) told_once: HashSet<(String, String)>,
}

impl Reading {
    pub(crate) fn fault(&mut self, place: Place, problem: impl Into<String>) {
        self.faults.push(Fault { place, problem: problem.into() });
    }

    pub(crate) fn remark(&mut self, place: Place, kind: Kind, what: impl Into<String>, remedy: impl Into<String>) {
        self.remarks.push(Remark { place, kind, what: what.into(), remedy: remedy.into() });
    }

    /// Says it once, however many lines give reason to.
    pub(crate) fn remark_once(&mut self, place: Place, kind: Kind, what: impl Into<String>, remedy: impl Into<String>) {
        let what = what.into();
        if self.told_once.insert((place.file.clone(), what.clone())) {
            self.remark(place, kind, what, remedy);
        }
    }

    pub(crate) fn extend(&mut self, other: Reading) {
        self.drafts.extend(other.drafts);
        self.remarks.extend(other.remarks);
        self.faults.extend(other.faults);
        self.told_once.extend(other.told_once);
    }

    /// Names every schedule, and leaves out, with the reason, what Punctual itself would refuse at this time.
    pub(crate) fn named(self, prefix: &str, now: Timestamp) -> Imported {
        let names = names(prefix, &self.drafts);
        let mut imported = Imported::default();
        let untold = self.remarks.into_iter().map(|remark| Difference { schedule: None, remark });
        imported.differences.extend(untold);
        for (mut draft, name) in self.drafts.into_iter().zip(names) {
            let mut remarks = std::mem::take(&mut draft.remarks);
            if !draft.closed_weekdays.is_empty() {
                draft.put("calendar", name.as_str());
            }
            match checked(&name, &draft.definition, now) {
                Ok(timing) => {
                    if !draft.closed_weekdays.is_empty() {
                        let zone = draft.definition.get("timezone").cloned().unwrap_or_default();
                        let rules = json!({ "timezone": zone, "weekdays": draft.closed_weekdays });
                        imported.calendars.insert(name.clone(), rules);
                    }
                    let (place, definition) = (draft.place, draft.definition);
                    imported.schedules.push(Schedule { name: name.clone(), place, definition, timing });
                }
                Err(problem) => remarks.push(Remark {
                    place: draft.place,
                    kind: Kind::LeftOut,
                    what: format!("Punctual refuses it: {problem}"),
                    remedy: "change the source, or make the schedule by hand".to_owned(),
                }),
            }
            let told = remarks.into_iter().map(|remark| Difference { schedule: Some(name.clone()), remark });
            imported.differences.extend(told);
        }
        imported
    }
}

/// A schedule with its name.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) definition: Map<String, Value>,
    pub(crate) timing: Timing,
}

/// What comes out: a manifest, and the report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Imported {
    pub(crate) schedules: Vec<Schedule>,
    /// Calendars that schedules of the same name obey.
    pub(crate) calendars: Map<String, Value>,
    pub(crate) differences: Vec<Difference>,
}

impl Imported {
    /// The file of schedules as code.
    pub(crate) fn manifest(&self, owner: &str) -> Value {
        let schedules: Map<String, Value> =
            self.schedules.iter().map(|each| (each.name.clone(), Value::Object(each.definition.clone()))).collect();
        let mut manifest = json!({ "owner": owner, "schedules": schedules });
        if !self.calendars.is_empty() {
            manifest["calendars"] = Value::Object(self.calendars.clone());
        }
        manifest
    }

    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.differences.iter().filter(|each| each.remark.kind == kind).count()
    }

    /// Whether anything means something else than in its source.
    pub(crate) fn differs(&self) -> bool {
        self.differences.iter().any(|each| each.remark.kind != Kind::Note)
    }
}

/// A name for each, valid and unique. Who could share one with others has a mark that follows from what it says, and has
/// it always: so a line that is added renames none of those that are there.
fn names(prefix: &str, drafts: &[Draft]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut names = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let base = valid(prefix, &draft.base);
        // A text that had to be changed may be what another is made into as well.
        let is_marked = draft.marked || base != format!("{prefix}{}", draft.base);
        let with_mark = || format!("{base}-{}", mark(&draft.identity));
        let mut name = if is_marked { with_mark() } else { base.clone() };
        if !is_marked && taken.contains(&name) {
            name = with_mark();
        }
        let number = numbers.entry(name.clone()).or_insert(1);
        let mut free = name.clone();
        while taken.contains(&free) {
            *number += 1;
            free = format!("{name}-{number}");
        }
        taken.insert(free.clone());
        names.push(free);
    }
    names
}

/// A text made into a name: nothing that a terminal obeys, no white space, room for a mark behind it.
fn valid(prefix: &str, base: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '/' | ':');
    let mut name: String = format!("{prefix}{base}").chars().map(|c| if plain(c) { c } else { '-' }).collect();
    while name.contains("--") {
        name = name.replace("--", "-");
    }
    let name: String = name.trim_matches('-').chars().take(NAME_MAX_CHARS - 20).collect();
    match Name::new(name.as_str()) {
        Ok(name) => name.as_str().to_owned(),
        // Nothing is left of it, or it reads like an id.
        Err(_) => format!("imported-{name}").trim_end_matches('-').to_owned(),
    }
}

/// Six hexadecimal digits of the FNV-1a hash: the same on every machine and in every version.
fn mark(identity: &str) -> String {
    let hash = identity
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{:06x}", (hash ^ (hash >> 32)) & 0xff_ffff)
}

/// The timing of a definition that would be taken, or why it would not be: by the rules of the call that makes one.
fn checked(name: &str, definition: &Map<String, Value>, now: Timestamp) -> Result<Timing, String> {
    let timing = checked_schedule(name, definition.clone(), now).map_err(|refused| refused.to_string())?;
    timing.compile(now, name).map_err(|refused| refused.to_string())
}

/// Reads bytes as text, or says on which line they are none.
pub(crate) fn text_of(file: &str, bytes: Vec<u8>) -> Result<String, Fault> {
    let line_at = |at: usize, bytes: &[u8]| bytes[..at].split(|byte| *byte == b'\n').count();
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let place = Place::new(file, line_at(at, &bytes));
        let problem = "holds a NUL character; this is no text, or it is not in UTF-8".to_owned();
        return Err(Fault { place, problem });
    }
    String::from_utf8(bytes).map_err(|error| Fault {
        place: Place::new(file, line_at(error.utf8_error().valid_up_to(), error.as_bytes())),
        problem: "is not UTF-8; convert the file first, as with `iconv -f latin1 -t utf-8`".to_owned(),
    })
}

/// The most of a foreign text that a message quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("`{short}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(base: &str, identity: &str) -> Draft {
        let mut draft = Draft::new(base, Place::new("f", 1));
        draft.identity = identity.to_owned();
        draft.put("cron", "* * * * *");
        draft.put("target", json!({ "kind": "command", "argv": ["true"] }));
        draft
    }

    fn names_of(drafts: Vec<Draft>) -> Vec<String> {
        let reading = Reading { drafts, ..Reading::default() };
        reading.named("", Timestamp::now()).schedules.into_iter().map(|each| each.name).collect()
    }

    fn marked(base: &str, identity: &str) -> Draft {
        Draft { marked: true, ..draft(base, identity) }
    }

    #[test]
    fn names_are_valid_unique_and_do_not_move_when_a_line_is_added() {
        let one = names_of(vec![marked("backup", "a")]);
        let two = names_of(vec![marked("backup", "b"), marked("backup", "a"), draft("other", "c")]);
        assert_eq!((&two[1], two[2].as_str()), (&one[0], "other"));
        assert_ne!(two[0], two[1]);
        let same = names_of(vec![marked("x", "a"), marked("x", "a")]);
        assert_eq!(same[1], format!("{}-2", same[0]));
        // What is made into a name that others may be made into has a mark, and who is named to the letter has none.
        let alike = names_of(vec![draft("a b", "1"), draft("a-b", "2")]);
        assert_eq!(alike[1], "a-b");
        assert_eq!(names_of(vec![draft("a b", "1")])[0], alike[0]);
        let odd = names_of(vec![
            draft("", "a"),
            draft("a\u{1b}[2J\u{202e}b", "b"),
            draft(&"x".repeat(100_000), "c"),
            draft("6c0f7f6e-0d5c-4c2e-9d53-2b0b5d1a1f00", "d"),
        ]);
        assert_eq!(odd.len(), 4);
        assert!(odd.iter().all(|name| Name::new(name.as_str()).is_ok()), "{odd:?}");
    }

    #[test]
    fn what_punctual_would_refuse_is_left_out_with_the_reason() {
        let put = |name: &str, field: &str, value: Value| {
            let mut draft = draft(name, "a");
            draft.put(field, value);
            draft
        };
        let mut past = put("past", "ends_at", json!("2020-01-01T00:00:00Z"));
        past.closed_weekdays = vec!["monday"];
        let drafts = vec![
            put("never", "cron", json!("0 0 30 2 *")),
            put("nowhere", "timezone", json!("Mars/Base")),
            put("shaky", "jitter", json!("48h")),
            put("late", "missed", json!({ "policy": "once", "window": "9999999999s" })),
            put("odd", "labels", json!({ "a": "b c\u{7}" })),
            past,
        ];
        let imported = Reading { drafts, ..Reading::default() }.named("p-", Timestamp::now());
        assert!(imported.schedules.is_empty(), "{:?}", imported.schedules);
        assert!(imported.calendars.is_empty(), "a calendar without its schedule");
        let told: Vec<(&str, &str)> = imported
            .differences
            .iter()
            .map(|each| (each.schedule.as_deref().unwrap_or_default(), each.remark.what.as_str()))
            .collect();
        let words = ["no such date", "Mars/Base", "jitter", "missed", "labels", "leaves no slot after now"];
        for ((name, what), words) in told.iter().zip(words) {
            assert!(name.starts_with("p-") && what.contains(words), "{words}: {told:?}");
        }
        assert_eq!(imported.count(Kind::LeftOut), 6);
    }

    #[test]
    fn bytes_that_are_no_text_are_named_by_their_line() {
        assert_eq!(text_of("f", b"a\nb\n\xff".to_vec()).unwrap_err().place, Place::new("f", 3));
        assert_eq!(text_of("f", b"a\n\0".to_vec()).unwrap_err().place, Place::new("f", 2));
        assert_eq!(text_of("f", b"plain".to_vec()).unwrap(), "plain");
    }
}
