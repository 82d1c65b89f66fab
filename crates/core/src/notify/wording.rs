//! What a message says to people: one title, some facts and some links, made once and the same for every channel.
//!
//! Names and errors come from anywhere. Here they become text that stays on its line; a channel escapes them for its own
//! form.

use super::event::{Subject, SubjectKind};
use super::message::{Message, Occasion};
use super::rule::Trigger;
use crate::duration;
use crate::expression::percent_encoded;
use jiff::{SignedDuration, Timestamp};

/// The most of a name that is shown.
const NAME_CHARS: usize = 80;

/// The most of an error that a title shows.
const TITLE_ERROR_CHARS: usize = 120;

/// The most of an error that is shown at all.
const ERROR_CHARS: usize = 1500;

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wording {
    /// One line that says it all.
    pub title: String,
    /// What else is known.
    pub facts: Vec<Fact>,
    /// Where to look.
    pub links: Vec<Link>,
    /// What to type to acknowledge, where no link does it.
    pub command: Option<String>,
}

/// Something that is known, under its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is, such as "Began".
    pub label: &'static str,
    /// Only an error has more than one line.
    pub text: String,
}

/// A page about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// What is behind it, such as "job".
    pub label: &'static str,
    /// Its address.
    pub url: String,
}

impl Message {
    /// What it says. `public_url` is where people reach the server, if they do.
    ///
    /// ```
    /// use punctual_core::notify::message::Message;
    /// let test = Message::test("2026-01-01T00:00:00Z".parse().unwrap());
    /// assert_eq!(test.wording(None).title, "This is a test: the channel works");
    /// ```
    pub fn wording(&self, public_url: Option<&str>) -> Wording {
        let links = public_url.map(|url| self.links(url.trim_end_matches('/'))).unwrap_or_default();
        let by_link = links.iter().any(|link| link.label == ACKNOWLEDGE);
        let command = self
            .alert_id
            .filter(|_| !by_link && self.can_be_acknowledged())
            .map(|id| format!("punctual alert acknowledge {id}"));
        Wording { title: self.title(), facts: self.facts(), links, command }
    }

    fn can_be_acknowledged(&self) -> bool {
        let goes_on = matches!(self.occasion, Occasion::Opened | Occasion::Escalated | Occasion::Reminder);
        goes_on && self.trigger != Some(Trigger::Recovery)
    }

    fn title(&self) -> String {
        match self.occasion {
            Occasion::Test => "This is a test: the channel works".to_owned(),
            Occasion::Well => "All is well".to_owned(),
            Occasion::Opened => self.trouble(),
            Occasion::Escalated => format!("Nobody has acknowledged: {}", self.trouble()),
            Occasion::Reminder => format!("It goes on: {}", self.trouble()),
            Occasion::Recovered => self.recovery(),
        }
    }

    /// What is wrong, and why as far as it fits.
    fn trouble(&self) -> String {
        let who = self.who();
        let what = match self.trigger {
            Some(Trigger::Failure) if who.many => format!("{} fail", who.name),
            Some(Trigger::Failure) if self.count > 1 => format!("{} failed {} times", who.name, self.count),
            Some(Trigger::Failure) => format!("{} failed", who.name),
            Some(Trigger::FailuresInARow) if who.many => format!("{} fail again and again", who.name),
            Some(Trigger::FailuresInARow) => format!("{} failed {} times in a row", who.name, self.count),
            Some(Trigger::Recovery) => format!("{} {} recovered", who.name, who.verb("has", "have")),
            Some(Trigger::LateStart) => format!("{} {} late", who.name, who.verb("starts", "start")),
            Some(Trigger::MissedSlots) => format!("{} missed slots", who.name),
            Some(Trigger::LongRun) => format!("{} {} too long", who.name, who.verb("takes", "take")),
            Some(Trigger::NoExecutor) => format!("no node can run {}", who.name),
            Some(Trigger::QueueTooOld) => format!("the oldest job of {} has waited too long", who.name),
            Some(Trigger::Overdue) => format!("{} {} overdue, and nobody fires", who.name, who.verb("is", "are")),
            Some(Trigger::NodeLost) => format!("{} {} lost", who.name, who.verb("was", "were")),
            Some(Trigger::ClockJumped) => "the database's clock jumped".to_owned(),
            Some(Trigger::AllWell) | None => "all is well".to_owned(),
        };
        let why = match (self.trigger, &self.detail, &self.error) {
            (Some(Trigger::Failure), _, Some(error)) => first_line(error),
            (_, Some(detail), _) => one_line(detail, TITLE_ERROR_CHARS),
            _ => String::new(),
        };
        if why.is_empty() { what } else { format!("{what}: {why}") }
    }

    fn recovery(&self) -> String {
        let who = self.who();
        let failed = matches!(self.trigger, Some(Trigger::Failure | Trigger::FailuresInARow));
        let what = if failed || self.trigger == Some(Trigger::Recovery) {
            format!("{} {} recovered", who.name, who.verb("has", "have"))
        } else {
            format!("{} {} fine again", who.name, who.verb("is", "are"))
        };
        let lasted = self.opened_at.zip(self.recovered_at).map(|(from, until)| until.duration_since(from));
        let after = lasted.map(|lasted| format!(" after {}", roughly(lasted))).unwrap_or_default();
        let times = match self.count {
            count if !failed || count == 0 => String::new(),
            1 => " (1 failure)".to_owned(),
            count => format!(" ({count} failures)"),
        };
        format!("{what}{after}{times}")
    }

    fn who(&self) -> Who {
        match (&self.subjects[..], self.subjects_total) {
            ([], _) => Who { name: "something".to_owned(), many: false },
            ([one], 0 | 1) => Who { name: called(one), many: false },
            (all @ [first, ..], total) => {
                let same = all.iter().all(|other| other.kind == first.kind);
                let plural = if same { plural(first.kind) } else { "things" };
                Who { name: format!("{} {plural}", total.max(all.len() as u64)), many: true }
            }
        }
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        let mut add = |label, text: String| facts.push(Fact { label, text });
        if self.subjects.len() > 1 || self.subjects_total > 1 {
            let mut text = self.subjects.iter().map(called).collect::<Vec<_>>().join(", ");
            let more = self.subjects_total.saturating_sub(self.subjects.len() as u64);
            if more > 0 {
                text = format!("{text} and {more} more");
            }
            add("Concerns", text);
        }
        if self.count > 1 {
            add("Happened", format!("{} times", self.count));
        }
        if let Some(detail) = &self.detail {
            add("Detail", one_line(detail, 300));
        }
        let times = [("Began", self.opened_at), ("Last seen", self.last_at), ("Over", self.recovered_at)];
        for (label, at) in times {
            if let Some(at) = at.filter(|at| label != "Last seen" || Some(*at) != self.opened_at) {
                add(label, shown(at));
            }
        }
        if self.occasion == Occasion::Escalated {
            add("Step", self.step.to_string());
        }
        if let Some(rule) = &self.rule {
            let about = self.trigger.map(|trigger| format!(" (on {trigger})")).unwrap_or_default();
            add("Rule", format!("{}{about}", one_line(rule.as_str(), NAME_CHARS)));
        }
        if self.occasion == Occasion::Test {
            add("Sent", shown(self.at));
        }
        let error = self.error.as_deref().map(|error| several_lines(error, ERROR_CHARS));
        match (self.error_code, error) {
            (Some(code), Some(error)) => add("Error", format!("{code}: {error}")),
            (Some(code), None) => add("Error", code.to_string()),
            (None, Some(error)) => add("Error", error),
            (None, None) => {}
        }
        facts
    }

    fn links(&self, public: &str) -> Vec<Link> {
        let mut links = Vec::new();
        let mut add = |label, kind: &str, key: &str| {
            links.push(Link { label, url: format!("{public}/{kind}/{}", percent_encoded(key)) });
        };
        if let Some(code) = self.acknowledge.as_ref().filter(|_| self.can_be_acknowledged()) {
            add(ACKNOWLEDGE, "acknowledge", code);
        }
        if let Some(alert) = self.alert_id {
            add("alert", "alerts", &alert.to_string());
        }
        match &self.subjects[..] {
            [one] if one.kind == SubjectKind::Schedule => add("schedule", "schedules", &one.name),
            [one] if one.kind == SubjectKind::Queue => add("queue", "queues", &one.name),
            _ => {}
        }
        if let Some(job) = self.job_id {
            add("job", "jobs", &job.to_string());
        }
        links
    }
}

/// What the link is called that acknowledges.
pub const ACKNOWLEDGE: &str = "acknowledge";

/// Who is in trouble, and whether that is more than one.
struct Who {
    name: String,
    many: bool,
}

impl Who {
    fn verb(&self, one: &'static str, many: &'static str) -> &'static str {
        if self.many { many } else { one }
    }
}

fn called(subject: &Subject) -> String {
    let name = one_line(&subject.name, NAME_CHARS);
    match subject.kind {
        SubjectKind::Schedule | SubjectKind::Jobs => name,
        SubjectKind::Queue => format!("queue {name}"),
        SubjectKind::Node => format!("node {name}"),
        SubjectKind::Database => "the database".to_owned(),
    }
}

fn plural(kind: SubjectKind) -> &'static str {
    match kind {
        SubjectKind::Schedule => "schedules",
        SubjectKind::Jobs => "kinds of jobs",
        SubjectKind::Queue => "queues",
        SubjectKind::Node => "nodes",
        SubjectKind::Database => "databases",
    }
}

/// The first line that says something.
fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    one_line(line, TITLE_ERROR_CHARS)
}

/// A text on one line: whatever would break it, or turn its reading around, is a space.
pub fn one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split(|letter: char| letter.is_whitespace() || is_unseen(letter)).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    cut(&line, most)
}

/// A text on its own lines, without whatever else would move it about.
fn several_lines(text: &str, most: usize) -> String {
    let fits = |letter: char| letter == '\n' || letter == '\t' || !is_unseen(letter);
    let kept: String = text.chars().filter(|letter| fits(*letter)).take(most + 1).collect();
    cut(kept.trim(), most)
}

/// Control characters, and those that hide text or turn its direction.
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most - 1).collect();
    format!("{}…", kept.trim_end())
}

fn shown(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Text as it stands in a page or a letter of HTML, also inside an attribute.
pub fn in_html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// A length of time by its two largest parts, as people say it: 2h13m.
pub fn roughly(lasted: SignedDuration) -> String {
    let seconds = lasted.as_secs().max(0);
    let step = match seconds {
        0 => return "a moment".to_owned(),
        1..3600 => 1,
        3600..86_400 => 60,
        _ => 3600,
    };
    duration::format_duration(SignedDuration::from_secs(seconds / step * step))
}

#[cfg(test)]
mod tests;
