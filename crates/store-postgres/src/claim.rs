//! Nodes, leases and claims: who may take a job, and taking it in queue order.

use crate::Shared;
use crate::error::{Failure, Work};
use crate::jobs::Placing;
use crate::params::{Params, params};
use crate::rows::{self, Batch, Columns, Unreadable, document, value};
use crate::session::{Session, Step};
use crate::sql;
use crate::tx::{Patience, Tx, commit_failure};
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{JobId, LeaseId, NodeId};
use punctual_core::invalid::Invalid;
use punctual_core::job::Job;
use punctual_core::limits::Claimed;
use punctual_core::order::Place;
use punctual_core::store::{ClaimRequest, ClaimedJob, Heartbeat, Lease, NewNode, NodePulse, StoreError, StoreResult};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio_postgres::Row;
use uuid::Uuid;

/// The lock that claims share (`open_lanes`), and that pausing and reserving a queue take for themselves.
///
/// One for all queues: a claim may be from thousands of them, and a lock for each would exhaust the lock table. Who
/// pauses a queue waits for the claims that are going on, some tens of milliseconds at most, whichever queue they are from.
pub(crate) const CLAIMS: i64 = 7_815_263_002;

/// Claims: one statement is the whole transaction, and so one round trip. Which of two it is depends on whether there
/// are limits, and both say so: who was mistaken asks again.
pub(crate) async fn claim_jobs(shared: &Shared, request: &ClaimRequest) -> StoreResult<Claimed> {
    let mut patience = Patience::default();
    loop {
        let limited = shared.limited.load(Ordering::Relaxed);
        match try_claim(shared, request, limited).await {
            Err(failure) if patience.allows(&failure).await => {}
            Err(failure) => return Err(failure.into()),
            Ok((answer, claimed)) => {
                shared.limited.store(answer.limited, Ordering::Relaxed);
                // Without limits the other statement takes all the same; with them this one took nothing.
                if limited || !answer.limited {
                    shared.were_claimed(claimed.len());
                    return Ok(claimed);
                }
            }
        }
    }
}

/// Of so many claims that come at once, the later ones travel behind the first on its connection.
///
/// On connections of their own they would step over each other's rows, which costs each of them more than all the rest of
/// it; one after the other, but without a pause in which the answer is on its way, they take the time of one.
const IN_A_LINE: usize = 2;

/// The connection on which a claim is on its way, and the lease that it is for: who stands still must keep no other node
/// of the same program waiting.
#[derive(Debug, Default)]
pub(crate) struct ClaimLine(Mutex<Option<(LeaseId, Weak<Session>)>>);

impl ClaimLine {
    /// The connection of the line, if there is one with a place left.
    fn join(&self, lease: LeaseId) -> Option<Arc<Session>> {
        let line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (whose, session) = line.as_ref()?;
        let session = session.upgrade().filter(|_| *whose == lease)?;
        (Arc::strong_count(&session) <= IN_A_LINE && !session.is_spent()).then_some(session)
    }

    /// Begins a line on a connection.
    fn begin(&self, lease: LeaseId, session: Session) -> Arc<Session> {
        let session = Arc::new(session);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((lease, Arc::downgrade(&session)));
        session
    }
}

async fn try_claim(shared: &Shared, request: &ClaimRequest, limited: bool) -> Work<(ClaimAnswer, Claimed)> {
    let lease = request.lease.lease_id;
    // While there is always another claim behind, the connection never goes back: whoever waits for one comes first, and
    // those who wait at a pooler cannot be seen.
    let may_join = shared.pool.is_named() && shared.pool.figures().waiting == 0;
    let joined = if may_join { shared.claims.join(lease) } else { None };
    let session = match joined {
        Some(session) => session,
        None => shared.claims.begin(lease, shared.session().await?),
    };
    let (answer, claimed) = claim_on(shared, &session, request, limited).await?;
    let answer = answer.filter(|answer| answer.holds).ok_or(StoreError::LostLease)?;
    Ok((answer, claimed))
}

/// Claims on a connection; what is claimed is nothing unless the answer says that the lease holds.
pub(crate) async fn claim_on(
    shared: &Shared, session: &Session, request: &ClaimRequest, limited: bool,
) -> Work<(Option<ClaimAnswer>, Claimed)> {
    let (node, lease) = (request.lease.node_id.0, request.lease.lease_id.0);
    let queues: Option<Vec<&str>> =
        (!request.queues.is_empty()).then(|| request.queues.iter().map(String::as_str).collect());
    let types: Vec<&str> = request.job_types.iter().map(String::as_str).collect();
    let limit = crate::params::limit(request.limit);
    let params = params![shared.turned(), queues, types, node, lease, request.claim_id.0, limit];
    let mut batch = Batch::default();
    let mut answer = None;
    let mut claimed: Vec<(Place, Arc<Job>)> = Vec::new();
    let read = |row: &Row| {
        if is_claimed(row)? {
            claimed.push(claimed_job(row, &mut batch)?);
        } else {
            answer = Some(ClaimAnswer::read(row, &mut batch)?);
        }
        Ok(())
    };
    let statement = if limited { sql::claim_within_limits } else { sql::claim_jobs };
    let rows: Vec<Result<(), Unreadable>> = session.read(statement, &params, read).await.map_err(commit_failure)?;
    rows.into_iter().collect::<Result<(), _>>().map_err(rows::unreadable)?;
    claimed.sort_unstable_by_key(|(place, _)| *place);
    let more_in = answer.as_ref().and_then(|answer| answer.more_in);
    let jobs = answer.as_ref().map_or_else(Vec::new, |ClaimAnswer { at, .. }| {
        claimed.into_iter().map(|(_, job)| ClaimedJob { job, started_at: *at }).collect()
    });
    Ok((answer, Claimed { jobs, more_in }))
}

/// How many columns the answer to a claim has: those that all jobs have, a record of those that few have, three of the
/// place, and a record of what is said once.
const CLAIMED_COLUMNS: usize = 17;

/// Whether a row of the answer to a claim has a job.
fn is_claimed(row: &Row) -> Result<bool, Unreadable> {
    Ok(Columns::of(row).optional_id::<JobId>()?.is_some())
}

/// What the row without a job says.
pub(crate) struct ClaimAnswer {
    /// Since when all of them run.
    at: Timestamp,
    /// Whether the lease holds.
    holds: bool,
    /// Whether there are limits.
    limited: bool,
    /// When the next job that a rate keeps back may start.
    more_in: Option<SignedDuration>,
}

impl ClaimAnswer {
    /// It comes before the jobs.
    fn read(row: &Row, batch: &mut Batch) -> Result<Self, Unreadable> {
        let mut c = Columns::of(row);
        c.skip(CLAIMED_COLUMNS - 1);
        let mut c = c.record()?.ok_or_else(|| Unreadable::new("answer", "is missing"))?;
        let (at, holds, limited) = (c.time()?, c.next()?, c.next()?);
        let more_in: Option<i64> = c.next()?;
        let (lanes, queues): (Option<Vec<i64>>, Option<Vec<String>>) = (c.next()?, c.next()?);
        batch.queues = lanes.unwrap_or_default().into_iter().zip(queues.unwrap_or_default()).collect();
        Ok(Self { at, holds, limited, more_in: more_in.map(SignedDuration::from_micros) })
    }
}

fn claimed_job(row: &Row, batch: &mut Batch) -> Result<(Place, Arc<Job>), Unreadable> {
    let mut c = Columns::of(row);
    let job = rows::job_of_lane(&mut c, batch)?;
    let place = Place {
        priority: c.next::<Option<i32>>()?.unwrap_or(job.spec.priority),
        position: c.next()?,
        created_at: c.optional_time()?.unwrap_or(job.created_at),
        job_id: job.id,
    };
    // Jobs are large: they are put where they stay.
    Ok((place, Arc::new(job)))
}

/// Renews a lease, on the connection that heartbeats have to themselves.
pub(crate) async fn heartbeat(shared: &Shared, lease: Lease) -> StoreResult<Heartbeat> {
    let session = shared.pulse_session().await?;
    let beat = session.rows(sql::heartbeat, &params![lease.node_id.0, lease.lease_id.0]).await;
    let rows = beat.map_err(|error| crate::tx::unknown_outcome(&error))?;
    let jobs: Vec<(i64, Option<JobId>, bool)> = rows::collect(&rows, |row| {
        let mut c = Columns::of(row);
        Ok((c.next()?, c.optional_id()?, c.next()?))
    })?;
    let counter = jobs.first().map(|(counter, ..)| *counter).ok_or(StoreError::LostLease)?;
    let cancel_requested = jobs.iter().filter(|(_, _, cancel)| *cancel).filter_map(|(_, id, _)| *id).collect();
    Ok(Heartbeat { counter, cancel_requested, running: jobs.into_iter().filter_map(|(_, id, _)| id).collect() })
}

impl Tx<'_> {
    pub(crate) async fn register_node(&mut self, node: &NewNode) -> Work<Lease> {
        let node_id = NodeId::at(self.now, self.id_bits());
        let lease_id = LeaseId::from_random(*Uuid::new_v4().as_bytes());
        let insert =
            "INSERT INTO punctual_internal.nodes (id, name, offers, started_at) VALUES ($1, $2, $3::text::json, $4)";
        let params = params![node_id.0, node.name.as_str(), document("offers", &node.offers)?, self.at()];
        self.execute(insert, params).await?;
        let lease = "INSERT INTO punctual_internal.leases (node_id, lease_id) VALUES ($1, $2)";
        self.execute(lease, params![node_id.0, lease_id.0]).await?;
        Ok(Lease { node_id, lease_id })
    }

    pub(crate) async fn leave(&mut self, lease: Lease) -> Work<()> {
        // A claim that is going on holds the row, so that it is either seen here or finds the lease gone.
        let find = "SELECT 1 FROM punctual_internal.leases WHERE node_id = $1 AND lease_id = $2 FOR UPDATE";
        self.one(find, params![lease.node_id.0, lease.lease_id.0], value::<i32>).await?.ok_or(StoreError::LostLease)?;
        let busy = "SELECT count(*) FROM punctual_internal.running WHERE lease_id = $1";
        let running: i64 = self.one(busy, params![lease.lease_id.0], value).await?.unwrap_or(0);
        if running > 0 {
            return Err(Invalid::new("lease", format!("still holds {running} running jobs"))
                .remedy("finish them or give them back first")
                .into());
        }
        self.execute("DELETE FROM punctual_internal.leases WHERE lease_id = $1", params![lease.lease_id.0]).await?;
        let left = "UPDATE punctual_internal.nodes SET left_at = $2 WHERE id = $1";
        self.execute(left, params![lease.node_id.0, self.at()]).await?;
        Ok(())
    }

    /// Whether a lease holds; nobody ends it before this transaction is done.
    pub(crate) async fn check_lease(&self, lease: Lease) -> Work<()> {
        let find = "SELECT 1 FROM punctual_internal.leases WHERE node_id = $1 AND lease_id = $2 FOR KEY SHARE";
        let found = self.one(find, params![lease.node_id.0, lease.lease_id.0], value::<i32>).await?;
        found.map(|_| ()).ok_or(Failure::Told(StoreError::LostLease))
    }

    pub(crate) async fn give_back(&mut self, lease: Lease, jobs: &[JobId]) -> Work<Vec<JobId>> {
        self.check_lease(lease).await?;
        let ids: Vec<Uuid> = jobs.iter().map(|id| id.0).collect();
        let steps = [
            Step::Rows(sql::lock_serial_keys_of_running, params![ids.clone()]),
            Step::Rows(sql::give_back, params![ids, lease.node_id.0, lease.lease_id.0]),
        ];
        let taken = self.pipeline(&steps).await?.pop().map(crate::session::Answer::rows).unwrap_or_default();
        let mut taken: HashMap<JobId, Placing> =
            rows::collect(&taken, placing)?.into_iter().map(|p| (p.id, p)).collect();
        let places: Vec<Placing> = jobs.iter().filter_map(|id| taken.remove(id)).collect();
        let keys: BTreeSet<String> = places.iter().filter_map(|place| place.serial_key.clone()).collect();
        self.queue(&places).await?;
        self.settle_serial_keys(&keys).await?;
        Ok(places.into_iter().map(|place| place.id).collect())
    }
}

fn placing(row: &Row) -> Result<Placing, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Placing {
        id: c.id()?,
        lane_id: c.next()?,
        priority: c.next()?,
        position: Some(c.next()?),
        created_at: c.time()?,
        queued_at: c.time()?,
        serial_key: c.next()?,
        schedule_id: c.optional_id()?,
        tags: c.next()?,
    })
}

/// All nodes that hold a lease.
pub(crate) async fn read_pulses(session: &Session) -> Work<Vec<NodePulse>> {
    let sql = "SELECT l.node_id, l.lease_id, n.name, l.counter, n.offers::text
               FROM punctual_internal.leases AS l JOIN punctual_internal.nodes AS n ON n.id = l.node_id
               ORDER BY l.node_id";
    let rows = session.rows(sql, &Params::default()).await?;
    Ok(rows::collect(&rows, |row| {
        let mut c = Columns::of(row);
        Ok(NodePulse {
            node_id: c.id()?,
            lease_id: c.id()?,
            name: c.next()?,
            counter: c.next()?,
            offers: c.document("offers")?,
        })
    })?)
}
