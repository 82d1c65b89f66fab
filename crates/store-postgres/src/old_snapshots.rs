//! Whose snapshots keep dead rows from being removed, and from when on somebody is told.

use crate::error::Work;
use crate::params::params;
use crate::rows::{self, Columns, Unreadable};
use crate::session::Session;
use crate::sql;
use jiff::SignedDuration;
use punctual_core::duration::format_duration;
use std::time::SystemTime;
use tokio_postgres::Row;

/// From when on a snapshot is worth telling.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Older than this, and with this many dead rows in one table, it makes claims slow.
    old: SignedDuration,
    dead_rows: u64,
    /// Older than this it is told whatever has died so far: nothing is gained by waiting until it hurts.
    very_old: SignedDuration,
    /// Further behind than this it counts as old when nobody can say since when it is there.
    transactions: u64,
}

/// No verb of ours takes a minute, and neither does a statement that others should run beside a queue. Autovacuum comes
/// for a hot table after some 2,000 dead rows, so that 10,000 mean that it came in vain; a claim that has to pass them takes
/// about a millisecond longer. 100,000 transactions are those of a minute at a high load, and a standby that keeps up is
/// never that far behind.
const LIMITS: Limits = Limits {
    old: SignedDuration::from_mins(1),
    dead_rows: 10_000,
    very_old: SignedDuration::from_hours(1),
    transactions: 100_000,
};

/// Somebody who has a snapshot.
#[derive(Debug)]
struct Holder {
    who: String,
    /// What ends it.
    remedy: String,
    /// Unknown for replication slots, and for sessions that the store's role may not see.
    age: Option<SignedDuration>,
    /// Transactions that began since.
    behind: u64,
    /// The hot table with the most dead rows, and how many those are.
    table: String,
    dead_rows: u64,
}

impl Holder {
    fn read(row: &Row) -> Result<Self, Unreadable> {
        let mut c = Columns::of(row);
        Ok(Self {
            who: c.next()?,
            remedy: c.next()?,
            age: c.next::<Option<i64>>()?.map(SignedDuration::from_micros),
            behind: c.count()?,
            table: c.next()?,
            dead_rows: c.count()?,
        })
    }

    fn is_told(&self, limits: &Limits) -> bool {
        let is_old = self.age.map_or(self.behind > limits.transactions, |age| age > limits.old);
        let is_very_old = self.age.is_some_and(|age| age > limits.very_old);
        is_very_old || (is_old && self.dead_rows > limits.dead_rows)
    }

    fn words(&self) -> String {
        let Self { who, remedy, age, behind, table, dead_rows } = self;
        let since = match age {
            Some(age) => format!("for {}", format_duration(SignedDuration::from_secs(age.as_secs()))),
            None => format!("for {behind} transactions"),
        };
        format!("{who}, {since}, with {dead_rows} dead rows in {table}: {remedy}")
    }
}

/// Looks for snapshots that are too old, at most so many.
pub(crate) async fn find(session: &Session, turned: Option<SystemTime>, ask: i64) -> Work<Vec<String>> {
    let rows = session.rows(sql::old_snapshots, &params![turned, ask]).await?;
    let holders = rows::collect(&rows, Holder::read)?;
    Ok(holders.iter().filter(|holder| holder.is_told(&LIMITS)).map(Holder::words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(age: Option<i64>, behind: u64, dead_rows: u64) -> Holder {
        let age = age.map(SignedDuration::from_secs);
        let (who, remedy) = ("session 7 (ada, psql)".to_owned(), "SELECT pg_terminate_backend(7)".to_owned());
        Holder { who, remedy, age, behind, table: "queue".to_owned(), dead_rows }
    }

    #[test]
    fn c17_a_snapshot_is_told_when_it_is_old_and_costs_something_or_is_very_old() {
        let (old, very_old) = (SignedDuration::from_secs(60), SignedDuration::from_secs(3600));
        let limits = Limits { old, dead_rows: 10, very_old, transactions: 500 };
        for (age, behind, dead_rows, told) in [
            (Some(60), 1_000, 1_000, false),
            (Some(61), 0, 10, false),
            (Some(61), 0, 11, true),
            (Some(3_600), 1_000, 10, false),
            (Some(3_601), 0, 0, true),
            (Some(-5), 1_000, 1_000, false),
            (None, 500, 1_000, false),
            (None, 501, 10, false),
            (None, 501, 11, true),
        ] {
            assert_eq!(holder(age, behind, dead_rows).is_told(&limits), told, "{age:?} {behind} {dead_rows}");
        }
        assert!(!holder(Some(30), 0, 11).is_told(&limits));
        assert!(holder(Some(30), 0, 11).is_told(&Limits { old: SignedDuration::ZERO, ..limits }));
    }

    #[test]
    fn c17_what_is_told_says_who_how_long_and_how_it_ends() {
        let end = "SELECT pg_terminate_backend(7)";
        assert_eq!(
            holder(Some(123), 5, 80_000).words(),
            format!("session 7 (ada, psql), for 2m3s, with 80000 dead rows in queue: {end}")
        );
        assert_eq!(
            holder(None, 123_456, 80_000).words(),
            format!("session 7 (ada, psql), for 123456 transactions, with 80000 dead rows in queue: {end}")
        );
    }
}
