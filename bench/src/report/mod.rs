//! What was measured, as sheets that are kept: each is printed, saved in `bench/results`, and made into the page
//! `bench/RESULTS.md` and the drawings in `bench/plots`, which nobody edits by hand.

mod files;
mod goals;
mod machine;
mod markdown;
mod number;
mod plot;
mod sheet;
mod survey;
mod svg;
#[cfg(test)]
mod tests;

pub use files::render;
pub use goals::Goal;
pub use number::spelled;
pub use plot::{Axis, Bar, Bars, Group, Line, Lines, Mark, Plot, Strip, Strips, Tone};
pub use sheet::{Cell, Sheet, Table};
pub use survey::Survey;

use crate::load::Outcome;

/// With this among the arguments a sheet is printed and not kept, as for a trial with small numbers.
pub const PRINT_ONLY: &str = "--print-only";

/// Says where and when it was measured, prints the sheet, saves it, and renders all that are saved.
pub fn keep(mut sheet: Sheet, survey: Survey) -> Outcome<()> {
    sheet.measured = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    sheet.machine = Some(survey.end()?);
    println!("{}", markdown::section(&sheet, None));
    if std::env::args().any(|argument| argument == PRINT_ONLY) {
        return Ok(());
    }
    let folder = files::folder();
    files::save(&folder, &sheet)?;
    render()?;
    println!("saved in {}; see {}", files::RESULTS, files::PAGE);
    Ok(())
}
