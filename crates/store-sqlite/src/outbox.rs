//! The outbox: news written with what it tells.

use crate::rows::{Columns, Unreadable, bytes};
use crate::sql;
use crate::tx::Tx;
use punctual_core::id::NoticeId;
use punctual_core::store::StoreResult;
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
}

pub(crate) fn notice(row: &Row<'_>) -> Result<Notice, Unreadable> {
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
