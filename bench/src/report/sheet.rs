//! A sheet: one section of the results, as it is saved.

use super::goals::Goal;
use super::machine::Machine;
use super::number::{rounded, spelled, with_unit};
use super::plot::Plot;
use serde::{Deserialize, Serialize};

/// One section of the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// The name of its file; a section is replaced by measuring it again.
    pub key: String,
    /// The heading.
    pub title: String,
    /// What measures it again.
    pub command: String,
    /// The day.
    pub measured: String,
    /// Where; absent on what was measured before sheets were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// What was done, one paragraph of Markdown each.
    pub words: Vec<String>,
    /// The goals that it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answer>,
    /// The figures.
    pub tables: Vec<Table>,
    /// The drawings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plots: Vec<Plot>,
}

impl Sheet {
    /// An empty sheet, measured by `cargo xtask bench COMMAND`.
    pub fn new(key: &str, title: &str, command: &str) -> Self {
        Self {
            key: key.to_owned(),
            title: title.to_owned(),
            command: command.to_owned(),
            measured: String::new(),
            machine: None,
            words: Vec::new(),
            answers: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
        }
    }

    /// Adds a paragraph about what was done.
    pub fn say(&mut self, words: impl Into<String>) {
        self.words.push(words.into());
    }

    /// Adds what was measured for a goal; `of` says on what, where the same goal is asked of several.
    pub fn answer(&mut self, goal: Goal, of: &str, measured: f64) {
        self.answer_beside_raw(goal, of, measured, f64::NAN);
    }

    /// The same, with what hand-written SQL has in the same run, which is told where it misses the goal itself.
    pub fn answer_beside_raw(&mut self, goal: Goal, of: &str, measured: f64, raw: f64) {
        // What could not be measured answers nothing.
        if measured.is_finite() {
            let raw = raw.is_finite().then(|| rounded(raw));
            let measured = rounded(measured);
            self.answers.push(Answer { goal, of: of.to_owned(), measured, raw, is_partly: false });
        }
    }
}

/// What was measured for a goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Which goal.
    pub goal: Goal,
    /// On what, if the same is asked of several, such as both stores.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// In the goal's unit.
    pub measured: f64,
    /// What hand-written SQL has in the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<f64>,
    /// Whether less was done than the goal asks about: not all peers played, or for a short time only.
    #[serde(default, rename = "partly", skip_serializing_if = "std::ops::Not::not")]
    pub is_partly: bool,
}

impl Answer {
    /// Whether the goal is met, and if not, whether hand-written SQL meets it: a reference, which proves nothing about what
    /// can be reached.
    pub fn verdict(&self) -> String {
        let wanted = self.goal.wanted();
        let partly = if self.is_partly { "partly: " } else { "" };
        let verdict = match self.raw.filter(|raw| !wanted.is_met(*raw)) {
            _ if wanted.is_met(self.measured) => "met".to_owned(),
            Some(raw) => format!("**not met**; raw SQL itself has {}", wanted.spelled(raw)),
            None => "**not met**".to_owned(),
        };
        format!("{partly}{verdict}")
    }
}

/// Figures in columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What stands above it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// The heads.
    pub columns: Vec<String>,
    /// As many cells each as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// What stands below it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Table {
    /// A table without rows.
    pub fn new<const N: usize>(words: &str, columns: [&str; N]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { words: words.to_owned(), columns, rows: Vec::new(), note: String::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether a column holds numbers, which stand to the right.
    pub fn is_numeric(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column)).peekable();
        cells.peek().is_some() && cells.all(|cell| !matches!(cell, Cell::Words(_)))
    }
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// Not a number.
    Words(String),
    /// A number that knows how it is written.
    Number(Number),
    /// From the least to the most.
    Range(Range),
    /// Not measured.
    Nothing,
}

/// A number that knows its unit and its digits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    value: f64,
    /// Behind the point.
    #[serde(default, skip_serializing_if = "is_zero")]
    digits: u8,
    /// Empty if the column or the row says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    unit: String,
}

/// How far values lay apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    low: f64,
    high: f64,
    /// Behind the point.
    #[serde(default, skip_serializing_if = "is_zero")]
    digits: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_zero(digits: &u8) -> bool {
    *digits == 0
}

impl Cell {
    /// Words.
    pub fn words(words: impl Into<String>) -> Self {
        Self::Words(words.into())
    }

    /// A number; one that is none becomes an empty cell.
    pub fn number(value: f64, digits: u8) -> Self {
        Self::with_unit(value, digits, "")
    }

    /// A number with its unit.
    pub fn with_unit(value: f64, digits: u8, unit: &str) -> Self {
        if value.is_finite() {
            Self::Number(Number { value: rounded(value), digits, unit: unit.to_owned() })
        } else {
            Self::Nothing
        }
    }

    /// From the least to the most.
    pub fn range((low, high): (f64, f64), digits: u8) -> Self {
        if low.is_finite() && high.is_finite() {
            Self::Range(Range { low: rounded(low), high: rounded(high), digits })
        } else {
            Self::Nothing
        }
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Words(words) => f.write_str(words),
            Self::Number(number) => f.write_str(&with_unit(number.value, number.digits, &number.unit)),
            Self::Range(range) => {
                write!(f, "{} to {}", spelled(range.low, range.digits), spelled(range.high, range.digits))
            }
            Self::Nothing => Ok(()),
        }
    }
}
