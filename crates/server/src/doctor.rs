//! How things are: the store's own checks (C17), and what only a running process sees: clocks, signs of life, what
//! waits although nobody would take it.
//!
//! Beside the store's checks nothing big is read to its end: every look stops at a bound, and the answer says where.

use crate::dashboard::Dashboard;
use crate::state::AppState;
use jiff::{SignedDuration, Timestamp};
use punctual_core::checks::{self, Check, Severity};
use punctual_core::duration::format_duration;
use punctual_core::freeze::FreezeLevel;
use punctual_core::job::JobState;
use punctual_core::readings::{Count, JobFilter, JobsIn, ScheduleFilter, Stats};
use punctual_core::schedule::Schedule;
use punctual_core::store::{NodePulse, Store, StoreError, StoreResult};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long nodes are watched for a sign of life: three of their usual heartbeats.
const WATCH: Duration = Duration::from_secs(3);

/// From one look at them to the next.
const LOOK: Duration = Duration::from_millis(100);

/// How far two clocks may be apart, beside what the way between them takes.
const SKEW_MAX: SignedDuration = SignedDuration::from_secs(1);

/// How long before its end a token is spoken of.
const EXPIRES_SOON: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How many rows one look takes, and how many looks are taken at a list.
const ROWS: usize = 500;
const LOOKS: usize = 10;

/// What a server finds by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    ChecksFailed,
    ClockSkew,
    NoLiveNode,
    NodeSilent,
    NoExecutor,
    JobsWithoutExecutor,
    QueuePaused,
    TokenExpires,
    NoDashboard,
}

impl Trouble {
    const fn code(self) -> &'static str {
        match self {
            Self::ChecksFailed => "checks_failed",
            Self::ClockSkew => "clock_skew",
            Self::NoLiveNode => "no_live_node",
            Self::NodeSilent => "node_silent",
            Self::NoExecutor => "no_executor",
            Self::JobsWithoutExecutor => "jobs_without_executor",
            Self::QueuePaused => "queue_paused",
            Self::TokenExpires => "token_expires",
            Self::NoDashboard => "no_dashboard",
        }
    }

    const fn severity(self) -> Severity {
        match self {
            Self::ChecksFailed => Severity::Broken,
            _ => Severity::Attention,
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::ChecksFailed => "the store could not be looked through: something in it cannot be read",
            Self::ClockSkew => "the clocks of this host and of the store are apart: times in logs do not fit",
            Self::NoLiveNode => "work waits, and no node is alive to do it",
            Self::NodeSilent => "a node holds a lease and has shown no sign of life while it was watched",
            Self::NoExecutor => "a schedule is on, and no live node offers its target: it does not fire",
            Self::JobsWithoutExecutor => "jobs are queued, and no live node offers what they need: they wait",
            Self::QueuePaused => "a queue is paused, and jobs wait in it",
            Self::TokenExpires => "a token is about to expire: whoever uses it will be refused",
            Self::NoDashboard => "this program was built without its dashboard: browsers find the API only",
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::ChecksFailed => {
                "keep a copy of the data, look into the server's log, and restore a backup if need be"
            }
            Self::ClockSkew => "let both hosts take their time from NTP; the store's clock decides what is due",
            Self::NoLiveNode => "start one with `punctual serve` or `punctual worker`",
            Self::NodeSilent => "look whether it still runs; if it does not, others take its jobs over by themselves",
            Self::NoExecutor => "start a node that offers it, correct the schedule's target, or pause the schedule",
            Self::JobsWithoutExecutor => "start a node that offers it, or cancel the jobs",
            Self::QueuePaused => "resume the queue when whatever it was paused for is over",
            Self::TokenExpires => "make a new token, put it where the old one is used, and revoke the old one",
            Self::NoDashboard => "build it again where Node.js and npm are; docs/dashboard.md says how",
        }
    }
}

/// Something that was found.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) code: &'static str,
    pub(crate) severity: Severity,
    pub(crate) problem: &'static str,
    pub(crate) subjects: Vec<String>,
    pub(crate) more: bool,
    pub(crate) remedy: &'static str,
}

/// Something that was looked at.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) what: &'static str,
    /// How many; absent when it was the whole.
    pub(crate) count: Option<usize>,
    /// Whether there are some that were not looked at.
    pub(crate) more: bool,
}

/// What was found, worst first, and what was looked at.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    pub(crate) at: Timestamp,
    pub(crate) findings: Vec<Finding>,
    pub(crate) looked_at: Vec<Looked>,
}

/// Looks at everything, or, when it must be quick, at what does not grow with the history. One at a time: whoever asks
/// meanwhile waits.
pub(crate) async fn diagnose(state: &AppState, quick: bool, limit: usize) -> StoreResult<Diagnosis> {
    let _alone = state.shared.doctor.lock().await;
    let store = state.store.as_ref();
    let mut report = Report { limit, findings: Vec::new(), looked_at: Vec::new() };
    let watched = Watched { since: Instant::now(), first: store.node_pulses().await? };
    let at = report.clocks(store).await?;
    let mut broken = report.checks(store, quick).await?;
    if store.frozen().await?.is_some_and(|freeze| freeze.level == FreezeLevel::Writes) {
        // Nobody can work on it, so that nobody is missing, and nothing that waits is overdue.
        broken.retain(|finding| finding.code != Check::Overdue.as_str());
        report.looked("a frozen store, without those who worked on it", None, false);
        report.findings.extend(broken);
        return Ok(Diagnosis { at, findings: report.findings, looked_at: report.looked_at });
    }
    report.queues(store).await?;
    report.tokens(store, at).await?;
    report.dashboard(&state.shared.settings.dashboard);
    let nodes = watched.on(store).await?;
    let figures = store.stats(at).await?;
    report.nodes(&nodes, &figures);
    if !nodes.live.is_empty() {
        let offered: BTreeSet<_> = nodes.live.iter().flat_map(|node| node.offers.iter().map(String::as_str)).collect();
        let without = report.schedules(store, &offered).await?;
        told_better(&mut broken, &without);
        report.queued_jobs(store, &offered).await?;
    }
    report.findings.extend(broken);
    report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(Diagnosis { at, findings: report.findings, looked_at: report.looked_at })
}

/// Takes what is told under a code of its own out of the problems of schedules.
fn told_better(findings: &mut Vec<Finding>, elsewhere: &BTreeSet<String>) {
    for finding in findings.iter_mut().filter(|finding| finding.code == Check::ScheduleProblem.as_str()) {
        finding.subjects.retain(|subject| !elsewhere.contains(subject));
    }
    findings.retain(|finding| !finding.subjects.is_empty() || finding.more);
}

/// Nodes as they were when watching began.
struct Watched {
    since: Instant,
    first: Vec<NodePulse>,
}

/// Nodes that hold a lease, by whether they have renewed it.
struct Nodes {
    live: Vec<NodePulse>,
    silent: Vec<NodePulse>,
}

impl Watched {
    /// Watches until all have shown a sign of life, or for long enough. Who comes meanwhile is alive, and who leaves is
    /// no matter any more.
    async fn on(self, store: &dyn Store) -> StoreResult<Nodes> {
        loop {
            let now = store.node_pulses().await?;
            let unmoved = |node: &NodePulse| {
                self.first.iter().any(|seen| seen.lease_id == node.lease_id && seen.counter == node.counter)
            };
            let (silent, live): (Vec<_>, Vec<_>) = now.into_iter().partition(unmoved);
            if silent.is_empty() || self.since.elapsed() >= WATCH {
                return Ok(Nodes { live, silent });
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// What has been found so far.
struct Report {
    limit: usize,
    findings: Vec<Finding>,
    looked_at: Vec<Looked>,
}

impl Report {
    fn looked(&mut self, what: &'static str, count: Option<usize>, more: bool) {
        self.looked_at.push(Looked { what, count, more });
    }

    /// One that is left out on purpose is missed by nobody.
    fn dashboard(&mut self, dashboard: &Dashboard) {
        if let Some(why) = dashboard.why_missing().filter(|why| !why.on_purpose) {
            self.found(Trouble::NoDashboard, vec![why.reason.to_owned()]);
        }
    }

    fn found(&mut self, trouble: Trouble, mut subjects: Vec<String>) {
        if subjects.is_empty() {
            return;
        }
        let more = subjects.len() > self.limit;
        subjects.truncate(self.limit);
        self.findings.push(Finding {
            code: trouble.code(),
            severity: trouble.severity(),
            problem: trouble.meaning(),
            subjects,
            more,
            remedy: trouble.remedy(),
        });
    }

    /// What was read; what cannot be read is a finding itself and keeps nobody from looking further.
    fn readable<T>(&mut self, what: &str, read: StoreResult<T>) -> StoreResult<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(StoreError::Internal(words)) => {
                tracing::error!(error = %words, what, "the store could not be looked through");
                self.found(Trouble::ChecksFailed, vec![format!("{what}: {words}")]);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Compares this host's clock with the store's; tells the store's.
    async fn clocks(&mut self, store: &dyn Store) -> StoreResult<Timestamp> {
        let (asked, begun) = (Timestamp::now(), Instant::now());
        let there = store.now().await?;
        let way = SignedDuration::try_from(begun.elapsed()).unwrap_or(SignedDuration::MAX);
        self.looked("clocks", Some(2), false);
        self.found(Trouble::ClockSkew, apart(asked, there, way).into_iter().collect());
        Ok(there)
    }

    async fn checks(&mut self, store: &dyn Store, quick: bool) -> StoreResult<Vec<Finding>> {
        self.looked("old snapshots", None, false);
        let found = if quick {
            let found = store.run_quick_checks(self.limit).await;
            self.readable("old snapshots", found)?
        } else {
            let found = store.run_checks(self.limit).await;
            self.looked("every table, in one snapshot", None, false);
            self.readable("the whole store", found)?
        };
        Ok(found.into_iter().flatten().map(of_store).collect())
    }

    async fn queues(&mut self, store: &dyn Store) -> StoreResult<()> {
        let queues = store.queues(None, ROWS + 1).await?;
        self.looked("queues", Some(queues.len().min(ROWS)), queues.len() > ROWS);
        let waits = queues.iter().take(ROWS).filter(|queue| queue.paused && queue.depth.value > 0);
        let told = waits.map(|queue| format!("{}: {} waiting", queue.name, jobs(queue.depth))).collect();
        self.found(Trouble::QueuePaused, told);
        Ok(())
    }

    async fn tokens(&mut self, store: &dyn Store, now: Timestamp) -> StoreResult<()> {
        let tokens = store.tokens(None, ROWS + 1).await?;
        self.looked("tokens", Some(tokens.len().min(ROWS)), tokens.len() > ROWS);
        let soon = now.saturating_add(EXPIRES_SOON).unwrap_or(Timestamp::MAX);
        let valid = tokens.iter().take(ROWS).filter(|token| token.is_valid(now));
        let ending = valid.filter_map(|token| token.token.expires_at.filter(|at| *at <= soon).map(|at| (token, at)));
        let told = ending.map(|(token, at)| format!("{} of {}, at {at}", token.token.name, token.token.owner));
        self.found(Trouble::TokenExpires, told.collect());
        Ok(())
    }

    fn nodes(&mut self, nodes: &Nodes, stats: &Stats) {
        self.looked("nodes", Some(nodes.live.len() + nodes.silent.len()), false);
        let silent = nodes.silent.iter().map(|node| format!("{} ({})", node.name, node.node_id)).collect();
        self.found(Trouble::NodeSilent, silent);
        if nodes.live.is_empty() {
            self.found(Trouble::NoLiveNode, waiting(stats));
        }
    }

    /// Schedules that nobody could run; told as the store's checks tell the problems of schedules.
    async fn schedules(&mut self, store: &dyn Store, offered: &BTreeSet<&str>) -> StoreResult<BTreeSet<String>> {
        let (mut count, mut after, mut without) = (0, None, BTreeSet::new());
        for _ in 0..LOOKS {
            let page = store.schedules_by(&ScheduleFilter::default(), after.as_deref(), ROWS).await;
            let Some(page) = self.readable("schedules", page)? else { break };
            count += page.items.len();
            without.extend(page.items.iter().filter_map(|schedule| without_executor(schedule, offered)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.looked("schedules", Some(count), after.is_some());
        self.found(Trouble::NoExecutor, without.iter().cloned().collect());
        Ok(without)
    }

    async fn queued_jobs(&mut self, store: &dyn Store, offered: &BTreeSet<&str>) -> StoreResult<()> {
        let queued = JobFilter { place: JobsIn::State(JobState::Queued), ..JobFilter::default() };
        let page = store.jobs_by(&queued, None, ROWS).await;
        let Some(page) = self.readable("queued jobs", page)? else { return Ok(()) };
        self.looked("queued jobs, the latest", Some(page.items.len()), page.next.is_some());
        let mut without: BTreeMap<String, usize> = BTreeMap::new();
        for job_type in page.items.iter().map(|view| view.job.spec.target.job_type()) {
            if !offered.contains(job_type.as_str()) {
                *without.entry(job_type).or_default() += 1;
            }
        }
        let told = without.into_iter().map(|(job_type, count)| format!("{job_type}: {count} of those looked at"));
        self.found(Trouble::JobsWithoutExecutor, told.collect());
        Ok(())
    }
}

fn of_store(finding: checks::Finding) -> Finding {
    let checks::Finding { check, subjects, more } = finding;
    Finding {
        code: check.as_str(),
        severity: check.severity(),
        problem: check.meaning(),
        subjects,
        more,
        remedy: check.remedy(),
    }
}

/// Whether a schedule is on and nobody offers its target; in the words of its mark, if it has one.
fn without_executor(schedule: &Schedule, offered: &BTreeSet<&str>) -> Option<String> {
    let (state, job_type) = (&schedule.state, schedule.definition.target.job_type());
    if !state.is_fired_by_store() || state.exhausted_at.is_some() || offered.contains(job_type.as_str()) {
        return None;
    }
    let name = &schedule.definition.name;
    let mark = state.problem.as_ref().filter(|_| state.no_executor_since.is_some());
    Some(mark.map_or_else(|| format!("{name}: no live node offers `{job_type}`"), |mark| format!("{name}: {mark}")))
}

/// How far this host's clock is from the store's, when that is more than the way between them explains: the store
/// looked at its clock at some instant between the question and the answer.
fn apart(asked: Timestamp, there: Timestamp, way: SignedDuration) -> Option<String> {
    let answered = asked.saturating_add(way).unwrap_or(Timestamp::MAX);
    let (behind, ahead) = (there.duration_since(answered), asked.duration_since(there));
    if behind > SKEW_MAX {
        return Some(format!("this host is {} behind the store", format_duration(behind)));
    }
    (ahead > SKEW_MAX).then(|| format!("this host is {} ahead of the store", format_duration(ahead)))
}

/// What waits for a node, in words.
fn waiting(stats: &Stats) -> Vec<String> {
    let mut told = Vec::new();
    for (count, state) in [(stats.queued, "queued"), (stats.scheduled, "scheduled"), (stats.running, "left running")] {
        if count.value > 0 {
            told.push(format!("{} {state}", jobs(count)));
        }
    }
    let on = stats.schedules.value.saturating_sub(stats.paused);
    if on > 0 {
        told.push(format!("{} on", counted(Count { value: on, more: stats.schedules.more }, "schedule")));
    }
    told
}

fn jobs(count: Count) -> String {
    counted(count, "job")
}

fn counted(count: Count, what: &str) -> String {
    let (more, s) = (if count.more { "over " } else { "" }, if count.value == 1 { "" } else { "s" });
    format!("{more}{} {what}{s}", count.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn c17_clocks_are_apart_when_the_way_between_them_does_not_explain_it() {
        let way = SignedDuration::from_secs(4);
        for (there, told) in [
            (-1_000, None),
            (-1_001, Some("ahead")),
            (0, None),
            (4_000, None),
            (5_000, None),
            (5_001, Some("behind")),
            (3_600_000, Some("behind")),
        ] {
            let found = apart(at(0), at(there), way);
            assert_eq!(found.is_some(), told.is_some(), "{there}: {found:?}");
            assert!(found.is_none_or(|found| found.contains(told.unwrap())), "{there}");
        }
    }

    #[test]
    fn c17_what_waits_is_told_in_words() {
        let count = |value, more| Count { value, more };
        let stats = Stats {
            queued: count(10_000, true),
            scheduled: count(1, false),
            schedules: count(3, false),
            paused: 2,
            ..Stats::default()
        };
        assert_eq!(waiting(&stats), ["over 10000 jobs queued", "1 job scheduled", "1 schedule on"]);
        assert_eq!(waiting(&Stats::default()), [] as [String; 0]);
    }
}
