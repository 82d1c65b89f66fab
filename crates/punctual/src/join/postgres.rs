//! The drivers of PostgreSQL: each sends the one statement that the store says, with the document that it makes.

use super::{Join, Made};
use crate::address::Backing;
use crate::{Error, Punctual, Result};
use punctual_core::invalid::Invalid;
use punctual_core::job::NewJob;
use punctual_store_postgres::join;
use std::pin::Pin;

type Sending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The document of the jobs, if the store is one that reads it.
fn document(punctual: &Punctual, jobs: std::result::Result<Vec<NewJob>, Invalid>) -> Result<String> {
    let jobs = jobs?;
    match punctual.backing() {
        Backing::Postgres(_) => Ok(join::document(&jobs)?),
        #[cfg(feature = "sqlite")]
        Backing::Sqlite(_) => Err(Error::OtherDatabase { transaction: "PostgreSQL" }),
    }
}

#[cfg(feature = "tokio-postgres")]
impl Join for tokio_postgres::Transaction<'_> {
    type Sent<'a, T: Send + 'a>
        = Sending<'a, T>
    where
        Self: 'a;

    fn join<'a, T: Send + 'a>(
        &'a mut self, punctual: Punctual, jobs: std::result::Result<Vec<NewJob>, Invalid>, made: Made<T>,
    ) -> Sending<'a, T> {
        Box::pin(async move {
            let document = document(&punctual, jobs)?;
            let rows = self.query(join::ENQUEUE, &[&document]).await.map_err(|error| join::driver_error(&error))?;
            let ids = rows.iter().map(|row| row.try_get(0)).collect::<std::result::Result<Vec<String>, _>>();
            made(&punctual, join::ids(ids.map_err(|error| join::driver_error(&error))?)?)
        })
    }
}

#[cfg(feature = "sqlx-postgres")]
impl Join for sqlx::PgConnection {
    type Sent<'a, T: Send + 'a>
        = Sending<'a, T>
    where
        Self: 'a;

    fn join<'a, T: Send + 'a>(
        &'a mut self, punctual: Punctual, jobs: std::result::Result<Vec<NewJob>, Invalid>, made: Made<T>,
    ) -> Sending<'a, T> {
        Box::pin(async move {
            let document = document(&punctual, jobs)?;
            let sent = sqlx::query_scalar::<_, String>(join::ENQUEUE).bind(document).fetch_all(self).await;
            made(&punctual, join::ids(sent.map_err(|error| Error::Driver(error.to_string()))?)?)
        })
    }
}

#[cfg(feature = "sqlx-postgres")]
impl Join for sqlx::Transaction<'_, sqlx::Postgres> {
    type Sent<'a, T: Send + 'a>
        = Sending<'a, T>
    where
        Self: 'a;

    fn join<'a, T: Send + 'a>(
        &'a mut self, punctual: Punctual, jobs: std::result::Result<Vec<NewJob>, Invalid>, made: Made<T>,
    ) -> Sending<'a, T> {
        (**self).join(punctual, jobs, made)
    }
}
