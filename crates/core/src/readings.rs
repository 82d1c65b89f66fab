//! The reading half of the store port: lists in keyset pages, and figures that never count a big table.
//!
//! A list goes down an index from where the last page ended. Filters that no index serves are checked row by row, and
//! one call looks at no more than [`SCAN_MAX`] rows: a page may therefore be short, or empty, and still have a `next`.

use crate::id::{JobId, NodeId, ReservationId, ScheduleId};
use crate::invalid::Invalid;
use crate::job::{JobState, JobView};
use crate::run::{ErrorCode, Outcome, Trigger};
use crate::schedule::Schedule;
use crate::series::SeriesBucket;
use crate::slot::SlotRow;
use crate::statistics::ScheduleSamples;
use crate::store::{Reservation, StoreResult, Template};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// The most rows that one call of a filtered list looks at.
pub const SCAN_MAX: usize = 5_000;

/// Where counting stops: what is more is told as "more than this".
pub const COUNT_MAX: u64 = 10_000;

/// A number that is exact up to [`COUNT_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// How many were counted.
    pub value: u64,
    /// Whether there are more than that.
    pub more: bool,
}

impl Count {
    /// What a count that was stopped one after [`COUNT_MAX`] means.
    pub fn of(counted: u64) -> Self {
        Self { value: counted.min(COUNT_MAX), more: counted > COUNT_MAX }
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, K> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page begins; `None` at the end of the list, and there only.
    pub next: Option<K>,
}

impl<T, K> Page<T, K> {
    /// A page from one row more than it holds, and, when it is short, the last row that was looked at if that was
    /// where looking stopped.
    pub fn of(mut items: Vec<T>, limit: usize, key: impl Fn(&T) -> K, stopped_at: Option<K>) -> Self {
        if items.len() <= limit {
            return Self { items, next: stopped_at };
        }
        items.truncate(limit);
        let next = items.last().map(key);
        Self { items, next }
    }
}

/// Which jobs, by where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobsIn {
    /// All.
    #[default]
    Anywhere,
    /// Those in one state.
    State(JobState),
    /// Those that have a run, whatever its outcome.
    Ended,
}

impl JobsIn {
    /// The word that the stores' filters know it by; `None` lets everything through.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Anywhere => None,
            Self::State(state) => Some(state.as_str()),
            Self::Ended => Some("ended"),
        }
    }
}

/// Which jobs a list is to hold; what is absent does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Where they are.
    pub place: JobsIn,
    /// Of this queue.
    pub queue: Option<String>,
    /// Of this job type.
    pub job_type: Option<String>,
    /// Made by this schedule.
    pub schedule_id: Option<ScheduleId>,
    /// Whose run did not complete for this reason.
    pub error_code: Option<ErrorCode>,
    /// With this tag.
    pub tag: Option<String>,
    /// Whose they are.
    pub owner: Option<String>,
    /// Made at this time or later.
    pub since: Option<Timestamp>,
    /// Made before this time.
    pub until: Option<Timestamp>,
}

/// What a list of jobs is read from: the index that leads to the fewest of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobSource {
    /// Everything, by id.
    All,
    /// One schedule's.
    Schedule,
    /// One owner's.
    Owner,
    /// What waits for its time or for another.
    Delayed,
    /// What waits in a queue.
    Queue,
    /// What runs.
    Running,
    /// What has ended.
    Runs,
    /// What has ended in one way other than well.
    RunsNotCompleted,
    /// What has ended with one error code.
    RunsOfError,
}

impl JobFilter {
    /// Where to read from; both stores choose alike, so that both look at the same rows.
    pub fn source(&self) -> JobSource {
        if self.schedule_id.is_some() {
            return JobSource::Schedule;
        }
        if self.owner.is_some() {
            return JobSource::Owner;
        }
        if self.error_code.is_some() {
            return JobSource::RunsOfError;
        }
        match self.place {
            JobsIn::Anywhere => JobSource::All,
            JobsIn::Ended | JobsIn::State(JobState::Completed) => JobSource::Runs,
            JobsIn::State(JobState::Waiting | JobState::Scheduled) => JobSource::Delayed,
            JobsIn::State(JobState::Queued) => JobSource::Queue,
            JobsIn::State(JobState::Running) => JobSource::Running,
            JobsIn::State(JobState::Failed | JobState::Skipped | JobState::Cancelled) => JobSource::RunsNotCompleted,
        }
    }

    /// Whether anything must be checked row by row, beside what leads to the rows.
    pub fn checks_rows(&self) -> bool {
        let Self { place, queue, job_type, schedule_id: _, error_code, tag, owner, since: _, until: _ } = self;
        let source = self.source();
        let led_by_place = match source {
            JobSource::Queue | JobSource::Running | JobSource::RunsNotCompleted => true,
            JobSource::Runs => *place == JobsIn::Ended,
            JobSource::RunsOfError => matches!(place, JobsIn::Anywhere | JobsIn::Ended),
            JobSource::All | JobSource::Schedule | JobSource::Owner | JobSource::Delayed => *place == JobsIn::Anywhere,
        };
        let led_by_owner = owner.is_none() || source == JobSource::Owner;
        let led_by_error = error_code.is_none() || source == JobSource::RunsOfError;
        !led_by_place || !led_by_owner || !led_by_error || queue.is_some() || job_type.is_some() || tag.is_some()
    }

    /// How many rows are looked at for a page: as many as it holds, and one more, unless some may not pass.
    pub fn look_at(&self, limit: usize) -> usize {
        if self.checks_rows() { SCAN_MAX } else { limit.saturating_add(1).min(SCAN_MAX) }
    }

    /// Whether a page may be short although the list goes on.
    pub fn may_stop_short(&self, limit: usize) -> bool {
        self.checks_rows() || limit >= SCAN_MAX
    }

    /// Ids from this one (included) up to that one (not included) were made in the time that is asked for.
    pub fn id_range(&self, before: Option<JobId>) -> (JobId, JobId) {
        let lowest = self.since.map_or(JobId::from_bytes([0; 16]), JobId::first_of);
        let highest = self.until.map_or(JobId::from_bytes([0xff; 16]), JobId::first_of);
        (lowest, before.map_or(highest, |before| before.min(highest)))
    }
}

/// Which schedules a list is to hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScheduleFilter {
    /// Running (true) or paused (false).
    pub enabled: Option<bool>,
    /// Whose they are.
    pub owner: Option<String>,
    /// With this label; any value when none is given.
    pub label: Option<(String, Option<String>)>,
    /// With this text in their name.
    pub text: Option<String>,
    /// Whose last run failed (true) or did not (false).
    pub failing: Option<bool>,
    /// Whose jobs go to this queue.
    pub queue: Option<String>,
}

impl ScheduleFilter {
    /// Refuses what would ask the databases for an impossible look-up.
    pub fn validate(&self) -> Result<(), Invalid> {
        let nul = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains('\0'));
        let label_nul = self.label.as_ref().is_some_and(|(key, value)| key.contains('\0') || nul(value));
        if nul(&self.owner) || nul(&self.text) || nul(&self.queue) || label_nul {
            return Err(Invalid::new("filter", "holds a NUL character").remedy("remove it"));
        }
        Ok(())
    }

    /// Whether anything beside the owner must be checked row by row.
    pub fn checks_rows(&self) -> bool {
        let Self { enabled, owner: _, label, text, failing, queue } = self;
        enabled.is_some() || label.is_some() || text.is_some() || failing.is_some() || queue.is_some()
    }
}

/// A queue as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRow {
    /// Its name.
    pub name: String,
    /// Whether it hands out nothing.
    pub paused: bool,
    /// When it was first used.
    pub created_at: Timestamp,
    /// How many jobs wait in it.
    pub depth: Count,
    /// Since when the one that has waited longest waits, of those that were counted.
    pub oldest_queued_at: Option<Timestamp>,
    /// How many of its jobs run.
    pub running: Count,
    /// How many of its jobs may run at once, where that is limited.
    pub concurrency: Option<u32>,
    /// Who holds it for himself.
    pub reservation: Option<Reservation>,
}

/// A node as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Its identity: one process, from its start to its end.
    pub id: NodeId,
    /// For people.
    pub name: String,
    /// The job types it can run.
    pub offers: Vec<String>,
    /// When it came.
    pub started_at: Timestamp,
    /// When it left in good order.
    pub left_at: Option<Timestamp>,
    /// When others found it gone.
    pub lost_at: Option<Timestamp>,
    /// How often it has renewed its lease; `None` when it has none any more.
    pub heartbeats: Option<i64>,
    /// How many jobs it runs.
    pub running: Count,
}

/// Figures of the whole, each counted up to [`COUNT_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Jobs that wait for another.
    pub waiting: Count,
    /// Jobs that wait for their time.
    pub scheduled: Count,
    /// Jobs in queues.
    pub queued: Count,
    /// Jobs that run.
    pub running: Count,
    /// How the runs that ended in the asked time ended; when there are more than can be counted, the latest ones.
    pub ended: BTreeMap<Outcome, u64>,
    /// Whether there are more.
    pub more_ended: bool,
    /// Schedules that are not deleted.
    pub schedules: Count,
    /// Of those counted, how many are paused.
    pub paused: u64,
    /// Of those counted, whose last run failed.
    pub failing: u64,
    /// Of those counted, which cannot be fired.
    pub with_problem: u64,
    /// Nodes that hold a lease.
    pub nodes: u64,
    /// News that no rule has judged yet.
    pub notices: Count,
}

/// The connections of a store that keeps some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolFigures {
    /// How many there may be.
    pub max: usize,
    /// How many there are.
    pub open: usize,
    /// How many of those nobody uses.
    pub idle: usize,
    /// How many callers wait for one.
    pub waiting: usize,
}

/// A run's place in the order in which runs ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ended {
    /// When.
    pub finished_at: Timestamp,
    /// Which.
    pub job_id: JobId,
}

/// How many of a schedule's latest jobs are looked at for its recent runs: those behind a longer line of waiting ones are
/// not found.
pub const RECENT_LOOK: usize = 100;

/// How many characters of an error are told beside a recent run.
pub const RECENT_ERROR_MAX: usize = 200;

/// One of the last runs of a schedule, as far as a row of small marks needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentRun {
    /// Whose.
    pub schedule_id: ScheduleId,
    /// Which.
    pub job_id: JobId,
    /// For which slot.
    pub slot_at: Option<Timestamp>,
    /// What made it.
    pub trigger: Trigger,
    /// When it began; `None` when it never did.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How.
    pub outcome: Outcome,
    /// Why it did not complete.
    pub error_code: Option<ErrorCode>,
    /// The first line of the same in words, cut to [`RECENT_ERROR_MAX`] characters.
    pub error: Option<String>,
}

impl RecentRun {
    /// The first line of an error, cut.
    pub fn first_line(error: &str) -> String {
        error.lines().next().unwrap_or_default().chars().take(RECENT_ERROR_MAX).collect()
    }
}

/// What is read for people and programs that look from outside.
#[async_trait]
pub trait Readings: Send + Sync {
    /// Jobs, latest made first, made before a job.
    async fn jobs_by(
        &self, filter: &JobFilter, before: Option<JobId>, limit: usize,
    ) -> StoreResult<Page<JobView, JobId>>;

    /// Jobs made after a job, earliest first.
    async fn jobs_after(&self, after: JobId, limit: usize) -> StoreResult<Vec<JobView>>;

    /// Jobs that ended after an end, earliest end first. Two ends that are stored at the same time may come in either
    /// order of their times: whoever follows the ends looks back a little.
    async fn ended_after(&self, after: Ended, limit: usize) -> StoreResult<Vec<JobView>>;

    /// Schedules in order of name, after a name.
    async fn schedules_by(
        &self, filter: &ScheduleFilter, after: Option<&str>, limit: usize,
    ) -> StoreResult<Page<Schedule, String>>;

    /// The schedules that are due next, soonest first.
    async fn next_schedules(&self, owner: Option<&str>, limit: usize) -> StoreResult<Vec<Schedule>>;

    /// The last runs of some schedules that have ended, at most `limit` of each: in the order of the schedules, and for
    /// each the one made latest first. Of each schedule the latest [`RECENT_LOOK`] jobs are looked at.
    async fn recent_runs(&self, schedules: &[ScheduleId], limit: usize) -> StoreResult<Vec<RecentRun>>;

    /// The names of some schedules, also of deleted ones.
    async fn schedule_names(&self, ids: &[ScheduleId]) -> StoreResult<BTreeMap<ScheduleId, String>>;

    /// Some jobs, wherever they are, in the order of their ids as given; those that nobody knows are left out.
    async fn jobs_by_id(&self, ids: &[JobId]) -> StoreResult<Vec<JobView>>;

    /// Queues in order of name, after a name.
    async fn queues(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<QueueRow>>;

    /// One queue.
    async fn queue(&self, name: &str) -> StoreResult<Option<QueueRow>>;

    /// An active hold of a queue, by its id.
    async fn reservation_by_id(&self, id: ReservationId) -> StoreResult<Option<Reservation>>;

    /// Nodes, latest started first, before a node; only those that hold a lease, or all there ever were.
    async fn nodes(&self, alive: bool, before: Option<NodeId>, limit: usize) -> StoreResult<Vec<NodeRow>>;

    /// Templates in order of name, after a name.
    async fn templates(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Template>>;

    /// What one schedule did since an instant, for [`crate::statistics::ScheduleStatistics`]. No schedule, no samples.
    async fn schedule_samples(&self, id: ScheduleId, since: Timestamp) -> StoreResult<ScheduleSamples>;

    /// What was decided about the slots of a schedule from one instant up to another (not included), latest slot first: at
    /// most `limit` rows, ranges that reach into that time among them.
    async fn slots_between(
        &self, id: ScheduleId, from: Timestamp, until: Timestamp, limit: usize,
    ) -> StoreResult<Vec<SlotRow>>;

    /// How the work for the slots of that time ended, by slot: how the last job of each did, all retries counted in. Of
    /// the latest `limit` rows of the ledger; slots without a job, and jobs that have not ended, are absent.
    async fn slot_ends(
        &self, id: ScheduleId, from: Timestamp, until: Timestamp, limit: usize,
    ) -> StoreResult<BTreeMap<Timestamp, Outcome>>;

    /// How the runs ended that did so from one instant up to another (not included), in buckets of one length; only those
    /// in which something ended, in order. Reads every run of that time: whoever asks keeps what is over.
    async fn run_series(
        &self, from: Timestamp, until: Timestamp, step: SignedDuration,
    ) -> StoreResult<Vec<SeriesBucket>>;

    /// Figures of the whole; runs are counted that ended at or after an instant.
    async fn stats(&self, ended_since: Timestamp) -> StoreResult<Stats>;

    /// Which database it is, in one word, for figures.
    fn kind(&self) -> &'static str {
        "other"
    }

    /// Its connections, where there is a pool of them.
    fn pool_figures(&self) -> Option<PoolFigures> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_knows_where_the_next_one_begins() {
        let page = |rows: Vec<u8>, stopped| Page::of(rows, 2, |row| *row, stopped);
        assert_eq!(page(vec![9, 8, 7], None), Page { items: vec![9, 8], next: Some(8) });
        assert_eq!(page(vec![9, 8], None), Page { items: vec![9, 8], next: None });
        assert_eq!(page(vec![9], Some(3)), Page { items: vec![9], next: Some(3) });
    }

    #[test]
    fn counting_stops_and_says_so() {
        assert_eq!(Count::of(COUNT_MAX), Count { value: COUNT_MAX, more: false });
        assert_eq!(Count::of(COUNT_MAX + 1), Count { value: COUNT_MAX, more: true });
    }

    #[test]
    fn what_no_index_leads_to_is_checked_row_by_row() {
        let all = JobFilter::default;
        let schedule_id = Some(ScheduleId::from_bytes([1; 16]));
        let text = || Some("x".to_owned());
        let state = |state| JobFilter { place: JobsIn::State(state), ..all() };
        for filter in [
            all(),
            state(JobState::Queued),
            state(JobState::Running),
            state(JobState::Failed),
            JobFilter { place: JobsIn::Ended, ..all() },
            JobFilter { owner: text(), ..all() },
            JobFilter { schedule_id, ..all() },
            JobFilter { error_code: Some(ErrorCode::Timeout), ..all() },
            JobFilter { error_code: Some(ErrorCode::Timeout), place: JobsIn::Ended, ..all() },
        ] {
            assert!(!filter.checks_rows() && filter.look_at(50) == 51, "{filter:?}");
        }
        for filter in [
            state(JobState::Completed),
            state(JobState::Scheduled),
            state(JobState::Waiting),
            JobFilter { owner: text(), ..state(JobState::Queued) },
            JobFilter { owner: text(), schedule_id, ..all() },
            JobFilter { queue: text(), ..all() },
            JobFilter { job_type: text(), ..all() },
            JobFilter { tag: text(), ..state(JobState::Failed) },
            JobFilter { error_code: Some(ErrorCode::Timeout), ..state(JobState::Failed) },
            JobFilter { error_code: Some(ErrorCode::Timeout), owner: text(), ..all() },
        ] {
            assert!(filter.checks_rows() && filter.look_at(50) == SCAN_MAX, "{filter:?}");
        }
    }

    #[test]
    fn of_an_error_the_first_line_is_told() {
        assert_eq!(RecentRun::first_line("no such host\nat line 7"), "no such host");
        assert_eq!(RecentRun::first_line(""), "");
        assert_eq!(RecentRun::first_line(&"ü".repeat(201)), "ü".repeat(200));
    }

    #[test]
    fn times_bound_ids() {
        let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let filter =
            JobFilter { since: at("2026-03-01T00:00:00Z"), until: at("2026-03-02T00:00:00Z"), ..JobFilter::default() };
        let (from, to) = filter.id_range(None);
        let made = |text: &str| JobId::at(text.parse().unwrap(), [0x80, 0, 0, 0, 0, 0, 0, 0]);
        assert!(from <= made("2026-03-01T00:00:00Z") && made("2026-03-01T23:59:59.999999Z") < to);
        assert!(made("2026-02-28T23:59:59.999999Z") < from && made("2026-03-02T00:00:00Z") >= to);
    }
}
