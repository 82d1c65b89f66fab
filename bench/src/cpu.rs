//! How much processor time is used: by this program and by a server together, whatever else the machine does.

use punctual_testkit::postgres::PrivateServer;
use std::fs;

/// The processes of one server, and this one.
pub struct Cpu {
    postmaster: String,
}

impl Cpu {
    /// Looks up the server's first process.
    pub fn of(server: &PrivateServer) -> std::io::Result<Self> {
        let file = fs::read_to_string(server.folder().join("data/postmaster.pid"))?;
        Ok(Self { postmaster: file.lines().next().unwrap_or_default().trim().to_owned() })
    }

    /// Microseconds used so far, by processes that are still there.
    pub fn micros(&self) -> f64 {
        let own = numbered("/proc/self/task").map(|thread| ran(&format!("/proc/self/task/{thread}"))).sum::<f64>();
        let server = numbered("/proc").map(|process| format!("/proc/{process}")).filter(|path| self.is_child(path));
        (own + server.map(|path| ran(&path)).sum::<f64>()) / 1000.0
    }

    fn is_child(&self, path: &str) -> bool {
        let stat = fs::read_to_string(format!("{path}/stat")).unwrap_or_default();
        // Behind the name, which may hold anything: the state, and who started it.
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(self.postmaster.as_str())
    }
}

/// The entries of a folder that are numbers.
fn numbered(folder: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok().filter(|name| name.parse::<u32>().is_ok()))
}

/// Nanoseconds that a thread was running.
fn ran(path: &str) -> f64 {
    let stat = fs::read_to_string(format!("{path}/schedstat")).unwrap_or_default();
    stat.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}
