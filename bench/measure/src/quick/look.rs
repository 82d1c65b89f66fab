//! The look itself: a turn for warming up, then rounds in alternating order, and everything accounted for.

use super::durability;
use super::facts::{Counts, Facts, StoreKind, peak_memory};
use super::figures::{Figure, Measure, Sample, add_latencies, figure};
use super::place::Place;
use super::side::{BATCH, Bound, Claims, Done, Ground, Side, Starts, number};
use super::verdict::{self, Remark};
use super::{postgres, sqlite};
use crate::Outcome;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Callers that enqueue at the same time.
const CALLERS: usize = 16;
/// Claimers of due schedules.
const CLAIMERS: usize = 50;
/// The fewest rounds of which a middle means something.
pub const ROUNDS: usize = 3;
/// Batches in a queue that is drained, at most: what one turn may write.
const BATCHES_MAX: usize = 12;
/// How long a drain should take at least, if that is not more than may be written.
const DRAIN_SECONDS: f64 = 1.5;
/// Bytes that a job takes in all its tables, indexes and the log, rounded up.
const BYTES_PER_JOB: usize = 2_600;

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Rounds of both sides.
    pub rounds: usize,
    /// Jobs of each kind in a turn; as many as the database is good for unless said.
    pub jobs: Option<usize>,
}

impl Default for Scale {
    fn default() -> Self {
        Self { rounds: ROUNDS, jobs: None }
    }
}

impl Scale {
    /// About how many bytes are written at most, by both sides and all rounds.
    pub fn bytes_at_most(self) -> u64 {
        let sizes = Sizes::full(self);
        let turn = sizes.singles.count * 2 + sizes.batches * BATCH + sizes.slots * 2 + sizes.starts.count;
        let all = turn.saturating_mul(2 * self.rounds + 1).saturating_mul(BYTES_PER_JOB);
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

/// What a turn does.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    singles: Bound,
    batches: usize,
    slots: usize,
    starts: Bound,
}

impl Sizes {
    fn full(scale: Scale) -> Self {
        let up_to = |most: usize| scale.jobs.map_or(most, |jobs| jobs.clamp(1, most));
        let bound = |count, milliseconds| Bound { count, time: Duration::from_millis(milliseconds) };
        Self {
            singles: bound(up_to(1_000), 700),
            batches: scale.jobs.map_or(BATCHES_MAX, |jobs| jobs.div_ceil(BATCH)).min(BATCHES_MAX),
            slots: up_to(1_000),
            starts: bound(up_to(40), 3_500),
        }
    }

    /// Before anything is known of the database.
    fn warm_up(scale: Scale) -> Self {
        let full = Self::full(scale);
        let few = |bound: Bound| Bound { count: bound.count.min(50), ..bound };
        Self { singles: few(full.singles), batches: 1, slots: full.slots, starts: Bound { count: 3, ..full.starts } }
    }

    /// As much as the slower side drains in a while.
    fn known(scale: Scale, slower_per_second: f64) -> Self {
        let full = Self::full(scale);
        if scale.jobs.is_some() {
            return full;
        }
        let batches = (1..BATCHES_MAX).take_while(|n| number(n * BATCH) < slower_per_second * DRAIN_SECONDS).count();
        Self { batches: batches.max(1), ..full }
    }
}

/// What the look found.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// Where it was measured.
    pub measured_in: String,
    /// Rounds of both sides.
    pub rounds: usize,
    /// What is known of the database.
    #[serde(flatten)]
    pub facts: Facts,
    /// Whether every write that was acknowledged survives a power cut.
    pub durable: bool,
    /// What the tables held in the end: every job has run, once, or there is no result at all.
    pub accounted: Counts,
    /// The figures of both sides.
    pub figures: Vec<Figure>,
    /// What that means.
    pub verdict: Vec<Remark>,
}

/// Looks at the database that a place was made in. `tell` hears how far it is.
pub async fn look(place: &Place, scale: Scale, tell: &(dyn Fn(&str) + Sync)) -> Outcome<Findings> {
    match place {
        Place::Database { url, .. } => {
            let free_connections = match punctual_store_postgres::connect_client(url).await {
                Ok((client, _)) => postgres::free_connections(&client).await,
                Err(error) => return Err(error.into()),
            };
            let postgres::Parts { ours, raw, ground } = postgres::open(url).await?;
            let pooled = ground.pooled;
            let raw = raw.map(|raw| Box::new(raw) as Box<dyn Side>);
            let mut look = Look::new(StoreKind::Postgres, raw, Box::new(ours), &ground);
            look.play(scale, tell).await?;
            look.findings(place, scale, |facts| Facts { pooled, free_connections, ..facts }).await
        }
        Place::Folder { folder, .. } => {
            let sqlite::Parts { ours, raw, ground } = sqlite::open(&folder.join("bench.db"))?;
            let mut look = Look::new(StoreKind::Sqlite, Some(Box::new(raw)), Box::new(ours), &ground);
            look.play(scale, tell).await?;
            let file_system = super::place::file_system(folder);
            look.findings(place, scale, |facts| Facts { file_system, ..facts }).await
        }
    }
}

/// The sides, and what they have shown so far.
struct Look<'a> {
    store: StoreKind,
    raw: Option<Box<dyn Side>>,
    ours: Box<dyn Side>,
    ground: &'a dyn Ground,
    samples: BTreeMap<Measure, [Sample; 2]>,
    /// Jobs that were made, which must all have ended.
    jobs: usize,
    settings: BTreeMap<String, String>,
    round_trip_ms: f64,
    commits: Vec<f64>,
    checkpoints: Option<i64>,
}

/// Which of the two.
#[derive(Debug, Clone, Copy)]
enum Who {
    Raw,
    Ours,
}

impl<'a> Look<'a> {
    fn new(store: StoreKind, raw: Option<Box<dyn Side>>, ours: Box<dyn Side>, ground: &'a dyn Ground) -> Self {
        Self {
            store,
            raw,
            ours,
            ground,
            samples: BTreeMap::new(),
            jobs: 0,
            settings: BTreeMap::new(),
            round_trip_ms: f64::NAN,
            commits: Vec::new(),
            checkpoints: None,
        }
    }

    async fn play(&mut self, scale: Scale, tell: &(dyn Fn(&str) + Sync)) -> Outcome<()> {
        self.settings = self.ground.settings().await?;
        self.round_trip_ms = self.ground.round_trip_ms().await?;
        self.checkpoints = self.ground.forced_checkpoints().await;
        tell("warming up");
        let sizes = Sizes::warm_up(scale);
        let mut slower = self.turn(Who::Ours, sizes).await?;
        if self.raw.is_some() {
            slower = slower.min(self.turn(Who::Raw, sizes).await?);
        }
        // Plans and connections were made in it, so that it does not count.
        self.samples.clear();
        let sizes = Sizes::known(scale, slower);
        for round in 0..scale.rounds {
            tell(&format!("round {} of {}", round + 1, scale.rounds));
            let bound = Bound { count: 2_000, time: Duration::from_millis(500) };
            self.commits.push(self.ground.commits(bound).await?.per_second());
            // The order alternates, so that a disk that slows down or a cache that warms up favours nobody.
            let order = if round % 2 == 0 { [Who::Raw, Who::Ours] } else { [Who::Ours, Who::Raw] };
            for who in order {
                if matches!(who, Who::Ours) || self.raw.is_some() {
                    self.turn(who, sizes).await?;
                }
            }
        }
        Ok(())
    }

    /// Everything once on one side; says how many jobs it drains in a second.
    async fn turn(&mut self, who: Who, sizes: Sizes) -> Outcome<f64> {
        self.ground.tidy().await?;
        let Self { raw, ours, ground, .. } = self;
        let ground = *ground;
        let side: &mut dyn Side = match (who, raw) {
            (Who::Raw, Some(raw)) => &mut **raw,
            _ => &mut **ours,
        };
        let singles = side.enqueue_singly(sizes.singles).await?;
        let callers = side.enqueue_by(CALLERS, sizes.singles).await?;
        let log = ground.log_bytes().await;
        let batched = side.enqueue_batches(sizes.batches).await?;
        let log_between = ground.log_bytes().await;
        let drained = side.drain(singles.count + callers.count + batched.count).await?;
        let log_after = ground.log_bytes().await;
        let (starts, fired, claims) = the_rest(side, ground, sizes).await?;
        let made = drained.count + 2 * sizes.slots + starts.made;
        self.jobs += made;
        self.check_accounts().await?;
        for (measure, done) in [
            (Measure::EnqueueSingle, singles),
            (Measure::EnqueueCallers, callers),
            (Measure::EnqueueBatched, batched),
            (Measure::Drain, drained),
            (Measure::Fire, fired),
            (Measure::FireClaimers, claims.done),
        ] {
            self.sample(measure, who).add(done.per_second());
        }
        if let (Some(before), Some(between), Some(after)) = (log, log_between, log_after) {
            let bytes = (between - before) / number(batched.count) + (after - between) / number(drained.count);
            self.sample(Measure::WalPerJob, who).add(bytes);
        }
        for measure in [Measure::StartP50, Measure::StartP99] {
            add_latencies(self.sample(measure, who), measure, &starts.milliseconds);
        }
        add_latencies(self.sample(Measure::ClaimP99, who), Measure::ClaimP99, &claims.milliseconds);
        Ok(drained.per_second())
    }

    fn sample(&mut self, measure: Measure, who: Who) -> &mut Sample {
        let [raw, ours] = self.samples.entry(measure).or_default();
        match who {
            Who::Raw => raw,
            Who::Ours => ours,
        }
    }

    /// Every job that was made has ended, once; counted in the tables, whatever the sides say.
    async fn check_accounts(&self) -> Outcome<Counts> {
        let counts = self.ground.counts().await?;
        if counts == Counts::all_done(self.jobs) {
            return Ok(counts);
        }
        let Counts { jobs, runs, queued, running, delayed } = counts;
        Err(format!(
            "of {} jobs the tables hold {jobs} with {runs} ends, {queued} queued, {running} running, {delayed} delayed: \
             not every job is accounted for, so that no figure counts",
            self.jobs
        )
        .into())
    }

    async fn findings(&self, place: &Place, scale: Scale, more: impl FnOnce(Facts) -> Facts) -> Outcome<Findings> {
        let accounted = self.check_accounts().await?;
        let after = self.ground.settings().await?;
        let mut not_durable = durability::problems(self.store, &self.settings);
        if not_durable.is_empty() {
            // Somebody may have changed them meanwhile.
            not_durable = durability::problems(self.store, &after);
        }
        let checkpoints = self.ground.forced_checkpoints().await;
        let facts = more(Facts {
            store: self.store,
            version: self.settings.get("server_version").cloned().unwrap_or_default(),
            settings: self.settings.clone(),
            not_durable,
            round_trip_ms: self.round_trip_ms,
            commits_per_second: super::figures::percentile(&self.commits, 0.5),
            pooled: false,
            forced_checkpoints: checkpoints.zip(self.checkpoints).map(|(after, before)| after - before),
            free_connections: None,
            file_system: None,
            memory_bytes: peak_memory(),
        });
        let durable = facts.not_durable.is_empty();
        let figures: Vec<Figure> = Measure::ALL
            .iter()
            .filter_map(|measure| {
                let [raw, ours] = self.samples.get(measure)?;
                figure(*measure, self.store, raw, ours, durable)
            })
            .collect();
        let verdict = verdict::judge(&facts, &figures);
        Ok(Findings { measured_in: place.name(), rounds: scale.rounds, facts, durable, accounted, figures, verdict })
    }
}

/// Starts; what one fired, and what many did.
type Rest = (Starts, Done, Claims);

async fn the_rest(side: &mut dyn Side, ground: &dyn Ground, sizes: Sizes) -> Outcome<Rest> {
    ground.make_due_schedules(sizes.slots).await?;
    let fired = side.fire(sizes.slots).await?;
    ground.make_due_schedules(sizes.slots).await?;
    let claims = side.fire_by(CLAIMERS, sizes.slots).await?;
    side.drain(2 * sizes.slots).await?;
    let starts = side.enqueue_to_start(sizes.starts).await?;
    Ok((starts, fired, claims))
}
