//! What a run leaves behind beside its end: log, progress, artifacts, remembered steps; and the port that keeps them.

use crate::id::JobId;
use crate::invalid::Invalid;
use crate::job::Artifact;
use crate::json::Json;
use crate::name;
use crate::store::{Lease, StoreResult};
use crate::words::words;
use async_trait::async_trait;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// The largest artifact whose contents a store keeps, in bytes.
pub const ARTIFACT_MAX_BYTES: usize = 16 << 20;

/// Where an artifact is whose contents the store keeps itself.
pub const IN_THE_STORE: &str = "store";

words! {
    /// Who said a line of a run's log.
    pub enum LogStream as "log stream" {
        /// The target, on its ordinary output.
        Stdout = "stdout",
        /// The target, on its error output.
        Stderr = "stderr",
        /// Punctual itself, about the run.
        System = "system",
    }
}

/// One line of a run's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Its number within the run, from 1.
    pub sequence: u64,
    /// When it was said, by the store's clock.
    pub at: Timestamp,
    /// Who said it.
    pub stream: LogStream,
    /// What was said, without its line break.
    pub text: String,
}

/// Some lines of one run, one after the other, and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    /// Whose.
    pub job_id: JobId,
    /// The lines; their numbers follow one another.
    pub lines: Vec<LogLine>,
    /// The latest progress, if there is news.
    pub progress: Option<Progress>,
}

impl LogChunk {
    /// The number of the first line.
    pub fn first(&self) -> Option<u64> {
        self.lines.first().map(|line| line.sequence)
    }

    /// The lines as both stores keep them: a JSON list of `[microseconds, stream, text]`, NUL replaced.
    pub fn document(&self) -> String {
        let lines: Vec<_> = self
            .lines
            .iter()
            .map(|line| (line.at.as_microsecond(), line.stream, line.text.replace('\0', "\u{fffd}")))
            .collect();
        serde_json::to_string(&lines).unwrap_or_else(|_| "[]".to_owned())
    }

    /// Back from the stores.
    pub fn lines_of(first: u64, document: &str) -> Result<Vec<LogLine>, Invalid> {
        let unreadable = |problem: String| Invalid::new("log", problem);
        let lines: Vec<(i64, LogStream, String)> =
            serde_json::from_str(document).map_err(|error| unreadable(error.to_string()))?;
        let numbered = (first..).zip(lines);
        let read = numbered.map(|(sequence, (micros, stream, text))| {
            let at = Timestamp::from_microsecond(micros).map_err(|error| unreadable(error.to_string()))?;
            Ok(LogLine { sequence, at, stream, text })
        });
        read.collect()
    }
}

/// How far a run has come, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// From 0 to 100.
    pub percent: u8,
    /// What it is doing.
    pub note: String,
}

impl Progress {
    /// So far, and doing this; more than 100 is 100.
    pub fn new(percent: u8, note: impl Into<String>) -> Self {
        Self { percent: percent.min(100), note: note.into() }
    }
}

impl Artifact {
    /// The entry of a file whose contents the store keeps. Refused: files that are too large, and names that no text
    /// column keeps.
    pub fn of(name: &str, contents: &[u8]) -> Result<Self, Invalid> {
        if contents.len() > ARTIFACT_MAX_BYTES {
            let problem = format!("has {} bytes; at most {ARTIFACT_MAX_BYTES} are kept", contents.len());
            return Err(Invalid::new("artifact", problem).remedy("store it elsewhere, and keep a reference to it"));
        }
        let digits = Sha256::digest(contents).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let sha256 = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect();
        let size_bytes = contents.len() as u64;
        let artifact = Self { name: name.to_owned(), location: IN_THE_STORE.to_owned(), size_bytes, sha256 };
        artifact.validate()?;
        Ok(artifact)
    }
}

/// Refuses names under which no step can be remembered.
pub fn check_step(step: &str) -> Result<(), Invalid> {
    name::check(step).map_err(|e| Invalid { field: "step".into(), ..e })
}

/// The part of the store port that keeps what runs leave behind.
#[async_trait]
pub trait RunRecords: Send + Sync {
    /// Adds lines and progress to runs that are going on. Each is judged by itself: the answers, in the order of the
    /// chunks, say whether the lease holds for the run; where it does not, nothing was written. A chunk that is sent
    /// twice is kept once.
    async fn append_log_if_leased(&self, lease: Lease, chunks: Vec<LogChunk>) -> StoreResult<Vec<bool>>;

    /// The lines of a run behind a number, in order; fewer than asked for means that these are all there are so far.
    /// Whoever asks again behind the last number follows a run that is going on.
    async fn run_log(&self, job: JobId, after: u64, limit: usize) -> StoreResult<Vec<LogLine>>;

    /// The latest progress of a run, and when it was told; it stays when the run has ended.
    async fn run_progress(&self, job: JobId) -> StoreResult<Option<(Timestamp, Progress)>>;

    /// Keeps a file with a run that is going on, behind those it has; see [`Artifact::of`] for what is refused.
    async fn keep_artifact_if_leased(
        &self, lease: Lease, job: JobId, name: &str, contents: Vec<u8>,
    ) -> StoreResult<Artifact>;

    /// The contents of a run's artifact by its place in the list, from 1; `None` when the store does not keep them.
    async fn artifact_contents(&self, job: JobId, number: u64) -> StoreResult<Option<Vec<u8>>>;

    /// Remembers a step of a running job for its whole chain. What was remembered first stands, and is the answer.
    async fn remember_step_if_leased(&self, lease: Lease, job: JobId, step: &str, value: Json) -> StoreResult<Json>;

    /// What the chain of a job remembers under a name.
    async fn remembered_step(&self, root_job: JobId, step: &str) -> StoreResult<Option<Json>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c13_lines_come_back_as_they_were_but_for_nul() {
        let at = Timestamp::from_microsecond(1_700_000_000_123_456).unwrap();
        let line = |sequence, stream, text: &str| LogLine { sequence, at, stream, text: text.to_owned() };
        let lines = vec![line(7, LogStream::Stdout, "a\"b\\\t\u{1b}[31m🔥"), line(8, LogStream::System, "")];
        let chunk = LogChunk { job_id: JobId::from_bytes([1; 16]), lines: lines.clone(), progress: None };
        assert_eq!(LogChunk::lines_of(7, &chunk.document()).unwrap(), lines);
        let odd = LogChunk { lines: vec![line(1, LogStream::Stderr, "a\0b")], ..chunk };
        assert_eq!(LogChunk::lines_of(1, &odd.document()).unwrap()[0].text, "a\u{fffd}b");
        assert!(LogChunk::lines_of(1, "[[1,\"stdin\",\"\"]]").is_err());
    }

    #[test]
    fn c13_an_artifact_says_its_size_and_checksum_and_has_a_limit() {
        let empty = Artifact::of("empty", b"").unwrap();
        assert_eq!(empty.sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!((empty.size_bytes, empty.location.as_str()), (0, IN_THE_STORE));
        assert!(Artifact::of("large", &vec![0; ARTIFACT_MAX_BYTES + 1]).is_err());
        assert!(Artifact::of("a\0b", b"").is_err());
    }
}
