//! Times as strips from the middle to what one in a hundred exceeds.

use super::pen::{self, Anchor, EDGE, LINE, Pen, WIDTH, class};
use super::scale::{Scale, is_far_apart};
use crate::report::number::{spelled, with_unit};
use crate::report::plot::{Strip, Strips};

const ROW: f64 = 28.0;
/// The most that labels may take of the width.
const LABELS: f64 = 250.0;

/// Draws them.
pub fn draw(plot: &Strips) -> String {
    let mut pen = Pen::default();
    let is_log = is_far_apart(plot.rows.iter().flat_map(|strip| [strip.p50, strip.p99]));
    let factors = if is_log { "; each step is a factor" } else { "" };
    let below = format!("{}, ● the middle and ○ what one in a hundred exceeds{factors}", plot.unit);
    let mut y = pen::heading(&mut pen, &plot.title, &below) + 2.0;
    y += pen.legend(&pen::tones(plot.rows.iter().map(|strip| strip.tone)), y);
    if plot.rows.is_empty() {
        pen.text((EDGE, y + LINE), "quiet", Anchor::Start, "nothing was measured");
        return pen.finish(y + 2.0 * LINE + EDGE, &plot.title, "Nothing was measured.");
    }
    let words = |strip: &Strip| format!("{} / {}", spelled(strip.p50, plot.digits), spelled(strip.p99, plot.digits));
    let labels = plot.rows.iter().flat_map(|strip| pen::wrapped(&strip.label, LABELS));
    let left = EDGE + labels.map(|line| pen::width(&line)).fold(0.0, f64::max) + 14.0;
    let right = WIDTH - EDGE - plot.rows.iter().map(|strip| pen::width(&words(strip))).fold(0.0, f64::max) - 14.0;
    let ends: Vec<f64> = plot.rows.iter().flat_map(ends).chain(plot.marks.iter().map(|mark| mark.value)).collect();
    let scale = if is_log {
        Scale::log_for_bars(ends.iter().copied().filter(|value| *value > 0.0), (left, right))
    } else {
        Scale::linear(ends.iter().copied(), (left, right))
    };
    let marks_at = y + LINE;
    y += LINE * f64::from(u32::try_from(plot.marks.len()).unwrap_or_default())
        + if plot.marks.is_empty() { 4.0 } else { 9.0 };
    let bottom = y + plot.rows.iter().map(height).sum::<f64>();
    for (value, words) in scale.ticks() {
        let x = scale.at(value);
        pen.line((x, y), (x, bottom), "grid");
        pen.text((x, bottom + LINE), "quiet", Anchor::Middle, &words);
    }
    pen.line((left, y), (left, bottom), "axis");
    pen.marks_across(&plot.marks, |value| scale.at(value), (marks_at, bottom));
    for strip in &plot.rows {
        let middle = y + height(strip) / 2.0;
        draw_strip(&mut pen, strip, &scale, middle);
        pen.text((WIDTH - EDGE, middle + 4.5), "", Anchor::End, &words(strip));
        y += height(strip);
    }
    pen.finish(bottom + LINE + EDGE, &plot.title, &told(plot))
}

fn draw_strip(pen: &mut Pen, strip: &Strip, scale: &Scale, middle: f64) {
    let lines = pen::wrapped(&strip.label, LABELS);
    let mut baseline = middle + 4.5 - LINE * (f64::from(u32::try_from(lines.len()).unwrap_or(1)) - 1.0) / 2.0;
    for line in &lines {
        pen.text((scale.at(0.0) - 8.0, baseline), "", Anchor::End, line);
        baseline += LINE;
    }
    let (from, to, tone) = (scale.at(strip.p50), scale.at(strip.p99), class(strip.tone));
    pen.bar((from, middle - 3.0), (to - from, 6.0), tone);
    for (low, high) in strip.spreads.into_iter().flatten() {
        pen.spread((scale.at(low), scale.at(high)), middle);
    }
    pen.dot((from, middle), 5.0, tone);
    pen.dot((to, middle), 4.0, &format!("{tone} hollow"));
}

fn height(strip: &Strip) -> f64 {
    let lines = u32::try_from(pen::wrapped(&strip.label, LABELS).len()).unwrap_or(1);
    ROW.max(LINE * f64::from(lines) + 8.0)
}

fn ends(strip: &Strip) -> impl Iterator<Item = f64> {
    let spreads = strip.spreads.into_iter().flatten().flat_map(|(low, high)| [low, high]);
    [strip.p50, strip.p99].into_iter().chain(spreads)
}

/// The same in words.
fn told(plot: &Strips) -> String {
    let words = plot.rows.iter().map(|strip| {
        let time = |value| with_unit(value, plot.digits, &plot.unit);
        format!("{}: p50 {}, p99 {}", strip.label, time(strip.p50), time(strip.p99))
    });
    format!("{}.", words.collect::<Vec<_>>().join("; "))
}
