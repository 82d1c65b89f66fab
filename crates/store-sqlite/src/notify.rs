//! Whom to tell and of what: channels and rules, and the verbs of notification, each handed to the writer or a reader.

use crate::SqliteStore;
use crate::error::{is_unique_violation, store_error};
use crate::outbox::notice;
use crate::rows::{self, Columns, Unreadable, document};
use crate::sql;
use crate::tx::Tx;
use crate::{alerts, deliveries, sightings};
use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::id::{AlertId, DeliveryId, NoticeId};
use punctual_core::invalid::Invalid;
use punctual_core::name::{self, Name};
use punctual_core::notify::alert::Alert;
use punctual_core::notify::book::{Pressing, RuleState};
use punctual_core::notify::channel::{Channel, ChannelDefinition};
use punctual_core::notify::delivery::Delivery;
use punctual_core::notify::message::{Message, Sent};
use punctual_core::notify::port::{
    AlertFilter, DeliveryFilter, Findings, Judged, Look, Notifications, OverdueSchedule, TakenDeliveries,
};
use punctual_core::notify::rule::{RULES_MAX, Rule, RuleDefinition};
use punctual_core::readings::Page;
use punctual_core::store::{Lease, StoreError, StoreResult};
use punctual_core::upkeep::{News, Notice};
use rusqlite::{Connection, Row, params};

const CHANNEL: &str = "SELECT definition, version, created_at, updated_at FROM punctual_channels WHERE name = ?1";
const CHANNELS: &str = "SELECT definition, version, created_at, updated_at FROM punctual_channels
                        WHERE name > ?1 ORDER BY name LIMIT ?2";
const RULE: &str = "SELECT definition, version, created_at, updated_at FROM punctual_rules WHERE name = ?1";
const RULES: &str = "SELECT definition, version, created_at, updated_at FROM punctual_rules
                     WHERE name > ?1 ORDER BY name LIMIT ?2";

#[async_trait]
impl Notifications for SqliteStore {
    async fn create_channel(&self, channel: ChannelDefinition) -> StoreResult<Channel> {
        channel.validate()?;
        self.write(move |tx| tx.create_channel(&channel)).await
    }

    async fn update_channel_if_version(
        &self, name: &str, version: i64, channel: ChannelDefinition,
    ) -> StoreResult<Channel> {
        channel.validate()?;
        let name = name.to_owned();
        self.write_plans(move |tx| tx.update_channel(&name, version, &channel)).await
    }

    async fn delete_channel(&self, name: &str) -> StoreResult<()> {
        let name = name.to_owned();
        self.write(move |tx| tx.delete_channel(&name)).await
    }

    async fn channel(&self, name: &str) -> StoreResult<Option<Channel>> {
        let name = name.to_owned();
        self.read(move |connection| Ok(rows::collect(connection, CHANNEL, params![name], channel)?.pop())).await
    }

    async fn channels(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Channel>> {
        let (after, limit) = (after.unwrap_or_default().to_owned(), most(limit));
        self.read(move |connection| rows::collect(connection, CHANNELS, params![after, limit], channel)).await
    }

    async fn test_channel(&self, name: &str) -> StoreResult<Delivery> {
        let name = name.to_owned();
        self.write_plans(move |tx| tx.test_channel(&name)).await
    }

    async fn create_rule(&self, rule: RuleDefinition) -> StoreResult<Rule> {
        rule.validate()?;
        self.write_plans(move |tx| tx.create_rule(&rule)).await
    }

    async fn update_rule_if_version(&self, name: &str, version: i64, rule: RuleDefinition) -> StoreResult<Rule> {
        rule.validate()?;
        let name = name.to_owned();
        self.write_plans(move |tx| tx.update_rule(&name, version, &rule)).await
    }

    async fn delete_rule(&self, name: &str) -> StoreResult<()> {
        let name = name.to_owned();
        self.write_plans(move |tx| tx.delete_rule(&name)).await
    }

    async fn rule(&self, name: &str) -> StoreResult<Option<Rule>> {
        let name = name.to_owned();
        self.read(move |connection| Ok(rows::collect(connection, RULE, params![name], rule)?.pop())).await
    }

    async fn rules(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Rule>> {
        let (after, limit) = (after.unwrap_or_default().to_owned(), most(limit));
        self.read(move |connection| rows::collect(connection, RULES, params![after, limit], rule)).await
    }

    async fn alerts(
        &self, filter: &AlertFilter, before: Option<AlertId>, limit: usize,
    ) -> StoreResult<Page<Alert, AlertId>> {
        let filter = filter.clone();
        self.read(move |connection| alerts::page(connection, &filter, before, limit)).await
    }

    async fn alert(&self, id: AlertId) -> StoreResult<Option<Alert>> {
        self.read(move |connection| alerts::by_id(connection, id)).await
    }

    async fn acknowledge_alert(&self, id: AlertId, by: Option<String>, note: Option<String>) -> StoreResult<Alert> {
        name::check_text("by", by.as_deref().unwrap_or_default())?;
        name::check_text("note", note.as_deref().unwrap_or_default())?;
        self.write_plans(move |tx| tx.acknowledge(id, by, note)).await
    }

    async fn alert_by_code(&self, code: &str) -> StoreResult<Option<Alert>> {
        let code = code.to_owned();
        self.read(move |connection| alerts::by_code(connection, &code)).await
    }

    async fn deliveries(
        &self, filter: &DeliveryFilter, before: Option<DeliveryId>, limit: usize,
    ) -> StoreResult<Page<Delivery, DeliveryId>> {
        let filter = filter.clone();
        self.read(move |connection| deliveries::page(connection, &filter, before, limit)).await
    }

    async fn delivery(&self, id: DeliveryId) -> StoreResult<Option<Delivery>> {
        self.read(move |connection| deliveries::by_id(connection, id)).await
    }

    async fn resend_delivery(&self, id: DeliveryId) -> StoreResult<Delivery> {
        self.write_plans(move |tx| tx.change_delivery(id, Delivery::resend)).await
    }

    async fn drop_delivery(&self, id: DeliveryId) -> StoreResult<Delivery> {
        self.write_plans(move |tx| tx.change_delivery(id, Delivery::take_out)).await
    }

    async fn notices(&self, after: Option<NoticeId>, limit: usize) -> StoreResult<Vec<Notice>> {
        let (after, limit) = (after.map_or([0; 16], |id| *id.as_bytes()), most(limit));
        self.read(move |connection| rows::collect(connection, sql::notices_after, params![after, limit], notice)).await
    }

    async fn judge_news_if_leased(
        &self, lease: Lease, limit: usize, findings: Option<Findings>,
    ) -> StoreResult<Judged> {
        let now = self.clock.now();
        if findings.is_none() {
            // Looked for beside the writer, because nearly always there is nothing to do.
            let pressing = self.read(move |connection| alerts::pressing(connection, now)).await?;
            if let Pressing::NotBefore(again_in) = pressing {
                return Ok(Judged { again_in, ..Judged::default() });
            }
        }
        self.write(move |tx| tx.judge(lease, limit, findings.as_ref())).await
    }

    async fn look(&self, look: &Look) -> StoreResult<Findings> {
        let (look, now) = (look.clone(), self.clock.now());
        self.read(move |connection| sightings::look(connection, &look, now)).await
    }

    async fn overdue_schedules(&self, by: SignedDuration, limit: usize) -> StoreResult<Vec<OverdueSchedule>> {
        let due = self.clock.now().saturating_sub(by).unwrap_or(jiff::Timestamp::MIN);
        self.read(move |connection| sightings::overdue(connection, due, limit)).await
    }

    async fn tell_clock_jumped_if_leased(&self, lease: Lease, by: SignedDuration) -> StoreResult<()> {
        self.write(move |tx| {
            tx.check_lease(lease)?;
            tx.tell(&News::clock_jumped(lease.node_id, by))
        })
        .await
    }

    async fn take_deliveries_if_leased(
        &self, lease: Lease, sending: Vec<DeliveryId>, limit: usize,
    ) -> StoreResult<TakenDeliveries> {
        if !self.read(deliveries::any_waits).await? {
            return Ok(TakenDeliveries::default());
        }
        self.write(move |tx| tx.take_deliveries(lease, &sending, limit)).await
    }

    async fn end_attempt_if_taken(&self, lease: Lease, id: DeliveryId, sent: Sent) -> StoreResult<Option<Delivery>> {
        self.write(move |tx| tx.end_attempt(lease, id, sent)).await
    }
}

pub(crate) fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn channel(row: &Row<'_>) -> Result<Channel, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Channel { definition: c.document("channel")?, version: c.next()?, created_at: c.time()?, updated_at: c.time()? })
}

fn rule(row: &Row<'_>) -> Result<Rule, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Rule { definition: c.document("rule")?, version: c.next()?, created_at: c.time()?, updated_at: c.time()? })
}

/// All rules with what they remember.
pub(crate) fn rules_and_states(connection: &Connection) -> StoreResult<Vec<(RuleDefinition, RuleState)>> {
    let find = "SELECT definition, state FROM punctual_rules ORDER BY name";
    rows::collect(connection, find, [], |row| {
        let mut c = Columns::of(row);
        Ok((c.document("rule")?, c.document("state")?))
    })
}

fn no_channel(name: &str) -> StoreError {
    StoreError::NotFound { what: "channel", key: name.to_owned() }
}

fn no_rule(name: &str) -> StoreError {
    StoreError::NotFound { what: "rule", key: name.to_owned() }
}

/// A name stays: others call a thing by it.
fn same_name(old: &str, new: &Name) -> Result<(), Invalid> {
    if old == new.as_str() {
        return Ok(());
    }
    Err(Invalid::new("name", "cannot be changed").remedy("make another one and delete this one"))
}

impl Tx<'_> {
    pub(crate) fn create_channel(&mut self, channel: &ChannelDefinition) -> StoreResult<Channel> {
        let insert = "INSERT INTO punctual_channels (name, definition, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)";
        let name = channel.name.as_str();
        match self.try_execute(insert, params![name, document("channel", channel)?, self.now_us()])? {
            Ok(_) => self.stored_channel(name),
            Err(error) if is_unique_violation(&error) => {
                Err(StoreError::NameTaken { what: "channel", name: name.to_owned() })
            }
            Err(error) => Err(store_error(error)),
        }
    }

    pub(crate) fn stored_channel(&self, name: &str) -> StoreResult<Channel> {
        self.one(CHANNEL, params![name], channel)?.ok_or_else(|| no_channel(name))
    }

    pub(crate) fn update_channel(
        &mut self, name: &str, version: i64, channel: &ChannelDefinition,
    ) -> StoreResult<Channel> {
        let found = self.stored_channel(name)?.version;
        same_name(name, &channel.name)?;
        check_version(found, version)?;
        let update =
            "UPDATE punctual_channels SET definition = ?2, version = version + 1, updated_at = ?3 WHERE name = ?1";
        self.execute(update, params![name, document("channel", channel)?, self.now_us()])?;
        self.stored_channel(name)
    }

    pub(crate) fn delete_channel(&mut self, name: &str) -> StoreResult<()> {
        self.stored_channel(name)?;
        let by: Vec<String> = rules_and_states(self.connection())?
            .into_iter()
            .filter(|(rule, _)| rule.channels().iter().any(|channel| channel.as_str() == name))
            .map(|(rule, _)| rule.name.to_string())
            .take(10)
            .collect();
        if !by.is_empty() {
            return Err(StoreError::InUse { what: "channel", name: name.to_owned(), by });
        }
        let drop = "UPDATE punctual_deliveries SET state = 'dropped', ended_at = ?2, taken_by = NULL
                    WHERE channel = ?1 AND state = 'waiting'";
        self.execute(drop, params![name, self.now_us()])?;
        self.execute("DELETE FROM punctual_channels WHERE name = ?1", params![name])?;
        Ok(())
    }

    fn test_channel(&mut self, name: &str) -> StoreResult<Delivery> {
        let channel = self.stored_channel(name)?;
        if !channel.definition.enabled {
            return Err(Invalid::new("channel", "is off").remedy("turn it on first").into());
        }
        self.put_into_line(channel.definition.name, Message::test(self.now))
    }

    pub(crate) fn create_rule(&mut self, rule: &RuleDefinition) -> StoreResult<Rule> {
        self.check_channels_of(rule)?;
        let name = rule.name.as_str();
        if rules_and_states(self.connection())?.len() >= RULES_MAX {
            return Err(Invalid::new("rules", format!("are {RULES_MAX} already")).remedy("delete some first").into());
        }
        let insert = "INSERT INTO punctual_rules (name, definition, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)";
        match self.try_execute(insert, params![name, document("rule", rule)?, self.now_us()])? {
            Ok(_) => {
                self.judge_soon()?;
                self.stored_rule(name)
            }
            Err(error) if is_unique_violation(&error) => {
                Err(StoreError::NameTaken { what: "rule", name: name.to_owned() })
            }
            Err(error) => Err(store_error(error)),
        }
    }

    fn check_channels_of(&self, rule: &RuleDefinition) -> StoreResult<()> {
        let known = self.all(CHANNELS, params!["", i64::MAX], channel)?.into_iter();
        let known = known.map(|it| (it.definition.name, it.definition.target.kind())).collect();
        Ok(rule.check_channels(&known)?)
    }

    pub(crate) fn stored_rule(&self, name: &str) -> StoreResult<Rule> {
        self.one(RULE, params![name], rule)?.ok_or_else(|| no_rule(name))
    }

    pub(crate) fn update_rule(&mut self, name: &str, version: i64, rule: &RuleDefinition) -> StoreResult<Rule> {
        let found = self.stored_rule(name)?.version;
        same_name(name, &rule.name)?;
        check_version(found, version)?;
        self.check_channels_of(rule)?;
        let update =
            "UPDATE punctual_rules SET definition = ?2, version = version + 1, updated_at = ?3 WHERE name = ?1";
        self.execute(update, params![name, document("rule", rule)?, self.now_us()])?;
        self.judge_soon()?;
        self.stored_rule(name)
    }

    pub(crate) fn delete_rule(&mut self, name: &str) -> StoreResult<()> {
        if self.execute("DELETE FROM punctual_rules WHERE name = ?1", params![name])? == 0 {
            return Err(no_rule(name));
        }
        self.judge_soon()
    }
}

fn check_version(found: i64, expected: i64) -> StoreResult<()> {
    if found == expected { Ok(()) } else { Err(StoreError::VersionConflict { expected, found }) }
}
