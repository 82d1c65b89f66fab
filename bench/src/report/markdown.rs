//! The page that people read, made of the sheets.

use super::files::plot_path;
use super::goals::Goal;
use super::sheet::{Answer, Cell, Sheet, Table};
use std::fmt::Write;

const HEAD: &str = "# Results

<!-- Made by `punctual-bench render` from `bench/results`. Do not edit: measure again. -->

Every figure is a ratio to a reference that was measured in the same run, in alternating order, or stands beside one. None is
given unless all jobs of the run were accounted for and the durability was read from that very database. The line below each
heading says on which commit, with which database and settings. Where it says \"from before\" instead, nobody knows them any
more, durability included, and the goals are marked \"(old)\". What was tried is in [`NOTES.md`](NOTES.md).

`cargo xtask bench SECTION` measures a section again, saves it in [`results`](results), and makes this page and its drawings
anew; `cargo xtask bench render` only does the latter.
";

/// The whole page.
pub fn page(sheets: &[Sheet]) -> String {
    let mut page = String::from(HEAD);
    let machine = common_hardware(sheets);
    if let Some(machine) = &machine {
        let _infallible = write!(page, "\nMeasured on {machine}, unless a section says otherwise.\n");
    }
    page.push_str("\n## Goals\n\n");
    page.push_str(&table(&goals(sheets)));
    for sheet in sheets {
        page.push('\n');
        page.push_str(&section(sheet, machine.as_deref()));
    }
    page
}

/// The hardware of most sheets.
fn common_hardware(sheets: &[Sheet]) -> Option<String> {
    let all: Vec<String> = sheets.iter().filter_map(|sheet| Some(sheet.machine.as_ref()?.hardware())).collect();
    let count = |one: &String| all.iter().filter(|other| *other == one).count();
    // The first of those that are equally common, so that the page is always the same.
    all.iter().rev().max_by_key(|one| count(one)).cloned()
}

/// One line for each goal and what was measured for it.
fn goals(sheets: &[Sheet]) -> Table {
    let mut goals = Table::new("", ["", "goal", "measured", "bound", "", "section"]);
    for goal in Goal::all() {
        let wanted = goal.wanted();
        let mut line = |of: &str, measured: String, verdict: &str, section: String| {
            let words = [wanted.name(), named(goal, of), measured, wanted.bound_words(), verdict.to_owned(), section];
            goals.row(words.map(Cell::Words));
        };
        let mut is_measured = false;
        for sheet in sheets {
            for answer in sheet.answers.iter().filter(|answer| answer.goal == goal) {
                let place = format!("[{}](#{})", sheet.key, anchor(&sheet.title));
                let old = if sheet.machine.is_some() { "" } else { " (old)" };
                line(&answer.of, wanted.spelled(answer.measured), &format!("{}{old}", answer.verdict()), place);
                is_measured = true;
            }
        }
        if !is_measured {
            line("", String::new(), "not measured", String::new());
        }
    }
    goals
}

/// How a heading is linked to.
pub fn anchor(title: &str) -> String {
    let kept = title.to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// One section; `usual` is the hardware that the page has named already.
pub fn section(sheet: &Sheet, usual: Option<&str>) -> String {
    let mut parts = vec![format!("## {}", sheet.title), origin(sheet, usual)];
    parts.extend(sheet.words.iter().cloned());
    parts.extend((!sheet.answers.is_empty()).then(|| answers(sheet)));
    for one in &sheet.tables {
        parts.extend((!one.words.is_empty()).then(|| one.words.clone()));
        parts.push(table(one).trim_end().to_owned());
        parts.extend((!one.note.is_empty()).then(|| one.note.clone()));
    }
    for (at, plot) in sheet.plots.iter().enumerate() {
        let words = plot.title().replace(['[', ']'], "");
        parts.push(format!("![{words}]({})", plot_path(&sheet.key, at).display()));
    }
    let mut text = parts.join("\n\n");
    text.push('\n');
    text
}

/// The goals that a section answers, as a list.
fn answers(sheet: &Sheet) -> String {
    let line = |answer: &Answer| {
        let wanted = answer.goal.wanted();
        let (name, words) = (wanted.name(), named(answer.goal, &answer.of));
        let (measured, bound) = (wanted.spelled(answer.measured), wanted.bound_words());
        format!("- {name}: {words}: {measured} (goal: {bound}, {})", answer.verdict())
    };
    sheet.answers.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A goal in words, with what it was measured on.
fn named(goal: Goal, of: &str) -> String {
    let words = goal.wanted().words;
    if of.is_empty() { words.to_owned() } else { format!("{words} ({of})") }
}

/// How, when and where it was measured.
fn origin(sheet: &Sheet, usual: Option<&str>) -> String {
    let mut words = format!("`cargo xtask bench {}`, {}", sheet.command, sheet.measured);
    if let Some(machine) = &sheet.machine {
        if let Some(commit) = &machine.commit {
            let _infallible = write!(words, ", commit {commit}");
        }
        if usual != Some(machine.hardware().as_str()) {
            let _infallible = write!(words, ", on {}", machine.hardware());
        }
        if !machine.databases.is_empty() {
            let _infallible = write!(words, ", with {}", machine.databases());
        }
        let _infallible = write!(words, "; {}", machine.quiet());
    } else {
        words.push_str(
            "; **from before machine, settings and durability were kept with it: nobody knows them any more**",
        );
    }
    words.push('.');
    words
}

/// A table, its columns as wide as they need to be.
pub fn table(table: &Table) -> String {
    let heads: Vec<String> = table.columns.iter().map(|head| cell(head)).collect();
    let rows: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.iter().map(|one| cell(&one.to_string())).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).chain(heads.get(column));
        cells.map(|text| text.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let mut text = String::from("|");
        for (column, width) in widths.iter().enumerate() {
            let words = cells.get(column).map(String::as_str).unwrap_or_default();
            let gap = " ".repeat(width - words.chars().count());
            let (before, after) = if table.is_numeric(column) { (gap.as_str(), "") } else { ("", gap.as_str()) };
            let _infallible = write!(text, " {before}{words}{after} |");
        }
        text.push('\n');
        text
    };
    let mut text = line(&heads);
    text.push('|');
    for column in 0..heads.len() {
        text.push_str(if table.is_numeric(column) { " ---: |" } else { " --- |" });
    }
    text.push('\n');
    text.extend(rows.iter().map(|row| line(row)));
    text
}

/// Words that cannot end their cell.
fn cell(words: &str) -> String {
    words.replace('|', "\\|").replace('\n', " ")
}
