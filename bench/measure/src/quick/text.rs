//! The findings as people read them.

use super::figures::{Figure, Goal, Measure, Ratio};
use super::look::Findings;
use super::verdict::Weight;
use std::fmt::{self, Display, Formatter};

impl Display for Findings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.facts.store {
            super::StoreKind::Postgres => "PostgreSQL",
            super::StoreKind::Sqlite => "SQLite",
        };
        writeln!(f, "{kind} {}, measured in {}", self.facts.version, self.measured_in)?;
        writeln!(f, "medians of {} rounds, both sides in alternating order on the same tables\n", self.rounds)?;
        let heads = ["", "hand-written SQL", "Punctual", "ratio", "between", "goal"];
        let rows: Vec<[String; 6]> = self.figures.iter().map(row).collect();
        table(f, &heads.map(str::to_owned), &rows)?;
        writeln!(f)?;
        self.write_facts(f)?;
        writeln!(f, "\nverdict")?;
        for remark in &self.verdict {
            let mark = match remark.weight {
                Weight::Warning => "!",
                Weight::Hint => "*",
                Weight::Note => "-",
            };
            writeln!(f, "  {mark} {}", remark.text)?;
        }
        Ok(())
    }
}

impl Findings {
    fn write_facts(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let facts = &self.facts;
        writeln!(
            f,
            "round trip {}, {} commits/s",
            milliseconds(facts.round_trip_ms),
            amount(facts.commits_per_second)
        )?;
        if let Some(bytes) = facts.memory_bytes {
            writeln!(f, "memory of this program, both sides together: {} MB at most", bytes / 1_000_000)?;
        }
        let settings: Vec<String> = super::durability::names(facts.store)
            .iter()
            .map(|name| format!("{name}={}", facts.settings.get(*name).map_or("?", String::as_str)))
            .collect();
        writeln!(f, "durability as the database reports it: {}", settings.join(" "))?;
        let counts = &self.accounted;
        writeln!(
            f,
            "accounted for: {} jobs made, {} ends recorded, {} queued, {} running, {} delayed",
            counts.jobs, counts.runs, counts.queued, counts.running, counts.delayed
        )
    }
}

fn row(figure: &Figure) -> [String; 6] {
    let shown = |value: f64| {
        if figure.measure.is_rate() || figure.measure == Measure::WalPerJob {
            amount(value)
        } else {
            format!("{value:.2}")
        }
    };
    let ratio = |show: fn(&Ratio) -> String| figure.ratio.as_ref().map_or("-".to_owned(), show);
    [
        figure.measure.words().to_owned(),
        figure.raw.map_or("-".to_owned(), shown),
        shown(figure.punctual),
        ratio(|ratio| format!("{:.2}", ratio.middle)),
        ratio(|ratio| format!("{:.2} to {:.2}", ratio.low, ratio.high)),
        goal(figure),
    ]
}

fn goal(figure: &Figure) -> String {
    let wanted = match figure.goal {
        Some(Goal::RatioAtLeast(least)) => format!("at least {least:.2}"),
        Some(Goal::RatioAtMost(most)) => format!("at most {most:.2}"),
        Some(Goal::AtMost(most)) => format!("at most {most:.0} ms"),
        None => return String::new(),
    };
    match figure.goal_met {
        Some(true) => format!("{wanted}: met"),
        Some(false) => format!("{wanted}: missed"),
        None => format!("{wanted}: not counted"),
    }
}

/// Columns as wide as they must be; the first and the last two are read from the left, numbers from the right.
fn table(f: &mut Formatter<'_>, heads: &[String; 6], rows: &[[String; 6]]) -> fmt::Result {
    let width = |n: usize| rows.iter().chain([heads]).map(|row| row[n].chars().count()).max().unwrap_or_default();
    for row in [heads].into_iter().chain(rows) {
        let mut line = String::new();
        for (n, cell) in row.iter().enumerate() {
            let room = width(n);
            let cell = if (1..4).contains(&n) { format!("{cell:>room$}") } else { format!("{cell:<room$}") };
            line.push_str(if n == 0 { "" } else { "  " });
            line.push_str(&cell);
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A whole number with commas, such as `12,345`.
pub(super) fn amount(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut shown = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) && digits.starts_with(|c: char| c.is_ascii_digit()) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Milliseconds with as many digits as say something.
pub(super) fn milliseconds(value: f64) -> String {
    if value >= 10.0 {
        format!("{value:.0} ms")
    } else if value >= 1.0 {
        format!("{value:.1} ms")
    } else if value >= 0.01 {
        format!("{value:.2} ms")
    } else {
        format!("{:.0} µs", value * 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_people_read_them() {
        assert_eq!(
            [amount(0.4), amount(999.6), amount(12_345.0), amount(1_234_567.0)],
            ["0", "1,000", "12,345", "1,234,567"]
        );
        assert_eq!([9.9, 12.4, 0.13, 0.0042].map(milliseconds), ["9.9 ms", "12 ms", "0.13 ms", "4 µs"]);
        assert_eq!(amount(f64::NAN), "NaN");
    }

    #[test]
    fn a_figure_that_does_not_count_says_so() {
        let figure = Figure {
            measure: Measure::Drain,
            raw: Some(2_000.0),
            punctual: 1_000.0,
            ratio: None,
            goal: Some(Goal::RatioAtLeast(0.85)),
            goal_met: None,
        };
        assert_eq!(row(&figure)[1..], ["2,000", "1,000", "-", "-", "at least 0.85: not counted"]);
        let ratio = Some(Ratio { middle: 0.5, low: 0.4, high: 0.6 });
        let counted = Figure { ratio, goal_met: Some(false), ..figure };
        assert_eq!(row(&counted)[3..], ["0.50", "0.40 to 0.60", "at least 0.85: missed"]);
    }
}
