//! Job keys and unique keys: who holds one, and making a job under one by the pure rules.

use crate::rows::Columns;
use crate::sql;
use crate::tx::{Tx, value};
use jiff::Timestamp;
use punctual_core::id::JobId;
use punctual_core::job::{NewJob, Origin, Whereabouts};
use punctual_core::job_key::{JobKey, KeyDecision, KeyHolder, decide};
use punctual_core::run::ErrorCode;
use punctual_core::store::StoreResult;
use punctual_core::unique::{Enqueued, Unique};
use rusqlite::params;

impl Tx<'_> {
    /// Makes one job, unless an earlier one of its key stays instead; says which job it is.
    pub(crate) fn enqueue_job(&mut self, spec: &NewJob) -> StoreResult<Enqueued> {
        if let Some(unique) = &spec.unique {
            return self.enqueue_unique(spec, unique);
        }
        let Some(key) = &spec.job_key else {
            return Ok(Enqueued { id: self.insert_and_place(spec, &Origin::default())?, is_new: true });
        };
        let found = self.key_holder(key)?;
        let holder = found.map_or(KeyHolder::Nobody, |(_, holder)| holder);
        match (found, decide(key.mode, spec.run_at, holder)) {
            (Some((id, _)), KeyDecision::Keep) => Ok(Enqueued { id, is_new: false }),
            (Some((id, _)), KeyDecision::Replace { run_at }) => {
                let schedule_id = self.job(id)?.and_then(|job| job.schedule_id);
                self.take_waiting(id)?;
                self.close_unstarted(id, schedule_id, ErrorCode::Replaced)?;
                self.make_under_key(&NewJob { run_at, ..spec.clone() }, key)
            }
            _ => self.make_under_key(spec, key),
        }
    }

    fn make_under_key(&mut self, spec: &NewJob, key: &JobKey) -> StoreResult<Enqueued> {
        let id = self.insert_and_place(spec, &Origin::default())?;
        self.execute(
            "INSERT INTO punctual_job_keys (key, job_id) VALUES (?1, ?2)
             ON CONFLICT (key) DO UPDATE SET job_id = excluded.job_id",
            params![key.key, id.as_bytes()],
        )?;
        Ok(Enqueued { id, is_new: true })
    }

    fn enqueue_unique(&mut self, spec: &NewJob, unique: &Unique) -> StoreResult<Enqueued> {
        let key = unique.key_of(spec);
        if let Some(id) = self.unique_holder(&key, unique)? {
            return Ok(Enqueued { id, is_new: false });
        }
        let id = self.insert_and_place(spec, &Origin::default())?;
        self.execute(
            "INSERT INTO punctual_unique_keys (key, job_id, until_at) VALUES (?1, ?2, ?3)
             ON CONFLICT (key) DO UPDATE SET job_id = excluded.job_id, until_at = excluded.until_at",
            params![key, id.as_bytes(), unique.until(self.now).as_microsecond()],
        )?;
        Ok(Enqueued { id, is_new: true })
    }

    /// The job that stands for a new one of the same key: the last of its chain.
    fn unique_holder(&self, key: &str, unique: &Unique) -> StoreResult<Option<JobId>> {
        let find = "SELECT job_id, until_at FROM punctual_unique_keys WHERE key = ?1";
        let found: Option<(JobId, Timestamp)> = self.one(find, params![key], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.time()?))
        })?;
        let Some((first, until)) = found else { return Ok(None) };
        let last = self.one(sql::chain_end, params![first.as_bytes()], value::<[u8; 16]>)?;
        let id = last.map_or(first, JobId::from_bytes);
        let state = self.whereabouts(id)?.map(|whereabouts| whereabouts.state());
        Ok(state.filter(|state| unique.is_taken(until, self.now, *state)).map(|_| id))
    }

    /// The last job of the key's chain and where it stands.
    fn key_holder(&self, key: &JobKey) -> StoreResult<Option<(JobId, KeyHolder)>> {
        let find = "SELECT job_id FROM punctual_job_keys WHERE key = ?1";
        let Some(first) = self.one(find, params![key.key], value::<[u8; 16]>)? else { return Ok(None) };
        let Some(last) = self.one(sql::chain_end, params![first], value::<[u8; 16]>)? else { return Ok(None) };
        let id = JobId::from_bytes(last);
        Ok(self.whereabouts(id)?.map(|whereabouts| {
            let holder = match whereabouts {
                Whereabouts::Delayed { run_at } => KeyHolder::Waiting { run_at },
                Whereabouts::Queued { .. } => KeyHolder::Waiting { run_at: None },
                Whereabouts::Running(_) => KeyHolder::Running,
                Whereabouts::Closed(_) => KeyHolder::Nobody,
            };
            (id, holder)
        }))
    }

    /// The job that takes another's place holds its key.
    pub(crate) fn hand_key_on(&mut self, old: JobId, new: JobId) -> StoreResult<()> {
        let hand_on = "UPDATE punctual_job_keys SET job_id = ?2 WHERE job_id = ?1";
        self.execute(hand_on, params![old.as_bytes(), new.as_bytes()])?;
        let hand_on = "UPDATE punctual_unique_keys SET job_id = ?2 WHERE job_id = ?1";
        self.execute(hand_on, params![old.as_bytes(), new.as_bytes()])?;
        Ok(())
    }
}
