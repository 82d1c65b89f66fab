//! A report every night at two, Berlin time; and a rehearsal of a week of them in a moment.
//!
//! ```sh
//! cargo run --example nightly_report                  # runs until Ctrl-C
//! cargo run --example nightly_report -- --rehearse    # the week in which the clocks change
//! ```

use punctual::testing::TestPunctual;
use punctual::{Backoff, Context, Missed, Overlap, Punctual, RetryPolicy, SignedDuration, TaskError};
use std::time::Duration;

#[derive(serde::Serialize, serde::Deserialize)]
struct Report {
    team: String,
}

/// What the program declares, at every start; the same for the rehearsal and in earnest.
async fn declare(punctual: &Punctual) -> punctual::Result<punctual::Schedule> {
    punctual.task("report", |context: Context, report: Report| async move {
        let night = context.job.slot_at.map_or_else(|| "by hand".to_owned(), |slot_at| slot_at.to_string());
        Ok::<_, TaskError>(format!("report of {} for the night of {night}", report.team))
    });
    punctual
        .schedule("nightly report")
        .description("What the team did yesterday")
        .cron("0 2 * * *")?
        .timezone("Europe/Berlin")?
        .task("report")
        .input(&Report { team: "billing".to_owned() })?
        .missed(Missed::ONCE)
        .overlap(Overlap::Forbid)
        .retry(RetryPolicy {
            max_attempts: 5,
            backoff: Backoff::Exponential,
            base: SignedDuration::from_mins(1),
            max: SignedDuration::from_hours(1),
            ..RetryPolicy::default()
        })
        .timeout(Duration::from_secs(15 * 60))
        .save()
        .await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().any(|argument| argument == "--rehearse") {
        return Ok(rehearse().await?);
    }
    let database = std::env::var("PUNCTUAL_DATABASE").unwrap_or_else(|_| "sqlite:nightly_report.db".to_owned());
    let punctual = Punctual::builder(&database).name("nightly_report").open().await?;
    let schedule = declare(&punctual).await?;
    if let Some(next) = schedule.state.next_run_at {
        println!("the next report is due at {next}");
    }
    punctual.run_until(async { drop(tokio::signal::ctrl_c().await) }).await?;
    println!("stopped");
    Ok(())
}

async fn rehearse() -> punctual::Result<()> {
    let test = TestPunctual::new().await?;
    declare(&test).await?;
    // On the 29th of March 2026 there is no two o'clock in Berlin.
    test.sleep(Duration::from_secs(25 * 24 * 3600));
    for run in test.advance(Duration::from_secs(7 * 24 * 3600)).await? {
        println!("{} {}", run.at, run.output::<String>()?);
    }
    Ok(())
}
