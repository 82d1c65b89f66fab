//! Who plays in the demo: its schedules, queues and nodes, each there for something worth seeing.

use jiff::SignedDuration;
use punctual_core::id::ScheduleId;
use punctual_core::job::Timeout;
use punctual_core::json::Json;
use punctual_core::name::Name;
use punctual_core::retry::{Backoff, RetryPolicy};
use punctual_core::schedule::{Dependency, Missed, Overlap, ScheduleDefinition};
use punctual_core::store::StoreResult;
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use serde_json::json;

/// The tasks that the demo's nodes offer.
pub(super) const TASKS: [&str; 10] = [
    "email.send",
    "email.batch",
    "image.resize",
    "image.sweep",
    "invoice.render",
    "invoice.sync",
    "newsletter.send",
    "report.render",
    "search.reindex",
    "video.transcode",
];

/// The task that only one node offered, until it left.
pub(super) const ORPHAN: &str = "warehouse.export";

/// The queue that is paused.
pub(super) const PAUSED_QUEUE: &str = "newsletter";

/// The schedule that is paused.
pub(super) const PAUSED: &str = "session-cleanup";

/// The schedule whose target nobody offers any more.
pub(super) const OVERDUE: &str = "warehouse-export";

/// The schedule that fails, and that another one depends on.
pub(super) const FAILING: &str = "invoice-sync";

/// The schedule that depends on the failing one, and is skipped therefore.
pub(super) const SKIPPED: &str = "invoice-pdf";

/// What a node needs to offer for a task.
pub(super) fn offer(task: &str) -> String {
    Target::task(task).job_type()
}

/// What the demo's own nodes can run.
pub(super) fn offers() -> Vec<String> {
    TASKS.iter().map(|task| offer(task)).chain(["command".to_owned()]).collect()
}

/// The schedules that are there from the first day, but for the one that must know another.
pub(super) fn schedules() -> StoreResult<Vec<ScheduleDefinition>> {
    Ok(vec![
        mail_outbox()?,
        search_reindex()?,
        failing()?,
        nightly_backup()?,
        orphan()?,
        price_feed()?,
        paused()?,
        image_sweep()?,
        newsletter()?,
        sales_report()?,
        weekly_summary()?,
    ])
}

/// Runs only when the invoices were synchronised a little earlier.
pub(super) fn invoice_pdf(sync: ScheduleId) -> StoreResult<ScheduleDefinition> {
    let within = SignedDuration::from_mins(90);
    Ok(ScheduleDefinition {
        description: "Invoices as PDF, once they are in".to_owned(),
        depends_on: Some(Dependency { schedule_id: sync, within }),
        ..define(SKIPPED, TimingSpec::cron("35 * * * *", "UTC"), "billing", "billing", task("invoice.render"))?
    })
}

/// Fires every few seconds; it is added shortly before the demo begins, so that something moves at once.
pub(super) fn uptime_check() -> StoreResult<ScheduleDefinition> {
    let every = TimingSpec::Every { period: SignedDuration::from_secs(5) };
    let check = shell("uptime-check", "for site in shop api admin; do echo \"$site answers\"; done");
    Ok(ScheduleDefinition {
        description: "Do the sites answer?".to_owned(),
        missed: Missed::SKIP,
        timeout: Timeout::After(SignedDuration::from_secs(30)),
        ..define("uptime-check", every, "maintenance", "platform", check)?
    })
}

fn mail_outbox() -> StoreResult<ScheduleDefinition> {
    Ok(ScheduleDefinition {
        description: "Mails that were put off".to_owned(),
        ..define("mail-outbox", TimingSpec::cron("*/15 * * * *", "UTC"), "mail", "crm", task("email.batch"))?
    })
}

/// Takes longer from day to day, until it is in its own way.
fn search_reindex() -> StoreResult<ScheduleDefinition> {
    Ok(ScheduleDefinition {
        description: "The product search, from the catalogue".to_owned(),
        overlap: Overlap::Forbid,
        missed: Missed::SKIP,
        ..define(
            "search-reindex",
            TimingSpec::cron("*/20 * * * *", "UTC"),
            "maintenance",
            "platform",
            task("search.reindex"),
        )?
    })
}

fn failing() -> StoreResult<ScheduleDefinition> {
    let retry = RetryPolicy {
        max_attempts: 3,
        backoff: Backoff::Fixed,
        base: SignedDuration::from_mins(2),
        ..RetryPolicy::default()
    };
    Ok(ScheduleDefinition {
        description: "Invoices of the last hour, from the ERP".to_owned(),
        priority: 5,
        serial: true,
        retry,
        input: json_of(&json!({ "source": "https://erp.example.com/v2/invoices" }))?,
        ..define(FAILING, TimingSpec::cron("5 * * * *", "UTC"), "billing", "billing", task("invoice.sync"))?
    })
}

/// Its time comes twice in one night of the year, and not at all in another.
fn nightly_backup() -> StoreResult<ScheduleDefinition> {
    let script = "echo 'dumping shop'; sleep 3; echo 'dumping crm'; sleep 2; echo 'uploaded, 4.2 GB'";
    let mut definition = define(
        "nightly-backup",
        TimingSpec::cron("30 2 * * *", "Europe/Berlin"),
        "maintenance",
        "platform",
        shell("nightly-backup", script),
    )?;
    definition.labels.insert("tier".to_owned(), "critical".to_owned());
    Ok(ScheduleDefinition {
        description: "All databases, off site".to_owned(),
        priority: 10,
        serial: true,
        timeout: Timeout::After(SignedDuration::from_hours(2)),
        ..definition
    })
}

fn orphan() -> StoreResult<ScheduleDefinition> {
    Ok(ScheduleDefinition {
        description: "Orders for the warehouse".to_owned(),
        ..define(OVERDUE, TimingSpec::cron("15 * * * *", "UTC"), "reports", "logistics", task(ORPHAN))?
    })
}

/// Old prices are worth nothing, so that what was missed stays missed.
fn price_feed() -> StoreResult<ScheduleDefinition> {
    let script = "echo 'reading the reference rates'; sleep 0.3; echo '31 rates stored'";
    Ok(ScheduleDefinition {
        description: "Exchange rates".to_owned(),
        missed: Missed::SKIP,
        ..define(
            "price-feed",
            TimingSpec::cron("10,25,40,55 * * * *", "UTC"),
            "reports",
            "billing",
            shell("price-feed", script),
        )?
    })
}

fn paused() -> StoreResult<ScheduleDefinition> {
    Ok(ScheduleDefinition {
        description: "Sessions that are over".to_owned(),
        ..define(
            PAUSED,
            TimingSpec::cron("*/30 * * * *", "UTC"),
            "maintenance",
            "platform",
            shell(PAUSED, "echo '1204 sessions removed'"),
        )?
    })
}

/// What was missed is made up for, slot by slot.
fn image_sweep() -> StoreResult<ScheduleDefinition> {
    let every = TimingSpec::Every { period: SignedDuration::from_mins(30) };
    Ok(ScheduleDefinition {
        description: "Pictures without a thumbnail".to_owned(),
        missed: Missed::all(10),
        ..define("image-sweep", every, "images", "shop", task("image.sweep"))?
    })
}

fn newsletter() -> StoreResult<ScheduleDefinition> {
    Ok(ScheduleDefinition {
        description: "The daily newsletter".to_owned(),
        priority: -10,
        input: json_of(&json!({ "list": "daily", "n": 0 }))?,
        ..define(
            "daily-newsletter",
            TimingSpec::cron("0 9 * * *", "Europe/Berlin"),
            PAUSED_QUEUE,
            "crm",
            task("newsletter.send"),
        )?
    })
}

fn sales_report() -> StoreResult<ScheduleDefinition> {
    Ok(ScheduleDefinition {
        description: "Yesterday's sales, for the sales team".to_owned(),
        input: json_of(&json!({ "report": "sales", "format": "csv" }))?,
        ..define(
            "sales-report",
            TimingSpec::cron("0 7 * * 1-5", "America/New_York"),
            "reports",
            "sales",
            task("report.render"),
        )?
    })
}

fn weekly_summary() -> StoreResult<ScheduleDefinition> {
    let script = "echo 'seven days of figures'; sleep 1; echo 'sent to 12 people'";
    Ok(ScheduleDefinition {
        description: "The week in figures".to_owned(),
        ..define(
            "weekly-summary",
            TimingSpec::cron("0 8 * * 1", "Europe/London"),
            "reports",
            "sales",
            shell("weekly-summary", script),
        )?
    })
}

fn define(name: &str, timing: TimingSpec, queue: &str, team: &str, target: Target) -> StoreResult<ScheduleDefinition> {
    let labels = [("team", team), ("env", "production")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    Ok(ScheduleDefinition {
        queue: queue.to_owned(),
        labels: labels.into(),
        ..ScheduleDefinition::new(Name::new(name)?, timing, target)
    })
}

fn task(name: &str) -> Target {
    Target::task(name)
}

/// A few lines of shell under a name, which the shell knows as `$0`.
fn shell(name: &str, script: &str) -> Target {
    Target::command(["sh", "-c", script, name])
}

pub(super) fn json_of(value: &serde_json::Value) -> StoreResult<Json> {
    Ok(Json::from_value("input", value)?)
}
