//! An independent reader of figures and of expressions over them: the parsers of Prometheus' own clients.

use crate::clients::{alone, answer, installed};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What the parsers are told to do.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/prometheus.py");

/// A family of figures.
#[derive(Debug, Deserialize)]
pub struct Family {
    /// Its name, without what its type adds.
    pub name: String,
    /// `counter`, `gauge`, `histogram`, `info`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it is.
    pub help: String,
    /// Its values.
    pub samples: Vec<Sample>,
}

/// One value.
#[derive(Debug, Deserialize)]
pub struct Sample {
    /// The name it is asked for by.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Itself.
    pub value: f64,
}

/// All expressions of a dashboard and of alert rules.
#[derive(Debug, Deserialize)]
pub struct Watched {
    /// What each of them asks for.
    pub expressions: Vec<Expression>,
    /// The alerts as they are written.
    pub alerts: Vec<Alert>,
}

/// What an expression asks for.
#[derive(Debug, Deserialize)]
pub struct Expression {
    /// The panel or the alert.
    pub r#where: String,
    /// What it names, with the labels it asks for.
    pub selectors: Vec<Selector>,
    /// The labels it keeps apart, with what it keeps apart by them.
    pub groupings: Vec<Grouping>,
}

/// A name and labels.
#[derive(Debug, Deserialize)]
pub struct Selector {
    /// The name.
    pub name: String,
    /// The labels.
    pub labels: BTreeSet<String>,
}

/// Labels that are kept apart.
#[derive(Debug, Deserialize)]
pub struct Grouping {
    /// The labels.
    pub labels: BTreeSet<String>,
    /// What has them.
    pub names: BTreeSet<String>,
}

/// An alert.
#[derive(Debug, Deserialize)]
pub struct Alert {
    /// Its name.
    pub alert: String,
    /// Labels for whoever sorts alerts.
    pub labels: BTreeMap<String, String>,
    /// Words for people.
    pub annotations: BTreeMap<String, String>,
}

/// Reads a text of figures; what is not OpenMetrics is refused with the parser's words.
pub fn figures(text: &str) -> Result<Vec<Family>, String> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("a text");
    run(&["figures".as_ref(), file.path()])
}

/// Reads a dashboard and alert rules; an expression that cannot be understood is refused.
pub fn expressions(dashboard: &Path, rules: &Path) -> Result<Watched, String> {
    run(&["expressions".as_ref(), dashboard, rules])
}

fn run<T: for<'a> Deserialize<'a>>(args: &[&Path]) -> Result<T, String> {
    let mut command = alone(&installed("target/prometheus/bin/python"));
    let child = command.arg(SCRIPT).args(args).spawn().map_err(|error| error.to_string())?;
    let text = answer(child)?;
    serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
}
