//! The reader of cron fields: text to bit masks, with the column of every fault.

use super::calendar::DayRule;
use super::error::{CronError, CronProblem, Field};
use super::spread::spread;

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// What one field says.
#[derive(Debug, Default)]
pub(super) struct FieldSet {
    /// Bit n is value n; Sunday is bit 0 only.
    pub(super) bits: u64,
    /// The field's first character is `*` (or `?`), which decides two of the rules.
    pub(super) starred: bool,
    /// `L`, `LW`, `nW`, `nL` and `n#k`; the plain days are in `bits`.
    pub(super) special: DayRule,
}

/// Reads one field. `start` is its byte offset in `expression`.
pub(super) fn field_set(
    expression: &str, start: usize, text: &str, field: Field, seed: Option<&str>,
) -> Result<FieldSet, CronError> {
    let mut reader = Reader { expression, start, text, at: 0, field, seed, item: 0 };
    let mut set = FieldSet { starred: text.starts_with(['*', '?']), ..FieldSet::default() };
    loop {
        reader.item(&mut set)?;
        match reader.peek() {
            None => break,
            Some(',') => reader.at += 1,
            Some(other) => return Err(reader.misplaced(other)),
        }
        reader.item += 1;
    }
    if field == Field::DayOfWeek && set.bits >> 7 & 1 == 1 {
        set.bits = (set.bits | 1) & 0x7f;
    }
    Ok(set)
}

struct Reader<'a> {
    expression: &'a str,
    start: usize,
    text: &'a str,
    at: usize,
    field: Field,
    seed: Option<&'a str>,
    item: u64,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn error_at(&self, at: usize, problem: CronProblem) -> CronError {
        let column = self.expression[..self.start + at].chars().count() + 1;
        CronError { field: Some(self.field), column: Some(column), problem }
    }

    fn error(&self, problem: CronProblem) -> CronError {
        self.error_at(self.at, problem)
    }

    /// Marks that mean something elsewhere get their own hint.
    fn misplaced(&self, found: char) -> CronError {
        self.error(match found.to_ascii_uppercase() {
            mark @ ('L' | 'W' | '#') => CronProblem::MisplacedMark(mark),
            _ => CronProblem::Unexpected(found),
        })
    }

    fn item(&mut self, set: &mut FieldSet) -> Result<(), CronError> {
        match self.peek() {
            None | Some(',') => Err(self.error(CronProblem::EmptyItem)),
            Some('/') => Err(self.error(CronProblem::StepWithoutRange)),
            Some('-') => Err(self.error(CronProblem::RangeStartMissing)),
            Some('*' | '?') => {
                self.at += 1;
                self.stepped(set, self.field.min(), self.field.max())
            }
            Some('~') => self.tilde(set, None),
            Some(c) if c.is_ascii_digit() => self.value_item(set),
            Some(c) if c.is_ascii_alphabetic() => self.word_item(set),
            Some(other) => Err(self.misplaced(other)),
        }
    }

    /// The letters from here on, without moving.
    fn letters(&self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        &rest[..end]
    }

    fn word_item(&mut self, set: &mut FieldSet) -> Result<(), CronError> {
        let word = self.letters();
        let of_month = self.field == Field::DayOfMonth;
        if word.eq_ignore_ascii_case("H") {
            self.at += 1;
            return self.hashed(set);
        }
        if of_month && word.eq_ignore_ascii_case("L") {
            set.special.last = true;
        } else if of_month && word.eq_ignore_ascii_case("LW") {
            set.special.last_weekday = true;
        } else if matches!(word.to_ascii_uppercase().as_str(), "L" | "W" | "LW" | "WL") {
            let mark = word.chars().next().unwrap_or('L');
            return Err(self.misplaced(mark));
        } else {
            return self.value_item(set);
        }
        self.at += word.len();
        Ok(())
    }

    /// A number or name, alone or as the start of a range, a step or a marked day.
    fn value_item(&mut self, set: &mut FieldSet) -> Result<(), CronError> {
        let begin = self.at;
        let low = self.value()?;
        match self.peek() {
            Some('-') => {
                self.at += 1;
                let high = self.range_end(begin, low)?;
                self.stepped(set, low, high)
            }
            // `a/n` runs to the end of the field.
            Some('/') => self.stepped(set, low, self.field.max()),
            Some('~') => self.tilde(set, Some(low)),
            Some('W' | 'w') if self.field == Field::DayOfMonth => {
                self.at += 1;
                set.special.nearest |= 1 << low;
                Ok(())
            }
            Some('L' | 'l') if self.field == Field::DayOfWeek => {
                self.at += 1;
                set.special.last_of_week |= 1 << (low % 7);
                Ok(())
            }
            Some('#') if self.field == Field::DayOfWeek => {
                self.at += 1;
                self.occurrence(set, low % 7)
            }
            _ => {
                set.bits |= 1 << low;
                Ok(())
            }
        }
    }

    fn range_end(&mut self, begin: usize, low: u8) -> Result<u8, CronError> {
        let end_at = self.at;
        if !self.peek().is_some_and(|c| c.is_ascii_alphanumeric()) {
            return Err(self.error(CronProblem::RangeEndMissing));
        }
        let high = self.value()?;
        if low > high {
            let start = self.text[begin..end_at - 1].to_owned();
            let end = self.text[end_at..self.at].to_owned();
            return Err(self.error_at(begin, CronProblem::BackwardsRange(start, end)));
        }
        Ok(high)
    }

    fn occurrence(&mut self, set: &mut FieldSet, weekday: u8) -> Result<(), CronError> {
        let at = self.at;
        let digits = self.digits();
        let Some(which @ 1..=5) = digits.parse::<usize>().ok() else {
            return Err(self.error_at(at, CronProblem::NoSuchOccurrence(shortened(digits))));
        };
        set.special.nth_of_week[which - 1] |= 1 << weekday;
        Ok(())
    }

    fn digits(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A number or a name, within the field's bounds.
    fn value(&mut self) -> Result<u8, CronError> {
        let at = self.at;
        if self.peek().is_some_and(|c| c.is_ascii_alphabetic()) {
            return self.name();
        }
        let digits = self.digits();
        let value = digits.parse::<u8>().ok();
        value
            .filter(|value| (self.field.min()..=self.field.max()).contains(value))
            .ok_or_else(|| self.error_at(at, CronProblem::OutOfRange(shortened(digits))))
    }

    fn name(&mut self) -> Result<u8, CronError> {
        let word = self.letters();
        // `FRIL` is the last Friday: the mark is not part of the name.
        let name = match word.len() {
            4 if self.field == Field::DayOfWeek && word.ends_with(['L', 'l']) => &word[..3],
            _ => word,
        };
        let month = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name));
        let weekday = WEEKDAYS.iter().position(|day| day.eq_ignore_ascii_case(name));
        let value = match (self.field, month, weekday) {
            (Field::Month, Some(index), _) => index + 1,
            (Field::DayOfWeek, _, Some(index)) => index,
            (_, Some(_), _) => return Err(self.wrong_field(name, "month")),
            (_, _, Some(_)) => return Err(self.wrong_field(name, "weekday")),
            _ => return Err(self.error(CronProblem::UnknownName(shortened(word)))),
        };
        self.at += name.len();
        Ok(u8::try_from(value).unwrap_or(0))
    }

    fn wrong_field(&self, name: &str, kind: &'static str) -> CronError {
        self.error(CronProblem::NameInWrongField(name.to_owned(), kind))
    }

    /// `/n` if there is one.
    fn step(&mut self) -> Result<Option<u8>, CronError> {
        if !self.take('/') {
            return Ok(None);
        }
        let at = self.at;
        let digits = self.digits();
        if digits.is_empty() {
            return Err(self.error_at(at, CronProblem::StepMissing));
        }
        // A step past the end of the field leaves its first value, however long the number is.
        match digits.parse::<u8>() {
            Ok(0) => Err(self.error_at(at, CronProblem::ZeroStep)),
            Ok(step) => Ok(Some(step)),
            Err(_) => Ok(Some(u8::MAX)),
        }
    }

    fn stepped(&mut self, set: &mut FieldSet, low: u8, high: u8) -> Result<(), CronError> {
        let step = self.step()?.unwrap_or(1);
        set.bits |= every_nth(low, high, step);
        Ok(())
    }

    /// `a~b`, where either end may be left out.
    fn tilde(&mut self, set: &mut FieldSet, low: Option<u8>) -> Result<(), CronError> {
        let begin = self.at;
        self.at += 1;
        let (least, most) = self.spread_bounds();
        let low = low.unwrap_or(least);
        let high = match self.peek() {
            Some(c) if c.is_ascii_alphanumeric() => self.value()?,
            _ => most.max(low),
        };
        if low > high {
            let problem = CronProblem::BackwardsRange(low.to_string(), high.to_string());
            return Err(self.error_at(begin, problem));
        }
        self.spread_over(set, begin, low, high)
    }

    /// `H`, `H(a-b)`.
    fn hashed(&mut self, set: &mut FieldSet) -> Result<(), CronError> {
        let begin = self.at - 1;
        let (mut low, mut high) = self.spread_bounds();
        if self.take('(') {
            let start = self.at;
            low = self.value()?;
            if !self.take('-') {
                return Err(self.error(CronProblem::RangeEndMissing));
            }
            high = self.range_end(start, low)?;
            if !self.take(')') {
                let found = self.peek().unwrap_or('(');
                return Err(self.error(CronProblem::Unexpected(found)));
            }
        }
        self.spread_over(set, begin, low, high)
    }

    /// Days stop at 28, so that a spread monthly job runs in every month, and a week has one Sunday.
    fn spread_bounds(&self) -> (u8, u8) {
        match self.field {
            Field::DayOfMonth => (1, 28),
            Field::DayOfWeek => (0, 6),
            field => (field.min(), field.max()),
        }
    }

    fn spread_over(&mut self, set: &mut FieldSet, begin: usize, low: u8, high: u8) -> Result<(), CronError> {
        let step = self.step()?;
        let Some(seed) = self.seed else {
            return Err(self.error_at(begin, CronProblem::SeedMissing));
        };
        let width = high - low + 1;
        let choices = step.unwrap_or(width).min(width);
        let first = low + spread(seed, self.field, self.item, choices);
        set.bits |= match step {
            Some(step) => every_nth(first, high, step),
            None => 1 << first,
        };
        Ok(())
    }
}

fn every_nth(low: u8, high: u8, step: u8) -> u64 {
    (low..=high).step_by(usize::from(step)).fold(0, |bits, value| bits | 1 << value)
}

/// Messages quote the text, but not a kilobyte of it.
fn shortened(text: &str) -> String {
    if text.len() <= 20 { text.to_owned() } else { format!("{}…", &text[..20]) }
}
