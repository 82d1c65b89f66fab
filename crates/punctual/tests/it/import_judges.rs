//! When imported schedules fire, against those who know: `systemd-analyze` for timers, and for crontabs a walk over every
//! minute that shares nothing with the program.

use crate::serve::punctual;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use punctual_core::cron::{Cron, CronClock, Dst, zone};
use punctual_testkit::clients::installed;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Zones and moments, most of them just before the clocks change.
const MOMENTS: [(&str, &str); 8] = [
    ("UTC", "2024-02-27T05:00:00Z"),
    ("Europe/Berlin", "2026-03-28T12:00:00Z"),
    ("Europe/Berlin", "2026-10-24T12:00:00Z"),
    ("America/New_York", "2025-03-08T20:30:00Z"),
    ("America/New_York", "2025-11-01T20:30:00Z"),
    ("America/Santiago", "2025-09-06T12:00:00Z"),
    ("America/Santiago", "2025-04-05T12:00:00Z"),
    ("Australia/Lord_Howe", "2025-10-04T00:00:00Z"),
];

/// Every form of `OnCalendar=`; years lie far ahead, because what has passed is left out.
const FORMS: [&str; 83] = [
    "minutely",
    "hourly",
    "daily",
    "weekly",
    "monthly",
    "quarterly",
    "semi-annually",
    "biannually",
    "yearly",
    "annually",
    "DAILY",
    "Mon",
    "Mon,Wed,Fri",
    "Mon..Fri",
    "Mon-Fri",
    "Tue,Mon-Wed",
    "Mon..Sun",
    "Sat,Sun 12:00",
    "monday",
    "Sunday 23:59",
    "05:40",
    "5:40:20",
    "*:0/15",
    "*:2/3",
    "*:1..50/7",
    "*:5/54",
    "*:*",
    "*:*:10,20,30",
    "*-*-* *:*:0/20",
    "*:0/15:10,20",
    "*-*-* 0/6:30",
    "8..17:00",
    "8..17/3:00",
    "1,2:3",
    "01,02:03:04",
    "*-*-* 07..23:30",
    "*-*-* 02:30",
    "*-*-* 01:30",
    "*-*-* 00,12:00:00",
    "*-*-* 00:00:00",
    "2..3:0/10",
    "*-*-*",
    "*-*",
    "06-*",
    "03-05",
    "*-1,7-1",
    "*-1..6/2-1",
    "*-*-1,15",
    "*-*-1..7",
    "*-*-1/10",
    "*-*-1,3..5,20/3",
    "*-*-30",
    "*-*-31",
    "*-02-29",
    "*-*~01",
    "*~01",
    "*-1,3~03",
    "*-04~03..05",
    "*-12~07/2",
    "Sun *-*-1..7 1:00:00",
    "Mon,Tue *-*-1..7",
    "Mon *-*-8..14",
    "Tue,Thu *-*-15..28",
    "Wed *-*-29..31",
    "Fri *-*~07/1",
    "Mon,Fri *-*~07/1",
    "Sun *-*~01",
    "Sun *-*-13",
    "Mon *-*-1,13",
    "2126..2128-01-01",
    "2125,2127-06-01",
    "2130-05-17 08:00",
    "*-*-* 08:00 Europe/Paris",
    "Mon..Fri 09:30 Asia/Tokyo",
    "daily UTC",
    "*-*-* 02:30 America/New_York",
    "Mon *-*-13",
    "Tue *-*-10..12,20",
    "Fri *-*~01",
    "Mon,Thu *-1,4,12~02..09 07:15",
    "8..10/4:00",
    "*:*:10..12/5",
    "*-4,12~05..07/9",
];

/// Forms that cannot be the same, and must say so.
const UNLIKE: [&str; 4] = ["*-*~03", "*-02~01..03", "*:*:0.5", "2025/3-01-01"];

/// Timers that were imported, each for one form.
struct Timers {
    answer: Value,
    /// The schedules of each timer, which may be several.
    schedules: BTreeMap<usize, Vec<Value>>,
}

impl Timers {
    fn import(forms: &[&str], tz: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (number, form) in forms.iter().enumerate() {
            let unit = |kind: &str| folder.path().join(format!("t{number}.{kind}"));
            std::fs::write(unit("timer"), format!("[Timer]\nOnCalendar={form}\n")).unwrap();
            std::fs::write(unit("service"), "[Service]\nType=oneshot\nExecStart=/bin/true\n").unwrap();
        }
        let answer = import(&["systemd", folder.path().to_str().unwrap(), "--tz", tz]);
        let mut schedules: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
        for (name, definition) in answer["manifest"]["schedules"].as_object().unwrap() {
            let number = name[1..].split('-').next().unwrap().parse().unwrap();
            schedules.entry(number).or_default().push(definition.clone());
        }
        Self { answer, schedules }
    }

    /// What the report says about a timer beyond notes.
    fn told(&self, number: usize) -> Vec<&Value> {
        let of = |each: &&Value| each["file"].as_str().unwrap().ends_with(&format!("/t{number}.timer"));
        self.answer["report"].as_array().unwrap().iter().filter(of).filter(|each| each["kind"] != "note").collect()
    }

    fn fires(&self, number: usize, after: Timestamp, count: usize) -> Vec<Timestamp> {
        let definitions = self.schedules.get(&number).unwrap_or_else(|| panic!("{:?}", self.told(number)));
        fires(&self.answer["manifest"], definitions, after, count)
    }
}

fn import(args: &[&str]) -> Value {
    let output = punctual(&[&["import"], args, &["--json"]].concat()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The first fires of one or several schedules of a manifest together, without those that a calendar closes.
fn fires(manifest: &Value, definitions: &[Value], after: Timestamp, count: usize) -> Vec<Timestamp> {
    let mut all = BTreeSet::new();
    for definition in definitions {
        let text = |field: &str| definition[field].as_str();
        let dst = Dst {
            gap: text("dst_gap").map_or(Ok(Dst::default().gap), str::parse).unwrap(),
            overlap: text("dst_overlap").map_or(Ok(Dst::default().overlap), str::parse).unwrap(),
        };
        let cron = Cron::parse(text("cron").unwrap()).unwrap();
        let clock = CronClock::new(cron, zone(text("timezone").unwrap()).unwrap(), dst);
        let bound = |field: &str| text(field).map(|at| at.parse::<Timestamp>().unwrap());
        let from = bound("starts_at").map_or(after, |from| after.max(from - SignedDuration::from_secs(1)));
        let until = bound("ends_at").unwrap_or(Timestamp::MAX);
        let closed = text("calendar").map(|name| &manifest["calendars"][name]);
        let is_open = |fire: &Timestamp| closed.is_none_or(|rules| is_open(rules, *fire));
        all.extend(clock.fires_after(from).take_while(|fire| *fire <= until).filter(is_open).take(count));
    }
    all.into_iter().take(count).collect()
}

fn is_open(rules: &Value, at: Timestamp) -> bool {
    let day = at.to_zoned(zone(rules["timezone"].as_str().unwrap()).unwrap()).strftime("%A").to_string().to_lowercase();
    !rules["weekdays"].as_array().unwrap().iter().any(|closed| closed == &Value::from(day.as_str()))
}

/// What systemd says about a form.
enum Verdict {
    Fires(Vec<Timestamp>),
    Refused,
    /// Some versions go round in circles where a clock change swallows midnight, and say so.
    Stuck,
}

fn ask_systemd(form: &str, tz: &str, after: Timestamp, count: usize) -> Verdict {
    let base = after.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    let output = Command::new("systemd-analyze")
        .args(["calendar", &format!("--iterations={count}"), &format!("--base-time={base}"), form])
        .env("TZ", tz)
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| panic!("systemd-analyze is needed: run `cargo xtask deps`: {error}"));
    if !output.status.success() {
        let stuck = String::from_utf8_lossy(&output.stderr).contains("Infinite loop");
        return if stuck { Verdict::Stuck } else { Verdict::Refused };
    }
    let time = |line: &str| {
        let words: Vec<&str> = line.strip_suffix(" UTC")?.split_whitespace().collect();
        let [.., date, time] = words[..] else { return None };
        format!("{date}T{time}Z").parse().ok()
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let told: BTreeSet<Timestamp> = text.lines().filter_map(time).collect();
    Verdict::Fires(told.into_iter().filter(|at| *at > after).collect())
}

#[test]
fn every_form_of_a_calendar_elapses_when_systemd_says() {
    for tz in MOMENTS.iter().map(|(tz, _)| *tz).collect::<BTreeSet<_>>() {
        let imported = Timers::import(&FORMS, tz);
        for (number, form) in FORMS.iter().enumerate() {
            for (_, after) in MOMENTS.iter().filter(|(of, _)| *of == tz) {
                let after = after.parse().unwrap();
                match ask_systemd(form, tz, after, 20) {
                    Verdict::Fires(judged) => {
                        let found = imported.fires(number, after, judged.len().max(1));
                        assert_eq!(found, judged, "{form} in {tz}: {:?}", imported.schedules[&number]);
                    }
                    Verdict::Refused => panic!("systemd refuses {form}"),
                    Verdict::Stuck => assert_eq!(tz, "America/Santiago", "{form}"),
                }
            }
        }
    }
}

#[test]
fn what_cannot_elapse_the_same_is_told() {
    let imported = Timers::import(&UNLIKE, "UTC");
    for (number, form) in UNLIKE.iter().enumerate() {
        assert!(!imported.told(number).is_empty(), "{form}");
    }
}

/// A component: numbers, ranges and steps within bounds, or `*`.
fn component(min: u32, max: u32) -> impl Strategy<Value = String> {
    let value = min..=max;
    let item = (value.clone(), value, 1..=max / 2, 0..4_u8).prop_map(move |(a, b, step, shape)| {
        let (low, high) = (a.min(b), a.max(b));
        match shape {
            0 => format!("{low}..{high}"),
            1 => format!("{low}..{high}/{step}"),
            2 if low + step <= max => format!("{low}/{step}"),
            _ => low.to_string(),
        }
    });
    prop_oneof![2 => Just("*".to_owned()), 3 => proptest::collection::vec(item, 1..3).prop_map(|items| items.join(","))]
}

fn form() -> impl Strategy<Value = String> {
    let days = prop::sample::select(&["", "Mon ", "Sun ", "Sat,Sun ", "Tue..Fri ", "Mon,Wed..Sun "]);
    let date = (component(1, 12), component(1, 28), any::<bool>()).prop_map(|(month, day, end)| {
        if end && day != "*" { format!("*-{month}~{day}") } else { format!("*-{month}-{day}") }
    });
    let time = (component(0, 23), component(0, 59), component(0, 59));
    (days, date, time).prop_map(|(days, date, (h, m, s))| format!("{days}{date} {h}:{m}:{s}"))
}

/// The same form with the ends of its hours', minutes' and seconds' steps written out: some versions of systemd let
/// `6/10` go on to 26 o'clock, and pass over what is due early on the next day.
fn with_ends(form: &str) -> String {
    let (date, time) = form.rsplit_once(' ').unwrap();
    let closed = time.split(':').zip([23, 59, 59]).map(|(component, max)| {
        let items = component.split(',').map(|item| match item.split_once('/') {
            Some((low, step)) if !low.contains("..") => format!("{low}..{max}/{step}"),
            _ => item.to_owned(),
        });
        items.collect::<Vec<_>>().join(",")
    });
    format!("{date} {}", closed.collect::<Vec<_>>().join(":"))
}

/// Without clock changes: at them the forms above are compared, and there systemd itself slips now and then.
#[test]
fn calendars_made_up_by_chance_elapse_when_systemd_says() {
    let tz = "Asia/Kolkata";
    let mut runner = TestRunner::new(Config::default());
    let made: Vec<String> = (0..160).map(|_| form().new_tree(&mut runner).unwrap().current()).collect();
    let is_taken = |form: &&str| !matches!(ask_systemd(form, tz, Timestamp::UNIX_EPOCH, 1), Verdict::Refused);
    let known: Vec<&str> = made.iter().map(String::as_str).filter(is_taken).collect();
    let imported = Timers::import(&known, tz);
    let mut compared = 0;
    for (number, form) in known.iter().enumerate() {
        // February's days from the end are told to differ.
        if imported.told(number).iter().any(|each| each["what"].as_str().unwrap().contains("leap years")) {
            continue;
        }
        for after in ["2025-03-08T12:00:00Z", "2027-10-31T12:00:00Z"] {
            let after = after.parse().unwrap();
            let judged = with_ends(form);
            let Verdict::Fires(judged) = ask_systemd(&judged, tz, after, 12) else { panic!("{judged} is not judged") };
            let found = imported.fires(number, after, judged.len().max(1));
            assert_eq!(found, judged, "{form}: {:?}", imported.schedules[&number]);
        }
        compared += 1;
    }
    assert!(compared * 4 > known.len() * 3 && compared > 80, "only {compared} of {} could be compared", known.len());
}

/// What Debian's packages bring, one folder each.
fn packages() -> Vec<PathBuf> {
    let folder = installed("target/debian-crontabs");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).collect()
}

#[test]
fn timers_of_debians_packages_elapse_when_systemd_says() {
    let mut compared = 0;
    let tz = "Europe/Berlin";
    for package in packages() {
        let units = ["lib/systemd/system", "usr/lib/systemd/system"].map(|folder| package.join(folder));
        for folder in units.iter().filter(|folder| folder.is_dir()) {
            let answer = import(&["systemd", folder.to_str().unwrap(), "--tz", tz]);
            let schedules = answer["manifest"]["schedules"].as_object().unwrap();
            for timer in files(folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "timer")) {
                let text = std::fs::read_to_string(&timer).unwrap();
                let stem = timer.file_stem().unwrap().to_str().unwrap();
                let forms: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("OnCalendar=")).collect();
                let told = answer["report"].as_array().unwrap().iter().any(|each| {
                    each["file"].as_str().unwrap().ends_with(&format!("{stem}.timer")) && each["kind"] != "note"
                });
                let is_its_own = |name: &str| {
                    name.strip_prefix(stem)
                        .is_some_and(|mark| mark.is_empty() || (mark.len() == 7 && mark.starts_with('-')))
                };
                let of: Vec<Value> =
                    schedules.iter().filter(|(name, _)| is_its_own(name)).map(|(_, it)| it.clone()).collect();
                if of.is_empty() || forms.len() != 1 {
                    assert!(told, "{stem} is neither a schedule nor told");
                    continue;
                }
                for after in ["2026-03-27T12:00:00Z", "2026-10-23T12:00:00Z"] {
                    let after = after.parse().unwrap();
                    let Verdict::Fires(judged) = ask_systemd(forms[0].trim(), tz, after, 20) else { panic!("{stem}") };
                    assert_eq!(fires(&answer["manifest"], &of, after, 20), judged, "{stem}: {}", forms[0]);
                }
                compared += 1;
            }
        }
    }
    assert!(compared >= 10, "only {compared} timers");
}

/// A field of cron as a set: the rule of the manual page, and nothing else.
fn set(field: &str, min: u32, max: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for item in field.split(',') {
        let (range, step) = item.split_once('/').map_or((item, 1), |(range, step)| (range, step.parse().unwrap()));
        let (low, high) = match range.split_once('-') {
            _ if range == "*" => (min, max),
            Some((low, high)) => (low.parse().unwrap(), high.parse().unwrap()),
            None => (range.parse().unwrap(), range.parse().unwrap()),
        };
        found.extend((low..=high).step_by(step).map(|value| if max == 7 && value == 7 { 0 } else { value }));
    }
    found
}

/// A line of a crontab as the manual page reads it.
struct Fields {
    minutes: BTreeSet<u32>,
    hours: BTreeSet<u32>,
    days: BTreeSet<u32>,
    months: BTreeSet<u32>,
    weekdays: BTreeSet<u32>,
    either: bool,
    wildcard: bool,
}

impl Fields {
    fn parse(words: &[&str]) -> Self {
        let starred = |at: usize| words[at].starts_with('*');
        Self {
            minutes: set(words[0], 0, 59),
            hours: set(words[1], 0, 23),
            days: set(words[2], 1, 31),
            months: set(words[3], 1, 12),
            weekdays: set(words[4], 0, 7),
            either: !starred(2) && !starred(4),
            wildcard: starred(0) || starred(1),
        }
    }

    fn names(&self, wall: DateTime) -> bool {
        let is_in = |of: &BTreeSet<u32>, value: i8| of.contains(&u32::try_from(value).unwrap());
        let day = is_in(&self.days, wall.day());
        let weekday = is_in(&self.weekdays, wall.weekday().to_sunday_zero_offset());
        let date = if self.either { day || weekday } else { day && weekday };
        date && is_in(&self.months, wall.month())
            && is_in(&self.hours, wall.hour())
            && is_in(&self.minutes, wall.minute())
    }

    /// Minute by minute. A job with a star follows the clock as it is shown; any other runs once for each time that it
    /// names: not when the clock shows it again, and right after a gap for what lay in it.
    fn walk(&self, tz: &TimeZone, from: Timestamp, minutes: i64) -> Vec<Timestamp> {
        let mut fires = Vec::new();
        let mut latest = from.to_zoned(tz.clone()).datetime();
        for minute in 1..=minutes {
            let at = from + SignedDuration::from_mins(minute);
            let wall = at.to_zoned(tz.clone()).datetime();
            let due = if self.wildcard {
                self.names(wall)
            } else {
                let mut passed = latest.checked_add(1.minute()).unwrap();
                let mut due = false;
                while passed <= wall {
                    due |= self.names(passed);
                    passed = passed.checked_add(1.minute()).unwrap();
                }
                due
            };
            latest = latest.max(wall);
            fires.extend(due.then_some(at));
        }
        fires
    }
}

#[test]
fn crontabs_of_debians_packages_fire_as_the_manual_page_says() {
    let nickname = BTreeMap::from([
        ("@yearly", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ]);
    let tz = zone("Europe/Berlin").unwrap();
    let (mut of, mut lines) = (BTreeSet::new(), 0);
    for package in packages() {
        let mut crontabs = files(&package.join("etc/cron.d"));
        crontabs.extend(Some(package.join("etc/crontab")).filter(|path| path.is_file()));
        crontabs.retain(|path| !path.file_name().unwrap().to_str().unwrap().starts_with('.'));
        for crontab in crontabs {
            let path = crontab.to_str().unwrap();
            let answer = import(&["crontab", path, "--tz", "Europe/Berlin"]);
            let text = std::fs::read_to_string(&crontab).unwrap();
            let entries = text
                .lines()
                .enumerate()
                .filter(|(_, line)| line.starts_with(|c: char| c.is_ascii_digit() || "*@".contains(c)));
            for (number, line) in entries {
                let on_line = |each: &Value| each["line"] == number + 1;
                if line.starts_with("@reboot") {
                    assert!(
                        answer["report"]
                            .as_array()
                            .unwrap()
                            .iter()
                            .any(|each| on_line(each) && each["kind"] == "left_out")
                    );
                    continue;
                }
                let places = answer["places"].as_object().unwrap();
                let name =
                    places.iter().find(|(_, place)| on_line(place)).unwrap_or_else(|| panic!("{path}: {line}")).0;
                let spelled = nickname.iter().find(|(word, _)| line.starts_with(**word)).map(|(_, five)| *five);
                let words: Vec<&str> = spelled.unwrap_or(line).split_whitespace().take(5).collect();
                for from in ["2026-03-27T23:00:00Z", "2026-10-23T22:00:00Z"] {
                    let from = from.parse().unwrap();
                    let walked = Fields::parse(&words).walk(&tz, from, 4 * 24 * 60);
                    let definition = &answer["manifest"]["schedules"][name];
                    let until = from + SignedDuration::from_hours(96);
                    let imported: Vec<Timestamp> =
                        fires(&answer["manifest"], std::slice::from_ref(definition), from, 6000)
                            .into_iter()
                            .take_while(|fire| *fire <= until)
                            .collect();
                    assert_eq!(imported, walked, "{path}: {line}");
                }
                lines += 1;
                of.insert(package.clone());
            }
        }
    }
    assert!(of.len() >= 11 && lines >= 30, "only {lines} lines of {} packages", of.len());
}
