//! What PostgreSQL's errors mean to a caller of the store.

use crate::freeze::FROZEN;
use punctual_core::invalid::Invalid;
use punctual_core::store::StoreError;
use tokio_postgres::error::SqlState;

/// Why the work of a verb stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The answer for the caller.
    Told(StoreError),
    /// The database's own words, before anybody has judged them.
    Database(tokio_postgres::Error),
}

/// The work of a verb, or of a part of it.
pub(crate) type Work<T> = Result<T, Failure>;

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Told(error)
    }
}

impl From<Invalid> for Failure {
    fn from(error: Invalid) -> Self {
        Self::Told(error.into())
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Told(error) => error,
            Failure::Database(error) => store_error(&error),
        }
    }
}

impl Failure {
    /// Something that must not happen.
    pub(crate) fn internal(what: impl Into<String>) -> Self {
        Self::Told(StoreError::Internal(what.into()))
    }

    fn state(&self) -> Option<&SqlState> {
        match self {
            Self::Database(error) => error.code(),
            Self::Told(_) => None,
        }
    }

    /// Two transactions met, and this one gave way: nothing was changed, and the same again will do.
    pub(crate) fn is_conflict(&self) -> bool {
        self.state().is_some_and(|state| {
            *state == SqlState::T_R_DEADLOCK_DETECTED || *state == SqlState::T_R_SERIALIZATION_FAILURE
        })
    }

    /// The connection broke or was closed, without an answer to what was asked.
    pub(crate) fn is_of_the_connection(&self) -> bool {
        match self {
            Self::Database(error) => error.as_db_error().is_none_or(|error| error.code().code().starts_with("57P")),
            Self::Told(_) => false,
        }
    }

    /// A row with this key exists.
    pub(crate) fn is_unique_violation(&self) -> bool {
        self.state().is_some_and(|state| *state == SqlState::UNIQUE_VIOLATION)
    }

    /// The statement itself was refused, for what is in it: a smaller batch may find the culprit.
    pub(crate) fn is_of_the_data(&self) -> bool {
        // Classes: 22 data exception, 23 integrity constraint, 54 program limit, P0 raised by a trigger.
        let of_the_data =
            |state: &SqlState| ["22", "23", "54", "P0"].iter().any(|class| state.code().starts_with(class));
        self.state().is_some_and(of_the_data)
    }
}

/// Translates an error, so that the caller knows whether to try again, to make room, or to look for a fault.
pub(crate) fn store_error(error: &tokio_postgres::Error) -> StoreError {
    let Some(database) = error.as_db_error() else {
        // Without an answer of the database: the connection broke, was refused, or could not be made.
        return StoreError::Unavailable(with_causes(error));
    };
    let words = database.message().to_owned();
    let state = database.code();
    match state.code().get(..2) {
        _ if state.code() == FROZEN => StoreError::Frozen { why: words },
        _ if *state == SqlState::DISK_FULL => StoreError::Full(words),
        // 08 connection, 25006 read-only, 40 rollback, 53 resources, 55 not in the right state, 57 operator.
        Some("08" | "40" | "53" | "55" | "57") => StoreError::Unavailable(words),
        _ if *state == SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::Unavailable(words),
        _ if *state == SqlState::CHARACTER_NOT_IN_REPERTOIRE => {
            Invalid::new("text", "holds a character that no text column can keep").remedy("remove NUL").into()
        }
        _ => StoreError::Internal(format!("{words} ({})", state.code())),
    }
}

/// An error and what lies below it, because the driver's own words are short.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(below) = cause {
        words.push_str(": ");
        words.push_str(&below.to_string());
        cause = below.source();
    }
    words
}
