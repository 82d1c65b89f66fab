//! Where sources come from: files, folders and standard input, within bounds.

use std::collections::BTreeMap;
use std::fs;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use super::reading::{Fault, Kind, Place, Remark, text_of};
use super::systemd::{UnitFile, template_of};
use super::{STDIN, Stop};

/// The most that is read of one source; no crontab, unit or manifest comes near it.
const SOURCE_MAX: u64 = 16 << 20;

/// A text, and what its path says about it.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) system: bool,
    pub(super) user: Option<String>,
}

/// What was found.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) files: Vec<Source>,
    pub(super) remarks: Vec<Remark>,
    pub(super) faults: Vec<Fault>,
}

impl Sources {
    /// Crontabs: of a folder those that cron itself reads.
    pub(super) fn crontabs(from: &[PathBuf], system: bool) -> Result<Self, Stop> {
        let mut found = Self::default();
        for path in or_stdin(from)? {
            if !path.is_dir() {
                found.crontab(&path, system)?;
                continue;
            }
            let is_strict = system || file_name(&path) == "cron.d";
            for path in entries(&path)?.into_iter().filter(|path| !path.is_dir()) {
                found.crontab_of_folder(&path, system, is_strict)?;
            }
        }
        Ok(found)
    }

    /// In `cron.d` cron is strict about names; in the spool, where users have names of all kinds, it passes over a dot.
    fn crontab_of_folder(&mut self, path: &Path, system: bool, is_strict: bool) -> Result<(), Stop> {
        let name = file_name(path);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.starts_with('.') {
            return Ok(());
        }
        if is_strict && !name.chars().all(is_plain) {
            self.remarks.push(Remark {
                place: Place::new(&path.display().to_string(), 1),
                kind: Kind::LeftOut,
                what: "cron does not read this file, because its name has other characters than letters, digits, - \
                       and _"
                    .to_owned(),
                remedy: "if it is meant to be read, name the file itself".to_owned(),
            });
            return Ok(());
        }
        self.crontab(path, system)
    }

    fn crontab(&mut self, path: &Path, system: bool) -> Result<(), Stop> {
        let parent =
            |path: &Path| path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let folder = parent(path).unwrap_or_default();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // The spool of users' crontabs: each is named after its user.
        let spool = folder == "crontabs"
            || (folder == "cron" && path.parent().and_then(parent).is_some_and(|of| of == "spool"));
        let system = system || folder == "cron.d" || (name == "crontab" && !spool);
        match text(path)? {
            Ok(text) => {
                let user = spool.then_some(name);
                self.files.push(Source { path: told(path), text, system, user });
            }
            Err(fault) => self.faults.push(fault),
        }
        Ok(())
    }

    /// Documents: of a folder those with one of the endings.
    pub(super) fn documents(from: &[PathBuf], endings: &[&str]) -> Result<Self, Stop> {
        let mut found = Self::default();
        for path in or_stdin(from)? {
            let paths = if path.is_dir() {
                let fits = |path: &PathBuf| {
                    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
                };
                entries(&path)?.into_iter().filter(fits).collect()
            } else {
                vec![path]
            };
            for path in paths {
                match text(&path)? {
                    Ok(text) => found.files.push(Source { path: told(&path), text, system: false, user: None }),
                    Err(fault) => found.faults.push(fault),
                }
            }
        }
        Ok(found)
    }
}

/// Units that were found.
#[derive(Default)]
pub(super) struct Units {
    pub(super) files: Vec<UnitFile>,
    pub(super) remarks: Vec<Remark>,
    pub(super) faults: Vec<Fault>,
}

/// Timers and services, with their drop-ins. What comes first counts, as with systemd's own folders.
pub(super) fn units(from: &[PathBuf]) -> Result<Units, Stop> {
    let mut units = Units::default();
    for path in from {
        if !path.is_dir() {
            units.add(&file_name(path), path)?;
        }
        let near = if path.is_dir() { entries(path)? } else { beside(path)? };
        for path in near {
            units.add_found(&path)?;
        }
    }
    Ok(units)
}

fn is_unit(name: &str) -> bool {
    matches!(name.rsplit_once('.'), Some((_, "timer" | "service")))
}

impl Units {
    /// What a folder holds: units, and folders of drop-ins of a unit or of a whole kind.
    fn add_found(&mut self, path: &Path) -> Result<(), Stop> {
        let name = file_name(path);
        match name.strip_suffix(".d") {
            Some(unit) if (is_unit(unit) || matches!(unit, "timer" | "service")) && path.is_dir() => {
                for path in entries(path)?.iter().filter(|path| path.extension().is_some_and(|end| end == "conf")) {
                    self.add_if_there(&format!("{name}/{}", file_name(path)), path)?;
                }
                Ok(())
            }
            _ if is_unit(&name) && !path.is_dir() => self.add_if_there(&name, path),
            _ => Ok(()),
        }
    }

    /// Links to what was removed are common, and concern nobody else.
    fn add_if_there(&mut self, name: &str, path: &Path) -> Result<(), Stop> {
        if path.exists() {
            return self.add(name, path);
        }
        self.remarks.push(Remark {
            place: Place::new(&told(path), 1),
            kind: Kind::Note,
            what: format!("{name} is a link to nothing, and is passed over"),
            remedy: "nothing, or remove it".to_owned(),
        });
        Ok(())
    }

    fn add(&mut self, name: &str, path: &Path) -> Result<(), Stop> {
        if self.files.iter().any(|unit| unit.name == name) {
            return Ok(());
        }
        match text(path)? {
            Ok(text) => {
                let (alias_of, of_user) = (alias_of(name, path), is_of_user(path));
                self.files.push(UnitFile { path: told(path), name: name.to_owned(), text, alias_of, of_user });
            }
            Err(fault) => self.faults.push(fault),
        }
        Ok(())
    }
}

/// The unit whose file a link leads to, unless it is the unit's own template.
fn alias_of(name: &str, path: &Path) -> Option<String> {
    let of = file_name(&path.canonicalize().ok()?);
    (is_unit(name) && is_unit(&of) && of != name && template_of(name).as_ref() != Some(&of)).then_some(of)
}

/// Folders such as `~/.config/systemd/user` and `/usr/lib/systemd/user` are read by the managers of users.
fn is_of_user(path: &Path) -> bool {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let names: Vec<_> = whole.components().map(std::path::Component::as_os_str).collect();
    names.windows(2).any(|pair| pair[0] == "systemd" && pair[1] == "user")
}

/// What a named timer needs beside it: services, whose names it may choose, and drop-ins.
fn beside(path: &Path) -> Result<Vec<PathBuf>, Stop> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_needed = |path: &PathBuf| {
        let name = file_name(path);
        let unit = name.strip_suffix(".d").unwrap_or(&name);
        let kind = unit.rsplit_once('.').map_or(unit, |(_, kind)| kind);
        kind == "service" || (kind == "timer" && unit != name)
    };
    Ok(entries(folder)?.into_iter().filter(is_needed).collect())
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Where users of this machine live; nothing where that is not known.
pub(super) fn homes() -> BTreeMap<String, String> {
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let home = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        fields.nth(4).filter(|home| home.starts_with('/')).map(|home| (name.to_owned(), home.to_owned()))
    };
    accounts.lines().filter_map(home).collect()
}

/// The paths, or standard input when there are none and something is piped in.
fn or_stdin(from: &[PathBuf]) -> Result<Vec<PathBuf>, Stop> {
    if !from.is_empty() {
        return Ok(from.to_vec());
    }
    if std::io::stdin().is_terminal() {
        return Err(Stop::usage("nothing to import; name files or folders, or pipe something in and say -"));
    }
    Ok(vec![PathBuf::from("-")])
}

fn told(path: &Path) -> String {
    if path == Path::new("-") { STDIN.to_owned() } else { path.display().to_string() }
}

/// The entries of a folder, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Stop> {
    let failed = |error: std::io::Error| Stop::failure(format!("{}: {error}", folder.display()));
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn text(path: &Path) -> Result<Result<String, Fault>, Stop> {
    let name = told(path);
    let failed = |error: std::io::Error| Stop::failure(format!("{name}: {error}"));
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().take(SOURCE_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        fs::File::open(path).map_err(failed)?.take(SOURCE_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    }
    if bytes.len() as u64 > SOURCE_MAX {
        let problem = format!("is larger than {} MiB; this is no such file", SOURCE_MAX >> 20);
        return Ok(Err(Fault { place: Place::new(&name, 1), problem }));
    }
    Ok(text_of(&name, bytes))
}
