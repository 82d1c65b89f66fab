//! Who did not manage something, where, and why: for the sheet, so that a figure that is missing is explained.

use super::player::{Player, Settings};

/// The most of a reason that is told.
const TOLD: usize = 200;

/// Who did not manage what one table shows.
#[derive(Debug)]
pub struct Failed {
    table: String,
    all: Vec<(usize, Settings, String)>,
}

impl Failed {
    /// Nobody yet.
    pub fn of(table: impl Into<String>) -> Self {
        Self { table: table.into(), all: Vec::new() }
    }

    pub fn has(&self, player: usize, settings: Settings) -> bool {
        self.all.iter().any(|(at, with, _)| (*at, *with) == (player, settings))
    }

    pub fn note(&mut self, player: usize, settings: Settings, error: &str) {
        self.all.push((player, settings, reason(error)));
    }

    /// What the sheet says of them.
    pub fn words(&self, players: &[Player]) -> Option<String> {
        let told = self.all.iter().map(|(at, settings, why)| format!("{}: {why}", players[*at].label(*settings)));
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| {
            format!(
                "Without figures, or with those of fewer rounds, in the table “{}”, because of a failure: {}.",
                self.table,
                told.join("; ")
            )
        })
    }
}

/// The first line of an error.
pub fn reason(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default().trim();
    let mut told: String = line.chars().take(TOLD).map(|letter| if letter == '`' { '\'' } else { letter }).collect();
    if line.chars().count() > TOLD {
        told.push('…');
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_short_line() {
        assert_eq!(reason("no `table`\n  at line 7"), "no 'table'");
        assert_eq!(reason(&"x".repeat(300)).chars().count(), TOLD + 1);
    }

    #[test]
    fn who_failed_with_one_setting_still_plays_with_the_other() {
        let mut failed = Failed::of("idle");
        failed.note(3, Settings::Default, "too slow");
        assert!(
            failed.has(3, Settings::Default) && !failed.has(3, Settings::Best) && !failed.has(2, Settings::Default)
        );
        assert_eq!(Failed::of("idle").words(&[]), None);
    }
}
