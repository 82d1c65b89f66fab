//! The outbox: news written with what it tells, handed out to one node at a time until it is delivered.

use crate::error::Work;
use crate::params::{Params, params};
use crate::rows::{Columns, Unreadable};
use crate::sql;
use crate::tx::Tx;
use punctual_core::id::NoticeId;
use punctual_core::json::Json;
use punctual_core::store::Lease;
use punctual_core::upkeep::{News, Notice};
use std::collections::HashSet;
use std::time::SystemTime;
use tokio_postgres::Row;
use uuid::Uuid;

impl Tx<'_> {
    pub(crate) fn notice_id(&self) -> NoticeId {
        NoticeId::at(self.now, self.id_bits())
    }

    /// News as it goes into the outbox.
    pub(crate) fn notice(&self, news: News) -> Notice {
        Notice { id: self.notice_id(), created_at: self.now, news }
    }

    /// Puts news into the outbox.
    pub(crate) async fn tell(&self, news: News) -> Work<()> {
        let notice = [self.notice(news)];
        self.execute(sql::insert_notices, notice_params(&notice, self.at())).await?;
        Ok(())
    }

    pub(crate) async fn take_notices(&mut self, lease: Lease, limit: usize) -> Work<Vec<Notice>> {
        self.check_lease(lease).await?;
        let params = params![lease.lease_id.0, crate::params::limit(limit)];
        let mut taken = self.all(sql::take_notices, params, notice).await?;
        taken.sort_unstable_by_key(|notice| notice.id);
        Ok(taken)
    }

    pub(crate) async fn close_notices(&mut self, lease: Lease, ids: &[NoticeId]) -> Work<Vec<NoticeId>> {
        self.check_lease(lease).await?;
        let close = "UPDATE punctual_internal.outbox SET delivered_at = $3
                     WHERE id = ANY ($1) AND taken_by = $2 AND delivered_at IS NULL RETURNING id";
        let params = params![ids.iter().map(|id| id.0).collect::<Vec<Uuid>>(), lease.lease_id.0, self.at()];
        let closed: Vec<NoticeId> = self.all(close, params, |row| Columns::of(row).id()).await?;
        let closed: HashSet<NoticeId> = closed.into_iter().collect();
        Ok(ids.iter().copied().filter(|id| closed.contains(id)).collect())
    }
}

pub(crate) fn notice_params(notices: &[Notice], now: SystemTime) -> Params<'_> {
    let news = || notices.iter().map(|notice| &notice.news);
    params![
        now,
        notices.iter().map(|notice| notice.id.0).collect::<Vec<_>>(),
        news().map(|news| news.kind.as_str()).collect::<Vec<_>>(),
        news().map(|news| news.job_id.map(|id| id.0)).collect::<Vec<_>>(),
        news().map(|news| news.schedule_id.map(|id| id.0)).collect::<Vec<_>>(),
        news().map(|news| news.node_id.map(|id| id.0)).collect::<Vec<_>>(),
        news().map(|news| news.payload.as_str()).collect::<Vec<_>>(),
    ]
}

fn notice(row: &Row) -> Result<Notice, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Notice {
        id: c.id()?,
        created_at: c.time()?,
        news: News {
            kind: c.word()?,
            job_id: c.optional_id()?,
            schedule_id: c.optional_id()?,
            node_id: c.optional_id()?,
            payload: Json::from_stored(c.next()?)?,
        },
    })
}
