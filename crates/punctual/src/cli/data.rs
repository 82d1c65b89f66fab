//! The data folder: where it is, who may see it, and which server has it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Stop;

/// The file with the token that the first server on a folder makes.
const ADMIN_TOKEN: &str = "admin.token";

/// The file with the secret by which workers on a folder call its server.
const SERVICE_SECRET: &str = "service.secret";

/// The folder for everything that is written.
#[derive(Debug, Clone)]
pub(crate) struct DataFolder(PathBuf);

/// What a server says about itself to those who come to the same folder.
#[derive(Debug, Serialize, Deserialize)]
struct ServeFile {
    pid: u32,
    version: String,
    database: String,
    /// Where its API is.
    url: String,
    started_at: jiff::Timestamp,
}

/// A server that runs on a folder, for whoever may read it.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where its API is.
    pub(crate) url: String,
    /// The admin's token, if it is kept here.
    pub(crate) token: Option<String>,
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
    pub(crate) fn hold(&self) -> Result<Serving, Stop> {
        let lock_path = self.0.join("serve.lock");
        let lock = private(&lock_path, false).map_err(|error| failed(&lock_path, &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Serving { path: self.0.join("serve.json"), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Stop::failure(format!(
                "another server runs on {}; stop it, or name another folder with --data DIR",
                self.0.display()
            ))),
            Err(TryLockError::Error(error)) => Err(failed(&lock_path, &error)),
        }
    }

    /// Tells those who come to the folder about the server that has it.
    pub(crate) fn tell(&self, database: &str, url: &str) -> Result<(), Stop> {
        let told = ServeFile {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            database: database.to_owned(),
            url: url.to_owned(),
            started_at: jiff::Timestamp::now(),
        };
        self.write("serve.json", &serde_json::to_vec(&told).map_err(std::io::Error::from)?)
    }

    /// The server that has the folder, if there is one: what a killed one left behind does not count.
    pub(crate) fn running(&self) -> Option<Running> {
        let lock = File::open(self.0.join("serve.lock")).ok()?;
        if !matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return None;
        }
        let told: ServeFile = serde_json::from_slice(&std::fs::read(self.0.join("serve.json")).ok()?).ok()?;
        Some(Running { url: told.url, token: self.admin_token() })
    }

    /// Keeps the admin's token for the folder's owner.
    pub(crate) fn keep_admin_token(&self, secret: &str) -> Result<(), Stop> {
        self.write(ADMIN_TOKEN, format!("{secret}\n").as_bytes())
    }

    /// The secret by which workers on this folder call its server; made when there is none yet.
    #[cfg(feature = "server")]
    pub(crate) fn make_service_secret(&self) -> Result<String, Stop> {
        if let Some(secret) = self.service_secret() {
            return Ok(secret);
        }
        let secret = punctual_server::secret::Secret::new_session()
            .map_err(|error| Stop::failure(format!("the system gives no random bytes: {error}")))?;
        self.write(SERVICE_SECRET, format!("{}\n", secret.reveal()).as_bytes())?;
        Ok(secret.reveal().to_owned())
    }

    /// The same, if it is there.
    pub(crate) fn service_secret(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.0.join(SERVICE_SECRET)).ok()?;
        Some(text.trim().to_owned()).filter(|secret| !secret.is_empty())
    }

    fn admin_token(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.0.join(ADMIN_TOKEN)).ok()?;
        Some(text.trim().to_owned()).filter(|token| !token.is_empty())
    }

    /// Written aside and put in place, so that nobody reads half of it.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Stop> {
        let (path, aside) = (self.0.join(name), self.0.join(format!("{name}.new")));
        let written = private(&aside, true).and_then(|mut file| file.write_all(bytes));
        written.and_then(|()| std::fs::rename(&aside, &path)).map_err(|error| failed(&path, &error))
    }
}

fn failed(what: &Path, error: &std::io::Error) -> Stop {
    Stop::failure(format!("cannot write {}: {error}", what.display()))
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
pub(super) fn private(path: &Path, empty: bool) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(empty);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    belong_to_the_folder(&file, path);
    Ok(file)
}

/// What an administrator writes into a folder belongs to the folder's owner, who could not open it otherwise.
fn belong_to_the_folder(file: &File, path: &Path) {
    #[cfg(unix)]
    if let Some(Ok(folder)) = path.parent().map(std::fs::metadata)
        && let Ok(made) = file.metadata()
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        if made.uid() != folder.uid() {
            // Whoever may not give it away is somebody else who may write here.
            let _not_ours_to_give = fchown(file, Some(folder.uid()), Some(folder.gid()));
        }
    }
    #[cfg(not(unix))]
    let _no_owners = (file, path);
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
