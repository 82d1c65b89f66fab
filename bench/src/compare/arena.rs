//! Where everybody plays: one durable server, an empty database for each run, and what the run cost the database.

use super::Extent;
use crate::load::Outcome;
use crate::peers::{Contestant, Places, install};
use crate::report::{Cell, Survey, Table, Tone};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio_postgres::Client;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// Those that are not peers, and what they call themselves.
pub const OURS: &str = "Punctual";
pub const RAW: &str = "raw SQL";
pub const RAW_LARGE: &str = "raw SQL, large batches";
pub const BARE: &str = "keeps nothing";

/// The server and the players.
pub struct Arena {
    pub survey: Survey,
    pub players: Vec<Player>,
    pub extent: Extent,
    server: PrivateServer,
    admin: Client,
    folder: TempDir,
}

/// Who plays.
pub struct Player {
    pub name: String,
    about: Value,
    contestant: Contestant,
    /// How the program knows which of its sides is meant.
    who: Option<&'static str>,
}

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

/// What came of one run, and what it cost.
pub struct Played {
    pub done: Value,
    pub wal_bytes: f64,
    pub commits: f64,
    /// Rows that were deleted or replaced.
    pub dead_rows: f64,
    pub memory_mb: f64,
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

impl Player {
    async fn open(contestant: Contestant, who: Option<&'static str>) -> Outcome<Self> {
        let about = match who {
            None => contestant.about().await?,
            Some(who) => contestant.start(&json!({ "who": who, "scenario": "about" }), PATIENCE)?.only_line().await?,
        };
        let name = about["name"].as_str().unwrap_or(&contestant.name).to_owned();
        Ok(Self { name, about, contestant, who })
    }

    /// Whether it has a scenario on a store.
    pub fn plays(&self, scenario: &str, store: Store) -> bool {
        let has = |list: &str, word: &str| self.about[list].as_array().is_some_and(|all| all.contains(&json!(word)));
        has("scenarios", scenario) && has("stores", store.word())
    }

    /// Jobs that take some seconds.
    pub fn jobs(&self, settings: Settings, store: Store, extent: &Extent) -> usize {
        let key = format!("jobs_{}", settings.word());
        // Who has both stores says it of each.
        let on_file = self.number(&format!("{key}_sqlite")).filter(|_| store == Store::Sqlite);
        (on_file.or(self.number(&key)).unwrap_or(1000) * extent.percent / 100).max(10)
    }

    /// How many jobs may wait where the usual number would take too long to drain.
    pub fn window(&self, settings: Settings) -> Option<usize> {
        self.number(&format!("window_{}", settings.word()))
    }

    fn number(&self, key: &str) -> Option<usize> {
        self.about[key].as_u64().and_then(|number| usize::try_from(number).ok())
    }

    /// Whether it keeps a record of what it has done, and in which words.
    pub fn keeps(&self) -> &str {
        self.about["keeps"].as_str().unwrap_or("no")
    }

    pub fn words(&self, settings: Settings) -> &str {
        self.about[settings.word()].as_str().unwrap_or_default()
    }

    pub fn is_peer(&self) -> bool {
        self.who.is_none()
    }

    /// Whether both settings are the same, as for the references.
    pub fn has_one_setting(&self) -> bool {
        [RAW, RAW_LARGE, BARE].contains(&self.name.as_str())
    }

    pub fn tone(&self, settings: Settings) -> Tone {
        match (self.name.as_str(), settings) {
            (OURS, _) => Tone::Ours,
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
}

impl Arena {
    /// Starts the server, and brings everybody there.
    pub async fn open(extent: Extent) -> Outcome<Self> {
        let mut survey = Survey::begin()?;
        let places = Places::find()?;
        install(&places)?;
        let own = own_program()?;
        let mut players = Vec::new();
        for who in ["raw", "raw-large", "bare", "punctual"] {
            players.push(Player::open(Contestant::new(who, vec![own.clone().into()]), Some(who)).await?);
        }
        let all = Contestant::all(&places);
        if let Some(name) = extent.only.iter().find(|name| all.iter().all(|peer| peer.name != **name)) {
            let names: Vec<&str> = all.iter().map(|peer| peer.name.as_str()).collect();
            return Err(format!("no peer is called `{name}`: one of {}", names.join(", ")).into());
        }
        let plays = |peer: &Contestant| extent.only.is_empty() || extent.only.contains(&peer.name);
        for contestant in all.into_iter().filter(plays) {
            players.push(Player::open(contestant, None).await?);
        }
        let server = PrivateServer::start(true);
        let (admin, connection) = tokio_postgres::connect(&server.url("postgres"), tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        // Room for a run, so that a checkpoint that one of them asks for does not fall on another.
        admin.batch_execute("ALTER SYSTEM SET max_wal_size = '4GB'").await?;
        admin.execute("SELECT pg_reload_conf()", &[]).await?;
        survey.postgres(&server, &admin).await?;
        Ok(Self { survey, players, extent, server, admin, folder: tempfile::tempdir()? })
    }

    /// Notes version and durability of SQLite for the sheet; each of our sides looks at its own connection beside.
    pub async fn note_sqlite(&mut self) -> Outcome<()> {
        let store = SqliteStore::open(&self.folder.path().join("look.db"), SqliteOptions::default())?;
        self.survey.sqlite(&store).await
    }

    /// Everybody who has a scenario, with each of their settings.
    pub fn entries(&self, scenario: &str, store: Store) -> Vec<(usize, Settings)> {
        let players = self.players.iter().enumerate().filter(|(_, player)| player.plays(scenario, store));
        players
            .flat_map(|(at, player)| {
                let both = [Settings::Best, Settings::Default];
                both.into_iter().take(if player.has_one_setting() { 1 } else { 2 }).map(move |settings| (at, settings))
            })
            .collect()
    }

    /// The same in the order of a round: forwards and backwards by turns, so that nobody is always first.
    pub fn round<T: Copy>(entries: &[T], round: usize) -> Vec<(usize, T)> {
        let mut order: Vec<(usize, T)> = entries.iter().copied().enumerate().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        order
    }

    /// The same of a peer that may not manage it: then that is noted, and it does not play again. What goes wrong on our
    /// own sides ends everything.
    pub async fn try_play(
        &self, (player, settings): (usize, Settings), store: Store, request: Value, failed: &mut Failed,
    ) -> Outcome<Option<Played>> {
        if failed.has(player, settings) {
            return Ok(None);
        }
        match self.play(player, settings, store, request).await {
            Err(error) if self.players[player].is_peer() => {
                eprintln!("{error}");
                failed.note(player, settings);
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// One run on an empty database.
    pub async fn play(&self, player: usize, settings: Settings, store: Store, request: Value) -> Outcome<Played> {
        let player = &self.players[player];
        eprintln!("{} ({}): {}", player.name, settings.word(), request["scenario"].as_str().unwrap_or_default());
        match store {
            Store::Postgres => {
                let database = Database::empty_on(&self.server).await;
                self.play_on(player, settings, &database.url(), request, Some(&database)).await
            }
            Store::Sqlite => {
                let folder = tempfile::tempdir_in(self.folder.path())?;
                let url = sqlite_url(folder.path());
                self.play_on(player, settings, &url, request, None).await
            }
        }
    }

    async fn play_on(
        &self, player: &Player, settings: Settings, url: &str, mut request: Value, database: Option<&Database>,
    ) -> Outcome<Played> {
        request["url"] = json!(url);
        request["settings"] = json!(settings.word());
        if request["scenario"] == "sustained"
            && let Some(window) = player.window(settings)
        {
            request["window"] = json!(window);
        }
        if let Some(who) = player.who {
            request["who"] = json!(who);
        }
        let failed = |error| format!("{} ({}), {request}: {error}", player.name, settings.word());
        let mut running = player.contestant.start(&request, PATIENCE).map_err(failed)?;
        running.ready().await.map_err(failed)?;
        self.admin.batch_execute("CHECKPOINT").await?;
        let before = self.costs(database).await?;
        running.go().await?;
        let done = running.done().await.map_err(failed)?;
        let after = self.costs(database).await?;
        let memory = running.peak_memory_kb().and_then(|kilobytes| u32::try_from(kilobytes).ok()).unwrap_or_default();
        Ok(Played {
            done,
            wal_bytes: after[0] - before[0],
            commits: after[1] - before[1],
            dead_rows: after[2] - before[2],
            memory_mb: f64::from(memory) / 1024.0,
        })
    }

    /// Bytes of the log, transactions, and rows that died; of a file nothing is known.
    async fn costs(&self, database: Option<&Database>) -> Outcome<[f64; 3]> {
        let Some(database) = database else { return Ok([0.0; 3]) };
        let looks = database.connect().await;
        let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8,
                   (SELECT xact_commit::float8 FROM pg_stat_database WHERE datname = current_database()),
                   (SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_user_tables)";
        let row = looks.query_one(sql, &[]).await?;
        Ok([row.get(0), row.get(1), row.get(2)])
    }
}

/// Who did not manage a scenario.
#[derive(Debug, Default)]
pub struct Failed(Vec<(usize, Settings)>);

impl Failed {
    fn has(&self, player: usize, settings: Settings) -> bool {
        self.0.contains(&(player, settings))
    }

    fn note(&mut self, player: usize, settings: Settings) {
        self.0.push((player, settings));
    }

    /// What the sheet says of them.
    pub fn words(&self, arena: &Arena) -> Option<String> {
        let names = self.0.iter().map(|(at, settings)| format!("{} ({})", arena.players[*at].title(), settings.word()));
        let names: Vec<String> = names.collect();
        let minutes = PATIENCE.as_secs() / 60;
        (!names.is_empty()).then(|| {
            format!("Without a figure, because it failed or took more than {minutes} minutes: {}.", names.join(", "))
        })
    }
}

fn sqlite_url(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("contest.db").display())
}

/// Our own contestants are beside this program.
fn own_program() -> Outcome<std::path::PathBuf> {
    let program = std::env::current_exe()?.with_file_name("punctual-contestant");
    if program.exists() {
        Ok(program)
    } else {
        Err(format!("there is no {}: run this by `cargo xtask bench`", program.display()).into())
    }
}

/// A whole number out of an answer.
pub fn count(answer: &Value, key: &str) -> Outcome<usize> {
    let number = answer[key].as_u64().ok_or_else(|| format!("`{key}` is missing in {answer}"))?;
    Ok(usize::try_from(number)?)
}

/// A number out of an answer.
pub fn figure(answer: &Value, key: &str) -> Outcome<f64> {
    Ok(answer[key].as_f64().ok_or_else(|| format!("`{key}` is missing in {answer}"))?)
}

/// Times out of an answer, sorted.
pub fn times(answer: &Value) -> Outcome<Vec<f64>> {
    let list = answer["ms"].as_array().ok_or_else(|| format!("`ms` is missing in {answer}"))?;
    let mut times: Vec<f64> = list.iter().filter_map(Value::as_f64).collect();
    times.sort_by(f64::total_cmp);
    if times.is_empty() { Err("no time was measured".into()) } else { Ok(times) }
}

/// The time that a share of the sorted ones does not exceed.
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Who they are, with which settings.
pub fn who_plays(arena: &Arena, entries: &[(usize, Settings)]) -> Table {
    let mut table = Table::new("Who played, and how:", ["who", "default", "best documented", "keeps a record"]);
    let mut seen = Vec::new();
    for (at, _) in entries {
        let player = &arena.players[*at];
        if seen.contains(at) {
            continue;
        }
        seen.push(*at);
        let words = |settings| Cell::words(player.words(settings));
        table.row([
            Cell::words(player.title()),
            words(Settings::Default),
            words(Settings::Best),
            Cell::words(player.keeps()),
        ]);
    }
    table
}
