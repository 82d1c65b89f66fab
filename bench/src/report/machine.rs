//! Where something was measured: the machine, the databases with their durability, and whether others were at work.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Above this share of the processors' time, speeds say little; ratios still count.
const QUIET_PERCENT: f64 = 10.0;

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
            format!("{} {} ({})", engine.name, engine.version, settings.join(", "))
        });
        told.collect::<Vec<_>>().join("; ")
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
