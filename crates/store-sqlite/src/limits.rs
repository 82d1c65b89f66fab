//! Limits: setting them, and how much room a claim has within them.

use crate::SqliteStore;
use crate::claim::Lane;
use crate::rows::{self, Columns, Unreadable, document};
use crate::tx::{Tx, value};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{JobId, NodeId};
use punctual_core::limits::{Bucket, Limit, LimitRow, LimitSubject, Limits, Rate, Use};
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::{Connection, Row, params};
use std::collections::BTreeSet;

const COLUMNS: &str = "SELECT scope, name, concurrency, node_concurrency, rate_jobs, rate_per_us, rate_burst, level, \
                       level_at, created_at, updated_at FROM punctual_limits";

#[async_trait]
impl Limits for SqliteStore {
    async fn set_limit(&self, limit: Limit) -> StoreResult<LimitRow> {
        limit.validate()?;
        self.write_and_wake(move |tx| tx.set_limit(&limit)).await
    }

    async fn remove_limit(&self, subject: &LimitSubject) -> StoreResult<()> {
        let subject = subject.clone();
        self.write_and_wake(move |tx| tx.remove_limit(&subject)).await
    }

    async fn limit(&self, subject: &LimitSubject) -> StoreResult<Option<LimitRow>> {
        let (subject, now) = (subject.clone(), self.clock.now());
        self.read(move |connection| {
            let find = format!("{COLUMNS} WHERE scope = ?1 AND name = ?2");
            let found = rows::collect(connection, &find, params![subject.scope(), subject.name()], Stored::read)?;
            found.into_iter().next().map(|stored| stored.row(connection, now)).transpose()
        })
        .await
    }

    async fn limits(&self, after: Option<&LimitSubject>, limit: usize) -> StoreResult<Vec<LimitRow>> {
        let (after, now) = (after.cloned(), self.clock.now());
        self.read(move |connection| {
            let (scope, name) = after.as_ref().map_or(("", ""), |after| (after.scope(), after.name()));
            let page = format!("{COLUMNS} WHERE (scope, name) > (?1, ?2) ORDER BY scope, name LIMIT ?3");
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let found = rows::collect(connection, &page, params![scope, name, limit], Stored::read)?;
            found.into_iter().map(|stored| stored.row(connection, now)).collect()
        })
        .await
    }
}

/// A limit with its bucket.
struct Stored {
    limit: Limit,
    bucket: Option<Bucket>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl Stored {
    fn read(row: &Row<'_>) -> Result<Self, Unreadable> {
        let mut c = Columns::of(row);
        let (scope, name): (String, String) = (c.next()?, c.next()?);
        let (concurrency, node_concurrency) = (c.next()?, c.next()?);
        let (jobs, per, burst): (Option<u32>, Option<i64>, Option<u32>) = (c.next()?, c.next()?, c.next()?);
        let (level, at): (Option<i64>, _) = (c.next()?, c.optional_time()?);
        let rate = jobs.zip(per).zip(burst).map(|((jobs, per), burst)| Rate {
            jobs,
            per: SignedDuration::from_micros(per),
            burst,
        });
        Ok(Self {
            limit: Limit { subject: LimitSubject::of(&scope, &name)?, concurrency, node_concurrency, rate },
            bucket: level.zip(at).map(|(level, at)| Bucket { level, at }),
            created_at: c.time()?,
            updated_at: c.time()?,
        })
    }

    /// What is in its bucket now.
    fn bucket_at(&self, now: Timestamp) -> Option<Bucket> {
        self.limit.rate.zip(self.bucket).map(|(rate, bucket)| rate.refilled(bucket, now))
    }

    fn row(self, connection: &Connection, now: Timestamp) -> StoreResult<LimitRow> {
        let running = running_lanes(connection)?;
        let of_it =
            running.iter().filter(|(lane, ..)| covers(&self.limit, lane)).map(|(_, _, count)| u64::from(*count));
        let tokens = self.limit.rate.zip(self.bucket_at(now)).map(|(rate, bucket)| rate.tokens(bucket));
        let running = of_it.sum();
        Ok(LimitRow { limit: self.limit, running, tokens, created_at: self.created_at, updated_at: self.updated_at })
    }
}

fn covers(limit: &Limit, lane: &Lane) -> bool {
    limit.subject.covers(&lane.queue, &lane.job_type, &lane.tags)
}

/// How many jobs of each lane run on each node. Counted in full: on one machine few jobs run at once. A flow that goes on
/// by itself is on no node and takes no room, which its steps need.
fn running_lanes(connection: &Connection) -> StoreResult<Vec<(Lane, [u8; 16], u32)>> {
    let count = "SELECT l.id, l.queue, l.job_type, l.tags, g.node_id, count(*) FROM punctual_running AS g
                 CROSS JOIN punctual_lanes AS l ON l.id = g.lane_id
                 WHERE g.node_id IS NOT NULL GROUP BY g.lane_id, g.node_id";
    rows::collect(connection, count, [], |row| {
        let lane = Lane::read(row)?;
        let mut c = Columns::of(row);
        c.skip(4);
        Ok((lane, c.next()?, c.next()?))
    })
}

/// How much room a claim has within the limits of each lane.
#[derive(Default)]
pub(crate) struct Rooms {
    limits: Vec<Room>,
    /// Which limits each lane has.
    lanes: Vec<Vec<usize>>,
    /// The limits of jobs that did not fit.
    kept_back: BTreeSet<usize>,
}

struct Room {
    stored: Stored,
    /// Refilled.
    bucket: Option<Bucket>,
    left: u32,
    taken: u32,
}

impl Rooms {
    /// Takes the room of one job of a lane; false when there is none.
    pub(crate) fn take(&mut self, lane: usize) -> bool {
        let Some(limits) = self.lanes.get(lane) else { return true };
        if limits.iter().any(|limit| self.limits[*limit].left == 0) {
            self.kept_back.extend(limits);
            return false;
        }
        for limit in limits {
            let room = &mut self.limits[*limit];
            room.left -= 1;
            room.taken += 1;
        }
        true
    }
}

impl Tx<'_> {
    pub(crate) fn set_limit(&mut self, limit: &Limit) -> StoreResult<LimitRow> {
        let (scope, name) = (limit.subject.scope(), limit.subject.name());
        let old = self.stored_limit(&limit.subject)?;
        let left = old.as_ref().and_then(|old| old.limit.rate.zip(old.bucket_at(self.now)));
        let bucket = limit.first_bucket(left, self.now);
        let set = "INSERT INTO punctual_limits (scope, name, concurrency, node_concurrency, rate_jobs, rate_per_us, \
                   rate_burst, level, level_at, created_at, updated_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10) ON CONFLICT (scope, name) DO UPDATE SET \
                   concurrency = excluded.concurrency, node_concurrency = excluded.node_concurrency, \
                   rate_jobs = excluded.rate_jobs, rate_per_us = excluded.rate_per_us, \
                   rate_burst = excluded.rate_burst, level = excluded.level, level_at = excluded.level_at, \
                   updated_at = excluded.updated_at";
        let params = params![
            scope,
            name,
            limit.concurrency,
            limit.node_concurrency,
            limit.rate.map(|rate| rate.jobs),
            limit.rate.map(Rate::cost),
            limit.rate.map(|rate| rate.burst),
            bucket.map(|bucket| bucket.level),
            bucket.map(|bucket| bucket.at.as_microsecond()),
            self.now_us(),
        ];
        self.execute(set, params)?;
        if old.is_none() {
            self.sort_by_tags(&limit.subject)?;
        }
        let stored = self.stored_limit(&limit.subject)?;
        stored
            .ok_or_else(|| StoreError::Internal("a limit was not stored".to_owned()))?
            .row(self.connection(), self.now)
    }

    pub(crate) fn remove_limit(&mut self, subject: &LimitSubject) -> StoreResult<()> {
        let remove = "DELETE FROM punctual_limits WHERE scope = ?1 AND name = ?2";
        if self.execute(remove, params![subject.scope(), subject.name()])? == 0 {
            return Err(StoreError::NotFound { what: "limit", key: subject.to_string() });
        }
        self.sort_by_tags(subject)
    }

    /// What is said about a subject, without what is in its bucket.
    pub(crate) fn limit_said(&self, subject: &LimitSubject) -> StoreResult<Option<Limit>> {
        Ok(self.stored_limit(subject)?.map(|stored| stored.limit))
    }

    fn stored_limit(&self, subject: &LimitSubject) -> StoreResult<Option<Stored>> {
        let find = format!("{COLUMNS} WHERE scope = ?1 AND name = ?2");
        self.one(&find, params![subject.scope(), subject.name()], Stored::read)
    }

    /// Puts jobs with a tag into other lanes, after it was limited or is not any more. PostgreSQL does it in SQL,
    /// because a trigger needs it there.
    fn sort_by_tags(&mut self, subject: &LimitSubject) -> StoreResult<()> {
        let LimitSubject::Tag(tag) = subject else { return Ok(()) };
        self.limits_tags = None;
        for table in ["punctual_queue", "punctual_running"] {
            let find = format!(
                "SELECT q.job_id, q.lane_id FROM {table} AS q CROSS JOIN punctual_jobs AS j ON j.id = q.job_id
                 WHERE j.tags IS NOT NULL AND EXISTS (SELECT 1 FROM json_each(j.tags) WHERE value = ?1)"
            );
            let jobs: Vec<(JobId, i64)> = self.all(&find, params![tag], |row| {
                let mut c = Columns::of(row);
                Ok((c.id()?, c.next()?))
            })?;
            for (id, lane) in jobs {
                let lane = self.tagged_lane(id, lane)?;
                self.execute(
                    &format!("UPDATE {table} SET lane_id = ?2 WHERE job_id = ?1"),
                    params![id.as_bytes(), lane],
                )?;
            }
        }
        Ok(())
    }

    /// The lane that a job goes to, by those of its tags that are limited.
    pub(crate) fn lane_by_tags(&mut self, id: JobId, lane: i64) -> StoreResult<i64> {
        if self.limits_tags.is_none() {
            let any = "SELECT EXISTS (SELECT 1 FROM punctual_limits WHERE scope = 'tag')";
            self.limits_tags = self.one(any, [], value)?;
        }
        if self.limits_tags == Some(false) { Ok(lane) } else { self.tagged_lane(id, lane) }
    }

    fn tagged_lane(&mut self, id: JobId, lane: i64) -> StoreResult<i64> {
        let find = "SELECT DISTINCT t.value FROM punctual_jobs AS j, json_each(j.tags) AS t
                    CROSS JOIN punctual_limits AS l ON l.scope = 'tag' AND l.name = t.value
                    WHERE j.id = ?1 ORDER BY 1";
        let tags: Vec<String> = self.all(find, params![id.as_bytes()], value)?;
        let same = "SELECT id, queue, job_type, tags FROM punctual_lanes WHERE id = ?1";
        let lane = self.one(same, params![lane], Lane::read)?;
        let lane = lane.ok_or_else(|| StoreError::Internal("a lane is gone".to_owned()))?;
        if lane.tags == tags {
            return Ok(lane.id);
        }
        self.lane_with_tags((lane.queue, lane.job_type, document("tags", &tags)?))
    }

    /// How much room there is for jobs of these lanes on a node. Lanes without any are left out.
    pub(crate) fn rooms(&self, lanes: Vec<Lane>, node: NodeId) -> StoreResult<(Vec<Lane>, Rooms)> {
        let stored = self.all(&format!("{COLUMNS} ORDER BY scope, name"), [], Stored::read)?;
        if stored.is_empty() {
            return Ok((lanes, Rooms::default()));
        }
        let running = running_lanes(self.connection())?;
        let limits: Vec<Room> = stored.into_iter().map(|stored| self.room(stored, &running, node)).collect();
        let of_lane = |lane: &Lane| -> Vec<usize> {
            (0..limits.len()).filter(|limit| covers(&limits[*limit].stored.limit, lane)).collect()
        };
        let (mut open, mut of_open, mut kept_back) = (Vec::new(), Vec::new(), BTreeSet::new());
        for lane in lanes {
            let of_it = of_lane(&lane);
            if of_it.iter().any(|limit| limits[*limit].left == 0) {
                kept_back.extend(of_it);
            } else {
                open.push(lane);
                of_open.push(of_it);
            }
        }
        Ok((open, Rooms { lanes: of_open, limits, kept_back }))
    }

    fn room(&self, stored: Stored, running: &[(Lane, [u8; 16], u32)], node: NodeId) -> Room {
        let mut used = Use::default();
        for (_, on, count) in running.iter().filter(|(lane, ..)| covers(&stored.limit, lane)) {
            used.everywhere += count;
            used.here += if on == node.as_bytes() { *count } else { 0 };
        }
        let bucket = stored.bucket_at(self.now);
        Room { left: stored.limit.room(used, bucket), taken: 0, bucket, stored }
    }

    /// Takes the tokens of what was claimed out of their buckets; says when the next job that a rate keeps back may
    /// start.
    pub(crate) fn spend(&mut self, rooms: &Rooms) -> StoreResult<Option<SignedDuration>> {
        let mut more_in = None;
        for (number, room) in rooms.limits.iter().enumerate() {
            let Some((rate, mut bucket)) = room.stored.limit.rate.zip(room.bucket) else { continue };
            bucket.level -= i64::from(room.taken) * rate.cost();
            if room.taken > 0 {
                let subject = &room.stored.limit.subject;
                self.execute(
                    "UPDATE punctual_limits SET level = ?3, level_at = ?4 WHERE scope = ?1 AND name = ?2",
                    params![subject.scope(), subject.name(), bucket.level, bucket.at.as_microsecond()],
                )?;
            }
            if rooms.kept_back.contains(&number) && rate.tokens(bucket) == 0 {
                let wait = bucket.at.duration_since(self.now) + rate.next_token_in(bucket);
                more_in = Some(more_in.map_or(wait, |first: SignedDuration| first.min(wait)));
            }
        }
        Ok(more_in)
    }
}
