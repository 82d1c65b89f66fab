//! The store port, continued: channels, rules, alerts and deliveries.

use super::alert::Alert;
use super::channel::{Channel, ChannelDefinition};
use super::delivery::{Delivery, DeliveryState};
use super::event::Finding;
use super::message::Sent;
use super::rule::{Rule, RuleDefinition, Trigger};
use crate::id::{AlertId, DeliveryId, NoticeId, ScheduleId};
use crate::readings::Page;
use crate::store::{Lease, StoreResult};
use crate::upkeep::Notice;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// Which alerts; what is absent does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlertFilter {
    /// Open (true) or closed (false).
    pub open: Option<bool>,
    /// Of this rule.
    pub rule: Option<String>,
}

/// Which deliveries; what is absent does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryFilter {
    /// To this channel.
    pub channel: Option<String>,
    /// Of this alert.
    pub alert_id: Option<AlertId>,
    /// In this state.
    pub state: Option<DeliveryState>,
}

impl DeliveryFilter {
    /// Whether a delivery is one of those.
    pub fn lets_through(&self, delivery: &Delivery) -> bool {
        let channel = self.channel.as_ref().is_none_or(|name| name == delivery.channel.as_str());
        let alert = self.alert_id.is_none_or(|id| delivery.alert_id == Some(id));
        channel && alert && self.state.is_none_or(|state| state == delivery.state)
    }
}

/// What somebody has to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// What, and what it must have lasted at least.
    pub wanted: BTreeMap<Trigger, SignedDuration>,
    /// Runs that ended after this instant have not been looked at.
    pub since: Timestamp,
}

/// What a look has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Up to when has been looked.
    pub through: Timestamp,
    /// Whether nothing is overdue by more than is bearable.
    pub well: bool,
}

/// What one pass over the news did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judged {
    /// Notices that were taken in.
    pub notices: usize,
    /// Alerts that began.
    pub opened: usize,
    /// Messages that were put into lines.
    pub messages: usize,
    /// Whether there are more notices.
    pub more: bool,
    /// When there is something to do again, if nothing happens.
    pub again_in: Option<SignedDuration>,
    /// What somebody has to look for by now.
    pub look: Option<Look>,
}

/// Messages to send, each the first of its channel's line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TakenDeliveries {
    /// They.
    pub deliveries: Vec<(Delivery, Channel)>,
    /// When the next one is due, if nothing happens.
    pub again_in: Option<SignedDuration>,
}

/// A schedule that was not decided on although it was due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverdueSchedule {
    /// Which.
    pub id: ScheduleId,
    /// What it is called.
    pub name: String,
    /// When it was due.
    pub due_at: Timestamp,
}

/// The part of the store that keeps whom to tell, of what, and what was sent.
#[async_trait]
pub trait Notifications: Send + Sync {
    // --- channels --------------------------------------------------------------------------------------------------

    /// Stores a channel. Refused: names taken, targets that could never work.
    async fn create_channel(&self, channel: ChannelDefinition) -> StoreResult<Channel>;

    /// Replaces what a channel says, if nobody else did meanwhile; its name stays.
    async fn update_channel_if_version(
        &self, name: &str, version: i64, channel: ChannelDefinition,
    ) -> StoreResult<Channel>;

    /// Ends a channel; what is in its line is dropped. Refused while a rule names it.
    async fn delete_channel(&self, name: &str) -> StoreResult<()>;

    /// One channel by name.
    async fn channel(&self, name: &str) -> StoreResult<Option<Channel>>;

    /// Channels in order of name.
    async fn channels(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Channel>>;

    /// Puts a message into a channel's line that says that it is a test.
    async fn test_channel(&self, name: &str) -> StoreResult<Delivery>;

    // --- rules -----------------------------------------------------------------------------------------------------

    /// Stores a rule. Refused: names taken, channels that are not there, what could not have been meant, and more rules
    /// than there may be. It holds for what happens from now on.
    async fn create_rule(&self, rule: RuleDefinition) -> StoreResult<Rule>;

    /// Replaces what a rule says, if nobody else did meanwhile; its name stays, and so do its open alerts.
    async fn update_rule_if_version(&self, name: &str, version: i64, rule: RuleDefinition) -> StoreResult<Rule>;

    /// Ends a rule, and its alerts with it.
    async fn delete_rule(&self, name: &str) -> StoreResult<()>;

    /// One rule by name.
    async fn rule(&self, name: &str) -> StoreResult<Option<Rule>>;

    /// Rules in order of name.
    async fn rules(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Rule>>;

    // --- alerts ----------------------------------------------------------------------------------------------------

    /// Alerts, the latest first.
    async fn alerts(
        &self, filter: &AlertFilter, before: Option<AlertId>, limit: usize,
    ) -> StoreResult<Page<Alert, AlertId>>;

    /// One alert.
    async fn alert(&self, id: AlertId) -> StoreResult<Option<Alert>>;

    /// Somebody takes care of an alert: no further step is told. The first one stands.
    async fn acknowledge_alert(&self, id: AlertId, by: Option<String>, note: Option<String>) -> StoreResult<Alert>;

    /// The alert with this code.
    async fn alert_by_code(&self, code: &str) -> StoreResult<Option<Alert>>;

    // --- deliveries ------------------------------------------------------------------------------------------------

    /// Deliveries, the latest first.
    async fn deliveries(
        &self, filter: &DeliveryFilter, before: Option<DeliveryId>, limit: usize,
    ) -> StoreResult<Page<Delivery, DeliveryId>>;

    /// One delivery.
    async fn delivery(&self, id: DeliveryId) -> StoreResult<Option<Delivery>>;

    /// Sends a message again, under the same id, whatever became of it.
    async fn resend_delivery(&self, id: DeliveryId) -> StoreResult<Delivery>;

    /// Takes a message out of its line; those behind it go on.
    async fn drop_delivery(&self, id: DeliveryId) -> StoreResult<Delivery>;

    // --- what nodes do ---------------------------------------------------------------------------------------------

    /// Notices in order of time, taken in or not.
    async fn notices(&self, after: Option<NoticeId>, limit: usize) -> StoreResult<Vec<Notice>>;

    /// Takes in up to so many notices, and what was found, and puts what is due into the channels' lines; all of it, or
    /// nothing. One node at a time does it; for the others there is nothing to do meanwhile. Refused: leases that do not
    /// hold.
    async fn judge_news_if_leased(&self, lease: Lease, limit: usize, findings: Option<Findings>)
    -> StoreResult<Judged>;

    /// Looks for what is wrong.
    async fn look(&self, look: &Look) -> StoreResult<Findings>;

    /// Schedules that were due before an instant so long ago and are not decided on, the longest due first.
    async fn overdue_schedules(&self, by: SignedDuration, limit: usize) -> StoreResult<Vec<OverdueSchedule>>;

    /// Puts the news that the database's clock has jumped into the outbox. Refused: leases that do not hold.
    async fn tell_clock_jumped_if_leased(&self, lease: Lease, by: SignedDuration) -> StoreResult<()>;

    /// Hands out the first message of each line whose time has come and that nobody else is sending. `sending` are those
    /// that this node has in hand: what it was given beside them and knows nothing of, it is given again.
    async fn take_deliveries_if_leased(
        &self, lease: Lease, sending: Vec<DeliveryId>, limit: usize,
    ) -> StoreResult<TakenDeliveries>;

    /// Says how an attempt ended; `None` when the message is not this node's to send any more.
    async fn end_attempt_if_taken(&self, lease: Lease, id: DeliveryId, sent: Sent) -> StoreResult<Option<Delivery>>;
}
