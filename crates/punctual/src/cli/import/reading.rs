//! What an importer has read: schedules to be, and every difference in meaning, each with the line it comes from.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use punctual_core::cron::Dst;
use punctual_core::duration::parse_duration;
use punctual_core::name::{NAME_MAX_CHARS, Name};
use punctual_core::target::Target;
use punctual_core::timing::{Timing, TimingSpec};
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
        if !self.remarks.iter().any(|told| told.what == what && told.place.file == place.file) {
            self.remark(place, kind, what, remedy);
        }
    }

    pub(crate) fn extend(&mut self, other: Reading) {
        self.drafts.extend(other.drafts);
        self.remarks.extend(other.remarks);
        self.faults.extend(other.faults);
    }

    /// Names every schedule, and leaves out, with the reason, what Punctual itself would refuse.
    pub(crate) fn named(self, prefix: &str) -> Imported {
        let names = names(prefix, &self.drafts);
        let mut imported = Imported::default();
        let untold = self.remarks.into_iter().map(|remark| Difference { schedule: None, remark });
        imported.differences.extend(untold);
        for (mut draft, name) in self.drafts.into_iter().zip(names) {
            let mut remarks = std::mem::take(&mut draft.remarks);
            if !draft.closed_weekdays.is_empty() {
                let zone = draft.definition.get("timezone").cloned().unwrap_or_default();
                let rules = json!({ "timezone": zone, "weekdays": draft.closed_weekdays });
                draft.put("calendar", name.as_str());
                imported.calendars.insert(name.clone(), rules);
            }
            match checked(&name, &draft.definition) {
                Ok(timing) => imported.schedules.push(Schedule {
                    name: name.clone(),
                    place: draft.place,
                    definition: draft.definition,
                    timing,
                }),
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

/// A name for each, valid and unique. Those who would share one are told apart by a mark that follows from what they
/// say, so that a line that is added above does not rename the others.
fn names(prefix: &str, drafts: &[Draft]) -> Vec<String> {
    let bases: Vec<String> = drafts.iter().map(|draft| valid(prefix, &draft.base)).collect();
    let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
    for base in &bases {
        *wanted.entry(base).or_default() += 1;
    }
    let mut taken = std::collections::BTreeSet::new();
    let mut names = Vec::with_capacity(drafts.len());
    for (draft, base) in drafts.iter().zip(&bases) {
        let name = if wanted.get(base.as_str()).copied().unwrap_or(0) > 1 {
            format!("{base}-{}", mark(&draft.identity))
        } else {
            base.clone()
        };
        let another = (2..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(another).find(|name| !taken.contains(name)).unwrap_or(name);
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

/// The timing of a definition that would be taken, or why it would not be.
fn checked(name: &str, definition: &Map<String, Value>) -> Result<Timing, String> {
    let text = |field: &str| definition.get(field).and_then(Value::as_str);
    let target = definition.get("target").cloned().unwrap_or_default();
    let target: Target = serde_json::from_value(target).map_err(|error| format!("target: {error}"))?;
    target.validate().map_err(|refused| refused.to_string())?;
    let spec = match (text("cron"), text("every"), text("at")) {
        (Some(expression), ..) => {
            let word = |field| text(field).map_or(Ok(None), |word| word.parse().map(Some));
            let gap = word("dst_gap").map_err(|error: punctual_core::cron::UnknownDstWord| error.to_string())?;
            let word = |field| text(field).map_or(Ok(None), |word| word.parse().map(Some));
            let overlap =
                word("dst_overlap").map_err(|error: punctual_core::cron::UnknownDstWord| error.to_string())?;
            let dst = Dst { gap: gap.unwrap_or_default(), overlap: overlap.unwrap_or_default() };
            let timezone = text("timezone").unwrap_or("UTC").to_owned();
            TimingSpec::Cron { expression: expression.to_owned(), timezone, dst }
        }
        (_, Some(every), _) => TimingSpec::Every { period: parse_duration(every).map_err(|error| error.to_string())? },
        (_, _, Some(at)) => TimingSpec::At { at: at.parse().map_err(|error: jiff::Error| error.to_string())? },
        _ => return Err("it does not say when".to_owned()),
    };
    spec.compile(Timestamp::UNIX_EPOCH, name).map_err(|refused| refused.to_string())
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
        reading.named("").schedules.into_iter().map(|each| each.name).collect()
    }

    #[test]
    fn names_are_valid_unique_and_do_not_move_when_a_line_is_added() {
        let two = names_of(vec![draft("backup", "a"), draft("backup", "b"), draft("other", "c")]);
        assert_eq!(two[2], "other");
        assert_ne!(two[0], two[1]);
        let three = names_of(vec![draft("backup", "new"), draft("backup", "a"), draft("backup", "b")]);
        assert_eq!(three[1..], two[..2]);
        let same = names_of(vec![draft("x", "a"), draft("x", "a")]);
        assert_eq!(same[1], format!("{}-2", same[0]));
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
        let mut never = draft("never", "a");
        never.put("cron", "0 0 30 2 *");
        let mut nowhere = draft("nowhere", "a");
        nowhere.put("timezone", "Mars/Base");
        let imported = Reading { drafts: vec![never, nowhere], ..Reading::default() }.named("p-");
        assert!(imported.schedules.is_empty());
        assert_eq!(imported.count(Kind::LeftOut), 2);
        assert_eq!(imported.differences[0].schedule.as_deref(), Some("p-never"));
        assert!(imported.differences[1].remark.what.contains("Mars/Base"), "{imported:?}");
    }

    #[test]
    fn bytes_that_are_no_text_are_named_by_their_line() {
        assert_eq!(text_of("f", b"a\nb\n\xff".to_vec()).unwrap_err().place, Place::new("f", 3));
        assert_eq!(text_of("f", b"a\n\0".to_vec()).unwrap_err().place, Place::new("f", 2));
        assert_eq!(text_of("f", b"plain".to_vec()).unwrap(), "plain");
    }
}
