//! Where results are kept, and how the page and its drawings are made of them.

use super::markdown;
use super::sheet::Sheet;
use super::svg;
use crate::load::Outcome;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// One file for each section.
pub const RESULTS: &str = "bench/results";
/// What people read.
pub const PAGE: &str = "bench/RESULTS.md";

/// The order of the page; a section that is not named comes last.
const ORDER: [&str; 18] = [
    "peers-drain",
    "peers-sustained",
    "peers-enqueue",
    "peers-latency",
    "peers-slots",
    "peers-sqlite",
    "claimers",
    "postgres",
    "sqlite",
    "growth",
    "startup",
    "idle",
    "lateness",
    "limits",
    "http",
    "notify",
    "command",
    "cron",
];

/// The folder `bench` of this repository.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Puts a sheet in the place of the one that was there.
pub fn save(folder: &Path, sheet: &Sheet) -> Outcome<()> {
    let results = folder.join("results");
    fs::create_dir_all(&results)?;
    fs::write(results.join(format!("{}.json", sheet.key)), format!("{}\n", serde_json::to_string_pretty(sheet)?))?;
    Ok(())
}

/// All sheets that are kept, in the order of the page.
pub fn load(folder: &Path) -> Outcome<Vec<Sheet>> {
    let mut sheets = Vec::new();
    for entry in fs::read_dir(folder.join("results"))? {
        let path = entry?.path();
        let told =
            |error: &dyn std::fmt::Display| format!("{}: {error}; measure it again or remove it", path.display());
        let sheet: Sheet = serde_json::from_str(&fs::read_to_string(&path)?).map_err(|error| told(&error))?;
        if path.file_stem().and_then(|stem| stem.to_str()) != Some(sheet.key.as_str()) {
            return Err(told(&format!("holds the section {}", sheet.key)).into());
        }
        sheets.push(sheet);
    }
    let place = |sheet: &Sheet| ORDER.iter().position(|key| *key == sheet.key).unwrap_or(ORDER.len());
    sheets.sort_by(|one, other| place(one).cmp(&place(other)).then_with(|| one.key.cmp(&other.key)));
    Ok(sheets)
}

/// What the sheets give: each file below `bench`, and what is to be in it.
pub fn rendered(sheets: &[Sheet]) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::from([(PathBuf::from("RESULTS.md"), markdown::page(sheets))]);
    for sheet in sheets {
        for (at, plot) in sheet.plots.iter().enumerate() {
            files.insert(plot_path(&sheet.key, at), svg::draw(plot));
        }
    }
    files
}

/// Where a drawing is, below `bench`.
pub fn plot_path(key: &str, at: usize) -> PathBuf {
    PathBuf::from(format!("plots/{key}-{}.svg", at + 1))
}

/// Writes the page and the drawings; a drawing that no sheet has any more is removed.
pub fn render() -> Outcome<()> {
    let folder = folder();
    let files = rendered(&load(&folder)?);
    let plots = folder.join("plots");
    fs::create_dir_all(&plots)?;
    for drawing in drawings(&folder)? {
        if !files.contains_key(&drawing) {
            fs::remove_file(folder.join(drawing))?;
        }
    }
    for (path, text) in files {
        fs::write(folder.join(path), text)?;
    }
    Ok(())
}

/// The drawings that are there, below `bench`.
pub fn drawings(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join("plots"))? {
        found.push(PathBuf::from("plots").join(entry?.file_name()));
    }
    found.sort();
    Ok(found)
}
