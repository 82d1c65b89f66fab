//! Nodes, leases and claims: who may take a job, and taking it in queue order.

use crate::error::store_error;
use crate::jobs::{Placeless, QueueSlot};
use crate::limits::Rooms;
use crate::queue::place_of;
use crate::rows::{self, Columns, document, unreadable};
use crate::sql;
use crate::tx::{Tx, value};
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{JobId, LeaseId, NodeId};
use punctual_core::job::Job;
use punctual_core::limits::Claimed;
use punctual_core::order::Place;
use punctual_core::store::{ClaimRequest, ClaimedJob, Heartbeat, Lease, NewNode, NodePulse, StoreError, StoreResult};
use punctual_core::target::TargetReader;
use rusqlite::{Connection, Rows, params};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use uuid::Uuid;

/// So many definitions are read in the transaction of the claim; more by a reader when it is committed: they never change,
/// and the one writer has other things to do meanwhile.
const FEW: usize = 64;

/// What a claim took, in queue order.
pub(crate) struct Taken {
    places: Vec<Place>,
    /// Their definitions, as far as they have been read.
    jobs: HashMap<JobId, Arc<Job>>,
    started_at: Timestamp,
    more_in: Option<SignedDuration>,
}

impl Taken {
    /// Whether definitions are still to be read.
    pub(crate) fn is_unread(&self) -> bool {
        self.jobs.len() < self.places.len()
    }

    /// Reads the definitions that have not been read. If that fails the claim stands, as when its answer is lost: the
    /// heartbeat tells of it.
    pub(crate) fn read(mut self, connection: &Connection) -> StoreResult<Claimed> {
        let mut find = connection.prepare_cached(sql::job_by_id).map_err(store_error)?;
        let mut targets = TargetReader::default();
        for place in &self.places {
            let mut rows = find.query(params![place.job_id.as_bytes()]).map_err(store_error)?;
            if let Some(row) = rows.next().map_err(store_error)? {
                self.jobs.insert(place.job_id, Arc::new(rows::job_by(row, &mut targets).map_err(unreadable)?));
            }
        }
        self.claimed()
    }

    /// What the node hears.
    pub(crate) fn claimed(mut self) -> StoreResult<Claimed> {
        let started_at = self.started_at;
        let job = |place: &Place| {
            let job = self.jobs.remove(&place.job_id);
            let gone = || StoreError::Internal(format!("the job {} of a place in the queue is gone", place.job_id));
            job.map(|job| ClaimedJob { job, started_at }).ok_or_else(gone)
        };
        Ok(Claimed { jobs: self.places.iter().map(job).collect::<StoreResult<_>>()?, more_in: self.more_in })
    }
}

impl Tx<'_> {
    pub(crate) fn register_node(&mut self, node: &NewNode) -> StoreResult<Lease> {
        let bits = self.id_bits();
        let node_id = NodeId::at(self.now, bits);
        let lease_id = LeaseId::from_random(*Uuid::new_v4().as_bytes());
        self.execute(
            "INSERT INTO punctual_nodes (id, name, offers, started_at) VALUES (?1, ?2, ?3, ?4)",
            params![node_id.as_bytes(), node.name, document("offers", &node.offers)?, self.now_us()],
        )?;
        self.execute(
            "INSERT INTO punctual_leases (node_id, lease_id) VALUES (?1, ?2)",
            params![node_id.as_bytes(), lease_id.as_bytes()],
        )?;
        Ok(Lease { node_id, lease_id })
    }

    pub(crate) fn heartbeat(&mut self, lease: Lease) -> StoreResult<Heartbeat> {
        let beat =
            "UPDATE punctual_leases SET counter = counter + 1 WHERE node_id = ?1 AND lease_id = ?2 RETURNING counter";
        let params = params![lease.node_id.as_bytes(), lease.lease_id.as_bytes()];
        let counter = self.one(beat, params, value)?.ok_or(StoreError::LostLease)?;
        let mine =
            "SELECT job_id, cancel_requested_at IS NOT NULL FROM punctual_running WHERE lease_id = ?1 ORDER BY job_id";
        let jobs: Vec<(JobId, bool)> = self.all(mine, params![lease.lease_id.as_bytes()], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.next()?))
        })?;
        let cancel_requested = jobs.iter().filter(|(_, cancel)| *cancel).map(|(id, _)| *id).collect();
        Ok(Heartbeat { counter, cancel_requested, running: jobs.into_iter().map(|(id, _)| id).collect() })
    }

    pub(crate) fn leave(&mut self, lease: Lease) -> StoreResult<()> {
        self.check_lease(lease)?;
        let busy = "SELECT count(*) FROM punctual_running WHERE lease_id = ?1";
        let running: i64 = self.one(busy, params![lease.lease_id.as_bytes()], value)?.unwrap_or(0);
        if running > 0 {
            return Err(StoreError::Invalid(
                punctual_core::invalid::Invalid::new("lease", format!("still holds {running} running jobs"))
                    .remedy("finish them or give them back first"),
            ));
        }
        self.execute("DELETE FROM punctual_leases WHERE lease_id = ?1", params![lease.lease_id.as_bytes()])?;
        let left = "UPDATE punctual_nodes SET left_at = ?2 WHERE id = ?1";
        self.execute(left, params![lease.node_id.as_bytes(), self.now_us()])?;
        Ok(())
    }

    /// Whether a lease holds.
    pub(crate) fn check_lease(&self, lease: Lease) -> StoreResult<()> {
        let find = "SELECT 1 FROM punctual_leases WHERE node_id = ?1 AND lease_id = ?2";
        let params = params![lease.node_id.as_bytes(), lease.lease_id.as_bytes()];
        self.one(find, params, value::<i64>)?.map(|_| ()).ok_or(StoreError::LostLease)
    }

    pub(crate) fn claim_jobs(&mut self, request: &ClaimRequest) -> StoreResult<Taken> {
        self.check_lease(request.lease)?;
        let lanes = self.claimable_lanes(request)?;
        let (lanes, mut rooms) = self.rooms(lanes, request.lease.node_id)?;
        let (places, quotas) = self.first_of(&lanes, &mut rooms, request.limit)?;
        let reads = places.len() <= FEW;
        let (mut jobs, mut targets) = (HashMap::new(), TargetReader::default());
        for (lane, quota) in lanes.iter().zip(quotas).filter(|(_, quota)| *quota > 0) {
            if reads {
                jobs.extend(self.jobs_of_lane(lane, quota, &mut targets)?);
            }
            self.move_of_lane(lane, quota, request)?;
        }
        Ok(Taken { places, jobs, started_at: self.now, more_in: self.spend(&rooms)? })
    }

    fn claimable_lanes(&self, request: &ClaimRequest) -> StoreResult<Vec<Lane>> {
        let queues = (!request.queues.is_empty()).then(|| document("queues", &request.queues)).transpose()?;
        let types = document("job_types", &request.job_types)?;
        self.all(sql::claimable_lanes, params![queues, types, self.now_us()], Lane::read)
    }

    /// The places of the first jobs in queue order, as far as the limits have room, and how many of them each lane gives:
    /// each lane is an ordered cursor, and the merge reads just one row more of each lane than it takes. All jobs of a lane
    /// have the same limits, so that one which is kept back keeps back all behind it.
    fn first_of(&self, lanes: &[Lane], rooms: &mut Rooms, limit: usize) -> StoreResult<(Vec<Place>, Vec<usize>)> {
        let mut statements = lanes.iter().map(|_| self.prepare(sql::lane_head)).collect::<StoreResult<Vec<_>>>()?;
        let mut cursors = Vec::with_capacity(lanes.len());
        for (statement, lane) in statements.iter_mut().zip(lanes) {
            cursors.push(statement.query(params![lane.id]).map_err(store_error)?);
        }
        let mut heads = BinaryHeap::new();
        for (lane, cursor) in cursors.iter_mut().enumerate() {
            heads.extend(step(cursor)?.map(|place| Reverse((place, lane))));
        }
        let (mut places, mut quotas) = (Vec::new(), vec![0; lanes.len()]);
        while places.len() < limit
            && let Some(Reverse((place, lane))) = heads.pop()
        {
            if !rooms.take(lane) {
                continue;
            }
            quotas[lane] += 1;
            places.push(place);
            heads.extend(step(&mut cursors[lane])?.map(|place| Reverse((place, lane))));
        }
        Ok((places, quotas))
    }

    /// The definitions of the first jobs of a lane.
    fn jobs_of_lane(
        &self, lane: &Lane, quota: usize, targets: &mut TargetReader,
    ) -> StoreResult<Vec<(JobId, Arc<Job>)>> {
        let limit = i64::try_from(quota).unwrap_or(i64::MAX);
        self.all(sql::lane_jobs, params![lane.id, limit], |row| {
            let job = rows::job_by(row, targets)?;
            Ok((job.id, Arc::new(job)))
        })
    }

    /// Moves the first jobs of a lane from `queue` to `running`.
    fn move_of_lane(&self, lane: &Lane, quota: usize, request: &ClaimRequest) -> StoreResult<()> {
        let limit = i64::try_from(quota).unwrap_or(i64::MAX);
        let Lease { node_id, lease_id } = request.lease;
        let started = params![
            lane.id,
            limit,
            node_id.as_bytes(),
            lease_id.as_bytes(),
            request.claim_id.as_bytes(),
            self.now_us()
        ];
        let moved = [
            self.execute(sql::start_lane_jobs, started)?,
            self.execute(sql::unqueue_lane_jobs, params![lane.id, limit])?,
        ];
        if moved != [quota; 2] {
            let words = format!("of {quota} jobs of the lane {} {moved:?} were moved", lane.id);
            return Err(StoreError::Internal(words));
        }
        Ok(())
    }

    pub(crate) fn give_back(&mut self, lease: Lease, jobs: &[JobId]) -> StoreResult<Vec<JobId>> {
        self.check_lease(lease)?;
        let mut given = Vec::new();
        for id in jobs {
            let params = params![id.as_bytes(), lease.node_id.as_bytes(), lease.lease_id.as_bytes()];
            let Some(row) = self.one(sql::give_back, params, QueueRow::read)? else { continue };
            let job = Placeless {
                id: *id,
                lane_id: row.lane_id,
                priority: row.priority,
                created_at: row.created_at,
                serial_key: row.serial_key,
                schedule_id: row.schedule_id.map(|bytes| Uuid::from_bytes(bytes).into()),
                untagged: false,
            };
            let slot = QueueSlot {
                priority: row.priority,
                position: row.position,
                created_at: row.created_at,
                queued_at: row.queued_at,
            };
            self.queue_at(&job, slot)?;
            given.push(*id);
        }
        Ok(given)
    }
}

/// A lane that may be taken from.
pub(crate) struct Lane {
    pub(crate) id: i64,
    pub(crate) queue: String,
    pub(crate) job_type: String,
    pub(crate) tags: Vec<String>,
}

impl Lane {
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> Result<Self, rows::Unreadable> {
        let mut c = Columns::of(row);
        Ok(Self { id: c.next()?, queue: c.next()?, job_type: c.next()?, tags: c.document("tags")? })
    }
}

/// What moves between `queue` and `running`.
struct QueueRow {
    lane_id: i64,
    priority: i32,
    position: i64,
    created_at: Timestamp,
    queued_at: Timestamp,
    serial_key: Option<String>,
    schedule_id: Option<[u8; 16]>,
}

impl QueueRow {
    fn read(row: &rusqlite::Row<'_>) -> Result<Self, rows::Unreadable> {
        let mut c = Columns::of(row);
        Ok(Self {
            lane_id: c.next()?,
            priority: c.next()?,
            position: c.next()?,
            created_at: c.time()?,
            queued_at: c.time()?,
            serial_key: c.next()?,
            schedule_id: c.next()?,
        })
    }
}

fn step(cursor: &mut Rows<'_>) -> StoreResult<Option<Place>> {
    let row = cursor.next().map_err(store_error)?;
    row.map(|row| place_of(row).map_err(unreadable)).transpose()
}

/// All nodes that hold a lease.
pub(crate) fn read_pulses(connection: &Connection) -> StoreResult<Vec<NodePulse>> {
    let sql = "SELECT l.node_id, l.lease_id, n.name, l.counter, n.offers
               FROM punctual_leases AS l JOIN punctual_nodes AS n ON n.id = l.node_id ORDER BY l.node_id";
    rows::collect(connection, sql, [], |row| {
        let mut c = Columns::of(row);
        Ok(NodePulse {
            node_id: c.id()?,
            lease_id: c.id()?,
            name: c.next()?,
            counter: c.next()?,
            offers: c.document("offers")?,
        })
    })
}
