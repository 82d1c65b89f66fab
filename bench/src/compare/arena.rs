//! Where everybody plays: one durable server, an empty database for each run, and what the run cost the database.

use super::Extent;
use super::answers::check_durable;
use super::failed::{Failed, reason};
use super::player::{Player, Settings, Store};
use super::scenario::Scenario;
use crate::load::Outcome;
use crate::peers::{Language, Places, install, named};
use crate::report::{self, Sheet, Survey};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio_postgres::Client;

/// The server and the players.
pub struct Arena {
    survey: Survey,
    pub players: Vec<Player>,
    pub extent: Extent,
    /// Peers that were to play and cannot, with the reason.
    absent: Vec<String>,
    server: PrivateServer,
    admin: Client,
    folder: TempDir,
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

impl Arena {
    /// Starts the server, and brings everybody there.
    pub async fn open(extent: Extent) -> Outcome<Self> {
        let mut survey = Survey::begin()?;
        let own = own_program()?;
        let mut players = Vec::new();
        for who in ["raw", "raw-large", "bare", "punctual"] {
            players.push(Player::of_ours(&own, who).await?);
        }
        players.push(Player::apart(&own).await?);
        let (peers, absent) = peers(&extent.only).await?;
        players.extend(peers);
        let server = PrivateServer::start(true);
        let (admin, connection) = tokio_postgres::connect(&server.url("postgres"), tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        // Room for a run, so that a checkpoint that one of them asks for does not fall on another.
        admin.batch_execute("ALTER SYSTEM SET max_wal_size = '4GB'").await?;
        admin.execute("SELECT pg_reload_conf()", &[]).await?;
        survey.postgres(&server, &admin).await?;
        Ok(Self { survey, players, extent, absent, server, admin, folder: tempfile::tempdir()? })
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

    /// The same with their best settings only.
    pub fn best_entries(&self, scenario: &str, store: Store) -> Vec<(usize, Settings)> {
        self.entries(scenario, store).into_iter().filter(|(_, settings)| *settings == Settings::Best).collect()
    }

    /// The same in the order of a round: forwards and backwards by turns, so that nobody is always first.
    pub fn round<T: Copy>(entries: &[T], round: usize) -> Vec<(usize, T)> {
        let mut order: Vec<(usize, T)> = entries.iter().copied().enumerate().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        order
    }

    /// A run of somebody who may not manage it, and what `read` takes from it once it has looked through its accounts. A
    /// peer that fails, or whose accounts are wrong, is noted and does not play again; what goes wrong on our own sides
    /// ends everything.
    pub async fn try_play<T>(
        &self, (player, settings): (usize, Settings), store: Store, scenario: Scenario, failed: &mut Failed,
        read: impl FnOnce(&Played) -> Outcome<T>,
    ) -> Outcome<Option<T>> {
        if failed.has(player, settings) {
            return Ok(None);
        }
        match self.play(player, settings, store, scenario).await.and_then(|played| read(&played)) {
            Ok(found) => Ok(Some(found)),
            Err(error) => {
                let who = self.players[player].label(settings);
                let told = format!("{who}, {}: {error}", scenario.request());
                if !self.players[player].is_peer() {
                    return Err(told.into());
                }
                eprintln!("{told}");
                failed.note(player, settings, &error.to_string());
                Ok(None)
            }
        }
    }

    /// One run on an empty database.
    async fn play(&self, player: usize, settings: Settings, store: Store, scenario: Scenario) -> Outcome<Played> {
        let player = &self.players[player];
        eprintln!("{}: {}", player.label(settings), scenario.name());
        match store {
            Store::Postgres => {
                let database = Database::empty_on(&self.server).await;
                self.play_on(player, settings, scenario, &database.url(), Some(&database)).await
            }
            Store::Sqlite => {
                let folder = tempfile::tempdir_in(self.folder.path())?;
                self.play_on(player, settings, scenario, &sqlite_url(folder.path()), None).await
            }
        }
    }

    async fn play_on(
        &self, player: &Player, settings: Settings, scenario: Scenario, url: &str, database: Option<&Database>,
    ) -> Outcome<Played> {
        let mut request = scenario.request();
        request["url"] = json!(url);
        player.address(&mut request, settings);
        let mut running = player.contestant.start(&request, scenario.patience())?;
        let store = if database.is_some() { Store::Postgres } else { Store::Sqlite };
        check_durable(&running.ready().await?, store, player.is_peer())?;
        self.admin.batch_execute("CHECKPOINT").await?;
        let before = self.costs(database).await?;
        running.go().await?;
        let done = running.done().await?;
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

    /// Prints a sheet, and keeps it, unless less was done than what a saved result has.
    pub fn keep(self, mut sheet: Sheet) -> Outcome<()> {
        let peers: Vec<&str> =
            self.players.iter().filter(|player| player.is_peer()).map(|player| player.name.as_str()).collect();
        let lacks = self.extent.lacks(&peers, &self.absent);
        let Some(lacks) = lacks else { return report::keep(sheet, self.survey) };
        sheet.say(lacks);
        for answer in &mut sheet.answers {
            answer.is_partly = self.extent.is_short() || answer.goal.is_against_peers();
        }
        if report::is_asked_for(report::PARTIAL) {
            return report::keep(sheet, self.survey);
        }
        report::show(sheet, self.survey, &format!("it would replace a whole result ({} saves it)", report::PARTIAL))
    }
}

/// The peers that are meant, as far as they can be installed and say what they are; and why the others do not play.
async fn peers(only: &[String]) -> Outcome<(Vec<Player>, Vec<String>)> {
    let places = Places::find()?;
    let (mut players, mut absent) = (Vec::new(), Vec::new());
    let meant = named(&places, only)?;
    let mut missing = Vec::new();
    for language in Language::ALL.into_iter().filter(|language| meant.iter().any(|peer| peer.needs(*language))) {
        if let Err(error) = install(&places, language) {
            eprintln!("{error}");
            missing.push((language, reason(&error.to_string())));
        }
    }
    // Some programs can be found only now.
    for peer in named(&places, only)? {
        let name = peer.name.clone();
        let why = match missing.iter().find(|(language, _)| peer.needs(*language)) {
            Some((_, why)) => why.clone(),
            None => match Player::peer(peer).await {
                Ok(player) => {
                    players.push(player);
                    continue;
                }
                Err(error) => {
                    eprintln!("{error}");
                    reason(&error.to_string())
                }
            },
        };
        absent.push(format!("{name} ({why})"));
    }
    Ok((players, absent))
}

fn sqlite_url(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("contest.db").display())
}

/// Our own contestants are beside this program.
fn own_program() -> Outcome<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("punctual-contestant");
    if program.exists() {
        Ok(program)
    } else {
        Err(format!("there is no {}: run this by `cargo xtask bench`", program.display()).into())
    }
}
