//! What SQLite's errors mean to a caller of the store.

use punctual_core::store::StoreError;
use rusqlite::ErrorCode;

/// Translates an error, so that the caller knows whether to try again, to make room, or to look for a fault.
#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    if let Some(frozen) = crate::freeze::frozen_error(&error) {
        return frozen;
    }
    let Some(code) = error.sqlite_error_code() else {
        return StoreError::Internal(error.to_string());
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StoreError::Unavailable("another process holds the database".to_owned())
        }
        ErrorCode::DiskFull => StoreError::Full("the disk is full".to_owned()),
        ErrorCode::SystemIoFailure => StoreError::Unavailable(format!("reading or writing failed: {error}")),
        ErrorCode::ReadOnly => StoreError::Unavailable("the database file is read-only".to_owned()),
        ErrorCode::CannotOpen => StoreError::Unavailable(format!("the database cannot be opened: {error}")),
        ErrorCode::NotADatabase => StoreError::Unavailable("the file is not an SQLite database".to_owned()),
        _ => StoreError::Internal(error.to_string()),
    }
}

/// Whether a statement was refused because a row with this key exists.
pub(crate) fn is_unique_violation(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_extended_error_code(),
        Some(rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY)
    )
}
