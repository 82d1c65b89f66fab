//! Alerts: one pass over the news by the pure book, and everything it decided written together.

use crate::Shared;
use crate::error::Work;
use crate::outbox::notice;
use crate::params::{limit as most, params, time};
use crate::rows::{Columns, Unreadable, document};
use crate::sql;
use crate::tx::Tx;
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{AlertId, ScheduleId};
use punctual_core::notify::alert::Alert;
use punctual_core::notify::book::{AlertBook, LastLook, NewAlerts, Passed, Pressing, Written, pass};
use punctual_core::notify::event::{Event, ScheduleFacts};
use punctual_core::notify::port::{AlertFilter, Findings, Judged};
use punctual_core::readings::Page;
use punctual_core::store::{Lease, StoreError};
use punctual_core::upkeep::Notice;
use std::collections::HashMap;
use tokio_postgres::Row;
use uuid::Uuid;

pub(crate) const BY_ID: &str = "SELECT alert::text FROM punctual_internal.alerts WHERE id = $1";
pub(crate) const BY_CODE: &str = "SELECT alert::text FROM punctual_internal.alerts WHERE code = $1";
const OPEN: &str = "SELECT alert::text FROM punctual_internal.alerts WHERE closed_at IS NULL ORDER BY id";

/// How long a node stays away while another one does the pass.
const BUSY: SignedDuration = SignedDuration::from_secs(1);

pub(crate) fn alert(row: &Row) -> Result<Alert, Unreadable> {
    Columns::of(row).document("alert")
}

/// Whether a pass has anything to do.
pub(crate) async fn pressing(shared: &Shared) -> Work<Pressing> {
    let find = "SELECT EXISTS (SELECT 1 FROM punctual_internal.outbox WHERE delivered_at IS NULL), again_at,
                coalesce($1, now()) FROM punctual_internal.notify_state WHERE id = 1";
    let found = shared.read(find, params![shared.turned()], |row| {
        let mut c = Columns::of(row);
        Ok(Pressing::of(c.next::<bool>()?, c.optional_time()?, c.time()?))
    });
    Ok(found.await?.pop().unwrap_or(Pressing::NotBefore(None)))
}

pub(crate) async fn page(
    shared: &Shared, filter: &AlertFilter, before: Option<AlertId>, limit: usize,
) -> Work<Page<Alert, AlertId>> {
    let before = before.map_or(Uuid::max(), |id| id.0);
    let more = most(limit.saturating_add(1));
    let closed = filter.open == Some(false);
    let found = match filter.rule.as_deref() {
        rule if filter.open == Some(true) => {
            shared.read(sql::alerts_page_open, params![before, rule, more], alert).await?
        }
        Some(rule) => shared.read(sql::alerts_page_of_rule, params![before, closed, more, rule], alert).await?,
        None => shared.read(sql::alerts_page, params![before, closed, more], alert).await?,
    };
    Ok(Page::of(found, limit, |alert| alert.id, None))
}

/// Ids from the store's own source, and codes from the system's randomness.
struct New<'a, 'b>(&'a Tx<'b>);

impl NewAlerts for New<'_, '_> {
    fn alert_id(&mut self) -> AlertId {
        AlertId::at(self.0.now, self.0.id_bits())
    }

    fn code(&mut self) -> String {
        Uuid::new_v4().simple().to_string()
    }
}

impl Tx<'_> {
    /// Makes sure that the next pass looks at everything.
    pub(crate) async fn judge_soon(&self) -> Work<()> {
        let soon = "UPDATE punctual_internal.notify_state SET again_at = $1 WHERE id = 1";
        self.execute(soon, params![self.at()]).await?;
        Ok(())
    }

    pub(crate) async fn acknowledge(&mut self, id: AlertId, by: Option<String>, note: Option<String>) -> Work<Alert> {
        self.lock_book().await?;
        let not_found = || StoreError::NotFound { what: "alert", key: id.to_string() };
        let mut alert = self.one(BY_ID, params![id.0], alert).await?.ok_or_else(not_found)?;
        alert.acknowledge(self.now, by, note);
        self.save_alert(&alert).await?;
        self.judge_soon().await?;
        Ok(alert)
    }

    async fn save_alert(&self, alert: &Alert) -> Work<()> {
        let text = document("alert", alert)?;
        let params = params![alert.id.0, alert.rule.as_str(), alert.code.as_str(), text, alert.closed_at.map(time)];
        self.execute(sql::save_alert, params).await?;
        Ok(())
    }

    pub(crate) async fn judge(&mut self, lease: Lease, limit: usize, findings: Option<&Findings>) -> Work<Judged> {
        self.check_lease(lease).await?;
        let Some(last_look) = self.take_book().await? else {
            return Ok(Judged { again_in: Some(BUSY), ..Judged::default() });
        };
        let news: Vec<Notice> = self.all(sql::open_notices, params![most(limit)], notice).await?;
        let rules = self.rules_and_states().await?;
        let alerts = self.all(OPEN, params![], alert).await?;
        let passed = if rules.is_empty() && alerts.is_empty() {
            Passed::default()
        } else {
            let events = self.events(&news).await?;
            pass(AlertBook::open(rules, alerts), &events, findings, last_look, self.now, &mut New(self))
        };
        self.close_notices(&news).await?;
        let messages = self.write_passed(&passed.written).await?;
        let again_at = passed.again_at.map(|at| at.max(self.now));
        self.note_pass(findings, again_at).await?;
        Ok(Judged {
            notices: news.len(),
            opened: passed.written.opened,
            messages,
            more: news.len() >= limit,
            again_in: again_at.map(|at| at.duration_since(self.now)),
            look: passed.look,
        })
    }

    /// Locks the book, unless somebody else has it.
    async fn take_book(&self) -> Work<Option<LastLook>> {
        let take = "SELECT looked_at, looked_through FROM punctual_internal.notify_state WHERE id = 1
                    FOR UPDATE SKIP LOCKED";
        self.one(take, params![], |row| {
            let mut c = Columns::of(row);
            Ok(LastLook { at: c.time()?, through: c.time()? })
        })
        .await
    }

    async fn note_pass(&self, findings: Option<&Findings>, again_at: Option<Timestamp>) -> Work<()> {
        let note = "UPDATE punctual_internal.notify_state SET again_at = $1, looked_at = coalesce($2, looked_at),
                    looked_through = greatest(looked_through, $3) WHERE id = 1";
        let looked = findings.map(|_| self.at());
        let through = findings.map(|found| time(found.through));
        self.execute(note, params![again_at.map(time), looked, through]).await?;
        Ok(())
    }

    async fn events(&self, news: &[Notice]) -> Work<Vec<Event>> {
        let mut ids: Vec<Uuid> = news.iter().filter_map(|notice| notice.news.schedule_id).map(|id| id.0).collect();
        ids.sort_unstable();
        ids.dedup();
        let find = "SELECT id, name, labels::text, queue FROM punctual_internal.schedules WHERE id = ANY ($1)";
        let found = self.all(find, params![ids], |row| {
            let mut c = Columns::of(row);
            let id: ScheduleId = c.id()?;
            Ok((id, ScheduleFacts { name: c.next()?, labels: c.document("labels")?, queue: c.next()? }))
        });
        let known: HashMap<ScheduleId, ScheduleFacts> = found.await?.into_iter().collect();
        let facts_of = |notice: &Notice| known.get(&notice.news.schedule_id?);
        Ok(news.iter().map(|notice| Event::of_notice(notice, facts_of(notice))).collect())
    }

    async fn close_notices(&self, news: &[Notice]) -> Work<()> {
        if news.is_empty() {
            return Ok(());
        }
        let close = "UPDATE punctual_internal.outbox SET delivered_at = $2 WHERE id = ANY ($1)";
        let ids: Vec<Uuid> = news.iter().map(|notice| notice.id.0).collect();
        self.execute(close, params![ids, self.at()]).await?;
        Ok(())
    }

    /// Writes what the book says; answers how many messages were put into lines.
    async fn write_passed(&self, written: &Written) -> Work<usize> {
        for alert in &written.alerts {
            self.save_alert(alert).await?;
        }
        for (name, state) in &written.rules {
            let remember = "UPDATE punctual_internal.rules SET state = $2::text::json WHERE name = $1";
            self.execute(remember, params![name.as_str(), document("state", state)?]).await?;
        }
        for outgoing in &written.outgoing {
            self.put_into_line(outgoing.channel.clone(), outgoing.message.clone()).await?;
        }
        Ok(written.outgoing.len())
    }
}
