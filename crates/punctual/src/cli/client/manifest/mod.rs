//! `punctual plan`, `apply` and `export`: schedules, and what they need, as files.

mod files;
pub(crate) mod print;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use self::files::Files;
use super::api::{Answer, Api, ConnectArgs, with_query};
use super::show;
use crate::cli::document::{Document, Format, write};
use crate::cli::{Exit, Output, Stop};

/// Which files, and what is done about them.
#[derive(Args)]
pub(crate) struct ManifestArgs {
    /// A file, a folder of files, or - for standard input; several are one manifest
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Whose manifest it is, unless the files say so
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Remove what this owner's manifest had and has no longer
    #[arg(long)]
    prune: bool,
    /// Take over what is there already and no manifest has
    #[arg(long)]
    adopt: bool,
    /// How many fires of each schedule to compare
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=100))]
    fires: u32,
    /// What standard input is written in
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "toml")]
    format: Format,
    /// Print JSON, as the API answers it
    #[arg(long)]
    json: bool,
}

impl ManifestArgs {
    fn read(&self) -> Result<Files, Stop> {
        Files::read(&self.files, self.format, self.owner.as_deref())
    }

    fn body(&self, files: &Files) -> Value {
        json!({ "manifest": files.manifest, "prune": self.prune, "adopt": self.adopt, "fires": self.fires })
    }

    fn show(&self, out: &mut Output, answer: &Answer) -> Result<(), Stop> {
        if self.json { Ok(show::json(out, answer)?) } else { Ok(print::plan(out, &answer.value())?) }
    }
}

/// Say what files would change, field by field, and how the next fires would move
#[derive(Args)]
#[command(after_help = "Examples:\n  punctual plan -f schedules.toml\n  \
    punctual plan -f schedules/ --owner billing --prune --check")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    manifest: ManifestArgs,
    /// End with code 9 when there is anything to do, or was changed by hand: for CI
    #[arg(long)]
    check: bool,
}

impl PlanArgs {
    pub(crate) async fn run(self, connect: &ConnectArgs, out: &mut Output) -> Result<(), Stop> {
        let files = self.manifest.read()?;
        let api = connect.connect().await?;
        let plan = ask(&api, "/manifest/plan", &self.manifest.body(&files), false, &files).await?;
        self.manifest.show(out, &plan)?;
        if self.check && plan.value()["is_empty"] == false {
            return Err(Stop::Exited(Exit::Differs as u8));
        }
        Ok(())
    }
}

/// Carry out what files say: all of it, or nothing
#[derive(Args)]
#[command(after_help = "Examples:\n  punctual apply -f schedules.toml\n  \
    punctual apply -f schedules/ --owner billing --prune --yes")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    manifest: ManifestArgs,
    /// Do not ask before
    #[arg(long)]
    yes: bool,
}

impl ApplyArgs {
    pub(crate) async fn run(self, connect: &ConnectArgs, out: &mut Output) -> Result<(), Stop> {
        let files = self.manifest.read()?;
        let api = connect.connect().await?;
        let mut body = self.manifest.body(&files);
        // Who is asked, and where: what is printed may go into a file meanwhile.
        let asks = !self.yes && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        // JSON is one document, which says what was done.
        if asks || !self.manifest.json {
            let plan = ask(&api, "/manifest/plan", &body, false, &files).await?;
            self.manifest.show(out, &plan)?;
            out.flush()?;
            if asks && plan.value()["is_empty"] == false && !is_confirmed()? {
                return Err(Stop::failure("nothing was changed"));
            }
            // What was looked at, and nothing else.
            body["if_plan"] = plan.value()["digest"].clone();
        }
        let done = ask(&api, "/manifest/apply", &body, true, &files).await?;
        if !asks && self.manifest.json {
            self.manifest.show(out, &done)?;
        }
        if !self.manifest.json && done.value()["is_empty"] == false {
            writeln!(out, "Applied.")?;
        }
        Ok(())
    }
}

fn is_confirmed() -> Result<bool, Stop> {
    write!(std::io::stderr(), "Apply this? [y/N] ")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

async fn ask(api: &Api, path: &str, body: &Value, once: bool, files: &Files) -> Result<Answer, Stop> {
    let asked = api.ask(path, body, once).await.map_err(|stop| match stop {
        Stop::Failed(Exit::Timeout, told) if once => {
            Stop::Failed(Exit::Timeout, format!("{told}; it may have been carried out all the same: plan again"))
        }
        stop => stop,
    });
    asked?.map_err(|refused| files.refusal(refused.exit(), &refused.problem).unwrap_or_else(|| refused.into_stop()))
}

/// Write down what is there as a manifest; applied again it changes nothing
#[derive(Args)]
#[command(after_help = "Examples:\n  punctual export --owner billing -o schedules.toml\n  \
    punctual export --format yaml")]
pub(crate) struct ExportArgs {
    /// Only what this owner's manifest has [default: everything that you may see]
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// What it is written in [default: what the file's name says, else TOML]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Where to write it [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl ExportArgs {
    pub(crate) async fn run(self, api: &Api, out: &mut Output) -> Result<(), Stop> {
        let said = self.output.as_deref().and_then(Format::of);
        let format = self.format.or(said).unwrap_or(Format::Toml);
        let answer = api.get_patiently(&with_query("/manifest", &[("owner", self.owner.as_deref())])).await?;
        let manifest = exactly(&answer)?;
        if let (Format::Toml, Some(at)) = (format, null_in(&manifest, "")) {
            return Err(Stop::usage(format!("{at} is null, which TOML cannot say; use --format yaml or json")));
        }
        let text = write(format, &manifest).map_err(Stop::usage)?;
        match &self.output {
            None => Ok(out.write_all(text.as_bytes())?),
            Some(file) => std::fs::write(file, text)
                .map_err(|error| Stop::failure(format!("{} cannot be written: {error}", file.display()))),
        }
    }
}

/// What was answered, with every digit; a number that would lose some is not written at all.
fn exactly(answer: &Answer) -> Result<Value, Stop> {
    let read = Document::parse(Format::Json, answer.text()).map_err(|broken| {
        let remedy = "take it from GET /api/v1/manifest as it is";
        Stop::failure(format!("this cannot be written down: {}, or {remedy}", broken.problem))
    })?;
    Ok(read.into_iter().next().map_or(Value::Null, |document| document.value))
}

/// The first place that holds `null`.
fn null_in(value: &Value, at: &str) -> Option<String> {
    let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    match value {
        Value::Null => Some(at.to_owned()),
        Value::Array(items) => items.iter().enumerate().find_map(|(n, item)| null_in(item, &below(&n.to_string()))),
        Value::Object(fields) => fields.iter().find_map(|(name, field)| null_in(field, &below(name))),
        _ => None,
    }
}
