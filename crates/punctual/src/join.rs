//! Transactions of the program's own in which jobs can be made: one implementation for each driver, behind a feature.

use crate::{JobId, Punctual, Result};
use punctual_core::invalid::Invalid;
use punctual_core::job::NewJob;

#[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres"))]
mod postgres;
#[cfg(feature = "rusqlite")]
mod sqlite;

/// A transaction that [`Enqueue::send_in`](crate::Enqueue::send_in) can take part in.
///
/// | feature | transaction | `send_in` is |
/// | --- | --- | --- |
/// | `tokio-postgres` | `tokio_postgres::Transaction` | a future |
/// | `sqlx-postgres` | `sqlx::Transaction<Postgres>`, `sqlx::PgConnection` in a transaction | a future |
/// | `rusqlite` | `rusqlite::Transaction` on the store's own file | blocking, like the driver |
///
/// On PostgreSQL idle workers are told by the commit itself. On SQLite they notice it within a tenth of a second, or at
/// once after [`Punctual::wake`]. Not for other crates to implement.
pub trait Join: sealed::Sealed {
    /// What `send_in` answers with: a future of a result, or the result itself.
    type Sent<'a, T: Send + 'a>
    where
        Self: 'a;

    /// Makes jobs in this transaction.
    #[doc(hidden)]
    fn join<'a, T: Send + 'a>(
        &'a mut self, punctual: Punctual, jobs: std::result::Result<Vec<NewJob>, Invalid>, made: Made<T>,
    ) -> Self::Sent<'a, T>;
}

/// Makes handles of the ids.
#[doc(hidden)]
pub type Made<T> = fn(&Punctual, Vec<JobId>) -> Result<T>;

mod sealed {
    /// Keeps the trait open for change.
    pub trait Sealed {}
    #[cfg(feature = "tokio-postgres")]
    impl Sealed for tokio_postgres::Transaction<'_> {}
    #[cfg(feature = "sqlx-postgres")]
    impl Sealed for sqlx::PgConnection {}
    #[cfg(feature = "sqlx-postgres")]
    impl Sealed for sqlx::Transaction<'_, sqlx::Postgres> {}
    #[cfg(feature = "rusqlite")]
    impl Sealed for rusqlite::Transaction<'_> {}
}
