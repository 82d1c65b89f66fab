//! What is known of a database beside its speed: its settings as it reports them, its disk, how far away it is.

use serde::Serialize;
use std::collections::BTreeMap;

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// A PostgreSQL server.
    Postgres,
    /// An SQLite file.
    Sqlite,
}

/// What the tables held in the end, counted by SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Jobs that were made.
    pub jobs: i64,
    /// Ends that were recorded.
    pub runs: i64,
    /// Jobs that still wait.
    pub queued: i64,
    /// Jobs that nobody has finished.
    pub running: i64,
    /// Jobs that wait for a time or for others.
    pub delayed: i64,
}

impl Counts {
    /// What they must be when every one of so many jobs was run, once.
    pub(super) fn all_done(jobs: usize) -> Self {
        let jobs = i64::try_from(jobs).unwrap_or(i64::MAX);
        Self { jobs, runs: jobs, ..Self::default() }
    }
}

/// What was read and measured of a database.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Facts {
    /// Which store.
    pub store: StoreKind,
    /// The version of the database itself.
    pub version: String,
    /// Settings as the database reported them to the very connections that were measured.
    pub settings: BTreeMap<String, String>,
    /// Why a write that was acknowledged may be lost; empty when it may not.
    pub not_durable: Vec<String>,
    /// Milliseconds there and back, the median of `SELECT 1`.
    pub round_trip_ms: f64,
    /// Transactions of one row each, one after the other.
    pub commits_per_second: f64,
    /// Whether a pooler stands between.
    pub pooled: bool,
    /// Checkpoints that could not wait for their time, during the look.
    pub forced_checkpoints: Option<i64>,
    /// Connections that were free before the look.
    pub free_connections: Option<i64>,
    /// The file system of the file.
    pub file_system: Option<String>,
    /// The most memory that this program had, both sides together.
    pub memory_bytes: Option<u64>,
}

impl Facts {
    pub(super) fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }
}

/// The most memory that this process has had, where the system tells.
pub(super) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Reads a size as PostgreSQL shows it, such as `128MB`.
pub(super) fn bytes_of(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "B" | "" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1_u64 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_postgresql_shows_them() {
        assert_eq!(bytes_of("128MB"), Some(134_217_728));
        assert_eq!(bytes_of("16kB"), Some(16_384));
        assert_eq!(bytes_of("512"), Some(512));
        assert_eq!([bytes_of("much"), bytes_of(""), bytes_of("5 parsecs")], [None; 3]);
    }

    #[test]
    fn nothing_is_all_done_while_a_job_waits() {
        let done = Counts { jobs: 3, runs: 3, ..Counts::default() };
        assert_eq!(Counts::all_done(3), done);
        assert_ne!(Counts::all_done(3), Counts { runs: 2, queued: 1, ..done });
        assert_ne!(Counts::all_done(3), Counts { runs: 4, ..done });
    }
}
