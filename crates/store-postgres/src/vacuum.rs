//! Vacuuming the tables that every job goes through as fast as their rows go.
//!
//! A row that is gone leaves its entry in the index until a vacuum comes, and every claim begins where those of the jobs
//! before it lie: it has to step over all of them. Autovacuum looks once a minute, which is a million jobs later on a busy
//! node; a claim takes several times as long by then, and so does a heartbeat.

use crate::error::Work;
use crate::params::params;
use crate::rows;
use crate::session::Session;
use crate::{Shared, sql};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// At most one part in so many of the time is spent here, however deep the queue is: its index is read as a whole.
const SHARE: u32 = 20;

/// How soon to look again when there is not much yet, or when somebody else is at it.
const LOOK: Duration = Duration::from_secs(1);

/// A pool that is smaller than this has no connection to spare.
const POOL_MIN: usize = 3;

/// Without the lock that cutting off the end of a table takes, and without waiting for somebody else who vacuums it.
const VACUUM: &str = "VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF, SKIP_LOCKED, PARALLEL 0)";

/// How much there may be to do, and since when nobody has looked.
#[derive(Debug)]
pub(crate) struct Vacuum {
    /// After how many jobs; never when this is 0.
    after: usize,
    /// How many were taken out of the queue here since the last look that found something.
    gone: AtomicUsize,
    /// Not before this. Whoever is at it holds it.
    next: Arc<Mutex<Instant>>,
}

impl Vacuum {
    pub(crate) fn new(after: usize) -> Self {
        Self { after, gone: AtomicUsize::new(0), next: Arc::new(Mutex::new(Instant::now())) }
    }

    /// So many more jobs are gone from the queue; says who may vacuum if that is enough.
    fn is_due(&self, jobs: usize) -> Option<OwnedMutexGuard<Instant>> {
        let gone = self.gone.fetch_add(jobs, Ordering::Relaxed).saturating_add(jobs);
        if self.after == 0 || gone < self.after {
            return None;
        }
        let next = Arc::clone(&self.next).try_lock_owned().ok()?;
        (Instant::now() >= *next).then_some(next)
    }
}

impl Shared {
    /// So many jobs were claimed: what they left behind is cleared away, by a task of its own, when it has become much.
    pub(crate) fn were_claimed(&self, jobs: usize) {
        if let Some(next) = self.vacuum.is_due(jobs)
            && self.pool.figures().max >= POOL_MIN
        {
            tokio::spawn(clear_away(Weak::clone(&self.itself), next));
        }
    }
}

/// Vacuums, and says when to look again. Whoever it is for may go away meanwhile.
async fn clear_away(shared: Weak<Shared>, mut next: OwnedMutexGuard<Instant>) {
    let Some(shared) = shared.upgrade() else { return };
    let began = Instant::now();
    let pause = match vacuum(&shared).await {
        Ok(tables) if tables.is_empty() => LOOK,
        Ok(tables) => {
            shared.vacuum.gone.store(0, Ordering::Relaxed);
            tracing::debug!(?tables, took = ?began.elapsed(), "vacuumed");
            began.elapsed() * SHARE
        }
        Err(failure) => {
            tracing::debug!("failed to vacuum: {failure:?}");
            LOOK
        }
    };
    *next = Instant::now() + pause;
}

/// Vacuums where half of that lies dead already, as far as the server has been told by its sessions; says where.
async fn vacuum(shared: &Shared) -> Work<Vec<String>> {
    // It can wait, and nobody is to wait for it.
    let Some(session) = shared.pool.spare_session().await else { return Ok(Vec::new()) };
    let tables = full_tables(&session, shared.vacuum.after / 2).await?;
    if !tables.is_empty() {
        // A table that somebody vacuums already is left to him.
        session.word(&format!("{VACUUM} {}", tables.join(", "))).await?;
    }
    Ok(tables)
}

async fn full_tables(session: &Session, dead: usize) -> Work<Vec<String>> {
    let found = session.rows(sql::dead_rows, &params![crate::params::limit(dead)]).await?;
    Ok(rows::collect(&found, rows::value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e08_nobody_looks_before_much_has_gone_nor_while_somebody_is_at_it_nor_too_soon() {
        let vacuum = Vacuum::new(100);
        assert!(vacuum.is_due(99).is_none());
        let mut at_it = vacuum.is_due(1).expect("that is enough");
        assert!(vacuum.is_due(100).is_none(), "somebody is at it");
        *at_it = Instant::now() + Duration::from_hours(1);
        drop(at_it);
        assert!(vacuum.is_due(100).is_none(), "it is too soon");
    }

    #[test]
    fn e08_who_wants_none_gets_none() {
        assert!(Vacuum::new(0).is_due(usize::MAX).is_none());
    }
}
