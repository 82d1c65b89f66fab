//! Where the dashboard comes from: a folder that was named, an earlier build of the same sources, or npm.

use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says whether there must be a dashboard (`require`) or must be none (`skip`).
pub const WISH: &str = "PUNCTUAL_DASHBOARD";

/// Names a folder with a dashboard that is built already.
pub const DIST: &str = "PUNCTUAL_DASHBOARD_DIST";

/// What is in the folder of the sources and no part of them.
pub const IGNORED: [&str; 4] = ["node_modules", "dist", "unit-dist", "e2e"];

/// The oldest Node that the build's tools take.
const NODE_MIN: (u32, u32) = (20, 19);

/// How many earlier builds are kept, for whoever goes back and forth between branches.
const KEPT: usize = 8;

/// No scripts of packages, no questions, and no long waiting where there is no network.
const NPM_CI: [&str; 10] = [
    "ci",
    "--omit=dev",
    "--prefer-offline",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--fetch-retries=1",
    "--fetch-timeout=30000",
    "--loglevel=error",
];

/// Whether a dashboard is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Yes, unless that is not possible.
    Usual,
    /// Yes; without one the build fails.
    Require,
    /// No.
    Skip,
}

impl Wish {
    pub fn read(value: Option<&str>) -> Result<Self, String> {
        match value {
            None | Some("") => Ok(Self::Usual),
            Some("require") => Ok(Self::Require),
            Some("skip") => Ok(Self::Skip),
            Some(other) => Err(format!("{WISH}={other} means nothing")),
        }
    }
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// The folder with `index.html` and what belongs to it.
    Built(PathBuf),
    /// Nobody wants one.
    LeftOut { reason: String, remedy: String },
    /// Somebody wants one, and there is none.
    Failed { reason: String, remedy: String },
}

impl Found {
    pub fn left_out(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::LeftOut { reason: reason.into(), remedy: remedy.into() }
    }

    pub fn failed(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Failed { reason: reason.into(), remedy: remedy.into() }
    }
}

/// What is wanted, and where things are.
#[derive(Debug)]
pub struct Wishes {
    /// The folder `dashboard/` of the repository.
    pub sources: PathBuf,
    /// A folder for what is built, shared by all builds of a target folder.
    pub cache: PathBuf,
    /// A dashboard that is built already.
    pub dist: Option<PathBuf>,
    pub wish: Wish,
    /// Where programs are looked for.
    pub path: Option<OsString>,
}

impl Wishes {
    pub fn find(&self) -> Found {
        if self.wish == Wish::Skip {
            return Found::left_out(format!("{WISH}=skip was set when it was built"), format!("build without {WISH}"));
        }
        if let Some(dist) = &self.dist {
            return built(dist).unwrap_or_else(|| {
                let reason = format!("{DIST}={} has no index.html", dist.display());
                Found::failed(reason, "name the folder that `npm run build` writes")
            });
        }
        if !self.sources.join("package-lock.json").is_file() {
            let remedy = format!("build in the repository, or name a built one by {DIST}=DIR");
            return Found::failed("its sources are not beside the crate", remedy);
        }
        match self.build() {
            Ok(dist) => Found::Built(dist),
            Err(reason) => {
                let (major, minor) = NODE_MIN;
                let remedy = format!(
                    "have Node.js {major}.{minor} or newer with npm in PATH and build again, name a built one by \
                     {DIST}=DIR, or say {WISH}=skip"
                );
                Found::failed(reason, remedy)
            }
        }
    }

    /// The same sources give the same dashboard, so that it is built once, whoever asks first.
    fn build(&self) -> Result<PathBuf, String> {
        let sources = Sources::read(&self.sources).map_err(|error| format!("its sources cannot be read: {error}"))?;
        let dist = self.cache.join(format!("dist-{}", sources.hash()));
        if built(&dist).is_some() {
            return Ok(dist);
        }
        let told = |error: io::Error| format!("{} cannot be written: {error}", self.cache.display());
        fs::create_dir_all(&self.cache).map_err(told)?;
        // Held until the end: of two cargos at a time, the second one finds what the first has built.
        let lock = File::create(self.cache.join("lock")).map_err(told)?;
        lock.lock().map_err(told)?;
        if built(&dist).is_some() {
            return Ok(dist);
        }
        self.check_node()?;
        let folder = self.cache.join("build");
        sources.copy_to(&folder).map_err(told)?;
        self.install(&folder)?;
        self.run("npm", &["run", "build", "--silent"], &folder)?;
        if built(&folder.join("dist")).is_none() {
            return Err("`npm run build` has written no dist/index.html".to_owned());
        }
        // What an earlier build left half there stands in the way.
        if dist.exists() {
            fs::remove_dir_all(&dist).map_err(told)?;
        }
        fs::rename(folder.join("dist"), &dist).map_err(told)?;
        forget_old(&self.cache).map_err(told)?;
        Ok(dist)
    }

    fn check_node(&self) -> Result<(), String> {
        let said = self.run("node", &["--version"], Path::new("."))?;
        let mut numbers = said.trim().trim_start_matches('v').split('.').map(|number| number.parse().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if version < NODE_MIN {
            return Err(format!("Node.js is {}, which is too old", said.trim()));
        }
        Ok(())
    }

    /// Installs the packages, unless the last build had the same.
    fn install(&self, folder: &Path) -> Result<(), String> {
        let (lock, installed) = (folder.join("package-lock.json"), folder.join("node_modules/.installed-lock.json"));
        let wanted = fs::read(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
        if fs::read(&installed).is_ok_and(|there| there == wanted) {
            return Ok(());
        }
        self.run("npm", &NPM_CI, folder)?;
        // Sources without packages have no folder for them.
        let noted = fs::create_dir_all(folder.join("node_modules")).and_then(|()| fs::write(&installed, wanted));
        noted.map_err(|error| format!("{}: {error}", installed.display()))
    }

    /// Runs a program and returns what it says; of one that fails, the reason that it gives.
    fn run(&self, program: &str, arguments: &[&str], folder: &Path) -> Result<String, String> {
        // npm is a script on Windows, which is not found by its bare name.
        let name = if cfg!(windows) && program == "npm" { "npm.cmd" } else { program };
        let mut command = Command::new(name);
        command.args(arguments).current_dir(folder).env("NO_COLOR", "1").env_remove("NODE_ENV");
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        let output = command.output().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("there is no {program} in PATH"),
            _ => format!("{program} cannot be started: {error}"),
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
        let told = gist(&String::from_utf8_lossy(said));
        Err(format!("`{program} {}` failed: {told}", arguments.first().unwrap_or(&"")))
    }
}

fn built(dist: &Path) -> Option<Found> {
    dist.join("index.html").is_file().then(|| Found::Built(dist.to_owned()))
}

/// The first lines that say something, on one line: messages of cargo have no more.
fn gist(said: &str) -> String {
    let says = |line: &&str| !line.is_empty() && !line.starts_with("npm warn");
    let lines = said.lines().map(|line| line.trim_start_matches("npm error").trim());
    let line: String = lines.filter(says).take(4).collect::<Vec<_>>().join(" · ");
    line.chars().filter(|letter| !letter.is_control()).take(500).collect()
}

/// Keeps the latest builds only.
fn forget_old(cache: &Path) -> io::Result<()> {
    let mut dists = Vec::new();
    for entry in fs::read_dir(cache)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("dist-") {
            dists.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    dists.sort();
    let many = dists.len().saturating_sub(KEPT);
    dists.drain(..many).try_for_each(|(_, path)| fs::remove_dir_all(path))
}

/// The files that make a dashboard, by path.
struct Sources(Vec<(PathBuf, Vec<u8>)>);

impl Sources {
    fn read(folder: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        gather(folder, Path::new(""), &mut files)?;
        files.sort();
        Ok(Self(files))
    }

    fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for (path, bytes) in &self.0 {
            // With their lengths, so that nothing can move from one file into the next.
            for part in [path.as_os_str().as_encoded_bytes(), bytes] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        hex(&hash.finalize()[..8])
    }

    /// Makes a folder hold these files, and of what was there the packages only.
    fn copy_to(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true if entry.file_name() == "node_modules" => {}
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        for (path, bytes) in &self.0 {
            let path = folder.join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, bytes)?;
        }
        Ok(())
    }
}

fn gather(root: &Path, below: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name();
        let path = below.join(&name);
        let is_ignored = below == Path::new("") && IGNORED.iter().any(|ignored| name == *ignored);
        if entry.path().is_dir() {
            if !is_ignored {
                gather(root, &path, files)?;
            }
        // Editors leave links that lead nowhere.
        } else if name != OsStr::new(".DS_Store") && entry.path().is_file() {
            files.push((path, fs::read(entry.path())?));
        }
    }
    Ok(())
}

/// Bytes as text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
