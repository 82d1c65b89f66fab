//! Times of all rounds together, of which percentiles are taken; each round's own only say how far these lay apart.

use super::arena::Arena;
use super::player::{RAW, Settings};
use super::verdicts::{Line, Lines, extremes, ratio_of};
use crate::figures::percentile;
use crate::load::each;
use crate::report::{Cell, Plot, Strip, Strips, Table};

/// With fewer times nobody knows what one in a hundred exceeds.
const LEAST_FOR_TAIL: usize = 100;
/// What is shown of them.
pub const MIDDLE: usize = 50;
pub const TAIL: usize = 99;

/// The times of one player with one of its settings.
struct Pool {
    player: usize,
    settings: Settings,
    rounds: Vec<Vec<f64>>,
}

/// Those of all.
pub struct Pools(Vec<Pool>);

impl Pool {
    /// What so many of a hundred of all times do not exceed.
    fn at(&self, percent: usize) -> f64 {
        let all = self.rounds.concat();
        if percent > MIDDLE && all.len() < LEAST_FOR_TAIL { f64::NAN } else { percentile(&all, percent) }
    }

    /// The least and the most of the rounds.
    fn spread(&self, percent: usize) -> (f64, f64) {
        let of_rounds: Vec<f64> = self.rounds.iter().map(|times| percentile(times, percent)).collect();
        if self.at(percent).is_finite() { extremes(&of_rounds) } else { (f64::NAN, f64::NAN) }
    }

    /// The same value as a line of its own.
    fn line(&self, percent: usize) -> Line {
        let value = self.at(percent);
        let values = if value.is_finite() { vec![value] } else { Vec::new() };
        Line { player: self.player, settings: self.settings, values }
    }
}

impl Pools {
    pub fn new(entries: &[(usize, Settings)]) -> Self {
        let empty =
            |(player, settings): &(usize, Settings)| Pool { player: *player, settings: *settings, rounds: Vec::new() };
        Self(entries.iter().map(empty).collect())
    }

    /// Adds the times of a round.
    pub fn add(&mut self, entry: usize, times: Vec<f64>) {
        self.0[entry].rounds.push(times);
    }

    /// One value for each with its best settings: what the table shows, so that ratios are those of what it shows. A tail
    /// of many times is not compared with that of a few, which those have that play with settings as they come.
    pub fn best_settings_at(&self, percent: usize) -> Lines {
        let best = self.0.iter().filter(|pool| pool.settings == Settings::Best);
        Lines(best.map(|pool| pool.line(percent)).collect())
    }

    /// Both percentiles with their spreads, and as ratios to raw SQL; `beside` is how many jobs a second came beside.
    pub fn table(&self, arena: &Arena, beside: Option<&[usize]>) -> Table {
        let heads = [
            "who",
            "settings",
            "p50, ms",
            "least to most",
            "p99, ms",
            "least to most",
            "p50 of raw SQL",
            "p99 of raw SQL",
            "times",
        ];
        let mut table = Table::new("", heads);
        table.columns.extend(beside.map(|_| "jobs/s beside".to_owned()));
        let raw = self.0.iter().find(|pool| arena.players[pool.player].name == RAW);
        for (at, pool) in self.0.iter().enumerate() {
            let player = &arena.players[pool.player];
            let settings = if player.has_one_setting() { "" } else { pool.settings.word() };
            let mut cells = vec![Cell::words(player.title()), Cell::words(settings)];
            for percent in [MIDDLE, TAIL] {
                cells.extend([Cell::number(pool.at(percent), 2), Cell::range(pool.spread(percent), 2)]);
            }
            for percent in [MIDDLE, TAIL] {
                let raw = raw.map(|raw| raw.line(percent));
                cells.push(Cell::number(ratio_of(Some(&pool.line(percent)), raw.as_ref()), 2));
            }
            cells.push(Cell::number(each(pool.rounds.concat().len()), 0));
            cells.extend(beside.map(|rates| Cell::number(each(rates[at]), 0)));
            table.row(cells);
        }
        table
    }

    /// Those that have both percentiles.
    pub fn plot(&self, arena: &Arena, title: &str) -> Plot {
        let with_tail = self.0.iter().filter(|pool| pool.at(TAIL).is_finite());
        let strip = |pool: &Pool| {
            let player = &arena.players[pool.player];
            let (times, spreads) = ((pool.at(MIDDLE), pool.at(TAIL)), [pool.spread(MIDDLE), pool.spread(TAIL)]);
            Strip::new(player.label(pool.settings), player.tone(pool.settings), times, Some(spreads))
        };
        let mut rows: Vec<Strip> = with_tail.map(strip).collect();
        rows.sort_by(|one, other| one.p50.total_cmp(&other.p50));
        Plot::Strips(Strips { title: title.to_owned(), unit: "ms".to_owned(), digits: 1, rows, marks: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(rounds: &[&[f64]]) -> Pool {
        Pool { player: 0, settings: Settings::Best, rounds: rounds.iter().map(|times| times.to_vec()).collect() }
    }

    #[test]
    fn percentiles_are_those_of_all_rounds_and_spreads_those_of_each() {
        let (fast, slow) = (vec![1.0; 199], vec![9.0; 2]);
        let both = pool(&[&fast, &slow]);
        assert_eq!((both.at(50).to_bits(), both.at(99).to_bits()), (1.0_f64.to_bits(), 1.0_f64.to_bits()));
        assert_eq!(both.spread(99), (1.0, 9.0));
    }

    #[test]
    fn fewer_than_a_hundred_times_have_no_tail() {
        let few = pool(&[&[2.0; 60], &[3.0; 39]]);
        assert!(few.at(TAIL).is_nan() && few.spread(TAIL).0.is_nan() && few.line(TAIL).values.is_empty());
        assert_eq!((few.at(MIDDLE).to_bits(), few.spread(MIDDLE)), (2.0_f64.to_bits(), (2.0, 3.0)));
        assert!(pool(&[&[2.0; 60], &[3.0; 40]]).at(TAIL).is_finite());
    }
}
