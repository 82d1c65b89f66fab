//! Reads a manifest: every thing by the same rules as the call that makes one alone, and all mistakes at once.

use super::fires::made;
use super::refusal::{Refusals, Why, escaped, place, section};
use crate::api::calendars::NewCalendarBody;
use crate::api::channels::NewChannelBody;
use crate::api::cron::NewPreset;
use crate::api::flows::NewFlowBody;
use crate::api::limits::NewLimitBody;
use crate::api::rules::NewRuleBody;
use crate::api::schedule_shapes::{Begin, NewScheduleBody};
use crate::api::templates::NewTemplate;
use crate::auth::Caller;
use crate::change::text_of;
use jiff::{SignedDuration, Timestamp};
use punctual_core::cron::CronPreset;
use punctual_core::duration;
use punctual_core::flow::FlowDefinition;
use punctual_core::invalid::Invalid;
use punctual_core::job::NewJob;
use punctual_core::limits::LimitSubject;
use punctual_core::manifest::{Thing, ThingKind};
use punctual_core::name::{self, Name};
use punctual_core::nearest::nearest;
use punctual_core::replan::refuse_without_slots;
use punctual_core::schedule::Source;
use punctual_core::timing::TimingSpec;
use punctual_core::unique::Unique;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_path_to_error::Segment;
use std::collections::{BTreeMap, BTreeSet};

/// A thing of a kind, by name.
pub(crate) type Key = (ThingKind, String);

/// The fields of an object, each as it is written.
pub(crate) type RawFields = BTreeMap<String, Box<RawValue>>;

/// The most mistakes that are looked for in one thing.
const MISTAKES_MAX: usize = 32;

/// What a manifest says of a thing.
#[derive(Debug)]
pub(crate) enum SaidOf {
    /// All that is to be known.
    Thing(Box<Thing>),
    /// A schedule: what it is depends on the preset and the template that it names.
    Schedule(Box<SaidSchedule>),
}

/// What a manifest says of a schedule.
#[derive(Debug)]
pub(crate) struct SaidSchedule {
    pub(crate) body: NewScheduleBody,
    pub(crate) depends_on: Option<SaidDependency>,
    pub(crate) paused: Option<bool>,
}

/// A schedule that must have succeeded, by name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaidDependency {
    pub(crate) schedule: String,
    #[serde(with = "duration::text")]
    pub(crate) within: SignedDuration,
}

/// Whether a queue gives out jobs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidQueue {
    #[serde(default)]
    paused: bool,
}

/// A manifest that was read.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) owner: String,
    pub(crate) things: BTreeMap<Key, SaidOf>,
    /// What was refused. Others may name it, and are not wrong because of that.
    pub(crate) refused: BTreeSet<Key>,
}

impl Manifest {
    /// Reads one; what is wrong is noted and left out.
    pub(crate) fn read(text: &RawValue, caller: &Caller, refusals: &mut Refusals) -> Self {
        let mut sections = fields_of(text, "/", refusals).unwrap_or_default();
        let owner = owner_of(sections.remove("owner"), caller, refusals);
        let (mut things, mut refused) = (BTreeMap::new(), BTreeSet::new());
        for (title, text) in sections {
            let Some(kind) = ThingKind::ALL.iter().copied().find(|kind| section(*kind) == title) else {
                refuse_section(&title, refusals);
                continue;
            };
            for (name, text) in fields_of(&text, &format!("/{title}"), refusals).unwrap_or_default() {
                let fields = fields_of(&text, &place(kind, &name), refusals);
                let reader = Reader { kind, name: &name, owner: &owner, refusals };
                match fields.and_then(|fields| reader.thing(fields)) {
                    Some(said) => drop(things.insert((kind, name), said)),
                    None => drop(refused.insert((kind, name))),
                }
            }
        }
        Self { owner, things, refused }
    }
}

fn owner_of(given: Option<Box<RawValue>>, caller: &Caller, refusals: &mut Refusals) -> String {
    let owner: Option<String> = given.and_then(|text| serde_json::from_str(text.get()).ok());
    let Some(owner) = owner else {
        let remedy = "say whose manifest it is: owner = \"billing\" on top, or --owner billing";
        refusals.add(Why::Wrong, "/owner".to_owned(), "is missing, or no text", remedy);
        return String::new();
    };
    if let Err(invalid) = name::check(&owner) {
        refusals.add(Why::Wrong, "/owner".to_owned(), invalid.problem, invalid.remedy.unwrap_or_default());
    } else if !caller.sees(Some(&owner)) {
        let told = format!("is `{owner}`, and the token belongs to `{}`", caller.owner);
        refusals.add(Why::Role, "/owner".to_owned(), told, "use a token of that owner, or an admin's");
    }
    owner
}

fn refuse_section(title: &str, refusals: &mut Refusals) {
    let known: Vec<String> = ThingKind::ALL.iter().map(|kind| section(*kind)).collect();
    let near = nearest(title, known.iter().map(String::as_str));
    let remedy = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use owner, {}", known.join(", ")),
    };
    refusals.add(Why::Wrong, format!("/{}", escaped(title)), "a manifest has no such section", remedy);
}

/// The fields of an object; nothing is an object without fields. What is none is refused.
fn fields_of(text: &RawValue, at: &str, refusals: &mut Refusals) -> Option<RawFields> {
    if let Ok(read) = serde_json::from_str::<Option<FieldsOnce>>(text.get()) {
        let FieldsOnce { fields, twice } = read.unwrap_or_default();
        for name in &twice {
            let pointer = format!("{}/{}", at.trim_end_matches('/'), escaped(name));
            refusals.add(Why::Wrong, pointer, "is there twice", "say it once");
        }
        return Some(fields).filter(|_| twice.is_empty());
    }
    refusals.add(Why::Wrong, at.to_owned(), "is no table of fields", "write it as a table, things by their names");
    None
}

/// Fields, and the names that stand there more than once: the last of them would be taken unseen.
#[derive(Debug, Default)]
struct FieldsOnce {
    fields: RawFields,
    twice: BTreeSet<String>,
}

impl<'de> Deserialize<'de> for FieldsOnce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = FieldsOnce;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldsOnce, A::Error> {
                let mut read = FieldsOnce::default();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if read.fields.insert(name.clone(), value).is_some() {
                        read.twice.insert(name);
                    }
                }
                Ok(read)
            }
        }
        deserializer.deserialize_map(Each)
    }
}

/// Reads one thing.
struct Reader<'a> {
    kind: ThingKind,
    name: &'a str,
    owner: &'a str,
    refusals: &'a mut Refusals,
}

impl Reader<'_> {
    fn thing(mut self, mut fields: RawFields) -> Option<SaidOf> {
        if fields.remove("name").is_some() {
            self.refuse("name", "is said by the title of the table already", "leave it out");
        }
        let named = self.check_name();
        if let Err(invalid) = named {
            self.refusals.add(
                Why::Wrong,
                place(self.kind, self.name),
                invalid.problem,
                invalid.remedy.unwrap_or_default(),
            );
            return None;
        }
        if self.kind == ThingKind::Schedule {
            return self.schedule(fields).map(|said| SaidOf::Schedule(Box::new(said)));
        }
        let read = self.other(fields)?;
        let checked = read.and_then(|thing| thing.validate(self.name).map(|()| thing));
        checked.map_err(|invalid| self.invalid(invalid)).ok().map(|thing| SaidOf::Thing(Box::new(thing)))
    }

    fn check_name(&self) -> Result<(), Invalid> {
        match self.kind {
            ThingKind::Limit => self.name.parse::<LimitSubject>().map(drop),
            ThingKind::Preset if CronPreset::built_in(self.name).is_some() => {
                Err(Invalid::new("name", "is the name of a preset that comes with the program")
                    .remedy("choose another"))
            }
            ThingKind::Queue | ThingKind::Preset => name::check(self.name),
            _ => Name::new(self.name).map(drop),
        }
    }

    /// Everything but schedules; the outer nothing means that it was refused already.
    fn other(&mut self, fields: RawFields) -> Option<Result<Thing, Invalid>> {
        let name = Name::new(self.name);
        Some(match self.kind {
            ThingKind::Calendar => {
                let (description, rules) = self.named::<NewCalendarBody>(fields)?.into_rules();
                Ok(Thing::Calendar { description, rules: rules.storable() })
            }
            ThingKind::Preset => {
                let preset = CronPreset::from(self.named::<NewPreset>(fields)?);
                Ok(Thing::Preset { expression: preset.expression, description: preset.description })
            }
            ThingKind::Template => self
                .named::<NewTemplate>(fields)?
                .into_job(&Caller::in_process())
                .map(|(job, parameters)| Thing::Template { job: Box::new(self.own_keys(job)), parameters }),
            ThingKind::Queue => Ok(Thing::Queue { paused: self.parse::<SaidQueue>(fields)?.paused }),
            ThingKind::Limit => {
                let body = self.parse::<NewLimitBody>(fields)?;
                self.name.parse().map(|subject| Thing::Limit(body.on(subject)))
            }
            ThingKind::Channel => self.named::<NewChannelBody>(fields)?.into_definition().map(Thing::Channel),
            ThingKind::Rule => Ok(Thing::Rule(self.named::<NewRuleBody>(fields)?.0)),
            ThingKind::Flow => {
                let definition = FlowDefinition::from(self.parse::<NewFlowBody>(fields)?);
                name.map(|_| Thing::Flow { definition, owner: Some(self.owner.to_owned()) })
            }
            ThingKind::Schedule => return None,
        })
    }

    /// Unique keys of two owners never meet, as it is with templates that are made alone; whoever applies the manifest, so
    /// that it says the same of everybody.
    fn own_keys(&self, job: NewJob) -> NewJob {
        let prefix = format!("{}:", self.owner);
        let own = |key: String| if key.starts_with(&prefix) { key } else { format!("{prefix}{key}") };
        match job.unique {
            Some(unique) => NewJob { unique: Some(Unique { key: unique.key.map(own), ..unique }), ..job },
            None => job,
        }
    }

    fn schedule(&mut self, mut fields: RawFields) -> Option<SaidSchedule> {
        for (field, remedy) in [
            ("enabled", "say paused = true or paused = false"),
            ("grant", "make the grant with `punctual grant add`, and name it in grant_id"),
        ] {
            if fields.remove(field).is_some() {
                self.refuse(field, "is not for manifests", remedy);
            }
        }
        let paused = self.taken(&mut fields, "paused");
        let depends_on = self.taken(&mut fields, "depends_on");
        let body = self.named(fields)?;
        Some(SaidSchedule { body, depends_on: depends_on.ok()?, paused: paused.ok()? })
    }

    /// A field that the manifest has in words of its own.
    fn taken<T: DeserializeOwned>(&mut self, fields: &mut RawFields, field: &str) -> Result<Option<T>, RefusedAlready> {
        let Some(text) = fields.remove(field) else { return Ok(None) };
        let only = RawFields::from([(field.to_owned(), text)]);
        let mut read = self.parse::<BTreeMap<String, Option<T>>>(only).ok_or(RefusedAlready)?;
        Ok(read.remove(field).flatten())
    }

    /// Reads what has its name among its fields.
    fn named<T: DeserializeOwned>(&mut self, mut fields: RawFields) -> Option<T> {
        let name = serde_json::value::to_raw_value(self.name).ok()?;
        fields.insert("name".to_owned(), name);
        self.parse(fields)
    }

    /// Reads fields. After a mistake it goes on without the field that has it, so that all are found.
    fn parse<T: DeserializeOwned>(&mut self, mut fields: RawFields) -> Option<T> {
        let mut left_out = BTreeSet::new();
        for _ in 0..MISTAKES_MAX {
            let text = text_of(&fields);
            let mut reader = serde_json::Deserializer::from_str(&text);
            let error: serde_path_to_error::Error<serde_json::Error> =
                match serde_path_to_error::deserialize(&mut reader) {
                    Ok(read) => return left_out.is_empty().then_some(read),
                    Err(error) => error,
                };
            let mistake = Mistake::of(&error);
            if mistake.missing.as_ref().is_some_and(|field| left_out.contains(field)) {
                return None;
            }
            let first = mistake.path.first().cloned();
            let pointer = mistake.path.iter().fold(place(self.kind, self.name), |at, part| at + "/" + &escaped(part));
            self.refusals.add(Why::Wrong, pointer, mistake.detail, mistake.remedy);
            let first = first.filter(|first| fields.remove(first).is_some())?;
            left_out.insert(first);
        }
        None
    }

    fn refuse(&mut self, field: &str, detail: &str, remedy: &str) {
        let pointer = format!("{}/{field}", place(self.kind, self.name));
        self.refusals.add(Why::Wrong, pointer, detail, remedy);
    }

    fn invalid(&mut self, invalid: Invalid) {
        self.refusals.invalid(self.kind, self.name, invalid);
    }
}

/// What is wrong was noted.
#[derive(Debug)]
struct RefusedAlready;

/// What could not be read, for people.
struct Mistake {
    path: Vec<String>,
    detail: String,
    remedy: String,
    /// The field that is not there, when that is the mistake.
    missing: Option<String>,
}

impl Mistake {
    fn of(error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        let part = |segment: &Segment| match segment {
            Segment::Map { key } => Some(key.clone()),
            Segment::Seq { index } => Some(index.to_string()),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        let mut path: Vec<String> = error.path().iter().filter_map(part).collect();
        let words = error.inner().to_string();
        let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words);
        let quoted = quoted(words);
        match quoted.split_first() {
            Some((field, known)) if words.starts_with("unknown field ") => {
                if path.last() != Some(field) {
                    path.push(field.clone());
                }
                let remedy = remedy_of_unknown(field, known);
                Self { path, detail: "there is no such field".to_owned(), remedy, missing: None }
            }
            Some((field, _)) if words.starts_with("missing field ") => {
                path.push(field.clone());
                let missing = Some(field.clone());
                Self { path, detail: "is missing".to_owned(), remedy: "say what it is".to_owned(), missing }
            }
            _ => Self { path, detail: words.to_owned(), remedy: String::new(), missing: None },
        }
    }
}

/// The words between backticks.
fn quoted(words: &str) -> Vec<String> {
    words.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Fields that the calls of the API have and a manifest says otherwise or not at all.
const NOT_SAID: [&str; 3] = ["name", "enabled", "grant"];

fn remedy_of_unknown(field: &str, known: &[String]) -> String {
    let known = || known.iter().map(String::as_str).filter(|known| !NOT_SAID.contains(known));
    match nearest(field, known()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known().next().is_none() => "leave it out".to_owned(),
        None => format!("use one of: {}", known().collect::<Vec<_>>().join(", ")),
    }
}

/// When a schedule of a manifest is due, if the manifest would be taken now: for importers, which leave out what would
/// not be. What it names, such as a calendar, is not looked for.
pub fn checked_schedule(
    name: &str, mut definition: serde_json::Map<String, serde_json::Value>, now: Timestamp,
) -> Result<TimingSpec, Invalid> {
    definition.remove("paused");
    definition.insert("name".to_owned(), name.into());
    let body: NewScheduleBody = serde_path_to_error::deserialize(serde_json::Value::Object(definition))
        .map_err(|error| Invalid::new(error.path().to_string(), error.inner().to_string()))?;
    let definition = body.into_definition(Begin::default(), None, Source::File)?;
    let schedule = made(&definition, false, now);
    refuse_without_slots(&schedule.plan_next(now), &schedule.definition)?;
    Ok(schedule.definition.timing)
}
