//! The verbs of the store port that stores in front of a store treat all alike, listed once.

/// What the verbs are about, for [`with_verbs`](crate::with_verbs).
pub mod words {
    pub use async_trait::async_trait;
    pub use jiff::{SignedDuration, Timestamp};
    pub use punctual_core::access::{
        Access, AuditRow, Change, Forgotten, NewToken, SecretHash, Session, StoredAnswer, Token,
    };
    pub use punctual_core::bulk::{Bulk, BulkStep, NewBulk};
    pub use punctual_core::calendar::{CalendarRules, StoredCalendar};
    pub use punctual_core::control::{Control, SerialHold};
    pub use punctual_core::cron::CronPreset;
    pub use punctual_core::execution::{Begun, BillingAccount, Execution, Executions, NewExecution, Receipt, Usage};
    pub use punctual_core::flow::{Flow, FlowDefinition, FlowItem, FlowLink, FlowRun, Flows, FlowsAdvanced};
    pub use punctual_core::freeze::{Freeze, FreezeLevel, Freezing};
    pub use punctual_core::grant::{Grant, Grants, NewGrant};
    pub use punctual_core::graph::GraphEnd;
    pub use punctual_core::id::{
        AlertId, AuditId, BulkId, DeliveryId, DriverId, GrantId, GraphRunId, JobId, NodeId, NoticeId, ReservationId,
        ScheduleId, TokenId,
    };
    pub use punctual_core::job::{JobView, NewJob};
    pub use punctual_core::limits::{Limit, LimitRow, LimitSubject, Limits};
    pub use punctual_core::manifest::{Application, Applied, Managed, ManagedAfter, Manifests, ThingKind};
    pub use punctual_core::name::Name;
    pub use punctual_core::notify::alert::Alert;
    pub use punctual_core::notify::channel::{Channel, ChannelDefinition};
    pub use punctual_core::notify::delivery::Delivery;
    pub use punctual_core::notify::message::Sent;
    pub use punctual_core::notify::port::{
        AlertFilter, DeliveryFilter, Findings, Judged, Look, Notifications, OverdueSchedule, TakenDeliveries,
    };
    pub use punctual_core::notify::rule::{Rule, RuleDefinition};
    pub use punctual_core::policies::Policies;
    pub use punctual_core::readings::{
        Ended, JobFilter, NodeRow, Page, QueueRow, Readings, RecentRun, ScheduleFilter, Stats,
    };
    pub use punctual_core::run::Outcome;
    pub use punctual_core::schedule::{Schedule, ScheduleDefinition};
    pub use punctual_core::series::SeriesBucket;
    pub use punctual_core::slot::SlotRow;
    pub use punctual_core::statistics::ScheduleSamples;
    pub use punctual_core::store::{Lease, Reservation, Store, StoreError, StoreResult, Template};
    pub use punctual_core::unique::Enqueued;
    pub use punctual_core::upkeep::Notice;
    pub use std::collections::BTreeMap;
}

/// Hands the verbs of a part of the store port to a macro, together with whatever else that one needs.
#[macro_export]
macro_rules! with_verbs {
    (Readings, $then:ident $others:tt) => {
        $then! {
            Readings $others
            async fn jobs_by(&self, filter: &JobFilter, before: Option<JobId>, limit: usize) -> Page<JobView, JobId>;
            async fn jobs_after(&self, after: JobId, limit: usize) -> Vec<JobView>;
            async fn ended_after(&self, after: Ended, limit: usize) -> Vec<JobView>;
            async fn schedules_by(
                &self, filter: &ScheduleFilter, after: Option<&str>, limit: usize
            ) -> Page<Schedule, String>;
            async fn next_schedules(&self, owner: Option<&str>, limit: usize) -> Vec<Schedule>;
            async fn recent_runs(&self, schedules: &[ScheduleId], limit: usize) -> Vec<RecentRun>;
            async fn schedule_names(&self, ids: &[ScheduleId]) -> BTreeMap<ScheduleId, String>;
            async fn jobs_by_id(&self, ids: &[JobId]) -> Vec<JobView>;
            async fn queues(&self, after: Option<&str>, limit: usize) -> Vec<QueueRow>;
            async fn queue(&self, name: &str) -> Option<QueueRow>;
            async fn reservation_by_id(&self, id: ReservationId) -> Option<Reservation>;
            async fn nodes(&self, alive: bool, before: Option<NodeId>, limit: usize) -> Vec<NodeRow>;
            async fn templates(&self, after: Option<&str>, limit: usize) -> Vec<Template>;
            async fn schedule_samples(&self, id: ScheduleId, since: Timestamp) -> ScheduleSamples;
            async fn slots_between(
                &self, id: ScheduleId, from: Timestamp, until: Timestamp, limit: usize
            ) -> Vec<SlotRow>;
            async fn slot_ends(
                &self, id: ScheduleId, from: Timestamp, until: Timestamp, limit: usize
            ) -> BTreeMap<Timestamp, Outcome>;
            async fn run_series(
                &self, from: Timestamp, until: Timestamp, step: SignedDuration
            ) -> Vec<SeriesBucket>;
            async fn stats(&self, ended_since: Timestamp) -> Stats;
        }
    };
    (Control, $then:ident $others:tt) => {
        $then! {
            Control $others
            async fn enqueue_once(&self, jobs: Vec<NewJob>) -> Vec<Enqueued>;
            async fn count_bulk(&self, asked: &NewBulk) -> u64;
            async fn create_bulk(&self, asked: NewBulk) -> Bulk;
            async fn bulk(&self, id: BulkId) -> Option<Bulk>;
            async fn bulks(&self, owner: Option<&str>, before: Option<BulkId>, limit: usize) -> Vec<Bulk>;
            async fn cancel_bulk(&self, id: BulkId) -> Bulk;
            async fn serial_holds(&self, after: Option<&str>, limit: usize) -> Vec<SerialHold>;
            async fn serial_hold(&self, key: &str) -> Option<SerialHold>;
            async fn release_serial_key(&self, key: &str) -> SerialHold;
            async fn delete_template(&self, name: &str) -> ();
            async fn create_cron_preset(&self, preset: CronPreset) -> CronPreset;
            async fn cron_presets(&self, after: Option<&str>, limit: usize) -> Vec<CronPreset>;
            async fn cron_preset(&self, name: &str) -> Option<CronPreset>;
            async fn delete_cron_preset(&self, name: &str) -> ();
            async fn renew_reservation(&self, id: ReservationId, for_how_long: SignedDuration) -> Reservation;
        }
    };
    (Policies, $then:ident $others:tt) => {
        $then! {
            Policies $others
            async fn create_calendar(
                &self, name: Name, description: String, rules: CalendarRules
            ) -> StoredCalendar;
            async fn update_calendar_if_version(
                &self, name: &str, version: i64, description: String, rules: CalendarRules
            ) -> StoredCalendar;
            async fn delete_calendar(&self, name: &str) -> ();
            async fn calendar(&self, name: &str) -> Option<StoredCalendar>;
            async fn calendars(&self, after: Option<&str>, limit: usize) -> Vec<StoredCalendar>;
            async fn pause_schedule_until(
                &self, id: ScheduleId, until: Timestamp, by: Option<String>, note: Option<String>
            ) -> Schedule;
            async fn skip_next(&self, id: ScheduleId, by: Option<String>) -> Schedule;
            async fn fire_cap(&self) -> Option<u32>;
            async fn set_fire_cap(&self, per_second: Option<u32>) -> Option<u32>;
            async fn slots_kept_since(&self) -> Timestamp;
        }
    };
    (Notifications, $then:ident $others:tt) => {
        $then! {
            Notifications $others
            async fn create_channel(&self, channel: ChannelDefinition) -> Channel;
            async fn update_channel_if_version(
                &self, name: &str, version: i64, channel: ChannelDefinition
            ) -> Channel;
            async fn delete_channel(&self, name: &str) -> ();
            async fn channel(&self, name: &str) -> Option<Channel>;
            async fn channels(&self, after: Option<&str>, limit: usize) -> Vec<Channel>;
            async fn test_channel(&self, name: &str) -> Delivery;
            async fn create_rule(&self, rule: RuleDefinition) -> Rule;
            async fn update_rule_if_version(&self, name: &str, version: i64, rule: RuleDefinition) -> Rule;
            async fn delete_rule(&self, name: &str) -> ();
            async fn rule(&self, name: &str) -> Option<Rule>;
            async fn rules(&self, after: Option<&str>, limit: usize) -> Vec<Rule>;
            async fn alerts(
                &self, filter: &AlertFilter, before: Option<AlertId>, limit: usize
            ) -> Page<Alert, AlertId>;
            async fn alert(&self, id: AlertId) -> Option<Alert>;
            async fn acknowledge_alert(&self, id: AlertId, by: Option<String>, note: Option<String>) -> Alert;
            async fn alert_by_code(&self, code: &str) -> Option<Alert>;
            async fn deliveries(
                &self, filter: &DeliveryFilter, before: Option<DeliveryId>, limit: usize
            ) -> Page<Delivery, DeliveryId>;
            async fn delivery(&self, id: DeliveryId) -> Option<Delivery>;
            async fn resend_delivery(&self, id: DeliveryId) -> Delivery;
            async fn drop_delivery(&self, id: DeliveryId) -> Delivery;
            async fn notices(&self, after: Option<NoticeId>, limit: usize) -> Vec<Notice>;
            async fn judge_news_if_leased(
                &self, lease: Lease, limit: usize, findings: Option<Findings>
            ) -> Judged;
            async fn look(&self, look: &Look) -> Findings;
            async fn overdue_schedules(&self, by: SignedDuration, limit: usize) -> Vec<OverdueSchedule>;
            async fn tell_clock_jumped_if_leased(&self, lease: Lease, by: SignedDuration) -> ();
            async fn take_deliveries_if_leased(
                &self, lease: Lease, sending: Vec<DeliveryId>, limit: usize
            ) -> TakenDeliveries;
            async fn end_attempt_if_taken(
                &self, lease: Lease, id: DeliveryId, sent: Sent
            ) -> Option<Delivery>;
        }
    };
    (Flows, $then:ident $others:tt) => {
        $then! {
            Flows $others
            async fn save_flow(
                &self, name: Name, definition: FlowDefinition, owner: Option<String>, if_version: Option<i64>
            ) -> Flow;
            async fn flow(&self, name: &str) -> Option<Flow>;
            async fn flows(&self, owner: Option<&str>, after: Option<&str>, limit: usize) -> Vec<Flow>;
            async fn delete_flow(&self, name: &str) -> ();
            async fn flow_run(&self, id: JobId) -> Option<FlowRun>;
            async fn flow_items(&self, id: JobId, step: usize, after: Option<u32>, limit: usize) -> Vec<FlowItem>;
            async fn flow_link(&self, id: JobId) -> Option<FlowLink>;
        }
    };
    (Limits, $then:ident $others:tt) => {
        $then! {
            Limits $others
            async fn set_limit(&self, limit: Limit) -> LimitRow;
            async fn remove_limit(&self, subject: &LimitSubject) -> ();
            async fn limit(&self, subject: &LimitSubject) -> Option<LimitRow>;
            async fn limits(&self, after: Option<&LimitSubject>, limit: usize) -> Vec<LimitRow>;
        }
    };
    (Manifests, $then:ident $others:tt) => {
        $then! {
            Manifests $others
            async fn managed(&self, owner: Option<&str>, after: ManagedAfter<'_>, limit: usize) -> Vec<Managed>;
            async fn managed_thing(&self, kind: ThingKind, name: &str) -> Option<Managed>;
            async fn apply_manifest(&self, application: Application) -> Applied;
        }
    };
    (Access, $then:ident $others:tt) => {
        $then! {
            Access $others
            async fn create_token(&self, token: NewToken) -> Token;
            async fn create_token_if_none(&self, token: NewToken) -> Option<Token>;
            async fn token_by_prefix(&self, prefix: &str) -> Option<Token>;
            async fn tokens(&self, before: Option<TokenId>, limit: usize) -> Vec<Token>;
            async fn revoke_token(&self, id: TokenId) -> Token;
            async fn touch_token(&self, id: TokenId) -> ();
            async fn create_session(&self, hash: SecretHash, token: TokenId, expires_at: Timestamp) -> ();
            async fn session(&self, hash: SecretHash) -> Option<Session>;
            async fn end_session(&self, hash: SecretHash) -> ();
            async fn answer_under(&self, owner: &str, key: &str) -> Option<StoredAnswer>;
            async fn audit_log(&self, subject: Option<&str>, before: Option<AuditId>, limit: usize) -> Vec<AuditRow>;
            async fn audit_after(&self, after: AuditId, limit: usize) -> Vec<AuditRow>;
            async fn forget_access(&self, keys_before: Timestamp, limit: usize) -> Forgotten;
            async fn create_schedule_with_grant(
                &self, definition: ScheduleDefinition, grant: NewGrant
            ) -> (Schedule, Grant);
            async fn retry_job_if_ended(&self, id: JobId, by: Option<String>) -> JobId;
        }
    };
    (Freezing, $then:ident $others:tt) => {
        $then! {
            Freezing $others
            async fn frozen(&self) -> Option<Freeze>;
            async fn freeze(&self, level: FreezeLevel, why: &str) -> Freeze;
            async fn thaw(&self) -> ();
        }
    };
    (Grants, $then:ident $others:tt) => {
        $then! {
            Grants $others
            async fn create_grant(&self, grant: NewGrant) -> Grant;
            async fn grants(&self, owner: Option<&str>, before: Option<GrantId>, limit: usize) -> Vec<Grant>;
            async fn revoke_grant(&self, id: GrantId) -> Grant;
        }
    };
    (Executions, $then:ident $others:tt) => {
        $then! {
            Executions $others
            async fn begin_execution(&self, new: NewExecution) -> Begun;
            async fn execution(&self, key: &str) -> Option<Execution>;
            async fn beat_execution(&self, run: GraphRunId, driver: DriverId) -> bool;
            async fn take_over_execution_if_still(&self, seen: &Execution, driver: DriverId) -> Option<Execution>;
            async fn release_execution(&self, run: GraphRunId, driver: DriverId) -> ();
            async fn end_execution_if_driven(
                &self, run: GraphRunId, driver: DriverId, end: GraphEnd, answer: String
            ) -> bool;
            async fn receipts(&self, run: GraphRunId) -> Vec<Receipt>;
            async fn create_billing_account(&self, owner: &str, name: &str) -> BillingAccount;
            async fn billing_account(&self, owner: &str, name: &str) -> Option<BillingAccount>;
            async fn billing_accounts(
                &self, owner: Option<&str>, after: Option<(&str, &str)>, limit: usize
            ) -> Vec<BillingAccount>;
            async fn usage(
                &self, owner: &str, account: &str, from: Timestamp, until: Timestamp
            ) -> Vec<Usage>;
        }
    };
}
