//! Processes whose wall clock is wrong, or jumps; their monotonic clock is left alone, as a real jump leaves it.

use std::path::{Path, PathBuf};

/// Variables for the environment of a process.
pub type Env = Vec<(String, String)>;

/// The environment of a process whose wall clock is off by so many seconds.
pub fn shifted_clock(seconds: i64) -> Env {
    let mut env = preloaded();
    env.push(("FAKETIME".to_owned(), format!("{seconds:+}")));
    env
}

/// A wall clock for processes, which can be made to jump while they run.
#[derive(Debug)]
pub struct FakeClock {
    file: tempfile::NamedTempFile,
}

impl FakeClock {
    /// A clock that is right, at first.
    pub fn right() -> Self {
        let clock = Self { file: tempfile::NamedTempFile::new().expect("a file can be made") };
        clock.set(0);
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        clock.file.as_file().set_permissions(everybody).expect("the server's user may read it");
        clock
    }

    /// Lets it jump: from now on it is off by so many seconds.
    pub fn set(&self, seconds: i64) {
        // In one step: whoever looks in the middle of a write would see another time.
        let folder = self.file.path().parent().unwrap_or(Path::new("/"));
        let next = tempfile::NamedTempFile::new_in(folder).expect("a file can be made");
        std::fs::write(next.path(), format!("{seconds:+}\n")).expect("the clock can be set");
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        next.as_file().set_permissions(everybody).expect("the server's user may read it");
        std::fs::rename(next.into_temp_path(), self.file.path()).expect("the clock can be set");
    }

    /// The environment of a process that goes by it.
    pub fn env(&self) -> Env {
        let mut env = preloaded();
        env.push(("FAKETIME_TIMESTAMP_FILE".to_owned(), self.file.path().display().to_string()));
        env.push(("FAKETIME_NO_CACHE".to_owned(), "1".to_owned()));
        env
    }
}

fn preloaded() -> Env {
    let library = library().expect("libfaketime is not installed: run `cargo xtask deps`");
    vec![
        ("LD_PRELOAD".to_owned(), library.display().to_string()),
        ("FAKETIME_DONT_FAKE_MONOTONIC".to_owned(), "1".to_owned()),
    ]
}

/// Debian keeps it below the folder of the machine's kind.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d02_a_process_goes_by_the_clock_it_is_given() {
        let clock = FakeClock::right();
        let year = |env: Env| {
            let told = std::process::Command::new("date").args(["-u", "+%s"]).envs(env).output().unwrap();
            String::from_utf8(told.stdout).unwrap().trim().parse::<i64>().unwrap()
        };
        let now = year(Env::new());
        assert!((year(shifted_clock(-86_400)) - (now - 86_400)).abs() < 60);
        assert!((year(clock.env()) - now).abs() < 60);
        clock.set(3600);
        assert!((year(clock.env()) - (now + 3600)).abs() < 60);
    }
}
