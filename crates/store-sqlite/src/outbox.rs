//! The outbox: news written with what it tells, handed out to one node at a time until it is delivered.

use crate::rows::{Columns, Unreadable, bytes};
use crate::sql;
use crate::tx::{Tx, value};
use punctual_core::id::NoticeId;
use punctual_core::store::{Lease, StoreResult};
use punctual_core::upkeep::{News, Notice};
use rusqlite::{Row, params};

impl Tx<'_> {
    /// Puts news into the outbox.
    pub(crate) fn tell(&mut self, news: &News) -> StoreResult<()> {
        let bits = self.id_bits();
        let id = NoticeId::at(self.now, bits);
        let params = params![
            id.as_bytes(),
            self.now_us(),
            news.kind.as_str(),
            bytes(news.job_id.as_ref()),
            bytes(news.schedule_id.as_ref()),
            bytes(news.node_id.as_ref()),
            news.payload.as_str(),
        ];
        self.execute(sql::insert_notice, params).map(|_| ())
    }

    pub(crate) fn take_notices(&mut self, lease: Lease, limit: usize) -> StoreResult<Vec<Notice>> {
        self.check_lease(lease)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut taken = self.all(sql::take_notices, params![lease.lease_id.as_bytes(), limit], notice)?;
        taken.sort_unstable_by_key(|notice| notice.id);
        Ok(taken)
    }

    pub(crate) fn close_notices(&mut self, lease: Lease, ids: &[NoticeId]) -> StoreResult<Vec<NoticeId>> {
        self.check_lease(lease)?;
        let close = "UPDATE punctual_outbox SET delivered_at = ?3
                     WHERE id = ?1 AND taken_by = ?2 AND delivered_at IS NULL RETURNING 1";
        let mut closed = Vec::new();
        for id in ids {
            let params = params![id.as_bytes(), lease.lease_id.as_bytes(), self.now_us()];
            closed.extend(self.one(close, params, value::<i64>)?.map(|_| *id));
        }
        Ok(closed)
    }
}

fn notice(row: &Row<'_>) -> Result<Notice, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Notice {
        id: c.id()?,
        created_at: c.time()?,
        news: News {
            kind: c.word()?,
            job_id: c.optional_id()?,
            schedule_id: c.optional_id()?,
            node_id: c.optional_id()?,
            payload: c.json()?,
        },
    })
}
