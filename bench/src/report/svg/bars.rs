//! Horizontal bars in groups.

use super::pen::{self, Anchor, EDGE, LINE, Pen, WIDTH, class};
use super::scale::{Scale, is_far_apart};
use crate::report::number::{spelled, with_unit};
use crate::report::plot::{Bar, Bars, Group, Mark};

const BAR: f64 = 18.0;
const GAP: f64 = 6.0;
const BETWEEN_GROUPS: f64 = 12.0;
/// The most that labels may take of the width.
const LABELS: f64 = 250.0;

/// Draws them.
pub fn draw(plot: &Bars) -> String {
    let mut pen = Pen::default();
    let bars = || plot.groups.iter().flat_map(|group| &group.bars);
    let is_log = is_far_apart(bars().map(|bar| bar.value));
    let below = match (plot.unit.is_empty(), is_log) {
        (true, true) => "each step is a factor".to_owned(),
        (false, true) => format!("{}; each step is a factor", plot.unit),
        (_, false) => plot.unit.clone(),
    };
    let mut y = pen::heading(&mut pen, &plot.title, &below) + 2.0;
    y += pen.legend(&pen::tones(bars().map(|bar| bar.tone)), y);
    if bars().next().is_none() {
        pen.text((EDGE, y + LINE), "quiet", Anchor::Start, "nothing was measured");
        return pen.finish(y + 2.0 * LINE + EDGE, &plot.title, "Nothing was measured.");
    }
    let left = EDGE + bars().map(|bar| label_width(&bar.label)).fold(0.0, f64::max) + 10.0;
    let values = bars().map(|bar| pen::width(&spelled(bar.value, plot.digits)));
    let right = WIDTH - EDGE - values.fold(0.0, f64::max) - 10.0;
    let ends = bars().flat_map(|bar| [bar.value, bar.spread.map_or(0.0, |(_, high)| high)]);
    let ends: Vec<f64> = ends.chain(plot.marks.iter().map(|mark: &Mark| mark.value)).collect();
    let scale = if is_log {
        Scale::log_for_bars(ends.iter().copied().filter(|value| *value > 0.0), (left, right))
    } else {
        Scale::linear(ends.iter().copied(), (left, right))
    };
    let marks_at = y + LINE;
    y += LINE * count(plot.marks.len()) + if plot.marks.is_empty() { 4.0 } else { 9.0 };
    let bottom = y + plot.groups.iter().map(group_height).sum::<f64>();
    for (value, words) in scale.ticks() {
        let x = scale.at(value);
        pen.line((x, y), (x, bottom), "grid");
        pen.text((x, bottom + LINE), "quiet", Anchor::Middle, &words);
    }
    let (top, mut values_at) = (y, Vec::new());
    for group in &plot.groups {
        if !group.name.is_empty() {
            pen.text((EDGE, y + 13.0), "group", Anchor::Start, &group.name);
            y += LINE + 6.0;
        }
        for bar in &group.bars {
            let end = draw_bar(&mut pen, bar, &scale, y);
            values_at.push((end, spelled(bar.value, plot.digits)));
            y += bar_height(bar);
        }
        y += BETWEEN_GROUPS;
    }
    pen.line((left, top), (left, bottom), "axis");
    // On top of the bars, below the words.
    pen.marks_across(&plot.marks, |value| scale.at(value), (marks_at, bottom));
    for (place, words) in values_at {
        pen.text(place, "value", Anchor::Start, &words);
    }
    pen.finish(bottom + LINE + EDGE, &plot.title, &told(plot))
}

/// Says where its value may be written.
fn draw_bar(pen: &mut Pen, bar: &Bar, scale: &Scale, y: f64) -> (f64, f64) {
    let lines = pen::wrapped(&bar.label, LABELS);
    let height = bar_height(bar);
    let middle = y + (height - GAP) / 2.0;
    let left = scale.at(0.0);
    let mut baseline = middle + 4.5 - LINE * (count(lines.len()) - 1.0) / 2.0;
    for line in &lines {
        pen.text((left - 8.0, baseline), "", Anchor::End, line);
        baseline += LINE;
    }
    let end = scale.at(bar.value);
    pen.bar((left, middle - BAR / 2.0), (end - left, BAR), class(bar.tone));
    let mut words_at = end;
    if let Some((low, high)) = bar.spread {
        let (low, high) = (scale.at(low), scale.at(high));
        pen.spread((low, high), middle);
        words_at = end.max(high);
    }
    (words_at + 7.0, middle + 4.5)
}

fn label_width(label: &str) -> f64 {
    pen::wrapped(label, LABELS).iter().map(|line| pen::width(line)).fold(0.0, f64::max)
}

fn bar_height(bar: &Bar) -> f64 {
    BAR.max(LINE * count(pen::wrapped(&bar.label, LABELS).len())) + GAP
}

fn group_height(group: &Group) -> f64 {
    let heading = if group.name.is_empty() { 0.0 } else { LINE + 6.0 };
    heading + group.bars.iter().map(bar_height).sum::<f64>() + BETWEEN_GROUPS
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(0.0, f64::from)
}

/// The same in words.
fn told(plot: &Bars) -> String {
    let mut words = Vec::new();
    for group in &plot.groups {
        let name = if group.name.is_empty() { String::new() } else { format!("{}: ", group.name) };
        words.extend(
            group
                .bars
                .iter()
                .map(|bar| format!("{name}{} {}", bar.label, with_unit(bar.value, plot.digits, &plot.unit))),
        );
    }
    format!("{}.", words.join("; "))
}
