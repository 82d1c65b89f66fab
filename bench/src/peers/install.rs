//! Brings the peers from the registries into `target/peers`, and builds the contestants there.

use crate::load::Outcome;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What contestants are written in; those of one language are installed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Node,
    Python,
    Rust,
}

impl Language {
    pub const ALL: [Self; 3] = [Self::Node, Self::Python, Self::Rust];

    /// The name of its folder.
    fn folder(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Python => "python",
            Self::Rust => "rust",
        }
    }
}

/// Where the contestants' sources are, and where they are installed.
pub struct Places {
    sources: PathBuf,
    installed: PathBuf,
}

impl Places {
    /// Those of the checkout that this is run in.
    pub fn find() -> Outcome<Self> {
        // Cargo tells it at run time, so that a binary of another checkout works on this one.
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("bench"), PathBuf::from);
        let package = package.canonicalize().unwrap_or(package);
        let sources = package.join("peers");
        if !sources.is_dir() {
            return Err(format!("there is no {}: run this by `cargo xtask bench`", sources.display()).into());
        }
        let root = package.parent().unwrap_or(Path::new("."));
        Ok(Self { installed: root.join("target/peers"), sources })
    }

    /// Where the contestants of one language are.
    pub fn installed(&self, language: Language) -> PathBuf {
        self.installed.join(language.folder())
    }
}

/// Installs what is not there yet of one language, by the lock files, and says each step: some take minutes.
pub fn install(places: &Places, language: Language) -> Outcome<()> {
    match language {
        Language::Node => node(places),
        Language::Python => python(places),
        Language::Rust => rust(places),
    }
}

fn node(places: &Places) -> Outcome<()> {
    let folder = copy(places, Language::Node)?;
    if is_installed(&folder, "package-lock.json") {
        return Ok(());
    }
    let options = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    run(Command::new("npm").args(options).current_dir(&folder), "Node.js 22 or later, with npm")?;
    note_installed(&folder, "package-lock.json")
}

fn python(places: &Places) -> Outcome<()> {
    let folder = copy(places, Language::Python)?;
    if is_installed(&folder, "requirements.txt") {
        return Ok(());
    }
    let environment = folder.join("environment");
    let needed = "Python 3.10 or later, with venv";
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment), needed)?;
    let options = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--requirement"];
    run(Command::new(environment.join("bin/pip")).args(options).arg(folder.join("requirements.txt")), needed)?;
    note_installed(&folder, "requirements.txt")
}

/// Cargo sees for itself what has changed.
fn rust(places: &Places) -> Outcome<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // What cargo told this program about its own package; some of the peers' packages would be built anew for it.
    let told = std::env::vars_os().map(|(name, _)| name).filter(|name| {
        name.to_str().is_some_and(|name| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_"))
    });
    for name in told {
        build.env_remove(name);
    }
    build.args(["build", "--release", "--locked", "--manifest-path"]).arg(places.sources.join("rust/Cargo.toml"));
    run(build.env("CARGO_TARGET_DIR", places.installed(Language::Rust)), "Rust 1.95 or later, with cargo")
}

/// The contestants run from a copy, because Node looks for packages beside a script, and none belong into the sources.
fn copy(places: &Places, language: Language) -> Outcome<PathBuf> {
    let folder = places.installed(language);
    fs::create_dir_all(&folder)?;
    for file in fs::read_dir(places.sources.join(language.folder()))? {
        let file = file?;
        if file.file_type()?.is_file() {
            fs::copy(file.path(), folder.join(file.file_name()))?;
        }
    }
    Ok(folder)
}

/// What was noted when the last installation was complete.
fn is_installed(folder: &Path, lock: &str) -> bool {
    let wanted = fs::read(folder.join(lock));
    wanted.is_ok_and(|wanted| fs::read(folder.join("installed.txt")).is_ok_and(|there| there == wanted))
}

fn note_installed(folder: &Path, lock: &str) -> Outcome<()> {
    fs::copy(folder.join(lock), folder.join("installed.txt"))?;
    Ok(())
}

/// The tool, and the first of its arguments that say what it does.
fn step(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let words = command.get_args().take(3).map(|word| word.to_string_lossy());
    std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ")
}

fn run(command: &mut Command, needed: &str) -> Outcome<()> {
    let step = step(command);
    eprintln!("installs peers: {step} …");
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("cannot start {step}: install {needed}"),
        _ => format!("cannot start {step}: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // The first line is what a sheet tells.
    Err(format!("{step} failed ({}); it needs {needed}\n{command:?} said:\n{said}", output.status).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_what_to_install() {
        let error = run(&mut Command::new("no-such-program"), "the moon").unwrap_err().to_string();
        assert!(error.contains("no-such-program") && error.contains("install the moon"), "{error}");
    }

    #[test]
    fn a_step_is_said_in_one_short_line() {
        let mut cargo = Command::new("/usr/bin/cargo");
        cargo.args(["build", "--release", "--locked", "--manifest-path", "/somewhere/long/Cargo.toml"]);
        assert_eq!(step(&cargo), "cargo build --release --locked");
    }

    #[test]
    fn what_a_failing_tool_said_is_told() {
        let mut tool = Command::new("sh");
        let error = run(tool.args(["-c", "echo out; echo err >&2; exit 3"]), "a shell").unwrap_err().to_string();
        assert!(error.contains("out") && error.contains("err") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_changed_lock_file_is_installed_again() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| fs::write(folder.path().join("lock"), text).unwrap();
        write("one");
        assert!(!is_installed(folder.path(), "lock"), "nothing was installed yet");
        note_installed(folder.path(), "lock").unwrap();
        assert!(is_installed(folder.path(), "lock"));
        write("two");
        assert!(!is_installed(folder.path(), "lock"));
    }
}
