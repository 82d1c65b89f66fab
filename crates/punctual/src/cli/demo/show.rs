//! How the demo is shown: a list that is redrawn in place, plain lines, one JSON object a line, or the links alone.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use punctual_core::run::Outcome;
use punctual_core::slot::Decision;
use serde_json::{Value, json};

use super::super::Output;
use super::Links;
use super::cast::{PAUSED_QUEUE, SKIPPED};
use super::live::NODES;
use super::verdict::verdict;
use super::watch::{Event, Spread, Standing, Summary, Watched, Watcher, rough};

/// As many as leave the whole list within a terminal of 24 lines.
const LATEST: usize = 5;

const TABLE_HEAD: &str = "SCHEDULE          WHEN                 NEXT     LAST       TOOK    NOTE";

/// Where what happens is shown.
pub(super) struct Show {
    zone: TimeZone,
    way: Way,
}

enum Way {
    Live(Live),
    Lines,
    Json,
    /// The links, and nothing of what happens.
    Headless {
        json: bool,
    },
}

/// What there is to be told before anything happens.
pub(super) struct Opening<'a> {
    pub(super) folder: &'a Path,
    /// The way in from outside, in a build that has one.
    pub(super) links: Option<&'a Links>,
    pub(super) seed: u64,
    /// Runs that ended in the history.
    pub(super) runs: u64,
    /// How long it took to write it.
    pub(super) prepared_in: Duration,
}

impl Show {
    pub(super) fn new(json: bool, headless: bool) -> Show {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let way = match (headless, json) {
            (true, json) => Way::Headless { json },
            (false, true) => Way::Json,
            (false, false) if io::stdout().is_terminal() && !dumb => Way::Live(Live::default()),
            (false, false) => Way::Lines,
        };
        Show { zone: TimeZone::system(), way }
    }

    /// Whether anybody wants to know what happens.
    pub(super) fn is_watched(&self) -> bool {
        !matches!(self.way, Way::Headless { .. })
    }

    fn is_json(&self) -> bool {
        matches!(self.way, Way::Json | Way::Headless { json: true })
    }

    /// The first line: where the data is, and that it does not stay.
    pub(super) fn begin(&self, out: &mut Output, folder: &Path) -> io::Result<()> {
        if !self.is_json() {
            let version = env!("CARGO_PKG_VERSION");
            writeln!(out, "punctual {version}, demo data in {} (removed on exit). Ctrl-C stops.", folder.display())?;
        }
        out.flush()
    }

    /// What can be done with it now.
    pub(super) fn open(&mut self, out: &mut Output, opening: &Opening<'_>, watcher: &Watcher) -> io::Result<()> {
        if self.is_json() {
            writeln!(out, "{}", start_line(opening, watcher))?;
        } else {
            write_opening(out, opening, watcher)?;
        }
        if let Way::Live(live) = &mut self.way {
            live.terminal = Some(Terminal::take(out)?);
        }
        out.flush()
    }

    /// What happened since the last call, and how things stand.
    pub(super) fn tick(
        &mut self, out: &mut Output, watcher: &Watcher, events: &[Event], now: Timestamp,
    ) -> io::Result<()> {
        self.tell(out, events)?;
        if let Way::Live(live) = &mut self.way {
            live.draw(out, watcher, now)?;
        }
        out.flush()
    }

    /// What happened since the last call.
    fn tell(&mut self, out: &mut Output, events: &[Event]) -> io::Result<()> {
        for event in events {
            match &mut self.way {
                Way::Json => writeln!(out, "{}", serde_json::to_string(event)?)?,
                Way::Lines => writeln!(out, "{}", line(event, &self.zone, Paint(false)))?,
                Way::Live(live) => live.remember(line(event, &self.zone, Paint(out.bold))),
                Way::Headless { .. } => {}
            }
        }
        Ok(())
    }

    /// What happened last, and the closing lines. The list stays as it was before everything was stopped.
    pub(super) fn end(&mut self, out: &mut Output, events: &[Event], summary: &Summary) -> io::Result<()> {
        self.tell(out, events)?;
        match &mut self.way {
            Way::Json => {
                let mut line = serde_json::to_value(summary)?;
                line["event"] = "summary".into();
                writeln!(out, "{line}")?;
            }
            Way::Live(Live { terminal, .. }) => {
                *terminal = None;
                write_summary(out, summary)?;
            }
            Way::Lines => write_summary(out, summary)?,
            Way::Headless { .. } => {}
        }
        out.flush()
    }
}

fn start_line(opening: &Opening<'_>, watcher: &Watcher) -> Value {
    let link = |part: fn(&Links) -> &String| opening.links.map(part);
    json!({
        "event": "start",
        "demo_data": true,
        "url": link(|links| &links.url),
        "token": link(|links| &links.token),
        "sign_in": link(|links| &links.sign_in),
        "data": opening.folder.to_string_lossy(),
        "removed_on_exit": true,
        "seed": opening.seed,
        "schedules": watcher.schedules.len(),
        "queues": watcher.queues.len(),
        "nodes": NODES.len(),
        "history_runs": opening.runs,
        "prepared_ms": u64::try_from(opening.prepared_in.as_millis()).unwrap_or(u64::MAX),
    })
}

fn write_opening(out: &mut Output, opening: &Opening<'_>, watcher: &Watcher) -> io::Result<()> {
    let Opening { folder, seed, runs, .. } = opening;
    let (schedules, queues, nodes) = (watcher.schedules.len(), watcher.queues.len(), NODES.len());
    let prepared = opening.prepared_in.as_secs_f64();
    writeln!(
        out,
        "  Holds     {schedules} schedules, {queues} queues, {nodes} nodes, {runs} runs in seven days \
         (seed {seed}, made in {prepared:.1} s)"
    )?;
    if let Some(Links { url, sign_in, .. }) = opening.links {
        writeln!(out, "  Sign in   {sign_in}")?;
        writeln!(out, "  API       {url}/api/v1   described at {url}/docs")?;
        for (head, words) in ["Try", "", ""].iter().zip(worth_trying(watcher)) {
            writeln!(out, "  {head:<9} punctual {words} --data {}", folder.display())?;
        }
    }
    writeln!(out)
}

/// What to do first: what failed, why something did not run, and how to let go what waits.
fn worth_trying(watcher: &Watcher) -> [String; 3] {
    let skipped = watcher.schedules.iter().find(|watched| watched.name() == SKIPPED);
    let slot = skipped.and_then(|watched| watched.schedule.state.last_slot_at).unwrap_or_default();
    ["job ls --state failed".to_owned(), format!("why {SKIPPED} {slot}"), format!("queue resume {PAUSED_QUEUE}")]
}

fn write_summary(out: &mut Output, summary: &Summary) -> io::Result<()> {
    let counts = summary.counts;
    let spread = |spread: Option<Spread>| {
        spread.map_or("–".to_owned(), |it| format!("p50 {:.1} ms, p99 {:.1} ms", it.p50, it.p99))
    };
    writeln!(out)?;
    out.heading("Summary of what happened while you watched")?;
    writeln!(out, "  slots   {} fired, {} not run (each with its reason)", counts.slots_fired, counts.slots_not_run)?;
    writeln!(
        out,
        "  runs    {} completed, {} failed, {} retried, {} cut short by the end, {} open",
        counts.runs_completed, counts.runs_failed, counts.retries, counts.runs_interrupted, summary.open
    )?;
    writeln!(out, "  late    {} (from due to decided)", spread(summary.late_ms))?;
    writeln!(out, "  start   {} (from slot to started)", spread(summary.slot_to_start_ms))?;
    writeln!(out)?;
    out.heading("Next")?;
    writeln!(out, "  punctual serve                                              the same, with your own data")?;
    writeln!(out, "  punctual cron next '0 8 * * 1-5' --tz Europe/Berlin         when an expression fires")?;
    writeln!(
        out,
        "  punctual cron explain '30 2 * * *' --tz America/New_York    what it means, and what the clock changes do"
    )
}

/// Whether words may be coloured.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(self, colour: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn outcome(self, outcome: Outcome, text: &str) -> String {
        match outcome {
            Outcome::Completed => self.green(text),
            Outcome::Failed => self.red(text),
            Outcome::Skipped | Outcome::Cancelled => self.yellow(text),
        }
    }

    fn standing(self, standing: Standing, text: &str) -> String {
        match standing {
            Standing::Failing | Standing::Overdue => self.red(text),
            Standing::Paused => self.yellow(text),
            Standing::Fine => text.to_owned(),
        }
    }
}

/// One event as a line for people.
fn line(event: &Event, zone: &TimeZone, paint: Paint) -> String {
    let time = event.at().to_zoned(zone.clone()).strftime("%H:%M:%S%.3f").to_string();
    match event {
        Event::Slot { schedule, decision, reason, count, late_ms, .. } => {
            let word = format!("{:<10}", decision.as_str());
            let word = if *decision == Decision::Fired { word } else { paint.yellow(&word) };
            let many = if *count > 1 { format!(", {count} slots") } else { String::new() };
            format!("{time}  {schedule:<16}  slot  {word} {reason}, {late_ms} ms late{many}")
        }
        Event::Retry { name, attempt, .. } => {
            format!("{time}  {name:<16}  job   retry      attempt {attempt}")
        }
        Event::Run { name, attempt, outcome, error, ran_ms, retried, .. } => {
            let word = paint.outcome(*outcome, &format!("{:<10}", outcome.as_str()));
            let ran = ran_ms.map_or(String::new(), |ran_ms| format!(" in {ran_ms} ms, attempt {attempt}"));
            let said = error.as_ref().map_or(String::new(), |said| format!(": {}", one_line(said)));
            let retried = if *retried { ", to be retried" } else { "" };
            format!("{time}  {name:<16}  run   {word}{ran}{said}{retried}")
        }
    }
}

/// The first line of a text, short, and without anything that could move the cursor.
fn one_line(text: &str) -> String {
    let line: Vec<char> = text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    match line.get(..90) {
        Some(begin) => format!("{}…", begin.iter().collect::<String>().trim_end_matches([' ', ':', ','])),
        None => line.into_iter().collect(),
    }
}

/// A list that is redrawn where it stands.
#[derive(Default)]
struct Live {
    latest: VecDeque<String>,
    /// How many lines the last drawing has.
    drawn: usize,
    terminal: Option<Terminal>,
}

impl Live {
    fn remember(&mut self, line: String) {
        self.latest.push_back(line);
        if self.latest.len() > LATEST {
            self.latest.pop_front();
        }
    }

    fn draw(&mut self, out: &mut Output, watcher: &Watcher, now: Timestamp) -> io::Result<()> {
        let paint = Paint(out.bold);
        let mut lines = table(watcher, now, paint);
        lines.push(paint.with("1", "LATEST"));
        lines.extend(self.latest.iter().cloned());
        if self.drawn > 0 {
            write!(out, "\x1b[{}A", self.drawn)?;
        }
        for line in &lines {
            writeln!(out, "\r{line}\x1b[K")?;
        }
        self.drawn = lines.len();
        // Whatever was typed or echoed below, such as ^C.
        write!(out, "\x1b[J")
    }
}

/// How things stand: the verdict first, then the schedules, those that need somebody before the others.
fn table(watcher: &Watcher, now: Timestamp, paint: Paint) -> Vec<String> {
    let mut schedules: Vec<_> = watcher.schedules.iter().collect();
    schedules.sort_by_key(|watched| (watched.standing(now), watched.name()));
    let head = [verdict(watcher, now), TABLE_HEAD.to_owned()].map(|line| paint.with("1", &line));
    head.into_iter().chain(schedules.into_iter().map(|watched| row(watched, now, paint))).collect()
}

/// One schedule as a line of the table.
fn row(watched: &Watched, now: Timestamp, paint: Paint) -> String {
    let (state, results) = (&watched.schedule.state, &watched.schedule.results);
    let standing = watched.standing(now);
    let next = match (standing, state.next_run_at) {
        (Standing::Paused, _) => "paused".to_owned(),
        (Standing::Overdue, _) => "overdue".to_owned(),
        (_, Some(at)) => countdown(at.duration_since(now)),
        (_, None) => "–".to_owned(),
    };
    let last = match (results.last_outcome, results.consecutive_failures) {
        (None, _) => format!("{:<10}", "–"),
        (Some(outcome), 0 | 1) => paint.outcome(outcome, &format!("{:<10}", outcome.as_str())),
        (Some(outcome), count) => paint.outcome(outcome, &format!("{:<10}", format!("{outcome} ×{count}"))),
    };
    let name = paint.standing(standing, &format!("{:<17}", watched.name()));
    let when = watched.schedule.definition.timing.text();
    let took = watched.took.map_or("–".to_owned(), rough);
    format!("{name} {when:<20} {next:<8} {last} {took:<7} {}", one_line(&watched.note(now)))
}

/// Tenths of a second at the end, so that it visibly runs.
fn countdown(left: SignedDuration) -> String {
    match left {
        left if !left.is_positive() => "now".to_owned(),
        left if left.as_secs() < 60 => format!("{:.1}s", left.as_secs_f64()),
        left => rough(left),
    }
}

/// The terminal while the list is drawn: no cursor, and long lines are cut instead of wrapped, because the list is
/// redrawn by counting lines. Both come back however the demo ends.
struct Terminal;

impl Terminal {
    fn take(out: &mut Output) -> io::Result<Terminal> {
        write!(out, "\x1b[?25l\x1b[?7l")?;
        Ok(Terminal)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut stdout = io::stdout();
        let _ = stdout.write_all(b"\x1b[?7h\x1b[?25h").and_then(|()| stdout.flush());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_core::virtual_clock::VirtualClock;
    use punctual_store_sqlite::{SqliteOptions, SqliteStore};

    use super::super::script::World;
    use super::super::stage;
    use super::*;

    #[tokio::test]
    async fn the_verdict_stands_first_and_what_needs_somebody_before_the_rest() {
        let world = World::ending_at("2026-06-18T15:42:10Z".parse().unwrap(), 1);
        let folder = tempfile::tempdir().unwrap();
        stage::set(folder.path(), &world).await.unwrap();
        let clock = Arc::new(VirtualClock::new());
        clock.set(world.present);
        let options = SqliteOptions { clock, ..SqliteOptions::default() };
        let store = SqliteStore::open(&folder.path().join("punctual.db"), options).unwrap();
        let watcher = Watcher::new(&store).await.unwrap();

        let lines = table(&watcher, world.present, Paint(false));
        let trouble = "demo data · invoice-sync fails, warehouse-export is overdue · session-cleanup is paused · ";
        assert!(lines[0].starts_with(trouble), "{lines:#?}");
        assert!(lines[0].contains("newsletter holds 4"), "{lines:#?}");
        let begins = ["invoice-sync", "warehouse-export", "session-cleanup", "daily-newsletter"];
        for (line, name) in lines[2..].iter().zip(begins) {
            assert!(line.starts_with(name), "{lines:#?}");
        }
        let note = |name: &str, words: &str| {
            let line = lines.iter().find(|line| line.starts_with(name)).unwrap();
            assert!(line.contains(words), "{line}");
        };
        note("invoice-sync", "503 Service Unavailable");
        note("warehouse-export", "no live node offers `task:warehouse.export`");
        note("session-cleanup", "paused by maria: ");
        note("search-reindex", "six days ago 7m");
        note("invoice-pdf", "its last slot did not run: dependency");
        note("nightly-backup", "02:30 comes twice on 2026-10-25");
        assert!(lines.len() + LATEST < 24, "the whole list fits a terminal");
    }
}
