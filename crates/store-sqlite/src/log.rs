//! The write-ahead log beside the file, and what keeps it small.

use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Above this the log is emptied by force. It stays far below by itself as long as readers pause now and then; when
/// there is never a moment without one, it is never begun anew, and grows by all that is written.
const LOG_LARGE_BYTES: u64 = 16 << 20;

/// Above this there must be a reader that does not end: emptying has been tried all the way from [`LOG_LARGE_BYTES`],
/// and whoever reads for a moment only is waited for.
const LOG_PINNED_BYTES: u64 = 64 << 20;

/// How long the writer waits for readers that still need the log before it gives up for now.
const READERS_PATIENCE: Duration = Duration::from_millis(100);

/// When it tries again: after this time, or when so much more was written, so that a reader that stands still costs
/// the writer little.
const LOG_TRIED_AGAIN: (Duration, u64) = (Duration::from_secs(1), 8 << 20);

/// The write-ahead log beside the file.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    /// When readers were in the way, and how large it was then.
    tried: Option<(Instant, u64)>,
}

impl Log {
    pub(crate) fn of(file: &Path) -> Self {
        let mut path = file.as_os_str().to_owned();
        path.push("-wal");
        Self { path: path.into(), tried: None }
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |log| log.len())
    }

    /// What to tell somebody when a reader has kept the log from being emptied for too long.
    pub(crate) fn why_large(&self, file: &Path) -> Option<String> {
        let bytes = self.bytes();
        (bytes > LOG_PINNED_BYTES).then(|| {
            let (log, file) = (self.path.display(), file.display());
            format!(
                "{log} has grown to {} MiB: end the program that reads without end, one of `fuser -v {file}`",
                bytes >> 20
            )
        })
    }

    /// Empties the log when it has become large, unless readers that need it are in the way: then later.
    pub(crate) fn keep_small(&mut self, connection: &Connection) {
        let bytes = self.bytes();
        let (pause, growth) = LOG_TRIED_AGAIN;
        let too_early = self.tried.is_some_and(|(at, size)| at.elapsed() < pause && bytes < size + growth);
        if bytes < LOG_LARGE_BYTES || too_early {
            return;
        }
        let emptied = connection
            .busy_timeout(READERS_PATIENCE)
            .and_then(|()| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)));
        self.tried = (!matches!(emptied, Ok(0))).then(|| (Instant::now(), bytes));
        if let Err(error) = connection.busy_timeout(crate::BUSY_TIMEOUT) {
            tracing::warn!("failed to set the writer's patience: {error}");
        }
    }
}
