//! What a drawing shows; how it is drawn is the business of `svg`.

use super::number::rounded;
use serde::{Deserialize, Serialize};

/// A drawing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Plot {
    /// Values side by side.
    Bars(Bars),
    /// Values over something that grows.
    Lines(Lines),
    /// How long things took: the middle, and what one in a hundred exceeds.
    Strips(Strips),
}

impl Plot {
    /// The heading.
    pub fn title(&self) -> &str {
        match self {
            Self::Bars(plot) => &plot.title,
            Self::Lines(plot) => &plot.title,
            Self::Strips(plot) => &plot.title,
        }
    }
}

/// Whose values these are, and so their colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tone {
    /// Punctual's.
    Ours,
    /// The reference's: hand-written SQL, an empty store.
    Raw,
    /// Another system's with its best documented settings.
    Best,
    /// Another system's as it comes.
    Usual,
}

/// Horizontal bars in groups; the scale is logarithmic when they differ by more than fifty times.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bars {
    /// The heading.
    pub title: String,
    /// What the values are counted in, such as `jobs/s`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Behind the point.
    #[serde(default)]
    pub digits: u8,
    /// From above.
    pub groups: Vec<Group>,
    /// Lines across, such as a goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
}

/// Bars that belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Empty if the bars need no heading.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// From above.
    pub bars: Vec<Bar>,
}

/// One value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// What it is.
    pub label: String,
    /// Its length.
    pub value: f64,
    /// How far the rounds lay apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<(f64, f64)>,
    /// Whose it is.
    pub tone: Tone,
}

impl Bar {
    /// A bar, with how far the rounds lay apart.
    pub fn new(label: impl Into<String>, tone: Tone, value: f64, spread: Option<(f64, f64)>) -> Self {
        let spread = spread.filter(|(low, high)| low.is_finite() && high.is_finite());
        let spread = spread.map(|(low, high)| (rounded(low), rounded(high)));
        // What was not measured has no length.
        let value = if value.is_finite() { rounded(value) } else { 0.0 };
        Self { label: label.into(), value, spread, tone }
    }
}

/// A line across at a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Where.
    pub value: f64,
    /// What it says.
    pub words: String,
}

impl Mark {
    /// A mark.
    pub fn new(value: f64, words: &str) -> Self {
        Self { value, words: words.to_owned() }
    }
}

/// Lines through points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    /// The heading.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards; begins at zero unless it is logarithmic.
    pub y: Axis,
    /// From the first in the legend.
    pub series: Vec<Line>,
    /// Lines across, such as a goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
}

/// What is counted along an axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What it says.
    pub words: String,
    /// Whether each step is a factor; zero then stands left of, or below, the least value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
}

impl Axis {
    /// In equal steps.
    pub fn linear(words: &str) -> Self {
        Self { words: words.to_owned(), log: false }
    }

    /// In factors.
    pub fn log(words: &str) -> Self {
        Self { words: words.to_owned(), log: true }
    }
}

/// Points that are joined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// What the legend says.
    pub name: String,
    /// Whose they are.
    pub tone: Tone,
    /// From the left.
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// A line.
    pub fn new(name: impl Into<String>, tone: Tone, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        Self { name: name.into(), tone, points: points.map(|(x, y)| (rounded(x), rounded(y))).collect() }
    }
}

/// Times as strips from the middle to what one in a hundred exceeds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strips {
    /// The heading.
    pub title: String,
    /// Such as `ms`.
    pub unit: String,
    /// Behind the point.
    pub digits: u8,
    /// From above.
    pub rows: Vec<Strip>,
    /// Lines across, such as a goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
}

/// The times of one thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strip {
    /// What took so long.
    pub label: String,
    /// Whose.
    pub tone: Tone,
    /// The middle.
    pub p50: f64,
    /// What one in a hundred exceeds.
    pub p99: f64,
    /// How far the rounds lay apart, of each of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spreads: Option<[(f64, f64); 2]>,
}

impl Strip {
    /// A strip; `spreads` says how far the rounds lay apart, in the middle and at the end.
    pub fn new(label: impl Into<String>, tone: Tone, (p50, p99): (f64, f64), spreads: Option<[(f64, f64); 2]>) -> Self {
        let round = |(low, high)| (rounded(low), rounded(high));
        let spreads = spreads.filter(|both| both.iter().all(|(low, high)| low.is_finite() && high.is_finite()));
        let value = |time: f64| if time.is_finite() { rounded(time) } else { 0.0 };
        Self {
            label: label.into(),
            tone,
            p50: value(p50),
            p99: value(p99),
            spreads: spreads.map(|both| both.map(round)),
        }
    }
}
