//! What a service does, as a command: its lines, its variables, its user and its limits.

use std::collections::BTreeMap;

use punctual_core::duration::format_duration;
use serde_json::{Map, Value, json};

use super::super::reading::{Draft, Kind, Place, Remark, quoted};
use super::super::shell::in_quotes;
use super::unit::{Setting, Specifiers, Unit, commands, span, spelled, split_value, words};

/// Settings of a service that are carried over, or told one by one.
const KNOWN: [&str; 26] = [
    "Type",
    "ExecStart",
    "ExecStartPre",
    "ExecStartPost",
    "ExecCondition",
    "Environment",
    "EnvironmentFile",
    "WorkingDirectory",
    "User",
    "Group",
    "RuntimeMaxSec",
    "TimeoutStartSec",
    "TimeoutSec",
    "Restart",
    "RestartSec",
    "LimitNOFILE",
    "LimitAS",
    "LimitFSIZE",
    "LimitNPROC",
    "StandardOutput",
    "StandardError",
    "SyslogIdentifier",
    "RemainAfterExit",
    "TimeoutStopSec",
    "SuccessExitStatus",
    "KillMode",
];

/// Settings that say nothing about the work itself.
const WITHOUT_MEANING_HERE: [&str; 6] = ["Description", "Documentation", "WantedBy", "RequiredBy", "Also", "Alias"];

/// One command line of a service.
struct Line {
    argv: Vec<Word>,
    /// A failure of it is none of the service.
    forgiven: bool,
}

/// One word of a command line.
enum Word {
    Fixed(String),
    /// It holds variables that only the start knows.
    Open(String),
}

/// Puts what the service does into a schedule. `Err` says why it cannot be done at all.
pub(super) fn put(service: &Unit, specifiers: Specifiers, draft: &mut Draft) -> Result<(), Box<Remark>> {
    let of_user = specifiers.of_user;
    let user = specifiers.user.clone().filter(|_| of_user || service.last("Service", "User").is_some());
    let home = specifiers.home.clone();
    let mut maker = Maker { service, specifiers, draft, env: Map::new() };
    if of_user && user.is_none() {
        let what = "it is a unit of a user's own manager, and whose is not known: it runs as the worker does";
        maker.draft.remark(Kind::Differs, what, "say --user NAME");
    }
    maker.environment();
    let (argv, shell) = maker.command()?;
    let mut target = json!({ "kind": "command", "argv": argv, "input": "none" });
    if shell {
        target["shell"] = json!(true);
    }
    target["cwd"] = json!(maker.folder(home));
    if let Some(user) = user {
        target["user"] = json!(user);
        maker.filled(service.last("Service", "User"), &user);
    }
    maker.limits(&mut target);
    if !maker.env.is_empty() {
        target["env"] = Value::Object(std::mem::take(&mut maker.env));
    }
    maker.policies();
    maker.tell_the_rest();
    draft.put("target", target);
    if let Some(description) = service.last("Unit", "Description") {
        draft.put("description", description.value.chars().take(1000).collect::<String>());
    }
    Ok(())
}

struct Maker<'a> {
    service: &'a Unit,
    specifiers: Specifiers,
    draft: &'a mut Draft,
    env: Map<String, Value>,
}

impl Maker<'_> {
    fn tell(&mut self, place: &Place, kind: Kind, what: impl Into<String>, remedy: impl Into<String>) {
        self.draft.remarks.push(Remark { place: place.clone(), kind, what: what.into(), remedy: remedy.into() });
    }

    fn filled(&mut self, setting: Option<&Setting>, text: &str) -> String {
        let (filled, unknown) = self.specifiers.fill(text);
        if let (Some(setting), false) = (setting, unknown.is_empty()) {
            let letters = spelled(&unknown);
            let what = format!("{letters} of {} is known only to the machine, and is left as it is", setting.key);
            self.tell(&setting.place.clone(), Kind::Lost, what, "write the value itself");
        }
        filled
    }

    fn environment(&mut self) {
        for setting in self.service.all("Service", "Environment") {
            let text = self.filled(Some(setting), &setting.value);
            let given = words(&text).unwrap_or_else(|_| vec![text.clone()]);
            for word in given {
                match word.split_once('=') {
                    Some((name, _)) if name.is_empty() || name.starts_with("PUNCTUAL_") => {
                        let what = format!("the variable {} cannot be set here", quoted(name));
                        self.tell(&setting.place.clone(), Kind::Lost, what, "choose another name");
                    }
                    Some((name, value)) => {
                        self.env.insert(name.to_owned(), json!(value));
                    }
                    None => {
                        let what = format!("Environment={} sets nothing", quoted(&word));
                        self.tell(&setting.place.clone(), Kind::Note, what, "nothing; systemd ignores it as well");
                    }
                }
            }
        }
    }

    /// The command, and whether a shell runs it.
    fn command(&mut self) -> Result<(Vec<String>, bool), Box<Remark>> {
        let mut steps = Vec::new();
        for key in ["ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost"] {
            for setting in self.service.all("Service", key) {
                for line in self.lines(setting)? {
                    steps.push((key, line));
                }
            }
        }
        if !steps.iter().any(|(key, _)| *key == "ExecStart") {
            return Err(Box::new(Remark {
                place: self.service.place.clone(),
                kind: Kind::LeftOut,
                what: format!("{} has no ExecStart, so there is nothing to run", self.service.name),
                remedy: "nothing, if it only groups others; else make the schedule by hand".to_owned(),
            }));
        }
        let files = self.files();
        if let ([(_, line @ Line { forgiven: false, .. })], []) = (&steps[..], &files[..])
            && let Some(argv) = line.fixed()
        {
            return Ok((argv, false));
        }
        let mut script = files;
        let splits = |word: &Word| matches!(word, Word::Open(text) if is_split(text));
        if steps.iter().any(|(_, line)| line.argv.iter().any(splits)) {
            // The shell would take a value for a pattern of file names.
            script.push("set -f".to_owned());
            let what = "a variable that stands alone is split at white space when it starts; quotes in it do not count";
            self.draft.remark(Kind::Differs, what, "write `${NAME}` if it is one word, or the words themselves");
        }
        let steps_before = script.len();
        script.extend(steps.iter().map(|(key, line)| in_a_script(key, line)));
        if steps.len() > 1 || steps_before > 0 {
            let what = "several steps of the service are one script; the first that fails ends it";
            self.draft.remark(Kind::Note, what, "a flow shows steps one by one");
        }
        Ok((vec![script.join(" && ")], true))
    }

    /// The commands of a setting, most often one.
    fn lines(&mut self, setting: &Setting) -> Result<Vec<Line>, Box<Remark>> {
        let refused = |problem: String| {
            Box::new(Remark {
                place: setting.place.clone(),
                kind: Kind::LeftOut,
                what: format!("{} cannot be read: {problem}", setting.key),
                remedy: "correct the unit".to_owned(),
            })
        };
        let mut lines = Vec::new();
        for mut argv in commands(&setting.value).map_err(refused)? {
            let program = argv[0].trim_start_matches(['-', '@', ':', '+', '!', '|']).to_owned();
            let marks = argv[0][..argv[0].len() - program.len()].to_owned();
            if program.is_empty() {
                return Err(refused("it names no program".to_owned()));
            }
            argv[0] = program;
            lines.push(self.line(setting, &marks, argv));
        }
        if lines.is_empty() { Err(refused("it names no program".to_owned())) } else { Ok(lines) }
    }

    fn line(&mut self, setting: &Setting, marks: &str, mut argv: Vec<String>) -> Line {
        if marks.contains('@') && argv.len() > 1 {
            let zeroth = argv.remove(1);
            let what = format!("the program is not told that its name is {}", quoted(&zeroth));
            self.tell(&setting.place.clone(), Kind::Lost, what, "nothing, unless the program looks at it");
        }
        if marks.contains(['+', '!']) {
            let what = format!("the mark + or ! of {} (more rights than the service) means nothing here", setting.key);
            self.tell(&setting.place.clone(), Kind::Lost, what, "let the worker have the rights, or use sudo");
        }
        // What a file of variables says counts more, and is not known before the start.
        let no_files = self.service.all("Service", "EnvironmentFile").is_empty();
        let known = if no_files { self.env.clone() } else { Map::new() };
        let mut filled = Vec::with_capacity(argv.len());
        for word in argv {
            let word = self.filled(Some(setting), &word);
            if marks.contains(':') || !word.contains('$') {
                filled.push(Word::Fixed(word));
            } else if let Some(words) = resolved(&word, &known) {
                filled.extend(words.into_iter().map(Word::Fixed));
            } else {
                filled.push(Word::Open(word));
            }
        }
        Line { argv: filled, forgiven: marks.contains('-') }
    }

    /// Files of variables, read by the shell.
    fn files(&mut self) -> Vec<String> {
        let mut script = Vec::new();
        for setting in self.service.all("Service", "EnvironmentFile") {
            let text = self.filled(Some(setting), &setting.value);
            let (path, optional) = text.strip_prefix('-').map_or((text.as_str(), false), |path| (path, true));
            if path.contains(['*', '?', '[']) {
                // A pattern names several files, and perhaps none.
                let files = as_pattern(path);
                let load = format!("for file in {files}; do [ ! -r \"$file\" ] || . \"$file\" || exit; done");
                script.push(format!("set -a && {{ {load}; }} && set +a"));
            } else {
                let file = in_quotes(path);
                let load = format!("set -a && . {file} && set +a");
                script.push(if optional { format!("{{ [ ! -r {file} ] || {{ {load}; }}; }}") } else { load });
            }
            let what = format!("{path} is read by the shell: quotes and $ in it count as in a script");
            self.tell(
                &setting.place.clone(),
                Kind::Differs,
                what,
                "look at the file; it must be on the worker's machine",
            );
        }
        script
    }

    fn folder(&mut self, home: Option<String>) -> String {
        let Some(setting) = self.service.last("Service", "WorkingDirectory") else {
            if self.specifiers.of_user && home.is_none() {
                let what = "it starts in the user's home, which is not known here; it starts in / now";
                self.draft.remark(Kind::Differs, what, "set `cwd` in its target");
            }
            return home.filter(|_| self.specifiers.of_user).unwrap_or_else(|| "/".to_owned());
        };
        let text = self.filled(Some(setting), setting.value.trim_start_matches('-'));
        if setting.value.starts_with('-') {
            let what = "a working directory that is missing fails the run; systemd goes on without it";
            self.tell(&setting.place.clone(), Kind::Differs, what, "make sure that it is there");
        }
        match (text.as_str(), home) {
            ("~", Some(home)) => home,
            ("~", None) => {
                let what = "WorkingDirectory=~ is the user's home, which is not known here";
                self.tell(&setting.place.clone(), Kind::Differs, what, "set `cwd` in its target; it is / now");
                "/".to_owned()
            }
            _ => text,
        }
    }

    fn limits(&mut self, target: &mut Value) {
        let known = [
            ("LimitNOFILE", "open_files"),
            ("LimitAS", "memory_bytes"),
            ("LimitFSIZE", "file_bytes"),
            ("LimitNPROC", "processes"),
        ];
        let mut limits = Map::new();
        for (key, field) in known {
            let Some(setting) = self.service.last("Service", key) else { continue };
            let soft = setting.value.split(':').next().unwrap_or_default();
            match soft.parse::<u64>() {
                Ok(most) => {
                    limits.insert(field.to_owned(), json!(most));
                }
                Err(_) if soft == "infinity" => {}
                Err(_) => {
                    let what = format!("{key}={} is not carried over", setting.value);
                    self.tell(&setting.place.clone(), Kind::Lost, what, format!("set `limits.{field}` in the target"));
                }
            }
        }
        if !limits.is_empty() {
            target["limits"] = Value::Object(limits);
        }
    }

    /// How long, and how often again.
    fn policies(&mut self) {
        let kind = self.service.last("Service", "Type");
        let oneshot = kind.is_some_and(|setting| setting.value == "oneshot");
        if let Some(setting) = kind.filter(|setting| !matches!(setting.value.as_str(), "oneshot" | "simple" | "exec")) {
            let what = format!(
                "Type={}: here a run ends when the program ends, and what it left behind is killed",
                setting.value
            );
            self.tell(&setting.place.clone(), Kind::Differs, what, "let the program stay in the foreground");
        }
        if let Some(setting) = self.service.last("Service", "RuntimeMaxSec").filter(|_| oneshot).cloned() {
            let what = format!("RuntimeMaxSec={} has no effect on a service of Type=oneshot", setting.value);
            self.tell(&setting.place, Kind::Note, what, "nothing; TimeoutStartSec= would be its `timeout`");
        }
        let keys: &[&str] = if oneshot { &["TimeoutSec", "TimeoutStartSec"] } else { &["RuntimeMaxSec"] };
        let given = keys.iter().filter_map(|key| self.service.last("Service", key)).next_back().cloned();
        self.draft.put("timeout", "none");
        if let Some(setting) = given {
            match span(&setting.value) {
                Ok(Some(longest)) if !longest.is_zero() => self.draft.put("timeout", format_duration(longest)),
                Ok(_) => {}
                Err(problem) => self.tell(&setting.place, Kind::Lost, problem, "set `timeout`"),
            }
        }
        self.draft.put("retry", json!({ "max_attempts": 1, "max_interruptions": 0 }));
        let restart = self.service.last("Service", "Restart").filter(|setting| setting.value != "no").cloned();
        if let Some(setting) = restart {
            let wait = self.service.last("Service", "RestartSec").and_then(|wait| span(&wait.value).ok().flatten());
            let base = format_duration(
                wait.filter(|wait| wait.as_millis() > 0).unwrap_or(jiff::SignedDuration::from_millis(100)),
            );
            self.draft.put("retry", json!({ "max_attempts": 5, "backoff": "fixed", "base": base, "max": base }));
            let what = format!(
                "Restart={}: a failed run is tried at most five times in all; systemd stops after five \
                                starts in ten seconds, or never, and may also restart what succeeded",
                setting.value
            );
            self.tell(&setting.place, Kind::Differs, what, "set `retry` as you want it");
        }
    }

    /// Everything that has no counterpart, by name.
    fn tell_the_rest(&mut self) {
        let group = self.service.last("Service", "Group").map(|setting| (setting.value.clone(), setting.place.clone()));
        let user = self.service.last("Service", "User").map(|setting| setting.value.clone());
        if let Some((group, place)) = group.filter(|(group, _)| Some(group) != user.as_ref() && group != "root") {
            let what = format!("Group={group}: the run has the groups of its user");
            self.tell(&place, Kind::Lost, what, "make it the user's first group");
        }
        for key in ["TimeoutStopSec", "SuccessExitStatus", "KillMode", "StandardOutput", "StandardError"] {
            let Some(setting) = self.service.last("Service", key).cloned() else { continue };
            let (kind, remedy) = match key {
                "TimeoutStopSec" => (Kind::Lost, "`--stop-grace` of the worker says how long a stop may take"),
                "SuccessExitStatus" => (Kind::Lost, "let the command end with 0 when it succeeded"),
                "KillMode" => (Kind::Lost, "everything a run has started is killed when it ends"),
                _ if matches!(setting.value.as_str(), "journal" | "syslog" | "inherit" | "null") => {
                    (Kind::Note, "nothing; what it writes is kept as the run's log")
                }
                _ => (Kind::Lost, "redirect in the command; what it writes is kept as the run's log"),
            };
            self.tell(&setting.place, kind, format!("{key}={} is not carried over", setting.value), remedy);
        }
        let mut lost: BTreeMap<&str, &Place> = BTreeMap::new();
        let mut needless: BTreeMap<&str, &Place> = BTreeMap::new();
        for setting in &self.service.settings {
            let key = setting.key.as_str();
            if WITHOUT_MEANING_HERE.contains(&key) || matches!(key, "SyslogIdentifier" | "RemainAfterExit") {
                needless.insert(key, &setting.place);
            } else if setting.section != "Service" || !KNOWN.contains(&key) {
                lost.insert(key, &setting.place);
            }
        }
        let named = |keys: &BTreeMap<&str, &Place>| keys.keys().copied().collect::<Vec<_>>().join(", ");
        if let Some(place) = lost.values().min().map(|place| (*place).clone()) {
            let what = format!("settings of {} without a counterpart: {}", self.service.name, named(&lost));
            self.tell(&place, Kind::Lost, what, "if the work needs them: `systemctl start --wait` as the command");
        }
        if let Some(place) = needless.values().min().map(|place| (*place).clone()) {
            let what = format!("settings of {} that need no counterpart: {}", self.service.name, named(&needless));
            self.tell(&place, Kind::Note, what, "nothing");
        }
    }
}

impl Line {
    /// The words, if all of them are known.
    fn fixed(&self) -> Option<Vec<String>> {
        let word = |word: &Word| match word {
            Word::Fixed(text) => Some(text.clone()),
            Word::Open(_) => None,
        };
        self.argv.iter().map(word).collect()
    }
}

/// A line as a step of a script.
fn in_a_script(key: &str, line: &Line) -> String {
    let word = |word: &Word| match word {
        Word::Fixed(text) => in_quotes(text),
        Word::Open(text) => left_open(text),
    };
    let command = line.argv.iter().map(word).collect::<Vec<_>>().join(" ");
    match (key, line.forgiven) {
        ("ExecCondition", _) => format!("{{ {command} || exit 0; }}"),
        (_, true) => format!("{{ {command} || :; }}"),
        (_, false) => command,
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A path with the marks of a pattern left to the shell, and nothing else.
fn as_pattern(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,*?[]!".contains(c);
    path.chars().map(|c| if plain(c) { c.to_string() } else { in_quotes(&c.to_string()) }).collect()
}

/// Whether a word is a variable alone, whose value is split.
fn is_split(word: &str) -> bool {
    word.strip_prefix('$').is_some_and(is_name)
}

/// A word with variables, for a shell: `$NAME` alone is split into words by both, `${NAME}` by neither inside of quotes,
/// and no other `$` means anything to systemd.
fn left_open(word: &str) -> String {
    if is_split(word) {
        return word.to_owned();
    }
    let mut quoted = String::from("\"");
    let mut rest = word;
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        let variable = rest.strip_prefix("${").and_then(|rest| rest.split_once('}')).filter(|(name, _)| is_name(name));
        if let Some((name, behind)) = variable {
            quoted.extend(["${", name, "}"]);
            rest = behind;
            continue;
        }
        if matches!(c, '$' | '"' | '`' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
        rest = if c == '$' { behind.strip_prefix('$').unwrap_or(behind) } else { behind };
    }
    quoted.push('"');
    quoted
}

/// A word with its variables replaced, or `None` when one of them is not written in the unit.
fn resolved(word: &str, env: &Map<String, Value>) -> Option<Vec<String>> {
    let value = |name: &str| env.get(name).and_then(Value::as_str);
    if let Some(name) = word.strip_prefix('$').filter(|name| is_name(name)) {
        return Some(split_value(value(name)?));
    }
    let mut filled = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('$') {
            filled.push('$');
            rest = behind;
        } else if let Some((name, behind)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            filled.push_str(value(name)?);
            rest = behind;
        } else {
            filled.push('$');
        }
    }
    filled.push_str(rest);
    Some(vec![filled])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_systemd_mean_something_to_the_shell() {
        for (word, quoted) in [
            ("$ARGS", "$ARGS"),
            ("--to=${TO}", r#""--to=${TO}""#),
            (r"${A}$(date)`id`\", r#""${A}\$(date)\`id\`\\""#),
            ("${A}$$B", r#""${A}\$B""#),
            ("${A:-x}", r#""\${A:-x}""#),
        ] {
            assert_eq!(left_open(word), quoted, "{word}");
        }
    }
}
