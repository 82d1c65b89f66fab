//! Many who fire at once: how many slots they claim in a second together, and how long one claim takes (D13).

use crate::figures::{median, middle_half, percentile};
use crate::load::{self, Outcome, each};
use crate::report::{self, Cell, Goal, Plot, Sheet, Strip, Strips, Survey, Table, Tone};
use punctual_core::store::Store;
use punctual_measure::raw::postgres::Raw;
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const CLAIMERS: usize = 50;
/// Schedules that are due in each round.
const DUE: usize = 1_000;
/// The most slots in one claim.
const BATCH: usize = 100;
const ROUNDS: usize = 30;
/// Rounds before those that count: every connection meets its statements for the first time there, on both sides. Ten claims
/// take all there is in a round, and each of fifty is to have had its turn.
const FIRST_ROUNDS: usize = 12;
/// Raw SQL twice, and Punctual twice.
const SIDES: usize = 4;

/// What one round came to: slots a second, and the milliseconds of each claim that found something.
#[derive(Default)]
struct Measured {
    rates: Vec<f64>,
    claims: Vec<f64>,
}

/// Measures the section `claimers`.
pub fn run() -> Outcome<()> {
    let mut survey = Survey::begin()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let server = PrivateServer::start(true);
    runtime.block_on(async {
        let mut databases = Vec::new();
        for _ in 0..SIDES {
            databases.push(Database::empty_on(&server).await);
        }
        let mut many = Reference::open(&databases[0], CLAIMERS).await?;
        let mut few = Reference::open(&databases[1], PostgresOptions::default().pool_size).await?;
        let together = Ours::open(&databases[2], 1).await?;
        let apart = Ours::open(&databases[3], CLAIMERS).await?;
        survey.postgres(&server, &together.client).await?;
        let mut measured: [Measured; SIDES] = Default::default();
        for round in 0..FIRST_ROUNDS + ROUNDS {
            if round == FIRST_ROUNDS {
                measured = Default::default();
            }
            // By turns, so that neither is always the first.
            for at in 0..SIDES {
                match (round + at) % SIDES {
                    0 => many.round(&mut measured[0]).await?,
                    1 => few.round(&mut measured[1]).await?,
                    2 => together.round(round, &mut measured[2]).await?,
                    _ => apart.round(round, &mut measured[3]).await?,
                }
            }
        }
        for database in &databases {
            check_all_accounted_for(&database.connect().await).await?;
        }
        report::keep(sheet(&measured), survey)
    })
}

fn sheet([many, few, together, apart]: &[Measured; SIDES]) -> Sheet {
    let mut sheet = Sheet::new("claimers", "Fifty who fire at once", "claimers");
    sheet.say(format!(
        "{DUE} schedules are due, and {CLAIMERS} claimers take at most {BATCH} of their slots at a time until none is left: \
         the lock, the row of the ledger, the job, its place in the queue, and the next slot. {ROUNDS} rounds with new \
         schedules in each, in alternating order, after {FIRST_ROUNDS} that do not count. Punctual plays twice: the claimers of \
         one program share the {pool} connections of its store; and with a store for each, as in as many programs, none knows \
         of the others. So does raw SQL, with as many claimers as one store has connections and with a connection for each; \
         the reference of one program is the faster of both, that of many the latter.",
        pool = PostgresOptions::default().pool_size
    ));
    let raw = if median(&many.rates) > median(&few.rates) { many } else { few };
    for (ours, raw, how) in [(together, raw, "in one program"), (apart, many, "each in a program of its own")] {
        let ratios: Vec<f64> = ours.rates.iter().zip(&raw.rates).map(|(ours, raw)| ours / raw).collect();
        sheet.answer(Goal::SlotsAgainstRaw, &format!("1,000 due and 50 claimers, {how}"), median(&ratios));
        sheet.answer_beside_raw(Goal::SlotsPerSecond, how, median(&ours.rates), median(&raw.rates));
        let tails = [ours, raw].map(|side| percentile(&side.claims, 99));
        sheet.answer_beside_raw(Goal::SlotClaimTail, how, tails[0], tails[1]);
    }
    let mut table = Table::new("", ["who", "slots/s", "middle half", "a claim, p50 ms", "p99 ms"]);
    let mut rows = Vec::new();
    let sides = [
        ("raw SQL, 50 connections", Tone::Raw, many),
        ("raw SQL, those of a pool", Tone::Raw, few),
        ("Punctual, one program", Tone::Ours, together),
        ("Punctual, 50 programs", Tone::Ours, apart),
    ];
    for (who, tone, side) in sides {
        let times = (median(&side.claims), percentile(&side.claims, 99));
        table.row([
            Cell::words(who),
            Cell::number(median(&side.rates), 0),
            Cell::range(middle_half(&side.rates), 0),
            Cell::number(times.0, 1),
            Cell::number(times.1, 1),
        ]);
        rows.push(Strip::new(who, tone, times, None));
    }
    sheet.tables.push(table);
    let title = "One claim of slots among fifty claimers".to_owned();
    sheet.plots.push(Plot::Strips(Strips { title, unit: "ms".to_owned(), digits: 1, rows, marks: Vec::new() }));
    sheet
}

/// Every slot was fired once, and has one job.
async fn check_all_accounted_for(client: &Client) -> Outcome<()> {
    let sql = "SELECT (SELECT count(*) FROM punctual_internal.slots WHERE decision = 'fired'),
               (SELECT count(DISTINCT schedule_id) FROM punctual_internal.jobs), (SELECT count(*) FROM punctual_internal.jobs)";
    let row = client.query_one(sql, &[]).await?;
    let found: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
    let all = (FIRST_ROUNDS + ROUNDS) * DUE;
    if found == [i64::try_from(all)?; 3] {
        return Ok(());
    }
    Err(format!("slots, schedules that fired, and jobs were to be {all}: {found:?}").into())
}

/// Claims until nothing is left; gives back who claimed, and how long each claim took.
async fn claim_all<C, F>(claimers: Vec<C>, measured: &mut Measured, claim: impl Fn(C) -> F) -> Outcome<Vec<C>>
where
    C: Send + 'static,
    F: Future<Output = Result<(C, usize), String>> + Send + 'static,
{
    let began = Instant::now();
    let mut at_it = tokio::task::JoinSet::new();
    let timed = |claimer: C| {
        let claimed = claim(claimer);
        async move {
            let asked = Instant::now();
            claimed.await.map(|(claimer, slots)| (claimer, slots, asked.elapsed()))
        }
    };
    for claimer in claimers {
        at_it.spawn(timed(claimer));
    }
    let (mut done, mut slots, mut last) = (Vec::new(), 0, Duration::ZERO);
    while let Some(ended) = at_it.join_next().await {
        let (claimer, some, took) = ended??;
        if some == 0 {
            done.push(claimer);
            continue;
        }
        slots += some;
        last = began.elapsed();
        measured.claims.push(took.as_secs_f64() * 1000.0);
        at_it.spawn(timed(claimer));
    }
    if slots != DUE {
        return Err(format!("{DUE} slots were due, and {slots} were claimed").into());
    }
    measured.rates.push(each(slots) / last.as_secs_f64());
    Ok(done)
}

struct Ours {
    stores: Vec<Arc<dyn Store>>,
    client: Client,
}

impl Ours {
    async fn open(database: &Database, programs: usize) -> Outcome<Self> {
        let usual = PostgresOptions::default();
        // Where there is one claimer one connection fires, which has to be one that a store gets ready.
        let options = PostgresOptions { pool_size: if programs == 1 { usual.pool_size } else { 3 }, ..usual };
        let mut stores: Vec<Arc<dyn Store>> = Vec::new();
        while stores.len() < programs {
            let store = PostgresStore::connect(&database.url(), options.clone()).await?;
            // As an idle node has it do; the reference has its statements prepared, too.
            store.warm_up().await?;
            stores.push(Arc::new(store));
        }
        Ok(Self { stores, client: database.connect().await })
    }

    async fn round(&self, round: usize, measured: &mut Measured) -> Outcome<()> {
        let prefix = format!("round {round}, ");
        load::make_schedules(&self.stores[0], &prefix, DUE).await?;
        let back = "WITH made AS (
                      UPDATE punctual_internal.schedules SET created_at = created_at - interval '1 hour'
                      WHERE starts_with(name, $1) RETURNING id)
                    UPDATE punctual_internal.schedule_state SET next_slot_at = next_slot_at - interval '1 hour',
                      next_run_at = next_run_at - interval '1 hour'
                    WHERE schedule_id IN (SELECT id FROM made)";
        self.client.execute(back, &[&prefix]).await?;
        let claimers = self.stores.iter().cycle().take(CLAIMERS).cloned().collect();
        claim_all(claimers, measured, |store| async move {
            let fired = store.fire_due(None, BATCH).await.map_err(|error| error.to_string())?;
            Ok((store, fired.jobs.len()))
        })
        .await?;
        Ok(())
    }
}

struct Reference(Vec<Raw>);

impl Reference {
    async fn open(database: &Database, count: usize) -> Outcome<Self> {
        // The store makes the tables.
        PostgresStore::connect(&database.url(), PostgresOptions::default()).await?;
        let mut claimers = vec![Raw::open(database.connect().await).await?];
        while claimers.len() < count {
            claimers.push(claimers[0].beside(database.connect().await).await?);
        }
        Ok(Self(claimers))
    }

    async fn round(&mut self, measured: &mut Measured) -> Outcome<()> {
        self.0[0].make_due_schedules(DUE).await?;
        let claimers = std::mem::take(&mut self.0);
        self.0 = claim_all(claimers, measured, |mut raw| async move {
            let slots = raw.fire(BATCH).await.map_err(|error| error.to_string())?;
            Ok((raw, slots))
        })
        .await?;
        Ok(())
    }
}
