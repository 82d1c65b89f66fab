//! From what everybody reached in each round to medians, spreads, and ratios within the same rounds.

use super::arena::Arena;
use super::player::{OURS, RAW, Settings};
use crate::figures::median;
use crate::report::{Bar, Bars, Cell, Group, Plot, Table};
use std::collections::BTreeSet;

/// What one player reached with one of its settings, a value for each round.
#[derive(Debug, Clone)]
pub struct Line {
    pub player: usize,
    pub settings: Settings,
    pub values: Vec<f64>,
}

/// All of them.
#[derive(Debug, Clone)]
pub struct Lines(pub Vec<Line>);

impl Line {
    fn has_played(&self) -> bool {
        median(&self.values).is_finite()
    }
}

impl Lines {
    pub fn new(entries: &[(usize, Settings)]) -> Self {
        Self(
            entries
                .iter()
                .map(|(player, settings)| Line { player: *player, settings: *settings, values: Vec::new() })
                .collect(),
        )
    }

    pub fn add(&mut self, entry: usize, value: f64) {
        self.0[entry].values.push(value);
    }

    /// The better of a player's settings.
    pub fn best_of(&self, arena: &Arena, name: &str, more_is_better: bool) -> Option<&Line> {
        self.best_among(arena, &[name], more_is_better)
    }

    /// The best of several players.
    pub fn best_among(&self, arena: &Arena, names: &[&str], more_is_better: bool) -> Option<&Line> {
        self.best(more_is_better, |line| names.contains(&arena.players[line.player].name.as_str()))
    }

    /// The best of the peers that are meant.
    pub fn best_peer(&self, arena: &Arena, more_is_better: bool, is_meant: impl Fn(&str) -> bool) -> Option<&Line> {
        self.best(more_is_better, |line| {
            let player = &arena.players[line.player];
            player.is_peer() && is_meant(player.keeps())
        })
    }

    /// What is known here of the same player with the same settings as in another collection.
    pub fn same_as(&self, other: Option<&Line>) -> Option<&Line> {
        let other = other?;
        self.0.iter().find(|line| (line.player, line.settings) == (other.player, other.settings))
    }

    /// Who the best peer is, and among how many that have a figure.
    pub fn named(&self, arena: &Arena, peer: Option<&Line>) -> String {
        let Some(peer) = peer else { return String::new() };
        let with_figures = self.0.iter().filter(|line| line.has_played()).map(|line| line.player);
        let peers = with_figures.filter(|at| arena.players[*at].is_peer()).collect::<BTreeSet<usize>>().len();
        let others = if peers == 1 { "the only one that played".to_owned() } else { format!("of {peers} that played") };
        format!("{}, {others}", arena.players[peer.player].name)
    }

    fn best(&self, more_is_better: bool, is_meant: impl Fn(&Line) -> bool) -> Option<&Line> {
        let by_median = |one: &&Line, other: &&Line| median(&one.values).total_cmp(&median(&other.values));
        let lines = self.0.iter().filter(|line| is_meant(line) && line.has_played());
        if more_is_better { lines.max_by(by_median) } else { lines.min_by(by_median) }
    }

    /// The median of the rounds' ratios of ours to another one.
    pub fn ours_against(&self, arena: &Arena, other: Option<&Line>, more_is_better: bool) -> f64 {
        ratio_of(self.best_of(arena, OURS, more_is_better), other)
    }

    /// The same of raw SQL: what a goal that names this other one asks of the database.
    pub fn raw_against(&self, arena: &Arena, other: Option<&Line>, more_is_better: bool) -> f64 {
        ratio_of(self.best_of(arena, RAW, more_is_better), other)
    }

    /// A table with medians, spreads, and the ratio to the reference, which `more` columns can be added to.
    pub fn table(&self, arena: &Arena, unit: &str, digits: u8, more: &[(&str, u8, &Self)]) -> Table {
        let mut table = Table::new("", ["who", "settings", unit, "least to most", "of raw SQL"]);
        table.columns.extend(more.iter().map(|(words, _, _)| (*words).to_owned()));
        let raw = self.0.iter().find(|line| arena.players[line.player].name == RAW);
        for (at, line) in self.0.iter().enumerate() {
            let player = &arena.players[line.player];
            let settings = if player.has_one_setting() { "" } else { line.settings.word() };
            let mut cells = vec![
                Cell::words(player.title()),
                Cell::words(settings),
                Cell::number(median(&line.values), digits),
                Cell::range(extremes(&line.values), digits),
                Cell::number(ratio_of(Some(line), raw), 3),
            ];
            cells.extend(more.iter().map(|(_, digits, lines)| Cell::number(median(&lines.0[at].values), *digits)));
            table.row(cells);
        }
        table
    }

    pub fn plot(&self, arena: &Arena, title: &str, unit: &str, digits: u8) -> Plot {
        let bars = self.0.iter().filter(|line| line.has_played()).map(|line| {
            let player = &arena.players[line.player];
            let (value, spread) = (median(&line.values), extremes(&line.values));
            Bar::new(player.label(line.settings), player.tone(line.settings), value, Some(spread))
        });
        let mut bars: Vec<Bar> = bars.collect();
        bars.sort_by(|one, other| other.value.total_cmp(&one.value));
        let groups = vec![Group { name: String::new(), bars }];
        Plot::Bars(Bars { title: title.to_owned(), unit: unit.to_owned(), digits, groups, marks: Vec::new() })
    }
}

/// The median of the rounds' ratios; no number if one of the two has not played.
pub fn ratio_of(one: Option<&Line>, other: Option<&Line>) -> f64 {
    let (Some(one), Some(other)) = (one, other) else { return f64::NAN };
    let ratios: Vec<f64> = one.values.iter().zip(&other.values).map(|(one, other)| one / other).collect();
    median(&ratios)
}

/// The least and the most.
pub fn extremes(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (least, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(player: usize, values: &[f64]) -> Line {
        Line { player, settings: Settings::Best, values: values.to_vec() }
    }

    #[test]
    fn a_ratio_is_that_within_the_rounds() {
        let (ours, raw) = (line(0, &[90.0, 9.0, 60.0]), line(1, &[100.0, 10.0, 50.0]));
        assert!((ratio_of(Some(&ours), Some(&raw)) - 0.9).abs() < 1e-9);
        assert!(ratio_of(Some(&ours), None).is_nan() && ratio_of(Some(&ours), Some(&line(1, &[]))).is_nan());
    }

    #[test]
    fn what_somebody_cost_is_that_of_the_settings_with_which_it_was_fast() {
        let costs = Lines(vec![line(0, &[1.0]), Line { settings: Settings::Default, ..line(0, &[2.0]) }]);
        let fast = Line { settings: Settings::Default, ..line(0, &[7.0]) };
        assert_eq!(costs.same_as(Some(&fast)).map(|line| line.values.clone()), Some(vec![2.0]));
        assert!(costs.same_as(None).is_none() && costs.same_as(Some(&line(5, &[7.0]))).is_none());
    }
}
