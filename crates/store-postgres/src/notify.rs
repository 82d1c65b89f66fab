//! Whom to tell and of what: channels and rules, and the verbs of notification.

use crate::error::{Failure, Work};
use crate::outbox::notice;
use crate::params::{limit as most, params};
use crate::rows::{Columns, Unreadable, document};
use crate::tx::{Tx, in_transaction};
use crate::wake::Wake;
use crate::{PostgresStore, alerts, deliveries, sightings, sql};
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
use tokio_postgres::Row;

const CHANNEL: &str =
    "SELECT definition::text, version, created_at, updated_at FROM punctual_internal.channels WHERE name = $1";
const CHANNELS: &str = "SELECT definition::text, version, created_at, updated_at FROM punctual_internal.channels
                        WHERE name > $1 ORDER BY name LIMIT $2";
const RULE: &str =
    "SELECT definition::text, version, created_at, updated_at FROM punctual_internal.rules WHERE name = $1";
const RULES: &str = "SELECT definition::text, version, created_at, updated_at FROM punctual_internal.rules
                     WHERE name > $1 ORDER BY name LIMIT $2";

#[async_trait]
impl Notifications for PostgresStore {
    async fn create_channel(&self, channel: ChannelDefinition) -> StoreResult<Channel> {
        channel.validate()?;
        in_transaction!(&self.shared, |tx| tx.create_channel(&channel))
    }

    async fn update_channel_if_version(
        &self, name: &str, version: i64, channel: ChannelDefinition,
    ) -> StoreResult<Channel> {
        channel.validate()?;
        in_transaction!(&self.shared, Plans | tx | tx.update_channel(name, version, &channel))
    }

    async fn delete_channel(&self, name: &str) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.delete_channel(name))
    }

    async fn channel(&self, name: &str) -> StoreResult<Option<Channel>> {
        Ok(self.shared.read(CHANNEL, params![name], channel).await?.pop())
    }

    async fn channels(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Channel>> {
        Ok(self.shared.read(CHANNELS, params![after.unwrap_or(""), most(limit)], channel).await?)
    }

    async fn test_channel(&self, name: &str) -> StoreResult<Delivery> {
        in_transaction!(&self.shared, Plans | tx | tx.test_channel(name))
    }

    async fn create_rule(&self, rule: RuleDefinition) -> StoreResult<Rule> {
        rule.validate()?;
        in_transaction!(&self.shared, Plans | tx | tx.create_rule(&rule))
    }

    async fn update_rule_if_version(&self, name: &str, version: i64, rule: RuleDefinition) -> StoreResult<Rule> {
        rule.validate()?;
        in_transaction!(&self.shared, Plans | tx | tx.update_rule(name, version, &rule))
    }

    async fn delete_rule(&self, name: &str) -> StoreResult<()> {
        in_transaction!(&self.shared, Plans | tx | tx.delete_rule(name))
    }

    async fn rule(&self, name: &str) -> StoreResult<Option<Rule>> {
        Ok(self.shared.read(RULE, params![name], rule).await?.pop())
    }

    async fn rules(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Rule>> {
        Ok(self.shared.read(RULES, params![after.unwrap_or(""), most(limit)], rule).await?)
    }

    async fn alerts(
        &self, filter: &AlertFilter, before: Option<AlertId>, limit: usize,
    ) -> StoreResult<Page<Alert, AlertId>> {
        Ok(alerts::page(&self.shared, filter, before, limit).await?)
    }

    async fn alert(&self, id: AlertId) -> StoreResult<Option<Alert>> {
        Ok(self.shared.read(alerts::BY_ID, params![id.0], alerts::alert).await?.pop())
    }

    async fn acknowledge_alert(&self, id: AlertId, by: Option<String>, note: Option<String>) -> StoreResult<Alert> {
        name::check_text("by", by.as_deref().unwrap_or_default())?;
        name::check_text("note", note.as_deref().unwrap_or_default())?;
        in_transaction!(&self.shared, Plans | tx | tx.acknowledge(id, by.clone(), note.clone()))
    }

    async fn alert_by_code(&self, code: &str) -> StoreResult<Option<Alert>> {
        // No database keeps such a text, and this one does not even compare it.
        if code.contains('\0') {
            return Ok(None);
        }
        Ok(self.shared.read(alerts::BY_CODE, params![code], alerts::alert).await?.pop())
    }

    async fn deliveries(
        &self, filter: &DeliveryFilter, before: Option<DeliveryId>, limit: usize,
    ) -> StoreResult<Page<Delivery, DeliveryId>> {
        Ok(deliveries::page(&self.shared, filter, before, limit).await?)
    }

    async fn delivery(&self, id: DeliveryId) -> StoreResult<Option<Delivery>> {
        Ok(self.shared.read(sql::delivery_by_id, params![id.0], deliveries::delivery).await?.pop())
    }

    async fn resend_delivery(&self, id: DeliveryId) -> StoreResult<Delivery> {
        in_transaction!(&self.shared, Plans | tx | tx.change_delivery(id, Delivery::resend))
    }

    async fn drop_delivery(&self, id: DeliveryId) -> StoreResult<Delivery> {
        in_transaction!(&self.shared, Plans | tx | tx.change_delivery(id, Delivery::take_out))
    }

    async fn notices(&self, after: Option<NoticeId>, limit: usize) -> StoreResult<Vec<Notice>> {
        let after = after.map_or(uuid::Uuid::nil(), |id| id.0);
        Ok(self.shared.read(sql::notices_after, params![after, most(limit)], notice).await?)
    }

    async fn judge_news_if_leased(
        &self, lease: Lease, limit: usize, findings: Option<Findings>,
    ) -> StoreResult<Judged> {
        if findings.is_none() {
            // Looked for without any lock, because nearly always there is nothing to do.
            if let Pressing::NotBefore(again_in) = alerts::pressing(&self.shared).await? {
                return Ok(Judged { again_in, ..Judged::default() });
            }
        }
        // Whoever sends messages may be another node.
        in_transaction!(&self.shared, |judged| (judged.messages > 0).then_some(Wake::Plans), |tx| tx.judge(
            lease,
            limit,
            findings.as_ref()
        ))
    }

    async fn look(&self, look: &Look) -> StoreResult<Findings> {
        sightings::look(&self.shared, look).await
    }

    async fn overdue_schedules(&self, by: SignedDuration, limit: usize) -> StoreResult<Vec<OverdueSchedule>> {
        sightings::overdue(&self.shared, by, limit).await
    }

    async fn tell_clock_jumped_if_leased(&self, lease: Lease, by: SignedDuration) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.tell_clock_jumped(lease, by))
    }

    async fn take_deliveries_if_leased(
        &self, lease: Lease, sending: Vec<DeliveryId>, limit: usize,
    ) -> StoreResult<TakenDeliveries> {
        if !deliveries::any_waits(&self.shared).await? {
            return Ok(TakenDeliveries::default());
        }
        in_transaction!(&self.shared, |tx| tx.take_deliveries(lease, &sending, limit))
    }

    async fn end_attempt_if_taken(&self, lease: Lease, id: DeliveryId, sent: Sent) -> StoreResult<Option<Delivery>> {
        in_transaction!(&self.shared, |tx| tx.end_attempt(lease, id, sent.clone()))
    }
}

fn channel(row: &Row) -> Result<Channel, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Channel { definition: c.document("channel")?, version: c.next()?, created_at: c.time()?, updated_at: c.time()? })
}

fn rule(row: &Row) -> Result<Rule, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Rule { definition: c.document("rule")?, version: c.next()?, created_at: c.time()?, updated_at: c.time()? })
}

fn no_channel(name: &str) -> Failure {
    StoreError::NotFound { what: "channel", key: name.to_owned() }.into()
}

fn no_rule(name: &str) -> Failure {
    StoreError::NotFound { what: "rule", key: name.to_owned() }.into()
}

/// A name stays: others call a thing by it.
fn same_name(old: &str, new: &Name) -> Result<(), Invalid> {
    if old == new.as_str() {
        return Ok(());
    }
    Err(Invalid::new("name", "cannot be changed").remedy("make another one and delete this one"))
}

fn check_version(found: i64, expected: i64) -> Result<(), StoreError> {
    if found == expected { Ok(()) } else { Err(StoreError::VersionConflict { expected, found }) }
}

impl Tx<'_> {
    /// Keeps everybody else from changing rules, channels and alerts. SQLite has one writer and needs no lock.
    pub(crate) async fn lock_book(&self) -> Work<()> {
        self.rows("SELECT 1 FROM punctual_internal.notify_state WHERE id = 1 FOR UPDATE", params![]).await?;
        Ok(())
    }

    /// All rules with what they remember.
    pub(crate) async fn rules_and_states(&self) -> Work<Vec<(RuleDefinition, RuleState)>> {
        let find = "SELECT definition::text, state::text FROM punctual_internal.rules ORDER BY name";
        self.all(find, params![], |row| {
            let mut c = Columns::of(row);
            Ok((c.document("rule")?, c.document("state")?))
        })
        .await
    }

    pub(crate) async fn create_channel(&mut self, channel: &ChannelDefinition) -> Work<Channel> {
        let insert = "INSERT INTO punctual_internal.channels (name, definition, created_at, updated_at)
                      VALUES ($1, $2::text::json, $3, $3)";
        let name = channel.name.as_str();
        match self.execute(insert, params![name, document("channel", channel)?, self.at()]).await {
            Ok(_) => self.stored_channel(name).await,
            Err(failure) if failure.is_unique_violation() => {
                Err(StoreError::NameTaken { what: "channel", name: name.to_owned() }.into())
            }
            Err(failure) => Err(failure),
        }
    }

    pub(crate) async fn stored_channel(&self, name: &str) -> Work<Channel> {
        self.one(CHANNEL, params![name], channel).await?.ok_or_else(|| no_channel(name))
    }

    /// A channel whose line nobody else looks at meanwhile.
    pub(crate) async fn free_channel(&self, name: &str) -> Work<Option<Channel>> {
        let find = format!("{CHANNEL} FOR UPDATE SKIP LOCKED");
        self.one(&find, params![name], channel).await
    }

    pub(crate) async fn update_channel(
        &mut self, name: &str, version: i64, channel: &ChannelDefinition,
    ) -> Work<Channel> {
        self.lock_book().await?;
        let found = self.stored_channel(name).await?.version;
        same_name(name, &channel.name).map_err(StoreError::from)?;
        check_version(found, version)?;
        let update = "UPDATE punctual_internal.channels
                      SET definition = $2::text::json, version = version + 1, updated_at = $3 WHERE name = $1";
        self.execute(update, params![name, document("channel", channel)?, self.at()]).await?;
        self.stored_channel(name).await
    }

    pub(crate) async fn delete_channel(&mut self, name: &str) -> Work<()> {
        self.lock_book().await?;
        self.stored_channel(name).await?;
        let rules = self.rules_and_states().await?.into_iter();
        let by = rules.filter(|(rule, _)| rule.channels().iter().any(|channel| channel.as_str() == name));
        let by: Vec<String> = by.map(|(rule, _)| rule.name.to_string()).take(10).collect();
        if !by.is_empty() {
            return Err(StoreError::InUse { what: "channel", name: name.to_owned(), by }.into());
        }
        let drop = "UPDATE punctual_internal.deliveries SET state = 'dropped', ended_at = $2, taken_by = NULL
                    WHERE channel = $1 AND state = 'waiting'";
        self.execute(drop, params![name, self.at()]).await?;
        self.execute("DELETE FROM punctual_internal.channels WHERE name = $1", params![name]).await?;
        Ok(())
    }

    async fn test_channel(&mut self, name: &str) -> Work<Delivery> {
        self.lock_book().await?;
        let channel = self.stored_channel(name).await?;
        if !channel.definition.enabled {
            let off = Invalid::new("channel", "is off").remedy("turn it on first");
            return Err(StoreError::from(off).into());
        }
        self.put_into_line(channel.definition.name, Message::test(self.now)).await
    }

    pub(crate) async fn create_rule(&mut self, rule: &RuleDefinition) -> Work<Rule> {
        self.lock_book().await?;
        self.check_channels_of(rule).await?;
        let name = rule.name.as_str();
        if self.rules_and_states().await?.len() >= RULES_MAX {
            let many = Invalid::new("rules", format!("are {RULES_MAX} already")).remedy("delete some first");
            return Err(StoreError::from(many).into());
        }
        let insert = "INSERT INTO punctual_internal.rules (name, definition, created_at, updated_at)
                      VALUES ($1, $2::text::json, $3, $3)";
        match self.execute(insert, params![name, document("rule", rule)?, self.at()]).await {
            Ok(_) => {
                self.judge_soon().await?;
                self.stored_rule(name).await
            }
            Err(failure) if failure.is_unique_violation() => {
                Err(StoreError::NameTaken { what: "rule", name: name.to_owned() }.into())
            }
            Err(failure) => Err(failure),
        }
    }

    async fn check_channels_of(&self, rule: &RuleDefinition) -> Work<()> {
        let known = self.all(CHANNELS, params!["", i64::MAX], channel).await?.into_iter();
        let known = known.map(|it| (it.definition.name, it.definition.target.kind())).collect();
        Ok(rule.check_channels(&known).map_err(StoreError::from)?)
    }

    pub(crate) async fn stored_rule(&self, name: &str) -> Work<Rule> {
        self.one(RULE, params![name], rule).await?.ok_or_else(|| no_rule(name))
    }

    pub(crate) async fn update_rule(&mut self, name: &str, version: i64, rule: &RuleDefinition) -> Work<Rule> {
        self.lock_book().await?;
        let found = self.stored_rule(name).await?.version;
        same_name(name, &rule.name).map_err(StoreError::from)?;
        check_version(found, version)?;
        self.check_channels_of(rule).await?;
        let update = "UPDATE punctual_internal.rules
                      SET definition = $2::text::json, version = version + 1, updated_at = $3 WHERE name = $1";
        self.execute(update, params![name, document("rule", rule)?, self.at()]).await?;
        self.judge_soon().await?;
        self.stored_rule(name).await
    }

    pub(crate) async fn delete_rule(&mut self, name: &str) -> Work<()> {
        self.lock_book().await?;
        if self.execute("DELETE FROM punctual_internal.rules WHERE name = $1", params![name]).await? == 0 {
            return Err(no_rule(name));
        }
        self.judge_soon().await
    }

    async fn tell_clock_jumped(&mut self, lease: Lease, by: SignedDuration) -> Work<()> {
        self.check_lease(lease).await?;
        self.tell(News::clock_jumped(lease.node_id, by)).await
    }
}
