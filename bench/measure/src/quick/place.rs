//! Where it is measured: never in anybody's tables, and gone afterwards.

use jiff::{SignedDuration, Timestamp};
use punctual_core::store::StoreError;
use punctual_store_postgres::connect_client;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

/// What databases of a look are called, with an id behind it that begins with the time.
const DATABASE_PREFIX: &str = "punctual_bench_";
/// And folders.
const FOLDER_PREFIX: &str = ".punctual-bench-";
/// From then on something that is left is nobody's any more.
const LEFT_AFTER: SignedDuration = SignedDuration::from_hours(1);

const IS_EMPTY: &str = "SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%'
    AND n.nspname NOT LIKE 'pg\\_temp%'
    AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'e')";
const SCHEMAS: &str =
    "SELECT count(*) FROM pg_namespace WHERE nspname IN ('punctual', 'punctual_internal', 'punctual_bench')";
const EMPTY_AGAIN: &str = "DROP SCHEMA IF EXISTS punctual_internal CASCADE; DROP SCHEMA IF EXISTS punctual CASCADE;
  DROP SCHEMA IF EXISTS punctual_bench CASCADE";

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A database, or a folder, of its own.
    OfItsOwn,
    /// The very database that the address names, which must be empty.
    ThisDatabase,
}

/// Why there is no place.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The address is none, or does not fit what is asked.
    #[error("{0}")]
    Address(String),
    /// The database does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The role may not make databases.
    #[error(
        "this role may not make a database to measure in ({0}); let somebody who may run `ALTER ROLE … CREATEDB`, or \
         name an empty database of its own with --in-this-database"
    )]
    MayNotCreate(String),
    /// The database that was named holds something.
    #[error("{0}")]
    NotEmpty(String),
    /// The disk is too full.
    #[error("{0}")]
    NoRoom(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// Something that a look which was killed has left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// What it is.
    pub name: String,
    /// How to be rid of it.
    pub command: String,
}

/// Where it is measured.
#[derive(Debug)]
pub enum Place {
    /// A database.
    Database {
        /// Its address.
        url: String,
        /// The address from which it was made and will be dropped; without one it is emptied.
        made_from: Option<String>,
        /// What it is called.
        name: String,
    },
    /// A folder beside a file, so that it is on the same disk.
    Folder {
        /// It.
        folder: PathBuf,
    },
}

impl Place {
    /// Makes one, for so many bytes.
    pub async fn make(url: &str, wanted: Wanted, bytes: u64) -> Result<Self, PlaceError> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            if wanted == Wanted::ThisDatabase {
                return Err(PlaceError::Address(
                    "--in-this-database is for PostgreSQL; beside an SQLite file a folder is made and removed"
                        .to_owned(),
                ));
            }
            return make_folder(path, bytes);
        }
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(PlaceError::Address(
                "--database is no address of a store; use sqlite:PATH or postgres://…".to_owned(),
            ));
        }
        match wanted {
            Wanted::OfItsOwn => make_database(url).await,
            Wanted::ThisDatabase => use_database(url).await,
        }
    }

    /// What it is called.
    pub fn name(&self) -> String {
        match self {
            Self::Database { name, made_from: Some(_), .. } => format!("the database {name}, made for it"),
            Self::Database { .. } => "this database, which was empty".to_owned(),
            Self::Folder { folder, .. } => format!("the folder {}, made for it", folder.display()),
        }
    }

    /// What earlier looks have left beside it more than an hour ago.
    pub async fn leftovers(&self) -> Vec<Leftover> {
        let now = Timestamp::now();
        match self {
            Self::Database { url, .. } => databases_left(url, now).await.unwrap_or_default(),
            Self::Folder { folder } => folders_left(folder, now),
        }
    }

    /// Removes it, whatever has become of the look: it may still be at work on it.
    pub async fn remove(self) -> Result<(), PlaceError> {
        match self {
            Self::Database { made_from: Some(url), name, .. } => {
                let (client, _) = connect_client(&url).await.map_err(|error| not_removed(&name, &error.to_string()))?;
                let dropped = client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
                dropped.map_err(|error| not_removed(&name, &words(&error)))
            }
            Self::Database { url, made_from: None, .. } => {
                let failed = |error: String| {
                    PlaceError::Failed(format!("the database could not be emptied again: {error}; run: {EMPTY_AGAIN}"))
                };
                let (client, _) = connect_client(&url).await.map_err(|error| failed(error.to_string()))?;
                client.batch_execute(EMPTY_AGAIN).await.map_err(|error| failed(words(&error)))
            }
            Self::Folder { folder } => remove_folder(&folder).await,
        }
    }
}

fn not_removed(name: &str, error: &str) -> PlaceError {
    PlaceError::Failed(format!("the database {name} could not be dropped: {error}; drop it by: DROP DATABASE {name}"))
}

/// The server's own words, which are what helps.
fn words(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

async fn connected(url: &str) -> Result<Client, PlaceError> {
    match connect_client(url).await {
        Ok((client, _)) => Ok(client),
        Err(StoreError::Invalid(invalid)) => Err(PlaceError::Address(invalid.to_string())),
        Err(error) => Err(PlaceError::Unreachable(error.to_string())),
    }
}

async fn make_database(url: &str) -> Result<Place, PlaceError> {
    let client = connected(url).await?;
    let name = format!("{DATABASE_PREFIX}{}", Uuid::now_v7().simple());
    // Nobody is ever connected to this template, and nothing is in it.
    let made = client.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await;
    made.map_err(|error| match error.code() {
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => PlaceError::MayNotCreate(words(&error)),
        _ => PlaceError::Failed(format!("no database can be made to measure in: {}", words(&error))),
    })?;
    let place = Place::Database { url: with_database(url, &name), made_from: Some(url.to_owned()), name };
    let Place::Database { url, .. } = &place else { return Ok(place) };
    if let Err(error) = connect_client(url).await {
        place.remove().await?;
        return Err(PlaceError::Failed(format!(
            "the database that was made to measure in cannot be reached ({error}); if a pooler stands before the server, \
             name the server itself, or an empty database with --in-this-database"
        )));
    }
    Ok(place)
}

async fn use_database(url: &str) -> Result<Place, PlaceError> {
    let client = connected(url).await?;
    let failed = |error: tokio_postgres::Error| PlaceError::Failed(words(&error));
    let mut found = 0;
    for sql in [IS_EMPTY, SCHEMAS] {
        let rows = client.query_typed(sql, &[]).await.map_err(failed)?;
        found += rows.first().map_or(1, |row| row.get::<_, i64>(0));
    }
    if found > 0 {
        return Err(PlaceError::NotEmpty(format!(
            "--in-this-database: it is not empty ({found} tables, indexes, sequences or schemas are in it), and would be \
             emptied in the end; name an empty one, or leave --in-this-database out"
        )));
    }
    Ok(Place::Database { url: url.to_owned(), made_from: None, name: String::new() })
}

/// The address of another database on the same server.
fn with_database(url: &str, name: &str) -> String {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) = base.split_once("://").unwrap_or(("postgres", base));
    let hosts = rest.split('/').next().unwrap_or_default();
    let kept: Vec<&str> = query.split('&').filter(|it| !it.is_empty() && !it.starts_with("dbname=")).collect();
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    format!("{scheme}://{hosts}/{name}{query}")
}

async fn databases_left(url: &str, now: Timestamp) -> Option<Vec<Leftover>> {
    let (client, _) = connect_client(url).await.ok()?;
    let sql = "SELECT datname::text FROM pg_database WHERE datname LIKE 'punctual\\_bench\\_%' ORDER BY 1";
    let rows = client.query_typed(sql, &[]).await.ok()?;
    let names = rows.iter().map(|row| row.get::<_, String>(0));
    let left = names.filter(|name| is_left(name, DATABASE_PREFIX, now));
    Some(left.map(|name| Leftover { command: format!("DROP DATABASE {name}"), name }).collect())
}

fn make_folder(path: &str, bytes: u64) -> Result<Place, PlaceError> {
    if path.is_empty() || path.starts_with(':') {
        return Err(PlaceError::Address("--database names no file; use sqlite:PATH, such as sqlite:app.db".to_owned()));
    }
    let beside = match Path::new(path).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    if let Some(free) = free_bytes(&beside)
        && free < bytes.saturating_mul(2)
    {
        return Err(PlaceError::NoRoom(format!(
            "only {} MB are free beside {path}, and up to {} MB are written; make room, or name a file elsewhere",
            free / 1_000_000,
            bytes / 1_000_000
        )));
    }
    let folder = beside.join(format!("{FOLDER_PREFIX}{}", Uuid::now_v7().simple()));
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&folder).map_err(|error| {
        PlaceError::Failed(format!("no folder can be made beside {path} to measure in: {error}; name another file"))
    })?;
    Ok(Place::Folder { folder })
}

/// Whoever still works in it may make a file once more, and is gone soon.
async fn remove_folder(folder: &Path) -> Result<(), PlaceError> {
    let mut last = String::new();
    for _ in 0..200 {
        match std::fs::remove_dir_all(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => last = error.to_string(),
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Err(PlaceError::Failed(format!("the folder {} could not be removed: {last}", folder.display())))
}

fn folders_left(folder: &Path, now: Timestamp) -> Vec<Leftover> {
    let Some(Ok(entries)) = folder.parent().map(std::fs::read_dir) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)));
    let left = names.filter(|(_, name)| is_left(name, FOLDER_PREFIX, now));
    let mut left: Vec<Leftover> = left
        .map(|(path, _)| Leftover { name: path.display().to_string(), command: format!("rm -r '{}'", path.display()) })
        .collect();
    left.sort_by(|one, other| one.name.cmp(&other.name));
    left
}

/// Whether a name is that of a place made more than an hour ago.
fn is_left(name: &str, prefix: &str, now: Timestamp) -> bool {
    let id = name.strip_prefix(prefix).and_then(|id| Uuid::try_parse(id).ok());
    let made = id.and_then(|id| id.get_timestamp()).map(|at| at.to_unix());
    let made = made.and_then(|(seconds, _)| Timestamp::from_second(i64::try_from(seconds).ok()?).ok());
    made.is_some_and(|made| now.duration_since(made) > LEFT_AFTER)
}

#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

/// The kind of file system that a folder is on, where the system tells.
pub(super) fn file_system(folder: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    file_system_of(&mounts, &std::fs::canonicalize(folder).ok()?)
}

/// The kind of the mount that is nearest above a path.
fn file_system_of(mounts: &str, path: &Path) -> Option<String> {
    let mount = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let point = place.split(' ').nth(4)?.replace("\\040", " ");
        Some((PathBuf::from(point), kind.split(' ').next()?.to_owned()))
    };
    let above = mounts.lines().filter_map(mount).filter(|(point, _)| path.starts_with(point));
    // Of two at the same place the later one is on top.
    let nearest = above.max_by_key(|(point, _)| point.components().count());
    nearest.map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_the_database_changes_in_an_address() {
        let other = |url: &str| with_database(url, "other");
        assert_eq!(other("postgres://u:p@h:1,i:2/db?sslmode=require"), "postgres://u:p@h:1,i:2/other?sslmode=require");
        assert_eq!(other("postgresql://h"), "postgresql://h/other");
        assert_eq!(other("postgres://%2Fvar%2Frun/db"), "postgres://%2Fvar%2Frun/other");
        assert_eq!(other("postgres:///db?host=/tmp&dbname=db"), "postgres:///other?host=/tmp");
    }

    #[test]
    fn only_what_is_ours_and_old_is_left_behind() {
        let id = Uuid::now_v7().simple().to_string();
        let soon = Timestamp::now() + SignedDuration::from_mins(5);
        let later = Timestamp::now() + SignedDuration::from_hours(2);
        let name = format!("{DATABASE_PREFIX}{id}");
        assert!(is_left(&name, DATABASE_PREFIX, later));
        assert!(!is_left(&name, DATABASE_PREFIX, soon), "somebody may be measuring in it");
        assert!(!is_left(&format!("app_{id}"), DATABASE_PREFIX, later));
        assert!(!is_left("punctual_bench_of_ours", DATABASE_PREFIX, later));
        assert!(!is_left(&format!("{DATABASE_PREFIX}{}", Uuid::new_v4().simple()), DATABASE_PREFIX, later));
    }

    #[test]
    fn the_nearest_mount_tells_the_file_system() {
        let mounts = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      30 21 0:40 / /srv/my\\040files rw shared:1 - nfs4 host:/x rw\n\
                      31 21 0:41 / /srv rw - xfs /dev/sdb rw\n";
        let of = |path: &str| file_system_of(mounts, Path::new(path));
        assert_eq!(of("/srv/my files/a"), Some("nfs4".to_owned()));
        assert_eq!(of("/srv/other"), Some("xfs".to_owned()));
        assert_eq!(of("/srvx"), Some("ext4".to_owned()));
        assert_eq!(file_system_of("", Path::new("/")), None);
    }
}
