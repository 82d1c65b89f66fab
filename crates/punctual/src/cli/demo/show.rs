//! How the demo is shown: a list that is redrawn in place, plain lines, or one JSON object a line.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use punctual_core::run::Outcome;
use punctual_core::slot::Decision;
use serde_json::json;

use super::super::Output;
use super::watch::{Event, Spread, Summary, Watched, Watcher};

/// As many as leave the whole list within a terminal of 24 lines.
const LATEST: usize = 9;

const TABLE_HEAD: &str =
    "SCHEDULE      WHEN            NEXT     LAST               FIRED  DONE FAILED RETRY NOT RUN  SHOWS";

/// Where what happens is shown.
pub(super) struct Show {
    zone: TimeZone,
    way: Way,
}

enum Way {
    Live(Live),
    Lines,
    Json,
}

impl Show {
    pub(super) fn new(json: bool) -> Show {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let way = match json {
            true => Way::Json,
            false if io::stdout().is_terminal() && !dumb => Way::Live(Live::default()),
            false => Way::Lines,
        };
        Show { zone: TimeZone::system(), way }
    }

    /// The first line: where the data is, and that it does not stay.
    pub(super) fn begin(&mut self, out: &mut Output, folder: &Path) -> io::Result<()> {
        if let Way::Json = self.way {
            let line = json!({ "event": "start", "data": folder.to_string_lossy(), "removed_on_exit": true });
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "Data in {} (removed on exit). Ctrl-C stops.", folder.display())?;
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
        for event in events {
            match &mut self.way {
                Way::Json => writeln!(out, "{}", serde_json::to_string(event)?)?,
                Way::Lines => writeln!(out, "{}", line(event, &self.zone, Paint(false)))?,
                Way::Live(live) => live.remember(line(event, &self.zone, Paint(out.bold))),
            }
        }
        if let Way::Live(live) = &mut self.way {
            live.draw(out, watcher, now)?;
        }
        out.flush()
    }

    /// The closing lines.
    pub(super) fn end(&mut self, out: &mut Output, summary: &Summary) -> io::Result<()> {
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
        }
        out.flush()
    }
}

fn write_summary(out: &mut Output, summary: &Summary) -> io::Result<()> {
    let counts = summary.counts;
    let spread = |spread: Option<Spread>| {
        spread.map_or("–".to_owned(), |it| format!("p50 {:.1} ms, p99 {:.1} ms", it.p50, it.p99))
    };
    writeln!(out)?;
    out.heading("Summary")?;
    writeln!(out, "  slots   {} fired, {} not run (each with its reason)", counts.slots_fired, counts.slots_not_run)?;
    writeln!(
        out,
        "  runs    {} completed, {} failed, {} retried, {} open",
        counts.runs_completed, counts.runs_failed, counts.retries, summary.open
    )?;
    writeln!(out, "  late    {} (from due to decided)", spread(summary.late_ms))?;
    writeln!(out, "  start   {} (from slot to command started)", spread(summary.slot_to_start_ms))?;
    writeln!(out)?;
    out.heading("Next")?;
    writeln!(out, "  punctual demo --for 10s --json                              the same, for a program to read")?;
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
}

/// One event as a line for people.
fn line(event: &Event, zone: &TimeZone, paint: Paint) -> String {
    let time = event.at().to_zoned(zone.clone()).strftime("%H:%M:%S%.3f").to_string();
    match event {
        Event::Slot { schedule, decision, reason, count, late_ms, .. } => {
            let word = format!("{:<10}", decision.as_str());
            let word = if *decision == Decision::Fired { word } else { paint.yellow(&word) };
            let many = if *count > 1 { format!(", {count} slots") } else { String::new() };
            format!("{time}  {schedule:<12}  slot  {word} {reason}, {late_ms} ms late{many}")
        }
        Event::Retry { schedule, attempt, .. } => {
            format!("{time}  {schedule:<12}  job   retry      attempt {attempt}")
        }
        Event::Run { schedule, attempt, outcome, error, output, ran_ms, retried, .. } => {
            let word = paint.outcome(*outcome, &format!("{:<10}", outcome.as_str()));
            let ran = ran_ms.map_or(String::new(), |ran_ms| format!(" in {ran_ms} ms, attempt {attempt}"));
            let said = error.as_ref().or(output.as_ref()).map_or(String::new(), |said| format!(": {}", one_line(said)));
            let retried = if *retried { ", to be retried" } else { "" };
            format!("{time}  {schedule:<12}  run   {word}{ran}{said}{retried}")
        }
    }
}

/// The first line of what a command said, short, and without anything that could move the cursor.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(40).collect()
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
        let mut lines = vec![String::new(), paint.with("1", TABLE_HEAD)];
        lines.extend(watcher.schedules.iter().map(|watched| row(watched, now, paint)));
        lines.extend([String::new(), paint.with("1", "LATEST")]);
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

/// One schedule as a line of the table.
fn row(watched: &Watched, now: Timestamp, paint: Paint) -> String {
    let state = &watched.schedule.state;
    let next = match state.next_run_at {
        _ if !state.enabled => "paused".to_owned(),
        Some(at) => countdown(at.duration_since(now)),
        None => "–".to_owned(),
    };
    let last = match watched.last {
        None => format!("{:<18}", "–"),
        Some((outcome, None | Some(0))) => paint.outcome(outcome, &format!("{:<18}", outcome.as_str())),
        Some((outcome, Some(code))) => paint.outcome(outcome, &format!("{:<18}", format!("{outcome} (exit {code})"))),
    };
    let counts = watched.counts;
    format!(
        "{:<13} {:<15} {next:<8} {last} {:>5} {:>5} {:>6} {:>5} {:>7}  {}",
        watched.name(),
        watched.schedule.definition.timing.text(),
        counts.slots_fired,
        counts.runs_completed,
        counts.runs_failed,
        counts.retries,
        counts.slots_not_run,
        watched.shows,
    )
}

/// Tenths of a second, so that it visibly runs.
fn countdown(left: SignedDuration) -> String {
    if left.is_positive() { format!("in {:.1}s", left.as_secs_f64()) } else { "now".to_owned() }
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
