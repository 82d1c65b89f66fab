//! `rusqlite`: blocking, on a connection of the program's to the store's own file.

use super::{Join, Made};
use crate::address::Backing;
use crate::{Error, Punctual, Result};
use punctual_core::invalid::Invalid;
use punctual_core::job::NewJob;

impl Join for rusqlite::Transaction<'_> {
    type Sent<'a, T: Send + 'a>
        = Result<T>
    where
        Self: 'a;

    fn join<'a, T: Send + 'a>(
        &'a mut self, punctual: Punctual, jobs: std::result::Result<Vec<NewJob>, Invalid>, made: Made<T>,
    ) -> Result<T> {
        let jobs = jobs?;
        let ids = match punctual.backing() {
            Backing::Sqlite(store) => store.enqueue_in(self, &jobs)?,
            #[cfg(feature = "postgres")]
            Backing::Postgres(_) => return Err(Error::OtherDatabase { transaction: "SQLite" }),
        };
        made(&punctual, ids)
    }
}
