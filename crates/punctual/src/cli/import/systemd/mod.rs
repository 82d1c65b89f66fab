//! Timers of systemd with the services they start.

mod calendar;
mod service;
mod unit;

pub(crate) use self::unit::{UnitFile, template_of};

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::duration::format_duration;

use self::calendar::{Part, When};
use self::unit::{Setting, Specifiers, Unit, span};
use super::reading::{Draft, Kind, Place, Reading, Remark};

/// What the files alone do not say.
#[derive(Clone, Debug, Default)]
pub(crate) struct SystemdOptions {
    /// The zone of the machine.
    pub(crate) timezone: String,
    /// Where users live, by name.
    pub(crate) homes: BTreeMap<String, String>,
    /// Whose own units they are, if they are not the system's.
    pub(crate) user: Option<String>,
}

impl SystemdOptions {
    fn home(&self, user: &str) -> Option<String> {
        if user == "root" { Some("/root".to_owned()) } else { self.homes.get(user).cloned() }
    }

    /// What specifiers stand for in a unit, as far as its user is known: of the system's units root, unless they name one.
    fn specifiers(&self, unit: &Unit) -> Specifiers {
        let of_user = unit.of_user || self.user.is_some();
        let mut specifiers = Specifiers { unit: unit.name.clone(), of_user, ..Specifiers::default() };
        let named = unit.last("Service", "User").map(|setting| specifiers.fill(&setting.value).0);
        let user = if of_user { self.user.clone() } else { Some(named.unwrap_or_else(|| "root".to_owned())) };
        specifiers.home = user.as_ref().and_then(|user| self.home(user));
        specifiers.user = user;
        specifiers
    }
}

/// Settings of a timer that are carried over, or told one by one.
const KNOWN: [&str; 14] = [
    "OnCalendar",
    "OnBootSec",
    "OnActiveSec",
    "OnStartupSec",
    "OnUnitActiveSec",
    "OnUnitInactiveSec",
    "Persistent",
    "RandomizedDelaySec",
    "FixedRandomDelay",
    "AccuracySec",
    "WakeSystem",
    "RemainAfterElapse",
    "Unit",
    "Description",
];

/// Reads every timer among the files.
pub(crate) fn read(files: &[UnitFile], options: &SystemdOptions) -> Reading {
    let mut reading = Reading::default();
    let timers: BTreeSet<&str> = files
        .iter()
        .map(|file| file.name.as_str())
        .filter(|name| matches!(name.rsplit_once('.'), Some((_, "timer"))))
        .collect();
    for name in timers {
        if let Some((file, of)) = alias(name, files) {
            let what = format!("{name} is a link to {of}, which is one timer");
            reading.remark(Place::new(&file.path, 1), Kind::Note, what, "nothing");
            continue;
        }
        let Some(mut timer) = unit::unit(name, files, &mut reading.faults) else { continue };
        if timer.stem().ends_with('@') {
            let what = format!("{name} is a template without an instance");
            let remedy = "give it the file of an instance, such as a copy named x@instance.timer";
            reading.remark(timer.place, Kind::LeftOut, what, remedy);
            continue;
        }
        fill(&mut timer, options, &mut reading);
        let drafts = of_timer(&timer, files, options, &mut reading);
        reading.drafts.extend(drafts);
    }
    if let Some(first) = reading.drafts.first() {
        let (place, what) = (first.place.clone(), "whether a timer is enabled is not written in its file");
        reading.remark(place, Kind::Note, what, "remove the schedules of timers that are not, or set `paused`");
    }
    reading
}

/// The unit that a timer is another name of: its own file, or the first of several links to a file elsewhere.
fn alias<'a>(name: &str, files: &'a [UnitFile]) -> Option<(&'a UnitFile, &'a str)> {
    let file = files.iter().find(|file| file.name == name)?;
    let of = file.alias_of.as_deref()?;
    let first = files.iter().map(|file| file.name.as_str()).find(|known| *known == of);
    let other = || files.iter().find(|other| other.alias_of.as_deref() == Some(of)).map(|other| other.name.as_str());
    first.or_else(other).filter(|first| *first != name).map(|first| (file, first))
}

/// Replaces specifiers where systemd does, and leaves out a time that only the machine knows.
fn fill(timer: &mut Unit, options: &SystemdOptions, reading: &mut Reading) {
    let specifiers = options.specifiers(timer);
    let wants = |setting: &Setting| match setting.section.as_str() {
        "Timer" => setting.key == "Unit" || (setting.key.starts_with("On") && KNOWN.contains(&setting.key.as_str())),
        section => section == "Unit" && setting.key == "Description",
    };
    for (setting, letters) in timer.fill(&specifiers, wants) {
        let is_text = setting.key == "Description";
        let kind = if is_text { Kind::Lost } else { Kind::LeftOut };
        let what = format!("{}: {letters} of {} is known only to the machine", timer.name, setting.key);
        reading.remark(setting.place.clone(), kind, what, "write the value itself");
        // A service whose name is not known stays, and is not found.
        if setting.key.starts_with("On") {
            timer.settings.retain(|each| each.place != setting.place);
        }
    }
}

fn of_timer(timer: &Unit, files: &[UnitFile], options: &SystemdOptions, reading: &mut Reading) -> Vec<Draft> {
    let started =
        timer.last("Timer", "Unit").map_or_else(|| format!("{}.service", timer.stem()), |set| set.value.clone());
    let Some(mut service) = unit::unit(&started, files, &mut reading.faults) else {
        let what = format!("{} starts {started}, which is not among the files", timer.name);
        let remedy = "name the folder or file of that service as well";
        reading.remark(timer.place.clone(), Kind::LeftOut, what, remedy);
        return Vec::new();
    };
    let specifiers = options.specifiers(&service);
    let is_text = |setting: &Setting| setting.section == "Unit" && setting.key == "Description";
    for (setting, letters) in service.fill(&specifiers, is_text) {
        let what = format!("{}: {letters} of Description is known only to the machine", service.name);
        reading.remark(setting.place, Kind::Note, what, "nothing; the text keeps it as it is");
    }
    let told = reading.remarks.len() + reading.faults.len();
    let mut drafts = timings(timer, options, reading);
    if drafts.is_empty() && told == reading.remarks.len() + reading.faults.len() {
        let what = format!("{} names no time; it may be masked", timer.name);
        reading.remark(timer.place.clone(), Kind::LeftOut, what, "nothing, if it is not in use");
    }
    let several = drafts.len() > 1;
    for (number, draft) in drafts.iter_mut().enumerate() {
        if several {
            // The first keeps the timer's name, so that a line below it renames nothing.
            draft.marked = number > 0;
            let what = "the timer is several schedules here, which do not know of each other's runs";
            draft.remark(Kind::Differs, what, "give them a tag in common, and that a limit: `punctual limit set`");
        }
        // A service that is running is not started a second time.
        draft.put("overlap", "forbid");
        delay(timer, draft);
        if let Err(remark) = service::put(&service, specifiers.clone(), draft) {
            reading.remarks.push(*remark);
            draft.definition.clear();
        }
        if draft.definition.get("description").is_none()
            && let Some(description) = timer.last("Unit", "Description")
        {
            draft.put("description", description.value.as_str());
        }
        tell_the_rest(timer, draft);
    }
    drafts.retain(|draft| !draft.definition.is_empty());
    drafts
}

/// A schedule for each part of the timer's calendar, and one for what counts elapsed time.
fn timings(timer: &Unit, options: &SystemdOptions, reading: &mut Reading) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let persistent = timer.is_on("Timer", "Persistent");
    for setting in timer.all("Timer", "OnCalendar") {
        let parts = match calendar::read(&setting.value, &options.timezone) {
            Ok(parts) => parts,
            Err(problem) if setting.filled => {
                let what = format!("{}: OnCalendar={problem}; systemd ignores it as well", timer.name);
                reading.remark(setting.place.clone(), Kind::LeftOut, what, "choose an instance that is a time");
                continue;
            }
            Err(problem) => {
                reading.fault(setting.place.clone(), format!("OnCalendar={problem}"));
                continue;
            }
        };
        for what in parts.left_out {
            let what = format!("{}: OnCalendar={}: {what}", timer.name, setting.value);
            reading.remark(setting.place.clone(), Kind::LeftOut, what, "make the schedules by hand");
        }
        for part in parts.schedules {
            let mut draft = calendar_draft(timer, setting, part, options);
            draft.put("missed", if persistent { "once" } else { "skip" });
            for what in &parts.differs {
                draft.remark(Kind::Differs, what.as_str(), "nothing, or change the calendar expression");
            }
            drafts.push(draft);
        }
    }
    drafts.extend(elapsed(timer, reading));
    drafts
}

fn calendar_draft(timer: &Unit, setting: &Setting, part: Part, options: &SystemdOptions) -> Draft {
    let mut draft = Draft::new(timer.stem(), setting.place.clone());
    draft.identity = format!("{} {part:?}", timer.name);
    match part.when {
        When::Cron(cron) => {
            draft.put("cron", cron);
            draft.put("timezone", part.timezone.as_deref().unwrap_or(&options.timezone));
            // A local time that a clock change leaves out is not made up for there, and one that comes twice is once.
            draft.put("dst_gap", "skip");
            draft.put("dst_overlap", "first");
        }
        When::At(at) => draft.put("at", at.to_string()),
    }
    if !part.closed_weekdays.is_empty() {
        let what = "cron takes days of the month or of the week; so a calendar closes the other days of the week, and \
                    their slots are recorded as skipped";
        draft.remark(Kind::Note, what, "nothing");
        draft.closed_weekdays = part.closed_weekdays;
    }
    for (field, at) in [("starts_at", part.starts_at), ("ends_at", part.ends_at)] {
        if let Some(at) = at {
            draft.put(field, at.to_string());
        }
    }
    draft
}

/// The timers that count from a boot or from the last run.
fn elapsed(timer: &Unit, reading: &mut Reading) -> Option<Draft> {
    let after_start = timer.all("Timer", "OnUnitActiveSec");
    let after_end = timer.all("Timer", "OnUnitInactiveSec");
    let starts = ["OnBootSec", "OnStartupSec", "OnActiveSec"];
    let once: Vec<&Setting> = starts.iter().flat_map(|key| timer.all("Timer", key)).collect();
    let repeating = if after_start.is_empty() { &after_end } else { &after_start };
    if repeating.is_empty() {
        for setting in once {
            let what = format!(
                "{}: {}={} runs once after a start, which is no schedule",
                timer.name, setting.key, setting.value
            );
            let remedy = "leave it to systemd, or run `punctual job add` from what starts the machine";
            reading.remark(setting.place.clone(), Kind::LeftOut, what, remedy);
        }
        return None;
    }
    let mut shortest = None;
    for setting in repeating {
        match span(&setting.value) {
            Ok(Some(period)) if shortest.is_none_or(|(shortest, _)| period < shortest) => {
                shortest = Some((period, *setting));
            }
            Ok(_) => {}
            Err(problem) => reading.fault(setting.place.clone(), format!("{}: {problem}", setting.key)),
        }
    }
    let (period, repeating) = shortest?;
    let mut draft = Draft::new(timer.stem(), repeating.place.clone());
    draft.identity = format!("{} {}", timer.name, repeating.key);
    draft.put("every", format_duration(period));
    draft.put("missed", "skip");
    let all = timer.all("Timer", &repeating.key);
    for other in all.iter().filter(|other| other.place != repeating.place) {
        let what = format!("{}={}: {} comes first, and begins the count anew", other.key, other.value, repeating.value);
        draft.remarks.push(Remark {
            place: other.place.clone(),
            kind: Kind::Note,
            what,
            remedy: "nothing; of several the shortest counts there as well".to_owned(),
        });
    }
    let from = if after_start.is_empty() { "the end of the last run" } else { "the last start" };
    let what = format!(
        "{} counts from {from}; `every` counts from slot to slot, on a grid that begins when the \
                        schedule is made, and goes on through a restart of the machine",
        repeating.key
    );
    draft.remark(Kind::Differs, what, "nothing, unless runs take nearly as long as the period");
    for setting in once {
        let what = format!("{}={}: there is no run of its own after a start", setting.key, setting.value);
        draft.remarks.push(Remark {
            place: setting.place.clone(),
            kind: Kind::Differs,
            what,
            remedy: "`missed = \"once\"` makes up for slots that passed meanwhile".to_owned(),
        });
    }
    if let (false, Some(end)) = (after_start.is_empty(), after_end.last()) {
        let what = "OnUnitInactiveSec beside OnUnitActiveSec is not carried over";
        draft.remarks.push(Remark {
            place: end.place.clone(),
            kind: Kind::Lost,
            what: what.to_owned(),
            remedy: "choose one of the two".to_owned(),
        });
    }
    Some(draft)
}

fn delay(timer: &Unit, draft: &mut Draft) {
    let Some(setting) = timer.last("Timer", "RandomizedDelaySec") else { return };
    let place = setting.place.clone();
    let mut tell = |kind: Kind, what: String, remedy: &str| {
        draft.remarks.push(Remark { place: place.clone(), kind, what, remedy: remedy.to_owned() });
    };
    match span(&setting.value) {
        Ok(Some(longest)) if longest.is_zero() => {}
        Ok(Some(longest)) => {
            let fixed = timer.is_on("Timer", "FixedRandomDelay");
            let how =
                if fixed { "is the same for every run (FixedRandomDelay)" } else { "is chosen anew for every run" };
            let what = format!(
                "RandomizedDelaySec={} {how}; here each slot has a delay of its own, fixed by schedule \
                                and slot, and always shorter than the time to the next slot",
                setting.value
            );
            tell(if fixed { Kind::Differs } else { Kind::Note }, what, "nothing; `H` in a cron expression is fixed");
            draft.put("jitter", format_duration(longest));
        }
        Ok(None) => tell(Kind::Lost, "RandomizedDelaySec=infinity never ends".to_owned(), "set `jitter`"),
        Err(problem) => tell(Kind::Lost, format!("RandomizedDelaySec: {problem}"), "set `jitter`"),
    }
}

/// What else a timer says.
fn tell_the_rest(timer: &Unit, draft: &mut Draft) {
    let mut tell = |place: &Place, kind: Kind, what: String, remedy: &str| {
        draft.remarks.push(Remark { place: place.clone(), kind, what, remedy: remedy.to_owned() });
    };
    for (key, kind, meaning, remedy) in [
        ("AccuracySec", Kind::Note, "runs may be put together within this time; here a slot fires on time", "nothing"),
        (
            "WakeSystem",
            Kind::Lost,
            "nothing here wakes a machine that sleeps",
            "keep the machine awake, or use systemd",
        ),
        ("RemainAfterElapse", Kind::Note, "a schedule that is done stays as exhausted", "nothing"),
    ] {
        if let Some(setting) = timer.last("Timer", key) {
            tell(&setting.place, kind, format!("{key}={}: {meaning}", setting.value), remedy);
        }
    }
    let calendars = !timer.all("Timer", "OnCalendar").is_empty();
    if let Some(setting) = timer.last("Timer", "Persistent").filter(|_| calendars) {
        let told = if timer.is_on("Timer", "Persistent") {
            "what was missed is run once, at once"
        } else {
            "what was missed by more than a minute is not made up for"
        };
        tell(&setting.place, Kind::Note, format!("Persistent={}: {told}", setting.value), "set `missed`");
    }
    let known = |setting: &&Setting| setting.section == "Timer" && KNOWN.contains(&setting.key.as_str());
    let usual =
        |key: &str| matches!(key, "Description" | "Documentation" | "WantedBy" | "RequiredBy" | "Also" | "Alias");
    let rest: Vec<&Setting> = timer.settings.iter().filter(|each| !known(each) && !usual(&each.key)).collect();
    if let Some(first) = rest.first() {
        let names: BTreeSet<&str> = rest.iter().map(|setting| setting.key.as_str()).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        tell(
            &first.place,
            Kind::Lost,
            format!("settings of {} without a counterpart: {names}", timer.name),
            "look them up",
        );
    }
}
