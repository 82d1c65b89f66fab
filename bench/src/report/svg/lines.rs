//! Lines through points: what becomes of a value while something grows.

use super::pen::{self, Anchor, EDGE, LINE, Pen, WIDTH, class};
use super::scale::{Scale, short};
use crate::report::plot::{Line, Lines};

const HEIGHT: f64 = 260.0;
/// Lines of the same tone are told apart by these.
const DASHES: [&str; 4] = ["", "7 4", "2 4", "9 3 2 3"];

/// Draws them.
pub fn draw(plot: &Lines) -> String {
    let mut pen = Pen::default();
    let mut y = pen::heading(&mut pen, &plot.title, "") + 2.0;
    let styled = styled(&plot.series);
    y += legend(&mut pen, &styled, y);
    let points = || plot.series.iter().flat_map(|line| line.points.iter().copied());
    if points().next().is_none() {
        pen.text((EDGE, y + LINE), "quiet", Anchor::Start, "nothing was measured");
        return pen.finish(y + 2.0 * LINE + EDGE, &plot.title, "Nothing was measured.");
    }
    pen.text((EDGE, y + 12.0), "quiet", Anchor::Start, &plot.y.words);
    let (top, bottom) = (y + LINE + 10.0, y + LINE + HEIGHT);
    let heights: Vec<f64> = points().map(|(_, y)| y).chain(plot.marks.iter().map(|mark| mark.value)).collect();
    let upwards = scale(plot.y.log, &heights, (bottom, top));
    let labels = upwards.ticks().iter().map(|(_, words)| pen::width(words)).fold(0.0, f64::max);
    let (left, right) = (EDGE + labels + 12.0, WIDTH - EDGE - 24.0);
    let sizes: Vec<f64> = points().map(|(x, _)| x).collect();
    let along = scale(plot.x.log, &sizes, (left + 14.0, right));
    for (value, words) in upwards.ticks() {
        let at = upwards.at(value);
        pen.line((left, at), (right, at), "grid");
        pen.text((left - 8.0, at + 4.0), "quiet", Anchor::End, &words);
    }
    for (value, words) in along.ticks() {
        let at = along.at(value);
        pen.line((at, bottom), (at, bottom + 5.0), "axis");
        pen.text((at, bottom + LINE + 4.0), "quiet", Anchor::Middle, &words);
    }
    pen.line((left, bottom), (right, bottom), "axis");
    pen.text((right, bottom + 2.0 * LINE + 6.0), "quiet", Anchor::End, &plot.x.words);
    for mark in &plot.marks {
        let at = upwards.at(mark.value);
        pen.line((left, at), (right, at), "mark");
        pen.text((right, at - 5.0), "markword", Anchor::End, &mark.words);
    }
    for (line, dashes) in &styled {
        let places: Vec<(f64, f64)> = line.points.iter().map(|(x, y)| (along.at(*x), upwards.at(*y))).collect();
        pen.joined(&places, class(line.tone), dashes);
        // Many points are a curve, few are measurements to be seen.
        if places.len() <= 24 {
            for place in places {
                pen.dot(place, 3.5, class(line.tone));
            }
        }
    }
    pen.finish(bottom + 2.0 * LINE + EDGE + 6.0, &plot.title, &told(plot))
}

fn scale(log: bool, values: &[f64], ends: (f64, f64)) -> Scale {
    let values = values.iter().copied();
    if log { Scale::log(values, ends) } else { Scale::linear(values, ends) }
}

/// Each line with its dashes: the first of a tone has none.
fn styled(lines: &[Line]) -> Vec<(&Line, &'static str)> {
    let earlier = |at: usize| lines[..at].iter().filter(|line| line.tone == lines[at].tone).count();
    lines.iter().enumerate().map(|(at, line)| (line, DASHES[earlier(at) % DASHES.len()])).collect()
}

/// A sample of each line with its name, in one row or more; says how high it is.
fn legend(pen: &mut Pen, lines: &[(&Line, &'static str)], top: f64) -> f64 {
    const SAMPLE: f64 = 30.0;
    if lines.is_empty() {
        return 0.0;
    }
    let (mut x, mut y) = (EDGE, top + 6.0);
    for (line, dashes) in lines {
        let width = SAMPLE + 6.0 + pen::width(&line.name) + 18.0;
        if x > EDGE && x + width > WIDTH - EDGE {
            (x, y) = (EDGE, y + LINE + 2.0);
        }
        pen.joined(&[(x, y), (x + SAMPLE, y)], class(line.tone), dashes);
        pen.dot((x + SAMPLE / 2.0, y), 3.5, class(line.tone));
        pen.text((x + SAMPLE + 6.0, y + 4.0), "quiet", Anchor::Start, &line.name);
        x += width;
    }
    y - top + LINE
}

/// The same in words: where each line begins and ends.
fn told(plot: &Lines) -> String {
    let words = plot.series.iter().filter_map(|line| {
        let ((x0, y0), (x1, y1)) = (line.points.first()?, line.points.last()?);
        let [x0, y0, x1, y1] = [x0, y0, x1, y1].map(|value| short(three_digits(*value)));
        Some(format!("{}: from {y0} at {x0} to {y1} at {x1}", line.name))
    });
    format!("{} over {}. {}.", plot.y.words, plot.x.words, words.collect::<Vec<_>>().join("; "))
}

/// What can be said aloud.
fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}
