//! Alerts: one pass over the news by the pure book, and everything it decided written together.

use crate::notify::{most, rules_and_states};
use crate::outbox::notice;
use crate::rows::{self, Columns, Unreadable, document};
use crate::sql;
use crate::tx::Tx;
use jiff::Timestamp;
use punctual_core::id::{AlertId, ScheduleId};
use punctual_core::notify::alert::Alert;
use punctual_core::notify::book::{AlertBook, LastLook, NewAlerts, Passed, Pressing, Written, pass};
use punctual_core::notify::event::{Event, ScheduleFacts};
use punctual_core::notify::port::{AlertFilter, Findings, Judged};
use punctual_core::readings::Page;
use punctual_core::store::{Lease, StoreError, StoreResult};
use punctual_core::upkeep::Notice;
use rusqlite::{Connection, Row, params};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

const OPEN: &str = "SELECT alert FROM punctual_alerts WHERE closed_at IS NULL ORDER BY id";

fn alert(row: &Row<'_>) -> Result<Alert, Unreadable> {
    Columns::of(row).document("alert")
}

/// Whether a pass has anything to do.
pub(crate) fn pressing(connection: &Connection, now: Timestamp) -> StoreResult<Pressing> {
    let find = "SELECT EXISTS (SELECT 1 FROM punctual_outbox WHERE delivered_at IS NULL), again_at
                FROM punctual_notify_state WHERE id = 1";
    let found = rows::collect(connection, find, [], |row| {
        let mut c = Columns::of(row);
        Ok((c.next::<bool>()?, c.optional_time()?))
    })?;
    let (news, again_at) = found.into_iter().next().unwrap_or_default();
    Ok(Pressing::of(news, again_at, now))
}

pub(crate) fn page(
    connection: &Connection, filter: &AlertFilter, before: Option<AlertId>, limit: usize,
) -> StoreResult<Page<Alert, AlertId>> {
    let before = before.map_or([0xff; 16], |id| *id.as_bytes());
    let more = most(limit.saturating_add(1));
    let closed = filter.open == Some(false);
    let found = match &filter.rule {
        rule if filter.open == Some(true) => {
            rows::collect(connection, sql::alerts_page_open, params![before, rule, more], alert)?
        }
        Some(rule) => rows::collect(connection, sql::alerts_page_of_rule, params![before, closed, more, rule], alert)?,
        None => rows::collect(connection, sql::alerts_page, params![before, closed, more], alert)?,
    };
    Ok(Page::of(found, limit, |alert| alert.id, None))
}

pub(crate) fn by_id(connection: &Connection, id: AlertId) -> StoreResult<Option<Alert>> {
    let find = "SELECT alert FROM punctual_alerts WHERE id = ?1";
    Ok(rows::collect(connection, find, params![id.as_bytes()], alert)?.pop())
}

pub(crate) fn by_code(connection: &Connection, code: &str) -> StoreResult<Option<Alert>> {
    let find = "SELECT alert FROM punctual_alerts WHERE code = ?1";
    Ok(rows::collect(connection, find, params![code], alert)?.pop())
}

/// Ids and codes from the transaction's own source, and from the system's randomness.
struct New<'a, 'b>(&'a mut Tx<'b>);

impl NewAlerts for New<'_, '_> {
    fn alert_id(&mut self) -> AlertId {
        let bits = self.0.id_bits();
        AlertId::at(self.0.now, bits)
    }

    fn code(&mut self) -> String {
        uuid::Uuid::new_v4().simple().to_string()
    }
}

impl Tx<'_> {
    /// Makes sure that the next pass looks at everything.
    pub(crate) fn judge_soon(&self) -> StoreResult<()> {
        self.execute("UPDATE punctual_notify_state SET again_at = ?1 WHERE id = 1", params![self.now_us()])?;
        Ok(())
    }

    pub(crate) fn acknowledge(&mut self, id: AlertId, by: Option<String>, note: Option<String>) -> StoreResult<Alert> {
        let not_found = || StoreError::NotFound { what: "alert", key: id.to_string() };
        let mut alert = by_id(self.connection(), id)?.ok_or_else(not_found)?;
        alert.acknowledge(self.now, by, note);
        self.save_alert(&alert)?;
        self.judge_soon()?;
        Ok(alert)
    }

    fn save_alert(&self, alert: &Alert) -> StoreResult<()> {
        let closed_at = alert.closed_at.map(Timestamp::as_microsecond);
        let text = document("alert", alert)?;
        let params = params![alert.id.as_bytes(), alert.rule.as_str(), alert.code, text, closed_at];
        self.execute(sql::save_alert, params).map(|_| ())
    }

    pub(crate) fn judge(&mut self, lease: Lease, limit: usize, findings: Option<&Findings>) -> StoreResult<Judged> {
        self.check_lease(lease)?;
        let news: Vec<Notice> = self.all(sql::open_notices, params![most(limit)], notice)?;
        let rules = rules_and_states(self.connection())?;
        let alerts = self.all(OPEN, [], alert)?;
        let passed = if rules.is_empty() && alerts.is_empty() {
            Passed::default()
        } else {
            let events = self.events(&news)?;
            let (last_look, now) = (self.last_look()?, self.now);
            pass(AlertBook::open(rules, alerts), &events, findings, last_look, now, &mut New(self))
        };
        self.close_notices(&news)?;
        let messages = self.write_passed(&passed.written)?;
        let again_at = passed.again_at.map(|at| at.max(self.now));
        self.note_pass(findings, again_at)?;
        Ok(Judged {
            notices: news.len(),
            opened: passed.written.opened,
            messages,
            more: news.len() >= limit,
            again_in: again_at.map(|at| at.duration_since(self.now)),
            look: passed.look,
        })
    }

    fn last_look(&self) -> StoreResult<LastLook> {
        let find = "SELECT looked_at, looked_through FROM punctual_notify_state WHERE id = 1";
        let found = self.one(find, [], |row| {
            let mut c = Columns::of(row);
            Ok(LastLook { at: c.time()?, through: c.time()? })
        })?;
        found.ok_or_else(|| StoreError::Internal("the state of notifications is gone".to_owned()))
    }

    fn note_pass(&self, findings: Option<&Findings>, again_at: Option<Timestamp>) -> StoreResult<()> {
        let looked = findings.map(|found| (self.now_us(), found.through.as_microsecond()));
        let note = "UPDATE punctual_notify_state SET again_at = ?1, looked_at = coalesce(?2, looked_at),
                    looked_through = max(looked_through, coalesce(?3, 0)) WHERE id = 1";
        let params = params![again_at.map(Timestamp::as_microsecond), looked.map(|it| it.0), looked.map(|it| it.1)];
        self.execute(note, params).map(|_| ())
    }

    fn events(&self, news: &[Notice]) -> StoreResult<Vec<Event>> {
        let mut known: HashMap<ScheduleId, Option<ScheduleFacts>> = HashMap::new();
        let find = "SELECT name, labels, queue FROM punctual_schedules WHERE id = ?1";
        for id in news.iter().filter_map(|notice| notice.news.schedule_id) {
            if let Entry::Vacant(unknown) = known.entry(id) {
                unknown.insert(self.one(find, params![id.as_bytes()], |row| {
                    let mut c = Columns::of(row);
                    Ok(ScheduleFacts { name: c.next()?, labels: c.document("labels")?, queue: c.next()? })
                })?);
            }
        }
        let facts_of = |notice: &Notice| known.get(&notice.news.schedule_id?)?.as_ref();
        Ok(news.iter().map(|notice| Event::of_notice(notice, facts_of(notice))).collect())
    }

    fn close_notices(&self, news: &[Notice]) -> StoreResult<()> {
        let close = "UPDATE punctual_outbox SET delivered_at = ?2 WHERE id = ?1";
        for notice in news {
            self.execute(close, params![notice.id.as_bytes(), self.now_us()])?;
        }
        Ok(())
    }

    /// Writes what the book says; answers how many messages were put into lines.
    fn write_passed(&mut self, written: &Written) -> StoreResult<usize> {
        for alert in &written.alerts {
            self.save_alert(alert)?;
        }
        for (name, state) in &written.rules {
            let remember = "UPDATE punctual_rules SET state = ?2 WHERE name = ?1";
            self.execute(remember, params![name.as_str(), document("state", state)?])?;
        }
        for outgoing in &written.outgoing {
            self.put_into_line(outgoing.channel.clone(), outgoing.message.clone())?;
        }
        Ok(written.outgoing.len())
    }
}
