//! `punctual backup` and `punctual restore`: a copy of an SQLite store under load, and one put back.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use jiff::Timestamp;
use punctual_core::checks::{Finding, Severity};
use punctual_core::invalid::Invalid;
use punctual_core::store::{Store, StoreError, StoreResult};
use punctual_store_sqlite::backup::{self, Copied, HowToRestore, InTheWay, Restored};
use serde::Serialize;

use super::data::DataFolder;
use super::log::LogFormat;
use super::worker::{runtime, without_password};
use super::{Exit, Output, Stop};

const BACKUP_EXAMPLES: &str = "Examples:\n  \
    punctual backup\n  \
    punctual backup -o before-upgrade.db\n  \
    punctual schedule add backup --cron '0 4 * * *' -- punctual backup -o /backups --keep 14\n\n\
    A store in PostgreSQL is copied by its own tools: pg_dump, see docs/backup.md.";

const RESTORE_EXAMPLES: &str = "Examples:\n  \
    punctual restore punctual-20261116T040000Z.db --data /tmp/look-at-it\n  \
    punctual restore punctual-20261116T040000Z.db --replace --paused\n\n\
    What ended after the backup was made is not in it: it waits again, and runs again. --paused gives you time to look.";

/// How many things are read at once.
const PAGE: usize = 500;

/// Copy an SQLite store while it is at work, and look through the copy
///
/// Everything that was acknowledged before is in the copy, nobody waits for it, and it is one file. It ends with 1 when
/// the copy is broken, which then keeps its name all the same.
#[derive(Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    place: Place,
    /// The file to write, or a folder for one that is named after the time [default: the folder you are in]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long)]
    replace: bool,
    /// Remove all but the newest so many of this store's copies in the folder that are named after the time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Put a copy that `punctual backup` made in the place of a store that nobody has open
///
/// The copy is looked through first. A store that is there is set aside, not deleted.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct RestoreArgs {
    /// The copy
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    place: Place,
    /// Set a store that is there aside
    #[arg(long)]
    replace: bool,
    /// Use the copy although it is broken
    #[arg(long)]
    force: bool,
    /// Let it be used although it was copied while its store was moved, or after that: when the other store is lost
    #[arg(long)]
    thaw: bool,
    /// Pause every schedule and every queue of it, so that nothing runs before you have looked
    #[arg(long)]
    paused: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which store.
#[derive(Args)]
struct Place {
    /// The folder of the store, when no database is named [default: the user's state folder]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA")]
    data: Option<PathBuf>,
    /// The store: sqlite:PATH [default: sqlite:DIR/punctual.db]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_DATABASE", hide_env_values = true)]
    database: Option<String>,
}

impl Place {
    /// The file of the store, and the folder that it is in unless it was named itself.
    fn file(&self, verb: &str) -> Result<(PathBuf, Option<DataFolder>), Stop> {
        let (url, folder) = if let Some(url) = &self.database {
            (url.clone(), None)
        } else {
            let folder = DataFolder::open(self.data.as_deref())?;
            (folder.database_url(), Some(folder))
        };
        match url.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() => Ok((PathBuf::from(path), folder)),
            _ if url.starts_with("postgres") => Err(Stop::usage(elsewhere(verb, &without_password(&url)))),
            _ => Err(Stop::usage(format!("--database {} is no SQLite store; use sqlite:PATH", without_password(&url)))),
        }
    }
}

/// What those do whose store is in PostgreSQL.
fn elsewhere(verb: &str, url: &str) -> String {
    let command = match verb {
        "backup" => format!("pg_dump --format=custom --no-owner --no-privileges --file=punctual.dump '{url}'"),
        _ => format!("pg_restore --single-transaction --no-owner --no-privileges --dbname='{url}' punctual.dump"),
    };
    format!("a store in PostgreSQL has its own tools: {command}; docs/backup.md says more")
}

#[derive(Serialize)]
struct BackupDone<'a> {
    database: String,
    file: &'a Path,
    taken_at: Timestamp,
    #[serde(flatten)]
    copied: &'a Copied,
    removed: &'a [PathBuf],
}

#[derive(Serialize)]
struct RestoreDone<'a> {
    database: String,
    #[serde(flatten)]
    copied: &'a Copied,
    set_aside: Option<&'a Path>,
    paused: Option<Paused>,
}

#[derive(Serialize, Default, Clone, Copy)]
struct Paused {
    schedules: usize,
    queues: usize,
}

impl BackupArgs {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        let (store, _) = self.place.file("backup")?;
        let taken_at = Timestamp::now();
        let output = self.output.clone().unwrap_or_else(|| PathBuf::from("."));
        let (folder, file) = if output.is_dir() {
            (Some(output.clone()), output.join(taken_at.strftime("punctual-%Y%m%dT%H%M%SZ.db").to_string()))
        } else {
            (None, output)
        };
        if self.keep.is_some() && folder.is_none() {
            return Err(Stop::usage("--keep is about the copies in a folder; name the folder with --output DIR"));
        }
        let in_the_way = if self.replace { InTheWay::Replace } else { InTheWay::Refuse };
        let copied = backup::back_up(&store, &file, in_the_way, progress("copying"))
            .map_err(|error| about(error, &store, &file))?;
        let broken = worst(&copied) == Some(Severity::Broken);
        // A broken copy is no reason to give up a good one.
        let removed = match (&folder, self.keep) {
            (Some(folder), Some(keep)) if !broken => remove_older(folder, &file, keep)?,
            _ => Vec::new(),
        };
        let database = format!("sqlite:{}", store.display());
        if self.json {
            let done = BackupDone { database, file: &file, taken_at, copied: &copied, removed: &removed };
            writeln!(out, "{}", serde_json::to_string(&done).map_err(std::io::Error::from)?)?;
        } else {
            writeln!(out, "{database} is copied to {}", file.display())?;
            tell(out, &copied)?;
            for old in &removed {
                writeln!(out, "  removed {}", old.display())?;
            }
        }
        if broken { Err(Stop::Exited(Exit::Failure as u8)) } else { Ok(()) }
    }
}

impl RestoreArgs {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        let (store, folder) = self.place.file("restore")?;
        // No server begins on the folder meanwhile.
        let _held = folder.as_ref().map(DataFolder::hold).transpose()?;
        let how = HowToRestore {
            in_the_way: if self.replace { InTheWay::Replace } else { InTheWay::Refuse },
            force: self.force,
            thaw: self.thaw,
        };
        let runtime = runtime(LogFormat::Text)?;
        let mut paused = None;
        let prepare = |file: &Path| {
            if self.paused {
                paused = Some(runtime.block_on(pause_all(file, &self.file))?);
            }
            Ok(())
        };
        let Restored { copied, set_aside } = backup::restore(&self.file, &store, how, progress("restoring"), prepare)
            .map_err(|error| about(error, &self.file, &store))?;
        let database = format!("sqlite:{}", store.display());
        if self.json {
            let done = RestoreDone { database, copied: &copied, set_aside: set_aside.as_deref(), paused };
            return Ok(writeln!(out, "{}", serde_json::to_string(&done).map_err(std::io::Error::from)?)?);
        }
        writeln!(out, "{database} is what {} holds", self.file.display())?;
        tell(out, &copied)?;
        if let Some(old) = set_aside {
            writeln!(out, "  the store that was there is {} now", old.display())?;
        }
        if let Some(Paused { schedules, queues }) = paused {
            writeln!(
                out,
                "  paused: {schedules} schedules, {queues} queues; `punctual schedule resume`, `punctual queue resume`"
            )?;
        } else {
            writeln!(out, "  what ended after the copy was made waits in it again, and runs when a server starts")?;
        }
        Ok(())
    }
}

/// Says which of the two files is meant.
fn about(error: StoreError, from: &Path, to: &Path) -> Stop {
    let StoreError::Invalid(Invalid { field, problem, remedy }) = error else { return error.into() };
    let path = if field == "to" { to } else { from };
    let remedy = remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
    Stop::usage(format!("{} {problem}{remedy}", path.display()))
}

/// How far it is, for somebody who looks at a terminal.
fn progress(verb: &'static str) -> impl FnMut(u64, u64) {
    let watched = std::io::stderr().is_terminal();
    move |left, all| {
        if watched && all > 0 {
            let end = if left == 0 { "\r\x1b[K" } else { "" };
            // Nobody to tell is no reason to stop.
            let _unseen = write!(std::io::stderr(), "\r{verb}: {} %{end}", (all - left) * 100 / all);
        }
    }
}

fn worst(copied: &Copied) -> Option<Severity> {
    copied.findings.iter().flatten().map(|finding| finding.check.severity()).max()
}

fn tell(out: &mut Output, copied: &Copied) -> Result<(), Stop> {
    let Copied { bytes, schema, schedules, waiting, running, runs, newest_job_at, frozen, findings } = copied;
    let newest = newest_job_at.map(|at| format!("; its newest job was made at {at:.0}")).unwrap_or_default();
    writeln!(
        out,
        "  {}, schema {schema}: {schedules} schedules, {waiting} jobs waiting, {running} running, {runs} runs{newest}",
        size(*bytes)
    )?;
    if let Some(why) = frozen {
        writeln!(out, "  nothing could be done in the store that was copied: {why}")?;
    }
    match findings.as_deref() {
        None => writeln!(
            out,
            "  its schema is another than this program's: only the file itself was looked through, and is sound"
        )?,
        Some([]) => writeln!(out, "  nothing is wrong with it")?,
        Some(findings) => {
            for Finding { check, subjects, more } in findings {
                let rest = if *more { ", …" } else { "" };
                writeln!(out, "  {}: {}{rest}", check.meaning(), subjects.join(", "))?;
            }
        }
    }
    Ok(())
}

fn size(bytes: u64) -> String {
    let mut unit = ("bytes", 1_u64);
    for larger in [("kB", 1000), ("MB", 1_000_000), ("GB", 1_000_000_000)] {
        if bytes >= larger.1 {
            unit = larger;
        }
    }
    let tenths = bytes.saturating_mul(10) / unit.1;
    if unit.1 == 1 { format!("{bytes} bytes") } else { format!("{}.{} {}", tenths / 10, tenths % 10, unit.0) }
}

/// Removes all but the newest copies of one store; their names are in order of time. The one just made stays, whatever
/// the clock says.
fn remove_older(folder: &Path, made: &Path, keep: u32) -> Result<Vec<PathBuf>, Stop> {
    let mut copies: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let ours = path.file_name().and_then(|name| name.to_str()).is_some_and(is_named_after_time);
        if ours && path.file_name() != made.file_name() && backup::is_of_one_store(&path, made) {
            copies.push(path);
        }
    }
    copies.sort();
    let old = (copies.len() + 1).saturating_sub(keep as usize);
    copies.truncate(old);
    for path in &copies {
        std::fs::remove_file(path)
            .map_err(|error| Stop::failure(format!("cannot remove {}: {error}", path.display())))?;
    }
    Ok(copies)
}

fn is_named_after_time(name: &str) -> bool {
    let time = name.strip_prefix("punctual-").and_then(|rest| rest.strip_suffix(".db")).unwrap_or_default();
    time.len() == 16
        && time.bytes().enumerate().all(|(n, byte)| match n {
            8 => byte == b'T',
            15 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        })
}

/// Pauses whatever would run in a store, and says in which copy it was.
async fn pause_all(store: &Path, copy: &Path) -> StoreResult<Paused> {
    let store: Arc<dyn Store> = punctual::open(&format!("sqlite:{}", store.display())).await?;
    let name = copy.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let note: String = format!("restored from {name}").chars().filter(|c| !c.is_control()).take(200).collect();
    let mut paused = Paused::default();
    let mut after: Option<String> = None;
    loop {
        let schedules = store.schedules(after.as_deref(), PAGE).await?;
        for schedule in schedules.iter().filter(|schedule| schedule.state.enabled) {
            store.pause_schedule(schedule.id, Some("restore".to_owned()), Some(note.clone())).await?;
            paused.schedules += 1;
        }
        match schedules.last() {
            Some(last) if schedules.len() == PAGE => after = Some(last.definition.name.to_string()),
            _ => break,
        }
    }
    let mut after: Option<String> = None;
    loop {
        let queues = store.queues(after.as_deref(), PAGE).await?;
        for queue in queues.iter().filter(|queue| !queue.paused) {
            store.set_queue_paused(&queue.name, true).await?;
            paused.queues += 1;
        }
        match queues.last() {
            Some(last) if queues.len() == PAGE => after = Some(last.name.clone()),
            _ => break,
        }
    }
    Ok(paused)
}
