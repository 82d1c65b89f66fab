//! Queue control: enqueue, promote, move, edit, cancel, and the queue in its order.

use crate::jobs::{Placeless, QueueSlot};
use crate::rows::{self, Columns, Unreadable};
use crate::sql;
use crate::tx::{Tx, value};
use jiff::Timestamp;
use punctual_core::id::JobId;
use punctual_core::invalid::Invalid;
use punctual_core::job::{JobState, JobView, NewJob, Whereabouts};
use punctual_core::json::Json;
use punctual_core::order::{self, Move, Place};
use punctual_core::run::ErrorCode;
use punctual_core::store::{Cancelled, QueuedJob, StoreError, StoreResult};
use punctual_core::unique::Enqueued;
use rusqlite::{Connection, Row, params};

/// How many neighbours on each side are renumbered first when a gap is used up; doubled until there is room.
const NEIGHBOURHOOD: usize = 32;

impl Tx<'_> {
    pub(crate) fn enqueue_jobs(&mut self, jobs: &[NewJob]) -> StoreResult<Vec<JobId>> {
        Ok(self.enqueue_once(jobs)?.into_iter().map(|enqueued| enqueued.id).collect())
    }

    pub(crate) fn enqueue_once(&mut self, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
        self.reserve_positions(jobs.len())?;
        jobs.iter().map(|job| self.enqueue_job(job)).collect()
    }

    pub(crate) fn promote_due_jobs(&mut self, limit: usize) -> StoreResult<usize> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let due = self.all(sql::due_delayed, params![self.now_us(), limit], |row| {
            let mut c = Columns::of(row);
            Ok(Placeless {
                id: c.id()?,
                lane_id: c.next()?,
                priority: c.next()?,
                created_at: c.time()?,
                serial_key: c.next()?,
                schedule_id: c.optional_id()?,
                untagged: false,
            })
        })?;
        self.reserve_positions(due.len())?;
        for job in &due {
            self.execute("DELETE FROM punctual_delayed WHERE job_id = ?1", params![job.id.as_bytes()])?;
            self.queue_at_the_back(job)?;
        }
        Ok(due.len())
    }

    pub(crate) fn move_job(&mut self, id: JobId, to: Move) -> StoreResult<Place> {
        let (queue, place) = self.queued_place(id, "only queued jobs can be moved")?;
        let (priority, position) = match to {
            Move::ToBack => (place.priority, self.next_position()?),
            Move::ToPriority(priority) => (priority, self.next_position()?),
            Move::ToFront => (place.priority, self.position_at_front(&queue, place)?),
            Move::Before(other) => self.position_beside(&queue, id, other, Side::Before)?,
            Move::After(other) => self.position_beside(&queue, id, other, Side::After)?,
        };
        let key: Option<Option<String>> = self.one(
            "UPDATE punctual_queue SET priority = ?2, position = ?3 WHERE job_id = ?1 RETURNING serial_key",
            params![id.as_bytes(), priority, position],
            value,
        )?;
        self.settle_serial_key(key.flatten().as_deref())?;
        Ok(Place { priority, position, ..place })
    }

    /// A job's queue and place, or the refusal that it has none.
    fn queued_place(&self, id: JobId, remedy: &'static str) -> StoreResult<(String, Place)> {
        let not_found = || StoreError::NotFound { what: "job", key: id.to_string() };
        let job = self.job(id)?.ok_or_else(not_found)?;
        match self.whereabouts(id)?.ok_or_else(not_found)? {
            Whereabouts::Queued { place, .. } => Ok((job.spec.queue, place)),
            whereabouts => Err(StoreError::WrongState { state: JobView { job, whereabouts }.state(), remedy }),
        }
    }

    fn position_at_front(&mut self, queue: &str, place: Place) -> StoreResult<i64> {
        let top = Place { position: i64::MIN, created_at: Timestamp::MIN, job_id: JobId::from_bytes([0; 16]), ..place };
        let first = self.neighbours(queue, top, Direction::Behind, 1, place.job_id)?.first().map(|p| p.position);
        order::between(None, first).ok_or_else(no_room)
    }

    /// A position directly beside another job, at that job's priority; makes room first when there is none.
    fn position_beside(&mut self, queue: &str, id: JobId, other: JobId, side: Side) -> StoreResult<(i32, i64)> {
        if id == other {
            return Err(Invalid::new("move", "a job cannot stand beside itself").remedy("name another job").into());
        }
        let (other_queue, anchor) = self.queued_place(other, "the job it is moved to must be queued")?;
        if other_queue != queue {
            return Err(Invalid::new("move", "the two jobs are in different queues")
                .remedy("name a job of the same queue")
                .into());
        }
        let positions = self.gap_beside(queue, id, anchor, side)?;
        if let Some(position) = order::between(positions.0, positions.1) {
            return Ok((anchor.priority, position));
        }
        self.renumber_around(queue, id, anchor)?;
        let (_, anchor) = self.queued_place(other, "the job it is moved to must be queued")?;
        let positions = self.gap_beside(queue, id, anchor, side)?;
        order::between(positions.0, positions.1).map(|position| (anchor.priority, position)).ok_or_else(no_room)
    }

    /// The positions on both sides of the gap next to a job; `None` is the front of its priority. The back is a
    /// position from the sequence, so that jobs which come later go behind what was moved there.
    fn gap_beside(
        &mut self, queue: &str, id: JobId, anchor: Place, side: Side,
    ) -> StoreResult<(Option<i64>, Option<i64>)> {
        let towards = match side {
            Side::Before => Direction::Ahead,
            Side::After => Direction::Behind,
        };
        let neighbour = self.neighbours(queue, anchor, towards, 1, id)?.first().map(|p| p.position);
        Ok(match side {
            Side::Before => (neighbour, Some(anchor.position)),
            Side::After => (Some(anchor.position), Some(self.or_back(neighbour)?)),
        })
    }

    /// Spreads a job's neighbours over the room they have, in their order. The neighbourhood grows until there is
    /// room; everybody else keeps his position (C06).
    fn renumber_around(&mut self, queue: &str, moving: JobId, anchor: Place) -> StoreResult<()> {
        let mut width = NEIGHBOURHOOD;
        loop {
            let mut ahead = self.neighbours(queue, anchor, Direction::Ahead, width + 1, moving)?;
            let mut behind = self.neighbours(queue, anchor, Direction::Behind, width + 1, moving)?;
            let low = (ahead.len() > width).then(|| ahead.pop()).flatten().map(|p| p.position);
            let high = (behind.len() > width).then(|| behind.pop()).flatten().map(|p| p.position);
            let high = Some(self.or_back(high)?);
            ahead.reverse();
            let members: Vec<Place> = ahead.into_iter().chain([anchor]).chain(behind).collect();
            if let Some(positions) = order::spread(members.len(), low, high) {
                return self.write_positions(&members, &positions);
            }
            width *= 2;
        }
    }

    /// A position, or else one behind all others.
    fn or_back(&mut self, position: Option<i64>) -> StoreResult<i64> {
        position.map_or_else(|| self.next_position(), Ok)
    }

    fn write_positions(&mut self, members: &[Place], positions: &[i64]) -> StoreResult<()> {
        for (member, position) in members.iter().zip(positions) {
            self.execute(
                "UPDATE punctual_queue SET position = ?2 WHERE job_id = ?1",
                params![member.job_id.as_bytes(), position],
            )?;
        }
        Ok(())
    }

    /// The nearest jobs of the same queue and priority on one side of a place, nearest first, one job left out.
    fn neighbours(
        &self, queue: &str, of: Place, direction: Direction, limit: usize, without: JobId,
    ) -> StoreResult<Vec<Place>> {
        let sql = match direction {
            Direction::Ahead => NEIGHBOURS_AHEAD,
            Direction::Behind => NEIGHBOURS_BEHIND,
        };
        let lanes: Vec<i64> = self.all("SELECT id FROM punctual_lanes WHERE queue = ?1", params![queue], value)?;
        let mut found = Vec::new();
        for (lane, ready) in lanes.iter().flat_map(|lane| [(lane, false), (lane, true)]) {
            let place = params![
                lane,
                of.priority,
                of.position,
                of.created_at.as_microsecond(),
                of.job_id.as_bytes(),
                without.as_bytes(),
                i64::try_from(limit).unwrap_or(i64::MAX)
            ];
            found.extend(self.all(&among(sql, ready), place, place_of)?);
        }
        found.sort_unstable();
        if direction == Direction::Ahead {
            found.reverse();
        }
        found.truncate(limit);
        Ok(found)
    }

    pub(crate) fn edit_job(&mut self, id: JobId, input: &Json) -> StoreResult<JobId> {
        let not_found = || StoreError::NotFound { what: "job", key: id.to_string() };
        let old = self.job(id)?.ok_or_else(not_found)?;
        let whereabouts = self.whereabouts(id)?.ok_or_else(not_found)?;
        let spec = NewJob { input: input.clone(), ..old.spec.clone() };
        let origin = old.origin();
        match whereabouts {
            Whereabouts::Running(_) | Whereabouts::Closed(_) => {
                let state = JobView { job: old, whereabouts }.state();
                Err(StoreError::WrongState { state, remedy: "enqueue a new job with the new input" })
            }
            Whereabouts::Delayed { run_at } => {
                self.replace(id, &old)?;
                let new_id = self.job_id();
                let new = self.insert_job(new_id, &spec, &origin)?;
                self.execute(
                    "INSERT INTO punctual_delayed (job_id, run_at) VALUES (?1, ?2)",
                    params![new.id.as_bytes(), run_at.map(Timestamp::as_microsecond)],
                )?;
                self.adopt_retry(id, new.id)
            }
            Whereabouts::Queued { place, queued_at, .. } => {
                self.replace(id, &old)?;
                let new_id = self.job_id();
                let new = self.insert_job(new_id, &spec, &origin)?;
                let Place { priority, position, created_at, .. } = place;
                self.queue_at(&new, QueueSlot { priority, position, created_at, queued_at })?;
                self.adopt_retry(id, new.id)
            }
        }
    }

    fn replace(&mut self, id: JobId, old: &punctual_core::job::Job) -> StoreResult<()> {
        self.take_waiting(id)?;
        self.close_unstarted(id, old.schedule_id, ErrorCode::Replaced)
    }

    /// The job that takes another's place is the retry that the other one was.
    fn adopt_retry(&mut self, old: JobId, new: JobId) -> StoreResult<JobId> {
        if let Some(link) = self.job(new)?.and_then(|job| job.retry_of) {
            self.execute(
                "UPDATE punctual_retries SET job_id = ?3 WHERE retry_of = ?1 AND job_id = ?2",
                params![link.as_bytes(), old.as_bytes(), new.as_bytes()],
            )?;
        }
        self.hand_key_on(old, new)?;
        self.pass_step_on(old, new)?;
        // If a key waits for this job, only now it is seen that it has another id.
        let key = self.job(new)?.and_then(|job| job.spec.serial_key);
        self.settle_serial_key(key.as_deref())?;
        Ok(new)
    }

    pub(crate) fn cancel_job(&mut self, id: JobId) -> StoreResult<Cancelled> {
        let not_found = || StoreError::NotFound { what: "job", key: id.to_string() };
        let job = self.job(id)?.ok_or_else(not_found)?;
        if self.take_waiting(id)? {
            self.close_unstarted(id, job.schedule_id, ErrorCode::Cancelled)?;
            self.tell_flow_of_cancelled(id)?;
            return Ok(Cancelled::BeforeStart);
        }
        if self.request_cancel(id, ErrorCode::Cancelled)? {
            return Ok(Cancelled::Requested);
        }
        let whereabouts = self.whereabouts(id)?.ok_or_else(not_found)?;
        let state = JobView { job, whereabouts }.state();
        debug_assert!(state.is_terminal() && state != JobState::Running);
        Err(StoreError::WrongState { state, remedy: "it has ended already; retry it to run it again" })
    }

    /// Asks a running job to stop; the first request stands. False when it is not running.
    pub(crate) fn request_cancel(&mut self, id: JobId, code: ErrorCode) -> StoreResult<bool> {
        let request = "UPDATE punctual_running
                       SET cancel_requested_at = coalesce(cancel_requested_at, ?2), cancel_code = coalesce(cancel_code, ?3)
                       WHERE job_id = ?1";
        Ok(self.execute(request, params![id.as_bytes(), self.now_us(), code.as_str()])? > 0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Ahead,
    Behind,
}

const NEIGHBOURS_AHEAD: &str = "SELECT priority, position, created_at, job_id FROM punctual_queue
    WHERE lane_id = ?1 AND ready = 1 AND priority = ?2 AND (position, created_at, job_id) < (?3, ?4, ?5) AND job_id <> ?6
    ORDER BY position DESC, created_at DESC, job_id DESC LIMIT ?7";
const NEIGHBOURS_BEHIND: &str = "SELECT priority, position, created_at, job_id FROM punctual_queue
    WHERE lane_id = ?1 AND ready = 1 AND priority = ?2 AND (position, created_at, job_id) > (?3, ?4, ?5) AND job_id <> ?6
    ORDER BY position, created_at, job_id LIMIT ?7";

/// The same statement over the jobs that may be claimed, or over those that are held. The word stands in the text and
/// not in a parameter, because only then does SQLite see that the partial index fits.
fn among(sql: &str, ready: bool) -> String {
    if ready { sql.to_owned() } else { sql.replace("ready = 1", "ready = 0") }
}

fn no_room() -> StoreError {
    StoreError::Internal("there is no position left at the end of the queue".to_owned())
}

/// Reads a place from its four columns.
pub(crate) fn place_of(row: &Row<'_>) -> Result<Place, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Place { priority: c.next()?, position: c.next()?, created_at: c.time()?, job_id: c.id()? })
}

/// A page of a queue: its lanes are read in order, claimable and held, and merged.
pub(crate) fn read_queue(
    connection: &Connection, queue: &str, after: Option<Place>, limit: usize,
) -> StoreResult<Vec<QueuedJob>> {
    let lanes: Vec<i64> =
        rows::collect(connection, "SELECT id FROM punctual_lanes WHERE queue = ?1", params![queue], value)?;
    let after = after.unwrap_or(Place {
        priority: i32::MAX,
        position: i64::MIN,
        created_at: Timestamp::MIN,
        job_id: JobId::from_bytes([0; 16]),
    });
    let mut jobs = Vec::new();
    for (lane, ready) in lanes.iter().flat_map(|lane| [(lane, false), (lane, true)]) {
        let place = params![
            lane,
            after.priority,
            after.position,
            after.created_at.as_microsecond(),
            after.job_id.as_bytes(),
            i64::try_from(limit).unwrap_or(i64::MAX)
        ];
        jobs.extend(rows::collect(connection, &among(sql::lane_page, ready), place, |row| {
            let mut c = Columns::of(row);
            c.skip(4);
            Ok(QueuedJob { place: place_of(row)?, ready, serial_key: c.next()? })
        })?);
    }
    jobs.sort_unstable_by_key(|job| job.place);
    jobs.truncate(limit);
    Ok(jobs)
}
