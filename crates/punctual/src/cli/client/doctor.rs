//! `punctual doctor`: what is wrong, where, and what to do about it.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use super::api::{Api, with_query};
use super::show::{self, ShowArgs};
use crate::cli::{Output, Stop};

/// Look for what is wrong with the store and with those who work on it, and say what to do about it
///
/// Ends with 0 when nothing was found, or only what somebody should look at; with 1 when an invariant does not hold.
#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Leave out the checks that read every table
    #[arg(long)]
    quick: bool,
    /// End with 1 also when somebody should look at something
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    show: ShowArgs,
}

impl DoctorArgs {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let answer = api.get(&with_query("/doctor", &[("quick", self.quick.then_some("true"))])).await?;
        let diagnosis = answer.value();
        if self.show.is_for_people() {
            tell(&diagnosis, out)?;
        } else {
            show::json(out, &answer)?;
        }
        match diagnosis["worst"].as_str() {
            Some("broken") => Err(Stop::Exited(1)),
            Some(_) if self.strict => Err(Stop::Exited(1)),
            _ => Ok(()),
        }
    }
}

fn tell(diagnosis: &Value, out: &mut Output) -> std::io::Result<()> {
    let items = |key: &str| diagnosis[key].as_array().cloned().unwrap_or_default();
    let findings = items("findings");
    for finding in &findings {
        let text = |key: &str| show::plain(&finding[key]);
        out.heading(&format!("{}: {}", text("severity"), text("problem")))?;
        for subject in finding["subjects"].as_array().into_iter().flatten() {
            writeln!(out, "  {}", show::plain(subject))?;
        }
        if finding["more"] == Value::Bool(true) {
            writeln!(out, "  … and more")?;
        }
        writeln!(out, "  fix: {}", text("remedy"))?;
    }
    let looked: Vec<String> = items("looked_at")
        .iter()
        .map(|looked| match (looked["count"].as_u64(), looked["more"] == Value::Bool(true)) {
            (Some(count), true) => format!("{} ({count}, not all)", show::plain(&looked["what"])),
            (Some(count), false) => format!("{} ({count})", show::plain(&looked["what"])),
            (None, _) => show::plain(&looked["what"]),
        })
        .collect();
    if findings.is_empty() {
        writeln!(out, "nothing is wrong")?;
    }
    writeln!(out, "looked at: {}", looked.join(", "))
}
