//! The one writer thread: many waiting writes share one transaction and one fsync.
//!
//! SQLite has one writer at a time, and a durable commit costs an fsync whatever it holds. So callers hand their
//! work to this thread; it opens a transaction, does the work of everybody who waits, each so that it can be undone by
//! itself, commits once, and only then answers. Work that fails undoes itself and nobody else's. When the commit
//! fails, nothing of the group has happened, and everybody is told so.
//!
//! The thread also notices what others write to the file: another process, or the program itself on a connection of
//! its own. SQLite tells a connection on request that somebody else has committed, and does not count its own commits.

use crate::crew::Crew;
use crate::error::store_error;
use crate::log::Log;
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// The most calls that share one commit; more would make the first of them wait for the last.
const GROUP_MAX: usize = 256;

/// How often the thread looks whether somebody else has written.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Hands work to the writer thread.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    thread: Arc<Crew<Box<dyn Work>>>,
}

/// A call on its way: done inside the group's transaction, answered after its commit.
trait Work: Send {
    /// Does the work; an error means that its changes must be undone.
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError>;
    /// Answers the caller. An error of the whole group replaces the call's own result.
    fn settle(self: Box<Self>, group: Result<(), StoreError>);
}

struct Call<T, F> {
    work: Option<F>,
    result: Option<StoreResult<T>>,
    reply: oneshot::Sender<StoreResult<T>>,
}

impl<T, F> Work for Call<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> StoreResult<T> + Send,
{
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let Some(work) = self.work.take() else { return Ok(()) };
        // A panic is a fault of ours; it must not take the thread, and with it everybody else, along.
        let result = catch_unwind(AssertUnwindSafe(|| work(connection)))
            .unwrap_or_else(|_| Err(StoreError::Internal("a write panicked".to_owned())));
        let fine = result.as_ref().map(|_| ()).map_err(Clone::clone);
        self.result = Some(result);
        fine
    }

    fn settle(self: Box<Self>, group: Result<(), StoreError>) {
        let own = self.result.unwrap_or_else(|| Err(StoreError::Internal("the write was not reached".to_owned())));
        let answer = match group {
            Ok(()) => own,
            Err(error) => own.and(Err(error)),
        };
        // A caller that went away does not want the answer any more; its write stands all the same.
        let _gone = self.reply.send(answer);
    }
}

impl Writer {
    /// Starts the thread. It ends when the last handle is dropped, after the work that was handed in.
    /// The lines are rung when somebody else has written to the file.
    pub(crate) fn start(connection: Connection, mut log: Log, lines: [watch::Sender<()>; 2]) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let name = "punctual-writer".to_owned();
        let work = move || serve(&connection, &receiver, &mut log, &lines);
        let thread = std::thread::Builder::new().name(name).spawn(work)?;
        Ok(Self { thread: Arc::new(Crew::new(sender, vec![thread])) })
    }

    /// Does some work in a transaction and returns its result after the commit.
    pub(crate) async fn write<T, F>(&self, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let call = Box::new(Call { work: Some(work), result: None, reply });
        self.thread.hand_in(call).map_err(|_| stopped())?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }
}

fn stopped() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

fn serve(connection: &Connection, receiver: &Receiver<Box<dyn Work>>, log: &mut Log, lines: &[watch::Sender<()>]) {
    let mut others = Others { seen: data_version(connection), looked_at: Instant::now() };
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(first) => {
                commit_group(connection, first, receiver);
                log.keep_small(connection);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if others.have_written(connection) {
            for line in lines {
                line.send_replace(());
            }
        }
    }
}

/// What is known of the commits of others.
struct Others {
    seen: Option<i64>,
    looked_at: Instant,
}

impl Others {
    fn have_written(&mut self, connection: &Connection) -> bool {
        if self.looked_at.elapsed() < LOOK_EVERY {
            return false;
        }
        self.looked_at = Instant::now();
        let now = data_version(connection);
        std::mem::replace(&mut self.seen, now) != now
    }
}

/// A number that changes when another connection has committed. Unknown while the file cannot be read.
fn data_version(connection: &Connection) -> Option<i64> {
    connection.prepare_cached("PRAGMA data_version").and_then(|mut s| s.query_row([], |row| row.get(0))).ok()
}

/// One transaction for everybody who waits, those who come while it is open included.
///
/// Only those behind the first need a savepoint, for which SQLite copies every page that they change: when the first one
/// fails there is nothing else to keep.
fn commit_group(connection: &Connection, mut first: Box<dyn Work>, receiver: &Receiver<Box<dyn Work>>) {
    if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
        first.settle(Err(store_error(error)));
        return;
    }
    if first.run(connection).is_err() {
        undo(connection);
        first.settle(Ok(()));
        return;
    }
    if connection.is_autocommit() {
        // What comes next would be a transaction of its own, and stored whatever the COMMIT says.
        first.settle(Err(StoreError::Internal("the transaction ended before its COMMIT".to_owned())));
        return;
    }
    let (mut group, mut done) = (vec![first], Ok(()));
    while done.is_ok()
        && group.len() < GROUP_MAX
        && let Ok(mut work) = receiver.try_recv()
    {
        done = run_in_savepoint(connection, work.as_mut());
        group.push(work);
    }
    let committed = done.and_then(|()| connection.execute_batch("COMMIT").map_err(store_error));
    if committed.is_err() {
        undo(connection);
    }
    for work in group {
        work.settle(committed.clone());
    }
}

/// Undoes the transaction, if SQLite has not done so by itself.
fn undo(connection: &Connection) {
    if !connection.is_autocommit() {
        // The next group begins with a clean state or reports the same fault again.
        let _already_failed = connection.execute_batch("ROLLBACK");
    }
}

/// Runs one call so that its failure undoes itself alone. An error here is one of the whole group.
fn run_in_savepoint(connection: &Connection, work: &mut dyn Work) -> Result<(), StoreError> {
    connection.prepare_cached("SAVEPOINT call").and_then(|mut s| s.execute([])).map_err(store_error)?;
    if let Err(error) = work.run(connection) {
        // SQLite ends the whole transaction by itself on some errors (no room, no memory): then all are told why.
        if connection.is_autocommit() {
            return Err(error);
        }
        connection.execute_batch("ROLLBACK TO call").map_err(store_error)?;
    }
    connection.prepare_cached("RELEASE call").and_then(|mut s| s.execute([])).map_err(store_error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::params;

    fn writer(path: &std::path::Path) -> Writer {
        let connection = Connection::open(path).unwrap();
        connection.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (n INTEGER NOT NULL)").unwrap();
        let line = || watch::Sender::new(());
        Writer::start(connection, Log::of(path), [line(), line()]).unwrap()
    }

    fn put(n: i64) -> impl FnOnce(&Connection) -> StoreResult<()> + Send + 'static {
        move |connection| {
            connection.execute("INSERT INTO t (n) VALUES (?1)", params![n]).map_err(store_error)?;
            if n < 0 { Err(StoreError::Internal(format!("{n} is refused"))) } else { Ok(()) }
        }
    }

    /// What is there after calls that all went into one group: the first one goes on only when the others wait behind it.
    async fn after(numbers: [i64; 3]) -> (Vec<bool>, Vec<i64>) {
        let folder = tempfile::tempdir().unwrap();
        let writer = writer(&folder.path().join("a.db"));
        let (go, wait) = channel::<()>();
        let first = move |connection: &Connection| {
            put(numbers[0])(connection)?;
            wait.recv().map_err(|_| stopped())
        };
        // Polled in this order, and so handed in in this order; only then the first one may go on.
        let told = async {
            let _nobody_waits = go.send(());
        };
        let (a, b, c, ()) =
            tokio::join!(writer.write(first), writer.write(put(numbers[1])), writer.write(put(numbers[2])), told);
        let read = |connection: &Connection| {
            let mut all = connection.prepare("SELECT n FROM t ORDER BY n").map_err(store_error)?;
            all.query_map([], |row| row.get(0)).map_err(store_error)?.collect::<Result<_, _>>().map_err(store_error)
        };
        ([a, b, c].iter().map(Result::is_ok).collect(), writer.write(read).await.unwrap())
    }

    #[tokio::test]
    async fn c12_a_call_that_fails_half_way_undoes_itself_alone_wherever_it_is_in_its_group() {
        assert_eq!(after([1, 2, 3]).await, (vec![true; 3], vec![1, 2, 3]));
        assert_eq!(after([-1, 2, 3]).await, (vec![false, true, true], vec![2, 3]));
        assert_eq!(after([1, -2, 3]).await, (vec![true, false, true], vec![1, 3]));
        assert_eq!(after([1, 2, -3]).await, (vec![true, true, false], vec![1, 2]));
    }
}
