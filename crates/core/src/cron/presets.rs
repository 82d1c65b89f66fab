//! Presets: cron expressions with a name, so that nobody has to remember the fields.

use super::Recurrence;
use crate::invalid::Invalid;
use crate::name;
use jiff::Timestamp;

/// A named cron expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronPreset {
    /// Its name.
    pub name: String,
    /// A cron expression; in which zone it is read is said by whoever uses it.
    pub expression: String,
    /// For people.
    pub description: String,
    /// When it was made; `None` for those that come with the program.
    pub created_at: Option<Timestamp>,
}

/// What comes with the program.
const BUILT_IN: [(&str, &str, &str); 15] = [
    ("every-minute", "* * * * *", "at every full minute"),
    ("every-5-minutes", "*/5 * * * *", "every five minutes, on the five"),
    ("every-15-minutes", "*/15 * * * *", "at every quarter of an hour"),
    ("hourly", "0 * * * *", "at every full hour"),
    ("business-hours", "0 9-17 * * 1-5", "every hour from 9:00 to 17:00, Monday to Friday"),
    ("daily", "0 0 * * *", "at midnight"),
    ("nightly", "0 2 * * *", "at 2:00 in the night"),
    ("nightly-spread", "H H(1-4) * * *", "once between 1:00 and 5:00, at a time that follows from the schedule's name"),
    ("weekdays-9am", "0 9 * * 1-5", "at 9:00, Monday to Friday"),
    ("weekdays-6pm", "0 18 * * 1-5", "at 18:00, Monday to Friday"),
    ("weekends-noon", "0 12 * * 6,0", "at noon on Saturday and Sunday"),
    ("mondays-9am", "0 9 * * 1", "at 9:00 on Monday"),
    ("fridays-5pm", "0 17 * * 5", "at 17:00 on Friday"),
    ("month-start", "0 0 1 * *", "at midnight before the first of the month"),
    ("quarter-start", "0 0 1 1,4,7,10 *", "at midnight before the first of January, April, July and October"),
];

/// The presets that come with the program, in order of name.
pub fn built_in_presets() -> Vec<CronPreset> {
    let mut presets: Vec<CronPreset> = BUILT_IN
        .iter()
        .map(|(name, expression, description)| CronPreset {
            name: (*name).to_owned(),
            expression: (*expression).to_owned(),
            description: (*description).to_owned(),
            created_at: None,
        })
        .collect();
    presets.sort_by(|a, b| a.name.cmp(&b.name));
    presets
}

impl CronPreset {
    /// One that comes with the program.
    pub fn built_in(name: &str) -> Option<Self> {
        built_in_presets().into_iter().find(|preset| preset.name == name)
    }

    /// Refuses what could not be used, and names that are taken by the program's own.
    pub fn validate(&self) -> Result<(), Invalid> {
        name::check(&self.name)?;
        name::check_text("description", &self.description)?;
        if Self::built_in(&self.name).is_some() {
            return Err(
                Invalid::new("name", format!("`{}` comes with the program", self.name)).remedy("choose another")
            );
        }
        Recurrence::parse(&self.expression, Some(&self.name))
            .map_err(|error| Invalid::new("expression", error.to_string()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d09_every_preset_that_comes_along_can_be_used() {
        let presets = built_in_presets();
        assert!(presets.is_sorted_by(|a, b| a.name < b.name), "each name once");
        for preset in presets {
            let own = CronPreset { name: format!("my-{}", preset.name), ..preset.clone() };
            assert_eq!(own.validate(), Ok(()), "{preset:?}");
            assert_eq!(preset.validate().unwrap_err().field, "name", "its name is taken");
            assert_eq!(CronPreset::built_in(&preset.name), Some(preset));
        }
        let wrong = CronPreset { expression: "61 * * * *".into(), ..CronPreset::built_in("daily").unwrap() };
        assert_eq!(CronPreset { name: "mine".into(), ..wrong }.validate().unwrap_err().field, "expression");
    }
}
