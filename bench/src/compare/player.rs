//! Who plays: a contestant with what it says of itself, its settings and its name in tables.

use crate::load::Outcome;
use crate::peers::Contestant;
use crate::report::{Cell, Table, Tone};
use serde_json::{Value, json};
use std::ffi::OsString;

/// Those that are not peers, and what they call themselves.
pub const OURS: &str = "Punctual";
pub const RAW: &str = "raw SQL";
pub const RAW_LARGE: &str = "raw SQL, large batches";
pub const BARE: &str = "keeps nothing";
/// Punctual once more: jobs are made by another handle of the store, so that the node hears of them through the database,
/// as raw SQL does.
pub const OURS_APART: &str = "Punctual, from another process";

/// With which settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settings {
    Default,
    Best,
}

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    Postgres,
    Sqlite,
}

impl Settings {
    pub fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Best => "best",
        }
    }
}

impl Store {
    fn word(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        }
    }
}

/// Who plays.
pub struct Player {
    pub name: String,
    pub contestant: Contestant,
    about: Value,
    /// What our own program is told beside what everybody is asked: which of its sides is meant.
    told: Option<&'static str>,
}

impl Player {
    /// One of our own program's sides.
    pub async fn of_ours(program: impl Into<OsString>, who: &'static str) -> Outcome<Self> {
        let contestant = Contestant::of_ours(who, program.into());
        let about = contestant.ask(&json!({ "who": who, "scenario": "about" })).await?;
        Ok(Self::new(contestant, about, Some(who)))
    }

    /// Punctual, whose jobs come from elsewhere; only where that makes a difference.
    pub async fn apart(program: impl Into<OsString>) -> Outcome<Self> {
        let mut player = Self::of_ours(program, "punctual").await?;
        OURS_APART.clone_into(&mut player.name);
        player.about["scenarios"] = json!(["latency"]);
        player.about["stores"] = json!(["postgres"]);
        Ok(player)
    }

    /// A peer that is installed.
    pub async fn peer(contestant: Contestant) -> Outcome<Self> {
        let about = contestant.ask(&json!({ "scenario": "about" })).await?;
        Ok(Self::new(contestant, about, None))
    }

    fn new(contestant: Contestant, about: Value, told: Option<&'static str>) -> Self {
        let name = about["name"].as_str().unwrap_or(&contestant.name).to_owned();
        Self { name, contestant, about, told }
    }

    /// Puts into a request what only this one is told.
    pub fn address(&self, request: &mut Value, settings: Settings) {
        request["settings"] = json!(settings.word());
        if let Some(who) = self.told {
            request["who"] = json!(who);
        }
        if request["scenario"] == "latency" && self.name == OURS_APART {
            request["apart"] = json!(true);
        }
        // Where the usual number of waiting jobs would take too long to drain.
        if request["scenario"] == "sustained"
            && let Some(window) = self.number(&format!("window_{}", settings.word()))
        {
            request["window"] = json!(window);
        }
    }

    /// Whether it has a scenario on a store.
    pub fn plays(&self, scenario: &str, store: Store) -> bool {
        let has = |list: &str, word: &str| self.about[list].as_array().is_some_and(|all| all.contains(&json!(word)));
        has("scenarios", scenario) && has("stores", store.word())
    }

    /// Jobs that take some seconds, or some hundredths of them.
    pub fn jobs(&self, settings: Settings, store: Store, percent: usize) -> usize {
        let key = format!("jobs_{}", settings.word());
        // Who has both stores says it of each.
        let on_file = self.number(&format!("{key}_sqlite")).filter(|_| store == Store::Sqlite);
        (on_file.or(self.number(&key)).unwrap_or(1000) * percent / 100).max(10)
    }

    fn number(&self, key: &str) -> Option<usize> {
        self.about[key].as_u64().and_then(|number| usize::try_from(number).ok())
    }

    /// Whether it keeps a record of what it has done, and in which words.
    pub fn keeps(&self) -> &str {
        self.about["keeps"].as_str().unwrap_or("no")
    }

    fn words(&self, settings: Settings) -> Cell {
        Cell::words(self.about[settings.word()].as_str().unwrap_or_default())
    }

    pub fn is_peer(&self) -> bool {
        self.told.is_none()
    }

    /// Whether both settings are the same, as for the references.
    pub fn has_one_setting(&self) -> bool {
        [RAW, RAW_LARGE, BARE].contains(&self.name.as_str())
    }

    pub fn tone(&self, settings: Settings) -> Tone {
        match (self.name.as_str(), settings) {
            (OURS | OURS_APART, _) => Tone::Ours,
            (RAW | RAW_LARGE | BARE, _) => Tone::Raw,
            (_, Settings::Default) => Tone::Usual,
            (_, Settings::Best) => Tone::Best,
        }
    }

    /// Its name and version.
    pub fn title(&self) -> String {
        let version = self.about["version"].as_str().unwrap_or_default();
        let language = self.about["language"].as_str().unwrap_or_default();
        if self.is_peer() { format!("{} {version} ({language})", self.name) } else { self.name.clone() }
    }

    /// The same with its settings, where it has more than one kind.
    pub fn label(&self, settings: Settings) -> String {
        let title = self.title();
        if self.has_one_setting() { title } else { format!("{title}, {}", settings.word()) }
    }
}

/// Who they are, with which settings.
pub fn who_plays(players: &[Player], entries: &[(usize, Settings)]) -> Table {
    let mut table = Table::new("Who played, and how:", ["who", "default", "best documented", "keeps a record"]);
    let mut seen = Vec::new();
    for (at, _) in entries {
        if seen.contains(at) {
            continue;
        }
        seen.push(*at);
        let player = &players[*at];
        let settings = [Settings::Default, Settings::Best].map(|settings| player.words(settings));
        let keeps = Cell::words(player.keeps());
        table.row(std::iter::once(Cell::words(player.title())).chain(settings).chain([keeps]));
    }
    table
}
