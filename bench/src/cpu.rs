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

    /// Microseconds used so far, by processes that are still there: to be asked before something is measured. The own
    /// come last, because looking at all others takes time, too.
    pub fn before(&self) -> f64 {
        let server = self.server();
        server + own()
    }

    /// The same behind what is measured.
    pub fn after(&self) -> f64 {
        let own = own();
        own + self.server()
    }

    fn server(&self) -> f64 {
        let processes = numbered("/proc").map(|process| format!("/proc/{process}"));
        processes.filter(|path| self.is_child(path)).map(|path| ran(&path)).sum()
    }

    fn is_child(&self, path: &str) -> bool {
        let stat = fs::read_to_string(format!("{path}/stat")).unwrap_or_default();
        // Behind the name, which may hold anything: the state, and who started it.
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(self.postmaster.as_str())
    }
}

fn own() -> f64 {
    numbered("/proc/self/task").map(|thread| ran(&format!("/proc/self/task/{thread}"))).sum()
}

/// The entries of a folder that are numbers.
fn numbered(folder: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok().filter(|name| name.parse::<u32>().is_ok()))
}

/// Microseconds that a thread was running.
fn ran(path: &str) -> f64 {
    let stat = fs::read_to_string(format!("{path}/schedstat")).unwrap_or_default();
    stat.split_whitespace().next().and_then(|word| word.parse().ok()).map_or(0.0, |nanos: f64| nanos / 1000.0)
}
