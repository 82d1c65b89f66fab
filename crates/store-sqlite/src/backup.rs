//! A copy of a store's file as it stood at one instant, made while others write to it, and a copy put back in place.

use crate::checks::look_through;
use crate::error::{is_busy, store_error};
use crate::freeze::read_frozen;
use crate::migrate::{newest_known, refuse_too_new};
use crate::tx::Tx;
use crate::{connect, reading_connection};
use jiff::Timestamp;
use punctual_core::checks::{Finding, Severity};
use punctual_core::id::{IdSource, JobId};
use punctual_core::invalid::Invalid;
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many pages are copied before the progress is told again.
const PAGES_A_STEP: i32 = 1024;

/// How long those who have the file open are waited for before it is called in use.
const IN_USE_AFTER: Duration = Duration::from_secs(2);

/// The migration since which a store can be frozen.
const FREEZES_SINCE: i64 = 18;

/// How many subjects of each finding are told.
const SUBJECTS: usize = 10;

/// What a copy holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copied {
    /// How large it is.
    pub bytes: u64,
    /// The number of its newest migration.
    pub schema: i64,
    /// Schedules that are not deleted.
    pub schedules: u64,
    /// Jobs that wait for their time or for a node.
    pub waiting: u64,
    /// Jobs that were running when the copy was made.
    pub running: u64,
    /// Runs that have ended.
    pub runs: u64,
    /// When its newest job was made.
    pub newest_job_at: Option<Timestamp>,
    /// Why nothing may be done in it, if it was copied while it was moved, or after that.
    pub frozen: Option<String>,
    /// What is wrong with it. `None` when its schema is another than this program's, so that only the file itself could
    /// be looked through.
    pub findings: Option<Vec<Finding>>,
}

/// A store that was put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// What it holds.
    pub copied: Copied,
    /// Where the store is now that was there before.
    pub set_aside: Option<PathBuf>,
}

/// What may be in the way of a file that is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InTheWay {
    /// It is refused.
    Refuse,
    /// It is replaced; a store is set aside, not deleted.
    Replace,
}

/// How a copy is put in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HowToRestore {
    /// What becomes of a store that is there.
    pub in_the_way: InTheWay,
    /// Whether a broken copy is taken.
    pub force: bool,
    /// Whether a copy of a store that was moved forgets that.
    pub thaw: bool,
}

/// Copies a store while others write to it: everything that was acknowledged before this was called is in the copy, and
/// nothing of it is half there. Nobody waits for it. The copy takes the name only when it is whole and was looked through;
/// it is one file, without a log beside it. `progress` is told how many pages are left, of how many.
pub fn back_up(from: &Path, to: &Path, in_the_way: InTheWay, progress: impl FnMut(u64, u64)) -> StoreResult<Copied> {
    if to.exists() && in_the_way == InTheWay::Refuse {
        return Err(refused("to", "exists already", "choose another name, or replace it").into());
    }
    // A copy has no log beside it; whoever works on a store with one would lose what he writes from now on.
    if beside(to, "-wal").exists()
        || (to.exists() && std::fs::canonicalize(from).ok() == std::fs::canonicalize(to).ok())
    {
        return Err(refused("to", "is a store itself", "choose another name").into());
    }
    let source = open_store(from, reading_connection)?;
    let aside = Aside::take(to)?;
    let copied = aside.fill(&source, progress)?;
    aside.put_in_place()?;
    Ok(copied)
}

/// Puts a copy in the place of a store. What `prepare` does to the file, it does before the file has the name. Refused: a
/// copy that is none or that a newer program has written, a store that a process has open, one that is there unless it may
/// be replaced, a copy that is broken unless that is forced, and one that nothing could be done in unless it is thawed.
pub fn restore(
    from: &Path, to: &Path, how: HowToRestore, progress: impl FnMut(u64, u64),
    prepare: impl FnOnce(&Path) -> StoreResult<()>,
) -> StoreResult<Restored> {
    // What is known by another name is replaced where it is.
    let found = std::fs::canonicalize(to).ok();
    let to = found.as_deref().unwrap_or(to);
    let source = open_store(from, read_only)?;
    refuse_too_new(&source)?;
    if found.is_some() && std::fs::canonicalize(from).ok() == found {
        return Err(refused("from", "is the store itself", "name a backup").into());
    }
    if to.exists() && how.in_the_way == InTheWay::Refuse {
        return Err(refused("to", "is there already", "replace it; it is then set aside, not deleted").into());
    }
    let aside = Aside::take(to)?;
    let copied = aside.fill(&source, progress)?;
    let broken = copied.findings.iter().flatten().any(|finding| finding.check.severity() == Severity::Broken);
    if broken && !how.force {
        return Err(refused("from", "is broken", "use an earlier one, or force this one").into());
    }
    match &copied.frozen {
        Some(_) if how.thaw => aside.thaw()?,
        Some(why) => {
            let problem = format!("is a copy of a store in which nothing may be done: {why}");
            let remedy = "use the other store, or thaw the copy if that one is lost";
            return Err(refused("from", &problem, remedy).into());
        }
        None => {}
    }
    prepare(&aside.path)?;
    aside.make_one_file()?;
    let unused = to.exists().then(|| leave_alone(to)).transpose()?;
    aside.belong_like(to);
    let kept = keep(to)?;
    aside.put_in_place()?;
    drop(unused);
    Ok(Restored { copied, set_aside: kept })
}

/// A refusal of one of the two files: `from` or `to`.
fn refused(which: &str, problem: &str, remedy: &str) -> Invalid {
    Invalid::new(which, problem).remedy(remedy)
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{what} {}: {error}", path.display()))
}

fn read_only(path: &Path) -> StoreResult<Connection> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// Opens a file, and makes sure that it is a store of ours.
fn open_store(path: &Path, open: impl Fn(&Path) -> StoreResult<Connection>) -> StoreResult<Connection> {
    if !path.is_file() {
        return Err(refused("from", "is not there", "name the file of a store or of a backup").into());
    }
    let connection = open(path)?;
    match schema_of(&connection) {
        Ok(_) => Ok(connection),
        Err(error) if is_foreign(&error) => {
            Err(refused("from", "is no store of Punctual", "name the file of a store or of a backup").into())
        }
        Err(error) => Err(store_error(error)),
    }
}

/// Whether a file is no database, or one without our tables.
fn is_foreign(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) || error.to_string().contains("no such table")
}

fn schema_of(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT max(number) FROM punctual_migrations", [], |row| row.get(0))
}

/// A file that becomes another one when it is whole.
struct Aside {
    path: PathBuf,
    to: PathBuf,
    /// Held for as long as it is written, so that two copies to one place do not mix.
    file: File,
    /// Whether it has taken its name.
    placed: bool,
}

impl Aside {
    fn take(to: &Path) -> StoreResult<Self> {
        let path = beside(to, ".partial");
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(false);
        // It will hold whatever the store holds; and a link would lead somewhere else.
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
        }
        let cannot = |error: std::io::Error| failed("cannot write", &path, &error);
        let file = options.open(&path).map_err(cannot)?;
        let taken = || refused("to", "is being written by another process", "wait for it, or choose another name");
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(taken().into()),
            Err(TryLockError::Error(error)) => return Err(failed("cannot lock", &path, &error)),
        }
        // Whoever had the lock may have given the file its name meanwhile: it is whole, and not ours.
        if !is_at(&file, &path) {
            return Err(taken().into());
        }
        // What one that was killed left behind.
        file.set_len(0).map_err(cannot)?;
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).map_err(cannot)?;
        remove_log(&path);
        Ok(Self { path, to: to.to_owned(), file, placed: false })
    }

    /// Copies everything as of one instant, and looks through the copy.
    fn fill(&self, source: &Connection, mut progress: impl FnMut(u64, u64)) -> StoreResult<Copied> {
        // The snapshot stands from the first read until the last page: whatever is written meanwhile is not in it.
        source.execute_batch("BEGIN").map_err(store_error)?;
        schema_of(source).map_err(store_error)?;
        let now = Timestamp::now();
        let mut copy = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        {
            let backup = Backup::new(source, &mut copy).map_err(store_error)?;
            loop {
                let step = backup.step(PAGES_A_STEP).map_err(store_error)?;
                let told = backup.progress();
                let [left, all] = [told.remaining, told.pagecount].map(|pages| u64::try_from(pages).unwrap_or(0));
                progress(left, all);
                match step {
                    StepResult::Done => break,
                    StepResult::More => {}
                    // Somebody has the source for himself; he will be done with it.
                    _ => std::thread::sleep(Duration::from_millis(20)),
                }
            }
        }
        source.execute_batch("COMMIT").map_err(store_error)?;
        drop(copy);
        let copy = self.make_one_file()?;
        self.describe(&copy, now)
    }

    /// One file, which can be copied and put away as one.
    fn make_one_file(&self) -> StoreResult<Connection> {
        let copy = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        let mode: String =
            copy.pragma_update_and_check(None, "journal_mode", "delete", |row| row.get(0)).map_err(store_error)?;
        match mode.as_str() {
            "delete" => Ok(copy),
            _ => Err(StoreError::Internal(format!("the copy's journal mode is {mode}"))),
        }
    }

    /// Lets the copy forget that it was moved.
    fn thaw(&self) -> StoreResult<()> {
        let copy = self.make_one_file()?;
        let mut ids = IdSource::from_random(0);
        copy.execute_batch("BEGIN").map_err(store_error)?;
        Tx::new(&copy, &mut ids, Timestamp::now()).thaw()?;
        copy.execute_batch("DELETE FROM punctual_moves; DELETE FROM punctual_move_progress; COMMIT")
            .map_err(store_error)
    }

    /// Belongs to whom the store belongs that it replaces, or else the folder: somebody who may do everything must not
    /// take a store away from the service that works on it.
    #[cfg(unix)]
    fn belong_like(&self, to: &Path) {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
        let replaced = std::fs::metadata(to).ok();
        let mode = replaced.as_ref().map_or(0o600, |file| file.mode() & 0o777);
        let Some(like) = replaced.or_else(|| std::fs::metadata(folder_of(to)).ok()) else { return };
        // Whoever may not give it away has made it, and is right to have it.
        let _not_ours_to_give = fchown(&self.file, Some(like.uid()), Some(like.gid()));
        let _not_ours_to_change = self.file.set_permissions(PermissionsExt::from_mode(mode));
    }

    #[cfg(not(unix))]
    fn belong_like(&self, _: &Path) {}

    fn describe(&self, copy: &Connection, now: Timestamp) -> StoreResult<Copied> {
        let count = |table: &str| -> StoreResult<u64> {
            let sql = format!("SELECT count(*) FROM {table}");
            let rows: i64 = copy.query_row(&sql, [], |row| row.get(0)).map_err(store_error)?;
            Ok(u64::try_from(rows).unwrap_or(0))
        };
        let schema = schema_of(copy).map_err(store_error)?;
        let newest: Option<[u8; 16]> =
            copy.query_row("SELECT max(id) FROM punctual_jobs", [], |row| row.get(0)).map_err(store_error)?;
        let bytes = std::fs::metadata(&self.path).map_err(|error| failed("cannot read", &self.path, &error))?.len();
        let findings = if schema == newest_known() {
            Some(look_through(copy, now, SUBJECTS)?)
        } else {
            let damage = crate::checks::damage(copy, SUBJECTS)?;
            (!damage.is_empty()).then(|| Finding::group(damage, SUBJECTS))
        };
        Ok(Copied {
            bytes,
            schema,
            schedules: count("punctual_schedules WHERE deleted_at IS NULL")?,
            waiting: count("punctual_queue")? + count("punctual_delayed")?,
            running: count("punctual_running WHERE node_id IS NOT NULL")?,
            runs: count("punctual_runs")?,
            newest_job_at: newest.map(|id| JobId::from_bytes(id).made_at()),
            frozen: frozen_of(copy, schema)?,
            findings,
        })
    }

    fn put_in_place(mut self) -> StoreResult<()> {
        std::fs::rename(&self.path, &self.to).map_err(|error| failed("cannot write", &self.to, &error))?;
        self.placed = true;
        sync_folder(&self.to);
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // The name may be another process's by now.
        if !self.placed {
            let _gone_already = std::fs::remove_file(&self.path);
            remove_log(&self.path);
        }
    }
}

/// Whether an open file is the one that has this name.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let inode = |data: std::fs::Metadata| (data.dev(), data.ino());
        let same = file.metadata().map(inode).ok().zip(std::fs::symlink_metadata(path).map(inode).ok());
        same.is_some_and(|(open, named)| open == named)
    }
    #[cfg(not(unix))]
    {
        let _one_name_for_one_file = (file, path);
        true
    }
}

/// The reason why a copy is frozen; older schemas know of no such thing.
fn frozen_of(copy: &Connection, schema: i64) -> StoreResult<Option<String>> {
    if schema < FREEZES_SINCE {
        return Ok(None);
    }
    Ok(read_frozen(copy)?.map(|freeze| freeze.why))
}

/// Makes sure that nobody has a store open, and that nobody opens it before the answer is dropped.
///
/// Leaving WAL needs the file for oneself, which is what tells. A file that cannot be read as a database can be in use by
/// nobody who would not fail at once.
fn leave_alone(path: &Path) -> StoreResult<Option<Connection>> {
    let in_use = || {
        StoreError::Unavailable(format!(
            "a process has {} open; stop every server, worker and program on it",
            path.display()
        ))
    };
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(IN_USE_AFTER).map_err(store_error)?;
    match connection.pragma_update_and_check(None, "journal_mode", "delete", |row| row.get::<_, String>(0)) {
        Ok(mode) if mode == "delete" => {}
        Ok(_) => return Err(in_use()),
        Err(error) if is_busy(&error) => return Err(in_use()),
        Err(_) => return Ok(None),
    }
    match connection.execute_batch("BEGIN EXCLUSIVE") {
        Ok(()) => Ok(Some(connection)),
        Err(error) if is_busy(&error) => Err(in_use()),
        Err(_) => Ok(None),
    }
}

/// Gives the store that is there a second name, so that at no instant there is none; what lies beside it goes along,
/// because a log without its store would be taken for one of the new store.
fn keep(path: &Path) -> StoreResult<Option<PathBuf>> {
    let now = Timestamp::now().strftime("%Y%m%dT%H%M%S%3fZ");
    let kept = beside(path, &format!(".before-restore-{now}"));
    let cannot = |error: std::io::Error| failed("cannot set aside", path, &error);
    let missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    match std::fs::hard_link(path, &kept) {
        Ok(()) => {}
        Err(error) if missing(&error) => {}
        // Some file systems have no second names.
        Err(_) => std::fs::copy(path, &kept).map(drop).map_err(cannot)?,
    }
    for end in ["-wal", "-shm", "-journal"] {
        match std::fs::rename(beside(path, end), beside(&kept, end)) {
            Ok(()) => {}
            Err(error) if missing(&error) => {}
            Err(error) => return Err(cannot(error)),
        }
    }
    Ok(kept.exists().then_some(kept))
}

fn remove_log(path: &Path) {
    for end in ["-wal", "-shm", "-journal"] {
        // Mostly there is none.
        let _not_there = std::fs::remove_file(beside(path, end));
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A name is durable when its folder is.
fn sync_folder(path: &Path) {
    // Not every system lets a folder be opened; the file itself is flushed already.
    let _no_folder = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
}

/// Whether two files are a store and a copy of it, or copies of one store: whether they were made at the same instant.
pub fn is_of_one_store(one: &Path, other: &Path) -> bool {
    let made = |path: &Path| -> Option<i64> {
        let connection = read_only(path).ok()?;
        connection.query_row("SELECT applied_at FROM punctual_migrations WHERE number = 1", [], |row| row.get(0)).ok()
    };
    made(one).is_some_and(|at| made(other) == Some(at))
}
