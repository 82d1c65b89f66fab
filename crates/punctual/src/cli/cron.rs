//! `punctual cron`: when an expression fires, and what it means.

use std::io::{BufRead, Write};

use clap::{Args, Subcommand};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use punctual_core::cron::{
    CronClock, Dst, DstGap, DstOverlap, Recurrence, RecurrenceError, describe, dst_notes, field_meanings, lint, zone,
};
use punctual_core::duration::format_duration;
use serde::{Deserialize, Serialize};

use super::{Output, Stop};

/// More fires than anyone reads; a guard against a typing error.
const MAX_COUNT: u16 = 10_000;

/// Far above the longest line that can be valid.
const MAX_LINE_BYTES: usize = 64 * 1024;

const YEAR: SignedDuration = SignedDuration::from_hours(366 * 24);

const NEXT_EXAMPLES: &str = "\
Examples:
  punctual cron next '0 8 * * 1-5' --tz Europe/Berlin
  punctual cron next '@every 90s' --count 3 --json
  echo '{\"expr\":\"*/15 * * * *\",\"tz\":\"UTC\",\"count\":2}' | punctual cron next --jsonl";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  punctual cron explain '30 2 * * *' --tz Europe/Berlin
  punctual cron explain 'H H(1-4) * * *' --seed nightly-backup";

/// Try cron expressions: when they fire and what they mean.
#[derive(Subcommand)]
pub(crate) enum CronCommand {
    /// Show the next fires of an expression.
    #[command(after_help = NEXT_EXAMPLES)]
    Next(NextArgs),
    /// Say what an expression means, field by field, with clock changes and warnings.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
}

impl CronCommand {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        match self {
            CronCommand::Next(args) if args.jsonl => answer_lines(&args, out),
            CronCommand::Next(args) => next(&args, out),
            CronCommand::Explain(args) => explain(&args, out),
        }
    }
}

#[derive(Args)]
struct Rule {
    /// IANA time zone the expression is read in
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,
    /// Time to start from, such as 2026-10-25T02:00Z, or without offset in the zone [default: now]
    #[arg(long, value_name = "TIME")]
    after: Option<String>,
    /// What a fixed time does when the clock skips it: next or skip
    #[arg(long, value_name = "CHOICE", default_value = "next")]
    dst_gap: DstGap,
    /// What a fixed time does when it comes twice: first, both or second
    #[arg(long, value_name = "CHOICE", default_value = "first")]
    dst_overlap: DstOverlap,
    /// Seed that fixes the values of H and ~, such as the schedule's name
    #[arg(long)]
    seed: Option<String>,
}

#[derive(Args)]
pub(crate) struct NextArgs {
    /// Cron expression of five or six fields, a word such as @daily, or @every 90s
    #[arg(required_unless_present = "jsonl", conflicts_with = "jsonl")]
    expr: Option<String>,
    #[command(flatten)]
    rule: Rule,
    /// Number of fires
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_COUNT)))]
    count: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Read questions from standard input, one JSON object per line, and answer each with one line
    #[arg(long, conflicts_with = "json")]
    jsonl: bool,
}

#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// Cron expression of five or six fields, a word such as @daily, or @every 90s
    expr: String,
    #[command(flatten)]
    rule: Rule,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A question, read: what recurs, where, and from when.
struct Question {
    recurrence: Recurrence,
    zone: TimeZone,
    zone_name: String,
    dst: Dst,
    after: Timestamp,
}

impl Question {
    fn read(expr: &str, rule: &Rule) -> Result<Question, String> {
        let recurrence = Recurrence::parse(expr, rule.seed.as_deref()).map_err(|error| pointed(expr, &error))?;
        let zone = zone(&rule.tz).map_err(|error| error.to_string())?;
        let after = match &rule.after {
            Some(text) => read_time(text, &zone)?,
            None => Timestamp::now(),
        };
        let zone_name = zone.iana_name().unwrap_or(&rule.tz).to_owned();
        let dst = Dst { gap: rule.dst_gap, overlap: rule.dst_overlap };
        Ok(Question { recurrence, zone, zone_name, dst, after })
    }

    fn fires(&self, count: usize) -> Vec<Timestamp> {
        let next = |last: &Timestamp| self.recurrence.next_after(*last, &self.zone, self.dst);
        std::iter::successors(next(&self.after), next).take(count).collect()
    }

    /// One line per fire: in the zone, in UTC, and how far away.
    fn write_fires(&self, out: &mut Output, indent: &str, count: usize) -> Result<(), Stop> {
        for fire in self.fires(count) {
            let local = fire.to_zoned(self.zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S %:z");
            let away = relative(fire.duration_since(self.after));
            writeln!(out, "{indent}{local}   {fire}   in {away}")?;
        }
        Ok(())
    }
}

/// The message, and below it the expression with a mark under the column at fault.
fn pointed(expr: &str, error: &RecurrenceError) -> String {
    let column = match error {
        RecurrenceError::Cron(error) => error.column(),
        _ => None,
    };
    // Only plain text can be shown as it is: anything else may move the mark or the cursor.
    match column {
        Some(column) if expr.chars().all(|c| c == ' ' || c.is_ascii_graphic()) => {
            format!("{error}\n  {expr}\n  {:>column$}", "^")
        }
        _ => error.to_string(),
    }
}

fn read_time(text: &str, zone: &TimeZone) -> Result<Timestamp, String> {
    let wall = || text.parse::<DateTime>().ok()?.to_zoned(zone.clone()).ok();
    let read = text.parse().ok().or_else(|| Some(wall()?.timestamp()));
    read.ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        format!("{shown:?} is not a time; write it as 2026-10-25T02:00:00Z, or without the Z for the zone")
    })
}

/// The two largest units of a time ahead.
fn relative(ahead: SignedDuration) -> String {
    let seconds = ahead.as_secs() + i64::from(ahead.subsec_nanos() > 0);
    let units = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let first = units.iter().position(|(number, _)| *number > 0).unwrap_or(3);
    let shown = units.iter().skip(first).take(2).filter(|(number, _)| *number > 0);
    let parts: Vec<_> = shown.map(|(number, unit)| format!("{number} {unit}")).collect();
    parts.join(" ")
}

#[derive(Serialize)]
struct NextAnswer<'a> {
    expr: &'a str,
    tz: &'a str,
    fires: Vec<Timestamp>,
}

fn next(args: &NextArgs, out: &mut Output) -> Result<(), Stop> {
    let expr = args.expr.as_deref().unwrap_or_default();
    let question = Question::read(expr, &args.rule).map_err(Stop::usage)?;
    let count = usize::from(args.count);
    if args.json {
        let fires = question.fires(count);
        write_json(out, &NextAnswer { expr, tz: &question.zone_name, fires })?;
    } else {
        question.write_fires(out, "", count)?;
    }
    if question.fires(1).is_empty() {
        return Err(Stop::failure("no further fire within 41 years"));
    }
    Ok(())
}

fn write_json(out: &mut Output, answer: &impl Serialize) -> Result<(), Stop> {
    let text = serde_json::to_string_pretty(answer).map_err(|error| Stop::failure(error.to_string()))?;
    Ok(writeln!(out, "{text}")?)
}

/// A line of `cron next --jsonl`; what it leaves out comes from the flags.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineQuestion {
    expr: String,
    tz: Option<String>,
    after: Option<String>,
    count: Option<u64>,
    seed: Option<String>,
    dst_gap: Option<DstGap>,
    dst_overlap: Option<DstOverlap>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum LineAnswer {
    Fires(Vec<Timestamp>),
    Error(String),
}

fn answer_lines(args: &NextArgs, out: &mut Output) -> Result<(), Stop> {
    let mut input = std::io::BufReader::new(std::io::stdin());
    while let Some(line) = read_line(&mut input)? {
        let answer = match line.and_then(|line| answer_line(&line, args)) {
            Ok(fires) => LineAnswer::Fires(fires),
            Err(message) => LineAnswer::Error(message),
        };
        let text = serde_json::to_string(&answer).map_err(|error| Stop::failure(error.to_string()))?;
        writeln!(out, "{text}")?;
        // A program that waits for each answer gets it; a file is answered in large pieces.
        if input.buffer().is_empty() {
            out.flush()?;
        }
    }
    Ok(())
}

/// The next line without its end, an error in its place when it is too long, `None` at the end.
fn read_line(input: &mut impl BufRead) -> Result<Option<Result<Vec<u8>, String>>, Stop> {
    let mut line = Vec::new();
    let mut length = 0;
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() && length == 0 {
            return Ok(None);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(bytes.len(), |end| end + 1);
        // What is above the limit is counted, not kept.
        let room = MAX_LINE_BYTES.saturating_sub(line.len());
        line.extend_from_slice(&bytes[..taken.min(room)]);
        length += taken;
        input.consume(taken);
        if end.is_some() || taken == 0 {
            break;
        }
    }
    let fits = length <= MAX_LINE_BYTES;
    Ok(Some(
        fits.then_some(line).ok_or_else(|| format!("the line has {length} bytes; at most {MAX_LINE_BYTES} are read")),
    ))
}

fn answer_line(line: &[u8], args: &NextArgs) -> Result<Vec<Timestamp>, String> {
    let line: LineQuestion = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let count = line.count.unwrap_or(args.count.into());
    if count > u64::from(MAX_COUNT) {
        return Err(format!("count {count} is too large; the most is {MAX_COUNT}"));
    }
    let rule = Rule {
        tz: line.tz.unwrap_or_else(|| args.rule.tz.clone()),
        after: line.after.or_else(|| args.rule.after.clone()),
        dst_gap: line.dst_gap.unwrap_or(args.rule.dst_gap),
        dst_overlap: line.dst_overlap.unwrap_or(args.rule.dst_overlap),
        seed: line.seed.or_else(|| args.rule.seed.clone()),
    };
    let question = Question::read(&line.expr, &rule)
        // The mark under the column is for a terminal; the message itself is the first line.
        .map_err(|message| message.lines().next().unwrap_or_default().to_owned())?;
    Ok(question.fires(usize::try_from(count).unwrap_or_default()))
}

#[derive(Serialize)]
struct Explanation<'a> {
    expr: &'a str,
    tz: &'a str,
    description: String,
    fixed_time: bool,
    dst: Dst,
    fields: Vec<ExplainedField>,
    fires: Vec<Timestamp>,
    dst_notes: Vec<ExplainedChange>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct ExplainedField {
    field: &'static str,
    text: String,
    meaning: String,
}

#[derive(Serialize)]
struct ExplainedChange {
    date: jiff::civil::Date,
    changes_at: Timestamp,
    text: String,
}

impl<'a> Explanation<'a> {
    fn of(question: &'a Question, expr: &'a str) -> Explanation<'a> {
        let mut explanation = Explanation {
            expr,
            tz: &question.zone_name,
            description: String::new(),
            fixed_time: false,
            dst: question.dst,
            fields: Vec::new(),
            fires: question.fires(5),
            dst_notes: Vec::new(),
            warnings: Vec::new(),
        };
        match &question.recurrence {
            Recurrence::Every(every) => {
                explanation.description =
                    format!("Every {} of elapsed time, from slot to slot", format_duration(*every));
            }
            Recurrence::Cron(cron) => {
                let clock = CronClock::new(cron.clone(), question.zone.clone(), question.dst);
                explanation.fill(&clock, question);
            }
        }
        explanation
    }

    fn fill(&mut self, clock: &CronClock, question: &Question) {
        let until = question.after.saturating_add(YEAR).unwrap_or(Timestamp::MAX);
        self.description = describe(clock.cron(), &question.zone_name);
        self.fixed_time = clock.cron().is_fixed_time();
        let fields = field_meanings(clock.cron()).into_iter();
        self.fields =
            fields.map(|f| ExplainedField { field: f.field.as_str(), text: f.text, meaning: f.meaning }).collect();
        let notes = dst_notes(clock, question.after, until).into_iter();
        self.dst_notes =
            notes.map(|n| ExplainedChange { date: n.date, changes_at: n.changes_at, text: n.text }).collect();
        self.warnings = lint(clock, question.after).iter().map(ToString::to_string).collect();
    }

    fn write(&self, question: &Question, out: &mut Output) -> Result<(), Stop> {
        out.heading(&self.description)?;
        if !self.fields.is_empty() {
            writeln!(out)?;
            out.heading("Fields")?;
            let width = self.fields.iter().map(|field| field.text.len()).max().unwrap_or(0);
            for field in &self.fields {
                writeln!(out, "  {:<12}  {:<width$}  {}", field.field, field.text, field.meaning)?;
            }
        }
        writeln!(out)?;
        out.heading("Next fires")?;
        if self.fires.is_empty() {
            writeln!(out, "  none")?;
        }
        question.write_fires(out, "  ", self.fires.len())?;
        if !self.fields.is_empty() {
            writeln!(out)?;
            out.heading("Clock changes within a year")?;
            if self.dst_notes.is_empty() {
                writeln!(out, "  none that touches these times")?;
            }
            for note in &self.dst_notes {
                writeln!(out, "  {}", note.text)?;
            }
        }
        if !self.warnings.is_empty() {
            writeln!(out)?;
            out.heading("Warnings")?;
        }
        for warning in &self.warnings {
            writeln!(out, "  {warning}")?;
        }
        Ok(())
    }
}

fn explain(args: &ExplainArgs, out: &mut Output) -> Result<(), Stop> {
    let question = Question::read(&args.expr, &args.rule).map_err(Stop::usage)?;
    let explanation = Explanation::of(&question, &args.expr);
    if args.json { write_json(out, &explanation) } else { explanation.write(&question, out) }
}
