//! What all drawings share: paper, words that fit, colours that mean the same everywhere.

use crate::report::plot::{Mark, Tone};
use punctual_core::notify::wording::in_html;
use std::fmt::Write;

/// How wide every drawing is.
pub const WIDTH: f64 = 760.0;
/// What is left free at the edges.
pub const EDGE: f64 = 16.0;
/// From one line of words to the next.
pub const LINE: f64 = 16.0;
/// The size of ordinary words.
const SIZE: f64 = 13.0;

/// Colours by what they mean, in light and in dark; words never have a colour of a bar.
const STYLE: &str = "
text{font:13px 'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:16px;font-weight:600}.group{font-weight:600}.value,.markword{paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}.quiet{font-size:12px;fill:#59636e}
.paper{fill:#fff;stroke:#d1d9e0}.grid{stroke:#d1d9e0}.axis{stroke:#818b98}
.mark{stroke:#cf222e;stroke-dasharray:5 4}.markword{font-size:12px;fill:#cf222e}.spread{stroke:#1f2328;stroke-width:1.2}
.ours{fill:#0969da;stroke:#0969da}.raw{fill:#818b98;stroke:#818b98}
.best{fill:#bf8700;stroke:#bf8700}.usual{fill:#e2c178;stroke:#e2c178}
.line{fill:none;stroke-width:2.2}.hollow{fill:#fff;stroke-width:2.2}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.value,.markword{stroke:#0d1117}.quiet{fill:#9198a1}.paper{fill:#0d1117;stroke:#3d444d}
.grid{stroke:#2a313c}.axis{stroke:#656c76}.mark{stroke:#f85149}.markword{fill:#f85149}.spread{stroke:#f0f6fc}
.ours{fill:#4493f8;stroke:#4493f8}.raw{fill:#8b949e;stroke:#8b949e}.best{fill:#d29922;stroke:#d29922}
.usual{fill:#7a5b1b;stroke:#7a5b1b}.line{fill:none}.hollow{fill:#0d1117}}
";

/// The end of the words that is at the place.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing in the making.
#[derive(Default)]
pub struct Pen {
    body: String,
}

impl Pen {
    /// Words at a place.
    pub fn text(&mut self, (x, y): (f64, f64), class: &str, anchor: Anchor, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let (x, y, words) = (px(x), px(y), escaped(words));
        self.add(&format!("<text x=\"{x}\" y=\"{y}\"{class}{anchor}>{words}</text>"));
    }

    /// A line between two places.
    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let (x1, y1, x2, y2) = (px(x1), px(y1), px(x2), px(y2));
        self.add(&format!("<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>"));
    }

    /// A bar from a corner.
    pub fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        let (x, y, width, height) = (px(x), px(y), px(width), px(height));
        self.add(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"2\" class=\"{class}\"/>"
        ));
    }

    /// A point.
    pub fn dot(&mut self, (x, y): (f64, f64), radius: f64, class: &str) {
        let (x, y, radius) = (px(x), px(y), px(radius));
        self.add(&format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" class=\"{class}\"/>"));
    }

    /// Points that are joined; `dashes` as SVG says them.
    pub fn joined(&mut self, points: &[(f64, f64)], class: &str, dashes: &str) {
        let places: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect();
        let dashes = if dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") };
        // A style of its own, because the class of a tone fills.
        self.add(&format!("<polyline points=\"{}\" class=\"{class} line\"{dashes}/>", places.join(" ")));
    }

    /// How far rounds lay apart: a thin line with ends.
    pub fn spread(&mut self, (from, to): (f64, f64), y: f64) {
        const END: f64 = 4.0;
        self.line((from, y), (to, y), "spread");
        self.line((from, y - END), (from, y + END), "spread");
        self.line((to, y - END), (to, y + END), "spread");
    }

    /// The legend in one line or more; says how high it is. Nothing is said where all is of one tone.
    pub fn legend(&mut self, entries: &[(Tone, &str)], top: f64) -> f64 {
        const SAMPLE: f64 = 12.0;
        if entries.len() < 2 {
            return 0.0;
        }
        let (mut x, mut y) = (EDGE, top);
        for (tone, words) in entries {
            let width = SAMPLE + 6.0 + width(words) + 18.0;
            if x > EDGE && x + width > WIDTH - EDGE {
                (x, y) = (EDGE, y + LINE + 2.0);
            }
            self.bar((x, y), (SAMPLE, SAMPLE), class(*tone));
            self.text((x + SAMPLE + 6.0, y + SAMPLE - 1.5), "quiet", Anchor::Start, words);
            x += width;
        }
        y - top + LINE + 6.0
    }

    /// Lines from above to below at marked values, each with its words in a line of its own above.
    pub fn marks_across(&mut self, marks: &[Mark], at: impl Fn(f64) -> f64, (top, bottom): (f64, f64)) {
        for (n, mark) in (0_u32..).zip(marks) {
            let (x, y) = (at(mark.value), top + LINE * f64::from(n));
            self.line((x, y + 3.0), (x, bottom), "mark");
            let half = width(&mark.words) / 2.0;
            let middle = x.clamp(EDGE + half, (WIDTH - EDGE - half).max(EDGE + half));
            self.text((middle, y), "markword", Anchor::Middle, &mark.words);
        }
    }

    fn add(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// The whole file: with a title and a description for those who cannot see it.
    pub fn finish(self, height: f64, title: &str, told: &str) -> String {
        let (width, tall) = (px(WIDTH), px(height));
        let (title, told) = (escaped(title), escaped(told));
        let mut file = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {tall}\" width=\"{width}\" height=\"{tall}\" \
             role=\"img\" aria-labelledby=\"title told\">\n<title id=\"title\">{title}</title>\n<desc id=\"told\">{told}</desc>\n"
        );
        let (inner_width, inner_height) = (px(WIDTH - 1.0), px(height - 1.0));
        let _infallible = write!(
            file,
            "<style>{STYLE}</style>\n<rect x=\"0.5\" y=\"0.5\" width=\"{inner_width}\" height=\"{inner_height}\" rx=\"6\" \
             class=\"paper\"/>\n{}</svg>\n",
            self.body
        );
        file
    }
}

/// The colour's name.
pub fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Ours => "ours",
        Tone::Raw => "raw",
        Tone::Best => "best",
        Tone::Usual => "usual",
    }
}

/// What a colour means.
pub fn meaning(tone: Tone) -> &'static str {
    match tone {
        Tone::Ours => "Punctual",
        Tone::Raw => "the reference",
        Tone::Best => "another system, best settings",
        Tone::Usual => "another system, as it comes",
    }
}

/// The heading, in as many lines as it needs; says where the next thing may begin.
pub fn heading(pen: &mut Pen, title: &str, below: &str) -> f64 {
    let mut y = EDGE + 14.0;
    for line in wrapped(title, (WIDTH - 2.0 * EDGE) / 1.3) {
        pen.text((EDGE, y), "title", Anchor::Start, &line);
        y += 20.0;
    }
    if !below.is_empty() {
        pen.text((EDGE, y - 2.0), "quiet", Anchor::Start, below);
        y += LINE;
    }
    y
}

/// Which tones there are, in the order of their meaning.
pub fn tones(all: impl Iterator<Item = Tone>) -> Vec<(Tone, &'static str)> {
    let found: std::collections::BTreeSet<Tone> = all.collect();
    found.into_iter().map(|tone| (tone, meaning(tone))).collect()
}

/// A place, to a tenth, the same on every machine.
pub fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// About how wide words are: rather too wide, because every machine has other letters.
pub fn width(words: &str) -> f64 {
    words.chars().map(width_of).sum::<f64>() * SIZE
}

fn width_of(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 't' | 'f' | ' ' | '.' | ',' | ':' | ';' | '|' | '\'' | '!' | '(' | ')' | '/' => 0.34,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.92,
        letter if letter.is_ascii_uppercase() => 0.7,
        letter if letter.is_ascii() => 0.58,
        // Scripts whose letters are as wide as they are high.
        '\u{1100}'..='\u{ffff}' if letter > '\u{2e7f}' => 1.05,
        letter if letter > '\u{ffff}' => 1.2,
        _ => 0.66,
    }
}

/// Words in lines that are not wider than this; a word that is wider by itself is broken.
pub fn wrapped(words: &str, most: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let mut word = word.to_owned();
        let last = lines.last().cloned().unwrap_or_default();
        if !last.is_empty() && width(&last) + width(" ") + width(&word) <= most {
            word = format!("{} {word}", lines.pop().unwrap_or_default());
        } else if last.is_empty() {
            lines.pop();
        }
        lines.extend(broken(&word, most));
    }
    lines
}

fn broken(word: &str, most: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for letter in word.chars() {
        let line = lines.last_mut().filter(|line| line.is_empty() || width(line) + width_of(letter) * SIZE <= most);
        match line {
            Some(line) => line.push(letter),
            None => lines.push(letter.to_string()),
        }
    }
    lines
}

/// Words that cannot be taken for anything else.
pub fn escaped(words: &str) -> String {
    // XML has no way to say these.
    let unsayable = |letter: char| {
        matches!(letter, '\u{fffe}' | '\u{ffff}') || (letter.is_control() && !matches!(letter, '\t' | '\n' | '\r'))
    };
    in_html(&words.replace(unsayable, "\u{fffd}"))
}
