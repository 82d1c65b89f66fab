//! How answers are shown: tables that fit the terminal, or the API's own JSON, line by line or as CSV.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use punctual_core::duration::parse_duration;
use punctual_core::json::Fields;
use serde_json::Value;

use super::api::{Answer, Page};
use crate::cli::{Output, Stop};

/// In which form something is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// The API's answer
    Json,
    /// One JSON object on each line
    Jsonl,
    /// Comma-separated values with a header line
    Csv,
}

/// How times are printed in tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Times {
    /// On this machine's wall clock
    #[default]
    Local,
    /// RFC 3339 in UTC
    Iso,
    /// From now: `in 5m`, `2h ago`
    Relative,
}

/// Flags of every command that prints something.
#[derive(Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct ShowArgs {
    /// Print JSON, as the API answers it
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// The form of the output
    #[arg(short, long, value_enum, value_name = "FORM")]
    output: Option<Format>,
    /// How times are printed for people
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    time: Times,
}

impl ShowArgs {
    pub(crate) fn format(self) -> Format {
        if self.json { Format::Json } else { self.output.unwrap_or_default() }
    }

    /// Whether a person reads it.
    pub(crate) fn is_for_people(self) -> bool {
        self.format() == Format::Table
    }
}

/// Flags of every list.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ListArgs {
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = some)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// Print only the first column, one on each line
    #[arg(short, long, conflicts_with_all = ["json", "output"], help_heading = "Output")]
    quiet: bool,
    /// Print the list anew every 2s, or as often as said, until Ctrl-C
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "2s", require_equals = true,
        value_parser = parse_duration, help_heading = "Output")]
    watch: Option<SignedDuration>,
}

fn some(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| (1..=1_000_000).contains(number)).ok_or("use 1 to 1000000".to_owned())
}

/// What stands in one column of a table.
#[derive(Clone, Copy)]
pub(crate) enum Cell {
    /// What is at this JSON pointer.
    Text(&'static str),
    /// A time there.
    Time(&'static str),
    /// A number there that may be more than was counted.
    Count(&'static str),
    /// Words about the whole item.
    Words(fn(&Value) -> String),
}

/// One column: its title, and what stands in it.
pub(crate) type Column = (&'static str, Cell);

/// Prints a list, once or again and again. `empty` is said to people when there is nothing.
pub(crate) async fn list(
    out: &mut Output, args: ListArgs, columns: &[Column], empty: &str, look: impl AsyncFn() -> Result<Page, Stop>,
) -> Result<(), Stop> {
    let Some(every) = args.watch else {
        return page(out, args, columns, empty, &look().await?);
    };
    let every = Duration::try_from(every).unwrap_or_default().max(Duration::from_millis(100));
    loop {
        let found = look().await?;
        if std::io::stdout().is_terminal() {
            write!(out, "\x1b[H\x1b[2J")?;
        }
        page(out, args, columns, empty, &found)?;
        out.flush()?;
        tokio::time::sleep(every).await;
    }
}

fn page(out: &mut Output, args: ListArgs, columns: &[Column], empty: &str, page: &Page) -> Result<(), Stop> {
    let items = || page.items.iter().map(|item| serde_json::from_str(item.get()).unwrap_or_default());
    if args.quiet {
        let first = columns.first().map(|(_, cell)| *cell);
        return Ok(items().try_for_each(|item| writeln!(out, "{}", text_in(&item, first, Times::Iso)))?);
    }
    match args.show.format() {
        Format::Json => json_text(out, &serde_json::to_string(page).unwrap_or_default())?,
        Format::Jsonl => page.items.iter().try_for_each(|item| writeln!(out, "{item}"))?,
        Format::Csv => csv(out, columns, items())?,
        Format::Table if page.items.is_empty() => writeln!(out, "{empty}")?,
        Format::Table => {
            table(out, args.show.time, columns, items())?;
            if page.next_cursor.is_some() {
                out.flush()?;
                writeln!(std::io::stderr(), "… there are more; raise --limit")?;
            }
        }
    }
    Ok(())
}

/// Prints some rows for people.
pub(crate) fn rows(out: &mut Output, show: ShowArgs, columns: &[Column], rows: &Value) -> Result<(), Stop> {
    Ok(table(out, show.time, columns, rows.as_array().into_iter().flatten().cloned())?)
}

/// Prints one thing: every field on a line of its own, or JSON.
pub(crate) fn one(out: &mut Output, show: ShowArgs, answer: &Answer) -> Result<(), Stop> {
    if !show.is_for_people() {
        return Ok(json(out, answer)?);
    }
    let mut lines = Vec::new();
    let Ok(Fields(fields)) = serde_json::from_str(answer.text()) else {
        return Ok(writeln!(out, "{}", exact(answer.text()))?);
    };
    for (key, value) in fields {
        // One level of what is inside, so that a run or a target reads like the rest.
        match serde_json::from_str::<Fields>(value.get()) {
            Ok(Fields(inner)) if key != "input" && key != "output" => {
                lines.extend(inner.into_iter().map(|(name, value)| (format!("{key}.{name}"), value)));
            }
            _ => lines.push((key, value)),
        }
    }
    lines.retain(|(_, value)| !matches!(value.get(), "null" | "{}" | "[]" | "\"\""));
    let width = lines.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    for (key, value) in lines {
        let text = exact(value.get());
        let is_time = key.ends_with("_at") || key.rsplit('.').next() == Some("at");
        let text = if is_time { time_text(&text, show.time) } else { text };
        let mut lines = text.lines();
        writeln!(out, "{:width$}  {}", visible(&key), lines.next().unwrap_or_default())?;
        lines.try_for_each(|line| writeln!(out, "{:width$}  {line}", ""))?;
    }
    Ok(())
}

/// One line for people, the whole answer for programs.
pub(crate) fn said(out: &mut Output, show: ShowArgs, answer: &Answer, words: &str) -> Result<(), Stop> {
    if show.is_for_people() {
        writeln!(out, "{}", visible(words))?;
    } else {
        json(out, answer)?;
    }
    Ok(())
}

/// Prints an answer as it came.
pub(crate) fn json(out: &mut Output, answer: &Answer) -> std::io::Result<()> {
    if answer.text() == "null" { Ok(()) } else { json_text(out, answer.text()) }
}

fn json_text(out: &mut Output, text: &str) -> std::io::Result<()> {
    writeln!(out, "{text}")
}

/// A JSON text as people write it: a string without its quotes, everything else to the letter.
fn exact(text: &str) -> String {
    match serde_json::from_str::<String>(text) {
        Ok(text) => visible(&text),
        Err(_) => visible(text),
    }
}

fn csv(out: &mut Output, columns: &[Column], items: impl Iterator<Item = Value>) -> std::io::Result<()> {
    let header: Vec<String> = columns.iter().map(|(title, _)| title.to_lowercase().replace(' ', "_")).collect();
    writeln!(out, "{}", header.join(","))?;
    for item in items {
        let cells = columns.iter().map(|(_, cell)| quoted(&text_in(&item, Some(*cell), Times::Iso)));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join(","))?;
    }
    Ok(())
}

/// A CSV cell by RFC 4180. A cell that a spreadsheet would take for a formula is marked as text.
fn quoted(cell: &str) -> String {
    let cell = if cell.starts_with(['=', '+', '@', '\t', '\r']) { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

fn table(
    out: &mut Output, times: Times, columns: &[Column], items: impl Iterator<Item = Value>,
) -> std::io::Result<()> {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::TableStyle::new());
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    match terminal_width() {
        Some(width) => table.set_width(width),
        None => table.set_content_arrangement(comfy_table::ContentArrangement::Disabled),
    };
    table.set_header(columns.iter().map(|(title, _)| *title));
    table.add_rows(items.map(|item| {
        let cells = columns.iter().map(|(_, cell)| text_in(&item, Some(*cell), times));
        cells.map(|text| if text.is_empty() { "-".to_owned() } else { text.replace('\n', " ") }).collect::<Vec<_>>()
    }));
    for (number, line) in table.to_string().lines().enumerate() {
        let line = line.trim_end().strip_prefix(' ').unwrap_or(line.trim_end());
        if number == 0 { out.heading(line)? } else { writeln!(out, "{line}")? }
    }
    Ok(())
}

fn text_in(item: &Value, cell: Option<Cell>, times: Times) -> String {
    let at = |pointer: &str| item.pointer(pointer).unwrap_or(&Value::Null).clone();
    match cell {
        None => String::new(),
        Some(Cell::Text(pointer)) => plain(&at(pointer)),
        Some(Cell::Time(pointer)) => time_text(&plain(&at(pointer)), times),
        Some(Cell::Words(words)) => visible(&words(item)),
        Some(Cell::Count(pointer)) => {
            let count = at(pointer);
            let more = if count["more"] == Value::Bool(true) { "+" } else { "" };
            format!("{}{more}", plain(&count["count"]))
        }
    }
}

/// A value as people write it, made safe for a terminal.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => visible(text),
        Value::Null => String::new(),
        other => visible(&other.to_string()),
    }
}

/// A text whose control characters are shown, not obeyed: they cannot move the cursor, colour the screen, or turn the
/// direction of reading.
pub(crate) fn visible(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let hidden = |c: char| (c.is_control() && c != '\n' && c != '\t') || turns(c);
    text.chars().map(|c| if hidden(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn time_text(text: &str, times: Times) -> String {
    match (text.parse::<Timestamp>(), times) {
        (Err(_), _) => text.to_owned(),
        (Ok(at), Times::Iso) => at.to_string(),
        (Ok(at), Times::Local) => at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        (Ok(at), Times::Relative) => from_now(at, Timestamp::now()),
    }
}

/// How far an instant is from now, in its largest unit.
pub(crate) fn from_now(at: Timestamp, now: Timestamp) -> String {
    let distance = at.duration_since(now);
    let seconds = distance.abs().as_secs();
    let amount = match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    };
    if distance.is_negative() { format!("{amount} ago") } else { format!("in {amount}") }
}

fn terminal_width() -> Option<u16> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| width.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_csv_are_quoted_and_no_formula_is_smuggled_in() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"hi\""), "\"say \"\"hi\"\"\"");
        assert_eq!(quoted("=cmd()"), "'=cmd()");
    }

    #[test]
    fn what_could_move_the_cursor_is_shown_and_not_obeyed() {
        assert_eq!(visible("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
        assert_eq!(visible("a\u{202e}b"), "a\u{fffd}b");
        assert_eq!(exact(r#""a\u001bb""#), "a\u{fffd}b");
    }

    #[test]
    fn long_numbers_keep_their_digits_and_fields_their_order() {
        let Fields(fields) = serde_json::from_str(r#"{"b":9007199254740993.25,"a":"x"}"#).unwrap();
        let shown: Vec<_> = fields.iter().map(|(key, value)| format!("{key}={}", exact(value.get()))).collect();
        assert_eq!(shown, ["b=9007199254740993.25", "a=x"]);
    }

    #[test]
    fn times_can_be_told_from_now() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let at = |seconds: i64| from_now(Timestamp::from_second(1_000_000 + seconds).unwrap(), now);
        assert_eq!([at(5), at(-90), at(7300), at(-200_000)], ["in 5s", "1m ago", "in 2h", "2d ago"]);
    }
}
