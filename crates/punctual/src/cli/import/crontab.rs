//! Crontabs: of a user, and of the system with its column of users.

use std::collections::BTreeMap;

use punctual_core::cron::{Cron, CronProblem};
use serde_json::{Map, Value, json};

use super::reading::{Draft, Kind, Place, Reading, quoted};
use super::shell::program_of;

/// What the text alone does not say.
#[derive(Clone, Debug, Default)]
pub(crate) struct CrontabOptions {
    /// The lines have a column with the user, as in `/etc/crontab`.
    pub(crate) system: bool,
    /// Whose crontab it is, when it has no such column.
    pub(crate) user: Option<String>,
    /// The zone of the machine that cron runs on.
    pub(crate) timezone: String,
    /// Where users live, by name.
    pub(crate) homes: BTreeMap<String, String>,
}

/// What cron puts into `PATH` when the crontab says nothing.
const USUAL_PATH: &str = "/usr/bin:/bin";

/// Variables that cron reads itself.
const CRON_TZ: &str = "CRON_TZ";
const RANDOM_DELAY: &str = "RANDOM_DELAY";

/// Reads one crontab.
pub(crate) fn read(file: &str, text: &str, options: &CrontabOptions) -> Reading {
    let mut crontab = Crontab { file, options, variables: BTreeMap::new(), reading: Reading::default() };
    for (number, line) in text.lines().enumerate() {
        crontab.line(number + 1, line.trim_start());
    }
    crontab.reading
}

struct Crontab<'a> {
    file: &'a str,
    options: &'a CrontabOptions,
    /// What the lines above set, and where.
    variables: BTreeMap<String, (String, usize)>,
    reading: Reading,
}

/// A line that says when and what.
#[derive(Clone)]
struct Entry<'a> {
    times: String,
    user: Option<&'a str>,
    flags: Vec<char>,
    /// The command up to the first percent sign, and what follows it.
    command: String,
    stdin: Option<String>,
}

impl Crontab<'_> {
    fn line(&mut self, number: usize, line: &str) {
        if line.is_empty() || line.starts_with('#') {
            return;
        }
        if let Some((name, value)) = assignment(line) {
            self.variables.insert(name, (value, number));
            return;
        }
        let place = Place::new(self.file, number);
        match entry(line, self.options.system) {
            Ok(entry) => self.entry(place, &entry),
            Err(problem) => self.reading.fault(place, problem),
        }
    }

    fn entry(&mut self, place: Place, entry: &Entry<'_>) {
        let what = quoted(&entry.command);
        if entry.command.trim().is_empty() {
            let remedy = "remove the line, or give it a command";
            return self.reading.remark(place, Kind::LeftOut, "the line has no command", remedy);
        }
        if entry.times == "@reboot" {
            let remedy = "let the system's own service manager start it, or run it with `punctual run` after a boot";
            let told = format!("{what} runs when the machine starts (@reboot), which is no time");
            return self.reading.remark(place, Kind::LeftOut, told, remedy);
        }
        match judged(&entry.times) {
            Judged::Fine => {}
            Judged::Without { times, items } => {
                let entry = Entry { times, ..entry.clone() };
                let mut draft = self.draft(place, &entry);
                let what = format!("cron takes {} and never finds it; the other times stay", items.join(", "));
                draft.remark(Kind::Note, what, "write such a range as two");
                return self.reading.drafts.push(draft);
            }
            Judged::Never(problem) => {
                let told = format!("{what}: cron takes such times and never finds them: {problem}");
                return self.reading.remark(place, Kind::LeftOut, told, "correct the times, or remove the line");
            }
            Judged::Wrong(problem) => return self.reading.fault(place, problem),
        }
        let draft = self.draft(place, entry);
        self.reading.drafts.push(draft);
    }

    fn draft(&mut self, place: Place, entry: &Entry<'_>) -> Draft {
        let user = entry.user.or(self.options.user.as_deref());
        let mut draft = Draft::new(self.base(user, &entry.command), place);
        // Many lines run one program, and another may be added at any time.
        draft.marked = true;
        draft.identity = format!("{} {:?} {} {:?}", entry.times, user, entry.command, entry.stdin);
        draft.put("cron", entry.times.as_str());
        let timezone = self.timezone(&mut draft);
        draft.put("timezone", timezone);
        // cron forgets what was due while it did not run, knows no second try and no end, and starts one beside another.
        draft.put("missed", "skip");
        draft.put("overlap", if entry.flags.contains(&'s') { "forbid" } else { "allow" });
        draft.put("retry", json!({ "max_attempts": 1, "max_interruptions": 0 }));
        draft.put("timeout", "none");
        self.random_delay(&mut draft);
        let target = self.target(entry, user, &mut draft);
        draft.put("target", target);
        note_times(&entry.times, &mut draft);
        note_command(&entry.command, &mut draft);
        for flag in &entry.flags {
            note_flag(*flag, &mut draft);
        }
        if user.is_some() {
            let what = "each line runs as its user, and only a worker that runs as root can be somebody else";
            let remedy = "run the worker as root, or as that user and remove `user` from the targets";
            self.reading.remark_once(draft.place.clone(), Kind::Note, what, remedy);
        }
        self.note_mail(user, &draft.place.clone(), entry.flags.contains(&'n'));
        draft
    }

    /// The file's own name for a file of `cron.d`, else the user's, and the program.
    fn base(&self, user: Option<&str>, command: &str) -> String {
        let file = self.file.rsplit('/').next().unwrap_or_default();
        let program = program_of(command);
        let whose = match (self.options.system, user) {
            (true, _) if file != "crontab" && self.file != super::STDIN => Some(file),
            (true, _) | (false, None) => None,
            (false, Some(user)) => Some(user),
        };
        match whose {
            Some(whose) if program.starts_with(whose) => program,
            Some(whose) => format!("{whose}-{program}"),
            None => program,
        }
    }

    fn timezone(&self, draft: &mut Draft) -> String {
        let Some((zone, line)) = self.variables.get(CRON_TZ) else { return self.options.timezone.clone() };
        let what = format!("CRON_TZ={zone} is taken for the zone of the times, as cronie does");
        let remedy = "Debian's cron ignores it; if that is your source, set `timezone` to the machine's zone";
        draft.remark_at(*line, Kind::Note, what, remedy);
        zone.clone()
    }

    fn random_delay(&self, draft: &mut Draft) {
        let Some((minutes, line)) = self.variables.get(RANDOM_DELAY) else { return };
        match minutes.trim().parse::<u32>() {
            Ok(0) => {}
            Ok(minutes) if minutes <= 100_000 => {
                draft.put("jitter", format!("{minutes}m"));
                let what = "RANDOM_DELAY is one delay for all jobs, chosen when cronie starts; here each slot has its \
                            own, up to the same length and always shorter than the time to the next slot";
                draft.remark_at(*line, Kind::Differs, what, "nothing, unless the distance between fires matters");
            }
            _ => draft.remark_at(
                *line,
                Kind::Lost,
                format!("RANDOM_DELAY={} is no number of minutes", quoted(minutes)),
                "set `jitter`",
            ),
        }
    }

    fn target(&self, entry: &Entry<'_>, user: Option<&str>, draft: &mut Draft) -> Value {
        let mut env = self.environment(draft);
        let shell = self.variables.get("SHELL").map_or("/bin/sh", |(shell, _)| shell.as_str());
        let mut target = json!({ "kind": "command", "input": "none" });
        match (&entry.stdin, shell) {
            (None, "/bin/sh") => {
                target["argv"] = json!([entry.command]);
                target["shell"] = json!(true);
            }
            (None, shell) => target["argv"] = json!([shell, "-c", entry.command]),
            (Some(stdin), shell) => {
                // The text goes to the command as cron sends it: whole lines, and no end of the pipe is left open.
                target["argv"] = json!(["printf '%s\\n' \"$1\" | \"$2\" -c \"$3\"", stdin, shell, entry.command]);
                target["shell"] = json!(true);
                let what = "the text behind % is handed over by a small script, as the command's standard input";
                draft.remark(Kind::Note, what, "nothing");
            }
        }
        if let Some(user) = user {
            target["user"] = json!(user);
        }
        if let Some(home) = self.home(user, &env) {
            target["cwd"] = json!(home);
        } else {
            let what = "cron starts it in the user's home, which is not known here; it starts in an empty folder";
            draft.remark(Kind::Differs, what, "set `cwd` in its target, or begin the command with `cd`");
        }
        env.entry("PATH").or_insert_with(|| json!(USUAL_PATH));
        target["env"] = Value::Object(env);
        target
    }

    /// The variables of the lines above, but for those that cron itself reads and those that Punctual sets.
    fn environment(&self, draft: &mut Draft) -> Map<String, Value> {
        let mut env = Map::new();
        for (name, (value, line)) in &self.variables {
            match name.as_str() {
                CRON_TZ | RANDOM_DELAY | "MAILTO" | "MAILFROM" | "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING" => {}
                "CRON_WITHIN" | "NO_MAIL_OUTPUT" => draft.remark_at(
                    *line,
                    Kind::Lost,
                    format!("{name} is a setting of another cron, and is not carried over"),
                    "look up what it does there",
                ),
                "LOGNAME" | "USER" => {
                    let what = format!("{name}={} is not obeyed by cron either", quoted(value));
                    draft.remark_at(*line, Kind::Note, what, "set `user` in the target");
                }
                name if name.starts_with("PUNCTUAL_") || name.contains('=') || name.is_empty() => {
                    let what = format!("the variable {} cannot be set here", quoted(name));
                    draft.remark_at(*line, Kind::Lost, what, "choose another name, in the command as well");
                }
                _ => {
                    env.insert(name.clone(), json!(value));
                }
            }
        }
        env
    }

    fn home(&self, user: Option<&str>, env: &Map<String, Value>) -> Option<String> {
        let said = env.get("HOME").and_then(Value::as_str).map(str::to_owned);
        let known = || match user? {
            "root" => Some("/root".to_owned()),
            user => self.options.homes.get(user).cloned(),
        };
        said.or_else(known)
    }

    /// Once for each address, because it holds for every line below it.
    fn note_mail(&mut self, user: Option<&str>, place: &Place, only_failures: bool) {
        let (to, line) = match self.variables.get("MAILTO") {
            Some((to, _)) if to.is_empty() => return,
            Some((to, line)) => (to.clone(), *line),
            None => (user.map_or_else(|| "the crontab's owner".to_owned(), str::to_owned), place.line),
        };
        let when = if only_failures { "when it fails (-n)" } else { "" };
        let what = format!("cron mails what a job writes to {to} {when}; here it is kept as the run's log")
            .replace("  ", " ")
            .replace(" ;", ";");
        let remedy = "to be told of failures: `punctual channel add … --email ADDRESS`, then `punctual rule add`";
        self.reading.remark_once(Place { line, ..place.clone() }, Kind::Lost, what, remedy);
    }
}

fn note_times(times: &str, draft: &mut Draft) {
    if times.contains('~') {
        let what = "`~` takes a value by chance whenever cron starts; here it is fixed by the schedule's name";
        draft.remark(Kind::Differs, what, "write the time itself if it matters");
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let items = times.split([' ', ',']).filter_map(|item| item.split_once('/'));
    for (start, step) in items.filter(|(start, _)| is_number(start)) {
        let what = format!("{start}/{step}: here from {start} to the end in steps; the older crons read {start} alone");
        draft.remark(Kind::Differs, what, format!("write {start}, or the range with its end"));
    }
}

fn note_command(command: &str, draft: &mut Draft) {
    if command.contains("run-parts ") {
        let what = "run-parts runs every program of a folder as one job: one log, one exit code";
        draft.remark(Kind::Note, what, "make a schedule of each program if they should be seen apart");
    }
    if command.contains("anacron") {
        let what = "the line defers to anacron when that is installed, and does nothing then";
        draft.remark(Kind::Note, what, "`missed = \"once\"` does what anacron is for");
    }
    if command.contains("/run/systemd/system") {
        let what = "the line does nothing where systemd runs, which has a timer for it";
        draft.remark(Kind::Note, what, "import the timer instead: `punctual import systemd`");
    }
    if command.contains("sleep") && command.contains("rand") {
        draft.remark(Kind::Note, "the command waits a random time by itself", "use `jitter` instead");
    }
}

fn note_flag(flag: char, draft: &mut Draft) {
    match flag {
        's' => {
            let what = "-s lets one instance run at a time; a slot that finds one alive is recorded as skipped";
            draft.remark(Kind::Note, what, "`overlap = \"queue_one\"` would let one wait");
        }
        'q' => draft.remark(Kind::Note, "-q turns cron's own log off; the ledger is always kept", "nothing"),
        _ => {}
    }
}

/// `NAME = value`, as cron reads it: quotes around either are taken off, nothing in it is special.
fn assignment(line: &str) -> Option<(String, String)> {
    let (name, rest) = if let quote @ ('"' | '\'') = line.chars().next()? {
        let (name, rest) = line[1..].split_once(quote)?;
        (name, rest.trim_start().strip_prefix('=')?)
    } else {
        let (name, rest) = line.split_once('=')?;
        (name.trim_end(), rest)
    };
    if name.is_empty() || (name.contains(char::is_whitespace) && !line.starts_with(['"', '\''])) {
        return None;
    }
    let value = rest.trim();
    let inner = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    Some((name.to_owned(), inner.unwrap_or(value).to_owned()))
}

fn entry(line: &str, system: bool) -> Result<Entry<'_>, String> {
    let mut rest = line;
    let count = if line.starts_with('@') { 1 } else { 5 };
    let mut fields: Vec<&str> = Vec::with_capacity(count);
    for _ in 0..count {
        fields.push(word(&mut rest));
    }
    if fields.iter().any(|field| field.is_empty()) {
        return Err(format!("{} is neither a variable nor five fields and a command", quoted(line)));
    }
    // SUSE's and cronie's mark for "do not log".
    let mut flags = Vec::new();
    if let Some(minute) = fields[0].strip_prefix('-').filter(|minute| !minute.is_empty()) {
        fields[0] = minute;
        flags.push('q');
    }
    let user = system.then(|| word(&mut rest));
    if user == Some("") {
        let remedy = "a crontab of a user has no such column: leave --system out";
        return Err(format!("{} has no user and no command; {remedy}", quoted(line)));
    }
    while let Some((flag, behind)) = flag(rest) {
        flags.push(flag);
        rest = behind;
    }
    let (command, stdin) = percent(rest);
    Ok(Entry { times: fields.join(" "), user, flags, command, stdin })
}

/// The next word, and moves behind it and the white space after it.
fn word<'a>(rest: &mut &'a str) -> &'a str {
    let end = rest.find([' ', '\t']).unwrap_or(rest.len());
    let (word, behind) = rest.split_at(end);
    *rest = behind.trim_start_matches([' ', '\t']);
    word
}

/// A flag that OpenBSD's and FreeBSD's cron take before the command.
fn flag(rest: &str) -> Option<(char, &str)> {
    let (flag, behind) = rest.strip_prefix('-')?.split_once([' ', '\t'])?;
    let letter = matches!(flag, "n" | "q" | "s").then(|| flag.chars().next()).flatten()?;
    Some((letter, behind.trim_start_matches([' ', '\t'])))
}

/// The first `%` begins the standard input and further ones end its lines, unless a backslash stands before them.
fn percent(text: &str) -> (String, Option<String>) {
    let mut parts = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let last = parts.len() - 1;
        match c {
            '\\' if characters.peek() == Some(&'%') => {
                characters.next();
                parts[last].push('%');
            }
            // In the command a backslash before another takes it away from what follows; behind it, it does not.
            '\\' if last == 0 && characters.peek() == Some(&'\\') => {
                characters.next();
                parts[last].push_str(r"\\");
            }
            '%' => parts.push(String::new()),
            c => parts[last].push(c),
        }
    }
    let mut parts = parts.into_iter();
    let command = parts.next().unwrap_or_default();
    let lines: Vec<String> = parts.collect();
    (command, (!lines.is_empty()).then(|| lines.join("\n")))
}

/// What cron itself thinks of the times.
enum Judged {
    Fine,
    /// Some items of a list are accepted there, and without effect.
    Without {
        times: String,
        items: Vec<String>,
    },
    /// Accepted there, and without effect.
    Never(String),
    Wrong(String),
}

fn judged(times: &str) -> Judged {
    const NICKNAMES: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    if times.starts_with('@') {
        let known = format!("{} is no time that cron knows; use one of {}", quoted(times), NICKNAMES.join(", "));
        return if NICKNAMES.contains(&times) { Judged::Fine } else { Judged::Wrong(known) };
    }
    // What our own expressions have beyond cron's would be read otherwise there.
    let letters = times.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    if let Some(word) = letters.into_iter().find(|word| word.len() != 3) {
        return Judged::Wrong(format!("{}: {word} is no name of a month or weekday", quoted(times)));
    }
    if let Some(mark) = times.chars().find(|c| matches!(c, '?' | '#' | '(' | ')')) {
        return Judged::Wrong(format!("{}: cron does not know `{mark}`", quoted(times)));
    }
    match Cron::parse_seeded(times, "import") {
        Ok(_) => Judged::Fine,
        Err(error) => match error.problem() {
            CronProblem::BackwardsRange(..) => {
                without_backwards(times).unwrap_or_else(|| Judged::Never(error.to_string()))
            }
            CronProblem::ImpossibleDate => Judged::Never(error.to_string()),
            _ => Judged::Wrong(format!("{}: {error}", quoted(times))),
        },
    }
}

/// The times without the ranges that run backwards, if something is left of each list.
fn without_backwards(times: &str) -> Option<Judged> {
    let (mut fields, mut items) = (Vec::new(), Vec::new());
    for (number, field) in times.split(' ').enumerate() {
        let runs_backwards = |item: &&str| {
            let mut alone = ["*"; 5];
            if let Some(place) = alone.get_mut(number) {
                *place = item;
            }
            let parsed = Cron::parse_seeded(&alone.join(" "), "import");
            parsed.is_err_and(|error| matches!(error.problem(), CronProblem::BackwardsRange(..)))
        };
        let (bad, good): (Vec<&str>, Vec<&str>) = field.split(',').partition(|item| runs_backwards(item));
        if good.is_empty() {
            return None;
        }
        fields.push(good.join(","));
        items.extend(bad.into_iter().map(quoted));
    }
    if items.is_empty() {
        return None;
    }
    let times = fields.join(" ");
    match judged(&times) {
        Judged::Fine => Some(Judged::Without { times, items }),
        other => Some(other),
    }
}
