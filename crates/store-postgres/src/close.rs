//! Closing runs that completed: almost all, and by one statement for a batch.

use crate::Shared;
use crate::error::Work;
use crate::making::trimmed;
use crate::params::{Params, params};
use crate::rows::{self, Columns};
use crate::session::{Answer, Session, Step};
use crate::sql;
use crate::tx::{Tx, commit_failure};
use punctual_core::closing::storable_text;
use punctual_core::json::Json;
use punctual_core::store::{FinishedRun, Lease};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_postgres::Row;
use uuid::Uuid;

/// How many ends make it worth a round trip more not to look at them before they are closed.
pub(crate) const MANY: usize = 64;

/// After a batch that was not alike, so many times as many runs that would have been are closed by the other statement
/// before the next try: what is undone costs as much as the batch is large.
const DOUBT: usize = 16;

/// Whether the next batch is worth a try by `close_alike`, which is undone if one of its jobs is of another kind.
#[derive(Debug, Default)]
pub(crate) struct Alikeness {
    /// How many runs have to be alike before the next try.
    doubt: AtomicUsize,
}

impl Alikeness {
    fn is_likely(&self) -> bool {
        self.doubt.load(Ordering::Relaxed) == 0
    }

    /// What a batch of so many turned out to be.
    fn saw(&self, alike: bool, runs: usize) {
        let next = |doubt: usize| Some(if alike { doubt.saturating_sub(runs) } else { doubt.max(DOUBT * runs) });
        // It is always changed.
        let _before = self.doubt.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

/// Whether there is nothing to tell of a run but that it completed.
fn has_no_more(run: &FinishedRun) -> bool {
    run.exit_code.is_none() && run.output.is_none() && run.log_ref.is_none() && run.usage.is_none()
}

fn ids(runs: &[FinishedRun]) -> Vec<Uuid> {
    runs.iter().map(|run| run.job_id.0).collect()
}

/// Closes runs of which nothing else is to be written, all of them or none; says whether it did. Not even tried where it
/// is not likely to succeed, nor for a few: those are closed in one round trip by the other statement.
pub(crate) async fn close_alike(shared: &Shared, lease: Lease, runs: &[FinishedRun]) -> Work<bool> {
    let is_worth_it = runs.len() == 1 || runs.len() >= MANY;
    if !is_worth_it || !shared.alikeness.is_likely() || !runs.iter().all(has_no_more) {
        return Ok(false);
    }
    let alike = if runs.len() == 1 {
        // One is all or none by itself.
        let session = shared.session().await?;
        close_alike_on(shared, &session, lease, runs).await? == 1
    } else {
        close_all_alike(shared, lease, runs).await?
    };
    shared.alikeness.saw(alike, runs.len());
    Ok(alike)
}

/// Two round trips: what is alike is closed, and the COMMIT, unless that was not all.
async fn close_all_alike(shared: &Shared, lease: Lease, runs: &[FinishedRun]) -> Work<bool> {
    let step = Step::Count(sql::close_alike, close_alike_params(shared, lease, runs));
    let (mut tx, mut answers) = Tx::begin_with(shared, vec![step]).await?;
    let closed = answers.pop().map_or(0, |answer| answer.len());
    if closed < runs.len() {
        tracing::debug!(runs = runs.len(), closed, "not all of these ends are alike: they are closed as others are");
        tx.undo().await;
        return Ok(false);
    }
    tx.pipeline_and_commit(Vec::new()).await?;
    Ok(true)
}

/// Closes runs on a connection, in a transaction of its own; says how many it closed.
pub(crate) async fn close_alike_on(
    shared: &Shared, session: &Session, lease: Lease, runs: &[FinishedRun],
) -> Work<u64> {
    let params = close_alike_params(shared, lease, runs);
    session.count(sql::close_alike, &params).await.map_err(commit_failure)
}

fn close_alike_params<'a>(shared: &Shared, lease: Lease, runs: &[FinishedRun]) -> Params<'a> {
    let ids = ids(runs);
    let (first, last) = (ids.iter().min().copied(), ids.iter().max().copied());
    params![shared.turned(), ids, lease.node_id.0, lease.lease_id.0, first, last]
}

/// What goes into `close_completed`. If the rest is judged in the same transaction, it closes what it can; else all or
/// nothing.
fn close_completed_params<'a>(shared: &Shared, lease: Lease, runs: &'a [FinishedRun], all: bool) -> Params<'a> {
    let ids = ids(runs);
    let (first, last) = (ids.iter().min().copied(), ids.iter().max().copied());
    params![
        shared.turned(),
        ids,
        lease.node_id.0,
        lease.lease_id.0,
        trimmed(runs.iter().map(|run| run.exit_code)),
        trimmed(runs.iter().map(|run| run.output.as_ref().map(Json::as_str))),
        trimmed(runs.iter().map(|run| run.log_ref.as_deref().map(storable_text))),
        trimmed(runs.iter().map(|run| run.usage.as_ref().map(Json::as_str))),
        all,
        runs.iter().all(has_no_more),
        first,
        last,
    ]
}

/// For each of the runs, whether `close_completed` closed it; notes whether they were alike. What was reported twice counts
/// once.
fn closed_of(shared: &Shared, runs: &[FinishedRun], answer: &[Row]) -> Work<Vec<bool>> {
    let found = rows::collect(answer, |row| {
        let mut c = Columns::of(row);
        Ok((c.count()?, c.next::<bool>()?, c.next::<Option<Vec<Uuid>>>()?))
    })?;
    Ok(match found.into_iter().next() {
        Some((count, alike, _)) if usize::try_from(count) == Ok(runs.len()) => {
            // Those that have more to tell are known by themselves, and are not tried in vain; and a connection that gets
            // ready closes none, and says nothing about those that follow.
            if !runs.is_empty() && runs.iter().all(has_no_more) {
                shared.alikeness.saw(alike, runs.len());
            }
            vec![true; runs.len()]
        }
        Some((_, _, Some(closed))) => {
            let mut closed: HashSet<Uuid> = closed.into_iter().collect();
            runs.iter().map(|run| closed.remove(&run.job_id.0)).collect()
        }
        Some((_, _, None)) | None => vec![false; runs.len()],
    })
}

/// Closes runs on a connection, in a transaction of its own; for each, whether it was closed.
pub(crate) async fn close_completed_on(
    shared: &Shared, session: &Session, lease: Lease, runs: &[FinishedRun],
) -> Work<Vec<bool>> {
    let params = close_completed_params(shared, lease, runs, true);
    closed_of(shared, runs, &session.rows(sql::close_completed, &params).await.map_err(commit_failure)?)
}

/// Begins a transaction that closes what can be closed without a look; for each, whether it was closed. The rest is to be
/// judged by whoever goes on with it.
pub(crate) async fn begin_closing<'s>(
    shared: &'s Shared, lease: Lease, runs: &[FinishedRun],
) -> Work<(Tx<'s>, Vec<bool>)> {
    let step = Step::Rows(sql::close_completed, close_completed_params(shared, lease, runs, false));
    let (mut tx, mut answers) = Tx::begin_with(shared, vec![step]).await?;
    let answer = answers.pop().map(Answer::rows).unwrap_or_default();
    match closed_of(shared, runs, &answer) {
        Ok(closed) => Ok((tx, closed)),
        Err(failure) => tx.end(Err(failure)).await,
    }
}

#[cfg(test)]
mod tests {
    use super::{Alikeness, DOUBT};

    #[test]
    fn e08_after_a_batch_that_was_not_alike_many_that_are_go_by_before_the_next_try() {
        let alikeness = Alikeness::default();
        assert!(alikeness.is_likely());
        alikeness.saw(true, 100);
        assert!(alikeness.is_likely());
        alikeness.saw(false, 100);
        for batch in 1..DOUBT {
            alikeness.saw(true, 100);
            assert!(!alikeness.is_likely(), "after {batch}");
        }
        alikeness.saw(false, 100);
        for _ in 0..DOUBT {
            assert!(!alikeness.is_likely(), "one that was not alike begins it anew");
            alikeness.saw(true, 100);
        }
        assert!(alikeness.is_likely());
    }

    #[test]
    fn e08_single_runs_that_are_alike_do_not_earn_what_a_large_batch_spends() {
        let alikeness = Alikeness::default();
        alikeness.saw(false, 4000);
        (0..1000).for_each(|_| alikeness.saw(true, 1));
        assert!(!alikeness.is_likely());
        let seldom = Alikeness::default();
        seldom.saw(false, 1);
        (0..DOUBT).for_each(|_| seldom.saw(true, 1));
        assert!(seldom.is_likely(), "what one of a kind costs is soon forgotten");
    }

    #[test]
    fn e08_a_single_run_of_another_kind_forgives_nothing_that_a_large_batch_owes() {
        let alikeness = Alikeness::default();
        alikeness.saw(false, 4000);
        alikeness.saw(false, 1);
        alikeness.saw(true, 15 * 4000);
        assert!(!alikeness.is_likely());
        alikeness.saw(true, 4000);
        assert!(alikeness.is_likely());
    }
}
