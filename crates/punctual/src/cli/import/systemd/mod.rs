//! Timers of systemd with the services they start.

mod calendar;
mod service;
mod unit;

pub(crate) use self::unit::UnitFile;

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::duration::format_duration;

use self::calendar::{Part, When};
use self::unit::{Setting, Unit, span};
use super::reading::{Draft, Kind, Place, Reading, Remark};

/// What the files alone do not say.
#[derive(Clone, Debug, Default)]
pub(crate) struct SystemdOptions {
    /// The zone of the machine.
    pub(crate) timezone: String,
    /// Where users live, by name.
    pub(crate) homes: BTreeMap<String, String>,
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
        let Some(timer) = unit::unit(name, files, &mut reading.faults) else { continue };
        if timer.stem().ends_with('@') {
            let what = format!("{name} is a template without an instance");
            let remedy = "give it the file of an instance, such as a copy named x@instance.timer";
            reading.remark(timer.place, Kind::LeftOut, what, remedy);
            continue;
        }
        let drafts = of_timer(&timer, files, options, &mut reading);
        reading.drafts.extend(drafts);
    }
    if let Some(first) = reading.drafts.first() {
        let (place, what) = (first.place.clone(), "whether a timer is enabled is not written in its file");
        reading.remark(place, Kind::Note, what, "remove the schedules of timers that are not, or set `paused`");
    }
    reading
}

fn of_timer(timer: &Unit, files: &[UnitFile], options: &SystemdOptions, reading: &mut Reading) -> Vec<Draft> {
    let started =
        timer.last("Timer", "Unit").map_or_else(|| format!("{}.service", timer.stem()), |set| set.value.clone());
    let Some(service) = unit::unit(&started, files, &mut reading.faults) else {
        let what = format!("{} starts {started}, which is not among the files", timer.name);
        let remedy = "name the folder or file of that service as well";
        reading.remark(timer.place.clone(), Kind::LeftOut, what, remedy);
        return Vec::new();
    };
    let told = reading.remarks.len() + reading.faults.len();
    let mut drafts = timings(timer, options, reading);
    if drafts.is_empty() && told == reading.remarks.len() + reading.faults.len() {
        let what = format!("{} names no time; it may be masked", timer.name);
        reading.remark(timer.place.clone(), Kind::LeftOut, what, "nothing, if it is not in use");
    }
    let several = drafts.len() > 1;
    for (number, draft) in drafts.iter_mut().enumerate() {
        if several {
            draft.base = format!("{}-{}", draft.base, number + 1);
            let what = "the timer is several schedules here, which do not know of each other's runs";
            draft.remark(Kind::Differs, what, "give them a tag in common, and that a limit: `punctual limit set`");
        }
        // A service that is running is not started a second time.
        draft.put("overlap", "forbid");
        delay(timer, draft);
        if let Err(remark) = service::put(&service, &options.homes, draft) {
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
    let after_start = timer.last("Timer", "OnUnitActiveSec");
    let after_end = timer.last("Timer", "OnUnitInactiveSec");
    let once: Vec<&Setting> =
        ["OnBootSec", "OnStartupSec", "OnActiveSec"].iter().filter_map(|key| timer.last("Timer", key)).collect();
    let Some(repeating) = after_start.or(after_end) else {
        for setting in once {
            let what = format!(
                "{}: {}={} runs once after a start, which is no schedule",
                timer.name, setting.key, setting.value
            );
            let remedy = "leave it to systemd, or run `punctual job add` from what starts the machine";
            reading.remark(setting.place.clone(), Kind::LeftOut, what, remedy);
        }
        return None;
    };
    let period = match span(&repeating.value) {
        Ok(Some(period)) => period,
        Ok(None) => return None,
        Err(problem) => {
            reading.fault(repeating.place.clone(), format!("{}: {problem}", repeating.key));
            return None;
        }
    };
    let mut draft = Draft::new(timer.stem(), repeating.place.clone());
    draft.put("every", format_duration(period));
    draft.put("missed", "skip");
    let from = if after_start.is_some() { "the last start" } else { "the end of the last run" };
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
    if let (Some(_), Some(end)) = (after_start, after_end) {
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
