//! What an old transaction costs that keeps every dead row from being removed, and how soon that is over after it.

use super::Growing;
use super::side::{Place, Side};
use crate::figures::{median, middle_half, percentile};
use crate::load::{self, BATCH, Outcome};
use crate::report::{Cell, Goal, Plot, Sheet, Strip, Strips, Survey, Table, Tone, spelled};
use punctual_core::checks::Check;
use punctual_testkit::postgres::PrivateServer;
use std::time::{Duration, Instant};

/// Claims of one job, for their times.
const CLAIMS: usize = 400;
/// Batches claimed and finished on each side while the snapshot is pinned.
const BATCHES: usize = 40;
/// Claims that tell whether it is over.
const PROBES: usize = 20;
/// Rows that died and cannot be removed while a snapshot is pinned.
const DEAD: usize = 80_000;
/// A claim in the middle that takes at most this many times as long as the other side's is back to normal.
const NORMAL: f64 = 1.5;
/// When waiting for that is given up.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a snapshot is pinned at least before it is asked for alarms: a little longer than the minute from which on
/// the store calls one old.
const PINNED: Duration = Duration::from_secs(61);
/// Findings of each kind that a look for trouble tells.
const FINDINGS: usize = 10;

/// Compares a database in which a snapshot is pinned with one on the same server in which none is: a snapshot holds on
/// to the rows of its own database only.
pub async fn measure(server: &PrivateServer, most: i64, sheet: &mut Sheet, survey: &mut Survey) -> Outcome<()> {
    let place = Place::Postgres(server);
    let mut sides = [Side::open(place, survey).await?, Side::open(place, survey).await?];
    let dead = DEAD.min(usize::try_from(most)?) / BATCH * BATCH;
    eprintln!("{}: {dead} dead rows that are pinned", place.name());
    let pin = sides[1].another_connection().await?;
    pin.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM punctual_internal.queue").await?;
    let pinned = Instant::now();
    for side in &mut sides {
        churn(side, dead).await?;
    }
    let during = claim_times(&mut sides, CLAIMS).await?;
    let rates = rates(&mut sides).await?;
    tokio::time::sleep(PINNED.saturating_sub(pinned.elapsed())).await;
    let alarms = alarms(&sides).await?;
    pin.batch_execute("ROLLBACK").await?;
    let recovered = recovery(&mut sides).await?;
    let after = claim_times(&mut sides, CLAIMS).await?;
    for side in &sides {
        side.check_all_accounted_for().await?;
    }
    tell(sheet, dead, &[("while it is pinned", during), ("afterwards", after)], (alarms, recovered));
    tell_rates(sheet, &rates);
    Ok(())
}

/// Rows that come and go.
async fn churn(side: &mut Side, rows: usize) -> Outcome<()> {
    for _ in 0..rows / BATCH {
        side.enqueue(BATCH).await?;
        side.claim_and_finish(BATCH).await?;
    }
    Ok(())
}

/// How many jobs a second go through both sides in batches, in alternating order.
async fn rates(sides: &mut [Side; 2]) -> Outcome<[Vec<f64>; 2]> {
    let mut rates = [Vec::new(), Vec::new()];
    for turn in 0..BATCHES {
        for at in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
            rates[at].push(sides[at].turn(Growing::Depth).await?);
        }
    }
    Ok(rates)
}

/// Old snapshots that the store tells of on the side with the pin; none, if it tells of one on the other side as well.
async fn alarms(sides: &[Side; 2]) -> Outcome<usize> {
    let mut found = [0; 2];
    for (side, found) in sides.iter().zip(&mut found) {
        let findings = side.store.run_checks(FINDINGS).await?;
        *found = findings.iter().filter(|finding| finding.check == Check::OldSnapshot).count();
    }
    let [free, pinned] = found;
    Ok(if free == 0 { pinned } else { 0 })
}

/// Seconds until a claim takes as long as on the other side; nothing but time and claims helps.
async fn recovery(sides: &mut [Side; 2]) -> Outcome<f64> {
    let began = Instant::now();
    loop {
        let [free, held] = claim_times(sides, PROBES).await?;
        if median(&held) <= NORMAL * median(&free) || began.elapsed() > PATIENCE {
            return Ok(began.elapsed().as_secs_f64());
        }
    }
}

/// Milliseconds that claims of one job took on both sides, in alternating order.
async fn claim_times(sides: &mut [Side; 2], claims: usize) -> Outcome<[Vec<f64>; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for turn in 0..claims {
        for at in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
            let side = &mut sides[at];
            side.enqueue(1).await?;
            let started = Instant::now();
            let claimed = load::claim(&side.store, side.node, 1).await?;
            times[at].push(started.elapsed().as_secs_f64() * 1000.0);
            side.finished(&claimed).await?;
        }
    }
    Ok(times)
}

fn tell(sheet: &mut Sheet, dead: usize, times: &[(&str, [Vec<f64>; 2]); 2], (alarms, recovered): (usize, f64)) {
    let dead = spelled(load::each(dead), 0);
    let title = format!("A claim of one job while a snapshot pins {dead} dead rows");
    let heads = ["milliseconds", "free p50", "pinned p50", "free p99", "pinned p99", "ratio p99"];
    let mut table = Table::new(&format!("{title}, {CLAIMS} in alternating order:"), heads);
    let mut rows = Vec::new();
    for (when, [free, held]) in times {
        let both = |times: &[f64]| (median(times), percentile(times, 99));
        let ((free50, free99), (held50, held99)) = (both(free), both(held));
        let numbers = [free50, held50, free99, held99].map(|time| Cell::number(time, 2));
        let ratio = held99 / free99;
        table.row(std::iter::once(Cell::words(*when)).chain(numbers).chain([Cell::number(ratio, 1)]));
        rows.push(Strip::new(format!("free, {when}"), Tone::Raw, (free50, free99), None));
        rows.push(Strip::new(format!("pinned, {when}"), Tone::Ours, (held50, held99), None));
        if when.starts_with("while") {
            sheet.answer(Goal::PinnedClaimTail, "", ratio);
        }
    }
    table.note = format!(
        "Claims were back to normal {} s after the transaction had ended, without a vacuum by hand. Alarms that were \
         raised about it ({}) on this side and not on the other: {alarms}.",
        spelled(recovered, 1),
        Check::OldSnapshot
    );
    sheet.answer(Goal::PinnedAlarm, "", load::each(alarms));
    sheet.answer(Goal::PinnedRecovery, "", recovered);
    sheet.tables.push(table);
    sheet.plots.push(Plot::Strips(Strips { title, unit: "ms".to_owned(), digits: 2, rows, marks: Vec::new() }));
}

fn tell_rates(sheet: &mut Sheet, [free, held]: &[Vec<f64>; 2]) {
    let ratios: Vec<f64> = held.iter().zip(free).map(|(held, free)| held / free).collect();
    let words = format!("The same in batches of {BATCH} claimed and finished, {BATCHES} in alternating order:");
    let mut table = Table::new(&words, ["jobs a second", "free", "pinned", "ratio", "middle half"]);
    let numbers = [(median(free), 0), (median(held), 0), (median(&ratios), 2)];
    let numbers = numbers.map(|(value, digits)| Cell::number(value, digits));
    let cells = std::iter::once(Cell::words("while it is pinned")).chain(numbers);
    table.row(cells.chain([Cell::range(middle_half(&ratios), 2)]));
    sheet.tables.push(table);
}
