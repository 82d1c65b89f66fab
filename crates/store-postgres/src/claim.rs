//! Nodes, leases and claims: who may take a job, and taking it in queue order.

use crate::Shared;
use crate::error::{Failure, Work};
use crate::jobs::Placing;
use crate::params::{Params, params};
use crate::rows::{self, Columns, LastTarget, Unreadable, document, value};
use crate::session::{Session, Step};
use crate::sql;
use crate::tx::{Patience, Tx, commit_failure};
use jiff::Timestamp;
use punctual_core::id::{JobId, LeaseId, NodeId};
use punctual_core::invalid::Invalid;
use punctual_core::job::Job;
use punctual_core::order::Place;
use punctual_core::store::{ClaimRequest, ClaimedJob, Heartbeat, Lease, NewNode, NodePulse, StoreError, StoreResult};
use std::collections::{BTreeSet, HashMap};
use tokio_postgres::Row;
use uuid::Uuid;

/// The lock that claims share (`open_lanes`), and that pausing and reserving a queue take for themselves.
///
/// One for all queues: a claim may be from thousands of them, and a lock for each would exhaust the lock table. Who
/// pauses a queue waits for the claims that are going on, a few milliseconds, whichever queue they are from.
pub(crate) const CLAIMS: i64 = 7_815_263_002;

/// Claims: one statement is the whole transaction, and so one round trip.
pub(crate) async fn claim_jobs(shared: &Shared, request: &ClaimRequest) -> StoreResult<Vec<ClaimedJob>> {
    let mut patience = Patience::default();
    loop {
        match try_claim(shared, request).await {
            Err(failure) if patience.allows(&failure).await => {}
            claimed => return Ok(claimed?),
        }
    }
}

async fn try_claim(shared: &Shared, request: &ClaimRequest) -> Work<Vec<ClaimedJob>> {
    let (node, lease) = (request.lease.node_id.0, request.lease.lease_id.0);
    let queues: Option<Vec<&str>> =
        (!request.queues.is_empty()).then(|| request.queues.iter().map(String::as_str).collect());
    let types: Vec<&str> = request.job_types.iter().map(String::as_str).collect();
    let limit = crate::params::limit(request.limit);
    let params = params![shared.turned(), queues, types, node, lease, request.claim_id.0, limit];
    let session = shared.session().await?;
    let mut last = LastTarget::default();
    let mut started_at = None;
    // Jobs are large: they are put where they stay, and moved as little as can be.
    let mut claimed: Vec<(Place, Job)> = Vec::new();
    let read = |row: &Row| {
        if is_claimed(row)? {
            claimed.push(claimed_job(row, &mut last)?);
        } else {
            started_at = running_since(row)?;
        }
        Ok(())
    };
    let answer: Vec<Result<(), Unreadable>> =
        session.read(sql::claim_jobs, &params, read).await.map_err(commit_failure)?;
    answer.into_iter().collect::<Result<(), _>>().map_err(rows::unreadable)?;
    let started_at = started_at.ok_or(StoreError::LostLease)?;
    claimed.sort_unstable_by_key(|(place, _)| *place);
    Ok(claimed.into_iter().map(|(_, job)| ClaimedJob { job, started_at }).collect())
}

/// Whether a row of the answer to a claim has a job.
fn is_claimed(row: &Row) -> Result<bool, Unreadable> {
    Ok(Columns::of(row).optional_id::<JobId>()?.is_some())
}

/// What the row without a job says: since when all of them run; nothing when the lease does not hold.
fn running_since(row: &Row) -> Result<Option<Timestamp>, Unreadable> {
    let mut c = Columns::of(row);
    c.skip(rows::JOB_COLUMNS + 3);
    let (at, holds) = (c.time()?, c.next::<bool>()?);
    Ok(holds.then_some(at))
}

fn claimed_job(row: &Row, last: &mut LastTarget) -> Result<(Place, Job), Unreadable> {
    let job = rows::job_like_the_last(row, last)?;
    let mut c = Columns::of(row);
    c.skip(rows::JOB_COLUMNS);
    let place = Place {
        priority: c.next::<Option<i32>>()?.unwrap_or(job.spec.priority),
        position: c.next()?,
        created_at: c.optional_time()?.unwrap_or(job.created_at),
        job_id: job.id,
    };
    Ok((place, job))
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
