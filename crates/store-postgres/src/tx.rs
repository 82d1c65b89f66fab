//! One verb's transaction: its connection, its instant, new ids, and what becomes of it at the end.

use crate::Shared;
use crate::error::{Failure, Work, store_error, with_causes};
use crate::params::{Params, time};
use crate::rows::{self, Unreadable};
use crate::session::{Answer, Session, Step};
use crate::wake::Wake;
use jiff::Timestamp;
use punctual_core::id::JobId;
use punctual_core::store::{StoreError, StoreResult};
use std::time::{Duration, SystemTime};
use tokio_postgres::Row;

/// How often a verb is begun again after it gave way to another transaction.
const CONFLICTS_MAX: u32 = 8;

/// How many connections a verb tries to begin on.
const BEGINS_MAX: u32 = 3;

/// The work of one verb. Everything it writes becomes durable together, or not at all.
#[derive(Debug)]
pub(crate) struct Tx<'s> {
    shared: &'s Shared,
    // `None` once the transaction has ended.
    session: Option<Session>,
    /// The store's time, the same for everything the verb does.
    pub(crate) now: Timestamp,
}

/// Does the work of a verb in a transaction, and does it again when it had to give way to another one.
///
/// A macro, because a closure that borrows the transaction for the time of a future cannot say that the future may
/// move between threads.
macro_rules! in_transaction {
    ($shared:expr, |$tx:ident| $work:expr) => {
        $crate::tx::in_transaction!($shared, |_| None, |$tx| $work)
    };
    // The same for a verb after which there may be new work or a new plan, whatever it answers.
    ($shared:expr, $wake:ident |$tx:ident| $work:expr) => {
        $crate::tx::in_transaction!($shared, |_| Some($crate::wake::Wake::$wake), |$tx| $work)
    };
    // The same where that depends on the answer.
    ($shared:expr, |$answer:pat_param| $wake:expr, |$tx:ident| $work:expr) => {{
        let mut patience = $crate::tx::Patience::default();
        loop {
            let mut $tx = $crate::tx::Tx::begin($shared).await?;
            let worked: $crate::error::Work<_> = async {
                $tx.take_key($shared.change()).await?;
                let done = $work.await?;
                $tx.record($shared.change(), &done).await?;
                Ok(done)
            }
            .await;
            let wake: Option<$crate::wake::Wake> = worked.as_ref().map_or(None, |$answer| $wake);
            match $tx.end_and_tell(worked, wake).await {
                Err(failure) if patience.allows(&failure).await => {}
                ended => {
                    if let (Some(wake), Ok(_)) = (wake, &ended) {
                        $shared.ring();
                        if wake.is_of_plans() {
                            $shared.ring_plans();
                        }
                    }
                    break ended.map_err(::punctual_core::store::StoreError::from);
                }
            }
        }
    }};
}
pub(crate) use in_transaction;

/// How often a verb has been begun again.
#[derive(Debug, Default)]
pub(crate) struct Patience(u32);

impl Patience {
    /// Whether the failure passes by itself; waits a little longer each time before it says so.
    pub(crate) async fn allows(&mut self, failure: &Failure) -> bool {
        if !failure.is_conflict() || self.0 >= CONFLICTS_MAX {
            return false;
        }
        self.0 += 1;
        // The spread keeps two that met from meeting again.
        let spread = u64::from(uuid::Uuid::new_v4().as_bytes()[0]) % 8;
        tokio::time::sleep(Duration::from_millis((1 << self.0) + spread)).await;
        true
    }
}

impl<'s> Tx<'s> {
    /// Begins, and learns the time.
    pub(crate) async fn begin(shared: &'s Shared) -> StoreResult<Self> {
        let (tx, _) = Self::begin_with(shared, Vec::new()).await?;
        Ok(tx)
    }

    /// Begins, and sends the first statements in the same round trip.
    pub(crate) async fn begin_with(shared: &'s Shared, first: Vec<Step<'_>>) -> Work<(Self, Vec<Answer>)> {
        let turned = shared.turned_time();
        let mut steps = opening(turned);
        let own = steps.len();
        steps.extend(first);
        let (mut tx, mut answers) = Self::begin_on_a_live_connection(shared, &steps).await?;
        let rest = answers.split_off(own);
        tx.now = instant(turned, answers.pop())?;
        Ok((tx, rest))
    }

    /// Begins on a connection that is there already.
    pub(crate) async fn begin_on(shared: &'s Shared, session: Session) -> Work<Self> {
        let turned = shared.turned_time();
        let mut tx = Self { shared, session: Some(session), now: Timestamp::UNIX_EPOCH };
        tx.now = instant(turned, tx.pipeline(&opening(turned)).await?.pop())?;
        Ok(tx)
    }

    /// A connection of the pool may have died unnoticed. Nothing is committed at the beginning, so that another one can
    /// be tried.
    async fn begin_on_a_live_connection(shared: &'s Shared, steps: &[Step<'_>]) -> Work<(Self, Vec<Answer>)> {
        let mut chances = BEGINS_MAX;
        loop {
            let session = Some(shared.session().await?);
            let mut tx = Self { shared, session, now: Timestamp::UNIX_EPOCH };
            chances -= 1;
            match tx.pipeline(steps).await {
                Ok(answers) => return Ok((tx, answers)),
                Err(failure) if chances > 0 && failure.is_of_the_connection() => drop(tx),
                Err(failure) => return Err(tx.abandon(failure).await),
            }
        }
    }

    pub(crate) fn session(&self) -> Work<&Session> {
        self.session.as_ref().ok_or_else(|| Failure::internal("the transaction has ended"))
    }

    /// The random part of a new id.
    pub(crate) fn id_bits(&self) -> [u8; 8] {
        self.shared.id_bits()
    }

    /// A new job's id.
    pub(crate) fn job_id(&self) -> JobId {
        JobId::at(self.now, self.id_bits())
    }

    /// The instant that the clock is turned to, if it is not the database's own.
    pub(crate) fn turned(&self) -> Option<SystemTime> {
        self.shared.turned()
    }

    /// The present instant as it is sent.
    pub(crate) fn at(&self) -> SystemTime {
        time(self.now)
    }

    /// Runs a statement; says how many rows it changed.
    pub(crate) async fn execute(&self, sql: &str, params: Params<'_>) -> Work<u64> {
        Ok(self.session()?.count(sql, &params).await?)
    }

    /// All rows of a query.
    pub(crate) async fn rows(&self, sql: &str, params: Params<'_>) -> Work<Vec<Row>> {
        Ok(self.session()?.rows(sql, &params).await?)
    }

    /// All rows of a query, read.
    pub(crate) async fn all<T>(
        &self, sql: &str, params: Params<'_>, decode: impl FnMut(&Row) -> Result<T, Unreadable>,
    ) -> Work<Vec<T>> {
        Ok(rows::collect(&self.rows(sql, params).await?, decode)?)
    }

    /// The same for rows that are wide; see [`Session::read`].
    pub(crate) async fn read<T>(&self, sql: &str, params: Params<'_>, read: impl FnMut(&Row) -> T) -> Work<Vec<T>> {
        Ok(self.session()?.read(sql, &params, read).await?)
    }

    /// The one row of a query, if there is one.
    pub(crate) async fn one<T>(
        &self, sql: &str, params: Params<'_>, decode: impl FnMut(&Row) -> Result<T, Unreadable>,
    ) -> Work<Option<T>> {
        Ok(self.all(sql, params, decode).await?.pop())
    }

    /// Several statements in one round trip.
    pub(crate) async fn pipeline(&self, steps: &[Step<'_>]) -> Work<Vec<Answer>> {
        Ok(self.session()?.pipeline(steps).await?)
    }

    /// Runs a word such as SAVEPOINT.
    pub(crate) async fn word(&self, word: &str) -> Work<()> {
        Ok(self.session()?.word(word).await?)
    }

    /// Ends the transaction: commits what succeeded, undoes what did not.
    pub(crate) async fn end<T>(&mut self, worked: Work<T>) -> Work<T> {
        self.end_and_tell(worked, None).await
    }

    /// The same, and tells others of what there is to do, once for everything this transaction made.
    pub(crate) async fn end_and_tell<T>(&mut self, worked: Work<T>, wake: Option<Wake>) -> Work<T> {
        match worked {
            Ok(_) if self.session.is_none() => {}
            Ok(_) => {
                self.pipeline_and_commit(wake.and_then(Wake::step).into_iter().collect()).await?;
            }
            Err(failure) => return Err(self.abandon(failure).await),
        }
        worked
    }

    /// Sends the last statements and the COMMIT in one round trip.
    pub(crate) async fn pipeline_and_commit(&mut self, mut steps: Vec<Step<'_>>) -> Work<Vec<Answer>> {
        steps.push(Step::Word("COMMIT"));
        let session = self.session.take().ok_or_else(|| Failure::internal("the transaction has ended"))?;
        match session.pipeline(&steps).await {
            Ok(answers) => {
                self.shared.look_after_partitions(self.now);
                Ok(answers)
            }
            Err(error) => {
                // A statement that failed has made a ROLLBACK of the COMMIT behind it.
                let failure = commit_failure(error);
                if matches!(failure, Failure::Told(_)) {
                    session.discard();
                }
                Err(failure)
            }
        }
    }

    /// Undoes everything.
    pub(crate) async fn undo(&mut self) {
        if let Some(session) = self.session.take() {
            match session.word("ROLLBACK").await {
                Ok(()) => {}
                Err(_) => session.discard(),
            }
        }
    }

    /// The same, and hands the reason on.
    async fn abandon(&mut self, failure: Failure) -> Failure {
        self.undo().await;
        failure
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        // The caller went away in the middle: the connection goes with the transaction that is open on it.
        if let Some(session) = self.session.take() {
            session.discard();
        }
    }
}

/// How a transaction begins: it asks for the time, unless that is turned by a test.
fn opening<'a>(turned: Option<Timestamp>) -> Vec<Step<'a>> {
    let begin = Step::Word("BEGIN");
    if turned.is_some() { vec![begin] } else { vec![begin, Step::Rows("SELECT now()", Params::default())] }
}

/// The instant of a transaction, from the last answer to its opening.
fn instant(turned: Option<Timestamp>, answer: Option<Answer>) -> Work<Timestamp> {
    match (turned, answer) {
        (Some(now), _) => Ok(now),
        (None, Some(Answer::Rows(found))) => Ok(rows::now_of(&found).map_err(rows::unreadable)?),
        (None, _) => Err(Failure::internal("the database did not say what time it is")),
    }
}

/// An error at the COMMIT. Without an answer of the database nobody knows whether it took place.
pub(crate) fn commit_failure(error: tokio_postgres::Error) -> Failure {
    if error.as_db_error().is_some() {
        return Failure::Database(error);
    }
    Failure::Told(unknown_outcome(&error))
}

/// The connection broke after a write was sent and before its answer came.
pub(crate) fn unknown_outcome(error: &tokio_postgres::Error) -> StoreError {
    match store_error(error) {
        StoreError::Unavailable(_) if error.as_db_error().is_none() => StoreError::Unavailable(format!(
            "the connection broke before the answer came, so it is not known whether the write took place ({})",
            with_causes(error)
        )),
        other => other,
    }
}
