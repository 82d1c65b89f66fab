//! From values to places: equal steps or factors, with round numbers along the way.

use crate::report::number::spelled;

/// Values that differ by more than this are shown in factors, or the small ones would not be seen.
const TOO_FAR_APART: f64 = 50.0;
/// About how many round numbers there are along an axis.
const STEPS: f64 = 5.0;
/// What is left for zero beside a logarithmic axis.
const ROOM_FOR_ZERO: f64 = 44.0;

/// Where each value is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    step: Option<f64>,
    from: f64,
    to: f64,
    zero: Option<f64>,
}

/// Whether values lie so far apart that only factors show them all.
pub fn is_far_apart(values: impl Iterator<Item = f64>) -> bool {
    let (least, most) = positive_ends(values);
    least.is_finite() && most / least > TOO_FAR_APART
}

fn positive_ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let positive = values.filter(|value| *value > 0.0 && value.is_finite());
    positive.fold((f64::INFINITY, 0.0), |(least, most), value| (value.min(least), value.max(most)))
}

impl Scale {
    /// From zero in equal steps, as far as the greatest value needs, between two places.
    pub fn linear(values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let (_, most) = positive_ends(values);
        let most = if most > 0.0 { most } else { 1.0 };
        let step = round_step(most / STEPS);
        // A value that is hair's breadth above a step needs no step of its own.
        let high = (most / step - 1e-9).ceil() * step;
        Self { low: 0.0, high, step: Some(step), from, to, zero: Some(from) }
    }

    /// In factors around all values; zero, if it is among them, gets a place before the others.
    pub fn log(values: impl Iterator<Item = f64> + Clone, (from, to): (f64, f64)) -> Self {
        let has_zero = values.clone().any(|value| value <= 0.0);
        let (least, most) = positive_ends(values);
        let (least, most) = if least.is_finite() { (least, most) } else { (1.0, 10.0) };
        let room = if to > from { ROOM_FOR_ZERO } else { -ROOM_FOR_ZERO };
        let start = if has_zero { from + room } else { from };
        let high = if most > least { most } else { least * 10.0 };
        Self { low: least, high, step: None, from: start, to, zero: has_zero.then_some(from) }
    }

    /// The same with a beginning so far below the least value that its bar has a length.
    pub fn log_for_bars(values: impl Iterator<Item = f64> + Clone, (from, to): (f64, f64)) -> Self {
        let (least, most) = positive_ends(values);
        let (least, most) = if least.is_finite() { (least, most) } else { (1.0, 10.0) };
        let below = least / 1.5;
        let decade = 10_f64.powf(below.log10().floor());
        let low = [5.0, 2.0, 1.0].map(|factor| factor * decade).into_iter().find(|low| *low <= below).unwrap_or(decade);
        Self { low, high: most.max(low * 10.0), step: None, from, to, zero: Some(from) }
    }

    /// Where a value is.
    pub fn at(&self, value: f64) -> f64 {
        let share = match self.step {
            Some(_) => value / self.high,
            None if value < self.low => return self.zero.unwrap_or(self.from),
            None => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Round numbers along the way, each with its words.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let values = match self.step {
            Some(step) => (0_u32..=50).map(|n| f64::from(n) * step).take_while(|at| *at <= self.high * 1.001).collect(),
            None => self.factors(),
        };
        values.into_iter().map(|value| (value, short(value))).collect()
    }

    /// Powers of ten, and what lies between if there are few.
    fn factors(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let between: &[f64] = if decades < 1.5 {
            &[1.0, 2.0, 5.0]
        } else if decades < 3.0 {
            &[1.0, 3.0]
        } else {
            &[1.0]
        };
        let mut values = Vec::new();
        if self.zero.is_some_and(|zero| (zero - self.from).abs() > 1.0) {
            values.push(0.0);
        }
        let mut decade = 10_f64.powf(self.low.log10().floor());
        while decade <= self.high {
            values.extend(
                between
                    .iter()
                    .map(|factor| factor * decade)
                    .filter(|value| (self.low * 0.999..=self.high * 1.001).contains(value)),
            );
            decade *= 10.0;
        }
        values
    }
}

/// The next of 1, 2, 2.5 and 5 times a power of ten.
pub fn round_step(about: f64) -> f64 {
    let decade = 10_f64.powf(about.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| factor * decade >= about * 0.999).unwrap_or(10.0);
    factor * decade
}

/// A number for an axis: `0.2`, `25`, `10 k`, `2.5 M`.
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 0.999_999e6 => (value / 1e6, " M"),
        size if size >= 0.999_999e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = (0..6).find(|digits| {
        let rounded: f64 = format!("{scaled:.*}", usize::from(*digits)).parse().unwrap_or(scaled);
        (rounded - scaled).abs() <= scaled.abs() * 1e-6
    });
    format!("{}{unit}", spelled(scaled, digits.unwrap_or(6)))
}
