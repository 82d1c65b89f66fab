//! Drawings say what they were given: the right lengths, the right words, nothing cut and nothing smuggled in.

use super::draw;
use super::pen::{escaped, px, width, wrapped};
use super::scale::{Scale, is_far_apart, round_step, short};
use crate::report::plot::{Axis, Bar, Bars, Group, Line, Lines, Mark, Plot, Strip, Strips, Tone};

const HOSTILE: &str = "</title><script>alert(\"1\")</script> & 'you' \u{1}";

fn bars(values: &[f64]) -> Plot {
    let bars = values.iter().map(|value| Bar::new("a bar", Tone::Ours, *value, None)).collect();
    Plot::Bars(Bars { title: "Bars".to_owned(), groups: vec![Group { name: String::new(), bars }], ..Bars::default() })
}

fn lines(points: Vec<(f64, f64)>) -> Plot {
    let line = Line::new("a line", Tone::Ours, points);
    let (x, y) = (Axis::log("rows"), Axis::linear("ratio"));
    Plot::Lines(Lines { title: "Lines".to_owned(), x, y, series: vec![line], marks: vec![Mark::new(0.8, "goal")] })
}

fn strips(times: &[(f64, f64)]) -> Plot {
    let rows = times.iter().map(|time| Strip::new("a strip", Tone::Raw, *time, Some([*time, *time]))).collect();
    Plot::Strips(Strips { title: "Strips".to_owned(), unit: "ms".to_owned(), digits: 2, rows, marks: Vec::new() })
}

/// The widths of all bars in a drawing.
fn widths(svg: &str) -> Vec<f64> {
    let bars = svg.lines().filter(|line| line.starts_with("<rect") && line.contains("class=\"ours\""));
    bars.map(|line| attribute(line, "width")).collect()
}

fn attribute(line: &str, name: &str) -> f64 {
    let (_, rest) = line.split_once(&format!(" {name}=\"")).expect("the attribute");
    rest.split('"').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn bars_are_as_long_as_their_values_say() {
    let found = widths(&draw(&bars(&[10.0, 5.0, 40.0, 0.0])));
    assert_eq!(found.len(), 4);
    assert!((found[2] / found[0] - 4.0).abs() < 0.01 && (found[0] / found[1] - 2.0).abs() < 0.01, "{found:?}");
    assert!(found[3].abs() < f64::EPSILON);
}

#[test]
fn bars_far_apart_are_shown_in_factors() {
    let near = draw(&bars(&[1.0, 49.0]));
    let far = draw(&bars(&[100.0, 1_000.0, 10_000.0]));
    assert!(!near.contains("each step is a factor") && far.contains("each step is a factor"));
    let found = widths(&far);
    assert!(found[0] > 1.0, "the least is seen: {found:?}");
    assert!(((found[2] - found[1]) - (found[1] - found[0])).abs() < 0.2, "equal factors, equal steps: {found:?}");
    assert!(is_far_apart([1.0, 51.0].into_iter()) && !is_far_apart([0.0, 51.0].into_iter()));
}

#[test]
fn hostile_labels_stay_labels() {
    let group = Group { name: HOSTILE.to_owned(), bars: vec![Bar::new(HOSTILE, Tone::Best, 1.0, None)] };
    let marks = vec![Mark::new(1.0, HOSTILE)];
    let bars =
        Plot::Bars(Bars { title: HOSTILE.to_owned(), unit: HOSTILE.to_owned(), groups: vec![group], marks, digits: 0 });
    let line = Line::new(HOSTILE, Tone::Ours, [(1.0, 1.0)]);
    let axis = Axis::linear(HOSTILE);
    let lines = Lines {
        title: HOSTILE.to_owned(),
        x: axis.clone(),
        y: axis,
        series: vec![line],
        marks: vec![Mark::new(1.0, HOSTILE)],
    };
    for svg in [draw(&bars), draw(&Plot::Lines(lines))] {
        assert!(!svg.contains("<script") && !svg.contains("& ") && !svg.contains('\u{1}'), "{svg}");
        assert_eq!(svg.matches("</title>").count(), 1);
    }
    assert_eq!(escaped("a<b>&\"'\u{0}"), "a&lt;b&gt;&amp;&quot;&#39;\u{fffd}");
}

#[test]
fn drawings_are_always_the_same_and_say_everything_in_words() {
    for plot in [bars(&[1.0, 2.5]), lines(vec![(0.0, 1.0), (1e7, 0.93)]), strips(&[(1.0, 4.0), (60.0, 900.0)])] {
        let svg = draw(&plot);
        assert_eq!(svg, draw(&plot));
        assert!(
            svg.contains(&format!("<title id=\"title\">{}</title>", plot.title()))
                && svg.contains("<desc id=\"told\">")
        );
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
    assert!(draw(&strips(&[(1.3, 4.0)])).contains("p50 1.30 ms, p99 4.00 ms"));
    assert!(draw(&lines(vec![(0.0, 1.0), (1e7, 0.93)])).contains("from 1 at 0 to 0.93 at 10 M"));
}

#[test]
fn nothing_measured_is_said() {
    let unmeasured = [bars(&[]), lines(Vec::new()), strips(&[])];
    for plot in unmeasured {
        assert!(draw(&plot).contains("nothing was measured"), "{plot:?}");
    }
    let nothing = draw(&bars(&[0.0, f64::NAN]));
    assert!(!nothing.contains("NaN") && widths(&nothing) == [0.0, 0.0], "{nothing}");
}

#[test]
fn axes_have_round_numbers() {
    let words = |scale: Scale| scale.ticks().into_iter().map(|(_, words)| words).collect::<Vec<_>>();
    assert_eq!(
        words(Scale::linear([93_000.0].into_iter(), (0.0, 100.0))),
        ["0", "20 k", "40 k", "60 k", "80 k", "100 k"]
    );
    assert_eq!(words(Scale::linear([1.05].into_iter(), (0.0, 100.0))), ["0", "0.25", "0.5", "0.75", "1", "1.25"]);
    assert_eq!(words(Scale::log([0.0, 1e3, 1e6].into_iter(), (0.0, 500.0))), ["0", "1,000", "10 k", "100 k", "1 M"]);
    assert_eq!(words(Scale::log([1.0, 10.0].into_iter(), (0.0, 500.0))), ["1", "2", "5", "10"]);
    assert!((round_step(0.3) - 0.5).abs() < 1e-9 && (round_step(21.0) - 25.0).abs() < 1e-9);
    assert_eq!(
        (short(2_500_000.0), short(10_000.0), short(0.1), short(9_999.0)),
        ("2.5 M".into(), "10 k".into(), "0.1".into(), "9,999".into())
    );
}

#[test]
fn a_scale_puts_its_ends_at_the_ends() {
    let scale = Scale::log([0.0, 1e3, 1e6].into_iter(), (100.0, 400.0));
    assert_eq!(px(scale.at(0.0)), "100");
    assert!(scale.at(1e3) > 120.0, "zero has a place of its own");
    assert_eq!(px(scale.at(1e6)), "400");
    let upwards = Scale::linear([1.0].into_iter(), (300.0, 0.0));
    assert_eq!((upwards.at(0.0), upwards.at(1.0), upwards.at(0.5)), (300.0, 0.0, 150.0));
    let one = Scale::log([7.0].into_iter(), (0.0, 100.0));
    assert!(one.at(7.0).is_finite());
}

#[test]
fn long_words_are_wrapped_and_not_cut() {
    let label = "graphile-worker with a local queue of a thousand jobs and a hundred of them at once";
    let found = wrapped(label, 200.0);
    assert!(found.len() > 1 && found.iter().all(|line| width(line) <= 200.0), "{found:?}");
    assert_eq!(found.join(" "), label);
    let word = "x".repeat(200);
    assert_eq!(wrapped(&word, 100.0).concat(), word);
    assert_eq!(wrapped("", 100.0), [""]);
    let plot = Plot::Bars(Bars {
        title: label.repeat(3),
        groups: vec![Group { name: String::new(), bars: vec![Bar::new(label.repeat(2), Tone::Ours, 1.0, None)] }],
        ..Bars::default()
    });
    let svg = draw(&plot);
    for line in svg.lines().filter(|line| line.starts_with("<text")) {
        let words = line.split_once('>').and_then(|(_, rest)| rest.split_once('<')).expect("words").0;
        let (x, size) = (attribute(line, "x"), if line.contains("title") { 1.3 } else { 1.0 });
        let (from, to) = if line.contains("\"end\"") {
            (x - width(words), x)
        } else if line.contains("\"middle\"") {
            (x - width(words) / 2.0, x + width(words) / 2.0)
        } else {
            (x, x + width(words) * size)
        };
        assert!(from >= 0.0 && to <= 760.0, "{line}");
    }
}

#[test]
fn places_are_written_short() {
    assert_eq!((px(1.0), px(1.26), px(-0.01)), ("1".to_owned(), "1.3".to_owned(), "0".to_owned()));
}
