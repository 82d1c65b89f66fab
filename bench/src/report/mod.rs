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
/// With this a sheet is kept although not everybody played, or for a short time only; it says so.
pub const PARTIAL: &str = "--partial";

/// Whether one of these is among the arguments.
pub fn is_asked_for(option: &str) -> bool {
    std::env::args().any(|argument| argument == option)
}

/// Says where and when it was measured, prints the sheet, saves it, and renders all that are saved.
pub fn keep(sheet: Sheet, survey: Survey) -> Outcome<()> {
    print(sheet, survey, None)
}

/// The same for a sheet that is not worth saving, for a reason.
pub fn show(sheet: Sheet, survey: Survey, why_not_saved: &str) -> Outcome<()> {
    print(sheet, survey, Some(why_not_saved.to_owned()))
}

fn print(mut sheet: Sheet, survey: Survey, why_not_saved: Option<String>) -> Outcome<()> {
    sheet.measured = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let machine = survey.end()?;
    let why_not_saved = machine.in_memory().or(why_not_saved);
    sheet.machine = Some(machine);
    println!("{}", markdown::section(&sheet, None));
    if is_asked_for(PRINT_ONLY) {
        return Ok(());
    }
    if let Some(why) = why_not_saved {
        println!("not saved in {}: {why}", files::RESULTS);
        return Ok(());
    }
    let folder = files::folder();
    files::save(&folder, &sheet)?;
    render()?;
    println!("saved in {}; see {}", files::RESULTS, files::PAGE);
    Ok(())
}
