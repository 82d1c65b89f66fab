//! Drawings as SVG: readable in light and in dark, by people who see them and by those who hear them.

mod bars;
mod lines;
mod pen;
mod scale;
mod strips;
#[cfg(test)]
mod tests;

use super::plot::Plot;

/// The whole file.
pub fn draw(plot: &Plot) -> String {
    match plot {
        Plot::Bars(bars) => bars::draw(bars),
        Plot::Lines(lines) => lines::draw(lines),
        Plot::Strips(strips) => strips::draw(strips),
    }
}
