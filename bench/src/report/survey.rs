//! Looks at the machine while something is measured, and reads the durability from the very database it is measured on.

use super::machine::{Engine, FILE_SYSTEM, Machine};
use super::number::rounded;
use crate::load::{Outcome, per_second};
use punctual_store_sqlite::SqliteStore;
use punctual_testkit::postgres::PrivateServer;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tokio_postgres::{Client, NoTls};

/// What a server must have on, or nothing that it did counts.
const MUST_BE_ON: [&str; 3] = ["fsync", "full_page_writes", "synchronous_commit"];
/// What else is worth telling.
const TOLD: [&str; 2] = ["shared_buffers", "wal_sync_method"];
/// Rows that are committed one by one, to see how fast the disk is.
const COMMITS: usize = 200;
/// What the databases are called.
const POSTGRES: &str = "PostgreSQL";
const SQLITE: &str = "SQLite";

/// A look at the machine that goes on until the sheet is kept.
pub struct Survey {
    databases: Vec<Engine>,
    commits_per_second: BTreeMap<String, f64>,
    commit: Option<String>,
    /// Processes that count as ours together with all that they start: this one, and servers.
    roots: BTreeSet<u32>,
    at_begin: Ticks,
}

/// Processor time in hundredths of a second.
#[derive(Clone, Copy)]
struct Ticks {
    /// All there was, used or not.
    all: f64,
    used: f64,
    ours: f64,
}

impl Survey {
    /// Begins: to be called before anything is started that is measured.
    pub fn begin() -> Outcome<Self> {
        let roots = BTreeSet::from([std::process::id()]);
        let at_begin = Ticks::now(&roots)?;
        let commit = commit(&super::files::folder());
        Ok(Self { databases: Vec::new(), commits_per_second: BTreeMap::new(), commit, roots, at_begin })
    }

    /// Reads version and durability of a server that the benchmark has started; refuses one that may lose what it has
    /// promised. The server must still be there when the sheet is kept, or its work counts as that of others.
    pub async fn postgres(&mut self, server: &PrivateServer, client: &Client) -> Outcome<()> {
        let show = async |setting: &str| -> Outcome<String> {
            Ok(client.query_one(&format!("SHOW {setting}"), &[]).await?.get(0))
        };
        let mut settings = BTreeMap::new();
        for setting in MUST_BE_ON {
            let value = show(setting).await?;
            if value != "on" {
                return Err(format!("the server is not durable: {setting} is {value}; turn it on").into());
            }
            settings.insert(setting.to_owned(), value);
        }
        for setting in TOLD {
            settings.insert(setting.to_owned(), show(setting).await?);
        }
        let version = show("server_version").await?;
        // Packagers write their own name behind it.
        let version = version.split(' ').next().unwrap_or_default().to_owned();
        let data = server.folder().join("data");
        settings.extend(file_system_of(&data)?);
        self.know(Engine { name: POSTGRES.to_owned(), version, settings });
        if !self.commits_per_second.contains_key(POSTGRES) {
            self.commits_per_second.insert(POSTGRES.to_owned(), rounded(postgres_commits(server).await?));
        }
        let pid = fs::read_to_string(data.join("postmaster.pid"))?;
        self.roots.insert(pid.lines().next().unwrap_or_default().trim().parse()?);
        Ok(())
    }

    /// The same of SQLite.
    pub async fn sqlite(&mut self, store: &SqliteStore) -> Outcome<()> {
        let durability = store.durability().await?;
        if durability.synchronous != 2 || durability.journal_mode != "wal" {
            return Err(format!("not durable: {durability:?}; WAL and synchronous=FULL are needed").into());
        }
        let settings = [("journal_mode", "wal"), ("synchronous", "full")];
        let mut settings: BTreeMap<String, String> =
            settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        // All sections have their files in temporary folders.
        settings.extend(file_system_of(&std::env::temp_dir())?);
        self.know(Engine { name: SQLITE.to_owned(), version: rusqlite::version().to_owned(), settings });
        if !self.commits_per_second.contains_key(SQLITE) {
            self.commits_per_second.insert(SQLITE.to_owned(), rounded(sqlite_commits()?));
        }
        Ok(())
    }

    fn know(&mut self, engine: Engine) {
        if !self.databases.contains(&engine) {
            self.databases.push(engine);
        }
    }

    /// Ends: what the machine is, and how much of it others used.
    pub fn end(self) -> Outcome<Machine> {
        let now = Ticks::now(&self.roots)?;
        let before = self.at_begin;
        let others = (now.used - before.used) - (now.ours - before.ours);
        let processor = line("/proc/cpuinfo", "model name")?.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let memory_kb = line("/proc/meminfo", "MemTotal")?.ok_or("/proc/meminfo has no MemTotal")?;
        let memory_kb: f64 = memory_kb.trim_end_matches("kB").trim().parse()?;
        Ok(Machine {
            cores: u32::try_from(std::thread::available_parallelism()?.get())?,
            processor,
            memory_gb: (memory_kb / 1024.0 / 1024.0 * 10.0).round() / 10.0,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            databases: self.databases,
            others_percent: percent(others, now.all - before.all),
            commit: self.commit,
            commits_per_second: self.commits_per_second,
        })
    }
}

/// Single rows that a server commits in a second, in a database that nobody measures in.
async fn postgres_commits(server: &PrivateServer) -> Outcome<f64> {
    let (client, connection) = tokio_postgres::connect(&server.url("postgres"), NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE single_commits (n integer)").await?;
    let insert = client.prepare("INSERT INTO single_commits VALUES (1)").await?;
    let began = Instant::now();
    for _ in 0..COMMITS {
        client.execute(&insert, &[]).await?;
    }
    let rate = per_second(COMMITS, began);
    client.batch_execute("DROP TABLE single_commits").await?;
    Ok(rate)
}

/// The same for a file of its own.
fn sqlite_commits() -> Outcome<f64> {
    let folder = tempfile::tempdir()?;
    let file = rusqlite::Connection::open(folder.path().join("commits.db"))?;
    file.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE single_commits (n integer)",
    )?;
    let mut insert = file.prepare("INSERT INTO single_commits VALUES (1)")?;
    let began = Instant::now();
    for _ in 0..COMMITS {
        insert.execute([])?;
    }
    Ok(per_second(COMMITS, began))
}

/// The commit that a checkout is at, with `+` if it was changed since, other than by saving results; nothing without git.
fn commit(folder: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let all_but_results = [":/", ":(exclude)results", ":(exclude)plots", ":(exclude)RESULTS.md"];
    let changed = git(&[&["status", "--porcelain", "--"], all_but_results.as_slice()].concat())?;
    Some(if changed.is_empty() { commit } else { format!("{commit}+") })
}

/// The kind of file system of a folder, as one of a database's settings.
fn file_system_of(folder: &Path) -> Outcome<Option<(String, String)>> {
    let kind = file_system(&fs::read_to_string("/proc/self/mounts")?, &folder.canonicalize()?);
    Ok(kind.map(|kind| (FILE_SYSTEM.to_owned(), kind)))
}

/// The same, by a list of what is mounted where: what was mounted last on the longest part of the path.
pub fn file_system(mounts: &str, path: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((Path::new(words.next()?), words.next()?))
    });
    let above = mounts.filter(|(place, _)| path.starts_with(place));
    above.max_by_key(|(place, _)| place.components().count()).map(|(_, kind)| kind.to_owned())
}

/// A share in percent with one digit; small sums of rounded ticks may come out below nothing.
pub fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole * 1000.0).round().clamp(0.0, 1000.0) / 10.0 } else { 0.0 }
}

/// The value behind a name, in files of the form `name : value`.
fn line(path: &str, name: &str) -> Outcome<Option<String>> {
    let text = fs::read_to_string(path)?;
    let mut values = text.lines().filter_map(|line| line.split_once(':'));
    Ok(values.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned()))
}

impl Ticks {
    fn now(roots: &BTreeSet<u32>) -> Outcome<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let (all, used) = whole_machine(&stat).ok_or("/proc/stat has no line for all processors")?;
        Ok(Self { all, used, ours: of_trees(roots, &processes()) })
    }
}

/// All ticks, and those in which something ran, here or on another machine that shares the processors.
pub fn whole_machine(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; what follows is counted in these already.
    let ticks: Vec<f64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let all: f64 = ticks.iter().sum();
    Some((all, all - ticks.get(3)? - ticks.get(4)?))
}

/// A process: who started it, and what it and its children that have ended used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Process {
    pub id: u32,
    pub parent: u32,
    pub ticks: f64,
}

fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // One that has ended meanwhile is counted by its parent.
    ids.filter_map(|id| process(id, &fs::read_to_string(format!("/proc/{id}/stat")).ok()?)).collect()
}

/// Reads one `/proc/PID/stat`.
pub fn process(id: u32, stat: &str) -> Option<Process> {
    // Behind the name, which may hold anything, and its bracket.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|word| word.parse::<f64>().ok()).sum();
    Some(Process { id, parent: fields.get(1)?.parse().ok()?, ticks })
}

/// What some processes and all that they started used.
pub fn of_trees(roots: &BTreeSet<u32>, all: &[Process]) -> f64 {
    let mut known = roots.clone();
    // As many rounds as there are generations.
    loop {
        let before = known.len();
        known.extend(
            all.iter().filter(|process| known.contains(&process.parent)).map(|process| process.id).collect::<Vec<_>>(),
        );
        if known.len() == before {
            break;
        }
    }
    all.iter().filter(|process| known.contains(&process.id)).map(|process| process.ticks).sum()
}
