//! What can go wrong for a program that embeds Punctual, each with what to do about it.

use crate::{ErrorCode, JobId};
use punctual_core::invalid::Invalid;
use punctual_core::store::StoreError;

/// Why a call did not do what was asked.
///
/// ```
/// # punctual::testing::block_on(async {
/// use punctual::{Error, testing::TestPunctual};
///
/// let test = TestPunctual::new().await?;
/// let refused = test.schedule("nightly").cron("0 2 * *").err().expect("four fields are no cron expression");
/// assert!(matches!(&refused, Error::Invalid(why) if why.field == "cron"), "{refused}");
/// # Ok::<(), punctual::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input was refused; nothing was changed.
    #[error(transparent)]
    Invalid(Invalid),
    /// The store said no, or could not be asked.
    #[error(transparent)]
    Store(StoreError),
    /// There is no such job: its transaction was rolled back, it was never made, or it is older than the history kept.
    #[error("no job `{0}`; was the transaction that made it committed?")]
    NoSuchJob(JobId),
    /// The work failed for good: no retry follows.
    #[error("the job `{id}` failed ({code}): {error}")]
    Failed {
        /// The last job of the chain.
        id: JobId,
        /// Why.
        code: ErrorCode,
        /// The same in words.
        error: String,
    },
    /// The job was cancelled, or replaced by another one with the same key.
    #[error("the job `{id}` was stopped ({code}) and has no result")]
    Stopped {
        /// Which job.
        id: JobId,
        /// `cancelled`, `replaced`, or why it was skipped.
        code: ErrorCode,
    },
    /// The output is not what was asked for.
    #[error(
        "the output of the job `{id}` cannot be read as the type asked for: {error}; ask for the handler's own type"
    )]
    Output {
        /// Which job.
        id: JobId,
        /// What is wrong with it.
        error: String,
    },
    /// The transaction belongs to another kind of database than the store.
    #[error("the transaction is of {transaction} and the store is not; open the store on the same database")]
    OtherDatabase {
        /// What kind of transaction it is.
        transaction: &'static str,
    },
    /// The driver's own error, from a transaction of the program's.
    #[error("the transaction failed: {0}; roll it back and try again")]
    Driver(String),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(invalid) => Self::Invalid(invalid),
            error => Self::Store(error),
        }
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;
