//! Nodes, leases and claims: who may take a job, and taking it in queue order.

use crate::jobs::{Placeless, QueueSlot};
use crate::limits::Rooms;
use crate::queue::place_of;
use crate::rows::{self, Columns, document, unreadable};
use crate::sql;
use crate::tx::{Tx, value};
use jiff::Timestamp;
use punctual_core::id::{JobId, LeaseId, NodeId};
use punctual_core::job::Job;
use punctual_core::limits::Claimed;
use punctual_core::order::Place;
use punctual_core::store::{ClaimRequest, ClaimedJob, Heartbeat, Lease, NewNode, NodePulse, StoreError, StoreResult};
use punctual_core::target::TargetReader;
use rusqlite::{Rows, params};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use uuid::Uuid;

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

    pub(crate) fn claim_jobs(&mut self, request: &ClaimRequest) -> StoreResult<Claimed> {
        self.check_lease(request.lease)?;
        let lanes = self.claimable_lanes(request)?;
        let (lanes, mut rooms) = self.rooms(lanes, request.lease.node_id)?;
        let quotas = self.quotas(&lanes, &mut rooms, request.limit)?;
        let mut jobs = Vec::new();
        let mut targets = TargetReader::default();
        for (lane, quota) in lanes.iter().zip(quotas).filter(|(_, quota)| *quota > 0) {
            jobs.extend(self.claim_of_lane(lane, quota, request, &mut targets)?);
        }
        jobs.sort_unstable_by_key(|(place, _)| *place);
        let started = |(_, job)| ClaimedJob { job, started_at: self.now };
        Ok(Claimed { jobs: jobs.into_iter().map(started).collect(), more_in: self.spend(&rooms)? })
    }

    fn claimable_lanes(&self, request: &ClaimRequest) -> StoreResult<Vec<Lane>> {
        let queues = (!request.queues.is_empty()).then(|| document("queues", &request.queues)).transpose()?;
        let types = document("job_types", &request.job_types)?;
        self.all(sql::claimable_lanes, params![queues, types, self.now_us()], Lane::read)
    }

    /// How many of its first jobs each lane gives, so that all together are the first in queue order, as far as the
    /// limits have room: each lane is an ordered cursor, and the merge reads just one row more of each lane than it
    /// takes. All jobs of a lane have the same limits, so that one which is kept back keeps back all behind it.
    fn quotas(&self, lanes: &[Lane], rooms: &mut Rooms, limit: usize) -> StoreResult<Vec<usize>> {
        let mut statements = lanes.iter().map(|_| self.prepare(sql::lane_head)).collect::<StoreResult<Vec<_>>>()?;
        let mut cursors = Vec::with_capacity(lanes.len());
        for (statement, lane) in statements.iter_mut().zip(lanes) {
            cursors.push(statement.query(params![lane.id]).map_err(crate::error::store_error)?);
        }
        let mut heads = BinaryHeap::new();
        for (lane, cursor) in cursors.iter_mut().enumerate() {
            heads.extend(step(cursor)?.map(|place| Reverse((place, lane))));
        }
        let (mut quotas, mut taken) = (vec![0; lanes.len()], 0);
        while taken < limit
            && let Some(Reverse((_, lane))) = heads.pop()
        {
            if !rooms.take(lane) {
                continue;
            }
            quotas[lane] += 1;
            taken += 1;
            heads.extend(step(&mut cursors[lane])?.map(|place| Reverse((place, lane))));
        }
        Ok(quotas)
    }

    /// Moves the first jobs of a lane from `queue` to `running`.
    fn claim_of_lane(
        &self, lane: &Lane, quota: usize, request: &ClaimRequest, targets: &mut TargetReader,
    ) -> StoreResult<Vec<(Place, Arc<Job>)>> {
        let limit = i64::try_from(quota).unwrap_or(i64::MAX);
        let jobs = self.all(sql::lane_jobs, params![lane.id, limit], |row| {
            let job = rows::job_behind_place(row, targets)?;
            Ok((place_of(row)?, Arc::new(job)))
        })?;
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
        if moved != [jobs.len(); 2] || jobs.len() != quota {
            let words =
                format!("of {quota} jobs of the lane {} there were {}, and moved {moved:?}", lane.id, jobs.len());
            return Err(StoreError::Internal(words));
        }
        Ok(jobs)
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
    let row = cursor.next().map_err(crate::error::store_error)?;
    row.map(|row| place_of(row).map_err(unreadable)).transpose()
}

/// All nodes that hold a lease.
pub(crate) fn read_pulses(connection: &rusqlite::Connection) -> StoreResult<Vec<NodePulse>> {
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
