//! One connection for the time of one verb: statements with or without names, and several in one round trip.

use crate::params::Params;
use deadpool_postgres::Object;
use futures_util::TryStreamExt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;
use tokio_postgres::error::{DbError, Severity};
use tokio_postgres::{Error, Row, RowStream, Statement};

/// A connection taken from the pool.
#[derive(Debug)]
pub(crate) struct Session {
    // `None` only when it is being dropped.
    client: Option<Object>,
    /// Whether the connection is not to be used again.
    spent: AtomicBool,
    /// Whether statements are prepared under a name. Behind a pooler in transaction mode they cannot be: the next
    /// transaction may be on another connection, which has never heard of the name.
    named: bool,
}

/// One of several statements that travel together.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// A word such as BEGIN.
    Word(&'static str),
    /// A statement that answers with rows.
    Rows(&'a str, Params<'a>),
    /// A statement that answers with how many rows it changed.
    Count(&'a str, Params<'a>),
}

/// What one step answered.
#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    Rows(Vec<Row>),
    Count(u64),
}

impl Answer {
    pub(crate) fn rows(self) -> Vec<Row> {
        match self {
            Self::Rows(rows) => rows,
            Self::Done | Self::Count(_) => Vec::new(),
        }
    }

    /// How many rows it answered with or changed.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Count(count) => usize::try_from(*count).unwrap_or(usize::MAX),
            Self::Done => 0,
        }
    }

    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::Done | Self::Rows(_) => 0,
        }
    }
}

impl Session {
    pub(crate) fn new(client: Object, named: bool) -> Self {
        Self { client: Some(client), spent: AtomicBool::new(false), named }
    }

    /// When the connection was made, by which it is known again.
    pub(crate) fn made_at(&self) -> Instant {
        Object::metrics(self.client()).created
    }

    /// Runs a query.
    pub(crate) async fn rows(&self, sql: &str, params: &Params<'_>) -> Result<Vec<Row>, Error> {
        let statement = self.noted(self.prepared(sql, params).await)?;
        self.noted(self.run_rows(sql, statement.as_ref(), params).await)
    }

    /// Runs a query whose rows are wide, and reads each when it comes: kept until all are there, they would take more
    /// room than the caches of a processor have.
    pub(crate) async fn read<T>(
        &self, sql: &str, params: &Params<'_>, mut read: impl FnMut(&Row) -> T,
    ) -> Result<Vec<T>, Error> {
        let statement = self.noted(self.prepared(sql, params).await)?;
        let mut rows = pin!(self.noted(self.run_stream(sql, statement.as_ref(), params).await)?);
        let mut found = Vec::new();
        while let Some(row) = self.noted(rows.try_next().await)? {
            found.push(read(&row));
        }
        Ok(found)
    }

    /// Runs a statement; says how many rows it changed.
    pub(crate) async fn count(&self, sql: &str, params: &Params<'_>) -> Result<u64, Error> {
        let statement = self.noted(self.prepared(sql, params).await)?;
        self.noted(self.run_count(sql, statement.as_ref(), params).await)
    }

    /// Runs a word such as COMMIT, or a script.
    pub(crate) async fn word(&self, word: &str) -> Result<(), Error> {
        self.noted(self.client().batch_execute(word).await)
    }

    /// Sends several statements at once, in order, and waits for all answers: one round trip. The first error in
    /// order is the answer, because those behind it in a transaction only say that it has failed.
    pub(crate) async fn pipeline(&self, steps: &[Step<'_>]) -> Result<Vec<Answer>, Error> {
        // What is not prepared yet is prepared first: afterwards each future sends when it is first polled, and so
        // the statements arrive in order.
        let mut statements = Vec::with_capacity(steps.len());
        for step in steps {
            statements.push(match step {
                Step::Word(_) => None,
                Step::Rows(sql, params) | Step::Count(sql, params) => self.noted(self.prepared(sql, params).await)?,
            });
        }
        let flights =
            steps.iter().zip(&statements).map(|(step, statement)| self.send(step, statement.as_ref())).collect();
        self.noted(in_order(flights).await.into_iter().collect())
    }

    fn send<'s>(&'s self, step: &'s Step<'_>, statement: Option<&'s Statement>) -> Flight<'s> {
        match step {
            Step::Word(word) => Box::pin(async move { self.client().batch_execute(word).await.map(|()| Answer::Done) }),
            Step::Rows(sql, params) => {
                Box::pin(async move { self.run_rows(sql, statement, params).await.map(Answer::Rows) })
            }
            Step::Count(sql, params) => {
                Box::pin(async move { self.run_count(sql, statement, params).await.map(Answer::Count) })
            }
        }
    }

    async fn prepared(&self, sql: &str, params: &Params<'_>) -> Result<Option<Statement>, Error> {
        if self.named { self.client().prepare_typed_cached(sql, &params.types()).await.map(Some) } else { Ok(None) }
    }

    async fn run_rows(&self, sql: &str, named: Option<&Statement>, params: &Params<'_>) -> Result<Vec<Row>, Error> {
        match named {
            Some(statement) => self.client().query(statement, &params.values()).await,
            None => self.client().query_typed(sql, &params.typed()).await,
        }
    }

    async fn run_stream(&self, sql: &str, named: Option<&Statement>, params: &Params<'_>) -> Result<RowStream, Error> {
        match named {
            Some(statement) => self.client().query_raw(statement, params.values()).await,
            None => self.client().query_typed_raw(sql, params.typed()).await,
        }
    }

    async fn run_count(&self, sql: &str, named: Option<&Statement>, params: &Params<'_>) -> Result<u64, Error> {
        match named {
            Some(statement) => self.client().execute(statement, &params.values()).await,
            None => self.client().execute_typed(sql, &params.typed()).await,
        }
    }

    fn client(&self) -> &Object {
        self.client.as_ref().expect("the connection is there until the session is dropped")
    }

    /// Looks at an answer: a connection that broke, or that the server is about to close, is not used again. The pool
    /// alone would notice it too late.
    fn noted<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &answer {
            let fatal = |error: &DbError| matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
            if error.as_db_error().is_none_or(fatal) {
                self.spent.store(true, Ordering::Relaxed);
            }
        }
        answer
    }

    /// Whether the connection broke, or is about to.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }

    /// Gives the connection up for good: whatever it was in the middle of ends with it.
    pub(crate) fn discard(self) {
        self.spent.store(true, Ordering::Relaxed);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_spent() {
            drop(self.client.take().map(Object::take));
        }
    }
}

type Flight<'s> = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send + 's>>;

/// Waits for all, and polls them for the first time in the order given.
async fn in_order(mut flights: Vec<Flight<'_>>) -> Vec<Result<Answer, Error>> {
    let mut answers: Vec<Option<Result<Answer, Error>>> = flights.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut waiting = false;
        for (flight, answer) in flights.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match flight.as_mut().poll(context) {
                    Poll::Ready(landed) => *answer = Some(landed),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    answers.into_iter().flatten().collect()
}
