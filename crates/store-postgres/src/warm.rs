//! Getting ready: the plans of the statements that are in a hurry, on the connections that a busy node uses.
//!
//! A statement that a connection meets for the first time costs many times what it costs from then on: the database reads
//! what it must know of the tables, and plans. A thousand slots that are due in the first minute of a node would wait for it.

use crate::Shared;
use crate::claim::claim_on;
use crate::close::{close_alike_on, close_completed_on};
use crate::error::Work;
use crate::fire::begin_impatiently_on;
use crate::making::{Making, making};
use crate::session::Session;
use punctual_core::id::{ClaimId, LeaseId, NodeId};
use punctual_core::job::{NewJob, Origin};
use punctual_core::store::{ClaimRequest, Lease, StoreResult};
use punctual_core::target::Target;
use uuid::Uuid;

/// Two batches of slots, two claims, ends and new jobs: what is at work at once.
const CONNECTIONS: usize = 6;

/// What is left to others meanwhile.
const SPARE: usize = 2;

/// Of how many it is known that they are ready: where connections are made again and again, those of long ago are gone.
const KNOWN: usize = 100;

/// Nobody can have a queue of this name, and so nothing is made.
const NO_QUEUE: &str = "";

/// Runs each of these statements once on each of the connections that are used next, in such a way that nothing comes of
/// it. Those that are ready are left alone, so that it costs nothing to ask again.
pub(crate) async fn warm_up(shared: &Shared) -> StoreResult<()> {
    // Behind a pooler nothing is kept.
    if !shared.pool.is_named() {
        return Ok(());
    }
    // Of two nodes of one store, one is enough; both would leave no connection to others.
    let Ok(mut ready) = shared.warmed.try_lock() else { return Ok(()) };
    if ready.len() > KNOWN {
        ready.clear();
    }
    let count = CONNECTIONS.min(shared.pool.figures().max.saturating_sub(SPARE));
    // Held at the same time, so that each is another one; but nobody is made to wait for them.
    let mut sessions = Vec::with_capacity(count);
    while sessions.len() < count {
        let Some(session) = shared.pool.spare_session().await else { break };
        sessions.push(session);
    }
    // The last one first, so that the pool hands them out in the same order as before.
    while let Some(session) = sessions.pop() {
        let made_at = session.made_at();
        if !ready.contains(&made_at) {
            warm(shared, session).await?;
            ready.insert(made_at);
        }
    }
    Ok(())
}

async fn warm(shared: &Shared, session: Session) -> Work<()> {
    let nobody = Lease { node_id: NodeId(Uuid::new_v4()), lease_id: LeaseId(Uuid::new_v4()) };
    let claim_id = ClaimId(Uuid::new_v4());
    let claim = ClaimRequest { lease: nobody, claim_id, queues: Vec::new(), job_types: Vec::new(), limit: 0 };
    claim_on(shared, &session, &claim, false).await?;
    close_alike_on(shared, &session, nobody, &[]).await?;
    close_completed_on(shared, &session, nobody, &[]).await?;
    let (spec, origin) =
        (NewJob { queue: NO_QUEUE.to_owned(), ..NewJob::new(Target::task("none")) }, Origin::default());
    let job = || Making { bits: shared.id_bits(), spec: &spec, origin: &origin };
    for jobs in [vec![job()], vec![job(), job()]] {
        let (statement, params) = making(&jobs, shared.turned(), true)?;
        session.rows(statement, &params).await?;
    }
    let mut tx = begin_impatiently_on(shared, session).await?;
    let nothing = async {
        tx.next_due(shared).await?;
        tx.take_due(shared, 0).await?;
        tx.write_singles(&[], None).await?;
        tx.promote_due_jobs(0).await
    };
    let nothing = nothing.await.map(|_| ());
    tx.end(nothing).await
}
