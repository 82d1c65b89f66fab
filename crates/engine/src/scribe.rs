//! The scribe of a node: takes what runs tell without making them wait, and stores it in groups.
//!
//! Lines wait a moment for others, unless their run has ended; while a group is on its way the next one gathers, so
//! that under load the groups grow by themselves. A run is reported as ended only when its lines are stored.

use crate::clock::Uptime;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use punctual_core::execute::{Reports, lines_of};
use punctual_core::id::JobId;
use punctual_core::job::Job;
use punctual_core::json::Json;
use punctual_core::records::{LogChunk, LogLine, LogStream, Progress};
use punctual_core::store::{Lease, Store, StoreError, StoreResult};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// The most that is kept of one run's log, in bytes; each line counts a little more than its text.
pub const LOG_MAX_BYTES: usize = 4 << 20;

/// The longest line; longer ones are broken.
pub const LINE_MAX_BYTES: usize = 16 << 10;

/// What a line costs beside its text.
const LINE_COST: usize = 32;

/// Punctual's own words about a run fit even when its log is full.
const SYSTEM_RESERVE: usize = 64 << 10;

/// How much of one run goes into one chunk.
const CHUNK_BYTES: usize = 64 << 10;

/// How long lines wait for others.
const GATHER: Duration = Duration::from_millis(200);

/// How long an unreachable store is left alone.
const SETBACK: Duration = Duration::from_millis(250);

/// How long the end of a run waits for its last lines; a log must not hold up the record of the run itself.
const LAST_LINES: Duration = Duration::from_secs(10);

/// Stores what the runs of one node tell, under one lease.
#[derive(Debug)]
pub struct Scribe {
    inbox: Arc<Inbox>,
    task: JoinHandle<()>,
}

impl Scribe {
    /// Begins to write; must be called within a runtime.
    pub fn start(store: Arc<dyn Store>, lease: Lease) -> Self {
        let (gathering, hurry) = (Notify::new(), Notify::new());
        let inbox = Arc::new(Inbox { store, lease, full: Mutex::default(), gathering, hurry });
        let task = tokio::spawn(write_on(Arc::clone(&inbox)));
        Self { inbox, task }
    }

    /// Where it writes.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.inbox.store
    }

    /// The log of one run, which begins now.
    pub fn open(&self, job: Arc<Job>, started_at: Timestamp) -> RunLog {
        let (inbox, since) = (Arc::clone(&self.inbox), Uptime::start());
        RunLog(Arc::new(Pad { inbox, job, started_at, since, notes: Mutex::default(), stored: Notify::new() }))
    }
}

impl Drop for Scribe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the runs and the writing task share.
struct Inbox {
    store: Arc<dyn Store>,
    lease: Lease,
    /// The pads that have something to be stored.
    full: Mutex<BTreeMap<JobId, Arc<Pad>>>,
    /// There is something.
    gathering: Notify,
    /// Somebody waits for it.
    hurry: Notify,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// Where one run writes.
#[derive(Debug)]
struct Pad {
    inbox: Arc<Inbox>,
    job: Arc<Job>,
    started_at: Timestamp,
    since: Uptime,
    notes: Mutex<Notes>,
    stored: Notify,
}

#[derive(Debug, Default)]
struct Notes {
    waiting: VecDeque<LogLine>,
    progress: Option<Progress>,
    /// How many lines were taken in.
    taken: u64,
    kept_bytes: usize,
    cut_lines: u64,
    cut_bytes: u64,
    /// Whether a chunk is on its way.
    sending: bool,
    /// The lease does not hold any more: nothing is to be stored.
    lost: bool,
}

/// The log of one run.
#[derive(Debug, Clone)]
pub struct RunLog(Arc<Pad>);

impl RunLog {
    /// Says how much was left out, and waits until everything is stored, for a while.
    pub async fn close(&self) {
        let (lines, bytes) = {
            let notes = lock(&self.0.notes);
            if notes.is_empty() && notes.cut_lines == 0 {
                return;
            }
            (notes.cut_lines, notes.cut_bytes)
        };
        if lines > 0 {
            self.log(LogStream::System, &format!("{lines} more lines ({bytes} bytes) were said and not kept"));
        }
        if timeout(LAST_LINES, self.0.until_stored()).await.is_err() {
            tracing::warn!(job = %self.0.job.id, "the last lines of a log could not be stored in time");
        }
    }
}

#[async_trait]
impl Reports for RunLog {
    fn log(&self, stream: LogStream, text: &str) {
        let at = self.0.now();
        let mut notes = lock(&self.0.notes);
        if notes.cut_lines > 0 && stream != LogStream::System {
            // Whoever says a gigabyte too much must not cost more than the counting.
            notes.cut_lines += 1 + memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
            notes.cut_bytes += text.len() as u64;
            return;
        }
        for piece in lines_of(text).flat_map(pieces) {
            notes.take(at, stream, piece);
        }
        drop(notes);
        self.0.ring();
    }

    fn progress(&self, progress: Progress) {
        lock(&self.0.notes).progress = Some(progress);
        self.0.ring();
    }

    async fn remembered_step(&self, name: &str) -> StoreResult<Option<Json>> {
        self.0.inbox.store.remembered_step(self.0.job.root_job_id, name).await
    }

    async fn remember_step(&self, name: &str, value: Json) -> StoreResult<Json> {
        self.0.inbox.store.remember_step_if_leased(self.0.inbox.lease, self.0.job.id, name, value).await
    }

    async fn add_artifact(&self, name: &str, contents: Vec<u8>) -> StoreResult<()> {
        let inbox = &self.0.inbox;
        inbox.store.keep_artifact_if_leased(inbox.lease, self.0.job.id, name, contents).await.map(|_| ())
    }
}

impl Pad {
    /// The store's time, as far as this node can tell: that of the claim, and what has passed since.
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.since.now()).unwrap_or(SignedDuration::MAX);
        self.started_at.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// Puts itself into the inbox.
    fn ring(self: &Arc<Self>) {
        lock(&self.inbox.full).entry(self.job.id).or_insert_with(|| Arc::clone(self));
        self.inbox.gathering.notify_one();
    }

    async fn until_stored(&self) {
        loop {
            let stored = self.stored.notified();
            if lock(&self.notes).is_empty() {
                return;
            }
            self.inbox.hurry.notify_one();
            stored.await;
        }
    }
}

impl Notes {
    fn is_empty(&self) -> bool {
        self.lost || (self.waiting.is_empty() && self.progress.is_none() && !self.sending)
    }

    /// Takes a line in, if there is room for it.
    fn take(&mut self, at: Timestamp, stream: LogStream, text: &str) {
        let cost = text.len() + LINE_COST;
        let room = LOG_MAX_BYTES + if stream == LogStream::System { SYSTEM_RESERVE } else { 0 };
        if self.kept_bytes + cost > room {
            self.cut_lines += 1;
            self.cut_bytes += text.len() as u64;
            if self.cut_lines == 1 {
                let words = format!("the log is full at {LOG_MAX_BYTES} bytes: what follows is counted and not kept");
                self.push(at, LogStream::System, &words);
            }
            return;
        }
        self.kept_bytes += cost;
        self.push(at, stream, text);
    }

    fn push(&mut self, at: Timestamp, stream: LogStream, text: &str) {
        self.taken += 1;
        self.waiting.push_back(LogLine { sequence: self.taken, at, stream, text: text.to_owned() });
    }

    /// The next chunk to be stored.
    fn chunk(&mut self, job_id: JobId) -> Option<LogChunk> {
        if self.lost || (self.waiting.is_empty() && self.progress.is_none()) {
            return None;
        }
        let mut bytes = 0;
        let fits = self.waiting.iter().take_while(|line| {
            bytes += line.text.len() + LINE_COST;
            bytes <= CHUNK_BYTES
        });
        let count = fits.count().max(1).min(self.waiting.len());
        self.sending = true;
        Some(LogChunk { job_id, lines: self.waiting.drain(..count).collect(), progress: self.progress.take() })
    }

    /// A chunk could not be stored now: it is the next one again.
    fn put_back(&mut self, chunk: LogChunk) {
        for line in chunk.lines.into_iter().rev() {
            self.waiting.push_front(line);
        }
        self.progress = self.progress.take().or(chunk.progress);
    }
}

/// Stores what there is, again and again.
async fn write_on(inbox: Arc<Inbox>) {
    loop {
        inbox.gathering.notified().await;
        tokio::select! {
            biased;
            () = inbox.hurry.notified() => {}
            () = sleep(GATHER) => {}
        }
        while !inbox.write_once().await {}
    }
}

impl Inbox {
    /// Stores one chunk of each pad; says whether nothing is left.
    async fn write_once(&self) -> bool {
        let full: Vec<Arc<Pad>> = std::mem::take(&mut *lock(&self.full)).into_values().collect();
        let (pads, chunks): (Vec<_>, Vec<_>) = full
            .into_iter()
            .filter_map(|pad| {
                let chunk = lock(&pad.notes).chunk(pad.job.id)?;
                Some((pad, chunk))
            })
            .unzip();
        if chunks.is_empty() {
            return true;
        }
        match self.store.append_log_if_leased(self.lease, chunks.clone()).await {
            Ok(held) => pads.iter().zip(held).for_each(|(pad, held)| pad.settle(held)),
            Err(StoreError::Unavailable(_) | StoreError::Full(_)) => {
                for (pad, chunk) in pads.iter().zip(chunks) {
                    lock(&pad.notes).put_back(chunk);
                    pad.settle(true);
                }
                sleep(SETBACK).await;
            }
            // One chunk that cannot be stored must not hold up the others.
            Err(error) => self.write_one_by_one(&pads, chunks, &error).await,
        }
        lock(&self.full).is_empty()
    }

    async fn write_one_by_one(&self, pads: &[Arc<Pad>], chunks: Vec<LogChunk>, error: &StoreError) {
        tracing::warn!("failed to store log lines together: {error}");
        for (pad, chunk) in pads.iter().zip(chunks) {
            let lines = chunk.lines.len();
            match self.store.append_log_if_leased(self.lease, vec![chunk]).await {
                Ok(held) => pad.settle(held.first().copied().unwrap_or(false)),
                Err(error) => {
                    tracing::warn!(job = %pad.job.id, lines, "log lines were lost: {error}");
                    pad.settle(true);
                }
            }
        }
    }
}

impl Pad {
    /// Notes that its chunk has come to an end, and puts itself back if there is more.
    fn settle(self: &Arc<Self>, held: bool) {
        let mut notes = lock(&self.notes);
        notes.sending = false;
        if !held {
            notes.lost = true;
            notes.waiting.clear();
        }
        let more = !notes.is_empty();
        drop(notes);
        if more {
            lock(&self.inbox.full).entry(self.job.id).or_insert_with(|| Arc::clone(self));
        }
        self.stored.notify_waiters();
    }
}

/// A line in pieces that are not too long, broken between characters.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        if line.len() <= LINE_MAX_BYTES {
            rest = None;
            return Some(line);
        }
        let end = (0..=LINE_MAX_BYTES).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(line.len());
        let (piece, more) = line.split_at(end);
        rest = Some(more);
        Some(piece)
    })
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
