//! `punctual import`: schedules from elsewhere, as a manifest and a report of every difference in meaning.

mod crontab;
mod kubernetes;
mod pg_cron;
mod reading;
mod shell;
mod sources;
mod systemd;
#[cfg(test)]
mod tests;
mod told;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use punctual_core::cron::zone;

use self::crontab::CrontabOptions;
use self::kubernetes::{KubernetesOptions, RunAs};
use self::reading::Reading;
use self::sources::Sources;
use self::systemd::SystemdOptions;
use self::told::OutArgs;
use super::client::api::ConnectArgs;
use super::{Output, Stop};

/// What standard input is called in reports.
const STDIN: &str = "stdin";

const EXAMPLES: &str = "Examples:\n  \
    crontab -l | punctual import crontab - > schedules.toml\n  \
    punctual import crontab /etc/crontab /etc/cron.d --dry-run\n  \
    punctual import systemd /lib/systemd/system -o timers.toml\n  \
    kubectl get cronjobs -A -o yaml | punctual import kubernetes - --strict > jobs.toml\n  \
    punctual import pg_cron postgres://postgres@db/app --apply\n\n\
    The manifest goes to standard output, the report to standard error. Nothing is changed without --apply.";

/// Schedules that are kept elsewhere.
#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum ImportCommand {
    Crontab(CrontabArgs),
    Systemd(SystemdArgs),
    Kubernetes(KubernetesArgs),
    #[command(name = "pg_cron", alias = "pg-cron")]
    PgCron(PgCronArgs),
}

/// Crontabs of users and of the system: files, folders, or standard input
#[derive(Args)]
pub(crate) struct CrontabArgs {
    /// Crontabs, folders of them such as /etc/cron.d, or - for standard input
    #[arg(value_name = "FILE|DIR|-")]
    from: Vec<PathBuf>,
    /// The lines have a column with the user [default: so in files named crontab and in cron.d]
    #[arg(long)]
    system: bool,
    /// Whose crontab it is, when it has no column that says so
    #[arg(long, value_name = "NAME", conflicts_with = "system")]
    user: Option<String>,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    out: OutArgs,
}

/// Timers of systemd and the services they start: unit files, or folders of them
#[derive(Args)]
pub(crate) struct SystemdArgs {
    /// Folders of units, or .timer files, whose services lie beside them
    #[arg(value_name = "FILE|DIR", required = true)]
    from: Vec<PathBuf>,
    /// They are this user's own units [default: the system's, but for those in a folder systemd/user]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    out: OutArgs,
}

/// `CronJob` manifests of Kubernetes, in YAML or JSON: files, folders, or standard input
#[derive(Args)]
pub(crate) struct KubernetesArgs {
    /// Manifests, folders of them, or - for standard input
    #[arg(value_name = "FILE|DIR|-")]
    from: Vec<PathBuf>,
    /// What a schedule runs: kubectl, which makes a Job in the cluster, or the container's own command on the worker
    #[arg(long, value_enum, default_value_t, value_name = "WAY")]
    run_as: RunAs,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    out: OutArgs,
}

/// Jobs of `pg_cron`: a live database, or rows of cron.job as JSON or CSV
#[derive(Args)]
pub(crate) struct PgCronArgs {
    /// The database's address, files with rows, or - for standard input
    #[arg(value_name = "URL|FILE|-")]
    from: Vec<String>,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    out: OutArgs,
}

/// The zone of the machine that the schedules come from.
#[derive(Args)]
pub(crate) struct ZoneArgs {
    /// The zone in which the source reads its times [default: this machine's; of a database its own, else UTC]
    #[arg(long, visible_alias = "timezone", value_name = "ZONE")]
    tz: Option<String>,
}

impl ZoneArgs {
    /// The zone that was given, if it is one.
    fn given(&self) -> Result<Option<String>, Stop> {
        let Some(name) = &self.tz else { return Ok(None) };
        zone(name).map_err(|error| Stop::usage(format!("--tz: {error}")))?;
        Ok(Some(name.clone()))
    }

    fn or_this_machines(&self) -> Result<String, Stop> {
        let here = || TimeZone::system().iana_name().unwrap_or("UTC").to_owned();
        Ok(self.given()?.unwrap_or_else(here))
    }
}

impl ImportCommand {
    pub(crate) async fn run(self, connect: &ConnectArgs, out: &mut Output) -> Result<(), Stop> {
        let (reading, how, source) = match self {
            Self::Crontab(args) => (args.read()?, args.out, "crontab"),
            Self::Systemd(args) => (args.read()?, args.out, "systemd"),
            Self::Kubernetes(args) => (args.read()?, args.out, "kubernetes"),
            Self::PgCron(args) => (args.read().await?, args.out, "pg_cron"),
        };
        how.tell(reading, source, connect, out).await
    }
}

impl CrontabArgs {
    fn read(&self) -> Result<Reading, Stop> {
        let timezone = self.zone.or_this_machines()?;
        let sources = Sources::crontabs(&self.from, self.system)?;
        let mut reading = Reading { remarks: sources.remarks, faults: sources.faults, ..Reading::default() };
        let homes = sources::homes();
        for file in &sources.files {
            let options = CrontabOptions {
                system: file.system,
                user: self.user.clone().or_else(|| file.user.clone()),
                timezone: timezone.clone(),
                homes: homes.clone(),
            };
            reading.extend(crontab::read(&file.path, &file.text, &options));
        }
        told::say_zone(&mut reading, &timezone, self.zone.tz.is_none());
        Ok(reading)
    }
}

impl SystemdArgs {
    fn read(&self) -> Result<Reading, Stop> {
        let timezone = self.zone.or_this_machines()?;
        let units = sources::units(&self.from)?;
        let options = SystemdOptions { timezone: timezone.clone(), homes: sources::homes(), user: self.user.clone() };
        let mut reading = systemd::read(&units.files, &options);
        reading.remarks.extend(units.remarks);
        reading.faults.extend(units.faults);
        told::say_zone(&mut reading, &timezone, self.zone.tz.is_none());
        Ok(reading)
    }
}

impl KubernetesArgs {
    fn read(&self) -> Result<Reading, Stop> {
        let sources = Sources::documents(&self.from, &["yaml", "yml", "json"])?;
        let options = KubernetesOptions { run_as: self.run_as, timezone: self.zone.given()? };
        let mut reading = Reading { remarks: sources.remarks, faults: sources.faults, ..Reading::default() };
        for file in &sources.files {
            reading.extend(kubernetes::read(&file.path, &file.text, &options));
        }
        Ok(reading)
    }
}

impl PgCronArgs {
    async fn read(&self) -> Result<Reading, Stop> {
        let timezone = self.zone.given()?;
        let is_address = |text: &&String| text.starts_with("postgres://") || text.starts_with("postgresql://");
        let mut reading = Reading::default();
        for url in self.from.iter().filter(is_address) {
            reading.extend(pg_cron::live(url, timezone.as_deref()).await?);
        }
        let files: Vec<PathBuf> = self.from.iter().filter(|text| !is_address(text)).map(PathBuf::from).collect();
        if files.is_empty() && !self.from.is_empty() {
            return Ok(reading);
        }
        let sources = Sources::documents(&files, &["json", "csv"])?;
        reading.faults.extend(sources.faults);
        for file in &sources.files {
            reading.extend(pg_cron::read(&file.path, &file.text, timezone.as_deref()));
        }
        Ok(reading)
    }
}
