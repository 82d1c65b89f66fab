//! Moving a job within its queue, and making room where a gap is used up (C06).

use crate::error::{Failure, Work};
use crate::jobs::serial_keys;
use crate::params::{params, time};
use crate::queue::place_of;
use crate::rows::Columns;
use crate::sql;
use crate::tx::Tx;
use jiff::Timestamp;
use punctual_core::id::JobId;
use punctual_core::invalid::Invalid;
use punctual_core::job::{JobView, Whereabouts};
use punctual_core::order::{self, Move, Place};
use punctual_core::store::StoreError;

/// How many neighbours on each side are renumbered first when a gap is used up; doubled until there is room.
const NEIGHBOURHOOD: usize = 32;

impl Tx<'_> {
    pub(crate) async fn move_job(&mut self, id: JobId, to: Move) -> Work<Place> {
        let view = self.locked_view(id).await?;
        let keys = serial_keys([&view.job.spec]);
        let (queue, place) = queued(view, "only queued jobs can be moved")?;
        // Two moves at once would both find the same gap.
        self.rows("SELECT pg_advisory_xact_lock(781526300, hashtext($1))", params![queue.as_str()]).await?;
        let (priority, position) = match to {
            Move::ToBack => (place.priority, self.next_position().await?),
            Move::ToPriority(priority) => (priority, self.next_position().await?),
            Move::ToFront => (place.priority, self.position_at_front(&queue, place).await?),
            Move::Before(other) => self.position_beside(&queue, id, other, Side::Before).await?,
            Move::After(other) => self.position_beside(&queue, id, other, Side::After).await?,
        };
        let write = "UPDATE punctual_internal.queue SET priority = $2, position = $3 WHERE job_id = $1";
        self.execute(write, params![id.0, priority, position]).await?;
        self.settle_serial_keys(&keys).await?;
        Ok(Place { priority, position, ..place })
    }

    async fn position_at_front(&self, queue: &str, place: Place) -> Work<i64> {
        let top = Place { position: i64::MIN, created_at: Timestamp::MIN, job_id: JobId::from_bytes([0; 16]), ..place };
        let first = self.neighbours(queue, top, Direction::Behind, 1, place.job_id).await?.first().map(|p| p.position);
        order::between(None, first).ok_or_else(no_room)
    }

    /// A position directly beside another job, at that job's priority; makes room first when there is none.
    async fn position_beside(&self, queue: &str, id: JobId, other: JobId, side: Side) -> Work<(i32, i64)> {
        if id == other {
            return Err(Invalid::new("move", "a job cannot stand beside itself").remedy("name another job").into());
        }
        let anchor = self.anchor(queue, other).await?;
        let positions = self.gap_beside(queue, id, anchor, side).await?;
        if let Some(position) = order::between(positions.0, positions.1) {
            return Ok((anchor.priority, position));
        }
        self.renumber_around(queue, id, anchor).await?;
        let anchor = self.anchor(queue, other).await?;
        let positions = self.gap_beside(queue, id, anchor, side).await?;
        order::between(positions.0, positions.1).map(|position| (anchor.priority, position)).ok_or_else(no_room)
    }

    /// The place of the job that another one is moved to.
    async fn anchor(&self, queue: &str, other: JobId) -> Work<Place> {
        let not_found = || StoreError::NotFound { what: "job", key: other.to_string() };
        let view = self.job_view(other).await?.ok_or_else(not_found)?;
        let (other_queue, place) = queued(view, "the job it is moved to must be queued")?;
        if other_queue != queue {
            return Err(Invalid::new("move", "the two jobs are in different queues")
                .remedy("name a job of the same queue")
                .into());
        }
        Ok(place)
    }

    /// The positions on both sides of the gap next to a job; `None` is the front of its priority. The back is a
    /// position from the sequence, so that jobs which come later go behind what was moved there.
    async fn gap_beside(&self, queue: &str, id: JobId, anchor: Place, side: Side) -> Work<(Option<i64>, Option<i64>)> {
        let towards = match side {
            Side::Before => Direction::Ahead,
            Side::After => Direction::Behind,
        };
        let neighbour = self.neighbours(queue, anchor, towards, 1, id).await?.first().map(|p| p.position);
        Ok(match side {
            Side::Before => (neighbour, Some(anchor.position)),
            Side::After => (Some(anchor.position), Some(self.or_back(neighbour).await?)),
        })
    }

    /// Spreads a job's neighbours over the room they have, in their order. The neighbourhood grows until there is
    /// room; everybody else keeps his position (C06).
    async fn renumber_around(&self, queue: &str, moving: JobId, anchor: Place) -> Work<()> {
        let mut width = NEIGHBOURHOOD;
        loop {
            let mut ahead = self.neighbours(queue, anchor, Direction::Ahead, width + 1, moving).await?;
            let mut behind = self.neighbours(queue, anchor, Direction::Behind, width + 1, moving).await?;
            let low = (ahead.len() > width).then(|| ahead.pop()).flatten().map(|p| p.position);
            let high = (behind.len() > width).then(|| behind.pop()).flatten().map(|p| p.position);
            let high = Some(self.or_back(high).await?);
            ahead.reverse();
            let members: Vec<Place> = ahead.into_iter().chain([anchor]).chain(behind).collect();
            if let Some(positions) = order::spread(members.len(), low, high) {
                let ids = members.iter().map(|member| member.job_id.0).collect::<Vec<_>>();
                self.execute(sql::set_positions, params![ids, positions]).await?;
                return Ok(());
            }
            width *= 2;
        }
    }

    /// A position, or else one behind all others.
    async fn or_back(&self, position: Option<i64>) -> Work<i64> {
        match position {
            Some(position) => Ok(position),
            None => self.next_position().await,
        }
    }

    /// The nearest jobs of the same queue and priority on one side of a place, nearest first, one job left out.
    async fn neighbours(
        &self, queue: &str, of: Place, direction: Direction, limit: usize, without: JobId,
    ) -> Work<Vec<Place>> {
        let sql = match direction {
            Direction::Ahead => sql::neighbours_ahead,
            Direction::Behind => sql::neighbours_behind,
        };
        let params = params![
            queue,
            of.priority,
            of.position,
            time(of.created_at),
            of.job_id.0,
            without.0,
            crate::params::limit(limit)
        ];
        self.all(sql, params, |row| place_of(&mut Columns::of(row))).await
    }
}

/// A job's queue and place, or the refusal that it has none.
fn queued(view: JobView, remedy: &'static str) -> Work<(String, Place)> {
    match view.whereabouts {
        Whereabouts::Queued { place, .. } => Ok((view.job.spec.queue, place)),
        _ => Err(StoreError::WrongState { state: view.state(), remedy }.into()),
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

fn no_room() -> Failure {
    Failure::internal("there is no position left at the end of the queue")
}
