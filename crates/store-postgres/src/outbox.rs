//! The outbox: news written with what it tells.

use crate::error::Work;
use crate::params::{Params, params};
use crate::rows::{Columns, Unreadable};
use crate::sql;
use crate::tx::Tx;
use punctual_core::id::NoticeId;
use punctual_core::json::Json;
use punctual_core::upkeep::{News, Notice};
use std::time::SystemTime;
use tokio_postgres::Row;

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

pub(crate) fn notice(row: &Row) -> Result<Notice, Unreadable> {
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
