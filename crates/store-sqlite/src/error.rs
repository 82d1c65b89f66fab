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
        // The last of them is what a reader gets after ten seconds while somebody stands still in the middle of a commit.
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
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

/// Whether a statement was refused because somebody else holds the file.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether a statement was refused because a row with this key exists.
pub(crate) fn is_unique_violation(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_extended_error_code(),
        Some(rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY)
    )
}

#[cfg(test)]
mod tests {
    use super::store_error;
    use punctual_core::store::StoreError;
    use rusqlite::ffi;

    /// Whoever is told that the store is out of reach tries again and keeps his reports; any other error would be taken
    /// for a fault of what was to be written.
    #[test]
    fn c12_who_has_to_wait_for_another_process_is_told_to_try_again() {
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_LOCKED, ffi::SQLITE_PROTOCOL] {
            let error = store_error(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
            assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("another process")), "{error:?}");
        }
    }
}
