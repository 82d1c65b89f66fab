//! What the figures mean, in words: what to expect, what bounds it, and what to change.

use super::facts::{Facts, StoreKind, bytes_of};
use super::figures::{Figure, Measure};
use super::text::{amount, milliseconds};
use serde::Serialize;

/// How much a remark matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// What to expect.
    Note,
    /// Something that would make it faster.
    Hint,
    /// Something that is wrong.
    Warning,
}

/// One sentence or two about the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// For programs; it does not change.
    pub code: &'static str,
    /// How much it matters.
    pub weight: Weight,
    /// For people.
    pub text: String,
}

/// A rule, which says something or nothing.
type Rule = fn(&Facts, &Figures<'_>) -> Option<Remark>;

/// What is wrong comes first, and then what to expect.
const RULES: [Rule; 15] = [
    not_durable,
    network_file,
    pooled,
    autovacuum_off,
    forced_checkpoints,
    slow_commits,
    far_away,
    few_connections,
    small_buffers,
    jit_behind_a_pooler,
    cost_of_a_commit,
    speed_of_draining,
    speed_of_enqueueing,
    wait_for_a_start,
    what_is_left,
];

/// From here on a commit takes longer than that of a disk that is good for databases, in milliseconds.
const SLOW_COMMIT_MS: f64 = 3.0;
/// From here on the way there and back is what small transactions are made of.
const FAR_MS: f64 = 1.5;
/// Connections that a node takes, and some for others.
const CONNECTIONS_FEW: i64 = 20;
/// What PostgreSQL has unless somebody made it less.
const BUFFERS_SMALL: u64 = 128 << 20;

/// The figures by what they measure.
pub(super) struct Figures<'a>(&'a [Figure]);

impl Figures<'_> {
    fn of(&self, measure: Measure) -> Option<&Figure> {
        self.0.iter().find(|figure| figure.measure == measure)
    }

    fn value(&self, measure: Measure) -> Option<f64> {
        self.of(measure).map(|figure| figure.punctual)
    }
}

/// All that there is to say.
pub(super) fn judge(facts: &Facts, figures: &[Figure]) -> Vec<Remark> {
    let figures = Figures(figures);
    RULES.iter().filter_map(|rule| rule(facts, &figures)).collect()
}

fn remark(code: &'static str, weight: Weight, text: impl Into<String>) -> Remark {
    Remark { code, weight, text: text.into() }
}

fn not_durable(facts: &Facts, _: &Figures<'_>) -> Option<Remark> {
    if facts.not_durable.is_empty() {
        return None;
    }
    let why = facts.not_durable.join(", ");
    let text = format!(
        "NOT DURABLE: {why}. A power cut may lose what was acknowledged, or the whole database. These figures say nothing \
         about a durable one, so that no ratio is given; turn it on and look again."
    );
    Some(remark("not_durable", Weight::Warning, text))
}

fn network_file(facts: &Facts, _: &Figures<'_>) -> Option<Remark> {
    let kind = facts.file_system.as_deref()?;
    let network = ["nfs", "cifs", "smb", "9p", "afs", "ceph", "fuse.sshfs", "fuse.glusterfs", "lustre", "beegfs"];
    if facts.store != StoreKind::Sqlite || !network.iter().any(|name| kind.starts_with(name)) {
        return None;
    }
    let text = format!(
        "The file is on {kind}, a file system of a network: SQLite's locks and its log are not safe there, whatever the \
         speed. Put the file on a local disk, or use PostgreSQL."
    );
    Some(remark("network_file_system", Weight::Warning, text))
}

fn pooled(facts: &Facts, _: &Figures<'_>) -> Option<Remark> {
    if !facts.pooled {
        return None;
    }
    Some(remark(
        "pooler",
        Weight::Hint,
        "A pooler stands before the database: statements are planned anew each time, no node is woken by a notification, and \
         hand-written SQL cannot be measured for comparison. Name the database itself if you can; a node takes up to 10 \
         connections.",
    ))
}

fn autovacuum_off(facts: &Facts, _: &Figures<'_>) -> Option<Remark> {
    if facts.setting("autovacuum") != "off" {
        return None;
    }
    Some(remark(
        "autovacuum_off",
        Weight::Warning,
        "autovacuum is off: the queue's tables are emptied and filled all the time, and without it each claim gets slower. \
         Turn it on.",
    ))
}

fn forced_checkpoints(facts: &Facts, _: &Figures<'_>) -> Option<Remark> {
    let forced = facts.forced_checkpoints.filter(|forced| *forced > 0)?;
    let times = if forced == 1 { "once".to_owned() } else { format!("{forced} times") };
    let size = facts.setting("max_wal_size");
    let text = format!(
        "A checkpoint was forced {times} during this look, and the first write of each page after one costs the whole page \
         in the log. Raise max_wal_size (it is {size})."
    );
    Some(remark("forced_checkpoints", Weight::Hint, text))
}

/// What a commit takes without the way there and back.
fn flush_ms(facts: &Facts) -> f64 {
    (1000.0 / facts.commits_per_second - facts.round_trip_ms).max(0.0)
}

fn slow_commits(facts: &Facts, _: &Figures<'_>) -> Option<Remark> {
    let flush = flush_ms(facts);
    if flush < SLOW_COMMIT_MS {
        return None;
    }
    let text = format!(
        "A commit waits {} for the disk, which is slow. A disk whose cache survives a power cut takes a tenth of that; until \
         then enqueue in batches, or by many callers at once, who share the wait.",
        milliseconds(flush)
    );
    Some(remark("slow_commits", Weight::Hint, text))
}

fn far_away(facts: &Facts, _: &Figures<'_>) -> Option<Remark> {
    if facts.store != StoreKind::Postgres || facts.round_trip_ms < FAR_MS {
        return None;
    }
    let text = format!(
        "The database is far away: {} there and back. Whoever waits for one answer before he asks again gets at most {} of \
         them in a second. Run nodes beside it, or enqueue in batches.",
        milliseconds(facts.round_trip_ms),
        amount(1000.0 / facts.round_trip_ms)
    );
    Some(remark("far_away", Weight::Hint, text))
}

fn few_connections(facts: &Facts, _: &Figures<'_>) -> Option<Remark> {
    let free = facts.free_connections.filter(|free| *free < CONNECTIONS_FEW)?;
    let text = format!(
        "Only {free} of the {} connections were free, and a node takes up to 10. Raise max_connections, or give nodes fewer.",
        facts.setting("max_connections")
    );
    Some(remark("few_connections", Weight::Hint, text))
}

fn small_buffers(facts: &Facts, _: &Figures<'_>) -> Option<Remark> {
    let size = facts.setting("shared_buffers");
    bytes_of(size).filter(|bytes| *bytes < BUFFERS_SMALL)?;
    let text = format!(
        "shared_buffers is {size}: once the tables of the last days are larger than that, claims and finishes wait for \
         the disk. A quarter of the machine's memory is usual."
    );
    Some(remark("small_shared_buffers", Weight::Hint, text))
}

fn jit_behind_a_pooler(facts: &Facts, _: &Figures<'_>) -> Option<Remark> {
    // Elsewhere the store turns it off for its own connections.
    if !facts.pooled || facts.setting("jit") != "on" {
        return None;
    }
    Some(remark(
        "jit_on",
        Weight::Hint,
        "jit is on, and behind a pooler it cannot be turned off for single connections: compiling short statements takes \
         longer than running them. ALTER ROLE … SET jit = off.",
    ))
}

fn cost_of_a_commit(facts: &Facts, _: &Figures<'_>) -> Option<Remark> {
    if !facts.commits_per_second.is_normal() {
        return None;
    }
    let each = milliseconds(1000.0 / facts.commits_per_second);
    let of_that = match facts.store {
        StoreKind::Postgres => format!(", {} of that for the way there and back", milliseconds(facts.round_trip_ms)),
        StoreKind::Sqlite => String::new(),
    };
    let durable = if facts.not_durable.is_empty() { "durable" } else { "NOT durable" };
    let text = format!(
        "A {durable} commit takes {each}{of_that}: {} a second, one after the other. Nobody who waits for each job before \
         the next can enqueue more than that.",
        amount(facts.commits_per_second)
    );
    Some(remark("commit", Weight::Note, text))
}

/// How near to the limit, if that is known.
fn share_of_limit(figure: &Figure) -> String {
    figure.ratio.map_or_else(String::new, |ratio| {
        format!(", {:.2} of what hand-written SQL reaches on the same tables", ratio.middle)
    })
}

fn speed_of_draining(_: &Facts, figures: &Figures<'_>) -> Option<Remark> {
    let drain = figures.of(Measure::Drain)?;
    let text = format!(
        "One node takes, runs and records about {} jobs a second that do nothing themselves{}.",
        amount(drain.punctual),
        share_of_limit(drain)
    );
    Some(remark("drain", Weight::Note, text))
}

fn speed_of_enqueueing(_: &Facts, figures: &Figures<'_>) -> Option<Remark> {
    let single = figures.value(Measure::EnqueueSingle)?;
    let callers = figures.value(Measure::EnqueueCallers)?;
    let batched = figures.of(Measure::EnqueueBatched)?;
    let text = format!(
        "Expect {} enqueues a second from one caller, {} from 16 at once, {} in batches{}.",
        amount(single),
        amount(callers),
        amount(batched.punctual),
        share_of_limit(batched)
    );
    Some(remark("enqueue", Weight::Note, text))
}

fn wait_for_a_start(_: &Facts, figures: &Figures<'_>) -> Option<Remark> {
    let (middle, most) = (figures.value(Measure::StartP50)?, figures.value(Measure::StartP99)?);
    let text = format!(
        "A job starts {} after the call that makes it when a node is idle, and within {} but for one of a hundred.",
        milliseconds(middle),
        milliseconds(most)
    );
    Some(remark("start", Weight::Note, text))
}

/// The database is well, and something else is in the way.
fn what_is_left(facts: &Facts, figures: &Figures<'_>) -> Option<Remark> {
    let ratio = figures.of(Measure::Drain)?.ratio?;
    if ratio.middle >= 0.5 || facts.pooled || facts.round_trip_ms >= FAR_MS {
        return None;
    }
    let text = format!(
        "The database could drain {:.1} times as much as one node does. More nodes, or more jobs at once in one \
         (--concurrency), would use it; or this machine's processors are busy with something else.",
        1.0 / ratio.middle
    );
    Some(remark("more_nodes", Weight::Hint, text))
}

#[cfg(test)]
mod tests {
    use super::super::figures::Ratio;
    use super::*;

    /// A good server nearby.
    fn good() -> Facts {
        let settings = [
            ("autovacuum", "on"),
            ("jit", "on"),
            ("max_connections", "100"),
            ("max_wal_size", "1GB"),
            ("shared_buffers", "1GB"),
        ];
        Facts {
            store: StoreKind::Postgres,
            version: "15".to_owned(),
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            not_durable: Vec::new(),
            round_trip_ms: 0.1,
            commits_per_second: 4_000.0,
            pooled: false,
            forced_checkpoints: Some(0),
            free_connections: Some(90),
            file_system: None,
            memory_bytes: None,
        }
    }

    fn with(name: &str, value: &str) -> Facts {
        let mut facts = good();
        facts.settings.insert(name.to_owned(), value.to_owned());
        facts
    }

    fn figures(drain_ratio: Option<f64>) -> Vec<Figure> {
        let figure =
            |measure, punctual| Figure { measure, raw: Some(1.0), punctual, ratio: None, goal: None, goal_met: None };
        let ratio = drain_ratio.map(|middle| Ratio { middle, low: middle, high: middle });
        vec![
            Figure { ratio, ..figure(Measure::Drain, 41_234.0) },
            figure(Measure::EnqueueSingle, 2_000.0),
            figure(Measure::EnqueueCallers, 20_000.0),
            figure(Measure::EnqueueBatched, 80_000.0),
            figure(Measure::StartP50, 1.5),
            figure(Measure::StartP99, 4.0),
        ]
    }

    /// The codes of what is wrong or could be better.
    fn complaints(facts: &Facts, drain_ratio: Option<f64>) -> Vec<&'static str> {
        let remarks = judge(facts, &figures(drain_ratio)).into_iter();
        remarks.filter(|remark| remark.weight > Weight::Note).map(|remark| remark.code).collect()
    }

    fn text(facts: &Facts, code: &str) -> String {
        let found = judge(facts, &figures(Some(0.9))).into_iter().find(|remark| remark.code == code);
        found.unwrap_or_else(|| panic!("{code} is not said")).text
    }

    #[test]
    fn a_good_database_gets_what_to_expect_and_no_complaint() {
        assert_eq!(complaints(&good(), Some(0.9)), Vec::<&str>::new());
        let codes: Vec<_> = judge(&good(), &figures(Some(0.9))).iter().map(|remark| remark.code).collect();
        assert_eq!(codes, ["commit", "drain", "enqueue", "start"]);
        assert!(text(&good(), "drain").contains("41,234 jobs a second"), "{}", text(&good(), "drain"));
        assert!(text(&good(), "drain").contains("0.90 of what"));
        assert!(text(&good(), "commit").contains("4,000 a second"), "{}", text(&good(), "commit"));
    }

    #[test]
    fn what_is_not_durable_is_said_first_and_loudly() {
        let facts = Facts { not_durable: vec!["fsync is off".to_owned()], ..good() };
        let remarks = judge(&facts, &figures(None));
        assert_eq!((remarks[0].code, remarks[0].weight), ("not_durable", Weight::Warning));
        assert!(remarks[0].text.starts_with("NOT DURABLE: fsync is off"));
        assert!(text(&facts, "commit").contains("NOT durable"));
    }

    #[test]
    fn a_slow_disk_and_a_long_way_are_told_apart() {
        let slow_disk = Facts { commits_per_second: 100.0, ..good() };
        assert_eq!(complaints(&slow_disk, Some(0.9)), ["slow_commits"]);
        assert!(text(&slow_disk, "slow_commits").contains("9.9 ms"), "{}", text(&slow_disk, "slow_commits"));
        let far = Facts { round_trip_ms: 20.0, commits_per_second: 48.0, ..good() };
        assert_eq!(complaints(&far, Some(0.9)), ["far_away"]);
        assert!(text(&far, "far_away").contains("50 of them"), "{}", text(&far, "far_away"));
        let file = Facts { store: StoreKind::Sqlite, round_trip_ms: 20.0, commits_per_second: 48.0, ..good() };
        assert_eq!(complaints(&file, Some(0.9)), Vec::<&str>::new(), "a file is never far away");
    }

    #[test]
    fn settings_that_cost_speed_are_named_with_their_value() {
        assert_eq!(complaints(&with("autovacuum", "off"), Some(0.9)), ["autovacuum_off"]);
        assert_eq!(complaints(&with("shared_buffers", "16MB"), Some(0.9)), ["small_shared_buffers"]);
        assert_eq!(complaints(&with("shared_buffers", "128MB"), Some(0.9)), Vec::<&str>::new());
        let forced = Facts { forced_checkpoints: Some(3), ..with("max_wal_size", "64MB") };
        assert_eq!(complaints(&forced, Some(0.9)), ["forced_checkpoints"]);
        let said = text(&forced, "forced_checkpoints");
        assert!(said.contains("3 times") && said.contains("64MB"), "{said}");
        let few = Facts { free_connections: Some(5), ..good() };
        assert_eq!(complaints(&few, Some(0.9)), ["few_connections"]);
    }

    #[test]
    fn jit_matters_only_behind_a_pooler() {
        let pooled = Facts { pooled: true, ..good() };
        assert_eq!(complaints(&pooled, None), ["pooler", "jit_on"]);
        assert_eq!(complaints(&Facts { pooled: true, ..with("jit", "off") }, None), ["pooler"]);
    }

    #[test]
    fn a_file_on_a_network_is_warned_of_and_a_server_has_none() {
        let on = |kind: &str| Facts { store: StoreKind::Sqlite, file_system: Some(kind.to_owned()), ..good() };
        assert_eq!(complaints(&on("nfs4"), Some(0.9)), ["network_file_system"]);
        assert_eq!(complaints(&on("ext4"), Some(0.9)), Vec::<&str>::new());
        assert_eq!(complaints(&Facts { store: StoreKind::Postgres, ..on("nfs4") }, Some(0.9)), Vec::<&str>::new());
    }

    #[test]
    fn a_database_that_waits_for_its_node_is_told_of() {
        assert_eq!(complaints(&good(), Some(0.25)), ["more_nodes"]);
        let said = judge(&good(), &figures(Some(0.25))).pop().unwrap().text;
        assert!(said.contains("4.0 times"), "{said}");
        assert_eq!(complaints(&good(), None), Vec::<&str>::new(), "without a ratio nothing is known");
    }
}
