//! Where something was measured: the machine, the databases with their durability, and whether others were at work.

use super::number::spelled;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Above this share of the processors' time, speeds say little; ratios still count.
const QUIET_PERCENT: f64 = 10.0;
/// Under this name a database's settings say in what kind of file system it is.
pub const FILE_SYSTEM: &str = "file system";
/// Kinds that keep nothing on a disk, so that nothing in them waits for one.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// The machine, as it was during the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub cores: u32,
    pub processor: String,
    pub memory_gb: f64,
    pub kernel: String,
    /// What the databases said of themselves.
    pub databases: Vec<Engine>,
    /// The share of all processors' time that neither the benchmark nor its server used.
    pub others_percent: f64,
    /// Of what was measured, with `+` behind it if something else than results had been changed since; absent without git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// How many rows each database commits in a second, one by one, measured before everything else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commits_per_second: BTreeMap<String, f64>,
}

/// A database, by its own word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    pub name: String,
    pub version: String,
    pub settings: BTreeMap<String, String>,
}

impl Machine {
    /// The hardware and its kernel, without what changes from run to run.
    pub fn hardware(&self) -> String {
        let Self { cores, processor, memory_gb, kernel, .. } = self;
        format!("{cores} cores ({processor}), {memory_gb:.1} GB of memory, Linux {kernel}")
    }

    /// The databases with their durability.
    pub fn databases(&self) -> String {
        let told = self.databases.iter().map(|engine| {
            let settings: Vec<String> = engine.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
            let commits = self.commits_per_second.get(&engine.name);
            let commits = commits.map_or_else(String::new, |rate| format!("; {} commits/s", spelled(*rate, 0)));
            format!("{} {} ({}{commits})", engine.name, engine.version, settings.join(", "))
        });
        told.collect::<Vec<_>>().join("; ")
    }

    /// A database that says of itself that it is durable, and is not: what it writes never leaves the memory.
    pub fn in_memory(&self) -> Option<String> {
        let kind = |engine: &Engine| engine.settings.get(FILE_SYSTEM).cloned();
        let (engine, kind) = self.databases.iter().find_map(|engine| {
            kind(engine).filter(|kind| IN_MEMORY.contains(&kind.as_str())).map(|kind| (engine, kind))
        })?;
        Some(format!("{} was in a {kind}, where nothing is durable; set TMPDIR to a folder on a disk", engine.name))
    }

    /// Whether anybody else was at work.
    pub fn quiet(&self) -> String {
        let others = self.others_percent;
        if others > QUIET_PERCENT {
            format!(
                "others used {others:.0} % of the processors meanwhile, so the speeds say little and the ratios more"
            )
        } else {
            format!("others used {others:.0} % of the processors meanwhile")
        }
    }
}
