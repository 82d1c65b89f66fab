//! The data folder: where it is, who may see it, and which server has it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Stop;

/// The folder for everything that is written.
#[derive(Debug, Clone)]
pub(crate) struct DataFolder(PathBuf);

/// What a server says about itself to those who come to the same folder.
#[derive(Debug, Serialize)]
struct ServeFile<'a> {
    pid: u32,
    version: &'a str,
    database: &'a str,
    started_at: jiff::Timestamp,
}

impl DataFolder {
    /// Opens the folder that was named, or the user's state folder, and makes it if it is not there. It is for its
    /// owner alone: it will hold a token, and jobs may hold anything.
    pub(crate) fn open(named: Option<&Path>) -> Result<Self, Stop> {
        let path = match named {
            Some(folder) => folder.to_owned(),
            None => state_folder()?,
        };
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .recursive(true)
            .create(&path)
            .map_err(|error| Stop::failure(format!("cannot make the folder {}: {error}", path.display())))?;
        Ok(Self(path))
    }

    /// The address of the store in this folder.
    pub(crate) fn database_url(&self) -> String {
        format!("sqlite:{}", self.0.join("punctual.db").display())
    }

    /// Takes the folder for one server. A lock tells whether another one has it, because a file of a process that was
    /// killed stays behind and a lock does not.
    pub(crate) fn serve(&self, database: &str) -> Result<Serving, Stop> {
        let failed =
            |what: &Path, error: &std::io::Error| Stop::failure(format!("cannot write {}: {error}", what.display()));
        let (lock_path, path) = (self.0.join("serve.lock"), self.0.join("serve.json"));
        let lock = private(&lock_path, false).map_err(|error| failed(&lock_path, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Stop::failure(format!(
                    "another server runs on {}; stop it, or name another folder with --data DIR",
                    self.0.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&lock_path, &error)),
        }
        let told = ServeFile {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION"),
            database,
            started_at: jiff::Timestamp::now(),
        };
        // Written aside and put in place, so that nobody reads half of it.
        let aside = self.0.join("serve.json.new");
        let text = serde_json::to_vec(&told).map_err(std::io::Error::from);
        let written = text.and_then(|text| {
            private(&aside, true)?.write_all(&text)?;
            std::fs::rename(&aside, &path)
        });
        written.map_err(|error| failed(&path, &error))?;
        Ok(Serving { path, _lock: lock })
    }
}

/// A folder that this process serves; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    path: PathBuf,
    _lock: File,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Whoever finds it all the same finds the lock free.
        let _gone_already = std::fs::remove_file(&self.path);
    }
}

/// A file for its owner alone.
fn private(path: &Path, empty: bool) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(empty);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Where the user's state goes: systemd's folder, the XDG one, or the one below the home folder.
fn state_folder() -> Result<PathBuf, Stop> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // systemd names several folders with colons between them; the first one is ours.
    let systemd = from("STATE_DIRECTORY").and_then(|folders| std::env::split_paths(&folders).next());
    systemd
        .or_else(|| from("XDG_STATE_HOME").map(|folder| folder.join("punctual")))
        .or_else(|| from("HOME").map(|home| home.join(".local/state/punctual")))
        .ok_or_else(|| Stop::usage("there is no home folder; say where the data goes with --data DIR"))
}
