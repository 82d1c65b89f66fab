//! From what everybody reached in each round to medians, spreads, and ratios within the same rounds.

use super::arena::{Arena, OURS, RAW, Settings};
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

    /// Without those that play with settings as they come.
    pub fn of_best_settings(&self) -> Self {
        Self(self.0.iter().filter(|line| line.settings == Settings::Best).cloned().collect())
    }

    /// The better of a player's settings.
    pub fn best_of(&self, arena: &Arena, name: &str, more_is_better: bool) -> Option<&Line> {
        self.best(more_is_better, |line| arena.players[line.player].name == name)
    }

    /// The best of the peers that are meant.
    pub fn best_peer(&self, arena: &Arena, more_is_better: bool, is_meant: impl Fn(&str) -> bool) -> Option<&Line> {
        self.best(more_is_better, |line| {
            let player = &arena.players[line.player];
            player.is_peer() && is_meant(player.keeps())
        })
    }

    /// Who the best peer is, and among how many.
    pub fn named(&self, arena: &Arena, peer: Option<&Line>) -> String {
        let Some(peer) = peer else { return String::new() };
        let played: BTreeSet<usize> = self.0.iter().map(|line| line.player).collect();
        let peers = played.into_iter().filter(|at| arena.players[*at].is_peer()).count();
        let others = if peers == 1 { "the only one that played".to_owned() } else { format!("of {peers} that played") };
        format!("{}, {others}", arena.players[peer.player].name)
    }

    fn best(&self, more_is_better: bool, is_meant: impl Fn(&Line) -> bool) -> Option<&Line> {
        let by_median = |one: &&Line, other: &&Line| median(&one.values).total_cmp(&median(&other.values));
        let lines = self.0.iter().filter(|line| is_meant(line) && median(&line.values).is_finite());
        if more_is_better { lines.max_by(by_median) } else { lines.min_by(by_median) }
    }

    /// The median of the rounds' ratios of ours to another one.
    pub fn ours_against(&self, arena: &Arena, other: Option<&Line>, more_is_better: bool) -> f64 {
        match (self.best_of(arena, OURS, more_is_better), other) {
            (Some(ours), Some(other)) => ratio(ours, other),
            _ => f64::NAN,
        }
    }

    /// The same of raw SQL: what a goal that names this other one asks of the database.
    pub fn raw_against(&self, arena: &Arena, other: Option<&Line>, more_is_better: bool) -> f64 {
        self.best_of(arena, RAW, more_is_better).zip(other).map_or(f64::NAN, |(raw, other)| ratio(raw, other))
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
                raw.map_or(Cell::Nothing, |raw| Cell::number(ratio(line, raw), 3)),
            ];
            cells.extend(more.iter().map(|(_, digits, lines)| Cell::number(median(&lines.0[at].values), *digits)));
            table.row(cells);
        }
        table
    }

    pub fn plot(&self, arena: &Arena, title: &str, unit: &str, digits: u8) -> Plot {
        let bars = self.0.iter().map(|line| {
            let player = &arena.players[line.player];
            let settings = if player.has_one_setting() { String::new() } else { format!(", {}", line.settings.word()) };
            let (value, spread) = (median(&line.values), extremes(&line.values));
            Bar::new(format!("{}{settings}", player.title()), player.tone(line.settings), value, Some(spread))
        });
        let mut bars: Vec<Bar> = bars.collect();
        bars.sort_by(|one, other| other.value.total_cmp(&one.value));
        let groups = vec![Group { name: String::new(), bars }];
        Plot::Bars(Bars { title: title.to_owned(), unit: unit.to_owned(), digits, groups, marks: Vec::new() })
    }
}

/// The median of the rounds' ratios.
pub fn ratio(one: &Line, other: &Line) -> f64 {
    let ratios: Vec<f64> = one.values.iter().zip(&other.values).map(|(one, other)| one / other).collect();
    median(&ratios)
}

/// The least and the most.
pub fn extremes(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (least, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}
