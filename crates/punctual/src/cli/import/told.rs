//! What an import prints: the manifest, the report, or a table of what would be made.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use punctual_core::target::Target;
use punctual_core::timing::Timing;
use serde_json::{Map, Value, json};

use super::reading::{Difference, Imported, Kind, Place, Reading, Schedule};
use crate::cli::client::api::ConnectArgs;
use crate::cli::client::manifest::print;
use crate::cli::client::show::{self, visible};
use crate::cli::document::{Format, write};
use crate::cli::{Exit, Output, Stop};

/// What becomes of what was read.
#[derive(Args)]
#[command(next_help_heading = "What becomes of it")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct OutArgs {
    /// Whose the schedules are, so that nobody else's are touched when they are applied [default: the source's name]
    #[arg(long, value_name = "LABEL")]
    owner: Option<String>,
    /// What every name begins with
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// Write the manifest here instead, as TOML, YAML or JSON by the file's name
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["apply", "json"])]
    output: Option<PathBuf>,
    /// Show what would be made, with its next fire, and write nothing
    #[arg(long, conflicts_with_all = ["apply", "output"])]
    dry_run: bool,
    /// Make the schedules now, all or none
    #[arg(long)]
    apply: bool,
    /// Remove what an earlier import of this owner made and this one does not: lines that were removed or changed
    #[arg(long, requires = "apply")]
    prune: bool,
    /// End with 1, and make nothing, when anything means something else than in its source
    #[arg(long)]
    strict: bool,
    /// Print manifest and report as one JSON object
    #[arg(long, conflicts_with = "dry_run")]
    json: bool,
}

impl OutArgs {
    pub(super) async fn tell(
        self, reading: Reading, source: &str, connect: &ConnectArgs, out: &mut Output,
    ) -> Result<(), Stop> {
        if !reading.faults.is_empty() {
            return Err(refused(&reading));
        }
        let imported = reading.named(&self.prefix, Timestamp::now());
        let manifest = imported.manifest(self.owner.as_deref().unwrap_or(source));
        if self.dry_run {
            table(&imported, out)?;
            out.flush()?;
        }
        if !self.json {
            report(&imported, self.apply && !self.prune)?;
        }
        let too_different = self.strict && imported.differs();
        let applied = if self.apply && !too_different { Some(self.applied(&manifest, connect).await?) } else { None };
        if self.json {
            writeln!(out, "{}", document(&imported, &manifest, applied.as_ref()))?;
        } else if let Some(done) = &applied {
            print::plan(out, done)?;
        } else if !self.dry_run && !too_different {
            self.write(&manifest, out)?;
        }
        if too_different {
            let told = "some of it means something else than in its source (--strict); nothing was written";
            return Err(Stop::failure(told));
        }
        Ok(())
    }

    /// Makes all or none, and says what was done, as `punctual apply` does.
    async fn applied(&self, manifest: &Value, connect: &ConnectArgs) -> Result<Value, Stop> {
        let api = connect.connect().await?;
        let body = json!({ "manifest": manifest, "prune": self.prune });
        Ok(api.create("/manifest/apply", &body).await?.value())
    }

    fn write(&self, manifest: &Value, out: &mut Output) -> Result<(), Stop> {
        let format = match &self.output {
            None => Format::Toml,
            Some(path) => Format::of(path).ok_or_else(|| {
                Stop::usage(format!("{}: the name must end with .toml, .yaml, .yml or .json", path.display()))
            })?,
        };
        let text = write(format, manifest).map_err(Stop::failure)?;
        match &self.output {
            None => Ok(out.write_all(text.as_bytes())?),
            Some(path) => {
                std::fs::write(path, text).map_err(|error| Stop::failure(format!("{}: {error}", path.display())))
            }
        }
    }
}

/// Nothing of a source that cannot be read is imported; all that is wrong is told at once.
fn refused(reading: &Reading) -> Stop {
    const MOST: usize = 20;
    let mut lines: Vec<String> = reading.faults.iter().take(MOST).map(|fault| visible(&fault.to_string())).collect();
    if reading.faults.len() > MOST {
        lines.push(format!("… and {} more", reading.faults.len() - MOST));
    }
    Stop::Failed(Exit::Usage, format!("{}\nnothing was imported", lines.join("\n")))
}

/// Everything for programs.
fn document(imported: &Imported, manifest: &Value, applied: Option<&Value>) -> Value {
    let report: Vec<Value> = imported.differences.iter().map(Difference::document).collect();
    let place = |each: &Schedule| json!({ "file": each.place.file, "line": each.place.line });
    let places: Map<String, Value> = imported.schedules.iter().map(|each| (each.name.clone(), place(each))).collect();
    let mut document = json!({ "manifest": manifest, "report": report, "places": places });
    if let Some(done) = applied {
        document["applied"] = done.clone();
    }
    document
}

fn report(imported: &Imported, leaves: bool) -> Result<(), Stop> {
    let mut lines = String::new();
    for each in &imported.differences {
        let about = each.schedule.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let remark = &each.remark;
        let kind = remark.kind.words();
        lines.push_str(&visible(&format!("{}: {kind}: {about}{}", remark.place, remark.what)));
        if remark.remedy != "nothing" {
            lines.push_str(&visible(&format!("\n    {}", remark.remedy)));
        }
        lines.push('\n');
    }
    let count = |kind: Kind| imported.count(kind);
    let schedules = imported.schedules.len();
    let told = format!(
        "{schedules} schedules; {} left out, {} lost, {} different, {} notes\n",
        count(Kind::LeftOut),
        count(Kind::Lost),
        count(Kind::Differs),
        count(Kind::Note),
    );
    lines.push_str(&told);
    if leaves {
        lines.push_str("what an earlier import made and this one does not is left as it is; --prune removes it\n");
    }
    Ok(std::io::stderr().write_all(lines.as_bytes())?)
}

fn table(imported: &Imported, out: &mut Output) -> Result<(), Stop> {
    use show::Cell;
    let now = Timestamp::now();
    let mut differs: HashMap<&str, usize> = HashMap::new();
    for each in imported.differences.iter().filter(|each| each.remark.kind != Kind::Note) {
        *differs.entry(each.schedule.as_deref().unwrap_or_default()).or_default() += 1;
    }
    let count = |each: &Schedule| differs.get(each.name.as_str()).map(usize::to_string);
    let rows: Vec<Value> = imported.schedules.iter().map(|each| row(each, count(each).as_deref(), now)).collect();
    let columns = [
        ("NAME", Cell::Text("/name")),
        ("WHEN", Cell::Text("/when")),
        ("ZONE", Cell::Text("/zone")),
        ("NEXT", Cell::Time("/next")),
        ("WHAT", Cell::Text("/what")),
        ("DIFFERS", Cell::Text("/differs")),
    ];
    show::rows(out, show::ShowArgs::default(), &columns, &Value::Array(rows))
}

fn row(schedule: &Schedule, differs: Option<&str>, now: Timestamp) -> Value {
    let text = |field: &str| schedule.definition.get(field).cloned().unwrap_or_default();
    let when = ["cron", "every", "at"].into_iter().map(text).find(Value::is_string).unwrap_or_default();
    let target: Option<Target> = serde_json::from_value(text("target")).ok();
    let zone = if matches!(schedule.timing, Timing::Cron(_)) { text("timezone") } else { Value::Null };
    json!({
        "name": schedule.name, "when": when, "zone": zone, "next": next_fire(schedule, now),
        "what": target.map(|target| target.in_a_line(40)), "differs": differs,
    })
}

/// The next slot within the schedule's own bounds; of one that counts elapsed time, as if it were made now.
pub(super) fn next_fire(schedule: &Schedule, now: Timestamp) -> Option<Timestamp> {
    let bound = |field: &str| schedule.definition.get(field).and_then(Value::as_str).and_then(|text| text.parse().ok());
    let timing = match &schedule.timing {
        Timing::Every { period, .. } => Timing::Every { anchor: now, period: *period },
        other => other.clone(),
    };
    let before = |from: Timestamp| from.checked_sub(jiff::SignedDuration::from_nanos(1)).unwrap_or(from);
    let from = bound("starts_at").map_or(now, |from: Timestamp| now.max(before(from)));
    timing.next_after(from).filter(|next| bound("ends_at").is_none_or(|to: Timestamp| *next <= to))
}

/// Says once in which zone the times are read.
pub(super) fn say_zone(reading: &mut Reading, zone: &str, guessed: bool) {
    let Some(first) = reading.drafts.first() else { return };
    let place = Place { line: 1, ..first.place.clone() };
    let from = if guessed { "the zone of this machine" } else { "given by --tz" };
    let what = format!("times without a zone of their own are read in {zone}, {from}");
    reading.remark(place, Kind::Note, what, "say --tz if the source is on a machine with another one");
}
